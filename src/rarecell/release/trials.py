"""What would a recoding do to the table of a file, and what would it cost?

Computed from counts, without reading the file again. The fine table has every key as it is. A coding merges the levels of a
key just as it would when the file is read with it: first numbers into bands, then levels into groups, which are found in
the table with all bands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rarecell.data.coding import Coding, code_levels
from rarecell.data.counting import group_levels
from rarecell.data.levels import RawLevels
from rarecell.errors import BadInput
from rarecell.release.costs import entropy
from rarecell.table.contingency import Categories, Coarsening, ContingencyTable


@dataclass(frozen=True, eq=False)
class RecodedKey:
    """A key before and after a recoding.

    Attributes
    ----------
    key : str
        The key.
    labels, counts : tuple of str, ndarray of int64
        Its levels and their numbers of records, before.
    labels_after, counts_after : tuple of str, ndarray of int64
        The same after recoding.
    group_of_level : ndarray of int32
        For each level before, its position among the levels after.
    """

    key: str
    labels: tuple[str, ...]
    counts: NDArray[np.int64]
    labels_after: tuple[str, ...]
    counts_after: NDArray[np.int64]
    group_of_level: NDArray[np.int32]

    @property
    def is_changed(self) -> bool:
        return len(self.labels) != len(self.labels_after)

    @property
    def bits(self) -> tuple[float, float]:
        """Entropy before and after."""
        return entropy(self.counts), entropy(self.counts_after)


def recoded_by(table: ContingencyTable, codings: Mapping[str, Coding]) -> tuple[ContingencyTable, tuple[RecodedKey, ...]]:
    """The table as if the file were read with some codings, and every key before and after.

    Parameters
    ----------
    table : ContingencyTable
        The file with every key as it is; its coarsenings are the user's hierarchies.
    codings : mapping of str to Coding
        How keys are to be recoded; other keys stay as they are.
    """
    place_of: dict[str, NDArray[np.int32]] = {c.key: np.arange(c.n_levels, dtype=np.int32) for c in table.categories}
    changed = table
    for key, coding in codings.items():
        made = _coded(changed.categories[changed.keys.index(key)], _counts(changed, key), coding)
        if made is not None:
            coarsening, is_ordered = made
            changed = _with_order(changed.recode(coarsening), key, is_ordered)
            place_of[key] = coarsening.group_of_level[place_of[key]]
    # The groups of all keys are found before any key is put into groups.
    groups = {key: group_levels(changed, key, coding) for key, coding in codings.items() if coding.groups_levels}
    for key, coarsening in groups.items():
        changed = changed.recode(coarsening)
        place_of[key] = coarsening.group_of_level[place_of[key]]
    keys = [
        RecodedKey(
            before.key,
            before.labels,
            _counts(table, before.key),
            after.labels,
            _counts(changed, before.key),
            place_of[before.key],
        )
        for before, after in zip(table.categories, changed.categories, strict=True)
    ]
    return changed, tuple(keys)


def _counts(table: ContingencyTable, key: str) -> NDArray[np.int64]:
    k = table.keys.index(key)
    return np.bincount(table.cells[:, k], weights=table.counts, minlength=table.categories[k].n_levels).astype(np.int64)


def _with_order(table: ContingencyTable, key: str, is_ordered: bool) -> ContingencyTable:
    categories = tuple(replace(c, is_ordered=is_ordered) if c.key == key else c for c in table.categories)
    return replace(table, categories=categories)


def _coded(categories: Categories, counts: NDArray[np.int64], coding: Coding) -> tuple[Coarsening, bool] | None:
    """The bands or merged levels of a coding, and whether they are ordered; None when the coding makes none."""
    if not (coding.bounds_numbers or coding.merge or coding.missing):
        return None
    real = categories.levels[: categories.n_levels - categories.has_missing]
    raw = RawLevels(categories.levels, categories.is_ordered, all(isinstance(level, int | float) for level in real))
    coded = code_levels(categories.key, raw, counts, coding, level_order=real)
    labels = tuple("missing" if level is None else str(level) for level in coded.levels)
    if len(labels) < 2:
        raise BadInput(f"Key '{categories.key}' would have a single level then, which tells nothing. Choose finer groups.")
    return Coarsening(f"{categories.key}, recoded", categories.key, coded.code_of_value, labels), coded.is_ordered
