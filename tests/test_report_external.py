"""The external edition: no value of a record, no small count, neither shown nor left to subtraction."""

from __future__ import annotations

import copy
import csv
import hashlib
import json
import re
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import count as counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import rarecell
from rarecell.outcome.profile import PROFILES, Profile
from rarecell.outcome.summary import RunSummary
from rarecell.report import render_report, write_report
from rarecell.report.edition import FEW, HIDDEN, HIDDEN_FEW, SMALLEST_COUNT, external
from rarecell.report.first_page import first_page
from rarecell.report.rounding import rough_count, rough_interval, rough_up
from rarecell.run.config import RunConfig
from rarecell.run.files import run_name
from tests.summaries import census_summary, protected_summary, typed, typed_records

small_and_large = st.one_of(st.integers(0, 4), st.integers(0, 5000))


def test_counts_of_one_and_two_become_words() -> None:
    summary = census_summary()
    shown = external(typed(summary)).to_dict()
    assert shown["missing"]["records"] == {"age": 3, "citizenship": HIDDEN}
    assert [key["missing_records"] for key in shown["keys"]][4] == HIDDEN
    assert all(row["records"] >= SMALLEST_COUNT for row in shown["risk"]["unsafe_combinations"])
    assert list(shown["cells"]["size_indices"]) == ["1", "2", "3 to 5", "6 to 10", "11 or more"]
    assert shown["cells"]["size_indices"]["11 or more"] == HIDDEN_FEW
    assert shown["risk"]["cell_probability_decades"] == {}


def test_classes_do_not_depend_on_what_is_in_them() -> None:
    """Merging where counts are small would say that they are."""
    summary = census_summary()
    labels = set()
    for counts in ({"1": 1}, {"1": 40, "2": 1, "3": 50}, {"2": 2, "12": 9}, {"1": 5, "30": 1}):
        summary["cells"]["size_indices"] = counts
        shown = external(typed(summary)).cells.size_indices
        labels.add(tuple(shown))
    assert len(labels) == 1


def test_totals_are_the_sums_of_what_is_shown() -> None:
    summary = census_summary()
    summary["risk"] |= {"histogram": {"edges": [0, 0.2, 0.5, 1], "counts": [42, 1, 13]}, "sample_uniques": 56, "threshold": 0.2}
    shown = external(typed(summary))
    assert shown.risk.histogram.counts == (40, HIDDEN, 15)
    assert shown.risk.sample_uniques == shown.cells.size_indices["1"] == 55
    assert shown.risk.records_above_threshold == 15
    summary["risk"]["threshold"] = 0.3
    assert external(typed(summary)).risk.records_above_threshold is None


@given(st.lists(st.integers(0, 6), min_size=1, max_size=10))
def test_a_total_is_not_said_to_be_smaller_than_it_can_be(counts: list[int]) -> None:
    """Several classes with one or two records each hold more than two records together."""
    summary = census_summary()
    edges = [k / len(counts) for k in range(len(counts) + 1)]
    summary["risk"] |= {"histogram": {"edges": edges, "counts": counts}, "sample_uniques": sum(counts), "threshold": 0.0}
    shown = external(typed(summary)).risk.records_above_threshold
    if isinstance(shown, str):
        assert sum(counts) < int(shown.removeprefix("fewer than "))
    else:
        assert isinstance(shown, int)
        assert abs(shown - sum(counts)) <= 2 * len(counts) + 5


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_the_truth_does_not_look_better_than_it_is(before: int, after: int) -> None:
    summary = released_summary()
    summary["truth"] |= {"population_uniques": before, "population_uniques_after": after}
    shown = external(typed(summary)).truth
    assert shown is not None
    for count, exact in ((shown.population_uniques, before), (shown.population_uniques_after, after)):
        assert (count == HIDDEN and exact < SMALLEST_COUNT) if isinstance(count, str) else count is not None and count >= exact


