"""Which files may this program read?

The command reads whatever its user may read. The app reads only what lies inside the folder that it was started with: it
calls :func:`confined`, and from then on every file that a source, a hierarchy or a list of zeros opens is checked by
:func:`reachable` at the moment of opening, after links have been followed. Queries, servers and Spark tables could lead
anywhere, so the app refuses them.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from pathlib import Path
from threading import Thread

from rarecell.errors import BadInput, nearest_names

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


# Which kinds of files are read, judging by the endings of their names?


TEXT_SUFFIXES = (".csv", ".tsv", ".tab", ".txt")
PARQUET_SUFFIXES = (".parquet", ".pq", ".parq")
ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")
STATISTICS_SUFFIXES = (".dta", ".sav", ".zsav", ".sas7bdat", ".xpt")
WORKBOOK_SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
PART_SUFFIXES = {"Parquet": PARQUET_SUFFIXES, "CSV": (".csv", ".tsv", ".csv.gz", ".tsv.gz")}
"""Kinds of files that a folder of parts can consist of."""

DATA_SUFFIXES = (*TEXT_SUFFIXES, ".gz", *PARQUET_SUFFIXES, *ARROW_SUFFIXES, *STATISTICS_SUFFIXES, *WORKBOOK_SUFFIXES)
"""Endings of the names of data files; ``.gz`` is compressed text."""

FORMATS = (
    "CSV or TSV (also .gz), Parquet, Arrow or Feather, Excel .xlsx and .xls, OpenDocument .ods, Stata .dta, SPSS .sav or .zsav, "
    "SAS .sas7bdat or .xpt"
)


# Which file is meant?


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
            if str(given).startswith("file:/"):
                raise BadInput(f"{given} is an address. Name the file by its path, without file:// before it.")
            if _ADDRESS.match(str(given)):
                raise BadInput(
                    "The address of a server was named where a file is expected. Write the rows into a file, and name that file by its path."
                )
            if given.is_symlink():
                raise BadInput(
                    f"{given} is a link to {os.readlink(given)}, which is not there. Correct the link, or name the file itself."
                )
            siblings = [entry.name for entry in given.parent.iterdir()] if given.parent.is_dir() else []
            near = nearest_names(given.name, siblings)
            hint = f" Did you mean {' or '.join(str(given.parent / name) for name in near)}?" if near else ""
            if not given.parent.is_dir():
                hint = f" The folder {given.parent} does not exist either."
            raise BadInput(f"There is no file {given}.{hint}")
        with open(regular_file(given), "rb") as stream:
            # A disk may refuse only when something is read.
            stream.read(1)
            return given
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise BadInput(f"{given} cannot be read: {reason}. Check its name and that you may read it.") from None


# How is a database on a server named, and how much of its name may be written down?
#
# An address is a URI, ``postgresql://user@host:port/database?option=value``, or ``postgres:`` followed by pairs such as
# ``host=db dbname=census``; PostgreSQL's own library, libpq, reads both. When libpq cannot read an address, its error
# message repeats parts of it, which may include parts of a password. So the form is checked here first, and passwords are
# removed from whatever is stored or shown.


_SERVER = re.compile(r"postgres(ql)?:")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_ADDRESS = re.compile(r"(?:postgres(?:ql)?(?=:(?:/|.*=))|[A-Za-z][A-Za-z0-9+.-]+(?=:[/\\])):")
"""The begin of an address, whose slashes a path has joined; one letter is the drive of a path."""

_HOST = r"(?:\[[0-9A-Fa-f:.%]*\]|[^\s:@/?#\[\],]*)(?::[0-9]*)?"
_OPTION = r"[A-Za-z0-9_]+=[^\s@#&=]*"
_URI = re.compile(
    r"(?P<scheme>postgres(?:ql)?://)"
    r"(?:(?P<user>[^\s:@/?#]*)(?P<password>:[^\s@/?#]*)?@)?"
    rf"(?P<place>{_HOST}(?:,{_HOST})*(?:/[^\s@?#]*)?)"
    rf"(?:\?(?P<options>{_OPTION}(?:&{_OPTION})*)?)?"
)
_BAD_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})|%00")
_PAIR = re.compile(r"\s*(?P<name>\w+)\s*=\s*(?:'(?:[^'\\]|\\.)*'|(?!')(?:[^\s\\]|\\.)*)(?=\s|$)", re.DOTALL)

_SECRET = frozenset({"password", "sslpassword"})


def is_server(address: str) -> bool:
    """Whether this is the address of a PostgreSQL database, well-formed or not."""
    return _SERVER.match(address) is not None


def check_place(place: str, *, has_query: bool) -> None:
    """Refuse a server without a query, a malformed address, or another kind of address; paths are checked when opened."""
    if is_server(place):
        if not has_query:
            raise BadInput(
                "A database was named without a query. Say which rows are the records, with --sql 'SELECT …' (sql= in Python)."
            )
        connection_string(place)
    elif scheme := _SCHEME.match(place):
        raise BadInput(
            f"Data at addresses that begin with {scheme[1]}:// are not read. Name a file by its path, or a PostgreSQL database as "
            "postgresql://user@host/database together with a query."
        )


def connection_string(address: str) -> str:
    """What libpq is given for an address; an address in neither form is refused."""
    if _URI.fullmatch(address) and not _BAD_PERCENT.search(address):
        return address
    pairs = address.removeprefix("postgres:")
    if pairs != address and _pairs(pairs):
        return pairs
    raise BadInput(
        "The address of the database cannot be understood. It is written as postgresql://user@host:port/database?option=value, where "
        "characters such as @ : / ? # % inside a part are written as %40 %3A %2F %3F %23 %25, or as postgres: with pairs, as in "
        "'postgres:host=db dbname=census'. Leave a password out of it; PGPASSWORD or ~/.pgpass can hold it."
    )


def without_password(address: str) -> str:
    """An address as it may be stored; anything else, such as a path, is returned unchanged."""
    if not is_server(address):
        return address
    if parts := _URI.fullmatch(address):
        options = [option for option in (parts["options"] or "").split("&") if option.partition("=")[0] not in _SECRET | {""}]
        user = "" if parts["user"] is None else f"{parts['user']}@"
        return f"{parts['scheme']}{user}{parts['place']}{'?' if options else ''}{'&'.join(options)}"
    pairs = _pairs(address.removeprefix("postgres:")) or []
    return f"postgres:{' '.join(text.strip() for name, text in pairs if name not in _SECRET)}"


def named_places(place: str, query: str | None = None) -> list[Path]:
    """Existing files and folders named by an input or by strings in a query; a wildcard names what it matches."""
    named = [] if not place or is_server(place) else [place]
    named += [text.replace("''", "'") for text in re.findall(r"'((?:[^']|'')*)'", query or "")]
    places = []
    for name in named:
        try:
            matched = [name] if os.path.lexists(name) else glob.glob(name, recursive=True) if glob.has_magic(name) else []
        except (OSError, ValueError, re.error):
            matched = []
        places += [Path(match) for match in matched]
    return places


def redacted(message: str) -> str:
    """A message from a server or an engine, which may repeat the address it was given, with passwords removed."""
    return re.sub(
        r"(://[^:/@\s]*:)[^@\s]*@|(password\s*=\s*)('[^']*'|\S+)", lambda met: f"{met[1]}…@" if met[1] else f"{met[2]}…", message
    )


def _pairs(text: str) -> list[tuple[str, str]] | None:
    """The name and the whole text of each pair, or None when there is anything else among them."""
    pairs, place, text = [], 0, text.rstrip()
    while place < len(text):
        pair = _PAIR.match(text, place)
        if pair is None:
            return None
        pairs.append((pair["name"], pair[0]))
        place = pair.end()
    return pairs


# Did the files of a run change while it worked on them?
#
# A file is read more than once: to count, to find records and to write it back. If it changed in between, the result would
# silently mix two files. Size, time and identity are checked before and after each reading; a hash of the contents, taken
# when a run begins and again when it ends, is decisive. Where only some files may be read, each check also makes sure
# that this is still one of them.


def changed(name: object) -> BadInput:
    """The error for data that changed."""
    return BadInput(f"{name} changed while it was being worked on. Wait until it is complete, and run again.")


class FileStamp:
    """Size, time and identity of a file when it was opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._still_reachable = still_reachable(path)
        self._first = self._read()

    @property
    def n_bytes(self) -> int:
        return self._first[0]

    def refuse_change(self) -> None:
        """Raise when the file is no longer the one that was opened."""
        if self._read() != self._first:
            raise changed(self.path)

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
    """The contents of some files when a run began; the hash is computed in the background.

    At the end it is computed once more, and again only if the system says that a file was touched since.
    """

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
            state = [_state(path) for path in self.paths]
            if self._first.result() == (current := self._hash if state == self._state else files_hash(self.paths)):
                self._state, self._hash = state, current
                return current
        except (OSError, BadInput):
            pass
        raise changed(self.name)

    _state: list[tuple[int, ...]] | None = None
    _hash: str = ""


def _state(path: Path) -> tuple[int, ...]:
    """What differs after any change of a file, and also after some that leave its contents alone."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _hash_into(result: Future[str], paths: Sequence[Path]) -> None:
    try:
        result.set_result(files_hash(paths))
    except Exception as problem:
        result.set_exception(problem)


def file_hash(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with regular_file(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def files_below(path: Path) -> list[Path]:
    """The file itself, or all files in a folder, in the order of their names."""
    return [path] if path.is_file() else sorted(inside for inside in path.rglob("*") if inside.is_file())


def files_hash(paths: Sequence[Path]) -> str:
    """SHA-256 of one file; for several files, SHA-256 of the list of their hashes in order, one per line."""
    hashes = [file_hash(path) for path in paths]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(f"{digest}\n" for digest in hashes).encode()).hexdigest()
