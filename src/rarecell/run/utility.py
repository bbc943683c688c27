"""What does a release cost its users: which means, analyses and weighted tables move, and which columns travel with a key?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.data.crossing import crossed_columns
from rarecell.data.microdata import Microdata
from rarecell.data.whole_file import OrderedColumn, WholeFile
from rarecell.engine.arrays import as_arrow
from rarecell.engine.source import weights_of
from rarecell.outcome.swap import (
    AnalysisSummary,
    FileUtility,
    MeanMoved,
    WeightedTable,
)
from rarecell.outcome.words import percent
from rarecell.release.analyses import MOST_RECORDS, Analysis, compare
from rarecell.release.means import KeyInBothFiles, MeanChange, mean_changes
from rarecell.release.raking import raked_weights
from rarecell.release.release import Release
from rarecell.release.travel import Travel, what_travels
from rarecell.release.utility import weighted_changes
from rarecell.run.beside_keys import NOTHING, Treated, with_values
from rarecell.run.config import ProtectConfig
from rarecell.run.results import Assessment
from rarecell.swap.plan import SwapPlan
from rarecell.table.columns import CodedColumn, CrossedColumn
from rarecell.table.contingency import Categories, ContingencyTable

if TYPE_CHECKING:
    from rarecell.edges import Columns


# ---------------------------------------------------------------------- means of other columns

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
    left_out = {*data.keys, *data.id_columns, data.weight, *data.household_columns}
    return [name for name, column in whole.columns.items() if name not in left_out and is_measured(data, column)]


def file_utility(
    assessment: Assessment, release: Release, *, limit: float | None = None, treated: Treated = NOTHING
) -> FileUtility | None:
    """By how much means of columns of amounts move by level of each key; None if the file has no such column."""
    data, table = assessment.data, release.before
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
        after = treated.after[name].values if name in treated.values else values
        if whole.is_complete:
            after = _travelled(after, name, release, place, moved)
        if name in release.exchanged:
            receivers, sources = _exchanged_places(release.exchanged[name], whole.rows)
            after = after.copy()
            after[receivers] = values[sources]
        if name in release.hidden:
            after = np.where(np.isin(whole.rows, release.hidden[name]), np.nan, after)
        columns[name] = values, after
    changes = mean_changes(keys, columns, weights)
    return utility_summary(changes, table, len(columns), limit=limit, is_sample=not whole.is_complete) if columns else None


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


def utility_summary(
    changes: tuple[MeanChange, ...], table: ContingencyTable, n_columns: int, *, limit: float | None, is_sample: bool
) -> FileUtility:
    """The changes in a form that can be stored."""
    of_key = {categories.key: categories for categories in table.categories}
    means = tuple(
        MeanMoved(
            column=change.column,
            key=change.key,
            level=of_key[change.key].shown[change.level],
            records=change.records,
            before=change.before,
            after=change.after,
            relative=change.relative,
            standardised=change.standardised,
            median_before=change.median_before,
            median_after=change.median_after,
            size=change.size,
        )
        for change in changes
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


# ---------------------------------------------------------------------- analyses of users


def compared_analyses(
    assessment: Assessment,
    release: Release,
    treated: Treated = NOTHING,
    *,
    most_records: int = MOST_RECORDS,
) -> tuple[AnalysisSummary, ...]:
    """Run every analysis on both files, on a random sample where there are more than ``most_records`` records.

    A column that is released in coarser levels has them in both files, as a recoded key has.
    """
    analyses = [Analysis.of(name, words) for name, words in assessment.config.analysis.items()]
    if not analyses:
        return ()
    names = list(dict.fromkeys(name for analysis in analyses for name in analysis.columns(list(assessment.data.columns))))
    data, weight = assessment.data, assessment.config.weight
    sample, n_records = None, data.n_records
    moved = _positions(assessment, release)
    if n_records > most_records:
        # From a large file, read only the sample and the records that exchange something with it.
        sample = np.sort(np.random.default_rng(assessment.config.seed).choice(n_records, most_records, replace=False))
        rows = np.union1d(sample, moved)
        codes, categories = data.column_codes(names, rows)
        after = codes_after(codes, names, release, np.searchsorted(rows, moved), rows)
        codes, after = (part[np.searchsorted(rows, sample)] for part in (codes, after))
    else:
        codes, categories = data.column_codes(names)
        after = codes_after(codes, names, release, moved, np.arange(n_records))
    weights = None if weight is None else weights_of(data.source, weight, sample)
    files = [{c.key: _values(c, part[:, k]) for k, c in enumerate(categories)} for part in (codes, after)]
    rows = np.arange(n_records) if sample is None else sample
    for name in names:
        if name in treated.recodes:
            files[0][name] = treated_values(treated, name, rows)
        if name in treated.after:
            files[1][name] = treated_values(treated, name, givers(release, name, moved, n_records)[rows])
    raked = treated.after.get(weight) if weight is not None else None
    weights_after = weights if raked is None else raked.values[rows]
    return tuple(
        analysis_of_both(analysis, names, files[0], files[1], weights, weights_after=weights_after) for analysis in analyses
    )


def givers(release: Release, name: str, moved: NDArray[np.int64], n_records: int) -> NDArray[np.int64]:
    """For every record of a file, the one that its value of a column comes from; ``moved`` gives the positions of the rows of the release."""
    giver = np.arange(n_records)
    if name in release.columns:
        giver[moved] = moved[release.taken_from(name)]
    return giver


def treated_values(treated: Treated, name: str, rows: NDArray[np.int64]) -> list[Any]:
    """The values of a treated column in some rows of the original: levels, numbers or words, None for a missing one."""
    column = treated.after[name]
    if name in treated.recodes:
        return np.array([*treated.recodes[name].levels, None], dtype=object)[column.codes[rows]].tolist()  # type: ignore[no-any-return]
    if column.numbers is None or column.is_date:
        return [None if value == "" else value for value in treated.values[name].take(as_arrow(rows)).to_pylist()]
    is_whole = bool((column.numbers == np.rint(column.numbers)).all())
    values = column.values[rows].tolist()
    return [None if np.isnan(value) else int(value) if is_whole else value for value in values]


def analysis_of_both(
    analysis: Analysis,
    names: Sequence[str],
    before: Columns,
    after: Columns,
    weights: NDArray[np.float64] | None,
    *,
    weights_after: NDArray[np.float64] | None = None,
) -> AnalysisSummary:
    """One analysis on two files, given as columns of values; ``names`` are the columns that it may name."""
    used = analysis.columns(names)
    of_before, of_after = ({name: columns[name] for name in used} for columns in (before, after))
    terms = compare(analysis, of_before, of_after, weights, weights_after=weights_after)
    return AnalysisSummary(
        name=analysis.name,
        kind=analysis.kind if analysis.kind != "regression" else f"{analysis.family} regression",
        formula=analysis.formula,
        weighted=weights is not None,
        records=len(next(iter(before.values()))),
        terms=terms,
    )


def _positions(assessment: Assessment, release: Release) -> NDArray[np.int64]:
    """The positions in the file of the rows of a release."""
    if release.before.record_cell is not None:
        return release.rows
    return assessment.data.source.rows_at(assessment.data.drawn_records(release.before, release.rows, seed=release.seed)[0])


def _exchanged_places(pairs: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the records of exchanges stand among some rows, in ascending order; those with a record that is not there are left out."""
    place = np.minimum(np.searchsorted(rows, pairs), len(rows) - 1)
    return np.asarray(place[:, (rows[place] == pairs).all(axis=0)])


