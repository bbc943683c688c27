"""How is the value of a vertex drawn for records whose earlier vertices have already been drawn?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell.graph.masks import single
from rarecell.model.backoff_contexts import Context, Floats, parent_of
from rarecell.model.drawing import draw_within
from rarecell.table.contingency import ContingencyTable


def uniform_siblings(
    table: ContingencyTable, vertex: int, drawn: NDArray[np.int32], rng: np.random.Generator
) -> NDArray[np.int32]:
    """A code of the vertex for each record, uniform among those inside the group of its key drawn so far."""
    parent = parent_of(table, vertex)
    n_levels = int(table.vertex_levels[vertex])
    if parent is None:
        return rng.integers(0, n_levels, len(drawn)).astype(np.int32)
    group = table.level_codes(parent)[table.first_level(vertex)]
    order = np.argsort(group, kind="stable")
    size = np.bincount(group)
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    of_record = table.map_cells(drawn, parent)
    chosen = start[of_record] + (rng.random(len(drawn)) * size[of_record]).astype(np.int64)
    return np.asarray(order[chosen], dtype=np.int32)


def draw_in_context(
    table: ContingencyTable, context: Context, vertex: int, drawn: NDArray[np.int32], rng: np.random.Generator
) -> tuple[NDArray[np.int32], Floats]:
    """A value for each record, drawn by the counts in its context, and the number of records in that context."""
    marginals = table.marginals
    pair, given = marginals.project(context.mask | single(vertex)), marginals.project(context.mask)
    representative = np.zeros(len(pair.counts), dtype=np.int64)
    representative[pair.position] = np.arange(table.n_cells)
    at = marginals.positions(context.mask, drawn)
    n_there = np.where(at >= 0, given.counts[at], 0)
    # Where the context does not occur, the drawn value has no weight.
    picked = draw_within(pair.counts, given.position[representative], np.maximum(at, 0), rng)
    return table.vertex_codes(vertex)[representative[picked]], n_there.astype(np.float64)
