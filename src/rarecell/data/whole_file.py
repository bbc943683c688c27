"""What stands in every column of a file, as codes in the order of what the values mean?

Looking at a whole file, and not only at its keys, needs every column once: to see which of them give a key away, how far their means
move, and what they are. Of a large file a sample of the records is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell.data.levels import MISSING_WORDS
from rarecell.engine.arrays import EncodedColumn, as_arrow, as_numpy, code_chunk, texts, unified
from rarecell.engine.source import Column, Source
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    from rarecell.data.microdata import Microdata

MOST_RECORDS = 200_000
"""Of a larger file, a sample of this many records is looked at."""

MOST_DRAWN = 50_000
"""Of records that stay with their engine, this many are drawn."""

MOST_PARTS = 16
"""Number of words of a text, or of digits of a code, that are looked at one by one."""

Integers = NDArray[np.int32] | NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OrderedColumn:
    """A column: the code of each record, in the order of the values; −1 for a missing value.

    ``numbers`` has the number that each value stands for, if it is a number or a date, and ``texts`` the words of the others.
    """

    name: str
    codes: Integers
    n_levels: int
    numbers: NDArray[np.float64] | None = None
    is_date: bool = False
    texts: pa.Array | None = None

    def at(self, records: NDArray[np.int64]) -> OrderedColumn:
        """The same for some of the records."""
        return replace(self, codes=self.codes[records])

    def parts(self) -> Iterator[OrderedColumn]:
        """Pieces of the values as columns: words and numbers of a text, or two digits at a time of codes of one length."""
        texts = self.texts
        if texts is None and self.numbers is not None and not self.is_date and _are_codes(self.numbers):
            texts = pc.cast(as_arrow(self.numbers.astype(np.int64)), pa.string())
            texts = pc.utf8_lpad(texts, width=pc.max(pc.utf8_length(texts)).as_py(), padding="0")
        if texts is None or not len(texts):
            return
        length = pc.utf8_length(texts)
        if pc.min(length).as_py() == pc.max(length).as_py() and length[0].as_py() <= MOST_PARTS:
            pieces = [pc.utf8_slice_codeunits(texts, start, start + 2) for start in range(length[0].as_py() - 1)]
        else:
            words = pc.split_pattern_regex(texts, r"[^\pL\pN]+")
            n_words = min(MOST_PARTS, pc.max(pc.list_value_length(words)).as_py())
            pieces = [pc.binary_join(pc.list_slice(words, k, k + 1), "") for k in range(n_words)]
        for piece in pieces:
            encoded = piece.dictionary_encode()
            of_value = np.append(as_numpy(encoded.indices).astype(np.int32), np.int32(-1))
            if 1 < len(encoded.dictionary) < 0.5 * len(texts):
                yield OrderedColumn(self.name, of_value[self.codes], len(encoded.dictionary))

    @property
    def values(self) -> NDArray[np.float64]:
        """The number of each record; NaN where there is none."""
        assert self.numbers is not None
        return np.asarray(np.append(self.numbers, np.nan)[self.codes])


def _are_codes(numbers: NDArray[np.float64]) -> bool:
    """Whether numbers could be put together from others: whole, not negative, with four digits or more."""
    if not len(numbers) or numbers.min() < 0 or not 1_000 <= numbers.max() < 1e16:
        return False
    return bool((numbers == np.rint(numbers)).all())


def ordered_codes(encoded: EncodedColumn, column: Column, *, decimal_mark: str = ".") -> OrderedColumn:
    """The codes of a column in the order of what its values mean: numbers, dates in any usual form, or words."""
    values = encoded.values
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    numbers = _numbers(values, column, decimal_mark)
    is_missing = as_numpy(pc.is_null(values)) if numbers is None else np.isnan(numbers)
    if column.user_missing:
        is_missing = is_missing | np.array([column.is_user_missing(value) for value in values.to_pylist()], dtype=bool)
    rank = np.full(len(values) + 1, -1, dtype=np.int32)
    there = np.flatnonzero(~is_missing)
    if numbers is not None:
        distinct, rank[there] = np.unique(numbers[there], return_inverse=True)
        is_date = column.kind == "date" or column.stored_date is not None or _is_date_text(values)
        return OrderedColumn(column.name, rank[encoded.codes], max(1, len(distinct)), distinct, is_date)
    order = as_numpy(pc.array_sort_indices(pc.cast(values, pa.string()).take(as_arrow(there))))
    rank[there[order]] = np.arange(len(there))
    texts_in_order = pc.cast(values, pa.string()).take(as_arrow(there[order]))
    return OrderedColumn(column.name, rank[encoded.codes], max(1, len(there)), texts=texts_in_order)


_NUMBER = r"^\s*-?(\d+\.?\d*|\.\d+)\s*$"
_DATES = (
    (re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})([ T].*)?"), (1, 2, 3)),
    (re.compile(r"(\d{1,2})[./](\d{1,2})[./](\d{4})"), (3, 2, 1)),
)
"""Dates as text, and where their year, month and day stand; of 3/4/2024 the order of the days of a month is not needed."""


def _numbers(values: pa.Array, column: Column, decimal_mark: str) -> NDArray[np.float64] | None:
    """What distinct values mean as numbers, NaN for missing ones; None if they are words."""
    if column.kind in ("integer", "number", "boolean"):
        return _floats(values)
    if column.kind == "date":
        return _floats(values.cast(pa.timestamp("us")).cast(pa.int64()))
    if pa.types.is_null(values.type):
        return np.full(len(values), np.nan)
    text = pc.cast(values, pa.string())
    # Arrow loads pandas by itself whenever it converts a value of Python, so there are none here.
    nothing = pa.nulls(1, pa.string())[0]
    text = pc.if_else(pc.equal(text, texts([""])[0]), nothing, text)
    # Among numbers, words that other programs write for "no value" mean that; among words they are words.
    plain = pc.if_else(pc.is_in(text, value_set=texts(sorted(MISSING_WORDS))), nothing, text)
    plain = pc.replace_substring(plain, decimal_mark, ".") if decimal_mark != "." else plain
    if pc.all(pc.match_substring_regex(plain, _NUMBER)).as_py() is not False:
        return _floats(pc.utf8_trim_whitespace(plain))
    listed = text.to_pylist()
    for pattern, (year, month, day) in _DATES:
        matches = [None if value is None else pattern.fullmatch(value.strip()) for value in listed]
        if all(match is not None for match, value in zip(matches, listed, strict=True) if value is not None):
            parts = [(np.nan,) * 3 if match is None else tuple(int(match[k]) for k in (year, month, day)) for match in matches]
            return np.array([372.0 * y + 31.0 * m + d for y, m, d in parts])
    return None


def _is_date_text(values: pa.Array) -> bool:
    """Whether text that has the order of numbers is dates: a part of a date is not a number by itself."""
    if not pa.types.is_string(values.type) and not pa.types.is_large_string(values.type):
        return False
    return bool(pc.any(pc.match_substring_regex(values, r"\d[-./]\d+[-./]\d")).as_py())


def _floats(values: pa.Array) -> NDArray[np.float64]:
    floats = values.cast(pa.float64(), safe=False)
    return np.array(as_numpy(pc.fill_null(floats, as_arrow(np.array([np.nan]))[0])), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class WholeFile:
    """Every column of some records of a file.

    Attributes
    ----------
    columns : mapping of str to OrderedColumn
        The columns as they stand in the file; lists and other things that cannot be compared are left out.
    rows : ndarray of int
        Positions of the records in ascending order, or, of a sample of a table that only counts them, their numbers there.
    cell : ndarray of int
        The cell of the keys of each of them; −1 for one that was dropped.
    is_complete : bool
        Whether these are all records of the file, by their positions.
    """

    columns: Mapping[str, OrderedColumn]
    rows: NDArray[np.int64]
    cell: NDArray[np.int64]
    is_complete: bool

    @classmethod
    def of(cls, data: Microdata, table: ContingencyTable) -> WholeFile:
        names = [name for name, column in data.columns.items() if column.kind != "other"]
        source = data.source
        rng = np.random.default_rng(0)
        if not table.knows_records and source.keeps_rows and data.n_records <= MOST_RECORDS:
            cell = np.concatenate([np.empty(0, dtype=np.int64), *data.record_cells(table)])
            return cls(read_columns(source, data.columns, names), np.arange(len(cell)), cell, True)
        if not table.knows_records:
            numbers = np.sort(rng.choice(table.n_records, min(table.n_records, MOST_DRAWN), replace=False))
            arrays = data.drawn_records(table, numbers, seed=0, columns=names)[1]
            columns = _of_arrays(arrays, data.columns, source.decimal_mark)
            return cls(columns, numbers, table.cell_of(numbers), False)
        n = table.n_rows
        rows = np.arange(n) if n <= MOST_RECORDS else np.sort(rng.choice(n, MOST_RECORDS, replace=False))
        columns = read_columns(source, data.columns, names, None if len(rows) == n else rows)
        return cls(columns, rows, table.cell_of(rows), len(rows) == n)


def read_columns(
    source: Source, columns: Mapping[str, Column], names: Sequence[str], rows: NDArray[np.int64] | None = None
) -> dict[str, OrderedColumn]:
    """Columns of all records, or of those in some rows, as codes in the order of their values."""
    if rows is not None:
        return _of_arrays(source.take(rows, names), columns, source.decimal_mark)
    encoded = source.encode(names).columns
    return {
        name: ordered_codes(column, columns[name], decimal_mark=source.decimal_mark)
        for name, column in zip(names, encoded, strict=True)
    }


def _of_arrays(arrays: Mapping[str, pa.Array], columns: Mapping[str, Column], decimal_mark: str) -> dict[str, OrderedColumn]:
    return {
        name: ordered_codes(unified([code_chunk(array)]), columns[name], decimal_mark=decimal_mark)
        for name, array in arrays.items()
    }
