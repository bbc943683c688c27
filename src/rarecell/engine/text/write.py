"""How is a delimited text file written back so that nothing but the values shows where values were changed?

The bytes of all other fields are copied. A changed field is quoted, or not, as its value is in the rest of the file: if
it took on the quotes of its new row, a value that is otherwise unquoted would stand out there. Where the file quotes the
same value in some records and not in others, every record gets the commoner form in the changed columns.
"""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell.engine.arrays import as_arrow, as_numpy
from rarecell.engine.changes import Changes, ColumnChanges
from rarecell.engine.output import atomic_path, temporary_folder
from rarecell.engine.text.scan import (
    Dialect,
    Records,
    field_bytes,
    field_spans,
    fields_of,
    header_of,
    read_records,
    texts_of,
    writing,
)
from rarecell.machine.disk import new_private_file

if TYPE_CHECKING:
    from rarecell.edges import Level

_QUOTE = ord('"')
_ROWS_AT_A_TIME = 1 << 16


def write_text(path: Path, source: Path, dialect: Dialect, changes: Changes, *, decimal_mark: str) -> None:
    """Copy a file byte by byte, except for what changes."""
    pieces = changed_pieces(source, dialect, changes, Quoting([(source, dialect)], changes), decimal_mark=decimal_mark)
    header = changed_header(source, dialect, changes.dropped)
    if changes.order is None:
        write_bytes(path, header, pieces, is_gzipped=dialect.is_gzipped)
        return
    with temporary_folder(path) as folder:
        records = StoredRecords(folder, pieces, dialect, changes.dropped)
        write_bytes(path, header, records.at(changes.order), is_gzipped=dialect.is_gzipped)


def write_bytes(path: Path, header: bytes, pieces: Iterable[bytes], *, is_gzipped: bool) -> None:
    """Write a header and what follows it."""
    with atomic_path(path) as temporary, open(temporary, "wb") as raw, writing(raw, is_gzipped) as out:
        out.write(header)
        for piece in pieces:
            out.write(piece)


def changed_header(source: Path, dialect: Dialect, dropped: frozenset[str]) -> bytes:
    """Everything before the first record, without the names of dropped columns."""
    header = header_of(source, dialect)
    if not dropped:
        return header
    body = header.rstrip(b"\r\n")
    start = body.rfind(dialect.newline) + 1
    if start == 0 and body.startswith(b"\xef\xbb\xbf"):
        start = 3
    line = body[start:]
    spans = field_spans(line, dialect.delimiter)
    kept = [line[a:b] for name, (a, b) in zip(dialect.names, spans, strict=True) if name not in dropped]
    return body[:start] + bytes([dialect.delimiter]).join(kept) + header[len(body) :]


def changed_pieces(source: Path, dialect: Dialect, changes: Changes, quoting: Quoting, *, decimal_mark: str) -> Iterator[bytes]:
    """The records, piece by piece, with all changes but that of the order."""
    first = 0
    for piece in read_records(source, dialect):
        yield _changed_piece(piece, dialect, first, changes, quoting, decimal_mark)
        first += len(piece.starts)


def _changed_piece(piece: Records, dialect: Dialect, first: int, changes: Changes, quoting: Quoting, decimal_mark: str) -> bytes:
    from rarecell._kernels.text import splice_fields

    names = [name for name in dialect.names if name in quoting.columns or name in changes.dropped]
    if not names or not len(piece.starts):
        return piece.data
    columns = np.array([dialect.names.index(name) for name in names], dtype=np.int64)
    fields = fields_of(piece, dialect.delimiter, columns)
    texts = texts_of(piece, dialect.delimiter, columns)
    # Text 0 is empty, in place of a dropped field.
    entries, chosen = [b""], np.full((len(names), len(piece.starts)), -1, dtype=np.int32)
    for position, name in enumerate(names):
        if name in changes.dropped:
            chosen[position] = 0
            _include_delimiter(fields[position], dialect.names, name, changes.dropped)
            continue
        chunk = _Chunk(quoting, name, dialect.delimiter, first_entry=len(entries))
        chosen[position] = chunk.chosen(changes.columns[name], texts[position], fields[position], piece, first, decimal_mark)
        entries += chunk.entries
    ends = np.cumsum([0, *map(len, entries)])
    n_new = int(np.diff(ends)[chosen[chosen >= 0]].sum())
    data = np.frombuffer(piece.data, dtype=np.uint8)
    out = np.empty(len(data) + n_new, dtype=np.uint8)
    length = splice_fields(data, fields, chosen, np.frombuffer(b"".join(entries), dtype=np.uint8), ends, out)
    return out[:length].tobytes()


