"""Recode, plan, release, compare: clicked through at phone width, and looked at on a desk as well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.test_app_walk import LONGEST_RUN, check, check_everywhere, folder

__all__ = ["folder"]

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_recode_plan_release_compare(
    folder: Path, address: str, new_page: Callable[..., Any], screenshot: Callable[..., Path]
) -> None:
    page = new_page("phone", scheme="dark")
    page.goto(address)
    page.wait_for_url("**/data")
    page.get_by_role("link", name="people.csv").click()
    page.wait_for_selector("[data-keys-form]")
    page.get_by_label("Number of units the sample was drawn from").fill("50.000")
    # The simplest model, so that the walk is about pages and not about models.
    page.get_by_text("More choices", exact=True).click()
    page.get_by_label("Risk comes from").select_option("independence")
    page.get_by_role("button", name="Try coarser keys first").click(no_wait_after=True)
    page.wait_for_selector("[data-tried]", timeout=LONGEST_RUN)
    uniques = page.locator("[data-tried] tr", has_text="Sample uniques").locator("td")
    before = int(uniques.first.inner_text().replace(",", ""))
    page.get_by_label("How age is to be released").fill("10-year bands")
    page.get_by_label("How age is to be released").press("Enter")
    page.wait_for_selector("text=Undo: age, 10-year bands")
    coarse = int(uniques.last.inner_text().replace(",", ""))
    page.get_by_role("link", name="Undo: age").click()
    page.wait_for_selector("text=Nothing to undo")
    page.get_by_role("link", name="bands of 5", exact=True).click()
    page.wait_for_selector("text=Undo: age, bands of 5")
    assert coarse < int(uniques.last.inner_text().replace(",", "")) < before
    assert page.locator("figure svg").is_visible()
    page.locator("#threshold").fill("0,5")
    assert page.locator("[data-threshold]").inner_text() == "0.5"
    check_everywhere(page, "recode", screenshot)
    page.get_by_label("Folder for the results").fill("bands")
    page.get_by_role("button", name="Estimate the risk").click()
    page.wait_for_url("**/run?name=bands", timeout=LONGEST_RUN)
    assert "age was recoded (bands of 5)" in page.locator(".facts").inner_text()

    page.get_by_role("link", name="Plan a release").click()
    page.get_by_label("Correct links to expect, at most").fill("0,8")
    check_everywhere(page, "plan", screenshot)
    page.get_by_role("button", name="Find ways").click()
    page.wait_for_url("**/plan/*", timeout=LONGEST_RUN)
    check_everywhere(page, "frontier", screenshot)
    ways = page.locator("input[name='point']")
    assert ways.count() >= 1
    page.locator("figure a").last.click()
    assert ways.last.is_checked()
    page.get_by_label("Folder for the results").fill("released")
    page.get_by_role("button", name="Release the file this way").click()
    page.wait_for_selector("[data-job]")
    check(page, "progress-phone", screenshot)
    page.wait_for_url("**/run?name=released", timeout=LONGEST_RUN)
    check_everywhere(page, "released", screenshot)
    assert (folder / "released" / "protected.csv").exists()

    page.get_by_role("link", name="Look at the records").click()
    page.get_by_label("Show", exact=True).select_option("swapped")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**state=swapped**")
    check_everywhere(page, "records", screenshot)

    page.get_by_role("link", name="Runs").first.click()
    page.get_by_label("Compare bands").check()
    page.get_by_label("Compare released").check()
    page.get_by_role("button", name="Compare the ticked runs").click()
    page.wait_for_url("**/compare?*")
    check_everywhere(page, "compare", screenshot)
    assert page.get_by_text("after protection").first.is_visible()
