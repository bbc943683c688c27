"""Which combinations of key values occur, and how often?

A file with m keys is a contingency table with one dimension per key. Its formal number of cells is the product of the
numbers of levels, often far more than fit into memory, so only the occupied cells are kept.

Models are built on *vertices*: keys and coarsenings of keys (age bands, merged rare levels, a user's hierarchy).
:mod:`rarecell.table.vertices` describes the operations on sets of vertices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.errors import BadInput, TooLarge, UnknownColumns
from rarecell.graph.masks import MAX_VERTICES, each_member
from rarecell.outcome.plain import Shown
from rarecell.outcome.words import counted, number, verb
from rarecell.table.categories import Categories, Coarsening, nested_by_key
from rarecell.table.marginals import Marginals
from rarecell.table.vertices import Vertices

if TYPE_CHECKING:
    from rarecell.edges import Level
    from rarecell.table.marginals import Marginals
    from rarecell.table.possible_cells import Compatibility
    from rarecell.table.structural_zeros import StructuralZeros

__all__ = ["Categories", "Coarsening", "ContingencyTable"]


def _levels_of(coarsening: Coarsening, categories: Categories) -> tuple[Level, ...]:
    """The groups as levels; the missing level stays missing unless it is merged with others."""
    groups = coarsening.group_of_level
    is_alone = categories.has_missing and groups[-1] == coarsening.n_levels - 1 and groups[-1] not in groups[:-1]
    return (*coarsening.labels[:-1], None) if is_alone else coarsening.labels


def _weight_sums(cell: NDArray[np.int64], weights: NDArray[np.float64], n_cells: int) -> NDArray[np.float64]:
    return np.bincount(cell, weights=weights, minlength=n_cells).astype(np.float64)


def _whole_numbers(values: ArrayLike, what: str) -> NDArray[np.generic]:
    """Counts or codes as they were given, unless one is no whole number."""
    numbers = np.asarray(values)
    is_whole = numbers.dtype.kind in "iub" or (
        numbers.dtype.kind == "f" and bool((np.isfinite(numbers) & (numbers == np.floor(numbers))).all())
    )
    if numbers.size and not is_whole:
        raise BadInput(f"{what} are whole numbers; those that were given are not.")
    return numbers


@dataclass(frozen=True, eq=False, repr=False)
class ContingencyTable(Vertices, Shown):
    """The occupied cells of the keys, their counts, and the vertices that models are built on.

    Create one with :meth:`from_codes`, :meth:`from_counts` or ``Microdata(...).table()``.

    Attributes
    ----------
    categories : tuple of Categories
        The levels of each key; keys are in the order the user gave.
    cells : numpy.ndarray
        Level codes of the occupied cells; rows are distinct and in lexicographic order.
    counts : numpy.ndarray
        The number of records in each cell.
    weights : numpy.ndarray or None
        The sum of the survey weights of the records in each cell, or None without weights.
    record_cell : numpy.ndarray or None
        The cell of each record, −1 for a record dropped because a key is missing; None when only counts are known.
    coarsenings : tuple of Coarsening
        Further vertices, grouped by key, finer first.
    structural_zeros : StructuralZeros or None
        Combinations of levels that cannot occur; None when every combination is possible.
    """

    categories: tuple[Categories, ...]
    cells: NDArray[np.int32] = field(repr=False)
    counts: NDArray[np.int64] = field(repr=False)
    weights: NDArray[np.float64] | None = field(default=None, repr=False)
    record_cell: NDArray[np.int64] | None = field(default=None, repr=False)
    coarsenings: tuple[Coarsening, ...] = ()
    structural_zeros: StructuralZeros | None = None

    def __getstate__(self) -> dict[str, object]:
        """What is copied and pickled: the fields. Marginals and whatever else is kept for speed are computed again on demand."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    # ------------------------------------------------------------------ construction

    @classmethod
    def from_codes(
        cls, codes: NDArray[np.int32], categories: Sequence[Categories], *, weights: ArrayLike | None = None
    ) -> ContingencyTable:
        """Count records given as one row of level codes each. A row with a negative code is a dropped record."""
        codes = np.asarray(codes, dtype=np.int32)
        levels = np.array([c.n_levels for c in categories], dtype=np.int64)
        kept = (codes >= 0).all(axis=1)
        all_kept = bool(kept.all())
        cells, counts, kept_cell = collapse_records(np.asfortranarray(codes if all_kept else codes[kept]), levels)
        if all_kept:
            record_cell = kept_cell
        else:
            record_cell = np.full(len(codes), -1, dtype=np.int64)
            record_cell[kept] = kept_cell
        weight_sums = None
        if weights is not None:
            kept_weights = np.asarray(weights, dtype=np.float64)[kept]
            weight_sums = _weight_sums(kept_cell, kept_weights, len(counts))
        return cls.of_sorted_cells(tuple(categories), cells, counts, weight_sums, record_cell)

    @classmethod
    def from_counts(
        cls,
        cells: ArrayLike,
        counts: ArrayLike,
        categories: Sequence[Categories] | Mapping[str, Sequence[Level]],
        *,
        weights: ArrayLike | None = None,
        record_cell: ArrayLike | None = None,
    ) -> ContingencyTable:
        """Build a table from cells counted elsewhere, in any order; empty cells are left out and equal cells are added up.

        Parameters
        ----------
        cells : array_like
            A row of level codes for each cell, from 0, one column for each key.
        counts : array_like
            The number of records in each cell.
        categories : sequence of Categories, or mapping of str to sequence
            The levels of each key: by its name, or as :class:`Categories` where their order matters.
        weights : array_like, optional
            The sum of the survey weights of the records in each cell.
        record_cell : array_like, optional
            The row of ``cells`` that each record belongs to, −1 for a record that was dropped.

        Examples
        --------
        >>> print(ContingencyTable.from_counts([[0, 0], [1, 1]], [5, 1], {"smokes": ["no", "yes"], "coughs": ["no", "yes"]}))
        6 records on 2 keys fall into 2 of 4 cells; 1 cell holds a single record.
        """
        if isinstance(categories, Mapping):
            categories = [Categories(key, tuple(levels)) for key, levels in categories.items()]
        codes = _whole_numbers(cells, "Cells")
        if codes.size and (codes.ndim != 2 or codes.shape[1] != len(categories)):
            raise BadInput(
                f"Each cell is a row of {counted(len(categories), 'code')}, one for each key; an array of shape {codes.shape} was given."
            )
        given = np.asfortranarray(codes.astype(np.int64).reshape(-1, len(categories)))
        given_counts = _whole_numbers(counts, "Counts").astype(np.int64)
        levels = np.array([c.n_levels for c in categories], dtype=np.int64)
        if len(given) != len(given_counts) or (given_counts < 0).any():
            raise BadInput("Each cell needs one count, a whole number of 0 or more.")
        if len(given) and ((given < 0).any() or (given >= levels).any()):
            raise BadInput("A cell has a code that is not a level of its key; codes run from 0 to the number of levels minus 1.")
        occupied = given_counts > 0
        merged, _, position = collapse_records(np.asfortranarray(given[occupied], dtype=np.int32), levels)
        merged_counts = np.zeros(len(merged), dtype=np.int64)
        np.add.at(merged_counts, position, given_counts[occupied])
        new_position = np.full(len(given), -1, dtype=np.int64)
        new_position[occupied] = position
        weight_sums = None
        if weights is not None:
            weight_sums = _weight_sums(position, np.asarray(weights, np.float64)[occupied], len(merged))
        records = None
        if record_cell is not None:
            old = np.asarray(record_cell, dtype=np.int64)
            records = np.where(old >= 0, new_position[old], -1)
        return cls.of_sorted_cells(tuple(categories), merged, merged_counts, weight_sums, records)

    @classmethod
    def of_sorted_cells(
        cls,
        categories: tuple[Categories, ...],
        cells: NDArray[np.int32],
        counts: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
        record_cell: NDArray[np.int64] | None,
    ) -> ContingencyTable:
        """Build a table from cells that are already occupied, distinct and in lexicographic order."""
        names = [c.key for c in categories]
        if not names:
            raise BadInput("No key was named. Name the columns an intruder could know, for example --keys age,sex,region.")
        if len(set(names)) != len(names):
            raise BadInput(f"A key is named twice in {', '.join(names)}; name each key once.")
        if len(names) > MAX_VERTICES:
            raise TooLarge(
                f"{len(names)} keys were named; at most {MAX_VERTICES} are possible. Leave out keys an intruder cannot know."
            )
        if not len(counts):
            raise BadInput("No record is left to count: the data are empty, or every record lacks a key.")
        return cls(categories, np.asfortranarray(cells), counts, weights, record_cell)

    # ------------------------------------------------------------------ size

    @property
    def n_cells(self) -> int:
        """Number of occupied cells."""
        return len(self.counts)

    @cached_property
    def n_records(self) -> int:
        return int(self.counts.sum())

    @cached_property
    def n_formal_cells(self) -> int:
        """Number of cells, occupied or not; exact, however large."""
        return math.prod(c.n_levels for c in self.categories)

    @cached_property
    def size_indices(self) -> dict[int, int]:
        """The number s_j of cells that hold exactly j records, for each j."""
        sizes, numbers = np.unique(self.counts, return_counts=True)
        return dict(zip(sizes.tolist(), numbers.tolist(), strict=True))

    def counts_of(self, cells: NDArray[np.int32]) -> NDArray[np.int64]:
        """Number of records in each of the given cells (codes of all keys); 0 where there is no record."""
        return np.asarray(self.marginals.lookup(self.all_keys, cells), dtype=np.int64)

    @property
    def unique_cells(self) -> NDArray[np.int64]:
        """Positions of the cells that hold exactly one record."""
        return np.flatnonzero(self.counts == 1)

    # ------------------------------------------------------------------ records

    @property
    def knows_records(self) -> bool:
        """Whether the cell of each record is known; a table made from counts alone numbers its records cell by cell."""
        return self.record_cell is not None

    @property
    def n_rows(self) -> int:
        """Number of records that were read, including those dropped because a key is missing."""
        return self.n_records if self.record_cell is None else len(self.record_cell)

    @cached_property
    def first_row(self) -> NDArray[np.int64]:
        """Row number of the first record of each cell when records are numbered in the order of the cells."""
        return np.asarray(np.cumsum(self.counts) - self.counts)

    def cell_of(self, rows: ArrayLike) -> NDArray[np.int64]:
        """The cell of each record given by its row number; −1 for a record that was dropped.

        A table made from counts alone does not know its records; they are numbered in the order of its cells.
        """
        numbers = np.asarray(rows, dtype=np.int64)
        if self.record_cell is not None:
            return np.asarray(self.record_cell[numbers])
        return np.searchsorted(self.first_row, numbers, side="right") - 1

    @property
    def cell_of_record(self) -> NDArray[np.int64]:
        """The cell of every record, as by :meth:`cell_of`."""
        return np.repeat(np.arange(self.n_cells), self.counts) if self.record_cell is None else self.record_cell

    @property
    def listed_cells(self) -> NDArray[np.int64]:
        """The cell of each row of a list of results: of every record, or every cell once if the records are not known."""
        return np.arange(self.n_cells) if self.record_cell is None else self.record_cell

    # ------------------------------------------------------------------ vertices

    def with_coarsenings(self, coarsenings: Iterable[Coarsening]) -> ContingencyTable:
        """The same table with these coarsenings (and no others) as further vertices.

        A coarsening with one group, or with as many groups as its key has levels, adds nothing and is refused.
        """
        ordered = nested_by_key(self.keys, coarsenings)
        n_levels = {c.key: c.n_levels for c in self.categories}
        names = [*self.keys, *(c.name for c in ordered)]
        for c in ordered:
            if len(c.group_of_level) != n_levels[c.key]:
                raise BadInput(
                    f"Coarsening '{c.name}' groups {len(c.group_of_level)} levels; key '{c.key}' has {n_levels[c.key]}."
                )
            if not 1 < c.n_levels < n_levels[c.key]:
                raise BadInput(
                    f"Coarsening '{c.name}' has {c.n_levels} groups; with {n_levels[c.key]} levels of key '{c.key}' "
                    f"it needs between 2 and {n_levels[c.key] - 1}."
                )
        if len(set(names)) != len(names):
            raise BadInput(f"Two vertices share a name among {', '.join(names)}; name each coarsening once.")
        if len(names) > MAX_VERTICES:
            raise TooLarge(
                f"{self.n_keys} keys and {len(ordered)} coarsenings are more than {MAX_VERTICES} vertices; use fewer coarsenings."
            )
        return replace(self, coarsenings=ordered)

    def vertex_codes(self, vertex: int) -> NDArray[np.int32]:
        """Code of ``vertex`` at each occupied cell."""
        return self.map_cells(self.cells, vertex)

    def n_possible_cells(self, mask: int) -> int:
        """Number of value combinations the set can take; a coarsening adds nothing to a set that contains its key.

        Combinations that contain a structural zero of the table are not counted.
        """
        if self.compatibility is not None:
            return self.compatibility.n_cells(mask)
        return math.prod(int(self.vertex_levels[v]) for v in each_member(self.reduce(mask)))

    # ------------------------------------------------------------------ structural zeros

    def with_structural_zeros(self, zeros: StructuralZeros | None) -> ContingencyTable:
        """The same table with these combinations declared impossible; None removes all such declarations.

        They change degrees of freedom and limit swaps, but they set no probability to zero. A list is refused when a
        record contains one of its combinations.
        """
        bound = replace(self, structural_zeros=zeros or None)
        bound.compatibility  # noqa: B018 - raises now if something is wrong with the list
        return bound

    @cached_property
    def compatibility(self) -> Compatibility | None:
        """The structural zeros as arrays over the levels; None when there are none."""
        if self.structural_zeros is None:
            return None
        from rarecell.table.structural_zeros import compatibility

        return compatibility(self, self.structural_zeros)

    # ------------------------------------------------------------------ smaller tables

    def project(self, keys: Sequence[str]) -> ContingencyTable:
        """The table of some of the keys, with their coarsenings; records keep their order."""
        unknown = [key for key in keys if key not in self.keys]
        if unknown:
            raise UnknownColumns.among(unknown, self.keys, role="key")
        columns = [self.keys.index(key) for key in keys]
        smaller = self._collapsed([self.categories[c] for c in columns], self.cells[:, columns])
        zeros = None if self.structural_zeros is None else self.structural_zeros.project(keys) or None
        coarsenings = nested_by_key(keys, (c for c in self.coarsenings if c.key in keys))
        return replace(smaller, coarsenings=coarsenings, structural_zeros=zeros)

    def recode(self, coarsening: Coarsening) -> ContingencyTable:
        """The table with a key replaced by its coarsening, as if the file were released in that form.

        Coarsenings of that key stay, as coarsenings of the recoded key, if the new levels fit into their groups. So do structural
        zeros of other keys.
        """
        k = self.keys.index(coarsening.key)
        cells = np.array(self.cells, order="F")
        cells[:, k] = coarsening.group_of_level[cells[:, k]]
        categories = list(self.categories)
        categories[k] = Categories(coarsening.key, _levels_of(coarsening, self.categories[k]), self.categories[k].is_ordered)
        first_level = np.unique(coarsening.group_of_level, return_index=True)[1]
        kept = [
            replace(c, group_of_level=c.group_of_level[first_level]) if c.key == coarsening.key else c
            for c in self.coarsenings
            if c.key != coarsening.key or (c.n_levels < coarsening.n_levels and c.is_coarser_than(coarsening))
        ]
        others = [key for key in self.keys if key != coarsening.key]
        zeros = None if self.structural_zeros is None else self.structural_zeros.project(others) or None
        recoded = self._collapsed(categories, cells)
        return replace(recoded, coarsenings=nested_by_key(self.keys, kept), structural_zeros=zeros)

    def _collapsed(self, categories: Sequence[Categories], cells: NDArray[np.int32]) -> ContingencyTable:
        levels = np.array([c.n_levels for c in categories], dtype=np.int64)
        merged, _, position = collapse_records(np.asfortranarray(cells), levels)
        counts = np.zeros(len(merged), dtype=np.int64)
        np.add.at(counts, position, self.counts)
        weights = None if self.weights is None else _weight_sums(position, self.weights, len(merged))
        records = None if self.record_cell is None else np.where(self.record_cell >= 0, position[self.record_cell], -1)
        return ContingencyTable.of_sorted_cells(tuple(categories), merged, counts, weights, records)

    # ------------------------------------------------------------------ marginals

    @cached_property
    def marginals(self) -> Marginals:
        """The marginals of this table, each computed once."""
        return Marginals(self)

    def __repr__(self) -> str:
        return f"ContingencyTable(keys={self.keys!r}, n_records={self.n_records}, n_cells={self.n_cells})"

    def __str__(self) -> str:
        alone = self.size_indices.get(1, 0)
        return (
            f"{counted(self.n_records, 'record')} on {counted(self.n_keys, 'key')} {verb(self.n_records, 'falls', 'fall')} into "
            f"{number(self.n_cells)} of {counted(self.n_formal_cells, 'cell')}; {counted(alone, 'cell')} {verb(alone, 'holds', 'hold')} a single record."
        )
