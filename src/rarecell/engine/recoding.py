"""A stream of records in which some columns are replaced by the codes of their values, and one becomes the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell.engine.arrow import as_arrow
from rarecell.engine.encoded import EncodedColumn


def recoded_batches(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    weight: str | None,
    recodes: Mapping[str, EncodedColumn],
    as_numbers: Callable[[pa.Array], NDArray[np.float64]],
) -> Iterator[pa.RecordBatch]:
    """Convert each batch to the types of ``schema``."""
    for batch in batches:
        arrays = []
        for field in schema:
            array = batch.column(field.name)
            if field.name == weight:
                arrays.append(pa.array(as_numbers(array), from_pandas=True))
            elif field.name in recodes:
                recode = recodes[field.name]
                position = pc.index_in(_decoded(array), recode.values.cast(_decoded(array).type))
                arrays.append(as_arrow(recode.codes.astype(np.int32)).take(position))
            else:
                arrays.append(array if array.type == field.type else _decoded(array).cast(field.type))
        yield pa.record_batch(arrays, schema=schema)


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def recoded_column(column: EncodedColumn, recode: EncodedColumn) -> EncodedColumn:
    """A column with its values replaced by their codes."""
    new_code = {value: int(code) for value, code in zip(recode.values.to_pylist(), recode.codes, strict=True)}
    of_value = np.array([new_code[value] for value in column.values.to_pylist()], dtype=np.int64)
    distinct, code_of_value = np.unique(of_value, return_inverse=True)
    return EncodedColumn(as_arrow(distinct), code_of_value.astype(np.int32)[column.codes])
