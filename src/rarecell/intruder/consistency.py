"""Do rows that were swapped stand out, because a key no longer goes with the rest of the row?

Swaps keep tables of keys, and columns beside the keys stay where they were. Whoever holds the released file alone, and knows nobody
in it, can still ask of every row how well the value of each key goes with everything else in the row, and guess that the rows
in which another value would fit better were swapped. How good that guess is, is measured by the area under its ROC curve: the
probability that a swapped row, drawn at random, looks stranger than one that was left alone. Without any knowledge it is 0.5.

The value v of a key is predicted from the other columns c of the row by

    P(v | c) ∝ (n_v + 1) · Π_c (n_vc + P(c)) / (n_v + 1)

with counts of the released file, from which the row itself is taken out. A row is as strange as its strangest key: the largest
log P(best other value | c) − log P(v | c).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_ROWS = 20_000
"""Number of rows that are judged; in a larger file, a random part."""

MOST_LEVELS_JUDGED = 400
"""A key with more levels than this is not predicted."""

NAMED = 100
"""Of this many of the strangest rows it is told how many were swapped."""


@dataclass(frozen=True)
class Consistency:
    """How well swapped rows are told from others by how strange they look.

    Attributes
    ----------
    rows : int
        Number of rows that were judged.
    swapped : int
        Number of them that were swapped.
    area : float
        Probability that a swapped row looks stranger than one that was left alone; ties count half.
    strangest : int
        Number of the strangest rows that were looked at, at most :data:`NAMED`.
    right : int
        Number of these that were swapped.
    """

    rows: int
    swapped: int
    area: float
    strangest: int
    right: int


def strangeness(columns: Sequence[NDArray[np.int32]], n_levels: Sequence[int], n_keys: int, rows: NDArray[np.int64]) -> Floats:
    """How much better the strangest key of some rows would fit with another value.

    Parameters
    ----------
    columns : sequence of ndarray of int
        Codes of the released columns, the keys first; no code is negative.
    n_levels : sequence of int
        Number of levels of each column.
    n_keys : int
        Number of keys.
    rows : ndarray of int
        The rows to be judged.
    """
    strangest = np.full(len(rows), -np.inf)
    for key in range(n_keys):
        if not 1 < n_levels[key] <= MOST_LEVELS_JUDGED:
            continue
        own = columns[key][rows]
        total = np.bincount(columns[key], minlength=n_levels[key]).astype(np.float64)
        at_own = np.zeros((len(rows), n_levels[key]))
        at_own[np.arange(len(rows)), own] = 1.0
        n_others = total[None, :] - at_own
        log_probability = np.log(n_others + 1.0)
        for other, column in enumerate(columns):
            if other == key:
                continue
            pair = np.bincount(
                columns[key].astype(np.int64) * n_levels[other] + column, minlength=n_levels[key] * n_levels[other]
            ).reshape(n_levels[key], n_levels[other])
            share = (pair.sum(axis=0) + 1.0) / (len(column) + n_levels[other])
            here = column[rows]
            log_probability += np.log((pair.T[here] - at_own + share[here][:, None]) / (n_others + 1.0))
        of_own = log_probability[np.arange(len(rows)), own]
        best_other = np.where(at_own > 0.0, -np.inf, log_probability).max(axis=1)
        strangest = np.maximum(strangest, best_other - of_own)
    return strangest


def area_under_curve(score: Floats, is_swapped: NDArray[np.bool_]) -> float:
    """Probability that a swapped row has a higher score than another row, ties half (Mann and Whitney); 0.5 if there is only one kind."""
    n_swapped = int(is_swapped.sum())
    n_others = len(is_swapped) - n_swapped
    if not n_swapped or not n_others:
        return 0.5
    _, place, number = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(number) - (number - 1) / 2.0)[place]
    return float((rank[is_swapped].sum() - n_swapped * (n_swapped + 1) / 2.0) / (n_swapped * n_others))


def consistency(
    columns: Sequence[NDArray[np.int32]], n_levels: Sequence[int], n_keys: int, is_swapped: NDArray[np.bool_], *, seed: int = 0
) -> Consistency:
    """Judge the rows of a released file, and tell how many of the strangest were swapped."""
    n_rows = len(is_swapped)
    rows = np.arange(n_rows)
    if n_rows > MOST_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(n_rows, MOST_ROWS, replace=False))
    score, swapped = strangeness(columns, n_levels, n_keys, rows), is_swapped[rows]
    strangest = np.argsort(-score, kind="stable")[:NAMED]
    return Consistency(
        len(rows), int(swapped.sum()), area_under_curve(score, swapped), len(strangest), int(swapped[strangest].sum())
    )
