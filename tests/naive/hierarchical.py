"""Slow twins: proportional fitting on the full table, design matrices, and kernels as plain loops."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from numpy.typing import NDArray

import rarecell as rc


def every_cell(table: rc.ContingencyTable) -> NDArray[np.int32]:
    """All formal cells as key codes."""
    return np.array(list(product(*(range(c.n_levels) for c in table.categories))), dtype=np.int32)


def full_counts(table: rc.ContingencyTable) -> NDArray[np.float64]:
    """Counts of all formal cells."""
    found = {tuple(cell): count for cell, count in zip(table.cells.tolist(), table.counts.tolist(), strict=True)}
    return np.array([found.get(tuple(cell), 0) for cell in every_cell(table).tolist()], dtype=float)


def marginal_labels(table: rc.ContingencyTable, mask: int) -> NDArray[np.int64]:
    """A number for each formal cell, equal where two cells agree on the vertices of ``mask``."""
    cells = every_cell(table)
    label = np.zeros(len(cells), dtype=np.int64)
    for v in range(table.n_vertices):
        if mask >> v & 1:
            label = label * int(table.vertex_levels[v]) + table.map_cells(cells, v)
    return np.unique(label, return_inverse=True)[1]


def fit(table: rc.ContingencyTable, masks: list[int], *, cycles: int = 5_000, tolerance: float = 1e-11) -> NDArray[np.float64]:
    """Cell probabilities of all formal cells by proportional fitting on the full table."""
    counts = full_counts(table)
    fitted = np.ones(len(counts))
    labels = [marginal_labels(table, mask) for mask in masks] or [np.zeros(len(counts), dtype=np.int64)]
    targets = [np.bincount(label, weights=counts) for label in labels]
    for _ in range(cycles):
        worst = 0.0
        for label, target in zip(labels, targets, strict=True):
            now = np.bincount(label, weights=fitted)
            worst = max(worst, np.abs(now - target).max())
            fitted *= np.where(now > 0, target / np.where(now > 0, now, 1), 0)[label]
        if worst < tolerance:
            break
    return fitted / counts.sum()


def design_rank(table: rc.ContingencyTable, masks: list[int]) -> int:
    """Rank of the indicator design matrix of all marginals and the constant."""
    columns = [np.ones((len(every_cell(table)), 1))]
    for mask in masks:
        label = marginal_labels(table, mask)
        columns.append((label[:, None] == np.arange(label.max() + 1)).astype(float))
    return int(np.linalg.matrix_rank(np.concatenate(columns, axis=1)))


def fit_margins(fitted, index, low, high, target, log_factor):
    """Twin of the kernel."""
    worst = 0.0
    for j in range(len(index)):
        for k in range(low[j], high[j]):
            total = sum(fitted[i] for i in range(len(fitted)) if index[j][i] == k)
            worst = max(worst, abs(total - target[k]))
            scale = target[k] / total if total > 0 else 0.0
            if scale > 0:
                log_factor[k] += math.log(scale)
            for i in range(len(fitted)):
                if index[j][i] == k:
                    fitted[i] *= scale
    return worst


def add_margins(fitted, index, margins):
    """Twin of the kernel."""
    for row in index:
        for i, k in enumerate(row):
            margins[k] += fitted[i]


def load_factors(log_factor, index, fitted):
    """Twin of the kernel."""
    logs = [sum(log_factor[row[i]] for row in index) for i in range(len(fitted))]
    largest = max(logs)
    for i, value in enumerate(logs):
        fitted[i] = math.exp(value - largest)
    return largest


def pass_message(sender, sender_index, receiver, receiver_index, separator):
    """Twin of the kernel."""
    sums = [sum(sender[i] for i in range(len(sender)) if sender_index[i] == k) for k in range(len(separator))]
    for i in range(len(receiver)):
        k = receiver_index[i]
        receiver[i] *= sums[k] / separator[k] if separator[k] > 0 else 0.0
    separator[:] = sums


def descent_direction(gradient, steps, changes):
    """Minus the gradient times the inverse Hessian of the BFGS updates, as a full matrix; oldest step first."""
    n = len(gradient)
    inverse = np.eye(n)
    if len(steps):
        inverse *= (steps[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
    for s, y in zip(steps, changes, strict=True):
        left = np.eye(n) - np.outer(s, y) / (s @ y)
        inverse = left @ inverse @ left.T + np.outer(s, s) / (s @ y)
    return -inverse @ gradient
