"""What is the probability of a cell when interactions are small unless the data say otherwise?

Maximum likelihood takes every empty marginal cell at face value: what was not sampled becomes impossible, and what was
sampled once becomes certain to be rare. Here each interaction has a normal prior with mean zero, so that no cell is
impossible and a sparse marginal borrows strength from the rest. The size of the interactions is learnt from the data,
separately for each pair of keys and each resolution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.fitting import dot
from rarecell.errors import TooLarge
from rarecell.graph.chordal import ChordalGraph, least_fill, neighbours_of_cliques
from rarecell.graph.masks import each_member, mask_of, single
from rarecell.model.factor_tree import FactorTree
from rarecell.model.generating_class import maximal_sets
from rarecell.model.proportional_fitting import minimise
from rarecell.model.protocol import LogMoments, PluggedIn, Uncertainty
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.table.contingency import ContingencyTable
from rarecell.table.marginals import Marginals

if TYPE_CHECKING:
    from rarecell.edges import Json


MOST_CELLS = 5e6
"""Most cells, over all cliques, that are visited for one gradient."""

MOST_PARAMETERS = 300_000

VARIANCE_RANGE = (1e-4, 50.0)
"""Bounds of the prior variances; a term whose variance falls to the lower bound has no effect."""

MAIN_PRECISION = 1e-3
"""Precision of the prior of the main effects, which is almost flat."""

ROUNDS = 8
CALLS_PER_ROUND = 30
FINAL_CALLS = 200

STAGE = "fitting interactions"


@dataclass(frozen=True)
class TermVariance:
    """The size of the interactions of some vertices: the prior variance of their parameters, learnt from the data."""

    vertices: tuple[str, ...]
    variance: float
    n_parameters: int
    effective_parameters: float


class RegularisedModel(PluggedIn):
    """A log-linear model whose interactions have normal priors, with variances learnt from the data.

    Every pair of keys interacts at every resolution of the table: each choice of vertices of the two keys is a term
    with its own variance. The parameters are at the posterior mode, the variances at the fixed point of MacKay's evidence
    iteration σ² = Σθ²/γ, where γ = Σ E/(E + 1/σ²) is the number of parameters that the data determine and E are the
    expected counts [1]_ [2]_.

    Each gradient visits all cells of the cliques of a junction tree. A table whose pairs form cliques of more than
    ``most_cells`` cells is therefore fitted with only the most strongly related pairs; :attr:`left_out` names the others.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table, preferably with coarsenings of the keys that have many levels.
    marginals : Marginals, optional
        Counts to fit to; by default those of the table.
    most_cells : float
        Most cells to visit for one gradient.

    References
    ----------
    .. [1] MacKay (1992), Bayesian interpolation. Neural Computation 4, 415-447.
    .. [2] Breslow and Clayton (1993), Approximate inference in generalized linear mixed models. JASA 88, 9-25.
    """

    def __init__(
        self,
        table: ContingencyTable,
        *,
        marginals: Marginals | None = None,
        most_cells: float = MOST_CELLS,
        progress: Progress = SILENT,
    ) -> None:
        self.table = table
        self.marginals = marginals or table.marginals
        pairs, left_out = _feasible_pairs(self.marginals, most_cells)
        self.left_out = tuple(tuple(table.keys[k] for k in pair) for pair in left_out)
        progress.start(STAGE, None)
        fit = _Fit(self.marginals, [v for pair in pairs for v in resolutions(table, pair)])
        fit.learn(progress)
        progress.done()
        self._fit = fit
        self._log_tables = fit.interactions.log_tables(fit.parameters)
        self._log_sum, _ = fit.tree.marginals(self._log_tables)

    # ------------------------------------------------------------------ structure

    @cached_property
    def variances(self) -> tuple[TermVariance, ...]:
        """The variances of all terms, in the order of their keys."""
        terms = self._fit.interactions
        effective = terms.by_term(self._fit.determined())
        return tuple(
            TermVariance(tuple(self.table.vertex_names[v] for v in term.vertices), float(variance), term.n_parameters, float(e))
            for term, variance, e in zip(terms.terms, self._fit.variances, effective, strict=True)
        )

    @cached_property
    def generator_masks(self) -> tuple[int, ...]:
        """The maximal sets of vertices that interact; their marginals are fitted closely but not exactly."""
        masks = [
            mask_of(term.vertices)
            for term, variance in zip(self._fit.interactions.terms, self._fit.variances, strict=True)
            if variance > VARIANCE_RANGE[0]
        ]
        return maximal_sets(self.table, masks)

    @property
    def effective_parameters(self) -> float:
        """Number of parameters determined by the data and not by the prior; the counterpart of degrees of freedom."""
        return float(self._fit.determined().sum()) - self.table.n_keys

    # ------------------------------------------------------------------ probabilities

    def log_cell_probability(self, cells: NDArray[np.int32] | None = None) -> Vector:
        """log p̂ of ``cells`` (key codes; by default the occupied cells); finite everywhere."""
        asked = self.table.cells if cells is None else cells
        return np.minimum(self._fit.interactions.log_weight(self._log_tables, asked) - self._log_sum, 0.0)

    @property
    def uncertainty(self) -> Uncertainty:
        return Uncertainty.FULL

    def posterior(self, cells: NDArray[np.int32] | None = None) -> LogMoments:
        """Posterior mean and variance of the logarithm of each cell's probability.

        The variance is the sum of 1/(E + 1/σ²) over the terms at the cell. Covariances of parameters are neglected (the
        curvature is taken as diagonal), as they are when the variances are learnt.
        """
        fit = self._fit
        of_parameter = 1.0 / (fit.expected + fit.precisions())
        asked = self.table.cells if cells is None else cells
        variance = fit.interactions.log_weight(fit.interactions.log_tables(of_parameter), asked)
        return LogMoments(self.log_cell_probability(cells), variance)

    def draws(self, cells: NDArray[np.int32], n_draws: int, rng: np.random.Generator) -> Vector:
        """Draws of log p of the cells, one row per draw; cells that share a parameter share its draw.

        The sum over all cells is taken as known, so the mean and variance of the draws are those of :meth:`posterior`.
        """
        fit = self._fit
        deviation = 1.0 / np.sqrt(fit.expected + fit.precisions())
        drawn = np.empty((n_draws, len(cells)))
        for row in range(n_draws):
            parameters = fit.parameters + deviation * rng.standard_normal(len(deviation))
            drawn[row] = fit.interactions.log_weight(fit.interactions.log_tables(parameters), cells) - self._log_sum
        return drawn

    def sample(self, n_records: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw records from the fitted model, as key codes, one row per record."""
        return self._fit.tree.sample(self._log_tables, n_records, rng)

    @cached_property
    def log_likelihood_kernel(self) -> float:
        """Σ n(i) log p̂(i), without the multinomial coefficient."""
        everything = self.table.all_keys
        return float(dot(self.marginals.at_cells(everything).astype(float), self.log_cell_probability()))

    # ------------------------------------------------------------------ description and storage

    def describe(self) -> str:
        active = sum(v.variance > VARIANCE_RANGE[0] for v in self.variances)
        left = f"; pairs left out for size: {len(self.left_out)}" if self.left_out else ""
        return (
            f"regularised log-linear model with {active:,} of {len(self.variances):,} terms active and "
            f"about {self.effective_parameters:,.0f} effective parameters{left}"
        )

    __str__ = describe

    def to_dict(self) -> Json:
        """The structure of the model, ready for JSON: its terms and their variances, not the parameters."""
        return {
            "kind": "regularised",
            "keys": list(self.table.keys),
            "terms": [{"vertices": list(v.vertices), "variance": v.variance} for v in self.variances],
            "left_out": [list(pair) for pair in self.left_out],
        }


