"""Dynamic programme for the best decomposable model: one step of the recurrences over all states of equal remainder.

A state is a closed set C of vertices (its level c_k on the chain of each key k: 0 absent, r_k the key itself) and a
set R of *open* keys (c_k < r_k) whose finer vertices are still to come. The block of C holds one number for each R,
indexed by a mask over the open keys of C in key order (its *local* mask). With ρ(C, R) = Σ_{k∈R} (r_k − c_k):

    f(S, R) = max over x ∈ R of e(S raised one step at x, R less x if x is full now)            [ρ falls by one]
    h(C, R) = max( f(C, R) − q(C),  max over x ∉ R, c_x > 0 of h(C lowered one step at x, R) )  [ρ stays]
    e(C, U) = max over R ⊆ U with min U ∈ R of h(C, R) + e(C, U∖R),  e(C, ∅) = q(C)             [ρ falls or stays]

f(S, R) need not try larger steps: e(C, U) ≥ f(C, U), because h(C, U) ≥ f(C, U) − q(C). So all states of one ρ follow
from those below it, f and h by ascending level sum of C, then e. Without coarsenings e(C, U) − q(C) is the g of
Kangas, Koivisto and Niinimäki (2014), Learning chordal Markov networks by dynamic programming.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.compiled import njit


class BlockLinks(NamedTuple):
    """How the blocks of the admissible closed sets are linked; sets are sorted by level sum.

    ``block[c]`` is the first state of set c. For its j-th open key, ``raised[c, j]`` is c raised there (−1: not
    admissible) and ``raise_fills[c, j]`` says that the key is then full. For key x, ``lowered[c, x]`` is c lowered at x
    (−1: x is absent), ``lower_bit[c, x]`` the local bit of x there, and ``lower_opens[c, x]`` says that x is full in c.
    ``rests[rest_start[t, ρ]:rest_start[t, ρ + 1]]`` are the local masks of remainder ρ of every set of kind t.
    """

    block: NDArray[np.int64]
    kind: NDArray[np.int64]
    n_open: NDArray[np.int64]
    raised: NDArray[np.int64]
    raise_fills: NDArray[np.bool_]
    lowered: NDArray[np.int64]
    lower_bit: NDArray[np.int64]
    lower_opens: NDArray[np.bool_]
    rests: NDArray[np.uint32]
    rest_start: NDArray[np.int64]


@njit(cache=True, nogil=True)
def attach(
    links: BlockLinks, q: NDArray[np.float64], e: NDArray[np.float64], h: NDArray[np.float64], rho: int, sets: NDArray[np.int64]
) -> None:
    """Compute h for the states of remainder ``rho`` of ``sets`` of one level sum: the best separator for each rest."""
    for c in sets:
        kind = links.kind[c]
        own = links.rests[links.rest_start[kind, rho] : links.rest_start[kind, rho + 1]]
        block = h[links.block[c] : links.block[c] + (1 << links.n_open[c])]
        for rest in own:
            block[rest] = -np.inf
        for j in range(links.n_open[c]):
            if links.raised[c, j] >= 0:
                _raise_at(links, e, block, rho, c, j)
        for rest in own:
            block[rest] -= q[c]
        for x in range(links.lowered.shape[1]):
            if links.lowered[c, x] >= 0:
                _lower_at(links, h, block, own, c, x)


@njit(cache=True, nogil=True)
def _raise_at(links: BlockLinks, e: NDArray[np.float64], best: NDArray[np.float64], rho: int, c: int, j: int) -> None:
    """Update ``best`` with what each rest is worth when the next clique is larger than c at its j-th open key."""
    raised = links.raised[c, j]
    kind = links.kind[raised]
    of_raised = e[links.block[raised] : links.block[raised] + (1 << links.n_open[raised])]
    bit = np.uint32(1 << j)
    below = np.uint32(bit - np.uint32(1))
    fills = links.raise_fills[c, j]
    for rest in links.rests[links.rest_start[kind, rho - 1] : links.rest_start[kind, rho]]:
        if fills:
            # The mask over the open keys of c has one place more than the mask over those of the raised set.
            here = (rest & below) | bit | ((rest & ~below) << np.uint32(1))
        elif rest & bit:
            here = rest
        else:
            continue
        best[here] = max(best[here], of_raised[rest])


@njit(cache=True, nogil=True)
def _lower_at(
    links: BlockLinks, h: NDArray[np.float64], best: NDArray[np.float64], own: NDArray[np.uint32], c: int, x: int
) -> None:
    """Update ``best`` with what each rest is worth when its separator is smaller than c at key x."""
    lowered = links.lowered[c, x]
    of_lowered = h[links.block[lowered] : links.block[lowered] + (1 << links.n_open[lowered])]
    bit = np.uint32(1 << links.lower_bit[c, x])
    below = np.uint32(bit - np.uint32(1))
    opens = links.lower_opens[c, x]
    for rest in own:
        if opens:
            there = (rest & below) | ((rest & ~below) << np.uint32(1))
        elif rest & bit:
            continue  # the finer vertices of a key are adjacent to all that it has reached
        else:
            there = rest
        best[rest] = max(best[rest], of_lowered[there])


@njit(cache=True, nogil=True)
def keep_together(
    links: BlockLinks, h: NDArray[np.float64], together: NDArray[np.uint32], rho: int, sets: NDArray[np.int64]
) -> None:
    """Exclude rests that separate open keys which must meet in a clique; ``together[c, j]`` are those for the j-th."""
    for c in sets:
        kind = links.kind[c]
        block = h[links.block[c] : links.block[c] + (1 << links.n_open[c])]
        for rest in links.rests[links.rest_start[kind, rho] : links.rest_start[kind, rho + 1]]:
            for j in range(links.n_open[c]):
                if (rest >> np.uint32(j)) & np.uint32(1) and together[c, j] & ~rest:
                    block[rest] = -np.inf


@njit(cache=True, nogil=True)
def divide(links: BlockLinks, e: NDArray[np.float64], h: NDArray[np.float64], rho: int, sets: NDArray[np.int64]) -> None:
    """Compute e for the states of remainder ``rho`` of ``sets``: the best division of the rest into components."""
    one = np.uint64(1)
    zero = np.uint64(0)
    for c in sets:
        start = links.block[c]
        size = 1 << links.n_open[c]
        of_part = h[start : start + size]
        of_rest = e[start : start + size]
        kind = links.kind[c]
        for i in range(links.rest_start[kind, rho], links.rest_start[kind, rho + 1]):
            u = np.uint64(links.rests[i])
            first = u & (~u + one)
            free = u ^ first
            # The loop over two more bits is unrolled: four sums in flight hide the latency of the comparisons.
            second = free & (~free + one)
            free ^= second
            third = free & (~free + one)
            free ^= third
            both = second | third
            best0 = best1 = best2 = best3 = -np.inf
            part = free
            while True:
                r = part | first
                s = free ^ part
                best0 = max(best0, of_part[r] + of_rest[s | both])
                best1 = max(best1, of_part[r | second] + of_rest[s | third])
                best2 = max(best2, of_part[r | third] + of_rest[s | second])
                best3 = max(best3, of_part[r | both] + of_rest[s])
                if part == zero:
                    break
                part = (part - one) & free
            of_rest[u] = max(max(best0, best1), max(best2, best3))


# The best order of all vertices, over the lattice of closed sets.
#
# A closed set is a number in mixed radix, with the level of key k as a digit of ``radix[k]`` values and weight
# ``stride[k]``; a larger set has a larger number.


@njit(cache=True, nogil=True)
def maximum_over_subsets(best: NDArray[np.float32], radix: NDArray[np.int64], stride: NDArray[np.int64], fixed: int) -> None:
    """Replace each entry by the largest among its closed subsets with the same level of key ``fixed``, in place."""
    for k in range(radix.shape[0]):
        if k == fixed:
            continue
        step = stride[k]
        width = step * radix[k]
        for block in range(0, best.shape[0], width):
            for i in range(block + step, block + width):
                best[i] = max(best[i], best[i - step])


@njit(cache=True, nogil=True)
def best_completion(gain: NDArray[np.float32], radix: NDArray[np.int64], stride: NDArray[np.int64]) -> NDArray[np.float64]:
    """For each closed set, the largest sum of gains over all orders in which the remaining steps can be made.

    ``gain[k, c]`` is what the next step of key k adds when the vertices of c are already present.
    """
    n_keys, n_sets = gain.shape
    total = np.zeros(n_sets)
    digits = radix - 1
    for c in range(n_sets - 2, -1, -1):
        k = n_keys - 1
        while digits[k] == 0:
            digits[k] = radix[k] - 1
            k -= 1
        digits[k] -= 1
        best = -np.inf
        for x in range(n_keys):
            if digits[x] < radix[x] - 1:
                best = max(best, gain[x, c] + total[c + stride[x]])
        total[c] = best
    return total
