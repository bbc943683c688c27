"""How are new values put into a piece of the data without changing its types or showing where they were put?

A dictionary lists the values of a column apart from the records. A dictionary in order of first occurrence, or one that
lists only what occurs in its piece, would show where values came from, so it is replaced by a sorted list. A dictionary
that was declared, the same for all pieces, stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell.engine.arrays import as_arrow

if TYPE_CHECKING:
    from rarecell.edges import Columns, Level


DictionaryForms = Mapping[str, pa.Array | None]
"""The dictionary that every piece of a column gets; None means the values of each piece in sorted order."""


def dictionary_forms(pieces: Iterable[pa.Table], columns: Sequence[str]) -> DictionaryForms:
    """The dictionaries of the columns that have them, decided over all pieces of the data."""
    known: dict[str, pa.Array] = {}
    met: dict[str, list[Level]] = {}
    is_shared: dict[str, bool] = {}
    ordered: set[str] = set()
    for piece in pieces:
        for name in (name for name in columns if name in piece.column_names):
            kept_as = piece.schema.field(name).type
            if not pa.types.is_dictionary(kept_as):
                continue
            if kept_as.ordered:
                ordered.add(name)
            for chunk in piece.column(name).chunks:
                before = known.setdefault(name, chunk.dictionary)
                met.setdefault(name, [])
                is_shared[name] = is_shared.get(name, True) and before.equals(chunk.dictionary)
                known[name] = before if before.equals(chunk.dictionary) else _joined(before, chunk.dictionary)
                seen = set(met[name])
                met[name] += [value for value in chunk.unique().dictionary_decode().to_pylist() if value not in seen]
    forms: dict[str, pa.Array | None] = {}
    for name, values in known.items():
        used = [value for value in met[name] if value is not None]
        follows_records = [value for value in values.to_pylist() if value in set(used)] == used
        if name in ordered or (is_shared[name] and not follows_records):
            forms[name] = values
        else:
            forms[name] = _sorted(values) if is_shared[name] else None
    return forms


def _joined(values: pa.Array, more: pa.Array) -> pa.Array:
    return pa.concat_arrays([values, more]).unique()


def _sorted(values: pa.Array) -> pa.Array:
    distinct = values.unique().drop_null()
    return distinct.take(pc.sort_indices(distinct))


def replaced_table(
    table: pa.Table,
    first: int,
    rows: NDArray[np.int64],
    columns: Columns,
    forms: DictionaryForms | None = None,
    *,
    remakes_all: bool = True,
) -> pa.Table:
    """A piece of the data that begins at record ``first``, with new values for those ``rows`` that lie in it.

    Columns with new values anywhere are rebuilt in every piece, so that pieces without new values look no different.
    Without ``remakes_all`` they are not rebuilt; this suits formats that store values only.
    """
    if forms is None:
        forms = dictionary_forms([table], list(columns))
    wanted = np.asarray(rows, dtype=np.int64)
    inside = np.flatnonzero((wanted >= first) & (wanted < first + table.num_rows))
    for name, values in columns.items():
        position = table.schema.get_field_index(name)
        field = table.schema.field(position)
        if not len(inside) and not remakes_all and not pa.types.is_dictionary(field.type):
            continue
        new = as_arrow(values).take(as_arrow(inside))
        plain = _replaced_array(_decoded(table.column(position)), wanted[inside] - first, new)
        if pa.types.is_dictionary(field.type):
            dictionary = forms[name]
            array = _encoded(plain, _sorted(plain) if dictionary is None else dictionary, field.type)
        else:
            array = as_type(plain, field.type)
        table = table.set_column(position, field, array)
    return table


def _decoded(column: pa.ChunkedArray) -> pa.Array:
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return plain.combine_chunks()


def _encoded(plain: pa.Array, dictionary: pa.Array, kept_as: pa.DictionaryType) -> pa.Array:
    indices = pc.index_in(plain, value_set=dictionary.cast(plain.type)).cast(kept_as.index_type)
    return pa.DictionaryArray.from_arrays(indices, dictionary.cast(kept_as.value_type), ordered=kept_as.ordered)


def _replaced_array(plain: pa.Array, positions: NDArray[np.int64], new: pa.Array) -> pa.Array:
    choice = np.arange(len(plain))
    choice[positions] = len(plain) + np.arange(len(new))
    return pa.concat_arrays([plain, as_type(new, plain.type)]).take(as_arrow(choice))


def as_type(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert the array to another type if necessary."""
    if array.type == wanted:
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_dictionary(wanted):
        array = array.cast(wanted.value_type).dictionary_encode()
    return array.cast(wanted)
