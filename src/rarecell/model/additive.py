"""What if interactions were added instead of multiplied?

In Lancaster's additive model of second order, the probability of a cell is that under independence times one plus the sum,
over pairs of keys, of the pair's departure from independence. The model needs no search, but its probabilities can be
negative. It is offered for comparison only.

References
----------
Lancaster, H. O. (1971). The multiplicative definition of interaction. Australian Journal of Statistics 13.
Takemura, A. and Endo, Y. (2006), section on additive models.
"""

from __future__ import annotations

from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.margins import one_plus_pairs
from rarecell.errors import BadInput
from rarecell.graph.masks import mask_of, single
from rarecell.model.protocol import PluggedIn
from rarecell.table.contingency import ContingencyTable

MOST_TERMS = 10_000_000
"""Up to this many pairs of levels are tabulated; beyond that, each pair of keys is looked up at the cells."""


class AdditiveModel(PluggedIn):
    """Lancaster's additive model of second order.

    p(i) = Π r(i_v) · {1 + Σ_{a<b} [r(i_a, i_b)/(r(i_a) r(i_b)) − 1]}, where r are relative frequencies. Negative values
    are set to zero, so that a sample unique there counts as a certain population unique; :attr:`n_negative` is the number
    of occupied cells affected.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table; its coarsenings are not used.
    most_terms : int
        Up to this many pairs of levels are tabulated; beyond that, each pair of keys is looked up at the cells.

    Examples
    --------
    >>> import numpy as np, rarecell as rc
    >>> from rarecell.model.additive import AdditiveModel
    >>> keys = [rc.Categories(name, ("no", "yes")) for name in ("smokes", "coughs")]
    >>> table = rc.ContingencyTable.from_counts([[0, 0], [0, 1], [1, 1]], [5, 3, 2], keys)
    >>> np.exp(AdditiveModel(table).log_cell_probability())
    array([0.5, 0.3, 0.2])
    """

    def __init__(self, table: ContingencyTable, *, most_terms: int = MOST_TERMS) -> None:
        self.table = table
        self.most_terms = most_terms
        self.marginals = table.marginals

    @property
    def generator_masks(self) -> tuple[int, ...]:
        """All pairs of keys as bit masks; if there is only one key, that key."""
        keys = range(self.table.n_keys)
        return tuple(mask_of(pair) for pair in combinations(keys, 2)) or (single(0),)

    def cell_probability(self, cells: NDArray[np.int32] | None = None) -> NDArray[np.float64]:
        """p of cells given by key codes (by default the occupied cells), straight from the formula, so it may be negative."""
        return self._of_occupied if cells is None else self._computed(cells)

    @cached_property
    def _of_occupied(self) -> NDArray[np.float64]:
        return self._computed(None)

    def _computed(self, cells: NDArray[np.int32] | None) -> NDArray[np.float64]:
        n = self.marginals.total

        def frequency(mask: int) -> NDArray[np.float64]:
            counts = self.marginals.at_cells(mask) if cells is None else self.marginals.lookup(mask, cells)
            return np.asarray(counts / n, dtype=np.float64)

        of_key = [frequency(single(v)) for v in range(self.table.n_keys)]
        independent = of_key[0].copy()
        for of_another in of_key[1:]:
            independent *= of_another
        levels = np.array([c.n_levels for c in self.table.categories], dtype=np.int64)
        if (levels.sum() ** 2 - (levels**2).sum()) // 2 <= self.most_terms:
            asked = self.table.cells if cells is None else np.asarray(cells)
            bracket = one_plus_pairs(asked, levels, self._departures(levels))
            return np.asarray(independent * bracket, dtype=np.float64)
        bracket = np.ones_like(independent)
        for a, b in combinations(range(self.table.n_keys), 2):
            product = of_key[a] * of_key[b]
            # A level that never occurs has probability zero, whatever the bracket is.
            bracket += np.divide(frequency(mask_of((a, b))), product, out=np.ones_like(product), where=product > 0.0) - 1.0
        return np.asarray(independent * bracket, dtype=np.float64)

    def _departures(self, levels: NDArray[np.int64]) -> NDArray[np.float64]:
        """p_ab / (p_a p_b) − 1 for every pair of levels; the tables of the pairs of keys follow one another."""

        def frequencies(mask: int, n_possible: int) -> NDArray[np.float64]:
            keys, counts = self.marginals.cells_of(mask)
            full = np.zeros(n_possible)
            full[keys] = counts / self.marginals.total
            return full

        of_key = [frequencies(single(v), int(n)) for v, n in enumerate(levels)]
        tables = [np.empty(0)]
        for a, b in combinations(range(len(levels)), 2):
            product = np.outer(of_key[a], of_key[b]).ravel()
            pair = frequencies(mask_of((a, b)), len(product))
            tables.append(np.divide(pair, product, out=np.ones_like(product), where=product > 0.0) - 1.0)
        return np.concatenate(tables)

    def log_cell_probability(self, cells: NDArray[np.int32] | None = None) -> NDArray[np.float64]:
        """The logarithm of :meth:`cell_probability`; −inf where that is not positive."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(self.cell_probability(cells), 0.0)), dtype=np.float64)

    @property
    def n_negative(self) -> int:
        """Number of occupied cells with a negative estimate. They were observed, so the model is wrong there."""
        return int((self.cell_probability() < 0.0).sum())

    @property
    def n_negative_uniques(self) -> int:
        """Number of sample uniques with a negative estimate; it is taken as 0, which leaves nobody else, so their risk is 1."""
        return int(((self.cell_probability() < 0.0) & (self.table.counts == 1)).sum())

    def sample(self, n_records: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Not possible: a function that may be negative is not a distribution."""
        raise BadInput(
            "Lancaster's additive model can be negative and is not a distribution, so that nothing can be drawn from it."
        )

    def describe(self) -> str:
        """One sentence about the model."""
        return (
            f"Lancaster's additive model of second order; {self.n_negative:,} of {self.table.n_cells:,} occupied cells have a "
            "negative estimate, taken as zero"
        )

    __str__ = describe
