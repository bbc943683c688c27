"""Which cells agree on some vertices?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.hashing import sorted_distinct
from rarecell.graph.masks import each_member
from rarecell.table.contingency import ContingencyTable

_LARGEST = 2**62
"""Combinations are renumbered before their numbers would exceed this, so that they never overflow."""


def cells_that_agree(table: ContingencyTable, mask: int, cells: NDArray[np.int32]) -> NDArray[np.int64]:
    """Number the cells from 0, giving the same number to cells that agree on a set of vertices."""
    found = np.zeros(len(cells), dtype=np.int64)
    if not len(cells):
        return found
    n_possible = 1
    for vertex in each_member(table.reduce(mask)):
        n_levels = int(table.vertex_levels[vertex])
        if n_possible * n_levels > _LARGEST:
            found, n_possible = sorted_distinct(found)[2].astype(np.int64), len(cells)
        found = found * n_levels + table.map_cells(cells, vertex)
        n_possible *= n_levels
    return sorted_distinct(found)[2].astype(np.int64)
