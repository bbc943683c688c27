"""Draws of models against the list of all chordal graphs."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell.errors import BadInput
from rarecell.graph.chordal import ChordalGraph
from rarecell.search.bounds import ScoredFamily, all_sets
from rarecell.search.sampling import _Sums, sample_models
from rarecell.search.score import make_score
from tests.naive import search as naive
from tests.naive.search import graph_score
from tests.strategies import coarsened_tables
from tests.test_search_exact import plain_family, random_scores
from tests.test_search_local import lumpy_table


def n_rooted_trees(graph: ChordalGraph) -> int:
    return graph.n_junction_trees * len(graph.clique_masks)


@pytest.mark.parametrize("n_vertices", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(3))
def test_total_counts_every_graph_once_for_each_rooted_junction_tree(n_vertices: int, seed: int) -> None:
    for max_clique in (n_vertices, 2):
        family = plain_family(n_vertices, max_clique)
        q = random_scores(family, seed)
        by_mask = dict(zip(family.masks.tolist(), q.tolist(), strict=True))
        expected = sum(
            math.exp(naive.score_of(graph, by_mask)) * n_rooted_trees(graph)
            for graph in naive.chordal_graphs(n_vertices)
            if max(clique.bit_count() for clique in graph.clique_masks) <= max_clique
        )
        assert _Sums(ScoredFamily(family, q, 0)).log_total == pytest.approx(math.log(expected))


@settings(max_examples=15, deadline=None)
@given(coarsened_tables(max_keys=3, max_records=30), st.sampled_from(["aic", "bayes"]))
def test_total_with_coarsenings_runs_over_closed_graphs(table, criterion) -> None:
    if table.n_vertices > 5:
        table = table.with_coarsenings(table.coarsenings[: 5 - table.n_keys])
    score = make_score(table, criterion)
    terms = [
        graph_score(score, graph) + math.log(n_rooted_trees(graph))
        for graph in naive.chordal_graphs(table.n_vertices)
        if all(table.close(clique) == clique for clique in graph.clique_masks)
        and all(graph.has_edge(u, v) for chain in table.chains for u, v in combinations(chain, 2))
    ]
    assert _Sums(all_sets(score)).log_total == pytest.approx(np.logaddexp.reduce(terms))


def test_weights_estimate_posterior_probabilities() -> None:
    table = lumpy_table(0, n_keys=4, n_records=60)
    score = make_score(table, "bayes")
    graphs = naive.chordal_graphs(4)
    log_weight = np.array([graph_score(score, graph) for graph in graphs])
    probability = np.exp(log_weight - np.logaddexp.reduce(log_weight))
    sample = sample_models(table, 4000, seed=1)
    estimate = {model.graph: weight for model, weight in zip(sample.models, sample.weights, strict=True)}
    for graph, expected in zip(graphs, probability, strict=True):
        # Five standard errors of a proportion, widened for the weights.
        assert estimate.get(graph, 0.0) == pytest.approx(expected, abs=8 * math.sqrt(expected / 4000) + 0.002)
    assert sample.weights.sum() == pytest.approx(1)
    assert (np.diff(sample.weights) <= 0).all()
    assert sample.times_drawn.sum() == sample.n_drawn == 4000
    assert "posterior probability" in str(sample)


def test_seed_decides_the_draws() -> None:
    table = lumpy_table(6, n_keys=5, n_records=80)
    one, other = (sample_models(table, 50, seed=4) for _ in range(2))
    assert [model.graph for model in one.models] == [model.graph for model in other.models]
    assert one.times_drawn.tolist() == other.times_drawn.tolist()
    with pytest.raises(BadInput, match="n_draws"):
        sample_models(table, 0)
