"""How are many files treated as one?

Spark and DuckDB write a large table as a folder of parts. The parts, in the order of their names, are one file: their
records are numbered consecutively, their columns must agree, and they are written back under the same names. Where
folders have names such as ``year=2020``, the name is the value of a column. :mod:`rarecell.engine.text_parts` handles CSV.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.engine import csv
from rarecell.engine.arrow import as_arrow
from rarecell.engine.columnar import ColumnarSource, ParquetSource
from rarecell.engine.duck import EngineSettings
from rarecell.engine.encoded import EncodedColumn, GroupedCounts
from rarecell.engine.files import FileSource, readable_errors
from rarecell.engine.opening import is_wildcard
from rarecell.engine.output import atomic_folder, temporary_folder
from rarecell.engine.reach import reachable, regular_file
from rarecell.engine.replacing import dictionary_forms
from rarecell.engine.source import BATCH_ROWS
from rarecell.engine.suffixes import PARQUET_SUFFIXES, PART_SUFFIXES
from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.edges import Columns, Level
    from rarecell.engine.written_levels import Recodes

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


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
        found = _found_parts(given)
        for part in found.paths:
            regular_file(reachable(part))
        return found
    except OSError as problem:
        raise BadInput(f"{given} cannot be read: {problem.strerror or problem}. Check that you may read it.") from None


def _found_parts(given: str) -> PartFiles:
    if is_wildcard(given):
        met = [Path(name) for name in glob.glob(given, recursive=True) if not _is_ignored(Path(name).name)]
        if not met:
            raise BadInput(f"No file matches {given}. Check the folder, and put the pattern in quotes.")
        kind = _kind_of(met)
        found = [part for entry in met for part in (_parts_below(entry, kind) if entry.is_dir() else [entry])]
        other = [entry for entry in found if not _is_part(entry, kind)]
        if other:
            raise BadInput(
                f"{given} also matches {other[0]}, which is no {kind} file by its ending. A wildcard stands for files of one kind; "
                f"give one that matches nothing else, such as 'data/*{PART_SUFFIXES[kind][0]}'."
            )
        root = Path(os.path.commonpath([part.parent for part in found])) if found else Path(given).parent
    else:
        root = Path(given)
        kind = _kind_of(root.iterdir())
        found = _parts_below(root, kind)
    if not found:
        raise BadInput(f"{given} holds no Parquet file and no CSV file. Name a file, or a folder of such parts.")
    return PartFiles(given, root, tuple(sorted(set(found), key=lambda part: part.relative_to(root).as_posix())), kind)


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
    found: list[Path] = []
    for entry in sorted(folder.iterdir()):
        if _is_ignored(entry.name):
            continue
        if entry.is_dir() and "=" in entry.name:
            found += _parts_below(entry, kind)
        elif not entry.is_dir() and _is_part(entry, kind):
            found.append(entry)
        else:
            # It must not be left out silently, because it may hold records as well.
            inside = sorted(other.name for other in folder.iterdir() if not _is_ignored(other.name))
            listed = f"{', '.join(inside[:5])}{' and more' if len(inside) > 5 else ''}"
            has_parts = any(name.lower().endswith(PARQUET_SUFFIXES) for name in inside)
            remedy = f"name the parts by a wildcard, '{folder}/*.parquet'" if has_parts else "name a file in it"
            raise BadInput(f"{folder} is a folder, and not one of Parquet or CSV parts only; {remedy}. It holds {listed}.")
    return found


def open_parts(path: str | Path, *, settings: EngineSettings) -> FileSource:
    """Open the source for a folder or wildcard."""
    if find_parts(path).kind == "CSV":
        from rarecell.engine.text_parts import TextPartsSource

        return TextPartsSource(path, settings=settings)
    return ParquetPartsSource(path, settings=settings)


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


class ParquetPartsSource(SeveralFiles, ColumnarSource):
    """The Parquet files of a folder or wildcard as one file."""

    def __init__(self, path: str | Path, *, settings: EngineSettings) -> None:
        self.files = find_parts(path)
        self._parts = tuple(ParquetSource(part, settings=settings) for part in self.files.paths)
        super().__init__(Path(path), settings=settings)
        self.suffix = ".parquet"
        self._first_rows = np.cumsum([0, *(part.n_rows for part in self._parts)])
        schemas = [part.arrow_schema for part in self._parts]
        for part, schema in zip(self._parts[1:], schemas[1:], strict=True):
            _refuse_other_columns(schemas[0], schema, self._parts[0].name, part.name)
        self._constants = _partition_columns(self.files)
        self.arrow_schema = schemas[0]
        for name, values in self._constants.items():
            self.arrow_schema = self.arrow_schema.append(pa.field(name, values.type))

    @property
    def n_rows(self) -> int:
        return int(self._first_rows[-1])

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self._refuse_change()
        stored = [name for name in columns if name not in self._constants]
        for number, part in enumerate(self._parts):
            if not stored:
                for first in range(0, part.n_rows, BATCH_ROWS):
                    yield self._completed({}, min(BATCH_ROWS, part.n_rows - first), number, columns)
                continue
            for batch in part.batches(stored):
                yield self._completed(dict(zip(stored, batch.columns, strict=True)), batch.num_rows, number, columns)

    def _completed(self, arrays: Mapping[str, pa.Array], n_rows: int, number: int, columns: Sequence[str]) -> pa.RecordBatch:
        """A batch of a part, with the columns that its folders stand for added."""
        found = [
            pa.repeat(self._constants[name][number], n_rows) if name in self._constants else arrays[name] for name in columns
        ]
        return pa.record_batch(found, names=list(columns))

    def _declared_order(self, field: pa.Field) -> tuple[Level, ...] | None:
        if field.name in self._constants:
            return None
        orders = {part._declared_order(field) for part in self._parts if part.n_rows}
        return orders.pop() if len(orders) == 1 else None

    def counts(
        self, columns: Sequence[str], *, weight: str | None = None, recodes: Mapping[str, EncodedColumn] | None = None
    ) -> GroupedCounts:
        try:
            return super().counts(columns, weight=weight, recodes=recodes)
        except BadInput:
            # The engine reads all parts at once; reading each part alone shows which one is damaged.
            for _ in self.batches([*columns, *([] if weight is None else [weight])]):
                pass
            raise

    def _scanned(self) -> Any:
        if self._constants or not all(part.can_scan for part in self._parts):
            return None
        return self._connection.read_parquet([str(path) for path in self.paths], hive_partitioning=False)

    def write_with_replacements(self, path: str | Path, rows: NDArray[np.int64], columns: Columns) -> Path:
        """Write a folder of the same parts.

        A column that folders stood for is written into the parts, because its values may have to change in some records;
        the parts are then numbered, in the same order.
        """
        self._refuse_change()
        wanted = np.asarray(rows, dtype=np.int64)
        values = {name: as_arrow(new) for name, new in columns.items()}
        part_of_row = np.searchsorted(self._first_rows, wanted, side="right") - 1
        pieces = (piece for part in self._parts for piece in part.dictionary_pieces(list(columns)))
        with readable_errors(self.name):
            forms = dictionary_forms(pieces, list(columns))
        with atomic_folder(path) as folder:
            for number, part in enumerate(self._parts):
                inside = np.flatnonzero(part_of_row == number)
                name = f"part-{number:05d}.parquet" if self._constants else self.files.names[number]
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                part.write_with_replacements(
                    target,
                    wanted[inside] - self._first_rows[number],
                    {column: new.take(as_arrow(inside)) for column, new in values.items()},
                    added={column: constants[number] for column, constants in self._constants.items()},
                    forms=forms,
                )
        return Path(path)

    def write_levels(self, path: str | Path, recodes: Recodes) -> Path:
        """Write a folder of the same parts; columns that folders stood for are first written into the parts."""
        self._refuse_change()
        if self._constants:
            with temporary_folder(path) as folder:
                plain = self.write_with_replacements(folder / "parts", np.empty(0, dtype=np.int64), {})
                return ParquetPartsSource(plain, settings=self.settings).write_levels(path, recodes)
        with atomic_folder(path) as folder:
            for name, part in zip(self.files.names, self._parts, strict=True):
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                part.write_levels(target, recodes)
        return Path(path)


def _refuse_other_columns(first: pa.Schema, other: pa.Schema, first_name: str, other_name: str) -> None:
    """Refuse parts whose columns or types differ; their order may differ."""
    csv.refuse_duplicates(first.names, first_name)
    csv.refuse_duplicates(other.names, other_name)
    remedy = "Write all parts with the same columns, or name those that belong together by a wildcard."
    for has, lacks, one, two in ((first, other, first_name, other_name), (other, first, other_name, first_name)):
        for name in has.names:
            if name not in lacks.names:
                raise BadInput(f"{two} has no column '{name}', which {one} has. {remedy}")
    for field in first:
        found = other.field(field.name).type
        if found != field.type:
            raise BadInput(f"Column '{field.name}' is {found} in {other_name} and {field.type} in {first_name}. {remedy}")


def _partition_columns(files: PartFiles) -> dict[str, pa.Array]:
    """For each column that folders stand for, its value in every part."""
    names = list(files.partitions[0])
    for part, found in zip(files.paths, files.partitions, strict=True):
        if list(found) != names:
            raise BadInput(
                f"{part} lies below the folders {', '.join(found) or 'of no column'}, {files.paths[0]} below "
                f"{', '.join(names) or 'those of no column'}. Every part must lie below folders of the same columns; name those that "
                "belong together by a wildcard."
            )
    columns = {}
    for name in names:
        values = [None if found[name] == _NO_VALUE else found[name] for found in files.partitions]
        are_whole = all(value is None or _is_whole(value) for value in values)
        columns[name] = pa.array([None if v is None else int(v) for v in values], pa.int64()) if are_whole else pa.array(values)
    return columns


def _is_whole(text: str) -> bool:
    return text.lstrip("-").isdecimal() and str(int(text)) == text and abs(int(text)) < 2**63
