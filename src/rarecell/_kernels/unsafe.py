"""Minimal unsafe combinations: walk the lattice of key sets, refining groups of cells that still look alike.

The sets are visited as bit masks in increasing order, so that every subset of a set comes before it. Taking the lowest
key away gives the parent; numeric order is then the preorder of that tree, and a stack with one partition for each set
size holds all that is needed. A cell that is alone in its group is distinguished by the set: it leaves the partition, and
with it all larger sets. What remains shrinks quickly, which is what makes the walk cheap.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_ONE = np.uint32(1)

MOST_MARKED_KEYS = 10
"""Up to so many keys a cell has a mark for every set of keys, 128 bytes at most; with more, a list of what was found."""


@njit(cache=True, nogil=True)
def split_groups(codes, members, ends, n_groups, buffers, out_members, out_ends):
    """Split each group of ``members`` by ``codes``; alone uniques go to ``buffers[3]``, the rest to the output.

    A member is twice its cell, plus one when the cell holds a single record. Groups without such a unique, and cells alone
    in their group with more than one record, cannot lead to anything and are dropped. ``buffers`` is (size of each level,
    its number of uniques, first seen levels, alone cells). Returns the numbers of output groups and of alone uniques.
    """
    level_size, level_uniques, seen_level, alone = buffers
    n_out, n_alone, written = 0, 0, 0
    start = 0
    for g in range(n_groups):
        end = ends[g]
        n_seen = 0
        for k in range(start, end):
            level = codes[members[k] >> _ONE]
            if level_size[level] == 0:
                seen_level[n_seen] = level
                n_seen += 1
            level_size[level] += 1
            level_uniques[level] += members[k] & _ONE
        # From sizes to first free places; an alone cell has no place, nor has a group without a unique.
        for s in range(n_seen):
            level = seen_level[s]
            size = level_size[level]
            if size == 1 or level_uniques[level] == 0:
                level_size[level] = -1
            else:
                level_size[level] = written
                written += size
                out_ends[n_out] = written
                n_out += 1
        for k in range(start, end):
            level = codes[members[k] >> _ONE]
            place = level_size[level]
            if place >= 0:
                out_members[place] = members[k]
                level_size[level] = place + 1
            elif members[k] & _ONE:
                alone[n_alone] = members[k] >> _ONE
                n_alone += 1
        for s in range(n_seen):
            level_size[seen_level[s]] = 0
            level_uniques[seen_level[s]] = 0
        start = end
    return n_out, n_alone


@njit(cache=True, nogil=True)
def record_minimal(alone, n_alone, mask, first, following, found_cell, found_mask, n_found):
    """Append ``mask`` to the list of each alone cell that has no smaller set in its list yet."""
    for a in range(n_alone):
        cell = alone[a]
        entry = first[cell]
        is_minimal = True
        while entry >= 0:
            if found_mask[entry] & ~mask == 0:
                is_minimal = False
                break
            entry = following[entry]
        if is_minimal:
            found_cell[n_found] = cell
            found_mask[n_found] = mask
            following[n_found] = first[cell]
            first[cell] = n_found
            n_found += 1
    return n_found


@njit(cache=True, nogil=True)
def supersets_of_all(n_keys):
    """A bit for each set, in rows of 64-bit words: row S has the bits of all sets that contain S."""
    n_sets = 1 << n_keys
    found = np.zeros((n_sets, (n_sets + 63) // 64), np.uint64)
    for inner in range(n_sets):
        for outer in range(inner, n_sets):
            if inner & ~outer == 0:
                found[inner, outer >> 6] |= np.uint64(1) << np.uint64(outer & 63)
    return found


@njit(cache=True, nogil=True)
def record_marked(alone, n_alone, mask, marks, supersets, found_cell, found_mask, n_found):
    """As :func:`record_minimal`, where each cell has a mark for every set that contains one of its list: one look decides."""
    word, bit = np.int64(mask) >> 6, np.uint64(1) << (mask & np.uint64(63))
    row = supersets[np.int64(mask)]
    for a in range(n_alone):
        cell = alone[a]
        if marks[cell, word] & bit == 0:
            found_cell[n_found] = cell
            found_mask[n_found] = mask
            n_found += 1
            for w in range(len(row)):
                marks[cell, w] |= row[w]
    return n_found


@njit(cache=True, nogil=True)
def longer(array, size):
    """The same entries with room for more. Spelt out, because assignments of whole arrays take seconds to compile."""
    larger = np.empty(size, array.dtype)
    for k in range(array.size):
        larger[k] = array[k]
    return larger


@njit(cache=True, nogil=True)
def minimal_unsafe_sets(codes, counts, most_levels, max_size):
    """All pairs (cell, key set) such that the set, and no smaller one, singles out a cell with one record.

    Parameters
    ----------
    codes : level codes, keys in rows, cells in columns; key k has the bit 1 << k
    counts : records of each cell
    most_levels : largest number of levels of a key
    max_size : largest set to look for

    Returns
    -------
    found_cell, found_mask : arrays, in the order found
    """
    n_keys, n_cells = codes.shape
    members = np.empty((max_size + 1, n_cells), np.uint32)
    ends = np.empty((max_size + 1, n_cells), np.int32)
    n_groups = np.zeros(max_size + 1, np.int64)
    for cell in range(n_cells):
        members[0, cell] = 2 * cell + (counts[cell] == 1)
    ends[0, 0], n_groups[0] = n_cells, 1
    level_size, level_uniques = np.zeros(most_levels, np.int64), np.zeros(most_levels, np.int64)
    buffers = (level_size, level_uniques, np.empty(most_levels, np.int64), np.empty(n_cells, np.int32))
    is_marked = n_keys <= MOST_MARKED_KEYS
    supersets = supersets_of_all(n_keys if is_marked else 0)
    marks = np.zeros((n_cells if is_marked else 0, supersets.shape[1]), np.uint64)
    first = np.full(0 if is_marked else n_cells, -1, np.int64)
    following, found_cell = np.empty(0 if is_marked else n_cells, np.int64), np.empty(n_cells, np.int32)
    found_mask = np.empty(n_cells, np.uint64)
    n_found = 0
    one = np.uint64(1)
    last = (one << np.uint64(n_keys - 1)) - one + (one << np.uint64(n_keys - 1))
    mask = one
    while True:
        size, lowest = 0, -1
        for k in range(n_keys):
            if mask >> np.uint64(k) & one:
                size += 1
                if lowest < 0:
                    lowest = k
        if size <= max_size and n_groups[size - 1] > 0:
            n_groups[size], n_alone = split_groups(
                codes[lowest], members[size - 1], ends[size - 1], n_groups[size - 1], buffers, members[size], ends[size]
            )
            if n_found + n_alone > found_cell.size:
                room = 2 * (n_found + n_alone)
                following = longer(following, 0 if is_marked else room)
                found_cell = longer(found_cell, room)
                found_mask = longer(found_mask, room)
            if is_marked:
                n_found = record_marked(buffers[3], n_alone, mask, marks, supersets, found_cell, found_mask, n_found)
            else:
                n_found = record_minimal(buffers[3], n_alone, mask, first, following, found_cell, found_mask, n_found)
        # Nothing below a set that is too large or whose groups are all split: pass over its descendants.
        is_leaf = size >= max_size or n_groups[size] == 0
        step = one << np.uint64(lowest) if is_leaf else one
        if last - mask < step:
            break
        mask += step
    return found_cell[:n_found], found_mask[:n_found]
