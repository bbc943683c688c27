"""Who exchanges what with whom?

A plan is a list of disjoint pairs of records with the keys that each pair exchanges. Swaps of disjoint pairs never conflict:
whichever records are matched, every kept margin stays. The plan serves as many of the chosen records as it can, at the lowest
cost it can find. The cost of a swap is the distance over which values move plus the risk that one of the two records is still
linked to its person. No swap enters a cell that another one is to vacate. The same seed gives the same plan on every engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell.data.names import joined_names
from rarecell.engine.streaming import NamesOfRecords
from rarecell.graph.masks import holds
from rarecell.intruder.nearest import MovedLinks, moved_links
from rarecell.intruder.register import Register
from rarecell.model.protocol import CellModel
from rarecell.outcome.plain import Shown, in_library_of
from rarecell.progress import SILENT, Progress
from rarecell.release.release import Release
from rarecell.swap.apply import Exchange, apply_plan
from rarecell.swap.choosing import Planner, exchanged_cells, row_numbers
from rarecell.swap.interactions import Interactions
from rarecell.swap.partners import PartnerSearch
from rarecell.swap.reasons import Unswapped
from rarecell.swap.rings import WORTH, ringed
from rarecell.swap.rules import SwapConstraints
from rarecell.swap.task import LINK_WEIGHT, SwapTask
from rarecell.swap.units import Units
from rarecell.table.columns import ColumnValues
from rarecell.table.contingency import ContingencyTable
from rarecell.table.distance import Distances

if TYPE_CHECKING:
    from rarecell.edges import Array, Frame, Level, Places
    from rarecell.risk.records import RecordRisk
    from rarecell.swap.apply import SwapResult


@dataclass(frozen=True, eq=False)
class SwapPlan(Exchange, Shown):
    """Disjoint pairs of records and what each pair exchanges.

    Attributes
    ----------
    task : SwapTask
        The file, the model whose margins stay, and all settings.
    interactions : Interactions
        The kept margins.
    units : Units
        Cells divided by the columns outside the keys that matter.
    requested : array of int
        Row numbers of the records to be protected.
    records, partners : array of int
        Row numbers of the pairs; ``records`` were requested or are decoys.
    moved : array of int
        The vertices exchanged by each pair, as bit masks.
    distance, cost : array of float
        Distance and cost of each pair.
    unswapped : tuple of Unswapped
        Requested records without a swap, with the reason.
    cost_at_least : float
        Lower bound on the cost of any plan from the candidate lists of the first round, including penalties for unserved records.
    penalised_cost : float
        Cost of this plan in the same sense.
    givers : array of int or None
        For each of ``rows``, the row whose values it receives if that is not always the other of the pair: pairs that exchange the
        same keys are merged into rings.
    """

    task: SwapTask
    interactions: Interactions
    units: Units
    requested: NDArray[np.int64]
    records: NDArray[np.int64]
    partners: NDArray[np.int64]
    moved: NDArray[np.uint64]
    distance: NDArray[np.float64]
    cost: NDArray[np.float64]
    unswapped: tuple[Unswapped, ...]
    cost_at_least: float = 0.0
    penalised_cost: float = 0.0
    givers: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.records)

    @property
    def table(self) -> ContingencyTable:
        return self.task.table

    @property
    def model(self) -> CellModel:
        return self.task.model

    @property
    def seed(self) -> int:
        """Seed of every random choice."""
        return self.task.seed

    @property
    def risk_before(self) -> NDArray[np.float64]:
        """Risk of ``records`` before the swap; 0 if no risk was given."""
        return np.asarray(self.task.cell_risk[self.table.cell_of(self.records)])

    # ------------------------------------------------------------------ what changes

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Every row that changes: records, then partners."""
        return np.concatenate([self.records, self.partners])

    @cached_property
    def sources(self) -> NDArray[np.int64]:
        """For each of ``rows``, the row that its new values come from."""
        return np.concatenate([self.partners, self.records]) if self.givers is None else self.givers

    @cached_property
    def ring(self) -> NDArray[np.int64]:
        """For each pair, a number that it shares with the pairs of its ring."""
        ring = np.arange(len(self))
        if self.givers is None:
            return ring
        pair_of = self._position(self.sources) % max(len(self), 1)
        own = np.tile(np.arange(len(self)), 2)
        while True:
            lowest = ring.copy()
            np.minimum.at(lowest, own, ring[pair_of])
            np.minimum.at(lowest, pair_of, ring[own])
            if np.array_equal(lowest, ring):
                return ring
            ring = lowest

    def _position(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The place of row numbers in ``rows``."""
        order = np.argsort(self.rows)
        return np.asarray(order[np.searchsorted(self.rows, rows, sorter=order)])

    def whole(self, pairs: Array) -> NDArray[np.int64]:
        """Return the positions of these pairs and of all pairs in a ring with them, in increasing order."""
        return np.flatnonzero(np.isin(self.ring, self.ring[pairs]))

    @cached_property
    def release(self) -> Release:
        """What the swaps do to the records."""
        of_rows, of_sources = self.table.cell_of(self.rows), self.table.cell_of(self.sources)
        moved, own, giver = np.tile(self.moved, 2), np.arange(len(self.rows)), self._position(self.sources)
        return Release(
            self.table,
            self.rows,
            self.table.cells[of_rows],
            exchanged_cells(self.table, of_rows, of_sources, moved),
            {key: np.where(moved >> np.uint64(k) & np.uint64(1) == 1, giver, own) for k, key in enumerate(self.table.keys)},
            seed=self.task.seed,
        )

    def links(self, register: Register) -> MovedLinks:
        """Try an intruder who links to the nearest person on the rows of the plan; the result holds for any part of it, too."""
        return moved_links(register.seen(self.release), register, distances=self.task.distances)

    def rows_of(self, pairs: Array) -> NDArray[np.int64]:
        """Return the places in ``rows`` of these pairs (positions or a mask) and of the rings they belong to."""
        chosen = self.whole(pairs)
        return np.concatenate([chosen, chosen + len(self)])

    @property
    def n_protected(self) -> int:
        """Number of requested records that a swap protects; one that was swapped for another and stays at risk does not count."""
        left = [each.record for each in self.unswapped]
        return int((np.isin(self.requested, self.rows) & ~np.isin(self.requested, left)).sum())

    @property
    def is_decoy(self) -> NDArray[np.bool_]:
        """Which pairs protect nobody; they are swapped so that having moved is no sign of risk."""
        return np.asarray(~np.isin(self.records, self.requested) & ~np.isin(self.partners, self.requested))

    @property
    def n_decoys(self) -> int:
        """Number of pairs that protect nobody."""
        return int(self.is_decoy.sum())

    def variables(self, pair: int) -> tuple[str, ...]:
        """Return the keys that a pair exchanges."""
        return tuple(key for k, key in enumerate(self.table.keys) if holds(int(self.moved[pair]), k))

    @property
    def reasons(self) -> dict[str, int]:
        """Number of requested records left unswapped, by reason."""
        return dict(Counter(left.reason for left in self.unswapped).most_common())

    def subset(self, pairs: Array) -> SwapPlan:
        """Return the plan with only these pairs (positions or a mask) and the rings they belong to; it keeps the margins, too.

        Records of the pairs left out no longer count as requested.
        """
        names, kept = ("records", "partners", "moved", "distance", "cost"), self.whole(pairs)
        chosen = {name: getattr(self, name)[kept] for name in names}
        if self.givers is not None:
            chosen["givers"] = self.givers[np.concatenate([kept, kept + len(self)])]
        left = [each.record for each in self.unswapped]
        still = np.isin(self.requested, np.concatenate([chosen["records"], chosen["partners"], np.array(left, dtype=np.int64)]))
        return replace(self, requested=self.requested[still], **chosen)

    # ------------------------------------------------------------------ results

    def apply(self, data: Frame) -> SwapResult:
        """Exchange the values in ``data`` (a ``Microdata``); see :func:`rarecell.swap.apply.apply_plan`."""
        return apply_plan(self, data)

    def audit(self, places: Places = None) -> dict[str, list[Level]]:
        """Return one row for each record that receives new values: the record, whose values, of which keys, distance and risk before.

        ``places`` says where ``rows`` are in the data if not at their row numbers; see ``SwapResult.places``.
        """
        names = (self.rows if places is None else places).tolist()
        giver, changed = self._position(self.sources), self.release.true != self.release.released
        keys = self.table.keys
        # In a ring of households a member may receive what they have.
        new = np.flatnonzero(changed.any(axis=1))
        return {
            "record": [names[place] for place in new.tolist()],
            "partner": [names[place] for place in giver[new].tolist()],
            "variables": [
                joined_names(key for key, is_new in zip(keys, row, strict=True) if is_new) for row in changed[new].tolist()
            ],
            "distance": np.tile(self.distance, 2)[new].tolist(),
            "risk_before": self.task.cell_risk[self.table.cell_of(self.rows[new])].tolist(),
        }

    def to_frame(self, like: Frame = None, *, places: Places = None) -> Frame:
        """Return :meth:`audit` in the dataframe library of ``like``; anything else, or nothing, gives a pyarrow table."""
        rows = self.audit(places)
        name = "String" if any(isinstance(record, str) for record in rows["record"]) else "Int64"
        return in_library_of(like, rows, dict(zip(rows, (name, name, "String", "Float64", "Float64"), strict=True)))

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
    model: CellModel,
    *,
    records: ArrayLike,
    risk: RecordRisk | ArrayLike | None = None,
    population: float | None = None,
    keep: Sequence[Sequence[str]] = (),
    columns: Mapping[str, ColumnValues] | None = None,
    constraints: SwapConstraints | None = None,
    distances: Distances | None = None,
    register: Register | None = None,
    link_weight: float = LINK_WEIGHT,
    max_candidates: int = 16,
    decoys: float = 0.0,
    record_ids: ArrayLike | NamesOfRecords | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> SwapPlan:
    """Choose swaps that protect the given records and change no margin of the model.

    Margins are counts of records. Survey weights stay with their row, so weighted margins stay exact only if records of equal
    weight are swapped; the constraint ``within`` can require that.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table; if it does not know its records, they are numbered in the order of its cells.
    model : CellModel
        The model whose margins are kept.
    records : array_like
        Row numbers to protect, such as ``risk.riskiest(50)``, or a mask with an entry for each record.
    risk : RecordRisk or array_like, optional
        A ``RecordRisk``, or the risk of each cell of the table, for the audit and for serving the riskiest first.
    population : float, optional
        Population size for the residual risk, unless ``risk`` knows it; by default twice the sample.
    keep : sequence of sequences of str, optional
        Further margins that must not change, as sets of names; a name that is not a key is a column that stays with its row.
    columns : mapping of str to ColumnValues, optional
        For each column outside the keys that ``keep`` or ``constraints`` name, a value for each record.
    constraints : SwapConstraints, optional
        What no swap may do.
    distances : Distances, optional
        Distances between levels; by default ordinal for ordered keys and nominal for others.
    register : Register, optional
        What an intruder knows about the population; by default what ``model`` says.
    link_weight : float, optional
        Cost of a swapped record that is certainly linked to its person. With 1 it equals the change of one nominal value; with 0
        the nearest partner is taken, whatever risk is left.
    max_candidates : int, optional
        Number of partners considered for each record; more where few of them are safe.
    decoys : float, optional
        Further records to swap, drawn at random, as a share of those to protect, so that having moved is no sign of risk.
    record_ids : array_like or NamesOfRecords, optional
        Name of each record, or a function from row numbers to names, for the choice among equal records; by default row numbers.
    seed : int, optional
        Seed of that choice.
    progress : Progress, optional
        Receiver of progress reports.

    Returns
    -------
    SwapPlan
        The swaps, and the records left unswapped.
    """
    task = SwapTask(
        table,
        model,
        risk=risk,
        population=population,
        register=register,
        keep=keep,
        columns=columns or {},
        constraints=constraints or SwapConstraints(),
        distances=distances or Distances(),
        link_weight=link_weight,
        max_candidates=max_candidates,
        decoys=decoys,
        record_ids=record_ids,
        seed=seed,
    )
    return plan_task(task, records, progress=progress)


def plan_task(task: SwapTask, records: ArrayLike, *, progress: Progress = SILENT) -> SwapPlan:
    """Run :func:`plan_swaps` for a task that is already put together."""
    requested = row_numbers(records, task.table.n_rows)
    planner = Planner(task, requested)
    planner.set_aside_fixed()
    planner.match_all(progress)
    planner.mend_exposed(progress)
    planner.add_decoys(progress)
    decided = planner.decided()
    plan = SwapPlan(
        task=task,
        interactions=planner.search.interactions,
        units=planner.units,
        requested=requested,
        records=decided.records,
        partners=decided.partners,
        moved=decided.moved,
        distance=decided.distance,
        cost=decided.cost,
        unswapped=decided.unswapped,
        cost_at_least=decided.cost_at_least,
        penalised_cost=decided.penalised_cost,
    )
    return with_rings(planner.search, plan) if task.rings else plan


def with_rings(search: PartnerSearch, plan: SwapPlan, *, by_sides: bool = False, worth: float = WORTH) -> SwapPlan:
    """Merge the pairs of a plan into rings where that adds at most ``worth`` to the cost; ``search`` knows which cells are to be vacated."""
    rings = ringed(search, plan.records, plan.partners, plan.moved, plan.distance, plan.cost, by_sides=by_sides, worth=worth)
    penalised = plan.penalised_cost + float(rings.cost.sum() - plan.cost.sum())
    return replace(
        plan,
        moved=rings.moved,
        distance=rings.distance,
        cost=rings.cost,
        givers=np.concatenate([rings.to_record, rings.to_partner]),
        penalised_cost=penalised,
        # Rings have more to choose from than the bound takes into account.
        cost_at_least=min(plan.cost_at_least, penalised),
    )
