"""Decomposable models against brute force, closed forms and the numbers of an independent program."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.graph import ChordalGraph, random_chordal_graph
from rarecell.model.average import AverageModel
from rarecell.search.score import make_score
from tests.naive.marginals import marginal_counts
from tests.naive.search import graph_score
from tests.reference import adult_table, census_table, cliques_by_number
from tests.strategies import categories, coarsened_tables, tables


def all_cells(table: rc.ContingencyTable) -> np.ndarray:
    grids = np.meshgrid(*(np.arange(c.n_levels) for c in table.categories), indexing="ij")
    return np.array(grids).reshape(table.n_keys, -1).T.astype(np.int32)


@st.composite
def fitted(draw: st.DrawFn) -> rc.DecomposableModel:
    table = draw(coarsened_tables())
    graph = random_chordal_graph(table.n_keys, np.random.default_rng(draw(st.integers(0, 2**32 - 1))))
    return rc.DecomposableModel(table, cliques=[table.names_of(mask) for mask in graph.clique_masks])


@given(fitted())
@settings(max_examples=60, deadline=None)
def test_probabilities_sum_to_one_and_fit_every_clique(model: rc.DecomposableModel) -> None:
    table = model.table
    cells = all_cells(table)
    probability = np.exp(model.log_cell_probability(cells))
    assert probability.sum() == pytest.approx(1.0)
    for clique in model.generator_masks:
        fitted_margin: dict[tuple[int, ...], float] = {}
        members = [v for v in range(table.n_vertices) if clique >> v & 1]
        for place, row in enumerate(zip(*(table.map_cells(cells, v).tolist() for v in members), strict=True)):
            fitted_margin[row] = fitted_margin.get(row, 0.0) + probability[place]
        counted = marginal_counts(table, clique)
        for row, p in fitted_margin.items():
            assert p * table.n_records == pytest.approx(counted[row], abs=1e-7)


@given(fitted())
@settings(max_examples=40, deadline=None)
def test_likelihoods_are_those_of_the_cells(model: rc.DecomposableModel) -> None:
    counts, log_p = model.table.counts, model.log_cell_probability()
    assert model.log_likelihood_kernel == pytest.approx(float(counts @ log_p))
    coefficient = math.lgamma(model.table.n_records + 1) - sum(math.lgamma(n + 1) for n in counts.tolist())
    assert model.log_likelihood == pytest.approx(float(counts @ log_p) + coefficient)
    saturated = float(counts @ np.log(counts / model.table.n_records))
    assert model.deviance == pytest.approx(2 * (saturated - float(counts @ log_p)), abs=1e-6)
    assert model.aic == pytest.approx(2 * model.degrees_of_freedom - 2 * model.log_likelihood)
    score = graph_score(make_score(model.table, "aic"), model.graph)
    assert score == pytest.approx(model.log_likelihood_kernel - model.degrees_of_freedom)


@given(tables(max_keys=4))
@settings(max_examples=40, deadline=None)
def test_degrees_of_freedom_are_the_rank_of_the_design(table: rc.ContingencyTable) -> None:
    graph = random_chordal_graph(table.n_keys, np.random.default_rng(table.n_records))
    model = rc.DecomposableModel(table, graph=graph)
    cells = all_cells(table)
    columns = [np.ones(len(cells))]
    for clique in graph.clique_masks:
        members = [v for v in range(table.n_keys) if clique >> v & 1]
        _, position = np.unique(cells[:, members], axis=0, return_inverse=True)
        columns.extend(np.eye(position.max() + 1)[position.ravel()].T)
    assert model.degrees_of_freedom == np.linalg.matrix_rank(np.stack(columns)) - 1


def test_samples_have_the_model_s_margins() -> None:
    table = census_table()
    model = rc.DecomposableModel(table, cliques=cliques_by_number(table, "15 16 36 46 37 28 38"))
    drawn = rc.ContingencyTable.from_codes(model.sample(200_000, np.random.default_rng(5)), table.categories)
    for clique in model.generator_masks:
        expected = table.marginals.counts(clique) / table.n_records
        cells = table.cells[np.unique(table.marginals.cell_index(clique), return_index=True)[1]]
        found = drawn.marginals.lookup(clique, cells) / drawn.n_records
        z = (found - expected) / np.sqrt(expected * (1 - expected) / drawn.n_records)
        assert abs(z).max() < 6
    assert np.isfinite(model.log_cell_probability(drawn.cells)).all()


@pytest.mark.parametrize(
    ("cliques", "degrees_of_freedom"),
    [("126 167 268 367 46 56", 1728), ("167 367 168 28 46 56", 1971)],
)
def test_the_paper_s_models_have_the_paper_s_degrees_of_freedom(cliques: str, degrees_of_freedom: int) -> None:
    levels = [14, 2, 91, 5, 14, 7, 2, 5]
    table = rc.ContingencyTable.from_codes(np.zeros((1, 8), dtype=np.int32), categories(levels))
    assert rc.DecomposableModel(table, cliques=cliques_by_number(table, cliques)).degrees_of_freedom == degrees_of_freedom


def test_reference_numbers_of_the_census_sample() -> None:
    table = census_table()
    assert [c.n_levels for c in table.categories] == [14, 2, 91, 5, 5, 7, 2, 5]
    assert (table.n_cells, table.size_indices[1]) == (2879, 1674)
    model = rc.DecomposableModel(table, cliques=cliques_by_number(table, "15 16 36 46 37 28 38"))
    assert [(s, n) for s, n in model.separators] == [(("relationship",), 1), (("age",), 2), (("spouse",), 2), (("child_age",), 1)]
    assert model.degrees_of_freedom == 1271
    assert model.log_likelihood_kernel == pytest.approx(-76893.731, abs=5e-4)
    assert model.log_likelihood == pytest.approx(-10018.593, abs=5e-4)
    assert model.aic == pytest.approx(22579.187, abs=5e-4)


def test_reference_numbers_of_the_adult_sample() -> None:
    table = adult_table()
    assert [c.n_levels for c in table.categories] == [72, 8, 16, 7, 15, 6, 5, 2, 40]
    assert (table.n_cells, table.size_indices[1]) == (4256, 3834)
    model = rc.DecomposableModel(table, cliques=cliques_by_number(table, "14 25 35 46 67 568 79"))
    assert model.degrees_of_freedom == 1261
    assert model.log_likelihood_kernel == pytest.approx(-58851.854, abs=5e-4)
    assert model.log_likelihood == pytest.approx(-22797.768, abs=5e-4)
    assert model.aic == pytest.approx(48117.536, abs=5e-4)


def test_a_graph_that_is_not_chordal_is_refused_with_its_cycle() -> None:
    table = rc.ContingencyTable.from_codes(np.zeros((2, 4), dtype=np.int32), categories([2, 2, 2, 2]))
    with pytest.raises(rc.RarecellError, match="without a chord") as problem:
        rc.DecomposableModel(table, cliques=["ab", "bc", "cd", "da"])
    assert set(problem.value.cycle) == set("abcd")


@given(fitted())
@settings(max_examples=20, deadline=None)
def test_a_model_survives_json(model: rc.DecomposableModel) -> None:
    again = rc.DecomposableModel.from_dict(model.table, json.loads(json.dumps(model.to_dict())))
    assert again.graph == model.graph


def test_an_average_is_the_mean_of_probabilities() -> None:
    table = census_table()
    one = rc.DecomposableModel(table, cliques=[])
    two = rc.DecomposableModel(table, graph=ChordalGraph.from_clique_masks(8, [255]))
    average = AverageModel([one, two], weights=[1, 3])
    expected = 0.25 * np.exp(one.log_cell_probability()) + 0.75 * table.counts / table.n_records
    np.testing.assert_allclose(np.exp(average.log_cell_probability()), expected, rtol=1e-12)
    assert average.sample(100, np.random.default_rng(0)).shape == (100, 8)
    with pytest.raises(rc.RarecellError, match="weights"):
        AverageModel([one, two], weights=[1])
