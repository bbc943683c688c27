"""How do two households exchange values so that neither is recognised and both stay plausible?

Households are swapped by the method for records: on the table of household rows, two households that agree on a separator of their
model exchange one side of it. What moves is a set of places and keys that no kept table divides, so the ages of a couple, or of
parents and children, stay related as they were. Only households of the same size are partners, so every record keeps its row. At
each place the tables of the persons' model are kept as well; they are then kept in the file, of which the places are parts.

The plan for rows becomes a plan for records: member by member, those at the same place exchange what moves there. What must be
true of every household (:mod:`rarecell.table.household_rules`) is checked afterwards, and households that would break a rule look
for other partners. In the end pairs become rings (:mod:`rarecell.swap.rings`), as those of records do; a ring that would break a rule, or
leave its households linked more often than its pairs do, stays in pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell.graph.masks import MAX_VERTICES
from rarecell.intruder.household import household_release, still_linked
from rarecell.intruder.register import Register
from rarecell.progress import SILENT, Progress
from rarecell.swap.interactions import Interactions
from rarecell.swap.partners import PartnerSearch
from rarecell.swap.plan import SwapPlan, plan_task, with_rings
from rarecell.swap.reasons import RULE_BROKEN, Unswapped
from rarecell.swap.rules import SwapConstraints
from rarecell.swap.task import SwapTask
from rarecell.swap.units import Units
from rarecell.table.categories import NOBODY, Coarsening
from rarecell.table.columns import CodedColumn, ColumnValues
from rarecell.table.contingency import ContingencyTable
from rarecell.table.household_rows import SIZE, HouseholdRows, Layout
from rarecell.table.household_rules import ClusterRules, HouseholdRules
from rarecell.table.structural_zeros import StructuralZeros

if TYPE_CHECKING:
    from rarecell.edges import Json

Codes = NDArray[np.int32]

ROUNDS_FOR_LINKS = 4
"""Number of times that households which are still linked, in any way of comparing, look for another partner."""

STILL_LINKED = 0.3
"""A household with a higher chance to be linked after its exchange looks for another partner."""

MOST_ROUNDS = 6
"""Number of times that households whose exchange breaks a rule look for another partner."""

WORTH_A_RING = 1.0
"""What a merge of pairs of households may cost; a changed value without order costs 1."""

MORE_LINKED = 0.05
"""Links that a ring may leave beyond those of its pairs; with more it stays in pairs."""


def swap_table(rows: HouseholdRows, persons: ContingencyTable) -> ContingencyTable:
    """The table of household rows with, at every place, the coarsenings that the persons' keys have.

    A place that is not taken is a group of its own. Where vertices run short, later places go without.
    """
    table = rows.table
    of_key: dict[str, list[Coarsening]] = {}
    for coarsening in persons.coarsenings:
        of_key.setdefault(coarsening.key, []).append(coarsening)
    coarsenings: list[Coarsening] = []
    for column, categories in zip(rows.layout.columns, table.categories, strict=True):
        if column.key < 0:
            continue
        chain = of_key.get(rows.layout.keys[column.key].key, [])
        if table.n_keys + len(coarsenings) + len(chain) > MAX_VERTICES:
            break
        for coarsening in chain:
            group, labels = coarsening.group_of_level, coarsening.labels
            if len(group) < rows.layout.keys[column.key].n_levels:
                # Records with a missing value were dropped from the persons' table, and have a level here.
                group, labels = np.append(group, len(labels)).astype(np.int32), (*labels, "missing")
            if column.place >= 0:
                group, labels = np.append(np.int32(0), group + 1).astype(np.int32), (NOBODY, *labels)
            if 1 < len(labels) < categories.n_levels:
                coarsenings.append(Coarsening(_at(coarsening.name, column.place), column.name, group, labels))
    return table.with_coarsenings(coarsenings)


def _at(name: str, place: int) -> str:
    """The name of a key or coarsening at a place: ``age/10`` at the second is ``age 2/10``."""
    if place < 0:
        return name
    key, slash, level = name.rpartition("/")
    return f"{key} {place + 1}/{level}" if slash else f"{name} {place + 1}"


def at_every_place(layout: Layout, table: ContingencyTable, sets: Iterable[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Sets of keys, coarsenings and further columns, at every place.

    A coarsening that the table lacks at a place is replaced by its key; what is constant there is left out.
    """
    names, keys = set(table.vertex_names), {c.key: k for k, c in enumerate(layout.keys)}
    placed: dict[tuple[str, ...], None] = {}
    for given in sets:
        for place in range(layout.n_places):
            mapped = []
            for name in given:
                key = name if name in keys else name.rpartition("/")[0]
                if key not in keys:
                    mapped.append(f"{name} {place + 1}")
                    continue
                where = -1 if keys[key] in layout.shared else place
                mapped += [next((n for n in (_at(name, where), _at(key, where)) if n in names), "")]
            kept = tuple(dict.fromkeys(name for name in mapped if name))
            if len(kept) > 1:
                placed[kept] = None
    return tuple(placed)


