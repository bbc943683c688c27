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

import numpy as np
from numpy.typing import NDArray

from rarecell.data.microdata import Microdata
from rarecell.engine import open_source
from rarecell.engine.duck import EngineSettings
from rarecell.errors import BadInput
from rarecell.intruder.household import (
    KNOWS,
    GuessedPairs,
    HouseholdLinks,
    guessed_pairs,
    household_distances,
    household_links,
    household_release,
)
from rarecell.intruder.register import Register
from rarecell.intruder.residual_risk import RiskAfter, risk_after
from rarecell.intruder.scenarios import ScenarioTrial
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
from rarecell.risk.reliability import Counted, reliability, with_light
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
from rarecell.table.household_rows import HouseholdRows, Members, find_layout
from rarecell.table.household_rules import HouseholdRules

if TYPE_CHECKING:
    from rarecell.edges import Frame, Json


# ---------------------------------------------------------------------- their risk


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
    found = file.risk(rows)
    of_rows, model = found.risk, found.model
    fit = fit_diagnostics(
        of_rows.table, model, population=of_rows.population, refit=lambda part: models.refitted(part, config), seed=config.seed
    )
    estimate = of_rows.expected_population_uniques, of_rows.expected_correct_matches
    interval = risk_interval(of_rows, model, seed=config.seed).widened(model_error(of_rows, fit), estimate)
    counted = _counted(data, rows, config, register) if config.register is not None else None
    in_register = None if counted is None else Counted(counted.population_uniques, interval.population_uniques)
    trust = _of_households(reliability(of_rows, fit, None, counted=in_register, interval=interval))
    families = Families(rows, of_rows, model, counted, interval=interval, reliability=trust)
    notes = rows.sentences()
    if config.register is not None and counted is None:
        notes.append("The register does not name the household of its people, so the risk of families is estimated.")
    return HouseholdFindings(families, tuple(notes), file)


MOST_RECORDS = 200_000
"""Larger files are not searched for a household that nobody declared: reading every column would take too long."""


def undeclared_household(data: Microdata, config: RunConfig, risk: RecordRisk) -> str | None:
    """A column that looks like a household and has no role; None if there is none, or if the user said what is known."""
    if config.household is not None or config.households_known == "no" or risk.table.record_cell is None:
        return None
    if data.n_records > MOST_RECORDS or not data.source.keeps_rows:
        return None
    taken = {*data.keys, data.weight, *data.id_columns, data.strata, *data.areas, *data.sensitive}
    names = [column.name for column in data.source.columns() if column.kind != "other"]
    candidates = [name for name in names if name not in taken]
    if not candidates:
        return None
    codes, _ = data.column_codes(names)
    for name in candidates:
        others = [codes[:, k] for k, other in enumerate(names) if other not in (name, *data.id_columns)]
        if looks_like_households(codes[:, names.index(name)], others):
            return name
    return None


def asked_about(column: str) -> str:
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
    known = {column.name for column in source.columns()}
    if not known.issuperset((*data.household_columns, *config.household_order)):
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
        wider = people.categories[len(place)]
        code_of = {level: code for code, level in enumerate(wider.levels)}
        place.append(np.array([code_of[level] for level in of_file.levels], dtype=np.int32))
    cells = np.stack([of_key[table.cells[:, k]] for k, of_key in enumerate(place)], axis=1)
    position = people.marginals.positions(people.all_keys, np.ascontiguousarray(cells))
    in_register = np.where(position >= 0, people.counts[position], 0)
    return RegisterCounts(table, in_register, people.n_records, people, tuple(place))


# ---------------------------------------------------------------------- their protection

Numbers = NDArray[np.int64]

MOST_CANDIDATES = 48
"""Partners considered for each household: more than for a person, because few hide a row of twenty columns."""


def family_task(wanted: ProtectConfig, found: Assessment, persons: SwapTask, untouched: NDArray[np.bool_] | None) -> FamilyTask:
    """Everything that swaps between households depend on; ``untouched`` are records that no swap may touch."""
    families = found.known_families
    assert families is not None
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


def _planning_register(families: FamilyRisk, found: Assessment) -> Register:
    if families.register is None:
        return Register.modelled(families.risk, families.model, seed=found.config.seed)
    return Register.counted(families.register.people, families.register.place).within(families.rows.table)


