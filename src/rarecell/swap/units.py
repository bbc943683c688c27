"""Which records are alike in everything that a swap considers?

Those in the same cell, unless columns outside the keys matter because of a margin to keep, a geography within which to swap, or
an edit rule. Then a cell is divided into several *units*, one for each combination of values of these columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.errors import UnknownColumns
from rarecell.swap.rules import Condition, matching_levels
from rarecell.table.columns import CodedColumn, ColumnValues, code_column
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    from rarecell.data.microdata import Microdata
    from rarecell.edges import Level


def coded_columns(data: Microdata, names: Sequence[str]) -> dict[str, ColumnValues]:
    """Return the columns outside the keys that margins to keep or constraints name, in the form that plans take."""
    others = list(dict.fromkeys(name for name in names if name not in data.keys))
    if not others:
        return {}
    codes, categories = data.column_codes(others)
    return {c.key: CodedColumn(np.ascontiguousarray(codes[:, k]), c.levels) for k, c in enumerate(categories)}


@dataclass(frozen=True, eq=False)
class Units:
    """Distinct rows of vertex and column codes.

    Attributes
    ----------
    table : ContingencyTable
        The contingency table.
    columns : tuple of str
        Names of the columns outside the keys, after the vertices.
    levels : tuple of tuples of level
        The values of each of these columns.
    codes : array of int
        One row for each unit: codes of the vertices, then of ``columns``.
    counts : array of int
        Number of records in each unit.
    cell : array of int
        Cell of each unit.
    known_unit : array of int or None
        Unit of each record, −1 for a record that was dropped for a missing key; None if the table does not know its
        records, which are then numbered in the order of the cells.
    """

    table: ContingencyTable
    columns: tuple[str, ...]
    levels: tuple[tuple[Level, ...], ...]
    codes: NDArray[np.int32]
    counts: NDArray[np.int64]
    cell: NDArray[np.int64]
    known_unit: NDArray[np.int64] | None

    @classmethod
    def of(cls, table: ContingencyTable, columns: Sequence[str], values: Mapping[str, ColumnValues]) -> Units:
        """Divide the cells of ``table`` into units by ``columns``, whose value for each record is in ``values``."""
        of_vertices = np.stack([table.vertex_codes(v) for v in range(table.n_vertices)], axis=1)
        if not columns:
            cell = np.arange(table.n_cells)
            return cls(table, (), (), np.ascontiguousarray(of_vertices), table.counts, cell, table.record_cell)
        record_cell = table.cell_of_record
        missing = [name for name in columns if name not in values]
        if missing:
            raise UnknownColumns.among(missing, [*table.keys, *values])
        coded = [code_column(name, values[name], len(record_cell)) for name in columns]
        sizes = [table.n_cells, *(len(levels) for _, levels in coded)]
        rows, counts, record_unit = collapse_records([record_cell, *(codes for codes, _ in coded)], sizes)
        cell = rows[:, 0].astype(np.int64)
        codes = np.ascontiguousarray(np.concatenate([of_vertices[cell], rows[:, 1:]], axis=1))
        return cls(table, tuple(columns), tuple(levels for _, levels in coded), codes, counts, cell, record_unit)

    @property
    def n_units(self) -> int:
        return len(self.counts)

    @cached_property
    def record_unit(self) -> NDArray[np.int64]:
        """Unit of every record; use :meth:`unit_of` for only a few of them."""
        return self.table.cell_of_record if self.known_unit is None else self.known_unit

    def unit_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the units of records given by row number; −1 for a record that was dropped."""
        return self.table.cell_of(rows) if self.known_unit is None else np.asarray(self.known_unit[rows])

    def rows_in(self, units: NDArray[np.int64], n_first: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row numbers of the records of distinct units; if records are not known, only the first of each unit."""
        if self.known_unit is None:
            n_rows = np.minimum(n_first, self.counts[units])
            return np.repeat(self.table.first_row[units] - np.cumsum(n_rows) + n_rows, n_rows) + np.arange(n_rows.sum())
        is_wanted = np.zeros(self.n_units + 1, dtype=bool)
        is_wanted[units] = True
        return np.flatnonzero(is_wanted[self.known_unit])

    @cached_property
    def column_levels(self) -> tuple[int, ...]:
        """Number of codes of every column of ``codes``."""
        return (*(int(n) for n in self.table.vertex_levels), *(len(levels) for levels in self.levels))

    def position(self, name: str) -> int:
        """Return the column of ``codes`` that holds the key, coarsening or further column ``name``."""
        return (*self.table.vertex_names, *self.columns).index(name)

    def values_of(self, name: str) -> Sequence[Level]:
        """Return the values that the codes of a key or further column stand for."""
        if name in self.columns:
            return self.levels[self.columns.index(name)]
        return self.table.categories[self.table.keys.index(name)].levels

    def where(self, condition: Condition) -> NDArray[np.bool_]:
        """Return which units have the values that a condition names."""
        holds = np.ones(self.n_units, dtype=bool)
        for name, value in condition.items():
            holds &= matching_levels(name, self.values_of(name), value)[self.codes[:, self.position(name)]]
        return holds

    def ranks(self, columns: Sequence[int]) -> tuple[NDArray[np.int64], int]:
        """Rank each unit's combination of these columns in lexicographic order; also return the number of combinations."""
        if not len(columns):
            return np.zeros(self.n_units, dtype=np.int64), 1
        collapsed = collapse_records([self.codes[:, c] for c in columns], [self.column_levels[c] for c in columns])
        return collapsed[2], len(collapsed[1])
