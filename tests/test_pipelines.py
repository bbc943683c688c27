"""Files for machines of others: pipelines, recipes and citations are valid, and the gate closes."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import rarecell
from rarecell.cli import main
from tests.fresh_environment import ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML, which reads the templates, is not installed")

TEMPLATES = ("packaging/ci/github.yml", "packaging/ci/gitlab.yml")


def parsed(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def commands(path: str) -> list[str]:
    """What a template runs, line by line."""
    read = parsed(path)
    if path.endswith("github.yml"):
        (job,) = read["jobs"].values()
        return [step["run"] for step in job["steps"] if "run" in step]
    (job,) = read.values()
    return list(job["script"])


def test_the_templates_keep_the_external_report_even_when_the_gate_closes() -> None:
    (job,) = parsed("packaging/ci/github.yml")["jobs"].values()
    kept = job["steps"][-1]
    assert kept["with"]["path"] == "result/report-external.html"
    assert "failure()" in kept["if"]
    (job,) = parsed("packaging/ci/gitlab.yml").values()
    assert job["artifacts"] == {"when": "always", "paths": ["result/report-external.html"]}


@pytest.mark.parametrize("path", TEMPLATES)
def test_templates_use_options_that_exist(path: str) -> None:
    (line,) = [line for line in commands(path) if line.startswith("rarecell ")]
    given = set(re.findall(r"--[a-z-]+", line))
    known = {option for parameter in main.commands["assess"].params for option in parameter.opts}
    assert given <= known
    assert "--fail-above" in given
    text = (ROOT / path).read_text(encoding="utf-8")
    assert not re.search(r"report\.html|risk\.parquet|swaps\.parquet", text)


@pytest.mark.slow
@pytest.mark.parametrize(("population", "code"), [(700, 3), (3_000_000, 0)])
@pytest.mark.parametrize("path", TEMPLATES)
def test_the_gate_closes_with_exit_code_3_and_leaves_the_report(path: str, population: int, code: int, tmp_path: Path) -> None:
    people = "".join(f"{20 + row % 60},{row % 7},{row % 2}\n" for row in range(600)) + "99,6,1\n"
    (tmp_path / "people.csv").write_text("age,region,sex\n" + people, encoding="utf-8")
    (tmp_path / "run.toml").write_text(
        f'input = "people.csv"\nkeys = ["age", "region", "sex"]\npopulation = {population}\n', encoding="utf-8"
    )
    (line,) = [line for line in commands(path) if line.startswith("rarecell ")]
    script = f"from rarecell.cli import main\nmain({shlex.split(line)[1:]!r})"
    environment = {**os.environ, "PYTHONPATH": str(Path(rarecell.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == code, done.stderr
    assert ("above the 0.2 of --fail-above" in done.stderr) == (code == 3)
    assert (tmp_path / "result" / "report-external.html").stat().st_size > 10_000


@pytest.mark.parametrize("path", ["packaging/conda/recipe.yaml", "CITATION.cff"])
def test_recipe_and_citation_are_valid(path: str) -> None:
    read = parsed(path)
    if path == "CITATION.cff":
        assert {"cff-version", "message", "title", "authors", "version", "license", "references"} <= set(read)
    else:
        scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
        assert read["build"]["python"]["entry_points"] == [f"{name} = {place}" for name, place in scripts.items()]


@pytest.mark.skipif(not (ROOT / ".github").is_dir(), reason="a source distribution has no workflows")
def test_workflows_are_valid_and_run_what_is_there() -> None:
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        read = parsed(str(path.relative_to(ROOT)))
        steps = [step for job in read["jobs"].values() for step in job["steps"]]
        assert steps, path.name
        for run in (step["run"] for step in steps if "run" in step):
            for named in re.findall(r"tests/\w+\.py|\.ci/run", run):
                assert (ROOT / named).exists(), f"{path.name} runs {named}"


# ---------------------------------------------------------------------- gates that call `rarecell check`


def _options_of_check() -> set[str]:
    return {option for parameter in main.commands["check"].params for option in parameter.opts}


def test_the_hook_and_the_action_use_options_that_exist() -> None:
    (hook,) = parsed("packaging/ci/pre-commit-config.yaml")["repos"][0]["hooks"]
    steps = parsed("packaging/ci/github-action/action.yml")["runs"]["steps"]
    operator = (ROOT / "packaging/ci/airflow/rarecell_check.py").read_text(encoding="utf-8")
    given = set(re.findall(r"--[a-z][a-z-]*", " ".join(hook["args"]) + steps[-1]["run"] + operator))
    assert {"--config", "--profile"} <= given
    assert given <= _options_of_check()


@pytest.mark.skipif(not (ROOT / ".pre-commit-hooks.yaml").exists(), reason="a source distribution has no hooks")
def test_the_hook_that_is_offered_is_the_one_that_is_used() -> None:
    (offered,) = parsed(".pre-commit-hooks.yaml")
    (used,) = parsed("packaging/ci/pre-commit-config.yaml")["repos"][0]["hooks"]
    assert offered["id"] == used["id"]
    assert offered["entry"].split()[:2] == ["rarecell", "check"]
    assert re.search(offered["files"], "survey.csv.gz")


def test_no_input_of_the_action_becomes_part_of_a_command() -> None:
    for step in parsed("packaging/ci/github-action/action.yml")["runs"]["steps"]:
        assert "${{" not in step["run"]


def test_an_upload_is_held_until_somebody_signs(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("hold_until_signed", ROOT / "packaging/ci/ckan/hold_until_signed.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    people = tmp_path / "people.csv"
    people.write_text("age,sex\n" + "".join(f"{row % 50},{row % 2}\n" for row in range(400)) + "99,1\n", encoding="utf-8")
    own = tmp_path / "own.toml"
    own.write_text("max_record_risk = 1.0\nworst_light = 'red'\n", encoding="utf-8")
    options = {"keys": ["age", "sex"], "population": 450, "model": "independence"}

    desk = module.Desk(tmp_path / "notes", profile=str(own))
    assert desk.uploaded("resource-1", people, **options)["state"] == "held"
    assert not desk.may_be_shown("resource-1")
    desk.sign("resource-1", by="A. Steward")
    assert desk.may_be_shown("resource-1")

    strict = module.Desk(tmp_path / "notes", profile="public")
    assert strict.uploaded("resource-2", people, **options)["state"] == "refused"
    with pytest.raises(PermissionError, match="do not release"):
        strict.sign("resource-2", by="A. Steward")
    assert not strict.may_be_shown("resource-2")
    assert strict.sign("resource-2", by="A. Steward", reason="a court asked for it")["reason"] == "a court asked for it"
    assert (tmp_path / "notes" / "resource-2.json").stat().st_mode & 0o077 == 0
    with pytest.raises(ValueError, match="letters"):
        desk.note("../resource-1")
