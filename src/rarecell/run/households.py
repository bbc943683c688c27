"""Which families of a file could be recognised, how are they protected, and can a household be put together again?

The households of a run become rows and are assessed like a file of their own: the same kind of model, the same design, interval and
checks, and a register of households where the register of the run names them. They are protected by swaps between household rows
(:mod:`rarecell.swap.families`), then by swaps of single persons who are recognised without their family and were not reached.

Without the household number, and with the rows shuffled, nobody knows who lives with whom, unless other columns tell: a weight, an
income of the household or a small area is the same for all members and rare. Such columns are looked for in the file as it would be
released. A household is put together again if its members, and nobody else, share the values of all columns that members share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from rarecell.data.microdata import Microdata
from rarecell.engine import open_source
from rarecell.engine.duck import EngineSettings
from rarecell.errors import BadInput
from rarecell.intruder.household import (
    GuessedPairs,
    HouseholdLinks,
    guessed_pairs,
    household_distances,
    household_links,
    household_release,
)
from rarecell.intruder.register import CELLS_TO_PLAN, Register
from rarecell.intruder.residual_risk import RiskAfter, ScenarioTrial, risk_after
from rarecell.intruder.trial import IntruderTrial, household_shadow
from rarecell.machine.memory import MemoryLimit
from rarecell.outcome.summary import Reliability
from rarecell.outcome.swap import IntruderSummary
from rarecell.outcome.words import counted, listed, number, verb
from rarecell.progress import Progress
from rarecell.release.release import Release
from rarecell.risk.diagnostics import fit_diagnostics
from rarecell.risk.families import Families, FamilyRisk, looks_like_households, unknown_composition, why_incomplete
from rarecell.risk.interval import model_error, risk_interval
from rarecell.risk.records import RecordRisk
from rarecell.risk.register import RegisterCounts, register_records
from rarecell.risk.reliability import CountedUniques, reliability, with_light
from rarecell.risk.scenarios import ScenarioRisk, Scenarios
from rarecell.run import models
from rarecell.run.beside_keys import Treated
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.results import Assessment, HouseholdFindings
from rarecell.run.roles import HouseholdFile
from rarecell.swap.families import (
    FamilyPlan,
    FamilyTask,
    as_records,
    at_every_place,
    household_constraints,
    plan_family_swaps,
    plan_rows,
    swap_table,
)
from rarecell.swap.plan import SwapPlan, plan_task
from rarecell.swap.reasons import RULE_BROKEN, Unswapped
from rarecell.swap.scenarios import Chosen, plan_for_scenarios
from rarecell.swap.target import SwapTarget, TargetPlan, first_choice, frontier
from rarecell.swap.task import SwapTask
from rarecell.table.contingency import Categories
from rarecell.table.household_rows import LARGEST_FAMILY, Clusters, HouseholdRows, Members, find_layout
from rarecell.table.household_rules import ClusterRules, HouseholdRules, shared_within

if TYPE_CHECKING:
    from rarecell.edges import Frame, Json


# ---------------------------------------------------------------------- their risk


N_DRAWS = 200
"""Number of draws for the interval of the families: a row has several times the columns of a record, and each is drawn."""

MOST_UNIQUES = 2_000
"""If more households are alone in the file, a random part of so many stands for them in the draws."""


def find_families(data: Microdata, risk: RecordRisk, config: RunConfig, *, register: Frame = None) -> HouseholdFindings | None:
    """Assess the households of a run as records; None if the run names no household."""
    household = data.household_codes()
    if household is None:
        return None
    codes, categories = data.column_codes(data.keys)
    plain = Members.of(codes, household)
    fraction = risk.table.n_records / risk.population
    reason = why_incomplete(codes, categories, plain, fraction=fraction)
    if reason is None and not (plain.size > 1).any():
        reason = "no household has two members in the file"
    if reason is not None:
        return HouseholdFindings(None, (unknown_composition(reason, plain.n_households),))
    file = HouseholdFile(data, risk, config)
    rows = file.rows(data.keys)
    family_risk = file.risk(rows)
    of_rows, model = family_risk.risk, family_risk.model
    fit = fit_diagnostics(
        of_rows.table, model, population=of_rows.population, refit=lambda part: models.refitted(part, config), seed=config.seed
    )
    estimate = of_rows.expected_population_uniques, of_rows.expected_correct_matches
    interval = risk_interval(of_rows, model, n_draws=N_DRAWS, most_uniques=MOST_UNIQUES, seed=config.seed).widened(
        model_error(of_rows, fit), estimate
    )
    counted = _counted(data, rows, config, register) if config.register is not None else None
    in_register = None if counted is None else CountedUniques(counted.population_uniques, interval.population_uniques)
    trust = _of_households(reliability(of_rows, fit, None, counted=in_register, interval=interval))
    families = Families(rows, of_rows, model, counted, interval=interval, reliability=trust)
    notes = rows.sentences()
    if config.register is not None and counted is None:
        notes.append("The register does not name the household of its people, so the risk of families is estimated.")
    return HouseholdFindings(families, tuple(notes), file)


MOST_RECORDS_SEARCHED = 200_000
"""In larger files, the first :data:`FIRST_RECORDS` are searched for a household that nobody declared: members stand together."""

FIRST_RECORDS = 50_000
"""Number of records that are looked at in a large file."""


def undeclared_household(data: Microdata, config: RunConfig) -> str | None:
    """A column that looks like a household and has no role; None if there is none, or if the user said what is known."""
    if config.household is not None or config.households_known == "no" or not data.source.keeps_rows:
        return None
    taken = {*data.keys, data.weight, *data.id_columns, data.strata, *data.areas, *data.sensitive}
    names = [column.name for column in data.source.columns() if column.kind != "other"]
    candidates = [name for name in names if name not in taken]
    if not candidates:
        return None
    n_records = data.source.n_rows
    codes, _ = data.column_codes(names, None if n_records <= MOST_RECORDS_SEARCHED else np.arange(FIRST_RECORDS))
    for name in candidates:
        other_codes = [codes[:, k] for k, other in enumerate(names) if other not in (name, *data.id_columns)]
        if looks_like_households(codes[:, names.index(name)], other_codes):
            return name
    return None


def household_question(column: str) -> str:
    """The question about a household that nobody declared."""
    return (
        f"Column '{column}' looks like a household: few records share a value, they stand together, and they agree on other columns. "
        f"Whoever knows a person knows the family. If it is one, give --household {column}; if nobody can know who lives with whom, "
        "say --households-known no."
    )


def _of_households(of_rows: Reliability) -> Reliability:
    """The same light, in words for households: what is said of records is true of rows."""
    return with_light(of_rows.light, [reason.replace("record", "household") for reason in of_rows.reasons])


def _counted(data: Microdata, rows: HouseholdRows, config: RunConfig, register: Frame) -> RegisterCounts | None:
    """The households of the register in every row of the file; None if the register does not have the household columns."""
    people = config.register if register is None else register
    settings = EngineSettings(memory=MemoryLimit.of(config.memory))
    source = open_source(people, settings=settings)
    names = {column.name for column in source.columns()}
    if not names.issuperset((*data.household_columns, *config.household_order)):
        return None
    codes, categories, household = register_records(data, source, data.household_columns, settings=settings)
    before: tuple[NDArray[np.int64], ...] = ()
    if config.household_order:
        named, _ = Microdata(source, data.keys, settings=settings).column_codes(config.household_order)
        before = tuple(named[:, k].astype(np.int64) for k in range(named.shape[1]))
    return counted_rows(rows, rows.layout.with_levels(categories).rows(codes, household, before=before))


def counted_rows(rows: HouseholdRows, register: HouseholdRows) -> RegisterCounts:
    """Count the households of a register in every row of a file; both have the same columns."""
    table, people = rows.table, register.table
    place = []
    for column, of_file in zip(rows.layout.columns, table.categories, strict=True):
        if column.key < 0:
            place.append(np.arange(of_file.n_levels, dtype=np.int32))
            continue
        of_register = people.categories[len(place)]
        code_of = {level: code for code, level in enumerate(of_register.levels)}
        place.append(np.array([code_of[level] for level in of_file.levels], dtype=np.int32))
    cells = np.stack([of_key[table.cells[:, k]] for k, of_key in enumerate(place)], axis=1)
    position = people.marginals.positions(people.all_keys, np.ascontiguousarray(cells))
    in_register = np.where(position >= 0, people.counts[position], 0)
    return RegisterCounts(table, in_register, people.n_records, people, tuple(place))


# ---------------------------------------------------------------------- their protection

Numbers = NDArray[np.int64]

MOST_CANDIDATES = 48
"""Partners considered for each household: more than for a person, because few hide a row of twenty columns."""


def family_task(
    request: ProtectConfig, assessment: Assessment, persons: SwapTask, untouched: NDArray[np.bool_] | None
) -> FamilyTask:
    """Everything that swaps between households depend on; ``untouched`` are records that no swap may touch."""
    families = assessment.known_families
    assert families is not None
    rows = families.rows
    codes, _ = assessment.data.column_codes(assessment.data.keys)
    rules = HouseholdRules.of(rows, codes)
    table = swap_table(rows, assessment.table)
    alone = replace(assessment.config, cliques=(), model="single")
    best = models.choose_models(table, alone).best
    constraints, columns = household_constraints(rows, table, persons, rules, untouched=untouched)
    keep = at_every_place(rows.layout, table, (*_cliques(persons), *persons.keep))
    task = SwapTask(
        table,
        best,
        risk=families.known_risk,
        register=_planning_register(families, assessment),
        keep=keep,
        columns=columns,
        constraints=constraints,
        max_candidates=MOST_CANDIDATES,
        decoys=request.decoys,
        intruders=household_distances(table.categories),
        seed=persons.seed,
    )
    # A plan is made by other draws than those that it is judged by.
    counted_there = None if families.register is None else reporting_register(families, assessment)
    return FamilyTask(rows, codes, rules, task, persons, counted_there, cluster_rules(assessment, request.cluster))


def _cliques(persons: SwapTask) -> tuple[tuple[str, ...], ...]:
    """The tables of the persons' model, by the names of their vertices."""
    return tuple(tuple(persons.table.names_of(mask)) for mask in persons.model.generator_masks)


