"""Which sets can be inside a clique of a model that is at least as good as one we know?

Build a closed graph from a clique C by adding one vertex v at a time, each joined to a complete set P of earlier vertices.
Its score is q(C) + Σ [q(P∪v) − q(P)]. This gives upper bounds on the score of every model with C inside a clique:

1. With b(v) the largest q(P∪v) − q(P) over all sets P that may be complete, the score is at most q(C) + Σ_{v∉C} b(v).
2. With P limited to C and the vertices before v, in the best order, it is at most q(C) plus the sum of these gains: the
   best Bayesian network that begins with C (:mod:`rarecell.search.bounds`). This bound is much tighter but needs a table.
3. For a likelihood penalised by c per degree of freedom, it is at most the saturated log-likelihood less c times the
   degrees of freedom of the smallest such model, in which all other keys are attached to C by their coarsenings alone.

A set whose bound falls short of a known score cannot matter, and all bounds fall as a set grows. So the sets that
matter are found in order of size, each from smaller ones; b covers the sets seen and the most that larger ones could reach.
For other scores nothing is known about sets not yet seen, so all are scored and the bounds are applied at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import exact as kernels
from rarecell.graph.masks import single
from rarecell.machine.threads import n_cores
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.search.score import PenalisedLikelihood, Score, penalty_of, possible_cells
from rarecell.search.set_family import Family, closed_levels, masks_of_levels

SECONDS_PER_SET = 2e-5
SECONDS_PER_CELL = 0.6e-9
"""Rough cost of scoring: per set, and per cell of the table and key of the set, on two cores of 2023."""
BEYOND_CACHE = 100_000
SECONDS_BEYOND_CACHE = 4e-9
"""A table with more cells does not fit into a core's cache; each of its cells then costs this much more for every set."""
SHARE_TRIED, SHARE_AHEAD = 0.1, 0.5
"""Once this share of the time is spent, the search goes on only if there is time for that share of the sets still ahead."""
MAX_SETS = 4_000_000
"""No more sets than this are tried: they would fill the memory before the dynamic programme begins."""


@dataclass(frozen=True, eq=False)
class ScoredFamily:
    """Admissible closed sets with their scores, and how many sets were scored to find them."""

    family: Family
    q: NDArray[np.float64]
    n_scored: int


class TooManySets(Exception):
    """The admissible sets, or the work to find them, exceed what the caller allows."""


def all_sets(score: Score, *, max_clique: int | None = None) -> ScoredFamily:
    """All closed sets with at most ``max_clique`` keys."""
    chains = score.table.chains
    most = len(chains) if max_clique is None else max_clique
    family = Family.of_levels(closed_levels([len(chain) for chain in chains], most), chains)
    return ScoredFamily(family, score.q_many(family.masks), family.n_sets)


def admissible_sets(
    score: Score,
    *,
    at_least: float = -math.inf,
    max_clique: int | None = None,
    max_seconds: float = math.inf,
    progress: Progress = SILENT,
) -> ScoredFamily:
    """Find the closed sets that can be inside a clique of a model with a score of ``at_least`` or more.

    Parameters
    ----------
    score : Score
        The set function.
    at_least : float, optional
        A score that some model is known to reach; −inf to keep all sets.
    max_clique : int, optional
        Largest number of keys in a clique.
    max_seconds : float, optional
        Give up with :class:`TooManySets` when scoring is estimated to take longer, or when the bounds have excluded so little
        that it will.
    """
    growth = _Growth(score, at_least - _slack(at_least), max_clique)
    seconds = 0.0
    progress.start("scoring sets")
    while True:
        levels, smaller = growth.candidates()
        if not len(levels):
            progress.done()
            return growth.result()
        seconds += growth.seconds_to_score(levels)
        is_hopeless = seconds > SHARE_TRIED * max_seconds and seconds + SHARE_AHEAD * growth.seconds_ahead(levels) > max_seconds
        if seconds > max_seconds or is_hopeless or growth.n_scored + len(levels) > MAX_SETS:
            raise TooManySets(f"more than {growth.n_scored + len(levels):,} sets of vertices would have to be compared")
        growth.take(levels, smaller)
        checkpoint(progress, "scoring sets", float(len(levels)))


def _slack(score: float) -> float:
    return 0.0 if math.isinf(score) else 1e-9 * abs(score) + 1e-6


