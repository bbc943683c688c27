"""Twins of whole files: values, bands, measures, errors."""

from __future__ import annotations

import json
import stat
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import rarecell as rc
from rarecell.cli.commands import main
from rarecell.errors import BadInput, OutputExists, UnknownChoice, UnknownColumns
from rarecell.report.synthesis import synthesis_tables


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 1500
    town = rng.integers(0, 5, n)
    job = (town + rng.integers(0, 3, n)) % 6
    income = np.round(np.exp(9 + 0.3 * job + rng.normal(0, 0.5, n)))
    income[rng.random(n) < 0.05] = np.nan
    return pd.DataFrame({"town": [f"T{t}" for t in town], "job": job, "income": income, "id": np.arange(n)})


COLUMNS = ["town", "job", "income"]


def test_a_twin_has_the_values_of_every_column_and_the_tables_of_the_model(people: pd.DataFrame) -> None:
    done = rc.synthesise(people, columns=COLUMNS, seed=3, measure=False)
    twin = done.frame()
    assert isinstance(twin, pd.DataFrame)
    assert list(twin.columns) == COLUMNS
    for name in COLUMNS:
        assert Counter(twin[name].dropna()) == Counter(people[name].dropna())
        assert twin[name].isna().sum() == people[name].isna().sum()
    assert {table.differing for table in done.summary.tables} == {0}
    assert ["town", "job"] in [list(table.variables) for table in done.summary.tables]
    assert (twin.groupby(["town", "job"]).size() == people.groupby(["town", "job"]).size()).all()
    # Rows are nobody's: the income of a row goes with its job only by its band.
    assert not twin.equals(people[COLUMNS])
    by_job = people.groupby("job").income.mean()
    assert np.corrcoef(by_job, twin.groupby("job").income.mean())[0, 1] > 0.9
    assert [column.values for column in done.summary.columns] == ["levels", "levels", "resampled"]
    assert any("income" in note and "amount of the original" in note for note in done.summary.notes)


def test_smoothed_amounts_are_nobodys(people: pd.DataFrame) -> None:
    done = rc.synthesise(people, columns=COLUMNS, seed=3, measure=False, amounts="smoothed")
    twin = done.frame()
    assert twin.income.max() < people.income.max()
    assert twin.income.isna().sum() == people.income.isna().sum()
    assert (twin.income.dropna() == twin.income.dropna().round()).all()
    assert twin.income.mean() == pytest.approx(people.income.mean(), rel=0.05)


def test_several_twins_differ_and_keep_the_same_tables(people: pd.DataFrame) -> None:
    done = rc.synthesise(people, columns=COLUMNS, files=3, seed=3, measure=False)
    frames = [done.frame(number) for number in range(3)]
    assert not frames[0].equals(frames[1])
    for frame in frames[1:]:
        assert (frame.groupby(["town", "job"]).size() == frames[0].groupby(["town", "job"]).size()).all()


def test_what_a_twin_gives_away_is_measured(people: pd.DataFrame) -> None:
    done = rc.synthesise(people, columns=COLUMNS, seed=3)
    measures = done.summary.measures
    assert measures is not None
    assert measures.people + measures.control == len(people)
    assert {attack.attack for attack in measures.attacks} == {"singling out", "linkability", "inference"}
    assert {attack.column for attack in measures.attacks if attack.attack == "inference"} == set(COLUMNS)
    # The file itself gives its people away; a twin made from three loosely related columns does much less.
    linked = next(attack for attack in measures.attacks if attack.attack == "linkability")
    assert linked.interval[0] <= linked.risk <= linked.interval[1]
    assert 0.4 < measures.nearer_to_people < 0.6
    assert "strongest attack" in str(done)
    assert type(done.summary).from_dict(done.summary.to_dict()) == done.summary


def test_a_twin_with_a_stated_epsilon(people: pd.DataFrame) -> None:
    done = rc.synthesise(people, columns=COLUMNS, epsilon=4, measure=False)
    assert done.twins[0].statement is not None
    assert "ε = 4" in done.summary.guarantee
    assert {table.differing for table in done.summary.tables} == {0}


def test_no_kept_table_has_small_cells(people: pd.DataFrame) -> None:
    done = rc.synthesise(people, columns=COLUMNS, least_count=30, measure=False)
    assert all(table.smallest >= 30 for table in done.summary.tables if len(table.variables) > 1)


