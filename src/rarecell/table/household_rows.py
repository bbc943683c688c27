"""How does a household become one record?

Somebody who knows one person knows the family, so what identifies is the household: its size and what is known of each member.
A household is written as one row. Values that all members of every household share (a region, a dwelling) stand there once. The
members take places in a fixed order, and each place has the keys of its member; a place that is not taken has a level of its own.
Columns that are constant drop out. Everything that works on records then works on households.

The order of the members must follow from their values, so that two households with the same members have the same row: first a
column in which one level marks exactly one member of nearly every household (the householder), then the ordered key with most
levels (an age), the highest first, then the other keys. The user may name columns instead.

Households of more than :data:`LARGEST_FAMILY` members are institutions. Nobody knows their members as a family, so they have no
row, and their members count as persons.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell._kernels.hashing import sorted_distinct
from rarecell.graph.masks import MAX_VERTICES
from rarecell.outcome.words import counted, listed, number, verb
from rarecell.table.categories import NOBODY
from rarecell.table.contingency import Categories, ContingencyTable

Codes = NDArray[np.int32]
Numbers = NDArray[np.int64]

LARGEST_FAMILY = 12
"""A household with more members is an institution."""

SIZE = "household size"
"""Name of the column that holds the number of members."""

HEAD_SHARE = 0.95
"""A level that exactly one member has in this share of the households marks the householder."""

FEWEST_AGES = 12
"""An ordered key with fewer levels than this does not place the members."""

MOST_BEYOND = 0.05
"""There are places for all but this share of the members."""

TOLD_APART = 0.998
"""The places tell this share of the households apart that all members together do."""


@dataclass(frozen=True, eq=False)
class RowColumn:
    """A column of household rows: the key (its position among the keys, −1 for the size) and the place, or −1 if all members share it."""

    name: str
    key: int
    place: int


@dataclass(frozen=True, eq=False)
class Placing:
    """A key by which members are placed, and the rank of each of its levels; lower ranks come first."""

    key: int
    rank: Numbers
    is_descending: bool = False

    def with_levels(self, known: Categories, levels: Categories) -> Placing:
        """The same order among further levels: by their own order if the highest comes first, else after those that are known."""
        if self.is_descending:
            return replace(self, rank=-np.arange(levels.n_levels))
        rank_of = dict(zip(known.levels, self.rank.tolist(), strict=True))
        rank = [rank_of.get(level, len(self.rank) + further) for further, level in enumerate(levels.levels)]
        return replace(self, rank=np.array(rank, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Layout:
    """How members take their places and which columns a row has: the same for a file, its release and a register.

    Attributes
    ----------
    keys : tuple of Categories
        What is known of a person.
    order : tuple of Placing
        The keys by which members are placed, most important first.
    shared : tuple of int
        Keys whose value all members of every household share.
    columns : tuple of RowColumn
        The columns of a row.
    """

    keys: tuple[Categories, ...]
    order: tuple[Placing, ...]
    shared: tuple[int, ...]
    columns: tuple[RowColumn, ...]

    @property
    def n_places(self) -> int:
        return 1 + max((column.place for column in self.columns), default=0)

    @property
    def placed_by(self) -> tuple[str, ...]:
        """The keys that decide the order of the members before any other does."""
        return tuple(self.keys[placing.key].key for placing in self.order)

    def categories(self) -> tuple[Categories, ...]:
        """The levels of each column: those of its key, and one for a place that is not taken."""
        made = []
        for column in self.columns:
            if column.key < 0:
                made.append(Categories(SIZE, tuple(range(1, LARGEST_FAMILY + 1)), is_ordered=True))
                continue
            of_key = self.keys[column.key]
            if column.place < 0:
                made.append(replace(of_key, key=column.name))
            else:
                levels, taken = (NOBODY, *of_key.levels), (SIZE, column.place + 1)
                made.append(Categories(column.name, levels, of_key.is_ordered, of_key.value_labels, taken))
        return tuple(made)

    def with_levels(self, keys: Sequence[Categories]) -> Layout:
        """The same layout for keys with further levels, as a register has them; unknown levels of an order come last."""
        order = tuple(placing.with_levels(self.keys[placing.key], keys[placing.key]) for placing in self.order)
        return replace(self, keys=tuple(keys), order=order)

    def rows(self, codes: Codes, household: NDArray[np.integer], *, before: Sequence[Numbers] = ()) -> HouseholdRows:
        """Write the households of a file as rows.

        Parameters
        ----------
        codes : array of int
            A row for each record: the level of each key.
        household : array of int
            Number of the household of each record.
        before : sequence of arrays of int, optional
            Ranks of the records by columns that the user named for the order of the members.
        """
        members = Members.of(codes, household, self, before)
        return HouseholdRows(self, members, self.placed(codes, members))

    def orders(self) -> tuple[tuple[Placing, ...], ...]:
        """Other orders in which somebody might list the members: by fewer of the keys that place them, and by their values alone."""
        return tuple(self.order[k:] for k in range(1, len(self.order) + 1))

    def reordered(self, rows: Codes, order: Sequence[Placing]) -> Codes:
        """The same rows with the members of each in another order; where a column is constant and left out, it counts as equal."""
        own = [k for k in range(len(self.keys)) if k not in self.shared]
        block = np.zeros((len(rows), self.n_places, len(own)), dtype=np.int32)
        column_at = {(column.place, column.key): c for c, column in enumerate(self.columns) if column.place >= 0}
        taken = np.zeros((len(rows), self.n_places), dtype=bool)
        for (place, key), c in column_at.items():
            block[:, place, own.index(key)] = rows[:, c]
            taken[:, place] |= rows[:, c] > 0
        ranks = [placing.rank[np.maximum(block[:, :, own.index(placing.key)] - 1, 0)] for placing in order]
        keys = [~taken, *ranks, *(block[:, :, j] for j in range(len(own)))]
        sequence = np.lexsort([key.astype(np.int64) for key in reversed(keys)], axis=1)
        block = np.take_along_axis(block, sequence[:, :, None], axis=1)
        others = [rows[:, c] for c, column in enumerate(self.columns) if column.place < 0]
        return np.asfortranarray(np.column_stack([*others, block.reshape(len(rows), -1)]).astype(np.int32))

    def placed(self, codes: Codes, members: Members) -> Codes:
        """The row of each household, with its members at the places they have."""
        rows = np.empty((members.n_households, len(self.columns)), dtype=np.int32, order="F")
        for c, column in enumerate(self.columns):
            if column.key < 0:
                rows[:, c] = members.size - 1
                continue
            if column.place < 0:
                rows[:, c] = codes[members.at[:, 0], column.key]
                continue
            taken = np.flatnonzero(members.size > column.place)
            rows[:, c] = 0
            rows[taken, c] = codes[members.at[taken, column.place], column.key] + 1
        return rows


@dataclass(frozen=True, eq=False)
class Clusters:
    """Records in groups: persons in households, employees in enterprises.

    Attributes
    ----------
    of_record : ndarray of int
        The group of each record; −1 for a record of none.
    size : ndarray of int
        Number of records of each group.
    """

    of_record: Numbers
    size: Numbers

    @staticmethod
    def numbered(number: NDArray[np.integer], *, smallest: int = 1) -> Clusters:
        """The groups of records with the same number; records in groups smaller than ``smallest`` belong to none."""
        _, of_record, size = np.unique(number, return_inverse=True, return_counts=True)
        is_large = size >= smallest
        place = np.where(is_large, np.cumsum(is_large) - 1, -1)
        return Clusters(place[of_record], size[is_large])

    @property
    def n_groups(self) -> int:
        return len(self.size)

    def n_with(self, has: NDArray[np.bool_]) -> Numbers:
        """Number of records of each group for which something holds."""
        return np.bincount(self.of_record[has & (self.of_record >= 0)], minlength=self.n_groups)


@dataclass(frozen=True, eq=False)
class Members(Clusters):
    """Who lives in which household, at which place.

    Attributes
    ----------
    of_record : ndarray of int
        The row of each record's household; −1 for a record of an institution.
    size : ndarray of int
        Number of members of each household with a row.
    place : ndarray of int
        Place of each record in its household, from 0.
    at : ndarray of int
        Record at each place of each household; −1 where the place is not taken. Has :data:`LARGEST_FAMILY` columns.
    number : ndarray of int
        Number of each household with a row, as given.
    n_institutions, n_inmates : int
        Households that are too large for a family, and their members.
    """

    place: Numbers
    at: Numbers
    number: Numbers
    n_institutions: int
    n_inmates: int

    @classmethod
    def of(
        cls, codes: Codes, household: NDArray[np.integer], layout: Layout | None = None, before: Sequence[Numbers] = ()
    ) -> Members:
        """Put the records into the places of their households; without a layout, in the order of all their values.

        Records with the same values are ranked together, so that the records are sorted by two numbers: household and rank.
        """
        cells, _, of_cell = collapse_records(np.asfortranarray(codes), codes.max(axis=0, initial=0).astype(np.int64) + 1)
        order = () if layout is None else layout.order
        ranks = [*(placing.rank[cells[:, placing.key]] for placing in order), *cells.T]
        rank = np.empty(len(cells), dtype=np.int64)
        rank[np.lexsort(ranks[::-1])] = np.arange(len(cells))
        numbers, size = np.unique(household, return_counts=True) if household.min(initial=0) < 0 else _counted(household)
        home = np.searchsorted(numbers, household) if len(numbers) <= household.max(initial=-1) else household.astype(np.int64)
        key = home * len(cells) + rank[of_cell]
        sequence = np.lexsort((rank[of_cell], *before[::-1], home)) if before else np.argsort(key, kind="stable")
        start = np.cumsum(size) - size
        place = np.empty(len(codes), dtype=np.int64)
        place[sequence] = np.arange(len(codes)) - np.repeat(start, size)
        is_family = size <= LARGEST_FAMILY
        row = np.where(is_family, np.cumsum(is_family) - 1, -1)
        of_record = row[home] if len(codes) else np.empty(0, dtype=np.int64)
        at = np.full((int(is_family.sum()), LARGEST_FAMILY), -1, dtype=np.int64)
        lives = np.flatnonzero(of_record >= 0)
        at[of_record[lives], place[lives]] = lives
        return cls(
            of_record,
            size[is_family],
            place,
            at,
            numbers[is_family],
            int((~is_family).sum()),
            int(size[~is_family].sum()),
        )

    @property
    def n_households(self) -> int:
        return len(self.size)

    def spread(self, of_household: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give every record the number of its household; 0 in institutions."""
        return np.append(of_household, 0.0)[self.of_record]


