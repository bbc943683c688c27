"""Counts in contexts and leave-one-out likelihoods of back-off conditionals.

Cells are grouped by the values of a growing set of vertices; the group of a cell is one integer, and a set that grows by
one vertex refines the groups. Everything is one pass over the occupied cells.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def refine(groups, codes, n_levels, owner, number, refined):  # type: ignore[no-untyped-def]
    """Number the distinct pairs of group and code in the order they appear; how many there are.

    ``owner`` and ``number`` are scratch of a power of two of at least twice the cells.
    """
    wrap = len(owner) - 1
    owner[:] = -1
    n_groups = 0
    for i in range(len(groups)):
        key = np.int64(groups[i]) * n_levels + codes[i]
        slot = np.int64((np.uint64(key) * np.uint64(11400714819323198485)) >> np.uint64(20)) & wrap
        while owner[slot] != -1 and owner[slot] != key:
            slot = (slot + 1) & wrap
        if owner[slot] == -1:
            owner[slot] = key
            number[slot] = n_groups
            n_groups += 1
        refined[i] = number[slot]
    return n_groups


@njit(cache=True, nogil=True)
def tally(pairs, contexts, counts):  # type: ignore[no-untyped-def]
    """For each cell the records of its value in its context, and the records of its context."""
    n = len(counts)
    of_pair = np.zeros(n)
    of_context = np.zeros(n)
    for i in range(n):
        of_pair[pairs[i]] += counts[i]
        of_context[contexts[i]] += counts[i]
    return of_pair[pairs], of_context[contexts]


@njit(cache=True, nogil=True)
def leave_one_out(of_pair, of_context, counts, shorter, strength, power, found):  # type: ignore[no-untyped-def]
    """Log-likelihood of every record given all others, and the probability of each cell's value without one of its records.

    ``shorter`` is that probability in the next shorter context, which counts as ``strength`` records, or with a ``power``
    of one half as ``strength`` times the root of the records in this context.
    """
    total = 0.0
    for i in range(len(counts)):
        others = of_context[i] - 1.0
        weight = strength if power == 0.0 else strength * np.sqrt(others)
        p = (of_pair[i] - 1.0 + weight * shorter[i]) / (others + weight) if others > 0.0 else shorter[i]
        found[i] = p
        total += counts[i] * np.log(p)
    return total


@njit(cache=True, nogil=True)
def best_weight(of_pair, of_context, counts, shorter, strengths, powers):  # type: ignore[no-untyped-def]
    """The strength and power with the largest leave-one-out likelihood, and that likelihood."""
    scratch = np.empty(len(counts))
    best, strength, power = -np.inf, strengths[0], powers[0]
    for candidate in powers:
        for s in strengths:
            value = leave_one_out(of_pair, of_context, counts, shorter, s, candidate, scratch)
            if value > best:
                best, strength, power = value, s, candidate
    return best, strength, power
