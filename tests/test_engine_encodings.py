"""Text in other encodings, folders of CSV files and workbooks give the table that the plain file gives, and are written back."""

from __future__ import annotations

import codecs
import datetime
import gzip
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyreadstat
import pytest
from click.testing import CliRunner

import rarecell as rc
from rarecell.cli import main
from rarecell.engine import open_source
from rarecell.engine.changes import Changes
from rarecell.errors import BadInput

CITIES = ("Zürich", "Málaga", "Köln", "Århus")
ROWS = [(age, CITIES[(age * 7) % len(CITIES)], "f" if age % 3 else "m") for age in range(18, 70) for _ in range(1 + age % 3)]
KEYS = ["age", "city", "sex"]


def plain(rows: Sequence[tuple[Any, ...]] = ROWS) -> str:
    return "age,city,sex\r\n" + "".join(f"{age},{city},{sex}\r\n" for age, city, sex in rows)


def as_read(path: Path, **options: Any) -> rc.ContingencyTable:
    return rc.Microdata(path, KEYS, settings=rc.EngineSettings(**options)).table()


@pytest.fixture
def expected(tmp_path: Path) -> rc.ContingencyTable:
    path = tmp_path / "plain.csv"
    path.write_bytes(plain().encode())
    return as_read(path)


def assert_same(found: rc.ContingencyTable, expected: rc.ContingencyTable) -> None:
    assert [key.levels for key in found.categories] == [key.levels for key in expected.categories]
    assert found.cells.tolist() == expected.cells.tolist()
    assert found.counts.tolist() == expected.counts.tolist()
    assert found.record_cell.tolist() == expected.record_cell.tolist()


# ---------------------------------------------------------------------- encodings


@pytest.mark.parametrize("is_gzipped", [False, True])
@pytest.mark.parametrize(
    ("encoding", "given"),
    [
        ("iso-8859-1", "latin-1"),
        ("cp1252", "windows-1252"),
        ("utf-16", None),
        ("utf-16", "utf-16"),
        ("utf-16-be", "utf-16-be"),
        ("utf-16-le", "utf-16"),
        ("utf-16-le", None),
        ("utf-16-be", None),
    ],
)
def test_text_in_other_encodings(
    tmp_path: Path, expected: rc.ContingencyTable, encoding: str, given: str | None, is_gzipped: bool
) -> None:
    text = plain()
    content = text.encode(encoding)
    path = tmp_path / ("survey.csv.gz" if is_gzipped else "survey.csv")
    path.write_bytes(gzip.compress(content, mtime=0) if is_gzipped else content)
    assert_same(as_read(path, encoding=given), expected)

    source = open_source(path, settings=rc.EngineSettings(encoding=given))
    assert source.suffix == ("".join(path.suffixes))
    assert bool(source.notes) == (given is None)
    out = tmp_path / f"out{source.suffix}"
    source.write(out, Changes(np.array([2, 0]), {"age": ["99", "98"], "city": ["Århus", None]}))
    written = gzip.decompress(out.read_bytes()) if is_gzipped else out.read_bytes()
    lines = text.split("\r\n")
    for row, age, city in ((2, "99", "Århus"), (0, "98", "")):
        lines[row + 1] = f"{age},{city},{lines[row + 1].split(',')[2]}"
    assert written == "\r\n".join(lines).encode(encoding)


def test_a_mark_of_big_ends_is_kept(tmp_path: Path, expected: rc.ContingencyTable) -> None:
    path = tmp_path / "survey.csv"
    path.write_bytes(codecs.BOM_UTF16_BE + plain().encode("utf-16-be"))
    assert_same(as_read(path), expected)
    out = open_source(path).write(tmp_path / "out.csv", Changes(np.empty(0, dtype=np.int64), {}))
    assert out.read_bytes() == path.read_bytes()


def refused(path: Path, told: str, **options: Any) -> None:
    with pytest.raises(BadInput) as caught:
        as_read(path, **options)
    message = str(caught.value)
    assert told in message
    assert "\n" not in message
    assert "rarecell-private" not in message
    assert "Málaga" not in message


