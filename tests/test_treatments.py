"""What each treatment of a column promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell.errors import BadInput
from rarecell.release import treatments as t
from tests.naive import treatments as naive

SEEDS = st.integers(0, 10_000)


def pay(seed: int, n: int = 60, *, missing: float = 0.1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < missing, np.nan, np.round(rng.lognormal(7, 1, n), 1))


@given(SEEDS, st.floats(0.5, 0.99), st.booleans())
def test_extremes_are_one_value_and_the_mean_stays(seed: int, share: float, is_top: bool) -> None:
    values = pay(seed)
    coded = t.coded_extremes(values, share=share, is_top=is_top)
    assert np.nanmean(coded) == pytest.approx(np.nanmean(values))
    assert (np.isnan(coded) == np.isnan(values)).all()
    changed = coded[(coded != values) & ~np.isnan(values)]
    assert len(np.unique(changed)) <= 1
    # The most extreme value is shared by at least three records.
    edge = np.nanmax(coded) if is_top else np.nanmin(coded)
    assert (coded == edge).sum() >= 3


@given(SEEDS, st.sampled_from([0.5, 1.0, 10.0, 100.0]))
def test_rounding_moves_by_half_a_step_at_most(seed: int, step: float) -> None:
    values = pay(seed)
    found = t.rounded(values, step)
    known = ~np.isnan(values)
    assert (np.abs(found - values)[known] <= step / 2 * (1 + 1e-9)).all()
    assert found[known] / step == pytest.approx(np.rint(found[known] / step))


def test_noise_keeps_signs_and_means() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(10, 30, 200_000)
    found = t.noisy(values, 0.05, rng)
    assert (np.sign(found) == np.sign(values)).all()
    factor = found / values
    assert factor.mean() == pytest.approx(1.0, abs=4 * 0.05 / np.sqrt(len(values)))
    assert factor.std() == pytest.approx(0.05, rel=0.02)


@settings(deadline=None)
@given(SEEDS, st.integers(2, 6))
def test_microaggregation_of_a_column_is_optimal_and_keeps_sums(seed: int, k: int) -> None:
    values = pay(seed, 17, missing=0.0)
    group = t.optimal_groups(values, k)
    sizes = np.bincount(group)
    assert sizes.min() >= k
    assert sizes.max() <= 2 * k - 1 or len(sizes) == 1
    own = naive.sum_of_squares(values, [np.flatnonzero(group == g).tolist() for g in range(len(sizes))])
    assert own == pytest.approx(naive.least_sum_of_squares(values, k), rel=1e-9, abs=1e-6)
    found = t.microaggregated(values[:, None], k)[:, 0]
    assert found.sum() == pytest.approx(values.sum())


@settings(deadline=None)
@given(SEEDS, st.integers(2, 7), st.integers(2, 3))
def test_mdav_leaves_no_small_group_and_keeps_means(seed: int, k: int, n_columns: int) -> None:
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(int(rng.integers(k, 80)), n_columns)).round(1)
    group = t.alike_groups(columns, k)
    assert np.bincount(group).min() >= k
    assert np.bincount(group).max() < 2 * k or len(columns) < 3 * k
    found = t.microaggregated(columns, k)
    assert found.mean(axis=0) == pytest.approx(columns.mean(axis=0))
    _, shared = np.unique(found, axis=0, return_counts=True)
    assert shared.min() >= k


def test_records_with_values_missing_are_grouped_among_themselves() -> None:
    columns = np.array([[1.0, 5.0], [2.0, 6.0], [3.0, np.nan], [9.0, np.nan], [np.nan, 7.0], [4.0, 8.0]])
    found = t.microaggregated(columns, 2)
    assert found[:, 0].tolist()[2:4] == [6.0, 6.0]
    # Nobody else lacks the first value: the record's second one is gone, too.
    assert np.isnan(found[4]).all()
    assert np.isnan(found[2:4, 1]).all()


def test_blocks_of_a_large_file_keep_the_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(t, "BLOCK", 40)
    columns = np.random.default_rng(1).normal(size=(333, 3))
    group = t.alike_groups(columns, 4)
    assert np.bincount(group).min() >= 4
    assert np.bincount(group).max() <= 7


def test_groups_of_one_are_refused() -> None:
    with pytest.raises(BadInput, match="at least 2"):
        t.microaggregated(np.ones((3, 1)), 1)


def test_post_randomisation_keeps_frequencies_in_expectation() -> None:
    rng = np.random.default_rng(0)
    codes = np.repeat([-1, 0, 1, 2], [10, 100, 40, 60]).astype(np.int32)
    drawn = np.array([np.bincount(t.post_randomised(codes, 0.7, rng) + 1, minlength=4) for _ in range(3_000)])
    assert (drawn[:, 0] == 10).all()
    assert drawn.mean(axis=0) == pytest.approx([10, 100, 40, 60], abs=0.6)
    stayed = np.mean([(t.post_randomised(codes, 0.7, rng) == codes)[10:110].mean() for _ in range(2_000)])
    assert stayed == pytest.approx(0.7 + 0.3 * 100 / 200, abs=0.01)


@settings(deadline=None, max_examples=40)
@given(SEEDS, st.booleans(), st.integers(1, 3), st.sampled_from([0.0, 0.3]))
def test_linkage_is_that_of_a_loop(seed: int, has_groups: bool, n_columns: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    original = rng.integers(0, 6, (25, n_columns)).astype(float)
    original[rng.random(original.shape) < missing] = np.nan
    released = original + rng.integers(-1, 2, (25, n_columns)) * 0.5
    groups = rng.integers(0, 3, 25) if has_groups else None
    assert t.linked_share(original, released, groups) == pytest.approx(naive.linked_share(original, released, groups))


def test_linkage_falls_with_every_treatment() -> None:
    values = pay(3, 400, missing=0.0)[:, None]
    before = t.linked_share(values, values)
    assert before > 0.9
    rng = np.random.default_rng(0)
    for treated in (t.rounded(values, 500.0), t.microaggregated(values, 5), t.noisy(values[:, 0], 0.1, rng)[:, None]):
        assert t.linked_share(values, treated) < 0.5 * before
    assert t.linked_share(values, np.full_like(values, np.nan)) == 0.0


def test_moments_and_correlation_ratio_are_those_of_their_definitions() -> None:
    values, weights = np.array([1.0, 2.0, np.nan, 4.0]), np.array([1.0, 2.0, 5.0, 1.0])
    found = t.Moments.of(values, weights)
    assert found.mean == pytest.approx(np.average([1, 2, 2, 4]))
    assert found.spread == pytest.approx(np.std([1, 2, 2, 4]))
    assert found.quantiles == (1.0, 2.0, 4.0)
    # Not a number would not be JSON, and other programs read the summary.
    assert t.Moments.of(np.full(3, np.nan)) == t.Moments(None, None, ())
    assert t.correlation_ratio(np.array([1.0, 1.0, 3.0, 3.0]), np.array([0, 0, 1, 1])) == pytest.approx(1.0)
    assert t.correlation_ratio(np.array([1.0, 3.0, 1.0, 3.0]), np.array([0, 0, 1, 1])) == pytest.approx(0.0)


@given(SEEDS)
def test_weights_stand_for_as_many_records(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, codes, times = pay(seed, 30), rng.integers(-1, 4, 30), rng.integers(1, 5, 30)
    weighted = t.correlation_ratio(values, codes, times.astype(float))
    assert weighted == pytest.approx(t.correlation_ratio(np.repeat(values, times), np.repeat(codes, times)))


@given(SEEDS)
def test_columns_together_link_who_is_hidden_in_each(seed: int) -> None:
    """Two columns that were rounded each by itself: together they single out what neither does alone."""
    columns = np.random.default_rng(seed).permuted(np.repeat(np.arange(20.0), 20).reshape(1, -1).repeat(2, axis=0), axis=1).T
    alone = [t.linked_share(columns[:, [c]], columns[:, [c]]) for c in (0, 1)]
    assert alone == pytest.approx([1 / 20, 1 / 20])
    assert t.linked_share(columns, columns) > 5 * max(alone)
