"""How are Parquet and Arrow files read, counted and written back?"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from rarecell.engine.arrays import EncodedColumn, GroupedCounts, in_plain_form, kind_of, plain_field
from rarecell.engine.changes import Changes
from rarecell.engine.columnar.write import (
    DictionaryForms,
    changed_in_place,
    changed_schema,
    changed_table,
    dictionary_forms,
    reordered,
)
from rarecell.engine.duck import EngineSettings
from rarecell.engine.files import FileSource, readable_errors
from rarecell.engine.output import atomic_folder, atomic_path, write_in_turn
from rarecell.engine.parts import PartFiles, SeveralFiles, find_parts
from rarecell.engine.source import BATCH_ROWS, Column
from rarecell.engine.text import scan
from rarecell.errors import BadInput

if TYPE_CHECKING:
    import duckdb

    from rarecell.edges import Level

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class ColumnarSource(FileSource):
    """A file of typed columns, written back batch by batch."""

    arrow_schema: pa.Schema

    def columns(self) -> tuple[Column, ...]:
        scan.refuse_duplicates(self.arrow_schema.names, self.name)
        return tuple(
            Column(field.name, kind_of(field.type), level_order=self._declared_order(field)) for field in self.arrow_schema
        )

    def _declared_order(self, field: pa.Field) -> tuple[Level, ...] | None:
        if not (pa.types.is_dictionary(field.type) and field.type.ordered):
            return None
        first = next(iter(self.batches([field.name])), None)
        return None if first is None else tuple(first.column(0).dictionary.to_pylist())

    def _schema(self, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([plain_field(self.arrow_schema.field(name)) for name in columns])


class ParquetSource(ColumnarSource):
    """One Parquet file."""

    def __init__(self, path: Path, *, settings: EngineSettings) -> None:
        super().__init__(path, settings=settings)
        with readable_errors(path):
            _refuse_encrypted(path)
            file = _opened(path)
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
            file = _opened(self.path, read_dictionary=self._with_dictionaries(texts), memory_map=True)
            for batch in file.iter_batches(BATCH_ROWS, columns=list(columns)):
                chosen = in_plain_form(batch.select(list(columns)))
                if texts:
                    # Otherwise, bytes that are not UTF-8 would be noticed only when a value is used.
                    chosen.select(texts).validate(full=True)
                yield chosen

    def _with_dictionaries(self, columns: Sequence[str]) -> list[str]:
        """Columns of text that Arrow can read as codes: not those whose texts are stored as differences to the one before."""
        by_difference = {chunk.column for chunk in self._chunks if _TEXTS_BY_DIFFERENCE & chunk.encodings}
        return [name for name in columns if name not in by_difference]

    def _declared_order(self, field: pa.Field) -> tuple[Level, ...] | None:
        order = super()._declared_order(field)
        # Without a page for the dictionary, the file does not tell its order.
        is_told = order is not None and all(chunk.has_dictionary for chunk in self._chunks if chunk.column == field.name)
        return order if is_told else None

    @cached_property
    def _chunks(self) -> tuple[_Chunk, ...]:
        """How the columns of each row group are stored; nothing where their description is damaged, of which reading tells."""
        import duckdb

        leaves = _opened(self.path).schema
        # DuckDB takes some characters of a path as wildcards, unless they stand in brackets.
        place = re.sub(r"([*?\[])", r"[\1]", str(self.path))
        try:
            rows = _describer().cursor().execute(_CHUNKS, [place]).fetchall()
        except duckdb.Error:
            return ()
        return tuple(
            _Chunk(leaves.column(column).path, compression, frozenset(encodings.split(", ")), dictionary is not None, data)
            for column, compression, encodings, dictionary, data in rows
        )

    def dictionary_pieces(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The columns that are stored as dictionaries, in the pieces in which they are written."""
        kept = [name for name in columns if name in self.arrow_schema.names]
        chosen = [name for name in kept if pa.types.is_dictionary(self.arrow_schema.field(name).type)]
        if chosen:
            file = _opened(self.path)
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

    def write(self, path: str | Path, changes: Changes) -> Path:
        return self.write_part(path, changes)

    def write_part(
        self,
        path: str | Path,
        changes: Changes,
        *,
        added: Mapping[str, pa.Scalar] | None = None,
        forms: DictionaryForms | None = None,
    ) -> Path:
        """Write as every source does.

        ``added`` gives further columns with the same value in every record, and ``forms`` the dictionaries when the file
        is one of several parts.
        """
        self._refuse_change()
        schema = _with_constants(self.arrow_schema, added or {})
        changes.check(schema.names, lambda: self.n_rows)
        # Only reading reports a damaged file; atomic_path reports what goes wrong in writing.
        with readable_errors(self.path_in_messages):
            file = _opened(self.path)
            if forms is None:
                forms = dictionary_forms(self.dictionary_pieces(changed_in_place(changes)), changed_in_place(changes))
        tables: Iterable[pa.Table] = self.changed_groups(changes, added or {}, forms)
        if changes.order is not None:
            tables = reordered(tables, changes.order, Path(path), _group_sizes(file))
        with (
            atomic_path(path) as temporary,
            pq.ParquetWriter(temporary, changed_schema(schema, changes), **self.properties(coded=changes.recodes)) as writer,
        ):
            write_in_turn(writer, tables)
        self._refuse_change()
        return Path(path)

    def changed_groups(self, changes: Changes, added: Mapping[str, pa.Scalar], forms: DictionaryForms) -> Iterator[pa.Table]:
        """The row groups, one after another, with all changes but that of the order."""
        file, first = _opened(self.path), 0
        for group in range(file.num_row_groups):
            with readable_errors(self.path_in_messages):
                table = file.read_row_group(group)
            for name, value in added.items():
                table = table.append_column(pa.field(name, value.type), pa.repeat(value, table.num_rows))
            yield changed_table(table, first, changes, forms)
            first += table.num_rows

    def properties(self, *, coded: Iterable[str] = ()) -> dict[str, Any]:
        """How the file is written: the version of its format, its pages, their encoding and their compression.

        Columns that are ``coded`` get a dictionary, which alone tells the order of their levels.
        """
        file = _opened(self.path)
        version = file.metadata.format_version
        # Readers of the first version know only some of the encodings and types; the others differ in types only.
        properties: dict[str, Any] = {
            "version": version if version in ("1.0", "2.4", "2.6") else "2.6",
            "use_deprecated_int96_timestamps": _has_old_times(file),
        }
        if not self._chunks:
            return properties | {"compression": "snappy"}
        with_dictionary = [chunk.column for chunk in self._chunks if chunk.has_dictionary]
        return properties | {
            "compression": {
                chunk.column: _COMPRESSIONS.get(chunk.compression, chunk.compression) for chunk in reversed(self._chunks)
            },
            "use_dictionary": list(dict.fromkeys([*with_dictionary, *coded])),
            "data_page_version": _page_version(self.path, self._chunks[0].begins_at),
            "write_page_index": _has_page_index(file),
        }

    @property
    def group_sizes(self) -> list[int]:
        """Number of records in each row group."""
        return _group_sizes(_opened(self.path))


