"""Delimited text, plain or gzipped."""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.engine.changes import Changes, WrittenLevels
from rarecell.engine.duck import EngineSettings
from rarecell.engine.files import CachedSource, FileSource
from rarecell.engine.output import atomic_folder, atomic_path, temporary_folder
from rarecell.engine.parts import SeveralFiles, find_parts
from rarecell.engine.places import FileStamp
from rarecell.engine.source import Column, Source
from rarecell.engine.text import scan
from rarecell.engine.text.scan import is_gzipped, read_up_to, reading, writing
from rarecell.engine.text.write import Quoting, StoredRecords, changed_header, changed_pieces, write_bytes, write_text
from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.edges import Level


class CsvSource(FileSource):
    """Delimited text, plain or gzipped."""

    def __init__(self, path: Path, *, settings: EngineSettings) -> None:
        super().__init__(path, settings=settings)
        self.dialect = scan.read_dialect(path)
        self.decimal_mark = settings.decimal or self.dialect.decimal_mark
        self.suffix = "".join(path.suffixes[-2:]) if path.suffix.lower() == ".gz" else path.suffix
        self._n_rows: int | None = None

    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(name, "untyped") for name in self.dialect.names)

    @property
    def n_rows(self) -> int:
        if self._n_rows is None:
            self._n_rows = sum(len(piece.starts) for piece in scan.read_records(self.path, self.dialect))
            self._refuse_change()
        return self._n_rows

    @property
    def approximate_rows(self) -> int:
        if self._n_rows is not None:
            return self._n_rows
        piece = next(scan.read_records(self.path, self.dialect, chunk=1 << 16), None)
        if piece is None or not len(piece.starts):
            return 0
        n_bytes = self._stamps[0].n_bytes * (6 if self.dialect.is_gzipped else 1)
        return int(n_bytes * len(piece.starts) / max(1, len(piece.data)))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self._refuse_change()
        n_rows = 0
        for batch in scan.read_columns(self.path, self.dialect, columns):
            n_rows += batch.num_rows
            yield batch
        self._refuse_change()
        self._n_rows = n_rows

    def _schema(self, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([(name, pa.string()) for name in columns])

    @property
    def as_utf8(self) -> CsvSource:
        """The text in UTF-8, which it is."""
        return self

    def write_pieces(self, path: Path, header: bytes, pieces: Iterable[bytes]) -> None:
        """Write records in the form of this file."""
        write_bytes(path, header, pieces, is_gzipped=self.dialect.is_gzipped)
        self._refuse_change()

    def write(self, path: str | Path, changes: Changes) -> Path:
        self._refuse_change()
        changes.check(self.dialect.names, lambda: self.n_rows)
        write_text(Path(path), self.path, self.dialect, changes, decimal_mark=self.decimal_mark)
        self._refuse_change()
        return Path(path)


# How is text in an older encoding read and written back?
#
# The file is copied once into UTF-8, where only its owner can read it; from then on it is treated like any other text. It
# is written back in the encoding of the original, so that everything except the changed values keeps its bytes.


_CHUNK = 1 << 22
_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class TranscodedSource(CachedSource):
    """Delimited text that is not UTF-8.

    Parameters
    ----------
    path : Path
        The file.
    encoding : str
        Python's name for its encoding.
    settings : EngineSettings
        How files are read.
    """

    def __init__(self, path: Path, encoding: str, *, settings: EngineSettings) -> None:
        super().__init__(str(path), settings=settings)
        self.path = path
        self.encoding = encoding
        self._stamp = FileStamp(path)
        self._is_gzipped = is_gzipped(path)
        self._mark = b""
        if encoding == "utf-16":
            with reading(path, self._is_gzipped) as stream:
                mark = read_up_to(stream, 2, path)
            self.encoding = _MARKS.get(mark, "utf-16-le")
            self._mark = mark if mark in _MARKS else b""
        self.suffix = "".join(path.suffixes[-2:]) if path.suffix.lower() == ".gz" else path.suffix
        inner_suffix = Path(path.stem).suffix if self._is_gzipped and path.suffix.lower() == ".gz" else path.suffix
        self.copy_name = f"records{inner_suffix or '.csv'}"

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.path,)

    @property
    def notes(self) -> tuple[str, ...]:
        if self.settings.encoding is not None:
            return ()
        if not self.encoding.startswith("utf-16"):
            return (
                f"{self.path.name} is not UTF-8. Judging by its letters it is {self.encoding}, and it was read as such. If letters look wrong, name "
                "its encoding with --encoding.",
            )
        sign = (
            "begins with the mark of UTF-16"
            if self._mark
            else "has a zero byte beside each letter of its first words, as UTF-16 has,"
        )
        return (f"{self.path.name} {sign} and was read as such.",)

    @cached_property
    def decimal_mark(self) -> str:  # type: ignore[override]
        return self._inner.decimal_mark

    # ------------------------------------------------------------------ reading

    def _fill(self, path: Path) -> None:
        self._stamp.refuse_change()
        with open(path, "wb") as out:
            for text in self._decoded():
                out.write(text.encode("utf-8"))
        self._stamp.refuse_change()
        # Anything wrong with the text is reported here, under the name of the file instead of its copy.
        try:
            dialect = scan.read_dialect(path)
            for _ in scan.read_records(path, dialect):
                pass
        except BadInput as problem:
            raise BadInput(str(problem).replace(str(path), str(self.path))) from None

    def _open_copy(self, path: Path) -> FileSource:
        return CsvSource(path, settings=self.settings)

    def _decoded(self) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder(self.encoding)()
        n_read = 0
        with reading(self.path, self._is_gzipped) as stream:
            read_up_to(stream, len(self._mark), self.path)
            while True:
                data = read_up_to(stream, _CHUNK, self.path)
                try:
                    yield decoder.decode(data, final=len(data) < _CHUNK)
                except UnicodeDecodeError as mistake:
                    byte = mistake.object[mistake.start]
                    raise BadInput(
                        f"{self.path} is not text in {self.settings.encoding or self.encoding}: near byte {n_read + mistake.start + 1:,} the "
                        f"byte 0x{byte:02X} has no meaning there. Name another encoding with --encoding, or save the file as 'CSV UTF-8'."
                    ) from None
                n_read += len(data)
                if len(data) < _CHUNK:
                    return

    # ------------------------------------------------------------------ writing

    @property
    def as_utf8(self) -> CsvSource:
        """The copy in UTF-8."""
        assert isinstance(self._inner, CsvSource)
        return self._inner

    @property
    def settings_of_output(self) -> EngineSettings | None:
        return self.settings if self.encoding.startswith("utf-16") else replace(self.settings, encoding=self.encoding)

    def levels_read_back(self, column: str, written: WrittenLevels) -> tuple[Level, ...]:
        return super().levels_read_back(column, written.fitting(self.encoding))

    def write(self, path: str | Path, changes: Changes) -> Path:
        changes = _fitting(changes, self.encoding)
        with temporary_folder(path) as folder:
            return self._encode(self._inner.write(folder / self.copy_name, changes), Path(path))

    def write_pieces(self, path: Path, header: bytes, pieces: Iterable[bytes]) -> None:
        """Write records, which are given in UTF-8, in the form of this file."""
        with temporary_folder(path) as folder:
            written = folder / self.copy_name
            write_bytes(written, header, pieces, is_gzipped=False)
            self._encode(written, path)

    def _encode(self, written: Path, path: Path) -> Path:
        """Convert UTF-8 text to the encoding of the original."""
        self._stamp.refuse_change()
        encoder = codecs.getincrementalencoder(self.encoding)()
        with (
            open(written, encoding="utf-8", newline="") as text,
            atomic_path(path) as temporary,
            open(temporary, "wb") as raw,
            writing(raw, self._is_gzipped) as out,
        ):
            out.write(self._mark)
            while piece := text.read(_CHUNK):
                try:
                    out.write(encoder.encode(piece))
                except UnicodeEncodeError as mistake:
                    raise BadInput(
                        f"The character '{piece[mistake.start]}' of a new label has no place in {self.settings.encoding or self.encoding}, the "
                        f"encoding of {self.path}. Choose labels without it, or save the file as 'CSV UTF-8' first."
                    ) from None
        return path


