"""What is written into a frame has the types, the categories and the values of the frame."""

from __future__ import annotations

import datetime
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rarecell.data.microdata import Microdata
from rarecell.engine import open_source
from rarecell.engine.changes import Blanks, Changes
from rarecell.errors import BadInput

MOMENT, LATER = datetime.datetime(2021, 10, 31, 0, 30), datetime.datetime(2022, 1, 1)


def exchanged(frame: Any, column: str, first: int = 0, second: int = 1) -> Any:
    """The frame in which two records have exchanged their values of a column."""
    source = open_source(frame)
    return source.changed(Changes(np.array([first, second]), source.take(np.array([second, first]), [column])))


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("is_lazy", [False, True])
def test_moments_of_polars_keep_their_date_in_every_unit(unit: Any, zone: str | None, is_lazy: bool) -> None:
    series = (
        pl.Series("when", [MOMENT, LATER, None], pl.Datetime(unit))
        .dt.replace_time_zone("UTC")
        .dt.convert_time_zone(zone or "UTC")
    )
    frame = pl.DataFrame({"when": series, "b": ["x", "y", "z"]})
    after = exchanged(frame.lazy() if is_lazy else frame, "when")
    after = after.collect() if is_lazy else after
    assert after["when"].to_list() == [series[1], series[0], None]
    assert after.schema == frame.schema


def test_days_of_milliseconds_and_columns_without_values_in_polars() -> None:
    table = pa.table({"day": pa.array([datetime.date(2020, 1, 1), datetime.date(1900, 1, 1)], pa.date64()), "none": pa.nulls(2)})
    frame = pl.DataFrame(table)
    assert exchanged(frame, "day")["day"].to_list() == frame["day"].to_list()[::-1]
    assert exchanged(frame, "none").equals(frame)


@pytest.mark.parametrize("kind", ["Int8", "Int64", "UInt16", "Float32", "boolean", "string", "category"])
def test_values_and_missing_ones_change_places_in_pandas(kind: str) -> None:
    values = [1, None, 0] if kind != "string" else ["a", None, "b"]
    frame = pd.DataFrame(
        {"k": pd.array(values, dtype="Int64" if kind == "category" else kind), "b": list("xyz")}, index=[7, 5, 3]
    )
    frame["k"] = frame["k"].astype(kind)
    after = exchanged(frame, "k")
    assert [None if pd.isna(value) else value for value in after["k"]] == [None, values[0], values[2]]
    assert after.dtypes.equals(frame.dtypes)
    assert after.index.equals(frame.index)


ARROW = {
    "words": pa.array(["a", None, "b", "c"]),
    "views": pa.array(["a", None, "b", "c"], pa.string_view()),
    "categories": pa.array(["a", None, "b", "c"]).dictionary_encode(),
    "numbers": pa.array([3, None, 2, 1]).dictionary_encode(),
    "moments": pa.array([MOMENT, None, LATER, LATER]).dictionary_encode(),
    "not numbers": pa.array([1.5, float("nan"), 2.5, None]),
}


@pytest.mark.parametrize("name", list(ARROW))
def test_columns_that_pandas_stores_as_arrow_does(name: str) -> None:
    frame = pd.DataFrame({"k": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([ARROW[name]]))), "b": list("xyzw")})
    values = ARROW[name].to_pylist()
    swapped = exchanged(frame, "k", 0, 1)
    assert repr(pa.array(swapped["k"]).to_pylist()) == repr([values[1], values[0], *values[2:]])
    blanked = open_source(frame).changed(Changes(blanks={"k": Blanks(np.array([2]))}))
    assert repr(pa.array(blanked["k"]).to_pylist()) == repr([*values[:2], None, values[3]])
    assert swapped.dtypes.equals(frame.dtypes)
    assert blanked.dtypes.equals(frame.dtypes)


