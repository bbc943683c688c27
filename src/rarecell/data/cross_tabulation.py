"""Which columns other than the keys can be counted against them, and what are the counts?

The engine that holds the records counts them in one pass over the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.data.coding import Coding, code_levels
from rarecell.data.counting import number_of_each
from rarecell.data.levels import settle
from rarecell.data.microdata import Microdata
from rarecell.engine.encoded import Pairs, code_chunk, unified
from rarecell.table.contingency import ContingencyTable
from rarecell.table.crossed import CrossedColumn


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
    found = {name: _coded(data, table, name, of_keys, values[name]) for name, of_keys in pairs.items()}
    return {name: one for name, one in found.items() if 1 < len(one.levels) <= most_values}


def _coded(data: Microdata, table: ContingencyTable, name: str, of_keys: Mapping[str, Pairs], of_rows: pa.Array) -> CrossedColumn:
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
