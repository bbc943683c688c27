"""What does a request to protect records mean for swaps?

Turns a :class:`~rarecell.run.config.ProtectConfig` into a plan: which records, under which rules, towards which target,
and which further columns to look at.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rarecell.data.cross_tabulation import crossed_columns
from rarecell.data.microdata import Microdata
from rarecell.errors import BadInput
from rarecell.intruder.nearest import MovedLinks
from rarecell.intruder.register import Register
from rarecell.intruder.release import Release
from rarecell.intruder.trial import Found, try_intruders
from rarecell.machine.memory import MemoryLimit
from rarecell.outcome.swap import AreaSwapSummary, IntruderSummary, KeepingCost, TargetSummary
from rarecell.progress import Progress
from rarecell.risk.records import RecordRisk
from rarecell.run.area_swaps import WEIGHT_CLASS, planned_places
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.results import Assessment
from rarecell.run.roles import side_choice
from rarecell.run.scenario_swaps import plan_for_all, planning_of, reach_for_all
from rarecell.swap.affected import weight_classes
from rarecell.swap.apply import Exchange, MarginCheck
from rarecell.swap.distance import Distances
from rarecell.swap.plan import SwapPlan
from rarecell.swap.rules import SwapConstraints
from rarecell.swap.swappable import cost_of_keeping
from rarecell.swap.target import SwapTarget, TargetPlan, plan_to_target
from rarecell.swap.task import SwapTask
from rarecell.swap.units import CodedColumn, ColumnValues
from rarecell.table.contingency import ContingencyTable
from rarecell.table.crossed import CrossedColumn
from rarecell.table.structural_zeros import StructuralZeros

MOST_LEVELS = 10_000
"""Columns outside the keys with more levels than this are not checked for associations."""


def needs_records(config: RunConfig, protection: ProtectConfig | None) -> bool:
    """Whether the run needs to know more about a record than its cell."""
    wanted = protection or ProtectConfig()
    named = {*_constraints(wanted).columns, *(name for margin in wanted.keep for name in margin)}
    # Coarsenings are named after their key: age/10.
    outside = [name for name in named if name not in config.keys and name.rpartition("/")[0] not in config.keys]
    return any(
        (
            config.household is not None or wanted.households,
            config.strata is not None
            and (config.strata not in config.keys or config.strata in {**config.coding, **config.recode}),
            wanted.records is not None,
            bool(wanted.formal),
            wanted.suppress_rest,
            wanted.released is not None,
            wanted.swap_rate is not None,
            protection is not None and swaps_like_weights(config, wanted),
            bool(outside),
        )
    )


def refuse_without_positions(data: Microdata, protection: ProtectConfig | None, memory: MemoryLimit | None) -> None:
    """Refuse early what cannot be done with records that stay on other machines, and such records without an id."""
    if not data.source.finds_by_id:
        return
    wanted = protection or ProtectConfig()
    reasons = {
        "records by their row number": wanted.records is not None,
        "a formal release": bool(wanted.formal),
        "values of single records to be blanked": wanted.suppress_rest,
    }
    asked = [reason for reason, applies in reasons.items() if applies]
    if asked:
        raise BadInput(
            f"The records of {data.source.name} stay on its machines, and this run asks for {'; '.join(asked)}. Leave that out, or write "
            "the data to Parquet files and name these instead."
        )
    data.check_id()
    if memory is not None:
        memory.check_records(n_records=data.n_records, n_keys=len(data.keys))


def distances_of(wanted: ProtectConfig) -> Distances:
    return Distances(kinds=dict(wanted.distances), weights=dict(wanted.weights))


def told_target(wanted: ProtectConfig, target: TargetPlan) -> TargetSummary:
    return TargetSummary(
        met=target.is_met,
        sentence=target.sentence,
        max_population_uniques=wanted.max_population_uniques,
        max_record_risk=wanted.max_record_risk,
        max_correct_links=wanted.max_correct_links,
    )


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan, with what was reached if there was a target, or what to report if records changed places."""

    plan: SwapPlan
    target: TargetPlan | None = None
    places: AreaSwapSummary | None = None
    tables: tuple[MarginCheck, ...] = ()


