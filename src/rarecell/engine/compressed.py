"""How are the bytes of a text file read and written when they may be compressed?"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from gzip import GzipFile
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from rarecell.errors import BadInput


def is_gzipped(path: Path) -> bool:
    """Whether the text is compressed; an error when only the name says so."""
    with open(path, "rb") as stream:
        is_compressed = stream.read(2) == b"\x1f\x8b"
    if path.suffix.lower() == ".gz" and not is_compressed and path.stat().st_size:
        raise BadInput(f"{path} ends in .gz but is not compressed by gzip. Rename it, or compress it again.")
    return is_compressed


def reading(path: Path, is_compressed: bool) -> GzipFile | FileIO:
    """The bytes of a text file, decompressed."""
    return gzip.open(path, "rb") if is_compressed else open(path, "rb", buffering=0)


@contextmanager
def writing(raw: BinaryIO, is_compressed: bool) -> Iterator[GzipFile | BinaryIO]:
    """Write text to a binary stream, compressed if so wanted.

    No name or time is kept inside, so that the same data give the same bytes. Level 6 is that of the gzip command; level 9, the
    default of Python, takes five times as long for a file that is a twentieth smaller.
    """
    if not is_compressed:
        yield raw
        return
    with GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as out:
        yield out


def read_up_to(stream: GzipFile | FileIO, n_bytes: int, path: Path) -> bytes:
    """Read the requested number of bytes, or fewer only at the end of the file."""
    parts, missing = [], n_bytes
    try:
        while missing:
            part = stream.read(missing)
            if not part:
                break
            parts.append(part)
            missing -= len(part)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise BadInput(
            f"{path} is damaged or incomplete: its compressed data end too early or do not match their checksum. Copy or compress "
            "the file anew."
        ) from None
    except OSError as problem:
        raise BadInput(f"{path} could not be read to its end: {problem.strerror or problem}. Copy it again and rerun.") from None
    return b"".join(parts)
