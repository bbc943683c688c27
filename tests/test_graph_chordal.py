"""Chordal graphs as objects: witnesses, cliques, separators, sequences, junction trees, moves."""

from __future__ import annotations

from collections import Counter
from dataclasses import FrozenInstanceError
from itertools import combinations, pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell._kernels import chordal as kernels
from rarecell.errors import BadInput, NotChordal
from rarecell.graph import (
    ChordalGraph,
    chordless_cycle,
    edge_change,
    edge_obstacle,
    is_chordal,
    mask_of,
    members,
    random_chordal_graph,
    to_networkx,
)
from tests.naive import chordal as naive
from tests.naive.chordal import is_chordless_cycle
from tests.strategies_graph import chordal_graphs, chordal_graphs_with_pair, neighbour_masks, toggled

SQUARE = (0b1010, 0b0101, 0b1010, 0b0101)


def masks(text: str) -> list[int]:
    """The cliques of a model as the paper writes them: variables numbered from 1, '126 167'."""
    return [mask_of(int(digit) - 1 for digit in word) for word in text.split()]


def written(sets: tuple[int, ...]) -> str:
    return " ".join("".join(str(v + 1) for v in members(mask)) for mask in sets)


@pytest.mark.parametrize(
    ("cliques", "separators"),
    [
        ("126 167 268 367 46 56", {"16": 1, "26": 1, "67": 1, "6": 2}),
        ("167 367 168 28 46 56", {"67": 1, "16": 1, "8": 1, "6": 2}),
        ("15 16 36 46 37 28 38", {"1": 1, "3": 2, "6": 2, "8": 1}),
    ],
    ids=["paper's Model 1", "paper's Model 2", "census optimum"],
)
def test_known_models(cliques: str, separators: dict[str, int]) -> None:
    graph = ChordalGraph.from_clique_masks(8, masks(cliques))
    assert written(graph.clique_masks) == " ".join(sorted(cliques.split()))
    assert {written((mask,)): times for mask, times in graph.separator_masks} == separators


@pytest.mark.parametrize(
    ("n_vertices", "cliques", "expected", "separators"),
    [
        (0, [], (), ()),
        (1, [], (1,), ()),
        (3, [], (1, 2, 4), ((0, 2),)),
        (4, [0b0011, 0b1100], (0b0011, 0b1100), ((0, 1),)),
        (3, [0b111, 0b011, 0b111, 0b100], (0b111,), ()),
        (4, [0b0011, 0b0101, 0b1001], (0b0011, 0b0101, 0b1001), ((1, 2),)),
    ],
    ids=["empty", "one vertex", "no edges", "disconnected", "nested and repeated", "star"],
)
def test_awkward_clique_sets(n_vertices, cliques, expected, separators) -> None:
    graph = ChordalGraph.from_clique_masks(n_vertices, cliques)
    assert graph.clique_masks == expected
    assert graph.separator_masks == separators
    assert len(graph.junction_tree) == max(0, len(expected) - 1)


@given(neighbour_masks())
@settings(deadline=None)
def test_a_graph_is_chordal_or_has_a_chordless_cycle(neighbours: tuple[int, ...]) -> None:
    cycle = chordless_cycle(neighbours)
    assert is_chordal(neighbours) == (cycle is None)
    if cycle is None:
        assert ChordalGraph.from_neighbours(neighbours).neighbours == neighbours
        return
    assert len(cycle) >= 4
    around = nx.Graph((u, v) for u, v in combinations(cycle, 2) if neighbours[u] >> v & 1)
    assert nx.is_isomorphic(around, nx.cycle_graph(len(cycle)))
    assert all(neighbours[u] >> v & 1 for u, v in zip(cycle, cycle[1:] + cycle[:1], strict=True))
    assert cycle[0] == min(cycle)
    assert cycle[1] < cycle[-1]
    assert is_chordless_cycle(neighbours, cycle)
    with pytest.raises(NotChordal) as raised:
        ChordalGraph.from_neighbours(neighbours)
    assert raised.value.cycle == cycle


def test_the_cycle_may_be_long_and_among_many_vertices() -> None:
    edges = [(v, (v + 1) % 64) for v in range(64)]
    with pytest.raises(NotChordal) as raised:
        ChordalGraph.from_edges(64, edges)
    assert raised.value.cycle == tuple(range(64))
    assert "0 – 1 – 2" in str(raised.value)


def test_a_witness_is_checked_strictly() -> None:
    assert is_chordless_cycle(SQUARE, (0, 1, 2, 3))
    assert not is_chordless_cycle(SQUARE, (0, 2, 1, 3))
    assert not is_chordless_cycle(SQUARE, (0, 1, 2))
    assert not is_chordless_cycle(SQUARE, (0, 1, 0, 3))
    with_chord = (0b1110, 0b0101, 0b1011, 0b0101)
    assert not is_chordless_cycle(with_chord, (0, 1, 2, 3))


