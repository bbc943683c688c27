"""What does an exchange cost: how far do values move, and which records are still linked to their person?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import hashing
from rarecell._kernels.distance import distances
from rarecell._kernels.neighbours import Around, are_covered
from rarecell._kernels.swapping import Lists
from rarecell.intruder.persons import WEIGHTS
from rarecell.swap.partners import Candidates, PartnerSearch, in_threads
from rarecell.table.contingency import ContingencyTable

CHANCE = 0.01
"""Largest random addition to a cost, so that the mechanism does not give the partner away."""


def priced(search: PartnerSearch, risky: NDArray[np.int64], lists: Lists) -> Candidates:
    """Compute the exact distance and cost of the candidates in ``lists``.

    The cost is the sum of four parts, of which 2 and 3 are multiplied by the link weight:

    1. The distance over which values move.
    2. For both rows, the probability that they are linked to their person: 0 if somebody known is nearer to the new values, else
       E(1/F) of the old cell times the probability that none of the unseen persons has the new values.
    3. The same for a record that is left alone in its cell.
    4. A small random number, so that nobody can tell which of several almost equal partners was taken.
    """
    row, place = np.nonzero(np.isfinite(lists.cost))
    one, other = risky[row], lists.unit[row, place].astype(np.int64)
    moved = lists.moved[row, place]
    apart, link = priced_exchanges(search, one, other, moved)
    cost = apart + search.wanted.link_weight * link
    return Candidates(one, other, moved, apart, cost + CHANCE * chance(search.wanted.seed, one, other))


def priced_exchanges(
    search: PartnerSearch, one: NDArray[np.int64], other: NDArray[np.int64], moved: NDArray[np.uint64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the distance of exchanges between units, and the links that remain for both rows and for records left alone."""
    apart = distances(search.distances.arrays(search.table), search.units.codes, np.stack([one, other], axis=1), moved)
    # Both rows of every pair at once, because asking the model takes longer than what it does.
    here, there = np.concatenate([one, other]), np.concatenate([other, one])
    moved_of_both = np.concatenate([moved, moved])
    cells = exchanged_cells(search.table, search.units.cell[here], search.units.cell[there], moved_of_both)
    link = _link_of(search, here, there, moved_of_both, cells)
    leaves_one = search.table.counts[search.units.cell[here]] == 2
    link += np.where(leaves_one, search.around.link[here], 0.0)
    return np.asarray(apart), link[: len(one)] + link[len(one) :]


def _link_of(
    search: PartnerSearch,
    here: NDArray[np.int64],
    there: NDArray[np.int64],
    moved: NDArray[np.uint64],
    cells: NDArray[np.int32],
) -> NDArray[np.float64]:
    """Probability that a record of each unit is linked to its person after the exchange."""
    found = np.zeros(len(here))
    # Somebody with the new values is nearer by any weight; for the remaining pairs everybody is examined.
    is_open = np.flatnonzero(search.find_cells(cells) < 0)
    is_open = is_open[~_covered(search, np.stack([here, there], axis=1)[is_open], moved[is_open])]
    if len(is_open) and search.wanted.link_weight > 0.0:
        _, first, which = np.unique(search.hashed_cells(cells[is_open]), return_index=True, return_inverse=True)
        nobody = search.wanted.nobody_unseen(cells[is_open[first]])
        found[is_open] = search.around.link[here[is_open]] * nobody[which]
    return found


def _covered(search: PartnerSearch, pairs: NDArray[np.int64], moved: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether somebody known is nearer to the new values of the first of each pair, whichever weight the intruder uses."""
    left = np.arange(len(pairs))
    for weight in WEIGHTS:
        around, found = search.around_by(weight), np.zeros(len(left), dtype=bool)
        of_left, moved_of_left = pairs[left], moved[left]

        def work(
            rows: tuple[int, int],
            around: Around = around,
            of_left: NDArray[np.int64] = of_left,
            moved_of_left: NDArray[np.uint64] = moved_of_left,
            found: NDArray[np.bool_] = found,
        ) -> None:
            are_covered(around, search.units.codes, of_left, moved_of_left, rows, found)

        in_threads(work, len(left))
        left = left[found]
    covered = np.zeros(len(pairs), dtype=bool)
    covered[left] = True
    return covered


def chance(seed: int, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float64]:
    """Draw a number between 0 and 1 for each pair of units, the same from both sides and on every machine."""
    low, high = np.minimum(one, other).astype(np.uint64), np.maximum(one, other).astype(np.uint64)
    drawn = hashing.mixed_many(hashing.mixed_many(low, seed) ^ high, seed)
    return np.asarray(drawn >> np.uint64(11), dtype=np.float64) / 2.0**53


def exchanged_cells(
    table: ContingencyTable, cell: NDArray[np.int64], other: NDArray[np.int64], moved: NDArray[np.uint64]
) -> NDArray[np.int32]:
    """Return the key codes of ``cell`` with the values of ``other`` on the keys of ``moved``, row by row."""
    found = table.cells[cell].copy()
    for k in range(table.n_keys):
        moves = moved >> np.uint64(k) & np.uint64(1) == 1
        found[moves, k] = table.cells[other[moves], k]
    return found
