"""Which swaps are needed by a run that names several intruders, or whole households?

However records are chosen, by risk, by a target or by name, the choice is made over all scenarios. A run without scenarios has
one intruder, who knows all keys.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput
from rarecell.intruder.register import Register
from rarecell.progress import Progress
from rarecell.risk.records import RecordRisk
from rarecell.risk.scenarios import ScenarioRisk, Scenarios
from rarecell.run.config import ProtectConfig
from rarecell.run.results import Assessment
from rarecell.swap.households import plan_household_swaps
from rarecell.swap.plan import SwapPlan
from rarecell.swap.residual_risk import links_of_plan, risk_after
from rarecell.swap.scenario_risk import plan_scenarios_to_target
from rarecell.swap.scenarios import Chosen, Planning, plan_for_scenarios, plan_single
from rarecell.swap.target import SwapTarget, TargetPlan, frontier
from rarecell.swap.task import SwapTask


def intruders_of(found: Assessment) -> Scenarios:
    """The scenarios of a run; without any, one intruder who knows all keys."""
    if found.roles.scenarios is not None:
        return found.roles.scenarios
    every = np.arange(found.table.n_cells)
    one = ScenarioRisk("all keys", tuple(found.table.keys), found.risk, every, found.choice.risk_model)
    return Scenarios(found.table, (one,))


def chosen_records(wanted: ProtectConfig, found: Assessment) -> Chosen:
    """The records that a run without a target asks for, and against which intruders each is to be protected."""
    scenarios = intruders_of(found)
    if wanted.records is not None:
        threshold = found.config.threshold
        return Chosen.named(scenarios, np.array(wanted.records, dtype=np.int64), threshold)
    if wanted.risk_above is not None:
        return Chosen.above(scenarios, wanted.risk_above)
    if wanted.top is not None:
        return Chosen.riskiest(scenarios, wanted.top)
    assert wanted.cell_probability_below is not None
    return Chosen.in_cells_below(scenarios, wanted.cell_probability_below)


def planning_of(wanted: ProtectConfig, found: Assessment) -> Planning:
    """How to plan swaps for some records: singly, or for their whole households."""
    if not wanted.households:
        return plan_single
    households = found.data.household_codes()
    if households is None:
        raise BadInput("Whole households are to be swapped, but no column identifies the households; name it with --household.")

    def plan(task: SwapTask, records: NDArray[np.int64], progress: Progress) -> SwapPlan:
        return plan_household_swaps(task, households=households, records=records, progress=progress)

    return plan


def plan_for_all(wanted: ProtectConfig, found: Assessment, task: SwapTask, progress: Progress) -> SwapPlan:
    """Plan the swaps for the chosen records."""
    plan = planning_of(wanted, found)
    return plan_for_scenarios(task, intruders_of(found), chosen_records(wanted, found), plan=plan, progress=progress)


def reach_for_all(
    wanted: ProtectConfig, found: Assessment, task: SwapTask, risk: RecordRisk, register: Register, progress: Progress
) -> TargetPlan:
    """Swap until the target holds against every intruder; ``risk`` and ``register`` are those reported for the whole file."""
    target = SwapTarget(wanted.max_population_uniques, wanted.max_record_risk, wanted.max_correct_links)
    reached = plan_scenarios_to_target(
        task,
        intruders_of(found),
        target,
        plan=planning_of(wanted, found),
        households=found.data.household_codes() if wanted.households else None,
        seed=found.config.seed + 1,
        progress=progress,
    )
    links = links_of_plan(reached.plan, register)
    points = frontier(risk, reached.plan, links)
    return TargetPlan(reached.plan, risk_after(risk, reached.plan, links), reached.is_met, points, reached.sentence)
