"""Draws within groups against the weights they are drawn by."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rarecell.model.random_draws import draw_within, split_within


@pytest.mark.parametrize("scale", [1.0, 1e-250])
def test_members_are_drawn_by_their_share_of_the_group(scale: float) -> None:
    group = np.array([1, 0, 1, 2, 1, 0])
    weights = np.array([1.0, 3.0, 2.0, 5.0, 0.0, 1.0]) * np.where(group == 1, scale, 1.0)
    wanted = np.repeat([1, 0, 2], 60_000)
    drawn = draw_within(weights, group, wanted, np.random.default_rng(0))
    np.testing.assert_array_equal(group[drawn], wanted)
    for one in range(3):
        share = weights * (group == one) / weights[group == one].sum()
        found = np.bincount(drawn[wanted == one], minlength=6) / 60_000
        # Four standard errors of a proportion.
        np.testing.assert_allclose(found, share, atol=4 * np.sqrt(0.25 / 60_000))
        assert not found[share == 0].any()


def test_each_draw_takes_one_number() -> None:
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    draw_within(np.ones(3), np.array([0, 0, 1]), np.array([1, 0, 0, 1]), one)
    other.random(4)
    assert one.random() == other.random()


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50)), min_size=1, max_size=30),
    st.lists(st.integers(0, 200), min_size=1, max_size=12),
    st.integers(0, 1_000),
)
def test_split_draws_stay_in_their_group_and_none_is_lost(members: list, number: list, seed: int) -> None:
    _, group = np.unique([one for one, _ in members], return_inverse=True)
    weights, rng = np.array([weight for _, weight in members], dtype=float), np.random.default_rng(seed)
    wanted, asked = rng.integers(0, group.max() + 1, len(number)), np.array(number)
    place, member, times = split_within(weights, group, wanted, asked, rng)
    np.testing.assert_array_equal(group[member], wanted[place])
    np.testing.assert_array_equal(np.bincount(place, times, len(asked)), asked)
    assert (times > 0).all()
    assert len(set(zip(place.tolist(), member.tolist(), strict=True))) == len(place)


def test_split_draws_vary_as_single_draws_do() -> None:
    group, weights = np.array([0, 1, 0, 0, 1, 0, 0]), np.array([1.0, 3.0, 2.0, 5.0, 1.0, 1.0, 3.0])
    asked = np.full(40_000, 7)
    place, member, times = split_within(weights, group, np.zeros(len(asked), dtype=int), asked, np.random.default_rng(2))
    counts = np.zeros((len(asked), len(weights)))
    counts[place, member] = times
    share = np.where(group == 0, weights, 0.0) / weights[group == 0].sum()
    # Mean and covariance of a multinomial distribution.
    np.testing.assert_allclose(counts.mean(axis=0), 7 * share, atol=0.03)
    np.testing.assert_allclose(np.cov(counts.T), 7 * (np.diag(share) - np.outer(share, share)), atol=0.06)