def planned_swaps(wanted: ProtectConfig, found: Assessment, progress: Progress) -> Planned:
    """Plan the swaps that the user asked for."""
    task = _task(wanted, found)
    if wanted.swap_rate is not None:
        plan, told, tables = planned_places(wanted, found, task)
        return Planned(plan, places=told, tables=tables)
    has_several, risk, register = found.roles.scenarios is not None, risk_as_known(found), reporting_register(found)
    if wanted.has_target and (has_several or wanted.households):
        reached = reach_for_all(wanted, found, task, risk, register, progress)
        return Planned(reached.plan, reached)
    if wanted.has_target:
        target = SwapTarget(wanted.max_population_uniques, wanted.max_record_risk, wanted.max_correct_links)
        reached = plan_to_target(task, risk, target, register=register, progress=progress)
        return Planned(reached.plan, reached)
    if has_several:
        return Planned(plan_for_all(wanted, found, task, progress))
    return Planned(planning_of(wanted, found)(task, _chosen_records(risk, wanted), progress))


def _task(wanted: ProtectConfig, found: Assessment) -> SwapTask:
    """Everything that swaps depend on; with survey weights, partners have similar weights."""
    config, table = found.config, found.table
    constraints, columns = rules_for_swaps(wanted, config, found.data, table, found.zeros)
    return SwapTask(
        table,
        found.model,
        risk=risk_as_known(found),
        register=_planning_register(found),
        keep=(*wanted.keep, *kept_for_scenarios(found)),
        columns=columns,
        constraints=constraints,
        distances=distances_of(wanted),
        record_ids=found.data.record_names if table.record_cell is not None else None,
        decoys=wanted.decoys,
        seed=config.seed if wanted.swap_seed is None else wanted.swap_seed,
    )


def rules_for_swaps(
    wanted: ProtectConfig, config: RunConfig, data: Microdata, table: ContingencyTable, zeros: StructuralZeros
) -> tuple[SwapConstraints, dict[str, ColumnValues]]:
    """What no swap may do, and the values of the columns that this depends on."""
    constraints = replace(_constraints(wanted), structural_zeros=zeros or None)
    named = {*constraints.columns, *(name for margin in wanted.keep for name in margin)}
    columns: dict[str, ColumnValues] = dict(_values_of(data, sorted(named - set(table.vertex_names))))
    if swaps_like_weights(config, wanted):
        weights = data.record_weights()
        assert weights is not None
        columns[WEIGHT_CLASS] = weight_classes(weights, wanted.weight_classes)
        constraints = replace(constraints, within=(*constraints.within, WEIGHT_CLASS))
    return constraints, columns


def swaps_like_weights(config: RunConfig, wanted: ProtectConfig) -> bool:
    """Whether partners must have similar survey weights."""
    return config.weight is not None and wanted.weight_classes > 0


def kept_for_scenarios(found: Assessment) -> tuple[tuple[str, ...], ...]:
    """The margins of the best model of every scenario, which are kept as well."""
    if found.roles.scenarios is None:
        return ()
    known = set(found.table.vertex_names)
    of_coarser = {c.name: c.key for one in found.roles.scenarios.each for c in one.risk.table.coarsenings}
    cliques = [
        tuple(dict.fromkeys(name if name in known else of_coarser[name] for name in clique))
        for one in found.roles.scenarios.each
        for clique in side_choice(found.roles.scenarios.table.project(list(one.keys)), found.config).best.cliques
    ]
    return tuple(dict.fromkeys(cliques))


def told_intruders(found: Assessment, release: Release, links: MovedLinks) -> tuple[IntruderSummary, ...]:
    """What each intruder finds before and after: expected, or counted in a register with the expected number beside it."""
    register = reporting_register(found)
    told = tuple(told_intruder(one) for one in try_intruders(release, register, moved=links))
    if not register.is_real:
        return told
    expected = {one.name: one for one in try_intruders(release, _modelled(found))}
    return tuple(
        one
        if one.name == "participant"
        else replace(one, estimated_before=expected[one.name].before.total, estimated_after=expected[one.name].after.total)
        for one in told
    )


