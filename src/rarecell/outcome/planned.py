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
    means_moved: float | None = None
    means_moved_of: str = ""
    relation_moved: float | None = None
    relation_moved_of: str = ""


@dataclass(frozen=True, kw_only=True)
class PlanSummary(Plain):
    """The frontier of a plan: its points, the position of those that are best at something, and how many were tried."""

    target: Mapping[str, float]
    combinations: int
    points: tuple[PlannedPoint, ...]
    cheapest: Mapping[str, int]
    looked_at: tuple[PlannedPoint, ...]


# What would a recoding change, as far as counts and a quick model tell?


MISSING = "missing"
"""What the level of missing values is called."""


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
    """A key before and after: levels, records of each, bits of information.

    ``shape`` says what can be done by hand: ``numbers`` are cut into bands, ``dates`` into months and years, ``levels`` are
    merged. ``meanings`` has the file's own label of each level, empty where it has none.
    """

    key: str
    words: str
    shape: str
    labels: tuple[str, ...]
    meanings: tuple[str, ...]
    counts: tuple[int, ...]
    labels_after: tuple[str, ...]
    counts_after: tuple[int, ...]
    group_of_level: tuple[int, ...]
    n_levels: int
    n_levels_after: int
    bits: float
    bits_after: float
    offered: tuple[str, ...]

    @property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """For each level after, the levels before that became it."""
        found: list[list[int]] = [[] for _ in self.labels_after]
        for level, group in enumerate(self.group_of_level):
            found[group].append(level)
        return tuple(tuple(levels) for levels in found)

    @property
    def numbers(self) -> tuple[float, ...]:
        """The levels before as numbers, for a key that is cut into bands."""
        return tuple(float(label) for label in self.labels if label != MISSING)

    @property
    def edges(self) -> tuple[str, ...]:
        """Where bands begin, the first one aside; empty if the levels after are not bands of neighbours."""
        real = [level for level, label in enumerate(self.labels) if label != MISSING]
        groups = [self.group_of_level[level] for level in real]
        if groups != sorted(groups) or len(set(groups)) == len(groups):
            return ()
        return tuple(
            self.labels[level] for level, before in zip(real[1:], groups, strict=False) if self.group_of_level[level] != before
        )

    @property
    def groups(self) -> tuple[tuple[int, str, int], ...]:
        """The levels after, but for the missing one: position, what is in it as people read it, and number of records."""
        found = []
        for group, levels in enumerate(self.members):
            shown = " + ".join(f"{self.labels[level]} {self.meanings[level]}".strip() for level in levels)
            if self.labels_after[group] != MISSING:
                found.append((group, shown, self.counts_after[group]))
        return tuple(found)


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
