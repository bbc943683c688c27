"""How is a data frame of any library read?

All libraries share one code path, through narwhals: pandas, polars (eager and lazy), pyarrow and DuckDB relations give
the same table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rarecell.engine.arrays import (
    LARGEST_WEIGHT,
    WEIGHT_UNITS,
    EncodedColumn,
    GroupedCounts,
    Kind,
    as_arrow,
    check_weights,
    code_chunk,
    in_form_of,
    in_plain_form,
    kind_of,
    unified,
)
from rarecell.engine.changes import one_array
from rarecell.engine.columnar.write import changed_schema, changed_table, with_values
from rarecell.engine.duck import quoted, renamed
from rarecell.engine.output import atomic_path
from rarecell.engine.source import BATCH_ROWS, Column, Source
from rarecell.engine.text.scan import refuse_duplicates
from rarecell.errors import BadInput
from rarecell.machine.disk import new_private_file, private_folder

if TYPE_CHECKING:
    from rarecell.edges import Frame, Level
    from rarecell.engine.changes import Changes, WrittenLevels


_LIBRARIES = "pandas, polars, pyarrow, DuckDB or Spark"


def open_frame(native: Frame) -> Source:
    """Open the source for a data frame."""
    try:
        frame = nw.from_native(native)
    except TypeError:
        raise BadInput(
            f"The data were given as {type(native).__name__}; give a path or a frame of {_LIBRARIES}. Arrays and dictionaries "
            "become a frame with pyarrow.table({'name': values, …})."
        ) from None
    except Exception as problem:
        # narwhals refuses frames whose columns it cannot name, with exception classes that differ between its versions.
        names = list(map(str, getattr(native, "column_names", getattr(native, "columns", ()))))
        refuse_duplicates(names, f"The {type(native).__name__}")
        raise BadInput(f"The {type(native).__name__} cannot be read: {_first_sentence(problem)}.") from None
    if frame.implementation.is_spark_like():
        from rarecell.engine.spark.source import SparkSource

        return SparkSource(frame)
    return FrameSource(frame)


class FrameSource(Source):
    """A data frame."""

    def __init__(self, given: nw.DataFrame[Any] | nw.LazyFrame[Any]) -> None:
        self.given = given
        self.name = f"the {given.implementation.value} frame"
        names = self._column_names()
        strange = [name for name in names if not isinstance(name, str)]
        if strange:
            raise BadInput(
                f"A column of {self.name} is named {strange[0]!r}, which is not text. Give each column a name of letters."
            )

    @property
    def native_frame(self) -> Frame:
        return self.given.to_native()

    @cached_property
    def frame(self) -> nw.DataFrame[Any] | nw.LazyFrame[Any]:
        """The frame, whose query has been run if it is one: it may fail, and another run may give other rows, or another order.

        The records of Spark stay where they are, and are found by their ids.
        """
        if isinstance(self.given, nw.DataFrame) or self.given.implementation.is_spark_like():
            return self.given
        try:
            return self._copied() if self.given.implementation.is_duckdb() else self.given.collect()
        except (MemoryError, OSError):
            raise
        except Exception as problem:
            # Each library has errors of its own, whose words may hold values of records.
            raise BadInput(
                f"The query of {self.name} could not be run ({type(problem).__name__}). Run it on its own to see why."
            ) from None

    def _copied(self) -> nw.LazyFrame[Any]:
        """The rows of a relation in a file that only its owner can read and that vanishes with this source."""
        import duckdb

        path = new_private_file(private_folder(self) / "records.parquet")
        native, columns = self.native_frame, self.native_frame.columns
        names = new_names(len(columns))
        reader = renamed(native, columns, names).to_arrow_reader(BATCH_ROWS)
        with pq.ParquetWriter(path, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
        copied: nw.LazyFrame[Any] = nw.from_native(renamed(duckdb.read_parquet(str(path)), names, columns))
        return copied

    def _column_names(self) -> list[Level]:
        try:
            return list(self.given.collect_schema().names())
        except Exception as problem:
            raise BadInput(f"{self.name.capitalize()} cannot be read: {_first_sentence(problem)}.") from None

    @cached_property
    def _columns(self) -> tuple[Column, ...]:
        return tuple(self._column(name, dtype) for name, dtype in self.given.collect_schema().items())

    def columns(self) -> tuple[Column, ...]:
        return self._columns

    def _column(self, name: str, dtype: Any) -> Column:
        if isinstance(dtype, (nw.Categorical, nw.Enum)) and self._has_any_categories:
            return self._column_of_categories(name)
        if isinstance(dtype, nw.Enum):
            return Column(name, "text", level_order=tuple(dtype.categories))
        kind: Kind
        if dtype == nw.Boolean:
            kind = "boolean"
        elif dtype.is_integer():
            kind = "integer"
        elif dtype.is_numeric():
            kind = "number"
        elif dtype in (nw.String, nw.Categorical):
            kind = "text"
        elif dtype in (nw.Date, nw.Datetime):
            kind = "date"
        else:
            kind = self._kind_of_values(name)
        return Column(name, kind)

    @property
    def _has_any_categories(self) -> bool:
        """Whether categories may be numbers or dates; elsewhere they are words."""
        return bool(self.given.implementation.is_pandas_like() or self.given.implementation.is_pyarrow())

    def _column_of_categories(self, name: str) -> Column:
        try:
            first = self._eager([name]).head(1).to_arrow().column(0)
        except (pa.ArrowException, TypeError):
            return Column(name, "other")
        kept_as, kind = first.type, kind_of(first.type)
        is_ordered = pa.types.is_dictionary(kept_as) and kept_as.ordered and kind != "other" and first.num_chunks
        return Column(name, kind, level_order=tuple(first.chunk(0).dictionary.to_pylist()) if is_ordered else None)

    def _kind_of_values(self, name: str) -> Kind:
        """The kind of values in a column without a type of its own."""
        try:
            return kind_of(self._arrow([name]).schema.field(0).type)
        except (pa.ArrowException, BadInput, TypeError):
            return "other"

    def why_no_key(self, column: str) -> str:
        try:
            values = self._eager([column]).get_column(column).drop_nulls().head(100_000).to_list()
        except Exception:
            return super().why_no_key(column)
        kinds = list({type(value).__name__: value for value in values})
        if kinds == ["Interval"]:
            return "holds intervals; make them words, in pandas with .astype(str)"
        if len(kinds) < 2:
            return super().why_no_key(column)
        return f"mixes values of the types {' and '.join(kinds[:3])}; make them all text or all numbers"

    @cached_property
    def n_rows(self) -> int:
        if isinstance(self.frame, nw.DataFrame):
            return len(self.frame)
        return int(self.frame.select(nw.len()).collect("pyarrow").item())

    def _eager(self, columns: Sequence[str]) -> nw.DataFrame[Any]:
        if isinstance(self.frame, nw.DataFrame):
            # Select by position in the frame: in polars, selecting a column named '*' selects all columns.
            return self.frame[list(columns)]
        return nw.from_native(self._renamed(columns).collect("pyarrow").to_arrow().rename_columns(list(columns)), eager_only=True)

    def _renamed(self, columns: Sequence[str]) -> nw.LazyFrame[Any]:
        """Columns of a lazy frame under names that no engine can misread."""
        assert isinstance(self.frame, nw.LazyFrame)
        names = new_names(len(columns))
        if self.frame.implementation.is_duckdb():
            chosen: nw.LazyFrame[Any] = nw.from_native(renamed(self.frame.to_native(), columns, names))
            return chosen
        return self.frame.rename(dict(zip(columns, names, strict=True))).select(names)

    def _arrow(self, columns: Sequence[str]) -> pa.Table:
        try:
            return in_plain_form(self._eager(columns).to_arrow().select(list(columns)))
        except (pa.ArrowTypeError, pa.ArrowInvalid, OverflowError):
            raise BadInput(
                f"A column among {', '.join(columns)} of {self.name} mixes values of several types. Make each column all text or all "
                "numbers."
            ) from None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._arrow(columns).to_batches(BATCH_ROWS)

    def counts(
        self, columns: Sequence[str], *, weight: str | None = None, recodes: Mapping[str, EncodedColumn] | None = None
    ) -> GroupedCounts:
        has_numbers = weight is None or self._kind(weight) in ("integer", "number")
        if isinstance(self.frame, nw.DataFrame) or recodes or not has_numbers:
            return super().counts(columns, weight=weight, recodes=recodes)
        names = [*columns, *([] if weight is None else [weight])]
        return count_groups(self._renamed(names), len(columns), weight=weight, name=self.name, least=self.least_weight)

    def _kind(self, column: str) -> Kind:
        return next(c.kind for c in self._columns if c.name == column)

    # ------------------------------------------------------------------ writing

    def changed(self, changes: Changes) -> Frame:
        changes.check([c.name for c in self._columns], lambda: self.n_rows)
        if isinstance(self.frame, nw.DataFrame) and not self.frame.implementation.is_pyarrow():
            native = self._changed_frame(self.frame, changes).to_native()
            return native.lazy() if isinstance(self.given, nw.LazyFrame) else native
        table = self._changed_table(changes)
        if self.frame.implementation.is_duckdb():
            return self._as_relation(table, changes)
        return (
            in_form_of(table, changed_schema(self.native_frame.schema, changes))
            if self.frame.implementation.is_pyarrow()
            else table
        )

    def _as_relation(self, table: pa.Table, changes: Changes) -> Frame:
        """A DuckDB relation whose columns have the types that they had, unless they were changed to others."""
        import duckdb

        native = self.native_frame
        kept_as = dict(zip(native.columns, native.types, strict=True))
        relation = duckdb.from_arrow(table)
        retyped = {*changes.recodes, *changes.treated}
        types = [new if name in retyped else kept_as[name] for name, new in zip(relation.columns, relation.types, strict=True)]
        names = map(quoted, relation.columns)
        return relation.project(", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in zip(names, types, strict=True)))

    def _changed_table(self, changes: Changes) -> pa.Table:
        table = changed_table(self._arrow([c.name for c in self._columns]), 0, changes)
        return table if changes.order is None else table.take(as_arrow(changes.order))

    def write(self, path: str | Path, changes: Changes) -> Path:
        changes.check([c.name for c in self._columns], lambda: self.n_rows)
        with atomic_path(path) as temporary:
            pq.write_table(self._changed_table(changes), temporary)
        return Path(path)

    def _changed_frame(self, frame: nw.DataFrame[Any], changes: Changes) -> nw.DataFrame[Any]:
        """Make all changes in a frame of pandas or polars, in its own types."""
        for name, change in changes.columns.items():
            if change.treated is not None:
                frame = frame.with_columns(_treated(frame, name, change.treated))
                continue
            is_missing = np.zeros(len(frame), dtype=bool)
            if change.written is not None:
                plain = one_array(frame[[name]].to_arrow().column(0))
                levels = change.levels_of(with_values(plain, change.rows, change.values), 0)
                if change.is_recoded:
                    frame = frame.with_columns(_level_column(frame, name, change.written, levels))
                    continue
                is_missing = levels < 0
            native = frame.get_column(name).to_native()
            if isinstance(getattr(native.dtype, "pyarrow_dtype", None), pa.DataType):
                # pandas stores this column as Arrow does, and cannot put values into all types of Arrow.
                array = type(native.array)(changed_table(frame[[name]].to_arrow(), 0, changes).column(0))
                frame = frame.with_columns(nw.from_native(type(native)(array, index=native.index, name=name), series_only=True))
                continue
            if len(change.rows):
                assert change.values is not None
                frame = frame.with_columns(_scattered(frame, name, change.rows, change.values))
            is_missing[change.blanks] = True
            if is_missing.any():
                is_kept = nw.new_series("is_kept", (~is_missing).tolist(), nw.Boolean(), backend=frame.implementation)
                frame = frame.with_columns(frame.select(nw.when(is_kept).then(nw.col(name)).alias(name)).get_column(name))
        frame = frame.drop(*[name for name in changes.dropped if name in frame.columns])
        return frame if changes.order is None else frame[changes.order.tolist()]


def _level_column(frame: nw.DataFrame[Any], name: str, written: WrittenLevels, levels: NDArray[np.int32]) -> nw.Series[Any]:
    labels = (*written.labels, None)
    kind = nw.Enum(list(written.labels)) if written.is_ordered else nw.String()
    return nw.new_series(name, [labels[level] for level in levels.tolist()], kind, backend=frame.implementation)


def _treated(frame: nw.DataFrame[Any], name: str, values: pa.Array) -> nw.Series[Any]:
    """A column of new values, of the type that the column had where that holds them."""
    before = frame.get_column(name)
    new = nw.new_series(name, values.to_pylist(), backend=frame.implementation)
    if before.dtype == new.dtype or (not before.dtype.is_numeric() and new.dtype.is_numeric()):
        return new
    try:
        typed = new.cast(before.dtype)
        return typed if typed.cast(new.dtype).to_list() == new.to_list() else new
    except Exception:
        # Each library has errors of its own for values that do not fit.
        return new


def _scattered(frame: nw.DataFrame[Any], name: str, rows: NDArray[np.int64], values: pa.Array) -> nw.Series[Any]:
    series = frame.get_column(name)
    if pa.types.is_null(values.type):
        return series
    if frame.implementation.is_polars():
        if series.dtype in (nw.Categorical, nw.Enum):
            # polars puts no text into a categorical column. Text columns accept it, and the categories are known.
            return series.cast(nw.String).scatter(rows.tolist(), values.to_pylist()).cast(series.dtype)
        # polars takes moments given as a list for whole numbers of the column's unit, whatever unit they have.
        new = nw.from_arrow(pa.table({name: values}), backend=frame.implementation).get_column(name).cast(series.dtype)
        return series.scatter(rows.tolist(), new)
    # A list would be taken for 64-bit numbers, and may not fit into columns of fewer bits or with missing values.
    native = series.to_native().copy()
    native.iloc[rows] = type(native)(values.to_pylist(), dtype=native.dtype).array
    scattered: nw.Series[Any] = nw.from_native(native, series_only=True)
    return scattered


def _first_sentence(problem: Exception) -> str:
    return str(problem).strip().split("\n")[0].rstrip(".")


# How many records has each combination of values, as counted by the engine that holds the data?
#
# The same few lines count in DuckDB, polars and Spark, through narwhals. Only the combinations are returned, never records.


def new_names(n_names: int, kind: str = "value") -> list[str]:
    """Names that no user's column has and that every engine takes as plain names."""
    return [f"__rarecell_{kind}_{number}" for number in range(n_names)]


