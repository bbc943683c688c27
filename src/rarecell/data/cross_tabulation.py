"""How many records have each pair of a key's level and another column's value?

Counted in one reading of the data, and without holding their records: on Spark by its own jobs, else from the records as they
stream by.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell._kernels.counting import count_pairs, count_values
from rarecell.data.coding import Coding, code_levels
from rarecell.data.counting import number_of_each, plain_value
from rarecell.data.levels import settle
from rarecell.data.microdata import Microdata
from rarecell.engine.source import code_chunk, unified
from rarecell.table.contingency import Categories, ContingencyTable

_FIRST_VALUES = 64
"""Values that a column has room for before it is found to have more."""


class CountedColumn(NamedTuple):
    """A column counted against keys.

    ``joint`` has for each key the records of each pair of levels, ``of_records`` the code of the column in those records that
    were asked for.
    """

    categories: Categories
    joint: dict[str, NDArray[np.int64]]
    of_records: NDArray[np.int32]


class _Pairs(NamedTuple):
    """Pairs that occur: code of the key, value of the column, number of records."""

    codes: NDArray[np.int64]
    values: pa.Array
    records: NDArray[np.int64]


def crossed_columns(
    data: Microdata,
    table: ContingencyTable,
    keys: Sequence[str],
    columns: Sequence[str],
    numbers: NDArray[np.int64],
    *,
    seed: int,
    most_values: int,
) -> dict[str, CountedColumn]:
    """Count columns against keys, by name; columns of one value, or of more than ``most_values``, are left out.

    Parameters
    ----------
    data, table : the data and their table
    keys : keys to count against
    columns : columns outside the keys
    numbers : records, as ``table`` numbers them, whose codes are wanted as well (see :meth:`Microdata.drawn_records`)
    seed : of the draws of equal records
    """
    if not keys or not columns:
        return {}
    counted = _counted_in_passing if data.spark is None else _counted_on_spark
    pairs = counted(data, table, keys, columns, most_values)
    if not pairs:
        return {}
    _, values = data.drawn_records(table, numbers, seed=seed, columns=list(pairs))
    found = {name: _coded(data, table, name, of_keys, values[name]) for name, of_keys in pairs.items()}
    return {name: one for name, one in found.items() if 1 < one.categories.n_levels <= most_values}


def _coded(
    data: Microdata, table: ContingencyTable, name: str, of_keys: dict[str, _Pairs], of_records: pa.Array
) -> CountedColumn:
    """One column with its values coded as levels."""
    column = data.columns[name]
    chunks = [*(pairs.values for pairs in of_keys.values()), of_records]
    encoded = unified([code_chunk(chunk) for chunk in chunks])
    raw = settle(encoded.values, column, decimal_mark=data.source.decimal_mark)
    coded = code_levels(name, raw, number_of_each(encoded, None), Coding(), level_order=column.level_order)
    *codes_of_pairs, codes_of_records = np.split(
        coded.code_of_value[encoded.codes], np.cumsum([len(chunk) for chunk in chunks[:-1]])
    )
    joint = {}
    for (key, pairs), codes in zip(of_keys.items(), codes_of_pairs, strict=True):
        n_levels = table.categories[table.keys.index(key)].n_levels
        joint[key] = np.zeros((n_levels, len(coded.levels)), dtype=np.int64)
        np.add.at(joint[key], (pairs.codes, codes), pairs.records)
    return CountedColumn(Categories(name, coded.levels, coded.is_ordered), joint, codes_of_records)


def _counted_on_spark(
    data: Microdata, table: ContingencyTable, keys: Sequence[str], columns: Sequence[str], most_values: int
) -> dict[str, dict[str, _Pairs]]:
    assert data.spark is not None
    names = data.spark.columns_of_few_values(columns, most_values)
    counted = data.spark.crossed(data.key_cells(table), keys, names) if names else {}

    def pairs(key: str, name: str) -> _Pairs:
        found = counted[key, name]
        code, records = (found.column(which).to_numpy() for which in ("code", "records"))
        return _Pairs(code, found.column("value").combine_chunks(), records)

    return {name: {key: pairs(key, name) for key in keys} for name in names}


def _counted_in_passing(
    data: Microdata, table: ContingencyTable, keys: Sequence[str], columns: Sequence[str], most_values: int
) -> dict[str, dict[str, _Pairs]]:
    positions = [table.keys.index(key) for key in keys]
    n_levels = [table.categories[position].n_levels for position in positions]
    growing = [_GrowingCounts(n_levels, most_values) for _ in columns]
    with ThreadPoolExecutor() as pool:
        for codes, arrays in data.key_codes(columns):
            kept = np.logical_and.reduce([of_key >= 0 for of_key in codes])
            # Codes of dropped records are −1 in every key, so that none of their pairs is counted.
            of_keys = [np.where(kept, codes[position], -1) for position in positions]
            list(pool.map(lambda counts, array, of_keys=of_keys: counts.add(of_keys, array), growing, arrays))
    return {
        name: dict(zip(keys, counts.pairs(), strict=True))
        for name, counts in zip(columns, growing, strict=True)
        if counts.values is not None
    }


class _GrowingCounts:
    """Records of each pair of a key's code and a column's value, with a column for each value met so far.

    ``values`` becomes None when there are more than ``most_values``.
    """

    def __init__(self, n_levels: Sequence[int], most_values: int) -> None:
        self.values: dict[Any, int] | None = {}
        self._type: pa.DataType | None = None
        self._most_values = most_values
        self._joint = [np.zeros((n, _FIRST_VALUES), dtype=np.int64) for n in n_levels]

    def add(self, of_keys: Sequence[NDArray[np.int32]], array: pa.Array) -> None:
        if self.values is None:
            return
        chunk = code_chunk(array)
        self._type = chunk.values.type
        # After the values comes the place of a missing one; a value that is listed need not occur.
        listed = pa.concat_arrays([chunk.values, pa.nulls(1, chunk.values.type)])
        n_records = np.zeros(len(listed), dtype=np.int64)
        count_values(chunk.codes, n_records)
        occurring = np.flatnonzero(n_records)
        place = np.zeros(len(listed), dtype=np.int64)
        if len(occurring) <= self._most_values:
            for position, value in zip(occurring, listed.take(pa.array(occurring)).to_pylist(), strict=True):
                place[position] = self.values.setdefault(plain_value(value), len(self.values))
        if max(len(occurring), len(self.values)) > self._most_values:
            self.values, self._joint = None, []
            return
        while len(self.values) > self._joint[0].shape[1]:
            self._joint = [np.concatenate([joint, np.zeros_like(joint)], axis=1) for joint in self._joint]
        for codes, joint in zip(of_keys, self._joint, strict=True):
            count_pairs(codes, chunk.codes, place, joint)

    def pairs(self) -> list[_Pairs]:
        assert self.values is not None
        values = pa.array(list(self.values), self._type)
        found = []
        for joint in self._joint:
            codes, places = np.nonzero(joint)
            found.append(_Pairs(codes, values.take(places), joint[codes, places]))
        return found
