"""Who changes places with whom, when places are what is swapped?

Targeted record swapping, as statistical offices use it for censuses: a risky record or household changes places with a similar
one in another area. It leaves the coarsest area in which it is at risk, because within that area it would stay at risk, and
remains within the next coarser one. Risky units come first, then others chosen at random until the swap rate is reached. A
partner agrees on a profile of columns; profiles are tried in the given order.

Unlike in other programs, chosen tables stay exactly as they are. Exchanging the areas of two records keeps a table that contains
areas exactly when the records agree on its other columns, so partners must agree on these columns too.

Pairs become rings of four or more, as those of other swaps do (:mod:`rarecell.swap.rings`): units that agree on everything that partners must
agree on can hand their areas round, so that nobody's partner has what is missing. A pair whose areas do not allow it stays a pair.

References
----------
Shlomo, N., Tudor, C. and Groom, P. (2010). Data swapping for protecting census tables. Privacy in Statistical Databases, LNCS
6344, 41–51.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell._kernels.counting import collapse_records
from rarecell._kernels.hashing import mixed_many
from rarecell._kernels.matching import pair_up
from rarecell.engine.streaming import NamesOfRecords, drawing_order, names_of_records
from rarecell.errors import BadInput, UnknownColumns
from rarecell.outcome.words import counted, number, percent
from rarecell.table.columns import CodedColumn, ColumnValues, code_column

MOST_DRAWS = 12
"""Largest number of rounds in which further units are drawn at random because earlier ones found no partner."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AreaSwaps:
    """Records that change places.

    Attributes
    ----------
    records, partners : array of int
        Row numbers of the pairs; each pair exchanges its areas and the columns that travel with them, alone or in a ring with others.
    givers : array of int
        For each of ``rows``, the record whose areas it receives.
    level : array of int
        Level of area that each pair crosses, as a position in the list of areas.
    profile : array of int
        Position of the profile on which each pair agrees.
    is_risky : array of bool
        Whether a record of the pair was chosen for its risk.
    n_units, n_swapped : int
        Number of units (households or records), and of those that change places.
    n_risky, n_left : int
        Number of units chosen for their risk, and of those among them that found no partner.
    n_by_chance : int
        Number of units chosen at random; both units of a pair count.
    least_rate : float
        Share of units that should change places, as a minimum.
    are_households : bool
        Whether a unit is a household.
    """

    records: Integers = field(repr=False)
    partners: Integers = field(repr=False)
    givers: Integers = field(repr=False)
    level: Integers = field(repr=False)
    profile: Integers = field(repr=False)
    is_risky: NDArray[np.bool_] = field(repr=False)
    n_units: int
    n_swapped: int
    n_risky: int
    n_left: int
    n_by_chance: int = 0
    least_rate: float = 0.0
    are_households: bool = False

    def __len__(self) -> int:
        return len(self.records)

    @property
    def rows(self) -> Integers:
        """Every record that changes places: records, then partners."""
        return np.concatenate([self.records, self.partners])

    @property
    def rate(self) -> float:
        """Share of the units that change places."""
        return self.n_swapped / self.n_units if self.n_units else 0.0

    @property
    def unit(self) -> str:
        """Word for what changes places: a household or a record."""
        return "household" if self.are_households else "record"

    @property
    def n_partners(self) -> int:
        """Number of units that change places because a unit at risk needed a partner."""
        return self.n_swapped - self.n_by_chance - (self.n_risky - self.n_left)

    @property
    def warning(self) -> str | None:
        """A remark on the rate, if needed: it is a minimum, exceeded if many are at risk, and missed if partners run out."""
        if self.least_rate > 0.0 and self.n_by_chance == 0 and self.n_swapped > round(self.least_rate * self.n_units) + 1:
            return (
                f"The swap rate of {percent(self.least_rate)} is exceeded: everybody at risk changes places, and that makes "
                f"{percent(self.rate)}. A higher --risk-above, or fewer or coarser keys, put fewer {self.unit}s at risk."
            )
        if self.n_swapped < round(self.least_rate * self.n_units) - 1:
            return (
                f"The swap rate of {percent(self.least_rate)} is not reached: partners were found for {percent(self.rate)} only. Shorter "
                "profiles (--similar) or fewer tables to keep leave more partners."
            )
        return None

    def __str__(self) -> str:
        left = f" {counted(self.n_left, self.unit)} at risk found no partner." if self.n_left else ""
        return (
            f"{number(self.n_swapped)} of {counted(self.n_units, self.unit)} ({percent(self.rate)}) change places: "
            f"{number(self.n_risky - self.n_left)} for their risk, {number(self.n_partners)} as their partners and "
            f"{number(self.n_by_chance)} by chance.{left}"
        )