def _planning_register(families: FamilyRisk, assessment: Assessment) -> Register:
    if families.register is None:
        return Register.modelled(families.risk, families.model, most_cells=CELLS_TO_PLAN, seed=assessment.config.seed)
    return Register.counted(families.register.people, families.register.place).within(families.rows.table)


def reporting_register(families: FamilyRisk, assessment: Assessment) -> Register:
    """What an intruder knows about households: the register of the run, or what the model says, from other draws than the plan's."""
    if families.register is not None:
        return Register.counted(families.register.people, families.register.place)
    return modelled(families, assessment)


def modelled(families: FamilyRisk, assessment: Assessment) -> Register:
    """What the model of the households says; the same register whenever it is asked for, because populations are drawn for it."""
    register, seed = _modelled.get(families), assessment.config.seed + 1
    if register is None or register.unseen is None or register.unseen.seed != seed:
        register = _modelled[families] = Register.modelled(
            families.risk, families.model, most_cells=CELLS_TO_PLAN, seed=seed, model_error=families.model_error
        )
    return register


_modelled: WeakKeyDictionary[FamilyRisk, Register] = WeakKeyDictionary()


def family_views(assessment: Assessment) -> tuple[FamilyRisk, ...]:
    """The households as each intruder of the run knows them: by the keys of every scenario, or by all keys."""
    families, scenarios = assessment.known_families, assessment.roles.scenarios
    assert families is not None
    if scenarios is None:
        return (families,)
    return tuple(scenario.family for scenario in scenarios.each if scenario.family is not None)


