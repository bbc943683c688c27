"""How are cell probabilities with given marginals and no other interactions found?

By iterative proportional fitting on a junction tree (Jiroušek and Přeučil 1995). The joint distribution is the product
of one table per clique divided by one table per separator, as in Hugin propagation. A cycle walks around the tree: in
each clique the marginals that lie in it are fitted in turn, and on the way to the next clique the change is passed on
through the separator. Every marginal is thus fitted to the current joint distribution, and the result is the same as on
the full table, which is never built.

Where the likelihood has its maximum on the boundary (some cells with positive marginals have fitted values that tend to
zero, as is common in sparse tables), plain cycles converge only like 1/t. After :data:`PLAIN_CYCLES` of them, a
quasi-Newton method climbs the same concave likelihood in the logarithms of the factors, where the gradient is the
deviation of the marginals. Cycles then finish the work.

References
----------
Jiroušek and Přeučil (1995), On the effective implementation of the iterative proportional fitting procedure.
Computational Statistics & Data Analysis 19, 177-189.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import fitting as kernels
from rarecell._kernels.fitting import dot
from rarecell.errors import NotConverged, TooLarge
from rarecell.graph.chordal import ChordalGraph
from rarecell.graph.masks import each_member, holds, members, single
from rarecell.model.random_draws import draw_within
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.table.contingency import ContingencyTable
from rarecell.table.marginals import Marginals

STAGE = "fitting marginals"

PLAIN_CYCLES = 50
"""Number of cycles before each turn of the quasi-Newton method."""

CLIMB_STEPS = 200
"""Most steps of the quasi-Newton method between two runs of cycles."""


@dataclass(frozen=True)
class Convergence:
    """How a fit ended.

    Attributes
    ----------
    cycles : int
        Number of rounds over all marginals, for proportional fitting or for a gradient.
    deviation : float
        Largest absolute deviation of a fitted marginal from the observed one, in records.
    tolerance : float
        The deviation that was allowed, in records.
    cells : int
        Number of cells kept in the tables of all cliques.
    largest_clique : int
        Number of cells of the largest of these tables.
    """

    cycles: int
    deviation: float
    tolerance: float
    cells: int
    largest_clique: int

    @property
    def has_converged(self) -> bool:
        return self.deviation <= self.tolerance

    def __str__(self) -> str:
        state = "reached" if self.has_converged else "did not reach"
        return (
            f"The fit {state} its tolerance: after {self.cycles:,} rounds the marginals deviate by at most "
            f"{self.deviation:.3g} records (tolerance {self.tolerance:.3g}); the largest clique has {self.largest_clique:,} cells."
        )


@dataclass(frozen=True, eq=False)
class CliqueTable:
    """Expected counts of the cells of one clique, and the position of each cell in the marginals fitted there."""

    cells: CliqueCells
    fitted: NDArray[np.float64]
    index: NDArray[np.int32]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Link:
    """An edge of the junction tree: the table of the separator and the position in it of each cell of both cliques."""

    parent: int
    child: int
    parent_index: NDArray[np.int32]
    child_index: NDArray[np.int32]
    counts: NDArray[np.float64]


class JunctionTreeFit:
    """Tables of all cliques, fitted to the marginals of ``generators``.

    ``log_factor`` holds the logarithm of the factor of every occupied marginal cell, generator by generator. The expected
    count of a cell is the product of its factors.
    """

    def __init__(self, marginals: Marginals, generators: Sequence[int], graph: ChordalGraph, *, memory_limit: float) -> None:
        self.marginals = marginals
        self.generators = tuple(generators)
        sequence = graph.perfect_sequence
        home = [next(c for c, clique in enumerate(sequence.cliques) if g & ~clique == 0) for g in generators]
        sizes = [len(marginals.counts(g)) for g in generators]
        self.start: NDArray[np.int64] = np.cumsum([0, *sizes])
        self.target: NDArray[np.float64] = np.concatenate([marginals.counts(g).astype(float) for g in generators])
        self.log_factor: NDArray[np.float64] = np.zeros(len(self.target))
        left = float(memory_limit)
        self.cliques: list[CliqueTable] = []
        for c, clique in enumerate(sequence.cliques):
            here = [g for g in range(len(generators)) if home[g] == c]
            bytes_per_cell = 32 + 4 * (marginals.table.n_keys + len(here))
            cells = positive_cells(marginals, clique, generators, most_cells=int(left / bytes_per_cell))
            left -= bytes_per_cell * len(cells)
            self.cliques.append(self._clique_table(cells, here))
        self.links = [self._link(sequence.parents[c], c, sequence.separators[c]) for c in range(1, len(sequence.cliques))]

    def _clique_table(self, cells: CliqueCells, here: Sequence[int]) -> CliqueTable:
        index = np.empty((len(here), len(cells)), dtype=np.int32)
        for row, g in enumerate(here):
            index[row] = self.marginals.positions(self.generators[g], cells.codes) + self.start[g]
        where = np.array(here, dtype=np.int64)
        return CliqueTable(cells, np.ones(len(cells)), index, self.start[where], self.start[where + 1])

    def _link(self, parent: int, child: int, separator: int) -> Link:
        table = self.marginals.table
        reduced = members(table.reduce(separator))
        both = [self.cliques[side].cells.codes for side in (parent, child)]
        index = np.zeros(sum(len(codes) for codes in both), dtype=np.int64)
        for v in reduced:
            index = index * int(table.vertex_levels[v]) + np.concatenate([table.map_cells(codes, v) for codes in both])
            index = np.unique(index, return_inverse=True)[1]
        n_parent = len(both[0])
        position = index.astype(np.int32)
        return Link(parent, child, position[:n_parent], position[n_parent:], np.ones(int(index.max(initial=0)) + 1))

    # ------------------------------------------------------------------ walking

    def _tour(self) -> Iterator[tuple[str, int]]:
        """The steps around the tree from its root: enter a clique, go down a link, come back up."""
        down: dict[int, list[int]] = {}
        for position, link in enumerate(self.links):
            down.setdefault(link.parent, []).append(position)
        stack: list[tuple[str, int]] = [("enter", 0)]
        while stack:
            step, position = stack.pop()
            yield step, position
            if step == "enter":
                for place in reversed(down.get(position, [])):
                    stack += [("up", place), ("enter", self.links[place].child), ("down", place)]

    def _pass_down(self, link: Link) -> None:
        parent, child = self.cliques[link.parent].fitted, self.cliques[link.child].fitted
        kernels.pass_message(parent, link.parent_index, child, link.child_index, link.counts)

    def _pass_up(self, link: Link) -> None:
        parent, child = self.cliques[link.parent].fitted, self.cliques[link.child].fitted
        kernels.pass_message(child, link.child_index, parent, link.parent_index, link.counts)

    def _cycle(self) -> float:
        """Fit every marginal once; return the largest deviation, each measured just before the marginal was fitted."""
        worst = 0.0
        for step, position in self._tour():
            if step == "down":
                self._pass_down(self.links[position])
            elif step == "up":
                self._pass_up(self.links[position])
            else:
                clique = self.cliques[position]
                arrays = (clique.fitted, clique.index, clique.low, clique.high, self.target, self.log_factor)
                worst = max(worst, float(kernels.fit_margins(*arrays)))
        return worst

    def _margins(self) -> NDArray[np.float64]:
        """The fitted marginals of all generators; the table of the root must be up to date."""
        margins = np.zeros(len(self.target))
        for step, position in self._tour():
            if step == "down":
                self._pass_down(self.links[position])
            elif step == "enter":
                clique = self.cliques[position]
                kernels.add_margins(clique.fitted, clique.index, margins)
        return margins

    def _load(self, log_factor: NDArray[np.float64]) -> float:
        """Set the tables to the given factors, scaled at the root to the number of records.

        Return the logarithm of the sum, over all cells, of the products of their factors.
        """
        log_sum = sum(float(kernels.load_factors(log_factor, clique.index, clique.fitted)) for clique in self.cliques)
        for link in self.links:
            link.counts[:] = 1.0
        for link in reversed(self.links):
            self._pass_up(link)
        root = self.cliques[0].fitted
        scale = root.sum()
        root *= self.marginals.total / scale
        return log_sum + float(np.log(scale))

    # ------------------------------------------------------------------ fitting

    def fit(self, *, tolerance: float, max_cycles: int, progress: Progress = SILENT) -> Convergence:
        """Iterate until no marginal deviates by more than ``tolerance`` records, or for ``max_cycles`` rounds."""
        progress.start(STAGE, None)
        for link in reversed(self.links):
            self._pass_up(link)
        cycles = 0
        deviation = np.inf
        while deviation > tolerance and cycles < max_cycles:
            if cycles > 0:
                cycles += self._climb(min(CLIMB_STEPS, max_cycles - cycles), tolerance, progress)
            for _ in range(PLAIN_CYCLES):
                cycles += 1
                checkpoint(progress, STAGE, 1.0)
                if self._cycle() <= tolerance or cycles >= max_cycles:
                    break
            deviation = float(np.abs(self._margins() - self.target).max())
        progress.done()
        sizes = [len(clique.cells) for clique in self.cliques]
        return Convergence(cycles, deviation, tolerance, sum(sizes), max(sizes))

    def expected_with(self, log_factor: NDArray[np.float64]) -> NDArray[np.float64]:
        """Expected counts at the occupied cells of the last generator when the others have the given factors.

        The products of the factors must add up to the number of records over all cells where the marginals of those
        others are positive. The tables here may hold fewer cells, because the last marginal is zero at some of them.
        """
        factors = np.concatenate([log_factor, np.zeros(len(self.log_factor) - len(log_factor))])
        log_sum = self._load(factors)
        return self._margins()[self.start[-2] :] * float(np.exp(log_sum) / self.marginals.total)

    def _climb(self, max_steps: int, tolerance: float, progress: Progress) -> int:
        """Increase the likelihood by a quasi-Newton method; return how often the marginals were computed."""
        # In units of the standard deviation of a count, all parameters are about equally well determined.
        unit = 1.0 / np.sqrt(self.target)
        total = self.marginals.total

        def loss(scaled: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            checkpoint(progress, STAGE, 1.0)
            log_factor = scaled * unit
            log_sum = self._load(log_factor)
            excess = self._margins() - self.target
            return total * log_sum - dot(self.target, log_factor), excess * unit

        def is_close(_: float, gradient: NDArray[np.float64]) -> bool:
            return bool(np.abs(gradient / unit).max() < tolerance / 2)

        optimum = minimise(loss, self.log_factor / unit, max_calls=max_steps, is_done=is_close)
        self.log_factor[:] = optimum.point * unit
        # The tables add up to the number of records, and so must the products of the factors.
        self.log_factor[self.start[0] : self.start[1]] -= self._load(self.log_factor) - np.log(total)
        return optimum.calls

    # ------------------------------------------------------------------ drawing

    def sample(self, n_records: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw records clique by clique, each clique given its separator; key codes, one row per record."""
        table = self.marginals.table
        drawn = np.zeros((n_records, table.n_keys), dtype=np.int32, order="F")
        chosen: dict[int, NDArray[np.int64]] = {}
        nothing = np.zeros(len(self.cliques[0].cells), dtype=np.int32)
        chosen[0] = draw_within(self.cliques[0].fitted, nothing, np.zeros(n_records, dtype=np.int64), rng)
        for link in self.links:
            group = link.parent_index[chosen[link.parent]].astype(np.int64)
            chosen[link.child] = draw_within(self.cliques[link.child].fitted, link.child_index, group, rng)
        for c, picked in chosen.items():
            cells = self.cliques[c].cells
            for key in range(table.n_keys):
                if holds(cells.mask, key):
                    drawn[:, key] = cells.codes[picked, key]
        return drawn


