"""How many population uniques does a sample contain, judging from its size indices alone?

The size indices s_j (the number of cells with j records) ignore which values a record has. The estimators here therefore give
every sample unique the same probability of being a population unique; they are a comparison for the risk of single
records, not a substitute. An estimator that cannot be computed returns no number and says why.

References
----------
Ewens, W. (1972). The sampling theory of selectively neutral alleles. Theoretical Population Biology 3.
Pitman, J. (1995). Exchangeable and partially exchangeable random partitions. Probab. Theory Relat. Fields 102.
Hoshino, N. (2001). Applying Pitman's sampling formula to microdata disclosure risk assessment. J. Official Statistics 17.
Zayatz, L. (1991). Estimation of the number of unique population elements using a sample. US Bureau of the Census.
Chen, G. and Keller-McNulty, S. (1998). Estimation of identification disclosure risk in microdata. J. Official Statistics 14.
Haas, P. and Stokes, L. (1998). Estimating the number of classes in a finite population. JASA 93.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.gamma import digamma, digammas
from rarecell.errors import BadInput, PopulationTooSmall
from rarecell.machine.solving import root

_SAME_RISK = "it gives every sample unique the same risk"


@dataclass(frozen=True)
class UniquesEstimate:
    """The estimate of one estimator for the number of population uniques among the sample uniques.

    Attributes
    ----------
    name : str
        Name of the estimator, as in ``summary.json``.
    expected_population_uniques : float or None
        τ1, the expected number of sample uniques that are population uniques; None when the estimator failed.
    unique_probability : float or None
        The probability it assigns to every sample unique.
    parameters : mapping of str to float
        Fitted parameters.
    converged : bool
        Whether the equations had a solution.
    assumption : str
        What the estimator assumes, in a sentence.
    message : str
        Why there is no number, or what to bear in mind about it; may be empty.
    """

    name: str
    expected_population_uniques: float | None
    unique_probability: float | None
    parameters: Mapping[str, float]
    converged: bool
    assumption: str
    message: str = ""

    def __str__(self) -> str:
        if self.expected_population_uniques is None:
            return f"{self.name}: no estimate. {self.message}"
        fitted = ", ".join(f"{name} {value:.6g}" for name, value in self.parameters.items())
        fitted = f" ({fitted})" if fitted else ""
        text = f"{self.name}: {self.expected_population_uniques:,.3f} expected population uniques{fitted}. {self.assumption}"
        return f"{text} {self.message}".rstrip()


@dataclass(frozen=True)
class SizeIndices:
    """Size indices of a sample; of its largest cells only the number may be known.

    Attributes
    ----------
    counts : mapping of int to int
        s_j for each cell size j.
    n_records : int
        Sample size n; the sum of j·s_j unless cells of the tail are missing from ``counts``.
    n_cells : int
        Number u of occupied cells, including those of the tail.
    is_complete : bool
        Whether ``counts`` lists all records.
    """

    counts: Mapping[int, int]
    n_records: int
    n_cells: int
    is_complete: bool = field(init=False)

    def __post_init__(self) -> None:
        counts = {int(size): int(number) for size, number in sorted(self.counts.items()) if number}
        if any(size < 1 or number < 0 for size, number in counts.items()):
            raise BadInput(
                "Size indices were given with a cell size below 1 or a negative number of cells; s_j counts the cells "
                "that hold j records, so that j is 1 or more and s_j is 0 or more."
            )
        object.__setattr__(self, "counts", MappingProxyType(counts))
        listed = sum(size * number for size, number in counts.items())
        object.__setattr__(self, "is_complete", listed == self.n_records)
        if listed > self.n_records or sum(counts.values()) > self.n_cells:
            raise BadInput(
                f"The size indices list {listed:,} records in {sum(counts.values()):,} cells, more than the {self.n_records:,} "
                f"records and {self.n_cells:,} cells given. Leave both out to have them computed."
            )

    @classmethod
    def of(cls, counts: Mapping[int, int], *, n_records: int | None = None, n_cells: int | None = None) -> SizeIndices:
        """Size indices with n and u filled in from the counts where they are not given."""
        records = sum(size * number for size, number in counts.items()) if n_records is None else n_records
        cells = sum(counts.values()) if n_cells is None else n_cells
        return cls(counts, int(records), int(cells))

    @property
    def n_uniques(self) -> int:
        """s_1, the number of sample uniques."""
        return self.counts.get(1, 0)

    def arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sizes j in increasing order and their numbers s_j, as floats."""
        return np.array(list(self.counts), dtype=np.float64), np.array(list(self.counts.values()), dtype=np.float64)