def _scenarios_of_rows(families: FamilyRisk, scenarios: Scenarios) -> Scenarios:
    """The scenarios of a run for household rows: who knows a key knows it at every place."""
    table, each = families.rows.table, []
    assert table.record_cell is not None
    for scenario in scenarios.each:
        view = scenario.family
        assert view is not None
        cell = np.zeros(table.n_cells, dtype=np.int64)
        cell[table.record_cell] = view.cell
        each.append(ScenarioRisk(scenario.name, tuple(view.rows.table.keys), view.known_risk, cell, view.model, view.register))
    return Scenarios(table, tuple(each))


def chosen_records(request: ProtectConfig, assessment: Assessment, risk: RecordRisk) -> Numbers:
    """The records that a run asks for, alone or with their family, for any of its intruders."""
    if request.records is not None:
        return np.array(request.records, dtype=np.int64)
    families, scenarios = assessment.known_families, assessment.roles.scenarios
    assert families is not None
    larger = families.larger(risk.per_record()["unique_probability"]) if scenarios is None else scenarios.of_records[0]
    if request.risk_above is not None:
        return np.flatnonzero(larger > request.risk_above)
    if request.top is not None:
        order = np.lexsort((np.arange(len(larger)), -larger))[: request.top]
        return np.sort(order[larger[order] > 0.0])
    assert request.cell_probability_below is not None
    chosen = [risk.cell_probability_below(request.cell_probability_below)]
    for view in family_views(assessment):
        share = np.exp(view.risk.log_population_share)[view.cell]
        is_rare = (view.is_alone & (share < request.cell_probability_below)).astype(np.float64)
        chosen.append(np.flatnonzero(view.rows.members.spread(is_rare) > 0.0))
    return np.unique(np.concatenate(chosen))


