"""How are Parquet and Arrow files read, counted and written back?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rarecell.engine import csv
from rarecell.engine.duck import EngineSettings
from rarecell.engine.files import FileSource, readable_errors
from rarecell.engine.kinds import kind_of
from rarecell.engine.output import atomic_path, write_in_turn
from rarecell.engine.replacing import DictionaryForms, dictionary_forms, replaced_table
from rarecell.engine.source import BATCH_ROWS, Column
from rarecell.engine.written_levels import recoded_schema, recoded_table

if TYPE_CHECKING:
    from rarecell.edges import Columns, Level
    from rarecell.engine.written_levels import Recodes


class ColumnarSource(FileSource):
    """A file of typed columns, written back batch by batch."""

    arrow_schema: pa.Schema

    def columns(self) -> tuple[Column, ...]:
        csv.refuse_duplicates(self.arrow_schema.names, self.name)
        return tuple(
            Column(field.name, kind_of(field.type), level_order=self._declared_order(field)) for field in self.arrow_schema
        )

    def _declared_order(self, field: pa.Field) -> tuple[Level, ...] | None:
        if not (pa.types.is_dictionary(field.type) and field.type.ordered):
            return None
        first = next(iter(self.batches([field.name])), None)
        return None if first is None else tuple(first.column(0).dictionary.to_pylist())

    def _schema(self, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([self.arrow_schema.field(name) for name in columns])


class ParquetSource(ColumnarSource):
    """One Parquet file."""

    def __init__(self, path: Path, *, settings: EngineSettings) -> None:
        super().__init__(path, settings=settings)
        with readable_errors(path):
            file = pq.ParquetFile(path)
            self.arrow_schema = file.schema_arrow
            self.arrow_schema.names  # noqa: B018 - raises now when a name is not text
            self._n_rows = int(file.metadata.num_rows)

    @property
    def n_rows(self) -> int:
        return self._n_rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self._refuse_change()
        texts = [name for name in columns if kind_of(self.arrow_schema.field(name).type) == "text"]
        with readable_errors(self.path_in_messages):
            file = pq.ParquetFile(self.path, read_dictionary=texts, memory_map=True)
            for batch in file.iter_batches(BATCH_ROWS, columns=list(columns)):
                chosen = batch.select(list(columns))
                if texts:
                    # Otherwise, bytes that are not UTF-8 would be noticed only when a value is used.
                    chosen.select(texts).validate(full=True)
                yield chosen

    def dictionary_pieces(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The columns that are stored as dictionaries, in the pieces in which they are written."""
        kept = [name for name in columns if name in self.arrow_schema.names]
        chosen = [name for name in kept if pa.types.is_dictionary(self.arrow_schema.field(name).type)]
        if chosen:
            file = pq.ParquetFile(self.path)
            yield from (file.read_row_group(group, columns=chosen) for group in range(file.num_row_groups))

    @property
    def can_scan(self) -> bool:
        """Whether DuckDB can read the file directly.

        DuckDB ignores case in names, does not allow empty names, and takes some characters in a path as wildcards.
        """
        names = [name.casefold() for name in self.arrow_schema.names]
        return len(set(names)) == len(names) and all(names) and not set("*?[]") & set(str(self.path))

    def _scanned(self) -> Any:
        return self._connection.read_parquet(str(self.path)) if self.can_scan else None

    def write_with_replacements(
        self,
        path: str | Path,
        rows: NDArray[np.int64],
        columns: Columns,
        *,
        added: Mapping[str, pa.Scalar] | None = None,
        forms: DictionaryForms | None = None,
    ) -> Path:
        """Write as every source does.

        ``added`` gives further columns with the same value in every record, and ``forms`` the dictionaries when the file
        is one of several parts.
        """
        self._refuse_change()
        schema = self.arrow_schema
        for name, value in (added or {}).items():
            schema = schema.append(pa.field(name, value.type))
        # Only reading reports a damaged file; atomic_path reports what goes wrong in writing.
        with readable_errors(self.path_in_messages):
            file = pq.ParquetFile(self.path)
            compression = _compression(file)
            dictionaries = dictionary_forms(self.dictionary_pieces(list(columns)), list(columns)) if forms is None else forms

        def groups() -> Iterator[pa.Table]:
            first = 0
            for group in range(file.num_row_groups):
                with readable_errors(self.path_in_messages):
                    table = file.read_row_group(group)
                for name, value in (added or {}).items():
                    table = table.append_column(schema.field(name), pa.repeat(value, table.num_rows))
                yield replaced_table(table, first, rows, columns, dictionaries, remakes_all=False)
                first += table.num_rows

        with (
            atomic_path(path) as temporary,
            pq.ParquetWriter(temporary, schema, compression=compression) as writer,
        ):
            write_in_turn(writer, groups())
        self._refuse_change()
        return Path(path)

    def write_levels(self, path: str | Path, recodes: Recodes) -> Path:
        self._refuse_change()
        with readable_errors(self.path_in_messages):
            file = pq.ParquetFile(self.path)
            compression = _compression(file)

        def groups() -> Iterator[pa.Table]:
            for group in range(file.num_row_groups):
                with readable_errors(self.path_in_messages):
                    table = file.read_row_group(group)
                yield recoded_table(table, recodes)

        schema = recoded_schema(self.arrow_schema, recodes)
        with atomic_path(path) as temporary, pq.ParquetWriter(temporary, schema, compression=compression) as writer:
            write_in_turn(writer, groups())
        self._refuse_change()
        return Path(path)


