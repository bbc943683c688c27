"""Which values are blanked, and what is left of the risk once they are?

Values are blanked where swaps leave a record at risk, or where fewer records than asked for share their values. A blanked value is a
level of its own in the table of the released file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.data.names import joined_names
from rarecell.intruder.residual_risk import AloneAfter, RiskAfter, ScenarioTrial
from rarecell.outcome.profile import Profile
from rarecell.outcome.swap import BlankedTable, IntruderSummary, RiskNumbers, SuppressionSummary
from rarecell.outcome.words import listed, verb
from rarecell.progress import Progress
from rarecell.release.blanks import (
    NOBODY,
    NOTHING_BLANK,
    CellRisk,
    Suppression,
    blank_to_k,
    joined,
    risk_with_blanks,
    suppress_rest,
)
from rarecell.release.release import Release
from rarecell.run import models
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.models import with_design_weights
from rarecell.run.results import Assessment
from rarecell.swap.plan import SwapPlan
from rarecell.table.contingency import Categories, ContingencyTable

# ---------------------------------------------------------------------- the table of the released file


def released_table(assessment: Assessment, release: Release) -> ContingencyTable:
    """The table of the released file, with its design weights; a blanked value is a level of its own.

    The input table must know the cell of each record. Weights stay with their record, so the weight of a cell changes with the
    records that enter and leave it.
    """
    weights = assessment.data.record_weights() if assessment.config.weight is not None else None
    codes, occurring = _occurring(release.categories, release.codes())
    table = ContingencyTable.from_codes(codes, occurring, weights=weights)
    return table if len(release.blanks.rows) else with_design_weights(assessment.data, table, assessment.config)


def _occurring(categories: Sequence[Categories], codes: NDArray[np.int32]) -> tuple[NDArray[np.int32], list[Categories]]:
    """Recode to the levels that occur, and return these levels; a level that was blanked everywhere is gone."""
    codes, occurring = codes.copy(), []
    complete = codes[(codes >= 0).all(axis=1)]
    for k, key in enumerate(categories):
        there = np.unique(complete[:, k])
        # The extra last element is for dropped records, whose code is −1.
        new_code = np.full(key.n_levels + 1, -1, dtype=np.int32)
        new_code[there] = np.arange(len(there), dtype=np.int32)
        codes[:, k] = new_code[codes[:, k]]
        occurring.append(key.with_levels(key.levels[code] for code in there.tolist()))
    return codes, occurring


# ---------------------------------------------------------------------- what is blanked


def highest_accepted(request: ProtectConfig, config: RunConfig) -> float:
    """The risk above which values are blanked: the one asked for, or the threshold of the run; never above the profile's limit."""
    named = request.max_record_risk if request.max_record_risk is not None else request.risk_above
    limit = config.threshold if named is None else named
    allowed = None if config.profile is None else Profile.named(config.profile).max_record_risk
    return limit if allowed is None else min(limit, allowed)


def must_stay(request: ProtectConfig, table: ContingencyTable) -> tuple[str, ...]:
    """Keys that are not blanked: those that were not named for it or, if none was, those that swaps must leave as they are."""
    if request.blank:
        return tuple(key for key in table.keys if key not in request.blank)
    in_kept_tables = {name for names in request.keep for name in names}
    of_vertices = {
        table.keys[key] for name, key in zip(table.vertex_names, table.vertex_key, strict=True) if name in in_kept_tables
    }
    return tuple(key for key in table.keys if key in of_vertices or key in request.never_swap)


def suppressed(
    request: ProtectConfig, assessment: Assessment, plan: SwapPlan, after: RiskAfter, progress: Progress
) -> Suppression:
    """Find few values to blank in records that swaps leave at risk; nothing when that was not asked for.

    With scenarios a record is at risk if it is for one of their intruders, who know no other keys.
    """
    if not request.suppress_rest and request.k is None:
        return NOTHING_BLANK
    blanking = _Blanking.of(request, assessment, plan.release, after, progress)
    if not request.suppress_rest:
        below = NOTHING_BLANK
    elif assessment.roles.scenarios is None:
        at_risk = np.flatnonzero(blanking.risk > blanking.limit)
        below = blanking.below(blanking.table.keys, at_risk, blanking.risk[at_risk])
    else:
        parts = []
        for scenario in assessment.roles.scenarios.each:
            alone = ScenarioTrial.of(scenario, plan.release, plan.task.distances, seed=assessment.config.seed + 1).alone()
            is_at_risk = alone.risk > blanking.limit
            parts.append(blanking.below(scenario.keys, alone.rows[is_at_risk], alone.risk[is_at_risk]))
        below = blanking.joined(parts)
    return below if request.k is None else blanking.with_groups_of(request.k, below, request.blank)


