"""The best order of all vertices, over the lattice of closed sets.

A closed set is a number in mixed radix, with the level of key k as a digit of ``radix[k]`` values and weight
``stride[k]``; a larger set has a larger number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.compiled import njit


@njit(cache=True, nogil=True)
def maximum_over_subsets(best: NDArray[np.float32], radix: NDArray[np.int64], stride: NDArray[np.int64], fixed: int) -> None:
    """Replace each entry by the largest among its closed subsets with the same level of key ``fixed``, in place."""
    for k in range(radix.shape[0]):
        if k == fixed:
            continue
        step = stride[k]
        width = step * radix[k]
        for block in range(0, best.shape[0], width):
            for i in range(block + step, block + width):
                best[i] = max(best[i], best[i - step])


@njit(cache=True, nogil=True)
def best_completion(gain: NDArray[np.float32], radix: NDArray[np.int64], stride: NDArray[np.int64]) -> NDArray[np.float64]:
    """For each closed set, the largest sum of gains over all orders in which the remaining steps can be made.

    ``gain[k, c]`` is what the next step of key k adds when the vertices of c are already present.
    """
    n_keys, n_sets = gain.shape
    total = np.zeros(n_sets)
    digits = radix - 1
    for c in range(n_sets - 2, -1, -1):
        k = n_keys - 1
        while digits[k] == 0:
            digits[k] = radix[k] - 1
            k -= 1
        digits[k] -= 1
        best = -np.inf
        for x in range(n_keys):
            if digits[x] < radix[x] - 1:
                best = max(best, gain[x, c] + total[c + stride[x]])
        total[c] = best
    return total
