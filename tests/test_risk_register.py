"""Exact population counts from a register: against a join by hand, on every kind of source."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell import datasets
from rarecell.errors import BadInput, RarecellError
from rarecell.risk.register import register_counts


def _joined_by_hand(sample: pa.Table, register: pa.Table, keys: list[str], table: rc.ContingencyTable) -> list[int]:
    people = Counter(zip(*(register.column(key).to_pylist() for key in keys), strict=True))
    levels = [c.levels for c in table.categories]
    return [people[tuple(levels[k][code] for k, code in enumerate(cell))] for cell in table.cells.tolist()]


@st.composite
def _sample_and_register(draw: st.DrawFn) -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_people = draw(st.integers(4, 60))
    words: list[Any] = ["a", "b", "c", None]
    people = {
        "age": rng.integers(20, 26, n_people).tolist(),
        "job": [words[w] for w in rng.integers(0, 4, n_people)],
        "sex": rng.integers(0, 2, n_people).tolist(),
    }
    register = pa.table(people)
    chosen = rng.permutation(n_people)[: max(3, n_people // 3)]
    return register.take(pa.array(chosen)), register


@settings(max_examples=60, deadline=None)
@given(_sample_and_register())
def test_counts_equal_a_join_by_hand(given_tables: tuple[pa.Table, pa.Table]) -> None:
    sample, register = given_tables
    keys = ["age", "job", "sex"]
    try:
        data = rc.Microdata(sample, keys=keys)
        table = data.table()
    except BadInput:  # a key of one value only
        return
    found = register_counts(data, register)
    assert found.in_register.tolist() == _joined_by_hand(sample, register, keys, table)
    assert found.n_register == register.num_rows
    # Everybody of the sample is in the register, so nothing is not covered and F is never below f.
    assert found.n_not_covered == 0
    assert (found.in_register >= table.counts).all()
    alone = table.counts == 1
    assert found.population_uniques == int((found.in_register[alone] == 1).sum())
    assert found.correct_matches == pytest.approx(sum(1 / f for f in found.in_register[alone]))


@pytest.mark.parametrize("kind", ["pyarrow", "pandas", "polars", "lazy polars", "duckdb", "parquet", "csv"])
def test_every_kind_of_source_counts_the_same(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    jobs = np.array(["cook", "smith", "clerk"])
    register = pa.table({"age": rng.integers(18, 60, 3000), "job": jobs[rng.integers(0, 3, 3000)]})
    sample = register.slice(0, 200)
    data = rc.Microdata(sample, keys=["age", "job"])
    expected = _joined_by_hand(sample, register, ["age", "job"], data.table())
    given_as: Any = {
        "pyarrow": lambda: register,
        "pandas": lambda: register.to_pandas(),
        "polars": lambda: pl.from_arrow(register),
        "lazy polars": lambda: pl.from_arrow(register).lazy(),
        "duckdb": lambda: duckdb.from_arrow(register),
        "parquet": lambda: pq.write_table(register, tmp_path / "r.parquet") or tmp_path / "r.parquet",
        "csv": lambda: pyarrow.csv.write_csv(register, tmp_path / "r.csv") or tmp_path / "r.csv",
    }[kind]()
    assert register_counts(data, given_as).in_register.tolist() == expected


@pytest.mark.parametrize(
    ("coding", "band_of"),
    [
        ({"width": 10}, lambda age: age // 10),
        ({"edges": [25, 40]}, lambda age: (age >= 25) + (age >= 40)),
        ({"top": 50, "bottom": 20}, lambda age: min(max(age, 20), 50)),
    ],
)
def test_a_key_in_bands_counts_ages_that_the_file_lacks(coding: dict[str, Any], band_of: Any) -> None:
    rng = np.random.default_rng(7)
    register = pa.table({"age": rng.integers(15, 65, 800), "sex": rng.integers(0, 2, 800)})
    sample = register.slice(0, 12)
    data = rc.Microdata(sample, keys=["age", "sex"], coding={"age": coding})
    found = register_counts(data, register)
    people = Counter((band_of(a), s) for a, s in zip(*(register.column(k).to_pylist() for k in ("age", "sex")), strict=True))
    cells = data.table().cell_of(np.arange(12))
    for row, (age, sex) in enumerate(zip(*(sample.column(k).to_pylist() for k in ("age", "sex")), strict=True)):
        assert found.in_register[cells[row]] == people[band_of(age), sex]


def test_fewer_keys_are_counted_too() -> None:
    register = datasets.census_population()
    data = rc.Microdata(datasets.census_sample(), keys=datasets.CENSUS_KEYS)
    keys = ["sex", "age", "marital"]
    table = data.table().project(keys)
    found = register_counts(data, register, table=table)
    assert found.in_register.tolist() == _joined_by_hand(datasets.census_sample(), register, keys, table)


def test_the_census_sample_against_its_population() -> None:
    data = rc.Microdata(datasets.census_sample(), keys=datasets.CENSUS_KEYS)
    table = data.table()
    found = register_counts(data, datasets.census_population())
    assert found.n_register == datasets.CENSUS_POPULATION
    assert found.n_not_covered == 0
    model = rc.DecomposableModel(table, cliques=[(key,) for key in table.keys])
    risk = rc.record_risk(table, model, population=datasets.CENSUS_POPULATION)
    bands = found.calibration(risk)
    assert sum(band.records for band in bands) == risk.n_sample_uniques
    assert sum(band.records * band.true for band in bands) == pytest.approx(found.population_uniques)
    assert sum(band.records * band.estimated for band in bands) == pytest.approx(risk.expected_population_uniques)
    assert all(band.low <= band.estimated <= band.high for band in bands)


def test_records_that_the_register_lacks_do_not_look_safe() -> None:
    data = rc.Microdata(pa.table({"age": [30, 30, 40], "sex": ["f", "f", "m"]}), keys=["age", "sex"])
    found = register_counts(data, pa.table({"age": [30, 41], "sex": ["f", "m"]}))
    assert found.in_register.tolist() == [1, 0]
    assert found.population_count.tolist() == [2, 1]
    assert (found.n_not_covered, found.population_uniques) == (2, 1)
    assert "does not cover 2 records" in str(found)


@pytest.mark.parametrize(
    ("register", "said"),
    [
        ({"age": [30]}, "column of the register 'sex'"),
        ({"age": [30], "sex": ["female"]}, "No value of key 'sex'"),
    ],
)
def test_a_register_that_does_not_fit_is_refused(register: dict[str, Any], said: str) -> None:
    data = rc.Microdata(pa.table({"age": [30, 40], "sex": ["f", "m"]}), keys=["age", "sex"])
    with pytest.raises(RarecellError, match=said):
        register_counts(data, pa.table(register))


def test_quantiles_of_the_file_are_refused() -> None:
    people = pa.table({"age": [30, 40, 50, 60], "sex": ["f", "m", "f", "m"]})
    data = rc.Microdata(people, keys=["age", "sex"], coding={"age": {"quantiles": 2}})
    with pytest.raises(BadInput, match="edges or a width"):
        register_counts(data, people)
