"""What does a request to protect records mean for swaps?

Turns a :class:`~rarecell.run.config.ProtectConfig` into a plan: which records, under which rules, towards which target,
and which further columns to look at.
"""

from __future__ import annotations

import os
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
from rarecell.intruder.links import Links
from rarecell.intruder.nearest import MovedLinks
from rarecell.intruder.register import CELLS_TO_PLAN, Register
from rarecell.intruder.residual_risk import risk_after
from rarecell.intruder.trial import holds_everybody, try_intruders
from rarecell.machine.memory import MemoryLimit
from rarecell.outcome.swap import AreaSwapSummary, FileUtility, IntruderSummary, KeepingCost, MeanMoved, TargetSummary
from rarecell.outcome.words import counted, number, people, verb
from rarecell.progress import Progress
from rarecell.release.release import Release
from rarecell.release.utility import weight_classes
from rarecell.risk.records import RecordRisk
from rarecell.risk.scenarios import ScenarioRisk, Scenarios
from rarecell.run.config import PARTICIPANTS, ProtectConfig, RunConfig
from rarecell.run.households import consistent, keys_held_together, planned_families
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
from rarecell.swap.sure_links import SURE_ABOVE, Replanned, with_few_sure_links
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

MOST_LEVELS_COMPARED = 10_000
"""Columns outside the keys with more levels than this are not checked for associations."""


def needs_records(config: RunConfig, protection: ProtectConfig | None) -> bool:
    """Whether the run needs to know more about a record than its cell."""
    request = protection or ProtectConfig()
    named = {*_constraints(request).columns, *(name for margin in request.keep for name in margin)}
    # Coarsenings are named after their key: age/10.
    outside = [name for name in named if name not in config.keys and name.rpartition("/")[0] not in config.keys]
    return any(
        (
            config.household is not None or request.households or bool(request.cluster),
            config.strata is not None
            and (config.strata not in config.keys or config.strata in {**config.coding, **config.recode}),
            request.records is not None,
            bool(request.formal),
            request.suppress_rest or request.k is not None or request.limits_attributes,
            bool(request.spare) or request.max_change is not None,
            request.released is not None,
            request.swap_rate is not None or request.rake,
            protection is not None and swaps_like_weights(config, request),
            bool(outside),
        )
    )


def refuse_without_positions(data: Microdata, protection: ProtectConfig | None, memory: MemoryLimit | None) -> None:
    """Refuse early what cannot be done with records that stay on other machines, and such records without an id."""
    if not data.source.finds_by_id:
        return
    request = protection or ProtectConfig()
    reasons = {
        "records by their row number": request.records is not None,
        "a formal release": bool(request.formal),
        "weights to be raked": request.rake,
        "values of single records to be blanked": request.suppress_rest or request.k is not None or request.limits_attributes,
    }
    impossible = [reason for reason, applies in reasons.items() if applies]
    if impossible:
        raise BadInput(
            f"The records of {data.source.name} stay on its machines, and this run asks for {'; '.join(impossible)}. Leave that out, or write "
            "the data to Parquet files and name these instead."
        )
    data.check_id()
    if memory is not None:
        memory.check_records(n_records=data.n_records, n_keys=len(data.keys))


def distances_of(request: ProtectConfig) -> Distances:
    return Distances(kinds=dict(request.distances), weights=dict(request.weights))


