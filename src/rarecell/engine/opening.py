"""Which source reads a file, judging by its name's ending?"""

from __future__ import annotations

import glob
import os
from pathlib import Path

from rarecell.engine import csv
from rarecell.engine.columnar import ArrowSource, ParquetSource
from rarecell.engine.duck import EngineSettings
from rarecell.engine.files import CsvSource
from rarecell.engine.reach import reachable, regular_file
from rarecell.engine.source import Source
from rarecell.engine.suffixes import (
    ARROW_SUFFIXES,
    FORMATS,
    PARQUET_SUFFIXES,
    STATISTICS_SUFFIXES,
    TEXT_SUFFIXES,
    WORKBOOK_SUFFIXES,
)
from rarecell.errors import BadInput, nearest_names

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
        from rarecell.engine.parts import open_parts

        return open_parts(path, settings=chosen)
    found = existing_file(path)
    suffixes = [suffix.lower() for suffix in found.suffixes]
    last = suffixes[-1] if suffixes else ""
    if last in TEXT_SUFFIXES or (last == ".gz" and (len(suffixes) < 2 or suffixes[-2] in TEXT_SUFFIXES)):
        return open_text(found, settings=chosen)
    if last in WORKBOOK_SUFFIXES:
        from rarecell.engine.workbook import WorkbookSource

        return WorkbookSource(found, settings=chosen)
    if last in PARQUET_SUFFIXES:
        return ParquetSource(found, settings=chosen)
    if last in ARROW_SUFFIXES:
        return ArrowSource(found, settings=chosen)
    if last in STATISTICS_SUFFIXES:
        from rarecell.engine.statistics import StatisticsSource

        return StatisticsSource(found, settings=chosen)
    what = _ELSEWHERE.get(last, f"of a kind that is not known by its ending '{last}'. Convert it")
    raise BadInput(f"{found} is {what}, and name that file. These are read: {FORMATS}.")


def open_text(path: Path, *, settings: EngineSettings) -> Source:
    """Open the source for delimited text: directly when it is UTF-8, otherwise through a UTF-8 copy."""
    encoding = csv.encoding_of(path, settings.encoding)
    if encoding is None:
        return CsvSource(path, settings=settings)
    from rarecell.engine.transcoded import TranscodedSource

    return TranscodedSource(path, encoding, settings=settings)


def is_wildcard(path: str | Path) -> bool:
    """Whether this is a pattern such as ``data/*.parquet`` that is not itself the name of a file."""
    return glob.has_magic(str(path)) and not os.path.lexists(path)


def existing_file(path: str | Path) -> Path:
    """Return the path when it names a readable file."""
    given = reachable(path)
    try:
        if given.is_dir():
            raise BadInput(f"{given} is a folder; name a file in it.")
        if not given.exists():
            siblings = [entry.name for entry in given.parent.iterdir()] if given.parent.is_dir() else []
            near = nearest_names(given.name, siblings)
            hint = f" Did you mean {' or '.join(str(given.parent / name) for name in near)}?" if near else ""
            if not given.parent.is_dir():
                hint = f" The folder {given.parent} does not exist either."
            raise BadInput(f"There is no file {given}.{hint}")
        with open(regular_file(given), "rb"):
            return given
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise BadInput(f"{given} cannot be read: {reason}. Check its name and that you may read it.") from None
