"""What is in the folder of a finished run?

Everything comes from its files: the summary, the configuration, the riskiest records and the risk of every record.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow.parquet as pq

from rarecell.engine.reach import read_small_text
from rarecell.errors import BadInput
from rarecell.outcome.records import RiskyRecord
from rarecell.outcome.summary import RunSummary
from rarecell.outcome.verdict import Verdict, verdict
from rarecell.report import RISKIEST_FILE
from rarecell.run.config import RunConfig
from rarecell.run.folder import finish_publishing

if TYPE_CHECKING:
    from rarecell.edges import Frame, ReadJson


@dataclass(frozen=True, repr=False)
class SavedRun:
    """A finished run, read back from its folder.

    Attributes
    ----------
    place : Path
        The folder.
    name : str
        The name of the run.
    summary : RunSummary
        Every number of the run.
    record : mapping
        The contents of ``run.json``: versions, input, seed, timings.
    """

    place: Path
    name: str
    summary: RunSummary
    record: ReadJson

    @classmethod
    def read(cls, place: str | Path, name: str | None = None) -> Self:
        """Read a run folder; if it is not one, the error says so in one paragraph."""
        folder = Path(place)
        called = str(place) if name is None else name
        try:
            finish_publishing(folder)
            given = json.loads(read_small_text(folder / "summary.json"))
            record = json.loads(read_small_text(folder / "run.json"))
            return cls(folder, called, RunSummary.from_dict(given), _checked_record(record))
        except (OSError, ValueError, RecursionError, BadInput) as problem:
            raise BadInput(f"'{called}' is not the folder of a finished run: {problem}") from None

    @property
    def is_protected(self) -> bool:
        return self.summary.swap is not None

    @property
    def verdict(self) -> Verdict:
        return verdict(self.summary)

    @property
    def run_toml(self) -> str:
        try:
            return read_small_text(self.place / "run.toml")
        except (OSError, UnicodeDecodeError, BadInput):
            return ""

    @property
    def config(self) -> RunConfig:
        return RunConfig.from_toml(self.run_toml, source=f"run.toml of {self.name}")

    def riskiest(self) -> tuple[RiskyRecord, ...]:
        """The riskiest records with their values, for internal use. Empty if the run wrote none."""
        try:
            stored = json.loads(read_small_text(self.place / RISKIEST_FILE))
            return tuple(RiskyRecord.from_dict(one, where="riskiest record") for one in stored)
        except (OSError, ValueError, TypeError, RecursionError, BadInput):
            return ()

    def to_frame(self) -> Frame:
        """The risk of every record, as a pyarrow table."""
        return pq.read_table(self.place / "risk.parquet")

    def __str__(self) -> str:
        return str(self.verdict)

    def __repr__(self) -> str:
        return f"<SavedRun {self.name}: {self.verdict.headline}>"

    def _repr_html_(self) -> str:
        from rarecell.report.card import card

        return card(self.summary)


def _checked_record(record: Any) -> ReadJson:
    """Return a run record after checking the types of its parts."""
    is_sound = isinstance(record, dict) and isinstance(record.get("input", {}), dict)
    seconds = record.get("seconds", {}) if is_sound else None
    if not isinstance(seconds, dict) or not all(
        isinstance(spent, int | float) and 0 <= spent < float("inf") for spent in seconds.values()
    ):
        raise BadInput("its run record is not what rarecell writes.")
    return dict(record)


def load(folder: str | Path) -> SavedRun:
    """Read the folder of a finished run.

    Parameters
    ----------
    folder : str or Path
        The folder given by ``out=`` or ``--out``.

    Returns
    -------
    SavedRun
        The run, read back from its files.
    """
    return SavedRun.read(folder)
