"""At which coarser levels could a key be released?

A key has a ladder of steps: as it is, then coarser and coarser. If the user gave a hierarchy for the key, its levels are the
steps. Whole numbers get bands of a round width, which people understand; other keys with many levels get groups found from
the data, the same as in the table of what each key costs. Every step states its recoding in words that can be copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rarecell.data.coding import Coding, code_levels
from rarecell.data.levels import RawLevels
from rarecell.data.recoding_text import AS_IT_IS, boundaries, words_for
from rarecell.table.coarsening import coarsening_with, key_coarsenings
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
class Step:
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

    @property
    def is_found(self) -> bool:
        """Whether the groups are found from the data, so that they depend on the other keys."""
        return self.words.endswith(" groups")


def ladder(table: ContingencyTable, key: str) -> tuple[Step, ...]:
    """The steps of one key, finest first."""
    k = table.keys.index(key)
    categories = table.categories[k]
    own = [c for c in table.coarsenings if c.key == key]
    if own:
        found = [_step(categories, f"level {number}", coarsening) for number, coarsening in enumerate(own, start=1)]
    else:
        found = [_step(categories, f"bands of {width}", bands) for width, bands in _bands(table, k)]
        fewest = min((step.n_levels for step in found), default=categories.n_levels + 1)
        # Groups of a size between two bands would only be harder to explain.
        coarser = [c for c in key_coarsenings(table, k) if not found or c.n_levels * _NEARLY_AS_MANY < fewest]
        found += [_step(categories, words_for(categories, c), c) for c in coarser]
    in_order = sorted(found, key=lambda step: -step.n_levels)
    return (Step(key, AS_IT_IS, None, categories.n_levels), *in_order)


def ladders(table: ContingencyTable, keys: Sequence[str] | None = None) -> tuple[tuple[Step, ...], ...]:
    """The steps of every key, in the order of the keys; keys that are not among ``keys`` stay as they are."""
    free = set(table.keys if keys is None else keys)
    return tuple(ladder(table, key) if key in free else ladder(table, key)[:1] for key in table.keys)


def recoded(table: ContingencyTable, steps: Sequence[Step]) -> ContingencyTable:
    """The table as if the file were released with these steps; without coarsenings."""
    plain = table.with_coarsenings(())
    for step in steps:
        if step.coarsening is not None:
            plain = plain.recode(step.coarsening)
    return plain


def settled(table: ContingencyTable, steps: Sequence[Step]) -> list[Step]:
    """The same steps with the groups that a release has: those found from the data are found after numbers are in bands."""
    banded = [step for step in steps if step.coarsening is not None and step.words.startswith(("bands", "edges"))]
    if not banded or not any(step.is_found for step in steps):
        return list(steps)
    seen = recoded(table, banded)
    return [_found_again(seen, step) if step.is_found else step for step in steps]


def _found_again(table: ContingencyTable, step: Step) -> Step:
    coarsening = coarsening_with(table, step.key, step.n_levels)
    categories = table.categories[table.keys.index(step.key)]
    return replace(step, coarsening=coarsening, groups=boundaries(categories, coarsening))


def _step(categories: Categories, words: str, coarsening: Coarsening) -> Step:
    return Step(categories.key, words, coarsening, coarsening.n_levels, boundaries(categories, coarsening))


def _bands(table: ContingencyTable, key: int) -> list[tuple[int, Coarsening]]:
    """Bands of a key of whole numbers, the narrowest first."""
    categories = table.categories[key]
    numbers = categories.levels[: categories.n_levels - categories.has_missing]
    if len(numbers) < MANY_NUMBERS or not categories.is_ordered or not all(isinstance(number, int) for number in numbers):
        return []
    found: list[tuple[int, Coarsening]] = []
    for width in ROUND_WIDTHS:
        raw = RawLevels(tuple(numbers), is_ordered=True, is_numeric=True)
        coded = code_levels(categories.key, raw, np.ones(len(numbers), dtype=np.int64), Coding(width=width))
        if len(coded.levels) < 2:
            break
        if 2 * len(coded.levels) > len(numbers):
            continue
        groups, labels = coded.code_of_value, tuple(str(level) for level in coded.levels)
        if categories.has_missing:
            groups, labels = np.append(groups, len(labels)).astype(np.int32), (*labels, "missing")
        found.append((width, Coarsening(f"{categories.key} in bands of {width}", categories.key, groups, labels)))
        if len(found) == MOST_BANDS:
            break
    return found