@dataclass(frozen=True, eq=False)
class HouseholdRows:
    """The households of a file as records: their layout, their members, and the code of each column."""

    layout: Layout
    members: Members
    codes: Codes

    @cached_property
    def table(self) -> ContingencyTable:
        """The table of the rows, each of which is a record."""
        return ContingencyTable.from_codes(self.codes, self.layout.categories())

    def weighed(self, weights: NDArray[np.float64]) -> ContingencyTable:
        """The same table, with the mean weight of its members as the weight of a household."""
        members = self.members
        lives = members.of_record >= 0
        mean = np.bincount(members.of_record[lives], weights=weights[lives]) / members.size
        return ContingencyTable.from_codes(self.codes, self.layout.categories(), weights=mean)

    def known_by(self, keys: Collection[str]) -> HouseholdRows:
        """The rows as somebody sees them who knows the size and some of the keys.

        Members keep the places that all keys give them, so households are told apart slightly better than by these keys alone.
        """
        names = [None if column.key < 0 else self.layout.keys[column.key].key for column in self.layout.columns]
        seen = [k for k, name in enumerate(names) if name is None or name in keys]
        if len(seen) == len(names):
            return self
        layout = replace(self.layout, columns=tuple(self.layout.columns[k] for k in seen))
        return replace(self, layout=layout, codes=np.asfortranarray(self.codes[:, seen]))

    @property
    def n_beyond(self) -> int:
        """Number of members who have no place in the rows and are known by their number alone."""
        return int(np.maximum(self.members.size - self.layout.n_places, 0).sum())

    def telling_columns(self, row: int) -> tuple[int, ...]:
        """A set of columns, none of which can be left out, that no other household of the file shares with this one.

        Columns are left out one by one, those with the commonest values first. Empty if another household has the same row.
        """
        differs = self.codes != self.codes[row]
        differs[row] = True
        if not differs.any(axis=1).all():
            return ()
        n_alike = (~differs).sum(axis=0)
        kept = list(range(self.codes.shape[1]))
        for column in np.argsort(-n_alike, kind="stable").tolist():
            fewer = [k for k in kept if k != column]
            if fewer and differs[:, fewer].any(axis=1).all():
                kept = fewer
        return tuple(kept)

    def why_alone(self, row: int) -> str:
        """Why a household is alone in the file, with its values, or that it is not; for internal use only."""
        telling = self.telling_columns(row)
        if not telling:
            n = int((self.codes == self.codes[row]).all(axis=1).sum()) - 1
            return (
                f"{counted(n, 'other household')} of the file {verb(n, 'has', 'have')} the same members, as far as the keys tell."
            )
        return (
            f"Of {counted(self.members.n_households, 'household')} of the file only this one is {self._described(row, telling)}."
        )

    def _described(self, row: int, columns: Iterable[int]) -> str:
        """A household by some columns; a member is named by the key that places the householder first, then by these columns."""
        layout, categories = self.layout, self.table.categories
        head = layout.order[0].key if layout.order else -1
        at: dict[int, list[tuple[int, str]]] = {}
        for k in columns:
            column, code = layout.columns[k], self.codes[row, k]
            if column.key >= 0 and not (column.place >= 0 and code == 0):
                at.setdefault(column.place, []).append((column.key, categories[k].labels[code]))
        who = {(c.place, c.key): k for k, c in enumerate(layout.columns)}
        described = [f"{layout.keys[key].key} {label}" for key, label in at.pop(-1, [])]
        for place, values in sorted(at.items()):
            named = who.get((place, head))
            first = (
                f"{layout.keys[head].key} {categories[named].labels[self.codes[row, named]]}"
                if named is not None
                else f"member {place + 1}"
            )
            rest = [_value(layout.keys[key].key, label) for key, label in values if key != head]
            described.append(f"{first} {' and '.join(rest)}" if rest else first)
        size = int(self.members.size[row])
        return f"a household of {number(size)}" + (f" with {listed(described)}" if described else "")

    def sentences(self) -> list[str]:
        """What a reader must know about the rows."""
        members, n_places = self.members, self.layout.n_places
        by = self.layout.placed_by
        sentences = [
            f"Each of the {counted(members.n_households, 'household')} is compared as one row: its size, and {counted(n_places, 'place')} for "
            + (f"members, ordered by {' and '.join(by)}." if by else "members, ordered by all their values.")
        ]
        if self.n_beyond:
            n_large = int((members.size > n_places).sum())
            sentences.append(
                f"{counted(self.n_beyond, 'member')} of {counted(n_large, 'large household')} {verb(self.n_beyond, 'has', 'have')} no place "
                f"there: an intruder is assumed to know that {verb(self.n_beyond, 'this member exists', 'these members exist')}, and nothing else."
            )
        if members.n_institutions:
            sentences.append(
                f"{counted(members.n_institutions, 'household')} of more than {LARGEST_FAMILY} members, with {number(members.n_inmates)} persons, "
                f"{verb(members.n_institutions, 'is not a family', 'are not families')}: these persons count one by one."
            )
        return sentences


