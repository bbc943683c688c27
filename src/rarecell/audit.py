"""How do results reach the disk, so that no run leaves half a file behind?

A run writes into a hidden folder inside its output folder and moves the finished files into place at the end, the run
record last: where ``run.json`` is, the run is complete. A lock keeps a second run out. Files are for their owner alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rarecell.errors import BadInput, OutputExists

_LOCK = ".rarecell.lock"
_STAGE = ".rarecell-unfinished-"
RECORD = "run.json"


@dataclass(frozen=True)
class RunRecord:
    """What was run, on what, with what: enough to repeat it and to tell two runs apart."""

    command: str
    versions: Mapping[str, str]
    input: Mapping[str, Any]
    seed: int
    seconds: Mapping[str, float] = field(default_factory=dict)

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


class RunFolder:
    """The output folder of one run; use :func:`open_run_folder`."""

    def __init__(self, target: Path, stage: Path, overwrite: bool) -> None:
        self.target = target
        self.stage = stage
        self.overwrite = overwrite

    def path(self, name: str) -> Path:
        """Where to write the file ``name`` for now."""
        if not self.overwrite and (self.target / name).exists():
            raise OutputExists.at(self.target / name)
        return self.stage / name

    def write_text(self, name: str, text: str) -> None:
        self.path(name).write_text(text, encoding="utf-8")

    def publish(self) -> list[Path]:
        """Move every finished file into place, the run record last."""
        written = []
        for staged in sorted(self.stage.iterdir(), key=lambda p: (p.name == RECORD, p.name)):
            final = self.target / staged.name
            if staged.is_dir():
                for inner in staged.iterdir():
                    inner.chmod(0o600)
                staged.chmod(0o700)
                if final.exists():
                    shutil.rmtree(final)
            else:
                staged.chmod(0o600)
            os.replace(staged, final)
            written.append(final)
        return written


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
        for left_over in target.glob(f"{_STAGE}*"):
            shutil.rmtree(left_over, ignore_errors=True)
        stage = Path(tempfile.mkdtemp(prefix=_STAGE, dir=target))
        try:
            yield RunFolder(target, stage, overwrite)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    finally:
        (target / _LOCK).unlink(missing_ok=True)
        os.close(lock)
        if not existed:
            with contextlib.suppress(OSError):
                target.rmdir()


def _locked(target: Path) -> int:
    """Hold the folder's lock until the returned descriptor is closed; a killed run lets go of it by itself."""
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
        raise BadInput(f"Another run is writing into {target}. Wait for it to end, or name another folder with --out.") from None
    return handle
