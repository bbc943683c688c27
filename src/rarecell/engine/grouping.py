"""How many records has each combination of values, counted by the engine that holds the data?

The same few lines count in DuckDB, polars and Spark, through narwhals. Only the combinations come back, never records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa

from rarecell.engine.source import EncodedColumn, GroupedCounts, code_chunk, unified
from rarecell.engine.weights import LARGEST_WEIGHT, WEIGHT_UNITS, check_weights


def count_groups(
    frame: nw.LazyFrame[Any],
    columns: Sequence[str],
    weight: str | None,
    *,
    name: str,
    weight_name: str | None = None,
) -> GroupedCounts:
    """Group a frame by ``columns``; ``weight`` is a column of numbers. ``name`` and ``weight_name`` are for messages."""
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
            name,
            weight_name or weight,
            min(grouped.column(smallest).to_pylist(), default=1.0),
            int(counts.sum()) - n_usable,
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
    return unified([code_chunk(chunk) for chunk in column.chunks])
