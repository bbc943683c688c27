"""What was found about areas, sensitive columns, several intruders and a known register?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rarecell.outcome.plain import Plain, check_classes
from rarecell.outcome.words import capital, counted, listed, number, percent, verb

Count = int | str
"""A number of records; words where the external edition hides a small one."""


@dataclass(frozen=True, kw_only=True)
class AreaSummary(Plain):
    """One area of a level; ``expected_recognised`` as in :class:`AreaLevelSummary`."""

    area: str
    records: Count
    sample_uniques: Count
    expected_population_uniques: float
    expected_correct_matches: float
    above_threshold: Count
    expected_recognised: float | None = None

    @property
    def expected(self) -> float:
        """Expected number of records that are recognised, in the widest way that the run judges by."""
        return self.expected_population_uniques if self.expected_recognised is None else self.expected_recognised


@dataclass(frozen=True, kw_only=True)
class AreaLevelSummary(Plain):
    """The file as if released with one level of areas; ``column`` is empty for the file without any.

    With households ``expected_recognised`` sums the larger of two risks over the records, of being recognised alone and with the
    family, and ``above_threshold`` counts by it.
    """

    column: str
    sample_uniques: Count
    expected_population_uniques: float
    expected_correct_matches: float
    above_threshold: Count
    expected_recognised: float | None = None
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

    @property
    def guess_gain(self) -> float:
        """Share of the records that are guessed right from their group and not from the file as a whole, on balance."""
        if not (
            isinstance(self.right_from_groups, int) and isinstance(self.right_from_file, int) and isinstance(self.records, int)
        ):
            return float("nan")
        return (self.right_from_groups - self.right_from_file) / max(1, self.records)


def nothing_given_away(before: AttributeSummary) -> AttributeSummary:
    """The summary of the column once no value of it is released."""
    return replace(
        before,
        groups=0,
        records=0,
        l_diversity=0,
        entropy_l_diversity=0.0,
        t_closeness=0.0,
        right_from_groups=0,
        right_from_file=0,
        homogeneous_groups=0,
        records_in_homogeneous_groups=0,
        records_alone=0,
        expected_without_participation=None,
    )


@dataclass(frozen=True, kw_only=True)
class AttributeTarget(Plain):
    """What groups were to give away at most about a sensitive column, and what came of it.

    Of the ``values`` of the column, ``exchanged`` are those of another record that has the same values of ``agree``, and ``blanked``
    are not released: those of every group of equal released keys that was not within the limits, or that keeps blanks from telling. ``before`` is the file with swapped
    keys, ``after`` the groups that keep their values; ``met`` is whether there are any. ``right_in_truth`` counts the people about whom
    somebody is right who knows their true key values, looks up the group that has them in the released file, and names its most
    frequent value. ``gain_with_blanks`` is the guess gain of somebody who also names one value, the best, for everybody whose value is
    blanked.
    """

    column: str
    l_diversity: int | None = None
    t_closeness: float | None = None
    max_guess_gain: float | None = None
    met: bool
    values: int
    blanked: int
    exchanged: int = 0
    agree: tuple[str, ...] = ()
    right_in_truth: float | None = None
    gain_with_blanks: float | None = None
    before: AttributeSummary
    after: AttributeSummary

    @property
    def options(self) -> str:
        """What was asked for, as command-line options."""
        limits = (("l-diversity", self.l_diversity), ("t-closeness", self.t_closeness), ("max-guess-gain", self.max_guess_gain))
        return " ".join(f"--{name} {limit:g}" for name, limit in limits if limit is not None)

    @property
    def sentence(self) -> str:
        """What was asked for, what it took, and the measures before and after."""
        measures = []
        if self.l_diversity is not None:
            limit = f"l-diversity of at least {self.l_diversity}"
            measures.append((limit, number(self.before.l_diversity), number(self.after.l_diversity)))
        if self.t_closeness is not None:
            limit = f"t-closeness of at most {self.t_closeness:g}"
            measures.append((limit, f"{self.before.t_closeness:.3f}", f"{self.after.t_closeness:.3f}"))
        if self.max_guess_gain is not None:
            limit = f"a guess gain of at most {percent(self.max_guess_gain)}"
            measures.append((limit, percent(self.before.guess_gain), percent(self.after.guess_gain)))
        first = f"The target for '{self.column}' is {listed([limit for limit, _, _ in measures])}"
        if not self.met:
            return (
                f"{first}. It was NOT reached: no group of equal keys is within it, so every value was blanked. Release keys in fewer "
                "groups (--recode), or ask for less."
            )
        were = [
            f"{limit.split(' of at')[0].removeprefix('a ')} is {after} ({before} before)" for limit, before, after in measures
        ]
        blanked = (
            "no value had to be blanked"
            if not self.blanked
            else f"{counted(self.blanked, 'value')} of {number(self.values)} {verb(self.blanked, 'was', 'were')} blanked, all those of groups "
            "of equal keys that were not within it"
        )
        return f"{first}. {capital(f'{self._moved}{blanked}')}. In the groups that keep their values {listed(were)}.{self._of_blanks}{self._truth}"

    @property
    def _moved(self) -> str:
        if not self.exchanged:
            return ""
        stays = (
            f" between records alike in {listed(self.agree)}, so that its tables with these stay as they were"
            if self.agree
            else ""
        )
        return f"{counted(self.exchanged, 'value')} {verb(self.exchanged, 'was', 'were')} exchanged{stays}; "

    @property
    def _of_blanks(self) -> str:
        """A blank tells something if it is known why values are blanked."""
        if not self.blanked or self.max_guess_gain is None or self.gain_with_blanks is None:
            return ""
        return f" With the best guess for all blanks, the guess gain in the whole file is {percent(self.gain_with_blanks)}."

    @property
    def _truth(self) -> str:
        """Exchanged values mislead only those who name a rare value."""
        if not self.exchanged or self.right_in_truth is None:
            return ""
        return f" Whoever names the most frequent value of a person's group is right about {number(round(self.right_in_truth))} people in truth."


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
    expected_recognised: float | None = None


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


# Who is at risk before and after protection, and where does a release come from?


@dataclass(frozen=True, kw_only=True)
class GroupRisk(Plain):
    """The risk of the records with one level of a key; after protection as well, if there was one.

    ``records_after`` and the fields that follow describe the released file, where swapped records are in the groups of their new
    values; ``swapped`` counts records of the original group that exchanged any value. With households ``expected_recognised`` sums
    the larger of two risks over the records, of being recognised alone and with the family.
    """

    key: str
    level: str
    records: int
    sample_uniques: int
    expected_population_uniques: float
    records_after: int | None = None
    expected_population_uniques_after: float | None = None
    swapped: int | None = None
    expected_recognised: float | None = None
    expected_recognised_after: float | None = None

    @property
    def expected(self) -> float:
        """Expected number of records that are recognised, in the widest way that the run judges by."""
        return self.expected_population_uniques if self.expected_recognised is None else self.expected_recognised

    @property
    def expected_after(self) -> float | None:
        """The same in the released file; None before protection."""
        return self.expected_population_uniques_after if self.expected_recognised is None else self.expected_recognised_after


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

    def __post_init__(self) -> None:
        check_classes(self.edges, self.counts)


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
