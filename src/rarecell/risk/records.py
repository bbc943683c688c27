"""How likely is it that a record is the only one of its kind in the population?

A record is at risk when its combination of key values is rare. The model says how probable the cell is, the design how much
of the population was not sampled, and the formulas of :mod:`rarecell.risk.formulas` turn both into the probability that a
sample unique is a population unique, and into E(1/F), the probability that a match is correct, for every record.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell._kernels.gamma import log_gammas
from rarecell.choices import FORMS
from rarecell.errors import BadInput, KeyMismatch, UnknownChoice
from rarecell.machine.solving import minimum
from rarecell.model.protocol import CellModel, LogMoments
from rarecell.outcome.plain import Shown, in_library_of
from rarecell.risk import formulas
from rarecell.risk.design import SamplingDesign, sampling_design
from rarecell.risk.posterior import gamma_of_log_moments, posterior_match_probability, posterior_unique_probability
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    from rarecell.edges import Array, Frame, Level

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RecordRisk(Shown):
    """Identification risk of every occupied cell, and so of every record.

    Attributes
    ----------
    table : ContingencyTable
        The table of the sample.
    design : SamplingDesign
        Population size, sampling fraction of each cell, and notes on them.
    form : str
        Law of the unseen units: ``"multinomial"``, ``"poisson"`` or ``"poisson-gamma"``.
    sample_count : ndarray of int
        Number f of records in each cell.
    log_cell_probability : ndarray
        Logarithm of the model's probability of each cell, as a share of the sampled records.
    shape : float or None
        Shape of the gamma law, for ``"poisson-gamma"``.
    posterior : LogMoments or None
        Mean and variance of the logarithm of each cell's probability, for a model that says how sure it is.
    log_widening : ndarray or None
        Where a missing value is compatible with every level (:mod:`rarecell.risk.missing_values`): logarithm of the ratio of the
        probability of the compatible cells to that of the cell itself. Counts and probabilities then refer to compatible cells.
    """

    table: ContingencyTable
    design: SamplingDesign
    form: str
    sample_count: NDArray[np.int64] = field(repr=False)
    log_cell_probability: Floats = field(repr=False)
    shape: float | None = None
    posterior: LogMoments | None = field(default=None, repr=False)
    log_widening: Floats | None = field(default=None, repr=False)

    @property
    def population(self) -> float:
        """Population size N."""
        return self.design.population

    @property
    def inclusion(self) -> Floats:
        """Sampling fraction used for each cell."""
        return self.design.inclusion

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know, in sentences; usually nothing."""
        return self.design.notes

    @cached_property
    def log_population_share(self) -> Floats:
        """Logarithm of each cell's expected share of the population; under simple random sampling, its share of the sample."""
        return np.asarray(self.log_cell_probability + np.log(self.table.n_records * self.design.weight / self.population))

    @cached_property
    def n_sample_uniques(self) -> int:
        """Number of records that are alone in their cell."""
        return int((self.sample_count == 1).sum())

    @cached_property
    def expected_population_uniques(self) -> float:
        """τ1, the expected number of sample uniques that are unique in the population."""
        return float(self.unique_probability.sum())

    @cached_property
    def expected_correct_matches(self) -> float:
        """τ2, the expected number of correct matches among the sample uniques: the sum of their E(1/F)."""
        return float(self.match_probability[self.sample_count == 1].sum())

    @cached_property
    def unique_probability(self) -> Floats:
        """P(unique in the population | unique in the sample) of each cell; 0 for cells with more than one record."""
        probability = np.zeros(len(self.sample_count))
        alone = np.flatnonzero(self.sample_count == 1)
        design = self.design.at(alone)
        if self._gamma_law is not None:
            shape, scale = self._gamma_law
            probability[alone] = posterior_unique_probability(shape[alone], scale[alone], design.n_unseen)
            return probability
        log_p = self.log_cell_probability[alone] + design.log_scale
        if self.form == "multinomial":
            probability[alone] = formulas.unique_probability(log_p, design.n_unseen)
            return probability
        rate = np.exp(log_p) * design.reference_population
        if self._is_poisson:
            probability[alone] = formulas.poisson_unique_probability((1.0 - design.inclusion) * rate)
        else:
            assert self.shape is not None
            probability[alone] = formulas.gamma_unique_probability(rate, self.shape, design.inclusion)
        return probability

    @cached_property
    def standard_error(self) -> Floats | None:
        """Standard error of each unique probability due to chance in the fit, such as random orders of an average; else None."""
        if self.posterior is None or self.posterior.error is None or self._gamma_law is None:
            return None
        shape, scale = self._gamma_law
        error = np.zeros(len(shape))
        alone = np.flatnonzero(self.sample_count == 1)
        n_unseen, factor = self.design.at(alone).n_unseen, np.exp(self.posterior.error[alone])
        low = posterior_unique_probability(shape[alone], scale[alone] * factor, n_unseen)
        high = posterior_unique_probability(shape[alone], scale[alone] / factor, n_unseen)
        error[alone] = 0.5 * (high - low)
        return error

    def is_uncertain(self, threshold: float) -> NDArray[np.bool_]:
        """Whether another seed could put the sample unique of each cell on the other side of ``threshold``."""
        if self.standard_error is None:
            return np.zeros(self.table.n_cells, dtype=bool)
        # The error comes from six pairs of orders; 2.5 is the two-sided 5 % point of Student's t distribution.
        is_near = np.abs(self.unique_probability - threshold) <= 2.5 * self.standard_error
        return np.asarray((self.sample_count == 1) & is_near)

    @cached_property
    def match_probability(self) -> Floats:
        """E(1/F) of each cell."""
        design, sample_count = self.design, self.sample_count
        if self._gamma_law is not None:
            shape, scale = self._gamma_law
            return posterior_match_probability(shape, scale, design.n_unseen, sample_count)
        log_p = self.log_cell_probability + design.log_scale
        if self.form == "multinomial":
            return formulas.match_probability(log_p, design.n_unseen, sample_count)
        rate = np.exp(log_p) * design.reference_population
        if self._is_poisson:
            return formulas.poisson_match_probability((1.0 - design.inclusion) * rate, sample_count)
        assert self.shape is not None
        return formulas.gamma_match_probability(rate, self.shape, design.inclusion, sample_count)

    @property
    def _is_poisson(self) -> bool:
        return self.form == "poisson" or self.shape is None or np.isinf(self.shape)

    @cached_property
    def _gamma_law(self) -> tuple[Floats, Floats] | None:
        """Shape and scale of the posterior of each cell's probability, for a model that says how sure it is.

        The law of the unseen units follows from these, so ``form`` has no effect.
        """
        if self.posterior is None:
            return None
        return gamma_of_log_moments(self.posterior.mean + self.design.log_scale, self.posterior.variance)

    def if_population_were(self, factor: float) -> RecordRisk:
        """The same risk if the population, and each stratum of it, were ``factor`` times as large; never smaller than the sample."""
        design = self.design
        weight = np.maximum(design.weight * factor, 1.0)
        return replace(
            self,
            design=replace(
                design,
                population=max(design.population * factor, float(design.n_records)),
                weight=weight,
                reference_population=design.reference_population * (weight / design.weight),
            ),
        )

    def decades(self) -> dict[int, int]:
        """Number of sample uniques by the decade of their cell probability: −k counts 10^−k ≤ p < 10^(1−k)."""
        logs = self.log_population_share[self.sample_count == 1] / np.log(10.0)
        # A probability that is a power of ten must not fall into the lower decade because its logarithm was rounded.
        decade = np.floor(logs[np.isfinite(logs)] + 1e-12).astype(np.int64)
        decades, numbers = np.unique(decade, return_counts=True)
        return dict(zip(decades[::-1].tolist(), numbers[::-1].tolist(), strict=True))

    # ------------------------------------------------------------------ single records

    def per_record(self) -> dict[str, Array]:
        """Arrays with one entry for each record of the file, in its order.

        Keys are ``cell_count``, ``cell_probability``, ``unique_probability`` and ``match_probability``. A record that was
        dropped for a missing key has a count of 0, and NaN for the probabilities. A table built from counts has
        no records; there is then one entry for each cell.
        """
        cell = self.table.listed_cells
        dropped = cell < 0
        columns: dict[str, Array] = {"cell_count": np.where(dropped, 0, self.sample_count[cell])}
        for name, values in (
            ("cell_probability", np.exp(self.log_population_share)),
            ("unique_probability", self.unique_probability),
            ("match_probability", self.match_probability),
        ):
            columns[name] = np.where(dropped, np.nan, values[cell])
        return columns

    def riskiest(self, k: int) -> NDArray[np.int64]:
        """Numbers of the ``k`` sample uniques with the highest unique probability; ties are in the order of the cells."""
        alone = np.flatnonzero(self.sample_count == 1)
        return self._rows_of(alone[np.lexsort((alone, -self.unique_probability[alone]))[: max(k, 0)]])

    def above(self, threshold: float) -> NDArray[np.int64]:
        """Numbers of the sample uniques whose unique probability exceeds ``threshold``, in the order of the file."""
        return np.sort(self._rows_of(np.flatnonzero((self.sample_count == 1) & (self.unique_probability > threshold))))

    def cell_probability_below(self, threshold: float) -> NDArray[np.int64]:
        """Numbers of the sample uniques in cells of probability below ``threshold``, in the order of the file."""
        is_below = np.exp(self.log_population_share) < threshold
        return np.sort(self._rows_of(np.flatnonzero((self.sample_count == 1) & is_below)))

    def _rows_of(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of the only record in each of these cells."""
        of_record = self.table.record_cell
        if of_record is None:
            return np.asarray(self.table.first_row[cells])
        # The last place is for dropped records, whose cell is −1.
        is_wanted = np.zeros(self.table.n_cells + 1, dtype=bool)
        is_wanted[cells] = True
        rows = np.flatnonzero(is_wanted[of_record])
        row_of_cell = np.empty(self.table.n_cells, dtype=np.int64)
        row_of_cell[of_record[rows]] = rows
        return row_of_cell[cells]

    def to_frame(self, like: Frame = None) -> Frame:
        """One row for each record, in the dataframe library of ``like``.

        Parameters
        ----------
        like : data frame, optional
            A pandas, polars or pyarrow frame; anything else, or None, gives a pyarrow table.
        """
        columns = self.per_record()
        return in_library_of(like, {"record": np.arange(len(columns["cell_count"])), **columns})

    def __str__(self) -> str:
        return (
            f"{self.n_sample_uniques:,} of {self.table.n_records:,} records are alone with their combination of values; "
            f"{self.expected_population_uniques:,.1f} of them are expected to be unique in the population of "
            f"{self.population:,.0f}, and {self.expected_correct_matches:,.1f} to be matched correctly."
        )


def record_risk(
    table: ContingencyTable,
    model: CellModel,
    *,
    population: float | Mapping[Level, float] | None = None,
    sampling: str = "srs",
    strata: str | Sequence[Hashable] | Array | None = None,
    form: str = "multinomial",
    shape: float | None = None,
) -> RecordRisk:
    """Probability that each sample unique is unique in the population, and E(1/F) of every record.

    Parameters
    ----------
    table : ContingencyTable
        The sample.
    model : CellModel
        Decomposable, hierarchical, additive, or an average of models, fitted to this table.
    population : float or mapping, optional
        Population size N; with ``strata``, the size of each stratum. With ``sampling="weights"`` it may be omitted, and is then
        the sum of the weights.
    sampling : {"srs", "weights"}, optional
        Simple random sampling, or survey weights: a record of a cell stands for as many units as the weights of such records
        say on average.
    strata : str or sequence, optional
        Name of a key whose levels are strata: risk is then within the stratum, which the intruder knows. Or the stratum of
        each record, if it is not a key.
    form : {"multinomial", "poisson", "poisson-gamma"}, optional
        Law of the number of unseen units in a cell. The multinomial is that of Takemura and Endo. A model with a
        ``posterior`` of its own (:class:`~rarecell.model.backoff.BackoffModel`) brings its own law.
    shape : float, optional
        Shape a of the gamma law of cell rates; by default estimated by :func:`overdispersion_shape`.

    Returns
    -------
    RecordRisk
        The risk of every occupied cell.

    Examples
    --------
    >>> import numpy as np, rarecell as rc
    >>> yes_no = [rc.Categories(name, ("no", "yes")) for name in ("smokes", "coughs", "drives")]
    >>> table = rc.ContingencyTable.from_counts([[0, 0, 0], [0, 0, 1], [1, 1, 0]], [5, 4, 1], yes_no)
    >>> model = rc.DecomposableModel(table, cliques=[("smokes", "coughs")])
    >>> risk = rc.record_risk(table, model, population=30)
    >>> risk.unique_probability.round(3)
    array([0.  , 0.  , 0.29])
    >>> round(risk.expected_correct_matches, 3)
    0.577
    """
    if tuple(table.keys) != tuple(model.table.keys):
        raise KeyMismatch.between(table.keys, model.table.keys)
    if form not in FORMS:
        raise UnknownChoice.of("The form of the risk", form, tuple(FORMS))
    design = sampling_design(table, population=population, sampling=sampling, strata=strata)
    cells = None if model.table is table else table.cells
    log_p = model.log_cell_probability(cells)
    if form == "poisson-gamma" and shape is None:
        shape = overdispersion_shape(table, log_p)
    if shape is not None and not shape > 0.0:
        raise BadInput(f"The shape of the gamma law was given as {shape}; it must be a number above 0.")

    used_shape = shape if form == "poisson-gamma" else None
    return RecordRisk(table, design, form, table.counts, log_p, used_shape, model.posterior(cells))


def overdispersion_shape(table: ContingencyTable, log_cell_probability: Floats) -> float:
    """Shape of the gamma law of cell rates about the model, by maximum likelihood over the occupied cells.

    Sample counts are negative binomial with mean n·p̂ and this shape; the empty cells, which are too many to visit, are
    accounted for by conditioning on a count of at least one. Infinity means that the counts vary no more than Poisson.
    """
    mean = table.n_records * np.exp(log_cell_probability)
    count = table.counts.astype(np.float64)

    def loss(log_shape: float) -> float:
        a = np.exp(log_shape)
        log_empty = -a * np.log1p(mean / a)
        terms = log_gammas(count + a) - math.lgamma(a) + count * (np.log(mean) - np.log(a + mean)) + log_empty
        return -float(np.sum(terms - np.log(-np.expm1(log_empty))))

    low, high = np.log(1e-3), np.log(1e6)
    best = minimum(loss, low, high, tolerance=1e-6)
    return float("inf") if loss(high) <= loss(best) + 1e-6 else math.exp(best)


def household_risk(record_probability: ArrayLike, household: Sequence[Level] | Array) -> Floats:
    """Probability that at least one member of a record's household is identified, assigned to each member.

    1 − Π(1−r) over the members, as in µ-ARGUS, which treats them as independent.

    Parameters
    ----------
    record_probability : array_like
        Probability of each record, such as ``risk.per_record()["unique_probability"]``; NaN counts as 0.
    household : sequence
        Household of each record, with any labels; a record without one (None or NaN) is alone.

    Returns
    -------
    ndarray
        One probability for each record.
    """
    probability = np.nan_to_num(np.asarray(record_probability, dtype=np.float64), nan=0.0)
    labels = np.asarray(household)
    if len(labels) != len(probability):
        raise BadInput(f"{len(labels):,} households were given for {len(probability):,} records; each record needs one.")
    codes = _household_codes(labels)
    with np.errstate(divide="ignore"):
        log_safe = np.bincount(codes, weights=np.log1p(-np.minimum(probability, 1.0)), minlength=1)
    # Not −0 where no member is at risk.
    return np.asarray((0.0 - np.expm1(log_safe))[codes], dtype=np.float64)


def _household_codes(labels: Array) -> NDArray[np.int64]:
    """A code for each household; a record without one gets a code of its own."""
    if labels.dtype.kind in "iuUSb":
        return np.asarray(np.unique(labels, return_inverse=True)[1], dtype=np.int64)
    code_of: dict[Level, int] = {}
    codes = np.empty(len(labels), dtype=np.int64)
    for row, label in enumerate(labels.tolist()):
        is_missing = label is None or label != label  # NaN is the only value that differs from itself
        codes[row] = code_of.setdefault(("alone", row) if is_missing else ("household", label), len(code_of))
    return codes
