"""Delimited text, plain or gzipped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.engine import csv
from rarecell.engine.arrow import as_arrow
from rarecell.engine.csv_output import Forms, write_records
from rarecell.engine.duck import EngineSettings
from rarecell.engine.files import FileSource
from rarecell.engine.source import Column

if TYPE_CHECKING:
    from rarecell.edges import Columns
    from rarecell.engine.written_levels import Recodes


class CsvSource(FileSource):
    """Delimited text, plain or gzipped."""

    def __init__(self, path: Path, *, settings: EngineSettings) -> None:
        super().__init__(path, settings=settings)
        self.dialect = csv.read_dialect(path)
        self.decimal_mark = settings.decimal or self.dialect.decimal_mark
        self.suffix = "".join(path.suffixes[-2:]) if path.suffix.lower() == ".gz" else path.suffix
        self._n_rows: int | None = None

    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(name, "untyped") for name in self.dialect.names)

    @property
    def n_rows(self) -> int:
        if self._n_rows is None:
            self._n_rows = sum(len(piece.starts) for piece in csv.read_records(self.path, self.dialect))
            self._refuse_change()
        return self._n_rows

    @property
    def approximate_rows(self) -> int:
        if self._n_rows is not None:
            return self._n_rows
        piece = next(csv.read_records(self.path, self.dialect, chunk=1 << 16), None)
        if piece is None or not len(piece.starts):
            return 0
        n_bytes = self._stamps[0].n_bytes * (6 if self.dialect.is_gzipped else 1)
        return int(n_bytes * len(piece.starts) / max(1, len(piece.data)))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self._refuse_change()
        n_rows = 0
        for batch in csv.read_columns(self.path, self.dialect, columns):
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
        from rarecell.engine.csv_levels import write_levels

        self._refuse_change()
        write_levels(Path(path), self.path, self.dialect, recodes)
        self._refuse_change()
        return Path(path)
