"""Marginals of a few keys as full arrays, including empty cells."""

from __future__ import annotations

import numpy as np

from rarecell._kernels.compiled import njit


@njit(cache=True, nogil=True)
def full_counts(codes, weights, columns, strides, n_possible):
    """Sum of ``weights`` in every possible cell of the columns; a cell's number is the sum of its codes times ``strides``."""
    sums = np.zeros(n_possible, dtype=weights.dtype)
    for i in range(codes.shape[0]):
        cell = 0
        for j in range(len(columns)):
            cell += codes[i, columns[j]] * strides[j]
        sums[cell] += weights[i]
    return sums
