"""Regularised models: marginals of products of tables, priors, and what sampling zeros become."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import rarecell as rc
from rarecell._kernels import walk as kernels
from rarecell.graph.chordal import ChordalGraph
from rarecell.model.factor_tree import FactorTree
from rarecell.model.regularised import RegularisedModel, _Fit, resolutions
from tests.naive import walk as naive
from tests.naive.hierarchical import every_cell, full_counts
from tests.strategies import categories
from tests.strategies_graph import chordal_graphs


@st.composite
def factor_trees(draw: st.DrawFn) -> FactorTree:
    """Tables on random subsets of the cliques of a random chordal graph."""
    graph: ChordalGraph = draw(chordal_graphs(max_vertices=5))
    levels = [draw(st.integers(1, 4)) for _ in range(graph.n_vertices)]
    scopes = []
    for clique in graph.clique_masks:
        for _ in range(draw(st.integers(0, 3))):
            mask = clique & draw(st.integers(0, 2**graph.n_vertices - 1))
            scopes.append(tuple(v for v in range(graph.n_vertices) if mask >> v & 1))
    return FactorTree(levels, scopes, graph)


@given(factor_trees(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_marginals_of_a_product_of_tables_equal_those_of_the_full_array(tree: FactorTree, seed: int) -> None:
    log_tables = np.random.default_rng(seed).normal(0, 2, int(tree.start[-1]))
    full = np.zeros(tree.levels)
    for scope, low, high in zip(tree.scopes, tree.start, tree.start[1:], strict=False):
        shape = [n if k in scope else 1 for k, n in enumerate(tree.levels)]
        full = full + log_tables[low:high].reshape(shape)
    log_sum, found = tree.marginals(log_tables)
    assert log_sum == pytest.approx(math.log(np.exp(full).sum()), abs=1e-9)
    share = np.exp(full - log_sum)
    for scope, low, high in zip(tree.scopes, tree.start, tree.start[1:], strict=False):
        others = tuple(k for k in range(len(tree.levels)) if k not in scope)
        np.testing.assert_allclose(found[low:high], share.sum(axis=others).reshape(-1), atol=1e-10)


@given(factor_trees(), st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_a_walk_equals_going_through_every_cell(tree: FactorTree, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for clique in tree.cliques:
        tables = rng.random(len(clique.source)) * (rng.random(len(clique.source)) < 0.8)
        for n_parts in (1, 2):
            for part in range(n_parts):
                expected = naive.walk(clique.layout, tables, part, n_parts)
                found = kernels.walk(clique.layout, tables, part, n_parts)
                assert found[0] == pytest.approx(expected[0], abs=1e-12)
                np.testing.assert_allclose(found[1], expected[1], atol=1e-12)


@given(factor_trees(), st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_draws_follow_the_product_of_tables(tree: FactorTree, seed: int) -> None:
    rng = np.random.default_rng(seed)
    log_tables = rng.normal(0, 1, int(tree.start[-1]))
    drawn = tree.sample(log_tables, 20_000, rng)
    _, marginals = tree.marginals(log_tables)
    for scope, low, high in zip(tree.scopes, tree.start, tree.start[1:], strict=False):
        place = np.zeros(len(drawn), dtype=np.int64)
        for k in scope:
            place = place * tree.levels[k] + drawn[:, k]
        share = np.bincount(place, minlength=high - low) / len(drawn)
        limit = 6 * np.sqrt(marginals[low:high] / len(drawn)) + 1e-3
        assert (np.abs(share - marginals[low:high]) < limit).all()


# ---------------------------------------------------------------------- the model


def related_table(n_records: int = 400, seed: int = 0) -> rc.ContingencyTable:
    """Two related keys with coarsenings, one key related to the first only, one to none."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 12, n_records)
    b = np.clip(a // 2 + rng.integers(-1, 2, n_records), 0, 5)
    c = (a // 4 + (rng.random(n_records) < 0.2)) % 3
    d = rng.integers(0, 4, n_records)
    table = rc.ContingencyTable.from_codes(np.stack([a, b, c, d], axis=1).astype(np.int32), categories([12, 6, 3, 4]))
    bands = rc.Coarsening("a/4", "a", (np.arange(12) // 3).astype(np.int32), tuple("wxyz"))
    return table.with_coarsenings([bands])


def test_every_cell_is_possible_and_all_sum_to_one() -> None:
    table = related_table(100)
    model = RegularisedModel(table)
    cells = every_cell(table)
    log_probability = model.log_cell_probability(cells)
    assert np.isfinite(log_probability).all()
    assert np.exp(log_probability).sum() == pytest.approx(1.0, abs=1e-9)
    assert (table.marginals.lookup(0b11, cells) == 0).any()
    assert model.left_out == ()
    position = {tuple(cell): p for cell, p in zip(cells.tolist(), log_probability, strict=True)}
    expected = [position[tuple(cell)] for cell in table.cells.tolist()]
    np.testing.assert_allclose(model.log_cell_probability(), expected, atol=1e-12)


def test_variances_tell_related_keys_from_unrelated_ones() -> None:
    model = RegularisedModel(related_table(2000))
    of = {term.vertices: term.variance for term in model.variances}
    assert max(of["a", "b"], of["a/4", "b"]) > 0.5
    assert max(variance for vertices, variance in of.items() if "d" in vertices) < 0.02
    # All two-way interactions would be 162 free parameters.
    assert 30 < model.effective_parameters < 140
    mean_log, variance_log, _ = model.posterior()
    np.testing.assert_array_equal(mean_log, model.log_cell_probability())
    cells = every_cell(model.table)
    never_seen = model.table.marginals.lookup(0b11, cells) == 0
    assert model.posterior(cells)[1][never_seen].min() > variance_log.mean() > 0
    assert "terms active" in model.describe()
    assert model.to_dict()["terms"][0]["vertices"]


def test_draws_have_the_moments_of_the_posterior() -> None:
    table = related_table(300)
    model = RegularisedModel(table)
    drawn = model.draws(table.cells[:20], 3_000, np.random.default_rng(0))
    mean, variance, _ = model.posterior(table.cells[:20])
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=5 * np.sqrt(variance.max() / 3_000))
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.2)


def test_the_mode_is_that_of_the_full_table() -> None:
    table = related_table(150)
    fit = _Fit(table.marginals, [vertices for pair in combinations(range(4), 2) for vertices in resolutions(table, pair)])
    fit.variances = np.full(len(fit.interactions.terms), 0.7)
    for _ in range(5):
        fit.climb(400, closeness=1e-9)
    terms, cells, total = fit.interactions, every_cell(table), table.n_records
    # Design matrix of all cells, one column a parameter.
    columns = [terms.log_weight(terms.log_tables(unit), cells) for unit in np.eye(terms.n_parameters)]
    design, counts, precision = np.stack(columns, axis=1), full_counts(table), fit.precisions()

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        weight = np.exp(design @ parameters)
        value = total * np.log(weight.sum()) - counts @ design @ parameters + 0.5 * precision @ parameters**2
        return value, design.T @ (total * weight / weight.sum() - counts) + precision * parameters

    best = minimize(
        loss, np.zeros(terms.n_parameters), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "gtol": 1e-7, "ftol": 0}
    )
    value, gradient = loss(fit.parameters)
    assert value == pytest.approx(best.fun, abs=1e-6)
    assert np.abs(gradient).max() < 1e-3
    expected = np.exp(design @ best.x) / np.exp(design @ best.x).sum()
    found = np.exp(design @ fit.parameters) / np.exp(design @ fit.parameters).sum()
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_a_large_table_is_fitted_with_its_strongest_pairs() -> None:
    table = related_table(2000)
    model = RegularisedModel(table, most_cells=150)
    assert ("a", "d") in model.left_out
    assert ("a", "b") not in model.left_out
    assert "left out" in model.describe()
    drawn = model.sample(5_000, np.random.default_rng(0))
    share = np.bincount(drawn[:, 0], minlength=12) / 5_000
    np.testing.assert_allclose(share, table.marginals.counts(1) / table.n_records, atol=0.03)
    assert np.exp(model.log_cell_probability(every_cell(table))).sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("n_keys", [1, 2])
def test_few_keys_and_levels_without_records(n_keys: int) -> None:
    codes = np.random.default_rng(0).integers(0, 2, (60, n_keys)).astype(np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([3, 4][:n_keys]))
    model = RegularisedModel(table)
    probability = np.exp(model.log_cell_probability(every_cell(table)))
    assert probability.sum() == pytest.approx(1.0)
    assert (probability > 0).all()
    np.testing.assert_allclose(probability.reshape(3, -1).sum(axis=1)[:2], table.marginals.counts(1) / 60, atol=0.05)
    plain = rc.HierarchicalModel(table, "all two-way").log_cell_probability()
    np.testing.assert_allclose(np.exp(plain), table.counts / 60)


def test_held_out_likelihood_beats_maximum_likelihood_in_a_sparse_table() -> None:
    train, test = related_table(150, seed=1), related_table(4000, seed=2)
    regularised = RegularisedModel(train).log_cell_probability(test.cells)
    plain = np.log(
        0.999 * np.exp(rc.HierarchicalModel(train, "all two-way").log_cell_probability(test.cells)) + 0.001 / train.n_formal_cells
    )
    assert test.counts @ regularised > test.counts @ plain + 100
