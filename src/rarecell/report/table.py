"""What is a table of the report, on the page and as a CSV file, and what does it mean?

The page of the reference that explains every table of the report, ``meaning.md``, is part of the package, so that the report can say under
each table what a row is and what to look at, without asking the network for anything.
"""

from __future__ import annotations

import csv
import functools
import io
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from rarecell.outcome.words import expected, harmless, number, titled, with_labels

Format = Callable[[Any], str]


@dataclass(frozen=True)
class Column:
    """A column: its heading, how the page formats its values, and whether they are numbers.

    ``of`` takes its value from the part of a summary that a row is about; a column that ``is_optional`` is left out where no part has one.
    """

    heading: str
    write: Format = number
    is_number: bool = True
    of: Callable[[Any], Any] | None = None
    is_optional: bool = False


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

    @classmethod
    def of(
        cls,
        name: str,
        caption: str,
        parts: Iterable[Any],
        columns: Sequence[Column],
        *,
        most_on_page: int | None = None,
        is_internal: bool = False,
    ) -> Table:
        """A table with a row for each of some parts of a summary."""
        parts = tuple(parts)
        values = {column: [column.of(part) for part in parts] for column in columns if column.of is not None}
        shown = [column for column in values if not column.is_optional or any(value is not None for value in values[column])]
        rows = tuple(zip(*(values[column] for column in shown), strict=True))
        return cls(name, caption, tuple(shown), rows, None if most_on_page is None else rows[:most_on_page], is_internal)

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
                return [titled(name, labels) if isinstance(name, str) else name for name in value]
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


Part = str | Callable[[Any], Any]
"""What a column has of the part of a summary that a row is about: the name of a field, or a function."""


def _taken(of: Part | None) -> Callable[[Any], Any] | None:
    return attrgetter(of) if isinstance(of, str) else of


def text_column(heading: str, of: Part | None = None, *, is_optional: bool = False) -> Column:
    """A column of words."""
    return Column(heading, number, is_number=False, of=_taken(of), is_optional=is_optional)


def names_column(heading: str, of: Part | None = None) -> Column:
    """A column of lists of names."""
    return Column(heading, lambda names: ", ".join(names), is_number=False, of=_taken(of))


def number_column(heading: str, of: Part, write: Format = number, *, is_optional: bool = False) -> Column:
    """A column of numbers."""
    return Column(heading, write, of=_taken(of), is_optional=is_optional)


# ---------------------------------------------------------------------- what a table means

PAGE = Path(__file__).with_name("meaning.md")

_LINE = re.compile(r"^\| (?P<names>`[^|]*`) \|(?P<row>[^|]*)\|(?P<look>[^|]*)\|$", re.MULTILINE)
_REFERENCE = re.compile(r"\{doc\}`\.\./([^`]+)`")


@dataclass(frozen=True)
class Meaning:
    """What a row of a table is, what to look at, and the pages of the documentation that say more."""

    table: str
    row: str
    look_at: str
    pages: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """One or two sentences for a reader of the report."""
        look = f" Look at {self.look_at}." if self.look_at else ""
        more = f" More in the documentation: {', '.join(self.pages)}." if self.pages else ""
        return f"A row is {self.row}.{look}{more}"


@functools.cache
def meanings() -> dict[str, Meaning]:
    """The meaning of every table, by its name."""
    by_table: dict[str, Meaning] = {}
    for line in _LINE.finditer(PAGE.read_text(encoding="utf-8")):
        pages = tuple(_REFERENCE.findall(line["look"]))
        look_at = _plain(_REFERENCE.sub("", line["look"])).rstrip(". ")
        for name in re.findall(r"`([a-z-]+)`", line["names"]):
            by_table[name] = Meaning(name, _plain(line["row"]), look_at, pages)
    return by_table


def meanings_of(tables: Collection[str]) -> dict[str, Meaning]:
    """The meanings of the tables that a report shows, in the order of the reference."""
    return {name: meaning for name, meaning in meanings().items() if name in tables}


def _plain(text: str) -> str:
    """Markdown without its marks."""
    return re.sub(r"[`*]", "", text).strip()
