"""Which file is it, and how is it read and written back?

:mod:`rarecell.engine.text.scan` reads delimited text, Arrow reads Parquet and Arrow files, and DuckDB counts all of them,
spilling to disk when memory runs out. Files of statistics packages are in :mod:`rarecell.engine.statistics.source`, queries
in :mod:`rarecell.engine.sql.source`. A file is never loaded as a whole, and is written back in its own format, record by
record.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.ipc

from rarecell.engine.arrays import EncodedColumn, GroupedCounts, recoded_batches
from rarecell.engine.duck import EngineSettings, connect, private_directory, renamed
from rarecell.engine.places import FileStamp, confined
from rarecell.engine.source import Column, Source, array_numbers
from rarecell.errors import BadInput, RarecellError
from rarecell.machine.disk import new_private_file

if TYPE_CHECKING:
    import duckdb

    from rarecell.engine.changes import Changes


class FileSource(Source):
    """A file that stays unchanged between one reading and the next."""

    _keeps_codes = True

    def __init__(self, path: Path, *, settings: EngineSettings) -> None:
        self.path = path
        self.name = str(path)
        self.suffix = path.suffix
        self.settings = settings
        # A copy of the data of a query or statistics file goes by the name of the original.
        self.path_in_messages = self.name
        self._stamps = tuple(FileStamp(path) for path in self.paths)

    @property
    def settings_of_output(self) -> EngineSettings | None:
        return self.settings

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that hold the data."""
        return (self.path,)

    def _refuse_change(self) -> None:
        for stamp in self._stamps:
            stamp.refuse_change()

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        return connect(self, self.settings)

    def _schema(self, columns: Sequence[str]) -> pa.Schema:
        """The types of the columns that :meth:`batches` gives."""
        raise NotImplementedError

    def counts(
        self, columns: Sequence[str], *, weight: str | None = None, recodes: Mapping[str, EncodedColumn] | None = None
    ) -> GroupedCounts:
        import narwhals.stable.v2 as nw

        from rarecell.engine.frames import count_groups, new_names

        self._refuse_change()
        names = [*columns, *([] if weight is None else [weight])]
        if any(pa.types.is_decimal256(field.type) for field in self._schema(names)):
            # The engine would round numbers of so many digits.
            return super().counts(columns, weight=weight, recodes=recodes)
        # Errors of our own reading pass through the engine, which wraps them in words of its own.
        refused: list[RarecellError] = []
        can_scan = not recodes and (weight is None or self._has_numbers(weight))
        try:
            with readable_errors(self.path_in_messages):
                relation = self._scanned() if can_scan else None
                if relation is not None:
                    relation = renamed(relation, names, new_names(len(names)))
                else:
                    reader = self._reader(names, weight, recodes or {}, new_names(len(names)), refused)
                    relation = self._connection.from_arrow(reader)
                return count_groups(
                    nw.from_native(relation), len(columns), weight=weight, name=self.name, least=self.least_weight
                )
        except RarecellError as problem:
            raise (refused[0] if refused else problem) from None

    def _has_numbers(self, column: str) -> bool:
        return next(c.kind for c in self.columns() if c.name == column) in ("integer", "number")

    def _scanned(self) -> Any:
        """The file as a DuckDB relation, where DuckDB can read it directly and by the same rules."""
        return None

    def _reader(
        self,
        names: Sequence[str],
        weight: str | None,
        recodes: Mapping[str, EncodedColumn],
        new_names: Sequence[str],
        refused: list[RarecellError],
    ) -> pa.RecordBatchReader:
        """The columns with recoded values, and the weights as numbers; errors are collected in ``refused``."""
        fields = []
        for field in self._schema(names):
            new_type = pa.float64() if field.name == weight else pa.int32() if field.name in recodes else field.type
            fields.append(pa.field(field.name, new_type))
        schema = pa.schema(fields)
        batches = recoded_batches(
            self.batches(names), schema, weight, recodes, lambda array: array_numbers(array, self.decimal_mark)
        )
        renamed = pa.schema([pa.field(new, field.type) for new, field in zip(new_names, schema, strict=False)])
        return pa.RecordBatchReader.from_batches(
            renamed, (pa.record_batch(batch.columns, schema=renamed) for batch in _remembering(batches, refused))
        )


def _remembering(batches: Iterator[pa.RecordBatch], refused: list[RarecellError]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except RarecellError as problem:
        refused.append(problem)
        raise


@contextlib.contextmanager
def readable_errors(path: str | Path) -> Iterator[None]:
    """Report a damaged file in one paragraph; the engine's own message may contain records, so it is withheld."""
    import duckdb

    try:
        yield
    except (pa.ArrowException, duckdb.Error, OSError, EOFError, UnicodeError) as problem:
        text = str(problem)
        if isinstance(problem, (duckdb.OutOfMemoryException, pa.ArrowMemoryError)):
            raise BadInput(
                f"Counting {path} needs more memory or room for temporary files than it was given. Allow more memory, free room on "
                "the disk for temporary files, or use fewer or coarser keys."
            ) from None
        if isinstance(problem, OSError) and problem.errno:
            raise BadInput(f"{path} cannot be read: {problem.strerror or problem}.") from None
        reason = (
            "its end is missing" if "magic bytes" in text or "footer" in text.lower() else "its contents do not fit its format"
        )
        raise BadInput(
            f"{path} is damaged or not what its name says: {reason}. It may have been copied or downloaded only in part; copy it "
            f"anew or write it again. ({type(problem).__name__})"
        ) from None


# Data that are slow or unsafe to read twice are read once into a private file.
#
# A statistics file is decoded value by value, and a query need not return its rows in the same order when it is run again.
# A copy that only its owner can read, and that vanishes at the end, makes both as good as a Parquet file. Text in another
# encoding and workbooks become UTF-8 text.


class CachedSource(Source):
    """A source that fills a file of its own (see :meth:`_fill`) when it is first read."""

    copy_name = "records.parquet"
    _keeps_codes = True

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
        self._inner.least_weight = self.least_weight
        return self._inner.counts(columns, weight=weight, recodes=recodes)

    def write(self, path: str | Path, changes: Changes) -> Path:
        return self._inner.write(path, changes)
