"""A steward walks the whole hour, from the file of an office to a signed folder that may leave it, for five kinds of files."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyreadstat
import pytest

from tests.browser.conftest import WIDTHS, accessibility_faults, overflow, sheets
from tests.office_files import FILES, OfficeFile

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LONGEST_RUN = 300_000
"""Milliseconds that a run may take on a busy machine."""

MOST_ATTEMPTS = 3
"""Protections after which the profile must be met, if its advice is followed."""

HANDED_OVER = {"codebook.csv", "codebook.xml", "about.html", "report.html"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def check(page: Any, name: str, screenshot: Callable[..., Path]) -> None:
    """A page as everybody should meet it, on a desk and on a phone."""
    own = page.viewport_size
    for width, size in WIDTHS.items():
        page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
        assert overflow(page) <= 0, (name, width)
        screenshot(page, f"hour-{name}-{width}")
    page.set_viewport_size(own)
    assert page.faults == [], name
    assert accessibility_faults(page) == [], name


def choose(page: Any, file: OfficeFile) -> None:
    """The Keys page, filled in as the steward of the file would."""
    if file.sheet or file.missing_codes:
        if not page.get_by_label("Codes that mean").is_visible():
            page.locator("summary", has_text="How the file is read").click()
        if file.sheet:
            page.get_by_label("Sheet").select_option(file.sheet)
        if file.missing_codes:
            page.get_by_label("Codes that mean").fill(file.missing_codes)
        page.get_by_role("button", name="Read it this way").click()
        page.wait_for_selector("table.preview")
    for select in page.locator("select[name^='role:']").all():
        name = str(select.get_attribute("name")).removeprefix("role:")
        select.select_option("key" if name in file.keys else file.roles.get(name, "none"))
    for key, words in file.recode.items():
        page.get_by_label(f"How {key} is to be released", exact=True).fill(words)
    if file.population:
        page.get_by_label("Number of units the sample was drawn from").fill(f"{file.population:,}")
    page.get_by_label("Release profile").select_option(file.profile)


@pytest.mark.parametrize(
    ("kind", "width"),
    [("stata", "desktop"), ("spss", "phone"), ("latin", "desktop"), ("workbook", "phone"), ("health", "phone")],
)
def test_the_hour(
    folder: Path, address: str, new_page: Callable[..., Any], screenshot: Callable[..., Path], kind: str, width: str
) -> None:
    file = FILES[kind](folder)
    before = file.path.read_bytes()
    stem = file.path.name.partition(".")[0]
    page = new_page(width)
    page.goto(address)
    page.wait_for_url("**/data")
    page.get_by_role("link", name=file.path.name).click()
    page.wait_for_selector("[data-keys-form]")
    choose(page, file)
    check(page, f"{kind}-keys", screenshot)

    page.get_by_role("button", name="Estimate the risk").click()
    page.wait_for_url(f"**/run?name={stem}-1", timeout=LONGEST_RUN)
    assert f"profile '{file.profile}'" in page.locator(".rule").inner_text()
    check(page, f"{kind}-risk", screenshot)

    page.get_by_role("link", name="Protect the risky records").first.click()
    page.wait_for_selector("[data-range]")
    check(page, f"{kind}-protect", screenshot)
    for attempt in range(1, MOST_ATTEMPTS + 1):
        page.get_by_role("button", name="Protect").click()
        page.wait_for_url(f"**/run?name={stem}-protected-{attempt}", timeout=LONGEST_RUN)
        if page.locator("h1").inner_text() != "Do not release":
            break
        # What the page advises leads out, with its form filled in.
        page.locator(".next a.button").first.click()
        page.wait_for_selector("[data-range]")
    assert page.locator("h1").inner_text() in ("Release", "Release after a look"), page.locator(".sheet").inner_text()
    assert page.locator(".signature").is_visible()
    check(page, f"{kind}-released", screenshot)

    page.get_by_text("Hand the file over", exact=True).click()
    page.get_by_label("Signed by").fill("A. Steward")
    page.get_by_role("button", name="Make the folder").click()
    page.wait_for_selector("text=Handed over: these files may leave the office", timeout=LONGEST_RUN)
    assert page.get_by_text("Signed by A. Steward").is_visible()
    check(page, f"{kind}-handed-over", screenshot)

    run = folder / f"{stem}-protected-{attempt}"
    names = {path.name for path in (run / "handover").iterdir()}
    data = next(name for name in names if name.startswith("data."))
    assert names == HANDED_OVER | {data} | ({"recoding.csv"} if file.recode else set())
    assert json.loads((run / "handover.json").read_text(encoding="utf-8"))["signed_by"] == "A. Steward"
    assert file.path.read_bytes() == before, "the original is as it was"
    look_at_the_data(kind, file, run / "handover" / data)

    # Each report prints its first page on one sheet.
    for report in (run / "report.html", run / "handover" / "report.html"):
        page.goto(report.as_uri())
        assert overflow(page) <= 0
        assert sheets(page.pdf(format="A4")) == 1, report
    assert page.get_by_text("Signature").count() == 0
    screenshot(page, f"hour-{kind}-external")
    assert all(asked.startswith(("http://127.0.0.1:", "data:", "file:")) for asked in page.asked)


def look_at_the_data(kind: str, file: OfficeFile, path: Path) -> None:
    """The file that leaves the office is of the kind that came in, with its letters and labels, and without its identifiers."""
    identifiers = {name for name, role in file.roles.items() if role == "id"}
    if kind == "stata":
        frame, meta = pyreadstat.read_dta(path)
        assert set(frame["commune"]) <= {"Besançon", "Évreux", "Nîmes", "Orléans"}
        assert meta.column_names_to_labels["age"] == "Âge en années"
        assert meta.variable_value_labels["sexe"] == {1: "homme", 2: "femme"}
    elif kind == "spss":
        frame, meta = pyreadstat.read_sav(path)
        assert meta.variable_value_labels["HL4"] == {1.0: "Male", 2.0: "Female"}
        # Households have one new number instead of cluster and number, and whoever lived together still does.
        assert "HH1" not in frame.columns
        sizes = frame.groupby("HH2").size()
        assert 1 < sizes.mean() < 4
    elif kind == "latin":
        text = path.read_bytes().decode("latin-1")
        rows = list(csv.DictReader(io.StringIO(text), delimiter=";"))
        frame = pd.DataFrame(rows)
        assert set(frame["Gemeinde"]) == {"Köln", "Düren", "Münster", "Rüthen"}
        assert all(re.fullmatch(r"\d+,\d\d", value) for value in frame["Betrag"])
    else:
        # A workbook comes back as CSV, as the program says.
        frame = pd.read_csv(path)
    original = len(pd.read_excel(file.path, sheet_name=file.sheet, engine="openpyxl")) if kind == "workbook" else None
    assert not identifiers & set(frame.columns)
    assert original is None or len(frame) == original