def zeros_at_places(layout: Layout, table: ContingencyTable, zeros: StructuralZeros | None) -> StructuralZeros:
    """What cannot occur in a person, at every place."""
    if not zeros:
        return StructuralZeros()
    names, keys = set(table.keys), {c.key: k for k, c in enumerate(layout.keys)}

    def at(key: str, place: int) -> str:
        return _at(key, -1 if keys[key] in layout.shared else place)

    combinations = [
        replace(item, levels=tuple((at(key, place), level) for key, level in item.levels))
        for place in range(layout.n_places)
        for item in zeros.combinations
    ]
    return StructuralZeros(combinations=tuple(dict.fromkeys(c for c in combinations if names.issuperset(c.keys))))


@dataclass(frozen=True, eq=False, kw_only=True)
class FamilyPlan(SwapPlan):
    """A plan for records that carries out a plan for households.

    Attributes
    ----------
    of_households : SwapPlan
        The swaps between rows of households.
    household_of : ndarray of int
        The household of each record; −1 in institutions.
    """

    of_households: SwapPlan = field(repr=False)
    household_of: NDArray[np.int64] = field(repr=False)

    @property
    def n_protected(self) -> int:
        """Number of requested records whose household was swapped, even if only another member's values moved."""
        left = [each.record for each in self.unswapped]
        swapped = np.zeros(int(self.household_of.max(initial=0)) + 2, dtype=bool)
        swapped[self.of_households.rows] = True
        swapped[-1] = False
        return int((swapped[self.household_of[self.requested]] & ~np.isin(self.requested, left)).sum())


class MemberMoves(NamedTuple):
    """Records that receive values: two of them, the keys that move as bit masks, and the pair of households they belong to.

    ``givers`` says whose values each of ``records``, then each of ``partners`` receives.
    """

    records: NDArray[np.int64]
    partners: NDArray[np.int64]
    moved: NDArray[np.uint64]
    owner: NDArray[np.int64]
    givers: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FamilyTask:
    """What household swaps depend on.

    Attributes
    ----------
    rows : HouseholdRows
        The households of the file.
    codes : ndarray of int
        The keys of the records.
    rules : HouseholdRules
        What holds in every household.
    households : SwapTask
        The rows, their model and all settings.
    persons : SwapTask
        The records, the model whose tables are kept in the file, and all settings.
    reporting : Register or None
        The households that an intruder knows, with all their levels; by default those of ``households``.
    clusters : tuple of ClusterRules
        What holds in other groups of records.
    """

    rows: HouseholdRows
    codes: Codes
    rules: HouseholdRules
    households: SwapTask
    persons: SwapTask
    reporting: Register | None = None
    clusters: tuple[ClusterRules, ...] = ()


def plan_family_swaps(
    task: FamilyTask, households: NDArray[np.int64], requested: NDArray[np.int64], *, progress: Progress = SILENT
) -> FamilyPlan:
    """Swap the given households with others, and no household into a state that breaks a rule.

    Parameters
    ----------
    task : FamilyTask
        The file and its households.
    households : ndarray of int
        Rows of the households to protect.
    requested : ndarray of int
        Numbers of the records to protect, for the report.
    progress : Progress, optional
        Receiver of progress reports.
    """
    return as_records(task, plan_rows(task, households, progress=progress), requested)


