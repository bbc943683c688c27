"""The sparse table and its marginals, against counting in dictionaries."""

from __future__ import annotations

import copy
import math
import pickle
import re
from dataclasses import replace
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.search.score import possible_cells
from rarecell.table.categories import Coarsening
from rarecell.table.coarsening import LEAST_IN_BAND, LEAST_RECORDS, automatic_coarsenings, relearned
from rarecell.table.marginals import Marginals, ranked
from rarecell.table.subsample import random_part
from tests.naive import marginals as naive
from tests.reference import census_table
from tests.strategies import categories, coarsened_tables, tables


@given(coarsened_tables(), st.data())
@settings(max_examples=60, deadline=None)
def test_marginals_equal_counting_in_a_dictionary(table: rc.ContingencyTable, data: st.DataObject) -> None:
    mask = data.draw(st.integers(0, 2**table.n_vertices - 1))
    counted = naive.marginal_counts(table, mask)
    assert sorted(table.marginals.counts(mask).tolist()) == sorted(counted.values())
    members = [v for v in range(table.n_vertices) if mask >> v & 1]
    rows = zip(*(table.vertex_codes(v).tolist() for v in members), strict=True) if members else [()] * table.n_cells
    assert table.marginals.at_cells(mask).tolist() == [counted[tuple(row)] for row in rows]
    assert table.marginals.entropy_term(mask) == pytest.approx(naive.entropy_term(table, mask), abs=1e-9)


@given(coarsened_tables(max_records=400))
@settings(max_examples=25, deadline=None)
def test_entropy_terms_of_all_sets_at_once(table: rc.ContingencyTable) -> None:
    masks = np.arange(2**table.n_vertices, dtype=np.uint64)
    found = Marginals(table).entropy_terms(masks)
    np.testing.assert_allclose(found, [naive.entropy_term(table, int(mask)) for mask in masks], atol=1e-9)


@given(coarsened_tables(max_records=400), st.data(), st.sampled_from([0, 2000, 1 << 20]))
@settings(max_examples=40, deadline=None)
def test_sets_are_counted_from_projections(table: rc.ContingencyTable, data: st.DataObject, budget: int) -> None:
    """Projections of any size, kept or given up, asked for in any order, give the counts of the table."""
    some = data.draw(st.lists(st.integers(0, 2**table.n_vertices - 1), min_size=1, max_size=12))
    marginals = Marginals(table, memory_budget=budget, worth_projecting=1)
    for mask in some:
        assert marginals.entropy_term(mask) == pytest.approx(naive.entropy_term(table, mask), abs=1e-8)
        if mask:
            reduced = table.reduce(mask)
            cells = marginals.cells_of(mask)
            assert sorted(cells.counts.tolist()) == sorted(naive.marginal_counts(table, reduced).values())
            assert marginals.positions(mask, marginals.level_rows(mask)).tolist() == list(range(len(cells.keys)))


def test_small_sets_of_many_rows_are_counted_from_larger_ones() -> None:
    rng = np.random.default_rng(0)
    sizes = [9, 9, 9, 5, 4, 3]
    table = rc.ContingencyTable.from_codes(rng.integers(0, sizes, (20_000, 6)).astype(np.int32), categories(sizes))
    masks = np.arange(64, dtype=np.uint64)
    marginals = Marginals(table, worth_projecting=4096)
    np.testing.assert_allclose(marginals.entropy_terms(masks), [naive.entropy_term(table, int(m)) for m in masks], atol=1e-7)
    assert marginals._bases.items()


def test_margins_of_far_more_possible_than_occupied_cells_are_hashed() -> None:
    rng = np.random.default_rng(0)
    sizes = [400, 300, 500, 2]
    table = rc.ContingencyTable.from_codes(rng.integers(0, sizes, (3000, 4)).astype(np.int32), categories(sizes))
    for mask in (0b0111, 0b1111, 0b0101):
        counted = naive.marginal_counts(table, mask)
        members = [v for v in range(4) if mask >> v & 1]
        assert table.marginals.at_cells(mask).tolist() == [counted[tuple(row)] for row in table.cells[:, members].tolist()]
        keys = table.marginals.cells_of(mask).keys
        assert (np.diff(keys) > 0).all()
        assert table.marginals.positions(mask, table.marginals.level_rows(mask)).tolist() == list(range(len(keys)))
        unseen = rng.integers(0, sizes, (50, 4)).astype(np.int32)
        assert table.marginals.lookup(mask, unseen).tolist() == [
            counted.get(tuple(row), 0) for row in unseen[:, members].tolist()
        ]