def test_which_relation_suffered_most_is_not_told_from_rounded_numbers() -> None:
    """0.249 became 0.2452 and 0.3951 became 0.3949: rounded, the second seems to have lost more."""
    summary = released_summary()
    summary["swap"]["associations"] = [
        {"key": "age", "column": "race", "before": 0.249, "after": 0.2452, "moved": 30},
        {"key": "sex", "column": "employed", "before": 0.3951, "after": 0.3949, "moved": 30},
    ]
    assert any("age with race suffered most" in sentence for sentence in first_page(typed(summary)).cost)
    outside = first_page(external(typed(summary)), edition="external").cost
    assert not any("suffered most" in sentence for sentence in outside)
    assert any("none fell by more than 0.02" in sentence for sentence in outside)


def test_nothing_that_is_not_known_to_be_harmless_comes_through() -> None:
    summary = protected_summary()
    for part in (summary, summary["risk"], summary["swap"], summary["cells"], summary["keys"][0]):
        part["something_new"] = {"record": 17, "values": ["a secret"]}
    summary["notes"] = ["a secret"]
    assert "secret" not in repr(external(typed(summary)))
    assert "something_new" not in repr(external(typed(summary)))


def test_combinations_that_do_not_occur_stay_inside() -> None:
    # They name values and counts, and say which swaps are impossible.
    assert "structure" not in external(typed(census_summary())).to_dict()


def test_a_few_records_that_could_not_be_swapped_cannot_be_counted() -> None:
    swap = external(typed(protected_summary())).to_dict()["swap"]
    assert swap["swapped"] == "all or nearly all"
    assert swap["not_swapped"] == []
    assert "uniques_vacated" not in swap
    many = protected_summary()
    many["swap"] |= {
        "requested": 60,
        "swapped": 48,
        "not_swapped": [
            {"reason": "a", "records": 9},
            {"reason": "b", "records": 1},
            {"reason": "c", "records": 1},
            {"reason": "d", "records": 1},
        ],
    }
    shown = external(typed(many)).to_dict()["swap"]
    assert shown["swapped"] == 50
    assert shown["not_swapped"] == [{"reason": "a", "records": 10}, {"reason": "other reasons", "records": 5}]
    many["swap"]["not_swapped"] = [{"reason": "a", "records": 9}, {"reason": "b", "records": 1}]
    shown = external(typed(many)).to_dict()["swap"]
    assert shown["not_swapped"] == [{"reason": "other reasons", "records": 10}]


def test_counts_of_those_who_know_who_took_part_stay_inside() -> None:
    """What they find is a count of records of the file, and not an expectation under the model."""
    summary = protected_summary()
    names = ["nearest", "participant", "assignment", "shadow"]
    summary["swap"]["intruders"] = [{"name": name, "knows": "a register", "before": 91.3, "after": 40.7} for name in names]
    shown = external(typed(summary)).swap
    assert shown is not None
    assert [(intruder.name, intruder.before, intruder.after) for intruder in shown.intruders] == [
        ("nearest", 92.0, 41.0),
        ("shadow", 92.0, 41.0),
    ]


def test_nearly_all_swappable_is_not_said() -> None:
    summary = census_summary()
    summary["risk"]["swappable_uniques"] = summary["risk"]["sample_uniques"] - 1
    assert "swappable_uniques" not in external(typed(summary)).to_dict()["risk"]


def test_the_same_cells_are_not_counted_twice() -> None:
    # Numbers of records in small cells, beside numbers of small cells, would give the number of cells of each size.
    summary = census_summary()
    summary["risk"]["k_anonymity"] = {"2": 10, "3": 12, "5": 40}
    shown = external(typed(summary)).risk
    assert shown.k_anonymity == {}
    assert shown.diagnostics is None or shown.diagnostics.size_indices == ()


