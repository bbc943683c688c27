"""Which probabilities and sums do the sampling formulas of Ewens and Pitman, and Zayatz's estimator, depend on?"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.gamma import digamma
from rarecell.machine.solving import root


def ewens_probability(theta: float, n: float, population: float) -> float:
    return (n + theta - 1.0) / (population + theta - 1.0)


def pitman_probability(alpha: float, theta: float, n: float, population: float) -> float:
    """Γ(N+θ+α−1)Γ(n+θ) / (Γ(N+θ)Γ(n+θ+α−1)), as two ratios of neighbouring gammas."""
    return float(np.exp(log_gamma_ratio(population + theta, alpha - 1.0) - log_gamma_ratio(n + theta, alpha - 1.0)))


def pitman_expected_cells(alpha: float, theta: float, n: float) -> float:
    """E(u) = [Γ(θ+1)Γ(θ+n+α) / (Γ(θ+α)Γ(θ+n)) − θ] / α."""
    logs = log_gamma_ratio(theta + n, alpha) - log_gamma_ratio(theta + 1.0, alpha - 1.0)
    return float((np.exp(logs) - theta) / alpha)


def log_gamma_ratio(x: float, shift: float) -> float:
    """log Γ(x+shift)/Γ(x), without the cancellation of two logarithms of order x·log x."""
    total = 0.0
    while x < 30.0:
        total += np.log(x) - np.log(x + shift)
        x += 1.0
    y = x + shift

    def tail(z: float) -> float:
        return 1.0 / (12.0 * z) - 1.0 / (360.0 * z**3) + 1.0 / (1260.0 * z**5)

    return float(total + shift * np.log(x) + (y - 0.5) * np.log1p(shift / x) - shift + tail(y) - tail(x))


def digamma_difference(x: float, terms: float) -> float:
    """Sum of 1/(x+k) over k = 0, …, terms−1."""
    return float(digamma(x + terms) - digamma(x))


def reciprocal_sum(theta: float, alpha: float, u: int) -> float:
    """Sum of 1/(θ+kα) over k = 1, …, u−1."""
    if u > 200_000 and alpha > 1e-6:
        return digamma_difference(theta / alpha + 1.0, u - 1.0) / alpha
    return float(np.sum(1.0 / (theta + alpha * np.arange(1, u))))


def weighted_reciprocal_sum(theta: float, alpha: float, u: int) -> float:
    """Sum of k/(θ+kα) over k = 1, …, u−1."""
    if u > 200_000 and alpha > 1e-6:
        return (u - 1.0 - theta * reciprocal_sum(theta, alpha, u)) / alpha
    k = np.arange(1, u)
    return float(np.sum(k / (theta + alpha * k)))


def root_of_growing(function: Callable[[float], float], *, above: float = 0.0) -> float | None:
    """Root of an increasing function on (above, ∞), by an outward search on a logarithmic scale."""
    return root_of_falling(lambda value: -function(value), above=above)


def root_of_falling(function: Callable[[float], float], *, above: float) -> float | None:
    low, high = -20.0, 5.0
    if not function(above + np.exp(low)) > 0.0:
        return None
    while not function(above + np.exp(high)) < 0.0:
        low, high = high, high + 5.0
        if high > 60.0:
            return None
    logarithm = root(lambda value: function(above + math.exp(value)), low, high, tolerance=1e-14)
    return float(above + np.exp(logarithm))


def probability_one_sampled(sizes: NDArray[np.float64], n: float, population: float) -> NDArray[np.float64]:
    """Hypergeometric probability n·C(N−n, j−1)/C(N, j) that exactly one of j units is in the sample."""
    largest = int(min(sizes[-1], population - n + 1))
    j = np.arange(1, largest, dtype=np.float64)
    # Ratios of neighbouring terms, summed as logarithms: gamma functions of arguments near N would lose digits.
    steps = np.log(population - n - j + 1.0) - np.log(j) + np.log(j + 1.0) - np.log(population - j)
    logs = np.concatenate([[np.log(n / population)], np.log(n / population) + np.cumsum(steps)])
    reachable = sizes <= largest
    result = np.zeros(sizes.size)
    result[reachable] = np.exp(logs[sizes[reachable].astype(np.int64) - 1])
    return result
