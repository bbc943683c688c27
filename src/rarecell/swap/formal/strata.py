"""Which rows may exchange their parts along an edge, and which of them carry the same part?

Rows are sorted by stratum (the value of the separator) and type (the part that moves). Types of equal size form one group,
because the distribution of a shuffle depends on sizes alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell._kernels import shuffling as kernels
from rarecell._kernels.cell_hash import mixed_many
from rarecell._kernels.counting import collapse_records
from rarecell.graph.masks import each_member
from rarecell.swap.formal.edges import TreeEdge
from rarecell.table.contingency import ContingencyTable

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


@dataclass(frozen=True, eq=False)
class Strata:
    """The rows of a file, as the kernel of one edge sees them.

    Attributes
    ----------
    rows : array of int
        Rows sorted by stratum and type; within a type, those that are always shuffled come last.
    sizes : array of int
        For each type, the number of rows that may keep their part, and the number of rows that are always shuffled.
    stratum_start : array of int
        First type of each stratum, followed by the number of types.
    groups : array of int
        Distinct pairs of sizes in each stratum, and how many of its types have them.
    group_start : array of int
        First group of each stratum, followed by the number of groups.
    """

    rows: NDArray[np.int64]
    sizes: NDArray[np.int64]
    stratum_start: NDArray[np.int64]
    groups: NDArray[np.int64]
    group_start: NDArray[np.int64]

    @classmethod
    def of(
        cls, separator: Sequence[NDArray[np.int32]], side: Sequence[NDArray[np.int32]], is_always: NDArray[np.bool_] | None = None
    ) -> Strata:
        """Build the strata of rows with these codes of the separator and of the side that moves."""
        columns = [*separator, *side]
        n_codes = [int(column.max(initial=0)) + 1 for column in columns]
        cells, counts, type_of_row = collapse_records(columns, n_codes)
        begins = np.ones(len(counts), dtype=bool)
        begins[1:] = (cells[1:, : len(separator)] != cells[:-1, : len(separator)]).any(axis=1)
        stratum = np.cumsum(begins) - 1
        always = np.zeros(len(counts), dtype=np.int64)
        order = type_of_row
        if is_always is not None:
            always = np.bincount(type_of_row[is_always], minlength=len(counts)).astype(np.int64)
            order = 2 * type_of_row + is_always
        held = counts.astype(np.int64) - always
        groups, group_start = _groups(stratum, held, always)
        starts = np.append(np.flatnonzero(begins), len(counts))
        return cls(np.argsort(order, kind="stable"), np.column_stack([held, always]), starts, groups, group_start)

    def shuffled(self, theta: float, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw for each row the row whose part it gets: P ∝ θ^(rows whose part changes, unless they are always shuffled)."""
        rows = self.rows.copy()
        source = np.arange(len(rows))
        kernels.shuffle_strata(theta, self.stratum_start, self.sizes, self.groups, self.group_start, rows, source, rng)
        return source

    def mean_changed(self, thetas: ArrayLike) -> NDArray[np.float64]:
        """Compute for each θ the expected number of rows whose part changes, without those that are always shuffled.

        Strata with the same sizes are computed once and multiplied.
        """
        strata, times = self._distinct()
        given = np.asarray(thetas, dtype=np.float64)
        return np.asarray(kernels.total_mean_changed(given, self.groups, self.group_start, strata, times, _NODES, _WEIGHTS))

    def _distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """One stratum of each composition with more than one type, and the number of strata with that composition."""
        mixed = np.zeros(len(self.groups), dtype=np.uint64)
        for part in self.groups.astype(np.uint64).T:
            mixed = mixed_many(mixed ^ part, 0)
        several = np.flatnonzero(np.diff(self.stratum_start) > 1)
        summed = np.add.reduceat(mixed, self.group_start[:-1])[several]
        _, first, times = np.unique(summed, return_index=True, return_counts=True)
        return several[first], times


def strata_of_edge(
    table: ContingencyTable, codes: NDArray[np.int32], edge: TreeEdge, is_always: NDArray[np.bool_] | None = None
) -> Strata:
    """Build the strata of ``edge`` in a file of key codes."""
    separator = [table.map_cells(codes, v) for v in each_member(table.reduce(edge.separator))]
    return Strata.of(separator, [codes[:, k] for k in edge.keys_moved(table)], is_always)


def _groups(
    stratum: NDArray[np.int64], held: NDArray[np.int64], always: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.lexsort((always, held, stratum))
    sizes = np.stack([stratum[order], held[order], always[order]], axis=1)
    begins = np.ones(len(sizes), dtype=bool)
    begins[1:] = (sizes[1:] != sizes[:-1]).any(axis=1)
    first = np.flatnonzero(begins)
    times = np.diff(np.append(first, len(sizes)))
    groups = np.column_stack([sizes[first, 1:], times]).astype(np.int64)
    return groups, np.searchsorted(sizes[first, 0], np.arange(stratum[-1] + 2))