def target_summary(request: ProtectConfig, target: TargetPlan) -> TargetSummary:
    return TargetSummary(
        met=target.is_met,
        sentence=target.sentence,
        against=target.against,
        max_population_uniques=request.max_population_uniques,
        max_record_risk=request.max_record_risk,
        max_correct_links=request.max_correct_links,
    )


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan, with what was reached if there was a target, or what to report if records changed places.

    ``shadow`` is what somebody who has the program finds, if that was asked in order to plan.
    """

    plan: SwapPlan
    target: TargetPlan | None = None
    places: AreaSwapSummary | None = None
    tables: tuple[MarginCheck, ...] = ()
    notes: tuple[str, ...] = ()
    shadow: Links | None = None

    def links(self, register: Register) -> MovedLinks:
        """What somebody finds about the moved records who links to the nearest person; not tried again if the target asked for it."""
        target = self.target
        if target is not None and target.plan is self.plan and target.links is not None:
            return target.links
        return self.plan.links(register)


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


def planned_within(request: ProtectConfig, assessment: Assessment, progress: Progress) -> Planned:
    """Plan the swaps that the user asked for, so that means of other columns move by no more than was allowed, if that is possible.

    1. Partners alike in the columns that moved too far are preferred: more and more, in finer classes, among more candidates.
    2. Partners whose values moved a mean most are barred.
    3. Keys by whose levels means still move too far stay with their record.

    A plan that protects fewer records, or misses a target that the first one met, is no help. Of the others the one with the smallest
    change is returned; what it reached is told.
    """
    # A column that an intruder may know gives a swap away unless partners are alike in it.
    sparing = Sparing(dict.fromkeys([*(request.spare or assessment.config.sensitive), *request.also_known], 1.0))
    first = best = planned_swaps(request, assessment, progress, sparing)
    change = None
    if request.max_change is not None and request.swap_rate is None and assessment.table.record_cell is not None:
        change = file_utility(assessment, best.plan.release)
    if change is None or request.max_change is None:
        return best
    for step in range(len(_HARDER) + _ROUNDS + _KEYS_STILL):
        if change.largest <= request.max_change:
            break
        harder = _harder(sparing, step, change, request.max_change, best.plan, assessment)
        if harder is None:
            continue
        other = planned_swaps(request, assessment, progress, harder)
        changed = file_utility(assessment, other.plan.release)
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


def _harder(
    sparing: Sparing, step: int, change: FileUtility, limit: float, plan: SwapPlan, assessment: Assessment
) -> Sparing | None:
    """What to try next, where means still move by more than the limit; None if this step has nothing to try."""
    beyond = [mean for mean in change.means if mean.size > limit]
    if step < len(_HARDER):
        weight, n_classes, n_candidates = _HARDER[step]
        columns = dict.fromkeys([*sparing.weights, *(mean.column for mean in beyond)], weight)
        return replace(sparing, weights=columns, n_classes=n_classes, n_candidates=n_candidates)
    if step < len(_HARDER) + _ROUNDS:
        barred = {*sparing.barred, *_far_partners(beyond, plan, assessment)}
        return replace(sparing, barred=tuple(sorted(barred))) if len(barred) > len(sparing.barred) else None
    still = tuple(dict.fromkeys([*sparing.still, beyond[0].key]))
    return replace(sparing, still=still) if len(still) < assessment.table.n_keys and still != sparing.still else None


def _far_partners(beyond: Sequence[MeanMoved], plan: SwapPlan, assessment: Assessment) -> set[int]:
    """Partners in the pairs that moved a mean most in the direction in which it went; not records that are to be protected themselves."""
    table, whole = plan.table, assessment.data.whole_file(plan.table)
    if not whole.is_complete or not len(plan.records):
        return set()
    release, far = plan.release, set[int]()
    order = np.argsort(release.rows)
    place = order[np.searchsorted(release.rows[order], np.concatenate([plan.records, plan.partners]))]
    for mean in beyond:
        k = table.keys.index(mean.key)
        level = table.categories[k].shown.index(mean.level)
        values = whole.columns[mean.column].values[release.rows]
        apart = np.where(np.isnan(values), 0.0, values - mean.before)
        enters, leaves = release.released[:, k] == level, release.true[:, k] == level
        push = np.sign(mean.after - mean.before) * apart * (enters.astype(np.float64) - leaves)
        of_pair = push[place].reshape(2, -1).sum(axis=0)
        worst = np.argsort(-of_pair)[: max(1, int(_BARRED_AT_ONCE * (of_pair > 0).sum()))]
        far |= set(plan.partners[worst[of_pair[worst] > 0]].tolist())
    return far - set(plan.requested.tolist())


def spared_columns(assessment: Assessment, sparing: Sparing) -> tuple[tuple[Spared, ...], dict[str, ColumnValues]]:
    """Columns in which partners should be alike, and the class of each record; none where the records are not held."""
    if assessment.table.record_cell is None or not sparing.weights:
        return (), {}
    whole = assessment.data.whole_file(assessment.table)
    spared, columns = [], dict[str, ColumnValues]()
    for name, weight in sparing.weights.items():
        column = whole.columns.get(name)
        if column is None or name in assessment.table.keys or not whole.is_complete:
            continue
        is_amount = is_measured(assessment.data, column)
        if not is_amount and column.n_levels > MOST_SPARED_LEVELS:
            continue
        classes, n_classes = column.codes, column.n_levels
        if is_amount:
            has_value = column.codes >= 0
            classes = np.full(len(has_value), -1, dtype=np.int32)
            classes[has_value] = weight_classes(column.values[has_value], sparing.n_classes)
            n_classes = int(classes.max(initial=0)) + 1
        label = f"class of similar {name}"
        codes = np.where(classes >= 0, classes, n_classes).astype(np.int32)
        columns[label] = CodedColumn(codes, tuple(range(n_classes + 1)))
        spared.append(Spared(label, n_classes + 1, is_amount, weight))
    return tuple(spared), columns


def planned_swaps(request: ProtectConfig, assessment: Assessment, progress: Progress, sparing: Sparing | None = None) -> Planned:
    """Plan the swaps that the user asked for, and leave out those that would break what is true of every household.

    ``sparing`` says how far columns beside the keys are to be spared.
    """
    planned = _planned(request, assessment, progress, sparing or Sparing())
    if planned.places is not None:
        return planned
    plan, note = consistent(assessment, planned.plan, request.cluster)
    return planned if not note else replace(planned, plan=plan, notes=(*planned.notes, note), shadow=None)


def _planned(request: ProtectConfig, assessment: Assessment, progress: Progress, sparing: Sparing) -> Planned:
    """Plan the swaps, and plan them again at a higher price if somebody who has this program would be sure of too many links."""
    task = _task(request, assessment, sparing)
    limit = request.max_sure_links
    is_by_record = request.swap_rate is None and not request.households and assessment.known_families is None
    if limit is None and (not is_by_record or request.is_for_k_alone):
        return _planned_once(request, assessment, task, progress)
    replanned = with_few_sure_links(
        task,
        lambda priced: _planned_once(request, assessment, priced, progress),
        reporting_register(assessment),
        limit,
    )
    best = replace(replanned.best, shadow=replanned.shadow)
    if limit is not None:
        return replace(best, notes=(*best.notes, _said_of_limit(replanned.fewest_sure, limit)))
    return best if replanned.best is replanned.first else replace(best, notes=(*best.notes, _said_of_price(replanned)))


def _said_of_limit(fewest: float, limit: float) -> str:
    beyond = "" if fewest <= limit else " That is more than was asked for; recode a key or blank values to get below it."
    return (
        f"Somebody who has this program and a register is surer than {SURE_ABOVE} of {people(fewest)} links. The limit is "
        f"{number(limit)}.{beyond}"
    )


def _said_of_price(replanned: Replanned[Planned]) -> str:
    first, best = replanned.first.plan.n_values_changed, replanned.best.plan.n_values_changed
    return (
        f"Somebody who has this program and a register would have been surer than {SURE_ABOVE} of {number(replanned.sure_at_first, 1)} "
        f"links, so moves to values that nobody has were avoided: now it is {number(replanned.fewest_sure, 1)}, with "
        f"{counted(best, 'changed value')} instead of {number(first)}. --max-sure-links sets another limit."
    )


def _planned_once(request: ProtectConfig, assessment: Assessment, task: SwapTask, progress: Progress) -> Planned:
    if request.swap_rate is not None:
        plan, places, tables = planned_places(request, assessment, task)
        return Planned(plan, places=places, tables=tables)
    has_several, risk, register = (
        assessment.roles.scenarios is not None,
        risk_as_known(assessment),
        reporting_register(assessment),
    )
    if request.against in PARTICIPANTS and (has_several or request.households or assessment.known_families is not None):
        raise BadInput(
            "--against participant is for files of persons and one intruder who knows all keys. Leave out the scenarios, and say --households-known "
            "no or leave out the household column."
        )
    if assessment.known_families is not None and not request.households and not request.is_for_k_alone:
        families, target_of_families = planned_families(
            request, assessment, task, risk, register, untouched_records(task), progress
        )
        return Planned(families, target_of_families)
    if request.has_target and (has_several or request.households):
        reached = plan_all_to_target(request, assessment, task, risk, register, progress)
        return Planned(reached.plan, reached)
    if request.has_target:
        against = PARTICIPANT if is_against_participants(request, assessment, register) else NEAREST
        target = SwapTarget(request.max_population_uniques, request.max_record_risk, request.max_correct_links, against)
        plan_towards = plan_to_target if against == NEAREST else plan_against_participants
        reached = plan_towards(task, risk, target, register=register, progress=progress)
        return Planned(reached.plan, reached)
    if request.is_for_k_alone:
        assert request.k is not None
        is_plain = not has_several and not request.households
        return Planned(
            plan_to_k(task, request.k, progress=progress) if is_plain else plan_task(task, np.zeros(0, dtype=np.int64))
        )
    if has_several:
        return Planned(plan_for_all(request, assessment, task, progress))
    return Planned(planning_of(request, assessment)(task, _chosen_records(risk, request), progress))


def is_against_participants(request: ProtectConfig, assessment: Assessment, register: Register) -> bool:
    """Whether a target is meant against somebody who knows that a person is in the file: asked for, or because everybody is."""
    if request.against is not None:
        return request.against in PARTICIPANTS
    return request.max_population_uniques is None and holds_everybody(assessment.table, register)


def seed_of(config: RunConfig, request: ProtectConfig) -> int:
    """The seed of everything that is done to the records: a secret one when a release is written."""
    return config.seed if request.swap_seed is None else request.swap_seed


def _task(request: ProtectConfig, assessment: Assessment, sparing: Sparing) -> SwapTask:
    """Everything that swaps depend on; with survey weights, partners have similar weights."""
    config, table = assessment.config, assessment.table
    constraints, columns = rules_for_swaps(request, config, assessment.data, table, assessment.zeros)
    spared, classes = spared_columns(assessment, Sparing() if request.households or request.swap_rate is not None else sparing)
    held = () if request.swap_rate is not None else keys_held_together(assessment, request)
    constraints = replace(
        constraints,
        never_swap=tuple(dict.fromkeys([*constraints.never_swap, *sparing.still, *held])),
        untouched_records=np.array(sparing.barred, dtype=np.int64),
    )
    return SwapTask(
        table,
        assessment.model,
        risk=risk_as_known(assessment),
        register=_planning_register(assessment),
        keep=(*request.keep, *kept_for_scenarios(assessment)),
        columns={**columns, **classes},
        constraints=constraints,
        distances=distances_of(request),
        spare=spared,
        max_candidates=sparing.n_candidates,
        record_ids=assessment.data.record_names if table.record_cell is not None else None,
        decoys=request.decoys,
        seed=seed_of(config, request),
    )


def rules_for_swaps(
    request: ProtectConfig, config: RunConfig, data: Microdata, table: ContingencyTable, zeros: StructuralZeros
) -> tuple[SwapConstraints, dict[str, ColumnValues]]:
    """What no swap may do, and the values of the columns that this depends on."""
    constraints = replace(_constraints(request), structural_zeros=zeros or None)
    named = {*constraints.columns, *(name for margin in request.keep for name in margin)}
    columns: dict[str, ColumnValues] = dict(_values_of(data, sorted(named - set(table.vertex_names))))
    if swaps_like_weights(config, request):
        weights = data.record_weights()
        assert weights is not None
        columns[WEIGHT_CLASS] = weight_classes(weights, _n_weight_classes(weights, request.weight_classes))
        constraints = replace(constraints, within=(*constraints.within, WEIGHT_CLASS))
    return constraints, columns


LEAST_ALIKE = 10
"""Weights that are shared by this many records on average come from post-strata, and name them."""


def _n_weight_classes(weights: NDArray[np.float64], n_classes: int) -> int:
    """Number of classes of weights within which records are swapped; every weight is one where weights take few values.

    A calibrated weight that stays with its row would tell the post-stratum that a swapped row came from.
    """
    return len(weights) if len(np.unique(weights)) * LEAST_ALIKE <= len(weights) else n_classes


def swaps_like_weights(config: RunConfig, request: ProtectConfig) -> bool:
    """Whether partners must have similar survey weights."""
    return config.weight is not None and request.weight_classes > 0 and not request.rake


def kept_for_scenarios(assessment: Assessment) -> tuple[tuple[str, ...], ...]:
    """The margins of the best model of every scenario, which are kept as well."""
    if assessment.roles.scenarios is None:
        return ()
    vertices = set(assessment.table.vertex_names)
    of_coarser = {c.name: c.key for scenario in assessment.roles.scenarios.each for c in scenario.risk.table.coarsenings}
    cliques = [
        tuple(dict.fromkeys(name if name in vertices else of_coarser[name] for name in clique))
        for scenario in assessment.roles.scenarios.each
        for clique in side_model(assessment.roles.scenarios.table.project(list(scenario.keys)), assessment.config).cliques
    ]
    return tuple(dict.fromkeys(cliques))


def intruder_summaries(
    assessment: Assessment,
    release: Release,
    links: MovedLinks,
    distances: Distances | None = None,
    shadow: Links | None = None,
) -> tuple[IntruderSummary, ...]:
    """What each intruder finds before and after: expected, or counted in a register with the expected number beside it.

    ``links`` and ``shadow`` are what some of them find in this release, as far as that is known already.
    """
    register = reporting_register(assessment)
    intruders = tuple(
        trial.summary()
        for trial in try_intruders(
            release,
            register,
            distances=distances,
            moved=links,
            key_error=assessment.config.key_error,
            shadow=shadow,
            seed=assessment.config.seed,
        )
    )
    if not register.is_real:
        return intruders
    expected = {trial.name: trial for trial in try_intruders(release, _modelled(assessment), distances=distances)}
    return tuple(
        trial
        if trial.name in ("participant", "assignment")
        else replace(trial, estimated_before=expected[trial.name].before.total, estimated_after=expected[trial.name].after.total)
        for trial in intruders
    )


def with_earlier_seed(config: RunConfig, *, is_seed_given: bool = False) -> RunConfig:
    """The same run with the seeds of an earlier release of the file that it names, unless the user gave one.

    With the same choices the same records then move in the same way, and whoever holds both releases learns nothing from the second.
    Models are drawn by a seed of their own, and partners are chosen against what these say, so both seeds are those of the earlier run.
    """
    request = config.protect
    if request is None or request.released is None or request.formal or request.swap_seed is not None:
        return config
    choices = Path(request.released) / "run.toml"
    # A name that no file system takes is no file, either: what is missing is said where the earlier release is looked for.
    if not os.path.isfile(choices):
        return config
    earlier = RunConfig.read(choices)
    drawn = earlier.seed if earlier.protect is None or earlier.protect.swap_seed is None else earlier.protect.swap_seed
    seed = config.seed if is_seed_given or config.seed != RunConfig.seed else earlier.seed
    return replace(config, seed=seed, protect=replace(request, swap_seed=drawn))


def with_secret_seed(config: RunConfig) -> RunConfig:
    """The same run with a secret seed for choosing partners, unless the user gave one; a formal release takes none.

    A configuration file holds whole numbers of 63 bits, which is far beyond trying them all.
    """
    if config.protect is None or config.protect.formal or config.protect.swap_seed is not None:
        return config
    return replace(config, protect=replace(config.protect, swap_seed=secrets.randbits(63)))


def reporting_register(assessment: Assessment) -> Register:
    """What an intruder knows: the register of the run, or what the model says about the population."""
    counts = assessment.roles.register
    return _modelled(assessment) if counts is None else Register.counted(counts.people, counts.place)


def _modelled(assessment: Assessment) -> Register:
    """What the model says about the population, from other draws than those used for planning."""
    return Register.modelled(
        assessment.risk,
        assessment.choice.risk_model,
        seed=assessment.config.seed + 1,
        model_error=assessment.summary.risk.model_error,
    )


def _planning_register(assessment: Assessment) -> Register:
    if assessment.roles.register is None:
        return Register.modelled(
            assessment.risk, assessment.choice.risk_model, most_cells=CELLS_TO_PLAN, seed=assessment.config.seed
        )
    return reporting_register(assessment).within(assessment.table)


def risk_as_known(assessment: Assessment) -> RecordRisk:
    """The risk of every record: counted if the run has a register, otherwise estimated."""
    return assessment.risk if assessment.roles.register is None else assessment.roles.register.risk(assessment.risk)


def _constraints(request: ProtectConfig) -> SwapConstraints:
    return SwapConstraints.from_dict(
        {
            "never_swap": list(request.never_swap),
            "within": list(request.within),
            "forbidden": list(request.rules),
            "untouched": list(request.untouched),
        }
    )


def _chosen_records(risk: RecordRisk, request: ProtectConfig) -> NDArray[np.int64]:
    if request.records is not None:
        return np.array(request.records, dtype=np.int64)
    if request.risk_above is not None:
        return risk.above(request.risk_above)
    if request.top is not None:
        return risk.riskiest(request.top)
    assert request.cell_probability_below is not None
    return risk.cell_probability_below(request.cell_probability_below)


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
    most = min(MOST_LEVELS_COMPARED, max(50, data.n_records // 100))
    if table.record_cell is None:
        moved = [key for key in table.keys if release.moves(key).any()]
        return crossed_columns(data, table, moved, names, release.rows, seed=release.seed, most_values=most)
    if not names:
        return {}
    codes, categories = data.column_codes(names)
    return {c.key: CodedColumn(codes[:, k], c.levels) for k, c in enumerate(categories) if 1 < c.n_levels <= most}


def costs_of_keeping(assessment: Assessment, request: ProtectConfig) -> tuple[KeepingCost, ...]:
    """The cost of keeping each further margin, in records that become fixed."""
    names = sorted({name for margin in request.keep for name in margin} - set(assessment.table.vertex_names))
    costs = cost_of_keeping(assessment.table, assessment.model, request.keep, columns=_values_of(assessment.data, names))
    return tuple(KeepingCost(variables=tuple(margin), records_fixed=int(n)) for margin, n in costs.items())


# How do records change places when a run asks for a swap rate?
#
# A record is at risk at a level of areas if its risk would be above the threshold, had the file been released with that level. The
# plan of :mod:`rarecell.swap.areas` becomes a plan of swaps like any other, so that it is compared, applied and judged alike.


WEIGHT_CLASS = "class of similar weight"
"""Name of the column of weight classes, for messages."""


def planned_places(
    request: ProtectConfig, assessment: Assessment, task: SwapTask
) -> tuple[SwapPlan, AreaSwapSummary, tuple[MarginCheck, ...]]:
    """The swaps between areas, their summary, and the comparison of the kept tables."""
    assert request.swap_rate is not None
    data, table, areas = assessment.data, assessment.table, assessment.data.areas
    if areas[-1] not in table.keys:
        raise BadInput(
            f"Records are to change places, so their finest area '{areas[-1]}' must be one of the keys; add it to --keys."
        )
    within = task.constraints.within
    named = [*areas, *request.carry, *(name for names in (*request.similar, *request.keep, within) for name in names)]
    codes, categories = data.column_codes([name for name in dict.fromkeys(named) if name != WEIGHT_CLASS])
    columns: dict[str, ColumnValues] = {
        c.key: CodedColumn(np.ascontiguousarray(codes[:, k]), c.levels) for k, c in enumerate(categories)
    }
    if WEIGHT_CLASS in within:
        columns[WEIGHT_CLASS] = task.columns[WEIGHT_CLASS]
    area_task = AreaSwapTask(
        columns,
        areas,
        request.similar or ((),),
        request.keep,
        request.carry,
        _households(request, assessment) if request.households else None,
        alike=within,
        untouched=untouched_records(task),
    )
    level = _levels_at_risk(request, assessment)
    swaps = plan_area_swaps(area_task, level, rate=request.swap_rate, record_ids=data.record_names, seed=task.seed)
    plan = _as_plan(swaps, level, areas, table, replace(task, keep=request.keep))
    return plan, _area_summary(swaps, area_task, n_impossible(plan)), compared_tables(area_task, swaps)


def untouched_records(task: SwapTask) -> NDArray[np.bool_] | None:
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


def _households(request: ProtectConfig, assessment: Assessment) -> CodedColumn:
    if assessment.config.household is None:
        raise BadInput(
            "Whole households are to change places, but no column identifies the households; name it with --household."
        )
    if len(assessment.data.household_columns) > 1:
        numbers = assessment.data.household_codes()
        assert numbers is not None
        return CodedColumn(numbers.astype(np.int32), tuple(range(int(numbers.max()) + 1)))
    codes, (categories,) = assessment.data.column_codes(assessment.data.household_columns)
    return CodedColumn(np.ascontiguousarray(codes[:, 0]), categories.levels)


def _levels_at_risk(request: ProtectConfig, assessment: Assessment) -> NDArray[np.int64]:
    """The coarsest level of areas at which each record is above the threshold."""
    threshold = assessment.config.threshold if request.risk_above is None else request.risk_above
    risks = assessment.roles.area_risks[-len(assessment.data.areas) :]
    levels = risk_levels([np.nan_to_num(risk.per_record()["unique_probability"]) > threshold for risk in risks])
    if assessment.roles.register is not None:
        # Whoever is alone in the register is at risk whatever was estimated; the finest area is a key.
        alone = np.append((assessment.table.counts == 1) & (assessment.roles.register.population_count == 1), False)
        is_alone = alone[assessment.table.cell_of(np.arange(assessment.table.n_rows))]
        levels = np.where(is_alone, np.minimum(levels, len(risks) - 1), levels)
    scenarios = assessment.roles.scenarios
    for scenario in () if scenarios is None else scenarios.each:
        known_areas = [place for place, area in enumerate(assessment.data.areas) if area in scenario.keys]
        if known_areas:
            at_risk = np.append(scenario.unique_probability > threshold, False)[
                assessment.table.cell_of(np.arange(assessment.table.n_rows))
            ]
            levels = np.where(at_risk, np.minimum(levels, known_areas[0]), levels)
    return levels


def _as_plan(
    swaps: AreaSwaps, level: NDArray[np.int64], areas: tuple[str, ...], table: ContingencyTable, task: SwapTask
) -> SwapPlan:
    kept_masks = [table.close(table.mask_of(names)) for names in task.keep if all(name in table.vertex_names for name in names)]
    kept_masks += [table.close(single(k)) for k in range(table.n_keys)]
    stays = mask_of(k for k, key in enumerate(table.keys) if key not in areas)
    requested = np.flatnonzero(level < len(areas))
    # What a unit takes over is its area at the level that it crosses, with all finer ones, whether or not their names differ.
    of_level = [mask_of(k for k, key in enumerate(table.keys) if key in areas[place:]) for place in range(len(areas))]
    moved = np.array(of_level, dtype=np.uint64)[swaps.level]
    before, after = (table.cells[table.cell_of(rows)] for rows in (swaps.rows, swaps.givers))
    is_area = np.array([key in areas for key in table.keys])
    distance = 0.5 * ((before != after) & is_area).sum(axis=1).reshape(2, -1).sum(axis=0)
    crossed = dict(zip(swaps.rows.tolist(), np.tile(swaps.level, 2).tolist(), strict=True))
    unserved = [row for row in requested.tolist() if crossed.get(row, len(areas)) > level[row]]
    return SwapPlan(
        task=task,
        interactions=Interactions(table, (), tuple(kept_masks), stays),
        units=Units.of(table, (), {}),
        requested=requested,
        records=swaps.records,
        partners=swaps.partners,
        moved=moved,
        distance=distance,
        cost=distance,
        unswapped=tuple(Unswapped(row, NO_PLACE) for row in unserved),
        givers=swaps.givers,
    )


def _area_summary(swaps: AreaSwaps, task: AreaSwapTask, impossible: int) -> AreaSwapSummary:
    levels, profiles = Counter(swaps.level.tolist()), Counter(swaps.profile.tolist())
    sentences = [str(swaps), *([swaps.warning] if swaps.warning else [])]
    if impossible:
        sentences.append(
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
        wanted=swaps.least_rate,
        unit=swaps.unit,
        levels={task.areas[place]: n for place, n in sorted(levels.items())},
        profiles={", ".join(task.similar[place]) or "any": n for place, n in sorted(profiles.items())},
        sentence=" ".join(sentences),
    )


def compared_tables(task: AreaSwapTask, swaps: AreaSwaps) -> tuple[MarginCheck, ...]:
    """Count every table to keep before and after the swaps, from the records themselves; an error if one differs."""
    travels = {*task.areas, *task.carry}
    checks: list[MarginCheck] = []
    for names in task.keep:
        before, after, levels = [], [], []
        for name in names:
            column = task.columns[name]
            assert isinstance(column, CodedColumn)
            codes = column.codes.copy()
            if name in travels:
                codes[swaps.rows] = column.codes[swaps.givers]
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
        checks.append(check)
    return tuple(checks)


# Which swaps are needed by a run that names several intruders, or whole households?
#
# However records are chosen, by risk, by a target or by name, the choice is made over all scenarios. A run without scenarios has
# one intruder, who knows all keys.


def intruders_of(assessment: Assessment) -> Scenarios:
    """The scenarios of a run; without any, one intruder who knows all keys."""
    if assessment.roles.scenarios is not None:
        return assessment.roles.scenarios
    every = np.arange(assessment.table.n_cells)
    all_keys = ScenarioRisk("all keys", tuple(assessment.table.keys), assessment.risk, every, assessment.choice.risk_model)
    return Scenarios(assessment.table, (all_keys,))


def chosen_records(request: ProtectConfig, assessment: Assessment) -> Chosen:
    """The records that a run without a target asks for, and against which intruders each is to be protected."""
    scenarios = intruders_of(assessment)
    if request.records is not None:
        threshold = assessment.config.threshold
        return Chosen.named(scenarios, np.array(request.records, dtype=np.int64), threshold)
    if request.risk_above is not None:
        return Chosen.above(scenarios, request.risk_above)
    if request.top is not None:
        return Chosen.riskiest(scenarios, request.top)
    assert request.cell_probability_below is not None
    return Chosen.in_cells_below(scenarios, request.cell_probability_below)


def planning_of(request: ProtectConfig, assessment: Assessment) -> Planning:
    """How to plan swaps for some records: singly, or for their whole households."""
    if not request.households:
        return plan_single
    households = assessment.data.household_codes()
    if households is None:
        raise BadInput("Whole households are to be swapped, but no column identifies the households; name it with --household.")

    def plan(task: SwapTask, records: NDArray[np.int64], progress: Progress) -> SwapPlan:
        return plan_household_swaps(task, households=households, records=records, progress=progress)

    return plan


def plan_for_all(request: ProtectConfig, assessment: Assessment, task: SwapTask, progress: Progress) -> SwapPlan:
    """Plan the swaps for the chosen records."""
    plan = planning_of(request, assessment)
    return plan_for_scenarios(task, intruders_of(assessment), chosen_records(request, assessment), plan=plan, progress=progress)


def plan_all_to_target(
    request: ProtectConfig, assessment: Assessment, task: SwapTask, risk: RecordRisk, register: Register, progress: Progress
) -> TargetPlan:
    """Swap until the target holds against every intruder; ``risk`` and ``register`` are those reported for the whole file."""
    target = SwapTarget(request.max_population_uniques, request.max_record_risk, request.max_correct_links)
    reached = plan_scenarios_to_target(
        task,
        intruders_of(assessment),
        target,
        plan=planning_of(request, assessment),
        households=assessment.data.household_codes() if request.households else None,
        seed=assessment.config.seed + 1,
        progress=progress,
    )
    links = reached.plan.links(register)
    points = frontier(risk, reached.plan, links)
    after = risk_after(risk, reached.plan.release, links)
    return TargetPlan(reached.plan, after, reached.is_met, points, reached.sentence, links=links)
