"""Slow twins of the search: every chordal graph listed, every score summed anew."""

from __future__ import annotations

import itertools
from functools import cache

import networkx as nx

from rarecell.graph.chordal import ChordalGraph


@cache
def chordal_graphs(n_vertices: int, forced: tuple[tuple[int, int], ...] = ()) -> tuple[ChordalGraph, ...]:
    """All labelled chordal graphs that have the forced edges."""
    pairs = [pair for pair in itertools.combinations(range(n_vertices), 2) if pair not in forced]
    found = []
    for chosen in itertools.product((False, True), repeat=len(pairs)):
        graph = nx.empty_graph(n_vertices)
        graph.add_edges_from(forced)
        graph.add_edges_from(pair for pair, is_in in zip(pairs, chosen, strict=True) if is_in)
        if n_vertices < 4 or nx.is_chordal(graph):
            found.append(ChordalGraph.from_edges(n_vertices, graph.edges))
    return tuple(found)


def score_of(graph: ChordalGraph, q: dict[int, float]) -> float:
    """Σ q over cliques less Σ ν q over separators."""
    return sum(q[clique] for clique in graph.cliques) - sum(times * q[mask] for mask, times in graph.separators)


def best_score(graphs: tuple[ChordalGraph, ...], q: dict[int, float], max_clique: int | None = None) -> float:
    """The largest score of any of the graphs with cliques of at most ``max_clique`` vertices."""
    allowed = [g for g in graphs if max_clique is None or max(c.bit_count() for c in g.cliques) <= max_clique]
    return max(score_of(graph, q) for graph in allowed)


def separates(graph: nx.Graph, separator: set[int], u: int, v: int) -> bool:
    """Whether every path from u to v meets the separator."""
    rest = graph.copy()
    rest.remove_nodes_from(separator)
    return not nx.has_path(rest, u, v)
