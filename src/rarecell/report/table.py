"""What is a table of the report, on the page and as a CSV file?"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rarecell.outcome.words import expected, harmless, number, titled, with_labels

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

    def labelled(self, labels: Mapping[str, str]) -> Table:
        """The table with the labels of the columns that it names; its CSV file has their names."""
        if not labels:
            return self

        def shown(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return [titled(one, labels) if isinstance(one, str) else one for one in value]
            return with_labels(value, labels) if isinstance(value, str) else value

        rows = tuple(tuple(shown(value) for value in row) for row in self.page_rows or self.rows)
        return replace(self, page_rows=rows)

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