def _include_delimiter(spans: NDArray[np.int64], names: Sequence[str], name: str, dropped: frozenset[str]) -> None:
    """Extend a dropped field to the delimiter before it, or to the one after it if no column before it is written."""
    has_one_before = any(other not in dropped for other in names[: names.index(name)])
    if has_one_before:
        spans[:, 0] -= 1
    else:
        spans[:, 1] += 1


class _Chunk:
    """The new texts of one column in a piece, as bytes of the file, and which record gets which."""

    def __init__(self, quoting: Quoting, name: str, delimiter: int, *, first_entry: int) -> None:
        self.entries: list[bytes] = []
        self._quoting, self._name, self._delimiter = quoting, name, delimiter
        self._first_entry = first_entry
        self._known: dict[str | None, int] = {}

    def entry(self, text: str | None) -> int:
        """The number of a text."""
        if text not in self._known:
            self._known[text] = self._first_entry + len(self.entries)
            is_quoted = self._quoting.is_quoted(self._name, text)
            self.entries.append(field_bytes(text, self._delimiter, is_quoted=is_quoted))
        return self._known[text]

    def chosen(
        self,
        change: ColumnChanges,
        texts: pa.Array,
        spans: NDArray[np.int64],
        piece: Records,
        first: int,
        decimal_mark: str,
    ) -> NDArray[np.int32]:
        """The number of the new text of each record, −1 where the field stays as it is."""
        n_rows = len(texts)
        if change.treated is not None:
            return self._entries_of(_as_texts(change.treated.slice(first, n_rows), decimal_mark))
        rows, values = change.new_values(first, n_rows)
        new = [] if values is None else [None if value is None else str(value) for value in values.to_pylist()]
        if change.is_recoded:
            assert change.written is not None
            levels = change.levels_of(_with_texts(texts, rows, new), first)
            numbers = np.array([*map(self.entry, change.written.labels), self.entry(None)], dtype=np.int32)
            return np.asarray(numbers[levels])
        numbers_of_rows = np.full(n_rows, -1, dtype=np.int32)
        for row, text in self._quoting.unusual(self._name, texts, spans, piece):
            numbers_of_rows[row] = self.entry(text)
        numbers_of_rows[rows] = [self.entry(text) for text in new]
        if change.written is not None:
            numbers_of_rows[change.levels_of(_with_texts(texts, rows, new), first) < 0] = self.entry(None)
        else:
            numbers_of_rows[change.blank_rows(first, n_rows)] = self.entry(self._quoting.missing(self._name))
        return numbers_of_rows

    def _entries_of(self, texts: pa.Array) -> NDArray[np.int32]:
        encoded = texts.dictionary_encode()
        numbers = np.array([*map(self.entry, encoded.dictionary.to_pylist()), self.entry(None)], dtype=np.int32)
        return np.asarray(numbers[as_numpy(pc.fill_null(encoded.indices, len(encoded.dictionary)))])


def _with_texts(texts: pa.Array, rows: NDArray[np.int64], new: list[str | None]) -> pa.Array:
    if not len(rows):
        return texts
    choice = np.arange(len(texts))
    choice[rows] = len(texts) + np.arange(len(rows))
    return pa.concat_arrays([texts, pa.array(new, pa.string())]).take(as_arrow(choice))


def _as_texts(values: pa.Array, decimal_mark: str) -> pa.Array:
    """Values of any type as they are written in a text file."""
    return pa.array([_as_text(value, decimal_mark) for value in values.to_pylist()], pa.string())


