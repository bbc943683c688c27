"""In what do the written data differ from those that were read?

A :class:`Changes` holds all of it: values that records exchanged, columns that are written as levels, blanked values, columns with new
values in every record, dropped columns, and a new order of the records. A source writes all of it at once
(:meth:`rarecell.engine.source.Source.write`); positions are those of the records that were read throughout.

What a run assessed is what it writes: an age band is written as the band. A :class:`WrittenLevels` says, for each distinct
value of a column, which level is written in its place. Columns of typed files become text columns whose values have the
order of the levels; a column in which values are merely declared missing keeps its type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.engine.arrays import as_arrow, code_chunk, plain_value, texts
from rarecell.errors import BadInput, UnknownColumns

if TYPE_CHECKING:
    from rarecell.edges import Columns, Level, Places


PLAIN_SIGNS = str.maketrans({"–": "-", "≤": "<=", "≥": ">="})
"""What is written for the signs of our own labels where an encoding lacks them."""

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

    def fitting(self, encoding: str) -> WrittenLevels:
        """The same with labels that an older encoding can hold: it has no dash between bounds and no sign for "at most"."""
        return replace(self, levels=tuple(_fitted(level, encoding) for level in self.levels))

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
        levels = np.array([*of_value, -1], dtype=np.int32)[chunk.codes]
        if (levels == _STRANGE).any():
            raise RuntimeError("Internal error: a value is to be written that was not counted. Nothing was written.")
        return np.asarray(levels)

    def texts(self, levels: NDArray[np.int32]) -> pa.DictionaryArray:
        """The labels of some levels, −1 for missing ones."""
        indices = as_arrow(levels, is_null=levels < 0)
        return pa.DictionaryArray.from_arrays(indices, texts(self.labels), ordered=self.is_ordered)

    @cached_property
    def codes(self) -> tuple[int, ...]:
        """Whole numbers for the levels, for files that store numbers with labels.

        A number stays as it is, a band gets its lower bound, and a group the smallest of its members. If that does not give
        whole numbers, or gives one of them twice, the levels get 1, 2, 3 ….
        """
        numbers = [_number_of(level, members) for level, members in zip(self.levels, self.members, strict=True)]
        whole = [number for number in numbers if number is not None]
        if len(whole) == len(numbers) and len(set(whole)) == len(whole):
            return tuple(whole)
        return tuple(range(1, len(self.levels) + 1))


def _fitted(level: Level, encoding: str) -> Level:
    if not isinstance(level, str):
        return level
    try:
        level.encode(encoding)
    except UnicodeEncodeError:
        return level.translate(PLAIN_SIGNS)
    return level


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


class Blanks(NamedTuple):
    """Where a column becomes missing.

    ``words`` are texts that mean "missing" in a text file. The commonest of them in the column is written, or else an empty
    field, so that a blanked value does not stand out among those that were never given.
    """

    rows: NDArray[np.int64]
    words: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Changes:
    """Everything in which written data differ from those that were read.

    The changes are made in the order of the attributes: what is recoded is the exchanged value, and what is blanked is the level.

    Attributes
    ----------
    places : Places
        Records that get new values: their positions, or their ids where records have no position. Each record once.
    values : Columns
        For each column with new values, one value for each of ``places``.
    recodes : mapping of str to WrittenLevels
        Columns that are written as levels.
    blanks : mapping of str to Blanks
        Columns with values that go missing.
    treated : Columns
        Columns with a new value for every record, in the order in which they were read. The column keeps its type where that
        holds all of the values, and otherwise gets the type of the array.
    dropped : frozenset of str
        Columns that are not written.
    order : ndarray of int64 or None
        ``order[k]`` is the position, in the data that were read, of the k-th record that is written. None keeps the order.
    id_column : str or None
        The column that identifies records without a position.

    Examples
    --------
    >>> Changes(np.array([0, 2]), {"age": [41, 40]}, dropped=frozenset({"name"})).changed
    ('age',)
    """

    places: Places = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    values: Columns = field(default_factory=dict)
    recodes: Recodes = field(default_factory=dict)
    blanks: Mapping[str, Blanks] = field(default_factory=dict)
    treated: Columns = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    order: NDArray[np.int64] | None = None
    id_column: str | None = None

    @property
    def changed(self) -> tuple[str, ...]:
        """The columns that are written with other values than they had."""
        names = dict.fromkeys([*self.values, *self.recodes, *self.blanks, *self.treated])
        return tuple(name for name in names if name not in self.dropped)

    @cached_property
    def columns(self) -> dict[str, ColumnChanges]:
        """What changes in each of :attr:`changed`."""
        rows = np.asarray(self.places, dtype=np.int64) if self.values else np.empty(0, dtype=np.int64)
        order = np.argsort(rows, kind="stable")
        none = np.empty(0, dtype=np.int64)
        by_column = {}
        for name in self.changed:
            has_values = name in self.values
            blanks = self.blanks.get(name, Blanks(none))
            by_column[name] = ColumnChanges(
                rows[order] if has_values else none,
                one_array(self.values[name]).take(as_arrow(order)) if has_values else None,
                self.recodes.get(name),
                np.sort(np.asarray(blanks.rows, dtype=np.int64)),
                blanks.words,
                one_array(self.treated[name]) if name in self.treated else None,
            )
        return by_column

    def of_part(self, first: int, n_rows: int) -> Changes:
        """What changes in the ``n_rows`` records from ``first`` on, which stay in their order."""

        def inside(rows: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.flatnonzero((rows >= first) & (rows < first + n_rows))

        rows = np.asarray(self.places, dtype=np.int64)
        chosen = inside(rows)
        return replace(
            self,
            places=rows[chosen] - first,
            values={name: one_array(values).take(as_arrow(chosen)) for name, values in self.values.items()},
            blanks={name: Blanks(blanks.rows[inside(blanks.rows)] - first, blanks.words) for name, blanks in self.blanks.items()},
            treated={name: one_array(values).slice(first, n_rows) for name, values in self.treated.items()},
            order=None,
        )

    def check(self, names: Sequence[str], count_rows: Callable[[], int]) -> None:
        """Refuse columns that are not among ``names``, arrays of another length, and an order that is not one of all records."""
        unknown = [name for name in (*self.changed, *self.dropped) if name not in names]
        if unknown:
            raise UnknownColumns.among(unknown, list(names))
        if all(name in self.dropped for name in names):
            raise BadInput("All columns would be dropped. Leave at least one in the data.")
        if not self.treated and self.order is None:
            return
        n_rows = count_rows()
        for name, values in self.treated.items():
            if len(values) != n_rows:
                raise ValueError(f"column '{name}' has {len(values):,} new values for {n_rows:,} records")
        if self.order is not None and not np.array_equal(np.sort(self.order), np.arange(n_rows)):
            raise ValueError("the new order must list each record once")


class ColumnChanges(NamedTuple):
    """What changes in a column: at ``rows``, in ascending order, the values; everywhere the levels; at ``blanks`` the missing
    ones; or all values, in ``treated``."""

    rows: NDArray[np.int64]
    values: pa.Array | None
    written: WrittenLevels | None
    blanks: NDArray[np.int64]
    words: tuple[str, ...]
    treated: pa.Array | None

    @property
    def is_recoded(self) -> bool:
        """Whether the column holds levels that differ from its values."""
        return self.treated is None and self.written is not None and not self.written.only_blanks

    def new_values(self, first: int, n_rows: int) -> tuple[NDArray[np.int64], pa.Array | None]:
        """Positions within some records from ``first`` on, and the value that each gets."""
        low, high = np.searchsorted(self.rows, [first, first + n_rows])
        return self.rows[low:high] - first, None if self.values is None else self.values.slice(int(low), int(high - low))

    def blank_rows(self, first: int, n_rows: int) -> NDArray[np.int64]:
        """Positions within some records from ``first`` on whose value goes missing."""
        low, high = np.searchsorted(self.blanks, [first, first + n_rows])
        return self.blanks[low:high] - first

    def levels_of(self, plain: pa.Array, first: int) -> NDArray[np.int32]:
        """The level of each record from ``first`` on, −1 where it is missing; ``plain`` holds values that were exchanged already."""
        assert self.written is not None
        levels = self.written.levels_of(plain)
        levels[self.blank_rows(first, len(plain))] = -1
        return levels


def one_array(values: Any) -> pa.Array:
    """Values as one Arrow array."""
    array = as_arrow(values)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
