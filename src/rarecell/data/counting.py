"""Which table do the keys of the data form?

Records are coded in memory or counted by their engine, and collapsed to occupied cells. The levels of every key are
settled on the way, and missing values are kept, dropped or refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records, count_values
from rarecell.data.coding import CodedLevels, Coding, code_levels
from rarecell.data.hierarchies import read_hierarchy
from rarecell.data.levels import settle
from rarecell.engine.arrays import EncodedColumn, code_by_value, plain_value
from rarecell.engine.source import Column, Source, levels_of
from rarecell.errors import BadInput
from rarecell.table.contingency import Categories, Coarsening, ContingencyTable
from rarecell.table.level_order import order_notes, with_meant_orders

if TYPE_CHECKING:
    import pyarrow as pa

    from rarecell.data.likeness import LevelProfiles, Likeness
    from rarecell.edges import Array, Level


@dataclass(frozen=True, eq=False)
class CodedKey:
    """The distinct values of a key as they stand in the data, the meaning of each, and the level of each."""

    key: str
    values: pa.Array
    meanings: tuple[Level, ...]
    coded: CodedLevels
    note: str | None


@dataclass(frozen=True, eq=False)
class CountedTable:
    """A table and what a reader must know about how it was counted; ``lookups`` gives the code of each value of each key."""

    table: ContingencyTable
    lookups: tuple[EncodedColumn, ...]
    meanings: tuple[tuple[Level, ...], ...]
    n_missing: dict[str, int]
    n_dropped: int
    notes: tuple[str, ...]

    @cached_property
    def code_of_raw(self) -> tuple[dict[Level, int], ...]:
        """For each key, the code of each value."""
        return tuple(code_by_value(lookup) for lookup in self.lookups)

    def codes_of(self, key: int, column: EncodedColumn) -> NDArray[np.int32]:
        """The code of a key for each record of a column of its values."""
        new_code = [self.code_of_raw[key][plain_value(value)] for value in column.values.to_pylist()]
        return np.asarray(np.array(new_code, dtype=np.int32)[column.codes])


@dataclass(frozen=True, eq=False)
class KeyCounting:
    """How the keys of a source are counted; :class:`~rarecell.data.microdata.Microdata` explains the fields."""

    source: Source
    columns: Mapping[str, Column]
    keys: tuple[str, ...]
    weight: str | None
    missing: str
    coding: Mapping[str, Coding]
    hierarchies: Mapping[str, str | Path]

    def count(self, wants_records: bool) -> CountedTable:
        """Count the table of the keys; with ``wants_records`` it knows the cell of each record."""
        numbers: NDArray[np.int64] | None = None
        recoded: dict[str, CodedKey] = {}
        if wants_records:
            records = self.source.encode(self.keys, weight=self.weight)
            columns, weights = records.columns, records.weights
        else:
            recoded = self._recoded_keys()
            recodes = {key: EncodedColumn(coded.values, coded.coded.code_of_value) for key, coded in recoded.items()}
            grouped = self.source.counts(self.keys, weight=self.weight, recodes=recodes)
            columns, weights, numbers = grouped.columns, grouped.weights, grouped.counts
        if not len(columns[0].codes):
            raise BadInput(f"There are no records in {self.source.name}, only names of columns.")

        coded_keys, new_codes = [], []
        for key, column in zip(self.keys, columns, strict=True):
            if key in recoded:
                coded_keys.append(recoded[key])
                new_codes.append(np.array(column.values.to_pylist(), dtype=np.int32))
            else:
                coded_keys.append(self.code(key, column.values, number_of_each(column, numbers)))
                new_codes.append(coded_keys[-1].coded.code_of_value)
        self.refuse_missing(coded_keys)
        n_levels = [len(coded.coded.levels) for coded in coded_keys]
        collapsed = collapse_records([column.codes for column in columns], n_levels, new_codes)
        return self._of_cells(coded_keys, *collapsed, numbers, weights)

    def code(self, key: str, values: pa.Array, numbers: NDArray[np.int64]) -> CodedKey:
        """The levels of a key, from its distinct values and the number of records that have each."""
        column = self.columns[key]
        raw = settle(values, column, decimal_mark=self.source.decimal_mark)
        coded = code_levels(
            key,
            raw,
            numbers,
            self.coding.get(key, Coding()),
            missing="drop" if self.missing != "level" else "level",
            level_order=column.level_order,
        )
        return CodedKey(key, values, raw.values, coded, raw.note)

    def _recoded_keys(self) -> dict[str, CodedKey]:
        """Code keys with binned numbers before counting, so that no more combinations come back than there are bins."""
        keys = [key for key in self.keys if key in self.coding and self.coding[key].cuts_values]
        return {key: self.code(key, *values_and_counts) for key, values_and_counts in levels_of(self.source, keys).items()}

    def refuse_groups(self) -> None:
        """Raise when a key is to be put into groups, because groups are found in the table of all keys."""
        grouped = list(self.grouped_keys)
        if grouped:
            raise BadInput(
                f"Key '{grouped[0]}' is to be put into groups, which needs the counts of all keys. Give bands instead."
            )

    def refuse_missing(self, coded_keys: Sequence[CodedKey]) -> None:
        """Raise when a value is missing and missing values are to be refused."""
        lacking = [coded for coded in coded_keys if coded.coded.n_missing]
        if self.missing == "refuse" and lacking:
            raise BadInput(
                f"{self.source.name} has missing values in {_numbers_of(lacking)} records, and missing values are to be refused. Complete "
                "the data, or let a missing value be a level of its own (missing = 'level') or drop its record (missing = 'drop')."
            )

    def _of_cells(
        self,
        coded_keys: Sequence[CodedKey],
        cells: NDArray[np.int32],
        n_rows: NDArray[np.int64],
        row_cell: NDArray[np.int64],
        numbers: NDArray[np.int64] | None,
        weights: NDArray[np.float64] | None,
    ) -> CountedTable:
        """The table of collapsed rows: records, or combinations with their ``numbers`` of records."""
        if not len(cells):
            raise BadInput(
                f"Every record of {self.source.name} has a missing key value ({_numbers_of(coded_keys)} records), so dropping such records "
                "leaves none. Keep missing values as a level, or leave out the keys that are always missing."
            )
        counts = n_rows if numbers is None else _sums(row_cell, numbers, len(cells)).astype(np.int64)
        n_dropped = (len(row_cell) if numbers is None else int(numbers.sum())) - int(counts.sum())
        categories, lookups = [], []
        for position, coded in enumerate(coded_keys):
            cells[:, position], levels, new_code = _without_unobserved(cells[:, position], coded.coded, bool(n_dropped))
            categories.append(Categories(coded.key, levels, coded.coded.is_ordered, self.columns[coded.key].value_labels))
            lookups.append(EncodedColumn(coded.values, new_code))
        notes = [coded.note for coded in coded_keys if coded.note] + self._constant(categories)
        weight_sums = None if weights is None else _sums(row_cell, weights, len(cells))
        record_cell = row_cell if numbers is None else None
        table = ContingencyTable.of_sorted_cells(tuple(categories), cells, counts, weight_sums, record_cell)
        declared = self.declared_orders()
        table, tests = with_meant_orders(table, declared=declared)
        notes += order_notes(table, tests, declared=declared)
        table = table.with_coarsenings(self._coarsenings(categories))
        n_missing = {coded.key: coded.coded.n_missing for coded in coded_keys}
        return CountedTable(
            table, tuple(lookups), tuple(coded.meanings for coded in coded_keys), n_missing, n_dropped, tuple(notes)
        )

    @property
    def grouped_keys(self) -> dict[str, Coding]:
        """Keys whose levels are put into groups after counting."""
        return {key: coding for key, coding in self.coding.items() if coding.groups_levels and key in self.keys}

    def grouped(self, counted: CountedTable, likeness: Likeness) -> CountedTable:
        """Put levels into groups; the groups of a key do not depend on how other keys are coded."""
        table, lookups = counted.table, list(counted.lookups)
        for key, coarsening in [(key, group_levels(likeness[key], coding)) for key, coding in self.grouped_keys.items()]:
            position = self.keys.index(key)
            # The last entry serves code −1, of a dropped value.
            new_code = np.append(coarsening.group_of_level, np.int32(-1))
            lookups[position] = EncodedColumn(lookups[position].values, new_code[lookups[position].codes].astype(np.int32))
            table = table.recode(coarsening)
        return replace(counted, table=table, lookups=tuple(lookups))

    def declared_orders(self) -> frozenset[str]:
        """Keys whose levels the user or the source has declared to be ordered or unordered."""
        coded = {key for key, coding in self.coding.items() if coding.ordered is not None or coding.makes_levels}
        return frozenset(coded | {key for key in self.keys if self.columns[key].level_order is not None})

    def _constant(self, categories: Sequence[Categories]) -> list[str]:
        """Notes on keys that have the same value in every record; an error when no other key is left."""
        constant = [c for c in categories if c.n_levels == 1]
        listed = ", ".join(f"'{c.key}' (always '{c.shown[0]}')" for c in constant)
        if len(constant) == len(categories):
            raise BadInput(
                f"In {self.source.name} the key {listed} has the same value in every record, so it cannot tell records apart. Name other "
                "keys, or check that the right column and coding were named."
            )
        return [f"The key {listed} has the same value in every record and cannot tell records apart."] if constant else []

    def _coarsenings(self, categories: Sequence[Categories]) -> list[Coarsening]:
        coarsenings = []
        for c in categories:
            if c.key in self.hierarchies:
                levels = [None if level is None else label for level, label in zip(c.levels, c.labels, strict=True)]
                for grouping in read_hierarchy(self.hierarchies[c.key], key=c.key, levels=levels):
                    name = f"{c.key}/{len(grouping.labels)}"
                    coarsenings.append(Coarsening(name, c.key, grouping.group_of_level, grouping.labels))
        return coarsenings


def group_levels(profiles: LevelProfiles, coding: Coding) -> Coarsening:
    """The groups that a coding asks for: a column of the key's hierarchy, or a given number of groups.

    When the hierarchy has that number of groups, they are used.
    """
    key, own = profiles.key, profiles.hierarchy
    if coding.hierarchy is not None:
        if not own:
            raise BadInput(
                f"Key '{key}' is to be recoded by its hierarchy, but it has none. Name the file with --hierarchy {key}=CSV."
            )
        if coding.hierarchy > len(own):
            raise BadInput(
                f"Key '{key}' is to be recoded to level {coding.hierarchy} of its hierarchy, which has {len(own)} that make a difference."
            )
        return own[coding.hierarchy - 1]
    assert coding.groups is not None
    named = [c for c in own if c.n_levels == coding.groups]
    return named[0] if named else profiles.groups(coding.groups)


def _numbers_of(coded_keys: Sequence[CodedKey]) -> str:
    return ", ".join(f"{coded.key} {coded.coded.n_missing:,}" for coded in coded_keys if coded.coded.n_missing)


def number_of_each(column: EncodedColumn, numbers: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Number of records that have each value of a column; ``numbers`` gives the records behind each code."""
    n_records = np.zeros(len(column.values), dtype=np.int64)
    if numbers is None:
        count_values(column.codes, n_records)
    else:
        n_records += np.bincount(column.codes, weights=numbers, minlength=len(n_records)).astype(np.int64)
    return n_records


