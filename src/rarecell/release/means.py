"""How far do the means of a numeric column move, level by level of each key?

Columns beside the keys stay with their row while keys move, so the mean pay of an education level changes although every table of
the keys is as it was. Means, and the medians of those that moved most, are compared level by level, with survey weights where
there are any. Only sums over the records that changed are taken twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

FEWEST_RECORDS = 10
"""A level with fewer records with a value, before or after, is not compared: its mean is that of single persons."""

MOST_LISTED = 10
"""Number of changes for which medians are computed, the largest first."""

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]


@dataclass(frozen=True)
class MeanChange:
    """The mean and the median of a numeric column among the records with one level of a key, before and after.

    ``relative`` is the change of the mean over the mean before (None if that is 0); ``standardised`` is the change over the
    standard deviation of the column.
    """

    column: str
    key: str
    level: int
    records: int
    before: float
    after: float
    standardised: float
    median_before: float | None = None
    median_after: float | None = None

    @property
    def relative(self) -> float | None:
        return (self.after - self.before) / abs(self.before) if self.before else None

    @property
    def size(self) -> float:
        """By how much the mean moved: relative to itself, or to the standard deviation where that is less."""
        # A mean near 0 makes any change look large.
        scaled = abs(self.standardised)
        return scaled if self.relative is None else min(abs(self.relative), max(scaled, 0.0) * _FAR)


_FAR = 10.0
"""A relative change counts at most as this many standard deviations of the column."""


@dataclass(frozen=True, eq=False)
class KeyInBothFiles:
    """The level of each record in both files; −1 for a record without one."""

    key: str
    before: Codes
    after: Codes
    n_levels: int


def mean_changes(
    keys: Sequence[KeyInBothFiles],
    columns: Mapping[str, tuple[Floats, Floats]],
    weights: Floats | None = None,
    *,
    most: int = MOST_LISTED,
) -> tuple[MeanChange, ...]:
    """The largest changes of the mean of a column among the records with one level of a key.

    Parameters
    ----------
    keys : sequence of KeyInBothFiles
        The keys.
    columns : mapping of str to (array of float, array of float)
        Each numeric column before and after; NaN for a missing value. The same array where nothing was done to it.
    weights : array of float, optional
        Survey weights.
    most : int
        How many changes are returned, the largest first, each with its medians.
    """
    changes: list[MeanChange] = []
    for name, (before, after) in columns.items():
        known = ~np.isnan(before)
        if known.sum() < FEWEST_RECORDS:
            continue
        spread = _spread(before[known], None if weights is None else weights[known])
        for key in keys:
            if spread > 0.0 and not (before is after and key.before is key.after):
                changes += _of_key(name, key, before, after, weights, spread)
    largest = sorted(changes, key=lambda change: (-change.size, change.column, change.key, change.level))[:most]
    by_name = {key.key: key for key in keys}
    return tuple(_with_medians(change, by_name[change.key], *columns[change.column], weights) for change in largest)


def _of_key(
    name: str, key: KeyInBothFiles, before: Floats, after: Floats, weights: Floats | None, spread: float
) -> list[MeanChange]:
    n_0, total_0, weight_0 = _sums(key.before, before, weights, key.n_levels)
    if before is after:
        # Only the records that changed their level add to the difference.
        moved = np.flatnonzero(key.before != key.after)
        own = None if weights is None else weights[moved]
        left = _sums(key.before[moved], before[moved], own, key.n_levels)
        came = _sums(key.after[moved], before[moved], own, key.n_levels)
        n_1, total_1, weight_1 = (
            of_all - gone + new for of_all, gone, new in zip((n_0, total_0, weight_0), left, came, strict=True)
        )
        touched = (left[0] > 0) | (came[0] > 0)
    else:
        n_1, total_1, weight_1 = _sums(key.after, after, weights, key.n_levels)
        touched = np.ones(key.n_levels, dtype=bool)
    enough = np.flatnonzero(touched & (n_0 >= FEWEST_RECORDS) & (n_1 >= FEWEST_RECORDS) & (weight_0 > 0) & (weight_1 > 0))
    means = total_0[enough] / weight_0[enough], total_1[enough] / weight_1[enough]
    return [
        MeanChange(
            name,
            key.key,
            level,
            int(n_0[level]),
            float(mean_before),
            float(mean_after),
            float((mean_after - mean_before) / spread),
        )
        for level, mean_before, mean_after in zip(enough.tolist(), *means, strict=True)
        # Sums in another order differ by rounding.
        if abs(mean_after - mean_before) > 1e-9 * max(abs(mean_before), spread)
    ]


def _sums(codes: Codes, values: Floats, weights: Floats | None, n_levels: int) -> tuple[Floats, Floats, Floats]:
    """For each level, the records with a value, the weighted sum of the values, and the sum of the weights."""
    known = np.flatnonzero((codes >= 0) & ~np.isnan(values))
    level, value = codes[known], values[known]
    n = np.bincount(level, minlength=n_levels).astype(np.float64)
    if weights is None:
        return n, np.bincount(level, weights=value, minlength=n_levels).astype(np.float64), n
    own = weights[known]
    total = np.bincount(level, weights=own * value, minlength=n_levels).astype(np.float64)
    return n, total, np.bincount(level, weights=own, minlength=n_levels).astype(np.float64)


def _spread(values: Floats, weights: Floats | None) -> float:
    mean = np.average(values, weights=weights)
    return float(np.sqrt(np.average((values - mean) ** 2, weights=weights)))


def _with_medians(change: MeanChange, key: KeyInBothFiles, before: Floats, after: Floats, weights: Floats | None) -> MeanChange:
    halves = []
    for codes, values in ((key.before, before), (key.after, after)):
        here = np.flatnonzero((codes == change.level) & ~np.isnan(values))
        halves.append(weighted_median(values[here], None if weights is None else weights[here]))
    return replace(change, median_before=halves[0], median_after=halves[1])


def weighted_median(values: Floats, weights: Floats | None = None) -> float:
    """The value below which half of the weight lies; the mean of two values where the half lies between them.

    Examples
    --------
    >>> weighted_median(np.array([1.0, 2.0, 10.0]))
    2.0
    >>> weighted_median(np.array([1.0, 2.0, 10.0]), np.array([1.0, 1.0, 2.0]))
    6.0
    """
    order = np.argsort(values, kind="stable")
    upto = np.arange(1.0, len(values) + 1.0) if weights is None else np.cumsum(weights[order])
    half = 0.5 * upto[-1]
    place = int(np.searchsorted(upto, half * (1.0 - 1e-12)))
    if abs(upto[place] - half) <= 1e-12 * upto[-1] and place + 1 < len(values):
        return float(0.5 * (values[order[place]] + values[order[place + 1]]))
    return float(values[order[place]])
