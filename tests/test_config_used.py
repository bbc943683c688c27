"""Every option of a configuration is read by something other than the code that checks it."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import pytest

import rarecell
from rarecell.run.config import ProtectConfig, RunConfig

PACKAGE = Path(rarecell.__file__).parent

ONLY_PASSED_ON = {"data/microdata.py", "data/names.py", "run/config.py", "run/keywords.py", "cli/options.py", "app/forms.py"}
"""Modules that take options, check them and hand them on: reading an option there does nothing with it."""

READ_AS = {
    # Handed to Microdata under one name and read from it under another.
    "geography": {"areas"},
    "scenario": {"scenarios"},
    "hierarchies": {"read_hierarchy", "hierarchies"},
}
"""Other names under which an option is read."""


def _read_names(source: str) -> set[str]:
    """Names of attributes that are read: ``config.seed`` reads seed, ``Microdata(…, seed=config.seed)`` alone does not."""
    tree = ast.parse(source)
    handed_on = {
        id(keyword.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Microdata"
        for keyword in node.keywords
    }
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in handed_on
    } | {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


READ = {
    name
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).as_posix() not in ONLY_PASSED_ON
    for name in _read_names(path.read_text(encoding="utf-8"))
}


@pytest.mark.parametrize("option", [*(part.name for part in fields(RunConfig)), *(part.name for part in fields(ProtectConfig))])
def test_an_option_is_read(option: str) -> None:
    assert {option, *READ_AS.get(option, ())} & READ, f"nothing reads the option '{option}'"


def test_an_option_that_is_only_checked_and_handed_on_is_found() -> None:
    source = "data = Microdata(frame, keys=config.keys, geography=config.unused)\nprint(config.seed)"
    assert "unused" not in _read_names(source)
    assert "seed" in _read_names(source)