@given(chordal_graphs(max_vertices=10))
@settings(deadline=None)
def test_agrees_with_networkx(graph: ChordalGraph) -> None:
    exported = to_networkx(graph)
    assert nx.is_chordal(exported)
    assert {frozenset(members(c)) for c in graph.clique_masks} == set(nx.chordal_graph_cliques(exported))
    assert {frozenset(c) for c in graph.components()} == {frozenset(c) for c in nx.connected_components(exported)}
    assert set(graph.edges) == {(min(e), max(e)) for e in exported.edges}
    assert graph.n_edges == exported.number_of_edges()


@given(chordal_graphs(max_vertices=7))
@settings(deadline=None)
def test_separators_are_the_minimal_separators(graph: ChordalGraph) -> None:
    sets = naive.sets_of(graph.neighbours)
    expected = {frozenset(s) for s in naive.subsets(range(graph.n_vertices)) if naive.is_minimal_separator(sets, set(s))}
    assert {frozenset(members(mask)) for mask, _ in graph.separator_masks} == expected
    assert sum(times for _, times in graph.separator_masks) == len(graph.clique_masks) - 1
    assert all(times >= 1 for _, times in graph.separator_masks)


@given(chordal_graphs(max_vertices=12))
@settings(deadline=None)
def test_orders(graph: ChordalGraph) -> None:
    order = kernels.perfect_order(graph.adjacency).tolist()
    assert sorted(order) == list(range(graph.n_vertices))
    sets = naive.sets_of(graph.neighbours)
    for place, v in enumerate(order):
        assert naive.is_complete(sets, sets[v] & set(order[:place]))
    assert list(graph.cliques) == sorted(graph.cliques) == [members(mask) for mask in graph.clique_masks]
    assert graph.separators == tuple((members(mask), times) for mask, times in graph.separator_masks)


@given(chordal_graphs(max_vertices=12))
@settings(deadline=None)
def test_perfect_sequence(graph: ChordalGraph) -> None:
    sequence = graph.perfect_sequence
    assert sorted(sequence.cliques) == sorted(graph.clique_masks)
    assert sequence.separators[0] == 0
    assert sequence.parents[0] == -1
    assert Counter(sequence.separators[1:]) == dict(graph.separator_masks)
    seen = 0
    for clique, separator, residual, parent in zip(
        sequence.cliques, sequence.separators, sequence.residuals, sequence.parents, strict=True
    ):
        assert separator == clique & seen
        assert residual == clique & ~seen
        assert residual
        if parent >= 0:
            assert separator & ~sequence.cliques[parent] == 0
            assert clique not in sequence.cliques[: parent + 1]
        seen |= clique
    assert seen == 2**graph.n_vertices - 1


@given(chordal_graphs(max_vertices=12))
@settings(deadline=None)
def test_junction_tree(graph: ChordalGraph) -> None:
    nodes = [frozenset(members(clique)) for clique in graph.clique_masks]
    assert len(graph.junction_tree) == len(nodes) - 1
    assert naive.is_junction_tree(graph.junction_tree, nodes)
    shared = Counter(graph.clique_masks[a] & graph.clique_masks[b] for a, b in graph.junction_tree)
    assert shared == dict(graph.separator_masks)


@given(chordal_graphs(max_vertices=7).filter(lambda graph: len(graph.clique_masks) <= 6))
@settings(max_examples=60, deadline=None)
def test_number_of_junction_trees(graph: ChordalGraph) -> None:
    assert graph.n_junction_trees == len(naive.junction_trees(naive.sets_of(graph.neighbours)))


@pytest.mark.parametrize("n_leaves", [2, 3, 10, 40])
def test_junction_trees_of_stars_and_points(n_leaves: int) -> None:
    """Cayley: n cliques that all share the same separator can be joined in n^(n-2) ways; exact beyond 64 bits."""
    star = ChordalGraph.from_edges(n_leaves + 1, [(0, leaf) for leaf in range(1, n_leaves + 1)])
    points = ChordalGraph.from_edges(n_leaves, [])
    assert star.n_junction_trees == points.n_junction_trees == n_leaves ** (n_leaves - 2)


@given(chordal_graphs(max_vertices=8), st.integers(0, 255))
@settings(deadline=None)
def test_components_without_some_vertices(graph: ChordalGraph, chosen: int) -> None:
    everything = 2**graph.n_vertices - 1
    removed = chosen & everything
    parts = naive.components(naive.sets_of(graph.neighbours), naive.vertices_of(everything & ~removed))
    assert [set(part) for part in graph.components(members(removed))] == parts


@given(chordal_graphs_with_pair(max_vertices=10))
@settings(max_examples=200, deadline=None)
def test_edge_changes_and_their_obstacles(drawn: tuple[ChordalGraph, int, int]) -> None:
    graph, u, v = drawn
    common, is_legal = edge_change(graph, u, v)
    obstacle = edge_obstacle(graph, u, v)
    changed = naive.masks_of(naive.toggled(naive.sets_of(graph.neighbours), u, v))
    assert common == graph.neighbours[u] & graph.neighbours[v]
    assert is_legal == (obstacle is None) == nx.is_chordal(nx.Graph(_adjacency(changed)))
    assert edge_change(graph, v, u) == (common, is_legal)
    if is_legal:
        assert edge_change(toggled(graph, u, v), u, v) == (common, True)
        return
    assert obstacle is not None
    if graph.has_edge(u, v):
        s, t = obstacle
        assert is_chordless_cycle(changed, (u, s, v, t))
        assert common >> s & 1
        assert common >> t & 1
        assert not graph.has_edge(s, t)
    else:
        assert (obstacle[0], obstacle[-1]) == (u, v)
        assert is_chordless_cycle(changed, obstacle)
        assert all(graph.has_edge(a, b) for a, b in pairwise(obstacle))
        assert mask_of(obstacle) & common == 0


