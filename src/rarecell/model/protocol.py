"""What can a model of cells be asked?

Every model gives any cell a probability. Some also say how sure they are: they have a posterior, whose moments enter the risk
of single records and whose draws make intervals. A model without one is taken at its word; :class:`PluggedIn` says so for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rarecell.outcome.shown import Shown
from rarecell.table.contingency import ContingencyTable

Floats = NDArray[np.float64]


class LogMoments(NamedTuple):
    """Mean and variance of the logarithm of each cell's probability, after the data.

    ``error`` is the standard error of the mean that comes from chance in the fit itself, such as having averaged so many random
    orders of the keys and no more; None where there is no such chance, or it is not known.
    """

    mean: Floats
    variance: Floats
    error: Floats | None = None


class Uncertainty(Enum):
    """How much of the uncertainty of the probabilities the draws of a model hold."""

    NONE = "none"
    PARTLY = "partly"
    FULL = "full"


class CellModel(Protocol):
    """Anything that gives every cell of a table a probability.

    Cells are rows of key codes everywhere; None stands for the occupied cells of the table.
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
        """The models that it averages; none for a single model."""

    @property
    def weights(self) -> Floats:
        """Share of each member in the average."""

    @property
    def uncertainty(self) -> Uncertainty:
        """What :meth:`draws` vary by."""

    @property
    def relative_error(self) -> tuple[float, float] | None:
        """How far the expected population uniques and correct matches are off beyond chance, relative to them, where that is known."""

    def log_cell_probability(self, cells: NDArray[np.int32] | None = None) -> Floats:
        """log p̂ of cells."""

    def posterior(self, cells: NDArray[np.int32] | None = None) -> LogMoments | None:
        """Moments of log p of cells; None for a model whose risk plugs in p̂."""

    def with_last(self, keys: Sequence[int]) -> CellModel:
        """A model that predicts these keys from all others, where such a model says more about them; else the model itself."""

    def draws(self, cells: NDArray[np.int32], n_draws: int, rng: np.random.Generator) -> Floats:
        """Draws of log p, a row each, a column for each cell; cells that share a parameter share its draw."""

    def sample(self, n_records: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Records drawn from the model, as key codes."""

    def describe(self) -> str:
        """One sentence."""


class SingleModel(Shown):
    """A model that averages no others."""

    table: ContingencyTable

    if TYPE_CHECKING:

        @property
        def generator_masks(self) -> tuple[int, ...]: ...

    @property
    def generators(self) -> tuple[tuple[str, ...], ...]:
        """Groups of vertices whose marginals the model fits, by name."""
        return tuple(self.table.names_of(mask) for mask in self.generator_masks)

    @property
    def members(self) -> tuple[CellModel, ...]:
        """None: this is a single model."""
        return ()

    @property
    def weights(self) -> Floats:
        return np.zeros(0)


class PluggedIn(SingleModel):
    """A model without a posterior: its probabilities are taken as they are."""

    @property
    def uncertainty(self) -> Uncertainty:
        return Uncertainty.NONE

    @property
    def relative_error(self) -> tuple[float, float] | None:
        return None

    def log_cell_probability(self, cells: NDArray[np.int32] | None = None) -> Floats:
        """log p̂ of cells."""
        raise NotImplementedError

    def posterior(self, cells: NDArray[np.int32] | None = None) -> LogMoments | None:
        """None: the risk plugs in p̂."""
        return None

    def with_last(self, keys: Sequence[int]) -> Self:
        """The model itself: it has no order of the keys."""
        return self

    def draws(self, cells: NDArray[np.int32], n_draws: int, rng: np.random.Generator) -> Floats:
        """log p̂ again and again."""
        return np.repeat(self.log_cell_probability(cells)[None, :], n_draws, axis=0)
