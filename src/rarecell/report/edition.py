"""What may be shown to people outside?

The external edition is made from the same summary as the internal one by keeping only parts that are known to be
harmless: no value of any record, no free text, and no count of one or two, neither shown nor left to be worked out by
subtraction. Anything this module does not know is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rarecell.outcome.formal import FormalSummary
from rarecell.outcome.summary import (
    Cells,
    Count,
    FitSummary,
    Histogram,
    HouseholdRisk,
    KeyCostSummary,
    Missing,
    RiskSummary,
    RunSummary,
)
from rarecell.outcome.swap import IntruderSummary, NotSwapped, RiskNumbers, SwapSummary
from rarecell.outcome.words import decade
from rarecell.report.tables import LARGEST_SIZE_SHOWN

SMALLEST_COUNT = 3
"""Counts below this, except zero, are not shown outside."""

HIDDEN = f"fewer than {SMALLEST_COUNT}"

NOT_SHOWN = "not shown"
"""What is written instead of a small count."""


def is_small(count: object) -> bool:
    return isinstance(count, int) and not isinstance(count, bool) and 0 < count < SMALLEST_COUNT


def shown(count: Count) -> Count:
    """The count, or words when it is small."""
    return HIDDEN if is_small(count) else count


def external(summary: RunSummary) -> RunSummary:
    """The part of a summary that may be shown outside.

    It is built field by field, so that a part which this module does not know is left out.
    """
    return RunSummary(
        rarecell=summary.rarecell,
        records=shown(summary.records),
        population=summary.population,
        sampling_fraction=summary.sampling_fraction,
        records_dropped=shown(summary.records_dropped),
        missing=Missing(policy=summary.missing.policy, records={key: shown(n) for key, n in summary.missing.records.items()}),
        keys=tuple(replace(key, missing_records=shown(key.missing_records)) for key in summary.keys),
        cells=Cells(
            formal=summary.cells.formal,
            occupied=summary.cells.occupied,
            size_indices=_merged_sizes(summary.cells.size_indices),
        ),
        model=summary.model,
        risk=_risk(summary.risk),
        truth=summary.truth and replace(summary.truth, population_uniques=shown(summary.truth.population_uniques), sentence=""),
        swap=summary.swap and _swap(summary.swap),
    )


def _risk(risk: RiskSummary) -> RiskSummary:
    histogram = _merged_histogram(risk.histogram)
    unsafe = tuple(row for row in risk.unsafe_combinations if row.records >= SMALLEST_COUNT)
    return RiskSummary(
        sample_uniques=shown(risk.sample_uniques),
        expected_population_uniques=risk.expected_population_uniques,
        expected_correct_matches=risk.expected_correct_matches,
        interval=risk.interval,
        interval_correct_matches=risk.interval_correct_matches,
        interval_basis=risk.interval_basis,
        threshold=risk.threshold,
        records_above_threshold=_above_threshold(risk, histogram),
        histogram=histogram,
        cell_probability_decades=merged_decades(risk.cell_probability_decades),
        model_describe=risk.model_describe,
        swappable_uniques=_swappable(risk),
        estimators=risk.estimators,
        estimator_details=tuple(replace(row, parameters={}, message="") for row in risk.estimator_details),
        diagnostics=risk.diagnostics and _fit(risk.diagnostics),
        k_anonymity=_cumulative(risk.k_anonymity),
        key_costs=tuple(_key_cost(cost) for cost in risk.key_costs),
        unsafe_combinations=unsafe,
        unsafe_combinations_left_out=len(risk.unsafe_combinations) - len(unsafe),
        key_contributions=risk.key_contributions,
        household=risk.household and _household(risk.household),
        design=risk.design,
        reliability=risk.reliability and replace(risk.reliability, reasons=(), sentence=""),
    )


def _above_threshold(risk: RiskSummary, histogram: Histogram) -> Count | None:
    """Left out where a class of the histogram would give a small count by subtraction."""
    above = risk.records_above_threshold
    if not isinstance(above, int) or any(is_small(abs(above - n)) for n in _totals_from_above(histogram.counts)):
        return None
    return shown(above)


def _swappable(risk: RiskSummary) -> Count | None:
    uniques, swappable = risk.sample_uniques, risk.swappable_uniques
    if not isinstance(uniques, int) or not isinstance(swappable, int) or is_small(uniques - swappable):
        return None
    return shown(swappable)


def _fit(fit: FitSummary) -> FitSummary:
    return replace(fit, size_indices=tuple(row for row in fit.size_indices if not is_small(row.observed)))


def _household(household: HouseholdRisk) -> HouseholdRisk:
    return replace(household, households=shown(household.households), above_threshold=shown(household.above_threshold))


def _key_cost(cost: KeyCostSummary) -> KeyCostSummary:
    """Expectations only, without the numbers of sample uniques beside them."""
    return replace(cost, coarsened=tuple(replace(step, sample_uniques=None) for step in cost.coarsened))


def _formal(swap: SwapSummary, formal: FormalSummary) -> SwapSummary:
    """What a formal release did stays inside: only what follows from invariants goes out, and the risk."""
    return SwapSummary(
        requested=shown(swap.requested),
        swapped=NOT_SHOWN,
        values_changed=NOT_SHOWN,
        risk_before=_expectations(swap.risk_before),
        risk_after=_expectations(swap.risk_after),
        margins_identical=swap.margins_identical,
        intruders=_expected_of(swap.intruders),
        margins=swap.margins,
        formal=replace(formal, records_changed=None, uniques_changed=None),
    )


def _swap(swap: SwapSummary) -> SwapSummary:
    if swap.formal is not None:
        return _formal(swap, swap.formal)
    # A number of swapped records close to the number asked for would give the few that were not swapped away.
    hides_failures = isinstance(swap.requested, int) and isinstance(swap.swapped, int) and is_small(swap.requested - swap.swapped)
    return SwapSummary(
        requested=shown(swap.requested),
        swapped=f"all but {HIDDEN}" if hides_failures else shown(swap.swapped),
        not_swapped=() if hides_failures else _merged_reasons(swap.not_swapped),
        values_changed=shown(swap.values_changed),
        share_changed=swap.share_changed,
        mean_distance=swap.mean_distance,
        first_found_mean_distance=swap.first_found_mean_distance,
        risk_before=_expectations(swap.risk_before),
        risk_after=_expectations(swap.risk_after),
        intruders=_expected_of(swap.intruders),
        exposed=None if swap.exposed is None else shown(swap.exposed),
        margins_identical=swap.margins_identical,
        margins=swap.margins,
        hellinger=swap.hellinger,
        pmse=swap.pmse,
        pmse_ratio=swap.pmse_ratio,
        associations=swap.associations,
        frontier=tuple(point for point in swap.frontier if not is_small(point.values_changed)),
    )


def _expected_of(intruders: Sequence[IntruderSummary]) -> tuple[IntruderSummary, ...]:
    """Those whose numbers are expectations by the model; what a participant finds is a count of records of the file."""
    return tuple(replace(one, swapped=None, true_before=None, true_after=None) for one in intruders if one.name != "participant")


def _expectations(risk: RiskNumbers) -> RiskNumbers:
    return replace(risk, sample_uniques=None)


def _merged_reasons(reasons: Sequence[NotSwapped]) -> tuple[NotSwapped, ...]:
    """Reasons with few records in one line, which takes a further reason along when it would itself be small."""
    kept = sorted(reasons, key=lambda reason: -reason.records)
    other = 0
    while kept and (is_small(kept[-1].records) or is_small(other)):
        other += kept.pop().records
    return (*kept, NotSwapped(reason="other reasons", records=other)) if other else tuple(kept)


def merged_counts(counts: Sequence[int]) -> list[tuple[int, int, int]]:
    """Neighbouring classes joined until none has a small count: (first class, last class, count) of each group.

    A class with no records may stand alone; a small one takes its neighbour on the right along, the last its left one.
    """
    groups: list[tuple[int, int, int]] = []
    first, total = 0, 0
    for place, n in enumerate(counts):
        total += n
        if not is_small(total):
            groups.append((first, place, total))
            first, total = place + 1, 0
    while is_small(total) and groups:
        first, _, before = groups.pop()
        total += before
    if first < len(counts):
        groups.append((first, len(counts) - 1, total))
    return groups


def merged_decades(decades: Mapping[str, Count]) -> dict[str, Count]:
    """Decades of cell probability, commonest first, by what they are called."""
    ordered = sorted(decades.items(), key=lambda item: -int(item[0]))
    labels = [decade(exponent) for exponent, _ in ordered]
    return {
        labels[first] if first == last else f"{labels[first]}–{labels[last]}": shown(n)
        for first, last, n in merged_counts(_whole(n for _, n in ordered))
    }


def _whole(counts: Iterable[Count]) -> list[int]:
    """Counts of a summary in which nothing is hidden yet."""
    return [int(n) for n in counts]


def _merged_histogram(histogram: Histogram) -> Histogram:
    groups = merged_counts(_whole(histogram.counts))
    edges = (*(histogram.edges[first] for first, _, _ in groups), histogram.edges[-1])
    return Histogram(edges=edges, counts=tuple(shown(n) for _, _, n in groups))


def _totals_from_above(counts: Sequence[Count]) -> list[int]:
    """Records in the last class, in the last two, and so on."""
    totals, total = [0], 0
    for n in reversed(counts):
        total += n if isinstance(n, int) else 0
        totals.append(total)
    return totals


def _merged_sizes(sizes: Mapping[str, Count]) -> dict[str, Count]:
    """Cells by size, larger sizes in one line; the keys are words."""
    ordered = sorted((int(size), int(n)) for size, n in sizes.items())
    small = [(str(size), n) for size, n in ordered if size <= LARGEST_SIZE_SHOWN]
    large = sum(n for size, n in ordered if size > LARGEST_SIZE_SHOWN)
    rows = [*small, (f"{LARGEST_SIZE_SHOWN + 1} or more", large)] if large else small
    merged = merged_counts([n for _, n in rows])
    return {rows[a][0] if a == b else f"{rows[a][0]} to {rows[b][0]}": shown(n) for a, b, n in merged}


def _cumulative(counts: Mapping[str, Count]) -> dict[str, Count]:
    """Numbers of records in cells below each size, without those that differ by few from the one before."""
    made: dict[str, Count] = {}
    last = 0
    for k, n in sorted((int(k), int(n)) for k, n in counts.items()):
        if not is_small(n - last):
            made[str(k)] = shown(n)
            last = n
    return made
