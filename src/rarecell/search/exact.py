"""What is the best decomposable model of all, and can we prove it?

A dynamic programme over closed vertex sets (Kangas, Koivisto and Niinimäki 2014; the recurrences are in
:mod:`rarecell._kernels.exact`) compares all chordal graphs without listing them. It runs over the sets that
:mod:`rarecell.search.bounds` cannot exclude, so it is quick where the data leave few of them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import exact as kernels
from rarecell.errors import TooLarge
from rarecell.graph.masks import all_below, holds, subsets
from rarecell.machine.memory import gigabytes
from rarecell.machine.threads import n_cores
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.search.result import usable_memory
from rarecell.search.set_family import Family
from rarecell.table.contingency import ContingencyTable

SECONDS_PER_DIVISION = 0.6e-9
SECONDS_PER_STATE_AND_KEY = 2.5e-9
SECONDS_PER_SET = 4e-6
"""Measured on two cores of 2023; fixed, so that ``search="auto"`` decides the same on every machine."""
_BYTES_PER_STATE = 16
_STATES_FOR_THREADS = 1_000_000
_CHUNKS_PER_THREAD = 8


class ExactCost(NamedTuple):
    """What the dynamic programme needs, estimated before it starts."""

    seconds: float
    n_bytes: int
    n_sets: int

    def __str__(self) -> str:
        return f"{self.n_sets:,} sets, about {self.seconds:.2g} seconds and {self.n_bytes / 1e6:,.0f} MB"


def estimate_exact(table: ContingencyTable, max_clique: int | None = None) -> ExactCost:
    """Estimate time and memory of an exact search that compares all sets of vertices, not including counting marginals.

    With a penalised likelihood most sets can be excluded beforehand, and the search takes a fraction of this.
    """
    # Coefficient i counts sets with i keys. A key is absent, present at one of r − 1 coarser levels, or full; unless it
    # is full it doubles the states and triples the divisions.
    n_sets, n_states, n_tripled = [1], [1], [1]
    for chain in table.chains:
        r = len(chain)
        n_sets = _times(n_sets, 1, r)
        n_states = _times(n_states, 2, 2 * (r - 1) + 1)
        n_tripled = _times(n_tripled, 3, 3 * (r - 1) + 1)
    last = (table.n_keys if max_clique is None else max_clique) + 1
    return _cost(sum(n_sets[:last]), sum(n_states[:last]), sum(n_tripled[:last]) // 2, table.n_keys)


def _times(polynomial: list[int], absent: int, present: int) -> list[int]:
    return [absent * a + present * b for a, b in zip([*polynomial, 0], [0, *polynomial], strict=True)]


def _cost(n_sets: int, n_states: int, n_divisions: int, n_keys: int) -> ExactCost:
    seconds = SECONDS_PER_DIVISION * n_divisions + SECONDS_PER_STATE_AND_KEY * n_states * n_keys + SECONDS_PER_SET * n_sets
    return ExactCost(seconds, _BYTES_PER_STATE * n_states, n_sets)


def cost_of(family: Family) -> ExactCost:
    """Time and memory of the dynamic programme over this family."""
    return _cost(family.n_sets, family.n_states, family.n_divisions, len(family.chains))


def best_cliques(
    family: Family,
    q: NDArray[np.float64],
    *,
    together: NDArray[np.uint32] | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    progress: Progress = SILENT,
) -> tuple[float, list[int]]:
    """Find the best closed chordal graph whose complete sets are in ``family``: its score, and its cliques as vertex masks.

    Parameters
    ----------
    family : Family
        Admissible closed sets; with every set, all closed sets inside it.
    q : ndarray of float64
        Score of each set.
    together : ndarray of uint32, optional
        For each set and each of its open keys, the open keys (local masks) that must not be separated from it.
    threads : int, optional
        Number of threads; the result does not depend on it.
    memory_limit : int, optional
        Bytes for the tables; by default, what is free on the machine.

    Returns
    -------
    score : float
        The best score; −inf when no graph satisfies ``together``.
    cliques : list of int
        Complete sets that span the graph; some of them may lie inside others.
    """
    cost = cost_of(family)
    usable = usable_memory(memory_limit)
    if cost.n_bytes > usable:
        raise TooLarge(
            f"The exact search over {cost.n_sets:,} sets of vertices needs {gigabytes(cost.n_bytes)} of memory, and "
            f"{gigabytes(usable)} may be used. Allow more (--memory), bound the size of cliques (max_clique), use fewer keys, "
            "or search greedily."
        )
    programme = _Programme(family, q, together)
    threads = threads or (n_cores() if family.n_states >= _STATES_FOR_THREADS else 1)
    programme.run(threads, progress)
    return programme.trace()


class _Programme:
    """The two tables of the dynamic programme, and how to trace the best graph back through them."""

    def __init__(self, family: Family, q: NDArray[np.float64], together: NDArray[np.uint32] | None) -> None:
        self.family = family
        self.q = q
        self.together = together
        self.links = family.links()
        self.e = np.empty(family.n_states)
        self.h = np.empty(family.n_states)
        self.e[self.links.block] = q
        self.h[self.links.block] = -np.inf

    def run(self, threads: int, progress: Progress) -> None:
        """Fill the tables in order of ascending remainder."""
        family, links, e, h = self.family, self.links, self.e, self.h
        n_steps = int(family.lengths.sum())
        # The sets of a chunk are spread over all sizes, because small sets have the most states.
        n_chunks = threads * _CHUNKS_PER_THREAD if threads > 1 else 1
        progress.start("exact search", float(n_steps))
        with ThreadPoolExecutor(threads) as pool:
            for rho in range(1, n_steps + 1):
                for rank in range(n_steps - rho + 1):
                    first, last = family.rank_start[rank : rank + 2]
                    chunks = [np.arange(first + lane, last, threads) for lane in range(threads)]
                    _all(pool, partial(self._attach, rho), chunks)
                chunks = [np.arange(lane, family.n_sets, n_chunks) for lane in range(n_chunks)]
                _all(pool, partial(kernels.divide, links, e, h, rho), chunks)
                checkpoint(progress, "exact search", 1.0)
        progress.done()

    def _attach(self, rho: int, sets: NDArray[np.int64]) -> None:
        kernels.attach(self.links, self.q, self.e, self.h, rho, sets)
        if self.together is not None:
            kernels.keep_together(self.links, self.h, self.together, rho, sets)

    def trace(self) -> tuple[float, list[int]]:
        """The best score and the sets that attain it, found by repeating the comparisons along one path."""
        everything = all_below(len(self.family.chains))
        score, c, rest = self._raise(0, everything)
        cliques: list[int] = []
        waiting = [(c, rest)] if np.isfinite(score) else []
        while waiting:
            c, rest = waiting.pop()
            cliques.append(int(self.family.masks[c]))
            start = self.links.block[c]
            while rest:
                first = rest & -rest
                parts = subsets(rest ^ first) | first
                part = int(parts[np.argmax(self.h[start + parts] + self.e[start + (rest ^ parts)])])
                waiting.append(self._attached(c, part))
                rest ^= part
        return score, cliques

    def _raise(self, c: int, rest: int) -> tuple[float, int, int]:
        """f(c, rest), the clique it begins with, and what is then left of the rest."""
        links = self.links
        best, larger, remaining = -np.inf, c, rest
        for j in range(int(links.n_open[c])):
            raised = int(links.raised[c, j])
            if holds(rest, j) and raised >= 0:
                below = rest & all_below(j)
                left = below | (rest >> (j + 1)) << j if links.raise_fills[c, j] else rest
                value = float(self.e[links.block[raised] + left])
                if value > best:
                    best, larger, remaining = value, raised, left
        return best, larger, remaining

    def _attached(self, c: int, rest: int) -> tuple[int, int]:
        """The clique attached to c that begins ``rest``, and what is then left of the rest."""
        links = self.links
        while True:
            value, larger, remaining = self._raise(c, rest)
            best, down = value - self.q[c], None
            for x in range(len(self.family.chains)):
                lowered, j = int(links.lowered[c, x]), int(links.lower_bit[c, x])
                if lowered < 0 or (not links.lower_opens[c, x] and holds(rest, j)):
                    continue
                left = rest & all_below(j) | (rest >> j) << (j + 1) if links.lower_opens[c, x] else rest
                if self.h[links.block[lowered] + left] > best:
                    best, down = self.h[links.block[lowered] + left], (lowered, left)
            if down is None:
                return larger, remaining
            c, rest = down


def _all(pool: ThreadPoolExecutor, work: Callable[[NDArray[np.int64]], None], chunks: list[NDArray[np.int64]]) -> None:
    if len(chunks) == 1:
        work(chunks[0])
    else:
        list(pool.map(work, chunks))
