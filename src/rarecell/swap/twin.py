"""How is a synthetic twin of a file drawn, with the same clique margins?

The kernels of the formal mode with every θ = 1 draw uniformly from all files that have the clique margins of this one. Applied to
all columns at once, and with the rows in a new order, they make a file in which no record is anybody's, and in which the table of
every clique is the original's, cell by cell. With a finite ε the kernels hold on to part of each record; then the statement of
the formal mode applies, because a new order of the rows adds nothing to what is known.

A column takes part by its level. Where a level is a band of many values, a record of the twin gets the value of some original record
in that band, each used once: what is exact for the bands is exact for the single column, too. Alternatively a value is drawn
evenly between its neighbours in that band, so that no amount of the original is in the twin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell._kernels.exchanges import PairTables, exchange_pairs
from rarecell._kernels.hashing import HashedCells, fill_slots, find_cells, free_slots, hash_rows, mixed_many
from rarecell.errors import BadInput
from rarecell.graph.masks import members
from rarecell.model.decomposable import DecomposableModel
from rarecell.outcome.formal import FormalStatement
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.release.utility import BothFiles
from rarecell.swap.formal.mechanism import TreeEdge, rearranged, rooted_tree
from rarecell.swap.formal.release import formal_swaps
from rarecell.table.contingency import ContingencyTable


@dataclass(frozen=True, eq=False)
class Twin:
    """A file drawn from those that have the clique margins of the original.

    Attributes
    ----------
    table : ContingencyTable
        The table of the original.
    model : DecomposableModel
        The model whose clique margins are kept.
    codes : array of int
        Codes of the twin's records, a row each.
    sources : array of int
        For each record of the twin and each column, the original record whose value it gets; each is used once.
    statement : FormalStatement or None
        What is guaranteed when an ε was given.
    """

    table: ContingencyTable
    model: DecomposableModel
    codes: NDArray[np.int32]
    sources: NDArray[np.int64]
    statement: FormalStatement | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def with_codes(self, codes: NDArray[np.int32], rng: np.random.Generator) -> Twin:
        """The same twin with other codes, in which every column has as many records of each level."""
        return replace(self, codes=codes, sources=_sources(self.table, codes, rng))

    @cached_property
    def table_after(self) -> ContingencyTable:
        """The table of the twin."""
        return ContingencyTable.from_codes(self.codes, self.table.categories)

    @cached_property
    def n_changed_cells(self) -> dict[tuple[str, ...], int]:
        """For each clique of the model, in how many cells its table differs from the original's: none."""
        both = np.concatenate([self.table.cells, self.table_after.cells])
        more = np.concatenate([self.table.counts, -self.table_after.counts])
        n_changed = {}
        for clique in self.model.graph.clique_masks:
            vertices = members(self.table.reduce(clique))
            sizes = [int(self.table.vertex_levels[v]) for v in vertices]
            _, _, cell = collapse_records([self.table.map_cells(both, v) for v in vertices], sizes)
            n_changed[tuple(self.table.vertex_names[v] for v in vertices)] = int((np.bincount(cell, weights=more) != 0).sum())
        return n_changed

    @cached_property
    def copies(self) -> float:
        """Share of the people who are unique on all columns whose combination stands in the twin."""
        is_unique = self.table.counts == 1
        return float((self.table_after.counts_of(self.table.cells[is_unique]) > 0).mean()) if is_unique.any() else 0.0

    @cached_property
    def both(self) -> BothFiles:
        """The cells of original and twin together, for comparisons of their tables."""
        return BothFiles.of(self.table, self.table_after)

    def __str__(self) -> str:
        exact = len(self.model.graph.clique_masks)
        return (
            f"A twin of {len(self):,} records, drawn from all files that agree with the original in {exact} tables of "
            f"{self.table.n_keys} columns."
        )


