"""Risk of records: reference numbers, designs against simulated populations, and what a result can be asked."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell import datasets
from rarecell.errors import BadInput, KeyMismatch, PopulationTooSmall, UnknownChoice
from rarecell.model.protocol import PluggedIn
from rarecell.risk import formulas
from rarecell.risk.design import with_stratum_weights
from rarecell.risk.records import household_risk, overdispersion_shape, record_risk
from tests import reference
from tests.strategies import categories, tables


class KnownModel(PluggedIn):
    """A model that knows the probability of every cell."""

    def __init__(self, table: rc.ContingencyTable, probability: np.ndarray) -> None:
        self.table = table
        self.probability = probability
        self.generator_masks: tuple[int, ...] = ()

    def log_cell_probability(self, cells: np.ndarray | None = None) -> np.ndarray:
        where = self.table.cells if cells is None else cells
        return np.log(self.probability[tuple(where.T)])

    def sample(self, n_records: int, rng: np.random.Generator) -> np.ndarray:
        drawn = rng.choice(self.probability.size, n_records, p=self.probability.ravel())
        return np.stack(np.unravel_index(drawn, self.probability.shape), axis=1).astype(np.int32)

    def describe(self) -> str:
        return "known probabilities"


@pytest.fixture(scope="module")
def census() -> rc.ContingencyTable:
    return reference.census_table()


@pytest.fixture(scope="module")
def census_model(census: rc.ContingencyTable) -> rc.DecomposableModel:
    return rc.DecomposableModel(census, cliques=reference.cliques_by_number(census, "15 16 36 46 37 28 38"))


@pytest.fixture(scope="module")
def census_risk(census: rc.ContingencyTable, census_model: rc.DecomposableModel) -> rc.risk.records.RecordRisk:
    return record_risk(census, census_model, population=datasets.CENSUS_POPULATION)


# ---------------------------------------------------------------------- reference numbers


def test_census_reference_numbers(census_risk: rc.risk.records.RecordRisk) -> None:
    assert census_risk.n_sample_uniques == 1674
    assert census_risk.expected_population_uniques == pytest.approx(265.787, abs=6e-4)
    assert census_risk.decades() == {-3: 3, -4: 231, -5: 854, -6: 471, -7: 98, -8: 16, -9: 1}
    assert "265.8 of them are expected" in str(census_risk)


def test_adult_reference_numbers() -> None:
    table = reference.adult_table()
    model = rc.DecomposableModel(table, cliques=reference.cliques_by_number(table, "14 25 35 46 67 568 79"))
    risk = record_risk(table, model, population=reference.adult_population().num_rows)
    assert risk.n_sample_uniques == 3834
    assert risk.expected_population_uniques == pytest.approx(2511.961, abs=6e-4)
    assert risk.decades() == {-4: 267, -5: 1237, -6: 1146, -7: 658, -8: 331, -9: 126, -10: 52, -11: 17}


def test_every_record_has_a_match_probability(census: rc.ContingencyTable, census_risk: rc.risk.records.RecordRisk) -> None:
    match = census_risk.match_probability
    assert (match > 0).all()
    assert (match <= 1 / census.counts + 1e-12).all()
    assert (census_risk.unique_probability[census.counts > 1] == 0).all()
    unique = census.counts == 1
    assert (match[unique] >= census_risk.unique_probability[unique]).all()


def test_forms_agree_when_cells_are_rare(census: rc.ContingencyTable, census_model: rc.DecomposableModel) -> None:
    poisson = record_risk(census, census_model, population=277_677, form="poisson")
    assert poisson.expected_population_uniques == pytest.approx(265.787, abs=0.01)
    stiff = record_risk(census, census_model, population=277_677, form="poisson-gamma", shape=1e8)
    assert stiff.expected_population_uniques == pytest.approx(265.787, abs=0.01)
    loose = record_risk(census, census_model, population=277_677, form="poisson-gamma")
    assert loose.shape is not None
    assert 0 < loose.shape < np.inf


def test_a_census_gives_certainty(census: rc.ContingencyTable, census_model: rc.DecomposableModel) -> None:
    for form in ("multinomial", "poisson", "poisson-gamma"):
        risk = record_risk(census, census_model, population=census.n_records, form=form, shape=2.0)
        assert risk.expected_population_uniques == pytest.approx(1674)
        np.testing.assert_allclose(risk.match_probability, 1 / census.counts, rtol=1e-12)


# ---------------------------------------------------------------------- asking a result


def test_riskiest_is_sorted_with_ties_by_record(census: rc.ContingencyTable, census_risk: rc.risk.records.RecordRisk) -> None:
    records = census_risk.riskiest(100)
    per_record = census_risk.per_record()
    probability = per_record["unique_probability"][records]
    assert (np.diff(probability) <= 0).all()
    assert (np.diff(records)[np.diff(probability) == 0] > 0).all()
    assert (per_record["cell_count"][records] == 1).all()
    rest = np.setdiff1d(np.flatnonzero(per_record["cell_count"] == 1), records)
    assert per_record["unique_probability"][rest].max() <= probability.min()
    assert len(census_risk.riskiest(10**6)) == 1674
    assert len(census_risk.riskiest(0)) == 0


def test_thresholds(census_risk: rc.risk.records.RecordRisk) -> None:
    per_record = census_risk.per_record()
    expected = np.flatnonzero((per_record["cell_count"] == 1) & (per_record["unique_probability"] > 0.5))
    np.testing.assert_array_equal(census_risk.above(0.5), expected)
    assert len(census_risk.above(0.0)) == 1674
    rare = census_risk.cell_probability_below(1e-6)
    assert len(rare) == 98 + 16 + 1
    assert (np.diff(rare) > 0).all()


@pytest.mark.parametrize("like", [None, pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]}), pa.table({"a": [1]})])
def test_to_frame_speaks_the_library_of_its_model(census_risk: rc.risk.records.RecordRisk, like: object) -> None:
    frame = census_risk.to_frame(like)
    assert isinstance(frame, pa.Table if like is None else type(like))
    names = ["record", "cell_count", "cell_probability", "unique_probability", "match_probability"]
    assert list(frame.column_names if isinstance(frame, pa.Table) else frame.columns) == names
    assert len(frame) == 9809
    assert np.asarray(frame["record"])[-1] == 9808
    assert np.asarray(frame["unique_probability"]).sum() == pytest.approx(265.787, abs=6e-4)


def test_dropped_records_have_no_risk() -> None:
    codes = np.array([[0, 0], [-1, 0], [1, 1], [0, 0]], dtype=np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([2, 2]))
    risk = record_risk(table, rc.DecomposableModel(table), population=100)
    per_record = risk.per_record()
    np.testing.assert_array_equal(per_record["cell_count"], [2, 0, 1, 2])
    assert np.isnan(per_record["unique_probability"][1])
    np.testing.assert_array_equal(risk.riskiest(5), [2])
    np.testing.assert_array_equal(risk.above(0.0), [2])


def test_a_table_of_counts_numbers_its_records_by_cells() -> None:
    table = rc.ContingencyTable.from_counts([[0, 0], [0, 1], [1, 0]], [4, 1, 1], categories([2, 2]))
    risk = record_risk(table, rc.DecomposableModel(table), population=20)
    assert risk.riskiest(5).tolist() == [4, 5]
    assert table.cell_of(risk.riskiest(5)).tolist() == [1, 2]
    assert len(risk.per_record()["cell_count"]) == 3


def test_decades_put_powers_of_ten_where_they_belong() -> None:
    table = rc.ContingencyTable.from_counts([[0, 0], [0, 1], [1, 0], [1, 1]], [1, 1, 1, 1], categories([2, 2]))
    known = KnownModel(table, np.array([[1e-3, 9.99e-4], [1e-6, 0.0]]))
    with np.errstate(divide="ignore"):
        risk = record_risk(table, known, population=20)
    assert risk.decades() == {-3: 1, -4: 1, -6: 1}
    assert risk.unique_probability[3] == 1.0


# ---------------------------------------------------------------------- designs


@settings(max_examples=25, deadline=None)
@given(tables(min_keys=2, max_keys=3), st.integers(0, 500), st.floats(1.0, 40.0))
def test_equal_weights_are_simple_random_sampling(table: rc.ContingencyTable, extra: int, weight: float) -> None:
    codes = table.cells[table.record_cell]
    heavy = rc.ContingencyTable.from_codes(codes, table.categories, weights=np.full(len(codes), weight))
    plain = record_risk(table, rc.DecomposableModel(table), population=weight * table.n_records)
    model = rc.DecomposableModel(heavy)
    by_weight = record_risk(heavy, model, sampling="weights")
    assert by_weight.population == pytest.approx(plain.population)
    np.testing.assert_allclose(by_weight.unique_probability, plain.unique_probability, rtol=1e-9)
    np.testing.assert_allclose(by_weight.match_probability, plain.match_probability, rtol=1e-9)
    # Weights normalised to another sum say the same once N is given.
    rescaled = record_risk(heavy, model, sampling="weights", population=table.n_records + extra)
    srs = record_risk(table, rc.DecomposableModel(table), population=table.n_records + extra)
    np.testing.assert_allclose(rescaled.unique_probability, srs.unique_probability, rtol=1e-9, atol=1e-14)


def stratified_samples(
    seed: int, n_samples: int, shares: tuple[np.ndarray, ...] | None = None
) -> list[tuple[np.ndarray, rc.ContingencyTable]]:
    """Population counts by stratum and cell, and a sample with unequal fractions, as records (stratum, a, b)."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n_samples):
        population = np.stack(
            [rng.multinomial(size, p.ravel()).reshape(p.shape) for size, p in zip(SIZES, shares or SHARES, strict=True)]
        )
        drawn = [rng.multivariate_hypergeometric(population[h].ravel(), SAMPLED[h], method="marginals") for h in range(2)]
        counts = np.stack([d.reshape(SHARES[0].shape) for d in drawn])
        cells = np.repeat(np.argwhere(counts), counts[counts > 0], axis=0).astype(np.int32)
        found.append((population, rc.ContingencyTable.from_codes(cells, categories(list(counts.shape)))))
    return found


