"""How was the sample drawn, as far as a cell's risk is concerned?

The models are fitted to the records as they are, so they describe the sample. What carries them to the population is one number
for each cell: the weight w, the number of people that a sampled record of the cell stands for on average. A cell with share p of
the sampled records has n·p·w people, n·p·(w−1) of them unseen (Horvitz and Thompson), and a fraction 1/w of it was sampled.

* Simple random sampling: w = N/n everywhere.
* Survey weights: w is the mean weight, smoothed (:mod:`rarecell.risk.cell_weights`). Fitting models to weighted counts instead
  mistakes noise in the weights for structure and overstates the risk by up to a third.
* Strata that are a key: w = N_h/n_h of the cell's stratum. The intruder knows the stratum, so uniqueness is judged within
  the stratum alone.
* Strata that are not a key: each record stands for N_h/n_h people, which is used as its weight.
* Areas drawn first, then people in them (:class:`~rarecell.data.names.SamplingStages`): if the area is a key, nobody outside the drawn areas can be meant, so the
  risk is that among the people of the drawn areas. If it is not, N says it all.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput, PopulationTooSmall, UnknownChoice
from rarecell.outcome.words import counted
from rarecell.risk.cell_weights import smoothed_weights
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    from rarecell.edges import Array, Level

Floats = NDArray[np.float64]

SAMPLINGS = ("srs", "weights", "smoothed")
"""Equal weights; survey weights; or weights that were smoothed already, on a finer table of the same records."""

_LARGE_DIFFERENCE = 0.01
"""A sum of weights that differs from the population by more than this share is worth a note."""


_LEAST_RELATIVE_MEAN = 0.5
"""Weights with a mean from here to its inverse were scaled to a mean of 1, in the whole file or in that from which it was taken."""


@dataclass(frozen=True, eq=False)
class SamplingDesign:
    """What the risk of each cell needs to know about the design.

    Attributes
    ----------
    population : float
        Population size N.
    n_records : int
        Number n of sampled records.
    weight : ndarray
        Number of people that a record of each cell stands for on average; at least one.
    reference_population : ndarray
        Size of the population that the probability of a cell refers to: N, or that of its stratum.
    notes : tuple of str
        What a reader of the results should know, in sentences.
    area : str or None
        The key whose levels were drawn first, if any was.
    """

    population: float
    n_records: int
    weight: Floats = field(repr=False)
    reference_population: Floats = field(repr=False)
    notes: tuple[str, ...] = ()
    area: str | None = None

    @property
    def inclusion(self) -> Floats:
        """Fraction of each cell's people who were sampled."""
        return 1.0 / self.weight

    @property
    def log_scale(self) -> Floats:
        """Term that turns the logarithm of a share of the sampled records into that of a share of the reference population."""
        return np.asarray(np.log(self.n_records * self.weight / self.reference_population))

    @property
    def n_unseen(self) -> Floats:
        """Units outside the sample that could fall into each cell, (1−π) times the reference population."""
        return np.asarray((1.0 - 1.0 / self.weight) * self.reference_population)

    def with_equal_weights(self) -> SamplingDesign:
        """The design in which every record stands for N/n people."""
        everywhere = np.ones(len(self.weight))
        return replace(
            self,
            weight=everywhere * (self.population / self.n_records),
            reference_population=everywhere * self.population,
        )

    def at(self, cells: Array) -> SamplingDesign:
        """The design restricted to some cells."""
        return replace(
            self,
            weight=self.weight[cells],
            reference_population=self.reference_population[cells],
        )


FEWEST_AREAS = 10
"""Keys with fewer levels than this are not asked whether their levels were drawn."""

LEAST_EACH = 5
"""Mean number of records of a level from which equal numbers mean something."""


def evenly_taken(table: ContingencyTable) -> tuple[str, ...]:
    """Keys whose levels have more nearly equal numbers of records than chance allows, as when so many are drawn in each.

    Were records drawn at random, even from levels of equal size, the numbers would vary like multinomial counts, and their chi-square
    statistic would be about the number of levels less one. Its cube root is nearly normal (Wilson and Hilferty); a value below −4
    standard deviations has other reasons than chance. Where small areas have fewer people than are drawn in each, the numbers vary, but the
    largest of them occurs again and again; a Poisson variable takes no value c more often than with probability 1/√(2πc).
    """
    even = []
    for k, categories in enumerate(table.categories):
        counts = np.bincount(table.cells[:, k], weights=table.counts, minlength=categories.n_levels)
        counts = counts[: categories.n_levels - categories.has_missing]
        free = len(counts) - 1
        if len(counts) < FEWEST_AREAS:
            continue
        most = float(counts.max())
        by_chance = len(counts) / np.sqrt(2.0 * np.pi * most)
        if most >= LEAST_EACH and (counts == most).sum() > by_chance + 5.0 * np.sqrt(by_chance + 1.0):
            even.append(categories.key)
            continue
        if counts.mean() < LEAST_EACH:
            continue
        statistic = float(((counts - counts.mean()) ** 2).sum() / counts.mean())
        variance = 2.0 / (9.0 * free)
        if ((statistic / free) ** (1.0 / 3.0) - (1.0 - variance)) / np.sqrt(variance) < -4.0:
            even.append(categories.key)
    return tuple(even)


