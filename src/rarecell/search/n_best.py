"""Which are the n best decomposable models, all different?

Lawler (1972): once the best model is known, every other one differs from it in some edge. Take the pairs of vertices in
order; the models that agree with the best on the first i − 1 pairs and differ on the i-th form one part, and the parts
cover every other model exactly once. The best of each part is found by the dynamic programme with pairs that must be
adjacent and pairs that must not; the best of those is the second best model, and its part is divided again.

A pair that must not be adjacent excludes the sets that contain both. Two vertices that must be adjacent are never
separated: where neither is in the set C yet, they are in the same component of the rest.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell.graph.chordal import ChordalGraph
from rarecell.graph.masks import mask_of
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.search.exact import best_cliques
from rarecell.search.set_family import Family

Pair = tuple[int, int]
_STAGE = "next best models"


@dataclass(frozen=True, order=True)
class _Part:
    """The best model of a part; parts are ordered by descending score, then by age."""

    loss: float
    age: int
    graph: ChordalGraph
    joined: frozenset[Pair]
    parted: frozenset[Pair]


def best_graphs(
    family: Family,
    q: NDArray[np.float64],
    n_best: int,
    *,
    at_least: float = -np.inf,
    memory_limit: int | None = None,
    progress: Progress = SILENT,
) -> list[tuple[ChordalGraph, float]]:
    """Find the ``n_best`` best closed chordal graphs whose complete sets are in ``family``, with their scores.

    Graphs with a score below ``at_least`` may be left out. The tables of each search use at most ``memory_limit`` bytes.
    """
    key_of = {v: k for k, chain in enumerate(family.chains) for v in chain}
    pairs = [pair for pair in itertools.combinations(sorted(key_of), 2) if key_of[pair[0]] != key_of[pair[1]]]
    ages = itertools.count()

    def solve(joined: frozenset[Pair], parted: frozenset[Pair]) -> list[_Part]:
        score, graph = best_under(family, q, joined, parted, memory_limit=memory_limit)
        if graph is None or score < at_least:
            return []
        return [_Part(-score, next(ages), graph, joined, parted)]

    waiting = solve(frozenset(), frozenset())
    graphs: list[tuple[ChordalGraph, float]] = []
    progress.start(_STAGE, float(n_best))
    while waiting and len(graphs) < n_best:
        part = heapq.heappop(waiting)
        graphs.append((part.graph, -part.loss))
        checkpoint(progress, _STAGE, 1.0)
        joined, parted = set(part.joined), set(part.parted)
        for pair in pairs if len(graphs) < n_best else ():
            if pair in part.joined or pair in part.parted:
                continue
            if part.graph.has_edge(*pair):
                other = solve(frozenset(joined), frozenset(parted | {pair}))
                joined.add(pair)
            else:
                other = solve(frozenset(joined | {pair}), frozenset(parted))
                parted.add(pair)
            for child in other:
                heapq.heappush(waiting, child)
            checkpoint(progress, _STAGE)
    progress.done()
    return graphs


def best_under(
    family: Family,
    q: NDArray[np.float64],
    joined: frozenset[Pair],
    parted: frozenset[Pair],
    *,
    memory_limit: int | None = None,
) -> tuple[float, ChordalGraph | None]:
    """The best closed chordal graph with all ``joined`` pairs adjacent and no ``parted`` pair; None when there is none."""
    keep = np.ones(family.n_sets, dtype=bool)
    for u, v in parted:
        both = np.uint64(mask_of((u, v)))
        keep &= family.masks & both != both
    smaller = Family(family.chains, family.levels[keep], family.masks[keep])
    together = _together(smaller, joined) if joined else None
    score, cliques = best_cliques(smaller, q[keep], together=together, memory_limit=memory_limit)
    if not np.isfinite(score):
        return score, None
    return score, ChordalGraph.from_clique_masks(sum(len(chain) for chain in family.chains), cliques)


def _together(family: Family, joined: frozenset[Pair]) -> NDArray[np.uint32]:
    """For each set and each of its open keys, the open keys with the other vertex of a joined pair, as local masks."""
    place = {v: (k, level) for k, chain in enumerate(family.chains) for level, v in enumerate(chain)}
    is_open = family.levels < family.lengths
    local = np.cumsum(is_open, axis=1) - 1
    together = np.zeros(family.levels.shape, dtype=np.uint32)
    for u, v in joined:
        (a, level_a), (b, level_b) = place[u], place[v]
        rows = np.flatnonzero((family.levels[:, a] <= level_a) & (family.levels[:, b] <= level_b))
        for key, mate in ((a, b), (b, a)):
            together[rows, local[rows, key]] |= (1 << local[rows, mate]).astype(np.uint32)
    return together