class _Rank(NamedTuple):
    """Sets with the same level sum, sorted by mask; ``gain[i, k]`` is q of set i less q of set i lowered at key k."""

    levels: NDArray[np.int64]
    masks: NDArray[np.uint64]
    q: NDArray[np.float64]
    gain: NDArray[np.float64]

    def where(self, keep: NDArray[np.bool_]) -> _Rank:
        return _Rank(self.levels[keep], self.masks[keep], self.q[keep], self.gain[keep])


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
        self.penalty = penalty_of(score)
        self.saturated, self.most_informed = self._likelihood_limits()
        self.orders = OrderBound(self.lengths) if OrderBound.is_feasible(self.lengths) else None
        self._completions: NDArray[np.float64] | None = None
        self.n_scored = 1
        empty = np.zeros((1, table.n_keys), dtype=np.int64)
        no_gain = np.full((1, table.n_keys), np.nan)
        self.ranks = [_Rank(empty, np.zeros(1, dtype=np.uint64), score.q_many(np.zeros(1, dtype=np.uint64)), no_gain)]

    def _likelihood_limits(self) -> tuple[float, NDArray[np.float64]]:
        """The saturated log-likelihood, and the largest gain in likelihood from each step on each chain."""
        shape = (len(self.chains), self.width.shape[1] - 1)
        if math.isnan(self.penalty):
            return math.inf, np.full(shape, math.inf)
        assert isinstance(self.score, PenalisedLikelihood)
        lengths, gain = self.lengths, np.full(shape, -math.inf)
        for k, length in enumerate(lengths):
            # All other keys at full resolution, the key itself at each level in turn.
            rows = np.tile(lengths, (length + 1, 1))
            rows[:, k] = np.arange(length + 1)
            gain[k, :length] = np.diff(self.score.marginals.entropy_terms(masks_of_levels(rows, self.chains)))
        return float(self.score.marginals.entropy_terms(masks_of_levels(lengths[None, :], self.chains))[0]), gain

    # ------------------------------------------------------------------ bounds

    def seen_steps(self) -> NDArray[np.float64]:
        """The most that one step on a chain adds to any set seen."""
        most = np.full(self.most_informed.shape, -math.inf)
        for rank in self.ranks[1:]:
            for k in range(len(self.chains)):
                for level in range(self.lengths[k]):
                    here = rank.gain[rank.levels[:, k] == level + 1, k]
                    if len(here):
                        most[k, level] = max(most[k, level], float(here.max()))
        return most

    def unseen_steps(self) -> NDArray[np.float64]:
        """The most that one step on a chain adds to any set not seen yet."""
        if not len(self.ranks[-1].levels) or math.isnan(self.penalty):
            return np.full(self.most_informed.shape, math.inf if len(self.ranks[-1].levels) else -math.inf)
        # A set not seen yet contains one of the last rank, and costs at least as much as that one without the key.
        width = self.width[np.arange(len(self.chains)), self.ranks[-1].levels]
        others = (width.prod(axis=1)[:, None] / width).min(axis=0)
        unseen = self.most_informed - self.penalty * np.diff(self.width, axis=1) * others[:, None]
        return np.where(np.isinf(self.most_informed), -math.inf, unseen)

    def rest_by_steps(self, levels: NDArray[np.int64]) -> NDArray[np.float64]:
        """The most that the vertices outside each set add to its score, each taking what is best for it."""
        b = np.maximum(self.seen_steps(), self.unseen_steps())
        tails = np.zeros_like(self.width)
        for k, length in enumerate(self.lengths):
            tails[k, :length] = np.cumsum(b[k, :length][::-1])[::-1]
        total: NDArray[np.float64] = tails[np.arange(len(self.chains)), levels].sum(axis=1)
        return total

    def rest_in_order(self, levels: NDArray[np.int64]) -> NDArray[np.float64]:
        """The same in the best order, each vertex taking what is best among the vertices before it."""
        assert self.orders is not None
        if self._completions is None:
            seen = self.ranks[1:]
            self._completions = self.orders.completions(
                np.concatenate([self.ranks[0].levels, *(rank.levels for rank in seen)]),
                np.concatenate([self.ranks[0].gain, *(rank.gain for rank in seen)]),
                self.unseen_steps(),
                len(self.ranks) - 1,
            )
        total: NDArray[np.float64] = self._completions[levels @ self.orders.stride]
        return total

    # ------------------------------------------------------------------ growth

    def candidates(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sets one step larger than the accepted ones whose parts are all accepted and that no bound excludes yet.

        Each comes with the position, in the last rank, of every set that is one step smaller.
        """
        last = self.ranks[-1]
        position = np.zeros((0, len(self.chains)), dtype=np.int64)
        if not len(last.levels):
            return position, position
        grown = []
        for k in range(len(self.chains)):
            # A set is grown at its last key or after it, so that it arises only once.
            can = (last.levels[:, k + 1 :] == 0).all(axis=1) & (last.levels[:, k] < self.lengths[k])
            rows = last.levels[can].copy()
            rows[:, k] += 1
            grown.append(rows[(rows > 0).sum(axis=1) <= self.max_keys])
        levels = np.concatenate(grown)
        position = self._smaller(levels, masks_of_levels(levels, self.chains))
        is_whole = ((position >= 0) | (levels == 0)).all(axis=1)
        levels, position = levels[is_whole], position[is_whole]
        if len(levels) and not math.isnan(self.penalty) and not math.isinf(self.at_least):
            keep = self._can_matter_unseen(levels, position)
            levels, position = levels[keep], position[keep]
        return levels, position

    def _smaller(self, levels: NDArray[np.int64], masks: NDArray[np.uint64]) -> NDArray[np.int64]:
        last = self.ranks[-1]
        position = np.full(levels.shape, -1, dtype=np.int64)
        for k, chain in enumerate(self.chains):
            rows = np.flatnonzero(levels[:, k] > 0)
            smaller = masks[rows] ^ np.array([single(v) for v in chain], dtype=np.uint64)[levels[rows, k] - 1]
            place = np.minimum(np.searchsorted(last.masks, smaller), len(last.masks) - 1)
            position[rows, k] = np.where(last.masks[place] == smaller, place, -1)
        return position

    def _can_matter_unseen(self, levels: NDArray[np.int64], position: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which sets pass the bounds known from the smaller sets: the likelihood only falls as a set grows."""
        width = self.width[np.arange(len(self.chains)), levels]
        cells = width.prod(axis=1)
        full = self.width[np.arange(len(self.chains)), self.lengths]
        least_freedom = cells - 1.0 + (full - width).sum(axis=1)
        last = self.ranks[-1]
        likelihood = last.q + self.penalty * (possible_cells(self.score.table, last.masks) - 1.0)
        most_likely = np.where(position >= 0, likelihood[position], math.inf).min(axis=1)
        most = most_likely - self.penalty * (cells - 1.0)
        keep: NDArray[np.bool_] = self.saturated - self.penalty * least_freedom >= self.at_least
        keep[keep] = (most + self.rest_by_steps(levels))[keep] >= self.at_least
        if self.orders is not None and self.seconds_to_score(levels[keep]) > self.orders.seconds:
            keep[keep] = (most[keep] + self.rest_in_order(levels[keep])) >= self.at_least
        return keep

    def seconds_to_score(self, levels: NDArray[np.int64]) -> float:
        """Rough estimate of the time it takes to score these sets."""
        of_table = self.score.table.n_cells
        n_possible = self.width[np.arange(len(self.chains)), levels].prod(axis=1)
        n_cells = np.minimum(of_table, 4.0 * n_possible)
        seconds = SECONDS_PER_SET + SECONDS_PER_CELL * n_cells * (levels > 0).sum(axis=1)
        if of_table > BEYOND_CACHE:
            seconds = seconds + SECONDS_BEYOND_CACHE * of_table
        return float(seconds.sum())

    def seconds_ahead(self, levels: NDArray[np.int64]) -> float:
        """Rough time for all larger sets, if the bounds leave as large a share of them as of these; 0 if cliques are bounded."""
        if self.max_keys < len(self.chains):
            return 0.0
        n_sets = np.ones(1)
        for length in self.lengths:
            n_sets = np.convolve(n_sets, np.ones(length + 1))
        rank = len(self.ranks)
        return float(n_sets[rank + 1 :].sum() / n_sets[rank] * self.seconds_to_score(levels))

    def take(self, levels: NDArray[np.int64], position: NDArray[np.int64]) -> None:
        """Score the candidates and accept those that can matter."""
        masks = masks_of_levels(levels, self.chains)
        q = self.score.q_many(masks)
        self.n_scored += len(masks)
        gain = np.where(position >= 0, q[:, None] - self.ranks[-1].q[position], np.nan)
        order = np.argsort(masks)
        self.ranks.append(_Rank(levels[order], masks[order], q[order], gain[order]))
        self._completions = None
        if not math.isinf(self.at_least) and not math.isnan(self.penalty):
            self.prune(self.rest_by_steps, first=len(self.ranks) - 1)

    @property
    def n_accepted(self) -> int:
        return sum(len(rank.masks) for rank in self.ranks)

    def prune(self, rest: Callable[[NDArray[np.int64]], NDArray[np.float64]], *, first: int) -> int:
        """Drop sets whose bound falls short, from level sum ``first`` on; returns how many."""
        n_dropped = 0
        for r in range(first, len(self.ranks)):
            rank = self.ranks[r]
            keep = rank.q + rest(rank.levels) >= self.at_least
            self.ranks[r] = rank.where(keep)
            n_dropped += int((~keep).sum())
        if n_dropped:
            self._completions = None
        return n_dropped

    def result(self) -> ScoredFamily:
        """The sets that matter, now that all are seen and the bounds are the true maxima."""
        self.ranks.append(self.ranks[0].where(np.zeros(1, dtype=np.bool_)))
        if not math.isinf(self.at_least):
            self._completions = None
            while self.prune(self.rest_by_steps, first=0):
                pass
            # A pass that drops few sets would cost more than it saves.
            while self.orders is not None and self.prune(self.rest_in_order, first=0) > 0.05 * self.n_accepted:
                pass
        levels = np.concatenate([rank.levels for rank in self.ranks])
        masks = np.concatenate([rank.masks for rank in self.ranks])
        q = np.concatenate([rank.q for rank in self.ranks])
        family = Family.of_levels(levels, self.chains)
        by_mask = np.argsort(masks)
        return ScoredFamily(family, q[by_mask[np.searchsorted(masks[by_mask], family.masks)]], self.n_scored)


# How much can the vertices outside a set still add to the score?
#
# The vertices of a chordal graph can be ordered so that each is joined to a complete set of earlier ones. If the set need
# not be complete, each vertex takes the best of all sets of earlier ones, as in a Bayesian network. The best order is then
# found by dynamic programming over the closed sets (Silander and Myllymäki 2006), and bounds all chordal graphs.


MAX_ENTRIES = 200_000_000
"""Largest table of gains (four bytes each): lattice points times keys."""
SECONDS_PER_ENTRY_AND_KEY = 1.2e-9


class OrderBound:
    """Upper bounds from the best order, for closed sets over chains of the given lengths."""

    def __init__(self, lengths: NDArray[np.int64]) -> None:
        self.radix = lengths + 1
        self.stride = np.array([math.prod(int(r) for r in self.radix[k + 1 :]) for k in range(len(lengths))], dtype=np.int64)
        self.n_points = math.prod(int(r) for r in self.radix)
        self.seconds = SECONDS_PER_ENTRY_AND_KEY * self.n_points * len(lengths) ** 2

    @staticmethod
    def is_feasible(lengths: NDArray[np.int64]) -> bool:
        return math.prod(int(r) + 1 for r in lengths) * len(lengths) <= MAX_ENTRIES

    def completions(
        self, levels: NDArray[np.int64], gains: NDArray[np.float64], unseen: NDArray[np.float64], n_seen: int
    ) -> NDArray[np.float64]:
        """For each point of the lattice, the most that the remaining steps add.

        Parameters
        ----------
        levels, gains : ndarray of int64, ndarray of float64
            Sets and, for each of their keys, their score less that of the set one step lower at that key.
        unseen : ndarray of float64
            The most that each step (key, level) adds to any other set.
        n_seen : int
            Other sets have at least this many vertices before the step.
        """
        points = levels @ self.stride
        shape = tuple(int(r) for r in self.radix)
        size = np.zeros(shape, dtype=np.int16)
        for k, r in enumerate(shape):
            size += np.arange(r, dtype=np.int16).reshape([-1 if x == k else 1 for x in range(len(shape))])
        is_large = (size >= n_seen).ravel()
        best = np.full((len(shape), self.n_points), -np.inf, dtype=np.float32)

        def fill(k: int) -> None:
            has = levels[:, k] > 0
            # Rounded up, so that it remains an upper bound.
            best[k, points[has] - self.stride[k]] = np.nextafter(gains[has, k].astype(np.float32), np.float32(np.inf))
            kernels.maximum_over_subsets(best[k], self.radix, self.stride, k)
            if np.isfinite(unseen[k]).any():
                of_level = np.nextafter(np.append(unseen[k], -np.inf)[: shape[k]].astype(np.float32), np.float32(np.inf))
                by_level = best[k].reshape(-1, shape[k], int(self.stride[k]))
                large = is_large.reshape(by_level.shape)
                np.maximum(by_level, of_level[None, :, None], out=by_level, where=large)

        with ThreadPoolExecutor(n_cores()) as pool:
            list(pool.map(fill, range(len(shape))))
        completions: NDArray[np.float64] = kernels.best_completion(best, self.radix, self.stride)
        return completions
