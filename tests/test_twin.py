"""Synthetic twins: exact tables, uniform draws, amounts within bands."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.errors import BadInput
from rarecell.graph.chordal import ChordalGraph
from rarecell.release.utility import BothFiles
from rarecell.search import select_model
from rarecell.search.score import make_score
from rarecell.swap.twin import k_marginal_score, smoothed_amounts, synthetic_twin
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
