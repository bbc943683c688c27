"""Which file is it, and how is it read and written back?

Delimited text goes through :mod:`rarecell.engine.csv`, Parquet and Arrow files through Arrow, and DuckDB counts all of
them, spilling to disk where memory ends. Files of statistics packages are in :mod:`rarecell.engine.statistics`, queries
in :mod:`rarecell.engine.sql`. A file is never loaded as a whole, and is written back in its own format, record by
record.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rarecell.engine import csv
from rarecell.engine.csv_output import Forms, write_records
from rarecell.engine.duck import EngineSettings, connect, renamed
from rarecell.engine.kinds import kind_of
from rarecell.engine.output import atomic_path, write_in_turn
from rarecell.engine.reach import reachable, regular_file
from rarecell.engine.recoding import recoded_batches
from rarecell.engine.replacing import DictionaryForms, dictionary_forms, replaced_table
from rarecell.engine.source import BATCH_ROWS, Column, EncodedColumn, GroupedCounts, Source
from rarecell.engine.suffixes import (
    ARROW_SUFFIXES,
    FORMATS,
    PARQUET_SUFFIXES,
    STATISTICS_SUFFIXES,
    TEXT_SUFFIXES,
    WORKBOOK_SUFFIXES,
)
from rarecell.engine.unchanged import FileStamp
from rarecell.errors import BadInput, RarecellError, nearest_names

if TYPE_CHECKING:
    import duckdb

    from rarecell.engine.written_levels import Recodes

_ELSEWHERE = {
    ".rds": "an R object. Write it with arrow::write_parquet() or write.csv()",
    ".rdata": "an R workspace. Write the data frame with arrow::write_parquet() or write.csv()",
    ".json": "JSON. Convert it to Parquet or CSV",
    ".zip": "an archive. Unpack it",
}


def open_file(path: str | Path, *, settings: EngineSettings | None = None) -> Source:
    """The source for a file by the ending of its name, or for a folder or wildcard of Parquet or CSV files."""
    chosen = settings or EngineSettings()
    if os.path.isdir(path) or is_wildcard(path):
        from rarecell.engine.parts import open_parts

        return open_parts(path, settings=chosen)
    found = existing_file(path)
    suffixes = [suffix.lower() for suffix in found.suffixes]
    last = suffixes[-1] if suffixes else ""
    if last in TEXT_SUFFIXES or (last == ".gz" and (len(suffixes) < 2 or suffixes[-2] in TEXT_SUFFIXES)):
        return open_text(found, settings=chosen)
    if last in WORKBOOK_SUFFIXES:
        from rarecell.engine.workbook import WorkbookSource

        return WorkbookSource(found, settings=chosen)
    if last in PARQUET_SUFFIXES:
        return ParquetSource(found, settings=chosen)
    if last in ARROW_SUFFIXES:
        return ArrowSource(found, settings=chosen)
    if last in STATISTICS_SUFFIXES:
        from rarecell.engine.statistics import StatisticsSource

        return StatisticsSource(found, settings=chosen)
    what = _ELSEWHERE.get(last, f"of a kind that is not known by its ending '{last}'. Convert it")
    raise BadInput(f"{found} is {what}, and name that file. These are read: {FORMATS}.")


def open_text(path: Path, *, settings: EngineSettings) -> Source:
    """The source for delimited text: as it is when it is UTF-8, by a copy in UTF-8 when it is not."""
    encoding = csv.encoding_of(path, settings.encoding)
    if encoding is None:
        return CsvSource(path, settings=settings)
    from rarecell.engine.transcoded import TranscodedSource

    return TranscodedSource(path, encoding, settings=settings)


def is_wildcard(path: str | Path) -> bool:
    """True for a pattern such as ``data/*.parquet`` that is not itself the name of a file."""
    return glob.has_magic(str(path)) and not os.path.lexists(path)


def existing_file(path: str | Path) -> Path:
    """The path, when it names a file that can be read."""
    given = reachable(path)
    try:
        if given.is_dir():
            raise BadInput(f"{given} is a folder; name a file in it.")
        if not given.exists():
            siblings = [entry.name for entry in given.parent.iterdir()] if given.parent.is_dir() else []
            near = nearest_names(given.name, siblings)
            hint = f" Did you mean {' or '.join(str(given.parent / name) for name in near)}?" if near else ""
            if not given.parent.is_dir():
                hint = f" The folder {given.parent} does not exist either."
            raise BadInput(f"There is no file {given}.{hint}")
        with open(regular_file(given), "rb"):
            return given
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise BadInput(f"{given} cannot be read: {reason}. Check its name and that you may read it.") from None


class FileSource(Source):
    """A file that stays as it is between one reading and the next."""

    def __init__(self, path: Path, *, settings: EngineSettings) -> None:
        self.path = path
        self.name = str(path)
        self.suffix = path.suffix
        self.settings = settings
        # The copy of a query's or a statistics file's data goes by the name of what it copies.
        self.path_in_messages = self.name
        self._stamps = tuple(FileStamp(path) for path in self.paths)

    @property
    def settings_of_output(self) -> EngineSettings | None:
        return self.settings

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that hold the data."""
        return (self.path,)

    def _refuse_change(self) -> None:
        for stamp in self._stamps:
            stamp.refuse_change()

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        return connect(self, self.settings)

    def _schema(self, columns: Sequence[str]) -> pa.Schema:
        """The types that :meth:`batches` has."""
        raise NotImplementedError

    def counts(
        self, columns: Sequence[str], *, weight: str | None = None, recodes: Mapping[str, EncodedColumn] | None = None
    ) -> GroupedCounts:
        import narwhals.stable.v2 as nw

        from rarecell.engine.grouping import count_groups, new_names

        self._refuse_change()
        # What goes wrong in our own reading passes through the engine, which wraps it in words of its own.
        refused: list[RarecellError] = []
        can_scan = not recodes and (weight is None or self._has_numbers(weight))
        names = [*columns, *([] if weight is None else [weight])]
        try:
            with readable_errors(self.path_in_messages):
                relation = self._scanned() if can_scan else None
                if relation is not None:
                    relation = renamed(relation, names, new_names(len(names)))
                else:
                    reader = self._reader(names, weight, recodes or {}, new_names(len(names)), refused)
                    relation = self._connection.from_arrow(reader)
                return count_groups(nw.from_native(relation), len(columns), weight=weight, name=self.name)
        except RarecellError as problem:
            raise (refused[0] if refused else problem) from None

    def _has_numbers(self, column: str) -> bool:
        return next(c.kind for c in self.columns() if c.name == column) in ("integer", "number")

    def _scanned(self) -> Any:
        """The file as a DuckDB relation, where DuckDB reads it by itself and by the same rules."""
        return None

    def _reader(
        self,
        names: Sequence[str],
        weight: str | None,
        recodes: Mapping[str, EncodedColumn],
        new_names: Sequence[str],
        refused: list[RarecellError],
    ) -> pa.RecordBatchReader:
        """The columns with their values recoded, and the weights as numbers; errors are put into ``refused``."""
        fields = []
        for field in self._schema(names):
            new_type = pa.float64() if field.name == weight else pa.int32() if field.name in recodes else field.type
            fields.append(pa.field(field.name, new_type))
        schema = pa.schema(fields)
        batches = recoded_batches(self.batches(names), schema, weight, recodes, self._batch_numbers)
        renamed = pa.schema([pa.field(new, field.type) for new, field in zip(new_names, schema, strict=False)])
        return pa.RecordBatchReader.from_batches(
            renamed, (pa.record_batch(batch.columns, schema=renamed) for batch in _remembering(batches, refused))
        )


def _remembering(batches: Iterator[pa.RecordBatch], refused: list[RarecellError]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except RarecellError as problem:
        refused.append(problem)
        raise


class CsvSource(FileSource):
    """Delimited text, plain or gzipped."""

    def __init__(self, path: Path, *, settings: EngineSettings) -> None:
        super().__init__(path, settings=settings)
        self.dialect = csv.read_dialect(path)
        self.decimal_mark = self.dialect.decimal_mark
        self.suffix = "".join(path.suffixes[-2:]) if path.suffix.lower() == ".gz" else path.suffix
        self._n_rows: int | None = None

    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(name, "untyped") for name in self.dialect.names)

    @property
    def n_rows(self) -> int:
        if self._n_rows is None:
            self._n_rows = sum(len(piece.starts) for piece in csv.read_records(self.path, self.dialect))
            self._refuse_change()
        return self._n_rows

    @property
    def approximate_rows(self) -> int:
        if self._n_rows is not None:
            return self._n_rows
        piece = next(csv.read_records(self.path, self.dialect, chunk=1 << 16), None)
        if piece is None or not len(piece.starts):
            return 0
        n_bytes = self._stamps[0].n_bytes * (6 if self.dialect.is_gzipped else 1)
        return int(n_bytes * len(piece.starts) / max(1, len(piece.data)))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self._refuse_change()
        n_rows = 0
        for batch in csv.read_columns(self.path, self.dialect, columns):
            n_rows += batch.num_rows
            yield batch
        self._refuse_change()
        self._n_rows = n_rows

    def _schema(self, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([(name, pa.string()) for name in columns])

    def write_with_replacements(
        self, path: str | Path, rows: NDArray[np.int64], columns: Mapping[str, Any], *, forms: Forms | None = None
    ) -> Path:
        """As for every source; ``forms`` are those of all parts when the file is one of several."""
        self._refuse_change()
        texts = {
            name: [None if value is None else str(value) for value in pa.array(values).to_pylist()]
            for name, values in columns.items()
        }
        write_records(Path(path), self.path, self.dialect, np.asarray(rows, dtype=np.int64), texts, forms=forms)
        self._refuse_change()
        return Path(path)

    def write_levels(self, path: str | Path, recodes: Recodes) -> Path:
        from rarecell.engine.csv_levels import write_levels

        self._refuse_change()
        write_levels(Path(path), self.path, self.dialect, recodes)
        self._refuse_change()
        return Path(path)


class ColumnarSource(FileSource):
    """A file of typed columns, written back batch by batch."""

    arrow_schema: pa.Schema

    def columns(self) -> tuple[Column, ...]:
        csv.refuse_duplicates(self.arrow_schema.names, self.name)
        return tuple(
            Column(field.name, kind_of(field.type), level_order=self._declared_order(field)) for field in self.arrow_schema
        )

    def _declared_order(self, field: pa.Field) -> tuple[Any, ...] | None:
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
            self.arrow_schema.names  # noqa: B018 - raises now when a name is no text
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
                    # Bytes that are not UTF-8 would be met only when a value is looked at.
                    chosen.select(texts).validate(full=True)
                yield chosen

    def dictionary_pieces(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Those columns that are kept as dictionaries, in the pieces in which they are written."""
        kept = [name for name in columns if name in self.arrow_schema.names]
        chosen = [name for name in kept if pa.types.is_dictionary(self.arrow_schema.field(name).type)]
        if chosen:
            file = pq.ParquetFile(self.path)
            yield from (file.read_row_group(group, columns=chosen) for group in range(file.num_row_groups))

    @property
    def can_scan(self) -> bool:
        """Whether DuckDB can read the file by itself.

        It does not tell upper from lower case in names, knows no empty ones, and takes some characters of a path as
        wildcards.
        """
        names = [name.casefold() for name in self.arrow_schema.names]
        return len(set(names)) == len(names) and all(names) and not set("*?[]") & set(str(self.path))

    def _scanned(self) -> Any:
        return self._connection.read_parquet(str(self.path)) if self.can_scan else None

    def write_with_replacements(
        self,
        path: str | Path,
        rows: NDArray[np.int64],
        columns: Mapping[str, Any],
        *,
        added: Mapping[str, pa.Scalar] | None = None,
        forms: DictionaryForms | None = None,
    ) -> Path:
        """As for every source.

        ``added`` are further columns with the same value in every record, ``forms`` the dictionaries when the file is one of
        several parts.
        """
        self._refuse_change()
        schema = self.arrow_schema
        for name, value in (added or {}).items():
            schema = schema.append(pa.field(name, value.type))
        # Only reading speaks of a damaged file: what goes wrong in writing is told by atomic_path.
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
        from rarecell.engine.written_levels import recoded_schema, recoded_table

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
    """How each column was compressed."""
    if not file.num_row_groups:
        return "snappy"
    group = file.metadata.row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    return {chunk.path_in_schema: {"UNCOMPRESSED": "NONE"}.get(chunk.compression, chunk.compression) for chunk in chunks}


class ArrowSource(ColumnarSource):
    """An Arrow file, which is also what Feather files are, or an Arrow stream."""

    def __init__(self, path: Path, *, settings: EngineSettings) -> None:
        super().__init__(path, settings=settings)
        with open(path, "rb") as stream:
            self._is_stream = not stream.read(6).startswith(b"ARROW1")
        with readable_errors(path):
            with self._open() as reader:
                self.arrow_schema = reader.schema
                self.arrow_schema.names  # noqa: B018 - raises now when a name is no text
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
            # Nothing in the format tells a damaged file: an index beyond its dictionary would be followed anywhere.
            with readable_errors(self.path_in_messages):
                chosen.validate(full=True)
            for first in range(0, chosen.num_rows, BATCH_ROWS):
                yield chosen.slice(first, BATCH_ROWS)

    def write_with_replacements(self, path: str | Path, rows: NDArray[np.int64], columns: Mapping[str, Any]) -> Path:
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
        from rarecell.engine.written_levels import recoded_schema, recoded_table

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


@contextlib.contextmanager
def readable_errors(path: str | Path) -> Iterator[None]:
    """Turn what an engine says of a damaged file into one paragraph; its own words may hold records, so they are kept back."""
    import duckdb

    try:
        yield
    except (pa.ArrowException, duckdb.Error, OSError, EOFError, UnicodeError) as problem:
        text = str(problem)
        if isinstance(problem, (duckdb.OutOfMemoryException, pa.ArrowMemoryError)):
            raise BadInput(
                f"Counting {path} needs more memory or room for temporary files than it was given. Allow more memory, free room on "
                "the disk for temporary files, or use fewer or coarser keys."
            ) from None
        if isinstance(problem, OSError) and problem.errno:
            raise BadInput(f"{path} cannot be read: {problem.strerror or problem}.") from None
        reason = (
            "its end is missing" if "magic bytes" in text or "footer" in text.lower() else "its contents do not fit its format"
        )
        raise BadInput(
            f"{path} is damaged or not what its name says: {reason}. It may have been copied or downloaded only in part; copy it "
            f"anew or write it again. ({type(problem).__name__})"
        ) from None
