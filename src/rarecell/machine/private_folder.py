"""Where do records go that do not fit into memory, and who removes them if the program is killed?

A private folder holds copies of confidential records. Its owner keeps a lock on it. A killed process loses its locks, so
the next start recognises what was left behind and removes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from pathlib import Path

from rarecell.machine import system

_PREFIX = "rarecell-private-"


def private_folder(owner: object, parent: str | Path | None = None) -> Path:
    """Create a folder that only its user can read and that is removed together with ``owner``.

    Parameters
    ----------
    owner : object
        The folder is removed when this object is deleted, at the latest when the program ends.
    parent : str or Path, optional
        Where to create it; by default, in the system's folder for temporary files.
    """
    place = Path(tempfile.gettempdir() if parent is None else parent)
    remove_stale_folders(place)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        lock = _lock(folder)
        if lock is not None:
            break
    weakref.finalize(owner, _remove, folder, lock, os.getpid())
    return folder


def remove_stale_folders(parent: Path) -> None:
    """Remove private folders left behind by processes of the same user that were killed."""
    if not system.can_lock_folders():
        return
    with contextlib.suppress(OSError):
        for folder in parent.glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                status = folder.lstat()
                if folder.is_symlink() or not folder.is_dir() or not system.is_own(status):
                    continue
                lock = _lock(folder)
                if lock is not None:
                    _remove(folder, lock, os.getpid())


def _lock(folder: Path) -> int | None:
    """Lock a folder until the lock is closed; None when another process holds the lock or has removed the folder."""
    if not system.can_lock_folders():
        return -1
    try:
        handle = os.open(folder, os.O_RDONLY | system.NO_FOLLOW | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        system.lock(handle)
        if os.path.samestat(os.fstat(handle), os.stat(folder)):
            return handle
    except OSError:
        pass
    os.close(handle)
    return None


def _remove(folder: Path, lock: int, maker: int) -> None:
    # A forked process inherits its parent's clean-up, but must leave it to the parent.
    if os.getpid() != maker:
        return
    shutil.rmtree(folder, ignore_errors=True)
    if lock >= 0:
        with contextlib.suppress(OSError):
            os.close(lock)
