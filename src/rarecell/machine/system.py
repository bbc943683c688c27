"""What differs between Linux, macOS and Windows?

Every difference is here, behind a name that says what is wanted. Nothing else in the package asks which system it runs
on, so the tests can imitate another system by changing one variable.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any

IS_WINDOWS = os.name == "nt"

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
"""Flag that refuses to open a link; Windows has none."""


def lock(handle: int) -> None:
    """Lock an open file until it is closed; OSError when another process holds the lock."""
    if IS_WINDOWS:
        import msvcrt

        locking: Any = msvcrt
        locking.locking(handle, locking.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def can_lock_folders() -> bool:
    """Whether folders can be locked: Windows opens files, but not folders."""
    return not IS_WINDOWS


def can_remove_open_files() -> bool:
    """Whether an open file can be removed: on Windows it has to be closed first."""
    return not IS_WINDOWS


def is_own(status: os.stat_result) -> bool:
    """Whether a file belongs to this user. Windows does not tell; there the folder itself keeps out files of other users."""
    return IS_WINDOWS or status.st_uid == os.geteuid()


def flush(path: str | os.PathLike[str]) -> None:
    """Wait until a file, or the names in a folder, have reached the disk.

    Windows flushes only what is open for writing, and has no way to flush a folder.
    """
    if IS_WINDOWS:
        if os.path.isdir(path):
            return
        flags = os.O_RDWR
    else:
        flags = os.O_RDONLY
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def physical_memory() -> int | None:
    """Bytes of memory that this machine has; None where it is unknown."""
    return _memory_of_windows("total") if IS_WINDOWS else _pages("SC_PHYS_PAGES")


def free_memory() -> int | None:
    """Bytes of memory available without swapping; None where it is unknown, as on macOS."""
    return _memory_of_windows("free") if IS_WINDOWS else _pages("SC_AVPHYS_PAGES")


def peak_memory() -> int | None:
    """The most memory that this process has held, in bytes; None on Windows. macOS counts in bytes, Linux in kibibytes."""
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _pages(name: str) -> int | None:
    with contextlib.suppress(ValueError, OSError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf(name)
    return None


def _memory_of_windows(kind: str) -> int | None:
    import ctypes

    class Status(ctypes.Structure):
        _fields_ = (
            ("length", ctypes.c_uint32),
            ("load", ctypes.c_uint32),
            ("total", ctypes.c_uint64),
            *(
                (name, ctypes.c_uint64)
                for name in ("free", "page_total", "page_free", "virtual_total", "virtual_free", "extended")
            ),
        )

    status = Status(length=ctypes.sizeof(Status))
    kernel: Any = getattr(ctypes, "windll", None)
    if kernel is None or not kernel.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return int(getattr(status, kind))


def n_cores() -> int:
    """Number of cores that this process may use; macOS and Windows tell only how many there are."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def make_output_printable() -> None:
    """Let everything be printed, into nothing if there is no place to print to.

    On Windows a pipe accepts only the characters of one code page, and any other character would end the program. A stream
    that the caller closed is opened again, because the next file would otherwise take its number, and with it whatever a
    library prints.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open until the program ends
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
