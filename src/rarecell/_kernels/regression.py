"""Products with a design matrix of dummy variables, in which every row has one 1 for each margin."""

from __future__ import annotations

from rarecell._kernels.compiled import njit


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
