"""Which swaps make records safe from several intruders at once?

A swap helps against an intruder only when it changes a key that the intruder knows. So a record that is at risk in some scenarios
swaps keys that all of these know; where they have none in common, or no partner is found so, it swaps any of their keys, and
what that leaves is told. Records are served scenario by scenario, and nobody takes part twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rarecell.progress import SILENT, Progress
from rarecell.risk.scenarios import Scenarios
from rarecell.swap.interactions import Interactions
from rarecell.swap.plan import SwapPlan, plan_task
from rarecell.swap.reasons import Unswapped
from rarecell.swap.task import SwapTask

NOT_FOR_ALL = "no swap changes a key of every scenario in which it is at risk"


def plan_for_scenarios(task: SwapTask, scenarios: Scenarios, threshold: float, *, progress: Progress = SILENT) -> SwapPlan:
    """Swaps for all records that are above ``threshold`` in at least one scenario.

    A record whose swap changes no key of some scenario in which it is at risk counts as not swapped, with the reason.
    """
    requested = scenarios.above(threshold)
    of_cell = scenarios.masks_above(threshold)
    mask = of_cell[scenarios.table.cell_of(requested)]
    plans: list[SwapPlan] = []
    waiting = {int(m): requested[mask == m] for m in np.unique(mask)}
    for turn in ("common", "any"):
        for m, records in waiting.items():
            keys = _keys(scenarios, m, is_common=turn == "common")
            if len(records) and keys:
                plans.append(_one_plan(task, records, keys, _taken(plans), progress))
                waiting[m] = records[~np.isin(records, plans[-1].rows)]
    return _merged(task, requested, plans, {int(r): int(m) for r, m in zip(requested, mask, strict=True)}, scenarios)


def _keys(scenarios: Scenarios, mask: int, *, is_common: bool) -> set[str]:
    known = [set(one.keys) for place, one in enumerate(scenarios.each) if mask >> place & 1]
    return set.intersection(*known) if is_common else set.union(*known)


def _taken(plans: list[SwapPlan]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, dtype=np.int64), *(plan.rows for plan in plans)])


def _one_plan(
    task: SwapTask, records: NDArray[np.int64], keys: set[str], taken: NDArray[np.int64], progress: Progress
) -> SwapPlan:
    rules = task.constraints
    stays = tuple(dict.fromkeys((*rules.never_swap, *(key for key in task.table.keys if key not in keys))))
    untouched = np.union1d(np.asarray(rules.untouched_records, dtype=np.int64), taken)
    changed = replace(rules, never_swap=stays, untouched_records=untouched)
    return plan_task(replace(task, constraints=changed), records[~np.isin(records, taken)], progress=progress)


def _merged(
    task: SwapTask, requested: NDArray[np.int64], plans: list[SwapPlan], mask_of: dict[int, int], scenarios: Scenarios
) -> SwapPlan:
    """All pairs as one plan; any set of disjoint pairs keeps the margins."""
    if not plans:
        return plan_task(task, requested)
    interactions = Interactions.of_model(task.table, task.model, keep=task.keep, never_swap=task.constraints.never_swap)
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(plan, name) for plan in plans])
        for name in ("records", "partners", "moved", "distance", "cost")
    }
    whole = replace(plans[0], task=task, interactions=interactions, requested=requested, **joined)
    reasons = {left.record: left.reason for plan in plans for left in plan.unswapped}
    moved_keys: dict[int, set[str]] = {}
    for pair, (record, partner) in enumerate(zip(whole.records.tolist(), whole.partners.tolist(), strict=True)):
        moved_keys[record] = moved_keys[partner] = set(whole.variables(pair))
    left = []
    for record in requested.tolist():
        known = [set(one.keys) for place, one in enumerate(scenarios.each) if mask_of[record] >> place & 1]
        if record not in moved_keys:
            left.append(Unswapped(record, reasons.get(record, NOT_FOR_ALL)))
        elif not all(moved_keys[record] & keys for keys in known):
            left.append(Unswapped(record, NOT_FOR_ALL))
    return replace(whole, unswapped=tuple(left))
