"""Records that stay at risk after protection: found, with a reason, and listed where only the office sees them."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rarecell as rc
from rarecell.engine.duck import EngineSettings
from rarecell.release.release import Release
from rarecell.run.swaps import reporting_register
from rarecell.swap.plan import SwapPlan
from tests.large_file import LargeFile
from tests.test_attack import KEYS, ORIGINAL

SIMPLE: dict[str, Any] = {"keys": KEYS, "population": 900, "model": "single", "resolution": "full", "threshold": 0.03}


@pytest.fixture(scope="module")
def few() -> rc.Protection:
    return rc.protect(ORIGINAL, top=6, **SIMPLE)


def test_everybody_above_the_threshold_is_listed(few: rc.Protection) -> None:
    released, risk, plan = few.frame, few.assessment.risk, few.plan
    assert isinstance(plan, SwapPlan)
    cells = list(zip(*(released[key].to_pylist() for key in KEYS), strict=True))
    alone = {row for row, cell in enumerate(cells) if cells.count(cell) == 1}
    highest = plan.links(reporting_register(few.assessment)).highest
    expected = {int(row): float(p) for row, p in zip(plan.rows, highest, strict=True) if row in alone and p >= 0.03}
    table = risk.table
    assert table.record_cell is not None
    for row in alone - set(plan.rows.tolist()):
        if risk.unique_probability[table.record_cell[row]] >= 0.03:
            expected[row] = float(risk.unique_probability[table.record_cell[row]])
    assert {one.record: one.risk for one in few.remaining} == pytest.approx(expected)
    assert len(expected) > 5
    assert [one.risk for one in few.remaining] == sorted(expected.values(), reverse=True)
    for one in few.remaining:
        assert tuple(one.values.values()) == tuple(str(value) for value in cells[int(one.record or 0)])
        assert one.swapped == (one.record in plan.rows)
        assert "--suppress-rest" in one.remedy


def test_the_riskiest_of_the_released_file_are_told_where_nobody_stays_at_risk(few: rc.Protection, tmp_path: Path) -> None:
    safe = rc.protect(ORIGINAL, top=6, swap_seed=few.assessment.config.seed, **SIMPLE | {"threshold": 0.9})
    assert safe.remaining == ()
    assert 0 < len(safe.riskiest) <= 20
    assert [one.risk for one in safe.riskiest] == sorted((one.risk for one in safe.riskiest), reverse=True)
    assert not any(one.is_at_risk or one.reason or one.remedy for one in safe.riskiest)
    page = (safe.save(tmp_path / "run") / "report.html").read_text()
    assert "In the released file no record reaches the threshold" in page
    assert "The riskiest records of the released file" in page
    assert "riskiest records of the released" not in (tmp_path / "run" / "report-external.html").read_text()
    assert few.riskiest[: len(few.remaining)] == few.remaining


def test_the_summary_counts_them_by_reason(few: rc.Protection) -> None:
    swap = few.summary.swap
    assert swap is not None
    assert {one.reason: one.records for one in swap.remaining} == Counter(one.reason for one in few.remaining)
    assert swap.released is not None
    assert swap.released.records_above_threshold == len(few.remaining)
    assert "no protection was asked for" in {one.reason for one in swap.remaining}
    assert swap.exposed == sum(one.swapped for one in few.remaining)


def test_the_office_has_the_list_and_nobody_else(few: rc.Protection, tmp_path: Path) -> None:
    folder = few.save(tmp_path / "run")
    rows = list(csv.DictReader((folder / "tables" / "remaining-records.csv").read_text().splitlines()))
    assert [int(row["Record, counted from 1"]) - 1 for row in rows] == [one.record for one in few.remaining]
    assert {row["What helps"] for row in rows} == {one.remedy for one in few.remaining}
    page = (folder / "report.html").read_text()
    assert "Records that stay at risk, one by one" in page
    assert not (folder / "tables-external" / "remaining-records.csv").exists()
    assert "stay at risk, one by one" not in (folder / "report-external.html").read_text()
    stored = json.loads((folder / "summary.json").read_text())["swap"]["remaining"]
    assert sum(one["records"] for one in stored) == len(few.remaining)


def test_blanked_values_leave_the_list_shorter() -> None:
    done = rc.protect(ORIGINAL, top=6, suppress_rest=True, **SIMPLE)
    assert done.suppression is not None
    assert {one.record for one in done.remaining} <= set(done.suppression.unreached)


def test_a_dropped_record_at_risk_with_its_household_has_no_values_of_another() -> None:
    rng = np.random.default_rng(6)
    home = np.repeat(np.arange(40), 3)
    people = pa.table(
        {
            "age": rng.integers(0, 50, 120),
            "job": [None if rng.random() < 0.2 else job for job in rng.choice(list("abcdef"), 120)],
            "home": home,
        }
    )
    options: dict[str, Any] = {"population": 900, "model": "single", "resolution": "full"}
    done = rc.protect(people, keys=["age", "job"], household="home", missing="drop", top=2, **options)
    dropped = {row for row, job in enumerate(people["job"].to_pylist()) if job is None}
    listed = [one for one in done.remaining if one.record in dropped]
    assert listed
    assert not any(one.values for one in listed)
    assert all(set(one.values) == {"age", "job"} for one in done.remaining if one.record not in dropped)


@pytest.mark.parametrize("seed", range(4))
def test_the_record_that_stays_is_known_without_records(seed: int) -> None:
    """A table of counts numbers its records cell by cell, and says as much as one that holds them."""
    rng = np.random.default_rng(seed)
    categories = [rc.Categories("a", tuple(range(4)), True), rc.Categories("b", tuple(range(3)), False)]
    codes = rng.integers(0, 3, (30, 2)).astype(np.int32)
    codes = codes[np.lexsort(codes.T[::-1])]
    held = rc.ContingencyTable.from_codes(codes, categories)
    counted = rc.ContingencyTable.from_counts(held.cells, held.counts, categories)
    rows = np.sort(rng.choice(30, 20, replace=False))
    new = rng.integers(0, 4, (20, 2)).astype(np.int32) % [4, 3]
    whole = codes.copy()
    whole[rows] = new
    after = rc.ContingencyTable.from_codes(whole.astype(np.int32), categories)
    one, other = (Release(table, rows, codes[rows], new.astype(np.int32), counted=after) for table in (held, counted))
    assert one.unmoved_rows().tolist() == other.unmoved_rows().tolist()
    assert (other.unmoved_rows() >= 0).all()


def test_where_records_are_not_held_they_are_found_in_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    n = 600
    people = pa.table(
        {"a": rng.integers(0, 9, n), "b": rng.integers(0, 7, n), "c": rng.integers(0, 6, n), "d": rng.integers(0, 4, n)}
    )
    pq.write_table(people, tmp_path / "people.parquet")
    done = rc.protect(
        LargeFile(tmp_path / "people.parquet", settings=EngineSettings()),
        keys=list("abcd"),
        population=2_000,
        top=40,
        model="single",
        resolution="full",
        threshold=0.3,
    )
    assert done.assessment.table.record_cell is None
    assert len(done.remaining) > 20
    cells = list(zip(*(done.frame[key].to_pylist() for key in "abcd"), strict=True))
    for one in done.remaining:
        assert tuple(one.values.values()) == tuple(str(value) for value in cells[int(one.record or 0)])
        assert cells.count(cells[int(one.record or 0)]) == 1
