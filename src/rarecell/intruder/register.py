"""What does an intruder compare the released file with?

A register is a list of people by their key values. A real one is counted. Without one, the sampled people are known (they are
somewhere in the population), and the model says how many others each cell holds: Poisson numbers whose rates are uncertain.
Both are a list of known people with, possibly, unseen ones in addition, so every intruder treats them alike.

The unseen are handled network by network and draw by draw. Averaging networks first, or plugging in posterior means,
understates what is found: whether a record is found depends on whether a single person is nearer, and a mean always puts a
fraction of a person nearer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import hashing
from rarecell._kernels import neighbours as kernels
from rarecell._kernels.counting import collapse_records
from rarecell._kernels.distance import Nearness, distances
from rarecell._kernels.neighbours import Patterns
from rarecell.machine.threads import n_cores, on_all_cores
from rarecell.model.protocol import CellModel, Uncertainty
from rarecell.release.release import Release
from rarecell.risk.records import RecordRisk
from rarecell.table.contingency import ContingencyTable
from rarecell.table.marginals import LARGEST_KEY

# Who is nearest to a record, among the people of a register or the records of a file?
#
# People are known by cell: how many there are with each combination of key values. The distance is a sum over the keys, in which
# an unordered key counts 1 if it differs and an ordered one counts its difference, times a weight. How an intruder weighs a year of
# age against a different marital status is unknown, so a family of distances is tried (:func:`rarecell.table.distance.yardsticks`).


Cells = NDArray[np.int32]

MOST_CELLS = 16_000
"""Largest number of cells around a record that are examined; beyond it only the nearest, which overstates what is found."""

CELLS_TO_PLAN = 4_000
"""The same for plans, which weigh many releases, and for rows of households, around which there are far more cells in any case."""

_OTHERWISE = 1_000_003
"""Step from the seed of some draws to that of others."""

_WORTH_A_THREAD = 64
_NO_MASKS = np.zeros(0, dtype=np.uint64)
_NO_COSTS = np.zeros(0)

NO_PATTERNS = Patterns(_NO_MASKS, _NO_COSTS, _NO_COSTS, _NO_COSTS)
"""Only the distance counts."""


class Others(NamedTuple):
    """For each point: number of people nearer than its bound (0 if none, otherwise any positive number), and at the bound."""

    n_nearer: NDArray[np.int64]
    n_tied: NDArray[np.int64]


class Ball(NamedTuple):
    """Cells within the bound of each point: the point they belong to, their codes, and their distances."""

    owner: NDArray[np.int64]
    cells: Cells
    cost: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Persons:
    """Number of people with each combination of key values.

    Attributes
    ----------
    table : ContingencyTable
        Their cells and counts.
    """

    table: ContingencyTable

    def with_counts(self, counts: NDArray[np.int64]) -> Persons:
        """The same cells with other numbers of people, none of them zero."""
        persons = Persons(replace(self.table, counts=counts))
        occupied, order = self._sorted
        # Sorting is most of the work, and the cells are unchanged.
        persons.__dict__["_sorted"] = (occupied._replace(counts=counts[order]), order)
        return persons

    @cached_property
    def _key_order(self) -> NDArray[np.int64]:
        # Keys with few levels come first, so that runs of cells that are too far away are long.
        return np.argsort([c.n_levels for c in self.table.categories], kind="stable")

    @cached_property
    def _sorted(self) -> tuple[kernels.Occupied, NDArray[np.int64]]:
        codes = np.ascontiguousarray(self.table.cells[:, self._key_order])
        order = np.lexsort(codes.T[::-1])
        codes = np.ascontiguousarray(codes[order])
        skip = np.empty(codes.shape, dtype=np.int64)
        kernels.skips(codes, skip)
        return kernels.Occupied(codes, self.table.counts[order], skip), order

    def _arranged(self, near: Nearness) -> Nearness:
        keys = self._key_order
        return Nearness(near.kind[keys], near.start[keys], near.n_levels[keys], near.place, near.weight[keys])

    def _arranged_patterns(self, patterns: Patterns) -> Patterns:
        """Masks over the keys in the sorted order used here, and costs of cells in that order."""
        if not len(patterns.mask):
            return patterns
        masks = np.zeros(len(patterns.mask), dtype=np.uint64)
        for place, key in enumerate(self._key_order.tolist()):
            masks |= (patterns.mask >> np.uint64(key) & np.uint64(1)) << np.uint64(place)
        by_mask, by_cell = np.argsort(masks), self._sorted[1]
        return Patterns(masks[by_mask], patterns.cost[by_mask], patterns.stayed[by_cell], patterns.moved[by_cell])

    def around(self, near: Nearness, link: NDArray[np.float64]) -> kernels.Around:
        """What a planner needs in order to see whether somebody else is nearer to a record than its own person."""
        return kernels.Around(self._sorted[0], self._arranged(near), self._key_order.astype(np.int64), link)

    @cached_property
    def _hashed(self) -> hashing.HashedCells:
        return hashing.HashedCells.of(self.table.cells, self.table.counts, [c.n_levels for c in self.table.categories])

    def count_at(self, cells: Cells) -> NDArray[np.int64]:
        """Number of people in each of these cells."""
        if self.table.n_formal_cells < LARGEST_KEY:
            position = self.table.marginals.positions(self.table.all_keys, cells)
        else:
            # Rows of households have too many columns to be numbered. Sorting them anew for every question took most of the time.
            position = hashing.find_cells(self._hashed, self._hashed.of_rows(cells))
        return np.where(position >= 0, self.table.counts[position], 0)

    def others(self, points: Cells, bounds: NDArray[np.float64], near: Nearness, patterns: Patterns = NO_PATTERNS) -> Others:
        """Number of people nearer to each point than its bound, and number exactly at the bound."""
        occupied = self._sorted[0]
        arranged, arranged_patterns = self._arranged(near), self._arranged_patterns(patterns)
        codes = np.ascontiguousarray(points[:, self._key_order])
        others = Others(np.zeros(len(points), dtype=np.int64), np.zeros(len(points), dtype=np.int64))

        def work(rows: tuple[int, int]) -> None:
            kernels.count_others(occupied, arranged, arranged_patterns, codes, bounds, rows, *others)

        _in_parts(work, len(points))
        return others

    def nearest(self, points: Cells, near: Nearness) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """For each point, the distance of the nearest people who are not at the point itself, and their number."""
        occupied, arranged = self._sorted[0], self._arranged(near)
        codes = np.ascontiguousarray(points[:, self._key_order])
        least, number = np.zeros(len(points)), np.zeros(len(points), dtype=np.int64)

        def work(rows: tuple[int, int]) -> None:
            kernels.nearest_others(occupied, arranged, codes, rows, least, number)

        _in_parts(work, len(points))
        return least, number

    def ball(
        self,
        points: Cells,
        bounds: NDArray[np.float64],
        near: Nearness,
        patterns: Patterns = NO_PATTERNS,
        *,
        most_cells: int = MOST_CELLS,
    ) -> tuple[Ball, NDArray[np.bool_]]:
        """All combinations of values within the bound of each point, whether or not anybody has them.

        Also whether a point's list was cut short, because more than ``most_cells`` are within its bound.
        """
        keys = self._key_order
        arranged, arranged_patterns = self._arranged(near), self._arranged_patterns(patterns)
        codes = np.ascontiguousarray(points[:, keys])
        room, costs, ends = np.empty((most_cells, len(keys)), np.int32), np.empty(most_cells), np.empty(len(points), np.int64)
        cells, distance = [np.zeros((0, len(keys)), dtype=np.int32)], [np.zeros(0)]
        back, within = np.argsort(keys), bounds.copy()
        first = 0
        while first < len(points):
            last = kernels.balls(arranged, arranged_patterns, codes, within, first, room, costs, ends)
            if last == first:
                # There are too many cells: only nearer ones are listed.
                within[first] *= 0.8
                continue
            n_found = int(ends[last - 1])
            cells.append(room[:n_found, back])
            distance.append(costs[:n_found].copy())
            ends[first:last] = np.diff(ends[first:last], prepend=0)
            first = last
        return Ball(np.repeat(np.arange(len(points)), ends), np.concatenate(cells), np.concatenate(distance)), within < bounds


def _in_parts(work: Callable[[tuple[int, int]], None], n_points: int) -> None:
    """Let threads take a range of points each."""
    n_parts = max(1, min(4 * n_cores(), n_points // _WORTH_A_THREAD))
    limits = [n_points * part // n_parts for part in range(n_parts + 1)]
    on_all_cores(work, [(rows,) for rows in pairwise(limits)])


def distance_of(near: Nearness, first: Cells, second: Cells) -> NDArray[np.float64]:
    """Distance between two lists of cells, row by row."""
    codes = np.ascontiguousarray(np.concatenate([first, second]))
    pairs = np.stack([np.arange(len(first)), np.arange(len(first)) + len(first)], axis=1)
    everything = np.full(len(first), np.iinfo(np.uint64).max, dtype=np.uint64)
    return np.asarray(distances(near, codes, pairs, everything))


Floats = NDArray[np.float64]
CLASSES = np.array([1.5, 3.5, 9.5, 99.5])
"""Upper ends of the classes of population counts: one person, two or three, four to nine, 10 to 99, and more."""

TINY = float(np.finfo(np.float64).tiny)

N_DRAWS, ENOUGH_DRAWS = 8, 48
"""Number of draws of the parameters of each network, and of all networks together: where there are many, fewer are drawn of each.

