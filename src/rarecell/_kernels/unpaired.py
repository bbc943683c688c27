"""Which rows of one file are nearest to a row of another, and how many meet some conditions?

The distance is Gower's: over some columns, the difference of places for ordered ones and 0 or 1 for the others.
"""

from __future__ import annotations

import numpy as np

from rarecell._kernels.compiled import njit


@njit(cache=True, nogil=True)
def nearest_rows(targets, rows, columns, is_ordered, places, starts):
    """The first row at the least distance from each target, and that distance.

    ``places`` holds the place of every level of every ordered column, from ``starts`` of the column on; a place that is not a
    number (a missing value) is at distance 1 from every other level.
    """
    n_targets = len(targets)
    nearest = np.zeros(n_targets, dtype=np.int64)
    least = np.full(n_targets, np.inf)
    for t in range(n_targets):
        for r in range(len(rows)):
            total = 0.0
            for c in columns:
                a, b = targets[t, c], rows[r, c]
                if a == b:
                    continue
                apart = 1.0
                if is_ordered[c]:
                    difference = abs(places[starts[c] + a] - places[starts[c] + b])
                    if not np.isnan(difference):
                        apart = difference
                total += apart
                if total >= least[t]:
                    break
            if total < least[t]:
                least[t] = total
                nearest[t] = r
                if total == 0.0:
                    break
    return nearest, least


@njit(cache=True, nogil=True)
def count_matches(rows, columns, sign, values, stops):
    """How many rows meet each predicate, counting no further than two.

    Predicate p has the conditions from ``stops[p]`` to ``stops[p + 1]``: code equal to, at least or at most a value, as ``sign``
    is 0, 1 or −1.
    """
    n_predicates = len(stops) - 1
    matches = np.zeros(n_predicates, dtype=np.int64)
    for p in range(n_predicates):
        for r in range(len(rows)):
            is_met = True
            for condition in range(stops[p], stops[p + 1]):
                code = rows[r, columns[condition]]
                value = values[condition]
                if sign[condition] == 0:
                    is_met = code == value
                elif sign[condition] > 0:
                    is_met = code >= value
                else:
                    is_met = code <= value
                if not is_met:
                    break
            if is_met:
                matches[p] += 1
                if matches[p] == 2:
                    break
    return matches
