"""How do numbers pass between NumPy and Arrow?

Arrow's own conversions load pandas wherever it is installed, which takes longer than reading a small file. Both libraries
store numbers alike, so that an array of the one can be made around the memory of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rarecell.edges import Array

_NUMBERS = "iuf"
"""Kinds of NumPy's types that Arrow stores in the same way."""


def as_arrow(values: Any, *, is_null: NDArray[np.bool_] | None = None) -> pa.Array:
    """An Arrow array of the values of a NumPy array, which it shares where it can, or of a list; an Arrow array stays as it is.

    Examples
    --------
    >>> as_arrow(np.array([3, 5]), is_null=np.array([False, True])).to_pylist()
    [3, None]
    """
    if isinstance(values, pa.Array | pa.ChunkedArray) and is_null is None:
        return values
    if isinstance(values, list) and is_null is None:
        kinds = set(map(type, values))
        if kinds == {str}:
            return texts(values)
        if kinds in ({int}, {float}):
            values = np.array(values)
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in _NUMBERS + "b":
        return pa.array(values, mask=is_null)
    valid = None if is_null is None else _bits(~is_null)
    if values.dtype.kind == "b":
        return pa.Array.from_buffers(pa.bool_(), len(values), [valid, _bits(values)])
    plain = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    return pa.Array.from_buffers(pa.from_numpy_dtype(plain.dtype), len(plain), [valid, pa.py_buffer(plain)])


def texts(values: Sequence[str]) -> pa.Array:
    """An Arrow array of texts.

    Examples
    --------
    >>> texts(["a", "", "é"]).to_pylist()
    ['a', '', 'é']
    """
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    of_long = pa.Array.from_buffers(pa.large_string(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))])
    return of_long.cast(pa.string())


def as_numpy(array: pa.Array | pa.ChunkedArray) -> Array:
    """The numbers or truth values of an Arrow array, whose memory the result shares where it can.

    Examples
    --------
    >>> as_numpy(pa.array([True, False, True])[1:]).tolist()
    [False, True]
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # the first releases of pyarrow keep chunks
            return np.asarray(array.to_numpy())
    is_plain = pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_boolean(array.type)
    if not is_plain or array.null_count:
        return np.asarray(array.to_numpy(zero_copy_only=False))
    start, stop = array.offset, array.offset + len(array)
    memory = array.buffers()[1] or b""
    if pa.types.is_boolean(array.type):
        return np.unpackbits(np.frombuffer(memory, dtype=np.uint8), count=stop, bitorder="little")[start:].astype(np.bool_)
    return np.frombuffer(memory, dtype=array.type.to_pandas_dtype(), count=stop)[start:]


def _bits(truths: NDArray[np.bool_]) -> pa.Buffer:
    """Truth values as Arrow stores them, eight in a byte."""
    return pa.py_buffer(np.packbits(truths, bitorder="little"))
