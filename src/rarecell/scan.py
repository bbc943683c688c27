"""Which few of many variables would an intruder need?

For sets of keys of a given size: how many records they make unique in the file, and how many of those are likely to be
unique in the population. A file can be safe on the keys one has thought of and unsafe on five others.

All sets are counted when they are few. When they are many, a beam search grows sets key by key and keeps the best at each
size: the best sets of five are nearly always among the extensions of the best sets of four, but there is no proof of it,
and the result says so. Sets are ranked on a random part of a very large file and then counted on all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from rarecell.errors import BadInput
from rarecell.marginals import Marginals
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.risk.population_uniques import pitman
from rarecell.table import ContingencyTable
from rarecell.thinning import random_part

STAGE = "scanning sets of keys"

MOST_SETS = 5_000
"""Up to so many sets all are counted."""

BEAM = 60
"""Sets kept at each size of a beam search."""

MANY_RECORDS = 100_000
"""With more records than this, and as many occupied cells, sets are ranked on so many random ones."""


@dataclass(frozen=True)
class KeySet:
    """A set of keys and what it gives away.

    Attributes
    ----------
    keys : tuple of str
        The keys.
    sample_uniques : int
        Records that are alone with their values of these keys.
    expected_population_uniques : float or None
        How many of those are expected to be alone in the population, by Pitman's formula; None where it has no solution.
    """

    keys: tuple[str, ...]
    sample_uniques: int
    expected_population_uniques: float | None


@dataclass(frozen=True)
class Scan:
    """The riskiest sets of keys of one size, the riskiest first."""

    size: int
    sets: tuple[KeySet, ...]
    n_counted: int
    n_possible: int
    is_complete: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "size": self.size,
            "sets_counted": self.n_counted,
            "sets_possible": self.n_possible,
            "complete": self.is_complete,
            "sets": [
                {
                    "keys": list(one.keys),
                    "sample_uniques": one.sample_uniques,
                    "expected_population_uniques": one.expected_population_uniques,
                }
                for one in self.sets
            ],
        }

    def __str__(self) -> str:
        how = "all were counted" if self.is_complete else f"{self.n_counted:,} were counted, grown from the best smaller sets"
        best = self.sets[0]
        return (
            f"Of {self.n_possible:,} sets of {self.size} keys {how}; {', '.join(best.keys)} makes most records unique: "
            f"{best.sample_uniques:,}."
        )


def scan_subsets(
    table: ContingencyTable, *, size: int = 5, population: float, top: int = 20, seed: int = 0, progress: Progress = SILENT
) -> Scan:
    """The sets of ``size`` keys that make most records unique.

    Parameters
    ----------
    table : ContingencyTable
        Of all keys that come into question.
    size : int, optional
        Number of keys an intruder is assumed to know.
    population : float
        Number of units the sample was drawn from.
    top : int, optional
        Number of sets to return.
    seed : int, optional
        Of the part of the records that sets of a very large file are ranked on.
    progress : Progress, optional
        Is told of each set and can stop the scan.

    Examples
    --------
    >>> import numpy as np, rarecell as rc
    >>> codes = np.array([[0, 0, 0], [0, 1, 1], [0, 1, 2], [1, 0, 3]], dtype=np.int32)
    >>> keys = [rc.Categories("a", (0, 1)), rc.Categories("b", (0, 1)), rc.Categories("c", (0, 1, 2, 3))]
    >>> table = rc.ContingencyTable.from_codes(codes, keys)
    >>> [(one.keys, one.sample_uniques) for one in scan_subsets(table, size=1, population=100).sets]
    [(('c',), 4), (('a',), 1), (('b',), 0)]
    """
    if not 1 <= size <= table.n_keys:
        raise BadInput(f"Sets of {size} keys were asked for; with {table.n_keys} keys a set has between 1 and {table.n_keys}.")
    n_possible = comb(table.n_keys, size)
    is_large = table.n_cells > MANY_RECORDS
    ranking = random_part(table, MANY_RECORDS, np.random.default_rng(seed)) if is_large else table
    marginals = Marginals(ranking.with_coarsenings(()), memory_budget=0)
    is_complete = n_possible <= MOST_SETS
    if is_complete:
        progress.start(STAGE, n_possible)
        candidates = [sum(1 << k for k in keys) for keys in combinations(range(table.n_keys), size)]
        ranked = _ranked(marginals, candidates, progress)
        n_counted = n_possible
    else:
        progress.start(STAGE, None)
        ranked, n_counted = _beam(marginals, table.n_keys, size, progress)
    progress.done()
    exact = marginals if ranking is table else Marginals(table.with_coarsenings(()), memory_budget=0)
    found = [_key_set(exact, mask, population) for mask in ranked[:top]]
    found.sort(key=lambda one: -one.sample_uniques)
    return Scan(size, tuple(found), n_counted, n_possible, is_complete)


def _n_uniques(marginals: Marginals, mask: int) -> int:
    return int((marginals.counts(mask) == 1).sum())


def _ranked(marginals: Marginals, masks: list[int], progress: Progress) -> list[int]:
    """The sets by their number of uniques, most first; ties in the order of the keys."""
    numbers = []
    for mask in masks:
        numbers.append(_n_uniques(marginals, mask))
        checkpoint(progress, STAGE, 1.0)
    return [masks[k] for k in np.argsort(-np.array(numbers), kind="stable")]


def _beam(marginals: Marginals, n_keys: int, size: int, progress: Progress) -> tuple[list[int], int]:
    kept, n_counted = [0], 0
    for _ in range(size):
        larger = dict.fromkeys(mask | 1 << k for mask in kept for k in range(n_keys) if not mask >> k & 1)
        kept = _ranked(marginals, list(larger), progress)
        n_counted += len(kept)
        kept = kept[:BEAM]
    return kept, n_counted


def _key_set(marginals: Marginals, mask: int, population: float) -> KeySet:
    sizes, numbers = np.unique(marginals.counts(mask), return_counts=True)
    estimate = pitman(dict(zip(sizes.tolist(), numbers.tolist(), strict=True)), population=population)
    return KeySet(marginals.table.names_of(mask), _n_uniques(marginals, mask), estimate.expected_population_uniques)
