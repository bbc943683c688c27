"""Every source makes all kinds of changes at once, and gives what a loop over the records gives."""

from __future__ import annotations

import gzip
import sqlite3
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pyreadstat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rarecell.engine import open_source
from rarecell.engine.changes import Blanks, Changes, WrittenLevels
from rarecell.engine.columnar import write as columnar
from rarecell.engine.duck import EngineSettings
from rarecell.engine.source import Source, levels_of
from rarecell.errors import BadInput, UnknownColumns
from tests.naive.writing import changed_records

N = 23
PEOPLE = pa.table(
    {
        "id": pa.array(range(1, N + 1), pa.int32()),
        "age": pa.array([20 + 7 * k % 11 for k in range(N)], pa.int16()),
        "region": pa.array([["north", "south, coast", "west é"][k * k % 3] for k in range(N)]),
        "income": pa.array([1000.5 + 10 * k for k in range(N)]),
        "name": pa.array([f"person {k}" for k in range(N)]),
    }
)


def csv_of(table: pa.Table, *, quoted: bool = False, end: str = "\n") -> str:
    def field(value: Any) -> str:
        text = "" if value is None else str(value)
        return f'"{text}"' if quoted or "," in text else text

    rows = [table.column_names, *([record[name] for name in table.column_names] for record in table.to_pylist())]
    return end.join(",".join(map(field, row)) for row in rows) + end


def as_csv(folder: Path) -> Source:
    (folder / "in.csv").write_text(csv_of(PEOPLE), encoding="utf-8")
    return open_source(folder / "in.csv")


def as_quoted_gzip(folder: Path) -> Source:
    (folder / "in.csv.gz").write_bytes(gzip.compress(csv_of(PEOPLE, quoted=True, end="\r\n").rstrip().encode()))
    return open_source(folder / "in.csv.gz")


def as_latin(folder: Path) -> Source:
    (folder / "in.csv").write_bytes(b"sep=,\n" + csv_of(PEOPLE).encode("latin-1"))
    return open_source(folder / "in.csv", settings=EngineSettings(encoding="latin-1"))


def as_text_parts(folder: Path) -> Source:
    (folder / "in").mkdir()
    (folder / "in" / "a.csv").write_text(csv_of(PEOPLE.slice(0, 9)), encoding="utf-8")
    (folder / "in" / "b.csv").write_text(csv_of(PEOPLE.slice(9)), encoding="utf-8")
    return open_source(folder / "in")


def as_parquet(folder: Path) -> Source:
    pq.write_table(PEOPLE, folder / "in.parquet", row_group_size=5)
    return open_source(folder / "in.parquet")


def as_dictionaries(folder: Path) -> Source:
    table = PEOPLE.set_column(2, "region", PEOPLE.column("region").dictionary_encode())
    pq.write_table(table, folder / "in.parquet", row_group_size=5)
    return open_source(folder / "in.parquet")


def as_parts(folder: Path) -> Source:
    for number, (name, part) in enumerate([("year=1/a", PEOPLE.slice(0, 9)), ("year=2/b", PEOPLE.slice(9))], start=1):
        target = folder / "in" / f"{name}.parquet"
        target.parent.mkdir(parents=True)
        pq.write_table(part, target, row_group_size=4 + number)
    return open_source(folder / "in")


def as_arrow(folder: Path) -> Source:
    with pa.ipc.new_file(folder / "in.arrow", PEOPLE.schema) as writer:
        writer.write_table(PEOPLE, max_chunksize=6)
    return open_source(folder / "in.arrow")


