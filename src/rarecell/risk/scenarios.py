"""Which of several intruders is the most dangerous to each record?

A neighbour knows other columns than somebody who holds a register. Every scenario is a set of keys. The file is counted once on
all of them, and the table of each scenario is a projection of that table, so the results are the same as those of separate runs.
A record is safe when it is safe in every scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import CellIndex
from rarecell.data.names import check_scenarios
from rarecell.graph.masks import single
from rarecell.model.protocol import CellModel
from rarecell.outcome.roles import ScenarioSummary
from rarecell.risk.families import FamilyRisk
from rarecell.risk.records import RecordRisk
from rarecell.risk.register import RegisterCounts
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    from rarecell.edges import Array


@dataclass(frozen=True, eq=False)
class ScenarioRisk:
    """The risk from one intruder.

    Attributes
    ----------
    name : str
        Name of the scenario.
    keys : tuple of str
        Keys that the intruder knows.
    risk : RecordRisk
        The risk on the table of these keys.
    cell : ndarray of int
        For each cell of the table of all keys, its cell in that table.
    model : CellModel or None
        The model that the risk was computed from, for intruders who search nearby values; None if it is not known.
    counts : RegisterCounts or None
        The people of a register on these keys, from whom the risk is counted; None without a register.
    family : FamilyRisk or None
        The risk of whole households to this intruder, if the run takes households as known.
    """

    name: str
    keys: tuple[str, ...]
    risk: RecordRisk = field(repr=False)
    cell: NDArray[np.int64] = field(repr=False)
    model: CellModel | None = field(default=None, repr=False)
    counts: RegisterCounts | None = field(default=None, repr=False)
    family: FamilyRisk | None = field(default=None, repr=False)

    def known_by(self, register: RegisterCounts) -> ScenarioRisk:
        """The same intruder with a register of the whole population, so that the risk is counted rather than estimated."""
        counts = register.among(self.risk.table)
        return replace(self, risk=counts.risk(self.risk), counts=counts)

    @cached_property
    def unique_probability(self) -> NDArray[np.float64]:
        """For each cell of the table of all keys, the probability that its records are population uniques to this intruder."""
        return self.risk.unique_probability[self.cell]

    def of_records(self, table: ContingencyTable) -> NDArray[np.float64]:
        """For every record of the table of all keys, the risk from this intruder, alone or with the household if that is known."""
        # The last place is for dropped records, whose cell is −1.
        own = np.append(self.unique_probability, 0.0)[table.cell_of_record]
        return own if self.family is None else self.family.larger(own)

    def summary(self, threshold: float, table: ContingencyTable) -> ScenarioSummary:
        """Figures for the whole file; ``table`` is that of all keys."""
        if self.family is None:
            at_risk, recognised = self.risk.unique_probability[self.risk.sample_count == 1], None
        else:
            together = self.of_records(table)
            at_risk, recognised = together[together > 0.0], float(together.sum())
        return ScenarioSummary(
            name=self.name,
            keys=self.keys,
            sample_uniques=self.risk.n_sample_uniques,
            expected_population_uniques=self.risk.expected_population_uniques,
            expected_correct_matches=self.risk.expected_correct_matches,
            highest=float(at_risk.max(initial=0.0)),
            records_above_threshold=int((at_risk >= threshold).sum()),
            expected_recognised=recognised,
        )


@dataclass(frozen=True, eq=False)
class Scenarios:
    """The risk from every intruder, for the cells of the table of all keys."""

    table: ContingencyTable
    each: tuple[ScenarioRisk, ...]

    @cached_property
    def worst_probability(self) -> NDArray[np.float64]:
        """Highest probability of each cell over the scenarios."""
        return np.asarray(np.max([scenario.unique_probability for scenario in self.each], axis=0))

    @cached_property
    def worst(self) -> NDArray[np.int64]:
        """Position of the scenario with the highest probability for each cell; the first if several tie, −1 where all are 0."""
        first = np.argmax([scenario.unique_probability for scenario in self.each], axis=0)
        return np.asarray(np.where(self.worst_probability > 0.0, first, -1))

    @property
    def knows_families(self) -> bool:
        """Whether the intruders know who lives with whom."""
        return any(scenario.family is not None for scenario in self.each)

    @cached_property
    def of_records(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """For every record, its highest risk over the scenarios, and the position of that scenario; −1 where all are 0."""
        each = np.array([scenario.of_records(self.table) for scenario in self.each])
        highest = each.max(axis=0)
        return highest, np.where(highest > 0.0, each.argmax(axis=0), -1)

    def above(self, threshold: float) -> NDArray[np.int64]:
        """Numbers of the records that are above ``threshold`` in at least one scenario, in the order of the file.

        A cell of the table of all keys holds more than one record only if no scenario makes them unique.
        """
        is_above = np.append(self.worst_probability > threshold, False)
        if self.table.record_cell is None:
            return np.asarray(self.table.first_row[np.flatnonzero(is_above[:-1])])
        return np.flatnonzero(is_above[self.table.record_cell])

    def masks_above(self, threshold: float) -> NDArray[np.uint64]:
        """For each cell, the scenarios in which it is above ``threshold``, as bits."""
        masks = np.zeros(self.table.n_cells, dtype=np.uint64)
        for position, scenario in enumerate(self.each):
            masks |= np.where(scenario.unique_probability > threshold, np.uint64(single(position)), np.uint64(0))
        return masks

    def per_record(self) -> dict[str, Array]:
        """``worst_scenario`` and its probability for each record, in file order; for each cell if there are no records."""
        if self.knows_families:
            highest, position = self.of_records
            return {"worst_scenario": self._names[position], "worst_probability": highest}
        cell = self.table.listed_cells
        dropped = cell < 0
        return {
            "worst_scenario": np.where(dropped, "", self._names[self.worst[cell]]),
            "worst_probability": np.where(dropped, np.nan, self.worst_probability[cell]),
        }

    def of_cells(self) -> dict[str, Array]:
        """The same for each cell, if nobody knows who lives with whom; otherwise records of a cell differ, and there is nothing to tell."""
        if self.knows_families:
            return {}
        return {"worst_scenario": self._names[self.worst], "worst_probability": self.worst_probability}

    @property
    def _names(self) -> NDArray[np.object_]:
        """Names of the scenarios, and an empty one for position −1."""
        return np.array([*(scenario.name for scenario in self.each), ""], dtype=object)

    def __str__(self) -> str:
        numbers = "; ".join(f"{scenario.name}: {scenario.risk.expected_population_uniques:,.1f}" for scenario in self.each)
        return f"Records expected to be unique in the population, by what an intruder knows: {numbers}."


def assess_scenarios(
    table: ContingencyTable,
    scenarios: Mapping[str, Sequence[str]],
    *,
    risk_of: Callable[[ContingencyTable], RecordRisk],
) -> Scenarios:
    """The risk from every intruder.

    Parameters
    ----------
    table : ContingencyTable
        Table of all keys.
    scenarios : mapping of str to sequence of str
        For each scenario, the keys that its intruder knows.
    risk_of : callable
        Estimates the risk of a table and returns it for the same cells; called once for each scenario.
    """
    check_scenarios(scenarios, table.keys)
    each = []
    for name, known in scenarios.items():
        smaller = table.project(list(known))
        columns = [table.cells[:, table.keys.index(key)] for key in known]
        cell = CellIndex(smaller.cells, [c.n_levels for c in smaller.categories]).find(columns)
        each.append(ScenarioRisk(name, tuple(known), risk_of(smaller), cell))
    return Scenarios(table, tuple(each))
