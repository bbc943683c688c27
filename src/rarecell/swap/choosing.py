"""Which partner does each record get, from the waiting records to the last spare partner?

1. Records that no exchange can reach are set aside, with the reason.
2. The waiting records are matched with near partners, or with each other, at the least cost.
3. For a record that found nobody near, all possible partners are examined; a record that lost its partners to others looks
   further in the next round.
4. Partners, so far known only by their unit, become records: the same ones on every engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell._kernels import hashing
from rarecell._kernels.distance import distances
from rarecell._kernels.neighbours import TOLERANCE, Around, count_rivals
from rarecell._kernels.swapping import Lists
from rarecell.engine.streaming import drawing_order, names_of_records
from rarecell.errors import BadInput
from rarecell.intruder.register import distance_of
from rarecell.progress import Progress, checkpoint
from rarecell.swap.matching import match
from rarecell.swap.partners import EXHAUSTIVE_BUDGET, N_PROBES, Candidates, PartnerSearch, in_threads
from rarecell.swap.reasons import CONSTRAINED, DROPPED, FIXED_BY_KEEP, FIXED_BY_MODEL, NOT_FOUND, TAKEN, UNTOUCHED, Unswapped
from rarecell.swap.swappable import swappability
from rarecell.swap.task import SwapTask
from rarecell.swap.units import Units
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    from rarecell.edges import Array


# What does an exchange cost: how far do values move, and which records are still linked to their person?


CROWDED = 100.0
"""A record that shares its place with this many people is as good as not linked."""

JITTER = 0.01
"""Largest random addition to a cost, so that the mechanism does not give the partner away."""


def priced(search: PartnerSearch, risky: NDArray[np.int64], lists: Lists) -> Candidates:
    """Compute the exact distance and cost of the candidates in ``lists``.

    The cost is the sum of four parts, of which 2 and 3 are multiplied by the link weight:

    1. The distance over which values move, and how unlike the two are in the columns to be spared.
    2. For both rows, the probability that they are linked to their person: 0 if somebody known is nearer to the new values, else
       E(1/F) of the old cell times the probability that none of the unseen persons has the new values.
    3. The same for a record that is left alone in its cell.
    4. A small random number, so that nobody can tell which of several almost equal partners was taken.
    """
    row, place = np.nonzero(np.isfinite(lists.cost))
    first, second = risky[row], lists.unit[row, place].astype(np.int64)
    moved = lists.moved[row, place]
    apart, link = priced_exchanges(search, first, second, moved)
    cost = apart + search.request.link_weight * link
    return Candidates(first, second, moved, apart, cost + JITTER * pair_jitter(search.request.seed, first, second))


def priced_exchanges(
    search: PartnerSearch, first: NDArray[np.int64], second: NDArray[np.int64], moved: NDArray[np.uint64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the distance of exchanges between units, and the links that remain for both rows and for records left alone."""
    apart = distances(search.distances.arrays(search.table), search.units.codes, np.stack([first, second], axis=1), moved)
    apart = apart + search.unlike(first, second)
    # Both rows of every pair at once, because asking the model takes longer than what it does.
    here, there = np.concatenate([first, second]), np.concatenate([second, first])
    moved_of_both = np.concatenate([moved, moved])
    cells = exchanged_cells(search.table, search.units.cell[here], search.units.cell[there], moved_of_both)
    link = link_of(search, here, there, moved_of_both, cells)
    leaves_one = search.table.counts[search.units.cell[here]] == 2
    left_alone = search.around.link[here]
    if search.request.participants:
        link = np.maximum(link, participant_link(search, here, cells))
        # Whoever is left alone with true values is found by everybody who knows that the person is there.
        left_alone = np.ones(len(here))
    link += np.where(leaves_one, left_alone, 0.0)
    if search.request.least_k > 1:
        link = np.maximum(link, _in_small_groups(search, here, cells))
    return np.asarray(apart), link[: len(first)] + link[len(first) :]


