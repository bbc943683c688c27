"""Which level is released in place of each value of a recoded key, and which values became which level?"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.data.coding import Coding
from rarecell.data.levels import settle
from rarecell.engine.changes import Recodes, WrittenLevels
from rarecell.engine.source import Source
from rarecell.outcome.words import harmless
from rarecell.table.contingency import Categories

if TYPE_CHECKING:
    from rarecell.data.counting import CountedTable
    from rarecell.edges import Level


def levels_to_write(
    values: pa.Array, codes: NDArray[np.int32], meanings: Sequence[Level], categories: Categories
) -> WrittenLevels:
    """What is written for each distinct value of a key.

    A value that occurs only in records left out of the table has no level there, and is written as missing.

    Parameters
    ----------
    values : pa.Array
        The distinct values of the column.
    codes : ndarray of int32
        The level of each value.
    meanings : sequence of level
        What each value means.
    categories : Categories
        The levels.
    """
    n_levels = categories.n_levels - categories.has_missing
    of_value = np.where((codes >= 0) & (codes < n_levels), codes, -1).astype(np.int32)
    members: list[list[Level]] = [[] for _ in range(n_levels)]
    for meaning, level in zip(meanings, of_value.tolist(), strict=True):
        if level >= 0 and meaning is not None and meaning not in members[level]:
            members[level].append(meaning)
    return WrittenLevels(
        tuple(values.to_pylist()),
        of_value,
        categories.levels[:n_levels],
        categories.is_ordered,
        tuple(tuple(sorted(values_of_level)) for values_of_level in members),
    )


def recodes_of(counted: CountedTable, coding: Mapping[str, Coding]) -> Recodes:
    """For each key whose coding changes values, the level released in place of each value."""
    recodes = {}
    for k, categories in enumerate(counted.table.categories):
        if coding.get(categories.key, Coding()).changes_values:
            lookup = counted.lookups[k]
            recodes[categories.key] = levels_to_write(lookup.values, lookup.codes, counted.meanings[k], categories)
    return recodes


def coding_of_output(source: Source, coding: Mapping[str, Coding], recodes: Recodes) -> dict[str, Coding]:
    """How to read the keys of the released data so that their table is the one that was assessed."""
    read_back = {key: given for key, given in coding.items() if key not in recodes}
    for key, levels in recodes.items():
        read_back[key] = Coding(levels=source.levels_read_back(key, levels), ordered=levels.is_ordered)
    return read_back


def recode_table(recodes: Recodes) -> dict[str, list[Level]]:
    """The mapping as a table: one row per key and value, with the released level and its place in the order.

    A value that is released as missing has no level.
    """
    rows: dict[str, list[Level]] = {"key": [], "value": [], "level": [], "order": []}
    for key, written in recodes.items():
        for level, members in enumerate(written.members):
            for member in members:
                rows["key"].append(key)
                rows["value"].append(str(member))
                rows["level"].append(written.labels[level])
                rows["order"].append(level)
        blank = [value for value, level in zip(written.values, written.level_of_value, strict=True) if level < 0]
        for value in sorted({str(value) for value in blank if value is not None and value == value}):
            rows["key"].append(key)
            rows["value"].append(value)
            rows["level"].append(None)
            rows["order"].append(None)
    return rows


def with_types(table: pa.Table, source: Source, recodes: Recodes) -> pa.Table:
    """Convert text whose values are numbers or dates, as in a delimited file, to what it means; levels of recoded keys stay text."""
    for column in source.columns():
        position = table.schema.get_field_index(column.name)
        if (
            column.kind == "untyped"
            and column.name not in recodes
            and position >= 0
            and pa.types.is_string(table.schema.field(position).type)
        ):
            encoded = table.column(position).combine_chunks().dictionary_encode()
            meaning = settle(encoded.dictionary, column, decimal_mark=source.decimal_mark).values
            table = table.set_column(position, column.name, pa.array(meaning).take(encoded.indices))
    return table


def recode_csv(recodes: Recodes) -> str:
    """The content of :func:`recode_table` as CSV text, which people open in spreadsheets."""
    rows = recode_table(recodes)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows)
    writer.writerows([[harmless(cell) for cell in row] for row in zip(*rows.values(), strict=True)])
    return out.getvalue()
