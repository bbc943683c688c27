"""From a survey file as offices have it to the folder that leaves: planted leaks are found, clean files raise no alarm."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import rarecell as rc
from rarecell.engine import open_source
from rarecell.run.beside_keys import ROW_ORDER, ColumnsGiveKeysAway, LeakSearch
from rarecell.run.config import RunConfig
from rarecell.run.handover import handover
from rarecell.run.inputs import read
from tests.whole_files import FILES

pytest.importorskip("pyreadstat")

QUICK = {"top": 3, "model": "single", "resolution": "full", "seed": 1, "search": "greedy", "restarts": 1}


def search(path: Path, options: dict[str, object]) -> LeakSearch:
    data = read(
        RunConfig.from_mapping({"input": str(path), **{k: list(v) if isinstance(v, tuple) else v for k, v in options.items()}})
    )
    return LeakSearch.of(data, data.table(records=True))


@pytest.mark.parametrize("name", list(FILES))
def test_planted_leaks_stop_a_run_and_the_rest_goes_all_the_way(tmp_path: Path, name: str) -> None:
    survey = FILES[name](tmp_path)
    with pytest.raises(ColumnsGiveKeysAway) as problem:
        rc.protect(survey.path, **survey.options, **QUICK)
    assert {column for column in survey.planted if f"'{column}'" in str(problem.value)} == survey.planted
    treat = dict.fromkeys(survey.planted, "drop")
    rc.protect(survey.path, treat=treat, out=tmp_path / "run", **survey.options, **QUICK)
    made = handover(tmp_path / "run", signed_by="A. Steward", reason="test of the whole way")
    data = next(made.glob("data.*"))
    source = open_source(data)
    names = [column.name for column in source.columns()]
    assert not survey.planted & set(names)
    assert survey.options.get("id") not in names
    with (made / "codebook.csv").open(encoding="utf-8", newline="") as file:
        assert [*dict.fromkeys(row["column"] for row in csv.DictReader(file))] == names


@pytest.mark.parametrize("name", list(FILES))
def test_what_was_released_before_is_found_out_by_an_attack(tmp_path: Path, name: str) -> None:
    survey = FILES[name](tmp_path)
    done = rc.protect(survey.path, accept_leak=sorted(survey.planted), out=tmp_path / "run", **survey.options, **QUICK)
    assert {one.column for one in done.summary.release.leaks if one.accepted} >= survey.planted - {"PX030"}
    asked = {name: survey.options[name] for name in ("keys", "weight", "household") if name in survey.options}
    found = rc.attack(next((tmp_path / "run").glob("protected.*")), original=survey.path, **asked)
    restored = {column for leak in found.summary.leaks if leak.restores for column in leak.columns}
    assert survey.planted <= restored
    # What is made now, without these columns, gives nothing away but by the id and the order, which a handover leaves out.
    treat = dict.fromkeys(survey.planted, "drop")
    rc.protect(survey.path, treat=treat, out=tmp_path / "now", **survey.options, **QUICK)
    if "PX030" in survey.planted:
        del asked["household"]
    now = rc.attack(next((tmp_path / "now").glob("protected.*")), original=survey.path, **asked)
    left_out = {survey.options.get("id"), ROW_ORDER}
    assert not [leak for leak in now.summary.leaks if leak.restores and not left_out & set(leak.columns)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", list(FILES))
def test_twenty_clean_files_raise_no_alarm(tmp_path: Path, name: str, seed: int) -> None:
    survey = FILES[name](tmp_path, leaks=False, seed=100 + seed)
    looked = search(survey.path, survey.options)
    assert not [leak for leak in looked.of_recodings if leak.restores]
    moved = dict.fromkeys(survey.options["keys"], 25)
    assert not [leak for leak in looked.of_moved(moved, moved, {}) if leak.restores]


def test_labels_of_a_statistics_file_stand_in_the_codebook(tmp_path: Path) -> None:
    survey = FILES["mics"](tmp_path, leaks=False)
    rc.protect(survey.path, out=tmp_path / "run", **survey.options, **QUICK)
    made = handover(tmp_path / "run", reason="test")
    with (made / "codebook.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["value_label"]) for row in rows if row["column"] == "HL4"} == {"Male", "Female"}
    assert {row["label"] for row in rows if row["column"] == "HL6"} == {"Age"}
    assert (made / "data.sav").exists()
