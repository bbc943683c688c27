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
from rarecell.swap.units import ColumnValues, Units
from rarecell.table.contingency import ContingencyTable


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
            none = f"{who} can exchange values with no other record without changing a table that must stay."
            return f"{none} {self.held_by}".rstrip()
        others = counted(self.n_partners, "other record")
        return f"{who} can exchange values with {others} without changing a table that must stay."


def candidates(
    table: ContingencyTable,
    model: CellModel,
    record: int,
    *,
    distances: Distances | None = None,
    keep: Iterable[Sequence[str]] = (),
    never_swap: Iterable[str] = (),
    columns: Mapping[str, ColumnValues] | None = None,
    most: int = 20,
) -> CandidateList:
    """List the exchanges that one record can make without changing a marginal of a model.

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
    never_swap : iterable of str, optional
        Keys that stay with their record.
    columns : mapping of str to ColumnValues, optional
        Values of the other columns, one for each record.
    most : int, optional
        Largest number of exchanges to list, nearest first.

    Returns
    -------
    CandidateList
        The nearest exchanges, and the number of possible partners.
    """
    if not 0 <= record < table.n_rows:
        raise BadInput(f"There is no record {record + 1:,}; the records are counted from 1 to {table.n_rows:,}.")
    graph = Interactions.of_model(table, model, keep=keep, never_swap=never_swap)
    units = Units.of(table, graph.columns, columns or {})
    own = int(units.unit_of(np.array([record]))[0])
    if own < 0:
        raise BadInput(f"Record {record + 1:,} was left out for a missing key, so it cannot be swapped.")
    apart = _distances_from(table, distances or Distances(), int(units.cell[own]))
    by_distance: list[tuple[float, int, int]] = []
    n_partners = 0
    for difference, others in _by_difference(units, graph, own):
        exchanges = graph.swaps(difference)
        if not exchanges:
            continue
        n_partners += int(units.counts[others].sum())
        codes = table.cells[units.cell[others]]
        for moved in exchanges:
            total = sum((apart[k][codes[:, k]] for k in each_member(moved & graph.keys)), np.zeros(len(others)))
            nearest = np.lexsort((others, total))[:most]
            by_distance += [(float(total[place]), int(others[place]), moved & graph.keys) for place in nearest]
    by_distance.sort()
    return CandidateList(record, tuple(_candidate(units, own, *found) for found in by_distance[:most]), n_partners)


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
