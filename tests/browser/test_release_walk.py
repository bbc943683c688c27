"""Recode, plan, release, compare: clicked through at desktop and phone width."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.test_app_walk import LONGEST_RUN, address, check, folder

__all__ = ["address", "folder"]

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.mark.parametrize(("width", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_recode_plan_release_compare(
    folder: Path, address: str, new_page: Callable[..., Any], screenshot: Callable[..., Path], width: str, scheme: str
) -> None:
    page = new_page(width, scheme=scheme)
    page.goto(address)
    page.wait_for_url("**/data")
    page.get_by_role("link", name="people.csv").click()
    page.wait_for_selector("[data-keys-form]")
    page.get_by_label("Number of units the sample was drawn from").fill("50.000")
    page.get_by_label("How age is to be released").fill("5-year bands")
    page.get_by_label("Folder for the results").fill("bands")
    check(page, f"recode-{width}", screenshot)
    page.get_by_role("button", name="Estimate the risk").click()
    page.wait_for_url("**/run?name=bands", timeout=LONGEST_RUN)
    assert page.get_by_text("bands of 5").first.is_visible()

    page.get_by_role("link", name="Plan a release").click()
    page.get_by_label("Correct links to expect, at most").fill("0,8")
    check(page, f"plan-{width}", screenshot)
    page.get_by_role("button", name="Find ways").click()
    page.wait_for_url("**/plan/*", timeout=LONGEST_RUN)
    check(page, f"frontier-{width}", screenshot)
    ways = page.locator("input[name='point']")
    assert ways.count() >= 1
    page.locator("figure a").last.click()
    assert ways.last.is_checked()
    page.get_by_label("Folder for the results").fill("released")
    page.get_by_role("button", name="Release the file this way").click()
    page.wait_for_url("**/run?name=released", timeout=LONGEST_RUN)
    check(page, f"released-{width}", screenshot)
    assert (folder / "released" / "protected.csv").exists()

    page.get_by_role("link", name="Runs").first.click()
    page.get_by_label("Compare bands").check()
    page.get_by_label("Compare released").check()
    page.get_by_role("button", name="Compare the ticked runs").click()
    page.wait_for_url("**/compare?*")
    check(page, f"compare-{width}", screenshot)
    assert page.get_by_text("after protection").first.is_visible()
