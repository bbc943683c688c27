"""What is in the folder of a finished run?

Everything comes from its files: the summary, the configuration, the riskiest records and the risk of every record.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rarecell.data.microdata import Microdata
from rarecell.data.names import names_in
from rarecell.engine.duck import EngineSettings
from rarecell.engine.opening import open_file
from rarecell.engine.places import read_small_text
from rarecell.engine.source import Source
from rarecell.errors import BadInput
from rarecell.model.decomposable import DecomposableModel
from rarecell.outcome.plain import Shown
from rarecell.outcome.records import RiskyRecord
from rarecell.outcome.summary import RunSummary
from rarecell.outcome.verdict import Verdict, said, verdict
from rarecell.outcome.words import counted, listed
from rarecell.report import RISKIEST_FILE
from rarecell.risk.explain import reasons_of_cell
from rarecell.risk.unsafe import unsafe_combinations
from rarecell.run import models
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.folder import finish_publishing
from rarecell.run.inputs import read
from rarecell.run.roles import household_rows
from rarecell.run.swaps import rules_for_swaps
from rarecell.swap import pairs
from rarecell.swap.pairs import CandidateList, candidates
from rarecell.swap.swappable import swappability
from rarecell.swap.units import coded_columns
from rarecell.table.columns import ColumnValues
from rarecell.table.contingency import ContingencyTable
from rarecell.table.distance import Distances
from rarecell.table.household_rows import LARGEST_FAMILY, HouseholdRows

if TYPE_CHECKING:
    from rarecell.edges import Columns, Frame, ReadJson


@dataclass(frozen=True, repr=False)
class SavedRun(Shown):
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
            summary = json.loads(read_small_text(folder / "summary.json"))
            record = json.loads(read_small_text(folder / "run.json"))
            return cls(folder, called, _checked_summary(RunSummary.from_dict(summary)), _checked_record(record))
        except FileNotFoundError:
            why = "it has no results" if folder.is_dir() else "there is no such folder"
            raise BadInput(f"'{called}' is not the folder of a finished run: {why}.") from None
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
            return tuple(RiskyRecord.from_dict(plain, where="riskiest record") for plain in stored)
        except (OSError, ValueError, TypeError, RecursionError, BadInput):
            return ()

    def to_frame(self) -> Frame:
        """The risk of every record, as a pyarrow table."""
        return pq.read_table(self.place / "risk.parquet")

    def __str__(self) -> str:
        return said(self.summary)

    def __repr__(self) -> str:
        return f"<SavedRun {self.name}: {self.verdict.headline}>"


def _checked_summary(summary: RunSummary) -> RunSummary:
    """Return a summary after checking that it is that of the run itself."""
    if not isinstance(summary.records, int):
        raise BadInput("its summary has words in the place of counts, as the external edition does.")
    return summary


def _checked_record(record: Any) -> ReadJson:
    """Return a run record after checking the types of its parts."""
    is_sound = isinstance(record, dict) and isinstance(record.get("input", {}), dict)
    timings = [record.get(name, {}) for name in ("seconds", "processor_seconds")] if is_sound else [None]
    if not all(isinstance(by_stage, dict) and all(map(_is_amount, by_stage.values())) for by_stage in timings) or not _is_amount(
        record.get("peak_memory") or 0
    ):
        raise BadInput("its run record is not what rarecell writes.")
    return dict(record)


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= sys.float_info.max


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


# Why is one record of a finished run risky, and with whom could it be swapped?
#
# The file is read again; the model and the risk are those of the run. The results show values of a record and are for internal
# use only.


@dataclass(frozen=True)
class RecordStory:
    """A record: its values, its risk, and why it is rare."""

    record: int
    values: tuple[tuple[str, str], ...]
    cell_count: int
    unique_probability: float
    match_probability: float
    reasons: tuple[str, ...]
    enough: tuple[tuple[str, ...], ...]
    household_probability: float | None = None
    was_swapped: bool | None = None
    family: tuple[str, ...] = ()

    def __str__(self) -> str:
        who = f"Record {self.record + 1:,} (counted from 1)"
        what = ", ".join(f"{key} {value}" for key, value in self.values)
        if self.cell_count > 1:
            first = (
                f"{who}, {what}, shares these values with {counted(self.cell_count - 1, 'other record')} of the file, so it is not "
                f"unique. A match with it would be right with probability {self.match_probability:.3f}."
            )
        else:
            first = (
                f"{who}, {what}, is alone in the file with these values. It is alone in the population as well with probability "
                f"{self.unique_probability:.3f}; a match with it would be right with probability {self.match_probability:.3f}."
            )
        parts = [first, *self.reasons]
        if self.enough:
            sets = "; ".join(listed(list(names)) for names in self.enough[:5])
            parts.append(f"To single it out in the file, it is enough to know: {sets}.")
        parts += self.family
        if self.household_probability is not None:
            parts.append(
                f"With probability {self.household_probability:.3f} at least one member of its household is alone in the population."
            )
        if self.was_swapped is not None:
            parts.append(
                "All this is about the original file. In the protected one it "
                + (
                    "has other key values: it was swapped."
                    if self.was_swapped
                    else "has the same key values: it was not swapped."
                )
            )
        return " ".join(parts)


def explain_pair(folder: str | Path, record: int, partner: int) -> str:
    """Explain why two records of a finished run can or cannot be swapped."""
    request, data, table, model = _of_run(folder)
    columns = _outside_keys(request, data, table)
    explained = pairs.explain_pair(
        table, model, record, partner, keep=request.keep, never_swap=request.never_swap, columns=columns
    )
    return str(explained)


def partners(folder: str | Path, record: int, *, most: int = 20) -> CandidateList:
    """Find the nearest partners of a record of a finished run, by the run's distances and constraints."""
    request, data, table, model = _of_run(folder)
    config = RunConfig.read(Path(folder) / "run.toml")
    constraints, columns = rules_for_swaps(request, config, data, table, models.structural_zeros(table, config))
    nearest = candidates(
        table,
        model,
        record,
        distances=Distances(kinds=dict(request.distances), weights=dict(request.weights)),
        keep=request.keep,
        constraints=constraints,
        columns=columns,
        most=most,
    )
    if nearest.n_partners:
        return nearest
    can_swap = swappability(table, model, keep=request.keep, columns=columns)
    cell = int(table.cell_of([record])[0])
    # A record that could be swapped but for a key that must stay is held by the user's wish, not by a table.
    return nearest if can_swap.is_swappable[cell] else replace(nearest, held_by=str(can_swap.explain_fixed([cell])[0]))


