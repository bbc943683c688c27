"""The dynamic programme against a list of all chordal graphs, and the bounds against the programme without them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell.graph.chordal import ChordalGraph
from rarecell.search.bounds import OrderBound, TooManySets, _Growth, admissible_sets
from rarecell.search.exact import best_cliques
from rarecell.search.score import make_score
from rarecell.search.set_family import Family, closed_levels
from rarecell.table.contingency import ContingencyTable
from tests.naive import search as naive
from tests.naive.search import graph_score
from tests.strategies import categories, coarsened_tables, tables


def plain_family(n_vertices: int, max_keys: int | None = None) -> Family:
    return Family.of_levels(closed_levels([1] * n_vertices, max_keys or n_vertices), [(v,) for v in range(n_vertices)])


def random_scores(family: Family, seed: int) -> np.ndarray:
    """Scores that grow and fall with the size of a set, so that sparse and dense graphs both win."""
    rng = np.random.default_rng(seed)
    sizes = family.levels.sum(axis=1)
    return np.where(sizes == 0, rng.normal(), rng.normal(0, 3, family.n_sets) + rng.normal(0, 2) * sizes)


@pytest.mark.parametrize("n_vertices", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(6))
def test_dynamic_programme_finds_the_best_of_all_chordal_graphs(n_vertices: int, seed: int) -> None:
    for max_clique in (None, 2, 3):
        family = plain_family(n_vertices, max_clique)
        q = random_scores(family, seed)
        score, cliques = best_cliques(family, q)
        by_mask = dict(zip(family.masks.tolist(), q.tolist(), strict=True))
        graph = ChordalGraph.from_clique_masks(n_vertices, cliques)
        expected = naive.best_score(naive.chordal_graphs(n_vertices), by_mask, max_clique)
        assert score == pytest.approx(expected)
        assert naive.score_of(graph, by_mask) == pytest.approx(score)


def test_dynamic_programme_on_six_vertices() -> None:
    graphs = naive.chordal_graphs(6)
    assert len(graphs) == 18154
    family = plain_family(6)
    for seed in range(3):
        q = random_scores(family, seed)
        by_mask = dict(zip(family.masks.tolist(), q.tolist(), strict=True))
        assert best_cliques(family, q)[0] == pytest.approx(naive.best_score(graphs, by_mask))


def test_threads_do_not_change_the_answer() -> None:
    family = plain_family(9)
    q = random_scores(family, 7)
    one = best_cliques(family, q, threads=1)
    assert all(best_cliques(family, q, threads=threads) == one for threads in (2, 3))


@settings(max_examples=25, deadline=None)
@given(tables(max_keys=5), st.sampled_from(["aic", "bic", "bayes", 0.3]), st.sampled_from([None, 1, 2, 3]))
def test_optimum_of_a_table(table, criterion, max_clique) -> None:
    score = make_score(table, criterion)
    found = admissible_sets(score, max_clique=max_clique)
    value, cliques = best_cliques(found.family, found.q)
    everything = np.arange(1 << table.n_keys, dtype=np.uint64)
    q = dict(zip(everything.tolist(), score.q_many(everything).tolist(), strict=True))
    assert value == pytest.approx(naive.best_score(naive.chordal_graphs(table.n_keys), q, max_clique))
    assert graph_score(score, ChordalGraph.from_clique_masks(table.n_keys, cliques)) == pytest.approx(value)


@settings(max_examples=25, deadline=None)
@given(coarsened_tables(max_keys=3, max_records=40), st.sampled_from(["aic", "bayes", 0.2]))
def test_optimum_with_coarsenings_is_that_over_all_chordal_graphs(table, criterion) -> None:
    """Whether edges between a key and its coarsenings are forced or not, and though only closed sets are tried."""
    if table.n_vertices > 5:
        table = table.with_coarsenings(table.coarsenings[: 5 - table.n_keys])
    score = make_score(table, criterion)
    found = admissible_sets(score)
    value, cliques = best_cliques(found.family, found.q)
    graph = ChordalGraph.from_clique_masks(table.n_vertices, cliques)
    assert all(table.close(clique) == clique for clique in graph.clique_masks)
    assert graph_score(score, graph) == pytest.approx(value)
    everything = np.arange(1 << table.n_vertices, dtype=np.uint64)
    q = dict(zip(everything.tolist(), score.q_many(everything).tolist(), strict=True))
    same_key = [pair for chain in table.chains for pair in itertools.combinations(sorted(chain), 2)]
    assert value == pytest.approx(naive.best_score(naive.chordal_graphs(table.n_vertices, tuple(same_key)), q))
    assert value == pytest.approx(naive.best_score(naive.chordal_graphs(table.n_vertices), q))


@settings(max_examples=40, deadline=None)
@given(coarsened_tables(max_keys=5), st.sampled_from(["aic", "bic", "bayes", 0.2, 0.7]), st.floats(0, 20))
def test_bounds_exclude_no_set_of_a_model_at_least_as_good(table, criterion, margin) -> None:
    score = make_score(table, criterion)
    everything = admissible_sets(score)
    best, cliques = best_cliques(everything.family, everything.q)
    few = admissible_sets(score, at_least=best - margin)
    assert few.family.n_sets <= everything.family.n_sets
    assert set(cliques) <= set(few.family.masks.tolist())
    assert best_cliques(few.family, few.q)[0] == pytest.approx(best)
    # With a set, every closed set inside it.
    kept = set(few.family.masks.tolist())
    for levels in few.family.levels:
        for k in np.flatnonzero(levels):
            smaller = levels.copy()
            smaller[k] -= 1
            assert sum(1 << v for chain, level in zip(table.chains, smaller, strict=True) for v in chain[:level]) in kept


@settings(max_examples=20, deadline=None)
@given(tables(max_keys=4), st.sampled_from(["aic", "bayes", 0.2]), st.floats(0, 20))
def test_bounds_keep_the_cliques_of_every_model_that_is_good_enough(table, criterion, margin) -> None:
    score = make_score(table, criterion)
    graphs = naive.chordal_graphs(table.n_keys)
    scores = np.array([graph_score(score, graph) for graph in graphs])
    kept = set(admissible_sets(score, at_least=scores.max() - margin).family.masks.tolist())
    for graph, value in zip(graphs, scores, strict=True):
        if value >= scores.max() - margin:
            assert set(graph.clique_masks) <= kept


@pytest.mark.parametrize("lengths", [(1,), (1, 1, 1, 1), (2, 1, 1), (1, 3, 1), (2, 2)])
def test_bound_by_the_best_order_is_that_of_all_orders(lengths: tuple[int, ...]) -> None:
    levels = closed_levels(lengths, len(lengths))
    q = np.random.default_rng(len(lengths)).normal(0, 3, len(levels))
    value = {tuple(row): x for row, x in zip(levels.tolist(), q.tolist(), strict=True)}
    gains = np.full(levels.shape, np.nan)
    gain = {}
    for i, row in enumerate(levels.tolist()):
        for k in np.flatnonzero(row):
            smaller = tuple(level - (x == k) for x, level in enumerate(row))
            gains[i, k] = gain[int(k), smaller] = value[tuple(row)] - value[smaller]
    bound = OrderBound(np.array(lengths))
    found = bound.completions(levels, gains, np.full((len(lengths), max(lengths)), -np.inf), 0)
    for row in levels.tolist():
        expected = naive.best_completion(tuple(row), lengths, gain)
        # Gains are rounded up to single precision.
        assert expected - 1e-12 <= found[np.array(row) @ bound.stride] <= expected + 1e-4


@settings(deadline=None, max_examples=30)
@given(table=coarsened_tables())
def test_the_work_ahead_is_that_of_all_larger_sets(table) -> None:
    """Where no bound excludes anything, as without a score to reach."""
    growth = _Growth(make_score(table, "aic"), -np.inf, None)
    ranks = closed_levels([len(chain) for chain in table.chains], table.n_keys).sum(axis=1)
    for rank in range(1, ranks.max() + 1):
        levels, position = growth.candidates()
        per_set = growth.seconds_to_score(levels) / len(levels)
        assert len(levels) == (ranks == rank).sum()
        assert growth.seconds_ahead(levels) == pytest.approx(per_set * (ranks > rank).sum())
        growth.take(levels, position)


def test_a_search_that_cannot_end_in_time_is_given_up_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of the time that all sets take would be wasted on the smaller ones."""
    cells = np.unique(np.random.default_rng(3).integers(0, 2, (64, 8)), axis=0)
    table = ContingencyTable.from_counts(cells, np.ones(len(cells), dtype=np.int64), categories([2] * 8))
    score = make_score(table, "aic")
    assert admissible_sets(score).n_scored == 2**8
    of_all = _Growth(score, -np.inf, None).seconds_to_score(closed_levels([1] * 8, 8))
    scored: list[int] = []
    take = _Growth.take

    def counted(growth: _Growth, levels: np.ndarray, position: np.ndarray) -> None:
        scored.append(len(levels))
        take(growth, levels, position)

    monkeypatch.setattr(_Growth, "take", counted)
    with pytest.raises(TooManySets):
        admissible_sets(score, max_seconds=of_all / 3.0)
    assert sum(scored) < 2**8 / 8
