"""Random graphs for property-based tests: chordal ones, grown so that shrinking drops vertices and edges, and any."""

from __future__ import annotations

from hypothesis import strategies as st

from rarecell.graph import ChordalGraph


@st.composite
def chordal_graphs(draw: st.DrawFn, *, min_vertices: int = 1, max_vertices: int = 8) -> ChordalGraph:
    """A labelled chordal graph; every one within the bounds can be drawn (Algorithm 2 with a permutation)."""
    n_vertices = draw(st.integers(min_vertices, max_vertices))
    neighbours: list[int] = []
    cliques: list[int] = []
    for v in range(n_vertices):
        clique = draw(st.sampled_from(cliques)) if cliques else 0
        joined = clique & draw(st.integers(0, (1 << v) - 1)) if v else 0
        neighbours = [around | (joined >> w & 1) << v for w, around in enumerate(neighbours)] + [joined]
        if joined == clique and cliques:
            cliques.remove(clique)
        cliques.append(joined | 1 << v)
    names = draw(st.permutations(range(n_vertices)))
    edges = [(names[u], names[v]) for v in range(n_vertices) for u in range(v) if neighbours[v] >> u & 1]
    return ChordalGraph.from_edges(n_vertices, edges)


@st.composite
def neighbour_masks(draw: st.DrawFn, *, min_vertices: int = 1, max_vertices: int = 8) -> tuple[int, ...]:
    """The neighbour masks of any labelled graph, chordal or not."""
    n_vertices = draw(st.integers(min_vertices, max_vertices))
    neighbours = [0] * n_vertices
    for v in range(1, n_vertices):
        lower = draw(st.integers(0, (1 << v) - 1))
        neighbours[v] |= lower
        for u in range(v):
            neighbours[u] |= (lower >> u & 1) << v
    return tuple(neighbours)


@st.composite
def chordal_graphs_with_pair(draw: st.DrawFn, *, max_vertices: int = 8) -> tuple[ChordalGraph, int, int]:
    """A chordal graph and two different vertices of it."""
    graph = draw(chordal_graphs(min_vertices=2, max_vertices=max_vertices))
    u, v = draw(st.permutations(range(graph.n_vertices)))[:2]
    return graph, u, v


def toggled(graph: ChordalGraph, u: int, v: int) -> ChordalGraph:
    """The graph with the edge between ``u`` and ``v`` added, or taken away."""
    changed = list(graph.neighbours)
    changed[u] ^= 1 << v
    changed[v] ^= 1 << u
    return ChordalGraph.from_neighbours(changed)
