"""Bit masks against Python's own sets."""

from __future__ import annotations

from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from rarecell.graph import masks

vertex_sets = st.frozensets(st.integers(0, masks.MAX_VERTICES - 1))


@given(vertex_sets, vertex_sets, st.integers(0, masks.MAX_VERTICES - 1))
def test_masks_are_sets(one: frozenset[int], other: frozenset[int], vertex: int) -> None:
    mask = masks.mask_of(one)
    assert masks.members(mask) == tuple(sorted(one))
    assert list(masks.each_member(mask)) == sorted(one)
    assert masks.holds(mask, vertex) == (vertex in one)
    assert masks.is_inside(mask, masks.mask_of(other)) == (one <= other)
    assert masks.members(mask | masks.single(vertex)) == tuple(sorted(one | {vertex}))
    if one:
        assert masks.lowest_member(mask) == min(one)


@given(st.integers(0, masks.MAX_VERTICES))
def test_all_below(n_vertices: int) -> None:
    assert masks.members(masks.all_below(n_vertices)) == tuple(range(n_vertices))


@given(st.frozensets(st.integers(0, 62), max_size=8))
def test_subsets_are_all_there_once_and_ascending(vertices: frozenset[int]) -> None:
    found = masks.subsets(masks.mask_of(vertices)).tolist()
    by_size = chain.from_iterable(combinations(vertices, n) for n in range(len(vertices) + 1))
    assert found == sorted(masks.mask_of(part) for part in by_size)
