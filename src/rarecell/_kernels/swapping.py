"""Which units can exchange values with a risky one, and at what cost?

A *unit* is a row of codes that some records share: the vertices of the model first (keys, then coarsenings), then the
columns outside the keys that matter. A difference between two units is a bit mask over the vertices of the interaction
graph; the parts of it that move as one are connected components. Cells are found by a sum of random numbers, one for
each level of each key, because the sum of an exchanged row follows from its old one in a step for each exchanged key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rarecell._kernels.chordal import ONE, ZERO, bit, lowest_bit

NOMINAL, PLACED = 0, 1
MOST_PARTS = 12


def borrowing(kernel: Callable[..., Any]) -> Any:
    """Compile a kernel that makes no array and holds on to none.

    It then need not count references to the two dozen arrays of a :class:`Search`, which would take ten times as long
    as the work itself and let threads wait for each other.
    """
    try:
        return njit(cache=True, nogil=True, _nrt=False)(kernel)  # type: ignore[call-overload]  # an option of numba's own
    except (KeyError, TypeError):  # a numba without the option: slower, the same result
        return njit(cache=True, nogil=True)(kernel)


class Nearness(NamedTuple):
    """Distances of the levels of each key: its kind, where its places (or table) start, levels, places, weight."""

    kind: NDArray[np.int64]
    start: NDArray[np.int64]
    n_levels: NDArray[np.int64]
    place: NDArray[np.float64]
    weight: NDArray[np.float64]


class Exchange(NamedTuple):
    """The units, and what moves with what."""

    codes: NDArray[np.int32]  # (units, columns)
    neighbours: NDArray[np.uint64]
    keys: np.uint64
    fixed: np.uint64
    within: NDArray[np.int64]  # columns on which both must agree
    cell: NDArray[np.int64]
    hashed: NDArray[np.uint64]
    log_probability: NDArray[np.float64]
    is_risky: NDArray[np.bool_]  # a partner that waits for a swap itself


class Cells(NamedTuple):
    """The occupied cells as a hash table; ``is_closed`` marks those that no swap may enter."""

    slots: NDArray[np.int64]
    hashed: NDArray[np.uint64]
    counts: NDArray[np.int64]
    is_closed: NDArray[np.bool_]
    mixing: NDArray[np.uint64]
    start: NDArray[np.int64]


class Rules(NamedTuple):
    """Forbidden combinations, by rules and by tables.

    ``flags[start[r, c] + code]`` says that column c has a value that rule r names. Table t holds the combination at
    ``table_start[t]`` plus the sum of ``stride[t, k]`` times the code of key k.
    """

    flags: NDArray[np.bool_]
    start: NDArray[np.int64]  # (rules, columns), −1 where the rule does not read the column
    excluded: NDArray[np.bool_]  # tables of excluded combinations of levels, one after the other
    table_start: NDArray[np.int64]
    stride: NDArray[np.int64]  # (tables, keys), 0 where the table does not read the key


class Search(NamedTuple):
    """Everything an exchange is judged by."""

    exchange: Exchange
    nearness: Nearness
    cells: Cells
    rules: Rules
    n_unseen: float
    residual_weight: float
    all_unions: bool


class Runs(NamedTuple):
    """Units sorted into groups and, within a group, into runs of equal value; a run and a group for each risky unit."""

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


@njit(cache=True)
def mixed(number):
    """splitmix64: a number that looks random and depends on nothing but ``number``."""
    z = np.uint64(number) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def mixed_many(numbers, salt):
    """:func:`mixed` of each number, in the stream ``salt``."""
    found = np.empty(len(numbers), dtype=np.uint64)
    for k in range(len(numbers)):
        found[k] = mixed(np.uint64(numbers[k]) ^ mixed(np.uint64(salt)))
    return found


@njit(cache=True)
def hash_rows(codes, mixing, start):
    """Sum of the random numbers of a row's levels, over the first ``len(start)`` columns."""
    found = np.zeros(codes.shape[0], dtype=np.uint64)
    for row in range(codes.shape[0]):
        for k in range(len(start)):
            found[row] += mixing[start[k] + codes[row, k]]
    return found


