"""Which records can be swapped: the conditions against recounted margins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.errors import BadInput
from rarecell.graph.random import random_chordal_graph
from rarecell.swap.interactions import Interactions
from rarecell.swap.pairs import explain_pair, paper_triples
from rarecell.swap.swappable import cost_of_keeping, swappability
from tests.naive import swap as naive
from tests.reference import census_table, cliques_by_number
from tests.strategies import categories
from tests.strategies_graph import toggled
from tests.strategies_swap import AnyModel, decomposable_cases, follows, hierarchical_cases, members, vertex_rows

LEVELS = [14, 2, 91, 5, 14, 7, 2, 5]
MODEL_1 = ("126", "167", "268", "367", "46", "56")
MODEL_2 = ("167", "367", "168", "28", "46", "56")


def paper_model(cliques: tuple[str, ...], *differences: str) -> rc.DecomposableModel:
    """A model of the paper's eight variables, with a record at 0 and one for each set of variables on which it is at 1."""
    cells = [[0] * 8] + [[int(str(v + 1) in differs) for v in range(8)] for differs in differences]
    keys = [rc.Categories(str(v + 1), tuple(range(n))) for v, n in enumerate(LEVELS)]
    table = rc.ContingencyTable.from_codes(np.array(cells, dtype=np.int32), keys)
    return rc.DecomposableModel(table, cliques=[tuple(clique) for clique in cliques])


def brute_swaps(model: rc.DecomposableModel | AnyModel, one: int, other: int) -> set[frozenset[tuple[int, ...]]]:
    rows = vertex_rows(model.table)
    sets = [members(model.table.close(mask)) for mask in model.generator_masks]
    return naive.swaps(rows[one], rows[other], sets, follows(model.table), range(model.table.n_keys))


# ---------------------------------------------------------------------- pairs


@settings(max_examples=60)
@given(st.booleans().flatmap(lambda coarse: decomposable_cases(coarsened=coarse)))
def test_pairs_of_a_decomposable_model_swap_exactly_when_margins_say_so(model: rc.DecomposableModel) -> None:
    check_all_pairs(model)


@settings(max_examples=60)
@given(st.booleans().flatmap(lambda coarse: hierarchical_cases(coarsened=coarse)))
def test_pairs_of_any_generating_class_swap_exactly_when_margins_say_so(model: AnyModel) -> None:
    check_all_pairs(model)


def check_all_pairs(model: rc.DecomposableModel | AnyModel) -> None:
    table = model.table
    interactions = Interactions.of_model(table, model)
    rows = vertex_rows(table)
    for one, other in itertools.combinations(range(min(len(rows), 8)), 2):
        expected = brute_swaps(model, one, other)
        difference = interactions.difference(rows[one], rows[other])
        n_parts = len(interactions.components(difference))
        assert len(expected) == (2 ** (n_parts - 1) - 1 if n_parts else 0)
        found = set()
        for moved in interactions.swaps(difference):
            new = (
                naive.exchanged(rows[one], rows[other], members(moved)),
                naive.exchanged(rows[other], rows[one], members(moved)),
            )
            found.add(frozenset(row[: table.n_keys] for row in new))
        assert found == expected
        assert interactions.can_swap(difference) == bool(expected)
        assert (interactions.separator_between(difference) is not None) == bool(expected)


def test_thousands_of_random_graphs_and_pairs() -> None:
    rng = np.random.default_rng(5)
    n_swappable = 0
    for _ in range(2_000):
        n_keys = int(rng.integers(2, 7))
        graph = random_chordal_graph(n_keys, rng)
        codes = rng.integers(0, 2, (2, n_keys)).astype(np.int32)
        table = rc.ContingencyTable.from_codes(codes, categories([2] * n_keys))
        interactions = Interactions.of_model(table, rc.DecomposableModel(table, graph=graph))
        expected = naive.swaps(tuple(codes[0]), tuple(codes[1]), [members(c) for c in graph.clique_masks], {}, range(n_keys))
        difference = interactions.difference(codes[0].tolist(), codes[1].tolist())
        assert len(interactions.swaps(difference)) == len(expected)
        n_swappable += bool(expected)
    assert 100 < n_swappable < 1_900


def test_model_1_of_the_paper_cannot_swap_differences_on_1_3_7() -> None:
    model = paper_model(MODEL_1, "137")
    triple = next(t for t in paper_triples(model) if (t.clique, t.other) == (("1", "2", "6"), ("3", "6", "7")))
    assert triple.shared == ("6",)
    assert not triple.separates
    # The records agree on S = 6 and differ on both cliques, so the paper would swap them; 1 and 7 are joined.
    assert not brute_swaps(model, 0, 1)
    explained = explain_pair(model.table, model, 0, 1)
    assert not explained.can_swap
    assert "cannot be swapped" in str(explained)
    assert "{1, 6, 7}" in str(explained)
    assert not swappability(model.table, model).is_swappable.any()


