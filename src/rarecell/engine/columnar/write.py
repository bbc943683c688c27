"""How are new values put into a piece of the data without changing its types or showing where they were put?

A dictionary lists the values of a column apart from the records. A dictionary in order of first occurrence, or one that
lists only what occurs in its piece, would show where values came from, so it is replaced by a sorted list. A dictionary
that was declared, the same for all pieces, stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
from numpy.typing import NDArray

from rarecell.engine.arrays import as_arrow, as_type, decoded, in_form_of, in_plain_form, plain_array, plain_type
from rarecell.engine.changes import Changes, one_array
from rarecell.engine.output import temporary_folder
from rarecell.machine.disk import new_private_file

if TYPE_CHECKING:
    from rarecell.edges import Level
    from rarecell.engine.changes import ColumnChanges


ROWS_IN_ORDER = 1 << 20
"""Number of records that are put into a new order in memory."""

_TARGET = "\0target"
_DESCRIPTIONS = (b"pandas", b"org.apache.spark.sql.parquet.row.metadata", b"org.apache.spark.version", b"geo")

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
            for chunk in plain_array(piece.column(name)).chunks:
                before = known.setdefault(name, chunk.dictionary)
                met.setdefault(name, [])
                is_same = _are_same(before, chunk.dictionary)
                is_shared[name] = is_shared.get(name, True) and is_same
                known[name] = before if is_same else _joined(before, chunk.dictionary)
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


def _are_same(values: pa.Array, others: pa.Array) -> bool:
    """Whether two dictionaries are equal, with NaN equal to itself."""
    if not pa.types.is_floating(values.type):
        return bool(values.equals(others))
    return len(values) == len(others) and pc.index_in(values, value_set=others).equals(pc.index_in(others, value_set=others))


def _joined(values: pa.Array, more: pa.Array) -> pa.Array:
    return pa.concat_arrays([values, more]).unique()


def _sorted(values: pa.Array) -> pa.Array:
    distinct = values.unique().drop_null()
    return distinct.take(pc.sort_indices(distinct))


def changed_schema(schema: pa.Schema, changes: Changes) -> pa.Schema:
    """The columns of a file once they are changed."""
    fields = [_changed_field(field, changes) for field in schema if field.name not in changes.dropped]
    # Other programs keep descriptions of the columns in metadata of their own, which would contradict the new ones.
    describes_others = changes.recodes or changes.treated or changes.dropped
    metadata = {
        name: value for name, value in (schema.metadata or {}).items() if not (describes_others and name in _DESCRIPTIONS)
    }
    return pa.schema(fields, metadata=metadata or None)


def _changed_field(field: pa.Field, changes: Changes) -> pa.Field:
    change = changes.columns.get(field.name)
    if change is None:
        return field
    if change.treated is not None:
        return field.with_type(_type_of_treated(field.type, change.treated)).with_nullable(True)
    if change.is_recoded:
        assert change.written is not None
        kept_as = pa.dictionary(pa.int32(), pa.string(), ordered=change.written.is_ordered)
        return pa.field(field.name, kept_as, metadata=field.metadata)
    return field.with_nullable(True) if change.written is not None or len(change.blanks) else field


def _type_of_treated(kept_as: pa.DataType, treated: pa.Array) -> pa.DataType:
    """The type of the column if it holds all the new values, and otherwise that of the values."""
    value_type = kept_as.value_type if pa.types.is_dictionary(kept_as) else kept_as
    plain = decoded(treated)
    is_text = [pa.types.is_string(each) or pa.types.is_large_string(each) for each in (value_type, plain.type)]
    try:
        if is_text[0] == is_text[1] and plain.cast(value_type).cast(plain.type).equals(plain):
            return kept_as
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    return plain.type


def changed_table(table: pa.Table, first: int, changes: Changes, forms: DictionaryForms | None = None) -> pa.Table:
    """A piece of the data that begins at record ``first``, with all changes but that of the order.

    Columns with new values anywhere are rebuilt in every piece, so that pieces without new values look no different.
    """
    if forms is None:
        forms = dictionary_forms([table], changed_in_place(changes))
    schema = changed_schema(table.schema, changes)
    columns = []
    for field in schema:
        column, change = table.column(field.name), changes.columns.get(field.name)
        columns.append(column if change is None else _changed_array(column, field, first, change, forms))
    return pa.Table.from_arrays(columns, schema=schema)


def changed_in_place(changes: Changes) -> list[str]:
    """The columns that keep their type and the values that are not changed."""
    return [name for name, change in changes.columns.items() if change.treated is None and not change.is_recoded]


def _changed_array(
    column: pa.ChunkedArray, field: pa.Field, first: int, change: ColumnChanges, forms: DictionaryForms
) -> pa.Array:
    n_rows = len(column)
    if change.treated is not None:
        treated = change.treated.slice(first, n_rows)
        plain = decoded(treated)
        if pa.types.is_dictionary(field.type):
            plain_kind = plain_type(field.type.value_type)
            return _encoded(plain.cast(plain_kind), _sorted(change.treated.cast(plain_kind)), field.type)
        return as_type(plain, field.type)
    plain = one_array(decoded(column))
    rows, values = change.new_values(first, n_rows)
    plain = with_values(plain, rows, values)
    if change.is_recoded:
        assert change.written is not None
        return change.written.texts(change.levels_of(plain, first))
    is_missing = np.zeros(n_rows, dtype=bool)
    if change.written is not None:
        is_missing = change.written.levels_of(plain) < 0
    is_missing[change.blank_rows(first, n_rows)] = True
    if is_missing.any():
        plain = plain.take(as_arrow(np.arange(n_rows), is_null=is_missing))
    if pa.types.is_dictionary(field.type):
        dictionary = forms[field.name]
        return _encoded(plain, _sorted(plain) if dictionary is None else dictionary, field.type)
    return as_type(plain, field.type)


def _encoded(plain: pa.Array, dictionary: pa.Array, kept_as: pa.DictionaryType) -> pa.Array:
    indices = pc.index_in(plain, value_set=dictionary.cast(plain.type)).cast(kept_as.index_type)
    return pa.DictionaryArray.from_arrays(indices, dictionary.cast(kept_as.value_type), ordered=kept_as.ordered)


def with_values(array: pa.Array, positions: NDArray[np.int64], new: pa.Array | None) -> pa.Array:
    """An array with new values at some positions."""
    plain = decoded(array)
    if new is None or not len(positions):
        return plain
    choice = np.arange(len(plain))
    choice[positions] = len(plain) + np.arange(len(new))
    return pa.concat_arrays([plain, as_type(new, plain.type)]).take(as_arrow(choice))


def reordered(tables: Iterable[pa.Table], order: NDArray[np.int64], beside: Path, sizes: Sequence[int]) -> Iterator[pa.Table]:
    """The records of some tables in a new order, as tables of the given sizes.

    Tables that do not fit together into memory go through private files ``beside`` the one that is written: each record into
    the file of its part of the new order, and each file, one after another, into its order.
    """
    target = np.empty(len(order), dtype=np.int64)
    target[order] = np.arange(len(order))
    schemas: list[pa.Schema] = []

    def plain() -> Iterator[pa.Table]:
        for table in tables:
            schemas.append(table.schema)
            yield in_plain_form(table)

    with temporary_folder(beside) as folder:
        for table in _cut(_in_order(plain(), target, folder), sizes):
            yield in_form_of(table, schemas[0])


def _in_order(tables: Iterator[pa.Table], target: NDArray[np.int64], folder: Path) -> Iterator[pa.Table]:
    if len(target) <= ROWS_IN_ORDER:
        whole = list(tables)
        if whole:
            yield pa.concat_tables(whole).take(as_arrow(np.argsort(target)))
        return
    writers: dict[int, Any] = {}
    first = 0
    for table in tables:
        of_rows = target[first : first + table.num_rows]
        numbered = table.append_column(_TARGET, as_arrow(of_rows))
        for bucket in np.unique(of_rows // ROWS_IN_ORDER).tolist():
            chosen = numbered.take(as_arrow(np.flatnonzero(of_rows // ROWS_IN_ORDER == bucket)))
            if bucket not in writers:
                writers[bucket] = pa.ipc.new_stream(str(new_private_file(folder / f"order-{bucket}")), chosen.schema)
            writers[bucket].write_table(chosen)
        first += table.num_rows
    for writer in writers.values():
        writer.close()
    for bucket in sorted(writers):
        path = folder / f"order-{bucket}"
        with pa.OSFile(str(path)) as stream:
            together = pa.ipc.open_stream(stream).read_all()
        path.unlink()
        yield together.take(pc.sort_indices(together.column(_TARGET))).drop_columns([_TARGET])


def _cut(tables: Iterable[pa.Table], sizes: Sequence[int]) -> Iterator[pa.Table]:
    """The same records in tables of the given sizes."""
    waiting: list[pa.Table] = []
    sizes_left = list(sizes)
    for table in tables:
        waiting.append(table)
        while sizes_left and sum(part.num_rows for part in waiting) >= sizes_left[0]:
            whole = pa.concat_tables(waiting)
            size = sizes_left.pop(0)
            yield whole.slice(0, size).combine_chunks()
            waiting = [whole.slice(size)]
