"""Where is the minimum of a smooth convex function of many variables?

Limited-memory quasi-Newton steps (L-BFGS) without bounds. scipy's L-BFGS-B handles bounds, which makes its steps take far
longer than evaluating the functions minimised here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import quasi_newton as kernels

Vector = NDArray[np.float64]

MEMORY = 20
"""Number of past steps from which the curvature is estimated."""

SUFFICIENT_DECREASE = 1e-4
MOST_HALVINGS = 30


@dataclass(frozen=True, eq=False)
class Minimum:
    """The best point found, its value and gradient, and the number of calls of the function."""

    point: Vector
    value: float
    gradient: Vector
    calls: int


def minimise(
    function: Callable[[Vector], tuple[float, Vector]],
    start: Vector,
    *,
    max_calls: int,
    is_done: Callable[[float, Vector], bool] = lambda value, gradient: False,
) -> Minimum:
    """Take L-BFGS steps from ``start`` until ``is_done(value, gradient)`` or until no step decreases the function.

    For a convex function the curvature along a step is never negative, so halving the step until the function
    decreases enough is a sufficient line search (Nocedal and Wright 2006, algorithm 7.5).
    """
    point = start.copy()
    value, gradient = function(point)
    calls = 1
    steps, changes = np.zeros((MEMORY, len(point))), np.zeros((MEMORY, len(point)))
    n_steps = 0
    while calls < max_calls and not is_done(value, gradient):
        direction = kernels.descent_direction(gradient, steps, changes, n_steps)
        slope = kernels.dot(direction, gradient)
        if slope >= 0.0:
            break
        # While nothing is known about the curvature, steps are kept short.
        length = 1.0 if n_steps else min(1.0, 1.0 / kernels.dot(gradient, gradient) ** 0.5)
        for _ in range(MOST_HALVINGS):
            tried = point + length * direction
            tried_value, tried_gradient = function(tried)
            calls += 1
            if tried_value <= value + SUFFICIENT_DECREASE * length * slope or calls >= max_calls:
                break
            length /= 2.0
        if not tried_value < value:
            break
        step, change = tried - point, tried_gradient - gradient
        if kernels.dot(step, change) > 1e-14 * kernels.dot(change, change):
            steps[n_steps % MEMORY], changes[n_steps % MEMORY] = step, change
            n_steps += 1
        point, value, gradient = tried, tried_value, tried_gradient
    return Minimum(point, value, gradient, calls)
