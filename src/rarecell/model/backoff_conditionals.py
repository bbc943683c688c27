"""How is a vertex predicted from its contexts, how uncertain is the prediction, and how are values drawn from it?

Along growing contexts, the distribution of a value is shrunk towards that in the previous context. The result is a mean and
a variance for every value in its longest context; a beta distribution with these two moments serves as its posterior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import backoff as kernels
from rarecell.graph.masks import single
from rarecell.model.backoff_contexts import DISCOUNTS, POWERS, STRENGTHS, Context, CountedRows, Floats, Tally, n_values, parent_of
from rarecell.model.random_draws import draw_within, split_within
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    from rarecell.edges import Integers


@dataclass(frozen=True)
class Conditional:
    """How a vertex is predicted: from growing contexts, the shortest first."""

    vertex: int
    contexts: tuple[Context, ...]

    @property
    def pair(self) -> int:
        """The vertex together with its longest context: cells that agree on these have the same probability."""
        return (self.contexts[-1].mask if self.contexts else 0) | single(self.vertex)


class Betas(NamedTuple):
    """Posteriors of conditional probabilities: mean, one minus the mean, and variance.

    Both the mean and its complement are stored, because 1 − mean is mere rounding error where a value is nearly certain.
    """

    mean: Floats
    rest: Floats
    variance: Floats

    @classmethod
    def uniform(cls, n_values: Floats) -> Betas:
        """The start of every chain of contexts: all values are equally likely, with no uncertainty about it."""
        return cls(1.0 / n_values, (n_values - 1.0) / n_values, np.zeros(len(n_values)))

    def at(self, places: Integers) -> Betas:
        return Betas(self.mean[places], self.rest[places], self.variance[places])

    def given(self, tally: Tally, context: Context) -> Betas:
        """The posteriors after the records of a longer context.

        With n records in the context, of which n_v have the value, k distinct values, weight w of the shorter context, in which
        the value has probability q, and discount d, the posterior of a Pitman–Yor process is p = X + Y·g. X and Y are the parts
        a = n_v − d (0 if the value was not seen) and b = w + d·k of a Dirichlet distribution with total T = n + w, and g has
        mean q and variance q(1−q)(1−d)/(b+1). Its mean is (a + b·q)/T. q itself varies with the shorter context. Without a
        discount, p has a beta distribution. A context without records changes nothing.
        """
        betas = Betas(self.mean.copy(), self.rest.copy(), self.variance.copy())
        kernels.shrink(*betas, *tally, context.strength, context.power, context.discount)
        return betas


@dataclass(frozen=True, eq=False)
class Households:
    """Records that came into the file together, and say little about each other's unseen neighbours.

    Where whole households are drawn, somebody's relatives confirm what they share, such as a postcode; the unseen people are of other households.
    So the weights of contexts are chosen by how well records are predicted from those of *other* households.

    Attributes
    ----------
    cells : ndarray
        Key codes of the members of some households, all of each.
    household : ndarray
        Household of each of these members.
    """

    cells: NDArray[np.int32]
    household: NDArray[np.int64]

    @classmethod
    def of(cls, table: ContingencyTable, household: NDArray[np.int64], seed: int = 0) -> Households | None:
        """Some of the households of a file, given that of each record; None if persons rather than households were drawn.

        They were if fewer than :data:`LEAST_TOGETHER` of the records share their household with another.
        """
        if table.record_cell is None:
            return None
        counted = np.flatnonzero(table.record_cell >= 0)
        _, of_record, size = np.unique(household[counted], return_inverse=True, return_counts=True)
        if not are_drawn_together(size):
            return None
        order = np.random.default_rng(seed).permutation(len(size))
        n_taken = (
            int(np.searchsorted(np.cumsum(size[order]), MOST_MEMBERS, side="right")) if len(counted) > MOST_MEMBERS else len(size)
        )
        is_taken = np.zeros(len(size), dtype=bool)
        is_taken[order[: max(n_taken, 1)]] = True
        members = np.flatnonzero(is_taken[of_record])
        cells = np.asfortranarray(table.cells[table.record_cell[counted[members]]])
        return cls(cells, of_record[members].astype(np.int64))

    def others(self, tally: Tally, pair: Integers, context: Integers) -> Tally:
        """For each member, the counts without its household; ``pair`` and ``context`` are those of the members."""
        n_households = int(self.household.max()) + 1
        _, place, in_pair = np.unique(
            pair.astype(np.int64) * n_households + self.household, return_inverse=True, return_counts=True
        )
        _, where, in_context = np.unique(
            context.astype(np.int64) * n_households + self.household, return_inverse=True, return_counts=True
        )
        # Values that nobody outside the household has in the context, each counted at one of its members.
        one_of_each = np.empty(len(in_pair), dtype=np.int64)
        one_of_each[place] = np.arange(len(place))
        is_own = in_pair == tally.of_pair[pair[one_of_each]]
        n_own = np.bincount(where[one_of_each], weights=is_own, minlength=len(in_context))
        return Tally(
            tally.of_pair[pair] - in_pair[place], tally.of_context[pair] - in_context[where], tally.n_values[pair] - n_own[where]
        )


LEAST_TOGETHER = 0.5
"""Share of the records with another of their household in the file from which households were drawn as a whole."""

MOST_MEMBERS = 10_000
"""If there are more records than this, weights are chosen by those of a random part of the households."""


def are_drawn_together(size: NDArray[np.integer]) -> bool:
    """Whether the sample drew households rather than persons, by the number of records of each household in the file."""
    n_records = int(size.sum())
    return n_records > 0 and int(size[size > 1].sum()) >= LEAST_TOGETHER * n_records


def fitted_conditional(
    table: ContingencyTable,
    vertex: int,
    masks: Sequence[int],
    contexts: Sequence[Context] | None = None,
    households: Households | None = None,
) -> tuple[Conditional, Betas]:
    """Smooth every context by leave-one-out likelihood on all records, unless the fitted ``contexts`` are given.

    With ``households``, whole households are left out instead of single records.

    1. Rows are the pairs of the longest context; shorter contexts merge some of them.
    2. The pairs of the first context are values of the vertex; each further context adds a vertex and refines them.
    3. The weight of the shorter context is the best by leave-one-out likelihood.
    4. The mean and variance of the posterior follow from those in the shorter context.
    """
    longest = (masks[-1] if masks else 0) | single(vertex)
    level_rows, counts = table.marginals.level_rows(longest), table.marginals.counts(longest)
    key = int(table.vertex_key[vertex])
    taken = None if table.deciders[key] is None else np.flatnonzero(level_rows[:, key])
    if taken is not None:
        level_rows, counts, n_pairs = np.asfortranarray(level_rows[taken]), counts[taken], len(counts)
    rows = CountedRows(table, level_rows, counts)
    before = rows.codes(vertex)
    betas = Betas.uniform(n_values(table, vertex))
    left_out = betas.mean
    fitted: list[Context] = []
    is_by_household = households is not None and contexts is None and taken is None
    if households is not None and is_by_household:
        row_of_member = table.marginals.positions(longest, households.cells)
        without = betas.mean[before[row_of_member]]
    for place, mask in enumerate(masks):
        if place == 0:
            given, pairs = rows.start(vertex, parent_of(table, vertex))
        else:
            added = (mask & ~masks[place - 1]).bit_length() - 1
            given, pairs = rows.refined(given, added), rows.refined(pairs, added)
        tally, first = rows.tally(given, pairs)
        shorter = before[first]
        betas, left_out = betas.at(shorter), left_out[shorter]
        if households is not None and is_by_household:
            others = households.others(tally, pairs.of_row[row_of_member], given.of_row[row_of_member])
            _, *weight = kernels.best_weight_without(*others, without, STRENGTHS, POWERS, DISCOUNTS)
            fitted.append(Context(mask, *weight))
            longer = np.empty(len(without))
            kernels.without_some(*others, without, *weight, longer)
            without = longer
        elif contexts is None:
            _, *weight = kernels.best_weight(*tally, left_out, STRENGTHS, POWERS, DISCOUNTS)
            fitted.append(Context(mask, *weight))
            one_less = np.empty(len(left_out))
            kernels.leave_one_out(*tally, left_out, *weight, one_less)
            left_out = one_less
        else:
            fitted.append(contexts[place])
        betas = betas.given(tally, fitted[-1])
        before = pairs.of_row
    posterior = betas.at(before)
    if taken is not None:
        # Nobody's value is certain where nobody is.
        whole = Betas(np.ones(n_pairs), np.zeros(n_pairs), np.zeros(n_pairs))
        for part, value in zip(whole, posterior, strict=True):
            part[taken] = value
        posterior = whole
    return Conditional(vertex, tuple(fitted)), posterior


def tally_at(table: ContingencyTable, context: Context, vertex: int, cells: NDArray[np.int32]) -> Tally:
    """The counts of any cells' values in a context, whether they occur or not."""
    marginals = table.marginals
    of_pair = marginals.lookup(context.mask | single(vertex), cells).astype(np.float64)
    at = marginals.positions(context.mask, cells)
    of_context = np.where(at >= 0, marginals.counts(context.mask)[at], 0).astype(np.float64)
    key = int(table.vertex_key[vertex])
    n_nobody = np.zeros(len(cells))
    if table.deciders[key] is not None:
        if not context.mask & table.chain_masks[key]:
            nobody = np.array(cells, order="F")
            nobody[:, key] = 0
            n_nobody = marginals.lookup(context.mask | single(vertex), nobody).astype(np.float64)
        # Where nobody is, the context says nothing: the value is certain.
        of_context = np.where(cells[:, key] > 0, of_context - n_nobody, 0.0)
    n_seen = np.zeros(len(cells))
    if context.discount > 0.0:
        n_seen = np.where(at >= 0, marginals.n_values_in(context.mask, vertex)[at], 0).astype(np.float64) - (n_nobody > 0.0)
    return Tally(of_pair, of_context, n_seen)


