"""Exchanges between pairs of rows, with every table and every copy counted anew for each of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from rarecell._kernels.exchanges import WEIGHT


def copies(original: np.ndarray, rows: np.ndarray) -> int:
    """Combinations that one person of the original has and at least one row."""
    people = [tuple(person) for person in original.tolist()]
    return len({tuple(row) for row in rows.tolist()} & {person for person in people if people.count(person) == 1})


def apart(original: np.ndarray, rows: np.ndarray) -> int:
    """The absolute differences of counts, over all cells of all tables of two columns."""
    total = 0
    for columns in combinations(range(original.shape[1]), 2):
        before, after = ([tuple(row) for row in codes[:, columns].tolist()] for codes in (original, rows))
        total += sum(abs(before.count(cell) - after.count(cell)) for cell in {*before, *after})
    return total


def cost(original: np.ndarray, rows: np.ndarray, most: int, is_nearer: bool) -> int:
    of_tables = apart(original, rows) if is_nearer else 0
    return WEIGHT * max(0, copies(original, rows) - most) + of_tables


def exchanged(
    original: np.ndarray, rows: np.ndarray, pairs: list[tuple[int, int]], moved: list[int], most: int, is_nearer: bool
) -> np.ndarray:
    """The rows after every exchange that does not raise the cost."""
    rows = rows.copy()
    for i, j in pairs:
        after = rows.copy()
        after[np.ix_([i, j], moved)] = rows[np.ix_([j, i], moved)]
        if cost(original, after, most, is_nearer) <= cost(original, rows, most, is_nearer):
            rows = after
    return rows
