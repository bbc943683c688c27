"""How does a run proceed while the pages stay responsive, report its progress, and stop when asked?

A run is a separate process (:mod:`rarecell.app.worker`): compiled loops cannot block the pages, and a process can always be
ended. It reads its configuration from its input and writes its progress to its output, one JSON object per line. When the
app exits, the process's input closes and it stops by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rarecell.app.folder import is_run
from rarecell.errors import BadInput
from rarecell.machine.disk import remove_stale_folders
from rarecell.outcome.planned import Trial
from rarecell.progress import Stage, StageTree, label_of
from rarecell.run.folder import sweep

if TYPE_CHECKING:
    from rarecell.edges import Json, ReadJson


USUAL_SHARES = {
    Stage.READING: 10.0,
    Stage.RESOLUTIONS: 1.0,
    Stage.MODELS: 15.0,
    Stage.RISK: 4.0,
    Stage.JUDGEMENT: 15.0,
    Stage.ADVICE: 20.0,
    Stage.PLAN: 8.0,
    Stage.MARGINS: 1.0,
    Stage.COST: 4.0,
    Stage.PROTECTED_FILE: 3.0,
    Stage.RISK_FILE: 6.0,
    Stage.REPORT: 8.0,
}
"""Shares of the outer stages in the time of a typical run, for the first estimate of the time left."""

PROTECT_ONLY = {Stage.PLAN, Stage.MARGINS, Stage.COST, Stage.PROTECTED_FILE}
_CANCELLED = "The run was cancelled. Nothing was written, and the input is untouched."
_KILLED = (
    "The run was killed, perhaps because memory ran short. Nothing was written, and the input is untouched. Run it again, or run it in "
    "the terminal with --memory."
)
_NO_RESULT = "The run ended without a result. The terminal that the app was started from says more."
_SECONDS_TO_END = 5.0
"""Seconds that a cancelled run has to stop by itself."""


@dataclass
class Job:
    """A run, while in progress and afterwards.

    ``state`` is ``running``, ``done``, ``failed`` or ``cancelled``; ``message`` says why it failed. A plan has a ``result``
    instead of a folder.
    """

    number: int
    command: str
    title: str
    out: Path
    process: subprocess.Popen[str]
    shares: Mapping[str, float]
    back: str
    started: float = field(default_factory=time.monotonic)
    state: str = "running"
    message: str = ""
    tree: StageTree = field(default_factory=StageTree)
    ended: float | None = None
    is_cancelled: bool = False
    configuration: str = ""
    result: Any = None
    answers: list[str] = field(default_factory=list)
    """What is known before the run ends: its first number, then its verdict."""
    has_verdict: bool = False
    ends_early: bool = False

    @property
    def seconds(self) -> float:
        return (self.ended or time.monotonic()) - self.started

    def fraction(self) -> float:
        """Estimate the completed part of the run from the usual shares of the stages."""
        return 1.0 if self.state != "running" else min(self.tree.fraction(dict(self.shares)), 0.99)

    def seconds_left(self) -> float | None:
        """Estimate the seconds left; None while there is nothing to estimate from."""
        fraction = self.fraction()
        if self.state != "running" or fraction < 0.04 or self.seconds < 1.5:
            return None
        return self.seconds * (1 - fraction) / fraction

    @property
    def can_end_early(self) -> bool:
        """Whether the verdict is known and advice is still being computed, for which nobody has to wait."""
        is_advising = bool(self.tree.open) and self.tree.open[0].stage == Stage.ADVICE
        return self.state == "running" and self.has_verdict and is_advising and not self.ends_early

    def progress_report(self) -> Json:
        """What the progress page shows."""
        left = self.seconds_left()
        return {
            "state": self.state,
            "answer": self.answers[-1] if self.answers else "",
            "can_end_early": self.can_end_early,
            "stage": label_of(self.tree.open[0].stage) if self.tree.open else "starting",
            "stages": [
                {"name": label_of(stage), "seconds": round(seconds, 1)} for stage, seconds in self.tree.done_seconds.items()
            ],
            "fraction": round(self.fraction(), 3),
            "left": None if left is None else in_words(left),
            "seconds": round(self.seconds, 1),
            "message": self.message,
        }


def shares_of(command: str, usual: Mapping[str, float] | None) -> dict[str, float]:
    """What each outer stage takes of a run: its seconds in an earlier run, or its usual share."""
    outer = {stage: share for stage, share in USUAL_SHARES.items() if command == "protect" or stage not in PROTECT_ONLY}
    measured = {str(stage): float(usual[stage]) for stage in outer if usual and stage in usual}
    return measured or {str(stage): share for stage, share in outer.items()}


def in_words(seconds: float) -> str:
    """``about 40 seconds``, ``about 3 minutes``."""
    if seconds < 10:
        return "a few seconds"
    if seconds < 75:
        return f"about {round(seconds / 10) * 10} seconds"
    minutes = round(seconds / 60)
    return f"about {minutes} minute{'s' if minutes > 1 else ''}"


class Jobs:
    """The runs of this launch of the app, one at a time; they read only files below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._jobs: dict[int, Job] = {}
        self._lock = threading.Lock()
        self._keeps_ready = False
        self._ready: subprocess.Popen[str] | None = None

    def __getitem__(self, number: int) -> Job:
        with self._lock:
            job = self._jobs.get(number)
        if job is None:
            raise BadInput(
                "There is no such run. It may belong to an earlier start of the app; finished runs are listed under Runs."
            )
        return job

    @property
    def running(self) -> Job | None:
        with self._lock:
            return self._running()

    def _running(self) -> Job | None:
        """The job that runs; the lock is held."""
        return next((job for job in self._jobs.values() if job.state == "running"), None)

    def start(
        self, command: str, configuration: str, out: Path, *, title: str, back: str, usual: Mapping[str, float] | None = None
    ) -> Job:
        """Start a run; ``usual`` are the seconds of its stages in an earlier run of the same kind."""
        with self._lock:
            if self._running() is not None:
                raise BadInput("Another run is in progress. Wait for it to end, or cancel it first.")
            process = self._taken_worker()
            shares = shares_of(command, usual)
            job = Job(len(self._jobs) + 1, command, title, out, process, shares, back, configuration=configuration)
            self._jobs[job.number] = job
        assert process.stdin is not None
        request = {"command": command, "config": configuration, "out": str(out), "root": str(self.root)}
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        threading.Thread(target=self._listen, args=(job,), daemon=True).start()
        return job

    def keep_ready(self) -> None:
        """From now on, keep a fully loaded process waiting, so that a run starts at once."""
        self._keeps_ready = True
        with self._lock:
            self._prepare()

    def _prepare(self) -> None:
        if self._keeps_ready and self._ready is None:
            self._ready = _new_worker("--rehearse")

    def take_worker(self) -> subprocess.Popen[str]:
        """Take a process for something other than a run; another one is prepared."""
        with self._lock:
            taken = self._taken_worker()
            self._prepare()
        return taken

    def _taken_worker(self) -> subprocess.Popen[str]:
        """The waiting process, if it is alive, or a new one."""
        waiting, self._ready = self._ready, None
        if waiting is not None and waiting.poll() is None:
            return waiting
        if waiting is not None:
            _close_pipes(waiting)
        return _new_worker()

    def _listen(self, job: Job) -> None:
        assert job.process.stdout is not None
        for line in job.process.stdout:
            with contextlib.suppress(ValueError):
                self._hear(job, json.loads(line))
        code = job.process.wait()
        _close_pipes(job.process)
        with self._lock:
            self._prepare()
        if job.state == "running" and _is_whole_after_kill(job):
            self._end(job, "done", "")
        elif job.state == "running" and job.is_cancelled:
            self._end(job, "cancelled", _CANCELLED)
        elif job.state == "running":
            self._end(job, "failed", _KILLED if code < 0 else _NO_RESULT)

    def _hear(self, job: Job, event: ReadJson) -> None:
        kind = event.get("event")
        if kind == "start":
            job.tree.start(str(event["stage"]), event.get("total"))
        elif kind == "advance":
            job.tree.advance(float(event["amount"]))
        elif kind == "done":
            job.tree.done()
        elif kind == "answer":
            job.answers.append(str(event["sentence"]))
            job.has_verdict |= bool(event["is_verdict"])
        elif kind == "finished":
            job.result = event.get("result")
            self._end(job, "done", "")
        elif kind == "failed":
            is_cancelled = bool(event.get("cancelled"))
            self._end(job, "cancelled" if is_cancelled else "failed", _CANCELLED if is_cancelled else str(event["message"]))

    def _end(self, job: Job, state: str, message: str) -> None:
        if job.state == "running":
            job.message, job.ended = message, time.monotonic()
            job.state = state

    def cancel(self, job: Job) -> None:
        """Ask a run to stop, and kill it if it does not."""
        if job.state != "running":
            return
        job.is_cancelled = True
        assert job.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            job.process.stdin.close()
        try:
            job.process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            job.process.kill()
            job.process.wait()
            if _is_whole_after_kill(job):
                self._end(job, "done", "")
        self._end(job, "cancelled", _CANCELLED)

    def end_early(self, job: Job) -> None:
        """Let a run that has its verdict end without the rest of its advice."""
        if job.can_end_early:
            assert job.process.stdin is not None
            job.ends_early = True
            with contextlib.suppress(OSError, ValueError):
                job.process.stdin.write("enough\n")
                job.process.stdin.flush()

    def close(self) -> None:
        """End what is still running, and the waiting process."""
        with self._lock:
            self._keeps_ready = False
            waiting, self._ready = self._ready, None
        if waiting is not None:
            _kill(waiting)
            _close_pipes(waiting)
        if self.running is not None:
            self.cancel(self.running)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a process, and remove the private copies of records that it could not remove itself."""
    process.kill()
    process.wait()
    remove_stale_folders()


def _is_whole_after_kill(job: Job) -> bool:
    """Remove what a killed run left, or finish moving its files if they were complete; whether there is a result."""
    sweep(job.out)
    remove_stale_folders()
    return is_run(job.out)


def _close_pipes(process: subprocess.Popen[str]) -> None:
    """Give back the descriptors of a process that has ended; the list of runs keeps the process itself."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            # What was not yet written to a process that has ended cannot be written any more.
            with contextlib.suppress(OSError, ValueError):
                pipe.close()


