"""By how much do columns beside the keys raise what an intruder finds?

Columns that the user named are a claim of the run: an intruder like the others, who enters the verdict. Of the rest, each one is
tried quickly, then the worst three together, and the report warns. Links are counted in the register where it has the columns;
otherwise a model of the table of keys and columns says how many people there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rarecell.data.crossing import wider_table
from rarecell.data.microdata import Microdata
from rarecell.engine import open_source
from rarecell.engine.duck import EngineSettings
from rarecell.errors import BadInput
from rarecell.intruder.also_known import links_beyond, tried_beyond, widened
from rarecell.intruder.register import Register
from rarecell.intruder.trial import IntruderTrial
from rarecell.machine.memory import MemoryLimit
from rarecell.outcome.swap import IntruderSummary, KnownBeyond, SwapSummary
from rarecell.outcome.words import listed
from rarecell.release.release import Release
from rarecell.risk.register import register_counts
from rarecell.run import models
from rarecell.run.beside_keys import Treated
from rarecell.run.config import RunConfig
from rarecell.run.results import Assessment
from rarecell.table.alignment import places
from rarecell.table.columns import CodedColumn, CrossedColumn
from rarecell.table.contingency import Categories, ContingencyTable
from rarecell.table.distance import Distances

if TYPE_CHECKING:
    from rarecell.edges import Columns, Frame

MOST_LEVELS_TRIED = 60
"""A column with more values than this is tried only if it is named: amounts and codes of places are seldom known exactly."""

MOST_TRIED = 10
"""Number of columns that are tried unasked: those by which most records are alone."""

MOST_CELLS = 300_000
"""In a larger table nothing is tried unasked, because each column takes a model of its own."""

N_DRAWS = 2
"""Number of draws of the parameters of the model of a column that is only tried."""

TOGETHER = 3
"""Number of the worst columns that are tried together."""

NAME = "also-known"
"""The intruder who knows the columns that the user named."""


@dataclass(frozen=True, eq=False)
class Beside:
    """A file and its release, with the columns beside the keys.

    Attributes
    ----------
    data : Microdata
        The original.
    release : Release
        What was done to the keys.
    columns : mapping of str to CodedColumn or CrossedColumn
        Columns beside the keys that are released: of every record, or of the rows of ``release`` alone.
    config : RunConfig
        The run.
    register : path or frame, optional
        The register, if there is one.
    changed : frozenset of str
        Columns whose values are not what they were: they travel with a key, or were treated.
    names : tuple of str
        Columns that the user named as known.
    """

    data: Microdata
    release: Release
    columns: Mapping[str, CodedColumn | CrossedColumn]
    config: RunConfig
    register: Frame = None
    changed: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()

    @property
    def settings(self) -> EngineSettings:
        return EngineSettings(memory=MemoryLimit.of(self.config.memory))

    def table(self, names: Sequence[str]) -> ContingencyTable:
        """The table of the original in the keys and these columns."""
        of_keys = self.release.before
        if of_keys.record_cell is None:
            wide = wider_table(self.data, names, records=False)
            # Whether numbers are ordered was decided by the keys alone; further columns are equal or not.
            order = {c.key: c.is_ordered for c in of_keys.categories}
            return replace(wide, categories=tuple(replace(c, is_ordered=order.get(c.key, False)) for c in wide.categories))
        cell = of_keys.cell_of_record
        codes = [np.where(cell[:, None] >= 0, of_keys.cells[cell], -1)]
        categories = list(of_keys.categories)
        for name in names:
            column = self.columns[name]
            codes.append(np.asarray(column.codes)[:, None])  # type: ignore[union-attr]
            categories.append(Categories(name, tuple(column.levels)))
        weights = self.data.record_weights() if of_keys.weights is not None else None
        return ContingencyTable.from_codes(np.concatenate(codes, axis=1).astype(np.int32), categories, weights=weights)

    def widened(self, wide: ContingencyTable, names: Sequence[str]) -> Release:
        """The release in that table."""
        before, after = [], []
        for name in names:
            column = self.columns[name]
            if isinstance(column, CrossedColumn):
                of_levels = wide.categories[wide.keys.index(name)].levels
                codes = places(tuple(column.levels), of_levels)[column.of_rows]
            else:
                codes = column.codes[self.release.rows]
            before.append(codes)
            after.append(codes[self.release.taken_from(name)] if name in self._travelling else codes)
        return widened(self.release, wide, np.stack(before, axis=1), np.stack(after, axis=1))

    @property
    def _travelling(self) -> frozenset[str]:
        return frozenset(carried.column for carried in self.release.travel.carried)

    def people(self, wide: ContingencyTable, names: Sequence[str], *, n_draws: int) -> Register:
        """Everybody by keys and columns: counted in the register if it has the columns, or as far as a model knows."""
        if self.is_counted(names):
            counts = register_counts(self.data.wider(list(names)), self.register, table=wide, settings=self.settings)
            return Register.counted(counts.people, counts.place)
        weighed = models.with_design_weights(self.data, wide, self.config)
        table = models.with_resolutions(weighed.with_coarsenings(()), self.config.resolution)
        model = models.quick_model(table, self.config, n_orders=1)
        return Register.modelled(models.risk_of(table, model, self.config), model, n_draws=n_draws, seed=self.config.seed + 1)

    def is_counted(self, names: Sequence[str]) -> bool:
        """Whether the register has these columns."""
        if self.register is None:
            return False
        there = {column.name for column in open_source(self.register, settings=self.settings).columns()}
        return there.issuperset(names)


def known_by_name(
    beside: Beside, nearest: IntruderSummary, distances: Distances | None = None
) -> tuple[KnownBeyond, IntruderSummary] | None:
    """What somebody finds who holds all columns that the user named; None if none were."""
    names = beside.names
    lacking = [name for name in names if name not in beside.columns]
    if lacking:
        raise BadInput(
            f"'{lacking[0]}' has one value only, or so many that hardly two records share one, so it cannot be compared like a key. Leave "
            "it out of --also-known."
        )
    if not names:
        return None
    wide = beside.table(names)
    release, register = beside.widened(wide, names), beside.people(wide, names, n_draws=8)
    return claim_by_columns(release, register, names, nearest, distances=distances, changed=beside.changed)


def claim_by_columns(
    release: Release,
    register: Register,
    names: Sequence[str],
    nearest: IntruderSummary,
    *,
    distances: Distances | None = None,
    changed: frozenset[str] = frozenset(),
) -> tuple[KnownBeyond, IntruderSummary]:
    """What somebody finds who holds these columns, with every distance of the family."""
    after = links_beyond(release, register, names, distances=distances, changed=changed)
    before = links_beyond(Release.unchanged(release.before), register, names)
    claim = KnownBeyond(
        columns=tuple(names),
        before=before.total,
        after=max(after.total, nearest.after),
        nearest=nearest.after,
        swapped=after.of_moved,
        named=True,
        counted=register.is_real,
    )
    trial = IntruderTrial(NAME, before, after)
    return claim, replace(trial.summary(), knows=f"{trial.knows} {listed([repr(name) for name in names])}")


def trials_unasked(beside: Beside, nearest: IntruderSummary, distances: Distances | None = None) -> tuple[KnownBeyond, ...]:
    """What each further column adds, the worst first, and the worst three together; columns that were named are left out."""
    if beside.release.before.n_cells > MOST_CELLS:
        return ()
    config = beside.config
    names = [
        name
        for name, column in beside.columns.items()
        if name not in (*beside.names, *config.sensitive) and 1 < len(column.levels) <= MOST_LEVELS_TRIED
    ]

    def tried(columns: tuple[str, ...], wide: ContingencyTable) -> KnownBeyond:
        register = beside.people(wide, columns, n_draws=N_DRAWS)
        release = beside.widened(wide, columns)
        return trial_of_columns(
            release, register, columns, nearest, distances=distances, changed=beside.changed, seed=config.seed
        )

    return worst_columns(names, beside.table, tried)


def worst_columns(
    names: Sequence[str],
    table_of: Callable[[Sequence[str]], ContingencyTable],
    tried: Callable[[tuple[str, ...], ContingencyTable], KnownBeyond],
) -> tuple[KnownBeyond, ...]:
    """Try columns one by one, then the worst together; ``table_of`` gives the table of the keys and some columns."""
    tables = {(name,): table_of([name]) for name in names}
    # Whoever is alone with a value can be found by it; columns that single out few records add little.
    alone = {columns: int((table.counts == 1).sum()) for columns, table in tables.items()}
    chosen = sorted(tables, key=lambda columns: -alone[columns])[:MOST_TRIED]
    worst = sorted((tried(columns, tables[columns]) for columns in chosen), key=lambda trial: -trial.after)
    if len(worst) > 1:
        together = tuple(name for trial in worst[:TOGETHER] for name in trial.columns)
        worst.append(tried(together, table_of(together)))
    return tuple(worst)


def trial_of_columns(
    release: Release,
    register: Register,
    columns: tuple[str, ...],
    nearest: IntruderSummary,
    *,
    distances: Distances | None = None,
    changed: frozenset[str] = frozenset(),
    seed: int = 0,
) -> KnownBeyond:
    """What some columns add to what the keys alone find, tried quickly."""
    trial = tried_beyond(release, register, columns, distance=nearest.distance, distances=distances, changed=changed, seed=seed)
    return KnownBeyond(
        columns=columns,
        before=trial.before,
        # Whoever knows more can leave it aside.
        after=max(trial.after, nearest.after),
        nearest=nearest.after,
        of_alone=trial.of_alone,
        swapped=trial.of_moved,
        counted=register.is_real,
    )


def _observed(column: CodedColumn | CrossedColumn, of_keys: ContingencyTable) -> CodedColumn | CrossedColumn:
    """The column with the values of the records in the table: one that occurs only where a key is missing is no level if those are dropped.

    An engine that counts the table never sees such a value, and the number of levels enters the model.
    """
    if isinstance(column, CrossedColumn) or of_keys.record_cell is None:
        return column
    codes = np.asarray(column.codes)
    is_observed = np.zeros(len(column.levels), dtype=bool)
    is_observed[codes[of_keys.cell_of_record >= 0]] = True
    if is_observed.all():
        return column
    # Dropped records have no cell, so any code will do for them.
    new_code = np.maximum(np.cumsum(is_observed, dtype=np.int32) - 1, 0)
    return CodedColumn(new_code[codes], tuple(level for level, kept in zip(column.levels, is_observed, strict=True) if kept))


def with_beyond(
    swap: SwapSummary,
    assessment: Assessment,
    release: Release,
    columns: Columns,
    treated: Treated,
    distances: Distances | None = None,
) -> SwapSummary:
    """Add to the summary of a release what an intruder finds who knows more than the keys."""
    nearest = swap.intruder("nearest")
    if nearest is None:
        return swap
    travelling = {carried.column for carried in release.travel.carried}
    released = {name: _observed(column, release.before) for name, column in columns.items() if name not in treated.dropped}
    beside = Beside(
        assessment.data,
        release,
        {name: column for name, column in released.items() if len(column.levels) > 1},
        assessment.config,
        assessment.roles.people,
        frozenset({*travelling, *treated.values, *treated.recodes, *release.hidden, *release.exchanged}),
        () if assessment.config.protect is None else assessment.config.protect.also_known,
    )
    named = known_by_name(beside, nearest, distances)
    tried = trials_unasked(beside, nearest, distances)
    if named is None:
        return replace(swap, beyond=tried)
    claim, intruder = named
    return replace(swap, beyond=(claim, *tried), intruders=(*swap.intruders, intruder))
