"""With whom could one record exchange values, and what would each exchange change?

This is the complete candidate list of Takemura and Endo for a single record: every cell of the table is considered. Cells that
differ from the record on the same vertices allow the same exchanges, so these are found once for each such set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput
from rarecell.graph.masks import each_member, single
from rarecell.model.protocol import CellModel
from rarecell.outcome.words import counted
from rarecell.swap.distance import Distances
from rarecell.swap.interactions import Interactions
from rarecell.swap.rules import SwapConstraints, matching_levels
from rarecell.swap.units import ColumnValues, Units
from rarecell.table.contingency import ContingencyTable
from rarecell.table.structural_zeros import compatibility


@dataclass(frozen=True)
class Candidate:
    """A possible exchange of one record.

    Attributes
    ----------
    partner : int
        Row number, from 0, of the record with which values are exchanged.
    n_partners : int
        Number of records with the partner's key values; any of them would do as well.
    keys : tuple of str
        Keys that are exchanged.
    given, taken : tuple of str
        Values of these keys that the record gives away and gets.
    distance : float
        How far apart the exchanged values are.
    """

    partner: int
    n_partners: int
    keys: tuple[str, ...]
    given: tuple[str, ...]
    taken: tuple[str, ...]
    distance: float


@dataclass(frozen=True)
class CandidateList:
    """The nearest exchanges of a record, nearest first, and the total number of records it could exchange with.

    If there is none, ``held_by`` says which table holds the record, as far as that is known.
    """

    record: int
    nearest: tuple[Candidate, ...]
    n_partners: int
    held_by: str = ""

    def __str__(self) -> str:
        who = f"Record {self.record + 1:,} (counted from 1)"
        if not self.n_partners:
            none = f"{who} can exchange values with no other record without changing a table that must stay or breaking a rule."
            return f"{none} {self.held_by}".rstrip()
        others = counted(self.n_partners, "other record")
        return f"{who} can exchange values with {others} without changing a table that must stay or breaking a rule."


def candidates(
    table: ContingencyTable,
    model: CellModel,
    record: int,
    *,
    distances: Distances | None = None,
    keep: Iterable[Sequence[str]] = (),
    constraints: SwapConstraints | None = None,
    columns: Mapping[str, ColumnValues] | None = None,
    most: int = 20,
) -> CandidateList:
    """List the exchanges that one record can make without changing a marginal of a model or breaking a constraint.

    Parameters
    ----------
    table : ContingencyTable
        The table, with its records.
    model : CellModel
        Model of its cells, whose marginals stay.
    record : int
        Row number, from 0.
    distances : Distances, optional
        Distances between levels.
    keep : iterable of sequences of str, optional
        Further marginals that must stay, as names of keys and other columns.
    constraints : SwapConstraints, optional
        What an exchange may not do.
    columns : mapping of str to ColumnValues, optional
        Values of the other columns that ``keep`` and ``constraints`` name, one for each record.
    most : int, optional
        Largest number of exchanges to list, nearest first.

    Returns
    -------
    CandidateList
        The nearest exchanges, and the number of possible partners.
    """
    if not 0 <= record < table.n_rows:
        raise BadInput(f"There is no record {record + 1:,}; the records are counted from 1 to {table.n_rows:,}.")
    rules = constraints or SwapConstraints()
    graph = Interactions.of_model(table, model, keep=keep, never_swap=rules.never_swap)
    named = [name for name in rules.columns if name not in table.vertex_names and name not in graph.columns]
    units = Units.of(table, (*graph.columns, *named), columns or {})
    own = int(units.unit_of(np.array([record]))[0])
    if own < 0:
        raise BadInput(f"Record {record + 1:,} was left out for a missing key, so it cannot be swapped.")
    apart = _distances_from(table, distances or Distances(), int(units.cell[own]))
    allowed = _Allowed(units, rules, record)
    by_distance: list[tuple[float, int, int]] = []
    has_exchange = np.zeros(units.n_units, dtype=bool)
    for difference, alike in _by_difference(units, graph, own):
        for moved in graph.swaps(difference):
            others = alike[allowed.exchanges(own, alike, list(each_member(moved & graph.keys)))]
            has_exchange[others] = True
            codes = table.cells[units.cell[others]]
            total = sum((apart[k][codes[:, k]] for k in each_member(moved & graph.keys)), np.zeros(len(others)))
            nearest = np.lexsort((others, total))[:most]
            by_distance += [(float(total[place]), int(others[place]), moved & graph.keys) for place in nearest]
    by_distance.sort()
    n_partners = int(units.counts[has_exchange].sum())
    return CandidateList(record, tuple(_candidate(units, own, *found) for found in by_distance[:most]), n_partners)


class _Allowed:
    """Which exchanges the constraints allow."""

    def __init__(self, units: Units, rules: SwapConstraints, record: int) -> None:
        self._units, self._rules = units, rules
        self._within = [units.position(name) for name in rules.within]
        self._untouched = np.zeros(units.n_units, dtype=bool)
        for condition in rules.untouched:
            self._untouched |= units.where(condition)
        self._is_kept_out = record in np.asarray(rules.untouched_records, dtype=np.int64)
        zeros = rules.structural_zeros
        self._impossible = None if not zeros else compatibility(units.table, zeros)
        self._forbidden = [
            {units.position(name): matching_levels(name, units.values_of(name), wanted) for name, wanted in condition.items()}
            for condition in rules.forbidden
        ]

    def exchanges(self, own: int, others: NDArray[np.int64], keys: list[int]) -> NDArray[np.bool_]:
        """Whether a unit may exchange the values of some keys with each of other units."""
        if self._is_kept_out or self._untouched[own]:
            return np.zeros(len(others), dtype=bool)
        codes = self._units.codes
        found = ~self._untouched[others]
        for column in self._within:
            found &= codes[others, column] == codes[own, column]
        before = codes[others], np.broadcast_to(codes[own], (len(others), codes.shape[1]))
        for mine, taken in (before, before[::-1]):
            after = mine.copy()
            after[:, keys] = taken[:, keys]
            found &= ~self._creates_forbidden(mine, after)
            if self._impossible is not None:
                found &= ~self._impossible.violates(after[:, : self._units.table.n_keys])
        return found

    def _creates_forbidden(self, before: NDArray[np.int32], after: NDArray[np.int32]) -> NDArray[np.bool_]:
        found = np.zeros(len(after), dtype=bool)
        for condition in self._forbidden:
            was, becomes = np.ones(len(after), dtype=bool), np.ones(len(after), dtype=bool)
            for column, is_named in condition.items():
                was &= is_named[before[:, column]]
                becomes &= is_named[after[:, column]]
            found |= becomes & ~was
        return found


def _distances_from(table: ContingencyTable, distances: Distances, own: int) -> list[NDArray[np.float64]]:
    """For each key, the distance of every level from the level in a cell."""
    found = []
    for k, categories in enumerate(table.categories):
        one = table.cells[own].copy()
        row = np.empty(categories.n_levels)
        for level in range(categories.n_levels):
            one[k] = level
            row[level] = distances.between(table, table.cells[own], one, single(k))
        found.append(row)
    return found


def _by_difference(units: Units, graph: Interactions, own: int) -> list[tuple[int, NDArray[np.int64]]]:
    """Units grouped by the set of vertices on which they differ from a given unit."""
    mask = np.zeros(units.n_units, dtype=np.uint64)
    for v in range(graph.n_vertices):
        mask |= (units.codes[:, v] != units.codes[own, v]).astype(np.uint64) << np.uint64(v)
    order = np.argsort(mask, kind="stable")
    differences, first = np.unique(mask[order], return_index=True)
    return [
        (int(difference), others)
        for difference, others in zip(differences, np.split(order, first[1:]), strict=True)
        if int(difference) & graph.keys
    ]


def _candidate(units: Units, own: int, distance: float, other: int, moved: int) -> Candidate:
    table, keys = units.table, list(each_member(moved))
    row = int(units.rows_in(np.array([other]), np.array([1]))[0])

    def values(of: int) -> tuple[str, ...]:
        return tuple(table.categories[k].labels[table.cells[units.cell[of], k]] for k in keys)

    names = tuple(table.keys[k] for k in keys)
    return Candidate(row, int(units.counts[other]), names, values(own), values(other), distance)
