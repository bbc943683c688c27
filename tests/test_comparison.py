"""Runs side by side: within the width of a terminal, and as a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rarecell.cli.commands import main
from rarecell.cli.terminal import show_comparison
from rarecell.outcome.summary import RunSummary
from rarecell.report.comparison import MEASURES, comparison, comparison_page, short_names
from tests.summaries import census_summary, families_summary, protected_summary, typed


def example_summary(*, swap: bool) -> RunSummary:
    return typed(protected_summary() if swap else census_summary())


def test_every_measure_says_its_state_and_what_differs_is_marked() -> None:
    before, after = example_summary(swap=False), example_summary(swap=True)
    table = comparison(["a", "b"], [before, after])
    states = {row[0] for row in table.rows}
    assert (
        states
        == {measure.group for measure in MEASURES}
        == {"the data", "before protection", "what was done", "after protection"}
    )
    by_heading = {(row[0], row[1]): row for row in table.rows}
    assert by_heading["the data", "records"][-1] == ""
    swapped = by_heading["what was done", "chosen records swapped"]
    assert swapped[2] == "–"
    assert swapped[-1] == "≠"


def test_risks_are_those_of_families_where_they_are_known() -> None:
    families = families_summary()
    found = {"name": "household", "knows": "knows families", "before": 800.0, "after": 300.0, "persons_certain": 700.0}
    summary = protected_summary()
    summary["swap"]["intruders"] = [found | {"highest_risk": 0.98}]
    summary["swap"]["released"] = {"sample_uniques": 1600, "records_above_threshold": 800}
    summary["risk"] |= {"highest": 0.9, "families": families}
    unknown = {**summary, "risk": summary["risk"] | {"families": families | {"known": False}}}
    rows = {row[:2]: row[2:4] for row in comparison(["known", "unknown"], [typed(summary), typed(unknown)]).rows}
    of_persons = f"{summary['risk']['records_above_threshold']}"
    assert rows["the data", "families known to intruders"] == ("yes", "no")
    assert rows["before protection", "recognised alone or with the family"] == ("2,100", "–")
    assert rows["before protection", "households linked correctly"] == ("800", "–")
    assert rows["before protection", "records above the threshold"] == ("3,000", of_persons)
    assert rows["before protection", "highest risk"] == ("1.000", "0.900")
    assert rows["after protection", "recognised alone or with the family"] == ("700", "–")
    assert rows["after protection", "households linked correctly"] == ("300", "–")
    assert rows["after protection", "records above the threshold"] == ("800", "800")
    highest = f"{summary['swap']['risk_after']['highest']:.3f}"
    assert rows["after protection", "highest risk"] == ("0.980", highest)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    names = [f"a run with a rather long name {number}" for number in range(7)]
    show_comparison(names, [example_summary(swap=bool(number % 2)) for number in range(7)])
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    tables = shown.count("criterion, before")
    assert shown.count("7 runs side by side") == tables
    assert shown.count("name") == 7
    assert tables == {60: 7, 80: 3, 120: 2, 200: 1}[width]


def test_two_runs_share_a_table_of_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    runs = [example_summary(swap=False), example_summary(swap=True)]
    show_comparison(["before", "after"], runs)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    lines = [line.split() for line in shown.splitlines()]
    assert ["before", "after"] in lines
    (uniques,) = (line for line in lines if line[:4] == ["chosen", "records", "swapped", "–"])
    assert uniques[4:] == [str(runs[1].swap.swapped), "≠"]  # type: ignore[union-attr]
    for key in runs[0].keys:
        assert shown.count(key.name) >= 2


def test_the_page_stands_alone() -> None:
    page = comparison_page(["one", "two"], [example_summary(swap=False), example_summary(swap=True)])
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert "after protection" in page


def test_names_lose_what_they_share(tmp_path: Path) -> None:
    assert short_names([str(tmp_path / "x" / "a"), str(tmp_path / "x" / "b")]) == ["a", "b"]
    assert short_names(["run", "run"]) == ["run", "run"]
    assert short_names(["run"]) == ["run"]


def test_one_run_is_not_compared(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["compare", str(tmp_path)])
    assert done.exit_code == 2
    assert "at least two" in done.output
