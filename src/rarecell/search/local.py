"""What does Algorithm 1 of Takemura and Endo find?

From a random chordal graph, take the best single-edge change until none improves; do so many times. Every local optimum
is kept with the number of times it was met. Up to eight keys the start is a random labelling of a random graph of the
list of all chordal graphs up to isomorphism, beyond that a graph grown by their Algorithm 2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import local
from rarecell.graph.enumerate import chordal_adjacency
from rarecell.graph.random import random_chordal_adjacency, random_labelling
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.search.greedy import Climbs
from rarecell.search.known import KnownScores

_STAGE = "local search"
MAX_LISTED_KEYS = 8


def local_search(known: KnownScores, *, restarts: int, seed: int = 0, progress: Progress = SILENT) -> Climbs:
    """Climb from ``restarts`` random graphs; each start has a seed of its own, so that the result depends on nothing else."""
    progress.start(_STAGE, float(restarts))
    known.fill_all(progress)
    climbs = Climbs(known, progress)
    for start_seed in np.random.SeedSequence(seed).spawn(restarts):
        climbs.climb(random_start(known, np.random.default_rng(start_seed)), local.ADD | local.DELETE)
        checkpoint(progress, _STAGE, 1.0)
    progress.done()
    return climbs


def random_start(known: KnownScores, rng: np.random.Generator) -> NDArray[np.uint64]:
    """A random chordal graph on the keys; coarsenings have the neighbours of their key."""
    n_keys = len(known.chains)
    most_keys = int(known.table.limits[2])
    listed = chordal_adjacency(n_keys) if n_keys <= MAX_LISTED_KEYS and most_keys >= n_keys else None
    if listed is None:
        start = random_chordal_adjacency(n_keys, 1, rng, max_clique=most_keys)[0]
    else:
        start = random_labelling(listed[[rng.integers(len(listed))]], rng)[0]
    neighbours = known.forest
    for u in range(n_keys):
        for v in range(u):
            if int(start[u]) >> v & 1:
                local.make_move(neighbours, known.vertices, u, v)
    return neighbours