def synthetic_twin(
    table: ContingencyTable,
    model: DecomposableModel,
    *,
    epsilon: float | None = None,
    root: int | None = None,
    is_shuffled: bool = True,
    seed: int | None = None,
    progress: Progress = SILENT,
) -> Twin:
    """Draw a synthetic twin of the file that ``table`` was counted from.

    Parameters
    ----------
    table : ContingencyTable
        The table of all columns that the twin is to have; it must know the cell of each record.
    model : DecomposableModel
        A decomposable model of the table; its clique margins stay as they are.
    epsilon : float, optional
        Hold on to part of each record with this ε, as in :func:`rarecell.formal_swaps`. By default the twin is drawn
        uniformly from all files with the same clique margins.
    root : int, optional
        A clique, as a mask, that stays as it is in every row until rows are shuffled; by default any.
    is_shuffled : bool, optional
        Whether the rows get a new order; otherwise the root stays with its row.
    seed : int, optional
        For tests; without one nobody can draw the same twin again.

    Examples
    --------
    >>> import numpy as np, rarecell as rc
    >>> from rarecell.swap.twin import synthetic_twin
    >>> columns = [rc.Categories(name, tuple(range(4))) for name in ("area", "age", "job")]
    >>> codes = np.random.default_rng(0).integers(0, 4, (500, 3)).astype(np.int32)
    >>> table = rc.ContingencyTable.from_codes(codes, columns)
    >>> model = rc.DecomposableModel(table, cliques=[("area", "age"), ("age", "job")])
    >>> twin = synthetic_twin(table, model, seed=1)
    >>> twin.n_changed_cells
    {('area', 'age'): 0, ('age', 'job'): 0}
    >>> bool((twin.table_after.counts_of(table.cells) == table.counts).all())
    False
    """
    if not isinstance(model, DecomposableModel):
        raise BadInput("A synthetic twin needs a decomposable model, because values are drawn along a junction tree.")
    if table.record_cell is None or (table.record_cell < 0).any():
        raise BadInput("A synthetic twin needs every record at hand, and none dropped for a missing value.")
    rng = np.random.default_rng(seed)
    original = np.asfortranarray(table.cells[table.record_cell])
    if epsilon is None:
        tree = rooted_tree(model.graph, model.graph.clique_masks[0] if root is None else root)
        drawn = rearranged(table, original, tree, [1.0] * len(tree.edges), rng, progress=progress).codes
        statement = None
    else:
        names = None if root is None else table.names_of(root)
        release = formal_swaps(table, model, epsilon=epsilon, root=names, seed=seed, progress=progress)
        drawn = original.copy()
        drawn[release.rows] = release.new_cells
        statement = release.statement
    if is_shuffled:
        drawn = drawn[rng.permutation(len(drawn))]
    return Twin(table, model, drawn, _sources(table, drawn, rng), statement)


def _sources(table: ContingencyTable, drawn: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int64]:
    """For each drawn record and column, an original record with that level, each used once."""
    original = table.cells[table.cell_of_record]
    return np.column_stack([_matched(original[:, k], drawn[:, k], rng) for k in range(table.n_keys)])


def _matched(old: NDArray[np.int32], new: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int64]:
    """For each new code an old record with that code, each used once and within a code at random."""
    order = rng.permutation(len(old))
    by_old = order[np.argsort(old[order], kind="stable")]
    sources = np.empty(len(new), dtype=np.int64)
    sources[np.argsort(new, kind="stable")] = by_old
    return sources


