"""Codes that look as if they meant "missing" are accepted with one click."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(4)
    age = np.where(rng.random(300) < 0.05, -9, rng.integers(18, 80, 300))
    rows = [f"{a},{s}" for a, s in zip(age, rng.integers(1, 3, 300), strict=True)]
    (tmp_path / "people.csv").write_text("\n".join(["age,sex", *rows]) + "\n", encoding="utf-8")
    return tmp_path


def test_proposed_codes_are_read_as_missing_after_a_click(folder: Path, address: str, new_page: Callable[..., Any]) -> None:
    page = new_page()
    page.goto(address)
    page.wait_for_url("**/data")
    page.get_by_role("link", name="people.csv").click()
    page.wait_for_selector("[data-keys-form]")
    assert "-9" in page.locator("[data-proposed-codes]").inner_text()
    page.get_by_role("button", name="Read them as missing").click()
    page.wait_for_selector("table.preview")
    assert page.get_by_label("Codes that mean").input_value() == "age=-9"
    assert page.locator("[data-proposed-codes]").count() == 0
    n_missing = sum(line.startswith("-9,") for line in (folder / "people.csv").read_text(encoding="utf-8").splitlines())
    assert f"({n_missing} by code)" in page.locator("[data-keys-form]").inner_text()
    assert page.faults == []