def test_what_is_no_text_in_an_encoding_is_one_paragraph(tmp_path: Path) -> None:
    path = tmp_path / "survey.csv"
    path.write_bytes(plain([(31, "Zürich", "f")]).encode("latin-1"))
    refused(path, "Name it, for example with --encoding windows-1252", encoding="utf-8")
    refused(path, "The encoding was given as 'latin1000', which is not known", encoding="latin1000")
    refused(path, "The encoding was given as 'base64', which is not known", encoding="base64")
    path.write_bytes(b"age,city,sex\r\n31,\x81,f\r\n")
    refused(path, "not text in windows-1252: near byte 18 the byte 0x81", encoding="windows-1252")
    path.write_bytes("age,city,sex\r\n31,Málaga\r\n".encode("latin-1"))
    refused(path, f"{path}, line 2, has 2 fields", encoding="latin-1")
    path.write_bytes("age,city,sex\r\n31,Zürich,f\r\n".encode("utf-16")[:-1])
    refused(path, "is not text in utf-16")


def test_a_new_label_that_the_encoding_lacks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "survey.csv"
    path.write_bytes(plain([(31, "Bern", "f"), (32, "Chur", "m")]).encode("latin-1"))
    source = open_source(path, settings=rc.EngineSettings(encoding="latin-1"))
    with pytest.raises(BadInput, match="'€' of a new label has no place in latin-1"):
        source.write(tmp_path / "out.csv", Changes(np.array([0]), {"city": ["€"]}))
    assert not (tmp_path / "out.csv").exists()


