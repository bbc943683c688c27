"""What did the sampling design do to the estimate?

A survey with unequal weights is compared with the same records drawn with equal ones. Two numbers say what the weights did: the
number of population uniques that would be expected if every record stood for N/n people, and Kish's design effect, 1 plus the
squared coefficient of variation of the weights, by which they inflate the variance of a mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rarecell.risk.records import RecordRisk

EXTREME_SPREAD = 4.0
"""At this value of Kish's design effect, three quarters of the information in the records is lost to the weights."""


@dataclass(frozen=True)
class DesignEffect:
    """The estimate with the weights of the design, and with equal ones.

    Attributes
    ----------
    expected_population_uniques : float
        τ1 under the design.
    with_equal_weights : float
        τ1 if every record stood for the same number of people.
    spread : float
        Kish's 1 + CV² of the weights of the records; where these are not held, that of the sample uniques or of the mean weights of
        all cells, whichever is larger.
    smoothed_spread : float
        The same for the smoothed mean weights of all records: how far the keys explain the weights. 1 if they do not.
    """

    expected_population_uniques: float
    with_equal_weights: float
    spread: float
    smoothed_spread: float

    @property
    def ratio(self) -> float:
        """The estimate under the design divided by that with equal weights."""
        return self.expected_population_uniques / self.with_equal_weights if self.with_equal_weights > 0.0 else 1.0

    @property
    def is_extreme(self) -> bool:
        """Whether the weights vary so much that little can be learned from the records."""
        return self.spread > EXTREME_SPREAD

    def __str__(self) -> str:
        if self.spread < 1.0 + 1e-9:
            return "Every record has the same weight, so the weights change nothing."
        if self.smoothed_spread < 1.0 + 1e-6:
            return (
                "The weights vary independently of the keys, so that they change nothing: every record stands for the same number "
                f"of people (design effect of the weights {self.spread:.2f})."
            )
        return (
            f"With equal weights {self.with_equal_weights:,.1f} population uniques would be expected; the weights, as far as the "
            f"keys explain them, make it {self.expected_population_uniques:,.1f} (design effect of the weights {self.spread:.2f})."
        )


def design_effect(risk: RecordRisk, weights: NDArray[np.float64] | None = None) -> DesignEffect | None:
    """The effect of unequal weights on the risk; None for simple random sampling. ``weights`` are those of the records, if held."""
    table, design = risk.table, risk.design
    equal = design.with_equal_weights()
    if table.weights is None and np.allclose(design.weight, equal.weight):
        return None
    as_given = design.weight if table.weights is None else table.weights / table.counts
    alone = table.unique_cells
    if weights is not None:
        spread = _spread(weights, np.ones(len(weights), dtype=np.int64))
    else:
        spread = max(_spread(as_given, table.counts), _spread(as_given[alone], table.counts[alone]) if len(alone) else 1.0)
    return DesignEffect(
        risk.expected_population_uniques,
        replace(risk, design=equal).expected_population_uniques,
        spread,
        _spread(design.weight, table.counts),
    )


def _spread(weight: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
    mean = float(np.average(weight, weights=counts))
    return 1.0 + float(np.average((weight / mean - 1.0) ** 2, weights=counts))
