"""A steward walks from a file of an office to a decision, and prints the page for the board on one sheet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser.conftest import accessibility_faults, overflow, sheets

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LONGEST_RUN = 300_000
"""Milliseconds that a run may take on a busy machine."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file as offices have it: Latin-1, semicolons, decimal commas, -9 for no answer, German names, no word for the weight."""
    rng = np.random.default_rng(21)
    lines = ["lfd;Geschlecht;Alter;Familienstand;Gemeinde;gew;Betrag"]
    for k in range(700):
        town = ("Köln", "Düren", "Münster", "Rüthen")[int(rng.choice(4, p=[0.5, 0.3, 0.15, 0.05]))]
        state = int(rng.choice([1, 2, 3, 4, -9], p=[0.4, 0.4, 0.1, 0.08, 0.02]))
        weight, amount = f"{rng.lognormal(4, 0.3):.2f}".replace(".", ","), f"{rng.lognormal(7, 1):.2f}".replace(".", ",")
        lines.append(f"{k + 1};{rng.integers(1, 3)};{rng.integers(18, 90)};{state};{town};{weight};{amount}")
    (tmp_path / "mikro.csv").write_text("\n".join(lines) + "\n", encoding="latin-1")
    return tmp_path


@pytest.mark.parametrize("width", ["desktop", "phone"])
def test_from_an_office_file_to_a_decision(
    folder: Path, address: str, new_page: Callable[..., Any], screenshot: Callable[..., Path], width: str
) -> None:
    page = new_page(width)
    page.goto(address)
    page.wait_for_url("**/data")
    page.get_by_role("link", name="mikro.csv").click()
    page.wait_for_selector("[data-keys-form]")
    page.get_by_text("How the file is read").click()
    assert "Judging by its letters it is windows-1252" in page.locator("details", has_text="How the file is read").inner_text()
    page.get_by_label("Text is written in").select_option("latin-1")
    page.get_by_label("Codes that mean").fill("-9")
    page.get_by_role("button", name="Read it this way").click()
    page.wait_for_selector("table.preview")
    assert "Köln" in page.locator("table.preview").inner_text()
    roles = {
        name: page.locator(f"select[name='role:{name}']").input_value()
        for name in ("lfd", "Geschlecht", "Alter", "Familienstand", "gew", "Betrag")
    }
    assert roles == {
        "lfd": "id",
        "Geschlecht": "key",
        "Alter": "key",
        "Familienstand": "key",
        "gew": "weight",
        "Betrag": "none",
    }
    page.get_by_label("Release profile").select_option("public")
    screenshot(page, f"board-keys-{width}")

    page.get_by_role("button", name="Estimate the risk").click()
    page.wait_for_url("**/run?name=mikro-1", timeout=LONGEST_RUN)
    assert page.locator("h1").inner_text() == "Do not release"
    assert "profile 'public'" in page.locator(".rule").inner_text()
    screenshot(page, f"board-assessed-{width}")

    page.get_by_role("link", name="Protect the risky records").first.click()
    page.wait_for_selector("[data-range]")
    page.get_by_role("button", name="Protect").click()
    page.wait_for_url("**/run?name=mikro-protected-1", timeout=LONGEST_RUN)
    assert "profile 'public'" in page.locator(".rule").inner_text()
    states = page.locator(".sheet table").first.inner_text()
    assert "As it came" in states
    assert "Released" in states
    for heading in ("What was done", "What it cost", "What remains", "What to do next"):
        assert page.get_by_role("heading", name=heading).is_visible(), heading
    assert page.locator(".signature").is_visible()
    assert overflow(page) <= 0
    assert accessibility_faults(page) == []
    screenshot(page, f"board-released-{width}")

    # The report of the same run prints its first page on one sheet, and nothing else unless it was opened.
    page.goto((folder / "mikro-protected-1" / "report.html").as_uri())
    assert overflow(page) <= 0
    screenshot(page, f"board-report-{width}")
    assert sheets(page.pdf(format="A4")) == 1
    page.get_by_role("heading", name="What protection changed").click()
    assert page.locator("#protection").is_visible()
    assert sheets(page.pdf(format="A4")) > 1
