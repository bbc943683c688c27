"""Spark frames give the same table as frames in memory, and results go back to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rarecell as rc
from rarecell.data.microdata import Microdata
from rarecell.datasets import CENSUS_KEYS, CENSUS_POPULATION, census_sample
from rarecell.engine.changes import Blanks, Changes
from rarecell.engine.spark import joins
from rarecell.engine.spark.source import SparkSource
from rarecell.errors import BadInput, NotChordal, TooLarge, UnknownColumns
from rarecell.swap.plan import plan_swaps
from tests.naive.writing import changed_records
from tests.reference import cliques_by_number
from tests.test_microdata import KEYS, PEOPLE, assert_same_table

pytestmark = [pytest.mark.spark, pytest.mark.slow]


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


@pytest.mark.parametrize("missing", ["level", "drop"])
def test_values_of_cells_are_joined_to_records_missing_keys_too(spark: Any, missing: str) -> None:
    people = PEOPLE.append_column("id", pa.array(range(8)))
    data = Microdata(spark.createDataFrame(people), ["age", "region"], missing=missing, coding={"age": {"top": 62}})
    table = data.table()
    assert isinstance(data.source, SparkSource)
    joined = data.source.with_cell_values(data.key_cells(table), {"cell_count": table.counts})
    found = {row["id"]: row["cell_count"] for row in joined.collect()}
    in_memory = Microdata(people, ["age", "region"], missing=missing, coding={"age": {"top": 62}}).table()
    assert in_memory.record_cell is not None
    assert found == {row: None if cell < 0 else in_memory.counts[cell] for row, cell in enumerate(in_memory.record_cell)}
    assert joined.columns == [*people.column_names, "cell_count"]


def test_recoded_keys_hold_their_levels(spark: Any) -> None:
    people = PEOPLE.append_column("id", pa.array(range(8)))
    coding: dict[str, Any] = {"age": "top 62", "region": "3 groups", "income": {"missing": [9.25]}}
    keys = ["age", "region", "income"]
    data = Microdata(spark.createDataFrame(people), keys, id="id", coding=coding)
    in_memory = Microdata(people, keys, coding=coding)
    assert_same_table(data.table(), in_memory.table())
    found = {row["id"]: row for row in data.changed(Changes(pa.array([], pa.int64()), {})).collect()}
    expected = in_memory.changed(Changes(np.empty(0, dtype=np.int64), {}))
    for key in keys:
        assert [found[row][key] for row in range(8)] == expected[key].to_pylist()


def test_values_are_replaced_by_id(spark: Any) -> None:
    people = PEOPLE.append_column("id", pa.array(range(8)))
    frame = spark.createDataFrame(people)
    source = Microdata(frame, ["age", "region"], id="id").source
    assert isinstance(source, SparkSource)
    changed = source.changed(Changes(pa.array([0, 6]), {"age": pa.array([None, 31]), "region": ["x", "01"]}, id_column="id"))
    assert changed.dtypes == frame.dtypes
    rows = {row["id"]: (row["age"], row["region"], row["sex"]) for row in changed.collect()}
    assert rows[0] == (None, "x", "f")
    assert rows[6] == (31, "01", "m")
    assert rows[1] == (31, "02", "m")


def test_all_changes_are_made_by_id(spark: Any, tmp_path: Path) -> None:
    """Blanks, treated columns and the order are given by the position of a record among the ids."""
    ids = [f"p{number}" for number in (4, 0, 7, 2, 6, 1, 5, 3)]
    people = PEOPLE.append_column("id", pa.array(ids))
    source = Microdata(spark.createDataFrame(people), ["age", "region"], id="id").source.numbered("id")
    changes = Changes(
        source.places(np.array([0, 1])),
        {"age": [91, 90]},
        blanks={"region": Blanks(np.array([2]))},
        treated={"income": pa.array(range(8))},
        dropped=frozenset({"sex"}),
        order=np.array([7, 6, 5, 4, 0, 1, 2, 3]),
        id_column="id",
    )
    written = source.write(tmp_path / "out.parquet", changes)
    in_order = people.take(np.argsort(ids))
    of_rows = Changes(**{**vars(changes), "places": np.array([0, 1]), "values": {"age": pa.array([91, 90])}})
    found = pq.read_table(written).to_pylist()
    assert found == [{name: record[name] for name in found[0]} for record in changed_records(in_order.to_pylist(), of_rows)]


def test_a_plan_takes_the_same_records_as_in_memory(spark: Any) -> None:
    """Rows are shuffled over the machines, and yet the same seed takes the same persons."""
    people = census_sample()
    ids = np.random.default_rng(0).permutation(people.num_rows) + 10_000
    people = people.append_column("id", pa.array(ids))
    coding = {"age": {"top": 80}}
    known = Microdata(people, CENSUS_KEYS, id="id", coding=coding)
    data = Microdata(spark.createDataFrame(people).repartition(3), CENSUS_KEYS, id="id", coding=coding)
    results = []
    for each in (known, data):
        table = each.table()
        model = rc.DecomposableModel(table, cliques=cliques_by_number(table, "15 16 36 46 37 28 38"))
        risk = rc.record_risk(table, model, population=CENSUS_POPULATION)
        names = None if table.record_cell is None else each.record_names
        results.append(plan_swaps(table, model, records=risk.riskiest(60), risk=risk, seed=3, record_ids=names).apply(each))
    in_memory, on_spark = results
    assert on_spark.margins == in_memory.margins
    # Age is released as it was assessed, with a top code.
    kept = [field for field in spark.createDataFrame(people).schema if field.name != "age"]
    assert [field for field in on_spark.frame.schema if field.name != "age"] == kept
    assert on_spark.frame.columns == people.column_names
    assert on_spark.frame.toArrow().sort_by("id").to_pylist() == in_memory.frame.sort_by("id").to_pylist()
    swaps, expected = on_spark.audit.to_pylist(), in_memory.audit.to_pylist()
    for swap in expected:
        swap.update({name: people["id"][swap[name]].as_py() for name in ("record", "partner")})
    assert swaps == expected


def test_ids_are_needed_and_each_once(spark: Any) -> None:
    people = PEOPLE.append_column("id", pa.array([0, 1, 2, 3, 4, 5, 1, None]))
    frame = spark.createDataFrame(people)
    for id_column, rows, problem in (
        (None, [0], "a column that names each record"),
        ("weight", [0], "neither whole numbers nor text"),
        ("id", list(range(8)), "missing values"),
        ("id", [], "a value twice"),
    ):
        data = Microdata(frame.filter("id is not null") if not rows else frame, KEYS, id=id_column)
        table = data.table()
        with pytest.raises(BadInput, match=problem):
            data.drawn_records(table, np.array(rows or range(7)), seed=0)


def test_the_counts_of_cliques_are_enough(spark: Any) -> None:
    keys = ["sex", "age", "marital", "citizenship"]
    people = census_sample().select(keys)
    marital = pa.array(people["marital"].to_numpy(), mask=np.random.default_rng(1).random(people.num_rows) < 0.02)
    people = people.set_column(2, "marital", marital).append_column("id", pa.array(range(people.num_rows)))
    options: dict[str, Any] = {"missing": "drop", "coding": {"age": {"width": 3}}}
    cliques = [("sex", "age"), ("age", "marital")]
    data = Microdata(spark.createDataFrame(people), keys, **options)
    assert isinstance(data.source, SparkSource)
    data.source.most_cells = 100
    with pytest.raises(TooLarge, match=r"age \(about .* rarecell.clique_risk"):
        data.table()
    found = rc.clique_risk(data, cliques, population=CENSUS_POPULATION)
    table = Microdata(people, keys, **options).table()
    expected = rc.record_risk(table, rc.DecomposableModel(table, cliques=cliques), population=CENSUS_POPULATION)
    assert str(found) == str(expected)
    of_record = expected.per_record()
    rows = found.frame.select("id", *of_record).toArrow().sort_by("id")
    kept = table.record_cell >= 0
    assert rows["id"].to_pylist() == np.flatnonzero(kept).tolist()
    for name in ("cell_count", "cell_probability", "unique_probability"):
        np.testing.assert_allclose(rows[name].to_numpy(), of_record[name][kept], rtol=1e-9)
    is_unique = of_record["cell_count"][kept] == 1
    np.testing.assert_allclose(rows["match_probability"].to_numpy()[is_unique], of_record["match_probability"][kept][is_unique])


def test_cliques_are_checked_before_spark_works(spark: Any) -> None:
    data = Microdata(spark.createDataFrame(PEOPLE), ["age", "sex", "region", "income"])
    with pytest.raises(NotChordal, match="age – sex – region – income"):
        rc.clique_risk(data, [("age", "sex"), ("sex", "region"), ("region", "income"), ("income", "age")], population=100)
    with pytest.raises(UnknownColumns, match="no key 'ages'"):
        rc.clique_risk(data, [("ages", "sex")], population=100)
    with pytest.raises(BadInput, match="use record_risk"):
        rc.clique_risk(Microdata(PEOPLE, ["age", "sex"]), [("age", "sex")], population=100)


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


def test_a_new_session_leaves_no_folder_of_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark makes an empty spark-warehouse where it is started; tables that are there already are read from there."""
    monkeypatch.chdir(tmp_path)
    place = Path(joins._no_warehouse({})[joins.WAREHOUSE])
    assert place.is_dir()
    assert tmp_path not in place.parents
    assert joins._no_warehouse({joins.WAREHOUSE: "/tables"}) == joins._no_warehouse({"spark.remote": "sc://x"}) == {}
    (tmp_path / "spark-warehouse").mkdir()
    assert joins._no_warehouse({}) == {}


def test_a_new_session_keeps_others_out() -> None:
    from rarecell.engine.spark.joins import private_settings

    loopback = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    assert private_settings({}) == {"spark.ui.enabled": "false", **loopback}
    assert private_settings({"spark.master": "local[4]"}) == {"spark.ui.enabled": "false", **loopback}
    # The machines of a cluster must reach this one, and a user who wants the page gets it.
    assert private_settings({"spark.master": "yarn"}) == {"spark.ui.enabled": "false"}
    assert private_settings({"spark.ui.enabled": "true"}) == loopback
