"""Scans over sets of keys, against counting every set in a dictionary."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell import datasets
from rarecell.cli.commands import main
from rarecell.errors import Cancelled
from rarecell.progress import SilentProgress
from rarecell.risk.key_sets import KeySet, scan_subsets
from rarecell.table.uniqueness import Columns, Undecided, UniquesOfChanged
from tests.naive.marginals import marginal_counts
from tests.strategies import categories, coarsened_tables, tables
from tests.test_run_roles import population


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


def lumpy(n_keys: int, n_records: int, *, seed: int = 0) -> rc.ContingencyTable:
    rng = np.random.default_rng(seed)
    levels = rng.integers(2, 12, n_keys).tolist()
    codes = np.stack([np.minimum(rng.geometric(2 / n, n_records) - 1, n - 1) for n in levels], axis=1)
    return rc.ContingencyTable.from_codes(codes.astype(np.int32), categories(levels))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("top", [1, 7])
def test_sets_are_ruled_out_without_changing_the_answer(size: int, top: int) -> None:
    for seed in range(3):
        table = lumpy(13, 900, seed=seed)
        everything = scan_subsets(table, size=size, population=10_000, top=10**6)
        assert everything.n_counted == everything.n_possible == comb(13, size)
        found = scan_subsets(table, size=size, population=10_000, top=top)
        assert found.is_complete
        assert found.sets == everything.sets[:top]
        assert found.n_counted + found.n_ruled_out == found.n_possible
    if size == 4:
        assert found.n_ruled_out > 0.5 * found.n_possible
        assert "cannot be among the riskiest" in str(found)


@given(tables(min_keys=3), st.data())
@settings(max_examples=40)
def test_splits_and_bounds(table: rc.ContingencyTable, data: st.DataObject) -> None:
    keys = data.draw(st.permutations(range(table.n_keys)))
    cells = Undecided.of(Columns(table))
    for depth, key in enumerate(keys[:-1]):
        cells = cells.split_by(key)
        mask = sum(1 << k for k in keys[: depth + 1])
        counted = marginal_counts(table, mask)
        assert cells.n_unique <= sum(n == 1 for n in counted.values())
        assert sorted(np.diff(cells.starts).tolist()) == sorted(
            n for n in Counter(tuple(row[sorted(keys[: depth + 1])]) for row in table.cells).values() if n > 1
        )
        for further in range(depth + 1, table.n_keys):
            more = keys[depth + 1 : further + 1]
            n_levels = np.prod([table.categories[k].n_levels for k in more])
            true = sum(n == 1 for n in marginal_counts(table, mask | sum(1 << k for k in more)).values())
            (bound,) = cells.bounds([float(n_levels)])
            assert true <= bound <= table.n_records
            # Groups that are too large to be told apart make the bound wider, never wrong.
            assert bound <= cells.bounds([float(n_levels)], largest_group=2)[0]
            if len(more) == 1:
                assert cells.n_unique_with(more[0]) == true


@given(coarsened_tables(max_records=40))
@settings(max_examples=30)
def test_uniques_if_a_key_were_coarser_or_left_out(table: rc.ContingencyTable) -> None:
    uniques = UniquesOfChanged(table)
    for key in table.keys:
        others = [other for other in table.keys if other != key]
        assert uniques.count(key, None) == table.project(others).size_indices.get(1, 0)
    for coarsening in table.coarsenings:
        assert uniques.count(coarsening.key, coarsening) == table.recode(coarsening).size_indices.get(1, 0)
        # A coarsening need not be a vertex of the table.
        without = UniquesOfChanged(table.with_coarsenings(()))
        assert without.count(coarsening.key, coarsening) == uniques.count(coarsening.key, coarsening)


def test_a_scan_that_runs_out_of_time_says_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    table = lumpy(12, 900)
    truth = scan_subsets(table, size=4, population=10_000, top=3)
    clock = iter(range(10**6))
    monkeypatch.setattr("rarecell.risk.key_sets.time.monotonic", lambda: float(next(clock)))
    found = scan_subsets(table, size=4, population=10_000, top=3, max_seconds=20)
    assert not found.is_complete
    assert found.sets
    assert truth.sets[0].sample_uniques <= max(found.most_left, found.sets[0].sample_uniques)
    assert "were not reached before the time limit of 20 s; none of them" in str(found)


def test_a_scan_can_be_stopped() -> None:
    class Stopped(SilentProgress):
        def cancelled(self) -> bool:
            return True

    with pytest.raises(Cancelled):
        scan_subsets(lumpy(12, 300), size=4, population=1000, progress=Stopped())


def test_the_command_prints_the_sets() -> None:
    arguments = ["scan", str(datasets.census_sample_path()), "--keys", ",".join(datasets.CENSUS_KEYS), "--size", "3"]
    done = CliRunner().invoke(main, [*arguments, "--population", "277677", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["sets_possible"] == 56
    assert "age" in found["sets"][0]["keys"]
    done = CliRunner().invoke(main, [*arguments, "--population", "277677"])
    assert "sets of 3 keys were counted" in done.output or "cannot be among the riskiest" in done.output
    assert "Assess the riskiest set with:\n  rarecell assess" in done.output
    done = CliRunner().invoke(main, [*arguments[:-1], "9", "--population", "277677"])
    assert done.exit_code == 1
    assert "between 1 and 8" in done.output


@pytest.mark.parametrize(("n_keys", "size"), [(1, 1), (2, 1), (4, 3), (5, 4), (6, 5), (8, 5)])
def test_a_file_of_few_keys_is_scanned_without_a_size(n_keys: int, size: int) -> None:
    words = [
        "scan",
        str(datasets.census_sample_path()),
        "--keys",
        ",".join(datasets.CENSUS_KEYS[:n_keys]),
        "--population",
        "277677",
    ]
    done = CliRunner().invoke(main, [*words, "--json", "--quiet"])
    assert done.exit_code == 0, done.output
    assert {len(found["keys"]) for found in json.loads(done.stdout)["sets"]} == {size}


def test_the_command_reads_what_other_commands_read(tmp_path: Path) -> None:
    sample = str(datasets.census_sample_path())
    by_query = [
        "scan",
        sample,
        "--sql",
        "SELECT sex, age, marital, 28.0 AS w FROM data WHERE CAST(age AS INT) > 20",
        "--weight",
        "w",
    ]
    done = CliRunner().invoke(main, [*by_query, "--keys", "sex,age,marital", "--size", "2", "--quiet"])
    assert done.exit_code == 0, done.output
    # The command that is proposed works as it is printed.
    proposed = shlex.split(done.output.rpartition("with:\n")[2])
    assert proposed[:2] == ["rarecell", "assess"]
    again = CliRunner().invoke(main, [*proposed[1:-2], "--json", "--quiet"])
    assert again.exit_code == 0, again.output
    assert [key["name"] for key in json.loads(again.stdout)["keys"]] == ["age", "marital"]
    config = tmp_path / "run.toml"
    config.write_text(f"input = {json.dumps(sample)}\nkeys = ['sex', 'age']\npopulation = 277677\n[coding.age]\nwidth = 50\n")
    done = CliRunner().invoke(main, ["scan", "--config", str(config), "--size", "2", "--json", "--quiet"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["sets"][0]["sample_uniques"] == 0
    assert CliRunner().invoke(main, ["scan", sample, "--keys", "sex,age", "--size", "2"]).exit_code == 1


def test_the_sets_that_are_named_have_the_estimate_of_a_run_of_their_own(tmp_path: Path) -> None:
    people = population(600, seed=2)
    pq.write_table(people, tmp_path / "people.parquet")
    arguments = ["scan", str(tmp_path / "people.parquet"), "--keys", "age,sex,job,town", "--size", "2", "--top", "3"]
    done = CliRunner().invoke(main, [*arguments, "--population", "5000", "--json", "--quiet"])
    assert done.exit_code == 0, done.output
    for one in json.loads(done.output)["sets"]:
        alone = rc.assess(people, keys=one["keys"], population=5_000).summary.risk
        assert one["modelled_population_uniques"] == pytest.approx(alone.expected_population_uniques)


def test_names_and_amounts_are_left_out_and_named(tmp_path: Path) -> None:
    draw = np.random.default_rng(8)
    n = 600
    path = tmp_path / "people.parquet"
    pq.write_table(
        pa.table(
            {
                "pid": np.arange(n),
                "age": draw.integers(18, 90, n),
                "sex": draw.integers(0, 2, n),
                "region": draw.integers(0, 9, n),
                "amount": draw.lognormal(8, 1, n),
            }
        ),
        path,
    )
    words = ["scan", str(path), "--keys", "pid,age,sex,region,amount", "--size", "2", "--population", "50000", "--quiet"]
    answer = CliRunner().invoke(main, words)
    assert answer.exit_code == 0, answer.output
    assert "hardly anybody knows identifiers: 'pid'." in answer.output
    assert "hardly anybody knows amounts: 'amount'." in answer.output
    assert "--keys age,region" in answer.output
    # Without keys, every column is tried that somebody could know.
    unasked = CliRunner().invoke(main, ["scan", str(path), "--size", "2", "--population", "50000", "--quiet"])
    assert unasked.exit_code == 0, unasked.output
    assert unasked.output == answer.output


def test_the_first_answer_comes_before_the_proof() -> None:
    draw = np.random.default_rng(4)
    names = [f"k{place}" for place in range(9)]
    people = pa.table({name: draw.integers(0, 2 + place, 300) for place, name in enumerate(names)})
    table = rc.Microdata(people, keys=names).table()
    answers: list[KeySet] = []
    scan = rc.scan_subsets(table, size=3, population=10_000, top=5, on_first=answers.append)
    assert len(answers) == 1
    assert len(answers[0].keys) == 3
    assert answers[0].sample_uniques <= scan.sets[0].sample_uniques
