"""Iterative proportional fitting over a list of cells.

``index[j, i]`` is the position of cell i in the j-th marginal, within flat arrays that hold all marginals one after
another: marginal j occupies ``low[j]:high[j]``.
"""

from __future__ import annotations

import numpy as np

from rarecell._kernels.compiled import njit


@njit(cache=True)
def fit_margins(fitted, index, low, high, target, log_factor):
    """Scale ``fitted`` to each marginal in turn, in place, and add the logarithm of the scale to ``log_factor``.

    Returns the largest absolute deviation from a target, each measured just before its marginal was fitted.
    """
    worst = 0.0
    n_cells = len(fitted)
    scale = np.empty(len(target))
    for j in range(index.shape[0]):
        scale[low[j] : high[j]] = 0.0
        for i in range(n_cells):
            scale[index[j, i]] += fitted[i]
        for k in range(low[j], high[j]):
            worst = max(worst, abs(scale[k] - target[k]))
            scale[k] = target[k] / scale[k] if scale[k] > 0.0 else 0.0
            if scale[k] > 0.0:
                log_factor[k] += np.log(scale[k])
        for i in range(n_cells):
            fitted[i] *= scale[index[j, i]]
    return worst


@njit(cache=True)
def add_margins(fitted, index, margins):
    """Add the marginals of ``fitted`` to the flat array ``margins``."""
    for j in range(index.shape[0]):
        for i in range(len(fitted)):
            margins[index[j, i]] += fitted[i]


@njit(cache=True)
def load_factors(log_factor, index, fitted):
    """Set each cell to the product of its factors, divided by the largest such product; returns the log of the largest."""
    fitted[:] = 0.0
    for j in range(index.shape[0]):
        for i in range(len(fitted)):
            fitted[i] += log_factor[index[j, i]]
    largest = fitted.max()
    for i in range(len(fitted)):
        fitted[i] = np.exp(fitted[i] - largest)
    return largest


@njit(cache=True)
def pass_message(sender, sender_index, receiver, receiver_index, separator):
    """Make ``receiver`` agree with ``sender`` on the cells of their separator, all in place (Hugin's scheme).

    ``separator`` holds the marginal that both agreed on before; a cell without mass there stays without.
    """
    scale = np.zeros(len(separator))
    for i in range(len(sender)):
        scale[sender_index[i]] += sender[i]
    for k in range(len(separator)):
        before = separator[k]
        separator[k] = scale[k]
        scale[k] = scale[k] / before if before > 0.0 else 0.0
    for i in range(len(receiver)):
        receiver[i] *= scale[receiver_index[i]]


# The direction of a limited-memory quasi-Newton step.
#
# A kernel is used instead of matrix products, because those wake up the threads of the linear algebra library for vectors so
# short that waiting for the threads takes longer than the work.


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


# Products with a design matrix of dummy variables, in which every row has one 1 for each margin.


@njit(cache=True, nogil=True)
def add_columns(columns, coefficients, rows):
    """Design times coefficients: for each row the sum of the coefficients of its columns."""
    for i in range(columns.shape[0]):
        total = 0.0
        for j in range(columns.shape[1]):
            total += coefficients[columns[i, j]]
        rows[i] = total


@njit(cache=True, nogil=True)
def add_rows(columns, values, totals):
    """Transposed design times values: adds to each column the values of its rows."""
    for i in range(columns.shape[0]):
        for j in range(columns.shape[1]):
            totals[columns[i, j]] += values[i]
