"""How are the values of a column coded?

A column consists of its distinct values and one code per record, so that everything after reading works on small integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell._kernels.counting import count_values, recode
from rarecell.engine.arrow import as_arrow, as_numpy

if TYPE_CHECKING:
    from rarecell.edges import Array, Integers, Level

SMALL_RANGE = 4096
"""Whole numbers within a range this small are coded by their distance from the smallest."""


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """A column as codes: ``values[codes[r]]`` is the value of record r, which may be null.

    Codes use the shortest type that the number of values allows.
    """

    values: pa.Array
    codes: Array


class CodedChunk(NamedTuple):
    """Some records of a column as codes; listed values need not occur, and a null has the code after all values."""

    values: pa.Array
    codes: Array


@dataclass(frozen=True, eq=False)
class EncodedRecords:
    """Columns as codes, one per record in record order, and the weights of the records."""

    columns: tuple[EncodedColumn, ...]
    weights: NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class GroupedCounts:
    """Every combination of values that occurs, as one coded column per variable, with its number of records."""

    columns: tuple[EncodedColumn, ...]
    counts: NDArray[np.int64]
    weights: NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class KeyCells:
    """Cells as codes of their keys; ``lookups`` gives the code of each value of each key, −1 for a dropped value."""

    keys: tuple[str, ...]
    lookups: tuple[EncodedColumn, ...]
    cells: NDArray[np.int32]

    @cached_property
    def n_levels(self) -> tuple[int, ...]:
        """For each key, the number of codes in use, which is one more than the largest code."""
        return tuple(int(lookup.codes.max(initial=-1)) + 1 for lookup in self.lookups)

    @cached_property
    def code_of_raw(self) -> tuple[dict[Level, int], ...]:
        """For each key, the code of each value."""
        return tuple(code_by_value(lookup) for lookup in self.lookups)


class Pairs(NamedTuple):
    """Pairs of a key's level and a column's value that occur: key code, column value and number of records."""

    codes: NDArray[np.int64]
    values: pa.Array
    records: NDArray[np.int64]


def plain_value(value: Level) -> Any:
    """The value, with NaN made missing: NaN differs from itself and so cannot be looked up."""
    return None if value is None or value != value else value


def code_by_value(lookup: EncodedColumn) -> dict[Level, int]:
    """The code of each distinct value."""
    return {plain_value(value): int(code) for value, code in zip(lookup.values.to_pylist(), lookup.codes, strict=True)}


def code_chunk(array: pa.Array) -> CodedChunk:
    """Code some records of a column as distinct values and positions among them."""
    if pa.types.is_dictionary(array.type):
        return CodedChunk(array.dictionary, _positions(array))
    if pa.types.is_integer(array.type):
        bounds = pc.min_max(array)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is not None and high - low < SMALL_RANGE:
            # Codes such as ages and categories need no hashing: the distance from the smallest is the position.
            filled = array.fill_null(bounds["min"]) if array.null_count else array
            codes = np.subtract(as_numpy(filled), low, casting="unsafe").astype(np.uint16)
            if array.null_count:
                codes[as_numpy(array.is_null())] = high - low + 1
            return CodedChunk(as_arrow(np.arange(low, high + 1)).cast(array.type), codes)
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    encoded = array.dictionary_encode()
    return CodedChunk(encoded.dictionary, _positions(encoded))


def unified(chunks: Sequence[CodedChunk]) -> EncodedColumn:
    """One list of the values that occur in any chunk; records without a value share a code after all others."""
    n_records = sum(len(chunk.codes) for chunk in chunks)
    if not chunks or pa.types.is_null(chunks[0].values.type):
        return EncodedColumn(pa.nulls(min(n_records, 1)), np.zeros(n_records, dtype=np.uint16))
    # Arrow's unify_dictionaries is not used: it follows the indices below nulls, which may be anything.
    together = pa.concat_arrays([chunk.values for chunk in chunks]).dictionary_encode()
    values = together.dictionary
    null_code = len(values)
    numbers = np.zeros(null_code + 1, dtype=np.int64)
    code_of_value = _positions(together)
    new_codes, first = [], 0
    for chunk in chunks:
        new_code = np.append(code_of_value[first : first + len(chunk.values)], np.int32(null_code))
        in_chunk = np.zeros(len(new_code), dtype=np.int64)
        count_values(chunk.codes, in_chunk)
        np.add.at(numbers, new_code, in_chunk)
        new_codes.append(new_code)
        first += len(chunk.values)
    occurs = numbers > 0
    if occurs[null_code]:
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
    final: Integers = (np.cumsum(occurs) - 1).astype(np.uint16 if occurs.sum() <= 2**16 else np.int32)
    codes = np.empty(n_records, dtype=final.dtype)
    first = 0
    for chunk, new_code in zip(chunks, new_codes, strict=True):
        recode(chunk.codes, final[new_code], codes[first : first + len(chunk.codes)])
        first += len(chunk.codes)
    return EncodedColumn(values.filter(as_arrow(occurs[: len(values)])), codes)


def _positions(encoded: pa.Array) -> NDArray[np.int32]:
    """Position of each record's value among the values; a null has the position after the last."""
    after_the_last = as_arrow(np.array([len(encoded.dictionary)], dtype=np.int32))[0]
    return as_numpy(pc.fill_null(encoded.indices.cast(pa.int32()), after_the_last))
