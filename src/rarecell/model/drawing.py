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
