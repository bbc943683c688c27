"""Who is at risk before and after protection, and where does a release come from?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rarecell.outcome.plain import Plain


@dataclass(frozen=True, kw_only=True)
class GroupRisk(Plain):
    """The risk of the records with one level of a key; after protection as well, if there was one.

    ``records_after`` and the fields that follow describe the released file, where swapped records are in the groups of their new
    values; ``swapped`` counts records of the original group that exchanged any value.
    """

    key: str
    level: str
    records: int
    sample_uniques: int
    expected_population_uniques: float
    records_after: int | None = None
    expected_population_uniques_after: float | None = None
    swapped: int | None = None


@dataclass(frozen=True, kw_only=True)
class Concentration(Plain):
    """Share of the expected population uniques that the riskiest ``records`` account for together."""

    records: int
    share: float


@dataclass(frozen=True, kw_only=True)
class HouseholdsAfter(Plain):
    """Households of the released file in which a member is expected to be recognised, and those above the threshold."""

    expected_with_an_identified_member: float
    above_threshold: int


@dataclass(frozen=True, kw_only=True)
class ReleasedState(Plain):
    """The released file: records by risk, by the size of their cell, and above the threshold.

    A blanked value counts as a value of its own. The intervals are for the expected population uniques and correct matches.
    The external edition has the number of sample uniques, which anybody can count in the file, and the intervals.
    """

    sample_uniques: int | str
    records_above_threshold: int | None = None
    edges: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    k_anonymity: Mapping[str, int] = field(default_factory=dict)
    households: HouseholdsAfter | None = None
    concentration: tuple[Concentration, ...] = ()
    interval: tuple[float, ...] = ()
    interval_correct_matches: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Provenance(Plain):
    """Where the numbers come from: the date, the file, the program and the seed.

    ``released`` and its hash are those of the protected file; ``by`` is who ran it, if given; ``run`` names the run, also
    found in its ``run.json``.
    """

    date: str
    input: str
    input_sha256: str | None = None
    released: str | None = None
    released_sha256: str | None = None
    version: str
    seed: int | None = None
    by: str | None = None
    run: str | None = None
