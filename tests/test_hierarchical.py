"""Hierarchical models against dense fits, Poisson regression, closed forms and design matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell._kernels import fitting
from rarecell.errors import NotConverged, TooLarge, UnknownChoice
from rarecell.graph.chordal import ChordalGraph
from rarecell.model.decomposable import DecomposableModel
from rarecell.model.generating_class import degrees_of_freedom, generating_class, signed_sets, triangulation
from rarecell.model.hierarchical import HierarchicalModel
from rarecell.model.proportional_fitting import minimise, positive_cells
from tests.naive import hierarchical as naive
from tests.strategies import categories, coarsened_tables, tables
from tests.strategies_models import generating_classes


def crowded_table(levels: list[int], seed: int = 0, mean: float = 6.0) -> rc.ContingencyTable:
    """Poisson counts with every cell occupied, so that maximum likelihood has finite parameters."""
    rng = np.random.default_rng(seed)
    cells = np.array(list(np.ndindex(*levels)), dtype=np.int32)
    return rc.ContingencyTable.from_counts(cells, 1 + rng.poisson(rng.gamma(2.0, mean / 2, len(cells))), categories(levels))


@given(tables(max_keys=4, max_records=80), st.data())
@settings(max_examples=40, deadline=None)
def test_fit_equals_proportional_fitting_on_the_full_table(table: rc.ContingencyTable, data: st.DataObject) -> None:
    generators = data.draw(generating_classes(table))
    model = HierarchicalModel(table, generators, tolerance=1e-7, must_converge=False)
    expected = naive.fit(table, list(model.generator_masks))
    found = np.exp(model.log_cell_probability(naive.every_cell(table)))
    # A table whose fit lies on the boundary converges slowly in both programs.
    np.testing.assert_allclose(found, expected, atol=2e-4)
    assert model.convergence.deviation <= 1e-7 or model.convergence.cycles >= 10_000


@pytest.mark.parametrize(
    "generators",
    ["all two-way", "all three-way", [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")], [("a", "b", "c"), ("c", "d"), ("a", "d")]],
)
def test_fit_agrees_with_poisson_regression(generators: str | list[tuple[str, ...]]) -> None:
    statsmodels = pytest.importorskip("statsmodels.api")
    table = crowded_table([3, 2, 4, 2])
    model = HierarchicalModel(table, generators, tolerance=1e-10)
    labels = [naive.marginal_labels(table, mask) for mask in model.generator_masks]
    design = np.concatenate([(label[:, None] == np.arange(label.max() + 1)).astype(float) for label in labels], axis=1)
    basis = np.linalg.svd(design, full_matrices=False)
    independent = basis[0][:, basis[1] > 1e-9 * basis[1][0]]
    regression = statsmodels.GLM(naive.full_counts(table), independent, family=statsmodels.families.Poisson()).fit(
        tol=1e-14, maxiter=200
    )
    expected = regression.fittedvalues / table.n_records
    np.testing.assert_allclose(np.exp(model.log_cell_probability(naive.every_cell(table))), expected, atol=1e-8, rtol=1e-8)
    assert model.degrees_of_freedom == independent.shape[1] - 1
    assert model.deviance == pytest.approx(regression.deviance, abs=1e-6)


@given(coarsened_tables(max_records=40), st.data())
@settings(max_examples=40, deadline=None)
def test_fit_with_coarsenings_has_the_marginals_asked_for(table: rc.ContingencyTable, data: st.DataObject) -> None:
    model = HierarchicalModel(table, data.draw(generating_classes(table)), tolerance=1e-5, must_converge=False)
    expected = naive.full_counts(table)
    fitted = np.exp(model.log_cell_probability(naive.every_cell(table))) * table.n_records
    for mask in model.generator_masks:
        label = naive.marginal_labels(table, mask)
        difference = np.bincount(label, weights=fitted) - np.bincount(label, weights=expected)
        np.testing.assert_allclose(difference, 0, atol=1.1 * max(1e-5, model.convergence.deviation))


@given(coarsened_tables(max_records=30), st.data())
@settings(max_examples=60, deadline=None)
def test_cells_with_positive_marginals_are_listed_once(table: rc.ContingencyTable, data: st.DataObject) -> None:
    generators = generating_class(table, data.draw(generating_classes(table)))
    clique = table.close(data.draw(st.integers(1, 2**table.n_vertices - 1)))
    listed = positive_cells(table.marginals, clique, generators, most_cells=10_000).codes
    members = [v for v in range(table.n_vertices) if table.reduce(clique) >> v & 1]
    found = [tuple(int(table.map_cells(listed, v)[i]) for v in members) for i in range(len(listed))]
    cells = naive.every_cell(table)
    is_positive = np.ones(len(cells), dtype=bool)
    for generator in generators:
        is_positive &= table.marginals.lookup(generator & clique, cells) > 0
    expected = {tuple(int(table.map_cells(cells[[i]], v)[0]) for v in members) for i in np.flatnonzero(is_positive)}
    assert sorted(found) == sorted(expected)


@given(coarsened_tables(max_records=50), st.data())
@settings(max_examples=40, deadline=None)
def test_a_decomposable_class_has_its_closed_form(table: rc.ContingencyTable, data: st.DataObject) -> None:
    names = data.draw(generating_classes(table))
    graph: ChordalGraph = triangulation(table, generating_class(table, names))
    closed = DecomposableModel(table, graph=graph)
    model = HierarchicalModel(table, [table.names_of(mask) for mask in graph.clique_masks])
    assert set(model.generator_masks) == set(model.graph.clique_masks)
    assert model.convergence.cycles <= 2
    assert model.degrees_of_freedom == closed.degrees_of_freedom
    cells = naive.every_cell(table)
    np.testing.assert_allclose(model.log_cell_probability(cells), closed.log_cell_probability(cells), atol=1e-9)
    np.testing.assert_allclose(model.log_cell_probability(), closed.log_cell_probability(), atol=1e-9)
    for measure in ("log_likelihood_kernel", "log_likelihood", "aic", "bic", "deviance"):
        assert getattr(model, measure) == pytest.approx(getattr(closed, measure), abs=1e-7)


@given(coarsened_tables(max_records=5, max_levels=4), st.data())
@settings(max_examples=40, deadline=None)
def test_degrees_of_freedom_are_the_rank_of_the_design(table: rc.ContingencyTable, data: st.DataObject) -> None:
    masks = generating_class(table, data.draw(generating_classes(table)))
    assert degrees_of_freedom(table, masks) == naive.design_rank(table, list(masks)) - 1


def test_signed_sets_of_a_chordal_graph_are_cliques_and_separators() -> None:
    graph = ChordalGraph.from_clique_masks(6, [0b000111, 0b001110, 0b010010, 0b100000])
    expected = dict.fromkeys(graph.clique_masks, 1) | {mask: -times for mask, times in graph.separator_masks}
    assert signed_sets(graph.clique_masks) == expected


def test_a_sparse_table_converges_on_the_boundary() -> None:
    rng = np.random.default_rng(3)
    codes = rng.geometric(0.35, (300, 5)).clip(max=[12, 6, 5, 4, 3]) - 1
    table = rc.ContingencyTable.from_codes(codes.astype(np.int32), categories([12, 6, 5, 4, 3]))
    model = HierarchicalModel(table, "all two-way", tolerance=1e-4)
    assert model.convergence.has_converged
    assert "reached its tolerance" in str(model.convergence)
    rough = HierarchicalModel(table, "all two-way", tolerance=1e-4, max_cycles=3, must_converge=False)
    assert not rough.convergence.has_converged
    assert rough.log_likelihood_kernel < model.log_likelihood_kernel
    with pytest.raises(NotConverged, match="max_cycles"):
        HierarchicalModel(table, "all two-way", tolerance=1e-4, max_cycles=3)


def test_only_cells_with_positive_marginals_are_kept() -> None:
    rng = np.random.default_rng(5)
    levels = [40, 30, 20, 10, 5]
    centre = rng.random(500)
    codes = np.stack([np.clip(centre * n + rng.normal(0, 1, 500), 0, n - 1) for n in levels], axis=1).astype(np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories(levels))
    model = HierarchicalModel(table, "all two-way", tolerance=0.01)
    assert model.convergence.largest_clique < table.n_formal_cells / 100
    with pytest.raises(TooLarge, match="memory_limit"):
        HierarchicalModel(table, "all two-way", memory_limit=1000)


def test_a_long_cycle_of_many_keys_needs_no_large_table() -> None:
    rng = np.random.default_rng(6)
    names = [chr(ord("a") + k) for k in range(20)]
    codes = rng.integers(0, 6, (2000, 20)).astype(np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([6] * 20))
    ring = [(names[k], names[(k + 1) % 20]) for k in range(20)]
    model = HierarchicalModel(table, ring, tolerance=1e-6)
    assert model.convergence.largest_clique <= 6**3
    assert model.degrees_of_freedom == 20 * 5 + 20 * 25
    assert set(model.generator_masks) != set(model.graph.clique_masks)


def test_samples_follow_the_fitted_probabilities() -> None:
    table = crowded_table([3, 2, 2, 3])
    model = HierarchicalModel(table, [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")])
    drawn = model.sample(200_000, np.random.default_rng(1))
    cells = naive.every_cell(table)
    share = rc.ContingencyTable.from_codes(drawn, table.categories)
    assert share.n_cells == len(cells)
    probability = np.exp(model.log_cell_probability(cells))
    deviation = (share.counts / 200_000 - probability) / np.sqrt(probability / 200_000)
    assert np.abs(deviation).max() < 5


@given(coarsened_tables(max_records=30), st.data())
@settings(max_examples=20, deadline=None)
def test_samples_are_possible_cells(table: rc.ContingencyTable, data: st.DataObject) -> None:
    model = HierarchicalModel(table, data.draw(generating_classes(table)), must_converge=False)
    drawn = model.sample(50, np.random.default_rng(2))
    assert np.isfinite(model.log_cell_probability(drawn)).all()


def test_a_stored_model_is_fitted_again() -> None:
    table = crowded_table([3, 2, 4])
    model = HierarchicalModel(table, "all two-way")
    again = HierarchicalModel.from_dict(table, model.to_dict())
    assert again.generator_masks == model.generator_masks
    assert "3 generators" in model.describe() or "{a, b}, {a, c}, {b, c}" in model.describe()
    with pytest.raises(UnknownChoice, match="all two-way"):
        HierarchicalModel(table, "all four-way")


# ------------------------------------------------------------------ kernels


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_kernels_equal_their_slow_twins(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_cells, sizes = 9, (3, 4)
    low, high = np.array([0, 3]), np.array([3, 7])
    index = np.stack([rng.integers(0, size, n_cells) + start for size, start in zip(sizes, low, strict=True)]).astype(np.int32)
    fitted, target = rng.random(n_cells) + 0.1, rng.random(7) + 0.1
    slow, log_fast, log_slow = fitted.copy(), np.zeros(7), np.zeros(7)
    assert fitting.fit_margins(fitted, index, low, high, target, log_fast) == pytest.approx(
        naive.fit_margins(slow, index, low, high, target, log_slow)
    )
    np.testing.assert_allclose(fitted, slow)
    np.testing.assert_allclose(log_fast, log_slow)
    sums_fast, sums_slow = np.zeros(7), np.zeros(7)
    fitting.add_margins(fitted, index, sums_fast)
    naive.add_margins(fitted, index, sums_slow)
    np.testing.assert_allclose(sums_fast, sums_slow)
    assert fitting.load_factors(log_fast, index, fitted) == pytest.approx(naive.load_factors(log_fast, index, slow))
    np.testing.assert_allclose(fitted, slow)
    receiver, separator = rng.random(5), rng.random(3) + 0.1
    receiver_slow, separator_slow = receiver.copy(), separator.copy()
    to, back = rng.integers(0, 3, n_cells).astype(np.int32), rng.integers(0, 3, 5).astype(np.int32)
    fitting.pass_message(fitted, to, receiver, back, separator)
    naive.pass_message(slow, to, receiver_slow, back, separator_slow)
    np.testing.assert_allclose(receiver, receiver_slow)
    np.testing.assert_allclose(separator, separator_slow)


@pytest.mark.parametrize("n_steps", [0, 1, 3, 6])
def test_quasi_newton_direction_is_that_of_the_full_matrix(n_steps: int) -> None:
    rng = np.random.default_rng(n_steps)
    curvature = np.diag(rng.uniform(0.5, 4, 6))
    steps = rng.normal(size=(n_steps, 6))
    changes = steps @ curvature
    gradient = rng.normal(size=6)
    ring_steps, ring_changes = np.zeros((4, 6)), np.zeros((4, 6))
    for t in range(n_steps):
        ring_steps[t % 4], ring_changes[t % 4] = steps[t], changes[t]
    found = fitting.descent_direction(gradient, ring_steps, ring_changes, n_steps)
    np.testing.assert_allclose(found, naive.descent_direction(gradient, steps[-4:], changes[-4:]), atol=1e-9)


def test_quasi_newton_finds_the_minimum_of_a_quadratic() -> None:
    rng = np.random.default_rng(1)
    scale, centre = rng.uniform(0.1, 10, 30), rng.normal(size=30)
    found = minimise(
        lambda x: (float((scale * (x - centre) ** 2).sum() / 2), scale * (x - centre)),
        np.zeros(30),
        max_calls=200,
        is_done=lambda value, gradient: bool(np.abs(gradient).max() < 1e-9),
    )
    np.testing.assert_allclose(found.point, centre, atol=1e-7)
    assert found.calls < 100
