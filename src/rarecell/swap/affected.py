"""On whom do swaps fall, and what do they do to weighted tables?

Risky records are rare, so swaps affect small groups more than large ones, and a review board needs to see by how much. Survey
weights stay with their row: where a margin of counts is kept exactly, the weighted totals of the same margin are kept only as
far as the weights of partners are alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.errors import BadInput
from rarecell.outcome.words import percent

if TYPE_CHECKING:
    from rarecell.edges import Array
    from rarecell.swap.plan import SwapPlan

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GroupShare:
    """A group of records and how many were swapped; ``ratio`` is the share swapped relative to that of the whole file."""

    column: str
    level: str
    records: int
    swapped: int
    ratio: float

    @property
    def share(self) -> float:
        return self.swapped / self.records if self.records else 0.0


@dataclass(frozen=True)
class WeightedChange:
    """A table of weighted totals before and after swaps.

    Attributes
    ----------
    variables : tuple of str
        Columns of the table.
    cells : int
        Number of cells with records in either file.
    changed : int
        Number of cells whose total changed.
    largest : float
        Largest change of a total relative to the total before; infinite where the cell was empty before.
    largest_cell : str
        The cell with that change, in words.
    moved : float
        Share of the total weight that is now in another cell: half the sum of absolute changes over the sum of the weights.
    is_count_identical : bool
        Whether the table has the same counts of records in both files.
    """

    variables: tuple[str, ...]
    cells: int
    changed: int
    largest: float
    largest_cell: str
    moved: float
    is_count_identical: bool

    @property
    def sentence(self) -> str:
        names = ", ".join(self.variables)
        counts = "counts of records are exactly as they were" if self.is_count_identical else "counts of records changed"
        if not self.changed:
            return f"{names}: {counts}, {'and so are' if self.is_count_identical else 'but no'} weighted totals."
        most = f"by at most {percent(self.largest)}" if math.isfinite(self.largest) else "one of them from nothing"
        return f"{names}: {counts}; {self.changed:,} of {self.cells:,} weighted totals changed, {most} ({self.largest_cell})."


def swapped_by_group(column: str, labels: Sequence[str], codes: Array, counts: ArrayLike, rows: Array) -> list[GroupShare]:
    """Count the swapped records of each level of a column, most affected level first.

    Parameters
    ----------
    column : str
        Name of the column.
    labels : sequence of str
        Its levels.
    codes : array of int
        Level of each cell, or of each record.
    counts : array_like
        Number of records in each cell; 1 for a record.
    rows : array of int
        Level of each record that was swapped.

    Returns
    -------
    list of GroupShare
        One entry for each level.
    """
    total = np.bincount(codes, weights=np.asarray(counts, dtype=np.float64), minlength=len(labels)).astype(np.int64)
    swapped = np.bincount(rows, minlength=len(labels)).astype(np.int64)
    overall = swapped.sum() / max(1, int(total.sum()))
    found = [
        GroupShare(column, label, int(n), int(s), float(s / n / overall) if n and overall else 0.0)
        for label, n, s in zip(labels, total, swapped, strict=True)
    ]
    return sorted(found, key=lambda one: (-one.ratio, -one.records, one.level))


def affected_groups(plan: SwapPlan) -> list[GroupShare]:
    """Count the swapped records of each level of each key, by their values before the swap."""
    table = plan.table
    of_rows = table.cells[table.cell_of(plan.rows)]
    found: list[GroupShare] = []
    for k, categories in enumerate(table.categories):
        found += swapped_by_group(categories.key, categories.labels, table.cells[:, k], table.counts, of_rows[:, k])
    return found


def weighted_changes(plan: SwapPlan, weights: ArrayLike, margins: Sequence[Sequence[str]]) -> list[WeightedChange]:
    """Compare the weighted totals of some margins of the keys before and after a plan.

    Parameters
    ----------
    plan : SwapPlan
        The swaps.
    weights : array_like
        Weight of each of ``plan.rows``.
    margins : sequence of sequences of str
        Sets of keys.

    Returns
    -------
    list of WeightedChange
        One entry for each margin.
    """
    table, of_rows = plan.table, np.asarray(weights, dtype=np.float64)
    if table.weights is None:
        raise BadInput("The table has no survey weights, so that it has no weighted totals.")
    if of_rows.shape != (len(plan.rows),):
        raise BadInput(f"{of_rows.size:,} weights were given for {len(plan.rows):,} swapped records.")
    old = table.cells[table.cell_of(plan.rows)]
    zero = np.zeros(len(of_rows))
    stacked = np.concatenate([table.cells, old, plan.new_cells])
    totals = np.concatenate([table.weights, zero, zero])
    change = np.concatenate([np.zeros(table.n_cells), -of_rows, of_rows])
    moved = np.concatenate([np.zeros(table.n_cells), np.full(len(of_rows), -1.0), np.ones(len(of_rows))])
    found = []
    for names in margins:
        places = [table.keys.index(name) for name in names]
        levels = [table.categories[k].n_levels for k in places]
        cells, _, position = collapse_records([stacked[:, k] for k in places], levels)
        before, by, records = (_sums(position, w, len(cells)) for w in (totals, change, moved))
        found.append(_compared(plan, tuple(names), cells, before, by, bool((np.rint(records) == 0).all())))
    return found


def _sums(position: NDArray[np.int64], values: Floats, n_cells: int) -> Floats:
    return np.bincount(position, weights=values, minlength=n_cells).astype(np.float64)


def _compared(
    plan: SwapPlan, names: tuple[str, ...], cells: NDArray[np.int32], before: Floats, by: Floats, same_counts: bool
) -> WeightedChange:
    total = before.sum()
    # Weights are sums of multiples of 2^-24, so a difference below this is a rounding error of the sums.
    is_changed = np.abs(by) > 1e-9 * max(1.0, total)
    if not is_changed.any():
        return WeightedChange(names, len(cells), 0, 0.0, "", 0.0, same_counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(is_changed, np.abs(by) / before, 0.0)
    worst = int(np.argmax(relative))
    categories = [plan.table.categories[plan.table.keys.index(name)] for name in names]
    words = ", ".join(f"{c.key} {c.labels[code]}" for c, code in zip(categories, cells[worst].tolist(), strict=True))
    moved = float(0.5 * np.abs(by[is_changed]).sum() / total)
    return WeightedChange(names, len(cells), int(is_changed.sum()), float(relative[worst]), words, moved, same_counts)


def weight_classes(weights: ArrayLike, n_classes: int) -> NDArray[np.int32]:
    """Put records into classes of similar weight and about equal size; equal weights share a class.

    Swapping within a class keeps weighted totals nearly unchanged.
    """
    values = np.asarray(weights, dtype=np.float64)
    distinct, position, counts = np.unique(values, return_inverse=True, return_counts=True)
    before = np.cumsum(counts) - counts
    of_value = (2 * before + counts) * n_classes // (2 * max(1, len(values)))
    return (
        np.asarray(np.unique(of_value, return_inverse=True)[1][position], dtype=np.int32)
        if len(distinct)
        else np.zeros(0, np.int32)
    )
