"""A stream of records with some columns replaced by the codes of their values, and one made a column of weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell.engine.source import EncodedColumn


def recoded_batches(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    weight: str | None,
    recodes: Mapping[str, EncodedColumn],
    as_numbers: Callable[[pa.Array], NDArray[np.float64]],
) -> Iterator[pa.RecordBatch]:
    """Each batch in the types of ``schema``."""
    for batch in batches:
        arrays = []
        for field in schema:
            array = batch.column(field.name)
            if field.name == weight:
                arrays.append(pa.array(as_numbers(array), from_pandas=True))
            elif field.name in recodes:
                recode = recodes[field.name]
                position = pc.index_in(_decoded(array), recode.values.cast(_decoded(array).type))
                arrays.append(pa.array(recode.codes.astype(np.int32)).take(position))
            else:
                arrays.append(array if array.type == field.type else _decoded(array).cast(field.type))
        yield pa.record_batch(arrays, schema=schema)


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
