"""What values mean, and the levels they become."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell.data.coding import CodedLevels, Coding, code_levels
from rarecell.data.hierarchies import read_hierarchy
from rarecell.data.levels import settle
from rarecell.engine.arrays import code_chunk, unified
from rarecell.engine.source import Column
from rarecell.errors import BadInput


def text_file(*values: str | None, decimal_mark: str = ".") -> tuple[Any, ...]:
    return settle(pa.array(values, pa.string()), Column("x", "untyped"), decimal_mark=decimal_mark).values


def coded(
    values: list[Any], coding: Coding | None = None, *, counts: list[int] | None = None, missing: str = "level"
) -> CodedLevels:
    array = pa.array(values)
    kind = "text" if pa.types.is_string(array.type) else "number"
    raw = settle(array, Column("x", kind))
    return code_levels("x", raw, np.array(counts or [1] * len(values)), coding or Coding(), missing=missing)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- meaning


@pytest.mark.parametrize(
    ("values", "meaning"),
    [
        (("0", "1", "10", "-3"), (0, 1, 10, -3)),
        (("00", "01", "10"), ("00", "01", "10")),
        (("0", "1", "01"), ("0", "1", "01")),
        (("1.5", "2", ".5"), (1.5, 2, 0.5)),
        (("1.1", "1.10"), ("1.1", "1.10")),
        (("1", "1.0"), ("1", "1.0")),
        (("1.0", "2.0"), (1, 2)),
        (("+1", "2"), ("+1", "2")),
        (("1e5", "2e5"), ("1e5", "2e5")),
        (("31", "NA", "62", None), (31, None, 62, None)),
        (("NA", "DE", "FR"), ("NA", "DE", "FR")),
        (("NA", "NaN"), ("NA", "NaN")),
        (("1 ", "2"), ("1 ", "2")),
        (("2020-01-31", "1999-12-01"), (datetime.date(2020, 1, 31), datetime.date(1999, 12, 1))),
        (("2020-01-31", "2020-02-31"), ("2020-01-31", "2020-02-31")),
        (("9" * 5000, "1"), ("9" * 5000, "1")),
        (("1,5", "2,5"), ("1,5", "2,5")),
    ],
)
def test_the_values_of_a_text_file_decide_what_they_are(values: tuple[str, ...], meaning: tuple[Any, ...]) -> None:
    assert text_file(*values) == meaning
    assert [type(value) for value in text_file(*values)] == [type(value) for value in meaning]


def test_decimal_commas_where_semicolons_divide() -> None:
    assert text_file("1,5", "2", decimal_mark=",") == (1.5, 2)
    assert text_file("1.5", "2", decimal_mark=",") == ("1.5", "2")


def test_words_read_as_missing_are_told() -> None:
    levels = settle(pa.array(["31", "NA"]), Column("age", "untyped"))
    assert levels.note == "Column 'age' holds numbers; 'NA' in it is read as missing."
    assert settle(pa.array(["31"]), Column("age", "untyped")).note is None


@given(st.lists(st.text(alphabet="0123456789.-aN,", max_size=5), unique=True, min_size=1))
def test_no_two_values_of_a_text_file_are_ever_merged(values: list[str]) -> None:
    meaning = [value for value in text_file(*values) if value is not None]
    assert len(set(meaning)) == len(meaning)


@pytest.mark.parametrize(
    ("values", "kind", "meaning"),
    [
        ([1.0, 2.0, float("nan"), None], "number", (1, 2, None, None)),
        ([1.5, 2.0], "number", (1.5, 2.0)),
        ([Decimal("1.50"), Decimal("2.25")], "number", (1.5, 2.25)),
        (["", "a", None], "text", (None, "a", None)),
        ([True, None, False], "boolean", (True, None, False)),
        ([float("inf"), 1.0], "number", (float("inf"), 1.0)),
    ],
)
def test_typed_values_keep_their_meaning(values: list[Any], kind: Any, meaning: tuple[Any, ...]) -> None:
    array = pa.array(values, from_pandas=False)
    assert settle(array, Column("x", kind)).values == meaning


WHOLE_NUMBERS = [kind for n in (8, 16, 32, 64) for kind in (getattr(pa, f"int{n}")(), getattr(pa, f"uint{n}")())]


@pytest.mark.parametrize("kind", WHOLE_NUMBERS, ids=str)
@given(data=st.data())
def test_whole_numbers_of_every_width_are_coded_as_they_are(kind: pa.DataType, data: st.DataObject) -> None:
    """Among a small range of numbers the code is the distance from the smallest, which may be wider than the numbers."""
    n_bits = kind.bit_width - pa.types.is_signed_integer(kind)
    low, high = -(2**n_bits) * pa.types.is_signed_integer(kind), 2**n_bits - 1
    numbers = st.integers(low, min(high, low + 300)) | st.integers(max(low, high - 300), high) | st.sampled_from([low, 0, high])
    values = data.draw(st.lists(st.none() | numbers, min_size=1, max_size=20))
    cut = data.draw(st.integers(0, len(values)))
    chunks = [code_chunk(pa.array(part, kind)) for part in (values[:cut], values[cut:])]
    found = unified(chunks)
    assert [found.values[int(code)].as_py() for code in found.codes] == values


def test_user_missing_codes_and_ranges() -> None:
    column = Column("x", "number", user_missing=(-1, (90, 99)))
    assert settle(pa.array([-1, 5, 90, 95.5, 99, 100]), column).values == (None, 5, None, None, None, 100)


# ---------------------------------------------------------------------- levels


def test_levels_are_sorted_with_missing_last() -> None:
    found = coded([62, None, 31, 45])
    assert found.levels == (31, 45, 62, None)
    assert found.code_of_value.tolist() == [2, 3, 0, 1]
    assert found.is_ordered
    assert found.n_missing == 1
    assert not coded(["b", "a"]).is_ordered


def test_values_without_records_make_no_level() -> None:
    found = coded(["a", "b", "c", None], counts=[3, 0, 2, 0])
    assert found.levels == ("a", "c")
    assert found.code_of_value[[0, 2]].tolist() == [0, 1]


def test_declared_levels_give_order_and_unobserved_ones_vanish() -> None:
    found = coded(["low", "high"], Coding(levels=("low", "middle", "high")))
    assert found.levels == ("low", "high")
    assert found.is_ordered
    assert coded([1, 2], Coding(levels=("2", "1"))).levels == (2, 1)
    assert not coded(["low", "high"], Coding(levels=("low", "high"), ordered=False)).is_ordered


def test_a_value_that_was_not_declared_is_an_error() -> None:
    with pytest.raises(BadInput, match="value 'c' and 1 more, which is not among its 2 declared levels"):
        coded(["a", "b", "c", "d"], Coding(levels=("a", "b")))


@pytest.mark.parametrize(
    ("coding", "levels"),
    [
        (Coding(edges=(18, 65)), ("<18", "18–64", "65+")),
        (Coding(width=30), ("0–29", "30–59", "60–89")),
        (Coding(width=1), ("5", "17", "18", "40", "64", "65", "88")),
        (Coding(quantiles=2), ("5–18", "40–88")),
        (Coding(top=65), (5, 17, 18, 40, 64, "65+")),
        (Coding(bottom=17), ("≤17", 18, 40, 64, 65, 88)),
        (Coding(width=20, top=60, bottom=17), ("≤17", "0–19", "40–59", "60+")),
        (
            Coding(width=2.5),
            ("5 to <7.5", "15 to <17.5", "17.5 to <20", "40 to <42.5", "62.5 to <65", "65 to <67.5", "87.5 to <90"),
        ),
        (Coding(missing=(88,), width=30), ("0–29", "30–59", "60–89")),
    ],
)
def test_bins_and_bounds(coding: Coding, levels: tuple[Any, ...]) -> None:
    found = coded([5, 17, 18, 40, 64, 65, 88], coding)
    assert found.levels == levels or found.levels == (*levels, None)
    assert found.is_ordered


def test_widths_that_a_computer_cannot_write() -> None:
    assert coded([0.3, 0.7], Coding(width=0.1)).levels == ("0.3 to <0.4", "0.7 to <0.8")


@settings(max_examples=60)
@given(
    st.lists(st.integers(-50, 200), unique=True, min_size=1, max_size=40),
    st.one_of(
        st.builds(Coding, width=st.integers(1, 30)),
        st.builds(Coding, quantiles=st.integers(2, 9)),
        st.builds(
            Coding, edges=st.lists(st.integers(-60, 210), unique=True, min_size=1, max_size=6).map(lambda e: tuple(sorted(e)))
        ),
        st.builds(Coding, top=st.integers(0, 100), bottom=st.integers(-100, -1)),
    ),
)
def test_bins_keep_the_order_of_numbers(values: list[int], coding: Coding) -> None:
    found = coded(values, coding)
    in_order = found.code_of_value[np.argsort(values)]
    assert (np.diff(in_order) >= 0).all()
    assert set(in_order.tolist()) == set(range(len(found.levels)))
    assert len(set(found.levels)) == len(found.levels)


def test_quantiles_follow_the_records() -> None:
    found = coded([1, 2, 3, 4], Coding(quantiles=2), counts=[97, 1, 1, 1])
    assert found.levels == ("1", "2–4")


def test_missing_values_can_be_declared_dropped_and_counted() -> None:
    found = coded([99, 31, None], Coding(missing=(99,)), counts=[4, 5, 6], missing="drop")
    assert found.levels == (31,)
    assert found.code_of_value.tolist() == [-1, 0, -1]
    assert found.n_missing == 10


def test_text_cannot_be_binned() -> None:
    with pytest.raises(BadInput, match=r"Key 'x' .* its values are not numbers; one is 'a'"):
        coded(["a", "b"], Coding(width=5))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"widht": 5}, "Did you mean 'width'"),
        ({"width": 0}, "above 0"),
        ({"width": "5"}, "it must be a number"),
        ({"width": True}, "it must be a number"),
        ({"edges": [5, 1]}, "larger than the one before"),
        ({"edges": []}, "one or more numbers"),
        ({"edges": [1, float("nan")]}, "one or more numbers"),
        ({"quantiles": 1}, "2 or more"),
        ({"width": 5, "quantiles": 3}, "choose one way"),
        ({"top": 5, "bottom": 9}, "bottom must be below"),
        ({"levels": ["a"], "top": 3}, "leave out top"),
        ({"edges": [3], "top": 3}, "leave out top"),
        ({"levels": ["1", 1]}, "lists a level twice"),
        ({"levels": "abc"}, "it must be a list"),
    ],
)
def test_codings_that_make_no_sense_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told) as caught:
        Coding.of(options, key="age")
    assert "'age'" in str(caught.value)


# ---------------------------------------------------------------------- hierarchies


def test_a_hierarchy_as_arx_has_it(tmp_path) -> None:
    path = tmp_path / "age.csv"
    path.write_text("31;30-39;adult;*\n35;30-39;adult;*\n62;60-69;adult;*\n7;0-9;child;*\n99;90-99;old;*\n")
    groupings = read_hierarchy(path, key="age", levels=["7", "31", "35", "62", None])
    assert [grouping.labels for grouping in groupings] == [("0-9", "30-39", "60-69", "missing"), ("child", "adult", "missing")]
    assert groupings[1].group_of_level.tolist() == [0, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a;x\n", "no line for the level 'b' and 1 more"),
        ("", "is empty"),
        ("a;x\nb\n", "line 2, has 1 fields"),
        ("a;x\nb;x\nc;y\na;y\n", "groups the level 'a' a second time"),
        ("a,x,p\nb,x,q\nc,y,q\n", "not nested: the group 'x' lies in 'p' and in 'q' of column 3"),
    ],
)
def test_hierarchies_that_cannot_be_used(tmp_path, content: str, told: str) -> None:
    path = tmp_path / "groups.csv"
    path.write_text(content)
    with pytest.raises(BadInput, match=told):
        read_hierarchy(path, key="region", levels=["a", "b", "c"])
