"""The app: what each page shows and does, and that a clicked run is the run of the terminal."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import html5lib
import httpx
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from rarecell.app.forms import assess_config, protect_config
from rarecell.app.jobs import Job, Jobs, TrialProcess, in_words, shares_of
from rarecell.app.runs import FinishedRun
from rarecell.app.worker import ReportedProgress
from rarecell.data.describe import profile_file
from rarecell.errors import BadInput, RarecellError
from rarecell.progress import OpenStage, Stage, StageTree
from rarecell.report import write_report
from rarecell.run.config import ProtectConfig, RunConfig
from tests.app_client import Browser, write_run
from tests.summaries import census_summary, protected_summary, riskiest_records, typed, typed_records

RUN_TOML = 'input = "people.csv"\nkeys = ["age", "sex"]\npopulation = 100000\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    n = 400
    people = pa.table(
        {
            "person": [f"P{k:04d}" for k in range(n)],
            "age": rng.integers(18, 80, n),
            "sex": rng.choice(["f", "m"], n),
            "region": rng.choice(["01", "02", "03"], n, p=[0.6, 0.3, 0.1]),
            "job": rng.integers(1, 9, n),
            "income": rng.lognormal(10, 1, n).round(2),
            "weight": rng.uniform(100, 300, n).round(1),
        }
    )
    pa.csv.write_csv(people, tmp_path / "people.csv")
    (tmp_path / "deep").mkdir()
    pq.write_table(people, tmp_path / "deep" / "people.parquet")
    return tmp_path


def wait(browser: Browser, address: str, *, seconds: float = 900) -> Any:
    """Follow a run's page until it leads on or says why not; on a busy computer a run waits longer than it works."""
    path = address.removeprefix(browser.gate.base)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        told = browser.get(f"{path}/state").json()
        if told["state"] != "running":
            return browser.get(path), told
        time.sleep(0.2)
    raise AssertionError("the run did not end")


# ---------------------------------------------------------------------- data and keys


def test_the_start_leads_to_the_data_or_to_the_file_that_was_named(folder: Path) -> None:
    assert Browser(folder).get("/").headers["location"].endswith("/data")
    assert Browser(folder, file="people.csv").get("/").headers["location"].endswith("/keys?file=people.csv")


def test_files_are_listed_and_a_path_can_be_written(folder: Path) -> None:
    browser = Browser(folder)
    page = browser.get("/data").text
    assert "people.csv" in page
    assert "deep" in page
    assert "people.parquet" in browser.get("/data?folder=deep").text
    assert browser.get("/data?path=deep/people.parquet").headers["location"].endswith("/keys?file=deep/people.parquet")
    assert browser.get("/data?path=deep").headers["location"].endswith("/data?folder=deep")
    assert "nothing called" in browser.get("/data?path=gone.csv").text


def test_columns_come_with_a_role_and_a_reason(folder: Path) -> None:
    roles = {column.name: column.role for column in profile_file(folder / "people.csv").columns}
    assert roles == {
        "person": "id",
        "age": "key",
        "sex": "key",
        "region": "key",
        "job": "key",
        "income": "sensitive",
        "weight": "weight",
    }
    same = {column.name: column.role for column in profile_file(folder / "deep" / "people.parquet").columns}
    assert same == roles
    page = Browser(folder).get("/keys?file=people.csv").text
    assert "Every record has a different value." in page
    assert "something an intruder would like to learn" in page
    assert "P0001" not in page, "values that occur once may single a person out"


def test_roles_that_a_file_has_once_are_suggested_once(tmp_path: Path) -> None:
    rows = "\n".join(f"A{k},B{k},{k % 3}" for k in range(40))
    (tmp_path / "two.csv").write_text(f"first,second,sex\n{rows}\n", encoding="utf-8")
    columns = {column.name: column for column in profile_file(tmp_path / "two.csv").columns}
    assert (columns["first"].role, columns["second"].role) == ("id", "none")
    assert "first has that role already" in columns["second"].why


def test_a_file_that_cannot_be_read_is_one_paragraph(folder: Path) -> None:
    (folder / "broken.parquet").write_bytes(b"PAR1 this is not one")
    answer = Browser(folder).get("/keys?file=broken.parquet")
    assert answer.status_code == 400
    assert "broken.parquet" in answer.text
    assert "Traceback" not in answer.text


