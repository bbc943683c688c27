"""Records that are compatible when a missing value matches anything, one pair at a time."""

from __future__ import annotations

from itertools import product

import numpy as np

import rarecell as rc


def are_compatible(table: rc.ContingencyTable, one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two cells agree on every key that neither lacks."""
    for categories, a, b in zip(table.categories, one, other, strict=True):
        is_missing = categories.has_missing and categories.n_levels - 1 in (a, b)
        if a != b and not is_missing:
            return False
    return True


def lacking(table: rc.ContingencyTable, cell: np.ndarray) -> tuple[bool, ...]:
    """Which keys a cell lacks."""
    return tuple(c.has_missing and code == c.n_levels - 1 for c, code in zip(table.categories, cell, strict=True))


def compatible_records(table: rc.ContingencyTable, cell: int) -> int:
    """Records whose cell is compatible with a cell, its own included."""
    return sum(
        int(table.counts[other]) for other in range(table.n_cells) if are_compatible(table, table.cells[cell], table.cells[other])
    )


def compatible_probability(table: rc.ContingencyTable, probability: np.ndarray, cell: int) -> float:
    """Sum of the probabilities of all cells that are compatible and lack keys together as some record does."""
    seen = {lacking(table, row) for row in table.cells}
    return sum(
        float(probability[other])
        for other in product(*(range(c.n_levels) for c in table.categories))
        if lacking(table, np.array(other)) in seen and are_compatible(table, table.cells[cell], np.array(other))
    )
