"""Attribute disclosure by the definitions, group by group and value by value."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any


def groups_of(keys: Sequence[Hashable], values: Sequence[Any]) -> dict[Hashable, list[Any]]:
    found: dict[Hashable, list[Any]] = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        found[key].append(value)
    return found


def distinct(group: Sequence[Any]) -> int:
    """A missing value counts as one more, unless nothing else is there."""
    return len(set(group)) if any(value is not None for value in group) else 0


def entropy(group: Sequence[Any]) -> float:
    shares = [n / len(group) for n in Counter(group).values()]
    return math.exp(-sum(p * math.log(p) for p in shares))


def right(group: Sequence[Any]) -> int:
    return max(Counter(value for value in group if value is not None).values(), default=0)


def nominal(group: Sequence[Any], everybody: Sequence[Any]) -> float:
    if all(value is None for value in group):
        return math.nan
    q, p = Counter(group), Counter(everybody)
    return 0.5 * sum(abs(q[value] / len(group) - p[value] / len(everybody)) for value in p)


def ordered(group: Sequence[Any], everybody: Sequence[Any]) -> float:
    """Earth mover's distance between the values in order, each step of one value costing 1 / (m − 1)."""
    group, everybody = [v for v in group if v is not None], [v for v in everybody if v is not None]
    values = sorted(set(everybody))
    if not group:
        return math.nan
    total = 0.0
    for at in range(len(values) - 1):
        below = sum(v <= values[at] for v in group) / len(group)
        total += abs(below - sum(v <= values[at] for v in everybody) / len(everybody))
    return total / (len(values) - 1) if len(values) > 1 else 0.0


def gain_with_blanks(keys: Sequence[Hashable], values: Sequence[Any], keeps: Mapping[Any, bool]) -> int:
    """How many more people are guessed right from groups that show their values, and by one value for all whose value is blank."""
    shown = groups_of([key for key in keys if keeps[key]], [value for key, value in zip(keys, values, strict=True) if keeps[key]])
    blank = [value for key, value in zip(keys, values, strict=True) if not keeps[key]]
    return sum(map(right, shown.values())) + right(blank) - right(values)