@dataclass(frozen=True, eq=False)
class AreaSwapTask:
    """The input of a plan of area swaps.

    Attributes
    ----------
    columns : mapping of str to ColumnValues
        For each column named below, a value for each record, or its codes.
    areas : tuple of str
        Columns of nested areas, coarsest first.
    similar : tuple of tuples of str
        Profiles of columns on which partners must agree, tried in this order; an empty profile requires nothing.
    keep : tuple of tuples of str
        Tables that must not change, as lists of columns.
    carry : tuple of str
        Columns that travel with the areas.
    households : array_like or None
        Household of each record; households move as a whole. None swaps single records.
    alike : tuple of str
        Columns on which partners must agree in addition to any profile.
    untouched : array of bool or None
        Records that must stay where they are; their households stay as well.
    """

    columns: Mapping[str, ColumnValues]
    areas: tuple[str, ...]
    similar: tuple[tuple[str, ...], ...] = ((),)
    keep: tuple[tuple[str, ...], ...] = ()
    carry: tuple[str, ...] = ()
    households: ArrayLike | None = None
    alike: tuple[str, ...] = ()
    untouched: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        if not self.areas:
            raise BadInput("Records change places by their areas, but no column of areas was named; name it with --geography.")
        named = [*self.areas, *(name for names in (*self.similar, *self.keep, self.alike) for name in names)]
        unknown = [name for name in dict.fromkeys(named) if name not in self.columns]
        if unknown:
            raise UnknownColumns.among(unknown, list(self.columns))
        for profile in (*self.similar, self.alike):
            moving = [name for name in profile if name in self.areas or name in self.carry]
            if moving:
                raise BadInput(
                    f"Partners are to be alike in '{moving[0]}', which is what they exchange. Leave it out of --similar and --within."
                )

    @cached_property
    def n_records(self) -> int:
        first = self.columns[self.areas[0]]
        return len(first.codes) if isinstance(first, CodedColumn) else len(np.asarray(first))

    def codes(self, names: Sequence[str]) -> Integers:
        """Return a number for each record that identifies its combination of these columns."""
        if not names:
            return np.zeros(self.n_records, dtype=np.int64)
        coded = [code_column(name, self.columns[name], self.n_records) for name in names]
        return np.asarray(collapse_records([column.codes for column in coded], [len(column.levels) for column in coded])[2])

    def alike_for(self, level: int) -> tuple[str, ...]:
        """Return the columns on which two records must agree for an exchange of areas at this level to keep the tables."""
        moving = {*self.areas[level:], *self.carry}
        names = [name for table in self.keep if moving & set(table) for name in table if name not in moving]
        # Partners agree on all coarser areas anyway.
        return tuple(name for name in dict.fromkeys(names) if name not in self.areas)


def plan_area_swaps(
    task: AreaSwapTask,
    risk_level: ArrayLike,
    *,
    rate: float = 0.0,
    record_ids: ArrayLike | NamesOfRecords | None = None,
    seed: int = 0,
) -> AreaSwaps:
    """Choose which records change places.

    Parameters
    ----------
    task : AreaSwapTask
        The columns, and what partners must have in common.
    risk_level : array_like
        For each record, the coarsest level of area at which it is at risk, as a position in ``task.areas``; the number of levels
        for a record that is not at risk. Every record at risk is to be swapped, whatever the rate.
    rate : float, optional
        Smallest share of units that change places, if partners can be found; both units of a pair count.
    record_ids : array_like or NamesOfRecords, optional
        Name of each record, for the random choice; row numbers by default.
    seed : int, optional
        Seed of that choice.

    Returns
    -------
    AreaSwaps
        The pairs and rings that change places.

    Examples
    --------
    >>> task = AreaSwapTask({"town": ["a", "a", "b", "b"], "sex": ["f", "m", "f", "m"]}, ("town",), similar=(("sex",),))
    >>> swaps = plan_area_swaps(task, [0, 1, 1, 1])
    >>> swaps.records.tolist(), swaps.partners.tolist()
    ([0], [2])
    """
    if not 0.0 <= rate <= 1.0:
        raise BadInput(f"The swap rate was given as {rate}; it must be a share of the records between 0 and 1.")
    levels = np.asarray(risk_level, dtype=np.int64)
    if levels.shape != (task.n_records,):
        raise BadInput(f"A level of risk was given for {levels.size:,} records; the file has {task.n_records:,}.")
    return _Swapping(task, levels, names_of_records(record_ids, task.n_records), seed).planned(rate)


