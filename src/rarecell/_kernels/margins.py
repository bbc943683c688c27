"""Counts and entropy terms of marginals, from coded cells.

A marginal cell is one integer: the mixed-radix number of its codes. Where the marginal has few possible cells, the
counts go into a dense array, otherwise into an open-addressing hash table of at most four times as many slots as cells.
"""

from __future__ import annotations

import numpy as np

from rarecell._kernels.compiled import njit
from rarecell._kernels.hashing import slot_of_key

_EMPTY = np.int64(-1)

_TABULATED = 4096
_N_LOG_N = np.concatenate([np.zeros(1), np.arange(1, _TABULATED) * np.log(np.arange(1, _TABULATED))])
"""n log n of small counts: most counts are small, and computing a logarithm takes longer than looking it up."""


@njit(cache=True, nogil=True)
def n_log_n(n):
    """n log n, and 0 for 0."""
    whole = np.int64(n)
    if whole < _TABULATED and whole == n:
        return _N_LOG_N[whole]
    return n * np.log(n)


@njit(cache=True, nogil=True)
def marginal_keys(codes, columns, begins, adds):
    """Mixed-radix number of each row: member j reads a column, and code c in it adds ``adds[begins[j] + c]``.

    ``codes`` has one row per column of the table: another memory layout would be one more type to compile for.
    """
    keys = np.zeros(codes.shape[1], dtype=np.int64)
    for j in range(len(columns)):
        # Unsigned positions need no check of their sign.
        column, begin = codes[columns[j]], np.uint64(begins[j])
        for i in range(len(keys)):
            keys[i] += adds[begin + column[np.uint64(i)]]
    return keys


# Σ n log n of many marginals.
#
# Sets come in an order in which neighbours share their first members. The cells of a set's first members are numbered 0, 1, …
# without gaps, and these numbers are kept for the next set; only the last member has to be counted. So a set costs one pass over
# the rows however many members it has, and the counts are few enough to stay in a core's cache.


@njit(cache=True, nogil=True)
def _number_dense(before, column, begin, level_codes, n_levels, place, number):
    """Number the pairs of a cell so far and a level in order of appearance; ``place`` is −1 for every possible pair."""
    n_cells = np.int64(0)
    for i in range(len(before)):
        pair = np.uint64(np.int64(before[i]) * n_levels + level_codes[np.uint64(begin) + np.uint64(column[i])])
        if place[pair] < 0:
            place[pair] = n_cells
            n_cells += 1
        number[i] = place[pair]
    return n_cells


@njit(cache=True, nogil=True)
def _number_hashed(before, column, begin, level_codes, n_levels, number):
    """The same with a hash table, where many pairs are possible."""
    owner = _free_slots(len(before))
    at_slot = np.empty(len(owner), dtype=np.int32)
    n_cells = np.int64(0)
    for i in range(len(before)):
        pair = np.int64(before[i]) * n_levels + level_codes[np.uint64(begin) + np.uint64(column[i])]
        slot = slot_of_key(owner, pair)
        if owner[slot] == _EMPTY:
            owner[slot] = pair
            at_slot[slot] = n_cells
            n_cells += 1
        number[i] = at_slot[slot]
    return n_cells


@njit(cache=True, nogil=True)
def _sum_dense(before, counts, column, begin, level_codes, n_levels, n_possible, sums):
    """Σ n log n over the pairs of a cell so far and a level; ``sums`` is 0 before and after."""
    for i in range(len(before)):
        pair = np.uint64(np.int64(before[i]) * n_levels + level_codes[np.uint64(begin) + np.uint64(column[i])])
        sums[pair] += counts[i]
    total = 0.0
    for possible in range(n_possible):
        if sums[possible] > 1:  # 0 and 1 add nothing, and are most of a sparse marginal
            total += n_log_n(np.float64(sums[possible]))
        sums[possible] = 0
    return total


