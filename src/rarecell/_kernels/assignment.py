"""Which assignment of rows to columns has the smallest total cost?"""

from __future__ import annotations

import numpy as np

from rarecell._kernels.compiled import njit


@njit(cache=True, nogil=True)
def assign(cost):
    """The column of each row in an assignment of the smallest total cost; there are at least as many columns as rows.

    Rows are added one at a time by a shortest augmenting path over reduced costs cost − u − v, which stay non-negative
    (Kuhn 1955; Jonker and Volgenant 1987). With n rows and m columns it takes n²·m steps at most.
    """
    n_rows, n_columns = cost.shape
    of_row, of_column = np.zeros(n_rows), np.zeros(n_columns)
    row_of = np.full(n_columns, -1, dtype=np.int64)
    column_of = np.full(n_rows, -1, dtype=np.int64)
    for first in range(n_rows):
        least = np.full(n_columns, np.inf)
        before = np.full(n_columns, -1, dtype=np.int64)
        is_done = np.zeros(n_columns, dtype=np.bool_)
        row, last, reached = first, -1, 0.0
        while True:
            nearest, best = -1, np.inf
            for column in range(n_columns):
                if is_done[column]:
                    continue
                length = reached + cost[row, column] - of_row[row] - of_column[column]
                if length < least[column]:
                    least[column] = length
                    before[column] = last
                if least[column] < best:
                    best, nearest = least[column], column
            is_done[nearest] = True
            reached, last = best, nearest
            if row_of[nearest] < 0:
                break
            row = row_of[nearest]
        of_row[first] += reached
        for column in range(n_columns):
            if is_done[column] and column != last:
                of_row[row_of[column]] += reached - least[column]
                of_column[column] -= reached - least[column]
        while last >= 0:
            earlier = before[last]
            row = first if earlier < 0 else row_of[earlier]
            row_of[last] = row
            column_of[row] = last
            last = earlier
    return column_of
