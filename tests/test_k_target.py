"""Every released combination at least k times: blanks, beside the optimum and beside another program's definition."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

import rarecell as rc
from rarecell import datasets
from rarecell.outcome.swap import IntruderSummary
from rarecell.release.blanks import blank_to_k
from rarecell.run.blanking import intruders_after_blanks

FEW = settings(max_examples=40, deadline=None)


def _random_codes(seed: int, n: int, levels: list[int]) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, n) * (rng.random(n) < 0.7) for size in levels], axis=1).astype(np.int32)


def _group_sizes(shown: np.ndarray) -> np.ndarray:
    """Number of rows that look like each row, by comparing every two."""
    return np.array([sum(np.array_equal(one, other) for other in shown) for one in shown])


def _fewest_blanks(codes: np.ndarray, k: int) -> int:
    """The optimum by integer programming: each record takes one set of keys to lose, and a group that is used has k members."""
    n, n_keys = codes.shape
    sets = [set(keys) for size in range(n_keys + 1) for keys in combinations(range(n_keys), size)]
    looks = [[tuple(-1 if key in lost else int(codes[row, key]) for key in range(n_keys)) for lost in sets] for row in range(n)]
    groups = sorted({look for of_row in looks for look in of_row})
    n_choices = n * len(sets)
    cost = np.array([len(lost) for _ in range(n) for lost in sets] + [0.0] * len(groups))
    rows, low, high = [], [], []
    for row in range(n):
        line = np.zeros(len(cost))
        line[row * len(sets) : (row + 1) * len(sets)] = 1.0
        rows.append(line), low.append(1.0), high.append(1.0)
    for place, group in enumerate(groups):
        members = [row * len(sets) + s for row in range(n) for s in range(len(sets)) if looks[row][s] == group]
        line = np.zeros(len(cost))
        line[members], line[n_choices + place] = 1.0, -float(k)
        rows.append(line), low.append(0.0), high.append(np.inf)
        for member in members:
            line = np.zeros(len(cost))
            line[member], line[n_choices + place] = -1.0, 1.0
            rows.append(line), low.append(0.0), high.append(np.inf)
    solved = milp(
        cost, constraints=LinearConstraint(np.array(rows), low, high), integrality=np.ones(len(cost)), bounds=Bounds(0, 1)
    )
    assert solved.success
    return round(float(solved.fun))


@given(st.integers(0, 2**32 - 1), st.integers(4, 40), st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(2, 4))
@FEW
def test_every_combination_occurs_k_times(seed: int, n: int, levels: list[int], k: int) -> None:
    codes = _random_codes(seed, n, levels)
    found = blank_to_k(codes, k)
    shown = codes.copy()
    shown[found.rows] = np.where(found.blank, -1, codes[found.rows])
    assert (_group_sizes(shown) >= k).all()
    assert not len(found.unreached)
    before = _group_sizes(codes) < k
    assert (found.n_values == 0) == (not before.any())
    assert len(found.rows) <= before.sum() + found.n_borrowed


@given(st.integers(0, 2**32 - 1), st.integers(6, 30), st.integers(2, 3))
@FEW
def test_keys_that_must_stay_are_not_blanked(seed: int, n: int, k: int) -> None:
    codes = _random_codes(seed, n, [3, 3, 3])
    found = blank_to_k(codes, k, may_blank=[True, False, True])
    assert not found.blank[:, 1].any()
    shown = codes.copy()
    shown[found.rows] = np.where(found.blank, -1, codes[found.rows])
    small = np.flatnonzero(_group_sizes(shown) < k)
    assert small.tolist() == found.unreached.tolist()
    # Nothing helps records whose value of a key that stays is too rare.
    assert all((codes[:, 1] == codes[row, 1]).sum() < k for row in small)


def test_few_more_blanks_than_the_optimum() -> None:
    ours, best = 0, 0
    for seed in range(25):
        codes = _random_codes(seed, 9, [3, 3, 2])
        fewest = _fewest_blanks(codes, 2 + seed % 2)
        mine = blank_to_k(codes, 2 + seed % 2).n_values
        assert mine >= fewest
        ours, best = ours + mine, best + fewest
    assert ours <= 1.35 * best


def test_a_less_important_key_is_blanked_first() -> None:
    codes = np.array([[0, 0]] * 4 + [[1, 1]] * 4 + [[0, 1]], dtype=np.int32)
    for importance, blanked in (([1.0, 5.0], 0), ([5.0, 1.0], 1)):
        found = blank_to_k(codes, 2, importance=importance)
        assert found.blank.sum(axis=0).tolist() == [2 * (blanked == 0), 2 * (blanked == 1)]


def test_a_blank_that_counts_as_any_value_leaves_a_person_to_be_found() -> None:
    """By sdcMicro's definition one blank is enough here, and the only row without a town is still that of one person."""
    codes = np.array([[0, 0], [0, 0], [0, 1]], dtype=np.int32)
    as_any = np.array([[0, 0], [0, 0], [0, -1]])
    compatible = [sum(all(a == b or -1 in (a, b) for a, b in zip(one, other, strict=True)) for other in as_any) for one in as_any]
    assert min(compatible) >= 2
    assert _group_sizes(as_any).min() == 1
    found = blank_to_k(codes, 2)
    assert found.n_values == 3


