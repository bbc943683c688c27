"""How are gamma and beta variables drawn that may be too small for a floating-point number?

A gamma variable with a shape a far below 1 is often too small to be represented: at a = 0.01 half of them are below 10^-30.
Its logarithm poses no problem: G(a) is distributed as G(a+1)·U^(1/a) with U uniform.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def log_gamma_draws(shape: Floats, n_draws: int, rng: np.random.Generator) -> Floats:
    """Logarithms of standard gamma variables, one row per draw and one column per shape; −inf where the shape is 0."""
    is_small = shape < 1.0
    found = np.log(rng.standard_gamma(np.where(is_small, shape + 1.0, shape), (n_draws, len(shape))))
    small = np.flatnonzero(is_small)
    exponential = rng.standard_exponential((n_draws, len(small)))
    with np.errstate(divide="ignore", over="ignore"):
        found[:, small] -= exponential / shape[small]
    return np.asarray(found)


def log_beta_draws(mean: Floats, rest: Floats, variance: Floats, n_draws: int, rng: np.random.Generator) -> Floats:
    """Logarithms of beta variables, given the mean, one minus the mean (``rest``), and the variance.

    Where the variance or ``rest`` is zero, all draws equal the mean.
    """
    found = np.zeros((n_draws, len(mean)))
    is_fixed = (rest <= 0.0) | (variance <= 0.0)
    fixed, free = np.flatnonzero(is_fixed), np.flatnonzero(~is_fixed)
    found[:, fixed] = np.where(rest[fixed] < 0.5, np.log1p(-np.maximum(rest[fixed], 0.0)), np.log(mean[fixed]))
    mass = np.maximum(mean[free] * rest[free] / variance[free] - 1.0, 1e-9)
    own, others = (log_gamma_draws(part[free] * mass, n_draws, rng) for part in (mean, rest))
    found[:, free] = -np.logaddexp(0.0, others - own)
    return found
