"""What does each column of the data mean, and which table do the keys form?

A :class:`Microdata` is a source of records together with the role of each column. All names are checked when it is
created, before anything is read; its table is counted on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rarecell.choices import READ_MISSING
from rarecell.data import written
from rarecell.data.coding import Coding, code_levels
from rarecell.data.counting import CountedTable, KeyCounting, number_of_each
from rarecell.data.describe import proposed_missing_codes
from rarecell.data.levels import settle, whole_numbers
from rarecell.data.likeness import Likeness
from rarecell.data.missing_codes import joined_codes, parse_missing_codes, with_missing_codes
from rarecell.data.names import check_names, columns_together, nested_areas
from rarecell.data.whole_file import WholeFile
from rarecell.engine import open_source
from rarecell.engine.arrays import LEAST_RELATIVE_WEIGHT, EncodedColumn, KeyCells, code_chunk, unified
from rarecell.engine.source import Source, levels_of, weights_of
from rarecell.engine.streaming import record_cells
from rarecell.errors import BadInput, UnknownChoice, UnknownColumns
from rarecell.machine.memory import MemoryLimit
from rarecell.outcome.plain import Shown
from rarecell.outcome.words import counted, listed
from rarecell.table.contingency import Categories, ContingencyTable

if TYPE_CHECKING:
    import pyarrow as pa

    from rarecell.edges import Array, Frame, Level, ReadJson
    from rarecell.engine.changes import Changes, Recodes
    from rarecell.engine.duck import EngineSettings
    from rarecell.engine.source import ProductColumns

CODES_IN_MEMORY = 512 * 2**20
"""Records are coded in memory up to this many bytes of codes; larger data are counted by their engine."""

MOST_SORTED = 5_000_000
"""Of more records that stay in a file, none are drawn to compare levels: 30 million take half a minute and 4 GB."""


class Microdata(Shown):
    """Records together with the role of each column.

    Parameters
    ----------
    data : frame
        A path, a frame of pandas, polars, pyarrow, DuckDB or Spark, or a source from :func:`rarecell.engine.open_source`.
    keys : sequence of str
        Columns that an intruder could know, in the order in which tables list them.
    weight : str, optional
        Column of survey weights: the number of persons that each record represents.
    population : float, optional
        Size of the population. With it, weights need only be above 0, as those with a mean of 1: what uses them scales them up.
    household, geography, strata, id : str, optional
        Further columns, each with one role. A geography or stratum may also be a key; nested areas are named from coarse
        to fine, as in ``"region>district"``. Several columns that identify a household or a record together are separated by commas.
    sensitive : sequence of str
        Columns whose values an intruder would like to learn.
    missing : str
        What happens to a missing key value: ``"level"`` makes it a level of its own, ``"drop"`` drops its record, and
        ``"refuse"`` refuses the data.
    coding : mapping of str to Coding, mapping or str, optional
        For each key that needs it, how its values become levels.
    missing_codes : str, optional
        Codes of any columns that mean "missing", as in ``"age=-9,99; income=998"``; ``"proposed"`` for those that
        :func:`rarecell.data.describe.proposed_missing_codes` proposes.
    hierarchies : mapping of str to str or Path, optional
        For each key that has one, a CSV file with nested groups of its levels.
    sql : str, optional
        A query to read instead of all of ``data``.
    settings : EngineSettings, optional
        How much of the machine may be used for reading.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = pa.table({"age": [31, 31, 62, None], "region": ["01", "02", "02", "02"]})
    >>> data = Microdata(people, keys=["age", "region"])
    >>> print(data.table())
    4 records on 2 keys fall into 4 of 6 cells; 4 cells hold a single record.
    >>> data.summary_lines()[0]
    'Missing key values are kept as a level of their own: 1 in age.'
    """

    def __init__(
        self,
        data: Frame,
        keys: Sequence[str],
        *,
        weight: str | None = None,
        population: float | None = None,
        household: str | None = None,
        geography: str | None = None,
        strata: str | None = None,
        sensitive: Sequence[str] = (),
        id: str | None = None,
        missing: str = "level",
        coding: Mapping[str, Coding | ReadJson | str] | None = None,
        missing_codes: str | None = None,
        hierarchies: Mapping[str, str | Path] | None = None,
        sql: str | None = None,
        settings: EngineSettings | None = None,
    ) -> None:
        if missing not in READ_MISSING:
            raise UnknownChoice.of("The option 'missing'", missing, READ_MISSING)
        self.source: Source = open_source(data, sql=sql, settings=settings)
        if population is not None:
            self.source.least_weight = LEAST_RELATIVE_WEIGHT
        self._memory = MemoryLimit.of() if settings is None else settings.memory
        self.keys: tuple[str, ...] = (keys,) if isinstance(keys, str) else tuple(keys)
        self.weight, self.household, self.geography = weight, household, geography
        self.strata, self.id = strata, id
        self.sensitive: tuple[str, ...] = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
        self.missing = missing
        given_codings, given_hierarchies = dict(coding or {}), dict(hierarchies or {})
        if missing_codes is not None:
            codes = parse_missing_codes(missing_codes)
            self.source.missing_codes = proposed_missing_codes(self.source) if codes is None else codes
        self.columns = with_missing_codes({column.name: column for column in self.source.columns()}, self.source.missing_codes)
        self.areas: tuple[str, ...] = () if geography is None else nested_areas(geography)
        check_names(self, [*given_codings], [*given_hierarchies])
        self.coding = {key: Coding.of(given, key=key) for key, given in given_codings.items()}
        self.hierarchies: dict[str, str | Path] = given_hierarchies
        self._counting = KeyCounting(
            self.source, self.columns, self.keys, self.weight, self.missing, self.coding, self.hierarchies
        )

    @property
    def native_frame(self) -> Frame:
        """The data frame that was given, or None when the records are in a file or on a server."""
        return self.source.native_frame

    # ------------------------------------------------------------------ the table

    @property
    def n_records(self) -> int:
        """Number of records in the data, including dropped ones."""
        return self.source.n_rows

    def table(self, *, records: bool | None = None) -> ContingencyTable:
        """The contingency table of the keys, with the coarsenings that the hierarchies give.

        Parameters
        ----------
        records : bool, optional
            Whether the table says which cell each record is in. By default it does as long as the data are small enough
            to be coded in memory; for larger data the cells come from :meth:`record_cells`.
        """
        wants_records = self._fits_in_memory if records is None else records
        if wants_records not in self._counted:
            counted = self._counting.count(wants_records)
            self._counted[wants_records] = counted
            if self._counting.grouped_keys:
                likeness = self._likeness(counted.table, lambda: WholeFile.of(self, counted.table))
                self._counted[wants_records] = self._counting.grouped(counted, likeness)
        return self._counted[wants_records].table

    def likeness(self, table: ContingencyTable) -> Likeness:
        """What people at each level of each key are like; ``table`` is the table of these data."""
        return self._likeness(table, lambda: self.whole_file(table))

    def _likeness(self, table: ContingencyTable, read: Callable[[], WholeFile]) -> Likeness:
        # Records that stay in a file are drawn by sorting all of it, so those of a very large one are compared by their keys alone.
        if not table.knows_records and self.n_records > MOST_SORTED:
            return Likeness.of_counts(self, table)
        return Likeness.of_data(self, table, read())

    @property
    def declared_orders(self) -> frozenset[str]:
        """Keys whose levels the user or the source has declared to be ordered or unordered."""
        return self._counting.declared_orders()

    @cached_property
    def _counted(self) -> dict[bool, CountedTable]:
        return {}

    @property
    def _any_counted(self) -> CountedTable:
        self._counted or self.table()
        return next(iter(self._counted.values()))

    @cached_property
    def _fits_in_memory(self) -> bool:
        most = min(CODES_IN_MEMORY, self._memory.codes)
        return self.source.keeps_rows and self.source.approximate_rows * len(self.keys) * 4 <= most

    # ------------------------------------------------------------------ records

    def record_cells(self, table: ContingencyTable | None = None) -> Iterator[NDArray[np.int64]]:
        """The cell of each record, in record order and a batch at a time; -1 for a dropped record.

        ``table`` is the table of these data, or one with the same categories and cells.
        """
        return record_cells(self.source, self.key_cells(table or self._any_counted.table))

    def check_id(self) -> None:
        """Refuse, before anything is counted, data whose records have neither a position nor a usable id."""
        self.source.check_id(self.id_column)

    def key_cells(self, table: ContingencyTable) -> KeyCells:
        """The cells of a table of these data, and how key values become codes."""
        return KeyCells(self.keys, self._any_counted.lookups, table.cells)

    def lookup(self, key: str) -> EncodedColumn:
        """The distinct values of a key as they stand in the data, and the code of each; −1 for a dropped value."""
        return self._any_counted.lookups[self.keys.index(key)]

    def wider(self, columns: Sequence[str]) -> Microdata:
        """The same data with further columns added after the keys; a missing value is a level."""
        return Microdata(
            self.source,
            [*self.keys, *columns],
            weight=self.weight,
            household=self.household,
            id=self.id,
            missing="level",
            coding=self.coding,
            hierarchies=self.hierarchies,
        )

    def record_names(self, rows: NDArray[np.int64]) -> list[Level]:
        """What identifies these records when equal ones are drawn: the value of the id column, or else the row number."""
        if self.id is None:
            return list(rows)
        values = self.values_at(rows, self.id_columns)
        if len(values) == 1:
            return list(values[self.id_columns[0]].to_pylist())
        return [
            "/".join(map(str, of_record)) for of_record in zip(*(column.to_pylist() for column in values.values()), strict=True)
        ]

    def drawn_records(
        self, table: ContingencyTable, numbers: NDArray[np.int64], *, seed: int, columns: Sequence[str] = ()
    ) -> tuple[Any, dict[str, pa.Array]]:
        """Locate records that a table of counts only numbers, and read their values of some columns.

        Number k within a cell is its k-th record in drawing order. The result holds row numbers, or ids when records have
        no position.
        """
        of_cells = table.cell_of(numbers)
        rank = numbers - table.first_row[of_cells]
        return self.source.drawn_records(
            self.key_cells(table), of_cells, rank, id_column=self.id_column, seed=seed, columns=columns
        )

    def column_codes(
        self, columns: Sequence[str], rows: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int32], tuple[Categories, ...]]:
        """Code any columns as levels, in record order; a missing value is a level and comes last.

        Keys are coded as in the table, other columns by their values. With ``rows``, only the records at these positions.
        """
        unknown = [name for name in columns if name not in self.columns]
        if unknown:
            raise UnknownColumns.among(unknown, list(self.columns))
        if rows is None:
            encoded = self.source.encode(columns).columns
        else:
            taken = self.source.take(rows, columns)
            encoded = tuple(unified([code_chunk(taken[name])]) for name in columns)
        codes = np.empty((len(encoded[0].codes), len(columns)), dtype=np.int32, order="F")
        categories = []
        for position, (name, column) in enumerate(zip(columns, encoded, strict=True)):
            # Groups and quantiles depend on all records.
            if name in self.keys and (rows is not None or self.coding.get(name, Coding()).groups_levels):
                codes[:, position] = self._any_counted.codes_of(self.keys.index(name), column)
                categories.append(self._any_counted.table.categories[self.keys.index(name)])
                continue
            raw = settle(column.values, self.columns[name], decimal_mark=self.source.decimal_mark)
            order = self.columns[name].level_order
            coded = code_levels(name, raw, number_of_each(column, None), self.coding.get(name, Coding()), level_order=order)
            codes[:, position] = coded.code_of_value[column.codes]
            categories.append(Categories(name, coded.levels, coded.is_ordered, self.columns[name].value_labels))
        return codes, tuple(categories)

    def value_codes(self, column: str) -> tuple[NDArray[np.int32], Categories]:
        """Code a column by its values as they stand in the data, in record order, even if it is a key that is recoded."""
        encoded = self.source.encode([column]).columns[0]
        raw = settle(encoded.values, self.columns[column], decimal_mark=self.source.decimal_mark)
        coded = code_levels(column, raw, number_of_each(encoded, None), Coding(), level_order=self.columns[column].level_order)
        return coded.code_of_value[encoded.codes], Categories(
            column, coded.levels, coded.is_ordered, self.columns[column].value_labels
        )

    def with_products_of_margins(
        self, factors: Sequence[tuple[Sequence[int], int]], columns: ProductColumns, totals: Sequence[str]
    ) -> tuple[Any, tuple[int, ...], tuple[float, ...]]:
        """A frame with columns computed from the counts of some sets of keys, for data whose cells stay in their engine.

        See :meth:`rarecell.engine.source.Source.with_products_of_margins`.
        """
        self._counting.refuse_groups()
        coded = {
            key: self._counting.code(key, *values_and_counts)
            for key, values_and_counts in levels_of(self.source, self.keys).items()
        }
        self._counting.refuse_missing(list(coded.values()))
        lookups = tuple(EncodedColumn(coded[key].values, coded[key].coded.code_of_value) for key in self.keys)
        none = np.empty((0, len(self.keys)), dtype=np.int32)
        return self.source.with_products_of_margins(KeyCells(self.keys, lookups, none), factors, columns, totals)

    def record_weights(self) -> NDArray[np.float64] | None:
        """The weight of each record, or None without a weight column."""
        return None if self.weight is None else weights_of(self.source, self.weight)

    @cached_property
    def household_columns(self) -> tuple[str, ...]:
        """The columns that identify a household together; empty without a household."""
        return columns_together(self.household, self.columns, "household")

    @cached_property
    def id_columns(self) -> tuple[str, ...]:
        """The columns that name a record together; empty without an id."""
        return columns_together(self.id, self.columns, "id")

    @property
    def id_column(self) -> str | None:
        """The single column by which an engine finds a record again; None if there is none, or if it takes several."""
        if len(self.id_columns) > 1 and not self.source.keeps_rows:
            raise BadInput(
                f"The records of {self.source.name} have no order and are found again by their id, which must be one column. Join "
                f"{' and '.join(self.id_columns)} into one column first."
            )
        return self.id_columns[0] if len(self.id_columns) == 1 else None

    def household_codes(self) -> NDArray[np.int64] | None:
        """A number for the household of each record, or None without such a column; a record without one is its own household."""
        return None if self.household is None else self._household_codes

    @cached_property
    def _household_codes(self) -> NDArray[np.int64]:
        return self.numbers_of(self.household_columns)

    def numbers_of(self, columns: Sequence[str]) -> NDArray[np.int64]:
        """A number for the group of records that share the values of these columns; a record that lacks one is its own group.

        Groups are numbered in the order of their values, which is that of :meth:`column_codes`.
        """
        of_record, lacks = self._identity(columns[0])
        for name in columns[1:]:
            codes, lacks_this = self._identity(name)
            of_record = np.unique(of_record * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
            lacks = lacks | lacks_this
        alone = np.flatnonzero(lacks)
        if len(alone):
            of_record = of_record.copy()
            of_record[alone] = of_record.max(initial=0) + 1 + np.arange(len(alone))
        return of_record

    def _identity(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The rank of each record's value in a column, and whether it is missing.

        Columns that identify have as many values as a file has households. Whole numbers, the usual case, are ranked without being looked
        at one by one.
        """
        column = self.columns.get(name)
        if column is not None and not column.user_missing and name not in self.coding:
            encoded = self.source.encode([name]).columns[0]
            numbers = whole_numbers(encoded.values)
            if numbers is not None:
                occurring = np.flatnonzero(np.bincount(encoded.codes, minlength=len(numbers)))
                rank = np.empty(len(numbers), dtype=np.int64)
                rank[occurring[np.argsort(numbers[occurring], kind="stable")]] = np.arange(len(occurring))
                return rank[encoded.codes], np.zeros(len(encoded.codes), dtype=bool)
        codes, (categories,) = self.column_codes([name])
        of_record = codes[:, 0].astype(np.int64)
        return of_record, (of_record == categories.n_levels - 1) & categories.has_missing

    def whole_file(self, table: ContingencyTable) -> WholeFile:
        """Every column as codes, of all records or of a sample, read once; ``table`` is the table of these data."""
        if table.knows_records not in self._whole_files:
            self._whole_files[table.knows_records] = WholeFile.of(self, table)
        return self._whole_files[table.knows_records]

    @cached_property
    def _whole_files(self) -> dict[bool, WholeFile]:
        return {}

    def values_at(self, rows: NDArray[np.int64], columns: Sequence[str]) -> dict[str, pa.Array]:
        """Values of columns at given record positions, as they stand in the data."""
        return self.source.take(rows, columns)

    @cached_property
    def recodes(self) -> Recodes:
        """For each key whose coding changes values, the level released in place of each value."""
        return written.recodes_of(self._any_counted, self.coding)

    def changed(self, changes: Changes) -> Frame:
        """A frame like the one given, or a pyarrow table for a file, with these changes and levels for recoded keys."""
        frame = self.source.changed(self._with_recodes(changes))
        return written.with_types(frame, self.source, self.recodes) if self.native_frame is None else frame

    def write(self, path: str | Path, changes: Changes) -> Path:
        """Write the data in their own format, with these changes and levels for recoded keys."""
        return self.source.write(path, self._with_recodes(changes))

    def _with_recodes(self, changes: Changes) -> Changes:
        return replace(changes, recodes={**changes.recodes, **self.recodes}, id_column=self.id_column)

    def write_cell_values(self, path: Path, table: ContingencyTable, values: Mapping[str, Array]) -> None:
        """Write the values of each record's cell, under its id or else its keys, for records without a position."""
        named = {key: key for key in self.keys} if self.id_column is None else {"record": self.id_column}
        self.source.write_cell_values(path, self.key_cells(table), values, named)

    def read_back(self, written: Path) -> Frame:
        """Read back what :meth:`write` wrote."""
        return self.source.read_back(written)

    # ------------------------------------------------------------------ words

    @property
    def n_missing(self) -> dict[str, int]:
        """Number of records with a missing value, for each key."""
        return dict(self._any_counted.n_missing)

    @property
    def n_dropped(self) -> int:
        """Number of records left out of the table because a key is missing."""
        return self._any_counted.n_dropped

    def summary_lines(self) -> list[str]:
        """What a reader must know about the data: first what was done with missing values, then how values were read."""
        counted = self._any_counted
        lacking = listed([f"{number:,} in {key}" for key, number in counted.n_missing.items() if number])
        if not lacking:
            first = "No key value is missing."
        elif self.missing == "level":
            first = f"Missing key values are kept as a level of their own: {lacking}."
        else:
            first = f"{counted.n_dropped:,} of {self.n_records:,} records have a missing key value and are left out: {lacking}."
        levels = ", ".join(f"{c.key} {c.n_levels}" for c in counted.table.categories)
        return [
            first,
            f"{self.source.name}: {self.n_records:,} records; levels of the keys: {levels}.",
            *self.source.notes,
            *([f"Read as missing: {joined_codes(self.source.missing_codes)}."] if self.source.missing_codes else ()),
            *counted.notes,
        ]

    def __repr__(self) -> str:
        return f"<Microdata: {self.source.name}, keys {', '.join(self.keys)}>"

    def __str__(self) -> str:
        return f"Microdata of {self.source.name} with {counted(len(self.keys), 'key')}: {', '.join(self.keys)}."
