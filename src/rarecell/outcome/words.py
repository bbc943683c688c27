"""How is a number written for a person?

The only place that formats numbers, shares and counted nouns, for terminal, report, app and charts, and that knows what a
spreadsheet would run.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

NONE = "–"
"""Stands where there is no number."""


def quoted(name: str, signs: str = ",") -> str:
    """A name as it stands in a list whose members these signs part: quoted, as in a CSV file, where it would be read as something else.

    Examples
    --------
    >>> print(quoted("age"), quoted("town, district"))
    age "town, district"
    """
    is_plain = name and name == name.strip() and not set(name) & {*signs, '"', "\n", "\r"}
    return name if is_plain else '"' + name.replace('"', '""') + '"'


def number(value: object, digits: int | None = None) -> str:
    """Format a number for people: grouped thousands, few digits, a dash if there is none; text stays as it is."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value) or math.isinf(value):
        return NONE
    if digits is None:
        digits = _enough_digits(value)
        if digits is None:
            return _powered(value)
    # Adding zero turns a rounded −0 into 0.
    return f"{round(value, digits) + 0.0:,.{digits}f}".replace("-", "−")


def _enough_digits(value: float) -> int | None:
    """Decimals needed for two or three significant figures; None for numbers too small to write out."""
    size = abs(value)
    if size >= 100 or value.is_integer():
        return 0
    if size >= 10:
        return 1
    if size >= 0.1:
        return 2
    return 1 - math.floor(math.log10(size)) if size >= 1e-4 else None


def _powered(value: float) -> str:
    exponent = math.floor(math.log10(abs(value)))
    return f"{value / 10**exponent:.1f} × {power_of_ten(exponent)}"


def power_of_ten(exponent: int | str) -> str:
    """``10⁻⁴`` for -4."""
    return "10" + str(exponent).translate(_SUPERSCRIPT)


FEWEST_PEOPLE = 3
"""People are counted in whole numbers from here on; fewer are written as *fewer than 3*."""


def expected(value: float) -> str:
    """Format an expected number of records or people where it stands alone: whole from three on, one decimal below.

    Examples
    --------
    >>> expected(0.0), expected(0.02), expected(2.44), expected(3.6)
    ('0', '< 0.1', '2.4', '4')
    """
    if 0 < value < 0.05:
        return "< 0.1"
    return number(float(value), 0 if value == 0 or abs(value) >= FEWEST_PEOPLE else 1)


def people(value: float) -> str:
    """A number of records, persons or households that are expected: never a half one.

    Examples
    --------
    >>> people(0.01), people(2.4), people(3.6), people(1204.2)
    ('no', 'fewer than 3', '4', '1,204')
    """
    if value < 0.05:
        return "no"
    if not math.isfinite(value):
        return number(value)
    if round(value) < FEWEST_PEOPLE:
        return f"fewer than {FEWEST_PEOPLE}"
    return number(float(round(value)), 0)


def about(value: float) -> str:
    """An expected number of records or people in running text."""
    if value < 0.05:
        return "practically none"
    return f"about {people(value)}" if round(value) >= FEWEST_PEOPLE else people(value)


def about_times(value: float) -> str:
    """How often something is expected to happen."""
    if value < 0.05:
        return "practically never"
    return f"{about(value)} times"


def percent(share: float, below: float | None = None) -> str:
    """A share in percent; one that is under a limit and rounds to it is written as *< 20 %*.

    Examples
    --------
    >>> percent(0.01), percent(0.0104), percent(0.215), percent(0.00002), percent(12.345)
    ('1 %', '1.0 %', '22 %', '< 0.01 %', '1,234 %')
    """
    if below is not None and share < below and percent(share) == percent(below):
        return f"< {percent(below)}"
    size = 100 * share
    if size == 0:
        return "0 %"
    if 99.5 <= size < 100:
        return "> 99 %"
    if 0 < size < 0.01:
        return "< 0.01 %"
    if size >= 10 or math.isclose(size, round(size), rel_tol=1e-9):
        return f"{size:,.0f} %"
    return f"{size:.1f} %" if size >= 0.1 else f"{size:.2g} %"


def counted(n: object, singular: str, plural: str | None = None) -> str:
    """``1 record``, ``12 records``; text such as *fewer than 3* takes the plural."""
    return f"{number(n)} {singular if n == 1 else plural or singular + 's'}"


def capital(text: str) -> str:
    """The same text, beginning with a capital letter."""
    return f"{text[:1].upper()}{text[1:]}"


def verb(n: object, singular: str, plural: str) -> str:
    """The verb that goes with a number: ``has`` or ``have``."""
    return singular if n == 1 else plural


