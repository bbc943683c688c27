"""Which larger groups does a user put the levels of a key into?

The file has the shape that users of ARX know: one line per level, with the level first, then its group, then the larger
group that contains it, and so on, separated by semicolons or commas and without a header. A last column that puts
everything into one group, such as ``*``, adds nothing and is skipped.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rarecell.engine.places import existing_file
from rarecell.errors import BadInput

_MISSING = "missing"


@dataclass(frozen=True, eq=False)
class Grouping:
    """The group of each level, and the names of the groups in the order in which the levels first reach them."""

    group_of_level: NDArray[np.int32]
    labels: tuple[str, ...]


def read_hierarchy(path: str | Path, *, key: str, levels: Sequence[str | None]) -> tuple[Grouping, ...]:
    """Nested groupings of a key's levels, finer first.

    Parameters
    ----------
    levels : sequence of str or None
        The levels of the key as text. None is the missing level, which forms a group of its own unless the file groups it.
    """
    file = existing_file(path)
    rows = _rows(file)
    n_columns = len(next(iter(rows.values())))
    lacking = [level for level in levels if level is not None and level not in rows]
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise BadInput(
            f"The hierarchy {file} of key '{key}' has no line for the level '{lacking[0]}'{more}. Add a line with the level and its "
            "groups."
        )
    groupings: list[Grouping] = []
    finer: list[str] = [_MISSING if level is None else level for level in levels]
    for column in range(n_columns):
        names = [
            rows[_MISSING][column] if level is None and _MISSING in rows
            else _MISSING if level is None
            else rows[level][column]
            for level in levels
        ]  # fmt: skip
        _refuse_divided(file, key, column + 2, finer, names)
        labels = list(dict.fromkeys(names))
        n_finer = len(groupings[-1].labels) if groupings else len(levels)
        n_real = len({name for name, level in zip(names, levels, strict=True) if level is not None})
        if n_real > 1 and len(labels) < n_finer:
            position = {label: code for code, label in enumerate(labels)}
            groupings.append(Grouping(np.array([position[name] for name in names], dtype=np.int32), tuple(labels)))
        finer = names
    return tuple(groupings)


def _rows(file: Path) -> dict[str, list[str]]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"The hierarchy {file} is not UTF-8 text. Save it as 'CSV UTF-8'.") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise BadInput(f"The hierarchy {file} is empty. It needs a line for each level: the level, its group, its larger group.")
    delimiter = ";" if ";" in lines[0] else "\t" if "\t" in lines[0] else ","
    rows: dict[str, list[str]] = {}
    n_fields = 0
    try:
        for number, fields in enumerate(csv.reader(lines, delimiter=delimiter, strict=True), start=1):
            level, *groups = (field.strip() for field in fields)
            n_fields = n_fields or len(fields)
            if len(fields) != n_fields or not groups:
                raise BadInput(
                    f"The hierarchy {file}, line {number}, has {len(fields)} fields; each line has the same number, at least a level and "
                    "its group."
                )
            if rows.setdefault(level, groups) != groups:
                raise BadInput(
                    f"The hierarchy {file}, line {number}, groups the level '{level}' a second time, differently. Keep one line."
                )
    except csv.Error as problem:
        raise BadInput(f"The hierarchy {file} is not a delimited text: {problem}. Correct its quotes.") from None
    return rows


def _refuse_divided(file: Path, key: str, column: int, finer: Sequence[str], coarser: Sequence[str]) -> None:
    """Raise when levels that share a group in the finer grouping are apart in the coarser one."""
    home: dict[str, str] = {}
    for group, larger in zip(finer, coarser, strict=True):
        if home.setdefault(group, larger) != larger:
            raise BadInput(
                f"The hierarchy {file} of key '{key}' is not nested: the group '{group}' lies in '{home[group]}' and in '{larger}' of "
                f"column {column}. Groups only merge from one column to the next."
            )
