"""What does the folder of a finished run say?

Everything comes from its files: the summary, the configuration, the riskiest records, and the risk of every record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rarecell.errors import BadInput
from rarecell.outcome.records import RiskyRecord
from rarecell.outcome.summary import RunSummary
from rarecell.outcome.verdict import Verdict, verdict
from rarecell.report import RISKIEST_FILE
from rarecell.run.config import RunConfig
from rarecell.run.folder import finish_publishing


@dataclass(frozen=True, repr=False)
class SavedRun:
    """A finished run, read back from its folder.

    Attributes
    ----------
    place : Path
        The folder.
    name : str
        What it is called.
    summary : RunSummary
        Every number of the run.
    record : mapping
        The contents of ``run.json``: versions, input, seed, timings.
    """

    place: Path
    name: str
    summary: RunSummary
    record: Mapping[str, Any]

    @classmethod
    def read(cls, place: str | Path, name: str | None = None) -> Self:
        """Read a run folder; an error in one paragraph when it is not one."""
        folder = Path(place)
        called = str(place) if name is None else name
        finish_publishing(folder)
        try:
            given = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
            record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
            if not isinstance(record, dict):
                raise BadInput("its run record is not what rarecell writes")
            return cls(folder, called, RunSummary.from_dict(given), record)
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
            return (self.place / "run.toml").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    @property
    def config(self) -> RunConfig:
        return RunConfig.from_toml(self.run_toml, source=f"run.toml of {self.name}")

    def riskiest(self) -> tuple[RiskyRecord, ...]:
        """The riskiest records with their values: for internal use. Empty where the run wrote none."""
        try:
            stored = json.loads((self.place / RISKIEST_FILE).read_text(encoding="utf-8"))
            return tuple(RiskyRecord.from_dict(one, where="riskiest record") for one in stored)
        except (OSError, ValueError, TypeError, BadInput):
            return ()

    def to_frame(self) -> Any:
        """The risk of every record, as a pyarrow table."""
        import pyarrow.parquet as pq

        return pq.read_table(self.place / "risk.parquet")

    def __str__(self) -> str:
        return str(self.verdict)

    def __repr__(self) -> str:
        return f"<SavedRun {self.name}: {self.verdict.headline}>"

    def _repr_html_(self) -> str:
        from rarecell.report.card import card

        return card(self.summary)


def load(folder: str | Path) -> SavedRun:
    """Read the folder of a finished run.

    Parameters
    ----------
    folder : str or Path
        What ``out=`` or ``--out`` named.

    Returns
    -------
    SavedRun
    """
    return SavedRun.read(folder)
