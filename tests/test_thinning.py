"""A random part of a file keeps its levels and, in proportion, its population uniques."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell import datasets
from rarecell.risk.diagnostics import subsample_check
from rarecell.risk.explain import key_costs
from rarecell.run import models
from rarecell.run.config import RunConfig
from rarecell.table.structural_zeros import StructuralZeros
from rarecell.table.subsample import part_of, part_with_records, parts_by_household, random_part
from tests.strategies import categories, coarsened_tables

CENSUS = str(datasets.census_sample_path())


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


@st.composite
def tables_with_households(draw: st.DrawFn) -> tuple[rc.ContingencyTable, np.ndarray]:
    """A table that knows its records, some of which were not counted, and the household of each record."""
    n_records = draw(st.integers(4, 60))
    codes = np.array(draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=n_records, max_size=n_records)))
    household = np.array(draw(st.lists(st.integers(0, 20), min_size=n_records, max_size=n_records)))
    is_counted = np.array(draw(st.lists(st.sampled_from([True, True, True, False]), min_size=n_records, max_size=n_records)))
    assume(is_counted.sum() >= 2)
    table = rc.ContingencyTable.from_codes(codes[is_counted].astype(np.int32), categories([3, 4]))
    record_cell = np.full(n_records, -1, dtype=np.int64)
    record_cell[is_counted] = table.record_cell
    return replace(table, record_cell=record_cell), household


@given(tables_with_households(), st.integers(1, 30), st.integers(1, 6), st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_parts_by_household_never_split_a_household(
    file: tuple[rc.ContingencyTable, np.ndarray], n_records: int, n_parts: int, seed: int
) -> None:
    table, household = file
    n_records = min(n_records, table.n_records // 2)
    counted = np.flatnonzero(table.record_cell >= 0)
    parts = parts_by_household(table, household, n_records, n_parts, np.random.default_rng(seed))
    assert 1 <= len(parts) <= n_parts
    assert len(parts[0]) >= n_records
    largest = np.bincount(household[counted]).max()
    for records in parts:
        of_part = set(household[records].tolist())
        assert sorted(records.tolist()) == [r for r in counted.tolist() if household[r] in of_part]
        assert n_records / 2 <= len(records) < n_records + largest
    everything = np.concatenate(parts)
    assert len(np.unique(everything)) == len(everything)


@given(tables_with_households(), st.randoms(use_true_random=False), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_neither_order_nor_numbers_of_households_matter(
    file: tuple[rc.ContingencyTable, np.ndarray], shuffler: random.Random, seed: int
) -> None:
    table, household = file
    order = list(range(len(household)))
    numbers = list(range(21))
    shuffler.shuffle(order)
    shuffler.shuffle(numbers)
    other = replace(table, record_cell=table.record_cell[order])

    def cells(table: rc.ContingencyTable, household: np.ndarray) -> list[list[int]]:
        parts = parts_by_household(table, household, max(table.n_records // 3, 1), 3, np.random.default_rng(seed))
        return [sorted(table.record_cell[records].tolist()) for records in parts]

    assert cells(other, np.array(numbers)[household[order]]) == cells(table, household)


@given(tables_with_households(), st.data())
@settings(max_examples=60)
def test_a_part_with_its_records_has_the_cell_of_each(file: tuple[rc.ContingencyTable, np.ndarray], data: st.DataObject) -> None:
    table, _ = file
    counted = np.flatnonzero(table.record_cell >= 0)
    records = np.array(data.draw(st.lists(st.sampled_from(counted.tolist()), min_size=1, unique=True)))
    part = part_with_records(table, records)
    assert part.n_records == len(records)
    np.testing.assert_array_equal(part.cells[part.record_cell], table.cells[table.record_cell[records]])
    np.testing.assert_array_equal(np.bincount(part.record_cell, minlength=part.n_cells), part.counts)


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


def test_a_run_says_that_costs_were_compared_on_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig(input=CENSUS, keys=("age", "sex", "marital"), population=277_677)
    whole = rc.assess(config).summary
    monkeypatch.setattr(models, "MANY_CELLS", 200)
    on_part = rc.assess(config).summary
    said = "What each key costs was compared on 200 records drawn at random"
    assert not any(note.startswith("What each key costs") for note in whole.notes)
    assert any(note.startswith(said) for note in on_part.notes)
    for of_whole, of_part in zip(whole.risk.key_costs, on_part.risk.key_costs, strict=True):
        assert of_whole.without is not None
        assert of_part.without is not None
        assert 0.0 <= of_part.without <= on_part.risk.expected_population_uniques
        # Records that stay alone in the file are counted in all of it.
        assert [c.sample_uniques for c in of_whole.coarsened] == [c.sample_uniques for c in of_part.coarsened]


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
