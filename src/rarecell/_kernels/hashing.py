"""Where in a hash table is a key, or where does it belong?

Open addressing: the number of slots is a power of two and at least twice the number of keys. The search for a key begins at
its home slot, the high bits of its product with 2^64 divided by the golden ratio, and ends at the key or a free slot. A slot
holds the key itself (:func:`slot_of_key`) or its position in a list of keys (:func:`slot_of_position`); −1 marks a free slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.chordal import popcount
from rarecell._kernels.compiled import njit
from rarecell._kernels.distance import borrowing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rarecell.edges import Array


_SPREAD = np.uint64(0x9E3779B97F4A7C15)


def n_slots_for(n_keys: int) -> int:
    """Number of slots: the smallest power of two that is at least twice the number of keys."""
    return int(1 << max(4, (2 * n_keys - 1).bit_length()))


def free_slots(n_keys: int, dtype: type[np.integer[Any]] = np.int32) -> Array:
    """An empty hash table for this many keys."""
    return np.full(n_slots_for(n_keys), -1, dtype=dtype)


@njit(cache=True, nogil=True, inline="always")
def home_slot(key, n_slots):
    """Where the search for a key begins."""
    return np.int64((np.uint64(key) * _SPREAD) >> np.uint64(64 - popcount(np.uint64(n_slots - 1))))


@njit(cache=True, nogil=True, inline="always")
def slot_of_key(owner, key):
    """The slot that holds this key, or the free one where it belongs."""
    slot = home_slot(key, len(owner))
    while owner[slot] != -1 and owner[slot] != key:
        slot = (slot + 1) & (len(owner) - 1)
    return slot


@njit(cache=True, nogil=True, inline="always")
def slot_of_position(slots, keys, key):
    """The slot that holds the position of this key in ``keys``, or the free one where it belongs."""
    slot = home_slot(key, len(slots))
    while slots[slot] != -1 and keys[slots[slot]] != key:
        slot = (slot + 1) & (len(slots) - 1)
    return slot


@njit(cache=True, nogil=True)
def fill_slots(keys, slots):
    """Enter the position of each key; among equal keys, the first is kept."""
    for position in range(len(keys)):
        slot = slot_of_position(slots, keys, keys[position])
        if slots[slot] == -1:
            slots[slot] = position


@njit(cache=True, nogil=True)
def find_slots(asked, keys, slots, position):
    """The position of each ``asked`` value among the ``keys`` of a table; −1 where it is negative or not among them."""
    for i in range(len(asked)):
        position[i] = -1
        if asked[i] >= 0:
            position[i] = slots[slot_of_position(slots, keys, asked[i])]


@njit(cache=True, nogil=True)
def number_distinct(keys, slots, distinct, number):
    """Write the distinct keys in order of appearance, and which of them each key is; returns how many there are."""
    n_distinct = 0
    for i in range(len(keys)):
        slot = slot_of_position(slots, distinct, keys[i])
        if slots[slot] == -1:
            slots[slot] = n_distinct
            distinct[n_distinct] = keys[i]
            n_distinct += 1
        number[i] = slots[slot]
    return n_distinct


_DENSE = 4
"""Keys lie close together if there could be at most this many times as many as there are."""


def sorted_distinct(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """The distinct keys in increasing order, where each stands first, and which of them each key is, as ``np.unique`` has them.

    Where the keys lie close together, they are marked on a line and nothing is sorted; elsewhere only the distinct keys are. Both are
    several times as fast where keys repeat.
    """
    if len(keys):
        least, most = int(keys.min()), int(keys.max())
        if most - least < _DENSE * len(keys):
            return _marked(keys - least, least, most - least + 1)
    distinct, number = np.empty(len(keys), dtype=np.int64), np.empty(len(keys), dtype=np.int32)
    n_distinct = number_distinct(keys, free_slots(len(keys)), distinct, number)
    order = np.argsort(distinct[:n_distinct])
    rank = np.empty(n_distinct, dtype=np.int32)
    rank[order] = np.arange(n_distinct, dtype=np.int32)
    number = rank[number]
    first = np.empty(n_distinct, dtype=np.int64)
    first[number[::-1]] = np.arange(len(keys) - 1, -1, -1)
    return distinct[order], first, number


def _marked(at: NDArray[np.int64], least: int, n_marks: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """:func:`sorted_distinct` of keys that are ``at`` places after the least key, on a line with a mark for each key there may be."""
    first = np.full(n_marks, -1, dtype=np.int64)
    # Assigned from the last to the first, so that the first stays.
    first[at[::-1]] = np.arange(len(at) - 1, -1, -1)
    occurring = np.flatnonzero(first >= 0)
    number = np.empty(n_marks, dtype=np.int32)
    number[occurring] = np.arange(len(occurring), dtype=np.int32)
    return occurring + least, first[occurring], number[at]


# In which occupied cell is a row of codes?
#
# A cell's hash is a sum of random numbers, one for each level of each key, so that the hash of a row after an exchange follows
# from its old one with one step per exchanged key.


class HashedCells(NamedTuple):
    """The occupied cells as a hash table; ``is_closed`` marks those that no swap may enter."""

    slots: NDArray[np.int64]
    hashed: NDArray[np.uint64]
    counts: NDArray[np.int64]
    is_closed: NDArray[np.bool_]
    mixing: NDArray[np.uint64]
    start: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        codes: NDArray[np.int32],
        counts: NDArray[np.int64],
        levels: Sequence[int],
        is_closed: NDArray[np.bool_] | None = None,
    ) -> HashedCells:
        """The table of these cells, whose columns have so many levels; without ``is_closed``, swaps may enter any."""
        start = np.cumsum([0, *levels])[:-1].astype(np.int64)
        mixing = mixed_many(np.arange(sum(levels)), 0)
        hashed = hash_rows(np.ascontiguousarray(codes), mixing, start)
        slots = free_slots(len(hashed), np.int64)
        fill_slots(hashed, slots)
        return cls(slots, hashed, counts, np.zeros(len(hashed), dtype=bool) if is_closed is None else is_closed, mixing, start)

    def of_rows(self, codes: NDArray[np.int32]) -> NDArray[np.uint64]:
        """A number of 64 bits for each row of codes, by which cells are told apart."""
        return np.asarray(hash_rows(np.ascontiguousarray(codes), self.mixing, self.start))


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
    hashed = np.empty(len(numbers), dtype=np.uint64)
    for k in range(len(numbers)):
        hashed[k] = mixed(np.uint64(numbers[k]) ^ mixed(np.uint64(salt)))
    return hashed


@njit(cache=True)
def hash_rows(codes, mixing, start):
    """Sum of the random numbers of a row's levels, over the first ``len(start)`` columns."""
    hashed = np.zeros(codes.shape[0], dtype=np.uint64)
    for row in range(codes.shape[0]):
        for k in range(len(start)):
            hashed[row] += mixing[start[k] + codes[row, k]]
    return hashed


@borrowing
def find_cell(cells, hashed):
    """Position of the cell with this hash; −1 when no occupied cell has it."""
    # Two cells with the same 64-bit hash could only make a candidate look worse, never make a margin wrong.
    return cells.slots[slot_of_position(cells.slots, cells.hashed, hashed)]


@njit(cache=True)
def find_cells(cells, hashed):
    """:func:`find_cell` for many hashes."""
    cell = np.empty(len(hashed), dtype=np.int64)
    for k in range(len(hashed)):
        cell[k] = find_cell(cells, hashed[k])
    return cell
