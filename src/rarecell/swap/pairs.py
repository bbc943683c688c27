"""With whom could one record exchange values, and what would each exchange change?

This is the complete candidate list of Takemura and Endo for a single record: every cell of the table is considered. Cells that
differ from the record on the same vertices allow the same exchanges, so these are found once for each such set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput
from rarecell.graph.masks import all_below, components, each_member, single
from rarecell.model.decomposable import DecomposableModel
from rarecell.model.protocol import CellModel
from rarecell.outcome.words import counted
from rarecell.swap.interactions import Interactions
from rarecell.swap.rules import SwapConstraints, matching_levels
from rarecell.swap.units import Units
from rarecell.table.columns import ColumnValues
from rarecell.table.contingency import ContingencyTable
from rarecell.table.distance import Distances
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
    return CandidateList(record, tuple(_candidate(units, own, *exchange) for exchange in by_distance[:most]), n_partners)


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
            {units.position(name): matching_levels(name, units.values_of(name), value) for name, value in condition.items()}
            for condition in rules.forbidden
        ]

    def exchanges(self, own: int, others: NDArray[np.int64], keys: list[int]) -> NDArray[np.bool_]:
        """Whether a unit may exchange the values of some keys with each of other units."""
        if self._is_kept_out or self._untouched[own]:
            return np.zeros(len(others), dtype=bool)
        codes = self._units.codes
        is_allowed = ~self._untouched[others]
        for column in self._within:
            is_allowed &= codes[others, column] == codes[own, column]
        before = codes[others], np.broadcast_to(codes[own], (len(others), codes.shape[1]))
        for mine, taken in (before, before[::-1]):
            after = mine.copy()
            after[:, keys] = taken[:, keys]
            is_allowed &= ~self._creates_forbidden(mine, after)
            if self._impossible is not None:
                is_allowed &= ~self._impossible.violates(after[:, : self._units.table.n_keys])
        return is_allowed

    def _creates_forbidden(self, before: NDArray[np.int32], after: NDArray[np.int32]) -> NDArray[np.bool_]:
        is_created = np.zeros(len(after), dtype=bool)
        for condition in self._forbidden:
            was, becomes = np.ones(len(after), dtype=bool), np.ones(len(after), dtype=bool)
            for column, is_named in condition.items():
                was &= is_named[before[:, column]]
                becomes &= is_named[after[:, column]]
            is_created |= becomes & ~was
        return is_created


def _distances_from(table: ContingencyTable, distances: Distances, own: int) -> list[NDArray[np.float64]]:
    """For each key, the distance of every level from the level in a cell."""
    by_key = []
    for k, categories in enumerate(table.categories):
        cell = table.cells[own].copy()
        row = np.empty(categories.n_levels)
        for level in range(categories.n_levels):
            cell[k] = level
            row[level] = distances.between(table, table.cells[own], cell, single(k))
        by_key.append(row)
    return by_key


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
        return tuple(table.categories[k].shown[table.cells[units.cell[of], k]] for k in keys)

    names = tuple(table.keys[k] for k in keys)
    return Candidate(row, int(units.counts[other]), names, values(own), values(other), distance)


# Why can or can't two records exchange values, and what does the paper's condition say about a model?


@dataclass(frozen=True)
class PairExplanation:
    """Why two records can or cannot be exchanged.

    Attributes
    ----------
    differs : tuple of str
        Names of the vertices on which they differ, at the finest resolution.
    parts : tuple of tuples of str
        Names of the vertices that move as one.
    swaps : tuple of tuples of str
        The distinct exchanges, as the keys that move.
    can_swap : bool
        Whether there is an exchange.
    sentence : str
        The reason in words.
    """

    differs: tuple[str, ...]
    parts: tuple[tuple[str, ...], ...]
    swaps: tuple[tuple[str, ...], ...]
    can_swap: bool
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def explain_pair(
    table: ContingencyTable,
    model: CellModel,
    record: int,
    partner: int,
    *,
    keep: Sequence[Sequence[str]] = (),
    never_swap: Sequence[str] = (),
    columns: Mapping[str, ColumnValues] | None = None,
) -> PairExplanation:
    """Explain in words why two records (row numbers) can or cannot be exchanged.

    ``keep`` lists further margins that must stay, ``never_swap`` keys that stay with their record, and ``columns`` holds the
    values of the columns outside the keys that ``keep`` names.
    """
    graph = Interactions.of_model(table, model, keep=keep, never_swap=never_swap)
    difference = _difference_of(graph, Units.of(table, graph.columns, columns or {}), record, partner)
    parts = [part for part in graph.components(difference) if part & graph.keys]
    swaps = tuple(_key_names(graph, moved) for moved in graph.swaps(difference))
    who = f"Records {record + 1} and {partner + 1} (counted from 1)"
    if not difference & graph.keys:
        sentence = f"{who} agree on every key: there is nothing to exchange."
    elif len(parts) == 1:
        keys = _and(_key_names(graph, difference))
        sentence = f"{who} cannot be swapped: they differ on {keys}, {_held_together(graph, parts[0])}."
    elif not swaps:
        stuck = _and(sorted({name for part in parts for name in graph.names_of(part & graph.fixed)}))
        sentence = f"{who} cannot be swapped: every part of their difference holds {stuck}, which stays with its record."
    else:
        listed = "; ".join(_and(names) for names in swaps)
        keys, ways = _and(_key_names(graph, difference)), "1 way" if len(swaps) == 1 else f"{len(swaps):,} ways"
        sentence = f"{who} differ on {keys}. They can be swapped in {ways}, by exchanging {listed}: {_parted(graph, difference)}."
    names = tuple(graph.names_of(part) for part in parts)
    return PairExplanation(graph.names_of(difference), names, swaps, bool(swaps), sentence)


def _difference_of(interactions: Interactions, units: Units, record: int, partner: int) -> int:
    rows = []
    for number in (record, partner):
        if not 0 <= number < len(units.record_unit):
            raise BadInput(f"There is no record {number + 1:,}; the records are counted from 1 to {len(units.record_unit):,}.")
        if units.record_unit[number] < 0:
            raise BadInput(f"Record {number + 1:,} was left out for a missing key, so it cannot be swapped.")
        rows.append(units.codes[units.record_unit[number]].tolist())
    return interactions.difference(*rows)


def _key_names(graph: Interactions, mask: int) -> tuple[str, ...]:
    return tuple(graph.table.keys[k] for k in each_member(mask & graph.keys))


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _held_together(graph: Interactions, part: int) -> str:
    keys = _key_names(graph, part)
    if len(keys) == 1:
        return "and an exchange of one key alone gives both records the cell of the other"
    margins = [graph.names_of(kept) for kept in graph.kept if (kept & part & all_below(graph.n_vertices)).bit_count() > 1]
    linking = [f"{{{', '.join(names)}}}" for names in dict.fromkeys(margins)]
    if len(linking) == 1:
        return f"and the kept margin {linking[0]} joins all of these, so that they only move together"
    return f"and the kept margins {_and(linking)} join all of these, so that they only move together"


def _parted(graph: Interactions, difference: int) -> str:
    between = graph.separator_between(difference)
    if between is None:
        return "no kept margin joins the parts"
    separator, side, opposite = between
    agreed = f"they agree on {_and(graph.names_of(separator))}, which parts" if separator else "no kept margin joins"
    return f"{agreed} {_and(_key_names(graph, side))} from {_and(_key_names(graph, opposite))}"


# ---------------------------------------------------------------------- the paper's condition


@dataclass(frozen=True)
class PaperTriple:
    """Two cliques and what they share; the paper swaps records that agree on ``shared`` and differ on both cliques.

    ``separates`` is False if the shared set does not separate the two cliques; then the paper's condition is wrong.
    """

    clique: tuple[str, ...]
    other: tuple[str, ...]
    shared: tuple[str, ...]
    separates: bool

    def __str__(self) -> str:
        def braced(names: tuple[str, ...]) -> str:
            return "{" + ", ".join(names) + "}"

        mark = "" if self.separates else "  does not separate"
        return f"{braced(self.clique)} {braced(self.other)} {braced(self.shared)}{mark}"


def paper_triples(model: DecomposableModel) -> tuple[PaperTriple, ...]:
    """List the triples (C, C′, S = C∩C′) of Takemura and Endo's condition, and mark those whose S does not separate.

    Their S is a separator of the graph, so the empty set counts only if the graph is disconnected.
    """
    table: ContingencyTable = model.table
    graph = Interactions.of_model(table, model)
    everything = all_below(graph.n_vertices)
    is_connected = len(components(graph.neighbours, everything)) == 1
    triples = []
    for first, second in combinations(model.generator_masks, 2):
        shared = first & second
        if not shared and is_connected:
            continue
        sides = components(graph.neighbours, everything & ~shared)
        separates = all(not (side & first and side & second) for side in sides)
        triples.append(PaperTriple(graph.names_of(first), graph.names_of(second), graph.names_of(shared), separates))
    return tuple(triples)
