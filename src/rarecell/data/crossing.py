"""Which columns other than the keys can be counted against them, and what are the counts?

The engine that holds the records counts them in one pass over the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.data.coding import Coding, code_levels
from rarecell.data.counting import number_of_each
from rarecell.data.levels import settle
from rarecell.data.microdata import Microdata
from rarecell.engine.arrays import CountedPairs, code_chunk, unified
from rarecell.table.columns import CrossedColumn
from rarecell.table.contingency import ContingencyTable


def crossed_columns(
    data: Microdata,
    table: ContingencyTable,
    keys: Sequence[str],
    columns: Sequence[str],
    numbers: NDArray[np.int64],
    *,
    seed: int,
    most_values: int,
) -> dict[str, CrossedColumn]:
    """Count columns against keys, by name; columns with one value, or with more than ``most_values``, are left out.

    Parameters
    ----------
    data : Microdata
        The data.
    table : ContingencyTable
        The table of the data.
    keys : sequence of str
        Keys to count against.
    columns : sequence of str
        Columns that are not keys.
    numbers : ndarray of int64
        Records, as ``table`` numbers them, whose codes are wanted as well (see :meth:`Microdata.drawn_records`).
    seed : int
        Seed for drawing among equal records.
    """
    if not keys or not columns:
        return {}
    pairs = data.source.crossed(data.key_cells(table), keys, columns, most_values=most_values)
    if not pairs:
        return {}
    _, values = data.drawn_records(table, numbers, seed=seed, columns=list(pairs))
    crossed = {name: _coded(data, table, name, of_keys, values[name]) for name, of_keys in pairs.items()}
    return {name: column for name, column in crossed.items() if 1 < len(column.levels) <= most_values}


def _coded(
    data: Microdata, table: ContingencyTable, name: str, of_keys: Mapping[str, CountedPairs], of_rows: pa.Array
) -> CrossedColumn:
    """Code the values of one column as levels."""
    column = data.columns[name]
    chunks = [*(pairs.values for pairs in of_keys.values()), of_rows]
    encoded = unified([code_chunk(chunk) for chunk in chunks])
    raw = settle(encoded.values, column, decimal_mark=data.source.decimal_mark)
    coded = code_levels(name, raw, number_of_each(encoded, None), Coding(), level_order=column.level_order)
    *codes_of_pairs, codes_of_rows = np.split(
        coded.code_of_value[encoded.codes], np.cumsum([len(chunk) for chunk in chunks[:-1]])
    )
    joint = {}
    for (key, pairs), codes in zip(of_keys.items(), codes_of_pairs, strict=True):
        n_levels = table.categories[table.keys.index(key)].n_levels
        joint[key] = np.zeros((n_levels, len(coded.levels)), dtype=np.int64)
        np.add.at(joint[key], (pairs.codes, codes), pairs.records)
    return CrossedColumn(coded.levels, joint, codes_of_rows)


# How are the keys of a file counted together with columns that are not keys?
#
# The engine that holds the data counts areas, sensitive columns and the keys of several intruders together with the keys,
# as one wider table. A missing value of such a column is a level, whatever is done with missing keys; records dropped
# because of a missing key stay dropped.


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
        categories.append(of_key.with_levels(of_key.levels[code] for code in observed))
    counts = np.where(kept, table.counts, 0)
    weights = None if table.weights is None else np.where(kept, table.weights, 0.0)
    made = ContingencyTable.from_counts(cells, counts, categories, weights=weights, record_cell=table.record_cell)
    return replace(made, coarsenings=())
