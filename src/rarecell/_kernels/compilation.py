"""Is something being compiled because it is used for the first time on this computer?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event


class _Once(event.Listener):  # numba has no types
    """Calls a function when the first compilation begins; loading from the cache does not count."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell: Callable[[], None] | None = tell

    def on_start(self, event: Any) -> None:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell()

    def on_end(self, event: Any) -> None:
        pass


@contextmanager
def when_compiling(tell: Callable[[], None]) -> Iterator[None]:
    """Call ``tell`` once, if something is compiled in the block."""
    with event.install_listener("numba:compile", _Once(tell)):
        yield
