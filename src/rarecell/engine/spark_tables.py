"""How is a Spark table found by its name?"""

from __future__ import annotations

import re
from typing import Any

import narwhals.stable.v2 as nw

from rarecell.engine.reach import refuse_when_confined
from rarecell.engine.spark import SparkSource
from rarecell.engine.spark_session import new_session, spark_job
from rarecell.errors import BadInput, EngineFailed, MissingExtra


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
