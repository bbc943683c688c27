"""At which coarser levels could a key be released?

A key has a ladder of steps: as it is, then coarser and coarser. If the user gave a hierarchy for the key, its levels are the
steps. Whole numbers get bands of a round width, which people understand, dates months and years, and codes such as postcodes and diagnoses
their first characters; other keys with many levels get groups of levels that are alike in the other columns. Every step states its
recoding in words that can be copied.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rarecell.data.coding import DATE_PARTS, Coding, code_lengths, code_levels
from rarecell.data.counting import group_levels
from rarecell.data.levels import RawLevels
from rarecell.data.likeness import LevelProfiles, Likeness
from rarecell.data.recoding_text import AS_IT_IS, boundaries, coding_for
from rarecell.errors import BadInput
from rarecell.release.utility import cramers_v
from rarecell.swap.plan import SwapPlan
from rarecell.table.coarsening import key_coarsenings
from rarecell.table.contingency import Categories, Coarsening, ContingencyTable

ROUND_WIDTHS = tuple(digit * 10**power for power in range(7) for digit in (1, 2, 5))[1:]
"""Band widths on offer: 2, 5, 10, 20, 50 …"""

MANY_NUMBERS = 20
"""Whole numbers with fewer levels than this are more likely codes than measurements, and get groups instead of bands."""

MOST_BANDS = 3
"""At most this many widths are offered for one key."""

_NEARLY_AS_MANY = 1.35
"""Groups are offered beside bands when all bands have more than this many times as many levels."""


@dataclass(frozen=True, eq=False)
class RecodingStep:
    """A key at one of its resolutions.

    Attributes
    ----------
    key : str
        The key.
    words : str
        The recoding as written in an option, ``"as it is"`` for none.
    coarsening : Coarsening or None
        The groups; None when the key is not recoded.
    n_levels : int
        Number of levels of the key at this step.
    groups : tuple of str
        What each group contains, in words.
    """

    key: str
    words: str
    coarsening: Coarsening | None
    n_levels: int
    groups: tuple[str, ...] = ()


def ladder(table: ContingencyTable, key: str, profiles: LevelProfiles) -> tuple[RecodingStep, ...]:
    """The steps of one key, finest first; ``profiles`` says which of its levels are alike."""
    k = table.keys.index(key)
    categories = table.categories[k]
    own = [c for c in table.coarsenings if c.key == key]
    if own:
        steps = [_step(categories, f"level {number}", coarsening) for number, coarsening in enumerate(own, start=1)]
    else:
        dates = [_step(categories, coding.in_words(), cut) for coding, cut in _dates(categories)]
        bands = [_step(categories, coding.in_words(), cut) for coding, cut in _bands(categories)]
        codes = [_step(categories, coding.in_words(), cut) for coding, cut in _leading(categories)]
        steps = dates or bands or codes
        fewest = min((step.n_levels for step in steps), default=categories.n_levels + 1)
        # Groups of a size between two bands would only be harder to explain, and nobody groups days but by months.
        coarser = [] if dates else [c for c in key_coarsenings(table, k) if not steps or c.n_levels * _NEARLY_AS_MANY < fewest]
        for coarsening in coarser:
            coding = coding_for(categories, coarsening)
            if coding.groups is not None:
                alike = profiles.like(coarsening)
                if alike is not None:
                    steps.append(_step(categories, Coding(groups=alike.n_levels).in_words(), alike))
            else:
                steps.append(_step(categories, coding.in_words(), coarsening))
    in_order = sorted(steps, key=lambda step: -step.n_levels)
    return (RecodingStep(key, AS_IT_IS, None, categories.n_levels), *in_order)


def ladders(
    table: ContingencyTable, keys: Sequence[str] | None = None, *, likeness: Likeness | None = None
) -> tuple[tuple[RecodingStep, ...], ...]:
    """The steps of every key, in the order of the keys; keys that are not among ``keys`` stay as they are.

    Without ``likeness``, levels are compared by the keys alone.
    """
    free = set(table.keys if keys is None else keys)
    alike = likeness or Likeness.of_table(table)
    return tuple(
        ladder(table, c.key, alike[c.key]) if c.key in free else (RecodingStep(c.key, AS_IT_IS, None, c.n_levels),)
        for c in table.categories
    )


def recoded(table: ContingencyTable, steps: Sequence[RecodingStep]) -> ContingencyTable:
    """The table as if the file were released with these steps; without coarsenings."""
    plain = table.with_coarsenings(())
    for step in steps:
        if step.coarsening is not None:
            plain = plain.recode(step.coarsening)
    return plain


def _step(categories: Categories, words: str, coarsening: Coarsening) -> RecodingStep:
    groups = boundaries(categories, coarsening)
    return RecodingStep(categories.key, words, coarsening, coarsening.n_levels, groups)


def shape_of(categories: Categories) -> str:
    """How a key is made coarser by hand: ``numbers`` in bands, ``dates`` by months and years, other ``levels`` by merging."""
    real = categories.levels[: categories.n_levels - categories.has_missing]
    if real and all(isinstance(level, datetime.date) for level in real):
        return "dates"
    are_numbers = categories.is_ordered and all(isinstance(level, int | float) for level in real)
    return "numbers" if are_numbers and len(real) >= MANY_NUMBERS else "levels"


def _bands(categories: Categories) -> list[tuple[Coding, Coarsening]]:
    """Bands of a key of whole numbers, the narrowest first."""
    numbers = categories.levels[: categories.n_levels - categories.has_missing]
    if shape_of(categories) != "numbers" or not all(isinstance(number, int) for number in numbers):
        return []
    coarsenings: list[tuple[Coding, Coarsening]] = []
    for width in ROUND_WIDTHS:
        coding = Coding(width=width)
        bands = _cut(categories, coding)
        if bands.n_levels - categories.has_missing < 2:
            break
        if 2 * (bands.n_levels - categories.has_missing) > len(numbers):
            continue
        coarsenings.append((coding, bands))
        if len(coarsenings) == MOST_BANDS:
            break
    return coarsenings


def _dates(categories: Categories) -> list[tuple[Coding, Coarsening]]:
    """Months, quarters and years of a key of dates, as far as there are several and fewer than before."""
    if shape_of(categories) != "dates":
        return []
    coarsenings: list[tuple[Coding, Coarsening]] = []
    fewest = categories.n_levels - categories.has_missing
    for part in DATE_PARTS:
        coding = Coding(date=part)
        cut = _cut(categories, coding)
        if 2 <= cut.n_levels - categories.has_missing < fewest:
            fewest = cut.n_levels - categories.has_missing
            coarsenings.append((coding, cut))
    return coarsenings


def _leading(categories: Categories) -> list[tuple[Coding, Coarsening]]:
    """The first characters of a key of codes, the longest first."""
    if shape_of(categories) != "levels":
        return []
    codings = [Coding(first=n) for n in code_lengths(categories.levels[: categories.n_levels - categories.has_missing])]
    return [(coding, _cut(categories, coding)) for coding in codings]


def _cut(categories: Categories, coding: Coding) -> Coarsening:
    """The levels of a key under a coding that cuts its values; a missing value stays apart."""
    values = categories.levels[: categories.n_levels - categories.has_missing]
    raw = RawLevels(tuple(values), is_ordered=categories.is_ordered, is_numeric=coding.bounds_numbers)
    coded = code_levels(categories.key, raw, np.ones(len(values), dtype=np.int64), coding)
    groups, labels = coded.code_of_value, tuple(str(level) for level in coded.levels)
    if categories.has_missing:
        groups, labels = np.append(groups, len(labels)).astype(np.int32), (*labels, "missing")
    return Coarsening(f"{categories.key} in {coding.in_words()}", categories.key, groups, labels)


# What do the users of a file lose by a recoding?
#
# The information in a key is its entropy; groups have less of it. The association of a key with another column is their
# mutual information, which neither merging levels nor swapping at random can raise. Both are computed from counts.


Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OtherColumn:
    """A column outside the keys: for each key, the number of records of each pair of levels; and the code of each record.

    ``codes`` is None when records are not known; the effect of swaps on the column is then unknown.
    """

    name: str
    joint: Mapping[str, Counts]
    codes: NDArray[np.int32] | None = None

    @classmethod
    def of_records(cls, table: ContingencyTable, name: str, codes: NDArray[np.int32]) -> OtherColumn:
        """Count a column whose code is known for each record."""
        assert table.record_cell is not None, "a table of counts does not know the column of a record"
        is_counted = table.record_cell >= 0
        n_levels = int(codes.max(initial=0)) + 1
        joint = {}
        for k, categories in enumerate(table.categories):
            pairs = table.cells[table.record_cell[is_counted], k].astype(np.int64) * n_levels + codes[is_counted]
            counted = np.bincount(pairs, minlength=categories.n_levels * n_levels)
            joint[categories.key] = counted.reshape(categories.n_levels, n_levels)
        return cls(name, joint, codes)


def entropy(counts: NDArray[np.int64]) -> float:
    """Bits of information in a table of counts.

    Examples
    --------
    >>> import numpy as np
    >>> entropy(np.array([2, 1, 1]))
    1.5
    """
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def mutual_information(joint: Counts) -> float:
    """Bits that the rows of a table say about its columns."""
    return entropy(joint.sum(axis=1)) + entropy(joint.sum(axis=0)) - entropy(joint.ravel())


def key_counts(table: ContingencyTable) -> dict[str, Counts]:
    """Number of records at each level of each key."""
    return {
        c.key: np.bincount(table.cells[:, k], weights=table.counts, minlength=c.n_levels).astype(np.int64)
        for k, c in enumerate(table.categories)
    }


def bits_lost(counts: Mapping[str, Counts], steps: Sequence[RecodingStep]) -> dict[str, float]:
    """Entropy that each recoded key loses."""
    return {
        step.key: entropy(counts[step.key]) - entropy(merged_rows(counts[step.key], step))
        for step in steps
        if step.coarsening is not None
    }


def merged_rows(counts: Counts, step: RecodingStep) -> Counts:
    """Counts by the groups of a step instead of the levels of its key."""
    return counts if step.coarsening is None else merged_counts(counts, step.coarsening.group_of_level, step.n_levels)


def merged_counts(counts: Counts, group_of_level: NDArray[np.int32], n_groups: int) -> Counts:
    """Counts by groups instead of levels."""
    merged = np.zeros((n_groups, *counts.shape[1:]), dtype=np.int64)
    np.add.at(merged, group_of_level, counts)
    return merged


def association_kept(columns: Sequence[OtherColumn], steps: Sequence[RecodingStep], plan: SwapPlan | None) -> float | None:
    """Share of the mutual information between keys and other columns that is left.

    None when there are no such columns or no such information. ``plan`` swaps values of the recoded keys; None for no swaps.
    """
    before = after = 0.0
    for column in columns:
        for step in steps:
            joint = column.joint[step.key]
            before += mutual_information(joint)
            merged = merged_rows(joint, step)
            if plan is not None and column.codes is not None and len(plan):
                merged = _swapped(merged, column.codes, plan, step.key)
            after += mutual_information(merged)
    return after / before if before > 0.0 else None


def relation_moved(columns: Sequence[OtherColumn], steps: Sequence[RecodingStep], plan: SwapPlan) -> tuple[float, str] | None:
    """The largest change of Cramér's V between a recoded key and another column through the swaps, and of which two."""
    changes: list[tuple[float, str]] = []
    for column in columns:
        for step in steps if column.codes is not None else ():
            joint = merged_rows(column.joint[step.key], step)
            after = _swapped(joint, column.codes, plan, step.key) if len(plan) and column.codes is not None else joint
            changes.append((abs(cramers_v(after) - cramers_v(joint)), f"{column.name} with {step.key}"))
    return max(changes, default=None)


