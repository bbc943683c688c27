"""Odd cookies, odd folders, odd files: the app skips them with a word, and stays alive."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rarecell as rc
from rarecell.app.folder import ChosenFolder, OutsideFolder
from rarecell.app.jobs import in_time_limit
from rarecell.engine import open_source, open_table
from rarecell.engine.places import confined, existing_file
from rarecell.errors import BadInput
from rarecell.run.config import RunConfig
from tests.app_client import Browser, write_run
from tests.summaries import census_summary

RUN_TOML = 'input = "census.csv"\nkeys = ["age"]\npopulation = 1000\n'


@pytest.fixture
def house(tmp_path: Path) -> Path:
    (tmp_path / "secret.csv").write_text("name,diagnosis\nAda,flu\n", encoding="utf-8")
    pq.write_table(pa.table({"name": ["Ada"]}), tmp_path / "secret.parquet")
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    (chosen / "census.csv").write_text("age,sex\n1,0\n2,1\n", encoding="utf-8")
    return chosen


# ---------------------------------------------------------------------- cookies


@pytest.mark.parametrize(
    "other",
    [
        "x=a b c",
        "novalue",
        "{name}=stale",
        "a=1; {name}=stale; b",
        'q="a;b"',
        "=",
        ";;;",
        "{name}",
        "é=ü",
        "$Version=1; x=[y]",
        "a,b=c",
    ],
)
@pytest.mark.parametrize("ours_first", [True, False])
def test_cookies_of_other_programs_lock_nobody_out(house: Path, other: str, ours_first: bool) -> None:
    browser = Browser(house)
    name, session = browser.gate.cookie, browser.gate.session
    pair = f"{name}={session}"
    others = other.format(name=name)
    line = f"{pair}; {others}" if ours_first else f"{others}; {pair}"
    browser.client.cookies.clear()
    assert browser.client.get(browser.gate.base + "/data", headers={"cookie": line.encode()}).status_code == 200
    # Without the right value they let nobody in.
    assert browser.client.get(browser.gate.base + "/data", headers={"cookie": others.encode()}).status_code == 403


def test_each_start_has_a_cookie_of_its_own(house: Path) -> None:
    from rarecell.app.security import Gate

    assert Gate(port=5001).cookie != Gate(port=5002).cookie


# ---------------------------------------------------------------------- what is opened is what was checked


def test_a_relative_input_is_opened_where_it_was_checked(house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "census.csv").write_text("age,sex\n99,1\n", encoding="utf-8")
    monkeypatch.chdir(elsewhere)
    config = RunConfig(input="census.csv", keys=("age",), population=1000, hierarchies={"age": "census.csv"}, zeros="census.csv")
    checked = ChosenFolder.at(house).checked(config)
    assert {checked.input, checked.zeros, *checked.hierarchies.values()} == {str(house / "census.csv")}


@pytest.mark.parametrize(
    "change",
    [
        {"spark_table": "/etc/passwd"},
        {"sql": "select 1"},
        {"input": "postgresql://host/db"},
        {"input": "../secret.csv"},
        {"hierarchies": {"age": "../secret.csv"}},
        {"zeros": "../secret.csv"},
        {"register": "../secret.csv"},
        {"profile": "../secret.toml"},
    ],
)
def test_a_configuration_that_leads_elsewhere_is_refused(house: Path, change: dict[str, Any]) -> None:
    given: dict[str, Any] = {"input": "census.csv", "keys": ("age",), "population": 1000, **change}
    with pytest.raises(BadInput):
        ChosenFolder.at(house).checked(RunConfig(**given))


def test_every_field_of_a_configuration_is_known_to_name_a_file_or_not() -> None:
    """A new field that names a file must be checked in ``ChosenFolder.checked`` before it is listed here."""
    checked = {"input", "hierarchies", "zeros", "register", "sql", "spark_table", "profile"}
    harmless = {
        *(
            "keys",
            "population",
            "weight",
            "household",
            "geography",
            "strata",
            "populations",
            "sensitive",
            "id",
            "missing",
            "coding",
        ),
        *("criterion", "search", "max_clique", "restarts", "time_limit", "model", "cliques", "resolution", "form", "threshold"),
        *("memory", "seed", "protect", "scenario", "encoding", "sheet", "decimal", "analysis", "by", "recode"),
        *("stages", "household_order", "households_known", "missing_codes", "key_error"),
    }
    assert {field.name for field in fields_of(RunConfig)} == checked | harmless


@pytest.mark.parametrize("name", ["link.csv", "parts", "folder/link.parquet"])
def test_a_link_is_followed_before_it_is_decided_at_the_moment_of_opening(house: Path, name: str) -> None:
    (house / "link.csv").symlink_to(house.parent / "secret.csv")
    (house / "parts").mkdir()
    pq.write_table(pa.table({"name": ["Bob"]}), house / "parts" / "part-0.parquet")
    (house / "parts" / "part-1.parquet").symlink_to(house.parent / "secret.parquet")
    (house / "folder").symlink_to(house.parent)
    (house.parent / "link.parquet").symlink_to(house.parent / "secret.parquet")
    open_source(house / name)
    with confined(house), pytest.raises(OutsideFolder):
        open_source(house / name)


def test_a_link_put_in_the_place_of_a_checked_file_is_refused(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = house / "people.csv"

    def exchange() -> None:
        name.unlink()
        name.symlink_to(house.parent / "secret.csv")

    def checked_then_exchanged(path: Path) -> Path:
        found = existing_file(path)
        exchange()
        return found

    name.write_text("name,age\nAnn,31\n")
    with confined(house), monkeypatch.context() as attack:
        attack.setattr("rarecell.engine.opening.existing_file", checked_then_exchanged)
        with pytest.raises(BadInput, match="not inside the folder"):
            open_source(name)
    name.unlink()
    name.write_text("name,age\nAnn,31\n")
    with confined(house):
        source = open_source(name)
    exchange()
    with ThreadPoolExecutor(1) as pool, pytest.raises(BadInput, match="not inside the folder"):
        pool.submit(lambda: list(source.batches(["name"]))).result()


def test_a_confined_program_reads_neither_queries_nor_spark(house: Path) -> None:
    with confined(house):
        with pytest.raises(BadInput, match="outside the folder"):
            open_source(None, sql="select 1")
        with pytest.raises(BadInput, match="outside the folder"):
            open_table("people")
        assert open_source(house / "census.csv").n_rows == 2


# ---------------------------------------------------------------------- odd files


ODD_RECORDS = [
    "{}",
    "[]",
    "7",
    '{"input": []}',
    '{"input": {"path": 5}, "seconds": {"a": "x"}}',
    '{"seconds": [1]}',
    '{"seconds": {"a": NaN}}',
    '{"command": {"a": 1}, "input": null}',
    "[" * 100_000,
    '{"input": {"path": "' + "x" * 5000 + '"}}',
    "{",
    "\udcff",
]


@pytest.mark.parametrize("record", ODD_RECORDS)
@pytest.mark.parametrize("file", ["run.json", "summary.json"])
def test_an_odd_run_is_skipped_and_the_others_are_shown(house: Path, record: str, file: str) -> None:
    write_run(house / "good", census_summary(), run_toml=RUN_TOML)
    write_run(house / "odd", census_summary(), run_toml=RUN_TOML)
    (house / "odd" / file).write_text(record, encoding="utf-8", errors="surrogateescape")
    browser = Browser(house)
    answer = browser.get("/runs")
    assert answer.status_code == 200
    assert "good" in answer.text
    for page in ("/run?name=odd", "/protect?name=odd", "/keys?file=census.csv"):
        assert browser.get(page).status_code in (200, 400), page


@pytest.mark.parametrize(
    ("file", "path", "value"),
    [
        ("summary.json", ("records",), "about 100"),
        ("summary.json", ("population",), 10**400),
        ("summary.json", ("risk", "expected_population_uniques"), 10**400),
        ("summary.json", ("risk", "expected_population_uniques"), float("inf")),
        ("summary.json", ("risk", "estimators", "ewens"), float("inf")),
        ("summary.json", ("risk", "histogram", "counts"), []),
        ("summary.json", ("model", "cliques"), [["nobody"]]),
        ("summary.json", ("model", "criterion"), "\ud800"),
        ("run.json", ("processor_seconds",), {"report": "x"}),
        ("run.json", ("processor_seconds",), [[]]),
        ("run.json", ("seconds",), {"report": 10**400}),
        ("run.json", ("peak_memory",), 10**400),
        ("run.json", ("peak_memory",), "much"),
    ],
)
def test_a_damaged_number_of_a_run_costs_no_more_than_its_page(
    house: Path, file: str, path: tuple[str, ...], value: object
) -> None:
    write_run(house / "good", census_summary(), run_toml=RUN_TOML)
    place = write_run(house / "odd", census_summary(), run_toml=RUN_TOML) / file
    stored = json.loads(place.read_text())
    part = stored
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    place.write_text(json.dumps(stored))
    browser = Browser(house)
    answer = browser.get("/runs")
    assert answer.status_code == 200
    assert "good" in answer.text
    assert browser.get("/run?name=odd").status_code in (200, 400)
    with contextlib.suppress(BadInput):
        rc.card(rc.load(house / "odd"))


@pytest.mark.parametrize(
    "text", ["", "[[[", "input = 5", "keys = 'a'", "\0", "input = 'census.csv'\nkeys = ['age']\npopulation = nan"]
)
def test_a_damaged_run_toml_is_a_message(house: Path, text: str) -> None:
    write_run(house / "odd", census_summary(), run_toml=text)
    browser = Browser(house)
    assert browser.get("/run?name=odd").status_code in (200, 400)
    assert browser.post("/protect?name=odd", {"way": "top", "top": "1"}).status_code == 400


@pytest.mark.parametrize(
    "page", ["/keys?file={}", "/data?folder={}", "/data?path={}", "/run?name={}", "/protect?name={}", "/files/{}"]
)
@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000, "é" * 200, "a\nb", "census.csv/x"])
def test_names_no_file_system_takes_are_messages(house: Path, page: str, name: str) -> None:
    assert Browser(house).get(page.format(quote(name, safe="/"))).status_code in (400, 404)


def test_a_run_with_an_overlong_name_is_a_message(house: Path) -> None:
    fields = {"file": "census.csv", "role:age": "key", "population": "1000", "run_name": "y" * 300}
    assert Browser(house).post("/assess", fields).status_code == 400


@pytest.mark.parametrize("number", ["9" * 5000, "-1", "1.5", "abc", "٣", "0x1"])
def test_numbers_of_jobs_that_are_none_are_not_found(house: Path, number: str) -> None:
    for path in (f"/job/{quote(number)}", f"/job/{quote(number)}/state"):
        assert Browser(house).get(path).status_code == 404


@pytest.mark.parametrize(
    ("fifo", "page"),
    [
        ("pipe.csv", "/keys?file=pipe.csv"),
        ("parts/a.parquet", "/keys?file=parts"),
        ("odd/run.json", "/runs"),
        ("odd/summary.json", "/run?name=odd"),
        ("odd/run.toml", "/run?name=odd"),
        ("odd/risk.parquet", "/protect?name=odd"),
        ("odd/tables/riskiest-records.json", "/run?name=odd"),
        ("odd/report.html", "/files/odd/report.html"),
    ],
)
def test_a_pipe_blocks_nothing(house: Path, fifo: str, page: str) -> None:
    write_run(house / "odd", census_summary(), run_toml=RUN_TOML)
    place = house / fifo
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    started = time.monotonic()
    assert Browser(house).get(page).status_code in (200, 400, 404)
    assert time.monotonic() - started < 30


def test_a_page_that_takes_too_long_is_given_up_and_the_next_is_made() -> None:
    async def many() -> tuple[int, str]:
        n_given_up = 0
        for _ in range(60):
            try:
                await in_time_limit(lambda: time.sleep(30), seconds=0.001)
            except BadInput:
                n_given_up += 1
        return n_given_up, await in_time_limit(lambda: "alive")

    assert asyncio.run(many()) == (60, "alive")


def test_what_goes_wrong_in_a_page_is_told() -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(in_time_limit(fail))


# ---------------------------------------------------------------------- many columns, rare values


@pytest.mark.parametrize(("suffix", "n_columns"), [(".csv", 3000), (".parquet", 250)])
def test_a_file_with_thousands_of_columns_has_its_pages(house: Path, suffix: str, n_columns: int) -> None:
    names = [f"a question with quite a long name, number {k}" for k in range(n_columns)]
    path = house / f"wide{suffix}"
    if suffix == ".csv":
        lines = [
            ",".join(f'"{name}"' for name in names),
            *(",".join(str((row + k) % 3) for k in range(n_columns)) for row in range(4)),
        ]
        path.write_text("\n".join(lines) + "\n")
    else:
        pq.write_table(pa.table({name: [0, 1, 2, 0] for name in names}), path)
    browser = Browser(house)
    page = browser.get(f"/keys?file=wide{suffix}")
    assert page.status_code == 200
    assert f"number {n_columns - 1}" in page.text
    fields = {f"role:{name}": "none" for name in names} | {"file": f"wide{suffix}", "population": "1000"}
    refused = browser.post("/assess", fields)
    assert refused.status_code == 400
    assert "No column is marked as a key" in refused.text


def test_values_that_occur_once_are_not_shown(house: Path) -> None:
    from rarecell.data.describe import profile_file

    path = house / "people.csv"
    path.write_text("town,age\n" + "".join(f"{'Aa' if i < 5 else f'Secret{i}'},{i}\n" for i in range(9)))
    town, age = profile_file(path).columns
    assert town.examples == ("Aa",)
    assert age.examples == ()
    assert "Secret" not in Browser(house).get("/keys?file=people.csv").text


# ---------------------------------------------------------------------- a full disk


def test_no_part_of_the_sample_stays_on_a_full_disk(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(source: Path, target: Path) -> None:
        Path(target).write_bytes(Path(source).read_bytes()[:1000])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    browser, before = Browser(house), sorted(house.iterdir())
    with monkeypatch.context() as full:
        full.setattr("shutil.copyfile", half)
        answer = browser.post("/sample")
    assert answer.status_code == 400
    assert "could not be written: No space left" in answer.text
    assert sorted(house.iterdir()) == before
    assert browser.get(browser.post("/sample").headers["location"].removeprefix(browser.gate.base)).status_code == 200