# ---------------------------------------------------------------------- drawing values


def uniform_siblings(
    table: ContingencyTable, vertex: int, drawn: NDArray[np.int32], rng: np.random.Generator
) -> NDArray[np.int32]:
    """A code of the vertex for each record, uniform among those inside the group of its key drawn so far."""
    parent = parent_of(table, vertex)
    n_levels = int(table.vertex_levels[vertex])
    if parent is None:
        first = int(table.deciders[int(table.vertex_key[vertex])] is not None)
        return rng.integers(first, n_levels, len(drawn)).astype(np.int32)
    group = table.level_codes(parent)[table.first_level(vertex)]
    order = np.argsort(group, kind="stable")
    size = np.bincount(group)
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    of_record = table.map_cells(drawn, parent)
    chosen = start[of_record] + (rng.random(len(drawn)) * size[of_record]).astype(np.int64)
    return np.asarray(order[chosen], dtype=np.int32)


def draw_in_context(
    table: ContingencyTable, context: Context, vertex: int, drawn: NDArray[np.int32], rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """A value for each record, drawn by the counts in its context, and whether it is taken rather than left to a shorter context.

    All of them are records of somebody. A value seen n_v times among n is drawn with probability n_v/n and taken with probability n/(n+w)·(1 − d/n_v), for the weight
    w of the shorter context and the discount d.
    """
    marginals = table.marginals
    pair, given = marginals.project(context.mask | single(vertex)), marginals.project(context.mask)
    representative = np.zeros(len(pair.counts), dtype=np.int64)
    representative[pair.position] = np.arange(table.n_cells)
    at = marginals.positions(context.mask, drawn)
    counts, group = _of_somebody(table, vertex, pair.counts, representative), given.position[representative]
    n_there = np.where(at >= 0, np.bincount(group, weights=counts)[at], 0.0)
    # Where the context does not occur, the drawn value is never taken.
    picked = draw_within(counts, group, np.maximum(at, 0), rng)
    share = n_there * (1.0 - context.discount / pair.counts[picked])
    is_taken = rng.random(len(drawn)) * (n_there + context.weight(n_there)) < share
    return table.vertex_codes(vertex)[representative[picked]], is_taken


def _of_somebody(
    table: ContingencyTable, vertex: int, counts: NDArray[np.int64], representative: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The counts of pairs, given a cell of each; 0 for a pair in which nobody has a value of the vertex."""
    key = int(table.vertex_key[vertex])
    return counts if table.deciders[key] is None else np.where(table.cells[representative, key] > 0, counts, 0)


# Many records are drawn by counts: those that agree so far are divided among the values together.


def split_among_siblings(
    table: ContingencyTable, vertex: int, drawn: NDArray[np.int32], number: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """:func:`uniform_siblings` for ``number`` records like each drawn so far: which of these, code, and how many."""
    parent = parent_of(table, vertex)
    n_levels = int(table.vertex_levels[vertex])
    group, of_record = np.zeros(n_levels, dtype=np.int64), np.zeros(len(drawn), dtype=np.int64)
    if parent is not None:
        group, of_record = (
            codes.astype(np.int64)
            for codes in (table.level_codes(parent)[table.first_level(vertex)], table.map_cells(drawn, parent))
        )
    possible = np.arange(int(parent is None and table.deciders[int(table.vertex_key[vertex])] is not None), n_levels)
    place, member, times = split_within(np.ones(len(possible)), group[possible], of_record, number, rng)
    return place, possible[member].astype(np.int32), times


def split_in_context(
    table: ContingencyTable,
    context: Context,
    vertex: int,
    drawn: NDArray[np.int32],
    number: NDArray[np.int64],
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """:func:`draw_in_context` for ``number`` records like each drawn so far: which of these, value, and how many take it."""
    marginals = table.marginals
    pair, given = marginals.project(context.mask | single(vertex)), marginals.project(context.mask)
    representative = np.zeros(len(pair.counts), dtype=np.int64)
    representative[pair.position] = np.arange(table.n_cells)
    at = marginals.positions(context.mask, drawn)
    of_somebody, group = _of_somebody(table, vertex, pair.counts, representative), given.position[representative]
    in_context = np.bincount(group, weights=of_somebody).astype(np.float64)
    occurring = np.flatnonzero((at >= 0) & (in_context[at] > 0.0))
    real = np.flatnonzero(of_somebody)
    place, member, times = split_within(of_somebody[real], group[real], at[occurring].astype(np.int64), number[occurring], rng)
    picked, n_there = real[member], in_context[at[occurring[place]]]
    share = n_there * (1.0 - context.discount / pair.counts[picked]) / (n_there + context.weight(n_there))
    taken = rng.binomial(times, np.clip(share, 0.0, 1.0))
    kept = np.flatnonzero(taken)
    return occurring[place[kept]], table.vertex_codes(vertex)[representative[picked[kept]]], taken[kept]
