"""What was done to the records of a file?

Records keep their order, so a record of the released file belongs to the person in the same row of the original. Most records
are unchanged; a release holds those whose values changed, where each new value comes from, what is blank, and which columns
travelled. Swaps of records, households and places, the formal mode and blanking make releases; intruders, measures of utility
and the writing of files read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput
from rarecell.release.blanks import NOTHING_BLANK, Suppression
from rarecell.release.travel import NOTHING_TRAVELS, Travel
from rarecell.table.contingency import Categories, ContingencyTable

Cells = NDArray[np.int32]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Claims:
    """Records about which an intruder makes a claim: their number (−1 if not known), true cell and released cell."""

    row: Rows
    true: Cells
    released: Cells

    def __len__(self) -> int:
        return len(self.row)

    def part(self, chosen: NDArray[np.int64] | slice) -> Claims:
        """Some of the claims."""
        return Claims(self.row[chosen], self.true[chosen], self.released[chosen])


@dataclass(frozen=True, eq=False)
class Release:
    """A file as it is released, by how it differs from its original.

    Attributes
    ----------
    before : ContingencyTable
        Table of the original.
    rows : ndarray of int
        Numbers of the records that took part in a change.
    true, released : ndarray of int
        Their cells in the original and afterwards, as key codes, before anything is blanked.
    taken : mapping of str to ndarray of int
        For each key, which of ``rows`` the new value of each of them comes from; itself if the value stays. Empty if two
        files are compared, because nobody knows then.
    blanks : Suppression
        Values that are blanked after the change.
    travel : Travel
        Columns outside the keys that go with a value to its new row.
    hidden : mapping of str to ndarray of int
        Columns outside the keys with values that are blanked, and the numbers of the records that lose theirs.
    exchanged : mapping of str to ndarray of int
        Columns outside the keys whose values some records exchanged: two rows of record numbers, who gets a value and whose it is.
    gone : ndarray of int
        Numbers of the records that the released file does not have.
    seed : int
        Seed of the draw that decides which of several equal records is meant, if the table does not know its records.
    counted : ContingencyTable or None
        Table of the released file if it was counted for itself.
    """

    before: ContingencyTable
    rows: Rows
    true: Cells
    released: Cells
    taken: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    blanks: Suppression = NOTHING_BLANK
    travel: Travel = NOTHING_TRAVELS
    hidden: Mapping[str, Rows] = field(default_factory=dict)
    exchanged: Mapping[str, Rows] = field(default_factory=dict)
    gone: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    seed: int = 0
    counted: ContingencyTable | None = None

    # ------------------------------------------------------------------ making one

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
        return cls(before, moved, original[moved], new[moved], gone=np.flatnonzero(is_gone), counted=after)

    @classmethod
    def unchanged(cls, table: ContingencyTable) -> Release:
        """The file released as it is."""
        nobody = np.zeros((0, table.n_keys), dtype=np.int32)
        return cls(table, np.zeros(0, dtype=np.int64), nobody, nobody, counted=table)

    def with_blanks(self, blanks: Suppression) -> Release:
        """The same release with these values blanked."""
        return replace(self, blanks=blanks)

    def with_travel(self, travel: Travel) -> Release:
        """The same release with these columns travelling."""
        return replace(self, travel=travel)

    def with_columns(self, exchanged: Mapping[str, Rows], hidden: Mapping[str, Rows]) -> Release:
        """The same release with these values of columns outside the keys exchanged, and then these blanked."""
        return replace(self, exchanged=exchanged, hidden=hidden)

    def part(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> Release:
        """The release in which only some of ``rows`` changed, given by position or mask.

        Rows that exchange values with each other must be chosen together; where each value comes from is not told.
        """
        some = self.moved.part(np.arange(len(self))[chosen])
        return replace(self, rows=some.row, true=some.true, released=some.released, taken={}, counted=None)

    def project(self, keys: Sequence[str], table: ContingencyTable | None = None) -> Release:
        """The release as somebody sees it who knows only some keys; ``table`` is the original's table of these keys, if at hand.

        ``rows`` are those with another value of one of the keys.
        """
        places = [self.before.keys.index(key) for key in keys]
        true, released = self.true[:, places], self.released[:, places]
        is_changed = (true != released).any(axis=1)
        true, released = (np.ascontiguousarray(cells[is_changed]) for cells in (true, released))
        fewer = self.before.project(list(keys)) if table is None else table
        return Release(fewer, self.rows[is_changed], true, released, gone=self.gone)

    def with_levels(self, categories: Sequence[Categories], place: Sequence[NDArray[np.int32]]) -> Release:
        """The same release with other levels; ``place`` gives, for each key, the new code of each level."""

        def moved(cells: Cells) -> Cells:
            return np.stack([of_key[cells[:, k]] for k, of_key in enumerate(place)], axis=1).astype(np.int32)

        before, after = (
            ContingencyTable.from_counts(moved(table.cells), table.counts, categories, record_cell=table.record_cell)
            for table in (self.before, self.after)
        )
        return replace(self, before=before, true=moved(self.true), released=moved(self.released), counted=after)

    # ------------------------------------------------------------------ what changed

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def after(self) -> ContingencyTable:
        """Table of the released file, before anything is blanked; it need not say which cell each record is in."""
        if self.counted is not None:
            return self.counted
        cells = np.concatenate([self.before.cells, self.released])
        counts = np.concatenate([self.before.counts - self.n_left, np.ones(len(self), dtype=np.int64)])
        table = ContingencyTable.from_counts(cells, counts, self.before.categories)
        return replace(table, coarsenings=self.before.coarsenings)

    def moves(self, key: str) -> NDArray[np.bool_]:
        """Which of ``rows`` get another value of ``key``."""
        k = self.before.keys.index(key)
        return np.asarray(self.true[:, k] != self.released[:, k])

    def taken_from(self, column: str) -> NDArray[np.int64]:
        """For each of ``rows``, which of them its value of a key or travelling column comes from; itself if the value stays."""
        if column in self.taken:
            return self.taken[column]
        own = np.arange(len(self.rows))
        of_column = own
        for key in next((carried.keys for carried in self.travel.carried if carried.column == column), ()):
            of_column = np.where(self.taken[key] != own, self.taken[key], of_column)
        return of_column

    @property
    def columns(self) -> tuple[str, ...]:
        """The keys, and the columns that travel."""
        return (*self.before.keys, *(carried.column for carried in self.travel.carried))

    @cached_property
    def n_values_changed(self) -> int:
        """Number of key values that differ between the two files, blanks not counted."""
        return int((self.true != self.released).sum())

    @property
    def n_uniques_changed(self) -> int:
        """Number of sample uniques of the original that took part in a change."""
        return int((self.before.counts[self._left[: len(self.rows)]] == 1).sum())

    # ------------------------------------------------------------------ blanks as levels

    @cached_property
    def categories(self) -> tuple[Categories, ...]:
        """The levels of each key in the released file; a blanked value is the missing level, which comes last."""
        return tuple(
            replace(c, levels=(*c.levels, None)) if c.key in self.blanks.blanked and not c.has_missing else c
            for c in self.before.categories
        )

    @cached_property
    def changed(self) -> Claims:
        """Records that took part in a change or lost a value, with the codes of :attr:`categories` after both."""
        if not len(self.blanks.rows):
            return self.moved
        rows = np.union1d(self.rows, self.blanks.rows)
        before = self.before.cells[self.before.cell_of(rows)]
        after = before.copy()
        after[np.searchsorted(rows, self.rows)] = self.released
        place = np.searchsorted(rows, self.blanks.rows)
        for key, of_key in self.blanks.blanked.items():
            k = self.before.keys.index(key)
            after[place[of_key], k] = self.categories[k].n_levels - 1
        return Claims(rows, before, after)

    def codes(self) -> Cells:
        """Key codes of every record of the released file in :attr:`categories`, −1 throughout for a record that is not in it."""
        table = self.before
        cell = table.cell_of_record
        codes = np.where(cell[:, None] >= 0, table.cells[cell], -1).astype(np.int32)
        codes[self.changed.row] = self.changed.released
        codes[self.gone] = -1
        return codes

    def codes_of(self, column: str, codes: NDArray[np.int32], moved: Rows) -> NDArray[np.int32]:
        """Codes of a column in the released file, given those in the original; blanks are not applied.

        ``moved`` gives the place in ``codes`` of each of ``rows``.
        """
        taken = self.taken_from(column)
        is_new = taken != np.arange(len(taken))
        after = codes.copy()
        after[moved[is_new]] = codes[moved[taken[is_new]]]
        return after

    # ------------------------------------------------------------------ who is alone afterwards

    @cached_property
    def moved(self) -> Claims:
        """Records that took part in a change, whether or not they are alone in their cell of the released file."""
        return Claims(self.rows, self.true, self.released)

    @cached_property
    def _left(self) -> NDArray[np.int64]:
        """Cell of the original that each of ``rows``, then each of ``gone``, left."""
        moved = self.before.marginals.positions(self.before.all_keys, self.true)
        return np.concatenate([moved, self.before.cell_of(self.gone)]) if len(self.gone) else np.asarray(moved)

    @cached_property
    def _entered(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each of ``rows``, the cell of the original it enters, and −1 with the number of rows alike if that was empty."""
        if not len(self.rows):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        cells, which, alike = np.unique(self.released, axis=0, return_inverse=True, return_counts=True)
        # The marginal of all keys is the table itself, in the same order.
        position = self.before.marginals.positions(self.before.all_keys, cells)
        return np.asarray(position[which.ravel()]), np.asarray(alike[which.ravel()])

    @cached_property
    def n_left(self) -> NDArray[np.int64]:
        """Number of records of each cell of the original that took part in a change or are gone."""
        return np.bincount(self._left, minlength=self.before.n_cells)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of records of the released file in each cell of the original."""
        n_entered = np.bincount(self.entered_cells, minlength=self.before.n_cells)
        return np.asarray(self.before.counts - self.n_left + n_entered)

    @property
    def entered_cells(self) -> NDArray[np.int64]:
        """Cells of the original that some of ``rows`` entered."""
        entered = self._entered[0]
        return entered[entered >= 0]

    @cached_property
    def n_released_alike(self) -> NDArray[np.int64]:
        """Number of records of the released file in the cell of each of ``rows``."""
        entered, alike = self._entered
        return np.where(entered >= 0, self.counts[entered], alike)

    @cached_property
    def moved_alone(self) -> NDArray[np.bool_]:
        """Which of ``rows`` are alone in their cell of the released file."""
        return np.asarray(self.n_released_alike == 1)

    @cached_property
    def moved_claims(self) -> Claims:
        """Those of ``rows`` that are alone in their cell of the released file."""
        return self.moved.part(np.flatnonzero(self.moved_alone))

    @cached_property
    def unmoved_cells(self) -> NDArray[np.int64]:
        """Cells of the original whose only record in the released file was not changed."""
        return np.flatnonzero((self.before.counts - self.n_left == 1) & (self.counts == 1))

    @cached_property
    def n_new_uniques(self) -> int:
        """Number of records that are alone in a cell which the original does not have."""
        entered, alike = self._entered
        return int(((entered < 0) & (alike == 1)).sum())

    def unmoved_rows(self) -> Rows:
        """The record of each of :attr:`unmoved_cells`."""
        row_of_cell = np.full(self.before.n_cells + 1, -1, dtype=np.int64)
        left = np.concatenate([self.rows, self.gone])
        if self.before.record_cell is None:
            # Records are numbered cell by cell. All but one of a cell left, so the sum of the numbers tells which one stayed.
            counts, first = self.before.counts, self.before.first_row
            row_of_cell[:-1] = counts * first + counts * (counts - 1) // 2
            np.subtract.at(row_of_cell, self._left, left)
        else:
            stays = np.ones(self.before.n_rows, dtype=bool)
            stays[left] = False
            rows = np.flatnonzero(stays)
            row_of_cell[self.before.record_cell[rows]] = rows
        return row_of_cell[self.unmoved_cells]

    def of_records(self, stayed: NDArray[np.float64], moved: NDArray[np.float64]) -> NDArray[np.float64]:
        """A number for each record of the file: that of its cell if it stayed, its own (one for each of ``rows``) if not."""
        # The extra last element is for dropped records, whose cell is −1.
        of_record = np.append(stayed, 0.0)[self.before.cell_of_record]
        of_record[self.rows] = moved
        return np.asarray(of_record, dtype=np.float64)
