"""What does ``summary.json`` say?

Every number that a run prints, shows or stores is a field here; the field names are the names in the file. It contains no
record and no value of one. Where an edition hides a small count, words stand in its place (:data:`Count`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rarecell.errors import BadInput
from rarecell.outcome.plain import Plain, check_classes
from rarecell.outcome.release import ReleaseSummary
from rarecell.outcome.roles import (
    AreaLevelSummary,
    AttributeSummary,
    Concentration,
    GroupRisk,
    Provenance,
    RegisterSummary,
    ScenarioSummary,
)
from rarecell.outcome.swap import RiskNumbers, SwapSummary

Count = int | str
"""A number of records, or the words that replace it in an edition that hides small counts."""

Interval = tuple[float, float]


# ---------------------------------------------------------------------- what was read


@dataclass(frozen=True, kw_only=True)
class RiskByMissing(Plain):
    """The risk of the file under one meaning of a missing key value."""

    sample_uniques: Count
    expected_population_uniques: float
    expected_correct_matches: float
    records_above_threshold: Count


@dataclass(frozen=True, kw_only=True)
class MissingSummary(Plain):
    """What was done with missing key values, and how many records have them, by key.

    If there are any, it also has the risk with a missing value as a value of its own, as matching every value and, where the run asks
    for it, for an intruder with a complete register; and the number of records lacking a value that reach the threshold only in the first case: they are risky because of a missing answer.
    """

    policy: str
    records: Mapping[str, Count] = field(default_factory=dict)
    own_level: RiskByMissing | None = None
    matches_anything: RiskByMissing | None = None
    register_complete: RiskByMissing | None = None
    risky_only_by_missing: Count | None = None
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class Coarser(Plain):
    """A coarser resolution at which a key was offered."""

    name: str
    levels: int


@dataclass(frozen=True, kw_only=True)
class KeySummary(Plain):
    """A key, its levels, and the coarser resolutions that models may use.

    A recoded key was read with ``values_read`` values, and is assessed and written with ``levels`` levels.
    """

    name: str
    levels: int
    recode: str = ""
    values_read: int | None = None
    ordered: bool | None = None
    missing_records: Count = 0
    coarsenings: tuple[Coarser, ...] = ()

    @property
    def is_coarser(self) -> bool:
        """Whether the key is released with fewer levels than it has values; a code that means "missing" is no coarsening."""
        return bool(self.recode) and (self.values_read is None or self.levels < self.values_read)


@dataclass(frozen=True, kw_only=True)
class CellCounts(Plain):
    """Possible and occupied cells, and the number of occupied cells of each size."""

    formal: int
    occupied: int
    size_indices: Mapping[str, Count]


@dataclass(frozen=True, kw_only=True)
class Structure(Plain):
    """Combinations that look impossible, and keys that determine others, with the evidence."""

    combinations: int
    dependencies: tuple[str, ...] = ()
    strongest: tuple[str, ...] = ()
    sets_not_searched: int = 0


# ---------------------------------------------------------------------- the model


@dataclass(frozen=True, kw_only=True)
class Vertex(Plain):
    """A key, or a coarsening of one."""

    name: str
    key: str
    levels: int


@dataclass(frozen=True, kw_only=True)
class Separator(Plain):
    variables: tuple[str, ...]
    multiplicity: int


@dataclass(frozen=True, kw_only=True)
class SearchSummary(Plain):
    """How the model was found, and what that proves; ``conclusion`` says it without a number, if it proves anything."""

    method: str
    certified_optimal: bool
    starts: int
    times_met: int
    sentence: str
    conclusion: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelSummary(Plain):
    """Structure and fit of the best single model; swaps keep its marginals. The external edition has no likelihoods."""

    vertices: tuple[Vertex, ...]
    cliques: tuple[tuple[str, ...], ...]
    separators: tuple[Separator, ...]
    degrees_of_freedom: int
    log_likelihood: float | None
    log_likelihood_kernel: float | None
    aic: float | None
    bic: float | None
    deviance: float | None = None
    criterion: str
    describe: str
    search: SearchSummary

    def __post_init__(self) -> None:
        names = {vertex.name for vertex in self.vertices}
        sets = [*self.cliques, *(separator.variables for separator in self.separators)]
        unknown = next((name for one in sets for name in one if name not in names), None)
        if unknown is not None:
            raise BadInput(
                f"A clique or separator of the model names '{unknown:.40}', which is not one of its vertices. The file was written by "
                "another program, or is damaged."
            )


# ---------------------------------------------------------------------- risk


@dataclass(frozen=True, kw_only=True)
class Histogram(Plain):
    """Sample uniques by their risk: the edges of the classes, and the records in each."""

    edges: tuple[float, ...]
    counts: tuple[Count, ...]

    def __post_init__(self) -> None:
        check_classes(self.edges, self.counts)


@dataclass(frozen=True, kw_only=True)
class EstimatorDetail(Plain):
    """An estimate of the number of population uniques; None if the estimator failed."""

    name: str
    expected_population_uniques: float | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)
    converged: bool = True
    assumes: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class FitStatistic(Plain):
    name: str
    value: float
    standard_error: float
    z: float


@dataclass(frozen=True, kw_only=True)
class SizeIndex(Plain):
    """Cells with a given number of records, observed and expected under the model."""

    size: int
    observed: int
    expected: float


@dataclass(frozen=True, kw_only=True)
class FitSummary(Plain):
    """Whether the risk is likely over- or understated; ``conclusion`` is the sentence without the numbers behind it."""

    sentence: str
    conclusion: str = ""
    statistics: tuple[FitStatistic, ...] = ()
    size_indices: tuple[SizeIndex, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CoarsenedKey(Plain):
    """The risk if a key has fewer levels.

    ``recode`` is the option that releases the key this way; ``groups`` are its levels then.
    """

    name: str
    levels: int
    recode: str = ""
    groups: tuple[str, ...] = ()
    sample_uniques: int | None = None
    expected_population_uniques: float


@dataclass(frozen=True, kw_only=True)
class KeyCostSummary(Plain):
    """The risk if a key is left out, and if it is coarser."""

    key: str
    without: float | None = None
    coarsened: tuple[CoarsenedKey, ...] = ()


@dataclass(frozen=True, kw_only=True)
class UnsafeCombination(Plain):
    """Variables that together single out a given number of records."""

    variables: tuple[str, ...]
    records: int


@dataclass(frozen=True, kw_only=True)
class HouseholdRisk(Plain):
    """Households, and how many are expected to have a member who is alone in the population, or who is matched correctly.

    The first is 1 − Π(1 − P(unique)) over the members, the second 1 − Π(1 − E(1/F)), which is sdcMicro's household risk.
    """

    households: Count
    expected_with_an_identified_member: float
    expected_with_a_correct_match: float | None = None
    above_threshold: Count


@dataclass(frozen=True, kw_only=True)
class DesignSummary(Plain):
    """The effect of unequal weights on the estimate: the estimate with equal ones, how much they vary, and the same in words."""

    with_equal_weights: float
    ratio: float
    spread: float
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Reliability(Plain):
    """How far the estimate can be trusted: a light (``green``, ``amber`` or ``red``), and why it is not green."""

    light: str
    reasons: tuple[str, ...] = ()
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class FamilyCount(Plain):
    """Households counted in a register: how many it has, how many of the file are unique in it, and the persons in these."""

    households: int
    population_uniques: Count
    correct_matches: float
    persons: Count
    is_inside_interval: bool


@dataclass(frozen=True, kw_only=True)
class FamilySummary(Plain):
    """Households as records: how many have a composition that no other household of the population has, and who lives in them.

    ``known`` says whether the run takes an intruder to know who lives with whom. ``records_above_threshold`` counts persons at the
    threshold or above, alone or with their household, and ``expected_records`` is the sum of the larger of both risks.
    """

    households: Count
    sample_uniques: Count
    expected_population_uniques: float
    expected_correct_matches: float
    expected_persons: float
    interval: Interval
    highest: float | None = None
    highest_match: float | None = None
    above_threshold: Count
    records_above_threshold: Count
    expected_records: float
    known: bool = True
    places: int
    ordered_by: tuple[str, ...] = ()
    reliability: Reliability | None = None
    register: FamilyCount | None = None
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class OtherPopulation(Plain):
    """The risk if the population had another size than the one given."""

    population: float
    expected_population_uniques: float
    expected_correct_matches: float


@dataclass(frozen=True, kw_only=True)
class KeyErrorSummary(Plain):
    """Correct links if some values differ between file and register: by equal values, and to the nearest person."""

    shares: Mapping[str, float]
    exact: float
    interval_exact: Interval
    nearest: float
    interval_nearest: Interval
    sentence: str


@dataclass(frozen=True, kw_only=True)
class RiskSummary(Plain):
    """The risk of the file, how it is distributed, and how far it can be trusted."""

    sample_uniques: Count
    expected_population_uniques: float
    expected_correct_matches: float
    interval: Interval
    interval_correct_matches: Interval
    interval_basis: str = ""
    model_error: float = 0.0
    highest: float | None = None
    highest_match: float | None = None
    threshold: float
    records_above_threshold: Count | None = None
    records_near_threshold: Count | None = None
    histogram: Histogram
    cell_probability_decades: Mapping[str, Count]
    model: str = ""
    model_describe: str = ""
    swappable_uniques: Count | None = None
    estimators: Mapping[str, float | None] = field(default_factory=dict)
    estimator_details: tuple[EstimatorDetail, ...] = ()
    diagnostics: FitSummary | None = None
    k_anonymity: Mapping[str, Count] = field(default_factory=dict)
    key_costs: tuple[KeyCostSummary, ...] = ()
    unsafe_combinations: tuple[UnsafeCombination, ...] = ()
    key_contributions: Mapping[str, float] = field(default_factory=dict)
    other_populations: tuple[OtherPopulation, ...] = ()
    key_errors: KeyErrorSummary | None = None
    fixed_records: int | None = None
    household: HouseholdRisk | None = None
    families: FamilySummary | None = None
    areas: tuple[AreaLevelSummary, ...] = ()
    finest_safe_area: str | None = None
    attributes: tuple[AttributeSummary, ...] = ()
    scenarios: tuple[ScenarioSummary, ...] = ()
    above_in_a_scenario: Count | None = None
    register: RegisterSummary | None = None
    design: DesignSummary | None = None
    reliability: Reliability | None = None
    verdict: str = ""

    @property
    def known_families(self) -> FamilySummary | None:
        """The households of the file, if an intruder knows who lives with whom."""
        return self.families if self.families is not None and self.families.known else None


@dataclass(frozen=True, kw_only=True)
class PaperModel(Plain):
    """A model that the paper's search found: its fit, how often it was found, and what it says about the sample uniques."""

    cliques: tuple[tuple[str, ...], ...]
    log_likelihood: float
    aic: float
    degrees_of_freedom: int
    times_met: int
    expected_population_uniques: float
    decades: Mapping[str, Count]
    riskiest_shared_with_best: int