def count_groups(frame: nw.LazyFrame[Any], n_columns: int, *, weight: str | None, name: str, least: float = 1.0) -> GroupedCounts:
    """Group a frame by its first ``n_columns`` columns.

    The columns are named by :func:`new_names`, because engines give dots and asterisks in names a special meaning. The
    weight column, if any, follows the grouped ones. ``weight`` and ``name`` are the user's words for the weights and the data; weights below ``least`` are refused.
    """
    names = new_names(n_columns + 1)
    n, total, smallest, usable = new_names(4, "sum")
    aggregates = [nw.len().alias(n)]
    if weight is not None:
        value = nw.col(names[-1]).cast(nw.Float64)
        is_usable = value.is_finite() & (value.abs() < LARGEST_WEIGHT)
        units = nw.when(is_usable).then((value * WEIGHT_UNITS).round(0)).otherwise(0.0)
        aggregates += [
            units.cast(nw.Int64).sum().alias(total),
            nw.when(is_usable).then(value).otherwise(1.0).min().alias(smallest),
            nw.when(is_usable).then(1).otherwise(0).sum().alias(usable),
        ]
    grouped = frame.group_by(names[:-1]).agg(*aggregates).collect("pyarrow").to_arrow()
    counts = grouped.column(n).to_numpy().astype(np.int64)
    sums = None
    if weight is not None:
        n_usable = sum(grouped.column(usable).to_pylist())
        check_weights(
            name, weight, min(grouped.column(smallest).to_pylist(), default=1.0), int(counts.sum()) - n_usable, least=least
        )
        sums = np.array(grouped.column(total).to_pylist(), dtype=np.float64) / WEIGHT_UNITS
    return GroupedCounts(tuple(_encoded(grouped.column(column)) for column in names[:-1]), counts, sums)


def _encoded(column: pa.ChunkedArray) -> EncodedColumn:
    return unified([code_chunk(chunk) for chunk in column.chunks])
