"""How is text in an older encoding read and written back?

The file is copied once into UTF-8, where only its owner can read it; from then on it is treated like any other text. It
is written back in the encoding of the original, so that everything except the changed values keeps its bytes.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.engine import csv
from rarecell.engine.cached import CachedSource
from rarecell.engine.compressed import is_gzipped, read_up_to, reading, writing
from rarecell.engine.csv_source import CsvSource
from rarecell.engine.duck import EngineSettings
from rarecell.engine.files import FileSource
from rarecell.engine.output import atomic_path, temporary_folder
from rarecell.engine.unchanged import FileStamp
from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.edges import Columns
    from rarecell.engine.written_levels import Recodes

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
            dialect = csv.read_dialect(path)
            for _ in csv.read_records(path, dialect):
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
