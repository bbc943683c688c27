"""How are two files, and a register, brought to the same levels?

A released file may have other levels than its original: recoded into bands, perturbed by noise, suppressed. Where a key was
*recoded* (:mod:`rarecell.table.alignment`), an intruder recodes the register in the same way, and the original is recoded
here too. Any other key keeps its values, and its levels are those of all files together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
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
            levels, is_ordered = together([file.levels for file in files], before.is_ordered), before.is_ordered
            to_common = [places(file.levels, levels) for file in files]
        if persons is not None:
            _refuse_nothing_in_common(key, to_common)
        codes[:, k], new_codes[:, k] = (
            np.append(lookup, np.int32(-1))[column]
            for lookup, column in zip(to_common, (codes[:, k], new_codes[:, k]), strict=False)
        )
        if persons is not None:
            persons[:, k] = to_common[2][persons[:, k]]
        categories.append(Categories(key, levels, is_ordered, before.value_labels))
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
    by_meaning: dict[Level, Level] = {}
    for levels in lists:
        for level in levels:
            if level is not None:
                by_meaning.setdefault(meaning(level), level)
    ordered = list(by_meaning.values())
    first = [level for level in lists[0] if level is not None]
    if is_ordered and all(isinstance(level, Real) for level in ordered) and first == sorted(first):
        ordered.sort()
    has_missing = any(None in levels for levels in lists)
    return (*ordered, None) if has_missing else tuple(ordered)


# Was a key released in coarser or renamed levels, and what did each of its values become?
#
# A key is *recoded* when its values became others by a rule, such as ages that became bands. An intruder applies the same rule
# to a register. The rule is read from the two files. Often it is exact: each value always became the same one. Where
# records were swapped, disturbed or blanked as well, it is what most records with a value became; a value that the released
# file still has stays itself unless nearly all of its records changed in the same way.
#
# Values are compared by meaning: the number 1, the text "1" and 1.0 are the same, the texts "1" and "01" are not.


FEW = 3
"""Number of records that a value needs for the majority of them to tell what it became."""

MANY, NEARLY_ALL = 10, 0.8
"""Number of records, and share of them, that tell the same of a value that still occurs in the released file."""

EXPLAINED = 0.6
"""Share of the records with recoded values that must follow the rule; with fewer, values were disturbed and not recoded."""

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")


@dataclass(frozen=True, eq=False)
class Recoding:
    """Common levels of a recoded key.

    Attributes
    ----------
    levels : tuple
        The levels: those of the released file, and values that are not known to have become one of them.
    is_ordered : bool
        Whether neighbouring levels are alike.
    of_original, of_released : ndarray of int
        The common level of each level of the original and of the released file.
    """

    levels: tuple[Level, ...]
    is_ordered: bool
    of_original: Codes
    of_released: Codes


@dataclass(frozen=True, eq=False)
class _Changes:
    """How many records with each value of the original have each value of the released file; none of them missing."""

    value: NDArray[np.int64]
    became: NDArray[np.int64]
    number: NDArray[np.int64]


def recoding_of(before: Categories, after: Categories, codes: Codes, new_codes: Codes) -> Recoding | None:
    """The recoding of a key, from the codes of its records in the original and the released file; None if it was not recoded."""
    both = (codes >= 0) & (new_codes >= 0)
    pairs, number = np.unique(np.stack([codes[both], new_codes[both]]), axis=1, return_counts=True)
    image = _exact_image(before, after, pairs)
    if image is None:
        is_real = np.array([level is not None for level in before.levels])[pairs[0]]
        is_real &= np.array([level is not None for level in after.levels])[pairs[1]]
        image = _usual_image(before, after, _Changes(pairs[0][is_real], pairs[1][is_real], number[is_real]))
    return None if image is None else _with_common_levels(before, after, image)


def _exact_image(before: Categories, after: Categories, pairs: NDArray[Any]) -> Codes | None:
    """The level that each value always became, if it did; −1 for a value that no released record had."""
    if len(np.unique(pairs[0])) != pairs.shape[1]:
        return None
    image = np.full(before.n_levels, -1, dtype=np.int32)
    image[pairs[0]] = pairs[1]
    known = {meaning(level) for level in before.levels}
    has_new = any(meaning(after.levels[code]) not in known for code in np.unique(pairs[1]).tolist())
    merges = len(np.unique(pairs[1])) < pairs.shape[1]
    return image if has_new or merges else None


def _usual_image(before: Categories, after: Categories, changes: _Changes) -> Codes | None:
    """The level that the records with each value usually have in the released file; None if there is no such rule.

    1. A value became what most of its records became, if that is sure enough; a value that still occurs stays itself otherwise.
    2. Values of an ordered key with few records follow their neighbours: bands keep the order.
    3. The rule must explain most of the records that it changes; otherwise values were disturbed, not recoded.
    """
    same = places(before.levels, after.levels)
    usual, is_sure = same.copy(), same >= 0
    for value in np.unique(changes.value).tolist():
        mine = changes.value == value
        number, total = changes.number[mine], int(changes.number[mine].sum())
        most = int(np.argmax(number))
        is_renamed = (
            total >= (FEW if same[value] < 0 else MANY) and number[most] > (0.5 if same[value] < 0 else NEARLY_ALL) * total
        )
        if same[value] < 0 or is_renamed:
            usual[value], is_sure[value] = changes.became[mine][most], is_renamed
    if not (is_sure & (usual != same)).any():
        return None
    if before.is_ordered:
        in_order = _image_in_order(usual, is_sure, changes)
        if _n_explained(in_order, changes) >= 0.9 * _n_explained(usual, changes):
            usual = in_order
    is_changed = (usual != same)[changes.value]
    n_changed = int(changes.number[is_changed].sum())
    n_following = int(changes.number[is_changed & (usual[changes.value] == changes.became)].sum())
    return usual if n_changed >= MANY and n_following > EXPLAINED * n_changed else None


def _n_explained(image: Codes, changes: _Changes) -> int:
    return int(changes.number[image[changes.value] == changes.became].sum())


def _image_in_order(usual: Codes, is_sure: NDArray[np.bool_], changes: _Changes) -> Codes:
    """The image that explains the most records among those that never go back as values grow.

    Released levels are ordered by the median of the values that became them. With e(v, l) the number of records of value v
    that became level l, the best image up to v that ends with l explains f(v, l) = e(v, l) + max over l' ≤ l of f(v−1, l').
    """
    became = np.unique(np.concatenate([changes.became, usual[usual >= 0]]))
    middle = [
        _median(changes.value[own], changes.number[own])
        if (own := changes.became == level).any()
        else float(np.flatnonzero(usual == level)[0])
        for level in became.tolist()
    ]
    levels = became[np.argsort(middle, kind="stable")]
    place = {level: number for number, level in enumerate(levels.tolist())}
    explained = np.zeros((len(usual), len(levels)))
    explained[changes.value, [place[level] for level in changes.became.tolist()]] = changes.number
    sure = np.flatnonzero(is_sure)
    # What is sure stays unless the order of all others speaks against it.
    explained[sure, [place[level] for level in usual[sure].tolist()]] += explained[sure].sum(axis=1) + 0.5
    best, came_from = np.zeros(len(levels)), np.zeros(explained.shape, dtype=np.int64)
    for value, own in enumerate(explained):
        best = np.maximum.accumulate(best)
        came_from[value] = np.maximum.accumulate(np.where(np.diff(best, prepend=-1.0) > 0.0, np.arange(len(levels)), 0))
        best = best + own
    image, level = np.empty(len(usual), dtype=np.int32), int(np.argmax(best))
    for value in range(len(usual) - 1, -1, -1):
        image[value] = levels[level]
        level = int(came_from[value, level])
    return image


def _median(values: NDArray[np.int64], number: NDArray[np.int64]) -> float:
    order = np.argsort(values)
    below = np.cumsum(number[order])
    return float(values[order][np.searchsorted(below, below[-1] / 2.0)])


def _with_common_levels(before: Categories, after: Categories, image: Codes) -> Recoding:
    """Levels that hold both files: those released, then values without an image, in their order if bands keep it."""
    left = [code for code in np.flatnonzero(image < 0).tolist() if before.levels[code] is not None]
    levels: list[Level] = [level for level in after.levels if level is not None]
    n_released = len(levels)
    levels += [before.levels[code] for code in left]
    members = [np.flatnonzero(image == code) for code in range(n_released)] + [np.array([code]) for code in left]
    order, is_ordered = np.arange(len(levels)), after.is_ordered and not left
    if before.is_ordered and all(len(own) for own in members):
        order = np.argsort([own.min() for own in members])
        is_ordered = all(members[a].max() < members[b].min() for a, b in pairwise(order.tolist()))
    has_missing = before.has_missing or after.has_missing
    place = np.empty(len(levels) + 1, dtype=np.int32)
    place[order] = np.arange(len(levels))
    place[-1] = len(levels) if has_missing else -1
    of_released = np.array(
        [place[-1] if level is None else place[code] for code, level in enumerate(after.levels)], dtype=np.int32
    )
    of_original = np.full(before.n_levels, place[-1], dtype=np.int32)
    of_original[image >= 0] = of_released[image[image >= 0]]
    of_original[left] = place[n_released : n_released + len(left)]
    common = (*(levels[code] for code in order.tolist()), *([None] if has_missing else []))
    return Recoding(common, bool(is_ordered), of_original, of_released)


def recoded_alike(levels: Sequence[Level], before: Categories, after: Categories, rule: Recoding) -> Codes:
    """Apply a recoding to the levels of a register; −1 where it is not known.

    A number that the original lacks takes the level of its neighbours if both became the same one. A level of the released file
    stands for itself.
    """
    known = {meaning(level): int(code) for level, code in zip(before.levels, rule.of_original, strict=True)}
    coarse = {meaning(level): int(code) for level, code in zip(after.levels, rule.of_released, strict=True)}
    numbers = sorted(value for value in known if isinstance(value, float))
    codes = np.full(len(levels), -1, dtype=np.int32)
    for place, level in enumerate(levels):
        value = meaning(level)
        if value in known:
            codes[place] = known[value]
        elif isinstance(value, float) and numbers:
            right = int(np.searchsorted(numbers, value))
            around = {known[numbers[side]] for side in (right - 1, right) if 0 <= side < len(numbers)}
            codes[place] = around.pop() if len(around) == 1 else coarse.get(value, -1)
        else:
            codes[place] = coarse.get(value, -1)
    return codes


def meaning(level: Level) -> Any:
    """The value by which a level is compared: a number, the text of anything else, None if it is missing."""
    if level is None:
        return None
    if isinstance(level, str) and not _NUMBER.fullmatch(level):
        return level
    try:
        return float(level)
    except (TypeError, ValueError):
        return str(level)


def places(levels: Sequence[Level], among: Sequence[Level]) -> Codes:
    """Position of each level among others; −1 for a level that is not there."""
    place = {meaning(level): code for code, level in enumerate(among)}
    return np.array([place.get(meaning(level), -1) for level in levels], dtype=np.int32)
