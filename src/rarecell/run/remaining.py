"""Who stays at risk after protection, why, and what helps?"""

from __future__ import annotations

from collections import Counter

import numpy as np

from rarecell.outcome.records import RemainingRecord
from rarecell.outcome.swap import RemainingSummary
from rarecell.run.results import Assessment
from rarecell.swap.plan import SwapPlan
from rarecell.swap.reasons import remedy
from rarecell.swap.remaining import Remaining, remaining_records
from rarecell.swap.residual_risk import RiskAfter

MOST_LISTED = 10_000
"""At most this many of the records that stay at risk are listed one by one, riskiest first; all are counted."""

LEAST_LISTED = 20
"""This many of the riskiest records of the released file are listed even where fewer, or none, stay at risk."""


def left_at_risk(
    found: Assessment, plan: SwapPlan, after: RiskAfter
) -> tuple[tuple[RemainingSummary, ...], tuple[RemainingRecord, ...]]:
    """Count the records that stay at or above the run's threshold, by reason, and list the riskiest with their values.

    All that stay at risk are listed, and where they are few others after them.
    """
    everyone = np.concatenate([after.unique_probability, after.swapped_highest])
    n_above = max(len(everyone) - LEAST_LISTED, 0)
    least = float(np.partition(everyone, n_above)[n_above]) if len(everyone) else 0.0
    ordered = remaining_records(plan, after, min(found.config.threshold, least))
    n_at_risk = int((ordered.risk >= found.config.threshold).sum())
    told = tuple(
        RemainingSummary(reason=reason, remedy=remedy(reason), records=n)
        for reason, n in Counter(ordered.reasons[:n_at_risk]).most_common()
    )
    return told, _listed(found, plan, ordered, n_at_risk)


def _listed(found: Assessment, plan: SwapPlan, ordered: Remaining, n_at_risk: int) -> tuple[RemainingRecord, ...]:
    """List single records, riskiest first; for internal use only."""
    n_listed = min(max(n_at_risk, LEAST_LISTED), MOST_LISTED, len(ordered))
    if not n_listed:
        return ()
    rows, table = ordered.rows[:n_listed], plan.table
    if table.record_cell is None:
        # Use the same draw as the swaps: it decides which of two equal records was swapped.
        rows = found.data.drawn_records(table, rows, seed=plan.seed)[0]
    else:
        rows = found.data.source.places(rows)
    names = rows.to_pylist() if hasattr(rows, "to_pylist") else rows.tolist()
    labels = [c.labels for c in table.categories]
    listed = []
    for place, (name, cell) in enumerate(zip(names, ordered.cells[:n_listed].tolist(), strict=True)):
        reason = ordered.reasons[place] if place < n_at_risk else ""
        listed.append(
            RemainingRecord(
                record=name,
                values={key: str(labels[k][code]) for k, (key, code) in enumerate(zip(table.keys, cell, strict=True))},
                risk=float(ordered.risk[place]),
                swapped=bool(ordered.swapped[place]),
                is_at_risk=place < n_at_risk,
                reason=reason,
                remedy=remedy(reason) if reason else "",
            )
        )
    return tuple(listed)
