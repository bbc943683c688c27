"""Which few of many variables would an intruder need?

For sets of keys of a given size: how many records they make unique in the file, and how many of those are likely to be
unique in the population. A file can be safe on the keys one has thought of and unsafe on five others.

1. A beam search on a random part of the file grows sets key by key and keeps the best at each size. The sets it finds are
   counted on the whole file and set the mark to beat.
2. Every set is then reached by adding keys one at a time, those with the most levels first. Cells that agree so far form a
   group; a cell alone in its group is settled, and only the rest is split by the next key. n records that agree so far can
   yield at most n unique ones, and fewer than L if n exceeds the number L of combinations of levels still to come. Sets that
   cannot reach the mark by this bound are ruled out together, without being counted.

Once all sets are counted or ruled out, the answer is proved. If time runs out first, the best sets so far are returned, with
the largest number that any remaining set could reach.
"""

from __future__ import annotations

import math
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from rarecell.data.names import joined_names
from rarecell.errors import BadInput, Cancelled
from rarecell.graph.masks import mask_of
from rarecell.machine.threads import n_cores
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.risk.population_uniques import pitman
from rarecell.table.contingency import ContingencyTable
from rarecell.table.marginals import Marginals
from rarecell.table.subsample import random_part
from rarecell.table.uniqueness import Columns, Undecided

if TYPE_CHECKING:
    from rarecell.edges import Json

STAGE = "scanning sets of keys"
MODELS_STAGE = "models of the riskiest sets"

TIME_LIMIT = 30.0
"""Seconds after which a scan ends with the best sets so far."""

BEAM = 20
"""Number of sets kept at each size of the beam search that sets the first mark."""

BEAM_RECORDS = 50_000
"""Number of random records that the beam search counts."""


@dataclass(frozen=True)
class KeySet:
    """A set of keys and what it gives away.

    Attributes
    ----------
    keys : tuple of str
        The keys.
    sample_uniques : int
        Number of records that are alone with their values of these keys.
    expected_population_uniques : float or None
        Number of those expected to be alone in the population, by Pitman's formula; None if it has no solution.
    modelled_population_uniques : float or None
        The same by a model of the table of these keys, which is more accurate; None if not requested or if time ran out.
    """

    keys: tuple[str, ...]
    sample_uniques: int
    expected_population_uniques: float | None
    modelled_population_uniques: float | None = None

    @property
    def population_uniques(self) -> float | None:
        """The best number there is of records that are alone in the population."""
        if self.modelled_population_uniques is not None:
            return self.modelled_population_uniques
        return self.expected_population_uniques


@dataclass(frozen=True)
class Scan:
    """The riskiest sets of keys of one size, riskiest first.

    Attributes
    ----------
    size : int
        Number of keys in a set.
    sets : tuple of KeySet
        The riskiest sets.
    n_counted, n_ruled_out, n_possible : int
        Number of sets counted, of sets ruled out without being counted, and of all possible sets.
    most_left : int
        If time ran out: the largest number of records that a set neither counted nor ruled out could make unique; otherwise 0.
    time_limit : float
        Time allowed, in seconds.
    """

    size: int
    sets: tuple[KeySet, ...]
    n_counted: int
    n_ruled_out: int
    n_possible: int
    most_left: int = 0
    time_limit: float = TIME_LIMIT

    @property
    def is_complete(self) -> bool:
        """Whether it is proved that no unlisted set makes more records unique than a listed one."""
        return self.n_counted + self.n_ruled_out >= self.n_possible

    def to_dict(self) -> Json:
        """Plain values, ready for JSON."""
        return {
            "size": self.size,
            "sets_counted": self.n_counted,
            "sets_ruled_out": self.n_ruled_out,
            "sets_possible": self.n_possible,
            "complete": self.is_complete,
            "most_uniques_of_sets_left": self.most_left,
            "sets": [
                {
                    "keys": list(key_set.keys),
                    "sample_uniques": key_set.sample_uniques,
                    "expected_population_uniques": key_set.expected_population_uniques,
                    "modelled_population_uniques": key_set.modelled_population_uniques,
                }
                for key_set in self.sets
            ],
        }

    def assess_command(self, words: Sequence[str]) -> str:
        """The command that assesses the riskiest set; ``words`` name the data and the population."""
        return f"rarecell assess {shlex.join([*words, '--keys', joined_names(self.sets[0].keys)])} --out run"

    def __str__(self) -> str:
        best = self.sets[0]
        said = f"{', '.join(best.keys)} make most records unique: {best.sample_uniques:,}."
        if self.n_counted == self.n_possible:
            return f"{said} All {self.n_possible:,} sets of {self.size} keys were counted."
        if self.is_complete:
            return (
                f"{said} Of {self.n_possible:,} sets of {self.size} keys, {self.n_counted:,} were counted, and the others cannot be among "
                "the riskiest."
            )
        left = self.n_possible - self.n_counted - self.n_ruled_out
        return (
            f"{said} Of {self.n_possible:,} sets of {self.size} keys, {left:,} were not reached before the time limit of "
            f"{self.time_limit:g} s; none of them can make more than {self.most_left:,} records unique."
        )


