"""Which columns of a release give away what was done to a key?

A key that was recoded, swapped or blanked is protected only as far as the rest of the file does not restore it: age in bands of
five years is undone by a year of birth, a top-coded household size by counting the rows of a household. For every released column
Y the question is how much of the concealed value X it determines beyond what the release shows anyway, S:

    D = (I(X; Y | S) − E) / (H(X | S) − E)

I is the mutual information of the counts, H the entropy that S leaves, and E what a column without any relation to X would reach
by chance, measured on X permuted within S. So a function of Y has D = 1 however many values it has, and a column in which
everybody has a value of their own has D = 0. A column that orders the records as X does (a date of birth) is cut into short runs
of its order first. D is also taken within each shown level, because a column may be known for a part of the records only.

References
----------
Vinh, N. X., Epps, J. and Bailey, J. (2010). Information theoretic measures for clusterings comparison: variants, properties,
normalization and correction for chance. Journal of Machine Learning Research 11, 2837–2854.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rarecell.data.whole_file import Integers, OrderedColumn

Floats = NDArray[np.float64]

RECODED, SWAPPED, BLANKED = "recoded", "swapped", "blanked"

RESTORES = {RECODED: 0.5, SWAPPED: 0.8, BLANKED: 0.8}
"""From this D on a column restores a key. Keys that were swapped or blanked show nothing in place of their value, so that ordinary
associations count towards D; a recoded key shows its group, within which other columns are hardly related to it."""

TELLS = 0.25
"""From this share of what restores a key, a column is listed."""

SCREENED_RECORDS = 20_000
"""All columns are tried on a sample of this many records, and those with a D of half of :data:`TELLS` on all of them."""

SCREENED_HOUSEHOLDS = 6_000
"""What the rows of a household show together is tried on this many households first."""

SHORTEST_RUN, MOST_RUNS = 5, 2_000
"""A column in which most values are rare is cut into runs of its order, of at least this many records, and about so many runs."""

FEWEST_IN_GROUP = 50
"""A shown level with fewer records is not looked at by itself."""

SURE = 6.0
"""Standard deviations above chance at which a relation counts as real."""

MOST_TOGETHER = 8
"""Columns that tell something alone are tried together with each other, the most telling ones first, up to this many."""

MOST_LEVELS_COUNTED = 8
"""Members of a household are counted by the levels of a column with at most this many."""


@dataclass(frozen=True, eq=False)
class Concealed:
    """A treated key: the original value of each record, what the release shows in place of it, and how many records that concerns.

    Codes are counted from 0, and −1 stands for a record without a value. ``numbers`` has the number that each original value
    stands for, if it is one. ``shown`` is constant where the release shows nothing of the value.
    """

    key: str
    by: str
    values: Integers
    shown: Integers
    n_records: int
    numbers: Floats | None = None

    @cached_property
    def _has_value(self) -> NDArray[np.bool_]:
        return (self.values >= 0) & (self.shown >= 0)

    def at(self, records: NDArray[np.int64]) -> Concealed:
        """The same for some of the records."""
        return replace(self, values=self.values[records], shown=self.shown[records])

    @cached_property
    def pairs(self) -> _Pairs:
        return _Pairs.of(self.values, self.shown)

    @cached_property
    def pairs_by_chance(self) -> _Pairs:
        """The same with the values permuted among the records that show the same."""
        permuted = self.values.copy()
        held = np.flatnonzero(self._has_value)
        mixed = held[np.random.default_rng(20_260).permutation(len(held))]
        into, out_of = (rows[np.argsort(self.shown[rows], kind="stable")] for rows in (held, mixed))
        permuted[into] = self.values[out_of]
        return _Pairs.of(permuted, self.shown)


def in_runs(column: OrderedColumn) -> OrderedColumn | None:
    """The column cut into runs of neighbouring values, if most of its values are too rare to be counted by themselves."""
    known = column.codes[column.codes >= 0]
    counts = np.bincount(known, minlength=1)
    if len(known) < 4 * SHORTEST_RUN or np.median(counts[known]) >= 4 * SHORTEST_RUN:
        return None
    length = max(SHORTEST_RUN, len(known) // MOST_RUNS)
    # Equal values are never separated: a value belongs to the run in which its first record lies.
    run = ((np.cumsum(counts) - counts) // length).astype(np.int32)
    return OrderedColumn(column.name, np.where(column.codes >= 0, run[column.codes], -1), int(run[-1]) + 1)


@dataclass(frozen=True)
class Leak:
    """Columns that together determine a concealed key.

    Attributes
    ----------
    columns : tuple of str
        The columns; with the household number first where its rows are counted or added up.
    key, by : str
        The key, and what was done to it.
    determines : float
        D, the share of what the treatment conceals that the columns restore; within one shown level if ``shown`` is not None.
    how : str
        ``"values"``, ``"order"``, a ``"part"`` of its digits or words, ``"sum"`` or ``"ratio"`` of the columns, or what is done
        with the rows of a household.
    shown : int or None
        The shown level in which D is highest, if it is not that of the whole file.
    records : int
        Records whose concealed value is told about.
    """

    columns: tuple[str, ...]
    key: str
    by: str
    determines: float
    how: str
    shown: int | None = None
    records: int = 0

    @property
    def restores(self) -> bool:
        """Whether what the treatment conceals is as good as released."""
        return self.determines >= RESTORES[self.by]

    @property
    def is_worth_telling(self) -> bool:
        return self.determines >= TELLS * RESTORES[self.by]


def leaks(
    concealed: Sequence[Concealed], columns: Sequence[OrderedColumn], *, households: tuple[str, Integers] | None = None
) -> tuple[Leak, ...]:
    """Find the columns, alone and in small sets, that tell about the concealed values of keys; the most telling first.

    Parameters
    ----------
    concealed : sequence of Concealed
        Keys that were treated.
    columns : sequence of OrderedColumn
        Every column of the release, keys as they are released.
    households : (str, array of int), optional
        The column of the household number and the household of each record, if membership is released.
    """
    all_leaks: list[Leak] = []
    for concealed_key in concealed:
        all_leaks += _of_key(concealed_key, [column for column in columns if column.name != concealed_key.key], households)
    return tuple(sorted(all_leaks, key=lambda leak: (-leak.determines / RESTORES[leak.by], leak.key, leak.columns)))


def _of_key(concealed: Concealed, columns: Sequence[OrderedColumn], households: tuple[str, Integers] | None) -> list[Leak]:
    n = len(concealed.values)
    sample = (
        np.arange(n) if n <= SCREENED_RECORDS else np.sort(np.random.default_rng(0).choice(n, SCREENED_RECORDS, replace=False))
    )
    part = concealed if len(sample) == n else concealed.at(sample)
    singles: list[tuple[OrderedColumn, Leak]] = []
    weak: list[tuple[float, OrderedColumn]] = []
    for column in columns:
        there = column if len(sample) == n else column.at(sample)
        leak = _of_column(part, there)
        if leak is not None and leak.determines >= TELLS * RESTORES[concealed.by] / 2.0 and len(sample) < n:
            leak = _of_column(concealed, column)
        if leak is None:
            continue
        if leak.is_worth_telling:
            singles.append((column, leak))
        if not leak.restores and leak.determines >= 0.02:
            weak.append((leak.determines, there))
    leaks_of_key = [leak for _, leak in singles]
    alone = {leak.columns[0]: leak.determines for leak in leaks_of_key}
    telling = [column for _, column in sorted(weak, key=lambda pair: -pair[0])[:MOST_TOGETHER]]
    restoring = {leak.columns[0] for leak in leaks_of_key if leak.restores}
    leaks_of_key += [leak for leak in _together(part, telling) if _adds(leak, alone)]
    others = [column.at(sample) for column in columns if column.name not in restoring]
    summed = [leak for leak in _sums(part, others) if _adds(leak, alone)]
    leaks_of_key += summed or [leak for leak in _sums(part, others, in_logs=True) if _adds(leak, alone)]
    if households is not None:
        leaks_of_key += _of_households(concealed, columns, *households)
    return leaks_of_key


def _adds(leak: Leak, alone: Mapping[str, float]) -> bool:
    """Whether columns together restore the key, and clearly more than one of them does by itself."""
    return leak.restores and leak.determines >= 0.1 + max((alone.get(name, 0.0) for name in leak.columns), default=0.0)


# ---------------------------------------------------------------------- one column


def _of_column(concealed: Concealed, column: OrderedColumn) -> Leak | None:
    """What a column tells by its values or by its order, whichever is more; None if nothing beyond chance."""
    ways = [_measured(concealed, column.codes, column.n_levels, (column.name,), "values")]
    if (runs := in_runs(column)) is not None:
        ways.append(_measured(concealed, runs.codes, runs.n_levels, (column.name,), "order"))
    best = max((leak for leak in ways if leak is not None), key=lambda leak: leak.determines, default=None)
    if runs is None or (best is not None and best.restores):
        return best
    # A number in which most values are rare may still have the key among its digits, a text among its words.
    parts = [_measured(concealed, part.codes, part.n_levels, (column.name,), "part") for part in column.parts()]
    return max((leak for leak in (best, *parts) if leak is not None), key=lambda leak: leak.determines, default=None)


def _measured(concealed: Concealed, codes: Integers, n_levels: int, names: tuple[str, ...], how: str) -> Leak | None:
    known = np.flatnonzero(concealed._has_value & (codes >= 0))
    if len(known) < 4 * SHORTEST_RUN:
        return None
    shown, n_shown = concealed.shown[known], int(concealed.shown.max()) + 1
    of_shown = np.bincount(shown, minlength=n_shown)
    own = _information(concealed.pairs, known, codes, n_shown, n_levels)
    chance = _information(concealed.pairs_by_chance, known, codes, n_shown, n_levels)
    # Sums over the records of a shown level; I ≤ H, and both are 0 where one value is all that it can be.
    hidden, given_away, by_chance = own.entropy, own.information, np.minimum(chance.information, own.entropy)
    best, where, records = _share(hidden.sum(), given_away.sum(), by_chance.sum()), None, int(of_shown[hidden > 1e-9].sum())
    for level in np.flatnonzero((of_shown >= FEWEST_IN_GROUP) & (hidden > 1e-9)) if n_shown > 1 else ():
        share = _share(hidden[level], given_away[level], by_chance[level])
        # A single level counts only where it is more than the file's own share by a margin: there are many levels.
        if share > best + 0.05:
            best, where, records = share, int(level), int(of_shown[level])
    return Leak(names, concealed.key, concealed.by, best, how, where, records) if best > 0.0 else None


def _share(hidden: float, given_away: float, by_chance: float) -> float:
    """D from sums over records of H, I and E, in nats; 0 where it could be chance, or chance alone would tell nearly all."""
    above = given_away - by_chance
    if above <= SURE * (np.sqrt(by_chance) + 1.0) or hidden - by_chance <= 0.05 * hidden:
        return 0.0
    return float(above / (hidden - by_chance))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """What is shown and what is concealed, as one code for each record; ``shown_of`` has the shown level of each pair."""

    codes: NDArray[np.int64]
    shown_of: NDArray[np.int64]

    @classmethod
    def of(cls, values: Integers, shown: Integers) -> _Pairs:
        n_values = int(values.max(initial=0)) + 1
        distinct, codes = np.unique(
            np.where((values < 0) | (shown < 0), -1, shown.astype(np.int64) * n_values + values), return_inverse=True
        )
        n_missing = int(distinct[0] < 0)
        return cls(codes.astype(np.int64) - n_missing, distinct[n_missing:] // n_values)


@dataclass(frozen=True, eq=False)
class _Information:
    """For each shown level, the sums over its records of H(X | S) and I(X; Y | S), in nats."""

    entropy: Floats
    information: Floats


def _information(pairs: _Pairs, known: NDArray[np.int64], codes: Integers, n_shown: int, n_levels: int) -> _Information:
    of_pair, of_column = pairs.codes[known], codes[known].astype(np.int64)
    shown = pairs.shown_of[of_pair]

    def summed(level: Integers, counts: Integers) -> Floats:
        return np.bincount(level, weights=counts * np.log(counts), minlength=n_shown).astype(np.float64)

    n_s, (sx, n_sx) = np.bincount(shown, minlength=n_shown).astype(np.float64), _counted(of_pair, len(pairs.shown_of))
    sy, n_sy = _counted(shown * n_levels + of_column, n_shown * n_levels)
    sxy, n_sxy = _counted(of_pair * n_levels + of_column, len(pairs.shown_of) * n_levels)
    of_s, of_sx = n_s * np.log(np.maximum(n_s, 1.0)), summed(pairs.shown_of[sx], n_sx)
    of_sy, of_sxy = summed(sy // n_levels, n_sy), summed(pairs.shown_of[sxy // n_levels], n_sxy)
    return _Information(of_s - of_sx, np.maximum(of_sxy + of_s - of_sx - of_sy, 0.0))


def _counted(numbers: NDArray[np.int64], span: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct numbers below ``span``, and how often each occurs."""
    if span <= 4 * len(numbers):
        counts = np.bincount(numbers, minlength=span)
        distinct = np.flatnonzero(counts)
        return distinct, counts[distinct]
    ordered = np.sort(numbers)
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return ordered[starts], np.diff(np.append(starts, len(ordered)))


