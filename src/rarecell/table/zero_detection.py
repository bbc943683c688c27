"""Which combinations of values are empty for reasons other than chance?

The result is a list of candidates for structural zeros, with the evidence for each. A person who knows the data confirms
or rejects them, or adds others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.table.contingency import ContingencyTable
from rarecell.table.full_marginals import FullMarginals
from rarecell.table.structural_zeros import ExcludedCombination, FunctionalDependency, StructuralZeros

ERROR_RATE = 0.05
"""Expected number of empty cells flagged by chance, over all cells searched, when the keys are unrelated."""

LARGEST_TABLE = 2_000_000

MOST_VISITS = 1_000_000_000

STAGE = "looking for structural zeros"


def find_structural_zeros(
    table: ContingencyTable,
    *,
    three_way: bool = True,
    error_rate: float = ERROR_RATE,
    largest_table: int = LARGEST_TABLE,
    most_visits: int = MOST_VISITS,
    progress: Progress = SILENT,
) -> StructuralZeros:
    """Find empty combinations of two or three keys that chance does not explain, and keys that determine others.

    1. A two-way cell is flagged when it is empty and its expected count under independence, n_a n_b / n, is at least
       log(number of two-way cells / ``error_rate``): a Poisson count with that mean is zero with probability
       ``error_rate`` / number of two-way cells.
    2. A three-way cell without a flagged pair is flagged in the same way, with the expected count under the model that has
       all two-factor interactions and no three-factor interaction.
    3. One key determines another when each of its levels occurs with a single level of the other, and at least
       log(number of ordered pairs of keys / ``error_rate``) records would be expected to differ from the first record of
       their level if the two keys were unrelated.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table.
    three_way : bool
        Whether to search combinations of three keys as well.
    error_rate : float
        Tolerated number of flags raised by chance, over all cells.
    largest_table : int
        Marginals with more cells than this are not searched.
    most_visits : int
        Limit on occupied cells times combinations of three keys; the most related keys are searched first.
    progress : Progress
        Receiver of progress reports.

    Returns
    -------
    StructuralZeros
        Candidates for a person to confirm. Attach them with ``table.with_structural_zeros(zeros)``.
    """
    margins = FullMarginals(table)
    pairs = list(combinations(range(table.n_keys), 2))
    progress.start(STAGE)
    skipped: list[tuple[int, ...]] = []
    flags: dict[tuple[int, ...], NDArray[np.bool_]] = {}
    found: list[ExcludedCombination] = []
    n_occupied: dict[tuple[int, ...], int] = {}
    relatedness = np.zeros((table.n_keys, table.n_keys))

    def search(groups: Sequence[tuple[int, ...]]) -> None:
        least = math.log(max(sum(map(margins.n_possible, groups)), 1) / error_rate)
        for keys in groups:
            checkpoint(progress, STAGE)
            if margins.n_possible(keys) > largest_table:
                skipped.append(keys)
                continue
            observed = margins.counts(keys)
            expected = _expected(observed, least)
            flagged = (observed == 0) & (expected >= least) & ~_flagged_pairs(flags, keys, observed.shape)
            if flagged.any():
                found.extend(_combinations(table, keys, flagged, expected))
            if len(keys) == 2:
                flags[keys] = flagged
                n_occupied[keys] = int((observed > 0).sum())
                relatedness[keys] = _mutual_information(observed, expected)

    search(pairs)
    n_occupied.update((keys, margins.n_occupied(keys)) for keys in skipped)
    rules = _dependencies(table, [margins.counts((k,)) for k in range(table.n_keys)], n_occupied, error_rate)
    if three_way:
        triples = _most_related_triples(relatedness, most_visits // max(table.n_cells, 1))
        skipped.extend(sorted(set(combinations(range(table.n_keys), 3)) - set(triples)))
        search(triples)
    progress.done()
    return StructuralZeros(
        tuple(found),
        tuple(rules),
        tuple(tuple(table.keys[k] for k in keys) for keys in skipped),
    )


def _most_related_triples(relatedness: NDArray[np.float64], n_most: int) -> list[tuple[int, ...]]:
    """Up to ``n_most`` triples of keys, those whose pairs are most related, in the order of the keys."""
    triples: list[tuple[int, ...]] = list(combinations(range(len(relatedness)), 3))
    if len(triples) <= n_most:
        return triples
    of_pairs = [relatedness[a, b] + relatedness[a, c] + relatedness[b, c] for a, b, c in triples]
    return [triples[t] for t in sorted(np.argsort(-np.array(of_pairs), kind="stable")[:n_most].tolist())]


def _mutual_information(observed: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """Mutual information of two keys, per record: Σ n log(n / e) / n."""
    occupied = observed > 0
    return float((observed[occupied] * np.log(observed[occupied] / expected[occupied])).sum() / observed.sum())


def _expected(observed: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """Expected counts without the highest interaction: independence for two keys, all pairs for three."""
    if observed.ndim == 2:
        return np.asarray(observed.sum(axis=1, keepdims=True) * observed.sum(axis=0, keepdims=True) / observed.sum())
    margins = [observed.sum(axis=axis, keepdims=True) for axis in range(3)]
    bound = np.minimum(np.minimum(margins[0], margins[1]), margins[2])
    if not ((observed == 0) & (bound >= least)).any():
        return np.zeros_like(observed)
    fitted = np.ones_like(observed)
    # A flag needs the expected count only to within a few per cent.
    for _ in range(50):
        before = fitted.copy()
        for axis, margin in enumerate(margins):
            now = fitted.sum(axis=axis, keepdims=True)
            fitted = fitted * np.divide(margin, now, out=np.zeros_like(now), where=now > 0)
        if np.abs(fitted - before).max() < 0.01 * least:
            break
    return fitted


def _flagged_pairs(
    flags: Mapping[tuple[int, ...], NDArray[np.bool_]], keys: tuple[int, ...], shape: tuple[int, ...]
) -> NDArray[np.bool_]:
    """Cells of three keys that contain a flagged pair."""
    found = np.zeros(shape, dtype=bool)
    if len(keys) == 3:
        for axis in range(3):
            pair = keys[:axis] + keys[axis + 1 :]
            if pair in flags:
                found |= np.expand_dims(flags[pair], axis)
    return found


def _combinations(
    table: ContingencyTable, keys: tuple[int, ...], flagged: NDArray[np.bool_], expected: NDArray[np.float64]
) -> Iterable[ExcludedCombination]:
    for cell in np.argwhere(flagged).tolist():
        levels = tuple((table.keys[k], table.categories[k].levels[code]) for k, code in zip(keys, cell, strict=True))
        yield ExcludedCombination(levels, float(expected[tuple(cell)]))


def _dependencies(
    table: ContingencyTable,
    counts: Sequence[NDArray[np.float64]],
    n_occupied: Mapping[tuple[int, ...], int],
    error_rate: float,
) -> Iterable[FunctionalDependency]:
    """Keys that determine others, from the ``counts`` of single keys and the number of occupied cells of each pair."""
    n_pairs = max(table.n_keys * (table.n_keys - 1), 1)
    for a, b in permutations(range(table.n_keys), 2):
        n_levels_seen = int((counts[a] > 0).sum())
        if n_occupied[min(a, b), max(a, b)] > n_levels_seen or (counts[b] > 0).sum() < 2:
            continue
        share = counts[b] / counts[b].sum()
        # Only a record that is not the first of its level can break the rule.
        expected = (float(counts[a].sum()) - n_levels_seen) * (1.0 - float((share**2).sum()))
        if expected >= math.log(n_pairs / error_rate):
            yield FunctionalDependency(table.keys[a], table.keys[b], expected)
