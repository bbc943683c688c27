"""At which coarser resolutions should a key be offered to the model?

A key with many levels is too expensive to join with others at full detail, so a penalised fit drops the edge and the
risk is overstated. Offered in bands or with its rare levels merged as well, the key can interact with each other key at
the resolution the data can bear; the search decides which. The coarsenings of a key are nested.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell.table import MAX_VERTICES, Categories, Coarsening, ContingencyTable

MANY_LEVELS = 8
"""Keys with fewer levels are left as they are."""

COARSENING_FACTOR = 3
"""Each coarsening of an ordered key has about this many times fewer groups than the one before."""

COMMON_SHARE = 0.8
"""The commonest levels of a nominal key that cover this share of the records keep their own group."""

MOST_COMMON_LEVELS = 5
"""At most so many levels of a nominal key keep their own group."""


def _coarsening(categories: Categories, group_of_level: NDArray[np.int64], labels: list[str]) -> Coarsening:
    return Coarsening(f"{categories.key}/{len(labels)}", categories.key, group_of_level.astype(np.int32), tuple(labels))


def bands(categories: Categories, counts: NDArray[np.int64], n_groups: int, *, within: Coarsening | None = None) -> Coarsening:
    """Neighbouring levels merged into at most ``n_groups`` bands with about equal numbers of records.

    ``counts`` are the records of each level. With ``within``, the bands are unions of its groups, so that the two are
    nested. The missing level is not a neighbour of any other and stays alone.
    """
    n_real = categories.n_levels - categories.has_missing
    piece = np.arange(n_real) if within is None else within.group_of_level[:n_real].astype(np.int64)
    weight = np.bincount(piece, weights=counts[:n_real].astype(float))
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    group = np.unique(np.floor(middle * n_groups)[piece], return_inverse=True)[1]
    labels = []
    for g in range(int(group.max()) + 1):
        members = np.flatnonzero(group == g)
        first, last = categories.labels[members[0]], categories.labels[members[-1]]
        labels.append(first if first == last else f"{first}–{last}")
    if categories.has_missing:
        group = np.append(group, len(labels))
        labels.append("missing")
    return _coarsening(categories, group, labels)


def rare_merged(categories: Categories, counts: NDArray[np.int64], *, share: float, at_most: int) -> Coarsening:
    """The commonest levels that cover ``share`` of the records, at most ``at_most``, and all others in one group."""
    order = np.argsort(-counts, kind="stable")
    covered = np.cumsum(counts[order]) / counts.sum()
    n_kept = min(int(np.searchsorted(covered, share)) + 1, at_most, categories.n_levels - 2)
    kept = np.sort(order[:n_kept])
    group = np.full(categories.n_levels, n_kept)
    group[kept] = np.arange(n_kept)
    return _coarsening(categories, group, [*(categories.labels[level] for level in kept), "other"])


def automatic_coarsenings(table: ContingencyTable) -> tuple[Coarsening, ...]:
    """Coarsenings of every key with many levels, as many as vertices are left; keys with most levels come first."""
    found: list[Coarsening] = []
    for k in sorted(range(table.n_keys), key=lambda k: -table.categories[k].n_levels):
        room = MAX_VERTICES - table.n_keys - len(found)
        found.extend(key_coarsenings(table, k)[: max(room, 0)])
    return tuple(found)


def key_coarsenings(table: ContingencyTable, key: int) -> list[Coarsening]:
    """The coarsenings of one key: nested bands when it is ordered, rare levels merged when it is not."""
    categories = table.categories[key]
    if categories.n_levels < MANY_LEVELS:
        return []
    counts = np.bincount(table.cells[:, key], weights=table.counts, minlength=categories.n_levels).astype(np.int64)
    if not categories.is_ordered:
        return [rare_merged(categories, counts, share=COMMON_SHARE, at_most=MOST_COMMON_LEVELS)]
    chain: list[Coarsening] = []
    n_groups = -(-categories.n_levels // COARSENING_FACTOR)
    while n_groups >= 3:
        coarser = bands(categories, counts, n_groups, within=chain[-1] if chain else None)
        if 1 < coarser.n_levels < (chain[-1].n_levels if chain else categories.n_levels):
            chain.append(coarser)
        n_groups //= COARSENING_FACTOR
    return chain