def population_uniques(size_indices: Mapping[int, int] | SizeIndices, *, population: float) -> tuple[UniquesEstimate, ...]:
    """Apply every estimator of this module to one sample.

    Parameters
    ----------
    size_indices : mapping or SizeIndices
        s_j by j, such as ``table.size_indices``.
    population : float
        Population size N.

    Returns
    -------
    tuple of UniquesEstimate
        Ewens (maximum likelihood, s1 moment), Pitman (maximum likelihood, s1/u), Zayatz, slide negative binomial.
    """
    sizes = _checked(size_indices, population)
    return tuple(
        estimator(sizes, population=population)
        for estimator in (ewens, ewens_moment, pitman, pitman_ratio, zayatz, slide_negative_binomial)
    )


def ewens(size_indices: Mapping[int, int] | SizeIndices, *, population: float) -> UniquesEstimate:
    """Ewens sampling formula with θ by maximum likelihood: the sum of θ/(θ+k) over k < n equals u."""
    sizes = _checked(size_indices, population)
    n, u = sizes.n_records, sizes.n_cells
    report = _Reporter("ewens", f"Ewens' sampling formula with θ by maximum likelihood; {_SAME_RISK}.", sizes.n_uniques)
    if u >= n:
        return report.failed("Every record is alone in its cell, so that the likelihood grows with θ without bound.")
    if u <= 1:
        return report.failed("All records share one cell; θ has no positive maximum likelihood estimate.")
    theta = root_of_growing(lambda value: value * digamma_difference(value, n) - u)
    if theta is None:
        return report.failed("The likelihood equation of θ found no solution.")
    return report.solved(ewens_probability(theta, n, population), theta=theta)


def ewens_moment(size_indices: Mapping[int, int] | SizeIndices, *, population: float) -> UniquesEstimate:
    """Ewens sampling formula with θ = s1(n−1)/(n−s1), which matches the number of sample uniques."""
    sizes = _checked(size_indices, population)
    n, s1 = sizes.n_records, sizes.n_uniques
    report = _Reporter("ewens_moment", f"Ewens' sampling formula with θ from the number of sample uniques; {_SAME_RISK}.", s1)
    if s1 >= n:
        return report.failed("Every record is alone in its cell, so that θ = s1(n−1)/(n−s1) is infinite.")
    if s1 == 0:
        return report.solved(1.0, theta=0.0)
    theta = s1 * (n - 1.0) / (n - s1)
    return report.solved(ewens_probability(theta, n, population), theta=theta)


def pitman(size_indices: Mapping[int, int] | SizeIndices, *, population: float) -> UniquesEstimate:
    """Pitman's two-parameter formula by maximum likelihood, α in [0, 1), θ > −α.

    For each α the likelihood has one maximum in θ; along this ridge the derivative in α is set to zero. α = 0 is Ewens' formula.
    """
    sizes = _checked(size_indices, population)
    n, u = sizes.n_records, sizes.n_cells
    report = _Reporter("pitman", f"Pitman's sampling formula by maximum likelihood; {_SAME_RISK}.", sizes.n_uniques)
    if not sizes.is_complete:
        return report.failed("Its likelihood needs the size of every cell, but the largest cells were given in number only.")
    if u >= n:
        return report.failed("Every record is alone in its cell, so that the likelihood grows towards α = 1 without a maximum.")
    if u <= 1:
        return report.failed("All records share one cell; the likelihood has no maximum with α ≥ 0.")

    sizes_j, numbers = sizes.arrays()

    def theta_given(alpha: float) -> float | None:
        return root_of_falling(
            lambda value: reciprocal_sum(value, alpha, u) - digamma_difference(value + 1.0, n - 1.0), above=-alpha
        )

    def slope(alpha: float) -> float:
        theta = theta_given(alpha)
        if theta is None:
            return np.nan
        within = float(numbers @ (digammas(sizes_j - alpha) - digamma(1.0 - alpha)))
        return weighted_reciprocal_sum(theta, alpha, u) - within

    low, high = 1e-9, 1.0 - 1e-9
    if not slope(low) > 0.0:
        theta = theta_given(0.0)
        if theta is None:
            return report.failed("The likelihood equations found no solution.")
        return report.solved(ewens_probability(theta, n, population), "α = 0: Ewens' formula fits best.", alpha=0.0, theta=theta)
    if not slope(high) < 0.0:
        return report.failed("The likelihood grows towards α = 1 and has no maximum inside.")
    alpha = root(slope, low, high, tolerance=1e-13)
    theta = theta_given(alpha)
    if theta is None:
        return report.failed("The likelihood equations found no solution.")
    return report.solved(pitman_probability(alpha, theta, n, population), alpha=alpha, theta=theta)


