"""What do the numbers of a run look like?

Each function takes a part of ``summary.json`` and returns a :class:`~rarecell.report.svg.Chart`, which a notebook
shows as it is and whose ``svg`` is part of a page: no script, colours that follow the page's light or dark theme, and a
title and description for screen readers. Bars begin at zero; on a logarithmic axis, numbers are dots. Graphs are drawn by
:mod:`rarecell.report.graph_picture`.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

from rarecell.outcome.roles import AreaSummary, Concentration, GroupRisk
from rarecell.outcome.summary import KeyCostSummary, SizeIndex
from rarecell.outcome.swap import FrontierSummary
from rarecell.outcome.words import decade, expected, number
from rarecell.report.svg import (
    FONT_SIZE,
    WIDTH,
    Chart,
    Scale,
    height_axis,
    height_room,
    legend,
    text_width,
    value_axis,
)

_PLOT_HEIGHT = 200.0
_ROW = 46.0
_FOOT = 48.0


# ---------------------------------------------------------------------- numbers of classes


def cell_probability_decades(decades: Mapping[str, int] | Sequence[tuple[str, int]]) -> Chart:
    """Sample-unique records by the decade of their cell probability, most probable cells on the left.

    Takes ``risk.cell_probability_decades``, or pairs of a label and a count where neighbouring decades were merged.
    """
    ordered = sorted(decades.items(), key=lambda item: -int(item[0])) if isinstance(decades, Mapping) else decades
    rows = [(decade(label), n) for label, n in ordered]
    return _columns(rows, x_title="cell probability, from this power of ten up to the next", y_title="sample uniques")


def record_risk_histogram(
    edges: Sequence[float], counts: Sequence[int], *, threshold: float | None = None, before: Sequence[int] | None = None
) -> Chart:
    """Sample uniques by risk; bins from the threshold on are in the colour of risk.

    With ``before``, the numbers before protection are shown beside those after it.
    """
    labels = [f"{low:g}–{high:g}" for low, high in itertools.pairwise(edges)]
    if before is not None:
        return _paired_columns(labels, before, counts)
    at_risk = [threshold is not None and low >= threshold - 1e-9 for low in edges[:-1]]
    return _columns(
        list(zip(labels, counts, strict=True)), x_title="risk of the record", y_title="sample uniques", emphasised=at_risk
    )


def _columns(rows: Sequence[tuple[str, int]], *, x_title: str, y_title: str, emphasised: Sequence[bool] | None = None) -> Chart:
    """Labelled columns with their counts, or dots on a logarithmic axis if one column would dwarf the rest."""
    top, bottom = 34.0, 34.0 + _PLOT_HEIGHT
    chart = Chart(bottom + _FOOT)
    positive = [float(n) for _, n in rows if n > 0]
    scale = Scale.of(positive or [1.0], bottom, top, may_be_log=True, most_ratio=60.0)
    left = height_room(scale)
    height_axis(chart, scale, y_title, left=left, right=WIDTH)
    step = (WIDTH - left) / max(len(rows), 1)
    size = min(12.5, step / max(max(len(label) for label, _ in rows) * 0.6, 1)) if rows else 12.0
    for place, (label, n) in enumerate(rows):
        role = "risk" if emphasised and emphasised[place] else "accent"
        x = left + step * (place + 0.5)
        if not scale.is_log:
            chart.bar(x - 0.36 * step, scale(n), 0.72 * step, bottom - scale(n), role)
        elif n:
            chart.dot(x, scale(n), role)
        above = scale(n) - 8 if n or not scale.is_log else bottom - 8
        chart.text(x, above - (4 if scale.is_log else 0), number(n), anchor="middle", size=12)
        chart.text(x, bottom + 18, label, role="muted", anchor="middle", size=size)
    chart.line(left, bottom, WIDTH, bottom, "muted")
    chart.text((left + WIDTH) / 2, bottom + 40, x_title, role="muted", anchor="middle", size=13)
    return chart


def _paired_columns(labels: Sequence[str], before: Sequence[int], after: Sequence[int]) -> Chart:
    """Records of each class before and after, as pairs of columns or as dots on a logarithmic axis."""
    top, bottom = 62.0, 62.0 + _PLOT_HEIGHT
    chart = Chart(bottom + _FOOT)
    scale = Scale.of([float(n) for n in (*before, *after) if n > 0] or [1.0], bottom, top, may_be_log=True, most_ratio=60.0)
    left = height_room(scale)
    height_axis(chart, scale, "sample uniques", left=left, right=WIDTH)
    legend(chart, [("before", "soft", False), ("after", "accent", True)], y=38.0)
    step = (WIDTH - left) / max(len(labels), 1)
    for place, (label, old, new) in enumerate(zip(labels, before, after, strict=True)):
        x = left + step * (place + 0.5)
        for n, role, side in ((old, "soft", -1.0), (new, "accent", 1.0)):
            middle = x + side * 0.21 * step
            if not scale.is_log:
                chart.bar(middle - 0.19 * step, scale(n), 0.38 * step, bottom - scale(n), role)
            elif n:
                chart.dot(middle, scale(n), role, is_diamond=role == "accent", size=5)
            if n:
                chart.text(x + side * 2, scale(n) - 9, number(n), anchor="end" if side < 0 else "start", size=11)
        chart.text(x, bottom + 18, label, role="muted", anchor="middle", size=min(12.5, step / max(len(label) * 0.6, 1)))
    chart.line(left, bottom, WIDTH, bottom, "muted")
    chart.text((left + WIDTH) / 2, bottom + 40, "risk of the record", role="muted", anchor="middle", size=13)
    return chart


def size_indices(rows: Sequence[SizeIndex]) -> Chart:
    """Number of cells of each size, observed and expected under the model, as pairs of marks."""
    top, bottom = 62.0, 62.0 + _PLOT_HEIGHT
    chart = Chart(bottom + _FOOT)
    values = [float(cells) for row in rows for cells in (row.observed, row.expected) if cells > 0]
    scale = Scale.of(values or [1.0], bottom, top, may_be_log=True, most_ratio=20.0)
    left = height_room(scale)
    height_axis(chart, scale, "cells", left=left, right=WIDTH)
    legend(chart, [("observed", "accent", False), ("expected", "risk", True)], y=38.0)
    step = (WIDTH - left) / max(len(rows), 1)
    for place, row in enumerate(rows):
        x = left + step * (place + 0.5)
        observed, expected = (scale(max(float(cells), scale.low)) for cells in (row.observed, row.expected))
        chart.line(x, observed, x, expected, "line", width=3)
        chart.dot(x, observed, "accent")
        chart.dot(x, expected, "risk", is_diamond=True, size=5)
        chart.text(x, bottom + 18, str(row.size), role="muted", anchor="middle", size=12)
    chart.text((left + WIDTH) / 2, bottom + 40, "records in the cell", role="muted", anchor="middle", size=13)
    return chart


# ---------------------------------------------------------------------- numbers beside each other


def estimators(
    values: Mapping[str, float], *, interval: Sequence[float] | None = None, truth: float | None = None, main: str = "average"
) -> Chart:
    """Every estimate of the number of population uniques on one axis, with our interval, and the truth if known."""
    shown = [*values.values(), *(interval or []), *([truth] if truth is not None else [])]
    top = 26.0 if truth is not None else 6.0
    bottom = top + _ROW * len(values)
    chart = Chart(bottom + _FOOT)
    scale = Scale.of(shown, 10.0, WIDTH - 66.0, may_be_log=True)
    value_axis(chart, scale, "expected population uniques", top=top, bottom=bottom)
    if truth is not None:
        chart.line(scale(truth), top, scale(truth), bottom, "truth", width=1.5, dash="5 3")
        chart.text(scale(truth), top - 8, f"truth {expected(truth)}", role="truth", anchor="middle", is_bold=True)
    for place, (name, value) in enumerate(values.items()):
        y, role = top + _ROW * place, "accent" if name == main else "muted"
        chart.text(4, y + 15, name, role=role, is_bold=name == main)
        if interval is not None and name == main:
            chart.line(scale(interval[0]), y + 31, scale(interval[1]), y + 31, "soft", width=7)
        chart.dot(scale(value), y + 31, role)
        chart.text(WIDTH, y + 36, expected(value), role=role, anchor="end", is_bold=True)
    return chart


def key_costs(costs: Sequence[KeyCostSummary], *, with_all: float) -> Chart:
    """Expected population uniques if one key is left out or made coarser, compared with those for all keys."""
    ordered = sorted(((cost.without, cost) for cost in costs if cost.without is not None), key=lambda left_out: left_out[0])
    steps = [[step.expected_population_uniques for step in cost.coarsened] for _, cost in ordered]
    top = 64.0
    bottom = top + _ROW * len(ordered)
    chart = Chart(bottom + _FOOT)
    every = [with_all, *(without for without, _ in ordered), *itertools.chain.from_iterable(steps)]
    scale = Scale.of(every, 10.0, WIDTH - 14.0)
    legend(chart, [("the key is left out", "accent", False), ("the key is coarser", "soft", True)], y=16.0)
    value_axis(chart, scale, "expected population uniques", top=top, bottom=bottom)
    chart.line(scale(with_all), top, scale(with_all), bottom, "risk", width=1.5, dash="5 3")
    chart.text(scale(with_all), top - 8, f"all keys: {expected(with_all)}", role="risk", anchor="end", is_bold=True)
    for place, ((without, cost), coarser) in enumerate(zip(ordered, steps, strict=True)):
        y = top + _ROW * place
        chart.text(4, y + 15, cost.key)
        chart.line(scale(min([without, *coarser])), y + 31, scale(with_all), y + 31, "line", width=4)
        for value in coarser:
            chart.dot(scale(value), y + 31, "soft", is_diamond=True)
        chart.dot(scale(without), y + 31, "accent")
    return chart


def before_after(before: Mapping[str, float], after: Mapping[str, float]) -> Chart:
    """Each measure of risk before and after, as a pair of marks on one line."""
    order = [name for name in before if name in after]
    top, row = 34.0, 66.0
    bottom = top + row * len(order)
    chart = Chart(bottom + _FOOT)
    scale = Scale.of([*(before[name] for name in order), *(after[name] for name in order)], 10.0, WIDTH - 20.0)
    legend(chart, [("before", "risk", False), ("after", "accent", True)], y=16.0)
    value_axis(chart, scale, "records", top=top, bottom=bottom)
    for place, name in enumerate(order):
        y = top + row * place + 34
        chart.text(4, y - 18, name)
        chart.line(scale(before[name]), y, scale(after[name]), y, "line", width=4)
        for value, role, is_diamond in ((before[name], "risk", False), (after[name], "accent", True)):
            chart.dot(scale(value), y, role, is_diamond=is_diamond)
        # Numbers close to each other are put side by side, so that both can be read.
        places = _apart([scale(after[name]), scale(before[name])], [expected(after[name]), expected(before[name])])
        for x, value, role in zip(places, (after[name], before[name]), ("accent", "risk"), strict=True):
            chart.text(x, y + 22, expected(value), role=role, anchor="middle", size=13)
    return chart


def _apart(places: Sequence[float], words: Sequence[str]) -> list[float]:
    """Positions of two texts, moved apart if they would overlap."""
    room = (text_width(words[0], 13) + text_width(words[1], 13)) / 2 + 8
    missing = max(0.0, room - abs(places[1] - places[0])) / 2
    first_is_left = places[0] <= places[1]
    return [places[0] - missing, places[1] + missing] if first_is_left else [places[0] + missing, places[1] - missing]


def ranked_areas(areas: Sequence[AreaSummary], *, drivers: Collection[str] = ()) -> Chart:
    """Records expected to be recognised in each area as a dot, riskiest on top; ``drivers`` are small areas that drive the risk."""
    top, row = 6.0, 22.0
    bottom = top + row * len(areas)
    chart = Chart(bottom + _FOOT)
    left = min(240.0, 18.0 + max((text_width(area.area[:30]) for area in areas), default=0.0))
    scale = Scale.of([area.expected for area in areas], left, WIDTH - 14.0)
    value_axis(chart, scale, "expected number of records", top=top, bottom=bottom)
    for place, area in enumerate(areas):
        y, role = top + row * place + row / 2, "risk" if area.area in drivers else "accent"
        chart.text(4, y + 5, area.area[:30], role=role)
        chart.dot(scale(area.expected), y, role)
    return chart


def group_risk(groups: Sequence[GroupRisk]) -> Chart:
    """Records expected to be recognised in each group before and, if known, after: a pair of dots on one line."""
    has_after = any(group.expected_after is not None for group in groups)
    top, row = (38.0 if has_after else 6.0), 24.0
    bottom = top + row * len(groups)
    chart = Chart(bottom + _FOOT)
    labels = [f"{group.level[:22]} ({number(group.records)})" for group in groups]
    left = min(240.0, 18.0 + max((text_width(label, 13) for label in labels), default=0.0))
    shown = [group.expected for group in groups]
    shown += [group.expected_after or 0.0 for group in groups]
    scale = Scale.of(shown, left, WIDTH - 14.0)
    if has_after:
        legend(chart, [("before", "risk", False), ("after", "accent", True)], y=16.0)
    value_axis(chart, scale, "expected number of records", top=top, bottom=bottom)
    for place, (group, label) in enumerate(zip(groups, labels, strict=True)):
        y, before, after = top + row * place + row / 2, group.expected, group.expected_after
        chart.text(4, y + 5, label, size=13)
        if after is not None:
            chart.line(scale(before), y, scale(after), y, "line", width=3)
            chart.dot(scale(before), y, "risk", size=5)
            chart.dot(scale(after), y, "accent", is_diamond=True, size=5)
        else:
            chart.dot(scale(before), y, "accent", size=5)
    return chart


# ---------------------------------------------------------------------- risk against change


def frontier(points: Sequence[FrontierSummary], *, target: float | None = None) -> Chart:
    """Expected population uniques that remain after a given number of changed values."""
    top, bottom = 34.0, 34.0 + _PLOT_HEIGHT + 20
    chart = Chart(bottom + _FOOT)
    uniques = [point.expected_population_uniques for point in points]
    heights = Scale.of([*uniques, *([target] if target is not None else [])], bottom, top)
    left = height_room(heights)
    across = Scale.of([float(point.values_changed) for point in points], left, WIDTH - 14.0)
    height_axis(chart, heights, "expected population uniques left", left=left, right=WIDTH)
    value_axis(chart, across, "values changed", top=bottom, bottom=bottom)
    places = [(across(float(point.values_changed)), heights(value)) for point, value in zip(points, uniques, strict=True)]
    chart.path(places, "accent")
    if len(places) <= 40:
        for x, y in places:
            chart.dot(x, y, "accent", size=4)
    if target is not None:
        chart.line(left, heights(target), WIDTH, heights(target), "risk", width=1.5, dash="5 3")
        chart.text(
            WIDTH, heights(target) - 6, f"target {expected(target)}", role="risk", anchor="end", is_bold=True, size=FONT_SIZE
        )
    return chart


def concentration(points: Sequence[Concentration], after: Sequence[Concentration] = ()) -> Chart:
    """Share of the expected population uniques that the riskiest records account for together, before and after."""
    top, bottom = 62.0 if after else 34.0, 62.0 + _PLOT_HEIGHT
    chart = Chart(bottom + _FOOT)
    heights = Scale.of([0.0, 100.0], bottom, top)
    left = height_room(heights)
    across = Scale.of([0.0, *(float(point.records) for point in (*points, *after))], left, WIDTH - 14.0)
    height_axis(chart, heights, "% of the expected population uniques", left=left, right=WIDTH)
    value_axis(chart, across, "riskiest records", top=bottom, bottom=bottom)
    if after:
        legend(chart, [("before", "risk", False), ("after", "accent", True)], y=38.0)
    for curve, role in ((points, "risk" if after else "accent"), (after, "accent")):
        if not curve:
            continue
        places = [(across(float(point.records)), heights(100.0 * point.share)) for point in curve]
        chart.path([(across(0.0), heights(0.0)), *places], role)
        for x, y in places:
            chart.dot(x, y, role, is_diamond=role == "accent" and bool(after), size=4)
    return chart
