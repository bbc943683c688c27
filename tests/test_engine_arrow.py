"""Numbers pass between NumPy and Arrow as Arrow's own conversions would pass them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rarecell.engine.arrays import as_arrow, as_numpy, texts

NUMBERS = st.one_of(
    arrays.integer_dtypes(endianness="="),
    arrays.unsigned_integer_dtypes(endianness="="),
    arrays.floating_dtypes(endianness="=", sizes=(32, 64)),
    arrays.boolean_dtypes(),
)


@given(arrays.arrays(NUMBERS, st.integers(0, 40)))
def test_arrays_of_numbers_become_what_arrow_makes_of_them(values: np.ndarray) -> None:
    is_null = np.random.default_rng(len(values)).random(len(values)) < 0.3
    assert as_arrow(values).equals(pa.array(values)) or np.isnan(values).any()
    found = as_arrow(values, is_null=is_null)
    found.validate(full=True)
    assert found.type == pa.array(values).type
    assert found.is_null().to_pylist() == is_null.tolist()
    np.testing.assert_array_equal(as_numpy(found.drop_null()), values[~is_null])


@given(arrays.arrays(NUMBERS, st.integers(0, 40)), st.integers(0, 45), st.integers(0, 45))
def test_parts_of_arrow_arrays_become_the_same_parts(values: np.ndarray, start: int, length: int) -> None:
    part = pa.array(values).slice(min(start, len(values)), length)
    found = as_numpy(part)
    np.testing.assert_array_equal(found, values[start : start + length])
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(as_numpy(pa.chunked_array([part, part])), np.tile(values[start : start + length], 2))


@pytest.mark.parametrize("stride", [2, -1])
def test_arrays_that_are_not_in_one_piece_are_copied(stride: int) -> None:
    values = np.arange(10)[::stride]
    assert as_arrow(values).to_pylist() == values.tolist()
    assert as_arrow(values.astype(">i4")).to_pylist() == values.tolist()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_texts_stay_as_they_are(values: list[str]) -> None:
    assert texts(values).equals(pa.array(values, pa.string()))


@pytest.mark.parametrize("values", [[1, 2], [1.5, float("inf")], ["a", ""], [1, None], [True, False], [], ["a", None], [1, 2.5]])
def test_lists_have_the_type_that_arrow_gives_them(values: list[object]) -> None:
    assert as_arrow(values).equals(pa.array(values))


def test_missing_numbers_and_other_types_are_left_to_arrow() -> None:
    np.testing.assert_array_equal(as_numpy(pa.array([1.5, None])), [1.5, np.nan])
    assert as_numpy(pa.array(["a", "b"])).tolist() == ["a", "b"]
    days = np.array(["2020-01-01"], dtype="datetime64[D]")
    assert as_arrow(days).equals(pa.array(days))
