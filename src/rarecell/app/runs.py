"""What does the app know about a finished run?

Everything comes from the files of the run folder: the summary, the configuration, the table of the riskiest records, and
the risk file, from which the cost of every threshold is counted.
"""

from __future__ import annotations

import datetime
import itertools
import json
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from rarecell.engine.places import read_small_text, regular_file
from rarecell.errors import BadInput
from rarecell.machine.memory import gigabytes
from rarecell.outcome.decision import profile_of, target_of
from rarecell.outcome.words import listed, percent
from rarecell.report.table import Table
from rarecell.report.tables import timings_table
from rarecell.run.saved import FAMILY_RISK, SavedRun, risk_columns_of, risk_of_records

if TYPE_CHECKING:
    from rarecell.edges import Json


N_STEPS = 100
"""Thresholds of the slider: 0, 0.01, …, 1."""

TABLE_OF_THRESHOLDS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Thresholds offered where there is no slider."""

DOWNLOADS = {
    "report.html": "the report, internal edition",
    "report-external.html": "the report, external edition",
    "risk.parquet": "the risk of every record",
    "swaps.parquet": "who was swapped with whom",
    "exchanged.parquet": "who exchanged sensitive values with whom",
    "suppressed.parquet": "which values were blanked",
    "release-key.parquet": "which row of the handover is which record",
    "handover.json": "who handed over what, and why",
    "recoding.csv": "which values became which level",
    "summary.json": "all numbers of the report",
    "model.json": "the model",
    "zeros.json": "combinations that look impossible",
    "run.toml": "the choices of this run",
    "run.json": "versions, input hash, timings",
}
"""Files of a run and their meaning, all of them internal; the protected file, if there is one, comes first."""

HANDED_OVER = {
    "codebook.csv": "columns, levels, and what was done to each",
    "codebook.xml": "the same as DDI-Codebook 2.5",
    "recoding.csv": "which values became which level",
    "about.html": "one page for users of the data",
    "report.html": "the report, external edition",
}
"""Files of a handover and their meaning; the data come first."""


class FinishedRun(SavedRun):
    """A run folder as the app shows it."""

    @property
    def when(self) -> str:
        """Date and time of the run, according to the file system."""
        return datetime.datetime.fromtimestamp((self.place / "run.json").stat().st_mtime).strftime("%Y-%m-%d %H:%M")

    @property
    def input_name(self) -> str:
        return Path(str(self.record.get("input", {}).get("path", ""))).name

    def downloads(self) -> list[tuple[str, str, int]]:
        """Name, meaning and size of the files that exist."""
        protected = [
            (path.name, "the protected file, row by row as the input") for path in sorted(self.place.glob("protected.*"))
        ]
        listed = [*protected, *DOWNLOADS.items()]
        return [(name, what, (self.place / name).stat().st_size) for name, what in listed if (self.place / name).is_file()]

    def timings(self) -> Table | None:
        """How long each stage took; None for a run that did not note it."""
        seconds, processor = self.record.get("seconds", {}), self.record.get("processor_seconds", {})
        return timings_table(seconds, processor) if seconds and processor else None

    @property
    def peak_memory(self) -> str:
        """The most memory that the run has held, in words; empty if it did not note it."""
        peak = self.record.get("peak_memory")
        return gigabytes(peak) if isinstance(peak, int) else ""

    def handed_over(self) -> list[tuple[str, str, int]]:
        """Name, meaning and size of the files that may leave the office; none before a handover."""
        folder = self.place / "handover"
        data = [(path.name, "the data") for path in sorted(folder.glob("data.*"))]
        listed = [*data, *HANDED_OVER.items()]
        return [(f"handover/{name}", what, (folder / name).stat().st_size) for name, what in listed if (folder / name).is_file()]

    def signed_by(self) -> str:
        """Who is responsible for the handover; empty before one."""
        try:
            record = json.loads(read_small_text(self.place / "handover.json"))
        except (OSError, ValueError, RecursionError, BadInput):
            return ""
        return str(record.get("signed_by", "")) if isinstance(record, dict) else ""

    def threshold_costs(self) -> list[Json]:
        """For each threshold: the records above it, the recognisable ones left below it, and records that cannot be swapped."""
        path = self.place / "risk.parquet"
        try:
            if not path.is_dir():
                regular_file(path)
            return list(_threshold_costs(str(path), path.stat().st_mtime_ns, self.config.households_known == "yes"))
        except (OSError, ValueError, KeyError, BadInput):
            return []


def allowed_by_profile(run: FinishedRun) -> str:
    """What the profile of a run allows, as far as swaps can be made towards it; empty if it says nothing of that."""
    profile = profile_of(run.summary)
    limits = target_of(run.summary, profile)
    words = {"max_record_risk": "a risk of {}", "max_correct_links": "{} correct links"}
    named = [sentence.format(limits[name]) for name, sentence in words.items() if name in limits]
    return f"The profile '{profile.name}' allows {listed(named)}." if named else ""


@lru_cache(maxsize=16)
def _threshold_costs(path: str, stamp: int, families_known: bool) -> tuple[Json, ...]:
    import numpy as np
    import pyarrow.dataset as ds

    file = ds.dataset(path)
    has_families = families_known and FAMILY_RISK in file.schema.names
    thresholds = np.arange(N_STEPS + 1) / N_STEPS
    records, expected, stuck = (np.zeros(N_STEPS + 1) for _ in range(3))
    total = 0
    for batch in file.to_batches(columns=[*risk_columns_of(file.schema), "swappable"]):
        risk = risk_of_records(batch, with_families=has_families)
        is_stuck = ~batch.column("swappable").to_numpy(zero_copy_only=False).astype(bool)
        total += len(risk)
        # Number of thresholds below the risk: a record is swapped if its risk exceeds the threshold.
        n_below = np.searchsorted(thresholds, risk, side="left")
        for into, weights in ((records, None), (expected, risk), (stuck, is_stuck.astype(float))):
            counted = np.bincount(n_below, weights=weights, minlength=N_STEPS + 2)
            into += counted[::-1].cumsum()[::-1][1:]
    return tuple(
        {
            "threshold": float(threshold),
            "records": int(records[k]),
            "share": float(records[k] / total) if total else 0.0,
            "percent": percent(records[k] / total if total else 0.0),
            "left": float(expected[0] - expected[k]),
            # Whether a household finds a partner is not known before swaps are planned.
            "stuck": None if has_families else int(stuck[k]),
        }
        for k, threshold in enumerate(thresholds)
    )


# Where are choices kept that were sent but not yet run, so that they survive a failure, a cancellation or a detour?


MOST = 100
"""Number of drafts kept; the oldest is dropped first."""

Fields = Mapping[str, Sequence[str]]


class Drafts:
    """Forms by number, in memory only: they name columns and values of confidential files."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._kept: dict[int, dict[str, list[str]]] = {}
        self._lock = threading.Lock()

    def keep(self, fields: Fields) -> int:
        """Keep a form, and return its number."""
        with self._lock:
            number = next(self._numbers)
            self._kept[number] = {name: list(values) for name, values in fields.items()}
            while len(self._kept) > MOST:
                del self._kept[next(iter(self._kept))]
        return number

    def of(self, text: str) -> dict[str, list[str]]:
        """The form with the number given in an address; empty if there is none."""
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            return {}
        return {name: list(values) for name, values in self._kept.get(int(text), {}).items()}