USUAL_SIZE = 5
"""Number of keys an intruder is assumed to know unless another one is given."""


def scan_subsets(
    table: ContingencyTable,
    *,
    size: int | None = None,
    population: float,
    top: int = 20,
    seed: int = 0,
    max_seconds: float = TIME_LIMIT,
    uniques_of: Callable[[ContingencyTable], float] | None = None,
    on_first: Callable[[KeySet], object] | None = None,
    progress: Progress = SILENT,
) -> Scan:
    """The sets of ``size`` keys that make the most records unique.

    Parameters
    ----------
    table : ContingencyTable
        Table of all candidate keys.
    size : int, optional
        Number of keys an intruder is assumed to know; unless given, 5, and of few keys all but one.
    population : float
        Number of units the sample was drawn from.
    top : int, optional
        Number of sets to return.
    seed : int, optional
        Seed for the random part that the first search uses; irrelevant once all sets are decided.
    max_seconds : float, optional
        Time after which the scan ends with the best sets so far.
    uniques_of : callable, optional
        Estimates the number of population uniques from the table of some keys; called for the sets that are returned, riskiest
        first, as long as time remains.
    on_first : callable, optional
        Receives the best set of the quick search that comes first, long before the answer is proved.
    progress : Progress, optional
        Receives the number of sets decided so far, and can stop the scan.

    Examples
    --------
    >>> import numpy as np, rarecell as rc
    >>> codes = np.array([[0, 0, 0], [0, 1, 1], [0, 1, 2], [1, 0, 3]], dtype=np.int32)
    >>> keys = [rc.Categories("a", (0, 1)), rc.Categories("b", (0, 1)), rc.Categories("c", (0, 1, 2, 3))]
    >>> table = rc.ContingencyTable.from_codes(codes, keys)
    >>> [(key_set.keys, key_set.sample_uniques) for key_set in scan_subsets(table, size=1, population=100).sets]
    [(('c',), 4), (('a',), 1), (('b',), 0)]
    """
    if size is None:
        size = max(1, min(USUAL_SIZE, table.n_keys - 1))
    if not 1 <= size <= table.n_keys:
        raise BadInput(f"Sets of {size} keys were asked for; with {table.n_keys} keys a set has between 1 and {table.n_keys}.")
    run = _ScanRun(table, size, top, time.monotonic() + max_seconds, progress)
    if comb(table.n_keys, size) > 10 * top:
        run.remember(_beam(random_part(table, BEAM_RECORDS, np.random.default_rng(seed)), size, run.deadline)[:top])
    marginals = Marginals(table.with_coarsenings(()), memory_budget=0)
    if on_first is not None and run.n_uniques_of:
        n_uniques, keys = run.best()[0]
        on_first(_key_set(marginals, keys, n_uniques, population))
    run.decide_all()
    progress.done()
    sets = [_key_set(marginals, keys, n_uniques, population) for n_uniques, keys in run.best()]
    if uniques_of is not None:
        progress.start(MODELS_STAGE, float(len(sets)))
        for place, key_set in enumerate(sets):
            sets[place] = _modelled(key_set, table, uniques_of, run.deadline if place else math.inf)
            checkpoint(progress, MODELS_STAGE, 1.0)
        progress.done()
    return Scan(size, tuple(sets), run.n_counted, run.n_ruled_out, comb(table.n_keys, size), run.most_left, max_seconds)


def _key_set(marginals: Marginals, keys: tuple[int, ...], n_uniques: int, population: float) -> KeySet:
    mask = mask_of(keys)
    sizes, numbers = np.unique(marginals.counts(mask), return_counts=True)
    estimate = pitman(dict(zip(sizes.tolist(), numbers.tolist(), strict=True)), population=population)
    return KeySet(marginals.table.names_of(mask), n_uniques, estimate.expected_population_uniques)


def _modelled(
    key_set: KeySet, table: ContingencyTable, uniques_of: Callable[[ContingencyTable], float], deadline: float
) -> KeySet:
    """A set with the estimate of a model, if there is time left to compute it."""
    if time.monotonic() > deadline:
        return key_set
    return replace(key_set, modelled_population_uniques=uniques_of(table.project(list(key_set.keys))))


def _beam(table: ContingencyTable, size: int, deadline: float) -> list[tuple[int, ...]]:
    """Good sets, best first: the best of each size, extended by every key."""
    whole = Undecided.of(Columns(table.with_coarsenings(())))
    kept: list[tuple[tuple[int, ...], Undecided]] = [((), whole)]
    for depth in range(size):
        numbers: dict[tuple[int, ...], tuple[int, Undecided]] = {}
        for keys, cells in kept:
            for k in range(table.n_keys):
                larger = tuple(sorted((*keys, k)))
                if k not in keys and larger not in numbers:
                    numbers[larger] = (cells.n_unique_with(k), cells)
        best = sorted(numbers, key=lambda keys: (-numbers[keys][0], keys))[:BEAM]
        if depth + 1 == size or time.monotonic() > deadline:
            return [keys for keys in best if len(keys) == size]
        kept = []
        for keys in best:
            before = numbers[keys][1]
            (new,) = set(keys) - set(before.vertices)
            kept.append((keys, before.split_by(new)))
    return []


