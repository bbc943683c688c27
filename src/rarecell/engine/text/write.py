"""How is a delimited text file written back so that nothing but the values shows where values were exchanged?

The bytes of all other fields are copied. An exchanged field is quoted, or not, as its value is in the rest of the file: if
it took on the quotes of its new row, a value that is otherwise unquoted would stand out there. Where the file quotes the
same value in some records and not in others, every record gets the commoner form in the exchanged columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from gzip import GzipFile
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell.engine.arrays import as_arrow
from rarecell.engine.changes import Recodes, WrittenLevels
from rarecell.engine.output import atomic_path
from rarecell.engine.text import scan
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

_QUOTE = ord('"')


def write_records(
    path: Path,
    source: Path,
    dialect: Dialect,
    rows: NDArray[np.int64],
    columns: Mapping[str, Sequence[str | None]],
    *,
    forms: Forms | None = None,
) -> None:
    """Copy a file byte by byte, with new values in some fields of some records.

    ``forms`` covers all parts when the file is one of several; by default it is that of the file alone.
    """
    order = np.argsort(rows, kind="stable")
    in_order = np.asarray(rows, dtype=np.int64)[order]
    if forms is None:
        forms = Forms([(source, dialect)], list(columns) if len(rows) else ())
    with atomic_path(path) as temporary, open(temporary, "wb") as raw, writing(raw, dialect.is_gzipped) as out:
        out.write(header_of(source, dialect))
        first = 0
        for piece in read_records(source, dialect):
            low, high = np.searchsorted(in_order, [first, first + len(piece.starts)])
            new = forms.unusual(piece, dialect)
            for position in range(low, high):
                record = new.setdefault(int(in_order[position]) - first, {})
                record.update({name: values[int(order[position])] for name, values in columns.items()})
            _copy_piece(out, piece, dialect, new, forms)
            first += len(piece.starts)


def _copy_piece(
    out: GzipFile | BinaryIO, piece: Records, dialect: Dialect, new: Mapping[int, Mapping[str, str | None]], forms: Forms
) -> None:
    copied = 0
    for record in sorted(new):
        start, end = int(piece.starts[record]), int(piece.ends[record])
        whole = piece.data[start:end]
        fields = [whole[first:last] for first, last in field_spans(whole, dialect.delimiter)]
        for name, value in new[record].items():
            is_quoted = forms.is_quoted(name, value)
            fields[dialect.names.index(name)] = field_bytes(value, dialect.delimiter, is_quoted=is_quoted)
        out.write(piece.data[copied:start])
        out.write(bytes([dialect.delimiter]).join(fields))
        copied = end
    out.write(piece.data[copied:])


class Forms:
    """Whether each value of some columns is quoted, in a file or in all parts of one.

    Parameters
    ----------
    sources : sequence of (Path, Dialect)
        The files, each with its dialect.
    columns : sequence of str
        Names of the columns.
    """

    def __init__(self, sources: Sequence[tuple[Path, Dialect]], columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self._numbers: dict[str, tuple[Counter[str | None], Counter[str | None]]] = {
            name: (Counter(), Counter()) for name in self.columns
        }
        for path, dialect in sources if self.columns else ():
            for piece in read_records(path, dialect):
                for name, texts, is_quoted in self._read(piece, dialect):
                    for counter, chosen in zip(self._numbers[name], (~is_quoted, is_quoted), strict=True):
                        for found in pc.value_counts(texts.filter(as_arrow(chosen))).to_pylist():
                            counter[found["values"]] += found["counts"]
        # Values that have the rarer form in some records.
        self._unusual: dict[str, dict[bool, list[str | None]]] = {}
        for name, (bare, quoted) in self._numbers.items():
            mixed = [text for text in bare if text in quoted]
            if mixed:
                self._unusual[name] = {
                    form: [text for text in mixed if self.is_quoted(name, text) != form] for form in (False, True)
                }

    def _read(self, piece: Records, dialect: Dialect) -> list[tuple[str, pa.Array, NDArray[np.bool_]]]:
        """The texts of each column of a piece, and which of them are quoted."""
        names = [name for name in dialect.names if name in self.columns]
        if not len(piece.starts) or not names:
            return []
        wanted = np.array([dialect.names.index(name) for name in names], dtype=np.int64)
        spans = fields_of(piece, dialect.delimiter, wanted)
        # A field at the very end of a piece may be empty, and then it has no first byte.
        data = np.frombuffer(piece.data + b"\n", dtype=np.uint8)
        texts = texts_of(piece, dialect.delimiter, wanted)
        return [
            (name, texts[k], (data[spans[k, :, 0]] == _QUOTE) & (spans[k, :, 1] > spans[k, :, 0])) for k, name in enumerate(names)
        ]

    def is_quoted(self, name: str, value: str | None) -> bool:
        """Whether a value is usually quoted."""
        bare, quoted = (numbers[value] for numbers in self._numbers[name])
        if not bare and not quoted:
            bare, quoted = (sum(numbers.values()) for numbers in self._numbers[name])
        return quoted > bare

    def unusual(self, piece: Records, dialect: Dialect) -> dict[int, dict[str, str | None]]:
        """Records of a piece in which a value has the rarer form, with that value."""
        found: dict[int, dict[str, str | None]] = {}
        for name, texts, is_quoted in self._read(piece, dialect) if self._unusual else ():
            for form, values in self._unusual.get(name, {}).items():
                is_rarer = pc.is_in(texts, value_set=pa.array(values, pa.string())).to_numpy(zero_copy_only=False)
                for record in np.flatnonzero(is_rarer & (is_quoted == form)).tolist():
                    found.setdefault(record, {})[name] = texts[record].as_py()
        return found


# How is delimited text written with the levels of some columns in place of their values?
#
# Everything except the recoded fields is copied byte by byte: other fields, quotes, line ends and empty lines.


def write_levels(path: Path, source: Path, dialect: scan.Dialect, recodes: Recodes) -> None:
    """Copy a file with levels in place of values; a missing level is an empty field."""
    names = [name for name in dialect.names if name in recodes]
    wanted = np.array([dialect.names.index(name) for name in names], dtype=np.int64)
    texts, first, first_text = _encoded_labels([recodes[name] for name in names], dialect.delimiter)
    with atomic_path(path) as temporary, open(temporary, "wb") as raw, writing(raw, dialect.is_gzipped) as out:
        out.write(scan.header_of(source, dialect))
        for piece in scan.read_records(source, dialect):
            out.write(_recoded(piece, dialect, wanted, [recodes[name] for name in names], (texts, first, first_text)))


def _encoded_labels(columns: list[WrittenLevels], delimiter: int) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[int]]:
    """All labels one after another, each unquoted and quoted; where each begins; the number of each column's first label.

    The last text of a column is empty and stands for a missing value.
    """
    pieces: list[bytes] = []
    first_text = []
    for written in columns:
        first_text.append(len(pieces) // 2)
        for label in (*written.labels, None):
            pieces += [scan.field_bytes(label, delimiter, is_quoted=is_quoted) for is_quoted in (False, True)]
    first = np.cumsum([0, *(len(piece) for piece in pieces)])
    return np.frombuffer(b"".join(pieces), dtype=np.uint8), first, first_text


def _recoded(
    piece: scan.Records,
    dialect: scan.Dialect,
    wanted: NDArray[np.int64],
    columns: list[WrittenLevels],
    encoded: tuple[NDArray[np.uint8], NDArray[np.int64], list[int]],
) -> bytes:
    from rarecell._kernels.text import find_fields, splice_fields

    texts, first, first_text = encoded
    data = np.frombuffer(piece.data, dtype=np.uint8)
    fields = np.empty((len(wanted), len(piece.starts), 2), dtype=np.int64)
    find_fields(data, piece.starts, piece.ends, dialect.delimiter, wanted, fields)
    chosen = np.empty((len(wanted), len(piece.starts)), dtype=np.int32)
    for row, (written, array, start) in enumerate(
        zip(columns, scan.texts_of(piece, dialect.delimiter, wanted), first_text, strict=True)
    ):
        levels = written.levels_of(array)
        stays = -1 if written.only_blanks else levels + start
        chosen[row] = np.where(levels < 0, start + len(written.levels), stays)
    longest = int((first[1:] - first[:-1]).max(initial=0))
    out = np.empty(len(data) + chosen.size * longest, dtype=np.uint8)
    return out[: splice_fields(data, fields, chosen, texts, first, out)].tobytes()