def _adjacency(neighbours: tuple[int, ...]) -> dict[int, list[int]]:
    return {v: list(members(around)) for v, around in enumerate(neighbours)}


def test_score_change_of_a_move_needs_four_sets() -> None:
    """Σ q(C) − Σ ν(S) q(S) changes by q(S∪uv) + q(S) − q(S∪u) − q(S∪v); q is random, so nothing cancels by chance."""
    rng = np.random.default_rng(3)
    weights = rng.integers(-1000, 1000, size=2**9).tolist()
    weights[0] = 0

    def value(graph: ChordalGraph) -> int:
        return sum(weights[c] for c in graph.clique_masks) - sum(times * weights[s] for s, times in graph.separator_masks)

    n_moves = 0
    for _ in range(300):
        graph = random_chordal_graph(9, rng)
        u, v = (int(w) for w in rng.choice(9, 2, replace=False))
        common, is_legal = edge_change(graph, u, v)
        if is_legal:
            gain = weights[common | 1 << u | 1 << v] + weights[common] - weights[common | 1 << u] - weights[common | 1 << v]
            assert value(toggled(graph, u, v)) - value(graph) == (-gain if graph.has_edge(u, v) else gain)
            n_moves += 1
    assert n_moves > 100


@given(chordal_graphs(max_vertices=9))
@settings(deadline=None)
def test_constructors_agree(graph: ChordalGraph) -> None:
    assert ChordalGraph.from_clique_masks(graph.n_vertices, graph.clique_masks) == graph
    assert ChordalGraph.from_cliques(graph.n_vertices, graph.cliques) == graph
    assert ChordalGraph.from_edges(graph.n_vertices, [(v, u) for u, v in graph.edges]) == graph
    assert ChordalGraph.from_neighbours(graph.adjacency) == graph
    assert hash(ChordalGraph(graph.n_vertices, graph.neighbours)) == hash(graph)


def test_sixty_four_vertices() -> None:
    graph = ChordalGraph.from_clique_masks(64, [2**64 - 1])
    assert graph.clique_masks == (2**64 - 1,)
    assert graph.n_edges == 2016
    assert toggled(graph, 0, 63).clique_masks == (2**63 - 1, 2**64 - 2)
    path = ChordalGraph.from_edges(64, [(v, v + 1) for v in range(63)])
    assert path.separators == tuple(((v,), 1) for v in range(1, 63))
    assert path.n_junction_trees == 1
    assert path.components([32]) == (tuple(range(32)), tuple(range(33, 64)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ChordalGraph.from_edges(65, []), "from 0 to 64"),
        (lambda: ChordalGraph.from_edges(-1, []), "from 0 to 64"),
        (lambda: ChordalGraph.from_edges(3, [(0, 3)]), "two different vertices"),
        (lambda: ChordalGraph.from_edges(3, [(1, 1)]), "two different vertices"),
        (lambda: ChordalGraph.from_edges(3, [(-1, 1)]), "two different vertices"),
        (lambda: ChordalGraph.from_clique_masks(3, [8]), "does not have"),
        (lambda: ChordalGraph.from_clique_masks(3, [-1]), "does not have"),
        (lambda: ChordalGraph.from_cliques(3, [(0, 3)]), "does not have"),
        (lambda: ChordalGraph.from_cliques(3, [(-1,)]), "does not have"),
        (lambda: ChordalGraph(3, (0, 0)), "one for each vertex"),
        (lambda: ChordalGraph.from_neighbours([2, 0]), "Give both, or neither"),
        (lambda: ChordalGraph.from_neighbours([1]), "own neighbour"),
        (lambda: ChordalGraph.from_neighbours([4, 0]), "does not have"),
        (lambda: edge_change(ChordalGraph.from_edges(3, []), 0, 7), "two different vertices"),
    ],
)
def test_bad_graphs_are_refused(make, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make()


def test_graphs_are_frozen_and_read_aloud() -> None:
    graph = ChordalGraph.from_edges(12, [(0, 11)])
    with pytest.raises(FrozenInstanceError):
        graph.n_vertices = 3  # type: ignore[misc]
    graph.adjacency[0] = 0
    assert graph.has_edge(0, 11)
    assert str(graph) == "Chordal graph on 12 vertices with 1 edge and the cliques 0,11 1 2 3 4 5 6 7 8 9 10."
    assert str(ChordalGraph.from_edges(0, [])) == "Chordal graph on 0 vertices with 0 edges."