def _swapped(joint: Counts, codes: NDArray[np.int32], plan: SwapPlan, key: str) -> Counts:
    k = plan.table.keys.index(key)
    after = joint.copy()
    release = plan.release
    np.add.at(after, (release.true[:, k], codes[release.rows]), -1)
    np.add.at(after, (release.released[:, k], codes[release.rows]), 1)
    return after


# What would a recoding do to the table of a file, and what would it cost?
#
# Computed from counts, without reading the file again. The fine table has every key as it is. A coding merges the levels of a
# key just as it would when the file is read with it: first numbers into bands, then levels into groups.


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


def recoded_by(
    table: ContingencyTable, codings: Mapping[str, Coding], likeness: Likeness
) -> tuple[ContingencyTable, tuple[RecodedKey, ...]]:
    """The table as if the file were read with some codings, and every key before and after.

    Parameters
    ----------
    table : ContingencyTable
        The file with every key as it is; its coarsenings are the user's hierarchies.
    codings : mapping of str to Coding
        How keys are to be recoded; other keys stay as they are.
    likeness : Likeness
        Which levels of the file are alike.
    """
    place_of: dict[str, NDArray[np.int32]] = {c.key: np.arange(c.n_levels, dtype=np.int32) for c in table.categories}
    changed = table
    for key, coding in codings.items():
        profiles = likeness[key]
        coded = _coded(changed.categories[changed.keys.index(key)], _counts(changed, key), coding)
        if coded is not None:
            coarsening, is_ordered = coded
            changed = _with_order(changed.recode(coarsening), key, is_ordered)
            place_of[key] = coarsening.group_of_level[place_of[key]]
            # Naming codes for "no answer" says nothing about the order of the answers.
            ordered = is_ordered if coding.makes_levels else profiles.categories.is_ordered
            profiles = profiles.recoded(coarsening, is_ordered=ordered)
        if coding.groups_levels:
            coarsening = group_levels(profiles.ordered(coding.ordered), coding)
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
    if not (coding.cuts_values or coding.merge or coding.missing):
        return None
    real = categories.levels[: categories.n_levels - categories.has_missing]
    raw = RawLevels(categories.levels, categories.is_ordered, all(isinstance(level, int | float) for level in real))
    coded = code_levels(categories.key, raw, counts, coding, level_order=real)
    labels = tuple("missing" if level is None else str(level) for level in coded.levels)
    if len(labels) < 2:
        raise BadInput(f"Key '{categories.key}' would have a single level then, which tells nothing. Choose finer groups.")
    return Coarsening(f"{categories.key}, recoded", categories.key, coded.code_of_value, labels), coded.is_ordered
