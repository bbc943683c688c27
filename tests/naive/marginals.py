"""Marginals by counting rows in a dictionary."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

import rarecell as rc
from rarecell._kernels.margins import n_log_n


def marginal_counts(table: rc.ContingencyTable, mask: int) -> Counter[tuple[int, ...]]:
    """Count of every occupied cell of the marginal on the vertices of ``mask``."""
    members = [v for v in range(table.n_vertices) if mask >> v & 1]
    columns = [table.vertex_codes(v).tolist() for v in members]
    found: Counter[tuple[int, ...]] = Counter()
    for cell, count in zip(zip(*columns, strict=True) if columns else [()] * table.n_cells, table.counts.tolist(), strict=True):
        found[cell] += count
    return found


def entropy_term(table: rc.ContingencyTable, mask: int) -> float:
    return sum(n * math.log(n / table.n_records) for n in marginal_counts(table, mask).values())


def n_possible_cells(table: rc.ContingencyTable, mask: int) -> int:
    """Distinct combinations of the members' values, key by key."""
    product = 1
    for key, chain in enumerate(table.chains):
        members = [v for v in chain if mask >> v & 1]
        combinations = set()
        for level in range(table.categories[key].n_levels):
            codes = []
            for v in members:
                codes.append(level if v < table.n_keys else int(table.coarsenings[v - table.n_keys].group_of_level[level]))
            combinations.add(tuple(codes))
        product *= len(combinations)
    return product


def joint_tables(table: rc.ContingencyTable, key: int, group: list[int]) -> list[list[float]]:
    """Records of each group of a key's levels, by the levels of each other key in turn."""
    joint = [[0.0] * sum(c.n_levels for k, c in enumerate(table.categories) if k != key) for _ in range(max(group) + 1)]
    for cell, n in zip(table.cells.tolist(), table.counts.tolist(), strict=True):
        first = 0
        for k, categories in enumerate(table.categories):
            if k != key:
                joint[group[cell[key]]][first + cell[k]] += n
                first += categories.n_levels
    return joint


def full_counts(table: rc.ContingencyTable, keys: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    """Records in each cell of a few keys."""
    found: Counter[tuple[int, ...]] = Counter()
    for cell, n in zip(table.cells.tolist(), table.counts.tolist(), strict=True):
        found[tuple(cell[k] for k in keys)] += n
    return dict(found)


def sum_of_n_log_n(codes: np.ndarray, counts: np.ndarray) -> float:
    """Σ n log n over the distinct rows, added in the order in which rows without their last code appear, and by the last code."""
    summed: dict[tuple[int, ...], dict[int, int]] = {}
    for row, count in zip(codes.tolist(), counts.tolist(), strict=True):
        of_last = summed.setdefault(tuple(row[:-1]), {})
        of_last[row[-1]] = of_last.get(row[-1], 0) + count
    total = 0.0
    for of_last in summed.values():
        for last in sorted(of_last):
            total += n_log_n(float(of_last[last]))
    return total
