"""How is a count written that must not be known exactly?"""

from __future__ import annotations

from rarecell.outcome.summary import Count
from rarecell.report.rounding import rough_count

SMALLEST_COUNT = 3
"""Counts below this, except zero, are not shown outside."""

HIDDEN = f"fewer than {SMALLEST_COUNT}"
"""Written instead of a small count."""

NOT_SHOWN = "not shown"

FEW = 10
"""Fewer swaps than this, or moved values of a key, could be reconstructed from what is reported about them."""

HIDDEN_FEW = f"fewer than {FEW}"


def is_small(count: object) -> bool:
    return isinstance(count, int) and not isinstance(count, bool) and 0 < count < SMALLEST_COUNT


def shown(count: Count) -> Count:
    """A count that anybody can take from the file itself, or words if it is small."""
    return HIDDEN if is_small(count) else count


def rough_shown(count: Count) -> Count:
    """A rounded count of something the file itself no longer shows; words if it is small or zero."""
    if not isinstance(count, int) or isinstance(count, bool):
        return count
    return HIDDEN if count < SMALLEST_COUNT else rough_count(count)