@pytest.mark.parametrize("n_records", [3, 3000, 40_000])
def test_entropy_terms_of_dense_and_hashed_sets_in_any_order(n_records: int) -> None:
    """Cells of shared members are numbered densely or in a hash table, in one part of the sets or in several."""
    rng = np.random.default_rng(n_records)
    sizes = [7, 400, 2, 300, 500, 3]
    table = rc.ContingencyTable.from_codes(rng.integers(0, sizes, (n_records, 6)).astype(np.int32), categories(sizes))
    masks = rng.permutation(np.arange(64, dtype=np.uint64))
    expected = [naive.entropy_term(table, int(mask)) for mask in masks]
    np.testing.assert_allclose(Marginals(table).entropy_terms(masks), expected, atol=1e-6)


@given(coarsened_tables(max_records=200), st.booleans())
@settings(max_examples=50)
def test_terms_of_an_entropy_are_added_in_the_same_order_however_they_are_counted(
    table: rc.ContingencyTable, is_long: bool
) -> None:
    with mock.patch("rarecell.table.marginals.LONG", 0 if is_long else 1 << 16):
        _terms_are_added_in_order(table)


def _terms_are_added_in_order(table: rc.ContingencyTable) -> None:
    marginals = Marginals(table)
    by_levels = np.argsort([-n for n in table.vertex_levels.tolist()], kind="stable").tolist()
    for mask in {table.reduce(mask) for mask in range(1, 1 << table.n_vertices)}:
        codes = np.stack([table.vertex_codes(v) for v in by_levels if mask >> v & 1], axis=1)
        expected = naive.sum_of_n_log_n(codes, table.counts) - table.n_records * math.log(table.n_records)
        assert marginals.entropy_term(mask) == expected


@given(coarsened_tables(max_records=60))
@settings(max_examples=25)
def test_terms_of_sets_of_keys_are_those_of_a_table_with_coarsenings(table: rc.ContingencyTable) -> None:
    everything = np.arange(1 << table.n_vertices, dtype=np.uint64)
    table.marginals.entropy_terms(everything)
    bare = table.with_coarsenings(())
    taken, alone = Marginals(bare), Marginals(bare)
    taken.take_terms_from(table.marginals)
    of_keys = everything[: 1 << table.n_keys]
    assert taken._entropy.keys() == set(of_keys.tolist())
    np.testing.assert_array_equal(taken.entropy_terms(of_keys), alone.entropy_terms(of_keys))


@given(tables(), st.data())
@settings(max_examples=40, deadline=None)
def test_lookup_finds_counts_of_any_cell(table: rc.ContingencyTable, data: st.DataObject) -> None:
    mask = data.draw(st.integers(1, 2**table.n_keys - 1))
    every = (
        np.array(np.meshgrid(*(np.arange(c.n_levels) for c in table.categories), indexing="ij"))
        .reshape(table.n_keys, -1)
        .T.astype(np.int32)
    )
    counted = naive.marginal_counts(table, mask)
    members = [v for v in range(table.n_keys) if mask >> v & 1]
    assert table.marginals.lookup(mask, every).tolist() == [counted[tuple(row)] for row in every[:, members].tolist()]


@given(coarsened_tables(), st.data())
@settings(max_examples=60, deadline=None)
def test_possible_cells_count_distinct_combinations(table: rc.ContingencyTable, data: st.DataObject) -> None:
    mask = data.draw(st.integers(0, 2**table.n_vertices - 1))
    expected = naive.n_possible_cells(table, mask)
    assert table.n_possible_cells(mask) == expected
    assert possible_cells(table, np.array([mask], dtype=np.uint64))[0] == expected
    assert table.n_possible_cells(table.close(mask)) == expected
    assert table.reduce(table.close(mask)) == table.reduce(mask)
    assert table.reduce_many(np.array([mask, table.close(mask)], dtype=np.uint64)).tolist() == 2 * [table.reduce(mask)]