# ---------------------------------------------------------------------- forms


def shown_choices(page: str) -> dict[str, str]:
    """The fields of the Keys page as a browser would send them."""
    tree = html5lib.parse(page, namespaceHTMLElements=False)
    fields = {field.get("name"): field.get("value", "") for field in tree.iter("input") if field.get("name")}
    for select in tree.iter("select"):
        options = list(select.iter("option"))
        chosen = next((option for option in options if option.get("selected") is not None), options[0])
        if select.get("name"):
            fields[select.get("name")] = chosen.get("value", chosen.text)
    return fields


def households_asked(page: str) -> tuple[list[tuple[str, bool]], list[str]]:
    """The answers that the Keys page offers to the question about households, and what it says stands now."""
    tree = html5lib.parse(page, namespaceHTMLElements=False)
    box = next(each for each in tree.iter("fieldset") if each.get("data-household") is not None)
    offered = [(button.get("value"), button.get("aria-pressed") == "true") for button in box.iter("button")]
    return offered, [span.get("data-answer") for span in box.iter("span") if span.get("hidden") is None]


@pytest.fixture
def homes(tmp_path: Path) -> Path:
    """A file of households that two columns number, together and one of them alone."""
    rng = np.random.default_rng(3)
    home = np.repeat(np.arange(120), rng.integers(1, 5, 120))
    people = {"dwelling": home + 100, "area": home // 12, "hhid": home + 7000, "age": rng.integers(1, 80, len(home))}
    pa.csv.write_csv(pa.table({**people, "sex": rng.choice(["f", "m"], len(home))}), tmp_path / "homes.csv")
    return tmp_path


def test_the_household_is_asked_for_first_and_answered_in_the_roles(homes: Path) -> None:
    browser = Browser(homes)
    page = browser.get("/keys?file=homes.csv").text
    assert page.index("do several rows belong to one household") < page.index("Columns of the file")
    assert households_asked(page) == ([("dwelling", True), ("hhid", False), ("", False)], ["yes"])
    fields = shown_choices(page) | {"population": "5000"}
    assert fields["role:dwelling"] == "household"

    def answered(columns: str) -> str:
        answer = browser.post("/household", fields | {"household_columns": columns})
        return str(browser.get(answer.headers["location"].removeprefix(browser.gate.base)).text)

    other = answered("hhid")
    assert households_asked(other) == ([("dwelling", False), ("hhid", True), ("", False)], ["yes"])
    roles = {name: role for name, role in shown_choices(other).items() if name.startswith("role:")}
    assert roles == {**{name: fields[name] for name in roles}, "role:dwelling": "none", "role:hhid": "household"}
    assert shown_choices(other)["population"] == "5000"
    assert assess_config(form(shown_choices(other)), homes / "homes.csv").household == "hhid"

    several = assess_config(form(shown_choices(answered("area,dwelling"))), homes / "homes.csv")
    assert several.household == "dwelling,area"

    nobody = answered("")
    assert households_asked(nobody) == ([("dwelling", False), ("hhid", False), ("", True)], ["no"])
    config = assess_config(form(shown_choices(nobody)), homes / "homes.csv")
    assert (config.household, config.households_known) == (None, "no")


def test_a_file_of_persons_is_asked_about_households_without_a_proposal(folder: Path) -> None:
    offered, stands = households_asked(Browser(folder).get("/keys?file=people.csv").text)
    assert (offered, stands) == ([("", False)], ["open"])


def form(fields: dict[str, str]) -> dict[str, list[str]]:
    return {name: [value] for name, value in fields.items()}


def test_a_form_is_the_configuration_it_says(folder: Path) -> None:
    fields = {
        "role:age": ["key"],
        "role:sex": ["key"],
        "role:weight": ["weight"],
        "role:income": ["sensitive"],
        "role:job": ["none"],
        "population": ["1,000 000"],
        "threshold": ["0.3"],
        "model": ["single"],
        "seed": ["7"],
    }
    config = assess_config(fields, folder / "people.csv")
    assert config == RunConfig(
        input=str(folder / "people.csv"),
        keys=("age", "sex"),
        population=1_000_000,
        weight="weight",
        sensitive=("income",),
        threshold=0.3,
        model="single",
        seed=7,
    )
    assert RunConfig.from_toml(config.to_toml()) == config


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"population": ["10"]}, "No column is marked as a key"),
        ({"role:age": ["key"]}, "The size of the population is empty"),
        ({"role:age": ["key"], "population": ["many"]}, "whole number"),
        ({"role:age": ["key"], "population": ["10"], "threshold": ["nan"]}, "valid size"),
        ({"role:age": ["key"], "population": ["10"], "threshold": ["2"]}, "between 0 and 1"),
        ({"role:age": ["king"], "population": ["10"]}, "the role 'king'"),
        ({"role:a": ["key"], "role:b": ["weight"], "role:c": ["weight"]}, "Only one can be"),
        ({"role:age": ["key"], "population": ["10"], "model": ["magic"]}, "magic"),
    ],
)
def test_a_form_that_cannot_be_meant_says_why(folder: Path, fields: dict[str, list[str]], said: str) -> None:
    with pytest.raises(RarecellError, match=said):
        assess_config(fields, folder / "people.csv")


