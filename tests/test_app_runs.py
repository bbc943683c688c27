"""The app's pages of finished runs: records, names, notes, deleting, starting again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import html5lib
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import rarecell as rc
from rarecell.app.runs import FinishedRun
from rarecell.errors import BadInput
from rarecell.outcome.words import expected, number
from rarecell.report.comparison import comparison
from rarecell.report.first_page import recognisable
from rarecell.run.folder import LONGEST_NOTE, delete_run, write_note
from rarecell.run.saved import ListedFamily, RecordChoice, RecordList, SavedRun
from tests.app_client import Browser, write_run
from tests.summaries import census_summary
from tests.test_app import RUN_TOML
from tests.test_families import drawn_homes, frame_of

OPTIONS = {"keys": ["age", "region", "sex"], "population": 900, "model": "independence", "threshold": 0.1}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file and a protected run of it, age released in bands."""
    house = tmp_path_factory.mktemp("house")
    draw = np.random.default_rng(5)
    people = {
        "age": draw.integers(18, 60, 300),
        "region": [f"r{k}" for k in draw.integers(0, 6, 300)],
        "sex": draw.choice(["f", "m"], 300),
        "job": draw.choice(["x", "y"], 300),
    }
    pa.csv.write_csv(pa.table(people), house / "people.csv")
    recode = {"age": "5-year bands"}
    rc.protect(house / "people.csv", recode=recode, top=20, seed=1, swap_seed=1, out=house / "done", **OPTIONS)  # type: ignore[arg-type]
    return house


