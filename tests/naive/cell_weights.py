"""The mean weight of a cell along a chain of contexts, one record at a time."""

from __future__ import annotations

import numpy as np

import rarecell as rc


def factor(
    table: rc.ContingencyTable, ratio: np.ndarray, vertices: list[int], strength: float, cell: int, is_left_out: bool
) -> float:
    """Mean of the records that agree with a cell on more and more vertices, each shrunk towards the one before."""
    found = 1.0
    for n_given in range(1, len(vertices) + 1):
        total, n_records = 0.0, 0
        for other in range(table.n_cells):
            if is_left_out and other == cell:
                continue
            if all(table.vertex_codes(v)[other] == table.vertex_codes(v)[cell] for v in vertices[:n_given]):
                total += table.counts[other] * ratio[other]
                n_records += table.counts[other]
        found = (total + strength * found) / (n_records + strength)
    return found
