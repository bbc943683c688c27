"""Which files may this program read?

The command reads whatever its user may read. The app reads only what lies inside the folder that it was started with: it
calls :func:`confined`, and from then on every file that a source, a hierarchy or a list of zeros opens is checked by
:func:`reachable` at the moment of opening, after links have been followed. Queries, servers and Spark tables could lead
anywhere, so the app refuses them.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path

from rarecell.errors import BadInput

_root: ContextVar[Path | None] = ContextVar("root", default=None)


class OutsideFolder(BadInput):
    """A name leads out of the chosen folder."""

    @classmethod
    def named(cls, name: str) -> OutsideFolder:
        return cls(
            f"'{name}' is not inside the folder that the app was started with. Start it again with another --folder to reach it."
        )


@contextlib.contextmanager
def confined(root: Path | None) -> Iterator[None]:
    """Let only files inside a folder be read; None allows all."""
    token = _root.set(None if root is None else root.resolve(strict=True))
    try:
        yield
    finally:
        _root.reset(token)


def place_inside(root: Path, name: str | Path) -> Path:
    """The place of a name relative to a folder, after links have been followed.

    Raises
    ------
    OutsideFolder
        When the place is not inside the folder, whether or not anything exists there.
    """
    text = str(name)
    try:
        place = (root / text).resolve()
    except (OSError, RuntimeError, ValueError):
        raise OutsideFolder.named(_shortened(text)) from None
    if place != root and root not in place.parents:
        raise OutsideFolder.named(_shortened(text))
    return place


def _shortened(text: str) -> str:
    clean = text.replace("\0", "\ufffd")
    return clean if len(clean) <= 100 else f"{clean[:99]}…"


def reachable(path: str | Path) -> Path:
    """The place of a file that is about to be opened.

    Raises
    ------
    OutsideFolder
        When only files inside a folder may be read and this is not one of them.
    """
    root = _root.get()
    return Path(path) if root is None else place_inside(root, Path.cwd() / path)


def still_reachable(path: str | Path) -> Callable[[], Path]:
    """:func:`reachable` for later use in any thread: a link may have replaced what was checked."""
    root = _root.get()
    return lambda: Path(path) if root is None else place_inside(root, Path.cwd() / path)


def refuse_when_confined(what: str) -> None:
    """Raise where only files inside a folder may be read, because ``what`` could lead anywhere."""
    if _root.get() is not None:
        raise BadInput(f"{what} could reach data outside the folder that the app was started with. Run it in the terminal.")


def regular_file(path: Path) -> Path:
    """Return the path when it is that of a regular file; opening a pipe or a device could block forever.

    Raises
    ------
    OSError
        When nothing exists there, or it cannot be examined.
    BadInput
        When it is something else.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise BadInput(f"{path} is not a file but a folder, a pipe or a device. Copy the data into a file, and name that.")
    return path


def read_small_text(path: Path, *, most_bytes: int = 1 << 28) -> str:
    """Read the text of a file of a run folder: a regular file, no larger than any that this program writes."""
    if os.stat(regular_file(path)).st_size > most_bytes:
        raise BadInput(f"{path} is larger than any file of its kind.")
    return path.read_text(encoding="utf-8")
