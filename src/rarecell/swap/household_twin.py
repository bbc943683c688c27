"""How is a synthetic twin drawn whose families are plausible?

A twin of persons draws every person alone, so its households are people thrown together. Here a household is one row
(:mod:`rarecell.table.household_rows`), and whole rows are drawn. Households of one size are drawn from each other: within a size
every place is taken, so no row can contradict its number of members, and the tables of each size are the original's, cell by cell.
Large households are rare; from some size on they are drawn together, with places for their first members.

The other members of these households, and everybody in an institution, are drawn one by one. They keep their household's size and
whatever all its members share.

A row is drawn along the junction tree of the model of its size. What members of a family never are in the original, the tables of the
model need not exclude: a household that breaks a rule (:mod:`rarecell.table.household_rules`) exchanges one side of a separator
with another household, as long as this does not leave more of them broken. Such an exchange changes no table either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rarecell.graph.chordal import least_fill
from rarecell.graph.masks import MAX_VERTICES, members
from rarecell.model.decomposable import DecomposableModel
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.release.utility import BothFiles
from rarecell.swap.formal.mechanism import RootedTree, rooted_tree
from rarecell.swap.twin import Twin, pairs_within, synthetic_twin
from rarecell.table.categories import Categories
from rarecell.table.coarsening import automatic_coarsenings
from rarecell.table.contingency import ContingencyTable
from rarecell.table.household_rows import SIZE, Layout, RowColumn, find_layout
from rarecell.table.household_rules import HouseholdRules
from rarecell.table.possible_cells import Compatibility
from rarecell.table.structural_zeros import StructuralZeros, compatibility

Codes = NDArray[np.int32]
Numbers = NDArray[np.int64]
Search = Callable[[ContingencyTable], DecomposableModel]

FEWEST_HOUSEHOLDS = 50
"""Households of a size and more are drawn together if there are fewer than this."""

MOST_COLUMNS = 48
"""A row has at most this many columns, which leaves vertices for coarser columns."""

FURTHER = "further members of large households"
INMATES = "members of institutions"

ROUNDS = 1000
"""How often households that break a rule look for another one to exchange with."""


@dataclass(frozen=True, eq=False)
class Block:
    """Rows that are drawn from each other: households of a size, or persons who are drawn one by one.

    Attributes
    ----------
    name : str
        What the rows are, in words.
    home : array of int
        The household of each row.
    at : array of int
        For each row, the record at each of its places.
    columns : tuple of RowColumn
        What the columns of a row are; those that are the same in all rows are left out.
    table : ContingencyTable
        The table of the rows, without levels that they do not have.
    level_of_code : tuple of arrays of int
        For each column, the code that each of its levels has among the persons.
    together : int
        Columns, as a mask, that stay together with their row: what belongs to the household when its members are drawn.
    """

    name: str
    home: Numbers
    at: Numbers
    columns: tuple[RowColumn, ...]
    table: ContingencyTable
    level_of_code: tuple[Codes, ...]
    together: int = 0

    @classmethod
    def of(
        cls,
        name: str,
        persons: ContingencyTable,
        home: Numbers,
        at: Numbers,
        columns: Sequence[RowColumn],
        *,
        size: Numbers | None = None,
        stays: bool = False,
    ) -> Block:
        """Write rows of the records ``at`` their places.

        ``size`` has the values of the column of sizes, if there is one; with ``stays``, what all members share stays with its row.
        """
        codes = persons.cells[persons.cell_of_record]
        coded = []
        for column in columns:
            of_rows = codes[at[:, max(column.place, 0)], column.key] if column.key >= 0 else np.asarray(size)
            coded.append(np.unique(of_rows, return_inverse=True))
        varying = [k for k, (levels, _) in enumerate(coded) if len(levels) > 1] or [0]
        categories = []
        for column, (levels, _) in ((columns[k], coded[k]) for k in varying):
            if column.key < 0:
                categories.append(Categories(column.name, tuple(levels.tolist()), is_ordered=True))
            else:
                of_key = persons.categories[column.key]
                categories.append(replace(of_key, key=column.name, levels=tuple(of_key.levels[level] for level in levels)))
        rows = np.column_stack([coded[k][1].ravel() for k in varying]).astype(np.int32)
        table = ContingencyTable.from_codes(np.asfortranarray(rows), categories)
        table = table.with_coarsenings(automatic_coarsenings(table))
        return cls(
            name,
            home,
            at,
            tuple(columns[k] for k in varying),
            table,
            tuple(coded[k][0].astype(np.int32) for k in varying),
            sum(1 << place for place, k in enumerate(varying) if columns[k].place < 0) if stays else 0,
        )

    def model(self, search: Search) -> DecomposableModel:
        """The best model of the rows, in which what stays with a row is one clique or part of one."""
        model = search(self.table)
        if not self.together or any(self.together & ~clique == 0 for clique in model.graph.clique_masks):
            return model
        neighbours = list(model.graph.neighbours)
        for k in members(self.together):
            neighbours[k] |= self.together & ~(1 << k)
        graph = least_fill(neighbours, self.table.n_possible_cells)
        return DecomposableModel(self.table, cliques=[self.table.names_of(clique) for clique in graph.clique_masks])

    def root(self, model: DecomposableModel) -> int:
        """The clique that stays with its row."""
        return next(clique for clique in model.graph.clique_masks if self.together & ~clique == 0)


@dataclass(frozen=True, eq=False)
class FamilyBlocks:
    """The records of a file as rows to be drawn.

    Attributes
    ----------
    table : ContingencyTable
        The table of the persons.
    layout : Layout
        The order of the members, and what all of them share.
    families : tuple of Block
        Households, by size.
    singles : tuple of Block
        Persons who are drawn one by one: members of large households without a place, and members of institutions.
    rules : HouseholdRules
        What holds in every household, but for what cannot occur together.
    possible : Compatibility
        What can occur together in a row of the layout.
    """

    table: ContingencyTable
    layout: Layout
    families: tuple[Block, ...]
    singles: tuple[Block, ...]
    rules: HouseholdRules
    possible: Compatibility

    @classmethod
    def of(cls, table: ContingencyTable, household: NDArray[np.integer]) -> FamilyBlocks:
        """Divide the records of ``table`` into households of each size and persons who are drawn one by one."""
        codes, categories = table.cells[table.cell_of_record], table.categories
        home = np.unique(household, return_inverse=True)[1].ravel()
        layout = find_layout(codes, categories, home)
        rows = layout.rows(codes, home)
        homes = rows.members
        own = [k for k in range(len(categories)) if k not in layout.shared]
        shared = [RowColumn(categories[k].key, k, -1) for k in layout.shared]
        open_size = _open_size(homes.size, len(own), len(shared))
        families = []
        for size in range(1, open_size + 1):
            chosen = homes.size >= size if size == open_size else homes.size == size
            if not chosen.any():
                continue
            sizes = homes.size[chosen]
            is_open = bool((sizes > size).any())
            name = f"households of {size}{' or more' if is_open else ''}"
            columns = [*shared, *(RowColumn(f"{categories[k].key} {place + 1}", k, place) for place in range(size) for k in own)]
            columns = [RowColumn(SIZE, -1, -1), *columns] if is_open else columns
            at = homes.at[chosen, :size]
            families.append(Block.of(name, table, homes.number[chosen], at, columns, size=sizes, stays=is_open))
        columns = [*shared, *(RowColumn(categories[k].key, k, 0) for k in own)]
        further = np.flatnonzero((homes.of_record >= 0) & (homes.place >= open_size))
        inmates = np.flatnonzero(homes.of_record < 0)
        singles = tuple(
            Block.of(name, table, home[records], records[:, None], columns, stays=True)
            for name, records in ((FURTHER, further), (INMATES, inmates))
            if len(records)
        )
        rules = HouseholdRules.of(rows, codes)
        possible = compatibility(rows.table, rules.together)
        return cls(table, layout, tuple(families), singles, replace(rules, together=StructuralZeros()), possible)

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (*self.families, *self.singles)

    @property
    def n_one_by_one(self) -> int:
        return sum(len(block.at) for block in self.singles)

    def broken_by(self, codes: Codes, household: NDArray[np.integer]) -> Numbers:
        """The numbers of the households of a file with these keys that break a rule of the original."""
        rows = self.layout.rows(codes, household)
        return rows.members.number[self.rules.any_broken(rows, codes) | self.possible.violates(rows.codes)]

    def breaks_rule(self, block: Block, rows: Codes) -> NDArray[np.bool_]:
        """Which households with these rows break a rule that holds in the original."""
        n_places = block.at.shape[1]
        # Columns that are left out of a row are the same in all of them.
        codes = np.tile(self.table.cells[self.table.cell_of_record[block.at[0]]], (len(rows), 1))
        for k, column in enumerate(block.columns):
            if column.key < 0:
                continue
            values = block.level_of_code[k][rows[:, k]]
            if column.place < 0:
                codes[:, column.key] = np.repeat(values, n_places)
            else:
                codes[column.place :: n_places, column.key] = values
        breaks = np.zeros(len(rows), dtype=bool)
        breaks[self.broken_by(codes, np.repeat(np.arange(len(rows)), n_places))] = True
        return breaks


def _open_size(size: Numbers, n_own: int, n_shared: int) -> int:
    """The size from which on households are drawn together."""
    open_size = 1
    while (open_size + 1) * n_own + n_shared + 1 <= min(MOST_COLUMNS, MAX_VERTICES) and int(
        (size > open_size).sum()
    ) >= FEWEST_HOUSEHOLDS:
        open_size += 1
    return open_size


@dataclass(frozen=True, eq=False)
class FamilyTwin:
    """A synthetic file of households.

    Attributes
    ----------
    table : ContingencyTable
        The table of the persons of the original.
    parts : tuple of Twin
        The draw of each block, in the order of ``names``.
    names : tuple of str
        What the rows of each block are.
    codes : array of int
        Codes of the twin's records, a row each; members of a household follow each other.
    sources : array of int
        For each record of the twin and each column, the original record whose value it gets.
    household : array of int
        The household of each record, numbered from 1 in the order of the file.
    breaks_rule : array of bool
        For each household, whether it breaks a rule that holds in the original.
    shared : tuple of int
        Columns whose value all members of a household share.
    """

    table: ContingencyTable
    parts: tuple[Twin, ...]
    names: tuple[str, ...]
    codes: Codes
    sources: Numbers
    household: Numbers
    breaks_rule: NDArray[np.bool_]
    shared: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def n_changed_cells(self) -> dict[tuple[str, ...], int]:
        """For each block and clique, in how many cells its table differs from the original's: none."""
        return {
            (name, *variables): n_cells
            for name, part in zip(self.names, self.parts, strict=True)
            for variables, n_cells in part.n_changed_cells.items()
        }

    @cached_property
    def both(self) -> BothFiles:
        """The cells of the persons of original and twin together, for comparisons of their tables."""
        return BothFiles.of(self.table, ContingencyTable.from_codes(self.codes, self.table.categories))


