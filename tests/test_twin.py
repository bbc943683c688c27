"""Synthetic twins: exact tables, uniform draws, amounts within bands."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
import rarecell.swap.twin as twin_module
from rarecell._kernels.exchanges import exchange_pairs
from rarecell._kernels.hashing import find_cells, hash_rows
from rarecell.errors import BadInput
from rarecell.graph.chordal import ChordalGraph
from rarecell.release.utility import BothFiles
from rarecell.search import select_model
from rarecell.search.score import make_score
from rarecell.swap.formal.mechanism import rooted_tree
from rarecell.swap.twin import exchanged_twin, k_marginal_score, pairs_within, smoothed_amounts, synthetic_twin
from tests.naive import exchanges as naive_exchanges
from tests.naive import search as naive_search
from tests.strategies import tables
from tests.strategies_swap import decomposable_cases

FEW = settings(max_examples=40, deadline=None)


@given(decomposable_cases(coarsened=True), st.sampled_from([None, 2.0]))
@FEW
def test_every_clique_table_is_the_original_one(model: rc.DecomposableModel, epsilon: float | None) -> None:
    table = model.table
    twin = synthetic_twin(table, model, epsilon=epsilon, seed=1)
    assert (twin.statement is None) == (epsilon is None)
    original = table.cells[table.record_cell]
    for clique in model.graph.clique_masks:
        columns = [
            table.map_cells(codes, v) for codes in (original, twin.codes) for v in range(table.n_vertices) if clique >> v & 1
        ]
        half = len(columns) // 2
        before, after = (sorted(zip(*(c.tolist() for c in part), strict=True)) for part in (columns[:half], columns[half:]))
        assert before == after
    assert set(twin.n_changed_cells.values()) <= {0}
    for k in range(table.n_keys):
        assert sorted(twin.sources[:, k].tolist()) == list(range(len(original)))
        assert (original[twin.sources[:, k], k] == twin.codes[:, k]).all()


def test_changed_cells_are_counted() -> None:
    categories = [rc.Categories(name, (0, 1)) for name in "ab"]
    table = rc.ContingencyTable.from_codes(np.array([[0, 0], [0, 0], [1, 1]], dtype=np.int32), categories)
    model = rc.DecomposableModel(table, cliques=[("a", "b")])
    twin = synthetic_twin(table, model, seed=0)
    broken = type(twin)(table, model, np.array([[0, 1], [0, 0], [1, 0]], dtype=np.int32), twin.sources)
    assert broken.n_changed_cells == {("a", "b"): 4}


def test_all_files_of_the_fibre_are_equally_likely() -> None:
    """00, 01, 10 under independence: of the three places of the 1 in the second column, one gives 00, 00, 11."""
    categories = [rc.Categories(name, (0, 1)) for name in "ab"]
    table = rc.ContingencyTable.from_codes(np.array([[0, 0], [0, 1], [1, 0]], dtype=np.int32), categories)
    model = rc.DecomposableModel(table, cliques=[("a",), ("b",)])
    drawn = [synthetic_twin(table, model, seed=seed).codes for seed in range(900)]
    both_ones = sum(bool((codes == 1).all(axis=1).any()) for codes in drawn)
    assert both_ones == pytest.approx(300, abs=4 * np.sqrt(900 * 2 / 9))
    # Rows are in a new order: the record with a 1 in the first column stands anywhere.
    assert len({int(codes[:, 0].argmax()) for codes in drawn}) == 3


def test_a_twin_needs_its_records_and_a_tree() -> None:
    categories = [rc.Categories(name, (0, 1)) for name in "ab"]
    counted = rc.ContingencyTable.from_counts([[0, 0], [1, 1]], [2, 3], categories)
    with pytest.raises(BadInput, match="every record"):
        synthetic_twin(counted, rc.DecomposableModel(counted, cliques=[("a",), ("b",)]))


@settings(max_examples=15, deadline=None)
@given(tables(max_keys=4), st.integers(2, 6))
def test_the_best_model_without_small_cells(table: rc.ContingencyTable, least: int) -> None:
    score = make_score(table, "aic")

    def is_allowed(graph: ChordalGraph) -> bool:
        return all(clique.bit_count() < 2 or int(table.marginals.counts(clique).min()) >= least for clique in graph.clique_masks)

    best = max(naive_search.graph_score(score, graph) for graph in naive_search.chordal_graphs(table.n_keys) if is_allowed(graph))
    found = select_model(table, least_count=least)
    assert is_allowed(found.best.graph)
    assert found.score == pytest.approx(best)
    greedy = select_model(table, search="greedy", least_count=least)
    assert is_allowed(greedy.best.graph)


def test_k_marginal_score() -> None:
    rng = np.random.default_rng(0)
    categories = [rc.Categories(name, tuple(range(3))) for name in "abc"]
    files = [rng.integers(0, 3, (50, 3)).astype(np.int32) for _ in range(2)]
    before, after = (rc.ContingencyTable.from_codes(codes, categories) for codes in files)
    apart = []
    for one, other in combinations(range(3), 2):
        counts = [np.histogram2d(codes[:, one], codes[:, other], bins=3)[0] for codes in files]
        apart.append(np.abs(counts[0] - counts[1]).sum() / 100)
    assert k_marginal_score(BothFiles.of(before, after)) == pytest.approx(1000 * (1 - np.mean(apart)))
    assert k_marginal_score(BothFiles.of(before, before)) == 1000.0


@given(st.integers(0, 100))
@FEW
def test_smoothed_amounts_stay_in_their_band_and_copy_nobody(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.exp(rng.normal(10, 1, 200))
    band = np.digitize(values, np.quantile(values, [0.25, 0.5, 0.75])).astype(np.int32)
    new = rng.permutation(band)
    drawn = smoothed_amounts(values, band, new, rng)
    for code in range(4):
        inside = values[band == code]
        assert inside.min() <= drawn[new == code].min()
        assert drawn[new == code].max() <= inside.max()
    assert drawn.max() < values.max()
    assert not set(drawn.tolist()) & set(values.tolist())


@given(decomposable_cases(coarsened=True), st.sampled_from([0, 1, 3]), st.booleans(), st.integers(0, 3))
@FEW
def test_exchanges_are_those_that_counting_everything_anew_allows(
    model: rc.DecomposableModel, most: int, is_nearer: bool, seed: int
) -> None:
    table = model.table
    original = table.cells[table.record_cell]
    rows = np.array(synthetic_twin(table, model, seed=seed).codes, order="C")
    uniques, pairs = twin_module._unique_cells(table), twin_module._pair_tables(table, rows)
    for edge in rooted_tree(model.graph, model.graph.clique_masks[0]).edges:
        moved = list(edge.keys_moved(table))
        first, second = pairs_within(table, rows, edge, np.random.default_rng(seed))
        expected = naive_exchanges.exchanged(
            original, rows, list(zip(first.tolist(), second.tolist(), strict=True)), moved, most, is_nearer
        )
        hashed = hash_rows(rows, uniques.mixing, uniques.start)
        cell = find_cells(uniques, hashed)
        standing = np.bincount(cell[cell >= 0], minlength=len(uniques.hashed)).astype(np.int64)
        stays = np.array([k for k in range(table.n_keys) if k not in moved], dtype=np.int64)
        columns = np.array(moved, dtype=np.int64)
        exchange_pairs(rows, hashed, first, second, columns, stays, pairs, uniques, standing, most, is_nearer)
        assert (rows == expected).all()
        assert (standing > 0).sum() == naive_exchanges.copies(original, rows)
        assert (hashed == hash_rows(rows, uniques.mixing, uniques.start)).all()
        assert np.abs(pairs.more).sum() == naive_exchanges.apart(original, rows)


@given(decomposable_cases(coarsened=True), st.sampled_from([None, 0.0, 0.3]), st.booleans())
@FEW
def test_exchanges_keep_every_clique_table(model: rc.DecomposableModel, max_copies: float | None, near_pairs: bool) -> None:
    twin = synthetic_twin(model.table, model, seed=1)
    after = exchanged_twin(twin, max_copies=max_copies, near_pairs=near_pairs, seed=1).twin
    assert set(after.n_changed_cells.values()) <= {0}
    original = model.table.cells[model.table.record_cell]
    for k in range(model.table.n_keys):
        assert (original[after.sources[:, k], k] == after.codes[:, k]).all()
    unique = int((model.table.counts == 1).sum())
    assert after.copies * unique == pytest.approx(naive_exchanges.copies(original, after.codes))


@pytest.fixture(scope="module")
def chain() -> rc.DecomposableModel:
    """Six columns, each of which depends on the one before and a little on the first."""
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 8, 1500)]
    for _ in range(5):
        columns.append((columns[-1] + rng.integers(0, 4, 1500) + (columns[0] == 3)) % 8)
    categories = [rc.Categories(name, tuple(range(8))) for name in "abcdef"]
    table = rc.ContingencyTable.from_codes(np.column_stack(columns).astype(np.int32), categories)
    return rc.DecomposableModel(table, cliques=["ab", "bc", "cd", "de", "ef"])


def test_copies_fall_and_tables_come_nearer(chain: rc.DecomposableModel) -> None:
    twin = synthetic_twin(chain.table, chain, seed=2)
    few = exchanged_twin(twin, max_copies=twin.copies / 2, seed=2).twin
    assert few.copies <= twin.copies / 2
    near = exchanged_twin(twin, near_pairs=True, seed=2).twin
    assert k_marginal_score(near.both) > k_marginal_score(twin.both) + 20
    both = exchanged_twin(twin, max_copies=twin.copies / 2, near_pairs=True, seed=2)
    assert both.n_exchanges > 0
    assert both.twin.copies <= twin.copies / 2
    assert k_marginal_score(both.twin.both) > k_marginal_score(twin.both) + 20
    for each in (few, near, both.twin):
        assert set(each.n_changed_cells.values()) == {0}
    # A twin that has no more copies than allowed is left alone.
    assert exchanged_twin(twin, max_copies=twin.copies, seed=2).n_exchanges == 0


def test_what_cannot_be_exchanged_stays(chain: rc.DecomposableModel) -> None:
    saturated = rc.DecomposableModel(chain.table, cliques=["abcdef"])
    twin = synthetic_twin(chain.table, saturated, seed=0)
    after = exchanged_twin(twin, max_copies=0.0, near_pairs=True, seed=0)
    assert (after.n_exchanges, after.twin.copies) == (0, 1.0)