def test_categories_are_what_they_stand_for() -> None:
    """Numbers and dates stay numbers and dates as categories, as they do in a Parquet file."""
    ages = pd.Categorical([30, 5, 9, None], categories=[30, 9, 5], ordered=True)
    frame = pd.DataFrame(
        {"age": ages, "code": pd.Categorical([1, 2, 10, 1]), "day": pd.Categorical(pd.to_datetime(["2020-01-01"] * 4))}
    )
    kinds = {column.name: (column.kind, column.level_order) for column in open_source(frame).columns()}
    assert kinds == {"age": ("integer", (30, 9, 5)), "code": ("integer", None), "day": ("date", None)}
    assert Microdata(frame, ["age", "code"]).table().categories[0].levels == (30, 9, 5, None)
    size = pa.DictionaryArray.from_arrays([1, 0, 1], ["small", "large"], ordered=True)
    (column,) = open_source(pa.table({"size": size})).columns()
    assert column.level_order == ("small", "large")


def test_intervals_are_no_key_and_say_so() -> None:
    frame = pd.DataFrame({"band": pd.cut([1, 5, 9, 12], [0, 4, 8, 12]), "b": list("xyzx")})
    with pytest.raises(BadInput, match="'band' cannot be a key: it holds intervals"):
        Microdata(frame, ["band", "b"])


def test_a_whole_number_that_fits_nowhere_is_told() -> None:
    with pytest.raises(BadInput, match="pandas frame"):
        Microdata(pd.DataFrame({"k": np.array([10**30, 10**30 + 1], dtype=object), "b": list("xy")}), ["k", "b"])


def test_relations_of_duckdb_keep_their_types() -> None:
    relation = duckdb.sql(
        """SELECT * FROM (VALUES (1, uuid(), '{"a":1}'::JSON, '101'::BIT, '12:00:00+02'::TIMETZ, 'b'::ENUM('b', 'a'), 5::HUGEINT),
        (2, uuid(), '[]'::JSON, '0011'::BIT, '12:00:00-05'::TIMETZ, 'a'::ENUM('b', 'a'), 6::HUGEINT)) t(k, id, j, bits, "at", size, "a""b")"""
    )
    after = exchanged(relation.limit(2), "k")
    assert [str(kind) for kind in after.types] == [str(kind) for kind in relation.types]
    assert after.project('j, bits, "at", size, "a""b"').fetchall() == relation.project('j, bits, "at", size, "a""b"').fetchall()
    assert after.project("k").fetchall() == [(2,), (1,)]


def test_a_table_of_arrow_keeps_its_views() -> None:
    table = pa.table({"city": pa.array(["Bern", "Oslo"], pa.string_view()), "note": pa.array([b"a", b"b"], pa.binary_view())})
    after = exchanged(table, "city")
    assert after.schema == table.schema
    assert after.column("city").to_pylist() == ["Oslo", "Bern"]


def in_any_order(kind: str) -> Any:
    """A query that gives its rows in another order each time."""
    if kind == "relation":
        return duckdb.sql("SELECT range AS k, range // 2 AS h FROM range(64) ORDER BY random()")
    return pl.DataFrame({"k": range(64)}).lazy().select(pl.col("k").shuffle()).with_columns(h=pl.col("k") // 2)


@pytest.mark.parametrize("kind", ["relation", "lazy"])
def test_a_query_is_run_once(kind: str) -> None:
    """Otherwise the household of a record would be that of another one."""
    source = open_source(in_any_order(kind))
    first, second = (np.concatenate([batch.column(0) for batch in source.batches([name])]) for name in ("k", "h"))
    assert (first // 2 == second).all()
    assert first.tolist() != sorted(first.tolist())
    after = exchanged(source.native_frame, "k")
    assert type(after) is type(source.native_frame)


def test_a_query_that_fails_is_told_without_its_values() -> None:
    failing = pl.DataFrame({"k": ["secret"], "b": ["x"]}).lazy().with_columns(pl.col("k").cast(pl.Int64))
    relation = duckdb.sql("SELECT * FROM (VALUES ('secret', 'x')) t(k, b)").project("k::INT AS k, b")
    for frame in (failing, relation):
        with pytest.raises(BadInput, match="could not be run") as told:
            Microdata(frame, ["k", "b"]).table()
        assert "secret" not in str(told.value)


@pytest.mark.parametrize("library", ["pyarrow", "pandas"])
def test_columns_of_one_name_are_named(library: str) -> None:
    table = pa.table([[1], [2], [3]], names=["a", "x", "x"])
    with pytest.raises(BadInput, match="more than one column named 'x'"):
        open_source(table if library == "pyarrow" else table.to_pandas())
