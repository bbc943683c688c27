"""What did a protection do, what risk is left, and what did it cost?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rarecell.outcome.formal import FormalSummary
from rarecell.outcome.plain import Plain
from rarecell.outcome.release import LeakSummary
from rarecell.outcome.roles import AttributeSummary, AttributeTarget, ReleasedState, ScenarioSummary
from rarecell.outcome.words import about, counted, listed, number, people, percent


@dataclass(frozen=True, kw_only=True)
class RiskNumbers(Plain):
    """The risk of a file in a few numbers; ``highest_match`` is the highest chance that a link to a record is right.

    Of the file as it came, where intruders know who lives with whom: ``family_records`` could be recognised alone or with their
    family, ``household_links`` households would be found, and ``highest`` is the larger of the two risks.
    """

    expected_population_uniques: float
    expected_correct_matches: float
    sample_uniques: int | None = None
    highest: float
    highest_match: float | None = None
    family_records: float | None = None
    household_links: float | None = None


@dataclass(frozen=True, kw_only=True)
class SureLinks(Plain):
    """Links that an intruder is surer of than ``above``: how many are claimed, and how many of these are expected to be right."""

    above: float
    claimed: float
    right: float


@dataclass(frozen=True, kw_only=True)
class IntruderSummary(Plain):
    """Records that an intruder is expected to link to the right person, before and after.

    ``swapped`` is the part of ``after`` that comes from swapped records; ``knows`` says what the intruder must know, as a
    continuation of "somebody who". The true numbers are given if the population is known. With a register, ``before`` and
    ``after`` are counted in it, and the estimated numbers are what the model expected without it. The intruders ``household`` and
    ``household-shadow`` link households; the persons who live in them are counted beside. Of ``household`` alone, ``persons_certain``
    are those in households with no other as near, ``highest`` is the highest chance that a link to a household is right, and ``highest_risk`` the highest risk of one, of being the only
    one of its kind if it stayed and of being linked if it moved. ``distance`` is the one of those tried with which most is found after
    protection; empty where distance plays no part. ``sure`` counts the links in the protected file that the intruder can be sure of.
    """

    name: str
    knows: str
    before: float
    after: float
    swapped: float | None = None
    interval_before: tuple[float, ...] = ()
    interval_after: tuple[float, ...] = ()
    true_before: float | None = None
    true_after: float | None = None
    estimated_before: float | None = None
    estimated_after: float | None = None
    persons_before: float | None = None
    persons_after: float | None = None
    persons_certain: float | None = None
    highest: float | None = None
    highest_risk: float | None = None
    distance: str = ""
    sure: tuple[SureLinks, ...] = ()


@dataclass(frozen=True, kw_only=True)
class KnownBeyond(Plain):
    """Records that are found by an intruder who holds further columns of everybody, beside the keys.

    ``after`` counts the links to records that are alone by keys and columns; ``of_alone`` those of records that are alone by the
    keys as well, ``swapped`` those of swapped records, and ``nearest`` what the keys alone find. A column that was ``named`` is a
    claim of the run, another one a warning.
    """

    columns: tuple[str, ...]
    before: float
    after: float
    nearest: float
    of_alone: float | None = None
    swapped: float | None = None
    named: bool = False
    counted: bool = False

    @property
    def sentence(self) -> str:
        names = listed([f"'{name}'" for name in self.columns])
        return f"An intruder who also knows {names} finds {about(self.after)} records instead of {people(self.nearest)}."


@dataclass(frozen=True, kw_only=True)
class NotSwapped(Plain):
    """Records that stay as they are, and why."""

    reason: str
    records: int


@dataclass(frozen=True, kw_only=True)
class RemainingSummary(Plain):
    """Records of the released file whose risk is at or above the threshold, why, and what helps."""

    reason: str
    remedy: str
    records: int


@dataclass(frozen=True, kw_only=True)
class KeptMargin(Plain):
    """A table that was compared cell by cell before and after."""

    variables: tuple[str, ...]
    cells: int


@dataclass(frozen=True, kw_only=True)
class MarginDistances(Plain):
    """Hellinger distances of all tables of a given number of keys."""

    mean: float
    max: float


@dataclass(frozen=True, kw_only=True)
class AssociationChange(Plain):
    """Association of a key with a column that stayed in place, before and after; ``moved`` counts changed values of the key."""

    key: str
    column: str
    before: float
    after: float
    moved: int | None = None

    @property
    def change(self) -> float:
        return self.after - self.before


@dataclass(frozen=True, kw_only=True)
class FrontierSummary(Plain):
    """The risk left after a given number of values were changed."""

    values_changed: int
    expected_population_uniques: float
    expected_correct_matches: float | None = None
    highest: float | None = None


@dataclass(frozen=True, kw_only=True)
class TargetSummary(Plain):
    """What was to be reached, and whether it was reached; ``against`` whom, if not somebody who links to the nearest person."""

    met: bool
    sentence: str
    against: str | None = None
    max_population_uniques: float | None = None
    max_record_risk: float | None = None
    max_correct_links: float | None = None


@dataclass(frozen=True, kw_only=True)
class KeepingCost(Plain):
    """Records that become fixed if a further table is kept."""

    variables: tuple[str, ...]
    records_fixed: int


@dataclass(frozen=True, kw_only=True)
class BlankedTable(Plain):
    """A table that was to be kept, counted again after blanking: cells that differ, and records with a blank in it."""

    variables: tuple[str, ...]
    cells: int
    differing: int
    records: int

    def __str__(self) -> str:
        table = f"The table of {listed(self.variables)}, which was to be kept, "
        if not self.differing:
            return f"{table}is as it was, even after blanking."
        return f"{table}differs in {number(self.differing)} of {counted(self.cells, 'cell')} after blanking."


@dataclass(frozen=True, kw_only=True)
class SuppressionSummary(Plain):
    """Values that were blanked because neither recoding nor swapping was enough; ``unreached`` records stay above the threshold or in
    groups that are too small.

    ``must_stay`` are keys that were not to be blanked, ``tables`` those of ``--keep``, counted after blanking, ``k`` the least number of
    records with the same values, if one was asked for.
    """

    records: int | str
    values: int | str
    k: int | None = None
    by_key: Mapping[str, int] = field(default_factory=dict)
    unreached: int = 0
    must_stay: tuple[str, ...] = ()
    tables: tuple[BlankedTable, ...] = ()
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class AffectedGroup(Plain):
    """Records with one value of a column, and how many were swapped; ``ratio`` is their share over that of the file."""

    column: str
    level: str
    records: int
    swapped: int
    ratio: float

    @property
    def share(self) -> float:
        return self.swapped / self.records if self.records else 0.0


@dataclass(frozen=True, kw_only=True)
class WeightedTable(Plain):
    """The effect of swaps on the weighted totals of a table, and whether its counts of records are the same.

    ``changed`` of the cells with records in either file have another total; ``largest`` is the largest change relative to the total
    before, that of ``largest_cell`` (None where the cell was empty before); ``moved`` is the share of the total weight that is now in
    another cell.
    """

    variables: tuple[str, ...]
    cells: int
    changed: int
    largest: float | None = None
    largest_cell: str = ""
    moved: float
    counts_identical: bool
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class AreaSwapSummary(Plain):
    """Units that changed places: how many, at which levels of areas, and on which profiles partners agree.

    ``partners`` changed places for the sake of units at risk, ``by_chance`` to reach the rate that was ``wanted``.
    """

    units: int
    swapped: int
    rate: float
    risky: int
    risky_left: int
    partners: int = 0
    by_chance: int = 0
    wanted: float = 0.0
    unit: str = "record"
    levels: Mapping[str, int]
    profiles: Mapping[str, int]
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class AnalysisTerm(Plain):
    """A coefficient, mean or total in both files, with the overlap of its confidence intervals."""

    name: str
    before: float
    after: float
    error_before: float
    error_after: float
    overlap: float
    relative_bias: float | None = None


@dataclass(frozen=True, kw_only=True)
class AnalysisSummary(Plain):
    """An analysis named by the user, run on both files; ``records`` is the number of records used from each."""

    name: str
    kind: str
    formula: str
    weighted: bool
    records: int
    terms: tuple[AnalysisTerm, ...]


@dataclass(frozen=True, kw_only=True)
class ReleasedBefore(Plain):
    """An earlier release of the same file, held beside the new one.

    ``differing`` records have other key values in the two, ``linked`` ones a unique combination of values in the columns that stayed
    the same. ``recognised`` ones are known to be swapped in one of the two, because no record of the new release has the same values, and
    ``exposed`` ones are known with both sets of values, because nobody else can be the same person.
    """

    records: int
    differing: int
    linked: int
    exposed: int
    recognised: int = 0
    link_columns: tuple[str, ...] = ()
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class LeftBehind(Plain):
    """A column that depends on a swapped key and did not travel with it."""

    column: str
    key: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class MeanMoved(Plain):
    """The mean and median of a numeric column among the records with one level of a key, before and after.

    ``relative`` is the change over the mean before, ``standardised`` over the standard deviation of the column; ``size`` is what counts.
    """

    column: str
    key: str
    level: str
    records: int | str
    before: float
    after: float
    relative: float | None = None
    standardised: float
    median_before: float | None = None
    median_after: float | None = None
    size: float = 0.0


@dataclass(frozen=True, kw_only=True)
class FileUtility(Plain):
    """What happened to the columns beside the keys: how many numeric ones were compared, and the means that moved most.

    ``largest`` is the largest change of a mean, that of ``column`` by ``key``, and ``limit`` the one that was allowed. A large
    file is compared by a sample.
    """

    columns: int
    largest: float
    column: str = ""
    key: str = ""
    means: tuple[MeanMoved, ...] = ()
    limit: float | None = None
    is_sample: bool = False

    @property
    def is_within_limit(self) -> bool:
        return self.limit is None or self.largest <= self.limit

    @property
    def _those(self) -> str:
        return "the only numeric column" if self.columns == 1 else f"all {number(self.columns)} numeric columns"

    @property
    def sentence(self) -> str:
        """What is true of the means of the file, as the end of a sentence."""
        if not self.column and self.is_sample:
            return f"in a sample of the records no mean of {self._those} by the levels of a key moved"
        if not self.column:
            return f"the means of {self._those} by the levels of each key are as they were"
        sentence = f"means of '{self.column}' by '{self.key}' moved by up to {percent(self.largest)}"
        if self.limit is None:
            return sentence
        if self.is_within_limit:
            return f"{sentence}, within the {percent(self.limit)} of --max-change"
        return f"{sentence}, beyond the {percent(self.limit)} of --max-change: no plan tried that protects as many records moved them less"


@dataclass(frozen=True, kw_only=True)
class SwapSummary(Plain):
    """The ``swap`` part of ``summary.json``."""

    requested: int | str
    swapped: int | str
    pairs: int | None = None
    not_swapped: tuple[NotSwapped, ...] = ()
    values_changed: int | str
    share_changed: float | None = None
    mean_distance: float | None = None
    first_found_mean_distance: float | None = None
    uniques_vacated: int | None = None
    uniques_created: int | None = None
    risk_before: RiskNumbers
    risk_after: RiskNumbers
    intruders: tuple[IntruderSummary, ...] = ()
    beyond: tuple[KnownBeyond, ...] = ()
    exposed: int | str | None = None
    remaining: tuple[RemainingSummary, ...] = ()
    decoys: int | str | None = None
    margins_identical: bool
    keeps_model: bool = True
    margins: tuple[KeptMargin, ...] = ()
    hellinger: Mapping[str, MarginDistances] = field(default_factory=dict)
    pmse: float | None = None
    pmse_ratio: float | None = None
    pmse_all_interactions: float | None = None
    associations: tuple[AssociationChange, ...] = ()
    file: FileUtility | None = None
    frontier: tuple[FrontierSummary, ...] = ()
    target: TargetSummary | None = None
    suppression: SuppressionSummary | None = None
    released: ReleasedState | None = None
    keep: tuple[KeepingCost, ...] = ()
    formal: FormalSummary | None = None
    attributes: tuple[AttributeSummary, ...] = ()
    attribute_targets: tuple[AttributeTarget, ...] = ()
    scenarios: tuple[ScenarioSummary, ...] = ()
    affected: tuple[AffectedGroup, ...] = ()
    weighted: tuple[WeightedTable, ...] = ()
    carried: tuple[str, ...] = ()
    left_behind: tuple[LeftBehind, ...] = ()
    places: AreaSwapSummary | None = None
    analyses: tuple[AnalysisSummary, ...] = ()
    earlier: ReleasedBefore | None = None
    verdict: str = ""

    def intruder(self, name: str) -> IntruderSummary | None:
        """What one of the intruders finds, if it was tried."""
        return next((intruder for intruder in self.intruders if intruder.name == name), None)


# What did the intruders find in a released file?


@dataclass(frozen=True, kw_only=True)
class ConsistencySummary(Plain):
    """How well changed rows are told from others by a key that does not go with the rest of the row.

    ``area`` is the probability that a changed row looks stranger than another one, ``area_before`` the same for the same rows in the
    original: rare rows are strange before anything is done to them. Of the ``strangest`` rows, ``right`` were changed.
    """

    area: float
    area_before: float
    strangest: int
    right: int
    right_before: int

    @property
    def sentence(self) -> str:
        return (
            f"A changed row looks stranger than another one with probability {self.area:.2f} ({self.area_before:.2f} in the original, because "
            f"rare rows are strange anyway); of the {number(self.strangest)} strangest rows {number(self.right)} were changed."
        )


@dataclass(frozen=True, kw_only=True)
class AttackSummary(Plain):
    """The result of ``rarecell attack``.

    Attributes
    ----------
    records, changed : int
        Records of the file, and those whose key values differ from the original.
    unique : int
        Records that are alone with their key values in the released file.
    population : float
        Size of the register, or of the population that the model describes.
    is_counted : bool
        Whether the links were counted in a register; otherwise they are expected under a model.
    recoded : tuple of str
        Keys that were recoded.
    not_released : int
        Records of the original that the released file does not have.
    not_in_register : int
        Records of the original with values that nobody in the register has; no intruder who holds it finds them.
    at_random : float
        Links to the right person if each unique record were linked to a random person.
    intruders : tuple of IntruderSummary
        What each intruder finds.
    beyond : tuple of KnownBeyond
        What an intruder finds who holds further columns beside the keys.
    consistency : ConsistencySummary or None
        How well changed rows are told from others by how strange they look.
    leaks : tuple of LeakSummary
        Columns of the released file that tell about original values of keys.
    sentence : str
        The result in two sentences.
    """

    records: int
    changed: int
    unique: int
    population: float
    is_counted: bool
    recoded: tuple[str, ...] = ()
    not_released: int = 0
    not_in_register: int = 0
    at_random: float
    intruders: tuple[IntruderSummary, ...]
    beyond: tuple[KnownBeyond, ...] = ()
    consistency: ConsistencySummary | None = None
    leaks: tuple[LeakSummary, ...] = ()
    sentence: str = ""
