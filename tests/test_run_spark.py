"""A whole run on Spark gives what a run on a file and on a frame in memory gives, record by record."""

from __future__ import annotations

import csv
import json
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import rarecell as rc
from rarecell import datasets
from rarecell.cli.commands import main
from rarecell.datasets import census_sample
from rarecell.engine.duck import EngineSettings
from rarecell.errors import BadInput, EngineFailed, RarecellError
from rarecell.progress import SilentProgress, Stage
from rarecell.run.config import ProtectConfig, RunConfig
from tests.documentation import SPARK, run_sequence
from tests.large_file import LargeFile

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KEYS = ("relationship", "sex", "age", "marital.status", "citizenship", "spouse", "own_child", "child_age")
CONFIG = RunConfig(
    input="",
    keys=KEYS,
    population=277_677,
    id="person",
    seed=11,
    missing="drop",
    coding={"age": {"top": 85}},
    protect=ProtectConfig(max_population_uniques=60, keep=(("sex", "age"),), never_swap=("citizenship",), swap_seed=3),
)


def people() -> pa.Table:
    """The census sample with ids in no order, a missing value here and there, and columns outside the keys."""
    rng = np.random.default_rng(5)
    sample = census_sample().select([*datasets.CENSUS_KEYS, "education"])
    marital = pa.array(sample["marital"].to_numpy(), mask=rng.random(sample.num_rows) < 0.01)
    # R and pandas leave dots in names, which Spark and DuckDB take for something else.
    sample = sample.set_column(datasets.CENSUS_KEYS.index("marital"), "marital.status", marital)
    hours = rng.random(sample.num_rows).round(2)
    sample = sample.append_column("hours.worked", pa.array(hours, mask=hours > 0.9))
    return sample.append_column("person", pa.array([f"p{number:05d}" for number in rng.permutation(sample.num_rows)]))