# How are many CSV files treated as one?
#
# As with Parquet parts, the files, in the order of their names, are one file: their records are numbered consecutively,
# their columns must agree, and each is written back under its own name, byte for byte except for the changed values.


class TextPartsSource(SeveralFiles):
    """The CSV files of a folder or wildcard as one file."""

    def __init__(self, path: str | Path, *, settings: EngineSettings) -> None:
        self.files = find_parts(path)
        if any(self.files.partitions):
            raise BadInput(
                f"{self.files.paths[0]} lies below a folder that stands for a column. That works for Parquet parts only; write the "
                "data as Parquet, or put the column into the files."
            )
        self._parts: tuple[TextSource, ...] = tuple(open_text(part, settings=settings) for part in self.files.paths)
        super().__init__(Path(path), settings=settings)
        self.suffix = ".csv"
        self.decimal_mark = self._parts[0].decimal_mark
        first = [column.name for column in self._parts[0].columns()]
        for part in self._parts[1:]:
            _refuse_other_form(self._parts[0].name, first, self.decimal_mark, part.name, part)

    @property
    def _encodings(self) -> set[str]:
        """The encodings other than UTF-8 that parts are written in."""
        return {part.encoding for part in self._parts if isinstance(part, TranscodedSource)}

    def levels_read_back(self, column: str, written: WrittenLevels) -> tuple[Level, ...]:
        for encoding in self._encodings:
            written = written.fitting(encoding)
        return super().levels_read_back(column, written)

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self.columns()]

    def columns(self) -> tuple[Column, ...]:
        return self._parts[0].columns()

    @cached_property
    def _first_rows(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(part.n_rows for part in self._parts)])

    @property
    def n_rows(self) -> int:
        return int(self._first_rows[-1])

    @property
    def approximate_rows(self) -> int:
        return sum(part.approximate_rows for part in self._parts)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self._refuse_change()
        for part in self._parts:
            yield from part.batches(columns)

    def _schema(self, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([(name, pa.string()) for name in columns])

    def write(self, path: str | Path, changes: Changes) -> Path:
        """Write a folder of the same parts; in a new order, the records change parts, and the parts keep their sizes."""
        self._refuse_change()
        for encoding in self._encodings:
            changes = _fitting(changes, encoding)
        changes.check(self._names, lambda: self.n_rows)
        plain = [part.as_utf8 for part in self._parts]
        quoting = Quoting([(part.path, part.dialect) for part in plain], changes)

        def pieces_of(number: int) -> Iterator[bytes]:
            part, first = plain[number], int(self._first_rows[number])
            own = changes.of_part(first, part.n_rows)
            return changed_pieces(part.path, part.dialect, own, quoting, decimal_mark=self.decimal_mark)

        with atomic_folder(path) as folder, temporary_folder(path) as private:
            pieces = pieces_of if changes.order is None else self._in_order(changes, plain, pieces_of, private)
            for number, part in enumerate(self._parts):
                header = changed_header(plain[number].path, plain[number].dialect, changes.dropped)
                part.write_pieces(self._target(folder, number), header, pieces(number))
        return Path(path)

    def _in_order(
        self, changes: Changes, plain: Sequence[CsvSource], pieces_of: Callable[[int], Iterator[bytes]], private: Path
    ) -> Callable[[int], Iterator[bytes]]:
        """The records that each part gets in a new order over all parts."""
        forms = {(part.dialect.names, part.dialect.delimiter, part.dialect.newline) for part in plain}
        if len(forms) > 1:
            raise BadInput(
                f"The parts of {self.name} have their columns in different orders or other delimiters or line ends, so that a record "
                "cannot move from one to another. Write all parts in the same form."
            )
        assert changes.order is not None
        order, firsts = changes.order, self._first_rows
        everything = itertools.chain.from_iterable(map(pieces_of, range(len(plain))))
        records = StoredRecords(private, everything, plain[0].dialect, changes.dropped)
        return lambda number: records.at(order[firsts[number] : firsts[number + 1]])

    def _target(self, folder: Path, number: int) -> Path:
        target = folder / self.files.names[number]
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return target


def _fitting(changes: Changes, encoding: str) -> Changes:
    """The same changes with labels that an encoding can hold."""
    return replace(changes, recodes={name: written.fitting(encoding) for name, written in changes.recodes.items()})


def _refuse_other_form(first_name: str, first: Sequence[str], decimal_mark: str, name: str, part: Source) -> None:
    """Refuse parts with other columns or another decimal mark; the order of the columns may differ."""
    remedy = "Write all parts in the same form, or name those that belong together by a wildcard."
    columns = [column.name for column in part.columns()]
    for has, lacks, with_column, without_column in ((first, columns, first_name, name), (columns, first, name, first_name)):
        for column in has:
            if column not in lacks:
                raise BadInput(f"{without_column} has no column '{column}', which {with_column} has. {remedy}")
    if part.decimal_mark != decimal_mark:
        raise BadInput(
            f"{first_name} and {name} are separated by different characters, so that a comma means different things. {remedy}"
        )


TextSource = CsvSource | TranscodedSource


def open_text(path: Path, *, settings: EngineSettings) -> TextSource:
    """Open the source for delimited text: directly when it is UTF-8, otherwise through a UTF-8 copy."""
    encoding = scan.encoding_of(path, settings.encoding)
    if encoding is None and settings.encoding is None:
        encoding = scan.detected_encoding(path)
    if encoding is None:
        return CsvSource(path, settings=settings)
    return TranscodedSource(path, encoding, settings=settings)
