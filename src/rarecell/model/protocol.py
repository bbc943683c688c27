"""What can be asked of a model of cells?

Every model gives any cell a probability. Some also tell how uncertain it is: they have a posterior, whose moments enter the
risk of single records and whose draws give intervals. The probabilities of a model without a posterior are used as they are;
:class:`PluggedIn` is the base of such models.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.outcome.plain import Shown
from rarecell.table.contingency import ContingencyTable

Floats = NDArray[np.float64]


class LogMoments(NamedTuple):
    """Posterior mean and variance of the logarithm of each cell's probability.

    ``error`` is the standard error of the mean due to randomness in the fit itself, such as averaging over a limited number of
    random orders of the keys; None where there is no such randomness, or its size is not known.
    """

    mean: Floats
    variance: Floats
    error: Floats | None = None


class Uncertainty(Enum):
    """How much of the uncertainty of the probabilities is reflected in the draws of a model."""

    NONE = "none"
    PARTLY = "partly"
    FULL = "full"


class CellModel(Protocol):
    """Anything that gives every cell of a table a probability.

    Cells are always given as rows of key codes; None stands for the occupied cells of the table.
    """

    @property
    def table(self) -> ContingencyTable:
        """The table the model was fitted to."""

    @property
    def generators(self) -> tuple[tuple[str, ...], ...]:
        """Groups of vertices whose marginals the model fits, by name."""

    @property
    def generator_masks(self) -> tuple[int, ...]:
        """:attr:`generators` as bit masks."""

    @property
    def members(self) -> tuple[CellModel, ...]:
        """The models being averaged; an empty tuple for a single model."""

    @property
    def weights(self) -> Floats:
        """The share of each member in the average."""

    @property
    def uncertainty(self) -> Uncertainty:
        """How much of the uncertainty :meth:`draws` reflect."""

    @property
    def relative_error(self) -> tuple[float, float] | None:
        """Relative error, beyond chance, of the expected population uniques and correct matches; None where not known."""

    def log_cell_probability(self, cells: NDArray[np.int32] | None = None) -> Floats:
        """log p̂ of the cells."""

    def posterior(self, cells: NDArray[np.int32] | None = None) -> LogMoments | None:
        """Moments of log p of the cells; None for a model whose risk uses p̂ as it is."""

    def with_last(self, keys: Sequence[int]) -> CellModel:
        """A model that predicts these keys from all others, where that tells more about them; otherwise the model itself."""

    def draws(self, cells: NDArray[np.int32], n_draws: int, rng: np.random.Generator) -> Floats:
        """Draws of log p, one row per draw and one column per cell; cells that share a parameter share its draw."""

    def sample(self, n_records: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Records drawn from the model, as key codes."""

    def sample_counts(self, n_records: int, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Records drawn from the model, as cells and the number of records in each."""

    def describe(self) -> str:
        """One sentence about the model."""


class SingleModel(Shown):
    """A model that is not an average of others."""

    table: ContingencyTable

    if TYPE_CHECKING:

        @property
        def generator_masks(self) -> tuple[int, ...]: ...

        def sample(self, n_records: int, rng: np.random.Generator) -> NDArray[np.int32]: ...

    @property
    def generators(self) -> tuple[tuple[str, ...], ...]:
        """Groups of vertices whose marginals the model fits, by name."""
        return tuple(self.table.names_of(mask) for mask in self.generator_masks)

    @property
    def members(self) -> tuple[CellModel, ...]:
        """An empty tuple: this is a single model."""
        return ()

    @property
    def weights(self) -> Floats:
        return np.zeros(0)

    def sample_counts(self, n_records: int, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Records drawn from the model, as cells and the number of records in each."""
        cells, counts, _ = collapse_records(self.sample(n_records, rng), [c.n_levels for c in self.table.categories])
        return cells, counts


class PluggedIn(SingleModel):
    """A model without a posterior: its probabilities are taken as they are."""

    @property
    def uncertainty(self) -> Uncertainty:
        return Uncertainty.NONE

    @property
    def relative_error(self) -> tuple[float, float] | None:
        return None

    def log_cell_probability(self, cells: NDArray[np.int32] | None = None) -> Floats:
        """log p̂ of the cells."""
        raise NotImplementedError

    def posterior(self, cells: NDArray[np.int32] | None = None) -> LogMoments | None:
        """None: the risk uses p̂ as it is."""
        return None

    def with_last(self, keys: Sequence[int]) -> Self:
        """The model itself, because it has no order of the keys."""
        return self

    def draws(self, cells: NDArray[np.int32], n_draws: int, rng: np.random.Generator) -> Floats:
        """log p̂, repeated for each draw."""
        return np.repeat(self.log_cell_probability(cells)[None, :], n_draws, axis=0)
