"""A plan applied: values exchanged and nothing else, on every kind of data."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rarecell as rc
from rarecell.datasets import CENSUS_KEYS, CENSUS_POPULATION, census_sample, census_sample_path
from rarecell.engine.changes import Changes
from rarecell.errors import BadInput
from rarecell.release.blanks import Suppression
from rarecell.swap.apply import MarginsDiffer, compare_margins, moved_keys, write_plan
from rarecell.swap.plan import SwapPlan, plan_swaps
from rarecell.swap.units import coded_columns
from tests.reference import cliques_by_number

FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "pyarrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.from_arrow,
    "polars lazy": lambda table: pl.from_arrow(table).lazy(),  # type: ignore[union-attr]
}


def as_arrow(frame: Any) -> pa.Table:
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    return frame if isinstance(frame, pa.Table) else frame.to_arrow() if isinstance(frame, pl.DataFrame) else pa.table(frame)


def planned(data: rc.Microdata, **options: Any) -> SwapPlan:
    table = data.table()
    model = rc.DecomposableModel(table, cliques=cliques_by_number(table, "15 16 36 46 37 28 38"))
    risk = rc.record_risk(table, model, population=CENSUS_POPULATION)
    return plan_swaps(table, model, records=risk.riskiest(60), risk=risk, **options)


@pytest.mark.parametrize("library", FRAMES)
def test_values_are_exchanged_and_nothing_else_changes(library: str) -> None:
    before = census_sample()
    data = rc.Microdata(FRAMES[library](before), keys=CENSUS_KEYS)
    plan = planned(data)
    result = plan.apply(data)
    assert type(result.frame) is type(FRAMES[library](before))
    after = as_arrow(result.frame)
    assert after.column_names == before.column_names
    assert after.schema.types == as_arrow(FRAMES[library](before)).schema.types
    for name in before.column_names:
        old, new = before[name].to_numpy(), after[name].to_numpy()
        if name not in CENSUS_KEYS:
            assert (old == new).all()
            continue
        expected = old.copy()
        moves = plan.moves(name)
        expected[plan.rows[moves]] = old[plan.sources[moves]]
        assert (new == expected).all()
    assert result.margins_identical
    assert [check.variables for check in result.margins] == [*plan.model.cliques]  # type: ignore[attr-defined]
    assert sum(moved_keys(plan).values()) == plan.n_values_changed
    audit = as_arrow(result.audit)
    assert audit.column_names == ["record", "partner", "variables", "distance", "risk_before"]
    assert audit["record"].to_pylist() == plan.rows.tolist()
    assert audit["variables"].to_pylist()[0] == ",".join(plan.variables(0))
    assert "are identical in input and output" in str(result)


def test_a_banded_key_moves_and_is_written_as_its_band() -> None:
    data = rc.Microdata(census_sample(), keys=CENSUS_KEYS, coding={"age": {"width": 10}})
    plan = planned(data)
    result = plan.apply(data)
    bands = data.table().categories[CENSUS_KEYS.index("age")].labels
    old = np.array([bands[number // 10] for number in census_sample()["age"].to_pylist()])
    new = np.array(result.frame["age"].to_pylist())
    assert sorted(old.tolist()) == sorted(new.tolist())
    moves = plan.moves("age")
    assert moves.any()
    assert (new[plan.rows[moves]] == old[plan.sources[moves]]).all()


def test_margins_with_other_columns_are_kept_and_checked() -> None:
    data = rc.Microdata(pd.DataFrame(census_sample().to_pandas()), keys=CENSUS_KEYS)
    keep = [("sex", "education"), ("age", "employed")]
    plan = planned(data, keep=keep, columns=coded_columns(data, [name for names in keep for name in names]))
    frame = plan.apply(data).frame
    before = census_sample().to_pandas()
    assert len(plan) > 20
    for names in keep:
        assert before.value_counts(list(names)).sort_index().equals(frame.value_counts(list(names)).sort_index())
    assert [check.variables for check in compare_margins(plan)][-2:] == [tuple(names) for names in keep]


def test_text_missing_values_and_dropped_records_survive() -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "a": [None if x == 3 else "xyz"[x] for x in rng.integers(0, 4, 300)],
            "b": [None if x == 9 else float(x) for x in rng.integers(0, 10, 300)],
            "c": pl.Series(rng.integers(0, 5, 300).astype(str)).cast(pl.Categorical),
            "other": rng.random(300),
        }
    )
    for missing in ("level", "drop"):
        data = rc.Microdata(frame, keys=["a", "b", "c"], missing=missing)
        table = data.table()
        model = rc.DecomposableModel(table, cliques=[("a", "b"), ("c",)])
        risk = rc.record_risk(table, model, population=3000)
        plan = plan_swaps(table, model, records=risk.riskiest(40), risk=risk)
        result = plan.apply(data)
        assert len(plan)
        assert result.frame.schema == frame.schema
        assert result.frame["other"].equals(frame["other"])
        for key in "abc":
            assert result.frame[key].cast(pl.String).sort().equals(frame[key].cast(pl.String).sort())
        if missing == "drop":
            dropped = np.flatnonzero(frame.select(pl.any_horizontal(pl.col("a", "b", "c").is_null()))[:, 0].to_numpy())
            assert not set(dropped.tolist()) & set(plan.rows.tolist())


def test_a_file_is_written_in_its_own_format(tmp_path: Path) -> None:
    data = rc.Microdata(census_sample_path(), keys=CENSUS_KEYS)
    plan = planned(data)
    result = write_plan(plan, data, tmp_path / "protected.csv.gz")
    assert result.path == tmp_path / "protected.csv.gz"
    with gzip.open(census_sample_path(), "rt") as old, gzip.open(result.path, "rt") as new:
        before, after = old.read().splitlines(), new.read().splitlines()
    assert len(before) == len(after)
    differing = [row - 1 for row, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    assert differing == sorted(plan.rows.tolist())


def test_a_plan_that_would_change_a_margin_is_an_internal_error(tmp_path: Path) -> None:
    data = rc.Microdata(census_sample_path(), keys=CENSUS_KEYS)
    plan = planned(data)
    wrong = replace(plan, moved=plan.moved ^ np.uint64(0b100))
    with pytest.raises(MarginsDiffer, match="Nothing was written"):
        write_plan(wrong, data, tmp_path / "protected.csv.gz")
    assert not any(tmp_path.iterdir())


def test_an_output_that_is_not_as_planned_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = rc.Microdata(census_sample_path(), keys=CENSUS_KEYS)
    plan = planned(data)
    monkeypatch.setattr("rarecell.swap.apply.changes_of", lambda release, data, others: Changes())
    with pytest.raises(MarginsDiffer, match="not those of the plan"):
        write_plan(plan, data, tmp_path / "protected.csv.gz")
    assert not any(tmp_path.iterdir())


def _few_cells(folder: Path) -> tuple[rc.Microdata, SwapPlan]:
    """Records in few cells, so that a record can move from one to another without emptying or filling any."""
    rows = [("u", 1)] * 8 + [("v", 1)] * 8 + [("u", 2)] * 8 + [("v", 2)] * 8 + [("w", 3), ("w", 1), ("u", 3)]
    pq.write_table(pa.table({"a": [a for a, _ in rows], "b": [b for _, b in rows]}), folder / "people.parquet")
    data = rc.Microdata(folder / "people.parquet", keys=["a", "b"])
    table = data.table()
    model = rc.DecomposableModel(table, cliques=[("a",), ("b",)])
    return data, plan_swaps(table, model, records=[32], risk=rc.record_risk(table, model, population=100), seed=1)


def _with_value(row: int, name: str, value: object) -> Callable[[rc.Microdata, Path], pa.Table]:
    """Read an output back with another value in one place."""

    def read(_: rc.Microdata, path: Path) -> pa.Table:
        written = pq.read_table(path)
        values = written[name].to_pylist()
        values[row] = value
        return written.set_column(written.column_names.index(name), name, pa.array(values, written.schema.field(name).type))

    return read


def test_differences_of_kept_tables_are_counted_cell_by_cell(tmp_path: Path) -> None:
    """The joint table of both keys is not kept by the plan: every cell in which it differs is counted, by one record too many or too few."""
    data, plan = _few_cells(tmp_path)
    joint = replace(plan, interactions=replace(plan.interactions, kept=(0b01, 0b10, 0b11)))
    before = pq.read_table(tmp_path / "people.parquet")
    after = pq.read_table(write_plan(plan, data, tmp_path / "after.parquet").path)
    for check, names in zip(compare_margins(joint), (["a"], ["b"], ["a", "b"]), strict=True):
        counts = [Counter(zip(*(table[name].to_pylist() for name in names), strict=True)) for table in (before, after)]
        cells = counts[0].keys() | counts[1].keys()
        assert check.variables == tuple(names)
        assert check.n_differing == sum(counts[0][cell] != counts[1][cell] for cell in cells)
        assert check.is_identical == (names != ["a", "b"])
        assert {counts[1][cell] - counts[0][cell] for cell in cells} <= {-1, 0, 1}


def test_an_output_with_a_record_in_another_cell_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, plan = _few_cells(tmp_path)
    assert len(plan) == 1
    untouched = next(row for row in range(8) if row not in plan.rows)
    assert write_plan(plan, data, tmp_path / "good.parquet").path is not None
    # Every cell stays occupied; only two counts are not as planned.
    monkeypatch.setattr(rc.Microdata, "read_back", _with_value(untouched, "a", "v"))
    with pytest.raises(MarginsDiffer, match="not those of the plan"):
        write_plan(plan, data, tmp_path / "wrong.parquet")
    assert not (tmp_path / "wrong.parquet").exists()


def test_an_output_in_which_a_blank_was_not_made_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, plan = _few_cells(tmp_path)
    row = next(row for row in range(8) if row not in plan.rows)
    nothing = np.zeros(1)
    blank = Suppression(np.array([row]), {"a": np.array([True])}, nothing, nothing, nothing, np.zeros(0, dtype=np.int64))
    release = plan.release.with_blanks(blank)
    written = write_plan(plan, data, tmp_path / "good.parquet", release=release)
    assert written.path is not None
    assert pq.read_table(written.path)["a"].to_pylist()[row] is None
    for name, value in (("a", "u"), ("b", 2)):
        monkeypatch.setattr(rc.Microdata, "read_back", _with_value(row, name, value))
        with pytest.raises(MarginsDiffer, match="not those of the plan"):
            write_plan(plan, data, tmp_path / "wrong.parquet", release=release)
        assert not (tmp_path / "wrong.parquet").exists()


def test_a_plan_needs_the_records_it_was_made_for() -> None:
    data = rc.Microdata(census_sample(), keys=CENSUS_KEYS)
    plan = planned(data)
    shorter = rc.Microdata(census_sample().slice(0, 9000), keys=CENSUS_KEYS)
    with pytest.raises(BadInput, match=r"9,809 records; .* has 9,000"):
        plan.apply(shorter)
    counted = replace(plan, task=replace(plan.task, table=replace(plan.table, record_cell=None)))
    with pytest.raises(BadInput, match="other cells or counts"):
        counted.subset(np.zeros(len(plan), dtype=bool)).apply(shorter)


@pytest.mark.parametrize("id_column", [None, "household"])
def test_records_are_found_that_the_table_only_counted(tmp_path: Path, id_column: str | None) -> None:
    """A file too large for memory is swapped as one in memory is; ids that are not unique leave the choice to the order."""
    pq.write_table(census_sample(), tmp_path / "people.parquet")
    known = rc.Microdata(census_sample(), keys=CENSUS_KEYS, id=id_column)
    in_memory = planned(known, record_ids=known.record_names, seed=4)
    data = rc.Microdata(tmp_path / "people.parquet", keys=CENSUS_KEYS, id=id_column)
    table = data.table(records=False)
    model = rc.DecomposableModel(table, cliques=cliques_by_number(table, "15 16 36 46 37 28 38"))
    risk = rc.record_risk(table, model, population=CENSUS_POPULATION)
    by_number = plan_swaps(table, model, records=risk.riskiest(60), risk=risk, seed=4)
    assert table.record_cell is None
    result = write_plan(by_number, data, tmp_path / "protected.parquet")
    expected = in_memory.apply(known)
    assert result.path is not None
    assert pq.read_table(result.path).equals(expected.frame)
    assert result.audit.equals(expected.audit)
    assert result.margins == expected.margins
