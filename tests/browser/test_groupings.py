"""Levels merged by clicking, edges of bands dragged or moved by keys, dates by month: at desktop and phone width."""

from __future__ import annotations

import csv
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser.test_app_walk import LONGEST_RUN, check

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(12)
    with (tmp_path / "people.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["age", "sex", "job", "hired"])
        for _ in range(400):
            hired = datetime.date(2019, 1, 1) + datetime.timedelta(int(rng.integers(0, 900)))
            job = rng.choice(["farmer", "clerk", "nurse", "teacher", "cook"])
            writer.writerow([rng.integers(18, 80), rng.choice(["f", "m"]), job, hired])
    return tmp_path


@pytest.mark.parametrize(("width", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_groupings_by_hand(
    folder: Path, address: str, new_page: Callable[..., Any], screenshot: Callable[..., Path], width: str, scheme: str
) -> None:
    page = new_page(width, scheme=scheme)
    page.goto(address)
    page.wait_for_url("**/data")
    page.get_by_role("link", name="people.csv").click()
    page.wait_for_selector("[data-keys-form]")
    for key in ("age", "sex", "job", "hired"):
        page.locator(f"select[name='role:{key}']").select_option("key")
    page.get_by_label("Number of units the sample was drawn from").fill("50000")
    page.get_by_role("button", name="Try coarser keys first").click(no_wait_after=True)
    page.wait_for_selector("[data-tried]", timeout=LONGEST_RUN)

    # Levels are merged with the pointer, and taken apart with keys alone.
    job = page.locator("#key-3")
    job.get_by_text("Merge levels").click()
    job.get_by_text("nurse", exact=True).click()
    job.get_by_text("teacher", exact=True).click()
    job.get_by_label("Name of the merged level").fill("public service")
    job.get_by_role("button", name="Merge", exact=True).click()
    page.wait_for_selector("#key-3 >> text=nurse + teacher")
    assert page.get_by_label("How job is to be released").input_value() == 'merge nurse+teacher as "public service"'
    both = job.get_by_role("checkbox", name="nurse + teacher")
    # A key that is pressed while the page still loads is lost.
    page.wait_for_load_state("load")
    both.press("Space")
    assert both.is_checked()
    check(page, f"merge-{width}", screenshot)
    job.get_by_role("button", name="Take apart").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Undo: job, as it is")
    assert page.get_by_label("How job is to be released").input_value() == ""

    # Edges are added, moved by keys, dragged, and removed.
    age = page.locator("#key-1")
    age.get_by_text("Set the bands by hand").click()
    assert "No edges yet" in age.locator("[data-bands-told]").inner_text()
    age.get_by_role("button", name="Add an edge").click()
    age.get_by_role("button", name="Add an edge").click()
    edges = age.get_by_role("slider")
    assert edges.count() == 2
    first = edges.first
    start = int(first.get_attribute("aria-valuenow"))
    first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("PageUp")
    assert int(first.get_attribute("aria-valuenow")) == start + 6
    box = first.locator("circle").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 - 40, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    dragged = int(first.get_attribute("aria-valuenow"))
    assert dragged < start + 6
    other = int(edges.last.get_attribute("aria-valuenow"))
    told = age.locator("[data-bands-told]").inner_text()
    assert f"below {min(dragged, other)}" in told
    check(page, f"bands-{width}", screenshot)
    age.get_by_role("button", name="Try these bands").click()
    low, high = sorted((dragged, other))
    page.wait_for_selector(f"text=Undo: age, edges {low} {high}")
    assert "3" in age.locator("h3").inner_text()
    age.get_by_role("slider").first.focus()
    page.keyboard.press("Delete")
    assert age.get_by_role("slider").count() == 1
    assert f"below {high}" in age.locator("[data-bands-told]").inner_text()

    # Dates go by month or year.
    page.locator("#key-4").get_by_role("link", name="date to year").click()
    page.wait_for_selector("text=Undo: hired, date to year")
    assert "3" in page.locator("#key-4 h3").inner_text()
    screenshot(page, f"app-dates-{width}")
    assert page.faults == []
