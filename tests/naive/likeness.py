"""Merging the levels of a key inside a tree, by trying every pair and adding up every table."""

from __future__ import annotations

import numpy as np

Partition = frozenset[frozenset[int]]


def likelihood(tables: list[np.ndarray], groups: list[frozenset[int]]) -> float:
    """Log-likelihood of the two-way tables of groups with each column, up to a constant."""
    total = 0.0
    for table in tables:
        for group in groups:
            row = table[sorted(group)].sum(axis=0)
            total += sum(n * np.log(n / row.sum()) for n in row if n > 0)
    return total


def is_allowed(first: frozenset[int], second: frozenset[int], chain: list[list[int]]) -> bool:
    """Whether no group of a user is left half merged: each contains both, or neither or one of them as a whole."""
    for groups in chain:
        for group in set(groups):
            members = frozenset(level for level, of_level in enumerate(groups) if of_level == group)
            merged = first | second
            if merged & members and not merged <= members and not members <= merged:
                return False
            if members <= merged and (first & members and not first >= members and not members >= first):
                return False
    # A group that is merged with one outside its own parent must be that whole parent.
    for groups in chain:
        of_first, of_second = {groups[level] for level in first}, {groups[level] for level in second}
        if of_first != of_second:
            for part, of_part in ((first, of_first), (second, of_second)):
                if {level for level, group in enumerate(groups) if group in of_part} != part:
                    return False
    return True


def merged_partitions(tables: list[np.ndarray], chain: list[list[int]]) -> list[Partition]:
    """The partition of the levels after each merger, the cheapest allowed one first."""
    groups = [frozenset([level]) for level in range(len(tables[0]))]
    found = []
    while len(groups) > 1:
        best = None
        for a in range(len(groups)):
            for b in range(a + 1, len(groups)):
                if is_allowed(groups[a], groups[b], chain):
                    rest = [g for k, g in enumerate(groups) if k not in (a, b)]
                    value = likelihood(tables, [*rest, groups[a] | groups[b]])
                    if best is None or value > best[0] + 1e-9:
                        best = value, [*rest, groups[a] | groups[b]]
        assert best is not None
        groups = best[1]
        found.append(frozenset(groups))
    return found
