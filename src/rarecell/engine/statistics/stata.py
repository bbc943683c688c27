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
from dataclasses import dataclass, replace
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


# How is a Stata file written with levels in place of values?
#
# A numeric column gets whole numbers with value labels, a text column the labels themselves. The rows are rebuilt because
# text may become longer; everything else is copied, with a table of labels added for each numeric column. The layouts are
# those of ``help dta`` for releases 113 to 119.


_ROWS_AT_A_TIME = 1 << 16
_MOST_BYTES_OF_NAME = 32
WHOLE_NUMBERS = {"b": (-127, 100), "h": (-32_767, 32_740), "i": (-2_147_483_647, 2_147_483_620)}
"""The smallest and largest number that each of the short types holds."""

_PLAIN_TEXT = str.maketrans({"–": "-", "≤": "<=", "≥": ">="})
_FORMAT = b"%9.0g"


@dataclass(frozen=True)
class _Sections:
    """Where the parts of a file that change with a column are, and how wide their entries are.

    ``places`` is the map in releases from 117 on, and empty in older ones.
    """

    release: int
    n_columns: int
    types: tuple[int, int]
    sorted_by: int
    formats: tuple[int, int]
    label_names: tuple[int, int]
    places: tuple[int, ...]
    map_at: int

    @property
    def longest_text(self) -> int:
        return 2045 if self.places else 244


@dataclass(frozen=True, eq=False)
class StataRecode:
    """What is written for the levels of a column: text or, for a numeric column, whole numbers and their labels.

    ``level_of_row`` is −1 where a value is missing.
    """

    name: str
    level_of_row: NDArray[np.int32]
    texts: tuple[str, ...]
    codes: tuple[int, ...]
    value_labels: Mapping[int, str]


def write_stata_levels(path: Path, source: Path, n_rows: int, recodes: list[StataRecode]) -> None:
    """Copy a Stata file with the levels of some columns in place of their values."""
    layout = read_layout(source)
    data_end = layout.data_offset + n_rows * layout.row_width
    with open(source, "rb") as stream:
        sections = _sections(stream, layout)
        stream.seek(0)
        head = bytearray(stream.read(layout.data_offset))
        stream.seek(data_end)
        tail = stream.read()
    columns = {one.name: _new_column(one, layout, sections, source) for one in recodes}
    tables = b"".join(_label_table(one, layout, sections) for one in recodes if not _is_text(layout, one.name))
    for one in recodes:
        _describe(head, list(layout.columns).index(one.name), one.name, columns[one.name], layout, sections)
    # The records may no longer be in the sort order that the file declares.
    head[sections.sorted_by : sections.sorted_by + 2] = b"\0\0"
    n_more = sum(column.width - layout.columns[name].width for name, column in columns.items()) * n_rows
    with atomic_path(path) as temporary, open(temporary, "wb") as out:
        out.write(_with_map(head, sections, layout, n_more, len(tables)))
        _write_rows(out, source, layout, n_rows, recodes, columns)
        out.write(_with_tables(tail, tables, sections))


def _is_text(layout: StataLayout, name: str) -> bool:
    return layout.columns[name].code in "sL"


def _new_column(one: StataRecode, layout: StataLayout, sections: _Sections, source: Path) -> StataColumn:
    column = layout.columns[one.name]
    if column.code == "L":
        raise BadInput(
            f"Column '{one.name}' of {source} is long text (strL), which cannot be written recoded. Make it a column of text of fixed "
            "length in Stata (recast str), or leave it out of the recoding."
        )
    if column.code != "s":
        return column
    width = max((len(_bytes_of(text, layout)) for text in one.texts), default=1)
    if width > sections.longest_text:
        raise BadInput(f"A level of key '{one.name}' is longer than Stata allows. Give the groups shorter names.")
    return replace(column, width=max(width, 1))


def _bytes_of(text: str, layout: StataLayout) -> bytes:
    try:
        return text.encode(layout.encoding)
    except UnicodeEncodeError:
        pass
    try:
        # The encoding of older releases has no dash and no sign for "at most".
        return text.translate(_PLAIN_TEXT).encode(layout.encoding)
    except UnicodeEncodeError:
        raise BadInput(
            f"The level '{text}' has a letter that this release of a Stata file cannot hold. Save the file in Stata 14 or later."
        ) from None


# ---------------------------------------------------------------------- rows


