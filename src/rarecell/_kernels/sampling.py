"""The dynamic programme of :mod:`rarecell._kernels.exact` with sums in place of maxima, in logarithms.

    f(S, R) = log Σ over C larger than S at keys of R alone of exp e(C, what is left of R)
    h(C, R) = log Σ over S smaller than C, at keys outside R alone, of exp[f(S, R) − q(S)]
    e(C, U) = log Σ over R ⊆ U with min U ∈ R of exp[h(C, R) + e(C, U∖R)],  e(C, ∅) = q(C)

A separator S is a proper part of both cliques it joins, so every rooted junction tree is counted once (Kangas, Niinimäki
and Koivisto 2015, Averaging of decomposable graphs by dynamic programming and sampling).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.compiled import njit
from rarecell._kernels.exact import BlockLinks

_MOST_WAITING = 160
"""Size of the stack: a key leaves at most one entry more than it has vertices, and there are at most 64 vertices."""


@njit(cache=True, nogil=True)
def larger_sets(links: BlockLinks, c: int, rest: int | np.int64, sets: NDArray[np.int64], rests: NDArray[np.int64]) -> int:
    """Write all sets larger than c only at keys of ``rest``, with what is left of it; returns their number.

    A waiting entry is a set, its rest, and the bit below which it may still be raised. Bits are raised from the highest
    down, so that those below keep their places when a key is filled.
    """
    waiting = np.empty((_MOST_WAITING, 3), dtype=np.int64)
    waiting[0, 0], waiting[0, 1], waiting[0, 2] = c, rest, links.n_open[c]
    n_waiting, n_written = 1, 0
    while n_waiting:
        n_waiting -= 1
        here, left, j = waiting[n_waiting, 0], waiting[n_waiting, 1], waiting[n_waiting, 2] - 1
        while j >= 0 and not (left >> j) & 1:
            j -= 1
        if j < 0:
            if here != c:
                sets[n_written], rests[n_written] = here, left
                n_written += 1
            continue
        while True:
            waiting[n_waiting, 0], waiting[n_waiting, 1], waiting[n_waiting, 2] = here, left, j
            n_waiting += 1
            if not (left >> j) & 1 or links.raised[here, j] < 0:
                break
            if links.raise_fills[here, j]:
                here = links.raised[here, j]
                left = (left & ((1 << j) - 1)) | ((left >> (j + 1)) << j)
                waiting[n_waiting, 0], waiting[n_waiting, 1], waiting[n_waiting, 2] = here, left, j
                n_waiting += 1
                break
            here = links.raised[here, j]
    return n_written


@njit(cache=True, nogil=True)
def smaller_sets(links: BlockLinks, c: int, rest: int | np.int64, sets: NDArray[np.int64], rests: NDArray[np.int64]) -> int:
    """Write all sets smaller than c only at keys outside ``rest``, with its local mask there; returns their number."""
    waiting = np.empty((_MOST_WAITING, 3), dtype=np.int64)
    waiting[0, 0], waiting[0, 1], waiting[0, 2] = c, rest, links.lowered.shape[1]
    n_waiting, n_written = 1, 0
    while n_waiting:
        n_waiting -= 1
        here, left, x = waiting[n_waiting, 0], waiting[n_waiting, 1], waiting[n_waiting, 2] - 1
        if x < 0:
            if here != c:
                sets[n_written], rests[n_written] = here, left
                n_written += 1
            continue
        while True:
            waiting[n_waiting, 0], waiting[n_waiting, 1], waiting[n_waiting, 2] = here, left, x
            n_waiting += 1
            j = links.lower_bit[here, x]
            if links.lowered[here, x] < 0 or (not links.lower_opens[here, x] and (left >> j) & 1):
                break
            if links.lower_opens[here, x]:
                left = (left & ((1 << j) - 1)) | ((left >> j) << (j + 1))
            here = links.lowered[here, x]
    return n_written


@njit(cache=True, nogil=True)
def log_sum(terms: NDArray[np.float64]) -> float:
    """log Σ exp; −inf for no terms."""
    largest = -np.inf
    for term in terms:
        largest = max(largest, term)
    if largest == -np.inf:
        return -np.inf
    total = 0.0
    for term in terms:
        total += np.exp(term - largest)
    return float(largest + np.log(total))


@njit(cache=True, nogil=True)
def sum_of_larger(links: BlockLinks, e: NDArray[np.float64], f: NDArray[np.float64], rho: int, size: int) -> None:
    """Compute f for all states of remainder ``rho``; ``size`` is room for the sets larger than any one set."""
    sets, rests, terms = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size)
    for c in range(links.block.shape[0]):
        for i in range(links.rest_start[links.kind[c], rho], links.rest_start[links.kind[c], rho + 1]):
            rest = np.int64(links.rests[i])
            n = larger_sets(links, c, rest, sets, rests)
            for t in range(n):
                terms[t] = e[links.block[sets[t]] + rests[t]]
            f[links.block[c] + rest] = log_sum(terms[:n])


@njit(cache=True, nogil=True)
def sum_of_smaller(
    links: BlockLinks, q: NDArray[np.float64], f: NDArray[np.float64], h: NDArray[np.float64], rho: int, size: int
) -> None:
    """Compute h for all states of remainder ``rho``; ``size`` is room for the sets smaller than any one set."""
    sets, rests, terms = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size)
    for c in range(links.block.shape[0]):
        for i in range(links.rest_start[links.kind[c], rho], links.rest_start[links.kind[c], rho + 1]):
            rest = np.int64(links.rests[i])
            n = smaller_sets(links, c, rest, sets, rests)
            for t in range(n):
                terms[t] = f[links.block[sets[t]] + rests[t]] - q[sets[t]]
            h[links.block[c] + rest] = log_sum(terms[:n])


@njit(cache=True, nogil=True)
def sum_of_divisions(links: BlockLinks, h: NDArray[np.float64], e: NDArray[np.float64], rho: int) -> None:
    """Compute e for all states of remainder ``rho``."""
    terms = np.empty(1 << max(int(links.n_open.max()) - 1, 0))
    for c in range(links.block.shape[0]):
        start = links.block[c]
        for i in range(links.rest_start[links.kind[c], rho], links.rest_start[links.kind[c], rho + 1]):
            rest = np.int64(links.rests[i])
            free = rest & (rest - 1)
            part, n = free, 0
            while True:
                terms[n] = h[start + (part | (rest ^ free))] + e[start + (free ^ part)]
                n += 1
                if part == 0:
                    break
                part = (part - 1) & free
            e[start + rest] = log_sum(terms[:n])
