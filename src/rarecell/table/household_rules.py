"""Which rules hold in every household of a file, and does a release break one?

A child that is older than its parents, a household in two regions or with two householders gives a swap away, and spoils the file
for everybody who studies families. Rules are found from the data: what holds without exception in the original, and is not a
matter of a few households, must hold in the release.

* *shared*: all members have the same value (a region, a dwelling, the size).
* *once*: no two members have this level (the householder, the spouse).
* *older*: whoever has one level of the relationship is older than whoever has another, by at least so many years.
* *together*: levels at two places that never occur together, although they would be expected to.

The first three are rules of any groups of records: enterprises, schools, institutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rarecell.outcome.words import counted, listed, verb
from rarecell.table.categories import Categories
from rarecell.table.household_rows import Clusters, HouseholdRows, Placing, order_of_members
from rarecell.table.structural_zeros import StructuralZeros, compatibility, find_structural_zeros

Codes = NDArray[np.int32]

ENOUGH_HOUSEHOLDS = 20
"""A rule that fewer households could break is not a rule."""

MOST_LEVELS_IN_RULES = 40
"""Keys with more levels mark nobody: their levels are not tried as those that one member has alone."""


@dataclass(frozen=True)
class Once:
    """No two members of a household have this level of this key."""

    key: int
    level: int


@dataclass(frozen=True)
class Older:
    """Members with level ``above`` of ``key`` are above those with level ``below``, by at least ``least`` levels of ``age``."""

    key: int
    above: int
    below: int
    age: int
    least: int


@dataclass(frozen=True, eq=False)
class ClusterRules:
    """What holds in every group of the original: households, or the enterprises, schools or institutions that a column names.

    Attributes
    ----------
    keys : tuple of Categories
        The keys of the records.
    clusters : Clusters
        The groups.
    group : str
        What a group is called in a sentence.
    shared : tuple of int
        Keys whose value all records of a group share.
    once : tuple of Once
    older : tuple of Older
    """

    keys: tuple[Categories, ...]
    clusters: Clusters
    group: str
    shared: tuple[int, ...]
    once: tuple[Once, ...]
    older: tuple[Older, ...]

    @classmethod
    def of(
        cls,
        codes: Codes,
        keys: Sequence[Categories],
        clusters: Clusters,
        group: str = "household",
        order: Sequence[Placing] | None = None,
    ) -> ClusterRules:
        """Find the rules of a file; ``order`` has the keys that place members, if they are known already."""
        shared = shared_within(codes, clusters)
        own = [k for k in range(len(keys)) if k not in shared]
        once = tuple(
            Once(k, level)
            for k in own
            if keys[k].n_levels <= MOST_LEVELS_IN_RULES
            for level in range(keys[k].n_levels)
            if _is_once(codes[:, k] == level, clusters)
        )
        placings = order_of_members(codes, keys, clusters, own) if order is None else order
        older = () if len(placings) < 2 else _older(codes, keys, clusters, placings[0].key, placings[1].key)
        return cls(tuple(keys), clusters, group, shared, once, older)

    def broken(self, codes: Codes) -> dict[str, NDArray[np.bool_]]:
        """For each kind of rule, which groups of a release break one; ``codes`` are the released keys of the records."""
        clusters = self.clusters
        lives = np.flatnonzero(clusters.of_record >= 0)
        group = clusters.of_record[lives]
        first = _first_of_each(clusters)[group]
        broken = {name: np.zeros(clusters.n_groups, dtype=bool) for name in ("shared", "once", "older")}
        for k in self.shared:
            broken["shared"][group[codes[lives, k] != codes[first, k]]] = True
        for rule in self.once:
            broken["once"] |= clusters.n_with(codes[:, rule.key] == rule.level) > 1
        for older in self.older:
            broken["older"] |= _smallest_gap(codes, self.keys, clusters, older) < older.least
        return broken

    def broken_records(self, codes: Codes) -> NDArray[np.bool_]:
        """Which records are in a group that breaks a rule."""
        broken = np.any(list(self.broken(codes).values()), axis=0)
        return np.asarray(np.append(broken, False)[self.clusters.of_record], dtype=np.bool_)

    def sentences(self) -> list[str]:
        """The rules in words."""
        sentences = []
        if self.shared:
            sentences.append(f"All members of a {self.group} have the same {listed([self.keys[k].key for k in self.shared])}.")
        by_key: dict[int, list[str]] = {}
        for rule in self.once:
            by_key.setdefault(rule.key, []).append(self.keys[rule.key].shown[rule.level])
        sentences += [
            f"No two members of a {self.group} have {self.keys[k].key} {listed(labels, joint='or')}."
            for k, labels in by_key.items()
        ]
        for older in self.older:
            labels, step = (
                self.keys[older.key].shown,
                "" if older.least == 0 else f" by at least {counted(older.least, 'level')}",
            )
            name = self.keys[older.age].key
            sentences.append(
                f"{self.keys[older.key].key} {labels[older.above]} is "
                + (
                    f"never below {labels[older.below]} in {name}."
                    if not older.least
                    else f"above {labels[older.below]} in {name}{step}."
                )
            )
        return sentences


@dataclass(frozen=True, eq=False)
class HouseholdRules:
    """What holds in every household of the original: among its members, and between its places.

    Attributes
    ----------
    members : ClusterRules
        What holds among the members.
    together : StructuralZeros
        Combinations of columns of the household rows that look impossible.
    """

    members: ClusterRules
    together: StructuralZeros

    @classmethod
    def of(cls, rows: HouseholdRows, codes: Codes) -> HouseholdRules:
        """Find the rules of a file, given its households as rows and the keys of its records."""
        layout, members = rows.layout, rows.members
        return cls(ClusterRules.of(codes, layout.keys, members, order=layout.order), find_structural_zeros(rows.table))

    @property
    def keys(self) -> tuple[Categories, ...]:
        return self.members.keys

    @property
    def shared(self) -> tuple[int, ...]:
        """Keys whose value all members share."""
        return self.members.shared

    def broken(self, rows: HouseholdRows, codes: Codes) -> dict[str, NDArray[np.bool_]]:
        """For each kind of rule, which households of a release break one; ``codes`` are the released keys of the records.

        ``rows`` are those of the original, whose members keep their places in a release, or those of a synthetic file,
        which has households of its own.
        """
        broken = replace(self.members, clusters=rows.members).broken(codes)
        broken["together"] = np.zeros(rows.members.n_households, dtype=bool)
        if self.together:
            after = rows.layout.placed(codes, rows.members)
            broken["together"] = compatibility(rows.table, self.together).violates(after)
        return broken

    def any_broken(self, rows: HouseholdRows, codes: Codes) -> NDArray[np.bool_]:
        """Which households of a release break a rule."""
        return np.asarray(np.any(list(self.broken(rows, codes).values()), axis=0), dtype=np.bool_)

    def sentences(self) -> list[str]:
        """The rules in words."""
        n = len(self.together.combinations)
        of_places = (
            [f"{counted(n, 'combination')} of values of members {verb(n, 'does', 'do')} not occur, though expected."] if n else []
        )
        return [*self.members.sentences(), *of_places]


def _first_of_each(clusters: Clusters) -> NDArray[np.int64]:
    """A record of each group."""
    first = np.zeros(clusters.n_groups, dtype=np.int64)
    lives = np.flatnonzero(clusters.of_record >= 0)[::-1]
    first[clusters.of_record[lives]] = lives
    return first


def shared_within(codes: Codes, clusters: Clusters) -> tuple[int, ...]:
    """Keys whose value all records of every group share; none if no group has two records."""
    if not (clusters.size > 1).any():
        return ()
    lives = np.flatnonzero(clusters.of_record >= 0)
    first = _first_of_each(clusters)[clusters.of_record[lives]]
    return tuple(k for k in range(codes.shape[1]) if (codes[lives, k] == codes[first, k]).all())


def _is_once(has: NDArray[np.bool_], members: Clusters) -> bool:
    """Whether no household has two members with a level, though many would if members were drawn at random."""
    n = members.n_with(has)
    several = members.size > 1
    if n.max(initial=0) > 1 or (n[several] == 1).sum() < ENOUGH_HOUSEHOLDS:
        return False
    share = n[several].sum() / members.size[several].sum()
    pairs = (members.size[several] * (members.size[several] - 1) // 2).sum()
    return bool(share**2 * pairs >= ENOUGH_HOUSEHOLDS)


def _older(codes: Codes, keys: Sequence[Categories], members: Clusters, key: int, age: int) -> tuple[Older, ...]:
    """Pairs of levels of the relationship of which one is above the other in every household that has both."""
    rules = []
    for above in range(keys[key].n_levels):
        for below in range(keys[key].n_levels):
            if above == below:
                continue
            gap = _smallest_gap(codes, keys, members, Older(key, above, below, age, 0))
            known = gap < _NO_GAP
            n_homes = int(known.sum())
            if n_homes >= ENOUGH_HOUSEHOLDS and (smallest := int(gap[known].min())) >= 1:
                # The smallest gap of few households is larger than that of many, so less of it is asked for.
                rules.append(Older(key, above, below, age, max(1, smallest * n_homes // (n_homes + ENOUGH_HOUSEHOLDS))))
    return tuple(rules)


_NO_GAP = np.iinfo(np.int64).max // 2


def _smallest_gap(codes: Codes, keys: Sequence[Categories], members: Clusters, rule: Older) -> NDArray[np.int64]:
    """For each household, the lowest of one level less the highest of the other; a large number where one is absent."""
    of_age = keys[rule.age]
    known = (members.of_record >= 0) & (codes[:, rule.age] < of_age.n_levels - of_age.has_missing)
    low = np.full(members.n_groups, _NO_GAP)
    high = np.full(members.n_groups, -_NO_GAP)
    above = np.flatnonzero(known & (codes[:, rule.key] == rule.above))
    below = np.flatnonzero(known & (codes[:, rule.key] == rule.below))
    np.minimum.at(low, members.of_record[above], codes[above, rule.age].astype(np.int64))
    np.maximum.at(high, members.of_record[below], codes[below, rule.age].astype(np.int64))
    absent = (low == _NO_GAP) | (high == -_NO_GAP)
    return np.where(absent, _NO_GAP, low - np.where(absent, 0, high))
