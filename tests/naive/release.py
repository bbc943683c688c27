"""Every combination of recodings, one after the other, and what no other beats."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import log2
from typing import Any

import rarecell as rc
from rarecell.planning.recodings import RecodingStep


def recoded_counts(table: rc.ContingencyTable, steps: tuple[RecodingStep, ...]) -> Counter[tuple[int, ...]]:
    """Records of each recoded cell."""
    found: Counter[tuple[int, ...]] = Counter()
    for cell, count in zip(table.cells.tolist(), table.counts.tolist(), strict=True):
        codes = [
            code if step.coarsening is None else int(step.coarsening.group_of_level[code])
            for code, step in zip(cell, steps, strict=True)
        ]
        found[tuple(codes)] += count
    return found


def bits(counts: Counter[Any]) -> float:
    """Entropy in bits."""
    total = sum(counts.values())
    return -sum(n / total * log2(n / total) for n in counts.values())


def information(cells: Counter[tuple[int, ...]], n_keys: int) -> float:
    """Entropy of all keys, one after the other."""
    total = 0.0
    for k in range(n_keys):
        of_key: Counter[int] = Counter()
        for cell, count in cells.items():
            of_key[cell[k]] += count
        total += bits(of_key)
    return total


def all_combinations(ladder_of_key: tuple[tuple[RecodingStep, ...], ...]) -> list[tuple[RecodingStep, ...]]:
    return list(product(*ladder_of_key))


def beaten(one: tuple[float, float], by: tuple[float, float]) -> bool:
    """Whether another is at least as good in both and better in one."""
    return by[0] <= one[0] and by[1] <= one[1] and by != one
