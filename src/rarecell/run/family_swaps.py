"""How are the families of a run protected?

By swaps between household rows (:mod:`rarecell.swap.families`), then by swaps of single persons who are recognised without their
family and were not reached.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput
from rarecell.intruder.household import KNOWS, HouseholdLinks, household_distances, household_links, household_release
from rarecell.intruder.register import Register
from rarecell.outcome.swap import IntruderSummary
from rarecell.outcome.words import counted, listed, verb
from rarecell.progress import Progress
from rarecell.risk.families import Families
from rarecell.risk.records import RecordRisk
from rarecell.run import models
from rarecell.run.config import ProtectConfig
from rarecell.run.results import Assessment
from rarecell.swap.families import (
    FamilyPlan,
    FamilyTask,
    as_records,
    at_every_place,
    breaks_a_rule,
    household_constraints,
    plan_family_swaps,
    swap_table,
)
from rarecell.swap.plan import SwapPlan, plan_task
from rarecell.swap.reasons import RULE_BROKEN, Unswapped
from rarecell.swap.target import SwapTarget, TargetPlan, plan_to_target
from rarecell.swap.task import SwapTask
from rarecell.table.household_rows import HouseholdRows
from rarecell.table.household_rules import HouseholdRules

if TYPE_CHECKING:
    from rarecell.edges import Json

Numbers = NDArray[np.int64]

MOST_CANDIDATES = 48
"""Partners considered for each household: more than for a person, because few hide a row of twenty columns."""


def family_task(wanted: ProtectConfig, found: Assessment, persons: SwapTask, untouched: NDArray[np.bool_] | None) -> FamilyTask:
    """Everything that swaps between households depend on; ``untouched`` are records that no swap may touch."""
    families = found.known_families
    assert families is not None
    assert found.households is not None
    assert found.households.model is not None
    rows = families.rows
    codes, _ = found.data.column_codes(found.data.keys)
    rules = HouseholdRules.of(rows, codes)
    table = swap_table(rows, found.table)
    alone = replace(found.config, cliques=(), model="single")
    best = models.choose_models(table, alone).best
    constraints, columns = household_constraints(rows, table, persons, rules, untouched=untouched)
    keep = at_every_place(rows.layout, table, (*_cliques(persons), *persons.keep))
    task = SwapTask(
        table,
        best,
        risk=families.known_risk,
        register=_planning_register(families, found),
        keep=keep,
        columns=columns,
        constraints=constraints,
        max_candidates=MOST_CANDIDATES,
        decoys=wanted.decoys,
        intruders=household_distances(table.categories),
        seed=persons.seed,
    )
    # A plan is made by other draws than those that it is judged by.
    counted_there = None if families.register is None else reporting_register(families, found)
    return FamilyTask(rows, codes, rules, task, persons, counted_there)


def _cliques(persons: SwapTask) -> tuple[tuple[str, ...], ...]:
    """The tables of the persons' model, by the names of their vertices."""
    return tuple(tuple(persons.table.names_of(mask)) for mask in persons.model.generator_masks)


def _planning_register(families: Families, found: Assessment) -> Register:
    if families.register is None:
        assert found.households is not None
        assert found.households.model is not None
        return Register.modelled(families.risk, found.households.model, seed=found.config.seed)
    return Register.counted(families.register.people, families.register.place).within(families.rows.table)


def reporting_register(families: Families, found: Assessment) -> Register:
    """What an intruder knows about households: the register of the run, or what the model says, from other draws than the plan's."""
    if families.register is not None:
        return Register.counted(families.register.people, families.register.place)
    return modelled(families, found)


def modelled(families: Families, found: Assessment) -> Register:
    assert found.households is not None
    assert found.households.model is not None
    return Register.modelled(families.risk, found.households.model, seed=found.config.seed + 1)