def test_the_cost_of_a_smallest_cell_stands_beside(people: pd.DataFrame) -> None:
    done = rc.synthesise(people, columns=COLUMNS, least_count=60, seed=1, measure=False)
    free = rc.synthesise(people, columns=COLUMNS, seed=1, measure=False)
    assert free.summary.utility_without_limit is None
    assert done.summary.utility_without_limit == free.summary.utility
    assert done.summary.utility.k_marginal < free.summary.utility.k_marginal
    (near,) = [table for table in synthesis_tables(done.summary) if table.name == "utility"]
    assert [column.heading for column in near.columns] == ["Measure", "Twin", "Cells of any size"]
    assert {f"{free.summary.utility.k_marginal:.1f}", f"{done.summary.utility.k_marginal:.1f}"} <= {
        cell for row in near.rows for cell in row
    }


def test_exchanges_after_the_draw_are_measured_and_said() -> None:
    rng = np.random.default_rng(0)
    columns = {"a": rng.integers(0, 8, 1500)}
    for before, name in zip("abcde", "bcdef", strict=True):
        columns[name] = (columns[before] + rng.integers(0, 4, 1500)) % 8
    chain = pd.DataFrame(columns)
    drawn = rc.synthesise(chain, columns=list("abcdef"), seed=3, measure=False)
    done = rc.synthesise(chain, columns=list("abcdef"), seed=3, files=2, max_copies=0.05, near_pairs=True)
    exchanges = done.summary.exchanges
    assert exchanges is not None
    assert exchanges.copies == max(twin.copies for twin in done.twins) <= 0.05 < exchanges.copies_drawn
    assert done.summary.utility.k_marginal > drawn.summary.utility.k_marginal
    assert {table.differing for table in done.summary.tables} == {0}
    assert "look at the original" in done.summary.guarantee
    assert "uniformly" in drawn.summary.guarantee
    measures = done.summary.measures
    assert measures is not None
    assert measures.left_out_matches is not None
    # Fewer of those whom the twin was made from stand in it than of others like them: that, too, gives something away.
    assert measures.unique_exact_matches <= 0.05 < measures.left_out_matches
    assert type(done.summary).from_dict(done.summary.to_dict()) == done.summary
    titles = [table.name for table in synthesis_tables(done.summary)]
    assert "exchanges" in titles
    assert "exchanges" not in [table.name for table in synthesis_tables(drawn.summary)]
    assert not any("exchange" in note for note in done.summary.notes)


def test_a_share_of_copies_that_was_not_reached_is_said(people: pd.DataFrame) -> None:
    done = rc.synthesise(people, columns=COLUMNS, seed=3, max_copies=0.0, measure=False)
    assert done.summary.exchanges is not None
    assert done.summary.exchanges.copies > 0
    assert any("no exchange was left" in note for note in done.summary.notes)