def family_twin(
    blocks: FamilyBlocks,
    models: Sequence[DecomposableModel],
    *,
    epsilon: float | None = None,
    seed: int | None = None,
    progress: Progress = SILENT,
) -> FamilyTwin:
    """Draw a synthetic file of households.

    Parameters
    ----------
    blocks : FamilyBlocks
        The households of the original.
    models : sequence of DecomposableModel
        A model for each of ``blocks.blocks``, as :meth:`Block.model` finds it.
    epsilon : float, optional
        Hold on to part of each household with this ε. Persons who are drawn one by one are drawn uniformly in any case.
    seed : int, optional
        For tests; without one nobody can draw the same twin again.
    """
    rng = np.random.default_rng(seed)
    parts = []
    for block, model in zip(blocks.blocks, models, strict=True):
        checkpoint(progress, f"drawing {block.name}")
        part = synthetic_twin(
            block.table,
            model,
            epsilon=None if block in blocks.singles else epsilon,
            root=block.root(model) if block.together else None,
            is_shuffled=False,
            seed=int(rng.integers(2**31)),
            progress=progress,
        )
        if block in blocks.families:
            part = part.with_codes(_mended(blocks, block, part, rng, progress), rng)
        parts.append(part)
    return _put_together(blocks, parts, rng, progress)


