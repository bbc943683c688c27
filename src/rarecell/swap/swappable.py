"""Which records can be exchanged at all, and what holds those that cannot?

For a decomposable model the answer needs no comparison of pairs. With n(i_a) the number of records that agree with i on a,

    W(i) = n(i) − Σ_C n(i_C) + Σ_S ν(S) n(i_S) = Σ_j (number of parts of the difference of i and j, less 1)

over the records j outside i's cell, because along a junction tree the cliques that meet a difference outnumber the
separators that meet it by the number of its parts. So record i has a partner exactly when W(i) > 0, and then between W/(m−1)
and W of them. If W(i) = 0, no record can leave the cell, by one exchange or by many. Others may still enter it: of the records
00, 01 and 10 under independence, the first has W = 0, and exchanging the other two gives 00, 00 and 11.

The same holds for a hierarchical model, and with further margins to keep, as long as the graph of what moves together is
chordal. For other graphs, a minimal separator S gives, from margins alone, the number of records that agree on S and differ on
two of its sides K: n(i_S) − n(i) − Σ_K (n(i_{V∖K}) − n(i)). A record has a partner exactly when one of these is positive.
Margins with columns outside the keys are decided by comparing pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rarecell.graph.masks import components, is_inside, mask_of, members, single
from rarecell.model.protocol import CellModel
from rarecell.outcome.words import counted, listed, verb
from rarecell.swap.interactions import Interactions, minimal_separators
from rarecell.swap.partners import PartnerSearch
from rarecell.swap.task import SwapTask
from rarecell.swap.units import Units
from rarecell.table.columns import ColumnValues
from rarecell.table.contingency import ContingencyTable


@dataclass(frozen=True)
class FixedCell:
    """A cell whose records no exchange can change.

    Attributes
    ----------
    cell : int
        Position of the cell in the table.
    n_records : int
        Number of records in it.
    margin : tuple of str
        The kept margin that holds it, or the union of several that do so together.
    n_in_margin : int
        Number of records that agree with it on that margin.
    freed_by : tuple of str or None
        Two vertices of the margin whose interaction holds it; None if more than one interaction does.
    n_freed : int
        Number of records that would become partners without that interaction; a lower bound if the graph is not chordal.
    """

    cell: int
    n_records: int
    margin: tuple[str, ...]
    n_in_margin: int
    freed_by: tuple[str, str] | None
    n_freed: int

    def __str__(self) -> str:
        held = f"It is held by the table of {listed(self.margin)}, where {counted(self.n_in_margin, 'record')} {verb(self.n_in_margin, 'has', 'have')} its values."
        if self.freed_by is None:
            return f"{held} Giving up one interaction of that table would not free it."
        partners = counted(self.n_freed, "partner")
        return (
            f"{held} Without the interaction of {listed(self.freed_by)}, or with one of them coarser, it would have {partners}."
        )


@dataclass(frozen=True, eq=False)
class Swappability:
    """Which cells have an exchange, with bounds on the number of partners of a record in each.

    Attributes
    ----------
    interactions : Interactions
        What must move together.
    weight : array of int
        W(i) for each cell of the table; for margins beyond a decomposable model, the upper bound on partners.
    at_least, at_most : array of int
        Bounds on the number of partner records.
    method : str
        How it was decided: ``margins`` (W), ``separators`` or ``pairs``.
    of_units : tuple of Units and array of bool, or None
        If columns outside the keys matter, the units that they make, and which of these have a partner.
    """

    table: ContingencyTable
    interactions: Interactions
    weight: NDArray[np.int64]
    at_least: NDArray[np.int64]
    at_most: NDArray[np.int64]
    method: str
    of_units: tuple[Units, NDArray[np.bool_]] | None = None

    @property
    def is_swappable(self) -> NDArray[np.bool_]:
        """Whether a record in each cell has a partner."""
        return self.weight > 0

    @property
    def record_is_swappable(self) -> NDArray[np.bool_]:
        """Whether each record of the file has a partner; a record that was dropped for a missing key has none."""
        if self.of_units is None:
            return np.append(self.is_swappable, False)[self.table.cell_of_record]
        units, is_swappable = self.of_units
        return np.append(is_swappable, False)[units.record_unit]

    @property
    def fixed_cells(self) -> NDArray[np.int64]:
        """Positions of the cells that no exchange can change."""
        return np.flatnonzero(self.weight == 0)

    @property
    def n_swappable_uniques(self) -> int:
        """Number of sample uniques with a partner."""
        return int(self.is_swappable[self.table.unique_cells].sum())

    def explain_fixed(self, cells: Sequence[int] | NDArray[np.int64] | None = None) -> tuple[FixedCell, ...]:
        """Find the margin that holds each fixed cell, and what would free it; all fixed cells by default."""
        return _explain_fixed(self, self.fixed_cells if cells is None else np.asarray(cells, dtype=np.int64))

    def __str__(self) -> str:
        n_uniques = len(self.table.unique_cells)
        n_fixed = int(self.table.counts[self.fixed_cells].sum())
        held = f"; {counted(n_fixed, 'record')} {verb(n_fixed, 'is', 'are')} fixed by the margins" if n_fixed else ""
        return f"{self.n_swappable_uniques:,} of {n_uniques:,} sample uniques have a swap partner{held}."


def swappability(
    table: ContingencyTable,
    model: CellModel,
    *,
    keep: Sequence[Sequence[str]] = (),
    columns: Mapping[str, ColumnValues] | None = None,
) -> Swappability:
    """Find the records that have a partner for an exchange that changes no kept margin.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table.
    model : CellModel
        The model whose margins are kept.
    keep : sequence of sequences of str, optional
        Further margins to keep, as sets of names of keys, coarsenings or other columns.
    columns : mapping of str to ColumnValues, optional
        For each other column named in ``keep``, a value for each record.

    Returns
    -------
    Swappability
        The result for each cell.

    Examples
    --------
    >>> import rarecell as rc
    >>> keys = [rc.Categories(name, (0, 1)) for name in "ab"]
    >>> table = rc.ContingencyTable.from_counts([[0, 0], [1, 1], [1, 0]], [1, 1, 4], keys)
    >>> print(swappability(table, rc.DecomposableModel(table, cliques=[("a",), ("b",)])))
    2 of 2 sample uniques have a swap partner; 4 records are fixed by the margins.
    """
    interactions = Interactions.of_model(table, model, keep=keep)
    if interactions.columns:
        return _by_pairs(table, model, interactions, keep, columns or {})
    graph = interactions.chordal_graph
    if graph is not None:
        weight = swap_weights(table, graph.clique_masks, graph.separator_masks)
        at_least = -(-weight // max(1, table.n_keys - 1))
        return Swappability(table, interactions, weight, at_least, weight, "margins")
    if not interactions.has_all_separators:
        return _by_pairs(table, model, interactions, keep, {})
    via = _partners_by_separator(table, interactions.neighbours, interactions.separators)
    at_most = np.minimum(via.sum(axis=0), table.n_records - table.counts)
    return Swappability(table, interactions, at_most, via.max(axis=0, initial=0), at_most, "separators")


def swap_weights(table: ContingencyTable, cliques: Sequence[int], separators: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Compute W(i) of every occupied cell from the margins of cliques and separators."""
    weight = table.counts.copy()
    for clique in cliques:
        weight -= table.marginals.at_cells(clique)
    for separator, multiplicity in separators:
        weight += multiplicity * (table.marginals.at_cells(separator) if separator else table.n_records)
    return weight


