"""A run says by how much means of other columns moved, on the first screen and in its tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import rarecell as rc
from rarecell.outcome.swap import FileUtility
from rarecell.report.edition import external
from rarecell.report.tables import all_tables


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
        == "the means of 2 numeric columns by the levels of each key are as they were"
    )
    moved = FileUtility(columns=2, largest=0.32, column="pay", key="job", limit=0.05)
    assert moved.sentence == "means of 'pay' by 'job' moved by up to 32 %, beyond the 5.0 % of --max-change"
    assert not moved.is_within_limit


def test_the_external_edition_has_no_mean_of_a_group() -> None:
    summary = rc.protect(earnings(), keys=KEYS, population=20_000, top=40).summary
    outside = external(summary)
    assert outside.swap.file is not None
    assert outside.swap.file.means == ()
    assert outside.swap.file.largest >= summary.swap.file.largest
