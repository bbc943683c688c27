"""In which contexts is a vertex predicted, and from how many records?

A context is a set of earlier vertices. It grows by the vertex that raises the leave-one-out likelihood most, until none
does. Rows that agree on a context and a value form a *pair*, and only pairs are counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import backoff as kernels
from rarecell._kernels.hashing import n_slots_for
from rarecell.graph.masks import each_member, mask_of, single
from rarecell.progress import Progress, checkpoint
from rarecell.table.contingency import ContingencyTable

Floats = NDArray[np.float64]

STRENGTHS = 2.0 ** np.arange(-4.0, 10.0)
"""Candidate weights of the shorter context; the best by leave-one-out likelihood is taken."""

POWERS = np.array([0.0, 0.5])
"""Candidate powers: the weight is a constant, or proportional to the root of the number of records in the longer context."""

DISCOUNTS = np.array([0.0, 0.25, 0.5, 0.75])
"""Candidate discounts, with a constant weight; 0 is the Dirichlet estimate, and values near 1 fit where most values are rare."""

TRIED_STRENGTHS, TRIED_DISCOUNTS = STRENGTHS[1::3], DISCOUNTS[::2]
"""The fewer candidates by which possible next contexts are compared; the one that is taken gets the best of all."""

N_PARTNERS = 8
"""After the first step, only this many keys are tried: those that helped most in the first step."""


@dataclass(frozen=True)
class Context:
    """Vertices whose values are given, the weight of the next shorter context relative to this one, and the discount.

    The discount is taken from every value seen in this context and goes to the shorter one: where values keep appearing that
    were not seen before, a value seen once is mostly chance.
    """

    mask: int
    strength: float
    power: float
    discount: float = 0.0

    def weight(self, n_records: Floats) -> Floats:
        """Number of records that the shorter context counts for when this one has ``n_records``.

        A constant is right when the values in this context are a sample from the distribution in the shorter one. When
        they are not, the shorter context loses relevance more slowly as records are added here, and the root fits better.
        """
        return np.asarray(self.strength * n_records**self.power)


class RowGroups(NamedTuple):
    """The group of each row, and the number of groups."""

    of_row: NDArray[np.int32]
    n_groups: int


class Tally(NamedTuple):
    """For each pair, its number of records, that of its context, and the number of distinct values in its context."""

    of_pair: Floats
    of_context: Floats
    n_values: Floats


class CountedRows:
    """Rows of key codes with their counts, to be grouped by the values of vertices."""

    def __init__(self, table: ContingencyTable, rows: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
        self.table = table
        self.rows = rows
        self.counts = counts.astype(np.float64)
        size = n_slots_for(len(rows))
        self._owner = np.empty(size, dtype=np.int64)
        self._number = np.empty(size, dtype=np.int32)
        self._codes: dict[int, NDArray[np.int32]] = {}

    def codes(self, vertex: int) -> NDArray[np.int32]:
        codes = self._codes.get(vertex)
        if codes is None:
            codes = self._codes[vertex] = np.ascontiguousarray(self.table.map_cells(self.rows, vertex))
        return codes

    def start(self, vertex: int, parent: int | None) -> tuple[RowGroups, RowGroups]:
        """The groups of the shortest context of a vertex, and its pairs."""
        everyone = RowGroups(np.zeros(len(self.rows), dtype=np.int32), 1)
        contexts = everyone if parent is None else self.refined(everyone, parent)
        return contexts, self.refined(contexts, vertex)

    def refined(self, groups: RowGroups, vertex: int) -> RowGroups:
        group_of_row = np.empty(len(self.rows), dtype=np.int32)
        n_levels = int(self.table.vertex_levels[vertex])
        n_groups = kernels.refine(
            groups.of_row, groups.n_groups, self.codes(vertex), n_levels, self._owner, self._number, group_of_row
        )
        return RowGroups(group_of_row, n_groups)

    def tally(self, contexts: RowGroups, pairs: RowGroups) -> tuple[Tally, NDArray[np.int64]]:
        """The counts of each pair, and its first row."""
        of_pair, of_context, n_values, first = kernels.tally(
            pairs.of_row, pairs.n_groups, contexts.of_row, contexts.n_groups, self.counts
        )
        return Tally(of_pair, of_context, n_values), first


Scores = dict[tuple[tuple[int, ...], int], float]
"""Leave-one-out likelihood of a vertex, given the contexts that it was predicted from so far, if one more vertex is added to them.