def _partners_by_separator(table: ContingencyTable, neighbours: Sequence[int], separators: Sequence[int]) -> NDArray[np.int64]:
    """For each separator and cell, the number of records that agree on the separator and differ on two of its sides."""
    everything = table.all_vertices
    n_partners = np.zeros((len(separators), table.n_cells), dtype=np.int64)
    for row, separator in enumerate(separators):
        n_partners[row] = (table.marginals.at_cells(separator) if separator else table.n_records) - table.counts
        for side in components(neighbours, everything & ~separator):
            rest = everything & ~side
            on_rest = table.marginals.at_cells(rest) if rest else table.n_records
            n_partners[row] -= on_rest - table.counts
    return n_partners


def _by_pairs(
    table: ContingencyTable,
    model: CellModel,
    interactions: Interactions,
    keep: Sequence[Sequence[str]],
    columns: Mapping[str, ColumnValues],
) -> Swappability:
    search = PartnerSearch(SwapTask(table, model, keep=keep, columns=columns or {}))
    units = search.units
    partner, _ = search.first_partners(np.arange(units.n_units), unconstrained=True)
    weight = np.zeros(table.n_cells, dtype=np.int64)
    np.maximum.at(weight, units.cell, (partner >= 0).astype(np.int64))
    at_most = np.where(weight > 0, table.n_records - table.counts, 0)
    return Swappability(table, interactions, weight, weight, at_most, "pairs", (units, partner >= 0))


