"""How many records has each combination of values, counted by the engine that holds the data?

The same few lines count in DuckDB, polars and Spark, through narwhals. Only the combinations come back, never records.
Sums of weights are taken in whole units of 2⁻²⁴, so that they do not depend on the order in which an engine adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.engine.source import EncodedColumn, GroupedCounts, dictionary_encoded, unified
from rarecell.errors import BadInput

WEIGHT_UNITS = 2**24
"""Weights are rounded to multiples of one over this number."""

LARGEST_WEIGHT = 1e11
"""More persons than ever lived cannot stand behind a record; it also keeps sums of weights within 64 bits."""


def rounded_weights(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights in the precision in which they are added."""
    return np.rint(weights * WEIGHT_UNITS) / WEIGHT_UNITS


def bad_weight(name: str, column: str, example: str, n_bad: int, what: str) -> BadInput:
    """Why a weight cannot be used. ``example`` is the one value that explains it."""
    many = f" ({n_bad:,} records have such a weight)" if n_bad > 1 else ""
    return BadInput(
        f"The weight column '{column}' of {name} has the value {example}{many}, which is {what}. A weight is the number of persons "
        "a record stands for, a number of 1 or more. Correct or drop these records; if the weights were scaled to a mean of 1, "
        "multiply them by the population over the number of records."
    )


def check_weights(name: str, column: str, smallest: float, n_unusable: int) -> None:
    """Refuse weights that are missing, infinite, or below 1."""
    if n_unusable:
        raise bad_weight(name, column, "missing or not a number", n_unusable, "no number of persons")
    if smallest < 1:
        raise bad_weight(name, column, f"{smallest:g}", 1, "negative" if smallest < 0 else "below 1")


def count_groups(frame: nw.LazyFrame[Any], columns: Sequence[str], weight: str | None, *, name: str) -> GroupedCounts:
    """Group a frame by ``columns``; ``weight`` is a column of numbers."""
    taken = frame.columns
    n, total, smallest, usable = _new_names(["n", "total", "smallest", "usable"], taken)
    wanted = [nw.len().alias(n)]
    if weight is not None:
        value = nw.col(weight).cast(nw.Float64)
        is_usable = value.is_finite() & (value.abs() < LARGEST_WEIGHT)
        units = nw.when(is_usable).then((value * WEIGHT_UNITS).round(0)).otherwise(0.0)
        wanted += [
            units.cast(nw.Int64).sum().alias(total),
            nw.when(is_usable).then(value).otherwise(1.0).min().alias(smallest),
            nw.when(is_usable).then(1).otherwise(0).sum().alias(usable),
        ]
    grouped = frame.group_by(list(columns)).agg(*wanted).collect("pyarrow").to_arrow()
    counts = grouped.column(n).to_numpy().astype(np.int64)
    sums = None
    if weight is not None:
        n_usable = sum(grouped.column(usable).to_pylist())
        check_weights(
            name, weight, min(grouped.column(smallest).to_pylist(), default=1.0), int(counts.sum()) - n_usable
        )
        sums = np.array(grouped.column(total).to_pylist(), dtype=np.float64) / WEIGHT_UNITS
    return GroupedCounts(tuple(_encoded(grouped.column(column)) for column in columns), counts, sums)


def _new_names(wanted: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Column names that no column has yet; engines differ in whether upper and lower case are the same."""
    folded = {name.casefold() for name in taken}
    found = []
    for name in wanted:
        while name.casefold() in folded:
            name += "_"
        found.append(name)
    return found


def _encoded(column: pa.ChunkedArray) -> EncodedColumn:
    return unified([dictionary_encoded(chunk) for chunk in column.chunks])
