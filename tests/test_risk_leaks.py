"""Columns that give a treated key away are found, others are not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rarecell.data.whole_file import OrderedColumn
from rarecell.risk.leaks import BLANKED, RECODED, SWAPPED, Concealed, Leak, leaks
from tests.naive import leaks as naive


def column(name: str, values: NDArray[np.generic], *, numeric: bool = True) -> OrderedColumn:
    """A column of numbers; NaN is missing."""
    numbers = np.asarray(values, dtype=np.float64)
    distinct, codes = np.unique(numbers[~np.isnan(numbers)], return_inverse=True)
    found = np.full(len(numbers), -1, dtype=np.int32)
    found[~np.isnan(numbers)] = codes
    return OrderedColumn(name, found, len(distinct), distinct if numeric else None)


def recoded_age(age: NDArray[np.int64], width: int = 5) -> Concealed:
    return Concealed(
        "age", RECODED, age.astype(np.int32), (age // width).astype(np.int32), len(age), np.arange(age.max() + 1, dtype=float)
    )


def people(n: int, seed: int) -> tuple[np.random.Generator, NDArray[np.int64], list[OrderedColumn]]:
    """Ages, and columns that have to do with age as columns of surveys do, or nothing."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 90, n)
    works = (age > 17) & (age < 66) & (rng.random(n) < 0.7)
    columns = [
        column("education", np.clip((age - 5) // 4 + rng.integers(-2, 3, n), 0, 5)),
        column("employed", works),
        column("income", np.where(works, np.round(rng.lognormal(10, 0.8, n) + 60 * age), np.nan)),
        column("married", (age > 20) & (rng.random(n) < np.minimum(0.8, (age - 18) / 30))),
        column("weight", np.round(rng.gamma(20, 5, n), 3)),
        column("id", rng.permutation(n)),
        column("height", np.round(rng.normal(np.minimum(60 + 6.5 * age, 172), 9), 1)),
        column("region", rng.integers(0, 14, n)),
    ]
    return rng, age, columns


def restoring(found: tuple[Leak, ...]) -> set[tuple[str, ...]]:
    return {leak.columns for leak in found if leak.restores}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(2, 6), st.integers(2, 30))
def test_share_is_that_of_the_definition(seed: int, n_shown: int, n_values: int, n_levels: int) -> None:
    rng = np.random.default_rng(seed)
    n = 400
    shown = rng.integers(0, n_shown, n)
    values = shown * n_values + rng.integers(0, n_values, n)
    told = np.where(rng.random(n) < rng.random(), values, rng.integers(0, n_shown * n_values, n)) % n_levels
    one = Concealed("key", SWAPPED, values.astype(np.int32), shown.astype(np.int32), n)
    slow = naive.determines(values.tolist(), shown.tolist(), told.tolist(), permutations=40)
    found = [leak for leak in leaks([one], [column("y", told)]) if leak.shown is None and leak.how == "values"]
    if found:
        assert found[0].determines == pytest.approx(slow, abs=0.05)
    else:
        # Not listed: little is told, a single shown level tells more than the file, or it may be chance.
        assert slow < 0.45 or n_shown > 1


@pytest.mark.parametrize("n", [1_000, 8_000, 60_000])
def test_every_form_of_age_is_found(n: int) -> None:
    rng, age, columns = people(n, 1)
    interview = rng.integers(0, 365, n)
    birth = 365 * (2_024 - age) + interview - rng.integers(0, 365, n)
    planted = {
        "copy": column("copy", 3 * age + 7),
        "years of birth": column("years of birth", 2_024 - age - (rng.random(n) < 0.3)),
        "date of birth": column("date of birth", birth),
        "school age": column("school age", np.where((age > 4) & (age < 25), age - (rng.random(n) < 0.4), np.nan)),
        "but a few": column("but a few", np.where(rng.random(n) < 0.01, rng.integers(0, 90, n), age)),
        "a code": column("a code", rng.permutation(90)[age], numeric=False),
    }
    found = leaks([recoded_age(age)], [*columns, *planted.values()])
    assert {(name,) for name in planted} <= restoring(found)
    assert restoring(found) == {(name,) for name in planted}
    copy = next(leak for leak in found if leak.columns == ("copy",))
    assert copy.determines == pytest.approx(1.0)
    assert copy.records == n


@pytest.mark.parametrize("seed", range(20))
def test_columns_of_a_clean_file_raise_no_alarm(seed: int) -> None:
    n = int(np.random.default_rng(seed).choice([300, 2_000, 30_000]))
    rng, age, columns = people(n, seed)
    region = columns[-1].codes
    treated = [
        recoded_age(age, width=5 if seed % 2 else 10),
        Concealed("region", SWAPPED, region, np.zeros(n, dtype=np.int32), 40),
        Concealed("married", BLANKED, columns[3].codes, np.zeros(n, dtype=np.int32), 12),
        Concealed("region", RECODED, region, region // 3, n),
    ]
    households = np.sort(rng.integers(0, n // 3, n))
    assert not restoring(leaks(treated, columns, households=("household", households)))


def test_a_district_restores_a_swapped_region_and_a_noisy_one_only_where_it_is_right() -> None:
    rng = np.random.default_rng(3)
    n = 5_000
    region = rng.integers(0, 12, n).astype(np.int32)
    district = region * 20 + rng.integers(0, 20, n)
    nearly = np.where(rng.random(n) < 0.005, rng.integers(0, 240, n), district)
    weakly = np.where(rng.random(n) < 0.5, rng.integers(0, 240, n), district)
    one = Concealed("region", SWAPPED, region, np.zeros(n, dtype=np.int32), 30)
    found = leaks([one], [column("district", district), column("nearly", nearly), column("weakly", weakly)])
    assert restoring(found) == {("district",), ("nearly",)}


def test_rows_of_a_household_give_its_size_away() -> None:
    rng = np.random.default_rng(4)
    sizes = np.minimum(1 + rng.poisson(2.6, 2_000), 14)
    household = np.repeat(np.arange(len(sizes)), sizes)
    size = sizes[household].astype(np.int32)
    one = Concealed("size", RECODED, size, np.minimum(size, 6), int((size >= 6).sum()), np.arange(15.0))
    age = rng.integers(0, 90, len(size))
    found = leaks([one], [column("age", age)], households=("hh", household))
    assert restoring(found) == {("hh",)}
    assert found[0].how == "rows counted"
    assert found[0].determines == pytest.approx(1.0)
    assert found[0].records == (sizes >= 6).sum()
    # Without the household number nothing is left to count.
    assert not restoring(leaks([one], [column("age", age)]))


def test_members_counted_or_added_up_give_a_number_of_children_away() -> None:
    rng = np.random.default_rng(5)
    sizes = 1 + rng.poisson(2.5, 3_000)
    household = np.repeat(np.arange(len(sizes)), sizes)
    is_child = rng.random(len(household)) < 0.4
    children = np.bincount(household, weights=is_child)[household].astype(np.int32)
    one = Concealed("children", RECODED, children, np.minimum(children, 2), len(children), np.arange(20.0))
    found = leaks([one], [column("child", is_child)], households=("hh", household))
    assert ("hh", "child") in restoring(found)


def test_two_columns_that_add_up_to_a_key_are_found() -> None:
    rng = np.random.default_rng(6)
    n = 3_000
    adults, children = rng.integers(1, 7, n), rng.integers(0, 6, n)
    size = (adults + children).astype(np.int32)
    one = Concealed("size", RECODED, size, np.minimum(size, 4), n, np.arange(13.0))
    others = [column(f"other {k}", rng.integers(0, 9, n)) for k in range(12)]
    found = leaks([one], [column("adults", adults), column("children", children), *others])
    assert ("adults", "children") in restoring(found)
    assert all("other" not in name for columns in restoring(found) for name in columns)


def test_two_words_that_determine_a_key_only_together_are_found() -> None:
    rng = np.random.default_rng(7)
    n = 4_000
    sector, rank = rng.integers(0, 4, n), rng.integers(0, 4, n)
    job = (sector * 4 + rank).astype(np.int32)
    one = Concealed("job", RECODED, job, np.zeros(n, dtype=np.int32), n)
    found = leaks([one], [column("sector", sector, numeric=False), column("rank", rank, numeric=False)])
    together = [leak for leak in found if len(leak.columns) == 2]
    assert together
    assert together[0].determines == pytest.approx(1.0)


def test_nothing_is_told_about_missing_values() -> None:
    n = 1_000
    nothing = OrderedColumn("nothing", np.full(n, -1, dtype=np.int32), 1)
    assert leaks([recoded_age(np.arange(n) % 90)], [nothing]) == ()