def _value(key: str, label: str) -> str:
    """A value in words: an age as one says it, others with the name of their key."""
    return f"aged {label}" if key.casefold() in ("age", "alter", "edad", "âge") else f"with {key} {label}"


# ---------------------------------------------------------------------- finding a layout


def find_layout(codes: Codes, keys: Sequence[Categories], household: NDArray[np.integer]) -> Layout:
    """The layout of :func:`lay_out` alone."""
    return lay_out(codes, keys, household).layout


def lay_out(
    codes: Codes, keys: Sequence[Categories], household: NDArray[np.integer], *, before: Sequence[Numbers] = ()
) -> HouseholdRows:
    """Write the households of a file as rows: the data decide the order of the members, the number of places and the columns.

    ``before`` are the ranks of the records by columns that the user named for the order; the data decide otherwise.
    """
    plain = Members.of(codes, household)
    shared = shared_keys(codes, plain)
    own = [k for k in range(len(keys)) if k not in shared]
    order = () if len(before) else order_of_members(codes, keys, plain, own)
    layout = Layout(tuple(keys), order, shared, ())
    members = Members.of(codes, household, layout, before) if order or len(before) else plain
    n_places = _n_places(codes, members, shared, own)
    size = RowColumn(SIZE, -1, -1)
    columns = [*(RowColumn(keys[k].key, k, -1) for k in shared)]
    columns += [RowColumn(f"{keys[k].key} {place + 1}", k, place) for place in range(n_places) for k in own]
    whole = replace(layout, columns=(size, *columns))
    rows = whole.placed(codes, members)
    varies = [j for j in range(len(whole.columns)) if len(rows) and (rows[:, j] != rows[0, j]).any()]
    # The first place is always taken, so a row has at least one column even if all households are alike.
    if len(varies) == len(whole.columns) or not any(whole.columns[j].place >= 0 for j in varies):
        return HouseholdRows(whole, members, rows)
    return HouseholdRows(
        replace(layout, columns=tuple(whole.columns[j] for j in varies)), members, np.asfortranarray(rows[:, varies])
    )


