"""What do the numbers of a run look like?

Each function takes a part of ``summary.json`` and returns an Altair chart, which a notebook shows as it is and
:func:`to_svg` turns into a piece of HTML: no script, colours that follow the page's light or dark theme, a title and a
description for those who listen to the page. The pictures of graphs are drawn by :mod:`rarecell.report.graph_picture`.
"""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rarecell.outcome.words import decade, expected

if TYPE_CHECKING:
    import altair as alt

PALETTE = {
    "ink": "#1f2a33",
    "muted": "#57626c",
    "line": "#dcd8cd",
    "accent": "#0d6273",
    "soft": "#8fc1c8",
    "risk": "#b23f27",
    "truth": "#8a5a00",
}
"""Colours by role. In a page each becomes the style sheet's variable of the same name, so that dark mode can change it."""

WIDTH = 680
"""Width of a chart in pixels, axes included; pages scale it to the room there is."""

# ---------------------------------------------------------------------- charts


def cell_probability_decades(decades: Mapping[str, int] | Sequence[tuple[str, int]]) -> alt.LayerChart:
    """Sample-unique records by the decade of their cell probability, commonest cells on the left.

    Takes ``risk.cell_probability_decades``, or pairs of a label and a count where neighbouring decades were merged.
    """
    ordered = sorted(decades.items(), key=lambda item: -int(item[0])) if isinstance(decades, Mapping) else decades
    rows = [(decade(label), n) for label, n in ordered]
    return _columns(rows, x_title="cell probability, from this power of ten up to the next", y_title="sample uniques")


def record_risk_histogram(edges: Sequence[float], counts: Sequence[int], *, threshold: float | None = None) -> alt.LayerChart:
    """Sample uniques by risk; bins that begin at the threshold or above are in the colour of risk."""
    labels = [f"{low:g}–{high:g}" for low, high in itertools.pairwise(edges)]
    at_risk = [threshold is not None and low >= threshold - 1e-9 for low in edges[:-1]]
    return _columns(
        list(zip(labels, counts, strict=True)), x_title="risk of the record", y_title="sample uniques", emphasised=at_risk
    )


def estimators(
    values: Mapping[str, float],
    *,
    interval: Sequence[float] | None = None,
    truth: float | None = None,
    main: str = "average",
) -> alt.LayerChart:
    """Every estimate of the number of population uniques on one axis, with the interval of ours and the truth if known."""
    import altair as alt

    order = list(values)
    rows = [{"estimator": name, "value": value, "is_main": name == main} for name, value in values.items()]
    reach = [*values.values(), *(interval or []), *([truth] if truth is not None else [])]
    positive = [value for value in reach if value > 0]
    # A logarithmic axis when one estimate would press all others into a corner.
    is_log = len(positive) == len(reach) and max(reach, default=1) > 30 * min(positive, default=1)
    scale = alt.Scale(type="log", nice=True) if is_log else alt.Scale(zero=True, nice=True)
    title = "expected population uniques" + (" (logarithmic axis)" if is_log else "")
    x = alt.X("value:Q", title=title, scale=scale, axis=alt.Axis(tickCount=6))
    y = alt.Y("estimator:N", sort=order, title=None, axis=_row_axis(order, grid=True))
    base = alt.Chart(alt.Data(values=rows)).encode(y=y)
    colour = alt.condition("datum.is_main", alt.value(PALETTE["accent"]), alt.value(PALETTE["muted"]))
    layers = []
    if interval is not None and main in values:
        span = [{"estimator": main, "low": interval[0], "high": interval[1]}]
        layers.append(
            alt.Chart(alt.Data(values=span))
            .mark_rule(strokeWidth=7, strokeCap="round", color=PALETTE["soft"])
            .encode(y=y, x=alt.X("low:Q", scale=scale), x2="high:Q")
        )
    if truth is not None:
        known = alt.Data(values=[{"value": truth, "text": f"truth {expected(truth)}"}])
        mark = alt.Chart(known).encode(x=alt.X("value:Q", scale=scale))
        layers.append(mark.mark_rule(color=PALETTE["truth"], strokeWidth=1.5, strokeDash=[5, 3]))
        layers.append(mark.mark_text(color=PALETTE["truth"], dy=-8, y=0, fontWeight="bold").encode(text="text:N"))
    layers.append(base.mark_point(filled=True, size=110, opacity=1).encode(x=x, color=colour))
    layers.append(
        base.transform_calculate(label="format(datum.value, datum.value < 10 ? ',.1f' : ',.0f')")
        .mark_text(align="right", baseline="middle", fontWeight="bold", dx=_NUMBER_ROOM)
        .encode(x=alt.value("width"), text="label:N", color=colour)
    )
    return _styled(alt.layer(*layers), height=30 * len(rows) + 60, right=_NUMBER_ROOM)


