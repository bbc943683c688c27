"""How are recodings tried within a second while the pages stay responsive?

One process holds the counts of one file and answers recodings, one JSON object per line, until another file is asked for or the
app ends. Like the process of a run, it reads only inside the chosen folder and can always be ended.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rarecell.app.jobs import Jobs
from rarecell.errors import BadInput
from rarecell.outcome.trial import Trial

if TYPE_CHECKING:
    from rarecell.edges import Json

PATIENCE = 110.0
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
            answer = self._asked(json.dumps(dict(recode)))
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

        threading.Thread(target=listen, daemon=True).start()
        self._tell(json.dumps({"command": "try", "config": configuration, "root": str(self._root)}))

    def _asked(self, line: str) -> Json:
        self._tell(line)
        try:
            answer = self._answers.get(timeout=PATIENCE)
        except queue.Empty:
            self._end()
            raise BadInput(
                f"The recoding was not tried within {PATIENCE:g} seconds. The file is too large for that; plan a release instead, or run it."
            ) from None
        if answer is None:
            self._end()
            raise BadInput("The process that tries recodings ended. The terminal that the app was started from says more.")
        found: Json = json.loads(answer)
        return found

    def _tell(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def _end(self) -> None:
        process, self._process, self._about = self._process, None, None
        if process is not None:
            process.kill()
            process.wait()
