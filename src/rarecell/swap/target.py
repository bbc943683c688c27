"""How many records must be swapped to reach a target, and what does each step cost?

Swaps of a plan are independent of each other, so any part of a plan is a plan. The pairs are put in the order of the risk
they remove for each value they change, and the plan grows along that order until the target is met.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.risk.records import RecordRisk
from rarecell.swap.interactions import FittedModel
from rarecell.swap.plan import SwapPlan, plan_swaps
from rarecell.swap.residual_risk import RiskAfter, risk_after
from rarecell.table.contingency import ContingencyTable

MOST_ATTEMPTS = 12
STAGE = "growing the plan"


@dataclass(frozen=True)
class FrontierPoint:
    """Risk that is left after so many values were changed."""

    n_swaps: int
    values_changed: int
    expected_population_uniques: float
    expected_correct_matches: float
    highest: float


@dataclass(frozen=True, eq=False)
class TargetPlan:
    """A plan that was grown to a target.

    Attributes
    ----------
    plan : the swaps that are enough; when the target is out of reach, all that are possible
    after : risk after them
    is_met : whether the target is reached
    frontier : risk against changed values, from no swap to all that were weighed
    sentence : what was reached, and what stands in the way
    """

    plan: SwapPlan
    after: RiskAfter
    is_met: bool
    frontier: tuple[FrontierPoint, ...]
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def plan_to_target(
    table: ContingencyTable,
    model: FittedModel,
    risk: RecordRisk,
    *,
    max_population_uniques: float | None = None,
    max_record_risk: float | None = None,
    progress: Progress = SILENT,
    **options: Any,
) -> TargetPlan:
    """Swap as much as is needed, and no more, to bring the risk down to a target.

    Parameters
    ----------
    table, model, risk : as for :func:`~rarecell.swap.plan.plan_swaps`
    max_population_uniques : at most so many expected population uniques that would be matched
    max_record_risk : no record with a unique probability above this
    options : further arguments of :func:`~rarecell.swap.plan.plan_swaps`
    """
    if max_population_uniques is None and max_record_risk is None:
        raise BadInput("No target was given: name a number of population uniques or a highest risk that is to be reached.")
    if (max_population_uniques or 0.0) < 0.0 or (max_record_risk or 0.0) < 0.0:
        raise BadInput("A target is a number of 0 or more.")

    def is_met(after: RiskAfter) -> bool:
        few_enough = max_population_uniques is None or after.expected_population_uniques <= max_population_uniques
        return few_enough and (max_record_risk is None or after.highest <= max_record_risk)

    records = _first_choice(risk, max_population_uniques, max_record_risk)
    for _ in range(MOST_ATTEMPTS):
        plan = plan_swaps(table, model, records=records, risk=risk, progress=progress, **options)
        after = risk_after(risk, plan)
        more = _further_records(plan, after, records, max_population_uniques, max_record_risk)
        if is_met(after) or not len(more):
            break
        records = np.union1d(records, more)
        checkpoint(progress, STAGE)
    order = _by_benefit(risk, plan)
    points = frontier(risk, plan, order=order)
    if is_met(after):
        n_enough = _smallest(len(plan), lambda n: is_met(risk_after(risk, plan, order[:n])))
        plan = plan.subset(np.sort(order[:n_enough]))
        after = risk_after(risk, plan)
    return TargetPlan(
        plan, after, is_met(after), points, _sentence(plan, after, is_met(after), max_population_uniques, max_record_risk)
    )


def frontier(
    risk: RecordRisk, plan: SwapPlan, *, n_points: int = 20, order: NDArray[np.int64] | None = None
) -> tuple[FrontierPoint, ...]:
    """Risk left against values changed, as the swaps of a plan are made in the order of their benefit."""
    in_order = _by_benefit(risk, plan) if order is None else order
    steps = np.unique(np.linspace(0, len(plan), min(n_points, len(plan) + 1)).round().astype(np.int64))
    points = []
    for n in steps.tolist():
        part = plan.subset(in_order[:n])
        after = risk_after(risk, part)
        points.append(
            FrontierPoint(
                n, part.n_values_changed, after.expected_population_uniques, after.expected_correct_matches, after.highest
            )
        )
    return tuple(points)


def _by_benefit(risk: RecordRisk, plan: SwapPlan) -> NDArray[np.int64]:
    """Pairs by the risk they remove for each value they change; ties in the order of the plan."""
    removed = sum(risk.unique_probability[plan.table.cell_of(rows)] for rows in (plan.records, plan.partners))
    n_values = np.array([int(m & plan.interactions.keys).bit_count() for m in plan.moved.tolist()])
    return np.argsort(-removed / np.maximum(n_values, 1), kind="stable")


def _first_choice(risk: RecordRisk, max_uniques: float | None, max_risk: float | None) -> NDArray[np.int64]:
    """The riskiest records, as many as would do if every swap only took its own risk away."""
    chosen = np.zeros(0, dtype=np.int64) if max_risk is None else risk.above(max_risk)
    if max_uniques is not None:
        ranked = risk.riskiest(risk.n_sample_uniques)
        left = risk.expected_population_uniques - np.cumsum(risk.unique_probability[risk.table.cell_of(ranked)])
        chosen = np.union1d(chosen, ranked[: int(np.searchsorted(-left, -max_uniques)) + 1])
    return chosen


def _further_records(
    plan: SwapPlan, after: RiskAfter, records: NDArray[np.int64], max_uniques: float | None, max_risk: float | None
) -> NDArray[np.int64]:
    """Records not asked for yet whose swap would bring the target nearer: what is left of cells at risk."""
    units = np.flatnonzero((after.unique_probability > 0.0)[plan.units.cell])
    rows = plan.units.rows_in(units, plan.units.counts[units])
    rows = rows[~np.isin(rows, np.concatenate([plan.rows, records]))]
    cell = plan.table.cell_of(rows)
    order = np.lexsort((cell, -after.unique_probability[cell]))
    rows, risk = rows[order], after.unique_probability[cell[order]]
    found = np.zeros(0, dtype=np.int64) if max_risk is None else rows[risk > max_risk]
    if max_uniques is not None and after.expected_population_uniques > max_uniques:
        missing = after.expected_population_uniques - max_uniques
        n_needed = int(np.searchsorted(np.cumsum(risk), missing)) + 1
        found = np.union1d(found, rows[: max(n_needed, len(records) // 10)])
    return found


def _smallest(n: int, is_enough: Any) -> int:
    """The smallest number of pairs that is enough, given that n is; risk falls as pairs are added."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _sentence(plan: SwapPlan, after: RiskAfter, is_met: bool, max_uniques: float | None, max_risk: float | None) -> str:
    wanted = []
    if max_uniques is not None:
        wanted.append(f"at most {max_uniques:g} expected population uniques")
    if max_risk is not None:
        wanted.append(f"no record above {max_risk:g}")
    reached = f"{after.expected_population_uniques:,.1f} expected population uniques and a highest risk of {after.highest:.3f}"
    if is_met:
        return f"{len(plan):,} swaps that change {plan.n_values_changed:,} values reach {' and '.join(wanted)}: {reached}."
    held = "; ".join(f"{n:,} records because {reason}" for reason, n in plan.reasons.items())
    blocked = f" Not swapped: {held}." if held else ""
    return f"The target of {' and '.join(wanted)} is out of reach; all swaps together leave {reached}.{blocked}"
