"""Structural zeros: finding them in simulated data, counting what is left, and what they must not change."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.errors import BadInput, UnknownColumns
from rarecell.model.decomposable import DecomposableModel
from rarecell.search.score import CompatibleLikelihood, PenalisedLikelihood, make_score
from rarecell.table.possible_cells import Compatibility
from rarecell.table.structural_zeros import (
    ExcludedCombination,
    FunctionalDependency,
    StructuralZeros,
    compatibility,
    find_structural_zeros,
)
from tests.naive.search import graph_score
from tests.strategies import categories, coarsened_tables


def random_exclusions(table: rc.ContingencyTable, rng: np.random.Generator) -> dict[tuple[int, ...], np.ndarray]:
    found = {}
    for size in (2, 3):
        for keys in product(range(table.n_keys), repeat=size):
            if list(keys) == sorted(set(keys)) and rng.random() < 0.5:
                found[keys] = rng.random([table.categories[k].n_levels for k in keys]) < 0.4
    return found


def n_cells_by_enumeration(table: rc.ContingencyTable, excluded: dict[tuple[int, ...], np.ndarray], mask: int) -> int:
    """Go through all value combinations; one is out when all its key levels under some exclusion are excluded."""
    vertices = [v for v in range(table.n_vertices) if table.reduce(mask) >> v & 1]
    vertex_of_key = {int(table.vertex_key[v]): v for v in vertices}

    def levels(vertex: int, code: int) -> list[int]:
        n_levels = table.categories[int(table.vertex_key[vertex])].n_levels
        cells = np.zeros((n_levels, table.n_keys), dtype=np.int32)
        cells[:, table.vertex_key[vertex]] = np.arange(n_levels)
        return np.flatnonzero(table.map_cells(cells, vertex) == code).tolist()

    total = 0
    for values in product(*(range(int(table.vertex_levels[v])) for v in vertices)):
        code = dict(zip(vertices, values, strict=True))
        total += not any(
            all(array[cell] for cell in product(*(levels(vertex_of_key[k], code[vertex_of_key[k]]) for k in keys)))
            for keys, array in excluded.items()
            if all(k in vertex_of_key for k in keys)
        )
    return total


@given(coarsened_tables(max_records=5, max_levels=4), st.integers(0, 2**32 - 1), st.data())
@settings(max_examples=40, deadline=None)
def test_compatible_cells_equal_enumeration(table: rc.ContingencyTable, seed: int, data: st.DataObject) -> None:
    excluded = random_exclusions(table, np.random.default_rng(seed))
    bound = Compatibility(table, excluded)
    mask = data.draw(st.integers(0, 2**table.n_vertices - 1))
    expected = n_cells_by_enumeration(table, excluded, mask)
    assert bound.n_cells(mask) == expected
    assert bound.n_cells_many(np.array([mask, table.close(mask)], dtype=np.uint64)).tolist() == [expected, expected]


def test_a_set_too_large_to_count_gets_an_upper_bound() -> None:
    rng = np.random.default_rng(0)
    table = rc.ContingencyTable.from_codes(np.zeros((1, 5), dtype=np.int32), categories([4, 4, 4, 4, 4]))
    excluded = {(a, b): rng.random((4, 4)) < 0.2 for a in range(5) for b in range(a + 1, 5)}
    exact = Compatibility(table, excluded).n_cells(31)
    bound = Compatibility(table, excluded, largest_array=64).n_cells(31)
    assert exact < bound < 4**5


def test_counts_beyond_machine_words_are_exact() -> None:
    table = rc.ContingencyTable.from_codes(np.zeros((1, 8), dtype=np.int32), categories([300] * 8))
    excluded = {(k, k + 1): np.eye(300, dtype=bool) for k in range(7)}
    assert Compatibility(table, excluded).n_cells(255) == 300 * 299**7


def simulated_table(seed: int = 0, n: int = 10_000) -> tuple[rc.ContingencyTable, set[tuple[int, int]]]:
    """Age bands, marital state and a key that fixes another; nobody in the two youngest bands is or was married."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 10, n)
    marital = np.where(age < 2, 3, rng.integers(0, 4, n))
    region = rng.integers(0, 12, n)
    country = region // 4
    sex = rng.integers(0, 2, n)
    own = [("age", 10), ("marital", 4), ("region", 12), ("country", 3), ("sex", 2)]
    keys = [rc.Categories(name, tuple(range(levels)), True) for name, levels in own]
    table = rc.ContingencyTable.from_codes(np.stack([age, marital, region, country, sex], axis=1).astype(np.int32), keys)
    return table, {(a, m) for a in range(2) for m in range(3)}


def test_known_zeros_and_rules_are_found() -> None:
    table, impossible = simulated_table()
    zeros = find_structural_zeros(table)
    pairs = {tuple(level for _, level in c.levels) for c in zeros.combinations if c.keys == ("age", "marital")}
    assert pairs == impossible
    assert {c.keys for c in zeros.combinations} <= {("age", "marital"), ("region", "country")}
    assert [(d.determinant, d.dependent) for d in zeros.dependencies] == [("region", "country")]
    assert "No record has age '0' with marital '0', although" in zeros.combinations[0].evidence
    assert "region determines country in all records" in zeros.dependencies[0].evidence
    assert zeros.not_searched == ()


def test_chance_alone_is_seldom_flagged() -> None:
    n_flags = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        codes = rng.geometric(0.3, (400, 4)).clip(max=[9, 7, 6, 5]) - 1
        zeros = find_structural_zeros(rc.ContingencyTable.from_codes(codes.astype(np.int32), categories([9, 7, 6, 5])))
        n_flags += len(zeros.combinations) + len(zeros.dependencies)
    assert n_flags <= 4  # 0.05 for pairs and 0.05 for triples in each of 20 tables: 2 expected at most


