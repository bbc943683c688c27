"""Which records are unique on some keys, and how many could become unique with more?

Cells that agree on the keys so far form a group. A record alone in its group stays unique whatever keys follow, so only
the rest is split by the next key. In a file with many keys, little is left after the first few.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import refinement as kernels
from rarecell.table.contingency import ContingencyTable

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
            n = self.levels[vertex]
            kind = np.uint8 if n <= 1 << 8 else np.uint16 if n <= 1 << 16 else np.int32
            self._codes[vertex] = np.ascontiguousarray(self.table.vertex_codes(vertex), dtype=kind)
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
        rows, starts, n_unique = kernels.split(
            self.rows, self.starts, columns.codes(vertex), columns.levels[vertex], columns.counts
        )
        return Undecided(columns, (*self.vertices, vertex), rows, starts, self.n_unique + int(n_unique))

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
        found = []
        for asked in n_levels:
            levels = int(min(asked, most))
            some = int(n_cells[levels - 1])
            if levels < most:
                some += int(n_groups[most - 1] - n_groups[levels - 1]) * (levels - 1) + int(pure[levels])
            found.append(self.n_unique + some + int(min(beyond, int(mixed[most]) * asked)))
        return found


def n_uniques(columns: Columns, vertices: Iterable[int]) -> int:
    """Number of records that are unique on these vertices.

    Vertices with many levels decide the most, so they come first.
    """
    left = Undecided.of(columns)
    for vertex in sorted(vertices, key=lambda v: -columns.levels[v]):
        if not len(left.rows):
            break
        left = left.split_by(vertex)
    return left.n_unique
