"""Who stays at risk after protection, why, and what helps?"""

from __future__ import annotations

from collections import Counter

from rarecell.outcome.records import RemainingRecord
from rarecell.outcome.swap import RemainingSummary
from rarecell.run.results import Assessment
from rarecell.swap.plan import SwapPlan
from rarecell.swap.reasons import remedy
from rarecell.swap.remaining import Remaining, remaining_records
from rarecell.swap.residual_risk import RiskAfter

MOST_LISTED = 10_000
"""At most this many of the records that stay at risk are listed one by one, riskiest first; all are counted."""


def left_at_risk(
    found: Assessment, plan: SwapPlan, after: RiskAfter
) -> tuple[tuple[RemainingSummary, ...], tuple[RemainingRecord, ...]]:
    """Count the records that stay at or above the run's threshold, by reason, and list them with their values."""
    remaining = remaining_records(plan, after, found.config.threshold)
    told = tuple(
        RemainingSummary(reason=reason, remedy=remedy(reason), records=n)
        for reason, n in Counter(remaining.reasons).most_common()
    )
    return told, _listed(found, plan, remaining)


def _listed(found: Assessment, plan: SwapPlan, remaining: Remaining) -> tuple[RemainingRecord, ...]:
    """List single records; for internal use only."""
    if not len(remaining):
        return ()
    rows, table = remaining.rows[:MOST_LISTED], plan.table
    if table.record_cell is None:
        # Use the same draw as the swaps: it decides which of two equal records was swapped.
        rows = found.data.drawn_records(table, rows, seed=plan.seed)[0]
    else:
        rows = found.data.source.places(rows)
    names = rows.to_pylist() if hasattr(rows, "to_pylist") else rows.tolist()
    labels = [c.labels for c in table.categories]
    return tuple(
        RemainingRecord(
            record=name,
            values={key: str(labels[k][code]) for k, (key, code) in enumerate(zip(table.keys, cell, strict=True))},
            risk=risk,
            swapped=is_swapped,
            reason=reason,
            remedy=remedy(reason),
        )
        for name, cell, risk, is_swapped, reason in zip(
            names,
            remaining.cells.tolist(),
            remaining.risk.tolist(),
            remaining.swapped.tolist(),
            remaining.reasons,
            strict=False,
        )
    )
