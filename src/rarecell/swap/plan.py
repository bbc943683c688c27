"""Who exchanges what with whom?

A plan is a list of disjoint pairs of records with the keys that each pair exchanges. Swaps of disjoint pairs never
conflict: whatever is matched, every kept margin stays. The plan serves as many of the chosen records as it can, then costs as
little as it can, where the cost of a swap is the distance over which values move plus the risk that is left in the
cells it enters. No swap enters a cell that another one is to vacate. The same seed gives the same plan on every engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell.errors import BadInput
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.swap.distance import Distances
from rarecell.swap.interactions import FittedModel, Interactions
from rarecell.swap.matching import match
from rarecell.swap.partners import EXHAUSTIVE_BUDGET, PartnerSearch, exchanged_cells
from rarecell.swap.rules import SwapConstraints, matching_levels
from rarecell.swap.swappable import swappability
from rarecell.swap.units import ColumnValues, Units, records_of
from rarecell.table import ContingencyTable

if TYPE_CHECKING:
    from rarecell.risk.records import RecordRisk
    from rarecell.swap.apply import SwapResult

MOST_ROUNDS = 6
"""Records whose partners went to others look further, so many times."""

DROPPED = "a key is missing, so the record is in no cell"
UNTOUCHED = "the constraints say that it is never touched"
FIXED_BY_MODEL = "the margins of the model determine it: no exchange of any records can change it"
FIXED_BY_KEEP = "the further margins to keep determine it"
CONSTRAINED = "no partner is allowed by the constraints and leaves vacated cells empty"
NOT_FOUND = "no partner was found among the nearest records"
TAKEN = "its possible partners take part in other swaps"


@dataclass(frozen=True)
class Unswapped:
    """A chosen record that the plan leaves as it is, and why."""

    record: int
    reason: str


@dataclass(frozen=True, eq=False)
class SwapPlan:
    """Disjoint pairs of records and what each pair exchanges.

    Attributes
    ----------
    table, model : what is swapped, and the model whose margins stay
    interactions, units : the kept margins, and the columns outside the keys that they name
    requested : the records to be protected, by row number
    records, partners : the pairs, by row number; ``records`` were requested
    moved : the vertices exchanged by each pair, as bit masks
    distance, cost : of each pair
    risk_before : risk of ``records`` before the swap; 0 when none was given
    unswapped : requested records without a swap, with the reason
    cost_at_least : no plan over the candidate lists of the first round costs less than this, unserved records included
    seed : what the choice among equal records came from
    """

    table: ContingencyTable
    model: FittedModel
    interactions: Interactions
    units: Units
    requested: NDArray[np.int64]
    records: NDArray[np.int64]
    partners: NDArray[np.int64]
    moved: NDArray[np.uint64]
    distance: NDArray[np.float64]
    cost: NDArray[np.float64]
    risk_before: NDArray[np.float64]
    unswapped: tuple[Unswapped, ...]
    cost_at_least: float = 0.0
    penalised_cost: float = 0.0
    seed: int = 0
    keep: tuple[tuple[str, ...], ...] = field(default=())

    def __len__(self) -> int:
        return len(self.records)

    # ------------------------------------------------------------------ what changes

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Every row that changes: records, then partners."""
        return np.concatenate([self.records, self.partners])

    @cached_property
    def sources(self) -> NDArray[np.int64]:
        """For each of ``rows`` the row that its new values come from."""
        return np.concatenate([self.partners, self.records])

    @property
    def n_protected(self) -> int:
        """Requested records that take part in a swap."""
        return int(np.isin(self.requested, self.rows).sum())

    @cached_property
    def n_values_changed(self) -> int:
        """Key values that differ between input and output."""
        return 2 * sum(int(m & self.interactions.keys).bit_count() for m in self.moved.tolist())

    def variables(self, pair: int) -> tuple[str, ...]:
        """The keys that a pair exchanges."""
        return tuple(key for k, key in enumerate(self.table.keys) if int(self.moved[pair]) >> k & 1)

    def moves(self, key: str) -> NDArray[np.bool_]:
        """Which of ``rows`` get a new value of ``key``."""
        shift = np.uint64(self.table.keys.index(key))
        return np.tile(self.moved >> shift & np.uint64(1) == 1, 2)

    @cached_property
    def new_cells(self) -> NDArray[np.int32]:
        """Key codes of ``rows`` after the swap."""
        cell = records_of(self.table)
        return exchanged_cells(self.table, cell[self.rows], cell[self.sources], np.tile(self.moved, 2))

    @cached_property
    def table_after(self) -> ContingencyTable:
        """The contingency table of the swapped file, collapsed anew from its records."""
        cell = records_of(self.table)
        codes = self.table.cells[np.maximum(cell, 0)]
        codes[cell < 0] = -1
        codes[self.rows] = self.new_cells
        after = ContingencyTable.from_codes(codes, self.table.categories)
        return replace(after, coarsenings=self.table.coarsenings)

    @property
    def reasons(self) -> dict[str, int]:
        """How many requested records were left for each reason."""
        return dict(Counter(left.reason for left in self.unswapped).most_common())

    def subset(self, pairs: NDArray[Any]) -> SwapPlan:
        """The plan with only these pairs (positions or a mask); any part of a plan keeps the margins, too.

        Records of the pairs left out are requested no more.
        """
        names = ("records", "partners", "moved", "distance", "cost", "risk_before")
        chosen = {name: getattr(self, name)[pairs] for name in names}
        left = [each.record for each in self.unswapped]
        still = np.isin(self.requested, np.concatenate([chosen["records"], chosen["partners"], np.array(left, dtype=np.int64)]))
        return replace(self, requested=self.requested[still], **chosen)

    # ------------------------------------------------------------------ results

    def apply(self, data: Any) -> SwapResult:
        """Exchange the values in ``data`` (a ``Microdata``); see :func:`rarecell.swap.apply.apply_plan`."""
        from rarecell.swap.apply import apply_plan

        return apply_plan(self, data)

    def audit(self) -> dict[str, list[Any]]:
        """One row a pair: record, partner, the keys exchanged, distance, risk before."""
        return {
            "record": self.records.tolist(),
            "partner": self.partners.tolist(),
            "variables": [",".join(self.variables(pair)) for pair in range(len(self))],
            "distance": self.distance.tolist(),
            "risk_before": self.risk_before.tolist(),
        }

    def to_frame(self, like: Any = None) -> Any:
        """:meth:`audit` in the dataframe library of ``like``; anything else, or nothing, gives a pyarrow table."""
        import narwhals.stable.v2 as nw

        types = (nw.Int64(), nw.Int64(), nw.String(), nw.Float64(), nw.Float64())
        rows = self.audit()
        frame = nw.from_native(like, pass_through=True)
        backend = frame.implementation if isinstance(frame, nw.DataFrame) else nw.Implementation.PYARROW
        return nw.from_dict(rows, dict(zip(rows, types, strict=True)), backend=backend).to_native()

    def __str__(self) -> str:
        mean = float(self.distance.mean()) if len(self) else 0.0
        text = (
            f"{self.n_protected:,} of {len(self.requested):,} records are protected by {len(self):,} swaps that change "
            f"{self.n_values_changed:,} values over a mean distance of {mean:.3f}."
        )
        if self.unswapped:
            listed = "; ".join(f"{n:,} because {reason}" for reason, n in self.reasons.items())
            text += f" Not swapped: {listed}."
        return text


