"""Counts and entropy terms of marginals, from coded cells.

A marginal cell is one integer: the mixed-radix number of its codes. Where the marginal has few possible cells, the
counts go into a dense array, otherwise into an open-addressing hash table of at most four times as many slots as cells.
"""

from __future__ import annotations

import numpy as np

from rarecell._kernels.compiled import njit
from rarecell._kernels.hashing import slot_of_key

_EMPTY = np.int64(-1)

_ROWS_AT_ONCE = 4096
"""Number of rows whose keys stay in the processor's cache until they are counted."""

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
    keys = np.empty(codes.shape[1], dtype=np.int64)
    _fill_keys(codes, np.int64(0), len(keys), columns, begins, adds, keys)
    return keys


@njit(cache=True, nogil=True)
def _fill_keys(codes, start, stop, columns, begins, adds, keys):
    """Keys of the rows ``start:stop`` from the members of a marginal.

    Unsigned positions need no check of their sign, and a literal in a call would be one more type to compile for.
    """
    begin_row = np.uint64(start)
    for i in range(stop - start):
        keys[i] = 0
    for j in range(len(columns)):
        column, begin = codes[columns[j]], np.uint64(begins[j])
        for i in range(stop - start):
            keys[i] += adds[begin + column[begin_row + np.uint64(i)]]


@njit(cache=True, nogil=True)
def _sum_of_n_log_n_dense(codes, counts, columns, begins, adds, n_possible):
    sums = np.zeros(n_possible, dtype=counts.dtype)
    keys = np.empty(_ROWS_AT_ONCE, dtype=np.int64)
    for start in range(0, len(counts), _ROWS_AT_ONCE):
        stop = start + _ROWS_AT_ONCE if start + _ROWS_AT_ONCE < len(counts) else len(counts)
        _fill_keys(codes, start, stop, columns, begins, adds, keys)
        for i in range(start, stop):
            sums[np.uint64(keys[i - start])] += counts[i]
    total = 0.0
    for n in sums:
        if n > 1:  # 0 and 1 add nothing, and are most of a sparse marginal
            total += n_log_n(np.float64(n))
    return total


@njit(cache=True, nogil=True)
def _sum_of_n_log_n_hashed(keys, counts):
    bits = 4
    while (1 << bits) < 2 * len(keys):
        bits += 1
    owner = np.full(1 << bits, _EMPTY)
    sums = np.zeros(1 << bits, dtype=counts.dtype)
    for i in range(len(keys)):
        slot = slot_of_key(owner, keys[i])
        owner[slot] = keys[i]
        sums[slot] += counts[i]
    total = 0.0
    for slot in range(len(owner)):
        if sums[slot] > 1:
            total += n_log_n(np.float64(sums[slot]))
    return total


@njit(cache=True, nogil=True)
def sums_of_n_log_n(codes, counts, first, columns, begins, adds, n_possible, sums):
    """Write Σ n_a log n_a over the cells of each marginal to ``sums``; ``codes`` has one row per column of the table.

    Marginal j has the members ``first[j]`` to ``first[j+1]``, each as in :func:`marginal_keys`, and ``n_possible[j]``
    possible cells. The kernel holds no lock, so several threads can do a part each. With 32-bit counts the array of sums,
    which is accessed at random, is half as long.
    """
    for j in range(len(n_possible)):
        own_columns, own_begins = columns[first[j] : first[j + 1]], begins[first[j] : first[j + 1]]
        if n_possible[j] <= 4 * len(counts) + 1024:
            sums[j] = _sum_of_n_log_n_dense(codes, counts, own_columns, own_begins, adds, n_possible[j])
        else:
            keys = np.empty(len(counts), dtype=np.int64)
            _fill_keys(codes, np.int64(0), len(counts), own_columns, own_begins, adds, keys)
            sums[j] = _sum_of_n_log_n_hashed(keys, counts)


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
