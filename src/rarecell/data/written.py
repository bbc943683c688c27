"""Which level is released in the place of each value of a recoded key, and what became of which values?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rarecell.engine.written_levels import Recodes, WrittenLevels
from rarecell.table.contingency import Categories

if TYPE_CHECKING:
    import pyarrow as pa


def levels_to_write(values: pa.Array, codes: NDArray[np.int32], meanings: Sequence[Any], categories: Categories) -> WrittenLevels:
    """What is written for each distinct value of a key.

    A value that only records have which were left out of the table has no level there, and is written as missing.

    Parameters
    ----------
    values, codes, meanings : the distinct values of the column, the level of each, and what it means
    categories : the levels
    """
    n_levels = categories.n_levels - categories.has_missing
    of_value = np.where((codes >= 0) & (codes < n_levels), codes, -1).astype(np.int32)
    members: list[list[Any]] = [[] for _ in range(n_levels)]
    for meaning, level in zip(meanings, of_value.tolist(), strict=True):
        if level >= 0 and meaning is not None and meaning not in members[level]:
            members[level].append(meaning)
    return WrittenLevels(
        tuple(values.to_pylist()),
        of_value,
        categories.levels[:n_levels],
        categories.is_ordered,
        tuple(tuple(sorted(found)) for found in members),
    )


def recode_table(recodes: Recodes) -> dict[str, list[Any]]:
    """The mapping as a table: a row for each key and value, with the level that is released and its place in the order.

    A value that is released as missing has no level.
    """
    rows: dict[str, list[Any]] = {"key": [], "value": [], "level": [], "order": []}
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
