"""How good is a model, as a function of its cliques and separators?

Every score here is Σ_C q(C) − Σ_S ν(S) q(S) for a set function q with q(∅) = 0, so that adding or deleting one edge
changes four set scores and the best graph can be found by dynamic programming. Higher is better.

===========  =============================================================================================
criterion    q(a)
===========  =============================================================================================
``aic``      Σ n_a log(n_a/n) − (Π I_v − 1)              (−AIC/2 up to a constant)
``bic``      Σ n_a log(n_a/n) − ½ log n · (Π I_v − 1)
a number c   Σ n_a log(n_a/n) − c · (Π I_v − 1)
``bayes``    Σ [lnΓ(n_a+α_a) − lnΓ(α_a)] + lnΓ(α) − lnΓ(α+n), α_a = α/Π I_v: the hyper-Dirichlet marginal likelihood
===========  =============================================================================================

Π I_v counts the possible cells of the set, so a coarsening beside its key costs nothing. The −1 makes q(∅) = 0 and the
sum the log-likelihood less c times the degrees of freedom of every graph, disconnected ones included.
"""

from __future__ import annotations

import itertools
import math
import time
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import local
from rarecell._kernels.gamma import log_gammas
from rarecell.errors import UnknownChoice
from rarecell.graph.masks import mask_of
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.search.set_family import closed_levels, masks_of_levels

if TYPE_CHECKING:
    from rarecell.table.contingency import ContingencyTable
    from rarecell.table.marginals import Marginals


CRITERIA = ("aic", "bic", "bayes")


class Score(Protocol):
    """A set function, summed over cliques less separators."""

    table: ContingencyTable
    name: str

    def q_many(self, masks: NDArray[np.uint64]) -> NDArray[np.float64]:
        """q of each set of vertices."""


