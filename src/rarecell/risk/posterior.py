"""What is the risk of a cell whose probability is known only up to a posterior distribution?

A model that says how sure it is gives mean and variance of the logarithm of a cell's probability. The gamma distribution
with these two moments stands for the posterior; the unseen units of the cell are then negative binomial, and both risks
have a generating function (1 + c(1−t))^−a, with shape a and c = M times the scale. Putting the mean in instead would
overstate how well a rare cell is known.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, polygamma

from rarecell.risk.formulas import _FALL, _by_count, _integral

Floats = NDArray[np.float64]


def gamma_of_log_moments(mean_log: Floats, variance_log: Floats) -> tuple[Floats, Floats]:
    """Shape and scale of the gamma distribution whose logarithm has this mean and variance.

    The variance of the logarithm is the trigamma function of the shape, which Newton's method inverts from above or
    below in a few steps (Minka 2000); its mean is the digamma function of the shape plus the logarithm of the scale.
    """
    variance = np.maximum(variance_log, 1e-12)
    shape = np.where(variance > 1.0, 1.0 / np.sqrt(variance), 1.0 / variance + 0.5)
    for _ in range(30):
        trigamma = polygamma(1, shape)
        step = trigamma * (1.0 - trigamma / variance) / polygamma(2, shape)
        shape = shape + step
        if np.all(np.abs(step) <= 1e-13 * shape):
            break
    return shape, np.exp(mean_log - digamma(shape))


def posterior_unique_probability(shape: ArrayLike, scale: ArrayLike, n_unseen: ArrayLike) -> Floats:
    """Probability (1 + M·scale)^−a that none of the M unseen units falls into the cell."""
    odds = np.asarray(n_unseen, dtype=np.float64) * np.asarray(scale)
    return np.asarray(np.exp(-np.asarray(shape) * np.log1p(odds)))


def posterior_match_probability(shape: ArrayLike, scale: ArrayLike, n_unseen: ArrayLike, sample_count: ArrayLike = 1) -> Floats:
    """E(1/F) = ∫ t^(f−1) (1 + c(1−t))^−a dt over the unit interval, c = M·scale.

    For f = 1 it is [1 − (1+c)^(1−a)]/[(a−1)c], and log(1+c)/c when a = 1.
    """
    odds, a, count = np.broadcast_arrays(
        np.asarray(n_unseen, dtype=np.float64) * np.asarray(scale), np.asarray(shape, dtype=np.float64), sample_count
    )

    def of_unique(c: Floats, a: Floats) -> Floats:
        logs, excess = np.log1p(c), a - 1.0
        is_one = np.abs(excess) * logs < 1e-12
        numerator = np.where(is_one, logs, -np.expm1(-excess * logs) / np.where(is_one, 1.0, excess))
        return np.divide(numerator, c, out=np.ones_like(c), where=c > 0.0)

    def general(c: Floats, a: Floats, f: Floats) -> Floats:
        # With s = log(1 + c(1−t)) the integrand is t^(f−1) e^(−(a−1)s), which falls from s = 0 on.
        safe = np.where(c > 0.0, c, 1.0)
        fall = (f - 1.0) / safe + a - 1.0
        window = np.minimum(np.log1p(safe), np.where(fall > 0.0, _FALL / np.maximum(fall, 1e-300), np.inf))
        integral = _integral(
            window,
            lambda s: (f - 1.0)[:, None] * np.log(np.maximum(1.0 - np.expm1(s) / safe[:, None], 1e-300)) - (a - 1.0)[:, None] * s,
        )
        return np.where(c > 0.0, integral / safe, 1.0 / f)

    return _by_count(np.asarray(count, dtype=np.float64), of_unique, general, odds, a)
