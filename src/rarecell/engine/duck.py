"""DuckDB that stays within its memory limit, spills where only the owner can read, and never goes online."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rarecell.errors import BadInput
from rarecell.machine.disk import private_folder
from rarecell.machine.memory import MemoryLimit

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


@dataclass(frozen=True)
class EngineSettings:
    """How files are read.

    Attributes
    ----------
    memory : MemoryLimit
        How much memory reading and counting may use.
    threads : int or None
        Number of threads; None uses all processors.
    temp_directory : str, Path or None
        Where to put what does not fit into memory; None uses the system's folder for temporary files.
    encoding : str or None
        Encoding of text files; None means UTF-8, or UTF-16 where the file begins with its mark.
    sheet : str or None
        Sheet of a workbook; None takes the first that is not empty.
    decimal : str or None
        Decimal mark in text files, a point or a comma; None takes the one that goes with the delimiter.
    """

    memory: MemoryLimit = field(default_factory=MemoryLimit.of)
    threads: int | None = None
    temp_directory: str | Path | None = None
    encoding: str | None = None
    sheet: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise BadInput(f"The decimal mark was given as '{self.decimal}'; it must be a point or a comma.")


def private_directory(owner: object, settings: EngineSettings) -> Path:
    """Create a folder that only its owner can read and that vanishes with ``owner``."""
    return private_folder(owner, settings.temp_directory)


def connect(owner: object, settings: EngineSettings) -> duckdb.DuckDBPyConnection:
    """Open an in-memory connection that keeps record order and whose spilled data vanish with ``owner``."""
    import duckdb

    options: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{settings.memory.engine >> 20}MiB",
        "temp_directory": str(private_directory(owner, settings)),
        "preserve_insertion_order": True,
        "autoinstall_known_extensions": False,
    }
    if settings.threads is not None:
        options["threads"] = settings.threads
    return duckdb.connect(config=options)


_UNKNOWN_TO_ARROW = ("BIT", "TIME WITH TIME ZONE")


def renamed(relation: Any, columns: Sequence[str], new_names: Sequence[str]) -> Any:
    """Some columns of a relation under new names; values that Arrow cannot hold as they are become texts."""
    kept_as = dict(zip(relation.columns, map(str, relation.types), strict=True))
    values = [f"CAST({quoted(name)} AS VARCHAR)" if kept_as[name] in _UNKNOWN_TO_ARROW else quoted(name) for name in columns]
    return relation.project(", ".join(f"{value} AS {quoted(new)}" for value, new in zip(values, new_names, strict=True)))


def quoted(name: str) -> str:
    """A name as DuckDB takes it for a name, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def arrow_batches(relation: Any, n_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a relation in order, some at a time."""
    reader = relation.to_arrow_reader if hasattr(relation, "to_arrow_reader") else relation.fetch_arrow_reader
    yield from reader(n_rows)
