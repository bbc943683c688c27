"""How many records agree on these variables?

Projections of a table to fewer vertices. Each is computed once; what is needed again and again (the entropy term of
a set, a number) is kept for ever, what is large (the position of every cell in the marginal) within a budget of memory.
Counts are exact integers; under survey weights they are the weight sums, scaled to add up to the number of records.
"""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import margins as kernels

if TYPE_CHECKING:
    from rarecell.table import ContingencyTable

MEMORY_BUDGET = 512 * 2**20
"""Bytes of marginals kept for reuse."""

_LARGEST_KEY = 2**62

_WORTH_A_THREAD = 1_000_000
"""Cells times sets from which a second thread pays."""

_Radix = tuple[tuple[int, ...], tuple[int, ...], int]
"""Members of a set, their strides (last member fastest), and its number of possible cells."""


@dataclass(frozen=True, eq=False)
class Marginal:
    """The occupied cells of a projection.

    ``keys`` are the mixed-radix numbers of the occupied marginal cells in increasing order, ``counts`` their counts
    and ``position`` the marginal cell of every cell of the table. ``keys`` is None where the numbers would overflow.
    """

    members: tuple[int, ...]
    strides: tuple[int, ...]
    keys: NDArray[np.int64] | None
    counts: NDArray[Any]
    position: NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes + self.position.nbytes + (0 if self.keys is None else self.keys.nbytes)