_SHARE_RNG = np.random.default_rng(11)
SIZES = (4000, 1500)
SAMPLED = (100, 300)
SHARES = tuple(_SHARE_RNG.dirichlet(np.full(12 * 15, 0.4)).reshape(12, 15) for _ in range(2))


def test_strata_that_are_a_key_against_simulation() -> None:
    estimate, truth = np.zeros(2), np.zeros(2)
    in_sample = np.stack([SHARES[h] * SAMPLED[h] / sum(SAMPLED) for h in range(2)])
    for population, table in stratified_samples(1, 150):
        risk = record_risk(table, KnownModel(table, in_sample), population={0: SIZES[0], 1: SIZES[1]}, strata="a")
        population_count = population[tuple(table.cells.T)]
        unique = table.counts == 1
        estimate += risk.expected_population_uniques, risk.expected_correct_matches
        truth += (population_count[unique] == 1).sum(), (1 / population_count[unique]).sum()
        h = table.cells[:, 0]
        np.testing.assert_allclose(risk.inclusion, np.array(SAMPLED)[h] / np.array(SIZES)[h])
        log_p = np.log(SHARES[0][tuple(table.cells[h == 0].T[1:])])
        expected = formulas.unique_probability(log_p, SIZES[0] - SAMPLED[0]) * (table.counts[h == 0] == 1)
        np.testing.assert_allclose(risk.unique_probability[h == 0], expected, rtol=1e-9)
    np.testing.assert_allclose(estimate, truth, rtol=4 / np.sqrt(truth[0]))


