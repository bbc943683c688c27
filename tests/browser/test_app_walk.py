"""From the file to the protected file, clicked through on a desk, and looked at on a phone as well."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser.conftest import WIDTHS, accessibility_faults, overflow

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LONGEST_RUN = 240_000
"""Milliseconds that a run may take on a busy machine."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(11)
    with (tmp_path / "people.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["person", "age", "sex", "region", "job", "income"])
        for k in range(500):
            writer.writerow(
                [
                    f"P{k:04d}",
                    rng.integers(18, 80),
                    rng.choice(["f", "m"]),
                    rng.choice(["01", "02", "03"]),
                    rng.integers(1, 9),
                    k * 37 % 9000,
                ]
            )
    return tmp_path


def check(page: Any, name: str, screenshot: Callable[..., Path]) -> None:
    """A page as everybody should meet it."""
    assert page.faults == [], name
    assert overflow(page) <= 0, name
    assert accessibility_faults(page) == [], name
    screenshot(page, f"app-{name}")


def check_everywhere(page: Any, name: str, screenshot: Callable[..., Path]) -> None:
    """The same on a desk by day and on a phone at night, whichever of the two is used to go on."""
    own = page.viewport_size
    for width, scheme in (("desktop", "light"), ("phone", "dark")):
        page.set_viewport_size(dict(zip(("width", "height"), WIDTHS[width], strict=True)))
        page.emulate_media(color_scheme=scheme)
        check(page, f"{name}-{width}", screenshot)
    page.set_viewport_size(own)
    page.emulate_media(color_scheme=page.scheme)


def test_the_whole_way(folder: Path, address: str, new_page: Callable[..., Any], screenshot: Callable[..., Path]) -> None:
    page = new_page()
    page.goto(address)
    page.wait_for_url("**/data")
    check_everywhere(page, "data", screenshot)

    page.get_by_role("link", name="people.csv").click()
    page.wait_for_selector("[data-keys-form]")
    assert page.locator("select[name='role:age']").input_value() == "key"
    assert page.locator("select[name='role:person']").input_value() == "id"
    page.get_by_label("Number of units the sample was drawn from").fill("50.000")
    assert page.get_by_label("How income is to be released").is_disabled()
    assert "4 keys with" in page.locator("[data-keys-told]").inner_text()
    assert "1.0 % of the population" in page.locator("[data-keys-told]").inner_text()
    check_everywhere(page, "keys", screenshot)

    page.get_by_role("button", name="Estimate the risk").click()
    page.wait_for_selector("[data-job]")
    check(page, "progress-desktop", screenshot)
    page.wait_for_url("**/run?name=people-1", timeout=LONGEST_RUN)
    assert page.locator("h1").inner_text() in ("Do not release", "Release after a look", "Release")
    assert "could be recognised" in page.locator(".sentences").inner_text()
    check_everywhere(page, "risk", screenshot)
    page.get_by_text("The same run in the terminal").click()
    assert 'keys = ["age", "sex", "region", "job"]' in page.locator("#run-toml").inner_text()

    page.get_by_role("link", name="Protect the risky records").first.click()
    page.wait_for_selector("[data-range]")
    slider = page.locator("[data-range]")
    records = page.locator("[data-cost] [data-records]")
    slider.fill("0")
    everybody = int(records.inner_text().split()[0].replace(",", ""))
    slider.fill("90")
    assert page.get_by_label("Threshold", exact=True).input_value() == "0.9"
    assert int(records.inner_text().split()[0].replace(",", "")) <= everybody
    for written, shown in (("0,9", "90"), ("0.2", "20")):
        page.get_by_label("Threshold", exact=True).fill(written)
        assert slider.input_value() == shown
    page.get_by_label("Threshold", exact=True).fill("20 %")
    assert not records.is_visible()
    page.get_by_label("Records", exact=True).fill("8")
    assert page.get_by_role("radio", name="the riskiest records, this many").is_checked()
    check_everywhere(page, "protect", screenshot)

    page.get_by_role("button", name="Protect").click()
    page.wait_for_url("**/run?name=people-protected-1", timeout=LONGEST_RUN)
    assert not page.locator("#protection").is_visible()
    page.get_by_role("heading", name="What protection changed").click()
    assert page.locator("#protection").is_visible()
    check_everywhere(page, "results", screenshot)
    # What stays in the office is offered behind a line that says so.
    assert not page.get_by_role("link", name="protected.csv").is_visible()
    page.get_by_text("Download the results: internal, do not share").click()
    with page.expect_download() as started:
        page.get_by_role("link", name="protected.csv").click()
    saved = folder / "downloaded.csv"
    started.value.save_as(saved)
    original, protected = (list(csv.reader(path.open(encoding="utf-8", newline=""))) for path in (folder / "people.csv", saved))
    assert len(original) == len(protected)
    assert original != protected
    unchanged = [original[0].index(name) for name in ("person", "income")]
    assert all(before[k] == after[k] for before, after in zip(original, protected, strict=True) for k in unchanged)

    page.get_by_role("link", name="Runs").click()
    page.wait_for_selector("caption")
    check_everywhere(page, "runs", screenshot)
    assert page.get_by_role("link", name="people-1", exact=True).is_visible()
    assert all(asked.startswith(("http://127.0.0.1:", "data:")) for asked in page.asked)


@pytest.mark.parametrize("width", ["desktop", "phone"])
def test_what_is_wrong_with_a_field_stands_beside_it(
    folder: Path, address: str, new_page: Callable[..., Any], screenshot: Callable[..., Path], width: str
) -> None:
    from playwright.sync_api import expect

    page = new_page(width)
    page.goto(address)
    page.wait_for_url("**/data")
    page.get_by_role("link", name="people.csv").click()
    population = page.get_by_label("Number of units the sample was drawn from")
    age = page.get_by_label("How age is to be released", exact=True)
    seed = page.get_by_label("Seed of random choices")
    for field, wrong, said in ((population, "", "is empty"), (age, "gibberish", "gibberish"), (seed, "many", "whole number")):
        population.fill("50000")
        if field is seed:
            page.locator("summary", has_text="More choices").click()
        field.fill(wrong)
        page.locator("button", has_text="Estimate the risk").last.click()
        problem = page.locator("#problem")
        expect(problem).to_contain_text(said)
        expect(field).to_be_focused()
        expect(problem).to_be_in_viewport()
        assert field.get_attribute("aria-invalid") == "true"
        assert str(field.get_attribute("aria-describedby")).split()[-1] == "problem"
        below = problem.bounding_box()["y"] - field.bounding_box()["y"]
        assert 0 < below < 90, (wrong, below)
        # The browser itself says that the page was refused.
        page.faults.clear()
        check(page, f"problem-{wrong or 'empty'}-{width}", screenshot)
        field.fill("as it is" if field is age else "")


def test_without_script_a_problem_stands_above_the_form(address: str, new_page: Callable[..., Any]) -> None:
    page = new_page(script=False)
    page.goto(address)
    page.wait_for_url("**/data")
    page.get_by_role("link", name="people.csv").click()
    page.locator("button", has_text="Estimate the risk").last.click()
    assert "is empty" in page.locator("h1 ~ #problem").inner_text()


def test_a_run_can_be_cancelled_and_begun_again_without_script(folder: Path, address: str, new_page: Callable[..., Any]) -> None:
    page = new_page(script=False)
    page.goto(address)
    page.wait_for_url("**/data")
    page.get_by_role("link", name="people.csv").click()
    page.get_by_label("Number of units the sample was drawn from").fill("50000")
    page.get_by_role("button", name="Estimate the risk").click()
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector("text=Nothing was written")
    page.get_by_role("link", name="Change the choices").click()
    assert page.locator("h1").inner_text() == "What could somebody know?"
    assert sorted(path.name for path in folder.iterdir()) == ["people.csv"]


def test_the_link_is_worth_nothing_in_a_second_browser(address: str, new_page: Callable[..., Any]) -> None:
    first, second = new_page(), new_page()
    first.goto(address)
    first.wait_for_url("**/data")
    answer = second.goto(address)
    assert answer.status == 403
    assert second.goto(first.url).status == 403


def test_another_page_cannot_read_or_post(folder: Path, address: str, new_page: Callable[..., Any], tmp_path: Path) -> None:
    page = new_page()
    page.goto(address)
    page.wait_for_url("**/data")
    base = page.url.removesuffix("/data")
    evil = tmp_path / "evil.html"
    evil.write_text(
        f"""<!DOCTYPE html><title>evil</title><form method="post" action="{base}/sample"><button>win</button></form>
        <script>fetch("{base}/runs", {{credentials: "include"}}).then(r => r.text()).then(
            text => document.title = "read " + text, () => document.title = "refused")</script>""",
        encoding="utf-8",
    )
    page.goto(evil.as_uri())
    page.wait_for_function("document.title === 'refused'")
    page.get_by_role("button", name="win").click()
    page.wait_for_selector("text=Requests from other pages are not answered.")
    assert not (folder / "census_sample.csv.gz").exists()
