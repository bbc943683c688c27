"""Which stages does a run have, how long do they take, and which may run side by side?"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from rarecell.machine.threads import on_all_cores
from rarecell.progress import OnlyCancelled, Progress, checkpoint


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
    KEY_COSTS = "key_costs"
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
    Stage.MODELS: "searching for the model",
    Stage.SEARCH: "searching for the best model",
    Stage.UNSAFE: "unsafe combinations",
    Stage.RISK: "risk of every record",
    Stage.ROLES: "areas, groups, scenarios and register",
    Stage.FAMILIES: "risk of every household",
    Stage.JUDGEMENT: "interval, checks and comparisons",
    Stage.CHECKS: "checks of fit",
    Stage.KEY_COSTS: "what each key costs",
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

    ``seconds`` holds the time of every stage. Stages that run side by side lie inside another one, whose time is wall-clock time.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.seconds: dict[Stage, float] = {}

    @contextlib.contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        checkpoint(self.progress, stage.label)
        self.progress.start(stage)
        started = time.perf_counter()
        yield
        self._add(stage, started)
        self.progress.done()

    def together(
        self, outer: Stage, work: Mapping[Stage, Callable[[Progress], Any]], *, shown: Stage | None = None
    ) -> tuple[Any, ...]:
        """Run stages that do not depend on each other on all cores, and return their results in order.

        Observers see how many are finished, or the steps of the stage that is ``shown`` because it takes longest.
        """
        checkpoint(self.progress, outer.label)
        self.progress.start(outer, None if shown else len(work))
        outer_started = time.perf_counter()

        def one(stage: Stage, task: Callable[[Progress], Any]) -> Any:
            started = time.perf_counter()
            found = task(self.progress if stage is shown else OnlyCancelled(self.progress))
            self._add(stage, started)
            if shown is None:
                self.progress.advance(1)
            return found

        found = on_all_cores(one, list(work.items()))
        self._add(outer, outer_started)
        self.progress.done()
        return tuple(found)

    def _add(self, stage: Stage, started: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - started
