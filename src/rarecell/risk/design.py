"""How was the sample drawn, as far as a cell's risk is concerned?

A cell's risk needs three numbers of the design: the fraction of the cell that was sampled, the size of the population its
probability refers to, and the factor that turns the model's probability into one of that population.

* Simple random sampling: π = n/N everywhere.
* Survey weights: π of a cell is its number of records over the sum of their weights. A model fitted to the weights speaks of
  the population already; one fitted to the plain counts speaks of the sample, and n·p̂/π is the expected population count.
* Strata that are a key: the intruder knows the stratum, so that uniqueness is a matter of the stratum alone, with its own n
  and N and the probability given the stratum.
* Strata that are not a key: a cell mixes strata, each record stands for N_h/n_h units, and these are used as weights.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput, PopulationTooSmall, UnknownChoice
from rarecell.model.protocol import CellModel
from rarecell.table.contingency import ContingencyTable

Floats = NDArray[np.float64]

SAMPLINGS = ("srs", "weights")


@dataclass(frozen=True, eq=False)
class SamplingDesign:
    """What the risk of each cell needs to know of the design.

    Attributes
    ----------
    population : float
        Population size N.
    inclusion : ndarray
        Fraction π of each cell's population that was sampled, at most one.
    reference_population : ndarray
        Size of the population that the probability of a cell refers to: N, or that of its stratum.
    log_scale : ndarray
        To be added to the model's log cell probability to refer it to that population.
    notes : tuple of str
        What a reader of the results should know, in sentences.
    """

    population: float
    inclusion: Floats = field(repr=False)
    reference_population: Floats = field(repr=False)
    log_scale: Floats = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def n_unseen(self) -> Floats:
        """Units outside the sample that could fall into each cell, (1−π) times the reference population."""
        return (1.0 - self.inclusion) * self.reference_population

    def at(self, cells: NDArray[Any] | slice) -> SamplingDesign:
        """The design of some cells alone."""
        return replace(
            self,
            inclusion=self.inclusion[cells],
            reference_population=self.reference_population[cells],
            log_scale=self.log_scale[cells],
        )

    def sampling_fraction(self, n_records: int) -> float:
        """Overall n/N."""
        return n_records / self.population


def sampling_design(
    table: ContingencyTable,
    model: CellModel,
    *,
    population: float | Mapping[Any, float] | None = None,
    sampling: str = "srs",
    strata: str | Sequence[Hashable] | NDArray[Any] | None = None,
) -> SamplingDesign:
    """The design of a sample, checked; see :func:`rarecell.risk.records.record_risk` for the parameters."""
    if sampling not in SAMPLINGS:
        raise UnknownChoice.of("The sampling", sampling, SAMPLINGS)
    if strata is not None:
        if sampling == "weights":
            raise BadInput(
                "Both strata and survey weights were given; strata with their populations imply the weights, so give one of them."
            )
        if not isinstance(population, Mapping):
            raise BadInput("With strata the population is a table that gives the number of units of each stratum.")
        if isinstance(strata, str):
            return _within_strata(table, model, strata, population)
        return _by_weights(with_stratum_weights(table, strata, population), model, sum(population.values()))
    if isinstance(population, Mapping):
        raise BadInput("The population was given for each stratum, but no strata were named.")
    if sampling == "weights":
        if table.weights is None:
            raise BadInput("Sampling by weights was asked for, but the table has no weights; name the weight column.")
        return _by_weights(table, model, population)
    if population is None:
        raise BadInput(
            "The population size is missing: give the number of units the sample was drawn from, or name a weight column."
        )
    if population < table.n_records:
        raise PopulationTooSmall.given(population, n_records=table.n_records)
    everywhere = np.ones(table.n_cells)
    return SamplingDesign(
        float(population), everywhere * (table.n_records / population), everywhere * population, np.zeros(table.n_cells)
    )


def with_stratum_weights(
    table: ContingencyTable, strata: Sequence[Hashable] | NDArray[Any], populations: Mapping[Any, float]
) -> ContingencyTable:
    """The same table with the weights N_h/n_h of a stratified sample, to fit a model to the population's shares.

    Parameters
    ----------
    table : ContingencyTable
        A table that knows the cell of each record.
    strata : sequence
        Stratum of each record, in the order of the file.
    populations : mapping
        Population size N_h of each stratum.
    """
    if table.record_cell is None:
        raise BadInput("Strata are given by record, but the table was built from counts; build it from records.")
    if len(strata) != len(table.record_cell):
        raise BadInput(f"{len(strata):,} strata were given for {len(table.record_cell):,} records; each record needs one.")
    code_of = {label: code for code, label in enumerate(populations)}
    labels = strata.tolist() if isinstance(strata, np.ndarray) else list(strata)
    unknown = sorted({str(label) for label in labels if label not in code_of})
    if unknown:
        raise BadInput(
            f"The population of stratum '{unknown[0]}' was not given; give the number of units of every stratum of the file."
        )
    codes = np.array([code_of[label] for label in labels], dtype=np.int64)
    kept = table.record_cell >= 0
    n_sampled = np.bincount(codes[kept], minlength=len(code_of))
    sizes = np.array(list(populations.values()), dtype=np.float64)
    _check_strata(list(populations), sizes, n_sampled)
    weight = np.divide(sizes, n_sampled, out=np.zeros(len(sizes)), where=n_sampled > 0)
    sums = np.bincount(table.record_cell[kept], weights=weight[codes[kept]], minlength=table.n_cells)
    return replace(table, weights=np.asarray(sums, dtype=np.float64))


def fits_weights(model: CellModel) -> bool:
    """Whether a model was fitted to weighted counts."""
    members: Sequence[Any] = getattr(model, "members", ())
    if members:
        return fits_weights(members[0])
    return bool(getattr(getattr(model, "marginals", None), "weighted", False))


def _by_weights(table: ContingencyTable, model: CellModel, population: float | None) -> SamplingDesign:
    assert table.weights is not None, "the caller has checked for weights"
    total = float(table.weights.sum())
    if not total > 0.0:
        raise BadInput("The weights add up to zero; a weight is the number of population units its record stands for.")
    size = total if population is None else float(population)
    if size < table.n_records:
        raise PopulationTooSmall.given(size, n_records=table.n_records)
    # Weights that were normalised to another sum still give the shares.
    expected = table.weights * (size / total)
    too_small = expected < table.counts
    inclusion = np.where(too_small, 1.0, table.counts / np.where(too_small, 1.0, expected))
    notes: tuple[str, ...] = ()
    # A sample with weights of exactly one is a census; only weights below that are odd.
    n_odd = int((expected < table.counts * (1.0 - 1e-9)).sum())
    if n_odd:
        notes = (f"{n_odd:,} cells have weights that add up to less than their records; they count as fully sampled.",)
    log_scale = np.zeros(table.n_cells) if fits_weights(model) else np.log(table.n_records / (inclusion * size))
    return SamplingDesign(size, inclusion, np.full(table.n_cells, size), log_scale, notes)


def _within_strata(table: ContingencyTable, model: CellModel, key: str, populations: Mapping[Any, float]) -> SamplingDesign:
    vertex = table.keys.index(key) if key in table.keys else -1
    if vertex < 0:
        raise BadInput(f"The strata '{key}' are not a key; give the stratum of each record instead of a name.")
    levels = table.categories[vertex].levels
    missing = [level for level in levels if level not in populations]
    if missing:
        raise BadInput(
            f"The population of stratum '{missing[0]}' was not given; give the number of units of every level of '{key}'."
        )
    sizes = np.array([populations[level] for level in levels], dtype=np.float64)
    codes = table.cells[:, vertex]
    n_sampled = np.bincount(codes, weights=table.counts, minlength=len(levels))
    _check_strata(levels, sizes, n_sampled)
    # Every model here fits the one-way margins, so that p̂ of a stratum is its share of what the model was fitted to.
    fitted = np.bincount(codes, weights=table.weights, minlength=len(levels)) if fits_weights(model) else n_sampled
    share = fitted / fitted.sum()
    return SamplingDesign(float(sizes.sum()), (n_sampled / sizes)[codes], sizes[codes], -np.log(share[codes]))


def _check_strata(labels: Sequence[Any], sizes: Floats, n_sampled: NDArray[Any]) -> None:
    for label, size, sampled in zip(labels, sizes, n_sampled, strict=True):
        if size < sampled:
            raise PopulationTooSmall(
                f"The population of stratum '{label}' was given as {size:,.0f}, but the file has {int(sampled):,} of its units. "
                "Give the number of units the stratum was sampled from."
            )