def key_costs(costs: Sequence[Mapping[str, Any]], *, with_all: float) -> alt.LayerChart:
    """Expected population uniques when one key is left out or made coarser, against those with all keys."""
    import altair as alt

    rows = []
    for cost in sorted(costs, key=lambda cost: float(cost["without"])):
        rows.append({"key": cost["key"], "value": cost["without"], "what": "left out"})
        for step in cost.get("coarsened", ()):
            rows.append({"key": cost["key"], "value": step["expected_population_uniques"], "what": "coarser"})
    order = list(dict.fromkeys(row["key"] for row in rows))
    y = alt.Y("key:N", sort=order, title=None, axis=_row_axis(order))
    x = alt.X("value:Q", title="expected population uniques", scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(tickCount=6))
    spans = [{"key": key, "low": min(r["value"] for r in rows if r["key"] == key), "high": with_all} for key in order]
    bar = alt.Chart(alt.Data(values=spans)).mark_rule(color=PALETTE["line"], strokeWidth=4)
    span = bar.encode(y=y, x=alt.X("low:Q"), x2="high:Q")
    kinds = alt.Scale(domain=["left out", "coarser"], range=[PALETTE["accent"], PALETTE["soft"]])
    points = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=110, opacity=1)
        .encode(
            y=y,
            x=x,
            color=alt.Color("what:N", scale=kinds, legend=alt.Legend(title="the key is", orient="top")),
            shape=alt.Shape("what:N", scale=alt.Scale(domain=["left out", "coarser"], range=["circle", "diamond"])),
        )
    )
    today = alt.Data(values=[{"value": with_all, "text": f"all keys: {expected(with_all)}"}])
    baseline = alt.Chart(today).encode(x=alt.X("value:Q"))
    return _styled(
        alt.layer(
            span,
            baseline.mark_rule(color=PALETTE["risk"], strokeDash=[5, 3], strokeWidth=1.5),
            baseline.mark_text(color=PALETTE["risk"], dy=-8, y=0, align="right", dx=4, fontWeight="bold").encode(text="text:N"),
            points,
        ),
        height=28 * len(order) + 100,
    )


def size_indices(rows: Sequence[Mapping[str, Any]]) -> alt.LayerChart:
    """Number of cells of each size, observed and expected under the model."""
    import altair as alt

    values = [
        {"size": str(row["size"]), "cells": max(float(row[kind]), 0.0), "kind": kind}
        for row in rows
        for kind in ("observed", "expected")
        if row.get(kind) is not None
    ]
    order = list(dict.fromkeys(str(row["size"]) for row in values))
    x = alt.X("size:N", sort=order, title="records in the cell", axis=alt.Axis(labelAngle=0, ticks=False))
    y = alt.Y("cells:Q", title="cells (square-root axis)", scale=alt.Scale(type="sqrt", nice=True), axis=alt.Axis(tickCount=5))
    kinds = alt.Scale(domain=["observed", "expected"], range=[PALETTE["soft"], PALETTE["risk"]])
    colour = alt.Color("kind:N", scale=kinds, legend=alt.Legend(title=None, orient="top"))
    base = alt.Chart(alt.Data(values=values)).encode(x=x, y=y, color=colour)
    return _styled(
        alt.layer(
            base.transform_filter("datum.kind == 'observed'").mark_bar(),
            base.transform_filter("datum.kind == 'expected'").mark_tick(thickness=3, bandSize=34, orient="horizontal"),
        ),
        height=250,
    )


