"""Kernels on neighbour masks against their slow twins, networkx and full recomputation."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell._kernels import chordal as kernels
from rarecell._kernels import enumeration
from rarecell.graph import ChordalGraph, random_chordal_adjacency
from tests.naive import chordal as naive
from tests.strategies_graph import chordal_graphs, chordal_graphs_with_pair, neighbour_masks


def array(neighbours: tuple[int, ...]) -> np.ndarray:
    return np.array(neighbours, dtype=np.uint64)


def as_networkx(neighbours: tuple[int, ...]) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(len(neighbours)))
    graph.add_edges_from((u, v) for u, around in enumerate(neighbours) for v in naive.vertices_of(around))
    return graph


@given(st.integers(0, 2**64 - 1))
@settings(max_examples=200, deadline=None)
def test_bit_counting(mask: int) -> None:
    assert kernels.popcount(np.uint64(mask)) == naive.popcount(mask)
    assert kernels.lowest_bit(np.uint64(mask)) == naive.lowest_bit(mask)


@pytest.mark.parametrize("v", [0, 1, 31, 32, 63])
def test_single_bits(v: int) -> None:
    assert int(kernels.bit(v)) == 2**v
    assert kernels.lowest_bit(np.uint64(kernels.bit(v))) == v


@given(neighbour_masks(max_vertices=7))
@settings(deadline=None)
def test_chordality_and_order(neighbours: tuple[int, ...]) -> None:
    graph = naive.sets_of(neighbours)
    expected = naive.is_chordal(graph)
    assert kernels.is_chordal(array(neighbours)) == expected
    assert naive.is_chordal_by_elimination(graph) == expected
    assert nx.is_chordal(as_networkx(neighbours)) == expected
    assert kernels.perfect_order(array(neighbours)).tolist() == naive.perfect_order(graph)


def test_chordality_of_every_graph_on_five_vertices() -> None:
    verdicts = [kernels.is_chordal(array(naive.masks_of(graph))) for graph in naive.all_graphs(5)]
    assert len(verdicts) == 1024
    assert sum(verdicts) == 822


@given(chordal_graphs(max_vertices=7))
@settings(max_examples=60, deadline=None)
def test_cliques_and_separators(graph: ChordalGraph) -> None:
    cliques, separators = kernels.cliques_and_separators(graph.adjacency)
    sets = naive.sets_of(graph.neighbours)
    assert {frozenset(naive.vertices_of(c)) for c in cliques} == naive.cliques(sets)
    assert len(set(cliques.tolist())) == len(cliques) == len(separators) + 1
    if len(cliques) <= 6:
        assert Counter(frozenset(naive.vertices_of(s)) for s in separators) == naive.separators(sets)
    seen = int(cliques[0])
    for place, separator in enumerate(separators.tolist(), start=1):
        assert separator == int(cliques[place]) & seen
        assert any(separator & ~int(earlier) == 0 for earlier in cliques[:place])
        seen |= int(cliques[place])


def test_cliques_of_large_graphs_agree_with_networkx() -> None:
    rng = np.random.default_rng(5)
    for n_vertices in (1, 20, 63, 64):
        for row in random_chordal_adjacency(n_vertices, 10, rng, inclusion=0.8):
            masks = tuple(row.tolist())
            assert kernels.is_chordal(row)
            cliques, separators = kernels.cliques_and_separators(row)
            assert {frozenset(naive.vertices_of(c)) for c in cliques} == set(nx.chordal_graph_cliques(as_networkx(masks)))
            tree = nx.junction_tree(as_networkx(masks))
            expected = Counter(node for node, kind in tree.nodes(data="type") if kind == "sepset")
            # networkx keeps one node for equal separators, and a forest for disconnected graphs.
            assert {frozenset(naive.vertices_of(s)) for s in separators if s} == {frozenset(s) for s in expected}


@given(neighbour_masks(), st.integers(0, 255), st.integers(0, 255))
@settings(deadline=None)
def test_reachable_and_complete(neighbours: tuple[int, ...], start: int, allowed: int) -> None:
    everything = 2 ** len(neighbours) - 1
    start, allowed = start & everything, allowed & everything
    graph = naive.sets_of(neighbours)
    reached = kernels.reachable(array(neighbours), np.uint64(start), np.uint64(allowed))
    assert naive.vertices_of(reached) == naive.reachable(graph, naive.vertices_of(start), naive.vertices_of(allowed))
    assert kernels.is_complete(array(neighbours), np.uint64(start)) == naive.is_complete(graph, naive.vertices_of(start))


@given(chordal_graphs_with_pair())
@settings(deadline=None)
def test_legality_of_one_edge(drawn: tuple[ChordalGraph, int, int]) -> None:
    graph, u, v = drawn
    sets = naive.sets_of(graph.neighbours)
    assert kernels.can_add(graph.adjacency, u, v) == naive.can_add(sets, u, v)
    assert kernels.can_delete(graph.adjacency, u, v) == naive.can_delete(sets, u, v)
    assert not kernels.can_add(graph.adjacency, u, u)
    assert not kernels.can_delete(graph.adjacency, u, u)


@pytest.mark.parametrize("n_vertices", [4, 6, 9, 16, 64])
def test_legality_on_thousands_of_random_graphs(n_vertices: int) -> None:
    """A move is legal exactly when the changed graph passes the chordality test from scratch."""
    rng = np.random.default_rng(n_vertices)
    outcomes = Counter()
    for inclusion in (0.3, 0.6, 0.9):
        for row in random_chordal_adjacency(n_vertices, 400, rng, inclusion=inclusion):
            u, v = (int(w) for w in rng.choice(n_vertices, 2, replace=False))
            changed = row.copy()
            changed[u] ^= np.uint64(1) << np.uint64(v)
            changed[v] ^= np.uint64(1) << np.uint64(u)
            is_present = bool(int(row[u]) >> v & 1)
            stays_chordal = kernels.is_chordal(changed)
            assert kernels.can_add(row, u, v) == (not is_present and stays_chordal)
            assert kernels.can_delete(row, u, v) == (is_present and stays_chordal)
            outcomes[is_present, stays_chordal] += 1
    # The case counts only say that all four outcomes were tried.
    assert min(outcomes[present, legal] for present in (True, False) for legal in (True, False)) >= 5


@given(neighbour_masks(max_vertices=6))
@settings(max_examples=40, deadline=None)
def test_canonical_code(neighbours: tuple[int, ...]) -> None:
    """Works for every graph, chordal or not."""
    code, n_automorphisms = enumeration.canonical_code(array(neighbours))
    assert (int(code), int(n_automorphisms)) == naive.canonical_code(naive.sets_of(neighbours))


@given(chordal_graphs(max_vertices=11), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_canonical_code_does_not_see_names(graph: ChordalGraph, random) -> None:
    names = list(range(graph.n_vertices))
    random.shuffle(names)
    both = np.stack(
        [graph.adjacency, np.array(naive.masks_of(naive.relabelled(naive.sets_of(graph.neighbours), names)), dtype=np.uint64)]
    )
    codes, n_automorphisms = enumeration.canonical_codes(both)
    assert codes[0] == codes[1]
    assert n_automorphisms[0] == n_automorphisms[1]


@given(chordal_graphs(max_vertices=7), st.data())
@settings(deadline=None)
def test_twins_and_next_column(graph: ChordalGraph, data) -> None:
    sets = naive.sets_of(graph.neighbours)
    twins = naive.earlier_twins(sets)
    masks = enumeration.earlier_twins(graph.adjacency)
    assert naive.sets_of(masks) == twins
    n_placed = data.draw(st.integers(0, graph.n_vertices - 1))
    # Twins are placed in ascending order, so a partial labelling never skips a lower twin.
    labelling: list[int] = []
    for _ in range(n_placed):
        labelling.append(
            data.draw(st.sampled_from([v for v in range(graph.n_vertices) if v not in labelling and twins[v] <= {*labelling}]))
        )
    padded = np.zeros(graph.n_vertices, np.int64)
    padded[:n_placed] = labelling
    candidates, column = enumeration.next_column(graph.adjacency, masks, padded, np.uint64(naive.mask_of(labelling)))
    assert (naive.vertices_of(candidates), int(column)) == naive.next_column(sets, twins, labelling)


@given(chordal_graphs(max_vertices=6))
@settings(max_examples=40, deadline=None)
def test_simplicial_extensions(graph: ChordalGraph) -> None:
    rows = enumeration.simplicial_extensions(np.stack([graph.adjacency] * 2)).tolist()
    expected = [list(naive.masks_of(extended)) for extended in naive.simplicial_extensions(naive.sets_of(graph.neighbours))]
    assert rows == expected + expected
    assert all(kernels.is_chordal(np.array(row, np.uint64)) for row in rows)


@given(st.integers(1, 12), st.floats(0, 1), st.integers(1, 12), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_growth(n_vertices: int, inclusion: float, max_clique: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    clique_draws, member_draws = rng.random((3, n_vertices)), rng.random((3, n_vertices, n_vertices))
    rows = enumeration.grow_chordal(clique_draws, member_draws, inclusion, max_clique)
    for g, row in enumerate(rows):
        expected = naive.grow_chordal(clique_draws[g].tolist(), member_draws[g].tolist(), inclusion, max_clique)
        assert tuple(row.tolist()) == naive.masks_of(expected)


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=10), st.integers(1, 2**10 - 1))
@settings(deadline=None)
def test_largest_draw(draws: list[float], members: int) -> None:
    members = members & (2 ** len(draws) - 1) or 1
    assert enumeration.largest_draw(np.array(draws), np.uint64(members)) == naive.largest_draw(draws, naive.vertices_of(members))


@given(chordal_graphs(max_vertices=9), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_relabelling(graph: ChordalGraph, seed: int) -> None:
    names = np.random.default_rng(seed).permutation(graph.n_vertices)
    rows = enumeration.relabel(graph.adjacency[np.newaxis], names[np.newaxis])
    expected = naive.masks_of(naive.relabelled(naive.sets_of(graph.neighbours), names.tolist()))
    assert tuple(rows[0].tolist()) == expected


def test_no_vertices() -> None:
    nothing = np.zeros(0, np.uint64)
    cliques, separators = kernels.cliques_and_separators(nothing)
    assert kernels.is_chordal(nothing)
    assert len(kernels.perfect_order(nothing)) == len(cliques) == len(separators) == 0
