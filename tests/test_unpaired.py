"""Attacks on files without pairs, beside a comparison one by one, closed forms, and anonymeter."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.errors import BadInput
from rarecell.intruder.unpaired import SuccessRate, UnpairedFiles, UnpairedRisk
from tests.naive import unpaired as naive

FEW = settings(max_examples=40, deadline=None)


@st.composite
def three_files(draw: st.DrawFn) -> UnpairedFiles:
    n_columns = draw(st.integers(2, 4))
    categories = []
    for c in range(n_columns):
        n_levels = draw(st.integers(2, 5))
        levels = (*range(n_levels - 1), None) if draw(st.booleans()) else tuple(range(n_levels))
        categories.append(rc.Categories(f"c{c}", levels, is_ordered=draw(st.booleans())))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    files = [
        np.column_stack([rng.integers(0, column.n_levels, draw(st.just(n))) for column in categories]).astype(np.int32)
        for n in (draw(st.integers(1, 25)), draw(st.integers(1, 25)), draw(st.integers(1, 25)))
    ]
    return UnpairedFiles(tuple(categories), *files)


@given(three_files())
@FEW
def test_nearest_records(files: UnpairedFiles) -> None:
    columns = list(range(len(files.categories)))
    nearest, least = files.nearest(files.original, files.released, columns)
    for person, row, found in zip(files.original, nearest, least, strict=True):
        distances = [naive.distance(files.categories, person, record, columns) for record in files.released]
        assert found == pytest.approx(min(distances))
        assert distances[row] == pytest.approx(min(distances))


@given(three_files())
@FEW
def test_counts_of_copies_and_attributions(files: UnpairedFiles) -> None:
    names = files.names
    keys = list(range(len(names) - 1))
    copies = files.copies(np.random.default_rng(0), names[:-1])
    assert copies.unique_exact_matches == pytest.approx(naive.unique_exact_matches(files.original, files.released))
    left_out = naive.left_out_matches(files.original, files.released, files.control)
    assert copies.left_out_matches == pytest.approx(left_out, nan_ok=True)
    assert copies.replicated_uniques == pytest.approx(naive.replicated_uniques(files.original, files.released, keys))
    attribution = files.attribution(names[:-1], names[-1])
    assert attribution.disco == pytest.approx(naive.disco(files.original, files.released, keys, len(names) - 1))
    assert attribution.tcap == pytest.approx(naive.tcap(files.original, files.released, keys, len(names) - 1), nan_ok=True)


@given(three_files(), st.integers(1, 4))
@FEW
def test_conditions_single_out_one_record(files: UnpairedFiles, n_columns: int) -> None:
    columns, sign, values, stops = files._conditions(np.random.default_rng(1), min(n_columns, len(files.names)), 20)
    for begin, end in pairwise(stops):
        is_met = np.ones(len(files.released), dtype=bool)
        for c, s, value in zip(columns[begin:end], sign[begin:end], values[begin:end], strict=True):
            code = files.released[:, c]
            is_met &= (code == value) if s == 0 else (code >= value) if s > 0 else (code <= value)
        assert is_met.sum() == 1


def test_agrees_with_anonymeter() -> None:
    """Rates and intervals are the same to the last digit; successes may differ where two records are equally near."""
    given = json.loads(Path(__file__).parent.joinpath("data", "anonymeter.json").read_text(encoding="utf-8"))
    for file in given["files"]:
        rows = file["rows"]
        categories, columns = [], {part: [] for part in rows}
        for name in ("a", "b", "c", "d"):
            levels = sorted({value for part in rows.values() for value in part[name]})
            if name != "d":
                levels = list(range(max(levels) + 1))
            categories.append(rc.Categories(name, tuple(levels), is_ordered=name != "d"))
            for part in rows:
                columns[part].append([levels.index(value) for value in rows[part][name]])
        codes = {part: np.array(columns[part], dtype=np.int32).T.copy() for part in rows}
        files = UnpairedFiles(tuple(categories), codes["original"], codes["released"], codes["control"])
        found = {
            "linkability": files.linkability(np.random.default_rng(0), (("a", "d"), ("b", "c"))),
            "inference": files.inference(np.random.default_rng(0), "d"),
        }
        for name, risk in found.items():
            theirs = file["found"][name]
            assert abs(risk.people.successes - theirs["people"]) <= 1
            assert abs(risk.control.successes - theirs["control"]) <= 1
            rate = SuccessRate(theirs["people"], risk.people.attempts)
            assert (rate.value, rate.error) == pytest.approx((theirs["rate"], theirs["error"]))
            same = UnpairedRisk(name, (), rate, SuccessRate(theirs["control"], risk.control.attempts))
            assert (same.risk, *same.interval) == pytest.approx((theirs["risk"], *theirs["interval"]))


def _population(seed: int, n: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 12, n)
    return np.column_stack([base, (base + rng.integers(0, 6, n)) % 12, rng.integers(0, 12, n), rng.integers(0, 12, n)]).astype(
        np.int32
    )


def _files(released: np.ndarray, original: np.ndarray, control: np.ndarray) -> UnpairedFiles:
    categories = tuple(rc.Categories(name, tuple(range(12)), is_ordered=name == "a") for name in "abcd")
    return UnpairedFiles(categories, original, released, control)


def test_a_copy_is_found_and_an_unrelated_file_is_not() -> None:
    people = _population(0, 3000)
    original, control, unrelated = people[:1000], people[1000:2000], people[2000:]
    rng = np.random.default_rng(3)
    copied, fresh = _files(original, original, control), _files(unrelated, original, control)
    for attack in (
        lambda files: files.singling_out(rng),
        lambda files: files.linkability(rng),
        lambda files: files.inference(rng, "b"),
    ):
        assert attack(copied).interval[0] > 0.02
        low, high = attack(fresh).interval
        assert low == 0.0
        assert high < 0.15
    assert copied.copies(rng, "abcd").unique_exact_matches == 1.0
    assert copied.copies(rng, "abcd").nearer_to_people > 0.9
    assert fresh.copies(rng, "abcd").nearer_to_people == pytest.approx(0.5, abs=0.08)


def test_interval_of_no_risk_holds_zero_nineteen_times_in_twenty() -> None:
    held = 0
    for seed in range(40):
        people = _population(seed, 900)
        files = _files(people[600:], people[:300], people[300:600])
        low, _ = files.inference(np.random.default_rng(seed), "b", n_attacks=300).interval
        held += low == 0.0
    assert held >= 36


@given(three_files())
@FEW
def test_records_nearer_to_people_than_to_the_control_group_beside_every_pair(files: UnpairedFiles) -> None:
    n = min(len(files.original), len(files.control))
    even = UnpairedFiles(files.categories, files.original[:n], files.released, files.control[:n])
    columns = list(range(len(files.categories)))
    score = []
    for record in even.released:
        people, control = (
            min(naive.distance(files.categories, person, record, columns) for person in group)
            for group in (even.original, even.control)
        )
        score.append(0.5 if people == pytest.approx(control) else float(people < control))
    assert even.copies(np.random.default_rng(0), files.names).nearer_to_people == pytest.approx(np.mean(score))


def test_inference_from_a_file_of_copies_and_chance_is_the_share_of_copies() -> None:
    # People are found by a; b is theirs in a share q of the records and drawn anew in the others. People are then guessed with q + (1−q)/m,
    # others with 1/m, and (q + (1−q)/m − 1/m)/(1 − 1/m) = q.
    n, m, held = 400, 5, 0
    categories = (rc.Categories("a", tuple(range(n)), False), rc.Categories("b", tuple(range(m)), False))
    for seed in range(40):
        rng = np.random.default_rng(seed)
        share = (0.1, 0.4, 0.8)[seed % 3]
        original, control, released = (np.column_stack([np.arange(n), rng.integers(0, m, n)]).astype(np.int32) for _ in range(3))
        is_copied = rng.random(n) < share
        released[is_copied] = original[is_copied]
        low, high = UnpairedFiles(categories, original, released, control).inference(rng, "b", n_attacks=n).interval
        held += low <= share <= high
    assert held >= 36


def test_conditions_of_a_copy_single_out_everybody_and_others_by_chance() -> None:
    n, n_levels = 600, 30
    categories = tuple(rc.Categories(name, tuple(range(n_levels)), False) for name in "abc")
    rng = np.random.default_rng(4)
    original, control = (rng.integers(0, n_levels, (n, 3)).astype(np.int32) for _ in range(2))
    risk = UnpairedFiles(categories, original, original, control).singling_out(rng, n_columns=2, n_attacks=500)
    assert risk.people.successes == risk.people.attempts > 400
    # Exactly one of n people has two given values with probability n·p·(1−p)^(n−1), p = 1/L².
    p = n_levels**-2.0
    chance = n * p * (1.0 - p) ** (n - 1)
    error = np.sqrt(chance * (1.0 - chance) / risk.control.attempts)
    assert risk.control.successes / risk.control.attempts == pytest.approx(chance, abs=4.0 * error)


def test_nothing_is_said_without_a_control_group() -> None:
    people = _population(0, 20)
    files = _files(people[:10], people[:10], people[:0])
    rng = np.random.default_rng(0)
    for attack in (files.singling_out, files.linkability, lambda rng: files.inference(rng, "a")):
        with pytest.raises(BadInput, match="control group"):
            attack(rng)
    assert math.isnan(files.copies(rng, "ab").nearer_to_people)
    with pytest.raises(BadInput, match="columns"):
        UnpairedFiles(files.categories[:2], people, people, people)
