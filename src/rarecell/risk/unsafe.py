"""Which few variables make a record recognisable?

A set of keys is a *minimal unsafe combination* (minimal sample unique) of a record when no other record agrees with it on
the set, but every smaller set is shared. A record with small ones is special: it stays unique when most keys are
coarsened or unknown. SUDA turns their number and sizes into a score, DIS-SUDA scales it to the probability that a match
is correct, and the individual risk of Benedetti and Franconi uses only the sample count and the weights. These are the
measures that users of SUDA, sdcMicro and µ-ARGUS know, under the names they know.

References
----------
Elliot, M., Manning, A. and Ford, R. (2002). A computational algorithm for handling the special uniques problem.
Manning, A., Haglin, D. and Keane, J. (2008). A recursive search algorithm for statistical disclosure assessment.
Skinner, C. and Elliot, M. (2002). A measure of disclosure risk for microdata. JRSS B 64.
Benedetti, R. and Franconi, L. (1998). Statistical and technological solutions for controlled data dissemination.
Franconi, L. and Polettini, S. (2004). Individual risk estimation in µ-ARGUS: a review.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import comb, prod
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import short_type
from rarecell._kernels.unsafe import minimal_unsafe_sets
from rarecell.errors import BadInput, PopulationTooSmall, UnknownChoice
from rarecell.risk import formulas
from rarecell.table.contingency import ContingencyTable

# Largest number of key sets that a search without a size limit may visit, and of key sets times cells to be told apart.
_MOST_SETS = 1 << 12
_MOST_VISITS = 400_000_000


@dataclass(frozen=True, eq=False)
class UnsafeCombinations:
    """The minimal unsafe combinations of every sample unique, and the scores derived from them.

    Attributes
    ----------
    table : ContingencyTable
        The table they were found in.
    cell, mask : ndarray
        One entry for each combination: the cell it singles out and its keys as a bit mask; sorted by cell, then by size
        and mask.
    max_size : int
        Largest size of combination that was searched for.
    """

    table: ContingencyTable
    cell: NDArray[np.int64] = field(repr=False)
    mask: NDArray[np.uint64] = field(repr=False)
    max_size: int

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of keys of each combination."""
        return _set_sizes(self.mask, self.table.n_keys)

    def of_cell(self, cell: int) -> tuple[tuple[str, ...], ...]:
        """Key names of each minimal unsafe combination of one cell, smallest first."""
        start, end = np.searchsorted(self.cell, [cell, cell + 1])
        return tuple(self.table.names_of(int(mask)) for mask in self.mask[start:end])

    @cached_property
    def size_weights(self) -> NDArray[np.float64]:
        """Weight of a combination by its size k: the product of m−t for t = k, …, the largest size below m."""
        n_keys = self.table.n_keys
        last = min(self.max_size, n_keys - 1)
        return np.array([0.0, *(float(prod(n_keys - t for t in range(k, last + 1))) for k in range(1, self.max_size + 1))])

    @cached_property
    def suda_score(self) -> NDArray[np.float64]:
        """SUDA score of each cell: the sum of the size weights of its minimal unsafe combinations; 0 if it has none."""
        score = np.bincount(self.cell, weights=self.size_weights[self.sizes], minlength=self.table.n_cells)
        return np.asarray(score, dtype=np.float64)

    @cached_property
    def contributions(self) -> NDArray[np.float64]:
        """Share of each cell's score that comes from combinations with each key: cells in rows, keys in columns.

        The shares of a row add up to more than one, because a combination counts for each of its keys.
        """
        shares = np.empty((self.table.n_cells, self.table.n_keys))
        weights = self.size_weights[self.sizes]
        score = np.where(self.suda_score > 0.0, self.suda_score, 1.0)
        for k in range(self.table.n_keys):
            holds = (self.mask >> np.uint64(k)) & np.uint64(1) == 1
            shares[:, k] = np.bincount(self.cell[holds], weights=weights[holds], minlength=self.table.n_cells) / score
        return shares

    @property
    def key_contributions(self) -> Mapping[str, float]:
        """Share of the file's total score that comes from combinations with each key."""
        total = self.suda_score.sum()
        of_keys = self.suda_score @ self.contributions / (total if total > 0.0 else 1.0)
        return MappingProxyType(dict(zip(self.table.keys, of_keys.tolist(), strict=True)))

    def dis_suda_score(self, *, sampling_fraction: float) -> NDArray[np.float64]:
        """DIS-SUDA score of each cell: the file's DIS, distributed over the uniques by their SUDA score.

        1 / (1 + n1(1−DIS)/DIS / (score^Q · A)), with A the sum of score^−Q over the uniques and Q = 1 + (8−m)/20, the
        constants of SUDA and sdcMicro.
        """
        dis = data_intrusion_simulation(self.table, sampling_fraction=sampling_fraction)
        has_score = self.suda_score > 0.0
        if dis is None or not has_score.any():
            return np.zeros(self.table.n_cells)
        power = 1.0 + (8 - self.table.n_keys) / 20.0
        # Scores grow like factorials of the number of keys; only their ratios matter.
        log_score = power * np.log(self.suda_score[has_score])
        log_total = np.logaddexp.reduce(-log_score)
        n_uniques = int((self.table.counts == 1).sum())
        with np.errstate(divide="ignore"):
            log_odds = np.log(n_uniques) + np.log1p(-dis) - np.log(dis)
        scores = np.zeros(self.table.n_cells)
        scores[has_score] = np.exp(-np.logaddexp(0.0, log_odds - log_score - log_total))
        return scores

    def __str__(self) -> str:
        n_special = len(np.unique(self.cell))
        smallest = f"; the smallest has {int(self.sizes.min())}" if self.sizes.size else ""
        combinations = f"{len(self.mask):,} minimal unsafe combinations"
        return f"{n_special:,} records have {combinations} of at most {self.max_size} keys{smallest}."


