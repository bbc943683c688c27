"""How are data counted and joined when they are spread over many machines?

Counting runs as a Spark job, and only combinations of values reach the driver; what is computed for each cell goes back
as a join. Records have no position in Spark, so a record is identified by the value of its id column, and only the
records that are swapped reach the driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rarecell.engine.arrays import CountedPairs, EncodedColumn, GroupedCounts, KeyCells, Kind
from rarecell.engine.changes import Changes, one_array
from rarecell.engine.frames import FrameSource, count_groups, new_names
from rarecell.engine.places import refuse_when_confined
from rarecell.engine.source import BATCH_ROWS, ProductColumns, Source
from rarecell.engine.spark.joins import (
    code_columns,
    counted_pairs,
    joined,
    looked_up,
    new_session,
    quoted,
    recoded,
    sent,
    spark_job,
    spark_table,
    with_cell,
)
from rarecell.engine.streaming import hashed_text
from rarecell.errors import BadInput, EngineFailed, MissingExtra, TooLarge
from rarecell.machine.disk import remove

if TYPE_CHECKING:
    from rarecell.edges import Columns, Frame
    from rarecell.engine.changes import Recodes


MOST_CELLS = 50_000_000
"""More occupied cells than this are not brought to the driver."""


class SparkSource(FrameSource):
    """A Spark data frame."""

    keeps_rows = False
    finds_by_id = True

    def __init__(self, frame: nw.LazyFrame[Any], *, most_cells: int = MOST_CELLS) -> None:
        super().__init__(frame)
        self.name = "the Spark frame"
        self.most_cells = most_cells

    @property
    def native(self) -> Frame:
        return self.frame.to_native()

    def numbered(self, id_column: str | None) -> Source:

        return NumberedSpark(self, id_column)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        raise BadInput(
            "The records of a Spark frame stay on its machines and have no order. Ask for counts, join results to the frame by its keys, "
            "or write the frame to Parquet to work on it record by record."
        )

    def _kind_of_values(self, name: str) -> Kind:
        return "other"  # a column that is not numbers, words or dates is not examined: its values stay where they are

    def why_no_key(self, column: str) -> str:
        return Source.why_no_key(self, column)

    @property
    def n_rows(self) -> int:
        if self._n_rows is None:
            self._n_rows = self._counted_rows()
        return self._n_rows

    _n_rows: int | None = None

    @spark_job("counting the records")
    def _counted_rows(self) -> int:
        return int(self.native.count())

    @spark_job("counting the cells of the keys")
    def counts(
        self, columns: Sequence[str], *, weight: str | None = None, recodes: Mapping[str, EncodedColumn] | None = None
    ) -> GroupedCounts:
        from pyspark.sql import functions

        if weight is not None and self._kind(weight) not in ("integer", "number"):
            raise BadInput(f"The weight column '{weight}' of {self.name} is not a column of numbers. Cast it to double first.")
        native = self.native
        for name, recode in (recodes or {}).items():
            native = recoded(native, name, recode)
        self._refuse_too_many(native, columns)
        names = [*columns, *([] if weight is None else [weight])]
        chosen = [functions.col(quoted(old)).alias(new) for old, new in zip(names, new_names(len(names)), strict=True)]
        grouped = count_groups(
            nw.from_native(native.select(*chosen)), len(columns), weight=weight, name=self.name, least=self.least_weight
        )
        self._n_rows = int(grouped.counts.sum())
        return grouped

    def _refuse_too_many(self, native: Frame, columns: Sequence[str]) -> None:
        from pyspark.sql import functions

        # A struct that contains nulls counts as one value; approx_count_distinct skips bare nulls.
        together = functions.struct(*(functions.col(quoted(name)) for name in columns))
        alone = [functions.approx_count_distinct(functions.col(quoted(name))) for name in columns]
        n_cells, *n_levels = native.agg(functions.approx_count_distinct(together), *alone).collect()[0]
        if n_cells > self.most_cells:
            most = sorted(zip(n_levels, columns, strict=True), reverse=True)[:3]
            raise TooLarge(
                f"The keys {', '.join(columns)} have about {n_cells:,} different combinations, more than the {self.most_cells:,} that are "
                f"brought to one machine. Make keys coarser, above all {', '.join(f'{name} (about {n:,} values)' for n, name in most)}: with "
                "bins, a top code or fewer levels. Or name fewer keys. Or name the cliques of a model, found on coarser keys or on a part of the "
                "data, and call rarecell.clique_risk in Python: it needs the counts of the cliques only."
            )

    # ------------------------------------------------------------------ going back

    def with_cell_values(self, cells: KeyCells, values: Columns) -> Frame:
        """The Spark frame with further columns: one value per cell, and null where a record was dropped."""
        coded, codes = self._coded(cells)
        small = spark_table(coded, {**code_columns(cells.cells), **values})
        return joined(coded, small, len(cells.cells), codes, "left").drop(*codes)

    @spark_job("joining the risk to the records")
    def write_cell_values(self, path: Path, cells: KeyCells, values: Columns, columns: Mapping[str, str]) -> None:
        """Write the values of its cell for every record, after some ``columns`` of the record, given by their new names."""
        from pyspark.sql import functions

        names = new_names(len(values))
        joined = self.with_cell_values(cells, dict(zip(names, values.values(), strict=True)))
        # As in a file, a record without a cell has no records like it and no probability.
        nothing = {"i": 0, "b": False, "O": ""}
        empty = [nothing.get(np.asarray(v).dtype.kind, float("nan")) for v in values.values()]
        filled = [
            functions.coalesce(functions.col(new), functions.lit(none)).alias(name)
            for new, name, none in zip(names, values, empty, strict=True)
        ]
        kept = [functions.col(quoted(column)).alias(name) for name, column in columns.items()]
        self._write_frame(joined.select(*kept, *filled), path)

    @spark_job("joining the counts of some sets of keys")
    def with_products_of_margins(
        self, cells: KeyCells, factors: Sequence[tuple[Sequence[int], int]], columns: ProductColumns, totals: Sequence[str]
    ) -> tuple[Any, tuple[int, ...], tuple[float, ...]]:
        from pyspark.sql import Window, functions

        coded, codes = self._coded(cells)
        coded = with_cell(coded, codes)
        n_records = coded.count()
        names = new_names(len(factors), "margin")
        joined = coded
        for name, (keys, _) in zip(names, factors, strict=True):
            among = [codes[k] for k in keys]
            joined = joined.join(coded.groupBy(*among).agg(functions.count("*").alias(name)), among)
        log_product = functions.lit(0.0)
        for name, (_, power) in zip(names, factors, strict=True):
            log_product = log_product + power * functions.log(functions.col(name) / n_records)
        frame = joined.withColumn("cell_count", functions.count("*").over(Window.partitionBy(*codes)))
        count = functions.col("cell_count")
        for name, column in columns(functions, n_records, log_product, count):
            frame = frame.withColumn(name, column)
        frame = frame.drop(*codes, *names)
        is_alone = functions.when(count == 1, 1).otherwise(0)
        sums = frame.agg(functions.sum(is_alone), *(functions.sum(name) for name in totals)).collect()[0]
        return frame, (n_records, int(sums[0] or 0)), tuple(float(value or 0.0) for value in sums[1:])

    @spark_job("looking up the records to swap")
    def drawn_records(
        self,
        cells: KeyCells,
        of_cells: NDArray[np.int64],
        rank: NDArray[np.int64],
        *,
        id_column: str | None,
        seed: int,
        columns: Sequence[str] = (),
    ) -> tuple[pa.Array, dict[str, pa.Array]]:
        """Find the ``rank[r]``-th record, in drawing order, of each cell ``of_cells[r]``: its id and values of ``columns``.

        Only these records reach the driver; the rest of their cells are ordered in place.
        """
        from pyspark.sql import Window, functions

        name = self.usable_id(id_column)
        needed, place = np.unique(of_cells, return_inverse=True)
        last = np.zeros(len(needed), dtype=np.int64)
        np.maximum.at(last, place, rank)
        coded, codes = self._coded(cells)
        cell, most, drawn = new_names(3, "drawn")
        small = spark_table(coded, {**code_columns(cells.cells[needed]), cell: np.arange(len(needed)), most: last})
        text = functions.col(quoted(name)).cast("string")
        hashed = functions.sha2(functions.concat(functions.lit(hashed_text(seed, "")), text), 256)
        in_turn = functions.row_number().over(Window.partitionBy(cell).orderBy(hashed, text)) - 1
        ranked = joined(coded, small, len(needed), codes, "inner").withColumn(drawn, in_turn)
        taken = [functions.col(quoted(column)) for column in (name, *columns)]
        renamed = [column.alias(f"{number}") for number, column in enumerate(taken)]
        candidates = ranked.filter(functions.col(drawn) <= functions.col(most)).select(cell, drawn, *renamed).toArrow()

        at = candidates.column(cell).to_numpy(), candidates.column(drawn).to_numpy()
        order = np.lexsort(at[::-1])
        first = np.searchsorted(at[0][order], np.arange(len(needed)))
        position = first[place] + rank
        if len(order) <= position.max(initial=-1) or not (at[0][order[position]] == place).all():
            raise BadInput(
                f"The records of {self.name} changed while they were read: some that were counted are gone. Cache it, and run again."
            )
        rows = candidates.take(pa.array(order[position]))
        values = [rows.column(str(number)).combine_chunks() for number in range(1 + len(columns))]
        self._refuse_repeated(name, values[0])
        return values[0], dict(zip(columns, values[1:], strict=True))

    @spark_job("looking at the columns outside the keys")
    def _of_few_values(self, columns: Sequence[str], most: int) -> list[str]:
        """Those of ``columns`` that have at least one value and not many more than ``most``."""
        from pyspark.sql import functions

        counted = [functions.approx_count_distinct(functions.col(quoted(name))).alias(f"{k}") for k, name in enumerate(columns)]
        n_distinct = self.native.agg(*counted).collect()[0]
        # An approximate count is rarely off by a tenth; a caller that needs the exact number counts again.
        return [name for name, n_values in zip(columns, n_distinct, strict=True) if 1 <= n_values <= 1.1 * most]

    @spark_job("counting the keys against other columns")
    def crossed(
        self, cells: KeyCells, keys: Sequence[str], columns: Sequence[str], *, most_values: int
    ) -> dict[str, dict[str, CountedPairs]]:
        """Count all pairs in one pass over the data."""
        few = self._of_few_values(columns, most_values) if columns else []
        if not few:
            return {}
        coded, codes = self._coded(cells)
        return counted_pairs(with_cell(coded, codes), {key: codes[cells.keys.index(key)] for key in keys}, few)

    def check_id(self, column: str | None) -> None:
        self.usable_id(column)

    def usable_id(self, id_column: str | None) -> str:
        """Return the id column, or raise with what is wrong with it."""
        if id_column is None:
            raise BadInput(
                f"The records of {self.name} have no position, so swaps, and whatever looks at single records, need a column that names each "
                "record. Name it with --id, or id=… in Python. It holds whole numbers or text, different in each record."
            )
        if self._kind(id_column) not in ("integer", "text"):
            raise BadInput(
                f"The id column '{id_column}' of {self.name} holds neither whole numbers nor text. Cast it to text first."
            )
        return id_column

    def _refuse_repeated(self, id_column: str, ids: pa.Array) -> None:
        from pyspark.sql import functions

        if ids.null_count:
            raise BadInput(f"The id column '{id_column}' of {self.name} has missing values; swaps need an id for every record.")
        native, distinct = self.native, ids.unique()
        (number,) = new_names(1, "id")
        small = spark_table(native, {number: distinct})
        same = native.join(functions.broadcast(small), native[quoted(id_column)] == small[number], "left_semi").count()
        if len(distinct) < len(ids) or same > len(ids):
            raise BadInput(
                f"The id column '{id_column}' of {self.name} has a value twice; swaps need a different id in each record."
            )

    def _coded(self, cells: KeyCells) -> tuple[Any, list[str]]:
        """The Spark frame with the codes of the keys in further columns, and the names of those columns."""
        native, codes = self.native, new_names(len(cells.keys), "code")
        for code, key, lookup in zip(codes, cells.keys, cells.lookups, strict=True):
            small = spark_table(native, {f"{code}_value": lookup.values, code: lookup.codes.astype(np.int32)})
            native = looked_up(native, key, small, f"{code}_value").drop(f"{code}_value")
        return native, codes

    @spark_job("exchanging the values")
    def _replaced_by_id(self, id_column: str | None, ids: pa.Array, columns: Columns) -> Frame:
        """The Spark frame with new values in the records that have these ids; a null replaces a value with null."""
        from pyspark.sql import functions

        name = self.usable_id(id_column)
        native = self.native
        number, is_new, *new = new_names(2 + len(columns), "new")
        values = dict(zip(new, columns.values(), strict=True))
        small = spark_table(native, {number: ids, is_new: np.ones(len(ids), dtype=bool), **values})
        joined = native.join(sent(small, len(ids)), native[quoted(name)] == small[number], "left")
        new_name = dict(zip(columns, new, strict=True))
        types = dict(native.dtypes)
        chosen = [
            functions.when(small[is_new], small[new_name[column]].cast(types[column]))
            .otherwise(native[quoted(column)])
            .alias(column)
            if column in columns
            else native[quoted(column)]
            for column in native.columns
        ]
        return joined.select(*chosen)

    @spark_job("recoding")
    def _with_levels(self, native: Frame, recodes: Recodes) -> Frame:
        """A Spark frame like this one, with the levels of some columns in place of their values."""
        from pyspark.sql import functions

        for name, written in recodes.items():
            value, label = new_names(2, "level")
            texts = [*(written.labels), None]
            values = pa.array(written.values)
            small = spark_table(native, {value: values, label: pa.array([texts[k] for k in written.level_of_value], pa.string())})
            joined = looked_up(native, name, small, value)
            kept = small[label]
            if written.only_blanks:
                kept = functions.when(small[label].isNotNull(), native[quoted(name)])
            chosen = [kept.alias(name) if column == name else native[quoted(column)] for column in native.columns]
            native = joined.select(*chosen)
        return native

    @spark_job("writing")
    def _write_frame(self, native: Frame, path: str | Path) -> Path:
        """Write a Spark frame as a folder of Parquet files that this machine can access."""
        folder = Path(path).absolute()
        native.write.option("compression", "zstd").parquet(folder.as_uri())
        n_written = 0
        for part in list(folder.iterdir()) if folder.is_dir() else []:
            if part.suffix == ".parquet" and not part.name.startswith("."):
                n_written += pq.read_metadata(part).num_rows
            else:
                remove(part)
        if n_written != self.n_rows:
            raise BadInput(
                f"Spark wrote {self.n_rows:,} records, but {n_written:,} of them are visible in {folder.parent} here. Name a folder with "
                "--out that all machines of the cluster and this one share."
            )
        return Path(path)

    def changed(self, changes: Changes) -> Frame:
        native = self._replaced_by_id(changes.id_column, changes.places, changes.values) if changes.values else self.native
        native = self._with_levels(
            native, {name: levels for name, levels in changes.recodes.items() if name not in changes.treated}
        )
        if changes.blanks or changes.treated or changes.order is not None:
            native = self._with_record_changes(native, changes)
        return native.drop(*changes.dropped) if changes.dropped else native

    @spark_job("changing values of single records")
    def _with_record_changes(self, native: Frame, changes: Changes) -> Frame:
        """The Spark frame with blanked values, new values in every record, and the records in a new order."""
        from pyspark.sql import functions

        numbered = self if isinstance(self, NumberedSpark) else NumberedSpark(self, changes.id_column)
        changes.check(native.columns, lambda: len(numbered.ids))
        blanked = {name: blanks for name, blanks in changes.blanks.items() if name not in changes.treated}
        rows = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *(blanks.rows for blanks in blanked.values())]))
        if changes.treated or changes.order is not None:
            rows = np.arange(len(numbered.ids))
        number, position, *new = new_names(2 + len(blanked) + len(changes.treated), "changed")
        names = dict(zip([*blanked, *changes.treated], new, strict=True))
        columns: dict[str, Any] = {number: numbered.places(rows)}
        for name, blanks in blanked.items():
            columns[names[name]] = np.isin(rows, blanks.rows)
        for name, values in changes.treated.items():
            columns[names[name]] = one_array(values)
        if changes.order is not None:
            place = np.empty(len(rows), dtype=np.int64)
            place[changes.order] = np.arange(len(rows))
            columns[position] = place
        small = spark_table(native, columns)
        joined = native.join(sent(small, len(rows)), native[quoted(self.usable_id(changes.id_column))] == small[number], "left")

        def column(name: str) -> Any:
            if name in changes.treated:
                return small[names[name]].alias(name)
            if name in blanked:
                is_blank = functions.coalesce(small[names[name]], functions.lit(False))
                return functions.when(~is_blank, native[quoted(name)]).alias(name)
            return native[quoted(name)]

        chosen = [column(name) for name in native.columns]
        if changes.order is not None:
            return joined.select(*chosen, small[position]).orderBy(position).drop(position)
        return joined.select(*chosen)

    def write(self, path: str | Path, changes: Changes) -> Path:
        return self._write_frame(self.changed(changes), path)

    def read_back(self, written: Path) -> Frame:
        return self.native.sparkSession.read.parquet(written.absolute().as_uri())


# How does a run look at single records that are spread over many machines?
#
# Records have no position in Spark. Where a run needs one, they are numbered in the order of their ids. Each column that
# the run asks for reaches the driver as one array in this order; all other columns stay where they are. Random draws
# depend on the ids, so the same seed gives the same result as on a file.


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
        ids = self._in_order([])[0]
        name = self.usable_id(self.id_column)
        if ids.null_count:
            raise BadInput(f"The id column '{name}' of {self.name} has missing values; each record needs an id.")
        if len(ids) > 1 and pc.any(pc.equal(ids[1:], ids[:-1])).as_py():
            raise BadInput(f"The id column '{name}' of {self.name} has a value twice; each record needs another id.")
        return ids

    def places(self, rows: NDArray[np.int64]) -> pa.Array:
        return self.ids.take(pa.array(rows))

    def rows_at(self, places: Any) -> NDArray[np.int64]:
        return np.asarray(pc.index_in(places, value_set=self.ids).to_numpy(zero_copy_only=False), dtype=np.int64)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        ids, *values = self._in_order(columns)
        if not ids.equals(self.ids):
            raise self._changed()
        yield from pa.table(values, names=[str(k) for k in range(len(values))]).to_batches(BATCH_ROWS)

    @spark_job("bringing columns of the records to the driver")
    def _in_order(self, columns: Sequence[str]) -> list[pa.Array]:
        """The ids and some columns of all records."""
        from pyspark.sql import functions

        names = [self.usable_id(self.id_column), *columns]
        chosen = [functions.col(quoted(old)).alias(new) for old, new in zip(names, new_names(len(names)), strict=True)]
        in_order = self.native.select(*chosen).orderBy(new_names(len(names))[0]).toArrow()
        return [column.combine_chunks() for column in in_order.columns]

    @spark_job("looking up records")
    def take(self, rows: NDArray[np.int64], columns: Sequence[str]) -> dict[str, pa.Array]:
        from pyspark.sql import functions

        distinct, back = np.unique(np.asarray(rows, dtype=np.int64), return_inverse=True)
        if not len(distinct):
            return {name: pa.nulls(0) for name in columns}
        native, (number, position) = self.native, new_names(2, "taken")
        small = spark_table(native, {number: self.places(distinct), position: np.arange(len(distinct))})
        joined = native.join(sent(small, len(distinct)), native[quoted(self.usable_id(self.id_column))] == small[number])
        renamed = [functions.col(quoted(column)).alias(f"{k}") for k, column in enumerate(columns)]
        taken = joined.select(position, *renamed).sort(position).toArrow()
        if not np.array_equal(taken.column(0).to_numpy(), np.arange(len(distinct))):
            raise self._changed()
        in_order = taken.take(pa.array(back))
        return {name: in_order.column(1 + k).combine_chunks() for k, name in enumerate(columns)}

    def _changed(self) -> BadInput:
        return BadInput(f"The records of {self.name} changed while they were read. Cache it, and run again.")


# How is a Spark table found by its name?


def open_spark_table(name: str) -> SparkSource:
    """Open a Spark table, or a path that Spark reads in its default format, in the active session or a new one."""
    refuse_when_confined("A Spark table")
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtra.needed("A Spark table", "spark") from None

    @spark_job(f"opening '{name}'")
    def opened() -> Any:
        session = SparkSession.getActiveSession() or new_session()
        is_name = re.fullmatch(r"[^/\\]+", name) is not None
        return session.table(name) if is_name and session.catalog.tableExists(name) else session.read.load(name)

    try:
        source = SparkSource(nw.from_native(opened()))
    except EngineFailed as problem:
        if "PATH_NOT_FOUND" in str(problem):
            raise BadInput(
                f"Spark knows no table '{name}', and there is no such path. Check the name and the catalogue."
            ) from None
        raise
    source.name = f"the Spark table {name}"
    return source
