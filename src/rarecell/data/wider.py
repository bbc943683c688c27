"""How are the keys of a file counted together with columns that are not keys?

The engine that holds the data counts areas, sensitive columns and the keys of several intruders together with the keys,
as one wider table. A missing value of such a column is a level, whatever is done with missing keys; records dropped
because of a missing key stay dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rarecell.data.microdata import Microdata
from rarecell.table.contingency import Categories, ContingencyTable


def wider_table(data: Microdata, columns: Sequence[str], *, records: bool | None = None) -> ContingencyTable:
    """The table of the keys and further columns, which come last; coarsenings are left out.

    Parameters
    ----------
    data : Microdata
        The data with their keys.
    columns : sequence of str
        Further columns; those that are already keys are not counted twice.
    records : bool, optional
        As for :meth:`Microdata.table`.
    """
    further = [name for name in dict.fromkeys(columns) if name not in data.keys]
    if not further:
        return data.table(records=records).with_coarsenings(())
    table = data.wider(further).table(records=records)
    return table if data.missing == "level" else _without_missing(table, data.keys)


def _without_missing(table: ContingencyTable, keys: Sequence[str]) -> ContingencyTable:
    """The table without the records that lack one of these keys, and without levels that occur only in them."""
    kept = np.ones(table.n_cells, dtype=bool)
    for key in keys:
        k = table.keys.index(key)
        if table.categories[k].has_missing:
            kept &= table.cells[:, k] != table.categories[k].n_levels - 1
    if kept.all():
        return table
    cells, categories = table.cells.copy(), []
    for k, of_key in enumerate(table.categories):
        observed = np.unique(cells[kept, k])
        new_code = np.zeros(of_key.n_levels, dtype=np.int32)
        new_code[observed] = np.arange(len(observed), dtype=np.int32)
        cells[:, k] = new_code[cells[:, k]]
        categories.append(Categories(of_key.key, tuple(of_key.levels[code] for code in observed), of_key.is_ordered))
    counts = np.where(kept, table.counts, 0)
    weights = None if table.weights is None else np.where(kept, table.weights, 0.0)
    made = ContingencyTable.from_counts(cells, counts, categories, weights=weights, record_cell=table.record_cell)
    return replace(made, coarsenings=())
