"""Search for the best decomposable model by the means that fit the size of the problem, and say what that proves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import UnknownChoice
from rarecell.graph.chordal import ChordalGraph
from rarecell.marginals import Marginals
from rarecell.model.decomposable import DecomposableModel
from rarecell.progress import SILENT, Progress
from rarecell.score import Score, make_score
from rarecell.search.bounds import TooManySets, admissible_sets
from rarecell.search.exact import ExactCost, available_bytes, best_cliques, cost_of
from rarecell.search.family import Family, closed_levels
from rarecell.search.greedy import Climbs, greedy_search
from rarecell.search.known import KnownScores
from rarecell.search.local import local_search
from rarecell.table import ContingencyTable

SEARCHES = ("auto", "exact", "local", "greedy")

MOST_EXACT_SECONDS = 30.0
"""``auto`` searches exactly when that is estimated to take less."""

FIRST_ROUNDS = 10
"""Shakes of the greedy search that comes before the exact one and tells it what can be left out."""

MOST_GREEDY_SECONDS = 60.0
"""The greedy search makes its rounds unless that takes longer."""

MOST_CELLS_PER_RECORD = 20.0
"""A clique of the greedy search has at most so many possible cells for each record, so that memory holds."""


@dataclass(frozen=True)
class LocalOptimum:
    """A model that no single change improves, its score, and how many climbs ended there."""

    graph: ChordalGraph
    score: float
    times_met: int


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found.

    Attributes
    ----------
    best : DecomposableModel
        The best model found.
    score : float
        Its score: kernel log-likelihood less the penalty, or the log marginal likelihood. Higher is better.
    method : str
        ``"exact"``, ``"local"`` or ``"greedy"``.
    certified_optimal : bool
        Whether no other decomposable model (within ``max_clique``) has a better score: proved, not hoped.
    optima : tuple of LocalOptimum
        Every local optimum that was met, the best first.
    starts : int
        Climbs made.
    times_met : int
        How many of them ended at the best model.
    path : tuple of float
        The best score after each improvement.
    n_sets : int
        Sets that the exact search ran over.
    max_clique : int or None
        The bound on the keys of a clique.
    """

    best: DecomposableModel
    score: float
    method: str
    certified_optimal: bool
    optima: tuple[LocalOptimum, ...]
    starts: int
    times_met: int
    path: tuple[float, ...] = field(default=(), repr=False)
    n_sets: int = 0
    max_clique: int | None = None

    def __str__(self) -> str:
        among = "" if self.max_clique is None else f" with cliques of at most {self.max_clique} keys"
        if self.certified_optimal:
            return f"Exact search: no decomposable model of these vertices{among} has a better score; that is proved."
        how = {
            "local": f"Local search from {self.starts:,} random graphs met this model {self.times_met:,} times",
            "greedy": f"Greedy search with {self.starts:,} climbs met this model {self.times_met:,} times",
        }[self.method]
        return f"{how}; it is the best of {len(self.optima):,} local optima{among}, and a better one may exist."


def select_model(
    table: ContingencyTable,
    *,
    criterion: str | float = "aic",
    search: str = "auto",
    restarts: int = 100,
    seed: int = 0,
    max_clique: int | None = None,
    max_seconds: float = MOST_GREEDY_SECONDS,
    marginals: Marginals | None = None,
    progress: Progress = SILENT,
) -> SearchResult:
    """The decomposable model with the best score.

    Parameters
    ----------
    table : ContingencyTable
        Its vertices, keys and coarsenings, are the vertices of the graph.
    criterion : str or float, optional
        ``"aic"``, ``"bic"``, ``"bayes"``, or a penalty for each degree of freedom.
    search : {"auto", "exact", "local", "greedy"}
        ``"auto"`` is exact when that is estimated to take less than half a minute, greedy otherwise.
    restarts : int, optional
        Starts of the local, rounds of the greedy search.
    seed : int, optional
        Of their random choices.
    max_clique : int, optional
        Largest number of keys in a clique.
    max_seconds : float, optional
        The greedy search ends after this time, whatever rounds are left.
    marginals : Marginals, optional
        Counts to fit to; those of the records unless given.
    progress : Progress, optional
        Is told of the work and can stop it.

    Returns
    -------
    SearchResult

    Examples
    --------
    >>> import numpy as np, rarecell as rc
    >>> rng = np.random.default_rng(0)
    >>> codes = rng.integers(0, 3, (500, 4)).astype(np.int32)
    >>> codes[:, 1] = codes[:, 0]
    >>> table = rc.ContingencyTable.from_codes(codes, [rc.Categories(key, (0, 1, 2)) for key in "abcd"])
    >>> found = rc.select_model(table)
    >>> found.best.cliques
    (('a', 'b'), ('c',), ('d',))
    >>> found.certified_optimal
    True
    """
    if search not in SEARCHES:
        raise UnknownChoice.of("The search", search, SEARCHES)
    score = make_score(table, criterion, marginals=marginals)
    return _Selection(score, restarts, seed, max_clique, max_seconds, marginals, progress).result(search)


