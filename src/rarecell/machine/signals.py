"""How does a program that is told to end from outside clean up after itself, as it does for Ctrl-C?

Without a handler, SIGTERM (a shutdown, a job scheduler) and SIGHUP (a closed terminal) end a process at once, and the
copies of records that it keeps in temporary files stay on the disk.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that ask a program to end."""


@contextlib.contextmanager
def when_asked_to_end(act: Callable[[int], None]) -> Iterator[None]:
    """Call ``act`` with the number of the signal that asks the program to end; this works only in the main thread.

    A signal that the program was started to ignore, as ``nohup`` does with SIGHUP, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, lambda number, _frame: act(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


def interrupt(_signal_number: int) -> None:
    """End as Ctrl-C does."""
    raise KeyboardInterrupt


# How does a command end at once?
#
# When Python ends, it takes apart everything that was loaded, object by object; after a run that takes half a second. The
# system reclaims the memory of a process without it.


OBJECTS_PER_COLLECTION = 20_000
"""Python looks for unused objects whenever this many are new. Its own 700 are too few while a thousand modules are loaded."""


def run_and_leave(command: Callable[[], object]) -> None:
    """Run a command and end the process with its exit code.

    Functions that wait for the end of the process, such as those that remove temporary folders, are called. Where threads are
    still at work, or what was printed cannot be written, the process ends as any other does. Ctrl-C then no longer waits for the
    threads; it never keeps these functions from being called.
    """
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    code = 0
    try:
        try:
            command()
        finally:
            _expect_interrupts()
    except KeyboardInterrupt:
        with contextlib.suppress(OSError, ValueError):
            print("rarecell: interrupted.", file=sys.stderr)
        code = 1
    except SystemExit as end:
        if not isinstance(end.code, int | None) or not _is_done():
            raise
        code = end.code or 0
    if _is_done():
        atexit._run_exitfuncs()
        # What these functions printed waits to be written, too.
        os._exit(code if _is_done() else max(code, 1))
    if code:
        sys.exit(code)


def _expect_interrupts() -> None:
    """From now on, end at once on Ctrl-C; pay no attention to it while the functions that wait for the end are called."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return

    def end(_number: int, _frame: object) -> None:
        # Threads that are still at work may be in the way of what is removed; the next start removes the rest.
        sys.excepthook = lambda *_: None
        sys.unraisablehook = lambda _: None
        atexit._run_exitfuncs()
        os._exit(1)

    # The function that is registered last is called first.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGINT, end)


def _is_done() -> bool:
    """Whether no other thread is at work and everything printed is written."""
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        return False
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return False
    return True
