"""Scans over sets of keys, against counting every set in a dictionary."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell import datasets
from rarecell.cli import main
from rarecell.scan import scan_subsets
from tests.naive.marginals import marginal_counts
from tests.strategies import categories, tables


@given(tables(min_keys=3), st.integers(1, 3))
@settings(max_examples=30)
def test_a_complete_scan_finds_the_riskiest_sets(table: rc.ContingencyTable, size: int) -> None:
    found = scan_subsets(table, size=size, population=10 * table.n_records, top=100)
    counted = {
        tuple(table.keys[k] for k in keys): sum(n == 1 for n in marginal_counts(table, sum(1 << k for k in keys)).values())
        for keys in combinations(range(table.n_keys), size)
    }
    assert found.is_complete
    assert {one.keys: one.sample_uniques for one in found.sets} == counted
    assert [one.sample_uniques for one in found.sets] == sorted(counted.values(), reverse=True)


def test_a_beam_search_finds_what_counting_every_set_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    levels = rng.integers(2, 9, 14).tolist()
    codes = np.stack([rng.integers(0, n, 600) for n in levels], axis=1).astype(np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories(levels))
    complete = scan_subsets(table, size=4, population=10_000, top=5)
    monkeypatch.setattr("rarecell.scan.MOST_SETS", 10)
    grown = scan_subsets(table, size=4, population=10_000, top=5)
    assert not grown.is_complete
    assert grown.n_counted < complete.n_counted
    assert grown.sets[0] == complete.sets[0]
    assert "grown" in str(grown)


def test_large_files_are_ranked_on_a_part_and_counted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    levels = [40, 30, 3, 2, 5]
    codes = np.stack([rng.integers(0, n, 5000) for n in levels], axis=1).astype(np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories(levels))
    whole = scan_subsets(table, size=2, population=100_000, top=1)
    monkeypatch.setattr("rarecell.scan.MANY_RECORDS", 1000)
    assert scan_subsets(table, size=2, population=100_000, top=3).sets[0].sample_uniques == whole.sets[0].sample_uniques


def test_the_command_prints_the_sets() -> None:
    arguments = ["scan", str(datasets.census_sample_path()), "--keys", ",".join(datasets.CENSUS_KEYS), "--size", "3"]
    done = CliRunner().invoke(main, [*arguments, "--population", "277677", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["sets_possible"] == 56
    assert "age" in found["sets"][0]["keys"]
    done = CliRunner().invoke(main, [*arguments, "--population", "277677"])
    assert "all were counted" in done.output
    done = CliRunner().invoke(main, [*arguments[:-1], "9", "--population", "277677"])
    assert done.exit_code == 1
    assert "between 1 and 8" in done.output