def test_model_2_of_the_paper_can_swap_differences_on_2_3() -> None:
    model = paper_model(MODEL_2, "23")
    # No pair of cliques of the paper's condition has the records agree on S and differ on both cliques …
    for triple in paper_triples(model):
        differs = {"2", "3"}
        assert not (not differs & set(triple.shared) and differs & set(triple.clique) and differs & set(triple.other))
    # … and yet they can be swapped.
    assert brute_swaps(model, 0, 1)
    explained = explain_pair(model.table, model, 0, 1)
    assert explained.can_swap
    assert explained.swaps == (("3",),)
    assert swappability(model.table, model).is_swappable.all()


def test_triples_of_a_chain_are_marked() -> None:
    table = rc.ContingencyTable.from_codes(np.array([[0, 0, 0, 0], [1, 1, 1, 1]], dtype=np.int32), categories([2, 2, 2, 2]))
    triples = paper_triples(rc.DecomposableModel(table, cliques=[("a", "b"), ("b", "c"), ("c", "d")]))
    # The chain is connected, so that the empty set shared by its ends is no separator.
    assert [(t.shared, t.separates) for t in triples] == [(("b",), True), (("c",), True)]
    apart = paper_triples(rc.DecomposableModel(table, cliques=[("a", "b"), ("c", "d")]))
    assert [(t.shared, t.separates) for t in apart] == [((), True)]
    assert str(apart[0]) == "{a, b} {c, d} {}"


def test_a_coarsening_moves_with_its_key_and_its_margin_is_the_one_that_stays() -> None:
    keys = [rc.Categories("age", tuple(range(6)), True), rc.Categories("sex", ("f", "m"))]
    codes = np.array([[0, 0], [1, 1], [3, 1]], dtype=np.int32)
    table = rc.ContingencyTable.from_codes(codes, keys)
    table = table.with_coarsenings([rc.Coarsening("age/2", "age", np.array([0, 0, 0, 1, 1, 1], np.int32), ("young", "old"))])
    model = rc.DecomposableModel(table, cliques=[("age/2", "sex")])
    assert explain_pair(table, model, 0, 1).swaps == (("sex",),)  # same band of age: the band's margin does not move
    assert explain_pair(table, model, 0, 2).swaps == ()  # different bands: sex and the band would part
    assert "{sex, age/2}" in str(explain_pair(table, model, 0, 2))
    full = rc.DecomposableModel(table, cliques=[("age", "sex")])
    assert explain_pair(table, full, 0, 1).swaps == ()


def test_a_pair_that_does_not_exist_is_an_error() -> None:
    model = paper_model(MODEL_1, "1")
    with pytest.raises(BadInput, match="no record 8; the records are counted from 1"):
        explain_pair(model.table, model, 0, 7)
    assert "nothing to exchange" in str(explain_pair(model.table, model, 0, 0))


# ---------------------------------------------------------------------- weights


@settings(max_examples=80)
@given(st.booleans().flatmap(lambda coarse: decomposable_cases(coarsened=coarse, max_records=20)))
def test_the_weight_counts_parts_and_is_positive_exactly_with_a_partner(model: rc.DecomposableModel) -> None:
    table = model.table
    found = swappability(table, model)
    assert found.method == "margins"
    rows = vertex_rows(table)
    assert table.record_cell is not None
    for cell in range(table.n_cells):
        record = int(np.flatnonzero(table.record_cell == cell)[0])
        assert found.weight[cell] == naive.swap_weight(rows[record], rows, model.graph.neighbours)
        n_partners = sum(bool(brute_swaps(model, record, other)) for other in range(len(rows)))
        assert found.at_least[cell] <= n_partners <= found.at_most[cell]
        assert (found.weight[cell] > 0) == (n_partners > 0)


@settings(max_examples=80)
@given(st.booleans().flatmap(lambda coarse: hierarchical_cases(coarsened=coarse, max_records=15)))
def test_margins_or_separators_decide_for_any_generating_class(model: AnyModel) -> None:
    table = model.table
    found = swappability(table, model)
    assert found.method == ("margins" if found.interactions.chordal_graph else "separators")
    rows = vertex_rows(table)
    assert table.record_cell is not None
    for cell in range(table.n_cells):
        record = int(np.flatnonzero(table.record_cell == cell)[0])
        n_partners = sum(bool(brute_swaps(model, record, other)) for other in range(len(rows)))
        assert found.at_least[cell] <= n_partners <= found.at_most[cell]
        assert (found.weight[cell] > 0) == (n_partners > 0)