def plan_swaps(
    table: ContingencyTable,
    model: FittedModel,
    *,
    records: ArrayLike,
    risk: RecordRisk | ArrayLike | None = None,
    population: float | None = None,
    keep: Sequence[Sequence[str]] = (),
    columns: Mapping[str, ColumnValues] | None = None,
    constraints: SwapConstraints | None = None,
    distances: Distances | None = None,
    residual_weight: float = 1.0,
    max_candidates: int = 16,
    record_ids: ArrayLike | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> SwapPlan:
    """Choose swaps that protect the given records and change no margin of the model.

    Parameters
    ----------
    table : the contingency table; without known records they are numbered in the order of its cells
    model : its margins are kept
    records : row numbers to protect, such as ``risk.riskiest(50)``, or a mask with an entry for each record
    risk : a ``RecordRisk``, or the risk of each cell of the table: for the audit, and to serve the riskiest first
    population : population size for the residual risk, unless ``risk`` knows it; twice the sample when neither does
    keep : further margins that must not change, as sets of names; a name that is no key is a column that stays with its row
    columns : for each column outside the keys that ``keep`` or ``constraints`` name, a value for each record
    constraints : what no swap may do
    distances : how far levels are apart; ordinal for ordered keys and nominal for others unless given
    residual_weight : how much a cell left alone counts beside the distance; 1 makes a certain unique count as much as the
        change of one nominal value
    max_candidates : partners weighed for each record
    record_ids : identities of the records for the choice among equal ones; row numbers unless given
    seed : of that choice
    progress : is told how far the work is

    Returns
    -------
    SwapPlan
    """
    cell_risk, n_unseen = _risk_of(table, risk, population)
    search = PartnerSearch(
        table,
        model,
        keep=keep,
        columns=columns,
        constraints=constraints,
        distances=distances,
        n_unseen=n_unseen,
        residual_weight=residual_weight,
    )
    requested = _row_numbers(records, len(search.units.record_unit))
    planner = _Planner(search, requested, cell_risk, seed, record_ids, keep)
    planner.set_aside_fixed()
    planner.match_all(max_candidates, progress)
    return planner.plan()


class _Planner:
    """The state of a plan in the making: who waits, who is free, what was decided."""

    def __init__(
        self,
        search: PartnerSearch,
        requested: NDArray[np.int64],
        cell_risk: NDArray[np.float64],
        seed: int,
        record_ids: ArrayLike | None,
        keep: Sequence[Sequence[str]],
    ) -> None:
        self.search, self.requested, self.cell_risk, self.seed = search, requested, cell_risk, seed
        self.keep = tuple(tuple(names) for names in keep)
        self.record_unit = search.units.record_unit
        self.ids = _numbers_of(record_ids, len(self.record_unit))
        self.reason: dict[int, str] = {}
        self.is_untouched = _untouched_records(search)
        self.waiting = requested
        self._pairs: list[tuple[NDArray[Any], ...]] = []
        self.cost_at_least = 0.0
        self.first_penalty: dict[int, float] = {}

    # -------------------------------------------------------------- before matching

    def set_aside_fixed(self) -> None:
        """Give the reason for records that no exchange can reach, and open the rest."""
        self._leave(self.record_unit[self.waiting] < 0, DROPPED)
        self._leave(self.is_untouched[self.waiting], UNTOUCHED)
        by_model = swappability(self.search.table, self.search.model).record_is_swappable
        self._leave(~by_model[self.waiting], FIXED_BY_MODEL)
        if (
            any(name in self.search.table.vertex_names for names in self.keep for name in names)
            and not self.search.interactions.columns
        ):
            by_keep = swappability(self.search.table, self.search.model, keep=self.keep).record_is_swappable
            self._leave(~by_keep[self.waiting], FIXED_BY_KEEP)
        # From here on nothing depends on the order of the file: units are sorted, and records within one by their hash.
        self.waiting = self.waiting[np.lexsort((self._hash(self.waiting), self.record_unit[self.waiting]))]
        may_partner = (self.record_unit >= 0) & ~self.is_untouched
        may_partner[self.waiting] = False
        self.is_spare = may_partner
        self.capacity = np.bincount(self.record_unit[may_partner], minlength=self.search.units.n_units)
        # No swap may enter a cell that is to be vacated. A record that cannot leave is welcome to company.
        self.search.is_closed[self.search.units.cell[self.record_unit[self.waiting]]] = True

    def _leave(self, is_left: NDArray[np.bool_], reason: str) -> None:
        for record in self.waiting[is_left].tolist():
            self.reason[record] = reason
        self.waiting = self.waiting[~is_left]

    def _hash(self, records: NDArray[np.int64]) -> NDArray[np.uint64]:
        from rarecell._kernels.swapping import mixed_many

        return np.asarray(mixed_many(self.ids[records], self.seed))

    # -------------------------------------------------------------- rounds

    def match_all(self, n_candidates: int, progress: Progress) -> None:
        budget = EXHAUSTIVE_BUDGET
        for turn in range(MOST_ROUNDS):
            if not len(self.waiting):
                return
            budget = self._match_once(turn, n_candidates, budget, progress)
            checkpoint(progress, "matching swap partners")
        self._leave(np.ones(len(self.waiting), dtype=bool), TAKEN)

    def _match_once(self, turn: int, n_candidates: int, budget: int, progress: Progress) -> int:
        search = self.search
        waiting_unit = self.record_unit[self.waiting]
        units = np.unique(waiting_unit)
        search.is_risky[:] = False
        search.is_risky[units] = True
        is_free = search.is_risky | (self.capacity > 0)
        lists = search.nearest(units, is_free, n_candidates=n_candidates << min(turn, 2), effort=1 << turn, progress=progress)
        budget = self._look_everywhere(units, is_free, lists, budget, turn)
        candidates = search.priced(units, lists)

        waiting_unit = self.record_unit[self.waiting]
        risk = self.cell_risk[search.units.cell[waiting_unit]]
        penalty = (2.0 * candidates.cost.max(initial=0.0) + 1.0) * (1.0 + risk / max(1e-12, risk.max(initial=0.0)))
        found = match(candidates, waiting_unit, self.capacity, penalty)
        if turn == 0:
            self.cost_at_least = found.at_least
            self.first_penalty = dict(zip(self.waiting.tolist(), penalty.tolist(), strict=True))
        one, weighed, edge = self.waiting[found.one], found.candidates, found.edge
        other = np.where(found.other >= 0, self.waiting[found.other], -1)
        self._pairs.append((one, other, found.unit, weighed.moved[edge], weighed.distance[edge], weighed.cost[edge]))
        np.subtract.at(self.capacity, found.unit[other < 0], 1)
        served = np.zeros(len(self.waiting), dtype=bool)
        served[found.one] = True
        served[found.other[found.other >= 0]] = True
        self.waiting = self.waiting[~served]
        return budget

    def _look_everywhere(self, units: NDArray[np.int64], is_free: NDArray[np.bool_], lists: Any, budget: int, turn: int) -> int:
        """Read all groups of units that found nobody nearby; who still has nobody is done, with the reason."""
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
            self._leave(np.isin(self.record_unit[self.waiting], of_reason), reason)
        return budget

    def _reasons_for_nobody(self, units: NDArray[np.int64]) -> dict[int, str]:
        if not self.keep:
            return dict.fromkeys(units.tolist(), CONSTRAINED)
        partner, _ = self.search.first_partners(units, unconstrained=True)
        named = np.where(partner < 0, FIXED_BY_KEEP, CONSTRAINED)
        return dict(zip(units.tolist(), named.tolist(), strict=True))

    # -------------------------------------------------------------- after matching

    def plan(self) -> SwapPlan:
        search = self.search
        if self._pairs:
            one, other, unit, moved, distance, cost = (np.concatenate(parts) for parts in zip(*self._pairs, strict=True))
        else:
            one = other = unit = np.zeros(0, dtype=np.int64)
            moved, distance, cost = np.zeros(0, dtype=np.uint64), np.zeros(0), np.zeros(0)
        other[other < 0] = self._spare_records(unit[other < 0])
        order = np.argsort(one, kind="stable")
        left = tuple(Unswapped(record, self.reason[record]) for record in self.requested.tolist() if record in self.reason)
        unserved = sum(self.first_penalty.get(each.record, 0.0) for each in left)
        return SwapPlan(
            table=search.table,
            model=search.model,
            interactions=search.interactions,
            units=search.units,
            requested=self.requested,
            records=one[order],
            partners=other[order],
            moved=moved[order],
            distance=distance[order],
            cost=cost[order],
            risk_before=self.cell_risk[search.units.cell[self.record_unit[one[order]]]],
            unswapped=left,
            cost_at_least=self.cost_at_least,
            penalised_cost=float(cost.sum() + unserved),
            seed=self.seed,
            keep=self.keep,
        )

    def _spare_records(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """A different spare record of each wanted unit, by the hash of its identity: the same on every engine."""
        is_wanted = np.zeros(self.search.units.n_units, dtype=bool)
        is_wanted[wanted] = True
        spare = np.flatnonzero(self.is_spare)
        spare = spare[is_wanted[self.record_unit[spare]]]
        spare = spare[np.lexsort((self._hash(spare), self.record_unit[spare]))]
        start = np.searchsorted(self.record_unit[spare], wanted)
        order = np.argsort(wanted, kind="stable")
        turn = np.empty(len(wanted), dtype=np.int64)
        turn[order] = np.arange(len(wanted)) - np.searchsorted(wanted[order], wanted[order])
        return np.asarray(spare[start + turn])


# ---------------------------------------------------------------------- reading arguments


def _row_numbers(records: ArrayLike, n_records: int) -> NDArray[np.int64]:
    given = np.asarray(records)
    if given.dtype == bool:
        if given.shape != (n_records,):
            raise BadInput(f"The mask of records to protect has {given.size:,} entries; the file has {n_records:,} records.")
        return np.flatnonzero(given)
    numbers = np.unique(given.astype(np.int64))
    if len(numbers) and not (numbers[0] >= 0 and numbers[-1] < n_records):
        wrong = numbers[0] if numbers[0] < 0 else numbers[-1]
        raise BadInput(f"There is no record {wrong}; records are numbered from 0 to {n_records - 1}.")
    return numbers


def _risk_of(
    table: ContingencyTable, risk: RecordRisk | ArrayLike | None, population: float | None
) -> tuple[NDArray[np.float64], float]:
    """Risk of each cell, and the number of population units outside the sample."""
    n_unseen = float(table.n_records if population is None else population - table.n_records)
    if risk is None:
        return np.zeros(table.n_cells), n_unseen
    of_cells = getattr(risk, "unique_probability", risk)
    if population is None and hasattr(risk, "population"):
        n_unseen = float(risk.population - table.n_records)
    array = np.asarray(of_cells, dtype=np.float64)
    if array.shape != (table.n_cells,):
        raise BadInput(f"The risk was given for {array.size:,} cells; the table has {table.n_cells:,} occupied ones.")
    return array, n_unseen


def _numbers_of(record_ids: ArrayLike | None, n_records: int) -> NDArray[np.uint64]:
    """Identities as 64-bit numbers: whole numbers as they are, anything else by a hash of its text."""
    if record_ids is None:
        return np.arange(n_records, dtype=np.uint64)
    given = np.asarray(record_ids)
    if given.shape != (n_records,):
        raise BadInput(f"{given.size:,} identities were given for {n_records:,} records; each record needs one.")
    if given.dtype.kind in "iu":
        return given.astype(np.uint64)
    from hashlib import blake2b

    digests = b"".join(blake2b(str(value).encode(), digest_size=8).digest() for value in given.tolist())
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def _untouched_records(search: PartnerSearch) -> NDArray[np.bool_]:
    units, constraints = search.units, search.constraints
    of_unit = np.zeros(units.n_units, dtype=bool)
    for condition in constraints.untouched:
        holds = np.ones(units.n_units, dtype=bool)
        for name, wanted in condition.items():
            holds &= matching_levels(name, units.values_of(name), wanted)[units.codes[:, units.position(name)]]
        of_unit |= holds
    found = np.append(of_unit, False)[units.record_unit]
    found[_row_numbers(constraints.untouched_records, len(found))] = True
    return found
