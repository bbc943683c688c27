"""Which source reads a file, judging by its name's ending?"""

from __future__ import annotations

import os
from pathlib import Path

from rarecell.engine.columnar.source import ArrowSource, ParquetPartsSource, ParquetSource
from rarecell.engine.duck import EngineSettings
from rarecell.engine.parts import find_parts
from rarecell.engine.places import (
    ARROW_SUFFIXES,
    FORMATS,
    PARQUET_SUFFIXES,
    STATISTICS_SUFFIXES,
    TEXT_SUFFIXES,
    WORKBOOK_SUFFIXES,
    existing_file,
    is_wildcard,
)
from rarecell.engine.source import Source
from rarecell.engine.text.source import TextPartsSource, open_text
from rarecell.errors import BadInput

_ELSEWHERE = {
    ".rds": "an R object. Write it with arrow::write_parquet() or write.csv()",
    ".rdata": "an R workspace. Write the data frame with arrow::write_parquet() or write.csv()",
    ".json": "JSON. Convert it to Parquet or CSV",
    ".zip": "an archive. Unpack it",
}


def open_file(path: str | Path, *, settings: EngineSettings | None = None) -> Source:
    """Open the source for a file by its name's ending, or for a folder or wildcard of Parquet or CSV files."""
    chosen = settings or EngineSettings()
    if os.path.isdir(path) or is_wildcard(path):
        return open_parts(path, settings=chosen)
    file = existing_file(path)
    suffixes = [suffix.lower() for suffix in file.suffixes]
    last = suffixes[-1] if suffixes else ""
    if last in TEXT_SUFFIXES or (last == ".gz" and (len(suffixes) < 2 or suffixes[-2] in TEXT_SUFFIXES)):
        return open_text(file, settings=chosen)
    if last in WORKBOOK_SUFFIXES:
        from rarecell.engine.workbook import WorkbookSource

        return WorkbookSource(file, settings=chosen)
    if last in PARQUET_SUFFIXES:
        return ParquetSource(file, settings=chosen)
    if last in ARROW_SUFFIXES:
        return ArrowSource(file, settings=chosen)
    if last in STATISTICS_SUFFIXES:
        from rarecell.engine.statistics.source import StatisticsSource

        return StatisticsSource(file, settings=chosen)
    what = _ELSEWHERE.get(last, f"of a kind that is not known by its ending '{last}'. Convert it")
    raise BadInput(f"{file} is {what}, and name that file. These are read: {FORMATS}.")


def open_parts(path: str | Path, *, settings: EngineSettings) -> Source:
    """Open the source for a folder or wildcard."""
    if find_parts(path).kind == "CSV":
        return TextPartsSource(path, settings=settings)
    return ParquetPartsSource(path, settings=settings)