def planned_families(
    request: ProtectConfig,
    assessment: Assessment,
    persons: SwapTask,
    risk: RecordRisk,
    register: Register,
    untouched: NDArray[np.bool_] | None,
    progress: Progress,
) -> tuple[FamilyPlan, TargetPlan | None]:
    """Swap the households of the chosen records, or enough for a target, then the persons at risk without their family.

    ``risk`` and ``register`` are those of persons, as they are reported.
    """
    families = assessment.known_families
    assert families is not None
    planning = _Planning(assessment, family_task(request, assessment, persons, untouched), progress)
    if request.has_target:
        target = SwapTarget(request.max_population_uniques, request.max_record_risk, request.max_correct_links)
        return _to_target(planning, risk, register, target)
    requested = chosen_records(request, assessment, risk)
    home = families.rows.members.of_record[requested]
    plan = planning.for_households(np.unique(home[home >= 0]), requested)
    return planning.with_persons(plan, _alone_at_risk(request, assessment, risk, requested)), None


@dataclass(frozen=True, eq=False)
class _Planning:
    """How a run plans swaps: against the intruder who knows all keys, or against those of its scenarios."""

    assessment: Assessment
    task: FamilyTask
    progress: Progress

    def for_households(self, households: Numbers, requested: Numbers) -> FamilyPlan:
        """Swaps between households; ``requested`` are the records to protect, for the report."""
        scenarios, families = self.assessment.roles.scenarios, self.assessment.known_families
        assert families is not None
        if scenarios is None:
            return plan_family_swaps(self.task, households, requested, progress=self.progress)

        def of_rows(task: SwapTask, chosen: Numbers, progress: Progress) -> SwapPlan:
            return plan_rows(replace(self.task, households=task), chosen, progress=progress)

        intruders = _scenarios_of_rows(families, scenarios)
        chosen = Chosen.named(intruders, households, self.assessment.config.threshold)
        plan = plan_for_scenarios(self.task.households, intruders, chosen, plan=of_rows, progress=self.progress)
        return as_records(self.task, plan, requested)

    def with_persons(self, plan: FamilyPlan, records: Numbers) -> FamilyPlan:
        """The plan with swaps of single persons added, as far as no household breaks a rule by them."""
        task, waiting = self.task, np.setdiff1d(records, plan.rows)
        if not len(waiting):
            return plan
        rules, shared = task.persons.constraints, [task.rules.keys[k].key for k in task.rules.shared]
        taken = np.unique(np.concatenate([np.asarray(rules.untouched_records, dtype=np.int64), plan.rows]))
        never = tuple(dict.fromkeys((*rules.never_swap, *shared)))
        if len(never) == task.persons.table.n_keys:
            return plan
        persons = replace(task.persons, constraints=replace(rules, untouched_records=taken, never_swap=never), decoys=0.0)
        single = self._for_persons(persons, waiting)
        of_file = FileRules(task.rows, task.rules, task.clusters)
        single = single.subset(consistent_pairs(task.codes, of_file, single, plan))
        joined: Json = {
            name: np.concatenate([getattr(plan, name), getattr(single, name)])
            for name in ("records", "partners", "moved", "distance", "cost")
        }
        givers = np.concatenate([part.sources.reshape(2, -1) for part in (plan, single)], axis=1).ravel()
        return replace(plan, givers=givers, **joined)

    def _for_persons(self, task: SwapTask, records: Numbers) -> SwapPlan:
        scenarios = self.assessment.roles.scenarios
        if scenarios is None:
            return plan_task(task, records, progress=self.progress)
        chosen = Chosen.named(scenarios, records, self.assessment.config.threshold)
        return plan_for_scenarios(task, scenarios, chosen, progress=self.progress)

    def after(self, risk: RecordRisk, register: Register, plan: FamilyPlan) -> AfterFamilies:
        """What is left, to each intruder of the run."""
        scenarios, assessment = self.assessment.roles.scenarios, self.assessment
        if scenarios is None:
            persons: tuple[RiskAfter, ...] = (risk_after(risk, plan.release, plan.links(register)),)
        else:
            trials = [
                ScenarioTrial.of(scenario, plan.release, plan.task.distances, seed=assessment.config.seed + 1)
                for scenario in scenarios.each
            ]
            persons = tuple(trial.after() for trial in trials)
        return AfterFamilies(persons, tuple(links_after(assessment, view, plan.release) for view in family_views(assessment)))


MOST_ATTEMPTS = 3
"""Number of plans, each for more households, that are made for a target."""