def explain_record(folder: str | Path, record: int) -> RecordStory:
    """Explain why a record of a finished run is risky."""
    _, data, table, model = _of_run(folder)
    if not 0 <= record < table.n_rows:
        raise BadInput(f"There is no record {record + 1:,}; the records are counted from 1 to {table.n_rows:,}.")
    try:
        stored = _stored_risk(Path(folder) / "risk.parquet", record)
    except (OSError, IndexError, ValueError, KeyError) as problem:
        raise BadInput(f"{folder} has no risk of this record: {problem}.") from None
    cell = int(table.cell_of([record])[0])
    if cell < 0:
        raise BadInput(f"Record {record + 1:,} was left out for a missing key, so nothing is known about its risk.")
    values = tuple((c.key, c.shown[code]) for c, code in zip(table.categories, table.cells[cell], strict=True))
    alone = stored["cell_count"] == 1
    return RecordStory(
        record,
        values,
        int(stored["cell_count"]),
        float(stored["unique_probability"]),
        float(stored["match_probability"]),
        tuple(reason.sentence for reason in reasons_of_cell(model, cell)) if alone else (),
        tuple(tuple(names) for names in unsafe_combinations(table).of_cell(cell)) if alone else (),
        stored.get("household_probability"),
        _was_swapped(Path(folder), record),
        _family_of(folder, data, record, stored),
    )


def _family_of(folder: str | Path, data: Microdata, record: int, stored: ReadJson) -> tuple[str, ...]:
    """What is known of a record's family: how likely it is the only one of its kind, and by what; empty without households."""
    unique, match = stored.get("household_unique_probability"), stored.get("household_match_probability")
    if unique is None or match is None:
        return ()
    config = RunConfig.read(Path(folder) / "run.toml")
    rows = household_rows(data, config, data.keys)
    row = int(rows.members.of_record[record])
    if row < 0:
        return (f"It lives in a household of more than {LARGEST_FAMILY} members, who are not known as a family.",)
    sentence = f"Its family is the only one of its kind in the population with probability {unique:.3f}, and a match with it would be right with probability {match:.3f}."
    unknown = (
        " Nobody is assumed to know that, as the run says (--households-known no)." if config.households_known == "no" else ""
    )
    return (f"{sentence}{unknown}", rows.why_alone(row))


def _stored_risk(path: Path, record: int) -> dict[str, float]:
    """What is known of a record; the risk of its household where the run has it."""
    reported = {
        "cell_count",
        "unique_probability",
        "match_probability",
        "household_probability",
        "household_unique_probability",
        "household_match_probability",
    }
    columns = [name for name in pq.ParquetDataset(path).schema.names if name in reported]
    stored: dict[str, float] = pq.read_table(path, columns=columns).slice(record, 1).to_pylist()[0]
    return stored


