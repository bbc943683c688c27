"""Which cells agree on some vertices?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell.graph.masks import holds
from rarecell.table.contingency import ContingencyTable


def cells_that_agree(table: ContingencyTable, mask: int, cells: NDArray[np.int32]) -> NDArray[np.int64]:
    """A number for each cell, from 0 on, the same for those that agree on a set of vertices."""
    found = np.zeros(len(cells), dtype=np.int64)
    for vertex in range(table.n_vertices):
        if holds(table.reduce(mask), vertex):
            # Numbered anew with each vertex, so that they never overflow.
            numbers = found * int(table.vertex_levels[vertex]) + table.map_cells(cells, vertex)
            found = np.unique(numbers, return_inverse=True)[1]
    return found