def as_stream(folder: Path) -> Source:
    table = PEOPLE.set_column(2, "region", PEOPLE.column("region").dictionary_encode())
    with pa.ipc.new_stream(folder / "in.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=6)
    return open_source(folder / "in.arrow")


def as_stata(folder: Path) -> Source:
    labels = {"age": {20: "twenty"}, "id": {1: "first"}}
    pyreadstat.write_dta(pl.from_arrow(PEOPLE), str(folder / "in.dta"), version=15, variable_value_labels=labels)
    return open_source(folder / "in.dta")


def as_old_stata(folder: Path) -> Source:
    pyreadstat.write_dta(pl.from_arrow(PEOPLE), str(folder / "in.dta"), version=10, variable_value_labels={"id": {1: "first"}})
    return open_source(folder / "in.dta")


def as_spss(folder: Path) -> Source:
    pyreadstat.write_sav(pl.from_arrow(PEOPLE), str(folder / "in.sav"), variable_value_labels={"id": {1: "first"}})
    return open_source(folder / "in.sav")


def as_sas(folder: Path) -> Source:
    pyreadstat.write_xport(pl.from_arrow(PEOPLE), str(folder / "in.xpt"))
    return open_source(folder / "in.xpt")


def as_workbook(folder: Path) -> Source:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [PEOPLE.column_names, *(list(record.values()) for record in PEOPLE.to_pylist())]:
        book.active.append(row)
    book.save(folder / "in.xlsx")
    return open_source(folder / "in.xlsx")


def as_duckdb(folder: Path) -> Source:
    pq.write_table(PEOPLE, folder / "in.parquet")
    return open_source(folder / "in.parquet", sql="SELECT * FROM data ORDER BY id")


def as_sqlite(folder: Path) -> Source:
    with sqlite3.connect(folder / "in.db") as connection:
        connection.execute("CREATE TABLE people (id INTEGER, age INTEGER, region TEXT, income REAL, name TEXT)")
        rows = [tuple(record.values()) for record in PEOPLE.to_pylist()]
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", rows)
    return open_source(str(folder / "in.db"), sql="SELECT * FROM people ORDER BY id")


FILES = [as_csv, as_quoted_gzip, as_latin, as_text_parts, as_parquet, as_dictionaries, as_parts, as_arrow, as_stream]
FILES += [as_stata, as_old_stata, as_spss, as_sas, as_workbook, as_duckdb, as_sqlite]

FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": PEOPLE.to_pandas,
    "polars": lambda: pl.from_arrow(PEOPLE),
    "lazy": lambda: pl.from_arrow(PEOPLE).lazy(),
    "pyarrow": lambda: PEOPLE,
    "duckdb": lambda: duckdb.from_arrow(PEOPLE),
}


@st.composite
def kinds_of_changes(draw: st.DrawFn) -> dict[str, Any]:
    """What changes, in terms that do not depend on how a source stores its values."""
    rows = draw(st.lists(st.integers(0, N - 1), unique=True, max_size=6))
    return {
        "rows": rows,
        "partners": draw(st.permutations(rows)),
        "recodes": draw(st.sampled_from([(), ("age",), ("region",), ("age", "region")])),
        "blanks": draw(st.dictionaries(st.sampled_from(["age", "region"]), st.sets(st.integers(0, N - 1), max_size=5))),
        "treated": draw(st.sets(st.sampled_from(["income", "id"]))),
        "dropped": draw(st.sets(st.sampled_from(["name", "id", "region"]))),
        "seed": draw(st.integers(0, 99) | st.none()),
    }


def changes_for(source: Source, drawn: dict[str, Any]) -> Changes:
    exchanged = source.take(np.array(drawn["partners"], dtype=np.int64), ["age", "region"]) if drawn["rows"] else {}
    recodes = {}
    for name in drawn["recodes"]:
        values = sorted(set(levels_of(source, [name])[name][0].to_pylist()), key=str)
        # The first two values form a group, the third is declared missing, the others stay.
        meanings = [int(float(value)) if name == "age" else value for value in values]
        levels = ("group", *map(str, meanings[3:]))
        of_value = np.array([0, 0, -1, *range(1, len(levels))][: len(values)], dtype=np.int32)
        members = (tuple(meanings[:2]), *((meaning,) for meaning in meanings[3:]))
        recodes[name] = WrittenLevels(tuple(values), of_value, levels, False, members)
    treated = {
        "income": pa.array([None if k == 3 else 7.25 + k for k in range(N)]),
        "id": pa.array([70_000 + (5 * k) % N for k in range(N)]),
    }
    return Changes(
        np.array(drawn["rows"], dtype=np.int64),
        exchanged,
        recodes,
        {name: Blanks(np.array(sorted(rows), dtype=np.int64)) for name, rows in drawn["blanks"].items()},
        {name: treated[name] for name in drawn["treated"]},
        frozenset(drawn["dropped"]),
        None if drawn["seed"] is None else np.random.default_rng(drawn["seed"]).permutation(N),
    )