def _write_rows(
    out: BinaryIO,
    source: Path,
    layout: StataLayout,
    n_rows: int,
    recodes: list[StataRecode],
    columns: Mapping[str, StataColumn],
) -> None:
    values = {one.name: _values(one, columns[one.name], layout) for one in recodes}
    of_rows = {one.name: one.level_of_row for one in recodes}
    with open(source, "rb") as stream:
        stream.seek(layout.data_offset)
        for first in range(0, n_rows, _ROWS_AT_A_TIME):
            n_here = min(_ROWS_AT_A_TIME, n_rows - first)
            rows = np.frombuffer(stream.read(n_here * layout.row_width), dtype=np.uint8).reshape(n_here, layout.row_width)
            parts = [
                values[name][of_rows[name][first : first + n_here]]
                if name in values
                else rows[:, column.offset : column.offset + column.width]
                for name, column in layout.columns.items()
            ]
            out.write(np.concatenate(parts, axis=1).tobytes())


def _values(one: StataRecode, column: StataColumn, layout: StataLayout) -> NDArray[np.uint8]:
    """The bytes of each level, with those of a missing value last."""
    if column.code == "s":
        pieces = [text.ljust(column.width, b"\0") for text in (*(_bytes_of(text, layout) for text in one.texts), b"")]
    else:
        pieces = [encoded(value, column, layout, one.name) for value in (*one.codes, None)]
    return np.frombuffer(b"".join(pieces), dtype=np.uint8).reshape(len(pieces), column.width)


# ---------------------------------------------------------------------- what the file says about its columns


def _sections(stream: BinaryIO, layout: StataLayout) -> _Sections:
    stream.seek(0)
    head = stream.read(layout.data_offset)
    n = len(layout.columns)
    if not head.startswith(b"<stata_dta>"):
        release, width = head[0], 12 if head[0] == 113 else 49
        names = 109 + n
        sorted_by = names + 33 * n
        formats = sorted_by + 2 * (n + 1)
        return _Sections(release, n, (109, 1), sorted_by, (formats, width), (formats + width * n, 33), (), 0)
    release = int(head[head.index(b"<release>") + 9 :][:3])
    map_at = head.index(b"<map>") + 5
    places = struct.unpack(layout.byte_order + "14q", head[map_at : map_at + 112])
    name_width, format_width = (33, 49) if release == 117 else (129, 57)
    return _Sections(
        release,
        n,
        (places[2] + len(b"<variable_types>"), 2),
        places[4] + len(b"<sortlist>"),
        (places[5] + len(b"<formats>"), format_width),
        (places[6] + len(b"<value_label_names>"), name_width),
        places,
        map_at,
    )


def _describe(head: bytearray, position: int, name: str, column: StataColumn, layout: StataLayout, sections: _Sections) -> None:
    """Set the type, format and label table of a column."""

    def put(section: tuple[int, int], value: bytes) -> None:
        start = section[0] + position * section[1]
        head[start : start + section[1]] = value.ljust(section[1], b"\0")

    if column.code == "s":
        put(sections.types, struct.pack(layout.byte_order + ("H" if sections.places else "B"), column.width))
        put(sections.formats, f"%{min(column.width, 200)}s".encode())
    else:
        put(sections.formats, _FORMAT)
        put(sections.label_names, _label_name(name, layout))


def _label_name(name: str, layout: StataLayout) -> bytes:
    """A name for a table of labels: that of its column, with an ending that tells it from tables already in the file."""
    return name.encode(layout.encoding)[: _MOST_BYTES_OF_NAME - 3] + b"_rc"


def _label_table(one: StataRecode, layout: StataLayout, sections: _Sections) -> bytes:
    order = layout.byte_order
    codes = sorted(one.value_labels)
    texts = [_bytes_of(one.value_labels[code], layout) + b"\0" for code in codes]
    starts = np.cumsum([0, *(len(text) for text in texts)])[: len(texts)]
    n = len(codes)
    body = struct.pack(f"{order}ii{n}i{n}i", n, sum(map(len, texts)), *starts.tolist(), *codes) + b"".join(texts)
    name = _label_name(one.name, layout).ljust(sections.label_names[1], b"\0")
    table = struct.pack(order + "i", len(body)) + name + b"\0\0\0" + body
    return b"<lbl>" + table + b"</lbl>" if sections.places else table


def _with_map(head: bytearray, sections: _Sections, layout: StataLayout, n_more: int, n_labels: int) -> bytes:
    """The head with new places for what follows the rows, which may have become longer."""
    if sections.places:
        places = list(sections.places)
        for section in (10, 11, 12, 13):
            places[section] += n_more + (n_labels if section >= 12 else 0)
        head[sections.map_at : sections.map_at + 112] = struct.pack(layout.byte_order + "14q", *places)
    return bytes(head)


def _with_tables(tail: bytes, tables: bytes, sections: _Sections) -> bytes:
    if not sections.places:
        return tail + tables
    end = tail.rindex(b"</value_labels>")
    return tail[:end] + tables + tail[end:]
