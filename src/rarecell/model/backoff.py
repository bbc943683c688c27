"""What is the probability of a cell when every conditional falls back on coarser ones?

The keys are taken in some order, each from its coarsest resolution to its finest, and every vertex is predicted from the
vertices before it. Its distribution in a context (the values of some of them) is estimated from the records in that
context and shrunk towards its distribution in a shorter context, which is shrunk towards a still shorter one, and so on
down to the uniform distribution: a hierarchical Dirichlet estimate, as in language models. Where most values of a context are
rare, part of each count is handed down as well (a discount: the estimate of a Pitman–Yor process, of which the Dirichlet is the
special case without discount). A context grows by the vertex that raises the leave-one-out likelihood most, until none does.

Unlike a log-linear model chosen by a penalty, such a network has no edges that are either present or absent: an
interaction counts as far as the records support it. The network also knows its uncertainty: the variances of the
conditionals add up along the chain. An average over several orders of the keys is the default model for risk.

References
----------
MacKay and Peto (1995), A hierarchical Dirichlet language model. Natural Language Engineering 1.
Teh (2006), A hierarchical Bayesian language model based on Pitman–Yor processes. ACL 44.
Witten and Bell (1991), The zero-frequency problem. IEEE Transactions on Information Theory 37.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import backoff as kernels
from rarecell._kernels import gamma
from rarecell._kernels.hashing import sorted_distinct
from rarecell.graph.masks import single
from rarecell.machine.threads import in_parts, on_all_cores
from rarecell.model.backoff_conditionals import (
    Betas,
    Conditional,
    Households,
    draw_in_context,
    fitted_conditional,
    split_among_siblings,
    split_in_context,
    tally_at,
    uniform_siblings,
)
from rarecell.model.backoff_contexts import Floats, Growth, Scores, n_values
from rarecell.model.protocol import LogMoments, SingleModel, Uncertainty
from rarecell.model.random_draws import log_beta_draws
from rarecell.progress import SILENT, Progress
from rarecell.table.coarsening import with_answered
from rarecell.table.contingency import ContingencyTable
from rarecell.table.marginals import cells_that_agree
from rarecell.table.subsample import random_part

if TYPE_CHECKING:
    from rarecell.edges import Integers

RELATIVE_ERROR = (0.015, 0.0075)
"""Relative standard deviations, beyond chance, of the estimates of population uniques and of correct matches.

