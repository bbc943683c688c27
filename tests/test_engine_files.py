"""Typed files and queries: read in order, counted by DuckDB, written back with their schema."""

from __future__ import annotations

import base64
import datetime
import math
import sqlite3
import stat
import subprocess
import sys
import zlib
from collections import Counter
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pyreadstat
import pytest

from rarecell.data.microdata import Microdata
from rarecell.engine import open_source
from rarecell.engine.changes import Changes
from rarecell.engine.duck import EngineSettings, connect
from rarecell.engine.output import atomic_path, write_parquet
from rarecell.engine.statistics.source import StatisticsSource
from rarecell.errors import BadInput, MissingExtra, NotWritten
from rarecell.machine.memory import MemoryLimit

TABLE = pa.table(
    {
        "id": pa.array(range(10), pa.int16()),
        "sex": pa.array(["f", "m"] * 5).dictionary_encode(),
        "size": pa.DictionaryArray.from_arrays(
            pa.array([0, 1, 2, None, 0] * 2, pa.int8()), ["small", "middle", "large"], ordered=True
        ),
        "day": pa.array([1, 2, None, 4, 5] * 2, pa.date32()),
        "big": pa.array([2**60 + 1, None, 3, 4, 5] * 2, pa.int64()),
        "flag": pa.array([True, None, False, True, False] * 2),
        "list": pa.array([[1], [2, 3], None, [], [4]] * 2),
    }
).replace_schema_metadata({"source": "office"})
ROWS = np.array([7, 0, 4])


def replaced_by_hand(table: pa.Table, columns: dict[str, list[object]]) -> dict[str, list[object]]:
    plain = table.to_pydict()
    for name, values in columns.items():
        for row, value in zip(ROWS.tolist(), values, strict=True):
            plain[name][row] = value
    return plain


# ---------------------------------------------------------------------- Parquet and Arrow


def test_parquet_keeps_schema_row_groups_and_compression(tmp_path: Path) -> None:
    path, out = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(TABLE, path, row_group_size=4, compression={"id": "NONE", "sex": "zstd", "size": "snappy"})
    source = open_source(path)
    new = source.take(np.array([1, 3, 2]), ["sex", "size", "day", "big"])
    source.write(out, Changes(ROWS, new))
    expected = replaced_by_hand(TABLE, {name: values.to_pylist() for name, values in new.items()})
    before, after = pq.ParquetFile(path), pq.ParquetFile(out)
    assert after.read().to_pydict() == expected
    assert after.schema_arrow.equals(before.schema_arrow, check_metadata=True)
    assert [after.metadata.row_group(g).num_rows for g in range(after.num_row_groups)] == [4, 4, 2]
    assert after.metadata.row_group(0).column(1).compression == "ZSTD"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


@pytest.mark.parametrize("is_stream", [False, True])
def test_arrow_files_and_streams_keep_their_schema(tmp_path: Path, is_stream: bool) -> None:
    path, out = tmp_path / "a.arrow", tmp_path / "b.arrow"
    open_writer, open_reader = (pa.ipc.new_stream, pa.ipc.open_stream) if is_stream else (pa.ipc.new_file, pa.ipc.open_file)
    with open_writer(path, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=4)
    source = open_source(path)
    assert source.n_rows == 10
    new = source.take(np.array([1, 3, 2]), ["sex", "size"])
    source.write(out, Changes(ROWS, new))
    after = open_reader(out).read_all()
    assert after.to_pydict() == replaced_by_hand(TABLE, {name: values.to_pylist() for name, values in new.items()})
    assert after.schema.equals(TABLE.schema, check_metadata=True)
    assert Microdata(out, ["sex", "size"]).table(records=False).n_records == 10


def test_a_value_that_a_part_of_the_file_lacks_joins_its_dictionary(tmp_path: Path) -> None:
    table = pa.table(
        {"x": pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "d"]).dictionary_encode()])}
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    out = open_source(tmp_path / "a.parquet").write(tmp_path / "b.parquet", Changes(np.array([0, 3]), {"x": ["d", None]}))
    assert pq.read_table(out).column("x").to_pylist() == ["d", "b", "c", None]


