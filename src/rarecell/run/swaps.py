"""What does a request to protect records mean for swaps?

Turns a :class:`~rarecell.run.config.ProtectConfig` into a plan: which records, under which rules, towards which target,
and which further columns to look at.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.data.crossing import crossed_columns
from rarecell.data.microdata import Microdata
from rarecell.errors import BadInput
from rarecell.graph.masks import mask_of, single
from rarecell.intruder.nearest import MovedLinks
from rarecell.intruder.register import Register
from rarecell.intruder.residual_risk import risk_after
from rarecell.intruder.shadow import shadow_links
from rarecell.intruder.trial import Found, holds_everybody, try_intruders
from rarecell.machine.memory import MemoryLimit
from rarecell.outcome.swap import AreaSwapSummary, FileUtility, IntruderSummary, KeepingCost, MeanMoved, SureLinks, TargetSummary
from rarecell.outcome.words import counted, number, verb
from rarecell.progress import Progress
from rarecell.release.release import Release
from rarecell.release.utility import weight_classes
from rarecell.risk.records import RecordRisk
from rarecell.risk.scenarios import ScenarioRisk, Scenarios
from rarecell.run.config import PARTICIPANTS, ProtectConfig, RunConfig
from rarecell.run.households import consistent, planned_families
from rarecell.run.results import Assessment
from rarecell.run.roles import side_model
from rarecell.run.utility import file_utility, is_measured
from rarecell.swap.apply import MarginCheck, MarginsDiffer
from rarecell.swap.areas import AreaSwaps, AreaSwapTask, plan_area_swaps, risk_levels
from rarecell.swap.households import plan_household_swaps
from rarecell.swap.interactions import Interactions
from rarecell.swap.plan import SwapPlan, plan_task
from rarecell.swap.reasons import NO_PLACE, Unswapped
from rarecell.swap.rules import SwapConstraints
from rarecell.swap.scenarios import Chosen, Planning, plan_for_scenarios, plan_scenarios_to_target, plan_single
from rarecell.swap.swappable import cost_of_keeping
from rarecell.swap.target import (
    NEAREST,
    PARTICIPANT,
    SwapTarget,
    TargetPlan,
    frontier,
    plan_against_participants,
    plan_to_k,
    plan_to_target,
)
from rarecell.swap.task import Spared, SwapTask
from rarecell.swap.units import Units
from rarecell.table.columns import CodedColumn, ColumnValues, CrossedColumn
from rarecell.table.contingency import ContingencyTable
from rarecell.table.distance import Distances
from rarecell.table.structural_zeros import StructuralZeros, compatibility

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
            wanted.suppress_rest or wanted.k is not None or wanted.limits_attributes,
            bool(wanted.spare) or wanted.max_change is not None,
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
        "values of single records to be blanked": wanted.suppress_rest or wanted.k is not None or wanted.limits_attributes,
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
    notes: tuple[str, ...] = ()


MOST_SPARED_LEVELS = 200
"""A column of words with more levels than this cannot be spared: hardly two records are alike."""


@dataclass(frozen=True)
class Sparing:
    """How far a plan goes to leave columns beside the keys as they are.

    Attributes
    ----------
    weights : mapping of str to float
        Columns in which partners should be alike, and what it costs that they are not.
    n_classes : int
        Number of classes of about equal size into which a numeric column is cut: partners in one class are alike.
    n_candidates : int
        Number of partners considered for each record.
    barred : tuple of int
        Records that are no partners, because their values moved a mean too far.
    still : tuple of str
        Keys that stay with their record.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    n_classes: int = 10
    n_candidates: int = 16
    barred: tuple[int, ...] = ()
    still: tuple[str, ...] = ()


_HARDER = ((3.0, 10, 16), (10.0, 20, 32), (30.0, 40, 64))
"""Weights, classes and candidates of further plans, where the first one moves means by more than was allowed."""

_ROUNDS, _BARRED_AT_ONCE = 4, 0.25
"""Rounds in which the partners of those pairs are barred that moved a mean most, and the share of the pairs barred in each."""

_KEYS_STILL = 2
"""Number of keys that are left alone, one after the other, if nothing else helps."""


