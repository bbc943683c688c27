"""Can a whole household change places with another of the same composition?

A side of the interaction graph (keys that may move together) has a boundary: the keys, and other columns, that share a
kept margin with it. Two households of one size whose members agree on the boundary, one to one, can exchange the side
member by member: for every pair of members the exchange keeps every margin, so it does for the household. The
composition of a household is thus the multiset of its members' boundary values, with whatever else the user wants alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell._kernels import swapping as kernels
from rarecell._kernels.cell_hash import mixed_many
from rarecell._kernels.distance import distances
from rarecell.engine.drawing import drawing_order, names_of_records
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.swap.matching import match
from rarecell.swap.partners import Candidates, Move, PartnerSearch, in_threads
from rarecell.swap.plan import SwapPlan
from rarecell.swap.planner import Untouched, row_numbers
from rarecell.swap.reasons import DROPPED, NO_HOUSEHOLD, TAKEN, UNTOUCHED, Unswapped
from rarecell.swap.task import SwapTask
from rarecell.swap.units import code_column

STAGE = "looking for households to swap"


def plan_household_swaps(
    task: SwapTask,
    *,
    households: ArrayLike,
    records: ArrayLike,
    composition: Sequence[str] = (),
    progress: Progress = SILENT,
) -> SwapPlan:
    """Protect records by swapping their whole household with another of the same composition.

    Parameters
    ----------
    task : the file, the model, and all wishes
    households : the household of each record; a record without one is a household of its own
    records : row numbers to protect, or a mask with an entry for each record
    composition : columns on which the members must agree one to one, beside the boundary of what moves
    progress : is told how far the work is

    Returns
    -------
    SwapPlan
        One pair for every two members that exchange something.
    """
    rules = task.constraints
    alike = replace(rules, within=tuple(dict.fromkeys((*rules.within, *composition))))
    search = PartnerSearch(replace(task, constraints=alike))
    requested = row_numbers(records, task.table.n_rows)
    swapping = _Households(search, np.asarray(households), requested)
    candidates = swapping.candidates(task.max_candidates, task.seed, progress)
    waiting = swapping.waiting
    risk_of_household = np.zeros(swapping.n_households)
    in_table = requested[search.units.record_unit[requested] >= 0]
    of_record = task.cell_risk[search.units.cell[search.units.record_unit[in_table]]]
    np.maximum.at(risk_of_household, swapping.of_record[in_table], of_record)
    penalty = (2.0 * candidates.cost.max(initial=0.0) + 1.0) * (1.0 + risk_of_household[waiting])
    found = match(candidates, waiting, swapping.is_spare.astype(np.int64), penalty)
    return swapping.plan(found.candidates, found.edge, found.at_least)


class _Households:
    """Records sorted into households, and what is known of each."""

    def __init__(self, search: PartnerSearch, labels: NDArray[Any], requested: NDArray[np.int64]) -> None:
        self.search, self.requested = search, requested
        n_records = len(search.units.record_unit)
        codes, levels = code_column("household", labels, n_records)
        of_record = codes.astype(np.int64)
        if levels and levels[-1] is None:
            without = np.flatnonzero(of_record == len(levels) - 1)
            of_record[without] = len(levels) - 1 + np.arange(len(without))
        self.of_record = np.unique(of_record, return_inverse=True)[1]
        self.n_households = int(self.of_record.max(initial=-1)) + 1
        self.size = np.bincount(self.of_record, minlength=self.n_households)
        self.is_risky_record = np.zeros(n_records, dtype=bool)
        self.is_risky_record[requested] = True
        untouched = Untouched.of(search).holds(search.units, np.arange(n_records))
        is_out = (search.units.record_unit < 0) | untouched
        self.is_out = np.bincount(self.of_record, weights=is_out, minlength=self.n_households) > 0
        is_risky = np.bincount(self.of_record, weights=self.is_risky_record, minlength=self.n_households) > 0
        self.waiting = np.flatnonzero(is_risky & ~self.is_out)
        self.is_spare = ~is_risky & ~self.is_out
        self.is_waiting = is_risky & ~self.is_out
        open_records = requested[~self.is_out[self.of_record[requested]]]
        search.is_closed[search.units.cell[search.units.record_unit[open_records]]] = True
        self.turn = self._turn_of_equals()
        self.sorted_rows: dict[Move, NDArray[np.int64]] = {}
        self.start = np.concatenate([[0], np.cumsum(self.size)])

    def _turn_of_equals(self) -> NDArray[np.uint64]:
        """An order among members of a household who are alike in everything, by what names them and not by the order of the file."""
        task, unit = self.search.wanted, self.search.units.record_unit
        rows = np.lexsort((unit, self.of_record))
        is_same = (np.diff(unit[rows]) == 0) & (np.diff(self.of_record[rows]) == 0)
        alike = rows[np.append(is_same, False) | np.append(False, is_same)]
        turn = np.zeros(len(unit), dtype=np.uint64)
        turn[alike] = drawing_order(task.seed, names_of_records(task.record_ids, len(unit))(alike))
        return turn

    def candidates(self, n_candidates: int, seed: int, progress: Progress) -> Candidates:
        """Households of the same composition with each side that can move, cheapest first, a few for each risky one."""
        task = self.search.task()
        moves = dict.fromkeys(Move(self.search.interactions.neighbourhood(m.side), m.side) for m in self.search.moves)
        pairs, costs, sides = [], [], []
        progress.start(STAGE, len(moves))
        for move in moves:
            if move.side & self.search.interactions.fixed:
                continue
            of_move = self._same_composition(move, 4 * n_candidates, seed)
            cost = self._costs(task, move, of_move)
            is_possible = np.isfinite(cost)
            pairs.append(of_move[is_possible])
            costs.append(cost[is_possible])
            sides.append(np.full(int(is_possible.sum()), move.side, dtype=np.uint64))
            checkpoint(progress, STAGE, 1)
        progress.done()
        if not pairs:
            none = np.zeros(0, dtype=np.int64)
            return Candidates(none, none, none.astype(np.uint64), none.astype(float), none.astype(float))
        joined, cost, side = np.concatenate(pairs), np.concatenate(costs), np.concatenate(sides)
        order = np.lexsort((joined[:, 1], cost, joined[:, 0]))
        rank = np.arange(len(order)) - np.searchsorted(joined[order, 0], joined[order, 0])
        kept = order[rank < n_candidates]
        return Candidates(joined[kept, 0], joined[kept, 1], side[kept], cost[kept], cost[kept])

    def _rows(self, move: Move) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Records by household, then boundary, then side, and the boundary of each: members are compared in this order."""
        search = self.search
        within = [search.units.position(c) for c in search.constraints.within]
        boundary, _ = search.units.ranks(sorted({*search.finest(move.separator), *within}))
        value, _ = search.units.ranks([v for v in search.finest(move.side) if v < search.table.n_vertices])
        unit = search.units.record_unit
        of_record = np.append(boundary, -1)[unit]
        rows = np.lexsort((self.turn, unit, np.append(value, -1)[unit], of_record, self.of_record))
        return rows, of_record[rows]

    def _same_composition(self, move: Move, limit: int, seed: int) -> NDArray[np.int64]:
        """Pairs of a risky household and another whose members have the same boundary values, at most ``limit`` each."""
        rows, boundary = self._rows(move)
        self.sorted_rows[move] = rows
        members = np.repeat(np.arange(self.n_households), self.size)
        signature = np.zeros(self.n_households, dtype=np.uint64)
        np.add.at(signature, members, mixed_many(boundary + 1, 7))
        is_usable = self.is_spare | self.is_waiting
        by_signature = np.flatnonzero(is_usable)
        scattered = mixed_many(by_signature, seed)
        by_signature = by_signature[np.lexsort((scattered, signature[by_signature], self.size[by_signature]))]
        key = np.stack([self.size[by_signature].astype(np.uint64), signature[by_signature]])
        is_start = np.append(True, (key[:, 1:] != key[:, :-1]).any(axis=0))
        group = np.cumsum(is_start) - 1
        start = np.append(np.flatnonzero(is_start), len(by_signature))
        place = np.empty(self.n_households, dtype=np.int64)
        place[by_signature] = np.arange(len(by_signature))
        own = place[self.waiting]
        first, length = start[group[own]], np.diff(start)[group[own]]
        n_tries = np.minimum(length - 1, limit)
        one = np.repeat(self.waiting, n_tries)
        step = np.arange(len(one)) - np.repeat(np.cumsum(n_tries) - n_tries, n_tries) + 1
        other = by_signature[np.repeat(first, n_tries) + (np.repeat(own - first, n_tries) + step) % np.repeat(length, n_tries)]
        found = np.stack([one, other], axis=1)
        # A signature is a hash: make sure that the members agree one by one.
        is_same = np.ones(len(found), dtype=bool)
        for member in range(int(self.size[self.waiting].max(initial=0))):
            has = np.flatnonzero(self.size[one] > member)
            is_same[has] &= boundary[self.start[one[has]] + member] == boundary[self.start[other[has]] + member]
        return np.asarray(found[is_same], dtype=np.int64)

    def _costs(self, task: kernels.Search, move: Move, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
        rows = self.sorted_rows[move]
        units, is_risky = self.search.units.record_unit[rows], self.is_risky_record[rows]
        cost = np.zeros(len(pairs))

        def share(part: tuple[int, int]) -> None:
            some = slice(*part)
            kernels.household_costs(task, units, self.start, pairs[some], np.uint64(move.side), is_risky, cost[some])

        in_threads(share, len(pairs))
        return cost

    def plan(self, candidates: Candidates, edge: NDArray[np.int64], at_least: float) -> SwapPlan:
        search, units = self.search, self.search.units
        one, other, moved = self._member_pairs(candidates, edge)
        distance = distances(
            search.distances.arrays(search.table),
            units.codes,
            np.stack([units.record_unit[one], units.record_unit[other]], axis=1),
            moved,
        )
        risky_first = self.is_risky_record[one] | ~self.is_risky_record[other]
        one, other = np.where(risky_first, one, other), np.where(risky_first, other, one)
        order = np.lexsort((self.turn[one], units.record_unit[one], self.of_record[one]))
        done = np.zeros(self.n_households, dtype=bool)
        done[candidates.risky[edge]] = done[candidates.partner[edge]] = True
        has_offer = np.zeros(self.n_households, dtype=bool)
        has_offer[candidates.risky] = True
        return SwapPlan(
            task=search.wanted,
            interactions=search.interactions,
            units=units,
            requested=self.requested,
            records=one[order],
            partners=other[order],
            moved=moved[order],
            distance=distance[order],
            cost=distance[order],
            unswapped=tuple(self._left(done, has_offer)),
            cost_at_least=at_least,
            penalised_cost=float(candidates.cost[edge].sum()),
        )

    def _member_pairs(
        self, candidates: Candidates, edge: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]:
        """Rows of the members that exchange something, and what."""
        ones, others, moves = [], [], []
        codes, unit = self.search.units.codes, self.search.units.record_unit
        for e in edge.tolist():
            side = int(candidates.moved[e])
            rows = next(rows for move, rows in self.sorted_rows.items() if move.side == side)
            h, g = candidates.risky[e], candidates.partner[e]
            for one, other in zip(rows[self.start[h] : self.start[h + 1]], rows[self.start[g] : self.start[g + 1]], strict=True):
                moved = self.search.interactions.difference(codes[unit[one]], codes[unit[other]]) & side
                if moved & self.search.interactions.keys:
                    ones.append(one)
                    others.append(other)
                    moves.append(moved)
        return np.array(ones, dtype=np.int64), np.array(others, dtype=np.int64), np.array(moves, dtype=np.uint64)

    def _left(self, done: NDArray[np.bool_], has_offer: NDArray[np.bool_]) -> list[Unswapped]:
        found = []
        for record in self.requested.tolist():
            household = self.of_record[record]
            if done[household]:
                continue
            if self.search.units.record_unit[record] < 0:
                reason = DROPPED
            elif self.is_out[household]:
                reason = UNTOUCHED
            else:
                reason = TAKEN if has_offer[household] else NO_HOUSEHOLD
            found.append(Unswapped(record, reason))
        return found
