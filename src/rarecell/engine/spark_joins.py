"""How are small tables sent to Spark and joined with the records there?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.engine.grouping import new_names
from rarecell.engine.source import EncodedColumn

ProductColumns = Callable[[Any, int, Any, Any], Iterable[tuple[str, Any]]]
"""Names and Spark columns, in their order; a column may use those before it."""

MOST_CELLS = 50_000_000
"""More occupied cells than this are not brought to the driver."""

MOST_BROADCAST = 1_000_000
"""Tables of up to this many rows are sent to every machine; larger ones are joined by a shuffle."""


def recoded(native: Any, name: str, recode: EncodedColumn) -> Any:
    """The frame with the values of a column replaced by their codes."""
    value, code = new_names(2, "recoded")
    small = spark_table(native, {value: recode.values, code: recode.codes.astype(np.int32)})
    joined = looked_up(native, name, small, value)
    kept = [small[code].alias(name) if column == name else native[quoted(column)] for column in native.columns]
    return joined.select(*kept)


def looked_up(native: Any, column: str, small: Any, value: str) -> Any:
    """A small table joined by the value of a column; a missing value is a value."""
    from pyspark.sql import functions

    return native.join(functions.broadcast(small), native[quoted(column)].eqNullSafe(small[value]), "left")


def joined(coded: Any, small: Any, n_rows: int, codes: Sequence[str], how: str) -> Any:
    return coded.join(sent(small, n_rows), list(codes), how)


def sent(small: Any, n_rows: int) -> Any:
    from pyspark.sql import functions

    return functions.broadcast(small) if n_rows <= MOST_BROADCAST else small


def code_columns(cells: NDArray[np.int32]) -> dict[str, NDArray[np.int32]]:
    return {name: np.ascontiguousarray(cells[:, k]) for k, name in enumerate(new_names(cells.shape[1], "code"))}


def spark_table(native: Any, columns: Mapping[str, Any]) -> Any:
    return native.sparkSession.createDataFrame(pa.table({name: pa.array(values) for name, values in columns.items()}))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