# ---------------------------------------------------------------------- small sets of columns


def _joined(columns: Sequence[OrderedColumn]) -> tuple[Integers, int]:
    """The combination of values that each record has; −1 where one is missing."""
    codes, n_levels = columns[0].codes.astype(np.int64), columns[0].n_levels
    for column in columns[1:]:
        pair = np.where((codes >= 0) & (column.codes >= 0), codes * column.n_levels + column.codes, -1)
        distinct, codes = np.unique(pair, return_inverse=True)
        codes = codes.astype(np.int64) - int(distinct[0] == -1)
        n_levels = max(1, len(distinct) - int(distinct[0] == -1))
    return codes, n_levels


def _together(concealed: Concealed, columns: Sequence[OrderedColumn]) -> Iterator[Leak]:
    """Pairs of columns, and triples of the most telling ones, by the combination of their values."""
    coarse = [in_runs(column) or column for column in columns]
    for few in (*combinations(coarse, 2), *combinations(coarse[:4], 3)):
        leak = _measured(concealed, *_joined(few), tuple(column.name for column in few), "values")
        if leak is not None:
            yield leak


def _sums(concealed: Concealed, columns: Sequence[OrderedColumn], *, in_logs: bool = False) -> Iterator[Leak]:
    """A key that is a sum or difference of two or three columns, found by regression on one column after another.

    The columns are chosen as in orthogonal matching pursuit; what is predicted is then judged like any column, by its counts. A
    product or ratio is a sum of logarithms.
    """
    numeric = [column for column in columns if column.numbers is not None]
    if concealed.numbers is None or len(numeric) < 2:
        return
    held = np.flatnonzero(concealed.values >= 0)[:5_000]
    values = concealed.numbers[concealed.values[held]]
    known = np.stack([column.codes[held] >= 0 for column in numeric], axis=1)
    numbers = np.stack([c.numbers[c.codes[held]] for c in numeric if c.numbers is not None], axis=1)
    if in_logs:
        with np.errstate(all="ignore"):
            values, numbers = np.log(values), np.log(numbers)
    known &= np.isfinite(numbers)
    # A column with no number at all, such as the logarithms of negative ones, has a sum of 0 here and is not usable.
    n_known = np.maximum(known.sum(axis=0), 1)
    center = np.where(known, numbers, 0.0).sum(axis=0) / n_known
    spread = np.sqrt((np.where(known, numbers - center, 0.0) ** 2).sum(axis=0) / n_known)
    usable = (known.mean(axis=0) > 0.5) & np.isfinite(spread) & (spread > 0)
    has_value = np.isfinite(values)
    if usable.sum() < 2 or has_value.sum() < 4 * SHORTEST_RUN or np.ptp(values[has_value]) == 0:
        return
    values = np.where(has_value, values, 0.0)
    design = np.where(usable & known, (np.where(known, numbers, 0.0) - center) / np.where(usable, spread, 1.0), 0.0)
    rest, chosen = np.where(has_value, values - values[has_value].mean(), 0.0), list[int]()
    while len(chosen) < 3:
        score = np.abs(design.T @ rest)
        score[[*chosen]] = -1.0
        chosen.append(int(np.argmax(score)))
        every = known[:, chosen].all(axis=1) & has_value
        if every.sum() < 4 * SHORTEST_RUN:
            return
        terms = np.column_stack([np.ones(len(held)), design[:, chosen]])
        fitted = terms @ np.linalg.lstsq(terms[every], values[every], rcond=None)[0]
        rest = np.where(every, values - fitted, 0.0)
        if len(chosen) > 1:
            names = tuple(numeric[k].name for k in sorted(chosen))
            part = Concealed(concealed.key, concealed.by, concealed.values[held], concealed.shown[held], concealed.n_records)
            # In steps of a tenth of the smallest difference between values, rounding errors do not matter.
            step = 0.1 * float(np.diff(np.unique(concealed.numbers[np.isfinite(concealed.numbers)])).min(initial=np.inf))
            if not np.isfinite(step):
                return
            predicted = np.exp(np.minimum(fitted, 50.0)) if in_logs else fitted
            _, codes = np.unique(np.rint(predicted / (10 * step)), return_inverse=True)
            leak = _measured(part, np.where(every, codes, -1), int(codes.max()) + 1, names, "ratio" if in_logs else "sum")
            if leak is not None and leak.restores:
                yield leak
                return


