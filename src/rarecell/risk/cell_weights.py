"""How many people does a sampled record of a cell stand for, on average?

Survey weights vary for reasons related to the keys (a region was sampled more densely) and for reasons that are not
(non-response, calibration, a stratum that is not a key). The mean weight of a cell's records is what carries the model from the
sample to the population, and a cell with one record does not reveal it: the weight of that record is mostly noise. So the mean
is smoothed along contexts, as the back-off networks smooth probabilities. A context is a set of vertices. It grows by the
vertex that best predicts the weights of left-out cells, and the mean in it is shrunk towards the mean in the shorter context.
Where weights follow a key, its levels are found; where they are noise, a single constant remains.

What one chain of contexts leaves unexplained is passed to a second one, and so on, each being a factor: weights that were raked
to several margins are a product.

What no smaller set of keys explains is left to the cells themselves: where their means still differ by more than the noise of
their records, each cell's own mean is taken into account, the more so the more records it has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell.model.backoff_contexts import CountedRows, RowGroups
from rarecell.table.contingency import ContingencyTable
from rarecell.table.subsample import random_part

Floats = NDArray[np.float64]

STRENGTHS = 2.0 ** np.arange(-8.0, 11.0)
"""Numbers of records that the shorter context may be worth; the one with the smallest error on left-out cells is used."""

MOST_FACTORS = 12
"""Largest number of factors."""

MANY_CELLS = 20_000
"""With more occupied cells than this, contexts are chosen on a random part of the records."""


_N_ROUNDS = 10
"""Rounds of the regression that separates differences between cells from noise; it settles within a few."""

_EXACT = 1e-8
"""A relative error this small counts as none: what is left is rounding."""


@dataclass(frozen=True)
class _Step:
    """A vertex added to the context, and how many records the context without it is worth."""

    vertex: int
    strength: float


def smoothed_weights(table: ContingencyTable, *, many_cells: int = MANY_CELLS, seed: int = 0) -> Floats:
    """Smoothed mean weight of the records of each occupied cell; the total of the weights is unchanged.

    Parameters
    ----------
    table : ContingencyTable
        Table with the weights of its cells.
    many_cells : int, optional
        With more occupied cells than this, contexts are chosen on a random part of the records.
    seed : int, optional
        Seed for the random part of a large table.

    Returns
    -------
    ndarray
        One weight for each occupied cell.
    """
    assert table.weights is not None, "the caller has checked for weights"
    part = table
    if table.n_cells > many_cells:
        n_records = int(table.n_records * many_cells / table.n_cells)
        part = random_part(table, n_records, np.random.default_rng(seed))
    chains = _chains(part)
    counts = table.counts.astype(np.float64)
    total = float(table.weights.sum())
    mean = np.full(table.n_cells, total / counts.sum())
    rows = CountedRows(table, table.cells, table.counts)
    for chain in chains:
        mean *= _followed(rows, counts, table.weights / counts / mean, chain)
    mean *= own_share(counts, table.weights / counts / mean)
    return np.asarray(mean * (total / (counts @ mean)))


def own_share(counts: Floats, ratio: Floats) -> Floats:
    """The mean weight of each cell relative to its prediction, with the noise of its records removed.

    1. The squared deviation of a mean of n records from its prediction is τ² + σ²/n on average: differences between cells, plus
       noise. Both are estimated by a regression on 1/n, in which each square is weighted by the inverse of its own variance,
       2(τ² + σ²/n)².
    2. Unless τ² is at least three standard errors above zero, cells are taken not to differ. The standard error is the larger of
       that for normal weights and that shown by the squares, because weights have long tails.
    3. Otherwise each deviation is shrunk by nτ²/(nτ² + σ²).
    """
    square = (ratio - 1.0) ** 2
    if len(np.unique(counts)) < 3 or square.max() < _EXACT:
        return np.ones(len(counts))
    terms = np.stack([np.ones(len(counts)), 1.0 / counts], axis=1)
    between, noise = 0.0, float(np.mean(square * counts))
    for _ in range(_N_ROUNDS):
        precision = 0.5 / np.maximum(between + noise / counts, _EXACT) ** 2
        covariance = np.linalg.pinv(terms.T @ (precision[:, None] * terms))
        between, noise = np.maximum(covariance @ (terms.T @ (precision * square)), 0.0).tolist()
    left = precision * (square - terms @ [between, noise])
    error = covariance @ (terms.T @ (left[:, None] ** 2 * terms)) @ covariance
    if between < 3.0 * math.sqrt(max(covariance[0, 0], error[0, 0])):
        return np.ones(len(counts))
    return np.asarray(1.0 + counts * between / (counts * between + noise) * (ratio - 1.0))


def _chains(table: ContingencyTable) -> list[tuple[_Step, ...]]:
    """Contexts of each factor, chosen by the error on left-out cells.

    1. The next vertex either refines the context of the last factor or starts a new factor, whichever predicts better.
    2. Vertices are added as long as the gain on left-out cells exceeds what choosing the best of so many candidates would give.
    """
    assert table.weights is not None
    counts = table.counts.astype(np.float64)
    rows = CountedRows(table, table.cells, table.counts)
    mean = table.weights / counts * (counts.sum() / table.weights.sum())
    everyone = RowGroups(np.zeros(len(counts), dtype=np.int32), 1)
    factor = _Factor(mean, everyone, np.ones(len(counts)), dict.fromkeys(range(table.n_keys), 0))
    chains: list[list[_Step]] = [[]]
    while len(chains) <= MOST_FACTORS:
        error = max(_error(counts, factor.ratio, factor.predicted, factor.predicted), _EXACT)
        new = _Factor(factor.ratio / factor.predicted, everyone, np.ones(len(counts)), dict.fromkeys(factor.reached, 0))
        candidates = [factor, new] if chains[-1] else [factor]
        tried = [(value, k, key, level, s) for k, c in enumerate(candidates) for value, key, level, s in c.tried(rows, counts)]
        if not tried:
            break
        value, kind, key, level, strength = min(tried)
        if 0.5 * len(counts) * math.log(error / max(value, _EXACT)) < 1.0 + math.log(len(tried)):
            break
        if kind:
            chains.append([])
        factor = candidates[kind].grown(rows, counts, key, level, strength)
        chains[-1].append(_Step(table.chains[key][level - 1], strength))
    return [tuple(chain) for chain in chains if chain]


@dataclass(frozen=True, eq=False)
class _Factor:
    """A growing factor: what it has to explain, its context, its prediction of left-out cells, and the resolution of each key."""

    ratio: Floats
    groups: RowGroups
    predicted: Floats
    reached: dict[int, int]

    def tried(self, rows: CountedRows, counts: Floats) -> list[tuple[float, int, int, float]]:
        """Error on left-out cells for each possible next vertex: a key one or two steps finer than it is now."""
        errors = []
        for key, reached in self.reached.items():
            vertices = rows.table.chains[key]
            for level in range(reached + 1, min(reached + 2, len(vertices)) + 1):
                refined = rows.refined(self.groups, vertices[level - 1])
                value, strength = _best_strength(counts, self.ratio, self.predicted, refined)
                errors.append((value, key, level, strength))
        return errors

    def grown(self, rows: CountedRows, counts: Floats, key: int, level: int, strength: float) -> _Factor:
        groups = rows.refined(self.groups, rows.table.chains[key][level - 1])
        predicted = _left_out_means(counts, self.ratio, self.predicted, groups, strength)
        return _Factor(self.ratio, groups, predicted, {**self.reached, key: level})


def _best_strength(counts: Floats, ratio: Floats, shorter: Floats, groups: RowGroups) -> tuple[float, float]:
    """Smallest error on left-out cells in a context, and the strength of the shorter context that attains it."""
    n_there, sums = _left_out_sums(counts, ratio, groups)
    errors = [_error(counts, ratio, (sums + s * shorter) / (n_there + s), shorter) for s in STRENGTHS]
    best = int(np.argmin(errors))
    return errors[best], float(STRENGTHS[best])


def _left_out_sums(counts: Floats, ratio: Floats, groups: RowGroups) -> tuple[Floats, Floats]:
    """Records and their sum in each cell's context, without the cell itself."""
    n_there = np.bincount(groups.of_row, weights=counts, minlength=groups.n_groups)[groups.of_row] - counts
    sums = np.bincount(groups.of_row, weights=counts * ratio, minlength=groups.n_groups)[groups.of_row] - counts * ratio
    return n_there, np.maximum(sums, 0.0)