class _Swapping:
    """The state of a plan in the making: where the units are, which are used, and who is paired with whom."""

    def __init__(self, task: AreaSwapTask, risk_level: Integers, names: NamesOfRecords, seed: int) -> None:
        self.task, self.names, self.seed = task, names, seed
        n_records = task.n_records
        self.unit_of = _units(task.households, n_records)
        self.n_units = int(self.unit_of.max(initial=-1)) + 1
        self.first = np.full(self.n_units, n_records, dtype=np.int64)
        np.minimum.at(self.first, self.unit_of, np.arange(n_records))
        self.size = np.bincount(self.unit_of, minlength=self.n_units)
        self.paths = [self._area_of_units(level) for level in range(len(task.areas))]
        self.is_nowhere = self._has_no_area()
        self.risk_level = np.full(self.n_units, len(task.areas), dtype=np.int64)
        np.minimum.at(self.risk_level, self.unit_of, np.maximum(risk_level, 0))
        named = drawing_order(seed, _unit_names(task.households, self.first, n_records, names))
        self.turn = np.argsort(np.argsort(named, kind="stable"), kind="stable")
        self.is_out = np.zeros(self.n_units, dtype=bool)
        self.is_out[self.unit_of[np.flatnonzero(task.untouched)] if task.untouched is not None else []] = True
        self.is_used = self.is_out.copy()
        self.crossed = np.full(self.n_units, len(task.areas), dtype=np.int64)
        self.pairs: list[tuple[Integers, Integers, int, int, bool]] = []
        self._known_groups: dict[tuple[int, int], tuple[Integers, Integers, Integers]] = {}
        self._known_kinds: dict[tuple[str, ...], Integers] = {}

    def _area_of_units(self, level: int) -> Integers:
        """Area of each unit at a level; areas of the same name in different coarser areas are distinct."""
        of_records = self.task.codes(self.task.areas[: level + 1])
        of_units = of_records[self.first]
        is_elsewhere = np.flatnonzero(of_records != of_units[self.unit_of])
        if len(is_elsewhere):
            raise BadInput(
                f"The household of record {is_elsewhere[0]} lies in two areas of '{self.task.areas[level]}', so it cannot change places as a "
                "whole. Correct the areas, or swap single records."
            )
        return of_units

    def _has_no_area(self) -> NDArray[np.bool_]:
        """Units whose finest area is missing: two of them have nothing to exchange, wherever their coarser areas are."""
        finest = code_column(self.task.areas[-1], self.task.columns[self.task.areas[-1]], self.task.n_records)
        missing = len(finest.levels) - 1 if finest.levels and finest.levels[-1] is None else -1
        return np.asarray(finest.codes[self.first] == missing)

    def planned(self, rate: float) -> AreaSwaps:
        """Swap risky units first, from the coarsest level down; then randomly drawn units at the finest level."""
        n_levels = len(self.task.areas)
        for level in range(n_levels):
            self._serve(np.flatnonzero(self.risk_level == level), level, is_risky=True)
        is_risky = self.risk_level < n_levels
        n_least = round(rate * self.n_units)
        tried = np.zeros(self.n_units, dtype=bool)
        for _ in range(MOST_DRAWS):
            n_missing = (n_least - int((self.is_used & ~self.is_out).sum()) + 1) // 2
            free = np.flatnonzero(~self.is_used & ~tried)
            if n_missing <= 0 or not len(free):
                break
            drawn = free[np.argsort(self.turn[free], kind="stable")[:n_missing]]
            tried[drawn] = True
            self._serve(drawn, n_levels - 1, is_risky=False)
        # A risky unit that became the partner in a swap across finer areas than its risk level is not protected by it.
        n_left = int((is_risky & (self.crossed > self.risk_level)).sum())
        n_by_chance = 2 * sum(len(first) for first, _, _, _, is_for_risk in self.pairs if not is_for_risk)
        swaps = self._swaps(int(is_risky.sum()), n_left)
        return replace(swaps, n_by_chance=n_by_chance, least_rate=rate, are_households=self.task.households is not None)

    def _serve(self, waiting: Integers, level: int, *, is_risky: bool) -> None:
        """Find partners for waiting units, profile by profile."""
        places = self._places(level)
        for position in range(len(self.task.similar)):
            waiting = waiting[~self.is_used[waiting]]
            if not len(waiting):
                return
            group, members, start = self._groups(position, level)
            order = np.lexsort((self.turn[waiting], places[waiting], group[waiting]))
            partner = np.full(self.n_units, -1, dtype=np.int64)
            pair_up(waiting[order], group, start, members, places, self.is_used, partner)
            first = waiting[partner[waiting] >= 0]
            second = partner[first]
            # A pair of two waiting units appears twice.
            is_first = ~np.isin(first, second) | (self.turn[first] < self.turn[second])
            self.crossed[first] = self.crossed[second] = level
            self.pairs.append((first[is_first], second[is_first], level, position, is_risky))

    def _places(self, level: int) -> Integers:
        """Area of each unit at a level; all without a finest area are in one place, because they have nothing to exchange."""
        return np.where(self.is_nowhere, self.paths[level].max(initial=0) + 1, self.paths[level])

    def _groups(self, position: int, level: int) -> tuple[Integers, Integers, Integers]:
        """Group of each unit, the units sorted by group and randomly within it, and where each group starts."""
        if (position, level) in self._known_groups:
            return self._known_groups[position, level]
        coarser = self.paths[level - 1] if level else np.zeros(self.n_units, dtype=np.int64)
        parts = [*self._compositions(position, level), self.size, coarser]
        _, counts, group = collapse_records(parts, [int(part.max(initial=0)) + 1 for part in parts])
        members = np.argsort(group * self.n_units + self.turn)
        groups = (group, members, np.append(0, np.cumsum(counts)))
        self._known_groups[position, level] = groups
        return groups

    def _compositions(self, position: int, level: int) -> list[Integers]:
        """Numbers (hashes for households) that are equal for two units whose members have in common what they must."""
        kind = self._kinds(position, level)
        if self.n_units == self.task.n_records:
            return [kind[self.first]]
        sums = []
        for seed in (11, 23):
            total = np.zeros(self.n_units, dtype=np.uint64)
            np.add.at(total, self.unit_of, mixed_many(kind + 1, seed))
            sums.append(np.unique(total, return_inverse=True)[1])
        return sums

    def _kinds(self, position: int, level: int) -> Integers:
        """A number for each record that must be the same for its partner."""
        profile = self.task.similar[position]
        names = tuple(dict.fromkeys((*profile, *self.task.alike, *self.task.alike_for(level))))
        if names not in self._known_kinds:
            self._known_kinds[names] = self.task.codes(names)
        return self._known_kinds[names]

    def _givers(self) -> Integers:
        """The unit whose areas each unit receives: its partner, or another one in rings of four or more.

        Two receivers that exchange whom they receive from join the pairs they are in. Pairs that are alone join each other, then those
        left over join a ring; in either case they agree on all that partners must agree on.
        """
        giver = np.full(self.n_units, -1, dtype=np.int64)
        alike: dict[tuple[int, int], list[tuple[Integers, Integers]]] = {}
        for first, second, level, position, _ in self.pairs:
            giver[first], giver[second] = second, first
            alike.setdefault((level, position), []).append((first, second))
        for (level, position), parts in alike.items():
            first, second = (np.concatenate(side) for side in zip(*parts, strict=True))
            group = self._groups(position, level)[0][first]
            order = np.lexsort((self.turn[first], group))
            _join(giver, first[order], second[order], group[order], self._places(level))
        return giver

    def _swaps(self, n_risky: int, n_left: int) -> AreaSwaps:
        """Turn pairs of units into pairs of members that agree one to one, in an order independent of the file."""
        parts: list[tuple[Integers, ...]] = []
        n_swapped = 0
        among, start, drawn = self._members()
        giver = self._givers()
        for first, second, level, position, is_risky in self.pairs:
            kind = self._kinds(position, level)
            rows = among[np.lexsort((drawn, kind[among], self.unit_of[among]))]
            size = self.size[first]
            member = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
            records, partners, to_record, to_partner = (
                rows[np.repeat(start[units], size) + member] for units in (first, second, giver[first], giver[second])
            )
            if not all(np.array_equal(kind[records], kind[others]) for others in (partners, to_record, to_partner)):
                raise RuntimeError("Internal error: two households were taken for alike that are not. Nothing was written.")
            n_swapped += 2 * len(first)
            n_pairs = len(records)
            of_each = np.full(n_pairs, level), np.full(n_pairs, position), np.full(n_pairs, is_risky)
            parts.append((records, partners, to_record, to_partner, *of_each))
        joined = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.zeros(0, dtype=np.int64)] * 7
        order = np.argsort(self.turn[self.unit_of[joined[0]]], kind="stable")
        records, partners, to_record, to_partner, level_of, profile_of, risky = (column[order] for column in joined)
        givers = np.concatenate([to_record, to_partner])
        return AreaSwaps(
            records, partners, givers, level_of, profile_of, risky.astype(bool), self.n_units, n_swapped, n_risky, n_left
        )

    def _members(self) -> tuple[Integers, Integers, NDArray[np.uint64]]:
        """Records of the swapped units, where each unit starts among them, and an order for records that are alike."""
        among = np.flatnonzero(self.is_used[self.unit_of])
        size = np.where(self.is_used, self.size, 0)
        is_single = self.n_units == self.task.n_records
        drawn = np.zeros(len(among), dtype=np.uint64) if is_single else drawing_order(self.seed, self.names(among))
        return among, np.cumsum(size) - size, drawn