def unsafe_combinations(table: ContingencyTable, *, max_size: int | None = None) -> UnsafeCombinations:
    """Find the minimal unsafe combinations of every record.

    Parameters
    ----------
    table : ContingencyTable
        The table; its coarsenings are ignored. A missing value counts as a level of its key.
    max_size : int, optional
        Largest combination to search for. By default all sizes with up to twelve keys; with more, the largest size for which at
        most 4,096 key sets are visited. Tables of more than 100,000 cells allow proportionally fewer sets, down to pairs.

    Returns
    -------
    UnsafeCombinations
        The combinations of every sample unique, with their scores.

    Examples
    --------
    >>> import numpy as np, rarecell as rc
    >>> yes_no = [rc.Categories(name, ("no", "yes")) for name in ("smokes", "coughs", "drives")]
    >>> table = rc.ContingencyTable.from_codes(np.array([[0, 0, 0], [0, 0, 0], [0, 1, 1], [1, 0, 1]], dtype=np.int32), yes_no)
    >>> combinations = unsafe_combinations(table)
    >>> combinations.of_cell(1)
    (('coughs',), ('smokes', 'drives'))
    >>> combinations.suda_score
    array([0., 3., 3.])
    """
    n_keys = table.n_keys
    largest = _default_max_size(n_keys, table.n_cells) if max_size is None else min(max_size, n_keys)
    if largest < 1:
        raise BadInput(
            f"The largest size of an unsafe combination was given as {max_size}; it must be a number of keys, 1 or more."
        )
    levels = np.array([categories.n_levels for categories in table.categories], dtype=np.int64)
    # The key with the most levels gets the highest bit: half of all sets contain it, and it splits the cells best.
    order = np.argsort(levels, kind="stable")
    most_levels = int(levels.max())
    codes = np.ascontiguousarray(table.cells.T[order], short_type(most_levels))
    cell, permuted = minimal_unsafe_sets(codes, table.counts, most_levels, largest)
    mask = np.zeros(len(permuted), dtype=np.uint64)
    for bit, key in enumerate(order.tolist()):
        mask |= ((permuted >> np.uint64(bit)) & np.uint64(1)) << np.uint64(key)
    sorting = np.lexsort((mask, _set_sizes(mask, n_keys), cell))
    return UnsafeCombinations(table, cell[sorting].astype(np.int64), mask[sorting], largest)


