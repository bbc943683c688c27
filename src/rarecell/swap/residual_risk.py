"""What risk is left after a swap, as an intruder meets it?

The intruder matches a record on its keys. A match with a swapped record is false, so its risk is gone. A record that was
left alone when a partner moved away is alone now; one that was joined by a swapped record is alone no more. The margins
of the model are the same, so are its cell probabilities, and the formulas are those of the risk before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rarecell.risk.records import RecordRisk
    from rarecell.swap.plan import SwapPlan


@dataclass(frozen=True, eq=False)
class RiskAfter:
    """Risk of the cells of the original table after a plan; swapped records count 0.

    Attributes
    ----------
    counts : records in each cell of the original table after the swaps
    unique_probability : where the only record of the cell was not swapped: P(unique in the population); else 0
    match_probability : likewise E(1/F); else 0
    n_sample_uniques : sample uniques of the swapped file, swapped ones included
    n_vacated : sample uniques of the original file whose cell is empty now
    n_created : records that were not alone before, were not swapped, and are alone now
    """

    counts: NDArray[np.int64]
    unique_probability: NDArray[np.float64]
    match_probability: NDArray[np.float64]
    n_sample_uniques: int
    n_vacated: int
    n_created: int

    @property
    def expected_population_uniques(self) -> float:
        """Expected number of population uniques that would be matched correctly."""
        return float(self.unique_probability.sum())

    @property
    def expected_correct_matches(self) -> float:
        """Expected number of correct matches with sample uniques."""
        return float(self.match_probability.sum())

    @property
    def highest(self) -> float:
        """Highest risk of a record."""
        return float(self.unique_probability.max(initial=0.0))

    def __str__(self) -> str:
        return (
            f"{self.n_vacated:,} uniques were vacated; of the records that still match, {self.expected_population_uniques:,.1f} are "
            f"expected to be unique in the population and {self.expected_correct_matches:,.1f} to be matched correctly."
        )


def risk_after(risk: RecordRisk, plan: SwapPlan, pairs: NDArray[Any] | None = None) -> RiskAfter:
    """Risk after all swaps of a plan, or after some of its ``pairs`` (positions or a mask)."""
    part = plan if pairs is None else plan.subset(pairs)
    table = plan.table
    old_cell = table.cell_of(part.rows)
    entered, n_new_uniques = _entered(part)
    # Few cells of a large file are touched; the others keep their risk.
    touched = np.unique(np.concatenate([old_cell, entered[entered >= 0]]))
    n_left, n_entered = (_number_in(touched, cells) for cells in (old_cell, entered[entered >= 0]))
    unswapped = table.counts[touched] - n_left
    sizes = unswapped + n_entered
    alone = (sizes == 1) & (unswapped == 1)
    counts, was_unique = table.counts.copy(), table.counts[touched] == 1
    counts[touched] = sizes

    is_unique = table.counts == 1
    unique, match = risk.unique_probability.copy(), np.where(is_unique, risk.match_probability, 0.0)
    for values, new in zip((unique, match), risk.at_counts(touched, np.maximum(sizes, 1)), strict=True):
        values[touched] = np.where(alone, new, 0.0)
    return RiskAfter(
        counts=counts,
        unique_probability=unique,
        match_probability=match,
        n_sample_uniques=int(is_unique.sum() - was_unique.sum() + (sizes == 1).sum()) + n_new_uniques,
        n_vacated=int((was_unique & (sizes == 0)).sum()),
        n_created=int((alone & ~was_unique).sum()),
    )


def _number_in(touched: NDArray[np.int64], cells: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """How many of ``cells`` are each of the increasing ``touched`` ones, among which they all are."""
    return np.bincount(np.searchsorted(touched, cells), minlength=len(touched))


def _entered(plan: SwapPlan) -> tuple[NDArray[np.integer[Any]], int]:
    """Cell of the original table that each swapped row enters (−1: one that was empty), and new cells with one record."""
    if not len(plan):
        return np.zeros(0, dtype=np.int64), 0
    cells, inverse, counts = np.unique(plan.new_cells, axis=0, return_inverse=True, return_counts=True)
    # The marginal on all keys is the table itself, in the same order.
    positions = plan.table.marginals.positions(plan.table.all_keys, cells)
    return positions[inverse.ravel()], int((counts[positions < 0] == 1).sum())
