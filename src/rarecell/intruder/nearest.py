"""What is found by an intruder who links a record to the nearest person?

A value that is slightly off does not protect: if nobody else is nearer, the person is found all the same. With D the distance
between the released values and the true ones, the link can be right only if nobody is at a smaller distance from the released
values, and then it is right with probability one over the number of people at distance D. A record that did not move has D = 0
and is linked as by the exact intruder.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.distance import Nearness
from rarecell.intruder.links import Chances, Links, ModelError, OpenClaims, added, interval_of, link_probability, unseen_chances
from rarecell.intruder.register import Ball, Register, Unseen, distance_of
from rarecell.release.release import Claims, Release
from rarecell.table.distance import Distances, Yardstick, yardsticks

# What is found by an intruder who links a record to a person with the same key values?
#
# A record that moved has the values of somebody else, so the link is wrong. A record that stayed is linked to one of the F
# people in its cell, which is right with probability 1/F.


CROWD = 5
"""Where more known people than this are as near as a record's own person, they stand for the unseen ones, too."""

MOST_DRAWN = 4_000
"""If there are more unmoved records than this, a random part of them is drawn for the interval and represents all."""


SELECTION = ModelError(0.05, 0.04)
"""Further error in a protected file.

Records stay because the model thinks that others are like them. Some of those it is wrong about are among them, so that in samples of some
known populations their links are understated by 5 to 10 % (``benchmarks/attack.py --stayed``). What is printed is the estimate; the upper
end allows for it."""

ROUGH_SELECTION = ModelError(0.05, 0.15)
"""The same for models of one resolution and for single models, whose estimates vary more, so that more of them are low by chance: they
understate the links of those who stay by 7 to 22 % (``benchmarks/attack.py --stayed single`` and ``full``)."""


def exact_links(release: Release, register: Register, *, unmoved: Chances | None = None) -> Links:
    """Links by equal key values, for the records that are alone in their cell of the released file.

    ``unmoved`` are the :func:`unmoved_chances`, if already computed.
    """
    unmoved = unmoved or unmoved_chances(release, register)
    moved = release.moved_claims
    nothing = np.zeros(len(moved))
    return Links(
        "exact",
        np.concatenate([release.unmoved_rows(), moved.row]),
        np.concatenate([unmoved.link, nothing]),
        np.concatenate([unmoved.certain, nothing]),
        np.arange(len(unmoved.link) + len(moved)) >= len(unmoved.link),
        interval_of(float(unmoved.link.sum()), unmoved.drawn, len(unmoved.link), model_error(release, register), 0),
    )


def model_error(release: Release, register: Register) -> ModelError:
    """How far the model's sums of correct links are off beyond chance; none for a real register."""
    if register.unseen is None:
        return ModelError()
    of_kind, of_file = register.unseen.model.relative_error, register.unseen.model_error
    of_choice = ModelError() if not len(release.rows) else ROUGH_SELECTION if of_kind is None else SELECTION
    return replace(of_choice, spread=math.hypot(0.0 if of_kind is None else of_kind[1], 0.5 * of_file, of_choice.spread))


def unmoved_chances(release: Release, register: Register) -> Chances:
    """Chances for records that stayed where they were and are alone there in the released file."""
    cells = release.before.cells[release.unmoved_cells]
    link, certain = register.own_cell(cells)
    if register.unseen is None:
        return Chances(link, certain, np.zeros(0))
    chosen: NDArray[np.int64] = np.arange(len(cells))
    if len(cells) > MOST_DRAWN:
        chosen = np.sort(np.random.default_rng(register.unseen.seed).choice(chosen, MOST_DRAWN, replace=False))
    drawn = chances_in_own_cell(register, cells[chosen]).drawn
    return Chances(link, certain, drawn * (len(cells) / max(len(chosen), 1)))


