"""Help is whole and fits a terminal."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from rarecell.cli import main


@pytest.mark.parametrize("command", ["", *sorted(main.commands)])
def test_help_fits_80_columns_and_is_not_cut_off(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whatever a killed run left in the folder that all share would be removed and told of.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    words = [command, "--help"] if command else ["--help"]
    shown = CliRunner().invoke(main, words, terminal_width=80).output
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert "..." not in shown.replace("RUNS...", "").replace("[ARGS]...", "")
