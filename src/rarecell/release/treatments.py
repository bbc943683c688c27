"""How are columns that are no keys made safer: incomes, wages, dates, and words that need not be exact?

Each treatment takes the values of a column, NaN where one is missing, and keeps a promise:

- *top* and *bottom* coding put the mean of the extreme values in place of each of them, so that the mean of the column stays;
- *rounding* moves a value by at most half a step;
- *noise* multiplies each value by a positive number whose mean is 1: signs stay, and means in expectation;
- *microaggregation* puts the mean of a group of at least k alike records in place of their values: no value is that of fewer than
  k records, and sums stay. One column is grouped optimally [1]_, several together by MDAV [2]_;
- *post-randomisation* (PRAM) keeps each value with a given probability and draws it from the frequencies of the file otherwise: the
  transition matrix P = a I + (1 − a) 1 p' has p'P = p', so frequencies stay in expectation [3]_.

What a treatment protects is measured by distance-based linkage: how many records are nearest to their own original.

References
----------
.. [1] Hansen, S. L. and Mukherjee, S. (2003). A polynomial algorithm for optimal univariate microaggregation. IEEE Transactions on
   Knowledge and Data Engineering 15, 1043–1044.
.. [2] Domingo-Ferrer, J. and Torra, V. (2005). Ordinal, continuous and heterogeneous k-anonymity through microaggregation. Data
   Mining and Knowledge Discovery 11, 195–212.
.. [3] Gouweleeuw, J. M., Kooiman, P., Willenborg, L. C. R. J. and de Wolf, P.-P. (1998). Post randomisation for statistical
   disclosure control. Journal of Official Statistics 14, 463–478.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput

Floats = NDArray[np.float64]
Integers = NDArray[np.int32] | NDArray[np.int64]

FEWEST_EXTREME = 3
"""Values that are put together as extreme ones are at least so many: the mean of two tells each to the other."""

BLOCK = 4_000
"""Files with more records are cut into blocks along their longest direction before MDAV: it takes time with the square."""

MOST_LINKED = 2_000
"""Number of records, drawn at random, whose nearest original is looked for."""


# ---------------------------------------------------------------------- single values


def coded_extremes(values: Floats, *, threshold: float | None = None, share: float | None = None, is_top: bool = True) -> Floats:
    """Values at or beyond a threshold, or the extreme share of the values, become their mean.

    Examples
    --------
    >>> coded_extremes(np.array([1.0, 2.0, 3.0, 10.0, 20.0, 30.0]), threshold=10.0)
    array([ 1.,  2.,  3., 20., 20., 20.])
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return values
    if threshold is None:
        assert share is not None
        threshold = float(np.quantile(known, share if is_top else 1.0 - share))
    extreme = values >= threshold if is_top else values <= threshold
    n = int(extreme.sum())
    if 0 < n < FEWEST_EXTREME:
        # Lower the threshold to the third most extreme value.
        ordered = np.sort(known)
        place = min(FEWEST_EXTREME, len(ordered))
        threshold = float(ordered[-place] if is_top else ordered[place - 1])
        extreme = values >= threshold if is_top else values <= threshold
    return np.where(extreme, values[extreme].mean() if extreme.any() else 0.0, values)


def rounded(values: Floats, step: float) -> Floats:
    """Values rounded to a multiple of ``step``, halves to the even multiple so that they do not all go up."""
    return np.asarray(np.rint(values / step) * step)


def noisy(values: Floats, share: float, rng: np.random.Generator) -> Floats:
    """Values times a lognormal number with mean 1 and about this standard deviation."""
    sigma = np.sqrt(np.log1p(share**2))
    return np.asarray(values * np.exp(rng.normal(-0.5 * sigma**2, sigma, len(values))))


def post_randomised(codes: Integers, keep: float, rng: np.random.Generator) -> Integers:
    """Codes after PRAM: kept with probability ``keep``, otherwise that of a record drawn at random; −1 stays."""
    known = np.flatnonzero(codes >= 0)
    randomised = codes.copy()
    drawn = codes[known[rng.integers(0, len(known), len(known))]] if len(known) else codes[:0]
    randomised[known] = np.where(rng.random(len(known)) < keep, codes[known], drawn)
    return randomised