def test_analyses_of_a_delimited_file_take_numbers(people: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    people.to_csv(path, index=False)
    asked = {"pay": {"regression": "income ~ job"}, "means": {"means": "income by town"}}
    of_file, of_frame = (rc.synthesise(data, columns=COLUMNS, seed=3, measure=False, analysis=asked) for data in (path, people))
    for from_file, from_frame in zip(of_file.summary.analyses, of_frame.summary.analyses, strict=True):
        assert [term.name for term in from_file.terms] == [term.name for term in from_frame.terms]
        assert [term.before for term in from_file.terms] == pytest.approx([term.before for term in from_frame.terms])
        assert all(0 <= term.overlap <= 1 for term in from_file.terms)
    assert of_file.frame().column("income").drop_null().to_pylist() == of_frame.frame().income.dropna().tolist()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"columns": ["town"]}, BadInput, "at least two columns"),
        ({"columns": COLUMNS, "keys": ["age"]}, UnknownColumns, "age"),
        ({"columns": COLUMNS, "files": 0}, BadInput, "number of files"),
        ({"columns": COLUMNS, "least_count": -1}, BadInput, "least count"),
        ({"columns": COLUMNS, "amounts": "noisy"}, UnknownChoice, "resampled"),
        ({"columns": COLUMNS, "epsilon": -1}, BadInput, "ε"),
        ({"columns": COLUMNS, "max_copies": 1.5}, BadInput, "from 0 to 1"),
        ({"columns": COLUMNS, "max_copies": float("nan")}, BadInput, "from 0 to 1"),
        ({"columns": COLUMNS, "max_copies": 0.1, "epsilon": 2}, BadInput, "no ε could be stated"),
        ({"columns": COLUMNS, "near_pairs": True, "household": "id"}, BadInput, "families"),
    ],
)
def test_bad_requests_say_what_to_do(people: pd.DataFrame, options: dict, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        rc.synthesise(people, **options)


def test_columns_in_which_everybody_differs_are_refused(people: pd.DataFrame) -> None:
    named = people.assign(name=[f"person {i}" for i in range(len(people))])
    with pytest.raises(BadInput, match="different values that are not numbers"):
        rc.synthesise(named, columns=["town", "name"])
    with pytest.raises(BadInput, match="too few to leave out"):
        rc.synthesise(people.head(40), columns=["town", "job"])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_twins_are_written_in_the_format_that_came_in(people: pd.DataFrame, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"people{suffix}"
    people.to_csv(path, index=False) if suffix == ".csv" else people.to_parquet(path, index=False)
    read = pd.read_csv if suffix == ".csv" else pd.read_parquet
    rc.synthesise(path, columns=COLUMNS, files=2, seed=1, measure=False, amounts="smoothed", out=tmp_path / "out")
    names = {entry.name for entry in (tmp_path / "out").iterdir()}
    assert names == {f"twin-1{suffix}", f"twin-2{suffix}", "summary.json", "report.html", "run.json"}
    for number in (1, 2):
        written = tmp_path / "out" / f"twin-{number}{suffix}"
        assert stat.S_IMODE(written.stat().st_mode) == 0o600
        twin = read(written)
        assert list(twin.columns) == COLUMNS
        assert Counter(twin["town"]) == Counter(people["town"])
        assert (twin.groupby(["town", "job"]).size() == people.groupby(["town", "job"]).size()).all()
        assert twin.income.isna().sum() == people.income.isna().sum()
    with pytest.raises(OutputExists):
        rc.synthesise(path, columns=COLUMNS, measure=False, out=tmp_path / "out")
    rc.synthesise(path, columns=COLUMNS, measure=False, out=tmp_path / "out", overwrite=True)
    assert {entry.name for entry in (tmp_path / "out").iterdir()} == {f"twin{suffix}", "summary.json", "report.html", "run.json"}


def test_the_command_says_what_the_library_found(people: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    people.to_csv(path, index=False)
    arguments = ["synthesise", str(path), "--columns", "town,job,income", "--out", str(tmp_path / "out")]
    printed = CliRunner().invoke(main, arguments)
    assert printed.exit_code == 0, printed.output
    assert "Tables that are the original's" in printed.output
    assert "inference of job" in printed.output
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "not private by being synthetic" in page
    assert "<script" not in page
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert summary["tables"][0]["differing"] == 0
    as_json = CliRunner().invoke(main, ["synthesise", str(path), "--columns", "town,job", "--json", "--no-measure", "--quiet"])
    assert json.loads(as_json.output)["records"] == len(people)
    words = ["synthesise", str(path), "--columns", "town,job,income", "--no-measure"]
    near = CliRunner().invoke(main, [*words, "--uniform", "--max-copies", "0.1", "--near-pairs", "--least-count", "40"])
    assert near.exit_code == 0, near.output
    assert "What exchanges within the kept tables did" in near.output
    assert "keeping no cell below 40 costs" in near.output
    both = CliRunner().invoke(main, [*words, "--uniform", "--epsilon", "2"])
    assert both.exit_code == 1
    assert "--uniform or --epsilon" in both.output
    refused = CliRunner().invoke(main, ["synthesise", str(path), "--columns", "town,nothing"])
    assert refused.exit_code == 1
    assert "nothing" in refused.output


def test_files_of_other_tools_are_attacked_without_pairs(people: pd.DataFrame, tmp_path: Path) -> None:
    paths = {}
    for name, part in {"original": people.head(700), "control": people.tail(700), "copy": people.head(700)}.items():
        paths[name] = tmp_path / f"{name}.csv"
        part.drop(columns="id").to_csv(paths[name], index=False)
    words = ["attack", str(paths["copy"]), "--original", str(paths["original"]), "--unpaired", "--keys", "town,job"]
    alone = CliRunner().invoke(main, words)
    assert alone.exit_code == 0, alone.output
    assert "Without people who were left out" in alone.output
    assert "inference of" not in alone.output
    compared = CliRunner().invoke(main, [*words, "--control", str(paths["control"]), "--json", "--quiet"])
    measures = json.loads(compared.output)
    assert measures["unique_exact_matches"] == 1.0
    assert measures["nearer_to_people"] > 0.6
    tried = [(attack["attack"], attack.get("column")) for attack in measures["attacks"]]
    assert tried == [("singling out", None), ("linkability", None), *(("inference", name) for name in COLUMNS)]
    assert measures["columns"][0]["column"] == "income"
    lonely = CliRunner().invoke(
        main, [*words[:4], "--keys", "town,job", "--population", "9000", "--control", str(paths["control"])]
    )
    assert lonely.exit_code == 1
    assert "--unpaired" in lonely.output
