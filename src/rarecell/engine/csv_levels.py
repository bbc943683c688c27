"""How is delimited text written with the levels of some columns in place of their values?

Everything except the recoded fields is copied byte by byte: other fields, quotes, line ends and empty lines.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rarecell.engine import csv
from rarecell.engine.compressed import writing
from rarecell.engine.output import atomic_path
from rarecell.engine.written_levels import Recodes, WrittenLevels


def write_levels(path: Path, source: Path, dialect: csv.Dialect, recodes: Recodes) -> None:
    """Copy a file with levels in place of values; a missing level is an empty field."""
    names = [name for name in dialect.names if name in recodes]
    wanted = np.array([dialect.names.index(name) for name in names], dtype=np.int64)
    texts, first, first_text = _encoded_labels([recodes[name] for name in names], dialect.delimiter)
    with atomic_path(path) as temporary, open(temporary, "wb") as raw, writing(raw, dialect.is_gzipped) as out:
        out.write(csv.header_of(source, dialect))
        for piece in csv.read_records(source, dialect):
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
            pieces += [csv.field_bytes(label, delimiter, is_quoted=is_quoted) for is_quoted in (False, True)]
    first = np.cumsum([0, *(len(piece) for piece in pieces)])
    return np.frombuffer(b"".join(pieces), dtype=np.uint8), first, first_text


def _recoded(
    piece: csv.Records,
    dialect: csv.Dialect,
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
        zip(columns, csv.texts_of(piece, dialect.delimiter, wanted), first_text, strict=True)
    ):
        levels = written.levels_of(array)
        stays = -1 if written.only_blanks else levels + start
        chosen[row] = np.where(levels < 0, start + len(written.levels), stays)
    longest = int((first[1:] - first[:-1]).max(initial=0))
    out = np.empty(len(data) + chosen.size * longest, dtype=np.uint8)
    return out[: splice_fields(data, fields, chosen, texts, first, out)].tobytes()
