"""How exact may a number be that is shown to outsiders?

No more exact than is useful. A number with sixteen digits computed from the original can be recomputed for every way in
which the protected file could have arisen, and so tells which one it was. Two digits tell the reader as much and leave that
open. Counts of records are multiples of five, and coarser if they are large, so that no difference of two counts can be
pinned to one or two records. Risk is rounded up: no number may look better than the truth.
"""

from __future__ import annotations

import math

STEP = 5
"""Finest multiple to which counts are rounded."""


def rough_count(count: int) -> int:
    """Round a count to a multiple of five, with about two digits.

    Examples
    --------
    >>> [rough_count(n) for n in (0, 4, 42, 98, 1234, 56789)]
    [0, 5, 40, 100, 1200, 57000]
    """
    step = _step(count)
    return step * math.floor(count / step + 0.5)


def rough_count_up(count: int) -> int:
    """The same upwards, for counts that are a risk.

    Examples
    --------
    >>> [rough_count_up(n) for n in (0, 4, 41, 98, 1234, 56789)]
    [0, 5, 45, 100, 1300, 57000]
    """
    step = _step(count)
    return step * math.ceil(count / step)


def _step(count: int) -> int:
    return max(STEP, int(10.0 ** (len(str(abs(count))) - 2)))


def rough(value: float, digits: int = 2) -> float:
    """Round a number to few significant digits.

    Examples
    --------
    >>> rough(0.0123456), rough(179.31), rough(0.0)
    (0.012, 180.0, 0.0)
    """
    return float(f"{value:.{digits - 1}e}") if math.isfinite(value) else value


def rough_up(value: float, digits: int = 2) -> float:
    """Round a number away from zero to few significant digits.

    Examples
    --------
    >>> rough_up(0.2001), rough_up(179.31), rough_up(0.2)
    (0.21, 180.0, 0.2)
    """
    nearest = rough(value, digits)
    if value == 0 or not math.isfinite(value) or abs(nearest) >= abs(value):
        return nearest
    step = 10.0 ** (math.floor(math.log10(abs(nearest))) - digits + 1)
    return rough(nearest + math.copysign(step, value), digits)


def rough_interval(ends: tuple[float, float], digits: int = 2) -> tuple[float, float]:
    """Widen an interval to rounded ends."""
    low, high = ends
    nearest = rough(low, digits)
    if nearest > low:
        step = 10.0 ** (math.floor(math.log10(abs(nearest))) - digits + 1)
        nearest = max(0.0, rough(nearest - step, digits)) if low >= 0 else rough(nearest - step, digits)
    return nearest, rough_up(high, digits)


def rough_change(value: float) -> float:
    """Round a measure of association between 0 and 1 to two decimals; it is not more accurate than that.

    Examples
    --------
    >>> rough_change(0.123456)
    0.12
    """
    return round(value, 2)
