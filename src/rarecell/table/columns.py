"""What is known of a column that is no key: a value for each record, or its counts against the keys?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.edges import Level


class CodedColumn(NamedTuple):
    """A column as codes: ``levels[codes[r]]`` is the value of record r; missing values have the last level, None."""

    codes: NDArray[np.int32]
    levels: tuple[Level, ...]


ColumnValues = ArrayLike | CodedColumn
"""A column outside the keys: a value for each record, or its codes."""


class CrossedColumn(NamedTuple):
    """A column outside the keys, counted against some of them.

    ``levels`` holds the values of the column in the order of their codes, ``joint`` the number of records for each pair of
    levels, key by key, and ``of_rows`` the column's code in each of the requested records.
    """

    levels: Sequence[Level]
    joint: Mapping[str, NDArray[np.int64]]
    of_rows: NDArray[np.int32]


def code_column(name: str, values: ColumnValues, n_records: int) -> CodedColumn:
    """Return the codes of a column of any type and the values they stand for; missing values form the last level."""
    if isinstance(values, CodedColumn):
        if len(values.codes) != n_records:
            raise BadInput(f"Column '{name}' was given for {len(values.codes):,} records; the file has {n_records:,}.")
        return values
    given = np.asarray(values)
    if given.shape != (n_records,):
        raise BadInput(f"Column '{name}' was given with the shape {given.shape}; the file has {n_records:,} records.")
    if given.dtype != object:
        distinct, codes = np.unique(given, return_inverse=True)
        is_missing = distinct != distinct if distinct.dtype.kind in "fc" else np.zeros(len(distinct), dtype=bool)
        levels = tuple(None if gone else level for level, gone in zip(distinct.tolist(), is_missing, strict=True))
        return CodedColumn(codes.astype(np.int32), levels)
    known: dict[Level, int] = {}
    first = np.array([known.setdefault(None if value != value else value, len(known)) for value in given.tolist()])
    ordered = sorted(known, key=lambda level: (level is None, type(level).__name__, str(level)))
    rank = np.empty(len(known), dtype=np.int32)
    rank[[known[level] for level in ordered]] = np.arange(len(ordered))
    return CodedColumn(rank[first], tuple(ordered))
