"""What does a file give away whose records belong to nobody, because it is synthetic or resampled?

No released record is anybody's, so no link can be right or wrong. What can be asked is whether the file says more about the people
it was made from than about others like them, who were left out: the *control group*. Three attacks of Giomi et al. (2023):

=============  =====================================================================================================
singling out   A condition that one record of the file meets is met by exactly one person.
linkability    Somebody holds two halves of a person's columns; both halves have the same nearest record in the file.
inference      The record nearest to what is known about a person has the right value of what is not known.
=============  =====================================================================================================

An attack succeeds on some of the people whom the file was made from, and on some of the control group. The risk is
(rate − control) / (1 − control): what is left of a success that general knowledge does not explain.

Beside them stand counts that others print: unique exact matches (NIST), replicated uniques and DiSCO (synthpop), TCAP, and how
often a record of the file is nearer to a person it was made from than to one of the control group, which is half the time if the
file copies nobody.

References
----------
Giomi, M., Boenisch, F., Wehmeyer, C. and Tasnádi, B. (2023). A unified framework for quantifying privacy risk in synthetic data.
Proceedings on Privacy Enhancing Technologies 2023(2).
Raab, G. M., Nowok, B. and Dibben, C. (2024). Practical privacy metrics for synthetic data. arXiv:2406.16826.
Taub, J., Elliot, M., Pampaka, M. and Smith, D. (2018). Differential correct attribution probability for synthetic data.
Privacy in Statistical Databases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import unpaired as kernels
from rarecell._kernels.counting import collapse_records
from rarecell.errors import BadInput
from rarecell.table.categories import Categories

Z95 = 1.959963984540054
"""Quantile of the normal distribution for intervals of 95 %."""

ATTACKS = 2_000
"""How often each attack is tried, unless fewer people are at hand."""

COLUMNS_IN_A_CONDITION = 3
"""How many columns a condition of several columns names, as in Giomi et al. (2023)."""

ROUNDING = 1e-9
"""Distances that differ by no more are equal."""

_TRIES = 40
"""Conditions are drawn at most this many times as often as they are needed; in some files few of them single anybody out."""

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class SuccessRate:
    """How often an attack succeeded.

    ``value`` is the centre of Wilson's interval and ``error`` half its width, at 95 %.
    """

    successes: int
    attempts: int

    @property
    def value(self) -> float:
        return (self.successes + Z95**2 / 2) / (self.attempts + Z95**2) if self.attempts else math.nan

    @property
    def error(self) -> float:
        if not self.attempts:
            return math.nan
        spread = self.successes * (self.attempts - self.successes) / self.attempts + Z95**2 / 4
        return Z95 * math.sqrt(spread) / (self.attempts + Z95**2)


@dataclass(frozen=True)
class UnpairedRisk:
    """The risk of one attack: what its success on the people of the file exceeds that on the control group by.

    Attributes
    ----------
    attack : str
        ``singling out``, ``linkability`` or ``inference``.
    columns : tuple of str
        What the attack is about: the column inferred, or the columns of the conditions; empty for all of them.
    people, control : SuccessRate
        Success on the people whom the file was made from, and on those left out.
    """

    attack: str
    columns: tuple[str, ...]
    people: SuccessRate
    control: SuccessRate

    @property
    def risk(self) -> float:
        """(rate − control) / (1 − control); not below 0, because an attack that does worse than chance is no protection."""
        return max(0.0, (self.people.value - self.control.value) / (1.0 - self.control.value))

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds of the risk at 95 %, from the errors of both rates."""
        left = 1.0 - self.control.value
        middle = (self.people.value - self.control.value) / left
        error = math.hypot(self.people.error / left, (1.0 - self.people.value) * self.control.error / left**2)
        return max(0.0, middle - error), min(1.0, max(0.0, middle + error))