def test_records_keep_their_order_over_many_batches(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).integers(0, 1000, 600_000)
    pq.write_table(
        pa.table({"x": numbers, "y": pa.array(numbers % 7).cast(pa.string())}), tmp_path / "a.parquet", row_group_size=70_000
    )
    source = open_source(tmp_path / "a.parquet")
    encoded = source.encode(["y", "x"])
    assert np.array_equal(np.array(encoded.columns[1].values.to_pylist())[encoded.columns[1].codes], numbers)
    table = Microdata(tmp_path / "a.parquet", ["y", "x"]).table()
    assert np.array_equal(np.concatenate(list(Microdata(tmp_path / "a.parquet", ["y", "x"]).record_cells())), table.record_cell)


def test_counting_spills_where_only_the_owner_reads(tmp_path: Path) -> None:
    class Owner:
        pass

    owner = Owner()
    connection = connect(owner, EngineSettings(memory=MemoryLimit(600_000_000), threads=1, temp_directory=tmp_path))
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert connection.sql("SELECT current_setting('threads')").fetchall() == [(1,)]
    assert "286" in str(connection.sql("SELECT current_setting('memory_limit')").fetchall())
    connection.close()
    del owner
    assert list(tmp_path.iterdir()) == []


def test_too_little_memory_is_told(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    pq.write_table(pa.table({f"k{i}": generator.integers(0, 10**6, 400_000) for i in range(6)}), tmp_path / "a.parquet")
    settings = EngineSettings(memory=MemoryLimit(24_000_000), threads=1, temp_directory=tmp_path)
    with pytest.raises(BadInput, match="needs more memory"):
        open_source(tmp_path / "a.parquet", settings=settings).counts([f"k{i}" for i in range(6)])


@pytest.mark.parametrize("kind", ["parquet", "file", "stream", "frame"])
def test_texts_in_the_form_of_views_are_read_and_written(tmp_path: Path, kind: str) -> None:
    table = pa.table({"city": pa.array(["Bern", "Oslo", None, "Bern"], pa.string_view()), "age": [1, 2, 3, 4]})
    path = tmp_path / ("a.parquet" if kind == "parquet" else "a.arrow")
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind != "frame":
        with (pa.ipc.new_file if kind == "file" else pa.ipc.new_stream)(path, table.schema) as writer:
            writer.write_table(table)
    source = open_source(table if kind == "frame" else path)
    assert source.counts(["city"]).counts.sum() == 4
    changes = Changes(np.array([0, 1]), source.take(np.array([1, 0]), ["city"]), order=np.array([3, 2, 1, 0]))
    after = open_source(source.changed(changes) if kind == "frame" else source.write(tmp_path / f"b{path.suffix}", changes))
    assert after.take(np.arange(4), ["city"])["city"].to_pylist() == ["Bern", None, "Bern", "Oslo"]
    if kind in ("file", "stream"):
        assert after.arrow_schema == table.schema  # type: ignore[attr-defined]


AUTUMN = pa.array([1635638400, 1635642000], pa.timestamp("s", "UTC")).cast(pa.timestamp("us", "Europe/Berlin"))
INDICES = pa.array([0, 1, None, 1, 0, 1, 0, 0], pa.int8())
STORED = {
    "small decimals": pa.array([Decimal("1.50"), None, Decimal("2.00"), Decimal("1.50")] * 2, pa.decimal32(5, 2)),
    "decimals of 64 bits": pa.array([Decimal("1.50"), None, Decimal("2.00"), Decimal("1.50")] * 2, pa.decimal64(15, 2)),
    "large decimals": pa.array([Decimal(10**60), Decimal(10**60 + 1), None, Decimal(10**60)] * 2, pa.decimal256(70, 0)),
    "half numbers": pa.array([np.float16(1.5), np.float16(0.0), None, np.float16(-0.0)] * 2, pa.float16()),
    "dictionary of views": pa.DictionaryArray.from_arrays(INDICES, pa.array(["b", "a"], pa.string_view())),
    "dictionary of times": pa.DictionaryArray.from_arrays(INDICES, AUTUMN),
    "dictionary with NaN": pa.DictionaryArray.from_arrays(INDICES, pa.array([1.5, math.nan])),
    "runs": pc.run_end_encode(pa.array(["a", "a", None, "b", "b", "a", "a", "a"])),
    "runs of times": pc.run_end_encode(pa.array([0, 0, 0, 3600, None, 3600, 0, 0], pa.timestamp("s", "UTC"))),
}


@pytest.mark.parametrize("kind", ["parquet", "file", "stream", "frame"])
@pytest.mark.parametrize("name", list(STORED))
def test_the_way_in_which_values_are_stored_changes_no_count_and_stays(tmp_path: Path, name: str, kind: str) -> None:
    if kind == "parquet" and name in ("runs", "runs of times", "dictionary of views"):
        pytest.skip("Parquet has no such type")
    table = pa.table({"k": STORED[name], "sex": ["f", "m"] * 4})
    path, is_stream = tmp_path / ("a.parquet" if kind == "parquet" else "a.arrow"), kind == "stream"
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=3)
    elif kind != "frame":
        with (pa.ipc.new_stream if is_stream else pa.ipc.new_file)(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=3)

    def plain(written: pa.Table) -> list[object]:
        column = written.column("k")
        if pa.types.is_run_end_encoded(column.type):
            column = pc.run_end_decode(column)
        if pa.types.is_dictionary(column.type):
            column = pa.chunked_array([pc.cast(c.dictionary, _plain(c.dictionary.type)).take(c.indices) for c in column.chunks])
        column = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        return [None if value is None or value != value else value for value in column.to_pylist()]

    values = plain(table)
    wanted = Counter(zip(values, table.column("sex").to_pylist(), strict=True))
    for records in (True, False):
        counted = Microdata(table if kind == "frame" else path, ["k", "sex"]).table(records=records)
        assert sorted(counted.counts.tolist()) == sorted(wanted.values())
        assert counted.categories[0].n_levels == len(set(values))
    source = open_source(table if kind == "frame" else path)
    order = np.arange(8)[::-1]
    changes = Changes(np.array([0, 3]), source.take(np.array([3, 0]), ["k"]), order=order)
    if kind == "frame":
        after = source.changed(changes)
    else:
        out = source.write(tmp_path / f"b{path.suffix}", changes)
        read = pa.ipc.open_stream if is_stream else pa.ipc.open_file
        after = pq.read_table(out) if kind == "parquet" else read(out).read_all()
    values[0], values[3] = values[3], values[0]
    assert plain(after) == values[::-1]
    before = pq.read_schema(path) if kind == "parquet" else table.schema
    assert after.schema == before