@pytest.mark.parametrize("beside", [{}, {"risk_above": 0.2}, {"blank": ["marital", "age"]}])
def test_a_protected_file_has_groups_of_k(beside: dict[str, object]) -> None:
    sample = datasets.census_sample().select(["sex", "age", "marital"]).slice(0, 4_000)
    keys = ["sex", "age", "marital"]
    done = rc.protect(sample, keys=keys, population=100_000, k=3, **beside)
    shown = [tuple(row[key] for key in keys) for row in done.frame.to_pylist()]
    sizes = {look: shown.count(look) for look in set(shown)}
    assert min(sizes.values()) >= 3
    swap = done.summary.swap
    assert swap.released.k_anonymity["3"] == 0
    assert swap.suppression.unreached == 0
    assert "at least 3 times" in swap.suppression.sentence
    assert swap.margins_identical
    if "blank" in beside:
        assert all(row["sex"] is not None for row in done.frame.to_pylist())


def test_a_profile_with_a_least_k_is_met(tmp_path: Path) -> None:
    path = tmp_path / "office.toml"
    path.write_text('title = "ours"\nleast_k = 4\nworst_light = "red"\n')
    sample = datasets.census_sample().select(["sex", "age", "marital"]).slice(0, 4_000)
    wishes = {"keys": ["sex", "age", "marital"], "population": 100_000, "profile": str(path)}
    swapped = rc.protect(sample, risk_above=0.2, **wishes).summary.release.profile
    assert [reason.limit for reason in swapped.refusals] == ["least_k"]
    assert "--k 4" in swapped.refusals[0].command
    assert rc.protect(sample, k=4, **wishes).summary.release.profile.refusals == ()


def test_the_interval_of_links_shrinks_with_the_links_that_blanks_take() -> None:
    """Of 100 links 4 are left: a fifth of the spread, around what is left."""
    links = {"knows": "", "before": 120.0, "after": 100.0, "swapped": 2.0, "interval_after": (80.0, 130.0)}
    tried = tuple(IntruderSummary(name=name, **links) for name in ("nearest", "exact", "shadow"))
    before = SimpleNamespace(match_probability=np.full(98, 1.0))
    after = SimpleNamespace(match_probability=np.array([2.0]), swapped_link=np.array([2.0]), expected_correct_matches=4.0)
    nearest, exact, shadow = intruders_after_blanks(tried, SimpleNamespace(blanks=object()), before, after)
    for intruder in (nearest, exact):
        assert intruder.after == pytest.approx(4.0)
        assert intruder.interval_after == pytest.approx((0.0, 10.0))
    assert shadow == tried[2]
