"""Which decomposable models are plausible, and how plausible is each?

When the score is a log posterior probability (``criterion="bayes"`` and equal prior probabilities), models are drawn
independently from the posterior distribution itself, by the dynamic programme of exact search with sums in place of
maxima (Kangas, Niinimäki and Koivisto 2015). The programme draws a rooted junction tree. A graph has as many of those as
junction trees times cliques, so it is drawn too often by that factor and is weighted by the inverse.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import sampling as kernels
from rarecell.errors import BadInput, TooLarge
from rarecell.graph.chordal import ChordalGraph
from rarecell.graph.masks import all_below, subsets
from rarecell.model.decomposable import DecomposableModel
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.search.bounds import ScoredFamily, admissible_sets
from rarecell.search.exact import cost_of
from rarecell.search.greedy import greedy_search
from rarecell.search.result import usable_memory
from rarecell.search.score import KnownScores, make_score
from rarecell.table.contingency import ContingencyTable
from rarecell.table.marginals import Marginals

NEGLIGIBLE = 40.0
"""Models that score lower than a known one by more than this need not be drawn: their total weight is negligible."""
MAX_SECONDS = 600.0
_SUMS_PER_MAXIMUM = 25.0
_STAGE = "sampling models"

_Options: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
"""What can come next: sets, what is left after each, and the logarithm of its weight."""


@dataclass(frozen=True, eq=False)
class ModelSample:
    """Models drawn from their posterior distribution.

    Attributes
    ----------
    models : tuple of DecomposableModel
        The distinct models, heaviest first.
    weights : ndarray of float64
        Estimated posterior probabilities, summing to 1.
    times_drawn : ndarray of int64
        How often each was drawn, before weighting.
    log_total : float
        Log of Σ exp(score) over all models, each counted once for every rooted junction tree.
    n_drawn : int
        Number of draws.
    """

    models: tuple[DecomposableModel, ...] = field(repr=False)
    weights: NDArray[np.float64]
    times_drawn: NDArray[np.int64]
    log_total: float
    n_drawn: int

    def __str__(self) -> str:
        return (
            f"{self.n_drawn:,} draws gave {len(self.models):,} different decomposable models; the most probable has "
            f"posterior probability {self.weights[0]:.3g}: {self.models[0].describe()}."
        )


def sample_models(
    table: ContingencyTable,
    n_draws: int = 1000,
    criterion: str | float = "bayes",
    seed: int = 0,
    max_clique: int | None = None,
    *,
    marginals: Marginals | None = None,
    memory_limit: int | None = None,
    progress: Progress = SILENT,
) -> ModelSample:
    """Draw decomposable models with probability proportional to exp(score), for Bayesian model averaging.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table.
    n_draws : int, optional
        Number of independent draws.
    criterion : str or float, optional
        The score; ``"bayes"`` makes it a log posterior probability up to a constant.
    seed : int, optional
        Seed of the draws.
    max_clique : int, optional
        Largest number of keys in a clique.
    marginals : Marginals, optional
        Counts to fit to; by default, those of the records.
    memory_limit : int, optional
        Bytes for the tables; by default, what is free on the machine.
    progress : Progress, optional
        Receives progress reports, and can ask to stop.

    References
    ----------
    Kangas, Niinimäki and Koivisto (2015). Averaging of decomposable graphs by dynamic programming and sampling. UAI.
    """
    if n_draws < 1:
        raise BadInput(f"n_draws was given as {n_draws}; it must be a whole number of 1 or more.")
    score = make_score(table, criterion, marginals=marginals)
    known = KnownScores(score, max_clique=max_clique)
    climbs, _ = greedy_search(known, rounds=50, progress=progress)
    scored = admissible_sets(score, at_least=climbs.best_score - NEGLIGIBLE, max_clique=max_clique, progress=progress)
    cost = cost_of(scored.family)
    if 1.5 * cost.n_bytes > usable_memory(memory_limit) or _SUMS_PER_MAXIMUM * cost.seconds > MAX_SECONDS:
        raise TooLarge(
            f"Sampling models over {cost.n_sets:,} sets of vertices would take more than {MAX_SECONDS / 60:.0f} minutes or more "
            "memory than may be used. Allow more (--memory), bound the size of cliques (max_clique) or use fewer keys."
        )
    sums = _Sums(scored, progress)
    rng = np.random.default_rng(seed)
    drawn = Counter(sums.draw(rng) for _ in range(n_draws))
    graphs = {cliques: ChordalGraph.from_clique_masks(table.n_vertices, cliques) for cliques in drawn}
    weight = {c: times / (graphs[c].n_junction_trees * len(graphs[c].cliques)) for c, times in drawn.items()}
    total = math.fsum(weight.values())
    ordered = sorted(drawn, key=lambda cliques: (-weight[cliques], cliques))
    return ModelSample(
        tuple(DecomposableModel(table, graph=graphs[cliques], marginals=marginals) for cliques in ordered),
        np.array([weight[cliques] / total for cliques in ordered]),
        np.array([drawn[cliques] for cliques in ordered]),
        sums.log_total,
        n_draws,
    )


class _Sums:
    """The tables of the dynamic programme, and draws from them."""

    def __init__(self, scored: ScoredFamily, progress: Progress = SILENT) -> None:
        family, self.q = scored.family, scored.q
        self.family = family
        self.links = family.links()
        self.e, self.f, self.h = (np.full(family.n_states, -np.inf) for _ in range(3))
        self.e[self.links.block] = self.q
        self.room = family.n_sets
        self._choices: dict[tuple[str, int, int], tuple[list[tuple[int, int]], NDArray[np.float64]]] = {}
        n_steps = int(family.lengths.sum())
        progress.start(_STAGE, float(n_steps))
        for rho in range(1, n_steps + 1):
            kernels.sum_of_larger(self.links, self.e, self.f, rho, self.room)
            kernels.sum_of_smaller(self.links, self.q, self.f, self.h, rho, self.room)
            kernels.sum_of_divisions(self.links, self.h, self.e, rho)
            checkpoint(progress, _STAGE, 1.0)
        progress.done()
        self.everything = all_below(len(family.chains))

    @property
    def log_total(self) -> float:
        return float(self.f[self.links.block[0] + self.everything])

    def draw(self, rng: np.random.Generator) -> tuple[int, ...]:
        """The cliques of a graph, drawn with probability proportional to exp(score) times its rooted junction trees."""
        cliques = []
        waiting = [self._choose(self._larger, 0, self.everything, rng)]
        while waiting:
            c, rest = waiting.pop()
            cliques.append(int(self.family.masks[c]))
            while rest:
                _, part = self._choose(self._part, c, rest, rng)
                separator, part_there = self._choose(self._smaller, c, part, rng)
                waiting.append(self._choose(self._larger, separator, part_there, rng))
                rest ^= part
        return tuple(sorted(cliques))

    def _choose(self, step: Callable[[int, int], _Options], c: int, rest: int, rng: np.random.Generator) -> tuple[int, int]:
        known = (step.__name__, c, rest)
        if known not in self._choices:
            sets, rests, log_weight = step(c, rest)
            weight = np.exp(log_weight - log_weight.max())
            self._choices[known] = list(zip(sets.tolist(), rests.tolist(), strict=True)), np.cumsum(weight)
        options, upper = self._choices[known]
        return options[min(int(np.searchsorted(upper, rng.random() * upper[-1], side="right")), len(options) - 1)]

    def _larger(self, c: int, rest: int) -> _Options:
        sets, rests = np.empty(self.room, dtype=np.int64), np.empty(self.room, dtype=np.int64)
        n = kernels.larger_sets(self.links, c, rest, sets, rests)
        return sets[:n], rests[:n], self.e[self.links.block[sets[:n]] + rests[:n]]

    def _smaller(self, c: int, rest: int) -> _Options:
        sets, rests = np.empty(self.room, dtype=np.int64), np.empty(self.room, dtype=np.int64)
        n = kernels.smaller_sets(self.links, c, rest, sets, rests)
        return sets[:n], rests[:n], self.f[self.links.block[sets[:n]] + rests[:n]] - self.q[sets[:n]]

    def _part(self, c: int, rest: int) -> _Options:
        first = rest & -rest
        parts = subsets(rest ^ first) | first
        start = self.links.block[c]
        return np.full(len(parts), c), parts, self.h[start + parts] + self.e[start + (rest ^ parts)]
