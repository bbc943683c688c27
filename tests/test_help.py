"""Help is whole and fits a terminal; templates for pipelines name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from rarecell.cli import main

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("command", ["", *sorted(main.commands)])
def test_help_fits_80_columns_and_is_not_cut_off(command: str) -> None:
    words = [command, "--help"] if command else ["--help"]
    shown = CliRunner().invoke(main, words, terminal_width=80).output
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert "..." not in shown.replace("RUNS...", "").replace("[ARGS]...", "")


@pytest.mark.parametrize("name", ["github.yml", "gitlab.yml"])
def test_templates_for_pipelines_use_options_that_exist(name: str) -> None:
    text = (ROOT / "packaging" / "ci" / name).read_text(encoding="utf-8")
    (line,) = re.findall(r"rarecell (assess .*)", text)
    given = set(re.findall(r"--[a-z-]+", line))
    known = {option for parameter in main.commands["assess"].params for option in parameter.opts}
    assert given <= known
    assert "--fail-above" in given
    assert "report-external.html" in text
    assert not re.search(r"report\.html|risk\.parquet|swaps\.parquet", text)
