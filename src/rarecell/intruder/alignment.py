"""How are two files, and a register, brought to the same levels?

A released file may have other levels than its original: recoded into bands, perturbed by noise, suppressed. Where a key was
*recoded* (:mod:`rarecell.intruder.recoding`), an intruder recodes the register in the same way, and the original is recoded
here too. Any other key keeps its values, and its levels are those of all files together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput
from rarecell.intruder.recoding import meaning, places, recoded_alike, recoding_of
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
        One row of codes for each record; −1 for a record that was dropped or not released.
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
            "order. If a column identifies a record in both files, name it with --id."
        )
    codes, new_codes = _codes_of(original), _codes_of(released)
    persons = None if register is None else np.array(register.cells)
    categories, recoded = [], []
    for k, key in enumerate(original.keys):
        before, after = original.categories[k], released.categories[k]
        rule = recoding_of(before, after, codes[:, k], new_codes[:, k])
        if rule is not None:
            recoded.append(key)
            levels, is_ordered = rule.levels, rule.is_ordered
            to_common = [rule.of_original, rule.of_released]
            if register is not None:
                to_common.append(recoded_alike(register.categories[k].levels, before, after, rule))
        else:
            files = [before, after] if register is None else [before, after, register.categories[k]]
            levels, is_ordered = together([one.levels for one in files], before.is_ordered), before.is_ordered
            to_common = [places(one.levels, levels) for one in files]
        if persons is not None:
            _refuse_nothing_in_common(key, to_common)
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


def _refuse_nothing_in_common(key: str, to_common: Sequence[Codes]) -> None:
    """Refuse a register with none of the values of a key: nobody would seem to be found, whatever is released."""
    of_original, _, of_register = to_common
    if not np.intersect1d(of_original[of_original >= 0], of_register[of_register >= 0]).size:
        raise BadInput(
            f"No value of key '{key}' in the register occurs in the original, so their codes differ and nobody could be found in it. "
            "Recode one of them; codes such as '01' and '1' are different."
        )


def together(lists: Sequence[Sequence[Level]], is_ordered: bool) -> tuple[Level, ...]:
    """The levels of several files, each once and the missing one last; sorted if they are ordered numbers."""
    found: dict[Level, Level] = {}
    for levels in lists:
        for level in levels:
            if level is not None:
                found.setdefault(meaning(level), level)
    ordered = list(found.values())
    first = [level for level in lists[0] if level is not None]
    if is_ordered and all(isinstance(level, Real) for level in ordered) and first == sorted(first):
        ordered.sort()
    has_missing = any(None in levels for levels in lists)
    return (*ordered, None) if has_missing else tuple(ordered)
