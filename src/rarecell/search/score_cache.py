"""What has the search learnt about the score so far?

A search asks for the scores of the same few sets again and again, and never for those of most sets. :class:`KnownScores`
is the cache between a :class:`~rarecell.search.score.Score`, which counts marginals, and the kernels, which see arrays:
the sets that a kernel lacks are scored together, on all cores, and put into its table.
"""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import local
from rarecell.graph.masks import mask_of
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.search.score import Score, penalty_of
from rarecell.search.set_family import closed_levels, masks_of_levels

LEAST_GAIN = 1e-6
"""Smaller score changes are rounding: likelihoods of a million records are sums near 1e7."""
MAX_TABULATED_SETS = 1 << 16
"""Up to this many sets may all be scored beforehand, so that no kernel ever waits."""
_MISSING_AT_ONCE = 1 << 14
"""Room for what one pass over all pairs of 64 vertices can lack: four sets each."""
_CELLS_AT_ONCE = 40_000_000
_SMALL_SETS = 4096


class KnownScores:
    """Scores of sets known so far, in the form that kernels take.

    Parameters
    ----------
    score : Score
        The set function.
    max_clique : int, optional
        Largest number of keys in a clique; None for no limit.
    max_cells : float, optional
        Largest number of possible cells of a clique that a search may make.
    """

    def __init__(self, score: Score, *, max_clique: int | None = None, max_cells: float = math.inf) -> None:
        self.score = score
        table = score.table
        self.chains = table.chains
        n = table.n_vertices
        with_coarser = np.zeros(n, dtype=np.uint64)
        with_finer = np.zeros(n, dtype=np.uint64)
        for chain in table.chains:
            for place, v in enumerate(chain):
                with_coarser[v] = mask_of(chain[: place + 1])
                with_finer[v] = mask_of(chain[place:])
        self.vertices = local.Vertices(table.vertex_key, table.vertex_levels.astype(np.float64), with_coarser, with_finer)
        most_keys = float(table.n_keys if max_clique is None else max_clique)
        self._limits = np.array([penalty_of(score), max_cells, most_keys, LEAST_GAIN])
        self._masks = np.zeros(1 << 10, dtype=np.uint64)
        self._values = np.full(1 << 10, np.nan)
        self.n_known = 0
        self.missing = local.Missing(
            np.zeros(_MISSING_AT_ONCE, dtype=np.uint64), np.zeros(_MISSING_AT_ONCE), np.zeros(2, dtype=np.int64)
        )
        self._n_cells = table.n_cells

    @property
    def table(self) -> local.SetScores:
        """The known scores in the form that kernels take; ask again after each filling."""
        return local.SetScores(self._masks, self._values, self._limits)

    @property
    def forest(self) -> NDArray[np.uint64]:
        """Neighbour masks of the model of independent keys: each key is joined only to its own coarsenings."""
        own = self.vertices.with_coarser | self.vertices.with_finer
        return own & ~(np.uint64(1) << np.arange(len(own), dtype=np.uint64))

    def fill(self, masks: NDArray[np.uint64]) -> None:
        """Score these reduced sets, if they are not known yet."""
        unique = np.unique(masks)
        new = unique[np.isnan(local.lookup(self._masks, self._values, unique))]
        while 2 * (self.n_known + len(new)) > len(self._masks):
            self._grow()
        local.insert(self._masks, self._values, new, self.score.q_many(new))
        self.n_known += len(new)

    def fill_all(self, progress: Progress = SILENT) -> bool:
        """Score every set that may be a clique, unless there are too many; returns whether it did."""
        lengths = [len(chain) for chain in self.chains]
        if math.prod(r + 1 for r in lengths) > MAX_TABULATED_SETS:
            return False
        masks = masks_of_levels(closed_levels(lengths, int(self._limits[2])), self.chains)
        self.fill(self.score.table.reduce_many(masks))
        checkpoint(progress, "scoring sets")
        return True

    def fill_small(self) -> None:
        """Score all sets of two or three keys together, where that is cheap: a climb asks for most of them one by one."""
        lengths = [len(chain) for chain in self.chains]
        for n_keys in range(2, min(3, int(self._limits[2])) + 1):
            n_sets = sum(math.prod(some) for some in itertools.combinations(lengths, n_keys))
            if n_sets > _SMALL_SETS or n_sets * self._n_cells > _CELLS_AT_ONCE:
                return
            masks = masks_of_levels(closed_levels(lengths, n_keys), self.chains)
            self.fill(self.score.table.reduce_many(masks))

    def fill_missing(self) -> bool:
        """Score what kernels lacked, the most promising first; False when nothing was missing.

        Sets that are merely possible improvements are scored in batches, because once the best of them are known, the
        rest often cannot matter.
        """
        n = int(self.missing.n[0])
        if not n:
            return False
        self.missing.n[:] = 0
        masks, bounds = self.missing.masks[:n], self.missing.bounds[:n]
        needed = masks[np.isinf(bounds)]
        perhaps = masks[~np.isinf(bounds)][np.argsort(-bounds[~np.isinf(bounds)], kind="stable")]
        at_once = max(16, _CELLS_AT_ONCE // self._n_cells)
        self.fill(np.concatenate([needed, perhaps[:at_once]]))
        return True

    def climb(
        self, neighbours: NDArray[np.uint64], allowed: int, progress: Progress = SILENT, deadline: float = math.inf
    ) -> list[float]:
        """Climb in place until no allowed move improves the score, or until the deadline; returns the gain of each move."""
        gains: list[float] = []
        buffer = np.empty(512)
        is_top = False
        while not is_top:
            n_moves, is_top = local.climb(neighbours, self.vertices, self.table, self.missing, allowed, buffer)
            gains.extend(buffer[:n_moves].tolist())
            if not is_top and time.monotonic() > deadline:
                self.missing.n[:] = 0
                break
            if not is_top:
                self.fill_missing()
                checkpoint(progress, "searching models")
        return gains

    def value(self, neighbours: NDArray[np.uint64]) -> float:
        """Score of a whole graph, summed over its cliques less its separators."""
        value = float(local.value_of(neighbours, self.vertices, self.table, self.missing))
        while math.isnan(value):
            self.fill_missing()
            value = float(local.value_of(neighbours, self.vertices, self.table, self.missing))
        return value

    def _grow(self) -> None:
        masks, values = np.zeros(2 * len(self._masks), dtype=np.uint64), np.full(2 * len(self._masks), np.nan)
        is_used = ~np.isnan(self._values)
        local.insert(masks, values, self._masks[is_used], self._values[is_used])
        self._masks, self._values = masks, values
