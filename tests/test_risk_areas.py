"""Risk at every level of nested areas equals runs on files released so."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.data.names import nested_areas
from rarecell.errors import BadInput, RarecellError
from rarecell.outcome.roles import AreaLevelSummary
from rarecell.risk.areas import area_levels, check_nesting, finest_safe, released_with

AREAS = ("region", "district", "town")


def _independence(table: rc.ContingencyTable) -> rc.RecordRisk:
    return rc.record_risk(table, rc.DecomposableModel(table, cliques=[(key,) for key in table.keys]), population=5_000)


def _people(seed: int, n_records: int, n_towns: int = 8) -> pa.Table:
    rng = np.random.default_rng(seed)
    # Town t lies in district t // 2, and that in region t // 4; towns are of very different sizes.
    town = np.minimum(rng.geometric(0.35, n_records) - 1, n_towns - 1)
    return pa.table(
        {
            "age": rng.integers(20, 30, n_records),
            "sex": np.array(["f", "m"])[rng.integers(0, 2, n_records)],
            "region": np.char.add("r", (town // 4).astype(str)),
            "district": np.char.add("d", (town // 2).astype(str)),
            "town": np.char.add("t", town.astype(str)),
        }
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(40, 200))
def test_every_level_equals_a_file_released_so(seed: int, n_records: int) -> None:
    people = _people(seed, n_records)
    try:
        table = rc.Microdata(people, keys=["age", "town", "sex", "region", "district"]).table()
    except BadInput:  # all in one region
        return
    levels = area_levels(table, AREAS, risk_of=_independence, threshold=0.9)
    for level, column in zip(levels, ("", *AREAS), strict=True):
        released = rc.Microdata(people, keys=["age", "sex", *([column] if column else [])]).table()
        alone = _independence(released)
        assert level.column == column
        assert level.sample_uniques == alone.n_sample_uniques
        assert level.expected_population_uniques == pytest.approx(alone.expected_population_uniques)
        assert level.expected_correct_matches == pytest.approx(alone.expected_correct_matches)
        assert level.above_threshold == int((alone.unique_probability >= 0.9).sum())
        if not column:
            assert level.areas == ()
            continue
        of_area = {area.area: area for area in level.areas}
        names = np.array(people.column(column).to_pylist())
        per_record = alone.per_record()
        for name in np.unique(names):
            here = names == name
            assert of_area[name].records == int(here.sum())
            assert of_area[name].sample_uniques == int((per_record["cell_count"][here] == 1).sum())
            assert of_area[name].expected_population_uniques == pytest.approx(per_record["unique_probability"][here].sum())
        assert sum(area.expected_correct_matches for area in level.areas) == pytest.approx(level.expected_correct_matches)
        ranked = [area.expected_population_uniques for area in level.areas]
        assert ranked == sorted(ranked, reverse=True)


def test_records_keep_their_cells() -> None:
    people = _people(1, 60)
    table = rc.Microdata(people, keys=["age", "sex", *AREAS]).table()
    released = released_with(table, AREAS, 1)
    labels = np.array(released.categories[-1].labels)
    assert labels[released.cells[released.cell_of(np.arange(60)), -1]].tolist() == people.column("district").to_pylist()


def test_an_area_in_two_coarser_ones_is_named() -> None:
    people = pa.table({"region": ["r1", "r1", "r2", "r2"], "town": ["a", "b", "b", "c"], "sex": ["f", "m", "f", "m"]})
    table = rc.Microdata(people, keys=["sex", "region", "town"]).table()
    with pytest.raises(BadInput, match=r"town 'b' lies in region 'r1' and in 'r2'"):
        check_nesting(table, ["region", "town"])


def test_a_missing_town_is_a_place_within_its_region() -> None:
    people = pa.table({"region": ["r1", "r1", "r2", "r2"], "town": ["a", None, None, "c"], "sex": ["f", "m", "f", "m"]})
    table = rc.Microdata(people, keys=["sex", "region", "town"]).table()
    check_nesting(table, ["region", "town"])
    released = released_with(table, ["region", "town"], 1)
    assert set(released.categories[-1].labels) == {"a", "c", "missing in r1", "missing in r2"}
    # Nobody gains company by the missing name of a town: the regions still differ.
    assert released.n_cells == 4


def test_small_areas_that_drive_the_risk_are_named() -> None:
    rng = np.random.default_rng(2)
    town = np.repeat(["big", "small"], [2000, 30])
    people = pa.table({"age": rng.integers(20, 60, 2030), "sex": rng.integers(0, 2, 2030), "town": town})
    (_, level) = area_levels(rc.Microdata(people, keys=["age", "sex", "town"]).table(), ["town"], risk_of=_independence)
    assert level.drivers == ("small",)


@pytest.mark.parametrize(
    ("above", "safe"), [((0, 0, 3, 9), "region"), ((0, 0, 0, 0), "town"), ((1, 0, 0, 0), None), ((0, 2, 0, 5), "")]
)
def test_the_finest_safe_level_has_no_unsafe_one_above_it(above: tuple[int, ...], safe: str | None) -> None:
    levels = [
        AreaLevelSummary(
            column=name, sample_uniques=0, expected_population_uniques=0.0, expected_correct_matches=0.0, above_threshold=n
        )
        for name, n in zip(("", *AREAS), above, strict=True)
    ]
    found = finest_safe(levels)
    assert (None if found is None else found.column) == safe


def test_the_words_for_nested_areas() -> None:
    assert nested_areas("region > district>town") == ("region", "district", "town")
    assert nested_areas("region") == ("region",)
    for wrong in ("region>>town", "", "town>town"):
        with pytest.raises(BadInput):
            nested_areas(wrong)
    table = rc.Microdata(_people(3, 50), keys=["age", "region"]).table()
    with pytest.raises(RarecellError, match="no area 'town'"):
        check_nesting(table, ["region", "town"])
