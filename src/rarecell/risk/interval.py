"""How uncertain is the number of population uniques?

Three things are uncertain: the probabilities of the model (a rare marginal rests on few records), which of several models
holds, and chance itself, because the number of population uniques varies even with known probabilities.

The first has an exact answer for a decomposable model. Under a hyper-Dirichlet prior the clique tables have independent
Dirichlet posteriors along the clique tree, so that p(i) is a product of conditional probabilities, each a ratio of gamma
variables. They are drawn once for each marginal cell, so that records which share a marginal move together. The prior's total
mass, spread evenly over the cells, is the one that makes the observed counts most probable. For an average, the weights of the
members are drawn as well, from a Dirichlet distribution with as much mass as there are members. Chance is added by drawing the
number of unseen units in each cell.

The posterior of the number of population uniques is not centred on the estimate that plugs in p̂, because the risk is a convex
function of the probability. Neither centre is right in general. The posterior's is right when the model is true: in simulations
from known decomposable models its 95 % interval held the truth in 92 to 100 % of the samples. Models selected by a penalty
overstate risk, which plugging in an averaged p̂ partly offsets. So the interval of an average is centred on its estimate, and
that of a single model spans both. The estimate of a model with its own posterior already integrates over it.

No model is true of a real file. A fourth source is how far estimates were off beyond chance on populations that are known; it
comes with back-off networks (:data:`rarecell.model.backoff.RELATIVE_ERROR`) and is drawn as well. A fifth is what the file itself
shows (:func:`model_error`): how far the estimate is off on parts of the file, with the file as the population, and how much of a key
lies in levels that the sample hardly shows. ``benchmarks/accuracy.py`` measures how often the interval holds the truth.

References
----------
Dawid, A. P. and Lauritzen, S. L. (1993). Hyper Markov laws in the statistical analysis of decomposable graphical models.
Annals of Statistics 21.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput, UnknownChoice
from rarecell.model.protocol import CellModel, Uncertainty
from rarecell.outcome.words import percent
from rarecell.risk import formulas
from rarecell.risk.diagnostics import FitDiagnostics
from rarecell.risk.records import RecordRisk

Floats = NDArray[np.float64]

CENTRES = ("both", "posterior", "estimate")

ERROR_OF_PARTS = 1.5
"""The error of the model, as a multiple of what is beyond chance on parts of the file: it grows with the step from part to whole."""

ERROR_OF_RARE_LEVELS = 0.2
"""The error of the model if all records lie in levels of :data:`FEW` records and no sample unique were a population unique."""

FEW = 5
"""Levels with fewer records than this are rare: the sample says little about the people in them."""

MOST_UNIQUES = 5_000
"""If there are more sample uniques than this, only a random part of them is drawn for, which represents all."""

_VALUES_IN_MEMORY = 4_000_000
_VALUES_IN_CACHE = 100_000
# A count that was shifted to the estimate and lies within this distance of an integer is taken to be that integer.
_ROUNDING = 1e-3


@dataclass(frozen=True)
class RiskInterval:
    """Intervals for what would be found in the population.

    Attributes
    ----------
    level : float
        Nominal coverage.
    population_uniques : tuple of float
        Interval for the number of sample uniques that are population uniques.
    correct_matches : tuple of float
        Interval for the sum of 1/F over the sample uniques.
    posterior_population_uniques, posterior_correct_matches : float
        Posterior means of τ1 and τ2.
    centre : str
        What the intervals are centred on: ``"both"``, ``"posterior"`` or ``"estimate"``.
    n_draws : int
        Number of posterior draws.
    basis : str
        What the intervals do and do not include, in a sentence.
    n_uniques : int
        Number of sample uniques, which both numbers cannot exceed.
    model_error : float
        Relative standard deviation by which the interval was widened for an error of the model; see :meth:`widened`.
    """

    level: float
    population_uniques: tuple[float, float]
    correct_matches: tuple[float, float]
    posterior_population_uniques: float
    posterior_correct_matches: float
    centre: str
    n_draws: int
    basis: str
    n_uniques: int
    model_error: float = 0.0

    def widened(self, model_error: float, estimates: tuple[float, float]) -> RiskInterval:
        """The intervals with a further error of the model; that of the matches is half as large, as in ``RELATIVE_ERROR``.

        Independent errors add up as squares: an end at a distance d from the estimate, on the logarithmic scale, moves to the
        distance √(d² + (z·error)²), for the normal quantile z of the level.
        """
        if model_error <= 0.0:
            return self
        z = NormalDist().inv_cdf(0.5 * (1.0 + self.level))
        uniques = _spread(self.population_uniques, estimates[0], z * model_error)
        matches = _spread(self.correct_matches, estimates[1], 0.5 * z * model_error)
        words = (
            f" It was widened by an error of the model of {percent(model_error)}, to which parts of the file or rare levels point."
            if model_error >= 0.005
            else ""
        )
        return replace(
            self,
            population_uniques=(
                float(np.floor(uniques[0] + _ROUNDING)),
                float(min(np.ceil(uniques[1] - _ROUNDING), self.n_uniques)),
            ),
            correct_matches=(matches[0], min(matches[1], float(self.n_uniques))),
            basis=self.basis + words,
            model_error=model_error,
        )

    @property
    def relative_deviation(self) -> float:
        """Standard deviation of the logarithm of the number of population uniques that an interval of this width has."""
        low, high = self.population_uniques
        if high <= 0.0:
            return 0.0
        return float(np.log(high / max(low, 0.5)) / (2.0 * NormalDist().inv_cdf(0.5 * (1.0 + self.level))))

    def __str__(self) -> str:
        low, high = self.population_uniques
        return f"Between {low:,.0f} and {high:,.0f} population uniques among the sample uniques ({percent(self.level)}). {self.basis}"


def _spread(ends: tuple[float, float], estimate: float, error: float) -> tuple[float, float]:
    if estimate <= 0.0:
        return ends
    low, high = ends
    below = np.inf if low <= 0.0 else max(np.log(estimate / low), 0.0)
    above = max(np.log(max(high, estimate) / estimate), 0.0)
    return float(estimate * np.exp(-np.hypot(below, error))), float(estimate * np.exp(np.hypot(above, error)))


def model_error(risk: RecordRisk, fit: FitDiagnostics) -> float:
    """Relative error of the estimate that the file itself points to, beyond what every model of its kind has.

    Three sources: the error on parts of the file beyond chance; the share of the records in rare levels of a key, as far as the
    estimate depends on the model, which it does not where nearly all sample uniques are expected to be population uniques; and
    doubles of rare records that no model of the keys expects.
    """
    if fit.is_census or not risk.n_sample_uniques:
        return 0.0
    of_parts = ERROR_OF_PARTS * fit.subsample.excess if fit.subsample is not None else 0.0
    of_repeats = float(np.log1p(fit.repeats.per_record)) if fit.repeats is not None and fit.repeats.is_suspicious else 0.0
    return float(np.sqrt(of_parts**2 + (ERROR_OF_RARE_LEVELS * dependence_on_rare_levels(risk)) ** 2 + of_repeats**2))


def dependence_on_rare_levels(risk: RecordRisk) -> float:
    """Largest share of the records in rare levels of a key, times the share of the sample uniques that are not population uniques."""
    table = risk.table
    share = 0.0
    for k, categories in enumerate(table.categories):
        counts = np.bincount(table.cells[:, k], weights=table.counts, minlength=categories.n_levels)
        share = max(share, float(counts[counts < FEW].sum() / table.n_records))
    return share * (1.0 - risk.expected_population_uniques / max(risk.n_sample_uniques, 1))


def risk_interval(
    risk: RecordRisk,
    model: CellModel,
    *,
    level: float = 0.95,
    n_draws: int = 400,
    centre: str | None = None,
    most_uniques: int = MOST_UNIQUES,
    among: NDArray[np.bool_] | None = None,
    seed: int = 0,
) -> RiskInterval:
    """Interval for the number of population uniques among the sample uniques, and for their correct matches.

    Parameters
    ----------
    risk : RecordRisk
        The risk of the file under ``model``.
    model : CellModel
        A model of its cells. Its ``draws`` vary as much as the model is unsure. Its ``relative_error``, if it has one, says how
        far the estimates of both numbers are off beyond chance, as relative standard deviations.
    level : float, optional
        Nominal coverage.
    n_draws : int, optional
        Number of posterior draws.
    centre : {"both", "posterior", "estimate"}, optional
        ``"posterior"`` is the posterior as it is, ``"estimate"`` the posterior shifted to the estimate of ``risk``, and
        ``"both"`` spans the two. By default ``"estimate"`` for an average or a model with its own posterior, else ``"both"``.
    most_uniques : int, optional
        If there are more sample uniques than this, only a random part of them is drawn for.
    among : array of bool, optional
        Cells whose uniques are meant, such as those that remain after swaps; all by default.
    seed : int, optional
        Seed of the draws.

    Returns
    -------
    RiskInterval
        Both intervals and what they rest on.
    """
    if centre is None:
        centre = "estimate" if model.members or risk.posterior is not None else "both"
    if centre not in CENTRES:
        raise UnknownChoice.of("The centre of the interval", centre, CENTRES)
    if not 0.0 < level < 1.0:
        raise BadInput(f"The level of the interval was given as {level}; it must be a probability between 0 and 1, such as 0.95.")
    rng = np.random.default_rng(seed)
    uniques = np.flatnonzero((risk.sample_count == 1) & (True if among is None else among))
    drawn = uniques
    if len(uniques) > most_uniques:
        drawn = np.sort(rng.choice(uniques, most_uniques, replace=False))
    expected, realised = _drawn_sums(risk, model, drawn, n_draws, rng)
    tau, drawn_numbers = expected.of_all(len(uniques)), realised.of_all(len(uniques))
    error = model.relative_error
    # Where everybody was sampled there is nothing left to err about.
    if error is not None and (risk.design.n_unseen[uniques] > 0.0).any():
        drawn_numbers = drawn_numbers * np.exp(np.outer(rng.standard_normal(len(drawn_numbers)), error))
    estimate = np.array([risk.expected_population_uniques, risk.expected_correct_matches])
    if among is not None:
        estimate = np.array([risk.unique_probability[uniques].sum(), risk.match_probability[uniques].sum()])
    mean = tau.mean(axis=0)
    factor = np.divide(estimate, mean, out=np.ones(2), where=mean > 0.0)
    ends = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
    moved = {"posterior": [np.ones(2)], "estimate": [factor], "both": [np.ones(2), factor]}[centre]
    # These are counts of records, so the ends are moved outwards to the next number that can occur.
    low = np.min([np.quantile(drawn_numbers * f, ends[0], axis=0, method="lower") for f in moved], axis=0)
    high = np.max([np.quantile(drawn_numbers * f, ends[1], axis=0, method="higher") for f in moved], axis=0)
    return RiskInterval(
        level,
        (float(np.floor(low[0] + _ROUNDING)), float(min(np.ceil(high[0] - _ROUNDING), len(uniques)))),
        (float(low[1]), float(min(high[1], len(uniques)))),
        float(mean[0]),
        float(mean[1]),
        centre,
        n_draws,
        _basis(model.uncertainty, error)
        + (
            ""
            if len(drawn) == len(uniques)
            else f" A random {len(drawn):,} of the {len(uniques):,} uniques represent all of them."
        ),
        len(uniques),
    )


def _drawn_sums(
    risk: RecordRisk, model: CellModel, drawn: NDArray[np.int64], n_draws: int, rng: np.random.Generator
) -> tuple[_SumsOfUniques, _SumsOfUniques]:
    """Expected and realised numbers of both kinds over the drawn uniques, for each draw of the model's probabilities."""
    expected, realised = _SumsOfUniques(len(drawn)), _SumsOfUniques(len(drawn))
    step = max(1, _VALUES_IN_MEMORY // max(len(drawn), 1))
    for start in range(0, n_draws, step):
        log_p = model.draws(risk.table.cells[drawn], min(step, n_draws - start), rng)
        if risk.log_widening is not None:
            log_p = log_p + risk.log_widening[drawn]
        n_rows = max(1, _VALUES_IN_CACHE // max(len(drawn), 1))
        for first in range(0, len(log_p), n_rows):
            of_expected, of_realised = _one_chunk(risk, drawn, np.ascontiguousarray(log_p[first : first + n_rows]), rng)
            expected.add(*of_expected)
            realised.add(*of_realised)
    return expected, realised


class _SumsOfUniques:
    """Sums of two quantities over the drawn uniques, for each draw."""

    def __init__(self, n_drawn: int) -> None:
        self.n_drawn = n_drawn
        self._sums = [np.zeros((0, 2))]
        self._first, self._second = np.zeros((2, n_drawn)), np.zeros((2, n_drawn))

    def add(self, *values: Floats) -> None:
        """Add values of both quantities: one row for each draw, one column for each unique."""
        self._sums.append(np.stack([quantity.sum(axis=1) for quantity in values], axis=1).astype(np.float64))
        for k, quantity in enumerate(values):
            self._first[k] += quantity.sum(axis=0)
            self._second[k] += (quantity**2).sum(axis=0)

    def of_all(self, n_uniques: int) -> Floats:
        """Sums over all uniques, of which the drawn ones are a random part.

        The variance of a sum consists of the uniques' own variances, which grow with their number, and of what they share,
        which grows with its square; scaling up the sums of the part would overstate the former.
        """
        sums = np.concatenate(self._sums)
        if n_uniques == self.n_drawn:
            return sums
        n, m = float(n_uniques), float(self.n_drawn)
        own = (self._second / len(sums) - (self._first / len(sums)) ** 2).sum(axis=1)
        variance = sums.var(axis=0)
        whole_variance = own * n / m + np.maximum(variance - own, 0.0) * n * (n - 1.0) / (m * (m - 1.0))
        stretch = np.sqrt(np.divide(whole_variance, variance, out=np.ones(2), where=variance > 0.0))
        return np.asarray(sums.mean(axis=0) * n / m + (sums - sums.mean(axis=0)) * stretch)


def _one_chunk(
    risk: RecordRisk, uniques: NDArray[np.int64], log_p: Floats, rng: np.random.Generator
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """What each unique adds to τ1 and τ2 in each draw, and what is realised in a population drawn along with it."""
    design = risk.design
    rate = np.exp(log_p + design.log_scale[uniques]) * design.reference_population[uniques]
    fraction = design.inclusion[uniques]
    unseen = (1.0 - fraction) * rate
    if risk.form == "poisson-gamma" and risk.shape is not None and np.isfinite(risk.shape):
        shape = risk.shape
        unique = formulas.gamma_unique_probability(rate, shape, fraction)
        match = formulas.gamma_match_probability(rate, shape, fraction)
        # Given that one unit was sampled, the rate is gamma with shape a + 1.
        unseen = (1.0 - fraction) * rng.standard_gamma(shape + 1.0, rate.shape) / (shape / rate + fraction)
    else:
        # A sample unique is rare, so binomial and Poisson numbers of unseen units are practically the same.
        unique, match = np.exp(-unseen), formulas.poisson_match_probability(unseen)
    n_unseen = rng.poisson(np.minimum(unseen, 1e15))
    return (unique, match), ((n_unseen == 0).astype(np.float64), np.asarray(1.0 / (1.0 + n_unseen), dtype=np.float64))


def _basis(uncertainty: Uncertainty, error: tuple[float, float] | None) -> str:
    if error is not None:
        return f"It accounts for chance, the uncertainty of the model's probabilities, and the error of such models on known populations, {100 * error[0]:.0f} %."
    if uncertainty is Uncertainty.NONE:
        return "It accounts for chance in the population only, because the model has no posterior."
    if uncertainty is Uncertainty.PARTLY:
        return (
            "It accounts for chance and, for those members that are decomposable, the uncertainty of the model's probabilities."
        )
    return "It accounts for chance and the uncertainty of the model's probabilities, but not for interactions that the model may miss."
