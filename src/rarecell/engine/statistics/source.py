"""How are files of Stata, SPSS and SAS read, with their labels and user-missing codes, and written back?

pyreadstat (extra ``stats``) reads them. Codes stay codes: value labels are kept beside them, and user-missing codes
count as missing but are exchanged and written back as they are. Dates are the numbers that these packages store, and formats say
which numbers are dates. A Stata
file is written back by changing only the bytes of the changed values; SPSS and SAS transport files are written anew with
all their labels and formats. Only SAS itself writes ``.sas7bdat``, so such data are written as ``.xpt``.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rarecell.engine.changes import Changes, ColumnChanges
from rarecell.engine.columnar.source import ParquetSource
from rarecell.engine.columnar.write import with_values
from rarecell.engine.duck import EngineSettings
from rarecell.engine.files import CachedSource, FileSource
from rarecell.engine.output import atomic_path
from rarecell.engine.places import FileStamp
from rarecell.engine.source import BATCH_ROWS, Column, StoredDate
from rarecell.engine.statistics.stata import write_stata
from rarecell.engine.statistics.write import changed_values, codes_of, stata_changes
from rarecell.engine.text.scan import encoding_of, refuse_duplicates
from rarecell.errors import BadInput, MissingExtra, RarecellError

if TYPE_CHECKING:
    from rarecell.edges import Columns, Level
    from rarecell.engine.changes import WrittenLevels
    from rarecell.engine.statistics.write import NewColumn


_OLD_ENCODING = "WINDOWS-1252"
MANY_LABELS = 3
"""A column of codes with at least this many labelled values is a list of categories without a natural order."""


_SPSS_DATES = re.compile(r"(A|E|J|S)?DATE[0-9.]*|DATETIME[0-9.]*|YMDHMS[0-9.]*|(QYR|MOYR|WKYR)[0-9.]*")
_STATA_DATES = re.compile(r"%-?(t?d|tc|tC).*")
_SAS_MOMENTS = re.compile(r"(DATETIME|DATEAMPM|E8601DT|B8601DT|DTDATE|DTMONYY|DTYEAR|MDYAMPM)[0-9A-Z.]*")
_SAS_DAYS = re.compile(r"(DATE|DAY|DDMMYY|MMDDYY|YYMMDD|E8601DA|B8601DA|JULIAN|MONYY|YYMM|YYQ|WEEKDATE|WORDDATE)[A-Z]*[0-9.]*")


def stored_date(kind: str, variable_format: str) -> StoredDate | None:
    """How numbers with a format stand for dates; None where the format is none of a date with a day.

    SPSS counts seconds since 14 October 1582, Stata days or milliseconds, and SAS days or seconds since 1 January 1960. SPSS and SAS
    keep the day where the format shows only the month; monthly dates of Stata (``%tm``) have none.

    Examples
    --------
    >>> stored_date(".sav", "EDATE10").per_day, stored_date(".dta", "%td").per_day, stored_date(".dta", "%tm")
    (86400, 1, None)
    """
    name, of_1960 = variable_format.strip(), datetime.date(1960, 1, 1)
    if kind in (".sav", ".zsav"):
        return StoredDate(datetime.date(1582, 10, 14), 86_400) if _SPSS_DATES.fullmatch(name.upper()) else None
    if kind == ".dta":
        if not _STATA_DATES.fullmatch(name):
            return None
        has_time = name.lstrip("%-").lower().startswith("tc")
        return StoredDate(of_1960, 86_400_000 if has_time else 1, has_leap_seconds=name.lstrip("%-").startswith("tC"))
    if _SAS_MOMENTS.fullmatch(name.upper()):
        return StoredDate(of_1960, 86_400)
    return StoredDate(of_1960, 1) if _SAS_DAYS.fullmatch(name.upper()) else None


class StatisticsSource(CachedSource):
    """A file of a statistics package."""

    batch_rows: int = BATCH_ROWS
    """Number of records decoded at a time."""

    def __init__(self, path: Path, *, settings: EngineSettings) -> None:
        super().__init__(str(path), settings=settings)
        if importlib.util.find_spec("pyreadstat") is None:
            raise MissingExtra.needed(f"Reading {path.suffix} files", "stats")
        self.path = path
        self._stamp = FileStamp(path)
        self.kind = path.suffix.lower()
        self.suffix = ".xpt" if self.kind == ".sas7bdat" else path.suffix
        # The encoding of text where it is not the one that the file declares.
        given = settings.encoding
        self.text_encoding: str | None = None if given is None else (encoding_of(path, given) or "utf-8").upper()

    def check_writable(self) -> None:
        if self.kind != ".dta":
            _frame_library()

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.path,)

    def _read(self, **options: Any) -> tuple[Any, Any]:
        import pyreadstat

        self._stamp.refuse_change()
        readers: dict[str, Callable[..., tuple[Any, Any]]] = {
            ".dta": pyreadstat.read_dta,
            ".sav": pyreadstat.read_sav,
            ".zsav": pyreadstat.read_sav,
            ".sas7bdat": pyreadstat.read_sas7bdat,
            ".xpt": pyreadstat.read_xport,
        }
        options.setdefault("user_missing", True)
        if self.kind == ".xpt":
            del options["user_missing"]
        with _readable_errors(self.path):
            try:
                values_and_metadata = readers[self.kind](
                    str(self.path), disable_datetime_conversion=True, encoding=self.text_encoding, **options
                )
            except UnicodeDecodeError:
                # Older programs wrote text of their own code page into files that are declared to be UTF-8.
                if self.text_encoding is not None:
                    raise
                self.text_encoding = _OLD_ENCODING
                return self._read(**options)
        self._stamp.refuse_change()
        return values_and_metadata

    @property
    def notes(self) -> tuple[str, ...]:
        self._inner  # noqa: B018 - the encoding is known only after reading
        if self.settings.encoding is not None or self.text_encoding is None:
            return ()
        return (f"The text of {self.path.name} is not UTF-8 and was read as {self.text_encoding.lower()}.",)

    @cached_property
    def metadata(self) -> Any:
        """Labels, formats and missing codes, as pyreadstat returns them."""
        metadata = self._read(metadataonly=True, output_format="dict")[1]
        refuse_duplicates(metadata.column_names, self.name)
        return metadata

    # ------------------------------------------------------------------ reading

    def columns(self) -> tuple[Column, ...]:
        return tuple(self._column(column) for column in self._inner.columns())

    def _column(self, column: Column) -> Column:
        metadata, name = self.metadata, column.name
        labels = dict(metadata.variable_value_labels.get(name, {}))
        missing: list[Level] = []
        for part in metadata.missing_ranges.get(name, []):
            missing.append((part["lo"], part["hi"]) if isinstance(part["lo"], (int, float)) else part["lo"])
        is_number = metadata.readstat_variable_types[name] != "string"
        if is_number and column.kind == "text":
            # Numbers among which Stata or SAS use letters for kinds of missing values: see _arrow_column.
            column = replace(column, kind="untyped")
            missing += [f".{letter}" for letter in "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"]
        said = metadata.column_names_to_labels.get(name) or ""
        date = stored_date(self.kind, metadata.original_variable_types.get(name) or "") if is_number else None
        described = replace(column, value_labels=labels, user_missing=tuple(missing), label=said, stored_date=date)
        named = [value for value in labels if not isinstance(value, str) and not described.is_user_missing(value)]
        measure = metadata.variable_measure.get(name, "unknown")
        if measure in ("ordinal", "nominal", "scale"):
            return replace(described, is_ordered=measure != "nominal")
        return replace(described, is_ordered=False) if is_number and len(named) >= MANY_LABELS else described

    def _open_copy(self, path: Path) -> FileSource:
        return ParquetSource(path, settings=self.settings)

    def _fill(self, path: Path) -> None:
        names = list(self.metadata.column_names)
        if not names:
            raise BadInput(f"{self.path} has no columns. Name the file that holds the data.")
        # Letters among the numbers of a column are noticed only when they occur; then all its values are kept as text.
        as_text: set[str] = set()
        while True:
            try:
                self._write_chunks(path, names, as_text)
                return
            except _LettersFound as letters:
                as_text.add(letters.column)

    def _write_chunks(self, path: Path, names: Sequence[str], as_text: set[str]) -> None:
        schema = pa.schema([(name, self._type(name, name in as_text)) for name in names])
        with pq.ParquetWriter(path, schema) as writer:
            first = 0
            while True:
                chunk, _ = self._read(row_offset=first, row_limit=self.batch_rows, output_format="dict")
                n_rows = len(chunk[names[0]]) if chunk else 0
                if n_rows:
                    with _readable_errors(self.path):
                        arrays = [_arrow_column(name, chunk[name], schema.field(name).type, name in as_text) for name in names]
                    writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
                first += n_rows
                if n_rows < self.batch_rows:
                    return

    def _type(self, name: str, as_text: bool) -> pa.DataType:
        kept_as = self.metadata.readstat_variable_types[name]
        if as_text or kept_as == "string":
            return pa.string()
        return pa.int64() if kept_as.startswith("int") else pa.float64()

    # ------------------------------------------------------------------ writing

    def write(self, path: str | Path, changes: Changes) -> Path:
        self._inner  # noqa: B018 - reads the data now, if not before: what is written is compared with what was read
        self._stamp.refuse_change()
        changes.check(self.metadata.column_names, lambda: self.n_rows)
        if self.kind == ".dta":
            write_stata(
                Path(path),
                self.path,
                self.n_rows,
                stata_changes(self, changes),
                dropped=changes.dropped,
                order=changes.order,
                encoding=self.text_encoding,
            )
        else:
            self._write_anew(Path(path), changes)
        self._stamp.refuse_change()
        return Path(path)

    def levels_read_back(self, column: str, written: WrittenLevels) -> tuple[Level, ...]:
        codes = None if written.only_blanks else codes_of(self, column, written)
        return super().levels_read_back(column, written) if codes is None else codes

    def levels_of_records(self, column: str, change: ColumnChanges) -> NDArray[np.int32]:
        """The level of each record once values are exchanged and blanked, −1 where it is missing."""
        levels, first = [np.empty(0, dtype=np.int32)], 0
        for batch in self.batches([column]):
            rows, values = change.new_values(first, batch.num_rows)
            levels.append(change.levels_of(with_values(batch.column(0), rows, values), first))
            first += batch.num_rows
        return np.concatenate(levels)

    def _write_anew(self, path: Path, changes: Changes) -> None:
        # Kinds of missing values that SAS distinguishes by letters cannot be stored in a transport file written here.
        values, metadata = self._read(output_format="dict", user_missing=self.kind in (".sav", ".zsav"))
        new = changed_values(self, values, changes, _as_number)
        values = {name: new[name].values if name in new else old for name, old in values.items()}
        if changes.order is not None:
            order = changes.order.tolist()
            values = {name: [column[row] for row in order] for name, column in values.items()}
        kept = {name: column for name, column in values.items() if name not in changes.dropped}
        self._write_values(path, kept, metadata, {name: column for name, column in new.items() if column.labels is not None})

    def _write_values(self, path: Path, values: Columns, metadata: Any, new: Mapping[str, NewColumn]) -> None:
        import pyreadstat

        def unchanged(of_columns: Mapping[str, Any]) -> dict[str, Any]:
            return {name: kept for name, kept in of_columns.items() if name not in new and name in values}

        labels = {
            **unchanged(metadata.variable_value_labels),
            **{name: column.labels for name, column in new.items() if column.labels},
        }
        measures = {name: "ordinal" if column.is_ordered else "nominal" for name, column in new.items()}
        frame = _frame(values)
        shared: dict[str, Any] = {
            "file_label": metadata.file_label or "",
            "column_labels": {name: label for name, label in metadata.column_names_to_labels.items() if name in values},
            "variable_format": {name: kept for name, kept in unchanged(metadata.original_variable_types).items() if kept},
        }
        with atomic_path(path) as temporary, _readable_errors(path):
            if self.kind in (".sav", ".zsav"):
                pyreadstat.write_sav(
                    frame,
                    str(temporary),
                    compress=self.kind == ".zsav",
                    note=list(metadata.notes),
                    variable_value_labels=labels,
                    missing_ranges=unchanged(metadata.missing_ranges),
                    variable_display_width=unchanged(metadata.variable_display_width),
                    variable_measure={**unchanged(metadata.variable_measure), **measures},
                    **shared,
                )
            else:
                pyreadstat.write_xport(frame, str(temporary), table_name=metadata.table_name or "DATA", **shared)


class _LettersFound(Exception):
    """Raised when a column of numbers holds the letters by which Stata and SAS distinguish kinds of missing values."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


