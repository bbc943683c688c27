"""How are small tables sent to Spark and joined with the records there?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell.engine.arrays import CountedPairs, EncodedColumn
from rarecell.engine.frames import new_names
from rarecell.errors import EngineFailed, RarecellError
from rarecell.machine.disk import private_folder

if TYPE_CHECKING:
    from rarecell.edges import Columns, Frame


MOST_BROADCAST = 1_000_000
"""Tables of up to this many rows are sent to every machine; larger ones are joined by a shuffle."""


def recoded(native: Frame, name: str, recode: EncodedColumn) -> Frame:
    """The frame with the values of a column replaced by their codes."""
    value, code = new_names(2, "recoded")
    small = spark_table(native, {value: recode.values, code: recode.codes.astype(np.int32)})
    joined = looked_up(native, name, small, value)
    kept = [small[code].alias(name) if column == name else native[quoted(column)] for column in native.columns]
    return joined.select(*kept)


def looked_up(native: Frame, column: str, small: Frame, value: str) -> Frame:
    """Join a small table by the value of a column; missing counts as a value."""
    from pyspark.sql import functions

    return native.join(functions.broadcast(small), native[quoted(column)].eqNullSafe(small[value]), "left")


def joined(coded: Frame, small: Frame, n_rows: int, codes: Sequence[str], how: str) -> Frame:
    return coded.join(sent(small, n_rows), list(codes), how)


def sent(small: Frame, n_rows: int) -> Frame:
    from pyspark.sql import functions

    return functions.broadcast(small) if n_rows <= MOST_BROADCAST else small


def with_cell(coded: Frame, codes: Sequence[str]) -> Frame:
    """The records whose keys all have a code."""
    from pyspark.sql import functions

    for code in codes:
        coded = coded.filter(functions.col(code) >= 0)
    return coded


def counted_pairs(coded: Frame, code_of: Mapping[str, str], columns: Sequence[str]) -> dict[str, dict[str, CountedPairs]]:
    """For each column, its pairs with each key, counted in one pass; ``code_of`` names the column of codes for each key."""
    from pyspark.sql import functions

    new_name = dict(zip(columns, new_names(len(columns), "column"), strict=True))
    n_records, group = new_names(2, "crossed")
    crossed = [(key, column) for column in columns for key in code_of]
    grouped = [*code_of.values(), *new_name.values()]
    chosen = [functions.col(code) for code in code_of.values()]
    chosen += [functions.col(quoted(column)).alias(new) for column, new in new_name.items()]
    sets = [[code_of[key], new_name[column]] for key, column in crossed]
    counted = coded.select(*chosen).groupingSets(sets, *grouped)
    counts = counted.agg(functions.count("*").alias(n_records), functions.grouping_id().alias(group)).toArrow()
    result: dict[str, dict[str, CountedPairs]] = {column: {} for column in columns}
    for (key, column), (code, value) in zip(crossed, sets, strict=True):
        # The bits of a grouping show which columns it sums over, first column first.
        number = sum(1 << (len(grouped) - 1 - place) for place, name in enumerate(grouped) if name not in (code, value))
        part = counts.filter(pc.equal(counts.column(group), number))
        codes, records = (part.column(name).to_numpy() for name in (code, n_records))
        result[column][key] = CountedPairs(codes, part.column(value).combine_chunks(), records)
    return result


def code_columns(cells: NDArray[np.int32]) -> dict[str, NDArray[np.int32]]:
    return {name: np.ascontiguousarray(cells[:, k]) for k, name in enumerate(new_names(cells.shape[1], "code"))}


def spark_table(native: Frame, columns: Columns) -> Frame:
    return native.sparkSession.createDataFrame(pa.table({name: pa.array(values) for name, values in columns.items()}))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# How is Spark started so that nobody else can look in, and how does it report what went wrong?


WAREHOUSE = "spark.sql.warehouse.dir"

_P = ParamSpec("_P")
_T = TypeVar("_T")


def spark_job(work: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Turn what Spark raises into one paragraph, without the values that its own messages quote."""

    def wrapped(method: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(method)
        def attempt(*arguments: _P.args, **options: _P.kwargs) -> _T:
            try:
                return method(*arguments, **options)
            except RarecellError:
                raise
            except Exception as problem:
                if not _is_of_spark(problem):
                    raise
                raise EngineFailed.during("Spark", work, _reason(problem)) from None

        return attempt

    return wrapped


def _is_of_spark(problem: BaseException) -> bool:
    of_spark = type(problem).__module__.split(".")[0] in ("pyspark", "py4j", "grpc") or isinstance(problem, ConnectionError)
    return of_spark or (problem.__cause__ is not None and _is_of_spark(problem.__cause__))


def _reason(problem: Exception) -> str:
    text = str(problem)
    times = re.search(r"failed (\d+) times", text)
    if isinstance(problem, ConnectionError) or "stopped SparkContext" in text or "SparkContext was shut down" in text:
        return "its session has ended"
    if any(sign in text for sign in ("ExecutorLostFailure", "FetchFailed", "Master removed our application")):
        return "its executors were lost again and again"
    if times:
        return f"a task failed {times[1]} times"
    condition = getattr(problem, "getCondition", lambda: None)()
    return str(condition or type(problem).__name__)


def new_session() -> Any:
    """Start a session for this program."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("rarecell")
    chosen = dict(SparkConf().getAll())
    for name, value in {**_no_warehouse(chosen), **private_settings(chosen)}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class _Program:
    """Owns Spark's empty folder of tables until the program ends."""


_program = _Program()


def _no_warehouse(chosen: Mapping[str, str]) -> dict[str, str]:
    """Keep Spark from making a folder for tables of its own in the current one, where there is none."""
    if WAREHOUSE in chosen or "spark.remote" in chosen or Path("spark-warehouse").exists():
        return {}
    return {WAREHOUSE: str(private_folder(_program))}


def private_settings(chosen: Mapping[str, str]) -> dict[str, str]:
    """Settings that keep others out of a new Spark session, except where the user has chosen otherwise.

    Spark's own web page shows queries and plans to anyone, without a password, so it is turned off. A session on this
    computer alone listens only on the loopback address.
    """
    settings = {"spark.ui.enabled": "false"}
    if chosen.get("spark.master", "local").startswith("local") and "spark.remote" not in chosen:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {name: value for name, value in settings.items() if name not in chosen}
