"""Where in a Stata file is a value, and which bytes represent it?

In every release since Stata 8 the records are rows of equal width. A changed value is written over the old one in a
copy of the file, so that everything else stays byte for byte the same: types, labels, notes and formats. The layouts
are those of ``help dta`` for releases 113 to 119.
"""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rarecell.engine.output import atomic_path
from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.edges import Level


@dataclass(frozen=True)
class StataColumn:
    """The place of a column in a row; ``code`` is a struct code, or ``s`` for text of fixed width."""

    offset: int
    width: int
    code: str


@dataclass(frozen=True)
class StataLayout:
    """Where the rows of a file begin, and how they are divided."""

    byte_order: str
    data_offset: int
    row_width: int
    columns: dict[str, StataColumn]
    encoding: str


# For each numeric type, the bits of the first missing value, '.', and the step to '.a', '.b', ….
_MISSING_BITS = {
    "b": (101, 1),
    "h": (32_741, 1),
    "i": (2_147_483_621, 1),
    "f": (0x7F00_0000, 0x800),
    "d": (0x7FE0_0000_0000_0000, 0x100_0000_0000),
}
_SAME_WIDTH = {"b": "B", "h": "H", "i": "I", "f": "I", "d": "Q"}
_OLD_TYPES = {251: "b", 252: "h", 253: "i", 254: "f", 255: "d"}
_NEW_TYPES = {65_530: "b", 65_529: "h", 65_528: "i", 65_527: "f", 65_526: "d"}


def write_changed(
    path: Path, source: Path, rows: NDArray[np.int64], columns: Mapping[str, Sequence[Level]], *, n_rows: int
) -> None:
    """Copy a Stata file with new values in some records. The text ``.a`` in a numeric column is that missing value."""
    layout = read_layout(source)
    with atomic_path(path) as temporary:
        shutil.copyfile(source, temporary)
        for name in columns:
            if layout.columns[name].code == "s":
                _clear_padding(temporary, layout, layout.columns[name], n_rows)
        with open(temporary, "r+b") as stream:
            for name, values in columns.items():
                column = layout.columns[name]
                for row, value in zip(rows.tolist(), values, strict=True):
                    stream.seek(layout.data_offset + row * layout.row_width + column.offset)
                    stream.write(encoded(value, column, layout, name))


def _clear_padding(path: Path, layout: StataLayout, column: StataColumn, n_rows: int) -> None:
    """Zero the bytes after the end of each text; leftovers there would tell unchanged records from changed ones."""
    if n_rows == 0:
        return
    rows = np.memmap(path, dtype=np.uint8, mode="r+", offset=layout.data_offset, shape=(n_rows, layout.row_width))
    for first in range(0, n_rows, 1 << 18):
        texts = rows[first : first + (1 << 18), column.offset : column.offset + column.width]
        is_behind_end = np.logical_or.accumulate(texts == 0, axis=1)
        if (texts[is_behind_end] != 0).any():
            texts[is_behind_end] = 0
    rows.flush()


def encoded(value: Level, column: StataColumn, layout: StataLayout, name: str) -> bytes:
    """Encode a value as bytes."""
    if column.code == "L":
        raise BadInput(
            f"Column '{name}' holds long texts (strL), which cannot be exchanged. Make it a text of fixed width, or no key."
        )
    if column.code == "s":
        text = ("" if value is None else str(value)).encode(layout.encoding)
        if len(text) > column.width:
            raise BadInput(f"A text of {len(text)} bytes does not fit column '{name}' of width {column.width}.")
        return text.ljust(column.width, b"\0")
    letter = value.removeprefix(".") if isinstance(value, str) else ""
    if value is None or (len(letter) == 1 and letter.isalpha()):
        first, step = _MISSING_BITS[column.code]
        kind = ord(letter.lower()) - ord("a") + 1 if letter else 0
        return struct.pack(layout.byte_order + _SAME_WIDTH[column.code], first + kind * step)
    number = float(value)
    return struct.pack(layout.byte_order + column.code, number if column.code in "fd" else int(number))


def read_layout(path: Path) -> StataLayout:
    """Find the rows of a Stata file."""
    with open(path, "rb") as stream:
        try:
            return _new_layout(stream) if stream.read(11) == b"<stata_dta>" else _old_layout(stream)
        except (struct.error, ValueError, IndexError):
            raise BadInput(f"{path} is damaged, or written by a Stata before 8. Save it anew in a recent Stata.") from None


def _old_layout(stream: BinaryIO) -> StataLayout:
    """Releases 113 to 115."""
    stream.seek(0)
    release, order_mark = struct.unpack("BB", stream.read(2))
    if release not in (113, 114, 115):
        raise ValueError("release")
    order = ">" if order_mark == 1 else "<"
    stream.seek(4)
    n_columns, _n_rows = struct.unpack(order + "Hi", stream.read(6))
    stream.seek(109)
    types = list(stream.read(n_columns))
    names = [_text(stream.read(33), "latin-1") for _ in range(n_columns)]
    n_format_bytes = 12 if release == 113 else 49
    stream.seek(2 * (n_columns + 1) + n_columns * (n_format_bytes + 33 + 81), 1)
    # Expansion fields: each has a type byte and a length; a pair of zeros ends them.
    while True:
        kind, length = struct.unpack(order + "Bi", stream.read(5))
        if kind == 0 and length == 0:
            break
        stream.seek(length, 1)
    places = [("s", kind) if kind <= 244 else (_OLD_TYPES[kind], struct.calcsize("=" + _OLD_TYPES[kind])) for kind in types]
    return _layout(order, stream.tell(), names, places, "latin-1")


def _new_layout(stream: BinaryIO) -> StataLayout:
    """Releases 117 to 119, which have a map of the parts of the file."""
    stream.seek(0)
    head = stream.read(4096)
    release = int(_between(head, b"release"))
    order = ">" if _between(head, b"byteorder") == b"MSF" else "<"
    n_columns = struct.unpack(order + ("I" if release >= 119 else "H"), _between(head, b"K"))[0]
    places_in_file = struct.unpack(order + "14q", head[head.index(b"<map>") + 5 :][:112])
    encoding = "latin-1" if release == 117 else "utf-8"

    stream.seek(places_in_file[2] + len(b"<variable_types>"))
    types = struct.unpack(f"{order}{n_columns}H", stream.read(2 * n_columns))
    stream.seek(places_in_file[3] + len(b"<varnames>"))
    width = 33 if release == 117 else 129
    names = [_text(stream.read(width), encoding) for _ in range(n_columns)]
    places = [
        ("s", kind)
        if kind <= 2045
        else ("L", 8)
        if kind == 32_768
        else (_NEW_TYPES[kind], struct.calcsize("=" + _NEW_TYPES[kind]))
        for kind in types
    ]
    return _layout(order, places_in_file[9] + len(b"<data>"), names, places, encoding)


def _layout(order: str, data_offset: int, names: Sequence[str], places: Sequence[tuple[str, int]], encoding: str) -> StataLayout:
    columns, offset = {}, 0
    for name, (code, width) in zip(names, places, strict=True):
        columns[name] = StataColumn(offset, width, code)
        offset += width
    return StataLayout(order, data_offset, offset, columns, encoding)


def _between(head: bytes, tag: bytes) -> bytes:
    found = re.search(b"<" + tag + b">(.*?)</" + tag + b">", head, re.DOTALL)
    if found is None:
        raise ValueError(tag)
    return found.group(1)


def _text(padded: bytes, encoding: str) -> str:
    return padded.split(b"\0", 1)[0].decode(encoding)
