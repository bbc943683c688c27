"""What is the probability of a cell when the interactions are given by any list of marginals?

A hierarchical log-linear model fits the marginals of its generators and has no other interactions. Only decomposable
models have a closed form; the others are fitted by iterative proportional fitting.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import KeyMismatch
from rarecell.graph.chordal import ChordalGraph
from rarecell.model.decomposable import LikelihoodMeasures
from rarecell.model.generating_class import degrees_of_freedom, generating_class, triangulation
from rarecell.model.proportional_fitting import fit_marginals
from rarecell.model.protocol import PluggedIn
from rarecell.progress import SILENT, Progress
from rarecell.table.contingency import ContingencyTable
from rarecell.table.marginals import Marginals

if TYPE_CHECKING:
    from rarecell.edges import Json, ReadJson

TOLERANCE = 1e-3
"""Number of records by which a fitted marginal may deviate from the observed one."""

MAX_CYCLES = 10_000

MEMORY_LIMIT = 1e9
"""Memory for the tables of the cliques, in bytes."""


class HierarchicalModel(PluggedIn, LikelihoodMeasures):
    """A hierarchical log-linear model fitted to a table by maximum likelihood.

    Memory is needed only for the cells of the cliques of a triangulation whose marginals are all positive: a cell with a
    zero marginal has probability zero under maximum likelihood. For a decomposable generating class the fit is that of
    :class:`~rarecell.model.decomposable.DecomposableModel`.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table.
    generators : str or iterable of sequence of str
        Groups of vertex names that interact, or ``"all two-way"`` or ``"all three-way"``. A key in none of them is
        independent of the rest.
    marginals : Marginals, optional
        Counts to fit to; by default those of the table.
    tolerance : float
        Largest deviation of a fitted marginal that counts as converged, in records.
    max_cycles : int
        Number of rounds over all marginals after which the fit stops.
    memory_limit : float
        Memory for the tables of the cliques, in bytes.
    must_converge : bool
        Whether to raise an error when the tolerance is not reached; if not, :attr:`convergence` tells.

    Raises
    ------
    NotConverged
        When ``max_cycles`` are not enough and ``must_converge`` is set.
    TooLarge
        When the tables of the cliques need more than ``memory_limit`` bytes.

    Examples
    --------
    >>> import numpy as np, rarecell as rc
    >>> yes_no = [rc.Categories(name, ("no", "yes")) for name in ("smokes", "coughs", "drives")]
    >>> table = rc.ContingencyTable.from_counts([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1], [0, 1, 0]], [5, 3, 2, 1, 4], yes_no)
    >>> model = rc.HierarchicalModel(table, "all two-way")
    >>> model.degrees_of_freedom
    6
    >>> model.convergence.has_converged
    True
    """

    def __init__(
        self,
        table: ContingencyTable,
        generators: str | Iterable[Sequence[str]] = (),
        *,
        marginals: Marginals | None = None,
        tolerance: float = TOLERANCE,
        max_cycles: int = MAX_CYCLES,
        memory_limit: float = MEMORY_LIMIT,
        must_converge: bool = True,
        progress: Progress = SILENT,
    ) -> None:
        self.table = table
        self.marginals = marginals or table.marginals
        self._generators = generating_class(table, generators)
        self._tree, self.convergence = fit_marginals(
            self.marginals,
            self._generators,
            self.graph,
            tolerance=tolerance,
            max_cycles=max_cycles,
            memory_limit=memory_limit,
            must_converge=must_converge,
            progress=progress,
        )

    # ------------------------------------------------------------------ structure

    @property
    def generator_masks(self) -> tuple[int, ...]:
        """The maximal sets of vertices whose marginals the model fits, as bit masks."""
        return self._generators

    @cached_property
    def graph(self) -> ChordalGraph:
        """The triangulated graph used by the fit; it may have more edges than the model."""
        return triangulation(self.table, self._generators)

    @property
    def log_factors(self) -> NDArray[np.float64]:
        """Logarithms of the factors of all occupied marginal cells, generator by generator.

        The expected count of a cell is the product of its factors.
        """
        return self._tree.log_factor

    # ------------------------------------------------------------------ probabilities

    def log_cell_probability(self, cells: NDArray[np.int32] | None = None) -> NDArray[np.float64]:
        """log p̂ of ``cells`` (key codes; by default the occupied cells): the sum of the logarithms of their factors.

        It is −inf where the marginal of a generator was never observed.
        """
        n_cells = self.table.n_cells if cells is None else len(cells)
        total = np.full(n_cells, -math.log(self.marginals.total))
        is_possible = np.ones(n_cells, dtype=bool)
        for start, mask in zip(self._tree.start, self._generators, strict=False):
            position = self.marginals.cell_index(mask) if cells is None else self.marginals.positions(mask, cells)
            is_possible &= position >= 0
            total += self._tree.log_factor[start + position]
        return np.where(is_possible, np.minimum(total, 0.0), -np.inf)

    def sample(self, n_records: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw records from the fitted model, as key codes, one row per record."""
        return self._tree.sample(n_records, rng)

    # ------------------------------------------------------------------ fit

    @cached_property
    def degrees_of_freedom(self) -> int:
        """Number of free parameters: the rank of the design matrix minus 1, whichever marginal cells were observed."""
        return degrees_of_freedom(self.table, self._generators)

    @cached_property
    def log_likelihood_kernel(self) -> float:
        """Σ n(i) log p̂(i), without the multinomial coefficient."""
        fitted = float(self._tree.target @ self._tree.log_factor)
        return fitted - self.marginals.total * math.log(self.marginals.total)

    # ------------------------------------------------------------------ description and storage

    def describe(self) -> str:
        names = ", ".join(f"{{{', '.join(self.table.names_of(self.table.reduce(g)))}}}" for g in self._generators)
        return (
            f"hierarchical model with the generators {names}; {self.degrees_of_freedom:,} degrees of freedom, AIC {self.aic:,.3f}"
        )

    __str__ = describe

    def __repr__(self) -> str:
        return f"HierarchicalModel(generators={self.generators!r})"

    def to_dict(self) -> Json:
        """The structure of the model, ready for JSON: vertices and generators, not the counts."""
        table = self.table
        return {
            "kind": "hierarchical",
            "keys": list(table.keys),
            "vertices": [
                {"name": name, "key": table.keys[int(table.vertex_key[v])], "levels": int(table.vertex_levels[v])}
                for v, name in enumerate(table.vertex_names)
            ],
            "generators": [list(names) for names in self.generators],
            "convergence": {"cycles": self.convergence.cycles, "deviation": self.convergence.deviation},
        }

    @classmethod
    def from_dict(cls, table: ContingencyTable, stored: ReadJson) -> HierarchicalModel:
        """Fit a stored model structure to ``table``, which must have the same keys and coarsenings."""
        if list(stored["keys"]) != list(table.keys):
            raise KeyMismatch.between(table.keys, stored["keys"])
        return cls(table, [tuple(names) for names in stored["generators"]])
