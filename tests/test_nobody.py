"""Places of a household row that nobody takes: certain by the size, and no part of what is predicted."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from rarecell.model.backoff import BackoffNetwork, fit_backoff
from rarecell.table.categories import NOBODY, Categories, Coarsening
from rarecell.table.coarsening import automatic_coarsenings
from rarecell.table.contingency import ContingencyTable

SIZES = Categories("size", (1, 2, 3), is_ordered=True)
KEYS = tuple(
    Categories(f"{name} {place + 1}", (NOBODY, *range(n)), taken_with=("size", place + 1))
    for place in range(3)
    for name, n in (("sex", 2), ("job", 3))
)


def homes(seed: int, n: int) -> ContingencyTable:
    rng = np.random.default_rng(seed)
    size = rng.choice(3, n, p=[0.3, 0.5, 0.2])
    columns = [size]
    for place in range(3):
        sex, job = rng.integers(1, 3, n), rng.integers(1, 4, n)
        columns += [np.where(size >= place, sex, 0), np.where(size >= place, np.maximum(job, sex), 0)]
    return ContingencyTable.from_codes(np.column_stack(columns).astype(np.int32), (SIZES, *KEYS))


def possible_cells() -> np.ndarray:
    cells = []
    for size in range(3):
        taken = [
            range(1, len(c.levels)) if place <= size else (0,) for place in range(3) for c in KEYS[2 * place : 2 * place + 2]
        ]
        cells += [(size, *values) for values in product(*taken)]
    return np.array(cells, dtype=np.int32)


@pytest.mark.parametrize("seed", range(4))
def test_probabilities_of_households_that_can_be_add_up_to_one(seed: int) -> None:
    order = np.random.default_rng(seed).permutation(7)
    network = BackoffNetwork(homes(seed, 60), order.tolist())
    assert network.order[0] == 0
    assert np.exp(network.log_cell_probability(possible_cells())).sum() == pytest.approx(1.0, abs=1e-9)


def test_occupied_cells_have_the_same_probability_whichever_way_they_are_asked() -> None:
    table = homes(1, 80)
    network = BackoffNetwork(table, range(7))
    assert np.allclose(network.log_cell_probability(), network.log_cell_probability(table.cells))
    draws = network.draws(table.cells, 4_000, np.random.default_rng(0))
    assert np.allclose(np.exp(draws).mean(axis=0), np.exp(network.log_cell_probability()), rtol=0.25)


@pytest.mark.parametrize("way", ["sample", "sample_counts"])
def test_drawn_households_can_be_and_are_as_frequent_as_the_model_says(way: str) -> None:
    network = BackoffNetwork(homes(2, 200), [6, 5, 4, 3, 2, 1, 0])
    rng, n = np.random.default_rng(0), 60_000
    cells, counts = (network.sample(n, rng), np.ones(n, dtype=np.int64)) if way == "sample" else network.sample_counts(n, rng)
    drawn = ContingencyTable.from_counts(cells, counts, (SIZES, *KEYS))
    can_be = {tuple(cell) for cell in possible_cells().tolist()}
    assert {tuple(cell) for cell in drawn.cells.tolist()} <= can_be
    expected = n * np.exp(network.log_cell_probability(drawn.cells))
    common = expected > 200
    assert common.sum() > 20
    assert (np.abs(drawn.counts - expected)[common] < 5 * np.sqrt(expected[common])).all()


def test_nobody_stays_alone_when_levels_are_merged() -> None:
    rng = np.random.default_rng(0)
    size = rng.integers(0, 2, 3_000)
    age = np.where(size == 1, 1 + rng.integers(0, 40, 3_000), 0)
    ages = Categories("age 2", (NOBODY, *range(40)), is_ordered=True, taken_with=("size", 2))
    codes = np.column_stack([size, age, rng.integers(0, 3, 3_000)]).astype(np.int32)
    table = ContingencyTable.from_codes(
        codes, (Categories("size", (1, 2), is_ordered=True), ages, Categories("tenure", (0, 1, 2)))
    )
    found = automatic_coarsenings(table)
    assert {c.key for c in found} == {"age 2"}
    for coarsening in found:
        assert coarsening.labels[0] == NOBODY
        assert np.flatnonzero(coarsening.group_of_level == 0).tolist() == [0]
    assert table.with_coarsenings(found).deciders[1] == (0, 1)
    assert fit_backoff(table.with_coarsenings(found), n_orders=2).log_cell_probability().max() < 0.0


def test_a_coarsening_that_merges_nobody_with_somebody_leaves_nothing_certain() -> None:
    table = homes(0, 50)
    merged = table.with_coarsenings([Coarsening("job 3/2", "job 3", np.array([0, 0, 1, 1]), ("few", "more"))])
    assert table.deciders[6] == (0, 2)
    assert merged.deciders[6] is None
    assert table.project(["sex 2", "job 2"]).deciders == (None, None)
