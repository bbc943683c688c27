"""Lancaster's additive model against its formula written out."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings

import rarecell as rc
from rarecell.errors import BadInput
from rarecell.model.additive import AdditiveModel
from rarecell.risk.records import record_risk
from tests.strategies import categories, tables


def written_out(table: rc.ContingencyTable, cell: tuple[int, ...]) -> float:
    def share(keys: tuple[int, ...]) -> float:
        agrees = (table.cells[:, list(keys)] == np.array([cell[k] for k in keys])).all(axis=1)
        return float(table.counts[agrees].sum() / table.n_records)

    single = [share((v,)) for v in range(len(cell))]
    if min(single) == 0:
        return 0.0
    bracket = 1 + sum(share((a, b)) / (single[a] * single[b]) - 1 for a, b in combinations(range(len(cell)), 2))
    return float(np.prod(single) * bracket)


@settings(max_examples=30)
@given(tables(min_keys=1, max_keys=4, max_levels=3))
def test_equals_the_formula_on_every_cell(table: rc.ContingencyTable) -> None:
    model = AdditiveModel(table)
    everything = list(product(*(range(c.n_levels) for c in table.categories)))
    expected = np.array([written_out(table, cell) for cell in everything])
    np.testing.assert_allclose(model.cell_probability(np.array(everything, dtype=np.int32)), expected, atol=1e-12)
    # What is not clipped adds up to one, and every two-way margin is fitted.
    assert expected.sum() == pytest.approx(1.0)
    of_occupied = np.array([written_out(table, tuple(cell)) for cell in table.cells.tolist()])
    np.testing.assert_allclose(model.cell_probability(), of_occupied, atol=1e-12)
    # An estimate of zero can come out on either side of it.
    assert (of_occupied < -1e-12).sum() <= model.n_negative <= (of_occupied < 1e-12).sum()


def test_two_keys_are_the_saturated_model() -> None:
    table = rc.ContingencyTable.from_counts([[0, 0], [0, 1], [2, 1]], [5, 3, 2], categories([3, 2]))
    np.testing.assert_allclose(np.exp(AdditiveModel(table).log_cell_probability()), [0.5, 0.3, 0.2])


def test_negative_estimates_are_counted_and_clipped() -> None:
    # Each pair of the first record's values never occurs elsewhere, but each value is common.
    cells = [[1, 1, 1, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    table = rc.ContingencyTable.from_counts(cells, [1, 50, 50, 50, 50], categories([2, 2, 2, 2]))
    model = AdditiveModel(table)
    assert model.n_negative == model.n_negative_uniques == 1
    assert "1 of 5 occupied cells" in model.describe()
    risk = record_risk(table, model, population=1000)
    assert risk.expected_population_uniques == 1.0
    with pytest.raises(BadInput, match="not a distribution"):
        model.sample(3, np.random.default_rng(0))
    assert model.generator_masks == (3, 5, 9, 6, 10, 12)