def test_what_was_chosen_is_still_there_after_a_mistake(folder: Path) -> None:
    browser = Browser(folder)
    answer = browser.post(
        "/assess", {"file": "people.csv", "role:job": "key", "role:age": "none", "population": "few", "run_name": "mine"}
    )
    assert answer.status_code == 400
    assert 'value="few"' in answer.text
    assert 'value="mine"' in answer.text
    assert "whole number" in answer.text


def test_ways_to_choose_records() -> None:
    config = RunConfig(input="x.csv", keys=("a", "b"), population=10)

    def protection(fields: dict[str, list[str]]) -> ProtectConfig | None:
        return protect_config(fields, config, columns=lambda: ("a", "b", "c")).protect

    assert protection({"way": ["risk_above"], "risk_above": ["0.25"]}) == ProtectConfig(risk_above=0.25)
    top = protection({"way": ["top"], "top": ["5"], "never_swap": ["a"], "keep": ["a,b; b ,c"]})
    assert top is not None
    assert (top.top, top.never_swap, top.keep) == (5, ("a",), (("a", "b"), ("b", "c")))
    for wrong in (
        {"way": ["magic"]},
        {"way": ["top"], "top": ["0"]},
        {"way": ["top"], "top": ["-2"]},
        {"way": ["risk_above"], "risk_above": ["1.5"]},
        {"way": ["risk_above"], "risk_above": [""]},
        {"way": ["top"], "top": ["1"], "never_swap": ["z"]},
        {"way": ["top"], "top": ["1"], "keep": ["a,b;;a"]},
    ):
        with pytest.raises(BadInput):
            protection(wrong)


# ---------------------------------------------------------------------- finished runs


def test_runs_are_listed_and_opened(folder: Path) -> None:
    write_run(folder / "first", census_summary(), run_toml=RUN_TOML)
    write_run(folder / "deep" / "second", protected_summary(), run_toml=RUN_TOML)
    (folder / "broken").mkdir()
    (folder / "broken" / "run.json").write_text("{", encoding="utf-8")
    (folder / "broken" / "summary.json").write_text("[]", encoding="utf-8")
    browser = Browser(folder)
    page = browser.get("/runs").text
    assert "first" in page
    assert "deep/second" in page
    assert "not what rarecell writes: broken" in page
    assert "name=broken" not in page
    opened = browser.get("/run?name=first").text
    assert "About 202 records could be recognised" in opened
    assert "Protect the risky records" in opened
    assert "age 90 with relationship 7 occurs once" in opened
    assert "keys = [&#34;age&#34;, &#34;sex&#34;]" in opened
    second = browser.get("/run?name=deep/second").text
    assert "What protection changed" in second
    assert "Protect the risky records" not in second
    assert browser.get("/run?name=broken").status_code == 400


