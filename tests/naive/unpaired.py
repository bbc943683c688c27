"""Attacks on files without pairs, one person and one record at a time."""

from __future__ import annotations

import math

import numpy as np

import rarecell as rc


def distance(categories: tuple[rc.Categories, ...], one: np.ndarray, other: np.ndarray, columns: list[int]) -> float:
    """Ordered columns by rank over range, the others by equality; a missing value is far from every other."""
    total = 0.0
    for c in columns:
        column = categories[c]
        last = column.n_levels - 1
        if one[c] == other[c]:
            continue
        is_missing = column.has_missing and last in (one[c], other[c])
        if not column.is_ordered or is_missing:
            total += 1.0
        else:
            total += abs(int(one[c]) - int(other[c])) / max(1, column.n_levels - column.has_missing - 1)
    return total


def disco(original: np.ndarray, released: np.ndarray, keys: list[int], target: int) -> float:
    right = 0
    for person in original:
        values = {int(record[target]) for record in released if (record[keys] == person[keys]).all()}
        right += values == {int(person[target])}
    return right / len(original)


def tcap(original: np.ndarray, released: np.ndarray, keys: list[int], target: int) -> float:
    shares = []
    for record in released:
        alike = {int(other[target]) for other in released if (other[keys] == record[keys]).all()}
        people = [person for person in original if (person[keys] == record[keys]).all()]
        if len(alike) == 1 and people:
            shares.append(np.mean([person[target] == record[target] for person in people]))
    return float(np.mean(shares)) if shares else math.nan


def unique_exact_matches(original: np.ndarray, released: np.ndarray) -> float:
    records = {tuple(record) for record in released.tolist()}
    rows = [tuple(person) for person in original.tolist()]
    unique = [row for row in rows if rows.count(row) == 1]
    return sum(row in records for row in unique) / len(unique) if unique else 0.0


def replicated_uniques(original: np.ndarray, released: np.ndarray, keys: list[int]) -> float:
    people = [tuple(row) for row in original[:, keys].tolist()]
    records = [tuple(row) for row in released[:, keys].tolist()]
    return sum(people.count(row) == 1 and records.count(row) == 1 for row in people) / len(people)


def left_out_matches(original: np.ndarray, released: np.ndarray, control: np.ndarray) -> float:
    people, records = ({tuple(row) for row in file.tolist()} for file in (original, released))
    new = [row for row in map(tuple, control.tolist()) if row not in people]
    return sum(row in records for row in new) / len(new) if new else math.nan