def test_strata_that_are_no_key_against_simulation() -> None:
    estimate = truth = 0.0
    rng = np.random.default_rng(5)
    within = rng.dirichlet(np.full(15, 0.4), 12)
    # The strata differ in the first key; given that, they are alike.
    shares = tuple(rng.dirichlet(np.full(12, 1.0))[:, None] * within for _ in range(2))
    in_sample = sum(SAMPLED[h] * shares[h] for h in range(2)) / sum(SAMPLED)
    for population, full in stratified_samples(2, 150, shares):
        assert full.record_cell is not None
        stratum = full.cells[full.record_cell, 0]
        table = full.project(["b", "c"])
        model = KnownModel(table, in_sample)
        risk = record_risk(table, model, population={0: SIZES[0], 1: SIZES[1]}, strata=stratum)
        population_count = population.sum(axis=0)[tuple(table.cells.T)]
        estimate += risk.expected_population_uniques
        truth += (population_count[table.counts == 1] == 1).sum()
        assert risk.population == sum(SIZES)
    # With 400 records the mean weight of a level is known roughly.
    assert estimate == pytest.approx(truth, rel=0.25)


def test_stratum_weights_add_up_to_the_populations() -> None:
    _, full = stratified_samples(3, 1)[0]
    assert full.record_cell is not None
    weighted = with_stratum_weights(full, full.cells[full.record_cell, 0], {0: SIZES[0], 1: SIZES[1]})
    assert weighted.weights is not None
    by_stratum = np.bincount(weighted.cells[:, 0], weights=weighted.weights)
    np.testing.assert_allclose(by_stratum, SIZES)


def test_weights_below_one_are_noted_and_give_no_risk_above_one() -> None:
    codes = np.array([[0, 0], [0, 1], [1, 1]], dtype=np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([2, 2]), weights=np.array([0.25, 40.0, 9.0]))
    risk = record_risk(table, rc.DecomposableModel(table), sampling="weights")
    assert (risk.match_probability <= 1.0).all()
    assert "In 1 cell the records have a mean weight below 1" in risk.notes[0]
    assert (risk.design.weight >= 1.0).all()


