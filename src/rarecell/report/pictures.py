"""Which pictures does a run have?

Each is drawn only if the summary has its numbers, and comes with a sentence that says what to look for.
"""

from __future__ import annotations

import functools
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rarecell.outcome.roles import Concentration, GroupRisk
from rarecell.outcome.summary import Count, ModelSummary, RiskSummary, RunSummary
from rarecell.outcome.swap import SwapSummary
from rarecell.outcome.words import counted, decade, expected, number, people, percent, verb
from rarecell.report import charts
from rarecell.report.graph_picture import ModelPicture, graph_svg, junction_tree_svg
from rarecell.report.sentences import estimator_name
from rarecell.report.svg import finished_svg
from rarecell.report.tables import MEASURES, MOST_AREAS, labelled_decades


def all_pictures(summary: RunSummary) -> dict[str, Picture]:
    """Every picture for which the summary has the numbers, by name."""
    risk, swap = summary.risk, summary.swap
    pictures: dict[str, Picture | None] = {
        "funnel": _funnel(summary),
        "decades": _decades(risk),
        "histogram": _histogram(risk, swap),
        "key_costs": _key_costs(risk),
        "estimators": _estimators(summary),
        "sizes": _sizes(risk),
        "areas": _areas(risk),
        "concentration": _concentration(summary),
        "histogram_after": None if swap is None else _histogram_after(swap, risk),
        "before_after": None if swap is None else _before_after(swap),
        "frontier": None if swap is None else _frontier(swap),
    }
    if summary.model.cliques:
        graph, tree = _model_svgs(summary.model)
        pictures["graph"] = Picture(
            graph,
            "Each box is a variable. Numbered areas and coloured lines are cliques: groups of variables whose joint table the model "
            "reproduces exactly. A double border marks members of separators; a dashed box is a key in fewer groups, tied to its key by a dotted line.",
        )
        pictures["tree"] = Picture(
            tree,
            "The same cliques as a tree. Written on each branch is the separator: given its variables, what is below is independent of the rest. "
            "Bold names are new at that clique.",
        )
    return {name: picture for name, picture in pictures.items() if picture is not None}


@functools.lru_cache(maxsize=8)
def _model_svgs(model: ModelSummary) -> tuple[str, str]:
    shape = ModelPicture.of(model)
    return graph_svg(shape), junction_tree_svg(shape)


