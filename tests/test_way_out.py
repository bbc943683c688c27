"""Advice leads out: whoever pastes what a run prints comes to a release, or is told what it costs that nothing else helps."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from rarecell.cli.commands import main
from rarecell.outcome.decision import decision_of
from rarecell.outcome.profile import DO_NOT_RELEASE
from rarecell.outcome.summary import RunSummary

MOST_STEPS = 9
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
@pytest.mark.parametrize("kind", FILES)
def test_what_is_advised_leads_out(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame, options = FILES[kind](np.random.default_rng(8))
    frame.to_csv("people.csv", index=False)
    command = shlex.join(["rarecell", "assess", "people.csv", *options, "--profile", "scientific", "--seed", "1", "--out", "run"])
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
            released.append((folder / "protected.csv").read_bytes())
        if decision.verdict != DO_NOT_RELEASE:
            break
        command = next((reason.command for reason in decision.refusals if reason.command), "")
        if not command:
            # Nothing that could be done to the values helps, and the run says what it costs.
            last = decision.refusals[0].remedy
            assert "Leave" in last, last
            assert "could then be recognised" in last or "stricter conditions" in last, last
            break
    else:
        raise AssertionError(f"no way out after {MOST_STEPS} commands: {pasted}")
    assert released, "something was tried"
    assert len(set(released)) == len(released), f"a command gave the same file again: {pasted}"