def fit_marginals(
    marginals: Marginals,
    generators: Sequence[int],
    graph: ChordalGraph,
    *,
    tolerance: float,
    max_cycles: int,
    memory_limit: float,
    must_converge: bool = True,
    progress: Progress = SILENT,
) -> tuple[JunctionTreeFit, Convergence]:
    """Fit the marginals of closed ``generators`` on the junction tree of ``graph``, where each is complete.

    Raises
    ------
    NotConverged
        When ``max_cycles`` are not enough and ``must_converge`` is set.
    TooLarge
        When the tables of the cliques need more than ``memory_limit`` bytes.
    """
    tree = JunctionTreeFit(marginals, generators, graph, memory_limit=memory_limit)
    convergence = tree.fit(tolerance=tolerance, max_cycles=max_cycles, progress=progress)
    if must_converge and not convergence.has_converged:
        raise NotConverged(
            f"{convergence} Allow more cycles with max_cycles, or a larger tolerance, or keep the fit as it is with "
            "must_converge=False."
        )
    return tree, convergence


# Which cells of a clique can have positive probability?
#
# A fitted cell is positive only if every fitted marginal is positive there. Such cells are listed by joining the occupied
# cells of one marginal with the other keys, one key at a time, so nothing larger than the list is built.


ROWS_AT_ONCE = 1_000_000
"""Number of candidates that one step of a join examines together."""


