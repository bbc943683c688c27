"""Candidates for a swap: kernels against plain twins, the search against all pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell._kernels import hashing
from rarecell._kernels import swapping as kernels
from rarecell._kernels.distance import distances as distances_of
from rarecell._kernels.hashing import fill_slots, free_slots
from rarecell.errors import BadInput, UnknownChoice, UnknownColumns
from rarecell.graph.masks import components
from rarecell.swap.choosing import CROWDED, JITTER, priced
from rarecell.swap.partners import SCREENING_WEIGHT, PartnerSearch
from rarecell.swap.rules import SwapConstraints, matching_levels
from rarecell.swap.task import SwapTask
from rarecell.swap.units import Units
from rarecell.table.columns import CodedColumn, code_column
from rarecell.table.distance import Distances
from tests.naive import swap as naive
from tests.naive.intruder import distance_by_rank, family, others
from tests.strategies import categories
from tests.strategies_graph import neighbour_masks
from tests.strategies_swap import decomposable_cases, members, vertex_rows

# ---------------------------------------------------------------------- small kernels


def test_mixing_is_splitmix64() -> None:
    numbers = np.array([0, 1, 2**40, 123456789], dtype=np.int64)
    salted = [naive.mixed(int(number) ^ naive.mixed(3)) for number in numbers]
    assert hashing.mixed_many(numbers, 3).tolist() == salted


def test_cells_are_found_by_their_hash() -> None:
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, 5, (300, 4)), axis=0).astype(np.int32)
    start = np.array([0, 5, 10, 15])
    mixing = hashing.mixed_many(np.arange(20), 0)
    held, asked = cells[::2], cells
    hashed = hashing.hash_rows(held, mixing, start)
    assert hashed.tolist() == [sum(int(mixing[s + c]) for s, c in zip(start, row, strict=True)) % 2**64 for row in held.tolist()]
    slots = free_slots(len(hashed), np.int64)
    fill_slots(hashed, slots)
    table = hashing.HashedCells(slots, hashed, np.ones(len(held), np.int64), np.zeros(len(held), bool), mixing, start)
    position = {tuple(row): k for k, row in enumerate(held.tolist())}
    expected = [position.get(tuple(row), -1) for row in asked.tolist()]
    assert hashing.find_cells(table, hashing.hash_rows(asked, mixing, start)).tolist() == expected
    assert hashing.find_cell(table, hashed[3]) == 3


@given(neighbour_masks(), st.integers(1, 255))
def test_the_lowest_component_is_the_first_of_the_graph(neighbours: tuple[int, ...], allowed: int) -> None:
    inside = allowed & ((1 << len(neighbours)) - 1)
    if inside:
        found = kernels.lowest_component(np.array(neighbours, dtype=np.uint64), np.uint64(inside))
        assert int(found) == components(neighbours, inside)[0]


def distance_matrix(distances: Distances, table: rc.ContingencyTable, k: int) -> list[list[float]]:
    n = table.categories[k].n_levels
    cell = np.zeros(table.n_keys, dtype=int)
    found = []
    for a in range(n):
        for b in range(n):
            one, other = cell.copy(), cell.copy()
            one[k], other[k] = a, b
            found.append(distances.between(table, one, other, 1 << k))
    return np.array(found).reshape(n, n).tolist()


def test_distances_of_every_kind() -> None:
    keys = [
        rc.Categories("rank", ("low", "middle", "high", None), True),
        rc.Categories("income", (0, 10, 100), True),
        rc.Categories("colour", ("blue", "red")),
        rc.Categories("region", ("n", "s", "w")),
    ]
    table = rc.ContingencyTable.from_counts([[0, 0, 0, 0]], [1], keys)
    own = [[0, 2, 5], [2, 0, 1], [5, 1, 0]]
    distances = Distances(kinds={"income": "numeric", "region": own}, weights={"colour": 3.0})
    matrices = [distance_matrix(distances, table, k) for k in range(4)]
    assert matrices[0] == [[0, 0.5, 1, 1], [0.5, 0, 0.5, 1], [1, 0.5, 0, 1], [1, 1, 1, 0]]
    assert matrices[1] == [[0, 0.1, 1], [0.1, 0, 0.9], [1, 0.9, 0]]
    assert matrices[2] == [[0, 3], [3, 0]]
    assert matrices[3] == own
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, c.n_levels, 40) for c in keys], axis=1).astype(np.int32)
    pairs = rng.integers(0, 40, (60, 2))
    moved = rng.integers(0, 16, 60).astype(np.uint64)
    found = distances_of(distances.arrays(table), codes, pairs, moved)
    plain = [[[entry / (3.0 if k == 2 else 1.0) for entry in row] for row in matrix] for k, matrix in enumerate(matrices)]
    for p, (i, j) in enumerate(pairs):
        expected = naive.distance(plain, [1, 1, 3, 1], tuple(codes[i]), tuple(codes[j]), members(int(moved[p])))
        assert found[p] == pytest.approx(expected)


def test_bad_distances_are_refused() -> None:
    table = rc.ContingencyTable.from_counts([[0, 0]], [1], [rc.Categories("a", ("x", "y")), rc.Categories("b", (1, 2), True)])
    for distances, problem in [
        (Distances(kinds={"c": "nominal"}), UnknownColumns),
        (Distances(kinds={"a": "near"}), UnknownChoice),
        (Distances(kinds={"a": "numeric"}), BadInput),
        (Distances(kinds={"a": [[0, 1]]}), BadInput),
        (Distances(kinds={"a": [[0, 1], [2, 0]]}), BadInput),
        (Distances(weights={"a": -1.0}), BadInput),
    ]:
        with pytest.raises(problem):
            distances.arrays(table)


# ---------------------------------------------------------------------- conditions


def test_values_of_conditions() -> None:
    ages = (5, 14, 15, 40, None)

    def matched(wanted: object, levels: tuple[object, ...] = ages) -> list[object]:
        return [level for level, is_in in zip(levels, matching_levels("c", levels, wanted), strict=True) if is_in]

    assert matched("<15") == [5, 14]
    assert matched(">=15") == [15, 40]
    assert matched("14..15") == [14, 15]
    assert matched(["5", 40]) == [5, 40]
    assert matched("!=5") == [14, 15, 40]
    assert matched("missing") == [None]
    assert matched(None) == [None]
    assert matched("99") == []
    assert matched("<15", ("<15", "15+")) == ["<15"]
    assert matched("<north", ("east", "north", "south")) == ["east"]
    with pytest.raises(BadInput, match="cannot be ordered"):
        matched("<15", ("young", 3))
    with pytest.raises(UnknownColumns, match="never_swap"):
        SwapConstraints.from_dict({"never_swop": ["age"]})
    with pytest.raises(BadInput, match="list of columns"):
        SwapConstraints.from_dict({"within": "region"})
    read = SwapConstraints.from_dict({"within": ["region"], "forbidden": [{"age": "<15", "marital": "0"}]})
    assert read.columns == ("region", "age", "marital")
    assert SwapConstraints().columns == ()


@given(
    st.lists(st.dictionaries(st.integers(0, 3), st.sets(st.integers(0, 2)), min_size=1, max_size=3), max_size=3),
    st.integers(0, 2**32),
)
def test_rules_break_only_when_a_swap_creates_them(conditions: list[dict[int, set[int]]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, (6, 4)).astype(np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([3, 3, 3, 3]))
    forbidden = tuple({table.keys[c]: [str(code) for code in wanted] for c, wanted in rule.items()} for rule in conditions)
    search = PartnerSearch(
        SwapTask(table, rc.DecomposableModel(table, cliques=[]), constraints=SwapConstraints(forbidden=forbidden))
    )
    for i in range(6):
        for j in range(6):
            moved = int(rng.integers(0, 16))
            after = naive.exchanged(tuple(codes[i]), tuple(codes[j]), members(moved))
            expected = naive.breaks_a_rule(conditions, tuple(codes[i]), after)
            assert kernels.breaks_a_rule(search.rules, codes[i], codes[j], np.uint64(moved)) == expected


def test_structural_zeros_are_tables_of_excluded_combinations() -> None:
    from rarecell.table.structural_zeros import ExcludedCombination, StructuralZeros

    rng = np.random.default_rng(4)
    codes = rng.integers(0, 3, (30, 3)).astype(np.int32)
    codes[(codes[:, 0] == 0) & (codes[:, 2] == 1), 2] = 2
    table = rc.ContingencyTable.from_codes(codes, categories([3, 3, 3]))
    zeros = StructuralZeros((ExcludedCombination((("a", 0), ("c", 1))), ExcludedCombination((("a", 2), ("b", 2), ("c", 0)))))
    search = PartnerSearch(
        SwapTask(table, rc.DecomposableModel(table, cliques=[]), constraints=SwapConstraints(structural_zeros=zeros))
    )
    rules = [{0: {0}, 2: {1}}, {0: {2}, 1: {2}, 2: {0}}]
    for i in range(30):
        j, moved = int(rng.integers(30)), int(rng.integers(0, 8))
        after = naive.exchanged(tuple(codes[i]), tuple(codes[j]), members(moved))
        expected = naive.breaks_a_rule(rules, tuple(codes[i]), after)
        assert kernels.breaks_a_rule(search.rules, codes[i], codes[j], np.uint64(moved)) == expected


# ---------------------------------------------------------------------- units


def test_columns_of_any_type_are_coded() -> None:
    assert code_column("c", ["b", "a", None, "b"], 4).levels == ("a", "b", None)
    assert code_column("c", np.array([2.5, np.nan, 1.0]), 3)[1] == (1.0, 2.5, None)
    mixed = code_column("c", [1, "1", None, 1], 4)
    assert mixed.codes.tolist() == [0, 1, 2, 0]
    with pytest.raises(BadInput, match="3 records"):
        code_column("c", [1, 2], 3)
    with pytest.raises(BadInput, match="3"):
        code_column("c", CodedColumn(np.zeros(2, np.int32), ("x",)), 3)


def test_units_divide_cells_by_other_columns() -> None:
    codes = np.array([[0, 0], [0, 0], [1, 0], [-1, 0], [0, 0]], dtype=np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([2, 1]))
    units = Units.of(table, ["work"], {"work": ["x", "y", "x", "x", "y"]})
    assert units.codes.tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 0]]
    assert units.counts.tolist() == [1, 2, 1]
    assert units.record_unit.tolist() == [0, 1, 2, -1, 1]
    assert units.values_of("work") == ("x", "y")
    with pytest.raises(UnknownColumns, match="wrk"):
        Units.of(table, ["wrk"], {"work": ["x"] * 5})


# ---------------------------------------------------------------------- the search against all pairs


@settings(max_examples=60)
@given(st.booleans().flatmap(lambda coarse: decomposable_cases(coarsened=coarse, max_records=25)), st.integers(0, 2**32))
def test_the_search_finds_the_cheapest_exchange_of_all_pairs(model: rc.DecomposableModel, seed: int) -> None:
    table = model.table
    rng = np.random.default_rng(seed)
    rows = vertex_rows(table)
    assert table.record_cell is not None
    cells = {tuple(cell): k for k, cell in enumerate(table.cells.tolist())}
    counts = dict(zip(cells, table.counts.tolist(), strict=True))
    probability = dict(zip(cells, np.exp(model.log_cell_probability()).tolist(), strict=True))
    closed = {cell for cell in cells if rng.random() < 0.3}
    intruder = distance_by_rank(table.categories, SCREENING_WEIGHT)
    search = PartnerSearch(SwapTask(table, model, population=table.n_records + 40, link_weight=0.7))
    link = dict(zip(cells, search.around.link.tolist(), strict=True))
    search.is_closed[[cells[cell] for cell in closed]] = True
    search.is_risky[[cells[cell] for cell in closed]] = True
    free = rng.random(table.n_cells) < 0.8
    risky = np.arange(table.n_cells)
    everything = search.exhaustive(risky, free, n_candidates=4)
    near = search.nearest(risky, free, n_candidates=4)
    sets = [members(mask) for mask in model.generator_masks]
    chain = {c[-1]: c[:-1] for c in table.chains}
    row_of = {row[: table.n_keys]: row for row in rows}
    for i, one in enumerate(cells):
        costs = {}
        for j, other in enumerate(cells):
            if not free[j] or i == j:
                continue
            least = math.inf
            for keys in naive.subsets(range(table.n_keys)):
                moved = [v for k in keys for v in (k, *chain[k])]
                new = [naive.exchanged(row_of[one], row_of[other], moved), naive.exchanged(row_of[other], row_of[one], moved)]
                is_same = {new[0][: table.n_keys], new[1][: table.n_keys]} == {one, other}
                if is_same or naive.margins(new, sets) != naive.margins([row_of[one], row_of[other]], sets):
                    continue
                cost = naive.exchange_cost(
                    one,
                    other,
                    keys,
                    apart=search.distances.between(table, one, other, sum(1 << k for k in keys)),
                    counts=counts,
                    closed=closed,
                    probability=probability,
                    link=link,
                    intruder=intruder,
                    n_unseen=40.0,
                    link_weight=0.7,
                )
                least = min(least, cost * (0.5 if other in closed else 1.0))
            if math.isfinite(least):
                costs[j] = least
        best = sorted(costs.values())[:4]
        found = everything.cost[i][np.isfinite(everything.cost[i])]
        assert found == pytest.approx(best)
        for j, cost in zip(everything.unit[i], found, strict=False):
            assert costs[int(j)] == pytest.approx(cost)
        # The bounded search never finds anything cheaper, and only what is allowed.
        for j, cost in zip(near.unit[i], near.cost[i], strict=True):
            if np.isfinite(cost):
                assert cost >= costs[int(j)] - 1e-12


@settings(max_examples=40)
@given(decomposable_cases(max_records=25))
def test_the_bounded_search_on_a_small_file_misses_nobody(model: rc.DecomposableModel) -> None:
    search = PartnerSearch(SwapTask(model.table, model))
    free, risky = np.ones(model.table.n_cells, dtype=bool), np.arange(model.table.n_cells)
    near, everything = search.nearest(risky, free), search.exhaustive(risky, free)
    assert ((near.unit[:, 0] >= 0) == (everything.unit[:, 0] >= 0)).all()
    assert (search.exhaustive_pairs(risky) >= 0).all()


@settings(max_examples=40)
@given(decomposable_cases(max_records=20))
def test_the_first_partner_is_the_first_in_a_random_order_of_the_file(model: rc.DecomposableModel) -> None:
    table = model.table
    search = PartnerSearch(SwapTask(table, model))
    partner, moved = search.first_partners(np.arange(table.n_cells))
    rows, record_cell = vertex_rows(table), table.record_cell
    assert record_cell is not None
    sets = [members(mask) for mask in model.generator_masks]
    for cell in range(table.n_cells):
        one = rows[int(np.flatnonzero(record_cell == cell)[0])]
        possible = {c for row, c in zip(rows, record_cell, strict=True) if naive.swaps(one, row, sets, {}, range(table.n_keys))}
        assert partner[cell] == next((unit for unit in search.random_order if unit in possible), -1)
        assert bool(moved[cell]) == bool(possible)


@settings(max_examples=40)
@given(decomposable_cases(max_records=25), st.integers(0, 2**32))
def test_constraints_hold_for_every_candidate(model: rc.DecomposableModel, seed: int) -> None:
    table = model.table
    rng = np.random.default_rng(seed)
    assert table.record_cell is not None
    region = rng.integers(0, 2, len(table.record_cell))
    constraints = SwapConstraints(
        never_swap=(table.keys[0],), within=("region", table.keys[-1]), forbidden=({table.keys[1]: "0", "region": "1"},)
    )
    search = PartnerSearch(SwapTask(table, model, columns={"region": region}, constraints=constraints))
    units = search.units
    risky = np.arange(units.n_units)
    for lists in (search.nearest(risky, risky >= 0), search.exhaustive(risky, risky >= 0)):
        for i, place in zip(*np.nonzero(np.isfinite(lists.cost)), strict=True):
            j, moved = int(lists.unit[i, place]), int(lists.moved[i, place])
            one, other = tuple(units.codes[i].tolist()), tuple(units.codes[j].tolist())
            assert not moved & 1
            assert one[-1] == other[-1]
            assert one[table.n_keys - 1] == other[table.n_keys - 1]
            for before, after in (
                (one, naive.exchanged(one, other, members(moved))),
                (other, naive.exchanged(other, one, members(moved))),
            ):
                assert not naive.breaks_a_rule([{1: {0}, len(one) - 1: {1}}], before, after)


def test_an_unknown_key_in_a_constraint_is_named() -> None:
    table = rc.ContingencyTable.from_counts([[0, 1]], [1], categories([2, 2]))
    with pytest.raises(UnknownColumns, match="'z'"):
        PartnerSearch(SwapTask(table, rc.DecomposableModel(table, cliques=[]), constraints=SwapConstraints(never_swap=("z",))))


@settings(max_examples=40)
@given(decomposable_cases(max_records=25), st.integers(0, 2**32))
def test_pricing_sees_everybody_who_is_nearer(model: rc.DecomposableModel, seed: int) -> None:
    table = model.table
    rng = np.random.default_rng(seed)
    search = PartnerSearch(SwapTask(table, model, population=table.n_records + 30, seed=seed % 7))
    risky = np.arange(table.n_cells)
    candidates = priced(search, risky, search.exhaustive(risky, rng.random(table.n_cells) < 0.7))
    everybody = np.repeat(table.cells, table.counts, axis=0)
    intruders, crowd = family(table.categories, everybody), (table.n_records + 30) / table.n_records
    cells, link = table.cells, search.around.link
    for i, j, moved, apart, cost in zip(
        candidates.risky, candidates.partner, candidates.moved.tolist(), candidates.distance, candidates.cost, strict=True
    ):
        total = 0.0
        for old, other in ((i, j), (j, i)):
            new = np.array(naive.exchanged(tuple(cells[old]), tuple(cells[other]), members(moved & table.all_keys)))
            strongest = 0.0
            for far in intruders:
                n_nearer, n_tied = others(everybody, new, far(new, cells[old]), far)
                n_rivals = n_tied - table.counts[old]
                if not n_nearer and n_rivals * crowd < CROWDED:
                    strongest = max(strongest, link[old] / (1.0 + link[old] * crowd * n_rivals))
            nobody = (1.0 - np.exp(model.log_cell_probability(new[None, :].astype(np.int32))[0])) ** 30
            total += 0.0 if any((new == cell).all() for cell in cells) else strongest * nobody
            total += link[old] if table.counts[old] == 2 else 0.0
        chance = cost - apart - search.request.link_weight * total
        assert -1e-9 <= chance <= JITTER + 1e-9


@settings(max_examples=25)
@given(decomposable_cases(max_records=20), st.integers(-1, 3), st.sampled_from([0.0, 0.3, 2.0]))
def test_neighbours_in_a_single_key_cover_a_record(model: rc.DecomposableModel, n_probes: int, empty_weight: float) -> None:
    table = model.table
    search = PartnerSearch(SwapTask(table, model, population=table.n_records + 30, empty_weight=empty_weight))
    cells = [tuple(cell) for cell in table.cells.tolist()]
    counts = dict(zip(cells, table.counts.tolist(), strict=True))
    probability = dict(zip(cells, np.exp(model.log_cell_probability()).tolist(), strict=True))
    link = dict(zip(cells, search.around.link.tolist(), strict=True))
    task = search.task(n_probes=n_probes)
    for i, one in enumerate(cells[:6]):
        for j, other in enumerate(cells):
            for moved in (1, 2, 3):
                if i == j or all(one[k] == other[k] for k in members(moved)):
                    continue
                expected = naive.exchange_cost(
                    one,
                    other,
                    members(moved),
                    apart=search.distances.between(table, one, other, moved),
                    counts=counts,
                    closed=set(),
                    probability=probability,
                    link=link,
                    intruder=distance_by_rank(table.categories, SCREENING_WEIGHT),
                    n_unseen=30.0,
                    link_weight=search.request.link_weight,
                    empty_weight=empty_weight,
                    n_probes=n_probes,
                    negligible=kernels.NEGLIGIBLE,
                )
                assert kernels.exchange_cost(task, i, j, np.uint64(moved), np.inf) == pytest.approx(expected)
