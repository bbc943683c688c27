"""Which files may the app touch?

Only those inside the folder that was chosen at the start. Every name that comes from the browser goes through
:meth:`ChosenFolder.resolve`, which follows symbolic links before it decides.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rarecell.choices import ZEROS
from rarecell.engine.places import DATA_SUFFIXES, OutsideFolder, is_server, place_inside, regular_file
from rarecell.errors import BadInput
from rarecell.outcome.profile import PROFILES, Profile
from rarecell.run.config import RunConfig
from rarecell.run.folder import finish_publishing, sweep
from rarecell.run.publishing import has_unfinished

__all__ = ["ChosenFolder", "FolderEntry", "OutsideFolder", "is_run", "stem"]

_DEEPEST = 3
"""Runs are searched for down to this folder depth."""


@dataclass(frozen=True)
class FolderEntry:
    """A file or folder as listed on the Data page."""

    name: str
    path: str
    is_folder: bool
    n_bytes: int


@dataclass(frozen=True)
class ChosenFolder:
    """The folder that the app was started with, with all links resolved."""

    root: Path

    @classmethod
    def at(cls, path: str | Path) -> ChosenFolder:
        folder = Path(path)
        if not folder.is_dir():
            raise BadInput(f"{folder} is not a folder. Name the folder with the data, for example: rarecell app --folder data.")
        return cls(folder.resolve(strict=True))

    def resolve(self, name: str, *, must_exist: bool = True) -> Path:
        """The path of a name relative to the folder, after following links.

        Raises
        ------
        OutsideFolder
            If the path is not inside the folder, whether or not anything is there.
        BadInput
            If nothing is there and ``must_exist`` is true.
        """
        place = place_inside(self.root, name)
        if must_exist and not _exists(place):
            raise BadInput(f"There is nothing called '{name[:100]}' in {self.root}.")
        return place

    def checked(self, config: RunConfig) -> RunConfig:
        """Return a configuration from a run folder with every file as an absolute path inside this folder.

        Raises
        ------
        BadInput
            If it would read anything other than files inside this folder.
        """
        if config.sql is not None:
            raise BadInput("This run reads its data by a query, which could reach any file. Run it in the terminal.")
        if config.spark_table is not None or is_server(config.input):
            raise BadInput("This run reads its data from Spark or from a database on a server. Run it in the terminal.")
        return replace(
            config,
            input=str(self.resolve(config.input)),
            hierarchies={key: str(self.resolve(path)) for key, path in config.hierarchies.items()},
            register=None if config.register is None else str(self.resolve(config.register)),
            profile=config.profile if config.profile is None or config.profile in PROFILES else str(self.resolve(config.profile)),
            zeros=config.zeros if config.zeros in ZEROS else str(self.resolve(config.zeros)),
        )

    def profiles(self) -> tuple[list[tuple[str, Profile]], list[tuple[str, str]]]:
        """Release profiles to choose from, by the value that names each, and the files that are meant as one but cannot be read."""
        profiles: list[tuple[str, Profile]] = list(PROFILES.items())
        unread = []
        for place in sorted(self.root.glob("*.profile.toml")):
            try:
                regular_file(self.resolve(place.name))
                profiles.append((place.name, replace(Profile.read(place), name=place.name.removesuffix(".profile.toml"))))
            except (BadInput, OSError) as problem:
                unread.append((place.name, str(problem)))
        return profiles, unread

    def relative(self, place: Path) -> str:
        """The name by which the browser knows a path."""
        return place.relative_to(self.root).as_posix()

    def listing(self, name: str = "") -> list[FolderEntry]:
        """Folders and data files in a folder, folders first; hidden ones and links that lead outside are left out."""
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
                entries.append(FolderEntry(child.name, self.relative(child), is_folder=True, n_bytes=0))
            elif inner.is_file() and child.suffix.lower() in DATA_SUFFIXES:
                entries.append(FolderEntry(child.name, self.relative(child), is_folder=False, n_bytes=n_bytes))
        return sorted(entries, key=lambda entry: not entry.is_folder)

    def run_folders(self) -> Iterator[Path]:
        """Folders of finished runs, the newest first."""
        by_age = []
        for place in self._folders(self.root, _DEEPEST):
            with contextlib.suppress(OSError):
                if is_run(place):
                    by_age.append((-(place / "run.json").stat().st_mtime, str(place), place))
        yield from (place for _, _, place in sorted(by_age))

    def swept(self) -> list[str]:
        """Names of folders that a run was writing into when it was killed; what it left there is removed."""
        names = []
        # A folder may be removed on the way.
        for place in list(self._folders(self.root, _DEEPEST)):
            with contextlib.suppress(OSError):
                if has_unfinished(place) and sweep(place):
                    names.append(self.relative(place))
        return names

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
        # Every file system limits the length of names; a number and a word still have to fit.
        short = stem.encode()[:150].decode(errors="ignore")
        while _exists(self.root / f"{short}-{number}"):
            number += 1
        return f"{short}-{number}"


def _exists(place: Path) -> bool:
    """Whether something exists; a name that is too long does not."""
    try:
        return place.exists()
    except OSError:
        return False


def stem(name: str) -> str:
    """The name of a file without its folder and endings."""
    return Path(name).name.split(".")[0] or "run"


def is_run(place: Path) -> bool:
    """Whether a folder holds a complete run: one with a run record and a summary."""
    finish_publishing(place)
    return (place / "run.json").is_file() and (place / "summary.json").is_file()
