"""How is a sheet of an Excel or OpenDocument workbook read?

The first row that is not empty holds the column names. Cells become text as in a CSV file, numbers without a needless
``.0``. What is written from a workbook is CSV, because a workbook holds formats, formulas and other sheets, which could
reveal the unprotected data. python-calamine (extra ``excel``) reads it.
"""

from __future__ import annotations

import csv as text
import datetime
import importlib.util
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rarecell.engine.duck import EngineSettings
from rarecell.engine.files import CachedSource, FileSource
from rarecell.engine.places import FileStamp
from rarecell.engine.source import Column
from rarecell.engine.text import scan
from rarecell.engine.text.source import CsvSource
from rarecell.errors import BadInput, MissingExtra, nearest_names

if TYPE_CHECKING:
    from rarecell.edges import Level

_TIMES = (datetime.date, datetime.time, datetime.timedelta)


FIRST_ROUNDED = 2**53
"""The least whole number that the next one is rounded to: below it floats tell all of them apart."""


class WorkbookSource(CachedSource):
    """One sheet of a workbook: the one that ``settings.sheet`` names, or else the first that is not empty."""

    copy_name = "records.csv"
    suffix = ".csv"

    def __init__(self, path: Path, *, settings: EngineSettings) -> None:
        super().__init__(str(path), settings=settings)
        if importlib.util.find_spec("python_calamine") is None:
            raise MissingExtra.needed(f"Reading {path.suffix} files", "excel")
        self.path = path
        self._stamp = FileStamp(path)
        self._dates: dict[str, str] = {}

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.path,)

    @property
    def settings_of_output(self) -> EngineSettings | None:
        return replace(self.settings, encoding=None)

    @property
    def notes(self) -> tuple[str, ...]:
        self._inner  # noqa: B018 - which sheet is read is known only after reading
        said = f"Sheet '{self.sheet}' of {self.path.name} was read."
        others = [name for name in self.sheets if name != self.sheet]
        if others:
            listed = ", ".join(f"'{name}'" for name in others[:4]) + (" and more" if len(others) > 4 else "")
            said += f" The workbook also has {listed}; choose with --sheet."
        notes = [f"{said} A protected file is written as CSV."]
        self._stamp.refuse_change()
        if _has_errors(self.path):
            notes.append(f"{self.path.name} holds cells with errors such as #N/A; they count as missing.")
        return tuple(notes)

    def columns(self) -> tuple[Column, ...]:
        return tuple(replace(column, kind="other") if column.name in self._dates else column for column in self._inner.columns())

    def why_no_key(self, column: str) -> str:
        return (
            f"holds dates or times, such as in row {self._dates[column]}, which are as good as a name. Put the year, or an age in years, "
            "into a column of its own and use that"
        )

    # ------------------------------------------------------------------ reading

    def _open_copy(self, path: Path) -> FileSource:
        return CsvSource(path, settings=self.settings)

    def _fill(self, path: Path) -> None:
        self._stamp.refuse_change()
        rows = self._rows()
        header: list[str] | None = None
        with open(path, "w", encoding="utf-8", newline="") as out:
            writer = text.writer(out, lineterminator="\n")
            waiting: list[list[str]] = []
            for number, row in enumerate(rows, start=1):
                if header is None:
                    header = self._header(row, number)
                    if header:
                        writer.writerow(header)
                    header = header or None
                    continue
                cells = self._cells(row, number, header)
                # Rows without any value are kept only when others follow: a sheet may have empty rows below the data.
                waiting.append(cells)
                if any(cells):
                    writer.writerows(waiting)
                    waiting = []
        self._stamp.refuse_change()
        if header is None:
            raise BadInput(f"Sheet '{self.sheet}' of {self.path} is empty. Choose another one with --sheet.")
        try:
            scan.read_dialect(path)
        except BadInput as problem:
            raise BadInput(str(problem).replace(str(path), f"sheet '{self.sheet}' of {self.path}")) from None

    def _rows(self) -> Iterator[list[Level]]:
        import python_calamine

        try:
            book = python_calamine.load_workbook(str(self.path))
            self.sheets = tuple(book.sheet_names)
            self.sheet = self._chosen(book)
            sheet = book.get_sheet_by_name(self.sheet)
            yield from sheet.to_python(skip_empty_area=False)
        except BadInput:
            raise
        except python_calamine.PasswordError:
            raise self._protected() from None
        except Exception as problem:
            # The reader raises its own errors, about the archive and its XML, and panics on some damaged files.
            with open(self.path, "rb") as stream:
                if stream.read(4) == b"\xd0\xcf\x11\xe0" and self.path.suffix.lower() in (".xlsx", ".xlsm", ".xlsb"):
                    raise self._protected() from None
            raise BadInput(
                f"{self.path} is damaged or not a workbook: it cannot be opened. Open it in the program that wrote it and save it again, "
                f"or save the sheet as 'CSV UTF-8'. ({type(problem).__name__})"
            ) from None

    def _chosen(self, book: Any) -> str:
        sheet = self.settings.sheet
        if sheet is None:
            filled = (name for name in self.sheets if book.get_sheet_by_name(name).height)
            return next(filled, self.sheets[0] if self.sheets else "")
        if sheet not in self.sheets:
            near = nearest_names(sheet, self.sheets)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            listed = ", ".join(f"'{name}'" for name in self.sheets)
            raise BadInput(f"{self.path} has no sheet '{sheet}'.{hint} It has: {listed}.")
        return sheet

    def _protected(self) -> BadInput:
        return BadInput(
            f"{self.path} is protected by a password. Open it in the program that wrote it, save a copy without a password where only "
            "you can read it, and name that."
        )

    # ------------------------------------------------------------------ cells

    def _header(self, row: list[Level], number: int) -> list[str]:
        """The column names; none when the row is empty."""
        names = [_shown(value) for value in row]
        while names and not names[-1].strip():
            names.pop()
        if any(isinstance(value, _TIMES) for value in row):
            raise BadInput(
                f"Row {number} of sheet '{self.sheet}' of {self.path} holds a date where column names are expected. Put the name of each "
                "column into the first row."
            )
        return names

    def _cells(self, row: list[Level], number: int, header: list[str]) -> list[str]:
        cells = [_shown(value) for value in row]
        if any(cells[len(header) :]):
            raise BadInput(
                f"Row {number} of sheet '{self.sheet}' of {self.path} has a value right of the last named column, '{header[-1]}'. Name its "
                "column in the first row, or take the value away."
            )
        for name, value in zip(header, row, strict=False):
            if isinstance(value, _TIMES):
                self._dates.setdefault(name, str(number))
            elif isinstance(value, float) and value.is_integer() and FIRST_ROUNDED <= abs(value) < 2**63:
                raise BadInput(
                    f"Row {number} of sheet '{self.sheet}' of {self.path} has a number of more than 15 digits in column '{name}'. Workbooks "
                    "round such numbers, so that different ones may look alike. Store the column as text, or save the sheet as 'CSV UTF-8' "
                    "with the program that made the numbers."
                )
        return (cells + [""] * len(header))[: len(header)]


def _has_errors(path: Path) -> bool:
    """Whether a sheet holds errors such as #N/A, which the reader hands out as empty cells."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            sign = b' t="e"' if name.startswith("xl/worksheets/") else b'value-type="error"' if name == "content.xml" else None
            if sign is None:
                continue
            with archive.open(name) as stream:
                before = b""
                while piece := stream.read(1 << 20):
                    if sign in before + piece:
                        return True
                    before = piece[-len(sign) :]
    return False


def _shown(value: Level) -> str:
    """A cell as text, as in a CSV file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        # Workbooks keep all numbers as floats.
        return str(int(value))
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)
