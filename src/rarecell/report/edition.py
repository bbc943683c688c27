"""What may be shown to people outside?

The external edition is made from the same summary as the internal one by keeping only parts that are known to be
harmless: no value of any record, no free text, and no count of one or two, neither shown nor left to be worked out by
subtraction. Anything this module does not know is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rarecell.report.tables import LARGEST_SIZE_SHOWN

SMALLEST_COUNT = 3
"""Counts below this, except zero, do not leave the house."""

HIDDEN = f"fewer than {SMALLEST_COUNT}"
"""What is written instead of a small count."""


_EXPECTATIONS = ("expected_population_uniques", "expected_correct_matches", "highest")


def is_small(count: object) -> bool:
    return isinstance(count, int) and not isinstance(count, bool) and 0 < count < SMALLEST_COUNT


def shown(count: Any) -> Any:
    """The count, or words when it is small."""
    return HIDDEN if is_small(count) else count


def external(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a summary that may be shown outside."""
    made: dict[str, Any] = _picked(summary, ("rarecell", "population", "sampling_fraction"))
    for name in ("records", "records_dropped"):
        if name in summary:
            made[name] = shown(summary[name])
    if "missing" in summary:
        records = summary["missing"].get("records", {})
        made["missing"] = {"policy": summary["missing"].get("policy"), "records": {key: shown(n) for key, n in records.items()}}
    made["keys"] = [
        _picked(key, ("name", "levels", "ordered", "coarsenings")) | {"missing_records": shown(key.get("missing_records"))}
        for key in summary.get("keys", ())
    ]
    if "cells" in summary:
        made["cells"] = _picked(summary["cells"], ("formal", "occupied"))
        if "size_indices" in summary["cells"]:
            made["cells"]["size_indices"] = _merged_sizes(summary["cells"]["size_indices"])
    if "model" in summary:
        made["model"] = dict(summary["model"])
    if "risk" in summary:
        made["risk"] = _risk(summary["risk"])
    if "truth" in summary:
        made["truth"] = {name: shown(value) for name, value in summary["truth"].items()}
    if "swap" in summary:
        made["swap"] = _swap(summary["swap"])
    return made


def _picked(part: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: part[name] for name in names if name in part}


def _risk(risk: Mapping[str, Any]) -> dict[str, Any]:
    made = _picked(
        risk,
        (
            "expected_population_uniques",
            "expected_correct_matches",
            "interval",
            "estimators",
            "threshold",
            "model_describe",
            "interval_correct_matches",
            "interval_basis",
            "key_contributions",
        ),
    )
    made["estimator_details"] = [
        _picked(row, ("name", "expected_population_uniques", "converged", "assumes")) for row in risk.get("estimator_details", ())
    ]
    made["key_costs"] = [_key_cost(cost) for cost in risk.get("key_costs", ())]
    for name in ("sample_uniques", "records_above_threshold"):
        if name in risk:
            made[name] = shown(risk[name])
    if "swappable_uniques" in risk and not is_small(risk.get("sample_uniques", 0) - risk["swappable_uniques"]):
        made["swappable_uniques"] = shown(risk["swappable_uniques"])
    if "cell_probability_decades" in risk:
        made["cell_probability_decades"] = merged_decades(risk["cell_probability_decades"])
    if "histogram" in risk:
        made["histogram"] = _merged_histogram(risk["histogram"])
        above = _totals_from_above(made["histogram"]["counts"])
        if any(is_small(abs(risk.get("records_above_threshold", 0) - n)) for n in above):
            made.pop("records_above_threshold", None)
    if "k_anonymity" in risk:
        made["k_anonymity"] = _cumulative(risk["k_anonymity"])
    if "unsafe_combinations" in risk:
        listed = risk["unsafe_combinations"]
        made["unsafe_combinations"] = [row for row in listed if row["records"] >= SMALLEST_COUNT]
        made["unsafe_combinations_left_out"] = len(listed) - len(made["unsafe_combinations"])
    if "diagnostics" in risk:
        made["diagnostics"] = _picked(risk["diagnostics"], ("sentence", "statistics"))
        rows = risk["diagnostics"].get("size_indices", ())
        made["diagnostics"]["size_indices"] = [row for row in rows if not is_small(row.get("observed"))]
    if "household" in risk:
        made["household"] = {name: shown(value) for name, value in risk["household"].items() if isinstance(value, int | float)}
    return made


