"""Can a whole household change places with another of the same composition?

A side of the interaction graph (keys that may move together) has a boundary: the keys and other columns that share a kept
margin with it. Two households of the same size whose members agree on the boundary, one to one, can exchange the side member by
member: the exchange keeps every margin for each pair of members, and so for the household. The composition of a household is
thus the multiset of its members' boundary values, with whatever else the user wants to be alike.

Partners are chosen as for single records: by the distance over which values move plus the risk that any member of either
household is still linked to its person. Where few partners are safe, many more are considered; pairs that still leave somebody
linked are mended; and further households may be swapped as decoys. In the end pairs become rings (:mod:`rarecell.swap.rings`): households
whose members exchange the same keys beside the same values, one to one, hand them round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell._kernels import swapping as kernels
from rarecell._kernels.distance import distances
from rarecell._kernels.hashing import mixed_many
from rarecell.engine.streaming import drawing_order, names_of_records
from rarecell.graph.masks import members as graph_members
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.swap.choosing import (
    DECOY_STREAM,
    ENOUGH_PARTNERS,
    EXPOSED_ABOVE,
    JITTER,
    MENDING,
    MORE_CANDIDATES,
    MOST_MENDED,
    SAFE,
    Untouched,
    pair_jitter,
    priced_exchanges,
    row_numbers,
)
from rarecell.swap.matching import Matching, match
from rarecell.swap.partners import N_PROBES, Candidates, Move, PartnerSearch, in_threads
from rarecell.swap.plan import SwapPlan
from rarecell.swap.reasons import DROPPED, NO_HOUSEHOLD, TAKEN, UNTOUCHED, Unswapped
from rarecell.swap.rings import TRIED, Ringed, merged, prices_of_receivers
from rarecell.swap.task import SwapTask
from rarecell.table.columns import code_column

if TYPE_CHECKING:
    from rarecell.edges import Array, Json


STAGE = "looking for households to swap"

PER_SIDE = 8
"""One in this many of the partners considered is kept on every side that may move, whatever its estimated cost."""

TRIES = 4
"""For each partner considered, this many households are examined on each side that may move."""


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
    task : SwapTask
        The file, the model and all settings.
    households : array_like
        Household of each record; a record without one is a household of its own.
    records : array_like
        Row numbers to protect, or a mask with an entry for each record.
    composition : sequence of str, optional
        Columns on which the members must agree one to one, in addition to the boundary of what moves.
    progress : Progress, optional
        Receiver of progress reports.

    Returns
    -------
    SwapPlan
        One pair for every two members that exchange something.
    """
    rules = task.constraints
    alike = replace(rules, within=tuple(dict.fromkeys((*rules.within, *composition))))
    search = PartnerSearch(replace(task, constraints=alike))
    requested = row_numbers(records, task.table.n_rows)
    planner = _HouseholdPlanner(search, Households(search, np.asarray(households)), requested)
    planner.match_waiting(progress)
    planner.mend_exposed(progress)
    planner.add_decoys(progress)
    return planner.plan()


