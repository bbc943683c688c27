"""Who may write into an output folder, and what is recorded about a run?

A run writes into a hidden folder inside its output folder; :mod:`rarecell.run.publishing` moves the finished files into
place. A lock keeps other runs out. Files are readable by their owner only.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from rarecell import __version__
from rarecell.engine.output import atomic_path
from rarecell.engine.places import read_small_text
from rarecell.errors import BadInput, NotWritten, OutputExists, RarecellError
from rarecell.machine import system
from rarecell.run import publishing
from rarecell.run.publishing import RECORD

if TYPE_CHECKING:
    from rarecell.edges import ReadJson

_LOCK = ".rarecell.lock"

LONGEST_NOTE = 4000
"""Maximum length of a note on a run, in characters."""

_NO_ROOM = frozenset({errno.ENOSPC, errno.EFBIG, errno.EROFS, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC)})


@dataclass(frozen=True)
class RunRecord:
    """What was run, on which data and with which versions: enough to repeat a run and to tell two runs apart.

    ``seconds`` are those of every stage by the clock, ``processor_seconds`` those that all cores together spent on each outer stage;
    ``peak_memory`` is the most that the process has held, in bytes.
    """

    command: str
    versions: Mapping[str, str]
    input: ReadJson
    seed: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    processor_seconds: Mapping[str, float] = field(default_factory=dict)
    peak_memory: int | None = None
    files: tuple[str, ...] = ()
    run: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"


def versions() -> dict[str, str]:
    """The versions that could affect a result."""
    names = ("numpy", "numba", "duckdb", "narwhals", "pyarrow")
    # A source tree that is not installed has no metadata of its own.
    return {"python": platform.python_version(), "rarecell": __version__, **{name: _version(name) for name in names}}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


class RunFolder:
    """The output folder of one run; use :func:`open_run_folder`."""

    def __init__(self, target: Path, stage: Path, overwrite: bool) -> None:
        self.target = target
        self.stage = stage
        self.overwrite = overwrite

    def path(self, name: str) -> Path:
        """Where to write the file or folder ``name`` until the run is published."""
        if not self.overwrite and (self.target / name).exists():
            raise OutputExists.at(self.target / name)
        return self.stage / name

    def write_text(self, name: str, text: str) -> None:
        self.path(name).write_text(text, encoding="utf-8")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what the run has written so far."""
        return tuple(sorted(entry.name for entry in self.stage.iterdir()))

    def publish(self) -> list[Path]:
        """Move every finished file and folder into place, the run record last; see :mod:`rarecell.run.publishing`."""
        return publishing.publish(self.stage, self.target, overwrite=self.overwrite)

    def add(self) -> list[Path]:
        """Move every finished file and folder to the results that are there, which are listed in the run record with them."""
        record = json.loads(read_small_text(self.target / RECORD))
        record["files"] = sorted({*filter(publishing.is_result, record["files"]), *self.names})
        self.write_text(RECORD, json.dumps(record, indent=2, sort_keys=True) + "\n")
        return publishing.publish(self.stage, self.target, overwrite=True, adds=True)


@contextlib.contextmanager
def open_run_folder(path: str | Path, *, overwrite: bool = False, inputs: Iterable[Path] = ()) -> Iterator[RunFolder]:
    """Open a run folder; the caller publishes it, and it is cleaned up in any case.

    Parameters
    ----------
    path : str or Path
        The folder; it is created if it does not exist.
    overwrite : bool
        Allow existing results to be replaced.
    inputs : iterable of Path
        Files and folders that the run reads, which no result may replace.

    Raises
    ------
    OutputExists
        If the folder already holds a finished run and ``overwrite`` is not given.
    BadInput
        If another run is writing into the folder, it cannot be created, or the run would destroy its own input.
    """
    target = Path(path)
    try:
        str(target).encode()
    except UnicodeEncodeError:
        raise BadInput("The name of the folder for results holds bytes that are no text. Choose another name.") from None
    try:
        existed = target.exists()
        if existed and not target.is_dir():
            raise BadInput(f"{target} is a file; --out needs the name of a folder.")
        if not overwrite and (target / RECORD).exists():
            raise OutputExists.at(target / RECORD)
        publishing.refuse_to_lose_inputs(target, inputs, overwrite=overwrite)
        target.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = _locked(target)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise BadInput(f"The folder {target} cannot be written to: {reason}. Name another one with --out.") from None
    try:
        with _staged(target, lock, overwrite=overwrite) as folder:
            yield folder
    finally:
        if not existed:
            with contextlib.suppress(OSError):
                target.rmdir()


@contextlib.contextmanager
def open_finished_run(target: Path) -> Iterator[RunFolder]:
    """Open the folder of a finished run to add results to it; the caller publishes them with :meth:`RunFolder.add`."""
    if not publishing.is_written_here(target):
        raise BadInput(f"{target} is not the folder of a finished run of rarecell.")
    try:
        lock = _locked(target)
    except OSError as problem:
        raise NotWritten.because(target, problem) from None
    with _staged(target, lock, overwrite=True) as folder:
        yield folder


