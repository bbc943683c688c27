"""Links to a register with errors, by listing every cell and every way in which values can be wrong."""

from __future__ import annotations

from itertools import product

import numpy as np


def wrong_values(n_levels: int, is_ordered: bool, common: np.ndarray) -> np.ndarray:
    """P(a wrong value is registered as another one): one row for each true value."""
    found = np.zeros((n_levels, n_levels))
    for value in range(n_levels):
        if is_ordered:
            near = [other for other in (value - 1, value + 1) if 0 <= other < n_levels]
            found[value, near] = 1.0 / len(near)
        else:
            others = [other for other in range(n_levels) if other != value]
            found[value, others] = common[others] / common[others].sum()
    return found


def registered_as(shares: np.ndarray, wrong: list[np.ndarray], true: tuple[int, ...], cell: tuple[int, ...]) -> float:
    """Probability that a person with the values ``true`` is registered in a cell."""
    found = 1.0
    for share, of_key, value, other in zip(shares, wrong, true, cell, strict=True):
        found *= 1.0 - share if value == other else share * of_key[value, other]
    return found


def registered_rates(
    shares: np.ndarray, wrong: list[np.ndarray], rates: dict[tuple[int, ...], float]
) -> dict[tuple[int, ...], float]:
    """Expected numbers of people registered in each cell, given those who live in each."""
    cells = list(product(*(range(len(of_key)) for of_key in wrong)))
    return {cell: sum(rate * registered_as(shares, wrong, true, cell) for true, rate in rates.items()) for cell in cells}