def chances_in_own_cell(register: Register, cells: NDArray[np.int32]) -> Chances:
    """Chances of claims about known people who are in these cells of a register that is not real."""
    assert register.unseen is not None
    nobody = Ball(np.zeros(0, dtype=np.int64), cells[:0], np.zeros(0))

    def own_cell(rows: NDArray[np.int64], most_cells: int) -> tuple[Ball, NDArray[np.bool_]]:
        return nobody, np.zeros(len(rows), dtype=bool)

    n_known, everybody = register.known.count_at(cells) - 1, np.ones(len(cells), dtype=bool)
    chances = unseen_chances(register.unseen, own_cell, OpenClaims(np.zeros(len(cells)), cells, n_known, everybody))
    return Chances(chances.link, chances.certain, chances.drawn[:, 0])


@dataclass(frozen=True, eq=False)
class MovedLinks:
    """What the nearest intruder finds about moved records, whether or not they are alone in the released file.

    Attributes
    ----------
    link, certain : ndarray
        Probabilities for each moved record, as in :class:`~rarecell.intruder.links.Links`, for the distance with the most links.
    highest : ndarray
        Highest link probability of each record over all distances.
    drawn : ndarray
        Drawn totals over the records that are alone.
    distance : str
        The distance with the most links.
    """

    link: NDArray[np.float64]
    certain: NDArray[np.float64]
    highest: NDArray[np.float64]
    drawn: NDArray[np.float64]
    distance: str = ""

    def part(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> MovedLinks:
        """The links of some of the records; totals are drawn for all of them together."""
        return replace(self, link=self.link[chosen], certain=self.certain[chosen], highest=self.highest[chosen])


def moved_links(
    release: Release, register: Register, *, distances: Distances | None = None, family: Sequence[Yardstick] | None = None
) -> MovedLinks:
    """Try every moved record by every distance of a family, by default :func:`~rarecell.table.distance.yardsticks`.

    A record's chances depend only on its own move, so they hold for any part of a plan.
    """
    alone, family = release.moved_alone, family or yardsticks(release.before, distances)
    of_family = moved_chances(release.moved, register, [yardstick.near for yardstick in family], alone)
    tried = [(yardstick.name, chances) for yardstick, chances in zip(family, of_family, strict=True)]
    name, worst = max(tried, key=lambda of_distance: float(of_distance[1].link[alone].sum()))
    # Sums of probabilities may exceed one by rounding.
    highest = np.minimum(1.0, np.max([chances.link for _, chances in tried], axis=0))
    return MovedLinks(worst.link, worst.certain, highest, worst.drawn, name)


def nearest_links(
    release: Release,
    register: Register,
    *,
    distances: Distances | None = None,
    family: Sequence[Yardstick] | None = None,
    moved: MovedLinks | None = None,
    unmoved: Chances | None = None,
) -> Links:
    """Links to the nearest person, for the records that are alone in their cell of the released file.

    Parameters
    ----------
    release : Release
        The original and the released file.
    register : Register
        The people the intruder knows.
    distances : Distances, optional
        What the user said about distances; the family of distances keeps to it.
    family : sequence of Yardstick, optional
        The distances to be tried instead of the family.
    moved : MovedLinks, optional
        The :func:`moved_links` of the same release, if already computed.
    unmoved : Chances, optional
        The :func:`~rarecell.intruder.nearest.unmoved_chances` of the same release, if already computed.
    """
    of_moved = moved or moved_links(release, register, distances=distances, family=family)
    unmoved, alone = unmoved or unmoved_chances(release, register), release.moved_alone
    link = np.concatenate([unmoved.link, of_moved.link[alone]])
    return Links(
        "nearest",
        np.concatenate([release.unmoved_rows(), release.rows[alone]]),
        link,
        np.concatenate([unmoved.certain, of_moved.certain[alone]]),
        np.arange(len(link)) >= len(unmoved.link),
        interval_of(float(link.sum()), added(unmoved.drawn, of_moved.drawn), len(link), model_error(release, register), 1),
        of_moved.distance if len(release.rows) else "",
    )


def moved_chances(claims: Claims, register: Register, family: Sequence[Nearness], is_counted: NDArray[np.bool_]) -> list[Chances]:
    """Chances for moved records with intruders who measure distances by each of a family.

    1. A known person who is nearer rules a claim out; so does the person not being in the register at all.
    2. If nobody is unseen, the link is to one of those at the same distance.
    3. Otherwise the cells within the distance are listed, and :func:`~rarecell.intruder.links.unseen_chances` asks the model.
       Where many known people are as near, those tell well enough how many unseen ones are, and nothing is listed.

    The model is asked about a record by all distances at once, because most of the cells around it are the same.
    """
    bounds = [distance_of(near, claims.released, claims.true) for near in family]
    is_known = register.known.count_at(claims.true) > 0
    tried = [Chances(np.zeros(len(claims)), np.zeros(len(claims)), np.zeros(0)) for _ in family]
    waiting: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for near, bound, chances in zip(family, bounds, tried, strict=True):
        others = register.known.others(claims.released, bound, near)
        is_open = np.flatnonzero((others.n_nearer == 0) & is_known)
        n_tied = np.maximum(others.n_tied[is_open], 1)
        if register.unseen is None:
            chances.link[is_open], chances.certain[is_open] = 1.0 / n_tied, n_tied == 1
            continue
        in_crowd = n_tied > CROWD
        n_crowd = n_tied[in_crowd]
        n_unseen = (n_crowd - 1) * (register.unseen.elsewhere / register.known.table.n_records)
        chances.link[is_open[in_crowd]] = link_probability(np.zeros(len(n_crowd)), n_unseen, n_crowd - 1)
        waiting.append((is_open[~in_crowd], n_tied[~in_crowd]))
    if register.unseen is None:
        return tried
    return _asked_of_the_model(claims, register, register.unseen, family, bounds, tried, waiting, is_counted)


def _asked_of_the_model(
    claims: Claims,
    register: Register,
    unseen: Unseen,
    family: Sequence[Nearness],
    bounds: Sequence[NDArray[np.float64]],
    tried: Sequence[Chances],
    waiting: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
    is_counted: NDArray[np.bool_],
) -> list[Chances]:
    """The chances of :func:`moved_chances` with those of the claims that no known person decides."""
    row = np.concatenate([rows for rows, _ in waiting])
    n_tied = np.concatenate([of_distance for _, of_distance in waiting])
    number = np.repeat(np.arange(len(family)), [len(rows) for rows, _ in waiting])
    order = np.lexsort((number, row))
    row, n_tied, number = row[order], n_tied[order], number[order]
    bound = np.stack(bounds)[number, row]
    still_open = OpenClaims(bound, claims.true[row], n_tied - 1, is_counted[row], number, len(family))

    def ball_of(chosen: NDArray[np.int64], most_cells: int) -> tuple[Ball, NDArray[np.bool_]]:
        is_cut, balls = np.zeros(len(chosen), dtype=bool), []
        for k, near in enumerate(family):
            own = np.flatnonzero(number[chosen] == k)
            at = chosen[own]
            ball, is_cut[own] = register.known.ball(claims.released[row[at]], bound[at], near, most_cells=most_cells)
            balls.append(ball._replace(owner=own[ball.owner]))
        owner, cells, cost = (np.concatenate(parts) for parts in zip(*balls, strict=True))
        by_owner = np.argsort(owner, kind="stable")
        return Ball(owner[by_owner], cells[by_owner], cost[by_owner]), is_cut

    asked = unseen_chances(unseen, ball_of, still_open)
    with_unseen = []
    for k, chances in enumerate(tried):
        crowded = chances.link[is_counted].sum()
        own = number == k
        chances.link[row[own]], chances.certain[row[own]] = asked.link[own], asked.certain[own]
        with_unseen.append(replace(chances, drawn=asked.drawn[:, k] + crowded if len(asked.drawn) else asked.drawn))
    return with_unseen
