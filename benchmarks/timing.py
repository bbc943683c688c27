"""How long does something take, and how much memory at its peak? Shared by the benchmarks."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


def seconds(work: Callable[[], object], *, repeats: int = 3) -> float:
    """Least time of some runs, so that a busy machine disturbs less."""
    return timed(work, repeats=repeats)[0]


def timed(work: Callable[[], object], *, repeats: int = 3) -> tuple[float, object]:
    """Least time of some runs, and the result of the last."""
    best, result = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


def apart(work: Callable[..., dict[str, Any]], *arguments: object) -> dict[str, Any]:
    """What ``work`` returns in a process of its own, with the memory at its peak as ``gigabytes``."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_tell, args=(there, work, arguments))
    process.start()
    there.close()
    found: dict[str, Any] = here.recv()
    process.join()
    return found


def _tell(there: Connection, work: Callable[..., dict[str, Any]], arguments: tuple[object, ...]) -> None:
    found = work(*arguments)
    there.send({**found, "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9})
