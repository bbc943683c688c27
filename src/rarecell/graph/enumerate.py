"""How many chordal graphs are there, and which are they up to the names of their vertices?

All numbers are computed. Every chordal graph arises from one with a vertex less by joining a new vertex to a complete set.
Resulting graphs with equal canonical codes are the same up to renaming and are kept once. A graph on m vertices with ``a``
automorphisms stands for m!/a labelled graphs, which gives the labelled count without listing labelled graphs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb, factorial

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import enumeration as kernels
from rarecell.errors import TooLarge
from rarecell.graph.chordal import ChordalGraph

MAX_LISTED_VERTICES = 10
"""Up to this size the list takes seconds; each further vertex takes about twenty times as long."""

# Table 1 of Takemura and Endo (2006), for comparison only: nothing is computed from these figures.
PAPER_N_CHORDAL = {1: 1, 2: 2, 3: 8, 4: 61, 5: 820, 6: 18154, 7: 617675, 8: 30888596}
PAPER_N_NONISOMORPHIC = {1: 1, 2: 2, 3: 4, 4: 10, 5: 27, 6: 96, 7: 469, 8: 3734}


@dataclass(frozen=True)
class ListedGraph:
    """A chordal graph that stands for all its relabellings."""

    graph: ChordalGraph
    n_labellings: int
    """Number of different labelled graphs isomorphic to it."""


@dataclass(frozen=True)
class GraphCounts:
    """Numbers of models on ``n_vertices`` variables, with those printed in the paper."""

    n_vertices: int
    n_graphs: int
    """Graphical models: all labelled graphs."""
    n_chordal: int
    """Decomposable models: labelled chordal graphs."""
    n_nonisomorphic_chordal: int
    """Chordal graphs that differ by more than the names of their vertices."""
    paper_n_chordal: int | None
    paper_n_nonisomorphic_chordal: int | None
    note: str
    """What is wrong in the paper; empty where it is right."""

    def __str__(self) -> str:
        return (
            f"On {self.n_vertices} variables there are {self.n_graphs:,} graphical models, {self.n_chordal:,} of them "
            f"decomposable, {self.n_nonisomorphic_chordal:,} up to isomorphism."
        )


_OF_LISTS = "For more, draw random graphs with random_chordal_graph."
_OF_COUNTS = "Ask for the numbers of models of fewer variables."


def graph_counts(max_vertices: int) -> tuple[GraphCounts, ...]:
    """Numbers of graphical, decomposable and non-isomorphic decomposable models on 1, …, ``max_vertices`` variables.

    Examples
    --------
    >>> for counts in graph_counts(4):
    ...     print(counts.n_graphs, counts.n_chordal, counts.n_nonisomorphic_chordal)
    1 1 1
    2 2 2
    8 8 4
    64 61 10
    """
    return tuple(_counts_on(n_vertices) for n_vertices in range(1, _checked(max_vertices, advice=_OF_COUNTS) + 1))


def chordal_graphs(n_vertices: int) -> tuple[ListedGraph, ...]:
    """All chordal graphs on ``n_vertices`` vertices up to isomorphism, with the number of labelled graphs of each.

    Each graph has its canonical labelling, the one with the largest graph6 number (upper triangle of the adjacency
    matrix, column by column). The list is sorted by the number of edges, then by that number.
    """
    _, labellings = _listed(_checked(n_vertices, advice=_OF_LISTS))
    graphs = (ChordalGraph.from_neighbours(row.tolist()) for row in chordal_adjacency(n_vertices))
    return tuple(ListedGraph(graph, int(n)) for graph, n in zip(graphs, labellings, strict=True))


def chordal_adjacency(n_vertices: int) -> NDArray[np.uint64]:
    """The graphs of :func:`chordal_graphs`, in the same order, as rows of neighbour masks."""
    codes, _ = _listed(_checked(n_vertices, advice=_OF_LISTS))
    return _decoded(codes, n_vertices)


@cache
def _listed(n_vertices: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Canonical codes in list order, and the number of labellings of each graph."""
    if n_vertices == 1:
        return np.zeros(1, np.uint64), np.ones(1, np.int64)
    smaller = _decoded(_listed(n_vertices - 1)[0], n_vertices - 1)
    codes, n_automorphisms = kernels.canonical_codes(kernels.simplicial_extensions(smaller))
    codes, first = np.unique(codes, return_index=True)
    n_labellings = factorial(n_vertices) // n_automorphisms[first]
    n_edges = np.zeros(len(codes), np.int64)
    for place in range(comb(n_vertices, 2)):
        n_edges += (codes >> np.uint64(place) & np.uint64(1)).astype(np.int64)
    order = np.lexsort((codes, n_edges))
    return codes[order], n_labellings[order]


def _decoded(codes: NDArray[np.uint64], n_vertices: int) -> NDArray[np.uint64]:
    """Neighbour masks from graph6 numbers."""
    adjacency = np.zeros((len(codes), n_vertices), np.uint64)
    place = comb(n_vertices, 2)
    for v in range(n_vertices):
        for u in range(v):
            place -= 1
            is_edge = codes >> np.uint64(place) & np.uint64(1)
            adjacency[:, u] |= is_edge << np.uint64(v)
            adjacency[:, v] |= is_edge << np.uint64(u)
    return adjacency


def _counts_on(n_vertices: int) -> GraphCounts:
    codes, n_labellings = _listed(n_vertices)
    n_chordal = sum(n_labellings.tolist())
    paper_labelled = PAPER_N_CHORDAL.get(n_vertices)
    paper_listed = PAPER_N_NONISOMORPHIC.get(n_vertices)
    notes = []
    if paper_labelled not in (None, n_chordal):
        notes.append(f"The paper prints {paper_labelled:,} decomposable models; there are {n_chordal:,}.")
    if paper_listed not in (None, len(codes)):
        notes.append(
            f"The paper prints {paper_listed:,} non-isomorphic decomposable models; there are {len(codes):,}, "
            "so its list holds isomorphic duplicates."
        )
    return GraphCounts(n_vertices, 2 ** comb(n_vertices, 2), n_chordal, len(codes), paper_labelled, paper_listed, " ".join(notes))


def _checked(n_vertices: int, *, advice: str) -> int:
    """A number of vertices for which graphs can be listed, and so counted."""
    if not 1 <= n_vertices <= MAX_LISTED_VERTICES:
        raise TooLarge(
            f"Chordal graphs were asked for on {n_vertices} vertices; they are listed one by one, which is possible for 1 to "
            f"{MAX_LISTED_VERTICES}. {advice}"
        )
    return n_vertices