@pytest.fixture
def house(finished: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    import shutil

    shutil.copytree(finished, tmp_path / "house")
    config = (tmp_path / "house" / "done" / "run.toml").read_text(encoding="utf-8")
    moved = config.replace(str(finished), str(tmp_path / "house"))
    (tmp_path / "house" / "done" / "run.toml").write_text(moved, encoding="utf-8")
    return tmp_path / "house"


@pytest.fixture
def browser(house: Path) -> Iterator[Browser]:
    made = Browser(house)
    yield made
    made.pages.close()


# ---------------------------------------------------------------------- records


def test_records_stand_beside_what_became_of_them(house: Path) -> None:
    run = SavedRun.read(house / "done")
    listed = RecordList(run.place, run.config)
    original = pa.csv.read_csv(house / "people.csv").to_pydict()
    released = pa.csv.read_csv(house / "done" / "protected.csv").to_pydict()
    records = listed.records(listed.rows(RecordChoice(sort="record")))
    assert len(records) == 300
    for record in records:
        for value in record.values:
            assert value.original == str(original[value.column][record.record])
            assert value.released == str(released[value.column][record.record])
            moved = listed.swapped.get(record.record, (None, frozenset(), None))[1]
            if value.how == "swapped":
                assert value.column in moved
            elif value.column != "age":
                assert value.how == "same"
    swapped = listed.records(listed.rows(RecordChoice(state="swapped", sort="distance")))
    assert len(swapped) >= 20
    far = [record.distance for record in swapped]
    assert far == sorted(far, reverse=True)  # type: ignore[type-var]
    partners = {record.record: record.partner for record in swapped}
    assert sorted(partners) == sorted(partners.values())  # type: ignore[type-var]


def test_a_key_with_commas_and_quotes_in_its_name_stays_one_key(finished: Path, tmp_path: Path) -> None:
    odd = 'region, "old" borders'
    people = pa.csv.read_csv(finished / "people.csv").rename_columns(["age", odd, "sex", "job"])
    pa.csv.write_csv(people, tmp_path / "people.csv")
    options = {**OPTIONS, "keys": [odd if key == "region" else key for key in OPTIONS["keys"]]}
    rc.protect(tmp_path / "people.csv", top=20, never_swap=["age"], seed=1, swap_seed=1, out=tmp_path / "done", **options)  # type: ignore[arg-type]
    listed = RecordList(tmp_path / "done", SavedRun.read(tmp_path / "done").config)
    assert any(odd in keys for _, keys, _ in listed.swapped.values())
    assert all(keys <= set(options["keys"]) for _, keys, _ in listed.swapped.values())
    moved = [value for record in listed.records(listed.rows(RecordChoice(state="swapped"))) for value in record.values]
    assert {value.how for value in moved if value.original != value.released} == {"swapped"}


def test_records_of_a_formal_release_are_listed(finished: Path, tmp_path: Path) -> None:
    rc.protect(finished / "people.csv", formal={"rate": 0.2}, out=tmp_path / "done", **OPTIONS)  # type: ignore[arg-type]
    listed = RecordList(tmp_path / "done", SavedRun.read(tmp_path / "done").config)
    moved = listed.records(listed.rows(RecordChoice(state="swapped", sort="distance")))
    assert moved
    assert all(record.distance is None for record in moved)
    changed = {record.record: {value.column for value in record.values if value.original != value.released} for record in moved}
    assert all(columns <= listed.swapped[record][1] for record, columns in changed.items())


def test_records_of_another_file_are_not_shown_beside_these_risks(house: Path, browser: Browser) -> None:
    people = house / "people.csv"
    original = people.read_bytes()
    assert browser.get("/records?name=done").status_code == 200
    table = pa.csv.read_csv(people)
    renamed = table.rename_columns([name if name != "sex" else "gender" for name in table.column_names])
    for other in (table.slice(1), table.take(list(range(len(table)))[::-1]), renamed):
        pa.csv.write_csv(other, people)
        answer = browser.get("/records?name=done")
        assert answer.status_code == 400
        assert "people.csv has changed since this run" in answer.text
    people.write_bytes(original)
    assert browser.get("/records?name=done").status_code == 200
    (house / "done" / "report.html").write_bytes(b"<p>\xff")
    assert browser.get("/files/done/report.html").status_code == 200


def test_records_are_filtered_and_sorted(house: Path) -> None:
    run = SavedRun.read(house / "done")
    listed = RecordList(run.place, run.config)
    rows = listed.rows(RecordChoice(state="risky", above=0.1))
    assert (listed.risk[rows] >= 0.1).all()
    assert (np.diff(listed.risk[rows]) <= 0).all()
    assert len(rows) == run.summary.risk.records_above_threshold
    assert len(listed.rows(RecordChoice(state="unique"))) == run.summary.risk.sample_uniques
    women = pa.csv.read_csv(house / "people.csv")["sex"].to_pylist()
    assert listed.rows(RecordChoice(column="sex", value="f", sort="record")).tolist() == [
        k for k, sex in enumerate(women) if sex == "f"
    ]
    with pytest.raises(BadInput, match="no column 'nothing'"):
        listed.rows(RecordChoice(column="nothing", value="1"))
    with pytest.raises(BadInput, match="sorted by"):
        RecordChoice(sort="name")


def test_the_page_of_records(browser: Browser) -> None:
    page = browser.get("/records?name=done&state=swapped").text
    assert "For internal use" in page
    assert 'class="swapped"' in page
    everything = browser.get("/records?name=done")
    assert "300 records, page 1 of 6" in everything.text
    assert "page=2" in everything.text
    assert "page 6 of 6" in browser.get("/records?name=done&page=99").text
    nobody = browser.get("/records?name=done&column=region&value=nowhere").text
    assert "0 records" in nobody
    assert browser.get("/records?name=done&state=odd").status_code == 400


# ---------------------------------------------------------------------- again, names, notes


def test_a_run_starts_from_an_earlier_one(browser: Browser) -> None:
    page = browser.get("/keys?from=done").text
    assert 'name="recode:age" value="5-year bands"' in page
    assert re.search(r'name="population"[^>]*value="900"', page)
    assert 'value="0.1"' in page
    chosen = re.findall(r'<select name="role:(\w+)".*?</select>', page, flags=re.DOTALL)
    assert chosen == ["age", "region", "sex", "job"]
    assert re.search(r'<option value="independence" selected>', page)
    assert 'from=done"' in browser.get("/runs").text


def test_a_run_is_renamed_and_annotated(browser: Browser, house: Path) -> None:
    answer = browser.post("/note?name=done", {"note": "For the board.\nSecond try <b>"})
    assert answer.status_code == 303
    assert (house / "done" / "note.txt").stat().st_mode & 0o777 == 0o600
    assert "Second try &lt;b&gt;" in browser.get("/run?name=done").text
    assert "For the board." in browser.get("/runs").text
    assert browser.post("/note?name=done", {"note": "x" * (LONGEST_NOTE + 1)}).status_code == 400

    renamed = browser.post("/rename?name=done", {"new_name": "for the board"})
    assert renamed.headers["location"].endswith("/run?name=for%20the%20board")
    assert not (house / "done").exists()
    assert "Second try" in browser.get("/run?name=for%20the%20board").text
    for wrong in ("", "../outside", "for the board", "people.csv"):
        answer = browser.post("/rename?name=for%20the%20board", {"new_name": wrong})
        assert answer.status_code == 400
        assert 'data-field="new_name"' in answer.text
    browser.post("/note?name=for%20the%20board", {"note": " "})
    assert not (house / "for the board" / "note.txt").exists()


# ---------------------------------------------------------------------- deleting


def test_a_run_is_deleted_after_asking(browser: Browser, house: Path) -> None:
    browser.post("/note?name=done", {"note": "gone soon"})
    asked = browser.get("/delete?name=done").text
    assert "protected.csv" in asked
    assert "note.txt" in asked
    assert (house / "done" / "protected.csv").exists()
    assert browser.post("/delete?name=done").headers["location"].endswith("/runs")
    assert not (house / "done").exists()
    assert (house / "people.csv").exists()


def test_what_the_program_did_not_write_stays(browser: Browser, house: Path) -> None:
    (house / "done" / "thoughts.md").write_text("mine", encoding="utf-8")
    (house / "done" / "tables" / "mine.csv").write_text("a", encoding="utf-8")
    assert "thoughts.md" in browser.get("/delete?name=done").text
    browser.post("/delete?name=done")
    assert sorted(entry.name for entry in (house / "done").iterdir()) == ["thoughts.md"]


def test_folders_from_elsewhere_are_neither_deleted_nor_written_to(browser: Browser, house: Path) -> None:
    place = write_run(house / "foreign", census_summary(), run_toml=RUN_TOML)
    before = sorted(entry.name for entry in place.rglob("*"))
    assert "not written by rarecell" in browser.post("/delete?name=foreign").text
    assert browser.post("/rename?name=foreign", {"new_name": "other/name"}).status_code == 400
    assert not (house / "other").exists()
    assert browser.post("/note?name=foreign", {"note": "hello"}).status_code == 400
    assert sorted(entry.name for entry in place.rglob("*")) == before


def test_a_record_that_lists_other_files_deletes_none_of_them(house: Path) -> None:
    record = json.loads((house / "done" / "run.json").read_text(encoding="utf-8"))
    record["files"] += ["../people.csv", "thoughts.md", "/etc/hostname"]
    (house / "done" / "run.json").write_text(json.dumps(record), encoding="utf-8")
    (house / "done" / "thoughts.md").write_text("mine", encoding="utf-8")
    (house / "done" / "zeros.json").unlink(missing_ok=True)
    (house / "done" / "zeros.json").symlink_to(house / "people.csv")
    assert delete_run(house / "done") == ["thoughts.md", "zeros.json"]
    assert (house / "people.csv").exists()


def test_the_folder_of_the_app_itself_is_kept(house: Path) -> None:
    browser = Browser(house / "done")
    assert "in the terminal" in browser.post("/delete?name=").text
    assert (house / "done" / "run.json").exists()


def test_a_note_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not written by rarecell"):
        write_note(tmp_path, "hello")


# ---------------------------------------------------------------------- starting


def test_a_file_elsewhere_opens_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from rarecell.cli.commands import main

    here, other = tmp_path / "here", tmp_path / "other"
    for folder in (here, other):
        folder.mkdir()
        (folder / "file.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    asked: list[tuple[str, str | None]] = []
    monkeypatch.setattr("rarecell.app.serve", lambda folder, *, file, open_browser: asked.append((folder, file)))
    monkeypatch.chdir(here)
    for given in (["../other/file.csv"], ["file.csv"], [], ["../other/file.csv", "--folder", ".."]):
        assert CliRunner().invoke(main, ["app", *given]).exit_code == 0
    folders = [Path(folder).resolve() for folder, _ in asked]
    assert folders == [other, here, here, tmp_path]
    # The page that opens first is that of the file.
    assert Browser(other, file="file.csv").get("/").headers["location"].endswith("/keys?file=file.csv")


def test_a_protected_run_is_handed_over_from_its_page(browser: Browser, house: Path) -> None:
    page = browser.get("/run?name=done").text
    assert "Hand the file over" in page
    assert "internal, do not share" in page
    odd = browser.post("/handover?name=done", {"signed_by": "A. Steward", "drop": "colour", "reason": "why not", "keep_ids": "1"})
    assert odd.status_code == 400
    # What was filled in is still there, beside what is wrong with it.
    assert "There is no column &#39;colour&#39;" in odd.text
    for kept in (
        'value="A. Steward"',
        'value="colour"',
        'value="why not"',
        'name="keep_ids" value="1" checked',
        '<details class="handover" open>',
    ):
        assert kept in odd.text
    html5lib.HTMLParser(strict=True).parse(odd.text)
    refused = browser.post("/handover?name=done", {"signed_by": "A. Steward"})
    if not (house / "done" / "handover").exists():
        assert "do not release" in refused.text
        browser.post("/handover?name=done", {"signed_by": "A. Steward", "reason": "an agreed test"})
    page = browser.get("/run?name=done").text
    assert "these files may leave the office" in page
    assert "handover/data.csv" in page
    assert browser.get("/files/done/handover/codebook.csv?download").text.startswith("column,label,type")
    assert browser.get("/files/done/handover/other.csv?download").status_code == 400
    assert "A. Steward" in (house / "done" / "handover" / "about.html").read_text(encoding="utf-8")


# ---------------------------------------------------------------------- families


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of households, a run that estimated their risk, and one that protected them."""
    folder = tmp_path_factory.mktemp("homes")
    codes, household = drawn_homes(11, 180)
    pa.csv.write_csv(frame_of(codes, household), folder / "homes.csv")
    options = {"keys": ["relation", "age", "sex"], "population": 4000, "household": "home", "seed": 1}
    rc.assess(folder / "homes.csv", out=folder / "judged", **options)  # type: ignore[arg-type]
    rc.protect(folder / "homes.csv", risk_above=0.2, swap_seed=1, out=folder / "done", **options)  # type: ignore[arg-type]
    return folder


def test_families_stand_beside_what_became_of_them(homes: Path) -> None:
    run = SavedRun.read(homes / "done")
    listed = RecordList(run.place, run.config)
    original = pa.csv.read_csv(homes / "homes.csv").to_pydict()
    released = pa.csv.read_csv(homes / "done" / "protected.csv").to_pydict()
    families = listed.families(listed.family_rows())
    risks = [family.risk for family in families]
    assert risks == sorted(risks, reverse=True)
    assert risks[0] > 0.2
    assert sorted(member.record for family in families for member in family.members) == list(range(len(original["home"])))
    for family in families:
        assert len({original["home"][member.record] for member in family.members}) == 1
        values = [(member.record, value) for member in family.members for value in member.values]
        for record, value in values:
            assert value.original == str(original[value.column][record])
            assert value.released == str(released[value.column][record])
            assert value.how == ("same" if value.original == value.released else "swapped")
        assert family.n_changed == sum(value.original != value.released for _, value in values)
    changed = listed.families(listed.family_rows("changed"))
    assert {id_of(family) for family in families if family.n_changed} <= {id_of(family) for family in changed}
    assert any(family.n_changed for family in changed)
    assert len(listed.family_rows("risky", 0.2)) == sum(risk >= 0.2 for risk in risks) < len(families)
    with pytest.raises(BadInput, match="listed as"):
        listed.family_rows("odd")


def test_every_page_counts_records_with_their_families(homes: Path) -> None:
    """The list of runs, the records, the comparison and the costs of thresholds say what the report says."""
    runs = {name: FinishedRun.read(homes / name, name) for name in ("judged", "done")}
    families = runs["judged"].summary.risk.known_families
    assert families is not None
    assert families.records_above_threshold > runs["judged"].summary.risk.records_above_threshold
    listed = RecordList(homes / "judged", runs["judged"].config)
    assert len(listed.rows(RecordChoice(state="risky", above=0.2))) == families.records_above_threshold
    costs = runs["judged"].threshold_costs()
    assert costs[20]["records"] == (listed.risk > 0.2).sum()
    assert costs[100]["left"] == pytest.approx(families.expected_records)
    table = {(row[0], row[1]): row[2:] for row in comparison(list(runs), [run.summary for run in runs.values()]).rows}
    assert table["before protection", "records above the threshold"][0] == f"{families.records_above_threshold}"
    assert table["before protection", "recognised alone or with the family"][0] == expected(families.expected_records)
    released = runs["done"].summary.swap
    assert released is not None
    assert table["after protection", "records above the threshold"][1] == f"{released.released.records_above_threshold}"  # type: ignore[union-attr]
    assert table["after protection", "highest risk"][1] == number(runs["done"].summary.highest_risk, 3)
    browser = Browser(homes)
    page = browser.get("/runs").text
    assert f'<td class="number">{" → ".join(recognisable(runs["done"].summary))}</td><td>Do not release</td>' in page
    assert table["after protection", "recognised alone or with the family"] == ("–", recognisable(runs["done"].summary)[-1], "≠")
    assert "alone or with the family" in browser.get("/records?name=judged").text
    browser.pages.close()


def id_of(family: ListedFamily) -> tuple[int, ...]:
    return tuple(member.record for member in family.members)


def test_the_page_of_families(homes: Path) -> None:
    browser = Browser(homes)
    assert "/families?name=done" in browser.get("/run?name=done").text
    page = browser.get("/families?name=done").text
    assert "For internal use" in page
    assert "180 households, page 1 of 9" in page
    assert page.count('<section class="family"') == 20
    assert 'class="swapped"' in page
    assert "the only such family with probability" in page
    assert "page 9 of 9" in browser.get("/families?name=done&page=99").text
    assert "with changed values" not in browser.get("/families?name=judged").text
    assert browser.get("/families?name=done&state=odd").status_code == 400
    html5lib.HTMLParser(strict=True).parse(page)
    browser.pages.close()


def test_a_run_without_households_has_no_families(browser: Browser) -> None:
    assert "/families" not in browser.get("/run?name=done").text
    answer = browser.get("/families?name=done")
    assert answer.status_code == 400
    assert "has not judged families" in answer.text
