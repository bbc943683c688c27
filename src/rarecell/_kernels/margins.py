"""Counts and entropy terms of marginals, from coded cells.

A marginal cell is one integer: the mixed-radix number of its codes. Where the marginal has few possible cells the
counts go into a dense array, else into an open-addressing hash table no larger than four times the given cells.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_EMPTY = np.int64(-1)


@njit(cache=True, inline="always")
def _slot(key, shift):  # type: ignore[no-untyped-def]
    # Fibonacci hashing: the high bits of a multiplication by 2^64 / golden ratio.
    return np.int64((np.uint64(key) * np.uint64(11400714819323198485)) >> shift)


@njit(cache=True, nogil=True)
def marginal_keys(codes, members, strides):  # type: ignore[no-untyped-def]
    """Mixed-radix number of each row on the columns ``members``."""
    n = codes.shape[0]
    keys = np.zeros(n, dtype=np.int64)
    for j in range(len(members)):
        column, stride = members[j], strides[j]
        for i in range(n):
            keys[i] += np.int64(codes[i, column]) * stride
    return keys


@njit(cache=True, nogil=True)
def _sum_of_n_log_n_dense(keys, counts, n_possible):  # type: ignore[no-untyped-def]
    sums = np.zeros(n_possible, dtype=counts.dtype)
    for i in range(len(keys)):
        sums[keys[i]] += counts[i]
    total = 0.0
    for s in sums:
        if s > 0:
            total += s * np.log(s)
    return total


@njit(cache=True, nogil=True)
def _sum_of_n_log_n_hashed(keys, counts):  # type: ignore[no-untyped-def]
    bits = 4
    while (1 << bits) < 2 * len(keys):
        bits += 1
    shift = np.uint64(64 - bits)
    wrap = (1 << bits) - 1
    owner = np.full(1 << bits, _EMPTY)
    sums = np.zeros(1 << bits, dtype=counts.dtype)
    for i in range(len(keys)):
        slot = _slot(keys[i], shift)
        while owner[slot] != _EMPTY and owner[slot] != keys[i]:
            slot = (slot + 1) & wrap
        owner[slot] = keys[i]
        sums[slot] += counts[i]
    total = 0.0
    for slot in range(len(owner)):
        if owner[slot] != _EMPTY:
            total += sums[slot] * np.log(sums[slot])
    return total


@njit(cache=True, nogil=True)
def sums_of_n_log_n(codes, counts, first, members, strides, n_possible, sums):  # type: ignore[no-untyped-def]
    """Σ n_a log n_a over the cells of each marginal, into ``sums``.

    Marginal j has the columns ``members[first[j]:first[j+1]]`` of ``codes``, with ``strides`` alike, and
    ``n_possible[j]`` possible cells. It holds no lock, so that several threads can do a part each.
    """
    for j in range(len(n_possible)):
        keys = marginal_keys(codes, members[first[j] : first[j + 1]], strides[first[j] : first[j + 1]])
        if n_possible[j] <= 4 * len(counts) + 1024:
            sums[j] = _sum_of_n_log_n_dense(keys, counts, n_possible[j])
        else:
            sums[j] = _sum_of_n_log_n_hashed(keys, counts)


@njit(cache=True)
def dense_positions(keys, n_possible):  # type: ignore[no-untyped-def]
    """Rank of each key among the distinct keys, and the distinct keys in order."""
    rank = np.full(n_possible, -1, dtype=np.int32)
    for i in range(len(keys)):
        rank[keys[i]] = 0
    n_distinct = 0
    for key in range(n_possible):
        if rank[key] == 0:
            rank[key] = n_distinct
            n_distinct += 1
    distinct = np.empty(n_distinct, dtype=np.int64)
    for key in range(n_possible):
        if rank[key] >= 0:
            distinct[rank[key]] = key
    positions = np.empty(len(keys), dtype=np.int32)
    for i in range(len(keys)):
        positions[i] = rank[keys[i]]
    return positions, distinct


@njit(cache=True)
def add_up(positions, values, n):  # type: ignore[no-untyped-def]
    """Sum of ``values`` at each position; whole numbers stay whole."""
    sums = np.zeros(n, dtype=values.dtype)
    for i in range(len(positions)):
        sums[positions[i]] += values[i]
    return sums
