"""Which cells of a clique can have positive probability?

A fitted cell is positive only if every fitted marginal is positive there. Such cells are listed by joining the occupied
cells of one marginal with the other keys, one key at a time, so nothing larger than the list is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import TooLarge
from rarecell.graph.masks import each_member, holds, single
from rarecell.table.contingency import ContingencyTable
from rarecell.table.marginals import Marginals

ROWS_AT_ONCE = 1_000_000
"""Number of candidates that one step of a join examines together."""


@dataclass(frozen=True, eq=False)
class CliqueCells:
    """Cells of a clique as key codes, one row per cell.

    If a clique contains a coarsening but not its key, the key's code is that of one level of the group. ``codes`` has a
    column for each key of the table; columns of keys outside the clique are 0.
    """

    mask: int
    codes: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.codes)


def largest_sets(table: ContingencyTable, masks: Sequence[int]) -> list[int]:
    """Close the masks and keep those that lie in no other, in the given order."""
    closed = list(dict.fromkeys(table.close(mask) for mask in masks))
    return [a for a in closed if not any(a != b and a & b == a for b in closed)]


def positive_cells(marginals: Marginals, clique: int, generators: Sequence[int], *, most_cells: int) -> CliqueCells:
    """List the cells of ``clique`` where the marginal of every generator, restricted to the clique, is positive.

    Raises
    ------
    TooLarge
        When there are more than ``most_cells`` of them.
    """
    table = marginals.table
    inside = largest_sets(table, [mask for mask in (generator & clique for generator in generators) if mask])
    start = max(inside, key=lambda mask: (table.reduce(mask).bit_count(), -len(marginals.counts(mask))))
    codes = marginals.level_rows(start)
    reached = start
    waiting = [v for v in each_member(table.reduce(clique)) if not holds(start, v)]
    while waiting:
        # The key with the most constraints linking it to those already reached prunes the most.
        v = max(waiting, key=lambda v: sum((mask & reached != 0) + 1 for mask in inside if holds(mask, v)))
        waiting.remove(v)
        joined = table.close(reached | single(v))
        # The constraints on v together with what was reached, except those already applied.
        known = largest_sets(table, [mask & joined for mask in inside if mask & joined & ~reached])
        codes = _extended(marginals, codes, v, reached, known, most_cells)
        reached = joined
    if len(codes) > most_cells:
        raise _too_many(most_cells, table, clique)
    return CliqueCells(clique, codes)


def _extended(
    marginals: Marginals, codes: NDArray[np.int32], vertex: int, reached: int, known: Sequence[int], most_cells: int
) -> NDArray[np.int32]:
    """All cells of ``codes`` combined with each code of ``vertex`` that keeps the marginals ``known`` positive.

    ``reached`` may hold coarser vertices of the same key; a code then stays within its group.
    """
    table = marginals.table
    key = int(table.vertex_key[vertex])
    holding = [mask for mask in known if holds(mask, vertex)] or [table.close(single(vertex))]
    # Candidates come from the marginal that leaves the fewest per cell.
    join = min(holding, key=lambda mask: len(marginals.counts(mask)) / len(marginals.counts(mask & reached)))
    rest = join & reached
    partners = marginals.level_rows(join)
    group = marginals.positions(rest, partners)
    order = np.argsort(group, kind="stable")
    partner_code = partners[order, key]
    starts = np.searchsorted(group[order], np.arange(len(marginals.counts(rest)) + 1))
    group_of_cell = marginals.positions(rest, codes)
    n_partners = np.diff(starts)[group_of_cell]
    done = np.concatenate([[0], np.cumsum(n_partners)])
    pieces = []
    n_kept = 0
    first = 0
    while first < len(codes):
        last = max(first + 1, int(np.searchsorted(done, done[first] + ROWS_AT_ONCE, side="right")) - 1)
        row = np.repeat(np.arange(first, last), n_partners[first:last])
        offset = np.arange(len(row)) - (done[row] - done[first])
        piece = codes[row]
        piece[:, key] = partner_code[starts[group_of_cell[row]] + offset]
        for mask in known:
            if mask != join:
                piece = piece[marginals.positions(mask, piece) >= 0]
        pieces.append(piece)
        n_kept += len(piece)
        if n_kept > most_cells:
            raise _too_many(most_cells, table, joined=n_kept)
        first = last
    return np.asfortranarray(np.concatenate(pieces))


def _too_many(most_cells: int, table: ContingencyTable, clique: int | None = None, *, joined: int = 0) -> TooLarge:
    where = "" if clique is None else f" of the clique {', '.join(table.names_of(table.reduce(clique)))}"
    return TooLarge(
        f"More than {max(most_cells, joined):,} cells{where} have positive marginals, beyond the {most_cells:,} that fit "
        "into the memory allowed. Name smaller generators, leave out a key, or raise memory_limit."
    )
