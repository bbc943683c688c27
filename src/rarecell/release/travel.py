"""Which other columns must travel with a swapped key?

A file may have a column that a key determines (the region of a municipality) or that determines a key (the postcode of a
municipality). If the key is swapped and the column stays, the record gets a pair of values that nobody else has, which gives the
swap away. Such columns are detected from the counts of pairs of values, and travel with the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LOG_CHANCE = np.log(1e-6)
"""Log probability below which independent columns must show a dependency for it to count as real."""

GOES_WITH = 0.5
"""From this share of common information on, a column that is named to travel does so with a key and not with others."""


@dataclass(frozen=True)
class Dependency:
    """A column outside the keys that is a function of a key, or of which a key is a function."""

    column: str
    key: str
    is_coarser: bool

    @property
    def sentence(self) -> str:
        finer, coarser = (self.key, self.column) if self.is_coarser else (self.column, self.key)
        return f"every value of '{finer}' goes with one value of '{coarser}'"


@dataclass(frozen=True)
class Carried:
    """A column that travels whenever one of these keys is swapped."""

    column: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Travel:
    """The columns that travel, and those that should but do not, with the reason."""

    carried: tuple[Carried, ...] = ()
    left_behind: tuple[tuple[Dependency, str], ...] = ()


NOTHING_TRAVELS = Travel()
"""Every column outside the keys stays with its row."""


def dependency(column: str, key: str, joint: NDArray[np.int64]) -> Dependency | None:
    """Find the dependency between a key and a column from the counts of their pairs of values (key by column), if any.

    Examples
    --------
    >>> dependency("region", "town", np.array([[40, 0], [35, 0], [0, 50]]))
    Dependency(column='region', key='town', is_coarser=True)
    >>> dependency("car", "town", np.array([[40, 3], [35, 1], [2, 50]])) is None
    True
    """
    counts = np.asarray(joint, dtype=np.int64)
    if _is_function(counts):
        return Dependency(column, key, is_coarser=True)
    if _is_function(counts.T):
        return Dependency(column, key, is_coarser=False)
    return None


def _is_function(counts: NDArray[np.int64]) -> bool:
    """Whether each row has records in one column only, and this is unlikely to be chance.

    If the two were independent, all n_r records of row r would fall into one column with probability Σ p_c^n_r.
    """
    if ((counts > 0).sum(axis=1) > 1).any():
        return False
    of_row, share = counts.sum(axis=1), counts.sum(axis=0) / counts.sum()
    with np.errstate(divide="ignore"):
        log_share = np.log(share)
    log_chance = 0.0
    for n in of_row[of_row > 0].tolist():
        powers = n * log_share
        log_chance += powers.max() + np.log(np.exp(powers - powers.max()).sum())
    return bool(log_chance < LOG_CHANCE)


def common_information(joint: NDArray[np.int64]) -> float:
    """How nearly one of two columns decides the other, from the counts of their pairs of values: 1 if it does, 0 if chance explains all.

    This is their mutual information beyond chance as a share of the smaller of their entropies.

    Examples
    --------
    >>> common_information(np.array([[400, 0], [350, 0], [0, 500]])), common_information(np.array([[40, 30], [40, 30]]))
    (1.0, 0.0)
    """
    counts = joint[joint.sum(axis=1) > 0][:, joint.sum(axis=0) > 0].astype(np.float64)
    n = counts.sum()
    of_rows, of_columns, of_pairs = (_entropy(part / n) for part in (counts.sum(axis=1), counts.sum(axis=0), counts))
    by_chance = (counts.shape[0] - 1) * (counts.shape[1] - 1) / (2.0 * n)
    most = min(of_rows, of_columns) - by_chance
    # Where chance alone would explain nearly all, nothing can be said.
    if most <= 0.05 * min(of_rows, of_columns):
        return 0.0
    return float(np.clip((of_rows + of_columns - of_pairs - by_chance) / most, 0.0, 1.0))


def _entropy(shares: NDArray[np.float64]) -> float:
    positive = shares[shares > 0.0]
    return float(-(positive * np.log(positive)).sum())


def what_travels(
    joint: Mapping[str, Mapping[str, NDArray[np.int64]]],
    moves: Mapping[str, NDArray[np.bool_]],
    *,
    carry: Sequence[str] = (),
    areas: Sequence[str] = (),
    stays: Sequence[str] = (),
) -> Travel:
    """Decide which columns travel with the swapped keys.

    Parameters
    ----------
    joint : mapping of str to mapping of str to array of int
        For each column, the number of records with each pair of its values and those of a key: of every key if it is in ``carry``, of
        swapped keys at least if not.
    moves : mapping of str to array of bool
        For each swapped key, which of the changed rows get a new value of it.
    carry : sequence of str, optional
        Columns that travel in any case: with the keys that they go with, or with every key if there is none of these.
    areas : sequence of str, optional
        Keys with which ``carry`` travels when areas are swapped.
    stays : sequence of str, optional
        Columns that stay with their row because a kept table contains them.

    Returns
    -------
    Travel
        The columns that travel, and those left behind.
    """
    carried, left = [], []
    of_areas = tuple(key for key in moves if key in areas)
    for column in carry:
        # With another key it would come to stand beside values that it does not occur with, which tells that the key moved.
        goes_with = [
            key
            for key, counts in joint.get(column, {}).items()
            if common_information(counts) >= GOES_WITH or dependency(column, key, counts) is not None
        ]
        with_what = of_areas or tuple(key for key in moves if not goes_with or key in goes_with)
        if with_what:
            carried.append(Carried(column, with_what))
    for column, of_keys in joint.items():
        if column in carry:
            continue
        moved = {key: counts for key, counts in of_keys.items() if key in moves}
        dependencies = [depends for key, counts in moved.items() if (depends := dependency(column, key, counts)) is not None]
        if not dependencies:
            continue
        if column in stays:
            left += [(depends, "it is part of a table that is to be kept") for depends in dependencies]
        elif any(not np.array_equal(moves[dependencies[0].key], moves[depends.key]) for depends in dependencies[1:]):
            left += [(depends, "it depends on several keys, which do not move together") for depends in dependencies]
        else:
            carried.append(Carried(column, tuple(depends.key for depends in dependencies)))
    return Travel(tuple(carried), tuple(left))