def possible_cells(table: ContingencyTable, masks: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Number of possible cells of each set, ignoring structural zeros; vectorised, exact below 2^53."""
    product = np.ones(len(masks))
    for chain in table.chains:
        levels = np.ones(len(masks))
        for v in chain:  # coarsest first, so the finest member of the set has the last word
            levels = np.where((masks >> np.uint64(v)) & np.uint64(1) == 1, float(table.vertex_levels[v]), levels)
        product *= levels
    return product


class PenalisedLikelihood:
    """Maximised log-likelihood less ``penalty`` for every degree of freedom."""

    def __init__(self, marginals: Marginals, penalty: float, name: str) -> None:
        self.marginals = marginals
        self.table = marginals.table
        self.penalty = penalty
        self.name = name

    def q_many(self, masks: NDArray[np.uint64]) -> NDArray[np.float64]:
        return self.marginals.entropy_terms(masks) - self.penalty * (possible_cells(self.table, masks) - 1.0)


def penalty_of(score: Score) -> float:
    """The penalty per degree of freedom, on which bounds of the score rest; nan for a score that has no such bounds."""
    return score.penalty if isinstance(score, PenalisedLikelihood) else math.nan


class CompatibleLikelihood:
    """Maximised log-likelihood less ``price`` for every degree of freedom, counted over cells without structural zeros.

    Not a :class:`PenalisedLikelihood`: the bounds of the search hold only for counts that are products of numbers of levels.
    """

    def __init__(self, marginals: Marginals, price: float, name: str) -> None:
        assert marginals.table.compatibility is not None, "a table without structural zeros has a simpler score"
        self.marginals = marginals
        self.table = marginals.table
        self.price = price
        self.name = name
        self._n_cells = marginals.table.compatibility.n_cells_many

    def q_many(self, masks: NDArray[np.uint64]) -> NDArray[np.float64]:
        return self.marginals.entropy_terms(masks) - self.price * (self._n_cells(masks) - 1.0)


class HyperDirichlet:
    """Log marginal likelihood under a hyper-Dirichlet prior of total mass ``mass``, spread evenly over the cells.

    References
    ----------
    Dawid and Lauritzen (1993), Hyper Markov laws in the statistical analysis of decomposable graphical models.
    """

    def __init__(self, marginals: Marginals, mass: float = 1.0) -> None:
        self.marginals = marginals
        self.table = marginals.table
        self.mass = mass
        self.name = "bayes"
        self._known: dict[int, float] = {0: 0.0}

    def q_many(self, masks: NDArray[np.uint64]) -> NDArray[np.float64]:
        return np.array([self._q(self.table.reduce(int(mask))) for mask in masks])

    def _q(self, reduced: int) -> float:
        if reduced not in self._known:
            each = self.mass / self.table.n_possible_cells(reduced)
            counts = self.marginals.counts(reduced)
            of_cells = log_gammas(counts + each) - math.lgamma(each)
            self._known[reduced] = float(of_cells.sum()) + math.lgamma(self.mass) - math.lgamma(self.mass + self.marginals.total)
        return self._known[reduced]


class LeastCount:
    """Another score that forbids sets of several keys with an occupied cell of fewer than ``least`` records.

    A larger set has smaller cells, so a model without forbidden cliques has no forbidden separators. A single key is never
    forbidden: it is in every model.
    """

    FORBIDDEN = -1e15
    """Far below every sum of scores, yet finite: a search subtracts scores from each other."""

    def __init__(self, score: PenalisedLikelihood | CompatibleLikelihood | HyperDirichlet, least: int) -> None:
        self.score = score
        self.table = score.table
        self.marginals = score.marginals
        self.least = least
        self.name = f"{score.name}, cells of at least {least}"

    def q_many(self, masks: NDArray[np.uint64]) -> NDArray[np.float64]:
        allowed = np.array([self._is_allowed(self.table.reduce(int(mask))) for mask in masks])
        q = np.full(len(masks), self.FORBIDDEN)
        if allowed.any():
            q[allowed] = self.score.q_many(masks[allowed])
        return q

    def _is_allowed(self, reduced: int) -> bool:
        return reduced.bit_count() < 2 or int(self.marginals.counts(reduced).min(initial=self.least)) >= self.least


def make_score(
    table: ContingencyTable, criterion: str | float, *, marginals: Marginals | None = None
) -> PenalisedLikelihood | CompatibleLikelihood | HyperDirichlet:
    """Make the score that a user names: ``"aic"``, ``"bic"``, ``"bayes"``, or a penalty per degree of freedom (AIC is 1).

    Structural zeros of the table are not counted in degrees of freedom.
    """
    marginals = marginals or table.marginals
    penalised = PenalisedLikelihood if table.structural_zeros is None else CompatibleLikelihood
    if isinstance(criterion, int | float):
        # A reward for every degree of freedom would always choose the saturated model.
        if not math.isfinite(criterion) or criterion < 0:
            raise UnknownChoice.of("The criterion", criterion, CRITERIA, others="a penalty such as 0.7")
        return penalised(marginals, float(criterion), f"penalty {criterion:g}")
    if criterion == "aic":
        return penalised(marginals, 1.0, "aic")
    if criterion == "bic":
        return penalised(marginals, 0.5 * math.log(table.n_records), "bic")
    if criterion == "bayes":
        return HyperDirichlet(marginals)
    try:
        return make_score(table, float(criterion), marginals=marginals)
    except ValueError:
        raise UnknownChoice.of("The criterion", criterion, CRITERIA, others="a penalty such as 0.7") from None


# What has the search learnt about the score so far?
#
# A search asks for the scores of the same few sets again and again, and never for those of most sets. :class:`KnownScores`
# is the cache between a :class:`~rarecell.search.score.Score`, which counts marginals, and the kernels, which see arrays:
# the sets that a kernel lacks are scored together, on all cores, and put into its table.


LEAST_GAIN = 1e-6
"""Smaller score changes are rounding: likelihoods of a million records are sums near 1e7."""
MAX_TABULATED_SETS = 1 << 16
"""Up to this many sets may all be scored beforehand, so that no kernel ever waits."""
_MISSING_AT_ONCE = 1 << 14
"""Room for what one pass over all pairs of 64 vertices can lack: four sets each."""
_CELLS_AT_ONCE = 40_000_000
_SMALL_SETS = 4096


class KnownScores:
    """Scores of sets known so far, in the form that kernels take.

    Parameters
    ----------
    score : Score
        The set function.
    max_clique : int, optional
        Largest number of keys in a clique; None for no limit.
    max_cells : float, optional
        Largest number of possible cells of a clique that a search may make.
    """

    def __init__(self, score: Score, *, max_clique: int | None = None, max_cells: float = math.inf) -> None:
        self.score = score
        table = score.table
        self.chains = table.chains
        n = table.n_vertices
        with_coarser = np.zeros(n, dtype=np.uint64)
        with_finer = np.zeros(n, dtype=np.uint64)
        for chain in table.chains:
            for place, v in enumerate(chain):
                with_coarser[v] = mask_of(chain[: place + 1])
                with_finer[v] = mask_of(chain[place:])
        self.vertices = local.VertexMasks(table.vertex_key, table.vertex_levels.astype(np.float64), with_coarser, with_finer)
        most_keys = float(table.n_keys if max_clique is None else max_clique)
        self._limits = np.array([penalty_of(score), max_cells, most_keys, LEAST_GAIN])
        self._masks = np.zeros(1 << 10, dtype=np.uint64)
        self._values = np.full(1 << 10, np.nan)
        self.n_known = 0
        self.missing = local.NeededScores(
            np.zeros(_MISSING_AT_ONCE, dtype=np.uint64), np.zeros(_MISSING_AT_ONCE), np.zeros(2, dtype=np.int64)
        )
        self._n_cells = table.n_cells

    @property
    def table(self) -> local.SetScores:
        """The known scores in the form that kernels take; ask again after each filling."""
        return local.SetScores(self._masks, self._values, self._limits)

    @property
    def forest(self) -> NDArray[np.uint64]:
        """Neighbour masks of the model of independent keys: each key is joined only to its own coarsenings."""
        own = self.vertices.with_coarser | self.vertices.with_finer
        return own & ~(np.uint64(1) << np.arange(len(own), dtype=np.uint64))

    def fill(self, masks: NDArray[np.uint64]) -> None:
        """Score these reduced sets, if they are not known yet."""
        unique = np.unique(masks)
        new = unique[np.isnan(local.lookup(self._masks, self._values, unique))]
        while 2 * (self.n_known + len(new)) > len(self._masks):
            self._grow()
        local.insert(self._masks, self._values, new, self.score.q_many(new))
        self.n_known += len(new)

    def fill_all(self, progress: Progress = SILENT) -> bool:
        """Score every set that may be a clique, unless there are too many; returns whether it did."""
        lengths = [len(chain) for chain in self.chains]
        if math.prod(r + 1 for r in lengths) > MAX_TABULATED_SETS:
            return False
        masks = masks_of_levels(closed_levels(lengths, int(self._limits[2])), self.chains)
        self.fill(self.score.table.reduce_many(masks))
        checkpoint(progress, "scoring sets")
        return True

    def fill_small(self) -> None:
        """Score all sets of two or three keys together, where that is cheap: a climb asks for most of them one by one."""
        lengths = [len(chain) for chain in self.chains]
        for n_keys in range(2, min(3, int(self._limits[2])) + 1):
            n_sets = sum(math.prod(some) for some in itertools.combinations(lengths, n_keys))
            if n_sets > _SMALL_SETS or n_sets * self._n_cells > _CELLS_AT_ONCE:
                return
            masks = masks_of_levels(closed_levels(lengths, n_keys), self.chains)
            self.fill(self.score.table.reduce_many(masks))

    def fill_missing(self) -> bool:
        """Score what kernels lacked, the most promising first; False when nothing was missing.

        Sets that are merely possible improvements are scored in batches, because once the best of them are known, the
        rest often cannot matter.
        """
        n = int(self.missing.n[0])
        if not n:
            return False
        self.missing.n[:] = 0
        masks, bounds = self.missing.masks[:n], self.missing.bounds[:n]
        needed = masks[np.isinf(bounds)]
        perhaps = masks[~np.isinf(bounds)][np.argsort(-bounds[~np.isinf(bounds)], kind="stable")]
        at_once = max(16, _CELLS_AT_ONCE // self._n_cells)
        self.fill(np.concatenate([needed, perhaps[:at_once]]))
        return True

    def climb(
        self, neighbours: NDArray[np.uint64], allowed: int, progress: Progress = SILENT, deadline: float = math.inf
    ) -> list[float]:
        """Climb in place until no allowed move improves the score, or until the deadline; returns the gain of each move."""
        gains: list[float] = []
        buffer = np.empty(512)
        is_top = False
        while not is_top:
            n_moves, is_top = local.climb(neighbours, self.vertices, self.table, self.missing, allowed, buffer)
            gains.extend(buffer[:n_moves].tolist())
            if not is_top and time.monotonic() > deadline:
                self.missing.n[:] = 0
                break
            if not is_top:
                self.fill_missing()
                checkpoint(progress, "searching models")
        return gains

    def value(self, neighbours: NDArray[np.uint64]) -> float:
        """Score of a whole graph, summed over its cliques less its separators."""
        value = float(local.value_of(neighbours, self.vertices, self.table, self.missing))
        while math.isnan(value):
            self.fill_missing()
            value = float(local.value_of(neighbours, self.vertices, self.table, self.missing))
        return value

    def _grow(self) -> None:
        masks, values = np.zeros(2 * len(self._masks), dtype=np.uint64), np.full(2 * len(self._masks), np.nan)
        is_used = ~np.isnan(self._values)
        local.insert(masks, values, self._masks[is_used], self._values[is_used])
        self._masks, self._values = masks, values