def planned_within(wanted: ProtectConfig, found: Assessment, progress: Progress) -> Planned:
    """Plan the swaps that the user asked for, so that means of other columns move by no more than was allowed, if that is possible.

    1. Partners alike in the columns that moved too far are preferred: more and more, in finer classes, among more candidates.
    2. Partners whose values moved a mean most are barred.
    3. Keys by whose levels means still move too far stay with their record.

    A plan that protects fewer records, or misses a target that the first one met, is no help. Of the others the one with the smallest
    change is returned; what it reached is told.
    """
    # A column that an intruder may know gives a swap away unless partners are alike in it.
    sparing = Sparing(dict.fromkeys([*(wanted.spare or found.config.sensitive), *wanted.also_known], 1.0))
    first = best = planned_swaps(wanted, found, progress, sparing)
    change = None
    if wanted.max_change is not None and wanted.swap_rate is None and found.table.record_cell is not None:
        change = file_utility(found, best.plan.release)
    if change is None or wanted.max_change is None:
        return best
    for step in range(len(_HARDER) + _ROUNDS + _KEYS_STILL):
        if change.largest <= wanted.max_change:
            break
        harder = _harder(sparing, step, change, wanted.max_change, best.plan, found)
        if harder is None:
            continue
        other = planned_swaps(wanted, found, progress, harder)
        changed = file_utility(found, other.plan.release)
        if changed is None or not _protects_as_well(other, first):
            continue
        if changed.largest < change.largest or step < len(_HARDER):
            sparing = harder
        if changed.largest < change.largest:
            best, change = other, changed
    return best


def _protects_as_well(other: Planned, first: Planned) -> bool:
    misses = first.target is not None and first.target.is_met and not (other.target is not None and other.target.is_met)
    return other.plan.n_protected >= first.plan.n_protected and not misses


def _harder(sparing: Sparing, step: int, change: FileUtility, limit: float, plan: SwapPlan, found: Assessment) -> Sparing | None:
    """What to try next, where means still move by more than the limit; None if this step has nothing to try."""
    beyond = [one for one in change.means if one.size > limit]
    if step < len(_HARDER):
        weight, n_classes, n_candidates = _HARDER[step]
        columns = dict.fromkeys([*sparing.weights, *(one.column for one in beyond)], weight)
        return replace(sparing, weights=columns, n_classes=n_classes, n_candidates=n_candidates)
    if step < len(_HARDER) + _ROUNDS:
        barred = {*sparing.barred, *_far_partners(beyond, plan, found)}
        return replace(sparing, barred=tuple(sorted(barred))) if len(barred) > len(sparing.barred) else None
    still = tuple(dict.fromkeys([*sparing.still, beyond[0].key]))
    return replace(sparing, still=still) if len(still) < found.table.n_keys and still != sparing.still else None


def _far_partners(beyond: Sequence[MeanMoved], plan: SwapPlan, found: Assessment) -> set[int]:
    """Partners in the pairs that moved a mean most in the direction in which it went; not records that are to be protected themselves."""
    table, whole = plan.table, found.data.whole_file(plan.table)
    if not whole.is_complete or not len(plan.records):
        return set()
    release, far = plan.release, set[int]()
    order = np.argsort(release.rows)
    place = order[np.searchsorted(release.rows[order], np.concatenate([plan.records, plan.partners]))]
    for one in beyond:
        k = table.keys.index(one.key)
        level = table.categories[k].shown.index(one.level)
        values = whole.columns[one.column].values[release.rows]
        apart = np.where(np.isnan(values), 0.0, values - one.before)
        enters, leaves = release.released[:, k] == level, release.true[:, k] == level
        push = np.sign(one.after - one.before) * apart * (enters.astype(np.float64) - leaves)
        of_pair = push[place].reshape(2, -1).sum(axis=0)
        worst = np.argsort(-of_pair)[: max(1, int(_BARRED_AT_ONCE * (of_pair > 0).sum()))]
        far |= set(plan.partners[worst[of_pair[worst] > 0]].tolist())
    return far - set(plan.requested.tolist())


