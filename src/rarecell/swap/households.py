"""Can a whole household change places with another of the same composition?

A side of the interaction graph (keys that may move together) has a boundary: the keys and other columns that share a kept
margin with it. Two households of the same size whose members agree on the boundary, one to one, can exchange the side member by
member: the exchange keeps every margin for each pair of members, and so for the household. The composition of a household is
thus the multiset of its members' boundary values, with whatever else the user wants to be alike.

Partners are chosen as for single records: by the distance over which values move plus the risk that any member of either
household is still linked to its person. Where few partners are safe, many more are considered; pairs that still leave somebody
linked are mended; and further households may be swapped as decoys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell._kernels.distance import distances
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.swap.compositions import Households
from rarecell.swap.matching import Matching, match
from rarecell.swap.partners import N_PROBES, Candidates, PartnerSearch
from rarecell.swap.plan import SwapPlan
from rarecell.swap.planner import DECOYS, ENOUGH, EXPOSED, MENDING, MOST_MENDED, SAFE, WIDER, Untouched, row_numbers
from rarecell.swap.pricing import CHANCE, chance, priced_exchanges
from rarecell.swap.reasons import DROPPED, NO_HOUSEHOLD, TAKEN, UNTOUCHED, Unswapped
from rarecell.swap.task import SwapTask

if TYPE_CHECKING:
    from rarecell.edges import Json

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
            self.risk, households.of_record[open_records], search.wanted.cell_risk[units.cell[units.record_unit[open_records]]]
        )
        none = np.zeros(0, dtype=np.int64)
        self.pairs = Candidates(none, none, none.astype(np.uint64), none.astype(float), none.astype(float))
        self.at_least = 0.0

    # -------------------------------------------------------------- steps

    def match_waiting(self, progress: Progress) -> None:
        """Serve as many waiting households as possible; where few partners are safe, consider many more."""
        n_candidates, task = self.search.wanted.max_candidates, self.search.wanted
        candidates = self._candidates(self.search, self.waiting, n_candidates, 0, progress)
        is_safe = candidates.cost - candidates.distance < SAFE * task.link_weight + CHANCE
        n_safe = np.bincount(candidates.risky[is_safe], minlength=self.households.number)[self.waiting]
        exposed = self.waiting[n_safe < min(ENOUGH, n_candidates)]
        if len(exposed) and task.link_weight > 0.0:
            more = self._candidates(self.search, exposed, WIDER * n_candidates, N_PROBES, progress)
            candidates = Candidates.joined([candidates, more])
        self.has_offer[candidates.risky] = True
        self.at_least = self._take(candidates).at_least

    def mend_exposed(self, progress: Progress) -> None:
        """Consider many more partners for pairs that leave somebody linked; without a better one they stay as they are."""
        task, pairs = self.search.wanted, self.pairs
        left = pairs.cost - pairs.distance
        exposed = np.flatnonzero(left > EXPOSED * task.link_weight + CHANCE)
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
        more = self._candidates(strict, self.waiting, 2 * WIDER * task.max_candidates, -1, progress)
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
        task = self.search.wanted
        left = np.flatnonzero(self.is_spare)
        n_decoys = min(round(task.decoys * self.n_waiting), len(left) // 2)
        if not n_decoys:
            return
        rng = np.random.default_rng([task.seed, DECOYS])
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
        found = []
        for move in homes.moves:
            pairs = homes.same_composition(move, waiting, is_usable, TRIES * n_candidates, search.wanted.seed)
            cost = homes.costs(task, move, pairs, self.is_risky_record)
            ok = np.isfinite(cost)
            side = np.full(int(ok.sum()), move.side, dtype=np.uint64)
            found.append(Candidates(pairs[ok, 0], pairs[ok, 1], side, cost[ok], cost[ok]))
            checkpoint(progress, STAGE, 1)
        progress.done()
        if not found:
            return self.pairs.part(np.zeros(0, dtype=np.int64))
        joined = Candidates.joined(found)
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
        apart, link = priced_exchanges(search, unit[members.one], unit[members.other], members.moved)
        distance = np.zeros(len(candidates)) + np.bincount(members.owner, weights=apart, minlength=len(candidates))
        links = np.bincount(members.owner, weights=link, minlength=len(candidates))
        cost = distance + search.wanted.link_weight * links
        by_chance = CHANCE * chance(search.wanted.seed, candidates.risky, candidates.partner)
        return replace(candidates, distance=distance, cost=cost + by_chance)

    def _take(self, candidates: Candidates) -> Matching:
        """Match the waiting households and record their pairs."""
        penalty = (2.0 * candidates.cost.max(initial=0.0) + 1.0) * (1.0 + self.risk[self.waiting])
        found = match(candidates, self.waiting, self.is_spare.astype(np.int64), penalty)
        taken = found.candidates.part(found.edge)
        self.pairs = Candidates.joined([self.pairs, taken])
        self.is_spare[taken.risky] = self.is_spare[taken.partner] = False
        return found

    # -------------------------------------------------------------- the plan

    def plan(self) -> SwapPlan:
        """Return the plan, with one pair for every two members that exchange something."""
        search, units, pairs = self.search, self.search.units, self.pairs
        members = self.households.members(pairs.risky, pairs.partner, pairs.moved)
        of_members = np.stack([units.record_unit[members.one], units.record_unit[members.other]], axis=1)
        distance = distances(search.distances.arrays(search.table), units.codes, of_members, members.moved)
        risky_first = self.is_risky_record[members.one] | ~self.is_risky_record[members.other]
        one = np.where(risky_first, members.one, members.other)
        other = np.where(risky_first, members.other, members.one)
        # The remaining link cost is divided among the members of a pair of households.
        n_members = np.bincount(members.owner, minlength=len(pairs))
        cost = distance + ((pairs.cost - pairs.distance) / np.maximum(n_members, 1))[members.owner]
        # Not sorted by row, so that the order of the file does not matter.
        order = np.lexsort((self.households.turn[one], units.record_unit[one], self.households.of_record[one]))
        columns: Json = {
            "records": one[order],
            "partners": other[order],
            "moved": members.moved[order],
            "distance": distance[order],
            "cost": cost[order],
        }
        return SwapPlan(
            task=search.wanted,
            interactions=search.interactions,
            units=units,
            requested=self.requested,
            unswapped=tuple(self._left()),
            cost_at_least=min(self.at_least, float(pairs.cost.sum())),
            penalised_cost=float(pairs.cost.sum()),
            **columns,
        )

    def _left(self) -> list[Unswapped]:
        done = np.zeros(self.households.number, dtype=bool)
        done[self.pairs.risky] = done[self.pairs.partner] = True
        found = []
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
            found.append(Unswapped(record, reason))
        return found