@contextlib.contextmanager
def _staged(target: Path, lock: int, *, overwrite: bool) -> Iterator[RunFolder]:
    """A folder that is locked, with a place in it where results are prepared; both are given up at the end."""
    try:
        publishing.recover(target)
        if not overwrite and (target / RECORD).exists():
            raise OutputExists.at(target / RECORD)
        stage = Path(tempfile.mkdtemp(prefix=publishing.UNFINISHED, dir=target))
        try:
            yield RunFolder(target, stage, overwrite)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    except OSError as problem:
        if problem.errno in _NO_ROOM or os.path.abspath(str(problem.filename)).startswith(os.path.abspath(target)):
            raise NotWritten.because(target, problem) from None
        raise
    finally:
        _unlocked(target, lock)


def finish_publishing(target: Path) -> None:
    """Before a run folder is read, finish the move that a killed run began, unless a run is in progress there."""
    if not publishing.is_interrupted(target):
        return
    try:
        lock = _locked(target)
    except (OSError, BadInput):
        return
    try:
        with contextlib.suppress(OutputExists, OSError):
            publishing.recover(target)
    finally:
        _unlocked(target, lock)


def sweep(target: Path) -> bool:
    """After a run was killed, remove what it left, and its folder if nothing else is in it; whether results were incomplete."""
    if not target.is_dir():
        return False
    is_incomplete = False
    with contextlib.suppress(RarecellError, OSError):
        # A run in progress holds the lock.
        lock = _locked(target)
        try:
            is_incomplete = publishing.has_unfinished(target)
            publishing.recover(target)
        finally:
            _unlocked(target, lock)
    with contextlib.suppress(OSError):
        target.rmdir()
    return is_incomplete


def delete_run(target: Path) -> list[str]:
    """Delete the results of a finished run, and its folder if empty; return what else is there, which stays."""
    lock = _locked(target)
    try:
        remaining = publishing.remove_run(target)
    finally:
        _unlocked(target, lock)
    if not remaining:
        with contextlib.suppress(OSError):
            target.rmdir()
    return remaining


def rename_run(target: Path, new: Path) -> None:
    """Rename the folder of a finished run; folders that the new name is in are made."""
    if not publishing.is_written_here(target):
        raise BadInput(f"{target.name} was not written by rarecell, so it is not renamed.")
    # A run in progress there would go on under the old name.
    _unlocked(target, _locked(target))
    if os.path.lexists(new):
        raise OutputExists(f"There is something called '{new.name}' already. Choose another name.")
    try:
        new.parent.mkdir(parents=True, exist_ok=True)
        target.rename(new)
    except OSError as problem:
        raise BadInput(f"The run could not be renamed: {problem.strerror or problem}.") from None


def read_note(target: Path) -> str:
    """The note on a run; empty if there is none."""
    try:
        return read_small_text(target / publishing.NOTE)
    except (OSError, UnicodeDecodeError, BadInput):
        return ""


def write_note(target: Path, text: str) -> None:
    """Write a note on a run into its folder; an empty text removes the note."""
    if not publishing.is_written_here(target):
        raise BadInput(f"{target.name} was not written by rarecell, so nothing is written into it.")
    if len(text) > LONGEST_NOTE:
        raise BadInput(f"The note has {len(text):,} characters; at most {LONGEST_NOTE:,} are kept.")
    place = target / publishing.NOTE
    if not text.strip():
        if not place.is_symlink():
            place.unlink(missing_ok=True)
        return
    with atomic_path(place) as temporary:
        temporary.write_text(text.strip() + "\n", encoding="utf-8")


def _locked(target: Path) -> int:
    """Hold the folder's lock until the returned descriptor is closed; the lock of a killed run is released automatically."""
    while True:
        handle = os.open(target / _LOCK, os.O_CREAT | os.O_RDWR | system.NO_FOLLOW, 0o600)
        try:
            system.lock(handle)
        except OSError:
            os.close(handle)
            raise BadInput(
                f"Another run is writing into {target}. Wait for it to end, or name another folder with --out."
            ) from None
        # A run that ended in between removed its lock file: a lock on that file keeps nobody out.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(target / _LOCK)):
                return handle
        os.close(handle)


def _unlocked(target: Path, lock: int) -> None:
    if system.can_remove_open_files():
        try:
            # A folder that somebody took away has no lock any more; what went wrong with it is told by whoever writes there.
            with contextlib.suppress(OSError):
                (target / _LOCK).unlink()
        finally:
            os.close(lock)
    else:
        os.close(lock)
        with contextlib.suppress(OSError):
            (target / _LOCK).unlink()