@dataclass(frozen=True, kw_only=True)
class PaperTable(Plain):
    """The table of Takemura and Endo: the best models of ``starts`` climbs, compared by their ``riskiest`` records."""

    models: tuple[PaperModel, ...]
    starts: int
    riskiest: int


@dataclass(frozen=True, kw_only=True)
class FamilyTruth(Plain):
    """Families of a sample of whole households of a known population: how many are the only ones of their kind, told and true."""

    households: int
    persons: int
    keys: tuple[str, ...]
    estimate: float
    interval: Interval
    population_uniques: int
    persons_in_them: int
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class Truth(Plain):
    """The truth from a known population, if there is one."""

    population_uniques: Count
    correct_matches: float
    sentence: str = ""
    population_uniques_after: Count | None = None
    correct_matches_after: float | None = None
    families: FamilyTruth | None = None


# ---------------------------------------------------------------------- all of it


@dataclass(frozen=True, kw_only=True)
class RunSummary(Plain):
    """Everything that a run found, without any record: the contents of ``summary.json``.

    Where keys are recoded or left out, ``risk`` is that of the file without them and ``as_it_came`` that of the file before it;
    ``left_out`` are the keys that it lacks. ``labels`` has what the file says about its columns, by name.
    """

    rarecell: str
    records: Count
    population: int
    sampling_fraction: float
    records_dropped: Count = 0
    missing: MissingSummary
    notes: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[KeySummary, ...]
    cells: CellCounts
    structure: Structure | None = None
    model: ModelSummary
    risk: RiskSummary
    paper: PaperTable | None = None
    truth: Truth | None = None
    as_it_came: RiskNumbers | None = None
    left_out: tuple[str, ...] = ()
    swap: SwapSummary | None = None
    groups: tuple[GroupRisk, ...] = ()
    concentration: tuple[Concentration, ...] = ()
    provenance: Provenance | None = None
    release: ReleaseSummary | None = None

    @property
    def highest_risk(self) -> float:
        """The highest risk of a record in the file as it would be released, alone or with its family if that is known."""
        families = self.highest_risk_of_families or 0.0
        if self.swap is not None:
            return max(self.swap.risk_after.highest, families)
        # A summary that does not give the highest risk is not better for it.
        unknown = 1.0 if self.risk.records_above_threshold else 0.0
        if self.risk.register is not None:
            return max(families, 0.0 if self.risk.register.population_uniques == 0 else 1.0)
        return max(families, unknown if self.risk.highest is None else self.risk.highest)

    @property
    def highest_risk_of_families(self) -> float | None:
        """The highest risk of a household in the file as it would be released; None if nobody knows who lives with whom."""
        families, household = self.risk.known_families, None if self.swap is None else self.swap.intruder("household")
        if families is None or self.swap is None:
            return None if families is None else families.highest
        if household is None:
            return None
        return household.highest if household.highest_risk is None else household.highest_risk

    @property
    def highest_match(self) -> float | None:
        """The highest chance that a link to a record is right in the file as it would be released, or to a family that is known.

        None if the run did not compute it.
        """
        highest = self.risk.highest_match if self.swap is None else self.swap.risk_after.highest_match
        if highest is None or self.risk.known_families is None:
            return highest
        household = None if self.swap is None else self.swap.intruder("household")
        return max(highest, (self.risk.known_families.highest_match if household is None else household.highest) or 0.0)

    @property
    def smallest_group(self) -> int:
        """The smallest number of records of the file that share their key values; 0 if no record was assessed."""
        return min((int(size) for size in self.cells.size_indices), default=0)
