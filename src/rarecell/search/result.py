"""What a search found, and what that proves."""

from __future__ import annotations

from dataclasses import dataclass, field

from rarecell.graph.chordal import ChordalGraph
from rarecell.machine.memory import free_memory
from rarecell.model.decomposable import DecomposableModel
from rarecell.outcome.plain import Shown


@dataclass(frozen=True)
class LocalOptimum:
    """A model that no single-edge change improves, its score (higher is better), and how often the search met it."""

    graph: ChordalGraph
    score: float
    times_met: int


@dataclass(frozen=True, eq=False)
class SearchResult(Shown):
    """The model that a search chose.

    Attributes
    ----------
    best : DecomposableModel
        The chosen model, fitted.
    score : float
        Its score, higher is better; a sum over cliques less separators as in :mod:`rarecell.search.score`.
    optima : tuple of LocalOptimum
        Distinct local optima that were met, best first; for an exact search, the n best models.
    certified_optimal : bool
        Whether no decomposable model within ``max_clique`` has a better score.
    method : str
        ``"exact"``, ``"local"`` or ``"greedy"``.
    criterion : str
        The name of the score.
    starts : int
        Number of climbs; 1 for an exact search.
    times_met : int
        How many of the climbs ended in the best model.
    max_clique : int or None
        Largest number of keys allowed in a clique; None for no limit.
    n_sets : int
        Number of vertex sets whose score was compared.
    seconds : float
        Time taken.
    estimated_seconds : float or None
        Time of the exact search as estimated before it started; None when there was no estimate.
    path : tuple of float
        Increasing scores on the way to the best model of a local or greedy search.
    time_limit : float or None
        Seconds after which the search was stopped; None when it ended by itself.
    reached_optimum : bool
        False when the search was stopped before the first local optimum.
    """

    best: DecomposableModel
    score: float
    optima: tuple[LocalOptimum, ...] = field(repr=False)
    certified_optimal: bool
    method: str
    criterion: str
    starts: int
    times_met: int
    max_clique: int | None
    n_sets: int
    seconds: float
    estimated_seconds: float | None = None
    path: tuple[float, ...] = field(default=(), repr=False)
    time_limit: float | None = None
    reached_optimum: bool = True

    @property
    def conclusion(self) -> str:
        """What the search proves, without the numbers of sets, climbs and moves; empty unless it proves the optimum."""
        if not self.certified_optimal:
            return ""
        return f"Certified: no decomposable model{self._within} has a better {self.criterion} score"

    @property
    def _within(self) -> str:
        return "" if self.max_clique is None else f" with at most {self.max_clique} keys in a clique"

    @property
    def proof(self) -> str:
        """One sentence on what was done and what that proves; the same in every run."""
        within = self._within
        if not self.reached_optimum:
            gained = self.path[-1] - self.path[0]
            last = self.path[-1] - self.path[-2] if len(self.path) > 1 else 0.0
            proof = (
                f"Not certified, and no local optimum: the time limit of {self.time_limit:g} s ended the search after "
                f"{_count(len(self.path) - 1, 'move', 'moves')}{within}, which raised the {self.criterion} score of unrelated keys by "
                f"{gained:,.0f}, the last of them by {last:,.1f}; more time (--time-limit) finds a better model"
            )
        elif self.certified_optimal:
            proof = self.conclusion
        else:
            proof = (
                f"Not certified: of {_count(len(self.optima), 'local optimum', 'local optima')}{within} from "
                f"{_count(self.starts, 'climb', 'climbs')} this has the best {self.criterion} score, and was met "
                f"{_count(self.times_met, 'time', 'times')}; a better one may exist"
            )
            if self.time_limit is not None:
                proof += f", and the time limit of {self.time_limit:g} s (--time-limit) ended the search"
        return f"{proof} ({self.method} search, {self.n_sets:,} sets scored)"

    def __str__(self) -> str:
        return f"{self.proof}, {self.seconds:.2f} s: {self.best.describe()}."


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}"


# How far does a search go before it gives up or switches to another method?


@dataclass(frozen=True)
class SearchLimits:
    """Limits of the search for a decomposable model.

    Attributes
    ----------
    memory : int, optional
        Bytes for the tables of an exact search; by default what is free on the machine, and never more than that.
    auto_seconds : float
        ``auto`` is exact when an exact search is estimated to take less time than this.
    greedy_seconds : float
        A greedy search ends after this time, wherever it is.
    most_keys : int
        ``auto`` does not try an exact search with more keys than this.
    few_sets : int
        Up to this many sets, all are compared; if there are more, those that cannot matter are ruled out first.
    few_counts : float
        All are compared only if they also take no more than this many counts, one for each set and cell of the table: with more,
        ruling sets out is quicker than counting them.
    patience : float
        An exact search that was estimated to be quick is abandoned after this many times the time limit.
    max_clique_cells : float
        Greedy search makes no clique with more possible cells than this.
    """

    memory: int | None = None
    auto_seconds: float = 30.0
    greedy_seconds: float = 45.0
    most_keys: int = 24
    few_sets: int = 1024
    few_counts: float = 5e8
    patience: float = 3.0
    max_clique_cells: float = 1e8

    @property
    def n_bytes(self) -> int:
        """Memory that an exact search may use now."""
        return usable_memory(self.memory)


def usable_memory(allowed: int | None) -> int:
    """What is free on the machine, and no more than is allowed."""
    return free_memory() if allowed is None else min(allowed, free_memory())
