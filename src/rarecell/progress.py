"""How does long work report its progress, and learn that it should stop?

The library calls a :class:`Progress`; the command line shows it in a line, the app polls it, and by default nobody
listens. Stages form a tree: a stage that starts while another is open is a step of it. Work that can take more than a
second calls :func:`checkpoint` between its steps.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

from rarecell.errors import Cancelled


class Progress(Protocol):
    """A listener to long work."""

    def start(self, stage: str, total: float | None = None) -> None:
        """Begin a stage inside the open one; ``total`` is its amount of work, or None if unknown."""

    def advance(self, amount: float = 1.0) -> None:
        """Report that this much more of the innermost open stage is done."""

    def done(self) -> None:
        """Finish the innermost open stage."""

    def cancelled(self) -> bool:
        """Whether the user wants the work to stop."""


class SilentProgress:
    """Ignores every report and never cancels."""

    def start(self, stage: str, total: float | None = None) -> None:
        pass

    def advance(self, amount: float = 1.0) -> None:
        pass

    def done(self) -> None:
        pass

    def cancelled(self) -> bool:
        return False


SILENT = SilentProgress()


class OnlyCancelled(SilentProgress):
    """Passes on only that the user wants to stop, and reports nothing: for work that runs alongside other work."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def cancelled(self) -> bool:
        return self._progress.cancelled()


def checkpoint(progress: Progress, stage: str, amount: float = 0.0) -> None:
    """Report ``amount`` of work, and raise :class:`~rarecell.errors.Cancelled` if the user wants to stop."""
    if amount:
        progress.advance(amount)
    if progress.cancelled():
        raise Cancelled.during(stage)


@dataclass
class OpenStage:
    """A stage in progress: how much of it is done, when it started, and what the processor had done by then."""

    stage: str
    total: float | None = None
    amount: float = 0.0
    started: float = field(default_factory=time.monotonic)
    processor: float = field(default_factory=time.process_time)

    def fraction(self, usual_seconds: float) -> float:
        """The part that is done; a stage without a total approaches its usual end but never reaches it."""
        if self.total:
            return min(self.amount / self.total, 1.0)
        spent = time.monotonic() - self.started
        return spent / (spent + usual_seconds)


class StageTree:
    """The state of a run: the open stages, outermost first, and the seconds of the outer stages that are done.

    ``processor_seconds`` are those of all cores together: twice ``done_seconds`` where two cores were busy all the time.
    """

    def __init__(self) -> None:
        self.open: list[OpenStage] = []
        self.done_seconds: dict[str, float] = {}
        self.processor_seconds: dict[str, float] = {}

    def start(self, stage: str, total: float | None = None) -> None:
        self.open.append(OpenStage(stage, total))

    def advance(self, amount: float) -> None:
        if self.open:
            self.open[-1].amount += amount

    def done(self) -> None:
        if not self.open:
            return
        finished = self.open.pop()
        if not self.open:
            for seconds, spent in (
                (self.done_seconds, time.monotonic() - finished.started),
                (self.processor_seconds, time.process_time() - finished.processor),
            ):
                seconds[finished.stage] = seconds.get(finished.stage, 0.0) + spent

    def fraction(self, usual: dict[str, float]) -> float:
        """The part of all stages that is done, by the seconds or shares that each outer stage usually takes."""
        whole = sum(usual.values())
        done = sum(usual.get(stage, 0.0) for stage in self.done_seconds)
        if not self.open or not whole:
            return done / whole if whole else 0.0
        outer, inner = self.open[0], self.open[-1]
        share = usual.get(outer.stage, 0.0)
        pace = sum(self.done_seconds.values()) / done if done else 1.0
        step = outer if outer.total else inner
        within = step.fraction(max(share * pace, 0.5))
        return min((done + share * within) / whole, 1.0)
