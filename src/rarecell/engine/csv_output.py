"""How is a delimited text file written back so that nothing but values tells where values were exchanged?

The bytes of all other fields are copied. An exchanged field is quoted, or not, as its value is quoted in the rest of the
file: with the quotes of the row it comes into, a value that is otherwise bare would show that it is foreign there. Where
the file quotes the same value now so, now so, every record gets the commoner form, in the columns that are exchanged.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell.engine.csv import Dialect, Records, field_bytes, field_spans, fields_of, header_of, read_records, texts_of
from rarecell.engine.output import atomic_path

_QUOTE = ord('"')


def write_records(
    path: Path, source: Path, dialect: Dialect, rows: NDArray[np.int64], columns: Mapping[str, Sequence[str | None]]
) -> None:
    """Copy a file byte by byte, with other values in some fields of some records."""
    order = np.argsort(rows, kind="stable")
    in_order = np.asarray(rows, dtype=np.int64)[order]
    changes = {
        dialect.names.index(name): values for name, values in sorted(columns.items(), key=lambda c: dialect.names.index(c[0]))
    }
    forms = _Forms(source, dialect, sorted(changes)) if len(rows) else None
    with atomic_path(path) as temporary, open(temporary, "wb") as raw:
        # Neither a name nor a time inside the compressed file: the same data give the same bytes.
        out: Any = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if dialect.is_gzipped else raw
        out.write(header_of(source, dialect))
        first = 0
        for piece in read_records(source, dialect):
            low, high = np.searchsorted(in_order, [first, first + len(piece.starts)])
            new: dict[int, dict[int, str | None]] = forms.unusual(piece) if forms else {}
            for position in range(low, high):
                record = new.setdefault(int(in_order[position]) - first, {})
                record.update({column: values[int(order[position])] for column, values in changes.items()})
            _copy_piece(out, piece, dialect.delimiter, new, forms)
            first += len(piece.starts)
        if out is not raw:
            out.close()


def _copy_piece(
    out: Any, piece: Records, delimiter: int, new: Mapping[int, Mapping[int, str | None]], forms: _Forms | None
) -> None:
    copied = 0
    for record in sorted(new):
        assert forms is not None
        start, end = int(piece.starts[record]), int(piece.ends[record])
        fields = [
            piece.data[one:other]
            for one, other in ((start + a, start + b) for a, b in field_spans(piece.data[start:end], delimiter))
        ]
        for column, value in new[record].items():
            fields[column] = forms.field(column, value)
        out.write(piece.data[copied:start])
        out.write(bytes([delimiter]).join(fields))
        copied = end
    out.write(piece.data[copied:])


class _Forms:
    """Whether each value of some columns stands in quotes in a file."""

    def __init__(self, source: Path, dialect: Dialect, columns: Sequence[int]) -> None:
        self.delimiter = dialect.delimiter
        self.columns = np.array(columns, dtype=np.int64)
        self._numbers: dict[int, tuple[Counter[str | None], Counter[str | None]]] = {c: (Counter(), Counter()) for c in columns}
        for piece in read_records(source, dialect):
            for column, texts, is_quoted in self._read(piece):
                for counter, chosen in zip(self._numbers[column], (~is_quoted, is_quoted), strict=True):
                    for found in pc.value_counts(texts.filter(pa.array(chosen))).to_pylist():
                        counter[found["values"]] += found["counts"]
        # Values of which some records have the rarer form.
        self._unusual: dict[int, dict[bool, list[str | None]]] = {}
        for column, (bare, quoted) in self._numbers.items():
            mixed = [text for text in bare if text in quoted]
            if mixed:
                self._unusual[column] = {
                    form: [text for text in mixed if self.is_quoted(column, text) != form] for form in (False, True)
                }

    def _read(self, piece: Records) -> list[tuple[int, pa.Array, NDArray[np.bool_]]]:
        """Each column of a piece: its texts, and which of them stand in quotes."""
        if not len(piece.starts):
            return []
        spans = fields_of(piece, self.delimiter, self.columns)
        # A field at the very end of a piece may be empty, and then has no first byte.
        data = np.frombuffer(piece.data + b"\n", dtype=np.uint8)
        texts = texts_of(piece, self.delimiter, self.columns)
        return [
            (int(c), texts[k], (data[spans[k, :, 0]] == _QUOTE) & (spans[k, :, 1] > spans[k, :, 0]))
            for k, c in enumerate(self.columns)
        ]

    def is_quoted(self, column: int, value: str | None) -> bool:
        """Whether a value usually stands in quotes."""
        bare, quoted = (numbers[value] for numbers in self._numbers[column])
        if not bare and not quoted:
            bare, quoted = (sum(numbers.values()) for numbers in self._numbers[column])
        return quoted > bare

    def field(self, column: int, value: str | None) -> bytes:
        """The bytes of a value as it usually stands in the file."""
        return field_bytes(value, self.delimiter, is_quoted=self.is_quoted(column, value))

    def unusual(self, piece: Records) -> dict[int, dict[int, str | None]]:
        """Records of a piece in which a value has the rarer form, with the value."""
        found: dict[int, dict[int, str | None]] = {}
        for column, texts, is_quoted in self._read(piece) if self._unusual else ():
            for form, values in self._unusual.get(column, {}).items():
                is_rarer = pc.is_in(texts, value_set=pa.array(values, pa.string())).to_numpy(zero_copy_only=False)
                for record in np.flatnonzero(is_rarer & (is_quoted == form)).tolist():
                    found.setdefault(record, {})[column] = texts[record].as_py()
        return found
