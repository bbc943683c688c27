"""How is a member of a group drawn in proportion to its weight?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rarecell.edges import Array, Integers


def draw_within(weights: Array, group: Integers, wanted: Integers, rng: np.random.Generator) -> NDArray[np.int64]:
    """For each group in ``wanted``, draw one of its members in proportion to the weights.

    Weights are divided by the total of their group before they are added up, so that draws from a group of tiny weights
    are as exact as from any other.

    Parameters
    ----------
    weights : numpy.ndarray
        The weight of each member, 0 or more.
    group : numpy.ndarray
        The group of each member; groups are numbered 0, 1, …, and each has a member.
    wanted : numpy.ndarray
        The groups to draw from, one for each draw.
    rng : numpy.random.Generator
        Source of one uniform number for each draw.

    Returns
    -------
    numpy.ndarray
        Position of each member drawn.
    """
    total = np.bincount(group, weights=weights)
    order = np.argsort(group, kind="stable")
    share = np.divide(weights, total[group], out=np.zeros(len(group)), where=total[group] > 0)
    upper = np.cumsum(share[order])
    first = np.searchsorted(group[order], np.arange(len(total) + 1))
    ends = np.concatenate([[0.0], upper])[first]
    target = ends[wanted] + rng.random(len(wanted)) * (ends[wanted + 1] - ends[wanted])
    picked = np.searchsorted(upper, target, side="right")
    return np.asarray(order[np.clip(picked, first[wanted], first[wanted + 1] - 1)], dtype=np.int64)


# How are gamma and beta variables drawn that may be too small for a floating-point number?
#
# A gamma variable with a shape a far below 1 is often too small to be represented: at a = 0.01 half of them are below 10^-30.
# Its logarithm poses no problem: G(a) is distributed as G(a+1)·U^(1/a) with U uniform.


Floats = NDArray[np.float64]


def log_gamma_draws(shape: Floats, n_draws: int, rng: np.random.Generator) -> Floats:
    """Logarithms of standard gamma variables, one row per draw and one column per shape; −inf where the shape is 0."""
    is_small = shape < 1.0
    found = np.log(rng.standard_gamma(np.where(is_small, shape + 1.0, shape), (n_draws, len(shape))))
    small = np.flatnonzero(is_small)
    exponential = rng.standard_exponential((n_draws, len(small)))
    with np.errstate(divide="ignore", over="ignore"):
        found[:, small] -= exponential / shape[small]
    return np.asarray(found)


def log_beta_draws(mean: Floats, rest: Floats, variance: Floats, n_draws: int, rng: np.random.Generator) -> Floats:
    """Logarithms of beta variables, given the mean, one minus the mean (``rest``), and the variance.

    Where the variance or ``rest`` is zero, all draws equal the mean.
    """
    found = np.zeros((n_draws, len(mean)))
    is_fixed = (rest <= 0.0) | (variance <= 0.0)
    fixed, free = np.flatnonzero(is_fixed), np.flatnonzero(~is_fixed)
    found[:, fixed] = np.where(rest[fixed] < 0.5, np.log1p(-np.maximum(rest[fixed], 0.0)), np.log(mean[fixed]))
    mass = np.maximum(mean[free] * rest[free] / variance[free] - 1.0, 1e-9)
    own, others = (log_gamma_draws(part[free] * mass, n_draws, rng) for part in (mean, rest))
    found[:, free] = -np.logaddexp(0.0, others - own)
    return found