@pytest.mark.parametrize(
    ("levels", "cliques"),
    [
        ((2, 2, 2), [("a", "b"), ("b", "c")]),
        ((2, 2, 2), [("a",), ("b", "c")]),
        ((2, 3, 2), [("a", "b"), ("b", "c")]),
        ((3, 3), [("a",), ("b",)]),
    ],
)
def test_a_record_without_weight_stays_in_every_table_of_the_fibre(
    levels: tuple[int, ...], cliques: list[tuple[str, ...]]
) -> None:
    rng = np.random.default_rng(7)
    n_fixed = n_free = 0
    for _ in range(25):
        codes = np.stack([rng.integers(0, n, 5) for n in levels], axis=1).astype(np.int32)
        table = rc.ContingencyTable.from_codes(codes, categories(list(levels)))
        model = rc.DecomposableModel(table, cliques=cliques)
        sets = [members(c) for c in model.graph.clique_masks]
        wanted = naive.margins([tuple(row) for row in codes.tolist()], sets)
        tables = list(naive.fibre(5, levels, sets, wanted))
        found = swappability(table, model)
        for cell in range(table.n_cells):
            least = min(each[tuple(table.cells[cell].tolist())] for each in tables)
            assert (least < table.counts[cell]) == bool(found.is_swappable[cell])
            assert least >= table.counts[cell] - found.weight[cell]
            n_fixed, n_free = n_fixed + (not found.is_swappable[cell]), n_free + bool(found.is_swappable[cell])
    assert n_fixed
    assert n_free


# ---------------------------------------------------------------------- what holds a record


def test_a_fixed_record_names_the_margin_and_what_would_free_it() -> None:
    codes = np.array([[0, 0, 0], [1, 1, 0], [1, 1, 1], [1, 1, 1]], dtype=np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([2, 2, 2]))
    model = rc.DecomposableModel(table, cliques=[("a", "b", "c")])
    found = swappability(table, model)
    assert not found.is_swappable.any()
    explained = found.explain_fixed([0])[0]
    assert explained.margin == ("a", "b", "c")
    assert explained.n_in_margin == 1
    assert explained.freed_by == ("a", "b")
    assert explained.n_freed == 1
    freed = rc.DecomposableModel(table, cliques=[("a", "c"), ("b", "c")])
    assert swappability(table, freed).is_swappable[0]
    assert str(explained) == (
        "It is held by the table of a, b and c, where 1 record has its values. Without the interaction of a and b, or with one of "
        "them coarser, it would have 1 partner."
    )


@settings(max_examples=60)
@given(st.booleans().flatmap(lambda coarse: decomposable_cases(coarsened=coarse)))
def test_what_frees_a_fixed_record_does_free_it(model: rc.DecomposableModel) -> None:
    table = model.table
    found = swappability(table, model)
    for fixed in found.explain_fixed():
        assert fixed.n_in_margin >= fixed.n_records
        if fixed.freed_by is not None:
            u, v = (table.vertex_names.index(name) for name in fixed.freed_by)
            freed = rc.DecomposableModel(table, graph=toggled(model.graph, u, v))
            weight = swappability(table, freed).weight[fixed.cell]
            assert weight == fixed.n_freed > 0


@settings(max_examples=60)
@given(st.booleans().flatmap(lambda coarse: hierarchical_cases(coarsened=coarse)))
def test_what_frees_a_record_of_any_generating_class_does_free_it(model: AnyModel) -> None:
    table = model.table
    found = swappability(table, model)
    graph = found.interactions
    for fixed in found.explain_fixed():
        if fixed.freed_by is not None:
            u, v = (table.vertex_names.index(name) for name in fixed.freed_by)
            pairs = [1 << a | 1 << b for a in range(table.n_vertices) for b in members(graph.neighbours[a]) if {a, b} != {u, v}]
            # Closing a set would bring a key's coarsenings in; the graph here has them already.
            freed = Interactions(table, (), tuple(pairs), 0)
            row = [table.vertex_codes(w)[fixed.cell] for w in range(table.n_vertices)]
            rows = vertex_rows(table)
            assert sum(freed.can_swap(freed.difference(row, other)) for other in rows) >= fixed.n_freed > 0