def _mended(blocks: FamilyBlocks, block: Block, part: Twin, rng: np.random.Generator, progress: Progress) -> Codes:
    """The rows of a draw after exchanges that leave fewer and fewer households with a broken rule.

    1. Choose an edge of the junction tree and put the rows that agree on its separator into pairs, at random.
    2. Pairs with a row that breaks a rule exchange the values on the far side of the edge.
    3. They keep what they got unless more rows of the pair break a rule than before.
    """
    rows = np.array(part.codes, order="F")
    tree: RootedTree = rooted_tree(part.model.graph, block.root(part.model))
    breaks = blocks.breaks_rule(block, rows)
    edges = [edge for edge in tree.edges if edge.keys_moved(block.table)]
    for _ in range(ROUNDS if edges else 0):
        if not breaks.any():
            break
        checkpoint(progress, "keeping the rules of households")
        edge = edges[int(rng.integers(len(edges)))]
        first, second = pairs_within(block.table, rows, edge, rng)
        chosen = breaks[first] | breaks[second]
        first, second = first[chosen], second[chosen]
        if not len(first):
            continue
        moved = list(edge.keys_moved(block.table))
        tried = rows[np.concatenate([first, second])]
        tried[:, moved] = rows[np.concatenate([second, first])][:, moved]
        after = blocks.breaks_rule(block, tried).reshape(2, -1)
        better = after.sum(axis=0) <= breaks[first].astype(int) + breaks[second]
        where = np.concatenate([first[better], second[better]])
        rows[where] = tried[np.concatenate([better, better])]
        breaks[where] = after[:, better].ravel()
    return rows