def sampling_design(
    table: ContingencyTable,
    *,
    population: float | Mapping[Level, float] | None = None,
    sampling: str = "srs",
    strata: str | Sequence[Hashable] | Array | None = None,
) -> SamplingDesign:
    """The checked design of a sample; see :func:`rarecell.risk.records.record_risk` for the parameters."""
    if sampling not in SAMPLINGS:
        raise UnknownChoice.of("The sampling", sampling, SAMPLINGS)
    if strata is not None:
        if sampling != "srs":
            raise BadInput(
                "Both strata and survey weights were given; strata with their populations imply the weights, so give one of them."
            )
        if not isinstance(population, Mapping):
            raise BadInput("With strata the population is a table that gives the number of units of each stratum.")
        if isinstance(strata, str):
            return _within_strata(table, strata, population)
        return _by_weights(with_stratum_weights(table, strata, population), sum(population.values()))
    if isinstance(population, Mapping):
        raise BadInput("The population was given for each stratum, but no strata were named.")
    if sampling != "srs":
        if table.weights is None:
            raise BadInput("Sampling by weights was asked for, but the table has no weights; name the weight column.")
        return _by_weights(table, population, is_smooth=sampling == "smoothed")
    if population is None:
        raise BadInput(
            "The population size is missing: give the number of units the sample was drawn from, or name a weight column."
        )
    if population < table.n_records:
        raise PopulationTooSmall.given(population, n_records=table.n_records)
    everywhere = np.ones(table.n_cells)
    return SamplingDesign(
        float(population), table.n_records, everywhere * (population / table.n_records), everywhere * population
    )


def with_stratum_weights(
    table: ContingencyTable, strata: Sequence[Hashable] | Array, populations: Mapping[Level, float]
) -> ContingencyTable:
    """The same table with the weights N_h/n_h of a stratified sample.

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


def with_smoothed_weights(table: ContingencyTable) -> ContingencyTable:
    """The same table with smoothed weights, which stay smooth when keys are coarsened or left out: one fit serves them all."""
    if table.weights is None:
        return table
    return replace(table, weights=smoothed_weights(table) * table.counts)


def _by_weights(table: ContingencyTable, population: float | None, *, is_smooth: bool = False) -> SamplingDesign:
    assert table.weights is not None, "the caller has checked for weights"
    total = float(table.weights.sum())
    if not total > 0.0:
        raise BadInput("The weights add up to zero; a weight is the number of population units its record stands for.")
    size = total if population is None else float(population)
    if size < table.n_records:
        raise PopulationTooSmall.given(size, n_records=table.n_records)
    # Weights normalised to another sum still give the shares.
    weight = (table.weights / table.counts if is_smooth else smoothed_weights(table)) * (size / total)
    notes: list[str] = []
    if abs(total / size - 1.0) > _LARGE_DIFFERENCE:
        mean = total / table.n_records
        said = f"By their weights the records stand for {total:,.0f} people, but the population is {size:,.0f}"
        if _LEAST_RELATIVE_MEAN <= mean <= 1.0 / _LEAST_RELATIVE_MEAN:
            said = f"The weights have a mean of {mean:.3g} and say only how much records count against each other"
        notes.append(f"{said}: every weight was multiplied by {size / total:,.3g}, so that they add up to the population.")
    # A sample whose weights are exactly one is a census; only weights below one are odd.
    n_odd = int((table.weights * (size / total) < table.counts * (1.0 - 1e-9)).sum())
    if n_odd:
        notes.append(
            f"In {counted(n_odd, 'cell')} the records have a mean weight below 1, which was raised to 1: a record stands for itself at least."
        )
    return SamplingDesign(size, table.n_records, np.maximum(weight, 1.0), np.full(table.n_cells, size), tuple(notes))


def _within_strata(table: ContingencyTable, key: str, populations: Mapping[Level, float]) -> SamplingDesign:
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
    weight = np.divide(sizes, n_sampled, out=np.ones(len(sizes)), where=n_sampled > 0)
    return SamplingDesign(float(sizes.sum()), table.n_records, weight[codes], sizes[codes])


def _check_strata(labels: Sequence[Level], sizes: Floats, n_sampled: Array) -> None:
    for label, size, sampled in zip(labels, sizes, n_sampled, strict=True):
        if size < sampled:
            raise PopulationTooSmall(
                f"The population of stratum '{label}' was given as {size:,.0f}, but the file has {int(sampled):,} of its units. "
                "Give the number of units the stratum was sampled from."
            )