def shared_keys(codes: Codes, members: Members) -> tuple[int, ...]:
    """Keys whose value all members of every household share; none if no household has two members."""
    lives = np.flatnonzero((members.of_record >= 0) & (members.place > 0))
    if not len(lives):
        return ()
    first = members.at[members.of_record[lives], 0]
    return tuple(k for k in range(codes.shape[1]) if (codes[lives, k] == codes[first, k]).all())


def order_of_members(codes: Codes, keys: Sequence[Categories], members: Clusters, own: Sequence[int]) -> tuple[Placing, ...]:
    """The householder first, then the highest age: the keys that say so, with the rank of each level."""
    placings: list[Placing] = []
    head = householder(codes, keys, members, own)
    if head is not None:
        key, level, _ = head
        rank = np.arange(keys[key].n_levels)
        if not keys[key].is_ordered:
            # Whoever is at most one of a household, such as a spouse, comes before those who are several.
            alone = [_once(codes[:, key] == code, members) for code in rank.tolist()]
            rank = np.lexsort((rank, -np.array(alone))).argsort()
        rank = rank + 1
        rank[level] = 0
        placings.append(Placing(key, rank))
    ages = [k for k in own if keys[k].is_ordered and keys[k].n_levels >= FEWEST_AGES and (head is None or k != head[0])]
    if ages:
        age = max(ages, key=lambda k: keys[k].n_levels)
        placings.append(Placing(age, -np.arange(keys[age].n_levels), is_descending=True))
    return tuple(placings)