@dataclass(frozen=True, eq=False)
class CliqueCells:
    """Cells of a clique as key codes, one row per cell.

    If a clique contains a coarsening but not its key, the key's code is that of one level of the group. ``codes`` has a
    column for each key of the table; columns of keys outside the clique are 0.
    """

    mask: int
    codes: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.codes)


def largest_sets(table: ContingencyTable, masks: Sequence[int]) -> list[int]:
    """Close the masks and keep those that lie in no other, in the given order."""
    closed = list(dict.fromkeys(table.close(mask) for mask in masks))
    return [a for a in closed if not any(a != b and a & b == a for b in closed)]


def positive_cells(marginals: Marginals, clique: int, generators: Sequence[int], *, most_cells: int) -> CliqueCells:
    """List the cells of ``clique`` where the marginal of every generator, restricted to the clique, is positive.

    Raises
    ------
    TooLarge
        When there are more than ``most_cells`` of them.
    """
    table = marginals.table
    inside = largest_sets(table, [mask for mask in (generator & clique for generator in generators) if mask])
    start = max(inside, key=lambda mask: (table.reduce(mask).bit_count(), -len(marginals.counts(mask))))
    codes = marginals.level_rows(start)
    reached = start
    waiting = [v for v in each_member(table.reduce(clique)) if not holds(start, v)]
    while waiting:
        # The key with the most constraints linking it to those already reached prunes the most.
        v = max(waiting, key=lambda v: sum((mask & reached != 0) + 1 for mask in inside if holds(mask, v)))
        waiting.remove(v)
        joined = table.close(reached | single(v))
        # The constraints on v together with what was reached, except those already applied.
        known = largest_sets(table, [mask & joined for mask in inside if mask & joined & ~reached])
        codes = _extended(marginals, codes, v, reached, known, most_cells)
        reached = joined
    if len(codes) > most_cells:
        raise _too_many(most_cells, table, clique)
    return CliqueCells(clique, codes)


