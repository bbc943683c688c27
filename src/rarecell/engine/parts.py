"""How are many files treated as one?

Spark and DuckDB write a large table as a folder of parts. The parts, in the order of their names, are one file: their
records are numbered consecutively, their columns must agree, and they are written back under the same names. Where
folders have names such as ``year=2020``, the name is the value of a column. :mod:`rarecell.engine.text.source` handles CSV.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from rarecell.engine.files import FileSource
from rarecell.engine.places import PARQUET_SUFFIXES, PART_SUFFIXES, is_wildcard, reachable, regular_file
from rarecell.errors import BadInput


@dataclass(frozen=True)
class PartFiles:
    """The files of a folder or wildcard in the order of their names, and the name of each relative to ``root``."""

    given: str
    root: Path
    paths: tuple[Path, ...]
    kind: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(path.relative_to(self.root).as_posix() for path in self.paths)

    @property
    def partitions(self) -> tuple[dict[str, str], ...]:
        """The values given by ``column=value`` folders on the way to each part."""
        return tuple(
            {unquote(column): unquote(value) for column, _, value in (step.partition("=") for step in steps if "=" in step)}
            for steps in (name.split("/")[:-1] for name in self.names)
        )


def find_parts(path: str | Path) -> PartFiles:
    """The files that a folder or a wildcard stands for: all Parquet or all CSV.

    Raises
    ------
    BadInput
        When there are none, or when something beside them may hold records.
    """
    given = str(path)
    try:
        parts = _found_parts(given)
        for part in parts.paths:
            regular_file(reachable(part))
        return parts
    except OSError as problem:
        raise BadInput(f"{given} cannot be read: {problem.strerror or problem}. Check that you may read it.") from None


def _found_parts(given: str) -> PartFiles:
    if is_wildcard(given):
        met = [Path(name) for name in glob.glob(given, recursive=True) if not _is_ignored(Path(name).name)]
        if not met:
            raise BadInput(f"No file matches {given}. Check the folder, and put the pattern in quotes.")
        kind = _kind_of(met)
        parts = [part for entry in met for part in (_parts_below(entry, kind) if entry.is_dir() else [entry])]
        other = [entry for entry in parts if not _is_part(entry, kind)]
        if other:
            raise BadInput(
                f"{given} also matches {other[0]}, which is no {kind} file by its ending. A wildcard stands for files of one kind; "
                f"give one that matches nothing else, such as 'data/*{PART_SUFFIXES[kind][0]}'."
            )
        root = Path(os.path.commonpath([part.parent for part in parts])) if parts else Path(given).parent
    else:
        root = Path(given)
        kind = _kind_of(root.iterdir())
        parts = _parts_below(root, kind)
    if not parts:
        raise BadInput(f"{given} holds no Parquet file and no CSV file. Name a file, or a folder of such parts.")
    return PartFiles(given, root, tuple(sorted(set(parts), key=lambda part: part.relative_to(root).as_posix())), kind)


def _is_part(entry: Path, kind: str) -> bool:
    return entry.name.lower().endswith(PART_SUFFIXES[kind])


def _kind_of(entries: Iterable[Path]) -> str:
    """CSV if there are only CSV files, Parquet otherwise."""
    seen = [entry for entry in entries if not _is_ignored(entry.name)]
    return "CSV" if seen and all(_is_part(entry, "CSV") for entry in seen) else "Parquet"


def _is_ignored(name: str) -> bool:
    """Whether a file holds no records: a marker such as ``_SUCCESS`` or a checksum such as ``.part-0.parquet.crc``."""
    return name.startswith((".", "_"))


def _parts_below(folder: Path, kind: str) -> list[Path]:
    paths: list[Path] = []
    for entry in sorted(folder.iterdir()):
        if _is_ignored(entry.name):
            continue
        if entry.is_dir() and "=" in entry.name:
            paths += _parts_below(entry, kind)
        elif not entry.is_dir() and _is_part(entry, kind):
            paths.append(entry)
        else:
            # It must not be left out silently, because it may hold records as well.
            inside = sorted(other.name for other in folder.iterdir() if not _is_ignored(other.name))
            listed = f"{', '.join(inside[:5])}{' and more' if len(inside) > 5 else ''}"
            has_parts = any(name.lower().endswith(PARQUET_SUFFIXES) for name in inside)
            remedy = f"name the parts by a wildcard, '{folder}/*.parquet'" if has_parts else "name a file in it"
            raise BadInput(f"{folder} is a folder, and not one of Parquet or CSV parts only; {remedy}. It holds {listed}.")
    return paths


class SeveralFiles(FileSource):
    """The files of a folder or wildcard as one file."""

    files: PartFiles

    def _refuse_change(self) -> None:
        super()._refuse_change()
        if find_parts(self.files.given) != self.files:
            raise BadInput(
                f"Files were added to or removed from {self.name} while it was being read. Wait until it is complete, and run again."
            )

    @property
    def paths(self) -> tuple[Path, ...]:
        return self.files.paths