def householder(codes: Codes, keys: Sequence[Categories], members: Clusters, own: Sequence[int]) -> tuple[int, int, float] | None:
    """The key, its level and the share of households in which exactly one member has it, if it is a mark of the householder."""
    best: tuple[int, int, float] | None = None
    several = members.size > 1
    if not several.any():
        return None
    for key in own:
        # Exactly one member each: there are at least so many records with the level.
        common = np.bincount(codes[:, key], minlength=keys[key].n_levels) >= HEAD_SHARE * several.sum()
        for level in np.flatnonzero(common).tolist():
            n = members.n_with(codes[:, key] == level)
            share = float((n[several] == 1).mean())
            if share >= HEAD_SHARE and (best is None or share > best[2]):
                best = (key, level, share)
    return best


def _once(has: NDArray[np.bool_], members: Clusters) -> float:
    """Of the households in which somebody has a level, the share in which it is one member alone."""
    n = members.n_with(has)
    return float((n[n > 0] == 1).mean()) if n.any() else 0.0


def _n_places(codes: Codes, members: Members, shared: Sequence[int], own: Sequence[int]) -> int:
    """As many places as tell the households apart and hold nearly all members, and no more than vertices allow."""
    most = min(int(members.size.max(initial=1)), max(1, (MAX_VERTICES - 1 - len(shared)) // max(len(own), 1)))
    if most == 1:
        return 1
    person = _distinct(codes[:, list(own)]) + 1
    household = _distinct(codes[members.at[:, 0]][:, list(shared)]) if shared else np.zeros(members.n_households, dtype=np.int64)
    household = household * (LARGEST_FAMILY + 1) + members.size
    uniques = []
    # Households of different sizes are told apart, so those without a further member need not be looked at again.
    settled, left = 0, np.arange(members.n_households)
    for place in range(int(members.size.max())):
        record = members.at[left, place]
        number = sorted_distinct(household[left] * (len(codes) + 1) + person[record])[2]
        alone = np.bincount(number)[number] == 1
        household[left] = number
        uniques.append(settled + int(alone.sum()))
        ends = members.size[left] == place + 1
        # Numbers of households that ended here are not used again.
        settled += int((alone & ends).sum())
        left = left[~ends]
    n_members = int(members.size.sum())
    for place in range(1, most + 1):
        beyond = int(np.maximum(members.size - place, 0).sum())
        if uniques[place - 1] >= TOLD_APART * uniques[-1] and beyond <= MOST_BEYOND * n_members:
            return place
    return most


def _counted(household: NDArray[np.integer]) -> tuple[Numbers, Numbers]:
    """The numbers of the households in increasing order, and how many records each has."""
    size = np.bincount(household)
    numbers = np.flatnonzero(size)
    return numbers, size[numbers]


def _distinct(codes: Codes) -> Numbers:
    """A number for each row, the same for equal rows."""
    _, _, position = collapse_records(np.asfortranarray(codes), codes.max(axis=0, initial=0).astype(np.int64) + 1)
    return np.asarray(position, dtype=np.int64)
