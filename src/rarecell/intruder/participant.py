"""What is found by an intruder who knows that a person took part?

Such an intruder needs no register: the right record is in the file, and the intruder takes the one nearest to the true values.
This is the right one only if no other record is nearer, and then with probability one over the number of records at that
distance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.distance import Nearness
from rarecell.intruder.links import Links
from rarecell.intruder.register import Persons, distance_of
from rarecell.release.release import Claims, Release
from rarecell.table.distance import Distances, Yardstick, yardsticks


def participant_links(
    release: Release, *, distances: Distances | None = None, family: Sequence[Yardstick] | None = None
) -> Links:
    """Find the released records of people who are alone with their values in the original or in the released file.

    Every distance of the family is tried, as for the nearest person. Nothing is estimated, so the interval is a single point.
    """
    return tried_participants(release, distances=distances, family=family)[0]


def tried_participants(
    release: Release, *, distances: Distances | None = None, family: Sequence[Yardstick] | None = None
) -> tuple[Links, NDArray[np.float64]]:
    """:func:`participant_links`, and the highest probability of each person over all distances."""
    claims = alone_claims(release)
    tried = family or yardsticks(release.before, distances)
    # If nothing moved, everybody's record has the true values, whatever the distance.
    tried = tried if len(release.rows) else tried[:1]
    by_distance = {yardstick.name: participant_probability(claims, release, yardstick.near) for yardstick in tried}
    name, worst = max(by_distance.items(), key=lambda of_distance: float(of_distance[1].sum()))
    moved = (claims.true != claims.released).any(axis=1)
    total = float(worst.sum())
    links = Links(
        "participant",
        claims.row,
        worst,
        (worst == 1.0).astype(np.float64),
        moved,
        (total, total),
        name if len(release.rows) else "",
    )
    return links, np.stack(list(by_distance.values())).max(axis=0)


def participant_probability(claims: Claims, release: Release, near: Nearness) -> NDArray[np.float64]:
    """Probability that each person's own record is chosen by an intruder who measures distances by ``near``."""
    bounds = distance_of(near, claims.true, claims.released)
    others = Persons(release.after).others(claims.true, bounds, near)
    return np.where(others.n_nearer == 0, 1.0 / np.maximum(others.n_tied, 1), 0.0)


def alone_claims(release: Release) -> Claims:
    """People who are alone in the original, or whose record is alone in the released file."""
    before = release.before
    true_cell = before.marginals.positions(before.all_keys, release.true)
    # A person who is alone in the original stayed, moved, or is gone.
    stays = np.flatnonzero((before.counts == 1) & (release.n_left == 0))
    left_alone = np.setdiff1d(release.unmoved_cells, stays)
    cells = np.concatenate([stays, left_alone])
    row_of_cell = np.full(before.n_cells, -1, dtype=np.int64)
    row_of_cell[release.unmoved_cells] = release.unmoved_rows()
    alone = (before.counts[true_cell] == 1) | (release.n_released_alike == 1)
    return Claims(
        np.concatenate([row_of_cell[cells], release.rows[alone]]),
        np.concatenate([before.cells[cells], release.true[alone]]),
        np.concatenate([before.cells[cells], release.released[alone]]),
    )
