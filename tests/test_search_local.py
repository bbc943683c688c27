"""Moves, Algorithm 1 and greedy search against full rescoring and the certified optimum."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell._kernels import local as kernels
from rarecell.graph.chordal import ChordalGraph
from rarecell.graph.random import random_chordal_adjacency
from rarecell.search import select_model
from rarecell.search.greedy import greedy_search
from rarecell.search.local import local_search, random_start
from rarecell.search.score import KnownScores, make_score
from tests.naive import search as naive
from tests.naive.search import graph_score
from tests.strategies import categories, coarsened_tables, tables

BOTH = kernels.ADD | kernels.DELETE


class RandomScore:
    """A set function without any structure, on keys of two levels."""

    name = "random"

    def __init__(self, n_keys: int, seed: int) -> None:
        cells = np.zeros((1, n_keys), dtype=np.int32)
        self.table = rc.ContingencyTable.from_counts(cells, [1], categories([2] * n_keys))
        self.values = np.random.default_rng(seed).normal(0, 3, 1 << n_keys)

    def q_many(self, masks: np.ndarray) -> np.ndarray:
        return self.values[masks.astype(np.int64)]

    @property
    def by_mask(self) -> dict[int, float]:
        return dict(enumerate(self.values.tolist()))


def changes(known: KnownScores, neighbours: np.ndarray) -> dict[tuple[int, int], float]:
    """Score change of every legal move."""
    found = {}
    for u, v in itertools.combinations(range(len(neighbours)), 2):
        if known.vertices.key[u] == known.vertices.key[v]:
            continue
        args = (neighbours, known.vertices)
        change = kernels.change_of_move(*args, known.table, known.missing, u, v, BOTH)
        while math.isnan(change):
            known.fill_missing()
            change = kernels.change_of_move(*args, known.table, known.missing, u, v, BOTH)
        if not math.isinf(change):
            found[u, v] = change
    return found


@pytest.mark.parametrize("n_vertices", [2, 3, 5, 7, 9, 12])
def test_moves_and_their_changes_equal_full_rescoring(n_vertices: int) -> None:
    """On thousands of edges of random graphs: legal exactly when networkx finds the result chordal."""
    score = RandomScore(n_vertices, n_vertices)
    known = KnownScores(score)
    q = score.by_mask
    for row in random_chordal_adjacency(n_vertices, 60, np.random.default_rng(n_vertices)):
        graph = ChordalGraph.from_neighbours(row)
        assert known.value(row) == pytest.approx(naive.score_of(graph, q))
        found = changes(known, row)
        for u, v in itertools.combinations(range(n_vertices), 2):
            other = nx.Graph(graph.edges)
            other.add_nodes_from(range(n_vertices))
            other.remove_edge(u, v) if other.has_edge(u, v) else other.add_edge(u, v)
            is_chordal = n_vertices < 4 or nx.is_chordal(other)
            assert ((u, v) in found) == is_chordal
            if is_chordal:
                moved = row.copy()
                kernels.make_move(moved, known.vertices, u, v)
                assert moved.tolist() == list(ChordalGraph.from_edges(n_vertices, other.edges).neighbours)
                assert found[u, v] == pytest.approx(known.value(moved) - known.value(row), abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(coarsened_tables(max_keys=5), st.integers(0, 2**32 - 1), st.sampled_from(["aic", "bayes"]))
def test_moves_with_coarsenings_stay_closed_and_chordal(table, seed, criterion) -> None:
    score = make_score(table, criterion)
    known = KnownScores(score)
    neighbours = random_start(known, np.random.default_rng(seed), table.n_keys)
    graph = ChordalGraph.from_neighbours(neighbours)
    assert all(table.close(clique) == clique for clique in graph.clique_masks)
    value = graph_score(score, graph)
    for (u, v), change in changes(known, neighbours).items():
        moved = neighbours.copy()
        kernels.make_move(moved, known.vertices, u, v)
        other = ChordalGraph.from_neighbours(moved)
        assert all(table.close(clique) == clique for clique in other.clique_masks)
        assert graph_score(score, other) - value == pytest.approx(change, abs=1e-6)
        assert other.has_edge(u, v) != graph.has_edge(u, v)


@settings(max_examples=15, deadline=None)
@given(tables(max_keys=5), st.sampled_from(["aic", "bic", "bayes"]), st.integers(0, 1000))
def test_runs_of_algorithm_1_take_the_best_edge_until_none_improves(table, criterion, seed) -> None:
    score = make_score(table, criterion)
    known = KnownScores(score)
    runs = local_search(known, restarts=5, seed=seed)
    for end, path, value in zip(runs.ends, runs.paths, runs.scores, strict=True):
        assert (np.diff(path) > 0).all()
        assert path[-1] == pytest.approx(value) == pytest.approx(graph_score(score, ChordalGraph.from_neighbours(end)))
        assert max(changes(known, end).values(), default=0.0) <= 1e-6


def test_algorithm_1_takes_the_steepest_move() -> None:
    score = RandomScore(6, 3)
    known = KnownScores(score)
    for row in random_chordal_adjacency(6, 30, np.random.default_rng(0)):
        gains = np.empty(1)
        best = max(changes(known, row).values())
        n_moves, _ = kernels.climb(row.copy(), known.vertices, known.table, known.missing, BOTH, gains)
        assert n_moves == (best > 1e-6)
        if n_moves:
            assert gains[0] == pytest.approx(best)


def lumpy_table(seed: int, n_keys: int = 7, n_records: int = 1500) -> rc.ContingencyTable:
    """Records from a mixture, so that keys depend on each other in several ways."""
    rng = np.random.default_rng(seed)
    levels = rng.integers(2, 7, n_keys)
    group = rng.integers(0, 4, n_records)
    columns = []
    for n in levels:
        probability = rng.dirichlet(np.full(n, 0.6), size=4)
        columns.append((rng.random(n_records)[:, None] > probability[group].cumsum(axis=1)).sum(axis=1).clip(0, n - 1))
    return rc.ContingencyTable.from_codes(np.stack(columns, axis=1).astype(np.int32), categories(levels.tolist()))


def test_no_set_need_be_known_beforehand() -> None:
    """A climb that fetches scores as it goes, by optimistic bounds, ends where one that knows all of them ends."""
    for seed in range(6):
        table = lumpy_table(seed)
        known, lazy = KnownScores(make_score(table, "aic")), KnownScores(make_score(table, "aic"))
        known.fill_all()
        for row in random_chordal_adjacency(table.n_keys, 10, np.random.default_rng(seed)):
            one, other = row.copy(), row.copy()
            known.climb(one, BOTH)
            lazy.climb(other, BOTH)
            assert one.tolist() == other.tolist()
        assert lazy.n_known <= known.n_known


def test_greedy_search_begins_with_the_best_forest() -> None:
    for seed in range(4):
        table = lumpy_table(seed)
        score = make_score(table, "aic")
        known = KnownScores(score)
        forest = known.forest
        known.climb(forest, kernels.JOIN_COMPONENTS)
        complete = nx.Graph()
        complete.add_nodes_from(range(table.n_keys))
        for u, v in itertools.combinations(range(table.n_keys), 2):
            masks = np.array([1 << u | 1 << v, 1 << u, 1 << v], dtype=np.uint64)
            weight = float(score.q_many(masks) @ [1, -1, -1])
            if weight > 0:
                complete.add_edge(u, v, weight=weight)
        best = nx.maximum_spanning_tree(complete)
        assert sorted(ChordalGraph.from_neighbours(forest).edges) == sorted(tuple(sorted(edge)) for edge in best.edges)


@pytest.mark.parametrize("search", ["local", "greedy"])
def test_path_goes_up_and_the_seed_decides(search: str) -> None:
    table = lumpy_table(11)
    one = select_model(table, search=search, restarts=8, seed=3)
    other = select_model(table, search=search, restarts=8, seed=3)
    assert (np.diff(one.path) > 0).all()
    assert one.path[-1] == pytest.approx(one.score)
    assert [(o.graph, o.times_met) for o in one.optima] == [(o.graph, o.times_met) for o in other.optima]
    assert sum(o.times_met for o in one.optima) >= one.starts
    assert list(one.optima) == sorted(one.optima, key=lambda o: -o.score)
    assert not one.certified_optimal
    assert "a better one may exist" in str(one)


def test_more_restarts_contain_the_fewer() -> None:
    table = lumpy_table(5)
    known = KnownScores(make_score(table, "aic"))
    few, many = (local_search(known, restarts=n, seed=1) for n in (4, 9))
    assert few.ends.tolist() == many.ends[:4].tolist()


@pytest.mark.parametrize("seed", range(6))
def test_greedy_search_reaches_the_certified_optimum_of_small_tables(seed: int) -> None:
    table = lumpy_table(seed, n_keys=9, n_records=4000)
    best = select_model(table, search="exact")
    met = select_model(table, search="greedy", restarts=30, seed=seed)
    assert met.score <= best.score + 1e-6
    assert met.score >= best.score - 0.001 * abs(best.score)


def test_cliques_stay_within_the_bound() -> None:
    table = lumpy_table(2)
    for search in ("local", "greedy", "exact"):
        found = select_model(table, 0.2, search, restarts=5, max_clique=2)
        assert max(mask.bit_count() for mask in found.best.graph.clique_masks) <= 2
    known = KnownScores(make_score(table, 0.2), max_cells=30)
    climbs, _ = greedy_search(known, rounds=20)
    best = ChordalGraph.from_neighbours(climbs.best)
    assert max(table.n_possible_cells(mask) for mask in best.clique_masks) <= 30