def plan_rows(task: FamilyTask, households: NDArray[np.int64], *, progress: Progress = SILENT) -> SwapPlan:
    """The same plan between rows of households."""
    of_rows = plan_task(replace(task.households, rings=False), households, progress=progress)
    for turn in range(MOST_ROUNDS):
        broken = breaks_a_rule(task, of_rows)
        if turn < ROUNDS_FOR_LINKS:
            broken |= leaves_a_link(task, of_rows)
        if not broken.any():
            break
        of_rows = _planned_again(task, of_rows, broken, households, turn, progress)
    broken = breaks_a_rule(task, of_rows)
    kept = of_rows.subset(~broken)
    done = np.isin(households, kept.rows)
    known = {each.record: each.reason for each in of_rows.unswapped}
    left = tuple(Unswapped(row, known.get(row, RULE_BROKEN)) for row in households[~done].tolist())
    pairs = replace(kept, requested=of_rows.requested, unswapped=left)
    return _in_rings(task, pairs, households) if task.households.rings else pairs


def _in_rings(task: FamilyTask, pairs: SwapPlan, households: NDArray[np.int64]) -> SwapPlan:
    """The same pairs in rings, as far as no rule is broken and no more households are linked."""
    search = PartnerSearch(task.households)
    search.is_closed[search.units.cell[search.units.unit_of(np.intersect1d(households, pairs.rows))]] = True
    plan = with_rings(search, pairs, by_sides=True, worth=WORTH_A_RING)
    of_pairs = _chance_linked(task, pairs)
    is_ringed = np.bincount(plan.ring, minlength=len(plan))[plan.ring] > 1
    while is_ringed.any():
        more = _chance_linked(task, plan) - of_pairs
        worse = np.bincount(plan.ring, weights=more[plan.records] + more[plan.partners], minlength=len(plan)) > MORE_LINKED
        undone = is_ringed & (worse[plan.ring] | breaks_a_rule(task, plan))
        if not undone.any():
            break
        undone = np.isin(plan.ring, plan.ring[undone])
        plan = replace(
            plan,
            moved=np.where(undone, pairs.moved, plan.moved),
            distance=np.where(undone, pairs.distance, plan.distance),
            cost=np.where(undone, pairs.cost, plan.cost),
            givers=np.where(np.tile(undone, 2), pairs.sources, plan.sources),
        )
        is_ringed &= ~undone
    return plan


def _planned_again(
    task: FamilyTask,
    plan: SwapPlan,
    broken: NDArray[np.bool_],
    households: NDArray[np.int64],
    turn: int,
    progress: Progress,
) -> SwapPlan:
    """The pairs that break no rule, and new partners for households without one, among those that no such pair uses.

    The partner in a broken pair is set aside, or the same pair would be found again; it has its own turn in the next round.
    """
    good = plan.subset(~broken)
    aside = plan.partners[broken] if turn % 2 == 0 else plan.records[broken]
    waiting = np.setdiff1d(households, np.concatenate([good.rows, aside]))
    rules = task.households.constraints
    taken = np.unique(np.concatenate([np.asarray(rules.untouched_records, dtype=np.int64), good.rows, aside]))
    again = replace(
        task.households,
        constraints=replace(rules, untouched_records=taken),
        decoys=0.0,
        rings=False,
        seed=task.households.seed + turn + 1,
    )
    more = plan_task(again, waiting, progress=progress)
    joined: Json = {
        name: np.concatenate([getattr(good, name), getattr(more, name)])
        for name in ("records", "partners", "moved", "distance", "cost")
    }
    return replace(plan, unswapped=more.unswapped, **joined)


def breaks_a_rule(task: FamilyTask, plan: SwapPlan) -> NDArray[np.bool_]:
    """Which pairs leave one of their households, or another group of its members, with a broken rule, or tear a table of persons."""
    after = _released(task, plan)
    broken = np.append(task.rules.any_broken(task.rows, after), False)
    for rules in task.clusters:
        broken[task.rows.members.of_record[rules.broken_records(after)]] = True
    # The last entry is for members of institutions, who have no row.
    broken[-1] = False
    torn = tears_a_table(task, plan)
    return np.asarray(broken[plan.records] | broken[plan.partners] | torn)