def pitman_ratio(size_indices: Mapping[int, int] | SizeIndices, *, population: float) -> UniquesEstimate:
    """Pitman's formula with α = s1/u and θ from the expected number of cells, E(u) = u."""
    sizes = _checked(size_indices, population)
    n, u, s1 = sizes.n_records, sizes.n_cells, sizes.n_uniques
    report = _Reporter("pitman_ratio", f"Pitman's sampling formula with α = s1/u, θ from the number of cells; {_SAME_RISK}.", s1)
    if s1 >= u:
        return report.failed("Every cell holds one record, so that α = s1/u is 1 and lies outside the model.")
    if s1 == 0:
        return report.failed("There is no sample unique; α = 0 leaves nothing to estimate.")
    alpha = s1 / u
    theta = root_of_growing(lambda value: pitman_expected_cells(alpha, value, n) - u, above=-alpha)
    if theta is None:
        return report.failed(f"With α = {alpha:.4f} no θ gives the observed number of cells.")
    return report.solved(pitman_probability(alpha, theta, n, population), alpha=alpha, theta=theta)


def zayatz(size_indices: Mapping[int, int] | SizeIndices, *, population: float) -> UniquesEstimate:
    """Zayatz: population cells have the sizes of the sample's cells, and the sample is drawn hypergeometrically.

    P(population unique | sample unique) is s1·H(1) over the sum of s_j·H(j), where H(j) is the hypergeometric
    probability that exactly one of j units is sampled.
    """
    sizes = _checked(size_indices, population)
    s1 = sizes.n_uniques
    report = _Reporter(
        "zayatz", f"Zayatz: cells of the population have the same distribution of sizes as those of the sample; {_SAME_RISK}.", s1
    )
    if s1 == 0:
        return report.failed("There is no sample unique.")
    sizes_j, numbers = sizes.arrays()
    weights = numbers * probability_one_sampled(sizes_j, sizes.n_records, population)
    message = "" if sizes.is_complete else "Cells given in number only were left out; large ones hardly matter."
    return report.solved(float(weights[0] / weights.sum()), message)


def slide_negative_binomial(size_indices: Mapping[int, int] | SizeIndices, *, population: float) -> UniquesEstimate:
    """Slide negative binomial of Chen and Keller-McNulty: F − 1 is negative binomial over the K occupied population cells.

    K is the third Shlosser-type estimate of Haas and Stokes. Given β, equating the ratio of the expected s2 to the expected
    s1 with the observed one gives a quadratic equation in α with one positive root, which leaves one equation in β. (ARX solves
    the two equations by Newton steps from a fixed point, with a factor of the second one inverted and a parenthesis in the
    estimate of K misplaced; it returns 0 on failure.)
    """
    sizes = _checked(size_indices, population)
    n, u, s1, s2 = sizes.n_records, sizes.n_cells, sizes.n_uniques, sizes.counts.get(2, 0)
    report = _Reporter(
        "snb", f"Slide negative binomial: population cell sizes, less one, are negative binomial; {_SAME_RISK}.", s1
    )
    fraction = n / population
    if fraction >= 1.0:
        return report.solved(1.0, "The sample is the population.")
    if s1 == 0 or s2 == 0:
        return report.failed("It needs cells with one record and cells with two.")
    n_population_cells = u + _unseen_cells(sizes, fraction)
    solution = _slide_negative_binomial_parameters(n_population_cells, fraction, s1, s2, u)
    if solution is None:
        return report.failed(
            f"With an estimated {n_population_cells:,.0f} population cells no parameters give the observed numbers of cells "
            "with one and with two records."
        )
    alpha, beta = solution
    probability = n_population_cells * np.exp(alpha * np.log(beta)) * fraction / s1
    if probability > 1.0:
        return report.failed("Its solution has more population uniques in the sample than there are sample uniques.")
    return report.solved(float(probability), alpha=alpha, beta=beta, population_cells=n_population_cells)