def records_of(source: Source) -> list[dict[str, Any]]:
    names = [column.name for column in source.columns()]
    return [record for batch in source.batches(names) for record in pa.Table.from_batches([batch]).to_pylist()]


def plain(records: list[dict[str, Any]], source: Source, recoded: Any = ()) -> list[dict[str, Any]]:
    """Values as they are compared: numbers as such, whatever a file stores them as; labels in place of their codes."""
    labels = {column.name: column.value_labels for column in source.columns()}

    def value(name: str, given: Any) -> Any:
        if given is None or given == "" or given != given:
            return None
        if name in recoded and given in labels.get(name, {}):
            given = labels[name][given]
        try:
            return float(given)
        except ValueError:
            return given

    return [{name: value(name, given) for name, given in record.items() if name != "year"} for record in records]


@pytest.mark.parametrize("kind", FILES, ids=lambda kind: kind.__name__)
@given(drawn=kinds_of_changes())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_is_written_with_all_changes_at_once(
    kind: Callable[[Path], Source], drawn: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("one")
    source = kind(folder)
    changes = changes_for(source, drawn)
    expected = changed_records(records_of(source), changes)
    written = source.write(folder / f"out{source.suffix}", changes)
    output = open_source(written, settings=source.settings_of_output)
    found = plain(records_of(output), output, drawn["recodes"])
    assert found == plain(expected, source)
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("out*") if path.is_file()} <= {0o600}
    assert not [path for path in folder.iterdir() if path.name.endswith(".part")]


@pytest.mark.parametrize("library", FRAMES)
@given(drawn=kinds_of_changes())
@settings(max_examples=12, deadline=None)
def test_a_frame_changes_in_the_same_way(library: str, drawn: dict[str, Any]) -> None:
    source = open_source(FRAMES[library]())
    changes = changes_for(source, drawn)
    frame = source.changed(changes)
    assert type(frame) is type(FRAMES[library]())
    output = open_source(frame)
    assert plain(records_of(output), output) == plain(changed_records(PEOPLE.to_pylist(), changes), source)


def test_a_file_as_a_frame_has_the_same_changes(tmp_path: Path) -> None:
    source = as_parquet(tmp_path)
    changes = Changes(dropped=frozenset({"name"}), order=np.arange(N)[::-1].copy(), treated={"id": pa.array(range(N))})
    assert source.changed(changes).to_pylist() == changed_records(PEOPLE.to_pylist(), changes)


def test_records_larger_than_memory_are_put_into_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "ROWS_IN_ORDER", 4)
    order = np.random.default_rng(3).permutation(N)
    for kind in (as_parquet, as_dictionaries, as_parts, as_arrow, as_stream):
        folder = tmp_path / kind.__name__
        folder.mkdir()
        source = kind(folder)
        written = source.write(folder / f"out{source.suffix}", Changes(order=order))
        output = open_source(written)
        assert [record["id"] for record in records_of(output)] == (order + 1).tolist()


def test_what_described_a_dropped_column_is_gone(tmp_path: Path) -> None:
    for kind in (as_stata, as_old_stata, as_spss):
        folder = tmp_path / kind.__name__
        folder.mkdir()
        source = kind(folder)
        written = source.write(folder / f"out{source.suffix}", Changes(dropped=frozenset({"id", "name"})))
        data = written.read_bytes()
        assert b"person 3" not in data
        assert b"first" not in data, "a label of a dropped column"
    pandas = PEOPLE.to_pandas()
    pandas.to_parquet(tmp_path / "in.parquet")
    written = open_source(tmp_path / "in.parquet").write(tmp_path / "out.parquet", Changes(dropped=frozenset({"name"})))
    assert b"name" not in (pq.read_schema(written).metadata or {}).get(b"pandas", b"")
    assert b"person 3" not in written.read_bytes()