def _plain(kept_as: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_string_view(kept_as) else kept_as


def test_times_as_spark_stores_them_keep_their_date_and_their_type(tmp_path: Path) -> None:
    """Many tables end an open period in the year 9999, which Arrow's nanoseconds do not reach."""
    ends = [datetime.datetime(9999, 12, 31), datetime.datetime(2020, 1, 1, 12, 30, 0, 5), None, datetime.datetime(1600, 2, 3)]
    table = pa.table({"until": pa.array(ends, pa.timestamp("us")), "sex": ["f", "m", "f", "m"]})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    for records in (True, False):
        assert Microdata(path, ["until", "sex"]).table(records=records).categories[0].levels == (ends[3], ends[1], ends[0], None)
    source = open_source(path)
    out = source.write(tmp_path / "b.parquet", Changes(np.array([0, 1]), source.take(np.array([1, 0]), ["until"])))
    written = pq.ParquetFile(out, coerce_int96_timestamp_unit="us")
    assert written.read().column("until").to_pylist() == [ends[1], ends[0], None, ends[3]]
    assert written.schema.column(0).physical_type == "INT96"


@pytest.mark.parametrize("version", ["1.0", "2.6"])
def test_parquet_keeps_the_version_of_its_format(tmp_path: Path, version: str) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "a.parquet", version=version)
    out = open_source(tmp_path / "a.parquet").write(tmp_path / "b.parquet", Changes())
    assert pq.read_metadata(out).format_version == version


