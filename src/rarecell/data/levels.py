"""What do the distinct values of a column mean: numbers, words, dates, or nothing?

Typed data keep their types, except that whole numbers stored as decimals (``3.0``, as pandas stores them beside missing
values) become whole numbers. Empty text and NaN are missing.

Text files have no types, so the values decide. A column holds numbers when every value is written as a plain number,
without leading zeros, plus sign or exponent, and no two spellings mean the same number. Otherwise it is text and stays
as it is: ``00`` and ``01`` keep their zeros, and ``1.1`` and ``1.10`` remain two codes. In a column of numbers, the words
in :data:`MISSING_WORDS`, which other programs write for "no value", are missing; in a column of text they are words like
any other, because ``NA`` may be Namibia.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell.engine.source import Column
from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.edges import Level

MISSING_WORDS = frozenset({"NA", "N/A", "#N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "."})
"""Words that mean "no value" in a text file's column of numbers."""

_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True)
class RawLevels:
    """The distinct values of a column by their meaning; ``None`` is missing and may occur more than once."""

    values: tuple[Level, ...]
    is_ordered: bool
    is_numeric: bool
    note: str | None = None


def settle(values: pa.Array, column: Column, *, decimal_mark: str = ".") -> RawLevels:
    """Determine what the distinct values of a column mean."""
    try:
        listed = values.to_pylist()
    except (OverflowError, ValueError, OSError):
        raise _impossible_date(column) from None
    plain = [None if _is_missing(value) or column.is_user_missing(value) else value for value in listed]
    if column.kind == "untyped":
        settled = _settle_text(plain, column.name, decimal_mark)
    elif column.kind in ("integer", "number"):
        settled = _settle_numbers(plain, column.name)
    else:
        settled = RawLevels(tuple(plain), is_ordered=column.kind == "date", is_numeric=False)
    if column.stored_date is not None and settled.is_numeric:
        try:
            settled = RawLevels(column.stored_date.moments(settled.values), is_ordered=True, is_numeric=False)
        except OverflowError:
            raise _impossible_date(column) from None
    if column.is_ordered is not None:
        settled = RawLevels(settled.values, column.is_ordered, settled.is_numeric, settled.note)
    return settled


def whole_numbers(values: pa.Array) -> NDArray[np.int64] | None:
    """The numbers that distinct values are or spell, without a look at each; None if one is missing or no whole number.

    Examples
    --------
    >>> import pyarrow as pa
    >>> whole_numbers(pa.array(["12", "7"])), whole_numbers(pa.array(["012", "7"])), whole_numbers(pa.array([1, None]))
    (array([12,  7]), None, None)
    """
    if values.null_count:
        return None
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if not pc.all(pc.match_substring_regex(values, "^(0|-?[1-9][0-9]{0,17})$")).as_py():
            return None
        return np.asarray(values.cast(pa.int64()))
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return np.asarray(values.cast(pa.int64()))
    return None


def _impossible_date(column: Column) -> BadInput:
    return BadInput(
        f"Column '{column.name}' holds a date before the year 1 or after 9999, or one that does not exist. Correct it, or make it missing."
    )


def _settle_numbers(values: Sequence[Level], name: str) -> RawLevels:
    exact = {value for value in values if isinstance(value, Decimal)}
    if len({float(value) for value in exact}) < len(exact):
        note = f"Column '{name}' holds decimal numbers that differ only beyond 15 digits; they are taken as words, each its own level."
        texts = [None if value is None else f"{value:f}" for value in values]
        return RawLevels(tuple(texts), is_ordered=False, is_numeric=False, note=note)
    return RawLevels(tuple(_whole_if_possible(values)), is_ordered=True, is_numeric=True)


def _is_missing(value: Level) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _whole_if_possible(values: Sequence[Level]) -> list[Level]:
    if all(value is None or (math.isfinite(value) and value == int(value)) for value in values):
        return [None if value is None else int(value) for value in values]
    # A zero with a sign is the zero without: which of them comes first depends on the engine.
    return [float(value) + 0.0 if isinstance(value, (Decimal, float)) else value for value in values]


def _settle_text(values: Sequence[str | None], name: str, decimal_mark: str) -> RawLevels:
    present = [value for value in values if value is not None]
    numbers = _numbers([value for value in present if value not in MISSING_WORDS], decimal_mark)
    if numbers:
        words = sorted({value for value in present if value in MISSING_WORDS})
        note = None
        if words:
            quoted = ", ".join(f"'{word}'" for word in words)
            note = f"Column '{name}' holds numbers; {quoted} in it is read as missing."
        settled = _whole_if_possible([None if value is None else numbers.get(value) for value in values])
        return RawLevels(tuple(settled), is_ordered=True, is_numeric=True, note=note)
    dates = _dates(present)
    if dates:
        settled = [None if value is None else dates[value] for value in values]
        return RawLevels(tuple(settled), is_ordered=True, is_numeric=False)
    return RawLevels(tuple(values), is_ordered=False, is_numeric=False)


def _numbers(texts: Sequence[str], decimal_mark: str) -> dict[str, int | float] | None:
    """The number that each text means; None when one is not a plain number or two mean the same number."""
    decimal = re.compile(rf"-?(0|[1-9][0-9]*)?{re.escape(decimal_mark)}[0-9]+")
    meaning: dict[str, int | float] = {}
    for text in texts:
        if _WHOLE.fullmatch(text):
            # Longer strings of digits are identifiers, and Python refuses to convert very long ones.
            if len(text) > 300:
                return None
            meaning[text] = int(text)
        elif len(text) <= 300 and decimal.fullmatch(text):
            meaning[text] = float(text.replace(decimal_mark, "."))
        else:
            return None
    if not all(math.isfinite(number) for number in meaning.values() if isinstance(number, float)):
        return None
    return meaning if meaning and len(set(meaning.values())) == len(meaning) else None


def _dates(texts: Sequence[str]) -> dict[str, datetime.date] | None:
    if not texts or not all(_DATE.fullmatch(text) for text in texts):
        return None
    try:
        return {text: datetime.date.fromisoformat(text) for text in texts}
    except ValueError:
        return None
