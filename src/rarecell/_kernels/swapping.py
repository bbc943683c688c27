"""Which units can exchange values with a risky one, and at what cost?

A *unit* is a row of codes that some records share: the vertices of the model first (keys, then coarsenings), then the
columns outside the keys that matter. A difference between two units is a bit mask over the vertices of the interaction
graph; the parts of it that move together are its connected components.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.chordal import ONE, ZERO, bit, lowest_bit
from rarecell._kernels.distance import Nearness, borrowing, distance, key_distance
from rarecell._kernels.hashing import HashedCells, find_cell, mixed
from rarecell._kernels.neighbours import TOLERANCE, Around, apart_for_an_intruder, somebody_nearer

MOST_PARTS = 12

NEGLIGIBLE = 0.01
"""A link that costs less is added without looking at the neighbours."""


class MovableUnits(NamedTuple):
    """The units, and what moves with what."""

    codes: NDArray[np.int32]  # (units, columns)
    neighbours: NDArray[np.uint64]
    keys: np.uint64
    fixed: np.uint64
    within: NDArray[np.int64]  # columns on which both must agree
    cell: NDArray[np.int64]
    hashed: NDArray[np.uint64]
    log_probability: NDArray[np.float64]
    is_risky: NDArray[np.bool_]  # units that wait for a swap themselves


class Rules(NamedTuple):
    """Forbidden combinations, by rules and by tables.

    ``flags[start[r, c] + code]`` says whether rule r names this code of column c. Table t holds the combination at
    ``table_start[t]`` plus the sum of ``stride[t, k]`` times the code of key k.
    """

    flags: NDArray[np.bool_]
    start: NDArray[np.int64]  # (rules, columns), −1 where the rule does not read the column
    excluded: NDArray[np.bool_]  # tables of excluded combinations of levels, one after another
    table_start: NDArray[np.int64]
    stride: NDArray[np.int64]  # (tables, keys), 0 where the table does not read the key


class Search(NamedTuple):
    """Everything that an exchange is judged by."""

    exchange: MovableUnits
    nearness: Nearness
    cells: HashedCells
    rules: Rules
    around: Around
    n_unseen: float
    link_weight: float  # what a certain link costs in addition to the distance
    empty_weight: float  # what it costs to enter a cell where nobody lives, as a share of a certain link
    n_probes: int  # levels searched on each side for somebody nearer; −1 searches everybody
    all_unions: bool


class Reach(NamedTuple):
    """How far a scan goes: units tried per run and in total, and how many runs next to the unit's own are left out."""

    per_run: int
    limit: int
    gap: int


class Runs(NamedTuple):
    """Units sorted into groups and, within groups, into runs of equal value; the run and group of each risky unit."""

    order: NDArray[np.int32]
    run_start: NDArray[np.int64]
    run: NDArray[np.int64]
    first_run: NDArray[np.int64]
    last_run: NDArray[np.int64]


class Lists(NamedTuple):
    """The best candidates of each risky unit, cheapest first."""

    cost: NDArray[np.float64]
    unit: NDArray[np.int32]
    moved: NDArray[np.uint64]


@borrowing
def difference(exchange, i, j):
    """Vertices of the interaction graph on which two units differ."""
    differing = ZERO
    for v in range(len(exchange.neighbours)):
        if exchange.codes[i, v] != exchange.codes[j, v]:
            differing |= bit(v)
    return differing


@borrowing
def lowest_component(neighbours, allowed):
    """The component of the lowest vertex of ``allowed``, inside it."""
    reached = frontier = allowed & (~allowed + ONE)
    while frontier != ZERO:
        fresh = neighbours[lowest_bit(frontier)] & allowed & ~reached
        reached |= fresh
        frontier = (frontier & (frontier - ONE)) | fresh
    return reached


