"""Delimited text, plain or gzipped."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.engine.arrays import as_arrow
from rarecell.engine.duck import EngineSettings
from rarecell.engine.files import CachedSource, FileSource
from rarecell.engine.output import atomic_folder, atomic_path, temporary_folder
from rarecell.engine.parts import SeveralFiles, find_parts
from rarecell.engine.places import FileStamp
from rarecell.engine.source import Column, Source
from rarecell.engine.text import scan
from rarecell.engine.text.scan import is_gzipped, read_up_to, reading, writing
from rarecell.engine.text.write import Forms, write_levels, write_records
from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.edges import Columns
    from rarecell.engine.changes import Recodes


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

    def write_with_replacements(
        self, path: str | Path, rows: NDArray[np.int64], columns: Columns, *, forms: Forms | None = None
    ) -> Path:
        """Write as every source does; ``forms`` covers all parts when the file is one of several."""
        self._refuse_change()
        texts = {
            name: [None if value is None else str(value) for value in as_arrow(values).to_pylist()]
            for name, values in columns.items()
        }
        write_records(Path(path), self.path, self.dialect, np.asarray(rows, dtype=np.int64), texts, forms=forms)
        self._refuse_change()
        return Path(path)

    def write_levels(self, path: str | Path, recodes: Recodes) -> Path:

        self._refuse_change()
        write_levels(Path(path), self.path, self.dialect, recodes)
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

    def write_with_replacements(self, path: str | Path, rows: NDArray[np.int64], columns: Columns) -> Path:
        with temporary_folder(path) as folder:
            return self._encode(self._inner.write_with_replacements(folder / self.copy_name, rows, columns), Path(path))

    def write_levels(self, path: str | Path, recodes: Recodes) -> Path:
        with temporary_folder(path) as folder:
            return self._encode(self._inner.write_levels(folder / self.copy_name, recodes), Path(path))

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
        self._parts = tuple(open_text(part, settings=settings) for part in self.files.paths)
        super().__init__(Path(path), settings=settings)
        self.suffix = ".csv"
        self.decimal_mark = self._parts[0].decimal_mark
        first = [column.name for column in self._parts[0].columns()]
        for part in self._parts[1:]:
            _refuse_other_form(self._parts[0].name, first, self.decimal_mark, part.name, part)

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

    def write_with_replacements(self, path: str | Path, rows: NDArray[np.int64], columns: Columns) -> Path:
        """Write a folder of the same parts."""
        self._refuse_change()
        wanted = np.asarray(rows, dtype=np.int64)
        values = {name: as_arrow(new) for name, new in columns.items()}
        part_of_row = np.searchsorted(self._first_rows, wanted, side="right") - 1
        plain = [part for part in self._parts if isinstance(part, CsvSource)]
        forms = Forms([(part.path, part.dialect) for part in plain], list(columns))
        with atomic_folder(path) as folder:
            for number, part in enumerate(self._parts):
                inside = np.flatnonzero(part_of_row == number)
                target, own_rows = self._target(folder, number), wanted[inside] - self._first_rows[number]
                new = {column: given.take(as_arrow(inside)) for column, given in values.items()}
                if isinstance(part, CsvSource):
                    part.write_with_replacements(target, own_rows, new, forms=forms)
                else:
                    part.write_with_replacements(target, own_rows, new)
        return Path(path)

    def write_levels(self, path: str | Path, recodes: Recodes) -> Path:
        """Write a folder of the same parts."""
        self._refuse_change()
        with atomic_folder(path) as folder:
            for number, part in enumerate(self._parts):
                part.write_levels(self._target(folder, number), recodes)
        return Path(path)

    def _target(self, folder: Path, number: int) -> Path:
        target = folder / self.files.names[number]
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return target


def _refuse_other_form(first_name: str, first: Sequence[str], decimal_mark: str, name: str, part: Source) -> None:
    """Refuse parts with other columns or another decimal mark; the order of the columns may differ."""
    remedy = "Write all parts in the same form, or name those that belong together by a wildcard."
    columns = [column.name for column in part.columns()]
    for has, lacks, one, two in ((first, columns, first_name, name), (columns, first, name, first_name)):
        for column in has:
            if column not in lacks:
                raise BadInput(f"{two} has no column '{column}', which {one} has. {remedy}")
    if part.decimal_mark != decimal_mark:
        raise BadInput(
            f"{first_name} and {name} are separated by different characters, so that a comma means different things. {remedy}"
        )


def open_text(path: Path, *, settings: EngineSettings) -> Source:
    """Open the source for delimited text: directly when it is UTF-8, otherwise through a UTF-8 copy."""
    encoding = scan.encoding_of(path, settings.encoding)
    if encoding is None:
        return CsvSource(path, settings=settings)
    return TranscodedSource(path, encoding, settings=settings)