def chosen_records(wanted: ProtectConfig, families: Families, risk: RecordRisk) -> Numbers:
    """The records that a run asks for, alone or with their family."""
    if wanted.records is not None:
        return np.array(wanted.records, dtype=np.int64)
    larger = families.larger(risk.per_record()["unique_probability"])
    if wanted.risk_above is not None:
        return np.flatnonzero(larger > wanted.risk_above)
    if wanted.top is not None:
        order = np.lexsort((np.arange(len(larger)), -larger))[: wanted.top]
        return np.sort(order[larger[order] > 0.0])
    assert wanted.cell_probability_below is not None
    share = np.exp(families.risk.log_population_share)[families.cell]
    rare = families.rows.members.spread((families.is_alone & (share < wanted.cell_probability_below)).astype(np.float64)) > 0.0
    return np.union1d(np.flatnonzero(rare), risk.cell_probability_below(wanted.cell_probability_below))


def planned_families(
    wanted: ProtectConfig,
    found: Assessment,
    persons: SwapTask,
    risk: RecordRisk,
    untouched: NDArray[np.bool_] | None,
    progress: Progress,
) -> tuple[FamilyPlan, TargetPlan | None]:
    """Swap the households of the chosen records, or enough for a target, then the persons at risk without their family."""
    families = found.known_families
    assert families is not None
    task = family_task(wanted, found, persons, untouched)
    members = families.rows.members
    if not wanted.has_target:
        requested = chosen_records(wanted, families, risk)
        home = members.of_record[requested]
        plan = plan_family_swaps(task, np.unique(home[home >= 0]), requested, progress=progress)
        return _with_single_persons(task, plan, _alone_at_risk(wanted, found, risk, requested), progress), None
    target = SwapTarget(wanted.max_population_uniques, wanted.max_record_risk, wanted.max_correct_links)
    reached = plan_to_target(
        task.households, families.known_risk, target, register=reporting_register(families, found), progress=progress
    )
    of_rows = reached.plan.subset(~breaks_a_rule(task, reached.plan))
    requested = np.flatnonzero(np.isin(members.of_record, of_rows.requested))
    plan = as_records(task, of_rows, requested)
    if wanted.max_record_risk is not None:
        own = np.nan_to_num(risk.per_record()["unique_probability"])
        plan = _with_single_persons(task, plan, np.flatnonzero(own > wanted.max_record_risk), progress)
    return plan, replace(reached, plan=plan, sentence=f"Counted in households: {reached.sentence}")


def _alone_at_risk(wanted: ProtectConfig, found: Assessment, risk: RecordRisk, requested: Numbers) -> Numbers:
    """Requested records that are at risk without their family."""
    least = found.config.threshold if wanted.risk_above is None else wanted.risk_above
    own = np.nan_to_num(risk.per_record()["unique_probability"][requested])
    return requested[(own > 0.0) & (own >= least)]


def _with_single_persons(task: FamilyTask, plan: FamilyPlan, records: Numbers, progress: Progress) -> FamilyPlan:
    """The plan with swaps of single persons added, as far as no household breaks a rule by them."""
    waiting = np.setdiff1d(records, plan.rows)
    if not len(waiting):
        return plan
    rules, shared = task.persons.constraints, [task.rules.keys[k].key for k in task.rules.shared]
    taken = np.unique(np.concatenate([np.asarray(rules.untouched_records, dtype=np.int64), plan.rows]))
    never = tuple(dict.fromkeys((*rules.never_swap, *shared)))
    if len(never) == task.persons.table.n_keys:
        return plan
    single = plan_task(
        replace(task.persons, constraints=replace(rules, untouched_records=taken, never_swap=never), decoys=0.0, rings=False),
        waiting,
        progress=progress,
    )
    single = single.subset(consistent_pairs(task.rows, task.codes, task.rules, single, plan))
    joined: Json = {
        name: np.concatenate([getattr(plan, name), getattr(single, name)])
        for name in ("records", "partners", "moved", "distance", "cost")
    }
    return replace(plan, **joined)