# ---------------------------------------------------------------------- what holds a record


def _explain_fixed(swappability: Swappability, cells: NDArray[np.int64]) -> tuple[FixedCell, ...]:
    """Try the graph without each of its edges, and name the edge whose removal frees most."""
    best_gain = np.zeros(len(cells), dtype=np.int64)
    best: list[tuple[int, int, int] | None] = [None] * len(cells)
    for together, u, v, gain in _gains(swappability, cells):
        for place in np.flatnonzero(gain > best_gain):
            best_gain[place], best[place] = gain[place], (together, u, v)
    return tuple(_fixed_cell(swappability, int(cell), best[place], int(best_gain[place])) for place, cell in enumerate(cells))


def _gains(swappability: Swappability, cells: NDArray[np.int64]) -> Iterator[tuple[int, int, int, NDArray[np.int64]]]:
    """For each edge between keys, at the finest resolution: a kept set that holds it, its ends, and the partners it frees.

    Removing an edge u–v that lies in only one clique C of a chordal graph leaves a chordal graph, and frees the records that
    agree on C∖{u,v} and differ on both. In other graphs the partners are counted again by the separators without the edge.
    """
    table, graph = swappability.table, swappability.interactions
    chordal = graph.chordal_graph
    if graph.columns:
        return  # which of them to drop is up to the user, who named them
    for together in graph.kept if chordal is None else chordal.clique_masks:
        for u, v in combinations(members(table.reduce(together)), 2):
            if chordal is None:
                neighbours = list(graph.neighbours)
                neighbours[u] &= ~single(v)
                neighbours[v] &= ~single(u)
                via = _partners_by_separator(table, neighbours, minimal_separators(neighbours))
                yield together, u, v, np.asarray(via.max(axis=0, initial=0)[cells])
            elif sum(is_inside(mask_of((u, v)), clique) for clique in chordal.clique_masks) == 1:
                without = [together & ~single(u), together & ~single(v), together & ~mask_of((u, v))]
                counts = [_at(table, mask, cells) for mask in (together, *without)]
                yield together, u, v, counts[0] - counts[1] - counts[2] + counts[3]


def _at(table: ContingencyTable, mask: int, cells: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(table.marginals.at_cells(mask)[cells]) if mask else np.full(len(cells), table.n_records)


def _fixed_cell(swappability: Swappability, cell: int, freed: tuple[int, int, int] | None, n_freed: int) -> FixedCell:
    table, graph = swappability.table, swappability.interactions
    where = np.array([cell])
    if freed is None:
        of_vertices = [mask for mask in graph.kept if not mask >> table.n_vertices]
        margin = min(of_vertices, key=lambda mask: int(_at(table, mask, where)[0]))
        pair = None
    else:
        margin, pair = freed[0], (graph.names[freed[1]], graph.names[freed[2]])
    n_in_margin = int(_at(table, margin, where)[0])
    return FixedCell(cell, int(table.counts[cell]), graph.names_of(margin), n_in_margin, pair, n_freed)


def cost_of_keeping(
    table: ContingencyTable,
    model: CellModel,
    keep: Sequence[Sequence[str]],
    *,
    columns: Mapping[str, ColumnValues] | None = None,
) -> dict[tuple[str, ...], int]:
    """Count, for each further margin, the records that have a partner without it and none with it.

    Each margin is considered on its own, in addition to those of the model.
    """
    free = swappability(table, model).record_is_swappable
    n_held = {}
    for names in keep:
        held = swappability(table, model, keep=[names], columns=columns).record_is_swappable
        n_held[tuple(names)] = int((free & ~held).sum())
    return n_held