DAMAGED_DESCRIPTION = (
    "c-nnZ+e*Vg5Z!D;3?(2%Hf$hDUK$kaO=yu)A11Y})fAh86nrZs)M9U@)qI3M;5Ue`ev98A_~Hi$&L(N=lLvN^nRDjs?6O_xl^9`F<{mTcnJ|SZCYMu$5H3"
    "p?b@}j5mdRi^d@uZ1`=5kROj4F$Q{TIS7Aq>^VzS|u30IcGJAXQ0l$3$f`y!)EacjtzWiC&~%M~(=W+~tCC;rr*t+EI1+ny@+(bI-$m^LvPHL?mZPO&{|S"
    "xcFwYx;|%ze=`R`*&!=#53YPq;_PdsnMjAs6vO$X<J1DRB#P?z3YB89+-bg1%b*45FW(10tmqwK@(sE^@sw;0qBUIIzT%rY`=)cCX~A97YeuVM&uW;v5us"
    "dQ7&4Ypc5Ax3Gad93I7(r5YAyk#_-zSx^p{fV%nM%Z~H|^=Ie;LoiLF`^5_s}gj<V2@bKuba>K<UHwc1xXg&GCay*||CzX6LUouP+uj~VFw2N=%7gcR@MF"
)
"""A file of lists in which the description of the column says another depth than its schema; Arrow ends the program when it is asked."""


def test_a_damaged_description_of_a_column_does_not_end_the_program(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(zlib.decompress(base64.b85decode(DAMAGED_DESCRIPTION)))
    command = [sys.executable, "-m", "rarecell", "assess", "a.parquet", "--keys", "k0", "--population", "1000"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("rarecell: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("pages", ["1.0", "2.0"])
@pytest.mark.parametrize("coded", [True, False, ["b", "c.list.element"]])
@pytest.mark.parametrize("has_index", [True, False])
def test_parquet_keeps_how_its_pages_are_written(tmp_path: Path, pages: str, coded: bool | list[str], has_index: bool) -> None:
    """A file of the same writer is the same, to the last byte."""
    lists = pa.array([[1], [2, 3]] * 50, pa.list_(pa.field("element", pa.int64())))
    table = pa.table({"a": ["x", "y"] * 50, "b": ["v", "w"] * 50, "c": lists})
    options = {"data_page_version": pages, "use_dictionary": coded, "write_page_index": has_index, "compression": "none"}
    path = tmp_path / "a[1]?*.parquet"
    pq.write_table(table, path, **options)
    out = open_source(path).write(tmp_path / "b.parquet", Changes())
    assert out.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
def test_texts_are_read_in_every_encoding_of_parquet(tmp_path: Path, encoding: str) -> None:
    table = pa.table({"city": ["Bern", "Berlin", None, "Bern"], "sex": ["f", "m", "f", "m"]})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=["sex"], column_encoding={"city": encoding})
    for records in (True, False):
        counted = Microdata(tmp_path / "a.parquet", ["city", "sex"]).table(records=records)
        assert counted.categories[0].levels == ("Berlin", "Bern", None)
        assert counted.counts.tolist() == [1, 1, 1, 1]


class Keys(encryption.KmsClient):  # type: ignore[misc]
    """Keys that lie in the file itself."""

    def __init__(self, _: object) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, _: str) -> bytes:
        return base64.b64encode(key)


@pytest.mark.parametrize("is_footer_plain", [True, False])
def test_an_encrypted_file_is_told(tmp_path: Path, is_footer_plain: bool) -> None:
    """Asked about an encrypted column, Arrow ends the whole program."""
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    how = encryption.EncryptionConfiguration(footer_key="k", column_keys={"k": ["a"]}, plaintext_footer=is_footer_plain)
    sealed = encryption.CryptoFactory(Keys).file_encryption_properties(encryption.KmsConnectionConfig(), how)
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema, encryption_properties=sealed) as writer:
        writer.write_table(table)
    with pytest.raises(BadInput, match="is encrypted"):
        open_source(tmp_path / "a.parquet")


