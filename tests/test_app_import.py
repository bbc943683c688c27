"""The Keys page: how a file is read, roles with the fields they need, many columns, choices that come back."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import rarecell as rc
from rarecell.app.forms import assess_config, form_of, protect_config, protect_form, scenarios_of, stratum_sizes
from rarecell.data.describe import Reading, profile_file
from rarecell.errors import BadInput
from rarecell.outcome.profile import Profile
from rarecell.run.config import ProtectConfig, RunConfig
from tests.app_client import Browser, write_run
from tests.summaries import census_summary, protected_summary

ROWS = [f"{name};{age};{wage};{area}" for name, age, wage, area in zip(
    ["Müller", "Große", "Weiß", "Ärzte"] * 10, [31, 99, 44, 57] * 10, ["1,5", "2,5", "3,25", "4,0"] * 10, ["n", "s", "s", "n"] * 10, strict=True
)]  # fmt: skip


COLUMNS = ("a", "b", "c", "b, c", "size", "sex", "income", "race", "d, e")
"""The columns of a file."""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    text = "\n".join(["name;age;wage;area", *ROWS]) + "\n"
    (tmp_path / "old.csv").write_bytes(text.encode("windows-1252"))
    (tmp_path / "new.csv").write_text(text.replace(",", "."), encoding="utf-8")
    return tmp_path


def form(**more: Any) -> dict[str, Any]:
    roles = {"role:name": "none", "role:age": "key", "role:wage": "none", "role:area": "key"}
    return {"file": "new.csv", "population": "1000", **roles, **more}


# ---------------------------------------------------------------------- reading


def test_a_file_in_another_encoding_can_be_read_from_its_page(house: Path) -> None:
    polish = ["Pająk", "Gałka", "Małek", "Bąk"] * 10
    text = "\n".join(["name;age;area", *(f"{name};{30 + k % 4};n" for k, name in enumerate(polish))]) + "\n"
    (house / "east.csv").write_bytes(text.encode("windows-1250"))
    browser = Browser(house)
    refused = browser.get("/keys?file=east.csv")
    assert refused.status_code == 400
    assert "could not be read" in refused.text
    assert 'name="encoding"' in refused.text
    read = browser.post("/reading", {"file": "east.csv", "encoding": "windows-1250"})
    page = browser.get(read.headers["location"].removeprefix(browser.gate.base)).text
    assert "<td>Pająk</td>" in page
    assert '<option value="windows-1250" selected>' in page


def test_an_encoding_that_was_recognised_is_told_and_can_be_changed(house: Path) -> None:
    browser = Browser(house)
    found = browser.get("/keys?file=old.csv")
    assert found.status_code == 200
    assert "Judging by its letters it is windows-1252" in found.text
    assert "Müller" in found.text
    read = browser.post("/reading", {"file": "old.csv", "encoding": "windows-1251"})
    page = browser.get(read.headers["location"].removeprefix(browser.gate.base)).text
    assert "<td>Mьller</td>" in page
    assert '<option value="windows-1251" selected>' in page
    assert "by its letters" not in page


def test_the_decimal_mark_and_missing_codes_change_what_is_seen(house: Path) -> None:
    plain = {c.name: c for c in profile_file(house / "new.csv").columns}
    told = {c.name: c for c in profile_file(house / "new.csv", Reading(decimal=".", missing_codes="99; -9")).columns}
    assert (plain["wage"].kind, told["wage"].kind) == ("text", "number")
    assert (plain["age"].levels, told["age"].levels) == (4, 3)
    assert (told["age"].n_missing, told["age"].n_coded) == (10, 10)
    with pytest.raises(BadInput, match="point or a comma"):
        profile_file(house / "new.csv", Reading(decimal="x"))


def test_the_decimal_mark_is_an_option_of_a_run(house: Path) -> None:
    data = {"keys": ["wage", "area"], "population": 1000, "recode": {"wage": "width 2"}, "model": "independence"}
    with pytest.raises(BadInput, match="not numbers"):
        rc.assess(house / "new.csv", **data)  # type: ignore[arg-type]
    assert rc.assess(house / "new.csv", decimal=".", **data).summary.keys[0].levels == 3  # type: ignore[arg-type]


def test_missing_codes_reach_the_keys_that_have_them(house: Path) -> None:
    browser = Browser(house)
    config = browser.pages.keys.config({name: [value] for name, value in form(missing_codes="99").items()})
    assert config.missing_codes == "99"
    table = rc.Microdata(house / "new.csv", keys=["age", "area"], missing_codes=config.missing_codes).table()
    assert table.categories[0].has_missing
    # Reading again keeps every other choice.
    answer = browser.post("/reading", form(missing_codes="99", population="1234"))
    page = browser.get(answer.headers["location"].removeprefix(browser.gate.base)).text
    assert 'value="1234"' in page
    assert "(10 by code)" in page


def test_a_statistics_file_is_read_although_its_copy_lies_elsewhere(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    pandas = pytest.importorskip("pandas")
    pyreadstat.write_dta(pandas.DataFrame({"age": [31, 31, 44], "area": ["n", "s", "s"]}), str(tmp_path / "people.dta"))
    page = Browser(tmp_path).get("/keys?file=people.dta")
    assert page.status_code == 200
    assert "3 records" in page.text


# ---------------------------------------------------------------------- roles


def test_strata_have_their_sizes(house: Path) -> None:
    browser = Browser(house)
    refused = browser.post("/assess", form(**{"role:area": "key+strata", "population": ""}))
    assert refused.status_code == 400
    assert "number of units of each stratum" in refused.text
    # Their names are there to be completed.
    assert re.search(r"<textarea id=\"populations\".*?>n = \ns = ", refused.text, flags=re.DOTALL)
    fields = {name: [value] for name, value in form(**{"role:area": "key+strata", "populations": "n = 1.000\ns = 2000"}).items()}
    config = browser.pages.keys.config(fields)
    assert (config.strata, dict(config.populations), config.keys) == ("area", {"n": 1000, "s": 2000}, ("age", "area"))
    assert stratum_sizes("a=b = 3") == {"a=b": 3}
    for wrong in ("n", "n = ", "n = 1\nn = 2", "n = many"):
        with pytest.raises(BadInput):
            stratum_sizes(wrong)


def test_areas_are_nested_from_coarse_to_fine(house: Path) -> None:
    fields = {"role:town": ["key+geography"], "role:land": ["geography"], "role:age": ["key"], "population": ["100"]}
    config = assess_config(fields, house / "new.csv", levels={"town": 300, "land": 16})
    assert config.geography == "land>town"
    assert config.keys == ("town", "age")


def test_further_intruders_and_a_register(house: Path) -> None:
    browser = Browser(house)
    more = {"scenarios": "neighbour: age, area\n\ncolleague: age", "register": "old.csv"}
    config = browser.pages.keys.config({name: [value] for name, value in form(**more).items()})
    assert config.scenarios == {"neighbour": ("age", "area"), "colleague": ("age",)}
    assert config.register == str(house / "old.csv")
    assert browser.post("/assess", form(register="../elsewhere.csv")).status_code == 400
    with pytest.raises(BadInput, match="neighbour: age, sex"):
        scenarios_of("neighbour")


def test_a_configuration_comes_back_as_the_form_it_was(house: Path) -> None:
    given = RunConfig(
        input=str(house / "new.csv"),
        keys=("age", "area"),
        geography="area",
        sensitive=("wage",),
        population=1000,
        scenario={"neighbour": {"keys": ["age"]}},
        missing_codes="age=99",
        coding={"age": {"ordered": True}},
        recode={"age": "5-year bands"},
        threshold=0.3,
        model="single",
        seed=4,
        decimal=".",
        time_limit=7.0,
        by="the office",
    )
    again = assess_config(form_of(given, "new.csv"), house / "new.csv", base=given)
    assert again == given


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"way": ["swap_rate"], "swap_rate": ["7"]}, "it must be between 0 and 1"),
        ({"way": ["target"], "max_record_risk": ["2"]}, "it must be between 0 and 1"),
        ({"way": ["target"], "max_record_risk": ["few"]}, "highest risk"),
        ({"way": ["target"], "max_record_risk": [""], "max_correct_links": [" "]}, "No limit is written"),
        ({"way": ["target"], "max_correct_links": ["5"], "suppress_rest": ["1"]}, "highest risk, which is empty"),
    ],
)
def test_ways_to_protect_that_cannot_be_meant(fields: dict[str, list[str]], said: str) -> None:
    config = RunConfig(input="x", keys=("a", "b"), population=10, geography="b")
    with pytest.raises(BadInput, match=said):
        protect_config(fields, config, columns=lambda: COLUMNS)


def test_swaps_between_areas_and_blanked_values_can_be_chosen() -> None:
    config = RunConfig(input="x", keys=("a", "b"), population=10, geography="b")
    fields = {"way": ["swap_rate"], "swap_rate": ["0,05"], "similar": ["size,sex; size"]}
    swaps = protect_config(fields, config, columns=lambda: COLUMNS).protect
    assert swaps is not None
    assert (swaps.swap_rate, swaps.similar) == (0.05, (("size", "sex"), ("size",)))
    fields = {"way": ["target"], "max_record_risk": ["0.1"], "suppress_rest": ["1"]}
    blanked = protect_config(fields, config, columns=lambda: COLUMNS).protect
    assert blanked is not None
    assert (blanked.max_record_risk, blanked.suppress_rest) == (0.1, True)


def test_limits_on_records_and_links_are_kept_together() -> None:
    config = RunConfig(input="x", keys=("a", "b"), population=10)
    fields = {"way": ["target"], "max_record_risk": ["0,1"], "max_correct_links": ["5"], "max_population_uniques": [""]}
    assert protect_config(fields, config, columns=lambda: COLUMNS).protect == ProtectConfig(
        max_record_risk=0.1, max_correct_links=5.0
    )


def test_a_protection_that_starts_from_another_keeps_what_the_page_does_not_show() -> None:
    earlier = ProtectConfig(
        max_correct_links=5.0,
        against="participant",
        keep=(("a", "b, c"),),
        never_swap=("a",),
        within=("area",),
        decoys=0.5,
        swap_seed=3,
        households=True,
        treat={"income": "top 99 %"},
        also_known=("race", "d, e"),
    )
    config = RunConfig(input="x", keys=("a", "b, c"), population=10, protect=earlier)
    shown = protect_form(earlier)
    assert protect_config(shown, config, columns=lambda: COLUMNS).protect == earlier
    by_risk = {**shown, "way": ["risk_above"], "risk_above": ["0.3"]}
    threshold = protect_config(by_risk, config, columns=lambda: COLUMNS).protect
    assert threshold == replace(earlier, max_correct_links=None, against=None, risk_above=0.3)
    named = replace(config, protect=ProtectConfig(records=(1, 2), suppress_rest=True, blank=("a",)))
    assert protect_config({"way": ["top"], "top": ["3"]}, named, columns=lambda: COLUMNS).protect == ProtectConfig(top=3)


@pytest.mark.parametrize(
    "earlier",
    [
        ProtectConfig(top=1_234_567),
        ProtectConfig(k=1_000_000),
        ProtectConfig(risk_above=0.1234567),
        ProtectConfig(max_correct_links=1.234, max_population_uniques=12_345_678.5),
    ],
)
def test_numbers_come_back_in_full_from_an_earlier_protection(earlier: ProtectConfig) -> None:
    config = RunConfig(input="x", keys=("a",), population=10**9, protect=earlier, threshold=0.1234567)
    assert protect_config(protect_form(earlier), config, columns=lambda: COLUMNS).protect == earlier
    assert form_of(config, "x")["threshold"] == ["0.1234567"]


@pytest.mark.parametrize(
    ("field", "text", "said"),
    [
        ("keep", "age, wages", "no column 'wages'. Did you mean 'wage'"),
        ("treat", "age=drop\nwages=drop", "no column 'wages'"),
        ("treat", "wage=frobnicate", "'frobnicate' of 'wage' is not understood"),
        ("treat", "wage", "“What is done to them” was given as 'wage'; it takes COL=HOW, for example \"income=top 99 %\"."),
        *((name, "wages", "no column 'wages'") for name in ("carry", "spare", "also_known", "accept_leak")),
        ("max_record_risk", "1.234", "may mean 1234 or 1.234. Write 1234 or 1.2340."),
        ("top", "", "is empty; write a whole number"),
        ("run_name", "new.csv", "is a file"),
        ("run_name", "new.csv/deep", "is a file, or lies in one"),
        ("run_name", "ü" * 150, "too long"),
    ],
)
def test_what_is_wrong_is_said_before_a_run_and_of_its_field(house: Path, field: str, text: str, said: str) -> None:
    write_run(house / "one", census_summary(), run_toml='input = "new.csv"\nkeys = ["age", "area"]\npopulation = 1000\n')
    way = field if field in ("top", "max_record_risk") else "top"
    fields = {"way": "target" if field == "max_record_risk" else way, "top": "3", field: text}
    answer = Browser(house).post("/protect?name=one", fields)
    assert answer.status_code == 400
    assert f'data-field="{field}"' in answer.text
    assert said in html.unescape(answer.text)


def test_words_for_a_column_that_is_not_recoded_are_not_dropped_silently(house: Path) -> None:
    answer = Browser(house).post("/assess", form(**{"recode:wage": "bands of 2"}))
    assert answer.status_code == 400
    assert 'data-field="recode:wage"' in answer.text
    assert "only keys are recoded here" in answer.text


def test_the_page_of_protection_begins_with_the_limits_of_the_profile_or_the_earlier_choice(house: Path) -> None:

    words = 'input = "new.csv"\nkeys = ["age", "area"]\npopulation = 1000\n'
    write_run(house / "one", census_summary(), run_toml=words)
    write_run(house / "two", protected_summary(), run_toml=f"{words}[protect]\ntop = 7\nunlink = true\n")
    browser = Browser(house)
    first = html.unescape(browser.get("/protect?name=one").text)
    assert 'value="target" checked' in first
    assert 'name="max_record_risk" inputmode="decimal" value="0.2"' in first
    assert "The profile 'scientific' allows a risk of 0.2 and 98 correct links." in first
    assert 'name="max_correct_links" inputmode="decimal" value="98"' in first
    planned = html.unescape(browser.get("/plan?name=one").text)
    assert 'value="98"' in planned
    assert 'name="max_record_risk" inputmode="decimal" value="0.2"' in planned
    assert 'name="max_record_risk" inputmode="decimal" value=""' in browser.get("/plan?name=one&max_correct_links=5").text
    again = browser.get("/protect?name=two").text
    assert 'value="top" checked' in again
    assert 'name="top" inputmode="numeric" value="7"' in again
    assert 'value="k" checked' in browser.get("/protect?name=two&way=k&k=3").text


# ---------------------------------------------------------------------- choices that come back


def test_choices_of_a_protection_come_back(house: Path) -> None:
    from tests.app_client import write_run
    from tests.summaries import census_summary

    write_run(house / "one", census_summary(), run_toml='input = "new.csv"\nkeys = ["age", "area"]\npopulation = 1000\n')
    browser = Browser(house)
    number = browser.pages.drafts.keep({"way": ["top"], "top": ["17"], "max_correct_links": ["3"]})
    assert 'value="17"' in browser.get(f"/protect?name=one&again={number}").text
    assert 'value="3"' in browser.get(f"/plan?name=one&again={number}").text


def test_a_file_of_two_hundred_columns_has_a_search_box(tmp_path: Path) -> None:
    names = [f"q{k:03d}" for k in range(200)]
    (tmp_path / "wide.csv").write_text(
        "\n".join([",".join(names), *[",".join("12"[(k + j) % 2] for j in range(200)) for k in range(30)]])
    )
    page = Browser(tmp_path).get("/keys?file=wide.csv").text
    assert "data-find" in page
    assert page.count("data-column=") == 200
    # Of few columns there is nothing to search.
    (tmp_path / "small.csv").write_text("a,b\n1,2\n1,3\n")
    assert "data-few" in Browser(tmp_path).get("/keys?file=small.csv").text


def test_sheets_of_a_workbook_are_listed_and_messages_name_fields(tmp_path: Path) -> None:
    with pd.ExcelWriter(tmp_path / "book.xlsx") as book:
        pd.DataFrame({"Notes": ["Data on the next sheet"]}).to_excel(book, sheet_name="Read me", index=False)
        pd.DataFrame({"age": range(40), "sex": ["f", "m"] * 20}).to_excel(book, sheet_name="Data", index=False)
    browser = Browser(tmp_path)
    page = browser.get("/keys?file=book.xlsx").text
    assert "<option selected>Read me</option><option>Data</option>" in page
    assert "choose with “Sheet of the workbook”" in page
    assert "--sheet" not in page
    read = browser.post("/reading", {"file": "book.xlsx", "sheet": "Data", "role:Notes": "none"})
    page = browser.get(read.headers["location"].removeprefix(browser.gate.base)).text
    assert "<option>Read me</option><option selected>Data</option>" in page
    # Columns that were not seen before come with their suggestions.
    assert re.search(r'name="role:sex".*?<option value="key" selected>', page)


def test_profiles_of_the_office_are_listed_with_their_limits_and_chosen(house: Path) -> None:
    (house / "office.profile.toml").write_text('title = "our own rule"\nmax_record_risk = 0.07\n', encoding="utf-8")
    (house / "odd.profile.toml").write_text("max_risk = 1\n", encoding="utf-8")
    browser = Browser(house)
    (house / "people.csv").write_text("age;sex\n" + "30;f\n41;m\n52;f\n" * 20, encoding="utf-8")
    for page in (browser.get("/profiles").text, browser.get("/keys?file=people.csv").text):
        assert "a risk of at most 0.07 for a record" in page
        assert "a risk of at most 0.05 for a record" in page
        assert "which no profile has" in page
    assert "our own rule (office.profile.toml)" in browser.get("/keys?file=people.csv").text
    fields = {
        "file": ["people.csv"],
        "role:age": ["key"],
        "role:sex": ["key"],
        "population": ["900"],
        "profile": ["office.profile.toml"],
    }
    config = browser.pages.keys.config(fields)
    assert Profile.named(config.profile or "").max_record_risk == 0.07
    again = browser.pages.keys.show("people.csv", form_of(config, "people.csv")).body.decode()
    assert '<option value="office.profile.toml" selected>' in again
