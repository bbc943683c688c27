"""What is found by somebody who holds every record of the file and matches them one to one?

Where a file is the whole population, or an intruder holds all of its records, each released row belongs to exactly one person. Such an
intruder need not link each row by itself: the assignment of rows to persons with the smallest total distance uses that a row taken
by one person is no longer free for another.

Rows and persons with equal values are matched first, at no distance; a cheapest assignment that does so exists, because distances
satisfy the triangle inequality. What is left over is matched by shortest augmenting paths. With b persons and a rows in a cell, of whom
m = min(a, b) are matched, a person who stayed is matched with the own row with probability m/(a·b); one who moved from t to r with
probability x/(b_t·a_r), where x pairs go from t to r.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.matching import assign
from rarecell.intruder.links import Links
from rarecell.intruder.participant import alone_claims
from rarecell.intruder.register import distance_of
from rarecell.release.release import Release
from rarecell.table.distance import Distances, Yardstick, yardsticks

MOST_ASSIGNED = 1_500
"""If more rows than this are left over, the assignment takes too long and is not tried."""

TIE_BREAK = 1e-7
"""Size of the random part of a distance, by which one of several cheapest assignments is taken."""


def assignment_links(
    release: Release, *, distances: Distances | None = None, family: Sequence[Yardstick] | None = None, seed: int = 0
) -> Links | None:
    """Find the rows of people who are alone in the original or in the released file; None if too many rows are left over.

    By the distance of the family with which most is found.
    """
    before, after = release.before, release.after
    n_after = after.counts_of(before.cells)
    n_before = before.counts_of(after.cells)
    left, free = np.maximum(before.counts - n_after, 0), np.maximum(after.counts - n_before, 0)
    if left.sum() > MOST_ASSIGNED or free.sum() > MOST_ASSIGNED:
        return None
    claims = alone_claims(release)
    stays = (claims.true == claims.released).all(axis=1)
    of_true, of_released = before.counts_of(claims.true), after.counts_of(claims.released)
    persons, rows = np.repeat(np.arange(before.n_cells), left), np.repeat(np.arange(after.n_cells), free)
    own = np.where(stays, np.minimum(of_true, of_released) / np.maximum(of_true * of_released, 1), 0.0)
    by_distance = []
    for yardstick in family or yardsticks(before, distances):
        taken = _assigned(release, yardstick, persons, rows, seed)
        pair = persons[taken >= 0] * after.n_cells + rows[taken[taken >= 0]]
        distinct, number = np.unique(pair, return_counts=True)
        own_pair = before.marginals.positions(before.all_keys, claims.true) * after.n_cells + after.marginals.positions(
            after.all_keys, claims.released
        )
        place = np.minimum(np.searchsorted(distinct, own_pair), max(len(distinct) - 1, 0))
        is_there = (distinct[place] == own_pair) if len(distinct) else np.zeros(len(own_pair), dtype=bool)
        n_pairs = np.where(is_there, number[place], 0) if len(distinct) else np.zeros(len(own_pair), dtype=np.int64)
        by_distance.append((yardstick.name, np.where(stays, own, n_pairs / np.maximum(of_true * of_released, 1))))
    name, worst = max(by_distance, key=lambda tried: float(tried[1].sum()))
    total = float(worst.sum())
    return Links(
        "assignment",
        claims.row,
        worst,
        (worst == 1.0).astype(np.float64),
        ~stays,
        (total, total),
        name if len(release.rows) else "",
    )


def _assigned(
    release: Release, yardstick: Yardstick, persons: NDArray[np.int64], rows: NDArray[np.int64], seed: int
) -> NDArray[np.int64]:
    """The row left over that each person left over is matched with; −1 for none, where rows were not released."""
    if not len(persons) or not len(rows):
        return np.full(len(persons), -1, dtype=np.int64)
    true, released = release.before.cells[persons], release.after.cells[rows]
    apart = np.stack([distance_of(yardstick.near, np.broadcast_to(cell, released.shape), released) for cell in true])
    apart += TIE_BREAK * np.random.default_rng(seed).random(apart.shape)
    if len(rows) >= len(persons):
        return np.asarray(assign(apart))
    taken = np.full(len(persons), -1, dtype=np.int64)
    taken[assign(np.ascontiguousarray(apart.T))] = np.arange(len(rows))
    return taken
