"""How do pairs become rings, so that nobody's partner holds what is missing?

After an exchange between two records the file holds both halves: whoever guesses what moved finds in the partner's row the values
that undo it. In a ring of four or more each record receives the values of one and passes its own to another, so that no two rows undo
each other.

The parts that a pair exchanges are separated from the rest by vertices on which both agree. Any rearrangement of these parts among
records that agree there keeps every margin, as each exchange alone does. So pairs that exchange the same keys and agree on the same
values can be merged: if a and c receive what the other was to receive, (a, b) and (c, d) become a ← d ← c ← b ← a, and so does a pair join
a ring. Of all such merges of a pair those that add least to the cost are made, cheapest first; the cost is that of pairs, half the
distance and the links for each record that receives.

Few rows of many columns exchange the same. They can be merged by sides: if two records agree on a separator and differ on one side of it
in nothing but what they exchange, their exchange is one of the whole side. All pairs of which this is true, with the same values on the
separator, can hand the side round, and receivers then take over some values that their own partner shares with them.
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

TRIED_BY_SIDES = 16
"""The same if pairs are merged by sides, on the smallest sides that allow it."""

_MERGES = ((0, 2), (0, 3), (1, 2), (1, 3))
"""The ways to merge the pairs (0, 1) and (2, 3): which of each receives what one of the other was to receive."""

_MATE = (1, 0, 3, 2)


class Ringed(NamedTuple):
    """For each pair, whose values its record and its partner receive; the vertices that move; distance and cost of the pair."""

    to_record: Rows
    to_partner: Rows
    moved: NDArray[np.uint64]
    distance: NDArray[np.float64]
    cost: NDArray[np.float64]


def ringed(
    search: PartnerSearch,
    records: Rows,
    partners: Rows,
    moved: NDArray[np.uint64],
    distance: NDArray[np.float64],
    cost: NDArray[np.float64],
    *,
    by_sides: bool = False,
    worth: float = WORTH,
) -> Ringed:
    """Merge pairs into rings of four or more where that adds at most ``worth`` to the cost."""
    pairs = Ringed(partners, records, moved, distance, cost)
    first_unit, second_unit = (search.units.unit_of(rows) for rows in (records, partners))
    if by_sides:
        first, second, masks = _pairs_on_sides(search, first_unit, second_unit, moved)
    else:
        first, second = _pairs_to_merge(search, first_unit, second_unit, moved)
        masks = moved[first]
    if not len(first):
        return pairs
    units = np.stack([first_unit[first], second_unit[first], first_unit[second], second_unit[second]], axis=1)
    least = (
        np.stack([moved[first], moved[first], moved[second], moved[second]], axis=1)
        if by_sides
        else np.stack([masks] * 4, axis=1)
    )
    apart, price = _prices(search, units, masks, least)
    return merged(pairs, first, second, masks, apart, price, worth=worth)


def merged(
    pairs: Ringed,
    first: Rows,
    second: Rows,
    masks: NDArray[np.uint64],
    apart: NDArray[np.float64],
    price: NDArray[np.float64],
    *,
    worth: float = WORTH,
) -> Ringed:
    """Merge pairs where that adds at most ``worth`` to the cost, the cheapest merges first.

    Parameters
    ----------
    pairs : Ringed
        The pairs: ``to_record`` has the partners, ``to_partner`` the records.
    first, second : ndarray of int
        Positions of pairs that can be merged with each other.
    masks : ndarray of int
        The vertices that move in their ring.
    apart, price : ndarray of float
        For each of these, the distance and the cost to the receiver of giving each of the four, record and partner of the first pair and
        of the second, what each other holds; an infinite cost if that is not allowed.
    """
    to_record, to_partner, moved, distance, cost = pairs
    rings = Ringed(to_record.copy(), to_partner.copy(), moved.copy(), distance.copy(), cost.copy())
    rows = np.stack([pairs.to_partner[first], pairs.to_record[first], pairs.to_partner[second], pairs.to_record[second]], axis=1)
    with np.errstate(invalid="ignore"):
        increase = np.stack([_increase(price, one, other) for one, other in _MERGES], axis=1)
    # Two of the four go on receiving from their own partner what moves in the ring, which must be allowed as well.
    is_allowed = np.asarray(np.isfinite(price[:, range(4), [_MATE[receiver] for receiver in range(4)]]).all(axis=1))
    increase[~(np.isfinite(increase) & is_allowed[:, None])] = np.inf
    n_pairs = len(pairs.to_record)
    is_pair, has_changed = np.ones(n_pairs, dtype=bool), np.zeros((n_pairs, 2), dtype=bool)
    for number in np.argsort(increase, axis=None, kind="stable").tolist():
        place, merge = divmod(number, len(_MERGES))
        if increase[place, merge] > worth:
            break
        both = int(first[place]), int(second[place])
        sides = tuple(receiver % 2 for receiver in _MERGES[merge])
        # If neither were a pair still, the two might be parts of one ring, which would fall apart.
        if not (is_pair[both[0]] or is_pair[both[1]]) or has_changed[both[0], sides[0]] or has_changed[both[1], sides[1]]:
            continue
        # What moves is the same all round.
        if any(not is_pair[pair] and rings.moved[pair] != masks[place] for pair in both):
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
            has_changed[pair, side], is_pair[pair], rings.moved[pair] = True, False, masks[place]
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


def _pairs_on_sides(
    search: PartnerSearch, first_unit: Rows, second_unit: Rows, moved: NDArray[np.uint64]
) -> tuple[Rows, Rows, NDArray[np.uint64]]:
    """Pairs that differ on a side in nothing but what they exchange, and agree on its boundary, each with a few others like it; the side."""
    table, units, graph = search.table, search.units, search.interactions
    within = [units.position(name) for name in search.constraints.within]
    keys, differing = np.uint64(table.all_keys), np.zeros(len(first_unit), dtype=np.uint64)
    for v in range(table.n_vertices):
        differing |= (units.codes[first_unit, v] != units.codes[second_unit, v]).astype(np.uint64) << np.uint64(v)
    by_chance = np.argsort(pair_jitter(search.request.seed, first_unit, second_unit), kind="stable")
    closed = np.array([table.close(mask & table.all_keys) for mask in moved.tolist()], dtype=np.uint64)
    own = np.unique(closed & differing).tolist()
    sides = dict.fromkeys([*own, *(move.side for move in search.moves), *(move.side for move in search.separator_moves)])
    n_mates, mates = np.zeros(len(first_unit), dtype=np.int64), dict[tuple[int, int], int]()
    for side in sorted(sides, key=lambda side: (side & table.all_keys).bit_count()):
        if side & graph.fixed or not side & table.all_keys:
            continue
        on_side = np.uint64(side & table.all_keys)
        boundary, _ = units.ranks(sorted({*search.finest(graph.neighbourhood(side)), *within}))
        is_valid = (differing & on_side == closed & differing & keys) & (boundary[first_unit] == boundary[second_unit])
        waiting = by_chance[(is_valid & (n_mates < TRIED_BY_SIDES))[by_chance]]
        waiting = waiting[np.argsort(boundary[first_unit[waiting]], kind="stable")]
        group = boundary[first_unit[waiting]]
        for step in range(1, TRIED + 1):
            for place in np.flatnonzero(group[step:] == group[:-step]).tolist():
                pair, mate = int(waiting[place]), int(waiting[place + step])
                if (pair, mate) not in mates and (mate, pair) not in mates:
                    mates[pair, mate] = int(on_side)
                    n_mates[pair], n_mates[mate] = n_mates[pair] + 1, n_mates[mate] + 1
    both = np.array(list(mates), dtype=np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1], np.array(list(mates.values()), dtype=np.uint64)


def _prices(
    search: PartnerSearch, units: NDArray[np.int64], moved: NDArray[np.uint64], least: NDArray[np.uint64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distance, and cost to the receiver, of giving each of four rows the moved values of each other; infinite if not allowed.

    ``least`` are the keys of each of the four that must change.
    """
    n = len(units)
    apart, price = np.zeros((n, 4, 4)), np.full((n, 4, 4), np.inf)
    to, by = (~np.eye(4, dtype=bool)).nonzero()
    # The exchange within a pair comes up with each other pair that it is tried with, and is priced once.
    masks = np.repeat(moved, len(to)).astype(np.int64)
    asked = np.stack([units[:, to].ravel(), units[:, by].ravel(), masks, least[:, to].ravel().astype(np.int64)], axis=1)
    distinct, which = np.unique(asked, axis=0, return_inverse=True)
    far, cost = prices_of_receivers(search, distinct[:, 0], distinct[:, 1], *distinct[:, 2:].T.astype(np.uint64))
    apart[:, to, by], price[:, to, by] = far[which.ravel()].reshape(n, -1), cost[which.ravel()].reshape(n, -1)
    return apart, price


