"""Why is a record left unchanged or at risk, and what can be done about it?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.intruder.residual_risk import RiskAfter

if TYPE_CHECKING:
    from rarecell.swap.plan import SwapPlan


DROPPED = "a key value is missing"
UNTOUCHED = "the constraints rule out any change"
FIXED_BY_MODEL = "the margins of the model fix the count of the cell"
FIXED_BY_KEEP = "the further margins to keep fix the count of the cell"
CONSTRAINED = "no partner satisfies the constraints and leaves vacated cells empty"
NOT_FOUND = "no partner was found among the nearest records"
NO_HOUSEHOLD = "no other household of the same composition is available"
RULE_BROKEN = "every partner that was found breaks a rule that holds in all households"
NO_PLACE = "no similar record in another area is left"
TAKEN = "all possible partners take part in other swaps"
EXPOSED = "every partner that was found leaves the person nearest to the new values"
LEFT_ALONE = "the records that shared its values were swapped away"
NOT_ASKED_FOR = "no protection was asked for"
FAMILY_KNOWN = "its household is still found by whoever knows the family"

_COARSER = "release a coarser key (--recode) or blank values (--suppress-rest)"
_REMEDIES = {
    UNTOUCHED: f"allow it to be swapped (untouched in run.toml), {_COARSER}",
    FIXED_BY_KEEP: f"keep fewer tables (--keep), {_COARSER}",
    CONSTRAINED: f"allow more partners (--within, --never-swap, rules in run.toml), {_COARSER}",
    NO_HOUSEHOLD: f"swap single records instead of households, {_COARSER}",
    FAMILY_KNOWN: "drop the household number (--unlink), release coarser keys (--recode), or protect more records (a lower --risk-above)",
    NOT_ASKED_FOR: f"protect more records (a lower --risk-above), {_COARSER}",
}


def remedy(reason: str) -> str:
    """Return what a data steward can do for a record that stays at risk for this reason."""
    return _REMEDIES.get(reason, _COARSER)


@dataclass(frozen=True)
class Unswapped:
    """A chosen record that the plan leaves unchanged, and why."""

    record: int
    reason: str


# Which records stay at risk after a plan, and why?
#
# A record that was not swapped and is alone in the released file is as unique as before; a swapped one may still be linked to
# its person. The records left with a risk at or above a threshold are listed here, riskiest first.


@dataclass(frozen=True, eq=False)
class Remaining:
    """Records that stay at risk, one entry each.

    Attributes
    ----------
    rows : array of int
        Row numbers.
    cells : array of int
        Key codes in the released file; −1 for a record that was dropped, which is at risk with its household alone.
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
    table, release = plan.table, plan.release
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


def with_families(alone: Remaining, plan: SwapPlan, together: NDArray[np.float64], threshold: float) -> Remaining:
    """The same list with records whose household is recognised, riskiest first.

    ``together`` is the larger risk of every record, alone or with its household. A record that is at risk alone keeps its reason.
    """
    own = np.zeros(len(together))
    own[alone.rows] = alone.risk
    at_risk = np.flatnonzero((together >= threshold) & (together > 0.0) & (own < threshold))
    table, is_swapped = plan.table, np.isin(at_risk, plan.rows)
    cells = table.cells[table.cell_of(at_risk)]
    cells[table.cell_of(at_risk) < 0] = -1
    place = {row: position for position, row in enumerate(plan.rows.tolist())}
    moved = np.array([place[row] for row in at_risk[is_swapped].tolist()], dtype=np.int64)
    cells[is_swapped] = plan.new_cells[moved]
    known = {left.record: left.reason for left in plan.unswapped}
    reasons = [known.get(row, FAMILY_KNOWN) for row in at_risk.tolist()]
    others = ~np.isin(alone.rows, at_risk)
    rows = np.concatenate([alone.rows[others], at_risk])
    risk = np.concatenate([np.maximum(alone.risk[others], together[alone.rows[others]]), together[at_risk]])
    every = [*(reason for reason, stays in zip(alone.reasons, others.tolist(), strict=True) if stays), *reasons]
    order = np.lexsort((rows, -risk))
    return Remaining(
        rows[order],
        np.concatenate([alone.cells[others], cells])[order],
        risk[order],
        np.concatenate([alone.swapped[others], is_swapped])[order],
        tuple(every[position] for position in order.tolist()),
    )
