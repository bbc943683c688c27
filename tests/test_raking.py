"""Weights after swaps: raked to the totals of the original, and telling nothing about where a row came from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell import datasets
from rarecell.errors import BadInput
from rarecell.release.raking import LEAST_RECORDS, keys_of_weights, raked

KEYS = ["sex", "age", "marital"]
SOME = settings(max_examples=50, deadline=None)


def naive_raked(weights: list[float], margins: list[tuple[list[int], list[float]]], rounds: int) -> list[float]:
    """Deming and Stephan's steps, record by record."""
    new = list(weights)
    for _ in range(rounds):
        for cells, totals in margins:
            present = [sum(w for w, c in zip(new, cells, strict=True) if c == cell) for cell in range(len(totals))]
            new = [w * totals[c] / present[c] for w, c in zip(new, cells, strict=True)]
    return new


@given(st.integers(0, 2**32 - 1), st.integers(12, 40))
@SOME
def test_raking_beside_its_steps(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.indices((2, 3)).reshape(2, -1).T, rng.integers(0, [2, 3], (n - 6, 2))])
    target, start = rng.random(n) + 0.5, rng.random(n) + 0.5
    margins = [(codes[:, k].astype(np.int64), np.bincount(codes[:, k], weights=target)) for k in range(2)]
    new, difference = raked(start, margins)
    assert difference <= 1e-9
    for cell, total in margins:
        assert np.bincount(cell, weights=new) == pytest.approx(total)
    plain = naive_raked(start.tolist(), [(cell.tolist(), total.tolist()) for cell, total in margins], 200)
    assert new == pytest.approx(np.array(plain))


def test_one_table_is_post_stratification() -> None:
    weights, cell = np.array([1.0, 3.0, 2.0, 2.0]), np.array([0, 0, 1, 1])
    new, _ = raked(weights, [(cell, np.array([8.0, 6.0]))])
    assert new.tolist() == [2.0, 6.0, 3.0, 3.0]


def test_keys_that_weights_depend_on_are_found() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, [4, 3, 5], (500, 3)).astype(np.int32)
    exact = 10.0 + 7.0 * codes[:, 0] + 2.0 * codes[:, 2]
    assert sorted(keys_of_weights(codes, [4, 3, 5], exact)) == [0, 2]
    assert keys_of_weights(codes, [4, 3, 5], np.full(500, 3.0)) == []
    assert keys_of_weights(codes, [4, 3, 5], exact * np.exp(0.1 * rng.standard_normal(500)))[:1] == [0]


def post_strata() -> tuple[pa.Table, np.ndarray]:
    sample = datasets.census_sample().select(KEYS).slice(0, 3_000)
    age, sex = (np.array(sample[name]) for name in ("age", "sex"))
    # Every post-stratum has a weight of its own.
    weight = 20.0 + 1.5 * (age // 20) + 13.0 * sex
    return sample.append_column("weight", pa.array(weight)), weight


def named(sample: pa.Table, released: pa.Table, weights: np.ndarray, tolerance: float = 1e-6) -> tuple[int, int]:
    """Of the rows that changed their post-stratum, those whose weight is that of where they came from and of no row that stayed there."""
    before, after = ([(row["sex"], row["age"] // 20) for row in table.select(KEYS).to_pylist()] for table in (sample, released))
    moved = [row for row in range(len(before)) if before[row] != after[row]]
    moved_rows = set(moved)
    found = 0
    for row in moved:
        there = [weights[other] for other in range(len(after)) if after[other] == after[row] and other not in moved_rows]
        found += min(abs(weight - weights[row]) for weight in there) > tolerance
    return found, len(moved)


def test_raked_weights_keep_totals_and_do_not_name_the_post_stratum(tmp_path: Path) -> None:
    sample, weight = post_strata()
    pq.write_table(sample, tmp_path / "sample.parquet")
    wish = {"keys": KEYS, "weight": "weight", "top": 60, "swap_seed": 1}
    kept = rc.protect(sample, weight_classes=0, **wish)
    found, moved = named(sample, kept.frame, weight)
    assert moved > 3
    assert found == moved
    done = rc.protect(str(tmp_path / "sample.parquet"), rake=True, out=tmp_path / "out", **wish)
    released = pq.read_table(tmp_path / "out" / "protected.parquet")
    new = np.array(released["weight"])
    assert new.sum() == pytest.approx(weight.sum())
    for key in ("sex", "age"):
        was, now = (np.array(table[key]) for table in (sample, released))
        # The total of a level that few have would tell a weight.
        for level in np.unique(was):
            if min((was == level).sum(), (now == level).sum()) >= LEAST_RECORDS:
                assert new[now == level].sum() == pytest.approx(weight[was == level].sum(), rel=1e-8)
    found, moved = named(sample, released, new, tolerance=0.5)
    assert moved > 3
    assert found == 0
    swap = done.summary.swap
    assert next(table for table in swap.weighted if table.variables == ("sex",)).changed == 0
    assert any(treated.column == "weight" and "raked" in treated.words for treated in done.summary.release.treatments)
    assert swap.margins_identical


def test_raking_needs_weights() -> None:
    sample, _ = post_strata()
    with pytest.raises(BadInput, match="weight="):
        rc.protect(sample, keys=KEYS, population=9_000, top=3, rake=True)
    with pytest.raises(BadInput, match="raked"):
        rc.protect(sample, keys=KEYS, weight="weight", top=3, rake=True, treat={"weight": "round 10"})