@dataclass(frozen=True, eq=False)
class AfterFamilies:
    """What is left after a plan: for each intruder, to somebody who knows persons and to somebody who knows families."""

    persons: tuple[RiskAfter, ...]
    families: tuple[HouseholdLinks, ...]

    def numbers(self) -> tuple[float, float, float]:
        """Expected population uniques, expected correct links and the highest risk: the larger of persons and households.

        A household that is found counts once.
        """
        certain = [float(links.after.certain.sum()) for links in self.families]
        highest = [float(links.risk_after().max(initial=0.0)) for links in self.families]
        return (
            max(*certain, *(after.expected_population_uniques for after in self.persons)),
            max(*(links.after.total for links in self.families), *(after.expected_correct_matches for after in self.persons)),
            max(*highest, *(after.highest for after in self.persons)),
        )

    def of_households(self) -> NDArray[np.float64]:
        """The highest risk of each household."""
        return np.asarray(np.max([links.risk_after() for links in self.families], axis=0))

    def meets(self, target: SwapTarget) -> bool:
        return target.is_met_by(*self.numbers())


def _to_target(planning: _Planning, risk: RecordRisk, register: Register, target: SwapTarget) -> tuple[FamilyPlan, TargetPlan]:
    """Swap households, then single persons, until neither persons nor families are found more often than the target allows.

    The first plan serves as many households, by their risk, as would be enough if nothing else were left; while the target is
    missed, those that are left at most risk are served as well.
    """
    views = family_views(planning.assessment)
    of_record = views[0].rows.members.of_record
    chosen = np.unique(np.concatenate([first_choice(view.known_risk, target) for view in views]))
    for attempt in range(MOST_ATTEMPTS):
        plan = planning.for_households(chosen, np.flatnonzero(np.isin(of_record, chosen)))
        plan = planning.with_persons(plan, _persons_beyond(planning.assessment, risk, target, plan))
        after = planning.after(risk, register, plan)
        remaining = after.of_households()
        remaining[chosen] = 0.0
        waiting = np.argsort(-remaining, kind="stable")[: np.count_nonzero(remaining)]
        if after.meets(target) or not len(waiting) or attempt + 1 == MOST_ATTEMPTS:
            break
        above = 0 if target.max_record_risk is None else np.count_nonzero(remaining > target.max_record_risk)
        if not above and target.max_population_uniques is None and target.max_correct_links is None:
            break
        chosen = np.union1d(chosen, waiting[: max(above, len(chosen) // 4, 10)])
    points = frontier(risk, plan, plan.links(register))
    return plan, TargetPlan(plan, after.persons[0], after.meets(target), points, _target_sentence(plan, after, target))


def _own_risk(assessment: Assessment, risk: RecordRisk) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For every record, the risk without its family: to be alone in the population, and to be matched correctly."""
    of_record, scenarios = risk.per_record(), assessment.roles.scenarios
    own, match = (np.nan_to_num(of_record[name]) for name in ("unique_probability", "match_probability"))
    if scenarios is None:
        return own, match
    worst = np.append(scenarios.worst_probability, 0.0)[assessment.table.cell_of_record]
    return worst, np.where(worst > 0.0, np.maximum(match, worst), 0.0)


def _persons_beyond(assessment: Assessment, risk: RecordRisk, target: SwapTarget, plan: FamilyPlan) -> Numbers:
    """Records that are at risk without their family beyond what the target allows, once the households were swapped."""
    own, match = _own_risk(assessment, risk)
    own[plan.rows] = match[plan.rows] = 0.0
    match[own == 0.0] = 0.0
    beyond = np.zeros(len(own), dtype=bool) if target.max_record_risk is None else own > target.max_record_risk
    for most, each in ((target.max_population_uniques, own), (target.max_correct_links, match)):
        if most is not None:
            order = np.argsort(-each, kind="stable")
            remaining = each.sum() - np.cumsum(each[order])
            beyond[order[: int(np.searchsorted(-remaining, -most)) + 1]] |= each.sum() > most
    return np.flatnonzero(beyond & (own > 0.0))


def _target_sentence(plan: FamilyPlan, after: AfterFamilies, target: SwapTarget) -> str:
    if after.meets(target):
        n = len(plan.of_households)
        who = f"{counted(n, 'swap')} between households {verb(n, 'is', 'are')}" if n else "Swaps of single persons are"
        return f"{who} enough for {target}, counting households or persons, whichever is more."
    return (
        f"The target of {target} is out of reach for swaps. All of them together leave {target.in_words(*after.numbers())}, counting "
        "households or persons, whichever is more."
    )


def _alone_at_risk(request: ProtectConfig, assessment: Assessment, risk: RecordRisk, requested: Numbers) -> Numbers:
    """Requested records that are at risk without their family."""
    least = assessment.config.threshold if request.risk_above is None else request.risk_above
    own = _own_risk(assessment, risk)[0][requested]
    return requested[(own > 0.0) & (own >= least)]


@dataclass(frozen=True, eq=False)
class FileRules:
    """What holds in every household of a file, and in every group of records that another column names."""

    rows: HouseholdRows | None
    households: HouseholdRules | None
    clusters: tuple[ClusterRules, ...]

    @classmethod
    def of(cls, assessment: Assessment, columns: Sequence[str]) -> FileRules:
        """The rules of a file; ``columns`` name further groups."""
        families = assessment.families
        if families is None:
            return cls(None, None, cluster_rules(assessment, columns))
        codes, _ = assessment.data.column_codes(assessment.data.keys)
        return cls(families.rows, HouseholdRules.of(families.rows, codes), cluster_rules(assessment, columns))

    def broken_records(self, codes: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which records of a release are in a household or another group that breaks a rule."""
        broken = np.zeros(len(codes), dtype=bool)
        if self.rows is not None and self.households is not None:
            broken = np.append(self.households.any_broken(self.rows, codes), False)[self.rows.members.of_record]
        for rules in self.clusters:
            broken = broken | rules.broken_records(codes)
        return np.asarray(broken, dtype=np.bool_)


def cluster_rules(assessment: Assessment, columns: Sequence[str]) -> tuple[ClusterRules, ...]:
    """What holds in every group of records that is not swapped as a family: large households, all if nobody knows them, named columns."""
    data = assessment.data
    household = data.household_codes()
    if household is None and not columns:
        return ()
    codes, keys = data.column_codes(data.keys)
    groups: list[tuple[Clusters, str]] = []
    if household is not None:
        has_families = assessment.known_families is not None
        name = f"household of more than {LARGEST_FAMILY} members" if has_families else "household"
        groups.append((Clusters.numbered(household, smallest=LARGEST_FAMILY + 1 if has_families else 1), name))
    groups += [(Clusters.numbered(data.numbers_of([name])), f"group of '{name}'") for name in columns]
    return tuple(ClusterRules.of(codes, keys, clusters, name) for clusters, name in groups if clusters.n_groups)


def keys_held_together(assessment: Assessment, request: ProtectConfig) -> tuple[str, ...]:
    """Keys that no swap of single persons may move, because all records of a group share them.

    Households that are swapped as a whole take along what their members share.
    """
    data = assessment.data
    numbers = [data.numbers_of([name]) for name in request.cluster]
    household = data.household_codes()
    if household is not None and not request.households and assessment.known_families is None:
        numbers.append(household)
    if not numbers:
        return ()
    codes, _ = data.column_codes(data.keys)
    shared = {k for number in numbers for k in shared_within(codes, Clusters.numbered(number))}
    return tuple(key for k, key in enumerate(data.keys) if k in shared)


def consistent_pairs(
    codes: NDArray[np.int32], rules: FileRules, single: SwapPlan, before: SwapPlan | None = None
) -> NDArray[np.bool_]:
    """Which swaps of single persons can be made so that no group breaks a rule; ``before`` are swaps already made.

    All are made, and those in groups that then break a rule are undone, until none is left.
    """
    can_stay = np.ones(len(single), dtype=bool)
    start = np.array(codes)
    if before is not None:
        start[before.rows] = before.release.released
    while True:
        part = single.subset(can_stay)
        after = np.array(start)
        after[part.rows] = part.release.released
        broken = rules.broken_records(after)
        wrong = can_stay & (broken[single.records] | broken[single.partners])
        if not wrong.any():
            return can_stay
        # A ring is undone as a whole: its pairs exchange values with each other.
        can_stay[single.whole(wrong)] = False


def consistent(assessment: Assessment, plan: SwapPlan, columns: Sequence[str]) -> tuple[SwapPlan, str]:
    """A plan for persons without the swaps that would break a rule of their household or group; and what was left out, in words.

    ``columns`` name groups other than households.
    """
    if isinstance(plan, FamilyPlan) or (assessment.data.household is None and not columns):
        return plan, ""
    codes, _ = assessment.data.column_codes(assessment.data.keys)
    can_stay = consistent_pairs(codes, FileRules.of(assessment, columns), plan)
    if can_stay.all():
        return plan, ""
    n = int((~can_stay).sum())
    lost = np.setdiff1d(np.intersect1d(plan.requested, plan.subset(~can_stay).rows), plan.subset(can_stay).rows)
    unswapped = (*plan.unswapped, *(Unswapped(row, RULE_BROKEN) for row in lost.tolist()))
    sentence = f"{counted(n, 'swap')} {verb(n, 'was', 'were')} left out, because a rule that holds in every household or group would have been broken."
    return replace(plan.subset(can_stay), requested=plan.requested, unswapped=unswapped), sentence


def refuse_broken(assessment: Assessment, release: Release, columns: Sequence[str]) -> None:
    """Stop if a household or another group of the release breaks a rule that holds in every one of the original."""
    if assessment.data.household is None and not columns:
        return
    of_file, codes = FileRules.of(assessment, columns), codes_of_release(assessment, release)
    for groups in of_file.clusters:
        wrong = {kind: int(n.sum()) for kind, n in groups.broken(codes).items() if n.any()}
        if wrong:
            raise BadInput(
                f"In {counted(sum(wrong.values()), 'case')} a {groups.group} would break a rule that holds in every one of the original "
                f"({listed(sorted(wrong))}): {' '.join(groups.sentences())} Keep those keys as they are (--never-swap). Nothing was written."
            )
    if of_file.rows is None or of_file.households is None:
        return
    rules = of_file.households
    broken = {kind: int(n.sum()) for kind, n in rules.broken(of_file.rows, codes).items() if n.any()}
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


def codes_of_release(assessment: Assessment, release: Release) -> NDArray[np.int32]:
    """The keys of the records after swaps."""
    codes, _ = assessment.data.column_codes(assessment.data.keys)
    after = np.array(codes)
    after[release.rows] = release.released
    return after


def links_after(assessment: Assessment, view: FamilyRisk, release: Release) -> HouseholdLinks:
    """What an intruder finds who knows families by the keys of a view: counted in the register or expected."""
    after = household_release(view.rows, codes_of_release(assessment, release))
    return household_links(view.rows, after, reporting_register(view, assessment))


@dataclass(frozen=True, eq=False)
class HouseholdTrials:
    """What intruders who know families find in a release: by the nearest household, and with this program."""

    nearest: HouseholdLinks
    shadow: HouseholdLinks

    @classmethod
    def of(cls, rows: HouseholdRows, release: Release, register: Register) -> HouseholdTrials:
        """Try both on the :func:`~rarecell.intruder.household.household_release`."""
        nearest = household_links(rows, release, register)
        return cls(nearest, household_shadow(nearest, release, register))


def links_of_households(assessment: Assessment, release: Release) -> tuple[HouseholdTrials, HouseholdTrials | None] | None:
    """What intruders who know families find: counted in the register or expected, and what the model expected beside a count."""
    families = assessment.families
    if families is None:
        return None
    after = household_release(families.rows, codes_of_release(assessment, release))
    trials = HouseholdTrials.of(families.rows, after, reporting_register(families, assessment))
    if families.register is None:
        return trials, None
    return trials, HouseholdTrials.of(families.rows, after, modelled(families, assessment))


def household_intruders(trials: HouseholdTrials, expected: HouseholdTrials | None = None) -> tuple[IntruderSummary, ...]:
    """The intruders who know families as a run or an attack reports them; ``expected`` is what the model says beside a count."""
    nearest = replace(
        _household_intruder(trials.nearest, None if expected is None else expected.nearest),
        persons_certain=trials.nearest.persons_certain,
        highest=trials.nearest.after.highest,
        highest_risk=float(trials.nearest.risk_after().max(initial=0.0)),
    )
    return nearest, _household_intruder(trials.shadow, None if expected is None else expected.shadow)


def _household_intruder(links: HouseholdLinks, expected: HouseholdLinks | None) -> IntruderSummary:
    return replace(
        IntruderTrial(links.after.name, links.before, links.after).summary(),
        estimated_before=None if expected is None else expected.before.total,
        estimated_after=None if expected is None else expected.after.total,
        persons_before=links.persons_before,
        persons_after=links.persons_after,
    )


# ---------------------------------------------------------------------- without their number

SHARED = 0.98
"""A column is shared by the members if this part of them agrees with the first member of their household."""

BY_CHANCE = 0.9
"""A column that so many pairs of any records agree on says nothing about households."""


@dataclass(frozen=True)
class PutTogether:
    """Households that can be put together again, by the columns that tell; ``by_keys`` of them by keys alone."""

    columns: tuple[str, ...]
    households: int
    persons: int
    of: int
    by_keys: int

    @property
    def sentence(self) -> str:
        if not self.households:
            return "Without its number no household can be put together again by values that its members share."
        beginning = (
            f"Without the household number, {number(self.households)} of the {counted(self.of, 'household')} with two or more members "
            f"({counted(self.persons, 'person')}) can still be put together by values that all members share and nobody else has"
        )
        return f"{beginning}: {listed(self.columns)}." if self.columns else f"{beginning}: those of the keys."


def put_together(columns: dict[str, NDArray[np.int32]], keys: frozenset[str], household: NDArray[np.int64]) -> PutTogether:
    """Find the columns that members share, and count the households that they put together again.

    Parameters
    ----------
    columns : dict of str to array of int
        The released columns as codes.
    keys : frozenset of str
        Those of them that are keys.
    household : array of int
        The household of each record, which the released file does not have.
    """
    _, home, size = np.unique(household, return_inverse=True, return_counts=True)
    first = np.unique(home, return_index=True)[1][home]
    later_members = np.flatnonzero(np.arange(len(home)) != first)
    several = int((size > 1).sum())
    shared = {name: codes for name, codes in columns.items() if len(later_members) and _is_shared(codes, first, later_members)}

    def rebuilt(names: list[str]) -> NDArray[np.bool_]:
        """Which households of two or more are the only ones with their values of these columns."""
        group = np.zeros(len(home), dtype=np.int64)
        for name in names:
            group = np.unique(group * (int(shared[name].max()) + 2) + shared[name] + 1, return_inverse=True)[1]
        n_in_group = np.bincount(group)
        same = np.bincount(home, weights=group == group[first]) == size
        return np.asarray((size > 1) & same & (n_in_group[group[np.unique(home, return_index=True)[1]]] == size))

    by_keys = int(rebuilt([name for name in shared if name in keys]).sum())
    whole = rebuilt(list(shared))
    telling = [name for name in shared if name not in keys]
    # Columns that put nothing together beyond the others are not to blame.
    for name in sorted(telling, key=lambda name: int(shared[name].max())):
        fewer = [other for other in shared if other in keys or (other in telling and other != name)]
        if int(rebuilt(fewer).sum()) >= int(whole.sum()):
            telling.remove(name)
    return PutTogether(tuple(telling), int(whole.sum()), int(size[whole].sum()), several, by_keys)


def _is_shared(codes: NDArray[np.int32], first: NDArray[np.int64], later_members: NDArray[np.int64]) -> bool:
    agree = float((codes[later_members] == codes[first[later_members]]).mean())
    share = np.bincount(codes - codes.min()) / len(codes)
    return agree >= SHARED and float((share**2).sum()) <= BY_CHANCE


def refuse_put_together(assessment: Assessment, plan: SwapPlan, treated: Treated, accepted: tuple[str, ...]) -> str:
    """Stop if columns outside the keys put households together again; otherwise say how many still can be."""
    data = assessment.data
    household = data.household_codes()
    assert household is not None
    left_out = {*data.household_columns, *treated.dropped, *treated.values, *treated.recodes}
    names = [
        c.name for c in data.source.columns() if c.name not in left_out and c.name not in data.id_columns and c.kind != "other"
    ]
    codes, categories = data.column_codes(names)
    columns = {c.key: np.array(codes[:, k]) for k, c in enumerate(categories)}
    for k, key in enumerate(data.keys):
        columns[key][plan.rows] = plan.release.released[:, k]
    for name, column in treated.after.items():
        if name not in treated.dropped:
            columns[name] = np.asarray(column.codes, dtype=np.int32)
    result = put_together(columns, frozenset(data.keys), household)
    telling = [name for name in result.columns if name not in accepted]
    if telling and result.households > result.by_keys:
        raise BadInput(
            f"{result.sentence} Drop or treat {verb(len(telling), 'this column', 'these columns')} "
            f'(--treat "{telling[0]}=drop", or coarser values), or accept it by name (--accept-leak {telling[0]}), which the report then '
            "says. Nothing was written."
        )
    of_keys = data.column_codes(data.keys)[1]
    guessed = guessed_members(columns, household, codes_of_release(assessment, plan.release), of_keys)
    return " ".join(filter(None, [result.sentence, guessed.sentence]))


def guessed_members(
    columns: dict[str, NDArray[np.int32]],
    household: NDArray[np.int64],
    keys: NDArray[np.int32],
    categories: Sequence[Categories],
) -> GuessedPairs:
    """What somebody finds who puts members together by what is plausible; ``columns`` are those of the released file.

    ``keys`` are the released keys and ``categories`` their levels, by which members take their places. Columns of many levels tell too little of who lives together.
    """
    layout = find_layout(keys, categories, household)
    members = Members.of(keys, household, layout)
    lives = np.flatnonzero(members.place == 1)
    first = members.at[members.of_record[lives], 0]
    lives, first = lives[members.of_record[lives] >= 0], first[members.of_record[lives] >= 0]
    comparable = {name: codes for name, codes in columns.items() if int(codes.max(initial=0)) < MOST_LEVELS_GUESSED}
    shared = [k for k, codes in enumerate(comparable.values()) if len(lives) and (codes[lives] == codes[first]).all()]
    return guessed_pairs(np.column_stack([*comparable.values()]), members.at[:, :2], shared)


MOST_LEVELS_GUESSED = 300
"""Columns with more levels than this are not compared between members."""
