"""How are files made durable, removed completely, and kept private?"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

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
