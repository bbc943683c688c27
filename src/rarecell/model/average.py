"""What do several models predict together?

The average of the cell probabilities of several models is again a distribution over the cells. It is often more accurate
than each of them, because each model is wrong in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell.errors import BadInput, KeyMismatch
from rarecell.graph.masks import single
from rarecell.model.protocol import CellModel, LogMoments, PluggedIn, Uncertainty
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.table.contingency import ContingencyTable
from rarecell.table.subsample import drawn_counts, part_of


class AverageModel(PluggedIn):
    """The weighted arithmetic mean of the cell probabilities of ``members``; by default with equal weights."""

    def __init__(self, members: Sequence[CellModel], weights: ArrayLike | None = None) -> None:
        if not members:
            raise BadInput("An average needs at least one model.")
        for member in members[1:]:
            if member.table.keys != members[0].table.keys:
                raise KeyMismatch.between(members[0].table.keys, member.table.keys)
        share = np.full(len(members), 1.0) if weights is None else np.asarray(weights, dtype=float)
        if len(share) != len(members) or (share < 0).any() or share.sum() <= 0:
            raise BadInput("The weights of an average are one number of 0 or more for each model, and not all 0.")
        self._members = tuple(members)
        self._weights: NDArray[np.float64] = share / share.sum()
        self.table = members[0].table

    @property
    def members(self) -> tuple[CellModel, ...]:
        """The models that are averaged."""
        return self._members

    @property
    def weights(self) -> NDArray[np.float64]:
        """The share of each model, summing to 1."""
        return self._weights

    @property
    def uncertainty(self) -> Uncertainty:
        """The uncertainty of the members where they agree; otherwise ``PARTLY``."""
        distinct = {member.uncertainty for member in self.members}
        return distinct.pop() if len(distinct) == 1 else Uncertainty.PARTLY

    @property
    def generator_masks(self) -> tuple[int, ...]:
        """The generators of the member with the largest weight; the average itself fits no marginal."""
        return self.members[int(np.argmax(self.weights))].generator_masks

    def log_cell_probability(self, cells: NDArray[np.int32] | None = None) -> NDArray[np.float64]:
        parts = [
            np.log(weight) + member.log_cell_probability(cells)
            for weight, member in zip(self.weights, self.members, strict=True)
            if weight > 0
        ]
        with np.errstate(invalid="ignore"):
            total: NDArray[np.float64] = np.logaddexp.reduce(np.stack(parts), axis=0)
        return total

    def draws(self, cells: NDArray[np.int32], n_draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draws of log p, from draws of every member and of the weights: Dirichlet with a total mass of the number of members."""
        shares = rng.dirichlet(np.maximum(self.weights, 1e-12) * len(self.members), n_draws)
        parts = [member.draws(cells, n_draws, rng) for member in self.members]
        with np.errstate(divide="ignore"):
            # Shares are added as logarithms; as factors, tiny shares would overflow where their member is largest.
            return np.asarray(np.logaddexp.reduce(np.log(shares.T)[:, :, None] + np.stack(parts), axis=0), dtype=np.float64)

    def sample(self, n_records: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw each record from a member chosen with probability equal to its weight."""
        shares = rng.multinomial(n_records, self.weights)
        drawn = np.concatenate([m.sample(int(k), rng) for m, k in zip(self.members, shares, strict=True) if k])
        return rng.permutation(drawn, axis=0)

    def describe(self) -> str:
        return f"average of {len(self.members)} models"

    __str__ = describe


# Which model, or which mixture of models, predicts records it has not seen?
#
# Records are held out at random, and models fitted to the rest give the probability of what was held out. The likelihood of
# the held-out records compares models of any kind, and the weights that maximise it combine them.


Fit = Callable[[ContingencyTable], CellModel]

SPLITS = 3
HELD_OUT_SHARE = 0.2

LARGEST_GAP = 1e-6
"""Weights are good enough when none could raise the mean log-likelihood of a held-out record by more than this."""

MAX_STEPS = 20_000
STAGE = "fitting to splits"


class SmoothedIndependence(PluggedIn):
    """Independent keys with half a record added to each level, so that no cell has probability zero.

    Mixed with another model, it covers what that model considers impossible.
    """

    def __init__(self, table: ContingencyTable) -> None:
        self.table = table
        self._log_share = []
        for k, categories in enumerate(table.categories):
            counts = np.bincount(table.cells[:, k], weights=table.counts.astype(float), minlength=categories.n_levels) + 0.5
            self._log_share.append(np.log(counts / counts.sum()))

    @property
    def generator_masks(self) -> tuple[int, ...]:
        return tuple(self.table.close(single(k)) for k in range(self.table.n_keys))

    def log_cell_probability(self, cells: NDArray[np.int32] | None = None) -> NDArray[np.float64]:
        """The sum of the logarithms of the smoothed shares of the levels."""
        asked = self.table.cells if cells is None else cells
        total = np.zeros(len(asked))
        for k, share in enumerate(self._log_share):
            total += share[asked[:, k]]
        return total

    def sample(self, n_records: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw records, key by key."""
        columns = [rng.choice(len(share), size=n_records, p=np.exp(share)) for share in self._log_share]
        return np.stack(columns, axis=1).astype(np.int32)

    def describe(self) -> str:
        return "independent keys, smoothed"


class PosteriorAverage(AverageModel):
    """An average of models that know their uncertainty: each has a ``posterior`` of log p.

    The mean of the logarithm is shifted to match the arithmetic mean of the probabilities. The variance is the average
    variance of the members plus the variance between them.
    """

    def posterior(self, cells: NDArray[np.int32] | None = None) -> LogMoments:
        """Mean and variance of the logarithm of each cell's probability."""
        moments = [moment for member in self.members if (moment := member.posterior(cells)) is not None]
        assert len(moments) == len(self.members), "every member has a posterior"
        means = np.stack([moment.mean for moment in moments])
        variances = np.stack([moment.variance for moment in moments])
        logs = np.stack([member.log_cell_probability(cells) for member in self.members])
        mean = self.weights @ means
        between = self.weights @ (means - mean) ** 2
        shift = self.log_cell_probability(cells) - self.weights @ logs
        return LogMoments(mean + shift, self.weights @ variances + between)

    def draws(self, cells: NDArray[np.int32], n_draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draws of log p of the cells, one row per draw, each from a member chosen with probability equal to its weight."""
        shares = rng.multinomial(n_draws, self.weights)
        return np.concatenate([member.draws(cells, int(n), rng) for member, n in zip(self.members, shares, strict=True)])


# ---------------------------------------------------------------------- splitting


def split_records(
    table: ContingencyTable, n_held_out: int, rng: np.random.Generator
) -> tuple[ContingencyTable, NDArray[np.int64]]:
    """Hold out records at random; return the table of the others and the number held out of each cell of ``table``."""
    held_out = drawn_counts(table.counts, n_held_out, rng)
    return part_of(table, table.counts - held_out), held_out


@dataclass(frozen=True, eq=False)
class HeldOutRecords:
    """Log-probabilities of held-out records: one row per distinct cell of a split, one column per model."""

    log_probability: NDArray[np.float64]
    counts: NDArray[np.int64]


def held_out_records(
    table: ContingencyTable,
    fits: Sequence[Fit],
    *,
    splits: int = SPLITS,
    share: float = HELD_OUT_SHARE,
    seed: int = 0,
    progress: Progress = SILENT,
) -> HeldOutRecords:
    """Fit all models to the larger part of each of several random splits and evaluate them on the other part."""
    n_held_out = round(share * table.n_records)
    if splits < 1 or not 0 < n_held_out < table.n_records:
        raise BadInput(
            f"{splits} splits with a share of {share:g} of {table.n_records:,} records held out were asked for; there must be "
            "at least one split, and at least one record on each side of it."
        )
    rng = np.random.default_rng(seed)
    progress.start(STAGE, splits * len(fits))
    rows, counts = [], []
    for _ in range(splits):
        smaller, held_out = split_records(table, n_held_out, rng)
        seen = np.flatnonzero(held_out)
        columns = []
        for fit in fits:
            columns.append(fit(smaller).log_cell_probability(table.cells[seen]))
            checkpoint(progress, STAGE, 1.0)
        rows.append(np.stack(columns, axis=1))
        counts.append(held_out[seen])
    progress.done()
    return HeldOutRecords(np.concatenate(rows), np.concatenate(counts))


# ---------------------------------------------------------------------- comparing and combining


def stacking_weights(records: HeldOutRecords) -> NDArray[np.float64]:
    """Weights of a mixture of models that maximise the likelihood of held-out records.

    They are found by the EM algorithm for a mixture with known components. The mean log-likelihood is concave in the
    weights and falls short of its maximum by at most max_k mean(p_k / mixture) − 1, which is the stopping criterion.

    References
    ----------
    Smyth and Wolpert (1999), Linearly combining density estimators via stacking. Machine Learning 36, 59-83.
    """
    largest = records.log_probability.max(axis=1, keepdims=True)
    if np.isneginf(largest).any():
        raise BadInput(
            "A held-out record has probability zero under every model. Let smoothed independence be one of the models."
        )
    probability = np.exp(records.log_probability - largest)
    share = records.counts / records.counts.sum()
    weights: NDArray[np.float64] = np.full(probability.shape[1], 1.0 / probability.shape[1])
    for _ in range(MAX_STEPS):
        gain = (share / (probability * weights).sum(axis=1)) @ probability
        if gain.max() - 1.0 < LARGEST_GAP:
            break
        weights = weights * gain
        weights /= weights.sum()
    return weights


def stack(
    table: ContingencyTable,
    fits: Sequence[Fit],
    *,
    splits: int = SPLITS,
    share: float = HELD_OUT_SHARE,
    seed: int = 0,
    least_weight: float = 1e-3,
    progress: Progress = SILENT,
) -> AverageModel:
    """The mixture of models that predicts held-out records best, fitted to the whole table.

    Smoothed independence is added to the models, so that no record is impossible. Models with less than
    ``least_weight`` are left out of the mixture. If all remaining models have a posterior, so does the mixture.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table.
    fits : sequence of callable
        Functions that each fit a model to a table.
    splits, share, seed : int, float, int
        Number of random splits, the share of the records held out in each, and the seed of the splits.
    """
    if not fits:
        raise BadInput("A mixture needs at least one model.")
    candidates: list[Fit] = [*fits, SmoothedIndependence]
    weights = stacking_weights(held_out_records(table, candidates, splits=splits, share=share, seed=seed, progress=progress))
    kept = np.flatnonzero(weights >= least_weight)
    members = [candidates[k](table) for k in kept]
    one_cell = table.cells[:1]
    has_posterior = all(member.posterior(one_cell) is not None for member in members)
    return (PosteriorAverage if has_posterior else AverageModel)(members, weights[kept])
