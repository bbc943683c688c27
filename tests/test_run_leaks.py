"""Columns beside the keys that undo a protection stop a run, and are reported for files of other tools."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import rarecell as rc
from rarecell.data.microdata import Microdata
from rarecell.data.whole_file import ordered_codes
from rarecell.engine.arrays import code_chunk, unified
from rarecell.engine.source import Column
from rarecell.errors import UnknownColumns
from rarecell.run.beside_keys import ColumnsGiveKeysAway, LeakSearch, leaks_between, refuse_leaks


def survey(n: int = 1_500, seed: int = 0) -> pa.Table:
    """Persons in households, with age and household size in more columns than one."""
    rng = np.random.default_rng(seed)
    sizes = np.minimum(1 + rng.poisson(2.2, n), 11)
    household = np.repeat(np.arange(n), sizes)[:n]
    age, region = rng.integers(0, 88, n), rng.integers(0, 9, n)
    birth = [
        datetime.date(2_023 - a, m, d)
        for a, m, d in zip(age.tolist(), rng.integers(1, 13, n).tolist(), rng.integers(1, 29, n).tolist(), strict=True)
    ]
    return pa.table(
        {
            "person": np.arange(n),
            "hh": 1_000 + household,
            "age": age,
            "size": np.bincount(household)[household],
            "region": region,
            "sex": rng.integers(1, 3, n),
            "born": birth,
            "birth_year": 2_023 - age - (rng.random(n) < 0.3),
            "district": [f"{r}-{d}" for r, d in zip(region, rng.integers(0, 20, n), strict=True)],
            "pay": np.round(rng.lognormal(8, 0.7, n), 2),
        }
    )


KEYS = ["age", "size", "region", "sex"]


def search(data: object, **coding: str) -> LeakSearch:
    given = Microdata(data, keys=KEYS, household="hh", id="person", coding=coding)
    return LeakSearch.of(given, given.table(records=True))


@pytest.mark.parametrize("as_file", [False, True])
def test_recoded_keys_are_restored_by_columns_beside_them(tmp_path: Path, as_file: bool) -> None:
    table = survey()
    if as_file:
        csv.write_csv(table, tmp_path / "survey.csv")
    looked = search(tmp_path / "survey.csv" if as_file else table, age="5-year bands", size="top 6")
    found = {leak.columns: leak for leak in looked.of_recodings if leak.restores}
    assert set(found) == {("hh",), ("born",), ("birth_year",)}
    assert found["born",].how == "order"
    assert found["hh",].how == "rows counted"
    assert looked.derived_recoding(found["birth_year",]).startswith("edges 1939 1944")
    assert looked.derived_recoding(found["born",]) is None
    with pytest.raises(ColumnsGiveKeysAway, match="3 columns or sets of columns give away") as problem:
        refuse_leaks(tuple(found.values()), (), looked)
    assert '--treat "birth_year=edges' in str(problem.value)
    assert "--accept-leak hh" in str(problem.value)
    refuse_leaks(tuple(found.values()), ("hh", "born", "birth_year"), looked)


def test_a_column_that_travels_with_a_swapped_key_does_not_give_it_away() -> None:
    looked = search(survey())
    assert [leak.columns for leak in looked.of_moved({"region": 20}, {}, {}) if leak.restores] == [("district",)]
    assert not [leak for leak in looked.of_moved({"region": 20}, {}, {"district": ["region"]}) if leak.restores]
    assert [leak.by for leak in looked.of_moved({}, {"region": 3}, {}) if leak.restores] == ["blanked"]
    assert looked.of_moved({"region": 0}, {}, {}) == ()


def test_the_recoding_that_is_offered_leaves_nothing_to_be_told() -> None:
    table = survey()
    looked = search(table, age="5-year bands")
    leak = next(leak for leak in looked.of_recodings if leak.columns == ("birth_year",))
    edges = [int(edge) for edge in looked.derived_recoding(leak).split()[1:]]
    coarse = np.searchsorted(edges, table["birth_year"].to_numpy(), side="right")
    again = search(table.set_column(7, "birth_year", pa.array(coarse)), age="5-year bands")
    assert ("birth_year",) not in {leak.columns for leak in again.of_recodings if leak.restores}


def test_dates_numbers_and_words_are_ordered_by_what_they_mean() -> None:
    def codes(values: list[object], kind: str = "untyped", **options: object) -> list[int]:
        return ordered_codes(unified([code_chunk(pa.array(values))]), Column("x", kind, **options)).codes.tolist()

    assert codes(["10", "9", "", None, "-1.5"]) == [2, 1, -1, -1, 0]
    assert codes(["03.02.2001", "04.01.2001", "01.01.1999"]) == [2, 1, 0]
    assert codes(["2001-02-03", "1999-12-31", "2001-02-03 11:00"]) == [1, 0, 1]
    assert codes(["b", "a", "10", None]) == [2, 1, 0, -1]
    assert codes([3.0, float("nan"), -1.0], "number") == [1, -1, 0]
    assert codes([98, 3, 99], "integer", user_missing=(99,)) == [1, 0, -1]


def test_an_attack_names_the_columns_that_undo_a_release_of_another_tool() -> None:
    original = survey(800)
    age = original["age"].to_numpy()
    region = original["region"].to_numpy().copy()
    region[:40] = (region[:40] + 1) % 9
    released = original.set_column(2, "age", pa.array([f"{5 * (a // 5)}–{5 * (a // 5) + 4}" for a in age]))
    released = released.set_column(4, "region", pa.array(region))
    mixed = np.random.default_rng(1).permutation(800)
    done = rc.attack(
        released.take(pa.array(mixed)), original=original, keys=["age", "region", "sex"], population=40_000, id="person"
    )
    told = {(one.column, one.key, one.treated) for one in done.summary.leaks if one.restores}
    assert told == {("born", "age", "recoded"), ("birth_year", "age", "recoded"), ("district", "region", "swapped")}
    assert "'district' tells" in next(one.sentence for one in done.summary.leaks if one.column == "district")


def test_a_file_sorted_by_a_key_shows_what_was_swapped() -> None:
    table = survey(2_000).sort_by("region")
    region = table["region"].to_numpy().copy()
    region[[3, 500, 1_200]] = [7, 8, 0]
    released = Microdata(table.set_column(4, "region", pa.array(region)), keys=["region"])
    found = leaks_between(Microdata(table, keys=["region"]), released)
    assert ("the order of the records",) in {leak.columns for leak in found if leak.restores}


ASKED = {"keys": KEYS, "population": 60_000, "household": "hh", "id": "person", "top": 5}


def test_a_run_stops_before_it_releases_what_a_recoding_conceals(tmp_path: Path) -> None:
    table, recode = survey(1_500), {"age": "5-year bands", "size": "top 6"}
    with pytest.raises(ColumnsGiveKeysAway, match="'birth_year' tells"):
        rc.protect(table, recode=recode, out=tmp_path / "run", **ASKED)
    assert not (tmp_path / "run").exists()
    accepted = ["hh", "born", "birth_year"]
    done = rc.protect(table, recode=recode, accept_leak=accepted, **ASKED)
    told = {(one.column, one.key): one for one in done.summary.release.leaks}
    assert {key for key, one in told.items() if one.accepted} >= {("hh", "size"), ("born", "age"), ("birth_year", "age")}
    assert done.summary.release.identifiers == "renumbered"
    assert done.summary.to_dict()["release"]["leaks"][0]["determines"] >= 0.5


def test_a_run_stops_where_a_column_shows_what_was_swapped() -> None:
    rng = np.random.default_rng(5)
    n = 900
    region = rng.integers(0, 12, n)
    district = np.where(rng.random(n) < 0.01, rng.integers(0, 120, n), region * 10 + rng.integers(0, 10, n))
    table = pa.table({"region": region, "age": rng.integers(0, 90, n), "sex": rng.integers(0, 2, n), "district": district})
    asked = {"keys": ["region", "age", "sex"], "population": 30_000, "top": 60, "seed": 1, "never_swap": ["age", "sex"]}
    with pytest.raises(ColumnsGiveKeysAway, match="carry='district'"):
        rc.protect(table, **asked)
    carried = rc.protect(table, carry=["district"], **asked)
    assert not [one for one in carried.summary.release.leaks if one.key == "region" and one.restores]
    assert [
        one.accepted for one in rc.protect(table, accept_leak=["district"], **asked).summary.release.leaks if one.restores
    ] == [True]


def test_a_column_that_is_let_travel_does_not_contradict_a_key_that_stayed() -> None:
    rng = np.random.default_rng(5)
    region = rng.integers(0, 12, 900)
    district = np.where(rng.random(900) < 0.01, rng.integers(0, 120, 900), region * 10 + rng.integers(0, 10, 900))
    table = pa.table({"region": region, "age": rng.integers(0, 90, 900), "sex": rng.integers(0, 2, 900), "district": district})
    done = rc.protect(table, keys=["region", "age", "sex"], population=30_000, top=60, seed=1, carry=["district"])
    assert done.release.moves("age").any()
    contradictions = [int((np.array(file["district"]) // 10 != np.array(file["region"])).sum()) for file in (table, done.frame)]
    assert not done.release.moves("region").any()
    assert contradictions[1] == contradictions[0] < 20
    assert done.summary.swap.carried == ()


def test_an_accepted_column_must_exist() -> None:
    with pytest.raises(UnknownColumns, match="birthyear"):
        rc.protect(survey(300), accept_leak=["birthyear"], **ASKED)


def test_a_measurement_as_a_key_stops_with_the_bands_that_would_do() -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"bmi": np.round(rng.normal(26, 5, 500), 1), "sex": rng.integers(0, 2, 500)})
    options = {"keys": ["bmi", "sex"], "population": 90_000, "model": "single", "resolution": "full"}
    with pytest.raises(rc.RarecellError, match=r"recode={'bmi': 'bands of 5'} or recode={'bmi': 'bands of 2'}"):
        rc.assess(table, **options)
    assert rc.assess(table, recode={"bmi": "bands of 5"}, **options).summary.keys[0].levels < 12
    assert rc.assess(table, recode={"bmi": "as it is"}, **options).summary.keys[0].levels > 100
