"""Which records stay at risk after a plan, and why?

A record that was not swapped and is alone in the released file is as unique as before; a swapped one may still be linked to
its person. The records left with a risk at or above a threshold are listed here, riskiest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.intruder.release import Release
from rarecell.swap.reasons import EXPOSED, LEFT_ALONE, NOT_ASKED_FOR
from rarecell.swap.residual_risk import RiskAfter

if TYPE_CHECKING:
    from rarecell.swap.plan import SwapPlan


@dataclass(frozen=True, eq=False)
class Remaining:
    """Records that stay at risk, one entry each.

    Attributes
    ----------
    rows : array of int
        Row numbers.
    cells : array of int
        Key codes in the released file.
    risk : array of float
        Risk of being unique if not swapped, of being linked if swapped.
    swapped : array of bool
        Whether the record was swapped.
    reasons : tuple of str
        Why the record stays at risk.
    """

    rows: NDArray[np.int64]
    cells: NDArray[np.int32]
    risk: NDArray[np.float64]
    swapped: NDArray[np.bool_]
    reasons: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)


def remaining_records(plan: SwapPlan, after: RiskAfter, threshold: float) -> Remaining:
    """List the records of the released file whose risk is at least ``threshold`` and above 0, riskiest first."""
    table, release = plan.table, Release.of_plan(plan)
    alone = release.unmoved_cells
    of_alone = after.unique_probability[alone]
    stays = (of_alone >= threshold) & (of_alone > 0.0)
    cell, unmoved = alone[stays], release.unmoved_rows()[stays]
    moved = np.flatnonzero((after.swapped_highest >= threshold) & (after.swapped_highest > 0.0))
    known = {left.record: left.reason for left in plan.unswapped}
    reasons = [
        known.get(row, LEFT_ALONE if count > 1 else NOT_ASKED_FOR)
        for row, count in zip(unmoved.tolist(), table.counts[cell].tolist(), strict=True)
    ]
    reasons += [known.get(row, EXPOSED) for row in plan.rows[moved].tolist()]
    risk = np.concatenate([of_alone[stays], after.swapped_highest[moved]])
    rows = np.concatenate([unmoved, plan.rows[moved]])
    order = np.lexsort((rows, -risk))
    return Remaining(
        rows[order],
        np.concatenate([table.cells[cell], plan.new_cells[moved]])[order],
        risk[order],
        (np.arange(len(rows)) >= len(cell))[order],
        tuple(reasons[place] for place in order.tolist()),
    )
