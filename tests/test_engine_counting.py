"""Records collapsed to cells: the kernel against a dictionary of tuples."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell._kernels import counting
from tests.naive import counting as naive


@st.composite
def coded_records(draw: st.DrawFn) -> tuple[np.ndarray, list[int]]:
    n_keys = draw(st.integers(1, 12))
    # Levels up to 2**31 - 1 make the product pass 64 bits after three keys.
    levels = draw(st.lists(st.sampled_from([1, 2, 3, 7, 1000, 2**20, 2**31 - 1]), min_size=n_keys, max_size=n_keys))
    n_records = draw(st.integers(0, 40))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    lowest = draw(st.sampled_from([0, 0, -1]))
    few = [generator.integers(lowest, min(count, draw(st.sampled_from([2, 5, count]))), n_records) for count in levels]
    return np.array(few, dtype=np.int32).T.reshape(n_records, n_keys), levels


@settings(max_examples=150, deadline=None)
@given(coded_records(), st.booleans())
def test_the_kernel_agrees_with_a_dictionary(records: tuple[np.ndarray, list[int]], as_columns: bool) -> None:
    codes, levels = records
    given_codes = list(codes.T) if as_columns else np.asfortranarray(codes)
    cells, counts, record_cell = counting.collapse_records(given_codes, levels)
    expected_cells, expected_counts, expected_record_cell = naive.collapse_records(codes.tolist())
    assert [tuple(cell) for cell in cells.tolist()] == expected_cells
    assert counts.tolist() == expected_counts
    assert record_cell.tolist() == expected_record_cell
    assert (cells.dtype, counts.dtype, record_cell.dtype) == (np.int32, np.int64, np.int64)


@settings(max_examples=100, deadline=None)
@given(coded_records(), st.randoms(use_true_random=False))
def test_cells_of_records_are_found_again(records: tuple[np.ndarray, list[int]], random: Random) -> None:
    codes, levels = records
    cells, _, record_cell = counting.collapse_records(codes, levels)
    assert counting.CellIndex(cells, levels).find(codes).tolist() == record_cell.tolist()
    kept = sorted(random.sample(range(len(cells)), len(cells) // 2))
    expected = [kept.index(cell) if cell in kept else -1 for cell in record_cell.tolist()]
    assert counting.CellIndex(cells[kept], levels).find(list(codes.T)).tolist() == expected


@pytest.mark.parametrize("n_levels", [(5, 7, 11), (3000, 2000, 1000), (2**31 - 1, 2**31 - 1, 2**31 - 1)])
def test_threads_and_both_ways_of_ranking_agree_with_numpy(n_levels: tuple[int, ...]) -> None:
    generator = np.random.default_rng(3)
    n_records = 3 * counting._WORTH_A_THREAD
    codes = np.array([generator.integers(0, min(count, 200), n_records) for count in n_levels], dtype=np.int32).T
    cells, counts, record_cell = counting.collapse_records(codes, n_levels)
    expected_cells, expected_inverse, expected_counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    assert np.array_equal(cells, expected_cells)
    assert np.array_equal(counts, expected_counts)
    assert np.array_equal(record_cell, expected_inverse.ravel())


def test_a_code_beyond_its_levels_is_refused() -> None:
    with pytest.raises(ValueError, match="not below the number of levels"):
        counting.collapse_records(np.array([[0, 2]], dtype=np.int32), [1, 2])


def test_no_keys_make_one_cell() -> None:
    cells, counts, record_cell = counting.collapse_records(np.empty((4, 0), dtype=np.int32), [])
    assert cells.shape == (1, 0)
    assert counts.tolist() == [4]
    assert record_cell.tolist() == [0, 0, 0, 0]
