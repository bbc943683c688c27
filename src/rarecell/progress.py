"""How does long work report its progress and learn that it should stop, and which stages does a run have?

The library calls a :class:`Progress`; the command line shows it in a line, the app polls it, and by default nobody
listens. Stages form a tree: a stage that starts while another is open is a step of it. Work that can take more than a
second calls :func:`checkpoint` between its steps. An assessment tells its first number and its verdict as soon as it knows them;
whoever has the verdict may end it there, without the advice that is still being computed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from rarecell.errors import Cancelled
from rarecell.machine.threads import on_all_cores


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

    def answer(self, sentence: str, *, is_verdict: bool = False) -> None:
        """Learn what is known before the work ends: a first number, later the verdict."""

    def ends_early(self) -> bool:
        """Whether the user has the verdict and wants the work to end without the rest of its advice."""


class SilentProgress:
    """Ignores every report, never cancels, and waits for all advice."""

    def start(self, stage: str, total: float | None = None) -> None:
        pass

    def advance(self, amount: float = 1.0) -> None:
        pass

    def done(self) -> None:
        pass

    def cancelled(self) -> bool:
        return False

    def answer(self, sentence: str, *, is_verdict: bool = False) -> None:
        pass

    def ends_early(self) -> bool:
        return False


SILENT = SilentProgress()


class OnlyCancelled(SilentProgress):
    """Passes on only that the user wants to stop, and reports nothing: for work that runs alongside other work."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def cancelled(self) -> bool:
        return self._progress.cancelled()


class _UntilEnough(OnlyCancelled):
    """Passes on that the user wants to stop, or has enough and does not wait for advice."""

    def cancelled(self) -> bool:
        return self._progress.cancelled() or self._progress.ends_early()


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


# ---------------------------------------------------------------------- the stages of a run


class Stage(StrEnum):
    """The stages of a run. The value identifies a stage in ``run.json`` and between processes; the label is for people."""

    READING = "reading"
    RESOLUTIONS = "resolutions"
    MODELS = "models"
    SEARCH = "search"
    UNSAFE = "unsafe"
    RISK = "risk"
    ROLES = "roles"
    FAMILIES = "families"
    JUDGEMENT = "judgement"
    CHECKS = "checks"
    ADVICE = "advice"
    KEY_COSTS = "key_costs"
    ESTIMATORS = "estimators"
    INTERVAL = "interval"
    TRUTH = "truth"
    PLAN = "plan"
    MARGINS = "margins"
    COST = "cost"
    PROTECTED_FILE = "protected_file"
    RISK_FILE = "risk_file"
    REPORT = "report"

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS = {
    Stage.READING: "reading and counting",
    Stage.RESOLUTIONS: "choosing resolutions",
    Stage.MODELS: "fitting the model",
    Stage.SEARCH: "searching for the best model",
    Stage.UNSAFE: "unsafe combinations",
    Stage.RISK: "risk of every record",
    Stage.ROLES: "areas, groups, scenarios and register",
    Stage.FAMILIES: "risk of every household",
    Stage.JUDGEMENT: "best model, interval and checks",
    Stage.CHECKS: "checks of fit",
    Stage.ADVICE: "what each key costs, other estimators",
    Stage.KEY_COSTS: "what each key costs",
    Stage.ESTIMATORS: "other estimators",
    Stage.INTERVAL: "interval",
    Stage.TRUTH: "counting the population",
    Stage.PLAN: "planning the swaps",
    Stage.MARGINS: "comparing margins",
    Stage.COST: "what it cost",
    Stage.PROTECTED_FILE: "writing the protected file",
    Stage.RISK_FILE: "writing the risk file",
    Stage.REPORT: "writing the report",
}


def label_of(stage: str) -> str:
    """The name of a stage as people see it; steps inside a stage are named after the work they do."""
    return Stage(stage).label if stage in set(Stage) else stage


class Stages:
    """Times the stages of a run and reports them to whoever watches.

    ``seconds`` holds the time of every stage. Stages that run side by side lie inside another one, whose time is wall-clock time;
    ``processor_seconds`` holds what all cores together spent on each of these outer stages.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.seconds: dict[Stage, float] = {}
        self.processor_seconds: dict[Stage, float] = {}

    @contextlib.contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        checkpoint(self.progress, stage.label)
        with self._timed(stage):
            self.progress.start(stage)
            yield
            self.progress.done()

    def together(
        self, outer: Stage, work: Mapping[Stage, Callable[[Progress], Any]], *, shown: Stage | None = None
    ) -> tuple[Any, ...]:
        """Run stages that do not depend on each other on all cores, and return their results in order.

        Observers see how many are finished, or the steps of the stage that is ``shown`` because it takes longest.
        """

        def result(stage: Stage, task: Callable[[Progress], Any]) -> Any:
            started = time.perf_counter()
            made = task(self.progress if stage is shown else OnlyCancelled(self.progress))
            self._add(stage, started)
            if shown is None:
                self.progress.advance(1)
            return made

        checkpoint(self.progress, outer.label)
        with self._timed(outer):
            self.progress.start(outer, None if shown else len(work))
            results = on_all_cores(result, list(work.items()))
            self.progress.done()
        return tuple(results)

    def advice(self, outer: Stage, work: Mapping[Stage, Callable[[Progress], Any]]) -> tuple[Any, ...]:
        """Run stages as :meth:`together` does; None in place of what a user who has the verdict did not wait for."""

        def unless_enough(task: Callable[[Progress], Any]) -> Callable[[Progress], Any]:
            def result(_: Progress) -> Any:
                try:
                    return task(_UntilEnough(self.progress))
                except Cancelled:
                    if self.progress.cancelled():
                        raise
                    return None

            return result

        return self.together(outer, {stage: unless_enough(task) for stage, task in work.items()})

    @contextlib.contextmanager
    def _timed(self, outer: Stage) -> Iterator[None]:
        started, processor = time.perf_counter(), time.process_time()
        yield
        self._add(outer, started)
        self.processor_seconds[outer] = self.processor_seconds.get(outer, 0.0) + time.process_time() - processor

    def _add(self, stage: Stage, started: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - started
