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


def bad_weight(name: str, column: str, example: str, n_bad: int, what: str) -> BadInput:
    """The error for weights that cannot be used. ``example`` is the one value that explains it."""
    many = f" ({n_bad:,} records have such a weight)" if n_bad > 1 else ""
    return BadInput(
        f"The weight column '{column}' of {name} has the value {example}{many}, which is {what}. A weight is the number of persons "
        "a record stands for, a number of 1 or more. Correct or drop these records; if the weights were scaled to a mean of 1, "
        "multiply them by the population over the number of records."
    )


def check_weights(name: str, column: str, smallest: float, n_unusable: int) -> None:
    """Refuse weights that are missing, infinite, or below 1."""
    if n_unusable:
        raise bad_weight(name, column, "missing or not a number", n_unusable, "no number of persons")
    if smallest < 1:
        raise bad_weight(name, column, f"{smallest:g}", 1, "negative" if smallest < 0 else "below 1")


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
            "missing" if value is None
            else "not a number" if np.isnan(number)
            else "negative" if number < 0
            else "below 1" if number < 1
            else "larger than any population"
        )  # fmt: skip
        shown = f"'{value}' in record {row + 1}" if value is not None else f"no value in record {row + 1}"
        raise bad_weight(name, column, shown, int(is_bad.sum()), what)
    return rounded_weights(weights)
