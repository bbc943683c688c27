"""How can a page wait for a disk that never answers without blocking the others?

Each page is made in its own thread and waited for only a limited time, so that a network drive that is gone, or a file that is
not a regular file, blocks one page and not the app.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from rarecell.errors import BadInput

PATIENCE = 120.0
"""Seconds that a page may take; the first reading of a large text file takes some of them."""

Made = TypeVar("Made")


async def made_in_time(make: Callable[[], Made], *, patience: float = PATIENCE) -> Made:
    """Return what ``make`` returns, computed outside the event loop.

    Raises
    ------
    BadInput
        If it takes too long; the thread is abandoned.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Made] = loop.create_future()

    def settle(tell: Callable[[], None]) -> None:
        if not result.done():
            tell()

    def work() -> None:
        try:
            tell = partial(result.set_result, make())
        except BaseException as problem:
            tell = partial(result.set_exception, problem)
        # The loop is closed if the app ended in the meantime.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, tell)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True).start()
    try:
        return await asyncio.wait_for(result, patience)
    except TimeoutError:
        raise BadInput(
            f"This took longer than {patience:g} seconds, and was stopped. Is the disk or the network drive still there?"
        ) from None