def test_the_order_of_levels_that_a_file_does_not_tell_is_not_made_up(tmp_path: Path) -> None:
    size = pa.DictionaryArray.from_arrays(pa.array([2, 1, 0, 1], pa.int8()), ["small", "middle", "large"], ordered=True)
    for has_dictionary in (True, False):
        pq.write_table(pa.table({"size": size}), tmp_path / "a.parquet", use_dictionary=has_dictionary)
        (column,) = open_source(tmp_path / "a.parquet").columns()
        assert column.level_order == (("small", "middle", "large") if has_dictionary else None)


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_arrow_files_keep_their_compression(tmp_path: Path, is_stream: bool, compression: str | None) -> None:
    table = pa.table({"a": pa.array(["x", "y"] * 500).dictionary_encode(), "b": range(1000)})
    path = tmp_path / "a.arrow"
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with (pa.ipc.new_stream if is_stream else pa.ipc.new_file)(path, table.schema, options=options) as writer:
        writer.write_table(table)
    out = open_source(path).write(tmp_path / "b.arrow", Changes())
    assert abs(out.stat().st_size - path.stat().st_size) < 100


@pytest.mark.parametrize("kind", ["parquet", "file", "stream", "frame"])
def test_an_hour_that_occurs_twice_is_two_levels_however_it_is_counted(tmp_path: Path, kind: str) -> None:
    """When clocks are set back, half past two comes twice; times with a zone are compared in UTC."""
    utc = [datetime.datetime(2024, 10, 27, hour, 30, tzinfo=datetime.UTC) for hour in (0, 1, 0, 1)]
    table = pa.table({"when": pa.array(utc, pa.timestamp("us", "Europe/Berlin")), "sex": ["f", "m", "m", "f"]})
    path = tmp_path / ("a.parquet" if kind == "parquet" else "a.arrow")
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind != "frame":
        with (pa.ipc.new_file if kind == "file" else pa.ipc.new_stream)(path, table.schema) as writer:
            writer.write_table(table)
    levels = [
        Microdata(table if kind == "frame" else path, ["when", "sex"]).table(records=records).categories[0].labels
        for records in (True, False)
    ]
    assert levels[0] == levels[1] == ("2024-10-27 00:30:00+00:00", "2024-10-27 01:30:00+00:00")


@pytest.mark.parametrize("number", [999_999_999_999_999, 2**53 - 1, 1 - 2**53])
def test_long_whole_numbers_of_a_workbook_stay_whole(number: int, tmp_path: Path) -> None:
    path = workbook_of_numbers(tmp_path, number)
    assert open_source(path).take(np.arange(1), ["person"])["person"].to_pylist() == [str(number)]


@pytest.mark.parametrize("number", [2**53, 2**53 + 1, 2**53 + 3, 2**60, -(2**53) - 1, -(2**53) - 2])
def test_whole_numbers_that_a_workbook_rounds_are_refused(number: int, tmp_path: Path) -> None:
    path = workbook_of_numbers(tmp_path, number)
    with pytest.raises(BadInput, match="more than 15 digits in column 'person'"):
        open_source(path).n_rows()


def workbook_of_numbers(folder: Path, number: int) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["person", "age"], [number, 30]):
        book.active.append(row)
    book.save(folder / "a.xlsx")
    return folder / "a.xlsx"


# ---------------------------------------------------------------------- statistics packages


def labelled() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "sex": np.array([1, 2, 2, 1, 2], np.int8),
            "size": np.array([1, 2, 70_000, 2, 2], np.int32),
            "share": np.array([1, 2.5, 3, 3, 0.1], np.float32),
            "age": [31.0, np.nan, 62.0, 62.0, 45.0],
            "region": ["00", "", "01", "Zürich", "00"],
            "why": pd.Series([1, 2, "a", None, "b"], dtype=object),
        }
    )


