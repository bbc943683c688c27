"""What is found by an intruder who looks for whole families?

Somebody who knows who lives with whom compares households, not persons: a released household is linked to the household of the
register that is nearest in everything that is known of its members. On household rows this is the nearest intruder of records
(:mod:`rarecell.intruder.nearest`), and the same formulas hold.

How somebody compares two households is not ours to choose. Ordered values are weighed as for persons, or taken as equal or not
(Hamming distance). Members are compared place by place as they stood in the original, which makes the right household no farther
than any sorting does, and also in other orders, as somebody would list them who sees the release alone. The way that finds the
most is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from rarecell.intruder.links import Chances, Links, interval_of
from rarecell.intruder.nearest import exact_links, model_error, moved_chances, unmoved_chances
from rarecell.intruder.register import Register, Unseen
from rarecell.release.release import Claims, Release
from rarecell.table.categories import NOBODY
from rarecell.table.contingency import Categories, ContingencyTable
from rarecell.table.distance import OUTWEIGHS_ALL, WEIGHTS, Distances
from rarecell.table.household_rows import SIZE, HouseholdRows, Layout, Placing

KNOWS_FAMILIES = (
    "holds a register with the true keys of everybody and knows who lives with whom, and links each household to the nearest one"
)
"""What this intruder must know, to follow "somebody who"."""

INTRUDER_WEIGHT = 3.0
"""Weight of ordered keys by which candidates are screened; the others are tried as well."""

N_POPULATIONS = 4
"""Number of populations of households that are drawn from the model."""

MOST_DRAWN = 400_000
"""Largest number of households drawn for a population. In a larger one more are near, so that what is found is overstated."""

MOST_KEPT = 256 * 2**20
"""Memory for a population with its members in other orders, in bytes; a larger one is put in order each time."""


@dataclass(frozen=True, eq=False)
class HouseholdLinks:
    """Households linked to the right one before and after protection, and the persons who live in them."""

    before: Links
    after: Links
    size: NDArray[np.int64]

    @property
    def persons_before(self) -> float:
        return self._persons(self.before)

    @property
    def persons_after(self) -> float:
        return self._persons(self.after)

    @property
    def persons_certain(self) -> float:
        """Persons in households of the release that are linked to their own with no other as near, by expectation."""
        return float((self.size[self.after.row] * self.after.certain).sum())

    def _persons(self, links: Links) -> float:
        return float((self.size[links.row] * links.link).sum())

    def risk_after(self) -> NDArray[np.float64]:
        """The risk of each household of the release: to be the only one of its kind if it stayed, to be linked if it moved.

        It is 0 for a household that is not alone in the released file.
        """
        risk = np.zeros(len(self.size))
        risk[self.after.row] = np.where(self.after.moved, self.after.link, self.after.certain)
        return risk


def household_distances(columns: Sequence[Categories]) -> tuple[Distances, ...]:
    """How intruders compare households: ordered values with several weights, and every value as equal or not.

    Who knows a family knows how many they are, so households of another size are farther than any of the same size.
    """
    keys = [c.key for c in columns]
    by_size = {SIZE: OUTWEIGHS_ALL} if SIZE in keys else {}
    ordered = [c.key for c in columns if c.is_ordered and c.key != SIZE]
    middle, *others = sorted(WEIGHTS, key=lambda weight: weight != INTRUDER_WEIGHT)
    by_rank = [Distances(weights={**dict.fromkeys(ordered, weight), **by_size}) for weight in (middle, *others)]
    return (*by_rank, Distances(dict.fromkeys(keys, "nominal"), by_size))


def household_release(rows: HouseholdRows, released: NDArray[np.int32]) -> Release:
    """The release in rows of households; ``released`` are the keys of the records, whose members keep their places."""
    after = rows.layout.placed(released, rows.members)
    return Release.of_codes(rows.codes, after, rows.table.categories)


def household_links(rows: HouseholdRows, release: Release, register: Register) -> HouseholdLinks:
    """Links between households of the released file and of a register, counted or as far as a model knows it.

    Without a register, populations of households are drawn from the model, each from one of its members, and searched like a
    register: the cells around a row of many columns are too many to be listed.

    Parameters
    ----------
    rows : HouseholdRows
        The households of the original.
    release : Release
        The :func:`household_release`.
    register : Register
        The households that the intruder knows, as rows of the same layout.
    """
    seen = register.seen(release)
    before = exact_links(Release.unchanged(seen.before), register)
    unmoved, alone = unmoved_chances(seen, register), seen.moved_alone
    moved = _worst(seen, Populations.of(register), rows)
    link = np.concatenate([unmoved.link, moved.link[alone]])
    certain = np.concatenate([unmoved.certain, moved.certain[alone]])
    drawn = unmoved.drawn
    if len(drawn):
        rng = np.random.default_rng(0 if register.unseen is None else register.unseen.seed)
        drawn = drawn + rng.poisson(moved.link[alone].sum(), len(drawn))
    interval = interval_of(float(link.sum()), drawn, len(link), model_error(seen, register), 1)
    rows_of = np.concatenate([seen.unmoved_rows(), seen.rows[alone]])
    after = Links("household", rows_of, link, certain, np.arange(len(link)) >= len(unmoved.link), interval)
    return HouseholdLinks(before, after, rows.members.size)


def still_linked(rows: HouseholdRows, release: Release, register: Register) -> NDArray[np.float64]:
    """For every household that moved and is alone in the released file, its highest chance to be linked in any way of comparing.

    For a plan in the making: one population is drawn where the register is not real.
    """
    seen = register.seen(release)
    link = np.zeros(len(rows.members.size))
    if not len(seen.rows):
        return link
    highest = np.max([chances.link for chances in _tried(seen, Populations.of(register), rows, most=1)], axis=0)
    link[seen.rows] = np.where(seen.moved_alone, highest, 0.0)
    return link


def _worst(release: Release, known: Populations, rows: HouseholdRows) -> Chances:
    """Chances of the moved households, averaged over populations, in the way of comparing that finds the most."""
    alone = release.moved_alone
    if not len(release.rows):
        return Chances(np.zeros(0), np.zeros(0), np.zeros(0))
    return max(_tried(release, known, rows), key=lambda chances: float(chances.link[alone].sum()))


def _tried(release: Release, known: Populations, rows: HouseholdRows, *, most: int = N_POPULATIONS) -> list[Chances]:
    """Chances of the moved households in every way of comparing, averaged over at most so many populations.

    Ways differ by the distance and by the order in which the members of a household are listed.
    """
    claims, table, alone = release.moved, release.before, release.moved_alone
    # The keys have the levels of the register here, which may be more than those of the file.
    layout = rows.layout.with_levels(_levels_of_keys(rows.layout, table.categories))
    listed = [(claims, None), *((_listed(claims, layout, order), order) for order in layout.orders())]
    tried = []
    for of_way, order in listed:
        people = [known.listed(number, layout, order) for number in range(min(most, known.number))]
        for distances in household_distances(people[0].known.table.categories):
            near = distances.arrays(people[0].known.table)
            by_register = [moved_chances(of_way, register, [near], alone)[0] for register in people]
            link = np.mean([chances.link for chances in by_register], axis=0)
            tried.append(Chances(link, np.mean([chances.certain for chances in by_register], axis=0), np.zeros(0)))
    return tried


def _listed(claims: Claims, layout: Layout, order: Sequence[Placing]) -> Claims:
    """The same claims about households whose members are listed in another order."""
    return Claims(claims.row, layout.reordered(claims.true, order), layout.reordered(claims.released, order))


def _levels_of_keys(layout: Layout, categories: Sequence[Categories]) -> tuple[Categories, ...]:
    """The keys of persons with the levels that the columns of the rows have."""
    keys = list(layout.keys)
    for column, of_column in zip(layout.columns, categories, strict=True):
        if column.key >= 0:
            levels = of_column.levels if column.place < 0 else of_column.levels[1:]
            keys[column.key] = replace(keys[column.key], levels=levels)
    return tuple(keys)


def _reordered(register: Register, layout: Layout, order: Sequence[Placing]) -> Register:
    """The households of a register with their members in another order."""
    table = register.known.table
    own = [k for k in range(len(layout.keys)) if k not in layout.shared]
    shared = [c for c, column in zip(table.categories, layout.columns, strict=True) if column.place < 0]
    places = [
        Categories(f"{layout.keys[k].key} {place + 1}", (NOBODY, *layout.keys[k].levels), layout.keys[k].is_ordered)
        for place in range(layout.n_places)
        for k in own
    ]
    cells = layout.reordered(table.cells, order)
    return Register.counted(ContingencyTable.from_counts(cells, table.counts, (*shared, *places)))


class Populations:
    """The households that an intruder may hold: those of a register, or populations that the model considers possible.

    A plan asks about the same populations again and again, so they are drawn once for a register, one after the other as they are asked
    for: the households of the file, and the unseen ones drawn from a member of the model. Households with their members in another
    order are kept as well, where they are few enough.
    """

    def __init__(self, register: Register) -> None:
        unseen = register.unseen
        self.number = 1 if unseen is None else N_POPULATIONS
        self._drawn = [register] if unseen is None else list[Register]()
        self._in_order: dict[tuple[int, int], Register] = {}
        self._kept = 0
        if unseen is not None:
            # What is remembered for as long as ``unseen`` is in use must not hold it.
            self._table, (self._members, self._weights) = unseen.table, unseen.members
            self._n_unseen = min(round(float(unseen.expected_total)), MOST_DRAWN)
            self._rng = np.random.default_rng([unseen.seed, 29])

    @classmethod
    def of(cls, register: Register) -> Populations:
        """The populations of this register."""
        if register.unseen is None:
            return cls(register)
        known = _populations.get(register.unseen)
        if known is None:
            known = _populations[register.unseen] = cls(register)
        return known

    def listed(self, number: int, layout: Layout, order: Sequence[Placing] | None) -> Register:
        """One of them, with the members of each household in this order; None is the order of the layout."""
        while len(self._drawn) <= number:
            self._drawn.append(self._draw())
        register = self._drawn[number]
        if order is None:
            return register
        # Orders leave out more and more of the keys that place members, so their length tells them apart.
        place = number, len(order)
        if (listed := self._in_order.get(place)) is None:
            listed = _reordered(register, layout, order)
            # Beside the codes, a search for neighbours holds them sorted, and where each run of equal ones ends.
            size = 4 * listed.known.table.cells.nbytes
            if self._kept + size <= MOST_KEPT:
                self._in_order[place] = listed
                self._kept += size
        return listed

    def _draw(self) -> Register:
        share = (len(self._drawn) + 0.5) / N_POPULATIONS * self._weights.sum()
        member = self._members[int(np.searchsorted(np.cumsum(self._weights), share))]
        further = member.sample(self._n_unseen, self._rng)
        cells = np.concatenate([self._table.cells, further])
        counts = np.concatenate([self._table.counts, np.ones(len(further), dtype=np.int64)])
        return Register.counted(ContingencyTable.from_counts(cells, counts, self._table.categories))


_populations: WeakKeyDictionary[Unseen, Populations] = WeakKeyDictionary()


# ---------------------------------------------------------------------- without the household number


MOST_PAIRS = 20_000
"""With more households of two or more, a random part of them is tried."""

PAIRS_AT_ONCE = 4_000_000
"""Number of pairs of records that are compared at a time."""


@dataclass(frozen=True)
class GuessedPairs:
    """First and second members of households that somebody tries to put together without a household number.

    Attributes
    ----------
    tried : int
        Households of two or more members that were tried.
    right : float
        Those whose second member is the likeliest for the first, ties broken at random.
    by_chance : float
        The same if any second member with the same shared values were chosen.
    """

    tried: int
    right: float
    by_chance: float

    @property
    def sentence(self) -> str:
        if not self.tried:
            return ""
        return (
            f"Somebody who knows which people live together in general, and joins each householder with the likeliest second member, would "
            f"be right for about {self.right:,.0f} of {self.tried:,} households; choosing at random, for {self.by_chance:,.0f}."
        )


def guessed_pairs(codes: NDArray[np.int32], at: NDArray[np.int64], shared: Sequence[int] = ()) -> GuessedPairs:
    """Put first and second members together by what is plausible.

    The intruder is given more than anybody has: who is a first and who a second member, and how often each pair of values occurs
    between them, column by column. A pair is as likely as the product over columns of how much more often its two values live
    together than by chance; values that all members of a household share must agree.

    Parameters
    ----------
    codes : ndarray of int
        The released columns of each record.
    at : ndarray of int
        Record at the first and second place of each household, −1 where there is none.
    shared : sequence of int
        Columns that all members of a household share.
    """
    pairs = at[(at[:, 0] >= 0) & (at[:, 1] >= 0), :2]
    rng = np.random.default_rng(0)
    if len(pairs) > MOST_PAIRS:
        pairs = pairs[np.sort(rng.choice(len(pairs), MOST_PAIRS, replace=False))]
    first, second = codes[pairs[:, 0]], codes[pairs[:, 1]]
    n = len(pairs)
    if not n:
        return GuessedPairs(0, 0.0, 0.0)
    lifts = []
    for k in range(codes.shape[1]):
        if k in shared:
            continue
        n_levels = int(codes[:, k].max()) + 1
        joint = np.bincount(first[:, k].astype(np.int64) * n_levels + second[:, k], minlength=n_levels**2).reshape(
            n_levels, n_levels
        )
        by_chance = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0) / n
        lifts.append((k, np.log((joint + 0.5) / (by_chance + 0.5))))
    block = (
        np.unique(first[:, list(shared)], axis=0, return_inverse=True)[1].ravel() if len(shared) else np.zeros(n, dtype=np.int64)
    )
    right = by_luck = 0.0
    for number in range(int(block.max()) + 1):
        those = np.flatnonzero(block == number)
        by_luck += 1.0
        step = max(1, PAIRS_AT_ONCE // len(those))
        for start in range(0, len(those), step):
            mine = those[start : start + step]
            score = np.zeros((len(mine), len(those)))
            for k, lift in lifts:
                score += lift[first[mine, k]][:, second[those, k]]
            best = score.max(axis=1)
            own = score[np.arange(len(mine)), np.arange(start, start + len(mine))]
            is_best = own >= best - 1e-9
            n_ties = (score >= best[:, None] - 1e-9).sum(axis=1)
            right += float((is_best / n_ties).sum())
    return GuessedPairs(n, right, by_luck)
