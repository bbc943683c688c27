"""Are the values exchanged, and nothing else?

The plan says which row gets which key values from which other row. A key that was assessed in bands or groups is written in
these bands or groups: the output holds what was assessed, and no more detail. Every kept margin is compared cell by cell between
input and output, and the keys of the output are counted again. A difference is a defect of the program; then nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.data.levels import MISSING_WORDS
from rarecell.data.microdata import Microdata
from rarecell.data.missing_codes import joined_codes
from rarecell.data.written import coding_of_output
from rarecell.engine import open_source
from rarecell.engine.arrays import as_arrow
from rarecell.engine.changes import Blanks, Changes
from rarecell.errors import BadInput
from rarecell.graph.masks import members
from rarecell.machine.disk import remove
from rarecell.outcome.plain import Shown

if TYPE_CHECKING:
    from rarecell.data.microdata import Microdata
    from rarecell.edges import Frame, Places
    from rarecell.release.release import Release
    from rarecell.swap.interactions import Interactions
    from rarecell.swap.plan import SwapPlan
    from rarecell.swap.units import Units
    from rarecell.table.contingency import Categories, ContingencyTable


class Exchange:
    """Values that change places so that some margins stay: a plan of swaps, or a formal release."""

    interactions: Interactions
    units: Units

    if TYPE_CHECKING:

        @property
        def release(self) -> Release:
            """What it does to the records."""

    @property
    def table(self) -> ContingencyTable:
        """The table of the file before the exchange."""
        return self.release.before

    @property
    def rows(self) -> NDArray[np.int64]:
        """Every row that takes part."""
        return self.release.rows

    @property
    def new_cells(self) -> NDArray[np.int32]:
        """Key codes of ``rows`` afterwards."""
        return self.release.released

    @property
    def table_after(self) -> ContingencyTable:
        """The contingency table of the file afterwards; it does not say which cell each record is in."""
        return self.release.after

    @property
    def n_values_changed(self) -> int:
        """Number of key values that differ between input and output."""
        return self.release.n_values_changed

    def moves(self, key: str) -> NDArray[np.bool_]:
        """Return which of ``rows`` get a new value of ``key``."""
        return self.release.moves(key)

    def to_frame(self, like: Frame = None, *, places: Places = None) -> Frame:
        """Return what was exchanged, in the dataframe library of ``like``."""
        raise NotImplementedError


NO_CHANGES = Changes()


class MarginsDiffer(RuntimeError):
    """A kept margin changed: a defect of the program, not of the data."""


@dataclass(frozen=True)
class MarginCheck:
    """A kept margin, counted in input and output."""

    variables: tuple[str, ...]
    n_cells: int
    n_differing: int

    @property
    def is_identical(self) -> bool:
        return self.n_differing == 0


@dataclass(frozen=True, eq=False)
class SwapResult(Shown):
    """A protected file.

    Attributes
    ----------
    plan : Exchange
        The exchange that was made.
    frame : dataframe
        The data after the exchange, in the type they came in; None if they were written to ``path``.
    margins : tuple of MarginCheck
        Every kept margin, compared cell by cell.
    places : array_like
        Where the rows of the plan are in the data: their row numbers, or their ids on Spark.
    path : Path or None
        The file that was written, if any.
    """

    plan: Exchange
    frame: Frame
    margins: tuple[MarginCheck, ...]
    places: Places = None
    path: Path | None = None

    @property
    def audit(self) -> Frame:
        """A frame like ``frame`` with one row per swap: record, partner, variables, distance and risk before."""
        return self.plan.to_frame(like=self.frame, places=self.places)

    @property
    def margins_identical(self) -> bool:
        return all(check.is_identical for check in self.margins)

    def __str__(self) -> str:
        return f"{self.plan} All {len(self.margins):,} kept margins are identical in input and output."


def apply_plan(plan: Exchange, data: Microdata, *, release: Release | None = None, others: Changes = NO_CHANGES) -> SwapResult:
    """Exchange the values; all other columns, the types and the row order stay. A Spark frame stays on its machines.

    The keys of the new frame are then coded and counted again, as those of the old one were. ``release`` is that of the plan
    with the columns that travel and the values that go missing, if there are any; ``others`` is what is done to columns that are
    no keys.
    """
    margins, release = checked_margins(plan), plan.release if release is None else release
    _expect_records(release, data)
    changes = changes_of(release, data, others)
    frame = data.changed(changes)
    _check_recount(release, data, frame)
    return SwapResult(plan, frame, margins, changes.places[: len(release)])


def write_plan(
    plan: Exchange,
    data: Microdata,
    path: str | Path,
    *,
    release: Release | None = None,
    others: Changes = NO_CHANGES,
) -> SwapResult:
    """Write the data after the exchange to a file in the format they came in, or to a folder of Parquet files for Spark.

    ``release`` and ``others`` are as for :func:`apply_plan`. The file is read again and its keys are counted; one that is not as planned is
    removed.
    """
    margins, release = checked_margins(plan), plan.release if release is None else release
    _expect_records(release, data)
    changes = changes_of(release, data, others)
    try:
        written = data.write(path, changes)
        _check_recount(release, data, data.read_back(written))
    except RuntimeError:
        # What looks like a defect may be an input that was replaced by another one of the same size and time.
        remove(Path(path))
        data.source.unchanged_hash()
        raise
    return SwapResult(plan, None, margins, changes.places[: len(release)], written)


def _expect_records(release: Release, data: Microdata) -> None:
    table = release.before
    if table.record_cell is not None:
        if table.n_rows != data.n_records:
            raise BadInput(f"The plan is for {table.n_rows:,} records; {data.source.name} has {data.n_records:,}.")
        return
    own = data.table()
    if not (np.array_equal(own.cells, table.cells) and np.array_equal(own.counts, table.counts)):
        raise BadInput(
            f"The plan was made for a table with other cells or counts than {data.source.name} has, so its records mean nothing there. "
            "Make the plan with the table of these data."
        )


def _check_recount(release: Release, data: Microdata, output: Frame) -> None:
    """Read the keys of the output as those of the input were read, and compare the table with the planned one."""
    if len(release.blanks.rows):
        _check_records(release, data, output)
        return
    counted = Microdata(
        output,
        data.keys,
        missing=data.missing,
        coding=coding_of_output(data.source, data.coding, data.recodes),
        missing_codes=joined_codes(data.source.missing_codes) or None,
        settings=data.source.settings_of_output,
    )
    again = counted.table(records=release.before.record_cell is not None and counted.source.keeps_rows)
    planned = release.after
    names_same = [c.labels for c in again.categories] == [_labels_read_back(data, c) for c in planned.categories]
    if not (names_same and np.array_equal(again.cells, planned.cells) and np.array_equal(again.counts, planned.counts)):
        raise MarginsDiffer("Internal error: the keys of the output are not those of the plan. Nothing was written.")


def _check_records(release: Release, data: Microdata, output: Frame) -> None:
    """Compare the keys of each record with those planned; what is blanked must be missing."""
    source = open_source(output, settings=data.source.settings_of_output).numbered(data.id_column)
    counted = Microdata(
        source,
        data.keys,
        coding=coding_of_output(data.source, data.coding, data.recodes),
        missing_codes=joined_codes(data.source.missing_codes) or None,
    )
    again, codes = counted.table(records=True), release.codes()
    kept = np.flatnonzero((codes >= 0).all(axis=1))
    for k, categories in enumerate(release.categories):
        planned = codes[:, k]
        if categories.has_missing:
            planned[planned == categories.n_levels - 1] = -1
        place = {label: code for code, label in enumerate(_labels_read_back(data, categories))}
        own = again.categories[k]
        code_of = np.array([place.get(label, -2) for label in own.labels], dtype=np.int32)
        if own.has_missing:
            code_of[-1] = -1
        if not np.array_equal(code_of[again.cells[again.cell_of_record, k]][kept], planned[kept]):
            raise MarginsDiffer("Internal error: the keys of the output are not those of the plan. Nothing was written.")


def _labels_read_back(data: Microdata, categories: Categories) -> tuple[str, ...]:
    written = data.recodes.get(categories.key)
    if written is None:
        return categories.labels
    labels = tuple(str(level) for level in data.source.levels_read_back(categories.key, written))
    return (*labels, *categories.labels[len(labels) :])


def changes_of(release: Release, data: Microdata, others: Changes) -> Changes:
    """Return what is written differently: where the changed rows are, the new values of keys and travelling columns, blanks, and ``others``.

    A row that keeps its value of a key gets that value again. A treated column that travels does so with its new values.
    """
    taken, rows = {name: release.taken_from(name) for name in release.columns}, release.rows
    if release.exchanged:
        further = np.setdiff1d(np.concatenate([pairs.ravel() for pairs in release.exchanged.values()]), rows)
        rows = np.concatenate([rows, further])
        taken = {name: np.append(of_column, np.arange(len(of_column), len(rows))) for name, of_column in taken.items()}
        order = np.argsort(rows)
        for name, (receivers, sources) in release.exchanged.items():
            taken[name] = np.arange(len(rows))
            taken[name][order[np.searchsorted(rows[order], receivers)]] = order[np.searchsorted(rows[order], sources)]
    own = np.arange(len(rows))
    names = [name for name in taken if (taken[name] != own).any()]
    if release.before.record_cell is None:
        places, old = data.drawn_records(release.before, rows, seed=release.seed, columns=names)
    else:
        places, old = data.source.places(rows), data.values_at(rows, names) if names else {}
    values = {name: old[name].take(as_arrow(taken[name])) for name in names if name not in others.treated}
    treated = dict(others.treated)
    for name in names:
        if name in treated:
            giver = np.arange(data.n_records)
            giver[places] = np.asarray(places)[taken[name]]
            treated[name] = treated[name].take(as_arrow(giver))
    blanks = {}
    for key, is_blank in release.blanks.blanked.items():
        levels = {str(level) for level in release.before.categories[release.before.keys.index(key)].levels}
        blanks[key] = Blanks(release.blanks.rows[is_blank], tuple(sorted(MISSING_WORDS - levels)))
    for name, rows in release.hidden.items():
        levels = {str(level) for level in data.column_codes([name])[1][0].levels}
        blanks[name] = Blanks(rows, tuple(sorted(MISSING_WORDS - levels)))
    return replace(others, places=places, values=values, blanks=blanks, treated=treated)


# ---------------------------------------------------------------------- margins


def checked_margins(plan: Exchange) -> tuple[MarginCheck, ...]:
    """Run :func:`compare_margins` and raise an error if a margin differs."""
    checks = compare_margins(plan)
    for check in checks:
        if not check.is_identical:
            raise MarginsDiffer(
                f"Internal error: the swaps would change {check.n_differing:,} cells of the margin of "
                f"{', '.join(check.variables)}, which is to be kept. Nothing was written."
            )
    return checks


def compare_margins(plan: Exchange) -> tuple[MarginCheck, ...]:
    """Compare every kept margin of input and output cell by cell, counted from the units and the rows that change."""
    units, of_rows = plan.units, plan.units.unit_of(plan.rows)
    stayed = units.counts - np.bincount(of_rows, minlength=units.n_units)
    counts = np.concatenate([units.counts, np.zeros(len(of_rows), dtype=np.int64)])
    counts_after = np.concatenate([stayed, np.ones(len(of_rows), dtype=np.int64)])
    checks = []
    for kept in dict.fromkeys(plan.interactions.kept):
        names = plan.interactions.names_of(kept)
        columns = [plan.interactions.names.index(name) for name in names]
        codes = [np.concatenate([units.codes[:, c], _new_codes(plan, of_rows, c)]) for c in columns]
        checks.append(MarginCheck(names, *_compared(codes, [units.column_levels[c] for c in columns], counts, counts_after)))
    return tuple(checks)


def _new_codes(plan: Exchange, of_rows: NDArray[np.int64], column: int) -> NDArray[np.int32]:
    """Codes of the changed rows in the output: new ones for keys and their coarsenings, unchanged ones for other columns."""
    if column < plan.table.n_vertices:
        return plan.table.map_cells(plan.new_cells, column)
    return np.asarray(plan.units.codes[of_rows, column])


def _compared(
    codes: Sequence[NDArray[np.int32]], sizes: Sequence[int], before: NDArray[np.int64], after: NDArray[np.int64]
) -> tuple[int, int]:
    """Number of occupied cells of a margin, and number of cells whose counts differ between the two files."""
    if not codes:
        return 1, int(before.sum() != after.sum())
    _, numbers, cell = collapse_records(codes, sizes)
    difference = np.zeros(len(numbers), dtype=np.int64)
    np.add.at(difference, cell, after - before)
    return len(numbers), int((difference != 0).sum())


def moved_keys(plan: SwapPlan) -> dict[str, int]:
    """Count the values of each key that change."""
    return {key: int(plan.moves(key).sum()) for key in (plan.table.keys[k] for k in members(plan.interactions.keys))}
