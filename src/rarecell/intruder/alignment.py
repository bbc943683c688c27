"""How are two files, and a register, brought to the same levels?

A released file may have other levels than its original: recoded into bands, perturbed by noise, suppressed. A key is
*recoded* when each of its original values always became the same released one, and this merged some of them or gave them new
names. An intruder then recodes the register in the same way, and the original is recoded here too. Any other key keeps its
values, and its levels are those of all files together. Values are compared by meaning: the number 1, the text "1" and 1.0 are
the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput
from rarecell.table.contingency import Categories, ContingencyTable

if TYPE_CHECKING:
    from rarecell.edges import Level

Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Aligned:
    """Two files, and perhaps a register, in the same levels.

    Attributes
    ----------
    categories : tuple of Categories
        The levels of each key.
    original, released : ndarray of int
        One row of codes for each record; −1 for a record that was dropped.
    register : ContingencyTable or None
        Number of people in each cell of the register, if there is one.
    recoded : tuple of str
        Keys that were recoded.
    """

    categories: tuple[Categories, ...]
    original: Codes
    released: Codes
    register: ContingencyTable | None
    recoded: tuple[str, ...]


def align(original: ContingencyTable, released: ContingencyTable, register: ContingencyTable | None = None) -> Aligned:
    """Bring files to the same levels.

    Parameters
    ----------
    original, released : ContingencyTable
        Tables of the two files, with the same keys; they must know the cell of each record.
    register : ContingencyTable, optional
        A table of people with these keys.
    """
    n_original, n_released = original.n_rows, released.n_rows
    if n_original != n_released:
        raise BadInput(
            f"The original has {n_original:,} records and the released file {n_released:,}; the same records are needed in the same "
            "order."
        )
    codes, new_codes = _codes_of(original), _codes_of(released)
    persons = None if register is None else np.array(register.cells)
    categories, recoded = [], []
    for k, key in enumerate(original.keys):
        before, after = original.categories[k], released.categories[k]
        image = _recoding(before, after, codes[:, k], new_codes[:, k])
        if image is not None:
            recoded.append(key)
            levels, is_ordered = after.levels, after.is_ordered
            to_common = [image, np.arange(after.n_levels, dtype=np.int32)]
            if register is not None:
                to_common.append(_recoded_alike(register.categories[k].levels, before.levels, image))
        else:
            files = [before, after] if register is None else [before, after, register.categories[k]]
            levels, is_ordered = together([one.levels for one in files], before.is_ordered), before.is_ordered
            to_common = [places(one.levels, levels) for one in files]
        codes[:, k], new_codes[:, k] = (
            np.append(lookup, np.int32(-1))[column]
            for lookup, column in zip(to_common, (codes[:, k], new_codes[:, k]), strict=False)
        )
        if persons is not None:
            persons[:, k] = to_common[2][persons[:, k]]
        categories.append(Categories(key, levels, is_ordered))
    counted = None
    if register is not None and persons is not None:
        # People with values whose recoding is unknown are left out. Records then have fewer people to be confused with, so
        # what is found is overstated.
        known_rows = (persons >= 0).all(axis=1)
        counted = ContingencyTable.from_counts(persons[known_rows], register.counts[known_rows], categories)
    return Aligned(tuple(categories), codes, new_codes, counted, tuple(recoded))


def _codes_of(table: ContingencyTable) -> Codes:
    """One row of key codes for each record."""
    if table.record_cell is None:
        raise BadInput("The records of this file are not known one by one; an attack needs them in their order.")
    codes = np.array(table.cells[table.record_cell], dtype=np.int32)
    codes[table.record_cell < 0] = -1
    return codes


def _recoding(before: Categories, after: Categories, codes: Codes, new_codes: Codes) -> Codes | None:
    """The level that each level of a key became, if it was always the same one and the key was recoded; otherwise None."""
    both = (codes >= 0) & (new_codes >= 0)
    pairs = np.unique(np.stack([codes[both], new_codes[both]]), axis=1)
    if len(np.unique(pairs[0])) != pairs.shape[1]:
        return None
    image = np.full(before.n_levels, -1, dtype=np.int32)
    image[pairs[0]] = pairs[1]
    known = {_meaning(level) for level in before.levels}
    has_new = any(_meaning(after.levels[code]) not in known for code in np.unique(pairs[1]).tolist())
    merges = len(np.unique(pairs[1])) < pairs.shape[1]
    return image if has_new or merges else None


def _recoded_alike(levels: Sequence[Level], known_levels: Sequence[Level], image: Codes) -> Codes:
    """Apply a recoding to further levels; a new number takes the level of its neighbours if both became the same one."""
    known = {_meaning(level): int(code) for level, code in zip(known_levels, image, strict=True)}
    found = _coded(levels, known)
    places = sorted(meaning for meaning in known if isinstance(meaning, float))
    for place, level in enumerate(levels):
        value = _meaning(level)
        if found[place] >= 0 or not isinstance(value, float) or not places:
            continue
        right = int(np.searchsorted(places, value))
        around = {known[places[side]] for side in (right - 1, right) if 0 <= side < len(places)}
        if len(around) == 1:
            found[place] = around.pop()
    return found


def _coded(levels: Sequence[Level], place: dict[Level, Level]) -> Codes:
    return np.array([place.get(_meaning(level), -1) for level in levels], dtype=np.int32)


def _meaning(level: Level) -> Any:
    """The value by which a level is compared."""
    if level is None:
        return None
    try:
        return float(level)
    except (TypeError, ValueError):
        return str(level)


def places(levels: Sequence[Level], among: Sequence[Level]) -> Codes:
    """Position of each level among others; −1 for a level that is not there."""
    return _coded(levels, {_meaning(level): code for code, level in enumerate(among)})


def together(lists: Sequence[Sequence[Level]], is_ordered: bool) -> tuple[Level, ...]:
    """The levels of several files, each once and the missing one last; sorted if they are ordered numbers."""
    found: dict[Level, Level] = {}
    for levels in lists:
        for level in levels:
            if level is not None:
                found.setdefault(_meaning(level), level)
    ordered = list(found.values())
    first = [level for level in lists[0] if level is not None]
    if is_ordered and all(isinstance(level, Real) for level in ordered) and first == sorted(first):
        ordered.sort()
    has_missing = any(None in levels for levels in lists)
    return (*ordered, None) if has_missing else tuple(ordered)
