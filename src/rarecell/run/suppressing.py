"""Which values are blanked in records that swaps leave above the risk asked for, and how are they written?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.engine import open_source
from rarecell.engine.output import temporary_folder
from rarecell.engine.source import Source
from rarecell.machine.disk import remove
from rarecell.outcome.swap import RiskNumbers, SuppressionSummary, SwapSummary
from rarecell.progress import Progress
from rarecell.release.suppression import Suppression, suppress_rest
from rarecell.run import model_choice
from rarecell.run.config import ProtectConfig
from rarecell.run.released import released_table
from rarecell.run.results import Assessment
from rarecell.swap.plan import SwapPlan
from rarecell.swap.residual_risk import RiskAfter
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    from rarecell.edges import Frame


def highest_wanted(wanted: ProtectConfig, threshold: float) -> float:
    """The risk above which values are blanked: the one asked for, or the threshold of the run."""
    asked = wanted.max_record_risk if wanted.max_record_risk is not None else wanted.risk_above
    return threshold if asked is None else asked


def suppressed(
    wanted: ProtectConfig, found: Assessment, plan: SwapPlan, after: RiskAfter, progress: Progress
) -> Suppression | None:
    """Find the fewest values to blank in records that swaps leave at risk; None when that was not asked for."""
    if not wanted.suppress_rest:
        return None
    table, config = found.table, found.config
    assert table.record_cell is not None, "records are held when values are to be blanked"
    limit = highest_wanted(wanted, config.threshold)
    at_risk = np.append(after.unique_probability > limit, False)[table.record_cell]
    stayed = np.setdiff1d(np.flatnonzero(at_risk), plan.rows)
    moved = np.flatnonzero(after.swapped_highest > limit)
    rows = np.concatenate([stayed, plan.rows[moved]])
    cells = np.concatenate([table.cells[table.cell_of(stayed)], plan.new_cells[moved]])
    risk = np.concatenate([after.unique_probability[table.cell_of(stayed)], after.swapped_highest[moved]])

    def cell_risk(fewer: ContingencyTable) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        of_fewer = model_choice.risk_of(fewer, model_choice.quick_model(fewer, config, n_orders=1), config)
        return of_fewer.unique_probability, of_fewer.match_probability

    return suppress_rest(
        released_table(found, plan).with_coarsenings(()),
        rows,
        cells,
        risk,
        cell_risk,
        threshold=limit,
        progress=progress,
    )


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


def blanked_values(source: Source, found: Suppression) -> dict[str, pa.Array]:
    """The values of each key that is blanked anywhere, for the records of a suppression; null where blanked."""
    values = source.take(found.rows, list(found.blanked))
    return {key: values[key].take(pa.array(np.arange(len(found.rows)), mask=found.blanked[key])) for key in found.blanked}


def blank_file(path: Path, found: Suppression | None) -> None:
    """Blank values in a file that has been written, in place."""
    if found is None or not len(found.rows):
        return
    source = open_source(path)
    with temporary_folder(path) as folder:
        done = source.write_with_replacements(folder / path.name, found.rows, blanked_values(source, found))
        if path.is_dir():
            remove(path)
        done.replace(path)


def blank_frame(frame: Frame, found: Suppression | None) -> Frame:
    """Return data in memory with values blanked."""
    if found is None or not len(found.rows):
        return frame
    source = open_source(frame)
    return source.replaced(found.rows, blanked_values(source, found))
