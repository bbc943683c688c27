"""How many records does an intruder link to the right person?

A claim is right with probability 1/(1+K) when nobody is nearer to the released record than its own person and K others are
equally near; it is wrong when somebody is nearer. Given the rates, the numbers of such people among the unseen are Poisson, so

    P(right) = exp(−N) · E(1/(1+K+X)),   X Poisson with mean L

where N and L are the expected numbers of unseen people who are nearer and equally near, and K is the number of known others who
are equally near. For K = 0 the last factor is (1−exp(−L))/L. The probability is averaged over draws of the rates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell._kernels.neighbours import TOLERANCE
from rarecell.intruder.register import Ball, Unseen, ball_sums
from rarecell.risk import formulas

Floats = NDArray[np.float64]

N_POPULATIONS = 240
"""Number of populations drawn for the interval, divided among the draws of the rates."""

CELLS_AT_ONCE = 150_000
"""Number of cells whose rates are drawn at a time."""

LISTED_AT_ONCE = 1_000_000
"""Number of cells that are listed at a time."""

LENGTHS = (64, 512, 4_000)
"""Numbers of cells around a claim that are asked one after the other, before all that the model may be asked about."""

NEGLIGIBLE = 1e-4
"""A chance that is at most this needs no better estimate: ten thousand such claims together would be one link too many."""


@dataclass(frozen=True)
class Sure:
    """Links whose certainty is above a threshold: number claimed, and expected number of right ones among them."""

    above: float
    claimed: float
    right: float


@dataclass(frozen=True, eq=False)
class Links:
    """What an intruder finds in one file.

    Attributes
    ----------
    name : str
        The intruder.
    row : ndarray of int
        Numbers of the records about which the intruder makes a claim; −1 where the number is not known.
    link : ndarray
        Probability that each claim is right.
    certain : ndarray
        Probability that each claim is right and nobody else is equally near.
    moved : ndarray of bool
        Which of the records moved.
    interval : tuple of float
        95 % interval for the number of right claims.
    distance : str
        Of the distances that were tried, the one with which most is found; empty if distance plays no part.
    sure : tuple of Sure
        Links that the intruder can be sure of; empty for an intruder who cannot tell.
    certainty : ndarray
        How sure each claim is, 0 for claims that were not tried; empty for an intruder who cannot tell.
    """

    name: str
    row: NDArray[np.int64]
    link: Floats
    certain: Floats
    moved: NDArray[np.bool_]
    interval: tuple[float, float]
    distance: str = ""
    sure: tuple[Sure, ...] = ()
    certainty: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def total(self) -> float:
        """Expected number of right claims."""
        return float(self.link.sum())

    @property
    def of_moved(self) -> float:
        """Expected number of right claims about records that moved."""
        return float(self.link[self.moved].sum())

    @property
    def highest(self) -> float:
        """Largest probability for a single record."""
        return float(self.link.max(initial=0.0))


@dataclass(frozen=True, eq=False)
class Chances:
    """P(right) and P(right and nobody else equally near) of some claims, and drawn totals of right claims."""

    link: Floats
    certain: Floats
    drawn: Floats


@dataclass(frozen=True, eq=False)
class OpenClaims:
    """Claims that no known person rules out.

    Attributes
    ----------
    bounds : ndarray
        Distance of each claim's own person from the released record.
    true : ndarray of int
        Cell of that person.
    n_known : ndarray of int
        Number of known others who are equally near.
    is_counted : ndarray of bool
        Which claims are included in the drawn totals.
    group : ndarray of int or None
        Number of the total that each claim belongs to; None if there is one total.
    n_groups : int
        Number of totals.
    """

    bounds: Floats
    true: NDArray[np.int32]
    n_known: NDArray[np.int64]
    is_counted: NDArray[np.bool_]
    group: NDArray[np.int64] | None = None
    n_groups: int = 1

    def __len__(self) -> int:
        return len(self.bounds)

    def part(self, chosen: NDArray[np.int64]) -> OpenClaims:
        """Some of the claims."""
        return replace(
            self,
            bounds=self.bounds[chosen],
            true=self.true[chosen],
            n_known=self.n_known[chosen],
            is_counted=self.is_counted[chosen],
            group=None if self.group is None else self.group[chosen],
        )


BallOf = Callable[[NDArray[np.int64], int], tuple[Ball, NDArray[np.bool_]]]
"""Lists at most so many cells around each of some claims, nearest first, and says whose list was cut short."""


def link_probability(nearer: Floats, tied: Floats, n_known: NDArray[np.int64]) -> Floats:
    """P(right), given the rates of unseen people nearer and equally near, and the number of known others equally near."""
    return np.asarray(np.exp(-nearer) * formulas.poisson_match_probability(tied, np.broadcast_to(1 + n_known, tied.shape)))


def unseen_chances(unseen: Unseen, ball_of: BallOf, claims: OpenClaims) -> Chances:
    """Chances of claims that no known person rules out, given the cells around them; totals are drawn for each group of claims.

    Most claims fail because of people in the few nearest cells, so these are asked first. A list that was cut short overstates a
    chance; where even that is :data:`NEGLIGIBLE`, it stands. For the other claims a longer list is asked.
    """
    link, certain, totals = np.zeros(len(claims)), np.zeros(len(claims)), np.zeros((0, claims.n_groups))
    waiting: NDArray[np.int64] = np.arange(len(claims))
    lengths = [length for length in LENGTHS if length < unseen.most_cells] + [unseen.most_cells]
    for turn, most_cells in enumerate(lengths):
        unsettled = [waiting[:0]]
        at_once = max(1, LISTED_AT_ONCE // most_cells)
        for part in (waiting[start : start + at_once] for start in range(0, len(waiting), at_once)):
            ball, is_cut = ball_of(part, most_cells)
            is_cut &= most_cells < lengths[-1]
            chances = _listed_chances(unseen, ball, claims.part(part), is_cut, (int(part[0]), turn))
            link[part], certain[part] = chances.link, chances.certain
            totals = added(totals, chances.drawn)
            unsettled.append(part[is_cut & (chances.link > NEGLIGIBLE)])
        waiting = np.concatenate(unsettled)
    return Chances(link, certain, totals)


def _listed_chances(
    unseen: Unseen, ball: Ball, claims: OpenClaims, is_cut: NDArray[np.bool_], stream: tuple[int, int]
) -> Chances:
    """Chances given a list of cells; totals are drawn for those claims that need no longer list."""
    n_claims = len(claims)
    link, certain, totals = np.zeros(n_claims), np.zeros(n_claims), np.zeros((0, claims.n_groups))
    ends = np.searchsorted(ball.owner, np.arange(n_claims), side="right")
    number, turn = stream
    first = 0
    while first < n_claims:
        start = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, start + CELLS_AT_ONCE, side="right")))
        rows = slice(start, int(ends[last - 1]))
        part = Ball(ball.owner[rows] - first, ball.cells[rows], ball.cost[rows])
        some = np.arange(first, last)
        chances = _chances_of(
            unseen, part, claims.part(some), is_cut[some], np.random.default_rng([unseen.seed, number + first, turn])
        )
        link[some], certain[some] = chances.link, chances.certain
        totals = added(totals, chances.drawn)
        first = last
    return Chances(link, certain, totals)


def _chances_of(unseen: Unseen, ball: Ball, claims: OpenClaims, is_cut: NDArray[np.bool_], rng: np.random.Generator) -> Chances:
    """P(right), P(right and nobody else equally near), and drawn totals of claims whose cells fit into memory."""
    levels = [of_key.n_levels for of_key in unseen.table.categories]
    cells, _, column = collapse_records(np.concatenate([ball.cells, claims.true]), levels)
    rates, weight = unseen.rates(cells)
    of_ball, own = column[: len(ball.owner)], column[len(ball.owner) :]
    shape = (len(claims), len(cells))
    # A claim's own cell counts among the ties; it is also listed in the ball, unless that was cut short.
    is_other = of_ball != own[ball.owner]
    is_nearer = is_other & (ball.cost < claims.bounds[ball.owner] - TOLERANCE)
    is_tied = is_other & ~is_nearer
    nearer = ball_sums(ball.owner[is_nearer], of_ball[is_nearer], shape, rates)
    tied = ball_sums(ball.owner[is_tied], of_ball[is_tied], shape, rates) + rates[:, own]
    link = np.asarray(weight @ link_probability(nearer, tied, claims.n_known))
    certain = np.asarray(weight @ np.where(claims.n_known == 0, np.exp(-nearer - tied), 0.0))
    counted = np.flatnonzero(claims.is_counted & ~(is_cut & (link > NEGLIGIBLE)))
    nearer, tied, n_known = nearer[:, counted], tied[:, counted], claims.n_known[counted]
    in_group = np.ones((len(counted), 1)) if claims.group is None else np.eye(claims.n_groups)[claims.group[counted]]
    drawn = []
    for _ in range(-(-N_POPULATIONS // len(rates))):
        nobody_nearer = rng.random(nearer.shape) < np.exp(-nearer)
        n_tied = rng.poisson(np.minimum(tied, 1e15))
        drawn.append((nobody_nearer / (1.0 + n_known + n_tied)) @ in_group)
    return Chances(link, certain, np.concatenate(drawn))


def added(first: Floats, second: Floats) -> Floats:
    """Sum of drawn totals; either may be empty."""
    if not len(first) or not len(second):
        return first if len(first) else second
    return first + second


@dataclass(frozen=True)
class ModelError:
    """How far sums of correct links that rest on a model are off, beyond chance.

    Attributes
    ----------
    spread : float
        Relative standard deviation.
    understated : float
        Share by which the truth may be higher on top of that, and not lower.
    """

    spread: float = 0.0
    understated: float = 0.0


def interval_of(total: float, drawn: Floats, n_claims: int, error: ModelError, seed: int) -> tuple[float, float]:
    """95 % interval for the number of right claims: drawn totals scaled to the estimate, plus the error of such models."""
    if not len(drawn):
        return total, total
    if drawn.mean() <= 0.0:
        # Nothing was found in any draw. If λ is the expected number, n draws all show none with probability exp(−nλ).
        return 0.0, min(float(n_claims), max(total, 3.0 / len(drawn)))
    rng = np.random.default_rng(seed)
    spread = drawn * (total / drawn.mean()) * np.exp(error.spread * rng.standard_normal(len(drawn)))
    low, high = np.quantile(spread, [0.025, 0.975])
    return float(max(0.0, low)), float(min(high * (1.0 + error.understated), n_claims))
