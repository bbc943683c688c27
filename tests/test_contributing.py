"""CONTRIBUTING shows the house as it is: every folder and file that it names exists, and every folder is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rarecell
from tests.test_imports import LAYERS

PACKAGE = Path(rarecell.__file__).parent
ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

NAMED = sorted(set(re.findall(r"(?<![\w/.])((?:\w+/)+(?:\w+\.\w+)?|\w+\.py)(?![\w/(])", PAGE)))


@pytest.mark.parametrize("name", NAMED)
def test_what_the_page_names_exists(name: str) -> None:
    assert (PACKAGE / name).exists() or (ROOT / name).exists()


def test_the_page_names_every_folder() -> None:
    folders = {f"{path.name}/" for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders <= set(NAMED)


def test_the_page_has_the_layers_of_the_imports() -> None:
    order = re.findall(r"`(\w+)`", PAGE.partition("From the bottom:")[2].partition(". ")[0])
    assert order == [part for layer in LAYERS[1:-1] for part in layer]


def test_names_are_found() -> None:
    assert {"engine/", "model/protocol.py", "tests/test_imports.py", "errors.py"} <= set(NAMED)
