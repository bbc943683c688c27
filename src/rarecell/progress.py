"""How long work tells of its progress and learns that it should stop.

The library calls a :class:`Progress`; the command line shows it with rich, the app polls it, and by default nobody
listens. Work that can take more than a second calls :func:`checkpoint` between its steps.
"""

from __future__ import annotations

from typing import Protocol

from rarecell.errors import Cancelled


class Progress(Protocol):
    """A listener to long work."""

    def start(self, stage: str, total: float | None = None) -> None:
        """A stage begins; ``total`` is its amount of work, or None when that is unknown."""

    def advance(self, amount: float = 1.0) -> None:
        """So much more of the stage is done."""

    def done(self) -> None:
        """The stage is finished."""

    def cancelled(self) -> bool:
        """True when the user wants the work to stop."""


class SilentProgress:
    """Listens to nothing and never cancels."""

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
    """Passes on that the user wants to stop, and tells nothing: for work beside other work."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def cancelled(self) -> bool:
        return self._progress.cancelled()


def checkpoint(progress: Progress, stage: str, amount: float = 0.0) -> None:
    """Report ``amount`` of work and raise :class:`~rarecell.errors.Cancelled` when the user wants to stop."""
    if amount:
        progress.advance(amount)
    if progress.cancelled():
        raise Cancelled.during(stage)
