"""How are many Parquet files treated as one?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.engine import csv
from rarecell.engine.arrow import as_arrow
from rarecell.engine.columnar import ColumnarSource, ParquetSource
from rarecell.engine.duck import EngineSettings
from rarecell.engine.encoded import EncodedColumn, GroupedCounts
from rarecell.engine.files import readable_errors
from rarecell.engine.output import atomic_folder, temporary_folder
from rarecell.engine.parts import PartFiles, SeveralFiles, find_parts
from rarecell.engine.replacing import dictionary_forms
from rarecell.engine.source import BATCH_ROWS
from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.edges import Columns, Level
    from rarecell.engine.written_levels import Recodes

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


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
