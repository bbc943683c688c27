"""What is found by an intruder who knows how the file was protected?

Such an intruder knows what share of the records moved, among common and among rare ones, and how records move: which keys
together, and how far. Given the released values r, a person in cell c then has the weight

    ω(c) = (1−s(c))·1[c=r] + s(c)·K(c→r)

where s is the share of records that moved and K the distribution of moves, and the intruder links to the person with the largest
weight. The surprise −log ω is a sum over the keys, plus a term for the set of keys that differ and one for the cell, so
it can be searched like a distance. K is estimated from the moves themselves: how often each set of keys moved, and by how many
steps in an ordered key (in bins that double). The result is an upper bound that is as good as this K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.distance import Nearness
from rarecell._kernels.neighbours import TOLERANCE, Patterns, pattern_cost
from rarecell.intruder.links import Chances, Links, ModelError, OpenClaims, added, interval_of, unseen_chances
from rarecell.intruder.nearest import exact_links, model_error
from rarecell.intruder.register import Ball, Register, distance_of
from rarecell.machine.threads import on_all_cores
from rarecell.release.release import Claims, Release
from rarecell.table.contingency import Categories
from rarecell.table.distance import NOMINAL, TABLED

Floats = NDArray[np.float64]
Cells = NDArray[np.int32]

N_REGISTERS = 6
"""Number of registers that are drawn if there is no real one."""

MOST_CLAIMS = 1_000
"""If more records than this moved, a random part of them is tried and represents all."""

OFF_BY = (0.35, 1.35)
"""Lowest and highest ratio of the true to the estimated odds that a moved record is found, on samples of known populations.