def _with_constants(schema: pa.Schema, added: Mapping[str, pa.Scalar]) -> pa.Schema:
    for name, value in added.items():
        schema = schema.append(pa.field(name, value.type))
    return schema


def _group_sizes(file: pq.ParquetFile) -> list[int]:
    return [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]


_TEXTS_BY_DIFFERENCE = {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"}
_SIGNATURE = 28
"""Bytes after the description of a file of which only columns are encrypted."""


def _refuse_encrypted(path: Path) -> None:
    """Refuse an encrypted file; Arrow ends the program when it is asked about an encrypted column."""
    with open(path, "rb") as stream:
        end = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, end - 8))
        tail = stream.read(8)
    is_encrypted = tail[4:] == b"PARE"
    if tail[4:] == b"PAR1" and not is_encrypted:
        is_encrypted = int.from_bytes(tail[:4], "little") == _opened(path).metadata.serialized_size + _SIGNATURE
    if is_encrypted:
        raise BadInput(
            f"{path} is encrypted, and rarecell has no keys. Write it again without encryption, where only you can read it."
        )


def _opened(path: Path, **options: Any) -> pq.ParquetFile:
    """Open a Parquet file, whose times of the old type INT96 are read to the microsecond, as Spark writes them.

    Arrow would read them to the nanosecond, and take dates beyond 2262, such as 9999-12-31, for others.
    """
    return pq.ParquetFile(path, coerce_int96_timestamp_unit="us", **options)


