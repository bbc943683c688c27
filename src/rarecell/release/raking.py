"""Which survey weights fit a file whose records were swapped?

A weight that was calibrated to post-strata tells the post-stratum of its row. If the row's values move and the weight stays, it tells
where the values came from. So a moved record gets the weight of another record, drawn at random among those that stayed and agree with
its new values in the keys that weights depend on. Then all weights are raked until the weighted totals of these keys, singly and
together, are those of the original; small cells count as one. A raked weight is a function of released values and of a drawn one: it says
nothing about where a row came from. Totals of other keys are not raked: each weight would be one of a kind then.

Raking, or iterative proportional fitting (Deming and Stephan 1940), multiplies the weights of each cell of a table by the wanted total over
the present one, table after table, until all totals are met.

References
----------
Deming, W. E. and Stephan, F. F. (1940). On a least squares adjustment of a sampled frequency table when the expected marginal totals are
known. Annals of Mathematical Statistics 11, 427–444.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.release.release import Release

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

STREAM = 31
"""Random stream from which the weights of moved records are drawn."""

MOST_ROUNDS = 1_000
CLOSE = 1e-10
"""Relative difference of totals below which raking is done."""


@dataclass(frozen=True, eq=False)
class RakedWeights:
    """New weights of every record.

    Attributes
    ----------
    weights : ndarray of float64
        The weights; those of records that are in no cell stay as they were.
    keys : tuple of str
        The keys that weights depend on, the one that tells most first.
    difference : float
        Largest relative difference between a weighted total and the original one that is left.
    """

    weights: Floats
    keys: tuple[str, ...]
    difference: float


def raked_weights(release: Release, weights: Floats, *, seed: int = 0) -> RakedWeights:
    """Weights for a release: those of moved records drawn anew, all of them raked to the weighted totals of the original.

    Parameters
    ----------
    release : Release
        What was done to the keys; its table knows its records.
    weights : ndarray of float64
        The weight of each record in the original.
    seed : int
        Seed for drawing the weights of moved records.
    """
    table = release.before
    inside = np.flatnonzero(table.cell_of_record >= 0)
    before = table.cells[table.cell_of_record]
    after = before.copy()
    after[release.rows] = release.released
    levels = [c.n_levels for c in table.categories]
    keys = keys_of_weights(before[inside], levels, weights[inside])
    new = weights.copy()
    is_moved = np.zeros(len(weights), dtype=bool)
    is_moved[release.rows[(release.true != release.released).any(axis=1)]] = True
    rng = np.random.default_rng([seed, STREAM])
    waiting = np.flatnonzero(is_moved)
    stayed = inside[~is_moved[inside]]
    for n_keys in range(len(keys), -1, -1):
        # Where nobody who stayed has these values, those are asked who agree in fewer keys.
        cell = _cells(after, levels, keys[:n_keys])
        order = stayed[np.argsort(cell[stayed], kind="stable")]
        low, high = (np.searchsorted(cell[order], cell[waiting], side=side) for side in ("left", "right"))
        has_donor = high > low
        drawn = low + np.floor(rng.random(len(waiting)) * (high - low)).astype(np.int64)
        new[waiting[has_donor]] = weights[order[drawn[has_donor]]]
        waiting = waiting[~has_donor]
        if not len(waiting) or not len(stayed):
            break
    margins = []
    for names in ([], *([k] for k in keys), *([keys] if len(keys) > 1 else [])):
        was, now = np.split(_cells(np.concatenate([before, after]), levels, names), 2)
        margins.append(_pooled(was[inside], now[inside], weights[inside]))
    new[inside], difference = raked(new[inside], margins)
    return RakedWeights(new, tuple(table.keys[k] for k in keys), difference)


LEAST_RECORDS = 10
"""Cells with fewer records than this, before or after, are one: the total of a cell of one record would tell its weight."""


def _pooled(was: Integers, now: Integers, weights: Floats) -> tuple[Integers, Floats]:
    """The cell of each record after the swaps, and the total of each cell before, with small cells as one."""
    n_cells = int(max(was.max(), now.max())) + 1
    is_small = np.minimum(np.bincount(was, minlength=n_cells), np.bincount(now, minlength=n_cells)) < LEAST_RECORDS
    pool = np.where(is_small, 0, np.cumsum(~is_small))
    total = np.bincount(pool[was], weights=weights, minlength=int(pool.max()) + 1).astype(np.float64)
    return pool[now], total


def raked(weights: Floats, margins: Sequence[tuple[Integers, Floats]]) -> tuple[Floats, float]:
    """Weights with given totals, in proportion to those given as far as possible, and the largest relative difference that is left.

    Each margin has the cell of every record and the total of every cell. One margin alone is met at once: that is post-stratification.

    Examples
    --------
    >>> import numpy as np
    >>> raked(np.array([1.0, 1.0, 2.0]), [(np.array([0, 0, 1]), np.array([3.0, 1.0]))])[0].tolist()
    [1.5, 1.5, 1.0]
    """
    new, difference = weights.astype(np.float64).copy(), 0.0
    for _ in range(MOST_ROUNDS):
        difference = 0.0
        for cell, total in margins:
            present = np.bincount(cell, weights=new, minlength=len(total))
            with np.errstate(divide="ignore", invalid="ignore"):
                factor = np.where(present > 0.0, total / present, 1.0)
            difference = max(difference, float(np.abs(factor - 1.0).max(initial=0.0)))
            new *= factor[cell]
        if difference <= CLOSE:
            break
    return new, difference


def keys_of_weights(cells: NDArray[np.int32], levels: Sequence[int], weights: Floats) -> list[int]:
    """The keys that weights depend on, by forward selection: the one that explains most first, as long as Akaike's criterion falls."""
    size = np.log(np.maximum(weights, np.finfo(np.float64).tiny))
    apart = size - size.mean()
    # Weights that are a function of the keys leave nothing but rounding.
    least = max(float((apart**2).sum()) * 1e-12, np.finfo(np.float64).tiny)
    chosen: list[int] = []
    n = len(weights)

    def criterion(keys: list[int]) -> float:
        cell = _cells(cells, levels, keys)
        counts = np.bincount(cell)
        mean = np.bincount(cell, weights=apart) / np.maximum(counts, 1)
        left = max(float(((apart - mean[cell]) ** 2).sum()), least)
        return n * float(np.log(left / n)) + 2.0 * int((counts > 0).sum())

    best = criterion([])
    while len(chosen) < len(levels):
        tried = {k: criterion([*chosen, k]) for k in range(len(levels)) if k not in chosen}
        k = min(tried, key=lambda key: (tried[key], key))
        if tried[k] >= best:
            break
        chosen.append(k)
        best = tried[k]
    return chosen


def _cells(codes: NDArray[np.int32], levels: Sequence[int], keys: Sequence[int]) -> Integers:
    """The cell of each record in the table of some keys."""
    if not keys:
        return np.zeros(len(codes), dtype=np.int64)
    if len(keys) == 1:
        return np.asarray(codes[:, keys[0]], dtype=np.int64)
    return np.asarray(collapse_records([codes[:, k] for k in keys], [levels[k] for k in keys])[2], dtype=np.int64)
