"""Microaggregation and linkage from their definitions, by trying everything."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def sum_of_squares(values: np.ndarray, groups: list[list[int]]) -> float:
    return sum(float(((values[group] - values[group].mean()) ** 2).sum()) for group in groups)


def partitions(rows: list[int], k: int) -> Iterator[list[list[int]]]:
    """All ways to cut a list into stretches of at least k."""
    if len(rows) >= k:
        yield [rows]
    for size in range(k, len(rows) - k + 1):
        for rest in partitions(rows[size:], k):
            yield [rows[:size], *rest]


def least_sum_of_squares(values: np.ndarray, k: int) -> float:
    """The smallest sum of squares within groups of at least k neighbours of the sorted values."""
    order = np.argsort(values, kind="stable").tolist()
    return min(sum_of_squares(values, groups) for groups in partitions(order, k))


def linked_share(original: np.ndarray, released: np.ndarray, groups: np.ndarray | None = None) -> float:
    """Share of records that are nearest to their own original by the values that they have, one record after the other."""
    spread = np.nanstd(original, axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    total = 0.0
    for row in range(len(original)):
        held = [c for c in range(original.shape[1]) if released[row, c] == released[row, c]]
        if not held:
            continue
        apart = {
            other: sum(((released[row, c] - original[other, c]) / spread[c]) ** 2 for c in held)
            for other in range(len(original))
            if (groups is None or groups[other] == groups[row]) and not np.isnan(original[other, held]).any()
        }
        least = min(apart.values())
        nearest = [other for other, distance in apart.items() if distance <= least + 1e-12]
        total += (row in nearest) / len(nearest)
    return total / len(original)
