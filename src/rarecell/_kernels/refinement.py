"""Splitting cells by one key after another, and counting those that end up alone.

Cells that agree on the keys so far form a group. A cell that is alone in its group is settled, whatever keys follow: its
single record is unique, or its several records are not. Groups hold the remaining cells, two or more each: group g has the
cells ``rows[starts[g]:starts[g + 1]]``. Cells of a group lie together, so that splitting it stays within a core's cache.
"""

from __future__ import annotations

import numpy as np

from rarecell._kernels.compiled import njit


@njit(cache=True, nogil=True)
def count_alone(rows, starts, column, n_levels, counts):
    """Number of records that are alone once the groups are split by a key; ``column[i]`` is its level at cell i."""
    met = np.zeros(n_levels, dtype=np.int64)
    alone = 0
    for g in range(len(starts) - 1):
        for r in range(starts[g], starts[g + 1]):
            i = rows[r]
            before = met[column[i]]
            met[column[i]] = before + counts[i]
            if before == 0 and counts[i] == 1:
                alone += 1
            elif before == 1:
                alone -= 1
        for r in range(starts[g], starts[g + 1]):
            met[column[rows[r]]] = 0
    return alone


@njit(cache=True, nogil=True)
def split(rows, starts, column, n_levels, counts):
    """Split the groups by a key, leaving out the cells that are then settled.

    Returns the rows left, where each group starts, and the number of records that were settled as unique.
    """
    n_in = np.zeros(n_levels, dtype=np.int64)
    next_place = np.zeros(n_levels, dtype=np.int64)
    new_rows = np.empty(len(rows), dtype=np.int32)
    new_starts = np.empty(len(rows) // 2 + 1, dtype=np.int32)
    n_groups, n_unique, place = 0, 0, 0
    for g in range(len(starts) - 1):
        for r in range(starts[g], starts[g + 1]):
            n_in[column[rows[r]]] += 1
        for r in range(starts[g], starts[g + 1]):
            i = rows[r]
            level = column[i]
            if n_in[level] == 1:
                n_unique += counts[i] == 1
                continue
            if next_place[level] == 0:
                new_starts[n_groups] = place
                n_groups += 1
                # One too high, so that 0 means "not begun".
                next_place[level] = place + 1
                place += n_in[level]
            new_rows[next_place[level] - 1] = i
            next_place[level] += 1
        for r in range(starts[g], starts[g + 1]):
            n_in[column[rows[r]]] = 0
            next_place[column[rows[r]]] = 0
    new_starts[n_groups] = place
    return new_rows[:place].copy(), new_starts[: n_groups + 1].copy(), n_unique


@njit(cache=True, nogil=True)
def group_sizes(rows, starts, counts, most):
    """Number of groups with 0, 1, … ``most`` single-record cells: groups of such cells only, and all others.

    Groups with ``most`` or more such cells count among the others; the last number is how many such cells they hold.
    """
    pure = np.zeros(most + 1, dtype=np.int64)
    mixed = np.zeros(most + 1, dtype=np.int64)
    beyond = 0
    for g in range(len(starts) - 1):
        n_single = 0
        for r in range(starts[g], starts[g + 1]):
            n_single += counts[rows[r]] == 1
        if n_single >= most:
            beyond += n_single
            mixed[most] += 1
        elif n_single == starts[g + 1] - starts[g]:
            pure[n_single] += 1
        else:
            mixed[n_single] += 1
    return pure, mixed, beyond
