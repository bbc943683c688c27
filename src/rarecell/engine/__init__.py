"""The only package that knows about files, data frames and engines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rarecell.engine.places import check_place

if TYPE_CHECKING:
    from rarecell.edges import Frame
    from rarecell.engine.duck import EngineSettings
    from rarecell.engine.source import Source

__all__ = ["open_source", "open_table"]


def open_source(data: Frame, *, sql: str | None = None, settings: EngineSettings | None = None) -> Source:
    """Open the source for a path, a frame of any kind, or a query.

    Parameters
    ----------
    data : frame
        A path; a pandas, polars, pyarrow, DuckDB or Spark frame; a source; or, with ``sql``, a database to query (a path or
        the address of a PostgreSQL server), which may be None when the query names its own files.
    sql : str, optional
        A query to read instead of all of ``data``.
    settings : EngineSettings, optional
        How much of the machine may be used for reading.
    """
    from rarecell.engine.source import Source

    if isinstance(data, str):
        check_place(data, has_query=sql is not None)
    if sql is not None:
        from rarecell.engine.sql.source import SqlSource

        return SqlSource(sql, database=data, settings=settings)
    if isinstance(data, Source):
        return data
    if isinstance(data, (str, Path)):
        from rarecell.engine.opening import open_file

        return open_file(data, settings=settings)
    from rarecell.engine.frames import open_frame

    return open_frame(data)


def open_table(name: str) -> Source:
    """Open the source for a table that Spark knows by name, or for a path that Spark reads."""
    from rarecell.engine.spark.source import open_spark_table

    return open_spark_table(name)