class _ScanRun:
    """One scan: the sets to go through, the best so far, and what has been decided."""

    def __init__(self, table: ContingencyTable, size: int, top: int, deadline: float, progress: Progress) -> None:
        self.whole = Undecided.of(Columns(table.with_coarsenings(())))
        self.size = size
        self.top = top
        self.deadline = deadline
        self.progress = progress
        levels = self.whole.columns.levels
        self.order = sorted(range(table.n_keys), key=lambda k: -levels[k])
        self.levels = [levels[k] for k in self.order]
        self.n_uniques_of: dict[tuple[int, ...], int] = {}
        self.mark = -1
        self.n_counted = 0
        self.n_ruled_out = 0
        self.most_left = 0
        self._lock = threading.Lock()

    def best(self) -> list[tuple[int, tuple[int, ...]]]:
        """The sets with the most uniques; ties in the order of the keys."""
        return [
            (self.n_uniques_of[keys], keys)
            for keys in sorted(self.n_uniques_of, key=lambda keys: (-self.n_uniques_of[keys], keys))[: self.top]
        ]

    def remember(self, sets: Iterable[tuple[int, ...]]) -> None:
        """Count some sets in advance to have an initial mark."""
        for keys in sets:
            cells = self.whole
            for k in sorted(keys, key=self.order.index)[:-1]:
                cells = cells.split_by(k)
            self._put(keys, cells.n_unique_with(sorted(keys, key=self.order.index)[-1]))
            if self._is_over():
                return

    def _put(self, keys: tuple[int, ...], n_uniques: int) -> None:
        self.n_uniques_of[tuple(sorted(keys))] = n_uniques
        if len(self.n_uniques_of) >= self.top:
            self.n_uniques_of = {keys: n for n, keys in self.best()}
            self.mark = min(self.n_uniques_of.values())

    def _is_over(self) -> bool:
        if self.progress.cancelled():
            raise Cancelled.during(STAGE)
        return time.monotonic() > self.deadline

    def decide_all(self) -> None:
        """Count or rule out every set, on all cores; sets with the same first two keys form one unit of work."""
        n_keys = len(self.order)
        self.progress.start(STAGE, float(comb(n_keys, self.size)))
        if self.size < 3:
            self._below(self.whole, -1)
            return
        first: dict[int, Undecided] = {}
        of_first = self._bounds(self.whole, list(range(n_keys)))

        def work(pair: tuple[int, int]) -> None:
            i, j = pair
            if self._is_over():
                with self._lock:
                    self.most_left = max(self.most_left, of_first[i])
                return
            with self._lock:
                if i not in first:
                    first.clear()
                    first[i] = self.whole.split_by(self.order[i])
                begun = first[i]
            self._child(begun, j, self._bounds(begun, [j])[0])

        pairs = list(combinations(range(n_keys), 2))
        with ThreadPoolExecutor(n_cores()) as pool:
            try:
                list(pool.map(work, [(i, j) for i, j in pairs if n_keys - j > self.size - 2]))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _bounds(self, cells: Undecided, children: list[int]) -> list[int]:
        """For each of these next keys, the most uniques of any set that contains the keys so far and continues with it."""
        n_more = self.size - len(cells.vertices)
        return cells.bounds([math.prod(map(float, self.levels[j : j + n_more])) for j in children])

    def _child(self, cells: Undecided, j: int, bound: int) -> None:
        """Decide all sets that continue with the key at position ``j`` of the order."""
        n_more = self.size - len(cells.vertices)
        n_sets = comb(len(self.order) - j - 1, n_more - 1)
        if bound < self.mark:
            self._decided(n_ruled_out=n_sets)
        elif self._is_over():
            with self._lock:
                self.most_left = max(self.most_left, bound)
        elif n_more == 1:
            n_uniques = cells.n_unique_with(self.order[j])
            with self._lock:
                if n_uniques >= self.mark:
                    self._put((*cells.vertices, self.order[j]), n_uniques)
            self._decided(n_counted=1)
        else:
            self._below(cells.split_by(self.order[j]), j)

    def _below(self, cells: Undecided, last: int) -> None:
        n_more = self.size - len(cells.vertices)
        children = list(range(last + 1, len(self.order) - n_more + 1))
        for j, bound in zip(children, self._bounds(cells, children), strict=True):
            self._child(cells, j, bound)

    def _decided(self, *, n_counted: int = 0, n_ruled_out: int = 0) -> None:
        with self._lock:
            self.n_counted += n_counted
            self.n_ruled_out += n_ruled_out
            self.progress.advance(float(n_counted + n_ruled_out))
