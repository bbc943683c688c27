"""The risk formulas against exact sums, extreme arguments and simulated populations."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rarecell.risk import formulas
from tests.naive import risk as naive


@given(st.integers(1, 99), st.integers(0, 60), st.integers(1, 40))
def test_multinomial_match_probability_equals_the_exact_sum(hundredths: int, n_unseen: int, count: int) -> None:
    probability = Fraction(hundredths, 100)
    expected = float(naive.match_probability_binomial(probability, n_unseen, count))
    found = float(formulas.match_probability(np.log(float(probability)), n_unseen, count))
    assert found == pytest.approx(expected, rel=1e-12)


@given(st.floats(-8, 4), st.floats(0, 6))
def test_poisson_match_probability_equals_the_sum(log_mean: float, log_count: float) -> None:
    mean, count = 10.0**log_mean, int(10.0**log_count)
    assert float(formulas.poisson_match_probability(mean, count)) == pytest.approx(
        naive.match_probability_poisson(mean, count), rel=1e-10
    )


@settings(max_examples=50)
@given(st.floats(-3, 3), st.floats(-1, 3), st.floats(0.01, 0.99), st.integers(1, 300))
def test_gamma_match_probability_equals_the_sum(log_mean: float, log_shape: float, fraction: float, count: int) -> None:
    mean, shape = 10.0**log_mean, 10.0**log_shape
    assert float(formulas.gamma_match_probability(mean, shape, fraction, count)) == pytest.approx(
        naive.match_probability_negative_binomial(mean, shape, fraction, count), rel=1e-9
    )


@settings(max_examples=50)
@given(st.floats(-3, 2), st.floats(-1, 3), st.integers(1, 300))
def test_predictive_form_equals_the_sum(log_mean: float, log_shape: float, count: int) -> None:
    mean, shape = 10.0**log_mean, 10.0**log_shape
    law = stats.nbinom(shape, shape / (shape + mean))
    k = np.arange(int(law.ppf(1 - 1e-13)) + 1)
    expected = float(np.sum(law.pmf(k) / (count + k)))
    assert float(formulas.negative_binomial_match_probability(mean, shape, count)) == pytest.approx(expected, rel=1e-9)


def test_predictive_form_without_uncertainty_is_poisson() -> None:
    mean = np.array([1e-9, 0.3, 20.0])
    for count in (1, 3):
        poisson = formulas.poisson_match_probability(mean, count)
        np.testing.assert_allclose(formulas.negative_binomial_match_probability(mean, np.inf, count), poisson)
        np.testing.assert_allclose(formulas.negative_binomial_match_probability(mean, 1e9, count), poisson, rtol=1e-6)


@pytest.mark.parametrize("shape", [1e3, 2e4, 1e6])
def test_predictive_form_is_not_yet_poisson_where_the_shape_is_large(shape: float) -> None:
    """The closed form for a unique, in logarithms of the shape: the Poisson form would be off by about a half of 1/shape."""
    mean = 3.0
    expected = -np.expm1(-(shape - 1.0) * np.log1p(mean / shape)) / (mean * (1.0 - 1.0 / shape))
    assert float(formulas.negative_binomial_match_probability(mean, shape)) == pytest.approx(expected, rel=1e-10)
    assert float(formulas.poisson_match_probability(mean)) != pytest.approx(expected, rel=0.01 / shape)


def test_forms_of_a_unique_are_those_of_the_literature() -> None:
    p, n_unseen, fraction, population = 3e-5, 90_000, 0.1, 100_000
    rate, shape = population * p, 1.7
    assert formulas.unique_probability(np.log(p), n_unseen) == pytest.approx((1 - p) ** n_unseen)
    assert formulas.match_probability(np.log(p), n_unseen) == pytest.approx(
        (1 - (1 - p) ** (n_unseen + 1)) / ((n_unseen + 1) * p)
    )
    unseen = (1 - fraction) * rate
    assert formulas.poisson_unique_probability(unseen) == pytest.approx(np.exp(-unseen))
    assert formulas.poisson_match_probability(unseen) == pytest.approx((1 - np.exp(-unseen)) / unseen)
    ratio = shape / rate
    assert formulas.gamma_unique_probability(rate, shape, fraction) == pytest.approx(
        ((ratio + fraction) / (ratio + 1)) ** (shape + 1)
    )


def test_poisson_recurrence_in_the_sample_count() -> None:
    # I_f = 1/μ − (f−1)/μ · I_{f−1} loses digits only for small μ, so a large one checks many counts at once.
    mean = 400.0
    values = formulas.poisson_match_probability(mean, np.arange(1, 200))
    count = np.arange(2, 200)
    np.testing.assert_allclose(values[1:], 1 / mean - (count - 1) / mean * values[:-1], rtol=1e-11)


@pytest.mark.parametrize("log10_probability", [-15, -12, -9, -6, -3, -1, 0])
@pytest.mark.parametrize("population", [10, 10**6, 10**10])
@pytest.mark.parametrize("count", [1, 2, 3, 1000, 5_000_000])
def test_multinomial_is_stable_at_the_extremes(log10_probability: int, population: int, count: int) -> None:
    log_p = log10_probability * np.log(10.0)
    unseen = float(population)
    match = float(formulas.match_probability(log_p, unseen, count))
    mean = unseen * 10.0**log10_probability
    # Jensen bounds E 1/(f+X) from below, the smallest X from above.
    assert 1 / (count + mean) * (1 - 1e-12) <= match <= 1 / count * (1 + 1e-12)
    # The second-order term of the expansion about the mean bounds the excess over Jensen's bound.
    variance = mean * (1 - 10.0**log10_probability)
    assert match <= 1 / (count + mean) + variance / (count * (count + mean) ** 2) + 1e-12 / count
    assert 0.0 <= float(formulas.unique_probability(log_p, unseen)) <= 1.0


def test_small_probabilities_keep_their_digits() -> None:
    assert float(formulas.unique_probability(np.log(1e-15), 1e10)) == pytest.approx(np.exp(-1e-5), rel=1e-14)
    assert 1 - float(formulas.match_probability(np.log(1e-15), 1e10)) == pytest.approx(5e-6, rel=1e-4)


def test_a_census_gives_one_over_the_count() -> None:
    count = np.array([1, 2, 7])
    log_p = np.log([0.2, 0.5, 1.0])
    np.testing.assert_array_equal(formulas.unique_probability(log_p, 0), 1.0)
    np.testing.assert_allclose(formulas.match_probability(log_p, 0, count), 1 / count, rtol=1e-13)
    np.testing.assert_allclose(formulas.poisson_match_probability(0.0, count), 1 / count, rtol=1e-13)
    np.testing.assert_allclose(formulas.gamma_match_probability(5.0, 2.0, 1.0, count), 1 / count, rtol=1e-13)
    np.testing.assert_array_equal(formulas.gamma_unique_probability(5.0, 2.0, 1.0), 1.0)


def test_an_impossible_cell_holds_only_its_sample() -> None:
    np.testing.assert_array_equal(formulas.unique_probability(-np.inf, 1000), 1.0)
    np.testing.assert_allclose(formulas.match_probability(-np.inf, 1000, [1, 4]), [1.0, 0.25])
    np.testing.assert_allclose(formulas.gamma_match_probability(0.0, 1.0, 0.1, [1, 4]), [1.0, 0.25])


def test_large_shape_is_poisson_and_small_probability_is_poisson() -> None:
    mean, fraction = np.array([0.01, 1.0, 30.0]), 0.05
    unseen = (1 - fraction) * mean
    for count in (1, 5):
        poisson = formulas.poisson_match_probability(unseen, count)
        np.testing.assert_allclose(formulas.gamma_match_probability(mean, 1e9, fraction, count), poisson, rtol=1e-6)
        np.testing.assert_allclose(formulas.match_probability(np.log(unseen / 1e9), 1e9, count), poisson, rtol=1e-6)
    np.testing.assert_allclose(formulas.gamma_unique_probability(mean, 1e9, fraction), np.exp(-unseen), rtol=1e-6)


def test_a_count_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        formulas.match_probability(np.log(0.1), 10, 0)


def test_formulas_against_simulated_populations() -> None:
    rng = np.random.default_rng(7)
    probability = rng.dirichlet(np.full(400, 0.3))
    population, n_records, repeats = 2000, 300, 400
    expected = np.zeros(3)
    observed = np.zeros(3)
    for _ in range(repeats):
        population_count, sample_count = naive.population_and_sample(probability, population, n_records, rng)
        unique, pair = sample_count == 1, sample_count == 2
        log_p = np.log(probability)
        unseen = population - n_records
        expected += (
            formulas.unique_probability(log_p[unique], unseen).sum(),
            formulas.match_probability(log_p[unique], unseen).sum(),
            formulas.match_probability(log_p[pair], unseen, 2).sum(),
        )
        observed += (
            (population_count[unique] == 1).sum(),
            (1 / population_count[unique]).sum(),
            (1 / population_count[pair]).sum(),
        )
    # τ1 of one population has a standard deviation of about its square root.
    np.testing.assert_allclose(observed, expected, rtol=4 / np.sqrt(observed[0]))
