"""What does the summary of a run say about the values that changed places?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rarecell._kernels.distance import distances
from rarecell.intruder.nearest import MovedLinks
from rarecell.intruder.residual_risk import RiskAfter, risk_after
from rarecell.outcome.swap import FrontierSummary, MarginDistances, NotSwapped, RiskNumbers, SwapSummary
from rarecell.release.utility import MarginDistance, utility
from rarecell.swap.partners import PartnerSearch
from rarecell.table.columns import ColumnValues, CrossedColumn

if TYPE_CHECKING:
    from rarecell.release.release import Release
    from rarecell.risk.records import RecordRisk
    from rarecell.swap.plan import SwapPlan


def swap_summary(
    plan: SwapPlan,
    risk: RecordRisk,
    *,
    columns: Mapping[str, ColumnValues | CrossedColumn] | None = None,
    margins_identical: bool = True,
    frontier: Sequence[FrontierSummary] = (),
    first_found_distance: float | None = None,
    links: MovedLinks | None = None,
) -> SwapSummary:
    """Make the ``swap`` part of ``summary.json``: what was done, the risk before and after, and the loss of utility.

    Parameters
    ----------
    plan : SwapPlan
        The plan.
    risk : RecordRisk
        Risk before the plan.
    columns : mapping of str to ColumnValues or CrossedColumn, optional
        Columns outside the keys whose association with the keys is to be reported.
    margins_identical : bool, optional
        Result of the comparison of margins.
    frontier : sequence of FrontierSummary, optional
        Points of :func:`rarecell.swap.target.frontier`.
    first_found_distance : float, optional
        Result of :func:`first_found_distance`, for comparison.
    links : MovedLinks, optional
        What an intruder who links to the nearest person finds of the swapped records; computed if not given.

    Returns
    -------
    SwapSummary
        The numbers of the summary.
    """
    of_moved = links or plan.links(plan.task.register_of(risk))
    return replace(
        release_summary(plan.release, risk, of_moved, columns=columns, margins_identical=margins_identical),
        requested=len(plan.requested),
        swapped=plan.n_protected,
        pairs=len(plan),
        not_swapped=tuple(NotSwapped(reason=reason, records=n) for reason, n in plan.reasons.items()),
        decoys=plan.n_decoys or None if plan.task.decoys > 0.0 else None,
        mean_distance=float(plan.distance.mean()) if len(plan) else 0.0,
        first_found_mean_distance=first_found_distance,
        frontier=tuple(frontier),
    )


def release_summary(
    release: Release,
    risk: RecordRisk,
    links: MovedLinks,
    *,
    columns: Mapping[str, ColumnValues | CrossedColumn] | None = None,
    margins_identical: bool = True,
) -> SwapSummary:
    """Summarise any release: the risk before and after, and the loss of utility. Any record may have changed.

    Parameters
    ----------
    release : Release
        What was done to the records.
    risk : RecordRisk
        Risk before.
    links : MovedLinks
        What an intruder who links to the nearest person finds of the changed records.
    columns : mapping of str to ColumnValues or CrossedColumn, optional
        As for :func:`swap_summary`.
    margins_identical : bool, optional
        As for :func:`swap_summary`.

    Returns
    -------
    SwapSummary
        The numbers of the summary.
    """
    cost = utility(release, columns)
    after = risk_after(risk, release, links)
    return SwapSummary(
        requested=release.before.n_records,
        swapped=len(release),
        values_changed=cost.values_changed,
        share_changed=cost.share_changed,
        uniques_vacated=after.n_vacated,
        uniques_created=after.n_created,
        risk_before=_risk_numbers(risk),
        risk_after=replace(
            _risk_numbers(after),
            highest_match=max(
                float(after.match_probability.max(initial=0.0)),
                float(after.swapped_highest.max(initial=0.0)),
                # Records that share their values were not swapped, and are as easy to match as before.
                float(risk.match_probability[risk.sample_count > 1].max(initial=0.0)),
            ),
        ),
        margins_identical=margins_identical,
        hellinger={str(order): _spread(distances) for order, distances in cost.hellinger.items()},
        pmse=cost.pairs_propensity.pmse,
        pmse_ratio=cost.pairs_propensity.ratio,
        pmse_all_interactions=cost.full_propensity.pmse,
        associations=cost.associations,
    )


def _spread(distances: Sequence[MarginDistance]) -> MarginDistances:
    each = [distance.hellinger for distance in distances]
    return MarginDistances(mean=float(np.mean(each)) if each else 0.0, max=max(each, default=0.0))


def first_found_distance(plan: SwapPlan) -> float:
    """Compute the mean distance of swapping without a plan: each protected record takes the first partner it meets.

    The file is taken in random order. Margins, constraints and distances are those of the plan.
    """
    if not len(plan):
        return 0.0
    search = PartnerSearch(plan.task)
    risky = search.units.unit_of(plan.records)
    partner, moved = search.first_partners(risky)
    has = partner >= 0
    pairs = np.stack([risky[has], partner[has]], axis=1)
    return float(distances(search.distances.arrays(plan.table), search.units.codes, pairs, moved[has]).mean())


def _risk_numbers(risk: RecordRisk | RiskAfter) -> RiskNumbers:
    return RiskNumbers(
        expected_population_uniques=float(risk.expected_population_uniques),
        expected_correct_matches=float(risk.expected_correct_matches),
        sample_uniques=int(risk.n_sample_uniques),
        highest=risk.highest if isinstance(risk, RiskAfter) else float(risk.unique_probability.max(initial=0.0)),
        highest_match=float(risk.match_probability.max(initial=0.0)),
    )
