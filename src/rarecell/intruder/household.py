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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rarecell.intruder.links import Chances, Links, interval_of
from rarecell.intruder.nearest import exact_links, moved_chances, relative_error, unmoved_chances
from rarecell.intruder.register import Register
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
    everybody = [register] if register.unseen is None else list(_drawn_populations(register, len(seen.rows)))
    moved = _worst(seen, everybody, rows)
    link = np.concatenate([unmoved.link, moved.link[alone]])
    certain = np.concatenate([unmoved.certain, moved.certain[alone]])
    drawn = unmoved.drawn
    if len(drawn):
        rng = np.random.default_rng(0 if register.unseen is None else register.unseen.seed)
        drawn = drawn + rng.poisson(moved.link[alone].sum(), len(drawn))
    interval = interval_of(float(link.sum()), drawn, len(link), relative_error(seen, register), 1)
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
    known = register if register.unseen is None else next(_drawn_populations(register, len(seen.rows)))
    highest = np.max([chances.link for chances in _tried(seen, [known], rows)], axis=0)
    link[seen.rows] = np.where(seen.moved_alone, highest, 0.0)
    return link


def _worst(release: Release, registers: list[Register], rows: HouseholdRows) -> Chances:
    """Chances of the moved households, averaged over registers, in the way of comparing that finds the most."""
    alone = release.moved_alone
    if not len(release.rows):
        return Chances(np.zeros(0), np.zeros(0), np.zeros(0))
    return max(_tried(release, registers, rows), key=lambda chances: float(chances.link[alone].sum()))


def _tried(release: Release, registers: list[Register], rows: HouseholdRows) -> list[Chances]:
    """Chances of the moved households in every way of comparing, averaged over registers.

    Ways differ by the distance and by the order in which the members of a household are listed.
    """
    claims, table, alone = release.moved, release.before, release.moved_alone
    ways = [(claims, registers, table.categories)]
    # The keys have the levels of the register here, which may be more than those of the file.
    layout = rows.layout.with_levels(_levels_of_keys(rows.layout, table.categories))
    for order in layout.orders():
        listed = Claims(claims.row, layout.reordered(claims.true, order), layout.reordered(claims.released, order))
        others = [_reordered(register, layout, order) for register in registers]
        ways.append((listed, others, others[0].known.table.categories))
    tried = []
    for of_way, known, categories in ways:
        for distances in household_distances(categories):
            near = distances.arrays(known[0].known.table)
            by_register = [moved_chances(of_way, register, [near], alone)[0] for register in known]
            link = np.mean([chances.link for chances in by_register], axis=0)
            tried.append(Chances(link, np.mean([chances.certain for chances in by_register], axis=0), np.zeros(0)))
    return tried


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


def _drawn_populations(register: Register, n_moved: int) -> Iterator[Register]:
    """Registers that the model considers possible: the households of the file, and the unseen ones drawn from a member of the model."""
    unseen = register.unseen
    assert unseen is not None
    table, (members, weights) = unseen.table, unseen.members
    n_unseen = min(round(float(unseen.expected_total)), MOST_DRAWN)
    rng = np.random.default_rng([unseen.seed, 29])
    for draw in range(N_POPULATIONS if n_moved else 1):
        member = members[int(np.searchsorted(np.cumsum(weights), (draw + 0.5) / N_POPULATIONS * weights.sum()))]
        further = member.sample(n_unseen if n_moved else 0, rng)
        cells = np.concatenate([table.cells, further])
        counts = np.concatenate([table.counts, np.ones(len(further), dtype=np.int64)])
        yield Register.counted(ContingencyTable.from_counts(cells, counts, table.categories))


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


def guessed_pairs(codes: NDArray[np.int32], at: NDArray[np.int64], shared: Sequence[int] = (), *, seed: int = 0) -> GuessedPairs:
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
    rng = np.random.default_rng(seed)
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
