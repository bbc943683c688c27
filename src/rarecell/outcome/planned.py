"""Which ways to release a file did a plan find, and what would a recoding change?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rarecell.outcome.plain import Plain
from rarecell.outcome.words import about, capital, counted, listed, percent


@dataclass(frozen=True)
class Way:
    """What can be done with households beside a recoding.

    Attributes
    ----------
    words : str
        What it is, to follow the recoding.
    options : tuple of str
        Its command-line options.
    settings : mapping
        The same as fields of a configuration.
    is_aimed : bool
        Whether it takes the target as an option.
    best_at : str
        What the cheapest point of this way is called.
    """

    words: str
    options: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_aimed: bool = True
    best_at: str = ""


SHARE_OF_PLACES = 0.2
"""Share of the households that change areas where a plan offers this."""

WAYS: Mapping[str, Way] = {
    "": Way(""),
    "households": Way(", values exchanged between households"),
    "unlink": Way(", without the household number", ("--unlink",), {"unlink": True}, best_at="without household numbers"),
    "areas": Way(
        ", whole households in other areas",
        ("--households", f"--swap-rate {SHARE_OF_PLACES:g}"),
        {"households": True, "swap_rate": SHARE_OF_PLACES, "max_correct_links": None, "max_record_risk": None},
        is_aimed=False,
        best_at="households in other areas",
    ),
}
"""What can be done beside a recoding: swaps of records, or something with whole households."""


@dataclass(frozen=True)
class RefusedWay(Plain):
    """A way to release the file that its command would refuse, and why.

    Attributes
    ----------
    recoding : mapping of str to str
        How each recoded key is recoded, in the words of ``--recode``.
    way : str
        What is done with households beside it: a name in :data:`WAYS`.
    reason : str
        What the command would say.
    """

    recoding: Mapping[str, str]
    way: str
    reason: str

    def __str__(self) -> str:
        recoded = listed([f"{key} in {words}" for key, words in self.recoding.items()]) if self.recoding else "Keys as they are"
        return f"{capital(recoded)}{WAYS[self.way].words}: refused. {self.reason}"


@dataclass(frozen=True)
class ReleasePoint(Plain):
    """A way to release the file: a recoding, the swaps that go with it, what is lost, and the risk that is left.

    Attributes
    ----------
    recoding : mapping of str to str
        How each recoded key is recoded, in the words of ``--recode``.
    groups : mapping of str to tuple of str
        What the levels of each recoded key contain.
    levels : mapping of str to tuple of int
        Number of levels of each key before and after.
    bits_lost : mapping of str to float
        Entropy that each recoded key loses.
    information_lost : float
        Share of the entropy of all keys that is lost.
    sample_uniques, correct_links_recoded, population_uniques_recoded : int, float
        Uniques and risk after the recoding alone.
    swaps, records_changed, values_changed : int
        Number of swaps, and of records and values they change.
    hellinger_mean, hellinger_max : float
        Hellinger distance between the two-way tables of the recoded keys before and after swapping.
    association_kept : float or None
        Share of the mutual information with other columns that is left; None when no columns were given.
    means_moved, means_moved_of : float or None, str
        Largest change of a mean of a column of amounts by level of a recoded key, and which that is; None without such columns.
    relation_moved, relation_moved_of : float or None, str
        Largest change of Cramér's V between a recoded key and another column, and which that is; None without such columns.
    correct_links, population_uniques, highest : float
        Expected numbers and the highest risk after recoding and swapping.
    is_met : bool
        Whether the target is met.
    values_blanked, values_exchanged : int or None
        Values of keys and sensitive columns that are blanked, and values of sensitive columns that are exchanged, to reach a least size of
        groups or a limit on what they give away; None if neither was asked for.
    way : str
        What is done beside the recoding, one of :data:`WAYS`; empty for swaps.
    """

    recoding: Mapping[str, str]
    groups: Mapping[str, tuple[str, ...]]
    levels: Mapping[str, tuple[int, int]]
    bits_lost: Mapping[str, float]
    information_lost: float
    sample_uniques: int
    correct_links_recoded: float
    population_uniques_recoded: float
    swaps: int
    records_changed: int
    values_changed: int
    hellinger_mean: float
    hellinger_max: float
    correct_links: float
    population_uniques: float
    highest: float
    is_met: bool
    association_kept: float | None = None
    means_moved: float | None = None
    means_moved_of: str = ""
    relation_moved: float | None = None
    relation_moved_of: str = ""
    values_blanked: int | None = None
    values_exchanged: int | None = None
    way: str = ""

    @property
    def n_changed(self) -> int:
        """Number of records that swaps change and of values that are blanked."""
        return self.records_changed + (self.values_blanked or 0)

    @property
    def options(self) -> str:
        """The recoding, and what else is done, as command-line options."""
        return " ".join([*(f'--recode "{key}={words}"' for key, words in self.recoding.items()), *WAYS[self.way].options])

    @property
    def name(self) -> str:
        """The recoding, and what else is done, in words."""
        recoded = "; ".join(f"{key} in {_after_in(words)}" for key, words in self.recoding.items()) or "every key as it is"
        return f"{recoded}{WAYS[self.way].words}"

    def __str__(self) -> str:
        reached = (
            "" if self.is_met else " That is above the target." if self.values_blanked is None else " The target is not reached."
        )
        blanked = "" if self.values_blanked is None else f" {capital(counted(self.values_blanked, 'value'))} would be blanked."
        lost = f"{percent(self.information_lost)} of the keys' information is lost." if self.recoding else "No key is recoded."
        swapped = counted(self.records_changed, "record") if self.records_changed else "no record"
        # A key keeps its name, so that a sentence may begin with a small letter.
        return (
            f"{self.name}, with {swapped} swapped. {capital(about(self.correct_links))} correct links are expected. The highest "
            f"risk is {self.highest:.3f}.{blanked}{reached} {lost}"
        )


def n_recodings(points: Iterable[ReleasePoint]) -> int:
    """How many recodings these are: one may be released in several ways."""
    return len({tuple(sorted(point.recoding.items())) for point in points})


def _after_in(words: str) -> str:
    return f"bands from {', '.join(words.split()[1:])}" if words.startswith("edges") else words


@dataclass(frozen=True, kw_only=True)
class PlanSummary(Plain):
    """The frontier of a plan as ``rarecell plan --json`` prints it: its points, the position of those that are best at something, and how many were tried."""

    target: Mapping[str, float]
    combinations: int
    points: tuple[ReleasePoint, ...]
    cheapest: Mapping[str, int]
    looked_at: tuple[ReleasePoint, ...]
    refused: tuple[RefusedWay, ...] = ()


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
        members: list[list[int]] = [[] for _ in self.labels_after]
        for level, group in enumerate(self.group_of_level):
            members[group].append(level)
        return tuple(tuple(levels) for levels in members)

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
        groups = []
        for group, levels in enumerate(self.members):
            shown = " + ".join(f"{self.labels[level]} {self.meanings[level]}".strip() for level in levels)
            if self.labels_after[group] != MISSING:
                groups.append((group, shown, self.counts_after[group]))
        return tuple(groups)


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
