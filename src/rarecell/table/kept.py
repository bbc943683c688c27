"""Which earlier results are still in memory?"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Kept(Generic[_T]):
    """Values by set, within a memory budget; the least recently used are dropped first."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._bytes = 0
        self._values: OrderedDict[int, tuple[_T, int]] = OrderedDict()
        # Models are fitted in several threads at once.
        self._lock = threading.Lock()

    def get(self, mask: int) -> _T | None:
        with self._lock:
            if mask not in self._values:
                return None
            self._values.move_to_end(mask)
            return self._values[mask][0]

    def put(self, mask: int, value: _T, n_bytes: int) -> None:
        with self._lock:
            self._bytes += n_bytes - self._values.pop(mask, (value, 0))[1]
            self._values[mask] = (value, n_bytes)
            while self._bytes > self._budget and len(self._values) > 1:
                self._bytes -= self._values.popitem(last=False)[1][1]

    def items(self) -> list[tuple[int, _T]]:
        with self._lock:
            return [(mask, value) for mask, (value, _) in self._values.items()]
