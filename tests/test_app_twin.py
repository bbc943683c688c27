"""The app's pages of a synthetic twin: the form, the run, what it gives away, the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from rarecell.app.twin_pages import _options
from tests.app_client import Browser, write_run
from tests.summaries import census_summary
from tests.test_app import RUN_TOML, folder, wait
from tests.test_household_twin import families

__all__ = ["folder"]


def test_a_form_that_lacks_columns_says_so_and_keeps_the_rest(folder: Path) -> None:
    browser = Browser(folder)
    page = browser.get("/twin?file=people.csv")
    assert page.status_code == 200
    assert 'value="sex" checked' in page.text
    assert "not private by being synthetic" in page.text
    answer = browser.post("/twin?file=people.csv", {"columns": "sex", "least_count": "5", "run_name": "mine"})
    assert answer.status_code == 400
    assert "at least two columns" in answer.text
    assert 'value="5"' in answer.text
    answer = browser.post("/twin?file=people.csv", {"columns": ["sex", "age"], "files": "many"})
    assert "whole number" in answer.text
    exchanges = {"columns": ["sex", "age"], "max_copies": "lots", "near_pairs": "1", "analysis": 'm=means="age by sex"'}
    answer = browser.post("/twin?file=people.csv", exchanges)
    assert answer.status_code == 400
    assert "largest share of copies" in answer.text
    assert 'name="near_pairs" value="1" checked' in answer.text
    assert "age by sex" in answer.text


def test_a_form_is_read_as_the_options_of_the_library() -> None:
    fields = {
        "columns": ["sex", "age"],
        "keys": ["age", "job"],
        "max_copies": ["12"],
        "near_pairs": ["1"],
        "analysis": ['m=means="age by sex"\r\n\r\nr=regression="age ~ sex"'],
    }
    options = _options(fields)
    assert (options["columns"], options["keys"]) == (["sex", "age"], ["age"])
    assert (options["max_copies"], options["near_pairs"]) == (0.12, True)
    assert options["analysis"] == {"m": {"means": "age by sex"}, "r": {"regression": "age ~ sex"}}
    assert "epsilon" not in options


def test_the_page_of_protection_leads_to_a_twin(folder: Path) -> None:
    write_run(folder / "first", census_summary(), run_toml=RUN_TOML)
    browser = Browser(folder)
    assert "/twin?file=people.csv" in browser.get("/protect?name=first").text


@pytest.mark.slow
def test_a_twin_of_families_is_drawn_shown_listed_and_downloaded(tmp_path: Path) -> None:
    families(300).rename(columns={"home": "household"}).sort_values("household").to_csv(tmp_path / "families.csv", index=False)
    browser = Browser(tmp_path)
    assert 'name="household" value="household"' in browser.get("/twin?file=families.csv").text
    fields = {
        "columns": ["region", "role", "age"],
        "household": "household",
        "amounts": "smoothed",
        "least_count": "0",
        "run_name": "twin",
    }
    started = browser.post("/twin?file=families.csv", fields)
    assert started.status_code == 303, started.text
    end, state = wait(browser, started.headers["location"])
    assert end.headers["location"].endswith("/twin-run?name=twin"), state
    page = browser.get("/twin-run?name=twin")
    assert "households of 2" in page.text
    assert "beside a swap" in page.text
    assert "twin.csv" in page.text
    assert browser.get("/files/twin/twin.csv").status_code == 200
    assert "/twin-run?name=twin" in browser.get("/runs").text
    assert browser.get("/twin-run?name=").status_code == 400
