"""Roles that look at single records give the same on every engine: what is drawn goes by ids, not by the order of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import rarecell as rc
from rarecell.data.microdata import Microdata
from rarecell.engine.duck import EngineSettings
from rarecell.errors import BadInput, TooLarge
from rarecell.machine.memory import MemoryLimit
from rarecell.run.swaps import refuse_without_positions
from rarecell.run.utility import compared_analyses
from tests.large_file import LargeFile
from tests.test_run_roles import SIMPLE
from tests.test_run_roles_protect import _households

PLACES: dict[str, Any] = {
    "keys": ["age", "sex", "town"],
    "geography": "region>town",
    "swap_rate": 0.1,
    "risk_above": 0.05,
    "similar": [["hhsize", "sex"], ["hhsize"]],
    "keep": [["town", "sex"]],
    "carry": ["nuts3"],
    # Where persons move without the others of their household, its number stays.
    "accept_leak": ["household"],
}
ORDINARY: dict[str, Any] = {"keys": ["age", "sex", "town", "pets"], "top": 15}
CASES: dict[str, dict[str, Any]] = {
    "places": PLACES,
    "places of households": {**PLACES, "household": "household", "households": True},
    "households": {**ORDINARY, "household": "household", "households": True},
    "like weights": {**ORDINARY, "weight": "weight"},
    "analyses": {**ORDINARY, "analysis": {"towns": {"table": "town, sex"}, "pets": {"means": "pets by region"}}},
    "within": {**ORDINARY, "within": ["region"]},
}


def census() -> pa.Table:
    """Households, weights, and ids in no order."""
    people, rng = _households(), np.random.default_rng(7)
    age = people.column_names.index("age")
    people = people.set_column(age, "age", pa.array(rng.integers(0, 40, people.num_rows)))
    people = people.append_column("weight", pa.array(np.round(rng.lognormal(1.5, 0.5, people.num_rows), 2)))
    ids = pa.array([f"p{number:05d}" for number in rng.permutation(people.num_rows)])
    return people.append_column("person", ids)


def protected(data: Any, options: dict[str, Any], **more: Any) -> Any:
    population = {} if "weight" in options else {"population": 4_000}
    # Where the column of households has no role, nobody knows who lives with whom.
    known = {} if "household" in options else {"households_known": "no"}
    simple = {name: value for name, value in SIMPLE.items() if name != "population"}
    return rc.protect(data, id="person", seed=4, swap_seed=5, **simple, **population, **known, **options, **more)


def pairs(done: Any) -> set[tuple[frozenset[str], str]]:
    """Who was swapped with whom, by their ids."""
    rows = done.result.audit
    rows = rows.to_pylist() if isinstance(rows, pa.Table) else rows.to_dict("records")
    ids = done.assessment.data.source.take(np.arange(done.assessment.data.n_records), ["person"])["person"].to_pylist()
    named = [(ids[r["record"]], ids[r["partner"]]) if isinstance(r["record"], int) else (r["record"], r["partner"]) for r in rows]
    return {(frozenset(who), row["variables"]) for who, row in zip(named, rows, strict=True)}


def values(frame: Any) -> dict[str, list[str]]:
    table = frame if isinstance(frame, pa.Table) else frame.toArrow()
    names = table.column_names
    # Files keep some columns as codes and dictionaries, which cannot be sorted.
    plain = {name: [str(value) for value in table.column(name).to_pylist()] for name in names}
    return pa.table(plain).sort_by("person").to_pydict()


def rounded(value: Any) -> Any:
    """Without the digits that the order of a sum decides."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


@pytest.mark.parametrize("case", CASES)
def test_the_order_of_the_file_changes_nothing(case: str) -> None:
    people = census()
    one, other = protected(people, CASES[case]), protected(people.sort_by("person"), CASES[case])
    assert len(pairs(one)) > 5
    assert pairs(one) == pairs(other)
    assert values(one.frame) == values(other.frame)
    ours, theirs = (rounded(done.summary.to_dict()["swap"]) for done in (one, other))
    assert ours == theirs