def _key_cost(cost: Mapping[str, Any]) -> dict[str, Any]:
    """Expectations only, without the numbers of sample uniques beside them."""
    steps = [_picked(step, ("name", "levels", "expected_population_uniques")) for step in cost.get("coarsened", ())]
    return _picked(cost, ("key", "without")) | {"coarsened": steps}


def _swap(swap: Mapping[str, Any]) -> dict[str, Any]:
    made = _picked(
        swap,
        (
            "share_changed",
            "mean_distance",
            "margins_identical",
            "hellinger",
            "pmse",
            "pmse_ratio",
            "associations",
            "first_found_mean_distance",
            "margins",
        ),
    )
    for name in ("risk_before", "risk_after"):
        if name in swap:
            made[name] = _picked(swap[name], _EXPECTATIONS)
    made["frontier"] = [
        _picked(point, ("values_changed", *_EXPECTATIONS))
        for point in swap.get("frontier", ())
        if not is_small(point.get("values_changed"))
    ]
    for name in ("requested", "values_changed"):
        if name in swap:
            made[name] = shown(swap[name])
    # A number of swapped records close to the number asked for would give the few that were not swapped away.
    failed = swap.get("requested", 0) - swap.get("swapped", 0)
    if is_small(failed):
        made["swapped"] = f"all but {HIDDEN}"
        made["not_swapped"] = []
    else:
        made["swapped"] = shown(swap.get("swapped"))
        made["not_swapped"] = _merged_reasons(swap.get("not_swapped", ()))
    return made


def _merged_reasons(reasons: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Reasons with few records in one line, which takes a further reason along when it would itself be small."""
    kept = sorted((dict(reason) for reason in reasons), key=lambda reason: -reason["records"])
    other = 0
    while kept and (is_small(kept[-1]["records"]) or is_small(other)):
        other += kept.pop()["records"]
    return [*kept, {"reason": "other reasons", "records": other}] if other else kept


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


def merged_decades(decades: Mapping[str, int]) -> list[tuple[str, int]]:
    """Decades of cell probability, commonest first, as pairs of a label and a count."""
    from rarecell.report.charts import power_of_ten

    ordered = sorted(decades.items(), key=lambda item: -int(item[0]))
    labels = [power_of_ten(exponent) for exponent, _ in ordered]
    return [
        (labels[first] if first == last else f"{labels[first]}–{labels[last]}", shown(n))
        for first, last, n in merged_counts([n for _, n in ordered])
    ]


def _merged_histogram(histogram: Mapping[str, Any]) -> dict[str, Any]:
    groups = merged_counts(histogram["counts"])
    edges = [histogram["edges"][first] for first, _, _ in groups] + [histogram["edges"][-1]]
    return {"edges": edges, "counts": [shown(n) for _, _, n in groups]}


def _totals_from_above(counts: Sequence[Any]) -> list[int]:
    """Records in the last class, in the last two, and so on."""
    totals, total = [0], 0
    for n in reversed(counts):
        total += n if isinstance(n, int) else 0
        totals.append(total)
    return totals


def _merged_sizes(sizes: Mapping[str, int]) -> dict[str, Any]:
    """Cells by size, larger sizes in one line; the keys are words."""
    ordered = sorted(((int(size), n) for size, n in sizes.items()))
    small = [(str(size), n) for size, n in ordered if size <= LARGEST_SIZE_SHOWN]
    large = sum(n for size, n in ordered if size > LARGEST_SIZE_SHOWN)
    rows = [*small, (f"{LARGEST_SIZE_SHOWN + 1} or more", large)] if large else small
    merged = merged_counts([n for _, n in rows])
    return {rows[a][0] if a == b else f"{rows[a][0]} to {rows[b][0]}": shown(n) for a, b, n in merged}


def _cumulative(counts: Mapping[str, int]) -> dict[str, Any]:
    """Numbers of records in cells below each size, without those that differ by few from the one before."""
    ordered = sorted(((int(k), n) for k, n in counts.items()))
    made: dict[str, Any] = {}
    last = 0
    for k, n in ordered:
        if not is_small(n - last):
            made[str(k)] = shown(n)
            last = n
    return made
