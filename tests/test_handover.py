"""What leaves the office is made by a deliberate act, and nothing in it leads back to the records."""

from __future__ import annotations

import csv as standard_csv
import datetime
import json
import os
import shutil
import stat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

import rarecell as rc
from rarecell.cli.commands import main
from rarecell.data.codebook import Codebook
from rarecell.data.describe import profile_file
from rarecell.engine import open_source
from rarecell.engine.source import StoredDate
from rarecell.engine.statistics.source import stored_date
from rarecell.errors import BadInput, OutputExists, UnknownColumns
from rarecell.outcome.words import harmless, is_formula
from rarecell.run import publishing
from rarecell.run.handover import NotHandedOver, handover

KEYS = ["age", "sex", "region"]


def people(n: int = 240, **more: object) -> pa.Table:
    rng = np.random.default_rng(0)
    household = np.sort(rng.integers(0, n // 3, n))
    columns = {
        "person": [f"P{k:05d}" for k in range(n)],
        "area": 10 + household % 7,
        "number": household,
        "age": rng.integers(18, 60, n),
        "sex": rng.integers(1, 3, n),
        "region": rng.integers(1, 7, n),
        "pay": rng.lognormal(7, 1, n).round(),
        "weight": np.full(n, 200.0),
    }
    return pa.table({**columns, **more})


def protected(folder: Path, table: pa.Table | None = None, suffix: str = "csv", **more: object) -> Path:
    data = people() if table is None else table
    path = folder / f"survey.{suffix}"
    csv.write_csv(data, path) if suffix == "csv" else pq.write_table(data, path)
    options = {"keys": KEYS, "population": 900_000, "id": "person", "household": "area,number", "top": 3}
    quick = {"model": "single", "resolution": "full", "search": "greedy", "restarts": 1}
    rc.protect(path, out=folder / "run", **{**options, **quick, **more})
    return folder / "run"


@pytest.fixture(scope="module")
def protected_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return protected(tmp_path_factory.mktemp("once"))


@pytest.fixture
def run(protected_once: Path, tmp_path: Path) -> Path:
    """A protected file, in a folder that a test may change."""
    return shutil.copytree(protected_once, tmp_path / "run")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_folder_holds_the_file_without_names_in_another_order(tmp_path: Path, suffix: str) -> None:
    run = protected(tmp_path, suffix=suffix)
    made = handover(run, signed_by="A. Steward", reason="test")
    assert sorted(entry.name for entry in made.iterdir()) == [
        "about.html", "codebook.csv", "codebook.xml", f"data.{suffix}", "report.html",
    ]  # fmt: skip
    data = csv.read_csv(made / "data.csv") if suffix == "csv" else pq.read_table(made / "data.parquet")
    inside = csv.read_csv(run / "protected.csv") if suffix == "csv" else pq.read_table(run / "protected.parquet")
    assert "person" not in data.column_names
    # Two columns that name a household together became one number, drawn anew.
    assert "area" not in data.column_names
    key = pq.read_table(run / "release-key.parquet")
    order = np.argsort(key["released_row"].to_numpy())
    assert not np.array_equal(order, np.arange(len(order)))
    for name in (*KEYS, "pay", "weight"):
        assert data[name].to_numpy().tolist() == inside[name].to_numpy()[order].tolist()
    assert key["id"].to_pylist() == inside["person"].to_pylist()
    pairs = set(zip(data["number"].to_pylist(), [f"{a}-{b}" for a, b in zip(inside["area"].to_numpy()[order], inside["number"].to_numpy()[order], strict=True)], strict=True))  # fmt: skip
    assert len(pairs) == len({new for new, _ in pairs}) == len({old for _, old in pairs})
    assert {new for new, _ in pairs} == set(range(1, len(pairs) + 1))
    record = json.loads((run / "handover.json").read_text(encoding="utf-8"))
    assert (record["signed_by"], record["identifiers"], record["order"]) == ("A. Steward", "renumbered", "shuffled")
    assert "handover" in json.loads((run / "run.json").read_text(encoding="utf-8"))["files"]


def test_files_are_for_their_owner_and_nothing_else_is_touched(run: Path) -> None:
    before = {entry.name: entry.read_bytes() for entry in run.iterdir() if entry.is_file() and entry.name != "run.json"}
    made = handover(run, reason="test")
    for entry in made.iterdir():
        assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert {name: (run / name).read_bytes() for name in before} == before
    assert not [entry for entry in run.iterdir() if entry.name.startswith(".rarecell")]


def test_the_codebook_says_what_was_done_to_each_column(tmp_path: Path) -> None:
    run = protected(tmp_path, recode={"age": "10-year bands"}, treat={"pay": "round 100"})
    made = handover(run, reason="test")
    rows = csv.read_csv(made / "codebook.csv").to_pylist()
    done = {row["column"]: row["what_was_done"] for row in rows}
    assert done["age"].startswith("recoded: ")
    assert done["pay"] == "treated: round 100"
    assert done["number"] == "numbered anew at random"
    assert done["weight"] == "as it was collected"
    assert {row["value"] for row in rows if row["column"] == "sex"} == {"1", "2"}
    read = Codebook.read(made / "codebook.xml")
    assert read.source == "DDI-Codebook 2.5"
    assert list(read.columns) == list(dict.fromkeys(row["column"] for row in rows))
    assert (made / "recoding.csv").exists()
    page = (made / "about.html").read_text(encoding="utf-8")
    assert "in random order" in page
    assert "recoded: " in page
    # The external report is the one that was made for people outside.
    assert (made / "report.html").read_bytes() == (run / "report-external.html").read_bytes()


def test_order_and_numbers_stay_when_asked_and_the_page_says_so(run: Path) -> None:
    made = handover(run, keep_order=True, keep_ids=True, accept=["person"], reason="test")
    assert (made / "data.csv").read_bytes() == (run / "protected.csv").read_bytes()
    page = (made / "about.html").read_text(encoding="utf-8")
    assert "in the order in which they were collected" in page
    assert "numbers that the office uses itself" in page


def test_households_can_be_unlinked(run: Path) -> None:
    made = handover(run, unlink_households=True, reason="test")
    assert csv.read_csv(made / "data.csv").column_names == [*KEYS, "pay", "weight"]
    assert "are not in the file" in (made / "about.html").read_text(encoding="utf-8")


def test_a_file_that_must_not_go_needs_a_reason(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    summary["release"]["profile"] = {
        "name": "public", "verdict": "do not release", "limits": {"name": "public"},
        "reasons": [{"limit": "least_k", "sentence": "Some records are alone.", "is_refusal": True}],
    }  # fmt: skip
    (run / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    with pytest.raises(NotHandedOver, match=r"do not release\. Some records are alone"):
        handover(run)
    assert not (run / "handover").exists()
    with pytest.raises(NotHandedOver, match="give the reason"):
        handover(run, reason=" \n")
    handover(run, reason="Contract 17 with the recipient")
    assert json.loads((run / "handover.json").read_text(encoding="utf-8"))["reason"] == "Contract 17 with the recipient"


def test_an_earlier_handover_is_replaced_only_when_asked(run: Path) -> None:
    handover(run, reason="test")
    with pytest.raises(OutputExists):
        handover(run, reason="test")
    handover(run, reason="test", unlink_households=True, overwrite=True)
    assert "area" not in csv.read_csv(run / "handover" / "data.csv").column_names


def test_columns_that_name_persons_stop_it(tmp_path: Path) -> None:
    mails = [f"p{k}@example.org" for k in range(240)]
    run = protected(tmp_path, people(**{"their mail": mails}))
    with pytest.raises(NotHandedOver, match=r"'their mail' \(e-mail addresses\).*--drop 'their mail'"):
        handover(run, reason="test")
    with pytest.raises(UnknownColumns, match="mial"):
        handover(run, reason="test", drop=["mial"])
    assert "their mail" not in csv.read_csv(handover(run, reason="test", drop=["their mail"]) / "data.csv").column_names


def test_a_run_that_protected_nothing_has_nothing_to_hand_over(tmp_path: Path) -> None:
    rc.assess(people(), keys=KEYS, population=90_000, out=tmp_path / "run", model="single", resolution="full")
    with pytest.raises(NotHandedOver, match="protected nothing"):
        handover(tmp_path / "run")
    with pytest.raises(BadInput, match="not the folder of a finished run"):
        handover(tmp_path)


def test_a_kill_leaves_the_run_as_it_was_or_finishes_later(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(entry.name for entry in run.iterdir())

    class Killed(BaseException):
        pass

    def dies(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(publishing, "flush_tree", dies)
        with pytest.raises(Killed):
            handover(run, reason="test")
    assert sorted(entry.name for entry in run.iterdir()) == before
    # Killed after the folder was declared complete: whoever reads the run next finishes the move.
    with monkeypatch.context() as patched:
        patched.setattr(publishing, "_install", dies)
        patched.setattr("shutil.rmtree", lambda *_, **__: None)
        with pytest.raises(Killed):
            handover(run, reason="test")
    rc.load(run)
    assert (run / "handover" / "about.html").exists()
    assert (run / "release-key.parquet").exists()
    assert json.loads((run / "run.json").read_text(encoding="utf-8"))["command"] == "protect"


def test_the_command_makes_the_folder(run: Path) -> None:
    done = CliRunner().invoke(main, ["handover", str(run), "--signed-by", "A. Steward", "--reason", "test"])
    assert done.exit_code == 0, done.output
    assert "may leave the office" in done.output
    assert os.path.exists(run / "handover" / "data.csv")


def test_names_and_levels_that_xml_cannot_hold_leave_the_codebook_readable(tmp_path: Path) -> None:
    odd = ["a\x01b", "\ufffe", "\x1b[31mred", "]]>", "<b>", "\x85"]
    table = people(**{"a\x01": [odd[k % 6] for k in range(240)], "\uffff": [k % 3 for k in range(240)]})
    run = protected(tmp_path, table, "parquet", keys=["age", "sex", "a\x01"])
    made = handover(run, reason="test")
    read = Codebook.read(made / "codebook.xml")
    assert [name for name in read.columns if name.startswith(("a", "\\"))] == ["age", "a\\x01", "\\uffff"]
    assert "a\\x01b" in (made / "codebook.xml").read_text(encoding="utf-8")


def test_what_a_spreadsheet_would_run_is_quoted_in_documents_and_told_of_the_data(tmp_path: Path) -> None:
    """The data are as they came, because a program reads them; people open the codebook, the recodings and the tables."""
    n = 240
    trade = [["=1+1", "+49", "-5", "@sum(a1)", "-lathe", "plain", "two\nlines"][k % 7] for k in range(n)]
    run = protected(tmp_path, people(trade=trade), keys=["age", "sex", "trade"], recode={"trade": "4 groups"})
    done = CliRunner().invoke(main, ["handover", str(run), "--reason", "test", "--drop", "person"])
    assert done.exit_code == 0, done.output
    for path in [*run.rglob("*.csv")]:
        if path.name in ("protected.csv", "data.csv"):
            continue
        with path.open(encoding="utf-8", newline="") as stream:
            cells = [cell for row in standard_csv.reader(stream) for cell in row]
        assert not [cell for cell in cells if is_formula(cell)], path
    assert "Values of trade begin with a sign" in done.output
    assert "Values of trade begin with a sign" in (run / "handover" / "about.html").read_text(encoding="utf-8")
    # Only the rarest levels were merged; the others are in the data as they were.
    assert set((run / "handover" / "data.csv").read_text(encoding="utf-8").splitlines()[1:]) != set()
    values = csv.read_csv(run / "handover" / "data.csv", parse_options=csv.ParseOptions(newlines_in_values=True))["trade"]
    assert any(is_formula(str(value)) for value in values.to_pylist())


@pytest.mark.parametrize(
    ("text", "runs"),
    [("=1+1", True), ("@a", True), ("-a", True), ("+a", True), ("-5", False), ("+49", False), ("-1.5", False), ("-1,5", False),
     ("-1e5", False), ("", False), ("a=1", False), ("\t=1", True), ("＝1", True), ("-", True), ("-1+2", True)],
)  # fmt: skip
def test_a_number_is_no_formula(text: str, runs: bool) -> None:
    assert is_formula(text) == runs
    # A tab begins a cell of its own.
    assert harmless(text) == ("'" + text.replace("\t=", "\t'=") if runs else text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a;=1+1", "a;'=1+1"), ("1;-2", "1;-2"), ("two\n@x;+y", "two\n'@x;'+y"), ("a\t-b", "a\t'-b"), ("a; =1", "a; =1"),
     ("=a;=b", "'=a;'=b"), ("a,=b", "a,=b")],
)  # fmt: skip
def test_no_formula_begins_where_another_spreadsheet_begins_a_cell(text: str, shown: str) -> None:
    """Where the decimal mark is a comma, spreadsheets split at semicolons and line ends, and heed no quotes inside a cell."""
    assert harmless(text) == shown


@pytest.mark.parametrize("option", ["--reason", "--signed-by"])
def test_bytes_that_are_no_text_are_not_recorded(run: Path, option: str) -> None:
    done = CliRunner().invoke(main, ["handover", str(run), option, "\udcff"])
    assert done.exit_code == 1, done.output
    assert "no text" in done.output
    assert not (run / "handover").exists()


DATES = {
    ("sav", "DATE11"): ("1582-10-14", 86_400), ("sav", "ADATE10"): ("1582-10-14", 86_400), ("sav", "EDATE10"): ("1582-10-14", 86_400),
    ("sav", "DATETIME20"): ("1582-10-14", 86_400), ("dta", "%td"): ("1960-01-01", 1), ("dta", "%tc"): ("1960-01-01", 86_400_000),
    ("dta", "%tdD_m_Y"): ("1960-01-01", 1),
}  # fmt: skip


def file_with_dates(folder: Path, suffix: str, format_name: str, n: int = 240) -> tuple[Path, np.ndarray]:
    """A file of a statistics package in which dates of birth are numbers with a format, and these dates."""
    pyreadstat, pandas = pytest.importorskip("pyreadstat"), pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    born = np.datetime64("1950-01-01") + rng.integers(0, 18_000, n)
    origin, per_day = DATES[suffix, format_name]
    hour = np.where(np.arange(n) % 2, 0.5, 0.0) if per_day > 1 and format_name in ("DATETIME20", "%tc") else 0.0
    frame = pandas.DataFrame(
        {
            "age": rng.integers(18, 60, n).astype(float),
            "sex": rng.integers(1, 3, n).astype(float),
            "region": rng.integers(1, 7, n).astype(float),
            "birth": ((born - np.datetime64(origin)).astype(int) + hour) * per_day,
        }
    )
    path = folder / f"survey.{suffix}"
    write = pyreadstat.write_sav if suffix == "sav" else pyreadstat.write_dta
    write(frame, str(path), variable_format={"birth": format_name})
    return path, born


@pytest.mark.parametrize(("suffix", "format_name"), DATES)
def test_dates_stored_as_numbers_stop_a_handover_until_they_are_cut(tmp_path: Path, suffix: str, format_name: str) -> None:
    path, born = file_with_dates(tmp_path, suffix, format_name)
    options = {"keys": KEYS, "population": 900_000, "top": 3, "model": "single", "resolution": "full", "seed": 1}
    rc.protect(path, out=tmp_path / "run", **options)
    with pytest.raises(NotHandedOver, match=r"'birth' \(dates with a day\)"):
        handover(tmp_path / "run", reason="test")
    rc.protect(path, out=tmp_path / "cut", treat={"birth": "date to month"}, **options)
    made = handover(tmp_path / "cut", reason="test", keep_order=True)
    written = open_source(made / f"data.{suffix}")
    column = next(column for column in written.columns() if column.name == "birth")
    assert column.stored_date is not None
    numbers = np.concatenate([batch.column(0).to_numpy() for batch in written.batches(["birth"])])
    assert [str(day) for day in column.stored_date.moments(numbers.tolist())] == [f"{month}-01" for month in born.astype("M8[M]")]


def test_dates_stored_as_numbers_are_keys_by_year(tmp_path: Path) -> None:
    path, born = file_with_dates(tmp_path, "sav", "EDATE10")
    data = rc.Microdata(path, keys=["birth", "sex"], coding={"birth": "date to year"})
    assert set(data.table().categories[0].levels) == {str(year) for year in born.astype("M8[Y]")}
    assert next(column for column in profile_file(path).columns if column.name == "birth").kind == "date"


@given(st.integers(-200_000, 200_000), st.sampled_from(["month", "quarter", "year"]), st.sampled_from(list(DATES.values())))
def test_a_cut_date_is_the_first_day_of_its_month(day: int, unit: str, stored: tuple[str, int]) -> None:
    date = datetime.date(1970, 1, 1) + datetime.timedelta(day)
    scale = StoredDate(datetime.date.fromisoformat(stored[0]), stored[1])
    number = ((date - scale.origin).days + (0.25 if scale.per_day > 1 else 0)) * scale.per_day
    month = {"month": date.month, "quarter": (date.month - 1) // 3 * 3 + 1, "year": 1}[unit]
    first = scale.moments(scale.cut(np.array([number, np.nan]), unit)[:1].tolist())
    assert first == (datetime.date(date.year, month, 1),)


@pytest.mark.parametrize(
    ("kind", "format_name"),
    [(".sav", "F8.2"), (".sav", "TIME8"), (".sav", "DTIME20"), (".dta", "%9.0g"), (".dta", "%tm"), (".xpt", "BEST12")],
)
def test_other_numbers_are_no_dates(kind: str, format_name: str) -> None:
    assert stored_date(kind, format_name) is None


@pytest.mark.parametrize(("format_name", "per_day"), [("DATE9", 1), ("MMDDYY10.", 1), ("DATETIME20", 86_400), ("E8601DA10", 1)])
def test_formats_of_sas_tell_days_and_seconds(format_name: str, per_day: int) -> None:
    found = stored_date(".xpt", format_name)
    assert found is not None
    assert found.per_day == per_day


def test_leap_seconds_are_not_cut_off(tmp_path: Path) -> None:
    pyreadstat, pandas = pytest.importorskip("pyreadstat"), pytest.importorskip("pandas")
    moments = pandas.DataFrame({"sex": [1.0, 2.0] * 10, "seen": 1.8e12 + 1e8 * np.arange(20)})
    pyreadstat.write_dta(moments, str(tmp_path / "seen.dta"), variable_format={"seen": "%tC"})
    with pytest.raises(BadInput, match="leap seconds"):
        rc.protect(tmp_path / "seen.dta", keys=["sex"], population=900, top=1, treat={"seen": "date to month"})