def _sums(row_cell: NDArray[np.int64], values: Array, n_cells: int) -> NDArray[np.float64]:
    """Sum of the values in each cell's rows; sums of whole numbers are exact below 2^53."""
    kept = row_cell >= 0
    if kept.all():
        return np.bincount(row_cell, weights=values, minlength=n_cells).astype(np.float64)
    return np.bincount(row_cell[kept], weights=values[kept], minlength=n_cells).astype(np.float64)


def _without_unobserved(
    codes: NDArray[np.int32], coded: CodedLevels, was_dropped: bool
) -> tuple[NDArray[np.int32], tuple[Level, ...], NDArray[np.int32]]:
    """Leave out levels that occur only in dropped records: cell codes, levels, and the new code of each distinct value."""
    # If no record was dropped, every level was observed, because levels come from the records.
    observed = np.unique(codes) if was_dropped else np.arange(len(coded.levels))
    if len(observed) == len(coded.levels):
        return codes, coded.levels, coded.code_of_value
    new_code = np.full(len(coded.levels) + 1, -1, dtype=np.int32)
    new_code[observed] = np.arange(len(observed), dtype=np.int32)
    # The last entry serves code -1.
    levels = tuple(coded.levels[code] for code in observed)
    return new_code[codes], levels, new_code[coded.code_of_value]