def prices_of_receivers(
    search: PartnerSearch, here: Rows, there: Rows, masks: NDArray[np.uint64], least: NDArray[np.uint64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distance, and cost to a record of each unit ``here``, if it receives the moved values of ``there``; infinite if not allowed.

    It is not allowed that one of the keys ``least`` stays as it is.
    """
    cells = exchanged_cells(search.table, search.units.cell[here], search.units.cell[there], masks)
    position = search.find_cells(cells)
    # The last place is for cells that were empty, which no swap vacates.
    is_allowed = ~np.append(search.is_closed, False)[position]
    for k in range(search.table.n_keys):
        must_change = least >> np.uint64(k) & np.uint64(1) == 1
        is_allowed &= ~must_change | (cells[:, k] != search.table.cells[search.units.cell[here], k])
    broken = np.zeros(len(here), dtype=bool)
    broken_rules(search.rules, search.units.codes, np.stack([here, there], axis=1), masks, broken)
    is_allowed &= ~broken
    pairs = np.stack([here, there], axis=1)
    far = distances(search.distances.arrays(search.table), search.units.codes, pairs, masks) + search.unlike(here, there)
    left = search.table.counts[search.units.cell[here]] == 2
    link = link_of(search, here, there, masks, cells) + np.where(left, search.around.link[here], 0.0)
    return np.asarray(far), np.where(is_allowed, 0.5 * far + search.request.link_weight * link, np.inf)
