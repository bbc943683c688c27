"""What do the users of a file lose by a recoding?

The information in a key is its entropy; groups have less of it. The association of a key with another column is their
mutual information, which neither merging levels nor swapping at random can raise. Both are computed from counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell.release.ladders import Step
from rarecell.swap.plan import SwapPlan
from rarecell.table.contingency import ContingencyTable

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OtherColumn:
    """A column outside the keys: for each key, the number of records of each pair of levels; and the code of each record.

    ``codes`` is None when records are not known; the effect of swaps on the column is then unknown.
    """

    name: str
    joint: Mapping[str, Counts]
    codes: NDArray[np.int32] | None = None

    @classmethod
    def of_records(cls, table: ContingencyTable, name: str, codes: NDArray[np.int32]) -> OtherColumn:
        """Count a column whose code is known for each record."""
        assert table.record_cell is not None, "a table of counts does not know the column of a record"
        kept = table.record_cell >= 0
        n_levels = int(codes.max(initial=0)) + 1
        joint = {}
        for k, categories in enumerate(table.categories):
            pairs = table.cells[table.record_cell[kept], k].astype(np.int64) * n_levels + codes[kept]
            counted = np.bincount(pairs, minlength=categories.n_levels * n_levels)
            joint[categories.key] = counted.reshape(categories.n_levels, n_levels)
        return cls(name, joint, codes)


def entropy(counts: NDArray[np.int64]) -> float:
    """Bits of information in a table of counts.

    Examples
    --------
    >>> import numpy as np
    >>> entropy(np.array([2, 1, 1]))
    1.5
    """
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def mutual_information(joint: Counts) -> float:
    """Bits that the rows of a table say about its columns."""
    return entropy(joint.sum(axis=1)) + entropy(joint.sum(axis=0)) - entropy(joint.ravel())


def key_counts(table: ContingencyTable) -> dict[str, Counts]:
    """Number of records at each level of each key."""
    return {
        c.key: np.bincount(table.cells[:, k], weights=table.counts, minlength=c.n_levels).astype(np.int64)
        for k, c in enumerate(table.categories)
    }


def bits_lost(counts: Mapping[str, Counts], steps: Sequence[Step]) -> dict[str, float]:
    """Entropy that each recoded key loses."""
    return {
        step.key: entropy(counts[step.key]) - entropy(merged_rows(counts[step.key], step))
        for step in steps
        if step.coarsening is not None
    }


def merged_rows(counts: Counts, step: Step) -> Counts:
    """Counts by the groups of a step instead of the levels of its key."""
    return counts if step.coarsening is None else merged_counts(counts, step.coarsening.group_of_level, step.n_levels)


def merged_counts(counts: Counts, group_of_level: NDArray[np.int32], n_groups: int) -> Counts:
    """Counts by groups instead of levels."""
    merged = np.zeros((n_groups, *counts.shape[1:]), dtype=np.int64)
    np.add.at(merged, group_of_level, counts)
    return merged


def association_kept(columns: Sequence[OtherColumn], steps: Sequence[Step], plan: SwapPlan | None) -> float | None:
    """Share of the mutual information between keys and other columns that is left.

    None when there are no such columns or no such information. ``plan`` swaps values of the recoded keys; None for no swaps.
    """
    before = after = 0.0
    for column in columns:
        for step in steps:
            joint = column.joint[step.key]
            before += mutual_information(joint)
            merged = merged_rows(joint, step)
            if plan is not None and column.codes is not None and len(plan):
                merged = _swapped(merged, column.codes, plan, step.key)
            after += mutual_information(merged)
    return after / before if before > 0.0 else None


def _swapped(joint: Counts, codes: NDArray[np.int32], plan: SwapPlan, key: str) -> Counts:
    k = plan.table.keys.index(key)
    after = joint.copy()
    np.add.at(after, (plan.table.cells[plan.table.cell_of(plan.rows), k], codes[plan.rows]), -1)
    np.add.at(after, (plan.new_cells[:, k], codes[plan.rows]), 1)
    return after
