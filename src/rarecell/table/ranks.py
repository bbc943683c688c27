"""Where among the occupied cells of a marginal does each key stand, and what adds up there?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import margins as kernels
from rarecell._kernels.hashing import fill_slots, find_slots, free_slots

if TYPE_CHECKING:
    from rarecell.edges import Array

_FEW_ASKED = 4
"""Where so many times as many marginal cells occur as are asked for, a binary search beats a table of all of them."""


def added_up(positions: Array, values: Array, n_sums: int) -> Array:
    """Sum of the values at each position."""
    sums = np.zeros(n_sums, dtype=values.dtype)
    kernels.add_up(positions, values, sums)
    return sums


def ranked(keys: NDArray[np.int64], distinct: NDArray[np.int64], n_possible: int) -> NDArray[np.int32]:
    """Position of each key among the increasing ``distinct`` keys; −1 where it is absent."""
    if _FEW_ASKED * len(keys) < len(distinct):
        place = np.minimum(np.searchsorted(distinct, keys), len(distinct) - 1)
        return np.where(distinct[place] == keys, place, -1).astype(np.int32)
    found = np.empty(len(keys), dtype=np.int32)
    if n_possible <= 4 * max(len(keys), len(distinct)) + 1024:
        kernels.rank_dense(keys, distinct, np.full(n_possible, -1, dtype=np.int32), found)
    else:
        slots = free_slots(len(distinct))
        fill_slots(distinct, slots)
        find_slots(keys, distinct, slots, found)
    return found
