"""Draws within groups against the weights they are drawn by."""

from __future__ import annotations

import numpy as np
import pytest

from rarecell.model.drawing import draw_within


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
