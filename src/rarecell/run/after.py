"""What else did a protection change: groups, intruders, weighted tables, columns that travel?"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rarecell.data.levels import settle
from rarecell.data.microdata import Microdata
from rarecell.engine import open_source
from rarecell.errors import BadInput
from rarecell.intruder.residual_risk import RiskAfter
from rarecell.intruder.scenarios import ScenarioTrial
from rarecell.outcome.records import RemainingRecord
from rarecell.outcome.roles import AttributeSummary, ScenarioSummary
from rarecell.outcome.swap import AffectedGroup, LeftBehind, ReleasedBefore, RemainingSummary, SwapSummary, WeightedTable
from rarecell.release.earlier import compare_releases
from rarecell.release.release import Release
from rarecell.release.travel import Dependency, Travel, dependency, what_travels
from rarecell.release.utility import GroupShare, affected_groups, weighted_changes
from rarecell.risk.attributes import Groups, attribute_risk
from rarecell.risk.scenarios import ScenarioRisk
from rarecell.run.blanking import without_blanks
from rarecell.run.config import ProtectConfig
from rarecell.run.inputs import earlier_release
from rarecell.run.released import codes_after, compared_analyses
from rarecell.run.results import Assessment
from rarecell.swap.plan import SwapPlan
from rarecell.swap.reasons import Remaining, remaining_records, remedy
from rarecell.table.categories import MISSING
from rarecell.table.columns import CodedColumn, CrossedColumn
from rarecell.table.contingency import ContingencyTable
from rarecell.table.distance import Distances

if TYPE_CHECKING:
    from rarecell.edges import Columns, ReadJson


MOST_GROUPS = 30
"""Number of groups most affected by swaps that are reported."""

SMALLEST_GROUP = 3
"""A group is reported only if at least this many of its records were swapped: one record out of two says little."""


def travelling(wanted: ProtectConfig, found: Assessment, release: Release, columns: Columns) -> Travel:
    """Find the columns outside the keys that travel with the swapped keys, by request or because they depend on them."""
    own, keys = np.arange(len(release)), release.before.keys
    moves = {key: release.taken_from(key) != own for key in keys}
    moves = {key: moved for key, moved in moves.items() if moved.any()}
    carry = [*wanted.carry]
    if wanted.swap_rate is not None:
        carry += [area for area in found.data.areas if area not in keys and area not in carry]
    kept = {name for names in wanted.keep for name in names}
    joint = {name: _joint(release.before, moves, column) for name, column in columns.items()}
    return what_travels(joint, moves, carry=carry, areas=found.data.areas, stays=sorted(kept - set(carry)))


def _joint(table: ContingencyTable, moves: ReadJson, column: CodedColumn | CrossedColumn) -> dict[str, NDArray[np.int64]]:
    """Count the records for each pair of a key's level and a column's value, for the keys that move."""
    if isinstance(column, CrossedColumn):
        return {key: np.asarray(column.joint[key]) for key in moves if key in column.joint}
    cell = table.cell_of_record
    held = cell >= 0
    found = {}
    for key in moves:
        k = table.keys.index(key)
        shape = (table.categories[k].n_levels, len(column.levels))
        pair = table.cells[cell[held], k].astype(np.int64) * shape[1] + column.codes[held]
        found[key] = np.bincount(pair, minlength=shape[0] * shape[1]).reshape(shape)
    return found


def after_formal(swap: SwapSummary, found: Assessment, release: Release, columns: Columns) -> SwapSummary:
    """Add to the summary of a formal release what it did to sensitive columns, intruders and analyses, and which columns tell."""
    moving = {key: True for key in release.before.keys if release.moves(key).any()}
    joint = {name: _joint(release.before, moving, column) for name, column in columns.items()}
    told = [one for name, of_keys in joint.items() for key, n in of_keys.items() if (one := dependency(name, key, n)) is not None]
    why = "a formal release moves keys alone, and its ε says nothing of such a column"
    return replace(
        swap,
        attributes=_attributes_after(found, release),
        scenarios=_scenarios_after(found, release, Distances()),
        analyses=compared_analyses(found, release),
        left_behind=tuple(_left_behind(one, why) for one in told),
    )


def _left_behind(one: Dependency, why: str) -> LeftBehind:
    return LeftBehind(
        column=one.column,
        key=one.key,
        sentence=f"'{one.column}' stays although {one.sentence}: {why}. That can reveal which records were swapped.",
    )


def _attributes_after(found: Assessment, release: Release) -> tuple[AttributeSummary, ...]:
    each = found.roles.attributes
    return tuple(_attribute_after(found, release, name, risk.groups_as_read) for name, risk in each.items())


def _scenarios_after(found: Assessment, release: Release, distances: Distances) -> tuple[ScenarioSummary, ...]:
    if found.roles.scenarios is None:
        return ()
    return tuple(scenario_after(found, one, release, distances) for one in found.roles.scenarios.each)


def with_aftermath(swap: SwapSummary, found: Assessment, plan: SwapPlan, release: Release) -> SwapSummary:
    """Add groups, intruders, weighted tables and travelling columns to the summary; ``release`` is what the plan led to."""
    travel = release.travel
    told = [one for one in affected_groups(release) if one.swapped >= SMALLEST_GROUP][:MOST_GROUPS]
    return replace(
        swap,
        affected=tuple(_told_group(one) for one in sorted(told, key=lambda one: -one.ratio)),
        weighted=_weighted(found, plan),
        attributes=_attributes_after(found, release),
        scenarios=_scenarios_after(found, release, plan.task.distances),
        carried=tuple(one.column for one in travel.carried),
        analyses=compared_analyses(found, release),
        earlier=held_against(found, release),
        left_behind=tuple(_left_behind(one, why) for one, why in travel.left_behind),
    )


def _told_group(one: GroupShare) -> AffectedGroup:
    return AffectedGroup(column=one.column, level=one.level, records=one.records, swapped=one.swapped, ratio=one.ratio)


def _weighted(found: Assessment, plan: SwapPlan) -> tuple[WeightedTable, ...]:
    """Weighted totals of every key and of the kept tables of keys."""
    table = plan.table
    if found.config.weight is None or table.weights is None or table.record_cell is None:
        return ()
    weights = found.data.record_weights()
    assert weights is not None
    margins: list[tuple[str, ...]] = [(key,) for key in table.keys]
    margins += [check for kept in dict.fromkeys(plan.interactions.kept) if len(check := _keys_in(plan, kept)) > 1]
    return tuple(
        WeightedTable(
            variables=one.variables,
            cells=one.cells,
            changed=one.changed,
            largest=one.largest if np.isfinite(one.largest) else None,
            largest_cell=one.largest_cell,
            moved=one.moved,
            counts_identical=one.is_count_identical,
            sentence=one.sentence,
        )
        for one in weighted_changes(plan.release, weights[plan.rows], list(dict.fromkeys(margins)))
    )


def _keys_in(plan: SwapPlan, kept: int) -> tuple[str, ...]:
    """The keys of a kept table; empty if it holds a coarsening without its key, or another column."""
    names = plan.interactions.names_of(kept)
    keys = tuple(name for name in names if name in plan.table.keys)
    of_coarser = {c.name: c.key for c in plan.table.coarsenings}
    return keys if all(name in keys or of_coarser.get(name) in keys for name in names) else ()


def _attribute_after(found: Assessment, release: Release, name: str, groups: Groups) -> AttributeSummary:
    """A sensitive column in the groups of the released file; it stays with its row while keys move or are blanked."""
    changed, table = release.changed, release.before
    values = (
        found.data.values_at(changed.row, [name])
        if table.record_cell is not None
        else found.data.drawn_records(table, release.rows, seed=release.seed, columns=[name])[1]
    )[name]
    settled = settle(values, found.data.columns[name], decimal_mark=found.data.source.decimal_mark).values
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
    wider = replace(groups, keys=release.categories)
    return attribute_risk(wider.moved(changed.true, changed.released, codes)).summary()


def scenario_after(found: Assessment, scenario: ScenarioRisk, release: Release, distances: Distances) -> ScenarioSummary:
    """The risk from one intruder after swaps: as before for unchanged records, by links to the nearest person for others.

    Of a record that lost values, the intruder uses the keys that are left.
    """
    threshold = found.config.threshold
    trial = ScenarioTrial.of(scenario, release, distances, seed=found.config.seed + 1)
    after = trial.after()
    n_alone, highest, n_above = after.n_sample_uniques, after.highest, after.n_above(threshold)
    uniques, links = after.expected_population_uniques, after.expected_correct_matches
    if len(release.blanks.rows):
        left, is_alone = without_blanks(found, release, trial.alone(), scenario.keys)
        n_alone, highest, n_above = int(is_alone.sum()), float(left.risk.max(initial=0.0)), int((left.risk >= threshold).sum())
        uniques, links = float(left.unique.sum()), float(left.link[is_alone].sum())
    return ScenarioSummary(
        name=scenario.name,
        keys=scenario.keys,
        sample_uniques=n_alone,
        expected_population_uniques=uniques,
        expected_correct_matches=links,
        highest=highest,
        records_above_threshold=n_above,
    )


# Who stays at risk after protection, why, and what helps?


MOST_LISTED = 10_000
"""At most this many of the records that stay at risk are listed one by one, riskiest first; all are counted."""

LEAST_LISTED = 20
"""This many of the riskiest records of the released file are listed even where fewer, or none, stay at risk."""


def left_at_risk(
    found: Assessment, plan: SwapPlan, after: RiskAfter
) -> tuple[tuple[RemainingSummary, ...], tuple[RemainingRecord, ...]]:
    """Count the records that stay at or above the run's threshold, by reason, and list the riskiest with their values.

    All that stay at risk are listed, and where they are few others after them.
    """
    everyone = np.concatenate([after.unique_probability, after.swapped_highest])
    n_above = max(len(everyone) - LEAST_LISTED, 0)
    least = float(np.partition(everyone, n_above)[n_above]) if len(everyone) else 0.0
    ordered = remaining_records(plan, after, min(found.config.threshold, least))
    n_at_risk = int((ordered.risk >= found.config.threshold).sum())
    told = tuple(
        RemainingSummary(reason=reason, remedy=remedy(reason), records=n)
        for reason, n in Counter(ordered.reasons[:n_at_risk]).most_common()
    )
    return told, _listed(found, plan, ordered, n_at_risk)


def _listed(found: Assessment, plan: SwapPlan, ordered: Remaining, n_at_risk: int) -> tuple[RemainingRecord, ...]:
    """List single records, riskiest first; for internal use only."""
    n_listed = min(max(n_at_risk, LEAST_LISTED), MOST_LISTED, len(ordered))
    if not n_listed:
        return ()
    rows, table = ordered.rows[:n_listed], plan.table
    if table.record_cell is None:
        # Use the same draw as the swaps: it decides which of two equal records was swapped.
        rows = found.data.drawn_records(table, rows, seed=plan.seed)[0]
    else:
        rows = found.data.source.places(rows)
    names = rows.to_pylist() if hasattr(rows, "to_pylist") else rows.tolist()
    labels = [c.labels for c in table.categories]
    listed = []
    for place, (name, cell) in enumerate(zip(names, ordered.cells[:n_listed].tolist(), strict=True)):
        reason = ordered.reasons[place] if place < n_at_risk else ""
        listed.append(
            RemainingRecord(
                record=name,
                values={key: str(labels[k][code]) for k, (key, code) in enumerate(zip(table.keys, cell, strict=True))},
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


def held_against(found: Assessment, release: Release) -> ReleasedBefore | None:
    """Compare the new release with the earlier one that the run names; None when it names none."""
    wanted = found.config.protect
    if wanted is None or wanted.released is None:
        return None
    earlier = _earlier(Path(wanted.released), found.data)
    shared = [name for name in found.data.columns if name in earlier.columns]
    lacking = [key for key in found.table.keys if key not in shared]
    if lacking:
        raise BadInput(f"The earlier release in {wanted.released} has no column '{lacking[0]}', so the two cannot be compared.")
    old, new, links = [], [], {}
    for name in shared:
        then, now = _both(found, release, earlier, name)
        if name in found.table.keys:
            old.append(then)
            new.append(now)
        if np.array_equal(then, now):
            links[name] = now
    told = compare_releases(list(links.values()), list(links), old, new)
    return ReleasedBefore(
        records=told.records,
        differing=told.differing,
        linked=told.linked,
        exposed=told.exposed,
        link_columns=told.link_columns,
        sentence=told.sentence,
    )


def _earlier(folder: Path, data: Microdata) -> Microdata:
    released = open_source(data.read_back(earlier_release(folder)), settings=data.source.settings_of_output)
    earlier = Microdata(released.numbered(data.id), keys=data.keys)
    if earlier.n_records != data.n_records:
        raise BadInput(
            f"The earlier release in {folder} has {earlier.n_records:,} records and the file {data.n_records:,}, so they are not releases of "
            "the same records."
        )
    return earlier


def _both(found: Assessment, release: Release, earlier: Microdata, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A column in the earlier and in the new release, coded alike by the text of its values."""
    then, (levels_then,) = earlier.column_codes([name])
    now, (levels_now,) = found.data.column_codes([name])
    after = codes_after(now, [name], release, release.rows, np.arange(len(now)))
    number: dict[Any, int] = {}
    # The last place of the new release is for blanked values, whose code is −1.
    of_then, of_now = (
        np.array([number.setdefault(label, len(number)) for label in labels], dtype=np.int64)
        for labels in (levels_then.labels, (*levels_now.labels, MISSING))
    )
    return of_then[then[:, 0]], of_now[after[:, 0]]
