"""What are the cliques and separators of a chordal graph, and which of its edges may change?

The structure of a decomposable model is a chordal graph on the vertices of a table. Vertex sets are bit masks of one
machine word, so a graph has at most 64 vertices. Everything is in canonical order, so equal graphs give equal answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import chordal as kernels
from rarecell.errors import BadInput, NotChordal
from rarecell.graph import witness
from rarecell.graph.junction import PerfectSequence, maximum_weight_tree, n_junction_trees
from rarecell.graph.masks import (
    MAX_VERTICES,
    all_below,
    components,
    each_member,
    holds,
    in_canonical_order,
    is_inside,
    mask_of,
    members,
    single,
)


@dataclass(frozen=True)
class ChordalGraph:
    """A chordal graph: every cycle of length four or more has a chord.

    Parameters
    ----------
    n_vertices : int
        Number of vertices, at most 64; they are numbered 0, 1, ….
    neighbours : tuple of int
        The neighbours of each vertex as a bit mask.

    Raises
    ------
    NotChordal
        When the graph has a chordless cycle; the error's ``cycle`` holds its vertices.
    BadInput
        When the masks do not describe an undirected graph without loops.

    Examples
    --------
    >>> graph = ChordalGraph.from_edges(4, [(0, 1), (1, 2), (0, 2), (2, 3)])
    >>> graph.cliques
    ((0, 1, 2), (2, 3))
    >>> graph.separators
    (((2,), 1),)
    >>> print(graph)
    Chordal graph on 4 vertices with 4 edges and the cliques 012 23.
    """

    n_vertices: int
    neighbours: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_masks(self.n_vertices, self.neighbours)
        if not is_chordal(self.neighbours):
            cycle = witness.chordless_cycle(self.neighbours)
            assert cycle is not None, "a graph that fails the order test has a chordless cycle"
            raise NotChordal.with_cycle(cycle)

    @classmethod
    def from_neighbours(cls, neighbours: Iterable[int]) -> ChordalGraph:
        """The graph with the given neighbour masks, as integers of any type, such as a row of kernel masks."""
        masks = tuple(int(mask) for mask in neighbours)
        return cls(len(masks), masks)

    @classmethod
    def from_edges(cls, n_vertices: int, edges: Iterable[tuple[int, int]]) -> ChordalGraph:
        """The graph with the given edges; an edge may be given twice."""
        return cls(n_vertices, neighbours_of_edges(n_vertices, edges))

    @classmethod
    def from_cliques(cls, n_vertices: int, cliques: Iterable[Iterable[int]]) -> ChordalGraph:
        """The graph with the edges that make each given set of vertices complete; sets may lie inside one another."""
        sets = [tuple(clique) for clique in cliques]
        strange = [v for clique in sets for v in clique if not 0 <= v < n_vertices]
        if strange:
            raise BadInput(f"A clique names the vertex {strange[0]}, which a graph on {n_vertices} vertices does not have.")
        return cls.from_clique_masks(n_vertices, map(mask_of, sets))

    @classmethod
    def from_clique_masks(cls, n_vertices: int, cliques: Iterable[int]) -> ChordalGraph:
        """:meth:`from_cliques` for bit masks."""
        return cls(n_vertices, neighbours_of_cliques(n_vertices, cliques))

    @property
    def adjacency(self) -> NDArray[np.uint64]:
        """The neighbour masks as a new array, the form that kernels take."""
        return np.array(self.neighbours, dtype=np.uint64)

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """All edges, each with its lower vertex first, sorted."""
        return tuple((u, v) for u, around in enumerate(self.neighbours) for v in each_member(around) if u < v)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return sum(around.bit_count() for around in self.neighbours) // 2

    @cached_property
    def perfect_sequence(self) -> PerfectSequence:
        """Cliques in the order of maximum cardinality search, with separators, residuals and parents."""
        cliques, separators = kernels.cliques_and_separators(self.adjacency)
        first = [0] * min(1, len(cliques))
        return PerfectSequence.of([int(c) for c in cliques], first + [int(s) for s in separators])

    @property
    def cliques(self) -> tuple[tuple[int, ...], ...]:
        """Maximal complete sets of vertices, sorted."""
        return tuple(members(mask) for mask in self.clique_masks)

    @property
    def separators(self) -> tuple[tuple[tuple[int, ...], int], ...]:
        """Minimal separators with their multiplicities, sorted.

        The empty set is among them when the graph is disconnected. The multiplicities add up to the number of cliques
        minus one.
        """
        return tuple((members(mask), times) for mask, times in self.separator_masks)

    @cached_property
    def clique_masks(self) -> tuple[int, ...]:
        """:attr:`cliques` as bit masks, in the same order."""
        return in_canonical_order(self.perfect_sequence.cliques)

    @cached_property
    def separator_masks(self) -> tuple[tuple[int, int], ...]:
        """:attr:`separators` as bit masks, in the same order."""
        multiplicity = Counter(self.perfect_sequence.separators[1:])
        return tuple((mask, multiplicity[mask]) for mask in in_canonical_order(multiplicity))

    @cached_property
    def junction_tree(self) -> tuple[tuple[int, int], ...]:
        """Edges of a junction tree as pairs of positions in :attr:`cliques`; see :func:`maximum_weight_tree`."""
        return maximum_weight_tree(self.clique_masks)

    @cached_property
    def n_junction_trees(self) -> int:
        """Number of junction trees, an exact integer; see :func:`rarecell.graph.junction.n_junction_trees`."""
        return n_junction_trees(self.clique_masks, self.junction_tree, dict(self.separator_masks))

    def has_edge(self, u: int, v: int) -> bool:
        """Whether ``u`` and ``v`` are neighbours."""
        return holds(self.neighbours[u], v)

    def components(self, removed: Iterable[int] = ()) -> tuple[tuple[int, ...], ...]:
        """Connected components without the vertices of ``removed``, in the order of their lowest vertices."""
        left = all_below(self.n_vertices) & ~mask_of(removed)
        return tuple(members(part) for part in components(self.neighbours, left))

    def __str__(self) -> str:
        joint = "" if self.n_vertices <= 10 else ","
        cliques = " ".join(joint.join(str(v) for v in clique) for clique in self.cliques)
        listed = f" and the cliques {cliques}" if cliques else ""
        vertices = "1 vertex" if self.n_vertices == 1 else f"{self.n_vertices} vertices"
        edges = "1 edge" if self.n_edges == 1 else f"{self.n_edges} edges"
        return f"Chordal graph on {vertices} with {edges}{listed}."


def is_chordal(neighbours: Sequence[int]) -> bool:
    """Whether the graph with the given neighbour masks is chordal; :func:`~rarecell.graph.witness.chordless_cycle` gives the proof if not."""
    return bool(kernels.is_chordal(np.array(neighbours, dtype=np.uint64)))


def edge_change(graph: ChordalGraph, u: int, v: int) -> tuple[int, bool]:
    """The common neighbours S of ``u`` and ``v``, and whether changing the edge between them keeps the graph chordal.

    An absent edge may be added when S separates ``u`` from ``v``; a present edge may be deleted when S is complete. A
    score that is the sum of q over the cliques minus the sum over the separators changes by
    q(S∪{u,v}) + q(S) − q(S∪{u}) − q(S∪{v}) when the edge is added, and by minus that when it is deleted.

    See Also
    --------
    edge_obstacle : Why a change is not allowed.
    """
    _check_edge(graph.n_vertices, u, v)
    common = graph.neighbours[u] & graph.neighbours[v]
    is_legal = kernels.can_delete if graph.has_edge(u, v) else kernels.can_add
    return common, bool(is_legal(graph.adjacency, u, v))


def edge_obstacle(graph: ChordalGraph, u: int, v: int) -> tuple[int, ...] | None:
    """What prevents a change of the edge between ``u`` and ``v``; None when it may change.

    For an absent edge the obstacle is a path from ``u`` to ``v`` that avoids their common neighbours; for a present
    edge it is a pair of common neighbours that are not neighbours of each other.
    """
    _check_edge(graph.n_vertices, u, v)
    if graph.has_edge(u, v):
        return witness.deletion_obstacle(graph.neighbours, u, v)
    return witness.addition_obstacle(graph.neighbours, u, v)


def neighbours_of_edges(n_vertices: int, edges: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Neighbour masks of the graph with the given edges, whether chordal or not."""
    neighbours = [0] * _checked_size(n_vertices)
    for u, v in edges:
        _check_edge(n_vertices, u, v)
        neighbours[u] |= single(v)
        neighbours[v] |= single(u)
    return tuple(neighbours)