def _arrow_column(name: str, values: Sequence[Level], arrow_type: pa.DataType, has_letters: bool) -> pa.Array:
    if has_letters:
        return pa.array([_number_or_letter(value) for value in values], arrow_type)
    if not pa.types.is_string(arrow_type) and any(isinstance(value, str) for value in values):
        raise _LettersFound(name)
    return pa.array(values, arrow_type, from_pandas=True)


def _number_or_letter(value: Level) -> str | None:
    """A number in full, or a letter after a dot, as Stata and SAS print kinds of missing values."""
    if value is None or isinstance(value, str):
        return None if value is None else f".{value}"
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _as_number(value: Level) -> float | None:
    return None if isinstance(value, str) and value.startswith(".") and value[1:].isalpha() else float(value)


def _frame(values: Columns) -> Any:
    return importlib.import_module(_frame_library()).DataFrame(dict(values))


def _frame_library() -> str:
    for library in ("polars", "pandas"):
        if importlib.util.find_spec(library) is not None:
            return library
    raise MissingExtra.needed("Writing SPSS and SAS files", "stats")


@contextlib.contextmanager
def _readable_errors(path: Path) -> Iterator[None]:
    """Report any error that decoding a damaged file raises in one paragraph.

    pyreadstat raises its own errors and, on damaged labels, those of the wrapper around the C library, such as TypeError.
    """
    try:
        yield
    except (RarecellError, OSError, _LettersFound):
        raise
    except Exception as problem:
        reason = str(problem).split("\n")[0].rstrip(".")
        raise BadInput(
            f"{path} is damaged or of a version that is not known: {reason}. Open it in the program that wrote it and save it again, "
            "or export it as CSV."
        ) from None