def pairs_within(
    table: ContingencyTable, rows: NDArray[np.int32], edge: TreeEdge, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of rows that agree on the separator of an edge, each row in at most one pair."""
    stratum = np.zeros(len(rows), dtype=np.int64)
    vertices = members(table.reduce(edge.separator))
    if vertices:
        sizes = [int(table.vertex_levels[v]) for v in vertices]
        _, _, position = collapse_records([table.map_cells(rows, v) for v in vertices], sizes)
        stratum = np.asarray(position, dtype=np.int64)
    order = rng.permutation(len(rows))
    order = order[np.argsort(stratum[order], kind="stable")]
    in_order = stratum[order]
    start = np.flatnonzero(np.r_[True, in_order[1:] != in_order[:-1]])
    place = np.arange(len(rows)) - np.repeat(start, np.diff(np.r_[start, len(rows)]))
    is_first = (place % 2 == 0) & np.r_[in_order[1:] == in_order[:-1], False]
    at = np.flatnonzero(is_first)
    return order[at], order[at + 1]


# Fewer copies, and tables of two columns that are nearer to the original's.

SWEEPS = 60
"""How often at most every edge of the junction tree is tried."""

_SETTLED = 0.01
"""Exchanges end when a sweep makes the tables of two columns nearer by less than this share."""


@dataclass(frozen=True, eq=False)
class ExchangedTwin:
    """A twin after exchanges within its tables.

    Attributes
    ----------
    twin : Twin
        The twin; its clique tables are those that it had.
    n_exchanges : int
        How many pairs of records exchanged values.
    """

    twin: Twin
    n_exchanges: int


def exchanged_twin(
    twin: Twin,
    *,
    max_copies: float | None = None,
    near_pairs: bool = False,
    seed: int | None = None,
    progress: Progress = SILENT,
) -> ExchangedTwin:
    """Let records of a twin exchange values within its clique tables, so that it has fewer copies and nearer tables.

    Two records that agree on the separator of an edge of the junction tree exchange what lies on one side of it. Every clique table
    stays as it is. In each sweep and for each edge, records are put into such pairs at random, and a pair exchanges unless that makes
    the file worse (:mod:`rarecell._kernels.exchanges`).

    The choice looks at the original. A file with hardly any copies says of a combination that it should hold and does not that
    one person may have it. Compare the share of copies with that of people who were left out, and ask for no less.

    Parameters
    ----------
    twin : Twin
        The twin.
    max_copies : float, optional
        The largest share of the people who are unique on all columns that may stand in it. Where no exchange is left that helps, it
        may be exceeded.
    near_pairs : bool, optional
        Whether all tables of two columns shall come nearer to the original's.
    seed : int, optional
        For tests.

    Examples
    --------
    >>> import numpy as np, rarecell as rc
    >>> from rarecell.swap.twin import exchanged_twin, synthetic_twin
    >>> columns = [rc.Categories(name, tuple(range(9))) for name in ("area", "age", "job")]
    >>> codes = np.random.default_rng(0).integers(0, 9, (500, 3)).astype(np.int32)
    >>> table = rc.ContingencyTable.from_codes(codes, columns)
    >>> twin = synthetic_twin(table, rc.DecomposableModel(table, cliques=[("area", "age"), ("age", "job")]), seed=1)
    >>> fewer = exchanged_twin(twin, max_copies=0.1, seed=1).twin
    >>> twin.copies > 0.3, fewer.copies <= 0.1, set(fewer.n_changed_cells.values())
    (True, True, {0})
    """
    rng = np.random.default_rng(seed)
    table = twin.table
    codes = np.array(twin.codes, dtype=np.int32, order="C")
    uniques = _unique_cells(table)
    hashed = hash_rows(codes, uniques.mixing, uniques.start)
    cell = find_cells(uniques, hashed)
    standing = np.bincount(cell[cell >= 0], minlength=len(uniques.hashed)).astype(np.int64)
    most = len(standing) if max_copies is None else int(max_copies * len(standing))
    pairs = _pair_tables(table, codes)
    tree = rooted_tree(twin.model.graph, twin.model.graph.clique_masks[0])
    n_exchanges, apart = 0, int(np.abs(pairs.more).sum())
    for _ in range(SWEEPS):
        is_few = int((standing > 0).sum()) <= most
        if is_few and not near_pairs:
            break
        for edge in tree.edges:
            checkpoint(progress, "exchanging values within the tables")
            moved = np.array(edge.keys_moved(table), dtype=np.int64)
            stays = np.setdiff1d(np.arange(table.n_keys), moved)
            first, second = pairs_within(table, codes, edge, rng)
            n_exchanges += int(
                exchange_pairs(codes, hashed, first, second, moved, stays, pairs, uniques, standing, most, near_pairs)
            )
        before, apart = apart, int(np.abs(pairs.more).sum())
        if is_few and before - apart <= _SETTLED * before:
            break
    return ExchangedTwin(twin.with_codes(codes, rng), n_exchanges)


def _unique_cells(table: ContingencyTable) -> HashedCells:
    """The cells that one record of the original has."""
    sizes = [categories.n_levels for categories in table.categories]
    start = np.cumsum([0, *sizes[:-1]]).astype(np.int64)
    mixing = mixed_many(np.arange(sum(sizes)), 0)
    cells = np.ascontiguousarray(table.cells[table.counts == 1])
    hashed = hash_rows(cells, mixing, start)
    slots = free_slots(len(hashed), np.int64)
    fill_slots(hashed, slots)
    return HashedCells(slots, hashed, np.ones(len(hashed), dtype=np.int64), np.zeros(len(hashed), dtype=bool), mixing, start)


def _pair_tables(table: ContingencyTable, codes: NDArray[np.int32]) -> PairTables:
    """How much more the tables of two columns of ``codes`` have in each cell than the original's."""
    original = table.cells[table.cell_of_record]
    n_levels = [categories.n_levels for categories in table.categories]
    start, step = (np.zeros((table.n_keys, table.n_keys), dtype=np.int64) for _ in range(2))
    tables, n_cells = [], 0
    for a, b in combinations(range(table.n_keys), 2):
        of_codes, of_original = (
            np.bincount(file[:, a].astype(np.int64) * n_levels[b] + file[:, b], minlength=n_levels[a] * n_levels[b])
            for file in (codes, original)
        )
        tables.append(of_codes - of_original)
        start[a, b] = start[b, a] = n_cells
        step[a, b], step[b, a] = n_levels[b], 1
        n_cells += n_levels[a] * n_levels[b]
    return PairTables(np.concatenate(tables), start, step)


def k_marginal_score(both: BothFiles) -> float:
    """1,000 less 1,000 times the mean total variation distance of all tables of two columns, as SDNist has it."""
    n = both.table.n_records
    apart = [
        0.5 * float(np.abs(before - after).sum()) / n
        for before, after in (both.changed_margin(keys) for keys in combinations(range(both.table.n_keys), 2))
    ]
    return 1000.0 * (1.0 - float(np.mean(apart))) if apart else 1000.0


def smoothed_amounts(
    values: NDArray[np.float64], band: NDArray[np.int32], new_band: NDArray[np.int32], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Amounts drawn evenly between neighbours in their band, so that none of the original appears by more than chance.

    Each new record in a band gets a place between two adjacent sorted values of the band. The extremes of a band are pulled
    inwards, to the mean of the two outermost values: the largest amount of the file is not in the twin.
    """
    drawn = np.full(len(new_band), np.nan)
    for code in np.unique(new_band):
        inside = np.sort(values[band == code])
        inside = inside[~np.isnan(inside)]
        places = np.flatnonzero(new_band == code)
        if not len(inside):
            continue
        knots = inside if len(inside) < 4 else np.concatenate([[inside[:2].mean()], inside[1:-1], [inside[-2:].mean()]])
        at = rng.random(len(places)) * (len(knots) - 1)
        drawn[places] = np.interp(at, np.arange(len(knots)), knots)
    return drawn
