"""What the other options of a protection mean where records change places: each is heeded, or refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rarecell as rc
from rarecell.errors import BadInput
from rarecell.release.utility import weight_classes
from tests.test_run_roles import SIMPLE
from tests.test_run_roles_protect import _counted, _households

RNG = np.random.default_rng(12)
PEOPLE = _households()
WEIGHT = np.round(1.0 + RNG.lognormal(1.5, 0.6, PEOPLE.num_rows), 2)
PEOPLE = PEOPLE.append_column("weight", pa.array(WEIGHT))
PLACES: dict[str, Any] = {
    "keys": ["age", "sex", "town"],
    "geography": "region>town",
    "swap_rate": 0.2,
    "risk_above": 0.05,
    "swap_seed": 3,
    "model": "single",
    "resolution": "full",
    # Persons move without the others of their household, whose number stays, and nobody knows who lives with whom.
    "households_known": "no",
    "accept_leak": ["household"],
}
POPULATION = {"population": 4_000}


def test_partners_have_like_weights_unless_any_will_do() -> None:
    alike, any_weight = (rc.protect(PEOPLE, weight="weight", **more, **PLACES) for more in ({}, {"weight_classes": 0}))
    classes = weight_classes(WEIGHT, 10)
    plan = alike.plan
    assert len(plan)
    assert (classes[plan.records] == classes[plan.partners]).all()
    assert (classes[any_weight.plan.records] != classes[any_weight.plan.partners]).any()
    # The weighted totals of towns, counted from the files, are told as changed, and less so between records of like weight.
    moved = []
    for done in (alike, any_weight):
        totals = [
            np.array([WEIGHT[np.array(table["town"]) == town].sum() for town in sorted(set(PEOPLE["town"].to_pylist()))])
            for table in (PEOPLE, done.frame)
        ]
        told = next(one for one in done.summary.swap.weighted if one.variables == ("town",))
        assert told.moved == pytest.approx(np.abs(totals[1] - totals[0]).sum() / 2 / WEIGHT.sum())
        moved.append(told.moved)
    assert moved[0] < moved[1]


def test_partners_agree_on_what_swaps_stay_within() -> None:
    done = rc.protect(PEOPLE, within=["pets", "sex"], **POPULATION, **PLACES)
    for name in ("pets", "sex"):
        values = np.array(PEOPLE[name])
        assert (values[done.plan.records] == values[done.plan.partners]).all()
    assert _counted(done.frame, ("town", "pets", "sex")) == _counted(PEOPLE, ("town", "pets", "sex"))


def test_whom_nothing_may_touch_stays() -> None:
    done = rc.protect(PEOPLE, untouched=[{"pets": 1}, {"age": "<2", "sex": 0}], **POPULATION, **PLACES)
    changed = np.array(done.frame["town"]) != np.array(PEOPLE["town"])
    pets, age, sex = (np.array(PEOPLE[name]) for name in ("pets", "age", "sex"))
    out = (pets == 1) | ((age < 2) & (sex == 0))
    assert changed.any()
    assert not changed[out].any()


@pytest.mark.parametrize("seed", range(3))
def test_several_intruders_and_places(seed: int) -> None:
    scenario = {"neighbour": {"keys": ["age", "town"]}, "colleague": {"keys": ["sex", "town"]}}
    done = rc.protect(PEOPLE, scenario=scenario, keep=[["town", "age"]], **SIMPLE, **{**_without_simple(), "swap_seed": seed})
    assert done.summary.swap is not None
    assert done.summary.swap.margins_identical
    assert _counted(done.frame, ("town", "age")) == _counted(PEOPLE, ("town", "age"))


def _without_simple() -> dict[str, Any]:
    return {name: value for name, value in PLACES.items() if name not in SIMPLE}


def test_records_that_were_dropped_stay() -> None:
    age = [None if row % 9 == 0 else value for row, value in enumerate(PEOPLE["age"].to_pylist())]
    people = PEOPLE.set_column(PEOPLE.column_names.index("age"), "age", pa.array(age))
    done = rc.protect(people, missing="drop", **POPULATION, **PLACES)
    changed = np.array(done.frame["town"]) != np.array(people["town"])
    assert changed.any()
    assert not changed[[row for row, value in enumerate(age) if value is None]].any()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rules": [{"age": 1, "sex": 0}]}, "'rules' has no effect"),
        ({"distances": {"age": "nominal"}}, "'distances' has no effect"),
        ({"weights": {"age": 2.0}}, "'weights' has no effect"),
        ({"decoys": 0.5}, "'decoys' has no effect"),
        ({"never_swap": ["town"]}, "'town' is never to be swapped"),
        ({"within": ["town"]}, "which is what they exchange"),
    ],
)
def test_what_plays_no_part_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        rc.protect(PEOPLE, **POPULATION, **PLACES, **options)


def test_a_combination_that_looks_impossible_is_told() -> None:
    """Only people of the first town are of age 0; a swap takes some of them elsewhere."""
    town = np.array(PEOPLE["town"])
    age = np.where(town == town[0], 0, np.array(PEOPLE["age"]) % 4 + 1)
    people = PEOPLE.set_column(PEOPLE.column_names.index("age"), "age", pa.array(age))
    done = rc.protect(people, **POPULATION, **PLACES)
    assert done.summary.swap is not None
    assert done.summary.swap.places is not None
    after = set(_counted(done.frame, ("town", "age"))) - set(_counted(people, ("town", "age")))
    assert any(age == 0 for _, age in after)
    assert "looks impossible" in done.summary.swap.places.sentence


def test_groups_by_area_are_those_of_the_released_file() -> None:
    done = rc.protect(PEOPLE, **POPULATION, **PLACES)
    after = Counter(done.frame["region"].to_pylist())
    groups = [group for group in done.summary.groups if group.key == "region"]
    assert {group.level: group.records_after for group in groups} == dict(after)
    risk = {group.level: group.expected_population_uniques_after for group in groups}
    of_towns: Counter[str] = Counter()
    region_of = dict(zip(PEOPLE["town"].to_pylist(), PEOPLE["region"].to_pylist(), strict=True))
    for group in done.summary.groups:
        if group.key == "town":
            of_towns[region_of[group.level]] += group.expected_population_uniques_after
    assert risk == pytest.approx(dict(of_towns))


def test_whoever_is_alone_in_the_register_changes_places() -> None:
    """An estimate that nobody is at risk does not keep them where they are."""
    more = {**PLACES, "risk_above": 0.99, "swap_rate": 0.0, "model": "independence"}
    known = ("age", "sex", "pets", "hhsize", "town")
    more["keys"] = list(known)
    file = PEOPLE.select(known)
    register = pa.concat_tables([file] + [file.slice(0, 300)] * 5)
    done = rc.protect(PEOPLE, register=register, population=register.num_rows, **more)
    people = _counted(register, known)
    rows = zip(*(PEOPLE[name].to_pylist() for name in known), strict=True)
    alone = {row for row, values in enumerate(rows) if people[values] == 1}
    assert alone
    assert alone <= set(done.plan.requested.tolist())


def _half_without_a_district() -> pa.Table:
    """Households of three regions; in half of them the district is missing."""
    rng = np.random.default_rng(315)
    household = np.repeat(np.arange(60), rng.integers(1, 4, 60))
    region = rng.integers(0, 3, 60)[household]
    district = rng.integers(0, 4, 60)[household] + 10 * region
    people = {"household": household, "region": region.astype(str), "age": rng.integers(0, 6, len(household))}
    known = [None if number % 2 else area for number, area in zip(household.tolist(), district.tolist(), strict=True)]
    return pa.table({**people, "district": pa.array(known), "sex": rng.choice(["f", "m"], len(household))})


DISTRICTS: dict[str, Any] = {
    "keys": ["age", "sex", "district"],
    "swap_rate": 0.3,
    "risk_above": 0.05,
    "household": "household",
    "households": True,
    "households_known": "no",
    "model": "single",
    "accept_leak": ["region", "household"],
}


def test_two_households_without_an_area_have_nothing_to_exchange() -> None:
    """They lie in different regions, but the released key would be missing as it was, so neither would be protected."""
    people = _half_without_a_district()
    similar = [["age"], ["sex"], []]
    done = rc.protect(people, geography="region>district", similar=similar, population=2 * people.num_rows, **DISTRICTS)
    assert len(done.plan) > 20
    assert all(done.plan.to_frame(like=people)["variables"].to_pylist())


def test_kept_tables_are_counted_without_records_that_are_dropped() -> None:
    people = _half_without_a_district()
    grouped = {"recode": {"district": "3 groups"}, "missing": "drop", "keep": [["district", "sex"]]}
    done = rc.protect(people, geography="district", population=20 * people.num_rows, **grouped, **DISTRICTS)
    assert len(done.plan)
    assert [margin.cells for margin in done.summary.swap.margins if margin.variables == ("district", "sex")] == [6]