Without a further vertex (−1), that in the last of these contexts, with the best of all weights.
"""


@dataclass(frozen=True)
class FinerScores:
    """Scores that are known from a finer table of the same records.

    Attributes
    ----------
    scores : dict
        Scores of the finer table, which are only read.
    number_there : tuple of int
        For each vertex, that of the finer table which groups the records alike, or a number that no vertex has there.
    """

    scores: Scores
    number_there: tuple[int, ...]

    def mask_there(self, mask: int) -> int:
        """The same set of vertices in the finer table."""
        return mask_of(self.number_there[v] for v in each_member(mask))


class Growth:
    """Chooses the contexts of every vertex.

    ``scores`` remembers how much each next context helps, which does not depend on the order of the keys: networks of the same table
    that share it compute it once. So do tables of the same records, by the ``finer`` scores.
    """

    def __init__(
        self, table: ContingencyTable, progress: Progress, scores: Scores | None = None, finer: FinerScores | None = None
    ) -> None:
        self.table = table
        self.progress = progress
        self._scores: Scores = {} if scores is None else scores
        self._finer = finer
        self._rows: dict[tuple[int, int] | None, CountedRows] = {}

    def _rows_of(self, key: int) -> CountedRows:
        """The cells in which somebody has a value of a key: nobody's is certain and need not be predicted."""
        decided = self.table.deciders[key]
        if decided not in self._rows:
            cells, counts = self.table.cells, self.table.counts
            if decided is not None:
                taken = np.flatnonzero(cells[:, decided[0]] >= decided[1])
                cells, counts = np.asfortranarray(cells[taken]), counts[taken]
            self._rows[decided] = CountedRows(self.table, cells, counts)
        return self._rows[decided]

    def conditionals(self, order: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
        """The vertices in the order of prediction, each with the masks of its contexts, shortest first."""
        conditionals: list[tuple[int, tuple[int, ...]]] = []
        for place, key in enumerate(order):
            chain = self.table.chains[key]
            for step, vertex in enumerate(chain):
                parent = chain[step - 1] if step else None
                checkpoint(self.progress, "fitting back-off networks")
                if step and (n_siblings(self.table, vertex) == 1).all():
                    conditionals.append((vertex, ()))
                    continue
                conditionals.append((vertex, self._contexts(vertex, parent, order[:place])))
        return conditionals

    def _contexts(self, vertex: int, parent: int | None, earlier: Sequence[int]) -> tuple[int, ...]:
        mask = 0 if parent is None else single(parent)
        masks = [mask]
        context = _Context(self._rows_of(int(self.table.vertex_key[vertex])), vertex, parent)
        reached = dict.fromkeys(earlier, 0)
        partners = list(earlier)
        while partners:
            score = self._score_of(vertex, masks, context)
            tried = self._tried(vertex, masks, context, reached, partners)
            # A gain of 1 pays for fitting the strength, the logarithm for having chosen among so many.
            if not tried or tried[0][0] < score + 1.0 + math.log(len(tried)):
                break
            if len(masks) == 1 and len(partners) > N_PARTNERS:
                best_first = list(dict.fromkeys(key for _, key, _ in tried))
                partners = best_first[:N_PARTNERS]
            _, key, level = tried[0]
            chain = self.table.chains[key]
            if reached[key]:
                mask &= ~single(chain[reached[key] - 1])
            reached[key] = level
            mask |= single(chain[level - 1])
            masks.append(mask)
            context.add(chain[level - 1])
        return tuple(masks)

    def _score_of(self, vertex: int, masks: Sequence[int], context: _Context) -> float:
        """Leave-one-out likelihood in the context that was reached."""
        known = self._known((vertex, *masks), -1)
        if known is None:
            known = self._scores[(vertex, *masks), -1] = context.score
        return known

    def _known(self, so_far: tuple[int, ...], further: int) -> float | None:
        score = self._scores.get((so_far, further))
        if score is None and self._finer is not None:
            return self._known_there(self._so_far_there(so_far), further)
        return score

    def _so_far_there(self, so_far: tuple[int, ...]) -> tuple[int, ...]:
        assert self._finer is not None
        return (self._finer.number_there[so_far[0]], *map(self._finer.mask_there, so_far[1:]))

    def _known_there(self, so_far: tuple[int, ...], further: int) -> float | None:
        assert self._finer is not None
        return self._finer.scores.get((so_far, further if further < 0 else self._finer.number_there[further]))

    def _tried(
        self, vertex: int, masks: Sequence[int], context: _Context, reached: dict[int, int], partners: Sequence[int]
    ) -> list[tuple[float, int, int]]:
        """Leave-one-out likelihood of every next context, best first; each makes one key one or two steps finer."""
        so_far = (vertex, *masks)
        there = None if self._finer is None else self._so_far_there(so_far)
        tried = []
        for key in partners:
            chain = self.table.chains[key]
            for level in range(reached[key] + 1, min(reached[key] + 2, len(chain)) + 1):
                further = chain[level - 1]
                score = self._scores.get((so_far, further))
                if score is None and there is not None:
                    score = self._known_there(there, further)
                if score is None:
                    score = self._scores[so_far, further] = context.score_with(further)
                tried.append((score, key, level))
        return sorted(tried, key=lambda context: (-context[0], context[1], context[2]))


class _Context:
    """The records in a growing context of a vertex; they are grouped when a score is asked for that is not known."""

    def __init__(self, rows: CountedRows, vertex: int, parent: int | None) -> None:
        self._rows = rows
        self._vertex = vertex
        self._parent = parent
        self._waiting: list[int] = []
        self._reached: _Reached | None = None

    def add(self, vertex: int) -> None:
        """Make the context longer, or finer."""
        self._waiting.append(vertex)

    @property
    def score(self) -> float:
        """Leave-one-out likelihood with the best of all weights."""
        return self._grown().score

    def score_with(self, vertex: int) -> float:
        """Leave-one-out likelihood if one more vertex were added, with the best of a few weights."""
        rows, grown = self._rows, self._grown()
        tally, first = rows.tally(rows.refined(grown.contexts, vertex), rows.refined(grown.pairs, vertex))
        of_shorter = grown.probability[grown.pairs.of_row[first]]
        return float(kernels.best_weight(*tally, of_shorter, TRIED_STRENGTHS, POWERS[:1], TRIED_DISCOUNTS)[0])

    def _grown(self) -> _Reached:
        rows, reached = self._rows, self._reached
        if reached is None:
            contexts, pairs = rows.start(self._vertex, self._parent)
            reached = _shrunk(rows, contexts, pairs, 1.0 / n_values(rows.table, self._vertex), rows.codes(self._vertex))
        for vertex in self._waiting:
            contexts, pairs = rows.refined(reached.contexts, vertex), rows.refined(reached.pairs, vertex)
            reached = _shrunk(rows, contexts, pairs, reached.probability, reached.pairs.of_row)
        self._waiting.clear()
        self._reached = reached
        return reached


class _Reached(NamedTuple):
    """A context: its groups and pairs, its leave-one-out likelihood, and the probability of each pair."""

    contexts: RowGroups
    pairs: RowGroups
    score: float
    probability: Floats


def _shrunk(rows: CountedRows, contexts: RowGroups, pairs: RowGroups, shorter: Floats, before: NDArray[np.int32]) -> _Reached:
    """Shrink towards the probabilities in a shorter context; ``before`` is the shorter pair of each row."""
    tally, first = rows.tally(contexts, pairs)
    of_shorter = shorter[before[first]]
    _, *weight = kernels.best_weight(*tally, of_shorter, STRENGTHS, POWERS, DISCOUNTS)
    probability = np.empty(len(first))
    score = kernels.leave_one_out(*tally, of_shorter, *weight, probability)
    return _Reached(contexts, pairs, float(score), probability)


def parent_of(table: ContingencyTable, vertex: int) -> int | None:
    chain = table.chains[int(table.vertex_key[vertex])]
    step = chain.index(vertex)
    return chain[step - 1] if step else None


def n_siblings(table: ContingencyTable, vertex: int) -> NDArray[np.int64]:
    """For each code of a vertex, the number of codes in the same group of the next coarser vertex."""
    parent = parent_of(table, vertex)
    if parent is None:
        number = np.full(int(table.vertex_levels[vertex]), int(table.vertex_levels[vertex]))
        if table.deciders[int(table.vertex_key[vertex])] is not None:
            number -= 1
            number[0] = 1
        return number
    group = table.level_codes(parent)[table.first_level(vertex)]
    return np.asarray(np.bincount(group)[group])


def n_values(table: ContingencyTable, vertex: int) -> Floats:
    """Like :func:`n_siblings`, plus Chao's estimate of the number of unseen codes, s1(s1−1)/(2(s2+1)).

    s1 and s2 are the numbers of codes of the group with one and with two records. The rest of the
    probability is left to the unseen codes. The result is kept as long as the table: every network asks for it.
    """
    kept = _n_values.setdefault(table, {})
    if vertex not in kept:
        kept[vertex] = _counted_n_values(table, vertex)
    return kept[vertex]


_n_values: WeakKeyDictionary[ContingencyTable, dict[int, Floats]] = WeakKeyDictionary()


def _counted_n_values(table: ContingencyTable, vertex: int) -> Floats:
    seen = n_siblings(table, vertex)
    n_records = np.zeros(len(seen))
    of_vertex = table.marginals.cells_of(single(vertex))
    n_records[of_vertex.keys] = of_vertex.counts
    parent = parent_of(table, vertex)
    group = np.zeros(len(seen), dtype=np.int64)
    if parent is not None:
        group = table.level_codes(parent)[table.first_level(vertex)].astype(np.int64)
    once, twice = (np.bincount(group, weights=n_records == k) for k in (1, 2))
    return np.asarray(seen + (once * (once - 1.0) / (2.0 * (twice + 1.0)))[group])
