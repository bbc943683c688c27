"""How are many CSV files treated as one?

As with Parquet parts, the files, in the order of their names, are one file: their records are numbered consecutively,
their columns must agree, and each is written back under its own name, byte for byte except for the changed values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.engine import csv
from rarecell.engine.arrow import as_arrow
from rarecell.engine.csv_output import Forms
from rarecell.engine.csv_source import CsvSource
from rarecell.engine.duck import EngineSettings
from rarecell.engine.output import atomic_folder
from rarecell.engine.parts import SeveralFiles, find_parts
from rarecell.engine.source import Column, Source
from rarecell.engine.transcoded import TranscodedSource
from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.edges import Columns
    from rarecell.engine.written_levels import Recodes


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
    encoding = csv.encoding_of(path, settings.encoding)
    if encoding is None:
        return CsvSource(path, settings=settings)
    return TranscodedSource(path, encoding, settings=settings)
