"""Names and levels with quotes, line ends and SQL in them are names, on every engine, and a seed means the same."""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import rarecell as rc

AGE, TRADE, TOWN = "age; DROP TABLE people;--", 'it\'s a "trade"', "a tab\t, and a comma"
TABLE = 'people"; DROP TABLE people;--'
N = 200
RNG = np.random.default_rng(9)
PEOPLE = pa.table(
    {
        AGE: RNG.integers(0, 12, N),
        TRADE: RNG.choice(["=1+1", "a'b", 'a"b', "'; DROP TABLE people;--", "two\nlines", "%s {0} \\"], N),
        TOWN: RNG.choice(["north", "", "south;", "$1"], N),
        "pay": RNG.integers(1, 9, N),
    }
)
OPTIONS: dict[str, Any] = {
    "keys": [AGE, TRADE, TOWN],
    "population": 4_000,
    "model": "single",
    "resolution": "full",
    "seed": 5,
    "top": 5,
}


def as_csv(folder: Path) -> dict[str, Any]:
    with (folder / "people.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([PEOPLE.column_names, *zip(*PEOPLE.to_pydict().values(), strict=True)])
    return {"data": folder / "people.csv"}


def as_parquet(folder: Path) -> dict[str, Any]:
    pq.write_table(PEOPLE, folder / "people.parquet", row_group_size=30)
    return {"data": folder / "people.parquet"}


def as_arrow(folder: Path) -> dict[str, Any]:
    pyarrow.feather.write_feather(PEOPLE, folder / "people.arrow")
    return {"data": folder / "people.arrow"}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def as_sqlite(folder: Path) -> dict[str, Any]:
    connection = sqlite3.connect(folder / "people.sqlite")
    connection.execute(f"CREATE TABLE {quoted(TABLE)} ({', '.join(map(quoted, PEOPLE.column_names))})")
    rows = zip(*PEOPLE.to_pydict().values(), strict=True)
    connection.executemany(f"INSERT INTO {quoted(TABLE)} VALUES (?, ?, ?, ?)", list(rows))
    connection.commit()
    connection.close()
    return {"data": folder / "people.sqlite", "sql": f"SELECT * FROM {quoted(TABLE)}"}


def as_duckdb(folder: Path) -> dict[str, Any]:
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.register("given", PEOPLE)
        connection.execute(f"CREATE TABLE {quoted(TABLE)} AS SELECT * FROM given")
    return {"data": folder / "people.duckdb", "sql": f"SELECT * FROM {quoted(TABLE)}"}


ENGINES: list[Callable[[Path], dict[str, Any]]] = [
    as_csv,
    as_parquet,
    as_arrow,
    as_sqlite,
    as_duckdb,
    lambda _: {"data": pandas.DataFrame(PEOPLE.to_pydict())},
    lambda _: {"data": polars.DataFrame(PEOPLE)},
    lambda _: {"data": duckdb.from_arrow(PEOPLE)},
]


@pytest.fixture(scope="module")
def reference() -> rc.Protection:
    return rc.protect(PEOPLE, **OPTIONS)


@pytest.mark.parametrize("engine", ENGINES, ids=["csv", "parquet", "arrow", "sqlite", "duckdb", "pandas", "polars", "relation"])
def test_names_and_levels_that_mean_something_elsewhere_are_counted_and_swapped_alike(
    engine: Callable[[Path], dict[str, Any]], reference: rc.Protection, tmp_path: Path
) -> None:
    given = engine(tmp_path)
    done = rc.protect(given.pop("data"), **given, **OPTIONS)
    # An empty text is a missing value in every format; the levels are the same, and so are the counts.
    assert done.assessment.table.counts.tolist() == reference.assessment.table.counts.tolist()
    assert done.assessment.table.cells.tolist() == reference.assessment.table.cells.tolist()
    assert done.plan.audit() == reference.plan.audit()
    assert done.summary.risk.expected_population_uniques == pytest.approx(reference.summary.risk.expected_population_uniques)


@pytest.mark.parametrize("engine", ENGINES[:3], ids=["csv", "parquet", "arrow"])
def test_what_is_written_has_the_names_and_levels_that_came(
    engine: Callable[[Path], dict[str, Any]], reference: rc.Protection, tmp_path: Path
) -> None:
    path = engine(tmp_path)["data"]
    rc.protect(path, out=tmp_path / "run", **OPTIONS)
    written = tmp_path / "run" / f"protected{path.suffix}"
    if path.suffix == ".csv":
        with written.open(encoding="utf-8", newline="") as stream:
            names, *rows = csv.reader(stream)
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    else:
        columns = (pq.read_table(written) if path.suffix == ".parquet" else pyarrow.feather.read_table(written)).to_pydict()
    assert list(columns) == PEOPLE.column_names
    wanted = {name: [("" if value is None else str(value)) for value in reference.frame[name].to_pylist()] for name in columns}
    assert {name: ["" if value is None else str(value) for value in values] for name, values in columns.items()} == wanted
    assert all(name in (tmp_path / "run" / "run.toml").read_text(encoding="utf-8") for name in ("DROP TABLE", "a tab"))


def test_the_same_names_and_levels_on_spark(spark: Any, reference: rc.Protection, tmp_path: Path) -> None:
    """Also names that Spark itself reads as paths and quotes."""
    odd = {AGE: "a.b `c`", TRADE: TRADE, TOWN: TOWN, "pay": "pay"}
    people = pandas.DataFrame({odd[name]: PEOPLE[name].to_pylist() for name in PEOPLE.column_names}).assign(number=range(N))
    options = {**OPTIONS, "keys": [odd[key] for key in OPTIONS["keys"]]}
    done = rc.protect(spark.createDataFrame(people), id="number", out=tmp_path / "run", **options)
    assert done.assessment.table.counts.tolist() == reference.assessment.table.counts.tolist()
    assert done.assessment.table.cells.tolist() == reference.assessment.table.cells.tolist()
    assert len(done.plan) == len(reference.plan)
    written = spark.read.parquet(str(tmp_path / "run" / "protected.parquet")).toPandas().sort_values("number")
    for name, given in odd.items():
        assert [value or None for value in written[given]] == [value or None for value in reference.frame[name].to_pylist()]
