"""Delimited text: every damage is told with its line, and unchanged bytes stay unchanged."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell.engine import open_source
from rarecell.engine.changes import Changes
from rarecell.engine.text import scan
from rarecell.errors import BadInput
from tests.naive import text as naive


def columns_of(path: Path) -> dict[str, list[str | None]]:
    source = open_source(path)
    names = [column.name for column in source.columns()]
    batches = list(source.batches(names))
    return pa.Table.from_batches(batches).to_pydict() if batches else {name: [] for name in names}


@pytest.fixture
def write(tmp_path: Path):
    def written(content: str | bytes, name: str = "people.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return written


# ---------------------------------------------------------------------- dialects


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("age,region\n31,00\n62,01\n", "people.csv"),
        ("age;region\r\n31;00\r\n62;01\r\n", "people.csv"),
        ("age\tregion\n31\t00\n62\t01", "people.tsv"),
        ("age|region\n31|00\n62|01\n", "people.txt"),
        ("\ufeffage,region\n31,00\n62,01\n", "people.csv"),
        ("sep=;\r\nage;region\r\n31;00\r\n62;01\r\n", "people.csv"),
        ('"age","region"\n"31","00"\n"62","01"\n', "people.csv"),
        ("age,region\r31,00\r62,01\r", "people.csv"),
        ("\n\nage,region\n\n31,00\n\n62,01\n\n", "people.csv"),
    ],
)
def test_delimiter_quotes_line_ends_and_marks_are_found(write, content: str, name: str) -> None:
    assert columns_of(write(content, name)) == {"age": ["31", "62"], "region": ["00", "01"]}


def test_gzipped_text_is_read_whatever_its_name(write) -> None:
    packed = gzip.compress(b"age,region\n31,00\n")
    assert (
        columns_of(write(packed, "people.csv.gz")) == columns_of(write(packed, "people.csv")) == {"age": ["31"], "region": ["00"]}
    )


def test_quoted_delimiters_line_breaks_and_quotes(write) -> None:
    path = write('name,note\n"a, b","line\nbreak"\n"say ""yes""",5" pipe\n"",\n')
    assert columns_of(path) == {"name": ["a, b", 'say "yes"', None], "note": ["line\nbreak", '5" pipe', None]}


def test_columns_without_a_name_get_one(write) -> None:
    assert list(columns_of(write('"",age\n1,31\n'))) == ["column1", "age"]


def test_one_column_keeps_its_empty_lines_as_missing(write) -> None:
    assert columns_of(write("age\n31\n\n62\n")) == {"age": ["31", None, "62"]}
    # Below the last value they are no records.
    assert columns_of(write("age\n31\n\n62\n\n\n")) == {"age": ["31", None, "62"]}


FIELDS = st.text(alphabet='a1," \n;é', max_size=6)


@settings(max_examples=150)
@given(st.lists(st.tuples(FIELDS, FIELDS, FIELDS), min_size=1, max_size=8), st.booleans(), st.data())
def test_what_any_writer_wrote_is_read(
    tmp_path_factory, rows: list[tuple[str, ...]], all_quoted: bool, data: st.DataObject
) -> None:
    import csv as library
    import io

    out = io.StringIO()
    writer = library.writer(out, lineterminator="\n", quoting=library.QUOTE_ALL if all_quoted else library.QUOTE_MINIMAL)
    writer.writerows([("x", "y", "z"), *rows])
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_text(out.getvalue(), encoding="utf-8", newline="")
    expected = {name: [row[i] or None for row in rows] for i, name in enumerate("xyz")}
    assert columns_of(path) == expected

    changed = data.draw(st.lists(st.integers(0, len(rows) - 1), unique=True, max_size=4))
    new = data.draw(st.lists(st.one_of(st.none(), FIELDS), min_size=len(changed), max_size=len(changed)))
    copy = path.with_name("b.csv")
    open_source(path).write(copy, Changes(np.array(changed, dtype=np.int64), {"y": pa.array(new, pa.string())}))
    for row, value in zip(changed, new, strict=True):
        expected["y"][row] = value or None
    assert columns_of(copy) == expected


@settings(max_examples=300)
@given(st.text(alphabet='ab,,""\n\n é', max_size=25), st.integers(1, 3))
def test_the_scanner_agrees_with_its_slow_twin(tmp_path_factory, body: str, n_columns: int) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_text(",".join("xyz"[:n_columns]) + "\n" + body, encoding="utf-8", newline="")
    dialect = scan.Dialect(tuple("xyz"[:n_columns]), ord(","), 10, 2 * n_columns, 1, False)
    expected = naive.records(body, ",", n_columns)
    try:
        batches = list(scan.read_columns(path, dialect, dialect.names))
    except BadInput:
        assert expected is None
    else:
        assert expected is not None
        found = [row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]
        assert found == [tuple(field or None for field in row) for row in expected]


