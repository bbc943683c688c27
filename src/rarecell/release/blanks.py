"""What is the smallest number of values to blank so that the records left at risk cannot be recognised?

A blank is compatible with every value, so an intruder can use only the other keys. The risk of a record with blanks is
therefore that of its combination of the remaining keys, in the table of those keys. Of the smallest sets of keys that
bring the risk down far enough, the one that leaves least risk is blanked. A value that is missing already cannot be blanked:
nothing would change in the file, so nothing would change for the intruder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rarecell.data.names import joined_names
from rarecell.outcome.words import counted, verb
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.table.contingency import ContingencyTable

STAGE = "suppressing values"

CellRisk = Callable[[ContingencyTable], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""For each cell of a table, the risk of its record (0 where it holds several) and the probability of a correct link."""


NOBODY = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Suppression:
    """Values that are blanked.

    Attributes
    ----------
    rows : ndarray of int64
        The records, by row number.
    blanked : mapping of str to ndarray of bool
        For each key that is blanked anywhere, in which of ``rows`` it is.
    risk_before : ndarray of float64
        Risk of each of ``rows`` before blanking: of being linked to its person if it was swapped, of being unique if not.
    unique_after, links_after : ndarray of float64
        Probability that each of ``rows`` is unique, and that it is linked, once its values are blanked.
    unreached : ndarray of int64
        Records that no blanking brings below the threshold.
    k : int or None
        The least number of records with the same values that was asked for, if one was.
    in_small_groups : ndarray of int64
        Records that share their values with fewer than that, whatever is blanked.
    swapped : ndarray of int64
        Records that were swapped, whether they are blanked or not.
    has_fixed_keys : bool
        Whether some keys were not to be blanked.
    """

    rows: NDArray[np.int64]
    blanked: Mapping[str, NDArray[np.bool_]]
    risk_before: NDArray[np.float64]
    unique_after: NDArray[np.float64]
    links_after: NDArray[np.float64]
    unreached: NDArray[np.int64]
    k: int | None = None
    in_small_groups: NDArray[np.int64] = field(default_factory=NOBODY.copy)
    swapped: NDArray[np.int64] = field(default_factory=NOBODY.copy)
    has_fixed_keys: bool = False

    @property
    def risk_after(self) -> NDArray[np.float64]:
        """Risk of each of ``rows`` after blanking, measured as before; what a swapped record has lost cannot be linked better than before."""
        is_swapped = np.isin(self.rows, self.swapped)
        return np.where(is_swapped, np.minimum(self.risk_before, self.links_after), self.unique_after)

    @property
    def n_values(self) -> int:
        """Number of values that are blanked."""
        return int(sum(of_key.sum() for of_key in self.blanked.values()))

    @property
    def left(self) -> NDArray[np.int64]:
        """Records that stay above the threshold or in groups that are too small."""
        return np.union1d(self.unreached, self.in_small_groups)

    @property
    def _on_groups(self) -> str:
        n, n_left = self.n_values, len(self.in_small_groups)
        done = f"{counted(n, 'key value')} of {counted(len(self.rows), 'record')} {verb(n, 'is', 'are')} blanked"
        above = self._above("the threshold")
        if n_left:
            because = ", because of keys that must not be blanked" if self.has_fixed_keys else ""
            shares = f"{verb(n_left, 'shares', 'share')} key values with too few others even so"
            return f"{done}. {counted(n_left, 'record')} {shares}{because}.{above}"
        done = "" if not n else f"{done}: "
        every = (
            f"{'every' if done else 'Every'} released combination of key values, blanks included, occurs at least {self.k} times."
        )
        return f"{done}{every}{above}"

    def _above(self, threshold: str) -> str:
        """How many records stay above the threshold, as a sentence with a space before it."""
        n = len(self.unreached)
        which = " of the keys that may be" if self.has_fixed_keys else ""
        return f" {counted(n, 'record')} {verb(n, 'stays', 'stay')} above {threshold} whatever is blanked{which}." if n else ""

    def audit(self) -> dict[str, list[object]]:
        """One row per record: its number, the keys that are blanked, its risk before and after."""
        return {
            "record": self.rows.tolist(),
            "variables": [
                joined_names(key for key, of_key in self.blanked.items() if of_key[position])
                for position in range(len(self.rows))
            ],
            "risk_before": self.risk_before.tolist(),
            "risk_after": self.risk_after.tolist(),
        }

    def __str__(self) -> str:
        if self.k is not None:
            return self._on_groups
        n, n_records = self.n_values, len(self.rows)
        return (
            f"{counted(n, 'key value')} of {counted(n_records, 'record')} {verb(n, 'is', 'are')} blanked to bring "
            f"{verb(n_records, 'it', 'them')} below the threshold.{self._above('it')}"
        )


