"""Which groups of records are at risk, before and after protection, and how concentrated is the risk?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rarecell.data.microdata import Microdata
from rarecell.outcome.released import Concentration, GroupRisk
from rarecell.risk.records import RecordRisk
from rarecell.run.analysing import codes_after
from rarecell.run.config import RunConfig
from rarecell.swap.carry import Travel
from rarecell.swap.plan import SwapPlan
from rarecell.swap.residual_risk import RiskAfter
from rarecell.table.contingency import Categories

MOST_LEVELS = 400
"""For a key with more levels, only those with the most risk are reported."""

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of the sample uniques at which the concentration of risk is reported."""


RoleColumns = Mapping[str, tuple[NDArray[np.int32], Categories]]
"""Columns that have a role but are not keys: the code of each record, and the levels."""

ByLevel = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Three sums for each level of a column."""


def role_columns(data: Microdata, config: RunConfig, risk: RecordRisk) -> RoleColumns:
    """Areas, strata and sensitive columns with few enough levels to report one by one; none if records are not held in memory."""
    if risk.table.record_cell is None:
        return {}
    named = dict.fromkeys([*data.areas, *([config.strata] if config.strata else []), *config.sensitive])
    names = [name for name in named if name not in risk.table.keys]
    if not names:
        return {}
    codes, categories = data.column_codes(names)
    return {c.key: (codes[:, k], c) for k, c in enumerate(categories) if 1 < c.n_levels <= MOST_LEVELS}


def groups_of(
    risk: RecordRisk,
    plan: SwapPlan | None = None,
    after: RiskAfter | None = None,
    columns: RoleColumns | None = None,
    travel: Travel | None = None,
) -> tuple[GroupRisk, ...]:
    """The risk of every level of every key and of every column with a role; given a plan, in the released file as well."""
    found: list[GroupRisk] = []
    for k in range(risk.table.n_keys):
        found += _of_key(risk, k, plan, after)
    for codes, categories in (columns or {}).values():
        new_codes = codes
        if plan is not None and travel is not None:
            new_codes = codes_after(codes[:, None], [categories.key], plan, travel, plan.rows)[:, 0]
        found += _of_column(risk, (codes, new_codes), categories, plan, after)
    return tuple(found)


def _of_column(
    risk: RecordRisk,
    before_and_after: tuple[NDArray[np.int32], NDArray[np.int32]],
    categories: Categories,
    plan: SwapPlan | None,
    after: RiskAfter | None,
) -> list[GroupRisk]:
    """Groups by a column outside the keys, which stays with its record or travels with a swapped key."""
    codes, new_codes = before_and_after
    table = risk.table
    assert table.record_cell is not None

    def summed(of_record: NDArray[np.float64], where: NDArray[np.int32] = codes) -> NDArray[np.float64]:
        return np.asarray(np.bincount(where, weights=of_record, minlength=categories.n_levels), dtype=np.float64)

    def by_cell(values: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
        # The extra last element is for dropped records, whose cell is −1.
        return np.append(values.astype(np.float64), 0.0)[table.record_cell]

    records, uniques = summed(np.ones(len(codes))), summed(by_cell((table.counts == 1).astype(np.int64)))
    expected = summed(by_cell(risk.unique_probability))
    released = None
    if plan is not None and after is not None:
        of_record, moved = by_cell(after.unique_probability), np.zeros(len(codes))
        of_record[plan.rows] = after.swapped_unique
        moved[plan.rows] = 1.0
        released = summed(np.ones(len(codes)), new_codes), summed(of_record, new_codes), summed(moved)
    return _told(categories, range(categories.n_levels), (records, uniques, expected), released)


def _of_key(risk: RecordRisk, k: int, plan: SwapPlan | None, after: RiskAfter | None) -> list[GroupRisk]:
    table = risk.table
    categories, codes = table.categories[k], table.cells[:, k]

    def summed(values: NDArray[np.float64] | NDArray[np.int64], where: NDArray[np.int32] = codes) -> NDArray[np.float64]:
        return np.bincount(where, weights=values, minlength=categories.n_levels).astype(np.float64)

    records, uniques = summed(table.counts), summed((risk.sample_count == 1).astype(np.int64))
    expected = summed(risk.unique_probability)
    chosen = np.sort(np.argsort(-expected, kind="stable")[:MOST_LEVELS])
    released = None
    if plan is not None and after is not None:
        new, old = plan.new_cells[:, k], table.cells[table.cell_of(plan.rows), k]
        ones = np.ones(len(plan.rows))
        left = summed(after.unique_probability) + summed(after.swapped_unique, new)
        released = records - summed(ones, old) + summed(ones, new), left, summed(ones, old)
    return _told(categories, chosen.tolist(), (records, uniques, expected), released)


def _told(categories: Categories, levels: Sequence[int], file: ByLevel, released: ByLevel | None) -> list[GroupRisk]:
    """The groups of some levels, from their sums.

    ``file`` has the records, the sample uniques and the expected population uniques of each level, ``released`` the records and
    the expected population uniques of the released file, and the records that were swapped.
    """
    records, uniques, expected = file
    now, left, swapped = released or (None, None, None)
    return [
        GroupRisk(
            key=categories.key,
            level=categories.labels[code],
            records=int(records[code]),
            sample_uniques=int(uniques[code]),
            expected_population_uniques=float(expected[code]),
            records_after=None if now is None else int(now[code]),
            expected_population_uniques_after=None if left is None else float(left[code]),
            swapped=None if swapped is None else int(swapped[code]),
        )
        for code in levels
    ]


def concentration_of(uniques: NDArray[np.float64]) -> tuple[Concentration, ...]:
    """The share of the expected population uniques that the riskiest records account for.

    Takes the probability of every sample unique to be alone in the population.
    """
    probability = -np.sort(-uniques)
    total = probability.sum()
    if total <= 0.0:
        return ()
    upto = np.cumsum(probability)
    numbers = sorted({max(1, round(share * len(probability))) for share in SHARES})
    return tuple(Concentration(records=n, share=float(upto[n - 1] / total)) for n in numbers)
