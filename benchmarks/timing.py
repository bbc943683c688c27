"""How long does something take, and how much memory at its peak? Shared by the benchmarks."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from rarecell.progress import SilentProgress


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


class Watching(SilentProgress):
    """Progress that notes for each outer stage the seconds of the clock and of the processor; 2 of these in 1 are two cores."""

    def __init__(self) -> None:
        self.stages: dict[str, tuple[float, float]] = {}
        self._open: list[tuple[str, float, float]] = []

    def start(self, stage: str, total: float | None = None) -> None:
        self._open.append((str(stage), time.perf_counter(), time.process_time()))

    def done(self) -> None:
        stage, clock, processor = self._open.pop()
        if not self._open:
            self.stages[stage] = (time.perf_counter() - clock, time.process_time() - processor)

    def lines(self) -> list[str]:
        """A table of the stages."""
        rows = [
            f"{stage:24}{clock:9.2f}{work:11.2f}{work / max(clock, 1e-9):8.1f}" for stage, (clock, work) in self.stages.items()
        ]
        return [f"{'stage':24}{'seconds':>9}{'processor':>11}{'cores':>8}", *rows]