def reporting_register(families: FamilyRisk, found: Assessment) -> Register:
    """What an intruder knows about households: the register of the run, or what the model says, from other draws than the plan's."""
    if families.register is not None:
        return Register.counted(families.register.people, families.register.place)
    return modelled(families, found)


def modelled(families: FamilyRisk, found: Assessment) -> Register:
    return Register.modelled(families.risk, families.model, seed=found.config.seed + 1)


def family_views(found: Assessment) -> tuple[FamilyRisk, ...]:
    """The households as each intruder of the run knows them: by the keys of every scenario, or by all keys."""
    families, scenarios = found.known_families, found.roles.scenarios
    assert families is not None
    if scenarios is None:
        return (families,)
    return tuple(one.family for one in scenarios.each if one.family is not None)


def _scenarios_of_rows(families: FamilyRisk, scenarios: Scenarios) -> Scenarios:
    """The scenarios of a run for household rows: who knows a key knows it at every place."""
    table, each = families.rows.table, []
    assert table.record_cell is not None
    for one in scenarios.each:
        view = one.family
        assert view is not None
        cell = np.zeros(table.n_cells, dtype=np.int64)
        cell[table.record_cell] = view.cell
        each.append(ScenarioRisk(one.name, tuple(view.rows.table.keys), view.known_risk, cell, view.model, view.register))
    return Scenarios(table, tuple(each))


def chosen_records(wanted: ProtectConfig, found: Assessment, risk: RecordRisk) -> Numbers:
    """The records that a run asks for, alone or with their family, for any of its intruders."""
    if wanted.records is not None:
        return np.array(wanted.records, dtype=np.int64)
    families, scenarios = found.known_families, found.roles.scenarios
    assert families is not None
    larger = families.larger(risk.per_record()["unique_probability"]) if scenarios is None else scenarios.of_records[0]
    if wanted.risk_above is not None:
        return np.flatnonzero(larger > wanted.risk_above)
    if wanted.top is not None:
        order = np.lexsort((np.arange(len(larger)), -larger))[: wanted.top]
        return np.sort(order[larger[order] > 0.0])
    assert wanted.cell_probability_below is not None
    chosen = [risk.cell_probability_below(wanted.cell_probability_below)]
    for view in family_views(found):
        share = np.exp(view.risk.log_population_share)[view.cell]
        is_rare = (view.is_alone & (share < wanted.cell_probability_below)).astype(np.float64)
        chosen.append(np.flatnonzero(view.rows.members.spread(is_rare) > 0.0))
    return np.unique(np.concatenate(chosen))


def planned_families(
    wanted: ProtectConfig,
    found: Assessment,
    persons: SwapTask,
    risk: RecordRisk,
    register: Register,
    untouched: NDArray[np.bool_] | None,
    progress: Progress,
) -> tuple[FamilyPlan, TargetPlan | None]:
    """Swap the households of the chosen records, or enough for a target, then the persons at risk without their family.

    ``risk`` and ``register`` are those of persons, as they are reported.
    """
    families = found.known_families
    assert families is not None
    planning = _Planning(found, family_task(wanted, found, persons, untouched), progress)
    if wanted.has_target:
        target = SwapTarget(wanted.max_population_uniques, wanted.max_record_risk, wanted.max_correct_links)
        return _to_target(planning, risk, register, target)
    requested = chosen_records(wanted, found, risk)
    home = families.rows.members.of_record[requested]
    plan = planning.for_households(np.unique(home[home >= 0]), requested)
    return planning.with_persons(plan, _alone_at_risk(wanted, found, risk, requested)), None


