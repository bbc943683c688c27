"""Handing over what was too large for memory, or was protected on a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rarecell as rc
from rarecell.data import microdata
from rarecell.run.handover import handover

N = 2_000


def people() -> pa.Table:
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "person": 50_000 + rng.permutation(N),
            "age": rng.integers(18, 90, N),
            "sex": rng.choice(["f", "m"], N),
            "region": rng.integers(1, 9, N),
            "pay": np.round(rng.lognormal(8, 0.6, N), 1),
        }
    )


OPTIONS: dict[str, Any] = {"keys": ["age", "sex", "region"], "population": 60_000, "id": "person", "top": 8, "seed": 2, "model": "single",
                           "resolution": "full"}  # fmt: skip


def check(run: Path, before: pa.Table) -> None:
    """The folder holds the protected records without their names, in another order, and the key says which is which."""
    made = handover(run, reason="test", signed_by="A. Steward")
    data = pq.read_table(made / "data.parquet")
    inside = pq.read_table(next(run.glob("protected*")))
    assert data.column_names == ["age", "sex", "region", "pay"]
    assert data.num_rows == before.num_rows
    key = pq.read_table(run / "release-key.parquet")
    row_of = dict(zip(key["id"].to_pylist(), key["released_row"].to_pylist(), strict=True))
    rows = data.to_pylist()
    for record in inside.to_pylist():
        name = record.pop("person")
        assert rows[row_of[name]] == record
    same = sum(row["pay"] == old for row, old in zip(rows, before["pay"].to_pylist(), strict=True))
    assert same < 0.05 * N
    told = json.loads((run / "handover.json").read_text(encoding="utf-8"))
    assert (told["records"], told["order"], told["identifiers"]) == (N, "shuffled", "dropped")
    assert {path.name for path in made.iterdir()} >= {"about.html", "codebook.csv", "codebook.xml", "report.html"}


def test_a_file_that_its_engine_counts_is_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(microdata, "CODES_IN_MEMORY", 1)
    table = people()
    pq.write_table(table, tmp_path / "people.parquet", row_group_size=300)
    done = rc.protect(tmp_path / "people.parquet", out=tmp_path / "run", **OPTIONS)
    assert done.assessment.table.record_cell is None
    check(tmp_path / "run", table)


def test_several_files_are_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(microdata, "CODES_IN_MEMORY", 1)
    table = people()
    (tmp_path / "parts").mkdir()
    for k in range(4):
        pq.write_table(table.slice(500 * k, 500), tmp_path / "parts" / f"part-{k}.parquet")
    rc.protect(tmp_path / "parts", out=tmp_path / "run", **OPTIONS)
    made = handover(tmp_path / "run", reason="test")
    data = pq.read_table(next(path for path in made.iterdir() if path.name.startswith("data")))
    assert data.num_rows == N
    assert "person" not in data.column_names
    assert sorted(data["pay"].to_pylist()) == sorted(table["pay"].to_pylist())


def test_a_run_on_spark_is_handed_over(spark: Any, tmp_path: Path) -> None:
    table = people()
    frame = spark.createDataFrame(table.to_pandas()).repartition(3)
    rc.protect(frame, out=tmp_path / "run", **OPTIONS)
    check(tmp_path / "run", table)
