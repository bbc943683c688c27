"""Which values are blanked in records that swaps leave above the risk asked for, and how are they written?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.data.names import joined_names
from rarecell.intruder.residual_risk import RiskAfter
from rarecell.intruder.scenarios import AloneAfter, ScenarioTrial
from rarecell.outcome.profile import Profile
from rarecell.outcome.swap import BlankedTable, RiskNumbers, SuppressionSummary, SwapSummary
from rarecell.outcome.words import listed, verb
from rarecell.progress import Progress
from rarecell.release.blanks import NOTHING_BLANK, CellRisk, Suppression, joined, risk_with_blanks, suppress_rest
from rarecell.release.release import Release
from rarecell.run import models
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.released import released_table
from rarecell.run.results import Assessment
from rarecell.swap.plan import SwapPlan
from rarecell.table.contingency import ContingencyTable


def highest_wanted(wanted: ProtectConfig, config: RunConfig) -> float:
    """The risk above which values are blanked: the one asked for, or the threshold of the run; never above the profile's limit."""
    asked = wanted.max_record_risk if wanted.max_record_risk is not None else wanted.risk_above
    limit = config.threshold if asked is None else asked
    allowed = None if config.profile is None else Profile.named(config.profile).max_record_risk
    return limit if allowed is None else min(limit, allowed)


def must_stay(wanted: ProtectConfig, table: ContingencyTable) -> tuple[str, ...]:
    """Keys that are not blanked: those that were not named for it or, if none was, those that swaps must leave as they are."""
    if wanted.blank:
        return tuple(key for key in table.keys if key not in wanted.blank)
    kept = {name for names in wanted.keep for name in names}
    of_vertices = {table.keys[key] for name, key in zip(table.vertex_names, table.vertex_key, strict=True) if name in kept}
    return tuple(key for key in table.keys if key in of_vertices or key in wanted.never_swap)


def suppressed(wanted: ProtectConfig, found: Assessment, plan: SwapPlan, after: RiskAfter, progress: Progress) -> Suppression:
    """Find the fewest values to blank in records that swaps leave at risk; nothing when that was not asked for.

    With scenarios a record is at risk if it is for one of their intruders, who know no other keys.
    """
    if not wanted.suppress_rest:
        return NOTHING_BLANK
    release = plan.release
    limit, cell_risk = highest_wanted(wanted, found.config), cell_risk_of(found)
    released = released_table(found, release).with_coarsenings(())
    may_blank = set(released.keys) - set(must_stay(wanted, found.table))
    risk = release.of_records(after.unique_probability, after.swapped_highest)

    def cells_of(rows: NDArray[np.int64]) -> NDArray[np.int32]:
        return np.asarray(released.cells[released.cell_of(rows)])

    def part(keys: Sequence[str], rows: NDArray[np.int64], of_rows: NDArray[np.float64]) -> Suppression:
        places = [released.keys.index(key) for key in keys]
        fewer = released.project(list(keys))
        cells = cells_of(rows)[:, places]
        return suppress_rest(fewer, rows, cells, of_rows, cell_risk, threshold=limit, may_blank=may_blank, progress=progress)

    if found.roles.scenarios is None:
        rows = np.flatnonzero(risk > limit)
        return part(released.keys, rows, risk[rows])
    parts = []
    for one in found.roles.scenarios.each:
        alone = ScenarioTrial.of(one, release, plan.task.distances, seed=found.config.seed + 1).alone()
        parts.append(part(one.keys, alone.rows[alone.risk > limit], alone.risk[alone.risk > limit]))
    return joined(parts, released, cells_of, lambda rows: risk[rows], cell_risk)


def cell_risk_of(found: Assessment) -> CellRisk:
    """The risk of the cells of any table of fewer keys: counted in the register of the run, or by a quick model."""
    config, register = found.config, found.roles.register

    def counted(fewer: ContingencyTable) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        assert register is not None
        people = register.among(fewer).population_count
        return np.asarray((fewer.counts == 1) & (people == 1), dtype=np.float64), 1.0 / people

    def modelled(fewer: ContingencyTable) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        of_fewer = models.risk_of(fewer, models.quick_model(fewer, config, n_orders=1), config)
        return of_fewer.unique_probability, of_fewer.match_probability

    return modelled if register is None else counted