def _new_worker(*options: str) -> subprocess.Popen[str]:
    # -P keeps the working folder, which holds other people's data, off the module search path.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "rarecell.app.worker", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


# How are recodings tried within a second while the pages stay responsive?
#
# One process holds the counts of one file and answers recodings, one JSON object per line, until another file is asked for or the
# app ends. Like the process of a run, it reads only inside the chosen folder and can always be ended.


SECONDS_FOR_A_TRIAL = 110.0
"""Seconds that the first answer may take, including reading the file and perhaps compiling; later ones are much faster."""


class TrialProcess:
    """The process that tries recodings of one file."""

    def __init__(self, jobs: Jobs, root: Path) -> None:
        self._jobs = jobs
        self._root = root
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._about: tuple[str, str] | None = None

    def of(self, configuration: str, stamp: str, recode: Mapping[str, str]) -> Trial:
        """Try a recoding of the file of a configuration; ``stamp`` changes when the file does."""
        with self._lock:
            if self._about != (configuration, stamp) or self._process is None or self._process.poll() is not None:
                self._begin(configuration)
                self._about = (configuration, stamp)
            answer = self._answer_to(json.dumps(dict(recode)))
        if answer.get("event") != "tried":
            raise BadInput(str(answer.get("message", "The recoding could not be tried.")))
        return Trial.from_dict(answer["result"], where="trial")

    def close(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            self._end()

    def _begin(self, configuration: str) -> None:
        self._end()
        process = self._process = self._jobs.take_worker()
        answers: queue.Queue[str | None] = queue.Queue()
        self._answers = answers

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                answers.put(line)
            answers.put(None)
            process.wait()
            _close_pipes(process)

        threading.Thread(target=listen, daemon=True).start()
        self._tell(json.dumps({"command": "try", "config": configuration, "root": str(self._root)}))

    def _answer_to(self, line: str) -> Json:
        self._tell(line)
        try:
            answer = self._answers.get(timeout=SECONDS_FOR_A_TRIAL)
        except queue.Empty:
            self._end()
            raise BadInput(
                f"The recoding was not tried within {SECONDS_FOR_A_TRIAL:g} seconds. The file is too large for that; plan a release instead, or run it."
            ) from None
        if answer is None:
            self._end()
            raise BadInput("The process that tries recodings ended. The terminal that the app was started from says more.")
        plain: Json = json.loads(answer)
        return plain

    def _tell(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def _end(self) -> None:
        process, self._process, self._about = self._process, None, None
        if process is not None:
            _kill(process)


# How can a page wait for a disk that never answers without blocking the others?
#
# Each page is made in its own thread and waited for only a limited time, so that a network drive that is gone, or a file that is
# not a regular file, blocks one page and not the app.


SECONDS_FOR_A_PAGE = 120.0
"""Seconds that a page may take; the first reading of a large text file takes some of them."""

Result = TypeVar("Result")


async def in_time_limit(make: Callable[[], Result], *, seconds: float = SECONDS_FOR_A_PAGE) -> Result:
    """Return what ``make`` returns, computed outside the event loop.

    Raises
    ------
    BadInput
        If it takes too long; the thread is abandoned.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Result] = loop.create_future()

    def settle(deliver: Callable[[], None]) -> None:
        if not result.done():
            deliver()

    def work() -> None:
        try:
            deliver = partial(result.set_result, make())
        except BaseException as problem:
            deliver = partial(result.set_exception, problem)
        # The loop is closed if the app ended in the meantime.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, deliver)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True).start()
    try:
        return await asyncio.wait_for(result, seconds)
    except TimeoutError:
        raise BadInput(
            f"This took longer than {seconds:g} seconds, and was stopped. Is the disk or the network drive still there?"
        ) from None