def _as_text(value: Level, decimal_mark: str) -> str | None:
    if value is None or value != value:
        return None
    if isinstance(value, float):
        number = str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
        return number.replace(".", decimal_mark)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class StoredRecords:
    """Records of text in a private file, from which they are read in any order.

    Parameters
    ----------
    folder : Path
        A private folder.
    pieces : iterable of bytes
        The records, as :func:`changed_pieces` gives them.
    dialect : Dialect
        That of the files that the records come from.
    dropped : frozenset of str
        Columns of the dialect that the records lack.
    """

    def __init__(self, folder: Path, pieces: Iterable[bytes], dialect: Dialect, dropped: frozenset[str]) -> None:
        self._path = new_private_file(folder / "records")
        newline = bytes([dialect.newline])
        with open(self._path, "wb") as out:
            for piece in pieces:
                # The last record of a file may lack its line end; in another place it needs one.
                out.write(piece if not piece or piece.endswith(newline) else piece + newline)
        kept = tuple(name for name in dialect.names if name not in dropped)
        own = replace(dialect, names=kept, header_bytes=0, header_lines=0, is_gzipped=False)
        starts, ends, offset = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)], 0
        for records in read_records(self._path, own):
            starts.append(records.starts + offset)
            ends.append(records.ends + offset)
            offset += len(records.data)
        self._starts, self._ends = np.concatenate(starts), np.concatenate(ends)
        self._line_end = newline
        if len(self._ends):
            with open(self._path, "rb") as stream:
                stream.seek(int(self._ends[0]))
                self._line_end = b"\r\n" if stream.read(2) == b"\r\n" else newline

    def at(self, positions: NDArray[np.int64]) -> Iterator[bytes]:
        """The records at some positions, one after another."""
        if not len(positions):
            return
        with open(self._path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for first in range(0, len(positions), _ROWS_AT_A_TIME):
                chosen = positions[first : first + _ROWS_AT_A_TIME]
                spans = zip(self._starts[chosen].tolist(), self._ends[chosen].tolist(), strict=True)
                yield self._line_end.join(data[start:end] for start, end in spans) + self._line_end


class Quoting:
    """Whether each value of the changed columns is quoted, in a file or in all parts of one.

    Parameters
    ----------
    sources : sequence of (Path, Dialect)
        The files, each with its dialect.
    changes : Changes
        What changes in all of them.
    """

    def __init__(self, sources: Sequence[tuple[Path, Dialect]], changes: Changes) -> None:
        self._changes = {name: change for name, change in changes.columns.items() if _is_changed(change)}
        self.columns = tuple(self._changes)
        self._numbers: dict[str, tuple[Counter[str | None], Counter[str | None]]] = {
            name: (Counter(), Counter()) for name in self.columns
        }
        has_words = any(change.words and len(change.blanks) for change in self._changes.values())
        if self.columns and (has_words or any(_has_quotes(path, dialect) for path, dialect in sources)):
            for path, dialect in sources:
                self._count(path, dialect)
        # Values that have the rarer form in some records.
        self._unusual: dict[str, dict[bool, list[str | None]]] = {}
        for name, (bare, quoted) in self._numbers.items():
            mixed = [text for text in bare if text in quoted]
            if mixed:
                self._unusual[name] = {
                    form: [text for text in mixed if self.is_quoted(name, text) != form] for form in (False, True)
                }

    def _count(self, path: Path, dialect: Dialect) -> None:
        names = [name for name in dialect.names if name in self.columns]
        columns = np.array([dialect.names.index(name) for name in names], dtype=np.int64)
        for piece in read_records(path, dialect):
            if not len(piece.starts):
                continue
            spans, texts = fields_of(piece, dialect.delimiter, columns), texts_of(piece, dialect.delimiter, columns)
            for name, of_column, of_text in zip(names, spans, texts, strict=True):
                is_quoted = _are_quoted(of_column, piece)
                for counter, chosen in zip(self._numbers[name], (~is_quoted, is_quoted), strict=True):
                    for entry in pc.value_counts(of_text.filter(as_arrow(chosen))).to_pylist():
                        counter[entry["values"]] += entry["counts"]

    def is_quoted(self, name: str, value: str | None) -> bool:
        """Whether a value is usually quoted."""
        bare, quoted = (numbers[value] for numbers in self._numbers[name])
        if not bare and not quoted:
            bare, quoted = (sum(numbers.values()) for numbers in self._numbers[name])
        return quoted > bare

    def missing(self, name: str) -> str | None:
        """How most missing values of a blanked column are written; None for an empty field."""

        def number(text: str | None) -> int:
            return sum(numbers[text] for numbers in self._numbers[name])

        return max((None, *sorted(self._changes[name].words)), key=number)

    def unusual(self, name: str, texts: pa.Array, spans: NDArray[np.int64], piece: Records) -> Iterator[tuple[int, str | None]]:
        """Records of a piece in which a value has the rarer form, with that value."""
        if name not in self._unusual:
            return
        is_quoted = _are_quoted(spans, piece)
        for form, values in self._unusual[name].items():
            is_rarer = as_numpy(pc.is_in(texts, value_set=pa.array(values, pa.string())))
            for record in np.flatnonzero(is_rarer & (is_quoted == form)).tolist():
                yield record, texts[record].as_py()


def _is_changed(change: ColumnChanges) -> bool:
    return bool(len(change.rows) or len(change.blanks) or change.written is not None or change.treated is not None)


def _are_quoted(spans: NDArray[np.int64], piece: Records) -> NDArray[np.bool_]:
    # A field at the very end of a piece may be empty, and then it has no first byte.
    data = np.frombuffer(piece.data + b"\n", dtype=np.uint8)
    return np.asarray((data[spans[:, 0]] == _QUOTE) & (spans[:, 1] > spans[:, 0]))


def _has_quotes(path: Path, dialect: Dialect) -> bool:
    """Whether a quote may be in the records; a compressed file is not searched."""
    if dialect.is_gzipped or path.stat().st_size <= dialect.header_bytes:
        return dialect.is_gzipped
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(b'"', dialect.header_bytes) >= 0
