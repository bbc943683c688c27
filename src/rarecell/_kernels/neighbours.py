"""Who is nearer to a point than a given distance, and who is exactly at that distance?

Occupied cells are sorted by their codes, so that all cells with the same first codes lie side by side. A walk over them adds
up the distance key by key, and skips a whole stretch as soon as its first codes alone are too far away.

An intruder who knows how records were moved looks for the likeliest origin instead of the nearest one. With the
surprise −log P as the distance it is the same walk; what depends on the set of keys that differ, or on the cell, is added
at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.chordal import ZERO, bit
from rarecell._kernels.compiled import njit
from rarecell._kernels.distance import NOMINAL, Nearness, borrowing, key_distance

TOLERANCE = 1e-9
"""Distances that differ by less count as equal: they are sums of the same steps in another order."""


class Occupied(NamedTuple):
    """Cells in lexicographic order; for each cell and key k, ``skip`` is the next cell that differs in the first k+1 keys."""

    codes: NDArray[np.int32]
    counts: NDArray[np.int64]
    skip: NDArray[np.int64]


class Around(NamedTuple):
    """Sampled persons around a record: ``keys`` in the order of ``occupied`` and ``near``, and E(1/F) of each unit."""

    occupied: Occupied
    near: Nearness
    keys: NDArray[np.int64]
    link: NDArray[np.float64]


class Patterns(NamedTuple):
    """What is added to a distance: by the set of keys that differ (increasing masks), and by cell if it stayed or moved.

    Without masks nothing is added.
    """

    mask: NDArray[np.uint64]
    cost: NDArray[np.float64]
    stayed: NDArray[np.float64]
    moved: NDArray[np.float64]


@njit(cache=True)
def skips(codes, skip):
    """Fill ``skip`` of :class:`Occupied` for codes in lexicographic order."""
    n_cells, n_keys = codes.shape
    for row in range(n_cells - 1, -1, -1):
        first = n_keys
        if row + 1 < n_cells:
            for k in range(n_keys):
                if codes[row, k] != codes[row + 1, k]:
                    first = k
                    break
        for k in range(n_keys):
            # The next cell differs in the first k+1 keys exactly when the first difference is among them.
            skip[row, k] = row + 1 if row + 1 == n_cells or k >= first else skip[row + 1, k]


@borrowing
def pattern_cost(patterns, differing):
    """The cost of a set of keys that differ; infinite when that set was never moved."""
    low, high = 0, len(patterns.mask)
    while low < high:
        middle = (low + high) // 2
        if patterns.mask[middle] < differing:
            low = middle + 1
        else:
            high = middle
    if low < len(patterns.mask) and patterns.mask[low] == differing:
        return patterns.cost[low]
    return np.inf


@borrowing
def others_within(occupied, nearness, patterns, point, bound):
    """Number of persons nearer to ``point`` than ``bound`` (in the first such cell only), and of persons at that distance."""
    n_cells, n_keys = occupied.codes.shape
    n_tied, row = 0, 0
    while row < n_cells:
        total, differing, k = 0.0, ZERO, 0
        while k < n_keys:
            total += key_distance(nearness, k, point[k], occupied.codes[row, k])
            if total > bound + TOLERANCE:
                break
            if occupied.codes[row, k] != point[k]:
                differing |= bit(k)
            k += 1
        if k < n_keys:
            row = occupied.skip[row, k]
            continue
        if len(patterns.mask) > 0:
            if differing == ZERO:
                total += patterns.stayed[row]
            else:
                total += pattern_cost(patterns, differing) + patterns.moved[row]
        if total < bound - TOLERANCE:
            return occupied.counts[row], n_tied
        if total <= bound + TOLERANCE:
            n_tied += occupied.counts[row]
        row += 1
    return 0, n_tied


@borrowing
def apart_for_an_intruder(around, own, partner, moved):
    """How far apart the two rows are on the keys of ``moved``, and on all other keys.

    These are the distances of ``own`` and of ``partner`` to the row ``own`` with the values of ``partner`` on ``moved``.
    """
    on_moved, on_rest = 0.0, 0.0
    for k in range(len(around.keys)):
        v = around.keys[k]
        if moved & bit(v) != ZERO:
            on_moved += key_distance(around.near, k, own[v], partner[v])
        else:
            on_rest += key_distance(around.near, k, own[v], partner[v])
    return on_moved, on_rest


@borrowing
def somebody_nearer(around, own, partner, moved):
    """Whether somebody else is nearer than ``own`` to the row ``own`` with the values of ``partner`` on ``moved``.

    The partner, who differs from that row on all other keys, is asked first.
    """
    near, codes = around.near, around.occupied.codes
    n_cells, n_keys = codes.shape
    bound, of_partner = apart_for_an_intruder(around, own, partner, moved)
    if of_partner < bound - TOLERANCE:
        return True
    row = 0
    while row < n_cells:
        total, k = 0.0, 0
        while k < n_keys:
            v = around.keys[k]
            value = partner[v] if moved & bit(v) != ZERO else own[v]
            total += key_distance(near, k, value, codes[row, k])
            if total > bound - TOLERANCE:
                break
            k += 1
        if k == n_keys:
            return True
        row = around.occupied.skip[row, k]
    return False


@borrowing
def is_nearer(around, own, partner, moved, row, bound):
    """Whether the person in cell ``row`` is nearer than ``bound`` to ``own`` with the values of ``partner`` on ``moved``."""
    total = 0.0
    for k in range(around.occupied.codes.shape[1]):
        v = around.keys[k]
        total += key_distance(around.near, k, partner[v] if moved & bit(v) != ZERO else own[v], around.occupied.codes[row, k])
        if total > bound - TOLERANCE:
            return False
    return True


@borrowing
def rivals(around, own, partner, moved, witness, most_tied):
    """Who stands between the row ``own``, with the values of ``partner`` on ``moved``, and its own person?

    Returns −1 if somebody is nearer, else the number of others who are as near, counted up to ``most_tied``; and the cell of
    somebody nearer. By other distances the same person is probably nearer, too, and is asked before everybody is.
    """
    near, codes = around.near, around.occupied.codes
    n_cells, n_keys = codes.shape
    bound, of_partner = apart_for_an_intruder(around, own, partner, moved)
    if of_partner < bound - TOLERANCE:
        return -1, witness
    if witness >= 0 and is_nearer(around, own, partner, moved, witness, bound):
        return -1, witness
    n_tied, row = 0, 0
    while row < n_cells:
        total, k, is_own = 0.0, 0, True
        while k < n_keys:
            v = around.keys[k]
            value = partner[v] if moved & bit(v) != ZERO else own[v]
            total += key_distance(near, k, value, codes[row, k])
            if total > bound + TOLERANCE:
                break
            is_own = is_own and codes[row, k] == own[v]
            k += 1
        if k < n_keys:
            row = around.occupied.skip[row, k]
            continue
        if total < bound - TOLERANCE:
            return -1, row
        if not is_own:
            n_tied += around.occupied.counts[row]
            if n_tied >= most_tied:
                return most_tied, witness
        row += 1
    return n_tied, witness


@borrowing
def count_rivals(around, codes, pairs, moved, most_tied, rows, witness, n_tied):
    """:func:`rivals` for the pairs of rows of ``codes`` in the range ``rows``; threads take a range each."""
    for p in range(rows[0], rows[1]):
        own, partner = codes[pairs[p, 0]], codes[pairs[p, 1]]
        n_tied[p], witness[p] = rivals(around, own, partner, moved[p], witness[p], most_tied)


@borrowing
def count_others(occupied, nearness, patterns, points, bounds, rows, n_nearer, n_tied):
    """:func:`others_within` for the points in the range ``rows``; threads take a range each."""
    for p in range(rows[0], rows[1]):
        n_nearer[p], n_tied[p] = others_within(occupied, nearness, patterns, points[p], bounds[p])


@borrowing
def nearest_other(occupied, nearness, point):
    """The smallest distance of ``point`` from a cell other than its own, and the number of persons at it; infinite if there is none."""
    n_cells, n_keys = occupied.codes.shape
    least, number, row = np.inf, 0, 0
    while row < n_cells:
        total, k, is_own = 0.0, 0, True
        while k < n_keys:
            total += key_distance(nearness, k, point[k], occupied.codes[row, k])
            if total > least + TOLERANCE:
                break
            is_own = is_own and occupied.codes[row, k] == point[k]
            k += 1
        if k < n_keys:
            row = occupied.skip[row, k]
            continue
        if not is_own:
            if total < least - TOLERANCE:
                least, number = total, occupied.counts[row]
            else:
                number += occupied.counts[row]
        row += 1
    return least, number


@borrowing
def nearest_others(occupied, nearness, points, rows, least, number):
    """:func:`nearest_other` for the points in the range ``rows``; threads take a range each."""
    for p in range(rows[0], rows[1]):
        least[p], number[p] = nearest_other(occupied, nearness, points[p])


@borrowing
def least_costs(patterns, prefix, k, least, matching, n_matching):
    """The least still to be added when key k is the same and when it differs; ``prefix`` are the earlier keys that differ.

    ``matching[k]`` lists the ``n_matching[k]`` patterns that agree with the keys before k; it follows from that of the key before.
    """
    least[k, 0] = 0.0 if prefix == ZERO or len(patterns.mask) == 0 else np.inf
    least[k, 1] = np.inf if len(patterns.mask) > 0 else 0.0
    n_before = n_matching[k - 1] if k > 0 else len(patterns.mask)
    n = 0
    for place in range(n_before):
        p = matching[k - 1, place] if k > 0 else place
        if patterns.mask[p] & (bit(k) - bit(0)) == prefix:
            matching[k, n] = p
            n += 1
            side = 1 if patterns.mask[p] & bit(k) != ZERO else 0
            if patterns.cost[p] < least[k, side]:
                least[k, side] = patterns.cost[p]
    n_matching[k] = n


@njit(cache=True, nogil=True)
def ball(nearness, patterns, point, bound, cells, costs):
    """List all cells, occupied or not, within ``bound`` of a point, up to as many as ``cells`` has room for.

    Returns how many there are, or the room plus one when there are more. What a cell itself adds is left out. The walk goes
    key by key, and leaves a branch as soon as no set of keys that was ever moved could bring it within the bound.
    """
    n_keys, n_found, k = len(nearness.kind), 0, 0
    level = np.zeros(n_keys, dtype=np.int32)
    reached, differing = np.zeros(n_keys + 1), np.zeros(n_keys + 1, dtype=np.uint64)
    least = np.zeros((n_keys, 2))
    matching, n_matching = np.zeros((n_keys, len(patterns.mask)), dtype=np.int64), np.zeros(n_keys, dtype=np.int64)
    level[0] = -1
    least_costs(patterns, differing[0], k, least, matching, n_matching)
    while k >= 0:
        level[k] += 1
        others = reached[k] + least[k, 1] + (nearness.weight[k] if nearness.kind[k] == NOMINAL else 0.0)
        if others > bound + TOLERANCE:
            # All other levels are too far away; a key may have tens of thousands.
            level[k] = point[k] if level[k] <= point[k] else nearness.n_levels[k]
        if level[k] >= nearness.n_levels[k]:
            k -= 1
            continue
        side = 0 if level[k] == point[k] else 1
        total = reached[k] + key_distance(nearness, k, point[k], level[k])
        if total + least[k, side] > bound + TOLERANCE:
            continue
        reached[k + 1] = total
        differing[k + 1] = differing[k] if side == 0 else differing[k] | bit(k)
        if k + 1 < n_keys:
            k += 1
            level[k] = -1
            least_costs(patterns, differing[k], k, least, matching, n_matching)
            continue
        if n_found == len(cells):
            return n_found + 1
        for v in range(n_keys):
            cells[n_found, v] = level[v]
        costs[n_found] = total + least[k, side]
        n_found += 1
    return n_found


@njit(cache=True, nogil=True)
def balls(nearness, patterns, points, bounds, first, cells, costs, ends):
    """:func:`ball` of the points from ``first`` on, one after another as long as there is room; returns the first left out.

    The cells of point p end before ``ends[p]``.
    """
    used = 0
    for p in range(first, len(points)):
        used += ball(nearness, patterns, points[p], bounds[p], cells[used:], costs[used:])
        if used > len(cells):
            return p
        ends[p] = used
    return len(points)