@pytest.mark.parametrize("case", ["places of households", "like weights"])
def test_files_and_parts_give_what_a_frame_gives(case: str, tmp_path: Path) -> None:
    people = census()
    (tmp_path / "parts").mkdir()
    pyarrow.csv.write_csv(people, tmp_path / "people.csv")
    for number, start in enumerate((0, 300)):
        pq.write_table(people.slice(start, 300 if not start else None), tmp_path / "parts" / f"{number}.parquet")
    expected = protected(people, CASES[case])
    for place in (tmp_path / "people.csv", tmp_path / "parts"):
        done = protected(place, CASES[case])
        assert pairs(done) == pairs(expected)
        assert values(done.frame) == values(expected.frame)


@pytest.mark.spark
@pytest.mark.slow
def test_spark_gives_what_a_frame_gives(spark: Any, tmp_path: Path) -> None:
    """Places, what travels, weights, households and analyses in one run; then a second release beside the first."""
    people = census()
    options = {**CASES["places of households"], "weight": "weight", "analysis": CASES["analyses"]["analysis"]}
    later = {**ORDINARY, "weight": "weight", "within": ["region"]}
    found = {}
    for name, data in {"memory": people, "spark": spark.createDataFrame(people).repartition(3)}.items():
        first = protected(data, options, out=tmp_path / name)
        second = protected(data, later, released=tmp_path / name)
        risk = pq.read_table(tmp_path / name / "risk.parquet").to_pylist()
        ids = people["person"].to_pylist()
        by_id = {ids[row["record"]] if name == "memory" else row["record"]: row["household_probability"] for row in risk}
        found[name] = (first, second, by_id)
    for ours, theirs in zip(found["spark"][:2], found["memory"][:2], strict=True):
        assert pairs(ours) == pairs(theirs)
        assert values(ours.frame) == values(theirs.frame)
        assert rounded(ours.summary.to_dict()["swap"]) == rounded(theirs.summary.to_dict()["swap"])
    assert found["spark"][0].summary.swap.analyses
    assert found["spark"][1].summary.swap.earlier.differing > 0
    assert found["spark"][2] == pytest.approx(found["memory"][2])


@pytest.mark.spark
@pytest.mark.slow
def test_records_on_spark_need_ids_and_room(spark: Any) -> None:
    people = census()
    frame = spark.createDataFrame(people.append_column("same", pa.array(["a"] * people.num_rows)))
    with pytest.raises(BadInput, match="a column that names each record"):
        rc.assess(frame, keys=["age", "sex"], household="household", **SIMPLE)
    with pytest.raises(BadInput, match="has a value twice"):
        rc.assess(frame, keys=["age", "sex"], household="household", id="same", **SIMPLE)
    people_by_id = Microdata(frame, keys=["age", "sex"], household="household", id="person")
    refuse_without_positions(people_by_id, None, MemoryLimit(10**9))
    with pytest.raises(TooLarge, match="looks at single records"):
        refuse_without_positions(people_by_id, None, MemoryLimit(10**5))


@pytest.mark.parametrize("in_memory", [True, False])
def test_analyses_of_a_large_file_read_a_sample(in_memory: bool, tmp_path: Path) -> None:
    people = census()
    pq.write_table(people, tmp_path / "people.parquet")
    options = {**ORDINARY, "top": 100, "analysis": {"ages": {"table": "town, age"}}, "weight": "weight", "weight_classes": 0}
    whole = protected(tmp_path / "people.parquet", options)
    large = LargeFile(tmp_path / "people.parquet", settings=EngineSettings())
    done = whole if in_memory else protected(large, options)
    assert (done.assessment.table.record_cell is not None) == in_memory
    assert pairs(done) == pairs(whole)
    rows = np.sort(np.random.default_rng(4).choice(people.num_rows, 300, replace=False))
    told = compared_analyses(done.assessment, done.release, most_records=300)[0]
    assert told.records == 300
    for frame, side in ((people, "before"), (done.frame, "after")):
        part = frame.take(pa.array(rows)).select(["town", "age", "weight"]).to_pylist()
        for term in told.terms:
            town, age = term.name.split(", ")
            total = sum(one["weight"] for one in part if (one["town"], str(one["age"])) == (town, age))
            assert getattr(term, side) == pytest.approx(total, rel=1e-6)
    assert any(term.before != term.after for term in told.terms)
