"""How do numbers pass between NumPy and Arrow?

Arrow's own conversions load pandas wherever it is installed, which takes longer than reading a small file. Both libraries
store numbers alike, so that an array of the one can be made around the memory of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell._kernels.counting import count_values, recode
from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.edges import Array, Integers, Level


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


# Some types only store values in another way, and Arrow cannot code, take or compare values that are stored so. They are
# read as the plain type that holds the same values, and written as they were.


def in_plain_form(data: pa.RecordBatch | pa.Table) -> Any:
    """A batch or table whose values are stored one after another, in types whose records can be taken."""
    if all(plain_type(kept_as) == kept_as for kept_as in data.schema.types):
        return data
    schema = pa.schema([plain_field(field) for field in data.schema], metadata=data.schema.metadata)
    return type(data).from_arrays([plain_array(column) for column in data.columns], schema=schema)


def in_form_of(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table of :func:`in_plain_form` in the types that it had."""
    if table.schema == schema:
        return table
    return pa.Table.from_arrays(list(map(as_type, table.columns, schema.types)), schema=schema)


def plain_field(field: pa.Field) -> pa.Field:
    """A field as :func:`in_plain_form` gives it."""
    return field.with_type(plain_type(field.type))


def plain_type(kept_as: pa.DataType) -> pa.DataType:
    """The type in which :func:`in_plain_form` gives values of a type.

    Examples
    --------
    >>> plain_type(pa.string_view()), plain_type(pa.decimal32(5, 2)), plain_type(pa.int8())
    (DataType(string), Decimal128Type(decimal128(5, 2)), DataType(int8))
    """
    if pa.types.is_string_view(kept_as):
        return pa.string()
    if pa.types.is_binary_view(kept_as):
        return pa.binary()
    if pa.types.is_float16(kept_as):
        return pa.float32()
    if pa.types.is_decimal(kept_as) and kept_as.precision <= MOST_DIGITS_OF_DECIMAL128:
        return pa.decimal128(kept_as.precision, kept_as.scale)
    if pa.types.is_run_end_encoded(kept_as):
        return plain_type(kept_as.value_type)
    if pa.types.is_dictionary(kept_as) and plain_type(kept_as.value_type) != kept_as.value_type:
        return pa.dictionary(kept_as.index_type, plain_type(kept_as.value_type), kept_as.ordered)
    return kept_as


MOST_DIGITS_OF_DECIMAL128 = 38


def plain_array(array: pa.Array | pa.ChunkedArray) -> Any:
    """Values in the type of :func:`plain_type`."""
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    kept_as = plain_type(array.type)
    return array if array.type == kept_as else array.cast(kept_as)


def as_type(array: pa.Array | pa.ChunkedArray, target: pa.DataType) -> Any:
    """Values in another type, if they are not of that type already."""
    if array.type == target:
        return array
    if pa.types.is_run_end_encoded(target):
        return pc.run_end_encode(as_type(array, target.value_type), run_end_type=target.run_end_type)
    if pa.types.is_dictionary(array.type):
        if pa.types.is_dictionary(target):
            return array.cast(target)
        array = decoded(array)
    if pa.types.is_dictionary(target):
        array = array.cast(plain_type(target.value_type)).dictionary_encode()
    return array.cast(target)


def decoded(array: pa.Array | pa.ChunkedArray) -> Any:
    """Values without a dictionary, in plain form."""
    plain = plain_array(array)
    return plain.cast(plain.type.value_type) if pa.types.is_dictionary(plain.type) else plain


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


# What kind of values does a column hold?


Kind = Literal["untyped", "integer", "number", "text", "boolean", "date", "other"]


def kind_of(arrow_type: pa.DataType) -> Kind:
    """The kind of values that an Arrow type holds."""
    if pa.types.is_dictionary(arrow_type) or pa.types.is_run_end_encoded(arrow_type):
        return kind_of(arrow_type.value_type)
    if pa.types.is_boolean(arrow_type):
        return "boolean"
    if pa.types.is_integer(arrow_type):
        return "integer"
    if pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type):
        return "number"
    if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type) or pa.types.is_string_view(arrow_type):
        return "text"
    if pa.types.is_date(arrow_type) or pa.types.is_timestamp(arrow_type):
        return "date"
    # A column without any value has no type of its own; all of it is missing.
    return "text" if pa.types.is_null(arrow_type) else "other"


# How are the values of a column coded?
#
# A column consists of its distinct values and one code per record, so that everything after reading works on small integers.


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


