"""Charts are data plus a declarative specification, and become pictures that a page can hold."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rarecell.outcome.summary import KeyCostSummary, RunSummary
from rarecell.outcome.words import power_of_ten
from rarecell.report import charts
from rarecell.report.svg import WIDTH, Scale
from tests.summaries import demo_summary, protected_summary

RISK = demo_summary()["risk"]
SWAP = protected_summary()["swap"]
TYPED = RunSummary.from_dict(protected_summary())
FRONTIER = TYPED.swap.frontier if TYPED.swap is not None else ()

EVERY_CHART = {
    "decades": lambda: charts.cell_probability_decades(RISK["cell_probability_decades"]),
    "merged decades": lambda: charts.cell_probability_decades([("10⁻³–10⁻⁴", 234), ("10⁻⁵", 854)]),
    "histogram": lambda: charts.record_risk_histogram(RISK["histogram"]["edges"], RISK["histogram"]["counts"], threshold=0.2),
    "estimators": lambda: charts.estimators(RISK["estimators"], interval=RISK["interval"], truth=179),
    "key costs": lambda: charts.key_costs(TYPED.risk.key_costs, with_all=201.9),
    "sizes": lambda: charts.size_indices(TYPED.risk.diagnostics.size_indices if TYPED.risk.diagnostics else ()),
    "frontier": lambda: charts.frontier(FRONTIER, target=170),
    "before and after": lambda: charts.before_after(SWAP["risk_before"], SWAP["risk_after"]),
}


def drawn(chart: Any, name: str = "chart") -> ElementTree.Element:
    return ElementTree.fromstring(chart.svg(name=name, title="The title", description="What is to be seen."))


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter("text")]


@pytest.mark.parametrize("name", EVERY_CHART)
def test_every_chart_becomes_a_picture_without_script_fixed_colours_or_foreign_roles(name: str) -> None:
    root = drawn(EVERY_CHART[name]())
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "chart-title chart-desc"
    assert [element.tag for element in root[:2]] == ["title", "desc"]
    assert root[0].text == "The title"
    for element in root.iter():
        assert element.tag not in ("script", "image", "foreignObject", "a")
        assert element is root or not any(attribute == "role" or attribute.startswith("aria-") for attribute in element.attrib)
        assert not {"style", "font-family"} & set(element.attrib)
        for attribute in ("fill", "stroke"):
            colour = element.get(attribute)
            assert colour is None or colour in ("none", "transparent") or colour.startswith("var(--"), (element.tag, colour)


@pytest.mark.parametrize("name", EVERY_CHART)
def test_ids_begin_with_the_name_so_that_a_page_can_hold_many_charts(name: str) -> None:
    ids = [element.get("id") for element in drawn(EVERY_CHART[name](), name="first").iter() if element.get("id")]
    assert ids
    assert len(set(ids)) == len(ids)
    assert all(str(found).startswith("first-") for found in ids)


def test_decades_run_from_common_to_rare_with_their_counts() -> None:
    shown = texts(drawn(charts.cell_probability_decades({"-4": 231, "-10": 1, "-3": 3})))
    assert [text for text in shown if text.startswith("10⁻")] == ["10⁻³", "10⁻⁴", "10⁻¹⁰"]
    assert {"3", "231", "1"} <= set(shown)


def test_columns_above_the_threshold_have_the_colour_of_risk() -> None:
    root = drawn(charts.record_risk_histogram([0, 0.5, 1], [10, 20], threshold=0.5))
    fills = [element.get("fill") for element in root.iter("rect")]
    assert fills.count("var(--risk)") == 1
    assert fills.count("var(--accent)") == 1


def test_a_dominating_column_brings_a_logarithmic_axis_and_says_so() -> None:
    assert any("logarithmic" in text for text in texts(drawn(charts.record_risk_histogram([0, 0.5, 1], [100_000, 3]))))
    assert not any("logarithmic" in text for text in texts(drawn(charts.record_risk_histogram([0, 0.5, 1], [10, 3]))))


def test_bars_begin_at_zero_and_a_logarithmic_axis_has_none() -> None:
    assert not list(drawn(charts.record_risk_histogram([0, 0.5, 1], [100_000, 3])).iter("rect"))
    bars = list(drawn(charts.record_risk_histogram([0, 0.5, 1], [30, 10])).iter("rect"))
    heights = [float(bar.get("height", 0)) for bar in bars]
    assert heights[0] == pytest.approx(3 * heights[1], rel=0.02)
    assert len({round(float(bar.get("y", 0)) + height, 1) for bar, height in zip(bars, heights, strict=True)}) == 1


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=9), st.booleans())
def test_scales_keep_order_and_stay_on_their_axis(values: list[float], may_be_log: bool) -> None:
    scale = Scale.of(values, 10.0, 500.0, may_be_log=may_be_log)
    places = [scale(value) for value in sorted(values)]
    assert all(first <= second + 1e-9 for first, second in itertools.pairwise(places))
    assert all(10.0 - 1e-6 <= place <= 500.0 + 1e-6 for place in [*places, *(scale(tick) for tick in scale.ticks)])
    assert 2 <= len(scale.ticks) <= 9


@given(st.lists(st.tuples(st.text(max_size=30), st.integers(0, 10**7)), min_size=1, max_size=12), st.text(max_size=40))
def test_no_text_leaves_the_picture(rows: list[tuple[str, int]], name: str) -> None:
    for chart in (charts.cell_probability_decades([*rows]), charts.estimators({name: 3.0, "other": 5.0}, truth=4.0)):
        for element in chart.root.iter("text"):
            assert -0.1 <= float(element.get("x", 0)) <= WIDTH + 0.1


def test_the_target_is_drawn_where_it_is() -> None:
    with_target = drawn(charts.frontier(FRONTIER, target=170))
    assert "target 170" in texts(with_target)
    assert not any("target" in text for text in texts(drawn(charts.frontier(FRONTIER))))


def test_a_chart_shows_itself_in_a_notebook() -> None:
    card = charts.estimators({"a": 1.0, "b": 2.0})._repr_html_()
    assert card.startswith("<div style")
    assert "--accent:#0d6273" in card


def test_the_truth_is_drawn_only_when_it_is_known() -> None:
    assert "truth 179" in texts(drawn(charts.estimators(RISK["estimators"], truth=179)))
    assert not any("truth" in text for text in texts(drawn(charts.estimators(RISK["estimators"]))))


def test_far_apart_estimates_share_a_logarithmic_axis_and_zero_keeps_it_linear() -> None:
    assert any("logarithmic" in text for text in texts(drawn(charts.estimators({"a": 1.0, "b": 5000.0}))))
    assert not any("logarithmic" in text for text in texts(drawn(charts.estimators({"a": 0.0, "b": 5000.0}))))


def test_names_of_keys_cannot_break_out_of_the_picture() -> None:
    costs = [KeyCostSummary(key='<script>alert("x")</script>', without=1.0)]
    svg = charts.key_costs(costs, with_all=2.0).svg(name="c", title="<b>", description="</svg>")
    assert "<script" not in svg
    assert "<b>" not in svg
    assert svg.count("</svg>") == 1


def test_power_of_ten() -> None:
    assert power_of_ten(-12) == "10⁻¹²"
