"""One record of a run: why it is risky, and with whom it could be swapped; people count from 1."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.cli import main
from rarecell.errors import BadInput, UnknownColumns
from rarecell.swap.pairs import candidates, explain_pair

LEVELS = (4, 3, 2, 2)
CLIQUES = [[("a", "b"), ("b", "c"), ("d",)], [("a",), ("b",), ("c",), ("d",)], [("a", "b", "c"), ("c", "d")]]


def table_of(rows: list[tuple[int, ...]]) -> rc.ContingencyTable:
    columns = {name: [row[k] for row in rows] for k, name in enumerate("abcd")}
    return rc.Microdata(pa.table(columns), keys=list("abcd")).table()


rows_strategy = st.lists(st.tuples(*(st.integers(0, n - 1) for n in LEVELS)), min_size=3, max_size=12).map(
    lambda rows: [*rows, (0, 0, 0, 0), (3, 2, 1, 1)]
)


@settings(max_examples=40)
@given(rows=rows_strategy, cliques=st.sampled_from(CLIQUES), record=st.integers(0, 2))
def test_the_candidate_list_holds_every_possible_exchange(
    rows: list[tuple[int, ...]], cliques: list[tuple[str, ...]], record: int
) -> None:
    table = table_of(rows)
    model = rc.DecomposableModel(table, cliques=cliques)
    found = candidates(table, model, record, most=10**6)
    assert table.record_cell is not None
    expected: dict[tuple[int, tuple[str, ...]], float] = {}
    with_exchange = set()
    distances = rc.Distances()
    own = table.cells[table.record_cell[record]]
    for partner in range(len(rows)):
        for keys in explain_pair(table, model, record, partner).swaps:
            cell = int(table.record_cell[partner])
            moved = sum(1 << table.keys.index(key) for key in keys)
            expected[cell, keys] = distances.between(table, own, table.cells[cell], moved)
            with_exchange.add(partner)
    listed = {(int(table.record_cell[one.partner]), one.keys): one.distance for one in found.nearest}
    assert listed == pytest.approx(expected)
    assert len(found.nearest) == len(expected)
    assert found.n_partners == len(with_exchange)
    assert all(one.distance <= other.distance for one, other in itertools.pairwise(found.nearest))
    for one in found.nearest:
        assert one.given != one.taken
        assert one.n_partners == sum(row == rows[one.partner] for row in rows)


def test_kept_margins_and_fixed_keys_shorten_the_list() -> None:
    rows = [(k % 4, (k * 5) % 3, (k // 2) % 2, (k // 3) % 2) for k in range(30)]
    table = table_of(rows)
    model = rc.DecomposableModel(table, cliques=[("a", "b"), ("c",), ("d",)])
    free = candidates(table, model, 0, most=10**6)
    kept = candidates(table, model, 0, keep=[("c", "d")], constraints=rc.SwapConstraints(never_swap=("a",)), most=10**6)
    assert 0 < len(kept.nearest) < len(free.nearest)
    assert all("a" not in one.keys for one in kept.nearest)
    assert all(("c" in one.keys) == ("d" in one.keys) or rows[one.partner][2:] != rows[0][2:] for one in kept.nearest)
    with pytest.raises(BadInput, match="There is no record 31; the records are counted from 1 to 30"):
        candidates(table, model, 30)
    income = [row[0] % 2 for row in rows]
    with_income = candidates(table, model, 0, keep=[("c", "income")], columns={"income": income}, most=10**6)
    assert len(with_income.nearest) > 0
    assert all("c" not in one.keys for one in with_income.nearest if income[one.partner] != income[0])
    with pytest.raises(UnknownColumns, match="income"):
        candidates(table, model, 0, keep=[("a", "income")])


@settings(max_examples=30)
@given(rows=rows_strategy, cliques=st.sampled_from(CLIQUES), home=st.lists(st.integers(0, 1), min_size=14, max_size=14))
def test_constraints_leave_out_exactly_what_they_forbid(
    rows: list[tuple[int, ...]], cliques: list[tuple[str, ...]], home: list[int]
) -> None:
    table = table_of(rows)
    model = rc.DecomposableModel(table, cliques=cliques)
    homes = home[: len(rows)]
    rules = rc.SwapConstraints(within=("home",), forbidden=({"a": 0, "c": 1},), untouched=({"a": 3, "b": 2},))
    found = candidates(table, model, 0, constraints=rules, columns={"home": homes}, most=10**6)

    def is_forbidden(row: tuple[int, ...]) -> bool:
        return row[0] == 0 and row[2] == 1

    expected = set()
    for partner in range(len(rows)):
        for keys in explain_pair(table, model, 0, partner).swaps:
            mine, theirs = list(rows[0]), list(rows[partner])
            for key in keys:
                k = "abcd".index(key)
                mine[k], theirs[k] = theirs[k], mine[k]
            changed = ((rows[0], tuple(mine)), (rows[partner], tuple(theirs)))
            if any(is_forbidden(after) and not is_forbidden(before) for before, after in changed):
                continue
            if homes[partner] != homes[0] or (3, 2) in (rows[0][:2], rows[partner][:2]):
                continue
            expected.add((rows[partner], keys))
    assert {(rows[one.partner], one.keys) for one in found.nearest} == expected
    assert found.n_partners == sum((row, homes[k]) in {(other, homes[0]) for other, _ in expected} for k, row in enumerate(rows))


# ---------------------------------------------------------------------- the commands


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    people = pa.table(
        {
            "age": [20 + (row * 7) % 23 for row in range(300)],
            "job": ["astronaut" if row == 17 else f"job{(row * row) % 7}" for row in range(300)],
            "sex": ["f" if row % 3 else "m" for row in range(300)],
        }
    )
    pa.csv.write_csv(people, folder / "people.csv")
    config: dict[str, Any] = {"keys": ["age", "job", "sex"], "population": 5000, "model": "single", "resolution": "full"}
    rc.assess(folder / "people.csv", out=folder / "run", **config)
    return folder / "run"


def command(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def test_explain_says_why_a_record_is_risky(run: Path) -> None:
    done = command("explain", run, "--record", 18)
    assert done.exit_code == 0, done.output
    assert "Record 18 (counted from 1), age " in done.output
    assert "job astronaut" in done.output
    risk = pq.read_table(run / "risk.parquet").slice(17, 1).to_pylist()[0]
    assert risk["record"] == 17
    assert f"with probability {risk['unique_probability']:.3f}" in done.output
    assert "it is enough to know: job." in done.output
    shared = pq.read_table(run / "risk.parquet").column("cell_count").to_pylist()
    for count, others in ((2, "1 other record of"), (3, "2 other records of")):
        done = command("explain", run, "--record", shared.index(count) + 1)
        assert f"shares these values with {others} the file" in done.output
    row = next(row for row, count in enumerate(shared) if count > 1)
    done = command("explain", run, "--record", row + 1)
    others = shared[row] - 1
    assert f"shares these values with {others} other record{'' if others == 1 else 's'} of the file" in done.output
    assert f"would be right with probability {risk_of(run, row)['match_probability']:.3f}" in done.output
    assert "household" not in done.output
    assert "swapped" not in done.output


def risk_of(run: Path, row: int) -> dict[str, Any]:
    found: dict[str, Any] = pq.read_table(run / "risk.parquet").slice(row, 1).to_pylist()[0]
    return found


def test_explain_knows_households_and_swaps(run: Path, tmp_path: Path) -> None:
    people = pa.csv.read_csv(run.parent / "people.csv")
    people = people.append_column("home", pa.array([row // 3 for row in range(people.num_rows)]))
    pa.csv.write_csv(people, tmp_path / "people.csv")
    options: dict[str, Any] = {"keys": ["age", "job", "sex"], "population": 5000, "model": "single", "household": "home"}
    done = rc.protect(tmp_path / "people.csv", out=tmp_path / "run", records=[17], swap_seed=1, **options)
    assert done.summary.swap is not None
    assert done.summary.swap.swapped == 1
    swap = pq.read_table(tmp_path / "run" / "swaps.parquet").to_pylist()[0]
    for row in (int(swap["record"]), int(swap["partner"])):
        told = command("explain", tmp_path / "run", "--record", row + 1).output
        assert "it was swapped" in told
        at_home = risk_of(tmp_path / "run", row)["household_probability"]
        assert f"With probability {at_home:.3f} at least one member of its household" in told
    other = next(row for row in range(300) if row not in (swap["record"], swap["partner"]))
    assert "it was not swapped" in command("explain", tmp_path / "run", "--record", other + 1).output


def test_partners_are_listed_with_what_would_change(run: Path) -> None:
    done = command("partners", run, "--record", 18, "--top", 5)
    assert done.exit_code == 0, done.output
    assert "Record 18 (counted from 1) can exchange values with" in done.output
    lines = done.output.split("  changes\n")[1].split("\n")[:5]
    distances = [float(line.split()[2]) for line in lines]
    assert distances == sorted(distances)
    people = pa.csv.read_csv(run.parent / "people.csv").to_pylist()
    for line in lines:
        partner = people[int(line.split()[0].replace(",", "")) - 1]
        for change in line.split("  ")[-1].split("; "):
            key, old, _, new = change.split()
            assert (str(people[17][key]), str(partner[key])) == (old, new)


def test_a_record_without_a_partner_is_told_which_table_holds_it(run: Path) -> None:
    config: dict[str, Any] = {"keys": ["age", "job", "sex"], "population": 5000, "resolution": "full"}
    rc.assess(run.parent / "people.csv", out=run.parent / "held", cliques=[["age", "job", "sex"]], model="single", **config)
    done = command("partners", run.parent / "held", "--record", 18)
    assert done.exit_code == 0, done.output
    assert "a table that must stay or breaking a rule. It is held by the table of age, job and sex" in done.output


def test_numbers_of_records_begin_at_1_for_people(run: Path) -> None:
    assert command("explain", run, "--record", 0).exit_code == 2
    assert "counted from 1 to 300" in command("partners", run, "--record", 301).output
    assert "Records 4 and 78 (counted from 1)" in command("explain-pair", run, 4, 78).output
    words = [
        "protect",
        run.parent / "people.csv",
        "--keys",
        "age,job,sex",
        "--population",
        "5000",
        "--model",
        "single",
        "--quiet",
    ]
    done = command(*words, "--records", "0")
    assert done.exit_code == 1
    assert "--records counts from 1" in done.output
    done = command(*words, "--records", "18", "--out", run.parent / "protected")
    assert done.exit_code == 0, done.output
    assert "records = [17]" in (run.parent / "protected" / "run.toml").read_text()
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Record (from 1)" in page
