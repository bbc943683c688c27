"""How is a query read instead of a file?

DuckDB runs it: over files that it names itself, over a DuckDB database, or over a data file, which the query calls
``data``. SQLite databases are queried through Python's own library, PostgreSQL servers through
:mod:`rarecell.engine.sql.postgres`. A database is opened read-only, and the query must be a single SELECT. Its rows are kept
in a private file while the program works, so that their order stays the same; the protected data are written as Parquet.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from rarecell.engine.columnar.source import ParquetSource
from rarecell.engine.duck import EngineSettings, arrow_batches, connect, private_directory
from rarecell.engine.files import CachedSource, FileSource
from rarecell.engine.opening import open_file
from rarecell.engine.places import existing_file, file_hash, is_server, is_wildcard, redacted, refuse_when_confined
from rarecell.engine.source import BATCH_ROWS, Column, Source
from rarecell.engine.text.scan import refuse_duplicates
from rarecell.engine.text.source import CsvSource
from rarecell.errors import BadInput
from rarecell.machine.disk import new_private_file

if TYPE_CHECKING:
    from rarecell.edges import Level


class SqlSource(CachedSource):
    """The rows that a query returns."""

    def __init__(self, query: str, *, database: Any = None, settings: EngineSettings | None = None) -> None:
        super().__init__("the query", settings=settings or EngineSettings())
        refuse_when_confined("A query")
        self.query = query.strip().rstrip(";").strip()
        self.database = None if database is None or str(database) == "" else str(database)
        self._untyped: frozenset[str] = frozenset()
        self._kind = _kind_of_database(self.database)
        if self._kind not in ("sqlite", "postgres"):
            _refuse_other_than_select(self.query)

    def unchanged_hash(self) -> str | None:
        """SHA-256 of the database; its rows were copied once, so a later change cannot mix old and new rows."""
        return self._database_hash

    @cached_property
    def _database_hash(self) -> str | None:
        is_file = self.database is not None and self._kind != "postgres" and os.path.isfile(self.database)
        return file_hash(Path(str(self.database))) if is_file else None

    def columns(self) -> tuple[Column, ...]:
        def is_untyped(column: Column) -> bool:
            return column.kind == "text" and column.name in self._untyped

        return tuple(replace(column, kind="untyped") if is_untyped(column) else column for column in self._inner.columns())

    def _open_copy(self, path: Path) -> FileSource:
        return ParquetSource(path, settings=self.settings)

    def _fill(self, path: Path) -> None:
        if self.database is not None and self._kind == "sqlite":
            _copy_from_sqlite(self.database, self.query, path)
        elif self.database is not None and self._kind == "postgres":
            from rarecell.engine.sql.postgres import copy_query

            self._untyped = copy_query(self.database, self.query, path)
        else:
            self._copy_from_duckdb(path)

    def _copy_from_duckdb(self, path: Path) -> None:
        connection = connect(self, self.settings)
        with _readable_errors():
            is_untyped = self._make_visible(connection)
            relation = connection.sql(self.query)
            refuse_duplicates(relation.columns, self.name)
            self._untyped = frozenset(relation.columns if is_untyped else ())
            writer: pq.ParquetWriter | None = None
            try:
                for batch in arrow_batches(relation, BATCH_ROWS):
                    writer = writer or pq.ParquetWriter(path, batch.schema)
                    writer.write_batch(batch)
                if writer is None:
                    writer = pq.ParquetWriter(path, relation.limit(0).to_arrow_table().schema)
            finally:
                if writer is not None:
                    writer.close()
                connection.close()

    def _make_visible(self, connection: Any) -> bool:
        """Let the query see the database, or the file under the name ``data``; True when its text has no type."""
        if self.database is None:
            return False
        if self._kind == "file":
            source = open_file(self.database, settings=self.settings)
            if isinstance(source, ParquetSource) and source.can_scan:
                relation = connection.read_parquet(self.database)
            else:
                # Read by its own rules into a private copy. The values of delimited text decide later what is a number.
                copy = new_private_file(private_directory(self, self.settings) / "data.parquet")
                _write_parquet_copy(source, copy)
                relation = connection.read_parquet(str(copy))
            relation.create_view("data")
            return isinstance(source, CsvSource)
        quoted = self.database.replace("'", "''")
        connection.execute(f"ATTACH '{quoted}' AS source (READ_ONLY)")
        connection.execute("USE source")
        return False


def _write_parquet_copy(source: Source, path: Path) -> None:
    """Write all records of a source to a Parquet file."""
    names = [column.name for column in source.columns()]
    writer: pq.ParquetWriter | None = None
    try:
        for batch in source.batches(names):
            writer = writer or pq.ParquetWriter(path, batch.schema)
            writer.write_batch(batch)
        if writer is None:
            writer = pq.ParquetWriter(path, pa.schema([(name, pa.string()) for name in names]))
    finally:
        if writer is not None:
            writer.close()


def _kind_of_database(database: str | None) -> str:
    if database is None:
        return "none"
    if is_server(database):
        return "postgres"
    if os.path.isdir(database) or is_wildcard(database):
        return "file"
    path = existing_file(database)
    with open(path, "rb") as stream:
        head = stream.read(16)
    if head.startswith(b"SQLite format 3\0"):
        return "sqlite"
    return "duckdb" if head[8:12] == b"DUCK" else "file"


def _refuse_other_than_select(query: str) -> None:
    import duckdb

    try:
        query.encode()
    except UnicodeEncodeError:
        raise BadInput("The query holds bytes that are no text. Write it in UTF-8.") from None
    with _readable_errors():
        statements = duckdb.extract_statements(query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise BadInput(
            "The query must be one SELECT, so that nothing but reading is done. Give a single query that begins with SELECT."
        )


@contextlib.contextmanager
def _readable_errors() -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.Error as problem:
        extension = _missing_extension(str(problem))
        if extension is not None:
            raise BadInput(_how_to_install(extension)) from None
        reason = redacted(str(problem).split("\n")[0].rstrip("."))
        raise BadInput(f"The query could not be run: {reason}. Correct it, and try it first with a small LIMIT.") from None


def _missing_extension(message: str) -> str | None:
    """The extension that DuckDB would have to download, which it is not allowed to do."""
    extension = re.search(r'Extension "([a-z_]+)" is an existing extension', message)
    return extension[1].removesuffix("_scanner") if extension else None


def _how_to_install(extension: str) -> str:
    import duckdb

    aside = " An SQLite database needs none when it is named as FILE, before --sql." if extension == "sqlite" else ""
    return (
        f"The query needs DuckDB's extension '{extension}', which is not on this computer, and nothing is fetched from the network "
        f"unasked.{aside} Install it once while online with: python -c \"import duckdb; duckdb.sql('INSTALL {extension}')\". Without a "
        f"network, bring the file {extension}.duckdb_extension made for DuckDB {duckdb.__version__} and this kind of computer from "
        f"another one, and name its path in that INSTALL."
    )


# ---------------------------------------------------------------------- SQLite


def _copy_from_sqlite(database: str, query: str, path: Path) -> None:
    """Copy the rows; SQLite types values, not columns, so one pass finds the column types and a second writes."""
    address = f"{Path(database).absolute().as_uri()}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            cursor = connection.execute(query)
            if cursor.description is None:
                raise BadInput("The query must be a SELECT; it gave no columns.")
            names = [str(column[0]) for column in cursor.description]
            refuse_duplicates(names, "the query")
            schema = _sqlite_schema(cursor, names)
            with pq.ParquetWriter(path, schema) as writer:
                for rows in _chunks(connection.execute(query)):
                    arrays = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
                    writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    except sqlite3.Error as problem:
        raise BadInput(
            f"The query of {database} could not be run: {problem}. Correct it, and try it first with a small LIMIT."
        ) from None


def _chunks(cursor: sqlite3.Cursor) -> Iterator[list[tuple[Level, ...]]]:
    while rows := cursor.fetchmany(BATCH_ROWS // 4):
        yield rows


def _sqlite_schema(cursor: sqlite3.Cursor, names: Sequence[str]) -> pa.Schema:
    met: list[set[type]] = [set() for _ in names]
    for rows in _chunks(cursor):
        for types, values in zip(met, zip(*rows, strict=True), strict=True):
            types |= set(map(type, values))
    fields = []
    for name, types_met in zip(names, met, strict=True):
        types = types_met - {type(None)}
        if types <= {int}:
            fields.append((name, pa.int64() if types else pa.string()))
        elif types <= {int, float}:
            fields.append((name, pa.float64()))
        elif len(types) == 1:
            fields.append((name, pa.string() if types == {str} else pa.binary()))
        else:
            listed = " and ".join(sorted(python_type.__name__ for python_type in types))
            raise BadInput(
                f"Column '{name}' of the query mixes values of the types {listed}. Make them one type with CAST({name} AS TEXT)."
            )
    return pa.schema(fields)