def _was_swapped(folder: Path, record: int) -> bool | None:
    """Whether a record took part in a swap; None for a run that protected nothing."""
    if not (folder / "swaps.parquet").exists():
        return None
    try:
        swaps = pq.read_table(folder / "swaps.parquet", columns=["record", "partner"])
    except (OSError, ValueError, KeyError) as problem:
        raise BadInput(f"{folder} has no list of swaps that can be read: {problem}.") from None
    return any(record in swaps.column(name).to_pylist() for name in ("record", "partner"))


def _outside_keys(request: ProtectConfig, data: Microdata, table: ContingencyTable) -> dict[str, ColumnValues]:
    """Columns outside the keys that take part in marginals to be kept."""
    return coded_columns(data, [name for margin in request.keep for name in margin if name not in table.vertex_names])


def _of_run(folder: str | Path) -> tuple[ProtectConfig, Microdata, ContingencyTable, DecomposableModel]:
    config = RunConfig.read(Path(folder) / "run.toml")
    data = read(config)
    table = models.with_resolutions(data.table(records=True), config.resolution)
    try:
        stored = json.loads(read_small_text(Path(folder) / "model.json"))
    except (OSError, ValueError, RecursionError) as problem:
        raise BadInput(f"{folder} is not the folder of a finished run: {problem}.") from None
    best = stored.get("best") if isinstance(stored, dict) else None
    return config.protect or ProtectConfig(), data, table, DecomposableModel.from_dict(table, best or {})


# Which records of a run are at risk, and what became of each? For internal use.
#
# Risk comes from ``risk.parquet``, changes from ``swaps.parquet`` and ``suppressed.parquet``, and values from the input and the
# released file. Only the records that are shown are read from these two.


SORTS = ("risk", "record", "distance")
"""Orders in which records can be sorted."""

STATES = ("all", "unique", "risky", "swapped", "blanked")
"""States by which records can be selected."""


@dataclass(frozen=True)
class RecordChoice:
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


FAMILY_RISK = "household_unique_probability"


def risk_columns_of(schema: pa.Schema) -> list[str]:
    """The columns of a risk file that say how risky a record is."""
    wanted = ("cell_count", "unique_probability", "worst_probability", "population_count", FAMILY_RISK)
    return [name for name in wanted if name in schema.names]


def risk_of_records(risks: pa.RecordBatch | pa.Table, *, with_families: bool) -> NDArray[np.float64]:
    """The risk by which a protection chooses records: for the worst intruder, counted where there is a register, alone or with the family."""
    column = {name: risks.column(name).to_numpy(zero_copy_only=False) for name in risk_columns_of(risks.schema)}
    is_unique = column["cell_count"] == 1
    if "worst_probability" in column:
        own = column["worst_probability"]
    elif "population_count" in column:
        own = is_unique & (column["population_count"] == 1)
    else:
        own = np.where(is_unique, column["unique_probability"], 0.0)
    risk: NDArray[np.float64] = np.nan_to_num(own.astype(float))
    return np.maximum(risk, np.nan_to_num(column[FAMILY_RISK])) if with_families and FAMILY_RISK in column else risk


FAMILY_STATES = ("all", "risky", "changed")
"""States by which families can be selected."""


