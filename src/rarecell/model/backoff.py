"""What is the probability of a cell when every conditional falls back on coarser ones?

The keys are taken in some order, and each from its coarsest resolution to its finest; every vertex is predicted from the
vertices before it. Its distribution in a context (the values of some of them) is estimated from the records in that
context and shrunk towards its distribution in a shorter context, that one towards a still shorter one, down to the
uniform distribution: a hierarchical Dirichlet estimate, as in language models. Contexts grow by the vertex
that raises the leave-one-out likelihood most, until none does.

Unlike a log-linear model chosen by a penalty, such a network has no edge that is either there or not: an interaction
counts as far as the records bear it out. It also knows how sure it is: the variance of each conditional's posterior adds
up along the chain. An average over several orders of the keys is the default model for risk.

References
----------
MacKay and Peto (1995), A hierarchical Dirichlet language model. Natural Language Engineering 1.
Witten and Bell (1991), The zero-frequency problem. IEEE Transactions on Information Theory 37.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import backoff as kernels
from rarecell._kernels import gamma
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.table import ContingencyTable
from rarecell.thinning import random_part
from rarecell.threads import in_parts, on_all_cores

Floats = NDArray[np.float64]

STRENGTHS = 2.0 ** np.arange(-4.0, 10.0)
"""What the shorter context may be worth; the best by leave-one-out likelihood is taken."""

POWERS = np.array([0.0, 0.5])
"""The shorter context counts as so many records, or as so many roots of the records of the longer one; the better is taken."""

N_ORDERS = 6
"""Orders of the keys that are averaged."""

MANY_CELLS = 20_000
"""With more occupied cells than this, contexts are chosen on a random part of the records."""

N_PARTNERS = 8
"""Beyond the first step, a context grows by the keys that helped most in the first step."""


@dataclass(frozen=True)
class Context:
    """Vertices whose values are given, and how much the next shorter context counts beside it."""

    mask: int
    strength: float
    power: float

    def weight(self, n_records: Floats) -> Floats:
        """Records that the shorter context is worth beside ``n_records`` in this one.

        A fixed number is right when the values in this context are a sample of what the shorter one says. When they are
        not, more records here do not make the shorter context as much less relevant, and the root is the better law.
        """
        return np.asarray(self.strength * n_records**self.power)


@dataclass(frozen=True)
class Conditional:
    """How a vertex is predicted: from contexts that grow, the shortest first."""

    vertex: int
    contexts: tuple[Context, ...]

    @property
    def pair(self) -> int:
        """The vertex together with its longest context: cells that agree on these have the same probability."""
        return (self.contexts[-1].mask if self.contexts else 0) | 1 << self.vertex


class BackoffNetwork:
    """One network, for one order of the keys.

    Parameters
    ----------
    table : the contingency table; its coarsenings are the steps in which a key is predicted
    order : positions of the keys
    part : a random part of the records with the same vertices, on which contexts are chosen; all records unless given
    """

    def __init__(
        self, table: ContingencyTable, order: Sequence[int], *, part: ContingencyTable | None = None, progress: Progress = SILENT
    ) -> None:
        self.table = table
        self.order = tuple(order)
        conditionals = []
        total = np.zeros((table.n_cells, 3))
        for vertex, masks in _Growth(part or table, progress).conditionals(self.order):
            conditional, fitted = _fitted(table, vertex, masks)
            conditionals.append(conditional)
            position = table.marginals.positions(conditional.pair, None)
            kernels.add_at(total, gamma.beta_log_moments(fitted.mean, fitted.variance), position)
        self.conditionals = tuple(conditionals)
        self._at_cells: Floats | None = total

    def posterior(self, cells: NDArray[np.int32] | None = None) -> tuple[Floats, Floats]:
        """Mean and variance of the logarithm of each cell's probability, after the data.

        Every conditional has a beta posterior with the mean and variance that the contexts give it; the logarithms of
        independent betas add up.
        """
        found = self.log_moments(cells)
        return found.mean_log, found.variance_log

    def log_cell_probability(self, cells: NDArray[np.int32] | None = None) -> Floats:
        """log of the posterior mean of each cell's probability."""
        return self.log_moments(cells).log_mean

    def log_moments(self, cells: NDArray[np.int32] | None) -> _LogMoments:
        """Moments of the probability of each of these cells, the occupied ones unless given."""
        return _LogMoments(*self.log_moment_rows(cells).T)

    def log_moment_rows(self, cells: NDArray[np.int32] | None) -> Floats:
        if cells is None and self._at_cells is not None:
            return self._at_cells
        asked = self.table.cells if cells is None else cells
        total = np.zeros((len(asked), 3))
        everyone = np.arange(len(asked), dtype=np.int32)
        for mean, variance, _ in self._conditional_moments(asked):
            kernels.add_at(total, gamma.beta_log_moments(mean, variance), everyone)
        return total

    def forget_cells(self) -> None:
        """Give back what is kept of every cell; it is computed anew when it is asked for."""
        self._at_cells = None

    def posterior_log_cell_probability(self, cells: NDArray[np.int32], n_draws: int, rng: np.random.Generator) -> Floats:
        """Draws of log p of the cells, one row a draw; cells that share a value in a context share its draw."""
        log_p = np.zeros((n_draws, len(cells)))
        for mean, variance, pairs in self._conditional_moments(cells):
            _, first, group = np.unique(pairs, return_index=True, return_inverse=True)
            mass = np.minimum(mean * (1.0 - mean) / np.maximum(variance, 1e-300) - 1.0, 1e12)[first]
            own = rng.standard_gamma(np.maximum(mean[first] * mass, 1e-12), (n_draws, len(first)))
            others = rng.standard_gamma(np.maximum((1.0 - mean[first]) * mass, 0.0), (n_draws, len(first)))
            own = np.maximum(own, 1e-300)
            log_p += (np.log(own) - np.log(own + others))[:, group]
        return log_p

    def _conditional_moments(self, cells: NDArray[np.int32]) -> Iterator[tuple[Floats, Floats, NDArray[np.int64]]]:
        """Posterior mean and variance of every conditional at any cells, and numbers that cells with the same pair share."""
        for conditional in self.conditionals:
            _, fitted = _fitted(self.table, conditional.vertex, [c.mask for c in conditional.contexts], conditional.contexts)
            position = self.table.marginals.positions(conditional.pair, cells).astype(np.int64)
            mean, variance = fitted.mean[position], fitted.variance[position]
            unseen = np.flatnonzero(position < 0)
            mean[unseen], variance[unseen] = self._unseen_moments(conditional, cells[unseen])
            # A value that was never seen in its context has nothing to share.
            position[unseen] = -1 - np.arange(len(unseen))
            yield mean, variance, position

    def _unseen_moments(self, conditional: Conditional, cells: NDArray[np.int32]) -> tuple[Floats, Floats]:
        """Posterior mean and variance where a value was not seen in the longest context, and perhaps not in shorter ones."""
        table = self.table
        codes = table.map_cells(cells, conditional.vertex)
        mean = 1.0 / _n_values(table, conditional.vertex)[codes]
        variance = np.zeros(len(codes))
        for context in conditional.contexts:
            if not len(cells):
                break
            of_pair = table.marginals.lookup(context.mask | 1 << conditional.vertex, cells).astype(np.float64)
            of_context = table.marginals.lookup(context.mask, cells).astype(np.float64)
            is_seen = of_context > 0.0
            weight = context.weight(of_context)
            total = np.where(is_seen, of_context + weight, 1.0)
            share = np.where(is_seen, weight / total, 1.0)
            mean = of_pair / total + share * mean
            variance = np.where(is_seen, mean * (1.0 - mean) / (total + 1.0), 0.0) + share**2 * variance
        return mean, variance

    def sample(self, n_records: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw records, as key codes: from the longest context, or with the weight of the shorter one from there."""
        table = self.table
        drawn = np.zeros((n_records, table.n_keys), dtype=np.int32)
        for conditional in self.conditionals:
            codes = _uniform_siblings(table, conditional.vertex, drawn, rng)
            undecided = np.ones(n_records, dtype=bool)
            for context in reversed(conditional.contexts):
                rows = np.flatnonzero(undecided)
                value, of_context = _draw_in_context(table, context, conditional.vertex, drawn[rows], rng)
                taken = rng.random(len(rows)) * (of_context + context.weight(of_context)) < of_context
                codes[rows[taken]] = value[taken]
                undecided[rows[taken]] = False
            key = int(table.vertex_key[conditional.vertex])
            drawn[:, key] = table.first_level(conditional.vertex)[codes]
        return drawn


class BackoffModel:
    """The average over several orders of the keys; fit it with :func:`fit_backoff`."""

    def __init__(self, members: Sequence[BackoffNetwork]) -> None:
        self.members = tuple(members)
        self.table = members[0].table
        self._at_cells = _average([member.log_moment_rows(None) for member in members])
        for member in members:
            member.forget_cells()

    @property
    def generators(self) -> tuple[int, ...]:
        """Single keys: the network smooths every larger marginal."""
        return tuple(1 << k for k in range(self.table.n_keys))

    def posterior(self, cells: NDArray[np.int32] | None = None) -> tuple[Floats, Floats]:
        """Mean and variance of the logarithm of each cell's probability.

        The variance is the mean over the networks, the width of one posterior; the mean is moved so that it belongs to
        the arithmetic mean of their probabilities.
        """
        found = self._averaged(cells)
        return found.mean_log, found.variance_log

    def _averaged(self, cells: NDArray[np.int32] | None) -> _LogMoments:
        if cells is None:
            return self._at_cells
        return _average([member.log_moment_rows(cells) for member in self.members])

    def posterior_log_cell_probability(self, cells: NDArray[np.int32], n_draws: int, rng: np.random.Generator) -> Floats:
        """Draws of log p of the cells, one row a draw, each from a network chosen at random."""
        shares = rng.multinomial(n_draws, np.full(len(self.members), 1.0 / len(self.members)))
        calls = [(m, cells, int(n), own) for m, n, own in zip(self.members, shares, rng.spawn(len(shares)), strict=True)]
        return np.concatenate(on_all_cores(BackoffNetwork.posterior_log_cell_probability, calls))

    def log_cell_probability(self, cells: NDArray[np.int32] | None = None) -> Floats:
        """log of the mean probability over the networks."""
        return self._averaged(cells).log_mean

    def sample(self, n_records: int, rng: np.random.Generator) -> NDArray[np.int32]:
        shares = rng.multinomial(n_records, np.full(len(self.members), 1.0 / len(self.members)))
        drawn = np.concatenate([m.sample(int(n), rng) for m, n in zip(self.members, shares, strict=True)])
        return rng.permutation(drawn, axis=0)

    def describe(self) -> str:
        return f"average of {len(self.members)} back-off networks, one for each of as many orders of the keys"

    __str__ = describe


def _average(rows: Sequence[Floats]) -> _LogMoments:
    """Moments of the mean probability of several networks, from the rows of moments of each."""
    found = _LogMoments(*(np.empty(len(rows[0])) for _ in range(3)))

    def average(log_mean: Floats, mean_log: Floats, variance_log: Floats, *parts: Floats) -> None:
        logs = np.stack([part[:, 0] for part in parts])
        largest = logs.max(axis=0)
        log_mean[:] = np.log(np.exp(logs - largest).mean(axis=0)) + largest
        mean_log[:] = np.mean([part[:, 1] for part in parts], axis=0) + log_mean - logs.mean(axis=0)
        variance_log[:] = np.mean([part[:, 2] for part in parts], axis=0)

    in_parts(average, *found, *rows)
    return found


def fit_backoff(table: ContingencyTable, *, n_orders: int = N_ORDERS, seed: int = 0, progress: Progress = SILENT) -> BackoffModel:
    """Fit back-off networks for several random orders of the keys.

    Parameters
    ----------
    table : the contingency table, with the coarsenings to be used
    n_orders : number of orders
    seed : of the orders
    """
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(table.n_keys).tolist() for _ in range(n_orders)]
    part = _thinned(table, seed)
    fit = partial(BackoffNetwork, part=part, progress=progress)
    return BackoffModel(on_all_cores(fit, [(table, order) for order in orders]))


# ---------------------------------------------------------------------- growing contexts


class _Rows:
    """Groups of some rows of key codes, with their counts, by the values of some vertices."""

    def __init__(self, table: ContingencyTable, rows: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
        self.table = table
        self.rows = rows
        self.counts = counts.astype(np.float64)
        size = 1 << max(4, int(2 * len(rows) - 1).bit_length())
        self._owner = np.empty(size, dtype=np.int64)
        self._number = np.empty(size, dtype=np.int32)
        self._codes: dict[int, NDArray[np.int32]] = {}

    def codes(self, vertex: int) -> NDArray[np.int32]:
        found = self._codes.get(vertex)
        if found is None:
            found = self._codes[vertex] = np.ascontiguousarray(self.table.map_cells(self.rows, vertex))
        return found

    def start(self, vertex: int, parent: int | None) -> tuple[_Groups, _Groups]:
        """The shortest context of a vertex, and its pairs."""
        everyone = _Groups(np.zeros(len(self.rows), dtype=np.int32), 1)
        contexts = everyone if parent is None else self.refined(everyone, parent)
        return contexts, self.refined(contexts, vertex)

    def refined(self, groups: _Groups, vertex: int) -> _Groups:
        found = np.empty(len(self.rows), dtype=np.int32)
        n_levels = int(self.table.vertex_levels[vertex])
        n_found = kernels.refine(groups.of_row, groups.n_groups, self.codes(vertex), n_levels, self._owner, self._number, found)
        return _Groups(found, n_found)

    def tally(self, contexts: _Groups, pairs: _Groups) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """For each pair its records, those of its context, and its first row."""
        found = kernels.tally(pairs.of_row, pairs.n_groups, contexts.of_row, contexts.n_groups, self.counts)
        return found[0], found[1], found[2]


class _Groups(NamedTuple):
    of_row: NDArray[np.int32]
    n_groups: int


class _Fitted(NamedTuple):
    """Posterior mean and variance of a conditional at each cell of the marginal of its pairs."""

    mean: Floats
    variance: Floats


class _LogMoments(NamedTuple):
    """Of the probability of cells: the logarithm of its mean, and mean and variance of its logarithm."""

    log_mean: Floats
    mean_log: Floats
    variance_log: Floats


def _fitted(
    table: ContingencyTable, vertex: int, masks: Sequence[int], contexts: Sequence[Context] | None = None
) -> tuple[Conditional, _Fitted]:
    """Smooth every context by leave-one-out likelihood on all records, unless it is known already how.

    1. Rows are the pairs of the longest context; shorter contexts put some of them together.
    2. The pairs of the first context are values of the vertex; each further context adds a vertex and refines them.
    3. The weight of the shorter context is the best by leave-one-out likelihood.
    4. Mean and variance of the posterior follow from those of the shorter context.
    """
    longest = (masks[-1] if masks else 0) | 1 << vertex
    rows = _Rows(table, table.marginals.level_rows(longest), table.marginals.counts(longest))
    before = rows.codes(vertex)
    mean = 1.0 / _n_values(table, vertex)
    variance, left_out = np.zeros(len(mean)), mean
    found: list[Context] = []
    for place, mask in enumerate(masks):
        if place == 0:
            given, pairs = rows.start(vertex, _parent(table, vertex))
        else:
            added = (mask & ~masks[place - 1]).bit_length() - 1
            given, pairs = rows.refined(given, added), rows.refined(pairs, added)
        of_pair, of_context, first = rows.tally(given, pairs)
        shorter = before[first]
        mean, variance, left_out = mean[shorter], variance[shorter], left_out[shorter]
        if contexts is None:
            _, strength, power = kernels.best_weight(of_pair, of_context, left_out, STRENGTHS, POWERS)
            found.append(Context(mask, strength, power))
            one_less = np.empty(len(left_out))
            kernels.leave_one_out(of_pair, of_context, left_out, strength, power, one_less)
            left_out = one_less
        else:
            found.append(contexts[place])
        weight = found[-1].weight(of_context)
        total = of_context + weight
        share = weight / total
        mean = of_pair / total + share * mean
        variance = mean * (1.0 - mean) / (total + 1.0) + share**2 * variance
        before = pairs.of_row
    return Conditional(vertex, tuple(found)), _Fitted(mean[before], variance[before])


class _Growth:
    """Chooses the contexts of every vertex."""

    def __init__(self, table: ContingencyTable, progress: Progress) -> None:
        self.table = table
        self.progress = progress
        self.rows = _Rows(table, table.cells, table.counts)

    def conditionals(self, order: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
        """For each vertex, in the order it is predicted, the masks of its contexts, the shortest first."""
        found: list[tuple[int, tuple[int, ...]]] = []
        for place, key in enumerate(order):
            chain = self.table.chains[key]
            for step, vertex in enumerate(chain):
                parent = chain[step - 1] if step else None
                checkpoint(self.progress, "fitting back-off networks")
                if step and (_n_siblings(self.table, vertex) == 1).all():
                    found.append((vertex, ()))
                    continue
                found.append((vertex, self._contexts(vertex, parent, order[:place])))
        return found

    def _contexts(self, vertex: int, parent: int | None, earlier: Sequence[int]) -> tuple[int, ...]:
        contexts, pairs = self.rows.start(vertex, parent)
        of_value = 1.0 / _n_values(self.table, vertex)
        mask = 0 if parent is None else 1 << parent
        masks = [mask]
        reached = dict.fromkeys(earlier, 0)
        score, shorter = self._shrunk(contexts, pairs, of_value, self.rows.codes(vertex))
        partners = list(earlier)
        while partners:
            tried = self._tried(contexts, pairs, shorter, reached, partners)
            # A gain of 1 pays for the strength, the logarithm for having chosen among so many.
            if not tried or tried[0][0] < score + 1.0 + math.log(len(tried)):
                break
            if len(masks) == 1 and len(partners) > N_PARTNERS:
                best_first = list(dict.fromkeys(key for _, key, _ in tried))
                partners = best_first[:N_PARTNERS]
            _, key, level = tried[0]
            chain = self.table.chains[key]
            if reached[key]:
                mask &= ~(1 << chain[reached[key] - 1])
            reached[key] = level
            mask |= 1 << chain[level - 1]
            masks.append(mask)
            before = pairs.of_row
            contexts = self.rows.refined(contexts, chain[level - 1])
            pairs = self.rows.refined(pairs, chain[level - 1])
            score, shorter = self._shrunk(contexts, pairs, shorter, before)
        return tuple(masks)

    def _shrunk(self, contexts: _Groups, pairs: _Groups, shorter: Floats, before: NDArray[np.int32]) -> tuple[float, Floats]:
        """Leave-one-out likelihood in a context, and the probability of each pair; ``before`` is each row's shorter pair."""
        of_pair, of_context, first = self.rows.tally(contexts, pairs)
        of_shorter = shorter[before[first]]
        _, strength, power = kernels.best_weight(of_pair, of_context, of_shorter, STRENGTHS, POWERS)
        found = np.empty(len(of_pair))
        score = kernels.leave_one_out(of_pair, of_context, of_shorter, strength, power, found)
        return float(score), found

    def _tried(
        self,
        contexts: _Groups,
        pairs: _Groups,
        shorter: Floats,
        reached: dict[int, int],
        partners: Sequence[int],
    ) -> list[tuple[float, int, int]]:
        """Leave-one-out likelihood of every next context, best first: a key one or two steps finer than it is now."""
        tried = []
        for key in partners:
            chain = self.table.chains[key]
            for level in range(reached[key] + 1, min(reached[key] + 2, len(chain)) + 1):
                finer = chain[level - 1]
                of_pair, of_context, first = self.rows.tally(self.rows.refined(contexts, finer), self.rows.refined(pairs, finer))
                of_shorter = shorter[pairs.of_row[first]]
                score, _, _ = kernels.best_weight(of_pair, of_context, of_shorter, STRENGTHS, POWERS[:1])
                tried.append((float(score), key, level))
        return sorted(tried, key=lambda one: (-one[0], one[1], one[2]))


def _thinned(table: ContingencyTable, seed: int) -> ContingencyTable:
    """A random part of the records with few enough cells, or the table itself."""
    if table.n_cells <= MANY_CELLS:
        return table
    n_kept = int(table.n_records * MANY_CELLS / table.n_cells)
    return random_part(table, n_kept, np.random.default_rng(seed))


# ---------------------------------------------------------------------- vertices and their contexts


def _parent(table: ContingencyTable, vertex: int) -> int | None:
    chain = table.chains[int(table.vertex_key[vertex])]
    step = chain.index(vertex)
    return chain[step - 1] if step else None


def _n_siblings(table: ContingencyTable, vertex: int) -> NDArray[np.int64]:
    """For each code of a vertex, how many codes fall into the same group of the next coarser vertex."""
    parent = _parent(table, vertex)
    if parent is None:
        return np.full(int(table.vertex_levels[vertex]), int(table.vertex_levels[vertex]))
    group = table.level_codes(parent)[table.first_level(vertex)]
    return np.asarray(np.bincount(group)[group])


def _n_values(table: ContingencyTable, vertex: int) -> Floats:
    """Like :func:`_n_siblings`, with an estimate of the codes that exist and were not seen: Chao's, s1(s1−1)/(2(s2+1)).

    s1 and s2 are the codes of the group with one and two records. What unseen values deserve is left to them.
    """
    seen = _n_siblings(table, vertex)
    n_records = np.zeros(len(seen))
    of_vertex = table.marginals.cells_of(1 << vertex)
    n_records[of_vertex.keys] = of_vertex.counts
    parent = _parent(table, vertex)
    group = np.zeros(len(seen), dtype=np.int64)
    if parent is not None:
        group = table.level_codes(parent)[table.first_level(vertex)].astype(np.int64)
    once, twice = (np.bincount(group, weights=n_records == k) for k in (1, 2))
    return np.asarray(seen + (once * (once - 1.0) / (2.0 * (twice + 1.0)))[group])


def _uniform_siblings(
    table: ContingencyTable, vertex: int, drawn: NDArray[np.int32], rng: np.random.Generator
) -> NDArray[np.int32]:
    """A code of the vertex for each record, uniform among those inside what was drawn of its key so far."""
    parent = _parent(table, vertex)
    n_levels = int(table.vertex_levels[vertex])
    if parent is None:
        return rng.integers(0, n_levels, len(drawn)).astype(np.int32)
    group = table.level_codes(parent)[table.first_level(vertex)]
    order = np.argsort(group, kind="stable")
    size = np.bincount(group)
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    of_record = table.map_cells(drawn, parent)
    chosen = start[of_record] + (rng.random(len(drawn)) * size[of_record]).astype(np.int64)
    return np.asarray(order[chosen], dtype=np.int32)


def _draw_in_context(
    table: ContingencyTable, context: Context, vertex: int, drawn: NDArray[np.int32], rng: np.random.Generator
) -> tuple[NDArray[np.int32], Floats]:
    """A value for each record by the counts in its context, and the number of records in that context."""
    marginals = table.marginals
    pair, given = marginals.of(context.mask | 1 << vertex), marginals.of(context.mask)
    representative = np.zeros(len(pair.counts), dtype=np.int64)
    representative[pair.position] = np.arange(table.n_cells)
    order = np.argsort(given.position[representative], kind="stable")
    upper = np.cumsum(pair.counts[order])
    ends = np.cumsum(given.counts)
    at = marginals.positions(context.mask, drawn)
    n_there = np.where(at >= 0, given.counts[at], 0)
    target = ends[at] - given.counts[at] + rng.random(len(drawn)) * n_there
    picked = np.minimum(np.searchsorted(upper, target, side="right"), len(order) - 1)
    return table.vertex_codes(vertex)[representative[order[picked]]], n_there.astype(np.float64)