@pytest.mark.parametrize("version", [8, 10, 12, 13, 14, 15])
def test_stata_files_change_in_the_changed_bytes_only(tmp_path: Path, version: int) -> None:
    frame = labelled()
    if version < 14:
        frame["region"] = frame["region"].str.replace("ü", "u")
    path, out = tmp_path / "a.dta", tmp_path / "b.dta"
    pyreadstat.write_dta(
        frame, str(path), version=version, missing_user_values={"why": ["a", "b"]},
        variable_value_labels={"sex": {1: "man", 2: "woman"}}, column_labels={"age": "Age in years"},
    )  # fmt: skip
    source = open_source(path)
    names = list(frame.columns)
    everything = source.take(np.arange(5), names)
    rows, partners = np.array([0, 2, 4, 1]), np.array([2, 1, 3, 3])
    source.write(out, Changes(rows, source.take(partners, names)))
    after = open_source(out).take(np.arange(5), names)
    for name in names:
        expected = everything[name].to_pylist()
        before = list(expected)
        for row, partner in zip(rows, partners, strict=True):
            expected[row] = before[partner]
        assert after[name].to_pylist() == expected, name
    old, new = path.read_bytes(), out.read_bytes()
    assert len(old) == len(new)
    # Going back gives the same file, byte for byte.
    again = open_source(out).write(
        tmp_path / "c.dta", Changes(rows, {name: everything[name].take(pa.array(rows)) for name in names})
    )
    assert again.read_bytes() == old


def test_labels_measures_and_missing_codes_of_spss(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"sex": [1.0, 2.0, 9.0, None, 1.0], "income": [1.0, 2.0, 98.0, 99.0, 3.0], "region": ["00", "01", "", "00", "02"]}
    )
    options = {
        "variable_value_labels": {"sex": {1.0: "man", 2.0: "woman", 9.0: "refused"}},
        "missing_ranges": {"sex": [{"lo": 9.0, "hi": 9.0}], "income": [{"lo": 90.0, "hi": 99.0}]},
        "variable_measure": {"income": "ordinal", "sex": "nominal", "region": "nominal"},
    }
    pyreadstat.write_sav(
        frame, str(tmp_path / "a.sav"), column_labels={"sex": "Sex of person"}, variable_format={"income": "F4.0"}, **options
    )
    data = Microdata(tmp_path / "a.sav", ["sex", "income", "region"])
    sex, income, region = data.table().categories
    assert (sex.levels, sex.is_ordered) == ((1, 2, None), False)
    assert (income.levels, income.is_ordered) == ((1, 2, 3, None), True)
    assert region.levels == ("00", "01", "02", None)
    assert data.n_missing == {"sex": 2, "income": 2, "region": 1}
    assert data.source.columns()[0].value_labels == {1.0: "man", 2.0: "woman", 9.0: "refused"}

    out = data.write(tmp_path / "b.sav", Changes(np.array([0, 2]), data.values_at(np.array([2, 0]), ["sex", "income"])))
    values, metadata = pyreadstat.read_sav(str(out), user_missing=True, output_format="dict")
    assert values["sex"] == [9.0, 2.0, 1.0, None, 1.0]
    assert values["income"] == [98.0, 2.0, 1.0, 99.0, 3.0]
    assert metadata.variable_value_labels == options["variable_value_labels"]
    assert metadata.missing_ranges == options["missing_ranges"]
    assert metadata.variable_measure["income"] == "ordinal"
    assert metadata.original_variable_types["income"] == "F4.0"
    assert metadata.column_names_to_labels["sex"] == "Sex of person"


def test_compressed_spss_and_sas_transport_round_trips(tmp_path: Path) -> None:
    frame = pl.DataFrame({"age": [31.0, 62.0, None], "region": ["00", "01", "02"]})
    pyreadstat.write_sav(frame, str(tmp_path / "a.zsav"), compress=True)
    pyreadstat.write_xport(frame, str(tmp_path / "a.xpt"), table_name="PEOPLE")
    for name in ("a.zsav", "a.xpt"):
        source = open_source(tmp_path / name)
        out = source.write(tmp_path / f"b{source.suffix}", Changes(np.array([0, 2]), source.take(np.array([2, 0]), ["age"])))
        assert open_source(out).take(np.arange(3), ["age", "region"])["age"].to_pylist() == [None, 62.0, 31.0]


