"""What of a protection may be shown to outsiders?

Little, and nothing exact. Of few swaps only that there were few: whatever else is said about them helps to find them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rarecell.outcome.formal import FormalSummary
from rarecell.outcome.released import ReleasedState
from rarecell.outcome.swap import (
    FrontierSummary,
    IntruderSummary,
    NotSwapped,
    RiskNumbers,
    SuppressionSummary,
    SwapSummary,
)
from rarecell.report.hiding import FEW, HIDDEN, HIDDEN_FEW, NOT_SHOWN, SMALLEST_COUNT, is_small, rough_shown, shown
from rarecell.report.rounding import rough_change, rough_count, rough_interval, rough_up

POSSIBILITY = (
    "Combinations of values that look impossible may occur in the release: a rule that kept them out would void the guarantee."
)
"""Replaces what the internal edition says about such combinations in a formal release."""


def few_changes(swap: SwapSummary | None) -> bool:
    """Whether so little was changed that it could be found by comparing numbers of the original with the released file."""
    if swap is None:
        return False
    changed = swap.swapped if swap.formal is None else swap.formal.records_changed
    return not isinstance(changed, int) or changed < FEW


def blanked_values(swap: SwapSummary | None) -> SuppressionSummary | None:
    """That values were blanked, without how many; the file shows the rest."""
    if swap is None or swap.suppression is None or swap.suppression.values == 0:
        return None
    return SuppressionSummary(records=NOT_SHOWN, values=NOT_SHOWN, sentence="Some values were blanked.")


def _formal(swap: SwapSummary, formal: FormalSummary) -> SwapSummary:
    """What a formal release actually did stays inside; only the risk and what follows from invariants goes out."""
    return SwapSummary(
        requested=shown(swap.requested),
        swapped=NOT_SHOWN,
        values_changed=NOT_SHOWN,
        risk_before=_expectations(swap.risk_before),
        risk_after=_expectations(swap.risk_after),
        margins_identical=swap.margins_identical,
        keeps_model=swap.keeps_model,
        intruders=_expected_of(swap.intruders),
        margins=swap.margins,
        formal=replace(formal, records_changed=None, uniques_changed=None, possibility=formal.possibility and POSSIBILITY),
    )


def external_swap(swap: SwapSummary) -> SwapSummary:
    if swap.formal is not None:
        return _formal(swap, swap.formal)
    if few_changes(swap) or not isinstance(swap.swapped, int) or not isinstance(swap.values_changed, int):
        return SwapSummary(
            requested=HIDDEN_FEW if isinstance(swap.requested, int) and swap.requested < FEW else rough_shown(swap.requested),
            swapped=HIDDEN_FEW,
            values_changed=NOT_SHOWN,
            risk_before=_expectations(swap.risk_before, of_highest=1),
            risk_after=_expectations(swap.risk_after, of_highest=1),
            intruders=_expected_of(swap.intruders),
            margins_identical=swap.margins_identical,
            keeps_model=swap.keeps_model,
            margins=swap.margins,
            suppression=blanked_values(swap),
            released=swap.released and _released(swap.released),
        )
    # A number of swapped records close to the number requested would reveal that few were not swapped.
    hides_failures = isinstance(swap.requested, int) and swap.requested - swap.swapped < SMALLEST_COUNT
    return SwapSummary(
        requested=rough_shown(swap.requested),
        swapped=f"all but {HIDDEN}" if hides_failures else rough_shown(swap.swapped),
        not_swapped=() if hides_failures else _merged_reasons(swap.not_swapped),
        values_changed=rough_shown(swap.values_changed),
        share_changed=None if swap.share_changed is None else rough_up(swap.share_changed, 1),
        # How far values moved would help to undo the swaps.
        mean_distance=None,
        first_found_mean_distance=None,
        risk_before=_expectations(swap.risk_before),
        risk_after=_expectations(swap.risk_after),
        intruders=_expected_of(swap.intruders),
        exposed=None if swap.exposed is None else rough_shown(swap.exposed),
        margins_identical=swap.margins_identical,
        keeps_model=swap.keeps_model,
        margins=swap.margins,
        hellinger={
            order: replace(part, mean=rough_up(part.mean, 1), max=rough_up(part.max, 1)) for order, part in swap.hellinger.items()
        },
        pmse=None if swap.pmse is None else rough_up(swap.pmse, 1),
        pmse_ratio=None if swap.pmse_ratio is None else rough_up(swap.pmse_ratio),
        associations=tuple(
            replace(row, before=rough_change(row.before), after=rough_change(row.after), moved=None)
            for row in swap.associations
            if row.moved is not None and row.moved >= FEW
        ),
        frontier=_frontier(swap.frontier),
        suppression=blanked_values(swap),
        released=swap.released and _released(swap.released),
    )


def _released(state: ReleasedState) -> ReleasedState:
    """How many records are unique in the released file, which anybody can count there, and how sure the estimates are."""
    return ReleasedState(
        sample_uniques=shown(state.sample_uniques),
        interval=_rough_ends(state.interval),
        interval_correct_matches=_rough_ends(state.interval_correct_matches),
    )


def _expected_of(intruders: Sequence[IntruderSummary]) -> tuple[IntruderSummary, ...]:
    """Intruders whose numbers are expected under the model; what a participant finds is a count of records of the file."""
    return tuple(
        replace(
            one,
            before=rough_up(one.before),
            after=rough_up(one.after),
            interval_before=_rough_ends(one.interval_before),
            interval_after=_rough_ends(one.interval_after),
            swapped=None,
            true_before=None,
            true_after=None,
            estimated_before=None,
            estimated_after=None,
        )
        for one in intruders
        if one.name != "participant"
    )


def _rough_ends(ends: tuple[float, ...]) -> tuple[float, ...]:
    return rough_interval((ends[0], ends[1])) if len(ends) == 2 else ()


def _frontier(points: Sequence[FrontierSummary]) -> tuple[FrontierSummary, ...]:
    """One point for each rounded number of values, without the first few swaps."""
    made = {
        rough_count(point.values_changed): replace(
            point,
            values_changed=rough_count(point.values_changed),
            expected_population_uniques=rough_up(point.expected_population_uniques),
            expected_correct_matches=None,
            highest=None,
        )
        for point in points
        if point.values_changed == 0 or point.values_changed >= 2 * FEW
    }
    return tuple(made.values())


def _expectations(risk: RiskNumbers, of_highest: int = 2) -> RiskNumbers:
    """Expected numbers, and the highest risk to ``of_highest`` digits."""
    return RiskNumbers(
        expected_population_uniques=rough_up(risk.expected_population_uniques),
        expected_correct_matches=rough_up(risk.expected_correct_matches),
        highest=min(1.0, rough_up(risk.highest, of_highest)),
    )


def _merged_reasons(reasons: Sequence[NotSwapped]) -> tuple[NotSwapped, ...]:
    """Merge reasons with few records into one line, adding a further reason if that line would itself be small."""
    kept = sorted(reasons, key=lambda reason: -reason.records)
    other = 0
    while kept and (is_small(kept[-1].records) or is_small(other)):
        other += kept.pop().records
    exact = (*kept, NotSwapped(reason="other reasons", records=other)) if other else tuple(kept)
    return tuple(replace(reason, records=rough_count(reason.records)) for reason in exact if not is_small(reason.records))
