"""Advice leads out: whoever pastes what a run prints comes to a release, or is told what it costs that nothing else helps."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

import rarecell as rc
from rarecell.cli.commands import main
from rarecell.errors import BadInput
from rarecell.outcome.decision import decision_of, target_of, with_decision
from rarecell.outcome.profile import DO_NOT_RELEASE, PROFILES, Profile
from rarecell.outcome.summary import RunSummary
from rarecell.report.first_page import first_page
from rarecell.report.sentences import steps
from tests.office_files import FILES as OFFICE_FILES
from tests.summaries import census_summary, demo_summary, typed

MOST_STEPS = 12
"""Commands after which a file goes, or the program has said that none helps."""


def crowded(rng: np.random.Generator, n: int = 260) -> tuple[pd.DataFrame, list[str]]:
    """Most of a small population is in the file, with detailed ages."""
    frame = {"age": rng.integers(18, 90, n), "sex": rng.choice(["f", "m"], n), "town": rng.choice(list("abcdef"), n)}
    return pd.DataFrame(frame), ["--keys", "age,sex,town", "--population", "300"]


def titles(rng: np.random.Generator, n: int = 300) -> tuple[pd.DataFrame, list[str]]:
    """Occupations as text, many of which only one person has."""
    ranks = np.minimum(rng.zipf(1.4, n), 60)
    frame = {"title": [f"T{rank:02d}" for rank in ranks], "sex": rng.choice(["f", "m"], n), "size": rng.integers(1, 5, n)}
    return pd.DataFrame(frame), ["--keys", "title,sex,size", "--population", "1500"]


def flags(rng: np.random.Generator, n: int = 300) -> tuple[pd.DataFrame, list[str]]:
    """Keys of few levels, none of which can be made coarser."""
    frame = {f"q{k}": rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1]) for k in range(6)}
    return pd.DataFrame(frame), ["--keys", ",".join(frame), "--population", "900"]


FILES = {make.__name__: make for make in (crowded, titles, flags)}


def run(command: str) -> tuple[int, str, Path]:
    """Paste a command; where its results are."""
    words = shlex.split(command)
    assert words[0] == "rarecell"
    done = CliRunner().invoke(main, [*words[1:], "--quiet"])
    assert done.exit_code in (0, 3), (command, done.output)
    return done.exit_code, done.output, Path(words[words.index("--out") + 1]) if "--out" in words else Path()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*FILES, *OFFICE_FILES])
def test_what_is_advised_leads_out(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if kind in OFFICE_FILES:
        file = OFFICE_FILES[kind](tmp_path)
        place, options = file.path.name, [*file.options, "--profile", "public"]
    else:
        frame, keys = FILES[kind](np.random.default_rng(8))
        place, options = "people.csv", [*keys, "--profile", "scientific"]
        frame.to_csv(place, index=False)
    command = shlex.join(["rarecell", "assess", place, *options, "--seed", "1", "--out", "run"])
    pasted: list[str] = []
    released: list[bytes] = []
    for _ in range(MOST_STEPS):
        assert command not in pasted, f"advised twice: {command}"
        pasted.append(command)
        _, printed, folder = run(command)
        if command.startswith("rarecell plan"):
            # A plan prints a command for each of its ways; the first is pasted.
            command = next(line.strip() for line in printed.splitlines() if line.strip().startswith("rarecell protect"))
            continue
        summary = RunSummary.from_dict(json.loads((folder / "summary.json").read_text()), where=str(folder))
        decision = decision_of(summary, folder=str(folder))
        if command.startswith("rarecell protect"):
            released.append(next(folder.glob("protected.*")).read_bytes())
        if decision.verdict != DO_NOT_RELEASE:
            break
        command = next((reason.command for reason in decision.refusals if reason.command), "")
        if not command:
            # Nothing that could be done to the values helps, and the run says what it costs.
            last = decision.refusals[0].remedy
            assert "stricter conditions" in last or "a register with --register" in last, last
            break
    else:
        raise AssertionError(f"no way out after {MOST_STEPS} commands: {pasted}")
    assert released or len(pasted) == 1, "something was tried, unless the file may go as it is"
    assert len(set(released)) == len(released), f"a command gave the same file again: {pasted}"


def test_a_key_that_is_left_out_is_gone_and_the_file_as_it_came_had_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    people = pa.table(
        {"age": rng.integers(18, 90, 400), "sex": rng.integers(0, 2, 400), "town": [f"t{k}" for k in rng.integers(0, 40, 400)]}
    )
    wish = {"keys": ["age", "sex", "town"], "population": 40_000, "recode": {"town": "merge t1+t2 as both"}}
    whole = rc.assess(people, **{**wish, "recode": {}}).summary
    done = rc.protect(people, **wish, leave_out=["town"], never_swap=["town"], top=2, out=tmp_path / "run")
    assert [key.name for key in done.summary.keys] == ["age", "sex"]
    assert done.summary.left_out == ("town",)
    assert "town" not in done.frame.column_names
    assert done.summary.as_it_came.sample_uniques == whole.risk.sample_uniques > done.summary.risk.sample_uniques
    assert "town was left out of the file." in first_page(done.summary).done
    again = rc.protect(rc.RunConfig.from_toml((tmp_path / "run" / "run.toml").read_text(), source="run.toml"), frame=people)
    assert again.summary.as_it_came == done.summary.as_it_came
    with pytest.raises(BadInput, match="Keep one of them"):
        rc.protect(people, **wish, leave_out=["age", "sex", "town"], top=2)


def test_what_a_run_without_a_folder_advises_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands restate its choices, since no run.toml has them; that of another run in this folder is not meant."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text('input = "other.csv"\nkeys = ["nobody"]\npopulation = 9\n', encoding="utf-8")
    frame, keys = crowded(np.random.default_rng(8))
    frame.to_csv("the people.csv", index=False)
    wish = [*keys, "--model", "independence", "--seed", "1"]

    def advised(words: list[str]) -> list[str]:
        done = CliRunner().invoke(main, [*words, "--quiet"])
        assert done.exit_code in (0, 3), done.output
        return [line.strip() for line in done.output.splitlines() if line.strip().startswith("rarecell ")]

    commands = advised(["assess", "the people.csv", *wish])
    assert {shlex.split(command)[1] for command in commands} >= {"protect", "plan"}
    trial = advised(["protect", "the people.csv", *wish, "--risk-above", "0.5"])
    done = advised(
        ["protect", "the people.csv", *wish, "--risk-above", "0.2", "--profile", "safe-centre", "--recode", "age=3 groups"]
    )
    assert done[0].endswith("--out protected")
    for command in (*commands, *trial, *done):
        assert "run.toml" not in command
        assert "'the people.csv'" in command
    _, _, folder = run(next(command for command in commands if " protect " in command))
    assert (folder / "protected.csv").exists()
    assert "--risk-above" not in trial[0]


def test_one_recoding_is_advised_once() -> None:
    cost = {"name": "age/10", "levels": 10, "recode": "age=10 groups", "expected_population_uniques": 3.0}
    summary = demo_summary()
    summary["risk"] |= {"highest_match": 0.9, "key_costs": [{"key": "age", "without": 2.0, "coarsened": [cost]}]}
    judged = with_decision(typed(summary), Profile(name="own", max_match_risk=0.1, worst_light="red"), is_default=False)
    commands = [step.command for step in steps(judged) if "--recode" in step.command]
    assert len(commands) == 1


@pytest.mark.parametrize("limit", [0.0, 0.004996, 0.01, 0.1, 0.158, 0.7, 0.996, 1.0, 7.9, 123_456.7])
def test_a_target_towards_a_profile_is_not_above_its_limits(limit: float) -> None:
    profile = replace(PROFILES["public"], max_correct_links=limit, max_correct_links_share=None, max_record_risk=0.016666666666)
    target = target_of(typed(census_summary()), profile)
    assert 0.85 * limit - 1.0 * (limit >= 1) <= float(target["max_correct_links"]) <= limit
    assert float(target["max_record_risk"]) == profile.max_record_risk
