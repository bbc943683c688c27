"""Held-out likelihood and stacking, against direct maximisation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import rarecell as rc
from rarecell.errors import BadInput
from rarecell.model.average import (
    HeldOutRecords,
    PosteriorAverage,
    SmoothedIndependence,
    held_out_records,
    split_records,
    stack,
    stacking_weights,
)
from rarecell.model.regularised import RegularisedModel
from tests.naive.hierarchical import every_cell
from tests.strategies import categories, coarsened_tables


def chain_table(n_records: int, seed: int = 0) -> rc.ContingencyTable:
    """a – b – c: neighbours related, a and c only through b."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 5, n_records)
    b = np.where(rng.random(n_records) < 0.7, a, rng.integers(0, 5, n_records))
    c = np.where(rng.random(n_records) < 0.7, b, rng.integers(0, 5, n_records))
    return rc.ContingencyTable.from_codes(np.stack([a, b, c], axis=1).astype(np.int32), categories([5, 5, 5]))


def saturated(part: rc.ContingencyTable) -> rc.DecomposableModel:
    return rc.DecomposableModel(part, cliques=[("a", "b", "c")])


def chain(part: rc.ContingencyTable) -> rc.DecomposableModel:
    return rc.DecomposableModel(part, cliques=[("a", "b"), ("b", "c")])


def independent(part: rc.ContingencyTable) -> rc.DecomposableModel:
    return rc.DecomposableModel(part)


@given(st.integers(0, 2**32 - 1), st.integers(2, 4))
@settings(max_examples=15, deadline=None)
def test_weights_maximise_the_likelihood(seed: int, n_models: int) -> None:
    rng = np.random.default_rng(seed)
    records = HeldOutRecords(rng.normal(-5, 1, (60, n_models)), rng.integers(1, 5, 60))

    def loss(free: np.ndarray) -> float:
        weights = np.exp(free - free.max())
        return -float(records.counts @ np.log(np.exp(records.log_probability) @ (weights / weights.sum())))

    best = min(minimize(loss, rng.normal(size=n_models), method="BFGS").fun for _ in range(3))
    weights = stacking_weights(records)
    assert weights.sum() == pytest.approx(1.0)
    assert (weights >= 0).all()
    found = -float(records.counts @ np.log(np.exp(records.log_probability) @ weights))
    assert found <= best + 1e-5 * records.counts.sum()


def test_the_true_structure_predicts_best() -> None:
    table = chain_table(600)
    records = held_out_records(table, [saturated, chain, independent, SmoothedIndependence], splits=4)
    weights = stacking_weights(records)
    assert weights.argmax() == 1
    impossible = records.counts @ np.isneginf(records.log_probability)
    assert impossible[0] > impossible[1] > 0 == impossible[3]
    each = np.log(np.exp(records.log_probability) @ weights)
    mean = np.average(each, weights=records.counts)
    error = np.sqrt(np.average((each - mean) ** 2, weights=records.counts) / table.n_records)
    truth = np.log(1 / 5) + 2 * (0.76 * np.log(0.76) + 0.24 * np.log(0.06))
    assert mean == pytest.approx(truth, abs=5 * error)


def test_a_stack_is_at_least_as_good_as_its_members_and_leaves_nothing_out() -> None:
    table = chain_table(300, seed=1)
    fits = [saturated, chain, independent]
    model = stack(table, fits, splits=3, seed=5)
    assert model.weights.sum() == pytest.approx(1.0)
    probability = np.exp(model.log_cell_probability(every_cell(table)))
    assert probability.min() > 0
    assert probability.sum() == pytest.approx(1.0)
    again = stack(table, fits, splits=3, seed=5)
    np.testing.assert_array_equal(again.weights, model.weights)
    fresh = chain_table(5_000, seed=2)
    of_stack = float(fresh.counts @ model.log_cell_probability(fresh.cells)) / 5_000
    best = max(
        float(fresh.counts @ np.log(0.98 * np.exp(f(table).log_cell_probability(fresh.cells)) + 0.02 / 125)) / 5_000 for f in fits
    )
    assert of_stack > best - 0.01


@given(coarsened_tables(max_records=60), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_a_split_divides_the_records(table: rc.ContingencyTable, seed: int) -> None:
    n_held_out = table.n_records // 3
    smaller, held_out = split_records(table, n_held_out, np.random.default_rng(seed))
    assert held_out.sum() == n_held_out
    assert smaller.n_records == table.n_records - n_held_out
    assert smaller.vertex_names == table.vertex_names
    everything = (1 << table.n_keys) - 1
    np.testing.assert_array_equal(smaller.marginals.lookup(everything, table.cells), table.counts - held_out)


def test_records_are_weighted_by_how_many_were_held_out() -> None:
    table = chain_table(200)
    records = held_out_records(table, [chain, SmoothedIndependence], splits=2, share=0.25, seed=3)
    assert records.counts.sum() == 2 * 50
    assert records.log_probability.shape[1] == 2
    assert np.isfinite(records.log_probability[:, 1]).all()


def test_smoothed_independence_is_a_distribution() -> None:
    table = chain_table(50)
    base = SmoothedIndependence(table)
    assert np.exp(base.log_cell_probability(every_cell(table))).sum() == pytest.approx(1.0)
    drawn = base.sample(4_000, np.random.default_rng(0))
    share = np.bincount(drawn[:, 1], minlength=5) / 4_000
    counts = np.bincount(table.cells[:, 1], weights=table.counts, minlength=5)
    np.testing.assert_allclose(share, (counts + 0.5) / 52.5, atol=0.03)
    assert base.generator_masks == (1, 2, 4)


def test_an_average_of_posteriors_is_wider_than_its_members() -> None:
    table = chain_table(300)
    members = [RegularisedModel(table), RegularisedModel(table.project(["a", "b", "c"]), most_cells=30)]
    average = PosteriorAverage(members, [2.0, 1.0])
    mean, variance, _ = average.posterior()
    parts = [member.posterior() for member in members]
    apart = parts[0][0] - parts[1][0]
    within = (2 * parts[0][1] + parts[1][1]) / 3
    np.testing.assert_allclose(variance, within + 2 / 9 * apart**2)
    # With no doubt about either member the mean would be the logarithm of the average probability.
    logs = (2 * members[0].log_cell_probability() + members[1].log_cell_probability()) / 3
    np.testing.assert_allclose(mean - (2 * parts[0][0] + parts[1][0]) / 3, average.log_cell_probability() - logs)
    drawn = average.draws(table.cells[:5], 400, np.random.default_rng(0))
    assert drawn.shape == (400, 5)
    np.testing.assert_allclose(drawn.mean(axis=0), mean[:5], atol=0.2)
    stacked = stack(table, [RegularisedModel, chain], splits=2)
    assert isinstance(stack(table, [RegularisedModel], splits=2, least_weight=0.4), PosteriorAverage)
    assert not isinstance(stacked, PosteriorAverage) or len(stacked.members) == 1


def test_bad_requests_are_told() -> None:
    table = chain_table(50)
    with pytest.raises(BadInput, match="at least one split"):
        held_out_records(table, [chain], splits=0)
    with pytest.raises(BadInput, match="on each side"):
        held_out_records(table, [chain], share=1.0)
    with pytest.raises(BadInput, match="at least one model"):
        stack(table, [])
    with pytest.raises(BadInput, match="every model"):
        stacking_weights(HeldOutRecords(np.array([[-np.inf, -np.inf]]), np.array([1])))
