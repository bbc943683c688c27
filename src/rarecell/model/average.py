"""What do several models predict together?

The average of the cell probabilities of several models is again a distribution over the cells. It is often more accurate
than each of them, because each model is wrong in its own way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell.errors import BadInput, KeyMismatch
from rarecell.model.protocol import CellModel, PluggedIn, Uncertainty


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
        found = {member.uncertainty for member in self.members}
        return found.pop() if len(found) == 1 else Uncertainty.PARTLY

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