# ---------------------------------------------------------------------- the rows of a household


def _of_households(concealed: Concealed, columns: Sequence[OrderedColumn], name: str, households: Integers) -> list[Leak]:
    """What the rows of a household show by being counted or added up, about a key that all its members share."""
    order = np.argsort(households, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], np.diff(households[order]) != 0]))
    sizes = np.diff(np.append(starts, len(order)))
    if len(starts) > 0.9 * len(order) or not _is_shared(concealed.values[order], starts, sizes):
        return []
    first = concealed.at(order[starts])
    n = len(starts)
    screened = (
        np.arange(n) if n <= SCREENED_HOUSEHOLDS else np.random.default_rng(0).choice(n, SCREENED_HOUSEHOLDS, replace=False)
    )
    part = first if len(screened) == n else first.at(np.sort(screened))
    restoring = []
    for names, how, totals in _shown_together(columns, order, starts, sizes, name):
        distinct, codes = np.unique(totals, return_inverse=True)
        codes = np.where(np.isnan(totals), -1, codes).astype(np.int32)
        n_levels = max(1, len(distinct))
        leak = _of_totals(part, codes if part is first else codes[np.sort(screened)], n_levels, names, how)
        if leak is not None and part is not first and leak.is_worth_telling:
            leak = _of_totals(first, codes, n_levels, names, how)
        if leak is not None and leak.restores:
            restoring.append(leak)
    # Many columns add up to the same: the number of rows, if it restores the key, says it all.
    counted = [leak for leak in restoring if leak.how == "rows counted"]
    return counted or sorted(restoring, key=lambda leak: -leak.determines)[:3]