def told_intruder(found: Found) -> IntruderSummary:
    return IntruderSummary(
        name=found.name,
        knows=found.knows,
        before=found.before.total,
        after=found.after.total,
        swapped=found.after.of_moved,
        interval_before=found.before.interval,
        interval_after=found.after.interval,
    )


def with_secret_seed(config: RunConfig) -> RunConfig:
    """The same run with a secret seed for choosing partners, unless the user gave one; a formal release takes none.

    A configuration file holds whole numbers of 63 bits, which is far beyond trying them all.
    """
    if config.protect is None or config.protect.formal or config.protect.swap_seed is not None:
        return config
    return replace(config, protect=replace(config.protect, swap_seed=secrets.randbits(63)))


def reporting_register(found: Assessment) -> Register:
    """What an intruder knows: the register of the run, or what the model says about the population."""
    counts = found.roles.register
    return _modelled(found) if counts is None else Register.counted(counts.people, counts.place)


def _modelled(found: Assessment) -> Register:
    """What the model says about the population, from other draws than those used for planning."""
    return Register.modelled(found.risk, found.choice.risk_model, seed=found.config.seed + 1)


def _planning_register(found: Assessment) -> Register:
    if found.roles.register is None:
        return Register.modelled(found.risk, found.choice.risk_model, seed=found.config.seed)
    return reporting_register(found).within(found.table)


def risk_as_known(found: Assessment) -> RecordRisk:
    """The risk of every record: counted if the run has a register, otherwise estimated."""
    return found.risk if found.roles.register is None else found.roles.register.risk(found.risk)


def _constraints(wanted: ProtectConfig) -> SwapConstraints:
    return SwapConstraints.from_dict(
        {
            "never_swap": list(wanted.never_swap),
            "within": list(wanted.within),
            "forbidden": list(wanted.rules),
            "untouched": list(wanted.untouched),
        }
    )


def _chosen_records(risk: RecordRisk, wanted: ProtectConfig) -> NDArray[np.int64]:
    if wanted.records is not None:
        return np.array(wanted.records, dtype=np.int64)
    if wanted.risk_above is not None:
        return risk.above(wanted.risk_above)
    if wanted.top is not None:
        return risk.riskiest(wanted.top)
    assert wanted.cell_probability_below is not None
    return risk.cell_probability_below(wanted.cell_probability_below)


def _values_of(data: Microdata, names: list[str]) -> dict[str, NDArray[np.int32]]:
    if not names:
        return {}
    codes, categories = data.column_codes(names)
    return {
        name: np.array(c.levels, dtype=object)[codes[:, k]] for k, (name, c) in enumerate(zip(names, categories, strict=True))
    }


def other_columns(data: Microdata, plan: Exchange) -> Mapping[str, ColumnValues | CrossedColumn]:
    """Columns outside the keys whose association with the swapped keys is worth reporting: not names, weights or households."""
    left_out = {*plan.table.keys, data.weight, data.household, data.id}
    names = [column.name for column in data.source.columns() if column.name not in left_out and column.kind != "other"]
    most = min(MOST_LEVELS, max(50, data.n_records // 100))
    if plan.table.record_cell is None:
        moved = [key for key in plan.table.keys if plan.moves(key).any()]
        return crossed_columns(data, plan.table, moved, names, plan.rows, seed=plan.seed, most_values=most)
    if not names:
        return {}
    codes, categories = data.column_codes(names)
    return {c.key: CodedColumn(codes[:, k], c.levels) for k, c in enumerate(categories) if 1 < c.n_levels <= most}


def costs_of_keeping(found: Assessment, wanted: ProtectConfig) -> tuple[KeepingCost, ...]:
    """The cost of keeping each further margin, in records that become fixed."""
    names = sorted({name for margin in wanted.keep for name in margin} - set(found.table.vertex_names))
    costs = cost_of_keeping(found.table, found.model, wanted.keep, columns=_values_of(found.data, names))
    return tuple(KeepingCost(variables=tuple(margin), records_fixed=int(n)) for margin, n in costs.items())