@njit(cache=True)
def fill_slots(hashed, n_slots):
    """Open addressing by the low bits of the hash; ``n_slots`` is a power of two, an empty slot is −1."""
    slots = np.full(n_slots, -1, dtype=np.int64)
    wrap = np.uint64(n_slots - 1)
    for cell in range(len(hashed)):
        slot = np.int64(hashed[cell] & wrap)
        while slots[slot] >= 0:
            slot = (slot + 1) & (n_slots - 1)
        slots[slot] = cell
    return slots


@borrowing
def find_cell(cells, hashed):
    """Position of the cell with this hash, −1 when it is empty."""
    # Two cells with one 64-bit hash would only make a candidate look worse, never a margin wrong.
    n_slots = len(cells.slots)
    slot = np.int64(hashed & np.uint64(n_slots - 1))
    while cells.slots[slot] >= 0 and cells.hashed[cells.slots[slot]] != hashed:
        slot = (slot + 1) & (n_slots - 1)
    return cells.slots[slot]


@njit(cache=True)
def find_cells(cells, hashed):
    """:func:`find_cell` of many."""
    found = np.empty(len(hashed), dtype=np.int64)
    for k in range(len(hashed)):
        found[k] = find_cell(cells, hashed[k])
    return found


@borrowing
def difference(exchange, i, j):
    """Vertices of the interaction graph on which two units differ."""
    found = ZERO
    for v in range(len(exchange.neighbours)):
        if exchange.codes[i, v] != exchange.codes[j, v]:
            found |= bit(v)
    return found


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
def key_distance(nearness, k, a, b):
    """Weighted distance of two levels of key k."""
    if a == b:
        return 0.0
    if nearness.kind[k] == NOMINAL:
        return nearness.weight[k]
    if nearness.kind[k] == PLACED:
        apart = abs(nearness.place[nearness.start[k] + a] - nearness.place[nearness.start[k] + b])
        return nearness.weight[k] * (1.0 if np.isnan(apart) else apart)
    return nearness.weight[k] * nearness.place[nearness.start[k] + a * nearness.n_levels[k] + b]


@borrowing
def distance(nearness, one, other, moved):
    """Weighted distance of two rows on the keys of ``moved``."""
    total = 0.0
    for k in range(len(nearness.kind)):
        if moved & bit(k) != ZERO:
            total += key_distance(nearness, k, one[k], other[k])
    return total


@njit(cache=True)
def distances(nearness, codes, pairs, moved):
    """:func:`distance` of many pairs of rows of ``codes``."""
    found = np.empty(len(pairs))
    for p in range(len(pairs)):
        found[p] = distance(nearness, codes[pairs[p, 0]], codes[pairs[p, 1]], moved[p])
    return found


@borrowing
def breaks_a_rule(rules, row, taken, moved):
    """Whether ``row`` with the values of ``taken`` on ``moved`` has a forbidden combination that it had not before."""
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
def nobody_else(n_unseen, log_probability):
    """Probability (1−p)^M that none of M unseen units is in the cell."""
    probability = np.exp(log_probability)
    return np.exp(n_unseen * np.log1p(-probability)) if probability < 1.0 else 0.0


@borrowing
def left_alone(search, i):
    """Weighted residual risk of the record that unit i leaves behind when its cell holds two."""
    if search.cells.counts[search.exchange.cell[i]] != 2:
        return 0.0
    return search.residual_weight * nobody_else(search.n_unseen, search.exchange.log_probability[i])