def test_letters_that_come_late_in_a_stata_file(tmp_path: Path) -> None:
    pyreadstat.write_dta(labelled(), str(tmp_path / "a.dta"), missing_user_values={"why": ["a", "b"]})
    source = open_source(tmp_path / "a.dta")
    assert isinstance(source, StatisticsSource)
    source.batch_rows = 2
    assert source.take(np.arange(5), ["why"])["why"].to_pylist() == ["1", "2", ".a", None, ".b"]
    table = Microdata(source, ["why", "sex"]).table()
    assert table.categories[0].levels == (1, 2, None)


def test_whatever_a_damaged_statistics_file_ends_in_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object, **__: object) -> None:
        raise TypeError("expected bytes, NoneType found")

    (tmp_path / "a.sav").write_bytes(b"$FL2")
    monkeypatch.setattr(pyreadstat, "read_sav", read)
    with pytest.raises(BadInput, match="is damaged or of a version"):
        open_source(tmp_path / "a.sav").columns()


def test_statistics_files_need_their_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.sav").write_bytes(b"$FL2")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"rarecell\[stats\]"):
        open_source(tmp_path / "a.sav")


# ---------------------------------------------------------------------- queries


@pytest.fixture
def databases(tmp_path: Path) -> dict[str, Path]:
    rows = [(31, "00", 1.5), (62, "01", 2.5), (None, "00", 3.0), (31, "02", None)]
    lite = sqlite3.connect(tmp_path / "a.db")
    lite.execute("CREATE TABLE people (age, region, share)")
    lite.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
    lite.commit()
    lite.close()
    duck = duckdb.connect(str(tmp_path / "a.duckdb"))
    duck.execute("CREATE TABLE people (age INTEGER, region VARCHAR, share DOUBLE)")
    duck.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
    duck.close()
    frame = pl.DataFrame(rows, schema=["age", "region", "share"], orient="row")
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_csv(tmp_path / "a.csv")
    return {suffix: tmp_path / f"a.{suffix}" for suffix in ("db", "duckdb", "parquet", "csv")}


@pytest.mark.parametrize("kind", ["db", "duckdb", "parquet", "csv"])
def test_a_query_is_read_like_a_file(databases: dict[str, Path], kind: str, tmp_path: Path) -> None:
    path = databases[kind]
    before = path.read_bytes()
    name = "people" if kind in ("db", "duckdb") else "data"
    data = Microdata(
        path, ["age", "region"], sql=f"SELECT region, age FROM {name} WHERE region <> '02' ORDER BY region, age DESC;"
    )
    table = data.table()
    assert [c.levels for c in table.categories] == [(31, 62, None), ("00", "01")]
    assert table.record_cell is not None
    assert table.record_cell.tolist() == [0, 2, 1]
    out = data.write(tmp_path / "out.parquet", Changes(np.array([0]), {"region": ["01"]}))
    assert pq.read_table(out).column("region").to_pylist() == ["01", "00", "01"]
    assert path.read_bytes() == before


def test_a_query_may_name_its_own_files(databases: dict[str, Path]) -> None:
    source = open_source(None, sql=f"SELECT * FROM '{databases['parquet']}'")
    assert source.n_rows == 4
    assert open_source(None, sql="SELECT 1 AS x WHERE false").n_rows == 0


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("DROP TABLE people", "one SELECT"),
        ("SELECT 1 AS x; SELECT 2 AS x", "one SELECT"),
        ("COPY (SELECT 1) TO 'x.csv'", "one SELECT"),
        ("SELECT agee FROM people", "could not be run"),
        ("SELEC", "could not be run"),
    ],
)
@pytest.mark.parametrize("kind", ["db", "duckdb"])
def test_queries_that_are_refused(databases: dict[str, Path], kind: str, query: str, told: str) -> None:
    before = databases[kind].read_bytes()
    with pytest.raises(BadInput, match=f"{told}|could not be run") as caught:
        open_source(databases[kind], sql=query).columns()
    assert "\n" not in str(caught.value)
    assert databases[kind].read_bytes() == before


def test_mixed_types_of_sqlite_and_doubled_names(databases: dict[str, Path]) -> None:
    with pytest.raises(BadInput, match="mixes values of the types int and str"):
        open_source(databases["db"], sql="SELECT age AS x FROM people UNION ALL SELECT region FROM people").columns()
    with pytest.raises(BadInput, match="more than one column named 'age'"):
        open_source(databases["db"], sql="SELECT age, age FROM people").columns()


