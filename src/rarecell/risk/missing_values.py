"""What is the risk if an intruder does not know who failed to answer?

When a missing value is a level of its own, the intruder is assumed to know about it: only people who did not answer match a
record without an answer. An intruder without that knowledge has to treat a missing value as any value. Two records, or a record
and a person, are *compatible* when on every key their values are equal or one of the two is missing. For a record r with cell c,
let A(c) be the set of cells that are compatible with c. Then

* the sample count f of r is the number of records in A(c), including r itself;
* the F people in A(c) are those who match r, and r is a population unique when F = 1;
* P(unique) is the probability that no unseen person falls into A(c), for a record with f = 1, and 0 otherwise; E(1/F) likewise.

A(c) contains c, so neither number exceeds the one obtained with missing values as levels. For an intruder who has some idea of
the missing answers, the truth lies between the two. A person who did not answer counts as compatible whatever the true value is,
which makes this the lower bound.

Most registers have no missing values: who failed to answer in the survey is in them with the true value. To an intruder who holds
such a register (:func:`register_complete`), a missing value of the file says nothing, and people match a record if their true values
equal those that the record has. C(c) is then the set of complete cells that agree with c on the keys it has, and

* the sample count is the number of records that certainly belong to C(c): they have all values that r has, and the same ones;
* the probability of C(c) among people is that among records with all answers, as if answers were missing at random.

A(c) is a product of sets of levels: every level of a key that c lacks, and c's own level and the missing one of any other key.
Its probability is a sum over cells, most of them empty. Where the sum is cut short, the probability is understated and the risk
overstated:

* for records with f > 1, only occupied cells are summed;
* keys are missing together in many combinations (*patterns*); summed are those of the file, and of the others as many as
  :data:`MOST_UNSEEN_PATTERNS`, the likeliest first if keys were missing independently;
* if a record could have very many combinations of values for the keys it lacks (:class:`SumLimits`), only the most frequent ones
  are summed.

For cells that differ from c in some keys, the ratio of their probability to that of c comes from a model that predicts these
keys from all others (:meth:`~rarecell.model.protocol.CellModel.with_last`): whether somebody answers depends on who it is, not
the other way round. On census samples with 3 % of ages missing, the number of population uniques was right to within a tenth; the
default's average over orders gave one and a half to two times the truth.

Patterns that no record of the file has count, too. Somebody who lacks three of six keys is rare, but matches hundreds of records: with a
twentieth of the answers missing, such people were a third of those who match a record of Adult, and the file had few of their patterns.

The relative uncertainty of the probability of A(c) is at most that of c. People who lack different keys are counted by different
marginals, whose errors are taken as independent; cells that differ from c in the same keys err together. A record stands for as many
people of A(c) as of c.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import product

import numpy as np
from numpy.typing import NDArray

from rarecell.model.protocol import CellModel, LogMoments
from rarecell.risk.posterior import gamma_of_log_moments, log_moments_of_gamma
from rarecell.risk.records import RecordRisk
from rarecell.table.contingency import ContingencyTable

Floats = NDArray[np.float64]
Cells = NDArray[np.int32]

N_FITS = 8
"""Number of sets of keys, most frequently missing first, that are predicted from all others by a model of their own."""


MOST_UNSEEN_PATTERNS = 256
"""Number of combinations of missing keys that no record of the file has, but people outside it may have."""


@dataclass(frozen=True)
class SumLimits:
    """Limits on the cells that are summed.

    Attributes
    ----------
    values : int
        Largest number of combinations of values that are summed for the keys a record lacks.
    cells : int
        Largest number of cells that are summed in all, a quarter of them for records that lack answers themselves; beyond it, the
        rarest patterns are left out.
    at_once : int
        Number of cells whose probabilities are computed together.
    """

    values: int = 2_048
    cells: int = 600_000
    at_once: int = 1 << 18


SUM_LIMITS = SumLimits()


def has_missing_value(table: ContingencyTable) -> NDArray[np.bool_]:
    """Whether the records of each occupied cell have a missing key value."""
    return np.asarray(_lacks(table, table.cells).any(axis=1))


def matching_anything(risk: RecordRisk, model: CellModel, *, n_fits: int = N_FITS, limits: SumLimits = SUM_LIMITS) -> RecordRisk:
    """The same risk for an intruder to whom a missing value is compatible with every level.

    Parameters
    ----------
    risk : RecordRisk
        The risk with missing values as levels of their own.
    model : CellModel
        The model that ``risk`` was computed from.
    n_fits : int, optional
        Number of sets of keys for which a model that predicts them from all others is fitted, if the model orders its keys.
    limits : SumLimits, optional
        Limits on the cells that are summed.

    Returns
    -------
    RecordRisk
        Its ``sample_count`` is the number of compatible records; its probabilities are those of all compatible cells.

    Examples
    --------
    >>> import rarecell as rc
    >>> keys = [rc.Categories("sex", ("f", "m")), rc.Categories("age", ("old", "young", None))]
    >>> table = rc.ContingencyTable.from_counts([[0, 0], [0, 2], [1, 1]], [1, 1, 4], keys)
    >>> model = rc.DecomposableModel(table, cliques=[("sex", "age")])
    >>> risk = rc.record_risk(table, model, population=60)
    >>> risk.sample_count.tolist(), matching_anything(risk, model).sample_count.tolist()
    ([1, 1, 4], [2, 2, 4])
    """
    table = risk.table
    lacks = _lacks(table, table.cells)
    if not lacks.any():
        return risk
    probability, deviation = _law_of(risk.log_cell_probability, risk.posterior)
    patterns, of_cell = _patterns(lacks, table.counts)
    everybody = np.ones((len(patterns), len(patterns)), dtype=bool)
    values = table.counts, probability, probability * deviation
    n_compatible, total, error = _occupied_sums(table, patterns, of_cell, values, everybody)
    alone = np.flatnonzero(n_compatible == 1)
    missing_share = np.average(lacks, axis=0, weights=table.counts)
    others = np.concatenate([patterns, unseen_patterns(patterns, missing_share)])
    groups = list(_empty_cells(table, others, alone, lacks, limits).items())
    total, error = _with_empty_cells(model, groups, probability, total, error, n_fits, limits)
    return _of_compatible(risk, n_compatible, np.minimum(total, 1.0), error, deviation)


def register_complete(risk: RecordRisk, model: CellModel, *, n_fits: int = N_FITS, limits: SumLimits = SUM_LIMITS) -> RecordRisk:
    """The same risk for an intruder whose register has the true value of everybody, also of those who did not answer.

    Parameters are those of :func:`matching_anything`. Answers are taken to be missing at random.

    Examples
    --------
    >>> import rarecell as rc
    >>> keys = [rc.Categories("sex", ("f", "m")), rc.Categories("age", ("old", "young", None))]
    >>> table = rc.ContingencyTable.from_counts([[0, 0], [0, 2], [1, 1]], [1, 1, 4], keys)
    >>> model = rc.DecomposableModel(table, cliques=[("sex", "age")])
    >>> risk = rc.record_risk(table, model, population=60)
    >>> register_complete(risk, model).sample_count.tolist()
    [1, 2, 4]
    """
    table = risk.table
    lacks = _lacks(table, table.cells)
    if not lacks.any():
        return risk
    probability, deviation = _law_of(risk.log_cell_probability, risk.posterior)
    patterns, of_cell = _patterns(lacks, table.counts)
    is_complete: NDArray[np.bool_] = np.logical_not(patterns.any(axis=1))
    # A record certainly belongs to another's people if it has all values that the other has.
    has_all: NDArray[np.bool_] = np.logical_not((patterns[None, :, :] & ~patterns[:, None, :]).any(axis=2))
    (n_compatible,) = _occupied_sums(table, patterns, of_cell, (table.counts,), has_all)
    to_complete = np.broadcast_to(is_complete, has_all.shape)
    total, error = _occupied_sums(table, patterns, of_cell, (probability, probability * deviation), to_complete)
    alone = np.flatnonzero(n_compatible == 1)
    groups = list(_empty_cells(table, np.zeros((1, table.n_keys), dtype=bool), alone, lacks, limits).items())
    total, error = _with_empty_cells(model, groups, probability, total, error, n_fits, limits)
    answered = max(float(table.counts[is_complete[of_cell]].sum()), 1.0) / table.n_records
    return _of_compatible(risk, n_compatible, np.minimum(total / answered, 1.0), error / answered, deviation)


def _with_empty_cells(
    model: CellModel,
    groups: Sequence[tuple[tuple[int, ...], list[tuple[Cells, NDArray[np.int64]]]]],
    probability: Floats,
    total: Floats,
    error: Floats,
    n_fits: int,
    limits: SumLimits,
) -> tuple[Floats, Floats]:
    """Sums of probabilities, and their standard errors, with the empty cells added.

    The most frequent sets of keys are predicted by a model that has them last.
    """
    squares = error**2
    rest = list(enumerate(parts for _, parts in groups[n_fits:]))
    for keys, numbered in [*((keys, [(0, parts)]) for keys, parts in groups[:n_fits]), *([((), rest)] if rest else [])]:
        predictor = model.with_last(keys) if keys else model
        scale = np.ones(len(total))
        if predictor is not model:
            scale = probability / np.exp(predictor.log_cell_probability(None))
        cells, rows = (np.concatenate(some) for some in zip(*(part for _, parts in numbered for part in parts), strict=True))
        group = np.concatenate([np.full(len(part[1]), number) for number, parts in numbered for part in parts])
        laws = []
        for start in range(0, len(rows), limits.at_once):
            asked = cells[start : start + limits.at_once]
            laws.append(_law_of(predictor.log_cell_probability(asked), predictor.posterior(asked)))
        more, deviation = (np.concatenate(some) for some in zip(*laws, strict=True)) if laws else (np.zeros(0), np.zeros(0))
        total = total + np.bincount(rows, weights=more, minlength=len(total)) * scale
        # Cells of a row that differ from it in the same keys err together, those that differ in others independently.
        pairs, place = np.unique(rows * len(groups) + group, return_inverse=True)
        of_pair = np.bincount(place, weights=more * deviation, minlength=len(pairs))
        squares = squares + np.bincount(pairs // len(groups), weights=of_pair**2, minlength=len(total)) * scale**2
    return total, np.sqrt(squares)


def _of_compatible(risk: RecordRisk, n_compatible: Floats, total: Floats, error: Floats, deviation: Floats) -> RecordRisk:
    """The risk with these counts and probabilities of the people who match; ``error`` is the standard error of the latter."""
    probability = np.exp(risk.log_cell_probability)
    total = np.maximum(total, probability)
    # Cells of probability zero occur in an additive model; for them the ratio is undefined.
    is_possible = probability > 0.0
    ratio = np.divide(total, probability, out=np.ones(len(total)), where=is_possible)
    relative = np.divide(error, total, out=np.zeros(len(total)), where=is_possible)
    with np.errstate(divide="ignore"):
        log_p = np.where(is_possible, risk.log_cell_probability + np.log(ratio), np.log(total))
    return replace(
        risk,
        sample_count=np.rint(n_compatible).astype(np.int64),
        log_cell_probability=log_p,
        posterior=_widened(risk.posterior, np.log(ratio), np.minimum(relative, deviation)),
        log_widening=np.log(ratio),
    )


def _lacks(table: ContingencyTable, cells: Cells) -> NDArray[np.bool_]:
    """Which keys are missing in each of these cells."""
    has_missing = np.array([c.has_missing for c in table.categories])
    last = np.array([c.n_levels - 1 for c in table.categories])
    return np.asarray(has_missing & (cells == last))


# ---------------------------------------------------------------------- probabilities and how sure they are


def _law_of(log_probability: Floats, moments: LogMoments | None) -> tuple[Floats, Floats]:
    """Mean probability of some cells, and its relative standard deviation.

    The mean is the model's own: that of a gamma distribution with these moments of the logarithm is far too large where little
    is known. The deviation is that of the gamma distribution: where little is known the logarithm varies without bounds, which
    adds nothing to a sum.
    """
    if moments is None:
        return np.exp(log_probability), np.zeros(len(log_probability))
    shape, _ = gamma_of_log_moments(moments.mean, moments.variance)
    return np.exp(log_probability), 1.0 / np.sqrt(shape)


def _widened(posterior: LogMoments | None, log_ratio: Floats, deviation: Floats) -> LogMoments | None:
    """The posterior of a probability multiplied by a given ratio, and then known up to the given relative deviation."""
    if posterior is None:
        return None
    shape, scale = gamma_of_log_moments(posterior.mean, posterior.variance)
    is_wider = log_ratio > 0.0
    new_shape = np.where(is_wider, 1.0 / np.maximum(deviation, 1e-6) ** 2, shape)
    mean, variance = log_moments_of_gamma(new_shape, shape * scale * np.exp(log_ratio))
    return LogMoments(np.where(is_wider, mean, posterior.mean), np.where(is_wider, variance, posterior.variance), posterior.error)


# ---------------------------------------------------------------------- occupied cells


def _patterns(lacks: NDArray[np.bool_], counts: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """The sets of keys that records lack, most frequent first, and the set that applies to each cell."""
    patterns, which = np.unique(lacks, axis=0, return_inverse=True)
    order = np.argsort(-np.bincount(which.ravel(), weights=counts), kind="stable")
    return patterns[order], np.argsort(order)[which.ravel()]


def unseen_patterns(seen: NDArray[np.bool_], missing_share: Floats, most: int = MOST_UNSEEN_PATTERNS) -> NDArray[np.bool_]:
    """The likeliest sets of missing keys that are not among those seen, if keys were missing independently; likeliest first.

    1. The likeliest set of all lacks the keys that are missing more often than not. Every other set departs from it in some keys, and
       costs the sum of their absolute log-odds.
    2. With keys by rising cost, each set of departures follows from exactly one cheaper one: its last key is replaced by the next, or
       the next is added. A heap gives them in the order of their cost.

    Examples
    --------
    >>> seen = np.array([[False, False, False], [True, False, False], [False, True, False]])
    >>> unseen_patterns(seen, np.array([0.1, 0.05, 0.0])).tolist()
    [[True, True, False]]
    """
    able = np.flatnonzero((missing_share > 0.0) & (missing_share < 1.0))
    odds = np.abs(np.log(missing_share[able]) - np.log1p(-missing_share[able]))
    able, cost = able[np.argsort(odds, kind="stable")], np.sort(odds, kind="stable")
    likeliest = missing_share > 0.5
    known = {pattern.tobytes() for pattern in seen}
    unseen: list[NDArray[np.bool_]] = []
    heap: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    while heap and len(unseen) < most:
        total, departures = heappop(heap)
        pattern = likeliest.copy()
        pattern[able[list(departures)]] ^= True
        if pattern.tobytes() not in known:
            unseen.append(pattern)
        last = departures[-1] if departures else -1
        if last + 1 < len(able):
            heappush(heap, (total + cost[last + 1], (*departures, last + 1)))
            if departures:
                heappush(heap, (total + cost[last + 1] - cost[last], (*departures[:-1], last + 1)))
    return np.array(unseen, dtype=bool).reshape(len(unseen), len(missing_share))


def _occupied_sums(
    table: ContingencyTable,
    patterns: NDArray[np.bool_],
    of_cell: NDArray[np.int64],
    values: tuple[NDArray[np.generic], ...],
    counts_for: NDArray[np.bool_],
) -> tuple[Floats, ...]:
    """For each cell, the sums of some values over the occupied cells that are compatible with it.

    ``counts_for[a, b]`` says whether cells of pattern b count for cells of pattern a.

    1. Cells of two patterns are compatible when they agree on the keys that neither lacks.
    2. Agreement is found by adding up a random number for each level: equal sums mean equal levels (different levels have the
       same sum with probability 2^−64).
    3. Values of the cells of one pattern are summed by this number, and looked up for the cells of the other.
    """
    rng = np.random.default_rng(0)
    numbers = [rng.integers(0, 2**64, c.n_levels, dtype=np.uint64) for c in table.categories]
    columns = np.stack([number[table.cells[:, k]] for k, number in enumerate(numbers)])
    members = [np.flatnonzero(of_cell == p) for p in range(len(patterns))]
    totals = tuple(np.zeros(table.n_cells) for _ in values)
    for pattern, own in enumerate(members):
        for other_pattern, theirs in enumerate(members):
            if not counts_for[pattern, other_pattern]:
                continue
            kept = ~(patterns[pattern] | patterns[other_pattern])
            mine, signs = (_signature(columns, kept, rows) for rows in (own, theirs))
            # Sorting the smaller of the two is faster.
            distinct = np.unique(mine if len(mine) < len(signs) else signs)
            (at, meets), (place, has) = _places(distinct, signs), _places(distinct, mine)
            for total, value in zip(totals, values, strict=True):
                sums = np.bincount(at[meets], weights=value[theirs[meets]].astype(np.float64), minlength=len(distinct))
                total[own[has]] += sums[place[has]]
    return totals


def _places(distinct: NDArray[np.uint64], signs: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Position of each of these among the distinct ones, and whether it occurs at all."""
    at = np.minimum(np.searchsorted(distinct, signs), len(distinct) - 1)
    return at, distinct[at] == signs


