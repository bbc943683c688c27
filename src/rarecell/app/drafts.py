"""Where are choices kept that were sent but not yet run, so that they survive a failure, a cancellation or a detour?"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence

MOST = 100
"""Number of drafts kept; the oldest is dropped first."""

Fields = Mapping[str, Sequence[str]]


class Drafts:
    """Forms by number, in memory only: they name columns and values of confidential files."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._kept: dict[int, dict[str, list[str]]] = {}
        self._lock = threading.Lock()

    def keep(self, fields: Fields) -> int:
        """Keep a form, and return its number."""
        with self._lock:
            number = next(self._numbers)
            self._kept[number] = {name: list(values) for name, values in fields.items()}
            while len(self._kept) > MOST:
                del self._kept[next(iter(self._kept))]
        return number

    def of(self, text: str) -> dict[str, list[str]]:
        """The form with the number given in an address; empty if there is none."""
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            return {}
        return {name: list(values) for name, values in self._kept.get(int(text), {}).items()}
