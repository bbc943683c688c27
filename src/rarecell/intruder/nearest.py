"""What does an intruder find who links a record to the nearest person?

A value that is a little off does not protect: if nobody else is nearer, the person is found all the same. With D the distance
between the released values and the true ones, the link is right when nobody is at a smaller distance from the released
values, and then with one chance in as many as there are persons at distance D. A record that did not move has D = 0 and is
linked as by an exact intruder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.neighbours import Patterns
from rarecell._kernels.swapping import Nearness
from rarecell.intruder.exact import relative_error, unmoved_chances
from rarecell.intruder.links import Chances, Links, interval_of, unseen_chances
from rarecell.intruder.persons import NO_PATTERNS, WEIGHTS, distance_of, nearness
from rarecell.intruder.register import Register
from rarecell.intruder.release import Claims, Release
from rarecell.swap.distance import Distances


def nearest_links(
    release: Release, register: Register, *, weights: Sequence[float] = WEIGHTS, distances: Distances | None = None
) -> Links:
    """Links to the nearest person, over the records that are alone in their cell of the released file.

    Parameters
    ----------
    release, register : the two files, and whom the intruder knows
    weights : of ordered keys beside the others; the worst of them is reported
    distances : how far levels are apart, unless by rank

    Returns
    -------
    Links
        By the weight with the most links. The probabilities of a single record are the highest over all weights.
    """
    moved, unmoved = release.moved_claims, unmoved_chances(release, register)
    by_weight = [moved_chances(moved, register, nearness(release.before, weight, distances)) for weight in weights]
    worst = max(by_weight, key=lambda chances: float(chances.link.sum()))
    total = float(unmoved.link.sum() + worst.link.sum())
    drawn = _added(unmoved.drawn, worst.drawn)
    n_claims = len(unmoved.link) + len(moved)
    return Links(
        "nearest",
        np.concatenate([release.unmoved_rows(), moved.row]),
        np.concatenate([unmoved.link, worst.link]),
        np.concatenate([unmoved.certain, worst.certain]),
        np.arange(n_claims) >= len(unmoved.link),
        interval_of(total, drawn, n_claims, relative_error(register), 1),
    )


def highest_by_record(
    claims: Claims, register: Register, *, weights: Sequence[float] = WEIGHTS, distances: Distances | None = None
) -> NDArray[np.float64]:
    """The highest probability over all weights that each of these moved records is linked to its person."""
    found = np.zeros(len(claims))
    for weight in weights:
        found = np.maximum(found, moved_chances(claims, register, nearness(register.known.table, weight, distances)).link)
    return found


def moved_chances(claims: Claims, register: Register, near: Nearness) -> Chances:
    """Chances of moved records with an intruder who measures distances by ``near``."""
    return chances_within(claims, register, near, distance_of(near, claims.released, claims.true), NO_PATTERNS)


def chances_within(
    claims: Claims, register: Register, near: Nearness, bounds: NDArray[np.float64], patterns: Patterns
) -> Chances:
    """Chances of claims whose person is at the distance ``bounds`` from what was released.

    1. A known person who is nearer spoils the claim; so does a person who is not in the register at all.
    2. Without unseen persons, the link is one of those at the same distance.
    3. With them, the cells within the distance are listed, and :func:`~rarecell.intruder.links.unseen_chances` asks the model.
    """
    others = register.known.others(claims.released, bounds, near, patterns)
    is_open = np.flatnonzero((others.n_nearer == 0) & (register.known.count_at(claims.true) > 0))
    link, certain = np.zeros(len(claims)), np.zeros(len(claims))
    n_tied = np.maximum(others.n_tied[is_open], 1)
    if register.unseen is None:
        link[is_open] = 1.0 / n_tied
        certain[is_open] = n_tied == 1
        return Chances(link, certain, np.zeros(0))
    ball = register.known.ball(claims.released[is_open], bounds[is_open], near, patterns)
    found = unseen_chances(register.unseen, ball, bounds[is_open], claims.true[is_open], n_tied - 1)
    link[is_open], certain[is_open] = found.link, found.certain
    return replace(found, link=link, certain=certain)


def _added(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of drawn totals; either may be empty."""
    if not len(one) or not len(other):
        return one if len(one) else other
    return one + other
