"""Which numbers are acceptable as input?

Comparisons with "nan" are always false: as a threshold it would silently switch a gate off. A number too large for
the machine would end in a traceback, hours later.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rarecell.errors import BadInput

LARGEST_COUNT = 2**53
"""Up to here every whole number is exact in floating point, so that counts stay exact."""

LARGEST_INTEGER = 2**63 - 1


def check_plain(value: Any, what: str) -> None:
    """Raise when a number, or one inside a list or table, is not finite or too large for the machine, or a text has NUL in it.

    Parameters
    ----------
    value : Any
        The value that a user gave.
    what : str
        What the error message calls it.
    """
    if isinstance(value, Mapping):
        for name, inner in value.items():
            check_plain(name, what)
            check_plain(inner, f"'{name}' of {what}")
    elif isinstance(value, list | tuple):
        for inner in value:
            check_plain(inner, what)
    elif isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"{what} was given as {value}, which is not a number to count or compare with. Give a finite number.")
    elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise BadInput(f"{what} was given as a whole number of {_n_digits(value)} digits. Give one of at most 18 digits.")
    elif isinstance(value, str) and "\0" in value:
        raise BadInput(f"{what} was given as {value!r}, with a NUL character, which no name of a file or a column has.")


def check_range(value: float | None, what: str, low: float, high: float = math.inf) -> None:
    """Raise when a number lies outside its range; None is allowed."""
    if value is None:
        return
    check_plain(value, what)
    if not low <= value <= high:
        expected = f"at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"
        raise BadInput(f"{what} was given as {value:g}; it must be {expected}.")


def _n_digits(value: int) -> int:
    return int(abs(value).bit_length() * math.log10(2)) + 1
