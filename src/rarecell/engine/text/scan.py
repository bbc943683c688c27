"""What is in a delimited text file, byte by byte?

The delimiter and the header are found at the beginning of the file. Each time the file is read, every record is checked
for the right number of fields, closed quotes, UTF-8 text and no zero bytes, so that a damaged file is refused with a
line number instead of being counted wrongly. Columns are read as text by the same rules;
:mod:`rarecell.engine.text.write` writes the file back.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from gzip import GzipFile
from io import FileIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.errors import BadInput

_CHUNK = 1 << 24
_LONGEST_RECORD = 1 << 26
_HEAD = 1 << 20
_DELIMITERS = b",;\t|"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_UTF16_HEAD = 16
_CODE_PAGES = ("windows-1252", "cp850", "mac-roman", "latin-1")
"""Code pages that are told apart, the likeliest first."""

_LETTERS = "äöüßàáâãåæçéèêëíìîïñóòôõøúùûýœ"
"""Letters of the languages that these code pages are for."""

_NOT_FOR_FILES = ("punycode", "idna", "unicode-escape", "raw-unicode-escape", "undefined")
"""Encodings of Python for names and for its own texts."""

_NUMBER = re.compile(r"-?[0-9]+([.,][0-9]+)?")


@dataclass(frozen=True)
class Dialect:
    """How a delimited text file is written.

    ``header_bytes`` is everything before the first record: a byte order mark, a ``sep=`` line and the column names.
    """

    names: tuple[str, ...]
    delimiter: int
    newline: int
    header_bytes: int
    header_lines: int
    is_gzipped: bool

    @property
    def decimal_mark(self) -> str:
        """A comma that does not separate fields may be the decimal mark, as in spreadsheets of many countries."""
        return "," if self.delimiter == ord(";") else "."


class Records(NamedTuple):
    """A piece of a file that holds whole records, and where they lie in it."""

    data: bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


# ---------------------------------------------------------------------- reading


def encoding_of(path: Path, given: str | None = None) -> str | None:
    """The encoding of a text file that is not UTF-8, by Python's name; None for UTF-8.

    Only UTF-16 can be recognised with certainty, by its mark or by a first line in which every second byte is zero. The same
    bytes mean different letters in different code pages, so any encoding other than UTF-8 and UTF-16 must be named.
    """
    if given is None:
        with reading(path, is_gzipped(path)) as stream:
            head = read_up_to(stream, _UTF16_HEAD, path)
        return "utf-16" if head[:2] in _UTF16 else _unmarked_utf16(head)
    try:
        codec = codecs.lookup(given)
        "a".encode(given)
        if codec.name in _NOT_FOR_FILES:
            raise LookupError(given)
    except (LookupError, ValueError):
        raise BadInput(
            f"The encoding was given as '{given}', which is not known. Usual ones are utf-8, latin-1, windows-1252 and utf-16."
        ) from None
    return None if codec.name in ("utf-8", "utf-8-sig", "ascii") else codec.name


def detected_encoding(path: Path) -> str | None:
    """The code page that the beginning of a text is probably in; None where it is UTF-8, damaged or not, or cannot be told.

    Each page gives the bytes above 127 other meanings. In the right one most of them are letters of western languages, or
    signs that people type. Where that does not decide, it is Windows-1252, the commonest by far.
    """
    with reading(path, is_gzipped(path)) as stream:
        head = read_up_to(stream, _HEAD, path)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        shown = head.decode("utf-8", errors="replace")
        n_bad = shown.count("\ufffd")
        is_damaged_utf8 = sum(sign > "\x7f" for sign in shown) - n_bad >= n_bad
        likeliest = max(_CODE_PAGES, key=lambda page: _plausibility(head, page))
        return None if is_damaged_utf8 or b"\0" in head or _plausibility(head, likeliest) < 0.5 else likeliest
    return None


def _plausibility(head: bytes, page: str) -> float:
    """The share of high bytes that are plausible in a code page; a byte without a meaning rules the page out."""
    try:
        text = head.decode(page)
    except UnicodeDecodeError:
        return -1.0
    high = re.findall(r"[^\x00-\x7f]", text)
    letters = sum(sign.lower() in _LETTERS for sign in high)
    signs = sum(sign in "€£§°–—‘’“”„…«»¿¡ºª" for sign in high)
    return (letters + signs) / max(1, len(high))


def _unmarked_utf16(head: bytes) -> str | None:
    """Recognise UTF-16 without its mark: column names in Latin letters have a zero byte beside each letter."""
    first, second = head[0::2][: len(head) // 2], head[1::2]
    if second and not any(second) and all(first):
        return "utf-16-le"
    return "utf-16-be" if second and not any(first) and all(second) else None


def read_dialect(path: Path) -> Dialect:
    """Find the delimiter and the column names at the beginning of a file."""
    is_compressed = is_gzipped(path)
    with reading(path, is_compressed) as stream:
        head = read_up_to(stream, _HEAD, path)
    body = head.removeprefix(codecs.BOM_UTF8)
    newline = ord("\n") if b"\n" in body or b"\r" not in body else ord("\r")
    is_whole = len(head) < _HEAD

    offset, n_lines, delimiter = len(head) - len(body), 0, None
    while True:
        line, length = _first_line(body, newline)
        if not body:
            raise BadInput(f"{path} is empty: it has neither column names nor records. Name the file that holds the data.")
        declared = re.fullmatch(rb"sep=(.)", line)
        if declared and n_lines == 0:
            delimiter = declared.group(1)[0]
        elif line:
            break
        body, offset, n_lines = body[length:], offset + length, n_lines + 1
    if not is_whole and newline not in body:
        raise BadInput(
            f"{path} has no line end in its first {_HEAD:,} bytes, so it is not a text file with one line for each record."
        )
    if b"\0" in line:
        raise BadInput(f"{path} has zero bytes in its first line, so it is not a text file. Save the data as 'CSV UTF-8'.")
    if delimiter is None:
        delimiter = _likely_delimiter(body, newline, prefers_tab=_stem_suffix(path) in (".tsv", ".tab"))
    names = _column_names(path, line, delimiter)
    return Dialect(names, delimiter, newline, offset + length, n_lines + 1, is_compressed)


def read_records(path: Path, dialect: Dialect, *, chunk: int = _CHUNK) -> Iterator[Records]:
    """Read the file after its header, piece by piece; damage is refused with its line number."""
    from rarecell._kernels.text import scan_records

    n_lines = dialect.header_lines
    decoder = codecs.getincrementaldecoder("utf-8")()
    with reading(path, dialect.is_gzipped) as stream:
        read_up_to(stream, dialect.header_bytes, path)
        rest = b""
        while True:
            read = read_up_to(stream, chunk, path)
            is_last = len(read) < chunk
            data = rest + read
            # The last line may lack its line end; it is scanned as if it had one.
            needs_end = is_last and data != b"" and data[-1] != dialect.newline
            scanned = np.frombuffer(data + bytes([dialect.newline]) if needs_end else data, dtype=np.uint8)
            n_places = data.count(dialect.newline) + 1
            starts, ends = np.empty(n_places, dtype=np.int64), np.empty(n_places, dtype=np.int64)
            n_records, consumed, problem, n_fields = scan_records(
                scanned, dialect.delimiter, dialect.newline, len(dialect.names), starts, ends
            )
            is_endless = not problem and (consumed < len(data) if is_last else len(data) - consumed > _LONGEST_RECORD)
            if problem or is_endless:
                line = n_lines + data[:consumed].count(dialect.newline) + 1
                raise _damaged(path, line, int(problem), int(n_fields), dialect)
            consumed = min(int(consumed), len(data))
            if len(dialect.names) == 1:
                n_records, consumed = _without_blank_end(data, starts, ends, int(n_records), consumed, is_last=is_last)
            try:
                decoder.decode(data[:consumed], is_last)
            except UnicodeDecodeError as mistake:
                line = n_lines + mistake.object[: mistake.start].count(dialect.newline) + 1
                raise _not_utf8(path, f"line {line}", mistake.object[mistake.start]) from None
            n_lines += data[:consumed].count(dialect.newline)
            yield Records(data[:consumed], starts[:n_records], np.minimum(ends[:n_records], len(data)))
            rest = data[consumed:]
            if is_last:
                return


def _without_blank_end(
    data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], n_read: int, consumed: int, *, is_last: bool
) -> tuple[int, int]:
    """Leave out empty lines at the end of a file with one column, where editors leave some; elsewhere they are missing values.

    Empty lines at the end of a piece are examined again together with the next piece.
    """
    kept = n_read
    while kept and not data[starts[kept - 1] : min(int(ends[kept - 1]), len(data))].strip(b"\r"):
        kept -= 1
    return kept, consumed if is_last or kept == n_read else int(starts[kept])


def read_columns(path: Path, dialect: Dialect, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read some columns as text, piece by piece; an empty field is null."""
    names = [name for name in dialect.names if name in columns]
    positions = np.array([dialect.names.index(name) for name in names], dtype=np.int64)
    with ThreadPoolExecutor() as pool:
        # A few pieces are processed while the next is read, so that memory holds only a few pieces.
        ahead: deque[Future[list[pa.Array]]] = deque()
        for piece in read_records(path, dialect):
            if len(piece.starts):
                ahead.append(pool.submit(texts_of, piece, dialect.delimiter, positions))
            while len(ahead) > 2:
                yield _batch(ahead.popleft().result(), names, columns)
        while ahead:
            yield _batch(ahead.popleft().result(), names, columns)


