"""Which sets can be inside a clique of a model that is at least as good as one we know?

Write a closed graph as a clique C and further vertices, added one at a time, each to a complete set P of those before:
its score is q(C) + Σ [q(P∪v) − q(P)]. Two upper bounds of the score of every model with C inside a clique follow.

1. With b(v) the largest q(P∪v) − q(P) over all sets P that may be complete, it is at most q(C) + Σ_{v∉C} b(v).
2. For a likelihood penalised by c per degree of freedom, it is at most the saturated log-likelihood less c times the
   degrees of freedom of the smallest such model, the one in which all other keys hang on C by their coarsenings alone.

A set whose bound falls short of a known score cannot matter, and both bounds fall as a set grows. So the sets that
matter are found by size, each from smaller ones; b counts, besides the sets seen, what larger ones could reach at most.
For other scores nothing is known of sets not yet seen, so all are scored and the first bound is applied at the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.score import PenalisedLikelihood, Score, possible_cells
from rarecell.search.family import Family, masks_of_levels

SECONDS_PER_SET = 2e-5
SECONDS_PER_CELL = 1.5e-9
"""Rough cost of scoring: a set, and each cell of the table times each key of the set, on two cores of 2023."""


@dataclass(frozen=True, eq=False)
class ScoredFamily:
    """Admissible closed sets with their scores, and how many sets were scored to find them."""

    family: Family
    q: NDArray[np.float64]
    n_scored: int


class TooManySets(Exception):
    """The admissible sets, or the work to find them, exceed what the caller allows."""


def admissible_sets(
    score: Score,
    *,
    at_least: float = -math.inf,
    max_clique: int | None = None,
    max_cost: float = math.inf,
    progress: Progress = SILENT,
) -> ScoredFamily:
    """The closed sets that can be inside a clique of a model with a score of ``at_least`` or more.

    Parameters
    ----------
    score : the set function
    at_least : a score that some model is known to have; −inf to keep all sets
    max_clique : largest number of keys in a clique
    max_cost : give up with :class:`TooManySets` when the estimated time of scoring exceeds this many seconds
    """
    growth = _Growth(score, at_least - _slack(at_least), max_clique)
    while True:
        levels, smaller = growth.candidates()
        if not len(levels):
            return growth.result()
        growth.cost += growth.cost_of(levels)
        if growth.cost > max_cost:
            raise TooManySets
        growth.take(levels, smaller)
        checkpoint(progress, "scoring sets")


def _slack(score: float) -> float:
    return 0.0 if math.isinf(score) else 1e-9 * abs(score) + 1e-6


class _Rank(NamedTuple):
    """Sets of one level sum, sorted by mask; ``gain[i, k]`` is q of set i less that of set i lowered at key k."""

    levels: NDArray[np.int64]
    masks: NDArray[np.uint64]
    q: NDArray[np.float64]
    gain: NDArray[np.float64]


class _Growth:
    """Sets accepted so far, by level sum, and the bounds that follow from them."""

    def __init__(self, score: Score, at_least: float, max_clique: int | None) -> None:
        table = score.table
        self.score = score
        self.at_least = at_least
        self.chains = table.chains
        self.max_keys = table.n_keys if max_clique is None else max_clique
        self.lengths = np.array([len(chain) for chain in self.chains], dtype=np.int64)
        # Number of categories of key k at level l of its chain, 1 where it is absent.
        self.width = np.ones((table.n_keys, int(self.lengths.max()) + 1))
        for k, chain in enumerate(self.chains):
            self.width[k, 1 : len(chain) + 1] = table.vertex_levels[list(chain)]
        self.penalty = score.penalty if isinstance(score, PenalisedLikelihood) else math.nan
        self.saturated, self.most_informed = self._likelihood_limits()
        self.n_scored = 1
        self.cost = 0.0
        empty = np.zeros((1, table.n_keys), dtype=np.int64)
        no_gain = np.full((1, table.n_keys), np.nan)
        self.ranks = [_Rank(empty, np.zeros(1, dtype=np.uint64), score.q_many(np.zeros(1, dtype=np.uint64)), no_gain)]

    def _likelihood_limits(self) -> tuple[float, NDArray[np.float64]]:
        """The saturated log-likelihood, and the largest gain of likelihood from each step on each chain."""
        shape = (len(self.chains), self.width.shape[1] - 1)
        if math.isnan(self.penalty):
            return math.inf, np.full(shape, math.inf)
        assert isinstance(self.score, PenalisedLikelihood)
        lengths, gain = self.lengths, np.full(shape, -math.inf)
        for k, length in enumerate(lengths):
            # All other keys known, the key itself at each level in turn.
            rows = np.tile(lengths, (length + 1, 1))
            rows[:, k] = np.arange(length + 1)
            gain[k, :length] = np.diff(self.score.marginals.entropy_terms(masks_of_levels(rows, self.chains)))
        return float(self.score.marginals.entropy_terms(masks_of_levels(lengths[None, :], self.chains))[0]), gain

    # ------------------------------------------------------------------ bounds

    def step_bounds(self) -> NDArray[np.float64]:
        """b: the most that one step on a chain adds to the score, whatever it is added to."""
        b = np.full(self.most_informed.shape, -math.inf)
        for rank in self.ranks[1:]:
            for k in range(len(self.chains)):
                for level in range(self.lengths[k]):
                    here = rank.gain[rank.levels[:, k] == level + 1, k]
                    if len(here):
                        b[k, level] = max(b[k, level], float(here.max()))
        if not len(self.ranks[-1].levels):
            return b
        if math.isnan(self.penalty):
            return np.full_like(b, math.inf)
        # Sets not seen yet contain one of the last rank, and cost at least what that costs without the key.
        width = self.width[np.arange(len(self.chains)), self.ranks[-1].levels]
        others = (width.prod(axis=1)[:, None] / width).min(axis=0)
        unseen = self.most_informed - self.penalty * np.diff(self.width, axis=1) * others[:, None]
        return np.maximum(b, np.where(np.isinf(self.most_informed), -math.inf, unseen))

    def tails(self, b: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ of b from level l of key k up to the key itself."""
        tails = np.zeros_like(self.width)
        for k, length in enumerate(self.lengths):
            tails[k, :length] = np.cumsum(b[k, :length][::-1])[::-1]
        return tails

    def bound_of_rest(self, levels: NDArray[np.int64]) -> NDArray[np.float64]:
        """The most that the vertices outside each set add to its score."""
        tails = self.tails(self.step_bounds())
        return tails[np.arange(len(self.chains)), levels].sum(axis=1)

    # ------------------------------------------------------------------ growth

    def candidates(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sets one step larger than the accepted ones, all whose parts are accepted, that no bound excludes yet.

        With each comes the position, in the last rank, of each set that is one step smaller.
        """
        last = self.ranks[-1]
        position = np.zeros((0, len(self.chains)), dtype=np.int64)
        if not len(last.levels):
            return position, position
        grown = []
        for k in range(len(self.chains)):
            # A set is grown at its last key or after it, so that it arises once.
            can = (last.levels[:, k + 1 :] == 0).all(axis=1) & (last.levels[:, k] < self.lengths[k])
            rows = last.levels[can].copy()
            rows[:, k] += 1
            grown.append(rows[(rows > 0).sum(axis=1) <= self.max_keys])
        levels = np.concatenate(grown)
        position = self._smaller(levels, masks_of_levels(levels, self.chains))
        is_whole = ((position >= 0) | (levels == 0)).all(axis=1)
        levels, position = levels[is_whole], position[is_whole]
        if len(levels) and not math.isnan(self.penalty):
            keep = self._can_matter_unseen(levels, position)
            levels, position = levels[keep], position[keep]
        return levels, position

    def _smaller(self, levels: NDArray[np.int64], masks: NDArray[np.uint64]) -> NDArray[np.int64]:
        last = self.ranks[-1]
        position = np.full(levels.shape, -1, dtype=np.int64)
        for k, chain in enumerate(self.chains):
            rows = np.flatnonzero(levels[:, k] > 0)
            smaller = masks[rows] ^ np.array([1 << v for v in chain], dtype=np.uint64)[levels[rows, k] - 1]
            found = np.minimum(np.searchsorted(last.masks, smaller), len(last.masks) - 1)
            position[rows, k] = np.where(last.masks[found] == smaller, found, -1)
        return position

    def _can_matter_unseen(self, levels: NDArray[np.int64], position: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Bounds from what is known of the smaller sets: the likelihood only falls as a set grows."""
        width = self.width[np.arange(len(self.chains)), levels]
        cells = width.prod(axis=1)
        full = self.width[np.arange(len(self.chains)), self.lengths]
        least_freedom = cells - 1.0 + (full - width).sum(axis=1)
        last = self.ranks[-1]
        likelihood = last.q + self.penalty * (possible_cells(self.score.table, last.masks) - 1.0)
        most_likely = np.where(position >= 0, likelihood[position], math.inf).min(axis=1)
        bound = most_likely - self.penalty * (cells - 1.0) + self.bound_of_rest(levels)
        return (self.saturated - self.penalty * least_freedom >= self.at_least) & (bound >= self.at_least)

    def cost_of(self, levels: NDArray[np.int64]) -> float:
        """Seconds, roughly, to score these sets."""
        n_cells = np.minimum(self.score.table.n_cells, 4.0 * self.width[np.arange(len(self.chains)), levels].prod(axis=1))
        return float((SECONDS_PER_SET + SECONDS_PER_CELL * n_cells * (levels > 0).sum(axis=1)).sum())

    def take(self, levels: NDArray[np.int64], position: NDArray[np.int64]) -> None:
        """Score the candidates and accept those that can matter."""
        masks = masks_of_levels(levels, self.chains)
        q = self.score.q_many(masks)
        self.n_scored += len(masks)
        gain = np.where(position >= 0, q[:, None] - self.ranks[-1].q[position], np.nan)
        order = np.argsort(masks)
        self.ranks.append(_Rank(levels[order], masks[order], q[order], gain[order]))
        self.prune(first=len(self.ranks) - 1)

    def prune(self, *, first: int) -> bool:
        """Drop sets whose bound falls short, from level sum ``first`` on; says whether there were any."""
        if math.isinf(self.at_least):
            return False
        tails = self.tails(self.step_bounds())
        dropped = False
        for r in range(first, len(self.ranks)):
            rank = self.ranks[r]
            rest = tails[np.arange(len(self.chains)), rank.levels].sum(axis=1)
            keep = rank.q + rest >= self.at_least
            if not keep.all():
                self.ranks[r] = _Rank(rank.levels[keep], rank.masks[keep], rank.q[keep], rank.gain[keep])
                dropped = True
        return dropped

    def result(self) -> ScoredFamily:
        # All sets are seen now, so b is the true maximum; each pass can only lower it.
        self.ranks.append(_Rank(*(part[:0] for part in self.ranks[0])))
        while self.prune(first=0):
            pass
        family = Family.of_levels(np.concatenate([rank.levels for rank in self.ranks]), self.chains)
        masks = np.concatenate([rank.masks for rank in self.ranks])
        q = np.concatenate([rank.q for rank in self.ranks])
        by_mask = np.argsort(masks)
        return ScoredFamily(family, q[by_mask[np.searchsorted(masks[by_mask], family.masks)]], self.n_scored)
