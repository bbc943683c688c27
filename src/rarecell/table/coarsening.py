"""At which coarser resolutions should a key be offered to the model?

A key with many levels is too expensive to join with others in full detail, so a penalised fit drops the edge and the
risk is overstated. If the key is also offered at coarser resolutions, it can interact with each other key at the
resolution the data can support; the model decides which. The coarsenings of a key are nested.

The data decide which levels are merged. At each step these are the two whose merger loses least of the log-likelihood of
all two-way tables with the other keys; where the levels are ordered, only neighbours are merged. Of the resulting
groupings, those with a third, a ninth … of the levels are kept.

A level of few records is little more than those records: their other values would choose its group, and the group would then
predict them. So levels of few records start together: all rare levels of an unordered key as one group, and neighbouring levels
of an ordered key in bands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import agglomeration as kernels
from rarecell.graph.masks import MAX_VERTICES
from rarecell.outcome.words import between, counted
from rarecell.table.categories import Categories, Coarsening, members_of_groups
from rarecell.table.contingency import ContingencyTable

MANY_LEVELS = 8
"""Keys with fewer levels than this are left as they are."""

FACTOR = 3
"""The number of groups is divided by about this factor from one coarsening to the next, and is at least this."""

LEAST_RECORDS = 12
"""Levels of an unordered key with fewer records than this start as one group."""

LEAST_IN_BAND = 10
"""Levels of an ordered key start in bands of at least this many records."""

MOST_NOMINAL_LEVELS = 256
"""In an unordered key with more levels, the rarest are merged first, because comparing all pairs would take too long."""


def automatic_coarsenings(table: ContingencyTable) -> tuple[Coarsening, ...]:
    """Coarsenings of every key with many levels, as far as vertices are left; keys with the most levels come first."""
    coarsenings: list[Coarsening] = []
    for k in sorted(range(table.n_keys), key=lambda k: -table.categories[k].n_levels):
        room = MAX_VERTICES - table.n_keys - len(coarsenings)
        if room <= 0:
            break
        coarsenings.extend(replace(c, is_learned=True) for c in key_coarsenings(table, k)[:room])
    return tuple(coarsenings)


def with_answered(table: ContingencyTable) -> ContingencyTable:
    """The table with one more vertex, the coarsest, for each key with missing values: whether its value is known.

    Keys whose coarsest groups merge missing values with others get none, nor do keys for which no vertex is left.
    """
    coarsenings = list(table.coarsenings)
    for key, chain in zip(table.categories, table.chains, strict=True):
        answered = np.zeros(key.n_levels, dtype=np.int32)
        answered[-1] = 1
        is_alone = (table.level_codes(chain[0]) == table.level_codes(chain[0])[-1]).sum() == 1
        n_coarsest = int(table.vertex_levels[chain[0]])
        if key.has_missing and is_alone and n_coarsest > 2 and table.n_keys + len(coarsenings) < MAX_VERTICES:
            coarsenings.append(Coarsening(f"{key.key}/answered", key.key, answered, ("known", "missing")))
    return table.with_coarsenings(coarsenings) if len(coarsenings) > len(table.coarsenings) else table


def relearned(table: ContingencyTable) -> ContingencyTable:
    """The table as a file of its own: without levels that it does not have, and its learned coarsenings learned from it alone.

    Cells keep their order, and structural zeros stay.
    """
    categories, columns, kept = [], [], []
    for k, old in enumerate(table.categories):
        levels, codes = np.unique(table.cells[:, k], return_inverse=True)
        categories.append(replace(old, levels=tuple(old.levels[level] for level in levels)))
        columns.append(codes.astype(np.int32).ravel())
        kept += [_among(c, levels) for c in table.coarsenings if c.key == old.key and not c.is_learned]
    cells = np.asfortranarray(np.stack(columns, axis=1))
    part = ContingencyTable.of_sorted_cells(tuple(categories), cells, table.counts, table.weights, table.record_cell)
    of_key = {c.key: c.n_levels for c in categories}
    part = part.with_coarsenings([c for c in kept if 1 < c.n_levels < of_key[c.key]])
    named = {c.key for c in table.coarsenings if c.is_learned}
    part = part.with_coarsenings([*part.coarsenings, *(c for c in automatic_coarsenings(part) if c.key in named)])
    return replace(part, structural_zeros=table.structural_zeros)


def _among(coarsening: Coarsening, levels: NDArray[np.int32]) -> Coarsening:
    """The same groups of some of the levels."""
    groups, codes = np.unique(coarsening.group_of_level[levels], return_inverse=True)
    return replace(coarsening, group_of_level=codes.astype(np.int32).ravel(), labels=tuple(coarsening.labels[g] for g in groups))


def key_coarsenings(table: ContingencyTable, key: int) -> list[Coarsening]:
    """The coarsenings of one key, finest first; an empty list when it has few levels, or fewer than two that are common."""
    categories = table.categories[key]
    n_real = categories.n_levels - categories.has_missing - categories.has_nobody
    if n_real < MANY_LEVELS:
        return []
    merging = _Merging.of(table, key)
    coarsenings = []
    if merging.n_common < 2:
        return []
    n_groups = round(n_real / FACTOR)
    while n_groups >= FACTOR:
        if n_groups < merging.n_start:
            coarsenings.append(merging.coarsening(n_groups))
        n_groups = round(n_groups / FACTOR)
    return coarsenings


@dataclass(frozen=True, eq=False)
class _Merging:
    """Which levels of a key are merged, pair by pair; ``start`` is the group of each level before the first merger."""

    categories: Categories
    counts: NDArray[np.float64]
    start: NDArray[np.int64]
    merges: NDArray[np.int64]

    @classmethod
    def of(cls, table: ContingencyTable, key: int) -> _Merging:
        categories = table.categories[key]
        real = slice(int(categories.has_nobody), categories.n_levels - categories.has_missing)
        counts = np.bincount(table.cells[:, key], weights=table.counts, minlength=categories.n_levels)[real].astype(np.float64)
        if categories.is_ordered:
            start = _bands(counts, LEAST_IN_BAND)
        else:
            start = rare_together(counts, LEAST_RECORDS)
        joint = _joint_with_other_keys(table, key, start)
        totals = np.bincount(start, weights=counts)
        merge = kernels.merge_neighbours if categories.is_ordered else kernels.merge_any
        return cls(categories, counts, start, merge(joint, totals, float(max(table.n_keys - 1, 1))))

    @property
    def n_start(self) -> int:
        return len(self.merges) + 1

    @property
    def n_common(self) -> int:
        """Number of groups at the start that are more than a collection of rare levels."""
        return self.n_start if self.categories.is_ordered else int((self.counts >= LEAST_RECORDS).sum())

    def coarsening(self, n_groups: int) -> Coarsening:
        return _named(self.categories, groups_after(self.merges, n_groups)[self.start], self.counts)


def rare_together(counts: NDArray[np.float64], least_records: int) -> NDArray[np.int64]:
    """The group of each level: one for all levels of fewer than ``least_records`` records, or beyond the commonest.

    Examples
    --------
    >>> rare_together(np.array([30.0, 2.0, 40.0, 1.0]), 10).tolist()
    [0, 2, 1, 2]
    """
    common = np.flatnonzero(counts >= least_records)
    if len(common) == len(counts) <= MOST_NOMINAL_LEVELS:
        return np.arange(len(counts))
    if len(common) >= MOST_NOMINAL_LEVELS:
        common = np.sort(np.argsort(-counts, kind="stable")[: MOST_NOMINAL_LEVELS - 1])
    start = np.full(len(counts), len(common))
    start[common] = np.arange(len(common))
    return start


def _bands(counts: NDArray[np.float64], least_records: int) -> NDArray[np.int64]:
    """The band of each level, in which neighbours are joined until there are ``least_records``; what is left joins the last.

    Examples
    --------
    >>> _bands(np.array([4.0, 7.0, 1.0, 12.0, 3.0]), 10).tolist()
    [0, 0, 1, 1, 1]
    """
    start = np.zeros(len(counts), dtype=np.int64)
    band, n_records = 0, 0.0
    for level, n in enumerate(counts):
        if level and n_records >= least_records:
            band, n_records = band + 1, 0.0
        start[level] = band
        n_records += n
    if band and n_records < least_records:
        start[start == band] = band - 1
    return start


def _joint_with_other_keys(table: ContingencyTable, key: int, start: NDArray[np.int64]) -> NDArray[np.float64]:
    """Two-way tables of the key with every other key, side by side; for a single key, only its own counts."""
    levels = [0 if k == key else c.n_levels for k, c in enumerate(table.categories)]
    first = np.cumsum([0, *levels])
    first[key] = -1
    # Neither a missing value nor nobody is a level to be merged.
    of_key = table.categories[key]
    group = np.concatenate([np.full(int(of_key.has_nobody), -1), start, np.full(int(of_key.has_missing), -1)])
    n_groups = int(start.max()) + 1
    if table.n_keys == 1:
        own = group[table.cells[:, 0]]
        alone = np.bincount(own[own >= 0], weights=table.counts[own >= 0], minlength=n_groups)
        return alone.astype(np.float64)[:, None]
    return np.asarray(kernels.joint_tables(table.cells, table.counts, key, group, first, n_groups), dtype=np.float64)


def groups_after(merges: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
    """The group of each start group once only ``n_groups`` are left, numbered in the order of their first members."""
    into = np.arange(len(merges) + 1)
    done = merges[: len(merges) + 1 - n_groups]
    into[done[:, 1]] = done[:, 0]
    # A group that absorbed others may itself have been absorbed later.
    while not np.array_equal(further := into[into], into):
        into = further
    return np.asarray(np.unique(into, return_inverse=True)[1], dtype=np.int64)


_BANDS = tuple(
    re.compile(label.replace("#", "-?[0-9.]+"))
    for label in ("(?P<low>(?P<high>#))", "(?P<low>#)–(?P<high>#)", "(?P<low>#)\\+", "≤(?P<high>#)")
)
"""Labels of numbers and their bands: 20, 20–24, 85+, ≤14."""


def label_of_neighbours(first: str, last: str) -> str:
    """What a group of neighbouring levels is called; neighbouring bands make a band.

    Examples
    --------
    >>> label_of_neighbours("a", "c"), label_of_neighbours("20", "35"), label_of_neighbours("0–4", "10–14"), label_of_neighbours("80", "85+"), label_of_neighbours("≤14", "20–24")
    ('a–c', '20–35', '0–14', '80+', '≤24')
    """
    ends = [next((match.groupdict() for band in _BANDS if (match := band.fullmatch(label))), None) for label in (first, last)]
    if ends[0] is None or ends[1] is None:
        return between(first, last)
    low, high = ends[0].get("low"), ends[1].get("high")
    if low is None:
        return f"≤{high}" if high is not None else between(first, last)
    return between(low, high) if high is not None else f"{low}+"


def _named(categories: Categories, group: NDArray[np.int64], counts: NDArray[np.float64]) -> Coarsening:
    labels = []
    of_level = categories.labels[categories.has_nobody :]
    for members in members_of_groups(group, int(group.max()) + 1):
        if len(members) == 1:
            labels.append(of_level[members[0]])
        elif categories.is_ordered:
            labels.append(label_of_neighbours(of_level[members[0]], of_level[members[-1]]))
        else:
            commonest = members[np.argmax(counts[members])]
            labels.append(f"{of_level[commonest]} and {counted(len(members) - 1, 'other')}")
    if categories.has_nobody:
        group, labels = np.append(0, group + 1), [categories.labels[0], *labels]
    if categories.has_missing:
        group = np.append(group, len(labels))
        labels.append("missing")
    return Coarsening(f"{categories.key}/{len(labels)}", categories.key, group.astype(np.int32), tuple(labels))
