"""A file that changes while it is worked on is refused, in every format, whatever changes in it."""

from __future__ import annotations

import contextlib
import gzip
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rarecell.engine import open_source
from rarecell.engine.changes import Changes
from rarecell.errors import BadInput

Rows = list[tuple[int, str, int]]
ROWS: Rows = [(20 + i % 7, "fm"[i % 2], 1000 + i) for i in range(40)]
NAMES = ("age", "sex", "income")


def other_column(rows: Rows) -> Rows:
    return [(age, sex, 3000 - income) for age, sex, income in rows]


def reordered(rows: Rows) -> Rows:
    return rows[::-1]


def table(rows: Rows) -> pa.Table:
    return pa.table(dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True)))


def as_text(rows: Rows) -> bytes:
    return ("age,sex,income\n" + "".join(f"{age},{sex},{income}\n" for age, sex, income in rows)).encode()


def write_csv(path: Path, rows: Rows) -> None:
    path.write_bytes(as_text(rows))


def write_gzip(path: Path, rows: Rows) -> None:
    path.write_bytes(gzip.compress(as_text(rows), mtime=0))


def write_parquet(path: Path, rows: Rows) -> None:
    pq.write_table(table(rows), path)


def write_parts(path: Path, rows: Rows) -> None:
    path.mkdir(exist_ok=True)
    pq.write_table(table(rows[:20]), path / "part-0.parquet")
    pq.write_table(table(rows[20:]), path / "part-1.parquet")


def write_arrow(path: Path, rows: Rows) -> None:
    with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_file(stream, table(rows).schema) as writer:
        writer.write_table(table(rows))


def write_stream(path: Path, rows: Rows) -> None:
    with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_stream(stream, table(rows).schema) as writer:
        writer.write_table(table(rows))


def with_pyreadstat(function: str) -> Callable[[Path, Rows], None]:
    def write(path: Path, rows: Rows) -> None:
        pyreadstat = pytest.importorskip("pyreadstat")
        pandas = pytest.importorskip("pandas")
        getattr(pyreadstat, function)(pandas.DataFrame(rows, columns=list(NAMES)), str(path))

    return write


FORMATS: dict[str, Callable[[Path, Rows], None]] = {
    "survey.csv": write_csv,
    "survey.csv.gz": write_gzip,
    "survey.parquet": write_parquet,
    "survey": write_parts,
    "survey.arrow": write_arrow,
    "stream.arrow": write_stream,
    "survey.dta": with_pyreadstat("write_dta"),
    "survey.sav": with_pyreadstat("write_sav"),
    "survey.xpt": with_pyreadstat("write_xport"),
}


def files_of(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else [path]


def replace_contents(path: Path, write: Callable[[Path, Rows], None], rows: Rows, *, keeps_time: bool) -> None:
    """Write other records into the same file, as a program that has it open would."""
    other = path.with_name(f"other-{path.name}")
    write(other, rows)
    for old, new in zip(files_of(path), files_of(other), strict=True):
        status = old.stat()
        old.write_bytes(new.read_bytes())
        times = (status.st_atime_ns, status.st_mtime_ns if keeps_time else status.st_mtime_ns + 1)
        os.utime(old, ns=times)


@pytest.mark.parametrize("change", [other_column, reordered])
@pytest.mark.parametrize("keeps_time", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_a_change_between_reading_and_writing_is_refused(
    name: str, keeps_time: bool, change: Callable[[Rows], Rows], tmp_path: Path
) -> None:
    path = tmp_path / name
    FORMATS[name](path, ROWS)
    source = open_source(path)
    source.watch()
    assert source.unchanged_hash() is not None
    source.encode(["age", "sex"])
    replace_contents(path, FORMATS[name], change(ROWS), keeps_time=keeps_time)

    def write_and_check() -> Any:
        source.write(tmp_path / f"protected{source.suffix}", Changes(np.array([1, 4]), {"age": [24, 21]}))
        return source.unchanged_hash()

    with pytest.raises(BadInput, match="changed while"):
        write_and_check()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("name", ["survey.xlsx", "survey.csv", "survey.parquet"])
def test_a_file_that_becomes_a_pipe_is_refused(name: str, tmp_path: Path) -> None:
    """Reading a pipe would wait for ever."""
    path = tmp_path / name
    if name == "survey.xlsx":
        pytest.importorskip("openpyxl")
        table(ROWS).to_pandas().to_excel(path, index=False)
    else:
        FORMATS[name](path, ROWS)
    source = open_source(path)
    source.watch()
    assert source.unchanged_hash() is not None
    source.encode(["age", "sex"])
    path.unlink()
    os.mkfifo(path)

    def wait_for_nobody(*_: object) -> None:
        raise AssertionError("it waits for the pipe")

    before = signal.signal(signal.SIGALRM, wait_for_nobody)
    signal.alarm(20)
    try:
        for look in (lambda: source.notes, source.unchanged_hash):
            with contextlib.suppress(BadInput):
                look()
        with pytest.raises(BadInput, match="changed while"):
            source.unchanged_hash()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
