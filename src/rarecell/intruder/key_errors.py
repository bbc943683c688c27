"""What is found if the values of file and register do not always agree?

People misstate their age, registers are out of date, jobs are coded twice in two ways. Each value of a person then differs between
file and register with a probability that the user gives, for each key, independently. An exact link needs all values of the
person to agree; a nearest one may still be right, if nobody else is nearer.

The other people of the register have errors, too. Some with the values of a record have left its cell, others have entered it:

    λ'(c) = Σ over cells c' of λ(c') · Π over keys of P(value of c' is registered as that of c).

What a wrong value is, nobody says, so it is taken to be the one that helps the intruder: the next one up or down if the key is ordered.
Values of other keys are all equally far away; wrong ones are as common as in the file. Registers with such errors are drawn, as far as people
are known; rates of unseen people are summed over the cells that they can have come from, of which some are drawn.

References
----------
Skinner, C. and Shlomo, N. (2010). Assessing disclosure risk in the presence of misclassification. Journal of Official Statistics 26.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rarecell.choices import EVERY_KEY
from rarecell.errors import BadInput, UnknownColumns
from rarecell.intruder.links import Chances, Links, ModelError, added, interval_of
from rarecell.intruder.nearest import chances_in_own_cell, model_error, moved_chances
from rarecell.intruder.register import Cells, Persons, Register, Unseen
from rarecell.outcome.words import percent
from rarecell.release.release import Claims, Release
from rarecell.table.contingency import ContingencyTable
from rarecell.table.distance import Distances, yardsticks

Floats = NDArray[np.float64]

N_REGISTERS = 4
"""Number of registers with errors that are drawn."""

N_ORIGINS = 3
"""Number of cells drawn from which unseen people came into a cell by an error."""

N_DRAWS = 2
"""Number of draws of the parameters of each network, in each register."""

N_MEMBERS = 6
"""Number of networks of the model that are drawn from."""

MOST_STRAYS = 60
"""If more people than this, swapped or not, are registered elsewhere, a random part of them is looked for and represents all."""


def shares_of_keys(given: Mapping[str, float], keys: Sequence[str]) -> Floats | None:
    """The share of wrong values of each key, given by name or for all that are not named; None if no value is wrong.

    Examples
    --------
    >>> shares_of_keys({"*": 0.05, "sex": 0.01}, ["age", "sex"]).tolist()
    [0.05, 0.01]
    """
    unknown = [name for name in given if name != EVERY_KEY and name not in keys]
    if unknown:
        raise UnknownColumns.among(unknown, list(keys), role="key of --key-error")
    shares = np.array([given.get(key, given.get(EVERY_KEY, 0.0)) for key in keys], dtype=np.float64)
    # What is not a number is neither below 0 nor above 1.
    if not ((shares >= 0.0) & (shares < 1.0)).all():
        raise BadInput("A share of --key-error must be at least 0 and less than 1, such as 0.05 for one value in twenty.")
    return shares if shares.any() else None


@dataclass(frozen=True, eq=False)
class KeyErrors:
    """How values of a register differ from those of a file.

    Attributes
    ----------
    table : ContingencyTable
        The file: how common its values are, and which keys are ordered.
    shares : ndarray
        Share of wrong values, for each key.
    """

    table: ContingencyTable
    shares: Floats

    @property
    def right(self) -> float:
        """Probability that all values of a person are right."""
        return float(np.prod(1.0 - self.shares))

    @cached_property
    def _common(self) -> tuple[Floats, ...]:
        """Share of each level of each key in the file."""
        table = self.table
        counts = (
            np.bincount(table.cells[:, k], weights=table.counts, minlength=of_key.n_levels)
            for k, of_key in enumerate(table.categories)
        )
        return tuple((n + 1e-9) / (n + 1e-9).sum() for n in counts)

    def chance(self, key: int, value: NDArray[np.int32], other: NDArray[np.int32]) -> Floats:
        """Probability that a wrong value is registered as a given other one, for each pair of values of a key."""
        n_ordered, common = self._n_ordered(key), self._common[key]
        is_end = (value == 0) | (value == n_ordered - 1)
        stepped = np.where(np.abs(value - other) == 1, np.where(is_end, 1.0, 0.5), 0.0) * (other < n_ordered)
        drawn = np.where(value == other, 0.0, common[other] / np.maximum(1.0 - common[value], 1e-300))
        return np.where((value < n_ordered) & (n_ordered > 1), stepped, drawn)

    def registered(self, cells: Cells, rng: np.random.Generator, *, is_wrong: NDArray[np.bool_] | None = None) -> Cells:
        """The values under which people with these values are registered; ``is_wrong`` says which, if that is not drawn."""
        if is_wrong is None:
            is_wrong = rng.random(cells.shape) < self.shares
        with_errors = np.array(cells)
        for k, of_key in enumerate(self.table.categories):
            rows = np.flatnonzero(is_wrong[:, k])
            if len(rows) and of_key.n_levels > 1:
                with_errors[rows, k] = self._wrong(k, cells[rows, k], rng)
        return with_errors

    def _wrong(self, key: int, value: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int32]:
        n_ordered, common = self._n_ordered(key), self._common[key]
        step = np.where(rng.random(len(value)) < 0.5, -1, 1)
        stepped = value + np.where(value == 0, 1, np.where(value == n_ordered - 1, -1, step))
        # A draw by the shares of the other values: those from the own value on are moved up by its share.
        ends = np.cumsum(common)
        place = rng.random(len(value)) * (ends[-1] - common[value])
        place += np.where(place >= ends[value] - common[value], common[value], 0.0)
        drawn = np.minimum(np.searchsorted(ends, place, side="right"), len(common) - 1)
        return np.where((value < n_ordered) & (n_ordered > 1), stepped, drawn).astype(np.int32)

    def _n_ordered(self, key: int) -> int:
        """Number of levels of a key that have neighbours."""
        of_key = self.table.categories[key]
        return of_key.n_levels - of_key.has_missing if of_key.is_ordered else 0

    def origins(self, cells: Cells, rng: np.random.Generator) -> tuple[Cells, Floats]:
        """Cells from which people may have come into these by an error, and the factor by which each stands for all of them.

        At least one value is wrong. Origins are drawn as if the errors ran backwards; the factor makes up for the difference.
        """
        # Given that some value is wrong, the first wrong key is k with a probability proportional to e_k·Π_{j<k}(1 − e_j).
        is_first = self.shares * np.concatenate([[1.0], np.cumprod(1.0 - self.shares)[:-1]])
        first = rng.choice(len(self.shares), len(cells), p=is_first / is_first.sum())[:, None]
        key = np.arange(len(self.shares))
        is_wrong = np.where(key > first, rng.random(cells.shape) < self.shares, key == first)
        origin = self.registered(cells, rng, is_wrong=is_wrong)
        factor = np.ones(len(cells))
        for k in range(cells.shape[1]):
            rows = np.flatnonzero(origin[:, k] != cells[:, k])
            before, after = origin[rows, k], cells[rows, k]
            factor[rows] *= self.chance(k, before, after) / self.chance(k, after, before)
        return origin, factor

    @property
    def words(self) -> str:
        """What is assumed, to follow a comma."""
        shares = dict(zip(self.table.keys, self.shares.tolist(), strict=True))
        if len(set(shares.values())) == 1:
            return f"in which {percent(self.shares[0])} of the values of each key differ from the file"
        each = ", ".join(f"{percent(share)} of {key}" for key, share in shares.items() if share)
        return f"in which some values differ from the file ({each})"


@dataclass(frozen=True, eq=False)
class UnseenWithErrors(Unseen):
    """People outside the sample, by the values under which they are registered."""

    errors: KeyErrors | None = None

    def rates(self, cells: Cells, *, n_draws: int | None = None, most_members: int | None = None) -> tuple[Floats, Floats]:
        """Draws of the expected number of unseen people registered in each cell, as in :meth:`Unseen.rates`."""
        assert self.errors is not None
        rng = np.random.default_rng([self.seed, 31])
        origins, factor = self.errors.origins(np.repeat(cells, N_ORIGINS, axis=0), rng)
        rates, weight = super().rates(np.concatenate([cells, origins]), n_draws=n_draws, most_members=most_members or N_MEMBERS)
        n_cells, right = len(cells), self.errors.right
        came = (rates[:, n_cells:] * factor).reshape(len(rates), n_cells, N_ORIGINS).mean(axis=2)
        return right * rates[:, :n_cells] + (1.0 - right) * came, weight


def links_with_errors(
    release: Release, register: Register, errors: KeyErrors, *, distances: Distances | None = None, seed: int = 0
) -> tuple[Links, Links]:
    """What the exact and the nearest intruder find if the register has errors.

    For each of several registers with errors:

    1. Draw under which values the known people are registered.
    2. The exact intruder is right about records whose person is registered under the released values, among all who are.
    3. The nearest intruder is right, too, where the person is registered elsewhere and nobody is nearer.
    """
    source = register.unseen
    assert source is not None, "a real register has its errors already"
    table, unmoved, moved = release.before, release.unmoved_cells, release.moved_claims
    cells = table.cells[unmoved]
    true, released = np.concatenate([cells, moved.true]), np.concatenate([cells, moved.released])
    rows = np.concatenate([release.unmoved_rows(), moved.row])
    is_moved = np.arange(len(rows)) >= len(unmoved)
    people = np.repeat(table.cells, table.counts, axis=0)
    own = _own_place(table, true)
    family = yardsticks(table, distances)
    exact, nearest = _Sum(len(rows)), [_Sum(len(rows)) for _ in family]
    for draw in range(N_REGISTERS):
        for total in (exact, *nearest):
            total.next_register()
        rng = np.random.default_rng([seed, draw, 29])
        registered = errors.registered(people, rng)
        unseen = UnseenWithErrors(
            source.table,
            source.model,
            source.per_probability,
            source.elsewhere,
            n_draws=N_DRAWS,
            seed=source.seed + 1_000 * (draw + 1),
            most_cells=source.most_cells,
            errors=errors,
        )
        known = Register(
            Persons(ContingencyTable.from_counts(registered, np.ones(len(people), np.int64), table.categories)), unseen
        )
        is_right = (registered[own] == released).all(axis=1)
        stays, strays = np.flatnonzero(is_right), np.flatnonzero(~is_right)
        own_cell = chances_in_own_cell(known, released[stays])
        for total in (exact, *nearest):
            total.add(stays, own_cell)
        for group in (strays[is_moved[strays]], strays[~is_moved[strays]]):
            part = group if len(group) <= MOST_STRAYS else rng.choice(group, MOST_STRAYS, replace=False)
            claims = Claims(rows[part], registered[own[part]], released[part])
            by_distance = moved_chances(claims, known, [yardstick.near for yardstick in family], np.ones(len(part), dtype=bool))
            for total, chances in zip(nearest, by_distance, strict=True):
                total.add(group, chances)
    worst = max(range(len(family)), key=lambda place: float(nearest[place].link.sum()))
    error = model_error(release, register)
    return (
        exact.links("exact", rows, is_moved, error, ""),
        nearest[worst].links("nearest", rows, is_moved, error, family[worst].name),
    )


def _own_place(table: ContingencyTable, true: Cells) -> NDArray[np.int64]:
    """For each claim, the place of its person among people listed cell by cell; no two claims share a person."""
    position = table.marginals.positions(table.all_keys, true).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(table.counts)[:-1]])
    order = np.argsort(position, kind="stable")
    sorted_position = position[order]
    start = np.concatenate([[True], sorted_position[1:] != sorted_position[:-1]]) if len(order) else np.zeros(0, dtype=bool)
    run = np.maximum.accumulate(np.where(start, np.arange(len(order)), 0)) if len(order) else order
    place = np.empty(len(order), dtype=np.int64)
    place[order] = first[sorted_position] + np.arange(len(order)) - run
    return place


class _Sum:
    """Chances of the same claims in several registers."""

    def __init__(self, n_claims: int) -> None:
        self.link, self.certain = np.zeros(n_claims), np.zeros(n_claims)
        self._drawn: list[Floats] = []

    def next_register(self) -> None:
        self._drawn.append(np.zeros(0))

    def add(self, rows: NDArray[np.int64], chances: Chances) -> None:
        """Add the chances of some claims; if they were tried for a part of them only, each has the mean of the part."""
        if not len(rows):
            return
        is_part = len(chances.link) < len(rows)
        self.link[rows] += chances.link.mean() if is_part else chances.link
        self.certain[rows] += chances.certain.mean() if is_part else chances.certain
        self._drawn[-1] = added(self._drawn[-1], chances.drawn * (len(rows) / len(chances.link)))

    def links(self, name: str, rows: NDArray[np.int64], is_moved: NDArray[np.bool_], error: ModelError, distance: str) -> Links:
        """The means over the registers."""
        link = self.link / N_REGISTERS
        interval = interval_of(float(link.sum()), np.concatenate(self._drawn), len(rows), error, 2)
        return Links(name, rows, link, self.certain / N_REGISTERS, is_moved, interval, distance)