def _signature(columns: NDArray[np.uint64], kept: NDArray[np.bool_], rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    signature = np.zeros(len(rows), dtype=np.uint64)
    for k in np.flatnonzero(kept):
        signature += columns[k, rows]
    return signature


# ---------------------------------------------------------------------- empty cells


def _empty_cells(
    table: ContingencyTable,
    others: NDArray[np.bool_],
    alone: NDArray[np.int64],
    lacks: NDArray[np.bool_],
    limits: SumLimits,
) -> dict[tuple[int, ...], list[tuple[Cells, NDArray[np.int64]]]]:
    """The empty cells that are compatible with each of the cells ``alone``, and the cell that each belongs to.

    No other cell compatible with these is occupied, so all of them except the cell itself are empty. They have one of the patterns
    ``others`` and are grouped by the keys that are missing in either of the two.
    """
    by_keys: dict[tuple[int, ...], list[tuple[Cells, NDArray[np.int64]]]] = {}
    is_complete = ~lacks[alone].any(axis=1)
    complete = _of_complete(table, others, alone[is_complete])
    incomplete = _of_incomplete(table, others, alone[~is_complete], lacks, limits.values)
    # An incomplete cell has many completions; those of few records must not take the places of all others.
    n_left = limits.cells
    for some, n_kept in ((complete, limits.cells // 4), (incomplete, 0)):
        for differ, cells, owners in some:
            n_taken = max(0, n_left - n_kept)
            if n_taken == 0:
                break
            by_keys.setdefault(tuple(np.flatnonzero(differ).tolist()), []).append((cells[:n_taken], owners[:n_taken]))
            n_left -= min(n_taken, len(cells))
    return by_keys


def _of_complete(
    table: ContingencyTable, patterns: NDArray[np.bool_], alone: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.bool_], Cells, NDArray[np.int64]]]:
    """For each pattern, complete cells with its keys set to missing."""
    for pattern in patterns:
        if pattern.any() and len(alone):
            yield pattern, _with_missing(table, table.cells[alone], pattern), alone


def _of_incomplete(
    table: ContingencyTable, patterns: NDArray[np.bool_], alone: NDArray[np.int64], lacks: NDArray[np.bool_], most_values: int
) -> Iterator[tuple[NDArray[np.bool_], Cells, NDArray[np.int64]]]:
    """For each pattern, the possible completions of incomplete cells, with its keys set to missing."""
    values: dict[bytes, Cells] = {}
    for pattern in patterns:
        for cell in alone.tolist():
            if np.array_equal(pattern, lacks[cell]):
                # The cell itself.
                continue
            free = lacks[cell] & ~pattern
            if free.tobytes() not in values:
                values[free.tobytes()] = _values_of(table, np.flatnonzero(free), most_values)
            taken = values[free.tobytes()]
            cells = np.repeat(_with_missing(table, table.cells[[cell]], pattern), len(taken), axis=0)
            cells[:, free] = taken
            yield pattern | lacks[cell], cells, np.full(len(taken), cell)


def _with_missing(table: ContingencyTable, cells: Cells, pattern: NDArray[np.bool_]) -> Cells:
    """The same cells with the keys of a pattern set to missing."""
    last = np.array([c.n_levels - 1 for c in table.categories], dtype=np.int32)
    return np.where(pattern, last, cells).astype(np.int32)


def _values_of(table: ContingencyTable, keys: NDArray[np.intp], most: int) -> Cells:
    """Combinations of non-missing values that some keys can have; if there are too many, the most frequent ones."""
    levels = [table.categories[k].n_levels - table.categories[k].has_missing for k in keys]
    if np.prod(levels, dtype=np.float64) <= most:
        combinations = list(product(*map(range, levels)))
        return np.array(combinations, dtype=np.int32).reshape(len(combinations), len(keys))
    given = table.cells[:, keys]
    is_known = ~_lacks(table, table.cells)[:, keys].any(axis=1)
    distinct, which = np.unique(given[is_known], axis=0, return_inverse=True)
    commonest = np.argsort(-np.bincount(which.ravel(), weights=table.counts[is_known]), kind="stable")
    return np.asarray(distinct[commonest[:most]], dtype=np.int32)