Simple random samples need no such allowance for 95 % of the intervals to contain the truth; samples with unequal weights and of
whole households need about 2 % (``benchmarks/accuracy.py``).
"""

N_ORDERS = 12
"""Number of orders of the keys that are averaged; half as many where there are many cells."""

MANY_CELLS = 20_000
"""With more occupied cells than this, contexts are chosen on a random part of the records."""


class _Backoff(SingleModel):
    """What a single network and an average of several have in common."""

    @property
    def generator_masks(self) -> tuple[int, ...]:
        """The single keys, because the networks smooth every larger marginal."""
        return tuple(single(k) for k in range(self.table.n_keys))

    @property
    def uncertainty(self) -> Uncertainty:
        return Uncertainty.FULL

    @property
    def relative_error(self) -> tuple[float, float] | None:
        return RELATIVE_ERROR


class BackoffNetwork(_Backoff):
    """A single network, for one order of the keys.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table; its coarsenings are the steps by which a key is predicted.
    order : sequence of int
        Positions of the keys, in the order of prediction. Keys that decide whether others have a value go first, whatever the order.
    part : ContingencyTable, optional
        A random part of the records, with the same vertices, on which contexts are chosen; by default all records.
    scores : dict, optional
        What networks of the same table and part share in choosing contexts.
    households : Households, optional
        Records that are left out together when the weights of contexts are chosen.
    """

    def __init__(
        self,
        table: ContingencyTable,
        order: Sequence[int],
        *,
        part: ContingencyTable | None = None,
        scores: Scores | None = None,
        households: Households | None = None,
        progress: Progress = SILENT,
    ) -> None:
        self.table = table
        deciding = {decided[0] for decided in table.deciders if decided is not None}
        self.order = (*(k for k in order if k in deciding), *(k for k in order if k not in deciding))
        conditionals = []
        self._posteriors: dict[int, Betas] = {}
        total = np.zeros((table.n_cells, 3))
        for vertex, masks in Growth(part or table, progress, scores).conditionals(self.order):
            conditional, fitted = fitted_conditional(table, vertex, masks, households=households)
            conditionals.append(conditional)
            if part is None:
                self._posteriors[vertex] = fitted
            kernels.add_at(total, *moments_at_occupied(table, conditional, fitted))
        self.conditionals = tuple(conditionals)
        self._at_cells: Floats | None = total

    @classmethod
    def of_conditionals(
        cls, table: ContingencyTable, order: Sequence[int], conditionals: Sequence[Conditional], at_cells: Floats
    ) -> BackoffNetwork:
        """A network of conditionals that are fitted already, with its :meth:`log_moment_rows` at the occupied cells."""
        network = cls.__new__(cls)
        network.table, network.order, network.conditionals = table, tuple(order), tuple(conditionals)
        network._posteriors, network._at_cells = {}, at_cells
        return network

    def posterior(self, cells: NDArray[np.int32] | None = None) -> LogMoments:
        """Posterior mean and variance of the logarithm of each cell's probability.

        Every conditional has a beta posterior with the mean and variance given by its contexts, and the moments of the
        logarithms of independent beta variables add up.
        """
        log_moments = self.log_moments(cells)
        return LogMoments(log_moments.mean_log, log_moments.variance_log)

    def log_cell_probability(self, cells: NDArray[np.int32] | None = None) -> Floats:
        """The logarithm of the posterior mean of each cell's probability."""
        return self.log_moments(cells).log_mean

    def log_moments(self, cells: NDArray[np.int32] | None) -> _Moments:
        """Moments of the probability of each of these cells; None stands for the occupied ones."""
        log_mean, mean_log, variance_log = self.log_moment_rows(cells).T
        none = np.zeros(len(log_mean))
        return _Moments(log_mean, mean_log, variance_log, none, none)

    def log_moment_rows(self, cells: NDArray[np.int32] | None) -> Floats:
        """:meth:`log_moments` as rows of three numbers."""
        if cells is None and self._at_cells is not None:
            return self._at_cells
        asked = self.table.marginals.in_columns(self.table.cells if cells is None else cells)
        total = np.zeros((len(asked), 3))
        for conditional in self.conditionals:
            kernels.add_at(total, *self._log_moments_of(conditional, asked))
        return total

    def _log_moments_of(self, conditional: Conditional, cells: NDArray[np.int32]) -> tuple[Floats, NDArray[np.int32]]:
        """Moments of the logarithm of one conditional, and the place of each cell among them.

        Cells that agree on a pair share its moments, which are computed once: many cells are asked for that differ in few keys.
        """
        fitted = self._posterior_of(conditional)
        place = self.table.marginals.positions(conditional.pair, cells).astype(np.int64)
        unseen = np.flatnonzero(place < 0)
        parts = [fitted]
        if len(cells) < len(fitted.mean):
            seen = place >= 0
            occurring, place[seen] = np.unique(place[seen], return_inverse=True)
            parts = [fitted.at(occurring)]
        if len(unseen):
            lacking = cells[unseen]
            group = cells_that_agree(self.table, conditional.pair, lacking)
            one_of_group = np.empty(int(group.max()) + 1, dtype=np.int64)
            one_of_group[group] = np.arange(len(group))
            place[unseen] = len(parts[0].mean) + group
            parts.append(self._unseen_betas(conditional, lacking[one_of_group]))
        moments = np.concatenate([gamma.beta_log_moments(*betas) for betas in parts])
        return moments, place.astype(np.int32)

    def moments_of(self, conditional: Conditional) -> tuple[Floats, Integers]:
        """Moments of the logarithm of one conditional, and the place of each occupied cell among them."""
        return moments_at_occupied(self.table, conditional, self._posterior_of(conditional))

    def forget_cells(self) -> None:
        """Free what is stored for every cell; it is recomputed when needed."""
        self._at_cells = None

    def with_last(self, keys: Sequence[int]) -> BackoffModel:
        """An average of two networks of the same table that predict these keys from all others."""
        others = [k for k in self.order if k not in keys]
        last, part = list(keys), _thinned(self.table, MANY_CELLS, 0)
        orders = [[*others, *last], [*others[::-1], *last[::-1]]]
        return BackoffModel(on_all_cores(partial(BackoffNetwork, part=part), [(self.table, order) for order in orders]))

    def draws(self, cells: NDArray[np.int32], n_draws: int, rng: np.random.Generator) -> Floats:
        """Draws of log p of the cells, one row per draw; cells that share a value in a context share its draw."""
        cells = self.table.marginals.in_columns(cells)
        of_groups: list[Betas] = []
        group_of_cell: list[NDArray[np.int32]] = []
        n_groups = 0
        for betas, group in self._conditional_betas(cells):
            of_groups.append(betas)
            group_of_cell.append(group + np.int32(n_groups))
            n_groups += len(betas.mean)
        # One call for all conditionals: for few cells, calls take longer than what they do.
        mean, rest, variance = (np.concatenate(parts) for parts in zip(*of_groups, strict=True))
        of_group = np.ascontiguousarray(log_beta_draws(mean, rest, variance, n_draws, rng).T)
        log_p = np.zeros((len(cells), n_draws))
        for groups in group_of_cell:
            kernels.add_at(log_p, of_group, groups)
        return log_p.T

    def _conditional_betas(self, cells: NDArray[np.int32]) -> Iterator[tuple[Betas, NDArray[np.int32]]]:
        """The posterior of every conditional at each pair that occurs among any cells, and which of the pairs each cell has."""
        for conditional in self.conditionals:
            pair = self.table.marginals.positions(conditional.pair, cells).astype(np.int64)
            unseen = np.flatnonzero(pair < 0)
            pair[unseen] = -1 - cells_that_agree(self.table, conditional.pair, cells[unseen])
            distinct, first, group = sorted_distinct(pair)
            betas = self._posterior_of(conditional).at(np.maximum(distinct, 0))
            n_unseen = int(np.searchsorted(distinct, 0))
            if n_unseen:
                for part, value in zip(betas, self._unseen_betas(conditional, cells[first[:n_unseen]]), strict=True):
                    part[:n_unseen] = value
            yield betas, group

    def _posterior_of(self, conditional: Conditional) -> Betas:
        """The posterior of a conditional at every occurring pair; kept for small tables, because draws need it often."""
        if (kept := self._posteriors.get(conditional.vertex)) is not None:
            return kept
        masks = [context.mask for context in conditional.contexts]
        return fitted_conditional(self.table, conditional.vertex, masks, conditional.contexts)[1]

    def _unseen_betas(self, conditional: Conditional, cells: NDArray[np.int32]) -> Betas:
        """The posterior where a value was not seen in the longest context, and perhaps not in shorter ones either."""
        table = self.table
        codes = table.map_cells(cells, conditional.vertex)
        betas = Betas.uniform(n_values(table, conditional.vertex)[codes])
        for context in conditional.contexts:
            if not len(cells):
                break
            betas = betas.given(tally_at(table, context, conditional.vertex, cells), context)
        return betas

    def sample(self, n_records: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw records as key codes, each value from the longest context or, with its weight, from a shorter one."""
        table = self.table
        drawn = np.zeros((n_records, table.n_keys), dtype=np.int32)
        for conditional in self.conditionals:
            key = int(table.vertex_key[conditional.vertex])
            somebody = np.flatnonzero(self._has_somebody(key, drawn))
            codes = uniform_siblings(table, conditional.vertex, drawn[somebody], rng)
            undecided = np.ones(len(somebody), dtype=bool)
            for context in reversed(conditional.contexts):
                rows = np.flatnonzero(undecided)
                value, taken = draw_in_context(table, context, conditional.vertex, drawn[somebody[rows]], rng)
                codes[rows[taken]] = value[taken]
                undecided[rows[taken]] = False
            drawn[somebody, key] = table.first_level(conditional.vertex)[codes]
        return drawn

    def _has_somebody(self, key: int, drawn: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether somebody has a value of a key, by what was drawn before it."""
        decided = self.table.deciders[key]
        return np.ones(len(drawn), dtype=bool) if decided is None else np.asarray(drawn[:, decided[0]] >= decided[1])

    def sample_counts(self, n_records: int, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Draw records by the same rules, as cells and the number of records in each.

        Records that agree so far are divided among the values together, so time goes with the number of cells.
        """
        table = self.table
        drawn, counts = np.zeros((1, table.n_keys), dtype=np.int32), np.array([n_records])
        for conditional in self.conditionals:
            vertex = conditional.vertex
            nobody = np.flatnonzero(~self._has_somebody(int(table.vertex_key[vertex]), drawn))
            waiting, parts = counts.copy(), [(nobody, np.zeros(len(nobody), dtype=np.int32), counts[nobody])]
            waiting[nobody] = 0
            for context in reversed(conditional.contexts):
                rows = np.flatnonzero(waiting)
                place, code, number = split_in_context(table, context, vertex, drawn[rows], waiting[rows], rng)
                np.subtract.at(waiting, rows[place], number)
                parts.append((rows[place], code, number))
            parts.append(split_among_siblings(table, vertex, drawn, waiting, rng))
            of_row, codes, numbers = (np.concatenate(each) for each in zip(*parts, strict=True))
            n_levels = int(table.vertex_levels[vertex])
            distinct, which = np.unique(of_row * n_levels + codes, return_inverse=True)
            counts = np.zeros(len(distinct), dtype=np.int64)
            np.add.at(counts, which, numbers)
            drawn = drawn[distinct // n_levels]
            drawn[:, int(table.vertex_key[vertex])] = table.first_level(vertex)[distinct % n_levels]
        return drawn, counts

    def describe(self) -> str:
        order = ", ".join(self.table.keys[k] for k in self.order)
        return f"back-off network in the order {order}"

    __str__ = describe


def moments_at_occupied(table: ContingencyTable, conditional: Conditional, fitted: Betas) -> tuple[Floats, Integers]:
    """Moments of the logarithm of a conditional, and the place of each occupied cell among them."""
    return gamma.beta_log_moments(*fitted), table.marginals.positions(conditional.pair, None)


class BackoffModel(_Backoff):
    """The average over several orders of the keys; fit it with :func:`fit_backoff`.

    The networks may use more resolutions of the keys than ``table``, which by default is the table of the first network.
    """

    def __init__(self, members: Sequence[BackoffNetwork], table: ContingencyTable | None = None) -> None:
        self.networks = tuple(members)
        self.table = members[0].table if table is None else table
        self._at_cells = _average([member.log_moment_rows(None) for member in members])
        self._last: tuple[NDArray[np.int32], _Moments] = (self.table.cells, self._at_cells)
        for member in members:
            member.forget_cells()

    @property
    def members(self) -> tuple[BackoffNetwork, ...]:
        """The networks, each of them a model."""
        return self.networks

    @property
    def weights(self) -> Floats:
        """Equal weights for all networks."""
        return np.full(len(self.networks), 1.0 / len(self.networks))

    def posterior(self, cells: NDArray[np.int32] | None = None) -> LogMoments:
        """Mean and variance of the logarithm of each cell's probability.

        The variance is that within the networks plus that of the truth about their mean, if the truth is to them like one more
        network. The mean is that of the networks plus the logarithm of the arithmetic over the geometric mean of their probabilities.

        So the mean of the probability lies above that of the networks, by half the variance between them. That a record was seen
        in the cell makes those networks more credible that expect it there. Weighing them by how much they do would add the whole
        variance, weighing them equally nothing; but they have already counted that record.
        """
        moments = self._averaged(cells)
        return LogMoments(moments.mean_log, moments.variance_log, moments.error if len(self.networks) > 1 else None)

    def with_last(self, keys: Sequence[int]) -> BackoffModel:
        """An average of two networks that predict these keys from all others."""
        return self.networks[0].with_last(keys)

    def _averaged(self, cells: NDArray[np.int32] | None) -> _Moments:
        if cells is None:
            return self._at_cells
        # Mean and posterior are often requested for the same cells, one after the other.
        asked, moments = self._last
        if asked is not cells:
            moments = _average([member.log_moment_rows(cells) for member in self.networks])
            self._last = (cells, moments)
        return moments

    def draws(self, cells: NDArray[np.int32], n_draws: int, rng: np.random.Generator) -> Floats:
        """Draws of log p of the cells, one row per draw, each from a network chosen at random, about the mean of the posterior."""
        shares = rng.multinomial(n_draws, self.weights)
        calls = [(m, cells, int(n), own) for m, n, own in zip(self.networks, shares, rng.spawn(len(shares)), strict=True)]
        occupied = self.table.marginals.positions(self.table.all_keys, cells)
        raised = self._averaged(cells).raised if (occupied < 0).any() else self._at_cells.raised[occupied]
        return np.concatenate(on_all_cores(BackoffNetwork.draws, calls)) + raised

    def log_cell_probability(self, cells: NDArray[np.int32] | None = None) -> Floats:
        """The logarithm of the mean probability over the networks."""
        return self._averaged(cells).log_mean

    def sample(self, n_records: int, rng: np.random.Generator) -> NDArray[np.int32]:
        shares = rng.multinomial(n_records, self.weights)
        drawn = np.concatenate([m.sample(int(n), rng) for m, n in zip(self.networks, shares, strict=True)])
        return rng.permutation(drawn, axis=0)

    def sample_counts(self, n_records: int, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Cells and the number of records drawn in each; a cell may be listed once for each network."""
        shares = rng.multinomial(n_records, self.weights)
        each = [m.sample_counts(int(n), rng) for m, n in zip(self.networks, shares, strict=True)]
        cells, counts = zip(*each, strict=True)
        return np.concatenate(cells), np.concatenate(counts)

    def describe(self) -> str:
        return f"average of {len(self.networks)} back-off networks, one for each of as many orders of the keys"

    __str__ = describe


def _average(rows: Sequence[Floats]) -> _Moments:
    """Moments of the mean probability of several networks, from the moments of each."""
    moments = _Moments(*(np.empty(len(rows[0])) for _ in range(5)))

    def average(log_mean: Floats, mean_log: Floats, variance_log: Floats, error: Floats, raised: Floats, *parts: Floats) -> None:
        logs = np.stack([part[:, 0] for part in parts])
        largest = logs.max(axis=0)
        log_mean[:] = np.log(np.exp(logs - largest).mean(axis=0)) + largest
        raised[:] = log_mean - logs.mean(axis=0)
        mean_log[:] = np.mean([part[:, 1] for part in parts], axis=0) + raised
        variance_log[:] = np.mean([part[:, 2] for part in parts], axis=0)
        if len(logs) > 1:
            # If the truth differs from the networks as they differ from each other, this is its variance about their mean.
            variance_log += (1.0 + 1.0 / len(logs)) * logs.var(axis=0, ddof=1)
            error[:] = _error_of_mean(logs)
        else:
            error[:] = 0.0

    in_parts(average, *moments, *rows)
    return moments


def _error_of_mean(logs: Floats) -> Floats:
    """Standard error of the mean of networks, one row each; an order and its reverse, side by side, err in opposite directions."""
    has_pairs = len(logs) % 2 == 0 and len(logs) > 2
    independent = logs.reshape(len(logs) // 2, 2, -1).mean(axis=1) if has_pairs else logs
    return np.asarray(np.sqrt(independent.var(axis=0, ddof=1) / len(independent)))


def fit_backoff(
    table: ContingencyTable,
    *,
    n_orders: int | None = None,
    many_cells: int = MANY_CELLS,
    household: NDArray[np.int64] | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> BackoffModel:
    """Fit back-off networks for several random orders of the keys.

    For a key with missing values, whether the value is known is predicted first: the known values tell little about that.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table, with the coarsenings to use.
    n_orders : int, optional
        Number of orders; by default :data:`N_ORDERS`, or half as many with more than ``many_cells`` cells.
    many_cells : int
        With more occupied cells than this, contexts are chosen on a random part of the records.
    household : array of int, optional
        Household of each record. Whole households are then left out, instead of single records, when weights of contexts are chosen.
    seed : int
        Seed of the orders and of the random part of the records.
    """
    if n_orders is None:
        n_orders = N_ORDERS if table.n_cells <= many_cells else N_ORDERS // 2
    orders = random_orders(table.keys, n_orders, np.random.default_rng(seed))
    finer = with_answered(table)
    scores: Scores = {}
    households = None if household is None else Households.of(finer, household, seed)
    part = _thinned(finer, many_cells, seed)
    fit = partial(BackoffNetwork, part=part, scores=scores, households=households, progress=progress)
    return BackoffModel(on_all_cores(fit, [(finer, order) for order in orders]), table)


def random_orders(keys: Sequence[str], n_orders: int, rng: np.random.Generator) -> list[list[int]]:
    """Random orders of the keys, each followed by its reverse.

    What one order puts first, the other puts last, so the average of a pair varies less than that of two orders drawn
    independently: 16 in pairs are as good as 36 without. Keys are drawn by name, so the order in which they were given
    makes no difference.
    """
    by_name = sorted(range(len(keys)), key=lambda k: keys[k])
    orders: list[list[int]] = []
    while len(orders) < n_orders:
        order = [by_name[place] for place in rng.permutation(len(keys))]
        orders += [order, order[::-1]]
    return orders[:n_orders]


# ---------------------------------------------------------------------- fitting


class _Moments(NamedTuple):
    """Moments of the probability of cells.

    The logarithm of the mean, mean and variance of the logarithm, error of averaging, and by how much the mean of the logarithm was
    raised above that of the networks.
    """

    log_mean: Floats
    mean_log: Floats
    variance_log: Floats
    error: Floats
    raised: Floats


def _thinned(table: ContingencyTable, many_cells: int, seed: int) -> ContingencyTable | None:
    """A random part of the records with few enough cells; None when the whole table has few enough."""
    if table.n_cells <= many_cells:
        return None
    n_kept = int(table.n_records * many_cells / table.n_cells)
    return random_part(table, n_kept, np.random.default_rng(seed))