def spared_columns(found: Assessment, sparing: Sparing) -> tuple[tuple[Spared, ...], dict[str, ColumnValues]]:
    """Columns in which partners should be alike, and the class of each record; none where the records are not held."""
    if found.table.record_cell is None or not sparing.weights:
        return (), {}
    whole = found.data.whole_file(found.table)
    spared, columns = [], dict[str, ColumnValues]()
    for name, weight in sparing.weights.items():
        column = whole.columns.get(name)
        if column is None or name in found.table.keys or not whole.is_complete:
            continue
        is_amount = is_measured(found.data, column)
        if not is_amount and column.n_levels > MOST_SPARED_LEVELS:
            continue
        classes, n_classes = column.codes, column.n_levels
        if is_amount:
            known = column.codes >= 0
            classes = np.full(len(known), -1, dtype=np.int32)
            classes[known] = weight_classes(column.values[known], sparing.n_classes)
            n_classes = int(classes.max(initial=0)) + 1
        label = f"class of similar {name}"
        codes = np.where(classes >= 0, classes, n_classes).astype(np.int32)
        columns[label] = CodedColumn(codes, tuple(range(n_classes + 1)))
        spared.append(Spared(label, n_classes + 1, is_amount, weight))
    return tuple(spared), columns


def planned_swaps(wanted: ProtectConfig, found: Assessment, progress: Progress, sparing: Sparing | None = None) -> Planned:
    """Plan the swaps that the user asked for, and leave out those that would break what is true of every household.

    ``sparing`` says how far columns beside the keys are to be spared.
    """
    planned = _planned(wanted, found, progress, sparing or Sparing())
    if planned.places is not None:
        return planned
    plan, said = consistent(found, planned.plan)
    return planned if not said else replace(planned, plan=plan, notes=(*planned.notes, said))


HARDER = ((0.0, 0.0), (0.1, 0.0), (0.3, 0.0), (1.0, 0.0), (1.0, 0.5))
"""What is tried, one after the other, until few links are sure: the price of entering a cell without people, and decoys."""

SURE_ABOVE = 0.8
"""Certainty above which a link counts as sure."""


def _planned(wanted: ProtectConfig, found: Assessment, progress: Progress, sparing: Sparing) -> Planned:
    task = _task(wanted, found, sparing)
    if wanted.max_sure_links is None:
        return _planned_once(wanted, found, task, progress)
    register, best, fewest = reporting_register(found), None, np.inf
    for empty_weight, decoys in HARDER:
        harder = replace(task, empty_weight=empty_weight, decoys=max(task.decoys, decoys))
        planned = _planned_once(wanted, found, harder, progress)
        claimed = sure_links(register.seen(planned.plan.release), register)
        if claimed < fewest:
            best, fewest = planned, claimed
        if claimed <= wanted.max_sure_links:
            break
    assert best is not None
    outcome = (
        ""
        if fewest <= wanted.max_sure_links
        else " That is more than was asked for; recode a key or blank values to get below it."
    )
    sentence = (
        f"Somebody who has this program and a register is surer than {SURE_ABOVE} of {number(fewest, 1)} links, and at most "
        f"{number(wanted.max_sure_links)} were asked for.{outcome}"
    )
    return replace(best, notes=(*best.notes, sentence))


def sure_links(release: Release, register: Register) -> float:
    """Number of links that somebody who has the program is sure of."""
    sure = shadow_links(release, register).sure
    return next(one.claimed for one in sure if one.above == SURE_ABOVE)


def _planned_once(wanted: ProtectConfig, found: Assessment, task: SwapTask, progress: Progress) -> Planned:
    if wanted.swap_rate is not None:
        plan, told, tables = planned_places(wanted, found, task)
        return Planned(plan, places=told, tables=tables)
    has_several, risk, register = found.roles.scenarios is not None, risk_as_known(found), reporting_register(found)
    if wanted.against in PARTICIPANTS and (has_several or wanted.households or found.known_families is not None):
        raise BadInput(
            "--against participant is for files of persons and one intruder who knows all keys. Leave out the scenarios, and say --households-known "
            "no or leave out the household column."
        )
    if found.known_families is not None and not wanted.households and not wanted.is_for_k_alone:
        families, target_of_families = planned_families(wanted, found, task, risk, register, _untouched(task), progress)
        return Planned(families, target_of_families)
    if wanted.has_target and (has_several or wanted.households):
        reached = reach_for_all(wanted, found, task, risk, register, progress)
        return Planned(reached.plan, reached)
    if wanted.has_target:
        against = PARTICIPANT if is_against_participants(wanted, found, register) else NEAREST
        target = SwapTarget(wanted.max_population_uniques, wanted.max_record_risk, wanted.max_correct_links, against)
        plan_towards = plan_to_target if against == NEAREST else plan_against_participants
        reached = plan_towards(task, risk, target, register=register, progress=progress)
        return Planned(reached.plan, reached)
    if wanted.is_for_k_alone:
        assert wanted.k is not None
        is_plain = not has_several and not wanted.households
        return Planned(plan_to_k(task, wanted.k, progress=progress) if is_plain else plan_task(task, np.zeros(0, dtype=np.int64)))
    if has_several:
        return Planned(plan_for_all(wanted, found, task, progress))
    return Planned(planning_of(wanted, found)(task, _chosen_records(risk, wanted), progress))


