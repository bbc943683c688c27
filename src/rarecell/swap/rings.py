"""How do pairs become rings, so that nobody's partner holds what is missing?

After an exchange between two records the file holds both halves: whoever guesses what moved finds in the partner's row the values
that undo it. In a ring of four or more each record receives the values of one and passes its own to another, so that no two rows undo
each other.

The parts that a pair exchanges are separated from the rest by vertices on which both agree. Any rearrangement of these parts among
records that agree there keeps every margin, as each exchange alone does. So pairs that exchange the same keys and agree on the same
values can be merged: if a and c receive what the other was to receive, (a, b) and (c, d) become a ← d ← c ← b ← a, and so does a pair join
a ring. Of all such merges of a pair those that add least to the cost are made, cheapest first; the cost is that of pairs, half the
distance and the links for each record that receives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.distance import distances
from rarecell._kernels.swapping import broken_rules
from rarecell.graph.masks import members
from rarecell.swap.choosing import exchanged_cells, link_of, pair_jitter
from rarecell.swap.partners import PartnerSearch

Rows = NDArray[np.int64]

WORTH = 0.5
"""What a merge may cost; a changed value without order costs 1."""

TRIED = 5
"""Number of other pairs with which each pair is tried."""

_MERGES = ((0, 2), (0, 3), (1, 2), (1, 3))
"""The ways to merge the pairs (0, 1) and (2, 3): which of each receives what one of the other was to receive."""

_MATE = (1, 0, 3, 2)


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
    """Merge pairs into rings of four or more where that costs little more."""
    first_unit, second_unit = (search.units.unit_of(rows) for rows in (records, partners))
    first, second = _pairs_to_merge(search, first_unit, second_unit, moved)
    if not len(first):
        return Ringed(partners, records, distance, cost)
    units = np.stack([first_unit[first], second_unit[first], first_unit[second], second_unit[second]], axis=1)
    apart, price = _prices(search, units, moved[first])
    return merged(Ringed(partners, records, distance, cost), first, second, apart, price)


def merged(pairs: Ringed, first: Rows, second: Rows, apart: NDArray[np.float64], price: NDArray[np.float64]) -> Ringed:
    """Merge pairs where that adds at most :data:`WORTH` to the cost, the cheapest merges first.

    Parameters
    ----------
    pairs : Ringed
        The pairs: ``to_record`` has the partners, ``to_partner`` the records.
    first, second : ndarray of int
        Positions of pairs that can be merged with each other.
    apart, price : ndarray of float
        For each of these, the distance and the cost to the receiver of giving each of the four, record and partner of the first pair and
        of the second, what each other holds; an infinite cost if that is not allowed.
    """
    rings = Ringed(*(column.copy() for column in pairs))
    rows = np.stack([pairs.to_partner[first], pairs.to_record[first], pairs.to_partner[second], pairs.to_record[second]], axis=1)
    with np.errstate(invalid="ignore"):
        increase = np.stack([_increase(price, one, other) for one, other in _MERGES], axis=1)
    increase[np.isnan(increase)] = np.inf
    n_pairs = len(pairs.to_record)
    is_pair, has_changed = np.ones(n_pairs, dtype=bool), np.zeros((n_pairs, 2), dtype=bool)
    for number in np.argsort(increase, axis=None, kind="stable").tolist():
        place, merge = divmod(number, len(_MERGES))
        if increase[place, merge] > WORTH:
            break
        both = int(first[place]), int(second[place])
        sides = tuple(receiver % 2 for receiver in _MERGES[merge])
        # If neither were a pair still, the two might be parts of one ring, which would fall apart.
        if not (is_pair[both[0]] or is_pair[both[1]]) or has_changed[both[0], sides[0]] or has_changed[both[1], sides[1]]:
            continue
        for pair, side, receiver, other in zip(both, sides, _MERGES[merge], reversed(_MERGES[merge]), strict=True):
            if is_pair[pair]:
                start = receiver - side
                rings.distance[pair] = 0.5 * (apart[place, start, start + 1] + apart[place, start + 1, start])
                rings.cost[pair] = price[place, start, start + 1] + price[place, start + 1, start]
            giver, mate = _MATE[other], _MATE[receiver]
            rings.distance[pair] += 0.5 * (apart[place, receiver, giver] - apart[place, receiver, mate])
            rings.cost[pair] += price[place, receiver, giver] - price[place, receiver, mate]
            (rings.to_record if side == 0 else rings.to_partner)[pair] = rows[place, giver]
            has_changed[pair, side], is_pair[pair] = True, False
    return rings


def _increase(price: NDArray[np.float64], one: int, other: int) -> NDArray[np.float64]:
    """What it adds to the cost that two receivers of different pairs receive what the other was to receive."""
    now = price[:, one, _MATE[one]] + price[:, other, _MATE[other]]
    return np.asarray(price[:, one, _MATE[other]] + price[:, other, _MATE[one]] - now)


def _pairs_to_merge(search: PartnerSearch, first_unit: Rows, second_unit: Rows, moved: NDArray[np.uint64]) -> tuple[Rows, Rows]:
    """Pairs that exchange the same vertices and agree on all that these interact with, each with a few others like it."""
    table, units, graph = search.table, search.units, search.interactions
    within = [units.position(name) for name in search.constraints.within]
    alike: dict[tuple[int, ...], list[int]] = {}
    around: dict[int, list[int]] = {}
    # By chance, and not in the order of the file.
    for pair in np.argsort(pair_jitter(search.request.seed, first_unit, second_unit), kind="stable").tolist():
        a, b = units.codes[first_unit[pair]], units.codes[second_unit[pair]]
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
    far, cost = prices_of_receivers(search, distinct[:, 0], distinct[:, 1], distinct[:, 2].astype(np.uint64))
    apart[:, to, by], price[:, to, by] = far[which.ravel()].reshape(n, -1), cost[which.ravel()].reshape(n, -1)
    return apart, price


def prices_of_receivers(
    search: PartnerSearch, here: Rows, there: Rows, masks: NDArray[np.uint64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distance, and cost to a record of each unit ``here``, if it receives the moved values of ``there``; infinite if not allowed."""
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
    return np.asarray(far), np.where(is_allowed, 0.5 * far + search.request.link_weight * link, np.inf)