def test_long_texts_of_a_stata_file_are_dropped_or_stay_where_they_are(tmp_path: Path) -> None:
    long = PEOPLE.append_column("story", pa.array(["word " * 600 + str(k) for k in range(N)]))
    pyreadstat.write_dta(pl.from_arrow(long), str(tmp_path / "in.dta"), version=15)
    source = open_source(tmp_path / "in.dta")
    written = source.write(tmp_path / "out.dta", Changes(dropped=frozenset({"story"}), order=np.arange(N)[::-1].copy()))
    assert b"word word" not in written.read_bytes()
    assert [record["id"] for record in records_of(open_source(written))] == list(range(N, 0, -1))
    for changes in (Changes(order=np.arange(N)), Changes(dropped=frozenset({"id"}))):
        with pytest.raises(BadInput, match="long text"):
            source.write(tmp_path / "no.dta", changes)


def test_impossible_changes_are_refused(tmp_path: Path) -> None:
    source = as_csv(tmp_path)
    with pytest.raises(UnknownColumns):
        source.write(tmp_path / "out.csv", Changes(dropped=frozenset({"nome"})))
    with pytest.raises(BadInput, match="All columns"):
        source.write(tmp_path / "out.csv", Changes(dropped=frozenset(PEOPLE.column_names)))
    with pytest.raises(ValueError, match="each record once"):
        source.write(tmp_path / "out.csv", Changes(order=np.zeros(N, dtype=np.int64)))
    with pytest.raises(ValueError, match="new values"):
        source.write(tmp_path / "out.csv", Changes(treated={"id": pa.array([1])}))
    assert not (tmp_path / "out.csv").exists()


def test_parts_in_different_forms_do_not_exchange_records(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "in" / "b.csv").write_text("b,a\n3,4\n")
    with pytest.raises(BadInput, match="different orders"):
        open_source(tmp_path / "in").write(tmp_path / "out", Changes(order=np.array([1, 0])))


def test_blanks_take_the_word_that_the_column_has_for_missing(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('age,city\n1,"NA"\n2,"NA"\n3,""\n4,"Bern"\n')
    blanks = {"city": Blanks(np.array([3]), ("NA", "NULL")), "age": Blanks(np.array([0]))}
    written = open_source(tmp_path / "in.csv").write(tmp_path / "out.csv", Changes(blanks=blanks))
    assert written.read_text() == 'age,city\n,"NA"\n2,"NA"\n3,""\n4,"NA"\n'


def test_a_label_is_quoted_as_its_column_is_and_not_as_its_record_was(tmp_path: Path) -> None:
    """The quotes of a value must not show through the label of its group."""
    (tmp_path / "in.csv").write_text('id,age\n1,"30"\n2,31\n3,31\n4,"30"\n5,40\n6,40\n7,40\n')
    written = WrittenLevels(("30", "31", "40"), np.array([0, 0, 1], dtype=np.int32), ("30–39", "40+"), True, ((30, 31), (40,)))
    out = open_source(tmp_path / "in.csv").write(tmp_path / "out.csv", Changes(recodes={"age": written}))
    assert out.read_text(encoding="utf-8").splitlines()[1:] == [
        "1,30–39",
        "2,30–39",
        "3,30–39",
        "4,30–39",
        "5,40+",
        "6,40+",
        "7,40+",
    ]


def test_part_of_the_changes_belongs_to_part_of_the_records() -> None:
    changes = Changes(
        np.array([5, 1]), {"a": [50, 10]}, blanks={"b": Blanks(np.array([0, 4]))}, treated={"c": pa.array(range(6))}
    )
    part = changes.of_part(4, 2)
    assert part.places.tolist() == [1]
    assert part.columns["a"].values is not None
    assert part.columns["a"].values.to_pylist() == [50]
    assert part.blanks["b"].rows.tolist() == [0]
    assert part.columns["c"].treated is not None
    assert part.columns["c"].treated.to_pylist() == [4, 5]
    assert replace(changes, dropped=frozenset({"a"})).changed == ("b", "c")
