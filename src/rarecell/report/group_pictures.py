"""Who is at risk? Pictures of the groups of every key and every column with a role, before and after protection."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rarecell.outcome.released import GroupRisk
from rarecell.outcome.summary import RunSummary
from rarecell.outcome.words import counted, expected, number, percent, verb
from rarecell.report.charts import group_risk
from rarecell.report.drawing import Chart
from rarecell.report.picture import Picture

MOST_GROUPS = 15
"""Most groups of a column that a picture shows."""


def group_pictures(summary: RunSummary) -> list[tuple[str, Picture]]:
    """Draw a picture for every column whose groups are reported, starting with the column of the riskiest group."""
    found = []
    for column, of_column in groupby(summary.groups, key=lambda group: group.key):
        groups = sorted(of_column, key=lambda group: -group.expected_population_uniques)
        if len(groups) > 1 and groups[0].expected_population_uniques > 0.0:
            found.append((max(_share(group) for group in groups), column, groups))
    in_order = sorted(found, key=lambda one: -one[0])
    return [(column, _picture(column, groups, place)) for place, (_, column, groups) in enumerate(in_order)]


def _share(group: GroupRisk) -> float:
    return group.expected_population_uniques / group.records if group.records else 0.0


def _picture(column: str, groups: Sequence[GroupRisk], place: int) -> Picture:
    has_after = groups[0].expected_population_uniques_after is not None
    rows = [
        {
            "level": group.level,
            "records": group.records,
            "before": group.expected_population_uniques,
            "after": group.expected_population_uniques_after,
        }
        for group in groups[:MOST_GROUPS]
    ]
    chart: Chart = group_risk(rows)
    riskiest = max(groups, key=_share)
    svg = chart.svg(
        name=f"groups-{place}",
        title=f"Expected population uniques by {column}",
        description=f"A line for each group of {column}, the riskiest first; the table of groups has the numbers.",
    )
    return Picture(svg, _caption(column, groups, riskiest, has_after))


def _caption(column: str, groups: Sequence[GroupRisk], riskiest: GroupRisk, has_after: bool) -> str:
    said = (
        f"The riskiest group of {column} for its size is {riskiest.level}: {expected(riskiest.expected_population_uniques)} of "
        f"{counted(riskiest.records, 'record')}, {percent(_share(riskiest))}, could be recognised"
    )
    if has_after:
        swapped = (riskiest.swapped or 0) / riskiest.records if riskiest.records else 0.0
        said += f" before protection and {expected(riskiest.expected_population_uniques_after or 0.0)} after; {percent(swapped)} of it {verb(riskiest.swapped or 0, 'was', 'were')} swapped"
    left_out = len(groups) - MOST_GROUPS
    more = f" {number(left_out)} groups with less risk are left out of the picture." if left_out > 0 else ""
    return f"{said}.{more}"
