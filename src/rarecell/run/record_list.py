"""Which records of a run are at risk, and what became of each? For internal use.

Risk comes from ``risk.parquet``, changes from ``swaps.parquet`` and ``suppressed.parquet``, and values from the input and the
released file. Only the records that are shown are read from these two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rarecell.data.names import names_in
from rarecell.engine.duck import EngineSettings
from rarecell.engine.opening import open_file
from rarecell.engine.source import Source
from rarecell.errors import BadInput
from rarecell.run.config import RunConfig

if TYPE_CHECKING:
    from rarecell.edges import Columns, Frame

SORTS = ("risk", "record", "distance")
"""Orders in which records can be sorted."""

STATES = ("all", "unique", "risky", "swapped", "blanked")
"""States by which records can be selected."""


@dataclass(frozen=True)
class Wanted:
    """Which records to list: a state, a value of a column, an order.

    ``above`` is the risk from which a record counts as risky; an empty ``column`` selects every value.
    """

    state: str = "all"
    column: str = ""
    value: str = ""
    sort: str = "risk"
    above: float = 0.2

    def __post_init__(self) -> None:
        if self.state not in STATES or self.sort not in SORTS:
            raise BadInput(f"Records are listed as {', '.join(STATES)} and sorted by {', '.join(SORTS)}.")


@dataclass(frozen=True)
class ListedValue:
    """A value as it was and as released; ``how`` is ``same``, ``swapped``, ``blanked`` or ``recoded``."""

    column: str
    original: str
    released: str | None
    how: str
    moved_by: float | None = None


@dataclass(frozen=True)
class ListedRecord:
    """A record with its original risk, what was done to it, and its values; ``record`` counts from 0."""

    record: int
    risk: float
    cell_count: int
    values: tuple[ListedValue, ...]
    partner: int | None = None
    distance: float | None = None


class RecordList:
    """The records of a finished run.

    Parameters
    ----------
    place : Path
        The run folder.
    config : RunConfig
        Its configuration, with an input that can be opened from here.
    """

    def __init__(self, place: Path, config: RunConfig) -> None:
        self.place = place
        self.config = config
        risk = pq.read_table(place / "risk.parquet", columns=["record", "cell_count", "unique_probability"])
        records = risk["record"].to_numpy()
        if not np.array_equal(records, np.arange(len(records))):
            raise BadInput("The records of this run have no order, so they cannot be listed beside the file.")
        self.risk: NDArray[np.float64] = risk["unique_probability"].to_numpy()
        self.cell_count: NDArray[np.int64] = risk["cell_count"].to_numpy()
        self.swapped = self._swapped()
        self.blanked = self._blanked()

    def _swapped(self) -> dict[int, tuple[int, frozenset[str], float | None]]:
        """For each record with new values: its partner, the keys, and how far apart the two were.

        A formal release has no pairs: values of a record may come from several others, of which the first is named, and there
        is no distance.
        """
        path = self.place / "swaps.parquet"
        found: dict[int, tuple[int, frozenset[str], float | None]] = {}
        for row in pq.read_table(path).to_pylist() if path.is_file() else ():
            record, partner, keys = row["record"], row["partner"], frozenset(names_in(row["variables"]))
            if "distance" not in row:
                first, others, _ = found.get(int(record), (int(partner), frozenset(), None))
                found[int(record)] = (first, keys | others, None)
            elif record is not None and partner is not None:
                found[int(record)] = (int(partner), keys, float(row["distance"]))
                found[int(partner)] = (int(record), keys, float(row["distance"]))
        return found

    def _blanked(self) -> dict[int, frozenset[str]]:
        path = self.place / "suppressed.parquet"
        if not path.is_file():
            return {}
        found: dict[int, set[str]] = {}
        for row in pq.read_table(path).to_pylist():
            found.setdefault(int(row["record"]), set()).update(names_in(row["variables"]))
        return {record: frozenset(keys) for record, keys in found.items()}

    # ------------------------------------------------------------------ which

    def rows(self, wanted: Wanted) -> NDArray[np.int64]:
        """The rows of the records asked for, in the order asked for."""
        chosen = np.ones(len(self.risk), dtype=bool)
        if wanted.state == "unique":
            chosen = self.cell_count == 1
        elif wanted.state == "risky":
            chosen = (self.cell_count == 1) & (self.risk >= wanted.above)
        elif wanted.state in ("swapped", "blanked"):
            chosen = np.zeros(len(self.risk), dtype=bool)
            chosen[list(self.swapped if wanted.state == "swapped" else self.blanked)] = True
        if wanted.column:
            chosen &= self._has_value(wanted.column, wanted.value)
        rows = np.flatnonzero(chosen)
        if wanted.sort == "risk":
            return rows[np.argsort(-self.risk[rows], kind="stable")]
        if wanted.sort == "distance":
            far = [self.swapped[row][2] if row in self.swapped else None for row in rows.tolist()]
            return rows[np.argsort([1.0 if distance is None else -distance for distance in far], kind="stable")]
        return rows

    def _has_value(self, column: str, value: str) -> NDArray[np.bool_]:
        if column not in self.columns:
            raise BadInput(f"There is no column '{column}' in {self.original.name}.")
        encoded = self.original.encode([column]).columns[0]
        is_meant = np.array([_shown(held) == value.strip() for held in encoded.values.to_pylist()], dtype=bool)
        return np.asarray(is_meant[encoded.codes], dtype=bool)

    # ------------------------------------------------------------------ values

    @cached_property
    def original(self) -> Source:
        settings = EngineSettings(encoding=self.config.encoding, sheet=self.config.sheet, decimal=self.config.decimal)
        return open_file(self.config.input, settings=settings)

    @cached_property
    def released(self) -> Source | None:
        written = sorted(self.place.glob("protected.*"))
        return open_file(written[0], settings=EngineSettings(encoding=self.config.encoding)) if written else None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.original.columns())

    def records(self, rows: NDArray[np.int64]) -> list[ListedRecord]:
        """Read records with their values of the keys, original and released."""
        if not len(rows):
            return []
        before = self.original.take(rows, self.config.keys)
        after = None if self.released is None else self.released.take(rows, self.config.keys)
        return [self._listed(int(row), place, before, after) for place, row in enumerate(rows)]

    def _listed(self, row: int, place: int, before: Columns, after: Columns | None) -> ListedRecord:
        partner, moved, distance = self.swapped.get(row, (None, frozenset(), None))
        values = [
            _value(
                key,
                before[key][place].as_py(),
                None if after is None else _shown(after[key][place].as_py()),
                "blanked" if key in self.blanked.get(row, ()) else "swapped" if key in moved else "",
            )
            for key in self.config.keys
        ]
        return ListedRecord(row, float(self.risk[row]), int(self.cell_count[row]), tuple(values), partner, distance)


def _value(column: str, original: Frame, released: str | None, done: str) -> ListedValue:
    """Compare a value with its released form; one that differs though no swap moved it was recoded."""
    shown = _shown(original)
    is_same = released is None or shown == released
    how = "same" if is_same else done or "recoded"
    moved_by = None if is_same or released is None else _difference(shown, released)
    return ListedValue(column, shown, released, how, moved_by if how == "swapped" else None)


def _difference(one: str, other: str) -> float | None:
    try:
        return float(other) - float(one)
    except ValueError:
        return None


def _shown(value: object) -> str:
    """A value as people write it; empty if missing."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
