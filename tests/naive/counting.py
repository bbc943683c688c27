"""Slow twin of the record counting kernel: tuples in a dictionary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def collapse_records(rows: Sequence[Sequence[int]]) -> tuple[list[tuple[int, ...]], list[int], list[int]]:
    """Distinct rows in lexicographic order, their counts, and the position of each row; -1 with a negative code."""
    kept = [tuple(row) if min(row, default=0) >= 0 else None for row in rows]
    counts = Counter(row for row in kept if row is not None)
    cells = sorted(counts)
    position = {cell: index for index, cell in enumerate(cells)}
    return cells, [counts[cell] for cell in cells], [-1 if row is None else position[row] for row in kept]
