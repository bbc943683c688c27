"""Means by level of a key, before and after, against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell.release.means import FEWEST_RECORDS, KeyInBothFiles, mean_changes, weighted_median


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_changes_are_those_of_a_loop_over_levels(seed: int, has_weights: bool, is_treated: bool) -> None:
    rng = np.random.default_rng(seed)
    n, n_levels = 200, 5
    before = rng.integers(-1, n_levels, n).astype(np.int32)
    after = before.copy()
    moved = rng.choice(n, 30, replace=False)
    after[moved] = rng.permutation(after[moved])
    pay = np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(0, 1, n))
    released = np.round(pay, 1) if is_treated else pay
    weights = rng.gamma(2, 3, n) if has_weights else None
    found = {
        one.level: one
        for one in mean_changes([KeyInBothFiles("job", before, after, n_levels)], {"pay": (pay, released)}, weights, most=99)
    }
    for level in range(n_levels):
        means, numbers = [], []
        for codes, values in ((before, pay), (after, released)):
            rows = [r for r in range(n) if codes[r] == level and values[r] == values[r]]
            numbers.append(len(rows))
            total = sum(1.0 if weights is None else weights[r] for r in rows)
            means.append(sum(values[r] * (1.0 if weights is None else weights[r]) for r in rows) / total)
        if min(numbers) < FEWEST_RECORDS or abs(means[0] - means[1]) < 1e-9:
            assert level not in found
        else:
            assert (found[level].before, found[level].after) == pytest.approx(tuple(means))
            assert found[level].relative == pytest.approx(means[1] / means[0] - 1.0)
            assert found[level].records == numbers[0]


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=1, max_size=12))
def test_weighted_median_is_that_of_repeated_values(given_values: list[tuple[int, int]]) -> None:
    values, repeats = (np.array(part, dtype=float) for part in zip(*given_values, strict=True))
    repeated = np.repeat(values, repeats.astype(int))
    assert weighted_median(values, repeats) == pytest.approx(np.median(repeated))
    assert weighted_median(values) == pytest.approx(np.median(values))


def test_the_largest_change_comes_first_and_nothing_where_nothing_moved() -> None:
    codes = np.repeat(np.arange(3, dtype=np.int32), 40)
    swapped = codes.copy()
    swapped[[0, 100]] = swapped[[100, 0]]
    pay = np.ones(120)
    pay[0] = 400.0
    quiet = np.arange(120.0)
    keys = [KeyInBothFiles("job", codes, swapped, 3), KeyInBothFiles("sex", codes, codes, 3)]
    found = mean_changes(keys, {"pay": (pay, pay), "quiet": (quiet, quiet)})
    assert (found[0].column, found[0].level) == ("pay", 2)
    assert found[0].relative == pytest.approx(399 / 40)
    assert (found[0].median_before, found[0].median_after) == (1.0, 1.0)
    assert {one.key for one in found} == {"job"}
    assert 1 not in {one.level for one in found}
