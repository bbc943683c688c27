"""Which ways to release a file did a plan find? What the app reads of the output of ``rarecell plan --json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rarecell.outcome.plain import Plain


@dataclass(frozen=True, kw_only=True)
class PlannedPoint(Plain):
    """A way to release the file; :class:`rarecell.planning.planner.ReleasePoint` explains the fields."""

    recoding: Mapping[str, str]
    groups: Mapping[str, tuple[str, ...]]
    information_lost: float
    records_changed: int
    hellinger_mean: float
    association_kept: float | None = None
    correct_links: float
    highest: float
    is_met: bool


@dataclass(frozen=True, kw_only=True)
class PlanSummary(Plain):
    """The frontier of a plan: its points, the position of those that are best at something, and how many were tried."""

    target: Mapping[str, float]
    combinations: int
    points: tuple[PlannedPoint, ...]
    cheapest: Mapping[str, int]
    looked_at: tuple[PlannedPoint, ...]


# What would a recoding change, as far as counts and a quick model tell?


@dataclass(frozen=True, kw_only=True)
class TriedRisk(Plain):
    """The risk of a file under a quick model.

    ``at_least`` counts the sample uniques whose risk is at least 0, 0.01, ….
    """

    sample_uniques: int
    expected_population_uniques: float
    expected_correct_matches: float
    highest: float
    at_least: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class TriedKey(Plain):
    """A key before and after: levels, records of each, bits of information."""

    key: str
    words: str
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    labels_after: tuple[str, ...]
    counts_after: tuple[int, ...]
    group_of_level: tuple[int, ...]
    n_levels: int
    n_levels_after: int
    bits: float
    bits_after: float
    offered: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Trial(Plain):
    """A recoding compared with the file as it is."""

    before: TriedRisk
    after: TriedRisk
    keys: tuple[TriedKey, ...]
    association_kept: float | None = None

    @property
    def information_kept(self) -> float:
        """Share of the entropy of all keys that is left."""
        before = sum(key.bits for key in self.keys)
        return sum(key.bits_after for key in self.keys) / before if before > 0.0 else 1.0