def neighbours_of_cliques(n_vertices: int, cliques: Iterable[int]) -> tuple[int, ...]:
    """Neighbour masks of the graph in which each given mask is complete, whether chordal or not."""
    neighbours = [0] * _checked_size(n_vertices)
    for clique in cliques:
        if not is_inside(clique, all_below(n_vertices)):
            raise BadInput(f"The clique mask {clique} names a vertex that a graph on {n_vertices} vertices does not have.")
        for v in each_member(clique):
            neighbours[v] |= clique & ~single(v)
    return tuple(neighbours)


def _checked_size(n_vertices: int) -> int:
    if not 0 <= n_vertices <= MAX_VERTICES:
        raise BadInput(f"A graph was asked for on {n_vertices} vertices; it can have from 0 to {MAX_VERTICES}.")
    return n_vertices


def _check_edge(n_vertices: int, u: int, v: int) -> None:
    if u == v or not (0 <= u < n_vertices and 0 <= v < n_vertices):
        raise BadInput(f"({u}, {v}) is not an edge. Give two different vertices between 0 and {n_vertices - 1}.")


def _check_masks(n_vertices: int, neighbours: Sequence[int]) -> None:
    if _checked_size(n_vertices) != len(neighbours):
        raise BadInput(f"{len(neighbours)} neighbour masks were given for {n_vertices} vertices. Give one for each vertex.")
    for v, around in enumerate(neighbours):
        if not is_inside(around, all_below(n_vertices)):
            raise BadInput(f"Vertex {v} has the neighbour mask {around}, which names vertices the graph does not have.")
        if holds(around, v):
            raise BadInput(f"Vertex {v} is its own neighbour. Leave loops out.")
        for w in each_member(around):
            if not holds(neighbours[w], v):
                raise BadInput(f"Vertex {w} is a neighbour of {v}, but {v} is not one of {w}. Give both, or neither.")


def least_fill(neighbours: Sequence[int], n_cells: Callable[[int], int]) -> ChordalGraph:
    """A chordal graph with all the edges of the given graph.

    Vertices are eliminated one by one: each time the vertex whose neighbours lack the fewest edges among themselves. Ties
    go to the vertex whose clique has the fewest cells, then to the first. The missing edges are added.
    """
    filled = list(neighbours)
    left = all_below(len(filled))

    def cost(v: int) -> tuple[int, int, int]:
        around = filled[v] & left
        n_lacking = sum((around & ~filled[w] & ~single(w)).bit_count() for w in each_member(around))
        return n_lacking, n_cells(around | single(v)), v

    while left:
        v = min(each_member(left), key=cost)
        around = filled[v] & left
        for w in each_member(around):
            filled[w] |= around & ~single(w)
        left &= ~single(v)
    return ChordalGraph.from_neighbours(filled)
