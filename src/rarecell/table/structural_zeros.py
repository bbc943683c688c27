"""Which combinations of values cannot occur at all?

Nobody under 15 is married, and a man has no maiden name. Such *structural zeros* are empty in the population, not just
in the sample. They need no parameters, and a swap must not create them. :mod:`rarecell.table.structural_zeros` finds
candidates and states the evidence for each in words.

A structural zero never sets a probability to zero: a record that looks impossible but does occur is the riskiest of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import short_type
from rarecell._kernels.margins import full_counts
from rarecell.errors import BadInput, UnknownColumns
from rarecell.machine.threads import WORTH_A_THREAD, on_all_cores
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.table.contingency import Categories, ContingencyTable
from rarecell.table.possible_cells import Compatibility

if TYPE_CHECKING:
    from rarecell.edges import Json, Level, ReadJson


Levels = tuple[tuple[str, Any], ...]
"""Pairs of key and level, in the order of the table's keys."""


@dataclass(frozen=True)
class ExcludedCombination:
    """Levels of two or more keys that never occur together.

    ``expected`` is the number of records the sample would be expected to have there if the combination were possible;
    None when a person named the combination.
    """

    levels: Levels
    expected: float | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(key for key, _ in self.levels)

    @property
    def evidence(self) -> str:
        names = " with ".join(f"{key} '{_label(level)}'" for key, level in self.levels)
        if self.expected is None:
            return f"{names} was named as impossible."
        how = "the two were unrelated" if len(self.levels) == 2 else "only pairs of the three were related"
        return f"No record has {names}, although {self.expected:,.1f} would be expected if {how}."


@dataclass(frozen=True)
class FunctionalDependency:
    """Each level of ``determinant`` occurs with only one level of ``dependent``: H(dependent | determinant) = 0.

    ``expected`` is the number of records expected to break the rule if the two keys were unrelated; None when a person
    named the rule.
    """

    determinant: str
    dependent: str
    expected: float | None = None

    @property
    def evidence(self) -> str:
        rule = f"{self.determinant} determines {self.dependent}"
        if self.expected is None:
            return f"{rule}: this was named as a rule."
        return (
            f"{rule} in all records, although {self.expected:,.1f} would be expected to break the rule if the two were unrelated."
        )