@pytest.mark.parametrize(
    ("query", "extension"),
    [
        ("SELECT * FROM sqlite_scan('a.db', 'people')", "sqlite"),
        ("SELECT * FROM 'https://example.org/a.parquet'", "httpfs"),
    ],
)
def test_an_extension_is_not_fetched_unasked(query: str, extension: str) -> None:
    with pytest.raises(BadInput, match=f"extension '{extension}', which is not on this computer") as caught:
        open_source(None, sql=query).columns()
    told = str(caught.value)
    assert "\n" not in told
    assert f"INSTALL {extension}" in told
    assert f"{extension}.duckdb_extension made for DuckDB {duckdb.__version__}" in told
    assert ("named as FILE" in told) == (extension == "sqlite")


def test_an_error_of_a_server_does_not_repeat_its_password() -> None:
    from rarecell.engine.places import redacted

    told = redacted("no connection to postgresql://me:s3cret@db/census or host=db password=s3cret user=me")
    assert told == "no connection to postgresql://me:…@db/census or host=db password=… user=me"


# ---------------------------------------------------------------------- output


def _fail_halfway(path: Path) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text("half")
        raise KeyError("a fault in the middle")


def test_output_is_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with atomic_path(path) as temporary:
        temporary.write_text("é\n", encoding="utf-8")
    assert path.read_bytes() == "é\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(KeyError):
        _fail_halfway(path)
    assert path.read_bytes() == "é\n".encode()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]
    with pytest.raises(NotWritten, match="could not be written"), atomic_path(tmp_path / "no" / "a.txt"):
        pass


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with pytest.raises(NotWritten, match="No space left"), atomic_path(tmp_path / "a.txt"):
        Path("/dev/full").write_text("x")
    assert list(tmp_path.iterdir()) == []


def test_parquet_output_from_columns_or_pieces(tmp_path: Path) -> None:
    whole = {"record": np.arange(10), "risk": np.linspace(0, 1, 10)}
    pieces = ({name: values[start : start + 4] for name, values in whole.items()} for start in (0, 4, 8))
    one, many = write_parquet(tmp_path / "one.parquet", whole), write_parquet(tmp_path / "many.parquet", pieces)
    assert pq.read_table(one).equals(pq.read_table(many))
    assert stat.S_IMODE(many.stat().st_mode) == 0o600
    with pytest.raises(ValueError, match="at least one piece"):
        write_parquet(tmp_path / "none.parquet", [])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_is_decoded_once(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many steps of a run ask for a column; what is taken from the codes is what stands in the file."""
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "age": rng.integers(20, 50, 300),
            "sex": [["f", "m"][k] for k in rng.integers(0, 2, 300)],
            "household": np.arange(300) // 3,
            "income": rng.gamma(2.0, 900.0, 300).round(2),
        }
    )
    path = tmp_path / f"people.{suffix}"
    pa.csv.write_csv(table, path) if suffix == "csv" else pq.write_table(table, path)
    source = open_source(path)
    rows = rng.integers(0, 300, 40)
    before = source.take(rows, table.column_names)
    decoded: list[str] = []
    batches = type(source).batches
    monkeypatch.setattr(type(source), "batches", lambda self, names: decoded.extend(names) or batches(self, names))
    source.encode(["age", "sex"])
    source.encode(["household", "sex", "income"])
    for _ in range(3):
        encoded = source.encode(table.column_names).columns
        taken = {**source.take(rows, ["age", "sex", "household"]), **source.take(rows, ["income"])}
    assert {name: decoded.count(name) for name in ("age", "sex", "household")} == {"age": 1, "sex": 1, "household": 1}
    assert {name: array.to_pylist() for name, array in taken.items()} == {name: a.to_pylist() for name, a in before.items()}
    assert all(len(column.codes) == 300 for column in encoded)
    frame = open_source(table)
    frame.encode(["age"])
    assert not frame._codes, "a frame may change without our knowing"
