"""The report in a real browser: nothing leaves the page, everybody can read it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rarecell.report import write_report
from tests.browser.conftest import accessibility_faults, overflow, printed_share, sheets
from tests.summaries import demo_summary, protected_summary, typed, typed_records

pytestmark = pytest.mark.browser

SUMMARY = typed(protected_summary() | {"truth": demo_summary()["truth"]})


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("run")
    return {
        "internal": write_report(folder, SUMMARY, typed_records()),
        "external": write_report(folder, SUMMARY, typed_records(), edition="external"),
    }


@pytest.mark.parametrize(
    ("edition", "width", "scheme"),
    [("internal", "desktop", "light"), ("internal", "phone", "dark"), ("external", "desktop", "dark")],
)
def test_the_page_asks_for_nothing_and_passes_the_accessibility_check(
    reports: dict[str, Path], new_page: Callable[..., Any], screenshot: Callable[..., Path], edition: str, width: str, scheme: str
) -> None:
    page = new_page(width, scheme=scheme)
    page.goto(reports[edition].as_uri())
    page.wait_for_load_state("networkidle")
    assert page.asked == [reports[edition].as_uri()]
    assert page.faults == []
    assert page.title().endswith("rarecell report")
    assert overflow(page) <= 0
    assert accessibility_faults(page) == []
    screenshot(page, f"report-{edition}-{width}-{scheme}")


def test_the_page_is_read_without_script(reports: dict[str, Path], new_page: Callable[..., Any]) -> None:
    page = new_page(script=False)
    page.goto(reports["internal"].as_uri())
    assert page.locator("h1").inner_text() == "Do not release"
    assert page.locator(".sentences").inner_text() == "About 158 records could still be recognised, 202 before."
    assert page.locator("svg.picture").count() >= 8


def test_folded_tables_open_by_keyboard_and_are_open_on_paper(reports: dict[str, Path], new_page: Callable[..., Any]) -> None:
    page = new_page()
    page.goto(reports["internal"].as_uri())
    for section in page.locator("details.section > summary").all():
        section.press("Enter")
    table = page.locator("table", has_text="Records that are alone in the file, by their risk")
    assert not table.is_visible()
    page.locator("summary", has_text="Records that are alone in the file").press("Enter")
    assert table.is_visible()
    page.emulate_media(media="print")
    assert not page.locator("nav.contents").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("table", has_text="Sample uniques by the decade").first.bounding_box()["height"] > 50


@pytest.mark.parametrize("edition", ["internal", "external"])
def test_the_first_page_fills_one_sheet_with_room_for_other_fonts(
    tmp_path: Path, new_page: Callable[..., Any], edition: str
) -> None:
    """What a run says depends on its file, and letters are wider on some computers, so that a page that just fits is too full."""
    summary = protected_summary()
    reason = "every partner that was found breaks a rule that holds in all households"
    summary["swap"]["not_swapped"] = [{"reason": reason, "records": k} for k in (122, 41, 5, 2)]
    page = new_page()
    page.goto(write_report(tmp_path, typed(summary), typed_records(), edition=edition).as_uri())
    assert sheets(page.pdf(format="A4")) == 1
    assert printed_share(page) < 0.85


def test_dark_mode_changes_pictures_too(reports: dict[str, Path], new_page: Callable[..., Any]) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        page = new_page(scheme=scheme)
        page.goto(reports["internal"].as_uri())
        colours[scheme] = page.evaluate(
            "[document.body, document.querySelector('svg.picture text')].map((e, k) => getComputedStyle(e)[k ? 'fill' : 'backgroundColor'])"
        )
    assert colours["light"][0] != colours["dark"][0]
    assert colours["light"][1] != colours["dark"][1]


def test_links_lead_to_their_sections(reports: dict[str, Path], new_page: Callable[..., Any]) -> None:
    from playwright.sync_api import expect

    page = new_page()
    page.goto(reports["internal"].as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the result"
    page.locator("nav.contents a", has_text="Glossary").click()
    expect(page.locator("#glossary")).to_be_in_viewport()
    expect(page.locator("#verdict")).not_to_be_in_viewport()
