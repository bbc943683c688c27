"""Spark frames give the same table as frames in memory, and results go back to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rarecell.datasets import CENSUS_KEYS, census_sample
from rarecell.engine.spark import SparkSource
from rarecell.errors import BadInput, TooLarge
from rarecell.microdata import Microdata, suggest_roles
from tests.test_microdata import KEYS, PEOPLE, assert_same_table

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql")
    builder = sql.SparkSession.builder.master("local[2]").appName("rarecell tests")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.mark.parametrize("missing", ["level", "drop"])
def test_the_same_table_as_in_memory(spark: Any, missing: str) -> None:
    options: dict[str, Any] = {"weight": "weight", "missing": missing, "coding": {"income": {"quantiles": 2}}}
    data = Microdata(spark.createDataFrame(PEOPLE).repartition(3), KEYS, **options)
    assert_same_table(data.table(), Microdata(PEOPLE, KEYS, **options).table())
    assert data.table().record_cell is None
    assert data.n_records == 8


def test_the_census_sample(spark: Any) -> None:
    frame = spark.createDataFrame(census_sample().select(list(CENSUS_KEYS))).repartition(4)
    assert_same_table(Microdata(frame, CENSUS_KEYS).table(), Microdata(census_sample(), CENSUS_KEYS).table())


def test_values_of_cells_are_joined_to_records_missing_keys_too(spark: Any) -> None:
    people = PEOPLE.append_column("id", pa.array(range(8)))
    source = Microdata(spark.createDataFrame(people), ["age", "region"]).source
    assert isinstance(source, SparkSource)
    grouped = source.counts(["age", "region"])
    cells = {
        key: column.values.take(pa.array(column.codes)) for key, column in zip(["age", "region"], grouped.columns, strict=True)
    }
    joined = source.with_cell_values(["age", "region"], cells, {"cell_count": grouped.counts})
    found = {row["id"]: row["cell_count"] for row in joined.collect()}
    assert found == dict(enumerate([2, 1, 1, 1, 1, 2, 1, 1]))
    assert joined.columns == [*people.column_names, "cell_count"]


def test_values_are_replaced_by_id(spark: Any) -> None:
    people = PEOPLE.append_column("id", pa.array(range(8)))
    frame = spark.createDataFrame(people)
    source = Microdata(frame, ["age", "region"], id="id").source
    assert isinstance(source, SparkSource)
    changed = source.replaced_by_id("id", [0, 6], {"age": pa.array([None, 31]), "region": ["x", "01"]})
    assert changed.dtypes == frame.dtypes
    rows = {row["id"]: (row["age"], row["region"], row["sex"]) for row in changed.collect()}
    assert rows[0] == (None, "x", "f")
    assert rows[6] == (31, "01", "m")
    assert rows[1] == (31, "02", "m")


def test_what_spark_cannot_do_is_told(spark: Any) -> None:
    data = Microdata(spark.createDataFrame(PEOPLE), KEYS)
    assert isinstance(data.source, SparkSource)
    with pytest.raises(BadInput, match="have no order"):
        data.table(records=True)
    data.source.most_cells = 3
    with pytest.raises(TooLarge, match="more than the 3"):
        data.table()
    with pytest.raises(BadInput, match="below 1"):
        Microdata(spark.createDataFrame(PEOPLE.set_column(4, "weight", pa.array(np.full(8, 0.5)))), KEYS, weight="weight").table()
    assert [role for _, role, _ in suggest_roles(spark.createDataFrame(PEOPLE))][:3] == ["key", "geography", "key"]
