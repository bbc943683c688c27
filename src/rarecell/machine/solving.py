"""Where is a function of one number zero, and where is it least? What solves a system of linear equations?

Classical methods in plain Python and NumPy. A general library has them too, but takes a quarter of a second to load, which would
be noticeable in a short run.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Linear = Callable[[Floats], Floats]

_GOLDEN = (3.0 - math.sqrt(5.0)) / 2.0
_MOST_STEPS = 200


def root(function: Callable[[float], float], low: float, high: float, *, tolerance: float) -> float:
    """Find a zero between two points at which the function has different signs.

    Chandrupatla's method (1997): inverse quadratic interpolation where the last three points allow it, else bisection.

    Examples
    --------
    >>> round(root(lambda x: x * x - 2.0, 0.0, 2.0, tolerance=1e-12), 10)
    1.4142135624
    """
    a, b = low, high
    at_a, at_b = function(a), function(b)
    if at_a * at_b > 0:
        raise ValueError("the function has the same sign at both ends")
    share = 0.5
    for _ in range(_MOST_STEPS):
        x = a + share * (b - a)
        at_x = function(x)
        if (at_x > 0) == (at_a > 0):
            a, at_a, c, at_c = x, at_x, a, at_a
        else:
            b, a, c = a, x, b
            at_b, at_a, at_c = at_a, at_x, at_b
        best, at_best = (a, at_a) if abs(at_a) < abs(at_b) else (b, at_b)
        smallest = (tolerance + 4e-16 * abs(best)) / max(abs(b - a), 1e-300)
        if smallest >= 0.5 or at_best == 0.0:
            return best
        share = _interpolated((a, at_a), (b, at_b), (c, at_c), smallest)
    return best


def _interpolated(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float], smallest: float) -> float:
    """How far to go from a towards b: to the zero of the inverse parabola through three points, or half the way."""
    xi, phi = (a[0] - b[0]) / (c[0] - b[0]), (a[1] - b[1]) / (c[1] - b[1])
    if not (phi * phi < xi and (1 - phi) ** 2 < 1 - xi):
        return 0.5
    share = a[1] / (b[1] - a[1]) * c[1] / (b[1] - c[1]) + (c[0] - a[0]) / (b[0] - a[0]) * a[1] / (c[1] - a[1]) * b[1] / (
        c[1] - b[1]
    )
    return min(max(share, smallest), 1.0 - smallest)


def minimum(function: Callable[[float], float], low: float, high: float, *, tolerance: float) -> float:
    """Find where a function that falls and then rises is least between two points, by golden-section search.

    Examples
    --------
    >>> round(minimum(lambda x: (x - 0.3) ** 2, 0.0, 1.0, tolerance=1e-6), 5)
    0.3
    """
    left, right = low + _GOLDEN * (high - low), high - _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > tolerance:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = low + _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = high - _GOLDEN * (high - low)
            at_right = function(right)
    return left if at_left <= at_right else right


def conjugate_gradients(act: Linear, target: Floats, scale: Linear, *, tolerance: float, most_steps: int) -> Floats:
    """Solve a system of linear equations whose matrix is symmetric and positive definite (Hestenes and Stiefel 1952).

    Parameters
    ----------
    act : callable
        Multiplies the matrix by a vector.
    target : array of float
        The right-hand side.
    scale : callable
        Multiplies a rough inverse of the matrix, such as that of its diagonal, by a vector.
    tolerance : float
        The steps end when the remainder is this part of the right-hand side, by their Euclidean lengths.
    most_steps : int
        They end after this many in any case.

    Examples
    --------
    >>> matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
    >>> solution = conjugate_gradients(lambda x: matrix @ x, np.array([1.0, 2.0]), lambda x: x / np.diag(matrix), tolerance=1e-9, most_steps=9)
    >>> (11 * solution).round(6)
    array([1., 7.])
    """
    solution = np.zeros_like(target)
    remainder = target.copy()
    enough = tolerance * float(np.linalg.norm(target))
    direction, before = np.zeros_like(target), 1.0
    for _ in range(most_steps):
        if float(np.linalg.norm(remainder)) <= enough:
            break
        scaled = scale(remainder)
        now = float(remainder @ scaled)
        direction = scaled + now / before * direction
        turned = act(direction)
        step = now / float(direction @ turned)
        solution += step * direction
        remainder -= step * turned
        before = now
    return solution
