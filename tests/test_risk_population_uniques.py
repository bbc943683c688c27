"""Estimators from size indices against published and independently computed numbers, and against simulation."""

from __future__ import annotations

import numpy as np
import pytest

import rarecell as rc
from rarecell.errors import BadInput, PopulationTooSmall
from rarecell.risk import population_uniques
from rarecell.risk import population_uniques as uniques

# Table of size indices of Takemura and Endo (2006); the 124 cells of 11 or more records are known in number only.
PAPER = uniques.SizeIndices.of(
    dict(zip(range(1, 11), (2243, 524, 275, 132, 104, 60, 59, 34, 46, 19), strict=True)), n_records=9809, n_cells=3620
)
PAPER_POPULATION = 4_867_000

ADULT = {1: 3834, 2: 294, 3: 82, 4: 25, 5: 10, 6: 11}
CENSUS_SIZES = (*range(1, 27), 28, 29, 30, 31, 32, 34, *range(35, 46), 47, 48, 49, 52)
CENSUS_NUMBERS = (
    *(1674, 437, 208, 101, 77, 49, 40, 30, 28, 23, 14, 27, 12, 12, 18, 16, 10, 11, 8, 11, 3, 5, 5, 5, 4, 2, 2, 1, 1, 1, 1, 2),
    *(5, 3, 4, 3, 3, 1, 5, 3, 2, 4, 2, 1, 2, 2, 1),
)
CENSUS = dict(zip(CENSUS_SIZES, CENSUS_NUMBERS, strict=True))


def test_size_indices_here_are_those_of_the_shipped_sample() -> None:
    assert sum(size * number for size, number in CENSUS.items()) == 9809
    assert sum(CENSUS.values()) == 2879
    assert sum(size * number for size, number in ADULT.items()) == 4884


def test_ewens_moment_reproduces_the_paper() -> None:
    found = uniques.ewens_moment(PAPER, population=PAPER_POPULATION)
    assert found.parameters["theta"] == pytest.approx(2907.66, abs=0.01)
    assert found.expected_population_uniques == pytest.approx(5.857, abs=0.001)


def test_ewens_maximum_likelihood_differs_from_the_paper() -> None:
    assert uniques.ewens(PAPER, population=PAPER_POPULATION).expected_population_uniques == pytest.approx(5.47, abs=0.01)


def test_pitman_ratio_is_near_the_value_of_the_paper() -> None:
    found = uniques.pitman_ratio(PAPER, population=PAPER_POPULATION)
    assert found.expected_population_uniques == pytest.approx(213.7, abs=0.05)
    assert found.parameters["alpha"] == pytest.approx(2243 / 3620)


def test_pitman_needs_every_cell_size() -> None:
    found = uniques.pitman(PAPER, population=PAPER_POPULATION)
    assert found.expected_population_uniques is None
    assert not found.converged
    assert "number only" in str(found)


@pytest.mark.parametrize(
    ("sizes", "population", "ewens", "moment", "pitman", "alpha", "theta"),
    [
        (CENSUS, 277_677, 67.069, 70.781, 312.59, 0.4935, 309.49),
        (ADULT, 48_842, 1226.929, 1306.137, 2373.42, 0.7440, 3097.34),
    ],
)
def test_reference_numbers(
    sizes: dict[int, int], population: int, ewens: float, moment: float, pitman: float, alpha: float, theta: float
) -> None:
    assert uniques.ewens(sizes, population=population).expected_population_uniques == pytest.approx(ewens, abs=6e-4)
    assert uniques.ewens_moment(sizes, population=population).expected_population_uniques == pytest.approx(moment, abs=6e-4)
    found = uniques.pitman(sizes, population=population)
    assert found.expected_population_uniques == pytest.approx(pitman, abs=6e-3)
    assert found.parameters["alpha"] == pytest.approx(alpha, abs=6e-5)
    assert found.parameters["theta"] == pytest.approx(theta, abs=6e-3)


def pitman_log_likelihood(sizes: dict[int, int], alpha: float, theta: float) -> float:
    from scipy.special import gammaln

    n, u = sum(j * s for j, s in sizes.items()), sum(sizes.values())
    j, s = np.array(list(sizes)), np.array(list(sizes.values()))
    return float(
        np.log(theta + alpha * np.arange(1, u)).sum()
        - (gammaln(theta + n) - gammaln(theta + 1))
        + s @ (gammaln(j - alpha) - gammaln(1 - alpha))
    )


@pytest.mark.parametrize("sizes", [CENSUS, ADULT, {1: 5, 2: 3, 9: 1}])
def test_pitman_is_at_a_maximum_of_its_likelihood(sizes: dict[int, int]) -> None:
    found = uniques.pitman(sizes, population=10**6)
    alpha, theta = found.parameters["alpha"], found.parameters["theta"]
    best = pitman_log_likelihood(sizes, alpha, theta)
    for other_alpha in (alpha - 1e-3, alpha, alpha + 1e-3):
        for other_theta in (theta * 0.999, theta, theta * 1.001):
            assert pitman_log_likelihood(sizes, max(other_alpha, 0.0), other_theta) <= best + 1e-9


def test_long_sums_agree_with_their_closed_form() -> None:
    short, long = 200_000, 200_001
    for theta, alpha in ((309.0, 0.49), (-0.2, 0.7), (5000.0, 0.01)):
        k = np.arange(1, long)
        assert population_uniques.reciprocal_sum(theta, alpha, long) == pytest.approx(np.sum(1 / (theta + alpha * k)), rel=1e-9)
        assert population_uniques.weighted_reciprocal_sum(theta, alpha, long) == pytest.approx(
            np.sum(k / (theta + alpha * k)), rel=1e-9
        )
        assert population_uniques.reciprocal_sum(theta, alpha, short) < population_uniques.reciprocal_sum(theta, alpha, long)