def test_a_run_begins_with_its_verdict_and_leads_back_to_its_keys(folder: Path) -> None:
    for name, summary in (("one", census_summary()), ("two", protected_summary())):
        write_run(folder / name, summary, run_toml=RUN_TOML)
        page = Browser(folder).get(f"/run?name={name}").text
        places = [page.index(text) for text in ('id="verdict"', 'id="next-step"', 'class="actions"', 'id="glossary"')]
        assert places == sorted(places)
        # Nothing was done to a file that was only assessed: what leads on comes first.
        assert (page.index('id="next-step"') < page.index("What was done")) == (name == "one")
        assert page.index(">Limits of the profile: ") < page.index('id="next-step"')
        assert f'/keys?from={name}">Keys</a>' in page


@pytest.mark.parametrize(
    "path", ["/data", "/keys?file=people.csv", "/runs", "/run?name=one", "/protect?name=one", "/nowhere", "/job/9"]
)
def test_pages_are_valid_html(folder: Path, path: str) -> None:
    write_run(folder / "one", census_summary(), run_toml=RUN_TOML)
    html5lib.HTMLParser(strict=True).parse(Browser(folder).get(path).text)


def test_the_riskiest_records_come_back_as_they_were(folder: Path) -> None:
    records = riskiest_records()
    records[0] |= {
        "values": records[0]["values"] | {"age": "-1"},
        "why": ["a; b, c", "d"],
        "unsafe_combinations": [["age, in years", "sex"]],
    }
    place = write_run(folder / "one", census_summary(), run_toml=RUN_TOML)
    write_report(place, typed(census_summary()), typed_records(records))
    first = FinishedRun.read(place, "one").riskiest()[0]
    assert first.values["age"] == "-1"
    assert first.why == ("a; b, c", "d")
    assert first.enough == ("age, in years", "sex")


def test_each_threshold_has_its_cost(folder: Path) -> None:
    run = FinishedRun.read(write_run(folder / "one", census_summary(), run_toml=RUN_TOML), "one")
    costs = {round(cost["threshold"], 2): cost for cost in run.threshold_costs()}
    # Risks of the sample uniques: 0.005, 0.1, 0.25, 0.25, 0.9 and 1, the last without a partner.
    assert [costs[t]["records"] for t in (0.0, 0.01, 0.1, 0.24, 0.25, 0.9, 0.99, 1.0)] == [6, 5, 4, 4, 2, 1, 1, 0]
    assert costs[0.0]["left"] == pytest.approx(0.0)
    assert costs[0.25]["left"] == pytest.approx(0.605)
    assert costs[1.0]["left"] == pytest.approx(2.505)
    assert [costs[t]["stuck"] for t in (0.5, 1.0)] == [1, 0]
    assert costs[0.25]["share"] == pytest.approx(2 / 7)


@pytest.mark.parametrize("known", ["households", "register", "scenarios"])
def test_a_threshold_costs_what_the_protection_swaps(folder: Path, known: str) -> None:
    """Records are chosen by the larger risk, alone or with the family, by what was counted, or by the worst of several intruders."""
    place = write_run(folder / "one", census_summary(), run_toml=RUN_TOML)
    columns = {
        "households": {"household_unique_probability": [0.5, 0.0, 0.0, 0.5, 0.5, 0.95, 0.0]},
        "register": {"population_count": [3, 1, 1, 4, 2, 2, 5]},
        "scenarios": {"worst_probability": [0.3, 0.0, 0.1, 0.25, 0.7, 0.9, 1.0]},
    }[known]
    risks = pq.read_table(place / "risk.parquet")
    for name, values in columns.items():
        risks = risks.append_column(name, pa.array(values))
    pq.write_table(risks, place / "risk.parquet")
    costs = FinishedRun.read(place, "one").threshold_costs()
    records, left = {"households": (5, 0.105), "register": (2, 0.0), "scenarios": (4, 0.35)}[known]
    assert costs[25]["records"] == records
    assert costs[25]["left"] == pytest.approx(left)
    # Whether a household finds a partner is not known before swaps are planned.
    assert (costs[25]["stuck"] is None) == (known == "households")
    assert ("without any partner" in Browser(folder).get("/protect?name=one").text) == (known != "households")
    (place / "run.toml").write_text(f'{RUN_TOML}households_known = "no"\n', encoding="utf-8")
    alone = FinishedRun.read(place, "one").threshold_costs()[25]["records"]
    assert alone == (2 if known == "households" else records)


