"""How did a swap change the associations between the keys and the other columns?

Columns outside the keys stay with their row, so a key that moves is separated from them. The strength of each association is
measured by Cramér's V, in the input and in the output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.swap.units import ColumnValues, code_column, records_of
from rarecell.table.crossed import CrossedColumn

if TYPE_CHECKING:
    from rarecell.swap.apply import Exchange

MOST_VALUES = 40
"""A column with more distinct numbers than this is cut into ten groups of equal size before its association is measured."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Association:
    """Cramér's V of a key with a column outside the keys, in input and output."""

    key: str
    column: str
    before: float
    after: float

    @property
    def change(self) -> float:
        return self.after - self.before


def crossed_column(plan: Exchange, name: str, values: ColumnValues) -> CrossedColumn:
    """Cross-tabulate a column, given by a value for each record, with every key that moves."""
    table = plan.table
    cell = records_of(table)
    codes, levels = code_column(name, values, len(cell))
    kept = cell >= 0
    joint = {}
    for k, categories in enumerate(table.categories):
        if plan.moves(categories.key).any():
            sizes = (categories.n_levels, len(levels))
            pairs = table.cells[cell[kept], k].astype(np.int64) * sizes[1] + codes[kept]
            joint[categories.key] = np.bincount(pairs, minlength=sizes[0] * sizes[1]).reshape(sizes)
    return CrossedColumn(levels, joint, codes[plan.rows])


def in_groups(column: CrossedColumn) -> CrossedColumn:
    """Cut a numeric column with many values into ten groups of equal size and one for missing; leave others as they are."""
    real = [level for level in column.levels if level is not None]
    if len(real) <= MOST_VALUES or not all(isinstance(level, (int, float)) for level in real) or not column.joint:
        return column
    numbers = np.array([np.nan if level is None else float(level) for level in column.levels])
    counts = next(iter(column.joint.values())).sum(axis=0)
    edges = _quantiles(numbers, counts, np.arange(1, 10) / 10)
    group = np.where(np.isnan(numbers), 10, np.searchsorted(edges, numbers, side="right"))
    joint = {}
    for key, table in column.joint.items():
        joint[key] = np.zeros((len(table), 11), dtype=np.int64)
        np.add.at(joint[key].T, group, table.T)
    return CrossedColumn(range(11), joint, group[column.of_rows].astype(np.int32))


def _quantiles(values: Floats, counts: NDArray[np.int64], shares: Floats) -> Floats:
    """Quantiles of values with these frequencies, by linear interpolation; NaN is left out."""
    order = np.argsort(values)[: int((~np.isnan(values)).sum())]
    ends = np.cumsum(counts[order])
    place = (ends[-1] - 1) * shares
    low, high = (values[order[np.searchsorted(ends, end(place), side="right")]] for end in (np.floor, np.ceil))
    return np.asarray(low + (high - low) * (place % 1.0))


def association_changes(plan: Exchange, columns: Mapping[str, ColumnValues | CrossedColumn]) -> tuple[Association, ...]:
    """Compute Cramér's V of every key that moves with every given column, before and after; largest change first.

    Numeric columns with more than :data:`MOST_VALUES` distinct values are cut into ten groups.
    """
    old_codes = plan.table.cells[plan.table.cell_of(plan.rows)]
    found = []
    for name, values in columns.items():
        crossed = in_groups(values if isinstance(values, CrossedColumn) else crossed_column(plan, name, values))
        for key, before in crossed.joint.items():
            k = plan.table.keys.index(key)
            after = before.copy()
            np.add.at(after, (old_codes[:, k], crossed.of_rows), -1)
            np.add.at(after, (plan.new_cells[:, k], crossed.of_rows), 1)
            found.append(Association(key, name, cramers_v(before), cramers_v(after)))
    return tuple(sorted(found, key=lambda each: -abs(each.change)))


def cramers_v(joint: NDArray[np.int64]) -> float:
    """Cramér's V, √(χ² / (n (min(rows, columns) − 1))), over the levels that occur; 0 if either variable is constant."""
    joint = joint[joint.any(axis=1)][:, joint.any(axis=0)]
    smaller = min(joint.shape) - 1
    if smaller < 1:
        return 0.0
    expected = joint.sum(axis=1)[:, None] * joint.sum(axis=0)[None, :] / joint.sum()
    chi_square = ((joint - expected) ** 2 / expected).sum()
    return float(np.sqrt(chi_square / (joint.sum() * smaller)))
