"""Which records are unique on some keys, and how many could become unique with more?

Cells that agree on the keys so far form a group. A record alone in its group stays unique whatever keys follow, so only
the rest is split by the next key. In a file with many keys, little is left after the first few.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import unsafe as kernels
from rarecell._kernels.counting import short_type
from rarecell.errors import BadInput
from rarecell.table.contingency import Coarsening, ContingencyTable

if TYPE_CHECKING:
    from rarecell.edges import Array


LARGEST_GROUP = 1 << 14
"""By default, groups are distinguished by size up to this size."""


class Columns:
    """Codes of each vertex at the cells of a table, and counts capped at 2, in short types that are fast to scan."""

    def __init__(self, table: ContingencyTable) -> None:
        self.table = table
        self.levels = [int(n) for n in table.vertex_levels]
        self.counts = np.minimum(table.counts, 2).astype(np.uint8)
        self._codes: dict[int, Array] = {}

    def codes(self, vertex: int) -> Array:
        """Codes of one vertex."""
        if vertex not in self._codes:
            self._codes[vertex] = np.ascontiguousarray(self.table.vertex_codes(vertex), dtype=short_type(self.levels[vertex]))
        return self._codes[vertex]


@dataclass(frozen=True, eq=False)
class Undecided:
    """The cells that some vertices leave in groups of two or more; ``n_unique`` records are already known to be unique.

    Group g holds the cells ``rows[starts[g]:starts[g + 1]]``.
    """

    columns: Columns
    vertices: tuple[int, ...]
    rows: NDArray[np.int32]
    starts: NDArray[np.int32]
    n_unique: int

    @classmethod
    def of(cls, columns: Columns) -> Undecided:
        """The start: nothing is known yet, and all cells form one group."""
        n_cells = len(columns.counts)
        return cls(columns, (), np.arange(n_cells, dtype=np.int32), np.array([0, n_cells], dtype=np.int32), 0)

    def n_unique_with(self, vertex: int) -> int:
        """Number of unique records once this vertex is known as well."""
        columns = self.columns
        n_more = kernels.count_alone(self.rows, self.starts, columns.codes(vertex), columns.levels[vertex], columns.counts)
        return self.n_unique + int(n_more)

    def split_by(self, vertex: int) -> Undecided:
        """What remains undecided once this vertex is known as well."""
        columns = self.columns
        split = self.split_by_codes(columns.codes(vertex), columns.levels[vertex])
        return replace(split, vertices=(*self.vertices, vertex))

    def split_by_codes(self, codes: Array, n_levels: int) -> Undecided:
        """What remains undecided once these codes of the cells are known as well, which are those of no vertex."""
        rows, starts, n_unique = kernels.split(self.rows, self.starts, codes, n_levels, self.columns.counts)
        return replace(self, rows=rows, starts=starts, n_unique=self.n_unique + int(n_unique))

    def bounds(self, n_levels: Iterable[float], *, largest_group: int = LARGEST_GROUP) -> list[int]:
        """Upper bounds on the unique records once keys with this many combinations of levels are known as well.

        A group with s cells of one record each, and perhaps other cells, yields at most s unique records. With L
        combinations it yields at most L, or L − 1 when one of them must hold further records. Groups are distinguished
        by size up to ``largest_group``; beyond that the bound is less tight.
        """
        most = largest_group
        pure, mixed, beyond = kernels.group_sizes(self.rows, self.starts, self.columns.counts, most)
        n_of_size = np.asarray(pure, dtype=np.int64) + np.asarray(mixed, dtype=np.int64)
        n_groups, n_cells = np.cumsum(n_of_size), np.cumsum(n_of_size * np.arange(most + 1))
        bounds = []
        for asked in n_levels:
            levels = int(min(asked, most))
            some = int(n_cells[levels - 1])
            if levels < most:
                some += int(n_groups[most - 1] - n_groups[levels - 1]) * (levels - 1) + int(pure[levels])
            bounds.append(self.n_unique + some + int(min(beyond, int(mixed[most]) * asked)))
        return bounds


class UniquesOfChanged:
    """Counts the records that would be unique if one key of a table were coarser or left out.

    Keys with many levels decide the most, so they come first. What the keys before the changed one leave undecided is the same
    whatever is done to that key, and is found once.

    Examples
    --------
    >>> import rarecell as rc
    >>> keys = [rc.Categories(name, (0, 1, 2)) for name in "ab"]
    >>> table = rc.ContingencyTable.from_counts([[0, 0], [0, 1], [1, 2], [2, 2]], [1, 1, 1, 1], keys)
    >>> uniques = UniquesOfChanged(table)
    >>> uniques.count("a", None), uniques.count("b", None)
    (2, 2)
    """

    def __init__(self, table: ContingencyTable) -> None:
        self.table = table
        self._columns = Columns(table)
        self._order = sorted(range(table.n_keys), key=lambda k: -self._columns.levels[k])
        self._before = [Undecided.of(self._columns)]
        for key in self._order[:-1]:
            if not len(self._before[-1].rows):
                break
            self._before.append(self._before[-1].split_by(key))

    def count(self, key: str, coarsening: Coarsening | None) -> int:
        """Number of unique records without the key, or, given its coarsening, with that in its place."""
        column = self.table.keys.index(key)
        place = self._order.index(column)
        left = self._before[min(place, len(self._before) - 1)]
        if coarsening is not None and len(left.rows):
            of_level = coarsening.group_of_level.astype(short_type(coarsening.n_levels))
            left = left.split_by_codes(of_level[self._columns.codes(column)], coarsening.n_levels)
        for other in self._order[place + 1 :]:
            if not len(left.rows):
                break
            left = left.split_by(other)
        return left.n_unique


# Does a key identify records by itself?
#
# A key with nearly as many levels as there are records is an identifier, or a measurement that should be in bands.
# Modelling it takes long and tells nothing: each record is unique whatever else is known.


FEW_LEVELS = 500
"""A key with no more levels than this may have more levels than half the number of records."""

MOST_LEVELS_PER_RECORD = 0.8
"""A key with more levels than this share of the number of records is an identifier, unless there are few records."""

FEWEST_RECORDS_TO_JUDGE = 100


class IdentifyingKey(BadInput):
    """A key has so many levels that it identifies records by itself."""

    @classmethod
    def named(cls, key: str, n_levels: int, n_records: int, *, is_ordered: bool) -> IdentifyingKey:
        how = f'"{key}=20 groups"' if is_ordered else f'"{key}=merge … + … as …", or with --hierarchy {key}=FILE,'
        return cls(
            f"Key '{key}' has {n_levels:,} different values among {n_records:,} records, so it identifies most records by itself, "
            f"whatever the other keys are. If it is an identifier, leave it out of --keys and out of the release. If it is a measurement or "
            f"a fine classification, release it coarser: put it into groups with --recode {how} and run again."
        )


def refuse_identifying_keys(table: ContingencyTable, *, few_levels: int = FEW_LEVELS) -> None:
    """Raise an error with advice when a key identifies records by itself.

    That is so when it has nearly as many levels as there are records, or when it has many levels and more of them than
    half the number of records.

    Parameters
    ----------
    table : ContingencyTable
        The table of the keys.
    few_levels : int
        Keys with at most this many levels are accepted unless they identify nearly every record.
    """
    n_records = table.n_records
    for categories in table.categories:
        names_most = n_records >= FEWEST_RECORDS_TO_JUDGE and categories.n_levels > MOST_LEVELS_PER_RECORD * n_records
        if names_most or categories.n_levels > max(few_levels, n_records / 2):
            raise IdentifyingKey.named(categories.key, categories.n_levels, table.n_records, is_ordered=categories.is_ordered)
