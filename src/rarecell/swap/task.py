"""What is to be swapped, under which rules, and against whom?

Everything that a plan depends on is gathered here; the parts of the planner take this one object instead of its fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell.engine.streaming import NamesOfRecords
from rarecell.errors import BadInput, UnknownColumns
from rarecell.intruder.register import CELLS_TO_PLAN, Persons, Register
from rarecell.model.protocol import CellModel
from rarecell.risk import formulas
from rarecell.risk.records import RecordRisk
from rarecell.swap.rules import SwapConstraints
from rarecell.table.columns import ColumnValues
from rarecell.table.contingency import ContingencyTable
from rarecell.table.distance import Distances


@dataclass(frozen=True)
class Spared:
    """A column beside the keys in which partners should be alike, so that its means by level of a key move little.

    ``column`` names its classes among the columns of a task; a difference costs up to ``weight``, in proportion to the number of
    classes between the two if they have an order. The last class, that of missing values, is as far as can be from the others.
    """

    column: str
    n_classes: int
    is_ordered: bool
    weight: float = 1.0

    def cost(self, first: NDArray[np.int32], second: NDArray[np.int32]) -> NDArray[np.float64]:
        """What it costs that two records exchange values of keys while this column stays."""
        if not self.is_ordered or self.n_classes < 3:
            return np.asarray(self.weight * (first != second), dtype=np.float64)
        lacks = (first == self.n_classes - 1) != (second == self.n_classes - 1)
        apart = np.abs(first.astype(np.float64) - second) / (self.n_classes - 2)
        return np.asarray(self.weight * np.where(lacks, 1.0, apart))


LINK_WEIGHT = 5.0
"""Cost of a certain link to the right person, where the change of one nominal value costs 1."""


@dataclass(frozen=True, eq=False)
class SwapTask:
    """The file, the model and all settings.

    Attributes
    ----------
    table : ContingencyTable
        The table of the file.
    model : CellModel
        The model whose margins stay.
    risk : RecordRisk, array_like or None
        A ``RecordRisk``, or the risk of each cell, for serving the riskiest first.
    population : float or None
        Population size, unless ``risk`` knows it; by default twice the sample.
    register : Register or None
        What an intruder knows about the population; by default what ``model`` says.
    keep : sequence of sequences of str
        Further margins that stay, as sets of column names.
    columns : mapping of str to ColumnValues
        Values of the columns outside the keys that ``keep`` or ``constraints`` name, one for each record.
    constraints : SwapConstraints
        What no swap may do.
    distances : Distances
        Distances between levels.
    spare : tuple of Spared
        Columns beside the keys in which partners should be alike.
    link_weight : float
        Cost of a certain link to the right person, in addition to the distance.
    empty_weight : float
        Cost of a record that enters a cell in which nobody lives, as a share of that of a certain link: whoever has a register sees that
        such a record moved.
    enters_vacated : bool
        Whether records may enter cells that others vacate. People live there, so fewer records end where nobody does.
    max_candidates : int
        Number of partners considered for each record; more where few of them are safe.
    decoys : float
        Further records to swap, drawn at random, as a share of those to protect.
    record_ids : array_like, NamesOfRecords or None
        Name of each record, for the choice among equal records; by default row numbers.
    intruders : tuple of Distances
        How each intruder that is planned against measures distances, the one for screening candidates first; by default, the
        family of :func:`~rarecell.table.distance.yardsticks`.
    participants : bool
        Whether partners are also chosen against somebody who knows that a person is in the file.
    least_k : int
        Size of groups of equal records that partners are chosen for: a move into a smaller group costs as much as a certain link.
    rings : bool
        Whether pairs are merged into rings; without, any part of a plan is a plan.
    seed : int
        Seed of every random choice.
    """

    table: ContingencyTable
    model: CellModel
    risk: RecordRisk | ArrayLike | None = None
    population: float | None = None
    register: Register | None = None
    keep: Sequence[Sequence[str]] = ()
    columns: Mapping[str, ColumnValues] = field(default_factory=dict)
    constraints: SwapConstraints = field(default_factory=SwapConstraints)
    distances: Distances = field(default_factory=Distances)
    spare: tuple[Spared, ...] = ()
    link_weight: float = LINK_WEIGHT
    empty_weight: float = 0.0
    enters_vacated: bool = False
    max_candidates: int = 16
    decoys: float = 0.0
    record_ids: ArrayLike | NamesOfRecords | None = None
    intruders: tuple[Distances, ...] = ()
    participants: bool = False
    least_k: int = 1
    rings: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "keep", tuple(tuple(names) for names in self.keep))
        unknown = [key for key in self.constraints.never_swap if key not in self.table.keys]
        if unknown:
            raise UnknownColumns.among(unknown, self.table.keys, role="key")
        if not 0.0 <= self.decoys <= 10.0:
            raise BadInput(f"The share of decoys was given as {self.decoys:g}; it must be a number from 0 to 10, such as 0.5.")

    @cached_property
    def cell_risk(self) -> NDArray[np.float64]:
        """Risk of each cell; 0 if no risk was given."""
        if self.risk is None:
            return np.zeros(self.table.n_cells)
        array = np.asarray(self.risk.unique_probability if isinstance(self.risk, RecordRisk) else self.risk, dtype=np.float64)
        if array.shape != (self.table.n_cells,):
            raise BadInput(f"The risk was given for {array.size:,} cells; the table has {self.table.n_cells:,} occupied ones.")
        return array

    @cached_property
    def n_unseen(self) -> float:
        """Number of population units outside the sample."""
        if self.population is not None:
            return float(self.population - self.table.n_records)
        if isinstance(self.risk, RecordRisk):
            return float(self.risk.population - self.table.n_records)
        return float(self.table.n_records)

    @property
    def crowd(self) -> float:
        """Number of people in the population for each one who is known."""
        return 1.0 if self.register is not None and self.register.is_real else 1.0 + self.n_unseen / self.table.n_records

    @cached_property
    def cell_link(self) -> NDArray[np.float64]:
        """E(1/F) of each cell: the probability that a link to one of its persons is right."""
        if self.register is not None and self.register.is_real:
            return self.register.own_cell(self.table.cells)[0]
        if isinstance(self.risk, RecordRisk):
            return self.risk.match_probability
        return formulas.match_probability(self.model.log_cell_probability(), self.n_unseen, self.table.counts)

    def register_of(self, risk: RecordRisk) -> Register:
        """Return what an intruder knows: as given, or what the model of the margins says."""
        return self.register or Register.modelled(risk, self.model, most_cells=CELLS_TO_PLAN)

    @cached_property
    def known(self) -> Persons:
        """Persons known to be in the population: those in the sample, or a whole register."""
        return Persons(self.table) if self.register is None else self.register.known

    def nobody_unseen(self, cells: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the probability that none of the unseen persons has the values of each cell."""
        if self.register is not None and self.register.unseen is not None:
            rates, weight = self.register.unseen.rates(cells, n_draws=_n_draws(len(cells)), most_members=MEMBERS_ASKED)
            return np.asarray(weight @ np.exp(-rates))
        if self.register is not None:
            return np.asarray(self.register.known.count_at(cells) == 0, dtype=np.float64)
        with np.errstate(divide="ignore"):
            return np.asarray(np.exp(self.n_unseen * np.log1p(-np.exp(self.model.log_cell_probability(cells)))))

    def nobody_expected(self, cells: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return about the same from the model of the margins alone, for many more cells than can be drawn for."""
        if self.register is not None and self.register.is_real:
            return np.asarray(self.register.known.count_at(cells) == 0, dtype=np.float64)
        return np.asarray(np.exp(-self.n_unseen * np.exp(self.model.log_cell_probability(cells))))


MEMBERS_ASKED = 4
"""Number of models of a model average that planning uses; reported results use all of them, with fresh draws."""


def _n_draws(n_cells: int) -> int:
    """Number of draws, smaller for more cells: planning only compares candidates, it reports nothing."""
    return int(np.clip(400_000 // max(n_cells, 1), 1, 4))