def _set_sizes(mask: NDArray[np.uint64], n_keys: int) -> NDArray[np.int64]:
    sizes = np.zeros(len(mask), dtype=np.int64)
    for k in range(n_keys):
        sizes += ((mask >> np.uint64(k)) & np.uint64(1)).astype(np.int64)
    return sizes


def _default_max_size(n_keys: int, n_cells: int) -> int:
    most = min(_MOST_SETS, _MOST_VISITS // max(n_cells, 1))
    n_sets = 0
    for size in range(1, n_keys + 1):
        n_sets += comb(n_keys, size)
        if n_sets > most:
            return max(size - 1, 2)
    return n_keys


def data_intrusion_simulation(table: ContingencyTable, *, sampling_fraction: float) -> float | None:
    """DIS, the probability that a unique match with the file is correct: π·n1 / (π·n1 + 2(1−π)·n2).

    n1 and n2 are the numbers of cells with one and with two records. None if there are neither.
    """
    if not 0.0 < sampling_fraction <= 1.0:
        raise BadInput(
            f"The sampling fraction was given as {sampling_fraction}; it must be a share of the population, above 0 and at most 1."
        )
    n1, n2 = (table.size_indices.get(size, 0) for size in (1, 2))
    total = sampling_fraction * n1 + 2.0 * (1.0 - sampling_fraction) * n2
    return sampling_fraction * n1 / total if total > 0.0 else None


def k_anonymity(table: ContingencyTable, ks: tuple[int, ...] = (2, 3, 5)) -> Mapping[int, int]:
    """Number of records that violate k-anonymity (share their cell with fewer than k records in all), for each k."""
    return MappingProxyType({k: int(table.counts[table.counts < k].sum()) for k in ks})


def individual_risk(table: ContingencyTable, *, population: float | None = None, method: str = "exact") -> NDArray[np.float64]:
    """Individual risk of Benedetti and Franconi for each cell, as µ-ARGUS and sdcMicro define it.

    Given its sample count f, the population count of the cell is taken as negative binomial with the sampling rate
    p = f / F̂, where F̂ is the sum of the weights in the cell; the risk is E(1/F).

    Parameters
    ----------
    table : ContingencyTable
        The table; with weights, F̂ comes from them, otherwise every record stands for N/n units.
    population : float, optional
        Population size N; needed without weights, and ignored with them.
    method : {"exact", "sdcmicro"}, optional
        ``"sdcmicro"`` replaces E(1/F) of cells with three or more records by p/(f−1+p), the approximation that sdcMicro
        uses by default.

    Returns
    -------
    ndarray
        Risk of each cell; 1/f where the weights imply that the whole cell was sampled.
    """
    if method not in ("exact", "sdcmicro"):
        raise UnknownChoice.of("The method of the individual risk", method, ["exact", "sdcmicro"])
    if table.weights is not None:
        estimated = table.weights
    elif population is None:
        raise BadInput(
            "The individual risk needs survey weights or the population size; the table has no weights, and none was given."
        )
    elif population < table.n_records:
        raise PopulationTooSmall.given(population, n_records=table.n_records)
    else:
        estimated = np.asarray(table.counts * (population / table.n_records), dtype=np.float64)
    rate = np.minimum(1.0, np.divide(table.counts, estimated, out=np.ones(table.n_cells), where=estimated > 0.0))
    # Without weights the rate is the same everywhere, and with them it repeats: there are few distinct pairs.
    (counts, rates), which = _distinct_pairs(table.counts, rate)
    exact = formulas.gamma_match_probability(1.0, 0.0, rates, counts)[which]
    if method == "exact":
        return exact
    approximate = rate / (table.counts - (1.0 - rate))
    return np.where((table.counts > 2) & (rate < 1.0), approximate, exact)


def _distinct_pairs(
    counts: NDArray[np.int64], rates: NDArray[np.float64]
) -> tuple[tuple[NDArray[np.int64], NDArray[np.float64]], NDArray[np.int64]]:
    """The distinct pairs of count and rate, and the index of each cell's pair."""
    order = np.lexsort((rates, counts))
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (np.diff(counts[order]) != 0) | (np.diff(rates[order]) != 0.0)
    which = np.empty(len(order), dtype=np.int64)
    which[order] = np.cumsum(begins) - 1
    first = order[begins]
    return (counts[first], rates[first]), which
