"""What is the smallest number of values to blank so that the records left at risk cannot be recognised?

A blank is compatible with every value, so an intruder can use only the other keys. The risk of a record with blanks is
therefore that of its combination of the remaining keys, in the table of those keys. Of the smallest sets of keys that
bring the risk down far enough, the one that leaves least risk is blanked. A value that is missing already cannot be blanked:
nothing would change in the file, so nothing would change for the intruder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False)
class Suppression:
    """Values that are blanked.

    Attributes
    ----------
    rows : ndarray of int64
        The records, by row number.
    blanked : mapping of str to ndarray of bool
        For each key that is blanked anywhere, in which of ``rows`` it is.
    risk_before, risk_after : ndarray of float64
        Risk of each of ``rows`` before and after blanking.
    links_after : ndarray of float64
        Probability of a correct link for each of ``rows`` once its values are blanked.
    unreached : ndarray of int64
        Records that no blanking brings down far enough; they are not among ``rows``.
    """

    rows: NDArray[np.int64]
    blanked: Mapping[str, NDArray[np.bool_]]
    risk_before: NDArray[np.float64]
    risk_after: NDArray[np.float64]
    links_after: NDArray[np.float64]
    unreached: NDArray[np.int64]

    @property
    def n_values(self) -> int:
        """Number of values that are blanked."""
        return int(sum(of_key.sum() for of_key in self.blanked.values()))

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
        above = len(self.unreached)
        left = f" {counted(above, 'record')} {verb(above, 'stays', 'stay')} above it whatever is blanked." if above else ""
        n, n_records = self.n_values, len(self.rows)
        return (
            f"{counted(n, 'key value')} of {counted(n_records, 'record')} {verb(n, 'is', 'are')} blanked to bring "
            f"{verb(n_records, 'it', 'them')} below the threshold.{left}"
        )


NOTHING_BLANK = Suppression(np.zeros(0, dtype=np.int64), {}, np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64))
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
    progress : Progress, optional
        Receives each set of keys, and can ask to stop.
    """
    n = len(rows)
    has_value = _has_value(table, cells)
    chosen: list[frozenset[int] | None] = [None] * n
    after, links = np.array(risk, dtype=np.float64), np.zeros(n)
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
            for position, found, link in zip(possible, left.tolist(), linked.tolist(), strict=True):
                # Where several sets of keys leave no risk, the one with the least likely link is taken.
                if found <= threshold and found + link < best[position]:
                    best[position], chosen[position] = found + link, frozenset(blank)
                    after[position], links[position] = found, link
            checkpoint(progress, STAGE)
    progress.done()
    done = np.array([blank is not None for blank in chosen], dtype=bool)
    blanked = {
        key: np.array([blank is not None and k in blank for blank in chosen], dtype=bool)[done]
        for k, key in enumerate(table.keys)
    }
    used = {key: of_key for key, of_key in blanked.items() if of_key.any()}
    return Suppression(rows[done], used, risk[done], after[done], links[done], rows[~done])


def _has_value(table: ContingencyTable, cells: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which keys of each record have a value; the missing level, where there is one, is the last."""
    missing = [one.n_levels - 1 if one.has_missing else -1 for one in table.categories]
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
    after, links = risk_with_blanks(table, cells_of(rows), blanked, cell_risk)
    used = {key: of_key for key, of_key in blanked.items() if of_key.any()}
    unreached = np.unique(np.concatenate([part.unreached for part in parts]))
    return Suppression(rows, used, risk_of(rows), after, links, unreached)


def risk_with_blanks(
    table: ContingencyTable, cells: NDArray[np.int32], blanked: Mapping[str, NDArray[np.bool_]], cell_risk: CellRisk
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The risk and the links of records of a table, some of whose key values are blanked."""
    blank = np.stack([blanked.get(key, np.zeros(len(cells), dtype=bool)) for key in table.keys], axis=1)
    after, links = np.zeros(len(cells)), np.zeros(len(cells))
    for pattern in np.unique(blank, axis=0):
        among = np.flatnonzero((blank == pattern).all(axis=1))
        found = _risk_without(table, cells[among], tuple(np.flatnonzero(pattern).tolist()), cell_risk)
        after[among], links[among] = found
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