def _put_together(blocks: FamilyBlocks, parts: Sequence[Twin], rng: np.random.Generator, progress: Progress) -> FamilyTwin:
    """Households with their members, in a new order; persons drawn one by one join the household they belong to."""
    n_keys = blocks.table.n_keys
    of_blocks, homes = [], []
    for block, part in zip(blocks.blocks, parts, strict=True):
        n_places = block.at.shape[1]
        of_places = np.repeat(block.at[:, :, None], n_keys, axis=2)
        for k, column in enumerate(block.columns):
            drawn = block.at[part.sources[:, k]]
            if column.key >= 0 and column.place < 0:
                of_places[:, :, column.key] = drawn[:, :1]
            elif column.key >= 0:
                of_places[:, column.place, column.key] = drawn[:, column.place]
        of_blocks.append(of_places.reshape(-1, n_keys))
        homes.append(np.repeat(block.home, n_places))
    sources, home = np.concatenate(of_blocks), np.concatenate(homes)
    if any(block.name == FURTHER for block in blocks.singles):
        n_families = sum(map(len, of_blocks[: len(blocks.families)]))
        further = n_families + np.arange(len(of_blocks[len(blocks.families)]))
        head = np.full(int(home.max()) + 1, -1, dtype=np.int64)
        head[home[:n_families]] = np.arange(n_families)
        for key in blocks.layout.shared:
            sources[further, key] = sources[head[home[further]], key]
        _seat(blocks, sources, home, further, rng, progress)
    place = rng.permutation(int(home.max()) + 1)[home]
    order = np.argsort(place, kind="stable")
    codes = _codes(blocks.table, sources[order])
    number = np.unique(place[order], return_inverse=True)[1].ravel() + 1
    breaking = np.zeros(int(number.max()), dtype=bool)
    breaking[blocks.broken_by(codes, number) - 1] = True
    names = tuple(block.name for block in blocks.blocks)
    return FamilyTwin(blocks.table, tuple(parts), names, codes, sources[order], number, breaking, blocks.layout.shared)


def _codes(table: ContingencyTable, sources: Numbers) -> Codes:
    original = table.cells[table.cell_of_record]
    return np.asfortranarray(np.column_stack([original[sources[:, k], k] for k in range(table.n_keys)]))


def _seat(
    blocks: FamilyBlocks, sources: Numbers, home: Numbers, further: Numbers, rng: np.random.Generator, progress: Progress
) -> None:
    """Let further members change places between households that break a rule and others, in ``sources``.

    Two persons change places with what is their own, and take over what their new household shares. As above, they stay where they are
    if more of the two households would break a rule.
    """
    own = [k for k in range(blocks.table.n_keys) if k not in blocks.layout.shared]
    records = np.flatnonzero(np.isin(home, home[further]))
    breaking = blocks.broken_by(_codes(blocks.table, sources[records]), home[records])
    for _ in range(ROUNDS):
        if not len(breaking):
            return
        checkpoint(progress, "keeping the rules of households")
        # One further member of each household, at random, so that no household is tried twice at once.
        mixed = rng.permutation(further)
        mixed = mixed[np.unique(home[mixed], return_index=True)[1]]
        mixed = rng.permutation(mixed)
        half = len(mixed) // 2
        first, second = mixed[:half], mixed[half : 2 * half]
        is_broken = np.isin(home[first], breaking).astype(int) + np.isin(home[second], breaking)
        first, second, is_broken = first[is_broken > 0], second[is_broken > 0], is_broken[is_broken > 0]
        if not len(first):
            continue
        before = sources[first].copy(), sources[second].copy()
        for key in own:
            sources[first, key], sources[second, key] = before[1][:, key], before[0][:, key]
        touched = np.flatnonzero(np.isin(home, home[np.concatenate([first, second])]))
        after = blocks.broken_by(_codes(blocks.table, sources[touched]), home[touched])
        worse = np.isin(home[first], after).astype(int) + np.isin(home[second], after) > is_broken
        sources[first[worse]], sources[second[worse]] = before[0][worse], before[1][worse]
        breaking = blocks.broken_by(_codes(blocks.table, sources[records]), home[records])