def penalty_path(
    table: ContingencyTable,
    *,
    penalties: Sequence[float] = (0.5, 0.7, 1.0, 1.5),
    search: str = "auto",
    restarts: int = 100,
    seed: int = 0,
    max_clique: int | None = None,
    marginals: Marginals | None = None,
    progress: Progress = SILENT,
) -> tuple[SearchResult, ...]:
    """The best models at several penalties for each degree of freedom; every marginal is counted once for all of them."""
    return tuple(
        select_model(
            table,
            criterion=penalty,
            search=search,
            restarts=restarts,
            seed=seed,
            max_clique=max_clique,
            marginals=marginals,
            progress=progress,
        )
        for penalty in penalties
    )


def estimate_exact(table: ContingencyTable, *, max_clique: int | None = None) -> ExactCost:
    """Time and memory that an exact search needs at most: over all sets, none of them excluded by the data."""
    lengths = [len(chain) for chain in table.chains]
    n_sets = math.prod(r + 1 for r in lengths)
    if n_sets > 1 << 22 and max_clique is None:
        return ExactCost(math.inf, 1 << 62, n_sets)
    return cost_of(Family.of_levels(closed_levels(lengths, max_clique or table.n_keys), table.chains))


class _Selection:
    """One search: what was asked for, and what is known so far."""

    def __init__(
        self,
        score: Score,
        restarts: int,
        seed: int,
        max_clique: int | None,
        max_seconds: float,
        marginals: Marginals | None,
        progress: Progress,
    ) -> None:
        self.score = score
        self.restarts = restarts
        self.seed = seed
        self.max_clique = max_clique
        self.max_seconds = max_seconds
        self.marginals = marginals
        self.progress = progress
        max_cells = MOST_CELLS_PER_RECORD * score.table.n_records + 1e4
        self.known = KnownScores(score, max_clique=max_clique, max_cells=max_cells)

    def result(self, search: str) -> SearchResult:
        if search == "local":
            climbs = local_search(self.known, restarts=self.restarts, seed=self.seed, progress=self.progress)
            return self._of_climbs(climbs, "local")
        if search == "greedy":
            return self._of_climbs(self._greedy(self.restarts), "greedy")
        climbs = self._greedy(FIRST_ROUNDS)
        limit = math.inf if search == "exact" else MOST_EXACT_SECONDS
        try:
            scored = admissible_sets(
                self.score, at_least=climbs.best_score, max_clique=self.max_clique, max_cost=limit, progress=self.progress
            )
        except TooManySets:
            return self._of_climbs(self._greedy(self.restarts), "greedy")
        cost = cost_of(scored.family)
        if search == "auto" and (cost.seconds > limit or cost.n_bytes > available_bytes()):
            return self._of_climbs(self._greedy(self.restarts), "greedy")
        value, cliques = best_cliques(scored.family, scored.q, progress=self.progress)
        graph = ChordalGraph.from_cliques(self.score.table.n_vertices, cliques)
        return self._of_climbs(climbs, "exact", graph=graph, score=value, n_sets=scored.family.n_sets)

    def _greedy(self, rounds: int) -> Climbs:
        climbs, _ = greedy_search(self.known, rounds=rounds, seed=self.seed, max_seconds=self.max_seconds, progress=self.progress)
        return climbs

    def _of_climbs(
        self, climbs: Climbs, method: str, *, graph: ChordalGraph | None = None, score: float | None = None, n_sets: int = 0
    ) -> SearchResult:
        optima = [
            LocalOptimum(_closed(np.frombuffer(met, dtype=np.uint64), self.score.table), value, climbs.times_met[met])
            for met, value in climbs.score_of.items()
        ]
        optima.sort(key=lambda one: -one.score)
        best = optima[0].graph if graph is None else graph
        return SearchResult(
            DecomposableModel(self.score.table, graph=best, marginals=self.marginals),
            optima[0].score if score is None else score,
            method,
            graph is not None,
            tuple(optima),
            sum(climbs.times_met.values()),
            sum(one.times_met for one in optima if one.graph == best),
            tuple(climbs.path),
            n_sets,
            self.max_clique,
        )


def _closed(neighbours: NDArray[np.uint64], table: ContingencyTable) -> ChordalGraph:
    """The graph whose cliques hold with every vertex the coarser ones of its key."""
    graph = ChordalGraph.from_neighbours(neighbours.tolist())
    if not table.coarsenings:
        return graph
    return ChordalGraph.from_cliques(table.n_vertices, [table.close(clique) for clique in graph.cliques])
