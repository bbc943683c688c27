"""How are the values of a column written as the levels that they were coded to?

What a run assessed is what it writes: an age band is written as the band. A :class:`WrittenLevels` says, for each distinct
value of a column, which level is written in its place. Columns of typed files become text columns whose values have the
order of the levels; a column in which values are merely declared missing keeps its type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.engine.arrays import as_arrow, code_chunk, plain_value, texts

if TYPE_CHECKING:
    from rarecell.edges import Level


_STRANGE = -2
_BOUND = re.compile(r"≤?(-?[0-9]+)(\+|–-?[0-9]+)?")


@dataclass(frozen=True, eq=False)
class WrittenLevels:
    """The level that is written for each value of a column.

    Attributes
    ----------
    values : tuple of level
        The distinct values of the column, as they stand in the data.
    level_of_value : ndarray of int32
        The level of each value, −1 for a value that is written as missing.
    levels : tuple of level
        The levels in order, without the missing one: a value that stays as it is, or text.
    is_ordered : bool
        Whether neighbouring levels are alike.
    members : tuple of tuple of level
        For each level, the values that became it, as numbers or text.
    """

    values: tuple[Level, ...]
    level_of_value: NDArray[np.int32]
    levels: tuple[Level, ...]
    is_ordered: bool
    members: tuple[tuple[Level, ...], ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The levels as they are written."""
        return tuple(str(level) for level in self.levels)

    @cached_property
    def only_blanks(self) -> bool:
        """Whether every value stays as it is or is written as missing, so that the column keeps its type."""
        return all(members == (level,) for level, members in zip(self.levels, self.members, strict=True))

    @cached_property
    def _level_by_value(self) -> dict[Level, int]:
        return {plain_value(value): int(level) for value, level in zip(self.values, self.level_of_value, strict=True)}

    def levels_of(self, array: pa.Array) -> NDArray[np.int32]:
        """The level of each value of an array, −1 where it is missing."""
        chunk = code_chunk(array)
        known = self._level_by_value
        of_value = [known.get(plain_value(value), _STRANGE) for value in chunk.values.to_pylist()]
        found = np.array([*of_value, -1], dtype=np.int32)[chunk.codes]
        if (found == _STRANGE).any():
            raise RuntimeError("Internal error: a value is to be written that was not counted. Nothing was written.")
        return np.asarray(found)

    def texts(self, array: pa.Array) -> pa.DictionaryArray:
        """The labels of an array of values, in the order of the levels."""
        levels = self.levels_of(array)
        indices = as_arrow(levels, is_null=levels < 0)
        return pa.DictionaryArray.from_arrays(indices, texts(self.labels), ordered=self.is_ordered)

    @cached_property
    def codes(self) -> tuple[int, ...]:
        """Whole numbers for the levels, for files that store numbers with labels.

        A number stays as it is, a band gets its lower bound, and a group the smallest of its members. If that does not give
        whole numbers, or gives one of them twice, the levels get 1, 2, 3 ….
        """
        found = [_number_of(level, members) for level, members in zip(self.levels, self.members, strict=True)]
        whole = [number for number in found if number is not None]
        if len(whole) == len(found) and len(set(whole)) == len(whole):
            return tuple(whole)
        return tuple(range(1, len(self.levels) + 1))


def _number_of(level: Level, members: Sequence[Level]) -> int | None:
    # A bound is read from the label: the smallest observed value would reveal more than the band does.
    if isinstance(level, str):
        bound = _BOUND.fullmatch(level)
        if bound is not None:
            return int(bound.group(1))
        return min(members) if members and all(isinstance(member, int) for member in members) else None
    return int(level) if isinstance(level, (int, float)) and float(level).is_integer() else None


Recodes = Mapping[str, WrittenLevels]
"""For each column that is written as its levels, the level of each value."""


def recoded_type(field: pa.Field, written: WrittenLevels) -> pa.Field:
    """A column's type once it holds levels."""
    if written.only_blanks:
        return field.with_nullable(True)
    return pa.field(field.name, pa.dictionary(pa.int32(), pa.string(), ordered=written.is_ordered), metadata=field.metadata)


def recoded_schema(schema: pa.Schema, recodes: Recodes) -> pa.Schema:
    """The columns of a file once some of them hold levels."""
    fields = [recoded_type(field, recodes[field.name]) if field.name in recodes else field for field in schema]
    # pandas stores column types in metadata of its own, which would contradict the new types.
    metadata = {name: value for name, value in (schema.metadata or {}).items() if name != b"pandas"}
    return pa.schema(fields, metadata=metadata)


def recoded_table(table: pa.Table, recodes: Recodes) -> pa.Table:
    """A piece of the data with the levels of some columns in place of their values."""
    schema = recoded_schema(table.schema, recodes)
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        if field.name not in recodes:
            columns.append(column)
            continue
        written, plain = recodes[field.name], column.combine_chunks()
        columns.append(blanked(plain, written.levels_of(plain) < 0) if written.only_blanks else written.texts(plain))
    return pa.Table.from_arrays(columns, schema=schema)


def blanked(array: pa.Array, is_missing: NDArray[np.bool_]) -> pa.Array:
    """The array with nulls in some places, in its own type."""
    return array.take(as_arrow(np.arange(len(array)), is_null=is_missing))
