"""Which stages does a run have, how long do they take, and which may go side by side?"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rarecell.machine.threads import on_all_cores
from rarecell.progress import OnlyCancelled, Progress, checkpoint


class Stages:
    """Times the stages of a run and passes them on to whoever watches."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        checkpoint(self.progress, name)
        self.progress.start(name)
        started = time.perf_counter()
        yield
        self._add(name, started)
        self.progress.done()

    def together(self, title: str, work: Mapping[str, Callable[[Progress], Any]], *, shown: str | None = None) -> tuple[Any, ...]:
        """Stages that do not need each other, on all cores; what they returned, in order.

        Who watches is told how many are finished, or of the steps of the one that is ``shown``, because it takes longest.
        """
        checkpoint(self.progress, title)
        self.progress.start(title, None if shown else len(work))

        def one(name: str, task: Callable[[Progress], Any]) -> Any:
            started = time.perf_counter()
            found = task(self.progress if name == shown else OnlyCancelled(self.progress))
            self._add(name, started)
            if shown is None:
                self.progress.advance(1)
            return found

        found = on_all_cores(one, list(work.items()))
        self.progress.done()
        return tuple(found)

    def _add(self, name: str, started: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
