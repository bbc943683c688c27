"""How much memory does a run need, and how does it keep to what it was given?

A run is given a limit. An eighth of it may hold the codes of records; larger files are counted by DuckDB, which gets half
of the limit and spills what does not fit to disk. The rest must hold the occupied cells and what is computed from them;
whether it does is known as soon as they are counted, before any long work begins.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass

from rarecell.errors import BadInput, TooLarge
from rarecell.machine import system

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}

LEAST = 10**9
"""No run is guaranteed to work with less."""

_MOST = 2.0**60
_LIBRARIES = 380 * 10**6
"""Interpreter and libraries."""

_BYTES_OF_CELL = 1_000
"""Counts, probabilities and scores of a cell, and room to compute them, as measured by benchmarks/scale.py."""

_BYTES_OF_UNIQUE = 400
"""Risk of a sample unique with its draws and the combinations that single it out, measured likewise."""

_BYTES_OF_CODE = 8
"""Code of one key of a cell, with room for its projection."""

_BYTES_OF_RECORD, _BYTES_TO_COUNT_RECORD = 8, 16
"""For a record held in memory: its cell, and what finding the cell takes besides the codes of its keys."""

_MOST_FOR_ENGINE = 8 * 2**30
_LEAST_FOR_TABLES = 2**26
"""A search or fit that needs no more is not worth refusing."""
_LEAST_FOR_MARGINALS, _MOST_FOR_MARGINALS = 2**26, 2**29
_BYTES_OF_MARGINALS = 1_000
"""For each cell, what marginals and projections may take that are kept for reuse."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """What the memory of a run depends on.

    Attributes
    ----------
    n_cells, n_uniques, n_keys : int
        Occupied cells, those among them with one record, and keys.
    n_records : int
        Records held in memory; 0 when DuckDB or Spark holds them.
    has_swaps : bool
        Whether the run plans swaps, too.
    """

    n_cells: int = 0
    n_uniques: int = 0
    n_keys: int
    n_records: int = 0
    has_swaps: bool = False


@dataclass(frozen=True)
class MemoryLimit:
    """What a run may use, in bytes, and how it is divided."""

    total: int

    @classmethod
    def of(cls, text: str | None = None) -> MemoryLimit:
        """A limit such as ``"4GB"``; half of the machine's memory when none is given."""
        if text is None:
            return cls(max(LEAST, machine_memory() // 2))
        size_and_unit = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", text)
        if size_and_unit is None or size_and_unit[2].upper() not in _UNITS:
            raise BadInput(f"The memory was given as '{text}'; it must be a number with a unit, such as 4GB or 512MiB.")
        size = float(size_and_unit[1]) * _UNITS[size_and_unit[2].upper()]
        if size > _MOST:
            raise BadInput(
                f"The memory was given as '{text[:40]}'; no computer has that much. Give what the run may use, such as 4GB."
            )
        total = int(size)
        if total < LEAST:
            raise BadInput(f"The memory was given as '{text}'; a run needs at least 1GB.")
        return cls(total)

    @property
    def engine(self) -> int:
        """Bytes for DuckDB, which writes to disk what does not fit."""
        return min(self.total // 2, _MOST_FOR_ENGINE)

    @property
    def codes(self) -> int:
        """Bytes for the codes of records."""
        return min(self.total // 8, 2**29)

    @staticmethod
    def needed(size: Size) -> int:
        """Bytes a run will need at its peak."""
        counting = size.n_records * (_BYTES_OF_RECORD + _BYTES_TO_COUNT_RECORD + 2 * size.n_keys)
        modelling = size.n_cells * (_BYTES_OF_CELL + _BYTES_OF_CODE * size.n_keys) + size.n_uniques * _BYTES_OF_UNIQUE
        # A plan of swaps looks up margins of the protected table beside those of the original.
        swapping = marginals_budget(size.n_cells) if size.has_swaps else 0
        return _LIBRARIES + max(counting, modelling + swapping + size.n_records * _BYTES_OF_RECORD)

    def spare(self, size: Size) -> int:
        """Bytes left for the tables of a search or a fit, besides what :meth:`needed` counts."""
        return max(self.total - self.needed(size), _LEAST_FOR_TABLES)

    def check(self, size: Size) -> None:
        """Refuse a run that would exceed the limit, before its long work begins."""
        needed = self.needed(size)
        if needed > self.total:
            raise TooLarge(
                f"The keys have {size.n_cells:,} occupied cells, for which the run needs about {gigabytes(needed)}, and "
                f"{gigabytes(self.total)} may be used. Allow more with --memory, or use fewer or coarser keys, for example bands of a key "
                "with many values."
            )

    def check_records(self, *, n_records: int, n_keys: int) -> None:
        """Refuse a run that needs single records when that many do not fit into memory."""
        needed = self.needed(Size(n_keys=n_keys, n_records=n_records))
        if needed > self.total:
            raise TooLarge(
                f"The run looks at single records, and {n_records:,} of them take about {gigabytes(needed)} on one machine, where "
                f"{gigabytes(self.total)} may be used. Allow more with --memory. Households, places to exchange, weights to swap alike, "
                "analyses and columns outside the keys are what needs single records; leave these out to work with counts alone."
            )


def marginals_budget(n_cells: int) -> int:
    """Memory for marginals and projections that are kept for reuse."""
    return min(_MOST_FOR_MARGINALS, max(_LEAST_FOR_MARGINALS, _BYTES_OF_MARGINALS * n_cells))


def gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:,.1f} GB"


def peak_memory() -> int | None:
    """The most memory that this process has held, in bytes; None where the system does not say."""
    return system.peak_memory()


def machine_memory() -> int:
    """Memory of this machine in bytes; 4 GiB where it is unknown."""
    return system.physical_memory() or 4 << 30


def free_memory() -> int:
    """Bytes of memory available without swapping; assumed to be 4 GiB where the system does not say."""
    return system.free_memory() or 4 << 30


LEAST_ADDRESS_SPACE = 2_200_000_000
"""Bytes of addresses that the libraries take for a file of a few thousand records; with fewer, some of them abort the program."""


def refuse_small_address_space() -> None:
    """Raise when the session limits addresses (``ulimit -v``) to fewer than the libraries need."""
    if importlib.util.find_spec("resource") is None:
        return
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit not in (-1, resource.RLIM_INFINITY) and limit < LEAST_ADDRESS_SPACE:
        raise BadInput(
            f"This session may use only {limit / 1e6:,.0f} MB of addresses, fewer than the {LEAST_ADDRESS_SPACE / 1e6:,.0f} MB that reading "
            "and counting need. Raise the limit, for example with: ulimit -v unlimited."
        )


_SIGNS_OF_SHORTAGE = (
    "can't start new thread",
    "cannot allocate memory",
    "failed to map segment",
    "out of memory",
    "can't allocate",
)


def is_shortage(problem: BaseException | None) -> bool:
    """Whether an error, or what caused it, comes from a lack of memory or threads; libraries word it in many ways."""
    if problem is None:
        return False
    if isinstance(problem, MemoryError) or any(sign in str(problem).lower() for sign in _SIGNS_OF_SHORTAGE):
        return True
    return is_shortage(problem.__cause__ or problem.__context__)
