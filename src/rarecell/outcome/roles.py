"""What was found about areas, sensitive columns, several intruders and a known register?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rarecell.outcome.plain import Plain

Count = int | str
"""A number of records; words where the external edition hides a small one."""


@dataclass(frozen=True, kw_only=True)
class AreaSummary(Plain):
    """One area of a level."""

    area: str
    records: Count
    sample_uniques: Count
    expected_population_uniques: float
    expected_correct_matches: float
    above_threshold: Count


@dataclass(frozen=True, kw_only=True)
class AreaLevelSummary(Plain):
    """The file as if released with one level of areas; ``column`` is empty for the file without any."""

    column: str
    sample_uniques: Count
    expected_population_uniques: float
    expected_correct_matches: float
    above_threshold: Count
    areas: tuple[AreaSummary, ...] = ()
    drivers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AttributeSummary(Plain):
    """What groups of look-alike records give away about a sensitive column."""

    column: str
    groups: Count
    records: Count
    l_diversity: int
    entropy_l_diversity: float
    t_closeness: float
    distance: str
    right_from_groups: Count
    right_from_file: Count
    homogeneous_groups: Count
    records_in_homogeneous_groups: Count
    records_alone: Count
    expected_without_participation: float | None = None


@dataclass(frozen=True, kw_only=True)
class ScenarioSummary(Plain):
    """The risk from one intruder."""

    name: str
    keys: tuple[str, ...]
    sample_uniques: Count
    expected_population_uniques: float
    expected_correct_matches: float
    highest: float | None = None
    records_above_threshold: Count


@dataclass(frozen=True, kw_only=True)
class CalibrationSummary(Plain):
    """Sample uniques with estimated risk in a band: the mean estimate, and the true share according to the register."""

    low: float
    high: float
    records: Count
    estimated: float
    true: float


@dataclass(frozen=True, kw_only=True)
class RegisterSummary(Plain):
    """Exact numbers from a register, and how close the estimate comes to them."""

    people: int
    population_uniques: Count
    correct_matches: float
    records_not_covered: Count
    estimated_population_uniques: float
    estimated_correct_matches: float
    is_inside_interval: bool
    calibration: tuple[CalibrationSummary, ...] = ()
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class HomogeneousGroup(Plain):
    """A group of two or more records that share a sensitive value, with its values; for internal use only."""

    column: str
    value: str
    records: int
    values: Mapping[str, str]
