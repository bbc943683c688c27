"""How are data counted and joined that live on many machines?

Counting runs as a Spark job and only combinations of values come to the driver; what is computed for each cell goes back
as a broadcast join. Records have no position in Spark, so a record is named by the value of its id column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import pyarrow as pa

from rarecell.engine.frames import FrameSource
from rarecell.engine.grouping import count_groups
from rarecell.engine.source import EncodedColumn, GroupedCounts
from rarecell.errors import BadInput, TooLarge

MOST_CELLS = 50_000_000
"""More occupied cells than this are not brought to the driver."""


class SparkSource(FrameSource):
    """A Spark data frame."""

    keeps_rows = False

    def __init__(self, frame: nw.LazyFrame[Any], *, most_cells: int = MOST_CELLS) -> None:
        super().__init__(frame)
        self.name = "the Spark frame"
        self.most_cells = most_cells

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        raise BadInput(
            "The records of a Spark frame stay on its machines and have no order. Ask for counts, join results to the frame by its keys, "
            "or write the frame to Parquet to work on it record by record."
        )

    def counts(
        self, columns: Sequence[str], *, weight: str | None = None, recodes: Mapping[str, EncodedColumn] | None = None
    ) -> GroupedCounts:
        if weight is not None and self._kind(weight) not in ("integer", "number"):
            raise BadInput(f"The weight column '{weight}' of {self.name} is not a column of numbers. Cast it to double first.")
        native = self.frame.to_native()
        for name, recode in (recodes or {}).items():
            native = _recoded(native, name, recode)
        self._refuse_too_many(native, columns)
        return count_groups(nw.from_native(native), columns, weight, name=self.name)

    def _refuse_too_many(self, native: Any, columns: Sequence[str]) -> None:
        from pyspark.sql import functions

        # A struct with nulls in it counts as one value; approx_count_distinct passes over nulls on their own.
        together = functions.struct(*(functions.col(_quoted(name)) for name in columns))
        n_cells = native.agg(functions.approx_count_distinct(together)).collect()[0][0]
        if n_cells > self.most_cells:
            raise TooLarge(
                f"The keys {', '.join(columns)} have about {n_cells:,} different combinations, more than the {self.most_cells:,} that are "
                "brought to one machine. Use coarser keys, for example with bins, or fewer of them."
            )

    # ------------------------------------------------------------------ going back

    def with_cell_values(self, keys: Sequence[str], cells: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
        """The Spark frame with further columns that depend on the keys alone.

        Parameters
        ----------
        keys : key columns
        cells : for each key its value in each cell, as :meth:`counts` gave them
        values : the new columns: one value for each cell
        """
        from pyspark.sql import functions

        renamed = {f"__key{number}": pa.array(cells[key]) for number, key in enumerate(keys)}
        small = _spark_table(self.frame.to_native(), pa.table({**renamed, **{name: pa.array(v) for name, v in values.items()}}))
        native = self.frame.to_native()
        condition = functions.lit(True)
        for number, key in enumerate(keys):
            condition = condition & native[_quoted(key)].eqNullSafe(small[f"__key{number}"])
        return native.join(functions.broadcast(small), condition, "left").drop(*renamed)

    def replaced_by_id(self, id_column: str, ids: Any, columns: Mapping[str, Any]) -> Any:
        """The Spark frame with new values in the records that have these ids; a null replaces a value by null."""
        from pyspark.sql import functions

        native = self.frame.to_native()
        small_table = pa.table({"__id": pa.array(ids), **{f"__new_{name}": pa.array(v) for name, v in columns.items()}})
        small = _spark_table(native, small_table.append_column("__is_new", pa.array([True] * small_table.num_rows)))
        joined = native.join(functions.broadcast(small), native[_quoted(id_column)] == small["__id"], "left")
        types = dict(native.dtypes)
        chosen = [
            functions.when(small["__is_new"], small[f"__new_{name}"].cast(types[name]))
            .otherwise(native[_quoted(name)])
            .alias(name)
            if name in columns
            else native[_quoted(name)]
            for name in native.columns
        ]
        return joined.select(*chosen)

    def write_with_replacements(self, path: str | Path, rows: Any, columns: Mapping[str, Any]) -> Path:
        raise BadInput("A Spark frame is not written to a single file; change it with replaced_by_id and write it with Spark.")


def _recoded(native: Any, name: str, recode: EncodedColumn) -> Any:
    """The frame with the values of a column replaced by their codes."""
    from pyspark.sql import functions

    small = _spark_table(native, pa.table({"__value": recode.values, "__code": pa.array(recode.codes)}))
    joined = native.join(functions.broadcast(small), native[_quoted(name)].eqNullSafe(small["__value"]), "left")
    kept = [small["__code"].alias(name) if column == name else native[_quoted(column)] for column in native.columns]
    return joined.select(*kept)


def _spark_table(native: Any, table: pa.Table) -> Any:
    return native.sparkSession.createDataFrame(table)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
