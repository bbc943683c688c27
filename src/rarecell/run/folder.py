"""How do results reach the disk, so that no run leaves half a file behind?

A run writes into a hidden folder inside its output folder and moves the finished files into place at the end, the run
record last: where ``run.json`` is, the run is complete. What a killed run had moved already is taken back by the next run.
A lock keeps a second run out. Files are for their owner alone.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rarecell.engine.output import remove
from rarecell.errors import BadInput, NotWritten, OutputExists

_LOCK = ".rarecell.lock"
_STAGE = ".rarecell-unfinished-"
_MOVING = ".rarecell-moving-"
_PLAN = ".plan"
RECORD = "run.json"

_NO_ROOM = frozenset({errno.ENOSPC, errno.EFBIG, errno.EROFS, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC)})


@dataclass(frozen=True)
class RunRecord:
    """What was run, on what, with what: enough to repeat it and to tell two runs apart."""

    command: str
    versions: Mapping[str, str]
    input: Mapping[str, Any]
    seed: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"


def versions() -> dict[str, str]:
    """The versions that could change a result."""
    import platform
    from importlib.metadata import version

    names = ("rarecell", "numpy", "scipy", "numba", "duckdb", "narwhals", "pyarrow")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def file_hash(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def files_hash(paths: Sequence[Path]) -> str:
    """SHA-256 of a file; of several files in their order, that of the list of their hashes, one a line."""
    hashes = [file_hash(path) for path in paths]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(f"{one}\n" for one in hashes).encode()).hexdigest()


class RunFolder:
    """The output folder of one run; use :func:`open_run_folder`."""

    def __init__(self, target: Path, stage: Path, overwrite: bool) -> None:
        self.target = target
        self.stage = stage
        self.overwrite = overwrite

    def path(self, name: str) -> Path:
        """Where to write the file or folder ``name`` for now."""
        if not self.overwrite and (self.target / name).exists():
            raise OutputExists.at(self.target / name)
        return self.stage / name

    def write_text(self, name: str, text: str) -> None:
        self.path(name).write_text(text, encoding="utf-8")

    @property
    def names(self) -> tuple[str, ...]:
        """What the run has written so far."""
        return tuple(sorted(entry.name for entry in self.stage.iterdir()))

    def publish(self) -> list[Path]:
        """Move every finished file and folder into place, the run record last.

        1. Write down what will be moved and what it replaces, so that a killed move can be taken back.
        2. Take away the record of the run that is overwritten: from here on the folder holds no complete run.
        3. Take away its other files, move the new ones into place, and the new record last.
        """
        names = sorted(self.names, key=lambda name: (name == RECORD, name))
        for name in names:
            self.path(name)
            _for_its_owner(self.stage / name)
        replaced = _published_names(self.target)
        (self.stage / _PLAN).write_text(json.dumps({"new": names, "old": replaced}), encoding="utf-8")
        moving = self.stage.with_name(self.stage.name.replace(_STAGE, _MOVING))
        _to_disk(self.stage)
        self.stage = self.stage.rename(moving)

        (self.target / RECORD).unlink(missing_ok=True)
        for name in {*replaced, *names}:
            # A folder replaces nothing by being moved, and a file no folder.
            if name not in names or (self.target / name).is_dir() or (moving / name).is_dir():
                remove(self.target / name)
        for name in names:
            os.replace(moving / name, self.target / name)
        _flushed(self.target)
        return [self.target / name for name in names]


def _for_its_owner(path: Path) -> None:
    """The mode of a file, or of a folder and everything in it."""
    if path.is_dir():
        path.chmod(0o700)
        for inner in path.iterdir():
            _for_its_owner(inner)
    else:
        path.chmod(0o600)


def _to_disk(path: Path) -> None:
    """Names may reach the disk before what they name; after a power cut a complete run would have empty files."""
    if os.name == "nt" or path.is_symlink():
        return
    if path.is_dir():
        for inner in path.iterdir():
            _to_disk(inner)
    _flushed(path)


def _flushed(path: Path) -> None:
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _published_names(target: Path) -> list[str]:
    """Files of the complete run in a folder, by its own record."""
    try:
        names = json.loads((target / RECORD).read_text(encoding="utf-8"))["files"]
        return [name for name in names if name == Path(name).name]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def _sweep(target: Path) -> None:
    """Take away what a killed run left: its own folder, and those of its files that it had moved into place already."""
    for left_over in target.glob(f"{_STAGE}*"):
        shutil.rmtree(left_over, ignore_errors=True)
    for left_over in target.glob(f"{_MOVING}*"):
        # With the old record in place nothing was moved yet; without a plan it was swept up to here.
        with contextlib.suppress(OSError, ValueError):
            plan = json.loads((left_over / _PLAN).read_text(encoding="utf-8"))
            is_moved = {name: not (left_over / name).exists() for name in plan["new"]}
            if not (target / RECORD).exists() and not all(is_moved.values()):
                for name in (*plan["old"], *(name for name in plan["new"] if is_moved[name])):
                    remove(target / name)
        shutil.rmtree(left_over, ignore_errors=True)


@contextlib.contextmanager
def open_run_folder(path: str | Path, *, overwrite: bool = False) -> Iterator[RunFolder]:
    """A run folder that is published by the caller, and swept whatever happens.

    Raises
    ------
    OutputExists
        When a finished run is there already and ``overwrite`` is not given.
    BadInput
        When another run is writing into the folder, or it cannot be made.
    """
    target = Path(path)
    existed = target.exists()
    if existed and not target.is_dir():
        raise BadInput(f"{target} is a file; --out needs the name of a folder.")
    if not overwrite and (target / RECORD).exists():
        raise OutputExists.at(target / RECORD)
    try:
        target.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = _locked(target)
    except OSError as problem:
        raise BadInput(f"The folder {target} cannot be written to: {problem.strerror}.") from None
    try:
        _sweep(target)
        stage = Path(tempfile.mkdtemp(prefix=_STAGE, dir=target))
        try:
            yield RunFolder(target, stage, overwrite)
        finally:
            _sweep(target)
    except OSError as problem:
        if problem.errno in _NO_ROOM or os.path.abspath(str(problem.filename)).startswith(os.path.abspath(target)):
            raise NotWritten.because(target, problem) from None
        raise
    finally:
        _unlocked(target, lock)
        if not existed:
            with contextlib.suppress(OSError):
                target.rmdir()


def _locked(target: Path) -> int:
    """Hold the folder's lock until the returned descriptor is closed; a killed run lets go of it by itself."""
    while True:
        handle = os.open(target / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            if os.name == "nt":
                import msvcrt

                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
            else:
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise BadInput(
                f"Another run is writing into {target}. Wait for it to end, or name another folder with --out."
            ) from None
        # A run that ended in between took its lock file away: a lock on that one keeps nobody out.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(target / _LOCK)):
                return handle
        os.close(handle)


def _unlocked(target: Path, lock: int) -> None:
    if os.name == "nt":
        os.close(lock)
        with contextlib.suppress(OSError):
            (target / _LOCK).unlink()
    else:
        (target / _LOCK).unlink(missing_ok=True)
        os.close(lock)
