"""Which groups of records are at risk, before and after protection, and how is risk concentrated?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell.outcome.released import Concentration, GroupRisk, ReleasedState
from rarecell.risk.records import RecordRisk
from rarecell.risk.unsafe import k_anonymity
from rarecell.swap.plan import SwapPlan
from rarecell.swap.residual_risk import RiskAfter
from rarecell.table.contingency import ContingencyTable

MOST_LEVELS = 400
"""Of a key with more levels only those with most risk are told."""

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of the sample uniques at which the concentration of risk is told."""


def groups_of(risk: RecordRisk, plan: SwapPlan | None = None, after: RiskAfter | None = None) -> tuple[GroupRisk, ...]:
    """The risk of every level of every key; with a plan also in the released file."""
    found: list[GroupRisk] = []
    for k in range(risk.table.n_keys):
        found += _of_key(risk, k, plan, after)
    return tuple(found)


def _of_key(risk: RecordRisk, k: int, plan: SwapPlan | None, after: RiskAfter | None) -> list[GroupRisk]:
    table = risk.table
    categories, codes = table.categories[k], table.cells[:, k]

    def summed(values: NDArray[np.float64] | NDArray[np.int64], where: NDArray[np.int32] = codes) -> NDArray[np.float64]:
        return np.bincount(where, weights=values, minlength=categories.n_levels).astype(np.float64)

    records, uniques = summed(table.counts), summed((risk.sample_count == 1).astype(np.int64))
    expected = summed(risk.unique_probability)
    chosen = np.sort(np.argsort(-expected, kind="stable")[:MOST_LEVELS])
    later: list[dict[str, int | float]] = [{} for _ in range(categories.n_levels)]
    if plan is not None and after is not None:
        new, old = plan.new_cells[:, k], table.cells[table.cell_of(plan.rows), k]
        ones = np.ones(len(plan.rows))
        left = summed(after.unique_probability) + summed(after.swapped_unique, new)
        now, swapped = records - summed(ones, old) + summed(ones, new), summed(ones, old)
        later = [
            {
                "records_after": int(now[code]),
                "expected_population_uniques_after": float(left[code]),
                "swapped": int(swapped[code]),
            }
            for code in range(categories.n_levels)
        ]
    return [
        GroupRisk(
            key=categories.key,
            level=categories.labels[code],
            records=int(records[code]),
            sample_uniques=int(uniques[code]),
            expected_population_uniques=float(expected[code]),
            **later[code],
        )
        for code in chosen.tolist()
    ]


def concentration_of(risk: RecordRisk) -> tuple[Concentration, ...]:
    """How much of the expected population uniques the riskiest records hold."""
    probability = -np.sort(-risk.unique_probability[risk.sample_count == 1])
    total = probability.sum()
    if total <= 0.0:
        return ()
    upto = np.cumsum(probability)
    numbers = sorted({max(1, round(share * len(probability))) for share in SHARES})
    return tuple(Concentration(records=n, share=float(upto[n - 1] / total)) for n in numbers)


def released_state(after: RiskAfter, table_after: ContingencyTable, threshold: float) -> ReleasedState:
    """The released file: of each record that is alone in it the risk, and how many records share their cell."""
    edges = np.linspace(0.0, 1.0, 11)
    stayed = after.unique_probability[after.counts == 1]
    # A swapped record is judged by the highest chance of being linked, whatever counts as near.
    risks = np.concatenate([stayed, after.swapped_highest[after.swapped_highest > 0.0]])
    n_other = max(0, after.n_sample_uniques - len(risks))
    counts = np.histogram(risks, edges)[0]
    counts[0] += n_other
    return ReleasedState(
        sample_uniques=after.n_sample_uniques,
        records_above_threshold=int((risks >= threshold).sum()),
        edges=tuple(edges.round(1).tolist()),
        counts=tuple(int(n) for n in counts),
        k_anonymity={str(k): n for k, n in k_anonymity(table_after).items()},
    )
