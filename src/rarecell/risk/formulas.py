"""How likely is it that a cell's sample count is all there is of it in the population?

``sample_count`` (f in the literature) is the number of sampled units in a cell. The number of unsampled units in it follows a
binomial (the multinomial model of Takemura and Endo), a Poisson, or a negative binomial law (Poisson–gamma; Bethlehem,
Keller and Pannekoek). Each law gives two numbers for a cell:

* the probability that nobody else is there, so that a sample unique is a population unique;
* E(1/F), the probability that a match of a record with a random population unit of the same cell is correct.

Both follow from the generating function G(t) = E t^X of the number X of unseen units: G(0), and the integral of t^(f−1) G(t)
over the unit interval. For f = 1 the integral has a closed form. Otherwise its integrand is log-concave in the variable used
below and falls by e^-40 within a window that is known in advance, so one fixed Gauss rule reaches rounding error
for every probability, population and count. The textbook recurrence in f loses all digits when few units are unseen.

References
----------
Takemura, A. and Endo, Y. (2006). Evaluation of per-record identification risk and swappability of records in a
microdata set via decomposable models.
Skinner, C. and Shlomo, N. (2008). Assessing identification risk in survey microdata using log-linear models. JASA 103.
Bethlehem, J., Keller, W. and Pannekoek, J. (1990). Disclosure control of microdata. JASA 85.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell.machine.threads import on_all_cores

Floats = NDArray[np.float64]

# Once the integrand has fallen by e^-40, what is left is below double precision.
_FALL = 40.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_NODES = 0.5 * (_NODES + 1.0)
_WEIGHTS = 0.5 * _WEIGHTS
_CHUNK = 1 << 13


def unique_probability(log_cell_probability: ArrayLike, n_unseen: ArrayLike) -> Floats:
    """Probability (1−p)^M that none of M unseen units falls into the cell (multinomial model).

    Parameters
    ----------
    log_cell_probability : array_like
        Logarithm of the cell's probability p; minus infinity is allowed.
    n_unseen : array_like
        Number M = N − n of population units outside the sample; need not be an integer (weighted samples).

    Returns
    -------
    ndarray
        One probability for each cell.
    """
    probability, unseen = np.broadcast_arrays(_probability(log_cell_probability), _floats(n_unseen))
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = unseen * np.log1p(-probability)
    # In a census (M = 0) nobody is unseen, even in a cell of probability one.
    return np.asarray(np.exp(np.where(unseen == 0.0, 0.0, exponent)))


def match_probability(log_cell_probability: ArrayLike, n_unseen: ArrayLike, sample_count: ArrayLike = 1) -> Floats:
    """E(1/F) of a cell with ``sample_count`` sampled units (multinomial model).

    F is the sample count plus a binomial number of the unseen units. For a sample unique this is
    [1−(1−p)^(M+1)] / [(M+1)p].

    Parameters
    ----------
    log_cell_probability, n_unseen : array_like
        As in :func:`unique_probability`.
    sample_count : array_like of int, optional
        Number f ≥ 1 of sampled units in the cell.

    Returns
    -------
    ndarray
        E(1/F), between 1/(f+M) and 1/f.
    """
    probability, unseen, count = np.broadcast_arrays(_probability(log_cell_probability), _floats(n_unseen), _floats(sample_count))

    def of_unique(p: Floats, m: Floats) -> Floats:
        expected = (m + 1.0) * p
        with np.errstate(divide="ignore"):
            share_of_rest = -np.expm1((m + 1.0) * np.log1p(-p))
        return np.divide(share_of_rest, expected, out=np.ones_like(expected), where=expected > 0.0)

    def general(p: Floats, m: Floats, f: Floats) -> Floats:
        slope = f - 1.0 + m * p
        return _integral(
            np.minimum(1.0, _FALL / slope),
            lambda away: (f - 1.0)[:, None] * np.log1p(-away) + m[:, None] * np.log1p(-p[:, None] * away),
        )

    return _by_count(count, of_unique, general, probability, unseen)


def poisson_unique_probability(unseen_mean: ArrayLike) -> Floats:
    """Probability exp(−(1−π)λ) that a cell has no unseen units when their number is Poisson.

    Parameters
    ----------
    unseen_mean : array_like
        Mean (1−π)λ of the number of unseen units in the cell.
    """
    return np.asarray(np.exp(-_floats(unseen_mean)))


def poisson_match_probability(unseen_mean: ArrayLike, sample_count: ArrayLike = 1) -> Floats:
    """E(1/F) when the number of unseen units of the cell is Poisson.

    Parameters
    ----------
    unseen_mean : array_like
        Mean (1−π)λ of the number of unseen units.
    sample_count : array_like of int, optional
        Number f ≥ 1 of sampled units.
    """
    mean, count = np.broadcast_arrays(_floats(unseen_mean), _floats(sample_count))

    def of_unique(mu: Floats) -> Floats:
        return np.divide(-np.expm1(-mu), mu, out=np.ones_like(mu), where=mu > 0.0)

    def general(mu: Floats, f: Floats) -> Floats:
        return _integral(
            np.minimum(1.0, _FALL / (f - 1.0 + mu)),
            lambda away: (f - 1.0)[:, None] * np.log1p(-away) - mu[:, None] * away,
        )

    return _by_count(count, of_unique, general, mean)


def gamma_unique_probability(mean: ArrayLike, shape: ArrayLike, fraction: ArrayLike) -> Floats:
    """Probability that a sample unique is a population unique when cell rates are gamma distributed.

    With b = a/μ + π this is [b/(b+1−π)]^(a+1); as the shape a tends to infinity it becomes the Poisson form.

    Parameters
    ----------
    mean : array_like
        Prior mean μ = Np of the population count of the cell.
    shape : array_like
        Shape a ≥ 0 of the gamma law.
    fraction : array_like
        Sampling fraction π of the cell, 0 < π ≤ 1.
    """
    odds, shape_ = _unseen_odds(mean, shape, fraction)
    return np.asarray(np.exp(-(shape_ + 1.0) * np.log1p(odds)))


def gamma_match_probability(mean: ArrayLike, shape: ArrayLike, fraction: ArrayLike, sample_count: ArrayLike = 1) -> Floats:
    """E(1/F) when cell rates are gamma distributed, so that F given f is negative binomial.

    For a sample unique the integral has the closed form [1−(1+c)^−a]/(ac) with c = (1−π)/(a/μ+π), and
    log(1+c)/c when a = 0: the individual risk of Benedetti and Franconi.

    Parameters
    ----------
    mean, shape, fraction : array_like
        As in :func:`gamma_unique_probability`.
    sample_count : array_like of int, optional
        Number f ≥ 1 of sampled units.
    """
    count = _floats(sample_count)
    odds, shape_ = _unseen_odds(mean, shape, fraction)
    return _negative_binomial_match(odds, shape_ + count, count)


def negative_binomial_match_probability(unseen_mean: ArrayLike, shape: ArrayLike, sample_count: ArrayLike = 1) -> Floats:
    """E(1/F) when the number of unseen units is negative binomial with mean μ and shape a.

    This is the predictive form: the cell's rate is uncertain, with a gamma distribution given everything that was seen,
    including the record itself. An infinite shape gives the Poisson form.
    """
    mean, a, count = np.broadcast_arrays(_floats(unseen_mean), _floats(shape), _floats(sample_count))
    # Beyond this shape the law is Poisson to the last digit, and mean/shape would lose digits of the mean.
    is_certain = a > 1e15
    safe = np.where(is_certain, 1.0, a)
    uncertain = _negative_binomial_match(mean / safe, safe, count)
    return np.where(is_certain, poisson_match_probability(mean, count), uncertain)


def _negative_binomial_match(odds: Floats, exponent: Floats, sample_count: Floats) -> Floats:
    """Integral of t^(f−1)·(1+c(1−t))^−k over the unit interval."""
    c_, k_, count = np.broadcast_arrays(odds, exponent, sample_count)

    def of_unique(c: Floats, k: Floats) -> Floats:
        logs = np.log1p(c)
        is_one = k == 1.0
        rest = np.where(is_one, 1.0, k - 1.0)
        numerator = np.where(is_one, logs, -np.expm1(-rest * logs) / rest)
        return np.divide(numerator, c, out=np.ones_like(c), where=c > 0.0)

    def general(c: Floats, k: Floats, f: Floats) -> Floats:
        # In the unit interval the integrand has a long tail when k is small; in s = log(1 + c(1−t)) it is log-concave.
        safe = np.where(c > 0.0, c, 1.0)
        slope = np.maximum((f - 1.0) / safe + k - 1.0, 1e-300)
        window = np.minimum(np.log1p(safe), _FALL / slope)
        integral = _integral(
            window,
            lambda s: (f - 1.0)[:, None] * np.log(np.maximum(1.0 - np.expm1(s) / safe[:, None], 1e-300)) - (k - 1.0)[:, None] * s,
        )
        return np.where(c > 0.0, integral / safe, 1.0 / f)

    return _by_count(count, of_unique, general, c_, k_)


def _unseen_odds(mean: ArrayLike, shape: ArrayLike, fraction: ArrayLike) -> tuple[Floats, Floats]:
    """c = (1−π)/(a/μ+π), the odds that a unit is unseen in a cell with a random rate."""
    mu, a, pi = np.broadcast_arrays(_floats(mean), _floats(shape), _floats(fraction))
    ratio = np.where(a > 0.0, np.divide(a, mu, out=np.full_like(mu, np.inf), where=mu > 0.0), 0.0)
    return (1.0 - pi) / (ratio + pi), a


def _by_count(count: Floats, of_unique: Callable[..., Floats], general: Callable[..., Floats], *arguments: Floats) -> Floats:
    """Closed form where the sample count is one, quadrature elsewhere, in chunks that limit memory use."""
    if np.any(count < 1.0):
        raise ValueError("E(1/F) is defined for cells with a sample count of at least 1.")
    if np.all(count == 1.0):
        return of_unique(*arguments)
    shape = count.shape
    flat_count = count.ravel()
    flat = [argument.ravel() for argument in arguments]
    result = np.empty(flat_count.size)
    unique = flat_count == 1.0
    result[unique] = of_unique(*(argument[unique] for argument in flat))
    others = np.flatnonzero(~unique)

    def integrate(start: int) -> None:
        part = others[start : start + _CHUNK]
        result[part] = general(*(argument[part] for argument in flat), flat_count[part])

    on_all_cores(integrate, [[start] for start in range(0, others.size, _CHUNK)])
    return result.reshape(shape)


def _integral(window: Floats, log_integrand: Callable[[Floats], Floats]) -> Floats:
    points = window[:, None] * _NODES[None, :]
    return np.asarray(window * (np.exp(log_integrand(points)) @ _WEIGHTS))


def _probability(log_cell_probability: ArrayLike) -> Floats:
    # The probability from an average of models can exceed one by rounding; log1p(-p) must stay real.
    return np.asarray(np.minimum(np.exp(_floats(log_cell_probability)), 1.0))


def _floats(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)
