"""Is a column of numbers a column of survey weights?

A weight is the number of persons that a record represents: a number of 1 or more. Weights are rounded to multiples of
2⁻²⁴, so that their sums are exact and do not depend on the order in which an engine adds them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput

WEIGHT_UNITS = 2**24
"""Weights are rounded to multiples of one over this number."""

LARGEST_WEIGHT = 1e11
"""No record can represent more persons than ever lived; the limit also keeps sums of weights within 64 bits."""


def rounded_weights(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round weights to the precision in which they are added."""
    return np.asarray(np.rint(weights * WEIGHT_UNITS) / WEIGHT_UNITS, dtype=np.float64)


def bad_weight(name: str, column: str, has_what: str, n_bad: int = 1) -> BadInput:
    """The error for weights that cannot be used. ``has_what`` tells of the one value that explains it."""
    many = f" ({n_bad:,} records have a weight that cannot be used)" if n_bad > 1 else ""
    return BadInput(
        f"The weight column '{column}' of {name} has {has_what}{many}. A weight is the number of persons a record stands for, "
        "a number of 1 or more. Correct or drop these records; if the weights were scaled to a mean of 1, multiply them by the population over the number of records."
    )


def check_weights(name: str, column: str, smallest: float, n_unusable: int) -> None:
    """Refuse weights that are missing, infinite, or below 1."""
    if n_unusable:
        raise bad_weight(name, column, "values that are missing or not numbers", n_unusable)
    if smallest < 1:
        raise bad_weight(name, column, f"the value {smallest:g}, which is {'negative' if smallest < 0 else 'below 1'}")


def check_record_weights(
    name: str, column: str, weights: NDArray[np.float64], value_at: Callable[[int], object]
) -> NDArray[np.float64]:
    """Check and round the weights of records; ``value_at`` gives what the data hold at a position."""
    # A comparison with NaN is False, so missing weights count as bad, too.
    is_bad = ~((weights >= 1) & (weights < LARGEST_WEIGHT))
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        value, number = value_at(row), weights[row]
        what = (
            "not a number" if np.isnan(number)
            else "negative" if number < 0
            else "below 1" if number < 1
            else "larger than any population"
        )  # fmt: skip
        at = f"in record {row + 1}"
        raise bad_weight(
            name, column, f"no value {at}" if value is None else f"the value '{value}' {at}, which is {what}", int(is_bad.sum())
        )
    return rounded_weights(weights)