@borrowing
def breaks_a_rule(rules, row, taken, moved):
    """Whether ``row``, given the values of ``taken`` on ``moved``, has a forbidden combination that it did not have before."""
    for r in range(rules.start.shape[0]):
        is_before, is_after = True, True
        for c in range(rules.start.shape[1]):
            start = rules.start[r, c]
            if start >= 0:
                is_before &= rules.flags[start + row[c]]
                moves = c < 64 and moved & bit(c) != ZERO
                is_after &= rules.flags[start + (taken[c] if moves else row[c])]
        if is_after and not is_before:
            return True
    for t in range(len(rules.table_start)):
        before = after = rules.table_start[t]
        for k in range(rules.stride.shape[1]):
            before += rules.stride[t, k] * row[k]
            after += rules.stride[t, k] * (taken[k] if moved & bit(k) != ZERO else row[k])
        if rules.excluded[after] and not rules.excluded[before]:
            return True
    return False


@borrowing
def broken_rules(rules, codes, pairs, moved, is_broken):
    """:func:`breaks_a_rule` for the first of each pair of rows of ``codes``, given the values of the second on ``moved``."""
    for p in range(len(pairs)):
        is_broken[p] = breaks_a_rule(rules, codes[pairs[p, 0]], codes[pairs[p, 1]], moved[p])


@borrowing
def nobody_else(n_unseen, log_probability):
    """Probability (1−p)^M that none of M unseen units is in the cell."""
    probability = np.exp(log_probability)
    return np.exp(n_unseen * np.log1p(-probability)) if probability < 1.0 else 0.0


@borrowing
def left_alone(search, i):
    """Cost of the link to the record that unit i leaves behind alone when its cell holds two."""
    if search.cells.counts[search.exchange.cell[i]] != 2:
        return 0.0
    return search.link_weight * search.around.link[i]


@borrowing
def has_near_neighbour(search, hashed, own, partner, moved, bound):
    """Whether somebody differs from ``own`` with the values of ``partner`` on ``moved`` in a single key, by less than ``bound``.

    Only the nearest ``search.n_probes`` levels on each side are tried. If that is negative, as many are tried first, because they
    are quickly looked up, and then everybody.
    """
    around, cells = search.around, search.cells
    n_probes = abs(search.n_probes)
    for k in range(len(around.keys)):
        v = around.keys[k]
        value = partner[v] if moved & bit(v) != ZERO else own[v]
        start, n_levels = cells.start[v], around.near.n_levels[k]
        without = hashed - cells.mixing[start + value]
        for level in range(max(0, value - n_probes), min(n_levels, value + n_probes + 1)):
            is_near = level != value and key_distance(around.near, k, value, level) < bound - TOLERANCE
            if is_near and find_cell(cells, without + cells.mixing[start + level]) >= 0:
                return True
    return search.n_probes < 0 and somebody_nearer(around, own, partner, moved)