def test_a_table_beyond_64_bits() -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 1000, (300, 12)).astype(np.int32)
    codes[150:] = codes[:150]
    table = rc.ContingencyTable.from_codes(codes, categories([1000] * 12))
    assert table.n_formal_cells == 1000**12
    assert table.size_indices == {2: 150}
    everything = (1 << 12) - 1
    assert table.marginals.counts(everything).tolist() == [2] * 150
    assert table.marginals.lookup(everything, codes[:5]).tolist() == [2] * 5
    unseen = codes[:1].copy()
    unseen[0, 0] = (unseen[0, 0] + 1) % 1000
    assert table.marginals.lookup(everything, unseen).tolist() == [0]
    assert table.marginals.entropy_term(everything) == pytest.approx(300 * math.log(2 / 300))


@given(coarsened_tables(min_keys=3), st.data())
@settings(max_examples=30, deadline=None)
def test_project_and_recode_keep_records_and_counts(table: rc.ContingencyTable, data: st.DataObject) -> None:
    keys = data.draw(st.permutations(table.keys))[: data.draw(st.integers(1, table.n_keys))]
    smaller = table.project(keys)
    assert smaller.n_records == table.n_records
    columns = [table.keys.index(k) for k in keys]
    np.testing.assert_array_equal(smaller.cells[smaller.record_cell], table.cells[table.record_cell][:, columns])
    for coarsening in table.coarsenings:
        recoded = table.recode(coarsening)
        k = table.keys.index(coarsening.key)
        np.testing.assert_array_equal(
            recoded.cells[recoded.record_cell][:, k], coarsening.group_of_level[table.cells[table.record_cell][:, k]]
        )
        assert all(c.n_levels < coarsening.n_levels for c in recoded.coarsenings if c.key == coarsening.key)


def test_recoding_keeps_only_coarsenings_that_its_groups_fit_into() -> None:
    key = categories([6])
    thirds = Coarsening("k/3", key[0].key, np.array([0, 0, 1, 1, 2, 2]), ("a", "b", "c"))
    halves = Coarsening("k/2", key[0].key, np.array([0, 0, 0, 0, 1, 1]), ("a", "b"))
    codes = np.arange(60, dtype=np.int32).reshape(-1, 1) % 6
    table = replace(rc.ContingencyTable.from_codes(codes, key), coarsenings=(thirds, halves))
    assert [c.name for c in table.recode(thirds).coarsenings] == ["k/2"]
    # Bands that somebody else offers cut through the thirds, once so that a group would be lost, once so that all have a level.
    for offered in ([0, 1, 1, 2, 3, 3], [0, 0, 0, 1, 2, 3], [0, 1, 2, 2, 2, 3]):
        bands = Coarsening("bands", key[0].key, np.array(offered), tuple("abcd"))
        recoded = table.recode(bands)
        for coarsening in recoded.coarsenings:
            original = next(c for c in table.coarsenings if c.name == coarsening.name)
            of_records = coarsening.group_of_level[recoded.cells[recoded.record_cell][:, 0]]
            np.testing.assert_array_equal(of_records, original.group_of_level[codes[:, 0]])


def test_memory_budget_is_kept() -> None:
    rng = np.random.default_rng(1)
    table = rc.ContingencyTable.from_codes(rng.integers(0, 5, (500, 6)).astype(np.int32), categories([5] * 6))
    small = Marginals(table, memory_budget=20_000)
    for mask in range(1, 64):
        small.counts(mask)
        small.project(mask)
    kept = sum(m.nbytes for _, m in small._kept.items()) + sum(c.keys.nbytes for _, c in small._kept_cells.items())
    assert 0 < kept <= 20_000


def test_records_with_a_missing_key_are_dropped_but_keep_their_place() -> None:
    table = rc.ContingencyTable.from_codes(
        np.array([[0, 1], [-1, 0], [0, 1]], dtype=np.int32), categories([2, 2]), weights=[2, 5, 3]
    )
    assert table.record_cell.tolist() == [0, -1, 0]
    assert table.weights.tolist() == [5.0]
    assert table.n_records == 2


@pytest.mark.parametrize(
    ("levels", "problem"),
    [((1, 1), "twice"), ((None, 1), "last")],
)
def test_categories_are_checked(levels: tuple[object, ...], problem: str) -> None:
    with pytest.raises(rc.RarecellError, match=problem):
        rc.Categories("a", levels)