def _funnel(summary: RunSummary) -> Picture | None:
    """Records, sample uniques and expected population uniques as bars on one scale."""
    records, uniques = summary.records, summary.risk.sample_uniques
    alone, swap = summary.risk.expected_population_uniques, summary.swap
    is_after = swap is not None and swap.released is not None
    if swap is not None and swap.released is not None:
        uniques, alone = swap.released.sample_uniques, swap.risk_after.expected_population_uniques
    if not (isinstance(records, int) and isinstance(uniques, int) and records):
        return None
    width, bar = 460.0, 20.0
    root = ElementTree.Element("svg", {"viewBox": f"0 0 {width:.0f} 112"})
    rows = (
        (float(records), "line", f"{number(records)} records in the file"),
        (float(uniques), "soft", f"{number(uniques)} alone in the {'released ' if is_after else ''}file"),
        (alone, "risk", f"{'none' if people(alone) == 'no' else people(alone)} expected to be alone in the population"),
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
    svg = finished_svg(root, name="funnel", title="From the file to the population", description=description, width=width)
    of_file = "After protection, " if is_after else "Before protection, " if swap is not None else ""
    caption = (
        f"{of_file}{percent(uniques / records)} of the records are alone in the file with their key values. "
        f"{percent(alone / records)} are expected to be alone in the population."
    )
    return Picture(svg, caption)


def _counted_by(with_family: float | None) -> str:
    """What a picture of areas or groups counts: with the family where households are known."""
    return "Expected population uniques" if with_family is None else "Records recognised alone or with the family"


def _areas(risk: RiskSummary) -> Picture | None:
    """The areas of the finest level, ranked."""
    if not risk.areas or not risk.areas[-1].areas:
        return None
    level = risk.areas[-1]
    first = f"{level.areas[0].area} has most, {expected(level.areas[0].expected)}"
    svg = charts.ranked_areas(level.areas[:MOST_AREAS], drivers=level.drivers).svg(
        name="areas",
        title=f"{_counted_by(level.expected_recognised)} by {level.column}",
        description=f"One dot for each area, the riskiest first; {first}.",
    )
    left_out = (
        f" The {len(level.areas) - MOST_AREAS:,} areas with the least risk are left out." if len(level.areas) > MOST_AREAS else ""
    )
    return Picture(
        svg,
        f"If the file were released with '{level.column}'.{' Red dots are small areas that drive the risk.' if level.drivers else ''}{left_out}",
    )


def _decades(risk: RiskSummary) -> Picture | None:
    decades = risk.cell_probability_decades
    if not decades or not all(isinstance(n, int) for n in decades.values()):
        return None
    counts = [(label, n) for label, n in labelled_decades(decades) if isinstance(n, int)]
    svg = charts.cell_probability_decades(counts).svg(
        name="decades",
        title="Cell probabilities of the sample uniques",
        description="Columns with the number of sample-unique records in each decade of cell probability; the table has the numbers.",
    )
    return Picture(
        svg,
        f"{_commonest_decade(decades)} The further to the right, the emptier the model expects the cell to be, and the likelier the record is "
        "alone in the population.",
    )


def _histogram(risk: RiskSummary, swap: SwapSummary | None) -> Picture | None:
    histogram = risk.histogram
    if not any(isinstance(n, int) for n in histogram.counts):
        return None
    # A class whose count is given in words has no column.
    counts = [n if isinstance(n, int) else 0 for n in histogram.counts]
    svg = charts.record_risk_histogram(histogram.edges, counts, threshold=risk.threshold).svg(
        name="histogram",
        title="Sample uniques by risk",
        description="Columns with the number of records in each class of risk; the table has the numbers.",
    )
    return Picture(
        svg,
        f"Records that are alone in the file{'' if swap is None else ' before protection'}, by the probability that they are alone in the population. "
        f"Columns from the threshold of {risk.threshold:g} on are in red.",
    )


def _histogram_after(swap: SwapSummary, risk: RiskSummary) -> Picture | None:
    state, before = swap.released, risk.histogram
    if state is None or not state.counts:
        return None
    threshold = risk.threshold
    counts_before = [n for n in before.counts if isinstance(n, int)]
    has_same_classes = before.edges == state.edges and len(counts_before) == len(before.counts)
    svg = charts.record_risk_histogram(
        state.edges, state.counts, threshold=threshold, before=counts_before if has_same_classes else None
    ).svg(
        name="histogram-after",
        title="Sample uniques by risk, after protection and before",
        description="The number of records in each class of risk in the released file, beside that before; the table has the numbers.",
    )
    above = state.records_above_threshold
    return Picture(
        svg,
        f"Records that are alone in the file, by their risk. After protection {number(above)} of {number(state.sample_uniques)} "
        f"{'is' if above == 1 else 'are'} at the threshold of {threshold:g} or above; before, {number(risk.records_above_threshold)} of "
        f"{number(risk.sample_uniques)} were.",
    )


def _concentration(summary: RunSummary) -> Picture | None:
    before, swap = summary.concentration, summary.swap
    after = () if swap is None or swap.released is None else swap.released.concentration
    if len(before) < 3:
        return None
    svg = charts.concentration(before, after).svg(
        name="concentration",
        title="How risk is concentrated",
        description="A curve of the share of the expected population uniques that the riskiest records hold; the table has the numbers.",
    )
    first = _half_of(before)
    if swap is None:
        return Picture(svg, f"{first[:1].upper()}{first[1:]}.")
    now = f"After protection {_half_of(after)}; before, {first}." if after else f"Before protection {first}."
    return Picture(svg, now)


def _half_of(points: Sequence[Concentration]) -> str:
    """How few records hold at least half of the risk."""
    half = next((point for point in points if point.share >= 0.5), points[-1])
    return (
        f"the {number(half.records)} riskiest of {number(points[-1].records)} sample uniques hold {percent(half.share)} of the expected "
        "population uniques"
    )


def _key_costs(risk: RiskSummary) -> Picture | None:
    if not any(cost.without is not None for cost in risk.key_costs):
        return None
    svg = charts.key_costs(risk.key_costs, with_all=risk.expected_population_uniques).svg(
        name="costs",
        title="What each key costs",
        description="For each key the expected number of population uniques when it is left out or made coarser; the table has the numbers.",
    )
    best = min((cost for cost in risk.key_costs if cost.without is not None), key=lambda cost: cost.without or 0.0)
    return Picture(
        svg,
        f"Leaving out {best.key} would help most: {expected(best.without or 0.0)} instead of {expected(risk.expected_population_uniques)} "
        "records could then be recognised. The dashed line is the file with all keys.",
    )


def _estimators(summary: RunSummary) -> Picture | None:
    risk = summary.risk
    failed = {row.name for row in risk.estimator_details if not row.converged}
    values = {name: value for name, value in risk.estimators.items() if value is not None and name not in failed}
    if not values:
        return None
    truth = None if summary.truth is None else summary.truth.population_uniques
    # The interval belongs to the estimator behind the run's own number.
    main = min(values, key=lambda name: abs(values[name] - risk.expected_population_uniques))
    svg = charts.estimators(
        {estimator_name(name): value for name, value in values.items()},
        interval=risk.interval,
        truth=float(truth) if isinstance(truth, int) else None,
        main=estimator_name(main),
    ).svg(
        name="estimators",
        title="Estimates of the number of population uniques",
        description="A dot for each estimator on one axis; the table has the numbers and what each assumes.",
    )
    line = " The dashed line is the truth, which is known for this file." if isinstance(truth, int) else ""
    return Picture(
        svg,
        f"{len(values)} {'estimates lie' if len(values) > 1 else 'estimate lies'} between {expected(min(values.values()))} and "
        f"{expected(max(values.values()))}, because they assume different things. The bar is the interval of the number used in this report.{line}",
    )


def _sizes(risk: RiskSummary) -> Picture | None:
    rows = () if risk.diagnostics is None else risk.diagnostics.size_indices
    if not rows:
        return None
    svg = charts.size_indices(rows).svg(
        name="sizes",
        title="Cells by size, observed and expected",
        description="Columns are the observed numbers of cells, lines those expected under the model; the table has the numbers.",
    )
    worst = max(rows, key=lambda row: abs(float(row.observed) - row.expected))
    return Picture(
        svg,
        f"The two differ most at cells with {worst.size} {'record' if str(worst.size) == '1' else 'records'}: {number(worst.observed)} in the file, "
        f"{expected(worst.expected)} expected by the model.",
    )


def _before_after(swap: SwapSummary) -> Picture:
    pairs = [(name, of(swap.risk_before), of(swap.risk_after)) for name, of in MEASURES[:2]]
    svg = charts.before_after(
        {name: before or 0.0 for name, before, _ in pairs}, {name: after or 0.0 for name, _, after in pairs}
    ).svg(
        name="before-after",
        title="Risk before and after swapping",
        description="; ".join(f"{name}: {number(before)} before, {number(after)} after" for name, before, after in pairs) + ".",
    )
    links = pairs[1] if len(pairs) > 1 else pairs[0]
    return Picture(
        svg,
        f"An intruder who links each record to the nearest person is right {expected(links[1] or 0.0)} times before and {expected(links[2] or 0.0)} times after; "
        "every swapped record was tried, too.",
    )


def _frontier(swap: SwapSummary) -> Picture | None:
    if len(swap.frontier) < 2:
        return None
    target = None if swap.target is None else swap.target.max_population_uniques
    svg = charts.frontier(swap.frontier, target=target).svg(
        name="frontier",
        title="Risk left against values changed",
        description="A falling line: the more values are changed, the fewer population uniques are left; the table has the numbers.",
    )
    first, last = swap.frontier[0], swap.frontier[-1]
    half = swap.frontier[len(swap.frontier) // 2]
    gone = first.expected_population_uniques - last.expected_population_uniques
    share = (first.expected_population_uniques - half.expected_population_uniques) / gone if gone > 0.0 else 0.0
    return Picture(
        svg,
        f"The first {number(half.values_changed)} of {number(last.values_changed)} changed values bring {percent(share)} of what all of them bring.",
    )


def _commonest_decade(decades: Mapping[str, Count]) -> str:
    label, n = max(labelled_decades(decades), key=lambda row: row[1])
    total = sum(int(n) for n in decades.values())
    return (
        f"Of {number(total)} sample uniques most, {number(n)}, have a cell probability from {decade(label)} on." if total else ""
    )


# Who is at risk? Pictures of the groups of every key and every column with a role, before and after protection.


MOST_GROUPS = 15
"""Most groups of a column that a picture shows."""


def group_pictures(summary: RunSummary) -> list[tuple[str, Picture]]:
    """Draw a picture for every column whose groups are reported, starting with the column of the riskiest group."""
    pictures = []
    for column, of_column in groupby(summary.groups, key=lambda group: group.key):
        groups = sorted(of_column, key=lambda group: -group.expected)
        if len(groups) > 1 and groups[0].expected > 0.0:
            pictures.append((max(_share(group) for group in groups), column, groups))
    in_order = sorted(pictures, key=lambda ranked: -ranked[0])
    return [(column, _picture(column, groups, place)) for place, (_, column, groups) in enumerate(in_order)]


def _share(group: GroupRisk) -> float:
    return group.expected / group.records if group.records else 0.0


def _picture(column: str, groups: Sequence[GroupRisk], place: int) -> Picture:
    has_after = groups[0].expected_after is not None
    riskiest = max(groups, key=_share)
    svg = charts.group_risk(groups[:MOST_GROUPS]).svg(
        name=f"groups-{place}",
        title=f"{_counted_by(groups[0].expected_recognised)} by {column}",
        description=f"A line for each group of {column}, the riskiest first; the table of groups has the numbers.",
    )
    return Picture(svg, _caption(column, groups, riskiest, has_after))


def _caption(column: str, groups: Sequence[GroupRisk], riskiest: GroupRisk, has_after: bool) -> str:
    sentence = (
        f"The riskiest group of {column} for its size is {riskiest.level}: {expected(riskiest.expected)} of "
        f"{counted(riskiest.records, 'record')}, {percent(_share(riskiest))}, could be recognised"
    )
    if has_after:
        swapped = (riskiest.swapped or 0) / riskiest.records if riskiest.records else 0.0
        sentence += f" before protection and {expected(riskiest.expected_after or 0.0)} after; {percent(swapped)} of it {verb(riskiest.swapped or 0, 'was', 'were')} swapped"
    left_out = len(groups) - MOST_GROUPS
    more = f" {number(left_out)} groups with less risk are left out of the picture." if left_out > 0 else ""
    return f"{sentence}.{more}"


# What is a picture of the report?


@dataclass(frozen=True)
class Picture:
    """An ``svg`` element, and what to look for in it."""

    svg: str
    caption: str
