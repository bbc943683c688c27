"""Strata as a column, as a key, and as a key that is released in a recoded form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell import datasets
from rarecell.data import microdata
from rarecell.errors import BadInput
from rarecell.risk.design import evenly_taken
from rarecell.run.config import RunConfig
from rarecell.run.models import with_design_weights

KEYS = ["age", "sex", "marital", "relationship"]


@pytest.fixture(scope="module")
def sample() -> pa.Table:
    """A sample in which small groups of marital status are drawn more often, and its copy of that column."""
    population = datasets.census_population()
    rng = np.random.default_rng(3)
    group = np.array(population["marital"])
    chance = 0.3 / np.sqrt(np.bincount(group))[group] * 10
    drawn = population.take(np.flatnonzero(rng.random(len(group)) < chance))
    return drawn.append_column("stratum", drawn["marital"])


@pytest.fixture(scope="module")
def sizes() -> dict[str, int]:
    levels, numbers = np.unique(np.array(datasets.census_population()["marital"]), return_counts=True)
    return dict(zip(map(str, levels.tolist()), numbers.tolist(), strict=True))


def assessed(sample: pa.Table, sizes: dict[str, int], **options: Any) -> rc.Assessment:
    return rc.assess(sample, keys=KEYS, populations=sizes, model="single", **options)


def test_a_key_that_is_recoded_is_still_the_stratum(sample: pa.Table, sizes: dict[str, int]) -> None:
    """As if the stratum were a column of its own beside the recoded key."""
    recode = {"marital": "merge 1+2+3 as other"}
    as_key = assessed(sample, sizes, strata="marital", recode=recode)
    as_column = assessed(sample, sizes, strata="stratum", recode=recode)
    assert [key.levels for key in as_key.summary.keys if key.name == "marital"] == [3]
    np.testing.assert_array_equal(as_key.table.weights, as_column.table.weights)
    assert as_key.summary.risk.expected_population_uniques == as_column.summary.risk.expected_population_uniques
    assert as_key.summary.population == sum(sizes.values())


def test_weights_of_strata_are_the_same_when_records_are_not_held(sample: pa.Table, sizes: dict[str, int]) -> None:
    config = RunConfig(input="", keys=tuple(KEYS), strata="stratum", populations=sizes)
    data = rc.Microdata(sample, KEYS, strata="stratum")
    assert data.table(records=False).record_cell is None
    expected = with_design_weights(data, data.table(records=True), config)
    np.testing.assert_allclose(with_design_weights(data, data.table(records=False), config).weights, expected.weights)
    assert expected.weights.sum() == pytest.approx(sum(sizes.values()))


def test_a_run_holds_its_records_where_strata_need_them(
    sample: pa.Table, sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(microdata, "CODES_IN_MEMORY", 0)
    found = assessed(sample, sizes, strata="marital", recode={"marital": "merge 1+2+3 as other"})
    assert found.table.record_cell is not None
    assert assessed(sample, sizes, strata="marital").table.record_cell is None


def test_a_recoded_stratum_that_cannot_be_told_apart_is_refused(sample: pa.Table, sizes: dict[str, int]) -> None:
    config = RunConfig(input="", keys=tuple(KEYS), strata="marital", populations=sizes)
    data = rc.Microdata(sample, KEYS, strata="marital", coding={"marital": {"merge": {"other": [1, 2, 3]}}})
    assert with_design_weights(data, data.table(records=True), config).weights.sum() == pytest.approx(sum(sizes.values()))
    with pytest.raises(BadInput, match="a column of their own"):
        with_design_weights(data, data.table(records=False), config)


def test_a_population_other_than_that_of_the_strata_is_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(BadInput, match="the strata add up to 277,677"):
        RunConfig(input="x.csv", keys=("marital",), strata="marital", populations=sizes, population=300_000)
    RunConfig(input="x.csv", keys=("marital",), strata="marital", populations=sizes, population=277_677)


def test_a_stratum_without_a_size_is_named(sample: pa.Table, sizes: dict[str, int]) -> None:
    for strata in ("marital", "stratum"):
        with pytest.raises(BadInput, match="stratum '3'"):
            assessed(sample, {label: size for label, size in sizes.items() if label != "3"}, strata=strata)


def test_people_of_a_stratum_without_records_are_told_of(sample: pa.Table, sizes: dict[str, int]) -> None:
    found = assessed(sample, {**sizes, "9": 50_000}, strata="stratum")
    assert any("stand for 277,677 people, but the population is 327,677" in note for note in found.summary.notes)


def two_stages(n_drawn: int, n_each: int, seed: int) -> tuple[pa.Table, pa.Table]:
    """A population with 120 made-up districts, and a sample of some of them with as many people in each."""
    rng = np.random.default_rng(seed)
    people = datasets.census_population().select(["age", "sex", "marital", "relationship"])
    people = people.append_column("district", pa.array([f"d{k:03d}" for k in rng.integers(0, 120, people.num_rows)]))
    district = np.array(people["district"])
    drawn = rng.choice(np.unique(district), n_drawn, replace=False)
    rows = [rng.choice(np.flatnonzero(district == name), n_each, replace=False) for name in drawn]
    return people, people.take(np.sort(np.concatenate(rows)))


def test_areas_that_were_drawn_first_are_judged_by_themselves() -> None:
    people, sample = two_stages(20, 120, seed=2)
    keys = ["district", "age", "sex", "marital"]
    of_person = people.select(keys).to_pandas().groupby(keys, observed=True).size()
    truth = int(sum(of_person[tuple(row)] == 1 for row in zip(*(sample[key].to_pylist() for key in keys), strict=True)))
    plain = rc.assess(sample, keys=keys, population=people.num_rows)
    assert plain.summary.risk.expected_population_uniques < 0.75 * truth
    assert plain.summary.risk.reliability.light == "amber"
    assert any("--stages" in reason for reason in plain.summary.risk.reliability.reasons)
    staged = rc.assess(sample, keys=keys, population=people.num_rows, stages="district: 20 of 120")
    assert staged.summary.risk.expected_population_uniques == pytest.approx(truth, rel=0.15)
    assert staged.summary.population == round(people.num_rows / 6)
    assert any("20 of 120 areas were drawn" in note for note in staged.summary.notes)
    assert not any("--stages" in reason for reason in staged.summary.risk.reliability.reasons)


def test_areas_that_are_no_key_leave_the_population_as_it_is() -> None:
    _, sample = two_stages(20, 50, seed=3)
    plain, staged = (
        rc.assess(sample, keys=["age", "sex", "marital"], population=277_677, stages=stages)
        for stages in (None, "district: 20 of 120")
    )
    assert staged.summary.risk.expected_population_uniques == plain.summary.risk.expected_population_uniques
    assert any("not told apart by the keys" in note for note in staged.summary.notes)


@pytest.mark.parametrize("stages", ["district", "district: 40", "district: 9 of 3", ": 3 of 9", "district: 0 of 3"])
def test_stages_that_cannot_be_read_are_refused(stages: str) -> None:
    with pytest.raises(BadInput, match="40 of 312"):
        rc.assess(pa.table({"district": ["a"], "age": [3]}), keys=["age"], population=10, stages=stages)


def test_more_areas_than_were_drawn_are_refused() -> None:
    _, sample = two_stages(20, 20, seed=4)
    with pytest.raises(BadInput, match="has 20 values of 'district'"):
        rc.assess(sample, keys=["district", "age"], population=277_677, stages="district: 12 of 120")


@given(st.integers(0, 2**32), st.integers(10, 60))
@settings(max_examples=30, deadline=None)
def test_random_samples_do_not_look_evenly_taken(seed: int, n_levels: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(40 * n_levels, np.full(n_levels, 1 / n_levels))
    keys = [rc.Categories("area", tuple(range(n_levels)))]
    assert evenly_taken(rc.ContingencyTable.from_counts(np.arange(n_levels)[:, None], np.maximum(counts, 1), keys)) == ()
    even = np.full(n_levels, 40) + rng.integers(-1, 2, n_levels)
    assert evenly_taken(rc.ContingencyTable.from_counts(np.arange(n_levels)[:, None], even, keys)) == ("area",)


def test_areas_too_small_for_their_share_do_not_hide_that_areas_were_drawn() -> None:
    sizes = np.random.default_rng(0).geometric(0.02, 40)
    keys = [rc.Categories("area", tuple(range(40)))]
    capped = rc.ContingencyTable.from_counts(np.arange(40)[:, None], np.minimum(sizes, 45), keys)
    assert (np.minimum(sizes, 45) < 45).sum() > 15
    assert evenly_taken(capped) == ("area",)
    assert evenly_taken(rc.ContingencyTable.from_counts(np.arange(40)[:, None], sizes, keys)) == ()