def test_the_command_reads_and_writes_the_encoding_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "survey.csv"
    content = plain().encode("cp1252")
    path.write_bytes(content)
    words = ["protect", str(path), "--keys", "age,city,sex", "--population", "9000", "--top", "3", "--quiet"]
    done = CliRunner().invoke(main, [*words, "--encoding", "windows-1252", "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    written = (tmp_path / "run" / "protected.csv").read_bytes()
    assert len(written.split(b"\r\n")) == len(content.split(b"\r\n"))
    assert sorted(written.decode("cp1252")) == sorted(content.decode("cp1252")), "values only change places"
    assert 'encoding = "windows-1252"' in (tmp_path / "run" / "run.toml").read_text()


# ---------------------------------------------------------------------- folders of CSV files


def write_folder(folder: Path, encode: Callable[[str], bytes] = str.encode) -> Path:
    folder.mkdir()
    for number in range(3):
        third = ROWS[number * len(ROWS) // 3 : (number + 1) * len(ROWS) // 3]
        (folder / f"part-{number}.csv").write_bytes(encode(plain(third)))
    return folder


@pytest.mark.parametrize("pattern", ["", "*.csv"])
def test_a_folder_of_csv_files_is_one_file(tmp_path: Path, expected: rc.ContingencyTable, pattern: str) -> None:
    folder = write_folder(tmp_path / "data")
    given = folder / pattern if pattern else folder
    assert_same(as_read(given), expected)
    grouped = rc.Microdata(given, KEYS).table(records=False)
    assert grouped.counts.tolist() == expected.counts.tolist()
    source = open_source(given)
    assert source.n_rows == len(ROWS)
    rows = np.array([len(ROWS) - 1, 0, len(ROWS) // 3])
    out = source.write(tmp_path / "out", Changes(rows, {"age": ["1", "2", "3"]}))
    assert sorted(path.name for path in out.iterdir()) == ["part-0.csv", "part-1.csv", "part-2.csv"]
    before = [line for path in sorted(folder.iterdir()) for line in path.read_text().split("\n")[1:-1]]
    after = [line for path in sorted(out.iterdir()) for line in path.read_text().split("\n")[1:-1]]
    changed = {row: (one, other) for row, (one, other) in enumerate(zip(before, after, strict=True)) if one != other}
    assert sorted(changed) == sorted(rows)
    assert {row: other.split(",")[0] for row, (_, other) in changed.items()} == dict(zip(rows.tolist(), "123", strict=True))


def test_a_folder_of_csv_files_in_utf_16(tmp_path: Path, expected: rc.ContingencyTable) -> None:
    assert_same(as_read(write_folder(tmp_path / "data", lambda text: text.encode("utf-16"))), expected)


def test_folders_that_mix_forms_are_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "data")
    (folder / "part-9.csv").write_text("age,city\n31,Bern\n")
    refused(folder, "part-9.csv has no column 'sex', which")
    (folder / "part-9.csv").write_text("age;city;sex\n31;Bern;f\n")
    refused(folder, "are separated by different characters")
    (folder / "part-9.csv").rename(folder / "part-9.parquet")
    refused(folder, "not one of Parquet or CSV parts only")
    for year in (2020, 2021):
        (tmp_path / "hive" / f"year={year}").mkdir(parents=True)
        (tmp_path / "hive" / f"year={year}" / "part.csv").write_text(plain())
    refused(tmp_path / "hive" / "*" / "*.csv", "lies below a folder that stands for a column")
    refused(tmp_path / "hive", "not one of Parquet or CSV parts only")


# ---------------------------------------------------------------------- workbooks


def workbook(path: Path, sheets: dict[str, list[list[Any]]]) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def open_document(path: Path, rows: Sequence[Sequence[Any]]) -> Path:
    """A workbook as LibreOffice writes it, with the least that the format asks for."""

    def cell(value: Any) -> str:
        if isinstance(value, int):
            return (
                f'<table:table-cell office:value-type="float" office:value="{value}"><text:p>{value}</text:p></table:table-cell>'
            )
        return f'<table:table-cell office:value-type="string"><text:p>{value}</text:p></table:table-cell>'

    body = "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in rows)
    names = "".join(
        f' xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{short}:1.0"' for short in ("office", "table", "text")
    )
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document-content{names} office:version="1.2"><office:body>'
        f'<office:spreadsheet><table:table table:name="Data">{body}</table:table></office:spreadsheet></office:body></office:document-content>'
    )
    manifest = (
        '<?xml version="1.0" encoding="UTF-8"?><manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
        '<manifest:file-entry manifest:full-path="/" manifest:media-type="application/vnd.oasis.opendocument.spreadsheet"/></manifest:manifest>'
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", content)
        archive.writestr("META-INF/manifest.xml", manifest)
    return path


TABLE = [["age", "city", "sex"], *(list(row) for row in ROWS)]


def test_a_workbook_is_read_as_the_csv_file_of_its_sheet(tmp_path: Path, expected: rc.ContingencyTable) -> None:
    pytest.importorskip("python_calamine")
    path = workbook(tmp_path / "survey.xlsx", {"Notes": [], "Data": [[], *TABLE, [], []], "Codes": [["code"], [1]]})
    assert_same(as_read(path), expected)
    assert_same(as_read(path, sheet="Data"), expected)
    source = open_source(path)
    assert "Sheet 'Data' of survey.xlsx was read" in source.notes[0]
    assert "'Codes'" in source.notes[0]
    assert source.suffix == ".csv"
    out = source.write(tmp_path / "out.csv", Changes(np.array([1]), {"city": ["Bern"]}))
    lines = plain().replace("\r", "").split("\n")
    lines[2] = f"{ROWS[1][0]},Bern,{ROWS[1][2]}"
    assert out.read_text(encoding="utf-8") == "\n".join(lines)


def test_an_open_document_is_read_as_the_csv_file_of_its_sheet(tmp_path: Path, expected: rc.ContingencyTable) -> None:
    pytest.importorskip("python_calamine")
    assert_same(as_read(open_document(tmp_path / "survey.ods", TABLE)), expected)


def test_workbooks_that_cannot_be_used_get_one_paragraph(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    path = workbook(tmp_path / "survey.xlsx", {"Data": TABLE, "Empty": []})
    refused(path, "has no sheet 'Dato'. Did you mean 'Data'? It has: 'Data', 'Empty'.", sheet="Dato")
    refused(path, "Sheet 'Empty' of", sheet="Empty")
    path.write_bytes(path.read_bytes()[:-900])
    refused(path, "is damaged or not a workbook")
    path.write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(2000))
    refused(path, "is protected by a password")
    born = [
        ["age", "city", "sex", "born"],
        [31, "Bern", "f", datetime.date(1995, 3, 1)],
        [32, "Chur", "m", datetime.date(1994, 3, 1)],
    ]
    path = workbook(tmp_path / "dates.xlsx", {"Data": born})
    assert as_read(path).n_records == 2
    with pytest.raises(
        BadInput, match="'born' cannot be a key: it holds dates or times, such as in row 2, which are as good as a name"
    ):
        rc.Microdata(path, ["born", "sex"]).table()
    refused(
        workbook(tmp_path / "wide.xlsx", {"Data": [*TABLE[:2], [31, "Bern", "f", "x"]]}), "right of the last named column, 'sex'"
    )
    refused(workbook(tmp_path / "twice.xlsx", {"Data": [["age", "city", "age"], [1, 2, 3]]}), "more than one column named 'age'")


def test_errors_in_cells_are_missing_and_told(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    path = workbook(tmp_path / "survey.xlsx", {"Data": [*TABLE[:9], [31, "#N/A", "f"]]})
    told = rc.Microdata(path, KEYS).summary_lines()
    assert "survey.xlsx holds cells with errors such as #N/A; they count as missing." in told
    assert "1 in city" in told[0]


def test_a_workbook_is_protected_by_the_command(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    path = workbook(tmp_path / "survey.xlsx", {"Data": TABLE})
    words = ["protect", str(path), "--keys", "age,city,sex", "--population", "9000", "--top", "3", "--quiet"]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert "Sheet 'Data' of survey.xlsx was read. A protected file is written as CSV." in done.output
    written = (tmp_path / "run" / "protected.csv").read_text(encoding="utf-8")
    assert sorted(written) == sorted(plain().replace("\r", ""))


def test_our_own_labels_fit_the_encoding_of_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lines = [f"{age},{sex},Zürich\n" for age, sex in zip(rng.integers(20, 60, 300), rng.integers(0, 2, 300), strict=True)]
    path = tmp_path / "people.csv"
    path.write_bytes(("age,sex,town\n" + "".join(lines)).encode("latin-1"))
    out = tmp_path / "run"
    words = ["protect", str(path), "--keys", "age,sex", "--population", "9000", "--encoding", "latin-1", "--top", "3", "--quiet"]
    done = CliRunner().invoke(main, [*words, "--recode", "age=bands of 5", "--out", str(out)])
    assert done.exit_code == 0, done.output
    text = (out / "protected.csv").read_bytes().decode("latin-1")
    assert "20-24" in text
    assert "Zürich" in text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("windows-1252", "Zürich’s “best” €5"),
        ("windows-1252", "Åse Østergård"),
        ("cp850", "Müller Köln Ärzte"),
        ("mac-roman", "Müller Köln Ärzte"),
    ],
)
def test_the_encoding_is_found_and_named(tmp_path: Path, encoding: str, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f"age,city\n30,{text}\n31,Bern\n".encode(encoding))
    source = open_source(path)
    assert source.take(np.array([0]), ["city"])["city"].to_pylist() == [text]
    assert encoding in source.notes[0]
    out = source.write(tmp_path / "b.csv", Changes())
    assert out.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("version", [10, 15])
def test_windows_text_in_a_stata_file_is_read_and_stays_as_it_is(tmp_path: Path, version: int) -> None:
    """Before Stata 14 nobody said which encoding text is in, and later releases were written from such files."""
    path = tmp_path / "a.dta"
    names = ["O'Brien", "Muller", "O'Brien", "Muller"]
    pyreadstat.write_dta(pl.DataFrame({"name": names, "age": [1, 2, 1, 3]}), str(path), version=version)
    path.write_bytes(path.read_bytes().replace(b"O'Brien", b"O\x92Brien").replace(b"Muller", b"M\xfcller"))
    source = open_source(path)
    assert source.take(np.arange(2), ["name"])["name"].to_pylist() == ["O’Brien", "Müller"]
    assert bool(source.notes) == (version == 15)
    named = open_source(path, settings=rc.EngineSettings(encoding="latin-1"))
    assert named.take(np.array([1]), ["name"])["name"].to_pylist() == ["Müller"]
    out = source.write(tmp_path / "b.dta", Changes(np.array([0, 1]), source.take(np.array([1, 0]), ["name"])))
    assert b"O\x92Brien" in out.read_bytes()
    assert open_source(out).take(np.arange(4), ["name"])["name"].to_pylist() == ["Müller", "O’Brien", "O’Brien", "Müller"]