def test_tables_and_files_can_be_downloaded(folder: Path) -> None:
    write_run(folder / "one", protected_summary(), run_toml=RUN_TOML)
    (folder / "one" / "protected.csv").write_text("age\n1\n", encoding="utf-8")
    browser = Browser(folder)
    page = browser.get("/run?name=one").text
    assert "/files/one/tables/keys.csv" in page
    answer = browser.get("/files/one/protected.csv?download")
    assert answer.text == "age\n1\n"
    assert "attachment" in answer.headers["content-disposition"]
    assert browser.get("/files/one/report.html").headers["content-type"].startswith("text/html")


# ---------------------------------------------------------------------- progress


class _NoProcess:
    stdin = None


def _job(**changes: Any) -> Job:
    job = Job(1, "assess", "A run", Path("x"), _NoProcess(), {"a": 1.0, "b": 3.0}, "/data")  # type: ignore[arg-type]
    for name, value in changes.items():
        setattr(job, name, value)
    return job


def _tree(*stages: OpenStage) -> StageTree:
    tree = StageTree()
    tree.done_seconds = {"a": 10.0}
    tree.open = list(stages)
    return tree


def test_steps_inside_a_stage_count_as_that_stage() -> None:
    told = StageTree()
    told.start("a")
    told.start("a step of a", 4.0)
    told.advance(2.0)
    assert told.fraction({"a": 1.0, "b": 3.0}) == pytest.approx(0.125)
    told.done()
    assert told.done_seconds == {}
    told.done()
    assert list(told.done_seconds) == ["a"]


def test_an_earlier_run_tells_how_long_the_outer_stages_take() -> None:
    """Stages that ran side by side inside another one have seconds of their own; they are not counted twice."""
    earlier = {
        "reading": 1.0,
        "models": 2.0,
        "search": 2.0,
        "unsafe": 1.5,
        "risk": 1.0,
        "judgement": 4.0,
        "checks": 4.0,
        "interval": 3.0,
    }
    shares = shares_of("assess", earlier)
    assert shares == {"reading": 1.0, "models": 2.0, "risk": 1.0, "judgement": 4.0}
    job = _job(shares=shares)
    for stage in ("reading", "models", "risk"):
        job.tree.start(stage)
        job.tree.done()
    assert job.fraction() == pytest.approx(0.5)


def test_the_time_left_follows_the_stages() -> None:
    now = time.monotonic()
    assert _job().seconds_left() is None
    halfway = _job(started=now - 10, tree=_tree(OpenStage("b", total=100.0, amount=50.0)))
    assert halfway.fraction() == pytest.approx((1 + 1.5) / 4)
    assert halfway.seconds_left() == pytest.approx(6, abs=0.1)
    unknown = _job(started=now - 10, tree=_tree(OpenStage("b", started=now - 30)))
    assert 0.25 < unknown.fraction() < 0.99
    assert _job(state="done").fraction() == 1.0


@pytest.mark.parametrize(
    ("seconds", "said"), [(3, "a few seconds"), (42, "about 40 seconds"), (90, "about 2 minutes"), (61, "about 60 seconds")]
)
def test_times_are_said_in_words(seconds: float, said: str) -> None:
    assert in_words(seconds) == said


class _Listening:
    """A process that hears what it is told."""

    def __init__(self) -> None:
        self.stdin = io.StringIO()


def test_the_progress_page_has_the_first_number_and_a_way_to_end_after_the_verdict(folder: Path) -> None:
    jobs, process = Jobs(folder), _Listening()
    job = _job(process=process)
    assert job.progress_report()["answer"] == ""
    jobs._hear(job, {"event": "answer", "sentence": "About 7 records.", "is_verdict": False})
    jobs._hear(job, {"event": "start", "stage": Stage.JUDGEMENT})
    assert job.progress_report()["answer"] == "About 7 records."
    jobs.end_early(job)
    assert process.stdin.getvalue() == "", "without a verdict there is nothing to show"
    jobs._hear(job, {"event": "done"})
    jobs._hear(job, {"event": "answer", "sentence": "Do not release.", "is_verdict": True})
    jobs._hear(job, {"event": "start", "stage": Stage.ADVICE, "total": 3})
    assert job.progress_report()["answer"] == "Do not release."
    assert job.progress_report()["can_end_early"]
    jobs.end_early(job)
    assert process.stdin.getvalue() == "enough\n"
    assert not job.progress_report()["can_end_early"]