def test_records_longer_than_a_piece_are_read(write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("x,y\n" + "".join(f'{number},"{"long " * number}\n"\n' for number in range(60)))
    whole = columns_of(path)
    dialect = scan.read_dialect(path)
    pieces = list(scan.read_records(path, dialect, chunk=7))
    assert len(pieces) > 50
    assert sum(len(piece.starts) for piece in pieces) == len(whole["x"]) == 60


# ---------------------------------------------------------------------- damage


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        ("\ufeff".encode(), "is empty"),
        (b"age,region\n31,00\n62\n", "line 3, has 1 fields where the header has 2 columns"),
        (b"age,region\n31,00,7\n", "line 2, has 3 fields"),
        (b"age,region\n31,\x00\n", "line 2, holds a zero byte"),
        (b'age,region\n31,"00\n62,01\n', "line 2, opens a quote that is never closed"),
        (b'age,region\n31,"00"x\n', "line 2, has text after a closing quote"),
        (b"age,region\n31,a\rb\n", "line 2, holds a carriage return"),
        ("age,region\n31,Zürich\n32,Åse\n".encode() + b"31,Z\xfcrich\n", "line 4: the byte 0xFC is not UTF-8 text"),
        (b"\xb1ge,region\n31,00\n", "its column names: the byte 0xB1"),
        (b"age,region,age\n31,00,31\n", "more than one column named 'age': columns 1, 3"),
        (b"31,00\n62,01\n", "holds numbers where column names are expected"),
        (b'"age,region\n31,00\n', "opens a quote that it does not close"),
        (b"PAR1\x00\x15\x04,\x00\n", "zero bytes in its first line"),
    ],
)
def test_damage_is_one_paragraph_with_file_and_remedy(write, content: bytes, told: str) -> None:
    path = write(content)
    with pytest.raises(BadInput) as caught:
        columns_of(path)
    message = str(caught.value)
    assert told in message
    assert str(path) in message
    assert "\n" not in message
    assert "Z\u00fcrich" not in message


def test_damaged_compression(write) -> None:
    packed = gzip.compress(b"age,region\n" + b"31,00\n" * 10_000)
    with pytest.raises(BadInput, match="damaged or incomplete"):
        columns_of(write(packed[:-20], "cut.csv.gz"))
    with pytest.raises(BadInput, match="not compressed by gzip"):
        columns_of(write(b"age,region\n31,00\n", "plain.csv.gz"))


def test_a_file_that_changes_meanwhile_is_refused(write) -> None:
    path = write("age,region\n31,00\n")
    source = open_source(path)
    path.write_text("age,region\n31,00\n62,01\n")
    with pytest.raises(BadInput, match="changed while"):
        list(source.batches(["age"]))


def test_damage_met_by_the_engine_keeps_its_own_words(write) -> None:
    path = write("age,region\n31,00\n62\n")
    with pytest.raises(BadInput, match="line 3, has 1 fields"):
        open_source(path).counts(["age", "region"])


# ---------------------------------------------------------------------- writing back


def test_only_changed_fields_change(write, tmp_path: Path) -> None:
    content = '\ufeffid;age;"region";note\r\n1;31;"00";a\r\n\r\n2;"62";01;"b;c"\r\n3;;"02";5" pipe'
    path = write(content)
    out = tmp_path / "out.csv"
    open_source(path).write(out, Changes(np.array([1, 0]), {"age": pa.array(["31", "6;2"]), "region": pa.array([None, "x"])}))
    expected = '\ufeffid;age;"region";note\r\n1;"6;2";"x";a\r\n\r\n2;31;"";"b;c"\r\n3;;"02";5" pipe'
    assert out.read_bytes().decode() == expected
    assert out.stat().st_mode & 0o777 == 0o600


def test_writing_nothing_new_gives_the_same_bytes(write, tmp_path: Path) -> None:
    path = write("age,region\n31,00\n62,01")
    copy = open_source(path).write(tmp_path / "out.csv", Changes(np.empty(0, dtype=np.int64), {}))
    assert copy.read_bytes() == path.read_bytes()


def test_compressed_text_stays_compressed(write, tmp_path: Path) -> None:
    path = write(gzip.compress(b"age,region\n31,00\n62,01\n"), "people.csv.gz")
    source = open_source(path)
    assert source.suffix == ".csv.gz"
    for name in ("a.csv.gz", "b.csv.gz"):
        source.write(tmp_path / name, Changes(np.array([1]), {"age": ["63"]}))
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == b"age,region\n31,00\n63,01\n"
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def test_a_failed_write_leaves_nothing(write, tmp_path: Path) -> None:
    path = write("age,region\n31,00\n62\n")
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(BadInput):
        open_source(path).write(folder / "out.csv", Changes(np.array([0]), {"age": ["1"]}))
    assert list(folder.iterdir()) == []
