"""Are the values exchanged, and nothing else?

The plan says which row gets which key values from which other row. The values themselves are exchanged, not their codes,
so a banded age moves as the exact age. Afterwards every kept margin is counted again from the records of input and
output and compared cell by cell; a difference is a defect of the program, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.engine.output import remove
from rarecell.errors import BadInput
from rarecell.graph.masks import members
from rarecell.swap.units import records_of

if TYPE_CHECKING:
    from rarecell.microdata import Microdata
    from rarecell.swap.plan import SwapPlan


class MarginsDiffer(RuntimeError):
    """A kept margin changed: a defect of the program, not of the data."""


@dataclass(frozen=True)
class MarginCheck:
    """A kept margin, counted in input and output."""

    variables: tuple[str, ...]
    n_cells: int
    n_differing: int

    @property
    def is_identical(self) -> bool:
        return self.n_differing == 0


@dataclass(frozen=True, eq=False)
class SwapResult:
    """A protected file.

    Attributes
    ----------
    plan : what was done
    frame : the data with the values exchanged, in the type they came in; None when they were written to ``path``
    margins : every kept margin, compared cell by cell
    path : the file written, or None
    """

    plan: SwapPlan
    frame: Any
    margins: tuple[MarginCheck, ...]
    path: Path | None = None

    @property
    def audit(self) -> Any:
        """One row a swap: record, partner, variables, distance, risk before; a frame like ``frame``."""
        return self.plan.to_frame(like=self.frame)

    @property
    def margins_identical(self) -> bool:
        return all(check.is_identical for check in self.margins)

    def __str__(self) -> str:
        return f"{self.plan} All {len(self.margins):,} kept margins are identical in input and output."


def apply_plan(plan: SwapPlan, data: Microdata) -> SwapResult:
    """Exchange the values in memory: rows keep their order, all other columns and types stay.

    The keys of the new frame are then coded and counted anew, as those of the old one were.
    """
    margins = checked_margins(plan)
    _expect_records(plan, data)
    frame = data.replaced(*replacements(plan, data))
    _check_recount(plan, data, frame)
    return SwapResult(plan, frame, margins)


def write_plan(plan: SwapPlan, data: Microdata, path: str | Path, *, recount: bool = True) -> SwapResult:
    """Write the data with the values exchanged to a file, in the format they came in.

    With ``recount`` the file is read again and its keys are counted; one that is not as planned is removed.
    """
    margins = checked_margins(plan)
    _expect_records(plan, data)
    written = data.write_with_replacements(path, *replacements(plan, data))
    if recount:
        try:
            _check_recount(plan, data, written)
        except MarginsDiffer:
            remove(written)
            raise
    return SwapResult(plan, None, margins, written)


def _expect_records(plan: SwapPlan, data: Microdata) -> None:
    if plan.table.record_cell is None:
        raise BadInput(
            "The plan was made for a table that does not know its records, so its row numbers mean nothing in the data. "
            "Make the table with data.table(records=True)."
        )
    if len(plan.table.record_cell) != data.n_records:
        raise BadInput(f"The plan is for {len(plan.table.record_cell):,} records; {data.source.name} has {data.n_records:,}.")


def _check_recount(plan: SwapPlan, data: Microdata, output: Any) -> None:
    """Read the keys of the output as those of the input were read, and compare the table with the planned one."""
    from rarecell.microdata import Microdata

    again = Microdata(output, data.keys, missing=data.missing, coding=data.coding).table(records=True)
    planned = plan.table_after
    names_same = [c.levels for c in again.categories] == [c.levels for c in planned.categories]
    if not (names_same and np.array_equal(again.cells, planned.cells) and np.array_equal(again.counts, planned.counts)):
        raise MarginsDiffer("Internal error: the keys of the output are not those of the plan. Nothing was written.")


def replacements(plan: SwapPlan, data: Microdata) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """The rows that change, ascending, and for each key that moves anywhere the new value of each of these rows.

    A row whose value of a key stays gets its own value again.
    """
    order = np.argsort(plan.rows, kind="stable")
    rows = plan.rows[order]
    keys = [key for key in plan.table.keys if plan.moves(key).any()]
    if not keys:
        return rows, {}
    position_of_source = np.searchsorted(rows, plan.sources[order])
    old = data.values_at(rows, keys)
    values = {}
    for key in keys:
        taken_from = np.where(plan.moves(key)[order], position_of_source, np.arange(len(rows)))
        values[key] = old[key].take(taken_from)
    return rows, values


# ---------------------------------------------------------------------- margins


def checked_margins(plan: SwapPlan) -> tuple[MarginCheck, ...]:
    """:func:`compare_margins`, and an error when one of them differs."""
    found = compare_margins(plan)
    for check in found:
        if not check.is_identical:
            raise MarginsDiffer(
                f"Internal error: the swaps would change {check.n_differing:,} cells of the margin of "
                f"{', '.join(check.variables)}, which is to be kept. Nothing was written."
            )
    return found


def compare_margins(plan: SwapPlan) -> tuple[MarginCheck, ...]:
    """Count every kept margin in input and output, from the records, and compare them cell by cell."""
    cell = records_of(plan.table)
    counted = cell >= 0
    before = plan.table.cells[np.maximum(cell, 0)]
    after = before.copy()
    after[plan.rows] = plan.new_cells
    further = plan.units.codes[np.maximum(plan.units.record_unit, 0)] if plan.interactions.columns else None
    found = []
    for kept in dict.fromkeys(plan.interactions.kept):
        names = plan.interactions.names_of(kept)
        columns = [plan.interactions.names.index(name) for name in names]
        sizes = [plan.units.column_levels[c] for c in columns]
        old = [_codes(plan, before, further, c)[counted] for c in columns]
        new = [_codes(plan, after, further, c)[counted] for c in columns]
        found.append(MarginCheck(names, *_compared(old, new, sizes)))
    return tuple(found)


def _codes(plan: SwapPlan, cells: NDArray[np.int32], further: NDArray[np.int32] | None, column: int) -> NDArray[np.int32]:
    if column < plan.table.n_vertices:
        return plan.table.map_cells(cells, column)
    assert further is not None, "a column outside the keys has codes of its own"
    return further[:, column]


def _compared(old: Sequence[NDArray[np.int32]], new: Sequence[NDArray[np.int32]], sizes: Sequence[int]) -> tuple[int, int]:
    """Number of occupied cells of a margin, and of those with different counts in the two files."""
    if not old:
        return 1, 0
    n_records = len(old[0])
    _, counts, cell = collapse_records([np.concatenate(pair) for pair in zip(old, new, strict=True)], sizes)
    in_old = np.bincount(cell[:n_records], minlength=len(counts))
    in_new = np.bincount(cell[n_records:], minlength=len(counts))
    return len(counts), int((in_old != in_new).sum())


def moved_keys(plan: SwapPlan) -> dict[str, int]:
    """How many values of each key change."""
    return {key: int(plan.moves(key).sum()) for key in (plan.table.keys[k] for k in members(plan.interactions.keys))}