@borrowing
def exchange_cost(search, i, j, moved, bound):
    """Distance plus link risk of exchanging ``moved`` between units i and j; infinite when it is not allowed.

    A record is not linked to its person when somebody else is nearer to its new values: someone who has them, the partner,
    or a neighbour in a single key. Others who might be nearer are considered when the candidates are priced. A record
    that nobody covers is linked, unless one of the unseen units has its new values. Then nobody lives where the record is, and
    whoever has a register sees that it moved, covered or not.
    """
    exchange, cells = search.exchange, search.cells
    own, partner = exchange.codes[i], exchange.codes[j]
    share = 0.5 if exchange.is_risky[j] else 1.0  # a risky partner is served too
    cost = distance(search.nearness, own, partner, moved)
    if cost * share >= bound:
        return np.inf
    shift = ZERO
    for k in range(len(cells.start)):
        if moved & bit(k) != ZERO:
            shift += cells.mixing[cells.start[k] + partner[k]] - cells.mixing[cells.start[k] + own[k]]
    entered = find_cell(cells, exchange.hashed[i] + shift)
    entered_by_partner = find_cell(cells, exchange.hashed[j] - shift)
    if (entered >= 0 and cells.is_closed[entered]) or (entered_by_partner >= 0 and cells.is_closed[entered_by_partner]):
        return np.inf
    cost += left_alone(search, i) + left_alone(search, j)
    if cost * share >= bound:
        return np.inf
    if breaks_a_rule(search.rules, own, partner, moved) or breaks_a_rule(search.rules, partner, own, moved):
        return np.inf
    if search.link_weight == 0.0 or (entered >= 0 and entered_by_partner >= 0):
        return cost * share
    # The two new cells have the same product of probabilities as the two old ones, so their mean is known.
    mean = 0.5 * (exchange.log_probability[i] + exchange.log_probability[j])
    weight = search.link_weight * nobody_else(search.n_unseen, mean)
    linked, linked_partner = weight * search.around.link[i], weight * search.around.link[j]
    if entered < 0:
        cost += search.empty_weight * linked
    if entered_by_partner < 0:
        cost += search.empty_weight * linked_partner
    if cost * share >= bound:
        return np.inf
    on_moved, on_rest = apart_for_an_intruder(search.around, own, partner, moved)
    if on_rest < on_moved - TOLERANCE:
        return cost * share  # each is nearer to the other's new values than the other
    if entered < 0 and (
        linked < NEGLIGIBLE or not has_near_neighbour(search, exchange.hashed[i] + shift, own, partner, moved, on_moved)
    ):
        cost += linked
        if cost * share >= bound:
            return np.inf
    if entered_by_partner < 0 and (
        linked_partner < NEGLIGIBLE or not has_near_neighbour(search, exchange.hashed[j] - shift, partner, own, moved, on_moved)
    ):
        cost += linked_partner
    return cost * share


@borrowing
def union_of_parts(exchange, differing, chosen):
    """Union of the movable parts of a difference whose bits are set in ``chosen``, and how many parts there are in all."""
    union, n_parts, left = ZERO, 0, differing
    while left != ZERO and n_parts < MOST_PARTS:
        part = lowest_component(exchange.neighbours, left)
        left &= ~part
        if part & exchange.keys != ZERO and part & exchange.fixed == ZERO:
            if chosen >> n_parts & 1:
                union |= part
            n_parts += 1
    return union, n_parts


@borrowing
def best_union(search, i, j, differing, bound):
    """:func:`best_exchange` over all unions of parts, for pairs where single parts are not enough."""
    exchange = search.exchange
    best_cost, best_moved = bound, ZERO
    for chosen in range(1, 1 << union_of_parts(exchange, differing, 0)[1]):
        moved = union_of_parts(exchange, differing, chosen)[0]
        if differing & exchange.keys & ~moved != ZERO:
            cost = exchange_cost(search, i, j, moved, best_cost)
            if cost < best_cost:
                best_cost, best_moved = cost, moved
    return best_cost, best_moved


@borrowing
def best_exchange(search, i, j, bound):
    """The cheapest part that units i and j can exchange below ``bound``: its cost, and the part (empty if none)."""
    exchange = search.exchange
    for c in exchange.within:
        if exchange.codes[i, c] != exchange.codes[j, c]:
            return bound, ZERO
    differing = difference(exchange, i, j)
    if search.all_unions:
        return best_union(search, i, j, differing, bound)
    best_cost, best_moved = bound, ZERO
    left = differing
    while left != ZERO:
        part = lowest_component(exchange.neighbours, left)
        left &= ~part
        is_movable = part & exchange.keys != ZERO and part & exchange.fixed == ZERO
        if is_movable and differing & exchange.keys & ~part != ZERO:
            cost = exchange_cost(search, i, j, part, best_cost)
            if cost < best_cost:
                best_cost, best_moved = cost, part
    return best_cost, best_moved