def tears_a_table(task: FamilyTask, plan: SwapPlan) -> NDArray[np.bool_]:
    """Which pairs move a key that all members share, but not what a kept table holds together with it for a member who has no place.

    Members beyond the last place of a row keep all that they do not share with their household.
    """
    layout, persons = task.rows.layout, task.persons
    shared = {layout.keys[k].key for k in layout.shared}
    table, joined = persons.table, set[str]()
    key_of = {name: table.keys[key] for name, key in zip(table.vertex_names, table.vertex_key.tolist(), strict=True)}
    for names in (*(table.names_of(mask) for mask in persons.model.generator_masks), *persons.keep):
        keys = {key_of.get(name, name) for name in names}
        if keys - shared:
            joined |= keys & shared
    columns = sum(1 << c for c, column in enumerate(layout.columns) if column.place < 0 and column.name in joined)
    beyond = task.rows.members.size > layout.n_places
    return np.asarray((plan.moved & np.uint64(columns) != 0) & (beyond[plan.records] | beyond[plan.partners]))


def leaves_a_link(task: FamilyTask, plan: SwapPlan) -> NDArray[np.bool_]:
    """Which pairs leave one of their households linked to its own by somebody, however households are compared."""
    chance = _chance_linked(task, plan)
    return np.asarray((chance[plan.records] > STILL_LINKED) | (chance[plan.partners] > STILL_LINKED))


def _chance_linked(task: FamilyTask, plan: SwapPlan) -> NDArray[np.float64]:
    """For every household, its chance to be linked after its exchange; 0 if it has none."""
    register = task.reporting or task.households.register
    assert register is not None
    return still_linked(task.rows, household_release(task.rows, _released(task, plan)), register)


def _released(task: FamilyTask, plan: SwapPlan) -> Codes:
    """The keys of the records after the plan."""
    pairs = member_pairs(task, plan)
    receivers = np.concatenate([pairs.records, pairs.partners])
    moved, after = np.tile(pairs.moved, 2), np.array(task.codes)
    for k in range(after.shape[1]):
        moves = (moved >> np.uint64(k)) & np.uint64(1) == 1
        after[receivers[moves], k] = task.codes[pairs.givers[moves], k]
    return after


def member_pairs(task: FamilyTask, plan: SwapPlan) -> MemberMoves:
    """Who receives what when households exchange places and keys: members at the same place, those values that differ.

    A pair of members stays out if neither receives anything new; who receives from one of them receives the same values from whom these
    would have received.
    """
    layout, members = task.rows.layout, task.rows.members
    n_pairs, largest = len(plan), int(members.size.max(initial=1))
    at_place = np.zeros((n_pairs, largest), dtype=np.uint64)
    for c, column in enumerate(layout.columns):
        if column.key < 0:
            continue
        moves = (plan.moved >> np.uint64(c)) & np.uint64(1) == 1
        bit = np.uint64(1) << np.uint64(column.key)
        if column.place >= 0:
            at_place[moves, column.place] |= bit
        else:
            at_place[moves] |= bit
    owner, place = np.nonzero((at_place != 0) & (members.at[plan.records][:, :largest] >= 0))
    receivers = [members.at[homes[owner], place] for homes in (plan.records, plan.partners)]
    givers = [members.at[homes[owner], place] for homes in plan.sources.reshape(2, -1)]
    moved = at_place[owner, place]
    for k in range(len(layout.keys)):
        same = np.all([task.codes[to, k] == task.codes[by, k] for to, by in zip(receivers, givers, strict=True)], axis=0)
        moved = np.where(same, moved & ~(np.uint64(1) << np.uint64(k)), moved)
    stays = moved == 0
    giver_of = np.arange(len(task.codes))
    for to, by in zip(receivers, givers, strict=True):
        giver_of[to[stays]] = by[stays]
    givers = [_passed_on(giver_of, by[~stays]) for by in givers]
    return MemberMoves(receivers[0][~stays], receivers[1][~stays], moved[~stays], owner[~stays], np.concatenate(givers))


