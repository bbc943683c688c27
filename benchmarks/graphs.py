"""How fast are chordal graphs? Kernels beside networkx on the same graphs, and the legality rules beside a full test.

    python benchmarks/graphs.py

Prints a time and a ratio for each; the first is the enumeration up to eight vertices.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import networkx as nx
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import seconds

from rarecell._kernels import chordal as kernels
from rarecell._kernels.enumeration import canonical_codes, simplicial_extensions
from rarecell.graph import ChordalGraph, chordal_adjacency, graph_counts, random_chordal_adjacency, to_networkx
from rarecell.graph.enumerate import _listed

N_GRAPHS = 200


def ratio(theirs: float, ours: float) -> str:
    return f"{theirs * 1e6:,.0f} µs, {theirs / ours:,.1f} times as long"


def enumeration() -> None:
    start = time.perf_counter()
    graph_counts(8)
    first = time.perf_counter() - start

    def afresh() -> None:
        _listed.cache_clear()
        graph_counts(8)

    again = seconds(afresh)
    print(f"counts for 1 to 8 vertices: {first:.2f} s at first use (kernels loaded or compiled), {again:.3f} s afresh after that")

    # networkx has no canonical form, so its way to a list is pairwise tests within equal invariants. Seven vertices are
    # as far as that goes in a benchmark; both sides start from the same candidates.
    candidates = simplicial_extensions(chordal_adjacency(6))
    ours = seconds(lambda: np.unique(canonical_codes(candidates)[0]))
    exported = [to_networkx(ChordalGraph.from_neighbours(row)) for row in candidates]
    start = time.perf_counter()
    kept: list[nx.Graph] = []
    for graph in exported:
        if not any(nx.faster_could_be_isomorphic(graph, other) and nx.is_isomorphic(graph, other) for other in kept):
            kept.append(graph)
    theirs = time.perf_counter() - start
    print(
        f"{len(candidates)} candidates on 7 vertices to {len(kept)} graphs: {ours * 1e3:.1f} ms; networkx {ratio(theirs, ours)}"
    )


def structure(n_vertices: int) -> None:
    rows = random_chordal_adjacency(n_vertices, N_GRAPHS, np.random.default_rng(n_vertices), inclusion=0.7)
    exported = [to_networkx(ChordalGraph.from_neighbours(row)) for row in rows]
    pairs = [
        ("chordality", kernels.is_chordal, nx.is_chordal),
        ("cliques and separators", kernels.cliques_and_separators, lambda graph: set(nx.chordal_graph_cliques(graph))),
    ]
    for name, kernel, oracle in pairs:
        kernel(rows[0])
        ours = seconds(lambda kernel=kernel: [kernel(row) for row in rows]) / N_GRAPHS
        theirs = seconds(lambda oracle=oracle: [oracle(graph) for graph in exported], repeats=1) / N_GRAPHS
        print(f"{name}, {n_vertices} vertices: {ours * 1e6:.1f} µs; networkx {ratio(theirs, ours)}")


def legality(n_vertices: int) -> None:
    rows = random_chordal_adjacency(n_vertices, N_GRAPHS, np.random.default_rng(n_vertices), inclusion=0.7)
    pairs = np.random.default_rng(1).permuted(np.tile(np.arange(n_vertices), (N_GRAPHS, 1)), axis=1)[:, :2].tolist()

    def by_rule() -> list[bool]:
        return [kernels.can_add(row, u, v) or kernels.can_delete(row, u, v) for row, (u, v) in zip(rows, pairs, strict=True)]

    def from_scratch() -> list[bool]:
        verdicts = []
        for row, (u, v) in zip(rows, pairs, strict=True):
            changed = row.copy()
            changed[u] ^= np.uint64(1 << v)
            changed[v] ^= np.uint64(1 << u)
            verdicts.append(kernels.is_chordal(changed))
        return verdicts

    assert by_rule() == from_scratch()
    rule, scratch = seconds(by_rule) / N_GRAPHS, seconds(from_scratch) / N_GRAPHS
    print(f"legality of one edge, {n_vertices} vertices: {rule * 1e6:.1f} µs; test of the whole graph {ratio(scratch, rule)}")


def main() -> None:
    enumeration()
    for n_vertices in (8, 16, 64):
        structure(n_vertices)
        legality(n_vertices)
    start = time.perf_counter()
    chordal_adjacency(9)
    print(f"the 14,524 chordal graphs on nine vertices: {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
