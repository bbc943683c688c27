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

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.gamma import log_gammas
from rarecell.errors import UnknownChoice

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


def make_score(table: ContingencyTable, criterion: str | float, *, marginals: Marginals | None = None) -> Score:
    """Make the score that a user names: ``"aic"``, ``"bic"``, ``"bayes"``, or a penalty per degree of freedom (AIC is 1).

    Structural zeros of the table are not counted in degrees of freedom.
    """
    marginals = marginals or table.marginals
    penalised = PenalisedLikelihood if table.structural_zeros is None else CompatibleLikelihood
    if isinstance(criterion, int | float):
        # A reward for every degree of freedom would always choose the saturated model.
        if not math.isfinite(criterion) or criterion < 0:
            raise UnknownChoice.of("The criterion", criterion, [*CRITERIA, "a penalty such as 0.7"])
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
        raise UnknownChoice.of("The criterion", criterion, [*CRITERIA, "a penalty such as 0.7"]) from None
