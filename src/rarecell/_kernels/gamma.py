"""The logarithm of the gamma function and its derivatives, as needed for likelihoods and log-moments.

A general library has them, too, but takes a third of a second to load, which would be noticeable in a short run. A recurrence raises the argument to at least ten, where the asymptotic series (Abramowitz and Stegun, 6.3.18 and 6.4.11)
reaches rounding error within a few terms.
"""

from __future__ import annotations

import math

import numpy as np

from rarecell._kernels.compiled import njit

_LARGE = 10.0


@njit(cache=True, nogil=True)
def digamma(x):
    """ψ(x) for x > 0."""
    below = 0.0
    while x < _LARGE:
        below += 1.0 / x
        x += 1.0
    r = 1.0 / x
    s = r * r
    series = s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * (691 / 32760 - s / 12))))))
    return np.log(x) - 0.5 * r - series - below


@njit(cache=True, nogil=True)
def digammas(x):
    """ψ of each number of an array of positive numbers."""
    values = np.empty(len(x))
    for i in range(len(x)):
        values[i] = digamma(x[i])
    return values


@njit(cache=True, nogil=True)
def log_gammas(x):
    """log Γ of each number of an array of positive numbers."""
    values = np.empty(len(x))
    for i in range(len(x)):
        values[i] = math.lgamma(x[i])
    return values


@njit(cache=True, nogil=True)
def trigamma_and_slope(x):
    """ψ′(x) and ψ″(x) for x > 0."""
    value, slope = 0.0, 0.0
    while x < _LARGE:
        r = 1.0 / x
        value += r * r
        slope -= 2.0 * r * r * r
        x += 1.0
    r = 1.0 / x
    s = r * r
    even = 1 / 6 - s * (1 / 30 - s * (1 / 42 - s * (1 / 30 - s * (5 / 66 - s * (691 / 2730 - s * 7 / 6)))))
    odd = 1 / 2 - s * (1 / 6 - s * (1 / 6 - s * (3 / 10 - s * (5 / 6 - s * (691 / 210 - s * 35 / 2)))))
    return value + r + 0.5 * s + r * s * even, slope - s - r * s - s * s * odd


@njit(cache=True, nogil=True)
def beta_log_moments(mean, rest, variance):
    """Log of the mean, and mean and variance of the log, of beta variables with given mean and variance; one row each.

    ``rest`` is 1 − mean. It is given and not computed: where the mean is nearly one, the difference would lose its digits
    and even its sign.
    """
    moments = np.zeros((len(mean), 3))
    for i in range(len(mean)):
        if rest[i] <= 0.0:
            continue
        moments[i, 0] = np.log(mean[i]) if mean[i] < 0.5 else np.log1p(-rest[i])
        if variance[i] <= 0.0:
            moments[i, 1] = moments[i, 0]
            continue
        mass = max(mean[i] * rest[i] / variance[i] - 1.0, 1e-9)
        own = mean[i] * mass
        moments[i, 1] = digamma(own) - digamma(mass)
        # Rounding may take the difference of two nearly equal numbers below zero; a variance may not be negative.
        moments[i, 2] = max(trigamma_and_slope(own)[0] - trigamma_and_slope(mass)[0], 0.0)
    return moments


@njit(cache=True, nogil=True)
def gamma_of_log_moments(mean_log, variance_log, shape, scale):
    """Shape and scale of the gamma variable whose log has each given mean and variance, by Newton's method (Minka 2000)."""
    for i in range(len(variance_log)):
        v = max(variance_log[i], 1e-12)
        a = 1.0 / np.sqrt(v) if v > 1.0 else 1.0 / v + 0.5
        for _ in range(30):
            trigamma, slope = trigamma_and_slope(a)
            step = trigamma * (1.0 - trigamma / v) / slope
            a += step
            if abs(step) <= 1e-13 * a:
                break
        shape[i] = a
        scale[i] = np.exp(mean_log[i] - digamma(a))