@dataclass(frozen=True)
class _Reporter:
    name: str
    assumption: str
    n_uniques: int

    def failed(self, message: str) -> UniquesEstimate:
        return UniquesEstimate(
            name=self.name,
            expected_population_uniques=None,
            unique_probability=None,
            parameters=MappingProxyType({}),
            converged=False,
            assumption=self.assumption,
            message=message,
        )

    def solved(self, probability: float, message: str = "", **parameters: float) -> UniquesEstimate:
        if not 0.0 <= probability <= 1.0 + 1e-9:
            return self.failed("Its equations were solved, but their solution is not a probability.")
        probability = min(probability, 1.0)
        return UniquesEstimate(
            name=self.name,
            expected_population_uniques=self.n_uniques * probability,
            unique_probability=probability,
            parameters=MappingProxyType(parameters),
            converged=True,
            assumption=self.assumption,
            message=message,
        )


def _checked(size_indices: Mapping[int, int] | SizeIndices, population: float) -> SizeIndices:
    sizes = size_indices if isinstance(size_indices, SizeIndices) else SizeIndices.of(size_indices)
    if population < sizes.n_records:
        raise PopulationTooSmall.given(population, n_records=sizes.n_records)
    return sizes


def _unseen_cells(sizes: SizeIndices, fraction: float) -> float:
    """Number of population cells that the sample missed, by the third Shlosser-type estimate of Haas and Stokes (1998)."""
    j, numbers = sizes.arrays()
    squared = fraction * fraction
    log_unsampled = np.log1p(-fraction)
    numerator = np.sum(j * squared * np.exp((j - 1.0) * np.log1p(-squared)) * numbers)
    # (1−q)^j ((1+q)^j − 1) = (1−q²)^j − (1−q)^j, kept as one difference of exponentials.
    denominator = np.sum(-np.exp(j * np.log1p(-squared)) * np.expm1(-j * np.log1p(fraction)) * numbers)
    missed = np.sum(np.exp(j * log_unsampled) * numbers)
    once = np.sum(j * fraction * np.exp((j - 1.0) * log_unsampled) * numbers)
    return float(sizes.n_uniques * (numerator / denominator) * (missed / once) ** 2)


def _slide_negative_binomial_parameters(
    n_population_cells: float, fraction: float, s1: int, s2: int, u: int
) -> tuple[float, float] | None:
    """α and β for which the expected numbers of cells with one and two sampled units are s1 and s2."""

    def alpha_given(beta: float) -> float:
        thinned = (1.0 - fraction) * (1.0 - beta)
        ratio = s2 / s1
        factor = fraction * (1.0 - beta) / (2.0 * (1.0 - thinned))
        quadratic, linear, constant = factor * thinned, factor * (2.0 - thinned) - ratio * thinned, -ratio * (1.0 - thinned)
        # Of the two forms of the positive root, this is the one without cancellation.
        root = np.sqrt(linear * linear - 4.0 * quadratic * constant)
        return float(-2.0 * constant / (linear + root) if linear >= 0.0 else (root - linear) / (2.0 * quadratic))

    def excess(beta: float) -> float:
        alpha = alpha_given(beta)
        thinned = (1.0 - fraction) * (1.0 - beta)
        log_none_unseen = alpha * (np.log(beta) - np.log1p(-thinned))
        expected = np.log(n_population_cells * fraction) + log_none_unseen + np.log1p(alpha * thinned / (1.0 - thinned))
        return float(expected - np.log(s1))

    grid = 1.0 / (1.0 + np.exp(-np.linspace(-25.0, 25.0, 401)))
    signs = np.sign([excess(beta) for beta in grid])
    candidates = []
    for change in np.flatnonzero(signs[:-1] * signs[1:] < 0):
        beta = root(excess, float(grid[change]), float(grid[change + 1]), tolerance=1e-16)
        alpha = alpha_given(beta)
        thinned = (1.0 - fraction) * (1.0 - beta)
        unsampled = (1.0 - fraction) * np.exp(alpha * (np.log(beta) - np.log1p(-thinned)))
        candidates.append((abs(n_population_cells * (1.0 - unsampled) - u), alpha, beta))
    # There can be two solutions; the one that comes closer to the observed number of cells is used.
    return min(candidates)[1:] if candidates else None