# How are the columns of a row group stored?
#
# The description at the end of a file says it. DuckDB reads it, because Arrow ends the program when it is asked about a column whose
# description is damaged.


@dataclass(frozen=True)
class _Chunk:
    """How a column is stored in a row group."""

    column: str
    compression: str
    encodings: frozenset[str]
    has_dictionary: bool
    begins_at: int


_CHUNKS = """
    SELECT column_id, compression, encodings, dictionary_page_offset, data_page_offset FROM parquet_metadata(?)
    ORDER BY row_group_id, column_id
"""


@cache
def _describer() -> duckdb.DuckDBPyConnection:
    """A connection that reads descriptions of files, which are small."""
    import duckdb

    return duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False})


def _has_page_index(file: pq.ParquetFile) -> bool:
    """Whether pages have an index; Arrow may be asked about the first column once it has read it."""
    next(file.iter_batches(1, row_groups=[0], columns=[file.schema.column(0).path]), None)
    return bool(file.metadata.row_group(0).column(0).has_column_index)


_COMPRESSIONS = {"UNCOMPRESSED": "NONE", "LZ4_RAW": "LZ4"}
_SECOND_PAGES = bytes([0x15, 0x06])
"""How the header of a data page of the second version begins: its first field is a number, the kind of the page."""


def _page_version(path: Path, offset: int) -> str:
    """The version of the page of data that begins at this place of a file."""
    with open(path, "rb") as stream:
        stream.seek(offset)
        return "2.0" if stream.read(2) == _SECOND_PAGES else "1.0"


def _has_old_times(file: pq.ParquetFile) -> bool:
    """Whether all times are of the old type INT96, so that they can be written so again."""
    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    is_old = [
        leaf.physical_type == "INT96" for leaf in leaves if leaf.physical_type == "INT96" or "Timestamp" in str(leaf.logical_type)
    ]
    return bool(is_old) and all(is_old)


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
            chosen = in_plain_form(batch.select(list(columns)))
            # The format cannot reveal damage: an index beyond the end of its dictionary would be followed anywhere.
            with readable_errors(self.path_in_messages):
                chosen.validate(full=True)
            for first in range(0, chosen.num_rows, BATCH_ROWS):
                yield chosen.slice(first, BATCH_ROWS)

    def write(self, path: str | Path, changes: Changes) -> Path:
        changes.check(self.arrow_schema.names, lambda: self.n_rows)
        names = changed_in_place(changes)
        forms = (
            dictionary_forms((pa.Table.from_batches([batch.select(names)]) for batch in self._whole_batches()), names)
            if names
            else {}
        )
        options = pa.ipc.IpcWriteOptions(compression=self._compression, unify_dictionaries=not self._is_stream)
        new_writer = pa.ipc.new_stream if self._is_stream else pa.ipc.new_file
        tables: Iterable[pa.Table] = self._changed_batches(changes, forms)
        if changes.order is not None:
            sizes = [batch.num_rows for batch in self._whole_batches()]
            tables = reordered(tables, changes.order, Path(path), sizes)
        schema = changed_schema(self.arrow_schema, changes)
        with (
            atomic_path(path) as temporary,
            pa.OSFile(str(temporary), "wb") as out,
            new_writer(out, schema, options=options) as writer,
        ):
            for table in tables:
                writer.write_table(table)
        self._refuse_change()
        return Path(path)

    @property
    def _compression(self) -> str | None:
        """How the first batch is compressed, which Arrow does not tell; its description does, a table of the FlatBuffers format."""
        with open(self.path, "rb") as stream, readable_errors(self.path_in_messages):
            stream.seek(0 if self._is_stream else len(_START_OF_FILE))
            messages = pa.ipc.MessageReader.open_stream(stream)
            batch = next((message for message in messages if message.type == "record batch"), None)
        if batch is None:
            return None
        described = batch.metadata.to_pybytes()
        header = _followed(described, _member(described, _followed(described, 0), 2))
        compression = _member(described, header, 3)
        if not compression:
            return None
        codec = _member(described, _followed(described, compression), 0)
        return "zstd" if codec and described[codec] else "lz4"

    def _changed_batches(self, changes: Changes, forms: DictionaryForms) -> Iterator[pa.Table]:
        first = 0
        for batch in self._whole_batches():
            yield changed_table(pa.Table.from_batches([batch]), first, changes, forms)
            first += batch.num_rows


