"""How are files made durable, removed completely, and kept private?"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from pathlib import Path

from rarecell.errors import NotWritten
from rarecell.machine import system


def flush_to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, have reached the disk.

    A rename may reach the disk before the data do; after a power cut the file would be empty.
    """
    system.flush(path)


def flush_tree(path: Path) -> None:
    """Flush a file, or a folder after everything in it."""
    if path.is_symlink():
        return
    if path.is_dir():
        for inner in path.iterdir():
            flush_tree(inner)
    flush_to_disk(path)


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder with everything in it; do nothing when there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def make_private(path: Path) -> None:
    """Let only the owner read a file, or a folder and everything in it."""
    if path.is_symlink():
        return
    if path.is_dir():
        path.chmod(0o700)
        for inner in path.iterdir():
            make_private(inner)
    else:
        path.chmod(0o600)


def new_private_file(path: Path) -> Path:
    """Create an empty file that only its owner can read."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    return path


# Where do records go that do not fit into memory, and who removes them if the program is killed?
#
# A private folder holds copies of confidential records. Its owner keeps a lock on it. A killed process loses its locks, so
# the next start recognises what was left behind and removes it.


_PREFIX = "rarecell-private-"


def private_folder(owner: object, parent: str | Path | None = None) -> Path:
    """Create a folder that only its user can read and that is removed together with ``owner``.

    Parameters
    ----------
    owner : object
        The folder is removed when this object is deleted, at the latest when the program ends.
    parent : str or Path, optional
        Where to create it; by default, in the system's folder for temporary files.

    Raises
    ------
    NotWritten
        If there is no such folder, or nothing can be created in it.
    """
    try:
        place = Path(tempfile.gettempdir() if parent is None else parent)
    except OSError:
        raise NotWritten.without_temporary_folder() from None
    remove_stale_folders(place)
    while True:
        # Until it is locked, another program that starts may take the folder for one that was left behind, and remove it.
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
            # A umask may take rights from the owner, too.
            with contextlib.suppress(FileNotFoundError):
                folder.chmod(0o700)
        except OSError as problem:
            raise NotWritten.in_temporary_folder(place, problem) from None
        lock = _lock(folder)
        if lock is not None:
            break
    weakref.finalize(owner, _remove, folder, lock, os.getpid())
    return folder


def remove_stale_folders(parent: Path | None = None) -> int:
    """Remove private folders left behind by processes of the same user that were killed; returns how many there were."""
    n_removed = 0
    if not system.can_lock_folders():
        return n_removed
    # A computer without a folder for temporary files has none of ours either.
    with contextlib.suppress(OSError):
        parent = parent or Path(tempfile.gettempdir())
        for folder in parent.glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                status = folder.lstat()
                if folder.is_symlink() or not folder.is_dir() or not system.is_own(status):
                    continue
                lock = _lock(folder)
                if lock is not None:
                    _remove(folder, lock, os.getpid())
                    n_removed += 1
    return n_removed


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