NOTHING_BLANK = Suppression(NOBODY, {}, np.zeros(0), np.zeros(0), np.zeros(0), NOBODY)
"""No value is blanked."""


def suppress_rest(
    table: ContingencyTable,
    rows: NDArray[np.int64],
    cells: NDArray[np.int32],
    risk: NDArray[np.float64],
    cell_risk: CellRisk,
    *,
    threshold: float,
    may_blank: Collection[str] | None = None,
    swapped: NDArray[np.int64] = NOBODY,
    progress: Progress = SILENT,
) -> Suppression:
    """Blank as few key values as possible so that none of the given records exceeds a risk.

    Parameters
    ----------
    table : ContingencyTable
        The file as it is to be released, swaps included.
    rows, cells, risk : ndarray of int64, ndarray of int32, ndarray of float64
        The records above the threshold, and the key codes and risk of each in that file.
    cell_risk : CellRisk
        The risk of each cell of a table of fewer keys.
    threshold : float
        The highest risk that may be left.
    may_blank : collection of str, optional
        Keys whose values may be blanked; all unless given.
    swapped : ndarray of int64, optional
        Records that were swapped: their risk is that of a link.
    progress : Progress, optional
        Receives each set of keys, and can ask to stop.
    """
    n = len(rows)
    has_value = _has_value(table, cells)
    chosen: list[frozenset[int] | None] = [None] * n
    unique, links = np.array(risk, dtype=np.float64), np.zeros(n)
    is_swapped = np.isin(rows, swapped)
    progress.start(STAGE, None)
    free = [k for k, key in enumerate(table.keys) if may_blank is None or key in may_blank]
    for size in range(1, len(free) + 1):
        open_rows = [position for position in range(n) if chosen[position] is None]
        if not open_rows:
            break
        best = np.full(n, np.inf)
        for blank in combinations(free, size):
            possible = [position for position in open_rows if has_value[position, blank].all()]
            left, linked = _risk_without(table, cells[possible], blank, cell_risk)
            enough = np.where(is_swapped[possible], linked, left) <= threshold
            for position, is_enough, alone, link in zip(possible, enough.tolist(), left.tolist(), linked.tolist(), strict=True):
                # Where several sets of keys leave no risk, the one with the least likely link is taken.
                if is_enough and alone + link < best[position]:
                    best[position], chosen[position] = alone + link, frozenset(blank)
                    unique[position], links[position] = alone, link
            checkpoint(progress, STAGE)
    progress.done()
    done = np.array([blank is not None for blank in chosen], dtype=bool)
    blanked = {
        key: np.array([blank is not None and k in blank for blank in chosen], dtype=bool)[done]
        for k, key in enumerate(table.keys)
    }
    used = {key: of_key for key, of_key in blanked.items() if of_key.any()}
    fixed = len(free) < table.n_keys
    left_over = rows[~done]
    return Suppression(rows[done], used, risk[done], unique[done], links[done], left_over, swapped=swapped, has_fixed_keys=fixed)


