"""What are the marginals of a product of small tables over all keys?

The joint table of all keys is too large to store and often too large to visit cell by cell. A junction tree of the scopes
of the tables divides it into cliques. Each clique is walked, and its marginal on a separator is passed on as one more table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.walk import FactorLayout, walk
from rarecell.graph.chordal import ChordalGraph
from rarecell.graph.masks import members
from rarecell.machine.threads import n_cores
from rarecell.model.random_draws import draw_within

CELLS_PER_THREAD = 500_000
"""A clique is divided among threads only if each thread gets at least this many cells."""


@dataclass(frozen=True, eq=False)
class _Clique:
    """A clique with the factors that are multiplied into it.

    ``source`` gives, for each entry of the clique's flat tables, its position in the flat array of all tables: first the
    factors, then one message per separator.
    """

    layout: FactorLayout
    source: NDArray[np.int64]
    own: NDArray[np.int64]
    n_cells: int


class FactorTree:
    """The sum of a product of tables over all cells of the keys, and its marginals on the scope of each table.

    Parameters
    ----------
    levels : sequence of int
        Number of levels of each key.
    scopes : sequence of tuple of int
        The keys of each table as ascending positions; the tables follow one another in one flat array.
    graph : ChordalGraph
        A chordal graph on the keys in which every scope is complete.
    """

    def __init__(self, levels: Sequence[int], scopes: Sequence[tuple[int, ...]], graph: ChordalGraph) -> None:
        self.levels = [int(n) for n in levels]
        self.scopes = list(scopes)
        sequence = graph.perfect_sequence
        self.parents = sequence.parents
        self.separators = separators = [members(mask) for mask in sequence.separators]
        self.clique_keys = [members(mask) for mask in sequence.cliques]
        sizes = [math.prod(self.levels[k] for k in scope) for scope in (*self.scopes, *separators)]
        start = np.cumsum([0, *sizes])
        self.start: NDArray[np.int64] = start[: len(self.scopes) + 1]
        # The message of clique c is stored from message[c] to message[c + 1].
        self.message: NDArray[np.int64] = start[len(self.scopes) :]
        self.home = home = [
            next(c for c, keys in enumerate(self.clique_keys) if set(scope) <= set(keys)) for scope in self.scopes
        ]
        self.cliques = []
        for c, clique in enumerate(sequence.cliques):
            own = [f for f in range(len(self.scopes)) if home[f] == c]
            around = [len(self.scopes) + d for d in range(1, len(separators)) if d == c or self.parents[d] == c]
            self.cliques.append(self._clique(members(clique), own, around, [*self.scopes, *separators], start))

    @property
    def n_cells(self) -> int:
        """Number of cells visited to compute all marginals once."""
        return sum(clique.n_cells for clique in self.cliques) * 2 - self.cliques[0].n_cells

    def _clique(
        self,
        keys: Sequence[int],
        own: Sequence[int],
        around: Sequence[int],
        scopes: Sequence[tuple[int, ...]],
        start: NDArray[np.int64],
    ) -> _Clique:
        # The key with most levels is the vector; the next comes first so that threads can divide it; the rest is ascending.
        by_levels = sorted(keys, key=lambda k: (self.levels[k], k))
        order: list[int] = [-1] * max(0, 3 - len(by_levels))  # dummy keys of one level, because a walk needs at least three
        order += [*by_levels[-2:-1], *by_levels[:-2], by_levels[-1]]
        levels = [1 if k < 0 else self.levels[k] for k in order]
        position = {k: place for place, k in enumerate(order) if k >= 0}
        vector = len(order) - 1

        def depth(f: int) -> tuple[bool, int, int]:
            places = [position[k] for k in scopes[f]]
            return vector in places, max((place for place in places if place != vector), default=0), f

        factors = sorted((*own, *around), key=depth)
        stride = np.zeros((len(factors), len(order)), dtype=np.int64)
        offsets, source = [], []
        n_entries = 0
        for row, f in enumerate(factors):
            # Within the clique, the axes of a table are in the order of the walk, so that the vector is contiguous.
            scope = scopes[f]
            walked = sorted(range(len(scope)), key=lambda axis: position[scope[axis]])
            shape = [self.levels[k] for k in scope]
            entries = np.arange(math.prod(shape)).reshape(shape).transpose(walked)
            step = 1
            for axis in reversed(walked):
                stride[row, position[scope[axis]]] = step
                step *= shape[axis]
            offsets.append(n_entries)
            source.append(entries.reshape(-1) + start[f])
            n_entries += step
        kinds = [depth(f)[:2] for f in factors]
        first = [
            np.array([sum(kind < (is_vector, d) for kind in kinds) for d in range(vector + 1)]) for is_vector in (False, True)
        ]
        layout = FactorLayout(np.array(levels), first[0], first[1], np.array(offsets, dtype=np.int64), stride)
        joined = np.concatenate(source) if source else np.zeros(0, dtype=np.int64)
        is_own = joined < start[len(self.scopes)]
        return _Clique(layout, joined, np.flatnonzero(is_own), math.prod(levels))

    def marginals(self, log_tables: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Logarithm of the sum over all cells, and the marginals as shares of that sum, in the layout of the tables.

        1. From the leaves to the root, each clique sends its parent its marginal on their separator.
        2. From the root to the leaves, each clique is walked with all messages it received. It sends each child its
           marginal on their separator, divided by the message of the child.
        """
        log_sum, tables = self._collected(log_tables)
        shares = np.zeros(int(self.start[-1]))
        for c in range(len(self.cliques)):
            total, sums = self._walk(c, tables)
            if c == 0:
                log_sum += math.log(total)
            clique = self.cliques[c]
            own = clique.source[clique.own]
            shares[own] = sums[own] / total
            for child in range(c + 1, len(self.cliques)):
                if self.parents[child] == c:
                    here = self._message(child)
                    said = tables[here]
                    tables[here] = np.divide(sums[here] / total, said, out=np.zeros_like(said), where=said > 0)
        return log_sum, shares

    def _collected(self, log_tables: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The logarithm of the scale taken out, and the tables with the message of each clique to its parent."""
        tables = np.ones(int(self.message[-1]))
        n_own = int(self.start[-1])
        # Tables are divided by their largest entry and messages sum to 1, so that nothing overflows.
        largest = np.maximum.reduceat(log_tables, self.start[:-1]) if n_own else np.zeros(0)
        tables[:n_own] = np.exp(log_tables - np.repeat(largest, np.diff(self.start)))
        log_sum = float(largest.sum())
        for c in range(len(self.cliques) - 1, 0, -1):
            total, sums = self._walk(c, tables)
            here = self._message(c)
            tables[here] = sums[here] / total
            log_sum += math.log(total)
        return log_sum, tables

    def sample(self, log_tables: NDArray[np.float64], n_records: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw cells in proportion to the product of the tables: level codes, one row per record.

        Cliques are drawn one after another, each given what was drawn for its separator. Only the cells of one clique are
        in memory at a time.
        """
        drawn = np.zeros((n_records, len(self.levels)), dtype=np.int32, order="F")
        tables = self._collected(log_tables)[1]
        for c, (keys, separator) in enumerate(zip(self.clique_keys, self.separators, strict=True)):
            residual = tuple(k for k in keys if k not in separator)
            axes = {k: axis for axis, k in enumerate((*separator, *residual))}
            shape = [self.levels[k] for k in axes]
            weight = np.ones(shape)
            for scope, low, high in self._factors_of(c):
                order = np.argsort([axes[k] for k in scope])
                factor = tables[low:high].reshape([self.levels[k] for k in scope]).transpose(order)
                weight *= factor.reshape([self.levels[k] if k in scope else 1 for k in axes])
            n_given = math.prod(self.levels[k] for k in separator)
            n_residual = weight.size // n_given
            given = np.zeros(n_records, dtype=np.int64)
            for k in separator:
                given = given * self.levels[k] + drawn[:, k]
            group = np.repeat(np.arange(n_given), n_residual)
            picked = draw_within(weight.ravel(), group, given, rng) - given * n_residual
            for k in reversed(residual):
                picked, drawn[:, k] = np.divmod(picked, self.levels[k])
        return drawn

    def _message(self, clique: int) -> slice:
        return slice(int(self.message[clique]), int(self.message[clique + 1]))

    def _factors_of(self, clique: int) -> Iterator[tuple[tuple[int, ...], int, int]]:
        """Scope, start and end of the tables of a clique and of the messages of its children."""
        for f, scope in enumerate(self.scopes):
            if self.home[f] == clique:
                yield scope, int(self.start[f]), int(self.start[f + 1])
        for child, separator in enumerate(self.separators):
            if child > 0 and self.parents[child] == clique:
                yield separator, int(self.message[child]), int(self.message[child + 1])

    def _walk(self, c: int, tables: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        clique = self.cliques[c]
        local = tables[clique.source]
        n_parts = max(1, min(_n_threads(), clique.n_cells // CELLS_PER_THREAD, int(clique.layout.levels[0])))
        if n_parts == 1:
            total, sums = walk(clique.layout, local, 0, 1)
        else:
            parts = list(_threads().map(lambda part: walk(clique.layout, local, part, n_parts), range(n_parts)))
            total, sums = sum(part[0] for part in parts), np.sum([part[1] for part in parts], axis=0)
        everywhere = np.zeros(len(tables))
        everywhere[clique.source] = sums
        return float(total), everywhere


def _n_threads() -> int:
    return min(8, n_cores())


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_n_threads(), thread_name_prefix="rarecell-walk")
