"""How many swaps does what a recoding leaves need, and what risk is left then?

The one place where planning a release asks the swaps and the intruders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput
from rarecell.model.protocol import CellModel
from rarecell.progress import Progress, checkpoint
from rarecell.risk.records import RecordRisk
from rarecell.swap.plan import SwapPlan, plan_swaps
from rarecell.swap.residual_risk import RiskAfter, links_of_plan, risk_after
from rarecell.table.contingency import ContingencyTable

MOST_ATTEMPTS = 4
"""A plan that does not reach its target is made anew with more records so many times at most."""

_STAGE = "planning the release"


@dataclass(frozen=True)
class ReleaseTarget:
    """What a release is to reach: at most so many expected correct links, or no record above a risk, or both."""

    max_correct_links: float | None = None
    max_record_risk: float | None = None

    def __post_init__(self) -> None:
        given = [number for number in (self.max_correct_links, self.max_record_risk) if number is not None]
        if not given:
            raise BadInput("No target was given: name the largest number of correct links, or the highest risk of a record.")
        if min(given) < 0.0 or (self.max_record_risk or 0.0) > 1.0:
            raise BadInput("A target is a number of correct links of 0 or more, or a risk between 0 and 1.")

    def is_met(self, correct_links: float, highest: float) -> bool:
        """Whether a risk is low enough."""
        few = self.max_correct_links is None or correct_links <= self.max_correct_links
        return few and (self.max_record_risk is None or highest <= self.max_record_risk)

    @property
    def options(self) -> str:
        """The target as the options of a command."""
        found = [] if self.max_correct_links is None else [f"--max-correct-links {self.max_correct_links:g}"]
        found += [] if self.max_record_risk is None else [f"--max-record-risk {self.max_record_risk:g}"]
        return " ".join(found)

    def __str__(self) -> str:
        found = [] if self.max_correct_links is None else [f"at most {self.max_correct_links:g} correct links"]
        found += [] if self.max_record_risk is None else [f"no record above a risk of {self.max_record_risk:g}"]
        return " and ".join(found)


@dataclass(frozen=True, eq=False)
class Remainder:
    """Swaps for what a recoding leaves, and the risk after them."""

    plan: SwapPlan
    after: RiskAfter
    is_met: bool


def swap_remainder(
    table: ContingencyTable,
    model: CellModel,
    risk: RecordRisk,
    target: ReleaseTarget,
    *,
    progress: Progress,
    **options: Any,
) -> Remainder:
    """Swap the riskiest records until the target is met, or no further swap helps."""
    records = _needed(table, risk.unique_probability, _match_of_uniques(risk), target)
    for _ in range(MOST_ATTEMPTS):
        plan = plan_swaps(table, model, records=records, risk=risk, **options)
        after = risk_after(risk, plan, links_of_plan(plan, plan.task.register_of(risk)))
        is_met = target.is_met(after.expected_correct_matches, after.highest)
        more = np.setdiff1d(_needed(table, after.unique_probability, after.match_probability, target), plan.rows)
        more = np.setdiff1d(more, records)
        if is_met or not len(more):
            break
        records = np.union1d(records, more)
        checkpoint(progress, _STAGE)
    return Remainder(plan, after, is_met)


def _match_of_uniques(risk: RecordRisk) -> NDArray[np.float64]:
    return np.where(risk.table.counts == 1, risk.match_probability, 0.0)


def _needed(
    table: ContingencyTable, unique: NDArray[np.float64], match: NDArray[np.float64], target: ReleaseTarget
) -> NDArray[np.int64]:
    """The records whose swaps would meet the target if each took its own risk away, the riskiest first."""
    wanted = np.zeros(table.n_cells, dtype=bool)
    if target.max_record_risk is not None:
        wanted |= unique > target.max_record_risk
    if target.max_correct_links is not None:
        order = np.argsort(-match, kind="stable")
        left = match.sum() - np.cumsum(match[order])
        n_needed = int(np.searchsorted(-left, -target.max_correct_links)) + (match.sum() > target.max_correct_links)
        wanted[order[:n_needed]] |= match[order[:n_needed]] > 0.0
    cells = np.flatnonzero(wanted)
    if table.record_cell is None:
        return np.asarray(table.first_row[cells])
    first = np.full(table.n_cells, -1, dtype=np.int64)
    kept = np.flatnonzero(table.record_cell >= 0)
    first[table.record_cell[kept][::-1]] = kept[::-1]
    return np.asarray(first[cells])
