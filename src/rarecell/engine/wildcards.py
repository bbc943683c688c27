"""Which file is meant?"""

from __future__ import annotations

import glob
import os
from pathlib import Path

from rarecell.engine.reach import reachable, regular_file
from rarecell.errors import BadInput, nearest_names


def is_wildcard(path: str | Path) -> bool:
    """Whether this is a pattern such as ``data/*.parquet`` that is not itself the name of a file."""
    return glob.has_magic(str(path)) and not os.path.lexists(path)


def existing_file(path: str | Path) -> Path:
    """Return the path when it names a readable file."""
    given = reachable(path)
    try:
        if given.is_dir():
            raise BadInput(f"{given} is a folder; name a file in it.")
        if not given.exists():
            siblings = [entry.name for entry in given.parent.iterdir()] if given.parent.is_dir() else []
            near = nearest_names(given.name, siblings)
            hint = f" Did you mean {' or '.join(str(given.parent / name) for name in near)}?" if near else ""
            if not given.parent.is_dir():
                hint = f" The folder {given.parent} does not exist either."
            raise BadInput(f"There is no file {given}.{hint}")
        with open(regular_file(given), "rb"):
            return given
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise BadInput(f"{given} cannot be read: {reason}. Check its name and that you may read it.") from None
