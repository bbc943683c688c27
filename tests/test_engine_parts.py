"""Folders and wildcards of Parquet parts: the same table, risk and protected records as the single file."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rarecell as rc
from rarecell.data.microdata import Microdata
from rarecell.engine import open_source
from rarecell.engine.changes import Changes
from rarecell.engine.parts import find_parts
from rarecell.errors import BadInput
from rarecell.progress import Stage
from rarecell.run.config import ProtectConfig, RunConfig
from tests.test_faults import AtStage, visible

N = 400
SIZES = (150, 0, 90, 160)
KEYS = ("age", "sex", "region")


def survey() -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "id": np.arange(N),
            "age": pa.array(rng.integers(0, 40, N), pa.int16()),
            "sex": pa.array(np.array(["f", "m"])[rng.integers(0, 2, N)]),
            "region": pa.array(np.array(["north", "south", "east"])[rng.integers(0, 3, N)]).dictionary_encode(),
            "weight": rng.uniform(1, 20, N),
        }
    )


def pieces(table: pa.Table) -> list[pa.Table]:
    starts = np.cumsum([0, *SIZES])
    return [table.slice(start, size) for start, size in zip(starts, SIZES, strict=False)]


def write_parts(folder: Path) -> Path:
    """As Spark does it, with its mark and its checksums."""
    folder.mkdir()
    for number, piece in enumerate(pieces(survey())):
        pq.write_table(piece, folder / f"part-{number:05d}.snappy.parquet", row_group_size=64)
        (folder / f".part-{number:05d}.snappy.parquet.crc").write_bytes(b"crc")
    (folder / "_SUCCESS").touch()
    (folder / "_delta_log").mkdir()
    return folder


def as_wildcard(folder: Path) -> Path:
    return write_parts(folder) / "part-*.parquet"


def config_for(path: Path, **changes: Any) -> RunConfig:
    base = RunConfig(
        input=str(path),
        keys=KEYS,
        population=8000,
        model="single",
        resolution="full",
        protect=ProtectConfig(top=5, swap_seed=2),
        seed=2,
    )
    return replace(base, **changes)


@pytest.mark.parametrize("write", [write_parts, as_wildcard])
def test_parts_give_the_table_of_the_whole(write: Callable[[Path], Path], tmp_path: Path) -> None:
    pq.write_table(survey(), tmp_path / "whole.parquet")
    whole = Microdata(tmp_path / "whole.parquet", KEYS, weight="weight")
    parts = Microdata(write(tmp_path / "data"), KEYS, weight="weight")
    for with_records in (True, False):
        one, other = whole.table(records=with_records), parts.table(records=with_records)
        assert one.categories == other.categories
        assert np.array_equal(one.cells, other.cells)
        assert np.array_equal(one.counts, other.counts)
        assert np.allclose(one.weights, other.weights)
    table = whole.table(records=True)
    assert np.array_equal(table.record_cell, parts.table(records=True).record_cell)
    assert np.array_equal(np.concatenate(list(parts.record_cells(table))), table.record_cell)
    rows = np.array([399, 0, 150, 149, 240])
    assert parts.values_at(rows, ["id"])["id"].to_pylist() == rows.tolist()


def test_parts_are_assessed_and_protected_like_the_whole(tmp_path: Path) -> None:
    pq.write_table(survey(), tmp_path / "whole.parquet")
    folder = write_parts(tmp_path / "data")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    for path, out in ((tmp_path / "whole.parquet", "one"), (folder, "other")):
        rc.protect(config_for(path), out=tmp_path / out)
    one, other = tmp_path / "one", tmp_path / "other"
    for name in ("risk.parquet", "swaps.parquet"):
        assert pq.read_table(one / name).equals(pq.read_table(other / name))
    protected = other / "protected.parquet"
    assert sorted(visible(protected)) == [f"part-{number:05d}.snappy.parquet" for number in range(4)]
    together = pa.concat_tables([pq.read_table(part) for part in sorted(protected.iterdir())])
    assert together.equals(pq.read_table(one / "protected.parquet"))
    assert not together.equals(survey())
    for part, size in zip(sorted(protected.iterdir()), SIZES, strict=True):
        assert pq.read_metadata(part).num_rows == size
        assert pq.read_schema(part).equals(pq.read_schema(folder / part.name), check_metadata=True)
        assert stat.S_IMODE(part.stat().st_mode) == 0o600
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    record = json.loads((other / "run.json").read_text())
    names = sorted(name for name in before if name.startswith("part"))
    lines = "".join(f"{hashlib.sha256(before[name]).hexdigest()}\n" for name in names)
    assert record["input"]["sha256"] == hashlib.sha256(lines.encode()).hexdigest()
    assert record["input"]["parts"] == 4
    # The protected folder is an input like any other, and overwriting replaces it whole.
    rc.assess(config_for(protected), out=tmp_path / "again")
    rc.protect(config_for(tmp_path / "whole.parquet"), out=other, overwrite=True)
    assert (other / "protected.parquet").is_file()


def write_hive(folder: Path) -> Path:
    for number, piece in enumerate(pieces(survey())):
        for sex in ("f", "m"):
            place = folder / f"year={2020 + number // 2}" / f"sex={sex}"
            place.mkdir(parents=True, exist_ok=True)
            chosen = piece.filter(pa.compute.equal(piece["sex"], sex)).drop_columns("sex")
            pq.write_table(chosen, place / f"part-{number}.parquet")
    return folder


def test_folders_that_stand_for_columns(tmp_path: Path) -> None:
    folder = write_hive(tmp_path / "data")
    names = find_parts(folder).names
    assert names[:2] == ("year=2020/sex=f/part-0.parquet", "year=2020/sex=f/part-1.parquet")
    data = Microdata(folder, ["year", "age", "sex", "region"])
    assert [column.name for column in data.source.columns()] == ["id", "age", "region", "weight", "year", "sex"]
    table = data.table(records=True)
    assert table.categories[0].levels == (2020, 2021)
    assert table.n_records == N
    only_folders = Microdata(folder, ["year", "sex"]).table(records=True)
    assert only_folders.counts.sum() == N
    assert Microdata(folder, ["year", "sex"]).table(records=False).counts.tolist() == only_folders.counts.tolist()
    read = data.source.take(np.arange(N), ["id", "year", "sex"])
    sex_of = survey()["sex"].to_pylist()
    assert [sex_of[i] for i in read["id"].to_pylist()] == read["sex"].to_pylist()
    rc.protect(config_for(folder, keys=("year", *KEYS)), out=tmp_path / "out")
    written = tmp_path / "out" / "protected.parquet"
    after = open_source(written)
    assert after.take(np.arange(N), ["id"])["id"].to_pylist() == read["id"].to_pylist()
    assert [column.name for column in after.columns()] == ["id", "age", "region", "weight", "year", "sex"]
    assert len(list(written.iterdir())) == len(names)
    # Levels are kept exactly, whatever was swapped.
    assert sorted(after.take(np.arange(N), ["sex"])["sex"].to_pylist()) == sorted(sex_of)


def test_a_missing_folder_value_and_text(tmp_path: Path) -> None:
    for value in ("__HIVE_DEFAULT_PARTITION__", "a%20b", "07"):
        place = tmp_path / "data" / f"area={value}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"x": [1, 2]}), place / "p.parquet")
    found = open_source(tmp_path / "data").take(np.arange(6), ["area"])["area"].to_pylist()
    assert found == ["07", "07", None, None, "a b", "a b"]


def test_folders_as_parts_of_a_wildcard(tmp_path: Path) -> None:
    for year in (2020, 2021):
        write_parts(tmp_path / f"{year}.parquet")
    source = open_source(f"{tmp_path}/20*.parquet")
    assert source.n_rows == 2 * N
    out = source.write(tmp_path / "out.parquet", Changes(np.array([N]), {"age": [39]}))
    assert (out / "2021.parquet" / "part-00000.snappy.parquet").is_file()
    assert open_source(f"{out}/*.parquet").take(np.array([N]), ["age"])["age"].to_pylist() == [39]


def test_a_query_over_a_folder(tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "data")
    data = Microdata(folder, KEYS, sql="SELECT * FROM data WHERE age < 20")
    assert data.n_records == sum(age < 20 for age in survey()["age"].to_pylist())


# ---------------------------------------------------------------------- what is refused


def refused(path: Any, words: str, **changes: Any) -> None:
    folder = Path(str(path)).parent / "refused"
    with pytest.raises(BadInput, match=words) as told:
        rc.assess(config_for(path, **changes), out=folder)
    assert "\n" not in str(told.value)
    assert not folder.exists()


def test_parts_whose_columns_differ(tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "data")
    path = folder / "part-00002.snappy.parquet"
    good = pq.read_table(path)
    for column, words in ((0, "has no column 'id'"), (1, "has no column 'age'")):
        pq.write_table(good.drop_columns(good.column_names[column]), path)
        refused(folder, f"part-00002.snappy.parquet {words}")
    pq.write_table(good.append_column("extra", good["id"]), path)
    refused(folder, "part-00000.snappy.parquet has no column 'extra', which .*part-00002")
    pq.write_table(good.set_column(1, "age", good["age"].cast(pa.string())), path)
    refused(folder, "Column 'age' is string in .*part-00002.* and int16 in .*part-00000")
    pq.write_table(good.select(good.column_names[::-1]), path)
    assert Microdata(folder, KEYS).table(records=False).n_records == N


@pytest.mark.parametrize("records", [True, False])
@pytest.mark.parametrize("damage", ["cut", "zeroed", "empty", "gone"])
def test_a_damaged_part_is_named(damage: str, records: bool, tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "data")
    path = folder / "part-00002.snappy.parquet"
    data = path.read_bytes()
    if damage == "gone":
        opened = Microdata(folder, KEYS)
        path.unlink()
        with pytest.raises(BadInput, match=r"part-00002\.snappy\.parquet can no longer be read: No such file"):
            opened.table(records=records)
        return
    path.write_bytes({"cut": data[: len(data) // 2], "zeroed": data[:60] + bytes(900) + data[960:], "empty": b""}[damage])
    with pytest.raises(BadInput, match=r"part-00002\.snappy\.parquet is damaged.*copy it anew"):
        Microdata(folder, KEYS).table(records=records)
    refused(folder, "part-00002")


def test_parts_that_change_during_the_run(tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "data")
    out = tmp_path / "out"
    progress = AtStage(Stage.PLAN, lambda: pq.write_table(survey(), folder / "part-9.parquet"))
    with pytest.raises(BadInput, match="added to or removed from"):
        rc.protect(config_for(folder), out=out, progress=progress)
    (folder / "part-9.parquet").unlink()
    progress = AtStage(Stage.PLAN, lambda: pq.write_table(survey(), folder / "part-00003.snappy.parquet"))
    with pytest.raises(BadInput, match=r"part-00003\.snappy\.parquet changed while"):
        rc.protect(config_for(folder), out=out, progress=progress)
    assert not out.exists()


def test_folders_that_are_no_table(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "holds no Parquet file")
    refused(tmp_path / "none*.parquet", "No file matches")
    folder = write_parts(tmp_path / "data")
    (folder / "notes.txt").write_text("x")
    refused(folder, r"not one of Parquet or CSV parts only; name the parts by a wildcard, '.*data/\*\.parquet'")
    refused(folder / "*", "also matches .*notes.txt")
    (folder / "notes.txt").unlink()
    (folder / "older").mkdir()
    refused(folder, "not one of Parquet or CSV parts only")
    hive = write_hive(tmp_path / "hive")
    pq.write_table(survey().drop_columns("sex"), hive / "loose.parquet")
    refused(hive, "below folders of the same columns")
