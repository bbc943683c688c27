"""What risk is left after a swap, against an intruder?

The intruder links a record to the nearest person. A record that was not swapped and is alone in the released file is linked as
before. A swapped record is tried too: it is linked to its own person if nobody else is nearer to its new values. For a record
that shares its cell of the released file with others, the intruder makes no claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.intruder.nearest import MovedLinks, moved_links
from rarecell.intruder.register import Register
from rarecell.release.release import Release

if TYPE_CHECKING:
    from rarecell.edges import Array, Integers
    from rarecell.risk.records import RecordRisk
    from rarecell.swap.apply import Exchange
    from rarecell.swap.plan import SwapPlan


Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RiskAfter:
    """Risk of the cells of the original table, and of the swapped records, after a plan.

    Attributes
    ----------
    counts : array of int
        Number of records in each cell of the original table after the swaps.
    unique_probability : array of float
        P(unique in the population) if the only record of the cell was not swapped; else 0.
    match_probability : array of float
        E(1/F) if the only record of the cell was not swapped; else 0.
    swapped_unique : array of float
        For each row of the plan, P(it is linked to its person, and nobody else is as near).
    swapped_link : array of float
        For each row of the plan, P(it is linked to its person), by the weight with the most links.
    swapped_highest : array of float
        For each row of the plan, the highest such probability over all weights.
    n_sample_uniques : int
        Number of sample uniques of the swapped file, swapped ones included.
    n_vacated : int
        Number of sample uniques of the original file whose cell is empty now.
    n_created : int
        Number of records that were not alone before, were not swapped, and are alone now.
    """

    counts: NDArray[np.int64]
    unique_probability: Floats
    match_probability: Floats
    swapped_unique: Floats
    swapped_link: Floats
    swapped_highest: Floats
    n_sample_uniques: int
    n_vacated: int
    n_created: int

    @property
    def expected_population_uniques(self) -> float:
        """Expected number of records that are linked to their person with nobody else as near."""
        return float(self.unique_probability.sum() + self.swapped_unique.sum())

    @property
    def expected_correct_matches(self) -> float:
        """Expected number of records that are linked to their person."""
        return float(self.match_probability.sum() + self.swapped_link.sum())

    @property
    def highest(self) -> float:
        """Highest risk of a record: of being unique if not swapped, of being linked if swapped."""
        return float(max(self.unique_probability.max(initial=0.0), self.swapped_highest.max(initial=0.0)))

    def __str__(self) -> str:
        return (
            f"{self.n_vacated:,} uniques were vacated; {self.expected_correct_matches:,.1f} records are expected to be linked to "
            f"their person, {float(self.swapped_link.sum()):,.1f} of them swapped."
        )


def links_of_plan(plan: SwapPlan, register: Register) -> MovedLinks:
    """Try an intruder who links to the nearest person on the rows of a plan; the result also holds for any part of the plan."""
    return moved_links(register.seen(Release.of_plan(plan)), register, distances=plan.task.distances)


def risk_after(risk: RecordRisk, plan: SwapPlan, links: MovedLinks, pairs: Array | None = None) -> RiskAfter:
    """Compute the risk after all swaps of a plan, or after some of its ``pairs``.

    Parameters
    ----------
    risk : RecordRisk
        Risk before the swaps.
    plan : SwapPlan
        The swaps.
    links : MovedLinks
        Result of :func:`links_of_plan` for the whole plan.
    pairs : array, optional
        Positions or a mask of the pairs that are swapped; all by default.

    Returns
    -------
    RiskAfter
        The risk that is left.
    """
    if pairs is None:
        return risk_after_exchange(risk, plan, links)
    chosen = np.arange(len(plan))[pairs]
    of_rows = np.concatenate([chosen, chosen + len(plan)])
    part = MovedLinks(links.link[of_rows], links.certain[of_rows], links.highest[of_rows], links.drawn)
    return risk_after_exchange(risk, plan.subset(pairs), part)


def risk_after_exchange(risk: RecordRisk, exchange: Exchange, links: MovedLinks) -> RiskAfter:
    """Compute the risk after values changed places, by a plan or at random; ``links`` are those of the exchanged rows."""
    table = exchange.table
    old_cell = table.cell_of(exchange.rows)
    entered, n_alike_new, n_new_uniques = _entered(exchange)
    # Only few cells of a large file are touched; the others keep their risk.
    touched = np.unique(np.concatenate([old_cell, entered[entered >= 0]]))
    n_left, n_entered = (_number_in(touched, cells) for cells in (old_cell, entered[entered >= 0]))
    unswapped = table.counts[touched] - n_left
    sizes = unswapped + n_entered
    alone = (sizes == 1) & (unswapped == 1)
    # If missing values match anything, a record that is alone in its cell can still be compatible with others.
    is_unique = risk.sample_count == 1
    counts, was_unique = table.counts.copy(), is_unique[touched]
    counts[touched] = sizes

    unique, match = risk.unique_probability.copy(), np.where(is_unique, risk.match_probability, 0.0)
    # In the population, the person of a record that is left alone still shares the cell with the others.
    unique[touched] = np.where(alone, risk.unique_probability[touched], 0.0)
    match[touched] = np.where(alone, risk.match_probability[touched], 0.0)
    is_claimed = np.where(entered >= 0, counts[entered], n_alike_new) == 1
    return RiskAfter(
        counts=counts,
        unique_probability=unique,
        match_probability=match,
        swapped_unique=np.where(is_claimed, links.certain, 0.0),
        swapped_link=np.where(is_claimed, links.link, 0.0),
        swapped_highest=np.where(is_claimed, links.highest, 0.0),
        n_sample_uniques=int(is_unique.sum() - was_unique.sum() + (sizes == 1).sum()) + n_new_uniques,
        n_vacated=int((was_unique & (sizes == 0)).sum()),
        n_created=int((alone & ~was_unique).sum()),
    )


def _number_in(touched: NDArray[np.int64], cells: Integers) -> NDArray[np.int64]:
    """How often each of the ``touched`` cells (in increasing order) occurs in ``cells``, all of which are touched."""
    return np.bincount(np.searchsorted(touched, cells), minlength=len(touched))


def _entered(exchange: Exchange) -> tuple[Integers, NDArray[np.int64], int]:
    """For each swapped row, the original cell it enters (−1 if that was empty) and the number of swapped rows entering it.

    The third value is the number of new cells with one record.
    """
    if not len(exchange.rows):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), 0
    cells, inverse, counts = np.unique(exchange.new_cells, axis=0, return_inverse=True, return_counts=True)
    # The marginal of all keys is the table itself, in the same order.
    positions = exchange.table.marginals.positions(exchange.table.all_keys, cells)
    which = inverse.ravel()
    return positions[which], counts[which], int((counts[positions < 0] == 1).sum())