class CountedPairs(NamedTuple):
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
    array = plain_array(array)
    if pa.types.is_dictionary(array.type):
        return CodedChunk(_in_universal_time(array.dictionary), _positions(array))
    if pa.types.is_integer(array.type):
        bounds = pc.min_max(array)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is not None and high - low < SMALL_RANGE:
            # Codes such as ages and categories need no hashing: the distance from the smallest is the position.
            filled = array.fill_null(bounds["min"]) if array.null_count else array
            numbers = as_numpy(filled)
            # Sums and distances are taken modulo the width of the numbers; a distance of eight bits would not fit into them.
            wide = numbers.astype(np.int16) if numbers.dtype == np.int8 else numbers
            codes = np.subtract(wide, low, casting="unsafe").astype(np.uint16)
            if array.null_count:
                codes[as_numpy(array.is_null())] = high - low + 1
            values = np.arange(high - low + 1).astype(numbers.dtype) + numbers.dtype.type(low)
            return CodedChunk(as_arrow(values), codes)
    encoded = _in_universal_time(array).dictionary_encode()
    return CodedChunk(encoded.dictionary, _positions(encoded))


def _in_universal_time(array: pa.Array) -> pa.Array:
    """Times with a zone in UTC: in local time an hour occurs twice when clocks are set back, and engines disagree about the zone."""
    is_zoned = pa.types.is_timestamp(array.type) and array.type.tz is not None
    return array.cast(pa.timestamp(array.type.unit, "UTC")) if is_zoned else array


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


# A stream of records in which some columns are replaced by the codes of their values, and one becomes the weights.


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
                position = pc.index_in(decoded(array), recode.values.cast(decoded(array).type))
                arrays.append(as_arrow(recode.codes.astype(np.int32)).take(position))
            else:
                arrays.append(array if array.type == field.type else decoded(array).cast(field.type))
        yield pa.record_batch(arrays, schema=schema)


def recoded_column(column: EncodedColumn, recode: EncodedColumn) -> EncodedColumn:
    """A column with its values replaced by their codes."""
    new_code = {value: int(code) for value, code in zip(recode.values.to_pylist(), recode.codes, strict=True)}
    of_value = np.array([new_code[value] for value in column.values.to_pylist()], dtype=np.int64)
    distinct, code_of_value = np.unique(of_value, return_inverse=True)
    return EncodedColumn(as_arrow(distinct), code_of_value.astype(np.int32)[column.codes])


# Is a column of numbers a column of survey weights?
#
# A weight is the number of persons that a record represents: a number of 1 or more. Weights are rounded to multiples of
# 2⁻²⁴, so that their sums are exact and do not depend on the order in which an engine adds them.


WEIGHT_UNITS = 2**24
"""Weights are rounded to multiples of one over this number."""

LARGEST_WEIGHT = 1e11
"""No record can represent more persons than ever lived; the limit also keeps sums of weights within 64 bits."""


def rounded_weights(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round weights to the precision in which they are added."""
    return np.asarray(np.rint(weights * WEIGHT_UNITS) / WEIGHT_UNITS, dtype=np.float64)


def bad_weight(name: str, column: str, has_what: str, n_bad: int = 1) -> BadInput:
    """The error for weights that cannot be used. ``has_what`` tells of the one value that explains it."""
    many = f" ({n_bad:,} records have a weight that cannot be used)" if n_bad > 1 else ""
    return BadInput(
        f"The weight column '{column}' of {name} has {has_what}{many}. A weight is the number of persons a record stands for, "
        "a number of 1 or more. Correct or drop these records; if the weights were scaled to a mean of 1, give the size of the "
        "population as well (--population N), to which they are then scaled up."
    )


LEAST_RELATIVE_WEIGHT = 2.0**-20
"""Weights that only say how much records count against each other may be this small."""


def check_weights(name: str, column: str, smallest: float, n_unusable: int, *, least: float = 1.0) -> None:
    """Refuse weights that are missing, infinite, or below the least one."""
    if n_unusable:
        raise bad_weight(name, column, "values that are missing or not numbers", n_unusable)
    if smallest < least:
        raise bad_weight(name, column, f"the value {smallest:g}, which is {_why_too_small(smallest, least)}")


def _why_too_small(weight: float, least: float) -> str:
    return "negative" if weight < 0 else "below 1" if least == 1.0 else "not above 0"


def check_record_weights(
    name: str, column: str, weights: NDArray[np.float64], value_at: Callable[[int], object], *, least: float = 1.0
) -> NDArray[np.float64]:
    """Check and round the weights of records; ``value_at`` gives what the data hold at a position."""
    # A comparison with NaN is False, so missing weights count as bad, too.
    is_bad = ~((weights >= least) & (weights < LARGEST_WEIGHT))
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        value, number = value_at(row), weights[row]
        what = (
            "not a number" if np.isnan(number)
            else _why_too_small(float(number), least) if number < least
            else "larger than any population"
        )  # fmt: skip
        at = f"in record {row + 1}"
        raise bad_weight(
            name, column, f"no value {at}" if value is None else f"the value '{value}' {at}, which is {what}", int(is_bad.sum())
        )
    return rounded_weights(weights)