def _passed_on(giver_of: NDArray[np.int64], givers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Givers who take part themselves, instead of those who would only pass on what they have."""
    while True:
        further = giver_of[givers]
        if np.array_equal(further, givers):
            return givers
        givers = further


def as_records(task: FamilyTask, plan: SwapPlan, requested: NDArray[np.int64]) -> FamilyPlan:
    """The plan for rows as a plan for records, with the tables that are kept in the file."""
    persons, members = task.persons, task.rows.members
    pairs = member_pairs(task, plan)
    n_members = np.bincount(pairs.owner, minlength=len(plan))
    share = 1.0 / np.maximum(n_members, 1)[pairs.owner]
    interactions = Interactions.of_model(
        persons.table, persons.model, keep=persons.keep, never_swap=persons.constraints.never_swap
    )
    left = {each.record: each.reason for each in plan.unswapped}
    home = members.of_record[requested]
    unswapped = tuple(
        Unswapped(record, left[row]) for record, row in zip(requested.tolist(), home.tolist(), strict=True) if row in left
    )
    return FamilyPlan(
        task=persons,
        interactions=interactions,
        units=Units.of(persons.table, interactions.columns, persons.columns),
        requested=requested,
        records=pairs.records,
        partners=pairs.partners,
        moved=pairs.moved,
        distance=plan.distance[pairs.owner] * share,
        cost=plan.cost[pairs.owner] * share,
        unswapped=unswapped,
        givers=pairs.givers,
        of_households=plan,
        household_of=members.of_record,
    )


def household_constraints(
    rows: HouseholdRows,
    table: ContingencyTable,
    persons: SwapTask,
    rules: HouseholdRules,
    *,
    untouched: NDArray[np.bool_] | None = None,
) -> tuple[SwapConstraints, dict[str, ColumnValues]]:
    """What no exchange between households may do, from what none between persons may do, and the columns this depends on.

    ``untouched`` says which records no swap may touch; their households are not touched.
    """
    layout, members, given = rows.layout, rows.members, persons.constraints
    names = set(table.keys)
    keys = {c.key: k for k, c in enumerate(layout.keys)}
    at_places = [(name, _columns_of(layout, keys, name)) for name in given.never_swap]
    never = tuple(column for _, columns in at_places for column in columns if column in names)
    outside = [name for name in given.within if name not in keys]
    within = [column for name in given.within if name in keys for column in _columns_of(layout, keys, name) if column in names]
    columns: dict[str, ColumnValues] = {}
    for name in dict.fromkeys([*outside, *(name for kept in persons.keep for name in kept if _is_outside(name, keys))]):
        for place in range(layout.n_places):
            columns[f"{name} {place + 1}"] = _values_at(persons.columns[name], members.at[:, place])
        if name in outside:
            within += [f"{name} {place + 1}" for place in range(layout.n_places)]
    forbidden = [
        {
            _columns_of(layout, keys, name)[min(place, len(_columns_of(layout, keys, name)) - 1)]: value
            for name, value in rule.items()
        }
        for rule in given.forbidden
        if all(name in keys for name in rule)
        for place in range(layout.n_places)
    ]
    forbidden = [rule for rule in forbidden if names.issuperset(rule)]
    zeros = zeros_at_places(layout, table, given.structural_zeros)
    both = StructuralZeros(
        combinations=tuple(dict.fromkeys((*zeros.combinations, *rules.together.combinations))),
        dependencies=rules.together.dependencies,
    )
    alone = np.zeros(0, dtype=np.int64)
    if untouched is not None and untouched.any():
        alone = np.unique(members.of_record[untouched & (members.of_record >= 0)])
    size = (SIZE,) if SIZE in names else ()
    constraints = SwapConstraints(
        never_swap=never,
        within=(*size, *dict.fromkeys(within)),
        forbidden=tuple(forbidden),
        untouched_records=alone,
        structural_zeros=both or None,
    )
    return constraints, columns


def _columns_of(layout: Layout, keys: Mapping[str, int], name: str) -> list[str]:
    """The columns of a key: one at every place, or one that all members share."""
    if keys[name] in layout.shared:
        return [name]
    return [f"{name} {place + 1}" for place in range(layout.n_places)]


def _is_outside(name: str, keys: Mapping[str, int]) -> bool:
    return name not in keys and name.rpartition("/")[0] not in keys


def _values_at(values: ColumnValues, record: NDArray[np.int64]) -> NDArray[np.object_]:
    """The value of a column at one place of every household; nobody's is None."""
    if isinstance(values, CodedColumn):
        held = np.array(values.levels, dtype=object)[values.codes]
    else:
        held = np.asarray(values, dtype=object)
    at_place = held[record].copy()
    at_place[record < 0] = None
    return np.asarray(at_place, dtype=object)
