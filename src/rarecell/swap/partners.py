"""Who are the nearest records that a risky record can exchange values with?

Two records can exchange something exactly when they agree on a minimal separator of the interaction graph and differ on
two sides of it. So partners are sought in groups that agree on a separator, sorted so that neighbours in the group are alike
on the side that would move, and only a bounded stretch of each group is examined. The cheapest exchanges change a single key:
for these the separator is the neighbourhood of the key, and the group is sorted by the key. No pair outside such a group is
ever compared. If the stretches hold no partner for a record, its groups are read in full.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import hashing
from rarecell._kernels import swapping as kernels
from rarecell._kernels.distance import Nearness
from rarecell._kernels.neighbours import Around
from rarecell.graph.masks import all_below, components, mask_of, members
from rarecell.intruder.register import Persons
from rarecell.machine.threads import n_cores, on_all_cores
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.swap.interactions import Interactions
from rarecell.swap.rules import matching_levels
from rarecell.swap.task import SwapTask
from rarecell.swap.units import Units
from rarecell.table.contingency import ContingencyTable
from rarecell.table.distance import by_rank, yardsticks
from rarecell.table.structural_zeros import compatibility

if TYPE_CHECKING:
    from rarecell.edges import Array

MOST_MOVES = 96
"""Largest number of pairs of a separator and a side that are examined for one record."""

LOOKS = 160
"""Units examined for one record, over all moves together; two and four times as many in later rounds.

More looks find nearer partners, but also more that are close to each other, so the lists fill up with partners of one kind.
"""

LOOKS_PER_VALUE = 4
"""Number of units examined among those with the same values on the moving side."""

INDEX_BUDGET = 256 * 2**20
"""Memory for sorted groups kept between rounds, in bytes."""

SEEN_BUDGET = 32 * 2**20
"""Memory for noting which units were offered to a record already, in bytes."""

MOST_SEEN = 1024
"""Largest number of such units that are noted for one record."""

EXHAUSTIVE_BUDGET = 400_000_000
"""Largest number of pairs compared to make sure that records have no partner."""

GAPS = (0, 1, 3, 7, 14)
"""Numbers of values skipped next to a record's own, so that partners at several distances are found besides the nearest."""

N_PROBES = 4
"""Levels on each side of a value that are searched for somebody nearer, where few partners are safe."""

SCREENING_WEIGHT = 3.0
"""Weight of ordered keys with which candidates are screened; pricing tries a family of distances."""

_WORTH_A_THREAD = 256
_ALL = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Move:
    """Values on ``side`` may be exchanged between records that agree on ``separator``; both are bit masks."""

    separator: int
    side: int