def test_a_line_ends_a_worker_early_and_the_end_of_its_input_stops_it() -> None:
    progress = ReportedProgress(io.StringIO())
    ours, theirs = os.pipe()
    with os.fdopen(ours) as lines, os.fdopen(theirs, "w") as pen:
        listening = threading.Thread(target=progress.listen, args=(lines,))
        listening.start()
        pen.write("enough\n")
        pen.flush()
        until = time.monotonic() + 20
        while not progress.ends_early() and time.monotonic() < until:
            time.sleep(0.01)
        assert progress.ends_early()
        assert not progress.cancelled()
        pen.close()
        listening.join(20)
        assert progress.cancelled()


def test_a_worker_that_fails_says_why(folder: Path) -> None:
    jobs = Jobs(folder)
    config = RunConfig(input=str(folder / "gone.csv"), keys=("age",), population=1000)
    job = jobs.start("assess", config.to_toml(), folder / "out", title="t", back="/data")
    until = time.monotonic() + 60
    while job.state == "running" and time.monotonic() < until:
        time.sleep(0.1)
    assert job.state == "failed"
    assert "gone.csv" in job.message
    assert not (folder / "out").exists()


def test_a_worker_that_is_killed_is_a_failed_run(folder: Path) -> None:
    jobs = Jobs(folder)
    config = RunConfig(input=str(folder / "people.csv"), keys=("age", "sex"), population=100_000)
    job = jobs.start("assess", config.to_toml(), folder / "out", title="t", back="/data")
    job.process.kill()
    job.process.wait()
    until = time.monotonic() + 10
    while job.state == "running" and time.monotonic() < until:
        time.sleep(0.05)
    assert job.state == "failed"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="processes are stopped by signals")
@pytest.mark.parametrize("moment", ["unfinished", "complete"])
def test_what_a_killed_worker_leaves_is_put_in_order_at_once(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """An office leaves the app open for weeks, so nobody waits for its next start."""
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    # A worker that stops at its own word while it writes, or when its files are complete and not yet in place.
    script = (
        "import os, sys, time\n"
        "from rarecell.run import files, publishing\n"
        f"place, name = {{'unfinished': (files, 'write_report'), 'complete': (publishing, '_install')}}[{moment!r}]\n"
        "def wait(*given, **more):\n"
        "    from rarecell.machine.disk import private_folder\n"
        "    (private_folder(wait) / 'records.parquet').write_text('secret')\n"
        "    open(os.path.join(os.environ['TMPDIR'], 'waits'), 'w').close(); time.sleep(300)\n"
        "setattr(place, name, wait)\n"
        "from rarecell.app.worker import main\n"
        "main()\n"
    )
    monkeypatch.setattr(
        "rarecell.app.jobs._new_worker",
        lambda *_: subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        ),
    )
    before = sorted(path.name for path in folder.iterdir())
    jobs = Jobs(folder)
    config = RunConfig(input=str(folder / "people.csv"), keys=("age", "sex"), population=100_000, model="single")
    job = jobs.start("assess", config.to_toml(), folder / "out", title="t", back="/data")
    until = time.monotonic() + 300
    while not (temporary / "waits").exists() and job.state == "running" and time.monotonic() < until:
        time.sleep(0.05)
    (temporary / "waits").unlink()
    assert [path.name[:16] for path in (folder / "out").iterdir() if path.is_dir()] == [f".rarecell-{moment}"[:16]]
    job.process.kill()
    while job.state == "running" and time.monotonic() < until:
        time.sleep(0.05)
    assert not list(temporary.iterdir())
    if moment == "complete":
        assert job.state == "done"
        assert (folder / "out" / "run.json").exists()
        assert not [path for path in (folder / "out").iterdir() if path.name.startswith(".")]
    else:
        assert job.state == "failed"
        assert "killed" in job.message
        assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="processes are stopped by signals")
