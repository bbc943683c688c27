"""Which values can a key take, and at which coarser resolutions can it be viewed?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput, UnknownColumns

if TYPE_CHECKING:
    from rarecell.edges import Array, Level


MISSING = "missing"
"""How a missing value is shown to a reader."""

NOBODY = "nobody"
"""The level of a column that describes somebody who is not there."""


def shown_level(level: Level, labels: Mapping[Level, str]) -> str:
    """A level as shown to a reader: its label with the code beside it, where there is a label.

    Examples
    --------
    >>> shown_level(2.0, {1: "Male", 2: "Female"}), shown_level(3, {}), shown_level(None, {})
    ('Female (2)', '3', 'missing')
    """
    if level is None:
        return MISSING
    code = str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)
    label = str(labels.get(level, "")).strip()
    return f"{label} ({code})" if label and label != code else code


@dataclass(frozen=True)
class Categories:
    """The levels of one key, in order; the missing level, if any, is ``None`` and comes last.

    ``is_ordered`` means that neighbouring levels are alike (numbers, dates, bands, a declared order), so that they can
    be grouped into bands and the distance between two of them is their difference in rank. ``value_labels`` has what the file
    says about a code, where it does. ``taken_with`` names another key and one of its levels: below that level there is nobody to have a
    value, and the first level, :data:`NOBODY`, says so; elsewhere it does not occur.
    """

    key: str
    levels: tuple[Level, ...]
    is_ordered: bool = False
    value_labels: Mapping[Level, str] = field(default_factory=dict, compare=False, repr=False)
    taken_with: tuple[str, Level] | None = None

    def __post_init__(self) -> None:
        if len(set(self.levels)) != len(self.levels):
            raise BadInput(f"Key '{self.key}' lists a level twice; each level is given once.")
        if None in self.levels[:-1]:
            raise BadInput(f"Key '{self.key}' has its missing level in the middle; it comes last.")

    @property
    def n_levels(self) -> int:
        return len(self.levels)

    @property
    def has_missing(self) -> bool:
        return bool(self.levels) and self.levels[-1] is None

    @property
    def has_nobody(self) -> bool:
        """Whether another key decides that the first level is nobody's."""
        return self.taken_with is not None and bool(self.levels) and self.levels[0] == NOBODY

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The levels as text, as they are written and named in options."""
        return tuple(MISSING if level is None else str(level) for level in self.levels)

    @cached_property
    def shown(self) -> tuple[str, ...]:
        """The levels as shown to a reader: with the labels that the file has for codes."""
        if not self.value_labels:
            return self.labels
        return tuple(shown_level(level, self.value_labels) for level in self.levels)

    def with_levels(self, levels: Iterable[Level]) -> Categories:
        """The same key with other levels."""
        return replace(self, levels=tuple(levels))


@dataclass(frozen=True, eq=False)
class Coarsening:
    """A key viewed at a coarser resolution: ``group_of_level[code of the key]`` is the code of the group.

    ``is_learned`` says that the records chose the groups, so that other records would choose others.
    """

    name: str
    key: str
    group_of_level: NDArray[np.int32]
    labels: tuple[str, ...]
    is_learned: bool = False

    def __post_init__(self) -> None:
        groups = np.asarray(self.group_of_level, dtype=np.int32)
        object.__setattr__(self, "group_of_level", groups)
        if not np.array_equal(np.unique(groups), np.arange(len(self.labels))):
            raise BadInput(f"Coarsening '{self.name}' of key '{self.key}' must use every one of its {len(self.labels)} groups.")

    @property
    def n_levels(self) -> int:
        return len(self.labels)

    def members(self) -> list[NDArray[np.int64]]:
        """The levels in each group, in their order."""
        return members_of_groups(self.group_of_level, self.n_levels)

    def is_coarser_than(self, finer: Coarsening) -> bool:
        """Whether every group of ``finer`` lies within one group of this coarsening."""
        pairs = np.unique(np.stack([finer.group_of_level, self.group_of_level]), axis=1)
        return bool(pairs.shape[1] == finer.n_levels)


def members_of_groups(group_of_level: Array, n_groups: int) -> list[NDArray[np.int64]]:
    """The levels in each group, in their order, found with a single sort."""
    order = np.argsort(group_of_level, kind="stable")
    ends = np.cumsum(np.bincount(group_of_level, minlength=n_groups))
    return np.split(order, ends[:-1])


def nested_by_key(keys: Sequence[str], coarsenings: Iterable[Coarsening]) -> tuple[Coarsening, ...]:
    """Group coarsenings by key, in the order of the keys and finer first; refuse those that do not form a chain."""
    given = list(coarsenings)
    unknown = [c.key for c in given if c.key not in keys]
    if unknown:
        raise UnknownColumns.among(unknown, list(keys), role="key")
    ordered: list[Coarsening] = []
    for key in keys:
        of_key = sorted((c for c in given if c.key == key), key=lambda c: -c.n_levels)
        for finer, coarser in pairwise(of_key):
            if not coarser.is_coarser_than(finer):
                raise BadInput(
                    f"Coarsenings '{finer.name}' and '{coarser.name}' of key '{key}' are not nested: a group of the first "
                    "is divided by the second. Give groups that only merge as they become coarser."
                )
        ordered.extend(of_key)
    return tuple(ordered)
