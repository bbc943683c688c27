"""Smoothed mean weights: a constant where weights are noise, the levels where they follow a key, products where they were raked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.risk import cell_weights
from rarecell.risk.cell_weights import smoothed_weights
from rarecell.risk.design import sampling_design, with_smoothed_weights
from rarecell.risk.design_effect import design_effect
from rarecell.table.coarsening import automatic_coarsenings
from tests.naive import cell_weights as naive
from tests.reference import census_table
from tests.strategies import categories, coarsened_tables


def weighted(table: rc.ContingencyTable, weight: np.ndarray) -> rc.ContingencyTable:
    """The table with a weight for each record."""
    return replace(table, weights=np.bincount(table.record_cell, weights=weight, minlength=table.n_cells))


@pytest.fixture(scope="module")
def census() -> rc.ContingencyTable:
    table = census_table()
    return table.with_coarsenings(automatic_coarsenings(table))


def test_weights_that_are_noise_become_one_constant(census: rc.ContingencyTable) -> None:
    for seed in range(3):
        noise = np.exp(0.6 * np.random.default_rng(seed).standard_normal(census.n_records))
        found = smoothed_weights(weighted(census, 28 * noise))
        np.testing.assert_allclose(found, 28 * noise.mean(), rtol=1e-9)


def test_weights_that_follow_a_key_are_found_level_by_level(census: rc.ContingencyTable) -> None:
    rng = np.random.default_rng(0)
    of_level = 10 * np.exp(rng.standard_normal(census.categories[2].n_levels))
    age = census.cells[:, 2]
    found = smoothed_weights(weighted(census, of_level[age[census.record_cell]]))
    np.testing.assert_allclose(found, of_level[age], rtol=0.02)
    noise = np.exp(0.4 * rng.standard_normal(census.n_records) - 0.08)
    noisy = smoothed_weights(weighted(census, noise * of_level[age[census.record_cell]]))
    n_there = np.bincount(age, weights=census.counts)[age]
    error = np.abs(np.log(noisy / of_level[age]))
    assert np.average(error, weights=census.counts) < 0.06
    assert error[n_there > 100].max() < 0.25


def test_raked_weights_are_a_product() -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, [12, 9, 7], (4000, 3)).astype(np.int32)
    factors = [np.exp(0.5 * rng.standard_normal(n)) for n in (12, 9, 7)]
    table = rc.ContingencyTable.from_codes(codes, categories([12, 9, 7]))
    true = np.prod([factors[k][table.cells[:, k]] for k in range(3)], axis=0)
    record = true[table.record_cell] * np.exp(0.3 * rng.standard_normal(len(codes)) - 0.045)
    found = smoothed_weights(weighted(table, 20 * record)) / 20
    assert np.abs(np.log(found / true)).mean() < 0.1
    # One cell has some five records: without smoothing the error would be three times that of a single one over its root.
    assert (
        np.abs(np.log(found / true)).mean() < 0.75 * np.abs(np.log(weighted(table, record).weights / table.counts / true)).mean()
    )


@given(coarsened_tables(max_records=25), st.integers(0, 2**32))
@settings(max_examples=25)
def test_the_sum_is_kept_and_equal_weights_stay_equal(table: rc.ContingencyTable, seed: int) -> None:
    record = 1 + 50 * np.random.default_rng(seed).random(table.n_records)
    found = smoothed_weights(weighted(table, record))
    assert (found > 0).all()
    assert table.counts @ found == pytest.approx(record.sum())
    np.testing.assert_allclose(smoothed_weights(weighted(table, np.full(table.n_records, 7.5))), 7.5)


@given(coarsened_tables(max_records=25), st.integers(0, 2**32), st.sampled_from([0.25, 1.0, 8.0]))
@settings(max_examples=25)
def test_left_out_means_follow_the_definition(table: rc.ContingencyTable, seed: int, strength: float) -> None:
    rng = np.random.default_rng(seed)
    vertices = rng.permutation(table.n_vertices)[:2].tolist()
    ratio = np.exp(rng.standard_normal(table.n_cells))
    chain = tuple(cell_weights._Step(v, strength) for v in vertices)
    rows = cell_weights.CountedRows(table, table.cells, table.counts)
    for is_left_out in (False, True):
        found = cell_weights._followed(rows, table.counts.astype(float), ratio, chain, is_left_out=is_left_out)
        expected = [naive.factor(table, ratio, vertices, strength, cell, is_left_out) for cell in range(table.n_cells)]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_contexts_of_a_large_table_are_chosen_on_a_part(census: rc.ContingencyTable) -> None:
    of_sex = np.array([10.0, 40.0])[census.cells[:, 1]]
    found = smoothed_weights(weighted(census, of_sex[census.record_cell]), many_cells=500)
    np.testing.assert_allclose(found, of_sex, rtol=0.02)


def test_the_design_effect_holds_the_weights_against_equal_ones(census: rc.ContingencyTable) -> None:
    of_age = (np.arange(census.categories[2].n_levels) % 5 + 1.0)[census.cells[:, 2]]
    table = weighted(census, 10 * of_age[census.record_cell])
    model = rc.DecomposableModel(table, cliques=[("age", "sex"), ("relationship", "marital")])
    found = design_effect(rc.record_risk(table, model, sampling="weights"))
    assert found is not None
    population = table.weights.sum()
    assert found.with_equal_weights == pytest.approx(
        rc.record_risk(
            census, rc.DecomposableModel(census, cliques=model.cliques), population=population
        ).expected_population_uniques
    )
    record = of_age[census.unique_cells]
    assert found.spread == pytest.approx(1 + record.var() / record.mean() ** 2)
    everybody = of_age[census.record_cell]
    assert found.smoothed_spread == pytest.approx(1 + everybody.var() / everybody.mean() ** 2, rel=0.01)
    assert "make it" in str(found)
    assert not found.is_extreme
    noise = weighted(census, np.exp(1.5 * np.random.default_rng(0).standard_normal(census.n_records)))
    blurred = design_effect(rc.record_risk(noise, model, sampling="weights"))
    assert blurred is not None
    assert blurred.ratio == pytest.approx(1.0)
    assert blurred.is_extreme
    assert "independently of the keys" in str(blurred)
    assert design_effect(rc.record_risk(census, model, population=200_000)) is None


def test_weights_that_differ_from_cell_to_cell_are_told_from_noise() -> None:
    """Cells of a dense table with weights of their own: their means count, the noise of their records does not."""
    rng = np.random.default_rng(3)
    shape = (12, 10, 6)
    probability = rng.dirichlet(np.full(720, 0.25))
    codes = np.stack(np.unravel_index(rng.choice(720, 4_000, p=probability), shape), axis=1).astype(np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories(list(shape)))
    true = 10 * np.exp(0.6 * rng.standard_normal(table.n_cells))
    noise = np.exp(0.9 * rng.standard_normal(4_000) - 0.405)
    sample = weighted(table, true[table.record_cell] * noise)
    mean = sample.weights / table.counts
    smooth = np.average(mean, weights=table.counts)

    def error(weight: np.ndarray) -> float:
        return float(np.average(np.abs(np.log(weight / true)), weights=table.counts))

    found = smoothed_weights(sample)
    assert error(found) < 0.6 * error(np.full(table.n_cells, smooth))
    few = table.counts <= 2
    assert np.abs(np.log(found / true))[few].mean() < np.abs(np.log(mean / true))[few].mean()


def test_the_variance_between_cells_is_that_of_the_simulation() -> None:
    rng = np.random.default_rng(4)
    counts = rng.integers(1, 20, 30_000).astype(float)
    effect = 0.3 * rng.standard_normal(30_000)
    ratio = 1 + effect + 0.8 * rng.standard_normal(30_000) / np.sqrt(counts)
    wanted = 1 + counts * 0.09 / (counts * 0.09 + 0.64) * (ratio - 1)
    np.testing.assert_allclose(cell_weights.own_share(counts, ratio) - 1, wanted - 1, rtol=0.15)
    assert (cell_weights.own_share(counts, ratio - effect) == 1.0).all()
    assert (cell_weights.own_share(np.ones(50), np.linspace(0.5, 1.5, 50)) == 1.0).all()


@given(coarsened_tables(max_keys=3), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_weights_smoothed_once_serve_every_coarser_table(table: rc.ContingencyTable, seed: int) -> None:
    draw = np.random.default_rng(seed)
    table = replace(table, weights=table.counts * np.exp(draw.normal(2.0, 0.5, table.n_cells)))
    smooth = with_smoothed_weights(table)
    design = sampling_design(table, sampling="weights")
    np.testing.assert_allclose(sampling_design(smooth, sampling="smoothed").weight, design.weight, rtol=1e-12)
    for key in table.keys if table.n_keys > 1 else ():
        others = [other for other in table.keys if other != key]
        coarser = smooth.project(others)
        found = sampling_design(coarser, sampling="smoothed")
        # A record of a coarser cell stands for as many people as its records do on average.
        columns = [table.keys.index(other) for other in others]
        for cell, weight in zip(coarser.cells, found.weight, strict=True):
            inside = (table.cells[:, columns] == cell).all(axis=1)
            mean = np.average(smooth.weights[inside] / table.counts[inside], weights=table.counts[inside])
            assert weight == pytest.approx(max(mean, 1.0))
