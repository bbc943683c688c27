"""How can a page wait for a disk that never answers without blocking the others?

Each page is made in its own thread and waited for only a limited time, so that a network drive that is gone, or a file that is
not a regular file, blocks one page and not the app.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
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

    def tell(outcome: Made | None, problem: BaseException | None) -> None:
        if result.done():
            return
        if problem is not None:
            result.set_exception(problem)
        else:
            result.set_result(outcome)  # type: ignore[arg-type]

    def work() -> None:
        outcome, problem = None, None
        try:
            outcome = make()
        except BaseException as met:
            problem = met
        # The loop is closed if the app ended in the meantime.
        try:
            loop.call_soon_threadsafe(tell, outcome, problem)
        except RuntimeError:
            return

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True).start()
    try:
        return await asyncio.wait_for(result, patience)
    except TimeoutError:
        raise BadInput(
            f"This took longer than {patience:g} seconds, and was stopped. Is the disk or the network drive still there?"
        ) from None
