"""How far apart are two rows of codes?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.chordal import ZERO, bit
from rarecell._kernels.compiled import njit

NOMINAL, PLACED = 0, 1


def borrowing(kernel: Callable[..., Any]) -> Any:
    """Compile a kernel that creates no array and keeps none.

    It then need not count references to the two dozen arrays of a :class:`~rarecell._kernels.swapping.Search`, which would take ten times as long
    as the work itself and make threads wait for each other.
    """
    try:
        return njit(cache=True, nogil=True, _nrt=False)(kernel)  # an option of numba's own
    except (KeyError, TypeError):  # a numba without the option: slower, the same result
        return njit(cache=True, nogil=True)(kernel)


class Nearness(NamedTuple):
    """Distances between the levels of each key: its kind, where its places (or table) start, levels, places, weight."""

    kind: NDArray[np.int64]
    start: NDArray[np.int64]
    n_levels: NDArray[np.int64]
    place: NDArray[np.float64]
    weight: NDArray[np.float64]


@borrowing
def key_distance(nearness, k, a, b):
    """Weighted distance between two levels of key k."""
    if a == b:
        return 0.0
    if nearness.kind[k] == NOMINAL:
        return nearness.weight[k]
    if nearness.kind[k] == PLACED:
        apart = abs(nearness.place[nearness.start[k] + a] - nearness.place[nearness.start[k] + b])
        return nearness.weight[k] * (1.0 if np.isnan(apart) else apart)
    return nearness.weight[k] * nearness.place[nearness.start[k] + a * nearness.n_levels[k] + b]


@borrowing
def distance(nearness, first, second, moved):
    """Weighted distance between two rows on the keys of ``moved``."""
    total = 0.0
    for k in range(len(nearness.kind)):
        if moved & bit(k) != ZERO:
            total += key_distance(nearness, k, first[k], second[k])
    return total


@njit(cache=True)
def distances(nearness, codes, pairs, moved):
    """:func:`distance` for many pairs of rows of ``codes``."""
    apart = np.empty(len(pairs))
    for p in range(len(pairs)):
        apart[p] = distance(nearness, codes[pairs[p, 0]], codes[pairs[p, 1]], moved[p])
    return apart
