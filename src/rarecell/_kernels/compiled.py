"""How are loops compiled?

numba makes two entry points for every function it compiles, one for Python and one for callers in C. Nothing here is called
from C; without that entry point there is less to compile at the first use on a computer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
from numba.core import event

from rarecell.machine.disk import private_folder
from rarecell.machine.system import n_cores


def njit(**options: Any) -> Any:
    """numba's decorator without the entry point for C; ``options`` are numba's own."""
    return numba.njit(no_cfunc_wrapper=True, **options)  # type: ignore[call-overload]  # an option that its types do not name


# Is something being compiled because it is used for the first time on this computer, and who can help?


class _Once(event.Listener):  # numba has no types
    """Calls a function when the first compilation begins; loading from the cache does not count."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell: Callable[[], None] | None = tell

    def on_start(self, event: Any) -> None:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell()

    def on_end(self, event: Any) -> None:
        pass


@contextmanager
def when_compiling(tell: Callable[[], None]) -> Iterator[None]:
    """Call ``tell`` once, if something is compiled in the block."""
    with event.install_listener("numba:compile", _Once(tell)):
        yield


class _Block:
    """Owns the temporary files of the second process."""


@contextmanager
def second_compiler(module: str) -> Iterator[None]:
    """Run a module that compiles loops in a process of its own until the block ends, if there is a core for it.

    One process compiles one loop at a time. What another one has compiled is found in the cache. The process is killed, so its
    temporary files lie in a folder of its parent, which removes it.
    """
    if n_cores() < 2 or not sys.executable:
        yield
        return
    nothing = subprocess.DEVNULL
    # Files in the current folder must not be taken for modules (-P).
    command, owner = [sys.executable, "-P", "-m", module], _Block()
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(private_folder(owner)))
    process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, env={**os.environ, **temporary})
    try:
        yield
    finally:
        process.kill()
        process.wait()
        del owner