def _left_out_means(counts: Floats, ratio: Floats, shorter: Floats, groups: RowGroups, strength: float) -> Floats:
    """Mean in each cell's context without the cell itself, shrunk towards ``shorter``."""
    n_there, sums = _left_out_sums(counts, ratio, groups)
    return np.asarray((sums + strength * shorter) / (n_there + strength))


def _error(counts: Floats, ratio: Floats, predicted: Floats, scale: Floats) -> float:
    """Mean squared error relative to the prediction of the shorter context, so that large weights do not dominate."""
    # Not a product of vectors by BLAS: its threads wait for each other longer than so short a sum takes.
    return float((counts * ((ratio - predicted) / scale) ** 2).sum() / counts.sum())


def _followed(rows: CountedRows, counts: Floats, ratio: Floats, chain: tuple[_Step, ...], *, is_left_out: bool = False) -> Floats:
    """The factor of every cell along a chain of contexts."""
    groups = RowGroups(np.zeros(len(counts), dtype=np.int32), 1)
    predicted = np.ones(len(counts))
    for step in chain:
        groups = rows.refined(groups, step.vertex)
        if is_left_out:
            predicted = _left_out_means(counts, ratio, predicted, groups, step.strength)
            continue
        n_there = np.bincount(groups.of_row, weights=counts, minlength=groups.n_groups)
        sums = np.bincount(groups.of_row, weights=counts * ratio, minlength=groups.n_groups)
        predicted = (sums[groups.of_row] + step.strength * predicted) / (n_there[groups.of_row] + step.strength)
    return predicted
