"""Every option of a configuration is read by something other than the code that declares it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rarecell
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.options import options_of

PACKAGE = Path(rarecell.__file__).parent

ONLY_PASSED_ON = {"run/config.py", "cli/options.py", "app/forms.py"}
"""Modules that take options, check them and hand them on: reading an option there does nothing with it."""

CONFIGURATIONS = {"config", "protect", "wanted"}
"""What configurations are called where they are read."""

READ_AS = {"scenario": "scenarios"}
"""Other names under which an option is read."""


def _read_names(source: str) -> set[str]:
    """Names of attributes that are read from a configuration: ``config.seed``, ``found.config.seed``."""
    return {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and getattr(node.value, "id", getattr(node.value, "attr", "")) in CONFIGURATIONS
    }


READ = {
    name
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).as_posix() not in ONLY_PASSED_ON
    for name in _read_names(path.read_text(encoding="utf-8"))
}


@pytest.mark.parametrize("option", [option.name for owner in (RunConfig, ProtectConfig) for option in options_of(owner)])
def test_an_option_is_read(option: str) -> None:
    assert READ_AS.get(option, option) in READ, f"nothing reads the option '{option}'"


def test_an_attribute_of_something_else_is_no_option() -> None:
    assert _read_names("table.unused\nprint(config.seed, found.config.keys, wanted.top)") == {"seed", "keys", "top"}