@dataclass(frozen=True, eq=False)
class _Planning:
    """How a run plans swaps: against the intruder who knows all keys, or against those of its scenarios."""

    found: Assessment
    task: FamilyTask
    progress: Progress

    def for_households(self, households: Numbers, requested: Numbers) -> FamilyPlan:
        """Swaps between households; ``requested`` are the records to protect, for the report."""
        scenarios, families = self.found.roles.scenarios, self.found.known_families
        assert families is not None
        if scenarios is None:
            return plan_family_swaps(self.task, households, requested, progress=self.progress)

        def of_rows(task: SwapTask, chosen: Numbers, progress: Progress) -> SwapPlan:
            return plan_rows(replace(self.task, households=task), chosen, progress=progress)

        intruders = _scenarios_of_rows(families, scenarios)
        chosen = Chosen.named(intruders, households, self.found.config.threshold)
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
        persons = replace(
            task.persons, constraints=replace(rules, untouched_records=taken, never_swap=never), decoys=0.0, rings=False
        )
        single = self._for_persons(persons, waiting)
        single = single.subset(consistent_pairs(task.rows, task.codes, task.rules, single, plan))
        joined: Json = {
            name: np.concatenate([getattr(plan, name), getattr(single, name)])
            for name in ("records", "partners", "moved", "distance", "cost")
        }
        return replace(plan, **joined)

    def _for_persons(self, task: SwapTask, records: Numbers) -> SwapPlan:
        scenarios = self.found.roles.scenarios
        if scenarios is None:
            return plan_task(task, records, progress=self.progress)
        chosen = Chosen.named(scenarios, records, self.found.config.threshold)
        return plan_for_scenarios(task, scenarios, chosen, progress=self.progress)

    def after(self, risk: RecordRisk, register: Register, plan: FamilyPlan) -> AfterFamilies:
        """What is left, to each intruder of the run."""
        scenarios, found = self.found.roles.scenarios, self.found
        if scenarios is None:
            persons: tuple[RiskAfter, ...] = (risk_after(risk, plan.release, plan.links(register)),)
        else:
            trials = [
                ScenarioTrial.of(one, plan.release, plan.task.distances, seed=found.config.seed + 1) for one in scenarios.each
            ]
            persons = tuple(trial.after() for trial in trials)
        return AfterFamilies(persons, tuple(links_after(found, view, plan.release) for view in family_views(found)))


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
        uniques, links, highest = self.numbers()
        return (
            (target.max_population_uniques is None or uniques <= target.max_population_uniques)
            and (target.max_correct_links is None or links <= target.max_correct_links)
            and (target.max_record_risk is None or highest <= target.max_record_risk)
        )