@dataclass(frozen=True)
class ListedFamily:
    """A household with its original risk, what tells it from all others in the file, and its members."""

    risk: float
    why: str
    members: tuple[ListedRecord, ...]

    @property
    def n_changed(self) -> int:
        """Number of values that were swapped or blanked."""
        return sum(value.how in ("swapped", "blanked") for member in self.members for value in member.values)


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
        # Arrow loads pandas with this, for which a start of the app need not wait.
        import pyarrow.dataset as ds

        self.place = place
        self.config = config
        self._refuse_another_input()
        file = ds.dataset(place / "risk.parquet")
        risk = file.to_table(columns=["record", *risk_columns_of(file.schema)])
        records = risk["record"].to_numpy()
        if not np.array_equal(records, np.arange(len(records))):
            raise BadInput("The records of this run have no order, so they cannot be listed beside the file.")
        self.with_families = config.households_known == "yes" and FAMILY_RISK in file.schema.names
        self.risk = risk_of_records(risk, with_families=self.with_families)
        self.cell_count: NDArray[np.int64] = risk["cell_count"].to_numpy()
        self.swapped = self._swapped()
        self.blanked = self._blanked()

    def _refuse_another_input(self) -> None:
        """Refuse a file that is not the one the risks were computed for."""
        record: ReadJson = json.loads(read_small_text(self.place / "run.json"))
        digest = record.get("input", {}).get("sha256")
        if digest is not None and self.original.unchanged_hash() != digest:
            raise BadInput(
                f"{self.original.name} has changed since this run, so its records cannot be shown beside their risks. Run it again."
            )

    def _swapped(self) -> dict[int, tuple[int, frozenset[str], float | None]]:
        """For each record with new values: whose they were, the keys, and how far apart the two were.

        A formal release has no pairs: values of a record may come from several others, of which the first is named, and there
        is no distance.
        """
        path = self.place / "swaps.parquet"
        changes: dict[int, tuple[int, frozenset[str], float | None]] = {}
        for row in pq.read_table(path).to_pylist() if path.is_file() else ():
            record, partner, keys = row["record"], row["partner"], frozenset(names_in(row["variables"]))
            if "distance" not in row:
                first, earlier, _ = changes.get(int(record), (int(partner), frozenset(), None))
                changes[int(record)] = (first, keys | earlier, None)
            elif record is not None and partner is not None:
                changes[int(record)] = (int(partner), keys, float(row["distance"]))
        return changes

    def _blanked(self) -> dict[int, frozenset[str]]:
        path = self.place / "suppressed.parquet"
        if not path.is_file():
            return {}
        blanked: dict[int, set[str]] = {}
        for row in pq.read_table(path).to_pylist():
            blanked.setdefault(int(row["record"]), set()).update(names_in(row["variables"]))
        return {record: frozenset(keys) for record, keys in blanked.items()}

    # ------------------------------------------------------------------ which

    def rows(self, choice: RecordChoice) -> NDArray[np.int64]:
        """The rows of the records asked for, in the order asked for."""
        chosen = np.ones(len(self.risk), dtype=bool)
        if choice.state == "unique":
            chosen = self.cell_count == 1
        elif choice.state == "risky":
            chosen = (self.risk > 0.0) & (self.risk >= choice.above)
        elif choice.state in ("swapped", "blanked"):
            chosen = np.zeros(len(self.risk), dtype=bool)
            chosen[list(self.swapped if choice.state == "swapped" else self.blanked)] = True
        if choice.column:
            chosen &= self._has_value(choice.column, choice.value)
        rows = np.flatnonzero(chosen)
        if choice.sort == "risk":
            return rows[np.argsort(-self.risk[rows], kind="stable")]
        if choice.sort == "distance":
            far = [self.swapped[row][2] if row in self.swapped else None for row in rows.tolist()]
            return rows[np.argsort([1.0 if distance is None else -distance for distance in far], kind="stable")]
        return rows

    def _has_value(self, column: str, value: str) -> NDArray[np.bool_]:
        if column not in self.columns:
            raise BadInput(f"There is no column '{column}' in {self.original.name}.")
        encoded = self.original.encode([column]).columns[0]
        is_meant = np.array([_shown(held) == value.strip() for held in encoded.values.to_pylist()], dtype=bool)
        return np.asarray(is_meant[encoded.codes], dtype=bool)

    # ------------------------------------------------------------------ families

    @cached_property
    def households(self) -> HouseholdRows:
        """The households of the file as rows."""
        data = read(self.config)
        return household_rows(data, self.config, data.keys)

    @cached_property
    def household_risk(self) -> NDArray[np.float64]:
        """The probability of each household, by its row, to be the only one of its kind in the population."""
        if FAMILY_RISK not in pq.ParquetDataset(self.place / "risk.parquet").schema.names:
            raise BadInput("This run has not judged families, so they cannot be listed.")
        of_record: NDArray[np.float64] = pq.read_table(self.place / "risk.parquet", columns=[FAMILY_RISK])[FAMILY_RISK].to_numpy()
        return of_record[self.households.members.at[:, 0]]

    def family_rows(self, state: str = "all", above: float = 0.2) -> NDArray[np.int64]:
        """The rows of the households asked for, the riskiest first and the larger of two first."""
        if state not in FAMILY_STATES:
            raise BadInput(f"Families are listed as {', '.join(FAMILY_STATES)}.")
        risk, members = self.household_risk, self.households.members
        order = np.lexsort((-members.size, -risk))
        if state == "risky":
            return order[(risk[order] > 0.0) & (risk[order] >= above)]
        if state == "changed":
            home = members.of_record[[*self.swapped, *self.blanked]]
            return order[np.isin(order, home[home >= 0])]
        return order

    def families(self, rows: NDArray[np.int64]) -> list[ListedFamily]:
        """Read households with the values of their members, in the order of their places."""
        members = self.households.members
        records = [members.at[row, : members.size[row]] for row in rows]
        listed_records = iter(self.records(np.concatenate(records)) if records else [])
        return [
            ListedFamily(
                float(self.household_risk[row]),
                self.households.why_alone(int(row)),
                tuple(next(listed_records) for _ in of_household),
            )
            for row, of_household in zip(rows, records, strict=True)
        ]

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


def _difference(original: str, released: str) -> float | None:
    try:
        return float(released) - float(original)
    except ValueError:
        return None


def _shown(value: object) -> str:
    """A value as people write it; empty if missing."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