# Which probabilities and sums do the sampling formulas of Ewens and Pitman, and Zayatz's estimator, depend on?


def ewens_probability(theta: float, n: float, population: float) -> float:
    return (n + theta - 1.0) / (population + theta - 1.0)


def pitman_probability(alpha: float, theta: float, n: float, population: float) -> float:
    """Γ(N+θ+α−1)Γ(n+θ) / (Γ(N+θ)Γ(n+θ+α−1)), as two ratios of neighbouring gammas."""
    return float(np.exp(log_gamma_ratio(population + theta, alpha - 1.0) - log_gamma_ratio(n + theta, alpha - 1.0)))


def pitman_expected_cells(alpha: float, theta: float, n: float) -> float:
    """E(u) = [Γ(θ+1)Γ(θ+n+α) / (Γ(θ+α)Γ(θ+n)) − θ] / α."""
    logs = log_gamma_ratio(theta + n, alpha) - log_gamma_ratio(theta + 1.0, alpha - 1.0)
    return float((np.exp(logs) - theta) / alpha)


def log_gamma_ratio(x: float, shift: float) -> float:
    """log Γ(x+shift)/Γ(x), without the cancellation of two logarithms of order x·log x."""
    total = 0.0
    while x < 30.0:
        total += np.log(x) - np.log(x + shift)
        x += 1.0
    y = x + shift

    def tail(z: float) -> float:
        return 1.0 / (12.0 * z) - 1.0 / (360.0 * z**3) + 1.0 / (1260.0 * z**5)

    return float(total + shift * np.log(x) + (y - 0.5) * np.log1p(shift / x) - shift + tail(y) - tail(x))


def digamma_difference(x: float, terms: float) -> float:
    """Sum of 1/(x+k) over k = 0, …, terms−1."""
    return float(digamma(x + terms) - digamma(x))


def reciprocal_sum(theta: float, alpha: float, u: int) -> float:
    """Sum of 1/(θ+kα) over k = 1, …, u−1."""
    if u > 200_000 and alpha > 1e-6:
        return digamma_difference(theta / alpha + 1.0, u - 1.0) / alpha
    return float(np.sum(1.0 / (theta + alpha * np.arange(1, u))))


def weighted_reciprocal_sum(theta: float, alpha: float, u: int) -> float:
    """Sum of k/(θ+kα) over k = 1, …, u−1."""
    if u > 200_000 and alpha > 1e-6:
        return (u - 1.0 - theta * reciprocal_sum(theta, alpha, u)) / alpha
    k = np.arange(1, u)
    return float(np.sum(k / (theta + alpha * k)))


def root_of_growing(function: Callable[[float], float], *, above: float = 0.0) -> float | None:
    """Root of an increasing function on (above, ∞), by an outward search on a logarithmic scale."""
    return root_of_falling(lambda value: -function(value), above=above)


def root_of_falling(function: Callable[[float], float], *, above: float) -> float | None:
    low, high = -20.0, 5.0
    if not function(above + np.exp(low)) > 0.0:
        return None
    while not function(above + np.exp(high)) < 0.0:
        low, high = high, high + 5.0
        if high > 60.0:
            return None
    logarithm = root(lambda value: function(above + math.exp(value)), low, high, tolerance=1e-14)
    return float(above + np.exp(logarithm))


def probability_one_sampled(sizes: NDArray[np.float64], n: float, population: float) -> NDArray[np.float64]:
    """Hypergeometric probability n·C(N−n, j−1)/C(N, j) that exactly one of j units is in the sample."""
    largest = int(min(sizes[-1], population - n + 1))
    j = np.arange(1, largest, dtype=np.float64)
    # Ratios of neighbouring terms, summed as logarithms: gamma functions of arguments near N would lose digits.
    steps = np.log(population - n - j + 1.0) - np.log(j) + np.log(j + 1.0) - np.log(population - j)
    logs = np.concatenate([[np.log(n / population)], np.log(n / population) + np.cumsum(steps)])
    reachable = sizes <= largest
    result = np.zeros(sizes.size)
    result[reachable] = np.exp(logs[sizes[reachable].astype(np.int64) - 1])
    return result
