"""Counts and lists of chordal graphs, random graphs, and exchange with other programs."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import combinations
from math import comb, factorial

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell.errors import BadInput, MissingExtra, NotChordal, TooLarge
from rarecell.graph import (
    ChordalGraph,
    chordal_adjacency,
    chordal_graphs,
    from_graph6,
    from_networkx,
    graph_counts,
    is_chordal,
    random_chordal_adjacency,
    random_chordal_graph,
    random_labelling,
    to_graph6,
    to_networkx,
)
from tests.naive import chordal as naive
from tests.strategies_graph import chordal_graphs as drawn_chordal_graphs

N_CHORDAL = [1, 2, 8, 61, 822, 18154, 617675, 30888596]
N_NONISOMORPHIC = [1, 2, 4, 10, 27, 94, 393, 2119]


def test_counts_up_to_eight_vertices() -> None:
    counts = graph_counts(8)
    assert [c.n_vertices for c in counts] == list(range(1, 9))
    assert [c.n_graphs for c in counts] == [2 ** comb(m, 2) for m in range(1, 9)]
    assert [c.n_chordal for c in counts] == N_CHORDAL
    assert [c.n_nonisomorphic_chordal for c in counts] == N_NONISOMORPHIC


def test_notes_stand_exactly_where_the_paper_errs() -> None:
    counts = {c.n_vertices: c for c in graph_counts(8)}
    assert [m for m, c in counts.items() if c.note] == [5, 6, 7, 8]
    assert (counts[5].paper_n_chordal, counts[8].paper_n_nonisomorphic_chordal) == (820, 3734)
    assert "820" in counts[5].note
    assert "822" in counts[5].note
    assert "2,119" in counts[8].note
    assert "30,888,596 of them decomposable, 2,119 up to isomorphism" in str(counts[8])


def test_labelled_counts_by_brute_force() -> None:
    for m, expected in enumerate(N_CHORDAL[:5], start=1):
        assert sum(naive.is_chordal(graph) for graph in naive.all_graphs(m)) == expected
    assert sum(is_chordal(naive.masks_of(graph)) for graph in naive.all_graphs(6)) == 18154


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
def test_the_list_is_complete_and_without_duplicates(m: int) -> None:
    listed = chordal_graphs(m)
    stands_for = Counter(naive.canonical_code(graph)[0] for graph in naive.all_graphs(m) if naive.is_chordal(graph))
    by_code = {naive.graph6_number(naive.sets_of(entry.graph.neighbours)): entry.n_labellings for entry in listed}
    assert by_code == stands_for
    assert len(by_code) == len(listed)


def test_the_list_on_six_vertices_by_networkx() -> None:
    atlas = [nx.Graph(graph) for graph in nx.graph_atlas_g() if len(graph) == 6 and nx.is_chordal(graph)]
    listed = [to_networkx(entry.graph) for entry in chordal_graphs(6)]
    assert len(atlas) == len(listed) == 94
    for graph in atlas:
        assert sum(nx.faster_could_be_isomorphic(graph, other) and nx.is_isomorphic(graph, other) for other in listed) == 1


def test_order_of_the_list() -> None:
    listed = chordal_graphs(7)
    order = [(entry.graph.n_edges, naive.graph6_number(naive.sets_of(entry.graph.neighbours))) for entry in listed]
    assert order == sorted(order)
    assert listed[0].graph.n_edges == 0
    assert listed[-1].graph.n_edges == 21
    assert sum(entry.n_labellings for entry in listed) == 617675
    assert all(factorial(7) % entry.n_labellings == 0 for entry in listed)


def test_adjacency_of_the_list() -> None:
    rows = chordal_adjacency(8)
    assert rows.dtype == np.uint64
    assert rows.shape == (2119, 8)
    assert [tuple(row) for row in rows.tolist()] == [entry.graph.neighbours for entry in chordal_graphs(8)]
    rows[:] = 0
    assert chordal_adjacency(8).any(), "the caller's array must not be the stored one"


@pytest.mark.parametrize("m", [0, 11])
def test_lists_that_are_not_made(m: int) -> None:
    for make in (chordal_graphs, chordal_adjacency):
        with pytest.raises(TooLarge, match="random_chordal_graph"):
            make(m)
    # Who asks for numbers has no use for the advice to draw graphs.
    with pytest.raises(TooLarge, match="fewer variables"):
        graph_counts(m)


def test_random_growth_reaches_every_labelled_chordal_graph() -> None:
    rows = random_chordal_adjacency(4, 20_000, np.random.default_rng(0))
    met = {tuple(row) for row in rows.tolist()}
    assert met == {naive.masks_of(graph) for graph in naive.all_graphs(4) if naive.is_chordal(graph)}
    assert len(met) == 61


def test_random_graphs_of_all_sizes_are_chordal() -> None:
    rng = np.random.default_rng(1)
    for n_vertices in (1, 2, 9, 30, 64):
        for inclusion in (0.0, 0.5, 1.0):
            graph = random_chordal_graph(n_vertices, rng, inclusion=inclusion)
            assert graph.n_vertices == n_vertices
            if inclusion in (0.0, 1.0):
                assert graph.n_edges == inclusion * comb(n_vertices, 2)


@pytest.mark.parametrize("max_clique", [1, 2, 3])
def test_random_graphs_keep_the_bound_on_cliques(max_clique: int) -> None:
    rows = random_chordal_adjacency(4, 20_000, np.random.default_rng(2), inclusion=0.8, max_clique=max_clique)
    met = {tuple(row) for row in rows.tolist()}
    assert met == {
        naive.masks_of(graph)
        for graph in naive.all_graphs(4)
        if naive.is_chordal(graph) and max(map(len, naive.cliques(graph))) <= max_clique
    }


def test_a_seed_fixes_the_graphs() -> None:
    first, again, other = (random_chordal_adjacency(12, 5, np.random.default_rng(seed)) for seed in (7, 7, 8))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_random_labelling_is_uniform() -> None:
    """A path on three vertices has three labellings; each should come up about as often."""
    path = np.array([[0b010, 0b101, 0b010]] * 6000, dtype=np.uint64)
    relabelled = random_labelling(path, np.random.default_rng(4))
    times = Counter(tuple(row) for row in relabelled.tolist())
    assert len(times) == 3
    # Five standard deviations of a binomial count of 6000 draws at one third.
    assert all(abs(count - 2000) < 5 * np.sqrt(6000 * 2 / 9) for count in times.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inclusion": 1.5}, "probability"),
        ({"max_clique": 0}, "at least one vertex"),
        ({"inclusion": float("nan")}, "probability"),
    ],
)
def test_bad_options_of_random_graphs(options, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        random_chordal_graph(5, np.random.default_rng(0), **options)


@pytest.mark.parametrize("n_vertices", [0, 65])
def test_bad_sizes_of_random_graphs(n_vertices: int) -> None:
    with pytest.raises(BadInput, match="from 1 to 64"):
        random_chordal_graph(n_vertices, np.random.default_rng(0))


@given(drawn_chordal_graphs(max_vertices=14))
@settings(deadline=None)
def test_graph6_agrees_with_networkx(graph: ChordalGraph) -> None:
    text = to_graph6(graph)
    assert text == nx.to_graph6_bytes(to_networkx(graph), header=False).decode().strip()
    assert from_graph6(text) == graph
    assert from_graph6(f">>graph6<<{text}\n") == graph


@pytest.mark.parametrize("n_vertices", [0, 1, 2, 61, 62, 63, 64])
def test_graph6_of_awkward_sizes(n_vertices: int) -> None:
    graph = ChordalGraph.from_edges(n_vertices, [(v, v + 1) for v in range(n_vertices - 1)])
    text = to_graph6(graph)
    assert text == nx.to_graph6_bytes(to_networkx(graph), header=False).decode().strip()
    assert from_graph6(text) == graph


def test_graph6_of_the_list_is_all_different() -> None:
    lines = [to_graph6(entry.graph) for entry in chordal_graphs(8)]
    assert len(set(lines)) == 2119
    assert all(from_graph6(line) == entry.graph for line, entry in zip(lines, chordal_graphs(8), strict=True))


@pytest.mark.parametrize("text", ["", "C", "Cww", "C w", "é", "~", "~??", "~~?????@", ">>graph6<<"])
def test_text_that_is_not_graph6(text: str) -> None:
    with pytest.raises(BadInput, match="is not a graph in graph6"):
        from_graph6(text)


def test_graph6_of_a_graph_that_is_not_chordal_or_too_large() -> None:
    with pytest.raises(NotChordal) as raised:
        from_graph6(nx.to_graph6_bytes(nx.cycle_graph(4), header=False).decode())
    assert raised.value.cycle == (0, 1, 2, 3)
    with pytest.raises(BadInput, match="from 0 to 64"):
        from_graph6(nx.to_graph6_bytes(nx.empty_graph(65), header=False).decode())


@given(drawn_chordal_graphs(max_vertices=9), st.data())
@settings(deadline=None)
def test_networkx_round_trip(graph: ChordalGraph, data) -> None:
    names = [f"key {v}" for v in range(graph.n_vertices)]
    exported = to_networkx(graph, names)
    assert from_networkx(exported) == (graph, tuple(names))
    order = data.draw(st.permutations(range(graph.n_vertices)))
    imported, nodes = from_networkx(exported, [names[v] for v in order])
    assert nodes == tuple(names[v] for v in order)
    for u, v in combinations(range(graph.n_vertices), 2):
        assert imported.has_edge(u, v) == graph.has_edge(order[u], order[v])


@pytest.mark.parametrize(
    ("nx_graph", "names", "message"),
    [
        (nx.DiGraph([(0, 1)]), None, "directed"),
        (nx.path_graph(3), [0, 1], "not the nodes"),
        (nx.path_graph(3), [0, 1, 1], "not the nodes"),
        (nx.Graph([(0, 0)]), None, "two different vertices"),
    ],
    ids=["directed", "a node missing", "a node twice", "a loop"],
)
def test_networkx_graphs_that_are_refused(nx_graph, names, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        from_networkx(nx_graph, names)


def test_networkx_names_must_fit() -> None:
    with pytest.raises(BadInput, match="2 different names"):
        to_networkx(ChordalGraph.from_edges(2, []), ["a", "a"])


def test_networkx_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingExtra, match="pip install networkx"):
        to_networkx(ChordalGraph.from_edges(2, []))


@pytest.mark.parametrize(("n_vertices", "n_reached", "n_chordal"), [(3, 7, 8), (4, 39, 61), (5, 324, 822)])
def test_algorithm_2_taken_literally_misses_labelled_graphs(n_vertices: int, n_reached: int, n_chordal: int) -> None:
    """A graph is reached when the earlier neighbours of every vertex are a clique."""
    pairs = list(combinations(range(n_vertices), 2))
    reached = chordal = 0
    for chosen in range(1 << len(pairs)):
        edges = {pair for k, pair in enumerate(pairs) if chosen >> k & 1}
        earlier = [[u for u in range(v) if (u, v) in edges] for v in range(n_vertices)]
        reached += all(pair in edges for before in earlier for pair in combinations(before, 2))
        graph = nx.Graph(edges)
        graph.add_nodes_from(range(n_vertices))
        chordal += nx.is_chordal(graph)
    assert (reached, chordal) == (n_reached, n_chordal)
