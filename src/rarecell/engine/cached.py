"""Data that are slow or unsafe to read twice are read once into a private file.

A statistics file is decoded value by value, and a query need not return its rows in the same order when it is run again.
A copy that only its owner can read, and that vanishes at the end, makes both as good as a Parquet file. Text in another
encoding and workbooks become UTF-8 text.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.engine.duck import EngineSettings, private_directory
from rarecell.engine.encoded import EncodedColumn, GroupedCounts
from rarecell.engine.files import FileSource
from rarecell.engine.reach import confined
from rarecell.engine.source import Column, Source
from rarecell.machine.disk import new_private_file

if TYPE_CHECKING:
    from rarecell.edges import Columns
    from rarecell.engine.written_levels import Recodes


class CachedSource(Source):
    """A source that fills a file of its own (see :meth:`_fill`) when it is first read."""

    copy_name = "records.parquet"

    def __init__(self, name: str, *, settings: EngineSettings) -> None:
        self.name = name
        self.settings = settings

    @abstractmethod
    def _fill(self, path: Path) -> None:
        """Write all records to a new file."""

    @abstractmethod
    def _open_copy(self, path: Path) -> FileSource:
        """Open the file that :meth:`_fill` wrote."""

    @cached_property
    def _inner(self) -> FileSource:
        path = new_private_file(private_directory(self, self.settings) / self.copy_name)
        self._fill(path)
        # The copy is in a private folder, outside the folder that the app is confined to.
        with confined(None):
            inner = self._open_copy(path)
        inner.name = self.name
        inner.path_in_messages = self.name
        return inner

    @property
    def settings_of_output(self) -> EngineSettings | None:
        return self.settings

    def columns(self) -> tuple[Column, ...]:
        return self._inner.columns()

    @property
    def n_rows(self) -> int:
        return self._inner.n_rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._inner.batches(columns)

    def counts(
        self, columns: Sequence[str], *, weight: str | None = None, recodes: Mapping[str, EncodedColumn] | None = None
    ) -> GroupedCounts:
        return self._inner.counts(columns, weight=weight, recodes=recodes)

    def write_with_replacements(self, path: str | Path, rows: NDArray[np.int64], columns: Columns) -> Path:
        return self._inner.write_with_replacements(path, rows, columns)

    def write_levels(self, path: str | Path, recodes: Recodes) -> Path:
        return self._inner.write_levels(path, recodes)