def _extended(
    marginals: Marginals, codes: NDArray[np.int32], vertex: int, reached: int, known: Sequence[int], most_cells: int
) -> NDArray[np.int32]:
    """All cells of ``codes`` combined with each code of ``vertex`` that keeps the marginals ``known`` positive.

    ``reached`` may hold coarser vertices of the same key; a code then stays within its group.
    """
    table = marginals.table
    key = int(table.vertex_key[vertex])
    holding = [mask for mask in known if holds(mask, vertex)] or [table.close(single(vertex))]
    # Candidates come from the marginal that leaves the fewest per cell.
    join = min(holding, key=lambda mask: len(marginals.counts(mask)) / len(marginals.counts(mask & reached)))
    rest = join & reached
    partners = marginals.level_rows(join)
    group = marginals.positions(rest, partners)
    order = np.argsort(group, kind="stable")
    partner_code = partners[order, key]
    starts = np.searchsorted(group[order], np.arange(len(marginals.counts(rest)) + 1))
    group_of_cell = marginals.positions(rest, codes)
    n_partners = np.diff(starts)[group_of_cell]
    done = np.concatenate([[0], np.cumsum(n_partners)])
    pieces = []
    n_kept = 0
    first = 0
    while first < len(codes):
        last = max(first + 1, int(np.searchsorted(done, done[first] + ROWS_AT_ONCE, side="right")) - 1)
        row = np.repeat(np.arange(first, last), n_partners[first:last])
        offset = np.arange(len(row)) - (done[row] - done[first])
        piece = codes[row]
        piece[:, key] = partner_code[starts[group_of_cell[row]] + offset]
        for mask in known:
            if mask != join:
                piece = piece[marginals.positions(mask, piece) >= 0]
        pieces.append(piece)
        n_kept += len(piece)
        if n_kept > most_cells:
            raise _too_many(most_cells, table, joined=n_kept)
        first = last
    return np.asfortranarray(np.concatenate(pieces))