The number of people around a moved record decides whether it is found, and the model knows it worst where nobody was sampled.
Most estimates are too high. The interval allows for every ratio between these."""

_MOST_STEPS = 1_500
"""An ordered key with more levels than this is treated as unordered."""


@dataclass(frozen=True, eq=False)
class Mechanism:
    """How records move, as far as an intruder may know.

    Attributes
    ----------
    share_moved : ndarray
        Share of records that moved, for each class of population counts.
    near : Nearness
        Surprise of a step in each key.
    mask : ndarray of int
        Sets of keys that moved together, as bit masks.
    cost : ndarray
        Surprise of each of these sets.
    """

    share_moved: Floats
    near: Nearness
    mask: NDArray[np.uint64]
    cost: Floats

    @classmethod
    def of(cls, release: Release, register: Register) -> Mechanism:
        """Estimate the mechanism from the moves of a release."""
        before = release.before
        in_class = register.class_probability(before.cells)
        n_in_class = before.counts @ in_class
        n_moved = in_class[before.marginals.positions(before.all_keys, release.true)].sum(axis=0)
        mask, n_with_mask = np.unique(differing(release.true, release.released), return_counts=True)
        return cls(
            (n_moved + 0.5) / (n_in_class + 1.0),
            _surprise_of_steps(before.categories, release.true, release.released),
            mask,
            -np.log(n_with_mask / n_with_mask.sum()),
        )

    def cell_costs(self, cells: Cells, register: Register) -> tuple[Floats, Floats]:
        """Surprise that a record of each cell stayed, and that it moved."""
        share = register.class_probability(cells) @ self.share_moved
        return -np.log1p(-share), -np.log(share)


def differing(first: Cells, second: Cells) -> NDArray[np.uint64]:
    """The set of keys on which two lists of cells differ, as a bit mask for each row."""
    mask = np.zeros(len(first), dtype=np.uint64)
    for k in range(first.shape[1]):
        mask |= (first[:, k] != second[:, k]).astype(np.uint64) << np.uint64(k)
    return mask


def _surprise_of_steps(categories: tuple[Categories, ...], true: Cells, released: Cells) -> Nearness:
    kinds, weights, tables = [], [], []
    for k, of_key in enumerate(categories):
        n = of_key.n_levels
        if not of_key.is_ordered or n > _MOST_STEPS or n < 3:
            kinds.append(NOMINAL)
            weights.append(float(np.log(max(n - 1, 1))))
            tables.append(np.zeros(0))
            continue
        steps = np.abs(true[:, k].astype(np.int64) - released[:, k])
        size_of_bin = 2 ** np.arange(int(n - 1).bit_length())
        number = np.bincount(np.log2(steps[steps > 0]).astype(np.int64), minlength=len(size_of_bin)) + 0.5
        surprise = -np.log(number / number.sum() / (2.0 * size_of_bin))
        apart = np.abs(np.arange(n)[:, None] - np.arange(n)[None, :])
        of_levels = np.where(apart > 0, surprise[np.log2(np.maximum(apart, 1)).astype(np.int64)], 0.0)
        kinds.append(TABLED)
        weights.append(1.0)
        tables.append(of_levels.ravel())
    return Nearness(
        kind=np.array(kinds, dtype=np.int64),
        start=np.cumsum([0, *(len(table) for table in tables)])[:-1].astype(np.int64),
        n_levels=np.array([c.n_levels for c in categories], dtype=np.int64),
        place=np.concatenate([*tables, np.zeros(1)]),
        weight=np.array(weights),
    )


def informed_links(
    release: Release, register: Register, *, most_claims: int = MOST_CLAIMS, n_registers: int = N_REGISTERS
) -> Links:
    """Links to the most likely person under the mechanism, for records that are alone in their cell of the released file.

    How likely a person is depends on the number of people in each cell, in ways that a mean does not show. So if there is no
    real register, ``n_registers`` are drawn, and the intruder holds each of them in turn.
    """
    if not len(release.rows):
        exact = exact_links(release, register)
        return Links("informed", exact.row, exact.link, exact.certain, exact.moved, exact.interval)
    is_real = register.unseen is None
    registers = [register] if is_real else [register.drawn(draw, n_registers) for draw in range(n_registers)]
    by_register = on_all_cores(_chances_of_release, [(release, held, most_claims) for held in registers])
    unmoved, moved = (_mean_of([held[part] for held in by_register]) for part in (0, 1))
    link = np.concatenate([unmoved.link, moved.link])
    return Links(
        "informed",
        np.concatenate([release.unmoved_rows(), release.moved_claims.row]),
        link,
        np.concatenate([unmoved.certain, moved.certain]),
        np.arange(len(link)) >= len(unmoved.link),
        _interval(unmoved, moved, model_error(release, register)),
    )


def _mean_of(by_register: Sequence[Chances]) -> Chances:
    """Mean chances over registers, with the drawn totals of all of them."""
    return Chances(
        np.mean([chances.link for chances in by_register], axis=0),
        np.mean([chances.certain for chances in by_register], axis=0),
        np.concatenate([chances.drawn for chances in by_register]),
    )


def _interval(unmoved: Chances, moved: Chances, error: ModelError) -> tuple[float, float]:
    """Interval of all right claims, in which those about moved records may be off as they are known to be."""
    n_claims = len(unmoved.link) + len(moved.link)
    expected = float(unmoved.link.sum()), float(moved.link.sum())
    if not len(moved.drawn) or expected[1] <= 0.0:
        return interval_of(sum(expected), added(unmoved.drawn, moved.drawn), n_claims, error, 2)
    low, high = np.log(OFF_BY)
    ratio = np.exp(low + (high - low) * np.random.default_rng(3).random(len(moved.drawn)))
    share = np.clip(moved.drawn / len(moved.link), 0.0, 1.0)
    drawn = added(unmoved.drawn, len(moved.link) * ratio * share / (1.0 - share + ratio * share))
    # Not scaled to the estimate, which lies in the upper part of the interval.
    return interval_of(float(drawn.mean()), drawn, n_claims, error, 2)


def _chances_of_release(release: Release, register: Register, most_claims: int) -> tuple[Chances, Chances]:
    """Chances of all claims about a release: records that stayed, and records that moved."""
    mechanism = Mechanism.of(release, register)
    unmoved_cells = release.before.cells[release.unmoved_cells]
    unmoved = informed_chances(Claims(release.unmoved_rows(), unmoved_cells, unmoved_cells), register, mechanism)
    moved = release.moved_claims
    chosen: NDArray[np.int64] = np.arange(len(moved))
    if len(moved) > most_claims:
        chosen = np.sort(np.random.default_rng(0).choice(chosen, most_claims, replace=False))
    tried = informed_chances(moved.part(chosen), register, mechanism)
    # Records that were not tried are given the mean of those that were.
    link, certain = np.full(len(moved), tried.link.sum() / max(len(chosen), 1)), np.zeros(len(moved))
    link[chosen], certain[chosen] = tried.link, tried.certain
    # Nothing is drawn for claims that are all ruled out.
    stayed, drawn = unmoved.drawn, tried.drawn * (len(moved) / max(len(chosen), 1))
    stayed, drawn = (part if len(part) else np.zeros(max(len(stayed), len(drawn))) for part in (stayed, drawn))
    return replace(unmoved, drawn=stayed), Chances(link, certain, drawn)


def informed_chances(claims: Claims, register: Register, mechanism: Mechanism) -> Chances:
    """Chances of claims by an intruder who knows the mechanism."""
    known = register.known
    stayed, moved = mechanism.cell_costs(known.table.cells, register)
    patterns = Patterns(mechanism.mask, mechanism.cost, stayed, moved)
    bounds = _surprise_of_truth(claims, register, mechanism, patterns)
    is_in = np.isfinite(bounds) & (known.count_at(claims.true) > 0)
    others = known.others(claims.released, np.where(is_in, bounds, -1.0), mechanism.near, patterns)
    is_open = np.flatnonzero((others.n_nearer == 0) & is_in)
    link, certain = np.zeros(len(claims)), np.zeros(len(claims))
    n_tied = np.maximum(others.n_tied[is_open], 1)
    if register.unseen is None:
        link[is_open], certain[is_open] = 1.0 / n_tied, n_tied == 1
        return Chances(link, certain, np.zeros(0))

    def ball_of(chosen: NDArray[np.int64], most_cells: int) -> tuple[Ball, NDArray[np.bool_]]:
        rows = is_open[chosen]
        ball, is_cut = known.ball(claims.released[rows], bounds[rows], mechanism.near, patterns, most_cells=most_cells)
        stays, moves = mechanism.cell_costs(ball.cells, register)
        is_released = (ball.cells == claims.released[rows][ball.owner]).all(axis=1)
        cost = ball.cost + np.where(is_released, stays, moves)
        within = cost <= bounds[rows][ball.owner] + TOLERANCE
        return Ball(ball.owner[within], ball.cells[within], cost[within]), is_cut

    still_open = OpenClaims(bounds[is_open], claims.true[is_open], n_tied - 1, np.ones(len(is_open), dtype=bool))
    unseen = unseen_chances(register.unseen, ball_of, still_open)
    link[is_open], certain[is_open] = unseen.link, unseen.certain
    return Chances(link, certain, unseen.drawn[:, 0])


def _surprise_of_truth(claims: Claims, register: Register, mechanism: Mechanism, patterns: Patterns) -> Floats:
    """−log ω of each claim's own person."""
    stays, moves = mechanism.cell_costs(claims.true, register)
    mask = differing(claims.true, claims.released)
    of_mask = np.array([pattern_cost(patterns, pattern) if pattern else 0.0 for pattern in mask], dtype=np.float64)
    return distance_of(mechanism.near, claims.released, claims.true) + np.where(mask == 0, stays, moves + of_mask)
