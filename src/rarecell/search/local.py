"""Where does Algorithm 1 of Takemura and Endo (2006) end, from many random starts?

From a random chordal graph, make the single-edge change that raises the score most, until none does. With at most eight
vertices the start is drawn from the list of non-isomorphic chordal graphs and labelled at random; with more vertices, or
with coarsenings, it is grown by Algorithm 2: each new key is joined to a random part of a random clique.
"""

from __future__ import annotations

import math
import time
from functools import cache

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import chordal, local
from rarecell.graph.chordal import neighbours_of_cliques
from rarecell.graph.enumerate import chordal_adjacency
from rarecell.graph.masks import mask_of
from rarecell.graph.random import random_chordal_adjacency, random_labelling
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.search.score import KnownScores

MAX_LISTED = 8
"""Up to this many vertices the paper draws its starts from the list of non-isomorphic graphs."""
BOTH = local.ADD | local.DELETE
_STAGE = "local search"
_AT_ONCE = 20


class LocalRuns:
    """Where each run of Algorithm 1 ended, and the scores on its way; ``is_complete`` when all runs reached an optimum."""

    def __init__(
        self, ends: NDArray[np.uint64], paths: list[list[float]], scores: NDArray[np.float64], *, is_complete: bool = True
    ) -> None:
        self.ends = ends
        self.paths = paths
        self.scores = scores
        self.is_complete = is_complete


def local_search(
    known: KnownScores, *, restarts: int, seed: int = 0, max_seconds: float = math.inf, progress: Progress = SILENT
) -> LocalRuns:
    """Run Algorithm 1 ``restarts`` times or as often as time allows, at least once. Run i depends only on ``seed`` and i."""
    deadline = time.monotonic() + max_seconds
    progress.start(_STAGE, float(restarts))
    known.fill_all(progress)
    max_keys = int(known.table.limits[2])
    children = np.random.SeedSequence(seed)
    graphs: list[NDArray[np.uint64]] = []
    paths: list[list[float]] = []
    while len(graphs) < restarts and (not graphs or time.monotonic() < deadline):
        # A few at a time, so that no starts are drawn for which there is no time.
        drawn = [np.random.default_rng(child) for child in children.spawn(min(_AT_ONCE if graphs else 1, restarts - len(graphs)))]
        starts = [random_start(known, rng, max_keys) for rng in drawn]
        ways = [[known.value(graph)] for graph in starts]
        reached = _climbed(known, starts, ways, deadline if graphs else math.inf, progress)
        graphs += [starts[run] for run in reached]
        paths += [ways[run] for run in reached]
    progress.done()
    scores = np.array([known.value(graph) for graph in graphs])
    return LocalRuns(np.stack(graphs), paths, scores, is_complete=len(graphs) == restarts)


def _climbed(
    known: KnownScores, graphs: list[NDArray[np.uint64]], paths: list[list[float]], deadline: float, progress: Progress
) -> list[int]:
    """Climb from several graphs in place; returns which of them reached a local optimum in time."""
    climbing = list(range(len(graphs)))
    gains = np.empty(256)
    while climbing and time.monotonic() < deadline:
        # Every run continues until it lacks a score; the missing sets are then counted together.
        still = []
        for run in climbing:
            n_moves, is_top = local.climb(graphs[run], known.vertices, known.table, known.missing, BOTH, gains)
            for gain in gains[:n_moves].tolist():
                paths[run].append(paths[run][-1] + gain)
            if not is_top:
                still.append(run)
            checkpoint(progress, _STAGE, float(is_top))
        known.fill_missing()
        climbing = still
    return [run for run in range(len(graphs)) if run not in set(climbing)]


def random_start(known: KnownScores, rng: np.random.Generator, max_keys: int) -> NDArray[np.uint64]:
    """A random closed chordal graph with cliques of at most ``max_keys`` keys."""
    n_vertices = len(known.vertices.key)
    if n_vertices > len(known.chains):
        return _grown_with_coarsenings(known, rng, max_keys)
    if n_vertices <= MAX_LISTED:
        listed = _listed(n_vertices, max_keys)
        chosen = int(rng.integers(len(listed)))
        drawn = random_labelling(listed[chosen : chosen + 1], rng)
    else:
        drawn = random_chordal_adjacency(n_vertices, 1, rng, max_clique=max_keys)
    return np.asarray(drawn[0])


@cache
def _listed(n_vertices: int, max_keys: int) -> NDArray[np.uint64]:
    graphs = chordal_adjacency(n_vertices)
    is_within = [max(int(c).bit_count() for c in chordal.cliques_and_separators(g)[0]) <= max_keys for g in graphs]
    return graphs[is_within]


def _grown_with_coarsenings(known: KnownScores, rng: np.random.Generator, max_keys: int) -> NDArray[np.uint64]:
    """Algorithm 2 over keys: a new key, with all its coarsenings, is joined to a random closed part of a random clique.

    For each key in the clique, the part's level is drawn uniformly between absent and the level in the clique.
    """
    cliques: list[dict[int, int]] = []
    for key in rng.permutation(len(known.chains)).tolist():
        part: dict[int, int] = {}
        if cliques:
            base = cliques[int(rng.integers(len(cliques)))]
            drawn = {k: int(rng.integers(reached + 1)) for k, reached in base.items()}
            present = [k for k, reached in drawn.items() if reached]
            part = {k: drawn[k] for k in rng.permutation(present).tolist()[: max_keys - 1]}
        cliques.append({**part, key: len(known.chains[key])})
    masks = [mask_of(v for k, reached in clique.items() for v in known.chains[k][:reached]) for clique in cliques]
    return np.array(neighbours_of_cliques(len(known.vertices.key), masks), dtype=np.uint64)