def frontier(points: Sequence[Mapping[str, float]], *, target: float | None = None) -> alt.LayerChart:
    """How many population uniques are left to expect after so many changed values."""
    import altair as alt

    rows = [{"values": p["values_changed"], "uniques": p["expected_population_uniques"]} for p in points]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("values:Q", title="values changed", scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(tickCount=6)),
        y=alt.Y("uniques:Q", title="expected population uniques left", scale=alt.Scale(zero=True, nice=True)),
    )
    layers = [base.mark_line(color=PALETTE["accent"], strokeWidth=2)]
    if len(rows) <= 40:
        layers.append(base.mark_point(filled=True, color=PALETTE["accent"], size=45, opacity=1))
    if target is not None:
        layers.append(
            alt.Chart(alt.Data(values=[{"uniques": target}]))
            .mark_rule(color=PALETTE["risk"], strokeDash=[5, 3])
            .encode(y="uniques:Q")
        )
    return _styled(alt.layer(*layers), height=270)


def before_after(before: Mapping[str, float], after: Mapping[str, float]) -> alt.LayerChart:
    """Each measure of risk before and after, as a pair of dots on one line."""
    import altair as alt

    order = [name for name in before if name in after]
    moments = (("before", before), ("after", after))
    rows = [{"measure": name, "value": part[name], "when": when} for name in order for when, part in moments]
    y = alt.Y("measure:N", sort=order, title=None, axis=_row_axis(order))
    x = alt.X("value:Q", title="records", scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(tickCount=5, labelFlush=False))
    whens = alt.Scale(domain=["before", "after"], range=[PALETTE["risk"], PALETTE["accent"]])
    base = alt.Chart(alt.Data(values=rows)).encode(y=y, x=x)
    numbers = base.transform_calculate(label="format(datum.value, datum.value < 10 ? ',.1f' : ',.0f')")
    colour = alt.Color("when:N", scale=whens, legend=alt.Legend(title=None, orient="top"))
    spans = [{"measure": name, "low": min(before[name], after[name]), "high": max(before[name], after[name])} for name in order]
    return _styled(
        alt.layer(
            alt.Chart(alt.Data(values=spans))
            .mark_rule(strokeWidth=4, color=PALETTE["line"])
            .encode(y=y, x=alt.X("low:Q", title="records"), x2="high:Q"),
            base.mark_point(filled=True, size=120, opacity=1).encode(
                color=colour, shape=alt.Shape("when:N", scale=alt.Scale(domain=["before", "after"], range=["circle", "diamond"]))
            ),
            # Above and below the line, so that numbers that are close to each other can be read.
            *(
                numbers.transform_filter(f"datum.when === '{when}'").mark_text(dy=dy).encode(text="label:N", color=colour)
                for when, dy in (("before", -14), ("after", 15))
            ),
        ),
        height=56 * len(order) + 90,
    )


def _columns(
    rows: Sequence[tuple[str, int]], *, x_title: str, y_title: str, emphasised: Sequence[bool] | None = None
) -> alt.LayerChart:
    """Labelled columns, with the counts written on them; a logarithmic axis when one column dwarfs the rest."""
    import altair as alt

    marked = emphasised or [False] * len(rows)
    values = [
        {"label": label, "count": n, "text": f"{n:,}", "marked": bool(is_marked)}
        for (label, n), is_marked in zip(rows, marked, strict=True)
    ]
    positive = [n for _, n in rows if n > 0]
    is_log = bool(positive) and max(positive) > 60 * min(positive)
    x = alt.X("label:N", sort=[label for label, _ in rows], title=x_title, axis=alt.Axis(labelAngle=0, ticks=False))
    # symlog keeps empty columns at zero, where a plain logarithm has no place for them.
    scale = alt.Scale(type="symlog", constant=1, nice=False) if is_log else alt.Scale(nice=True)
    axis = alt.Axis(values=[0, *_decade_ticks(positive)]) if is_log else alt.Axis(tickCount=5)
    y = alt.Y("count:Q", title=y_title + (" (logarithmic axis)" if is_log else ""), scale=scale, axis=axis)
    base = alt.Chart(alt.Data(values=values)).encode(x=x, y=y)
    colour = alt.condition("datum.marked", alt.value(PALETTE["risk"]), alt.value(PALETTE["accent"]))
    return _styled(
        alt.layer(
            base.mark_bar().encode(color=colour),
            base.mark_text(dy=-7).encode(text="text:N", color=alt.value(PALETTE["ink"])),
        ),
        height=250,
    )


def _decade_ticks(counts: Sequence[int]) -> list[int]:
    return [10**k for k in range(len(str(max(counts, default=1))))]


_NUMBER_ROOM = 56
_FONT_SIZE = 13


