"""A random part of a file keeps its levels and, in proportion, its population uniques."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.risk.diagnostics import subsample_check
from rarecell.risk.explain import key_costs
from rarecell.table.structural_zeros import StructuralZeros
from rarecell.table.subsample import part_of, random_part
from tests.strategies import categories, coarsened_tables


@given(coarsened_tables(max_records=60), st.integers(1, 80), st.integers(0, 5))
@settings(max_examples=40)
def test_a_part_has_so_many_of_the_records(table: rc.ContingencyTable, n_records: int, seed: int) -> None:
    part = random_part(table, n_records, np.random.default_rng(seed))
    assert part.n_records == min(n_records, table.n_records)
    assert part.categories == table.categories
    assert [c.name for c in part.coarsenings] == [c.name for c in table.coarsenings]
    counts = {tuple(cell): n for cell, n in zip(table.cells.tolist(), table.counts.tolist(), strict=True)}
    assert all(n <= counts[tuple(cell)] for cell, n in zip(part.cells.tolist(), part.counts.tolist(), strict=True))


@given(coarsened_tables(max_records=60), st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_a_part_is_the_table_of_its_records(table: rc.ContingencyTable, seed: int) -> None:
    counts = np.random.default_rng(seed).integers(0, table.counts + 1)
    assume(counts.any())
    part = part_of(table, counts)
    plain = rc.ContingencyTable.from_counts(table.cells, counts, table.categories)
    np.testing.assert_array_equal(part.cells, plain.cells)
    np.testing.assert_array_equal(part.counts, plain.counts)


def test_a_part_keeps_structural_zeros() -> None:
    codes = np.random.default_rng(0).integers(0, 3, (600, 2)).astype(np.int32)
    table = rc.ContingencyTable.from_codes(codes[(codes != [0, 2]).any(axis=1)], categories([3, 3]))
    zeros = StructuralZeros.from_dict({"combinations": [{"levels": {"a": 0, "b": 2}}]})
    table = table.with_structural_zeros(zeros)
    part = random_part(table, 50, np.random.default_rng(1))
    assert part.structural_zeros == zeros
    assert part.n_possible_cells(part.all_keys) == 8
    seen = []

    def refit(smaller: rc.ContingencyTable) -> rc.DecomposableModel:
        seen.append(smaller.structural_zeros)
        return rc.DecomposableModel(smaller)

    assert subsample_check(table, refit, fraction=0.2, n_parts=1) is not None
    assert seen == [zeros]


def test_weights_still_add_up_to_the_population() -> None:
    categories = [rc.Categories("a", tuple(range(50)))]
    table = rc.ContingencyTable.from_counts(np.arange(50)[:, None], np.full(50, 40), categories, weights=np.full(50, 40 * 3.0))
    part = random_part(table, 500, np.random.default_rng(1))
    assert part.weights is not None
    assert part.weights.sum() == pytest.approx(6000.0)


def test_costs_on_a_part_are_scaled_to_the_file() -> None:
    rng = np.random.default_rng(3)
    codes = np.stack([rng.integers(0, 40, 6000), rng.integers(0, 30, 6000), rng.integers(0, 3, 6000)], axis=1)
    keys = [rc.Categories(key, tuple(range(n)), True) for key, n in zip("abc", (40, 30, 3), strict=True)]
    table = rc.ContingencyTable.from_codes(codes.astype(np.int32), keys)

    def proportional(changed: rc.ContingencyTable) -> float:
        return changed.n_records * changed.n_formal_cells / 1e6

    part = random_part(table, 1000, rng)
    whole = key_costs(table, proportional, baseline=proportional(table))
    on_part = key_costs(table, proportional, baseline=proportional(table), part=part)
    for one, other in zip(whole, on_part, strict=True):
        assert other.expected_population_uniques == pytest.approx(one.expected_population_uniques)
        assert other.n_sample_uniques == one.n_sample_uniques


@given(coarsened_tables(max_records=60), st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_a_part_does_not_depend_on_the_order_of_the_keys(table: rc.ContingencyTable, seed: int) -> None:
    other = table.project(table.keys[::-1])
    n_records = max(table.n_records // 2, 1)
    parts = [random_part(each, n_records, np.random.default_rng(seed)) for each in (table, other)]
    rows = [
        {(tuple(cell), int(n)) for cell, n in zip(part.cells[:, ::step].tolist(), part.counts, strict=True)}
        for part, step in zip(parts, (1, -1), strict=True)
    ]
    assert rows[0] == rows[1]