# ---------------------------------------------------------------------- fitting


class _Fit:
    """Parameters and variances of a list of terms."""

    def __init__(self, marginals: Marginals, vertex_sets: Sequence[tuple[int, ...]]) -> None:
        self.marginals = marginals
        self.interactions = InteractionTerms(marginals, vertex_sets)
        if self.interactions.n_parameters > MOST_PARAMETERS:
            raise TooLarge(
                f"The interactions have {self.interactions.n_parameters:,} parameters, more than {MOST_PARAMETERS:,}. "
                "Give fewer coarsenings, or keys with fewer levels."
            )
        graph = _key_graph(self.interactions.levels, self.interactions.scopes)
        self.tree = FactorTree(self.interactions.levels, self.interactions.scopes, graph)
        terms = self.interactions
        self.parameters: Vector = np.zeros(terms.n_parameters)
        self.parameters[: terms.n_main] = np.log(np.maximum(terms.counts[: terms.n_main], 0.5) / marginals.total)
        self.expected = self._expected()
        # Start large: a variance that starts too small would never let its interaction grow.
        self.variances: Vector = np.ones(len(terms.terms))

    def _expected(self) -> Vector:
        """The expected count of each parameter."""
        _, share = self.tree.marginals(self.interactions.log_tables(self.parameters))
        return self.interactions.gathered(share * self.marginals.total)

    def precisions(self) -> Vector:
        """The prior precision of each parameter."""
        return self.interactions.spread(1.0 / self.variances, main=MAIN_PRECISION)

    def determined(self) -> Vector:
        """The share of each parameter that is determined by the data."""
        return self.expected / (self.expected + self.precisions())

    def learn(self, progress: Progress) -> None:
        """Alternate between the posterior mode and the variances, then settle on the mode."""
        for _ in range(ROUNDS):
            self.climb(CALLS_PER_ROUND, progress)
            squares = self.interactions.by_term(self.parameters**2)
            effective = self.interactions.by_term(self.determined())
            before = self.variances
            self.variances = np.clip(squares / np.maximum(effective, 1e-12), *VARIANCE_RANGE)
            # Terms matter by what they add to the logarithm of a probability, hence the square roots.
            if np.abs(np.sqrt(self.variances) - np.sqrt(before)).max(initial=0.0) < 0.02:
                break
        self.climb(FINAL_CALLS, progress)

    def climb(self, max_calls: int, progress: Progress = SILENT, *, closeness: float = 1e-2) -> None:
        """Move the parameters to the posterior mode, until a step would change its logarithm by less than ``closeness``."""
        terms, total = self.interactions, self.marginals.total
        precision = self.precisions()
        # In these units, the curvature is about 1 in every direction.
        unit = 1.0 / np.sqrt(self.expected + precision)
        share = np.zeros(0)

        def loss(scaled: Vector) -> tuple[float, Vector]:
            nonlocal share
            checkpoint(progress, STAGE, 1.0)
            parameters = scaled * unit
            log_tables = terms.log_tables(parameters)
            log_sum, share = self.tree.marginals(log_tables)
            weighted = precision * parameters
            value = total * log_sum - dot(terms.counts, log_tables) + 0.5 * dot(weighted, parameters)
            gradient = terms.gathered(total * share - terms.counts) + weighted
            return value, gradient * unit

        optimum = minimise(loss, self.parameters / unit, max_calls=max_calls, is_done=lambda _, g: dot(g, g) < closeness)
        self.parameters = optimum.point * unit
        self.expected = self._expected()


