"""What keeps the work bounded when there are many keys, and that it changes nothing when there are few."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.cli.commands import main
from rarecell.model.additive import AdditiveModel
from rarecell.search import SearchLimits
from rarecell.table import coarsening as resolution
from rarecell.table.marginals import Marginals
from rarecell.table.structural_zeros import FullMarginals, find_structural_zeros
from tests.naive import marginals as naive
from tests.strategies import categories, tables


def records(n_keys: int, n_records: int = 2000, *, seed: int = 0) -> rc.ContingencyTable:
    """Keys that each depend on the one before."""
    rng = np.random.default_rng(seed)
    levels = rng.integers(2, 7, n_keys).tolist()
    codes = [rng.integers(0, levels[0], n_records)]
    for n in levels[1:]:
        codes.append(np.where(rng.random(n_records) < 0.6, codes[-1] % n, rng.integers(0, n, n_records)))
    named = [rc.Categories(f"k{k:02d}", tuple(range(n))) for k, n in enumerate(levels)]
    return rc.ContingencyTable.from_codes(np.stack(codes, axis=1).astype(np.int32), named)


@given(tables(), st.data())
@settings(max_examples=30)
def test_joint_tables_in_one_pass_are_those_counted_pair_by_pair(table: rc.ContingencyTable, data: st.DataObject) -> None:
    key = data.draw(st.integers(0, table.n_keys - 1))
    n_levels = table.categories[key].n_levels
    group = [0, *data.draw(st.lists(st.integers(0, 1), min_size=n_levels - 1, max_size=n_levels - 1))]
    found = resolution._joint_with_other_keys(table, key, np.array(group))
    np.testing.assert_array_equal(found, naive.joint_tables(table, key, group))


@given(tables(min_keys=3), st.integers(1, 3))
@settings(max_examples=30)
def test_full_counts_have_every_cell(table: rc.ContingencyTable, size: int) -> None:
    margins = FullMarginals(table)
    for keys in combinations(range(table.n_keys), size):
        found = margins.counts(keys)
        assert found.shape == tuple(table.categories[k].n_levels for k in keys)
        assert {tuple(cell): found[tuple(cell)] for cell in np.argwhere(found).tolist()} == naive.full_counts(table, keys)
        assert margins.n_occupied(keys) == len(naive.full_counts(table, keys))


def test_of_many_triples_the_most_related_are_searched() -> None:
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 3, (9000, 7))
    codes[:, 1] = np.where(rng.random(9000) < 0.3, codes[:, 0], codes[:, 1])
    codes = codes[~((codes[:, 0] == 1) & (codes[:, 1] == 2) & (codes[:, 2] == 0))]
    table = rc.ContingencyTable.from_codes(codes.astype(np.int32), categories([3] * 7))
    complete = find_structural_zeros(table)
    assert complete.not_searched == ()
    bounded = find_structural_zeros(table, most_visits=5 * table.n_cells)
    assert len(bounded.not_searched) == 30
    assert (
        [c.levels for c in complete.combinations] == [c.levels for c in bounded.combinations] == [(("a", 1), ("b", 2), ("c", 0))]
    )


def test_rules_between_keys_of_very_many_levels_are_found() -> None:
    codes = np.random.default_rng(0).integers(0, 40, (3000, 1))
    table = rc.ContingencyTable.from_codes(np.hstack([codes, codes // 4]).astype(np.int32), categories([40, 10]))
    found = find_structural_zeros(table).dependencies
    assert find_structural_zeros(table, largest_table=100).dependencies == found
    assert [(rule.determinant, rule.dependent) for rule in found] == [("a", "b")]


def test_a_search_ends_at_its_time_limit_and_says_how_far_it_came() -> None:
    table = records(30)
    complete = rc.select_model(table, search="greedy", restarts=1, max_seconds=60)
    assert complete.time_limit is None
    assert "time limit" not in complete.proof
    none = rc.select_model(table, search="greedy", max_seconds=1e-9)
    assert not none.reached_optimum
    assert not none.certified_optimal
    assert "no local optimum: the time limit of 1e-09 s ended the search after" in none.proof
    assert none.score <= complete.score
    some = rc.select_model(table, search="greedy", restarts=100_000, max_seconds=2)
    assert some.time_limit == 2
    assert some.reached_optimum
    assert "the time limit of 2 s (--time-limit) ended the search" in some.proof
    assert list(some.path) == sorted(some.path)


def test_where_a_climb_is_cut_off_it_has_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from rarecell.search import score as known

    table = records(25)
    clock = iter(range(10_000))
    monkeypatch.setattr(known.time, "monotonic", lambda: float(next(clock)))
    scores = []
    for n_looks in (3, 12, 20, 1000):
        found = rc.select_model(table, search="greedy", restarts=1, max_seconds=n_looks)
        model = rc.DecomposableModel(table, cliques=found.best.cliques)
        assert model.aic == pytest.approx(found.best.aic)
        scores.append(found.score)
    assert scores == sorted(scores)


def test_a_run_on_many_keys_tells_of_its_time_limit(tmp_path: Path) -> None:
    table = records(20, 800)
    columns = {key: table.cells[:, k] for k, key in enumerate(table.keys)}
    pq.write_table(pa.table(columns), tmp_path / "survey.parquet")
    arguments = ["assess", str(tmp_path / "survey.parquet"), "--keys", ",".join(table.keys), "--population", "50000", "--quiet"]
    done = CliRunner().invoke(main, [*arguments, "--time-limit", "0.001", "--json", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    search = json.loads((tmp_path / "out" / "summary.json").read_text())["model"]["search"]
    assert search["method"] == "greedy"
    assert "the time limit of 0.001 s ended the search" in search["sentence"]
    assert "time_limit = 0.001" in (tmp_path / "out" / "run.toml").read_text()
    done = CliRunner().invoke(main, [*arguments, "--time-limit", "0"])
    assert done.exit_code == 2


def test_margins_of_many_keys_are_counted_from_the_table() -> None:
    for n_keys, has_projections in ((20, False), (8, True)):
        table = records(n_keys)
        masks = [1 << a | 1 << b for a, b in combinations(range(n_keys), 2)]
        marginals = Marginals(table, worth_projecting=10)
        found = marginals.entropy_terms(np.array(masks, dtype=np.uint64))
        np.testing.assert_allclose(found, [naive.entropy_term(table, mask) for mask in masks])
        assert bool(marginals._bases.items()) == has_projections


def test_an_exact_search_that_takes_too_long_gives_way_to_what_was_found_before() -> None:
    table = records(11)
    exact = rc.select_model(table)
    assert exact.certified_optimal
    assert rc.select_model(table, restarts=1, limits=SearchLimits(most_keys=10)).method == "greedy"
    impatient = SearchLimits(patience=1e-12)
    found = rc.select_model(table, restarts=1, limits=impatient)
    assert not found.certified_optimal
    assert found.method == "greedy"
    assert found.score <= exact.score + 1e-6
    assert rc.select_model(table, search="exact", limits=impatient).certified_optimal


@given(tables(), st.integers(0, 100))
@settings(max_examples=30)
def test_the_additive_model_by_tables_of_pairs_is_that_of_pairs_at_cells(table: rc.ContingencyTable, seed: int) -> None:
    rng = np.random.default_rng(seed)
    others = np.stack([rng.integers(0, c.n_levels, 20) for c in table.categories], axis=1).astype(np.int32)
    slow = AdditiveModel(table, most_terms=-1)
    expected = slow.cell_probability(), slow.cell_probability(others)
    quick = AdditiveModel(table)
    np.testing.assert_allclose(quick.cell_probability(), expected[0], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(quick.cell_probability(others), expected[1], rtol=1e-12, atol=1e-15)
