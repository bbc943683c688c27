"""From a table and a criterion to a :class:`SearchResult`: which search runs, and what its result says."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import local as moves
from rarecell.choices import SEARCHES
from rarecell.errors import BadInput, TooLarge, UnknownChoice
from rarecell.graph.chordal import ChordalGraph
from rarecell.model.decomposable import DecomposableModel
from rarecell.progress import SILENT, OnlyCancelled, Progress
from rarecell.search.bounds import MAX_SETS, ScoredFamily, TooManySets, admissible_sets, all_sets
from rarecell.search.exact import best_cliques, cost_of, estimate_exact
from rarecell.search.greedy import Climbs, greedy_search
from rarecell.search.local import local_search
from rarecell.search.n_best import best_graphs
from rarecell.search.result import LocalOptimum, SearchLimits, SearchResult
from rarecell.search.score import KnownScores, LeastCount, PenalisedLikelihood, Score, make_score
from rarecell.table.contingency import ContingencyTable
from rarecell.table.marginals import Marginals

PENALTIES = (0.5, 0.7, 1.0, 1.5)
"""Penalties per degree of freedom whose optima are averaged; AIC is 1."""
ROUNDS_PER_RESTART = 10
"""A round of greedy search is this many times cheaper than a restart of Algorithm 1, and less independent of earlier ones."""
_ROUNDS_BEFORE_EXACT = 100
DEFAULT_LIMITS = SearchLimits()


def select_model(
    table: ContingencyTable,
    criterion: str | float = "aic",
    search: str = "auto",
    restarts: int = 100,
    seed: int = 0,
    max_clique: int | None = None,
    *,
    n_best: int = 1,
    least_count: int = 0,
    max_seconds: float | None = None,
    limits: SearchLimits = DEFAULT_LIMITS,
    marginals: Marginals | None = None,
    progress: Progress = SILENT,
) -> SearchResult:
    """Find the decomposable model of a table with the best score.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table; its coarsenings are vertices of the model too.
    criterion : str or float, optional
        ``"aic"``, ``"bic"``, ``"bayes"``, or a penalty per degree of freedom.
    search : str, optional
        ``"auto"``, ``"exact"``, ``"local"`` or ``"greedy"``.
    restarts : int, optional
        Runs of Algorithm 1; the greedy search makes ten rounds for each.
    seed : int, optional
        Seed of the random choices of local and greedy search; the same seed gives the same result.
    max_clique : int, optional
        Largest number of keys in a clique.
    n_best : int, optional
        How many of the best models an exact search lists in ``optima``.
    least_count : int, optional
        Only models whose cliques of several keys have no occupied cell with fewer records than this.
    max_seconds : float, optional
        Time limit of a local or greedy search (45 seconds by default); the result of a search that reaches it depends on
        the speed of the machine.
    limits : SearchLimits, optional
        Memory of an exact search, and when another search takes its place.
    marginals : Marginals, optional
        Counts to fit to; by default, those of the records.
    progress : Progress, optional
        Receives progress reports, and can ask to stop.

    Examples
    --------
    >>> import numpy as np, rarecell as rc
    >>> from rarecell.search import select_model
    >>> keys = [rc.Categories(name, (0, 1)) for name in "abc"]
    >>> table = rc.ContingencyTable.from_counts(
    ...     [[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1], [1, 0, 1]], [30, 30, 25, 28, 3], keys
    ... )
    >>> search = select_model(table)
    >>> search.best.cliques, search.certified_optimal
    ((('a', 'b'), ('c',)), True)

    References
    ----------
    Kangas, Koivisto and Niinimäki (2014). Learning chordal Markov networks by dynamic programming. NIPS 27.
    Takemura and Endo (2006). Evaluation of per-record identification risk and swappability of records in a microdata set
    via decomposable models. arXiv:math/0603609.
    """
    if search not in SEARCHES:
        raise UnknownChoice.of("The search", search, tuple(SEARCHES))
    for name, number in (("restarts", restarts), ("max_clique", max_clique), ("n_best", n_best)):
        if number is not None and number < 1:
            raise BadInput(f"{name} was given as {number}; it must be a whole number of 1 or more.")
    limits = limits if max_seconds is None else replace(limits, greedy_seconds=max_seconds)
    scored = make_score(table, criterion, marginals=marginals)
    score: Score = scored if least_count < 2 else LeastCount(scored, least_count)
    watched = _Balanced(progress)
    run = _Search(score, max_clique, marginals or table.marginals, watched, limits)
    if search == "local":
        return run.local(restarts, seed)
    if search == "greedy":
        return run.greedy(restarts, seed)
    try:
        return run.exact(n_best, min(limits.auto_seconds, limits.greedy_seconds) if search == "auto" else math.inf)
    except TooManySets as problem:
        if search == "exact":
            raise TooLarge(
                f"An exact search of {table.n_vertices} vertices is out of reach: {problem}. Bound the size of cliques "
                "(max_clique), use fewer keys or coarsenings, or search greedily."
            ) from None
        watched.close()
        return run.greedy(restarts, seed)


def penalty_path(
    table: ContingencyTable,
    penalties: Sequence[float] = PENALTIES,
    search: str = "auto",
    restarts: int = 100,
    seed: int = 0,
    max_clique: int | None = None,
    *,
    limits: SearchLimits = DEFAULT_LIMITS,
    marginals: Marginals | None = None,
    progress: Progress = SILENT,
) -> tuple[SearchResult, ...]:
    """Find the best model at each penalty per degree of freedom; marginals are counted once for all.

    The average of these models estimates risk better than any of them: see :class:`~rarecell.model.average.AverageModel`.
    """
    # The smallest penalty needs the most sets; the others reuse what it counts.
    by_penalty = {
        penalty: select_model(
            table, penalty, search, restarts, seed, max_clique, limits=limits, marginals=marginals, progress=progress
        )
        for penalty in sorted(penalties)
    }
    return tuple(by_penalty[penalty] for penalty in penalties)


class _Balanced(OnlyCancelled):
    """Passes on progress, and closes the stages that work which was given up has left open."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(progress)
        self.n_open = 0

    def start(self, stage: str, total: float | None = None) -> None:
        self.n_open += 1
        self._progress.start(stage, total)

    def advance(self, amount: float = 1.0) -> None:
        self._progress.advance(amount)

    def done(self) -> None:
        self.n_open -= 1
        self._progress.done()

    def close(self) -> None:
        while self.n_open:
            self.done()


