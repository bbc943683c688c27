"""Whole numbers with and without an order, and keys that are constant or name every record."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import rarecell as rc
from rarecell.errors import BadInput
from rarecell.table.level_order import OrderTest, counts_by_others, is_in_question, order_notes, order_test, with_meant_orders
from tests.reference import census_table
from tests.strategies import categories


def table_with(order: np.ndarray, seed: int = 0) -> rc.ContingencyTable:
    """A key whose level decides the distribution of another; ``order`` is where each level really stands."""
    rng = np.random.default_rng(seed)
    level = rng.integers(0, len(order), 3000)
    other = np.clip(np.rint(order[level] / len(order) * 6 + rng.standard_normal(3000)), 0, 7).astype(np.int64)
    codes = np.stack([level, other, rng.integers(0, 3, 3000)], axis=1).astype(np.int32)
    return rc.ContingencyTable.from_codes(codes, categories([len(order), 8, 3]))


def order_of(table: rc.ContingencyTable, n_orders: int) -> OrderTest:
    return order_test(table.categories[0], counts_by_others(table, 0), n_orders=n_orders)


def test_an_order_that_means_something_is_found() -> None:
    assert order_of(table_with(np.arange(9)), 999).is_ordered
    shuffled = order_of(table_with(np.random.default_rng(3).permutation(9)), 999)
    assert not shuffled.is_ordered


def test_what_is_guessed_about_numbers_is_said() -> None:
    table = table_with(np.random.default_rng(3).permutation(9))
    names = [c.key for c in table.categories]
    found, tests = with_meant_orders(table)
    notes = order_notes(found, tests)
    assert len(notes) == 3
    assert f"'{names[0]}' are taken as codes" in notes[0]
    # The second key was tested and is ordered, the third has too few levels to tell; both are guesses.
    assert f"'{names[1]}' are taken as ordered: neighbouring values are alike" in notes[1]
    assert f"'{names[2]}' are taken as ordered, because they are whole numbers" in notes[2]
    assert f'"{names[2]}=unordered"' in notes[2]
    assert order_notes(*with_meant_orders(table, declared=frozenset(names)), declared=frozenset(names)) == []


def test_a_run_says_that_codes_of_states_were_taken_as_ordered() -> None:
    rng = np.random.default_rng(0)
    frame = {"state": rng.integers(1, 57, 400).tolist(), "sex": rng.choice(["f", "m"], 400).tolist()}
    wish = {"keys": ["state", "sex"], "population": 9_000, "model": "independence"}
    notes = rc.assess(pa.table(frame), **wish).summary.notes
    assert any("'state' are taken as ordered, because they are whole numbers" in note for note in notes)
    said = rc.assess(pa.table(frame), recode={"state": "unordered"}, **wish).summary
    assert not any("taken as ordered" in note for note in said.notes)


@pytest.mark.parametrize("key", [0, 1])
def test_distances_come_from_the_counts_of_each_pair_of_levels(key: int) -> None:
    """The test repeated record by record, with missing levels in both keys."""
    codes = np.random.default_rng(2).integers(0, 6, (500, 2)).astype(np.int32)
    with_missing = [rc.Categories(name, (1, 2, 3, 4, 5, None), True) for name in "ab"]
    table = rc.ContingencyTable.from_codes(codes, with_missing)
    counts = [[0.5 + sum(row[key] == i and row[1 - key] == j for row in codes.tolist()) for j in range(6)] for i in range(5)]
    roots = [[math.sqrt(n / sum(row)) for n in row] for row in counts]

    def length(order: list[int]) -> float:
        return sum(1.0 - sum(x * y for x, y in zip(roots[a], roots[b], strict=True)) for a, b in pairwise(order))

    rng = np.random.default_rng(7)
    n_shorter = sum(length(rng.permutation(5).tolist()) <= length([0, 1, 2, 3, 4]) + 1e-12 for _ in range(99))
    assert order_test(table.categories[key], counts_by_others(table, key), n_orders=99, seed=7).p_value == (1 + n_shorter) / 100


def test_numbers_without_meaning_pass_for_ordered_in_one_of_fifty() -> None:
    rng = np.random.default_rng(1)
    found = [order_of(table_with(rng.permutation(8), seed), n_orders=199).is_ordered for seed in range(60)]
    assert sum(found) <= 5


def test_the_codes_of_the_census_sample() -> None:
    table, tests = with_meant_orders(census_table())
    ordered = {test.key: test.is_ordered for test in tests}
    assert not ordered["relationship"]
    assert not ordered["citizenship"]
    assert not ordered["marital"]
    assert table.categories[2].is_ordered
    assert not table.categories[0].is_ordered
    assert "age" not in ordered
    kept, none = with_meant_orders(census_table(), declared=frozenset(census_table().keys))
    assert none == ()
    assert all(c.is_ordered for c in kept.categories)


def test_only_few_whole_numbers_are_in_question() -> None:
    assert is_in_question(rc.Categories("a", (1, 2, 3, 4, 5, None), True))
    assert not is_in_question(rc.Categories("a", (1, 2, 3, 4, 5), False))
    assert not is_in_question(rc.Categories("a", ("1", "2", "3", "4", "5"), True))
    assert not is_in_question(rc.Categories("a", (1.5, 2.5, 3.5, 4.5, 5.5), True))
    assert not is_in_question(rc.Categories("a", tuple(range(60)), True))


def test_the_user_has_the_last_word() -> None:
    rng = np.random.default_rng(0)
    frame = pa.table({"kind": rng.integers(1, 9, 500), "sex": rng.integers(0, 2, 500), "region": rng.integers(0, 30, 500)})
    decided = rc.Microdata(frame, keys=["kind", "sex", "region"])
    assert not decided.table().categories[0].is_ordered
    assert any("'kind'" in line and "codes without an order" in line for line in decided.summary_lines())
    told = rc.Microdata(frame, keys=["kind", "sex", "region"], coding={"kind": "ordered"})
    assert told.table().categories[0].is_ordered
    assert not any("'kind'" in line for line in told.summary_lines()[2:])


def test_a_constant_key_is_noted_and_the_run_goes_on() -> None:
    rng = np.random.default_rng(0)
    frame = pa.table({"age": rng.integers(0, 90, 400), "sex": rng.integers(0, 2, 400), "wave": np.full(400, 2020)})
    found = rc.assess(frame, keys=["age", "sex", "wave"], population=5000)
    assert any("'wave' (always '2020')" in note for note in found.summary.notes)
    without = rc.assess(frame, keys=["age", "sex"], population=5000)
    assert found.summary.risk.sample_uniques == without.summary.risk.sample_uniques
    assert found.summary.risk.expected_population_uniques == pytest.approx(
        without.summary.risk.expected_population_uniques, rel=0.05
    )
    with pytest.raises(BadInput, match="same value in every record"):
        rc.Microdata(frame, keys=["wave"]).table()


def test_a_key_that_names_every_record_is_stopped_with_advice() -> None:
    frame = pa.table({"number": np.arange(500), "sex": np.arange(500) % 2})
    with pytest.raises(BadInput, match=r"500 different values among 500 records.*recode="):
        rc.assess(frame, keys=["number", "sex"], population=5000)
    assert rc.Microdata(frame, keys=["number", "sex"], coding={"number": "10 quantiles"}).table().n_keys == 2
