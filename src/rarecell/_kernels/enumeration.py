"""Many graphs at once: canonical codes, extensions by a vertex, random growth, relabelling.

Graphs are rows of neighbour masks (see :mod:`rarecell._kernels.chordal`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.chordal import ONE, ZERO, bit, is_complete, lowest_bit, popcount
from rarecell._kernels.compiled import njit


@njit(cache=True)
def earlier_twins(nb: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """For each vertex, the lower vertices that can trade places with it while all others stay."""
    n = nb.shape[0]
    twins = np.zeros(n, np.uint64)
    for v in range(n):
        for u in range(v):
            others = ~(bit(u) | bit(v))
            if nb[u] & others == nb[v] & others:
                twins[v] |= bit(u)
    return twins


@njit(cache=True)
def next_column(
    nb: NDArray[np.uint64], twins: NDArray[np.uint64], labelling: NDArray[np.int64], placed: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Vertices that may follow a partial labelling with the largest column of the adjacency matrix, and that column."""
    n_placed = popcount(placed)
    candidates, largest = ZERO, ZERO
    for v in range(nb.shape[0]):
        if placed & bit(v) != ZERO or twins[v] & ~placed != ZERO:
            continue
        column = ZERO
        for place in range(n_placed):
            column = column << ONE | (nb[v] >> np.uint64(labelling[place]) & ONE)
        if column > largest or candidates == ZERO:
            candidates, largest = bit(v), column
        elif column == largest:
            candidates |= bit(v)
    return candidates, largest


@njit(cache=True)
def canonical_code(nb: NDArray[np.uint64]) -> tuple[np.uint64, np.int64]:
    """Largest graph6 number over all labellings of a graph on 1 to 11 vertices, and its number of automorphisms.

    The graph6 number is the upper triangle of the adjacency matrix, column by column, as a binary number. Its first
    columns depend only on the first vertices, so labellings are built vertex by vertex: each step allows only
    vertices with the largest next column, and a prefix below that of the best labelling so far is abandoned.
    Twins are placed in ascending order. The labellings that reach the largest number are then the automorphisms up
    to the order of twins, so their number is multiplied by the number of those orders.
    """
    n = nb.shape[0]
    n_bits = n * (n - 1) // 2
    twins = earlier_twins(nb)
    labelling = np.zeros(n, np.int64)
    placed = np.zeros(n + 1, np.uint64)
    prefix = np.zeros(n + 1, np.uint64)
    candidates = np.zeros(n + 1, np.uint64)
    best, n_best = ZERO, np.int64(0)
    candidates[0], _ = next_column(nb, twins, labelling, ZERO)
    depth = 0
    while depth >= 0:
        if candidates[depth] == ZERO:
            depth -= 1
            continue
        v = lowest_bit(candidates[depth])
        candidates[depth] &= candidates[depth] - ONE
        labelling[depth] = v
        placed[depth + 1] = placed[depth] | bit(v)
        if depth + 1 == n:
            if prefix[depth] > best:
                best, n_best = prefix[depth], np.int64(0)
            if prefix[depth] == best:
                n_best += 1
            continue
        depth += 1
        # All candidates for a place have the same column, so the prefix is known before one of them is chosen.
        candidates[depth], column = next_column(nb, twins, labelling, placed[depth])
        prefix[depth] = prefix[depth - 1] << np.uint64(depth) | column
        if prefix[depth] < best >> np.uint64(n_bits - depth * (depth + 1) // 2):
            candidates[depth] = ZERO
    for w in range(n):
        n_best *= popcount(twins[w]) + 1
    return best, n_best


@njit(cache=True)
def canonical_codes(adjacency: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Canonical code and number of automorphisms of each graph."""
    n_graphs = adjacency.shape[0]
    codes = np.empty(n_graphs, np.uint64)
    n_automorphisms = np.empty(n_graphs, np.int64)
    for g in range(n_graphs):
        codes[g], n_automorphisms[g] = canonical_code(adjacency[g])
    return codes, n_automorphisms


@njit(cache=True)
def simplicial_extensions(adjacency: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each graph with one more vertex, joined to each complete set of the graph in turn, including the empty one.

    A row of the result is a graph with one more vertex, which is the last. Every set of vertices is tried, so the graphs
    should have at most about 11 vertices.
    """
    n_graphs, n = adjacency.shape
    complete = np.zeros((n_graphs, 1 << n), np.bool_)
    n_extensions = 0
    for g in range(n_graphs):
        for members in range(1 << n):
            complete[g, members] = is_complete(adjacency[g], np.uint64(members))
            n_extensions += complete[g, members]
    extended = np.zeros((n_extensions, n + 1), np.uint64)
    row = 0
    for g in range(n_graphs):
        for members in range(1 << n):
            if complete[g, members]:
                extended[row, :n] = adjacency[g]
                extended[row, n] = np.uint64(members)
                rest = np.uint64(members)
                while rest != ZERO:
                    extended[row, lowest_bit(rest)] |= bit(n)
                    rest &= rest - ONE
                row += 1
    return extended


@njit(cache=True)
def largest_draw(draws: NDArray[np.float64], members: np.uint64) -> int:
    """The member with the largest draw; the lowest of several."""
    best = -1
    for w in range(draws.shape[0]):
        if members & bit(w) != ZERO and (best < 0 or draws[w] > draws[best]):
            best = w
    return best


@njit(cache=True)
def grow_chordal(
    clique_draws: NDArray[np.float64], member_draws: NDArray[np.float64], inclusion: float, max_clique: int
) -> NDArray[np.uint64]:
    """Grow chordal graphs vertex by vertex, each joined to a subset of one clique, from uniform draws in [0, 1).

    Vertex ``v`` of graph ``g`` chooses clique number ``floor(clique_draws[g, v] * n_cliques)``, cliques being numbered as
    they arise, and is joined to its members ``w`` with ``member_draws[g, v, w] < inclusion``, but to no more than the
    ``max_clique - 1`` with the smallest draws.
    """
    n_graphs, n = clique_draws.shape
    adjacency = np.zeros((n_graphs, n), np.uint64)
    cliques = np.zeros(n, np.uint64)
    for g in range(n_graphs):
        n_cliques = 0
        for v in range(n):
            chosen = int(clique_draws[g, v] * n_cliques)
            joined = ZERO
            if n_cliques > 0:
                for w in range(v):
                    if cliques[chosen] & bit(w) != ZERO and member_draws[g, v, w] < inclusion:
                        joined |= bit(w)
            while popcount(joined) >= max_clique:
                joined &= ~bit(largest_draw(member_draws[g, v], joined))
            for w in range(v):
                if joined & bit(w) != ZERO:
                    adjacency[g, w] |= bit(v)
            adjacency[g, v] = joined
            # A vertex joined to a whole clique enlarges it; otherwise it starts a new one.
            if n_cliques == 0 or joined != cliques[chosen]:
                chosen = n_cliques
                n_cliques += 1
            cliques[chosen] = joined | bit(v)
    return adjacency


@njit(cache=True)
def relabel(adjacency: NDArray[np.uint64], permutations: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Each graph with its vertex ``v`` renamed to ``permutations[g, v]``."""
    n_graphs, n = adjacency.shape
    relabelled = np.zeros((n_graphs, n), np.uint64)
    for g in range(n_graphs):
        for v in range(n):
            rest = adjacency[g, v]
            while rest != ZERO:
                relabelled[g, permutations[g, v]] |= bit(permutations[g, lowest_bit(rest)])
                rest &= rest - ONE
    return relabelled
