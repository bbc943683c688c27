"""Areas, sensitive columns, scenarios and registers in a whole run: every role changes a number."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import rarecell as rc
from rarecell.cli.commands import main
from rarecell.data.crossing import wider_table
from rarecell.errors import BadInput, RarecellError
from rarecell.outcome.summary import RunSummary
from rarecell.progress import SilentProgress
from rarecell.risk.attributes import Groups, attribute_risk

KEYS = ["age", "sex", "job"]


def population(n_people: int = 3_000, seed: int = 8) -> pa.Table:
    rng = np.random.default_rng(seed)
    town = np.minimum(rng.geometric(0.25, n_people) - 1, 7)
    job = np.minimum(rng.geometric(0.4, n_people) - 1, 5)
    return pa.table(
        {
            "age": rng.integers(20, 50, n_people),
            "sex": np.array(["f", "m"])[rng.integers(0, 2, n_people)],
            "job": np.array(["clerk", "cook", "smith", "nurse", "pilot", "judge"])[job],
            "town": np.char.add("t", town.astype(str)),
            "region": np.char.add("r", (town // 4).astype(str)),
            "illness": np.array(["none", "flu", "gout"])[np.minimum(rng.geometric(0.6, n_people) - 1, 2)],
            "income": 1_000 * job + rng.integers(0, 4_000, n_people),
        }
    )


PEOPLE = population()
SAMPLE = PEOPLE.slice(0, 400)
SIMPLE: dict[str, Any] = {"population": PEOPLE.num_rows, "model": "single", "resolution": "full"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("roles")
    pq.write_table(SAMPLE, folder / "sample.parquet")
    pq.write_table(PEOPLE, folder / "register.parquet")
    return folder / "sample.parquet", folder / "register.parquet"


def test_every_level_of_areas_is_a_run_of_its_own() -> None:
    whole = rc.assess(SAMPLE, keys=KEYS, geography="region>town", **SIMPLE).summary.risk
    for level, more in zip(whole.areas, ([], ["region"], ["town"]), strict=True):
        alone = rc.assess(SAMPLE, keys=[*KEYS, *more], **SIMPLE).summary.risk
        assert level.expected_population_uniques == pytest.approx(alone.expected_population_uniques)
        assert level.expected_correct_matches == pytest.approx(alone.expected_correct_matches)
        assert level.sample_uniques == alone.sample_uniques
        assert level.above_threshold == alone.records_above_threshold
    assert [len(level.areas) for level in whole.areas] == [0, 2, 8]
    assert whole.expected_population_uniques == pytest.approx(whole.areas[0].expected_population_uniques)


def test_an_area_among_the_keys_is_replaced_by_each_level() -> None:
    inside = rc.assess(SAMPLE, keys=[*KEYS, "town"], geography="region>town", **SIMPLE).summary.risk
    outside = rc.assess(SAMPLE, keys=KEYS, geography="region>town", **SIMPLE).summary.risk
    for one, other in zip(inside.areas, outside.areas, strict=True):
        assert one.expected_population_uniques == pytest.approx(other.expected_population_uniques)
    assert inside.expected_population_uniques == pytest.approx(inside.areas[-1].expected_population_uniques)


@pytest.mark.parametrize("model", ["single", "average"])
def test_every_scenario_is_a_run_of_its_own(model: str) -> None:
    scenario = {"neighbour": {"keys": ["age", "sex"]}, "colleague": {"keys": ["job", "age"]}}
    options = {**SIMPLE, "model": model, "resolution": "multi"}
    found = rc.assess(SAMPLE, keys=KEYS, scenario=scenario, **options)
    for told, known in zip(found.summary.risk.scenarios, scenario.values(), strict=True):
        alone = rc.assess(SAMPLE, keys=known["keys"], **options).summary.risk
        assert told.expected_population_uniques == pytest.approx(alone.expected_population_uniques)
        assert told.expected_correct_matches == pytest.approx(alone.expected_correct_matches)
        assert told.records_above_threshold == alone.records_above_threshold


def test_without_keys_those_of_all_scenarios_are_taken() -> None:
    config = rc.RunConfig.from_toml(
        'input = "f.csv"\npopulation = 10\n[scenario.neighbour]\nkeys = ["age", "sex"]\n[scenario.colleague]\nkeys = ["job", "age"]\n'
    )
    assert config.keys == ("age", "sex", "job")
    assert rc.RunConfig.from_toml(config.to_toml()) == config


def test_a_register_may_be_a_frame(files: tuple[Path, Path], tmp_path: Path) -> None:
    _, register = files
    of_path = rc.assess(SAMPLE, keys=KEYS, register=register, **SIMPLE).summary.risk.register
    of_frame = rc.assess(SAMPLE, keys=KEYS, register=PEOPLE.to_pandas(), out=tmp_path / "run", **SIMPLE)
    assert of_frame.summary.risk.register == of_path
    config = rc.RunConfig.read(tmp_path / "run" / "run.toml")
    assert config.register == "(a data frame)"
    again = rc.protect(
        replace(config, protect=rc.ProtectConfig(top=5)), frame=SAMPLE, register=pl.from_arrow(PEOPLE), progress=SilentProgress()
    )
    assert again.summary.risk.register == of_path
    assert again.summary.swap is not None
    assert again.summary.swap.intruders[1].estimated_after is not None


def test_the_register_is_counted_exactly(files: tuple[Path, Path]) -> None:
    sample, register = files
    found = rc.assess(str(sample), keys=KEYS, register=str(register), **SIMPLE)
    people = PEOPLE.select(KEYS).to_pylist()
    counts = [sum(person == record for person in people) for record in SAMPLE.select(KEYS).to_pylist()]
    alone = found.risk.per_record()["cell_count"] == 1
    told = found.summary.risk.register
    assert told is not None
    assert told.people == PEOPLE.num_rows
    assert told.population_uniques == sum(n == 1 for n, is_alone in zip(counts, alone, strict=True) if is_alone)
    assert told.correct_matches == pytest.approx(sum(1 / n for n, is_alone in zip(counts, alone, strict=True) if is_alone))
    assert sum(int(band.records) for band in told.calibration) == alone.sum()


def test_sensitive_columns_are_measured() -> None:
    found = rc.assess(SAMPLE, keys=["sex", "job"], sensitive=["illness", "income"], **SIMPLE).summary.risk
    assert [one.column for one in found.attributes] == ["illness", "income"]
    for told in found.attributes:
        table = wider_table(rc.Microdata(SAMPLE, keys=["sex", "job"]), [told.column])
        expected = attribute_risk(Groups.of(table, told.column))
        assert told.l_diversity == expected.l_diversity
        assert told.t_closeness == pytest.approx(expected.t_closeness)
        assert told.right_from_groups == expected.right_from_groups
        assert told.expected_without_participation is not None
    # Income follows the job, so that whoever knows the job knows more of the income.
    assert found.attributes[1].right_from_groups > 3 * int(found.attributes[1].right_from_file)


@pytest.mark.parametrize("missing", ["level", "drop"])
def test_missing_values_of_roles_take_no_record_out(missing: str) -> None:
    columns = SAMPLE.select(KEYS).to_pydict()
    columns["job"][3] = None
    columns["town"] = [None if row % 7 == 0 else town for row, town in enumerate(SAMPLE.column("town").to_pylist())]
    columns["illness"] = [None if row % 5 == 0 else ill for row, ill in enumerate(SAMPLE.column("illness").to_pylist())]
    found = rc.assess(pa.table(columns), keys=KEYS, geography="town", sensitive=["illness"], missing=missing, **SIMPLE)
    risk, n_records = found.summary.risk, 400 - (missing == "drop")
    assert found.summary.records == n_records
    assert risk.attributes[0].records == n_records
    assert sum(int(area.records) for area in risk.areas[1].areas) == n_records
    assert risk.areas[0].expected_population_uniques == pytest.approx(risk.expected_population_uniques)


def test_the_command_writes_all_of_it(files: tuple[Path, Path], tmp_path: Path) -> None:
    sample, register = files
    arguments = ["assess", str(sample), "--keys", "age,sex,job", "--population", "3000", "--model", "single", "--quiet"]
    arguments += ["--geography", "region>town", "--sensitive", "illness", "--register", str(register)]
    arguments += [
        "--scenario",
        "neighbour=age,sex",
        "--scenario",
        "colleague=age,job",
        "--details",
        "--out",
        str(tmp_path / "run"),
    ]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    for words in ("Areas", "town", "Several intruders", "neighbour", "illness", "register"):
        assert words in done.output
    summary = RunSummary.from_dict(json.loads((tmp_path / "run" / "summary.json").read_text()))
    assert len(summary.risk.areas) == 3
    assert summary.risk.register is not None
    risk = pq.read_table(tmp_path / "run" / "risk.parquet").to_pydict()
    assert set(risk["worst_scenario"]) <= {"neighbour", "colleague", ""}
    assert max(risk["worst_probability"]) == pytest.approx(max(s.highest or 0.0 for s in summary.risk.scenarios))
    assert min(risk["population_count"]) >= 1
    page = (tmp_path / "run" / "report.html").read_text()
    for words in ("Areas, groups and other intruders", "neighbour", "t-closeness", "The register"):
        assert words in page
    again = rc.RunConfig.read(tmp_path / "run" / "run.toml")
    assert (again.geography, again.register) == ("region>town", str(register))
    assert again.scenarios == {"neighbour": ("age", "sex"), "colleague": ("age", "job")}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"geography": "town>region"}, "do not nest"),
        ({"geography": "region>twon"}, "Did you mean 'town'"),
        ({"scenario": {"a": {"keys": ["agee"]}}}, "Did you mean 'age'"),
        ({"scenario": {"a": {"keis": ["age"]}}}, "needs the list of keys"),
        ({"register": "nowhere.csv"}, "nowhere.csv"),
    ],
)
def test_what_cannot_be_done_is_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises((RarecellError, BadInput), match=said):
        rc.assess(SAMPLE, keys=KEYS, **SIMPLE, **options)
