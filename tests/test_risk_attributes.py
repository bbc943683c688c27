"""l-diversity, t-closeness and right guesses: against the definitions, and against pycanon."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.data.crossing import wider_table
from rarecell.errors import BadInput, RarecellError
from rarecell.risk.attributes import MOST_VALUES, AttributeLimits, Groups, attribute_risk, groups_within, guess_gain_with_blanks
from tests.naive import attributes as naive

REFERENCE = json.loads((Path(__file__).parent / "data" / "pycanon.json").read_text(encoding="utf-8"))


@st.composite
def _records(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[int | None]]:
    n_records = draw(st.integers(1, 40))
    keys = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=n_records, max_size=n_records))
    some = st.one_of(st.integers(0, 5), st.none()) if draw(st.booleans()) else st.integers(0, 5)
    return keys, draw(st.lists(some, min_size=n_records, max_size=n_records))


def _groups(keys: list[tuple[int, int]], values: list[int | None]) -> Groups:
    levels: list[Any] = sorted({value for value in values if value is not None})
    levels += [None] if None in values else []
    categories = [rc.Categories("a", (0, 1, 2)), rc.Categories("s", tuple(levels), True), rc.Categories("b", (0, 1))]
    codes = np.array([(a, levels.index(value), b) for (a, b), value in zip(keys, values, strict=True)], dtype=np.int32)
    return Groups.of(rc.ContingencyTable.from_codes(codes, categories), "s")


@settings(max_examples=200, deadline=None)
@given(_records(), st.booleans())
def test_measures_follow_their_definitions(records: tuple[list[tuple[int, int]], list[int | None]], is_ordered: bool) -> None:
    keys, values = records
    found = attribute_risk(_groups(keys, values), ordered=is_ordered)
    by_group = naive.groups_of(keys, values)
    apart = naive.ordered if is_ordered else naive.nominal
    for g, cell in enumerate(found.groups.cells.tolist()):
        group = by_group[tuple(cell)]
        assert found.size[g] == len(group)
        assert found.distinct[g] == naive.distinct(group)
        assert found.entropy[g] == pytest.approx(naive.entropy(group))
        assert found.right[g] == naive.right(group)
        assert found.closeness[g] == pytest.approx(apart(group, values), abs=1e-12, nan_ok=True)
        assert found.is_homogeneous[g] == (len(set(group)) == 1 and group[0] is not None)
    assert found.right_from_file == naive.right(values)
    assert found.right_from_groups >= found.right_from_file
    known = [group for group in by_group.values() if any(value is not None for value in group)]
    assert found.l_diversity == min((naive.distinct(group) for group in known), default=0)
    assert found.entropy_l_diversity == pytest.approx(min((naive.entropy(group) for group in known), default=0.0))
    assert found.t_closeness == pytest.approx(max((apart(group, values) for group in known), default=0.0), abs=1e-12)


@pytest.mark.parametrize("number", range(len(REFERENCE["tables"])))
@pytest.mark.parametrize("column", ["illness", "visits"])
def test_the_numbers_of_pycanon(number: int, column: str) -> None:
    given_table = REFERENCE["tables"][number]
    expected = given_table["found"][column]
    table = rc.Microdata(pa.table(given_table["columns"]), keys=[*REFERENCE["keys"], column]).table()
    found = attribute_risk(Groups.of(table, column))
    assert found.is_ordered == (column == "visits")
    assert found.l_diversity == expected["l_diversity"]
    # A tie such as exp(log 2) may fall on either side of a whole number.
    rounded = {math.floor(found.entropy_l_diversity - 1e-9), math.floor(found.entropy_l_diversity + 1e-9)}
    assert expected["entropy_l_diversity_rounded_down"] in rounded
    assert found.t_closeness == pytest.approx(expected["t_closeness"])


@settings(max_examples=100, deadline=None)
@given(_records(), st.integers(0, 2**32 - 1))
def test_groups_after_swaps_are_those_of_the_swapped_file(
    records: tuple[list[tuple[int, int]], list[int | None]], seed: int
) -> None:
    keys, values = records
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(keys))[: len(keys) // 2]
    new = rng.integers(0, 2, (len(rows), 2)).astype(np.int32)
    swapped = list(keys)
    for row, cell in zip(rows.tolist(), new.tolist(), strict=True):
        swapped[row] = tuple(cell)
    before = _groups(keys, values)
    levels = before.sensitive.levels
    old = np.array([keys[row] for row in rows], dtype=np.int32).reshape(-1, 2)
    after = before.moved(old, new, np.array([levels.index(values[row]) for row in rows], dtype=np.int64))
    expected = _groups(swapped, values)
    for name in ("cells", "group", "value", "counts"):
        assert np.array_equal(getattr(after, name), getattr(expected, name))


def test_many_numbers_are_seen_in_bands_but_ordered_by_themselves() -> None:
    rng = np.random.default_rng(1)
    incomes = rng.integers(10_000, 90_000, 4_000)
    people = pa.table({"town": rng.integers(0, 3, 4_000), "income": incomes})
    groups = Groups.of(wider_table(rc.Microdata(people, keys=["town"]), ["income"]), "income")
    assert groups.banded.sensitive.n_levels == MOST_VALUES
    of_band = np.bincount(groups.banded.value, weights=groups.banded.counts)
    assert of_band.sum() == 4_000
    assert of_band.min() > 150
    assert of_band.max() < 250
    found = attribute_risk(groups)
    assert found.distinct.tolist() == [MOST_VALUES] * 3
    town = people.column("town").to_pylist()
    expected = max(naive.ordered(group, incomes.tolist()) for group in naive.groups_of(town, incomes.tolist()).values())
    assert found.t_closeness == pytest.approx(expected)


def test_a_group_of_one_value_is_named_and_one_of_missing_values_is_not() -> None:
    people = pa.table({"town": ["a", "a", "b", "b", "c"], "ill": ["flu", "flu", None, None, "cold"]})
    found = attribute_risk(Groups.of(rc.Microdata(people, keys=["town", "ill"]).table(), "ill"))
    assert found.named() == [{"values": {"town": "a"}, "value": "flu", "records": 2}]
    assert (found.n_homogeneous, found.records_in_homogeneous, found.records_alone) == (1, 2, 1)
    # Nobody without a value is guessed right.
    assert (found.right_from_groups, found.right_from_file) == (3, 2)
    assert "3 of 5 people" in str(found)


def test_whoever_does_not_know_who_took_part_learns_less() -> None:
    people = pa.table({"town": ["a", "a", "b", "b", "c"], "ill": ["flu", "flu", "flu", "cold", "cold"]})
    found = attribute_risk(Groups.of(rc.Microdata(people, keys=["town", "ill"]).table(), "ill"))
    # Town a has 8 people in the population, 2 of them in the file; town c has one.
    assert found.expected_without_participation([1 / 8, 1 / 4, 1.0]) == pytest.approx(2 * 2 / 8 + 1)
    with pytest.raises(BadInput):
        found.expected_without_participation([1.0])


def test_before_and_after_stand_side_by_side() -> None:
    people = pa.table({"town": ["a", "a", "b", "b"], "ill": ["flu", "flu", "cold", "flu"]})
    groups = Groups.of(rc.Microdata(people, keys=["town", "ill"]).table(), "ill")
    # One of town a changes places with the cold one of town b.
    after = groups.moved(np.array([[0], [1]]), np.array([[1], [0]]), np.array([1, 0]))
    for state in (groups, after):
        summary = attribute_risk(state).summary()
        assert (summary.homogeneous_groups, summary.right_from_groups) == (1, 3)


def test_a_column_that_is_not_there() -> None:
    table = rc.Microdata(pa.table({"town": ["a", "b"], "ill": ["flu", "cold"]}), keys=["town", "ill"]).table()
    with pytest.raises(RarecellError, match="no column 'income'"):
        Groups.of(table, "income")
    with pytest.raises(BadInput, match="a key in addition"):
        Groups.of(table.project(["ill"]), "ill")


@settings(max_examples=200, deadline=None)
@given(
    _records(),
    st.booleans(),
    st.one_of(st.none(), st.integers(2, 4)),
    st.one_of(st.none(), st.floats(0.0, 1.0)),
    st.one_of(st.none(), st.floats(0.0, 0.5)),
)
def test_groups_that_keep_their_values_are_within_the_limits(
    records: tuple[list[tuple[int, int]], list[int | None]],
    is_ordered: bool,
    least: int | None,
    far: float | None,
    gain: float | None,
) -> None:
    keys, values = records
    groups = _groups(keys, values)
    groups = replace(groups, sensitive=replace(groups.sensitive, is_ordered=is_ordered))
    kept = groups_within(groups, AttributeLimits(least, far, gain))
    cells = {tuple(cell): bool(keeps) for cell, keeps in zip(groups.cells.tolist(), kept.tolist(), strict=True)}
    released = [(key, value) for key, value in zip(keys, values, strict=True) if cells[key]]
    everybody = [value for _, value in released]
    by_group = naive.groups_of([key for key, _ in released], everybody)
    # Distinct l-diversity, and t-closeness with the equal or the ordered distance, as ARX defines them.
    apart = naive.ordered if is_ordered else naive.nominal
    for group in by_group.values():
        if any(value is not None for value in group):
            assert least is None or naive.distinct(group) >= least
            assert far is None or apart(group, everybody) <= far + 1e-9
    if gain is not None and everybody:
        right = sum(naive.right(group) for group in by_group.values())
        assert right - naive.right(everybody) <= gain * len(everybody) + 1e-9
    if gain is not None:
        # Whoever names one value for everybody whose value is blank is within the limit, too, and so it is measured.
        assert naive.gain_with_blanks(keys, values, cells) <= gain * len(values) + 1e-9
        assert guess_gain_with_blanks(groups, kept) * len(values) == pytest.approx(naive.gain_with_blanks(keys, values, cells))
    if far is None and gain is None:
        # Only groups that fall short lose their values.
        every = naive.groups_of(keys, values)
        assert {key for key, keeps in cells.items() if not keeps} == {
            key for key, group in every.items() if least is not None and 0 < naive.distinct(group) < least
        }


def test_the_groups_that_tell_most_lose_their_values_first() -> None:
    # By group: all ill (4), all well (6), half and half (4). The file says well; only the first group tells anything.
    keys = [(0, 0)] * 4 + [(1, 0)] * 6 + [(2, 0)] * 4
    values: list[int | None] = [1] * 4 + [0] * 6 + [0, 0, 1, 1]
    groups = _groups(keys, values)
    assert attribute_risk(groups).guess_gain == pytest.approx((4 + 6 + 2 - 8) / 14)
    # If that group alone were blank, the blank would say ill.
    assert guess_gain_with_blanks(groups, np.array([False, True, True])) == pytest.approx(4 / 14)
    assert groups_within(groups, AttributeLimits(max_guess_gain=0.0)).tolist() == [False, False, True]
    assert groups_within(groups, AttributeLimits(max_guess_gain=0.3)).tolist() == [True, True, True]
    assert groups_within(groups, AttributeLimits(l_diversity=2)).tolist() == [False, False, True]
    assert not groups_within(groups, AttributeLimits(l_diversity=3)).any()
