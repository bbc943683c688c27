"""What does the released file look like to its recipients, and who stays at risk in it?

Who is unique in it and how risky that is; groups, households, intruders, sensitive columns, intervals; an earlier release of the same
records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rarecell.data.levels import settle
from rarecell.data.microdata import Microdata
from rarecell.engine import open_source
from rarecell.errors import BadInput
from rarecell.intruder.household import HouseholdLinks
from rarecell.intruder.residual_risk import RiskAfter, ScenarioTrial
from rarecell.outcome.profile import Profile
from rarecell.outcome.records import RemainingRecord
from rarecell.outcome.roles import (
    AttributeSummary,
    AttributeTarget,
    Concentration,
    GroupRisk,
    HouseholdsAfter,
    ReleasedState,
    ScenarioSummary,
)
from rarecell.outcome.swap import (
    AffectedGroup,
    IntruderSummary,
    LeftBehind,
    ReleasedBefore,
    RemainingSummary,
)
from rarecell.release.earlier import compare_releases
from rarecell.release.release import Release
from rarecell.release.travel import Dependency, dependency
from rarecell.release.utility import affected_groups
from rarecell.risk.attributes import Groups, attribute_risk
from rarecell.risk.families import Families
from rarecell.risk.interval import risk_interval
from rarecell.risk.records import RecordRisk, household_risk
from rarecell.risk.scenarios import ScenarioRisk
from rarecell.risk.unsafe import k_anonymity
from rarecell.run.beside_keys import NOTHING, Treated
from rarecell.run.blanking import released_table, without_blanks
from rarecell.run.config import RunConfig
from rarecell.run.households import links_after
from rarecell.run.inputs import earlier_release
from rarecell.run.results import Assessment
from rarecell.run.utility import codes_after, givers, joint_counts, treated_values
from rarecell.swap.plan import SwapPlan
from rarecell.swap.reasons import Remaining, remaining_records, remedy, with_families
from rarecell.table.categories import MISSING
from rarecell.table.contingency import Categories
from rarecell.table.distance import Distances

if TYPE_CHECKING:
    from rarecell.edges import Columns

LEVEL_Z = 1.959963984540054
"""Half-width, in standard deviations, of an interval that holds 95 % of a normal distribution."""


UNDERSTATED = 0.1
"""Share by which the number of records that could still be recognised may be higher than a model of all records has it.

