"""How is a database on a server named, and how much of its name may be written down?

An address is a URI, ``postgresql://user@host:port/database?option=value``, or ``postgres:`` followed by pairs such as
``host=db dbname=census``; PostgreSQL's own library, libpq, reads both. When libpq cannot read an address, its error
message repeats parts of it, which may include parts of a password. So the form is checked here first, and passwords are
removed from whatever is stored or shown.
"""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

from rarecell.errors import BadInput

_SERVER = re.compile(r"postgres(ql)?:")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")

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
    elif found := _SCHEME.match(place):
        raise BadInput(
            f"Data at addresses that begin with {found[1]}:// are not read. Name a file by its path, or a PostgreSQL database as "
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
    if found := _URI.fullmatch(address):
        options = [option for option in (found["options"] or "").split("&") if option.partition("=")[0] not in _SECRET | {""}]
        user = "" if found["user"] is None else f"{found['user']}@"
        return f"{found['scheme']}{user}{found['place']}{'?' if options else ''}{'&'.join(options)}"
    pairs = _pairs(address.removeprefix("postgres:")) or []
    return f"postgres:{' '.join(text.strip() for name, text in pairs if name not in _SECRET)}"


def named_places(place: str, query: str | None = None) -> list[Path]:
    """Existing files and folders named by an input or by strings in a query; a wildcard names what it matches."""
    named = [] if not place or is_server(place) else [place]
    named += [text.replace("''", "'") for text in re.findall(r"'((?:[^']|'')*)'", query or "")]
    found = []
    for name in named:
        try:
            matched = [name] if os.path.lexists(name) else glob.glob(name, recursive=True) if glob.has_magic(name) else []
        except (OSError, ValueError, re.error):
            matched = []
        found += [Path(one) for one in matched]
    return found


def redacted(message: str) -> str:
    """A message from a server or an engine, which may repeat the address it was given, with passwords removed."""
    return re.sub(
        r"(://[^:/@\s]*:)[^@\s]*@|(password\s*=\s*)('[^']*'|\S+)", lambda met: f"{met[1]}…@" if met[1] else f"{met[2]}…", message
    )


def _pairs(text: str) -> list[tuple[str, str]] | None:
    """The name and the whole text of each pair, or None when there is anything else among them."""
    pairs, place, text = [], 0, text.rstrip()
    while place < len(text):
        found = _PAIR.match(text, place)
        if found is None:
            return None
        pairs.append((found["name"], found[0]))
        place = found.end()
    return pairs