def is_against_participants(wanted: ProtectConfig, found: Assessment, register: Register) -> bool:
    """Whether a target is meant against somebody who knows that a person is in the file: asked for, or because everybody is."""
    if wanted.against is not None:
        return wanted.against in PARTICIPANTS
    return wanted.max_population_uniques is None and holds_everybody(found.table, register)


def seed_of(config: RunConfig, wanted: ProtectConfig) -> int:
    """The seed of everything that is done to the records: a secret one when a release is written."""
    return config.seed if wanted.swap_seed is None else wanted.swap_seed


def _task(wanted: ProtectConfig, found: Assessment, sparing: Sparing) -> SwapTask:
    """Everything that swaps depend on; with survey weights, partners have similar weights."""
    config, table = found.config, found.table
    constraints, columns = rules_for_swaps(wanted, config, found.data, table, found.zeros)
    spared, classes = spared_columns(found, Sparing() if wanted.households or wanted.swap_rate is not None else sparing)
    constraints = replace(
        constraints,
        never_swap=tuple(dict.fromkeys([*constraints.never_swap, *sparing.still])),
        untouched_records=np.array(sparing.barred, dtype=np.int64),
    )
    return SwapTask(
        table,
        found.model,
        risk=risk_as_known(found),
        register=_planning_register(found),
        keep=(*wanted.keep, *kept_for_scenarios(found)),
        columns={**columns, **classes},
        constraints=constraints,
        distances=distances_of(wanted),
        spare=spared,
        max_candidates=sparing.n_candidates,
        record_ids=found.data.record_names if table.record_cell is not None else None,
        decoys=wanted.decoys,
        seed=seed_of(config, wanted),
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
        columns[WEIGHT_CLASS] = weight_classes(weights, _n_weight_classes(weights, wanted.weight_classes))
        constraints = replace(constraints, within=(*constraints.within, WEIGHT_CLASS))
    return constraints, columns


LEAST_ALIKE = 10
"""Weights that are shared by this many records on average come from post-strata, and name them."""


def _n_weight_classes(weights: NDArray[np.float64], n_classes: int) -> int:
    """Number of classes of weights within which records are swapped; every weight is one where weights take few values.

    A calibrated weight that stays with its row would tell the post-stratum that a swapped row came from.
    """
    return len(weights) if len(np.unique(weights)) * LEAST_ALIKE <= len(weights) else n_classes


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
        for clique in side_model(found.roles.scenarios.table.project(list(one.keys)), found.config).cliques
    ]
    return tuple(dict.fromkeys(cliques))


def told_intruders(
    found: Assessment, release: Release, links: MovedLinks, distances: Distances | None = None
) -> tuple[IntruderSummary, ...]:
    """What each intruder finds before and after: expected, or counted in a register with the expected number beside it."""
    register = reporting_register(found)
    told = tuple(
        told_intruder(one)
        for one in try_intruders(
            release, register, distances=distances, moved=links, key_error=found.config.key_error, seed=found.config.seed
        )
    )
    if not register.is_real:
        return told
    expected = {one.name: one for one in try_intruders(release, _modelled(found), distances=distances)}
    return tuple(
        one
        if one.name in ("participant", "assignment")
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
        distance=found.after.distance,
        sure=tuple(SureLinks(above=one.above, claimed=one.claimed, right=one.right) for one in found.after.sure),
    )


def with_earlier_seed(config: RunConfig) -> RunConfig:
    """The same run with the seed of an earlier release of the file that it names, unless the user gave one.

    With the same choices the same records then move in the same way, and whoever holds both releases learns nothing from the second.
    """
    wanted = config.protect
    if wanted is None or wanted.released is None or wanted.formal or wanted.swap_seed is not None:
        return config
    choices = Path(wanted.released) / "run.toml"
    if not choices.is_file():
        return config
    earlier = RunConfig.read(choices)
    drawn = earlier.seed if earlier.protect is None or earlier.protect.swap_seed is None else earlier.protect.swap_seed
    return replace(config, protect=replace(wanted, swap_seed=drawn))


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