Those that stay are the ones whose risk seemed small. In samples of known populations 3 to 8 % fewer were expected among them than there were,
in those of some populations 20 % fewer (``benchmarks/attack.py --stayed``)."""


# ---------------------------------------------------------------------- who is alone in it


def together_before(families: Families | None, risk: RecordRisk) -> NDArray[np.float64] | None:
    """For every record, the larger of its own risk and that of its household; None if nobody is taken to know households."""
    return None if families is None else families.larger(risk.per_record()["unique_probability"])


def together_after(
    assessment: Assessment, release: Release, after: RiskAfter, links: HouseholdLinks | None
) -> NDArray[np.float64] | None:
    """The same in the released file; ``links`` are those of an intruder who knows households."""
    families = assessment.known_families
    if families is None or links is None:
        return None
    own = release.of_records(after.unique_probability, after.swapped_highest)
    return np.maximum(own, families.rows.members.spread(links.risk_after()))


def released_state(
    assessment: Assessment,
    release: Release,
    after: RiskAfter,
    interval: tuple[float, float],
    intruders: Sequence[IntruderSummary],
    together: NDArray[np.float64] | None = None,
) -> ReleasedState:
    """The state of the released file: the risk of each record that is unique in it, and how many records share a cell.

    ``interval`` is the :func:`interval_after`; that of the correct links is the one of the nearest of the ``intruders``. Records are
    counted above the threshold by the :func:`together_after`, where households are known.
    """
    threshold = assessment.config.threshold
    has_blanks = len(release.blanks.rows) > 0
    table = released_table(assessment, release) if has_blanks else release.after
    edges = np.linspace(0.0, 1.0, 11)
    stayed = after.unique_probability[after.counts == 1]
    # Judge a swapped record by its highest chance of being linked, under any definition of near.
    risks = np.concatenate([stayed, after.swapped_highest[after.swapped_highest > 0.0]])
    n_alone = int((table.counts == 1).sum()) if has_blanks else after.n_sample_uniques
    counts = np.histogram(risks, edges)[0]
    intervals = [each.interval_after for each in intruders if each.name == "nearest" and len(each.interval_after) == 2]
    # Blanking puts records among others, which are then not alone, or leaves others alone with next to no risk.
    counts[0] = max(0, int(counts[0]) + n_alone - len(risks))
    return ReleasedState(
        sample_uniques=n_alone,
        records_above_threshold=int((risks >= threshold).sum()) if together is None else n_above_threshold(together, threshold),
        edges=tuple(edges.round(1).tolist()),
        counts=tuple(int(n) for n in counts),
        k_anonymity={str(k): n for k, n in k_anonymity(table, _sizes_asked_for(assessment)).items()},
        households=_households(assessment, release, after),
        concentration=concentration_of(_alone_in_population(after, n_alone) if together is None else together),
        interval=interval,
        interval_correct_matches=intervals[0] if intervals else (),
    )


def n_above_threshold(risks: NDArray[np.float64], threshold: float) -> int:
    """Number of records at the threshold or above; a risk of 0 is below every threshold."""
    return int((risks[risks > 0.0] >= threshold).sum())


def _sizes_asked_for(assessment: Assessment) -> tuple[int, ...]:
    """The least sizes of groups that are counted: the usual ones, that of the run and that of its profile."""
    sizes = [None if assessment.config.protect is None else assessment.config.protect.k]
    sizes.append(None if assessment.config.profile is None else Profile.named(assessment.config.profile).least_k)
    return tuple(sorted({2, 3, 5, *(k for k in sizes if k is not None)}))


def _alone_in_population(after: RiskAfter, n_alone: int) -> NDArray[np.float64]:
    """For every sample unique of the released file, the probability that its person is alone in the population and is linked."""
    probability = np.concatenate([after.unique_probability[after.counts == 1], after.swapped_unique[after.swapped_unique > 0.0]])
    return np.append(probability, np.zeros(max(0, n_alone - len(probability))))


def _households(assessment: Assessment, release: Release, after: RiskAfter) -> HouseholdsAfter | None:
    """Households whose members could be recognised in the released file."""
    codes = assessment.data.household_codes()
    if codes is None or release.before.record_cell is None:
        return None
    of_record = release.of_records(after.unique_probability, after.swapped_highest)
    probability = household_risk(of_record, codes)[np.unique(codes, return_index=True)[1]]
    return HouseholdsAfter(
        expected_with_an_identified_member=float(probability.sum()),
        above_threshold=int((probability >= assessment.config.threshold).sum()),
    )


def interval_after(assessment: Assessment, release: Release, after: RiskAfter) -> tuple[float, float]:
    """Interval for the number of records that could still be recognised.

    Records that stayed and are still unique are simulated as before protection, or counted in a register. Those that moved or lost
    values are added as independent trials with their probabilities. If others were chosen to move, the upper end allows for records
    that stayed because the model is wrong about them.
    """
    stays = (after.unique_probability > 0.0) & (assessment.risk.sample_count == 1)
    changed = [after.swapped_unique]
    if len(release.blanks.rows):
        cells = release.before.cell_of(np.setdiff1d(release.blanks.rows, release.rows))
        stays[cells] = False
        changed.append(after.unique_probability[cells])
    chance = np.minimum(np.concatenate(changed), 1.0)
    mean, spread = float(chance.sum()), LEVEL_Z * float(np.sqrt((chance * (1.0 - chance)).sum()))
    low, high = 0.0, 0.0
    if assessment.roles.register is not None:
        # Who stayed and is alone was counted; there is nothing to simulate.
        low = high = float(after.unique_probability[stays].sum())
    elif stays.any():
        alone = assessment.risk.unique_probability[stays].sum(), assessment.risk.match_probability[stays].sum()
        drawn = risk_interval(assessment.risk, assessment.choice.risk_model, among=stays, seed=assessment.config.seed)
        drawn = drawn.widened(assessment.summary.risk.model_error, (float(alone[0]), float(alone[1])))
        low, high = drawn.population_uniques
        high = min(high * (1.0 + UNDERSTATED if len(release.changed) else 1.0), float(stays.sum()))
    return max(0.0, float(np.floor(low + max(0.0, mean - spread)))), float(np.ceil(high + mean + spread))


# Which groups of records are at risk, before and after protection, and how concentrated is the risk?

MOST_LEVELS_LISTED = 400
"""For a key with more levels, only those with the most risk are reported."""

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of the sample uniques at which the concentration of risk is reported."""

