"""Pairs of rows, looked at one by one."""

from __future__ import annotations

from itertools import combinations

import numpy as np


def differing_pairs(rows: np.ndarray) -> tuple[int, int, int]:
    """Pairs that differ in none, one and two columns."""
    differ = [int((one != other).sum()) for one, other in combinations(rows, 2)]
    return differ.count(0), differ.count(1), differ.count(2)


def profiles(keys: np.ndarray, household: np.ndarray, least: int) -> dict[int, set[tuple[int, ...]]]:
    """By size, the keys of all members of each household, members in the order of their keys."""
    found: dict[int, set[tuple[int, ...]]] = {}
    for one in set(household.tolist()):
        members = sorted(tuple(row) for row in keys[household == one].tolist())
        if len(members) >= least:
            found.setdefault(len(members), set()).add(tuple(code for member in members for code in member))
    return found