@borrowing
def offer(search, lists, row, i, j):
    """Put unit j among the candidates of unit i (row ``row`` of the lists) when it is cheaper than the last of them."""
    size = lists.cost.shape[1]
    cost, moved = best_exchange(search, i, j, lists.cost[row, size - 1])
    if moved == ZERO:
        return
    place = size - 1
    for held in range(size):
        if lists.unit[row, held] == j:
            if lists.cost[row, held] <= cost:
                return
            place = held
            break
    while place > 0 and lists.cost[row, place - 1] > cost:
        lists.cost[row, place] = lists.cost[row, place - 1]
        lists.unit[row, place] = lists.unit[row, place - 1]
        lists.moved[row, place] = lists.moved[row, place - 1]
        place -= 1
    lists.cost[row, place], lists.unit[row, place], lists.moved[row, place] = cost, j, moved


@borrowing
def scan_runs(search, runs, risky, rows, is_free, lists, seen, reach):
    """Look for partners in the runs next to each risky unit's own, outwards on both sides within its group.

    ``seen`` remembers for each row some of the units that were offered, by the last bits of their number, also in earlier scans for
    the same lists: lists only get better, so what was offered once need not be offered again.

    The first unit tried in a run differs between risky units, so that they do not all want the same partner. ``rows`` is
    the range of risky units to process; threads take a range each.
    """
    for row in range(rows[0], rows[1]):
        i = risky[row]
        left, right = runs.run[row] - 1 - reach.gap, runs.run[row] + 1 + reach.gap
        looked = 0
        while looked < reach.limit and (left >= runs.first_run[row] or right < runs.last_run[row]):
            for side in range(2):
                run = left if side == 0 else right
                if run < runs.first_run[row] or run >= runs.last_run[row]:
                    continue
                start, length = runs.run_start[run], runs.run_start[run + 1] - runs.run_start[run]
                offset = np.int64(mixed(np.uint64(i)) % np.uint64(length))
                for step in range(min(length, reach.per_run)):
                    # The same type as in other callers, so that the functions it is passed to are compiled once.
                    j = np.int64(runs.order[start + (offset + step) % length])
                    looked += 1
                    slot = j & (seen.shape[1] - 1)
                    if is_free[j] and seen[row, slot] != j:
                        seen[row, slot] = j
                        offer(search, lists, row, i, j)
            left -= 1
            right += 1


@borrowing
def first_partners(search, risky, rows, order, is_free, partner, moved):
    """Write, for each risky unit, the first unit in ``order`` that it can exchange something with (−1: none), and what."""
    for row in range(rows[0], rows[1]):
        partner[row] = -1
        for j in order:
            if is_free[j]:
                part = best_exchange(search, risky[row], j, np.inf)[1]
                if part != ZERO:
                    partner[row], moved[row] = j, part
                    break


@borrowing
def household_costs(search, units, start, pairs, side, is_risky, cost):
    """Write what it costs to exchange ``side`` between the members of two households, one by one in their order.

    Household h has the units ``units[start[h]:start[h+1]]``; both have the same size. The cost is infinite when a risky
    member would not leave its cell, when nobody would, or when the exchange of some members is not allowed.
    """
    exchange = search.exchange
    for p in range(len(pairs)):
        first, second = start[pairs[p, 0]], start[pairs[p, 1]]
        total, somebody_moves = 0.0, False
        for member in range(start[pairs[p, 0] + 1] - first):
            i, j = units[first + member], units[second + member]
            has_risky = is_risky[first + member] or is_risky[second + member]
            differing = difference(exchange, i, j)
            moved = differing & side
            if moved & exchange.keys == ZERO:
                total += np.inf if has_risky else 0.0
                continue
            somebody_moves = True
            if differing & exchange.keys & ~moved == ZERO:
                # The two trade cells, so neither cell is vacated; a cell that must be vacated may not be entered.
                is_closed = search.cells.is_closed[exchange.cell[i]] or search.cells.is_closed[exchange.cell[j]]
                total += np.inf if is_closed else distance(search.nearness, exchange.codes[i], exchange.codes[j], moved)
            else:
                total += exchange_cost(search, i, j, moved, np.inf)
            if total == np.inf:
                break
        cost[p] = total if somebody_moves else np.inf
