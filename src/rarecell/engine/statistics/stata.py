"""Where in a Stata file is a value, and which bytes represent it?

In every release since Stata 8 the records are rows of equal width. A changed value is written over the old one in a
copy of the file, so that everything else stays byte for byte the same: types, labels, notes and formats. The layouts
are those of ``help dta`` for releases 113 to 119.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from rarecell.engine.changes import PLAIN_SIGNS
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
_OLD_ENCODING = "windows-1252"
"""The encoding of text in releases up to 117, as readers take it."""

_OLD_TYPES = {251: "b", 252: "h", 253: "i", 254: "f", 255: "d"}
_NEW_TYPES = {65_530: "b", 65_529: "h", 65_528: "i", 65_527: "f", 65_526: "d"}


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


def read_layout(path: Path, encoding: str | None = None) -> StataLayout:
    """Find the rows of a Stata file; ``encoding`` is that of its text where it is not the one of its release."""
    with open(path, "rb") as stream:
        try:
            return _new_layout(stream, encoding) if stream.read(11) == b"<stata_dta>" else _old_layout(stream, encoding)
        except (struct.error, ValueError, IndexError):
            raise BadInput(f"{path} is damaged, or written by a Stata before 8. Save it anew in a recent Stata.") from None


def _old_layout(stream: BinaryIO, encoding: str | None) -> StataLayout:
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
    names = [_text(stream.read(33), encoding or _OLD_ENCODING) for _ in range(n_columns)]
    n_format_bytes = 12 if release == 113 else 49
    stream.seek(2 * (n_columns + 1) + n_columns * (n_format_bytes + 33 + 81), 1)
    # Expansion fields: each has a type byte and a length; a pair of zeros ends them.
    while True:
        kind, length = struct.unpack(order + "Bi", stream.read(5))
        if kind == 0 and length == 0:
            break
        stream.seek(length, 1)
    places = [("s", kind) if kind <= 244 else (_OLD_TYPES[kind], struct.calcsize("=" + _OLD_TYPES[kind])) for kind in types]
    return _layout(order, stream.tell(), names, places, encoding or _OLD_ENCODING)


def _new_layout(stream: BinaryIO, encoding: str | None) -> StataLayout:
    """Releases 117 to 119, which have a map of the parts of the file."""
    stream.seek(0)
    head = stream.read(4096)
    release = int(_between(head, b"release"))
    order = ">" if _between(head, b"byteorder") == b"MSF" else "<"
    n_columns = struct.unpack(order + ("I" if release >= 119 else "H"), _between(head, b"K"))[0]
    places_in_file = struct.unpack(order + "14q", head[head.index(b"<map>") + 5 :][:112])
    encoding = encoding or (_OLD_ENCODING if release == 117 else "utf-8")

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
    match = re.search(b"<" + tag + b">(.*?)</" + tag + b">", head, re.DOTALL)
    if match is None:
        raise ValueError(tag)
    return match.group(1)


def _text(padded: bytes, encoding: str) -> str:
    return padded.split(b"\0", 1)[0].decode(encoding)


# ---------------------------------------------------------------------- writing
#
# Only what changes is written anew: the bytes of changed values, the types of columns that get other values, the tables of
# labels of recoded columns. Without dropped columns everything before the rows and behind them is copied.


_ROWS_AT_A_TIME = 1 << 16
_MOST_BYTES_OF_NAME = 32
WHOLE_NUMBERS = {"b": (-127, 100), "h": (-32_767, 32_740), "i": (-2_147_483_647, 2_147_483_620)}
"""The smallest and largest number that each of the short types holds."""

_FORMAT = b"%9.0g"


@dataclass(frozen=True)
class _Sections:
    """Where the parts of a file that describe its columns are, and how wide their entries are.

    ``places`` is the map in releases from 117 on, and empty in older ones.
    """

    release: int
    types: tuple[int, int]
    names: tuple[int, int]
    sorted_by: int
    formats: tuple[int, int]
    label_names: tuple[int, int]
    variable_labels: tuple[int, int]
    places: tuple[int, ...]

    @property
    def longest_text(self) -> int:
        return 2045 if self.places else 244


class StataChange(Protocol):
    """What is written in a column."""

    @property
    def name(self) -> str:
        """The column."""

    def column(self, layout: StataLayout, longest_text: int) -> StataColumn:
        """The type and width that the column gets."""

    def rows(self, first: int, old: NDArray[np.uint8], column: StataColumn, layout: StataLayout) -> NDArray[np.uint8]:
        """The bytes of some records from ``first`` on; ``old`` are those that were read."""

    @property
    def value_labels(self) -> Mapping[int, str] | None:
        """Labels of the new numbers; None leaves the labels of the column as they are."""


@dataclass(frozen=True, eq=False)
class StataValues:
    """New values in some records of a column, which keeps its type. The text ``.a`` in a numeric column is that missing value."""

    name: str
    at: NDArray[np.int64]
    values: Sequence[Level]

    value_labels: Mapping[int, str] | None = None

    def column(self, layout: StataLayout, longest_text: int) -> StataColumn:
        return layout.columns[self.name]

    def rows(self, first: int, old: NDArray[np.uint8], column: StataColumn, layout: StataLayout) -> NDArray[np.uint8]:
        new = old.copy()
        if column.code == "s":
            # Leftovers behind the end of a text would tell unchanged records from changed ones.
            new[np.logical_or.accumulate(new == 0, axis=1)] = 0
        low, high = np.searchsorted(self.at, [first, first + len(old)])
        for position in range(low, high):
            value = encoded(self.values[position], column, layout, self.name)
            new[self.at[position] - first] = np.frombuffer(value, dtype=np.uint8)
        return new


@dataclass(frozen=True, eq=False)
class StataRecode:
    """The levels of a column: text or, for a numeric column, whole numbers and their labels.

    ``level_of_row`` is −1 where a value is missing.
    """

    name: str
    level_of_row: NDArray[np.int32]
    texts: tuple[str, ...]
    codes: tuple[int, ...]
    value_labels: Mapping[int, str] | None

    def column(self, layout: StataLayout, longest_text: int) -> StataColumn:
        column = layout.columns[self.name]
        _refuse_long(self.name, column, "recoded")
        return replace(column, width=_width(self.name, self.texts, layout, longest_text)) if column.code == "s" else column

    def rows(self, first: int, old: NDArray[np.uint8], column: StataColumn, layout: StataLayout) -> NDArray[np.uint8]:
        if column.code == "s":
            pieces = [text.ljust(column.width, b"\0") for text in (*(_bytes_of(text, layout) for text in self.texts), b"")]
        else:
            pieces = [encoded(value, column, layout, self.name) for value in (*self.codes, None)]
        table = np.frombuffer(b"".join(pieces), dtype=np.uint8).reshape(len(pieces), column.width)
        return np.asarray(table[self.level_of_row[first : first + len(old)]])


@dataclass(frozen=True, eq=False)
class StataTreated:
    """A new value in every record. A column keeps its type where that holds the values, and its labels as long as it has numbers."""

    name: str
    values: Sequence[Level]

    @property
    def value_labels(self) -> Mapping[int, str] | None:
        return {} if self._is_text else None

    @cached_property
    def _is_text(self) -> bool:
        return any(isinstance(value, str) for value in self.values)

    def column(self, layout: StataLayout, longest_text: int) -> StataColumn:
        column = layout.columns[self.name]
        _refuse_long(self.name, column, "changed")
        if self._is_text:
            texts = {str(value) for value in self.values if value is not None}
            return replace(column, code="s", width=_width(self.name, sorted(texts), layout, longest_text))
        numbers = [value for value in self.values if value is not None]
        low, high = WHOLE_NUMBERS.get(column.code, (0, -1))
        if column.code == "d" or all(float(value).is_integer() and low <= value <= high for value in numbers):
            return column if column.code not in "sL" else replace(column, code="d", width=8)
        if column.code == "f" and all(float(np.float32(value)) == value for value in numbers):
            return column
        return replace(column, code="d", width=8)

    def rows(self, first: int, old: NDArray[np.uint8], column: StataColumn, layout: StataLayout) -> NDArray[np.uint8]:
        pieces = [encoded(value, column, layout, self.name) for value in self.values[first : first + len(old)]]
        return np.frombuffer(b"".join(pieces), dtype=np.uint8).reshape(len(pieces), column.width)


def write_stata(
    path: Path,
    source: Path,
    n_rows: int,
    changes: Sequence[StataChange],
    *,
    dropped: frozenset[str] = frozenset(),
    order: NDArray[np.int64] | None = None,
    encoding: str | None = None,
) -> None:
    """Copy a Stata file with changed columns, without dropped ones, and in a new order of the records."""
    layout = read_layout(source, encoding)
    _refuse_long_texts_that_move(layout, source, dropped, order)
    with open(source, "rb") as stream:
        head = bytearray(stream.read(layout.data_offset))
        stream.seek(layout.data_offset + n_rows * layout.row_width)
        tail = stream.read()
    sections = _sections(head, layout)
    old_head = bytes(head)
    columns = {change.name: change.column(layout, sections.longest_text) for change in changes}
    for change in changes:
        _describe(head, change, columns[change.name], layout, sections)
    if order is not None or any(not isinstance(change, StataValues) for change in changes):
        # The records may no longer be in the sort order that the file declares.
        head[sections.sorted_by : sections.sorted_by + 2] = b"\0\0"
    tables = b"".join(_label_table(change, layout, sections) for change in changes if change.value_labels)
    if dropped:
        head = _without_columns(head, sections, layout, dropped)
    width = sum(columns.get(name, column).width for name, column in layout.columns.items() if name not in dropped)
    strls, labels = _after_rows(tail, old_head, sections, layout, dropped, n_rows)
    parts = (b"</data>" + strls, labels(tables)) if sections.places else (b"", labels(tables))
    with atomic_path(path) as temporary:
        with open(temporary, "wb") as out:
            out.write(_with_map(head, sections, layout, n_rows * width, parts))
            if order is not None:
                out.seek(n_rows * width, 1)
            else:
                for block in _changed_rows(source, layout, n_rows, changes, columns, dropped):
                    out.write(block.tobytes())
            out.write(b"".join(parts) + (b"</stata_dta>" if sections.places else b""))
        if order is not None and n_rows:
            _write_in_order(temporary, len(head), width, order, _changed_rows(source, layout, n_rows, changes, columns, dropped))


def _changed_rows(
    source: Path,
    layout: StataLayout,
    n_rows: int,
    changes: Sequence[StataChange],
    columns: Mapping[str, StataColumn],
    dropped: frozenset[str],
) -> Iterator[NDArray[np.uint8]]:
    of_column = {change.name: change for change in changes}
    with open(source, "rb") as stream:
        stream.seek(layout.data_offset)
        for first in range(0, n_rows, _ROWS_AT_A_TIME):
            n_here = min(_ROWS_AT_A_TIME, n_rows - first)
            rows = np.frombuffer(stream.read(n_here * layout.row_width), dtype=np.uint8).reshape(n_here, layout.row_width)
            parts = []
            for name, column in layout.columns.items():
                if name not in dropped:
                    old = rows[:, column.offset : column.offset + column.width]
                    change = of_column.get(name)
                    parts.append(old if change is None else change.rows(first, old, columns[name], layout))
            yield np.concatenate(parts, axis=1)


def _write_in_order(path: Path, offset: int, width: int, order: NDArray[np.int64], blocks: Iterable[NDArray[np.uint8]]) -> None:
    target = np.empty(len(order), dtype=np.int64)
    target[order] = np.arange(len(order))
    rows = np.memmap(path, dtype=np.uint8, mode="r+", offset=offset, shape=(len(order), width))
    first = 0
    for block in blocks:
        rows[target[first : first + len(block)]] = block
        first += len(block)
    rows.flush()


def _refuse_long(name: str, column: StataColumn, what: str) -> None:
    if column.code == "L":
        raise BadInput(
            f"Column '{name}' is long text (strL), which cannot be written {what}. Make it a column of text of fixed length in Stata "
            "(recast str), or leave it as it is."
        )


def _refuse_long_texts_that_move(
    layout: StataLayout, source: Path, dropped: frozenset[str], order: NDArray[np.int64] | None
) -> None:
    """A long text is stored under the numbers of its column and of its record, which must then stay as they are."""
    for position, (name, column) in enumerate(layout.columns.items()):
        moves = order is not None or any(other in dropped for other in list(layout.columns)[:position])
        if column.code == "L" and name not in dropped and moves:
            raise BadInput(
                f"Column '{name}' of {source} is long text (strL), which Stata stores under the number of its record. Drop it, or make it "
                "a column of text of fixed length in Stata (recast str)."
            )


def _width(name: str, texts: Sequence[str], layout: StataLayout, longest_text: int) -> int:
    width = max((len(_bytes_of(text, layout)) for text in texts), default=1)
    if width > longest_text:
        raise BadInput(f"A level of key '{name}' is longer than Stata allows. Give the groups shorter names.")
    return max(width, 1)


def _bytes_of(text: str, layout: StataLayout) -> bytes:
    try:
        return text.encode(layout.encoding)
    except UnicodeEncodeError:
        pass
    try:
        # The encoding of older releases has no dash and no sign for "at most".
        return text.translate(PLAIN_SIGNS).encode(layout.encoding)
    except UnicodeEncodeError:
        raise BadInput(
            f"The level '{text}' has a letter that this release of a Stata file cannot hold. Save the file in Stata 14 or later."
        ) from None


# ---------------------------------------------------------------------- what the file says about its columns


def _sections(head: bytes | bytearray, layout: StataLayout) -> _Sections:
    n = len(layout.columns)
    if not head.startswith(b"<stata_dta>"):
        release, width = head[0], 12 if head[0] == 113 else 49
        names = 109 + n
        sorted_by = names + 33 * n
        formats = sorted_by + 2 * (n + 1)
        labels = formats + width * n
        return _Sections(release, (109, 1), (names, 33), sorted_by, (formats, width), (labels, 33), (labels + 33 * n, 81), ())
    release = int(head[head.index(b"<release>") + 9 :][:3])
    map_at = head.index(b"<map>") + 5
    places = struct.unpack(layout.byte_order + "14q", head[map_at : map_at + 112])
    name_width, format_width, label_width = (33, 49, 81) if release == 117 else (129, 57, 321)
    return _Sections(
        release,
        (places[2] + len(b"<variable_types>"), 2),
        (places[3] + len(b"<varnames>"), name_width),
        places[4] + len(b"<sortlist>"),
        (places[5] + len(b"<formats>"), format_width),
        (places[6] + len(b"<value_label_names>"), name_width),
        (places[7] + len(b"<variable_labels>"), label_width),
        places,
    )


def _describe(head: bytearray, change: StataChange, column: StataColumn, layout: StataLayout, sections: _Sections) -> None:
    """Set the type, format and label table of a column."""
    position, before = list(layout.columns).index(change.name), layout.columns[change.name]

    def put(section: tuple[int, int], value: bytes) -> None:
        start = section[0] + position * section[1]
        head[start : start + section[1]] = value.ljust(section[1], b"\0")

    has_new_type = (column.code, column.width) != (before.code, before.width)
    if change.value_labels is None and not has_new_type:
        return
    types = _NEW_TYPES if sections.places else _OLD_TYPES
    number = column.width if column.code == "s" else next(kind for kind, code in types.items() if code == column.code)
    put(sections.types, struct.pack(layout.byte_order + ("H" if sections.places else "B"), number))
    put(sections.formats, f"%{min(column.width, 200)}s".encode() if column.code == "s" else _FORMAT)
    if change.value_labels is not None:
        put(sections.label_names, _label_name(change.name, layout) if column.code != "s" and change.value_labels else b"")


def _label_name(name: str, layout: StataLayout) -> bytes:
    """A name for a table of labels: that of its column, with an ending that tells it from tables already in the file."""
    return name.encode(layout.encoding)[: _MOST_BYTES_OF_NAME - 3] + b"_rc"


def _label_table(change: StataChange, layout: StataLayout, sections: _Sections) -> bytes:
    if layout.columns[change.name].code in "sL" or change.value_labels is None:
        return b""
    order = layout.byte_order
    codes = sorted(change.value_labels)
    texts = [_bytes_of(change.value_labels[code], layout) + b"\0" for code in codes]
    starts = np.cumsum([0, *(len(text) for text in texts)])[: len(texts)]
    n = len(codes)
    body = struct.pack(f"{order}ii{n}i{n}i", n, sum(map(len, texts)), *starts.tolist(), *codes) + b"".join(texts)
    name = _label_name(change.name, layout).ljust(sections.label_names[1], b"\0")
    table = struct.pack(order + "i", len(body)) + name + b"\0\0\0" + body
    return b"<lbl>" + table + b"</lbl>" if sections.places else table


def _with_map(head: bytearray, sections: _Sections, layout: StataLayout, n_bytes: int, parts: tuple[bytes, bytes]) -> bytes:
    """The head with the places of everything that follows the rows, which may have become longer."""
    if sections.places:
        map_at = head.index(b"<map>") + 5
        places = list(struct.unpack(layout.byte_order + "14q", head[map_at : map_at + 112]))
        places[10] = len(head) + n_bytes + len(b"</data>")
        places[11] = places[10] + len(parts[0]) - len(b"</data>")
        places[12] = places[11] + len(parts[1])
        places[13] = places[12] + len(b"</stata_dta>")
        head[map_at : map_at + 112] = struct.pack(layout.byte_order + "14q", *places)
    return bytes(head)


def _after_rows(
    tail: bytes, head: bytes, sections: _Sections, layout: StataLayout, dropped: frozenset[str], n_rows: int
) -> tuple[bytes, Callable[[bytes], bytes]]:
    """Long texts, and a function that gives the tables of labels together with new ones."""
    unneeded = _unneeded_tables(head, sections, layout, dropped)
    if not sections.places:
        tables = tail if not unneeded else b"".join(table for name, table in _old_tables(tail, layout) if name not in unneeded)
        return b"", lambda new: tables + new
    end_of_rows = layout.data_offset + n_rows * layout.row_width
    strls, labels = (tail[sections.places[k] - end_of_rows : sections.places[k + 1] - end_of_rows] for k in (10, 11))
    if dropped:
        strls = _without_long_texts(strls, sections, layout, dropped)
    for name, table in _new_tables(labels, layout, sections) if unneeded else ():
        if name in unneeded:
            labels = labels.replace(table, b"")
    end = labels.rindex(b"</value_labels>")
    return strls, lambda new: labels[:end] + new + labels[end:]


# ---------------------------------------------------------------------- without some columns


def _without_columns(head: bytearray, sections: _Sections, layout: StataLayout, dropped: frozenset[str]) -> bytearray:
    """The head without anything that describes dropped columns, and without a declared sort order."""
    kept = [position for position, name in enumerate(layout.columns) if name not in dropped]
    order = layout.byte_order

    def cut(section: tuple[int, int]) -> bytes:
        start, width = section
        return b"".join(bytes(head[start + k * width : start + (k + 1) * width]) for k in kept)

    if not sections.places:
        head[4:6] = struct.pack(order + "H", len(kept))
        unsorted = b"\0" * (2 * (len(kept) + 1))
        described = cut(sections.types) + cut(sections.names) + unsorted + cut(sections.formats) + cut(sections.label_names)
        after = sections.variable_labels[0] + sections.variable_labels[1] * len(layout.columns)
        return head[:109] + described + cut(sections.variable_labels) + _old_notes(head[after:], layout, dropped)
    is_wide = sections.release >= 119
    at = head.index(b"<K>") + 3
    packed = struct.pack(order + ("I" if is_wide else "H"), len(kept))
    head[at : at + len(packed)] = packed
    unsorted = b"\0" * ((4 if is_wide else 2) * (len(kept) + 1))
    bodies = {
        2: (b"variable_types", cut(sections.types)),
        3: (b"varnames", cut(sections.names)),
        4: (b"sortlist", unsorted),
        5: (b"formats", cut(sections.formats)),
        6: (b"value_label_names", cut(sections.label_names)),
        7: (b"variable_labels", cut(sections.variable_labels)),
        8: (b"characteristics", _new_notes(head, sections, layout, dropped)),
    }
    places, new = list(sections.places), head[: sections.places[2]]
    for number, (tag, body) in bodies.items():
        places[number] = len(new)
        new += b"<" + tag + b">" + body + b"</" + tag + b">"
    places[9] = len(new)
    new += b"<data>"
    map_at = new.index(b"<map>") + 5
    new[map_at : map_at + 112] = struct.pack(order + "14q", *places)
    return new


def _old_notes(after: bytearray, layout: StataLayout, dropped: frozenset[str]) -> bytes:
    """Expansion fields of releases up to 115 that do not belong to dropped columns."""
    kept, at = b"", 0
    while True:
        kind, length = struct.unpack(layout.byte_order + "Bi", after[at : at + 5])
        body = bytes(after[at + 5 : at + 5 + length])
        if kind != 1 or _text(body[:33], layout.encoding) not in dropped:
            kept += bytes(after[at : at + 5]) + body
        at += 5 + length
        if kind == 0 and length == 0:
            return kept


def _new_notes(head: bytearray, sections: _Sections, layout: StataLayout, dropped: frozenset[str]) -> bytes:
    """Characteristics of releases from 117 on that do not belong to dropped columns."""
    at = sections.places[8] + len(b"<characteristics>")
    kept, width = b"", sections.names[1]
    while head[at : at + 4] == b"<ch>":
        (length,) = struct.unpack(layout.byte_order + "I", head[at + 4 : at + 8])
        end = at + 8 + length + len(b"</ch>")
        if _text(bytes(head[at + 8 : at + 8 + width]), layout.encoding) not in dropped:
            kept += bytes(head[at:end])
        at = end
    return kept


def _unneeded_tables(head: bytes, sections: _Sections, layout: StataLayout, dropped: frozenset[str]) -> set[str]:
    """Names of the label tables that only dropped columns use."""
    start, width = sections.label_names
    used = {
        name: _text(head[start + k * width : start + (k + 1) * width], layout.encoding) for k, name in enumerate(layout.columns)
    }
    return {used[name] for name in dropped} - {table for name, table in used.items() if name not in dropped} - {""}


def _old_tables(tail: bytes, layout: StataLayout) -> Iterator[tuple[str, bytes]]:
    at = 0
    while at + 40 <= len(tail):
        (length,) = struct.unpack(layout.byte_order + "i", tail[at : at + 4])
        end = at + 4 + 33 + 3 + length
        yield _text(tail[at + 4 : at + 37], layout.encoding), tail[at:end]
        at = end


def _new_tables(labels: bytes, layout: StataLayout, sections: _Sections) -> Iterator[tuple[str, bytes]]:
    at, width = len(b"<value_labels>"), sections.label_names[1]
    while labels[at : at + 5] == b"<lbl>":
        (length,) = struct.unpack(layout.byte_order + "i", labels[at + 5 : at + 9])
        end = at + 9 + width + 3 + length + len(b"</lbl>")
        yield _text(labels[at + 9 : at + 9 + width], layout.encoding), labels[at:end]
        at = end


def _without_long_texts(strls: bytes, sections: _Sections, layout: StataLayout, dropped: frozenset[str]) -> bytes:
    """The section of long texts without those of dropped columns."""
    gone = {position + 1 for position, name in enumerate(layout.columns) if name in dropped}
    at, kept, number_width = len(b"<strls>"), b"<strls>", 4 if sections.release == 117 else 8
    while strls[at : at + 3] == b"GSO":
        (column,) = struct.unpack(layout.byte_order + "I", strls[at + 3 : at + 7])
        length_at = at + 7 + number_width + 1
        (length,) = struct.unpack(layout.byte_order + "I", strls[length_at : length_at + 4])
        end = length_at + 4 + length
        if column not in gone:
            kept += strls[at:end]
        at = end
    return kept + strls[at:]
