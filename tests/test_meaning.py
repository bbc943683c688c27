"""Every table of a report has a link to what it means, in the same page."""

from __future__ import annotations

import re

import pytest

import rarecell as rc
from rarecell import datasets
from rarecell.report import render_report
from rarecell.report.sentences import GLOSSARY
from rarecell.report.table import meanings, meanings_of


def test_a_line_of_the_reference_becomes_a_sentence() -> None:
    keys = meanings()["k-anonymity"]
    assert keys.sentence.startswith("A row is a size k, and how many records share their values with fewer than k. Look at ")
    assert keys.sentence.endswith("More in the documentation: howto/thresholds.")
    assert all("`" not in m.sentence and "{doc}" not in m.sentence and ".." not in m.sentence for m in meanings().values())
    assert list(meanings_of({"keys", "nowhere"})) == ["keys"]


@pytest.mark.parametrize("edition", ["internal", "external"])
def test_every_table_of_the_report_says_what_it_means(edition: str) -> None:
    keys = ["age", "sex", "marital"]
    found = rc.assess(datasets.census_sample().slice(0, 2_000), keys=keys, population=60_000, model="single")
    page = render_report(found.summary, edition=edition)  # type: ignore[arg-type]
    links = set(re.findall(r'href="#(meaning-[a-z-]+)"', page))
    assert len(links) > 5
    assert links <= set(re.findall(r'id="([^"]+)"', page))
    assert page.count("<caption>") == page.count("What does this mean?")
    words = {f"word-{word.replace(' ', '-')}" for word, _ in GLOSSARY}
    assert {"word-sample-unique", "word-expected-population-uniques", "word-expected-correct-matches"} <= words
    assert set(re.findall(r'href="#(word-[^"]+)"', page)) <= words