With 48 draws in all, totals of the census sample and of adult change by 0.03 % from seed to seed."""


MOST_PEOPLE = 2_000_000
"""Largest number of people drawn for one register."""


@dataclass(frozen=True, eq=False)
class Unseen:
    """The people outside the sample, as far as a model knows them.

    Attributes
    ----------
    table : ContingencyTable
        The table of the sample.
    model : CellModel
        The source of cell probabilities.
    per_probability : ndarray
        Expected number of unseen people in each occupied cell, divided by the probability of the cell.
    elsewhere : float
        The same ratio for cells without records.
    n_draws : int or None
        Number of draws of the parameters of each member of the model; by default as many as are enough.
    seed : int
        Seed of the draws.
    most_cells : int
        Largest number of cells around a record that are asked.
    model_error : float
        Relative error of the number of population uniques to which the file itself points
        (:func:`~rarecell.risk.interval.model_error`); that of links is half as large.
    """

    table: ContingencyTable
    model: CellModel
    per_probability: Floats
    elsewhere: float
    n_draws: int | None = None
    seed: int = 0
    most_cells: int = MOST_CELLS
    model_error: float = 0.0

    @property
    def members(self) -> tuple[Sequence[CellModel], Floats]:
        """The models that are averaged, and their weights."""
        if not self.model.members:
            return (self.model,), np.ones(1)
        return self.model.members, self.model.weights

    @property
    def has_posterior(self) -> bool:
        """Whether the model also says how sure it is about empty cells."""
        return all(member.uncertainty is Uncertainty.FULL for member in self.members[0])

    @property
    def expected_total(self) -> float:
        """Expected number of all unseen people."""
        return float(np.average(self.per_probability, weights=self.table.counts))

    def expected(self, cells: Cells) -> Floats:
        """Expected number of unseen people in each cell."""
        return np.asarray(np.exp(self.model.log_cell_probability(cells)) * self._factor(cells))

    def rates(self, cells: Cells, *, n_draws: int | None = None, most_members: int | None = None) -> tuple[Floats, Floats]:
        """Draws of the expected number of unseen people in each cell, one row for each draw, and the weight of each draw.

        There are ``n_draws`` draws of each member, by default :attr:`n_draws`. ``most_members`` limits them to the first members,
        for a plan that weighs many candidates and reports nothing.
        """
        members, weights = self.members
        members, weights = members[:most_members], weights[:most_members] / weights[:most_members].sum()
        n_each = n_draws or self.n_draws or min(N_DRAWS, -(-ENOUGH_DRAWS // len(members)))

        def drawn(member: CellModel, rng: np.random.Generator) -> Floats:
            if member.uncertainty is Uncertainty.NONE:
                return member.log_cell_probability(cells)[None, :]
            return member.draws(cells, n_each, rng)

        generators = np.random.default_rng(self.seed).spawn(len(members))
        asked = [place for place, weight in enumerate(weights.tolist()) if weight > 0.0]
        log_probability = on_all_cores(drawn, [(members[place], generators[place]) for place in asked])
        share = [np.full(len(log_p), weights[place] / len(log_p)) for place, log_p in zip(asked, log_probability, strict=True)]
        return np.asarray(np.exp(np.concatenate(log_probability)) * self._factor(cells)), np.concatenate(share)

    def _factor(self, cells: Cells) -> Floats:
        position = self.table.marginals.positions(self.table.all_keys, cells)
        return np.where(position >= 0, self.per_probability[position], self.elsewhere)


@dataclass(frozen=True, eq=False)
class Register:
    """Known people, and unseen ones in addition unless the register is real.

    Attributes
    ----------
    known : Persons
        Known people by cell.
    unseen : Unseen or None
        Further people, as far as a model knows; None if everybody is known.
    risk : RecordRisk or None
        The risk of the sample under that model, which gives E(1/F) of a record that stayed where it was.
    place : tuple of ndarray of int, or None
        For each key, the register's code of each level of the file; None if the register has the levels of the file.
    """

    known: Persons
    unseen: Unseen | None = None
    risk: RecordRisk | None = None
    place: tuple[NDArray[np.int32], ...] | None = None

    @classmethod
    def counted(cls, table: ContingencyTable, place: tuple[NDArray[np.int32], ...] | None = None) -> Register:
        """A real register, from the number of people in each cell; ``place`` as above if it has further levels."""
        is_alike = place is None or all(
            len(of_key) == c.n_levels and (of_key == np.arange(c.n_levels)).all()
            for of_key, c in zip(place, table.categories, strict=True)
        )
        return cls(Persons(table), place=None if is_alike else place)

    @classmethod
    def modelled(
        cls,
        risk: RecordRisk,
        model: CellModel,
        *,
        n_draws: int | None = None,
        most_cells: int = MOST_CELLS,
        seed: int = 0,
        model_error: float = 0.0,
    ) -> Register:
        """What a model of the sample knows about the population."""
        design, table = risk.design, risk.table
        per_probability = design.n_unseen * np.exp(design.log_scale)
        elsewhere = float(np.average(per_probability, weights=table.counts))
        unseen = Unseen(table, model, per_probability, elsewhere, n_draws, seed, most_cells, model_error)
        return cls(Persons(table), unseen, risk)

    def seen(self, release: Release) -> Release:
        """A release expressed in the levels of the register."""
        return release if self.place is None else release.with_levels(self.known.table.categories, self.place)

    def within(self, table: ContingencyTable) -> Register:
        """The people whose values occur in the file, in its levels: all that a plan needs to know."""
        if self.place is None:
            return self
        cells = np.array(self.known.table.cells)
        for k, of_key in enumerate(self.place):
            back = np.full(self.known.table.categories[k].n_levels, -1, dtype=np.int32)
            back[of_key] = np.arange(len(of_key), dtype=np.int32)
            cells[:, k] = back[cells[:, k]]
        known = (cells >= 0).all(axis=1)
        return Register.counted(ContingencyTable.from_counts(cells[known], self.known.table.counts[known], table.categories))

    def drawn_otherwise(self) -> Register:
        """The same people by other draws, for a choice whose outcome is told by these; a real register is counted either way."""
        if self.unseen is None:
            return self
        return replace(self, unseen=replace(self.unseen, seed=self.unseen.seed + _OTHERWISE))

    @cached_property
    def is_real(self) -> bool:
        return self.unseen is None

    def population_count(self, cells: Cells) -> Floats:
        """Number of people in each cell; the expected number where not everybody is known."""
        known = self.known.count_at(cells).astype(np.float64)
        return known if self.unseen is None else known + self.unseen.expected(cells)

    def drawn(self, draw: int, n_draws: int) -> Register:
        """One of ``n_draws`` registers that the model considers possible, with the numbers in the cells of the file drawn.

        Elsewhere there may be unseen people, as before.
        """
        assert self.unseen is not None
        members, weights = self.unseen.members
        # The members of an average take turns in proportion to their weights.
        member = members[int(np.searchsorted(np.cumsum(weights), (draw + 0.5) / n_draws * weights.sum()))]
        unseen = replace(self.unseen, model=member, n_draws=1, seed=self.unseen.seed + 1_000 * (draw + 1))
        rates = unseen.rates(self.known.table.cells)[0][0]
        rng = np.random.default_rng([self.unseen.seed, draw, 17])
        counts = self.known.table.counts + rng.poisson(np.minimum(rates, 1e15))
        elsewhere = replace(unseen, per_probability=np.zeros_like(unseen.per_probability), n_draws=self.unseen.n_draws)
        return Register(self.known.with_counts(counts), elsewhere)

    def drawn_people(self, draw: int, n_draws: int) -> ContingencyTable:
        """One of ``n_draws`` whole registers that the model considers possible.

        1. Numbers in the cells of the file are drawn as in :meth:`drawn`.
        2. Elsewhere, people are drawn from one network. Its mean rates μ put single persons into too many cells: a cell is occupied with
           probability E(1−exp(−λ)) over draws of its rate, which is less than 1−exp(−μ). So some of the cells found are emptied
           again, and the rest hold more people, μ on average as before.

        At most :data:`MOST_PEOPLE` are drawn; where there are more, rare cells are missing, and more is found than is true.
        """
        assert self.unseen is not None
        drawn = self.drawn(draw, n_draws)
        assert drawn.unseen is not None
        network, rng = drawn.unseen.model, np.random.default_rng([self.unseen.seed, draw, 29])
        everybody = self.unseen.elsewhere
        n_people = min(round(everybody), MOST_PEOPLE)
        if not n_people:
            # The file is the whole population.
            return drawn.known.table
        people = ContingencyTable.from_counts(*network.sample_counts(n_people, rng), self.known.table.categories)
        elsewhere = np.flatnonzero(self.known.count_at(people.cells) == 0)
        cells, counts = people.cells[elsewhere], people.counts[elsewhere] * (everybody / max(n_people, 1))
        rates, weight = replace(drawn.unseen, n_draws=4, elsewhere=float(n_people)).rates(cells)
        mean, occupied = weight @ rates, weight @ -np.expm1(-rates)
        stays = rng.random(len(cells)) * -np.expm1(-mean) <= occupied
        more = np.maximum(mean / np.maximum(occupied, TINY) + mean / np.expm1(-np.maximum(mean, 1e-12)), 0.0)
        counts = np.maximum(np.round(counts + rng.poisson(np.minimum(more, 1e15))), 1.0).astype(np.int64)
        table = drawn.known.table
        return ContingencyTable.from_counts(
            np.concatenate([table.cells, cells[stays]]), np.concatenate([table.counts, counts[stays]]), table.categories
        )

    def class_probability(self, cells: Cells) -> Floats:
        """For each cell, the probabilities that its number of people is in each of :data:`CLASSES`, given at least one."""
        count = self.known.count_at(cells)
        probability = np.eye(len(CLASSES) + 1)[np.searchsorted(CLASSES, np.maximum(count, 1))]
        empty = np.flatnonzero(count == 0)
        if self.unseen is None or not len(empty):
            return np.asarray(probability)
        distinct, _, which = collapse_records(cells[empty], [c.n_levels for c in self.unseen.table.categories])
        mean = self.unseen.expected(distinct)[:, None]
        at_most = _one_to_ends(mean) / np.maximum(-np.expm1(-mean), TINY)
        ends = np.zeros_like(mean), np.clip(at_most, 0.0, 1.0), np.ones_like(mean)
        probability[empty] = np.diff(np.concatenate(ends, axis=1), axis=1)[which]
        return np.asarray(probability)

    def own_cell(self, cells: Cells) -> tuple[Floats, Floats]:
        """For a person in each cell with unchanged values: P(a guess within the cell is right) and P(nobody else is there)."""
        n_known = self.known.count_at(cells)
        if self.risk is None:
            link = np.divide(1.0, n_known, out=np.zeros(len(cells)), where=n_known > 0)
            return link, (n_known == 1).astype(np.float64)
        position = self.risk.table.marginals.positions(self.risk.table.all_keys, cells)
        return self.risk.match_probability[position], self.risk.unique_probability[position]


def ball_sums(owner: NDArray[np.int64], column: NDArray[np.int64], shape: tuple[int, int], rates: Floats) -> Floats:
    """Sums of ``rates`` (one row for each draw) over the columns that belong to each owner."""
    return np.array([np.bincount(owner, row[column], shape[0]) for row in rates])


_SETTLED_AFTER = (9, 18, 36)
"""After so many terms, cells whose sum no further term can change are left alone."""


def _one_to_ends(mean: Floats) -> Floats:
    """For Poisson variables with the means of a column, the probabilities of a number from one to the end of each class."""
    ends = np.floor(CLASSES).astype(int).tolist()
    at_ends, live, mean = np.empty((len(mean), len(ends))), np.arange(len(mean)), mean[:, 0]
    term, total = np.exp(-mean), np.zeros(len(mean))
    for number in range(1, ends[-1] + 1):
        term *= mean
        term /= number
        total += term
        if number in ends:
            at_ends[live, ends.index(number)] = total
        if number in _SETTLED_AFTER:
            at_ends[live, -1] = total
            # Beyond the mean every term is smaller than the one before.
            still = np.flatnonzero((total + term != total) | (mean >= number))
            live, mean, term, total = live[still], mean[still], term[still], total[still]
    return at_ends