def _compression(file: pq.ParquetFile) -> dict[str, str] | str:
    """How each column is compressed."""
    if not file.num_row_groups:
        return "snappy"
    group = file.metadata.row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    return {chunk.path_in_schema: {"UNCOMPRESSED": "NONE"}.get(chunk.compression, chunk.compression) for chunk in chunks}


class ArrowSource(ColumnarSource):
    """An Arrow file, which includes Feather files, or an Arrow stream."""

    def __init__(self, path: Path, *, settings: EngineSettings) -> None:
        super().__init__(path, settings=settings)
        with open(path, "rb") as stream:
            self._is_stream = not stream.read(6).startswith(b"ARROW1")
        with readable_errors(path):
            with self._open() as reader:
                self.arrow_schema = reader.schema
                self.arrow_schema.names  # noqa: B018 - raises now when a name is not text
            self._n_rows: int = sum(batch.num_rows for batch in self._whole_batches())

    @contextlib.contextmanager
    def _open(self) -> Iterator[Any]:
        with pa.memory_map(str(self.path)) as stream:
            yield pa.ipc.open_stream(stream) if self._is_stream else pa.ipc.open_file(stream)

    def _whole_batches(self) -> Iterator[pa.RecordBatch]:
        self._refuse_change()
        with readable_errors(self.path_in_messages), self._open() as reader:
            if self._is_stream:
                yield from reader
            else:
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number)

    @property
    def n_rows(self) -> int:
        return self._n_rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in self._whole_batches():
            chosen = batch.select(list(columns))
            # The format cannot reveal damage: an index beyond the end of its dictionary would be followed anywhere.
            with readable_errors(self.path_in_messages):
                chosen.validate(full=True)
            for first in range(0, chosen.num_rows, BATCH_ROWS):
                yield chosen.slice(first, BATCH_ROWS)

    def write_with_replacements(self, path: str | Path, rows: NDArray[np.int64], columns: Columns) -> Path:
        pieces = (pa.Table.from_batches([batch.select(list(columns))]) for batch in self._whole_batches())
        forms = dictionary_forms(pieces, list(columns)) if columns else {}
        options = pa.ipc.IpcWriteOptions(compression="lz4", unify_dictionaries=not self._is_stream)
        new_writer = pa.ipc.new_stream if self._is_stream else pa.ipc.new_file
        with (
            atomic_path(path) as temporary,
            pa.OSFile(str(temporary), "wb") as out,
            new_writer(out, self.arrow_schema, options=options) as writer,
        ):
            first = 0
            for batch in self._whole_batches():
                writer.write_table(replaced_table(pa.Table.from_batches([batch]), first, rows, columns, forms))
                first += batch.num_rows
        self._refuse_change()
        return Path(path)

    def write_levels(self, path: str | Path, recodes: Recodes) -> Path:
        options = pa.ipc.IpcWriteOptions(compression="lz4", unify_dictionaries=not self._is_stream)
        new_writer = pa.ipc.new_stream if self._is_stream else pa.ipc.new_file
        with (
            atomic_path(path) as temporary,
            pa.OSFile(str(temporary), "wb") as out,
            new_writer(out, recoded_schema(self.arrow_schema, recodes), options=options) as writer,
        ):
            for batch in self._whole_batches():
                writer.write_table(recoded_table(pa.Table.from_batches([batch]), recodes))
        self._refuse_change()
        return Path(path)


# ---------------------------------------------------------------------- errors
