"""Which values of a sensitive column are exchanged so that groups of look-alike records give less away?

Two records exchange their values of the sensitive column and nothing else. They agree on a separator: the keys that are joined with the
column in a decomposable model of keys and column. So every table of the column with those keys stays as it is, cell by cell, and so do
all tables of the keys; given the separator, the model says, the other keys tell nothing about the column.

A group that has too few values, or values too far from those of the file, gets one that helps it from a group that can spare it. The
values of the file as a whole stay the same, so what a group is compared with does not move. Groups that no exchange helps are left
to be blanked.

An exchange makes groups look diverse; it does not make a guess wrong. In a group in which eight of ten people really have one value,
that value is still the best guess after two of them show another one. So limits on guesses are held against the true values
(:func:`rarecell.risk.attributes.right_in_truth`), and exchanges are made for l-diversity and t-closeness alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell.risk.attributes import AttributeLimits, Groups

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

STREAM = 29
"""Random stream from which partners of equal merit are drawn."""

MOST_TRIALS = 100_000
"""Number of exchanges that are tried in one file; groups that are not reached by then are left to be blanked."""

PARTNERS_ASKED = 12
"""Number of records with a helpful value that are asked for it."""

VALUES_ASKED = 30
"""Number of values that are considered for a record."""


def exchange_values(
    groups: Groups,
    group: Integers,
    value: Integers,
    stratum: Integers,
    limits: AttributeLimits,
    *,
    may_move: NDArray[np.bool_] | None = None,
    seed: int = 0,
) -> NDArray[np.int64]:
    """Exchange values between records of one stratum so that more groups are within the limits.

    Parameters
    ----------
    groups : Groups
        The groups of the file, of :meth:`Groups.of_records`.
    group, value : ndarray of int
        Group and value code of each record.
    stratum : ndarray of int
        Records exchange values only with others of the same stratum.
    limits : AttributeLimits
        What groups may give away; only l-diversity and t-closeness are sought.
    may_move : ndarray of bool, optional
        Records that may exchange their value; all with a value unless given.
    seed : int, optional
        Seed for drawing among partners.

    Returns
    -------
    ndarray of int
        Two rows: records that get another value, and the record whose value each of them gets.

    Examples
    --------
    >>> import numpy as np, rarecell as rc
    >>> keys, ill = (rc.Categories("town", ("a", "b")),), rc.Categories("ill", ("no", "yes"))
    >>> town, value = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 0, 1, 1, 0])
    >>> groups, group = Groups.of_records(keys, town[:, None].astype(np.int32), ill, value)
    >>> exchange_values(groups, group, value, np.zeros(6, dtype=np.int64), AttributeLimits(l_diversity=2)).shape
    (2, 2)
    """
    measure = _Measure.of(groups, limits)
    if measure is None:
        return np.zeros((2, 0), dtype=np.int64)
    n_known = groups.sensitive.n_levels - groups.sensitive.has_missing
    free = np.asarray(value < n_known) & (np.ones(len(value), dtype=bool) if may_move is None else may_move)
    counts = _Counts(groups, measure)
    with_value = _Holders(stratum, value, free, n_known)
    rng = np.random.default_rng([seed, STREAM])
    rows_of = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group, minlength=groups.n_groups))[:-1])
    size = np.array([len(rows) for rows in rows_of])
    # Only groups that are large enough can hold as many values; those that lack least are helped first.
    failing = [g for g in range(groups.n_groups) if counts.shortfall(g) > 0.0 and size[g] >= (limits.l_diversity or 2)]
    failing.sort(key=lambda g: (counts.shortfall(g), g))
    budget, pairs = [MOST_TRIALS], list[tuple[int, int]]()
    now = value.copy()
    for g in failing:
        helped = list[tuple[int, int]]()
        while counts.shortfall(g) > 0.0 and budget[0] > 0:
            exchange = _best_exchange(g, rows_of[g][free[rows_of[g]]], now, group, stratum, counts, with_value, free, rng, budget)
            if exchange is None:
                break
            _exchange(exchange, now, group, counts)
            free[list(exchange)] = False
            helped.append(exchange)
        if counts.shortfall(g) > 0.0:
            # A group that is blanked all the same needs no exchange; its partners get their own values back.
            for pair in reversed(helped):
                _exchange(pair, now, group, counts)
                free[list(pair)] = True
            continue
        pairs += helped
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return np.stack([np.concatenate([first, second]), np.concatenate([second, first])])


def _exchange(pair: tuple[int, int], now: Integers, group: Integers, counts: _Counts) -> None:
    one, other = pair
    counts.replace(int(group[one]), int(now[one]), int(now[other]))
    counts.replace(int(group[other]), int(now[other]), int(now[one]))
    now[one], now[other] = now[other], now[one]


def _best_exchange(
    g: int,
    rows: Integers,
    now: Integers,
    group: Integers,
    stratum: Integers,
    counts: _Counts,
    with_value: _Holders,
    free: NDArray[np.bool_],
    rng: np.random.Generator,
    budget: list[int],
) -> tuple[int, int] | None:
    """A record of the group and a partner whose exchange helps the group most and puts no other beyond the limits; None if none does."""
    lacks = counts.shortfall(g)
    offers: list[tuple[float, int, int]] = []
    _, first = np.unique(np.stack([stratum[rows], now[rows]]), axis=1, return_index=True)
    for row in rows[first].tolist():
        others = with_value.values_in(int(stratum[row]))
        others = others[others != now[row]]
        if len(others) > VALUES_ASKED:
            others = rng.choice(others, VALUES_ASKED, replace=False)
        for other in others.tolist():
            budget[0] -= 1
            left = counts.shortfall_if(g, int(now[row]), other)
            if left < lacks - 1e-12:
                offers.append((left, row, other))
    for _, row, other in sorted(offers):
        for partner in with_value.holders(int(stratum[row]), other, rng):
            h = int(group[partner])
            if h == g or not free[partner] or now[partner] != other:
                continue
            budget[0] -= 1
            if counts.shortfall_if(h, other, int(now[row])) <= counts.shortfall(h) + 1e-12:
                return row, partner
    return None


class _Holders:
    """Records by stratum and value, as they were at the start; who exchanged a value is asked no more."""

    def __init__(self, stratum: Integers, value: Integers, free: NDArray[np.bool_], n_values: int) -> None:
        rows = np.flatnonzero(free)
        place = stratum[rows] * n_values + value[rows]
        order = np.argsort(place, kind="stable")
        self._rows, self._place, self._n_values = rows[order], place[order], n_values

    def values_in(self, stratum: int) -> Integers:
        low, high = np.searchsorted(self._place, [stratum * self._n_values, (stratum + 1) * self._n_values])
        return np.asarray(np.unique(self._place[low:high]) - stratum * self._n_values)

    def holders(self, stratum: int, value: int, rng: np.random.Generator) -> Iterator[int]:
        """Some records with a value, in random order."""
        low, high = np.searchsorted(self._place, [stratum * self._n_values + value, stratum * self._n_values + value + 1])
        rows = self._rows[low:high]
        yield from rng.choice(rows, min(len(rows), PARTNERS_ASKED), replace=False).tolist()


@dataclass(frozen=True, eq=False)
class _Measure:
    """How far counts of values are from the limits: values that are lacking, and the distance beyond the one allowed."""

    limits: AttributeLimits
    band: Integers
    share: Floats
    is_ordered: bool
    n_known: int

    @classmethod
    def of(cls, groups: Groups, limits: AttributeLimits) -> _Measure | None:
        if limits.l_diversity is None and limits.t_closeness is None:
            return None
        sensitive, n_values = groups.sensitive, groups.sensitive.n_levels
        n_known = n_values - sensitive.has_missing
        total = np.bincount(groups.value, weights=groups.counts, minlength=n_values).astype(np.float64)
        if sensitive.is_ordered:
            total[n_known:] = 0.0
        return cls(limits, groups.band_of_value, total / max(total.sum(), 1.0), sensitive.is_ordered, n_known)

    def __call__(self, counts: Integers) -> float:
        if not counts[: self.n_known].any():
            return 0.0
        lacking = 0.0
        in_bands = np.bincount(self.band, weights=counts)
        if self.limits.l_diversity is not None:
            lacking += max(0, self.limits.l_diversity - int((in_bands > 0).sum()))
        if self.limits.t_closeness is not None:
            if self.is_ordered:
                known = counts[: self.n_known]
                apart = np.abs(np.cumsum(known / known.sum() - self.share[: self.n_known])).sum() / max(self.n_known - 1, 1)
            else:
                apart = 0.5 * np.abs(in_bands / in_bands.sum() - np.bincount(self.band, weights=self.share)).sum()
            lacking += max(0.0, float(apart) - self.limits.t_closeness - 1e-12)
        return lacking


class _Counts:
    """Number of records of each group with each value, while values are exchanged, and how far the group is from the limits."""

    def __init__(self, groups: Groups, measure: _Measure) -> None:
        self._groups, self._measure = groups, measure
        self._start = np.searchsorted(groups.group, np.arange(groups.n_groups + 1))
        self._counts: dict[int, Integers] = {}
        self._shortfall: dict[int, float] = {}

    def _of(self, g: int) -> Integers:
        if g not in self._counts:
            counts = np.zeros(self._groups.sensitive.n_levels, dtype=np.int64)
            here = slice(int(self._start[g]), int(self._start[g + 1]))
            counts[self._groups.value[here]] = self._groups.counts[here]
            self._counts[g] = counts
        return self._counts[g]

    def shortfall(self, g: int) -> float:
        if g not in self._shortfall:
            self._shortfall[g] = self._measure(self._of(g))
        return self._shortfall[g]

    def shortfall_if(self, g: int, old: int, new: int) -> float:
        """The shortfall if one record of the group had another value."""
        counts = self._of(g)
        counts[old] -= 1
        counts[new] += 1
        shortfall = self._measure(counts)
        counts[old] += 1
        counts[new] -= 1
        return shortfall

    def replace(self, g: int, old: int, new: int) -> None:
        counts = self._of(g)
        counts[old] -= 1
        counts[new] += 1
        self._shortfall.pop(g, None)