@dataclass(frozen=True, eq=False)
class _Blanking:
    """What blanks are found with.

    Attributes
    ----------
    assessment : Assessment
        The file as it came.
    release : Release
        What the swaps did to it.
    table : ContingencyTable
        The table of the file with these swaps.
    risk : ndarray of float64
        The risk of each record that swaps leave.
    limit : float
        The highest risk that may be left.
    may_blank : frozenset of str
        The keys whose values may be blanked.
    cell_risk : callable
        The risk of the cells of any table of fewer keys.
    progress : Progress
        Receives each set of keys that is tried.
    """

    assessment: Assessment
    release: Release
    table: ContingencyTable
    risk: NDArray[np.float64]
    limit: float
    may_blank: frozenset[str]
    cell_risk: CellRisk
    progress: Progress

    @classmethod
    def of(
        cls, request: ProtectConfig, assessment: Assessment, release: Release, after: RiskAfter, progress: Progress
    ) -> _Blanking:
        table = released_table(assessment, release).with_coarsenings(())
        return cls(
            assessment=assessment,
            release=release,
            table=table,
            risk=release.of_records(after.unique_probability, after.swapped_highest),
            limit=highest_accepted(request, assessment.config),
            may_blank=frozenset(table.keys) - frozenset(must_stay(request, assessment.table)),
            cell_risk=cell_risk_of(assessment),
            progress=progress,
        )

    def below(self, keys: Sequence[str], rows: NDArray[np.int64], risk: NDArray[np.float64]) -> Suppression:
        """Blanks that bring records below the limit, for an intruder who knows these keys."""
        places = [self.table.keys.index(key) for key in keys]
        return suppress_rest(
            self.table.project(list(keys)),
            rows,
            self._cells_of(rows)[:, places],
            risk,
            self.cell_risk,
            threshold=self.limit,
            may_blank=self.may_blank,
            swapped=self.release.rows,
            progress=self.progress,
        )

    def with_groups_of(self, k: int, below: Suppression, first: Sequence[str]) -> Suppression:
        """The same blanks and further ones, so that every combination occurs ``k`` times; keys of ``first`` go first, in their order."""
        codes = self.release.with_blanks(below).codes()
        may = [key in self.may_blank for key in self.table.keys]
        order = {key: place for place, key in enumerate(first)}
        groups = blank_to_k(codes, k, may_blank=may, importance=[1.0 + order.get(key, 0) for key in self.table.keys])
        # A value that is missing already is not blanked again.
        n_known = [categories.n_levels - categories.has_missing for categories in self.assessment.table.categories]
        blank = groups.blank & (codes[groups.rows] < n_known)
        some = np.flatnonzero(blank.any(axis=1))
        of_keys = {key: blank[some, place] for place, key in enumerate(self.table.keys) if blank[some, place].any()}
        nothing = np.zeros(len(some))
        of_groups = Suppression(
            groups.rows[some], of_keys, nothing, nothing, nothing, NOBODY, swapped=self.release.rows, has_fixed_keys=not all(may)
        )
        both = self.joined([below, of_groups])
        if self.assessment.roles.scenarios is None:
            # Some that no blanking of their own brought down have lost values for the sake of their groups.
            above = np.setdiff1d(both.unreached, both.rows[both.risk_after <= self.limit])
            both = replace(both, unreached=above)
        return replace(both, k=k, in_small_groups=groups.unreached)

    def joined(self, parts: Sequence[Suppression]) -> Suppression:
        """All of these blanks together."""
        return joined(parts, self.table, self._cells_of, lambda rows: self.risk[rows], self.cell_risk)

    def _cells_of(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        return np.asarray(self.table.cells[self.table.cell_of(rows)])


def cell_risk_of(assessment: Assessment) -> CellRisk:
    """The risk of the cells of any table of fewer keys: counted in the register of the run, or by a quick model."""
    config, register = assessment.config, assessment.roles.register

    def counted(fewer: ContingencyTable) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        assert register is not None
        people = register.among(fewer).population_count
        return np.asarray((fewer.counts == 1) & (people == 1), dtype=np.float64), 1.0 / people

    def modelled(fewer: ContingencyTable) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        of_fewer = models.risk_of(fewer, models.quick_model(fewer, config, n_orders=1), config)
        return of_fewer.unique_probability, of_fewer.match_probability

    return modelled if register is None else counted


# ---------------------------------------------------------------------- what is left


def without_blanks(
    assessment: Assessment, release: Release, alone: AloneAfter, keys: Sequence[str]
) -> tuple[AloneAfter, NDArray[np.bool_]]:
    """What an intruder finds once values are blanked as well, and who is then still alone."""
    blanked = release.blanks
    released = released_table(assessment, release.with_blanks(NOTHING_BLANK)).with_coarsenings(())
    fewer, places = released.project(list(keys)), [released.keys.index(key) for key in keys]
    of_keys = {key: of_key for key, of_key in blanked.blanked.items() if key in keys}
    lost = blanked.rows[np.any(list(of_keys.values()), axis=0)] if of_keys else blanked.rows[:0]
    at = np.flatnonzero(np.isin(alone.rows, lost))
    position = np.searchsorted(blanked.rows, alone.rows[at])
    of_rows = {key: of_key[position] for key, of_key in of_keys.items()}
    cells = released.cells[released.cell_of(alone.rows[at])][:, places]
    unique, link, risk = alone.unique.copy(), alone.link.copy(), alone.risk.copy()
    risk_left, linked = risk_with_blanks(fewer, cells, of_rows, cell_risk_of(assessment))
    of_risk = np.where(np.isin(alone.rows[at], release.rows), linked, risk_left)
    unique[at], link[at], risk[at] = (
        np.minimum(unique[at], risk_left),
        np.minimum(link[at], linked),
        np.minimum(risk[at], of_risk),
    )
    is_alone = np.ones(len(alone.rows), dtype=bool)
    is_alone[at] = risk_with_blanks(fewer, cells, of_rows, _is_alone)[0] > 0
    return AloneAfter(alone.rows, unique, link, risk), is_alone


def _is_alone(fewer: ContingencyTable) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    alone = np.asarray(fewer.counts == 1, dtype=np.float64)
    return alone, alone


def after_blanking(after: RiskAfter, release: Release) -> RiskAfter:
    """The risk that is left once values are blanked as well."""
    blanks = release.blanks
    unique, link = after.unique_probability.copy(), after.match_probability.copy()
    moved = (after.swapped_unique.copy(), after.swapped_link.copy(), after.swapped_highest.copy())
    place = {row: position for position, row in enumerate(release.rows.tolist())}
    for row, alone, links in zip(blanks.rows.tolist(), blanks.unique_after.tolist(), blanks.links_after.tolist(), strict=True):
        cell = int(release.before.cell_of(row))
        if row in place:
            for values, number in zip(moved, (alone, links, links), strict=True):
                values[place[row]] = min(values[place[row]], number)
        else:
            unique[cell], link[cell] = alone, min(link[cell], links)
    return replace(
        after,
        unique_probability=unique,
        match_probability=link,
        swapped_unique=moved[0],
        swapped_link=moved[1],
        swapped_highest=moved[2],
    )


def intruders_after_blanks(
    intruders: tuple[IntruderSummary, ...], release: Release, before: RiskAfter, after: RiskAfter
) -> tuple[IntruderSummary, ...]:
    """What intruders find once values are blanked as well; ``before`` is the risk without blanks.

    The nearest intruder's links are those that are left in the released file. Who asks for equal values loses what blanks take from
    records that stayed; blanks of swapped records are not counted in his favour. Whoever knows more is not said to find less. Ends of an
    interval come nearer as the spread of a sum of independent links does, by the root of the share that is left.
    """
    if release.blanks is NOTHING_BLANK:
        return intruders
    taken = float(before.match_probability.sum() - after.match_probability.sum())

    def recounted(intruder: IntruderSummary) -> IntruderSummary:
        if intruder.name not in ("nearest", "exact"):
            return intruder
        links = after.expected_correct_matches if intruder.name == "nearest" else max(0.0, intruder.after - taken)
        swapped = float(after.swapped_link.sum()) if intruder.name == "nearest" else intruder.swapped
        spread = math.sqrt(min(1.0, links / intruder.after)) if intruder.after > 0.0 else 1.0
        ends = tuple(max(0.0, links + spread * (end - intruder.after)) for end in intruder.interval_after)
        return replace(intruder, after=links, swapped=swapped, interval_after=ends)

    return tuple(recounted(intruder) for intruder in intruders)


def risk_left(of_swaps: RiskNumbers, release: Release, after: RiskAfter) -> RiskNumbers:
    """The risk ``after`` swaps and blanks, if blanks were asked for; that of the swaps otherwise."""
    if release.blanks is NOTHING_BLANK:
        return of_swaps
    return replace(
        of_swaps,
        expected_population_uniques=after.expected_population_uniques,
        expected_correct_matches=after.expected_correct_matches,
        highest=after.highest,
    )


# ---------------------------------------------------------------------- what is said of it


def recounted_tables(request: ProtectConfig, assessment: Assessment, release: Release) -> tuple[BlankedTable, ...]:
    """The tables of ``--keep`` in which values were blanked, counted in the original and in the release."""
    table, blanks = assessment.table, release.blanks
    is_in = table.cell_of_record >= 0
    before = table.cells[table.cell_of_record]
    after = before.copy()
    after[release.rows] = release.released
    is_blank = np.zeros(before.shape, dtype=bool)
    for key, of_key in blanks.blanked.items():
        is_blank[blanks.rows[of_key], table.keys.index(key)] = True

    def codes_of(name: str) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
        """Codes before and after, and how many there are; a blank is a code of its own unless values were missing before."""
        if name not in table.vertex_names:
            codes, (categories,) = assessment.data.column_codes([name])
            return codes[:, 0], release.codes_of(name, codes[:, 0], release.rows), categories.n_levels
        vertex = table.vertex_names.index(name)
        key, n_codes = int(table.vertex_key[vertex]), int(table.vertex_levels[vertex])
        has_missing = table.categories[key].has_missing
        blank = int(table.level_codes(vertex)[-1]) if has_missing else n_codes
        new = np.where(is_blank[:, key], blank, table.map_cells(after, vertex)).astype(np.int32)
        return table.map_cells(before, vertex), new, n_codes + (not has_missing)

    recounted = []
    for names in request.keep:
        keys = {int(table.vertex_key[table.vertex_names.index(name)]) for name in names if name in table.vertex_names}
        n_blank = int(is_blank[:, sorted(keys)].any(axis=1).sum())
        if n_blank:
            old, new, sizes = zip(*(codes_of(name) for name in names), strict=True)
            both = [np.concatenate([old_codes[is_in], new_codes[is_in]]) for old_codes, new_codes in zip(old, new, strict=True)]
            cells, _, cell = collapse_records(both, sizes)
            counts = [np.bincount(part, minlength=len(cells)) for part in np.split(cell, 2)]
            differing = int((counts[0] != counts[1]).sum())
            recounted.append(BlankedTable(variables=tuple(names), cells=len(cells), differing=differing, records=n_blank))
    return tuple(recounted)


def suppression_summary(request: ProtectConfig, assessment: Assessment, release: Release) -> SuppressionSummary | None:
    """The blanked values, the keys that were not to be blanked and the kept tables that were counted again; None if not asked for."""
    blanks = release.blanks
    if blanks is NOTHING_BLANK:
        return None
    stay, tables = must_stay(request, assessment.table), recounted_tables(request, assessment, release)
    sentences = [str(blanks), *map(str, tables)]
    if stay and len(blanks.left):
        may = verb(len(stay), "was", "were")
        # Keys that --blank does not name are not blanked: the others are named with those that were to stay.
        every = joined_names(assessment.table.keys)
        sentences.insert(1, f"{listed(stay)} {may} not to be blanked; --blank {every} would allow it.")
    return SuppressionSummary(
        records=len(blanks.rows),
        values=blanks.n_values,
        k=blanks.k,
        by_key={key: int(of_key.sum()) for key, of_key in blanks.blanked.items()},
        unreached=len(blanks.left),
        must_stay=stay,
        tables=tables,
        sentence=" ".join(sentences),
    )