def codes_after(
    codes: NDArray[np.int32], names: list[str], release: Release, moved: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Codes of columns in the released file, −1 for a blanked value.

    ``moved`` gives the row of ``codes`` for each row of the release, ``rows`` the position in the file of each row of ``codes``.
    """
    after = np.stack([release.codes_of(name, codes[:, k], moved) for k, name in enumerate(names)], axis=1)
    for name, of_key in release.blanks.blanked.items():
        if name in names:
            after[np.isin(rows, release.blanks.rows[of_key]), names.index(name)] = -1
    for name, pairs in release.exchanged.items():
        if name in names:
            receivers, sources = _exchanged_places(pairs, rows)
            after[receivers, names.index(name)] = codes[sources, names.index(name)]
    for name, hidden in release.hidden.items():
        if name in names:
            after[np.isin(rows, hidden), names.index(name)] = -1
    return after


def _values(categories: Categories, codes: NDArray[np.int32]) -> list[object]:
    return list(np.array([*categories.levels, None], dtype=object)[codes])


# ---------------------------------------------------------------------- columns that travel, and weighted tables


def travelling(request: ProtectConfig, assessment: Assessment, release: Release, columns: Columns) -> Travel:
    """Find the columns outside the keys that travel with the swapped keys, by request or because they depend on them."""
    own, keys = np.arange(len(release)), release.before.keys
    moves = {key: release.taken_from(key) != own for key in keys}
    moves = {key: moved for key, moved in moves.items() if moved.any()}
    carry = [*request.carry]
    if request.swap_rate is not None:
        carry += [area for area in assessment.data.areas if area not in keys and area not in carry]
    in_kept_tables = {name for names in request.keep for name in names}
    joint = {name: joint_counts(release.before, moves, column) for name, column in columns.items() if name not in carry}
    areas = assessment.data.areas
    if carry and not any(area in moves for area in areas):
        joint |= _beside_every_key(assessment.data, release, carry)
    return what_travels(joint, moves, carry=carry, areas=areas, stays=sorted(in_kept_tables - set(carry)))


MOST_VALUES_CARRIED = 10_000
"""A column of more values, of which each record has nearly one of its own, goes with no key more than with others."""

_LARGEST_JOINT = 20_000_000
"""Number of pairs of a key's level and a column's value up to which they are counted."""


def _beside_every_key(data: Microdata, release: Release, names: Sequence[str]) -> dict[str, dict[str, NDArray[np.int64]]]:
    """The counts of named columns with each key, whether it was swapped or not."""
    table = release.before
    columns: Mapping[str, CodedColumn | CrossedColumn]
    if table.record_cell is None:
        columns = crossed_columns(
            data, table, table.keys, names, release.rows, seed=release.seed, most_values=MOST_VALUES_CARRIED
        )
    else:
        codes, categories = data.column_codes(names)
        columns = {
            c.key: CodedColumn(codes[:, k], c.levels) for k, c in enumerate(categories) if c.n_levels <= MOST_VALUES_CARRIED
        }
    return {
        name: joint_counts(table, [c.key for c in table.categories if c.n_levels * len(column.levels) <= _LARGEST_JOINT], column)
        for name, column in columns.items()
    }


def joint_counts(
    table: ContingencyTable, keys: Iterable[str], column: CodedColumn | CrossedColumn
) -> dict[str, NDArray[np.int64]]:
    """Count the records for each pair of a key's level and a column's value."""
    if isinstance(column, CrossedColumn):
        return {key: np.asarray(column.joint[key]) for key in keys if key in column.joint}
    cell = table.cell_of_record
    held = cell >= 0
    joint = {}
    for key in keys:
        k = table.keys.index(key)
        shape = (table.categories[k].n_levels, len(column.levels))
        pair = table.cells[cell[held], k].astype(np.int64) * shape[1] + column.codes[held]
        joint[key] = np.bincount(pair, minlength=shape[0] * shape[1]).reshape(shape)
    return joint


def with_raked_weights(assessment: Assessment, release: Release, treated: Treated, *, seed: int) -> Treated:
    """The treated columns with survey weights that were recomputed after the swaps."""
    weights, name = assessment.data.record_weights(), assessment.data.weight
    assert weights is not None
    assert name is not None
    new = raked_weights(release, weights, seed=seed)
    by = f", drawn among records alike in {', '.join(new.keys)}" if new.keys else ""
    totals = f"weighted totals of {', '.join(new.keys)}" if new.keys else "weighted total"
    reached = "" if new.difference <= 1e-6 else f"; totals differ by up to {percent(new.difference)}"
    return with_values(
        assessment.data,
        treated,
        name,
        pa.array(new.weights),
        f"weights of moved records{by}, all raked to the {totals} of the original{reached}",
    )


def weighted_tables(assessment: Assessment, plan: SwapPlan, treated: Treated = NOTHING) -> tuple[WeightedTable, ...]:
    """Weighted totals of every key and of the kept tables of keys."""
    table = plan.table
    if assessment.config.weight is None or table.weights is None or table.record_cell is None:
        return ()
    weights = assessment.data.record_weights()
    assert weights is not None
    margins: list[tuple[str, ...]] = [(key,) for key in table.keys]
    margins += [check for mask in dict.fromkeys(plan.interactions.kept) if len(check := _keys_in(plan, mask)) > 1]
    raked = treated.after.get(assessment.config.weight)
    everyone = None if raked is None else (weights, raked.values)
    return tuple(weighted_changes(plan.release, weights[plan.rows], list(dict.fromkeys(margins)), everyone=everyone))


def _keys_in(plan: SwapPlan, mask: int) -> tuple[str, ...]:
    """The keys of a kept table; empty if it holds a coarsening without its key, or another column."""
    names = plan.interactions.names_of(mask)
    keys = tuple(name for name in names if name in plan.table.keys)
    of_coarser = {c.name: c.key for c in plan.table.coarsenings}
    return keys if all(name in keys or of_coarser.get(name) in keys for name in names) else ()
