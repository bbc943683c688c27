"""Imports point downwards only, and help is quick because nothing heavy is loaded for it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rarecell

PACKAGE = Path(rarecell.__file__).parent

# From the bottom up: a module imports only from its own layer or a lower one.
LAYERS = [
    ("edges", "errors", "choices", "progress", "machine", "_kernels", "datasets"),
    ("outcome",),
    ("engine",),
    ("graph",),
    ("table",),
    ("data",),
    ("model",),
    ("search",),
    ("risk", "swap", "intruder"),
    ("release",),
    ("report",),
    ("run",),
    ("app",),
    ("cli",),
    ("__main__",),
]
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}


def _imports(path: Path) -> set[str]:
    """Parts of the package that a module imports, those for type checkers left out."""
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "rarecell":
            parts = node.module.split(".")
            found.update([parts[1]] if len(parts) > 1 else [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            found.update(alias.name.split(".")[1] for alias in node.names if alias.name.startswith("rarecell."))
    return found & set(HEIGHT)


def test_every_part_has_a_layer() -> None:
    parts = {
        p.stem if p.suffix == ".py" else p.name for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()
    }
    assert parts - {"__init__"} <= set(HEIGHT)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_downwards(path: Path) -> None:
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if part == "__init__":
        return
    upwards = {(part, other) for other in _imports(path) if HEIGHT[other] > HEIGHT[part]}
    assert not upwards


@pytest.mark.parametrize("arguments", [["--help"], ["assess", "--help"], ["protect", "--help"], ["graphs", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys\nfrom rarecell.cli.commands import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "print('loaded:', sorted({'numba', 'duckdb', 'pandas', 'altair', 'pyspark', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "loaded: []" in done.stdout
    assert "Example" in done.stdout or "Begin" in done.stdout


def test_importing_the_package_loads_nothing() -> None:
    script = "import sys, rarecell; print(sorted({'numba', 'numpy', 'scipy', 'duckdb'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_loads() -> None:
    for name in rarecell.__all__:
        assert getattr(rarecell, name) is not None
