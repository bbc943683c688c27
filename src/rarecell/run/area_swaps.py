"""How do records change places when a run asks for a swap rate?

A record is at risk at a level of areas if its risk would be above the threshold, had the file been released with that level. The
plan of :mod:`rarecell.swap.areas` becomes a plan of swaps like any other, so that it is compared, applied and judged alike.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.errors import BadInput
from rarecell.graph.masks import mask_of, single
from rarecell.outcome.swap import AreaSwapSummary
from rarecell.outcome.words import counted, verb
from rarecell.run.config import ProtectConfig
from rarecell.run.results import Assessment
from rarecell.swap.apply import MarginCheck, MarginsDiffer
from rarecell.swap.areas import AreaSwaps, AreaSwapTask, plan_area_swaps, risk_levels
from rarecell.swap.interactions import Interactions
from rarecell.swap.plan import SwapPlan
from rarecell.swap.reasons import NO_PLACE, Unswapped
from rarecell.swap.task import SwapTask
from rarecell.swap.units import CodedColumn, ColumnValues, Units
from rarecell.table.contingency import ContingencyTable
from rarecell.table.structural_zeros import compatibility

WEIGHT_CLASS = "class of similar weight"
"""Name of the column of weight classes, for messages."""


def planned_places(
    wanted: ProtectConfig, found: Assessment, task: SwapTask
) -> tuple[SwapPlan, AreaSwapSummary, tuple[MarginCheck, ...]]:
    """The swaps between areas, their summary, and the comparison of the kept tables."""
    assert wanted.swap_rate is not None
    data, table, areas = found.data, found.table, found.data.areas
    if areas[-1] not in table.keys:
        raise BadInput(
            f"Records are to change places, so their finest area '{areas[-1]}' must be one of the keys; add it to --keys."
        )
    within = task.constraints.within
    named = [*areas, *wanted.carry, *(name for names in (*wanted.similar, *wanted.keep, within) for name in names)]
    codes, categories = data.column_codes([name for name in dict.fromkeys(named) if name != WEIGHT_CLASS])
    columns: dict[str, ColumnValues] = {
        c.key: CodedColumn(np.ascontiguousarray(codes[:, k]), c.levels) for k, c in enumerate(categories)
    }
    if WEIGHT_CLASS in within:
        columns[WEIGHT_CLASS] = task.columns[WEIGHT_CLASS]
    asked = AreaSwapTask(
        columns,
        areas,
        wanted.similar or ((),),
        wanted.keep,
        wanted.carry,
        _households(wanted, found) if wanted.households else None,
        alike=within,
        untouched=_untouched(task),
    )
    level = _levels_at_risk(wanted, found)
    swaps = plan_area_swaps(asked, level, rate=wanted.swap_rate, record_ids=data.record_names, seed=task.seed)
    plan = _as_plan(swaps, level, areas, table, replace(task, keep=wanted.keep))
    return plan, _told(swaps, asked, n_impossible(plan)), compared_tables(asked, swaps)


def _untouched(task: SwapTask) -> NDArray[np.bool_] | None:
    """Records that no swap may touch: those that a rule names, and those that were dropped; None if there are none."""
    table, conditions = task.table, task.constraints.untouched
    if not conditions and (table.record_cell is None or (table.record_cell >= 0).all()):
        return None
    names = dict.fromkeys(name for condition in conditions for name in condition if name not in table.keys)
    units = Units.of(table, tuple(names), task.columns)
    of_unit = np.zeros(units.n_units, dtype=bool)
    for condition in conditions:
        of_unit |= units.where(condition)
    # The last place is for dropped records, whose unit is −1.
    return np.asarray(np.append(of_unit, True)[units.unit_of(np.arange(table.n_rows))])


def n_impossible(plan: SwapPlan) -> int:
    """Number of records that get a combination of values which looks impossible."""
    zeros = plan.task.constraints.structural_zeros
    return 0 if not zeros else int(compatibility(plan.table, zeros).violates(plan.new_cells).sum())


def _households(wanted: ProtectConfig, found: Assessment) -> CodedColumn:
    if found.config.household is None:
        raise BadInput(
            "Whole households are to change places, but no column identifies the households; name it with --household."
        )
    codes, (categories,) = found.data.column_codes([found.config.household])
    return CodedColumn(np.ascontiguousarray(codes[:, 0]), categories.levels)


def _levels_at_risk(wanted: ProtectConfig, found: Assessment) -> NDArray[np.int64]:
    """The coarsest level of areas at which each record is above the threshold."""
    threshold = found.config.threshold if wanted.risk_above is None else wanted.risk_above
    risks = found.roles.area_risks[-len(found.data.areas) :]
    levels = risk_levels([np.nan_to_num(risk.per_record()["unique_probability"]) > threshold for risk in risks])
    if found.roles.register is not None:
        # Whoever is alone in the register is at risk whatever was estimated; the finest area is a key.
        alone = np.append((found.table.counts == 1) & (found.roles.register.population_count == 1), False)
        is_alone = alone[found.table.cell_of(np.arange(found.table.n_rows))]
        levels = np.where(is_alone, np.minimum(levels, len(risks) - 1), levels)
    scenarios = found.roles.scenarios
    for one in () if scenarios is None else scenarios.each:
        known = [place for place, area in enumerate(found.data.areas) if area in one.keys]
        if known:
            at_risk = np.append(one.unique_probability > threshold, False)[found.table.cell_of(np.arange(found.table.n_rows))]
            levels = np.where(at_risk, np.minimum(levels, known[0]), levels)
    return levels


def _as_plan(
    swaps: AreaSwaps, level: NDArray[np.int64], areas: tuple[str, ...], table: ContingencyTable, task: SwapTask
) -> SwapPlan:
    kept = [table.close(table.mask_of(names)) for names in task.keep if all(name in table.vertex_names for name in names)]
    kept += [table.close(single(k)) for k in range(table.n_keys)]
    stays = mask_of(k for k, key in enumerate(table.keys) if key not in areas)
    requested = np.flatnonzero(level < len(areas))
    moved = np.zeros(len(swaps), dtype=np.uint64)
    one, other = table.cells[table.cell_of(swaps.records)], table.cells[table.cell_of(swaps.partners)]
    for k, key in enumerate(table.keys):
        if key in areas:
            moved |= np.where(one[:, k] != other[:, k], np.uint64(single(k)), np.uint64(0))
    # Exchanging areas that are the same in the table, because their level was merged or banded, changes nothing.
    distance = np.array([int(mask).bit_count() for mask in moved.tolist()], dtype=np.float64)
    crossed = dict(zip(np.concatenate([swaps.records, swaps.partners]).tolist(), np.tile(swaps.level, 2).tolist(), strict=True))
    left = [row for row in requested.tolist() if crossed.get(row, len(areas)) > level[row]]
    return SwapPlan(
        task=task,
        interactions=Interactions(table, (), tuple(kept), stays),
        units=Units.of(table, (), {}),
        requested=requested,
        records=swaps.records,
        partners=swaps.partners,
        moved=moved,
        distance=distance,
        cost=distance,
        unswapped=tuple(Unswapped(row, NO_PLACE) for row in left),
    )


def _told(swaps: AreaSwaps, task: AreaSwapTask, impossible: int) -> AreaSwapSummary:
    levels, profiles = Counter(swaps.level.tolist()), Counter(swaps.profile.tolist())
    told = [str(swaps), *([swaps.warning] if swaps.warning else [])]
    if impossible:
        told.append(
            f"{counted(impossible, 'record')} {verb(impossible, 'has', 'have')} a combination of values in the new place that looks "
            "impossible, which may give the swap away. A column of such a combination in every profile (--similar) prevents it."
        )
    return AreaSwapSummary(
        units=swaps.n_units,
        swapped=swaps.n_swapped,
        rate=swaps.rate,
        risky=swaps.n_risky,
        risky_left=swaps.n_left,
        partners=swaps.n_partners,
        by_chance=swaps.n_by_chance,
        wanted=swaps.wanted,
        unit=swaps.unit,
        levels={task.areas[place]: n for place, n in sorted(levels.items())},
        profiles={", ".join(task.similar[place]) or "any": n for place, n in sorted(profiles.items())},
        sentence=" ".join(told),
    )


def compared_tables(task: AreaSwapTask, swaps: AreaSwaps) -> tuple[MarginCheck, ...]:
    """Count every table to keep before and after the swaps, from the records themselves; an error if one differs."""
    travels = {*task.areas, *task.carry}
    found: list[MarginCheck] = []
    for names in task.keep:
        before, after, levels = [], [], []
        for name in names:
            column = task.columns[name]
            assert isinstance(column, CodedColumn)
            codes = column.codes.copy()
            if name in travels:
                codes[swaps.records], codes[swaps.partners] = column.codes[swaps.partners], column.codes[swaps.records]
            before.append(column.codes)
            after.append(codes)
            levels.append(len(column.levels))
        both = [np.concatenate(pair) for pair in zip(before, after, strict=True)]
        cells, _, position = collapse_records(both, levels)
        n_records = task.n_records
        difference = np.bincount(position[:n_records], minlength=len(cells)) - np.bincount(
            position[n_records:], minlength=len(cells)
        )
        check = MarginCheck(tuple(names), len(cells), int((difference != 0).sum()))
        if not check.is_identical:
            raise MarginsDiffer(
                f"Internal error: the swaps would change {check.n_differing:,} cells of the table of {', '.join(names)}, which is to be kept. "
                "Nothing was written."
            )
        found.append(check)
    return tuple(found)
