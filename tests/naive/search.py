"""Slow twins of the search: every chordal graph listed, every score summed anew."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np

from rarecell.graph.chordal import ChordalGraph
from rarecell.search.score import Score


@cache
def chordal_graphs(n_vertices: int, forced: tuple[tuple[int, int], ...] = ()) -> tuple[ChordalGraph, ...]:
    """All labelled chordal graphs that have the forced edges."""
    pairs = [pair for pair in itertools.combinations(range(n_vertices), 2) if pair not in forced]
    found = []
    for chosen in itertools.product((False, True), repeat=len(pairs)):
        edges = [*forced, *(pair for pair, is_in in zip(pairs, chosen, strict=True) if is_in)]
        neighbours = [0] * n_vertices
        for u, v in edges:
            neighbours[u] |= 1 << v
            neighbours[v] |= 1 << u
        if _can_be_eliminated(tuple(neighbours), (1 << n_vertices) - 1):
            found.append(ChordalGraph.from_edges(n_vertices, edges))
    return tuple(found)


def _can_be_eliminated(neighbours: tuple[int, ...], left: int) -> bool:
    """Whether vertices whose neighbours are all adjacent can be taken away until none is left: a graph is chordal exactly if so."""
    while left:
        for v, around in enumerate(neighbours):
            near = around & left
            if left >> v & 1 and all(not near >> u & 1 or near & ~neighbours[u] == 1 << u for u in range(len(neighbours))):
                left ^= 1 << v
                break
        else:
            return False
    return True


def graph_score(score: Score, graph: ChordalGraph) -> float:
    """Σ over cliques minus separators: the score of the whole model."""
    separators = [mask for mask, multiplicity in graph.separator_masks for _ in range(multiplicity)]
    of_cliques = score.q_many(np.array(graph.clique_masks, dtype=np.uint64)).sum()
    of_separators = score.q_many(np.array(separators, dtype=np.uint64)).sum() if separators else 0.0
    return float(of_cliques - of_separators)


def score_of(graph: ChordalGraph, q: dict[int, float]) -> float:
    """Σ q over cliques less Σ ν q over separators."""
    return sum(q[clique] for clique in graph.clique_masks) - sum(times * q[mask] for mask, times in graph.separator_masks)


def best_score(graphs: tuple[ChordalGraph, ...], q: dict[int, float], max_clique: int | None = None) -> float:
    """The largest score of any of the graphs with cliques of at most ``max_clique`` vertices."""
    allowed = [g for g in graphs if max_clique is None or max(c.bit_count() for c in g.clique_masks) <= max_clique]
    return max(score_of(graph, q) for graph in allowed)


def best_completion(start: tuple[int, ...], lengths: tuple[int, ...], gain: dict[tuple[int, tuple[int, ...]], float]) -> float:
    """The largest sum of gains over all orders of the remaining steps, each taking the best closed set before it.

    ``gain[k, levels]`` is what the next step of key k adds to the set with these levels.
    """
    steps = [k for k, (reached, length) in enumerate(zip(start, lengths, strict=True)) for _ in range(length - reached)]
    best = float("-inf")
    for order in set(itertools.permutations(steps)):
        here, total = list(start), 0.0
        for k in order:
            inside = itertools.product(*(range(level + 1) if x != k else (level,) for x, level in enumerate(here)))
            total += max(gain.get((k, levels), float("-inf")) for levels in inside)
            here[k] += 1
        best = max(best, total)
    return best
