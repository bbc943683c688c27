"""Why is one record of a finished run risky, and with whom could it be swapped?

The file is read again; the model and the risk are those of the run. The results show values of a record and are for internal
use only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq

from rarecell.data.microdata import Microdata
from rarecell.engine.reach import read_small_text
from rarecell.errors import BadInput
from rarecell.model.decomposable import DecomposableModel
from rarecell.outcome.words import counted, listed
from rarecell.risk.explain import reasons_of_cell
from rarecell.risk.unsafe import unsafe_combinations
from rarecell.run import model_choice
from rarecell.run.assessment import read
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.swaps import rules_for_swaps
from rarecell.swap import pairs
from rarecell.swap.candidates import CandidateList, candidates
from rarecell.swap.distance import Distances
from rarecell.swap.swappable import swappability
from rarecell.swap.units import ColumnValues, coded_columns
from rarecell.table.contingency import ContingencyTable


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
                f"{who}, {what}, is alone in the file with these values. It is alone in the population, too, with probability "
                f"{self.unique_probability:.3f}; a match with it would be right with probability {self.match_probability:.3f}."
            )
        parts = [first, *self.reasons]
        if self.enough:
            sets = "; ".join(listed(list(names)) for names in self.enough[:5])
            parts.append(f"To single it out in the file, it is enough to know: {sets}.")
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
    wishes, data, table, model = _of_run(folder)
    columns = _outside_keys(wishes, data, table)
    explained = pairs.explain_pair(table, model, record, partner, keep=wishes.keep, never_swap=wishes.never_swap, columns=columns)
    return str(explained)


def partners(folder: str | Path, record: int, *, most: int = 20) -> CandidateList:
    """Find the nearest partners of a record of a finished run, by the run's distances and constraints."""
    wishes, data, table, model = _of_run(folder)
    config = RunConfig.read(Path(folder) / "run.toml")
    constraints, columns = rules_for_swaps(wishes, config, data, table, model_choice.structural_zeros(table, config))
    found = candidates(
        table,
        model,
        record,
        distances=Distances(kinds=dict(wishes.distances), weights=dict(wishes.weights)),
        keep=wishes.keep,
        constraints=constraints,
        columns=columns,
        most=most,
    )
    if found.n_partners:
        return found
    can_swap = swappability(table, model, keep=wishes.keep, columns=columns)
    cell = int(table.cell_of([record])[0])
    # A record that could be swapped but for a key that must stay is held by the user's wish, not by a table.
    return found if can_swap.is_swappable[cell] else replace(found, held_by=str(can_swap.explain_fixed([cell])[0]))


def explain_record(folder: str | Path, record: int) -> RecordStory:
    """Explain why a record of a finished run is risky."""
    _, _, table, model = _of_run(folder)
    if not 0 <= record < table.n_rows:
        raise BadInput(f"There is no record {record + 1:,}; the records are counted from 1 to {table.n_rows:,}.")
    try:
        stored = _stored_risk(Path(folder) / "risk.parquet", record)
    except (OSError, IndexError, ValueError, KeyError) as problem:
        raise BadInput(f"{folder} has no risk of this record: {problem}.") from None
    cell = int(table.cell_of([record])[0])
    if cell < 0:
        raise BadInput(f"Record {record + 1:,} was left out for a missing key, so nothing is known about its risk.")
    values = tuple((c.key, c.labels[code]) for c, code in zip(table.categories, table.cells[cell], strict=True))
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
    )


def _stored_risk(path: Path, record: int) -> dict[str, float]:
    """What is known of a record; the household risk where the run has it."""
    wanted = {"cell_count", "unique_probability", "match_probability", "household_probability"}
    columns = [name for name in pq.ParquetDataset(path).schema.names if name in wanted]
    found: dict[str, float] = pq.read_table(path, columns=columns).slice(record, 1).to_pylist()[0]
    return found


def _was_swapped(folder: Path, record: int) -> bool | None:
    """Whether a record took part in a swap; None for a run that protected nothing."""
    if not (folder / "swaps.parquet").exists():
        return None
    try:
        swaps = pq.read_table(folder / "swaps.parquet", columns=["record", "partner"])
    except (OSError, ValueError, KeyError) as problem:
        raise BadInput(f"{folder} has no list of swaps that can be read: {problem}.") from None
    return any(record in swaps.column(name).to_pylist() for name in ("record", "partner"))


def _outside_keys(wishes: ProtectConfig, data: Microdata, table: ContingencyTable) -> dict[str, ColumnValues]:
    """Columns outside the keys that take part in marginals to be kept."""
    return coded_columns(data, [name for margin in wishes.keep for name in margin if name not in table.vertex_names])


def _of_run(folder: str | Path) -> tuple[ProtectConfig, Microdata, ContingencyTable, DecomposableModel]:
    config = RunConfig.read(Path(folder) / "run.toml")
    data = read(config)
    table = model_choice.with_resolutions(data.table(records=True), config.resolution)
    try:
        stored = json.loads(read_small_text(Path(folder) / "model.json"))
    except (OSError, ValueError) as problem:
        raise BadInput(f"{folder} is not the folder of a finished run: {problem}.") from None
    return config.protect or ProtectConfig(), data, table, DecomposableModel.from_dict(table, stored["best"])
