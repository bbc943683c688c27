"""How does a table fit into the width of a terminal, and what is printed at all?

Columns of plain text, the same at a terminal and in a pipe. If a table is too wide, its headings wrap first, then its text
columns, widest first. Numbers never wrap, and no word is broken, because it may be a name or an option to be copied.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Collection, Sequence
from itertools import zip_longest

import click

DEFAULT_WIDTH = 80
"""Width of the output if there is no terminal to ask and COLUMNS is not set."""

_MARGIN, _GAP = 2, 2


_CONTROL = re.compile("[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]|\x1b(?!\\[[01]m)")
"""Characters that move, hide or turn round text, but for the beginning and the end of our own bold type."""


def echo(text: str = "", *, err: bool = False) -> None:
    """Print a text with the control characters of names and values escaped: they could hide a line of a terminal, or fake one."""
    click.echo(_CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text), err=err)


def terminal_width() -> int:
    """Width of the terminal in characters, or the value of COLUMNS, or 80."""
    return shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns


def table_lines(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = (), width: int = DEFAULT_WIDTH
) -> list[str]:
    """Lay out a table.

    Parameters
    ----------
    headers : sequence of str
        One heading for each column; may be empty.
    rows : sequence of sequences of str
        The cells.
    right : collection of int
        Columns that are right-aligned and never wrapped: numbers.
    width : int
        No line is longer, unless numbers and single words leave no choice.

    Returns
    -------
    list of str
        The lines, headings first if there are any.
    """
    widths = _widths(headers, rows, right, width)
    wrapped = [[_wrapped(text, w) for text, w in zip(row, widths, strict=True)] for row in (headers, *rows)]
    # A heading stands directly above its column.
    most = max(map(len, wrapped[0]), default=0)
    wrapped[0] = [[""] * (most - len(lines)) + lines for lines in wrapped[0]]
    shown = wrapped if any(headers) else wrapped[1:]
    return [line for row in shown for line in _row_lines(row, widths, right)]


def _widths(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int], width: int) -> list[int]:
    """Choose a width for each column so that they fit together if possible."""
    columns = list(zip(*rows, strict=True)) or [()] * len(headers)
    cells = [max(map(len, column), default=0) for column in columns]
    headings = [max(map(len, text.split()), default=0) for text in headers]
    # Numbers stay whole; text may shrink to its longest word.
    least = [
        max(heading, cell if place in right else max((len(word) for text in column for word in text.split()), default=0))
        for place, (heading, cell, column) in enumerate(zip(headings, cells, columns, strict=True))
    ]
    widths = [max(len(header), cell) for header, cell in zip(headers, cells, strict=True)]
    room = width - _MARGIN - _GAP * (len(headers) - 1)
    floors = [max(cell, low) for cell, low in zip(cells, least, strict=True)]
    for floor in (floors, least):
        while sum(widths) > room and any(w > low for w, low in zip(widths, floor, strict=True)):
            widths[max((w, place) for place, w in enumerate(widths) if w > floor[place])[1]] -= 1
    return widths


def _wrapped(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]


def _row_lines(cells: Sequence[Sequence[str]], widths: Sequence[int], right: Collection[int]) -> list[str]:
    lines = []
    for parts in zip_longest(*cells, fillvalue=""):
        placed = [
            text.rjust(width) if place in right else text.ljust(width)
            for place, (text, width) in enumerate(zip(parts, widths, strict=True))
        ]
        lines.append((" " * _MARGIN + (" " * _GAP).join(placed)).rstrip())
    return lines
