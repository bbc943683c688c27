"""Bad configurations are refused in one sentence, and folders of runs are whole or absent."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rarecell.errors import BadInput, OutputExists, RarecellError
from rarecell.run.config import RunConfig
from rarecell.run.folder import open_run_folder


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("input = 'a.csv'\nkeys = ['a']\npopulaton = 5", "did you mean 'population'"),
        ("input = 'a.csv'\nkeys = ['a']", "population is not known"),
        ("input = 'a.csv'\nkeys = 'a'\npopulation = 5", "must be a list"),
        ("input = 'a.csv'\nkeys = ['a']\npopulation = 'many'", "whole number"),
        ("input = 'a.csv'\nkeys = ['a']\npopulation = true", "whole number"),
        ("input = 'a.csv'\nkeys = ['a']\npopulation = 5\nsearch = 'magic'", "takes one of"),
        ("input = 'a.csv'\nkeys = ['a']\npopulation = 5\n[protect]\ntopp = 3", "did you mean 'top'"),
        ("keys = ['a']\npopulation = 5", "lacks 'input'"),
        ("input = ", "not valid TOML"),
        ("input = 'a.csv'\nkeys = []\npopulation = 5", "No key was named"),
        ("input = 'a.csv'\nkeys = ['a']\npopulation = 5\nthreshold = 2", "between 0 and 1"),
    ],
)
def test_bad_configurations_get_one_sentence(text: str, problem: str) -> None:
    with pytest.raises(RarecellError, match=problem):
        RunConfig.from_toml(text)


def test_a_published_folder_is_for_its_owner_and_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with open_run_folder(out) as folder:
        folder.write_text("summary.json", "{}")
        folder.write_text("run.json", "{}")
        assert not (out / "summary.json").exists()
        folder.publish()
    assert sorted(p.name for p in out.iterdir()) == ["run.json", "summary.json"]
    assert stat.S_IMODE((out / "summary.json").stat().st_mode) == 0o600
    with pytest.raises(OutputExists, match="--overwrite"), open_run_folder(out):
        pass
    with open_run_folder(out, overwrite=True) as folder:
        folder.write_text("summary.json", '{"new": 1}')
        folder.publish()
    assert (out / "summary.json").read_text() == '{"new": 1}'


def test_a_run_that_fails_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "run"

    def fail() -> None:
        with open_run_folder(out) as folder:
            folder.write_text("summary.json", "{}")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not out.exists()


def test_a_second_run_into_the_same_folder_is_refused(tmp_path: Path) -> None:
    with open_run_folder(tmp_path), pytest.raises(BadInput, match="Another run"), open_run_folder(tmp_path):
        pass
    with open_run_folder(tmp_path):
        pass


def test_what_a_killed_run_left_is_swept(tmp_path: Path) -> None:
    left = tmp_path / ".rarecell-unfinished-abc"
    left.mkdir()
    (left / "risk.parquet").write_text("half")
    with open_run_folder(tmp_path) as folder:
        folder.write_text("run.json", "{}")
        folder.publish()
    assert not left.exists()
    assert os.listdir(tmp_path) == ["run.json"]


def test_out_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="needs the name of a folder"), open_run_folder(tmp_path / "file"):
        pass
