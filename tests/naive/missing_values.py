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
    """Sum of the probabilities of all cells that are compatible and lack keys that some, but not all, records lack."""
    of_records = np.array([lacking(table, row) for row in table.cells])
    sometimes, always = of_records.any(axis=0), of_records.all(axis=0)

    def is_possible(lacks: np.ndarray) -> bool:
        return bool((~lacks | sometimes).all() and (lacks | ~always).all())

    return sum(
        float(probability[other])
        for other in product(*(range(c.n_levels) for c in table.categories))
        if is_possible(np.array(lacking(table, np.array(other)))) and are_compatible(table, table.cells[cell], np.array(other))
    )


def has_all_values_of(table: rc.ContingencyTable, one: np.ndarray, other: np.ndarray) -> bool:
    """Whether ``other`` has every value that ``one`` has."""
    return all(lacks or a == b for lacks, a, b in zip(lacking(table, one), one, other, strict=True))


def certain_records(table: rc.ContingencyTable, cell: int) -> int:
    """Records that have every value that a cell has."""
    return sum(
        int(table.counts[other])
        for other in range(table.n_cells)
        if has_all_values_of(table, table.cells[cell], table.cells[other])
    )


def complete_probability(table: rc.ContingencyTable, probability: np.ndarray, cell: int) -> float:
    """Probability, among complete cells, of those that have every value that a cell has; divided by the share of complete records."""
    total = sum(
        float(probability[other])
        for other in product(*(range(c.n_levels) for c in table.categories))
        if not any(lacking(table, np.array(other))) and has_all_values_of(table, table.cells[cell], np.array(other))
    )
    n_complete = sum(int(n) for row, n in zip(table.cells, table.counts, strict=True) if not any(lacking(table, row)))
    return total / (max(n_complete, 1) / table.n_records)
