"""What does a released file say about each person of the original?

Records keep their order, so a record of the released file belongs to the person in the same row of the original. Most records
are unchanged, so only those that moved are held individually; for the others the table of cells is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput
from rarecell.table.contingency import Categories, ContingencyTable

if TYPE_CHECKING:
    from rarecell.swap.apply import Exchange


Cells = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Claims:
    """Records about which an intruder makes a claim: their number (−1 if not known), true cell and released cell."""

    row: NDArray[np.int64]
    true: Cells
    released: Cells

    def __len__(self) -> int:
        return len(self.row)

    def part(self, chosen: NDArray[np.int64] | slice) -> Claims:
        """Some of the claims."""
        return Claims(self.row[chosen], self.true[chosen], self.released[chosen])


@dataclass(frozen=True, eq=False)
class Release:
    """A released file together with its original.

    Attributes
    ----------
    before, after : ContingencyTable
        Tables of the original and the released file, with the same categories.
    rows : ndarray of int
        Numbers of the records whose cell changed.
    true, released : ndarray of int
        Their cells in the original and in the released file, as key codes.
    gone : ndarray of int
        Numbers of the records that the released file does not have.
    """

    before: ContingencyTable
    after: ContingencyTable
    rows: NDArray[np.int64]
    true: Cells
    released: Cells
    gone: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    def of_codes(
        cls, original: Cells, released: Cells, categories: Sequence[Categories], *, weights: NDArray[np.float64] | None = None
    ) -> Release:
        """The release for two files with a row of level codes for each record.

        A row with a negative code in the original is left out of both; with one in the released file alone, it was not released.
        ``weights`` are those of the original's records.
        """
        if original.shape != released.shape:
            raise BadInput(
                f"The original has {len(original):,} records and the released file {len(released):,}; the same records are "
                "needed in the same order."
            )
        is_left_out = (original < 0).any(axis=1)
        is_gone = (released < 0).any(axis=1) & ~is_left_out
        new = np.where(np.reshape(is_left_out | is_gone, (-1, 1)), np.int32(-1), released)
        before = ContingencyTable.from_codes(original, categories, weights=weights)
        after = ContingencyTable.from_codes(new, categories)
        moved = np.flatnonzero((original != new).any(axis=1) & ~is_gone & ~is_left_out)
        return cls(before, after, moved, original[moved], new[moved], np.flatnonzero(is_gone))

    @classmethod
    def of_plan(cls, plan: Exchange) -> Release:
        """The file as it will be after a plan is carried out."""
        return cls(plan.table, plan.table_after, plan.rows, plan.table.cells[plan.table.cell_of(plan.rows)], plan.new_cells)

    @classmethod
    def unchanged(cls, table: ContingencyTable) -> Release:
        """The file released as it is."""
        nobody = np.zeros((0, table.n_keys), dtype=np.int32)
        return cls(table, table, np.zeros(0, dtype=np.int64), nobody, nobody)

    def with_levels(self, categories: Sequence[Categories], place: Sequence[NDArray[np.int32]]) -> Release:
        """The same release with other levels; ``place`` gives, for each key, the new code of each level."""

        def moved(cells: Cells) -> Cells:
            return np.stack([of_key[cells[:, k]] for k, of_key in enumerate(place)], axis=1).astype(np.int32)

        before, after = (
            ContingencyTable.from_counts(moved(table.cells), table.counts, categories, record_cell=table.record_cell)
            for table in (self.before, self.after)
        )
        return Release(before, after, self.rows, moved(self.true), moved(self.released), self.gone)

    @cached_property
    def _everything(self) -> int:
        return self.before.all_keys

    @cached_property
    def n_released_alike(self) -> NDArray[np.int64]:
        """Number of records of the released file in the cell of each moved record."""
        return np.asarray(self.after.counts[self.after.marginals.positions(self._everything, self.released)])

    @cached_property
    def moved(self) -> Claims:
        """Moved records, whether or not they are alone in their cell of the released file."""
        return Claims(self.rows, self.true, self.released)

    @cached_property
    def moved_alone(self) -> NDArray[np.bool_]:
        """Which of the moved records are alone in their cell of the released file."""
        return np.asarray(self.n_released_alike == 1)

    @cached_property
    def moved_claims(self) -> Claims:
        """Moved records that are alone in their cell of the released file."""
        return self.moved.part(np.flatnonzero(self.moved_alone))

    @cached_property
    def n_left(self) -> NDArray[np.int64]:
        """Number of records of each cell of the original that moved or are gone."""
        left = np.zeros(self.before.n_cells, dtype=np.int64)
        np.add.at(left, self._cells_left, 1)
        return left

    @cached_property
    def _cells_left(self) -> NDArray[np.int64]:
        moved = self.before.marginals.positions(self._everything, self.true)
        return np.concatenate([moved, self.before.cell_of(self.gone)]) if len(self.gone) else np.asarray(moved)

    @cached_property
    def unmoved_cells(self) -> NDArray[np.int64]:
        """Cells of the original whose only record in the released file was not moved."""
        before, after = self.before, self.after
        one_stays = np.flatnonzero(before.counts - self.n_left == 1)
        position = after.marginals.positions(self._everything, before.cells[one_stays])
        return np.asarray(one_stays[after.counts[position] == 1])

    def unmoved_rows(self) -> NDArray[np.int64]:
        """The record of each of :attr:`unmoved_cells`."""
        of_record = self.before.record_cell
        found = np.full(self.before.n_cells + 1, -1, dtype=np.int64)
        left = np.concatenate([self.rows, self.gone])
        if of_record is None:
            # Records are numbered cell by cell. All but one of a cell left, so the sum of the numbers tells which one stayed.
            counts, first = self.before.counts, self.before.first_row
            found[:-1] = counts * first + counts * (counts - 1) // 2
            np.subtract.at(found, self._cells_left, left)
        else:
            stays = np.ones(len(of_record), dtype=bool)
            stays[left] = False
            rows = np.flatnonzero(stays)
            found[of_record[rows]] = rows
        return found[self.unmoved_cells]