class Marginals:
    """All marginals of one table, made on demand.

    Parameters
    ----------
    table : the contingency table
    weighted : count survey weights (scaled to sum to the number of records) instead of records
    memory_budget : bytes of marginals to keep; the least recently used go first
    """

    def __init__(self, table: ContingencyTable, *, weighted: bool = False, memory_budget: int = MEMORY_BUDGET) -> None:
        self.table = table
        self.weighted = weighted
        self.memory_budget = memory_budget
        self.total: float = table.n_records
        self._cell_counts: NDArray[Any] = table.counts
        if weighted:
            assert table.weights is not None, "a weighted marginal needs a table with weights"
            self._cell_counts = table.weights * (table.n_records / table.weights.sum())
        self._codes = np.asfortranarray(
            np.stack([table.vertex_codes(v) for v in range(table.n_vertices)], axis=1), dtype=np.int32
        )
        self._levels = [int(n) for n in table.vertex_levels]
        self._entropy: dict[int, float] = {0: 0.0}
        self._kept: OrderedDict[int, Marginal] = OrderedDict()
        self._kept_bytes = 0

    # ------------------------------------------------------------------ one marginal

    def of(self, mask: int) -> Marginal:
        """The marginal on the vertices of ``mask``."""
        reduced = self.table.reduce(mask)
        found = self._kept.get(reduced)
        if found is None:
            found = self._compute(reduced)
            self._kept[reduced] = found
            self._kept_bytes += found.nbytes
            while self._kept_bytes > self.memory_budget and len(self._kept) > 1:
                self._kept_bytes -= self._kept.popitem(last=False)[1].nbytes
        else:
            self._kept.move_to_end(reduced)
        return found

    def counts(self, mask: int) -> NDArray[Any]:
        """Counts of the occupied marginal cells."""
        return self.of(mask).counts

    def cell_index(self, mask: int) -> NDArray[np.int32]:
        """Position in :meth:`counts` of the marginal cell that each cell of the table falls into."""
        return self.of(mask).position

    def at_cells(self, mask: int) -> NDArray[Any]:
        """n(i_a) for each occupied cell i of the table."""
        marginal = self.of(mask)
        return marginal.counts[marginal.position]

    def at_cell(self, mask: int, cell: int) -> Any:
        """n(i_a) of one occupied cell of the table."""
        marginal = self.of(mask)
        return marginal.counts[marginal.position[cell]]

    def lookup(self, mask: int, cells: NDArray[np.int32]) -> NDArray[Any]:
        """n(i_a) for any cells, given by key codes; 0 where nothing was observed."""
        position = self.positions(mask, cells)
        return np.where(position >= 0, self.of(mask).counts[position], 0)

    def positions(self, mask: int, cells: NDArray[np.int32]) -> NDArray[np.int64]:
        """Position in :meth:`counts` of any cells, given by key codes; −1 where nothing was observed."""
        marginal = self.of(mask)
        if marginal.keys is None:
            return self._positions_by_rows(marginal, cells)
        keys = np.zeros(len(cells), dtype=np.int64)
        for v, stride in zip(marginal.members, marginal.strides, strict=True):
            keys += self.table.map_cells(cells, v).astype(np.int64) * stride
        position = np.minimum(np.searchsorted(marginal.keys, keys), len(marginal.keys) - 1)
        return np.where(marginal.keys[position] == keys, position, -1)

    def _compute(self, reduced: int) -> Marginal:
        members, strides, n_possible = self._radix(reduced)
        n_cells = self.table.n_cells
        keys: NDArray[np.int64] | None
        if n_possible >= _LARGEST_KEY:
            position, keys = self._collapse_rows(self._codes[:, members], members)[1], None
            n_occupied = int(position.max()) + 1
        else:
            of_cells = kernels.marginal_keys(self._codes, np.array(members, np.int64), np.array(strides, np.int64))
            if n_possible <= 4 * n_cells + 1024:
                position, keys = kernels.dense_positions(of_cells, n_possible)
            else:
                keys, inverse = np.unique(of_cells, return_inverse=True)
                position = inverse.astype(np.int32)
            n_occupied = len(keys)
        return Marginal(members, strides, keys, kernels.add_up(position, self._cell_counts, n_occupied), position)

    def _radix(self, reduced: int) -> _Radix:
        members = tuple(v for v in range(self.table.n_vertices) if reduced >> v & 1)
        strides = []
        n_possible = 1
        for v in reversed(members):
            strides.append(n_possible)
            n_possible *= self._levels[v]
        return members, tuple(reversed(strides)), n_possible

    def _collapse_rows(self, codes: NDArray[np.int32], members: Sequence[int]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        from rarecell._kernels.counting import collapse_records

        levels = np.array([self._levels[v] for v in members], dtype=np.int64)
        rows, _, position = collapse_records(np.asfortranarray(codes), levels)
        return rows, position.astype(np.int32)

    def _positions_by_rows(self, marginal: Marginal, cells: NDArray[np.int32]) -> NDArray[np.int64]:
        # Numbers would overflow: rank the rows of the table and the asked rows together.
        asked = np.stack([self.table.map_cells(cells, v) for v in marginal.members], axis=1)
        together = np.concatenate([self._codes[:, marginal.members], asked])
        rows, rank = self._collapse_rows(together, marginal.members)
        n_cells = self.table.n_cells
        position = np.full(len(rows), -1, dtype=np.int64)
        position[rank[:n_cells]] = marginal.position
        return position[rank[n_cells:]]

    # ------------------------------------------------------------------ entropy terms

    def entropy_term(self, mask: int) -> float:
        """Σ n_a log(n_a / n) over the cells of the marginal; 0 for the empty set."""
        return float(self.entropy_terms(np.array([mask], dtype=np.uint64))[0])

    def entropy_terms(self, masks: NDArray[np.uint64]) -> NDArray[np.float64]:
        """:meth:`entropy_term` of many sets at once, on all cores.

        Small marginals are computed from the smallest larger one at hand, not from the table.
        """
        reduced = self.table.reduce_many(masks).tolist()
        new = sorted({mask for mask in reduced if mask not in self._entropy})
        if new:
            self._fill_entropy(new)
        return np.array([self._entropy[mask] for mask in reduced])

    def _fill_entropy(self, masks: list[int]) -> None:
        radix = {mask: self._radix(mask) for mask in masks}
        countable = []
        for mask in masks:
            if radix[mask][2] < _LARGEST_KEY:
                countable.append(mask)
            else:
                counts = self.of(mask).counts
                self._entropy[mask] = float((counts * np.log(counts)).sum()) - self.total * math.log(self.total)
        self._fill_from(self._codes, self._cell_counts, countable, radix)

    def _fill_from(self, codes: NDArray[np.int32], counts: NDArray[Any], masks: list[int], radix: dict[int, _Radix]) -> None:
        """Entropy terms of ``masks`` from the given cells.

        Sets much smaller than the cells are first gathered under a larger set of them: that one is projected once, and
        the rest is computed from the projection in the same way.
        """
        by_size = sorted(masks, key=lambda mask: -radix[mask][2])
        waiting = np.array(by_size, dtype=np.uint64)
        is_small = np.array([4 * radix[mask][2] < len(counts) for mask in by_size], dtype=bool)
        direct = [mask for mask, small in zip(by_size, is_small, strict=True) if not small]
        waiting = waiting[is_small]
        while len(waiting):
            base = int(waiting[0])
            is_inside = waiting & np.uint64(self.table.close(base)) == waiting
            inside, waiting = [int(mask) for mask in waiting[is_inside]], waiting[~is_inside]
            if len(inside) < 3:
                direct.extend(inside)
                continue
            keys = kernels.marginal_keys(codes, *(np.array(part, np.int64) for part in radix[base][:2]))
            position, distinct = kernels.dense_positions(keys, radix[base][2])
            representative = np.zeros(len(distinct), dtype=np.int64)
            representative[position] = np.arange(len(counts))
            projected = kernels.add_up(position, counts, len(distinct))
            self._fill_from(np.asfortranarray(codes[representative]), projected, inside, radix)
        if not direct:
            return
        sums = np.zeros(len(direct))

        def count(start: int, step: int) -> None:
            part = [radix[mask] for mask in direct[start::step]]
            found = np.empty(len(part))
            kernels.sums_of_n_log_n(
                codes,
                counts,
                np.cumsum([0, *(len(members) for members, _, _ in part)]).astype(np.int64),
                np.array([v for members, _, _ in part for v in members], dtype=np.int64),
                np.array([stride for _, strides, _ in part for stride in strides], dtype=np.int64),
                np.array([n_possible for _, _, n_possible in part], dtype=np.int64),
                found,
            )
            sums[start::step] = found

        n_threads = min(os.cpu_count() or 1, len(direct)) if len(direct) * len(counts) >= _WORTH_A_THREAD else 1
        if n_threads == 1:
            count(0, 1)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(count, range(n_threads), [n_threads] * n_threads))
        for mask, total in zip(direct, sums, strict=True):
            self._entropy[mask] = float(total) - self.total * math.log(self.total)
