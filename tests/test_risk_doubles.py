"""Copies in the population: found in samples of copied households, and of copied records, and not where there are none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import rarecell as rc
from rarecell import datasets
from rarecell.risk.doubles import (
    LEAST_MEMBERS,
    Doubles,
    at_least,
    differing_pairs,
    household_doubles,
    household_profiles,
    record_doubles,
    telling_columns,
)
from tests.naive import doubles as naive

KEYS = ["age", "sex", "marital", "citizenship", "size"]


@given(st.integers(2, 5), st.integers(2, 25), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_pairs_are_counted_as_one_by_one(n_columns: int, n_rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, rng.integers(2, 6, n_columns), (n_rows, n_columns))
    assert differing_pairs(rows) == naive.differing_pairs(rows)


def test_households_are_compared_with_those_of_their_size() -> None:
    rng = np.random.default_rng(0)
    household = rng.integers(0, 30, 120)
    keys = rng.integers(0, 4, (120, 2))
    wanted = naive.profiles(keys, household, LEAST_MEMBERS)
    found = household_profiles(keys, household)
    sizes = [rows.shape[1] // 2 for rows in found]
    assert sizes == sorted(size for size in wanted if (np.bincount(np.bincount(household))[size]) > 1)
    for size, rows in zip(sizes, found, strict=True):
        assert {tuple(row) for row in rows.tolist()} == wanted[size]


def test_columns_that_say_nothing_new_are_left_out() -> None:
    rng = np.random.default_rng(1)
    age = rng.integers(0, 60, 500)
    columns = np.column_stack([np.zeros(500, dtype=int), age // 10, age, np.arange(500), rng.integers(0, 3, 500)])
    assert telling_columns(columns) == [2, 4]


def population(rng: np.random.Generator, *, n_people: int, share: float) -> tuple[pa.Table, np.ndarray]:
    """Households of the census, of which a share lives in households that are there twice, and the household of each person."""
    census = datasets.census_population()
    begins = np.flatnonzero(census["relationship"].to_numpy() == 0)
    sizes = np.diff(np.append(begins, census.num_rows))
    # Without group quarters, which the file puts behind the household before them.
    chosen = rng.permutation(np.flatnonzero(sizes <= 7))
    rows, household = [], []
    for one in chosen.tolist():
        for _ in range(2 if rng.random() < share / (2 - share) else 1):
            rows.append(np.arange(begins[one], begins[one] + sizes[one]))
            household.append(np.full(sizes[one], len(household)))
            n_people -= int(sizes[one])
        if n_people <= 0:
            break
    of_person = np.concatenate(household)
    frame = census.take(np.concatenate(rows))
    return frame.append_column("size", pa.array(np.bincount(of_person)[of_person])), of_person


def coded(frame: pa.Table, names: list[str]) -> np.ndarray:
    return np.stack([np.unique(frame[name].to_numpy(), return_inverse=True)[1] for name in names], axis=1)


@pytest.mark.parametrize("share", [0.0, 0.66])
def test_copied_households_are_found_in_every_sample(share: float) -> None:
    """Ten samples of 15 % of the households, from populations like R's eusilc in size and in copies."""
    told = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        frame, household = population(rng, n_people=15_000, share=share)
        drawn = rng.random(household.max() + 1) < 0.15
        kept = drawn[household]
        found = household_doubles(coded(frame, KEYS)[kept], household[kept], fraction=0.15)
        assert found is not None
        told.append(found.is_suspicious)
    assert all(told) if share else not any(told)


@pytest.mark.parametrize("share", [0.0, 0.66])
def test_copied_records_are_found_by_all_their_columns(share: float) -> None:
    """A column with many values, such as an income, tells a copy from somebody alike, also in a sample of persons."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n_people = 15_000
        n_originals = round(n_people * (1 - share / 2))
        codes = np.column_stack([rng.integers(0, n, n_originals) for n in (60, 2, 5, 8)] + [rng.geometric(0.002, n_originals)])
        people = np.concatenate([codes, codes[: n_people - n_originals]])
        sample = people[rng.choice(n_people, 1_500, replace=False)]
        found = record_doubles(sample, fraction=0.1)
        assert found is not None
        assert found.is_suspicious == (share > 0)
        if share:
            assert 0.3 < found.share < 1.2


def test_real_samples_hold_no_copies() -> None:
    census = datasets.census_population()
    for seed in range(3):
        rows = np.random.default_rng(seed).choice(census.num_rows, 9_809, replace=False)
        found = record_doubles(coded(census.take(rows), census.column_names), fraction=0.035)
        assert found is not None
        assert not found.is_suspicious


def test_a_few_pairs_are_no_sign() -> None:
    assert not Doubles("records", 2, 0.8, 0.2).is_suspicious
    assert not Doubles("records", 5_000, 4_900.0, 0.2).is_suspicious
    assert not Doubles("records", 50, 3.0, 0.002).is_suspicious
    assert Doubles("records", 50, 3.0, 0.2).is_suspicious


def test_the_light_is_red_and_says_why() -> None:
    rng = np.random.default_rng(1)
    frame, household = population(rng, n_people=15_000, share=0.66)
    drawn = rng.random(household.max() + 1) < 0.15
    frame = frame.append_column("household", pa.array(household)).filter(pa.array(drawn[household]))
    found = rc.assess(frame.select([*KEYS, "household"]), keys=KEYS, population=len(household), household="household")
    light = found.summary.risk.reliability
    assert light is not None
    assert light.light == "red"
    assert any("pairs of households" in reason for reason in light.reasons)


@given(st.integers(1, 3_000), st.floats(0.0, 1.0, exclude_max=True))
def test_the_probability_of_reaching_a_number_is_that_of_the_poisson_law(number: int, share: float) -> None:
    wanted = stats.poisson.sf(number - 1, share * number)
    assert at_least(number, share * number) == pytest.approx(wanted, rel=1e-9, abs=1e-300)


def test_copies_in_one_group_are_found_there() -> None:
    """An institution of a twentieth of the file, four in ten of its records equal in everything, beside pairs that nearly agree."""
    census = datasets.census_population()
    rng = np.random.default_rng(5)
    people = coded(census.take(np.sort(rng.choice(census.num_rows, 4_000, replace=False))), census.column_names)
    names = [str(k) for k in range(people.shape[1])]
    plain = record_doubles(people, fraction=0.3, names=names)
    assert plain is None or not plain.is_suspicious
    institution = rng.integers(0, 12, (200, people.shape[1] + 1))
    institution[120:] = institution[:80]
    institution[:, 0] = 99
    both = np.concatenate([np.column_stack([people, np.zeros(len(people), dtype=np.int64)]), institution])
    both[:4_000, -1] = rng.integers(0, 2, 4_000)
    group = record_doubles(both, fraction=0.3, names=[*names, "more"])
    assert group is not None
    assert group.is_suspicious
    assert group.n_pairs >= 80
    assert group.among == "0"
    assert "share a value of '0'" in str(group)
