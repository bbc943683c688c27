"""How many records agree on these variables?

A marginal is a projection of a table to fewer vertices. Entropy terms (numbers) are kept for good, large arrays within a
memory budget. Counts are exact and unweighted; survey weights enter where the sample is extrapolated to the population.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import margins as kernels
from rarecell._kernels.counting import collapse_records, short_type
from rarecell._kernels.hashing import fill_slots, find_slots, free_slots, number_distinct, sorted_distinct
from rarecell.graph.masks import each_member, holds, is_inside, mask_of, members, single
from rarecell.machine.memory import marginals_budget
from rarecell.machine.threads import n_cores, on_all_cores

if TYPE_CHECKING:
    from rarecell.edges import Array, Integers
    from rarecell.table.contingency import ContingencyTable


LONG = 1 << 16
"""From so many rows on, sets of vertices are counted one by one; with fewer, their shared numbers stay in the cache and save a third."""

LARGEST_KEY = 2**62
"""Sets of so many possible cells or more are not numbered: their numbers would overflow."""

_WORTH_A_THREAD = 1_000_000
"""Number of rows times sets from which a second thread pays off."""

_FEW_KEYS = 16
"""Projections are shared only in tables with at most this many keys; with more, two sets seldom share one."""

_SHORT, _MOST_REMEMBERED = 512, 2048
"""Most levels of a set whose numbering is kept, and most sets kept: eight megabytes in all."""

WORTH_PROJECTING = 131_072
"""Number of rows from which a projection to fewer rows pays off."""


class _Radix(NamedTuple):
    """How codes number a marginal cell: members of the set, their strides (last member fastest), number of possible cells."""

    members: tuple[int, ...]
    strides: tuple[int, ...]
    n_possible: int


class _Rows(NamedTuple):
    """Rows of key codes, with the count of each."""

    codes: Array
    counts: Array


class MarginalCells(NamedTuple):
    """The occupied cells of a projection: mixed-radix numbers in increasing order, and counts."""

    keys: NDArray[np.int64]
    counts: Array


@dataclass(frozen=True, eq=False)
class Marginal:
    """The occupied cells of a projection.

    ``keys`` holds the mixed-radix numbers of the occupied marginal cells in increasing order, ``counts`` their counts,
    and ``position`` the marginal cell of every cell of the table. ``keys`` is None where the numbers would overflow.
    """

    members: tuple[int, ...]
    strides: tuple[int, ...]
    keys: NDArray[np.int64] | None
    counts: Array
    position: NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes + self.position.nbytes + (0 if self.keys is None else self.keys.nbytes)


class Marginals:
    """All marginals of one table, computed on demand.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table.
    memory_budget : int, optional
        Bytes of marginals to keep, the least recently used dropped first; by default proportional to the number of cells.
    worth_projecting : int
        Number of rows from which small sets are counted from a projection to fewer rows.
    """

    def __init__(
        self,
        table: ContingencyTable,
        *,
        memory_budget: int | None = None,
        worth_projecting: int = WORTH_PROJECTING,
    ) -> None:
        self.table = table
        self._settings = memory_budget, worth_projecting
        self._worth_projecting = worth_projecting
        memory_budget = marginals_budget(table.n_cells) if memory_budget is None else memory_budget
        self.total: float = table.n_records
        self._cell_counts: Array = table.counts
        self._levels = [int(n) for n in table.vertex_levels]
        self._level_codes = [table.level_codes(v).astype(np.int64) for v in range(table.n_vertices)]
        self._entropy: dict[int, float] = {0: 0.0}
        self._radices: dict[int, _Radix] = {}
        self._reduced: dict[int, int] = {}
        self._short_parts: dict[tuple[int, ...], tuple[NDArray[np.int64], ...]] = {}
        # Column, first level, number of levels and level of each code, by vertex: what kernels need to read rows.
        self._of_vertices = (
            np.array(table.vertex_key, dtype=np.int64),
            np.cumsum([0, *map(len, self._level_codes[:-1])]).astype(np.int64),
            np.array(self._levels, dtype=np.int64),
            np.concatenate(self._level_codes).astype(np.int32),
        )
        self._table_rows = _Rows(np.asfortranarray(table.cells, short_type(max(self._levels))), self._cell_counts)
        self._bases: Cache[_Rows] = Cache(memory_budget // 2)
        # Bases whose rows seldom agree: their projections to large sets have only slightly fewer rows and are not tried again.
        self._spread_out: set[int] = set()
        self._lock = threading.RLock()
        self._kept: Cache[Marginal] = Cache(memory_budget // 4)
        self._kept_cells: Cache[MarginalCells] = Cache(memory_budget // 4)
        self._kept_values: Cache[NDArray[np.int32]] = Cache(memory_budget // 16)

    def __reduce__(self) -> tuple[Callable[..., Marginals], tuple[ContingencyTable, int | None, int]]:
        """A copy counts again."""
        return _counting_again, (self.table, *self._settings)

    # ------------------------------------------------------------------ one marginal

    def project(self, mask: int) -> Marginal:
        """The marginal on the vertices of ``mask``, with the position in it of every cell of the table."""
        reduced = self._reduce(mask)
        marginal = self._kept.get(reduced)
        if marginal is None:
            marginal = self._compute(reduced)
            self._kept.put(reduced, marginal, marginal.nbytes)
        return marginal

    def counts(self, mask: int) -> Array:
        """Counts of the occupied marginal cells."""
        if self._radix(self._reduce(mask)).n_possible >= LARGEST_KEY:
            return self.project(mask).counts
        return self.cells_of(mask).counts

    def cell_index(self, mask: int) -> NDArray[np.int32]:
        """Position in :meth:`counts` of the marginal cell that each cell of the table falls into."""
        return self.project(mask).position

    def at_cells(self, mask: int) -> Array:
        """n(i_a) for each occupied cell i of the table."""
        marginal = self.project(mask)
        return marginal.counts[marginal.position]

    def at_cell(self, mask: int, cell: int) -> float:
        """n(i_a) of one occupied cell of the table."""
        marginal = self.project(mask)
        return float(marginal.counts[marginal.position[cell]])

    def lookup(self, mask: int, cells: NDArray[np.int32]) -> Array:
        """n(i_a) for any cells given by key codes; 0 where nothing was observed."""
        position = self.positions(mask, cells)
        return np.where(position >= 0, self.counts(mask)[position], 0)

    def positions(self, mask: int, cells: NDArray[np.int32] | None) -> Integers:
        """Position in :meth:`counts` of any cells given by key codes; −1 where nothing was observed.

        None stands for the occupied cells of the table; unlike :meth:`cell_index`, this stores nothing.
        """
        reduced = self._reduce(mask)
        radix = self._radix(reduced)
        if radix.n_possible >= LARGEST_KEY:
            return self.project(reduced).position if cells is None else self._positions_by_rows(self.project(reduced), cells)
        rows = self._table_rows.codes if cells is None else cells
        return ranked(self._numbers(rows, radix), self.cells_of(reduced).keys, radix.n_possible)

    def cells_of(self, mask: int) -> MarginalCells:
        """The occupied marginal cells alone, computed from the smallest projection available."""
        reduced = self._reduce(mask)
        cells = self._kept_cells.get(reduced)
        if cells is None:
            radix = self._radix(reduced)
            cells = self._projected(self._base_for(reduced, radix.n_possible), radix)
            self._kept_cells.put(reduced, cells, cells.keys.nbytes + cells.counts.nbytes)
        return cells

    def n_values_in(self, mask: int, vertex: int) -> NDArray[np.int32]:
        """For each marginal cell of :meth:`cells_of`, the number of values of another vertex that occur in it."""
        both = mask * self.table.n_vertices + vertex
        n_values = self._kept_values.get(both)
        if n_values is None:
            in_cell = self.positions(mask, self.level_rows(mask | single(vertex)))
            n_values = np.bincount(in_cell).astype(np.int32)
            self._kept_values.put(both, n_values, n_values.nbytes)
        return n_values

    def level_rows(self, mask: int) -> NDArray[np.int32]:
        """For each marginal cell of :meth:`cells_of`, the key codes of a cell that falls into it.

        A coarsened group is represented by one of its levels; keys outside the set have code 0.
        """
        radix = self._radix(self._reduce(mask))
        if radix.n_possible < LARGEST_KEY:
            return self._level_rows(self.cells_of(mask).keys, radix, np.dtype(np.int32))
        marginal = self.project(mask)
        cell = np.zeros(len(marginal.counts), dtype=np.int64)
        cell[marginal.position] = np.arange(self.table.n_cells)
        rows = np.zeros((len(cell), self.table.n_keys), dtype=np.int32, order="F")
        for v in radix.members:
            rows[:, self.table.vertex_key[v]] = self.table.first_level(v)[self.table.vertex_codes(v)[cell]]
        return rows

    def _level_rows(self, keys: NDArray[np.int64], radix: _Radix, code_type: np.dtype[Any]) -> Array:
        rows = np.zeros((len(keys), self.table.n_keys), dtype=code_type, order="F")
        levels = [self.table.first_level(v) for v in radix.members]
        begins = np.cumsum([0, *map(len, levels)]).astype(np.int64)
        columns = np.array([self.table.vertex_key[v] for v in radix.members], dtype=np.int64)
        strides = np.array(radix.strides, dtype=np.int64)
        kernels.unpack(keys, strides, columns, begins, np.concatenate([np.empty(0, np.int32), *levels]), rows)
        return rows

    def _compute(self, reduced: int) -> Marginal:
        radix = self._radix(reduced)
        if radix.n_possible >= LARGEST_KEY:
            codes = np.stack([self.table.vertex_codes(v) for v in radix.members], axis=1)
            position = self._collapse_rows(codes, radix.members)[1]
            counts = added_up(position, self._cell_counts, int(position.max()) + 1)
            return Marginal(radix.members, radix.strides, None, counts, position)
        keys, counts = self.cells_of(reduced)
        position = ranked(self._numbers(self._table_rows.codes, radix), keys, radix.n_possible)
        return Marginal(radix.members, radix.strides, keys, counts, position)

    def _reduce(self, mask: int) -> int:
        """``mask`` with the finest vertex of each key alone, remembered: small tables are asked for the same sets again and again."""
        if (reduced := self._reduced.get(mask)) is None:
            reduced = self.table.reduce(mask)
            if len(self._reduced) < _MOST_REMEMBERED:
                self._reduced[mask] = reduced
        return reduced

    def _radix(self, reduced: int) -> _Radix:
        if (radix := self._radices.get(reduced)) is None:
            strides, n_possible = [], 1
            for v in reversed(members(reduced)):
                strides.append(n_possible)
                n_possible *= self._levels[v]
            radix = _Radix(members(reduced), tuple(reversed(strides)), n_possible)
            if len(self._radices) < _MOST_REMEMBERED:
                self._radices[reduced] = radix
        return radix

    def in_columns(self, cells: Array) -> Array:
        """The same key codes column by column, in the type of the table: what is asked for many sets is converted once."""
        return np.asfortranarray(cells, self._table_rows.codes.dtype)  # one type, so that one loop is compiled

    def _numbers(self, rows: Array, radix: _Radix) -> NDArray[np.int64]:
        """The mixed-radix number of each row of key codes."""
        return np.asarray(kernels.marginal_keys(self.in_columns(rows).T, *self._parts_of(radix)))

    def _parts_of(self, radix: _Radix) -> tuple[NDArray[np.int64], ...]:
        """What a kernel needs to number rows: the column of each member, where its levels begin, and what each level adds.

        Kept when short, because small tables are asked for the same sets again and again.
        """
        parts = self._short_parts.get(radix.members)
        if parts is None:
            adds = [self._level_codes[v] * stride for v, stride in zip(radix.members, radix.strides, strict=True)]
            columns = np.array([self.table.vertex_key[v] for v in radix.members], dtype=np.int64)
            begins = np.cumsum([0, *map(len, adds)]).astype(np.int64)
            parts = columns, begins, np.concatenate([np.empty(0, np.int64), *adds])
            if len(parts[-1]) <= _SHORT and len(self._short_parts) < _MOST_REMEMBERED:
                self._short_parts[radix.members] = parts
        return parts

    def _collapse_rows(self, codes: NDArray[np.int32], members: Sequence[int]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        levels = np.array([self._levels[v] for v in members], dtype=np.int64)
        rows, _, position = collapse_records(np.asfortranarray(codes), levels)
        return rows, position.astype(np.int32)

    def _positions_by_rows(self, marginal: Marginal, cells: NDArray[np.int32]) -> NDArray[np.int64]:
        # Numbers would overflow, so rank the rows of the table together with the requested rows.
        asked = np.stack([self.table.map_cells(cells, v) for v in marginal.members], axis=1)
        ours = np.stack([self.table.vertex_codes(v) for v in marginal.members], axis=1)
        together = np.concatenate([ours, asked])
        rows, rank = self._collapse_rows(together, marginal.members)
        n_cells = self.table.n_cells
        position = np.full(len(rows), -1, dtype=np.int64)
        position[rank[:n_cells]] = marginal.position
        positions: NDArray[np.int64] = position[rank[n_cells:]]
        return positions

    # ------------------------------------------------------------------ entropy terms

    def entropy_term(self, mask: int) -> float:
        """Σ n_a log(n_a / n) over the cells of the marginal; 0 for the empty set."""
        return float(self.entropy_terms(np.array([mask], dtype=np.uint64))[0])

    def entropy_terms(self, masks: NDArray[np.uint64]) -> NDArray[np.float64]:
        """:meth:`entropy_term` of many sets, on all cores; small marginals come from the smallest larger one available."""
        reduced = self.table.reduce_many(masks).tolist()
        new = sorted({mask for mask in reduced if mask not in self._entropy})
        if new:
            self._fill_entropy(new)
        return np.array([self._entropy[mask] for mask in reduced])

    def take_terms_from(self, other: Marginals) -> None:
        """Take the entropy terms of sets of keys that marginals of the same cells know, whatever coarsenings they have."""
        of_keys = self.table.all_keys
        self._entropy.update((mask, term) for mask, term in list(other._entropy.items()) if mask & ~of_keys == 0)

    def _fill_entropy(self, masks: list[int]) -> None:
        by_base: dict[int, list[int]] = {}
        rows: dict[int, _Rows] = {}
        for mask in sorted(masks, key=lambda mask: -self._radix(mask).n_possible):
            base = self._base_for(mask, self._radix(mask).n_possible)
            rows[id(base)] = base
            by_base.setdefault(id(base), []).append(mask)
        for base_id, inside in by_base.items():
            sums = self._sums_of_n_log_n(rows[base_id], np.array(inside, dtype=np.uint64))
            for mask, total in zip(inside, sums.tolist(), strict=True):
                self._entropy[mask] = total - self.total * math.log(self.total)

    def _sums_of_n_log_n(self, rows: _Rows, masks: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Σ n_a log n_a for each set, on all cores.

        Members with many levels come first, and sets with the same first members one after another.
        """
        vertices = np.argsort([-n for n in self._levels], kind="stable")
        holds_vertex = (masks[:, None] >> vertices.astype(np.uint64)) & np.uint64(1)
        order = np.lexsort(holds_vertex.T[::-1])
        of_set, at = np.nonzero(holds_vertex[order])
        first, members = np.searchsorted(of_set, np.arange(len(masks) + 1)), vertices[at]
        counts = rows.counts.astype(np.int32) if self.total < 2**31 else rows.counts
        sums, is_long = np.empty(len(masks)), len(counts) >= LONG

        def count(start: int, stop: int) -> None:
            sums_of_part = np.empty(stop - start)
            own_first = first[start : stop + 1]
            kernels.sums_of_n_log_n(rows.codes.T, counts, is_long, own_first, members, *self._of_vertices, sums_of_part)
            sums[order[start:stop]] = sums_of_part

        # More parts than cores, because some take longer; a part begins without numbers of its first members.
        n_parts = 4 * n_cores() if len(masks) * len(rows.counts) >= _WORTH_A_THREAD else 1
        bounds = np.unique(len(masks) * np.arange(n_parts + 1) // n_parts).tolist()
        on_all_cores(count, list(pairwise(bounds)))
        return sums

    # ------------------------------------------------------------------ projections to count from

    def _base_for(self, mask: int, n_possible: int) -> _Rows:
        """The smallest available projection that holds this set, made first where all available ones are much larger.

        A new projection covers further vertices with few levels, so that it serves other sets as well. The first try takes
        so many that it may have fewer rows, if many combinations do not occur; the second so few that it must.
        """
        if self.table.n_keys > _FEW_KEYS:
            return self._table_rows
        with self._lock:
            while True:
                base, rows = self.table.all_vertices, self._table_rows
                for other, smaller in self._bases.items():
                    if is_inside(mask, other) and len(smaller.counts) < len(rows.counts):
                        base, rows = other, smaller
                self._bases.get(base)
                n_rows = len(rows.counts)
                if n_rows < self._worth_projecting or base == self.table.close(mask):
                    return rows
                if n_possible <= 4 * n_rows and base not in self._spread_out:
                    if self._keep_base(self._enlarged(mask, base, 4 * n_rows), rows):
                        continue
                    self._spread_out.add(base)
                if not (2 * n_possible <= n_rows and self._keep_base(self._enlarged(mask, base, n_rows // 2), rows)):
                    return rows

    def _keys_of(self, mask: int) -> int:
        """The keys that the vertices of a set belong to, as a bit mask."""
        return mask_of(int(self.table.vertex_key[v]) for v in each_member(mask))

    def _enlarged(self, mask: int, base: int, most_cells: int) -> int:
        """The set with more vertices of ``base``, fewest levels first, up to ``most_cells`` possible cells; closed."""
        own = self._keys_of(mask)
        inside = members(base & ~mask)
        # The set's own keys come first, because their other resolutions are needed soon; other keys only at full resolution.
        of_own_keys = [v for v in inside if holds(own, int(self.table.vertex_key[v]))]
        others = [v for v in inside if v < self.table.n_keys and not holds(own, v)]
        for vertices, most in ((of_own_keys, most_cells), (others, most_cells // 8)):
            for v in sorted(vertices, key=self._levels.__getitem__):
                if self._radix(self.table.reduce(mask | single(v))).n_possible <= most:
                    mask |= single(v)
        return self.table.close(mask)

    def _keep_base(self, mask: int, rows: _Rows) -> bool:
        """Project rows to a set and keep the result unless it is only slightly smaller; return whether it was kept."""
        radix = self._radix(self.table.reduce(mask))
        keys, counts = self._projected(rows, radix)
        if 2 * len(keys) > len(rows.counts):
            return False
        made = _Rows(self._level_rows(keys, radix, rows.codes.dtype), counts)
        self._bases.put(mask, made, made.codes.nbytes + made.counts.nbytes)
        return True

    def _projected(self, rows: _Rows, radix: _Radix) -> MarginalCells:
        numbers = self._numbers(rows.codes, radix)
        if radix.n_possible <= 4 * len(numbers) + 1024:
            sums = added_up(numbers, rows.counts, radix.n_possible)
            occupied = np.flatnonzero(sums)
            return MarginalCells(occupied, sums[occupied])
        distinct, number = np.empty(len(numbers), dtype=np.int64), np.empty(len(numbers), dtype=np.int32)
        n_distinct = number_distinct(numbers, free_slots(len(numbers)), distinct, number)
        order = np.argsort(distinct[:n_distinct])
        return MarginalCells(distinct[order], added_up(number, rows.counts, n_distinct)[order])


def _counting_again(table: ContingencyTable, memory_budget: int | None, worth_projecting: int) -> Marginals:
    return Marginals(table, memory_budget=memory_budget, worth_projecting=worth_projecting)


# Which earlier results are still in memory?


_T = TypeVar("_T")


class Cache(Generic[_T]):
    """Values by set, within a memory budget; the least recently used are dropped first."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._bytes = 0
        self._values: OrderedDict[int, tuple[_T, int]] = OrderedDict()
        # Models are fitted in several threads at once.
        self._lock = threading.Lock()

    def get(self, mask: int) -> _T | None:
        with self._lock:
            if mask not in self._values:
                return None
            self._values.move_to_end(mask)
            return self._values[mask][0]

    def put(self, mask: int, value: _T, n_bytes: int) -> None:
        with self._lock:
            self._bytes += n_bytes - self._values.pop(mask, (value, 0))[1]
            self._values[mask] = (value, n_bytes)
            while self._bytes > self._budget and len(self._values) > 1:
                self._bytes -= self._values.popitem(last=False)[1][1]

    def items(self) -> list[tuple[int, _T]]:
        with self._lock:
            return [(mask, value) for mask, (value, _) in self._values.items()]


# Where among the occupied cells of a marginal does each key stand, and what adds up there?


_FEW_ASKED = 4
"""Where so many times as many marginal cells occur as are asked for, a binary search beats a table of all of them."""


def added_up(positions: Array, values: Array, n_sums: int) -> Array:
    """Sum of the values at each position."""
    sums = np.zeros(n_sums, dtype=values.dtype)
    kernels.add_up(positions, values, sums)
    return sums


def ranked(keys: NDArray[np.int64], distinct: NDArray[np.int64], n_possible: int) -> NDArray[np.int32]:
    """Position of each key among the increasing ``distinct`` keys; −1 where it is absent."""
    if _FEW_ASKED * len(keys) < len(distinct):
        place = np.minimum(np.searchsorted(distinct, keys), len(distinct) - 1)
        return np.where(distinct[place] == keys, place, -1).astype(np.int32)
    rank = np.empty(len(keys), dtype=np.int32)
    if n_possible <= 4 * max(len(keys), len(distinct)) + 1024:
        kernels.rank_dense(keys, distinct, np.full(n_possible, -1, dtype=np.int32), rank)
    else:
        slots = free_slots(len(distinct))
        fill_slots(distinct, slots)
        find_slots(keys, distinct, slots, rank)
    return rank


_LARGEST = 2**62
"""Combinations are renumbered before their numbers would exceed this, so that they never overflow."""


def cells_that_agree(table: ContingencyTable, mask: int, cells: NDArray[np.int32]) -> NDArray[np.int64]:
    """Number the cells from 0, giving the same number to cells that agree on a set of vertices."""
    number = np.zeros(len(cells), dtype=np.int64)
    if not len(cells):
        return number
    n_possible = 1
    for vertex in each_member(table.reduce(mask)):
        n_levels = int(table.vertex_levels[vertex])
        if n_possible * n_levels > _LARGEST:
            number, n_possible = sorted_distinct(number)[2].astype(np.int64), len(cells)
        number = number * n_levels + table.map_cells(cells, vertex)
        n_possible *= n_levels
    return sorted_distinct(number)[2].astype(np.int64)