class _HouseholdPlanner:
    """The state of a plan in the making: which households wait, which are free, and what was decided."""

    def __init__(self, search: PartnerSearch, households: Households, requested: NDArray[np.int64]) -> None:
        self.search, self.households, self.requested = search, households, requested
        units = search.units
        n_records = len(units.record_unit)
        self.is_risky_record = np.zeros(n_records, dtype=bool)
        self.is_risky_record[requested] = True
        untouched = Untouched.of(search).holds(units, np.arange(n_records))
        self.is_out = households.holds((units.record_unit < 0) | untouched)
        is_risky = households.holds(self.is_risky_record)
        self.waiting = np.flatnonzero(is_risky & ~self.is_out)
        self.n_waiting = len(self.waiting)
        self.is_spare = ~is_risky & ~self.is_out
        self.has_offer = np.zeros(households.number, dtype=bool)
        open_records = requested[~self.is_out[households.of_record[requested]]]
        search.is_closed[units.cell[units.record_unit[open_records]]] = True
        self.risk = np.zeros(households.number)
        np.maximum.at(
            self.risk, households.of_record[open_records], search.request.cell_risk[units.cell[units.record_unit[open_records]]]
        )
        none = np.zeros(0, dtype=np.int64)
        self.pairs = Candidates(none, none, none.astype(np.uint64), none.astype(float), none.astype(float))
        self.at_least = 0.0

    # -------------------------------------------------------------- steps

    def match_waiting(self, progress: Progress) -> None:
        """Serve as many waiting households as possible; where few partners are safe, consider many more."""
        n_candidates, task = self.search.request.max_candidates, self.search.request
        candidates = self._candidates(self.search, self.waiting, n_candidates, 0, progress)
        is_safe = candidates.cost - candidates.distance < SAFE * task.link_weight + JITTER
        n_safe = np.bincount(candidates.risky[is_safe], minlength=self.households.number)[self.waiting]
        exposed = self.waiting[n_safe < min(ENOUGH_PARTNERS, n_candidates)]
        if len(exposed) and task.link_weight > 0.0:
            more = self._candidates(self.search, exposed, MORE_CANDIDATES * n_candidates, N_PROBES, progress)
            candidates = Candidates.joined([candidates, more])
        self.has_offer[candidates.risky] = True
        self.at_least = self._take(candidates).at_least

    def mend_exposed(self, progress: Progress) -> None:
        """Consider many more partners for pairs that leave somebody linked; without a better one they stay as they are."""
        task, pairs = self.search.request, self.pairs
        left = pairs.cost - pairs.distance
        exposed = np.flatnonzero(left > EXPOSED_ABOVE * task.link_weight + JITTER)
        exposed = exposed[np.argsort(-left[exposed], kind="stable")[:MOST_MENDED]]
        if not len(exposed) or not task.link_weight > 0.0:
            return
        now = pairs.part(exposed)
        as_now = replace(now, cost=now.distance + MENDING * (now.cost - now.distance))
        self.pairs = pairs.part(np.setdiff1d(np.arange(len(pairs)), exposed))
        both = np.concatenate([now.risky, now.partner])
        is_wanted = self.households.holds(self.is_risky_record)[both]
        self.is_spare[both[~is_wanted]] = True
        self.waiting = np.sort(both[is_wanted])
        strict = self.search.stricter(MENDING)
        more = self._candidates(strict, self.waiting, 2 * MORE_CANDIDATES * task.max_candidates, -1, progress)
        n_before = len(self.pairs)
        self._take(Candidates.joined([as_now, more]))
        mended = self.pairs.part(np.arange(n_before, len(self.pairs)))
        self.pairs = Candidates.joined(
            [
                self.pairs.part(np.arange(n_before)),
                replace(mended, cost=mended.distance + (mended.cost - mended.distance) / MENDING),
            ]
        )

    def add_decoys(self, progress: Progress) -> None:
        """Swap further households, drawn at random from the rest, so that having moved is no sign of risk."""
        task = self.search.request
        left = np.flatnonzero(self.is_spare)
        n_decoys = min(round(task.decoys * self.n_waiting), len(left) // 2)
        if not n_decoys:
            return
        rng = np.random.default_rng([task.seed, DECOY_STREAM])
        self.waiting = np.sort(rng.choice(left, n_decoys, replace=False))
        self.is_spare[self.waiting] = False
        self._take(self._candidates(self.search, self.waiting, task.max_candidates, 0, progress))

    # -------------------------------------------------------------- candidates and pairs

    def _candidates(
        self, search: PartnerSearch, waiting: NDArray[np.int64], n_candidates: int, n_probes: int, progress: Progress
    ) -> Candidates:
        """Priced candidates for each waiting household: a few of the same composition, with each side that can move."""
        task, homes = search.task(n_probes=n_probes), self.households
        is_usable = self.is_spare.copy()
        is_usable[self.waiting] = True
        progress.start(STAGE, len(homes.moves))
        by_move = []
        for move in homes.moves:
            pairs = homes.same_composition(move, waiting, is_usable, TRIES * n_candidates, search.request.seed)
            cost = homes.costs(task, move, pairs, self.is_risky_record)
            ok = np.isfinite(cost)
            side = np.full(int(ok.sum()), move.side, dtype=np.uint64)
            by_move.append(Candidates(pairs[ok, 0], pairs[ok, 1], side, cost[ok], cost[ok]))
            checkpoint(progress, STAGE, 1)
        progress.done()
        if not by_move:
            return self.pairs.part(np.zeros(0, dtype=np.int64))
        joined = Candidates.joined(by_move)
        # Keep the cheapest by the estimate, and the cheapest on every side: those that look cheap are often all of one kind.
        order = np.lexsort((joined.partner, joined.cost, joined.moved, joined.risky))
        is_start = np.ones(len(order), dtype=bool)
        is_start[1:] = (np.diff(joined.risky[order]) != 0) | (joined.moved[order[1:]] != joined.moved[order[:-1]])
        on_side = np.empty(len(order), dtype=np.int64)
        on_side[order] = np.arange(len(order)) - np.maximum.accumulate(np.where(is_start, np.arange(len(order)), 0))
        order = np.lexsort((joined.moved, joined.partner, joined.cost, joined.risky))
        rank = np.arange(len(order)) - np.searchsorted(joined.risky[order], joined.risky[order])
        is_kept = (rank < n_candidates) | (on_side[order] < n_candidates // PER_SIDE)
        return self._priced(search, joined.part(order[is_kept]))

    def _priced(self, search: PartnerSearch, candidates: Candidates) -> Candidates:
        """Exact distance and cost of pairs of households, summed over the members that move."""
        members = self.households.members(candidates.risky, candidates.partner, candidates.moved)
        unit = search.units.record_unit
        apart, link = priced_exchanges(search, unit[members.records], unit[members.partners], members.moved)
        distance = np.zeros(len(candidates)) + np.bincount(members.owner, weights=apart, minlength=len(candidates))
        links = np.bincount(members.owner, weights=link, minlength=len(candidates))
        cost = distance + search.request.link_weight * links
        jitter = JITTER * pair_jitter(search.request.seed, candidates.risky, candidates.partner)
        return replace(candidates, distance=distance, cost=cost + jitter)

    def _take(self, candidates: Candidates) -> Matching:
        """Match the waiting households and record their pairs."""
        penalty = (2.0 * candidates.cost.max(initial=0.0) + 1.0) * (1.0 + self.risk[self.waiting])
        matching = match(candidates, self.waiting, self.is_spare.astype(np.int64), penalty)
        taken = matching.candidates.part(matching.edge)
        self.pairs = Candidates.joined([self.pairs, taken])
        self.is_spare[taken.risky] = self.is_spare[taken.partner] = False
        return matching

    # -------------------------------------------------------------- the plan

    def plan(self) -> SwapPlan:
        """Return the plan, with one pair for every two members that exchange something."""
        search, units, pairs = self.search, self.search.units, self.pairs
        members = self.households.members(pairs.risky, pairs.partner, pairs.moved)
        rings = (
            self._rings(members)
            if search.request.rings
            else Ringed(pairs.partner, pairs.risky, pairs.moved, pairs.distance, pairs.cost)
        )
        givers = [self.households.counterparts(members, of_pair, pairs.moved) for of_pair in (rings.to_record, rings.to_partner)]
        measures = search.distances.arrays(search.table)
        distance = np.zeros(len(members.owner))
        for receivers, sources in zip((members.records, members.partners), givers, strict=True):
            both = np.stack([units.record_unit[receivers], units.record_unit[sources]], axis=1)
            distance += 0.5 * distances(measures, units.codes, both, members.moved)
        risky_first = self.is_risky_record[members.records] | ~self.is_risky_record[members.partners]
        records = np.where(risky_first, members.records, members.partners)
        partners = np.where(risky_first, members.partners, members.records)
        to_record, to_partner = np.where(risky_first, givers, givers[::-1])
        # The remaining link cost is divided among the members of a pair of households.
        n_members = np.bincount(members.owner, minlength=len(pairs))
        cost = distance + ((rings.cost - rings.distance) / np.maximum(n_members, 1))[members.owner]
        # Not sorted by row, so that the order of the file does not matter.
        order = np.lexsort((self.households.turn[records], units.record_unit[records], self.households.of_record[records]))
        columns: Json = {
            "records": records[order],
            "partners": partners[order],
            "moved": members.moved[order],
            "distance": distance[order],
            "cost": cost[order],
            "givers": np.concatenate([to_record[order], to_partner[order]]),
        }
        return SwapPlan(
            task=search.request,
            interactions=search.interactions,
            units=units,
            requested=self.requested,
            unswapped=tuple(self._left()),
            cost_at_least=min(self.at_least, float(rings.cost.sum())),
            penalised_cost=float(rings.cost.sum()),
            **columns,
        )

    def _rings(self, members: MemberPairs) -> Ringed:
        """Merge pairs of households into rings; ``members`` are those that exchange something, sorted by their pair."""
        search, pairs, unit = self.search, self.pairs, self.search.units.record_unit
        as_pairs = Ringed(pairs.partner, pairs.risky, pairs.moved, pairs.distance, pairs.cost)
        first, second = self._pairs_to_merge(members)
        if not len(first):
            return as_pairs
        n, start = len(first), np.searchsorted(members.owner, np.arange(len(pairs) + 1))
        # Both pairs of a merge have as many members that exchange something, at the same places and on the same keys.
        size = (start[1:] - start[:-1])[first]
        merge, member = np.repeat(np.arange(n), size), np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
        rows = np.stack(
            [of[start[pair][merge] + member] for pair in (first, second) for of in (members.records, members.partners)], axis=1
        )
        moved = members.moved[start[first][merge] + member]
        apart, price = np.zeros((n, 4, 4)), np.full((n, 4, 4), np.inf)
        for to, by in zip(*(~np.eye(4, dtype=bool)).nonzero(), strict=True):
            far, cost = prices_of_receivers(search, unit[rows[:, to]], unit[rows[:, by]], moved, moved)
            apart[:, to, by], price[:, to, by] = (np.bincount(merge, weights=each, minlength=n) for each in (far, cost))
        return merged(as_pairs, first, second, pairs.moved[first], apart, price)

    def _pairs_to_merge(self, members: MemberPairs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of households whose members exchange the same vertices, agree on all that these interact with and on what they keep."""
        search, homes, pairs = self.search, self.households, self.pairs
        units, graph = search.units, search.interactions
        within = [units.position(name) for name in search.constraints.within]
        start = np.searchsorted(members.owner, np.arange(len(pairs) + 1))
        place = homes.places(members, pairs.moved)
        alike: dict[tuple[object, ...], list[int]] = {}
        for pair in np.argsort(pair_jitter(search.request.seed, pairs.risky, pairs.partner), kind="stable").tolist():
            home = int(pairs.risky[pair])
            of_members: list[object] = [int(pairs.moved[pair]), int(homes.size[home])]
            for m in range(start[pair], start[pair + 1]):
                mask, codes = int(members.moved[m]), units.codes[units.record_unit[members.records[m]]]
                around = [*graph_members(graph.neighbourhood(mask)), *within]
                of_members += [int(place[m]), mask, *codes[around].tolist()]
            # Whoever exchanges nothing, or fewer vertices, must hold what the others of the ring hold: all members come from one household.
            by = homes.sorted_by(int(pairs.moved[pair]))
            rows = by.rows[homes.start[home] : homes.start[home + 1]]
            exchanged = {int(members.records[m]): int(members.moved[m]) for m in range(start[pair], start[pair + 1])}
            for row in rows.tolist():
                stays = int(pairs.moved[pair]) & ~exchanged.get(row, 0)
                of_members += units.codes[units.record_unit[row]][[*graph_members(stays), *within]].tolist()
            alike.setdefault(tuple(of_members), []).append(pair)
        chosen = [
            (pair, mate)
            for group in alike.values()
            for number, pair in enumerate(group)
            for mate in group[number + 1 : number + 1 + TRIED]
        ]
        both = np.array(chosen, dtype=np.int64).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def _left(self) -> list[Unswapped]:
        done = np.zeros(self.households.number, dtype=bool)
        done[self.pairs.risky] = done[self.pairs.partner] = True
        left = []
        for record in self.requested.tolist():
            household = self.households.of_record[record]
            if done[household]:
                continue
            if self.search.units.record_unit[record] < 0:
                reason = DROPPED
            elif self.is_out[household]:
                reason = UNTOUCHED
            else:
                reason = TAKEN if self.has_offer[household] else NO_HOUSEHOLD
            left.append(Unswapped(record, reason))
        return left


# Which households have the same composition, and which of their members exchange what?
#
# The members of a household are sorted by their boundary (the columns on which the members of two households must agree one to
# one) and then by the values that would move. A hash of the multiset of boundary values is the signature of a household. Other
# households of the same size and signature are found among those sorted next to it: some near in the values that would move, some
# anywhere.


class _Sorted(NamedTuple):
    """Records sorted by household, boundary and value; the boundary of each; the signature and a value of each household."""

    rows: NDArray[np.int32]
    boundary: NDArray[np.int32]
    signature: NDArray[np.uint64]
    value: NDArray[np.int32]


class MemberPairs(NamedTuple):
    """Records that exchange values: two of them, the keys that move as bit masks, and the pair of households they belong to."""

    records: NDArray[np.int64]
    partners: NDArray[np.int64]
    moved: NDArray[np.uint64]
    owner: NDArray[np.int64]


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
        distinct = dict.fromkeys(Move(graph.neighbourhood(m.side), m.side) for m in self.search.moves)
        return tuple(move for move in distinct if not move.side & graph.fixed)

    @cached_property
    def turn(self) -> NDArray[np.uint64]:
        """An order for members of a household that are alike in everything, by their names and not by their place in the file."""
        task, unit = self.search.request, self.search.units.record_unit
        rows = np.lexsort((unit, self.of_record))
        is_same = (np.diff(unit[rows]) == 0) & (np.diff(self.of_record[rows]) == 0)
        alike = rows[np.append(is_same, False) | np.append(False, is_same)]
        turn = np.zeros(len(unit), dtype=np.uint64)
        turn[alike] = drawing_order(task.seed, names_of_records(task.record_ids, len(unit))(alike))
        return turn

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
        pairs = np.unique(np.concatenate([self._beside(order, by.signature, waiting, half) for order in orders]), axis=0)
        # Signatures are hashes and can collide: check that the members agree one by one.
        first, second = pairs[:, 0], pairs[:, 1]
        is_same = np.ones(len(pairs), dtype=bool)
        for member in range(int(self.size[waiting].max(initial=0))):
            has = np.flatnonzero(self.size[first] > member)
            is_same[has] &= by.boundary[self.start[first[has]] + member] == by.boundary[self.start[second[has]] + member]
        return np.asarray(pairs[is_same], dtype=np.int64)

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

    def members(self, first: NDArray[np.int64], second: NDArray[np.int64], side: NDArray[np.uint64]) -> MemberPairs:
        """Return the members of paired households that exchange something on the side of their pair."""
        parts = [
            self._members_on(move, np.flatnonzero(side == np.uint64(move.side)), first, second)
            for move in self.moves
            if (side == np.uint64(move.side)).any()
        ]
        if not parts:
            none = np.zeros(0, dtype=np.int64)
            return MemberPairs(none, none, none.astype(np.uint64), none)
        owner = np.concatenate([part.owner for part in parts])
        order = np.argsort(owner, kind="stable")
        return MemberPairs(
            np.concatenate([part.records for part in parts])[order],
            np.concatenate([part.partners for part in parts])[order],
            np.concatenate([part.moved for part in parts])[order],
            owner[order],
        )

    def sorted_by(self, side: int) -> _Sorted:
        """The records in the order in which members exchange a side."""
        return self._by(next(move for move in self.moves if move.side == side))

    def places(self, members: MemberPairs, side: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Where members stand in the order in which the households of their pair exchange its side."""
        place, position = np.zeros(len(members.owner), dtype=np.int64), np.empty(len(self.of_record), dtype=np.int64)
        of_members = side[members.owner]
        for each in np.unique(of_members).tolist():
            position[self.sorted_by(each).rows] = np.arange(len(position))
            on_side = np.flatnonzero(of_members == each)
            records = members.records[on_side]
            place[on_side] = position[records] - self.start[self.of_record[records]]
        return place

    def counterparts(self, members: MemberPairs, household: NDArray[np.int64], side: NDArray[np.uint64]) -> NDArray[np.int64]:
        """For each pair of members, the record that stands at their place in the household that is named for their pair."""
        place, record, of_members = self.places(members, side), np.empty(len(members.owner), dtype=np.int64), side[members.owner]
        for each in np.unique(of_members).tolist():
            on_side = np.flatnonzero(of_members == each)
            record[on_side] = self.sorted_by(each).rows[self.start[household[members.owner[on_side]]] + place[on_side]]
        return record

    def _members_on(
        self, move: Move, chosen: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]
    ) -> MemberPairs:
        rows, size = self._by(move).rows, self.size[first[chosen]]
        owner = np.repeat(chosen, size)
        member = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
        here, there = (rows[self.start[which[owner]] + member].astype(np.int64) for which in (first, second))
        codes, unit = self.search.units.codes, self.search.units.record_unit
        moved = np.zeros(len(owner), dtype=np.uint64)
        for v in range(self.search.interactions.n_vertices):
            if move.side >> v & 1:
                moved |= (codes[unit[here], v] != codes[unit[there], v]).astype(np.uint64) << np.uint64(v)
        moves = moved & np.uint64(self.search.interactions.keys) != 0
        return MemberPairs(here[moves], there[moves], moved[moves], owner[moves])
