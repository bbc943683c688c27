"""How is a file of Stata, SPSS or SAS written with levels in place of values?

Numeric columns of Stata and SPSS files get whole numbers with value labels, other columns the labels themselves. Values
that stay as they are keep their labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.engine.changes import Changes, ColumnChanges, WrittenLevels
from rarecell.engine.statistics.stata import (
    WHOLE_NUMBERS,
    StataChange,
    StataRecode,
    StataTreated,
    StataValues,
    read_layout,
)
from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.edges import Level
    from rarecell.engine.statistics.source import StatisticsSource


class NewColumn(NamedTuple):
    """The values of a column and, where it holds levels, the labels of its numbers and whether they are ordered.

    ``labels`` is None where those of the column stay.
    """

    values: list[Level]
    labels: dict[int, str] | None = None
    is_ordered: bool = False


def stata_changes(source: StatisticsSource, changes: Changes) -> list[StataChange]:
    """What is written in the changed columns of a Stata file."""
    written: list[StataChange] = []
    for name, change in changes.columns.items():
        if change.treated is not None:
            written.append(StataTreated(name, _plain_values(change.treated)))
        elif change.is_recoded:
            assert change.written is not None
            levels, codes = source.levels_of_records(name, change), codes_of(source, name, change.written) or ()
            written.append(StataRecode(name, levels, change.written.labels, codes, value_labels(source, name, change.written)))
        else:
            values: dict[int, Level] = dict(
                zip(change.rows.tolist(), [] if change.values is None else change.values.to_pylist(), strict=True)
            )
            values |= dict.fromkeys(blank_rows(source, name, change).tolist())
            if values:
                written.append(StataValues(name, np.array(sorted(values)), [values[row] for row in sorted(values)]))
    return written


def changed_values(
    source: StatisticsSource, values: dict[str, list[Level]], changes: Changes, as_number: Callable[[Level], Level]
) -> dict[str, NewColumn]:
    """The changed columns of a file that is written anew; ``values`` are all that were read."""
    changed = {}
    for name, change in changes.columns.items():
        is_text = source.metadata.readstat_variable_types[name] == "string"
        if change.treated is not None:
            new = _plain_values(change.treated)
            has_text = any(isinstance(value, str) for value in new) or (is_text and not any(value is not None for value in new))
            texts = ["" if value is None else str(value) for value in new]
            changed[name] = NewColumn(texts if has_text else new, None if has_text == is_text else {})
        elif change.is_recoded:
            assert change.written is not None
            changed[name] = new_column(source, name, change)
        else:
            own = list(values[name])
            exchanged = [] if change.values is None else change.values.to_pylist()
            for row, value in zip(change.rows.tolist(), exchanged, strict=True):
                own[row] = value if is_text or value is None else as_number(value)
            for row in blank_rows(source, name, change).tolist():
                own[row] = None
            changed[name] = NewColumn(own)
    return changed


def _plain_values(treated: pa.Array) -> list[Level]:
    """New values as numbers and texts; dates become text."""
    return [_plain(value) for value in treated.to_pylist()]


def _plain(value: Level) -> Level:
    if value is None or value != value:
        return None
    return value if isinstance(value, (int, float, str)) else str(value)


def blank_rows(source: StatisticsSource, name: str, change: ColumnChanges) -> NDArray[np.int64]:
    """Records of a column that keeps its values whose value goes missing."""
    if change.written is None:
        return change.blanks
    return np.flatnonzero(source.levels_of_records(name, change) < 0)


def is_numeric(source: StatisticsSource, name: str) -> bool:
    """Whether a column holds numbers in a format that can label them."""
    return source.kind in (".dta", ".sav", ".zsav") and source.metadata.readstat_variable_types[name] != "string"


def codes_of(source: StatisticsSource, name: str, written: WrittenLevels) -> tuple[int, ...] | None:
    """The number written for each level of a numeric column; None for a column that gets text."""
    if not is_numeric(source, name):
        return None
    if source.kind != ".dta":
        return written.codes
    low, high = WHOLE_NUMBERS.get(read_layout(source.path, source.text_encoding).columns[name].code, (-(2**24), 2**24))
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
    labels = {}
    for code, level, members in zip(codes, written.levels, written.members, strict=True):
        # A number that represents itself needs no label beyond the one it has.
        if members == (level,) and level in old:
            labels[code] = old[level]
        elif members != (level,) or level != code:
            labels[code] = str(level)
    return labels


def new_column(source: StatisticsSource, name: str, change: ColumnChanges) -> NewColumn:
    """A column of levels as it is written, and the labels of its numbers."""
    assert change.written is not None
    written, levels = change.written, source.levels_of_records(name, change).tolist()
    codes = codes_of(source, name, written)
    if codes is None:
        texts = (*written.labels, "")
        return NewColumn([texts[level] for level in levels], {}, written.is_ordered)
    numbers = (*(float(code) for code in codes), None)
    return NewColumn([numbers[level] for level in levels], value_labels(source, name, written), written.is_ordered)
