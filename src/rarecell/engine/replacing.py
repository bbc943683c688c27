"""How are new values put into a piece of the data without changing its types?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def replaced_table(table: pa.Table, first: int, rows: NDArray[np.int64], columns: Mapping[str, Any]) -> pa.Table:
    """A piece of the data that begins at record ``first``, with the new values of those ``rows`` that lie in it."""
    wanted = np.asarray(rows, dtype=np.int64)
    inside = np.flatnonzero((wanted >= first) & (wanted < first + table.num_rows))
    if not len(inside):
        return table
    for name, values in columns.items():
        position = table.schema.get_field_index(name)
        field = table.schema.field(position)
        new = pa.array(values).take(pa.array(inside))
        array = _replaced_array(table.column(position), wanted[inside] - first, new)
        table = table.set_column(position, field, as_type(array, field.type))
    return table


def _replaced_array(column: pa.ChunkedArray, positions: NDArray[np.int64], new: pa.Array) -> pa.Array:
    plain = column.combine_chunks()
    if pa.types.is_dictionary(plain.type):
        # Keep the values and their order; a value that another part of the file brought comes last.
        known, new = plain.dictionary, as_type(new, plain.type.value_type)
        values = pa.concat_arrays([known, new.filter(pc.and_(pc.is_valid(new), pc.invert(pc.is_in(new, known)))).unique()])
        indices = plain.indices.cast(pa.int64())
        changed = _replaced_array(pa.chunked_array([indices]), positions, pc.index_in(new, values).cast(pa.int64()))
        return pa.DictionaryArray.from_arrays(changed.cast(plain.type.index_type), values, ordered=plain.type.ordered)
    choice = np.arange(len(plain))
    choice[positions] = len(plain) + np.arange(len(new))
    return pa.concat_arrays([plain, as_type(new, plain.type)]).take(pa.array(choice))


def as_type(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The array in another type, when it is in another."""
    if array.type == wanted:
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_dictionary(wanted):
        array = array.cast(wanted.value_type).dictionary_encode()
    return array.cast(wanted)