def consistent_pairs(
    rows: HouseholdRows, codes: NDArray[np.int32], rules: HouseholdRules, single: SwapPlan, before: SwapPlan | None = None
) -> NDArray[np.bool_]:
    """Which swaps of single persons can be made so that no household breaks a rule; ``before`` are swaps already made.

    All are made, and those in households that then break a rule are undone, until none is left.
    """
    home = rows.members.of_record
    kept = np.ones(len(single), dtype=bool)
    start = np.array(codes)
    if before is not None:
        start[before.rows] = before.release.released
    while True:
        part = single.subset(kept)
        after = np.array(start)
        after[part.rows] = part.release.released
        broken = np.append(rules.any_broken(rows, after), False)
        wrong = kept & (broken[home[single.records]] | broken[home[single.partners]])
        if not wrong.any():
            return kept
        kept &= ~wrong


def consistent(found: Assessment, plan: SwapPlan) -> tuple[SwapPlan, str]:
    """A plan for persons of a file with households, without the swaps that would break a rule; and what was left out, in words."""
    families = found.families
    if families is None or isinstance(plan, FamilyPlan):
        return plan, ""
    codes, _ = found.data.column_codes(found.data.keys)
    kept = consistent_pairs(families.rows, codes, HouseholdRules.of(families.rows, codes), plan)
    if kept.all():
        return plan, ""
    n = int((~kept).sum())
    lost = np.setdiff1d(np.intersect1d(plan.requested, plan.subset(~kept).rows), plan.subset(kept).rows)
    unswapped = (*plan.unswapped, *(Unswapped(row, RULE_BROKEN) for row in lost.tolist()))
    told = f"{counted(n, 'swap')} {verb(n, 'was', 'were')} left out, because a rule that holds in every household would have been broken."
    return replace(plan.subset(kept), requested=plan.requested, unswapped=unswapped), told


def refuse_broken(found: Assessment, plan: SwapPlan) -> None:
    """Stop if a household of the release breaks a rule that holds in every household of the original."""
    families = found.families
    if families is None:
        return
    codes, _ = found.data.column_codes(found.data.keys)
    rules = HouseholdRules.of(families.rows, codes)
    broken = {kind: int(n.sum()) for kind, n in rules.broken(families.rows, released_codes(found, plan)).items() if n.any()}
    if not broken:
        return
    keys = [rules.keys[k].key for k in rules.shared]
    if set(broken) == {"shared"}:
        raise BadInput(
            f"{counted(broken['shared'], 'household')} would have members with different values of {listed(keys)}, which are the same for all "
            "members of every household in the original. Swap whole households (--households), or leave out --household if the "
            "column does not say who lives together. Nothing was written."
        )
    raise BadInput(
        f"{counted(sum(broken.values()), 'household')} of the release would break a rule that holds in every household of the original "
        f"({listed(sorted(broken))}). Nothing was written; the rules are: {' '.join(rules.sentences())}"
    )


def released_codes(found: Assessment, plan: SwapPlan) -> NDArray[np.int32]:
    """The keys of the records after a plan."""
    codes, _ = found.data.column_codes(found.data.keys)
    after = np.array(codes)
    after[plan.rows] = plan.release.released
    return after


def links_of_households(found: Assessment, plan: SwapPlan) -> tuple[HouseholdLinks, HouseholdLinks | None] | None:
    """What an intruder who knows families finds: counted in the register or expected, and what the model expected beside a count."""
    families = found.families
    if families is None:
        return None
    release = household_release(families.rows, released_codes(found, plan))
    told = household_links(families.rows, release, reporting_register(families, found))
    if families.register is None:
        return told, None
    return told, household_links(families.rows, release, modelled(families, found))


def told_household(found: Assessment, links: HouseholdLinks, expected: HouseholdLinks | None) -> IntruderSummary:
    """The household intruder as a run reports it."""
    return IntruderSummary(
        name="household",
        knows=KNOWS,
        before=links.before.total,
        after=links.after.total,
        swapped=links.after.of_moved,
        interval_before=links.before.interval,
        interval_after=links.after.interval,
        estimated_before=None if expected is None else expected.before.total,
        estimated_after=None if expected is None else expected.after.total,
        persons_before=links.persons_before,
        persons_after=links.persons_after,
        persons_certain=links.persons_certain,
        highest=links.after.highest,
    )