@njit(cache=True, nogil=True)
def _sum_hashed(before, counts, column, begin, level_codes, n_levels):
    """The same with a hash table, where many pairs are possible."""
    owner = _free_slots(len(before))
    sums = np.zeros(len(owner), dtype=counts.dtype)
    for i in range(len(before)):
        pair = np.int64(before[i]) * n_levels + level_codes[np.uint64(begin) + np.uint64(column[i])]
        slot = slot_of_key(owner, pair)
        owner[slot] = pair
        sums[slot] += counts[i]
    total = 0.0
    for slot in range(len(owner)):
        if sums[slot] > 1:
            total += n_log_n(np.float64(sums[slot]))
    return total


@njit(cache=True, nogil=True)
def _free_slots(n_keys):
    bits = 4
    while (1 << bits) < 2 * n_keys:
        bits += 1
    return np.full(1 << bits, _EMPTY)


@njit(cache=True, nogil=True)
def sums_of_n_log_n(codes, counts, first, members, columns, begins, levels, level_codes, sums):
    """Write Σ n_a log n_a over the cells of each marginal to ``sums``; ``codes`` has one row per column of the table.

    Marginal j has the vertices ``members[first[j]]`` to ``members[first[j + 1] - 1]``, one at least. Vertex v reads the column
    ``columns[v]``, where code c is its level ``level_codes[begins[v] + c]`` of ``levels[v]``. The kernel holds no lock, so several
    threads can do a part each. With 32-bit counts the sums, which are accessed at random, take half the room.
    """
    most = np.int64(0)
    for j in range(len(sums)):
        most = max(most, first[j + 1] - first[j])
    room = 4 * len(counts) + 1024
    place, counted = np.empty(room, dtype=np.int32), np.zeros(room, dtype=counts.dtype)
    # Numbers of the cells of the first 0, 1, … members of the set that was counted last.
    number, n_cells = np.empty((most, len(counts)), dtype=np.int32), np.empty(most, dtype=np.int64)
    for i in range(len(counts)):
        number[0, i] = 0
    n_cells[0] = 1
    n_numbered = 0
    for j in range(len(sums)):
        n_before = first[j + 1] - first[j] - 1
        n_shared = 0
        while n_shared < n_numbered and n_shared < n_before and members[first[j] + n_shared] == members[first[j - 1] + n_shared]:
            n_shared += 1
        for k in range(n_shared, n_before):
            v = members[first[j] + k]
            n_possible = n_cells[k] * levels[v]
            if n_possible <= room:
                for pair in range(n_possible):
                    place[pair] = -1
                n_cells[k + 1] = _number_dense(
                    number[k], codes[columns[v]], begins[v], level_codes, levels[v], place, number[k + 1]
                )
            else:
                n_cells[k + 1] = _number_hashed(number[k], codes[columns[v]], begins[v], level_codes, levels[v], number[k + 1])
        n_numbered = n_before
        v = members[first[j] + n_before]
        before, column, n_possible = number[n_before], codes[columns[v]], n_cells[n_before] * levels[v]
        if n_possible <= room:
            sums[j] = _sum_dense(before, counts, column, begins[v], level_codes, levels[v], n_possible, counted)
        else:
            sums[j] = _sum_hashed(before, counts, column, begins[v], level_codes, levels[v])


@njit(cache=True, nogil=True)
def unpack(keys, strides, columns, begins, levels, rows):
    """Undo :func:`marginal_keys`: column ``columns[j]`` gets the level ``levels[begins[j] + c]`` for code c of member j."""
    for i in range(len(keys)):
        rest = keys[i]
        for j in range(len(columns)):
            code = rest // strides[j]
            rest -= code * strides[j]
            rows[i, columns[j]] = levels[begins[j] + code]


@njit(cache=True, nogil=True)
def rank_dense(keys, distinct, rank, position):
    """Position of each key among the ``distinct`` ones, −1 for others. ``rank`` starts with −1 for every possible key."""
    for k in range(len(distinct)):
        rank[distinct[k]] = k
    for i in range(len(keys)):
        position[i] = rank[keys[i]]


@njit(cache=True, nogil=True)
def add_up(positions, values, sums):
    """Add each value to the sum at its position; whole numbers stay whole."""
    for i in range(len(positions)):
        sums[positions[i]] += values[i]


# Marginals of a few keys as full arrays, including empty cells.


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


# Sums over all pairs of keys, cell by cell.


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
