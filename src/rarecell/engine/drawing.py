"""Which of several equal records is taken?

Records of one unit are alike in everything that a swap considers, so any of them may be taken. They are taken in the
order of a hash of the seed and the record's name: the value of its id column, or its number in the file. SHA-256 is the
same on every engine, so the same seed takes the same records in memory, in a file and on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell.edges import Level
from rarecell.errors import BadInput

NamesOfRecords = Callable[[NDArray[np.int64]], Iterable[Level]]
"""A function that gives the name of each of these records: whole numbers or text."""


def hashed_text(seed: int, name: object) -> str:
    """The text whose SHA-256 decides; an engine that computes the hash itself uses the same text."""
    return f"{seed}|{name}"


def drawing_order(seed: int, names: Iterable[Level]) -> NDArray[np.uint64]:
    """The first eight bytes of each hash as a number; records are drawn in ascending order."""
    digests = b"".join(sha256(hashed_text(seed, name).encode()).digest()[:8] for name in names)
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def names_of_records(given: ArrayLike | NamesOfRecords | None, n_records: int) -> NamesOfRecords:
    """How records are named: by row number, unless the user gives a name for each or a function of row numbers."""
    if given is None:
        return lambda rows: rows.tolist()
    if callable(given):
        return given
    names = np.asarray(given)
    if names.shape != (n_records,):
        raise BadInput(f"{names.size:,} identities were given for {n_records:,} records; each record needs one.")
    return lambda rows: names[rows].tolist()