JOINING_ROUNDS = 4
"""Number of times that pairs which are still alone look for another pair to join."""


def _join(giver: Integers, first: Integers, second: Integers, group: Integers, place: Integers) -> None:
    """Join pairs of one group into rings by exchanging the givers of two receivers, in ``giver``; pairs are sorted by group.

    Both must then receive an area that is not their own.
    """
    is_alone = np.ones(len(first), dtype=bool)

    def exchanged(one: Integers, other: Integers) -> NDArray[np.bool_]:
        """Exchange givers between receivers of these pairs, if two can be found."""
        waiting = np.ones(len(one), dtype=bool)
        for of_one in (first, second):
            for of_other in (first, second):
                a, b = of_one[one], of_other[other]
                can = waiting & (place[giver[b]] != place[a]) & (place[giver[a]] != place[b])
                giver[a[can]], giver[b[can]] = giver[b[can]], giver[a[can]]
                waiting &= ~can
        return ~waiting

    for turn in range(JOINING_ROUNDS):
        alone = np.flatnonzero(is_alone)[turn % 2 :]
        one, other = alone[: len(alone) // 2 * 2 : 2], alone[1::2]
        is_alike = group[one] == group[other]
        one, other = one[is_alike], other[is_alike]
        done = exchanged(one, other)
        is_alone[one[done]] = is_alone[other[done]] = False
    # One that is left over joins the ring of the pair before it or after it, at most one each.
    in_ring, left = ~is_alone, np.flatnonzero(is_alone)
    for step in (-1, 1):
        host = left + step
        can = (host >= 0) & (host < len(first))
        can[can] = in_ring[host[can]] & (group[host[can]] == group[left[can]])
        done = exchanged(left[can], host[can])
        left = np.setdiff1d(left, left[can][done])


def _units(households: ArrayLike | None, n_records: int) -> Integers:
    """Unit of each record: its household, or the record itself; a record without a household is a unit of its own."""
    if households is None:
        return np.arange(n_records)
    codes, levels = code_column("household", households, n_records)
    of_record = codes.astype(np.int64)
    if levels and levels[-1] is None:
        without = np.flatnonzero(of_record == len(levels) - 1)
        of_record[without] = len(levels) - 1 + np.arange(len(without))
    return np.asarray(np.unique(of_record, return_inverse=True)[1], dtype=np.int64)


def _unit_names(households: ArrayLike | None, first: Integers, n_records: int, names: NamesOfRecords) -> list[object]:
    """Name of each unit: its household, or its record if it is alone. Row order would not do: engines differ in it."""
    if households is None:
        return list(names(first))
    codes, levels = code_column("household", households, n_records)
    unit_names: list[object] = [levels[code] for code in codes[first].tolist()]
    alone = [unit for unit, name in enumerate(unit_names) if name is None]
    for unit, name in zip(alone, names(first[alone]), strict=True):
        unit_names[unit] = f"alone {name}"
    return unit_names


def risk_levels(at_risk: Sequence[ArrayLike]) -> Integers:
    """Find the coarsest level at which each record is at risk, from one mask per level, coarsest first.

    A record that is never at risk gets the number of levels.
    """
    masks = np.array([np.asarray(mask, dtype=bool) for mask in at_risk])
    return np.asarray(np.where(masks.any(axis=0), masks.argmax(axis=0), len(masks)), dtype=np.int64)