class _UntilDeadline(_Balanced):
    """Passes on progress, and ends the work with :class:`TooManySets` when it takes too long."""

    def __init__(self, progress: Progress, deadline: float) -> None:
        super().__init__(progress)
        self.deadline = deadline

    def cancelled(self) -> bool:
        if time.monotonic() > self.deadline:
            raise TooManySets("it takes much longer than was estimated")
        return super().cancelled()


class _Search:
    """One search for the best model by one score."""

    def __init__(
        self, score: Score, max_clique: int | None, marginals: Marginals, progress: Progress, limits: SearchLimits
    ) -> None:
        self.score = score
        self.table = score.table
        self.max_clique = max_clique
        self.marginals = marginals
        self.progress = progress
        self.known = KnownScores(score, max_clique=max_clique, max_cells=limits.max_clique_cells)
        self.limits = limits
        self.max_seconds = limits.greedy_seconds
        self.began = time.monotonic()
        self.before: tuple[Climbs, int] | None = None

    def exact(self, n_best: int, max_seconds: float) -> SearchResult:
        """The certified best model; :class:`TooManySets` when that is estimated to take longer than ``max_seconds``."""
        scored, at_least = self._sets_that_matter(max_seconds)
        cost = cost_of(scored.family)
        if cost.seconds > max_seconds or (cost.n_bytes > self.limits.n_bytes and not math.isinf(max_seconds)):
            raise TooManySets(str(cost))
        # The estimate may be wrong or the machine busy: a search that was not asked to be exact must still end.
        patience = math.inf if math.isinf(max_seconds) else self.limits.patience * self.max_seconds
        watched = _UntilDeadline(self.progress, self.began + patience)
        value, cliques = best_cliques(scored.family, scored.q, memory_limit=self.limits.memory, progress=watched)
        graph = ChordalGraph.from_clique_masks(self.table.n_vertices, cliques)
        best = [(graph, value)]
        if n_best > 1:
            if not math.isinf(at_least):
                at_least = self._score_of_nth_best(graph, n_best)
                scored = admissible_sets(self.score, at_least=at_least, max_clique=self.max_clique, progress=self.progress)
            best = best_graphs(
                scored.family, scored.q, n_best, at_least=at_least, memory_limit=self.limits.memory, progress=self.progress
            )
        optima = tuple(LocalOptimum(graph, value, 1) for graph, value in best)
        return self._result("exact", optima, starts=1, n_sets=scored.n_scored, estimated_seconds=cost.seconds)

    def _sets_that_matter(self, max_seconds: float) -> tuple[ScoredFamily, float]:
        """The sets that the exact search compares, and the score that their models must be able to reach."""
        n_sets = estimate_exact(self.table, self.max_clique).n_sets
        if self.table.n_keys > self.limits.most_keys and math.isfinite(max_seconds):
            # Even the bounds need every marginal of all keys but one.
            raise TooManySets(f"{self.table.n_keys} keys are too many")
        has_bounds = isinstance(self.score, PenalisedLikelihood)
        is_few = n_sets <= self.limits.few_sets
        if is_few and (n_sets * self.table.n_cells <= self.limits.few_counts or not has_bounds):
            return all_sets(self.score, max_clique=self.max_clique), -math.inf
        if n_sets > MAX_SETS and not has_bounds:
            raise TooManySets(f"all {n_sets:,} sets of vertices would have to be compared")
        climbs, n_rounds = greedy_search(self.known, rounds=_ROUNDS_BEFORE_EXACT, max_seconds=max_seconds, progress=self.progress)
        self.before = climbs, n_rounds
        if n_rounds < _ROUNDS_BEFORE_EXACT and not is_few:
            raise TooManySets("a first greedy search took all the time there is")
        # Few sets are certain to be compared, however long they take to count.
        is_limited = math.isfinite(max_seconds) and not is_few
        scored = admissible_sets(
            self.score,
            at_least=climbs.best_score,
            max_clique=self.max_clique,
            max_seconds=min(max_seconds, self._seconds_left) if is_limited else math.inf,
            progress=self.progress,
        )
        return scored, climbs.best_score

    def _score_of_nth_best(self, graph: ChordalGraph, n_best: int) -> float:
        """A score that at least ``n_best`` different models reach: the graph, its neighbours, and their neighbours."""
        met = {graph.adjacency.tobytes(): self.known.value(graph.adjacency)}
        waiting = list(met)
        while len(met) < n_best and waiting:
            neighbours = np.frombuffer(waiting.pop(0), dtype=np.uint64)
            for u, v in zip(*np.triu_indices(len(neighbours), 1), strict=True):
                other = neighbours.copy()
                moves.shake(other, self.known.vertices, self.known.table.limits, np.array([[u, v]]), 1)
                if other.tobytes() not in met:
                    met[other.tobytes()] = self.known.value(other)
                    waiting.append(other.tobytes())
        return sorted(met.values(), reverse=True)[n_best - 1] if len(met) >= n_best else -math.inf

    def local(self, restarts: int, seed: int) -> SearchResult:
        """Algorithm 1 from ``restarts`` random starts."""
        runs = local_search(self.known, restarts=restarts, seed=seed, max_seconds=self._seconds_left, progress=self.progress)
        ends = [end.tobytes() for end in runs.ends]
        score_of = dict(zip(ends, runs.scores.tolist(), strict=True))
        optima = _by_score(score_of, Counter(ends))
        path = runs.paths[ends.index(optima[0].graph.adjacency.tobytes())]
        result = self._result("local", optima, starts=len(runs.ends), n_sets=self.known.n_known, path=path)
        return result if runs.is_complete else replace(result, time_limit=self.max_seconds)

    @property
    def _seconds_left(self) -> float:
        return max(0.0, self.began + self.max_seconds - time.monotonic())

    def greedy(self, restarts: int, seed: int) -> SearchResult:
        """From the best forest, by exchanges and shakes."""
        rounds = ROUNDS_PER_RESTART * restarts
        if self.before is not None and self._seconds_left == 0:
            climbs, n_rounds = self.before
        else:
            # What an earlier search of this kind has counted is known, so repeating its steps is cheap.
            climbs, n_rounds = greedy_search(
                self.known, rounds=rounds, seed=seed, max_seconds=self._seconds_left, progress=self.progress
            )
            if self.before is not None and self.before[0].best_score > climbs.best_score:
                climbs, n_rounds = self.before
        optima = _by_score(climbs.score_of, climbs.times_met)
        result = self._result("greedy", optima, starts=1 + n_rounds, n_sets=self.known.n_known, path=climbs.path)
        if n_rounds == rounds:
            return result
        return replace(result, time_limit=self.max_seconds, reached_optimum=climbs.is_complete)

    def _result(
        self,
        method: str,
        optima: tuple[LocalOptimum, ...],
        *,
        starts: int,
        n_sets: int,
        path: Sequence[float] = (),
        estimated_seconds: float | None = None,
    ) -> SearchResult:
        best = optima[0]
        return SearchResult(
            best=DecomposableModel(self.table, graph=best.graph, marginals=self.marginals),
            score=best.score,
            optima=optima,
            certified_optimal=method == "exact",
            method=method,
            criterion=self.score.name,
            starts=starts,
            times_met=best.times_met,
            max_clique=self.max_clique,
            n_sets=n_sets,
            seconds=time.monotonic() - self.began,
            estimated_seconds=estimated_seconds,
            path=tuple(path),
        )


def _by_score(score_of: dict[bytes, float], times_met: Counter[bytes]) -> tuple[LocalOptimum, ...]:
    """Local optima, best first; among equals, the first met comes first."""
    ordered = sorted(score_of, key=lambda neighbours: -score_of[neighbours])
    return tuple(
        LocalOptimum(ChordalGraph.from_neighbours(_masks(neighbours)), score_of[neighbours], times_met[neighbours])
        for neighbours in ordered
    )


def _masks(neighbours: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(neighbours, dtype=np.uint64)
