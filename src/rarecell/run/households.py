"""Which families of a file could be recognised, how are they protected, and can a household be put together again?

The households of a run become rows and are assessed like a file of their own: the same kind of model, the same design, interval and
checks, and a register of households where the register of the run names them. They are protected by swaps between household rows
(:mod:`rarecell.swap.families`), then by swaps of single persons who are recognised without their family and were not reached.

Without the household number, and with the rows shuffled, nobody knows who lives with whom, unless other columns tell: a weight, an
income of the household or a small area is the same for all members and rare. Such columns are looked for in the file as it would be
released. A household is put together again if its members, and nobody else, share the values of all columns that members share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.data.microdata import Microdata
from rarecell.engine import open_source
from rarecell.engine.duck import EngineSettings
from rarecell.errors import BadInput
from rarecell.intruder.household import KNOWS, HouseholdLinks, household_distances, household_links, household_release
from rarecell.intruder.register import Register
from rarecell.machine.memory import MemoryLimit
from rarecell.outcome.summary import Reliability
from rarecell.outcome.swap import IntruderSummary
from rarecell.outcome.words import counted, listed, number, verb
from rarecell.progress import Progress
from rarecell.risk.diagnostics import fit_diagnostics
from rarecell.risk.families import Families, looks_like_households, unknown_composition, why_incomplete
from rarecell.risk.interval import model_error, risk_interval
from rarecell.risk.records import RecordRisk, record_risk
from rarecell.risk.register import RegisterCounts, register_records
from rarecell.risk.reliability import Counted, reliability, with_light
from rarecell.run import models
from rarecell.run.beside_keys import Treated
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.results import Assessment, HouseholdFindings
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
from rarecell.table.contingency import ContingencyTable
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
    ordered = {c.key: c.is_ordered for c in risk.table.categories}
    categories = tuple(replace(c, is_ordered=ordered[c.key]) for c in categories)
    before = _named_order(data, config)
    plain = Members.of(codes, household)
    fraction = risk.table.n_records / risk.population
    reason = why_incomplete(codes, categories, plain, fraction=fraction)
    if reason is None and not (plain.size > 1).any():
        reason = "no household has two members in the file"
    if reason is not None:
        return HouseholdFindings(None, None, (unknown_composition(reason, plain.n_households),))
    layout = find_layout(codes, categories, household, before=before)
    rows = layout.rows(codes, household, before=before)
    table, population = _in_population(rows, data, risk, config)
    table = models.with_resolutions(table, config.resolution)
    model = models.risk_model(table, replace(config, cliques=()))
    sampling = "srs" if table.weights is None else "weights"
    of_rows = record_risk(table, model, population=population, sampling=sampling, form=config.form)
    fit = fit_diagnostics(
        table, model, population=of_rows.population, refit=lambda part: models.refitted(part, config), seed=config.seed
    )
    estimate = of_rows.expected_population_uniques, of_rows.expected_correct_matches
    interval = risk_interval(of_rows, model, seed=config.seed).widened(model_error(of_rows, fit), estimate)
    counted = _counted(data, rows, config, register) if config.register is not None else None
    found = None if counted is None else Counted(counted.population_uniques, interval.population_uniques)
    trust = _of_households(reliability(of_rows, fit, None, counted=found, interval=interval))
    families = Families(rows, of_rows, interval, trust, counted)
    notes = rows.sentences()
    if config.register is not None and counted is None:
        notes.append("The register does not name the household of its people, so the risk of families is estimated.")
    return HouseholdFindings(families, model, tuple(notes))


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


def _named_order(data: Microdata, config: RunConfig) -> tuple[NDArray[np.int64], ...]:
    """Ranks of the records by the columns that the user named for the order of the members."""
    if not config.household_order:
        return ()
    codes, _ = data.column_codes(config.household_order)
    return tuple(codes[:, k].astype(np.int64) for k in range(codes.shape[1]))


def _in_population(rows: HouseholdRows, data: Microdata, risk: RecordRisk, config: RunConfig) -> tuple[ContingencyTable, float]:
    """The table of the rows, with weights if records have them, and the number of households of the population.

    A household stands for as many households as its members stand for persons on average. Without weights the number of
    households is that of the persons, times households by records of the file.
    """
    weights = data.record_weights()
    if weights is None and config.strata is not None and risk.table.record_cell is not None:
        weights = np.append(risk.design.weight, 0.0)[risk.table.record_cell]
    if weights is None:
        n_records = int(rows.members.size.sum()) + rows.members.n_inmates
        return rows.table, max(risk.population * rows.members.n_households / n_records, float(rows.members.n_households))
    table = rows.weighed(weights)
    assert table.weights is not None
    scale = 1.0 if config.population is None else config.population / float(weights.sum())
    return table, max(scale * float(table.weights.sum()), float(table.n_records))


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
    return result.sentence
