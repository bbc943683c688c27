"""Which member of its group does each record draw?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rarecell.edges import Array, Integers


def draw_within(weights: Array, group: Integers, wanted: Integers, rng: np.random.Generator) -> NDArray[np.int64]:
    """For each group in ``wanted`` one of its members, drawn in proportion to the weights.

    Weights are divided by the total of their group before they are added up, so that a group of tiny weights is drawn from
    as exactly as any other.

    Parameters
    ----------
    weights : numpy.ndarray
        Weight of each member, 0 or more.
    group : numpy.ndarray
        Group of each member; groups are 0, 1, …, and each has a member.
    wanted : numpy.ndarray
        The groups to draw from, one for each draw.
    rng : numpy.random.Generator
        Source of one uniform number for each draw.

    Returns
    -------
    numpy.ndarray
        Position of the member drawn.
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