_START_OF_FILE = b"ARROW1\0\0"


def _followed(described: bytes, place: int) -> int:
    """Where the reference at a place leads."""
    return place + int.from_bytes(described[place : place + 4], "little")


def _member(described: bytes, table: int, number: int) -> int:
    """The place of a member of a table, 0 if it has its default: where it lies is listed before or after the table."""
    places = table - int.from_bytes(described[table : table + 4], "little", signed=True)
    n_bytes = int.from_bytes(described[places : places + 2], "little")
    first = places + 4 + 2 * number
    distance = int.from_bytes(described[first : first + 2], "little") if first < places + n_bytes else 0
    return table + distance if distance else 0


class ParquetPartsSource(SeveralFiles, ColumnarSource):
    """The Parquet files of a folder or wildcard as one file."""

    def __init__(self, path: str | Path, *, settings: EngineSettings) -> None:
        self.files = find_parts(path)
        self._parts = tuple(ParquetSource(part, settings=settings) for part in self.files.paths)
        super().__init__(Path(path), settings=settings)
        self.suffix = ".parquet"
        self._first_rows = np.cumsum([0, *(part.n_rows for part in self._parts)])
        schemas = [part.arrow_schema for part in self._parts]
        for part, schema in zip(self._parts[1:], schemas[1:], strict=True):
            _refuse_other_columns(schemas[0], schema, self._parts[0].name, part.name)
        self._constants = _partition_columns(self.files)
        self.arrow_schema = schemas[0]
        for name, values in self._constants.items():
            self.arrow_schema = self.arrow_schema.append(pa.field(name, values.type))

    @property
    def n_rows(self) -> int:
        return int(self._first_rows[-1])

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self._refuse_change()
        stored = [name for name in columns if name not in self._constants]
        for number, part in enumerate(self._parts):
            if not stored:
                for first in range(0, part.n_rows, BATCH_ROWS):
                    yield self._completed({}, min(BATCH_ROWS, part.n_rows - first), number, columns)
                continue
            for batch in part.batches(stored):
                yield self._completed(dict(zip(stored, batch.columns, strict=True)), batch.num_rows, number, columns)

    def _completed(self, arrays: Mapping[str, pa.Array], n_rows: int, number: int, columns: Sequence[str]) -> pa.RecordBatch:
        """A batch of a part, with the columns that its folders stand for added."""
        completed = [
            pa.repeat(self._constants[name][number], n_rows) if name in self._constants else arrays[name] for name in columns
        ]
        return pa.record_batch(completed, names=list(columns))

    def _declared_order(self, field: pa.Field) -> tuple[Level, ...] | None:
        if field.name in self._constants:
            return None
        orders = {part._declared_order(field) for part in self._parts if part.n_rows}
        return orders.pop() if len(orders) == 1 else None

    def counts(
        self, columns: Sequence[str], *, weight: str | None = None, recodes: Mapping[str, EncodedColumn] | None = None
    ) -> GroupedCounts:
        try:
            return super().counts(columns, weight=weight, recodes=recodes)
        except BadInput:
            # The engine reads all parts at once; reading each part alone shows which one is damaged.
            for _ in self.batches([*columns, *([] if weight is None else [weight])]):
                pass
            raise

    def _scanned(self) -> Any:
        if self._constants or not all(part.can_scan for part in self._parts):
            return None
        return self._connection.read_parquet([str(path) for path in self.paths], hive_partitioning=False)

    def write(self, path: str | Path, changes: Changes) -> Path:
        """Write a folder of the same parts.

        A column that folders stood for is written into the parts, because its values may have to change in some records;
        the parts are then numbered, in the same order.
        """
        self._refuse_change()
        changes.check(self.arrow_schema.names, lambda: self.n_rows)
        names = changed_in_place(changes)
        with readable_errors(self.name):
            forms = dictionary_forms((piece for part in self._parts for piece in part.dictionary_pieces(names)), names)
        with atomic_folder(path) as folder:
            if changes.order is None:
                for number, part in enumerate(self._parts):
                    of_part = changes.of_part(int(self._first_rows[number]), part.n_rows)
                    part.write_part(self._target(folder, number), of_part, added=self._constants_of(number), forms=forms)
            else:
                self._write_in_order(folder, changes, forms)
        return Path(path)

    def _write_in_order(self, folder: Path, changes: Changes, forms: DictionaryForms) -> None:
        """Write the records in a new order, over all parts, which stay as large as they are."""
        assert changes.order is not None
        schema = changed_schema(self.arrow_schema, changes)
        pieces = (
            piece.select(schema.names)
            for number, part in enumerate(self._parts)
            for piece in part.changed_groups(
                changes.of_part(int(self._first_rows[number]), part.n_rows), self._constants_of(number), forms
            )
        )
        sizes = [size for part in self._parts for size in part.group_sizes]
        tables = reordered(pieces, changes.order, folder, sizes)
        for number, part in enumerate(self._parts):
            with (
                atomic_path(self._target(folder, number)) as temporary,
                pq.ParquetWriter(temporary, schema, **part.properties(coded=changes.recodes)) as writer,
            ):
                write_in_turn(writer, itertools.islice(tables, len(part.group_sizes)))

    def _constants_of(self, number: int) -> dict[str, pa.Scalar]:
        """The values of the columns that the folders of a part stand for."""
        return {column: constants[number] for column, constants in self._constants.items()}

    def _target(self, folder: Path, number: int) -> Path:
        name = f"part-{number:05d}.parquet" if self._constants else self.files.names[number]
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return target