def _row_axis(labels: Sequence[str], *, grid: bool = False) -> alt.Axis:
    """An axis of names with room for them in any font: the chart is laid out before the reader's font is known."""
    import altair as alt

    room = min(max((len(label) for label in labels), default=0), 34) * _FONT_SIZE * 0.56 + 12
    return alt.Axis(ticks=False, domain=False, labelPadding=8, labelLimit=0, grid=grid, minExtent=room)


def _styled(chart: alt.LayerChart | alt.FacetChart, *, height: float, right: float = 8) -> alt.LayerChart:
    import altair as alt

    quiet = alt.AxisConfig(
        labelColor=PALETTE["muted"],
        titleColor=PALETTE["muted"],
        tickColor=PALETTE["line"],
        domainColor=PALETTE["muted"],
        gridColor=PALETTE["line"],
        labelFontSize=_FONT_SIZE,
        titleFontSize=_FONT_SIZE,
        titleFontWeight="normal",
        titlePadding=10,
        labelLimit=240,
    )
    assert isinstance(chart, alt.LayerChart), "no chart here is divided into facets"
    styled: alt.LayerChart = (
        chart.properties(
            width=WIDTH,
            height=height,
            background="transparent",
            autosize=alt.AutoSizeParams(type="fit", contains="padding"),
            padding={"left": 8, "top": 8, "bottom": 8, "right": right},
        )
        .configure(axis=quiet, text=alt.MarkConfig(fontSize=_FONT_SIZE))
        .configure_view(stroke=None)
        .configure_axisX(grid=False)
        .configure_legend(
            labelColor=PALETTE["muted"],
            titleColor=PALETTE["muted"],
            labelFontSize=_FONT_SIZE,
            titleFontSize=_FONT_SIZE,
            titleFontWeight="normal",
            offset=14,
        )
    )
    return styled


# ---------------------------------------------------------------------- SVG for a page


def to_svg(chart: alt.TopLevelMixin, *, name: str, title: str, description: str) -> str:
    """The chart as an ``svg`` element for a page.

    Parameters
    ----------
    chart : altair chart
    name : str
        A word that is unique in the page; every ``id`` in the picture begins with it.
    title, description : str
        What a screen reader says instead of the picture.
    """
    import vl_convert

    root = ElementTree.fromstring(vl_convert.vegalite_to_svg(chart.to_json(validate=False), show_warnings=False))
    _strip(root, name, {})
    width, height = root.get("width", ""), root.get("height", "")
    root.attrib.clear()
    root.set("viewBox", f"0 0 {width} {height}")
    return finished_svg(root, name=name, title=title, description=description, width=float(width))


def finished_svg(root: ElementTree.Element, *, name: str, title: str, description: str, width: float) -> str:
    """Give an ``svg`` element its title and description, its natural width, and write it as text."""
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    root.set("class", "picture")
    root.set("width", f"{width:.0f}")
    heading = ElementTree.Element("title", id=f"{name}-title")
    heading.text = title
    text = ElementTree.Element("desc", id=f"{name}-desc")
    text.text = description
    root.insert(0, heading)
    root.insert(1, text)
    return ElementTree.tostring(root, encoding="unicode")


_COLOUR_ROLE = {colour: f"var(--{role})" for role, colour in PALETTE.items()}


def _strip(element: ElementTree.Element, name: str, ids: dict[str, str]) -> None:
    """Drop namespaces, roles and inner labels, invisible parts and fonts; put theme colours and unique ids.

    The drawing library numbers its ids through the whole process; ``ids`` numbers them anew, in the order they are met.
    """
    element.tag = element.tag.rpartition("}")[2]
    for attribute, value in list(element.attrib.items()):
        plain = attribute.rpartition("}")[2]
        if plain in {"role", "class", "pointer-events", "font-family"} or plain.startswith("aria-"):
            del element.attrib[attribute]
        elif value in _COLOUR_ROLE:
            element.set(attribute, _COLOUR_ROLE[value])
        elif plain == "id":
            element.set(attribute, ids.setdefault(value, f"{name}-{len(ids)}"))
        elif value.startswith("url(#"):
            element.set(attribute, f"url(#{ids.setdefault(value[5:-1], f'{name}-{len(ids)}')})")
    for child in list(element):
        if child.get("display") == "none" or (child.tag.endswith("path") and child.get("class") == "background"):
            element.remove(child)
        else:
            _strip(child, name, ids)
