"""Which values can two records exchange without touching a margin that must stay?

Two records differ on a set D of vertices. Exchanging the values on A keeps the margin of a set C exactly when C∩D lies
inside A or outside it. So what must stay is a graph on the vertices (two vertices are joined when some kept margin holds
both), and A∩D is a union of connected components of the graph induced on D. A coarsening moves with its key, so a key is
joined to its coarsenings. Columns that are not keys stay with their row: they can also be vertices of the graph, but a component
that holds one on which the records differ cannot move.

References
----------
Takemura, A. and Endo, Y. (2006). Evaluation of per-record identification risk and swappability of records in a
microdata set via decomposable models. (Their condition is neither necessary nor sufficient; the one above is both.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from rarecell.errors import KeyMismatch, TooLarge
from rarecell.graph.chordal import ChordalGraph, is_chordal
from rarecell.graph.masks import MAX_VERTICES, all_below, components, each_member, in_canonical_order, mask_of, single
from rarecell.model.protocol import CellModel
from rarecell.table.contingency import ContingencyTable

MOST_SEPARATORS = 2_000
"""A graph that is not chordal can have exponentially many minimal separators; at most this many are listed."""


@dataclass(frozen=True)
class Interactions:
    """The graph of what must move together.

    Attributes
    ----------
    table : ContingencyTable
        The contingency table; its vertices come first.
    columns : tuple of str
        Names of the columns outside the keys that are in some kept margin; they are further vertices.
    kept : tuple of int
        Sets of vertices whose margins must stay, as bit masks.
    fixed : int
        Vertices whose values never move, as a bit mask: ``columns``, and the keys never to be swapped.
    """

    table: ContingencyTable
    columns: tuple[str, ...]
    kept: tuple[int, ...]
    fixed: int

    @classmethod
    def of_model(
        cls,
        table: ContingencyTable,
        model: CellModel,
        *,
        keep: Iterable[Sequence[str]] = (),
        never_swap: Iterable[str] = (),
    ) -> Interactions:
        """Build the interactions of ``model``, with further margins to ``keep`` and keys that are never exchanged.

        A name in ``keep`` that is not a vertex of the table is taken to be a column outside the keys.
        """
        if model.table.vertex_names != table.vertex_names:
            raise KeyMismatch.between(table.vertex_names, model.table.vertex_names)
        named = [tuple(names) for names in keep]
        columns = tuple(dict.fromkeys(name for names in named for name in names if name not in table.vertex_names))
        if table.n_vertices + len(columns) > MAX_VERTICES:
            raise TooLarge(
                f"{table.n_vertices} vertices of the model and {len(columns)} further columns to keep are more than "
                f"{MAX_VERTICES}. Keep fewer margins, or use fewer coarsenings."
            )
        kept = [table.close(mask) for mask in model.generator_masks]
        for names in named:
            of_columns = mask_of(table.n_vertices + columns.index(name) for name in names if name in columns)
            kept.append(table.close(table.mask_of(name for name in names if name not in columns)) | of_columns)
        fixed = mask_of(table.n_vertices + c for c in range(len(columns)))
        for key in never_swap:
            fixed |= table.mask_of([key])
        return cls(table, columns, tuple(kept), fixed)

    # ------------------------------------------------------------------ the graph

    @cached_property
    def n_vertices(self) -> int:
        return self.table.n_vertices + len(self.columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return (*self.table.vertex_names, *self.columns)

    @cached_property
    def keys(self) -> int:
        """The keys, without coarsenings and further columns, as a bit mask."""
        return self.table.all_keys

    @cached_property
    def neighbours(self) -> tuple[int, ...]:
        """For each vertex, the vertices that share a kept margin with it, and its key or coarsenings."""
        neighbours = [0] * self.n_vertices
        for together in (*self.kept, *self.table.chain_masks):
            for v in each_member(together):
                neighbours[v] |= together & ~single(v)
        return tuple(neighbours)

    def names_of(self, mask: int) -> tuple[str, ...]:
        """Return the names of the vertices of ``mask``; only the finest vertex of each key."""
        of_table = self.table.all_vertices
        return tuple(self.names[v] for v in each_member(self.table.reduce(mask & of_table) | mask & ~of_table))

    def neighbourhood(self, mask: int) -> int:
        """Return the neighbours of the vertices of ``mask`` outside it."""
        return neighbourhood(self.neighbours, mask)

    @cached_property
    def chordal_graph(self) -> ChordalGraph | None:
        """The graph with its cliques and separators if it is chordal, as it is for a decomposable model; else None."""
        return ChordalGraph.from_neighbours(self.neighbours) if is_chordal(self.neighbours) else None

    @cached_property
    def separators(self) -> tuple[int, ...]:
        """The minimal separators; see :func:`minimal_separators`."""
        return minimal_separators(self.neighbours)

    @property
    def has_all_separators(self) -> bool:
        """Whether all minimal separators are listed; False if there were too many."""
        return len(self.separators) < MOST_SEPARATORS

    # ------------------------------------------------------------------ pairs

    def difference(self, first: Sequence[int], second: Sequence[int]) -> int:
        """Return the vertices on which two rows of codes (of vertices and further columns) differ."""
        return mask_of(v for v in range(self.n_vertices) if first[v] != second[v])

    def components(self, difference: int) -> tuple[int, ...]:
        """Return the parts of ``difference`` that move as one: connected components of the graph induced on it."""
        return components(self.neighbours, difference)

    def swaps(self, difference: int) -> tuple[int, ...]:
        """List all distinct exchanges between two records that differ on ``difference``, as sets of vertices that move.

        Exchanging A or its complement gives the same two key cells, so only one of the two is listed: k components give
        2^(k−1) − 1 exchanges, or fewer if some component may not move. Exchanging all keys does not count as an exchange.
        """
        with_keys = [part for part in self.components(difference) if part & self.keys]
        movable = [part for part in with_keys if not part & self.fixed]
        if len(movable) == len(with_keys):
            movable = movable[1:]  # the first part stays
        every_choice = range(1, all_below(len(movable)) + 1)
        return tuple(sum(movable[place] for place in each_member(chosen)) for chosen in every_choice)

    def can_swap(self, difference: int) -> bool:
        """Return whether two records that differ on ``difference`` have an exchange."""
        with_keys = [part for part in self.components(difference) if part & self.keys]
        return len(with_keys) > 1 and any(not part & self.fixed for part in with_keys)

    def separator_between(self, difference: int) -> tuple[int, int, int] | None:
        """Return a smallest minimal separator on which the records agree, with the two parts of the difference it separates."""
        everything = all_below(self.n_vertices)
        for separator in sorted(self.separators, key=lambda mask: (mask.bit_count(), mask)):
            if separator & difference:
                continue
            sides = [side & difference for side in components(self.neighbours, everything & ~separator)]
            met = [side for side in sides if side & self.keys]
            if len(met) > 1:
                return separator, met[0], sum(met[1:])
        return None


def neighbourhood(neighbours: Sequence[int], mask: int) -> int:
    """Return the neighbours of the vertices of ``mask`` outside it."""
    around = 0
    for v in each_member(mask):
        around |= neighbours[v]
    return around & ~mask


def minimal_separators(neighbours: Sequence[int]) -> tuple[int, ...]:
    """List the minimal separators of a graph; the empty set is one of them if the graph is disconnected.

    At most :data:`MOST_SEPARATORS` are found, by the closure of Berry, Bordat and Cogis (2000): take the neighbourhoods of the
    components that remain after removing the closed neighbourhood of a vertex, and then of those that remain after removing a
    separator and the neighbours of one of its vertices.
    """
    everything = all_below(len(neighbours))
    waiting: list[int] = []
    separators: set[int] = set()

    def note(removed: int) -> None:
        for component in components(neighbours, everything & ~removed):
            separator = neighbourhood(neighbours, component)
            if separator not in separators and len(separators) < MOST_SEPARATORS:
                separators.add(separator)
                waiting.append(separator)

    for v in range(len(neighbours)):
        note(neighbours[v] | single(v))
    while waiting:
        separator = waiting.pop()
        for v in each_member(separator):
            note(separator | neighbours[v])
    return in_canonical_order(separators)