def other_columns(data: Microdata, release: Release) -> Mapping[str, ColumnValues | CrossedColumn]:
    """Columns outside the keys whose association with the swapped keys is worth reporting: not names, weights or households."""
    table = release.before
    left_out = {*table.keys, data.weight, *data.household_columns, *data.id_columns}
    names = [column.name for column in data.source.columns() if column.name not in left_out and column.kind != "other"]
    most = min(MOST_LEVELS, max(50, data.n_records // 100))
    if table.record_cell is None:
        moved = [key for key in table.keys if release.moves(key).any()]
        return crossed_columns(data, table, moved, names, release.rows, seed=release.seed, most_values=most)
    if not names:
        return {}
    codes, categories = data.column_codes(names)
    return {c.key: CodedColumn(codes[:, k], c.levels) for k, c in enumerate(categories) if 1 < c.n_levels <= most}


def costs_of_keeping(found: Assessment, wanted: ProtectConfig) -> tuple[KeepingCost, ...]:
    """The cost of keeping each further margin, in records that become fixed."""
    names = sorted({name for margin in wanted.keep for name in margin} - set(found.table.vertex_names))
    costs = cost_of_keeping(found.table, found.model, wanted.keep, columns=_values_of(found.data, names))
    return tuple(KeepingCost(variables=tuple(margin), records_fixed=int(n)) for margin, n in costs.items())


# How do records change places when a run asks for a swap rate?
#
# A record is at risk at a level of areas if its risk would be above the threshold, had the file been released with that level. The
# plan of :mod:`rarecell.swap.areas` becomes a plan of swaps like any other, so that it is compared, applied and judged alike.


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
    table, conditions, barred = (
        task.table,
        task.constraints.untouched,
        np.asarray(task.constraints.untouched_records, dtype=np.int64),
    )
    if not conditions and not len(barred) and (table.record_cell is None or (table.record_cell >= 0).all()):
        return None
    names = dict.fromkeys(name for condition in conditions for name in condition if name not in table.keys)
    units = Units.of(table, tuple(names), task.columns)
    of_unit = np.zeros(units.n_units, dtype=bool)
    for condition in conditions:
        of_unit |= units.where(condition)
    # The last place is for dropped records, whose unit is −1.
    untouched = np.asarray(np.append(of_unit, True)[units.unit_of(np.arange(table.n_rows))])
    untouched[barred] = True
    return untouched


def n_impossible(plan: SwapPlan) -> int:
    """Number of records that get a combination of values which looks impossible."""
    zeros = plan.task.constraints.structural_zeros
    return 0 if not zeros else int(compatibility(plan.table, zeros).violates(plan.new_cells).sum())


def _households(wanted: ProtectConfig, found: Assessment) -> CodedColumn:
    if found.config.household is None:
        raise BadInput(
            "Whole households are to change places, but no column identifies the households; name it with --household."
        )
    if len(found.data.household_columns) > 1:
        numbers = found.data.household_codes()
        assert numbers is not None
        return CodedColumn(numbers.astype(np.int32), tuple(range(int(numbers.max()) + 1)))
    codes, (categories,) = found.data.column_codes(found.data.household_columns)
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
        # Records that were dropped are in no cell, before and after.
        before_cell, after_cell = (part[part >= 0] for part in np.split(position, 2))
        difference = np.bincount(before_cell, minlength=len(cells)) - np.bincount(after_cell, minlength=len(cells))
        check = MarginCheck(tuple(names), len(cells), int((difference != 0).sum()))
        if not check.is_identical:
            raise MarginsDiffer(
                f"Internal error: the swaps would change {check.n_differing:,} cells of the table of {', '.join(names)}, which is to be kept. "
                "Nothing was written."
            )
        found.append(check)
    return tuple(found)


# Which swaps are needed by a run that names several intruders, or whole households?
#
# However records are chosen, by risk, by a target or by name, the choice is made over all scenarios. A run without scenarios has
# one intruder, who knows all keys.


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
    links = reached.plan.links(register)
    points = frontier(risk, reached.plan, links)
    return TargetPlan(reached.plan, risk_after(risk, reached.plan.release, links), reached.is_met, points, reached.sentence)
