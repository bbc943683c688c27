"""Which number did a person write?

Thousands may be separated by commas, points, spaces or apostrophes, and the decimal mark is a comma or a point. Text that could
mean two numbers is refused, and both readings are named.
"""

from __future__ import annotations

import math
import re

from rarecell.errors import BadInput

_SPACES = str.maketrans("", "", " \u00a0\u202f'’_")
_APART = re.compile("[+-]?[0-9]{1,3}(?:[ \u00a0\u202f'’,.][0-9]{3})+")
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+|[+-]?[0-9]{1,3}(?:\.[0-9]{3})+")


def whole_number(text: str, what: str) -> int:
    """Read a whole number as people write it.

    Examples
    --------
    >>> [whole_number(text, "The size") for text in ("1087835", "1,087,835", "1.087.835", "1'087'835", "1 087 835")]
    [1087835, 1087835, 1087835, 1087835, 1087835]
    """
    plain = text.translate(_SPACES)
    if _THOUSANDS.fullmatch(plain) or _APART.fullmatch(text):
        plain = plain.replace(",", "").replace(".", "")
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", plain):
        raise BadInput(f"{what} was written as '{text}'; write a whole number, for example 100.")
    return int(plain)


def decimal_number(text: str, what: str) -> float:
    """Read a number with or without decimals as people write it.

    Examples
    --------
    >>> [decimal_number(text, "The threshold") for text in ("0.2", "0,2", "1'000.5", "1.087.835")]
    [0.2, 0.2, 1000.5, 1087835.0]
    """
    plain = text.translate(_SPACES)
    if re.fullmatch(r"[+-]?[1-9][0-9]{0,2}[,.][0-9]{3}", plain):
        apart, decimals = plain.replace(",", "").replace(".", ""), plain.replace(",", ".")
        raise BadInput(f"{what} was written as '{text}', which may mean {apart} or {float(decimals):g}. Write one of these.")
    if _THOUSANDS.fullmatch(plain):
        plain = plain.replace(",", "").replace(".", "")
    elif plain.count(",") == 1 and "." not in plain:
        plain = plain.replace(",", ".")
    try:
        number = float(plain)
    except ValueError:
        raise BadInput(f"{what} was written as '{text}'; write a number, for example 0.2.") from None
    if not math.isfinite(number):
        raise BadInput(f"{what} was written as '{text}', which is not a valid size.")
    return number