def _to_target(planning: _Planning, risk: RecordRisk, register: Register, target: SwapTarget) -> tuple[FamilyPlan, TargetPlan]:
    """Swap households, then single persons, until neither persons nor families are found more often than the target allows.

    The first plan serves as many households, by their risk, as would be enough if nothing else were left; while the target is
    missed, those that are left at most risk are served as well.
    """
    views = family_views(planning.found)
    of_record = views[0].rows.members.of_record
    chosen = np.unique(np.concatenate([first_choice(view.known_risk, target) for view in views]))
    for attempt in range(MOST_ATTEMPTS):
        plan = planning.for_households(chosen, np.flatnonzero(np.isin(of_record, chosen)))
        plan = planning.with_persons(plan, _persons_beyond(planning.found, risk, target, plan))
        after = planning.after(risk, register, plan)
        left = after.of_households()
        left[chosen] = 0.0
        waiting = np.argsort(-left, kind="stable")[: np.count_nonzero(left)]
        if after.meets(target) or not len(waiting) or attempt + 1 == MOST_ATTEMPTS:
            break
        above = 0 if target.max_record_risk is None else np.count_nonzero(left > target.max_record_risk)
        if not above and target.max_population_uniques is None and target.max_correct_links is None:
            break
        chosen = np.union1d(chosen, waiting[: max(above, len(chosen) // 4, 10)])
    points = frontier(risk, plan, plan.links(register))
    return plan, TargetPlan(plan, after.persons[0], after.meets(target), points, _target_sentence(plan, after, target))


def _own_risk(found: Assessment, risk: RecordRisk) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For every record, the risk without its family: to be alone in the population, and to be matched correctly."""
    of_record, scenarios = risk.per_record(), found.roles.scenarios
    own, match = (np.nan_to_num(of_record[name]) for name in ("unique_probability", "match_probability"))
    if scenarios is None:
        return own, match
    worst = np.append(scenarios.worst_probability, 0.0)[found.table.cell_of_record]
    return worst, np.where(worst > 0.0, np.maximum(match, worst), 0.0)


def _persons_beyond(found: Assessment, risk: RecordRisk, target: SwapTarget, plan: FamilyPlan) -> Numbers:
    """Records that are at risk without their family beyond what the target allows, once the households were swapped."""
    own, match = _own_risk(found, risk)
    own[plan.rows] = match[plan.rows] = 0.0
    match[own == 0.0] = 0.0
    beyond = np.zeros(len(own), dtype=bool) if target.max_record_risk is None else own > target.max_record_risk
    for most, each in ((target.max_population_uniques, own), (target.max_correct_links, match)):
        if most is not None:
            order = np.argsort(-each, kind="stable")
            left = each.sum() - np.cumsum(each[order])
            beyond[order[: int(np.searchsorted(-left, -most)) + 1]] |= each.sum() > most
    return np.flatnonzero(beyond & (own > 0.0))


def _target_sentence(plan: FamilyPlan, after: AfterFamilies, target: SwapTarget) -> str:
    uniques, links, highest = after.numbers()
    reached = (
        f"{uniques:,.1f} expected population uniques, {links:,.1f} expected correct links and a highest risk of {highest:.3f}, in "
        "households or in persons, whichever is more"
    )
    if after.meets(target):
        n = len(plan.of_households)
        return f"{counted(n, 'swap')} between households, which {verb(n, 'changes', 'change')} {plan.n_values_changed:,} values with those of single persons, {verb(n, 'reaches', 'reach')} {target}: {reached}."
    return f"The target of {target} is out of reach for swaps; all of them together leave {reached}."


def _alone_at_risk(wanted: ProtectConfig, found: Assessment, risk: RecordRisk, requested: Numbers) -> Numbers:
    """Requested records that are at risk without their family."""
    least = found.config.threshold if wanted.risk_above is None else wanted.risk_above
    own = _own_risk(found, risk)[0][requested]
    return requested[(own > 0.0) & (own >= least)]


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
        # A ring is undone as a whole: its pairs exchange values with each other.
        kept[single.whole(wrong)] = False


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
    broken = {
        kind: int(n.sum()) for kind, n in rules.broken(families.rows, codes_of_release(found, plan.release)).items() if n.any()
    }
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


def codes_of_release(found: Assessment, release: Release) -> NDArray[np.int32]:
    """The keys of the records after swaps."""
    codes, _ = found.data.column_codes(found.data.keys)
    after = np.array(codes)
    after[release.rows] = release.released
    return after


def links_after(found: Assessment, view: FamilyRisk, release: Release) -> HouseholdLinks:
    """What an intruder finds who knows families by the keys of a view: counted in the register or expected."""
    after = household_release(view.rows, codes_of_release(found, release))
    return household_links(view.rows, after, reporting_register(view, found))


def links_of_households(found: Assessment, release: Release) -> tuple[HouseholdLinks, HouseholdLinks | None] | None:
    """What an intruder who knows families finds: counted in the register or expected, and what the model expected beside a count."""
    families = found.families
    if families is None:
        return None
    links = links_after(found, families, release)
    if families.register is None:
        return links, None
    after = household_release(families.rows, codes_of_release(found, release))
    return links, household_links(families.rows, after, modelled(families, found))


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
        highest_risk=float(links.risk_after().max(initial=0.0)),
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
        told = (
            f"Without the household number, {counted(self.households, 'household')} of {number(self.of)} with two or more members, "
            f"{counted(self.persons, 'person')}, can still be put together by values that all members share and nobody else has"
        )
        return f"{told}: {listed(self.columns)}." if self.columns else f"{told}: those of the keys."


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
    others = np.flatnonzero(np.arange(len(home)) != first)
    several = int((size > 1).sum())
    shared = {name: codes for name, codes in columns.items() if len(others) and _is_shared(codes, first, others)}

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


def _is_shared(codes: NDArray[np.int32], first: NDArray[np.int64], others: NDArray[np.int64]) -> bool:
    agree = float((codes[others] == codes[first[others]]).mean())
    share = np.bincount(codes - codes.min()) / len(codes)
    return agree >= SHARED and float((share**2).sum()) <= BY_CHANCE


def refuse_put_together(found: Assessment, plan: SwapPlan, treated: Treated, accepted: tuple[str, ...]) -> str:
    """Stop if columns outside the keys put households together again; otherwise say how many still can be."""
    data = found.data
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
    guessed = guessed_members(columns, household, codes_of_release(found, plan.release), of_keys)
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
    known = {name: codes for name, codes in columns.items() if int(codes.max(initial=0)) < MOST_LEVELS_GUESSED}
    shared = [k for k, codes in enumerate(known.values()) if len(lives) and (codes[lives] == codes[first]).all()]
    return guessed_pairs(np.column_stack([*known.values()]), members.at[:, :2], shared)


MOST_LEVELS_GUESSED = 300
"""Columns with more levels than this are not compared between members."""
