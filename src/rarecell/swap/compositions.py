"""Which households have the same composition, and which of their members exchange what?

The members of a household are sorted by their boundary (the columns on which the members of two households must agree one to
one) and then by the values that would move. A hash of the multiset of boundary values is the signature of a household. Other
households of the same size and signature are found among those sorted next to it: some near in the values that would move, some
anywhere.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import swapping as kernels
from rarecell._kernels.cell_hash import mixed_many
from rarecell.engine.drawing import drawing_order, names_of_records
from rarecell.swap.partners import Move, PartnerSearch, in_threads
from rarecell.swap.units import code_column

if TYPE_CHECKING:
    from rarecell.edges import Array


class _Sorted(NamedTuple):
    """Records sorted by household, boundary and value; the boundary of each; the signature and a value of each household."""

    rows: NDArray[np.int32]
    boundary: NDArray[np.int32]
    signature: NDArray[np.uint64]
    value: NDArray[np.int32]


class Members(NamedTuple):
    """Pairs of records that exchange something: their pair of households, the two rows, and what moves."""

    owner: NDArray[np.int64]
    one: NDArray[np.int64]
    other: NDArray[np.int64]
    moved: NDArray[np.uint64]


class Households:
    """Records sorted into households; a record without one is a household of its own."""

    def __init__(self, search: PartnerSearch, labels: Array) -> None:
        self.search = search
        codes, levels = code_column("household", labels, len(search.units.record_unit))
        of_record = codes.astype(np.int64)
        if levels and levels[-1] is None:
            without = np.flatnonzero(of_record == len(levels) - 1)
            of_record[without] = len(levels) - 1 + np.arange(len(without))
        self.of_record = np.unique(of_record, return_inverse=True)[1]
        self.number = int(self.of_record.max(initial=-1)) + 1
        self.size = np.bincount(self.of_record, minlength=self.number)
        self.start = np.concatenate([[0], np.cumsum(self.size)])
        self._sorted: dict[Move, _Sorted] = {}

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Every side that may move, with its boundary."""
        graph = self.search.interactions
        found = dict.fromkeys(Move(graph.neighbourhood(m.side), m.side) for m in self.search.moves)
        return tuple(move for move in found if not move.side & graph.fixed)

    @cached_property
    def turn(self) -> NDArray[np.uint64]:
        """An order for members of a household that are alike in everything, by their names and not by their place in the file."""
        task, unit = self.search.wanted, self.search.units.record_unit
        rows = np.lexsort((unit, self.of_record))
        is_same = (np.diff(unit[rows]) == 0) & (np.diff(self.of_record[rows]) == 0)
        alike = rows[np.append(is_same, False) | np.append(False, is_same)]
        found = np.zeros(len(unit), dtype=np.uint64)
        found[alike] = drawing_order(task.seed, names_of_records(task.record_ids, len(unit))(alike))
        return found

    def holds(self, is_such: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which households have a member for whom ``is_such`` is true."""
        return np.bincount(self.of_record, weights=is_such, minlength=self.number) > 0

    def _by(self, move: Move) -> _Sorted:
        if move not in self._sorted:
            search = self.search
            within = [search.units.position(c) for c in search.constraints.within]
            boundary, _ = search.units.ranks(sorted({*search.finest(move.separator), *within}))
            value, _ = search.units.ranks([v for v in search.finest(move.side) if v < search.table.n_vertices])
            unit = search.units.record_unit
            of_record, value_of_record = np.append(boundary, -1)[unit], np.append(value, -1)[unit]
            rows = np.lexsort((self.turn, unit, value_of_record, of_record, self.of_record))
            signature = np.zeros(self.number, dtype=np.uint64)
            np.add.at(signature, self.of_record, mixed_many(of_record + 1, 7))
            self._sorted[move] = _Sorted(
                rows.astype(np.int32),
                of_record[rows].astype(np.int32),
                signature,
                value_of_record[rows[self.start[:-1]]].astype(np.int32),
            )
        return self._sorted[move]

    def same_composition(
        self, move: Move, waiting: NDArray[np.int64], is_usable: NDArray[np.bool_], limit: int, seed: int
    ) -> NDArray[np.int64]:
        """Pair each waiting household with at most ``limit`` usable ones whose members agree on the boundary.

        Half of them are near in the values that would move, the other half are anywhere.
        """
        by = self._by(move)
        usable = np.flatnonzero(is_usable)
        scattered = mixed_many(usable, seed)
        orders = [
            usable[np.lexsort((scattered, *further, by.signature[usable], self.size[usable]))]
            for further in ((by.value[usable],), ())
        ]
        half = max(1, limit // 2)
        found = np.unique(np.concatenate([self._beside(order, by.signature, waiting, half) for order in orders]), axis=0)
        # Signatures are hashes and can collide: check that the members agree one by one.
        one, other = found[:, 0], found[:, 1]
        is_same = np.ones(len(found), dtype=bool)
        for member in range(int(self.size[waiting].max(initial=0))):
            has = np.flatnonzero(self.size[one] > member)
            is_same[has] &= by.boundary[self.start[one[has]] + member] == by.boundary[self.start[other[has]] + member]
        return np.asarray(found[is_same], dtype=np.int64)

    def _beside(
        self, order: NDArray[np.int64], signature: NDArray[np.uint64], waiting: NDArray[np.int64], limit: int
    ) -> NDArray[np.int64]:
        """Pairs of a waiting household and others of its size and signature, nearest in ``order`` first."""
        is_start = np.ones(len(order), dtype=bool)
        is_start[1:] = (np.diff(self.size[order]) != 0) | (signature[order[1:]] != signature[order[:-1]])
        group = np.cumsum(is_start) - 1
        first_of_group = np.append(np.flatnonzero(is_start), len(order))
        place = np.empty(self.number, dtype=np.int64)
        place[order] = np.arange(len(order))
        own = place[waiting]
        first, length = first_of_group[group[own]], np.diff(first_of_group)[group[own]]
        n_tries = np.minimum(length - 1, limit)
        turn = np.arange(int(n_tries.sum())) - np.repeat(np.cumsum(n_tries) - n_tries, n_tries)
        step = np.where(turn % 2 == 0, turn // 2 + 1, -(turn // 2 + 1))
        other = order[np.repeat(first, n_tries) + (np.repeat(own - first, n_tries) + step) % np.repeat(length, n_tries)]
        return np.stack([np.repeat(waiting, n_tries), other], axis=1)

    def costs(
        self, task: kernels.Search, move: Move, pairs: NDArray[np.int64], is_risky: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Estimate the cost of each pair of households; infinite for a pair that is not allowed."""
        rows = self._by(move).rows
        units, of_rows = self.search.units.record_unit[rows], is_risky[rows]
        cost = np.zeros(len(pairs))

        def share(part: tuple[int, int]) -> None:
            some = slice(*part)
            kernels.household_costs(task, units, self.start, pairs[some], np.uint64(move.side), of_rows, cost[some])

        in_threads(share, len(pairs))
        return cost

    def members(self, one: NDArray[np.int64], other: NDArray[np.int64], side: NDArray[np.uint64]) -> Members:
        """Return the members of paired households that exchange something on the side of their pair."""
        parts = [
            self._members_on(move, np.flatnonzero(side == np.uint64(move.side)), one, other)
            for move in self.moves
            if (side == np.uint64(move.side)).any()
        ]
        if not parts:
            none = np.zeros(0, dtype=np.int64)
            return Members(none, none, none, none.astype(np.uint64))
        owner = np.concatenate([part.owner for part in parts])
        order = np.argsort(owner, kind="stable")
        return Members(
            owner[order],
            np.concatenate([part.one for part in parts])[order],
            np.concatenate([part.other for part in parts])[order],
            np.concatenate([part.moved for part in parts])[order],
        )

    def _members_on(self, move: Move, chosen: NDArray[np.int64], one: NDArray[np.int64], other: NDArray[np.int64]) -> Members:
        rows, size = self._by(move).rows, self.size[one[chosen]]
        owner = np.repeat(chosen, size)
        member = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
        here, there = (rows[self.start[which[owner]] + member].astype(np.int64) for which in (one, other))
        codes, unit = self.search.units.codes, self.search.units.record_unit
        moved = np.zeros(len(owner), dtype=np.uint64)
        for v in range(self.search.interactions.n_vertices):
            if move.side >> v & 1:
                moved |= (codes[unit[here], v] != codes[unit[there], v]).astype(np.uint64) << np.uint64(v)
        moves = moved & np.uint64(self.search.interactions.keys) != 0
        return Members(owner[moves], here[moves], there[moves], moved[moves])