def _of_totals(concealed: Concealed, codes: Integers, n_levels: int, names: tuple[str, ...], how: str) -> Leak | None:
    """As for a column; totals that hardly two households share are looked at in their order."""
    column = OrderedColumn(names[0], codes, n_levels)
    ways = [_measured(concealed, codes, n_levels, names, how)]
    if (runs := in_runs(column)) is not None:
        ways.append(_measured(concealed, runs.codes, runs.n_levels, names, how))
    return max((leak for leak in ways if leak is not None), key=lambda leak: leak.determines, default=None)


def _is_shared(values: Integers, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> bool:
    """Whether nearly all households have one value of the key."""
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    large = sizes > 1
    return bool(large.any() and (low == high)[large].mean() >= 0.98)


def _shown_together(
    columns: Sequence[OrderedColumn], order: NDArray[np.int64], starts: NDArray[np.int64], sizes: NDArray[np.int64], name: str
) -> Iterator[tuple[tuple[str, ...], str, Floats]]:
    """Names of columns, what is done with the rows of a household, and the result for each household; NaN if not known."""
    yield (name,), "rows counted", sizes.astype(np.float64)
    for column in columns:
        codes = column.codes[order]
        known = codes >= 0
        if column.n_levels <= MOST_LEVELS_COUNTED:
            for level in range(column.n_levels):
                yield (
                    (name, column.name),
                    "rows with one value counted",
                    np.add.reduceat(codes == level, starts).astype(np.float64),
                )
        if column.numbers is not None and column.n_levels > 2:
            numbers = np.where(known, column.numbers[codes], 0.0)
            is_whole = np.logical_and.reduceat(known, starts)
            yield (name, column.name), "values added up", np.where(is_whole, np.add.reduceat(numbers, starts), np.nan)
            yield (name, column.name), "largest value taken", np.maximum.reduceat(np.where(known, numbers, -np.inf), starts)
