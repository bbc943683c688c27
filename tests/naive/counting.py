"""Slow twins of kernels that count records: tuples in a dictionary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np


def collapse_records(rows: Sequence[Sequence[int]]) -> tuple[list[tuple[int, ...]], list[int], list[int]]:
    """Distinct rows in lexicographic order, their counts, and the position of each row; -1 with a negative code."""
    kept = [tuple(row) if min(row, default=0) >= 0 else None for row in rows]
    counts = Counter(row for row in kept if row is not None)
    cells = sorted(counts)
    position = {cell: index for index, cell in enumerate(cells)}
    return cells, [counts[cell] for cell in cells], [-1 if row is None else position[row] for row in kept]


def count_pairs(codes: np.ndarray, values: np.ndarray, place: np.ndarray) -> dict[tuple[int, int], int]:
    """Number of records of each pair that occurs; records with a negative code are passed over."""
    return dict(Counter((int(c), int(place[v])) for c, v in zip(codes, values, strict=True) if c >= 0))
