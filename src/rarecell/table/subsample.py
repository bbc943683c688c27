"""Which smaller file tells the same as a large one?

It is a random part of the records, drawn without replacement. A record that is unique in the population stays so whatever
else is drawn. The expected number of population uniques in a file is therefore proportional to its number of records, and
can be compared on a part.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rarecell.table.contingency import ContingencyTable

_SMALL_PART = 50
"""A part of at most one in this many records is drawn record by record instead of cell by cell."""


def drawn_counts(counts: NDArray[np.int64], n_drawn: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How many records of each cell are among ``n_drawn`` records drawn without replacement."""
    total = int(counts.sum())
    if n_drawn * _SMALL_PART > total:
        return rng.multivariate_hypergeometric(counts, n_drawn, method="marginals")
    records = rng.choice(total, n_drawn, replace=False, shuffle=False)
    return np.bincount(np.searchsorted(np.cumsum(counts), records, side="right"), minlength=len(counts))


def part_of(table: ContingencyTable, counts: NDArray[np.int64]) -> ContingencyTable:
    """The table with this many records of each cell, and the same levels, coarsenings and structural zeros.

    The weight of a cell is shared equally among its records. Cells keep their order; single records are not known.
    """
    taken = np.flatnonzero(counts)
    weights = None if table.weights is None else table.weights[taken] * (counts[taken] / table.counts[taken])
    part = ContingencyTable.of_sorted_cells(table.categories, table.cells[taken], counts[taken], weights, None)
    return replace(part, coarsenings=table.coarsenings, structural_zeros=table.structural_zeros)


def part_with_records(table: ContingencyTable, records: NDArray[np.int64]) -> ContingencyTable:
    """The table of some records, made by :func:`part_of`, with the cell of each of them in their order; all have one."""
    assert table.record_cell is not None
    cell = table.record_cell[records]
    counts = np.bincount(cell, minlength=table.n_cells)
    return replace(part_of(table, counts), record_cell=np.searchsorted(np.flatnonzero(counts), cell))


def parts_by_household(
    table: ContingencyTable, household: NDArray[np.int64], n_records: int, n_parts: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Records of random parts with whole households each and none in common; a part has about ``n_records`` records.

    Households are put in random order and cut into parts where ``n_records`` are reached, so that a part has more or fewer by less than a
    household. What a household that is larger than a part leaves of the next is no part if it is less than half. Neither the order of records or
    keys nor the numbers of the households make a difference.

    Parameters
    ----------
    table : ContingencyTable
        The file, with the cell of each record; those without a cell are in no part.
    household : array of int
        Household of each record.
    n_records : int
        Number of records of a part.
    n_parts : int
        Number of parts, as far as there are enough records.
    rng : Generator
        Source of the order.
    """
    assert table.record_cell is not None
    counted = np.flatnonzero(table.record_cell >= 0)
    _, of_record, size = np.unique(household[counted], return_inverse=True, return_counts=True)
    # A household is told by the sum of random numbers of its members' cells, and those with the same members are exchangeable.
    number = np.empty(table.n_cells, dtype=np.uint64)
    number[cells_by_name(table)] = rng.integers(0, 2**64, table.n_cells, dtype=np.uint64)
    total = np.zeros(len(size), dtype=np.uint64)
    np.add.at(total, of_record, number[table.record_cell[counted]])
    order = np.argsort(total, kind="stable")[rng.permutation(len(size))]
    before = np.cumsum(size[order]) - size[order]
    part = np.empty(len(size), dtype=np.int64)
    part[order] = before // n_records
    of_records = part[of_record]
    parts = [counted[of_records == k] for k in range(min(n_parts, len(counted) // n_records))]
    return [records for records in parts if 2 * len(records) >= n_records]


def cells_by_name(table: ContingencyTable) -> NDArray[np.int64]:
    """The cells in an order that does not depend on that of the keys.

    Every level gets a random number that depends on the name of its key alone; cells are sorted by the sums of these.
    """
    total = np.zeros(table.n_cells, dtype=np.uint64)
    for k, categories in enumerate(table.categories):
        numbers = np.random.default_rng(list(categories.key.encode())).integers(0, 2**64, categories.n_levels, dtype=np.uint64)
        total += numbers[table.cells[:, k]]
    return np.argsort(total, kind="stable")


def random_part(table: ContingencyTable, n_records: int, rng: np.random.Generator) -> ContingencyTable:
    """A table of ``n_records`` random records, made by :func:`part_of`; the table itself when it has no more than that.

    Weights are scaled up so that they still add up to the population. The order of the keys makes no difference.

    Examples
    --------
    >>> import numpy as np, rarecell as rc
    >>> table = rc.ContingencyTable.from_counts([[0], [1], [2]], [500, 400, 100], [rc.Categories("a", (0, 1, 2))])
    >>> part = random_part(table, 100, np.random.default_rng(0))
    >>> part.n_records
    100
    """
    if n_records >= table.n_records:
        return table
    order = cells_by_name(table)
    counts = np.zeros_like(table.counts)
    counts[order] = drawn_counts(table.counts[order], n_records, rng)
    part = part_of(table, counts)
    return part if part.weights is None else replace(part, weights=part.weights * (table.n_records / part.n_records))
