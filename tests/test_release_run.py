"""Plans and releases as runs: recoded files, targets in correct links, blanked values, commands that work when pasted."""

from __future__ import annotations

import csv
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import rarecell as rc
from rarecell.cli.commands import main
from rarecell.errors import BadInput
from rarecell.run.config import RunConfig
from rarecell.run.plan import command_for

KEYS = ["age", "job", "sex"]
POPULATION = 3_000


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(5)
    n = 400
    age = rng.integers(18, 70, n)
    job = np.minimum(rng.geometric(0.2, n), 12) + (age > 45)
    path = tmp_path_factory.mktemp("survey") / "survey.csv"
    with open(path, "w", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(["age", "job", "sex", "note"])
        out.writerows(zip(age.tolist(), [f"j{k:02d}" for k in job], rng.choice(["f", "m"], n), ["x, y"] * n, strict=True))
    return path


def column(path: Path, name: str) -> list[str]:
    with open(path, newline="", encoding="utf-8") as stream:
        return [row[name] for row in csv.DictReader(stream)]


def options(**more: Any) -> dict[str, Any]:
    return {"keys": KEYS, "population": POPULATION, "model": "single", "resolution": "full", **more}


def test_what_was_assessed_is_what_is_written(survey: Path, tmp_path: Path) -> None:
    found = rc.protect(str(survey), out=tmp_path / "run", risk_above=0.5, **options(recode={"age": "bands of 10"}))
    written = set(column(tmp_path / "run" / "protected.csv", "age"))
    age = next(key for key in found.summary.keys if key.name == "age")
    assert (age.recode, age.levels, age.values_read) == ("bands of 10", len(written), len(set(column(survey, "age"))))
    assert written == {f"{low}–{low + 9}" for low in range(10, 70, 10)}
    with open(tmp_path / "run" / "recoding.csv", newline="", encoding="utf-8") as stream:
        mapping = {(row["key"], row["value"]): row["level"] for row in csv.DictReader(stream)}
    assert mapping[("age", "37")] == "30–39"
    assert 'age = "bands of 10"' in (tmp_path / "run" / "run.toml").read_text()
    # A new run on the released file, with nothing said of the recoding, finds the same table.
    again = rc.Microdata(tmp_path / "run" / "protected.csv", KEYS).table()
    assert again.size_indices == found.plan.table_after.size_indices


def test_advice_can_be_carried_out_by_copying_it(survey: Path) -> None:
    before = rc.assess(str(survey), **options(resolution="multi"))
    steps = [step for cost in before.summary.risk.key_costs for step in cost.coarsened]
    assert steps
    for step in steps:
        key, _, words = step.recode.partition("=")
        table = rc.Microdata(survey, KEYS, coding={key: words}).table()
        assert table.categories[KEYS.index(key)].n_levels == step.levels == len(step.groups)
        assert table.size_indices.get(1, 0) == step.sample_uniques


def test_a_target_in_correct_links(survey: Path) -> None:
    found = rc.protect(str(survey), max_correct_links=15.0, **options())
    swap = found.summary.swap
    assert swap is not None
    assert swap.target is not None
    assert swap.target.met == (swap.risk_after.expected_correct_matches <= 15.0)
    assert swap.target.max_correct_links == 15.0
    assert swap.risk_after.expected_correct_matches < swap.risk_before.expected_correct_matches


def test_values_are_blanked_when_swaps_are_not_enough(survey: Path, tmp_path: Path) -> None:
    # Nothing may be swapped, so that only blanking is left.
    found = rc.protect(
        str(survey), out=tmp_path / "run", max_record_risk=0.3, suppress_rest=True, never_swap=KEYS, blank=KEYS, **options()
    )
    swap = found.summary.swap
    assert swap is not None
    assert swap.suppression is not None
    assert found.suppression is not None
    assert swap.suppression.values == sum(swap.suppression.by_key.values()) > 0
    assert swap.risk_after.highest <= 0.3 < swap.risk_before.highest
    assert swap.risk_after.expected_population_uniques < swap.risk_before.expected_population_uniques
    audit = pq.read_table(tmp_path / "run" / "suppressed.parquet").to_pydict()
    assert len(audit["record"]) == swap.suppression.records
    for name in (*KEYS, "note"):
        before, after = column(survey, name), column(tmp_path / "run" / "protected.csv", name)
        blank = {row for row, names in zip(audit["record"], audit["variables"], strict=True) if name in names.split(",")}
        assert [row for row in range(len(after)) if after[row] != before[row]] == sorted(blank)
        assert all(after[row] == "" for row in blank)
    frame = found.frame
    assert sum(frame[key].null_count for key in KEYS) == swap.suppression.values


def test_a_recoded_file_is_blanked_too(survey: Path, tmp_path: Path) -> None:
    more = options(recode={"age": "bands of 10"}, max_record_risk=0.05, suppress_rest=True, never_swap=KEYS, blank=KEYS)
    found = rc.protect(str(survey), out=tmp_path / "run", **more)
    assert found.suppression is not None
    for name in KEYS:
        blank = found.suppression.rows[found.suppression.blanked[name]].tolist() if name in found.suppression.blanked else []
        values = column(tmp_path / "run" / "protected.csv", name)
        assert [row for row, value in enumerate(values) if not value] == sorted(blank)


def test_a_blanked_value_is_written_as_missing_values_are(survey: Path, tmp_path: Path) -> None:
    """An empty field among words for 'missing' would mark it; and the encoding is that of the input."""
    lines = survey.read_text(encoding="utf-8").splitlines()
    place = lines[0].split(",").index("age")
    written = [lines[0]]
    for number, line in enumerate(lines[1:]):
        fields = line.split(",")
        if number % 40 == 0:
            fields[place] = "NA"
        written.append(",".join(fields).replace("note", "nöte"))
    path = tmp_path / "latin.csv"
    path.write_bytes(("\n".join(written) + "\n").encode("latin-1"))
    more = options(encoding="latin-1", max_record_risk=0.3, suppress_rest=True, never_swap=KEYS, blank=KEYS)
    found = rc.protect(str(path), out=tmp_path / "run", **more)
    assert found.suppression is not None
    assert found.suppression.blanked["age"].any()
    text = (tmp_path / "run" / "protected.csv").read_bytes().decode("latin-1").splitlines()
    values = [line.split(",")[place] for line in text[1:]]
    blank = set(found.suppression.rows[found.suppression.blanked["age"]].tolist())
    assert {row for row, value in enumerate(values) if value == "NA"} == blank | set(range(0, len(values), 40))
    assert "" not in values
    assert not blank & set(range(0, len(values), 40))
    again = rc.protect(str(path), out=tmp_path / "again", released=tmp_path / "run", top=2, **options(encoding="latin-1"))
    assert again.summary.swap is not None
    assert again.summary.swap.earlier is not None


def test_a_plan_and_its_commands(survey: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["plan", str(survey), "--keys", ",".join(KEYS), "--population", str(POPULATION), "--quiet"]
    words += ["--model", "single", "--resolution", "full", "--max-correct-links", "12", "--recodable", "age"]
    shown = CliRunner().invoke(main, words)
    assert shown.exit_code == 0, shown.output
    assert "Ways to release the file with at most 12 correct links" in shown.output
    as_json = CliRunner().invoke(main, [*words, "--json"])
    found = json.loads(as_json.stdout)
    assert found["target"] == {"max_correct_links": 12.0}
    assert [point["information_lost"] for point in found["points"]] == sorted(p["information_lost"] for p in found["points"])
    assert all(set(point["recoding"]) <= {"age"} for point in found["looked_at"])
    chosen = found["points"][found["cheapest"]["fewest swaps"]]
    assert chosen["command"] in shown.output
    done = CliRunner().invoke(main, [*shlex.split(chosen["command"])[1:], "--quiet"])
    assert done.exit_code == 0, done.output
    levels = set(column(tmp_path / "release" / "protected.csv", "age"))
    assert len(levels) == chosen["levels"]["age"][1]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_point_of_a_plan_is_what_its_command_gives(survey: Path, tmp_path: Path, weighted: bool) -> None:
    """With the same seed, a release has the swaps and the risk that the plan promised."""
    path = survey
    if weighted:
        lines = survey.read_text().splitlines()
        rows = [f"{line},{5 + 10 * (place % 3)}" for place, line in enumerate(lines[1:])]
        path = tmp_path / "weighted.csv"
        path.write_text("\n".join([f"{lines[0]},weight", *rows]) + "\n")
    more = {"weight": "weight", "population": None} if weighted else {}
    chosen = options(model="average", resolution="multi", **more)
    found = rc.plan(str(path), max_correct_links=30.0, seed=7, **chosen)
    config = RunConfig(input=str(path), keys=tuple(KEYS), **{k: v for k, v in chosen.items() if k != "keys"})
    assert any(point.swaps for point in found.points)
    for place, point in enumerate(found.points):
        words = shlex.split(command_for(point, found.target, config, out=str(tmp_path / f"release-{place}")))
        done = CliRunner().invoke(main, [*words[1:], "--seed", "7", "--quiet"])
        assert done.exit_code == 0, done.output
        swap = json.loads((tmp_path / f"release-{place}" / "summary.json").read_text())["swap"]
        assert swap["values_changed"] == point.values_changed
        assert swap["risk_after"]["expected_correct_matches"] == pytest.approx(point.correct_links, rel=1e-4)
        assert swap["risk_after"]["highest"] == pytest.approx(point.highest, rel=1e-4)


def test_a_plan_leaves_keys_that_the_run_recodes_already(survey: Path) -> None:
    """Groups of bands cannot be said in one option, and a second option would replace the first."""
    found = rc.plan(str(survey), max_correct_links=12.0, **options(recode={"age": "10-year bands"}))
    assert all("age" not in point.recoding for point in found.looked_at)
    assert any(point.recoding for point in found.looked_at)
    assert found.points[0].levels["age"] == (6, 6)
    with pytest.raises(rc.RarecellError, match="already releases as 'bands of 10'"):
        rc.plan(str(survey), max_correct_links=12.0, recodable=["age"], **options(recode={"age": "10-year bands"}))
    with pytest.raises(rc.RarecellError, match="agee"):
        rc.plan(str(survey), max_correct_links=12.0, recodable=["agee"], **options())


def test_the_order_that_a_run_gives_to_levels_stays_in_the_command(survey: Path) -> None:
    more = options(recode={"job": "ordered"})
    found = rc.plan(str(survey), max_correct_links=12.0, recodable=["job"], **more)
    point = next(point for point in found.looked_at if point.recoding)
    config = RunConfig(input="survey.csv", keys=tuple(KEYS), population=POPULATION, recode={"job": "ordered"})
    words = shlex.split(command_for(point, found.target, config))
    assert words[words.index("--recode") + 1] == f"job=ordered, {point.recoding['job']}"
    recode = {"job": words[words.index("--recode") + 1].removeprefix("job=")}
    released = rc.assess(str(survey), **options(recode=recode))
    assert released.summary.risk.sample_uniques == point.sample_uniques


def test_a_plan_without_a_target_is_refused(survey: Path) -> None:
    done = CliRunner().invoke(main, ["plan", str(survey), "--keys", "age,sex", "--population", "3000"])
    assert done.exit_code == 1
    assert "No target was given" in done.output
    assert "--max-correct-links" in done.output
    with pytest.raises(BadInput, match="max_correct_links="):
        rc.plan(str(survey), keys=["age", "sex"], population=3_000)


def test_the_command_of_a_point_holds_what_the_run_was_told(survey: Path) -> None:
    config = RunConfig(
        input="a file.csv",
        keys=("age", "sex"),
        population=3_000,
        coding={"age": {"top": 60}},
        hierarchies={"sex": "h.csv"},
        missing="drop",
    )
    found = rc.plan(str(survey), max_record_risk=0.5, recodable=(), **options())
    command = command_for(found.points[0], found.target, config)
    assert command == (
        "rarecell protect 'a file.csv' --keys age,sex --population 3000 --missing drop --recode 'age=top 60' --hierarchy sex=h.csv "
        "--max-record-risk 0.5 --out release"
    )


def test_the_command_of_a_point_says_every_choice_that_is_not_the_default(survey: Path) -> None:
    """Read back by the command line, the words give the configuration of the plan again."""
    from rarecell.cli.options import config_of

    config = RunConfig(
        input="survey.csv",
        keys=("age", "sex", "job"),
        strata="region",
        populations={"north": 1_000, "south": 2_000},
        household="hh",
        geography="region>district",
        sensitive=("income", "health"),
        scenario={"neighbour": {"keys": ["age", "sex"]}},
        register="everybody.parquet",
        id="number",
        encoding="latin-1",
        decimal=",",
        criterion="bic",
        search="local",
        max_clique=4,
        restarts=7,
        time_limit=2.5,
        model="single",
        cliques=(("age", "sex"), ("sex", "job")),
        resolution="full",
        zeros="off",
        form="poisson",
        threshold=0.1,
        memory="2GB",
        by="A. Person",
    )
    found = rc.plan(str(survey), max_record_risk=0.5, recodable=(), **options())
    words = shlex.split(command_for(found.points[0], found.target, config))
    assert words[:2] == ["rarecell", "protect"]
    with main.commands["protect"].make_context("protect", words[2:]) as context:
        read = config_of("protect", context.params)
    assert replace(read, protect=None) == config
