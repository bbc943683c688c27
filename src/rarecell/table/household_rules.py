"""Which rules hold in every household of a file, and does a release break one?

A child that is older than its parents, a household in two regions or with two householders gives a swap away, and spoils the file
for everybody who studies families. Rules are found from the data: what holds without exception in the original, and is not a
matter of a few households, must hold in the release.

* *shared*: all members have the same value (a region, a dwelling, the size).
* *once*: no two members have this level (the householder, the spouse).
* *older*: whoever has one level of the relationship is older than whoever has another, by at least so many years.
* *together*: levels at two places that never occur together, although they would be expected to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell.outcome.words import counted, listed, verb
from rarecell.table.categories import Categories
from rarecell.table.household_rows import HouseholdRows, Members
from rarecell.table.structural_zeros import StructuralZeros, compatibility, find_structural_zeros

Codes = NDArray[np.int32]

ENOUGH = 20
"""A rule that fewer households could break is not a rule."""

MOST_LEVELS = 40
"""Keys with more levels mark nobody: their levels are not tried as those that one member has alone."""


@dataclass(frozen=True)
class Once:
    """No two members of a household have this level of this key."""

    key: int
    level: int


@dataclass(frozen=True)
class Older:
    """Members with level ``one`` of ``key`` are above those with level ``other``, by at least ``least`` levels of ``age``."""

    key: int
    one: int
    other: int
    age: int
    least: int


@dataclass(frozen=True, eq=False)
class HouseholdRules:
    """What holds in every household of the original.

    Attributes
    ----------
    keys : tuple of Categories
        The keys of the persons.
    shared : tuple of int
        Keys whose value all members share.
    once : tuple of Once
    older : tuple of Older
    together : StructuralZeros
        Combinations of columns of the household rows that look impossible.
    """

    keys: tuple[Categories, ...]
    shared: tuple[int, ...]
    once: tuple[Once, ...]
    older: tuple[Older, ...]
    together: StructuralZeros

    @classmethod
    def of(cls, rows: HouseholdRows, codes: Codes) -> HouseholdRules:
        """Find the rules of a file, given its households as rows and the keys of its records."""
        layout, members = rows.layout, rows.members
        own = [k for k in range(len(layout.keys)) if k not in layout.shared]
        once = tuple(
            Once(k, level)
            for k in own
            if layout.keys[k].n_levels <= MOST_LEVELS
            for level in range(layout.keys[k].n_levels)
            if _is_once(codes[:, k] == level, members)
        )
        placings = layout.order
        older = () if len(placings) < 2 else _older(codes, layout.keys, members, placings[0].key, placings[1].key)
        return cls(layout.keys, layout.shared, once, older, find_structural_zeros(rows.table))

    def broken(self, rows: HouseholdRows, codes: Codes) -> dict[str, NDArray[np.bool_]]:
        """For each kind of rule, which households of a release break one; ``codes`` are the released keys of the records.

        ``rows`` are those of the original: a release has the same records, so the members keep their places.
        """
        members = rows.members
        lives = np.flatnonzero(members.of_record >= 0)
        home, first = members.of_record[lives], members.at[members.of_record[lives], 0]
        found = {name: np.zeros(members.n_households, dtype=bool) for name in ("shared", "once", "older", "together")}
        for k in self.shared:
            found["shared"][home[codes[lives, k] != codes[first, k]]] = True
        for rule in self.once:
            has = home[codes[lives, rule.key] == rule.level]
            found["once"] |= np.bincount(has, minlength=members.n_households) > 1
        for older in self.older:
            gap = _smallest_gap(codes, self.keys, members, older)
            found["older"] |= gap < older.least
        if self.together:
            after = rows.layout.placed(codes, members)
            found["together"] = compatibility(rows.table, self.together).violates(after)
        return found

    def any_broken(self, rows: HouseholdRows, codes: Codes) -> NDArray[np.bool_]:
        """Which households of a release break a rule."""
        return np.asarray(np.any(list(self.broken(rows, codes).values()), axis=0), dtype=np.bool_)

    def sentences(self) -> list[str]:
        """The rules in words."""
        told = []
        if self.shared:
            told.append(f"All members of a household have the same {listed([self.keys[k].key for k in self.shared])}.")
        by_key: dict[int, list[str]] = {}
        for rule in self.once:
            by_key.setdefault(rule.key, []).append(self.keys[rule.key].shown[rule.level])
        told += [
            f"No two members of a household have {self.keys[k].key} {listed(labels, joint='or')}." for k, labels in by_key.items()
        ]
        for older in self.older:
            labels, step = (
                self.keys[older.key].shown,
                "" if older.least == 0 else f" by at least {counted(older.least, 'level')}",
            )
            name = self.keys[older.age].key
            told.append(
                f"{self.keys[older.key].key} {labels[older.one]} is "
                + (
                    f"never below {labels[older.other]} in {name}."
                    if not older.least
                    else f"above {labels[older.other]} in {name}{step}."
                )
            )
        n = len(self.together.combinations)
        if n:
            told.append(f"{counted(n, 'combination')} of values of members {verb(n, 'does', 'do')} not occur, though expected.")
        return told


def _is_once(has: NDArray[np.bool_], members: Members) -> bool:
    """Whether no household has two members with a level, though many would if members were drawn at random."""
    n = np.bincount(members.of_record[has & (members.of_record >= 0)], minlength=members.n_households)
    several = members.size > 1
    if n.max(initial=0) > 1 or (n[several] == 1).sum() < ENOUGH:
        return False
    share = n[several].sum() / members.size[several].sum()
    pairs = (members.size[several] * (members.size[several] - 1) // 2).sum()
    return bool(share**2 * pairs >= ENOUGH)


def _older(codes: Codes, keys: Sequence[Categories], members: Members, key: int, age: int) -> tuple[Older, ...]:
    """Pairs of levels of the relationship of which one is above the other in every household that has both."""
    found = []
    for one in range(keys[key].n_levels):
        for other in range(keys[key].n_levels):
            if one == other:
                continue
            gap = _smallest_gap(codes, keys, members, Older(key, one, other, age, 0))
            known = gap < _NO_GAP
            n_homes = int(known.sum())
            if n_homes >= ENOUGH and (smallest := int(gap[known].min())) >= 1:
                # The smallest gap of few households is larger than that of many, so less of it is asked for.
                found.append(Older(key, one, other, age, max(1, smallest * n_homes // (n_homes + ENOUGH))))
    return tuple(found)


_NO_GAP = np.iinfo(np.int64).max // 2


def _smallest_gap(codes: Codes, keys: Sequence[Categories], members: Members, rule: Older) -> NDArray[np.int64]:
    """For each household, the lowest of one level less the highest of the other; a large number where one is absent."""
    of_age = keys[rule.age]
    known = (members.of_record >= 0) & (codes[:, rule.age] < of_age.n_levels - of_age.has_missing)
    low = np.full(members.n_households, _NO_GAP)
    high = np.full(members.n_households, -_NO_GAP)
    one = np.flatnonzero(known & (codes[:, rule.key] == rule.one))
    other = np.flatnonzero(known & (codes[:, rule.key] == rule.other))
    np.minimum.at(low, members.of_record[one], codes[one, rule.age].astype(np.int64))
    np.maximum.at(high, members.of_record[other], codes[other, rule.age].astype(np.int64))
    absent = (low == _NO_GAP) | (high == -_NO_GAP)
    return np.where(absent, _NO_GAP, low - np.where(absent, 0, high))