@dataclass(frozen=True)
class StructuralZeros:
    """The combinations and rules of what cannot occur: a list to read, edit and store.

    Examples
    --------
    >>> zeros = StructuralZeros.from_dict({"combinations": [{"levels": {"age": 7, "marital": "married"}}]})
    >>> print(zeros.combinations[0].evidence)
    age '7' with marital 'married' was named as impossible.
    """

    combinations: tuple[ExcludedCombination, ...] = ()
    dependencies: tuple[FunctionalDependency, ...] = ()
    not_searched: tuple[tuple[str, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.combinations or self.dependencies)

    def project(self, keys: Iterable[str]) -> StructuralZeros:
        """The entries that concern only these keys."""
        kept = set(keys)
        return replace(
            self,
            combinations=tuple(c for c in self.combinations if kept.issuperset(c.keys)),
            dependencies=tuple(d for d in self.dependencies if kept >= {d.determinant, d.dependent}),
        )

    def to_dict(self) -> Json:
        """Plain lists and numbers, suitable for JSON and TOML; a missing level is written as ``"missing"``."""
        return {
            "combinations": [
                {"levels": {key: _plain(level) for key, level in c.levels}}
                | ({} if c.expected is None else {"expected": round(c.expected, 3)})
                for c in self.combinations
            ],
            "dependencies": [
                {"determinant": d.determinant, "dependent": d.dependent}
                | ({} if d.expected is None else {"expected": round(d.expected, 3)})
                for d in self.dependencies
            ],
        }

    @classmethod
    def from_dict(cls, stored: ReadJson) -> StructuralZeros:
        """Read what :meth:`to_dict` wrote, or a user's own list; levels are matched by value, otherwise by label."""
        try:
            zeros = cls(
                tuple(ExcludedCombination(tuple(c["levels"].items()), c.get("expected")) for c in stored.get("combinations", ())),
                tuple(
                    FunctionalDependency(d["determinant"], d["dependent"], d.get("expected"))
                    for d in stored.get("dependencies", ())
                ),
            )
        except (AttributeError, KeyError, TypeError) as problem:
            raise BadInput(
                "The list of structural zeros cannot be read. It needs 'combinations', each with 'levels' that name a level of "
                "two or more keys, and 'dependencies', each with 'determinant' and 'dependent'."
            ) from problem
        for combination in zeros.combinations:
            if len(combination.levels) < 2:
                raise BadInput(f"A structural zero joins levels of two or more keys; {dict(combination.levels)} names fewer.")
        return zeros

    def __str__(self) -> str:
        return (
            f"{len(self.combinations):,} combinations of levels and {len(self.dependencies):,} rules between keys look structural: "
            "empty or fixed although records would be expected otherwise."
        )


# ---------------------------------------------------------------------- applying to a table


def compatibility(table: ContingencyTable, zeros: StructuralZeros) -> Compatibility:
    """The excluded combinations as arrays over the levels of ``table``.

    Raises
    ------
    UnknownColumns
        When the table does not have a key that is named.
    BadInput
        When records contradict a combination or rule on the list.
    """
    excluded: dict[tuple[int, ...], NDArray[np.bool_]] = {}

    def array(keys: tuple[int, ...]) -> NDArray[np.bool_]:
        return excluded.setdefault(keys, np.zeros([table.categories[k].n_levels for k in keys], dtype=bool))

    for item in zeros.combinations:
        codes = sorted((_key_position(table, key), level) for key, level in item.levels)
        keys = tuple(k for k, _ in codes)
        cell = tuple(_code(table.categories[k], level) for k, level in codes)
        if None not in cell:  # a level that no record has needs no flag
            array(keys)[cell] = True
    margins = FullMarginals(table)
    for rule in zeros.dependencies:
        keys = tuple(sorted((_key_position(table, rule.determinant), _key_position(table, rule.dependent))))
        observed = margins.counts(keys) > 0
        broken = observed.sum(axis=keys.index(_key_position(table, rule.dependent))) > 1
        if broken.any():
            raise BadInput(
                f"{rule.determinant} is said to determine {rule.dependent}, but {int(broken.sum()):,} levels of "
                f"{rule.determinant} occur with several levels of {rule.dependent}. Take the rule off the list of structural zeros."
            )
        array(keys)[~observed] = True
    bound = Compatibility(table, excluded)
    contradicted = bound.violates(table.cells)
    if contradicted.any():
        wrong = next(item for item in zeros.combinations if _holds(table, item).any())
        raise BadInput(
            f"{int(table.counts[contradicted].sum()):,} records hold a combination that is listed as a structural zero, first "
            f"{' with '.join(f'{key} {_label(level)!r}' for key, level in wrong.levels)}. Correct the records or the list."
        )
    return bound


def _holds(table: ContingencyTable, item: ExcludedCombination) -> NDArray[np.bool_]:
    is_inside = np.ones(table.n_cells, dtype=bool)
    for key, level in item.levels:
        k = _key_position(table, key)
        is_inside &= table.cells[:, k] == _code(table.categories[k], level)
    return is_inside


def _key_position(table: ContingencyTable, key: str) -> int:
    if key not in table.keys:
        raise UnknownColumns.among([key], table.keys, role="key")
    return table.keys.index(key)


def _code(categories: Categories, level: Level) -> int | None:
    """The code of a level given by value or by label; None when no record has it."""
    if level in categories.levels:
        return categories.levels.index(level)
    labels = categories.labels
    return labels.index(_label(level)) if _label(level) in labels else None


def _label(level: Level) -> str:
    return "missing" if level is None else str(level)


def _plain(level: Level) -> Any:
    """A level in a form that JSON and TOML can store."""
    return level if isinstance(level, str | bool | int | float) else _label(level)


# Which combinations of values are empty for reasons other than chance?
#
# The result is a list of candidates for structural zeros, with the evidence for each. A person who knows the data confirms
# or rejects them, or adds others.


ERROR_RATE = 0.05
"""Expected number of empty cells flagged by chance, over all cells searched, when the keys are unrelated."""

LARGEST_TABLE = 2_000_000

MOST_VISITS = 1_000_000_000

STAGE = "looking for structural zeros"

_COUNTED_AHEAD = 16
"""Groups of keys whose counts are computed at once, on all cores, in tables that are worth it."""


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
    excluded: list[ExcludedCombination] = []
    n_occupied: dict[tuple[int, ...], int] = {}
    relatedness = np.zeros((table.n_keys, table.n_keys))

    def counted_ahead(groups: Sequence[tuple[int, ...]]) -> Iterable[tuple[tuple[int, ...], NDArray[np.float64]]]:
        """The counts of some groups of keys, a few of which are computed at once."""
        at_once = _COUNTED_AHEAD if table.n_cells >= WORTH_A_THREAD else 1
        for start in range(0, len(groups), at_once):
            checkpoint(progress, STAGE)
            few = groups[start : start + at_once]
            yield from zip(few, on_all_cores(margins.counts, [(keys,) for keys in few]), strict=True)

    def search(groups: Sequence[tuple[int, ...]]) -> None:
        least = math.log(max(sum(map(margins.n_possible, groups)), 1) / error_rate)
        skipped.extend(keys for keys in groups if margins.n_possible(keys) > largest_table)
        searched = [keys for keys in groups if margins.n_possible(keys) <= largest_table]
        for keys, observed in counted_ahead(searched):
            expected = _expected(observed, least)
            flagged = (observed == 0) & (expected >= least) & ~_flagged_pairs(flags, keys, observed.shape)
            if flagged.any():
                excluded.extend(_combinations(table, keys, flagged, expected))
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
        tuple(excluded),
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
    is_flagged = np.zeros(shape, dtype=bool)
    if len(keys) == 3:
        for axis in range(3):
            pair = keys[:axis] + keys[axis + 1 :]
            if pair in flags:
                is_flagged |= np.expand_dims(flags[pair], axis)
    return is_flagged


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


# How many records fall into each cell of a few keys, empty cells included?


class FullMarginals:
    """Marginals of a few keys as full arrays."""

    def __init__(self, table: ContingencyTable) -> None:
        self.codes = np.asfortranarray(table.cells, short_type(max(c.n_levels for c in table.categories)))
        self.weights = table.counts.astype(float)
        self.levels = [c.n_levels for c in table.categories]

    def n_possible(self, keys: Sequence[int]) -> int:
        return math.prod(self.levels[k] for k in keys)

    def counts(self, keys: Sequence[int]) -> NDArray[np.float64]:
        shape = [self.levels[k] for k in keys]
        n_levels = np.array(shape, dtype=np.int64)
        counts = full_counts(self.codes.T, self.weights, np.array(keys, dtype=np.int64), n_levels, math.prod(shape))
        return np.asarray(counts.reshape(shape), dtype=np.float64)

    def n_occupied(self, keys: tuple[int, ...]) -> int:
        return len(np.unique(self.codes[:, keys], axis=0))
