"""Which hierarchical model near the best decomposable ones is better than they are?

A decomposable model pays for whole cliques and cannot have a cycle without chords. Starting from such a model, the search
drops the highest interaction of a generator, or adds an interaction whose parts are all present (which may break
chordality), as long as the score improves. It ends in a local optimum or when time runs out; the result is not certified.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput, TooLarge, UnknownChoice
from rarecell.graph.masks import each_member, holds, in_canonical_order, is_inside, single
from rarecell.model.decomposable import DecomposableModel
from rarecell.model.generating_class import degrees_of_freedom, maximal_sets, triangulation
from rarecell.model.hierarchical import MEMORY_LIMIT, HierarchicalModel
from rarecell.model.proportional_fitting import JunctionTreeFit
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.table.contingency import ContingencyTable
from rarecell.table.marginals import Marginals

TOLERANCE = 0.01
"""Number of records by which marginals may deviate in models that are only compared."""

MAX_CYCLES = 500

ROUGH_CYCLES = 10
"""Cycles after which the loss from dropping an interaction is known well enough to rank it."""

_SHARES = 5
"""Memory is shared by the model reached, the models it is compared with, and what is computed from them."""
MAX_SECONDS = 30.0

LEAST_GAIN = 1e-3
"""A smaller improvement of the score may come from fits that are not quite converged."""

SMALL_LOSS = 5.0
"""Moves that seem to lose no more than this many degrees of freedom are worth a fit."""

TRIES_PER_STEP = 8
"""The most promising moves that are fitted before a model counts as a local optimum."""

STAGE = "searching hierarchical models"


@dataclass(frozen=True)
class ModelChange:
    """A step of the search: an interaction that was ``added`` to the model or dropped from it, and the score reached."""

    vertices: tuple[str, ...]
    added: bool
    score: float

    def __str__(self) -> str:
        return f"{'added' if self.added else 'dropped'} {{{', '.join(self.vertices)}}}: {self.score:,.3f}"


@dataclass(frozen=True, eq=False)
class HierarchicalSearchResult:
    """The best hierarchical model found.

    Attributes
    ----------
    best : HierarchicalModel
        The model, fitted to the usual tolerance.
    score : float
        Log-likelihood (kernel) less the penalty times the degrees of freedom; higher is better.
    start_scores : tuple of float
        Scores of the models that the search started from, in the order given.
    moves : tuple of ModelChange
        The moves from the start to the best model.
    n_fits : int
        Number of models fitted.
    is_complete : bool
        False when time ran out before every start had reached a local optimum.
    seconds : float
        Time taken.
    """

    best: HierarchicalModel
    score: float
    start_scores: tuple[float, ...]
    moves: tuple[ModelChange, ...] = field(repr=False)
    n_fits: int
    is_complete: bool
    seconds: float

    @property
    def gain(self) -> float:
        """Improvement of the score over the best start."""
        return self.score - max(self.start_scores)

    def __str__(self) -> str:
        end = "local optima from all starts" if self.is_complete else "stopped by its time limit"
        return (
            f"Hierarchical search ({end}, {self.n_fits:,} models fitted in {self.seconds:.1f} s) improved the score by "
            f"{self.gain:,.3f} in {len(self.moves)} steps: {self.best.describe()}."
        )


def improve_model(
    table: ContingencyTable,
    starts: Sequence[DecomposableModel | HierarchicalModel],
    *,
    criterion: str | float = "aic",
    max_seconds: float = MAX_SECONDS,
    memory_limit: float = MEMORY_LIMIT,
    marginals: Marginals | None = None,
    progress: Progress = SILENT,
) -> HierarchicalSearchResult:
    """Search the hierarchical models around some starting models.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table.
    starts : sequence of DecomposableModel or HierarchicalModel
        Models to start from, best first; for example the optima that ``select_model`` found.
    criterion : str or float, optional
        ``"aic"``, ``"bic"`` or a penalty per degree of freedom.
    max_seconds : float, optional
        No move is tried after this time, which the starts share evenly.
    memory_limit : float, optional
        Bytes for the tables of the cliques; models that need more than a fifth of it are not compared.
    marginals : Marginals, optional
        Counts to fit to; by default, those of the records.
    progress : Progress, optional
        Receives progress reports, and can ask to stop.

    Notes
    -----
    Moves are ranked before they are fitted. Adding the set h raises the log-likelihood by at least
    Σ n_h log(n_h / E_h), the gain from one step of proportional fitting; a deletion costs at most what the likelihood
    has lost after a few cycles of fitting the smaller model.
    """
    if not starts:
        raise BadInput("The search needs at least one model to start from, for example select_model(table).best.")
    began = time.monotonic()
    climb = _Climb(marginals or table.marginals, _penalty(table, criterion), memory_limit / _SHARES, progress)
    progress.start(STAGE, None)
    best: tuple[float, tuple[int, ...], tuple[ModelChange, ...]] | None = None
    scores = []
    is_complete = True
    for number, start in enumerate(starts):
        deadline = began + max_seconds * (number + 1) / len(starts)
        generators = maximal_sets(table, start.generator_masks)
        scores.append(climb.score(generators))
        end, moves, at_optimum = climb.run(generators, deadline)
        is_complete &= at_optimum
        if best is None or climb.score(end) > best[0] + LEAST_GAIN:
            best = (climb.score(end), end, moves)
    progress.done()
    assert best is not None
    model = HierarchicalModel(
        table, _names(table, best[1]), marginals=climb.marginals, must_converge=False, max_cycles=2_000, memory_limit=memory_limit
    )
    score = model.log_likelihood_kernel - climb.penalty * model.degrees_of_freedom
    return HierarchicalSearchResult(model, score, tuple(scores), best[2], climb.n_fits, is_complete, time.monotonic() - began)


def _penalty(table: ContingencyTable, criterion: str | float) -> float:
    if isinstance(criterion, int | float):
        return float(criterion)
    if criterion == "aic":
        return 1.0
    if criterion == "bic":
        return 0.5 * math.log(table.n_records)
    raise UnknownChoice.of("The criterion of a hierarchical search", criterion, ["aic", "bic"], others="a penalty such as 0.7")


def _names(table: ContingencyTable, generators: Sequence[int]) -> list[tuple[str, ...]]:
    return [table.names_of(mask) for mask in generators]


class _Climb:
    """Scores of the models met so far, and the climb from a model."""

    def __init__(self, marginals: Marginals, penalty: float, memory_limit: float, progress: Progress) -> None:
        self.marginals = marginals
        self.table = marginals.table
        self.penalty = penalty
        self.memory_limit = memory_limit
        self.progress = progress
        self.n_fits = 0
        self._scores: dict[tuple[int, ...], float] = {}
        self._latest: tuple[tuple[int, ...], HierarchicalModel] | None = None
        self._bounds: dict[tuple[int, ...], float] = {}

    def model(self, generators: tuple[int, ...]) -> HierarchicalModel:
        """The fitted model; only the latest is kept, because each may fill its share of the memory."""
        if self._latest is None or self._latest[0] != generators:
            self._latest = None
            self._latest = generators, self._fitted(generators, MAX_CYCLES)
        return self._latest[1]

    def _fitted(self, generators: tuple[int, ...], max_cycles: int) -> HierarchicalModel:
        return HierarchicalModel(
            self.table,
            _names(self.table, generators),
            marginals=self.marginals,
            tolerance=TOLERANCE,
            max_cycles=max_cycles,
            memory_limit=self.memory_limit,
            must_converge=False,
        )

    def score(self, generators: tuple[int, ...]) -> float:
        """Score of a model; −inf when it is too large."""
        if generators not in self._scores:
            checkpoint(self.progress, STAGE, 1.0)
            self.n_fits += 1
            try:
                model = self.model(generators)
                self._scores[generators] = model.log_likelihood_kernel - self.penalty * model.degrees_of_freedom
            except TooLarge:
                self._scores[generators] = -math.inf
        return self._scores[generators]

    def run(self, generators: tuple[int, ...], deadline: float) -> tuple[tuple[int, ...], tuple[ModelChange, ...], bool]:
        """Climb until no promising move improves the score; returns the model, the moves, and whether time sufficed."""
        moves: list[ModelChange] = []
        while True:
            step = self._step(generators, deadline)
            if step is None:
                return generators, tuple(moves), time.monotonic() < deadline
            generators, changed, added = step
            moves.append(ModelChange(self.table.names_of(self.table.reduce(changed)), added, self.score(generators)))

    def _step(self, generators: tuple[int, ...], deadline: float) -> tuple[tuple[int, ...], int, bool] | None:
        """The first of the most promising moves that improves the score."""
        present = self.score(generators)
        if math.isinf(present):
            return None
        model = self.model(generators)
        ranked = [(self._drop_gain(generators, g), g, False) for g in generators if self.table.reduce(g).bit_count() > 1]
        for h in additions(self.table, generators):
            if time.monotonic() >= deadline:
                return None
            ranked.append((self._add_gain(model, h), h, True))
        # The gains are lower bounds, so a small loss may still turn out to be a gain.
        ranked = sorted((move for move in ranked if move[0] > -SMALL_LOSS * self.penalty), key=lambda move: (-move[0], move[1]))
        for _, changed, added in ranked[:TRIES_PER_STEP]:
            if time.monotonic() >= deadline:
                return None
            tried = _with(self.table, generators, changed) if added else _without(self.table, generators, changed)
            if self.score(tried) > present + LEAST_GAIN:
                return tried, changed, added
        return None

    # ------------------------------------------------------------------ what a move promises

    def _drop_gain(self, generators: tuple[int, ...], g: int) -> float:
        """A lower bound on the gain in score: the likelihood after a few cycles is not above its maximum."""
        smaller = _without(self.table, generators, g)
        if smaller not in self._bounds:
            checkpoint(self.progress, STAGE)
            try:
                rough = self._fitted(smaller, ROUGH_CYCLES)
                self._bounds[smaller] = rough.log_likelihood_kernel - self.penalty * rough.degrees_of_freedom
            except TooLarge:
                self._bounds[smaller] = -math.inf
        return self._bounds[smaller] - self.score(generators)

    def _add_gain(self, model: HierarchicalModel, h: int) -> float:
        """A lower bound on the gain in likelihood, less the penalty for the degrees of freedom."""
        larger = _with(self.table, model.generator_masks, h)
        paid = self.penalty * (degrees_of_freedom(self.table, larger) - model.degrees_of_freedom)
        observed = self.marginals.counts(h).astype(float)
        # No model gains more than the marginal's own deviation from independence among its keys.
        of_keys = [self.marginals.entropy_term(single(v)) for v in each_member(self.table.reduce(h))]
        if self.marginals.entropy_term(h) - sum(of_keys) < paid:
            return -math.inf
        try:
            expected = fitted_marginal(model, h, memory_limit=self.memory_limit)
        except TooLarge:
            return -math.inf
        return float((observed * np.log(observed / expected)).sum()) - paid


def fitted_marginal(model: HierarchicalModel, mask: int, *, memory_limit: float = MEMORY_LIMIT) -> NDArray[np.float64]:
    """Expected counts of a model at the occupied cells of any marginal.

    The set is made complete in the junction tree, and the model's factors are loaded into it without any fitting.
    """
    marginals = model.marginals
    sets = (*model.generator_masks, model.table.close(mask))
    tree = JunctionTreeFit(marginals, sets, triangulation(model.table, sets), memory_limit=memory_limit)
    return tree.expected_with(model.log_factors)


# ---------------------------------------------------------------------- neighbouring generating classes


def faces_of(table: ContingencyTable, mask: int) -> list[int]:
    """The maximal closed sets strictly inside a closed set: in each, the finest vertex of one key is taken out."""
    return [mask & ~single(v) for v in each_member(table.reduce(mask))]


def additions(table: ContingencyTable, generators: Sequence[int]) -> list[int]:
    """Closed sets that are not in the model although all their faces are: the interactions that can be added alone."""
    addable = set()

    def is_generated(mask: int) -> bool:
        return any(is_inside(mask, g) for g in generators)

    larger = {table.close(single(chain[0])) for chain in table.chains}  # the coarsest vertex of each key
    seen = set()
    while larger:
        mask = larger.pop()
        for chain in table.chains:
            # The next finer vertex of a key, or its coarsest when the key is absent.
            following = next((v for v in chain if not holds(mask, v)), None)
            if following is None:
                continue
            grown = mask | single(following)
            if grown in seen:
                continue
            seen.add(grown)
            if is_generated(grown):
                larger.add(grown)
            elif all(is_generated(face) for face in faces_of(table, grown)):
                addable.add(grown)
    return list(in_canonical_order(addable))


def _with(table: ContingencyTable, generators: Sequence[int], mask: int) -> tuple[int, ...]:
    return maximal_sets(table, [*generators, mask])


def _without(table: ContingencyTable, generators: Sequence[int], mask: int) -> tuple[int, ...]:
    return maximal_sets(table, [*(g for g in generators if g != mask), *faces_of(table, mask)])
