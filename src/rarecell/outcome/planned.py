"""Which ways to release a file did a plan find? What the app reads of the output of ``rarecell plan --json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rarecell.outcome.plain import Plain


@dataclass(frozen=True, kw_only=True)
class PlannedPoint(Plain):
    """A way to release the file; :class:`rarecell.release.planner.ReleasePoint` explains the fields."""

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
