"""How does a result reach the disk either complete or not at all, and readable by its owner alone?

Everything is written under a temporary name in the same folder, with mode 0600, and moved into place at the end.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from rarecell.engine.arrays import as_arrow
from rarecell.errors import NotWritten
from rarecell.machine.disk import flush_to_disk, remove

if TYPE_CHECKING:
    from rarecell.edges import Columns


@contextlib.contextmanager
def _not_written(target: Path) -> Iterator[None]:
    """Report a refusal by the system as a result that could not be written."""
    try:
        yield
    except OSError as problem:
        raise NotWritten.because(target, problem) from None


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that becomes ``path`` when the block succeeds and vanishes when it fails."""
    target = Path(path)
    with _not_written(target):
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        os.close(descriptor)
        temporary = Path(name)
        try:
            yield temporary
            # A writer may have replaced the file, and with it the mode that mkstemp set.
            temporary.chmod(0o600)
            flush_to_disk(temporary)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """A temporary folder beside ``path`` that becomes ``path`` when the block succeeds and vanishes when it fails."""
    target = Path(path)
    with _not_written(target), temporary_folder(target) as temporary:
        yield temporary
        remove(target)
        temporary.rename(target)


@contextlib.contextmanager
def temporary_folder(beside: str | Path) -> Iterator[Path]:
    """A folder beside a path that only its owner can read and that vanishes when the block ends."""
    target = Path(beside)
    with _not_written(target):
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_parquet(path: str | Path, columns: Columns | Iterable[Mapping[str, Any]]) -> Path:
    """Write columns of arrays, or a stream of such pieces in turn, to a Parquet file.

    All pieces have the same columns. A stream is never held in memory as a whole.
    """
    pieces = iter([columns]) if isinstance(columns, Mapping) else iter(columns)
    first = next(pieces, None)
    if first is None:
        raise ValueError("a Parquet file needs at least one piece, to know its columns")
    table = pa.table({name: as_arrow(values) for name, values in first.items()})
    with (
        atomic_path(path) as temporary,
        pq.ParquetWriter(temporary, table.schema, compression="snappy", **_encodings(table)) as writer,
    ):
        following = (pa.table([as_arrow(piece[name]) for name in table.column_names], schema=table.schema) for piece in pieces)
        write_in_turn(writer, itertools.chain([table], following))
    return Path(path)


def write_in_turn(writer: pq.ParquetWriter, tables: Iterable[pa.Table]) -> None:
    """Write one table after another, each while the next is made; each table is one row group."""
    tables = iter(tables)
    table = next(tables, None)
    with ThreadPoolExecutor(1) as pool:
        while table is not None:
            writing = pool.submit(writer.write_table, table, row_group_size=max(1, table.num_rows))
            table = next(tables, None)
            writing.result()


def _encodings(table: pa.Table) -> dict[str, Any]:
    """Encode row numbers as differences, and floats such as probabilities without a dictionary, which would save little."""
    n_rows = table.num_rows
    numbered = [
        name
        for name, column in zip(table.column_names, table.columns, strict=True)
        if pa.types.is_integer(column.type) and n_rows > 1 and column[n_rows - 1].as_py() - column[0].as_py() == n_rows - 1
    ]
    repeating = [field.name for field in table.schema if not pa.types.is_floating(field.type) and field.name not in numbered]
    return {"use_dictionary": repeating, "column_encoding": dict.fromkeys(numbered, "DELTA_BINARY_PACKED")}