@pytest.mark.parametrize("is_worker_killed", [True, False], ids=["everything is killed", "the app alone is killed"])
def test_an_app_that_is_killed_during_a_run_leaves_it_whole_or_absent(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, is_worker_killed: bool
) -> None:
    """Whoever is killed last says what happened: the run in the terminal, or else the next start on its pages."""
    temporary = tmp_path_factory.mktemp("temporary")
    before = sorted(path.name for path in folder.iterdir())
    with (temporary / "said").open("w+") as said:
        app = subprocess.Popen(
            [sys.executable, "-m", "rarecell", "app", "--no-browser", "--folder", str(folder)],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env=os.environ | {"TMPDIR": str(temporary)},
        )
        assert app.stdout is not None
        address = app.stdout.readline().strip()
        app.stdout.close()
        origin, base = "/".join(address.split("/")[:3]), "/" + address.split("/")[3]
        form = {"file": "people.csv", "population": "100000", "run_name": "one"}
        form |= {f"role:{key}": "key" for key in ("age", "sex", "region", "job")}
        with httpx.Client(base_url=origin, timeout=60) as browser:
            browser.get(address)
            assert browser.post(base + "/assess", data=form, headers={"origin": origin}).status_code == 303
        until = time.monotonic() + 120
        while not list(folder.glob("one/.rarecell-unfinished-*")) and time.monotonic() < until:
            time.sleep(0.002)
        workers = psutil.Process(app.pid).children(recursive=True)
        for worker in workers if is_worker_killed else []:
            worker.kill()
        app.kill()
        app.wait()
        psutil.wait_procs(workers, timeout=120)
        said.seek(0)
        message = said.read()
    assert "Traceback" not in message
    assert "BrokenPipe" not in message
    assert is_worker_killed or "The app was killed. " in message
    assert (folder / "one").exists() == is_worker_killed

    next_start = Browser(folder)
    for page in ("/data", "/runs"):
        assert ("A run that was writing into &#39;one&#39; was killed" in next_start.get(page).text) == is_worker_killed
    next_start.pages.close()
    assert sorted(path.name for path in folder.iterdir()) == before
    assert Browser(folder).pages.killed == []


def test_runs_that_ended_hold_no_descriptors(folder: Path) -> None:
    """The app keeps a list of its runs, and an office leaves it open for weeks."""
    jobs = Jobs(folder)
    config = RunConfig(input=str(folder / "gone.csv"), keys=("age",), population=1000).to_toml()
    n_open = []
    for number in range(4):
        job = jobs.start("assess", config, folder / "out", title="t", back="/data")
        if number % 2:
            job.process.kill()
        until = time.monotonic() + 60
        while (job.state == "running" or not job.process.stdout.closed) and time.monotonic() < until:
            time.sleep(0.05)
        n_open.append(psutil.Process().num_fds())
    assert n_open == n_open[:1] * 4


@pytest.mark.slow
def test_from_the_file_to_the_protected_file_as_in_the_terminal(folder: Path) -> None:
    browser = Browser(folder)
    roles = {"role:age": "key", "role:sex": "key", "role:region": "key", "role:job": "key", "role:weight": "none"}
    started = browser.post("/assess", {"file": "people.csv", "population": "100000", "run_name": "one", **roles})
    assert started.status_code == 303, started.text
    assert "Another run is in progress" in browser.post("/assess", {"file": "people.csv", "population": "100000", **roles}).text
    shown, told = wait(browser, started.headers["location"])
    assert told["state"] == "done", told["message"]
    assert shown.headers["location"].endswith("/run?name=one")
    assert "could be recognised" in browser.get("/run?name=one").text
    assert "What each threshold costs" in browser.get("/protect?name=one").text

    again = browser.post("/protect?name=one", {"way": "top", "top": "5", "run_name": "two"})
    assert again.status_code == 303, again.text
    _, told = wait(browser, again.headers["location"])
    assert told["state"] == "done", told["message"]
    assert "What protection changed" in browser.get("/run?name=two").text

    command = [sys.executable, "-c", "from rarecell.cli.commands import main; main()"]
    for name, action in (("one", "assess"), ("two", "protect")):
        subprocess.run(
            [*command, action, "--config", str(folder / name / "run.toml"), "--out", str(folder / f"{name}-again"), "--quiet"],
            check=True,
            capture_output=True,
        )
        for file in ("summary.json", "risk.parquet", "run.toml"):
            assert (folder / name / file).read_bytes() == (folder / f"{name}-again" / file).read_bytes(), file
        # Commands in a report name the folder of its run.
        report, repeated = ((folder / run / "report.html").read_text(encoding="utf-8") for run in (name, f"{name}-again"))
        assert report == repeated.replace(f"{folder / name}-again/", f"{folder / name}/")
    assert (folder / "two" / "protected.csv").read_bytes() == (folder / "two-again" / "protected.csv").read_bytes()
    assert "already" in browser.post("/assess", {"file": "people.csv", "population": "100000", "run_name": "one", **roles}).text


