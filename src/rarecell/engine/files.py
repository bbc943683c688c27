"""Which file is it, and how is it read and written back?

:mod:`rarecell.engine.csv` reads delimited text, Arrow reads Parquet and Arrow files, and DuckDB counts all of them,
spilling to disk when memory runs out. Files of statistics packages are in :mod:`rarecell.engine.statistics`, queries
in :mod:`rarecell.engine.sql`. A file is never loaded as a whole, and is written back in its own format, record by
record.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.ipc

from rarecell.engine.duck import EngineSettings, connect, renamed
from rarecell.engine.encoded import EncodedColumn, GroupedCounts
from rarecell.engine.recoding import recoded_batches
from rarecell.engine.source import Source
from rarecell.engine.unchanged import FileStamp
from rarecell.errors import BadInput, RarecellError

if TYPE_CHECKING:
    import duckdb


class FileSource(Source):
    """A file that stays unchanged between one reading and the next."""

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

        from rarecell.engine.grouping import count_groups, new_names

        self._refuse_change()
        # Errors of our own reading pass through the engine, which wraps them in words of its own.
        refused: list[RarecellError] = []
        can_scan = not recodes and (weight is None or self._has_numbers(weight))
        names = [*columns, *([] if weight is None else [weight])]
        try:
            with readable_errors(self.path_in_messages):
                relation = self._scanned() if can_scan else None
                if relation is not None:
                    relation = renamed(relation, names, new_names(len(names)))
                else:
                    reader = self._reader(names, weight, recodes or {}, new_names(len(names)), refused)
                    relation = self._connection.from_arrow(reader)
                return count_groups(nw.from_native(relation), len(columns), weight=weight, name=self.name)
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
        batches = recoded_batches(self.batches(names), schema, weight, recodes, self._batch_numbers)
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