def _key_graph(levels: Sequence[int], scopes: Sequence[tuple[int, ...]]) -> ChordalGraph:
    """A triangulated graph on the keys in which every scope is complete."""

    def n_cells(mask: int) -> int:
        return math.prod(levels[k] for k in each_member(mask))

    return least_fill(neighbours_of_cliques(len(levels), [mask_of(scope) for scope in scopes]), n_cells)


def _n_cells(levels: Sequence[int], scopes: Sequence[tuple[int, ...]]) -> int:
    graph = _key_graph(levels, scopes)
    return sum(math.prod(levels[k] for k in each_member(clique)) for clique in graph.clique_masks)


def _feasible_pairs(marginals: Marginals, most_cells: float) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Pairs of keys to fit and pairs left out; the strongest are taken first, as long as the cliques stay small enough."""
    table = marginals.table
    levels = [c.n_levels for c in table.categories]
    pairs: list[tuple[int, ...]] = list(combinations(range(table.n_keys), 2))
    if _n_cells(levels, pairs) <= most_cells:
        return pairs, []
    gain = {pair: _pair_gain(marginals, pair) for pair in pairs}
    taken: list[tuple[int, ...]] = []
    left_out = []
    for pair in sorted(pairs, key=lambda pair: -gain[pair]):
        if gain[pair] > 0 and _n_cells(levels, [*taken, pair]) <= most_cells:
            taken.append(pair)
        else:
            left_out.append(pair)
    return sorted(taken), sorted(left_out)


def _pair_gain(marginals: Marginals, pair: tuple[int, ...]) -> float:
    """The gain in AIC/2 over independence of the best resolution of a pair."""
    table = marginals.table
    best = -math.inf
    for a, b in resolutions(table, pair):
        masks = np.array([mask_of((a, b)), single(a), single(b)], dtype=np.uint64)
        joint, first, second = marginals.entropy_terms(masks)
        n_free = (table.vertex_levels[a] - 1) * (table.vertex_levels[b] - 1)
        best = max(best, float(joint - first - second) - float(n_free))
    return best


# Which interactions can a regularised model have, and where are their parameters stored?
#
# A *term* gives a separate parameter to every combination of levels of some vertices, at most one vertex per key. Terms on
# the same keys at different resolutions add up: the term of age bands and region describes what the years of a band have in
# common, the term of age and region what remains for single years.


Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Term:
    """An interaction of vertices: the table of keys that it belongs to, and its parameter for each cell of that table."""

    vertices: tuple[int, ...]
    scope: int
    parameter_of_cell: NDArray[np.int64]
    n_parameters: int


class InteractionTerms:
    """Main effects of all keys and a list of terms, as one vector of parameters.

    Attributes
    ----------
    scopes : list of tuple of int
        The sets of keys that have a table; first each key alone, for its main effect.
    start : numpy.ndarray
        Where the table of each scope starts in the flat array of all tables.
    counts : numpy.ndarray
        The observed marginal counts in the layout of that array.
    terms : list of Term
        The terms; their parameters follow the main effects in this order.
    first : numpy.ndarray
        Where the parameters of each term start.
    """

    def __init__(self, marginals: Marginals, vertex_sets: Iterable[tuple[int, ...]]) -> None:
        self.marginals = marginals
        table = marginals.table
        self.table = table
        self.levels = [c.n_levels for c in table.categories]
        chosen = list(vertex_sets)
        keys_of = [tuple(sorted(int(table.vertex_key[v]) for v in vertices)) for vertices in chosen]
        self.scopes: list[tuple[int, ...]] = [(k,) for k in range(table.n_keys)]
        self.scopes += sorted(set(keys_of), key=lambda keys: (len(keys), keys))
        position = {keys: s for s, keys in enumerate(self.scopes)}
        sizes = [math.prod(self.levels[k] for k in keys) for keys in self.scopes]
        self.start: NDArray[np.int64] = np.cumsum([0, *sizes])
        self.n_main = int(self.start[table.n_keys])
        self.counts: Vector = np.concatenate([full_marginal(marginals, keys) for keys in self.scopes])
        self.terms = [
            _term(table, v, position[k]) for v, k in sorted(zip(chosen, keys_of, strict=True), key=lambda pair: position[pair[1]])
        ]
        self.first: NDArray[np.int64] = self.n_main + np.cumsum([0, *(term.n_parameters for term in self.terms)])

    @property
    def n_parameters(self) -> int:
        return int(self.first[-1])

    def log_tables(self, parameters: Vector) -> Vector:
        """The logarithm of each table: the sum of its terms."""
        tables = np.zeros(int(self.start[-1]))
        tables[: self.n_main] = parameters[: self.n_main]
        for term, first in zip(self.terms, self.first, strict=False):
            tables[self.start[term.scope] : self.start[term.scope + 1]] += parameters[first + term.parameter_of_cell]
        return tables

    def gathered(self, tables: Vector) -> Vector:
        """For each parameter, the sum of the table entries that belong to it: the transpose of :meth:`log_tables`."""
        sums = np.zeros(self.n_parameters)
        sums[: self.n_main] = tables[: self.n_main]
        for term, first in zip(self.terms, self.first, strict=False):
            part = tables[self.start[term.scope] : self.start[term.scope + 1]]
            sums[first : first + term.n_parameters] = np.bincount(
                term.parameter_of_cell, weights=part, minlength=term.n_parameters
            )
        return sums

    def spread(self, values: Sequence[float] | Vector, *, main: float) -> Vector:
        """The value of each term repeated for its parameters; ``main`` for the main effects."""
        repeats = np.diff(self.first)
        return np.concatenate([np.full(self.n_main, main), np.repeat(np.asarray(values, dtype=float), repeats)])

    def by_term(self, values: Vector) -> Vector:
        """For each term, the sum of ``values`` over its parameters."""
        return np.array([values[low:high].sum() for low, high in zip(self.first, self.first[1:], strict=False)])

    def log_weight(self, tables: Vector, cells: NDArray[np.int32]) -> Vector:
        """For each cell, given by key codes, the sum of the entries of all tables."""
        total = np.zeros(len(cells))
        for scope, low in zip(self.scopes, self.start, strict=False):
            place = np.zeros(len(cells), dtype=np.int64)
            for k in scope:
                place = place * self.levels[k] + cells[:, k]
            total += tables[low + place]
        return total


def resolutions(table: ContingencyTable, keys: Sequence[int]) -> list[tuple[int, ...]]:
    """All choices of one vertex for each key."""
    return list(product(*(table.chains[k] for k in keys)))


def full_marginal(marginals: Marginals, keys: Sequence[int]) -> Vector:
    """Counts of all cells of some keys, including empty ones, as a flat array in which the last key varies fastest."""
    mask = mask_of(keys)
    counts = np.zeros(math.prod(marginals.table.categories[k].n_levels for k in keys))
    marginal = marginals.project(mask)
    assert marginal.keys is not None, "a marginal that is stored in full can be numbered"
    counts[marginal.keys] = marginal.counts
    return counts


def _term(table: ContingencyTable, vertices: tuple[int, ...], scope: int) -> Term:
    by_key = sorted(vertices, key=lambda v: int(table.vertex_key[v]))
    parameter = np.zeros((), dtype=np.int64)
    for v in by_key:
        n_levels = table.categories[int(table.vertex_key[v])].n_levels
        group = np.arange(n_levels) if v < table.n_keys else table.coarsenings[v - table.n_keys].group_of_level.astype(np.int64)
        parameter = parameter[..., None] * int(table.vertex_levels[v]) + group
    return Term(tuple(by_key), scope, parameter.reshape(-1), math.prod(int(table.vertex_levels[v]) for v in by_key))