@pytest.mark.slow
def test_a_process_waits_for_the_next_run_and_ends_with_the_app(folder: Path) -> None:
    jobs = Jobs(folder)
    jobs.keep_ready()
    waiting = jobs._ready
    assert waiting is not None
    config = RunConfig(input=str(folder / "people.csv"), keys=("sex", "region"), population=100_000)
    job = jobs.start("assess", config.to_toml(), folder / "one", title="A run", back="/data")
    assert job.process is waiting
    for _ in range(1200):
        if job.state != "running" and jobs._ready is not None:
            break
        time.sleep(0.1)
    assert job.state == "done", job.message
    following = jobs._ready
    assert following is not None
    assert following is not waiting
    jobs.close()
    assert following.poll() is not None
    assert jobs._ready is None


@pytest.mark.skipif(sys.platform == "win32", reason="processes are stopped by signals")
@pytest.mark.parametrize("is_trying", [False, True], ids=["a process that waits", "a process that tries recodings"])
def test_private_copies_of_an_idle_process_go_with_it(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, is_trying: bool
) -> None:
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    script = (
        "import sys\n"
        "from rarecell.machine.disk import private_folder\n"
        "class Owner: pass\n"
        "owner = Owner()\n"
        "(private_folder(owner) / 'records.parquet').write_text('secret')\n"
        "for line in sys.stdin: print('{}', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    monkeypatch.setattr(
        "rarecell.app.jobs._new_worker",
        lambda *_: subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True),
    )
    jobs = Jobs(tmp_path)
    jobs.keep_ready()
    trials = TrialProcess(jobs, tmp_path)
    if is_trying:
        with pytest.raises(BadInput):
            trials.of("", "", {})
    until = time.monotonic() + 60
    while not list(temporary.glob("*/records.parquet")) and time.monotonic() < until:
        time.sleep(0.02)
    assert list(temporary.glob("*/records.parquet"))
    trials.close()
    jobs.close()
    assert not list(temporary.iterdir())


@pytest.mark.slow
def test_a_cancelled_run_leaves_nothing_behind(folder: Path) -> None:
    browser = Browser(folder)
    roles = {"role:age": "key", "role:sex": "key", "role:region": "key", "role:job": "key", "role:weight": "none"}
    before = sorted(path.name for path in folder.iterdir())
    started = browser.post("/assess", {"file": "people.csv", "population": "100000", "run_name": "one", **roles})
    path = started.headers["location"].removeprefix(browser.gate.base)
    assert browser.post(f"{path}/cancel").status_code == 303
    page = browser.get(path)
    assert browser.get(f"{path}/state").json()["state"] == "cancelled"
    assert "Nothing was written" in page.text
    assert sorted(path.name for path in folder.iterdir()) == before
    assert browser.pages.jobs.running is None


def test_the_summary_of_a_run_is_plain_json(folder: Path) -> None:
    run = write_run(folder / "one", census_summary(), run_toml=RUN_TOML)
    assert FinishedRun.read(run, "one").summary == typed(json.loads(json.dumps(census_summary())))


def test_who_asks_what_runs_waits_for_who_starts_a_run(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    answers: list[object] = []
    with jobs._lock:
        asking = threading.Thread(target=lambda: answers.append(jobs.running))
        asking.start()
        asking.join(0.05)
        assert answers == []
    asking.join()
    assert answers == [None]
