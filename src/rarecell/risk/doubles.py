"""Does the population hold copies?

A population made by copying records or whole households, as synthetic data often are, has fewer uniques than any smooth model
expects: the double of a rare record is just as rare, and the model cannot know about it. In the sample, copies show up as pairs
that agree on everything although hardly any pairs agree on everything but one column. The same person who is in the file twice
shows up in the same way and has the opposite effect: neither record is unique, although the person may be. A sample of a fraction f
holds both copies of a person with probability f, so more pairs than f·n/2 cannot come from copies in the population.

Let N_k be the number of pairs that differ in exactly k of m columns. If columns agreed independently, with any probabilities,
the number of differing columns would be a sum of independent indicators, for which Newton's inequality says

    N_0 ≤ (m−1)/(2m) · N_1² / N_2.

On samples of a census it held almost with equality. Columns depend on each other, so three times as many pairs are allowed.
Columns that are determined by another one are left out: a pair cannot differ in such a column alone.

Units are records, with every column of the file, and households of three or more members, with the keys of all members. A
household is compared with those of the same size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import exp, lgamma, log

import numpy as np
from numpy.typing import NDArray

from rarecell.outcome.words import number, percent

Codes = NDArray[np.integer]

MOST_UNITS = 50_000
"""If there are more units than this, a random part of them is compared."""

MOST_COLUMNS = 30
"""If there are more columns than this, those with the most values are compared."""

LEAST_MEMBERS = 3
"""Smaller households agree too often by chance: the members of a couple are alike."""

ALLOWED = 3.0
"""Up to this many times the number of pairs that independent columns would give is considered natural."""

MOST_VALUES = 60
"""Groups are formed by columns with at most this many values."""

LEAST_IN_GROUP = 50
"""Smaller groups are not compared."""

MOST_GROUPS = 5
"""Number of groups that are compared."""

LEAST_SHARE = 0.01
"""Share of the population below which copies are negligible."""

_LEVEL = 1e-3


@dataclass(frozen=True)
class Doubles:
    """Pairs of units that agree on everything, and how many of them near agreement explains.

    Attributes
    ----------
    units : str
        What was compared: ``"records"`` or ``"households"``.
    n_pairs : int
        Number of pairs that agree on everything.
    n_explained : float
        Number that pairs differing in one or two columns make plausible, including the allowance.
    share : float
        Share of the population that would have a double if the excess pairs were copies.
    among : str
        The column in one value of which the pairs lie, if only a group of the records was compared.
    """

    units: str
    n_pairs: int
    n_explained: float
    share: float
    among: str = ""

    @property
    def is_suspicious(self) -> bool:
        """Whether there are so many excess pairs that copies are the likelier reason, and enough of them to matter."""
        if self.n_pairs <= self.n_explained or self.share < LEAST_SHARE:
            return False
        return at_least(self.n_pairs, self.n_explained) < _LEVEL

    def __str__(self) -> str:
        what = (
            "households of three or more members agree in every key of every member"
            if self.units == "households"
            else f"records that share a value of '{self.among}' agree in every column"
            if self.among
            else "records agree in every column"
        )
        pairs = f"{number(self.n_pairs)} pairs of {what}, where at most {number(np.ceil(self.n_explained))} would be expected from pairs that nearly agree."
        if self.share > 1.0:
            return (
                f"{pairs} So many cannot come from a population that holds copies: the file seems to hold the same {self.units} twice. A double hides "
                "that its record is unique, so the risk is understated. Remove the doubles and assess the file again."
            )
        return (
            f"{pairs} If the file holds the same {self.units} twice, the risk is understated: remove the doubles and assess the file again. If the "
            f"population itself holds copies (of about {percent(self.share)} of it), as synthetic data do, the risk is overstated."
        )


def at_least(number: int, mean: float) -> float:
    """Probability that a Poisson variable reaches a number above its mean: the terms from there on fall ever faster."""
    if mean <= 0.0:
        return 0.0 if number > 0 else 1.0
    term = exp(number * log(mean) - mean - lgamma(number + 1.0))
    total = 0.0
    while term > 1e-17 * total:
        total += term
        number += 1
        term *= mean / number
    return total


def record_doubles(columns: Codes, *, fraction: float, names: Sequence[str] = (), seed: int = 0) -> Doubles | None:
    """Pairs of records that agree on every column.

    Where all records together show nothing, the groups are compared in which records with a double are much more frequent than elsewhere:
    copies in one kind of household or institution are few beside the pairs that nearly agree in the whole file.

    Parameters
    ----------
    columns : array of int
        One row per record and one column per column of the file, without names, weights and record numbers.
    fraction : float
        Sampling fraction.
    names : sequence of str, optional
        Names of the columns; groups are compared only if they are given.
    seed : int, optional
        Seed for the random part of a large file that is compared.

    Returns
    -------
    Doubles or None
        None with fewer than three informative columns.
    """
    rows = _part(len(columns), seed)
    telling = telling_columns(columns[rows])
    if len(telling) < 3:
        return None
    compared, fraction = columns[rows], fraction * len(rows) / max(len(columns), 1)
    overall = _judged("records", [compared[:, telling]], fraction)
    if overall.is_suspicious or not names or not overall.n_pairs:
        return overall
    groups = _groups_with_doubles(compared, telling)
    in_groups = [replace(_within(compared[members], fraction, len(compared)), among=names[k]) for k, members in groups]
    # A group is chosen because its records are alike, so that pairs that agree are more frequent in it than their columns alone would say.
    suspicious = [
        group
        for group in in_groups
        if group.is_suspicious
        and group.n_pairs > ALLOWED * group.n_explained
        and at_least(group.n_pairs, group.n_explained) < _LEVEL / len(groups)
    ]
    return max(suspicious, key=lambda group: group.n_pairs - group.n_explained, default=overall)


def _groups_with_doubles(columns: Codes, telling: Sequence[int]) -> list[tuple[int, NDArray[np.int64]]]:
    """Column and members of the groups in which records that have a double are most in excess of their share in the file."""
    rng = np.random.default_rng(0)
    mark = np.add.reduce([rng.integers(0, 2**63, int(columns[:, k].max()) + 1, dtype=np.uint64)[columns[:, k]] for k in telling])
    _, same, size = np.unique(mark, return_inverse=True, return_counts=True)
    has_double = size[same] > 1
    share = has_double.mean()
    groups = []
    for k in telling:
        n_members = np.bincount(columns[:, k])
        if (n_members > 0).sum() > MOST_VALUES:
            continue
        excess = np.bincount(columns[:, k], weights=has_double) - share * n_members
        score = excess / np.sqrt(share * n_members + 1.0)
        able = (n_members >= LEAST_IN_GROUP) & (n_members < len(columns)) & (score > 3.0)
        groups += [(float(score[value]), k, value) for value in np.flatnonzero(able)]
    groups.sort(key=lambda group: (-group[0], group[1], group[2]))
    return [(k, np.flatnonzero(columns[:, k] == value)) for _, k, value in groups[:MOST_GROUPS]]


def _within(columns: Codes, fraction: float, n_records: int) -> Doubles:
    """The doubles of a group of records, as a share of all records."""
    telling = telling_columns(columns)
    if len(telling) < 3:
        return Doubles("records", 0, 0.0, 0.0)
    group = _judged("records", [columns[:, telling]], fraction)
    return replace(group, share=group.share * len(columns) / n_records)


def household_doubles(keys: Codes, household: Codes, *, fraction: float) -> Doubles | None:
    """Pairs of households that agree on the keys of every member.

    Parameters
    ----------
    keys : array of int
        One row per record and one column per key.
    household : array of int
        Household of each record.
    fraction : float
        Sampling fraction.

    Returns
    -------
    Doubles or None
        None unless at least two households of three or more members have the same size.
    """
    telling = telling_columns(keys)
    profiles = household_profiles(keys[:, telling], household)
    return _judged("households", profiles, fraction) if profiles and len(telling) >= 2 else None


def telling_columns(columns: Codes) -> list[int]:
    """Columns with several values, not all different, and not determined by a kept one; more values take precedence."""
    n_values = [_n_distinct(column) for column in columns.T]
    kept: list[int] = []
    for k in sorted(range(len(n_values)), key=lambda k: -n_values[k]):
        if not 1 < n_values[k] < len(columns) or len(kept) == MOST_COLUMNS:
            continue
        if not any(_determines(columns[:, earlier], columns[:, k], n_values[earlier]) for earlier in kept):
            kept.append(k)
    return sorted(kept)


def _determines(column: Codes, other: Codes, n_values: int) -> bool:
    """Whether each value of one column occurs with only one value of the other."""
    span = int(other.max()) + 1
    return _n_distinct(column.astype(np.int64) * span + other) == n_values


def _n_distinct(codes: Codes) -> int:
    """Number of distinct codes: by marks where few are possible, because sorting takes longer."""
    lowest, highest = (int(codes.min()), int(codes.max())) if len(codes) else (0, 0)
    if highest - lowest > 16 * len(codes):
        return len(np.unique(codes))
    is_used = np.zeros(highest - lowest + 1, dtype=bool)
    is_used[codes - lowest] = True
    return int(is_used.sum())


def household_profiles(keys: Codes, household: Codes) -> list[Codes]:
    """For each household size of three or more, one row per household: the keys of its members side by side, in sorted order."""
    order = np.lexsort((*keys.T[::-1], household))
    of_record, sorted_keys = household[order], keys[order]
    first = np.flatnonzero(np.concatenate([[True], of_record[1:] != of_record[:-1]]))
    sizes = np.diff(np.append(first, len(of_record)))
    return [
        sorted_keys[first[sizes == size][:, None] + np.arange(size)].reshape(int((sizes == size).sum()), -1)
        for size in np.unique(sizes[sizes >= LEAST_MEMBERS]).tolist()
        if (sizes == size).sum() > 1 and size * keys.shape[1] <= 4 * MOST_COLUMNS
    ]


def differing_pairs(rows: Codes) -> tuple[int, int, int]:
    """Numbers of pairs of rows that differ in no column, in exactly one and in exactly two.

    Each value of each column gets a random number. Rows that agree once one or two columns are left out have the same sum over
    the remaining columns. Leaving out one column at a time finds a pair that differs in one column once, and a pair that agrees
    on all of them once for each column.
    """
    n_columns = rows.shape[1]
    rng = np.random.default_rng(0)
    numbers = [rng.integers(0, 2**63, int(column.max()) + 1, dtype=np.uint64)[column] for column in rows.T]
    total = np.add.reduce(np.stack(numbers), axis=0)
    none = _equal_pairs(total)
    at_most_one = sum(_equal_pairs(total - first) for first in numbers)
    at_most_two = sum(_equal_pairs(total - first - second) for first, second in combinations(numbers, 2))
    exactly_one = at_most_one - n_columns * none
    exactly_two = at_most_two - (n_columns - 1) * exactly_one - n_columns * (n_columns - 1) // 2 * none
    return none, exactly_one, exactly_two


def _equal_pairs(values: NDArray[np.uint64]) -> int:
    counts = np.unique(values, return_counts=True)[1].astype(np.int64)
    return int((counts * (counts - 1) // 2).sum())


def _judged(units: str, profiles: Sequence[Codes], fraction: float) -> Doubles:
    """Pairs of all household sizes taken together, because a single size has too few."""
    same, in_one, in_two = np.sum([differing_pairs(rows) for rows in profiles], axis=0)
    explained = ALLOWED * 0.5 * (in_one + 1.0) ** 2 / (in_two + 1.0)
    n_units = sum(len(rows) for rows in profiles)
    share = 2.0 * max(same - explained, 0.0) / (fraction * n_units)
    return Doubles(units, int(same), float(explained), float(share))


def _part(n_units: int, seed: int) -> NDArray[np.int64]:
    if n_units <= MOST_UNITS:
        return np.arange(n_units)
    return np.sort(np.random.default_rng(seed).choice(n_units, MOST_UNITS, replace=False))
