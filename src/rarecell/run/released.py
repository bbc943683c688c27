"""What does the released file look like to its recipients?

Its table, with blanked values as levels of their own; who is unique in it and how risky that is; households; intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell.outcome.released import HouseholdsAfter, ReleasedState
from rarecell.outcome.swap import SwapSummary
from rarecell.release.suppression import Suppression
from rarecell.risk.interval import risk_interval
from rarecell.risk.records import household_risk
from rarecell.risk.unsafe import k_anonymity
from rarecell.run.groups import concentration_of
from rarecell.run.results import Assessment
from rarecell.run.strata import with_design_weights
from rarecell.swap.apply import Exchange
from rarecell.swap.plan import SwapPlan
from rarecell.swap.residual_risk import RiskAfter
from rarecell.table.contingency import Categories, ContingencyTable

LEVEL_Z = 1.959963984540054
"""Half-width, in standard deviations, of an interval that holds 95 % of a normal distribution."""


# ---------------------------------------------------------------------- the table


class ChangedRecords(NamedTuple):
    """Records whose key values differ in the released file: their codes before and after, and the levels after."""

    rows: NDArray[np.int64]
    before: NDArray[np.int32]
    after: NDArray[np.int32]
    categories: tuple[Categories, ...]


def changed_records(plan: Exchange, blanked: Suppression | None) -> ChangedRecords:
    """The records that were swapped or lost a value; a blanked value is the level of missing ones, which comes last."""
    table = plan.table
    if blanked is None or not len(blanked.rows):
        return ChangedRecords(plan.rows, table.cells[table.cell_of(plan.rows)], plan.new_cells, table.categories)
    rows = np.union1d(plan.rows, blanked.rows)
    before = table.cells[table.cell_of(rows)]
    after, categories = before.copy(), list(table.categories)
    after[np.searchsorted(rows, plan.rows)] = plan.new_cells
    place = np.searchsorted(rows, blanked.rows)
    for key, of_key in blanked.blanked.items():
        k = table.keys.index(key)
        if not categories[k].has_missing:
            categories[k] = replace(categories[k], levels=(*categories[k].levels, None))
        after[place[of_key], k] = categories[k].n_levels - 1
    return ChangedRecords(rows, before, after, tuple(categories))


def released_table(found: Assessment, plan: Exchange, blanked: Suppression | None = None) -> ContingencyTable:
    """The table of the released file, with its design weights; a blanked value is a level of its own.

    The input table must know the cell of each record. Weights stay with their record, so the weight of a cell changes with the
    records that enter and leave it.
    """
    table, config = plan.table, found.config
    assert table.record_cell is not None, "records are held when values are to be blanked"
    codes = np.where(table.record_cell[:, None] >= 0, table.cells[table.record_cell], -1)
    changed = changed_records(plan, blanked)
    codes[changed.rows] = changed.after
    weights = found.data.record_weights() if config.weight is not None else None
    codes, occurring = _occurring(changed.categories, codes.astype(np.int32))
    made = ContingencyTable.from_codes(codes, occurring, weights=weights)
    return with_design_weights(found.data, made, config) if blanked is None else made


def _occurring(categories: Sequence[Categories], codes: NDArray[np.int32]) -> tuple[NDArray[np.int32], list[Categories]]:
    """Recode to the levels that occur, and return these levels; a level that was blanked everywhere is gone."""
    codes, found = codes.copy(), []
    kept = codes[(codes >= 0).all(axis=1)]
    for k, given in enumerate(categories):
        there = np.unique(kept[:, k])
        # The extra last element is for dropped records, whose code is −1.
        new_code = np.full(given.n_levels + 1, -1, dtype=np.int32)
        new_code[there] = np.arange(len(there), dtype=np.int32)
        codes[:, k] = new_code[codes[:, k]]
        found.append(Categories(given.key, tuple(given.levels[code] for code in there.tolist()), given.is_ordered))
    return codes, found


# ---------------------------------------------------------------------- who is alone in it


def released_state(
    found: Assessment, plan: SwapPlan, after: RiskAfter, blanked: Suppression | None, interval: tuple[float, float]
) -> ReleasedState:
    """The state of the released file: the risk of each record that is unique in it, and how many records share a cell.

    ``interval`` is the :func:`interval_after`.
    """
    threshold = found.config.threshold
    table = plan.table_after if blanked is None else released_table(found, plan, blanked)
    edges = np.linspace(0.0, 1.0, 11)
    stayed = after.unique_probability[after.counts == 1]
    # Judge a swapped record by its highest chance of being linked, under any definition of near.
    risks = np.concatenate([stayed, after.swapped_highest[after.swapped_highest > 0.0]])
    n_alone = after.n_sample_uniques if blanked is None else int((table.counts == 1).sum())
    counts = np.histogram(risks, edges)[0]
    counts[0] += max(0, n_alone - len(risks))
    return ReleasedState(
        sample_uniques=n_alone,
        records_above_threshold=int((risks >= threshold).sum()),
        edges=tuple(edges.round(1).tolist()),
        counts=tuple(int(n) for n in counts),
        k_anonymity={str(k): n for k, n in k_anonymity(table).items()},
        households=_households(found, plan, after),
        concentration=concentration_of(_alone_in_population(after, n_alone)),
        interval=interval,
    )


def _alone_in_population(after: RiskAfter, n_alone: int) -> NDArray[np.float64]:
    """For every sample unique of the released file, the probability that its person is alone in the population and is linked."""
    found = np.concatenate([after.unique_probability[after.counts == 1], after.swapped_unique[after.swapped_unique > 0.0]])
    return np.append(found, np.zeros(max(0, n_alone - len(found))))


def risk_of_records(plan: SwapPlan, stayed: NDArray[np.float64], moved: NDArray[np.float64]) -> NDArray[np.float64]:
    """Combine a number for each record of the file: that of its cell if it stayed, its own if it was swapped."""
    assert plan.table.record_cell is not None
    # The extra last element is for dropped records, whose cell is −1.
    of_record = np.append(stayed, 0.0)[plan.table.record_cell]
    of_record[plan.rows] = moved
    return np.asarray(of_record, dtype=np.float64)


def _households(found: Assessment, plan: SwapPlan, after: RiskAfter) -> HouseholdsAfter | None:
    """Households whose members could be recognised in the released file."""
    codes = found.data.household_codes()
    if codes is None or plan.table.record_cell is None:
        return None
    of_record = risk_of_records(plan, after.unique_probability, after.swapped_highest)
    probability = household_risk(of_record, codes)[np.unique(codes, return_index=True)[1]]
    return HouseholdsAfter(
        expected_with_an_identified_member=float(probability.sum()),
        above_threshold=int((probability >= found.config.threshold).sum()),
    )


def interval_after(found: Assessment, plan: SwapPlan, after: RiskAfter, blanked: Suppression | None) -> tuple[float, float]:
    """Interval for the number of records that could still be recognised.

    Records that stayed and are still unique are simulated as before protection, or counted in a register. Those that moved or lost
    values are added as independent trials with their probabilities.
    """
    table = plan.table
    stays = (after.unique_probability > 0.0) & (found.risk.sample_count == 1)
    others = [after.swapped_unique]
    if blanked is not None and len(blanked.rows):
        cells = table.cell_of(np.setdiff1d(blanked.rows, plan.rows))
        stays[cells] = False
        others.append(after.unique_probability[cells])
    chance = np.minimum(np.concatenate(others), 1.0)
    mean, spread = float(chance.sum()), LEVEL_Z * float(np.sqrt((chance * (1.0 - chance)).sum()))
    low, high = 0.0, 0.0
    if found.roles.register is not None:
        # Who stayed and is alone was counted; there is nothing to simulate.
        low = high = float(after.unique_probability[stays].sum())
    elif stays.any():
        drawn = risk_interval(found.risk, found.choice.risk_model, among=stays, seed=found.config.seed)
        low, high = drawn.population_uniques
    return max(0.0, float(np.floor(low + max(0.0, mean - spread)))), float(np.ceil(high + mean + spread))


def with_interval_of_links(swap: SwapSummary) -> SwapSummary:
    """Add the interval of the nearest intruder's correct links to the state of the released file."""
    nearest = next((one for one in swap.intruders if one.name == "nearest"), None)
    if swap.released is None or nearest is None or len(nearest.interval_after) != 2:
        return swap
    low, high = nearest.interval_after
    return replace(swap, released=replace(swap.released, interval_correct_matches=(low, high)))