# ---------------------------------------------------------------------- groups of alike records


def microaggregated(columns: Floats, k: int) -> Floats:
    """The mean of its group in place of each value, in groups of at least ``k`` records with the same values missing.

    Records whose pattern of missing values fewer than ``k`` share lose their values: no group is left for them.

    Parameters
    ----------
    columns : array of float
        One row for each record; NaN for a missing value.
    k : int
        Least number of records in a group.
    """
    if k < 2:
        raise BadInput(f"Groups of {k} records leave every value as it is; microaggregate takes a number of at least 2.")
    aggregated = np.full_like(columns, np.nan)
    pattern = np.isnan(columns)
    _, which = np.unique(pattern, axis=0, return_inverse=True)
    which = np.ravel(which)
    for of_pattern in np.unique(which):
        rows = np.flatnonzero(which == of_pattern)
        held = np.flatnonzero(~pattern[rows[0]])
        if not len(held) or len(rows) < k:
            continue
        part = columns[np.ix_(rows, held)]
        group = optimal_groups(part[:, 0], k) if len(held) == 1 else alike_groups(part, k)
        sums = np.stack([np.bincount(group, weights=part[:, c]) for c in range(len(held))], axis=1)
        aggregated[np.ix_(rows, held)] = (sums / np.bincount(group)[:, None])[group]
    return aggregated


def optimal_groups(values: Floats, k: int) -> NDArray[np.int64]:
    """The groups of k to 2k − 1 neighbouring values with the least sum of squares within groups, numbered in their order.

    With c(i, j) the sum of squares of the sorted values i to j − 1, the best sum of the first j is
    s(j) = min over j − 2k < i ≤ j − k of s(i) + c(i, j).
    """
    order = np.argsort(values, kind="stable")
    centered = values[order] - values.mean()
    n = len(values)
    # Sums of squares by c(i, j) = Σx² − (Σx)²/(j − i), from running sums.
    first, second = (np.concatenate([[0.0], np.cumsum(centered**power)]) for power in (1, 2))
    best, start = np.full(n + 1, np.inf), np.zeros(n + 1, dtype=np.int64)
    best[0] = 0.0
    for j in range(k, n + 1):
        i = np.arange(max(0, j - 2 * k + 1), j - k + 1)
        cost = best[i] + (second[j] - second[i]) - (first[j] - first[i]) ** 2 / (j - i)
        place = int(np.argmin(cost))
        best[j], start[j] = cost[place], i[place]
    bounds = [n]
    while bounds[-1] > 0:
        bounds.append(int(start[bounds[-1]]))
    bounds.reverse()
    group = np.empty(n, dtype=np.int64)
    group[order] = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    return group


