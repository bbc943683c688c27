"""How many records fall into each cell of a few keys, empty cells included?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.full_counts import full_counts
from rarecell.table.contingency import ContingencyTable


class FullMarginals:
    """Marginals of a few keys as full arrays."""

    def __init__(self, table: ContingencyTable) -> None:
        self.codes = np.asfortranarray(table.cells)
        self.weights = table.counts.astype(float)
        self.levels = [c.n_levels for c in table.categories]

    def n_possible(self, keys: Sequence[int]) -> int:
        return math.prod(self.levels[k] for k in keys)

    def counts(self, keys: Sequence[int]) -> NDArray[np.float64]:
        shape = [self.levels[k] for k in keys]
        strides = np.array([math.prod(shape[place + 1 :]) for place in range(len(keys))], dtype=np.int64)
        found = full_counts(self.codes, self.weights, np.array(keys, dtype=np.int64), strides, math.prod(shape))
        return np.asarray(found.reshape(shape), dtype=np.float64)

    def n_occupied(self, keys: tuple[int, ...]) -> int:
        return len(np.unique(self.codes[:, keys], axis=0))
