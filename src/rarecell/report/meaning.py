"""What does this number mean?

The page of the reference that explains every table of the report, ``meaning.md``, is part of the package, so that the report can say under each
table what a row is and what to look at, without asking the network for anything.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

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
    found: dict[str, Meaning] = {}
    for line in _LINE.finditer(PAGE.read_text(encoding="utf-8")):
        pages = tuple(_REFERENCE.findall(line["look"]))
        look_at = _plain(_REFERENCE.sub("", line["look"])).rstrip(". ")
        for name in re.findall(r"`([a-z-]+)`", line["names"]):
            found[name] = Meaning(name, _plain(line["row"]), look_at, pages)
    return found


def meanings_of(tables: Collection[str]) -> dict[str, Meaning]:
    """The meanings of the tables that a report shows, in the order of the reference."""
    return {name: meaning for name, meaning in meanings().items() if name in tables}


def _plain(text: str) -> str:
    """Markdown without its marks."""
    return re.sub(r"[`*]", "", text).strip()
