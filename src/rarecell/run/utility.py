"""How true is the released file beside its keys: by how much did means of other columns move?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell.data.microdata import Microdata
from rarecell.data.whole_file import OrderedColumn, WholeFile
from rarecell.outcome.swap import FileUtility, MeanMoved
from rarecell.release.means import KeyInBothFiles, MeanChange, mean_changes
from rarecell.release.release import Release
from rarecell.run.results import Assessment
from rarecell.run.treating import NOTHING, Treated
from rarecell.table.contingency import ContingencyTable

FEWEST_VALUES = 12
"""A column of numbers with fewer values is taken for codes, whose mean says nothing."""


def is_measured(data: Microdata, column: OrderedColumn) -> bool:
    """Whether a column holds amounts, of which a mean makes sense: numbers without labels, and not a handful of codes."""
    if column.numbers is None or column.is_date or data.columns[column.name].value_labels:
        return False
    is_whole = bool((column.numbers == np.rint(column.numbers)).all())
    return column.n_levels >= FEWEST_VALUES or (not is_whole and column.n_levels > 2)


def measured_columns(data: Microdata, whole: WholeFile) -> list[str]:
    """Columns of amounts beside the keys; not weights, and not the names of records and households."""
    left_out = {*data.keys, data.id, data.weight, *data.household_columns}
    return [name for name, column in whole.columns.items() if name not in left_out and is_measured(data, column)]


def file_utility(
    found: Assessment, release: Release, *, limit: float | None = None, treated: Treated = NOTHING
) -> FileUtility | None:
    """By how much means of columns of amounts move by level of each key; None if the file has no such column."""
    data, table = found.data, release.before
    whole = data.whole_file(table)
    names = measured_columns(data, whole)
    if not names:
        return None
    place, moved = _places(data, whole, release)
    keys = [_in_both(release, k, whole, place, moved) for k in range(table.n_keys)]
    weights = None
    if data.weight is not None:
        weights = whole.columns[data.weight].values
    columns = {}
    for name in names:
        values = whole.columns[name].values
        # Of a sample it is not known what a treated value became, because treatments look at all records.
        if name in treated.dropped or name in treated.recodes or (name in treated.values and not whole.is_complete):
            continue
        after = values
        if whole.is_complete:
            is_treated = name in treated.values
            after = treated.after[name].values if is_treated else _travelled(values, name, release, place, moved)
        columns[name] = values, after
    changes = mean_changes(keys, columns, weights)
    return told(changes, table, len(columns), limit=limit, is_sample=not whole.is_complete) if columns else None


def _places(data: Microdata, whole: WholeFile, release: Release) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the records of a release stand among those looked at, and which of its rows these are."""
    rows = release.rows
    if whole.is_complete and release.before.record_cell is None:
        rows = data.source.rows_at(data.drawn_records(release.before, rows, seed=release.seed)[0])
    place = np.searchsorted(whole.rows, rows)
    here = np.flatnonzero((place < len(whole.rows)) & (whole.rows[np.minimum(place, len(whole.rows) - 1)] == rows))
    return place[here], here


def _in_both(release: Release, k: int, whole: WholeFile, place: NDArray[np.int64], moved: NDArray[np.int64]) -> KeyInBothFiles:
    table = release.before
    before = np.where(whole.cell >= 0, table.cells[whole.cell, k], -1).astype(np.int32)
    after = before
    if release.moves(table.keys[k]).any():
        after = before.copy()
        after[place] = release.released[moved, k]
    return KeyInBothFiles(table.keys[k], before, after, table.categories[k].n_levels)


def _travelled(
    values: NDArray[np.float64],
    name: str,
    release: Release,
    place: NDArray[np.int64],
    moved: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The values of a column after those that travel with a key have moved with it."""
    taken = release.taken_from(name)
    if np.array_equal(taken, np.arange(len(taken))):
        return values
    after = values.copy()
    after[place] = values[place[taken[moved]]]
    return after


def told(
    changes: tuple[MeanChange, ...], table: ContingencyTable, n_columns: int, *, limit: float | None, is_sample: bool
) -> FileUtility:
    """The changes in a form that can be stored."""
    of_key = {categories.key: categories for categories in table.categories}
    means = tuple(
        MeanMoved(
            column=one.column,
            key=one.key,
            level=of_key[one.key].labels[one.level],
            records=one.records,
            before=one.before,
            after=one.after,
            relative=one.relative,
            standardised=one.standardised,
            median_before=one.median_before,
            median_after=one.median_after,
        )
        for one in changes
    )
    if not changes:
        return FileUtility(columns=n_columns, largest=0.0, limit=limit, is_sample=is_sample)
    return FileUtility(
        columns=n_columns,
        largest=changes[0].size,
        column=changes[0].column,
        key=changes[0].key,
        means=means,
        limit=limit,
        is_sample=is_sample,
    )