RoleColumns = Mapping[str, tuple[NDArray[np.int32], Categories]]
"""Columns that have a role but are not keys: the code of each record, and the levels."""

ByLevel = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Three sums for each level of a column."""


def role_columns(data: Microdata, config: RunConfig, risk: RecordRisk) -> RoleColumns:
    """Areas, strata and sensitive columns with few enough levels to report one by one; none if records are not held in memory."""
    if risk.table.record_cell is None:
        return {}
    named = dict.fromkeys([*data.areas, *([config.strata] if config.strata else []), *config.sensitive])
    names = [name for name in named if name not in risk.table.keys]
    if not names:
        return {}
    codes, categories = data.column_codes(names)
    return {c.key: (codes[:, k], c) for k, c in enumerate(categories) if 1 < c.n_levels <= MOST_LEVELS_LISTED}


def groups_of(
    risk: RecordRisk,
    release: Release | None = None,
    after: RiskAfter | None = None,
    columns: RoleColumns | None = None,
    together: tuple[NDArray[np.float64] | None, NDArray[np.float64] | None] = (None, None),
) -> tuple[GroupRisk, ...]:
    """The risk of every level of every key and of every column with a role; given a release, in the released file as well.

    ``together`` has the larger risk of every record, alone or with its household, before and after, if households are known.
    """
    groups: list[GroupRisk] = []
    for k in range(risk.table.n_keys):
        of_key = _of_key(risk, k, release, after)
        if together[0] is not None:
            codes = np.append(risk.table.cells[:, k], np.int32(-1))[risk.table.cell_of_record]
            new_codes = codes.copy()
            if release is not None:
                new_codes[release.rows] = release.released[:, k]
            of_key = _recognised(of_key, risk.table.categories[k], (codes, new_codes), together)
        groups += of_key
    for codes, categories in (columns or {}).values():
        new_codes = codes
        if release is not None:
            every = np.arange(len(codes))
            new_codes = codes_after(codes[:, None], [categories.key], release, release.rows, every)[:, 0]
        of_column = _of_column(risk, (codes, new_codes), categories, release, after)
        groups += _recognised(of_column, categories, (codes, new_codes), together)
    return tuple(groups)


def _recognised(
    groups: list[GroupRisk],
    categories: Categories,
    before_and_after: tuple[NDArray[np.int32], NDArray[np.int32]],
    together: tuple[NDArray[np.float64] | None, NDArray[np.float64] | None],
) -> list[GroupRisk]:
    """The groups with the records expected to be recognised, alone or with their household; as they are if households are not known."""
    if together[0] is None:
        return groups

    def by_level(risks: NDArray[np.float64] | None, codes: NDArray[np.int32]) -> dict[str, float]:
        if risks is None:
            return {}
        held = codes >= 0
        sums = np.bincount(codes[held], weights=risks[held], minlength=categories.n_levels)
        return dict(zip(categories.shown, sums.tolist(), strict=True))

    before, after = (by_level(risks, codes) for risks, codes in zip(together, before_and_after, strict=True))
    return [
        replace(group, expected_recognised=before[group.level], expected_recognised_after=after.get(group.level))
        for group in groups
    ]


def _of_column(
    risk: RecordRisk,
    before_and_after: tuple[NDArray[np.int32], NDArray[np.int32]],
    categories: Categories,
    release: Release | None,
    after: RiskAfter | None,
) -> list[GroupRisk]:
    """Groups by a column outside the keys, which stays with its record or travels with a swapped key; a blanked value is in none."""
    codes, new_codes = before_and_after
    table = risk.table
    assert table.record_cell is not None

    def summed(of_record: NDArray[np.float64], where: NDArray[np.int32] = codes) -> NDArray[np.float64]:
        held = where >= 0
        return np.bincount(where[held], weights=of_record[held], minlength=categories.n_levels).astype(np.float64)

    def by_cell(values: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
        # The extra last element is for dropped records, whose cell is −1.
        return np.append(values.astype(np.float64), 0.0)[table.record_cell]

    records, uniques = summed(np.ones(len(codes))), summed(by_cell((table.counts == 1).astype(np.int64)))
    expected = summed(by_cell(risk.unique_probability))
    released = None
    if release is not None and after is not None:
        of_record, moved = by_cell(after.unique_probability), np.zeros(len(codes))
        of_record[release.rows] = after.swapped_unique
        moved[release.rows] = 1.0
        released = summed(np.ones(len(codes)), new_codes), summed(of_record, new_codes), summed(moved)
    return _group_risks(categories, range(categories.n_levels), (records, uniques, expected), released)


def _of_key(risk: RecordRisk, k: int, release: Release | None, after: RiskAfter | None) -> list[GroupRisk]:
    table = risk.table
    categories, codes = table.categories[k], table.cells[:, k]

    def summed(values: NDArray[np.float64] | NDArray[np.int64], where: NDArray[np.int32] = codes) -> NDArray[np.float64]:
        return np.bincount(where, weights=values, minlength=categories.n_levels).astype(np.float64)

    records, uniques = summed(table.counts), summed((risk.sample_count == 1).astype(np.int64))
    expected = summed(risk.unique_probability)
    chosen = np.sort(np.argsort(-expected, kind="stable")[:MOST_LEVELS_LISTED])
    released = None
    if release is not None and after is not None:
        new, old = release.released[:, k], release.true[:, k]
        each_row = np.ones(len(release))
        expected_after = summed(after.unique_probability) + summed(after.swapped_unique, new)
        released = records - summed(each_row, old) + summed(each_row, new), expected_after, summed(each_row, old)
    return _group_risks(categories, chosen.tolist(), (records, uniques, expected), released)


def _group_risks(categories: Categories, levels: Sequence[int], file: ByLevel, released: ByLevel | None) -> list[GroupRisk]:
    """The groups of some levels, from their sums.

    ``file`` has the records, the sample uniques and the expected population uniques of each level, ``released`` the records and
    the expected population uniques of the released file, and the records that were swapped.
    """
    records, uniques, expected = file
    now, expected_after, swapped = released or (None, None, None)
    return [
        GroupRisk(
            key=categories.key,
            level=categories.shown[code],
            records=int(records[code]),
            sample_uniques=int(uniques[code]),
            expected_population_uniques=float(expected[code]),
            records_after=None if now is None else int(now[code]),
            expected_population_uniques_after=None if expected_after is None else float(expected_after[code]),
            swapped=None if swapped is None else int(swapped[code]),
        )
        for code in levels
    ]


def concentration_of(uniques: NDArray[np.float64]) -> tuple[Concentration, ...]:
    """The share of the expected population uniques that the riskiest records account for.

    Takes the probability of every sample unique to be alone in the population.
    """
    probability = -np.sort(-uniques)
    total = probability.sum()
    if total <= 0.0:
        return ()
    upto = np.cumsum(probability)
    numbers = sorted({max(1, round(share * len(probability))) for share in SHARES})
    return tuple(Concentration(records=n, share=float(upto[n - 1] / total)) for n in numbers)


# ---------------------------------------------------------------------- intruders, groups and sensitive columns

MOST_GROUPS = 30
"""Number of groups most affected by swaps that are reported."""

SMALLEST_GROUP = 3
"""A group is reported only if at least this many of its records were swapped: one record out of two says little."""


def columns_that_tell(release: Release, columns: Columns) -> tuple[LeftBehind, ...]:
    """Columns that depend on a key that a formal release moves."""
    moving = {key: True for key in release.before.keys if release.moves(key).any()}
    joint = {name: joint_counts(release.before, moving, column) for name, column in columns.items()}
    each = (dependency(name, key, n) for name, of_keys in joint.items() for key, n in of_keys.items())
    why = "a formal release moves keys alone, and its ε says nothing of such a column"
    return tuple(_left_behind(depends, why) for depends in each if depends is not None)


def columns_left_behind(release: Release) -> tuple[LeftBehind, ...]:
    """Columns that depend on a swapped key and did not travel with it."""
    return tuple(_left_behind(depends, why) for depends, why in release.travel.left_behind)


def _left_behind(depends: Dependency, why: str) -> LeftBehind:
    return LeftBehind(
        column=depends.column,
        key=depends.key,
        sentence=f"'{depends.column}' stays although {depends.sentence}: {why}. That can reveal which records were swapped.",
    )


def attributes_after(
    assessment: Assessment, release: Release, targets: Sequence[AttributeTarget] = ()
) -> tuple[AttributeSummary, ...]:
    """What groups of the released file give away; where limits were asked for, the groups that keep their values."""
    if targets:
        return tuple(target.after for target in targets)
    each = assessment.roles.attributes
    return tuple(_attribute_after(assessment, release, name, risk.groups_as_read) for name, risk in each.items())


def scenarios_after(assessment: Assessment, release: Release, distances: Distances) -> tuple[ScenarioSummary, ...]:
    if assessment.roles.scenarios is None:
        return ()
    return tuple(scenario_after(assessment, scenario, release, distances) for scenario in assessment.roles.scenarios.each)


def most_affected(release: Release) -> tuple[AffectedGroup, ...]:
    """The groups of records on which swaps fell most often."""
    groups = [group for group in affected_groups(release) if group.swapped >= SMALLEST_GROUP][:MOST_GROUPS]
    return tuple(sorted(groups, key=lambda group: -group.ratio))


def _attribute_after(assessment: Assessment, release: Release, name: str, groups: Groups) -> AttributeSummary:
    """A sensitive column in the groups of the released file; it stays with its row while keys move or are blanked."""
    changed, table = release.changed, release.before
    values = (
        assessment.data.values_at(changed.row, [name])
        if table.record_cell is not None
        else assessment.data.drawn_records(table, release.rows, seed=release.seed, columns=[name])[1]
    )[name]
    settled = settle(values, assessment.data.columns[name], decimal_mark=assessment.data.source.decimal_mark).values
    # A few values alone may look otherwise than the whole column does: as numbers where it holds words, as whole numbers where
    # it holds decimals, as words where all numbers among them are missing. Then their text is that of a level, or they are missing.
    code_of = {level: code for code, level in enumerate(groups.sensitive.levels)}
    code_of_text = {str(level): code for level, code in code_of.items() if level is not None}
    codes = np.array(
        [
            code_of[value] if value in code_of else code_of_text.get(str(text), code_of.get(None, -1))
            for value, text in zip(settled, values.to_pylist(), strict=True)
        ],
        dtype=np.int64,
    )
    groups_released = replace(groups, keys=release.categories)
    return attribute_risk(groups_released.moved(changed.true, changed.released, codes)).summary()


def scenario_after(assessment: Assessment, scenario: ScenarioRisk, release: Release, distances: Distances) -> ScenarioSummary:
    """The risk from one intruder after swaps: as before for unchanged records, by links to the nearest person for others.

    Of a record that lost values, the intruder uses the keys that are left.
    """
    threshold = assessment.config.threshold
    trial = ScenarioTrial.of(scenario, release, distances, seed=assessment.config.seed + 1)
    after = trial.after()
    n_alone, highest, n_above = after.n_sample_uniques, after.highest, after.n_above(threshold)
    uniques, links = after.expected_population_uniques, after.expected_correct_matches
    if len(release.blanks.rows):
        residual, is_alone = without_blanks(assessment, release, trial.alone(), scenario.keys)
        n_alone, highest, n_above = (
            int(is_alone.sum()),
            float(residual.risk.max(initial=0.0)),
            int((residual.risk >= threshold).sum()),
        )
        uniques, links = float(residual.unique.sum()), float(residual.link[is_alone].sum())
    recognised = None
    if scenario.family is not None:
        alone = trial.alone()
        together = scenario.family.rows.members.spread(links_after(assessment, scenario.family, release).risk_after())
        np.maximum.at(together, alone.rows, alone.risk)
        highest, n_above, recognised = (
            float(together.max(initial=0.0)),
            n_above_threshold(together, threshold),
            float(together.sum()),
        )
    return ScenarioSummary(
        name=scenario.name,
        keys=scenario.keys,
        sample_uniques=n_alone,
        expected_population_uniques=uniques,
        expected_correct_matches=links,
        highest=highest,
        records_above_threshold=n_above,
        expected_recognised=recognised,
    )


# Who stays at risk after protection, why, and what helps?

MOST_LISTED = 10_000
"""At most this many of the records that stay at risk are listed one by one, riskiest first; all are counted."""

LEAST_LISTED = 20
"""This many of the riskiest records of the released file are listed even where fewer, or none, stay at risk."""


def left_at_risk(
    assessment: Assessment, plan: SwapPlan, after: RiskAfter, together: NDArray[np.float64] | None = None
) -> tuple[tuple[RemainingSummary, ...], tuple[RemainingRecord, ...]]:
    """Count the records that stay at or above the run's threshold, by reason, and list the riskiest with their values.

    All that stay at risk are listed, and where they are few others after them. ``together`` has the risk of every record, alone or
    with its household, if households are known.
    """
    everyone = np.concatenate([after.unique_probability, after.swapped_highest])
    n_above = max(len(everyone) - LEAST_LISTED, 0)
    least = float(np.partition(everyone, n_above)[n_above]) if len(everyone) else 0.0
    ordered = remaining_records(plan, after, min(assessment.config.threshold, least))
    if together is not None:
        ordered = with_families(ordered, plan, together, assessment.config.threshold)
    n_at_risk = int((ordered.risk >= assessment.config.threshold).sum())
    by_reason = tuple(
        RemainingSummary(reason=reason, remedy=remedy(reason), records=n)
        for reason, n in Counter(ordered.reasons[:n_at_risk]).most_common()
    )
    return by_reason, _listed(assessment, plan, ordered, n_at_risk)


def _listed(assessment: Assessment, plan: SwapPlan, ordered: Remaining, n_at_risk: int) -> tuple[RemainingRecord, ...]:
    """List single records, riskiest first; for internal use only."""
    n_listed = min(max(n_at_risk, LEAST_LISTED), MOST_LISTED, len(ordered))
    if not n_listed:
        return ()
    rows, table = ordered.rows[:n_listed], plan.table
    if table.record_cell is None:
        # Use the same draw as the swaps: it decides which of two equal records was swapped.
        rows = assessment.data.drawn_records(table, rows, seed=plan.seed)[0]
    else:
        rows = assessment.data.source.places(rows)
    names = rows.to_pylist() if hasattr(rows, "to_pylist") else rows.tolist()
    labels = [c.shown for c in table.categories]
    listed = []
    for place, (name, cell) in enumerate(zip(names, ordered.cells[:n_listed].tolist(), strict=True)):
        reason = ordered.reasons[place] if place < n_at_risk else ""
        listed.append(
            RemainingRecord(
                record=name,
                values={
                    key: str(labels[k][code]) for k, (key, code) in enumerate(zip(table.keys, cell, strict=True)) if code >= 0
                },
                risk=float(ordered.risk[place]),
                swapped=bool(ordered.swapped[place]),
                is_at_risk=place < n_at_risk,
                reason=reason,
                remedy=remedy(reason) if reason else "",
            )
        )
    return tuple(listed)


# What does an earlier release of the same file add to what a new one gives away?
#
# The protected file of the earlier run has the same records in the same order (on Spark, under the same ids). Columns with the
# same values in both releases link them.


def compared_with_earlier(assessment: Assessment, release: Release, treated: Treated = NOTHING) -> ReleasedBefore | None:
    """Compare the new release with the earlier one that the run names; None when it names none."""
    request = assessment.config.protect
    if request is None or request.released is None:
        return None
    earlier = _earlier(Path(request.released), assessment.data)
    shared = [name for name in assessment.data.columns if name in earlier.columns and name not in treated.dropped]
    lacking = [key for key in assessment.table.keys if key not in shared]
    if lacking:
        raise BadInput(f"The earlier release in {request.released} has no column '{lacking[0]}', so the two cannot be compared.")
    old, new, links = [], [], {}
    for name in shared:
        if name in treated.after:
            then, now = _treated_in_both(release, earlier, treated, name)
        else:
            then, now = _both(assessment, release, earlier, name)
        if name in assessment.table.keys:
            old.append(then)
            new.append(now)
        if np.array_equal(then, now):
            links[name] = now
    return compare_releases(list(links.values()), list(links), old, new)


def _earlier(folder: Path, data: Microdata) -> Microdata:
    released = open_source(data.read_back(earlier_release(folder)), settings=data.source.settings_of_output)
    earlier = Microdata(released.numbered(data.id_column), keys=data.keys)
    if earlier.n_records != data.n_records:
        raise BadInput(
            f"The earlier release in {folder} has {earlier.n_records:,} records and the file {data.n_records:,}, so they are not releases of "
            "the same records."
        )
    return earlier


def _both(assessment: Assessment, release: Release, earlier: Microdata, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A column in the earlier and in the new release, coded alike by the text of its values."""
    then, (levels_then,) = earlier.column_codes([name])
    now, (levels_now,) = assessment.data.column_codes([name])
    after = codes_after(now, [name], release, release.rows, np.arange(len(now)))
    number: dict[Any, int] = {}
    # The last place of the new release is for blanked values, whose code is −1.
    of_then, of_now = (
        np.array([number.setdefault(label, len(number)) for label in labels], dtype=np.int64)
        for labels in (levels_then.labels, (*levels_now.labels, MISSING))
    )
    return of_then[then[:, 0]], of_now[after[:, 0]]


def _treated_in_both(
    release: Release, earlier: Microdata, treated: Treated, name: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same for a column that is treated in the new release: numbers that are equal are alike, however they are written."""

    def alike(value: Any) -> Any:
        try:
            return float(value)
        except (TypeError, ValueError):
            return None if value is None else str(value)

    codes, (categories,) = earlier.column_codes([name])
    then = [categories.levels[code] for code in codes[:, 0].tolist()]
    now = treated_values(treated, name, givers(release, name, release.rows, len(then)))
    number: dict[Any, int] = {}
    of_then, of_now = (
        np.array([number.setdefault(alike(value), len(number)) for value in values], dtype=np.int64) for values in (then, now)
    )
    return of_then, of_now
