"""How does a program that is told to end from outside clean up after itself, as it does for Ctrl-C?

Without a handler, SIGTERM (a shutdown, a job scheduler) and SIGHUP (a closed terminal) end a process at once, and the
copies of records that it keeps in temporary files stay on the disk.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that ask a program to end."""


@contextlib.contextmanager
def when_asked_to_end(act: Callable[[], None]) -> Iterator[None]:
    """Call ``act`` when a signal asks the program to end; this works only in the main thread.

    A signal that the program was started to ignore, as ``nohup`` does with SIGHUP, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: act())
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


def interrupt() -> None:
    """End as Ctrl-C does."""
    raise KeyboardInterrupt
