"""A file that is counted by its engine, however few records it has."""

from __future__ import annotations

from rarecell.engine.columnar.source import ParquetSource


class LargeFile(ParquetSource):
    """A Parquet file that says it is too large for its records to be coded in memory."""

    @property
    def approximate_rows(self) -> int:
        return 10**12