def test_no_number_of_records_in_any_external_table_is_small(tmp_path: Path) -> None:
    write_report(tmp_path, typed(protected_summary()), typed_records(), edition="external")
    counted: list[Any] = []
    for path in (tmp_path / "tables-external").glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                counted += [
                    row[name]
                    for name in row
                    if name in ("Records", "Cells", "Sample uniques", "Records they single out", "Cells observed")
                ]
    assert len(counted) > 15
    assert not {"1", "2"} & set(counted)
    assert not (tmp_path / "tables").exists()


# ---------------------------------------------------------------------- solving for what is hidden


def could_be(shown: object) -> tuple[float, float]:
    """Which counts are shown as this."""
    if shown == HIDDEN:
        return 0, SMALLEST_COUNT - 1
    if shown == HIDDEN_FEW:
        return 0, FEW - 1
    assert isinstance(shown, int)
    if shown == 0:
        return 0, 0
    candidates = [n for n in range(max(0, shown - 1000), shown + 1000) if n >= SMALLEST_COUNT and rough_count(n) == shown]
    return candidates[0], candidates[-1]


def provable(rows: list[tuple[dict[int, float], float, float]], n_unknown: int, highest: int, unknown: int) -> tuple[int, int]:
    """The least and the largest whole number that an unknown can be, given bounds on weighted sums of the unknowns."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    matrix = np.zeros((len(rows), n_unknown))
    for place, (weights, _, _) in enumerate(rows):
        for column, weight in weights.items():
            matrix[place, column] = weight
    constraint = LinearConstraint(matrix, [low for _, low, _ in rows], [high for _, _, high in rows])
    ends = []
    for sign in (1.0, -1.0):
        cost = np.zeros(n_unknown)
        cost[unknown] = sign
        found = milp(cost, constraints=constraint, integrality=np.ones(n_unknown), bounds=Bounds(0, highest))
        assert found.success, "the true numbers fit what is shown"
        ends.append(round(sign * found.fun))
    return ends[0], ends[1]


def rows_of(shown: RunSummary, n_classes: int) -> list[tuple[dict[int, float], float, float]]:
    """Everything outside that is linear in the numbers of records by risk and of cells by size.

    Unknowns: sample uniques in each class of the histogram, cells of size 2 to 10, cells of more, and the records in these
    beyond eleven each.
    """
    uniques, n_unknown = range(n_classes), n_classes + 11
    size = {s: n_classes + s - 2 for s in range(2, 12)}
    rows: list[tuple[dict[int, float], float, float]] = []
    for k, count in enumerate(shown.risk.histogram.counts):
        rows.append(({k: 1.0}, *could_be(count)))
    for label, count in shown.cells.size_indices.items():
        if label == "1":
            # A total of what the classes show says nothing more than they do.
            counts = shown.risk.histogram.counts
            numbers = sum(n if isinstance(n, int) else 1 for n in counts)
            assert count == (
                rough_count(numbers) if any(isinstance(n, int) for n in counts) else f"fewer than {2 * len(counts) + 1}"
            )
            continue
        first, _, last = label.removesuffix(" or more").partition(" to ")
        sizes = range(int(first), int(last or first) + 1)
        rows.append((dict.fromkeys((size[s] for s in sizes), 1.0), *could_be(count)))
    if isinstance(shown.risk.swappable_uniques, int):
        rows.append((dict.fromkeys(uniques, 1.0), could_be(shown.risk.swappable_uniques)[0], np.inf))
    assert isinstance(shown.records, int)
    weights = {**dict.fromkeys(uniques, 1.0), **{size[s]: float(s) for s in size}, n_unknown - 1: 1.0}
    # Records in cells with more than eleven are possible only where there are such cells.
    rows.append(({n_unknown - 1: 1.0, size[11]: -1e6}, -np.inf, 0))
    rows.append((weights, shown.records, shown.records))
    return rows


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 3), st.integers(0, 60)), min_size=1, max_size=4),
    st.lists(st.one_of(st.integers(0, 3), st.integers(0, 60)), min_size=10, max_size=10),
    st.integers(0, 30),
)
@example([0], [0, 0, 0, 0, 0, 0, 0, 0, 2, 2], 0)
def test_no_count_can_be_proved_to_be_one_or_two(by_risk: list[int], sizes: list[int], beyond: int) -> None:
    """Solve for every count that is not shown, with all that is shown, in whole numbers."""
    counts = {str(size): n for size, n in zip(range(2, 12), sizes, strict=True) if n} | {"1": sum(by_risk)}
    if sizes[-1] and beyond:
        counts["11"] = sizes[-1] - 1
        counts[str(11 + beyond)] = 1
    summary = census_summary()
    summary["records"] = sum(int(size) * n for size, n in counts.items())
    summary["cells"] |= {"occupied": sum(counts.values()), "size_indices": counts}
    edges = [k / len(by_risk) for k in range(len(by_risk) + 1)]
    summary["risk"] |= {
        "sample_uniques": sum(by_risk),
        "histogram": {"edges": edges, "counts": by_risk},
        "threshold": edges[len(by_risk) // 2],
        "records_above_threshold": sum(by_risk[len(by_risk) // 2 :]),
        "swappable_uniques": max(0, sum(by_risk) - 4),
        "cell_probability_decades": {"-4": sum(by_risk)},
        "k_anonymity": {"2": sum(by_risk), "3": sum(by_risk) + 2 * sizes[0]},
    }
    if summary["records"] < SMALLEST_COUNT:
        return
    rows = rows_of(external(typed(summary)), len(by_risk))
    truth = [*by_risk, *sizes, beyond if sizes[-1] else 0]
    for weights, low, high in rows:
        assert low <= sum(weight * truth[column] for column, weight in weights.items()) <= high
    # What is true is possible, so that a count of 0 cannot be proved to be more, and one of three or more not to be less.
    for unknown in (place for place, n in enumerate(truth[:-1]) if n in (1, 2)):
        low, high = provable(rows, len(truth), 10**5, unknown)
        assert low <= truth[unknown] <= high
        assert low == 0 or high > 2, (unknown, low, high, truth)


@given(st.integers(3, 10**6))
def test_a_rounded_count_could_be_one_of_several(count: int) -> None:
    low, high = could_be(rough_count(count)) if count < 5000 else (count - 2, count + 2)
    assert low <= count <= high
    assert high - low >= 4


@given(st.floats(1e-9, 1e9))
def test_a_rounded_risk_is_not_better_than_the_truth(value: float) -> None:
    assert value <= rough_up(value) <= value * 1.11
    low, high = rough_interval((value, 2 * value))
    assert low <= value
    assert high >= 2 * value
    assert low >= value * 0.8


# ---------------------------------------------------------------------- which file a number is about


def released_summary() -> dict[str, Any]:
    """A protected file with the state of what is released, as a run has it."""
    summary = protected_summary()
    summary["truth"] = {
        "population_uniques": 179,
        "correct_matches": 414.58,
        "population_uniques_after": 41,
        "correct_matches_after": 192.3,
    }
    summary["swap"] |= {
        "requested": 60,
        "swapped": 60,
        "values_changed": 120,
        "released": {
            "sample_uniques": 1618,
            "records_above_threshold": 7,
            "edges": [0, 0.5, 1],
            "counts": [1611, 7],
            "k_anonymity": {"2": 1618, "3": 2542},
            "interval": [25.3, 54.2],
            "interval_correct_matches": [174.4, 208.8],
            "concentration": [{"records": 10, "share": 0.5}],
        },
    }
    return summary


def test_the_first_screen_outside_is_about_the_released_file() -> None:
    page = render_report(typed(released_summary()), edition="external")
    first = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page[page.index("<main") : page.index('id="protection"')]))
    for wanted in (
        "All or nearly all of about 60 risky records were swapped with a partner",
        "25 to 55 45",
        "170 to 210 200",
        "Numbers are rounded: risks and expected numbers upwards, counts of records to multiples of five.",
    ):
        assert wanted in first, (wanted, first)
    assert "☐" not in first
    assert "rarecell p" not in first


@given(st.integers(0, 5000), st.integers(0, 5000), st.lists(st.integers(0, 300), min_size=10, max_size=10))
def test_rounded_numbers_rise_and_fall_as_the_exact_ones_do(before: int, after: int, counts: list[int]) -> None:
    summary = released_summary()
    summary["risk"]["sample_uniques"] = before
    summary["risk"]["histogram"]["counts"] = counts
    summary["swap"]["released"]["sample_uniques"] = after
    shown = external(typed(summary))
    assert shown.swap is not None
    assert shown.swap.released is not None
    was, now = shown.risk.sample_uniques, shown.swap.released.sample_uniques
    if isinstance(was, int) and isinstance(now, int):
        assert (now >= was) if after >= before else (now <= was)


def test_every_section_outside_says_which_file_it_is_about() -> None:
    page = render_report(typed(released_summary()), edition="external")
    headings = re.findall(r"<h[23][^>]*>(.*?)</h[23]>", page)
    for wanted in ("What was examined", "How the risk is spread", "What makes records rare", "The model"):
        assert f"{wanted}, before protection" in headings
    assert not any(heading.startswith("How rare the uniques are") for heading in headings), "the numbers of it stay inside"
    assert "Records that are alone in the file before protection, by the probability" in page


def test_what_the_released_file_does_not_show_stays_inside() -> None:
    state = external(typed(released_summary())).swap
    assert state is not None
    assert state.released is not None
    assert (state.released.counts, state.released.k_anonymity, state.released.concentration) == ((), {}, ())
    assert state.released.records_above_threshold is None


def test_likelihoods_and_numbers_in_sentences_are_rounded_too() -> None:
    summary = released_summary()
    summary["risk"]["diagnostics"] |= {
        "sentence": "The sample gives no sign (of 1,962 records drawn from the file, 343 are alone)."
    }
    page = render_report(typed(summary), edition="external")
    assert "AIC 22,026.570" in render_report(typed(summary))
    for exact in ("22,026.57", "1,962", "9,511"):
        assert exact not in page, exact
    assert ".000<" not in page


def test_an_estimate_is_the_same_number_wherever_it_stands() -> None:
    shown_risk = external(typed(released_summary())).risk
    assert shown_risk.estimators["average"] == shown_risk.expected_population_uniques == 210.0


# ---------------------------------------------------------------------- nothing to undo a swap with


def digits_of(text: str) -> int:
    """Significant digits of a number as it is written."""
    plain = re.sub(r"[eE].*$", "", text).replace(",", "").replace(".", "").lstrip("-0")
    return len(plain.rstrip("0"))


def test_of_a_few_swaps_nothing_is_said_but_that_there_were_few() -> None:
    summary = protected_summary()
    summary["swap"] |= {"requested": 4, "swapped": 3, "values_changed": 5}
    swap = external(typed(summary)).swap
    assert swap is not None
    assert (swap.requested, swap.swapped, swap.values_changed) == ("fewer than 10", "fewer than 10", "not shown")
    assert not any((swap.associations, swap.hellinger, swap.frontier))
    assert (swap.share_changed, swap.mean_distance, swap.pmse) == (None, None, None)


def test_a_key_that_few_swaps_moved_is_not_named() -> None:
    summary = protected_summary()
    row = {"column": "income", "before": 0.123456789, "after": 0.12345}
    summary["swap"] |= {
        "requested": 60,
        "swapped": 50,
        "values_changed": 120,
        "associations": [{"key": "age", "moved": 40, **row}, {"key": "sex", "moved": 3, **row}, {"key": "marital", **row}],
    }
    swap = external(typed(summary)).swap
    assert swap is not None
    assert [(found.key, found.before, found.after) for found in swap.associations] == [("age", 0.12, 0.12)]


def test_no_number_of_the_external_tables_or_charts_is_exact(tmp_path: Path) -> None:
    summary = protected_summary()
    summary["swap"] |= {"requested": 60, "swapped": 50, "values_changed": 120}
    page = write_report(tmp_path, typed(summary), typed_records(), edition="external").read_text(encoding="utf-8")
    # What anybody can count in the file, or was told: records, levels, tables that are kept.
    # So are degrees of freedom, which count cells of kept tables.
    public = {"keys.csv", "kept-tables.csv", "missing.csv", "cliques.csv", "model.csv", "vertices.csv"}
    seen = 0
    for path in (tmp_path / "tables-external").glob("*.csv"):
        if path.name in public:
            continue
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                for heading, value in row.items():
                    if row.get("Quantity") != "Degrees of freedom" and re.fullmatch(r"-?[0-9][0-9,.]*(e-?[0-9]+)?", value or ""):
                        seen += 1
                        assert digits_of(value) <= 3, (path.name, heading, value)
    assert seen > 20
    exact = {
        str(summary["risk"]["expected_population_uniques"]),
        str(summary["swap"]["risk_after"]["expected_population_uniques"]),
    }
    assert not any(number in page for number in exact if digits_of(number) > 3)


# ---------------------------------------------------------------------- nothing to prove a guess with

KEYS = ("age", "sex", "region", "job")


def small_file(path: Path, n: int = 120) -> Path:
    generator = np.random.default_rng(5)
    columns = (
        generator.integers(18, 80, n) // 5 * 5,
        generator.choice(["f", "m"], n),
        generator.choice(list("abcdef"), n, p=[0.4, 0.25, 0.15, 0.1, 0.07, 0.03]),
        generator.choice(list("xyzw"), n, p=[0.5, 0.3, 0.15, 0.05]),
    )
    lines = [",".join(str(column[row]) for column in columns) for row in range(n)]
    path.write_text("\n".join([",".join(KEYS), *lines]) + "\n", encoding="utf-8")
    return path


def everything_outside(folder: Path) -> str:
    found = [folder / "report-external.html", *sorted((folder / "tables-external").iterdir())]
    return "\n".join(path.read_text(encoding="utf-8") for path in found)


@pytest.mark.parametrize("formal", [None, {"epsilon": 6}], ids=["swaps", "formal"])
def test_no_fingerprint_of_the_original_travels(tmp_path: Path, formal: dict[str, float] | None) -> None:
    """A hash of the original, or of what is made from it, proves every guess at the swaps: 24 s for one swap of 300 records."""
    path = small_file(tmp_path / "small.csv")
    chosen: dict[str, Any] = {"top": 1} if formal is None else {"formal": formal}
    rarecell.protect(path, keys=KEYS, population=2000, out=tmp_path / "run", **chosen)
    outside = everything_outside(tmp_path / "run")
    inside = (tmp_path / "run" / "tables" / "provenance.csv").read_text(encoding="utf-8")
    original = hashlib.sha256(path.read_bytes()).hexdigest()
    assert original in inside
    assert original[:8] not in outside
    assert hashlib.sha256((tmp_path / "run" / "protected.csv").read_bytes()).hexdigest() in outside


def test_the_name_of_a_release_is_made_from_what_is_known_outside(tmp_path: Path) -> None:
    def unknown() -> str:
        raise AssertionError("the name of a release was made from the original")

    config = RunConfig(input="a/small.csv", keys=KEYS, population=2000)
    found: Any = SimpleNamespace(config=config, data=SimpleNamespace(source=SimpleNamespace(unchanged_hash=unknown)))
    name = run_name(found, "5fa937")
    found.config = replace(config, input="b/small.csv", seed=17)
    assert run_name(found, "5fa937") == name
    assert run_name(found, "5fa938") != name
    found.config = replace(config, population=2001)
    assert run_name(found, "5fa937") != name
    # An assessment is named by its input, so it is not named outside.
    path = small_file(tmp_path / "small.csv")
    rarecell.assess(path, keys=KEYS, population=2000, out=tmp_path / "run")
    run = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))["run"]
    assert run in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert run not in everything_outside(tmp_path / "run")


def other_original(summary: dict[str, Any]) -> dict[str, Any]:
    """The same summary of another original, which the same few swaps could have turned into the same release."""
    other = copy.deepcopy(summary)
    risk, model = other["risk"], other["model"]
    risk["histogram"]["counts"] = [n + 7 * k for k, n in enumerate(risk["histogram"]["counts"])]
    risk["sample_uniques"] += 31
    risk["records_above_threshold"] += 9
    risk["swappable_uniques"] = 17
    risk["estimators"] = dict.fromkeys(risk["estimators"], 3.5)
    risk["key_costs"] = risk["key_costs"][:1]
    risk["unsafe_combinations"] = [{"variables": ["age", "sex"], "records": 77}]
    risk["key_contributions"] = {"age": 0.123}
    risk["diagnostics"] = {"sentence": "The model does not fit (of 60 records drawn, 3 are alone).", "statistics": []}
    other["cells"] |= {"occupied": 17, "size_indices": {"1": 11, "2": 6}}
    model |= {"aic": 12.5, "bic": 13.5, "log_likelihood": -3.25, "log_likelihood_kernel": -4.5, "deviance": 9.25}
    model["describe"] = "decomposable model; AIC 12.500"
    model["search"] |= {"starts": 3, "times_met": 2}
    return other


def test_of_a_file_with_few_swaps_nothing_else_that_tells_originals_apart_is_shown(tmp_path: Path) -> None:
    summary = protected_summary()
    summary["swap"] |= {"requested": 4, "swapped": 3, "values_changed": 5}
    other = other_original(summary)
    assert external(typed(summary)) == external(typed(other))
    few = write_report(tmp_path, typed(summary), typed_records(), edition="external").read_text(encoding="utf-8")
    assert "Few records were changed." in few
    assert "Every record that was to be swapped was swapped" not in few
    assert not {"unsafe-combinations.csv", "record-risk.csv", "size-indices.csv", "estimators.csv"} & {
        path.name for path in (tmp_path / "tables-external").iterdir()
    }
    # The check can fail: of many swaps these are shown, rounded.
    for one in (summary, other):
        one["swap"] |= {"requested": 60, "swapped": 50, "values_changed": 120}
    assert external(typed(summary)) != external(typed(other))


def test_no_sentence_of_the_external_edition_has_an_exact_number() -> None:
    summary = protected_summary()
    summary["swap"] |= {"requested": 60, "swapped": 50, "values_changed": 120}
    summary["model"]["describe"] = summary["risk"]["model_describe"] = "decomposable model; 34 degrees of freedom, AIC 1,490.639"
    summary["model"]["search"] |= {
        "certified_optimal": True,
        "sentence": "Certified: no decomposable model has a better aic score (exact search, 48 sets scored).",
        "conclusion": "Certified: no decomposable model has a better aic score.",
    }
    said = "The sample gives no sign that the risk is over- or understated (z = -0.2 (1); 213 sample uniques, 206 expected)."
    summary["risk"]["diagnostics"] = {"sentence": said, "conclusion": f"{said.partition(' (')[0]}.", "statistics": []}
    shown = external(typed(summary))
    assert "1,490" not in repr(shown)
    assert shown.model.search.sentence == "Certified: no decomposable model has a better aic score."
    assert shown.risk.diagnostics is not None
    assert shown.risk.diagnostics.sentence == "The sample gives no sign that the risk is over- or understated."
    assert (shown.model.aic, shown.model.log_likelihood, shown.model.deviance) == (None, None, None)
    named = "The model was named by the user."
    summary["model"]["search"] |= {"certified_optimal": False, "method": "given", "sentence": named, "conclusion": named}
    assert external(typed(summary)).model.search.sentence == "The model was named by the user."


def test_blanked_values_are_neither_counted_nor_denied(tmp_path: Path) -> None:
    """The file shows the blanks; how many values were missing before would say which of them were blanked."""
    path = small_file(tmp_path / "small.csv")
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[5] = lines[5].rpartition(",")[0] + ","
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = rarecell.protect(path, keys=KEYS, population=2000, top=2, suppress_rest=True, out=tmp_path / "run")
    assert done.summary.swap is not None
    assert done.summary.swap.suppression is not None
    assert isinstance(done.summary.swap.suppression.values, int)
    assert done.summary.swap.suppression.values > 0
    page = (tmp_path / "run" / "report-external.html").read_text(encoding="utf-8")
    assert "except for the values that were blanked" in page
    assert "Missing values are not counted here" in page
    with (tmp_path / "run" / "tables-external" / "keys.csv").open(encoding="utf-8", newline="") as stream:
        assert {row["Records without a value"] for row in csv.DictReader(stream)} == {"not shown"}


# ---------------------------------------------------------------------- every field there is


def filled(kind: Any, numbers: Any) -> Any:
    """A value of a type with every field given, and no number that is round."""
    if kind is Profile:
        return PROFILES["public"]
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        given = {field.name: filled(hints[field.name], numbers) for field in fields(kind)}
        if "edges" in given and "counts" in given:
            # Two edges are those of one class.
            given["counts"] = given["counts"][:1]
        return kind(**given)
    origin, of = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return filled(next(part for part in of if part is not type(None)), numbers)
    if origin is tuple:
        return tuple(filled(part, numbers) for part in (of[:1] * 2 if of[-1] is Ellipsis else of))
    if origin in (dict, Mapping):
        return {"17": filled(of[1], numbers)}
    made = {bool: True, int: 10_007 + 101 * next(numbers), float: 0.1234567 + 0.0001001 * next(numbers), str: "text"}
    return made[kind]


def exact_numbers(plain: Any, where: str = "") -> set[str]:
    """Where a number stands that has more than two digits."""
    if isinstance(plain, Mapping):
        return set().union(*(exact_numbers(part, f"{where}.{name}") for name, part in plain.items()))
    if isinstance(plain, list):
        return set().union(*(exact_numbers(part, where) for part in plain))
    is_number = isinstance(plain, int | float) and not isinstance(plain, bool)
    return {where.removeprefix(".")} if is_number and float(f"{plain:.1e}") != plain else set()


HARMLESS = {
    # What anybody can count in the released file, or what was given by the user.
    *("records", "records_dropped", "population", "sampling_fraction", "risk.threshold", "risk.histogram.edges"),
    *("keys.levels", "keys.coarsenings.levels", "cells.formal", "risk.register.people", "risk.families.places"),
    *("model.vertices.levels", "model.separators.multiplicity", "model.degrees_of_freedom", "risk.key_costs.coarsened.levels"),
    *("swap.margins.cells", "swap.file.columns", "swap.file.limit"),
    # What was asked of a formal release, and what follows from tables that stay as they are.
    *("swap.requested", "swap.formal.statement.epsilon", "swap.formal.statement.edges.epsilon", "swap.formal.statement.rare"),
    *("swap.formal.statement.expected_records_changed", "swap.formal.statement.expected_uniques_changed"),
}


@pytest.mark.parametrize("is_formal", [False, True])
def test_no_number_of_the_original_comes_through_exactly_whatever_field_it_is_in(is_formal: bool) -> None:
    summary: RunSummary = filled(RunSummary, counter())
    assert summary.swap is not None
    if not is_formal:
        summary = replace(summary, swap=replace(summary.swap, formal=None))
    assert "risk.highest" in exact_numbers(summary.to_dict())
    assert exact_numbers(external(summary).to_dict()) - HARMLESS == set()
