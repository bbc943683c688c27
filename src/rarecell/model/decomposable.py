"""What is the probability of a cell when the interactions form a chordal graph?

A decomposable log-linear model multiplies the marginal probabilities of the cliques of its graph and divides by those of
the separators, so no table larger than that of a clique is needed (Lauritzen 1996, section 4.4; Takemura and Endo 2006).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.gamma import log_gammas
from rarecell.errors import KeyMismatch, NotChordal
from rarecell.graph.chordal import ChordalGraph
from rarecell.graph.masks import holds
from rarecell.machine.solving import minimum
from rarecell.model.protocol import PluggedIn, Uncertainty
from rarecell.model.random_draws import draw_within, log_gamma_draws
from rarecell.outcome.plain import Plain
from rarecell.table.contingency import ContingencyTable
from rarecell.table.marginals import Marginals, cells_that_agree

if TYPE_CHECKING:
    from rarecell.edges import Json, ReadJson


# How well does a model fitted by maximum likelihood explain the table?


class LikelihoodMeasures:
    """Log-likelihood, information criteria and deviance, from the kernel and the degrees of freedom."""

    table: ContingencyTable
    marginals: Marginals

    if TYPE_CHECKING:

        @property
        def degrees_of_freedom(self) -> int: ...

        @property
        def log_likelihood_kernel(self) -> float: ...

    @property
    def log_likelihood(self) -> float:
        """The kernel plus log n!/Π n(i)!: what the paper calls the log-likelihood."""
        counts = self.table.counts
        return self.log_likelihood_kernel + math.lgamma(self.table.n_records + 1) - float(log_gammas(counts + 1.0).sum())

    @property
    def aic(self) -> float:
        """2 df − 2 log-likelihood, including the multinomial coefficient as in the paper."""
        return 2.0 * self.degrees_of_freedom - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """log n · df − 2 log-likelihood."""
        return math.log(self.table.n_records) * self.degrees_of_freedom - 2.0 * self.log_likelihood

    @property
    def deviance(self) -> float:
        """G² against the saturated model."""
        everything = self.table.all_keys
        return 2.0 * (self.marginals.entropy_term(everything) - self.log_likelihood_kernel)


# How uncertain are the probabilities of a decomposable model?
#
# Under a hyper-Dirichlet prior the clique tables have independent Dirichlet posteriors along the clique tree, so p(i) is a
# product of conditional probabilities, each of them a ratio of gamma variables.
#
# References
# ----------
# Dawid, A. P. and Lauritzen, S. L. (1993). Hyper Markov laws in the statistical analysis of decomposable graphical models.
# Annals of Statistics 21.


Floats = NDArray[np.float64]


def hyper_dirichlet_draws(
    marginals: Marginals, graph: ChordalGraph, cells: NDArray[np.int32], n_draws: int, rng: np.random.Generator, mass: float
) -> Floats:
    """Draws of log p for any cells (key codes), one row per draw and one column per cell.

    1. Walk the cliques in a perfect sequence; clique C shares S with the earlier ones.
    2. Given the value of S, the cells of C have a Dirichlet distribution with parameters n(i_C) + α_C. Only those that a
       requested cell falls into are drawn; all others together are one more gamma variable with the remaining parameter.
    3. log p is the sum of the logarithms of these conditional probabilities.
    """
    table, sequence = marginals.table, graph.perfect_sequence
    log_p = np.zeros((n_draws, len(cells)))
    if not len(cells):
        return log_p
    for clique, separator in zip(sequence.cliques, sequence.separators, strict=True):
        column = cells_that_agree(table, clique, cells)
        asked = cells[np.unique(column, return_index=True)[1]]
        group = cells_that_agree(table, separator, asked)
        one_of_each = asked[np.unique(group, return_index=True)[1]]
        parameter = marginals.lookup(clique, asked) + mass / table.n_possible_cells(clique)
        group_total = np.array([marginals.total + mass])
        if separator:
            group_total = marginals.lookup(separator, one_of_each) + mass / table.n_possible_cells(separator)
        # With a coarsening in the separator, a group can have more than an even share of the levels; nothing is left then.
        rest = np.maximum(group_total - np.bincount(group, weights=parameter, minlength=len(group_total)), 0.0)
        drawn = log_gamma_draws(parameter, n_draws, rng)
        order = np.argsort(group, kind="stable")
        first = np.searchsorted(group[order], np.arange(len(group_total)))
        of_asked = np.logaddexp.reduceat(drawn[:, order], first, axis=1)
        total = np.logaddexp(of_asked, log_gamma_draws(rest, n_draws, rng))
        log_p += (drawn - total[:, group])[:, column]
    return log_p


def most_probable_mass(marginals: Marginals, graph: ChordalGraph) -> float:
    """Total mass of the hyper-Dirichlet prior under which the observed counts are most probable (empirical Bayes).

    It is at most about the number of records: a prior must not outweigh the data, however even they are.
    """
    table = marginals.table
    signed = [(mask, 1) for mask in graph.clique_masks] + [(mask, -times) for mask, times in graph.separator_masks]
    parts = [(marginals.counts(mask), float(table.n_possible_cells(mask)), sign) for mask, sign in signed if mask]

    def loss(log_mass: float) -> float:
        mass = np.exp(log_mass)
        whole = math.lgamma(mass) - math.lgamma(mass + marginals.total)
        # The empty separator of a disconnected graph adds nothing: the term of its one cell cancels ``whole``.
        value = 0.0
        for counts, n_possible, sign in parts:
            each = mass / n_possible
            value += sign * (float(np.sum(log_gammas(counts + each)) - len(counts) * math.lgamma(each)) + whole)
        return -float(value)

    # With few records there can be two maxima; the grid finds the higher one.
    grid = np.linspace(np.log(1e-2), np.log(marginals.total + 1.0), 25)
    best = int(np.argmin([loss(point) for point in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    return math.exp(minimum(loss, *around, tolerance=1e-3))


class DecomposableModel(PluggedIn, LikelihoodMeasures):
    """A decomposable model fitted to a table by maximum likelihood.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table.
    cliques : iterable of sequence of str, optional
        Groups of vertex names that interact; vertices in none of them are independent of the rest. The graph with these
        groups complete must be chordal. A key is always joined to its own coarsenings.
    graph : ChordalGraph, optional
        The chordal graph on the table's vertices, given instead of ``cliques``.
    marginals : Marginals, optional
        Counts to fit to; by default those of the table.

    Examples
    --------
    >>> import numpy as np, rarecell as rc
    >>> yes_no = [rc.Categories(name, ("no", "yes")) for name in ("smokes", "coughs", "drives")]
    >>> table = rc.ContingencyTable.from_counts([[0, 0, 0], [0, 0, 1], [1, 1, 0]], [5, 3, 2], yes_no)
    >>> model = rc.DecomposableModel(table, cliques=[("smokes", "coughs")])
    >>> model.degrees_of_freedom
    4
    >>> np.exp(model.log_cell_probability()).round(3)
    array([0.56, 0.24, 0.14])
    """

    def __init__(
        self,
        table: ContingencyTable,
        cliques: Iterable[Sequence[str]] | None = None,
        *,
        graph: ChordalGraph | None = None,
        marginals: Marginals | None = None,
    ) -> None:
        if graph is None:
            masks = [table.close(table.mask_of(clique)) for clique in cliques or ()]
            masks += table.chain_masks
            try:
                graph = ChordalGraph.from_clique_masks(table.n_vertices, masks)
            except NotChordal as problem:
                raise NotChordal.with_cycle([table.vertex_names[int(str(v))] for v in problem.cycle]) from None
        if graph.n_vertices != table.n_vertices:
            raise KeyMismatch.between(table.vertex_names, [f"vertex {v}" for v in range(graph.n_vertices)])
        self.table = table
        self.graph = graph
        self.marginals = marginals or table.marginals

    # ------------------------------------------------------------------ structure

    @property
    def generator_masks(self) -> tuple[int, ...]:
        """The sets of vertices whose marginals the model fits exactly, as bit masks."""
        return self.graph.clique_masks

    @cached_property
    def cliques(self) -> tuple[tuple[str, ...], ...]:
        return self.generators

    @cached_property
    def separators(self) -> tuple[tuple[tuple[str, ...], int], ...]:
        """The names and the multiplicity of each minimal separator."""
        return tuple((self.table.names_of(mask), multiplicity) for mask, multiplicity in self.graph.separator_masks)

    def _signed_sets(self) -> list[tuple[int, int]]:
        """The cliques with factor 1 and the separators with minus their multiplicity."""
        return [(mask, 1) for mask in self.graph.clique_masks] + [(mask, -times) for mask, times in self.graph.separator_masks]

    # ------------------------------------------------------------------ probabilities

    def log_cell_probability(self, cells: NDArray[np.int32] | None = None) -> NDArray[np.float64]:
        """log p̂ of ``cells`` (key codes; by default the occupied cells): Σ_C log n(i_C) − Σ_S ν log n(i_S) − log n.

        It is −inf where the marginal of a clique was never observed.
        """
        n_cells = self.table.n_cells if cells is None else len(cells)
        total = np.full(n_cells, -math.log(self.marginals.total))
        is_possible = np.ones(n_cells, dtype=bool)
        for mask, factor in self._signed_sets():
            if mask == 0:
                total += factor * math.log(self.marginals.total)
                continue
            counts = self.marginals.at_cells(mask) if cells is None else self.marginals.lookup(mask, cells)
            is_possible &= counts > 0
            total += factor * np.log(np.maximum(counts, np.finfo(float).tiny))
        return np.where(is_possible, np.minimum(total, 0.0), -np.inf)

    @property
    def uncertainty(self) -> Uncertainty:
        return Uncertainty.FULL

    @cached_property
    def prior_mass(self) -> float:
        """Total mass of the hyper-Dirichlet prior under which the counts are most probable."""
        return most_probable_mass(self.marginals, self.graph)

    def draws(self, cells: NDArray[np.int32], n_draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draws of log p from the hyper-Dirichlet posterior; see :mod:`rarecell.model.decomposable`."""
        return hyper_dirichlet_draws(self.marginals, self.graph, cells, n_draws, rng, self.prior_mass)

    def sample(self, n_records: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw records from the fitted model, as key codes, one row per record.

        The cliques are drawn in a perfect sequence, each from its observed marginal cells, given the separator it shares
        with what was drawn before.
        """
        drawn = np.empty((n_records, self.table.n_keys), dtype=np.int32, order="F")
        chosen_cell: dict[int, NDArray[np.int64]] = {}
        sequence = self.graph.perfect_sequence
        for clique, separator, parent in zip(sequence.cliques, sequence.separators, sequence.parents, strict=True):
            marginal = self.marginals.project(clique)
            representative = np.zeros(len(marginal.counts), dtype=np.int64)
            representative[marginal.position] = np.arange(self.table.n_cells)
            separator_of_cell = self.marginals.cell_index(separator)
            if separator:
                group = separator_of_cell[chosen_cell[sequence.cliques[parent]]]
            else:
                group = np.zeros(n_records, dtype=np.int32)
            chosen_cell[clique] = representative[draw_within(marginal.counts, separator_of_cell[representative], group, rng)]
            for k in range(self.table.n_keys):
                if holds(clique, k):
                    drawn[:, k] = self.table.cells[chosen_cell[clique], k]
        return drawn

    # ------------------------------------------------------------------ fit

    @cached_property
    def degrees_of_freedom(self) -> int:
        """Number of free parameters: possible cells of the cliques minus those of the separators, minus 1.

        The formula in the paper omits the −1; the table in the paper includes it.
        """
        return sum(factor * self.table.n_possible_cells(mask) for mask, factor in self._signed_sets()) - 1

    @cached_property
    def log_likelihood_kernel(self) -> float:
        """Σ n(i) log p̂(i), without the multinomial coefficient."""
        masks = np.array([mask for mask, _ in self._signed_sets()], dtype=np.uint64)
        factors = np.array([factor for _, factor in self._signed_sets()])
        return float(factors @ self.marginals.entropy_terms(masks))

    # ------------------------------------------------------------------ description and storage

    def describe(self) -> str:
        names = ", ".join(f"{{{', '.join(self.table.names_of(self.table.reduce(c)))}}}" for c in self.graph.clique_masks)
        return f"decomposable model with the cliques {names}; {self.degrees_of_freedom:,} degrees of freedom, AIC {self.aic:,.3f}"

    __str__ = describe

    def __repr__(self) -> str:
        return f"DecomposableModel(cliques={self.cliques!r})"

    def to_dict(self) -> Json:
        """The structure of the model, ready for JSON: vertices and cliques, not the counts."""
        names = self.table.vertex_names
        return {
            "kind": "decomposable",
            "keys": list(self.table.keys),
            "vertices": [
                {"name": names[v], "key": self.table.keys[self.table.vertex_key[v]], "levels": int(self.table.vertex_levels[v])}
                for v in range(self.table.n_vertices)
            ],
            "cliques": [list(clique) for clique in self.cliques],
            "separators": [{"variables": list(s), "multiplicity": times} for s, times in self.separators],
        }

    @classmethod
    def from_dict(cls, table: ContingencyTable, stored: ReadJson) -> DecomposableModel:
        """Fit a stored model structure to ``table``, which must have the same keys and coarsenings."""
        structure = _StoredStructure.from_dict(stored, where="model")
        if structure.keys != tuple(table.keys):
            raise KeyMismatch.between(table.keys, structure.keys)
        return cls(table, cliques=structure.cliques)


@dataclass(frozen=True, kw_only=True)
class _StoredStructure(Plain):
    """What is read back of a stored model."""

    keys: tuple[str, ...]
    cliques: tuple[tuple[str, ...], ...]
