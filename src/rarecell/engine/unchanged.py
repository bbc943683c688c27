"""Did the files of a run change while it worked on them?

A file is read more than once: to count, to find records and to write it back. If it changed in between, the result would
silently mix two files. Size, time and identity are checked before and after each reading; a hash of the contents, taken
when a run begins and again when it ends, is decisive. Where only some files may be read, each check also makes sure
that this is still one of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Thread

from rarecell.engine.reach import still_reachable
from rarecell.errors import BadInput


def changed(name: object) -> BadInput:
    """The error for data that changed."""
    return BadInput(f"{name} changed while it was being worked on. Wait until it is complete, and run again.")


class FileStamp:
    """Size, time and identity of a file when it was opened.

    Parameters
    ----------
    path : Path
        The file.
    name : str, optional
        What messages call it; its path by default.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path = path
        self.name = name or str(path)
        self._still_reachable = still_reachable(path)
        self._first = self._read()

    @property
    def n_bytes(self) -> int:
        return self._first[0]

    def refuse_change(self) -> None:
        """Raise when the file is no longer the one that was opened."""
        if self._read() != self._first:
            raise changed(self.name)

    def _read(self) -> tuple[int, ...]:
        try:
            status = self.path.stat()
        except OSError as problem:
            raise BadInput(
                f"{self.path} can no longer be read: {problem.strerror or problem}. Put it back, and run again."
            ) from None
        self._still_reachable()
        return status.st_size, status.st_mtime_ns, status.st_ino


class Watch:
    """The contents of some files when a run began; the hash is computed in the background."""

    def __init__(self, paths: Sequence[Path], name: str) -> None:
        self.paths = tuple(paths)
        self.name = name
        self._first: Future[str] = Future()
        Thread(target=_hash_into, args=(self._first, self.paths), daemon=True).start()

    def unchanged_hash(self) -> str:
        """SHA-256 of the files, which is the same as when the run began.

        Raises
        ------
        BadInput
            When the contents have changed.
        """
        try:
            if self._first.result() == (found := files_hash(self.paths)):
                return found
        except OSError:
            pass
        raise changed(self.name)


def _hash_into(result: Future[str], paths: Sequence[Path]) -> None:
    try:
        result.set_result(files_hash(paths))
    except Exception as problem:
        result.set_exception(problem)


def file_hash(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def files_below(path: Path) -> list[Path]:
    """The file itself, or all files in a folder, in the order of their names."""
    return [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())


def files_hash(paths: Sequence[Path]) -> str:
    """SHA-256 of one file; for several files, SHA-256 of the list of their hashes in order, one per line."""
    hashes = [file_hash(path) for path in paths]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(f"{one}\n" for one in hashes).encode()).hexdigest()
