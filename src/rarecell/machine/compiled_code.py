"""Where is compiled code kept, and what does the compiler load?

numba keeps it beside the package or in the user's cache folder. Where neither is writable, as in a read-only installation
for a user without a home folder, it refuses to compile at all. The code is then kept in a private folder and compiled again
at the next start.

numba compiles a loop again if its own file has changed, but not if a loop that it calls has changed in another file, and it fails on
code that names a file that is gone. So compiled code is thrown away as a whole when any file with loops is not the one that it was
compiled from, as after an update.

numba also loads SciPy's linear algebra where SciPy is installed, which takes as long as the rest of numba together. No loop of
ours multiplies matrices.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from rarecell.errors import BadSettings, MissingExtra
from rarecell.machine.disk import private_folder

_VARIABLE = "NUMBA_CACHE_DIR"
_STAMP = "rarecell-loops.stamp"
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
    BadSettings
        If numba was set up with values that it cannot use.
    """
    numba = _set_up()
    _load_without_linear_algebra()
    beside, at_user = Path(module).parent / "__pycache__", _user_caches()
    if os.environ.get(_VARIABLE):
        discard_outdated(Path(os.environ[_VARIABLE]) / _subfolder(module), Path(module).parent)
    elif _can_write(beside):
        discard_outdated(beside, Path(module).parent)
    elif _can_write(at_user):
        discard_outdated(at_user / _subfolder(module), Path(module).parent)
    else:
        os.environ[_VARIABLE] = str(private_folder(_owner))
        numba.config.reload_config()
    try:
        # Nothing is compiled here, but a place for it is chosen.
        numba.njit(cache=True)(_set_up)
    except RuntimeError as problem:
        raise _bad_settings(problem) from None


def _set_up() -> Any:
    """Load numba; a value that it would leave out, with a traceback in its warning, is refused."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "Environment variable 'NUMBA_", RuntimeWarning)
            import numba
    except ImportError as problem:
        raise MissingExtra.of_python("numba", platform.python_version(), str(problem)) from None
    except OSError:
        # As where the current folder is gone.
        raise
    except Exception as problem:
        raise _bad_settings(problem) from None
    return numba


def _bad_settings(problem: Exception) -> BadSettings:
    variables = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("NUMBA_")]
    return BadSettings.of_numba(str(problem).partition("\n")[0], variables)


def discard_outdated(compiled: Path, sources: Path) -> None:
    """Remove the compiled code in a folder unless it was compiled from the files that are in ``sources`` now."""
    status = [(path.name, path.stat()) for path in sorted(sources.glob("*.py"))]
    now = hashlib.sha256(repr([(name, at.st_mtime_ns, at.st_size) for name, at in status]).encode()).hexdigest()
    stamp = compiled / _STAMP
    # A folder that cannot be read or written is left to numba, which says what is wrong with it.
    with contextlib.suppress(OSError):
        if stamp.exists() and stamp.read_text(encoding="ascii") == now:
            return
        compiled.mkdir(parents=True, exist_ok=True)
        for path in [*compiled.glob("*.nbi"), *compiled.glob("*.nbc")]:
            path.unlink(missing_ok=True)
        stamp.write_text(now, encoding="ascii")


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


def _subfolder(module: str) -> str:
    """The folder that numba makes for the files of one package, in a cache folder for all."""
    from numba.core.caching import _CacheLocator

    return str(_CacheLocator.get_suitable_cache_subpath(module))  # type: ignore[no-untyped-call]


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
