"""How do pairs become rings, so that nobody's partner holds what is missing?

After an exchange between two records the file holds both halves: whoever guesses what moved finds in the partner's row the values
that undo it. In a ring of four each record receives the values of one and passes its own to another, so that no two rows undo
each other.

The parts that a pair exchanges are separated from the rest by vertices on which both agree. Any rearrangement of these parts among
records that agree there keeps every margin, as each exchange alone does. So pairs that exchange the same keys and agree on the same
values can be merged: (a, b) and (c, d) become, for example, a ← d ← c ← b ← a. Of all such rings those that add least to the cost
of the two pairs are made, cheapest first; the cost is that of pairs, half the distance and the links for each record that receives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.distance import distances
from rarecell._kernels.swapping import broken_rules
from rarecell.graph.masks import members
from rarecell.swap.partners import PartnerSearch
from rarecell.swap.planner import chance, exchanged_cells, link_of

Rows = NDArray[np.int64]

WORTH = 0.5
"""What a ring may cost more than its two pairs; a changed value without order costs 1."""

TRIED = 5
"""Number of other pairs with which each pair is tried."""

_RINGS = np.array(
    [
        [(0, 3), (1, 0), (2, 1), (3, 2)],
        [(0, 2), (1, 0), (3, 1), (2, 3)],
        [(1, 3), (0, 1), (2, 0), (3, 2)],
        [(1, 2), (0, 1), (3, 0), (2, 3)],
    ]
)
"""The rings of the pairs (0, 1) and (2, 3): who receives, and whose values."""


class Ringed(NamedTuple):
    """For each pair, whose values its record and its partner receive; distance and cost of the pair."""

    to_record: Rows
    to_partner: Rows
    distance: NDArray[np.float64]
    cost: NDArray[np.float64]


def ringed(
    search: PartnerSearch,
    records: Rows,
    partners: Rows,
    moved: NDArray[np.uint64],
    distance: NDArray[np.float64],
    cost: NDArray[np.float64],
) -> Ringed:
    """Merge pairs into rings of four where that costs little more."""
    found = Ringed(partners.copy(), records.copy(), distance.copy(), cost.copy())
    one, other = (search.units.unit_of(rows) for rows in (records, partners))
    first, second = _pairs_to_merge(search, one, other, moved)
    if not len(first):
        return found
    rows = np.stack([records[first], partners[first], records[second], partners[second]], axis=1)
    units = np.stack([one[first], other[first], one[second], other[second]], axis=1)
    apart, price = _prices(search, units, moved[first])
    # Cost and distance of each of the four rings, by receiver.
    receiver, giver = _RINGS[:, :, 0], _RINGS[:, :, 1]
    of_ring = price[:, receiver, giver]
    increase = of_ring.sum(axis=2) - (cost[first] + cost[second])[:, None]
    best = np.argmin(increase, axis=1)
    least = increase[np.arange(len(first)), best]
    is_free = np.ones(len(records), dtype=bool)
    for place in np.argsort(least, kind="stable").tolist():
        if least[place] > WORTH:
            break
        i, j, ring = int(first[place]), int(second[place]), int(best[place])
        if not (is_free[i] and is_free[j]):
            continue
        is_free[i] = is_free[j] = False
        of_receiver = np.zeros((4, 2))
        for to, by in _RINGS[ring]:
            of_receiver[to] = 0.5 * apart[place, to, by], price[place, to, by]
            source = rows[place, by]
            (found.to_record if to % 2 == 0 else found.to_partner)[i if to < 2 else j] = source
        found.distance[[i, j]] = of_receiver[:2, 0].sum(), of_receiver[2:, 0].sum()
        found.cost[[i, j]] = of_receiver[:2, 1].sum(), of_receiver[2:, 1].sum()
    return found


def _pairs_to_merge(search: PartnerSearch, one: Rows, other: Rows, moved: NDArray[np.uint64]) -> tuple[Rows, Rows]:
    """Pairs that exchange the same vertices and agree on all that these interact with, each with a few others like it."""
    table, units, graph = search.table, search.units, search.interactions
    within = [units.position(name) for name in search.constraints.within]
    alike: dict[tuple[int, ...], list[int]] = {}
    around: dict[int, list[int]] = {}
    # By chance, and not in the order of the file.
    for pair in np.argsort(chance(search.wanted.seed, one, other), kind="stable").tolist():
        a, b = units.codes[one[pair]], units.codes[other[pair]]
        closed = table.close(int(moved[pair]) & table.all_keys)
        differing = sum(1 << v for v in members(closed) if a[v] != b[v])
        if differing not in around:
            around[differing] = [*members(graph.neighbourhood(differing)), *within]
        alike.setdefault((differing, *a[around[differing]].tolist()), []).append(pair)
    first, second = [], []
    for pairs in alike.values():
        for place, pair in enumerate(pairs):
            for mate in pairs[place + 1 : place + 1 + TRIED]:
                first.append(pair)
                second.append(mate)
    return np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)


def _prices(
    search: PartnerSearch, units: NDArray[np.int64], moved: NDArray[np.uint64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distance, and cost to the receiver, of giving each of four rows the moved values of each other; infinite if not allowed."""
    n = len(units)
    apart, price = np.zeros((n, 4, 4)), np.full((n, 4, 4), np.inf)
    to, by = (~np.eye(4, dtype=bool)).nonzero()
    # The exchange within a pair comes up with each other pair that it is tried with, and is priced once.
    asked = np.stack([units[:, to].ravel(), units[:, by].ravel(), np.repeat(moved, len(to)).astype(np.int64)], axis=1)
    distinct, which = np.unique(asked, axis=0, return_inverse=True)
    here, there, masks = distinct[:, 0], distinct[:, 1], distinct[:, 2].astype(np.uint64)
    cells = exchanged_cells(search.table, search.units.cell[here], search.units.cell[there], masks)
    position = search.find_cells(cells)
    # The last place is for cells that were empty, which no swap vacates. Everybody receives as many new values as in a pair.
    is_allowed = ~np.append(search.is_closed, False)[position]
    for k in range(search.table.n_keys):
        moves = masks >> np.uint64(k) & np.uint64(1) == 1
        is_allowed &= ~moves | (cells[:, k] != search.table.cells[search.units.cell[here], k])
    broken = np.zeros(len(here), dtype=bool)
    broken_rules(search.rules, search.units.codes, np.stack([here, there], axis=1), masks, broken)
    is_allowed &= ~broken
    pairs = np.stack([here, there], axis=1)
    far = distances(search.distances.arrays(search.table), search.units.codes, pairs, masks) + search.unlike(here, there)
    left = search.table.counts[search.units.cell[here]] == 2
    link = link_of(search, here, there, masks, cells) + np.where(left, search.around.link[here], 0.0)
    cost = np.where(is_allowed, 0.5 * far + search.wanted.link_weight * link, np.inf)
    apart[:, to, by], price[:, to, by] = far[which.ravel()].reshape(n, -1), cost[which.ravel()].reshape(n, -1)
    return apart, price
