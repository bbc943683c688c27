"""Search around decomposable models: moves by their definition, scores that only rise, known structures found."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.errors import BadInput, UnknownChoice
from rarecell.model.generating_class import generating_class
from rarecell.model.hierarchical import HierarchicalModel
from rarecell.search.hierarchical import additions, faces_of, fitted_marginal, improve_model
from tests.naive import hierarchical as naive
from tests.strategies import categories, coarsened_tables
from tests.strategies_models import generating_classes


@given(coarsened_tables(max_records=5, max_keys=3, max_levels=4), st.data())
@settings(max_examples=30, deadline=None)
def test_additions_are_the_smallest_sets_outside_the_model(table: rc.ContingencyTable, data: st.DataObject) -> None:
    generators = generating_class(table, data.draw(generating_classes(table)))
    closed = {table.close(mask) for mask in range(1, 2**table.n_vertices)}
    outside = {mask for mask in closed if not any(mask & ~g == 0 for g in generators)}
    smallest = {mask for mask in outside if not any(other != mask and other & mask == other for other in outside)}
    assert set(additions(table, generators)) == smallest
    for mask in closed:
        inside = {other for other in closed if other != mask and other & mask == other}
        maximal = {a for a in inside if not any(a != b and a & b == a for b in inside)}
        assert {face for face in faces_of(table, mask) if face} == maximal


@given(coarsened_tables(max_records=60), st.data())
@settings(max_examples=25, deadline=None)
def test_any_marginal_of_a_model_can_be_had(table: rc.ContingencyTable, data: st.DataObject) -> None:
    model = HierarchicalModel(table, data.draw(generating_classes(table)), must_converge=False)
    mask = table.close(data.draw(st.integers(1, 2**table.n_vertices - 1)))
    expected = np.exp(model.log_cell_probability(naive.every_cell(table))) * table.n_records
    position = table.marginals.positions(mask, naive.every_cell(table))
    summed = np.bincount(position[position >= 0], weights=expected[position >= 0], minlength=len(table.marginals.counts(mask)))
    np.testing.assert_allclose(fitted_marginal(model, mask), summed, rtol=1e-6, atol=1e-6)


def draw_from_factors(levels: list[int], sets: list[tuple[int, ...]], n_records: int, seed: int) -> rc.ContingencyTable:
    """Records from a log-linear model with strong random interactions on these sets."""
    rng = np.random.default_rng(seed)
    log_weight = np.zeros(levels)
    for members in sets:
        shape = [n if k in members else 1 for k, n in enumerate(levels)]
        log_weight = log_weight + rng.normal(0, 1.2, shape)
    weight = np.exp(log_weight).reshape(-1)
    cells = np.array(list(np.ndindex(*levels)), dtype=np.int32)
    return rc.ContingencyTable.from_counts(cells, rng.multinomial(n_records, weight / weight.sum()), categories(levels))


def test_a_cycle_is_found_from_a_chordal_graph() -> None:
    table = draw_from_factors([3, 3, 3, 3], [(0, 1), (1, 2), (2, 3), (0, 3)], 20_000, seed=1)
    start = rc.select_model(table, "bic").best
    found = improve_model(table, [start], criterion="bic")
    assert found.best.generator_masks == (0b0011, 0b1001, 0b0110, 0b1100)
    assert found.is_complete
    assert found.gain > 5
    assert found.score == pytest.approx(max(found.start_scores) + found.gain)
    scores = [found.start_scores[0], *(move.score for move in found.moves)]
    assert all(later > earlier for earlier, later in pairwise(scores))
    assert "dropped" in str(found.moves[0]) or "added" in str(found.moves[0])
    assert "local optima from all starts" in str(found)


def test_a_needless_interaction_is_dropped() -> None:
    table = draw_from_factors([3, 3, 3], [(0, 1), (1, 2), (0, 2)], 10_000, seed=2)
    saturated = rc.DecomposableModel(table, cliques=[("a", "b", "c")])
    found = improve_model(table, [saturated])
    assert found.best.generator_masks == (0b011, 0b101, 0b110)
    assert [(move.vertices, move.added) for move in found.moves] == [(("a", "b", "c"), False)]
    assert found.best.aic < saturated.aic


def test_the_best_of_several_starts_is_kept_and_time_is_limited() -> None:
    table = draw_from_factors([3, 3, 2, 2], [(0, 1), (1, 2), (2, 3), (0, 3)], 5_000, seed=3)
    independent, best = rc.DecomposableModel(table), rc.select_model(table).best
    found = improve_model(table, [independent, best])
    assert len(found.start_scores) == 2
    assert found.score >= max(found.start_scores) - 1e-6
    hurried = improve_model(table, [independent], max_seconds=0.0)
    assert not hurried.is_complete
    assert hurried.moves == ()
    assert "stopped by its time limit" in str(hurried)


def test_bad_requests_are_told() -> None:
    table = draw_from_factors([2, 2], [(0, 1)], 50, seed=4)
    with pytest.raises(BadInput, match="start from"):
        improve_model(table, [])
    with pytest.raises(UnknownChoice, match="bic"):
        improve_model(table, [rc.DecomposableModel(table)], criterion="bayes")
