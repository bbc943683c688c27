"""How much can the vertices outside a set still add to the score?

The vertices of a chordal graph can be ordered so that each is joined to a complete set of earlier ones. If the set need
not be complete, each vertex takes the best of all sets of earlier ones, as in a Bayesian network. The best order is then
found by dynamic programming over the closed sets (Silander and Myllymäki 2006), and bounds all chordal graphs.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import orders as kernels
from rarecell.machine.threads import n_cores

MAX_ENTRIES = 200_000_000
"""Largest table of gains (four bytes each): lattice points times keys."""
SECONDS_PER_ENTRY_AND_KEY = 1.2e-9


class OrderBound:
    """Upper bounds from the best order, for closed sets over chains of the given lengths."""

    def __init__(self, lengths: NDArray[np.int64]) -> None:
        self.radix = lengths + 1
        self.stride = np.array([math.prod(int(r) for r in self.radix[k + 1 :]) for k in range(len(lengths))], dtype=np.int64)
        self.n_points = math.prod(int(r) for r in self.radix)
        self.seconds = SECONDS_PER_ENTRY_AND_KEY * self.n_points * len(lengths) ** 2

    @staticmethod
    def is_feasible(lengths: NDArray[np.int64]) -> bool:
        return math.prod(int(r) + 1 for r in lengths) * len(lengths) <= MAX_ENTRIES

    def completions(
        self, levels: NDArray[np.int64], gains: NDArray[np.float64], unseen: NDArray[np.float64], n_seen: int
    ) -> NDArray[np.float64]:
        """For each point of the lattice, the most that the remaining steps add.

        Parameters
        ----------
        levels, gains : ndarray of int64, ndarray of float64
            Sets and, for each of their keys, their score less that of the set one step lower at that key.
        unseen : ndarray of float64
            The most that each step (key, level) adds to any other set.
        n_seen : int
            Other sets have at least this many vertices before the step.
        """
        points = levels @ self.stride
        shape = tuple(int(r) for r in self.radix)
        size = np.zeros(shape, dtype=np.int16)
        for k, r in enumerate(shape):
            size += np.arange(r, dtype=np.int16).reshape([-1 if x == k else 1 for x in range(len(shape))])
        is_large = (size >= n_seen).ravel()
        best = np.full((len(shape), self.n_points), -np.inf, dtype=np.float32)

        def fill(k: int) -> None:
            has = levels[:, k] > 0
            # Rounded up, so that it remains an upper bound.
            best[k, points[has] - self.stride[k]] = np.nextafter(gains[has, k].astype(np.float32), np.float32(np.inf))
            kernels.maximum_over_subsets(best[k], self.radix, self.stride, k)
            if np.isfinite(unseen[k]).any():
                of_level = np.nextafter(np.append(unseen[k], -np.inf)[: shape[k]].astype(np.float32), np.float32(np.inf))
                by_level = best[k].reshape(-1, shape[k], int(self.stride[k]))
                large = is_large.reshape(by_level.shape)
                np.maximum(by_level, of_level[None, :, None], out=by_level, where=large)

        with ThreadPoolExecutor(n_cores()) as pool:
            list(pool.map(fill, range(len(shape))))
        completions: NDArray[np.float64] = kernels.best_completion(best, self.radix, self.stride)
        return completions
