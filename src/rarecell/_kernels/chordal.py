"""Chordal graphs as arrays of neighbour masks: order, cliques, separators, legality of an edge.

A graph on ``n <= 64`` vertices is a ``uint64`` array ``nb`` of length ``n``: bit ``w`` of ``nb[v]`` is set when ``v`` and
``w`` are neighbours. It is symmetric and has no loops; kernels do not check that. Bit masks stay ``uint64``
throughout: numba turns a mixture of signed and unsigned integers into floating point.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.compiled import njit

ZERO = np.uint64(0)
ONE = np.uint64(1)


@njit(cache=True, inline="always")
def bit(v: int | np.int64) -> np.uint64:
    """The mask that holds vertex ``v`` alone."""
    return ONE << np.uint64(v)


@njit(cache=True)
def popcount(x: np.uint64) -> np.int64:
    """Number of vertices in the mask ``x``; the compiler turns this idiom into one instruction."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True)
def lowest_bit(x: np.uint64) -> np.int64:
    """The lowest vertex in the mask ``x``; 64 when the mask is empty."""
    return np.int64(popcount(~x & (x - ONE)))


@njit(cache=True)
def perfect_order(nb: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Vertices in the order of a maximum cardinality search, ties to the lowest vertex.

    Each vertex taken has the most neighbours among those taken before. In a chordal graph, and in no other, the earlier
    neighbours of every vertex are complete, so the reversed order is a perfect elimination order [1]_.

    References
    ----------
    .. [1] Tarjan and Yannakakis (1984). Simple linear-time algorithms to test chordality of graphs, test acyclicity of
       hypergraphs, and selectively reduce acyclic hypergraphs. SIAM Journal on Computing 13, 566-579.
    """
    n = nb.shape[0]
    order = np.empty(n, np.int64)
    taken = ZERO
    for position in range(n):
        best_vertex, best_count = -1, np.int64(-1)
        for v in range(n):
            if taken >> np.uint64(v) & ONE == ZERO:
                count = popcount(nb[v] & taken)
                if count > best_count:
                    best_vertex, best_count = v, count
        order[position] = best_vertex
        taken |= bit(best_vertex)
    return order


@njit(cache=True)
def is_chordal(nb: NDArray[np.uint64]) -> bool:
    """Whether every cycle of length four or more has a chord.

    It is enough that, for each vertex, its earlier neighbours are all neighbours of the latest of them.
    """
    order = perfect_order(nb)
    taken = ZERO
    for position in range(order.shape[0]):
        earlier = nb[order[position]] & taken
        if earlier != ZERO:
            back = position - 1
            while earlier & bit(order[back]) == ZERO:
                back -= 1
            latest = order[back]
            if earlier & ~(nb[latest] | bit(latest)) != ZERO:
                return False
        taken |= bit(order[position])
    return True


@njit(cache=True)
def cliques_and_separators(nb: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Cliques of a chordal graph in a perfect sequence, and the separator of each, except the first, from those before.

    A clique ends where the number of earlier neighbours stops growing along the maximum cardinality search; the
    earlier neighbours at that place are the separator [1]_. Separators come with repetition, the empty one included,
    and satisfy the running intersection property: ``separators[j]`` is ``cliques[j + 1]`` within the union of
    ``cliques[: j + 1]``, and lies inside one of them.

    References
    ----------
    .. [1] Blair and Peyton (1993). An introduction to chordal graphs and clique trees. In: Graph Theory and Sparse
       Matrix Computation, Springer, 1-29.
    """
    n = nb.shape[0]
    cliques = np.empty(n, np.uint64)
    separators = np.empty(n, np.uint64)
    order = perfect_order(nb)
    taken = ZERO
    n_cliques = 0
    previous_count = np.int64(-1)
    for position in range(n):
        v = order[position]
        earlier = nb[v] & taken
        count = popcount(earlier)
        if position == 0 or count <= previous_count:
            cliques[n_cliques] = earlier
            separators[n_cliques] = earlier
            n_cliques += 1
        cliques[n_cliques - 1] |= bit(v)
        previous_count = count
        taken |= bit(v)
    return cliques[:n_cliques].copy(), separators[min(1, n) : n_cliques].copy()


@njit(cache=True)
def reachable(nb: NDArray[np.uint64], start: np.uint64, allowed: np.uint64) -> np.uint64:
    """Vertices of ``allowed`` that can be reached from those of ``start`` through ``allowed`` alone."""
    reached = start & allowed
    frontier = reached
    while frontier != ZERO:
        v = lowest_bit(frontier)
        frontier &= frontier - ONE
        fresh = nb[v] & allowed & ~reached
        reached |= fresh
        frontier |= fresh
    return reached


@njit(cache=True)
def is_complete(nb: NDArray[np.uint64], members: np.uint64) -> bool:
    """Whether all vertices of ``members`` are neighbours of each other."""
    rest = members
    while rest != ZERO:
        v = lowest_bit(rest)
        rest &= rest - ONE
        if rest & ~nb[v] != ZERO:
            return False
    return True


@njit(cache=True)
def can_add(nb: NDArray[np.uint64], u: int, v: int) -> bool:
    """Whether ``u`` and ``v`` are distinct and not neighbours, and joining them keeps a chordal graph chordal.

    That is so when the common neighbours of ``u`` and ``v`` separate them.
    """
    if u == v or nb[u] & bit(v) != ZERO:
        return False
    outside = ~(nb[u] & nb[v])
    return bool(reachable(nb, bit(u), outside) & bit(v) == ZERO)


@njit(cache=True)
def can_delete(nb: NDArray[np.uint64], u: int, v: int) -> bool:
    """Whether ``u`` and ``v`` are neighbours and parting them keeps a chordal graph chordal.

    That is so when the common neighbours of ``u`` and ``v`` are complete, i.e. the edge lies in one clique only.
    """
    if u == v or nb[u] & bit(v) == ZERO:
        return False
    return bool(is_complete(nb, nb[u] & nb[v]))
