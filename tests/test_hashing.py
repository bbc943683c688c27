"""Hash tables of the kernels against dictionaries."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell._kernels import hashing

keys_of_tables = st.lists(st.integers(0, 2**62), max_size=60) | st.lists(st.integers(0, 50).map(lambda k: k << 40), max_size=60)


@given(keys_of_tables, keys_of_tables)
@settings(max_examples=60)
def test_positions_are_those_of_a_dictionary(keys: list[int], others: list[int]) -> None:
    known = np.array(keys, dtype=np.int64)
    wanted = np.array([*keys, *others, -1], dtype=np.int64)
    first = {key: position for position, key in reversed(list(enumerate(keys)))}
    slots, found = hashing.free_slots(len(keys)), np.empty(len(wanted), dtype=np.int32)
    assert len(slots) >= max(16, 2 * len(keys))
    hashing.fill_slots(known, slots)
    hashing.find_slots(wanted, known, slots, found)
    assert found.tolist() == [first.get(key, -1) for key in wanted.tolist()]


@given(keys_of_tables)
@settings(max_examples=60)
def test_distinct_keys_are_numbered_as_they_appear(keys: list[int]) -> None:
    distinct, number = np.empty(len(keys), dtype=np.int64), np.empty(len(keys), dtype=np.int32)
    n_distinct = hashing.number_distinct(np.array(keys, dtype=np.int64), hashing.free_slots(len(keys)), distinct, number)
    order = list(dict.fromkeys(keys))
    assert distinct[:n_distinct].tolist() == order
    assert number.tolist() == [order.index(key) for key in keys]


@given(st.lists(st.integers(-20, 50), max_size=80) | st.lists(st.integers(-20, 50) | st.integers(-(2**62), 2**62), max_size=80))
@settings(max_examples=60)
def test_sorted_distinct_keys_are_those_of_numpy(keys: list[int]) -> None:
    values = np.array(keys, dtype=np.int64)
    for ours, theirs in zip(
        hashing.sorted_distinct(values), np.unique(values, return_index=True, return_inverse=True), strict=True
    ):
        assert ours.tolist() == theirs.tolist()
