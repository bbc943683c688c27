"""A run says by how much means of other columns moved, on the first screen and in its tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import rarecell as rc
from rarecell.outcome.swap import FileUtility
from rarecell.report.edition import external
from rarecell.report.tables import all_tables
from rarecell.swap.task import Spared


def earnings(n: int = 700, *, has_pay: bool = True) -> pa.Table:
    rng = np.random.default_rng(0)
    education, age = rng.integers(0, 6, n), rng.integers(18, 66, n)
    columns = {"education": education, "age": age, "job": np.minimum(2 * education + rng.integers(0, 6, n), 14)}
    if has_pay:
        columns["pay"] = np.round(np.exp(rng.normal(7 + 0.3 * education, 0.5)), 2)
        columns["shift"] = rng.integers(1, 4, n)
        columns["weight"] = np.round(20 + rng.gamma(3, 20, n), 1)
    return pa.table(columns)


KEYS = ["education", "age", "job"]


def test_means_are_those_of_the_two_files() -> None:
    table = earnings()
    done = rc.protect(table, keys=KEYS, weight="weight", top=60, seed=1)
    told = done.summary.swap.file
    assert told is not None
    # The shift is a code: its mean says nothing.
    assert told.columns == 1
    worst = told.means[0]
    assert told.largest == pytest.approx(abs(worst.relative))
    for frame, mean in ((table, worst.before), (done.frame, worst.after)):
        here = np.array([str(level) for level in frame[worst.key].to_pylist()]) == worst.level
        assert np.average(frame["pay"].to_numpy()[here], weights=table["weight"].to_numpy()[here]) == pytest.approx(mean)
    assert f"means of 'pay' by '{worst.key}' moved by up to" in str(done)
    assert "exactly as it was, but means" in str(done)
    assert {row[0] for row in all_tables(done.summary)["means"].rows} == {"pay"}


def test_a_file_without_amounts_says_nothing_about_means() -> None:
    done = rc.protect(earnings(has_pay=False), keys=KEYS, population=20_000, top=10)
    assert done.summary.swap.file is None
    assert "means" not in str(done)


def test_sentences_are_true_of_what_moved() -> None:
    assert (
        FileUtility(columns=2, largest=0.0).sentence
        == "the means of all 2 numeric columns by the levels of each key are as they were"
    )
    assert "in a sample" in FileUtility(columns=2, largest=0.0, is_sample=True).sentence
    moved = FileUtility(columns=2, largest=0.32, column="pay", key="job", limit=0.05)
    assert (
        moved.sentence
        == "means of 'pay' by 'job' moved by up to 32 %, beyond the 5 % of --max-change: no plan tried that protects as many records moved them less"
    )
    assert not moved.is_within_limit


def test_the_external_edition_has_no_mean_of_a_group() -> None:
    summary = rc.protect(earnings(), keys=KEYS, population=20_000, top=40).summary
    outside = external(summary)
    assert outside.swap.file is not None
    assert outside.swap.file.means == ()
    assert outside.swap.file.largest >= summary.swap.file.largest


def test_spared_columns_move_less_and_the_model_keeps_its_tables() -> None:
    table, asked = earnings(1_500), {"keys": KEYS, "population": 40_000, "top": 150, "seed": 3}
    plain, spared = rc.protect(table, **asked), rc.protect(table, spare=["pay"], **asked)
    assert spared.summary.swap.margins_identical
    assert spared.summary.swap.swapped == plain.summary.swap.swapped
    assert spared.summary.swap.file.largest < plain.summary.swap.file.largest

    def apart(done: rc.Protection) -> float:
        pay = np.log(table["pay"].to_numpy())
        return float(np.abs(pay[done.plan.records] - pay[done.plan.partners]).mean())

    assert apart(spared) < 0.7 * apart(plain)
    # Sensitive columns are spared without being named.
    assert apart(rc.protect(table, sensitive=["pay"], **asked)) == pytest.approx(apart(spared))


@pytest.mark.parametrize("limit", [0.1, 0.05, 0.02])
def test_a_limit_for_means_is_reached_and_protects_as_many(limit: float) -> None:
    table, asked = earnings(1_500), {"keys": KEYS, "population": 40_000, "top": 100, "seed": 3}
    free, bound = rc.protect(table, **asked), rc.protect(table, max_change=limit, **asked)
    change = bound.summary.swap.file
    assert free.summary.swap.file.largest > 0.1
    assert change.limit == limit
    assert change.largest <= limit
    assert f"within the {100 * limit:g} % of --max-change" in change.sentence
    assert bound.summary.swap.swapped == free.summary.swap.swapped
    assert bound.summary.swap.margins_identical


def test_the_frontier_of_a_plan_says_what_moves_beside_the_keys() -> None:
    table = earnings(1_200)
    asked = {
        "keys": KEYS,
        "population": 40_000,
        "weight": "weight",
        "seed": 3,
        "model": "single",
        "search": "greedy",
        "restarts": 1,
    }
    found = rc.plan(table, max_correct_links=12.0, candidates=4, **asked)
    moved = [point for point in found.points if point.swaps]
    assert moved
    for point in found.points:
        assert (point.means_moved == 0.0) == (point.swaps == 0)
        assert point.relation_moved is not None
    # The same release, made: its report has the same largest change.
    point = moved[0]
    done = rc.protect(table, recode=dict(point.recoding), max_correct_links=12.0, swap_seed=3, **asked)
    assert point.means_moved_of.split(" by ")[0] == "pay"
    assert done.summary.swap.file.largest == pytest.approx(point.means_moved, rel=1e-6)


def test_a_limit_that_cannot_be_reached_is_said() -> None:
    table, asked = earnings(1_500), {"keys": KEYS, "population": 40_000, "top": 100, "seed": 3}
    bound = rc.protect(table, max_change=0.0, **asked).summary.swap
    assert bound.file.largest > 0.0
    assert not bound.file.is_within_limit
    assert "beyond the 0 % of --max-change: no plan tried that protects as many records" in bound.file.sentence
    assert bound.swapped == 100


def test_classes_that_are_missing_or_unordered_are_as_far_as_can_be() -> None:
    one, other = np.array([0, 0, 0, 4, 4], dtype=np.int32), np.array([0, 1, 3, 4, 0], dtype=np.int32)
    assert Spared("pay", 5, is_ordered=True).cost(one, other).tolist() == pytest.approx([0.0, 1 / 3, 1.0, 0.0, 1.0])
    assert Spared("job", 5, is_ordered=False, weight=2.0).cost(one, other).tolist() == [0.0, 2.0, 2.0, 0.0, 2.0]