def alike_groups(columns: Floats, k: int) -> NDArray[np.int64]:
    """Groups of at least k records that are alike, by MDAV on standardised values.

    1. Of the records left, the one furthest from their mean is taken with its k − 1 nearest ones, and then the one furthest from
       that one with its k − 1 nearest ones, as long as 3k are left.
    2. Of 2k to 3k − 1, the one furthest from the mean is taken with its k − 1 nearest ones; the others are a group.
    3. Fewer than 2k are a group.
    """
    spread = columns.std(axis=0)
    scaled = (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    group, n_groups = np.empty(len(columns), dtype=np.int64), 0
    for block in _blocks(scaled, max(BLOCK, 2 * k)):
        left = block
        while len(left) >= 2 * k:
            furthest = int(np.argmax(((scaled[left] - scaled[left].mean(axis=0)) ** 2).sum(axis=1)))
            for _ in range(2 if len(left) >= 3 * k else 1):
                center = scaled[left[furthest]]
                apart = ((scaled[left] - center) ** 2).sum(axis=1)
                # The record itself is always taken, also among others with the same values.
                apart[furthest] = -1.0
                nearest = np.argpartition(apart, k - 1)[:k]
                group[left[nearest]] = n_groups
                n_groups += 1
                left = np.delete(left, nearest)
                if len(left):
                    furthest = int(np.argmax(((scaled[left] - center) ** 2).sum(axis=1)))
        group[left] = n_groups
        n_groups += 1
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def _blocks(scaled: Floats, size: int) -> list[NDArray[np.int64]]:
    """Records cut into blocks of about equal size along the direction in which they are spread most."""
    n = len(scaled)
    if n <= size:
        return [np.arange(n)]
    direction = np.linalg.eigh(np.cov(scaled, rowvar=False))[1][:, -1]
    order = np.argsort(scaled @ direction, kind="stable")
    return np.array_split(order, -(-n // size))


# ---------------------------------------------------------------------- what it costs and protects


@dataclass(frozen=True)
class Moments:
    """What a column of numbers says about the population: mean, standard deviation and quantiles, weighted; nothing if all are missing."""

    mean: float | None
    spread: float | None
    quantiles: tuple[float, ...]

    @classmethod
    def of(cls, values: Floats, weights: Floats | None = None, shares: tuple[float, ...] = (0.05, 0.5, 0.95)) -> Moments:
        known = np.flatnonzero(~np.isnan(values))
        if not len(known):
            return cls(None, None, ())
        held = values[known]
        own = np.ones(len(held)) if weights is None else weights[known]
        mean = float(np.average(held, weights=own))
        order = np.argsort(held, kind="stable")
        upto = np.cumsum(own[order])
        places = np.minimum(np.searchsorted(upto, np.array(shares) * upto[-1]), len(held) - 1)
        return cls(mean, float(np.sqrt(np.average((held - mean) ** 2, weights=own))), tuple(held[order[places]].tolist()))


def correlation_ratio(values: Floats, codes: Integers, weights: Floats | None = None) -> float:
    """η, the square root of the share of the (weighted) variance of a column that lies between the levels of a key; 0 to 1."""
    known = np.flatnonzero(~np.isnan(values) & (codes >= 0))
    if len(known) < 2:
        return 0.0
    own = np.ones(len(known)) if weights is None else weights[known]
    held, level = values[known] - np.average(values[known], weights=own), codes[known]
    n = np.bincount(level, weights=own)
    sums = np.bincount(level, weights=own * held)
    total = float((own * held**2).sum())
    between = float((sums[n > 0] ** 2 / n[n > 0]).sum())
    return float(np.sqrt(min(1.0, between / total))) if total > 0.0 else 0.0


def linked_share(original: Floats, released: Floats, groups: Integers | None = None, *, seed: int = 0) -> float:
    """Expected share of records for which the nearest original is their own, by distance of standardised values.

    Somebody who knows the originals links each released record to the nearest of them, one at random where several are equally
    near. With ``groups``, only originals of the same group are compared: those with the same keys. A record is compared by the values
    that it has, with the originals that have them, too; one without any is not linked.

    Parameters
    ----------
    original, released : array of float
        One row for each record.
    groups : array of int, optional
        What the intruder compares first.
    seed : int
        Seed for drawing the records that are tried, where there are more than :data:`MOST_LINKED`.
    """
    n_records, n_columns = original.shape
    if n_records < 2:
        return 0.0
    spread = np.array([column[~np.isnan(column)].std() if (~np.isnan(column)).any() else 0.0 for column in original.T])
    scale = np.where(spread > 0, spread, 1.0)
    known, shown = original / scale, released / scale
    tried = np.arange(n_records)
    if n_records > MOST_LINKED:
        tried = np.random.default_rng(seed).choice(n_records, MOST_LINKED, replace=False)
    total = 0.0
    for record in tried.tolist():
        held = np.flatnonzero(~np.isnan(shown[record]))
        own = float(((known[record, held] - shown[record, held]) ** 2).sum())
        if not len(held) or np.isnan(own):
            continue
        among = known if groups is None else known[groups == groups[record]]
        among = among if len(held) == n_columns else among[:, held]
        # Originals without one of the values are NaN apart, which is never near.
        apart = ((among - shown[record, held]) ** 2).sum(axis=1)
        limit = float(np.fmin.reduce(apart)) * (1.0 + 1e-9) + 1e-18
        if own <= limit:
            total += 1.0 / int((apart <= limit).sum())
    return total / len(tried)
