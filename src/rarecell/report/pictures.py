"""Which pictures does a run have?

Each is made only when the summary has its numbers, and comes with a sentence that says what to see in it.
"""

from __future__ import annotations

import functools
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rarecell.report import charts
from rarecell.report.graph_picture import ModelPicture, graph_svg, junction_tree_svg
from rarecell.report.tables import measure_name
from rarecell.report.words import estimator_name, number


@dataclass(frozen=True)
class Picture:
    """An ``svg`` element and what to see in it."""

    svg: str
    caption: str


def all_pictures(summary: Mapping[str, Any]) -> dict[str, Picture]:
    """Every picture that the summary has the numbers for, by name."""
    risk, swap = summary.get("risk", {}), summary.get("swap", {})
    made: dict[str, Picture | None] = {
        "funnel": _funnel(summary),
        "decades": _decades(risk),
        "histogram": _histogram(risk),
        "key_costs": _key_costs(risk),
        "estimators": _estimators(summary),
        "sizes": _sizes(risk),
        "before_after": _before_after(swap),
        "frontier": _frontier(swap),
    }
    if summary.get("model", {}).get("cliques"):
        graph, tree = _model_svgs(json.dumps({name: summary["model"].get(name) for name in ("vertices", "cliques")}))
        made["graph"] = Picture(
            graph,
            "Each box is a variable. Numbered areas and coloured lines are cliques: groups of variables whose joint table the model "
            "reproduces exactly. A double border marks members of separators; a dashed box is a key in fewer groups, tied to its key by a dotted line.",
        )
        made["tree"] = Picture(
            tree,
            "The same cliques as a tree. Written on each branch is the separator: given its variables, what is below is independent of the rest. "
            "Bold names are new at that clique.",
        )
    return {name: picture for name, picture in made.items() if picture is not None}


@functools.lru_cache(maxsize=8)
def _model_svgs(model: str) -> tuple[str, str]:
    shape = ModelPicture.of(json.loads(model))
    return graph_svg(shape), junction_tree_svg(shape)


def _chart(kind: str, values: Mapping[str, Any], *, name: str, title: str, description: str) -> str:
    """The SVG of a function of :mod:`rarecell.report.charts`; drawn once when both editions show the same numbers."""
    return _drawn_chart(kind, json.dumps(values), name, title, description)


@functools.lru_cache(maxsize=64)
def _drawn_chart(kind: str, values: str, name: str, title: str, description: str) -> str:
    return charts.to_svg(getattr(charts, kind)(**json.loads(values)), name=name, title=title, description=description)


def _funnel(summary: Mapping[str, Any]) -> Picture | None:
    """Records, sample uniques and expected population uniques as bars of one scale."""
    risk = summary.get("risk", {})
    records, uniques = summary.get("records"), risk.get("sample_uniques")
    expected = risk.get("expected_population_uniques")
    if not (isinstance(records, int) and isinstance(uniques, int) and isinstance(expected, int | float) and records):
        return None
    width, bar = 460.0, 20.0
    root = ElementTree.Element("svg", {"viewBox": f"0 0 {width:.0f} 112"})
    rows = (
        (float(records), "line", f"{number(records)} records in the file"),
        (float(uniques), "soft", f"{number(uniques)} alone in the file"),
        (
            float(expected),
            "risk",
            f"{number(float(expected), 0 if expected >= 10 else 1)} expected to be alone in the population",
        ),
    )
    for place, (value, role, words) in enumerate(rows):
        y = 6.0 + place * 36
        length = max(value / records * (width - 2), 1.5)
        ElementTree.SubElement(
            root,
            "rect",
            {"x": "1", "y": f"{y:.0f}", "width": f"{length:.1f}", "height": f"{bar:.0f}", "rx": "3", "fill": f"var(--{role})"},
        )
        is_inside = length > 250
        text = ElementTree.SubElement(
            root,
            "text",
            {
                "x": f"{12 if is_inside else length + 10:.1f}",
                "y": f"{y + 14.5:.1f}",
                "font-size": "13",
                "fill": "var(--on-line)" if is_inside and role == "line" else "var(--ink)",
            },
        )
        text.text = words
    description = "; ".join(words for _, _, words in rows) + "."
    svg = charts.finished_svg(root, name="funnel", title="From the file to the population", description=description, width=width)
    return Picture(
        svg,
        "Bars of one scale: most records share their key values with others, some are alone in the file, few in the population.",
    )


def _decades(risk: Mapping[str, Any]) -> Picture | None:
    decades = risk.get("cell_probability_decades")
    if not decades:
        return None
    counts = dict(decades).values()
    if not all(isinstance(n, int) for n in counts):
        return None
    svg = _chart(
        "cell_probability_decades",
        {"decades": decades},
        name="decades",
        title="Cell probabilities of the sample uniques",
        description="Columns with the number of sample-unique records in each decade of cell probability; the table has the numbers.",
    )
    return Picture(
        svg,
        "Records further to the right lie in cells that the model expects to be nearly empty: those are likely to be alone in the population.",
    )