def _has_value(table: ContingencyTable, cells: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which keys of each record have a value; the missing level, where there is one, is the last."""
    missing = [of_key.n_levels - 1 if of_key.has_missing else -1 for of_key in table.categories]
    return np.asarray(cells != np.array(missing, dtype=np.int32))


def joined(
    parts: Sequence[Suppression],
    table: ContingencyTable,
    cells_of: Callable[[NDArray[np.int64]], NDArray[np.int32]],
    risk_of: Callable[[NDArray[np.int64]], NDArray[np.float64]],
    cell_risk: CellRisk,
) -> Suppression:
    """Blank what any of several suppressions blanks, with the risk from an intruder who knows all keys of the table.

    Parameters
    ----------
    parts : sequence of Suppression
        One for each intruder.
    table : ContingencyTable
        The file as it is to be released, swaps included.
    cells_of, risk_of : callable
        Key codes of records in that file, and their risk before anything is blanked.
    cell_risk : CellRisk
        The risk of each cell of a table of fewer keys.
    """
    rows = np.unique(np.concatenate([part.rows for part in parts]))
    blanked = {key: np.zeros(len(rows), dtype=bool) for key in table.keys}
    for part in parts:
        for key, of_key in part.blanked.items():
            blanked[key][np.searchsorted(rows, part.rows[of_key])] = True
    unique, links = risk_with_blanks(table, cells_of(rows), blanked, cell_risk)
    used = {key: of_key for key, of_key in blanked.items() if of_key.any()}
    unreached = np.unique(np.concatenate([part.unreached for part in parts]))
    fixed = any(part.has_fixed_keys for part in parts)
    swapped = np.unique(np.concatenate([part.swapped for part in parts]))
    return Suppression(rows, used, risk_of(rows), unique, links, unreached, swapped=swapped, has_fixed_keys=fixed)


def risk_with_blanks(
    table: ContingencyTable, cells: NDArray[np.int32], blanked: Mapping[str, NDArray[np.bool_]], cell_risk: CellRisk
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The risk and the links of records of a table, some of whose key values are blanked."""
    blank = np.stack([blanked.get(key, np.zeros(len(cells), dtype=bool)) for key in table.keys], axis=1)
    after, links = np.zeros(len(cells)), np.zeros(len(cells))
    for pattern in np.unique(blank, axis=0):
        among = np.flatnonzero((blank == pattern).all(axis=1))
        risk_and_links = _risk_without(table, cells[among], tuple(np.flatnonzero(pattern).tolist()), cell_risk)
        after[among], links[among] = risk_and_links
    return after, links


def _risk_without(
    table: ContingencyTable, cells: NDArray[np.int32], blank: tuple[int, ...], cell_risk: CellRisk
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The risk and the links of records by the keys that are left; both are zero when no key is left."""
    kept = [k for k in range(table.n_keys) if k not in blank]
    if not kept or not len(cells):
        return np.zeros(len(cells)), np.zeros(len(cells))
    fewer = table.project([table.keys[k] for k in kept])
    positions = fewer.marginals.positions(fewer.all_keys, cells[:, kept])
    unique, match = cell_risk(fewer)
    return np.asarray(unique[positions]), np.asarray(match[positions])


# Which values are blanked so that every released combination occurs at least k times?
#
# A blank is a value of its own here: a row with blanks must look like k − 1 others, blanks included. Programs that count a blank as
# compatible with every value (sdcMicro's kAnon) need fewer blanks, but a person whose row is the only one with a blank in some place, and
# whose other values few share, is found by anybody who knows that the person is in the file.


@dataclass(frozen=True, eq=False)
class BlankedToK:
    """Blanks by which every combination occurs at least k times.

    Attributes
    ----------
    rows : ndarray of int64
        The records that lose a value.
    blank : ndarray of bool
        For each of them, which keys are blanked.
    n_borrowed : int
        Number of them that shared their values with enough others, and keep those company that did not.
    unreached : ndarray of int64
        Records for which nothing helps: keys that must not be blanked tell them apart.
    """

    rows: NDArray[np.int64]
    blank: NDArray[np.bool_]
    n_borrowed: int
    unreached: NDArray[np.int64]

    @property
    def n_values(self) -> int:
        return int(self.blank.sum())


def blank_to_k(
    codes: NDArray[np.int32], k: int, *, may_blank: Sequence[bool] | None = None, importance: Sequence[float] | None = None
) -> BlankedToK:
    """Blank few values so that every combination of values, blanks included, occurs at least k times.

    Records in small groups are gathered with others that agree on all keys but a few, and lose those few: sets of one key first, then
    of two, and so on. Of the sets of one size, the one that serves most records goes first, then the one with the least
    important keys. A group that is short of members borrows records from large groups, if that costs no more than losing one
    more key would.

    Parameters
    ----------
    codes : ndarray of int
        Key codes of every record; a row with a negative code is not in the file.
    k : int
        The least number of records with the same values.
    may_blank : sequence of bool, optional
        Keys whose values may be blanked; by default all.
    importance : sequence of float, optional
        How important each key is; of two that serve as many records, the less important one is blanked.

    Returns
    -------
    BlankedToK
        The blanks.

    Notes
    -----
    The least number of blanks is hard to find (Meyerson and Williams 2004); on small files the tests compare with the optimum.

    References
    ----------
    Meyerson, A. and Williams, R. (2004). On the complexity of optimal k-anonymity. PODS, 223–228.
    """
    n_keys = codes.shape[1]
    allowed = [key for key in range(n_keys) if may_blank is None or may_blank[key]]
    weight = np.ones(n_keys) if importance is None else np.asarray(importance, dtype=np.float64)
    here = np.flatnonzero((codes >= 0).all(axis=1))
    _, of_row, size = np.unique(codes[here], axis=0, return_inverse=True, return_counts=True)
    of_row = of_row.ravel()
    is_open = np.zeros(len(codes), dtype=bool)
    is_open[here[size[of_row] < k]] = True
    # Of a large group, all but k records may be borrowed, one after another.
    spare = np.zeros(len(codes), dtype=bool)
    turn = np.empty(len(here), dtype=np.int64)
    order = np.argsort(of_row, kind="stable")
    turn[order] = np.arange(len(here)) - (np.cumsum(size) - size)[of_row[order]]
    spare[here[turn >= k]] = True
    blank = np.zeros(codes.shape, dtype=bool)
    n_borrowed = 0
    for n_blank in range(1, len(allowed) + 1):
        sets = sorted(combinations(allowed, n_blank), key=lambda keys: (float(weight[list(keys)].sum()), keys))
        for may_borrow in (False, True):
            while is_open.any():
                served = [_served(codes, is_open, spare, keys, k, may_borrow=may_borrow) for keys in sets]
                best = max(range(len(sets)), key=lambda place: (len(served[place][0]), -place))
                rows, borrowed = served[best]
                if not len(rows):
                    break
                everyone = np.concatenate([rows, borrowed])
                blank[np.ix_(everyone, np.array(sets[best], dtype=np.int64))] = True
                is_open[rows], spare[borrowed] = False, False
                n_borrowed += len(borrowed)
    for n_blank in range(1, len(allowed) + 1):
        for keys in combinations(allowed, n_blank):
            if is_open.any():
                n_borrowed += _joined_to_others(codes, blank, is_open, keys, k)
    rows = np.flatnonzero(blank.any(axis=1))
    return BlankedToK(rows, blank[rows], n_borrowed, np.flatnonzero(is_open))


def _served(
    codes: NDArray[np.int32],
    is_open: NDArray[np.bool_],
    spare: NDArray[np.bool_],
    keys: tuple[int, ...],
    k: int,
    *,
    may_borrow: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Open records that are in a group of k once they lose these keys, and the records borrowed for that."""
    kept = [key for key in range(codes.shape[1]) if key not in keys]
    rows = np.flatnonzero(is_open)
    lent = np.flatnonzero(spare) if may_borrow else rows[:0]
    together = np.concatenate([rows, lent])
    if kept:
        _, group = np.unique(codes[together][:, kept], axis=0, return_inverse=True)
        group = group.ravel()
    else:
        group = np.zeros(len(together), dtype=np.int64)
    n_open = np.bincount(group[: len(rows)], minlength=int(group.max(initial=-1)) + 1)
    if not may_borrow:
        return rows[n_open[group] >= k], lent
    n_lent = np.bincount(group[len(rows) :], minlength=len(n_open))
    # Losing one more key would cost each of them len(keys) + 1.
    n_missing = k - n_open
    worthwhile = (n_open > 0) & (n_missing <= n_lent) & (k * len(keys) <= n_open * (len(keys) + 1))
    taken = np.zeros(len(lent), dtype=bool)
    by_group = np.argsort(group[len(rows) :], kind="stable")
    of_lent = group[len(rows) :][by_group]
    turn = np.arange(len(lent)) - np.searchsorted(of_lent, of_lent)
    taken[by_group] = worthwhile[of_lent] & (turn < n_missing[of_lent])
    return rows[worthwhile[group[: len(rows)]]], lent[taken]


def _joined_to_others(
    codes: NDArray[np.int32], blank: NDArray[np.bool_], is_open: NDArray[np.bool_], keys: tuple[int, ...], k: int
) -> int:
    """Let open records lose these keys together with as few others as make k; returns how many others lose their first value.

    Others are taken from a group that is still large enough without them, or else a whole group joins.
    """
    kept = [key for key in range(codes.shape[1]) if key not in keys]
    # A record that lost another key would still look different.
    may_join = (codes >= 0).all(axis=1) & ~blank[:, kept].any(axis=1)
    group = np.unique(codes[:, kept], axis=0, return_inverse=True)[1].ravel() if kept else np.zeros(len(codes), dtype=np.int64)
    n_others = 0
    for of_kept in np.unique(group[is_open]).tolist():
        members = np.flatnonzero((group == of_kept) & may_join)
        if len(members) < k:
            continue
        looks = np.where(blank[members], -1, codes[members])
        _, of_member, size = np.unique(looks, axis=0, return_inverse=True, return_counts=True)
        of_member = of_member.ravel()
        joins = is_open[members] | blank[members][:, list(keys)].all(axis=1)
        for smallest in np.argsort(size, kind="stable").tolist():
            n_missing = k - int(joins.sum())
            if n_missing <= 0:
                break
            candidates = np.flatnonzero((of_member == smallest) & ~joins)
            joins[candidates[: n_missing if len(candidates) - n_missing >= k else len(candidates)]] = True
        chosen = members[joins]
        n_others += int((~is_open[chosen] & ~blank[chosen].any(axis=1)).sum())
        blank[np.ix_(chosen, np.array(keys, dtype=np.int64))] = True
        is_open[chosen] = False
    return n_others
