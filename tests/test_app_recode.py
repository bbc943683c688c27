"""The page that tries coarser keys: at once, from counts, with undo."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import pytest

from rarecell.app.runs import MOST, Drafts
from tests.app_client import Browser
from tests.test_app import folder, wait
from tests.test_app_release import OTHERS, ROLES

__all__ = ["folder"]

CHOICES = {"file": "people.csv", "population": "100.000", "model": "independence", **ROLES, **OTHERS}


@pytest.fixture
def browser(folder: Path) -> Iterator[Browser]:
    made = Browser(folder)
    yield made
    made.pages.close()


def followed(browser: Browser, answer: Any) -> tuple[str, str]:
    """Where an answer leads to, and the page there."""
    place = answer.headers["location"].removeprefix(browser.gate.base)
    return place, browser.get(place).text


def row(page: str, heading: str) -> list[str]:
    """The two numbers of a line of the table."""
    found = re.search(rf"<th scope=\"row\">{heading}.*?</tr>", page, flags=re.DOTALL)
    assert found is not None
    return re.findall(r"<td class=\"number\"[^>]*>(.*?)</td>", found.group())


def test_a_recoding_is_tried_without_a_run_and_undone(browser: Browser, folder: Path) -> None:
    place, page = followed(browser, browser.post("/try", CHOICES))
    before, after = row(page, "Sample uniques")
    assert before == after
    assert "Nothing to undo" in page

    tried, page = followed(browser, browser.get(f"{place}&key=age&words=10-year+bands"))
    assert "step=age%3D10-year+bands" in tried
    assert int(row(page, "Sample uniques")[1]) < int(before)
    assert row(page, "Sample uniques")[0] == before
    assert "Distribution of age before and after" in page
    assert "Undo: age, 10-year bands" in page
    undo = re.search(r'href="([^"]+)">Undo', page)
    assert undo is not None
    assert undo.group(1).removeprefix(browser.gate.base) == place
    assert not list(folder.rglob("run.json"))


def test_levels_are_merged_by_clicking_and_taken_apart_again(browser: Browser) -> None:
    place, page = followed(browser, browser.post("/try", CHOICES))
    boxes = re.findall(r'name="group" value="([0-9]+)"><span>([^<]*)</span>', page)
    position = {shown: number for number, shown in boxes}
    assert set(position) == {"01", "02", "03"}
    answer = browser.get(f"{place}&key=region&act=merge&label=rest&group={position['02']}&group={position['03']}")
    tried, page = followed(browser, answer)
    assert "merge 02+03 as rest" in unquote_plus(tried)
    assert tried.endswith("#key-3")
    assert "<span>02 + 03</span>" in page
    rest = {shown: number for number, shown in re.findall(r'name="group" value="([0-9]+)"><span>([^<]*)</span>', page)}["02 + 03"]
    _, page = followed(browser, browser.get(tried.replace("#key-3", f"&key=region&act=apart&group={rest}")))
    assert "<span>02 + 03</span>" not in page
    refused = browser.get(f"{place}&key=region&act=merge&group={position['02']}")
    assert refused.status_code == 400
    assert "at least two" in refused.text
    assert browser.get(f"{place}&key=nokey&act=merge").status_code == 400


def test_the_threshold_changes_without_a_run(browser: Browser) -> None:
    place, page = followed(browser, browser.post("/try", {**CHOICES, "population": "800"}))
    low, high = (int(row(browser.get(f"{place}&threshold={at}").text, "Records with a risk")[0]) for at in ("0,01", "0.9"))
    assert int(row(page, "Sample uniques")[0]) >= low > high
    assert "lies between 0 and 1" in browser.get(f"{place}&threshold=7").text


def test_what_cannot_be_tried_is_told_and_the_page_stays(browser: Browser) -> None:
    place, _ = followed(browser, browser.post("/try", CHOICES))
    answer = browser.get(f"{place}&step=age%3D10-year+bands&step=sex%3Dfive+bands")
    assert answer.status_code == 400
    assert "not understood" in answer.text
    assert "Undo: age, 10-year bands" in answer.text
    assert browser.get(f"{place}&step=nokey%3Dtop+5").status_code == 400
    assert "are gone" in browser.get("/recode?draft=99").text
    assert browser.post("/try", {**CHOICES, "population": "x"}).status_code == 400


@pytest.mark.slow
def test_what_was_tried_is_run_and_tried_again_from_the_run(browser: Browser) -> None:
    place, _ = followed(browser, browser.post("/try", CHOICES))
    place += "&step=age%3D10-year+bands"
    _, keys = followed(browser, browser.post(f"{place}&threshold=0,3", {"then": "keys"}))
    assert 'value="10-year bands"' in keys
    assert 'name="threshold" inputmode="decimal" value="0.3"' in keys
    started = browser.post(place, {"run_name": "coarse"})
    _, told = wait(browser, started.headers["location"])
    assert told["state"] == "done", told
    page = browser.get("/recode?name=coarse").text
    taken = browser.post("/recode?name=coarse", {"run_name": "coarse"})
    assert taken.status_code == 400
    assert 'data-field="run_name"' in taken.text
    assert "What would coarser keys change?" in taken.text
    # Choices of the run that the page does not show stay as they were.
    _, keys = followed(browser, browser.post("/recode?name=coarse", {"then": "keys"}))
    assert '<input type="hidden" name="base" value="coarse">' in keys
    assert int(row(page, "Sample uniques")[1]) < int(row(page, "Sample uniques")[0])
    assert 'value="10-year bands"' in page


def test_a_limited_number_of_drafts_is_kept() -> None:
    drafts = Drafts()
    numbers = [drafts.keep({"n": [str(n)]}) for n in range(MOST + 5)]
    assert drafts.of(str(numbers[0])) == {}
    assert drafts.of(str(numbers[-1])) == {"n": [str(MOST + 4)]}
    assert drafts.of("x") == drafts.of("9" * 30) == {}