def files(folder: Path, ids: list[str] | None = None) -> dict[str, Any]:
    """What a run left, with records by their id."""

    def named(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        places = {"record", "partner"}
        return [{k: ids[v] if ids and k in places else v for k, v in row.items()} for row in rows]

    def by(name: str, rows: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
        # Not a number is unlike itself.
        return {row[name]: {k: None if v != v else v for k, v in row.items()} for row in rows}

    def listed(name: str) -> list[list[str]]:
        table = folder / "tables" / f"{name}.csv"
        # A table without rows is not written.
        lines = table.read_text().splitlines()[1:] if table.exists() else []
        return [[ids[int(record) - 1] if ids else record, *others] for record, *others in csv.reader(lines)]

    summary = json.loads((folder / "summary.json").read_text())
    # Names and hashes of files differ from engine to engine.
    del summary["provenance"]
    # Records that stay on other machines are drawn to judge the columns beside the keys; which columns tell is the same.
    summary["swap"].pop("file", None)
    release = summary.get("release", {})
    release["leaks"] = sorted((leak["column"], leak["key"]) for leak in release.get("leaks", []))
    return {
        "summary": summary,
        "model": json.loads((folder / "model.json").read_text()),
        "zeros": json.loads((folder / "zeros.json").read_text()),
        "risk": by("record", named(pq.read_table(folder / "risk.parquet").to_pylist())),
        "swaps": named(pq.read_table(folder / "swaps.parquet").to_pylist()),
        "protected": by("person", pq.read_table(folder / "protected.parquet").to_pylist()),
        "riskiest": listed("riskiest-records"),
        "remaining": sorted(listed("remaining-records")),
        "names": sorted(path.name for path in folder.iterdir()),
    }


@pytest.fixture(scope="module")
def in_memory(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("runs") / "memory"
    rc.protect(CONFIG, frame=people(), out=out)
    return files(out, people()["person"].to_pylist())


def test_a_file_that_is_counted_by_its_engine_gives_the_same(in_memory: dict[str, Any], tmp_path: Path) -> None:
    """As when it is too large for its records to be coded in memory."""
    pq.write_table(people(), tmp_path / "people.parquet")
    large = LargeFile(tmp_path / "people.parquet", settings=EngineSettings())
    result = rc.protect(CONFIG, frame=large, out=tmp_path / "out")
    assert result.assessment.table.record_cell is None
    assert in_memory["summary"]["swap"]["beyond"]
    assert files(tmp_path / "out", people()["person"].to_pylist()) == in_memory


def test_every_output_is_the_same_on_spark(spark: Any, in_memory: dict[str, Any], tmp_path: Path) -> None:
    spark.createDataFrame(people()).repartition(3).createOrReplaceTempView("people")
    config = replace(CONFIG, spark_table="people")
    out = tmp_path / "out"
    rc.protect(config, out=out)
    found = files(out)
    for name, expected in in_memory.items():
        assert found[name] == expected, name
    assert {each["column"] for each in found["summary"]["swap"]["associations"]} == {"education", "hours.worked"}
    assert RunConfig.read(out / "run.toml") == config
    assert all(stat.S_IMODE(path.stat().st_mode) in (0o600, 0o700) for path in out.rglob("*"))
    assert all(path.suffix == ".parquet" for path in (out / "risk.parquet").iterdir())
    assert spark.table("people").toArrow().sort_by("person").equals(people().sort_by("person"))


def test_the_page_on_spark_says_what_happens(spark: Any) -> None:
    assert [(outcome.example.line, outcome.got) for outcome in run_sequence(SPARK) if not outcome.is_as_written] == []


def test_without_an_id_risk_is_told_by_the_keys(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame(people().select(["sex", "age", "marital.status"]))
    config = RunConfig(input="people", keys=("sex", "age", "marital.status"), population=277_677, model="single")
    found = rc.assess(config, frame=frame, out=tmp_path / "out")
    risk = pq.read_table(tmp_path / "out" / "risk.parquet")
    assert risk.column_names[:4] == ["sex", "age", "marital.status", "cell_count"]
    assert risk.num_rows == 9809
    assert sum(risk["unique_probability"].to_pylist()) == pytest.approx(found.risk.expected_population_uniques)


def test_what_spark_cannot_do_is_told_before_anything_is_counted(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame(people())
    for changes, problem in (
        ({"id": None}, "a column that names each record"),
        ({"id": None, "household": "education"}, "a column that names each record"),
        ({"protect": ProtectConfig(records=(3,))}, "row number"),
        ({"protect": ProtectConfig(formal={"epsilon": 2.0})}, "a formal release"),
        ({"protect": ProtectConfig(max_population_uniques=3, suppress_rest=True)}, "blanked"),
    ):
        with pytest.raises(BadInput, match=problem):
            rc.protect(replace(CONFIG, **changes), frame=frame, out=tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_the_command_reads_tables_and_paths(spark: Any, tmp_path: Path) -> None:
    def command(*arguments: str) -> Any:
        options = ["--keys", "sex,marital.status", "--population", "277677", "--model", "single", "--quiet"]
        return CliRunner().invoke(main, ["assess", *arguments, *options])

    pq.write_table(people(), tmp_path / "people.parquet")
    done = command("--spark-table", str(tmp_path / "people.parquet"), "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["records"] == 9809
    unknown = command("--spark-table", "no_such_table")
    assert unknown.exit_code == 1
    assert "no table 'no_such_table'" in unknown.output
    both = command(str(tmp_path / "people.parquet"), "--spark-table", "people")
    assert "name one of them" in both.output
    with pytest.raises(RarecellError, match="name one of them"):
        RunConfig(input="", keys=("a",), population=10, sql="select 1", spark_table="people")


class LosesExecutors(SilentProgress):
    """Has the executor of the next task killed when a stage begins: once, or whenever a task comes."""

    def __init__(self, order: Path, stages: set[str], *, ever_again: bool) -> None:
        self.order, self.stages, self.ever_again = order, stages, ever_again

    def start(self, stage: str, total: float | None = None) -> None:
        if stage in self.stages:
            self.order.write_text("again and again" if self.ever_again else "once")


def under_orders(order: str) -> Any:
    """A value as it is, unless there is an order: then the executor, two processes above, dies in the middle of its task."""

    def passed_on(value: int) -> int:
        import os
        import signal

        if os.path.exists(order):
            with open(order) as stream:
                is_single = stream.read() == "once"
            if is_single:
                os.remove(order)
            with open(f"/proc/{os.getppid()}/stat") as stream:
                os.kill(int(stream.read().rpartition(")")[2].split()[1]), signal.SIGKILL)
        return value

    return passed_on


@pytest.mark.skipif(sys.platform != "linux", reason="the executor is found through /proc")
def test_lost_executors_leave_nothing_half_written_and_a_rerun_completes(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql.functions import udf

    order, out = tmp_path / "order", tmp_path / "out"
    protect = ProtectConfig(top=20, swap_seed=3)
    config = RunConfig(
        input="people", keys=("sex", "age", "marital.status"), population=277_677, id="person", model="single", protect=protect
    )
    frame = spark.createDataFrame(people())
    fragile = frame.withColumn("sex", udf(under_orders(str(order)), frame.schema["sex"].dataType)("sex"))
    with pytest.raises(EngineFailed, match=r"lost again and again. Nothing was written, and the input is untouched.* run again"):
        rc.protect(config, frame=fragile, out=out, progress=LosesExecutors(order, {Stage.PROTECTED_FILE}, ever_again=True))
    assert not out.exists()
    order.unlink()
    stages = {Stage.READING, Stage.PROTECTED_FILE, Stage.RISK_FILE}
    rc.protect(config, frame=fragile, out=out, progress=LosesExecutors(order, stages, ever_again=False))
    assert not order.exists()
    rc.protect(config, frame=people(), out=tmp_path / "memory")
    found, expected = files(out), files(tmp_path / "memory", people()["person"].to_pylist())
    for name in ("risk", "swaps", "protected"):
        assert found[name] == expected[name], name
    assert expected["swaps"]
