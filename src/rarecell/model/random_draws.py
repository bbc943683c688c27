"""How is a member of a group drawn in proportion to its weight?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rarecell.edges import Array, Integers


def draw_within(weights: Array, group: Integers, groups: Integers, rng: np.random.Generator) -> NDArray[np.int64]:
    """For each group in ``groups``, draw one of its members in proportion to the weights.

    Weights are divided by the total of their group before they are added up, so that draws from a group of tiny weights
    are as exact as from any other.

    Parameters
    ----------
    weights : numpy.ndarray
        The weight of each member, 0 or more.
    group : numpy.ndarray
        The group of each member; groups are numbered 0, 1, …, and each has a member.
    groups : numpy.ndarray
        The groups to draw from, one for each draw.
    rng : numpy.random.Generator
        Source of one uniform number for each draw.

    Returns
    -------
    numpy.ndarray
        Position of each member drawn.
    """
    order, lower, first = _by_group(weights, group)
    ends = lower[first]
    target = ends[groups] + rng.random(len(groups)) * (ends[groups + 1] - ends[groups])
    picked = np.searchsorted(lower[1:], target, side="right")
    return np.asarray(order[np.clip(picked, first[groups], first[groups + 1] - 1)], dtype=np.int64)


def split_within(
    weights: Array, group: Integers, groups: Integers, number: Integers, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each group in ``groups``, make ``number`` draws of its members in proportion to the weights, and count who was drawn.

    The draws are divided between the two halves of a group's members by a binomial number, those of each half again, and so on, so
    time goes with the members that are drawn and not with the draws. Weights are positive; the rest is as for :func:`draw_within`.

    Returns
    -------
    tuple of numpy.ndarray
        Places in ``groups``, positions of members drawn, and how often each was drawn, 1 or more.
    """
    order, lower, first = _by_group(weights, group)
    place: NDArray[np.int64] = np.flatnonzero(number > 0)
    n_draws: NDArray[np.int64] = number[place].astype(np.int64)
    start, end = first[groups[place]], first[groups[place] + 1]
    members = []
    while len(place):
        is_one = end - start == 1
        members.append((place[is_one], order[start[is_one]], n_draws[is_one]))
        place, start, end, n_draws = (part[~is_one] for part in (place, start, end, n_draws))
        middle = (start + end) // 2
        share = (lower[middle] - lower[start]) / (lower[end] - lower[start])
        n_lower = rng.binomial(n_draws, np.clip(share, 0.0, 1.0))
        n_draws = np.concatenate([n_lower, n_draws - n_lower])
        place, start, end = np.tile(place, 2), np.concatenate([start, middle]), np.concatenate([middle, end])
        place, start, end, n_draws = (part[n_draws > 0] for part in (place, start, end, n_draws))
    if not members:
        return place, place, place
    place_drawn, member, times = (np.concatenate(parts) for parts in zip(*members, strict=True))
    return place_drawn, member, times


def _by_group(weights: Array, group: Integers) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Members in order of their groups, the sum of the shares before each and of all, and where each group starts and the last ends."""
    total = np.bincount(group, weights=weights)
    order = np.argsort(group, kind="stable")
    share = np.divide(weights, total[group], out=np.zeros(len(group)), where=total[group] > 0)
    lower = np.concatenate([[0.0], np.cumsum(share[order])])
    return order, lower, np.searchsorted(group[order], np.arange(len(total) + 1))


# How are gamma and beta variables drawn that may be too small for a floating-point number?
#
# A gamma variable with a shape a far below 1 is often too small to be represented: at a = 0.01 half of them are below 10^-30.
# Its logarithm poses no problem: G(a) is distributed as G(a+1)·U^(1/a) with U uniform.


Floats = NDArray[np.float64]


def log_gamma_draws(shape: Floats, n_draws: int, rng: np.random.Generator) -> Floats:
    """Logarithms of standard gamma variables, one row per draw and one column per shape; −inf where the shape is 0."""
    is_small = shape < 1.0
    logs = np.log(rng.standard_gamma(np.where(is_small, shape + 1.0, shape), (n_draws, len(shape))))
    small = np.flatnonzero(is_small)
    exponential = rng.standard_exponential((n_draws, len(small)))
    with np.errstate(divide="ignore", over="ignore"):
        logs[:, small] -= exponential / shape[small]
    return np.asarray(logs)


def log_beta_draws(mean: Floats, rest: Floats, variance: Floats, n_draws: int, rng: np.random.Generator) -> Floats:
    """Logarithms of beta variables, given the mean, one minus the mean (``rest``), and the variance.

    Where the variance or ``rest`` is zero, all draws equal the mean.
    """
    logs = np.zeros((n_draws, len(mean)))
    is_fixed = (rest <= 0.0) | (variance <= 0.0)
    fixed, free = np.flatnonzero(is_fixed), np.flatnonzero(~is_fixed)
    logs[:, fixed] = np.where(rest[fixed] < 0.5, np.log1p(-np.maximum(rest[fixed], 0.0)), np.log(mean[fixed]))
    mass = np.maximum(mean[free] * rest[free] / variance[free] - 1.0, 1e-9)
    own, others = (log_gamma_draws(part[free] * mass, n_draws, rng) for part in (mean, rest))
    logs[:, free] = -np.logaddexp(0.0, others - own)
    return logs
