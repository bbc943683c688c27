"""On whom do swaps fall, and what do they do to weighted tables?

Risky records are rare, so that swaps fall on small groups more than on large ones, and a board has to see how much. Survey
weights stay with their row: a margin of counts that is kept exactly is a margin of weighted totals that is kept only as far as
the weights of partners are alike.
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
    """A group of records, and how many of them were swapped; ``ratio`` is their share over that of the file."""

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
    variables : its columns
    cells : cells that have records in either file
    changed : cells whose total changed
    largest : largest change of a total, relative to the total before; infinite where there was nobody
    largest_cell : that cell in words
    moved : half the sum of all changes over the sum of the weights: the share of weight in another cell
    is_count_identical : whether the counts of records in it are the same in both files
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
    """How many records of each level of a column were swapped, the most affected first.

    Parameters
    ----------
    column, labels : the column and its levels
    codes, counts : level and number of records of each cell, or of each record with a count of 1
    rows : level of each record that was swapped
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
    """How many records of each level of each key were swapped, by the values before the swap."""
    table = plan.table
    of_rows = table.cells[table.cell_of(plan.rows)]
    found: list[GroupShare] = []
    for k, categories in enumerate(table.categories):
        found += swapped_by_group(categories.key, categories.labels, table.cells[:, k], table.counts, of_rows[:, k])
    return found


def weighted_changes(plan: SwapPlan, weights: ArrayLike, margins: Sequence[Sequence[str]]) -> list[WeightedChange]:
    """Weighted totals of some margins of the keys before and after a plan.

    Parameters
    ----------
    plan : what was swapped
    weights : weight of each of ``plan.rows``
    margins : sets of keys
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
    # Weights are sums of multiples of 2^-24, so that a difference below this is rounding of the sums themselves.
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
    """Classes of similar weight with about equally many records: equal weights share a class.

    Partners from one class keep weighted totals nearly as they were.
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
