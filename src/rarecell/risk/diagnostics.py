"""Does the model overstate or understate risk?

A model that misses interactions spreads the records over more cells than there really are, so cells look rarer than they are.
A model with too many interactions follows the accidents of the sample and makes its uniques look common. The minimum-error
statistics of Skinner and Shlomo tell the two apart from the sample counts of all cells, including the empty ones. They are a
test, and too noisy for correcting an estimate. Comparing the number of sample uniques with the number that the model expects
says the same in another way, and says it better when the model has too many interactions; the verdict uses both.

Both concern the risk that plugs in p̂. A model that integrates over its uncertainty is judged by what it says about a population
that is known: the file itself. Parts of a twentieth of the records are drawn, the model is fitted to each, with coarsenings learned
anew, and the number of its uniques that are expected to be unique in the file is compared with the number that are. A sample of whole
households is thinned by households: relatives come into a part together, as they came into the file. Both the size of
the difference and its significance count: in a large file, a difference of one per cent is significant and does not matter.

If the table is small, all empty cells are visited. If it is large, cells are drawn from the model instead: the sum of
T(p) over the empty cells is their total probability, which is known, times the mean of T(p)/p over draws that are empty.

References
----------
Skinner, C. and Shlomo, N. (2008). Assessing identification risk in survey microdata using log-linear models. JASA 103.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import factorial
from statistics import NormalDist
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import KeyMismatch, PopulationTooSmall
from rarecell.model.backoff_conditionals import are_drawn_together
from rarecell.model.protocol import CellModel
from rarecell.risk.records import record_risk
from rarecell.table.coarsening import relearned
from rarecell.table.contingency import ContingencyTable
from rarecell.table.subsample import drawn_counts, part_of, part_with_records, parts_by_household

Floats = NDArray[np.float64]

N_SIZES = 10
"""Size indices are compared up to this size."""

MOST_IN_A_PART = 10_000
"""Largest number of records in a part of the file to which the model is refitted; more would take longer and tell no more."""

LEAST_IN_A_PART = 100
"""Parts of small files have this many records, because fewer tell nothing."""

NOTABLE_ERROR = 0.1
"""An error on parts of the file that matters, as the logarithm of expected over observed."""

LARGE_ERROR = 0.18
"""An error on parts of the file, a fifth, from which the estimate is not to be relied on."""

NEARLY_SURE = 0.9
"""Records of a part with this probability to be unique in the file are rare: few of them have a double."""

MANY_DEVIATIONS = 4.0
"""Excess of doubles among rare records, in standard deviations, that is more than a slight misfit of the model."""

NOTABLE_DOUBLES = 0.2
"""Doubles of a rare record in the population, beyond those expected, that matter. Populations without copies had up to 0.18."""

MANY_DOUBLES = 0.25
"""Doubles of a rare record in the population, beyond those expected, from which risk is overstated by about a fifth."""

EXACT_UP_TO = 500_000
_CHUNK = 1 << 16
_N_TERMS = 5 + N_SIZES


@dataclass(frozen=True)
class MinimumErrorTest:
    """One statistic of Skinner and Shlomo, positive when the risk is overstated.

    Attributes
    ----------
    statistic : float
        B, an estimate of the bias in τ1 or τ2 caused by a wrong model.
    variance : float
        Its variance when the model is right.
    sampling_error : float
        Standard error of ``statistic`` due to drawing cells; 0 if all cells were visited.
    """

    statistic: float
    variance: float
    sampling_error: float = 0.0

    @property
    def z(self) -> float:
        """The statistic in units of its standard deviation."""
        deviation = np.sqrt(self.variance + self.sampling_error**2)
        return float(self.statistic / deviation) if deviation > 0.0 else 0.0

    def __str__(self) -> str:
        return f"{self.statistic:.2f} (standard deviation {np.sqrt(self.variance):.2f}, z = {self.z:.2f})"


ENOUGH_UNIQUES = 4_000
"""Once so many uniques of parts are found to be unique in the file, chance is below one in sixty, and further parts say little more."""


@dataclass(frozen=True)
class Repeats:
    """Rare records of parts of the file that have a double in it, against the number that the model expects.

    A record that the model takes for nearly surely unique in the file seldom has a double there. In a population of copies, or one that
    records the same unit again and again, rare records have doubles as often as common ones, and no model of the keys expects them.

    Attributes
    ----------
    n_records : int
        Number of records of the parts with a probability of :data:`NEARLY_SURE` or more to be the only ones of their kind in the file.
    expected, observed : float
        Number of these that should have a double in the file, and number that have.
    fraction : float
        Share of the population that is in the file, and so of the doubles.
    """

    n_records: int
    expected: float
    observed: float
    fraction: float

    @property
    def z(self) -> float:
        """Excess of doubles in standard deviations."""
        return float((self.observed - self.expected) / np.sqrt(self.expected + 1.0))

    @property
    def per_record(self) -> float:
        """Doubles of a rare record in the population that the model does not expect, at least: two standard deviations are taken off."""
        surely = self.observed - self.expected - 2.0 * np.sqrt(max(self.observed, self.expected) + 1.0)
        return float(max(surely, 0.0) / max(self.n_records * self.fraction, 1e-9))

    @property
    def is_suspicious(self) -> bool:
        """Whether there are far more doubles than expected, and so many that they matter."""
        return self.z > MANY_DEVIATIONS and self.per_record > NOTABLE_DOUBLES

    @property
    def is_large(self) -> bool:
        """Whether so many records have doubles that the estimate is likely off by a fifth or more."""
        return self.is_suspicious and self.per_record > MANY_DOUBLES

    def __str__(self) -> str:
        numbers = (
            f"Of {self.n_records:,} rare records in parts of the file, {self.observed:,.0f} have a double in it, where {self.expected:,.0f} were "
            "expected."
        )
        if self.per_record > 1.0:
            return (
                f"{numbers} So many point to a file that holds the same people twice. A double hides that its record is unique, so the risk is "
                "understated: remove the doubles and assess the file again. If the population itself repeats its records as often, the risk is "
                "overstated."
            )
        return (
            f"{numbers} The population seems to hold copies, or the same unit again and again; the risk is then overstated. If instead "
            "the file holds the same people twice, it is understated: remove the doubles and assess the file again."
        )


@dataclass(frozen=True)
class SubsampleCheck:
    """The estimator applied to random parts of the file, with the file as the population.

    Attributes
    ----------
    expected, observed : float
        Number of uniques of a part expected to be unique in the file, and number that are; means over the parts.
    deviation : float
        Standard deviation of ``observed`` in a single part if the expected probabilities are right.
    n_records : int
        Number of records in a part; the mean if households were drawn.
    n_parts : int
        Number of parts, which have no record in common.
    rare : tuple of float
        Number of records of the parts that are nearly sure to be unique in the file, the number of them expected to have a double there,
        and the number that have.
    """

    expected: float
    observed: float
    deviation: float
    n_records: int
    n_parts: int
    rare: tuple[int, float, float] = (0, 0.0, 0.0)

    @property
    def z(self) -> float:
        """Expected minus observed, in standard deviations; positive when risk is overstated."""
        deviation = self.deviation / np.sqrt(self.n_parts)
        return float((self.expected - self.observed) / deviation) if deviation > 0.0 else 0.0

    @property
    def log_ratio(self) -> float:
        """Logarithm of expected over observed; one record more in both keeps it finite."""
        return float(np.log((self.n_parts * self.expected + 1.0) / (self.n_parts * self.observed + 1.0)))

    @property
    def score(self) -> float:
        """:attr:`z` where the difference is large enough to matter, else 0."""
        return self.z if abs(self.log_ratio) > NOTABLE_ERROR else 0.0

    @property
    def excess(self) -> float:
        """What the size of :attr:`log_ratio` exceeds beyond chance and beyond a small error, which parts always show."""
        chance = self.deviation * np.sqrt(self.n_parts) / (self.n_parts * self.observed + 1.0)
        return float(max(abs(self.log_ratio) - 0.5 * NOTABLE_ERROR - 2.0 * chance, 0.0))

    def __str__(self) -> str:
        return (
            f"of {self.n_records:,} records drawn from the file, {self.observed:,.0f} are the only ones of their kind in it, "
            f"{self.expected:,.0f} were expected"
        )


@dataclass(frozen=True)
class FitDiagnostics:
    """Checks of those aspects of a model's fit that matter for risk.

    Attributes
    ----------
    unique_test, match_test : MinimumErrorTest or None
        B1 for the expected population uniques τ1, B2 for the expected correct matches τ2; None if they do not apply to the model.
    observed_sizes, expected_sizes : mapping of int to number
        Size indices s_1, s_2, … of the sample, and their expected values under the model with Poisson sampling; the latter are
        empty if the tests do not apply.
    uniques_z : float
        Expected minus observed number of sample uniques, in standard deviations; positive when the risk is overstated.
    is_exact : bool
        Whether all cells were visited rather than a random draw of them.
    n_draws : int
        Number of cells drawn from the model; 0 when ``is_exact``.
    subsample : SubsampleCheck or None
        The check on parts of the file, if the model could be refitted.
    is_plugged_in : bool
        Whether the risk is computed from p̂ alone; the tests do not apply to a model that integrates over its uncertainty.
    is_census : bool
        Whether the sample is the whole population.
    repeats : Repeats or None
        Doubles of rare records, if the model could be refitted.
    """

    unique_test: MinimumErrorTest | None
    match_test: MinimumErrorTest | None
    observed_sizes: Mapping[int, int]
    expected_sizes: Mapping[int, float]
    uniques_z: float
    is_exact: bool
    n_draws: int = 0
    subsample: SubsampleCheck | None = None
    is_plugged_in: bool = True
    is_census: bool = field(default=False, repr=False)
    repeats: Repeats | None = None

    @property
    def scores(self) -> tuple[tuple[float, str], ...]:
        """All checks that apply to the model: by how many standard deviations risk is overstated, and the same in words."""
        scores = []
        if self.is_plugged_in and self.unique_test is not None:
            scores.append((self.unique_test.z, f"Skinner and Shlomo's z = {self.unique_test.z:.1f}"))
            uniques = f"{self.observed_sizes[1]:,} sample uniques, {self.expected_sizes[1]:,.0f} expected"
            scores.append((self.uniques_z, uniques))
        if self.subsample is not None:
            scores.append((self.subsample.score, str(self.subsample)))
        return tuple(scores)

    @property
    def suspicious_from(self) -> float:
        """Number of standard deviations that one file in twenty exceeds on some check although the model is right."""
        return -NormalDist().inv_cdf(0.025 / max(len(self.scores), 1))

    @property
    def is_suspicious(self) -> bool:
        """Whether any check speaks against the model."""
        return not self.is_census and any(abs(score) > self.suspicious_from for score, _ in self.scores)

    @property
    def is_refuted(self) -> bool:
        """Whether a test speaks against the model, or parts of the file show an error of a fifth or more."""
        if not self.is_suspicious:
            return False
        only_parts = len(self.scores) == 1 and self.subsample is not None
        return not only_parts or (self.subsample is not None and abs(self.subsample.log_ratio) >= LARGE_ERROR)

    @property
    def verdict(self) -> str:
        """A sentence on whether the risk is likely over- or understated."""
        if self.is_census:
            return "The sample is the whole population, so that no model is needed and nothing can be over- or understated."
        if not self.scores:
            return "Whether the risk is over- or understated was not checked: the model was not fitted to parts of the file."
        return self._worded(f" ({'; '.join(said for _, said in self.scores)})")

    @property
    def conclusion(self) -> str:
        """The same without the numbers behind it."""
        return self._worded("") if self.scores and not self.is_census else self.verdict

    def _worded(self, numbers: str) -> str:
        suspicious = self.suspicious_from
        low, high = min(score for score, _ in self.scores), max(score for score, _ in self.scores)
        if high > suspicious and low < -suspicious:
            return f"The model does not fit, and the checks do not agree which way{numbers}: the risk may be off either way."
        if high > suspicious:
            return f"The model misses some dependence between the keys{numbers}: the risk is likely overstated."
        if low < -suspicious:
            return f"The model follows the sample too closely{numbers}: the risk is likely understated."
        return f"The sample gives no sign that the risk is over- or understated{numbers}."

    def __str__(self) -> str:
        return self.verdict


def fit_diagnostics(
    table: ContingencyTable,
    model: CellModel,
    *,
    population: float,
    refit: Callable[..., CellModel] | None = None,
    household: NDArray[np.int64] | None = None,
    exact_up_to: int = EXACT_UP_TO,
    n_draws: int = 20_000,
    seed: int = 0,
) -> FitDiagnostics:
    """Skinner–Shlomo statistics and expected size indices of a model.

    Parameters
    ----------
    table : ContingencyTable
        The sample, treated as drawn at random with the fraction n/N.
    model : CellModel
        A model of its cells; must be able to draw cells when the table has more than ``exact_up_to`` of them.
    population : float
        Population size N.
    refit : callable, optional
        Fits a model of the same kind to another table with the same keys; needed for the check on parts of the file.
    household : array of int, optional
        Household of each record; see :func:`subsample_check`.
    exact_up_to : int, optional
        Up to this many cells, all cells are visited; in a larger table, cells are drawn.
    n_draws : int, optional
        Number of cells to draw when the table is too large to visit all of them.
    seed : int, optional
        Seed of the draws.

    Returns
    -------
    FitDiagnostics
        The statistics and their verdict.

    Notes
    -----
    With λ = N·p̂ and h(λ) the risk of a unique, B = Σ πλe^(−πλ) {−h'(λ)(f−πλ)/π + h''(λ)[(f−πλ)²−f]/(2π²)} over all cells,
    including those with f = 0. For h(λ) = exp(−(1−π)λ) this is B1 of Skinner and Shlomo; for E(1/F) it is their B2.
    """
    if tuple(table.keys) != tuple(model.table.keys):
        raise KeyMismatch.between(table.keys, model.table.keys)
    if population < table.n_records:
        raise PopulationTooSmall.given(population, n_records=table.n_records)
    fraction = table.n_records / population
    sizes = range(1, N_SIZES + 1)
    observed = MappingProxyType({j: table.size_indices.get(j, 0) for j in sizes})
    subsample = None if refit is None else subsample_check(table, refit, household=household, seed=seed)
    repeats = None if subsample is None else Repeats(*subsample.rare, fraction)
    if model.posterior() is not None:
        return FitDiagnostics(
            unique_test=None,
            match_test=None,
            observed_sizes=observed,
            expected_sizes=MappingProxyType({}),
            uniques_z=0.0,
            is_exact=False,
            subsample=subsample,
            is_plugged_in=False,
            is_census=fraction >= 1.0,
            repeats=repeats,
        )

    def terms(probability: Floats, count: NDArray[np.int64] | int) -> Floats:
        return _terms(probability * population, np.asarray(count, dtype=np.float64), fraction)

    of_occupied = np.exp(model.log_cell_probability(None if model.table is table else table.cells))
    occupied = terms(of_occupied, table.counts).sum(axis=0)
    is_exact = table.n_formal_cells <= exact_up_to
    if is_exact:
        empty, error = _visit_empty(table, model, terms), np.zeros(len(occupied))
    else:
        rng = np.random.default_rng(seed)
        empty, error = _draw_empty(table, model, terms, max(0.0, 1.0 - float(of_occupied.sum())), n_draws, rng)
    total = occupied + empty
    deviation = np.sqrt(total[4] + error[5] ** 2)
    return FitDiagnostics(
        unique_test=MinimumErrorTest(float(total[0]), float(total[1]), float(error[0])),
        match_test=MinimumErrorTest(float(total[2]), float(total[3]), float(error[2])),
        observed_sizes=observed,
        expected_sizes=MappingProxyType({j: float(total[4 + j]) for j in sizes}),
        uniques_z=float((total[5] - table.size_indices.get(1, 0)) / deviation) if deviation > 0.0 else 0.0,
        is_exact=is_exact,
        n_draws=0 if is_exact else n_draws,
        subsample=subsample,
        is_plugged_in=True,
        is_census=fraction >= 1.0,
        repeats=repeats,
    )


def subsample_check(
    table: ContingencyTable,
    refit: Callable[..., CellModel],
    *,
    household: NDArray[np.int64] | None = None,
    fraction: float = 0.05,
    n_parts: int = 6,
    seed: int = 0,
) -> SubsampleCheck | None:
    """On random parts of the file, estimate how many of their uniques are unique in the file, and count how many are.

    Parameters
    ----------
    table : ContingencyTable
        The file, treated as a population.
    refit : callable
        Fits a model to a table with the same keys. Each part is a file of its own: learned coarsenings were learned from it.
        If households are drawn, it is given those of the part's records as ``household``.
    household : array of int, optional
        Household of each record. If the sample drew households (:func:`~rarecell.model.backoff_conditionals.are_drawn_together`), so do the parts.
    fraction : float, optional
        Share of the records in a part, between :data:`LEAST_IN_A_PART` and :data:`MOST_IN_A_PART` records, and at most half of them.
    n_parts : int, optional
        Number of parts to draw, as far as there are enough records, and until :data:`ENOUGH_UNIQUES` were counted; they have none
        in common.
    seed : int, optional
        Seed of the parts.

    Returns
    -------
    SubsampleCheck or None
        None when a part would have fewer than two records.
    """
    rng = np.random.default_rng(seed)
    n_records = min(max(round(fraction * table.n_records), LEAST_IN_A_PART), MOST_IN_A_PART, table.n_records // 2)
    if n_records < 2:
        return None
    by_part, sizes, rare = [], [], np.zeros(3)
    for counts, model in _fitted_parts(table, refit, household, n_records, n_parts, rng):
        drawn = np.flatnonzero(counts)
        sizes.append(counts.sum())
        probability = record_risk(model.table, model, population=table.n_records).unique_probability
        # The cells of the part keep their order, so the file's counts at ``drawn`` line up with those of the part.
        is_unique = (counts[drawn] == 1) & (table.counts[drawn] == 1)
        by_part.append((probability.sum(), is_unique.sum(), np.sqrt(np.sum(probability * (1.0 - probability)))))
        is_rare = (counts[drawn] == 1) & (probability >= NEARLY_SURE)
        rare += is_rare.sum(), (1.0 - probability[is_rare]).sum(), (~is_unique[is_rare]).sum()
        if sum(observed for _, observed, _ in by_part) >= ENOUGH_UNIQUES:
            break
    expected, observed, deviation = np.mean(by_part, axis=0)
    doubles = int(rare[0]), float(rare[1]), float(rare[2])
    return SubsampleCheck(float(expected), float(observed), float(deviation), round(np.mean(sizes)), len(by_part), doubles)


def _fitted_parts(
    table: ContingencyTable,
    refit: Callable[..., CellModel],
    household: NDArray[np.int64] | None,
    n_records: int,
    n_parts: int,
    rng: np.random.Generator,
) -> Iterator[tuple[NDArray[np.int64], CellModel]]:
    """For each part, the number of its records in each cell of the file, and the model of the part."""
    if household is not None and table.record_cell is not None:
        is_counted = table.record_cell >= 0
        if are_drawn_together(np.unique(household[is_counted], return_counts=True)[1]):
            for records in parts_by_household(table, household, n_records, n_parts, rng):
                part = relearned(replace(part_with_records(table, records), weights=None))
                counts = np.bincount(table.record_cell[records], minlength=table.n_cells)
                yield counts, refit(part, household=household[records])
            return
    left = table.counts.copy()
    for _ in range(min(n_parts, table.n_records // n_records)):
        counts = drawn_counts(left, n_records, rng)
        left -= counts
        yield counts, refit(relearned(replace(part_of(table, counts), weights=None)))


def _terms(rate: Floats, count: Floats, fraction: float) -> Floats:
    """One row per cell: B1, its variance, B2, its variance, the variance of s_1, and the Poisson probabilities of 1, 2, …"""
    mean = fraction * rate
    unseen = (1.0 - fraction) * rate
    columns = np.empty((len(rate), _N_TERMS))
    first_moment = (np.exp(-unseen), _moment(unseen, 1))
    second_moment = (np.exp(-unseen), _moment(unseen, 2))
    for k in range(2):
        slope = (1.0 - fraction) * rate * np.exp(-mean) * first_moment[k]
        curvature = (1.0 - fraction) ** 2 * rate * np.exp(-mean) * second_moment[k] / (2.0 * fraction)
        columns[:, 2 * k] = slope * (count - mean) + curvature * ((count - mean) ** 2 - count)
        columns[:, 2 * k + 1] = slope**2 * mean + 2.0 * curvature**2 * mean**2
    sizes = np.arange(1.0, N_SIZES + 1)[None, :]
    factorials = np.array([factorial(size) for size in range(1, N_SIZES + 1)])
    with np.errstate(divide="ignore"):
        columns[:, 5:] = np.exp(sizes * np.log(mean)[:, None] - mean[:, None]) / factorials
    columns[:, 4] = columns[:, 5] * (1.0 - columns[:, 5])
    return columns


def _moment(rate: Floats, order: int) -> Floats:
    """Integral of t^order·exp(−rate·t) over the unit interval: the derivatives of (1−e^−x)/x without cancellation.

    Below one it is the sum of (−rate)^j / (j!·(order+j+1)). Above, integration by parts takes it back to the order below.
    """
    series = np.polyval([(-1) ** j / (factorial(j) * (order + j + 1)) for j in range(18, -1, -1)], np.minimum(rate, 1.0))
    safe = np.maximum(rate, 1.0)
    by_parts = -np.expm1(-safe) / safe
    for lower in range(1, order + 1):
        by_parts = (lower * by_parts - np.exp(-safe)) / safe
    return np.where(rate < 1.0, series, by_parts)


def _visit_empty(table: ContingencyTable, model: CellModel, terms: Callable[[Floats, int], Floats]) -> Floats:
    total = np.zeros(_N_TERMS)
    for cells in _all_cells(table):
        probability = np.exp(model.log_cell_probability(cells))
        is_empty = (_counts_of(table, cells) == 0) & (probability > 0.0)
        total += terms(probability[is_empty], 0).sum(axis=0)
    return total


def _draw_empty(
    table: ContingencyTable,
    model: CellModel,
    terms: Callable[[Floats, int], Floats],
    empty_probability: float,
    n_draws: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Estimated sum of the terms over empty cells, and its standard error."""
    cells = model.sample(n_draws, rng)
    empty = cells[_counts_of(table, cells) == 0]
    if len(empty) < 2:
        return np.zeros(_N_TERMS), np.zeros(_N_TERMS)
    probability = np.exp(model.log_cell_probability(empty))
    ratios = terms(probability, 0) / probability[:, None]
    return empty_probability * ratios.mean(axis=0), empty_probability * ratios.std(axis=0) / np.sqrt(len(empty))


def _counts_of(table: ContingencyTable, cells: NDArray[np.int32]) -> NDArray[np.int64]:
    everything = table.all_keys
    return np.asarray(table.marginals.lookup(everything, cells))


def _all_cells(table: ContingencyTable) -> Iterator[NDArray[np.int32]]:
    shape = tuple(categories.n_levels for categories in table.categories)
    for start in range(0, table.n_formal_cells, _CHUNK):
        number = np.arange(start, min(start + _CHUNK, table.n_formal_cells))
        yield np.stack(np.unravel_index(number, shape), axis=1).astype(np.int32)
