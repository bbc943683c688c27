"""Checks of fit: the statistics against their formulas and simulated counts, the verdict against known misfits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

import rarecell as rc
from rarecell.errors import KeyMismatch, PopulationTooSmall
from rarecell.model.average import AverageModel
from rarecell.model.protocol import LogMoments
from rarecell.risk import diagnostics
from rarecell.risk.records import record_risk
from rarecell.risk.reliability import reliability
from tests.naive import risk as naive
from tests.strategies import categories, tables
from tests.test_risk_records import KnownModel

SHAPE = (6, 7, 8)


def chain(seed: int, *, population: int = 12_000, n_records: int = 800) -> tuple[rc.ContingencyTable, np.ndarray, np.ndarray]:
    """A sample, its population counts by occupied cell, and the cell probabilities of a chain a – b – c."""
    rng = np.random.default_rng(seed)
    first = rng.dirichlet(np.ones(SHAPE[0]))
    second, third = rng.dirichlet(np.full(SHAPE[1], 0.5), SHAPE[0]), rng.dirichlet(np.full(SHAPE[2], 0.5), SHAPE[1])
    probability = first[:, None, None] * second[:, :, None] * third[None, :, :]
    population_count, sample_count = naive.population_and_sample(probability.ravel(), population, n_records, rng)
    occupied = np.flatnonzero(sample_count)
    cells = np.stack(np.unravel_index(occupied, SHAPE), axis=1)
    table = rc.ContingencyTable.from_counts(cells, sample_count[occupied], categories(list(SHAPE)))
    return table, population_count[occupied], probability


@settings(max_examples=15)
@given(tables(min_keys=2, max_keys=3, max_levels=4))
def test_statistics_equal_their_formulas(table: rc.ContingencyTable) -> None:
    population = 10 * table.n_records
    model = rc.DecomposableModel(table)
    found = diagnostics.fit_diagnostics(table, model, population=population)
    pi = 0.1
    b1 = v1 = b2 = 0.0
    sizes = np.zeros(4)
    for cell in product(*(range(c.n_levels) for c in table.categories)):
        row = np.array([cell], dtype=np.int32)
        rate = float(population * np.exp(model.log_cell_probability(row))[0])
        count = int(table.counts[(table.cells == row).all(axis=1)].sum())
        rest = count - pi * rate
        b1 += rate * np.exp(-rate) * (1 - pi) * (rest + (1 - pi) * (rest**2 - count) / (2 * pi))
        a, b = (1 - pi) * rate * np.exp(-rate), (1 - pi) ** 2 * rate * np.exp(-rate) / (2 * pi)
        v1 += a**2 * pi * rate + 2 * b**2 * (pi * rate) ** 2
        mu = (1 - pi) * rate
        slope = -integrate.quad(lambda t, mu=mu: t * np.exp(-mu * t), 0, 1)[0]
        bend = integrate.quad(lambda t, mu=mu: t * t * np.exp(-mu * t), 0, 1)[0]
        seen = pi * rate * np.exp(-pi * rate)
        b2 += seen * (-(1 - pi) * slope * rest / pi + (1 - pi) ** 2 * bend * (rest**2 - count) / (2 * pi**2))
        sizes += stats.poisson.pmf(np.arange(1, 5), pi * rate)
    assert found.is_exact
    assert found.unique_test.statistic == pytest.approx(b1, rel=1e-8, abs=1e-9)
    assert found.unique_test.variance == pytest.approx(v1, rel=1e-8, abs=1e-9)
    assert found.match_test.statistic == pytest.approx(b2, rel=1e-6, abs=1e-8)
    np.testing.assert_allclose([found.expected_sizes[j] for j in range(1, 5)], sizes, rtol=1e-8)
    assert found.observed_sizes[1] == table.size_indices.get(1, 0)


def test_statistics_are_standard_when_the_model_is_true() -> None:
    scores = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        probability = rng.dirichlet(np.full(int(np.prod(SHAPE)), 0.5))
        count = rng.poisson(400 * probability)
        occupied = np.flatnonzero(count)
        cells = np.stack(np.unravel_index(occupied, SHAPE), axis=1)
        table = rc.ContingencyTable.from_counts(cells, count[occupied], categories(list(SHAPE)))
        # The rate of the population must not depend on how many were drawn.
        known = KnownModel(table, probability.reshape(SHAPE) * 400 / table.n_records)
        found = diagnostics.fit_diagnostics(table, known, population=10 * table.n_records)
        scores.append((found.unique_test.z, found.match_test.z, found.uniques_z))
    np.testing.assert_allclose(np.mean(scores, axis=0), 0.0, atol=0.35)
    np.testing.assert_allclose(np.std(scores, axis=0), 1.0, atol=0.3)


def test_drawn_cells_agree_with_all_cells() -> None:
    table, _, _ = chain(1)
    model = AverageModel([rc.DecomposableModel(table, cliques=[("a", "b")]), rc.DecomposableModel(table)])
    exact = diagnostics.fit_diagnostics(table, model, population=12_000)
    drawn = diagnostics.fit_diagnostics(table, model, population=12_000, exact_up_to=1, n_draws=20_000)
    assert not drawn.is_exact
    assert drawn.n_draws == 20_000
    assert drawn.unique_test.sampling_error > 0
    assert abs(drawn.unique_test.statistic - exact.unique_test.statistic) < 4 * drawn.unique_test.sampling_error
    assert abs(drawn.match_test.statistic - exact.match_test.statistic) < 4 * drawn.match_test.sampling_error
    assert drawn.expected_sizes[1] == pytest.approx(exact.expected_sizes[1], rel=0.03)
    again = diagnostics.fit_diagnostics(table, model, population=12_000, exact_up_to=1, n_draws=20_000)
    assert again.unique_test == drawn.unique_test


def test_verdicts_on_known_misfits() -> None:
    said: dict[str, list[str]] = {"true": [], "independent": [], "saturated": []}
    for seed in range(6):
        table, _, _ = chain(seed)
        for name, cliques in (("true", [("a", "b"), ("b", "c")]), ("independent", []), ("saturated", [("a", "b", "c")])):
            model = rc.DecomposableModel(table, cliques=cliques)
            said[name].append(diagnostics.fit_diagnostics(table, model, population=12_000).verdict)
    assert sum("likely overstated" in verdict for verdict in said["independent"]) == 6
    assert sum("likely understated" in verdict for verdict in said["saturated"]) == 6
    assert sum("no sign" in verdict for verdict in said["true"]) >= 4


def test_the_verdict_is_right_on_the_saturated_model() -> None:
    table, population_count, _ = chain(0)
    risk = record_risk(table, rc.DecomposableModel(table, cliques=[("a", "b", "c")]), population=12_000)
    assert risk.expected_population_uniques < (population_count[table.counts == 1] == 1).sum()


def test_a_census_has_nothing_to_check() -> None:
    table, _, _ = chain(2)
    found = diagnostics.fit_diagnostics(table, rc.DecomposableModel(table), population=table.n_records)
    assert found.unique_test.statistic == 0.0
    assert found.unique_test.z == 0.0
    assert "whole population" in str(found)


def test_verdict_when_checks_disagree() -> None:
    found = diagnostics.FitDiagnostics(
        diagnostics.MinimumErrorTest(30.0, 25.0), diagnostics.MinimumErrorTest(0.0, 1.0), {1: 90}, {1: 50.0}, -5.0, True
    )
    assert "either way" in found.verdict
    assert "z = 6.00" in str(found.unique_test)


def test_parts_of_the_file_know_their_truth() -> None:
    table, _, _ = chain(4, n_records=3000)

    def saturated(part: rc.ContingencyTable) -> rc.DecomposableModel:
        return rc.DecomposableModel(part, cliques=[part.keys])

    found = diagnostics.subsample_check(table, saturated, fraction=0.2, n_parts=3)
    assert found is not None
    assert (found.n_records, found.n_parts) == (600, 3)
    # Of the uniques of a fifth, few are unique in the file; the saturated model gives each (1 − 1/600)^2400.
    assert found.z < -2
    assert found.observed > found.expected
    assert "drawn from the file" in str(found)
    tiny = rc.ContingencyTable.from_counts([[0, 0]], [3], categories([2, 2]))
    assert diagnostics.subsample_check(tiny, saturated) is None


def test_parts_keep_order_and_coarsenings() -> None:
    table, _, probability = chain(5, n_records=3000)
    halves = rc.Coarsening("c/2", "c", np.repeat([0, 1], 4).astype(np.int32), ("low", "high"))
    seen = []

    def known(part: rc.ContingencyTable) -> KnownModel:
        seen.append(part.vertex_names)
        assert part.n_records == 600
        return KnownModel(part, probability)

    scores = []
    for seed in range(20):
        found = diagnostics.subsample_check(table.with_coarsenings([halves]), known, seed=seed, fraction=0.2, n_parts=1)
        assert found is not None
        scores.append(found.z)
    assert seen[0] == ("a", "b", "c", "c/2")
    # The probabilities are those of the population the file was drawn from, not of the file; they fit all the same.
    assert abs(np.mean(scores)) < 2


def test_a_model_that_integrates_is_judged_by_parts_of_the_file() -> None:
    table, _, _ = chain(6)

    class Integrating(KnownModel):
        def posterior(self, cells: np.ndarray | None = None) -> LogMoments:
            n_cells = self.table.n_cells if cells is None else len(cells)
            return LogMoments(np.full(n_cells, np.log(1e-9)), np.full(n_cells, 0.1))

    def refit(part: rc.ContingencyTable) -> Integrating:
        return Integrating(part, np.full(SHAPE, 1 / np.prod(SHAPE)))

    unchecked = diagnostics.fit_diagnostics(table, refit(table), population=12_000)
    assert not unchecked.is_plugged_in
    assert "was not checked" in unchecked.verdict
    checked = diagnostics.fit_diagnostics(table, refit(table), population=12_000, refit=refit)
    assert checked.subsample is not None
    assert "likely overstated" in checked.verdict
    assert "Skinner" not in checked.verdict


def test_bad_input_is_refused() -> None:
    table, _, _ = chain(3)
    model = rc.DecomposableModel(table)
    with pytest.raises(PopulationTooSmall):
        diagnostics.fit_diagnostics(table, model, population=10)
    with pytest.raises(KeyMismatch):
        diagnostics.fit_diagnostics(table.project(["a"]), model, population=12_000)


@pytest.mark.parametrize("order", [1, 2])
def test_moments_of_the_exponential_equal_the_incomplete_gamma_function(order: int) -> None:
    rate = np.concatenate([[0.0, 1.0, np.nextafter(1.0, 0.0)], np.exp(np.linspace(-30.0, 8.0, 500))])
    safe = np.maximum(rate, 1e-5)
    wanted = special.gamma(order + 1.0) * special.gammainc(order + 1.0, safe) / safe ** (order + 1.0)
    found = diagnostics._moment(rate, order)
    np.testing.assert_allclose(found[rate >= 1e-5], wanted[rate >= 1e-5], rtol=1e-13)
    np.testing.assert_allclose(found[rate < 1e-5], 1.0 / (order + 1.0) - rate[rate < 1e-5] / (order + 2.0), rtol=1e-9)


@given(st.lists(st.integers(2, 40), min_size=2, max_size=60), st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_parts_have_no_record_in_common(counts: list[int], seed: int) -> None:
    table = rc.ContingencyTable.from_counts(
        np.arange(len(counts))[:, None], counts, [rc.Categories("a", tuple(range(len(counts))))]
    )
    drawn: Counter[object] = Counter()

    def refit(part: rc.ContingencyTable) -> rc.DecomposableModel:
        for cell, n in zip(part.cells[:, 0], part.counts, strict=True):
            drawn[part.categories[0].levels[cell]] += int(n)
        return rc.DecomposableModel(part, cliques=[("a",)])

    found = diagnostics.subsample_check(table, refit, fraction=0.05, seed=seed)
    assert found is not None
    assert drawn.total() == found.n_parts * found.n_records
    assert all(drawn[level] <= counts[level] for level in range(len(counts)))


def by_record(table: rc.ContingencyTable, n_records: int, n_parts: int, seed: int) -> list[tuple[float, int]]:
    """Expected and observed uniques of parts drawn record by record."""
    rng = np.random.default_rng(seed)
    left, found = table.counts.copy(), []
    for _ in range(n_parts):
        counts = rng.multivariate_hypergeometric(left, n_records, method="marginals")
        left -= counts
        part = rc.ContingencyTable.from_counts(table.cells, counts, table.categories)
        probability = rc.record_risk(part, rc.fit_backoff(part, n_orders=2), population=table.n_records).unique_probability
        found.append((float(probability.sum()), int(((counts == 1) & (table.counts == 1)).sum())))
    return found


def refit(part: rc.ContingencyTable, household: np.ndarray | None = None) -> rc.BackoffModel:
    return rc.fit_backoff(part, n_orders=2, household=household)


@pytest.mark.parametrize("household", ["unknown", "alone", "few together"])
def test_parts_are_drawn_by_record_where_households_were_not(household: str) -> None:
    table, _, _ = chain(7, n_records=2000)
    table = replace(table, record_cell=np.repeat(np.arange(table.n_cells), table.counts))
    numbers = np.arange(2000)
    if household == "few together":
        numbers[:900] //= 3
    found = diagnostics.subsample_check(table, refit, household=None if household == "unknown" else numbers, fraction=0.2, seed=3)
    assert found is not None
    parts = by_record(table, 400, 5, seed=3)
    assert (found.expected, found.observed) == tuple(np.mean(parts, axis=0))
    assert (found.n_records, found.n_parts) == (400, 5)


def households_with_postcodes(seed: int) -> tuple[rc.ContingencyTable, np.ndarray]:
    """A file of whole households, whose members share a postcode and an origin, and the household of each record."""
    rng = np.random.default_rng(seed)
    household = np.repeat(np.arange(2000), rng.integers(1, 6, 2000))
    share = (np.arange(400) + 2.7) ** -1.1
    postcode = rng.choice(400, 2000, p=share / share.sum())[household]
    origin = rng.choice(6, 2000, p=[0.5, 0.2, 0.1, 0.1, 0.06, 0.04])[household]
    n = len(household)
    codes = np.stack([postcode, rng.integers(0, 40, n), rng.integers(0, 2, n), origin], axis=1).astype(np.int32)
    return rc.ContingencyTable.from_codes(codes, categories([400, 40, 2, 6])), household


def test_parts_of_whole_households_are_compared_with_the_file() -> None:
    table, household = households_with_postcodes(2)
    people = table.cells[table.record_cell].tolist()
    in_file = Counter(map(tuple, people))
    levels = [categories.levels for categories in table.categories]
    parts = []

    def observing(part: rc.ContingencyTable, household: np.ndarray) -> rc.BackoffModel:
        own = [c.levels for c in part.categories]
        members = [
            tuple(levels[k].index(own[k][code]) for k, code in enumerate(cell)) for cell in part.cells[part.record_cell].tolist()
        ]
        model = refit(part, household)
        probability = rc.record_risk(part, model, population=table.n_records).unique_probability.sum()
        parts.append((members, household, probability))
        return model

    found = diagnostics.subsample_check(table, observing, household=household, fraction=0.1, n_parts=3, seed=1)
    assert found is not None
    assert found.n_parts == len(parts) == 3
    for members, of_part, _ in parts:
        is_theirs = np.isin(household, of_part)
        assert sorted(members) == sorted(tuple(person) for person, theirs in zip(people, is_theirs, strict=True) if theirs)
    assert found.n_records == round(np.mean([len(members) for members, _, _ in parts]))
    assert found.observed == np.mean([sum(in_file[person] == 1 for person in members) for members, _, _ in parts])
    assert found.expected == pytest.approx(np.mean([probability for _, _, probability in parts]))


def test_whole_households_show_what_single_records_hide() -> None:
    """A model that lets relatives vouch for each other understates the risk, and parts drawn record by record do not show it."""
    table, household = households_with_postcodes(3)

    def trusting(part: rc.ContingencyTable, household: np.ndarray | None = None) -> rc.BackoffModel:
        return rc.fit_backoff(part, n_orders=2)

    alone = diagnostics.subsample_check(table, trusting)
    together = diagnostics.subsample_check(table, trusting, household=household)
    mended = diagnostics.subsample_check(table, refit, household=household)
    assert alone is not None
    assert together is not None
    assert mended is not None
    assert together.log_ratio < alone.log_ratio - 0.1
    assert together.log_ratio < -diagnostics.NOTABLE_ERROR
    assert together.z < -4
    assert abs(mended.log_ratio) < abs(together.log_ratio)


def test_the_size_of_a_difference_counts_beside_its_significance() -> None:
    small = diagnostics.SubsampleCheck(expected=10_400.0, observed=10_000.0, deviation=50.0, n_records=20_000, n_parts=4)
    assert small.z == pytest.approx(16.0)
    assert (small.score, small.excess) == (0.0, 0.0)
    large = diagnostics.SubsampleCheck(expected=150.0, observed=100.0, deviation=8.0, n_records=500, n_parts=4)
    assert large.log_ratio == pytest.approx(np.log(601 / 401))
    assert large.score == large.z == pytest.approx(12.5)
    assert large.excess == pytest.approx(np.log(601 / 401) - 0.05 - 2 * 16 / 401)

    def fit(check: diagnostics.SubsampleCheck) -> diagnostics.FitDiagnostics:
        return diagnostics.FitDiagnostics(None, None, {}, {}, 0.0, False, 0, check, is_plugged_in=False)

    notable = diagnostics.SubsampleCheck(expected=115.0, observed=100.0, deviation=8.0, n_records=500, n_parts=16)
    judged = [(fit(check).is_suspicious, fit(check).is_refuted) for check in (small, notable, large)]
    assert judged == [(False, False), (True, False), (True, True)]


def test_copies_in_the_population_show_as_doubles_of_rare_records() -> None:
    rng = np.random.default_rng(3)
    levels = (40, 30, 20, 12)
    people = np.stack([rng.integers(0, n, 40_000) for n in levels], axis=1).astype(np.int32)
    copies = people.copy()
    copies[:12_000] = people[12_000:24_000]
    checks = []
    for population in (people, copies):
        sample = population[rng.choice(len(population), 8_000, replace=False)]
        table = rc.ContingencyTable.from_codes(
            sample, [rc.Categories(name, tuple(range(n))) for name, n in zip("abcd", levels, strict=True)]
        )
        model = rc.fit_backoff(table, n_orders=2)
        fit = diagnostics.fit_diagnostics(
            table, model, population=40_000, refit=lambda part: rc.fit_backoff(part, n_orders=2), seed=1
        )
        assert fit.repeats is not None
        checks.append((fit.repeats, reliability(rc.record_risk(table, model, population=40_000), fit, None)))
    (without, green), (repeats, red) = checks
    assert not without.is_suspicious
    assert green.light == "green"
    assert repeats.is_large
    # Six in ten have a double; what is said is a bound from below.
    assert 0.3 < repeats.per_record < 0.6
    assert red.light == "red"
    assert "overstated" in red.sentence
    assert "same people twice" in red.sentence


def test_doubles_of_rare_records_are_judged_by_number_and_by_share() -> None:
    many = diagnostics.Repeats(n_records=1_000, expected=30.0, observed=100.0, fraction=0.1)
    assert many.z == pytest.approx(70 / np.sqrt(31))
    assert many.per_record == pytest.approx((70 - 2 * np.sqrt(101)) / 100)
    assert many.is_suspicious
    assert not diagnostics.Repeats(1_000, 30.0, 45.0, 0.1).is_suspicious
    assert not diagnostics.Repeats(100_000, 3_000.0, 3_600.0, 0.1).is_suspicious, "significant, but too few to matter"
    twice = diagnostics.Repeats(1_000, 5.0, 60.0, 0.01)
    assert twice.per_record > 1.0
    assert "the risk is understated" in str(twice)
