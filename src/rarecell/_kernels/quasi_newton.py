"""The direction of a limited-memory quasi-Newton step.

A kernel is used instead of matrix products, because those wake up the threads of the linear algebra library for vectors so
short that waiting for the threads takes longer than the work.
"""

from __future__ import annotations

import numpy as np

from rarecell._kernels.compiled import njit


@njit(cache=True, fastmath=True)
def dot(a, b):
    """Inner product."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@njit(cache=True, fastmath=True)
def descent_direction(gradient, steps, changes, n_steps):
    """Minus the inverse Hessian times the gradient, with the Hessian learnt from steps and gradient changes along them.

    ``steps`` and ``changes`` are ring buffers, one row for each step; ``n_steps`` were taken in all (two-loop recursion,
    Nocedal and Wright 2006, algorithm 7.4).
    """
    direction = -gradient
    size = len(steps)
    first = max(0, n_steps - size)
    shares = np.zeros(size)
    for t in range(n_steps - 1, first - 1, -1):
        row = t % size
        shares[row] = dot(steps[row], direction) / dot(steps[row], changes[row])
        direction -= shares[row] * changes[row]
    if n_steps > 0:
        last = (n_steps - 1) % size
        direction *= dot(steps[last], changes[last]) / dot(changes[last], changes[last])
    for t in range(first, n_steps):
        row = t % size
        share = dot(changes[row], direction) / dot(steps[row], changes[row])
        direction += (shares[row] - share) * steps[row]
    return direction
