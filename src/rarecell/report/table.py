"""What is a table of the report, on the page and as a CSV file?"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rarecell.outcome.words import expected, harmless, number

Format = Callable[[Any], str]


@dataclass(frozen=True)
class Column:
    """A column: its heading, how the page formats its values, and whether they are numbers."""

    heading: str
    write: Format = number
    is_number: bool = True


@dataclass(frozen=True)
class Table:
    """A table: the name of its CSV file, its caption, columns and values; the page may show fewer rows of a long one.

    A table that ``is_internal`` has values of records and never leaves the office.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    page_rows: tuple[tuple[Any, ...], ...] | None = None
    is_internal: bool = False

    def written(self) -> list[list[str]]:
        """The cells as shown on the page."""
        return [
            [column.write(value) for column, value in zip(self.columns, row, strict=True)] for row in self.page_rows or self.rows
        ]

    def to_csv(self) -> str:
        """The values in full, with a heading."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([harmless(column.heading) for column in self.columns])
        writer.writerows([[harmless(value) for value in row] for row in self.rows])
        return out.getvalue()


def persons(value: Any) -> str:
    """An expected number of records or people: whole from three on, one decimal below; words stay as they are."""
    return expected(value) if isinstance(value, float) else number(value)


RISK_COLUMNS = (
    Column("Unique in the file"),
    Column("Expected population uniques", persons),
    Column("Expected correct matches", persons),
    Column("Records above the threshold"),
)
"""The risk of a file, of a release of it, or to one intruder."""


def text_column(heading: str) -> Column:
    """A column of words."""
    return Column(heading, number, is_number=False)


def names_column(heading: str) -> Column:
    """A column of lists of names."""
    return Column(heading, lambda names: ", ".join(names), is_number=False)
