"""What is in a file, as the Keys page shows it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rarecell.data.roles import suggest_role

if TYPE_CHECKING:
    from rarecell.engine.source import Column

_LEAST_LOOKED_AT, _MOST_LOOKED_AT, _MOST_VALUES = 1_000, 262_144, 50_000_000
"""Records that a file is judged by: fewer where it has many columns."""

_AT_ONCE = 100
"""Columns of a columnar file that are held in memory at once."""


@dataclass(frozen=True)
class ColumnProfile:
    """A column as the Keys page shows it.

    ``levels`` are the distinct values among the records looked at, ``examples`` the commonest of them.
    """

    name: str
    kind: str
    levels: int
    n_missing: int
    examples: tuple[str, ...]
    role: str
    why: str


@dataclass(frozen=True)
class FileProfile:
    """A file as the Keys page shows it; long files are judged by their first records."""

    n_records: int
    n_looked_at: int
    columns: tuple[ColumnProfile, ...]


def profile_file(path: Path) -> FileProfile:
    """Look at the columns and the first records of a file."""
    from rarecell.engine import open_source

    source = open_source(path)
    try:
        columns = source.columns()
        n_records = int(source.n_rows)
        n_looked_at = min(n_records, max(_LEAST_LOOKED_AT, min(_MOST_LOOKED_AT, _MOST_VALUES // max(1, len(columns)))))
        profiles = []
        for part in _parts(columns):
            readable = [column.name for column in part if column.kind != "other"]
            batch = next(iter(source.batches(readable)), None) if readable else None
            first = None if batch is None else batch.slice(0, n_looked_at)
            n_looked_at = n_looked_at if first is None else first.num_rows
            for column in part:
                if column.name not in readable or first is None:
                    why = source.why_no_key(column.name) if column.kind == "other" else "has no value"
                    profiles.append(ColumnProfile(column.name, column.kind, 0, 0, (), "none", f"{why[:1].upper()}{why[1:]}."))
                    continue
                profiles.append(_profile(column, first.column(readable.index(column.name)), n_looked_at))
    finally:
        source.close()
    return FileProfile(n_records, n_looked_at, tuple(_one_of_each(profiles)))


def _parts(columns: Sequence[Column]) -> Iterator[Sequence[Column]]:
    """Columns that are looked at together: all of a text file, which is read line by line, some of a file of columns."""
    at_once = len(columns) if all(column.kind == "untyped" for column in columns) else _AT_ONCE
    for first in range(0, len(columns), max(1, at_once)):
        yield columns[first : first + at_once]


def _one_of_each(profiles: list[ColumnProfile]) -> list[ColumnProfile]:
    """A file has one weight, one household and one identifier at most: the first column keeps the role."""
    holder: dict[str, str] = {}
    kept = []
    for profile in profiles:
        first = holder.setdefault(profile.role, profile.name)
        if profile.role in ("weight", "household", "id") and first != profile.name:
            profile = replace(profile, role="none", why=f"{profile.why} But {first} has that role already.")
        kept.append(profile)
    return kept


def _profile(column: Column, values: Any, n_records: int) -> ColumnProfile:
    counted = values.value_counts().to_pylist()
    present = [row for row in counted if row["values"] not in (None, "") and not column.is_user_missing(row["values"])]
    n_missing = n_records - sum(row["counts"] for row in present)
    # Values that occur once are not shown: they may single a person out on somebody's screen.
    repeated = [row for row in present if row["counts"] > 1]
    commonest = sorted(repeated, key=lambda row: (-row["counts"], str(row["values"])))[:4]
    examples = tuple(_short(column.value_labels.get(row["values"], row["values"])) for row in commonest)
    numbers = _numbers([row["values"] for row in present])
    is_number = numbers is not None and bool(numbers)
    kind = "number" if is_number else "text" if column.kind in ("untyped", "text") else column.kind
    role, why = suggest_role(
        column.name, n_levels=len(present), n_records=n_records, numbers=numbers, is_whole=_are_whole(numbers)
    )
    return ColumnProfile(column.name, kind, len(present), n_missing, examples, role, why)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:23]}…"


def _numbers(values: list[Any]) -> list[float] | None:
    """The values as numbers, or None when one of them is not."""
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError):
        return None


def _are_whole(numbers: list[float] | None) -> bool:
    return numbers is not None and all(number.is_integer() for number in numbers)
