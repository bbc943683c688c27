"""Which swaps make records safe from several intruders at once?

A swap helps against an intruder only if it changes a key that the intruder knows. So a record that is at risk in some scenarios
swaps keys that are known in all of them. If they have no key in common, or no partner is found this way, the record swaps any of
their keys, and the risk that this leaves is reported. Records are served scenario by scenario, and none is swapped twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell.graph.masks import all_below, single
from rarecell.intruder.residual_risk import ScenarioTrial
from rarecell.outcome.words import counted, people, verb
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.risk.scenarios import Scenarios
from rarecell.swap.interactions import Interactions
from rarecell.swap.plan import SwapPlan, plan_task
from rarecell.swap.reasons import TAKEN, UNTOUCHED, Unswapped
from rarecell.swap.target import STAGE, SwapTarget, spread_evenly
from rarecell.swap.task import SwapTask

if TYPE_CHECKING:
    from rarecell.edges import Json


NOT_FOR_ALL = "no swap changes a key in every scenario that poses a risk"

Planning = Callable[[SwapTask, NDArray[np.int64], Progress], SwapPlan]
"""A function that plans swaps for some records, singly or with their whole households."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """Row numbers of records to protect, and for each the scenarios it must become safe from, as bits."""

    records: NDArray[np.int64]
    mask: NDArray[np.uint64]

    @classmethod
    def above(cls, scenarios: Scenarios, threshold: float) -> Chosen:
        """Choose the records above ``threshold`` in at least one scenario."""
        return cls._where(scenarios, [scenario.unique_probability > threshold for scenario in scenarios.each])

    @classmethod
    def riskiest(cls, scenarios: Scenarios, n: int) -> Chosen:
        """Choose the ``n`` records with the highest probability in their worst scenario; ties are in the order of the cells."""
        at_risk = cls.above(scenarios, 0.0)
        cell = scenarios.table.cell_of(at_risk.records)
        order = np.lexsort((cell, -scenarios.worst_probability[cell]))[: max(n, 0)]
        least = scenarios.worst_probability[cell[order]].min(initial=1.0)
        among = cls._where(scenarios, [scenario.unique_probability >= max(least, 1e-300) for scenario in scenarios.each])
        records = at_risk.records[order]
        return cls(records, among.mask[np.searchsorted(among.records, records)])

    @classmethod
    def in_cells_below(cls, scenarios: Scenarios, share: float) -> Chosen:
        """Choose the records that are alone in a cell of probability below ``share`` in at least one scenario."""
        below = [
            ((scenario.risk.sample_count == 1) & (np.exp(scenario.risk.log_population_share) < share))[scenario.cell]
            for scenario in scenarios.each
        ]
        return cls._where(scenarios, below)

    @classmethod
    def named(cls, scenarios: Scenarios, records: ArrayLike, threshold: float) -> Chosen:
        """Choose the records that the user names, against every scenario where they exceed ``threshold``, or all if none."""
        rows = np.asarray(records, dtype=np.int64)
        everybody = np.uint64(all_below(len(scenarios.each)))
        # The last entry is for dropped records, whose cell is −1.
        of_cell = np.append(scenarios.masks_above(threshold), np.uint64(0))[scenarios.table.cell_of(rows)]
        return cls(rows, np.where(of_cell == 0, everybody, of_cell))

    @classmethod
    def _where(cls, scenarios: Scenarios, at_risk: list[NDArray[np.bool_]]) -> Chosen:
        """Choose, in file order, the records of cells at risk in a scenario, given one mask of cells for each scenario."""
        bits = np.zeros(scenarios.table.n_cells + 1, dtype=np.uint64)
        for position, is_risky in enumerate(at_risk):
            bits[:-1] |= np.where(is_risky, np.uint64(single(position)), np.uint64(0))
        table = scenarios.table
        if table.record_cell is None:
            cells = np.flatnonzero(bits[:-1])
            return cls(np.asarray(table.first_row[cells]), bits[cells])
        rows = np.flatnonzero(bits[table.record_cell])
        return cls(rows, bits[table.record_cell[rows]])


def plan_single(task: SwapTask, records: NDArray[np.int64], progress: Progress) -> SwapPlan:
    """Plan swaps of single records."""
    return plan_task(task, records, progress=progress)


def plan_for_scenarios(
    task: SwapTask, scenarios: Scenarios, chosen: Chosen, *, plan: Planning = plan_single, progress: Progress = SILENT
) -> SwapPlan:
    """Plan swaps for chosen records.

    A record counts as not swapped, with the reason, if its swap changes no key of a scenario it must become safe from.
    """
    plans: list[SwapPlan] = []
    waiting = {int(m): chosen.records[chosen.mask == m] for m in np.unique(chosen.mask)}
    for turn in ("common", "any"):
        for m, records in waiting.items():
            keys = _keys(scenarios, m, is_common=turn == "common")
            if len(records) and keys:
                plans.append(_one_plan(task, records, keys, _taken(plans), plan, progress))
                waiting[m] = records[~np.isin(records, plans[-1].rows)]
    return _merged(task, chosen, plans, scenarios)


def _keys(scenarios: Scenarios, mask: int, *, is_common: bool) -> set[str]:
    known = [set(scenario.keys) for place, scenario in enumerate(scenarios.each) if mask >> place & 1]
    return set.intersection(*known) if is_common else set.union(*known)


def _taken(plans: list[SwapPlan]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, dtype=np.int64), *(plan.rows for plan in plans)])


def _one_plan(
    task: SwapTask, records: NDArray[np.int64], keys: set[str], taken: NDArray[np.int64], plan: Planning, progress: Progress
) -> SwapPlan:
    rules = task.constraints
    stays = tuple(dict.fromkeys((*rules.never_swap, *(key for key in task.table.keys if key not in keys))))
    untouched = np.union1d(np.asarray(rules.untouched_records, dtype=np.int64), taken)
    changed = replace(rules, never_swap=stays, untouched_records=untouched)
    return plan(replace(task, constraints=changed), records[~np.isin(records, taken)], progress)


def _merged(task: SwapTask, chosen: Chosen, plans: list[SwapPlan], scenarios: Scenarios) -> SwapPlan:
    """Merge all pairs into one plan; any set of disjoint pairs keeps the margins."""
    if not plans:
        return plan_task(task, chosen.records)
    interactions = Interactions.of_model(task.table, task.model, keep=task.keep, never_swap=task.constraints.never_swap)
    joined: Json = {
        name: np.concatenate([getattr(plan, name) for plan in plans])
        for name in ("records", "partners", "moved", "distance", "cost")
    }
    givers = [plan.sources.reshape(2, -1) for plan in plans]
    joined["givers"] = np.concatenate(givers, axis=1).ravel()
    whole = replace(plans[0], task=task, interactions=interactions, requested=chosen.records, **joined)
    reasons = {left.record: left.reason for plan in plans for left in plan.unswapped}
    moved_keys: dict[int, set[str]] = {}
    changed = whole.release.true != whole.release.released
    for record, of_record in zip(whole.rows.tolist(), changed, strict=True):
        moved_keys[record] = {key for key, is_new in zip(task.table.keys, of_record.tolist(), strict=True) if is_new}
    left = []
    for record, mask in zip(chosen.records.tolist(), chosen.mask.tolist(), strict=True):
        known = [set(scenario.keys) for place, scenario in enumerate(scenarios.each) if mask >> place & 1]
        if record not in moved_keys:
            reason = reasons.get(record, NOT_FOR_ALL)
            # Records swapped for other scenarios are kept out of further swaps, like those that the user keeps out.
            left.append(Unswapped(record, TAKEN if reason == UNTOUCHED and not task.constraints.keeps_out else reason))
        elif not all(moved_keys[record] & keys for keys in known):
            left.append(Unswapped(record, NOT_FOR_ALL))
    return replace(whole, unswapped=tuple(left))


# How much risk from each of several intruders is left, and how many swaps bring all of it down to a target?
#
# Every intruder is tried on the release. The pairs of a plan are independent of each other, so any part of it is a plan.


MOST_ATTEMPTS = 10
"""Number of plans, each for more records, that are made for a target."""


@dataclass(frozen=True, eq=False)
class ScenarioTarget:
    """A plan that was extended until the target is met in every scenario, or as far as possible."""

    plan: SwapPlan
    is_met: bool
    sentence: str


def plan_scenarios_to_target(
    task: SwapTask,
    scenarios: Scenarios,
    target: SwapTarget,
    *,
    plan: Planning = plan_single,
    households: NDArray[np.int64] | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> ScenarioTarget:
    """Swap until the target is met against each intruder, then leave out swaps that are not needed.

    Parameters
    ----------
    task : SwapTask
        The file, the model and all settings.
    scenarios : Scenarios
        The intruders, with their models.
    target : SwapTarget
        The target against each of them.
    plan : Planning, optional
        Function that plans swaps for some records.
    households : array of int, optional
        Household of each record if whole households are swapped; the pairs of a household stay together.
    seed : int, optional
        Seed of the draws with which the remaining risk is assessed.
    progress : Progress, optional
        Receiver of progress reports.

    Returns
    -------
    ScenarioTarget
        The plan, and whether the target is met.
    """
    worst = np.sort(scenarios.worst_probability[scenarios.worst_probability > 0.0])[::-1]
    n = _first_number(scenarios, target, worst)
    for _ in range(MOST_ATTEMPTS):
        swaps = plan_for_scenarios(task, scenarios, Chosen.riskiest(scenarios, n), plan=plan, progress=progress)
        trials = [ScenarioTrial.of(scenario, swaps.release, task.distances, seed=seed) for scenario in scenarios.each]
        is_met = all(target.is_met(trial.after()) for trial in trials)
        if is_met or n >= len(worst):
            break
        n = min(len(worst), max(n + 10, n + n // 2))
        checkpoint(progress, STAGE)
    if is_met and len(swaps):
        swaps = _enough(swaps, trials, target, scenarios, households)
        trials = [ScenarioTrial.of(scenario, swaps.release, task.distances, seed=seed) for scenario in scenarios.each]
        is_met = all(target.is_met(trial.after()) for trial in trials)
    return ScenarioTarget(swaps, is_met, _sentence(swaps, scenarios, trials, target, is_met))


def _first_number(scenarios: Scenarios, target: SwapTarget, worst: NDArray[np.float64]) -> int:
    """Number of riskiest records that would be enough if every swap removed its own risk in every scenario."""
    n = 0 if target.max_record_risk is None else int((worst > target.max_record_risk).sum())
    ranked = np.argsort(-scenarios.worst_probability, kind="stable")[: len(worst)]
    for scenario in scenarios.each:
        for most, each in (
            (target.max_population_uniques, scenario.unique_probability),
            (
                target.max_correct_links,
                np.where(scenario.risk.sample_count == 1, scenario.risk.match_probability, 0.0)[scenario.cell],
            ),
        ):
            if most is not None:
                left = each[ranked].sum() - np.cumsum(each[ranked])
                n = max(n, int(np.searchsorted(-left, -most)) + 1)
    return min(n, len(worst))


def _enough(
    plan: SwapPlan,
    trials: list[ScenarioTrial],
    target: SwapTarget,
    scenarios: Scenarios,
    households: NDArray[np.int64] | None,
) -> SwapPlan:
    """The fewest pairs of records or households that are enough, riskiest first."""
    group = np.arange(len(plan))
    if households is not None:
        # A household is in one pair only, so the smaller of its two numbers identifies the pair.
        group = np.unique(np.minimum(households[plan.records], households[plan.partners]), return_inverse=True)[1]
    risk = np.zeros(int(group.max(initial=-1)) + 1)
    np.maximum.at(risk, np.tile(group, 2), scenarios.worst_probability[plan.table.cell_of(plan.rows)])
    is_decoy = np.ones(len(risk), dtype=bool)
    is_decoy[group[~plan.is_decoy]] = False
    turn = np.argsort(spread_evenly(np.argsort(-risk, kind="stable"), is_decoy, plan.seed))[group]
    low, high = 0, len(risk)
    while low < high:
        middle = (low + high) // 2
        rows = plan.rows[plan.rows_of(turn < middle)]
        is_enough = all(target.is_met(trial.after(rows)) for trial in trials)
        low, high = (low, middle) if is_enough else (middle + 1, high)
    return plan.subset(turn < low)


def _sentence(plan: SwapPlan, scenarios: Scenarios, trials: list[ScenarioTrial], target: SwapTarget, is_met: bool) -> str:
    if is_met:
        return f"{counted(len(plan), 'swap')} {verb(len(plan), 'is', 'are')} enough for {target} in every scenario."
    after = {scenario.name: trial.after() for scenario, trial in zip(scenarios.each, trials, strict=True)}
    worst = max(after, key=lambda name: after[name].expected_correct_matches)
    held = "; ".join(f"{n:,} records because {reason}" for reason, n in plan.reasons.items())
    blocked = f" Not swapped: {held}." if held else ""
    links = people(after[worst].expected_correct_matches)
    return f"The target of {target} is out of reach in some scenario. Against {worst}, {links} correct links are left.{blocked}"