@dataclass(frozen=True)
class Copies:
    """How much of the original stands in the file as it was.

    Attributes
    ----------
    unique_exact_matches : float
        Share of the people who are unique on all columns whose combination occurs in the file.
    replicated_uniques : float
        Share of all people who are unique on the keys and whose combination occurs once in the file.
    left_out_matches : float
        Share of the control group, without those whom a person of the original equals, whose combination occurs in the file. A file
        that copies nobody has as many unique exact matches. nan without a control group.
    nearer_to_people : float
        Share of records of the file that are nearer to a person it was made from than to one of an equally large control group,
        ties counted half; nan without a control group.
    """

    unique_exact_matches: float
    left_out_matches: float
    replicated_uniques: float
    nearer_to_people: float


@dataclass(frozen=True)
class Attribution:
    """What the file says about one column of somebody whose keys are known.

    Attributes
    ----------
    target : str
        The column.
    disco : float
        Share of people whose keys have a single value of the column in the file, which is theirs.
    tcap : float
        Share of right values among the records of the file whose keys have a single value of the column there and occur in the
        original; nan if there are none.
    """

    target: str
    disco: float
    tcap: float


@dataclass(frozen=True, eq=False)
class UnpairedFiles:
    """A file without pairs, the people it was made from, and a control group, all coded alike.

    Parameters
    ----------
    categories : sequence of Categories
        The columns; ordered ones are compared by rank.
    original, released, control : array of int
        Codes of the people whom the file was made from, of its records, and of people left out, a row each.
    """

    categories: tuple[Categories, ...]
    original: Codes
    released: Codes
    control: Codes

    def __post_init__(self) -> None:
        for name in ("original", "released", "control"):
            if getattr(self, name).shape[1:] != (len(self.categories),):
                raise BadInput(f"The {name} records must have {len(self.categories)} columns, those of the other files.")
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.int32))
        if not len(self.original) or not len(self.released):
            raise BadInput("An attack needs records in the original and in the released file.")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.key for column in self.categories)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(column.n_levels for column in self.categories)])[:-1].astype(np.int64)

    @cached_property
    def _places(self) -> NDArray[np.float64]:
        places = []
        for column in self.categories:
            n_real = column.n_levels - column.has_missing
            of_column = np.full(column.n_levels, np.nan)
            of_column[:n_real] = np.arange(n_real) / max(1, n_real - 1)
            places.append(of_column)
        return np.concatenate(places)

    @cached_property
    def _is_ordered(self) -> NDArray[np.bool_]:
        return np.array([column.is_ordered for column in self.categories])

    def nearest(self, targets: Codes, rows: Codes, columns: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return for each target its nearest row and the distance; of equally near rows the first."""
        nearest, least = kernels.nearest_rows(
            targets, rows, np.asarray(columns, dtype=np.int64), self._is_ordered, self._places, self._starts
        )
        return np.asarray(nearest), np.asarray(least)

    def _shuffled(self, rng: np.random.Generator) -> Codes:
        """The records of the file in another order, so that the first of equally near ones is any of them."""
        return np.ascontiguousarray(self.released[rng.permutation(len(self.released))])

    def _targets(self, rng: np.random.Generator, n_attacks: int) -> tuple[Codes, Codes]:
        """People to attack and as many of the control group."""
        n = min(n_attacks, len(self.original), len(self.control))
        if not n:
            raise BadInput(
                "Without a control group of people who were left out, it cannot be told what the file itself gives away."
            )
        people = rng.choice(len(self.original), n, replace=False)
        control = rng.choice(len(self.control), n, replace=False)
        return np.ascontiguousarray(self.original[people]), np.ascontiguousarray(self.control[control])

    # ------------------------------------------------------------------ attacks

    def singling_out(
        self, rng: np.random.Generator, *, n_columns: int = COLUMNS_IN_A_CONDITION, n_attacks: int = ATTACKS
    ) -> UnpairedRisk:
        """Draw conditions that single out a record of the file, and count those that single out a person.

        A condition takes the values of a random record in ``n_columns`` random columns: equality, or for ordered columns at least
        or at most the value, whichever side of the median it lies on. Conditions are tried on as many people as there are in the
        control group, because a condition singles out nobody in a larger crowd.
        """
        n_columns = min(n_columns, len(self.categories))
        predicates = self._conditions(rng, n_columns, n_attacks)
        n = min(len(self.original), len(self.control))
        if not n:
            raise BadInput(
                "Without a control group of people who were left out, it cannot be told what the file itself gives away."
            )
        groups = (self.original[rng.permutation(len(self.original))[:n]], self.control[rng.permutation(len(self.control))[:n]])
        rates = [
            SuccessRate(
                int((kernels.count_matches(np.ascontiguousarray(group), *predicates) == 1).sum()), len(predicates[-1]) - 1
            )
            for group in groups
        ]
        return UnpairedRisk("singling out", () if n_columns > 1 else ("one column",), rates[0], rates[1])

    def _conditions(
        self, rng: np.random.Generator, n_columns: int, n_attacks: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Conditions that exactly one record of the file meets, as :func:`rarecell._kernels.unpaired.count_matches` takes them."""
        records = np.ascontiguousarray(self.released)
        medians = np.median(records, axis=0)
        met: dict[tuple[tuple[int, int, int], ...], None] = {}
        for _ in range(_TRIES):
            drawn = []
            for record in records[rng.integers(0, len(records), n_attacks)]:
                columns = np.sort(rng.permutation(len(self.categories))[:n_columns])
                drawn.append(tuple((int(c), self._sign(c, record[c], medians[c]), int(record[c])) for c in columns))
            fresh = [condition for condition in dict.fromkeys(drawn) if condition not in met]
            if fresh:
                arrays = _as_arrays(fresh)
                singles = np.flatnonzero(kernels.count_matches(records, *arrays) == 1)
                met.update(dict.fromkeys(fresh[place] for place in singles.tolist()))
            if len(met) >= n_attacks:
                break
        return _as_arrays(list(met)[:n_attacks])

    def _sign(self, column: int, code: int, median: float) -> int:
        categories = self.categories[column]
        is_missing = categories.has_missing and code == categories.n_levels - 1
        if not categories.is_ordered or is_missing:
            return 0
        return 1 if code >= median else -1

    def linkability(
        self, rng: np.random.Generator, halves: tuple[Sequence[str], Sequence[str]] | None = None, *, n_attacks: int = ATTACKS
    ) -> UnpairedRisk:
        """Count the people both halves of whose columns have the same nearest record; every other column by default."""
        names = self.names
        first, second = halves or (names[::2], names[1::2])
        if not first or not second:
            raise BadInput("Linkability needs columns for both halves.")
        sides = [[names.index(name) for name in half] for half in (first, second)]
        records = self._shuffled(rng)
        rates = []
        for group in self._targets(rng, n_attacks):
            nearest_by_first, nearest_by_second = (self.nearest(group, records, side)[0] for side in sides)
            rates.append(SuccessRate(int((nearest_by_first == nearest_by_second).sum()), len(group)))
        return UnpairedRisk("linkability", (), rates[0], rates[1])

    def inference(self, rng: np.random.Generator, target: str, *, n_attacks: int = ATTACKS) -> UnpairedRisk:
        """Guess a column of people from the record nearest to them in all the others."""
        secret = self.names.index(target)
        known = [c for c in range(len(self.names)) if c != secret]
        if not known:
            raise BadInput(f"'{target}' is the only column, so there is nothing to infer it from.")
        records = self._shuffled(rng)
        rates = []
        for group in self._targets(rng, n_attacks):
            nearest, _ = self.nearest(group, records, known)
            rates.append(SuccessRate(int((records[nearest, secret] == group[:, secret]).sum()), len(group)))
        return UnpairedRisk("inference", (target,), rates[0], rates[1])

    # ------------------------------------------------------------------ counts

    def copies(self, rng: np.random.Generator, keys: Sequence[str], *, n_attacks: int = ATTACKS) -> Copies:
        """Count what stands in the file as it stood in the original."""
        everything = range(len(self.names))
        matches = _counted_together(self.original, self.released, everything)
        unique = matches.in_first == 1
        of_keys = _counted_together(self.original, self.released, [self.names.index(key) for key in keys])
        replicated = (of_keys.in_first == 1) & (of_keys.in_second == 1)
        return Copies(
            unique_exact_matches=float((matches.in_second[unique] > 0).mean()) if unique.any() else 0.0,
            left_out_matches=self._left_out_matches(),
            replicated_uniques=float(replicated.sum()) / len(self.original),
            nearer_to_people=self._nearer_to_people(rng, n_attacks),
        )

    def _left_out_matches(self) -> float:
        # Somebody who is unique equals nobody else in the original; the same is asked of those who were left out.
        if not len(self.control):
            return math.nan
        everything = range(len(self.names))
        is_new = _counted_together(self.control, self.original, everything).in_second == 0
        stands = _counted_together(self.control, self.released, everything).in_second > 0
        return float(stands[is_new].mean()) if is_new.any() else math.nan

    def _nearer_to_people(self, rng: np.random.Generator, n_attacks: int) -> float:
        n = min(len(self.original), len(self.control))
        if not n:
            return math.nan
        everything = range(len(self.names))
        records = self._shuffled(rng)[:n_attacks]
        people = np.ascontiguousarray(self.original[rng.permutation(len(self.original))[:n]])
        control = np.ascontiguousarray(self.control[rng.permutation(len(self.control))[:n]])
        (_, to_people), (_, to_control) = (self.nearest(records, group, everything) for group in (people, control))
        # Differences of places on a scale are rounded: two thirds to one and nothing to one third are equally far.
        is_tie = np.isclose(to_people, to_control, rtol=0.0, atol=ROUNDING)
        return float(np.where(is_tie, 0.5, to_people < to_control).mean())

    def attribution(self, keys: Sequence[str], target: str) -> Attribution:
        """What the file says about ``target`` of somebody whose ``keys`` are known."""
        columns = [self.names.index(key) for key in keys]
        secret = self.names.index(target)
        together = np.vstack([self.released, self.original])
        _, _, group = collapse_records([together[:, c] for c in columns], [self.categories[c].n_levels for c in columns])
        n = len(self.released)
        of_released, of_original = group[:n], group[n:]
        n_groups = int(group.max()) + 1
        lowest = np.full(n_groups, np.iinfo(np.int32).max)
        highest = np.full(n_groups, -1)
        np.minimum.at(lowest, of_released, self.released[:, secret])
        np.maximum.at(highest, of_released, self.released[:, secret])
        is_disclosive = lowest == highest
        right = is_disclosive[of_original] & (lowest[of_original] == self.original[:, secret])
        size = np.bincount(of_original, minlength=n_groups)
        n_right = np.bincount(of_original, weights=right, minlength=n_groups)
        counted = is_disclosive[of_released] & (size[of_released] > 0)
        share = n_right[of_released][counted] / size[of_released][counted]
        return Attribution(target, float(right.mean()), float(share.mean()) if len(share) else math.nan)


@dataclass(frozen=True, eq=False)
class _CountedTogether:
    """For each row of a first file, how many rows of the first and of a second file agree with it on some columns."""

    in_first: NDArray[np.int64]
    in_second: NDArray[np.int64]


def _counted_together(first: Codes, second: Codes, columns: Sequence[int]) -> _CountedTogether:
    together = np.vstack([first, second])
    sizes = [int(together[:, c].max(initial=0)) + 1 for c in columns]
    _, _, group = collapse_records([np.ascontiguousarray(together[:, c]) for c in columns], sizes)
    n_groups = int(group.max()) + 1
    of_first, of_second = group[: len(first)], group[len(first) :]
    return _CountedTogether(
        np.bincount(of_first, minlength=n_groups)[of_first], np.bincount(of_second, minlength=n_groups)[of_first]
    )


def _as_arrays(
    conditions: Sequence[tuple[tuple[int, int, int], ...]],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    flat = np.array([part for condition in conditions for part in condition], dtype=np.int64).reshape(-1, 3)
    stops = np.cumsum([0, *(len(condition) for condition in conditions)]).astype(np.int64)
    return flat[:, 0].copy(), flat[:, 1].copy(), flat[:, 2].copy(), stops
