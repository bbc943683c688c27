"""The wheel has what it needs and nothing else, and works where the repository is not."""

from __future__ import annotations

import gzip
import json
import re
import signal
import subprocess
import tarfile
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest

import rarecell
from rarecell import datasets
from tests.fresh_environment import ROOT, Environment, built, canonical, closure, fresh, requirements_of

pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

NOT_LOADED = {
    "duckdb": "it counts what does not fit into memory and runs queries; the demo is small",
    "narwhals": "it reads and returns the data frames of other libraries; the demo reads a file",
}
"""Distributions that come with ours although the demo does not load them, and why."""

CONDA_NAMES = {"duckdb": "python-duckdb"}
"""Names on conda-forge where they differ."""


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return built(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def environment(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return fresh(tmp_path_factory.mktemp("fresh"), distributions[1], extras=["stats", "app"])


# ---------------------------------------------------------------------- what is in it


def _package_files() -> set[str]:
    package = ROOT / "src" / "rarecell"
    return {
        f"rarecell/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_package_and_nothing_else(distributions: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(distributions[1]) as archive:
        names = set(archive.namelist())
        size = sum(entry.file_size for entry in archive.infolist())
    info = f"rarecell-{rarecell.__version__}.dist-info"
    about = {
        f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE", "licenses/NOTICE")
    }
    assert names == _package_files() | about
    endings = {Path(name).suffix for name in names if not name.startswith(info)}
    assert endings <= {".py", ".pyi", ".typed", ".html", ".css", ".js", ".gz", ".parquet", ".md", ".toml"}
    assert size < 6e6


def test_the_source_distribution_builds_and_can_be_tested(distributions: tuple[Path, Path]) -> None:
    with tarfile.open(distributions[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in _package_files()} <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "NOTICE", "CITATION.cff", "SECURITY.md", "tests/test_install.py"} <= names
    tops = {name.split("/")[0] for name in names}
    assert not tops & {".git", ".github", ".ci", ".venv", "demo", "dist", "build"}
    assert not [name for name in names if re.search(r"__pycache__|\.pyc$|\.nb[ic]$|docs/_build|\.parquet\.part", name)]


@pytest.mark.slow
def test_what_is_required_is_used_by_a_run_or_accounted_for(distributions: tuple[Path, Path], environment: Environment) -> None:
    script = (
        "import sys, json\nfrom rarecell.cli import main\n"
        "main(['demo', '--quiet', '--json', '--out', 'demo'], standalone_mode=False)\n"
        "from importlib.metadata import packages_distributions as found\n"
        "names = {module.split('.')[0] for module in sys.modules}\n"
        "print(json.dumps(sorted({d for name in names for d in found().get(name, ())})), file=sys.stderr)"
    )
    lent = environment.compiled
    done = environment.run(environment.python, "-c", script)
    assert done.returncode == 0, done.stderr
    # What the tests' own environment has compiled for the same source serves here, too.
    assert lent <= environment.compiled
    loaded = {canonical(name) for name in json.loads(done.stderr.splitlines()[-1])}
    brought = set(closure(requirements_of(distributions[1])))
    assert brought - loaded <= set(NOT_LOADED)
    summary = json.loads(done.stdout)
    assert summary["truth"]["population_uniques"] > 0
    assert (environment.work / "demo" / "report.html").stat().st_size > 50_000


# ---------------------------------------------------------------------- what it does


@pytest.mark.slow
def test_a_stata_file_is_protected_where_the_repository_is_not(environment: Environment) -> None:
    pandas = pytest.importorskip("pandas")
    with gzip.open(datasets.census_sample_path()) as stream:
        frame = pandas.read_csv(stream).head(1500)
    given = environment.work / "survey.dta"
    frame.to_stata(given, write_index=False)
    words = ["--keys", "age,sex,marital", "--population", "40000", "--top", "5", "--out", "protected", "--quiet"]
    done = environment.run(environment.command, "protect", "survey.dta", *words)
    assert done.returncode == 0, done.stderr
    swapped = pandas.read_stata(environment.work / "protected" / "protected.dta")
    before = pandas.read_stata(given)
    assert list(swapped.columns) == list(before.columns)
    others = [name for name in before.columns if name not in ("age", "sex", "marital")]
    pandas.testing.assert_frame_equal(swapped[others], before[others])
    assert 0 < (swapped != before).any(axis=1).sum() <= 20
    for pair in (["age", "sex"], ["age", "marital"], ["sex", "marital"]):
        assert swapped[pair[0]].value_counts().to_dict() == before[pair[0]].value_counts().to_dict()


@pytest.mark.slow
def test_the_app_starts_where_the_repository_is_not(environment: Environment) -> None:
    process = subprocess.Popen(
        [str(environment.command), "app", "--no-browser"],
        cwd=environment.work,
        env={**environment.variables, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = None
        for line in process.stdout:
            address = re.search(r"http://127\.0\.0\.1:\d+\S*", line)
            if address is not None:
                break
        assert address is not None
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor())
        with opener.open(address[0], timeout=60) as answer:
            assert answer.status == 200
            assert b"rarecell" in answer.read()
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


# ---------------------------------------------------------------------- what is said of it


def test_the_conda_recipe_requires_what_the_package_requires() -> None:
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe.partition("  run:\n")[2].partition("  run_constraints:")[0]
    listed = {line.strip().removeprefix("- ").replace(" ", "") for line in run.splitlines() if line.strip()}
    wanted = {re.sub(r"^[\w-]+", lambda name: CONDA_NAMES.get(name[0], name[0]), text) for text in PROJECT["dependencies"]}
    assert listed == wanted | {f"python{PROJECT['requires-python']}"}
    constraints = recipe.partition("  run_constraints:\n")[2].partition("\ntests:")[0]
    limited = {line.strip().removeprefix("- ").replace(" ", "") for line in constraints.splitlines() if line.strip()}
    extras = {name: texts for name, texts in PROJECT["optional-dependencies"].items() if name not in ("docs", "test")}
    assert limited == {text for texts in extras.values() for text in texts}


@pytest.mark.parametrize("path", ["CITATION.cff", "packaging/conda/recipe.yaml"])
def test_the_version_is_the_same_everywhere(path: str) -> None:
    found = re.findall(r"^\s*version: ([\d.]+\S*)$", (ROOT / path).read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert found == [rarecell.__version__]


def test_every_extra_that_users_are_told_of_exists() -> None:
    named = set()
    for path in (ROOT / "README.md", ROOT / "packaging" / "Containerfile", *(ROOT / "docs").rglob("*.md")):
        for extras in re.findall(r"(?:rarecell|\.|/source)\[([a-z,]+)\]", path.read_text(encoding="utf-8")):
            named.update(extras.split(","))
    assert named
    assert named <= set(PROJECT["optional-dependencies"])
