"""Which values are blanked in records that swaps leave above the risk asked for, and how are they written?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rarecell.data.levels import MISSING_WORDS
from rarecell.engine.changes import Blanks
from rarecell.intruder.residual_risk import RiskAfter
from rarecell.outcome.profile import Profile
from rarecell.outcome.swap import RiskNumbers, SuppressionSummary, SwapSummary
from rarecell.progress import Progress
from rarecell.release.blanks import CellRisk, Suppression, joined, risk_with_blanks, suppress_rest
from rarecell.risk.scenarios import ScenarioRisk
from rarecell.run import models
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.released import released_table, risk_of_records
from rarecell.run.results import Assessment
from rarecell.swap.apply import Exchange
from rarecell.swap.plan import SwapPlan
from rarecell.swap.scenarios import AloneAfter, ScenarioTrial
from rarecell.table.contingency import ContingencyTable
from rarecell.table.distance import Distances


def highest_wanted(wanted: ProtectConfig, config: RunConfig) -> float:
    """The risk above which values are blanked: the one asked for, or the threshold of the run; never above the profile's limit."""
    asked = wanted.max_record_risk if wanted.max_record_risk is not None else wanted.risk_above
    limit = config.threshold if asked is None else asked
    allowed = None if config.profile is None else Profile.named(config.profile).max_record_risk
    return limit if allowed is None else min(limit, allowed)


def suppressed(
    wanted: ProtectConfig, found: Assessment, plan: SwapPlan, after: RiskAfter, progress: Progress
) -> Suppression | None:
    """Find the fewest values to blank in records that swaps leave at risk; None when that was not asked for.

    With scenarios a record is at risk if it is for one of their intruders, who know no other keys.
    """
    if not wanted.suppress_rest:
        return None
    table = found.table
    assert table.record_cell is not None, "records are held when values are to be blanked"
    limit, cell_risk = highest_wanted(wanted, found.config), cell_risk_of(found)
    released = released_table(found, plan).with_coarsenings(())
    assert released.record_cell is not None
    risk = risk_of_records(plan, after.unique_probability, after.swapped_highest)

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
        alone = trial_of(one, plan, found.config).of_rows(cell_of_records(one, table))
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


def trial_of(scenario: ScenarioRisk, plan: Exchange, config: RunConfig) -> ScenarioTrial:
    """One intruder, tried on the swaps or on a formal release."""
    distances = plan.task.distances if isinstance(plan, SwapPlan) else Distances()
    return ScenarioTrial(scenario, plan, distances, seed=config.seed + 1)


def cell_of_records(scenario: ScenarioRisk, table: ContingencyTable) -> NDArray[np.int64]:
    """For each record, its cell before swaps in the table of an intruder's keys; −1 for a dropped record."""
    return np.append(scenario.cell, -1)[table.record_cell]


def without_blanks(
    found: Assessment, plan: Exchange, alone: AloneAfter, keys: Sequence[str], blanked: Suppression
) -> tuple[AloneAfter, NDArray[np.bool_]]:
    """What an intruder finds once values are blanked as well, and who is then still alone."""
    released = released_table(found, plan).with_coarsenings(())
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


def after_blanking(after: RiskAfter, found: Suppression | None, plan: SwapPlan) -> RiskAfter:
    """The risk that is left once values are blanked as well."""
    if found is None:
        return after
    unique, link = after.unique_probability.copy(), after.match_probability.copy()
    moved = (after.swapped_unique.copy(), after.swapped_link.copy(), after.swapped_highest.copy())
    place = {row: position for position, row in enumerate(plan.rows.tolist())}
    for row, risk, links in zip(found.rows.tolist(), found.risk_after.tolist(), found.links_after.tolist(), strict=True):
        cell = int(plan.table.cell_of(row))
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


def with_suppression(swap: SwapSummary, found: Suppression | None, after: RiskAfter) -> SwapSummary:
    """Add the blanked values to the summary of the swaps, and the risk ``after`` both."""
    if found is None:
        return swap
    left = RiskNumbers(
        expected_population_uniques=after.expected_population_uniques,
        expected_correct_matches=after.expected_correct_matches,
        sample_uniques=swap.risk_after.sample_uniques,
        highest=after.highest,
    )
    told = SuppressionSummary(
        records=len(found.rows),
        values=found.n_values,
        by_key={key: int(of_key.sum()) for key, of_key in found.blanked.items()},
        unreached=len(found.unreached),
        sentence=str(found),
    )
    return replace(swap, risk_after=left, suppression=told)


def blanks_of(found: Suppression | None, table: ContingencyTable) -> dict[str, Blanks]:
    """Where each key is blanked, and the words that a text file may have for a missing value of it."""
    if found is None:
        return {}
    blanks = {}
    for key, is_blank in found.blanked.items():
        levels = {str(level) for level in table.categories[table.keys.index(key)].levels}
        blanks[key] = Blanks(found.rows[is_blank], tuple(sorted(MISSING_WORDS - levels)))
    return blanks
