"""How is a file of Stata, SPSS or SAS written with levels in place of values?

Numeric columns of Stata and SPSS files get whole numbers with value labels, other columns the labels themselves. Values
that stay as they are keep their labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rarecell.engine.changes import Recodes, WrittenLevels
from rarecell.engine.output import temporary_folder
from rarecell.engine.statistics.stata import WHOLE_NUMBERS, StataRecode, read_layout, write_stata_levels
from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.edges import Level
    from rarecell.engine.statistics.source import StatisticsSource


class NewColumn(NamedTuple):
    """The values of a column, the labels of those that have one, and whether the values are ordered."""

    values: list[Level]
    labels: dict[int, str]
    is_ordered: bool


def write_statistics_levels(source: StatisticsSource, path: Path, recodes: Recodes) -> None:
    """Write the file again with the levels of some columns in place of their values."""
    blanks = {name: written for name, written in recodes.items() if written.only_blanks}
    others = {name: written for name, written in recodes.items() if not written.only_blanks}
    if not blanks:
        _write(source, path, others)
        return
    with temporary_folder(path) as folder:
        between = folder / f"blanked{source.suffix}" if others else path
        _write_blanks(source, between, blanks)
        if others:
            _write(source.reopened(between), path, others)


def _write_blanks(source: StatisticsSource, path: Path, blanks: Recodes) -> None:
    is_missing = {name: source.levels_of_records(name, written) < 0 for name, written in blanks.items()}
    rows = np.flatnonzero(np.any(list(is_missing.values()), axis=0))
    values = source.take(rows, list(blanks))
    new = {
        name: [
            None if is_missing[name][row] else value for row, value in zip(rows.tolist(), values[name].to_pylist(), strict=True)
        ]
        for name in blanks
    }
    source.write_with_replacements(path, rows, new)


def _write(source: StatisticsSource, path: Path, recodes: Recodes) -> None:
    if source.kind != ".dta":
        source.write_anew(path, {name: new_column(source, name, written) for name, written in recodes.items()})
        return
    columns = []
    for name, written in recodes.items():
        levels = source.levels_of_records(name, written)
        codes = codes_of(source, name, written) or ()
        columns.append(StataRecode(name, levels, written.labels, codes, value_labels(source, name, written)))
    write_stata_levels(path, source.path, source.n_rows, columns)


def is_numeric(source: StatisticsSource, name: str) -> bool:
    """Whether a column holds numbers in a format that can label them."""
    return source.kind in (".dta", ".sav", ".zsav") and source.metadata.readstat_variable_types[name] != "string"


def codes_of(source: StatisticsSource, name: str, written: WrittenLevels) -> tuple[int, ...] | None:
    """The number written for each level of a numeric column; None for a column that gets text."""
    if not is_numeric(source, name):
        return None
    if source.kind != ".dta":
        return written.codes
    low, high = WHOLE_NUMBERS.get(read_layout(source.path).columns[name].code, (-(2**24), 2**24))
    for codes in (written.codes, tuple(range(1, len(written.levels) + 1))):
        if all(low <= code <= high for code in codes):
            return codes
    raise BadInput(
        f"Key '{name}' has {len(written.levels)} levels once it is recoded, more than its type in {source.name} can number. Recast it as "
        "int in Stata, or use fewer levels."
    )


def value_labels(source: StatisticsSource, name: str, written: WrittenLevels) -> dict[int, str]:
    """Labels of the numbers that represent the levels: the old label of an unchanged value, otherwise the level itself."""
    codes = codes_of(source, name, written)
    if codes is None:
        return {}
    old: Mapping[Level, str] = source.metadata.variable_value_labels.get(name, {})
    found = {}
    for code, level, members in zip(codes, written.levels, written.members, strict=True):
        # A number that represents itself needs no label beyond the one it has.
        if members == (level,) and level in old:
            found[code] = old[level]
        elif members != (level,) or level != code:
            found[code] = str(level)
    return found


def new_column(source: StatisticsSource, name: str, written: WrittenLevels) -> NewColumn:
    """A column as it is written, and the labels of its numbers."""
    levels = source.levels_of_records(name, written).tolist()
    codes = codes_of(source, name, written)
    if codes is None:
        texts = (*written.labels, "")
        return NewColumn([texts[level] for level in levels], {}, written.is_ordered)
    numbers = (*(float(code) for code in codes), None)
    return NewColumn([numbers[level] for level in levels], value_labels(source, name, written), written.is_ordered)
