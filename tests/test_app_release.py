"""The app's pages of a release: recoding, planning, releasing, comparing, numbers as people write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rarecell.app.forms import assess_config, decimal_number, whole_number
from rarecell.errors import BadInput
from tests.app_client import Browser, write_run
from tests.summaries import census_summary, protected_summary
from tests.test_app import RUN_TOML, folder, wait

__all__ = ["folder"]

ROLES = {"role:age": "key", "role:sex": "key", "role:region": "key", "role:person": "none", "role:job": "none"}
OTHERS = {"role:income": "none", "role:weight": "none"}


@pytest.mark.parametrize(
    ("text", "number"),
    [("1087835", 1087835), ("1,087,835", 1087835), ("1.087.835", 1087835), ("1'087'835", 1087835), ("1 087 835", 1087835)],
)
def test_whole_numbers_as_people_write_them(text: str, number: int) -> None:
    assert whole_number(text, "The population") == number


@pytest.mark.parametrize(("text", "number"), [("0,2", 0.2), ("0.2", 0.2), (".5", 0.5), ("1'000,5", 1000.5), ("12", 12.0)])
def test_decimals_as_people_write_them(text: str, number: float) -> None:
    assert decimal_number(text, "The threshold") == number


def test_what_may_mean_two_numbers_is_refused_with_both() -> None:
    with pytest.raises(BadInput, match=r"may mean 1000 or 1\.000\. Write 1000 or 1\.0000\."):
        decimal_number("1,000", "The target")
    for wrong in ("1.5", "many", "1,00", "", "12.34.567"):
        with pytest.raises(BadInput, match="whole number"):
            whole_number(wrong, "The population")


def test_a_recoding_in_the_form_is_checked_and_kept(folder: Path) -> None:
    fields = {"role:age": ["key"], "recode:age": ["5-year bands"], "population": ["1.000.000"]}
    config = assess_config(fields, folder / "people.csv")
    assert config.recode == {"age": "5-year bands"}
    assert config.population == 1_000_000
    with pytest.raises(BadInput, match="not understood"):
        assess_config({**fields, "recode:age": ["five bands"]}, folder / "people.csv")


def test_a_population_below_the_records_is_found_before_the_run(folder: Path) -> None:
    browser = Browser(folder)
    answer = browser.post("/assess", {"file": "people.csv", "population": "399", "recode:age": "width 5", **ROLES, **OTHERS})
    assert answer.status_code == 400
    assert "399" in answer.text
    # The choices are still there.
    assert 'value="width 5"' in answer.text


def test_runs_are_ticked_and_compared(folder: Path) -> None:
    write_run(folder / "one", census_summary(), run_toml=RUN_TOML)
    write_run(folder / "two", protected_summary(), run_toml=RUN_TOML)
    browser = Browser(folder)
    assert 'type="checkbox" name="name" value="one"' in browser.get("/runs").text
    page = browser.get("/compare?name=one&name=two").text
    assert "after protection" in page
    assert "≠" in page
    assert "at least two" in browser.get("/compare?name=one").text


@pytest.mark.slow
def test_recode_plan_release_compare(folder: Path) -> None:
    browser = Browser(folder)
    fields = {"file": "people.csv", "population": "100.000", "run_name": "one", "model": "single", **ROLES, **OTHERS}
    started = browser.post("/assess", fields)
    page, told = wait(browser, started.headers["location"])
    assert told["state"] == "done", told
    assert "Plan a release" in browser.get("/run?name=one").text

    assert "Say what" in browser.post("/plan?name=one", {}).text or "No target" in browser.post("/plan?name=one", {}).text
    planned = browser.post("/plan?name=one", {"max_correct_links": "2,5"})
    page, told = wait(browser, planned.headers["location"])
    assert told["state"] == "done", told
    place = page.headers["location"].removeprefix(browser.gate.base)
    frontier = browser.get(f"{place}?chosen=1")
    assert "to release the file</h1>" in frontier.text
    assert "?chosen=1#way-1" in frontier.text

    number = place.rpartition("/")[2]
    assert "Choose one of the points" in browser.post(f"/release/{number}", {"point": "99"}).text
    taken = browser.post(f"/release/{number}", {"point": "0", "run_name": "one"})
    assert taken.status_code == 400
    assert "A run called &#39;one&#39; already exists" in taken.text
    assert "to release the file</h1>" in taken.text
    released = browser.post(f"/release/{number}", {"point": "0", "run_name": "two"})
    page, told = wait(browser, released.headers["location"])
    assert told["state"] == "done", told
    assert (folder / "two" / "protected.csv").exists()
    assert "side by side" in browser.get("/compare?name=one&name=two").text


@pytest.mark.slow
def test_choices_survive_a_cancelled_run(folder: Path) -> None:
    browser = Browser(folder)
    fields: dict[str, Any] = {"file": "people.csv", "population": "100000", "recode:age": "5-year bands", **ROLES, **OTHERS}
    started = browser.post("/assess", fields)
    place = started.headers["location"].removeprefix(browser.gate.base)
    browser.post(f"{place}/cancel")
    wait(browser, started.headers["location"])
    job = browser.pages.jobs[1]
    again = browser.get(job.back).text
    assert 'value="5-year bands"' in again
    assert 'value="100000"' in again


def test_the_protect_page_takes_what_is_done_to_other_columns() -> None:
    from rarecell.app.forms import protect_config
    from rarecell.run.config import RunConfig

    fields = {"way": ["top"], "top": ["5"], "treat": ["income=top 99 %, round 100\nphone=drop\n"], "spare": ["income"]}
    fields |= {"accept_leak": ["born, district"]}
    config = RunConfig(input="a.csv", keys=("age",), population=100)
    columns = ["age", "income", "phone", "born", "district", "race", "party"]
    protect = protect_config(fields, config, columns=lambda: columns).protect
    assert protect is not None
    assert protect.treat == {"income": "top 99 %, round 100", "phone": "drop"}
    assert (protect.spare, protect.accept_leak, protect.carry) == (("income",), ("born", "district"), ())
    known = protect_config({"way": ["k"], "k": ["3"], "also_known": ["race, party"]}, config, columns=lambda: columns)
    assert known.protect is not None
    assert (known.protect.k, known.protect.also_known) == (3, ("race", "party"))
    with pytest.raises(BadInput, match="COL=HOW"):
        protect_config({**fields, "treat": ["income"]}, config, columns=lambda: columns)
