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


# The cells of blocks of rows.

_BLOCK = 4096
"""Rows whose cells are numbered together: they stay in the nearest cache."""


@njit(cache=True, nogil=True)
def _number_block(codes, start, columns, begins, level_codes, levels, block):
    """Write the mixed-radix numbers of the rows from ``start`` on to ``block``; a column, a stretch of codes and levels for each member.

    A member that begins at −1 has the codes of its column as levels. That is a loop which compilers turn into vector instructions.
    """
    block[:] = 0
    for j in range(len(columns)):
        column, n_levels = codes[columns[j], start : start + len(block)], np.int32(levels[j])
        if begins[j] < 0:
            for i in range(len(block)):
                block[i] = block[i] * n_levels + np.int32(column[i])
        else:
            begin = np.uint64(begins[j])
            for i in range(len(block)):
                block[i] = block[i] * n_levels + level_codes[begin + np.uint64(column[i])]


# Σ n log n of many marginals.
#
# Where a set of a long table has few possible cells, all its members are read in one pass. Others come in an order in which
# neighbours share their first members: the cells of a set's first members are numbered 0, 1, … without gaps, and these numbers are
# kept for the next set; only the last member has to be counted. So a set costs one pass over the rows however many members it has,
# and the counts are few enough to stay in a core's cache.
#
# Either way the terms are added in the same order, so the sums agree to the last digit.

_FEW_POSSIBLE = 1 << 17
"""Up to this many possible cells, the counts stay in the cache although many of them may be 0."""


@njit(cache=True, nogil=True)
def _sum_direct(codes, counts, columns, begins, level_codes, levels, sums, is_done, seen):
    """Σ n log n over the cells of the members; ``sums`` and ``is_done`` are 0 before and after, and ``seen`` is scratch.

    Terms are added in the order in which the cells of all members but the last appear, and by the level of the last.
    """
    block = np.empty(_BLOCK, dtype=np.int32)
    n_seen = np.int64(0)
    for start in range(0, len(counts), _BLOCK):
        part = block[: min(_BLOCK, len(counts) - start)]
        _number_block(codes, start, columns, begins, level_codes, levels, part)
        for i in range(len(part)):
            cell = np.uint64(part[i])
            so_far = sums[cell]
            if so_far == 0:
                seen[n_seen] = part[i]
                n_seen += 1
            sums[cell] = so_far + counts[start + i]
    total, n_last = 0.0, levels[len(levels) - 1]
    for k in range(n_seen):
        first = seen[k] // n_last
        if is_done[first]:
            continue
        is_done[first] = True
        for possible in range(first * n_last, (first + 1) * n_last):
            if sums[possible] > 1:
                total += n_log_n(np.float64(sums[possible]))
            sums[possible] = 0
    for k in range(n_seen):
        is_done[seen[k] // n_last] = False
    return total


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
def sums_of_n_log_n(codes, counts, is_long, first, members, columns, begins, levels, level_codes, sums):
    """Write Σ n_a log n_a over the cells of each marginal to ``sums``; ``codes`` has one row per column of the table.

    Marginal j has the vertices ``members[first[j]]`` to ``members[first[j + 1] - 1]``, one at least. Vertex v reads the column
    ``columns[v]``, where code c is its level ``level_codes[begins[v] + c]`` of ``levels[v]``. The kernel holds no lock, so several
    threads can do a part each. With 32-bit counts the sums, which are accessed at random, take half the room. ``is_long`` says that
    numbers of the rows do not stay in the cache.
    """
    most = np.int64(0)
    for j in range(len(sums)):
        most = max(most, first[j + 1] - first[j])
    room = 4 * len(counts) + 1024
    few = min(room, _FEW_POSSIBLE) if is_long else 0
    direct, is_done, seen = np.zeros(few, dtype=counts.dtype), np.zeros(few, dtype=np.bool_), np.empty(few, dtype=np.int32)
    place, counted = np.empty(room, dtype=np.int32), np.zeros(room, dtype=counts.dtype)
    # Numbers of the cells of the first 0, 1, … members of the set that was numbered last.
    number, n_cells = np.empty((most, len(counts)), dtype=np.int32), np.empty(most, dtype=np.int64)
    numbered, n_numbered = -1, 0
    for j in range(len(sums)):
        own = members[first[j] : first[j + 1]]
        n_possible = 1.0
        for v in own:
            n_possible *= levels[v]
        if n_possible <= few:
            # A key's own codes are its levels; keys come first among the vertices.
            at = np.where(columns[own] == own, -1, begins[own])
            sums[j] = _sum_direct(codes, counts, columns[own], at, level_codes, levels[own], direct, is_done, seen)
            continue
        if numbered < 0:
            for i in range(len(counts)):
                number[0, i] = 0
            n_cells[0] = 1
        n_before = len(own) - 1
        n_shared = 0
        while n_shared < n_numbered and n_shared < n_before and own[n_shared] == members[first[numbered] + n_shared]:
            n_shared += 1
        for k in range(n_shared, n_before):
            v = own[k]
            n_pairs = n_cells[k] * levels[v]
            if n_pairs <= room:
                for pair in range(n_pairs):
                    place[pair] = -1
                n_cells[k + 1] = _number_dense(
                    number[k], codes[columns[v]], begins[v], level_codes, levels[v], place, number[k + 1]
                )
            else:
                n_cells[k + 1] = _number_hashed(number[k], codes[columns[v]], begins[v], level_codes, levels[v], number[k + 1])
        numbered, n_numbered = j, n_before
        v = own[n_before]
        before, column, n_pairs = number[n_before], codes[columns[v]], n_cells[n_before] * levels[v]
        if n_pairs <= room:
            sums[j] = _sum_dense(before, counts, column, begins[v], level_codes, levels[v], n_pairs, counted)
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
def full_counts(codes, weights, columns, levels, n_possible):
    """Sum of ``weights`` in every possible cell of the columns, the last of which changes fastest; ``codes`` has a row per column."""
    sums, block = np.zeros(n_possible, dtype=weights.dtype), np.empty(_BLOCK, dtype=np.int32)
    at, no_codes = np.full(len(columns), -1), np.empty(0, dtype=np.int32)
    for start in range(0, len(weights), _BLOCK):
        part = block[: min(_BLOCK, len(weights) - start)]
        _number_block(codes, start, columns, at, no_codes, levels, part)
        for i in range(len(part)):
            sums[np.uint64(part[i])] += weights[start + i]
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
