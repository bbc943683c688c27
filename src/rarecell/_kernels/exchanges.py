"""Which pairs of rows exchange part of their values, so that fewer copies stand in a file and its tables come nearer to others?

Two rows that agree on the separator of an edge may exchange what lies beyond it; no table of a clique changes. What does change are the
tables of a column that moves and one that does not, in four cells each, and the cells in which the two rows stand. An exchange is
made unless it makes the file worse:

    cost = WEIGHT · max(0, copies − most) + Σ |count here − count there|, over all tables of two columns

A *copy* is a combination that one person of the original has and at least one row of the file.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.compiled import njit
from rarecell._kernels.hashing import find_cell

WEIGHT = 10
"""A copy too many weighs as much as this many counts in tables of two columns."""


class PairTables(NamedTuple):
    """How much every table of two columns has more in each cell than the original's.

    The cell of codes (i, j) of the columns (a, b) is at ``start[a, b] + i · step[a, b] + j · step[b, a]``.
    """

    more: NDArray[np.int64]
    start: NDArray[np.int64]
    step: NDArray[np.int64]


@njit(cache=True, nogil=True)
def stand(standing, cell, change):
    """Let ``change`` more rows stand in a cell; returns how many more cells have a row now."""
    if cell < 0:
        return 0
    before = standing[cell] > 0
    standing[cell] += change
    return int(standing[cell] > 0) - int(before)


@njit(cache=True, nogil=True)
def farther(codes, i, j, a, b, pairs):
    """By how much the table of columns a and b is farther from the original's after rows i and j exchanged their a."""
    ia, ja, ib, jb = codes[i, a], codes[j, a], codes[i, b], codes[j, b]
    if ia == ja or ib == jb:
        return 0
    start, of_a, of_b = pairs.start[a, b], pairs.step[a, b], pairs.step[b, a]
    more = pairs.more
    # |x − 1| − |x| is −1 for x > 0 and 1 otherwise; |x + 1| − |x| is −1 for x < 0 and 1 otherwise.
    change = -1 if more[start + ia * of_a + ib * of_b] > 0 else 1
    change += -1 if more[start + ja * of_a + jb * of_b] > 0 else 1
    change += -1 if more[start + ja * of_a + ib * of_b] < 0 else 1
    change += -1 if more[start + ia * of_a + jb * of_b] < 0 else 1
    return change


@njit(cache=True, nogil=True)
def exchange_pairs(codes, hashed, first, second, moved, stays, pairs, uniques, standing, most, is_nearer):
    """Exchange the columns ``moved`` of row ``first[p]`` and row ``second[p]`` where the file becomes no worse, in place.

    Parameters
    ----------
    codes, hashed : arrays
        The rows and their hashes, as :func:`rarecell._kernels.hashing.hash_rows` makes them.
    first, second : arrays of int
        The rows of each pair.
    moved, stays : arrays of int
        Columns that would be exchanged, and the others.
    pairs : PairTables
        Tables of two columns.
    uniques : HashedCells
        Combinations that one person of the original has.
    standing : array of int
        How many rows stand in each of them.
    most : int
        The largest number of copies that costs nothing.
    is_nearer : bool
        Whether tables of two columns count.

    Returns
    -------
    int
        The number of exchanges.
    """
    n_copies = 0
    for cell in range(len(standing)):
        n_copies += standing[cell] > 0
    n_exchanges = 0
    for p in range(len(first)):
        i, j = first[p], second[p]
        shift = np.uint64(0)
        for a in moved:
            shift += uniques.mixing[uniques.start[a] + codes[j, a]] - uniques.mixing[uniques.start[a] + codes[i, a]]
        if shift == 0:
            continue
        cost = 0
        if is_nearer:
            for a in moved:
                for b in stays:
                    cost += farther(codes, i, j, a, b, pairs)
        left_i, left_j = find_cell(uniques, hashed[i]), find_cell(uniques, hashed[j])
        entered_i, entered_j = find_cell(uniques, hashed[i] + shift), find_cell(uniques, hashed[j] - shift)
        change = stand(standing, left_i, -1) + stand(standing, left_j, -1)
        change += stand(standing, entered_i, 1) + stand(standing, entered_j, 1)
        cost += WEIGHT * (max(n_copies + change, most) - max(n_copies, most))
        if cost > 0:
            stand(standing, entered_i, -1)
            stand(standing, entered_j, -1)
            stand(standing, left_i, 1)
            stand(standing, left_j, 1)
            continue
        n_exchanges += 1
        n_copies += change
        hashed[i] += shift
        hashed[j] -= shift
        for a in moved:
            for b in stays:
                start, of_a, of_b = pairs.start[a, b], pairs.step[a, b], pairs.step[b, a]
                pairs.more[start + codes[i, a] * of_a + codes[i, b] * of_b] -= 1
                pairs.more[start + codes[j, a] * of_a + codes[j, b] * of_b] -= 1
                pairs.more[start + codes[j, a] * of_a + codes[i, b] * of_b] += 1
                pairs.more[start + codes[i, a] * of_a + codes[j, b] * of_b] += 1
        for a in moved:
            codes[i, a], codes[j, a] = codes[j, a], codes[i, a]
    return n_exchanges
