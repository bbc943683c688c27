"""What is the risk of a cell whose probability is known only up to a posterior distribution?

A model that says how sure it is gives the mean and variance of the logarithm of a cell's probability. The gamma distribution
with these two moments represents the posterior; the number of unseen units in the cell is then negative binomial, with the
generating function (1 + c(1−t))^−a that both risks follow from, where a is the shape and c is M times the scale. Plugging in
the mean instead would overstate how well a rare cell is known.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell._kernels import gamma
from rarecell.machine.threads import in_parts
from rarecell.risk import formulas

Floats = NDArray[np.float64]


def gamma_of_log_moments(mean_log: Floats, variance_log: Floats) -> tuple[Floats, Floats]:
    """Shape and scale of the gamma distribution whose logarithm has this mean and variance.

    The variance of the logarithm is the trigamma function of the shape, which Newton's method inverts from above or
    below in a few steps (Minka 2000); the mean is the digamma function of the shape plus the logarithm of the scale.
    """
    variance = np.asarray(variance_log, dtype=np.float64)
    shape, scale = np.empty(variance.shape), np.empty(variance.shape)
    in_parts(gamma.gamma_of_log_moments, np.asarray(mean_log, dtype=np.float64), variance, shape, scale)
    return shape, scale


def log_moments_of_gamma(shape: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the logarithm of a gamma variable with this shape and mean: ψ(a) + log(mean/a) and ψ′(a).

    ψ′(a) is the sum of 1/(a+j)² up to j = 9 and of the asymptotic series from a + 10 on.
    """
    variance = np.add.reduce([1.0 / (shape + j) ** 2 for j in range(10)])
    r = 1.0 / (shape + 10.0)
    s = r * r
    variance += r + 0.5 * s + r * s * (1 / 6 - s * (1 / 30 - s * (1 / 42 - s * (1 / 30 - s * 5 / 66))))
    return gamma.digammas(shape) + np.log(mean / shape), variance


def posterior_unique_probability(shape: ArrayLike, scale: ArrayLike, n_unseen: ArrayLike) -> Floats:
    """Probability (1 + M·scale)^−a that none of the M unseen units falls into the cell."""
    odds = np.asarray(n_unseen, dtype=np.float64) * np.asarray(scale)
    return np.asarray(np.exp(-np.asarray(shape) * np.log1p(odds)))


def posterior_match_probability(shape: ArrayLike, scale: ArrayLike, n_unseen: ArrayLike, sample_count: ArrayLike = 1) -> Floats:
    """E(1/F) = ∫ t^(f−1) (1 + c(1−t))^−a dt over the unit interval, c = M·scale.

    For f = 1 it is [1 − (1+c)^(1−a)]/[(a−1)c], and log(1+c)/c when a = 1.
    """
    a = np.asarray(shape, dtype=np.float64)
    unseen_mean = np.asarray(n_unseen, dtype=np.float64) * np.asarray(scale) * a
    return formulas.negative_binomial_match_probability(unseen_mean, a, sample_count)
