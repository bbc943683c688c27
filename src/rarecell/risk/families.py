"""How likely is it that a household is the only one of its kind in the population?

An intruder who knows one person knows the family. Written as a row (:mod:`rarecell.table.household_rows`), a household is a record
like any other, and its risk is that of a record: the probability that no other household of the population has the same row.
A person is then recognised alone or with the family, whichever is more likely.

The product over the members, 1 − Π(1−r), which other programs call household risk, is something else: it takes the members one by
one and misses that their combination is what is rare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rarecell.model.protocol import CellModel
from rarecell.outcome.summary import Reliability
from rarecell.outcome.words import counted, percent
from rarecell.risk.interval import RiskInterval
from rarecell.risk.records import RecordRisk
from rarecell.risk.register import RegisterCounts
from rarecell.table.categories import Categories
from rarecell.table.household_rows import HouseholdRows, Members, householder

Floats = NDArray[np.float64]

FEW_TOGETHER = 1.15
"""With fewer sampled members a household on average, the sample drew persons rather than households."""

SAME_SIZE = 0.9
"""A column is taken to be the household size if it is at least the number of records in this share of the households."""


@dataclass(frozen=True, eq=False)
class FamilyRisk:
    """The households of a file as records, and the risk from somebody who knows some keys of their members.

    Attributes
    ----------
    rows : HouseholdRows
        A row for each household.
    risk : RecordRisk
        The risk of every row under the model.
    model : CellModel
        The model of the rows.
    register : RegisterCounts or None
        Households of the register with the same row, if the run has a register of households.
    """

    rows: HouseholdRows
    risk: RecordRisk
    model: CellModel
    register: RegisterCounts | None = None

    @property
    def model_error(self) -> float:
        """Relative error to which the file itself points, where that was looked at."""
        return 0.0

    @cached_property
    def known_risk(self) -> RecordRisk:
        """The risk of every row: counted if there is a register of households, otherwise estimated."""
        return self.risk if self.register is None else self.register.risk(self.risk)

    @property
    def size(self) -> NDArray[np.int64]:
        """Number of members of each household."""
        return self.rows.members.size

    @property
    def cell(self) -> NDArray[np.int64]:
        """The cell of each household."""
        assert self.rows.table.record_cell is not None
        return self.rows.table.record_cell

    @cached_property
    def is_alone(self) -> NDArray[np.bool_]:
        """Which households are unique in the file."""
        return np.asarray(self.risk.sample_count[self.cell] == 1)

    @cached_property
    def unique_probability(self) -> Floats:
        """Probability that each household is unique in the population."""
        return self.known_risk.unique_probability[self.cell]

    @cached_property
    def match_probability(self) -> Floats:
        """E(1/F) of each household."""
        return self.known_risk.match_probability[self.cell]

    @property
    def expected_persons(self) -> float:
        """Persons who live in a household that is unique in the population, by expectation."""
        return float((self.size * self.risk.unique_probability[self.cell]).sum())

    def of_records(self) -> tuple[Floats, Floats]:
        """Both probabilities of the household of every record; 0 in institutions."""
        return self.rows.members.spread(self.unique_probability), self.rows.members.spread(self.match_probability)

    def larger(self, unique_probability: Floats) -> Floats:
        """For every record, the larger of its own probability and that of its household; a record that was dropped has none of its own."""
        return np.maximum(np.nan_to_num(unique_probability), self.of_records()[0])

    def riskiest(self, k: int) -> NDArray[np.int64]:
        """Rows of the ``k`` households most likely to be unique; larger ones first among equals."""
        order = np.lexsort((np.arange(len(self.size)), -self.size, -self.unique_probability))
        return order[: max(k, 0)][self.unique_probability[order[: max(k, 0)]] > 0.0]


@dataclass(frozen=True, eq=False, kw_only=True)
class Families(FamilyRisk):
    """The households of a file for somebody who knows all keys, and how far their risk can be trusted.

    Attributes
    ----------
    interval : RiskInterval
        Interval for the number of households that are unique in the population.
    reliability : Reliability
        How far the estimate can be trusted.
    """

    interval: RiskInterval
    reliability: Reliability

    @property
    def model_error(self) -> float:
        return self.interval.model_error


# ---------------------------------------------------------------------- is the composition known?


def why_incomplete(codes: NDArray[np.int32], keys: Sequence[Categories], members: Members, *, fraction: float) -> str | None:
    """Why households seem to lack members in the file, so that their composition is unknown; None if nothing says so.

    1. A key says how many members a household has, and many have fewer records.
    2. Hardly any household has two records, as when persons are drawn one by one, unless nearly all have a householder.
    """
    if fraction >= 1.0 or not members.n_households:
        return None
    size, first = members.size, members.at[:, 0]
    lives = members.of_record >= 0
    for k, of_key in enumerate(keys):
        stated = _stated_sizes(of_key)
        if stated is None:
            continue
        says = stated[codes[first, k]]
        others = stated[codes[lives, k]]
        if (others == says[members.of_record[lives]]).all() and (says >= size).mean() >= SAME_SIZE:
            short = float((says > size).mean())
            if short > 1.0 - SAME_SIZE:
                return f"the key '{of_key.key}' says that {percent(short)} of them have more members than the file has records of them"
    mean = float(size.mean())
    if mean < FEW_TOGETHER and householder(codes, keys, members, range(len(keys))) is None:
        return f"they have {mean:.2f} records on average, as when persons are drawn one by one"
    return None


def _stated_sizes(of_key: Categories) -> NDArray[np.float64] | None:
    """The numbers of a key whose levels are whole numbers from 1 to 30; NaN for a missing value."""
    real = of_key.levels[: of_key.n_levels - of_key.has_missing]
    values = [_whole(level) for level in real]
    if len(real) < 2 or any(value is None or not 1 <= value <= 30 for value in values):
        return None
    return np.array([*(float(value) for value in values if value is not None), *([np.nan] if of_key.has_missing else [])])


def _whole(level: object) -> int | None:
    try:
        value = float(str(level))
    except ValueError:
        return None
    return int(value) if value == int(value) else None


def unknown_composition(reason: str, n_households: int) -> str:
    """What is said instead of a risk of households."""
    return (
        f"The composition of the {counted(n_households, 'household')} is not known, because {reason}: what a family looks like cannot be "
        "told from some of its members, so only persons are judged. Somebody who knows the file and the families could still put "
        "together what is there."
    )


# ---------------------------------------------------------------------- a household that nobody declared


FEWEST_HOUSEHOLDS = 50
"""Fewer groups than this are no households to speak of."""

LARGEST_GROUP = 12
"""Nearly all records of a household column are in groups of at most this size."""


def looks_like_households(codes: NDArray[np.integer], others: Sequence[NDArray[np.integer]]) -> bool:
    """Whether the values of a column group records as households would.

    1. Groups are small: nearly all records in groups of 1 to 12, and 1.3 to 8 records in a group on average.
    2. Records of a group stand together in the file, and members agree on another column far more often than any two records.
    """
    size = np.bincount(np.unique(codes, return_inverse=True)[1])
    n = len(codes)
    if len(size) < FEWEST_HOUSEHOLDS or not 1.3 <= n / len(size) <= 8.0:
        return False
    if size[size > LARGEST_GROUP].sum() > 0.01 * n or size[size > 1].sum() < 0.3 * n:
        return False
    runs = 1 + int((np.diff(codes) != 0).sum())
    if runs > 1.02 * len(size):
        return False
    same = np.flatnonzero(np.diff(codes) == 0)
    for other in others:
        share = np.bincount(np.unique(other, return_inverse=True)[1]) / n
        by_chance, agree = float((share**2).sum()), float((other[same] == other[same + 1]).mean())
        if by_chance <= 0.8 and agree >= max(0.95, by_chance + 0.1):
            return True
    return False