def without_blanks(
    found: Assessment, release: Release, alone: AloneAfter, keys: Sequence[str]
) -> tuple[AloneAfter, NDArray[np.bool_]]:
    """What an intruder finds once values are blanked as well, and who is then still alone."""
    blanked = release.blanks
    released = released_table(found, release.with_blanks(NOTHING_BLANK)).with_coarsenings(())
    fewer, places = released.project(list(keys)), [released.keys.index(key) for key in keys]
    of_keys = {key: of_key for key, of_key in blanked.blanked.items() if key in keys}
    lost = blanked.rows[np.any(list(of_keys.values()), axis=0)] if of_keys else blanked.rows[:0]
    at = np.flatnonzero(np.isin(alone.rows, lost))
    position = np.searchsorted(blanked.rows, alone.rows[at])
    of_rows = {key: of_key[position] for key, of_key in of_keys.items()}
    cells = released.cells[released.cell_of(alone.rows[at])][:, places]
    unique, link, risk = alone.unique.copy(), alone.link.copy(), alone.risk.copy()
    left, linked = risk_with_blanks(fewer, cells, of_rows, cell_risk_of(found))
    unique[at], link[at], risk[at] = np.minimum(unique[at], left), np.minimum(link[at], linked), np.minimum(risk[at], left)
    is_alone = np.ones(len(alone.rows), dtype=bool)
    is_alone[at] = risk_with_blanks(fewer, cells, of_rows, _is_alone)[0] > 0
    return AloneAfter(alone.rows, unique, link, risk), is_alone


def _is_alone(fewer: ContingencyTable) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    alone = np.asarray(fewer.counts == 1, dtype=np.float64)
    return alone, alone


def after_blanking(after: RiskAfter, release: Release) -> RiskAfter:
    """The risk that is left once values are blanked as well."""
    found = release.blanks
    unique, link = after.unique_probability.copy(), after.match_probability.copy()
    moved = (after.swapped_unique.copy(), after.swapped_link.copy(), after.swapped_highest.copy())
    place = {row: position for position, row in enumerate(release.rows.tolist())}
    for row, risk, links in zip(found.rows.tolist(), found.risk_after.tolist(), found.links_after.tolist(), strict=True):
        cell = int(release.before.cell_of(row))
        if row in place:
            for values, left in zip(moved, (risk, links, links), strict=True):
                values[place[row]] = min(values[place[row]], left)
        else:
            unique[cell], link[cell] = risk, min(link[cell], links)
    return replace(
        after,
        unique_probability=unique,
        match_probability=link,
        swapped_unique=moved[0],
        swapped_link=moved[1],
        swapped_highest=moved[2],
    )


def recounted_tables(wanted: ProtectConfig, found: Assessment, release: Release) -> tuple[BlankedTable, ...]:
    """The tables of ``--keep`` in which values were blanked, counted in the original and in the release."""
    table, blanks = found.table, release.blanks
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
            codes, (categories,) = found.data.column_codes([name])
            return codes[:, 0], release.codes_of(name, codes[:, 0], release.rows), categories.n_levels
        vertex = table.vertex_names.index(name)
        key, n_codes = int(table.vertex_key[vertex]), int(table.vertex_levels[vertex])
        has_missing = table.categories[key].has_missing
        blank = int(table.level_codes(vertex)[-1]) if has_missing else n_codes
        new = np.where(is_blank[:, key], blank, table.map_cells(after, vertex)).astype(np.int32)
        return table.map_cells(before, vertex), new, n_codes + (not has_missing)

    recounted = []
    for names in wanted.keep:
        keys = {int(table.vertex_key[table.vertex_names.index(name)]) for name in names if name in table.vertex_names}
        n_blank = int(is_blank[:, sorted(keys)].any(axis=1).sum())
        if n_blank:
            old, new, sizes = zip(*(codes_of(name) for name in names), strict=True)
            both = [np.concatenate([one[is_in], other[is_in]]) for one, other in zip(old, new, strict=True)]
            cells, _, cell = collapse_records(both, sizes)
            counts = [np.bincount(part, minlength=len(cells)) for part in np.split(cell, 2)]
            differing = int((counts[0] != counts[1]).sum())
            recounted.append(BlankedTable(variables=tuple(names), cells=len(cells), differing=differing, records=n_blank))
    return tuple(recounted)


def with_suppression(
    swap: SwapSummary, found: Suppression, after: RiskAfter, stay: tuple[str, ...], tables: tuple[BlankedTable, ...]
) -> SwapSummary:
    """Add the blanked values to the summary of the swaps, and the risk ``after`` both, if blanks were asked for.

    ``stay`` are the keys that were not to be blanked, ``tables`` those of ``--keep`` that were counted again.
    """
    if found is NOTHING_BLANK:
        return swap
    left = RiskNumbers(
        expected_population_uniques=after.expected_population_uniques,
        expected_correct_matches=after.expected_correct_matches,
        sample_uniques=swap.risk_after.sample_uniques,
        highest=after.highest,
        highest_match=swap.risk_after.highest_match,
    )
    sentences = [str(found), *map(str, tables)]
    if stay and len(found.unreached):
        may = verb(len(stay), "was", "were")
        sentences.insert(1, f"{listed(stay)} {may} not to be blanked; --blank {joined_names(stay)} would allow it.")
    told = SuppressionSummary(
        records=len(found.rows),
        values=found.n_values,
        by_key={key: int(of_key.sum()) for key, of_key in found.blanked.items()},
        unreached=len(found.unreached),
        must_stay=stay,
        tables=tables,
        sentence=" ".join(sentences),
    )
    return replace(swap, risk_after=left, suppression=told)
