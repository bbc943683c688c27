"""Sums over all pairs of keys, cell by cell."""

from __future__ import annotations

import numpy as np

from rarecell._kernels.compiled import njit


@njit(cache=True, nogil=True)
def one_plus_pairs(cells, levels, terms):
    """1 plus the term of each pair of codes, at each cell.

    ``terms`` holds the tables of the pairs (0, 1), (0, 2), … one after another, each row by row.
    """
    total = np.ones(cells.shape[0])
    n_keys = cells.shape[1]
    for i in range(cells.shape[0]):
        first = 0
        for a in range(n_keys):
            for b in range(a + 1, n_keys):
                total[i] += terms[first + cells[i, a] * levels[b] + cells[i, b]]
                first += levels[a] * levels[b]
    return total
