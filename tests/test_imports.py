"""Imports point downwards only, and help is quick because nothing heavy is loaded for it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

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
    ("risk",),
    ("release",),
    ("intruder",),
    ("swap",),
    ("planning",),
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


def test_a_run_loads_no_library_that_it_does_not_need() -> None:
    """Each takes a tenth of a second or more of every start."""
    unneeded = {"scipy.stats", "scipy.optimize", "scipy.interpolate", "pyarrow.dataset", "duckdb", "pandas", "narwhals", "altair"}
    script = f"import sys, rarecell.run.protect\nprint('loaded:', sorted(set({sorted(unneeded)!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "loaded: []"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_whole_run_loads_no_library_that_it_does_not_need(tmp_path: Path, suffix: str) -> None:
    """Arrow loads pandas by itself whenever it converts values."""
    unneeded = {"scipy.special", "scipy.sparse", "scipy.stats", "scipy.optimize", "pyarrow.dataset", "pandas", "narwhals"}
    path = tmp_path / f"people.{suffix}"
    draw = np.random.default_rng(0)
    people = pa.table({name: draw.integers(0, 12, 80) for name in ("a", "b", "c")} | {"job": ["x", "y", None, "x"] * 20})
    csv.write_csv(people, path) if suffix == "csv" else pq.write_table(people, path)
    script = (
        "import sys, rarecell as rc\n"
        f"rc.protect({str(path)!r}, keys=['a', 'b', 'c', 'job'], population=800, top=5, out={str(tmp_path / 'run')!r})\n"
        f"print('loaded:', sorted(set({sorted(unneeded)!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "loaded: []"
    assert (tmp_path / "run" / f"protected.{suffix}").exists()


def test_the_app_starts_without_libraries_that_it_does_not_need() -> None:
    script = (
        "import sys, rarecell.app.pages\n"
        "print('loaded:', sorted({'duckdb', 'narwhals', 'pandas', 'pyarrow.dataset', 'scipy.special'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "loaded: []"


@pytest.mark.parametrize("arguments", [["--help"], ["assess", "--help"], ["protect", "--help"], ["graphs", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys\nfrom rarecell.cli.commands import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "print('loaded:', sorted({'numba', 'duckdb', 'pandas', 'altair', 'pyspark', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "loaded: []" in done.stdout
    assert "Example" in done.stdout or "Start" in done.stdout


def test_importing_the_package_loads_nothing() -> None:
    script = "import sys, rarecell; print(sorted({'numba', 'numpy', 'scipy', 'duckdb'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_loads() -> None:
    for name in rarecell.__all__:
        assert getattr(rarecell, name) is not None


NOT_REQUIRED = {
    "adbc_driver_postgresql",
    "fcntl",
    "msvcrt",
    "networkx",
    "pandas",
    "pyreadstat",
    "pyspark",
    "resource",
    "python_calamine",
    "starlette",
    "statsmodels",
    "uvicorn",
}
"""Packages that come with an extra, or with one system only: whoever does not need them need not have them."""

SLOW_TO_LOAD = {"duckdb", "jinja2", "narwhals", "numpy", "pyarrow"}
"""Packages that take a tenth of a second and more: whoever does not need them need not wait."""

IMPORTED_LATE = {
    "__main__.py": "an interrupt while the package is loaded is one line",
    "app/__init__.py": "the app is an extra",
    "app/worker.py": "a worker answers before it loads what a run needs",
    "cli/": "help is quick",
    "data/coding.py": "words for a coding are read by the module that makes codings",
    "data/names.py": "part of what help loads",
    "engine/__init__.py": "a source loads its own engine only",
    "engine/text/scan.py": "only text needs the loops over text",
    "engine/text/write.py": "only text needs the loops over text",
    "engine/files.py": "only files that DuckDB counts need DuckDB",
    "engine/frames.py": "a source loads its own engine only",
    "engine/opening.py": "a source loads its own engine only",
    "engine/sql/source.py": "a source loads its own engine only",
    "machine/compiled_code.py": "numba is told of its cache before it is loaded",
    "machine/system.py": "part of what help loads",
    "outcome/plain.py": "a result shows itself by the package, in the library of its user",
    "report/__init__.py": "tables and pictures are loaded when a report is written",
    "run/config.py": "part of what help loads",
    "run/results.py": "results save themselves by modules that read results",
    "table/contingency.py": "structural zeros are read by the module that makes tables of them",
}
"""Where functions import parts of the package or required packages, and why they cannot at the top of the module."""


def _late_imports(path: Path) -> set[str]:
    """Modules that functions import."""
    found = set()
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom):
                    found.add(node.module or "")
                elif isinstance(node, ast.Import):
                    found.update(alias.name for alias in node.names)
    return {name for name in found if name.split(".")[0] not in NOT_REQUIRED | SLOW_TO_LOAD}


def test_functions_import_only_where_there_is_a_reason() -> None:
    late = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if _late_imports(path)}
    with_reason = {name for name in late if any(name.startswith(place) for place in IMPORTED_LATE)}
    assert late == with_reason
    assert all(any(name.startswith(place) for name in late) for place in IMPORTED_LATE), "a reason that is not needed any more"