@dataclass(frozen=True, eq=False)
class Candidates:
    """Possible exchanges, one per row: risky unit, partner unit, what moves, distance and cost."""

    risky: NDArray[np.int64]
    partner: NDArray[np.int64]
    moved: NDArray[np.uint64]
    distance: NDArray[np.float64]
    cost: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.risky)

    def part(self, chosen: NDArray[np.int64]) -> Candidates:
        """Return the chosen candidates."""
        return Candidates(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @classmethod
    def joined(cls, parts: Sequence[Candidates]) -> Candidates:
        """Join several lists into one."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


NearestRecords = tuple[Nearness, tuple[NDArray[np.float64], NDArray[np.int64]], tuple[NDArray[np.float64], NDArray[np.int64]]]
"""A distance; for each cell the distance and the number of the nearest other records, and the same among records that stay."""


class PartnerSearch:
    """Search for low-cost partners of risky records: near ones, where neither record stays linked to its person.

    Parameters
    ----------
    task : SwapTask
        The file, the model and all settings.
    """

    def __init__(self, task: SwapTask) -> None:
        self.request = task
        self.table, self.model = task.table, task.model
        self.constraints, self.distances = task.constraints, task.distances
        table, constraints = task.table, task.constraints
        self.interactions = Interactions.of_model(table, task.model, keep=task.keep, never_swap=constraints.never_swap)
        others = [c for c in constraints.columns if c not in table.vertex_names and c not in self.interactions.columns]
        others += [spared.column for spared in task.spare]
        self.units = Units.of(table, (*self.interactions.columns, *others), task.columns)
        self.is_closed = np.zeros(table.n_cells, dtype=bool)
        self.is_risky = np.zeros(self.units.n_units, dtype=bool)
        self._indexes: dict[Move, tuple[Array, ...]] = {}

    def stricter(self, factor: float) -> PartnerSearch:
        """Return the same search with links that cost ``factor`` times as much."""
        search = copy(self)
        search.request = replace(self.request, link_weight=factor * self.request.link_weight)
        return search

    def unlike(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
        """What differences between units in the columns to be spared cost."""
        cost = np.zeros(len(first))
        for spared in self.request.spare:
            codes = self.units.codes[:, self.units.position(spared.column)]
            cost += spared.cost(codes[first], codes[second])
        return cost

    # ------------------------------------------------------------------ what kernels see

    @cached_property
    def _cells(self) -> hashing.HashedCells:
        levels = [c.n_levels for c in self.table.categories]
        return hashing.HashedCells.of(self.table.cells, self.table.counts, levels, self.is_closed)

    @cached_property
    def _log_probability(self) -> NDArray[np.float64]:
        return self.model.log_cell_probability()[self.units.cell]

    @cached_property
    def around(self) -> Around:
        """The known persons, by the distance with which candidates are screened."""
        if self.request.intruders:
            return self._around(self.request.intruders[0].arrays(self.table))
        return self._around(by_rank(self.table, SCREENING_WEIGHT, self.distances).near)

    @cached_property
    def around_by_any(self) -> tuple[Around, ...]:
        """The known persons, by the distance of every intruder that a plan considers."""
        measured = [distances.arrays(self.table) for distances in self.request.intruders]
        measured = measured or [yardstick.near for yardstick in yardsticks(self.table, self.distances)]
        return tuple(self._around(near) for near in measured)

    @cached_property
    def nearest_records(self) -> tuple[NearestRecords, ...]:
        """By each distance: of every unique cell, how far the nearest other records are and how many, of all and of those that stay."""
        table = self.table
        alone = np.flatnonzero(table.counts == 1)
        stays = table.counts > 1
        staying = None
        if stays.any():
            staying = Persons(ContingencyTable.from_counts(table.cells[stays], table.counts[stays], table.categories))
        by_distance = []
        for around in yardsticks(table, self.distances):
            of_cells = []
            for persons in (Persons(table), staying):
                least, number = np.full(table.n_cells, np.inf), np.zeros(table.n_cells, dtype=np.int64)
                if persons is not None:
                    least[alone], number[alone] = persons.nearest(table.cells[alone], around.near)
                of_cells.append((least, number))
            by_distance.append((around.near, of_cells[0], of_cells[1]))
        return tuple(by_distance)

    def _around(self, near: Nearness) -> Around:
        return self.request.known.around(near, self.request.cell_link[self.units.cell])

    @cached_property
    def rules(self) -> kernels.Rules:
        """The forbidden combinations, as flags of codes."""
        n_columns = self.units.codes.shape[1]
        start = np.full((len(self.constraints.forbidden), n_columns), -1, dtype=np.int64)
        flags: list[NDArray[np.bool_]] = []
        n_flags = 0
        for r, condition in enumerate(self.constraints.forbidden):
            for name, value in condition.items():
                flags.append(matching_levels(name, self.units.values_of(name), value))
                start[r, self.units.position(name)] = n_flags
                n_flags += len(flags[-1])
        joined = np.concatenate(flags) if flags else np.zeros(0, dtype=bool)
        return kernels.Rules(joined, start, *self._excluded_tables())

    def _excluded_tables(self) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
        """The structural zeros, as tables over the keys they involve: cells, start and strides of each."""
        if not self.constraints.structural_zeros:
            return np.zeros(0, dtype=bool), np.zeros(0, dtype=np.int64), np.zeros((0, self.table.n_keys), dtype=np.int64)
        tables = compatibility(self.table, self.constraints.structural_zeros).excluded
        stride = np.zeros((len(tables), self.table.n_keys), dtype=np.int64)
        for row, (keys, excluded) in enumerate(tables.items()):
            for axis, k in enumerate(keys):
                stride[row, k] = int(np.prod(excluded.shape[axis + 1 :], dtype=np.int64))
        sizes = [excluded.size for excluded in tables.values()]
        cells = np.concatenate([excluded.ravel() for excluded in tables.values()]) if tables else np.zeros(0, dtype=bool)
        return cells, np.cumsum([0, *sizes])[:-1].astype(np.int64), stride

    def task(self, *, n_probes: int = 0, all_unions: bool = False, unconstrained: bool = False) -> kernels.Search:
        """Return everything by which an exchange is judged; with ``unconstrained``, only the margins count."""
        interactions, rules = self.interactions, self.rules
        fixed, within, cells = interactions.fixed, [self.units.position(c) for c in self.constraints.within], self._cells
        if unconstrained:
            rules = rules._replace(start=rules.start[:0], table_start=rules.table_start[:0])
            fixed, within = fixed & ~interactions.keys, []
            cells = cells._replace(is_closed=np.zeros(self.table.n_cells, dtype=bool))
        exchange = kernels.MovableUnits(
            codes=self.units.codes,
            neighbours=np.array(interactions.neighbours, dtype=np.uint64),
            keys=np.uint64(interactions.keys),
            fixed=np.uint64(fixed),
            within=np.array(within, dtype=np.int64),
            cell=self.units.cell,
            hashed=cells.hashed[self.units.cell],
            log_probability=self._log_probability,
            is_risky=self.is_risky,
        )
        return kernels.Search(
            exchange,
            self.distances.arrays(self.table),
            cells,
            rules,
            self.around,
            self.request.n_unseen,
            self.request.link_weight,
            self.request.empty_weight,
            n_probes,
            all_unions,
        )

    # ------------------------------------------------------------------ where to look

    @cached_property
    def separator_moves(self) -> tuple[Move, ...]:
        """Every minimal separator with each of its sides that may move."""
        graph = self.interactions
        everything = all_below(graph.n_vertices)
        moves = []
        for separator in graph.separators:
            for side in components(graph.neighbours, everything & ~separator):
                if side & graph.keys & ~graph.fixed:
                    moves.append(Move(separator, side))
        return tuple(moves)

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Moves of single keys at every resolution, followed by :attr:`separator_moves`."""
        graph = self.interactions
        moves = []
        for chain in self.table.chains:
            for place in range(len(chain) - 1, -1, -1):
                side = mask_of(chain[place:])
                if not side & graph.fixed:
                    moves.append(Move(graph.neighbourhood(side), side))
        return tuple(dict.fromkeys([*moves, *self.separator_moves]))[:MOST_MOVES]

    def finest(self, mask: int) -> list[int]:
        """Return the columns of the units that determine all vertices of ``mask``: only the finest vertex of each key."""
        of_table = self.table.all_vertices
        return [*members(self.table.reduce(mask & of_table)), *members(mask & ~of_table)]

    def _index(self, move: Move) -> tuple[Array, ...]:
        """Units sorted by separator, then side: order, start of each run, run of each unit, and range of runs of its group."""
        if move in self._indexes:
            return self._indexes[move]
        within = [self.units.position(c) for c in self.constraints.within]
        group, _ = self.units.ranks(sorted({*self.finest(move.separator), *within}))
        # The key with the most levels comes last, so that neighbours in the order differ in it first.
        side = [v for v in self.finest(move.side) if v < self.table.n_vertices]
        value, n_values = self.units.ranks(sorted(side, key=lambda v: self.units.column_levels[v]))
        combined = group * n_values + value
        order = np.argsort(combined, kind="stable").astype(np.int32)
        is_start = np.diff(combined[order], prepend=-1) != 0
        run_start = np.append(np.flatnonzero(is_start), len(order))
        run = np.empty(len(order), dtype=np.int32)
        run[order] = np.cumsum(is_start) - 1
        group_of_run = group[order[run_start[:-1]]]
        index = (order, run_start, run, group, group_of_run)
        if len(self.moves) * sum(part.nbytes for part in index) <= INDEX_BUDGET:
            self._indexes[move] = index
        return index

    def _runs(self, move: Move, risky: NDArray[np.int64]) -> kernels.Runs:
        order, run_start, run, group, group_of_run = self._index(move)
        first = np.searchsorted(group_of_run, group[risky], side="left")
        last = np.searchsorted(group_of_run, group[risky], side="right")
        return kernels.Runs(order, run_start, run[risky].astype(np.int64), first, last)

    # ------------------------------------------------------------------ looking

    def nearest(
        self,
        risky: NDArray[np.int64],
        is_free: NDArray[np.bool_],
        *,
        n_candidates: int = 16,
        effort: int = 1,
        progress: Progress = SILENT,
    ) -> kernels.Lists:
        """Find the best ``n_candidates`` partners of each risky unit among the free units.

        ``effort`` multiplies the length of the stretch of each group that is examined.
        """
        return self._scanned(self.task(), risky, is_free, n_candidates, effort, progress)

    def further(
        self,
        risky: NDArray[np.int64],
        is_free: NDArray[np.bool_],
        *,
        n_candidates: int,
        effort: int = 1,
        n_probes: int = N_PROBES,
        progress: Progress = SILENT,
    ) -> kernels.Lists:
        """Search like :meth:`nearest`, with partners at several distances as well as near ones."""
        return self._scanned(self.task(n_probes=n_probes), risky, is_free, n_candidates, effort, progress, GAPS)

    def _scanned(
        self,
        task: kernels.Search,
        risky: NDArray[np.int64],
        is_free: NDArray[np.bool_],
        n_candidates: int,
        effort: int,
        progress: Progress,
        gaps: Sequence[int] = (0,),
    ) -> kernels.Lists:
        lists, seen = _empty_lists(len(risky), n_candidates), _nobody_seen(len(risky))
        limit = max(2 * LOOKS_PER_VALUE, LOOKS // max(1, len(self.moves))) * effort
        progress.start("looking for swap partners", len(self.moves))
        for move in self.moves:
            runs = self._runs(move, risky)
            is_ordered = any(self.table.categories[k].is_ordered for k in members(move.side & self.table.all_keys))
            for gap in gaps if is_ordered else gaps[:1]:
                within = limit if gap == 0 else (limit + 1) // 2
                self._scan(task, runs, risky, is_free, lists, seen, kernels.Reach(LOOKS_PER_VALUE * effort, within, gap))
            checkpoint(progress, "looking for swap partners", 1)
        progress.done()
        return lists

    @staticmethod
    def _scan(
        task: kernels.Search,
        runs: kernels.Runs,
        risky: NDArray[np.int64],
        is_free: NDArray[np.bool_],
        lists: kernels.Lists,
        seen: NDArray[np.int32],
        reach: kernels.Reach,
    ) -> None:
        in_threads(lambda rows: kernels.scan_runs(task, runs, risky, rows, is_free, lists, seen, reach), len(risky))

    def exhaustive(self, risky: NDArray[np.int64], is_free: NDArray[np.bool_], *, n_candidates: int = 16) -> kernels.Lists:
        """Search like :meth:`nearest`, but examine every unit that agrees on a separator, and every union of parts."""
        lists, seen = _empty_lists(len(risky), n_candidates), _nobody_seen(len(risky))
        task = self.task(all_unions=True)
        for move in self.separator_moves:
            self._scan(task, self._runs(move, risky), risky, is_free, lists, seen, kernels.Reach(_ALL, _ALL, 0))
        return lists

    def exhaustive_pairs(self, risky: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the pairs that :meth:`exhaustive` compares for each risky unit."""
        total = np.zeros(len(risky), dtype=np.int64)
        for move in self.separator_moves:
            runs = self._runs(move, risky)
            total += runs.run_start[runs.last_run] - runs.run_start[runs.first_run]
        return total

    @cached_property
    def random_order(self) -> NDArray[np.int64]:
        """Units in the order of first appearance in a randomly ordered file; it depends on the counts alone, not on the file.

        A unit of c records first appears after an exponential waiting time of rate c.
        """
        waiting_time = np.random.default_rng(0).exponential(1.0 / self.units.counts)
        return np.argsort(waiting_time, kind="stable")

    def first_partners(
        self, risky: NDArray[np.int64], is_free: NDArray[np.bool_] | None = None, *, unconstrained: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Find the first unit, in :attr:`random_order`, with which each risky unit can exchange something; −1 if none."""
        order = self.random_order
        free = np.ones(self.units.n_units, dtype=bool) if is_free is None else is_free
        task = self.task(unconstrained=unconstrained)
        partner, moved = np.full(len(risky), -1, dtype=np.int64), np.zeros(len(risky), dtype=np.uint64)
        in_threads(lambda rows: kernels.first_partners(task, risky, rows, order, free, partner, moved), len(risky))
        return partner, moved

    def find_cells(self, cells: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the positions of cells given by key codes; −1 for an empty cell."""
        return np.asarray(hashing.find_cells(self._cells, self.hashed_cells(cells)))

    def hashed_cells(self, cells: NDArray[np.int32]) -> NDArray[np.uint64]:
        """Return a number of 64 bits for each of the cells, by which they are told apart."""
        return self._cells.of_rows(cells)


def in_threads(work: Callable[[tuple[int, int]], Any], n_rows: int) -> None:
    """Divide the rows among all cores; the kernels release the interpreter lock, and each row is written by one thread."""
    n_parts = max(1, min(4 * n_cores(), n_rows // _WORTH_A_THREAD))
    bounds = [n_rows * part // n_parts for part in range(n_parts + 1)]
    on_all_cores(work, [(rows,) for rows in pairwise(bounds)])


def _empty_lists(n_rows: int, n_candidates: int) -> kernels.Lists:
    return kernels.Lists(
        np.full((n_rows, n_candidates), np.inf),
        np.full((n_rows, n_candidates), -1, dtype=np.int32),
        np.zeros((n_rows, n_candidates), dtype=np.uint64),
    )


def _nobody_seen(n_rows: int) -> NDArray[np.int32]:
    """Room for as many units offered to each row as memory allows, a power of two of them."""
    room = SEEN_BUDGET // (4 * max(1, n_rows))
    return np.full((n_rows, 1 << min(max(room.bit_length() - 1, 0), MOST_SEEN.bit_length() - 1)), -1, dtype=np.int32)
