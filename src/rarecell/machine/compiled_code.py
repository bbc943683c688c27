"""Where is compiled code kept, and what does the compiler load?

numba keeps it beside the package or in the user's cache folder. Where neither is writable, as in a read-only installation
for a user without a home folder, it refuses to compile at all. The code is then kept in a private folder and compiled again
at the next start.

numba also loads SciPy's linear algebra where SciPy is installed, which takes as long as the rest of numba together. No loop of
ours multiplies matrices.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from pathlib import Path

from rarecell.errors import MissingExtra
from rarecell.machine.disk import private_folder

_VARIABLE = "NUMBA_CACHE_DIR"
_LINEAR_ALGEBRA = "scipy.linalg.cython_blas"


class _UntilTheEnd:
    """Owns the folder until the program ends."""


_owner = _UntilTheEnd()


def find_place(module: str) -> None:
    """Give numba a place for compiled code if it would find none; call this before anything is compiled.

    Parameters
    ----------
    module : str
        Path of a file in the package that contains the kernels.

    Raises
    ------
    MissingExtra
        If numba cannot be loaded, as on a Python that it does not support yet.
    """
    try:
        import numba
    except ImportError as problem:
        raise MissingExtra.of_python("numba", platform.python_version(), str(problem)) from None
    _load_without_linear_algebra()
    if os.environ.get(_VARIABLE) or any(_can_write(place) for place in (Path(module).parent / "__pycache__", _user_caches())):
        return
    os.environ[_VARIABLE] = str(private_folder(_owner))
    numba.config.reload_config()  # type: ignore[no-untyped-call]


def _load_without_linear_algebra() -> None:
    """Load numba's functions of arrays as if there were no SciPy.

    Loops compiled by others in the same process can still multiply matrices: numba looks for SciPy again when it meets them.
    Only its convolution falls back on a plain loop.
    """
    if _LINEAR_ALGEBRA in sys.modules:
        return
    sys.modules[_LINEAR_ALGEBRA] = None  # type: ignore[assignment]  # None is how Python marks a module that cannot be loaded
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        del sys.modules[_LINEAR_ALGEBRA]


def _user_caches() -> Path:
    """The user's cache folder, as numba finds it on this system."""
    from numba.misc.appdirs import AppDirs

    return Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)  # type: ignore[no-untyped-call]


def _can_write(place: Path) -> bool:
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False
