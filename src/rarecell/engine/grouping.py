"""How many records has each combination of values, as counted by the engine that holds the data?

The same few lines count in DuckDB, polars and Spark, through narwhals. Only the combinations are returned, never records.
"""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa

from rarecell.engine.encoded import EncodedColumn, GroupedCounts, code_chunk, unified
from rarecell.engine.weights import LARGEST_WEIGHT, WEIGHT_UNITS, check_weights


def new_names(n_names: int, kind: str = "value") -> list[str]:
    """Names that no user's column has and that every engine takes as plain names."""
    return [f"__rarecell_{kind}_{number}" for number in range(n_names)]


def count_groups(frame: nw.LazyFrame[Any], n_columns: int, *, weight: str | None, name: str) -> GroupedCounts:
    """Group a frame by its first ``n_columns`` columns.

    The columns are named by :func:`new_names`, because engines give dots and asterisks in names a special meaning. The
    weight column, if any, follows the grouped ones. ``weight`` and ``name`` are the user's words for the weights and the data.
    """
    names = new_names(n_columns + 1)
    n, total, smallest, usable = new_names(4, "sum")
    wanted = [nw.len().alias(n)]
    if weight is not None:
        value = nw.col(names[-1]).cast(nw.Float64)
        is_usable = value.is_finite() & (value.abs() < LARGEST_WEIGHT)
        units = nw.when(is_usable).then((value * WEIGHT_UNITS).round(0)).otherwise(0.0)
        wanted += [
            units.cast(nw.Int64).sum().alias(total),
            nw.when(is_usable).then(value).otherwise(1.0).min().alias(smallest),
            nw.when(is_usable).then(1).otherwise(0).sum().alias(usable),
        ]
    grouped = frame.group_by(names[:-1]).agg(*wanted).collect("pyarrow").to_arrow()
    counts = grouped.column(n).to_numpy().astype(np.int64)
    sums = None
    if weight is not None:
        n_usable = sum(grouped.column(usable).to_pylist())
        check_weights(name, weight, min(grouped.column(smallest).to_pylist(), default=1.0), int(counts.sum()) - n_usable)
        sums = np.array(grouped.column(total).to_pylist(), dtype=np.float64) / WEIGHT_UNITS
    return GroupedCounts(tuple(_encoded(grouped.column(column)) for column in names[:-1]), counts, sums)


def _encoded(column: pa.ChunkedArray) -> EncodedColumn:
    return unified([code_chunk(chunk) for chunk in column.chunks])