def test_log_gamma_ratio_keeps_digits_where_two_gammas_lose_them() -> None:
    from scipy.special import gammaln

    for x in (0.3, 2.0, 31.0, 1e4):
        assert population_uniques.log_gamma_ratio(x, 0.4) == pytest.approx(gammaln(x + 0.4) - gammaln(x), rel=1e-9)
    # log Γ(x−½)/Γ(x) = −½ log x + 3/(8x) + O(x⁻²)
    assert population_uniques.log_gamma_ratio(1e10, -0.5) == pytest.approx(-0.5 * np.log(1e10) + 0.375e-10, rel=1e-15)


def test_zayatz_uses_the_hypergeometric_law() -> None:
    from scipy.stats import hypergeom

    n, population = sum(j * s for j, s in ADULT.items()), 48_842
    weights = {j: s * hypergeom.pmf(1, population, j, n) for j, s in ADULT.items()}
    expected = weights[1] / sum(weights.values())
    assert uniques.zayatz(ADULT, population=population).unique_probability == pytest.approx(expected, rel=1e-8)
    # A cell larger than what is left outside the sample cannot have been sampled once.
    assert uniques.zayatz({1: 3, 50: 1}, population=60).unique_probability == pytest.approx(1.0)


@pytest.mark.parametrize(("alpha", "beta"), [(0.3, 0.2), (1.5, 0.3), (0.05, 0.05)])
def test_slide_negative_binomial_recovers_its_own_parameters(alpha: float, beta: float) -> None:
    from scipy.stats import binom, nbinom

    n_cells, fraction = 4_000_000, 0.2
    j = np.arange(1, 3000)
    population_sizes = n_cells * nbinom.pmf(j - 1, alpha, beta)
    s1, s2 = (round(float(population_sizes @ binom.pmf(k, j, fraction))) for k in (1, 2))
    u = round(float(population_sizes @ (1 - binom.pmf(0, j, fraction))))
    found = uniques._slide_negative_binomial_parameters(n_cells, fraction, s1, s2, u)
    assert found == pytest.approx((alpha, beta), rel=1e-3)


def test_slide_negative_binomial_moments() -> None:
    from scipy.stats import binom, nbinom

    sizes = uniques.SizeIndices.of(CENSUS)
    found = uniques.slide_negative_binomial(sizes, population=277_677)
    alpha, beta, n_cells = (found.parameters[name] for name in ("alpha", "beta", "population_cells"))
    j = np.arange(1, 20_000)
    law = n_cells * nbinom.pmf(j - 1, alpha, beta)
    for k in (1, 2):
        assert float(law @ binom.pmf(k, j, 9809 / 277_677)) == pytest.approx(CENSUS[k], rel=1e-6)


@pytest.mark.parametrize("estimator", [uniques.ewens, uniques.pitman])
def test_estimators_on_their_own_model(estimator: object) -> None:
    """Populations from the Chinese restaurant process with discount; a sample is a random part of it."""
    rng = np.random.default_rng(3)
    alpha, theta = (0.0, 60.0) if estimator is uniques.ewens else (0.5, 20.0)
    population, n_records, truth, estimate = 3000, 400, 0.0, 0.0
    for _ in range(12):
        seats = np.empty(population, dtype=np.int64)
        n_tables = 0
        for person in range(population):
            # A new table with probability (θ + α·tables)/(θ + persons), else the table of an earlier person, discounted.
            if rng.random() * (theta + person) < theta + alpha * n_tables:
                seats[person], n_tables = n_tables, n_tables + 1
                continue
            sizes = np.bincount(seats[:person], minlength=n_tables) - alpha
            seats[person] = rng.choice(n_tables, p=sizes / sizes.sum())
        population_count = np.bincount(seats)
        sample_count = np.bincount(rng.permutation(seats)[:n_records], minlength=n_tables)
        truth += ((population_count == 1) & (sample_count == 1)).sum()
        sizes_j, numbers = np.unique(sample_count[sample_count > 0], return_counts=True)
        indices = dict(zip(sizes_j.tolist(), numbers.tolist(), strict=True))
        found = estimator(indices, population=population)  # type: ignore[operator]
        estimate += found.expected_population_uniques
    assert estimate == pytest.approx(truth, rel=4 / np.sqrt(truth))


@pytest.mark.parametrize("sizes", [{1: 10}, {10: 1}, {2: 4}, {1: 1}, {1: 3, 7: 2}])
def test_degenerate_samples_give_a_number_or_a_reason(sizes: dict[int, int]) -> None:
    for estimate in uniques.population_uniques(sizes, population=1000):
        if estimate.expected_population_uniques is None:
            assert not estimate.converged
            assert estimate.message
            assert "no estimate" in str(estimate)
        else:
            assert 0 <= estimate.expected_population_uniques <= sizes.get(1, 0)


def test_a_census_makes_every_unique_a_population_unique() -> None:
    for estimate in uniques.population_uniques(ADULT, population=4884):
        assert estimate.expected_population_uniques == pytest.approx(3834, rel=1e-9)


def test_bad_input_is_refused() -> None:
    with pytest.raises(PopulationTooSmall, match="4,884"):
        uniques.ewens(ADULT, population=4000)
    with pytest.raises(BadInput, match="below 1"):
        uniques.SizeIndices.of({0: 4})
    with pytest.raises(BadInput, match="Leave both out"):
        uniques.SizeIndices.of({2: 4}, n_records=3)
    assert issubclass(PopulationTooSmall, rc.RarecellError)
