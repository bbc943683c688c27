"""Which files may the app touch?

Only those inside the folder that was chosen when it started. Every name that comes from the browser goes through
:meth:`ChosenFolder.resolve`, which follows symbolic links before it decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rarecell.errors import BadInput

DATA_SUFFIXES = (
    *(".csv", ".tsv", ".tab", ".txt", ".gz", ".parquet", ".pq", ".parq", ".arrow", ".feather", ".ipc"),
    *(".dta", ".sav", ".zsav", ".sas7bdat", ".xpt"),
)
"""Endings of files that are listed; what is in them is decided when they are read."""

_DEEPEST = 3
"""Runs are looked for this many folders down."""


class OutsideFolder(BadInput):
    """A name leads out of the chosen folder."""

    @classmethod
    def named(cls, name: str) -> OutsideFolder:
        return cls(
            f"'{name}' is not inside the folder that the app was started with. Start it again with another --folder to reach it."
        )


@dataclass(frozen=True)
class Entry:
    """A file or folder as the Data page lists it."""

    name: str
    path: str
    is_folder: bool
    n_bytes: int


@dataclass(frozen=True)
class ChosenFolder:
    """The folder that the app was started with, all links resolved."""

    root: Path

    @classmethod
    def at(cls, path: str | Path) -> ChosenFolder:
        given = Path(path)
        if not given.is_dir():
            raise BadInput(f"{given} is not a folder. Name the folder with the data, for example: rarecell app --folder data.")
        return cls(given.resolve(strict=True))

    def resolve(self, name: str, *, must_exist: bool = True) -> Path:
        """The place of a name relative to the folder, after links were followed.

        Raises
        ------
        OutsideFolder
            When the place is not inside the folder, whether or not anything is there.
        BadInput
            When nothing is there and ``must_exist``.
        """
        if "\0" in name:
            raise OutsideFolder.named(name.replace("\0", "�"))
        try:
            place = (self.root / name).resolve()
        except (OSError, RuntimeError):
            raise OutsideFolder.named(name) from None
        if place != self.root and self.root not in place.parents:
            raise OutsideFolder.named(name)
        if must_exist and not place.exists():
            raise BadInput(f"There is nothing called '{name}' in {self.root}.")
        return place

    def relative(self, place: Path) -> str:
        """The name by which the browser knows a place."""
        return place.relative_to(self.root).as_posix()

    def listing(self, name: str = "") -> list[Entry]:
        """Folders and data files in a folder, folders first; hidden ones and what leads outside are left out."""
        place = self.resolve(name)
        if not place.is_dir():
            raise BadInput(f"'{name}' is not a folder.")
        entries = []
        for child in sorted(place.iterdir(), key=lambda child: child.name.casefold()):
            if child.name.startswith("."):
                continue
            try:
                inner = self.resolve(self.relative(child))
                n_bytes = inner.stat().st_size
            except (BadInput, OSError):
                continue
            if inner.is_dir():
                entries.append(Entry(child.name, self.relative(child), True, 0))
            elif inner.is_file() and child.suffix.lower() in DATA_SUFFIXES:
                entries.append(Entry(child.name, self.relative(child), False, n_bytes))
        return sorted(entries, key=lambda entry: not entry.is_folder)

    def run_folders(self) -> Iterator[Path]:
        """Folders of finished runs, the newest first."""
        found = [place for place in self._folders(self.root, _DEEPEST) if is_run(place)]
        yield from sorted(found, key=lambda place: (-(place / "run.json").stat().st_mtime, str(place)))

    def _folders(self, place: Path, depth: int) -> Iterator[Path]:
        yield place
        if depth == 0:
            return
        try:
            children = sorted(place.iterdir())
        except OSError:
            return
        for child in children:
            if child.is_dir() and not child.is_symlink() and not child.name.startswith("."):
                yield from self._folders(child, depth - 1)

    def new_run(self, stem: str) -> str:
        """A name for a run folder that is not taken."""
        number = 1
        while (self.root / f"{stem}-{number}").exists():
            number += 1
        return f"{stem}-{number}"


def is_run(place: Path) -> bool:
    """Where the run record and the summary are, the run is complete."""
    return (place / "run.json").is_file() and (place / "summary.json").is_file()
