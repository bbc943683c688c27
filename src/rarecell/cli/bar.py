"""How far is the work, for a person who watches?

One line on stderr: the stage, how much of it is done, the time it took and the time left. It is rewritten several times a
second, erased at the end, and absent where nobody is watching.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from types import TracebackType
from typing import TextIO

from rarecell.cli.layout import terminal_width
from rarecell.progress import Stage, StageTree, label_of

_BAR = 20
_PAUSE = 0.2
"""Seconds between two looks at the clock."""
_SOON = 2.0
"""Seconds after which the time left is worth telling."""

_WAITED = 1.0
_WAITED_IN_A_LOG = 5.0
"""Seconds after which somebody at a terminal, or a reader of a log, wants to know what is known so far."""


class ProgressLine:
    """Shows the open stages of a run in one line; a context manager.

    What a run knows before it ends is printed above the line, if the run then goes on for a while.

    Parameters
    ----------
    stream : TextIO
        Where the line is written.
    is_shown : bool
        Whether the line is written.
    is_quiet : bool
        Whether nothing at all is written.
    """

    def __init__(self, stream: TextIO, *, is_shown: bool, is_quiet: bool = False) -> None:
        self.is_shown = is_shown
        self.is_quiet = is_quiet
        self._stream = stream
        self._stages = StageTree()
        self._answers: list[tuple[float, str, bool]] = []
        self._has_told_verdict = False
        # A signal handler may call while the same thread draws.
        self._lock = threading.RLock()
        self._ended, self._stop, self._has_enough = threading.Event(), threading.Event(), threading.Event()
        self._n_shown = 0
        self._thread: threading.Thread | None = None

    # ------------------------------------------------------------------ what the work calls

    def start(self, stage: str, total: float | None = None) -> None:
        with self._lock:
            self._stages.start(stage, total)

    def advance(self, amount: float = 1.0) -> None:
        with self._lock:
            self._stages.advance(amount)

    def done(self) -> None:
        with self._lock:
            self._stages.done()

    def cancelled(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        self._stop.set()

    def answer(self, sentence: str, *, is_verdict: bool = False) -> None:
        with self._lock:
            self._answers.append((time.monotonic(), sentence, is_verdict))

    def ends_early(self) -> bool:
        return self._has_enough.is_set()

    def end_early(self) -> bool:
        """End without the rest of the advice, if the verdict has been printed and advice is being computed; whether that is so."""
        with self._lock:
            is_advising = bool(self._stages.open) and self._stages.open[0].stage == Stage.ADVICE
            if not self._has_told_verdict or not is_advising or self._has_enough.is_set():
                return False
            self._has_enough.set()
            self.say("Ending without the rest of the advice; what is known is kept. Ctrl-C again keeps nothing.")
            return True

    # ------------------------------------------------------------------ what a person sees

    def __enter__(self) -> ProgressLine:
        if not self.is_quiet:
            self._thread = threading.Thread(target=self._keep_drawing, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._show("")

    def say(self, sentence: str) -> None:
        """Print a sentence above the line."""
        with self._lock:
            self._show("")
            self._write(f"{sentence}\n")

    def timings(self) -> tuple[dict[str, float], dict[str, float]]:
        """The seconds of the stages that are done, by the clock and of the processor."""
        return self._stages.done_seconds, self._stages.processor_seconds

    def _keep_drawing(self) -> None:
        while not self._ended.wait(_PAUSE):
            with self._lock:
                self._tell_answers()
                self._show(line_of(self._stages, terminal_width() - 1))

    def _tell_answers(self) -> None:
        """Print what was learnt a while ago; the reader has waited for it since."""
        waited = time.monotonic() - (_WAITED if self.is_shown else _WAITED_IN_A_LOG)
        while self._answers and self._answers[0][0] <= waited:
            _, sentence, is_verdict = self._answers.pop(0)
            if not self._answers:
                # An older answer is part of a newer one.
                more = " Advice is still being computed; Ctrl-C ends here and keeps what is known." if is_verdict else ""
                self.say(f"{sentence}{more}")
            self._has_told_verdict |= is_verdict

    def _show(self, line: str) -> None:
        """Put a line in place of the one that is shown."""
        if not self.is_shown or (not line and not self._n_shown):
            return
        erased = " " * (self._n_shown - len(line))
        self._write(f"\r{line}{erased}" if line else f"\r{erased}\r")
        self._n_shown = len(line)

    def _write(self, text: str) -> None:
        """Write to the stream; where that cannot be, the work goes on unwatched."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()


def line_of(stages: StageTree, width: int) -> str:
    """Describe the open stages in at most ``width`` characters; nothing if none is open."""
    if not stages.open:
        return ""
    outer, inner = stages.open[0], stages.open[-1]
    label = label_of(outer.stage) if inner is outer else f"{label_of(outer.stage)}: {label_of(inner.stage)}"
    measured = next((stage for stage in reversed(stages.open) if stage.total), None)
    spent = time.monotonic() - outer.started
    figures = f"  {_clock(spent)}"
    if measured is not None:
        part = measured.fraction(1.0)
        own = time.monotonic() - measured.started
        figures = f"  [{'#' * round(_BAR * part):.<{_BAR}}]{figures}"
        if own >= _SOON and 0 < part < 1:
            figures += f", about {_clock(own * (1 - part) / part)} left"
    room = width - len(figures)
    if room < 10:
        return label[:width]
    return f"{label if len(label) <= room else label[: room - 1] + '…'}{figures}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


def is_watched() -> bool:
    """Whether stderr is a terminal that can rewrite a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