def link_of(
    search: PartnerSearch,
    here: NDArray[np.int64],
    there: NDArray[np.int64],
    moved: NDArray[np.uint64],
    cells: NDArray[np.int32],
) -> NDArray[np.float64]:
    """Probability that a record of each unit is linked to its person after the exchange."""
    links = np.zeros(len(here))
    # Somebody with the new values is nearer by any distance; for the remaining pairs everybody is examined.
    is_open = np.flatnonzero(search.find_cells(cells) < 0)
    hashed = search.hashed_cells(cells[is_open])
    first, which = _alike(search, here[is_open], there[is_open], hashed)
    asked = is_open[first]
    strongest = _strongest(search, np.stack([here, there], axis=1)[asked], moved[asked], search.around.link[here[asked]])
    link = strongest[which]
    is_linked = link > 0.0
    is_open, link = is_open[is_linked], link[is_linked]
    if len(is_open) and search.request.link_weight > 0.0:
        _, first, which = np.unique(hashed[is_linked], return_index=True, return_inverse=True)
        nobody = search.request.nobody_unseen(cells[is_open[first]])
        links[is_open] = link * nobody[which]
    if search.request.empty_weight > 0.0:
        links += _seen_to_have_moved(search, here, cells)
    return links


def _alike(
    search: PartnerSearch, here: NDArray[np.int64], there: NDArray[np.int64], hashed: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first of the exchanges that take the same record to the same new cell, and which of these each one is.

    Who is near the new values does not depend on who gave them, unless the partner may be missing among the known people.
    """
    numbers = hashing.mixed_many(search.units.cell[here], 1) + hashed
    if search.request.register is not None and search.request.register.is_real:
        numbers += hashing.mixed_many(search.units.cell[there], 2)
    _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    return first, which


def _in_small_groups(search: PartnerSearch, here: NDArray[np.int64], cells: NDArray[np.int32]) -> NDArray[np.float64]:
    """Number of records that are in too small a group after a record of each unit moved to a new cell: itself, and those it leaves."""
    k, counts = search.request.least_k, search.table.counts
    position = search.find_cells(cells)
    n_there = np.where(position >= 0, counts[position], 0) + 1
    left = counts[search.units.cell[here]]
    return np.asarray((n_there < k) + np.where(left == k, k - 1.0, 0.0), dtype=np.float64)


LIKELY_TO_MOVE = 0.3
"""Price of a move past another unique record alone, relative to a certain link: that record probably moves itself."""


def participant_link(search: PartnerSearch, here: NDArray[np.int64], cells: NDArray[np.int32]) -> NDArray[np.float64]:
    """Probability, about, that somebody who knows that a person is in the file finds the record of each unit in its new cell.

    The released record nearest to the true values is taken, so a record is found unless another one is nearer to them. Records that
    share their values mostly stay where they are; a unique one may move as well.
    """
    links = np.zeros(len(here))
    cell = search.units.cell[here]
    alone = np.flatnonzero(search.table.counts[cell] == 1)
    true, new = search.table.cells[cell[alone]], cells[alone]
    for near, (of_any, n_any), (of_staying, n_staying) in search.nearest_records:
        moved_by, at = distance_of(near, true, new), cell[alone]
        shares = np.where(np.abs(moved_by - of_staying[at]) <= TOLERANCE, n_staying[at], 0)
        shares += np.where(np.abs(moved_by - of_any[at]) <= TOLERANCE, n_any[at], 0)
        price = np.where(moved_by > of_any[at] + TOLERANCE, LIKELY_TO_MOVE, 1.0) / (1.0 + shares)
        price[moved_by > of_staying[at] + TOLERANCE] = 0.0
        links[alone] = np.maximum(links[alone], price)
    return links


def _seen_to_have_moved(search: PartnerSearch, here: NDArray[np.int64], cells: NDArray[np.int32]) -> NDArray[np.float64]:
    """Price of records that enter a cell in which nobody lives: whoever has a register sees that they moved."""
    price = np.zeros(len(here))
    is_empty = np.flatnonzero(search.find_cells(cells) < 0)
    if len(is_empty):
        _, first, which = np.unique(search.hashed_cells(cells[is_empty]), return_index=True, return_inverse=True)
        nobody = search.request.nobody_expected(cells[is_empty[first]])
        price[is_empty] = search.request.empty_weight * search.around.link[here[is_empty]] * nobody[which]
    return price


def _strongest(
    search: PartnerSearch, pairs: NDArray[np.int64], moved: NDArray[np.uint64], link: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The largest probability, over all distances, that the first of each pair is linked, if nobody unseen comes between.

    ``link`` is that of its old cell. By one distance it is 0 if somebody known is nearer to the new values; else all who are as
    near share it. They are a sample of those in the population, who are ``crowd`` times as many.
    """
    crowd = search.request.crowd
    most_tied = max(1, int(np.ceil(CROWDED / crowd)))
    witness, strongest = np.full(len(pairs), -1, dtype=np.int64), np.zeros(len(pairs))
    left = np.arange(len(pairs))
    for around in search.around_by_any:
        n_tied, seen = np.zeros(len(left), dtype=np.int64), witness[left]
        of_left, moved_of_left = pairs[left], moved[left]

        def work(
            rows: tuple[int, int],
            around: Around = around,
            of_left: NDArray[np.int64] = of_left,
            moved_of_left: NDArray[np.uint64] = moved_of_left,
            seen: NDArray[np.int64] = seen,
            n_tied: NDArray[np.int64] = n_tied,
        ) -> None:
            count_rivals(around, search.units.codes, of_left, moved_of_left, most_tied, rows, seen, n_tied)

        in_threads(work, len(left))
        witness[left] = seen
        own = link[left]
        shared = np.where((n_tied >= 0) & (n_tied < most_tied), own / (1.0 + own * crowd * np.maximum(n_tied, 0)), 0.0)
        strongest[left] = np.maximum(strongest[left], shared)
        # Nothing is worse than a link that nobody shares.
        left = left[n_tied != 0]
    return strongest


def pair_jitter(seed: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
    """Draw a number between 0 and 1 for each pair of units, the same from both sides and on every machine."""
    low, high = np.minimum(first, second).astype(np.uint64), np.maximum(first, second).astype(np.uint64)
    drawn = hashing.mixed_many(hashing.mixed_many(low, seed) ^ high, seed)
    return np.asarray(drawn >> np.uint64(11), dtype=np.float64) / 2.0**53


def exchanged_cells(
    table: ContingencyTable, cell: NDArray[np.int64], other: NDArray[np.int64], moved: NDArray[np.uint64]
) -> NDArray[np.int32]:
    """Return the key codes of ``cell`` with the values of ``other`` on the keys of ``moved``, row by row."""
    exchanged = table.cells[cell].copy()
    for k in range(table.n_keys):
        moves = moved >> np.uint64(k) & np.uint64(1) == 1
        exchanged[moves, k] = table.cells[other[moves], k]
    return exchanged


ENOUGH_PARTNERS = 2
"""Number of partners that leave nobody linked that is enough for a unit."""

SAFE = 0.02
"""Probability of a link below which a partner counts as safe."""

MORE_CANDIDATES = 4
"""Where few of the first partners are safe, this many times as many are considered."""

EXPOSED_ABOVE = 0.05
"""Probability of a link above which a pair is mended."""

MENDING = 5.0
"""Factor by which links cost more while pairs are mended."""

MOST_MENDED = 500
"""Largest number of pairs that are mended, most exposed first."""

DECOY_STREAM = 13
"""Random stream from which decoys are drawn."""

MOST_ROUNDS = 6
"""Largest number of rounds in which records that lost their partners to others look further."""


@dataclass(frozen=True, eq=False)
class Decided:
    """What a planner decided: the pairs, what they exchange, and the records left over."""

    records: NDArray[np.int64]
    partners: NDArray[np.int64]
    moved: NDArray[np.uint64]
    distance: NDArray[np.float64]
    cost: NDArray[np.float64]
    unswapped: tuple[Unswapped, ...]
    cost_at_least: float
    penalised_cost: float


class Planner:
    """The state of a plan in the making: who waits, who is free, and what was decided."""

    def __init__(self, task: SwapTask, requested: NDArray[np.int64]) -> None:
        self.task, self.requested = task, requested
        self.search = PartnerSearch(task)
        self.units = self.search.units
        self.names = names_of_records(task.record_ids, task.table.n_rows)
        # Records known only by their number within a cell are numbered in the order in which they are drawn.
        self.draws_by_number = task.record_ids is None and task.table.record_cell is None
        self.untouched = Untouched.of(self.search)
        self.reason: dict[int, str] = {}
        self.waiting = requested
        self._pairs: list[tuple[Array, ...]] = []
        self.cost_at_least = 0.0
        self.first_penalty: dict[int, float] = {}

    # -------------------------------------------------------------- before matching

    def set_aside_fixed(self) -> None:
        """Set aside the records that no exchange can reach, with the reason, and let the rest wait."""
        table, units = self.search.table, self.units
        self._leave(units.unit_of(self.waiting) < 0, DROPPED)
        self._leave(self.untouched.holds(units, self.waiting), UNTOUCHED)
        by_model = swappability(table, self.search.model).is_swappable
        self._leave(~by_model[table.cell_of(self.waiting)], FIXED_BY_MODEL)
        if any(name in table.vertex_names for names in self.task.keep for name in names) and not self.search.interactions.columns:
            by_keep = swappability(table, self.search.model, keep=self.task.keep).is_swappable
            self._leave(~by_keep[table.cell_of(self.waiting)], FIXED_BY_KEEP)
        # From here on nothing depends on the order of the file: units are sorted, and so are records within a unit, as drawn.
        self.waiting = self.in_order = self._drawn(self.waiting)
        waiting_unit = units.unit_of(self.waiting)
        self.not_spare = np.union1d(self.waiting, self.untouched.rows)
        taken = units.unit_of(self.not_spare)
        self.n_taken = np.bincount(taken[taken >= 0], minlength=units.n_units)
        self.capacity = np.where(self.untouched.of_unit, 0, units.counts - self.n_taken)
        # No swap may enter a cell that is to be vacated, unless the task says so. Cells of records that cannot leave may be entered.
        self.search.is_closed[units.cell[waiting_unit]] = not self.task.enters_vacated

    def _leave(self, is_left: NDArray[np.bool_], reason: str) -> None:
        for record in self.waiting[is_left].tolist():
            self.reason[record] = reason
        self.waiting = self.waiting[~is_left]

    def _drawn(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sort records by unit, and within it in the order in which they are drawn."""
        turn = rows if self.draws_by_number else drawing_order(self.task.seed, self.names(rows))
        return np.asarray(rows[np.lexsort((turn, self.units.unit_of(rows)))], dtype=np.int64)

    # -------------------------------------------------------------- rounds

    def match_all(self, progress: Progress) -> None:
        """Serve as many waiting records as possible."""
        n_candidates, budget = self.task.max_candidates, EXHAUSTIVE_BUDGET
        for turn in range(MOST_ROUNDS):
            if not len(self.waiting):
                return
            budget = self._match_once(turn, n_candidates, budget, progress)
            checkpoint(progress, "matching swap partners")
        self._leave(np.ones(len(self.waiting), dtype=bool), TAKEN)

    def _match_once(self, turn: int, n_candidates: int, budget: int, progress: Progress) -> int:
        search = self.search
        waiting_unit = self.units.unit_of(self.waiting)
        units = np.unique(waiting_unit)
        search.is_risky[:] = False
        search.is_risky[units] = True
        is_free = search.is_risky | (self.capacity > 0)
        lists = search.nearest(units, is_free, n_candidates=n_candidates << min(turn, 2), effort=1 << turn, progress=progress)
        budget = self._look_everywhere(units, is_free, lists, budget, turn)
        candidates = self._with_further(units, is_free, priced(search, units, lists), progress)
        self._take(candidates, is_first=turn == 0)
        return budget

    def _take(self, candidates: Candidates, *, is_first: bool = False) -> None:
        """Match the waiting records and note their pairs."""
        waiting_unit = self.units.unit_of(self.waiting)
        risk = self.task.cell_risk[self.units.cell[waiting_unit]]
        penalty = (2.0 * candidates.cost.max(initial=0.0) + 1.0) * (1.0 + risk / max(1e-12, risk.max(initial=0.0)))
        matching = match(candidates, waiting_unit, self.capacity, penalty)
        if is_first:
            self.cost_at_least = matching.at_least
            self.first_penalty = dict(zip(self.waiting.tolist(), penalty.tolist(), strict=True))
        record, weighed, edge = self.waiting[matching.waiting], matching.candidates, matching.edge
        partner = np.where(matching.mate >= 0, self.waiting[matching.mate], -1)
        self._pairs.append((record, partner, matching.unit, weighed.moved[edge], weighed.distance[edge], weighed.cost[edge]))
        np.subtract.at(self.capacity, matching.unit[partner < 0], 1)
        served = np.zeros(len(self.waiting), dtype=bool)
        served[matching.waiting] = True
        served[matching.mate[matching.mate >= 0]] = True
        self.waiting = self.waiting[~served]

    def mend_exposed(self, progress: Progress) -> None:
        """Consider many more partners for pairs that leave somebody linked; without a better one they stay as they are."""
        if not self._pairs or not self.task.link_weight > 0.0:
            return
        record, partner, unit, moved, distance, cost = (np.concatenate(parts) for parts in zip(*self._pairs, strict=True))
        left = cost - distance
        exposed = np.flatnonzero(left > EXPOSED_ABOVE * self.task.link_weight + JITTER)
        exposed = exposed[np.argsort(-left[exposed], kind="stable")[:MOST_MENDED]]
        if not len(exposed):
            return
        strict = self.search.stricter(MENDING)
        as_now = Candidates(self.units.unit_of(record), unit, moved, distance, distance + MENDING * left).part(exposed)
        is_kept = np.ones(len(record), dtype=bool)
        is_kept[exposed] = False
        self._pairs = [tuple(values[is_kept] for values in (record, partner, unit, moved, distance, cost))]
        has_spare = partner[exposed] < 0
        np.add.at(self.capacity, unit[exposed][has_spare], 1)
        self.waiting = self._drawn(np.concatenate([record[exposed], partner[exposed][~has_spare]]))
        units = np.unique(self.units.unit_of(self.waiting))
        self.search.is_risky[:] = False
        self.search.is_risky[units] = True
        is_free = self.search.is_risky | (self.capacity > 0)
        n_candidates = 2 * MORE_CANDIDATES * self.task.max_candidates
        lists = strict.further(units, is_free, n_candidates=n_candidates, effort=2, n_probes=-N_PROBES, progress=progress)
        self._take(Candidates.joined([as_now, priced(strict, units, lists)]))
        *mended, distance, cost = self._pairs[-1]
        self._pairs[-1] = (*mended, distance, distance + (cost - distance) / MENDING)
        self._leave(np.ones(len(self.waiting), dtype=bool), TAKEN)

    def add_decoys(self, progress: Progress) -> None:
        """Swap further records, drawn at random from the rest, so that having moved is no sign of risk."""
        n_left = int(self.capacity.sum())
        n_decoys = min(round(self.task.decoys * len(self.requested)), n_left)
        if not n_decoys:
            return
        rng = np.random.default_rng([self.task.seed, DECOY_STREAM])
        drawn = np.sort(rng.choice(n_left, n_decoys, replace=False))
        units = np.searchsorted(np.cumsum(self.capacity), drawn, side="right")
        rows = self._spare_records(units)
        self.not_spare = np.union1d(self.not_spare, rows)
        n_in_unit = np.bincount(units, minlength=self.units.n_units)
        self.n_taken, self.capacity = self.n_taken + n_in_unit, self.capacity - n_in_unit
        self.waiting = self._drawn(rows)
        self.in_order = np.concatenate([self.in_order, self.waiting])
        self._match_once(1, self.task.max_candidates, 0, progress)

    def _with_further(
        self, units: NDArray[np.int64], is_free: NDArray[np.bool_], candidates: Candidates, progress: Progress
    ) -> Candidates:
        """Add partners at several distances for units with few partners that leave nobody linked."""
        is_safe = candidates.cost - candidates.distance < SAFE * self.task.link_weight + JITTER
        n_safe = np.bincount(np.searchsorted(units, candidates.risky[is_safe]), minlength=len(units))
        exposed = units[n_safe < min(ENOUGH_PARTNERS, self.task.max_candidates)]
        if not len(exposed) or not self.task.link_weight > 0.0:
            return candidates
        lists = self.search.further(exposed, is_free, n_candidates=MORE_CANDIDATES * self.task.max_candidates, progress=progress)
        return Candidates.joined([candidates, priced(self.search, exposed, lists)])

    def _look_everywhere(self, units: NDArray[np.int64], is_free: NDArray[np.bool_], lists: Lists, budget: int, turn: int) -> int:
        """Read all groups of units that found nobody nearby; those that still have nobody are set aside, with the reason."""
        search = self.search
        empty = np.flatnonzero(lists.unit[:, 0] < 0)
        if not len(empty):
            return budget
        needed = np.cumsum(search.exhaustive_pairs(units[empty]))
        looked = empty[needed <= budget]
        if len(looked):
            more = search.exhaustive(units[looked], is_free, n_candidates=lists.cost.shape[1])
            for name in lists._fields:
                getattr(lists, name)[looked] = getattr(more, name)
            budget -= int(needed[len(looked) - 1])
        nobody = units[looked[lists.unit[looked, 0] < 0]]
        reasons = self._reasons_for_nobody(nobody) if turn == 0 else dict.fromkeys(nobody.tolist(), TAKEN)
        if len(looked) < len(empty):
            reasons.update(dict.fromkeys(units[empty[len(looked) :]].tolist(), NOT_FOUND))
        for reason in (FIXED_BY_KEEP, CONSTRAINED, TAKEN, NOT_FOUND):
            of_reason = np.array([unit for unit, why in reasons.items() if why == reason], dtype=np.int64)
            self._leave(np.isin(self.units.unit_of(self.waiting), of_reason), reason)
        return budget

    def _reasons_for_nobody(self, units: NDArray[np.int64]) -> dict[int, str]:
        if not self.task.keep:
            return dict.fromkeys(units.tolist(), CONSTRAINED)
        partner, _ = self.search.first_partners(units, unconstrained=True)
        named = np.where(partner < 0, FIXED_BY_KEEP, CONSTRAINED)
        return dict(zip(units.tolist(), named.tolist(), strict=True))

    # -------------------------------------------------------------- after matching

    def decided(self) -> Decided:
        """Return the pairs, in the order of their units, and the records left over."""
        if self._pairs:
            swapped, partner, unit, moved, distance, cost = (np.concatenate(parts) for parts in zip(*self._pairs, strict=True))
        else:
            swapped = partner = unit = np.zeros(0, dtype=np.int64)
            moved, distance, cost = np.zeros(0, dtype=np.uint64), np.zeros(0), np.zeros(0)
        partner[partner < 0] = self._spare_records(unit[partner < 0])
        # The waiting records were sorted once, so their places in that order give the order of the pairs.
        by_number = np.argsort(self.in_order)
        place = by_number[np.searchsorted(self.in_order, swapped, sorter=by_number)]
        order = np.argsort(place, kind="stable")
        left = tuple(Unswapped(record, self.reason[record]) for record in self.requested.tolist() if record in self.reason)
        unserved = sum(self.first_penalty.get(each.record, 0.0) for each in left)
        return Decided(
            swapped[order],
            partner[order],
            moved[order],
            distance[order],
            cost[order],
            left,
            # Mended pairs had more candidates to choose from than the bound takes into account.
            min(self.cost_at_least, float(cost.sum() + unserved)),
            float(cost.sum() + unserved),
        )

    def _spare_records(self, of_unit: NDArray[np.int64]) -> NDArray[np.int64]:
        """A different spare record for each wanted unit, in the order in which they are drawn."""
        units, n_needed = np.unique(of_unit, return_counts=True)
        spare = self.units.rows_in(units, n_needed + self.n_taken[units])
        spare = self._drawn(spare[~np.isin(spare, self.not_spare)])
        start = np.searchsorted(self.units.unit_of(spare), of_unit)
        order = np.argsort(of_unit, kind="stable")
        turn = np.empty(len(of_unit), dtype=np.int64)
        turn[order] = np.arange(len(of_unit)) - np.searchsorted(of_unit[order], of_unit[order])
        return np.asarray(spare[start + turn])


# ---------------------------------------------------------------------- reading arguments


def row_numbers(records: ArrayLike, n_records: int) -> NDArray[np.int64]:
    given = np.asarray(records)
    if given.dtype == bool:
        if given.shape != (n_records,):
            raise BadInput(f"The mask of records to protect has {given.size:,} entries; the file has {n_records:,} records.")
        return np.flatnonzero(given)
    numbers = np.unique(given.astype(np.int64))
    if len(numbers) and not (numbers[0] >= 0 and numbers[-1] < n_records):
        wrong = numbers[0] if numbers[0] < 0 else numbers[-1]
        raise BadInput(f"There is no record {wrong + 1:,}; counted from 1, there are records 1 to {n_records:,}.")
    return numbers


@dataclass(frozen=True, eq=False)
class Untouched:
    """Records that no swap may touch: all records of some units, and some by row number."""

    of_unit: NDArray[np.bool_]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, search: PartnerSearch) -> Untouched:
        units, constraints = search.units, search.constraints
        of_unit = np.zeros(units.n_units, dtype=bool)
        for condition in constraints.untouched:
            of_unit |= units.where(condition)
        return cls(of_unit, row_numbers(constraints.untouched_records, search.table.n_rows))

    def holds(self, units: Units, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of these records must not be touched."""
        return np.append(self.of_unit, False)[units.unit_of(rows)] | np.isin(rows, self.rows)
