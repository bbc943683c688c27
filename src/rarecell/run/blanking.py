"""Which values are blanked in records that swaps leave above the risk asked for, and how are they written?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rarecell.intruder.residual_risk import RiskAfter
from rarecell.intruder.scenarios import AloneAfter, ScenarioTrial
from rarecell.outcome.profile import Profile
from rarecell.outcome.swap import RiskNumbers, SuppressionSummary, SwapSummary
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


def suppressed(wanted: ProtectConfig, found: Assessment, plan: SwapPlan, after: RiskAfter, progress: Progress) -> Suppression:
    """Find the fewest values to blank in records that swaps leave at risk; nothing when that was not asked for.

    With scenarios a record is at risk if it is for one of their intruders, who know no other keys.
    """
    if not wanted.suppress_rest:
        return NOTHING_BLANK
    release = plan.release
    limit, cell_risk = highest_wanted(wanted, found.config), cell_risk_of(found)
    released = released_table(found, release).with_coarsenings(())
    risk = release.of_records(after.unique_probability, after.swapped_highest)

    def cells_of(rows: NDArray[np.int64]) -> NDArray[np.int32]:
        return np.asarray(released.cells[released.cell_of(rows)])

    def part(keys: Sequence[str], rows: NDArray[np.int64], of_rows: NDArray[np.float64]) -> Suppression:
        places = [released.keys.index(key) for key in keys]
        fewer = released.project(list(keys))
        return suppress_rest(fewer, rows, cells_of(rows)[:, places], of_rows, cell_risk, threshold=limit, progress=progress)

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


def with_suppression(swap: SwapSummary, found: Suppression, after: RiskAfter) -> SwapSummary:
    """Add the blanked values to the summary of the swaps, and the risk ``after`` both, if blanks were asked for."""
    if found is NOTHING_BLANK:
        return swap
    left = RiskNumbers(
        expected_population_uniques=after.expected_population_uniques,
        expected_correct_matches=after.expected_correct_matches,
        sample_uniques=swap.risk_after.sample_uniques,
        highest=after.highest,
        highest_match=swap.risk_after.highest_match,
    )
    told = SuppressionSummary(
        records=len(found.rows),
        values=found.n_values,
        by_key={key: int(of_key.sum()) for key, of_key in found.blanked.items()},
        unreached=len(found.unreached),
        sentence=str(found),
    )
    return replace(swap, risk_after=left, suppression=told)
