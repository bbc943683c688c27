"""What is a good decomposable model when there are too many variables to compare them all?

1. Join components by the best pair of vertices until no pair improves the score: the forest of Chow and Liu (1968),
   penalised.
2. Add the best legal edge until none improves the score, then delete edges, then do both.
3. Try two moves in a row, the first of which may lose: this exchanges edges.
4. Shake the model by a few random moves among a few keys, climb again, and continue from there unless it is worse; after
   every improvement try exchanges again.

Scores of sets are kept. Where counting is expensive, a set is counted only when the entropies of its parts do not rule
out a gain; where it is cheap, all sets of two and three keys are counted together at the start.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import local
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.search.local import BOTH
from rarecell.search.score import LEAST_GAIN, KnownScores

_STAGE = "greedy search"
MAX_SHAKE = 20
"""Largest number of moves in one shake: enough to leave the neighbourhood of a local optimum."""
KEYS_SHAKEN = 7
"""A shake stays among this many keys: moves far apart do not help each other."""
_DRAWS_PER_SHAKE = 100


class Climbs:
    """Local optima met so far, and the path of the best score.

    Attributes
    ----------
    score_of : dict of bytes to float
        Score of each local optimum, identified by its neighbour masks as bytes.
    times_met : Counter of bytes
        How often each was met.
    path : list of float
        The best score after each move that raised it.
    is_complete : bool
        False when the deadline ended the first climb before a local optimum was reached.
    """

    def __init__(self, known: KnownScores, progress: Progress = SILENT, deadline: float = math.inf) -> None:
        self.known = known
        self.progress = progress
        self.deadline = deadline
        self.is_complete = True
        self.score_of: dict[bytes, float] = {}
        self.times_met: Counter[bytes] = Counter()
        self.path: list[float] = []

    @property
    def best(self) -> NDArray[np.uint64]:
        """The best local optimum; among equals, the first met."""
        return np.frombuffer(max(self.score_of, key=self.score_of.__getitem__), dtype=np.uint64)

    @property
    def best_score(self) -> float:
        return max(self.score_of.values())

    def climb(self, neighbours: NDArray[np.uint64], *stages: int) -> float:
        """Climb in place, stage by stage, to a local optimum and remember it; returns its score."""
        score = self.known.value(neighbours)
        self._pass_by(score)
        for allowed in stages:
            for gain in self.known.climb(neighbours, allowed, self.progress, self.deadline):
                score += gain
                self._pass_by(score)
        value = self.known.value(neighbours)
        if time.monotonic() > self.deadline:
            # The climb stopped at a valid model, but not at a local optimum unless it had just reached one.
            self.is_complete = bool(self.score_of)
            if self.score_of:
                return value
        self.score_of.setdefault(neighbours.tobytes(), value)
        self.times_met[neighbours.tobytes()] += 1
        return value

    def exchange(self, neighbours: NDArray[np.uint64], score: float) -> float:
        """Make the best pair of moves that gains, climb on, and repeat until there is none; returns the new score."""
        while time.monotonic() < self.deadline:
            moves, gain = self._best_exchange(neighbours)
            if moves is None:
                break
            local.make_move(neighbours, self.known.vertices, moves[0], moves[1])
            local.make_move(neighbours, self.known.vertices, moves[2], moves[3])
            self._pass_by(score + gain)
            score = self.climb(neighbours, BOTH)
        return score

    def _best_exchange(self, neighbours: NDArray[np.uint64]) -> tuple[tuple[int, int, int, int] | None, float]:
        known, vertices = self.known, self.known.vertices
        best_moves, best = None, LEAST_GAIN
        for u, v in itertools.combinations(range(len(neighbours)), 2):
            if vertices.key[u] == vertices.key[v]:
                continue
            first = local.change_of_move(neighbours, vertices, known.table, known.missing, u, v, BOTH)
            if math.isnan(first):
                known.fill_missing()
                first = local.change_of_move(neighbours, vertices, known.table, known.missing, u, v, BOTH)
            if math.isinf(first):
                continue
            trial = neighbours.copy()
            local.make_move(trial, vertices, u, v)
            while True:
                x, y, second = local.best_move(trial, vertices, known.table, known.missing, BOTH, best - first)
                if not known.fill_missing():
                    break
                checkpoint(self.progress, _STAGE)
            if x >= 0:
                best_moves, best = (u, v, x, y), first + second
            if time.monotonic() > self.deadline:
                break
        return best_moves, best

    def _pass_by(self, score: float) -> None:
        if not self.path or score > self.path[-1]:
            self.path.append(score)


def greedy_search(
    known: KnownScores, *, rounds: int, seed: int = 0, max_seconds: float = math.inf, progress: Progress = SILENT
) -> tuple[Climbs, int]:
    """Climb from the best forest, then improve by exchanges and ``rounds`` shakes; returns the climbs and the rounds made.

    The result depends only on ``seed`` and ``rounds``, unless ``max_seconds`` ends the search first. The edges that gain
    most are added first, so a search that is ended early has the strongest associations.
    """
    deadline = time.monotonic() + max_seconds
    progress.start(_STAGE, float(rounds + 1))
    known.fill_small()
    climbs = Climbs(known, progress, deadline)
    current = known.forest
    score = climbs.climb(current, local.JOIN_COMPONENTS, local.ADD, local.DELETE, BOTH)
    score = climbs.exchange(current, score)
    checkpoint(progress, _STAGE, 1.0)
    rng = np.random.default_rng(seed)
    n_rounds = 0
    while n_rounds < rounds and time.monotonic() < deadline:
        trial = current.copy()
        local.shake(trial, known.vertices, known.table.limits, _draws(known, rng), int(rng.integers(2, MAX_SHAKE + 1)))
        value = climbs.climb(trial, BOTH)
        if value > score + LEAST_GAIN:
            value = climbs.exchange(trial, value)
        if value > score - LEAST_GAIN:
            current, score = trial, value
        n_rounds += 1
        checkpoint(progress, _STAGE, 1.0)
    progress.done()
    return climbs, n_rounds


def _draws(known: KnownScores, rng: np.random.Generator) -> NDArray[np.int64]:
    """Random pairs of vertices of a few random keys."""
    n_keys = len(known.chains)
    keys = rng.permutation(n_keys)[:KEYS_SHAKEN]
    vertices = np.array([v for k in keys for v in known.chains[k]], dtype=np.int64)
    return vertices[rng.integers(0, len(vertices), (_DRAWS_PER_SHAKE, 2))]
