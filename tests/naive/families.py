"""Households as multisets of members, household by household: the slow twin of household rows."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence


def compositions(codes: Sequence[Sequence[int]], household: Sequence[Hashable]) -> dict[Hashable, tuple[tuple[int, ...], ...]]:
    """The members of each household, in a fixed order."""
    members: dict[Hashable, list[tuple[int, ...]]] = defaultdict(list)
    for row, home in zip(codes, household, strict=True):
        members[home].append(tuple(int(code) for code in row))
    return {home: tuple(sorted(rows)) for home, rows in members.items()}


def unique_households(codes: Sequence[Sequence[int]], household: Sequence[Hashable], largest: int) -> set[Hashable]:
    """Households of at most ``largest`` members whose composition no other household has."""
    found = {home: rows for home, rows in compositions(codes, household).items() if len(rows) <= largest}
    times = Counter(found.values())
    return {home for home, rows in found.items() if times[rows] == 1}


def population_counts(
    sample: dict[Hashable, tuple[tuple[int, ...], ...]], population: dict[Hashable, tuple[tuple[int, ...], ...]]
) -> dict[Hashable, int]:
    """For each household of a sample, how many of the population have its composition."""
    times = Counter(population.values())
    return {home: times[rows] for home, rows in sample.items()}


def nearest_household(
    released: Sequence[int], true: Sequence[int], register: Sequence[Sequence[int]], size: int, scale: Sequence[float]
) -> float:
    """Chance that a released household is linked to its own: nobody of the same size is nearer, and ties are broken at random.

    ``size`` is the column of the size; ``scale`` is the distance of one step in each column, or 0 where values are equal or not.
    """

    def distance(one: Sequence[int], other: Sequence[int]) -> float:
        return sum((abs(a - b) * step if step else 1.0) for a, b, step in zip(one, other, scale, strict=True) if a != b)

    own = distance(released, true)
    found = [distance(released, row) for row in register if row[size] == released[size]]
    if any(far < own - 1e-9 for far in found):
        return 0.0
    return 1.0 / sum(abs(far - own) <= 1e-9 for far in found)


def guessed(first: Sequence[Sequence[int]], second: Sequence[Sequence[int]], *, shared: int) -> float:
    """Expected number of households whose second member is the likeliest for the first, among those that share a value with it."""
    own = [k for k in range(len(first[0])) if k != shared]
    n = len(first)
    joint = {k: Counter((a[k], b[k]) for a, b in zip(first, second, strict=True)) for k in own}
    left = {k: Counter(a[k] for a in first) for k in own}
    right = {k: Counter(b[k] for b in second) for k in own}

    def score(a: Sequence[int], b: Sequence[int]) -> float:
        return sum(math.log((joint[k][a[k], b[k]] + 0.5) / (left[k][a[k]] * right[k][b[k]] / n + 0.5)) for k in own)

    found = 0.0
    for place, a in enumerate(first):
        scores = {other: score(a, b) for other, b in enumerate(second) if b[shared] == a[shared]}
        best = [other for other, value in scores.items() if value >= max(scores.values()) - 1e-9]
        found += (place in best) / len(best)
    return found
