"""In which occupied cell is a row of codes?

A cell's hash is a sum of random numbers, one for each level of each key, so that the hash of a row after an exchange follows
from its old one with one step per exchanged key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.compiled import njit
from rarecell._kernels.distance import borrowing
from rarecell._kernels.hashing import slot_of_position


class Cells(NamedTuple):
    """The occupied cells as a hash table; ``is_closed`` marks those that no swap may enter."""

    slots: NDArray[np.int64]
    hashed: NDArray[np.uint64]
    counts: NDArray[np.int64]
    is_closed: NDArray[np.bool_]
    mixing: NDArray[np.uint64]
    start: NDArray[np.int64]


@njit(cache=True)
def mixed(number):
    """splitmix64: a number that looks random and depends only on ``number``."""
    z = np.uint64(number) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def mixed_many(numbers, salt):
    """:func:`mixed` of each number, in the stream ``salt``."""
    found = np.empty(len(numbers), dtype=np.uint64)
    for k in range(len(numbers)):
        found[k] = mixed(np.uint64(numbers[k]) ^ mixed(np.uint64(salt)))
    return found


@njit(cache=True)
def hash_rows(codes, mixing, start):
    """Sum of the random numbers of a row's levels, over the first ``len(start)`` columns."""
    found = np.zeros(codes.shape[0], dtype=np.uint64)
    for row in range(codes.shape[0]):
        for k in range(len(start)):
            found[row] += mixing[start[k] + codes[row, k]]
    return found


@borrowing
def find_cell(cells, hashed):
    """Position of the cell with this hash; −1 when no occupied cell has it."""
    # Two cells with the same 64-bit hash could only make a candidate look worse, never make a margin wrong.
    return cells.slots[slot_of_position(cells.slots, cells.hashed, hashed)]


@njit(cache=True)
def find_cells(cells, hashed):
    """:func:`find_cell` for many hashes."""
    found = np.empty(len(hashed), dtype=np.int64)
    for k in range(len(hashed)):
        found[k] = find_cell(cells, hashed[k])
    return found
