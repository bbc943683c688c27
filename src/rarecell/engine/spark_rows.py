"""How does a run look at single records that are spread over many machines?

Records have no position in Spark. Where a run needs one, they are numbered in the order of their ids. Each column that
the run asks for reaches the driver as one array in this order; all other columns stay where they are. Random draws
depend on the ids, so the same seed gives the same result as on a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell.engine.grouping import new_names
from rarecell.engine.source import BATCH_ROWS
from rarecell.engine.spark import SparkSource
from rarecell.engine.spark_joins import quoted, sent, spark_table
from rarecell.engine.spark_session import spark_job
from rarecell.errors import BadInput


class NumberedSpark(SparkSource):
    """A Spark frame whose records are numbered in the order of their ids.

    Parameters
    ----------
    source : SparkSource
        The frame.
    id_column : str, optional
        The column that identifies each record; whole numbers or text, different in each record.
    """

    keeps_rows = True

    def __init__(self, source: SparkSource, id_column: str | None) -> None:
        super().__init__(nw.from_native(source.native), most_cells=source.most_cells)
        self.name = source.name
        self.id_column = id_column

    @cached_property
    def ids(self) -> pa.Array:
        """The id of each record, in order."""
        found = self._in_order([])[0]
        name = self.usable_id(self.id_column)
        if found.null_count:
            raise BadInput(f"The id column '{name}' of {self.name} has missing values; each record needs an id.")
        if len(found) > 1 and pc.any(pc.equal(found[1:], found[:-1])).as_py():
            raise BadInput(f"The id column '{name}' of {self.name} has a value twice; each record needs another id.")
        return found

    def places(self, rows: NDArray[np.int64]) -> pa.Array:
        return self.ids.take(pa.array(rows))

    def rows_at(self, places: Any) -> NDArray[np.int64]:
        return np.asarray(pc.index_in(places, value_set=self.ids).to_numpy(zero_copy_only=False), dtype=np.int64)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        ids, *found = self._in_order(columns)
        if not ids.equals(self.ids):
            raise self._changed()
        yield from pa.table(found, names=[str(k) for k in range(len(found))]).to_batches(BATCH_ROWS)

    @spark_job("bringing columns of the records to the driver")
    def _in_order(self, columns: Sequence[str]) -> list[pa.Array]:
        """The ids and some columns of all records."""
        from pyspark.sql import functions

        names = [self.usable_id(self.id_column), *columns]
        chosen = [functions.col(quoted(old)).alias(new) for old, new in zip(names, new_names(len(names)), strict=True)]
        found = self.native.select(*chosen).orderBy(new_names(len(names))[0]).toArrow()
        return [column.combine_chunks() for column in found.columns]

    @spark_job("looking up records")
    def take(self, rows: NDArray[np.int64], columns: Sequence[str]) -> dict[str, pa.Array]:
        from pyspark.sql import functions

        wanted, back = np.unique(np.asarray(rows, dtype=np.int64), return_inverse=True)
        if not len(wanted):
            return {name: pa.nulls(0) for name in columns}
        native, (number, position) = self.native, new_names(2, "wanted")
        small = spark_table(native, {number: self.places(wanted), position: np.arange(len(wanted))})
        joined = native.join(sent(small, len(wanted)), native[quoted(self.usable_id(self.id_column))] == small[number])
        renamed = [functions.col(quoted(column)).alias(f"{k}") for k, column in enumerate(columns)]
        found = joined.select(position, *renamed).sort(position).toArrow()
        if not np.array_equal(found.column(0).to_numpy(), np.arange(len(wanted))):
            raise self._changed()
        in_order = found.take(pa.array(back))
        return {name: in_order.column(1 + k).combine_chunks() for k, name in enumerate(columns)}

    def _changed(self) -> BadInput:
        return BadInput(f"The records of {self.name} changed while they were read. Cache it, and run again.")