def test_a_cycle_is_decided_by_its_separators() -> None:
    rng = np.random.default_rng(6)
    table = rc.ContingencyTable.from_codes(rng.integers(0, 2, (12, 4)).astype(np.int32), categories([2, 2, 2, 2]))
    cycle = AnyModel(table, tuple(table.mask_of(names) for names in ("ab", "bc", "cd", "da")))
    found = swappability(table, cycle)
    assert found.method == "separators"
    rows = vertex_rows(table)
    for record, is_swappable in enumerate(found.record_is_swappable):
        assert is_swappable == any(brute_swaps(cycle, record, other) for other in range(len(rows)))


def test_a_fitted_hierarchical_model_is_judged_by_its_own_margins_not_by_its_triangulation() -> None:
    from rarecell.model.hierarchical import HierarchicalModel

    codes = np.array([[0, 0, 0, 0], [1, 0, 1, 0], [0, 1, 1, 1], [1, 1, 0, 1]], dtype=np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([2, 2, 2, 2]))
    model = HierarchicalModel(table, generators=[("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")])
    # Records 0 and 1 differ on a and c, which no margin joins; the triangulation joins one of the diagonals.
    assert explain_pair(table, model, 0, 1).swaps == (("c",),)
    assert swappability(table, model).is_swappable.all()


# ---------------------------------------------------------------------- further margins


@settings(max_examples=60)
@given(decomposable_cases(max_records=10), st.data())
def test_further_margins_with_and_without_other_columns(model: rc.DecomposableModel, data: st.DataObject) -> None:
    table = model.table
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    assert table.record_cell is not None
    n_records = len(table.record_cell)
    columns = {"x": rng.integers(0, 2, n_records), "y": rng.integers(0, 3, n_records)}
    names = [*table.keys, *columns]
    keep = data.draw(st.lists(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True), min_size=1, max_size=2))
    found = swappability(table, model, keep=keep, columns=columns)
    rows = [(*row, int(x), int(y)) for row, x, y in zip(vertex_rows(table), columns["x"], columns["y"], strict=True)]
    sets = [members(mask) for mask in model.generator_masks] + [[names.index(name) for name in each] for each in keep]
    used = [name for name in columns if any(name in each for each in keep)]
    assert (found.method == "pairs") == bool(used)
    for one in range(n_records):
        has_partner = False
        for other in range(n_records):
            expected = naive.swaps(rows[one], rows[other], sets, {}, range(table.n_keys))
            has_partner |= bool(expected)
            listed = explain_pair(table, model, one, other, keep=keep, columns=columns).swaps
            assert bool(listed) == bool(expected)
            for moved in listed:
                places = [table.keys.index(key) for key in moved]
                new = [naive.exchanged(rows[one], rows[other], places), naive.exchanged(rows[other], rows[one], places)]
                assert naive.margins(new, sets) == naive.margins([rows[one], rows[other]], sets)
        assert found.record_is_swappable[one] == has_partner


def test_the_cost_of_keeping_a_margin_is_counted_in_records() -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 3, (30, 3)).astype(np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([3, 3, 3]))
    model = rc.DecomposableModel(table, cliques=[("a",), ("b",), ("c",)])
    column = np.array(["x", "y"])[rng.integers(0, 2, 30)]
    cost = cost_of_keeping(table, model, [("a", "b", "c"), ("a", "work"), ("b",)], columns={"work": column})
    assert cost["a", "b", "c"] == 30
    assert cost["b",] == 0
    assert 0 <= cost["a", "work"] <= 30


def test_the_census_sample_has_partners_for_every_unique(census_model: rc.DecomposableModel) -> None:
    found = swappability(census_model.table, census_model)
    assert found.n_swappable_uniques == 1674
    assert found.weight[census_model.table.unique_cells].min() == 189
    assert str(found) == "1,674 of 1,674 sample uniques have a swap partner."


@pytest.fixture(scope="module")
def census_model() -> rc.DecomposableModel:
    table = census_table()
    return rc.DecomposableModel(table, cliques=cliques_by_number(table, "15 16 36 46 37 28 38"))


def test_a_pair_is_explained_with_what_the_run_keeps() -> None:
    table = rc.ContingencyTable.from_codes(np.array([[0, 0], [1, 1], [0, 1]], dtype=np.int32), categories([2, 2]))
    model = rc.DecomposableModel(table, cliques=[])
    assert "differ on a and b. They can be swapped" in str(explain_pair(table, model, 0, 1))
    assert not explain_pair(table, model, 0, 1, keep=[("a", "b")]).can_swap
    assert not explain_pair(table, model, 0, 1, never_swap=("a", "b")).can_swap
    assert explain_pair(table, model, 0, 1, never_swap=("a",)).swaps == (("b",),)