def span(ends: Sequence[float]) -> str:
    """An interval of an expected number of records or people; a small one has a decimal, and its upper end is not rounded down.

    Examples
    --------
    >>> span((157.2, 204.8)), span((0.4, 5.2)), span((0.0, 0.23))
    ('157 to 205', '0 to 5', '0 to 0.3')
    """
    low, high = float(ends[0]), float(ends[1])
    if not 0 < high < FEWEST_PEOPLE:
        return f"{number(low, 0)} to {number(high, 0)}"
    return f"{number(low, 1 if low >= 0.05 else 0)} to {number(math.ceil(10 * high - 1e-9) / 10, 1)}"


def between(first: str, last: str) -> str:
    """What a band of neighbouring values is called; a dash between negative numbers could not be read.

    Examples
    --------
    >>> between("20", "24"), between("-5", "-1")
    ('20–24', '-5 to -1')
    """
    return f"{first} to {last}" if first.startswith("-") or last.startswith("-") else f"{first}–{last}"


def listed(names: Sequence[str], *, joint: str = "and") -> str:
    """``a, b and c``."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {joint} {names[-1]}"


def decade(label: str) -> str:
    """A decade of cell probability: ``10⁻⁴`` for an exponent, merged decades as they are."""
    return power_of_ten(label) if label.lstrip("-").isdigit() else label


MOST_LISTED = 12
"""Most names of a list that are given."""


def first_of(names: Sequence[str], most: int = MOST_LISTED) -> str:
    """List names one after the other; of many, the first few and the number of the others."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


# What would a spreadsheet run?

_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\n", "\r", "＝", "＋", "－", "＠")
_PLAIN_NUMBER = re.compile(r"[-+]?[0-9]*[.,]?[0-9]+(e[-+]?[0-9]+)?", re.IGNORECASE)
_FURTHER_CELL = re.compile(r"(?<=[;\t\n])[^;\t\n]+")
"""Where a spreadsheet that splits lines at semicolons or tabs, and not at commas, begins a cell inside of a quoted one."""


def is_formula(text: str) -> bool:
    """Whether a spreadsheet that opens a text file would take a value for a formula; a plain number is none."""
    return text.startswith(_FORMULA_SIGNS) and _PLAIN_NUMBER.fullmatch(text) is None


def harmless(value: Any) -> Any:
    """Put an apostrophe in front of text that a spreadsheet would run as a formula; join lists. For files that people read."""
    if isinstance(value, list | tuple):
        value = " ".join(str(item) for item in value)
    if not isinstance(value, str):
        return value
    # A lone carriage return would end the line.
    value = value.replace("\r\n", "\n").replace("\r", "\n")
    value = _FURTHER_CELL.sub(lambda cell: f"'{cell[0]}" if is_formula(cell[0]) else cell[0], value)
    return f"'{value}" if is_formula(value) else value


_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def fit_for_xml(document: str) -> str:
    """An XML document with the characters escaped that XML cannot hold: they come from names and values of files.

    Examples
    --------
    >>> fit_for_xml("<name>a\\x01b</name>")
    '<name>a\\\\x01b</name>'
    """
    return _NOT_IN_XML.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), document)


# What does a file call its columns? Statistics packages give a variable a name of eight letters and say in a label what it is.

_OPTION = r"""--[\w-]+(?:[ =](?:"[^"]*"|\S+))?"""
_LONGEST_LABEL = 40


def titled(name: str, labels: Mapping[str, str]) -> str:
    """A column as shown to a reader: its label with the name beside it, where the file has a label.

    Examples
    --------
    >>> titled("HL4", {"HL4": "Sex"}), titled("HL6", {"HL4": "Sex"}), titled("age", {"age": "Age"})
    ('Sex (HL4)', 'HL6', 'age')
    """
    label = labels.get(name, "").strip()
    if not label or label.lower() == name.lower():
        return name
    short = label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1].rstrip()}…"
    return f"{short} ({name})"


def with_labels(text: str, labels: Mapping[str, str]) -> str:
    """A sentence with the labels of the columns that it names; options of commands stay as they are.

    In a sentence only names that cannot be words are looked for: with a digit, or all in capitals.

    Examples
    --------
    >>> with_labels("HL4 and 'HL6' may be swapped: --treat HL6=drop.", {"HL4": "Sex", "HL6": "Age"})
    "Sex (HL4) and 'Age (HL6)' may be swapped: --treat HL6=drop."
    """
    if not labels:
        return text
    if text.strip() in labels:
        return text.replace(text.strip(), titled(text.strip(), labels))
    pattern = _named_columns(tuple(name for name in labels if re.search(r"[0-9]", name) or name.isupper()))
    if pattern is None:
        return text
    return pattern.sub(lambda match: match[0] if match[1] is None else titled(match[1], labels), text)


@functools.lru_cache(maxsize=8)
def _named_columns(names: tuple[str, ...]) -> re.Pattern[str] | None:
    either = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"""{_OPTION}|(?<![\w("./=,-])({either})(?![\w)=/"-]|\.\w)""") if names else None
