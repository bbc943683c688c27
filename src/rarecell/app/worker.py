"""The process of one run: configuration in, progress out.

Started by :mod:`rarecell.app.jobs`. The first line of the input is the request; when the input ends, the run must stop, and a
further line ends it early, without the rest of its advice. A process that tries recodings (:mod:`rarecell.app.jobs`) reads further
lines, one for each recoding.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rarecell.edges import Json
    from rarecell.run.config import RunConfig


class ReportedProgress:
    """Progress that is written as JSON lines and is cancelled when the input ends."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._stop, self._has_enough = threading.Event(), threading.Event()
        self._held_back = 0.0
        self._last_told = 0.0
        self._is_app_lost = False

    def tell(self, **event: Any) -> None:
        with self._lock:
            try:
                self._out.write(json.dumps(event) + "\n")
                self._out.flush()
            except BrokenPipeError:
                self._lose_the_app()
        if self._is_app_lost and event["event"] == "failed":
            print(f"rarecell: The app was killed. {event['message']}", file=sys.stderr)

    def _lose_the_app(self) -> None:
        """The app was killed: stop, and let nothing complain that what is still in the buffer cannot be written."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._out.fileno())
        os.close(nowhere)
        self._is_app_lost = True
        self.stop()

    def start(self, stage: str, total: float | None = None) -> None:
        self.tell(event="start", stage=stage, total=total)

    def advance(self, amount: float = 1.0) -> None:
        # Loops advance in small steps; a few reports a second are enough.
        self._held_back += amount
        if time.monotonic() - self._last_told > 0.1:
            self.tell(event="advance", amount=self._held_back)
            self._held_back, self._last_told = 0.0, time.monotonic()

    def done(self) -> None:
        self._held_back = 0.0
        self.tell(event="done")

    def cancelled(self) -> bool:
        return self._stop.is_set()

    def stop(self, _signal_number: int = 0) -> None:
        self._stop.set()

    def answer(self, sentence: str, *, is_verdict: bool = False) -> None:
        self.tell(event="answer", sentence=sentence, is_verdict=is_verdict)

    def ends_early(self) -> bool:
        return self._has_enough.is_set()

    def listen(self, lines: TextIO) -> None:
        """End early at the first line, and stop at the end of the input."""
        for _ in lines:
            self._has_enough.set()
        self.stop()


def _planned(config: RunConfig, progress: ReportedProgress) -> Json:
    """The frontier of a plan, with the target of the configuration."""
    from rarecell.run.plan import as_json, plan

    assert config.protect is not None, "a plan has a target"
    request = config.protect
    frontier = plan(
        config, max_correct_links=request.max_correct_links, max_record_risk=request.max_record_risk, progress=progress
    )
    return as_json(frontier, config)


def _try_recodings(request: Json, progress: ReportedProgress) -> int:
    """Count the file once, then answer every further line, each of which is a recoding."""
    from rarecell.engine.places import confined
    from rarecell.errors import RarecellError
    from rarecell.run.config import RunConfig
    from rarecell.run.plan import Trials

    trials: Trials | None = None
    with confined(Path(request["root"])):
        for line in sys.stdin:
            try:
                if trials is None:
                    trials = Trials(RunConfig.from_toml(request["config"], source="the form"))
                progress.tell(event="tried", result=trials.of(json.loads(line)).to_dict())
            except RarecellError as problem:
                progress.tell(event="failed", message=str(problem))
            except Exception:
                traceback.print_exc()
                progress.tell(
                    event="failed", message="The program failed; this is a defect of rarecell. The terminal says where."
                )
    return 0


def main() -> int:
    from rarecell.engine.places import confined
    from rarecell.errors import Cancelled, RarecellError
    from rarecell.machine.signals import when_asked_to_end

    # Nothing else that writes to standard output may end up among the events.
    events, sys.stdout = sys.stdout, sys.stderr
    progress = ReportedProgress(events)
    if "--rehearse" in sys.argv:
        # Everything that a run needs is loaded while nobody is waiting.
        from rarecell.run.rehearsal import rehearse

        rehearse()
    line = sys.stdin.readline()
    if not line:
        return 0
    request = json.loads(line)
    if request["command"] == "try":
        return _try_recodings(request, progress)
    threading.Thread(target=progress.listen, args=(sys.stdin,), daemon=True).start()
    try:
        from rarecell.run.assess import assess
        from rarecell.run.config import RunConfig
        from rarecell.run.protect import protect
        from rarecell.run.synthesise import synthesise

        if request["command"] == "synthesise":
            with when_asked_to_end(progress.stop), confined(Path(request["root"])):
                synthesise(**json.loads(request["config"]), out=request["out"], progress=progress)
            progress.tell(event="finished")
            return 0
        config = RunConfig.from_toml(request["config"], source="the form")
        act: Callable[..., object] = protect if request["command"] == "protect" else assess
        result = None
        with when_asked_to_end(progress.stop), confined(Path(request["root"])):
            if request["command"] == "plan":
                result = _planned(config, progress)
            else:
                act(config, out=request["out"], progress=progress)
    except RarecellError as problem:
        progress.tell(event="failed", message=str(problem), cancelled=isinstance(problem, Cancelled))
        return 1
    except Exception:
        traceback.print_exc()
        progress.tell(
            event="failed", message="The program failed; this is a defect of rarecell. The terminal says where it happened."
        )
        return 1
    progress.tell(event="finished", **({} if result is None else {"result": result}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