def _refuse_other_columns(first: pa.Schema, other: pa.Schema, first_name: str, other_name: str) -> None:
    """Refuse parts whose columns or types differ; their order may differ."""
    scan.refuse_duplicates(first.names, first_name)
    scan.refuse_duplicates(other.names, other_name)
    remedy = "Write all parts with the same columns, or name those that belong together by a wildcard."
    for has, lacks, with_column, without_column in (
        (first, other, first_name, other_name),
        (other, first, other_name, first_name),
    ):
        for name in has.names:
            if name not in lacks.names:
                raise BadInput(f"{without_column} has no column '{name}', which {with_column} has. {remedy}")
    for field in first:
        other_type = other.field(field.name).type
        if other_type != field.type:
            raise BadInput(f"Column '{field.name}' is {other_type} in {other_name} and {field.type} in {first_name}. {remedy}")


def _partition_columns(files: PartFiles) -> dict[str, pa.Array]:
    """For each column that folders stand for, its value in every part."""
    names = list(files.partitions[0])
    for part, folders in zip(files.paths, files.partitions, strict=True):
        if list(folders) != names:
            raise BadInput(
                f"{part} lies below the folders {', '.join(folders) or 'of no column'}, {files.paths[0]} below "
                f"{', '.join(names) or 'those of no column'}. Every part must lie below folders of the same columns; name those that "
                "belong together by a wildcard."
            )
    columns = {}
    for name in names:
        values = [None if folders[name] == _NO_VALUE else folders[name] for folders in files.partitions]
        are_whole = all(value is None or _is_whole(value) for value in values)
        columns[name] = pa.array([None if v is None else int(v) for v in values], pa.int64()) if are_whole else pa.array(values)
    return columns


def _is_whole(text: str) -> bool:
    return text.lstrip("-").isdecimal() and str(int(text)) == text and abs(int(text)) < 2**63