def test_a_three_way_zero_without_an_empty_pair_is_found() -> None:
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 3, (6000, 3))
    codes = codes[~((codes[:, 0] == 1) & (codes[:, 1] == 2) & (codes[:, 2] == 0))]
    table = rc.ContingencyTable.from_codes(codes.astype(np.int32), categories([3, 3, 3]))
    zeros = find_structural_zeros(table)
    assert [c.levels for c in zeros.combinations] == [(("a", 1), ("b", 2), ("c", 0))]
    assert "only pairs of the three were related" in zeros.combinations[0].evidence
    assert not find_structural_zeros(table, three_way=False)


def test_an_identifier_is_not_a_rule() -> None:
    rng = np.random.default_rng(1)
    codes = np.stack([np.arange(500), rng.integers(0, 4, 500)], axis=1).astype(np.int32)
    zeros = find_structural_zeros(rc.ContingencyTable.from_codes(codes, categories([500, 4])))
    assert zeros.dependencies == ()


def test_the_list_survives_json_and_can_be_edited() -> None:
    table, _ = simulated_table()
    zeros = find_structural_zeros(table)
    again = StructuralZeros.from_dict(json.loads(json.dumps(zeros.to_dict())))
    assert [c.levels for c in again.combinations] == [c.levels for c in zeros.combinations]
    assert [d.dependent for d in again.dependencies] == [d.dependent for d in zeros.dependencies]
    named = StructuralZeros.from_dict({"combinations": [{"levels": {"marital": "0", "age": 1}}]})  # read as text, other order
    assert table.with_structural_zeros(named).n_possible_cells(0b11) == 39
    with pytest.raises(BadInput, match="combinations"):
        StructuralZeros.from_dict({"combinations": [{"age": 7}]})
    with pytest.raises(BadInput, match="two or more"):
        StructuralZeros.from_dict({"combinations": [{"levels": {"age": 7}}]})


def test_a_list_that_the_records_contradict_is_refused() -> None:
    table, _ = simulated_table()
    wrong = StructuralZeros((ExcludedCombination((("age", 5), ("marital", 1))),))
    with pytest.raises(BadInput, match="age '5' with marital '1'"):
        table.with_structural_zeros(wrong)
    with pytest.raises(BadInput, match="said to determine"):
        table.with_structural_zeros(StructuralZeros((), (FunctionalDependency("age", "marital"),)))
    with pytest.raises(UnknownColumns, match="Did you mean 'marital'"):
        table.with_structural_zeros(StructuralZeros((ExcludedCombination((("age", 1), ("maritel", 1))),)))


def test_violations_are_told_for_any_cell() -> None:
    table, impossible = simulated_table()
    cells = np.array(list(product(range(10), range(4), [0], [0], [0, 1])), dtype=np.int32)
    found = compatibility(table, find_structural_zeros(table)).violates(cells)
    assert found.tolist() == [(a, m) in impossible for a, m, *_ in cells.tolist()]


def test_degrees_of_freedom_and_score_count_compatible_cells_only() -> None:
    plain, _ = simulated_table()
    table = plain.with_structural_zeros(find_structural_zeros(plain))
    cliques = [("age", "marital"), ("region", "country"), ("sex", "age")]
    model, before = DecomposableModel(table, cliques), DecomposableModel(plain, cliques)
    # Six impossible pairs of age and marital, and 24 of 36 pairs of region and country.
    assert before.degrees_of_freedom - model.degrees_of_freedom == 6 + 24
    score = make_score(table, "aic")
    assert isinstance(score, CompatibleLikelihood)
    assert graph_score(score, model.graph) == pytest.approx(model.log_likelihood_kernel - model.degrees_of_freedom)
    np.testing.assert_array_equal(model.log_cell_probability(), before.log_cell_probability())
    anywhere = np.array(list(product(*(range(c.n_levels) for c in plain.categories))), dtype=np.int32)
    np.testing.assert_array_equal(model.log_cell_probability(anywhere), before.log_cell_probability(anywhere))


@given(coarsened_tables(max_records=20), st.data())
@settings(max_examples=25, deadline=None)
def test_nothing_changes_without_structural_zeros(table: rc.ContingencyTable, data: st.DataObject) -> None:
    empty = table.with_structural_zeros(StructuralZeros())
    assert empty.structural_zeros is None
    assert empty.compatibility is None
    assert isinstance(make_score(empty, "aic"), PenalisedLikelihood)
    mask = data.draw(st.integers(0, 2**table.n_vertices - 1))
    assert empty.n_possible_cells(mask) == table.n_possible_cells(mask) == Compatibility(table, {}).n_cells(mask)


def test_smaller_tables_keep_what_still_applies() -> None:
    plain, _ = simulated_table()
    table = plain.with_structural_zeros(find_structural_zeros(plain))
    assert table.project(["age", "marital"]).n_possible_cells(0b11) == 34
    assert table.project(["age", "sex"]).structural_zeros is None
    halves = rc.Coarsening("age/5", "age", (np.arange(10) // 2).astype(np.int32), tuple("01234"))
    recoded = table.recode(halves).structural_zeros
    assert recoded is not None
    assert all("age" not in c.keys for c in recoded.combinations)
    coarse = table.with_coarsenings([halves])
    # Both levels of the youngest pair of bands exclude the three married states, so their union does.
    assert coarse.n_possible_cells(coarse.mask_of(["age/5", "marital"])) == 5 * 4 - 3
