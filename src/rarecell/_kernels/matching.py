"""Least-cost assignment: of bidders to objects with capacities, over sparse lists; of rows to columns, over a whole table.

Auction algorithm (Bertsekas 1988) in its asymmetric form: prices start at 0 and an object has a positive price only when
it is full, so leftover objects cost nothing. Every bidder can stay without an object at a penalty of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.compiled import njit
from rarecell._kernels.distance import borrowing

EPSILON = 1e-9
"""A smaller gain is rounding."""

_NOBODY = np.int64(-1)


class Offers(NamedTuple):
    """Possible swaps of waiting records: r may take a record of ``unit[first[r]:first[r+1]]`` at ``cost``.

    The waiting records of unit u are ``waiting[waiting_first[u]:waiting_first[u+1]]``.
    """

    first: NDArray[np.int64]
    unit: NDArray[np.int64]
    cost: NDArray[np.float64]
    waiting_first: NDArray[np.int64]
    waiting: NDArray[np.int64]
    penalty: NDArray[np.float64]


class Served(NamedTuple):
    """The state of a matching: mate and accepted offer of each waiting record (−1: none), free records of each unit."""

    mate: NDArray[np.int64]
    taken: NDArray[np.int64]
    capacity: NDArray[np.int64]


@njit(cache=True)
def _lowest(bids, start, end):
    """Position of the lowest of some bids."""
    lowest = start
    for slot in range(start + 1, end):
        if bids[slot] < bids[lowest]:
            lowest = slot
    return lowest


@njit(cache=True)
def auction(first, objects, costs, capacity, penalty, epsilon):
    """Assign each bidder one of its objects, or none.

    Bidder b may take ``objects[first[b]:first[b+1]]`` at ``costs``, or nothing at ``penalty[b]``. The result costs at
    most ``epsilon`` a bidder more than the least possible.

    Returns
    -------
    choice : integer array (n_bidders,)
        Edge of each bidder, −1 for none.
    price : float array (n_objects,)
        Price of each object.
    """
    # Loops instead of expressions with whole arrays, which take seconds to compile.
    n_bidders, n_objects = len(penalty), len(capacity)
    places = np.zeros(n_objects, dtype=np.int64)
    for o in objects:
        places[o] += 1
    start = np.zeros(n_objects + 1, dtype=np.int64)
    for o in range(n_objects):
        places[o] = min(places[o], capacity[o])
        start[o + 1] = start[o] + places[o]
    holder = np.full(start[n_objects], -1, dtype=np.int64)
    bids = np.zeros(start[n_objects])
    n_held = np.zeros(n_objects, dtype=np.int64)
    price = np.zeros(n_objects)
    choice = np.full(n_bidders, -1, dtype=np.int64)
    waiting = np.empty(n_bidders, dtype=np.int64)
    for b in range(n_bidders):
        waiting[b] = n_bidders - 1 - b
    n_waiting = n_bidders
    while n_waiting > 0:
        n_waiting -= 1
        b = waiting[n_waiting]
        best, second, edge = -penalty[b], -np.inf, -1
        for e in range(first[b], first[b + 1]):
            o = objects[e]
            value = -costs[e] - price[o] if capacity[o] > 0 else -np.inf
            if value > best:
                best, second, edge = value, best, e
            elif value > second:
                second = value
        if edge < 0:
            continue  # prices only rise, so "none" stays the best choice
        o = objects[edge]
        bid = price[o] + best - second + epsilon
        slot = start[o] + n_held[o]
        if n_held[o] < places[o]:
            n_held[o] += 1
        else:
            slot = _lowest(bids, start[o], start[o + 1])
            choice[holder[slot]] = -1
            waiting[n_waiting] = holder[slot]
            n_waiting += 1
        holder[slot], bids[slot], choice[b] = b, bid, edge
        if n_held[o] == capacity[o]:
            price[o] = bids[_lowest(bids, start[o], start[o + 1])]
    return choice, price


@njit(cache=True)
def least_total(first, objects, costs, capacity, penalty, price):
    """Lower bound on the cost of every assignment, by linear-programming duality; valid for all non-negative prices."""
    total = 0.0
    for o in range(len(capacity)):
        total -= capacity[o] * price[o]
    for b in range(len(penalty)):
        least = penalty[b]
        for e in range(first[b], first[b + 1]):
            if capacity[objects[e]] > 0:
                least = min(least, costs[e] + price[objects[e]])
        total += least
    return total


@njit(cache=True)
def _pair_from(chain, is_cycle, skip, mate):
    """Pair neighbours along ``chain``; with ``skip`` ≥ 0 that member stays single, and a cycle starts after it."""
    n = len(chain)
    place = skip + 1 if is_cycle and skip >= 0 else 0
    end = place + n - 1 if is_cycle else n - 1
    while place < end:
        if not is_cycle and place == skip:
            place += 1
            continue
        first, second = chain[place % n], chain[(place + 1) % n]
        mate[first], mate[second] = second, first
        place += 2


@njit(cache=True)
def _member_to_skip(chain, cost_to_next, is_cycle):
    """Which member of an odd chain or cycle to leave single so that the pairs cost least."""
    n = len(chain)
    best_cost, best = np.inf, -1
    total = 0.0
    for skip in range(0, n, 1 if is_cycle else 2):
        total = 0.0
        if is_cycle:
            for step in range(1, n - 1, 2):
                total += cost_to_next[chain[(skip + step) % n]]
        else:
            for place in range(0, skip, 2):
                total += cost_to_next[chain[place]]
            for place in range(skip + 1, n - 1, 2):
                total += cost_to_next[chain[place]]
        if total < best_cost:
            best_cost, best = total, skip
    return best


@njit(cache=True)
def pairs_of_chains(chosen, cost_to_next, has_own):
    """Turn "r chose s" into pairs.

    Each bidder chose at most one other (``chosen``, −1 for none) and was chosen by at most one, so the choices form
    chains and cycles. Neighbours in a chain are paired from its start on. The member left over at the end of an odd chain
    keeps its own partner (``has_own``); if it has none, the member whose omission makes the pairs cheapest stays
    single, as in odd cycles. Even cycles are paired in the cheaper of the two ways.
    """
    n = len(chosen)
    mate = np.full(n, -1, dtype=np.int64)
    is_chosen = np.zeros(n, dtype=np.bool_)
    for r in range(n):
        if chosen[r] >= 0:
            is_chosen[chosen[r]] = True
    is_seen = np.zeros(n, dtype=np.bool_)
    chain = np.empty(n, dtype=np.int64)
    for turn in range(2):  # chains first, then what is left: cycles
        for r in range(n):
            if is_seen[r] or (turn == 0 and is_chosen[r]):
                continue
            length, s = 0, r
            while s >= 0 and not is_seen[s]:
                is_seen[s] = True
                chain[length] = s
                length += 1
                s = chosen[s]
            members, is_cycle, skip = chain[:length], turn == 1, -1
            if length % 2 == 1 and length > 1 and not has_own[members[length - 1]]:
                skip = _member_to_skip(members, cost_to_next, is_cycle)
            elif is_cycle and length % 2 == 0:
                even, odd = 0.0, 0.0
                for place in range(0, length, 2):
                    even += cost_to_next[members[place]]
                    odd += cost_to_next[members[place + 1]]
                skip = -1 if even <= odd else 0
            _pair_from(members, is_cycle, skip, mate)
    return mate


@borrowing
def cost_now(offers, served, r):
    """Cost of the swap of waiting record r; its penalty when it has none."""
    return offers.cost[served.taken[r]] if served.taken[r] >= 0 else offers.penalty[r]


@borrowing
def best_free(offers, served, r):
    """The cheapest offer of r with a free record, or none at its penalty."""
    edge, least = -1, offers.penalty[r]
    for e in range(offers.first[r], offers.first[r + 1]):
        if served.capacity[offers.unit[e]] > 0 and offers.cost[e] < least:
            edge, least = e, offers.cost[e]
    return edge, least


@borrowing
def let_go(offers, served, r):
    """Undo the swap of r; returns its mate, who then has none either."""
    mate = served.mate[r]
    if mate >= 0:
        served.mate[mate], served.taken[mate] = -1, -1
    elif served.taken[r] >= 0:
        served.capacity[offers.unit[served.taken[r]]] += 1
    served.mate[r], served.taken[r] = -1, -1
    return mate


@borrowing
def take_free(offers, served, r):
    """Give r its cheapest free offer, if it has one."""
    if r >= 0:
        served.taken[r] = best_free(offers, served, r)[0]
        if served.taken[r] >= 0:
            served.capacity[offers.unit[served.taken[r]]] -= 1


@borrowing
def try_offer(offers, served, r, edge, s):
    """Let r swap by ``edge`` with the waiting record s (−1: with a free record) if that makes all swaps cheaper."""
    mate = served.mate[r] if served.mate[r] != s else -1
    partner_mate = served.mate[s] if s >= 0 and served.mate[s] != r else -1
    before, after = cost_now(offers, served, r), offers.cost[edge]
    if s >= 0 and served.mate[r] != s:
        before += cost_now(offers, served, s)
    if after + EPSILON > before:
        return False  # letting someone go only adds to the cost
    if s < 0:
        served.capacity[offers.unit[edge]] -= 1
    instead = -1
    if mate >= 0:
        instead, cost = best_free(offers, served, mate)
        after += cost
        if instead >= 0:
            served.capacity[offers.unit[instead]] -= 1
    if partner_mate >= 0:
        after += best_free(offers, served, partner_mate)[1]
    if instead >= 0:
        served.capacity[offers.unit[instead]] += 1
    if s < 0:
        served.capacity[offers.unit[edge]] += 1
    if after + EPSILON > before:
        return False
    let_go(offers, served, r)
    if s >= 0:
        let_go(offers, served, s)
        served.mate[r], served.mate[s], served.taken[s] = s, r, edge
    else:
        served.capacity[offers.unit[edge]] -= 1
    served.taken[r] = edge
    take_free(offers, served, mate)
    take_free(offers, served, partner_mate)
    return True


@borrowing
def take_unclaimed(offers, served, r, seen, stamp):
    """Give r a free record, a waiting one without a swap, or one whose own partner is not waiting; False if none is left."""
    for e in range(offers.first[r], offers.first[r + 1]):
        u = offers.unit[e]
        if served.capacity[u] > 0:
            served.capacity[u] -= 1
            served.taken[r] = e
            return True
        for place in range(offers.waiting_first[u], offers.waiting_first[u + 1]):
            s = offers.waiting[place]
            if seen[s] != stamp and served.mate[s] < 0:
                let_go(offers, served, s)
                served.mate[r], served.mate[s], served.taken[r], served.taken[s] = s, r, e, e
                return True
    return False


@borrowing
def augment(offers, served, r, depth, seen, stamp):
    """Serve r, which has no swap, by letting others change partners along a chain of at most ``depth`` pairs.

    An augmenting path without contraction of odd cycles, so a few can be missed.
    """
    seen[r] = stamp
    if take_unclaimed(offers, served, r, seen, stamp):
        return True
    if depth == 0:
        return False
    for e in range(offers.first[r], offers.first[r + 1]):
        for place in range(offers.waiting_first[offers.unit[e]], offers.waiting_first[offers.unit[e] + 1]):
            s = offers.waiting[place]
            if seen[s] == stamp:
                continue
            mate, old = served.mate[s], served.taken[s]
            seen[s] = stamp
            served.mate[mate], served.taken[mate] = -1, -1
            served.mate[r], served.mate[s], served.taken[r], served.taken[s] = s, r, e, e
            if augment(offers, served, mate, depth - 1, seen, stamp):
                return True
            served.mate[r], served.taken[r] = -1, -1
            served.mate[s], served.mate[mate], served.taken[s], served.taken[mate] = mate, s, old, old
    return False


@borrowing
def serve_more(offers, served, depth, seen):
    """Call :func:`augment` for all records without a swap; returns how many it served. ``seen`` is scratch, all −1."""
    n_served, n_before, stamp = 0, -1, 0
    while n_served > n_before:  # serving one can set a partner free for another
        n_before = n_served
        for r in range(len(served.mate)):
            stamp += 1
            if served.taken[r] < 0 and augment(offers, served, r, depth, seen, stamp):
                n_served += 1
    return n_served


@borrowing
def improve(offers, served, n_sweeps):
    """Sweep over all offers and take those that lower the total cost, until none does; returns how many were taken.

    Taking an offer frees up to two mates, which take their cheapest free offers.
    """
    n_taken = 0
    for _ in range(n_sweeps):
        n_before = n_taken
        for r in range(len(served.mate)):
            for e in range(offers.first[r], offers.first[r + 1]):
                u = offers.unit[e]
                if served.capacity[u] > 0 and try_offer(offers, served, r, e, _NOBODY):
                    n_taken += 1
                for place in range(offers.waiting_first[u], offers.waiting_first[u + 1]):
                    if try_offer(offers, served, r, e, offers.waiting[place]):
                        n_taken += 1
        if n_taken == n_before:
            break
    return n_taken


# Partners from another area, drawn at random within groups of similar units.


@njit(cache=True)
def pair_up(waiting, group_of, start, members, area, is_used, partner):
    """Give each waiting unit the first unused unit of its group, in the order of ``members``, that lies in another area.

    ``waiting`` is sorted by group and, within a group, by area. What was passed over for one unit was used or also lies in the
    area of the next, so the search continues where it stopped. ``members[start[g]:start[g+1]]`` are the units of group g.
    A unit stays without a partner only if none was left.
    """
    following = np.empty(len(members), dtype=np.int64)
    last_group, last_area = np.int64(-1), np.int64(-1)
    head, before, at, end = np.int64(0), np.int64(-1), np.int64(0), np.int64(0)
    for w in waiting:
        group = group_of[w]
        if group != last_group:
            head, end = start[group], start[group + 1]
            for place in range(head, end):
                following[place] = place + 1
        if group != last_group or area[w] != last_area:
            before, at = np.int64(-1), head
        last_group, last_area = group, area[w]
        if is_used[w]:
            continue
        while at < end:
            unit = members[at]
            if is_used[unit]:
                # Used members are removed from the list for all units that follow.
                if before < 0:
                    head = following[at]
                else:
                    following[before] = following[at]
                at = following[at]
            elif area[unit] == area[w]:
                before = at
                at = following[at]
            else:
                partner[w], partner[unit] = unit, w
                is_used[w], is_used[unit] = True, True
                break


@njit(cache=True, nogil=True)
def assign(cost):
    """The column of each row in an assignment of the smallest total cost; there are at least as many columns as rows.

    Rows are added one at a time by a shortest augmenting path over reduced costs cost − u − v, which stay non-negative
    (Kuhn 1955; Jonker and Volgenant 1987). With n rows and m columns it takes n²·m steps at most.
    """
    n_rows, n_columns = cost.shape
    of_row, of_column = np.zeros(n_rows), np.zeros(n_columns)
    row_of = np.full(n_columns, -1, dtype=np.int64)
    column_of = np.full(n_rows, -1, dtype=np.int64)
    for first in range(n_rows):
        least = np.full(n_columns, np.inf)
        before = np.full(n_columns, -1, dtype=np.int64)
        is_done = np.zeros(n_columns, dtype=np.bool_)
        row, last, reached = first, -1, 0.0
        while True:
            nearest, best = -1, np.inf
            for column in range(n_columns):
                if is_done[column]:
                    continue
                length = reached + cost[row, column] - of_row[row] - of_column[column]
                if length < least[column]:
                    least[column] = length
                    before[column] = last
                if least[column] < best:
                    best, nearest = least[column], column
            is_done[nearest] = True
            reached, last = best, nearest
            if row_of[nearest] < 0:
                break
            row = row_of[nearest]
        of_row[first] += reached
        for column in range(n_columns):
            if is_done[column] and column != last:
                of_row[row_of[column]] += reached - least[column]
                of_column[column] -= reached - least[column]
        while last >= 0:
            earlier = before[last]
            row = first if earlier < 0 else row_of[earlier]
            row_of[last] = row
            column_of[row] = last
            last = earlier
    return column_of