def _too_many(most_cells: int, table: ContingencyTable, clique: int | None = None, *, joined: int = 0) -> TooLarge:
    where = "" if clique is None else f" of the clique {', '.join(table.names_of(table.reduce(clique)))}"
    return TooLarge(
        f"More than {max(most_cells, joined):,} cells{where} have positive marginals, beyond the {most_cells:,} that fit "
        "into the memory allowed. Name smaller generators, leave out a key, or raise memory_limit."
    )


# Where is the minimum of a smooth convex function of many variables?
#
# Limited-memory quasi-Newton steps (L-BFGS) without bounds. scipy's L-BFGS-B handles bounds, which makes its steps take far
# longer than evaluating the functions minimised here.


Vector = NDArray[np.float64]

MEMORY = 20
"""Number of past steps from which the curvature is estimated."""

SUFFICIENT_DECREASE = 1e-4
MOST_HALVINGS = 30


@dataclass(frozen=True, eq=False)
class Minimum:
    """The best point found, its value, and the number of calls of the function."""

    point: Vector
    value: float
    calls: int


def minimise(
    function: Callable[[Vector], tuple[float, Vector]],
    start: Vector,
    *,
    max_calls: int,
    is_done: Callable[[float, Vector], bool] = lambda value, gradient: False,
) -> Minimum:
    """Take L-BFGS steps from ``start`` until ``is_done(value, gradient)`` or until no step decreases the function.

    For a convex function the curvature along a step is never negative, so halving the step until the function
    decreases enough is a sufficient line search (Nocedal and Wright 2006, algorithm 7.5).
    """
    point = start.copy()
    value, gradient = function(point)
    calls = 1
    steps, changes = np.zeros((MEMORY, len(point))), np.zeros((MEMORY, len(point)))
    n_steps = 0
    while calls < max_calls and not is_done(value, gradient):
        direction = kernels.descent_direction(gradient, steps, changes, n_steps)
        slope = kernels.dot(direction, gradient)
        if slope >= 0.0:
            break
        # While nothing is known about the curvature, steps are kept short.
        length = 1.0 if n_steps else min(1.0, 1.0 / kernels.dot(gradient, gradient) ** 0.5)
        for _ in range(MOST_HALVINGS):
            tried = point + length * direction
            tried_value, tried_gradient = function(tried)
            calls += 1
            if tried_value <= value + SUFFICIENT_DECREASE * length * slope or calls >= max_calls:
                break
            length /= 2.0
        if not tried_value < value:
            break
        step, change = tried - point, tried_gradient - gradient
        if kernels.dot(step, change) > 1e-14 * kernels.dot(change, change):
            steps[n_steps % MEMORY], changes[n_steps % MEMORY] = step, change
            n_steps += 1
        point, value, gradient = tried, tried_value, tried_gradient
    return Minimum(point, value, calls)
