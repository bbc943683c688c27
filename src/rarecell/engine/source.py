"""What does the program need from data, wherever they are stored?

An :class:`Engine` lists its columns, hands out any of them in record order, and writes itself back with some values replaced. A
:class:`Source` is an engine that can also count combinations of values, code and sample its records: that follows from the former,
and is overridden where an engine can do better. Values are Arrow arrays throughout; nothing above this package sees a data frame.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.engine.arrays import (
    CodedChunk,
    CountedPairs,
    EncodedColumn,
    EncodedRecords,
    GroupedCounts,
    KeyCells,
    Kind,
    as_arrow,
    as_numpy,
    check_record_weights,
    code_chunk,
    decoded,
    kind_of,
    recoded_column,
    unified,
)
from rarecell.engine.columnar.write import changed_table
from rarecell.engine.places import Watch, files_hash
from rarecell.engine.streaming import counted_pairs, drawn_rows
from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.edges import Array, Frame, Level
    from rarecell.engine.changes import Changes, WrittenLevels
    from rarecell.engine.duck import EngineSettings

BATCH_ROWS = 262_144
"""Number of records handed out at a time."""

MOST_BYTES_OF_CODES = 128 * 2**20
"""A source keeps the codes of columns up to this many bytes."""

ProductColumns = Callable[[Any, int, Any, Any], Iterable[tuple[str, Any]]]
"""Function that gives names and engine columns in order; a column may use those before it."""


@dataclass(frozen=True)
class StoredDate:
    """How numbers stand for dates in statistics packages: as days, seconds or milliseconds since the start of a day.

    Attributes
    ----------
    origin : date
        The day from which is counted.
    per_day : int
        Units in a day.
    has_leap_seconds : bool
        Whether leap seconds are counted, too; then moments are late by up to half a minute.

    Examples
    --------
    >>> StoredDate(datetime.date(1960, 1, 1), 1).moments([0, 59, None])
    (datetime.date(1960, 1, 1), datetime.date(1960, 2, 29), None)
    """

    origin: datetime.date
    per_day: int
    has_leap_seconds: bool = False

    def moments(self, numbers: Sequence[float | None]) -> tuple[datetime.date | None, ...]:
        """The dates that numbers stand for, with the time of the day unless all of them are at midnight.

        Raises
        ------
        OverflowError
            If one lies before the year 1 or after 9999.
        """
        start = datetime.datetime.combine(self.origin, datetime.time())
        moments: list[datetime.datetime | None] = []
        for number in numbers:
            days, rest = (0, 0) if number is None else divmod(number, self.per_day)
            moment = start + datetime.timedelta(days, rest * 86_400 / self.per_day)
            moments.append(None if number is None else moment)
        if all(moment is None or moment.time() == datetime.time() for moment in moments):
            return tuple(None if moment is None else moment.date() for moment in moments)
        return tuple(moments)

    def cut(self, numbers: NDArray[np.float64], unit: str) -> NDArray[np.float64]:
        """The numbers of the first day of each month, quarter or year; NaN stays."""
        origin, known = np.datetime64(self.origin, "D"), ~np.isnan(numbers)
        days = origin + np.floor(numbers[known] / self.per_day).astype(np.int64)
        if unit == "quarter":
            months = days.astype("datetime64[M]")
            first = months - months.astype(np.int64) % 3
        else:
            first = days.astype("datetime64[M]" if unit == "month" else "datetime64[Y]")
        cut = np.full_like(numbers, np.nan)
        cut[known] = (first.astype("datetime64[D]") - origin).astype(np.int64) * float(self.per_day)
        return cut


@dataclass(frozen=True)
class Column:
    """A column and what its source says about it.

    Attributes
    ----------
    kind : Kind
        ``untyped`` is text whose values decide whether they are numbers; ``other`` cannot be a key.
    value_labels : mapping of level to str
        Labels of codes, as statistics packages store them.
    user_missing : tuple of level
        Codes that the source declares to mean "missing", and ranges ``(low, high)`` of such codes.
    level_order : tuple of level or None
        The order of values that the source declares, if any.
    is_ordered : bool or None
        Whether neighbouring values are alike, if the source says so; None leaves it to the kind.
    label : str
        What the source says the column is, if it does.
    stored_date : StoredDate or None
        How its numbers stand for dates, if they do.
    """

    name: str
    kind: Kind
    value_labels: Mapping[Level, str] = field(default_factory=dict)
    user_missing: tuple[Level, ...] = ()
    level_order: tuple[Level, ...] | None = None
    is_ordered: bool | None = None
    label: str = ""
    stored_date: StoredDate | None = None

    def is_user_missing(self, value: Level) -> bool:
        """Whether the source declares this value to mean "missing"."""
        for declared in self.user_missing:
            if isinstance(declared, tuple):
                low, high = declared
                if isinstance(value, (int, float)) and low <= value <= high:
                    return True
            elif value == declared or (self.kind == "untyped" and _is_same_number(value, declared)):
                return True
        return False


def _is_same_number(text: Level, declared: Level) -> bool:
    """Whether a text of a file without types is another spelling of a declared number: 99.0 for 99."""
    if not isinstance(text, str) or isinstance(declared, str) or text.strip("+-.0123456789 ") != "":
        return False
    try:
        return bool(float(text) == declared)
    except ValueError:
        return False


class Engine(ABC):
    """What a kind of data says of itself: its columns, its records in order, and how it is written back.

    A new kind of data is a :class:`Source` with :meth:`columns`, :attr:`n_rows`, :meth:`batches` and :meth:`write`.
    """

    name: str
    """What messages call the data."""

    suffix: str = ".parquet"
    """Ending of the name of the file that :meth:`write` writes."""

    decimal_mark: str = "."
    """The decimal mark of numbers that are stored as text."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was guessed or chosen when reading the data and their owner should know."""
        return ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that hold the data; none for data in memory, in a database or from a query."""
        return ()

    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns in order."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of records."""

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns, in record order."""

    def write(self, path: str | Path, changes: Changes) -> Path:
        """Write the data again in their own format, with all changes at once.

        The file has a temporary name until it is complete, and only its owner can read it. Everything that is not changed
        stays as it is: other values, types, labels, and the order of records and columns.
        """
        raise BadInput(f"{self.name} cannot be written back; write its data to a Parquet file first.")


class Source(Engine):
    """Data that can be counted, read in order and written back.

    Everything here follows from what an :class:`Engine` says, and is overridden where an engine can do better.
    """

    sheets: tuple[str, ...] = ()
    """The sheets of a workbook, known once it was read; empty for other data."""

    sheet: str = ""
    """The sheet that is read."""

    least_weight: float = 1.0
    """Survey weights below this are refused: a record stands for itself at least, unless weights are relative to each other."""

    missing_codes: Mapping[str, Sequence[str]] = MappingProxyType({})
    """Codes that mean "missing" according to the user, by column; the columns themselves list what the data declare."""

    @property
    def approximate_rows(self) -> int:
        """Number of records, approximate where an exact count would take a pass over the data."""
        return self.n_rows

    def why_no_key(self, column: str) -> str:
        """What a column of kind ``other`` holds, worded as the end of a sentence."""
        return "holds lists, binary data or other values that are neither numbers nor words nor dates"

    _watch: Watch | None = None

    def check_writable(self) -> None:
        """Refuse, before anything is computed, data that lack an optional part to be written back."""

    def watch(self) -> None:
        """Remember what the files hold now, so that :meth:`unchanged_hash` can tell whether they have changed."""
        if self.paths:
            self._watch = Watch(self.paths, self.name)

    def unchanged_hash(self) -> str | None:
        """SHA-256 of the files, or None without files; refuse files that changed since :meth:`watch` was called."""
        if self._watch is not None:
            return self._watch.unchanged_hash()
        return files_hash(self.paths) if self.paths else None

    # ------------------------------------------------------------------ reading

    def encode(self, columns: Sequence[str], *, weight: str | None = None) -> EncodedRecords:
        """Code each column as its distinct values and one code per record, in one pass over the data.

        Weights are checked to be numbers of persons. The codes of a file are kept, as far as memory allows, and not read again.
        """
        new = [name for name in dict.fromkeys(columns) if name not in self._codes]
        self._refuse_change()
        chunks: list[list[CodedChunk]] = [[] for _ in new]
        weights: list[NDArray[np.float64]] = []
        names = [*new, *([] if weight is None else [weight])]
        with ThreadPoolExecutor() as pool:
            for batch in self.batches(names) if names else ():
                for chunk, encoded in zip(chunks, pool.map(code_chunk, batch.columns[: len(new)]), strict=True):
                    chunk.append(encoded)
                if weight is not None:
                    weights.append(array_numbers(batch.column(len(new)), self.decimal_mark))
            read = dict(zip(new, pool.map(unified, chunks), strict=True))
        for name, column in read.items():
            self._keep_codes(name, column)
        encoded_columns = tuple(read[name] if name in read else self._codes[name] for name in columns)
        if weight is None:
            return EncodedRecords(encoded_columns)
        return EncodedRecords(encoded_columns, _checked_weights(self, weight, np.concatenate([np.empty(0), *weights])))

    _keeps_codes: bool = False
    """Whether columns that were coded once are kept; a frame in memory may change without our knowing."""

    def _refuse_change(self) -> None:
        """Raise when a file is no longer the one that was opened."""

    @cached_property
    def _codes(self) -> dict[str, EncodedColumn]:
        return {}

    def _keep_codes(self, name: str, column: EncodedColumn) -> None:
        n_bytes = sum(kept.codes.nbytes + kept.values.nbytes for kept in (*self._codes.values(), column))
        if self._keeps_codes and n_bytes <= MOST_BYTES_OF_CODES:
            self._codes[name] = column

    def counts(
        self, columns: Sequence[str], *, weight: str | None = None, recodes: Mapping[str, EncodedColumn] | None = None
    ) -> GroupedCounts:
        """Number of records, and sum of weights, for every combination of values of these columns.

        A column named in ``recodes`` is replaced first: a value equal to ``values[v]`` counts as the integer ``codes[v]``.
        """
        records = self.encode(columns, weight=weight)
        encoded = list(records.columns)
        for position, name in enumerate(columns):
            if recodes and name in recodes:
                encoded[position] = recoded_column(encoded[position], recodes[name])
        cells, counts, record_cell = collapse_records(
            [column.codes for column in encoded], [len(column.values) for column in encoded]
        )
        sums = None
        if records.weights is not None:
            sums = np.bincount(record_cell, weights=records.weights, minlength=len(counts)).astype(np.float64)
        grouped = tuple(
            EncodedColumn(column.values, np.ascontiguousarray(cells[:, position])) for position, column in enumerate(encoded)
        )
        return GroupedCounts(grouped, counts, sums)

    def take(self, rows: NDArray[np.int64], columns: Sequence[str]) -> dict[str, pa.Array]:
        """Values of these columns at these record positions, as they stand in the data."""
        positions = np.asarray(rows, dtype=np.int64)
        if len(columns) and all(name in self._codes and _is_exact(self._codes[name].values.type) for name in columns):
            self._refuse_change()
            coded = {name: self._codes[name] for name in columns}
            return {name: column.values.take(as_arrow(column.codes[positions])) for name, column in coded.items()}
        order = np.argsort(positions, kind="stable")
        in_order = positions[order]
        parts: list[pa.Table] = []
        first = 0
        for batch in self.batches(columns):
            low, high = np.searchsorted(in_order, [first, first + batch.num_rows])
            if high > low:
                at_positions = batch.take(as_arrow(in_order[low:high] - first))
                parts.append(pa.table([decoded(array) for array in at_positions.columns], names=list(columns)))
            first += batch.num_rows
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        if not parts:
            return {name: pa.nulls(0) for name in columns}
        joined = pa.concat_tables(parts).take(as_arrow(back))
        return {name: joined.column(name).combine_chunks() for name in columns}

    # ------------------------------------------------------------------ records by their cell

    def drawn_records(
        self,
        cells: KeyCells,
        of_cells: NDArray[np.int64],
        rank: NDArray[np.int64],
        *,
        id_column: str | None,
        seed: int,
        columns: Sequence[str] = (),
    ) -> tuple[Any, dict[str, pa.Array]]:
        """Locate the ``rank[r]``-th record, in drawing order, of each cell ``of_cells[r]``, and read its values of ``columns``.

        A place is a row number, or the id of a record without a position.
        """
        rows = drawn_rows(self, cells, of_cells, rank, id_column=id_column, seed=seed)
        return rows, self.take(rows, columns) if columns else {}

    def crossed(
        self, cells: KeyCells, keys: Sequence[str], columns: Sequence[str], *, most_values: int
    ) -> dict[str, dict[str, CountedPairs]]:
        """Pairs of each column with each key, over all records with a cell; columns with over ``most_values`` are left out."""
        return counted_pairs(self, cells, keys, columns, most_values=most_values)

    # ------------------------------------------------------------------ records without a position

    keeps_rows: bool = True
    """False when records have no position of their own, as in a table spread over several machines."""

    finds_by_id: bool = False
    """True when records are found again by their ids instead of their position."""

    def numbered(self, id_column: str | None) -> Source:
        """The same data with a position for each record; records without one are numbered by their ids."""
        return self

    def places(self, rows: NDArray[np.int64]) -> Any:
        """What is needed to find the records at some positions again: the positions themselves, or ids."""
        return rows

    def rows_at(self, places: Any) -> NDArray[np.int64]:
        """The positions of records that were found again, where they have one: the inverse of :meth:`places`."""
        return np.asarray(places, dtype=np.int64)

    def check_id(self, column: str | None) -> None:
        """Refuse an id column by which records cannot be found again; None means there is no id column."""

    def write_cell_values(self, path: Path, cells: KeyCells, values: Mapping[str, Array], columns: Mapping[str, str]) -> None:
        """Write some ``columns``, under new names, and the values of its cell for every record without a position."""
        raise BadInput(f"The records of {self.name} have an order; write what belongs to each of them in that order.")

    def with_products_of_margins(
        self, cells: KeyCells, factors: Sequence[tuple[Sequence[int], int]], columns: ProductColumns, totals: Sequence[str]
    ) -> tuple[Any, tuple[int, ...], tuple[float, ...]]:
        """The frame with columns computed from Π (n of some keys / n)^power of each record, while the records stay in place.

        Parameters
        ----------
        cells : KeyCells
            The keys.
        factors : sequence of (sequence of int, int)
            Sets of keys, each with its power.
        columns : ProductColumns
            What to compute, one column after another, from the engine's functions, the number of records, the logarithm
            of the product, and the number of records with the same keys, which is the column ``cell_count``.
        totals : sequence of str
            Columns whose sums are returned.

        Returns
        -------
        frame, tuple of int, tuple of float
            The frame; the numbers of all records and of those that are alone with their keys; the sums.
        """
        raise BadInput(f"Counts of cliques only are for Spark frames; the cells of {self.name} can be counted: use record_risk.")

    # ------------------------------------------------------------------ what is written

    def changed(self, changes: Changes) -> Frame:
        """The data with all changes: a frame of the type given, or a pyarrow table for a file."""
        names = [column.name for column in self.columns()]
        changes.check(names, lambda: self.n_rows)
        table = changed_table(pa.Table.from_batches(self.batches(names)), 0, changes)
        return table if changes.order is None else table.take(as_arrow(changes.order))

    def read_back(self, written: Path) -> Frame:
        """Open what :meth:`write` wrote as data."""
        return written

    @property
    def settings_of_output(self) -> EngineSettings | None:
        """Settings for reading a file written from this source; None for the defaults."""
        return None

    @property
    def native_frame(self) -> Frame:
        """The data frame that was given, or None when the records are in a file or on a server."""
        return None

    def levels_read_back(self, column: str, written: WrittenLevels) -> tuple[Level, ...]:
        """How the levels of a column read once they are written."""
        return written.levels if written.only_blanks else written.labels


# What every source tells in the same way.


def levels_of(source: Source, columns: Sequence[str]) -> dict[str, tuple[pa.Array, NDArray[np.int64]]]:
    """For each column, its distinct values and how many records have each."""
    levels = {}
    for name in columns:
        grouped = source.counts([name])
        column = grouped.columns[0]
        numbers = np.zeros(len(column.values), dtype=np.int64)
        numbers[column.codes] = grouped.counts
        levels[name] = (column.values, numbers)
    return levels


def numbers_of(source: Engine, column: str) -> NDArray[np.float64]:
    """A column as floating-point numbers in record order; NaN where there is no number."""
    parts = [array_numbers(batch.column(0), source.decimal_mark) for batch in source.batches([column])]
    return np.concatenate(parts) if parts else np.empty(0)


def weights_of(source: Source, column: str, rows: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """The weight of each record, checked to be a number of persons; or, unchecked, the weights at some positions."""
    if rows is not None:
        return array_numbers(source.take(rows, [column])[column], source.decimal_mark)
    return _checked_weights(source, column, numbers_of(source, column))


def _checked_weights(source: Source, column: str, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    def value_at(row: int) -> Any:
        return source.take(np.array([row]), [column])[column][0].as_py()

    return check_record_weights(source.name, column, weights, value_at, least=source.least_weight)


def array_numbers(array: pa.Array, decimal_mark: str) -> NDArray[np.float64]:
    """Values as floating-point numbers; NaN where there is no number."""
    array = decoded(array)
    if kind_of(array.type) != "text":
        return _as_floats(array)
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    text = pc.utf8_trim_whitespace(array)
    if decimal_mark != ".":
        text = pc.replace_substring(text, decimal_mark, ".")
    is_number = pc.match_substring_regex(text, r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")
    return _as_floats(pc.if_else(is_number, text, pa.nulls(1, text.type)[0]))


def _is_exact(value_type: pa.DataType) -> bool:
    """Whether the codes of a column give back its values as they stand; floats and times may be written in several ways."""
    return bool(pa.types.is_string(value_type) or pa.types.is_integer(value_type) or pa.types.is_boolean(value_type))


def _as_floats(array: pa.Array) -> NDArray[np.float64]:
    floats = array.cast(pa.float64(), safe=False)
    return as_numpy(pc.fill_null(floats, as_arrow(np.array([np.nan]))[0]))
