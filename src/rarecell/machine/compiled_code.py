"""Where is compiled code kept?

numba keeps it beside the package, or in the user's folder for caches. Where neither can be written to, as in a read-only
installation for a user without a home, it refuses to compile at all; then the code is kept in a private folder and
compiled again by the next start.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from rarecell.machine.private_folder import private_folder

_VARIABLE = "NUMBA_CACHE_DIR"


class _UntilTheEnd:
    """Owns the folder until the program ends."""


_owner = _UntilTheEnd()


def find_place(module: str) -> None:
    """Before anything is compiled: give numba a place for it, when it would find none.

    Parameters
    ----------
    module : str
        A file of the package that has the loops.
    """
    if os.environ.get(_VARIABLE) or any(_can_write(place) for place in (Path(module).parent / "__pycache__", _user_caches())):
        return
    os.environ[_VARIABLE] = str(private_folder(_owner))
    import numba

    numba.config.reload_config()  # type: ignore[no-untyped-call]


def _user_caches() -> Path:
    """The user's folder for caches, as numba finds it on this system."""
    from numba.misc.appdirs import AppDirs

    return Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)  # type: ignore[no-untyped-call]


def _can_write(place: Path) -> bool:
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False
