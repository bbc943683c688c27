"""A DuckDB that stays within the memory it was given, spills where only the owner can read, and never goes online."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


@dataclass(frozen=True)
class EngineSettings:
    """How much of the machine the reading of files may use.

    Attributes
    ----------
    memory_limit : such as ``"4GB"``; None takes half of the machine's memory, at most 8 GB
    threads : None takes all processors
    temp_directory : where to put what does not fit into memory; None takes the system's place for temporary files
    """

    memory_limit: str | None = None
    threads: int | None = None
    temp_directory: str | Path | None = None

    @property
    def memory_limit_text(self) -> str:
        if self.memory_limit is not None:
            return self.memory_limit
        return f"{min(8 << 30, _machine_memory() // 2) >> 20}MiB"


def _machine_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 4 << 30


def private_directory(owner: object, settings: EngineSettings) -> Path:
    """A new folder that only its owner can read and that vanishes with ``owner``."""
    parent = None if settings.temp_directory is None else str(settings.temp_directory)
    directory = tempfile.mkdtemp(prefix="rarecell-", dir=parent)
    weakref.finalize(owner, shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


def connect(owner: object, settings: EngineSettings) -> duckdb.DuckDBPyConnection:
    """A connection in memory that keeps the order of records and whose spilled data vanish with ``owner``."""
    import duckdb

    options: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": settings.memory_limit_text,
        "temp_directory": str(private_directory(owner, settings)),
        "preserve_insertion_order": True,
        "autoinstall_known_extensions": False,
    }
    if settings.threads is not None:
        options["threads"] = settings.threads
    return duckdb.connect(config=options)


def arrow_batches(relation: Any, n_rows: int) -> Iterator[pa.RecordBatch]:
    """A relation's rows in their order, some at a time."""
    reader = relation.to_arrow_reader if hasattr(relation, "to_arrow_reader") else relation.fetch_arrow_reader
    yield from reader(n_rows)
