"""Minimal unsafe combinations: walk the lattice of key sets, refining groups of cells that still look alike.

The sets are visited as bit masks in increasing order, so that every subset of a set comes before it. Removing the lowest
key gives the parent; numeric order is then the preorder of that tree, and a stack with one partition for each set size
holds all that is needed. A cell that is alone in its group is distinguished by the set: it leaves the partition, also for
all sets below. What remains shrinks quickly, and that makes the walk cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.compiled import njit

if TYPE_CHECKING:
    from rarecell.edges import Array


_ONE = np.uint32(1)

MOST_MARKED_KEYS = 10
"""Up to this many keys, a cell has a mark for every set of keys, at most 128 bytes; with more, a list of what was found."""


class AlikeCells(NamedTuple):
    """Cells that still look alike, for the sets of each size on the way to the set that is looked at.

    Attributes
    ----------
    members : uint32 array (max_size + 1, n_cells)
        Members of the groups, one group after the other. A member is twice its cell, plus one when the cell holds a single record.
    ends : int32 array (max_size + 1, n_cells)
        Where each group ends.
    n_groups : int64 array (max_size + 1,)
        How many groups there are.
    """

    members: Array
    ends: Array
    n_groups: Array


class Levels(NamedTuple):
    """Room for counting the levels of one group; ``size`` and ``uniques`` are zero before and after."""

    size: Array
    uniques: Array
    seen: Array


class UnsafeSets(NamedTuple):
    """What was found so far, and how a smaller set of the same cell is recognised.

    Attributes
    ----------
    cell, mask : int32 array, uint64 array
        The pairs, with room for more.
    supersets, marks : uint64 arrays
        For few keys: the sets that contain each set, and for each cell a mark for every set that contains one of its own.
    first, following : int64 arrays
        For many keys: the latest pair of each cell, and the one before each pair.
    """

    cell: Array
    mask: Array
    supersets: Array
    marks: Array
    first: Array
    following: Array


@njit(cache=True, nogil=True)
def split_groups(codes, key, size, groups, levels, alone):
    """Split each group of the set of ``size`` − 1 keys by one more ``key``.

    Uniques that are alone go to ``alone``, the rest to row ``size``. Groups without such a unique, and cells alone in their
    group with more than one record, cannot lead to anything and are dropped. Returns the number of uniques that are alone.
    """
    members, ends, n_groups = groups.members, groups.ends, groups.n_groups
    level_size, level_uniques, seen_level = levels.size, levels.uniques, levels.seen
    n_out, n_alone, written = 0, 0, 0
    start = 0
    for g in range(n_groups[size - 1]):
        end = ends[size - 1, g]
        n_seen = 0
        for k in range(start, end):
            member = members[size - 1, k]
            level = codes[key, member >> _ONE]
            if level_size[level] == 0:
                seen_level[n_seen] = level
                n_seen += 1
            level_size[level] += 1
            level_uniques[level] += member & _ONE
        # From sizes to first free places; neither a cell that is alone nor a group without a unique gets a place.
        for s in range(n_seen):
            level = seen_level[s]
            n_here = level_size[level]
            if n_here == 1 or level_uniques[level] == 0:
                level_size[level] = -1
            else:
                level_size[level] = written
                written += n_here
                ends[size, n_out] = written
                n_out += 1
        for k in range(start, end):
            member = members[size - 1, k]
            level = codes[key, member >> _ONE]
            place = level_size[level]
            if place >= 0:
                members[size, place] = member
                level_size[level] = place + 1
            elif member & _ONE:
                alone[n_alone] = member >> _ONE
                n_alone += 1
        for s in range(n_seen):
            level_size[seen_level[s]] = 0
            level_uniques[seen_level[s]] = 0
        start = end
    n_groups[size] = n_out
    return n_alone


@njit(cache=True, nogil=True)
def record(alone, n_alone, mask, sets, n_sets):
    """Note ``mask`` for each cell in ``alone`` that has no smaller set yet; returns how many were noted so far.

    Where cells have marks, one for every set that contains one of the cell's sets, a single lookup decides; otherwise the
    cell's list of sets found is searched.
    """
    marks, supersets, first, following = sets.marks, sets.supersets, sets.first, sets.following
    is_marked = len(marks) > 0
    row, word, bit = np.int64(mask), np.int64(mask >> np.uint64(6)), np.uint64(1) << (mask & np.uint64(63))
    for a in range(n_alone):
        cell = alone[a]
        is_minimal = True
        if is_marked:
            is_minimal = marks[cell, word] & bit == 0
        else:
            entry = first[cell]
            while entry >= 0 and is_minimal:
                is_minimal = sets.mask[entry] & ~mask != 0
                entry = following[entry]
        if is_minimal:
            sets.cell[n_sets] = cell
            sets.mask[n_sets] = mask
            if is_marked:
                for w in range(marks.shape[1]):
                    marks[cell, w] |= supersets[row, w]
            else:
                following[n_sets] = first[cell]
                first[cell] = n_sets
            n_sets += 1
    return n_sets


@njit(cache=True, nogil=True)
def walk(codes, groups, levels, alone, sets, state):
    """Visit the sets from the mask ``state[0]`` on, with ``state[1]`` pairs found; stop when one more set might not fit.

    ``state`` is set to where to continue; a mask of 0 says that all sets were visited.
    """
    n_groups = groups.n_groups
    n_keys, max_size = codes.shape[0], len(n_groups) - 1
    one = np.uint64(1)
    last = (one << np.uint64(n_keys - 1)) - one + (one << np.uint64(n_keys - 1))
    mask, n_sets = state[0], np.int64(state[1])
    while mask != 0 and n_sets + len(alone) <= len(sets.cell):
        size, lowest = np.int64(0), np.int64(-1)  # a literal would be one more type to compile for
        for k in range(n_keys):
            if mask >> np.uint64(k) & one:
                size += 1
                if lowest < 0:
                    lowest = np.int64(k)
        if size <= max_size and n_groups[size - 1] > 0:
            n_alone = split_groups(codes, lowest, size, groups, levels, alone)
            n_sets = record(alone, n_alone, mask, sets, n_sets)
        # Nothing can be found below a set that is too large or whose groups are all split: skip its descendants.
        is_leaf = size >= max_size or n_groups[size] == 0
        step = one << np.uint64(lowest) if is_leaf else one
        mask = mask + step if last - mask >= step else np.uint64(0)
    state[0], state[1] = mask, np.uint64(n_sets)


def _supersets_of_all(n_keys: int) -> NDArray[np.uint64]:
    """A bit for each set, in rows of 64-bit words: row S has the bits of all sets that contain S."""
    sets = np.arange(1 << n_keys)
    n_words = (len(sets) + 63) // 64
    contains = np.zeros((len(sets), 64 * n_words), dtype=np.uint8)
    contains[:, : len(sets)] = (sets[:, None] & ~sets[None, :]) == 0
    words = np.packbits(contains, axis=1, bitorder="little").view("<u8")
    return np.ascontiguousarray(words, dtype=np.uint64)


def minimal_unsafe_sets(
    codes: Array, counts: Array, most_levels: int, max_size: int
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """All pairs (cell, key set) such that the set, and no smaller one, singles out a cell with one record.

    Parameters
    ----------
    codes : integer array (n_keys, n_cells)
        Level codes, keys in rows, cells in columns; key k has the bit 1 << k.
    counts : integer array (n_cells,)
        Number of records in each cell.
    most_levels : int
        Largest number of levels of a key.
    max_size : int
        Size of the largest sets to look for.

    Returns
    -------
    found_cell : ndarray of int32
        Cell of each pair, in the order found.
    found_mask : ndarray of uint64
        Key set of each pair.
    """
    n_keys, n_cells = codes.shape
    members = np.empty((max_size + 1, n_cells), np.uint32)
    members[0] = 2 * np.arange(n_cells) + (counts == 1)
    ends = np.empty((max_size + 1, n_cells), np.int32)
    n_groups = np.zeros(max_size + 1, np.int64)
    ends[0, 0], n_groups[0] = n_cells, 1
    groups = AlikeCells(members, ends, n_groups)
    levels = Levels(np.zeros(most_levels, np.int64), np.zeros(most_levels, np.int64), np.empty(most_levels, np.int64))
    alone = np.empty(n_cells, np.int32)
    is_marked = n_keys <= MOST_MARKED_KEYS
    supersets = _supersets_of_all(n_keys if is_marked else 0)
    sets = UnsafeSets(
        cell=np.empty(2 * n_cells, np.int32),
        mask=np.empty(2 * n_cells, np.uint64),
        supersets=supersets,
        marks=np.zeros((n_cells if is_marked else 0, supersets.shape[1]), np.uint64),
        first=np.full(0 if is_marked else n_cells, -1, np.int64),
        following=np.empty(0 if is_marked else 2 * n_cells, np.int64),
    )
    state = np.array([1, 0], np.uint64)
    while True:
        walk(codes, groups, levels, alone, sets, state)
        n_sets = int(state[1])
        if state[0] == 0:
            return sets.cell[:n_sets], sets.mask[:n_sets]
        sets = sets._replace(cell=_doubled(sets.cell), mask=_doubled(sets.mask), following=_doubled(sets.following))


def _doubled(array: Array) -> Array:
    """The same entries with room for as many again."""
    return np.concatenate([array, np.empty_like(array)])


# Splitting cells by one key after another, and counting those that end up alone.
#
# Cells that agree on the keys so far form a group. A cell that is alone in its group is settled, whatever keys follow: its
# single record is unique, or its several records are not. Groups hold the remaining cells, two or more each: group g has the
# cells ``rows[starts[g]:starts[g + 1]]``. Cells of a group lie together, so that splitting it stays within a core's cache.


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
