"""At which coarser resolutions should a key be offered to the model?

A key with many levels is too expensive to join with others in full detail, so a penalised fit drops the edge and the
risk is overstated. If the key is also offered at coarser resolutions, it can interact with each other key at the
resolution the data can support; the model decides which. The coarsenings of a key are nested.

The data decide which levels are merged. At each step these are the two whose merger loses least of the log-likelihood of
all two-way tables with the other keys; where the levels are ordered, only neighbours are merged. Of the resulting
groupings, those with a third, a ninth … of the levels are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import agglomeration as kernels
from rarecell.errors import BadInput
from rarecell.graph.masks import MAX_VERTICES
from rarecell.outcome.words import counted
from rarecell.table.categories import Categories, Coarsening, members_of_groups
from rarecell.table.contingency import ContingencyTable

MANY_LEVELS = 8
"""Keys with fewer levels than this are left as they are."""

FACTOR = 3
"""The number of groups is divided by about this factor from one coarsening to the next, and is at least this."""

MOST_NOMINAL_LEVELS = 256
"""In an unordered key with more levels, the rarest are merged first, because comparing all pairs would take too long."""


def automatic_coarsenings(table: ContingencyTable) -> tuple[Coarsening, ...]:
    """Coarsenings of every key with many levels, as far as vertices are left; keys with the most levels come first."""
    found: list[Coarsening] = []
    for k in sorted(range(table.n_keys), key=lambda k: -table.categories[k].n_levels):
        room = MAX_VERTICES - table.n_keys - len(found)
        if room <= 0:
            break
        found.extend(key_coarsenings(table, k)[:room])
    return tuple(found)


def with_answered(table: ContingencyTable) -> ContingencyTable:
    """The table with one more vertex, the coarsest, for each key with missing values: whether its value is known.

    Keys whose coarsest groups merge missing values with others get none, nor do keys for which no vertex is left.
    """
    found = list(table.coarsenings)
    for key, chain in zip(table.categories, table.chains, strict=True):
        answered = np.zeros(key.n_levels, dtype=np.int32)
        answered[-1] = 1
        is_alone = (table.level_codes(chain[0]) == table.level_codes(chain[0])[-1]).sum() == 1
        n_coarsest = int(table.vertex_levels[chain[0]])
        if key.has_missing and is_alone and n_coarsest > 2 and table.n_keys + len(found) < MAX_VERTICES:
            found.append(Coarsening(f"{key.key}/answered", key.key, answered, ("known", "missing")))
    return table.with_coarsenings(found) if len(found) > len(table.coarsenings) else table


def key_coarsenings(table: ContingencyTable, key: int) -> list[Coarsening]:
    """The coarsenings of one key, finest first; an empty list when it has few levels."""
    categories = table.categories[key]
    n_real = categories.n_levels - categories.has_missing
    if n_real < MANY_LEVELS:
        return []
    merging = _Merging.of(table, key)
    found = []
    n_groups = round(n_real / FACTOR)
    while n_groups >= FACTOR:
        if n_groups < merging.n_start:
            found.append(merging.coarsening(n_groups))
        n_groups = round(n_groups / FACTOR)
    return found


def coarsening_with(table: ContingencyTable, key: str, n_groups: int) -> Coarsening:
    """A key in a given number of groups, counting a missing level as one.

    The groupings are those from which the automatic coarsenings are chosen.

    Raises
    ------
    BadInput
        When the key has too few levels for that many groups, or fewer than two groups are requested.
    """
    k = table.keys.index(key)
    categories = table.categories[k]
    n_real_groups = n_groups - categories.has_missing
    n_start = min(categories.n_levels - categories.has_missing, MOST_NOMINAL_LEVELS if not categories.is_ordered else 1 << 30)
    if not 2 <= n_real_groups < n_start:
        raise BadInput(
            f"Key '{key}' was to be put into {n_groups} groups; it has {categories.n_levels} levels, so between "
            f"{2 + categories.has_missing} and {n_start - 1 + categories.has_missing} groups are possible."
        )
    return _Merging.of(table, k).coarsening(n_real_groups)


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
        n_real = categories.n_levels - categories.has_missing
        counts = np.bincount(table.cells[:, key], weights=table.counts, minlength=categories.n_levels)[:n_real].astype(np.float64)
        start = np.arange(n_real)
        if not categories.is_ordered and n_real > MOST_NOMINAL_LEVELS:
            common = np.sort(np.argsort(-counts, kind="stable")[: MOST_NOMINAL_LEVELS - 1])
            start = np.full(n_real, MOST_NOMINAL_LEVELS - 1)
            start[common] = np.arange(MOST_NOMINAL_LEVELS - 1)
        joint = _joint_with_other_keys(table, key, start)
        totals = np.bincount(start, weights=counts)
        merge = kernels.merge_neighbours if categories.is_ordered else kernels.merge_any
        return cls(categories, counts, start, merge(joint, totals, float(max(table.n_keys - 1, 1))))

    @property
    def n_start(self) -> int:
        return len(self.merges) + 1

    def coarsening(self, n_groups: int) -> Coarsening:
        return _named(self.categories, _after(self.merges, n_groups)[self.start], self.counts)


def _joint_with_other_keys(table: ContingencyTable, key: int, start: NDArray[np.int64]) -> NDArray[np.float64]:
    """Two-way tables of the key with every other key, side by side; for a single key, only its own counts."""
    levels = [0 if k == key else c.n_levels for k, c in enumerate(table.categories)]
    first = np.cumsum([0, *levels])
    first[key] = -1
    # A missing value is not a level to be merged.
    group = np.append(start, np.full(table.categories[key].n_levels - len(start), -1))
    n_groups = int(start.max()) + 1
    if table.n_keys == 1:
        own = group[table.cells[:, 0]]
        alone = np.bincount(own[own >= 0], weights=table.counts[own >= 0], minlength=n_groups)
        return alone.astype(np.float64)[:, None]
    return np.asarray(kernels.joint_tables(table.cells, table.counts, key, group, first, n_groups), dtype=np.float64)


def _after(merges: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
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


def _span(first: str, last: str) -> str:
    """What a group of neighbouring levels is called; neighbouring bands make a band.

    Examples
    --------
    >>> _span("a", "c"), _span("20", "35"), _span("0–4", "10–14"), _span("80", "85+"), _span("≤14", "20–24")
    ('a–c', '20–35', '0–14', '80+', '≤24')
    """
    ends = [next((found.groupdict() for band in _BANDS if (found := band.fullmatch(label))), None) for label in (first, last)]
    if ends[0] is None or ends[1] is None:
        return f"{first}–{last}"
    low, high = ends[0].get("low"), ends[1].get("high")
    if low is None:
        return f"≤{high}" if high is not None else f"{first}–{last}"
    return f"{low}–{high}" if high is not None else f"{low}+"


def _named(categories: Categories, group: NDArray[np.int64], counts: NDArray[np.float64]) -> Coarsening:
    labels = []
    for members in members_of_groups(group, int(group.max()) + 1):
        if len(members) == 1:
            labels.append(categories.labels[members[0]])
        elif categories.is_ordered:
            labels.append(_span(categories.labels[members[0]], categories.labels[members[-1]]))
        else:
            commonest = members[np.argmax(counts[members])]
            labels.append(f"{categories.labels[commonest]} and {counted(len(members) - 1, 'other')}")
    if categories.has_missing:
        group = np.append(group, len(labels))
        labels.append("missing")
    return Coarsening(f"{categories.key}/{len(labels)}", categories.key, group.astype(np.int32), tuple(labels))
