"""What does a person at a terminal see of areas, sensitive columns, several intruders and a register?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rarecell.outcome.summary import RiskSummary
from rarecell.outcome.swap import SwapSummary
from rarecell.outcome.words import counted, number, percent

Rows = Callable[..., None]
"""Prints a table: title, headers, lines."""


def show_roles(risk: RiskSummary, rows: Rows, say: Callable[[str], None]) -> None:
    """Print what the roles of the columns add to the risk, as far as the run names them."""
    _show_areas(risk, rows, say)
    _show_scenarios(risk, rows)
    if risk.attributes:
        headers = ["column", "l", "entropy l", "t", "right from group", "right from file", "one-value groups", "records in them"]
        lines = [
            (
                one.column,
                str(one.l_diversity),
                number(one.entropy_l_diversity, 2),
                number(one.t_closeness, 3),
                number(one.right_from_groups),
                number(one.right_from_file),
                number(one.homogeneous_groups),
                number(one.records_in_homogeneous_groups),
            )
            for one in risk.attributes
        ]
        rows("Sensitive columns: what groups of look-alike records give away", headers, lines, right=range(1, 8))
    if risk.register is not None:
        say(risk.register.sentence)


def show_aftermath(swap: SwapSummary, rows: Rows, say: Callable[[str], None]) -> None:
    """Print what a protection did to places, intruders, weighted totals and groups."""
    if swap.places is not None:
        say(swap.places.sentence)
    if swap.carried:
        say(f"Columns that travelled with a swapped key: {', '.join(swap.carried)}.")
    if swap.earlier is not None:
        say(swap.earlier.sentence)
    for left in swap.left_behind:
        say(left.sentence)
    if swap.scenarios:
        lines = [
            (one.name, number(one.expected_population_uniques, 1), number(one.records_above_threshold)) for one in swap.scenarios
        ]
        rows("Scenarios after protection", ["intruder", "expected population uniques", "above threshold"], lines, right=(1, 2))
    for analysis in swap.analyses:
        terms = [
            (t.name, number(t.before, 3), number(t.after, 3), _bias(t.relative_bias), number(t.overlap, 2))
            for t in analysis.terms
        ]
        how = f"{analysis.kind}{', weighted' if analysis.weighted else ''}, {counted(analysis.records, 'record')}"
        headers = ["", "original", "protected", "relative bias", "overlap of intervals"]
        rows(f"{analysis.name}: {analysis.formula} ({how})", headers, terms, right=(1, 2, 3, 4))
    for table in swap.weighted:
        if table.changed:
            say(f"Weighted: {table.sentence}")
    if swap.affected:
        worst = swap.affected[0]
        say(
            f"Swaps fell most on {worst.column} {worst.level}: {worst.swapped:,} of {worst.records:,} records, {worst.ratio:.1f} times the "
            "share of the whole file."
        )


def _bias(share: float | None) -> str:
    """A signed change; a number that was zero before has none."""
    return "–" if share is None else percent(share).replace("-", "−")


def _show_areas(risk: RiskSummary, rows: Rows, say: Callable[[str], None]) -> None:
    if not risk.areas:
        return
    lines: Sequence[Sequence[str]] = [
        (
            level.column or "no area",
            number(len(level.areas)),
            number(level.sample_uniques),
            number(level.expected_population_uniques, 1),
            number(level.expected_correct_matches, 1),
            number(level.above_threshold),
            ", ".join(level.drivers),
        )
        for level in risk.areas
    ]
    headers = [
        "released with",
        "areas",
        "unique",
        "expected population uniques",
        "correct matches",
        "above threshold",
        "driven by",
    ]
    rows("Areas: the risk as if no finer level were released", headers, lines, right=range(1, 6))
    if risk.finest_safe_area is None:
        say("At no level of areas are all records below the threshold.")
    elif risk.finest_safe_area:
        say(f"The finest level at which all records are below the threshold: {risk.finest_safe_area}.")
    else:
        say("All records are below the threshold only without any area.")


def _show_scenarios(risk: RiskSummary, rows: Rows) -> None:
    if not risk.scenarios:
        return
    lines = [
        (
            one.name,
            ", ".join(one.keys),
            number(one.sample_uniques),
            number(one.expected_population_uniques, 1),
            number(one.expected_correct_matches, 1),
            number(one.records_above_threshold),
        )
        for one in risk.scenarios
    ]
    headers = ["intruder", "knows", "unique", "expected population uniques", "correct matches", "above threshold"]
    rows("Scenarios", headers, lines, right=range(2, 6))