def _histogram(risk: Mapping[str, Any]) -> Picture | None:
    histogram = risk.get("histogram")
    if not histogram or not all(isinstance(n, int) for n in histogram["counts"]):
        return None
    threshold = risk.get("threshold")
    svg = _chart(
        "record_risk_histogram",
        {"edges": histogram["edges"], "counts": histogram["counts"], "threshold": threshold},
        name="histogram",
        title="Sample uniques by risk",
        description="Columns with the number of records in each class of risk; the table has the numbers.",
    )
    above = f" Columns from the threshold of {threshold:g} on are in red." if threshold is not None else ""
    return Picture(svg, f"Records that are alone in the file, by the probability that they are alone in the population.{above}")


def _key_costs(risk: Mapping[str, Any]) -> Picture | None:
    costs = [cost for cost in risk.get("key_costs", ()) if cost.get("without") is not None]
    if not costs or risk.get("expected_population_uniques") is None:
        return None
    with_all = float(risk["expected_population_uniques"])
    svg = _chart(
        "key_costs",
        {"costs": costs, "with_all": with_all},
        name="costs",
        title="What each key costs",
        description="For each key the expected number of population uniques when it is left out or made coarser; the table has the numbers.",
    )
    return Picture(
        svg, "The further a mark is from the dashed line, the more it would help to make that key coarser or to leave it out."
    )


def _estimators(summary: Mapping[str, Any]) -> Picture | None:
    risk = summary.get("risk", {})
    failed = {row["name"] for row in risk.get("estimator_details", ()) if row.get("converged") is False}
    values = {
        name: float(value)
        for name, value in risk.get("estimators", {}).items()
        if isinstance(value, int | float) and name not in failed
    }
    if not values:
        return None
    truth = summary.get("truth", {}).get("population_uniques")
    expected = risk.get("expected_population_uniques")
    # The interval belongs to the estimator that the run's own number comes from.
    main = min(values, key=lambda name: abs(values[name] - expected)) if isinstance(expected, int | float) else "average"
    svg = _chart(
        "estimators",
        {
            "values": {estimator_name(name): value for name, value in values.items()},
            "interval": risk.get("interval"),
            "truth": float(truth) if isinstance(truth, int | float) else None,
            "main": estimator_name(main),
        },
        name="estimators",
        title="Estimates of the number of population uniques",
        description="A dot for each estimator on one axis; the table has the numbers and what each assumes.",
    )
    ends = " The bar is the interval of the number used in this report." if risk.get("interval") else ""
    line = " The dashed line is the truth, which is known for this file." if isinstance(truth, int | float) else ""
    return Picture(svg, f"Estimators differ because they assume different things.{ends}{line}")


def _sizes(risk: Mapping[str, Any]) -> Picture | None:
    rows = risk.get("diagnostics", {}).get("size_indices", ())
    if not rows:
        return None
    svg = _chart(
        "size_indices",
        {"rows": rows},
        name="sizes",
        title="Cells by size, observed and expected",
        description="Columns are the observed numbers of cells, lines those expected under the model; the table has the numbers.",
    )
    return Picture(svg, "Where the line lies on top of the column, the model expects as many cells of that size as the file has.")


def _before_after(swap: Mapping[str, Any]) -> Picture | None:
    before, after = swap.get("risk_before"), swap.get("risk_after")
    if not before or not after:
        return None
    names = ("expected_population_uniques", "expected_correct_matches")
    pairs = [name for name in names if isinstance(before.get(name), int | float) and isinstance(after.get(name), int | float)]
    if not pairs:
        return None
    svg = _chart(
        "before_after",
        {"before": {measure_name(n): before[n] for n in pairs}, "after": {measure_name(n): after[n] for n in pairs}},
        name="before-after",
        title="Risk before and after swapping",
        description="; ".join(f"{measure_name(n)}: {number(before[n])} before, {number(after[n])} after" for n in pairs) + ".",
    )
    return Picture(svg, "Matches to swapped records are false, so they no longer count.")


def _frontier(swap: Mapping[str, Any]) -> Picture | None:
    points = swap.get("frontier", ())
    if len(points) < 2:
        return None
    target = swap.get("target") or {}
    svg = _chart(
        "frontier",
        {
            "points": [{name: point[name] for name in ("values_changed", "expected_population_uniques")} for point in points],
            "target": target.get("max_population_uniques"),
        },
        name="frontier",
        title="Risk left against values changed",
        description="A falling line: the more values are changed, the fewer population uniques are left; the table has the numbers.",
    )
    return Picture(svg, "Each further swap buys less: choose the point where the risk is low enough.")