def _batch(arrays: list[pa.Array], names: Sequence[str], columns: Sequence[str]) -> pa.RecordBatch:
    return pa.record_batch([arrays[names.index(column)] for column in columns], names=list(columns))


def fields_of(piece: Records, delimiter: int, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the ``chosen`` columns, in ascending order, begin and end in each record, including their quotes."""
    from rarecell._kernels.text import find_fields

    fields = np.empty((len(chosen), len(piece.starts), 2), dtype=np.int64)
    find_fields(np.frombuffer(piece.data, dtype=np.uint8), piece.starts, piece.ends, delimiter, chosen, fields)
    return fields


def texts_of(piece: Records, delimiter: int, chosen: NDArray[np.int64]) -> list[pa.Array]:
    """The ``chosen`` columns, in ascending order, as text; an empty field is null."""
    from rarecell._kernels.text import copy_text

    data = np.frombuffer(piece.data, dtype=np.uint8)
    fields = fields_of(piece, delimiter, chosen)
    arrays = []
    for of_column in fields:
        offsets = np.empty(len(piece.starts) + 1, dtype=np.int32)
        text = np.empty(int((of_column[:, 1] - of_column[:, 0]).sum()), dtype=np.uint8)
        n_bytes = copy_text(data, of_column, offsets, text)
        has_text = np.packbits(np.diff(offsets) > 0, bitorder="little")
        buffers = [pa.py_buffer(has_text), pa.py_buffer(offsets), pa.py_buffer(text[:n_bytes])]
        arrays.append(pa.Array.from_buffers(pa.string(), len(piece.starts), buffers))
    return arrays


def _damaged(path: Path, line: int, problem: int, n_fields: int, dialect: Dialect) -> BadInput:
    from rarecell._kernels import text

    delimiter = {9: "tab"}.get(dialect.delimiter, f"'{chr(dialect.delimiter)}'")
    if problem == text.PROBLEM_FIELDS:
        what = (
            f"has {n_fields} fields where the header has {len(dialect.names)} columns separated by {delimiter}. A text that holds a "
            f"{delimiter} needs quotes around it; often a line was broken or a column added by hand. Correct the line"
        )
    elif problem == text.PROBLEM_NUL:
        what = (
            "holds a zero byte, so part of the file is not text. The file may have been cut off or copied wrongly; save it again"
        )
    elif problem == text.PROBLEM_QUOTE:
        what = "has text after a closing quote. Inside quotes a quote is written twice; correct the line"
    elif problem == text.PROBLEM_LINE_END:
        what = (
            "holds a carriage return that does not end a line. Put quotes around a text with line breaks, or save the file again"
        )
    else:
        what = "opens a quote that is never closed. Close it, or double a quote that belongs to the text"
    return BadInput(f"{path}, line {line}, {what}, and run again.")


def _not_utf8(path: Path, where: str, byte: int) -> BadInput:
    return BadInput(
        f"{path}, {where}: the byte 0x{byte:02X} is not UTF-8 text; it looks like text in an older encoding such as Windows-1252. "
        "Name it, for example with --encoding windows-1252, or save the file as 'CSV UTF-8'."
    )


def _first_line(body: bytes, newline: int) -> tuple[bytes, int]:
    """The first line without its line end, and its length including the line end."""
    end = body.find(newline)
    return (body.rstrip(b"\r"), len(body)) if end < 0 else (body[:end].removesuffix(b"\r"), end + 1)


def _likely_delimiter(body: bytes, newline: int, *, prefers_tab: bool) -> int:
    """The delimiter that divides the first lines into equal numbers of fields; more fields are better."""
    lines = body.split(bytes([newline]))[:20]
    lines = [line for line in (lines[:-1] if len(lines) > 1 else lines) if line.strip()]
    best, best_rank = ord("\t") if prefers_tab else ord(","), (False, 0, False)
    for candidate in _DELIMITERS:
        numbers = [len(field_spans(line, candidate, strict=False)) for line in lines] or [1]
        rank = (len(set(numbers)) == 1, numbers[0], prefers_tab and candidate == ord("\t"))
        if numbers[0] > 1 and rank > best_rank:
            best, best_rank = candidate, rank
    return best


def _column_names(path: Path, line: bytes, delimiter: int) -> tuple[str, ...]:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as mistake:
        raise _not_utf8(path, "its column names", line[mistake.start]) from None
    if "\r" in text:
        raise BadInput(
            f"The first line of {path} holds a carriage return that does not end it; column names stand on one line. Correct it."
        )
    if text.count('"') % 2:
        raise BadInput(
            f"The first line of {path} opens a quote that it does not close; column names stand on one line. Correct it."
        )
    try:
        names = next(csv.reader([text], delimiter=chr(delimiter), strict=True), [])
    except csv.Error:
        raise BadInput(
            f"The first line of {path} is not a line of column names: it has text after a closing quote. Correct it."
        ) from None
    if all(_NUMBER.fullmatch(name.strip()) for name in names):
        raise BadInput(
            f"The first line of {path} holds numbers where column names are expected; the first is '{names[0]}'. Add a line with the "
            "name of each column at the top."
        )
    names = [name if name.strip() else f"column{position + 1}" for position, name in enumerate(names)]
    refuse_duplicates(names, str(path))
    return tuple(names)


def refuse_duplicates(names: Sequence[str], source: str) -> None:
    """Raise when two columns have the same name."""
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        first = [position + 1 for position, name in enumerate(names) if name == twice[0]]
        more = f" ({len(twice) - 1} other names are doubled as well)" if len(twice) > 1 else ""
        raise BadInput(
            f"{source} has more than one column named '{twice[0]}': columns {', '.join(map(str, first))}{more}. Give each column its "
            "own name, so that it is certain which one is meant."
        )


def header_of(path: Path, dialect: Dialect) -> bytes:
    """Everything before the first record."""
    with reading(path, dialect.is_gzipped) as stream:
        return read_up_to(stream, dialect.header_bytes, path)


def field_bytes(value: str | None, delimiter: int, *, is_quoted: bool) -> bytes:
    """A value as it appears in a file: quoted when requested or where necessary."""
    data = (value or "").encode("utf-8")
    needs_quotes = any(byte in data for byte in (delimiter, 10, 13)) or data.startswith(b'"')
    return b'"' + data.replace(b'"', b'""') + b'"' if is_quoted or needs_quotes else data


def field_spans(record: bytes, delimiter: int, *, strict: bool = True) -> list[tuple[int, int]]:
    """Where each field of one record begins and ends, including its quotes.

    The beginning of a file may not be a whole record: without ``strict``, an unclosed quote extends to the end.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    while True:
        search_from = start
        if record[start : start + 1] == b'"':
            closing = re.compile(rb'(?:[^"]|"")*"').match(record, start + 1)
            if closing is None and strict:
                raise ValueError("a quoted field is not closed")
            search_from = closing.end() if closing else len(record)
        end = record.find(delimiter, search_from)
        spans.append((start, end if end >= 0 else len(record)))
        if end < 0:
            return spans
        start = end + 1


def _stem_suffix(path: Path) -> str:
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


# How are the bytes of a text file read and written when they may be compressed?


def is_gzipped(path: Path) -> bool:
    """Whether the text is compressed; an error when only the name says so."""
    with open(path, "rb") as stream:
        is_compressed = stream.read(2) == b"\x1f\x8b"
    if path.suffix.lower() == ".gz" and not is_compressed and path.stat().st_size:
        raise BadInput(f"{path} ends in .gz but is not compressed by gzip. Rename it, or compress it again.")
    return is_compressed


def reading(path: Path, is_compressed: bool) -> GzipFile | FileIO:
    """The bytes of a text file, decompressed."""
    return gzip.open(path, "rb") if is_compressed else open(path, "rb", buffering=0)


@contextmanager
def writing(raw: BinaryIO, is_compressed: bool) -> Iterator[GzipFile | BinaryIO]:
    """Write text to a binary stream, compressed if so wanted.

    No name or time is kept inside, so that the same data give the same bytes. Level 6 is that of the gzip command; level 9, the
    default of Python, takes five times as long for a file that is a twentieth smaller.
    """
    if not is_compressed:
        yield raw
        return
    with GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as out:
        yield out


def read_up_to(stream: GzipFile | FileIO, n_bytes: int, path: Path) -> bytes:
    """Read the requested number of bytes, or fewer only at the end of the file."""
    parts, missing = [], n_bytes
    try:
        while missing:
            part = stream.read(missing)
            if not part:
                break
            parts.append(part)
            missing -= len(part)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise BadInput(
            f"{path} is damaged or incomplete: its compressed data end too early or do not match their checksum. Copy or compress "
            "the file anew."
        ) from None
    except OSError as problem:
        raise BadInput(f"{path} could not be read to its end: {problem.strerror or problem}. Copy it again and rerun.") from None
    return b"".join(parts)
