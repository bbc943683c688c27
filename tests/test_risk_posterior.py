"""Risk under a posterior, against simulation and quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import integrate, special, stats
from scipy.special import digamma, polygamma

from rarecell._kernels import gamma
from rarecell.risk.posterior import (
    gamma_of_log_moments,
    log_moments_of_gamma,
    posterior_match_probability,
    posterior_unique_probability,
)


@given(st.floats(-40, 5), st.floats(1e-8, 30))
def test_gamma_has_the_moments_asked_for(mean_log: float, variance_log: float) -> None:
    shape, scale = gamma_of_log_moments(np.array([mean_log]), np.array([variance_log]))
    assert polygamma(1, shape[0]) == pytest.approx(variance_log, rel=1e-8)
    assert digamma(shape[0]) + np.log(scale[0]) == pytest.approx(mean_log, abs=1e-8)


@given(st.floats(1e-3, 1e6), st.floats(1e-12, 10.0))
def test_a_gamma_variable_has_these_moments_of_its_logarithm(shape: float, mean: float) -> None:
    mean_log, variance_log = log_moments_of_gamma(np.array([shape]), np.array([mean]))
    assert mean_log[0] == pytest.approx(digamma(shape) + np.log(mean / shape), rel=1e-10, abs=1e-10)
    assert variance_log[0] == pytest.approx(polygamma(1, shape), rel=1e-11)


@example(0.01, 1.0000000000000003e-09, 145)
@given(st.floats(1e-2, 200), st.floats(1e-9, 1e3), st.integers(1, 300))
def test_match_probability_is_the_integral(shape: float, odds: float, count: int) -> None:
    # Where the integrand bends; the quadrature loses its way between points that nearly coincide.
    bends = {round(bend, 6) for bend in (1 - 1 / (1 + odds), 1 - 1 / count, 1 - 1 / (count + odds * shape))}
    points = sorted(bends - {0.0, 1.0}) or None
    expected, _ = integrate.quad(
        lambda t: t ** (count - 1) * (1 + odds * (1 - t)) ** -shape, 0, 1, points=points, limit=500, epsabs=1e-14, epsrel=1e-11
    )
    found = posterior_match_probability(shape, odds, 1.0, count)
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_both_risks_against_simulated_populations() -> None:
    rng = np.random.default_rng(2)
    shape, scale, n_unseen = 2.5, 3e-6, 200_000
    unseen = rng.poisson(n_unseen * rng.gamma(shape, scale, 400_000))
    assert posterior_unique_probability(shape, scale, n_unseen) == pytest.approx((unseen == 0).mean(), abs=0.004)
    for count in (1, 2, 7):
        assert posterior_match_probability(shape, scale, n_unseen, count) == pytest.approx(
            (1 / (count + unseen)).mean(), abs=0.003
        )


def test_a_census_leaves_nobody_unseen() -> None:
    assert posterior_unique_probability(2.0, 1e-5, 0.0) == 1.0
    np.testing.assert_array_equal(posterior_match_probability(np.full(3, 2.0), 1e-5, 0.0, [1, 2, 5]), [1.0, 0.5, 0.2])


def test_derivatives_of_the_log_gamma_function_are_those_of_scipy() -> None:
    x = np.exp(np.random.default_rng(0).uniform(np.log(1e-9), np.log(1e13), 2000))
    found = np.array([(gamma.digamma(one), *gamma.trigamma_and_slope(one)) for one in x])
    np.testing.assert_allclose(found[:, 0], special.digamma(x), rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(gamma.digammas(x), found[:, 0])
    np.testing.assert_allclose(gamma.log_gammas(x), special.gammaln(x), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(found[:, 1], special.polygamma(1, x), rtol=1e-13)
    np.testing.assert_allclose(found[:, 2], special.polygamma(2, x), rtol=1e-12)


def test_log_moments_of_betas_are_those_of_scipy() -> None:
    rng = np.random.default_rng(1)
    a, b = np.exp(rng.uniform(-4, 6, (2, 500)))
    mean, variance = stats.beta.mean(a, b), stats.beta.var(a, b)
    found = gamma.beta_log_moments(mean, b / (a + b), variance)
    np.testing.assert_allclose(found[:, 0], np.log(mean), rtol=1e-12)
    np.testing.assert_allclose(found[:, 1], special.digamma(a) - special.digamma(a + b), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found[:, 2], special.polygamma(1, a) - special.polygamma(1, a + b), rtol=1e-7, atol=1e-9)
