"""Random tables with models for property-based tests of swapping."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from numpy.typing import NDArray

import rarecell as rc
from rarecell.errors import NotChordal
from rarecell.model.protocol import PluggedIn
from rarecell.swap.plan import SwapPlan
from tests.strategies import coarsened_tables, tables
from tests.strategies_graph import chordal_graphs


@dataclass
class AnyModel(PluggedIn):
    """Sets of vertices whose margins are kept, with the frequencies of the table as probabilities: any generating class."""

    table: rc.ContingencyTable
    generator_masks: tuple[int, ...]

    def log_cell_probability(self, cells: NDArray[np.int32] | None = None) -> NDArray[np.float64]:
        n = self.table.n_cells if cells is None else len(cells)
        return np.full(n, -np.log(self.table.n_formal_cells))

    def sample(self, n_records: int, rng: np.random.Generator) -> NDArray[np.int32]:
        return np.stack([rng.integers(0, c.n_levels, n_records) for c in self.table.categories], axis=1).astype(np.int32)

    def describe(self) -> str:
        return "every combination alike"


@st.composite
def decomposable_cases(draw: st.DrawFn, *, coarsened: bool = False, max_records: int = 14) -> rc.DecomposableModel:
    """A decomposable model on a small table, with or without coarsenings."""
    strategy = (
        coarsened_tables(max_records=max_records) if coarsened else tables(max_keys=5, max_levels=3, max_records=max_records)
    )
    table = draw(strategy)
    graph = draw(chordal_graphs(min_vertices=table.n_vertices, max_vertices=table.n_vertices))
    try:
        return rc.DecomposableModel(table, cliques=[table.names_of(mask) for mask in graph.clique_masks])
    except NotChordal:
        assume(False)
        raise


@st.composite
def hierarchical_cases(draw: st.DrawFn, *, coarsened: bool = False, max_records: int = 12) -> AnyModel:
    """Any generating class on a small table."""
    strategy = (
        coarsened_tables(max_records=max_records) if coarsened else tables(max_keys=5, max_levels=3, max_records=max_records)
    )
    table = draw(strategy)
    masks = draw(st.lists(st.integers(1, 2**table.n_vertices - 1), min_size=1, max_size=4))
    return AnyModel(table, tuple(masks))


def vertex_rows(table: rc.ContingencyTable) -> list[tuple[int, ...]]:
    """Each record as a tuple of the codes of all vertices."""
    codes = np.stack([table.vertex_codes(v) for v in range(table.n_vertices)], axis=1)
    assert table.record_cell is not None
    return [tuple(row) for row in codes[table.record_cell].tolist()]


def swapped_table(plan: SwapPlan) -> rc.ContingencyTable:
    """The table of the swapped file, collapsed again from its records."""
    codes = plan.table.cells[plan.table.record_cell]
    codes[plan.rows] = plan.new_cells
    return replace(rc.ContingencyTable.from_codes(codes, plan.table.categories), coarsenings=plan.table.coarsenings)


def follows(table: rc.ContingencyTable) -> dict[int, list[int]]:
    """The coarsenings that move with each key."""
    return {chain[-1]: list(chain[:-1]) for chain in table.chains}


def members(mask: int) -> list[int]:
    return [v for v in range(mask.bit_length()) if mask >> v & 1]