def test_bad_designs_are_refused(census: rc.ContingencyTable, census_model: rc.DecomposableModel) -> None:
    def refused(error: type[Exception], words: str, **options: object) -> None:
        with pytest.raises(error, match=words):
            record_risk(census, census_model, **options)  # type: ignore[arg-type]

    refused(PopulationTooSmall, "9,809", population=9808)
    refused(BadInput, "population size is missing")
    refused(BadInput, "no weights", sampling="weights")
    refused(UnknownChoice, "sampling", population=10**5, sampling="clusters")
    refused(UnknownChoice, "form", population=10**5, form="normal")
    refused(BadInput, "above 0", population=10**5, form="poisson-gamma", shape=0.0)
    refused(BadInput, "no strata", population={0: 10**5})
    refused(BadInput, "each stratum", population=10**5, strata="sex")
    refused(BadInput, "not a key", population={0: 10**5, 1: 10**5}, strata="region")
    refused(BadInput, "stratum '1'", population={0: 10**5}, strata="sex")
    refused(PopulationTooSmall, "stratum '1'", population={0: 10**5, 1: 10}, strata="sex")
    refused(BadInput, "3 strata", population={0: 10**5}, strata=[0, 0, 0])
    refused(BadInput, "give one of them", population={0: 10**5}, strata="sex", sampling="weights")
    other = rc.ContingencyTable.from_counts([[0, 0]], [3], categories([2, 2]))
    with pytest.raises(KeyMismatch):
        record_risk(other, census_model, population=100)


# ---------------------------------------------------------------------- overdispersion and households


def test_the_shape_of_overdispersion_is_found() -> None:
    rng = np.random.default_rng(4)
    n_cells, shape = 30_000, 1.5
    mean = rng.exponential(0.5, n_cells)
    count = rng.poisson(mean * rng.gamma(shape, 1 / shape, n_cells))
    occupied = np.flatnonzero(count)
    table = rc.ContingencyTable.from_counts(occupied[:, None], count[occupied], [rc.Categories("a", tuple(range(n_cells)))])
    log_p = np.log(mean[occupied] / table.n_records)
    assert overdispersion_shape(table, log_p) == pytest.approx(shape, rel=0.15)
    plain = rng.poisson(mean)
    occupied = np.flatnonzero(plain)
    table = rc.ContingencyTable.from_counts(occupied[:, None], plain[occupied], [rc.Categories("a", tuple(range(n_cells)))])
    assert overdispersion_shape(table, np.log(mean[occupied] / table.n_records)) > 30


def test_gamma_form_against_simulation() -> None:
    rng = np.random.default_rng(6)
    shape, fraction, mean = 0.8, 0.1, rng.exponential(4.0, 200_000)
    rate = mean * rng.gamma(shape, 1 / shape, len(mean))
    sampled, unseen = rng.poisson(fraction * rate), rng.poisson((1 - fraction) * rate)
    for count in (1, 2, 4):
        chosen = sampled == count
        expected = formulas.gamma_match_probability(mean[chosen], shape, fraction, count)
        assert expected.mean() == pytest.approx((1 / (count + unseen[chosen])).mean(), rel=0.02)
    unique = sampled == 1
    expected = formulas.gamma_unique_probability(mean[unique], shape, fraction)
    assert expected.mean() == pytest.approx((unseen[unique] == 0).mean(), rel=0.03)


def test_household_risk_by_hand() -> None:
    risk = household_risk([0.5, 0.5, 0.2, np.nan, 1.0, 0.3, 0.1], [7, 7, 8, 8, 9, 9, 10])
    np.testing.assert_allclose(risk, [0.75, 0.75, 0.2, 0.2, 1.0, 1.0, 0.1])


def test_records_without_a_household_are_alone() -> None:
    np.testing.assert_allclose(household_risk([0.5, 0.5, 0.5], [None, None, "x"]), 0.5)
    np.testing.assert_allclose(household_risk([0.5, 0.5, 0.4], [np.nan, np.nan, 3.0]), [0.5, 0.5, 0.4])
    np.testing.assert_allclose(household_risk([0.5, 0.5, 0.4], ["x", "x", "y"]), [0.75, 0.75, 0.4])
    assert household_risk([], []).size == 0
    with pytest.raises(BadInput, match="each record needs one"):
        household_risk([0.1, 0.2], [1])


def test_household_risk_keeps_tiny_probabilities() -> None:
    assert household_risk([1e-18, 1e-18], [1, 1])[0] == pytest.approx(2e-18, rel=1e-12)