def test_coarsenings_must_be_nested_and_say_something() -> None:
    table = rc.ContingencyTable.from_codes(np.arange(6, dtype=np.int32)[:, None], categories([6]))

    def group(groups: list[int]) -> rc.Coarsening:
        return rc.Coarsening(
            f"a/{max(groups) + 1}/{groups}", "a", np.array(groups, np.int32), tuple(map(str, range(max(groups) + 1)))
        )

    with pytest.raises(rc.RarecellError, match="not nested"):
        table.with_coarsenings([group([0, 0, 1, 1, 2, 2]), group([0, 1, 1, 1, 1, 1])])
    with pytest.raises(rc.RarecellError, match="between 2 and 5"):
        table.with_coarsenings([group([0, 0, 0, 0, 0, 0])])
    nested = table.with_coarsenings([group([0, 0, 0, 0, 1, 1]), group([0, 0, 1, 1, 2, 2])])
    assert nested.chains == ((2, 1, 0),)


@given(st.lists(st.integers(0, 50), min_size=8, max_size=60).filter(lambda c: sum(c) > 0), st.booleans())
@settings(max_examples=60, deadline=None)
def test_automatic_coarsenings_are_nested_and_coarser(counts: list[int], is_ordered: bool) -> None:
    records = np.repeat(np.arange(len(counts)), counts).astype(np.int32)[:, None]
    table = rc.ContingencyTable.from_codes(records, [rc.Categories("a", tuple(range(len(counts))), is_ordered)])
    coarser = table.with_coarsenings(automatic_coarsenings(table))
    sizes = [coarser.vertex_levels[v] for v in coarser.chains[0]]
    assert sizes == sorted(set(sizes))
    if is_ordered:
        for c in coarser.coarsenings:
            assert (np.diff(c.group_of_level) >= 0).all()


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=25, deadline=None)
def test_records_of_rare_levels_do_not_choose_their_group(seed: int, is_ordered: bool) -> None:
    """Rare levels may exchange their records without any change of the coarsenings; ordered ones form bands of enough records."""
    rng = np.random.default_rng(seed)
    key = np.minimum(rng.geometric(0.04, 600) - 1, 79)
    others = rng.integers(0, 4, (600, 2))
    others[:, 0] = (others[:, 0] + key // 3) % 4
    categories = [rc.Categories("a", tuple(range(80)), is_ordered), *(rc.Categories(name, tuple(range(4))) for name in "bc")]

    def coarsenings(codes: np.ndarray) -> list[list[int]]:
        table = rc.ContingencyTable.from_codes(np.column_stack([codes, others]).astype(np.int32), categories)
        found = automatic_coarsenings(table)
        assert all(c.is_learned for c in found)
        if is_ordered:
            for c in found:
                assert np.bincount(c.group_of_level[codes]).min() >= LEAST_IN_BAND
        return [c.group_of_level.tolist() for c in found]

    is_rare = np.bincount(key, minlength=80)[key] < LEAST_RECORDS
    exchanged = key.copy()
    exchanged[is_rare] = rng.permutation(key[is_rare])
    found, again = coarsenings(key), coarsenings(exchanged)
    if not is_ordered:
        assert again == found


def test_a_key_of_rare_levels_has_no_coarsening() -> None:
    codes = np.array([[i % 50, i % 2] for i in range(300)] + [[0, 0]] * 20, dtype=np.int32)
    categories = [rc.Categories("postcode", tuple(range(50))), rc.Categories("sex", ("f", "m"))]
    assert automatic_coarsenings(rc.ContingencyTable.from_codes(codes, categories)) == ()


def test_a_part_is_relearned_from_its_own_records() -> None:
    table = census_table()
    table = table.with_coarsenings(automatic_coarsenings(table))
    part = random_part(table, 500, np.random.default_rng(0))
    own = relearned(part)
    for k, (old, new) in enumerate(zip(part.categories, own.categories, strict=True)):
        assert [new.levels[code] for code in own.cells[:, k]] == [old.levels[code] for code in part.cells[:, k]]
        assert new.n_levels == len(np.unique(part.cells[:, k]))
    assert own.counts.tolist() == part.counts.tolist()
    plain = own.with_coarsenings(())
    expected = automatic_coarsenings(plain)
    assert [c.name for c in own.coarsenings] == [c.name for c in plain.with_coarsenings(expected).coarsenings]
    # What the user named stays, as far as it still says something.
    halves = rc.Coarsening("age/halves", "age", (np.arange(91) >= 45).astype(np.int32), ("young", "old"))
    kept = relearned(random_part(table.with_coarsenings([halves]), 500, np.random.default_rng(0)))
    assert [c.name for c in kept.coarsenings] == ["age/halves"]


def test_coarsenings_leave_missing_alone_and_name_their_groups() -> None:
    ages = rc.Categories("age", (*range(9), None), True)
    other = rc.Categories("old", ("no", "yes"))
    codes = np.array([[age, age >= 6] for age in range(9) for _ in range(20)] + [[9, 0]] * 5, dtype=np.int32)
    table = rc.ContingencyTable.from_codes(codes, [ages, other])
    (three,) = automatic_coarsenings(table)
    assert three.labels[-1] == "missing"
    assert three.group_of_level[5] != three.group_of_level[6]
    assert three.name == "age/4"


@given(
    st.lists(st.integers(0, 3_000), min_size=1, max_size=60, unique=True),
    st.lists(st.integers(0, 3_000), max_size=80),
    st.sampled_from([3_001, 10**9]),
)
@settings(deadline=None)
def test_ranks_are_those_of_a_dictionary(distinct: list[int], asked: list[int], n_possible: int) -> None:
    rank = {key: position for position, key in enumerate(sorted(distinct))}
    found = ranked(np.array(asked, dtype=np.int64), np.array(sorted(distinct), dtype=np.int64), n_possible)
    assert found.dtype == np.int32
    assert found.tolist() == [rank.get(key, -1) for key in asked]


def test_a_table_and_what_rests_on_it_are_copied_and_pickled() -> None:
    frame = pa.table({"age": [20, 30, 30, 40, 50] * 8, "sex": list("fmfmf") * 8, "town": [f"t{k % 7}" for k in range(40)]})
    data = rc.Microdata(frame, keys=["age", "sex", "town"])
    table = data.table()
    model = rc.select_model(table)
    risk = rc.record_risk(table, model.best, population=400)
    plan = rc.plan_swaps(table, model.best, records=risk.riskiest(3), seed=0)
    done = rc.protect(frame, keys=["age", "sex", "town"], population=400, model="independence", top=2, seed=1)
    for result in (table, model, model.best, risk, plan, plan.apply(data), done.assessment, done):
        for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
            assert str(again) == str(result)
    counted = pickle.loads(pickle.dumps(table.marginals))
    assert counted.counts(3).tolist() == table.marginals.counts(3).tolist()
    assert len(pickle.dumps(table)) < 10_000, "what was kept for speed is not copied"


def test_a_table_of_counts_takes_levels_by_name_and_whole_numbers_only() -> None:
    levels = {"smokes": ["no", "yes"], "coughs": ["no", "yes", None]}
    table = rc.ContingencyTable.from_counts([[1, 2], [0, 0], [0, 0]], [2.0, 1, 3], levels)
    assert table.keys == ("smokes", "coughs")
    assert table.categories[1].has_missing
    assert dict(zip(map(tuple, table.cells.tolist()), table.counts.tolist(), strict=True)) == {(0, 0): 4, (1, 2): 2}
    for cells, counts, words in (
        ([[0, 0]], [2.5], "Counts are whole numbers"),
        ([[0, 0]], [math.nan], "Counts are whole numbers"),
        ([[0, 0]], [math.inf], "Counts are whole numbers"),
        ([[0, 0.5]], [2], "Cells are whole numbers"),
        ([[0, 0, 1]], [2], "2 codes, one for each key"),
        ([0, 1], [2], "2 codes, one for each key"),
        ([[0, 2**32]], [2], "not a level of its key"),
        ([[0, 0]], [-1], "0 or more"),
    ):
        with pytest.raises(rc.BadInput, match=words):
            rc.ContingencyTable.from_counts(cells, counts, levels)


def test_what_stands_for_a_table_is_short_and_has_no_level() -> None:
    table = rc.Microdata(pa.table({"age": [20, 31], "town": ["Ayr", "Bath"]}), keys=["age", "town"]).table()
    assert repr(table) == "ContingencyTable(keys=('age', 'town'), n_records=2, n_cells=2)"
    assert "Ayr" not in repr(rc.record_risk(table, rc.DecomposableModel(table, cliques=[("age",), ("town",)]), population=9))


def test_a_name_in_place_of_a_list_of_names_is_told() -> None:
    table = rc.Microdata(pa.table({"age": [20, 31], "town": ["a", "b"]}), keys=["age", "town"]).table()
    with pytest.raises(rc.BadInput, match=re.escape("write ['age']")):
        rc.DecomposableModel(table, cliques=["age", "town"])
