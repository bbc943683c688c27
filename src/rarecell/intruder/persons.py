"""Who is nearest to a record, among the people of a register or the records of a file?

People are known by cell: how many there are with each combination of key values. The distance is a sum over the keys, in which
an unordered key counts 1 if it differs and an ordered one counts its difference divided by its range, times a weight. How an
intruder weighs a year of age against a different marital status is unknown, so several weights are tried.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import neighbours as kernels
from rarecell._kernels.distance import Nearness, distances
from rarecell._kernels.neighbours import Patterns
from rarecell.machine.threads import n_cores, on_all_cores
from rarecell.swap.distance import Distances
from rarecell.table.contingency import ContingencyTable

Cells = NDArray[np.int32]

WEIGHTS = (1.0, 3.0, 10.0)
"""Weights of ordered keys that are tried; the one with which the intruder finds the most is reported."""

MOST_CELLS = 4_000
"""Largest number of cells around a record that are examined; beyond it only the nearest, which overstates what is found."""

_WORTH_A_THREAD = 64
_NO_MASKS = np.zeros(0, dtype=np.uint64)
_NO_COSTS = np.zeros(0)

NO_PATTERNS = Patterns(_NO_MASKS, _NO_COSTS, _NO_COSTS, _NO_COSTS)
"""Only the distance counts."""


def nearness(table: ContingencyTable, weight: float, distances: Distances | None = None) -> Nearness:
    """The distance of an intruder who counts ordered keys ``weight`` times; ``distances`` may say how far apart levels are."""
    kinds = {} if distances is None else dict(distances.kinds)
    weights = {c.key: weight for c in table.categories if kinds.get(c.key, "ordinal" if c.is_ordered else "nominal") != "nominal"}
    return Distances(kinds, weights).arrays(table)


class Others(NamedTuple):
    """For each point: number of people nearer than its bound (0 if none, otherwise any positive number), and at the bound."""

    n_nearer: NDArray[np.int64]
    n_tied: NDArray[np.int64]


class Ball(NamedTuple):
    """Cells within the bound of each point: the point they belong to, their codes, and their distances."""

    owner: NDArray[np.int64]
    cells: Cells
    cost: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Persons:
    """Number of people with each combination of key values.

    Attributes
    ----------
    table : ContingencyTable
        Their cells and counts.
    """

    table: ContingencyTable

    def with_counts(self, counts: NDArray[np.int64]) -> Persons:
        """The same cells with other numbers of people, none of them zero."""
        found = Persons(replace(self.table, counts=counts))
        occupied, order = self._sorted
        # Sorting is most of the work, and the cells are unchanged.
        found.__dict__["_sorted"] = (occupied._replace(counts=counts[order]), order)
        return found

    @cached_property
    def _key_order(self) -> NDArray[np.int64]:
        # Keys with few levels come first, so that runs of cells that are too far away are long.
        return np.argsort([c.n_levels for c in self.table.categories], kind="stable")

    @cached_property
    def _sorted(self) -> tuple[kernels.Occupied, NDArray[np.int64]]:
        codes = np.ascontiguousarray(self.table.cells[:, self._key_order])
        order = np.lexsort(codes.T[::-1])
        codes = np.ascontiguousarray(codes[order])
        skip = np.empty(codes.shape, dtype=np.int64)
        kernels.skips(codes, skip)
        return kernels.Occupied(codes, self.table.counts[order], skip), order

    def _arranged(self, near: Nearness) -> Nearness:
        keys = self._key_order
        return Nearness(near.kind[keys], near.start[keys], near.n_levels[keys], near.place, near.weight[keys])

    def _arranged_patterns(self, patterns: Patterns) -> Patterns:
        """Masks over the keys in the sorted order used here, and costs of cells in that order."""
        if not len(patterns.mask):
            return patterns
        masks = np.zeros(len(patterns.mask), dtype=np.uint64)
        for place, key in enumerate(self._key_order.tolist()):
            masks |= (patterns.mask >> np.uint64(key) & np.uint64(1)) << np.uint64(place)
        by_mask, by_cell = np.argsort(masks), self._sorted[1]
        return Patterns(masks[by_mask], patterns.cost[by_mask], patterns.stayed[by_cell], patterns.moved[by_cell])

    def around(self, near: Nearness, link: NDArray[np.float64]) -> kernels.Around:
        """What a planner needs in order to see whether somebody else is nearer to a record than its own person."""
        return kernels.Around(self._sorted[0], self._arranged(near), self._key_order.astype(np.int64), link)

    def count_at(self, cells: Cells) -> NDArray[np.int64]:
        """Number of people in each of these cells."""
        position = self.table.marginals.positions(self.table.all_keys, cells)
        return np.where(position >= 0, self.table.counts[position], 0)

    def others(self, points: Cells, bounds: NDArray[np.float64], near: Nearness, patterns: Patterns = NO_PATTERNS) -> Others:
        """Number of people nearer to each point than its bound, and number exactly at the bound."""
        occupied = self._sorted[0]
        arranged, arranged_patterns = self._arranged(near), self._arranged_patterns(patterns)
        codes = np.ascontiguousarray(points[:, self._key_order])
        found = Others(np.zeros(len(points), dtype=np.int64), np.zeros(len(points), dtype=np.int64))

        def work(rows: tuple[int, int]) -> None:
            kernels.count_others(occupied, arranged, arranged_patterns, codes, bounds, rows, *found)

        n_parts = max(1, min(4 * n_cores(), len(points) // _WORTH_A_THREAD))
        limits = [len(points) * part // n_parts for part in range(n_parts + 1)]
        on_all_cores(work, [(rows,) for rows in pairwise(limits)])
        return found

    def ball(
        self,
        points: Cells,
        bounds: NDArray[np.float64],
        near: Nearness,
        patterns: Patterns = NO_PATTERNS,
        *,
        most_cells: int = MOST_CELLS,
    ) -> Ball:
        """All combinations of values within the bound of each point, whether or not anybody has them."""
        keys = self._key_order
        arranged, arranged_patterns = self._arranged(near), self._arranged_patterns(patterns)
        codes = np.ascontiguousarray(points[:, keys])
        room, costs, ends = np.empty((most_cells, len(keys)), np.int32), np.empty(most_cells), np.empty(len(points), np.int64)
        cells, distance = [np.zeros((0, len(keys)), dtype=np.int32)], [np.zeros(0)]
        back, bounds = np.argsort(keys), bounds.copy()
        first = 0
        while first < len(points):
            last = kernels.balls(arranged, arranged_patterns, codes, bounds, first, room, costs, ends)
            if last == first:
                # There are too many cells: only nearer ones are listed.
                bounds[first] *= 0.8
                continue
            n_found = int(ends[last - 1])
            cells.append(room[:n_found, back])
            distance.append(costs[:n_found].copy())
            ends[first:last] = np.diff(ends[first:last], prepend=0)
            first = last
        return Ball(np.repeat(np.arange(len(points)), ends), np.concatenate(cells), np.concatenate(distance))


def distance_of(near: Nearness, one: Cells, other: Cells) -> NDArray[np.float64]:
    """Distance between two lists of cells, row by row."""
    codes = np.ascontiguousarray(np.concatenate([one, other]))
    pairs = np.stack([np.arange(len(one)), np.arange(len(one)) + len(one)], axis=1)
    everything = np.full(len(one), np.iinfo(np.uint64).max, dtype=np.uint64)
    return np.asarray(distances(near, codes, pairs, everything))