@borrowing
def exchange_cost(search, i, j, moved, bound):
    """Distance plus residual risk of exchanging ``moved`` between units i and j; infinite when it is not allowed."""
    exchange, cells = search.exchange, search.cells
    one, other = exchange.codes[i], exchange.codes[j]
    share = 0.5 if exchange.is_risky[j] else 1.0  # a risky partner is served, too
    cost = distance(search.nearness, one, other, moved)
    if cost * share >= bound:
        return np.inf
    shift = ZERO
    for k in range(len(cells.start)):
        if moved & bit(k) != ZERO:
            shift += cells.mixing[cells.start[k] + other[k]] - cells.mixing[cells.start[k] + one[k]]
    entered = find_cell(cells, exchange.hashed[i] + shift)
    entered_by_partner = find_cell(cells, exchange.hashed[j] - shift)
    if (entered >= 0 and cells.is_closed[entered]) or (entered_by_partner >= 0 and cells.is_closed[entered_by_partner]):
        return np.inf
    if breaks_a_rule(search.rules, one, other, moved) or breaks_a_rule(search.rules, other, one, moved):
        return np.inf
    # The two new cells have the same product of probabilities as the two old ones, so their mean is known.
    if entered < 0 or entered_by_partner < 0:
        mean = 0.5 * (exchange.log_probability[i] + exchange.log_probability[j])
        alone = (1.0 if entered < 0 else 0.0) + (1.0 if entered_by_partner < 0 else 0.0)
        cost += search.residual_weight * alone * nobody_else(search.n_unseen, mean)
    return (cost + left_alone(search, i) + left_alone(search, j)) * share


@borrowing
def union_of_parts(exchange, differing, chosen):
    """The movable parts of a difference whose bits are set in ``chosen``, and how many parts there are to choose from."""
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
    """:func:`best_exchange` over all unions of parts, for pairs whose single parts are not enough."""
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
    """The cheapest part that units i and j can exchange below ``bound``: its cost, and the part (empty when none)."""
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
def scan_runs(search, runs, risky, rows, is_free, lists, per_run, limit):
    """Look for partners in the runs next to each risky unit's own, outwards to both sides within its group.

    At most ``per_run`` units of a run are looked at, from a place that differs between risky units so that they do not
    all want the same partner, and at most ``limit`` in all. ``rows`` is the range of risky units to do: threads share them.
    """
    for row in range(rows[0], rows[1]):
        i = risky[row]
        left, right = runs.run[row] - 1, runs.run[row] + 1
        looked = 0
        while looked < limit and (left >= runs.first_run[row] or right < runs.last_run[row]):
            for side in range(2):
                run = left if side == 0 else right
                if run < runs.first_run[row] or run >= runs.last_run[row]:
                    continue
                start, length = runs.run_start[run], runs.run_start[run + 1] - runs.run_start[run]
                offset = np.int64(mixed(np.uint64(i)) % np.uint64(length))
                for step in range(min(length, per_run)):
                    # As the other callers have it, so that what it is passed on to is compiled once.
                    j = np.int64(runs.order[start + (offset + step) % length])
                    looked += 1
                    if is_free[j]:
                        offer(search, lists, row, i, j)
            left -= 1
            right += 1


@borrowing
def first_partners(search, risky, rows, order, is_free, partner, moved):
    """Write for each risky unit the first in ``order`` that it can exchange something with (−1: none), and what."""
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

    Household h has the units ``units[start[h]:start[h+1]]``; the two are of one size. Infinite when a risky member would
    not leave its cell, or when the exchange of some members is not allowed.
    """
    exchange = search.exchange
    for p in range(len(pairs)):
        first, second = start[pairs[p, 0]], start[pairs[p, 1]]
        total = 0.0
        for member in range(start[pairs[p, 0] + 1] - first):
            i, j = units[first + member], units[second + member]
            has_risky = is_risky[first + member] or is_risky[second + member]
            differing = difference(exchange, i, j)
            moved = differing & side
            if moved & exchange.keys == ZERO:
                total += np.inf if has_risky else 0.0
            elif differing & exchange.keys & ~moved == ZERO:
                # The two exchange their cells: no cell is vacated, and one that is to be vacated must not be entered.
                is_closed = search.cells.is_closed[exchange.cell[i]] or search.cells.is_closed[exchange.cell[j]]
                total += np.inf if is_closed else distance(search.nearness, exchange.codes[i], exchange.codes[j], moved)
            else:
                total += exchange_cost(search, i, j, moved, np.inf)
            if total == np.inf:
                break
        cost[p] = total
