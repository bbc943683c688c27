"""What does a synthetic twin of a file look like, and what does it give away?

A twin is drawn from all files that have the clique tables of this one (:mod:`rarecell.swap.twin`). It is not private by being
synthetic: what it says about the people it was made from is measured, on a twin of four fifths of the records, with the rest as
people who were left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rarecell.data.coding import Coding
from rarecell.data.microdata import Microdata
from rarecell.engine.changes import Changes
from rarecell.errors import BadInput, UnknownChoice, UnknownColumns
from rarecell.intruder.unpaired import UnpairedFiles
from rarecell.model.decomposable import DecomposableModel
from rarecell.outcome.showing import in_library_of
from rarecell.outcome.synthesis import (
    LEVELS,
    RESAMPLED,
    SMOOTHED,
    KeptTable,
    SynthesisSummary,
    TwinColumn,
    TwinUtility,
)
from rarecell.outcome.unpaired import UnpairedMeasures
from rarecell.outcome.words import counted, listed
from rarecell.progress import SILENT, Progress
from rarecell.release.utility import hellinger_distances, propensity
from rarecell.report.synthesis import synthesis_page
from rarecell.run.attack import BANDS, MANY_VALUES, measured
from rarecell.run.folder import RunRecord, open_run_folder, versions
from rarecell.run.publishing import RECORD
from rarecell.search import SearchResult, select_model
from rarecell.swap.twin import Twin, k_marginal_score, smoothed_amounts, synthetic_twin
from rarecell.table.coarsening import automatic_coarsenings
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    import pyarrow as pa

    from rarecell.edges import Frame, Json

AMOUNTS = (RESAMPLED, SMOOTHED)
CONTROL = 0.2
"""Share of the records that are left out of the twin on which attacks are tried."""
MOST_CONTROL = 5_000
_SEARCH_SECONDS = 45.0

_UNIFORM = (
    "Drawn uniformly from all files with the same tables, values of single columns included. Nothing more is guaranteed: what these "
    "tables reveal, the twin reveals."
)
_WITH_EPSILON = (
    "Drawn with ε = {:g} for each person, subject to the tables above, the values of single columns and the model itself, which are the "
    "same for every file that the guarantee compares. ε says nothing about what these reveal, and is not comparable with ordinary "
    "differential privacy."
)


@dataclass(frozen=True, eq=False)
class Synthesis:
    """Synthetic twins of a file, with their summary.

    Attributes
    ----------
    data : Microdata
        The original.
    twins : tuple of Twin
        The draws, each with its own random numbers.
    summary : SynthesisSummary
        What they keep and give away.
    """

    data: Microdata
    twins: tuple[Twin, ...]
    summary: SynthesisSummary
    _seed: int | None

    def columns(self, number: int = 0) -> dict[str, pa.Array]:
        """The values of a twin, column by column."""
        twin = self.twins[number]
        rng = np.random.default_rng(None if self._seed is None else [self._seed, number])
        values: dict[str, pa.Array] = {}
        for k, column in enumerate(self.summary.columns):
            values[column.name] = self.data.values_at(twin.sources[:, k], [column.name])[column.name]
            if column.values == SMOOTHED:
                values[column.name] = self._smoothed(twin, k, rng, values[column.name].type)
        return values

    def _smoothed(self, twin: Twin, k: int, rng: np.random.Generator, kind: pa.DataType) -> pa.Array:
        import pyarrow as pa

        amounts = self.data.source.numbers(twin.table.keys[k])
        bands = twin.table.cells[twin.table.cell_of_record, k]
        drawn = smoothed_amounts(amounts, bands, twin.codes[:, k], rng)
        if np.array_equal(amounts[~np.isnan(amounts)], np.round(amounts[~np.isnan(amounts)])):
            drawn = np.round(drawn)
        array = pa.array(drawn, mask=np.isnan(drawn))
        return array.cast(kind) if not pa.types.is_string(kind) and not pa.types.is_large_string(kind) else array

    def frame(self, number: int = 0) -> Frame:
        """A twin as a frame of the library that the data came in; a pyarrow table for a file."""
        return in_library_of(self.data.native_frame, self.columns(number))

    def save(self, out: str | Path, *, overwrite: bool = False) -> Path:
        """Write the twins in the format of the original, the summary and a page to read.

        The twins are ``twin.csv`` and the like, or ``twin-1.csv`` … if there are several; the original's other columns are
        not in them.
        """
        source = self.data.source
        if not source.keeps_rows:
            raise BadInput(
                f"The records of {source.name} stay on its machines; write them to Parquet files to make a twin of them."
            )
        suffix = source.suffix or ".parquet"
        left_out = frozenset(self.data.columns) - {column.name for column in self.summary.columns}
        with open_run_folder(out, overwrite=overwrite, inputs=source.paths) as folder:
            for number in range(len(self.twins)):
                name = f"twin{suffix}" if len(self.twins) == 1 else f"twin-{number + 1}{suffix}"
                source.write(folder.path(name), Changes(treated=self.columns(number), dropped=left_out))
            folder.write_text("summary.json", json.dumps(self.summary.to_dict(), indent=2) + "\n")
            folder.write_text("report.html", synthesis_page(self.summary, versions()["rarecell"]))
            given: Json = {"path": source.name, "records": self.data.n_records, "sha256": source.unchanged_hash()}
            record = RunRecord("synthesise", versions(), given, 0, files=(*folder.names, RECORD))
            folder.write_text(RECORD, record.to_json())
            folder.publish()
        return Path(out)

    def __str__(self) -> str:
        return str(self.summary)


def synthesise(
    data: Frame,
    *,
    columns: Sequence[str],
    keys: Sequence[str] = (),
    epsilon: float | None = None,
    files: int = 1,
    least_count: int = 0,
    amounts: str = RESAMPLED,
    criterion: str | float = "aic",
    search: str = "auto",
    coding: Mapping[str, Coding | str] | None = None,
    measure: bool = True,
    seed: int | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Synthesis:
    """Draw synthetic twins of a file, whose tables of the model's cliques are those of the file, cell by cell.

    Parameters
    ----------
    data : frame or path
        The records.
    columns : sequence of str
        The columns of the twin; all others are left out.
    keys : sequence of str, optional
        Those of them that an intruder could know; all by default.
    epsilon : float, optional
        Draw with this ε, as the formal mode does. By default the draw is uniform.
    files : int, optional
        How many twins to draw.
    least_count : int, optional
        Keep only tables of several columns without an occupied cell of fewer records.
    amounts : str, optional
        Values of columns in bands: ``"resampled"`` from the band, each used once, or ``"smoothed"`` between neighbours.
    criterion, search : str, optional
        How the model is chosen, as for :func:`select_model`.
    coding : mapping of str to Coding or str, optional
        How values become levels, for columns that need it.
    measure : bool, optional
        Whether to measure what a twin gives away.
    seed : int, optional
        For tests; a seed that somebody knows lets them draw the same twins again.
    out : str or Path, optional
        Folder to write the twins to, in the format of the original; see :meth:`Synthesis.save`.
    overwrite : bool, optional
        Whether results in that folder may be replaced.
    progress : Progress
        Receives progress reports, and can ask to stop.

    Examples
    --------
    >>> import rarecell as rc
    >>> from rarecell import datasets
    >>> done = synthesise(datasets.census_sample(), columns=["sex", "age", "marital", "race"], seed=1, measure=False)
    >>> [table.differing for table in done.summary.tables]
    [0, 0, 0]
    >>> len(done.frame())
    9809
    """
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    key_names = tuple(keys) or names
    _check(names, key_names, files, least_count, amounts, epsilon)
    source = Microdata(data, keys=names, coding=coding)
    bands = _banded(source, names, coding or {})
    banded = Microdata(source.source, keys=names, coding={**(coding or {}), **{name: Coding(quantiles=BANDS) for name in bands}})
    table = banded.table(records=True)
    table = table.with_coarsenings((*table.coarsenings, *automatic_coarsenings(table)))
    result = _searched(table, criterion, search, least_count, progress)
    seeds = [None if seed is None else seed + number for number in range(files)]
    twins = tuple(synthetic_twin(table, result.best, epsilon=epsilon, seed=one, progress=progress) for one in seeds)
    measures = None
    if measure:
        measures = _measured(table, key_names, epsilon, criterion, search, least_count, np.random.default_rng(seed), progress)
    summary = _summary(twins, result, key_names, bands, amounts, least_count, epsilon, measures)
    done = Synthesis(source, twins, summary, seed)
    if out is not None:
        done.save(out, overwrite=overwrite)
    return done


def _check(names: Sequence[str], keys: Sequence[str], files: int, least_count: int, amounts: str, epsilon: float | None) -> None:
    if len(names) < 2:
        raise BadInput("A twin needs at least two columns.")
    unknown = [key for key in keys if key not in names]
    if unknown:
        raise UnknownColumns.among(unknown, names, role="column of the twin")
    if files < 1:
        raise BadInput(f"The number of files was given as {files}; it must be 1 or more.")
    if least_count < 0:
        raise BadInput(f"The least count of a cell was given as {least_count}; it must be 0 or more.")
    if amounts not in AMOUNTS:
        raise UnknownChoice.of("The way to make amounts", amounts, AMOUNTS)
    if epsilon is not None and epsilon < 0:
        raise BadInput(f"ε was given as {epsilon}; it must be 0 or more.")


def _banded(data: Microdata, names: Sequence[str], coding: Mapping[str, Coding | str]) -> tuple[str, ...]:
    """Columns of numbers with too many values to take part by themselves."""
    table = data.table(records=True)
    many = []
    for categories in table.categories:
        is_numeric = all(
            isinstance(level, int | float) for level in categories.levels[: categories.n_levels - categories.has_missing]
        )
        if categories.n_levels > MANY_VALUES and categories.key not in coding:
            if not is_numeric:
                raise BadInput(
                    f"Column '{categories.key}' has {categories.n_levels:,} different values that are not numbers, so nearly every record "
                    "would be kept with its own. Leave it out, or give a coding that merges its values."
                )
            many.append(categories.key)
    return tuple(many)


def _searched(table: ContingencyTable, criterion: str | float, search: str, least_count: int, progress: Progress) -> SearchResult:
    return select_model(table, criterion, search, least_count=least_count, max_seconds=_SEARCH_SECONDS, progress=progress)


def _summary(
    twins: tuple[Twin, ...],
    result: SearchResult,
    keys: tuple[str, ...],
    bands: tuple[str, ...],
    amounts: str,
    least_count: int,
    epsilon: float | None,
    measures: UnpairedMeasures | None,
) -> SynthesisSummary:
    twin, table = twins[0], twins[0].table
    differing = {names: max(one.n_changed_cells[names] for one in twins) for names in twin.n_changed_cells}
    if any(differing.values()):
        raise RuntimeError("Internal error: a table that is to be kept differs. Nothing was written.")
    columns = tuple(
        TwinColumn(
            name=categories.key,
            levels=categories.n_levels,
            values=amounts if categories.key in bands else LEVELS,
            rarest=int(table.marginals.counts(1 << k).min()),
        )
        for k, categories in enumerate(table.categories)
    )
    return SynthesisSummary(
        records=len(twin),
        files=len(twins),
        keys=keys,
        columns=columns,
        epsilon=epsilon,
        guarantee=_UNIFORM if epsilon is None else _WITH_EPSILON.format(epsilon),
        certified_optimal=result.certified_optimal,
        least_count=least_count,
        tables=_kept_tables(table, result.best, differing),
        utility=_utility(twin),
        measures=measures,
        notes=_notes(columns, least_count),
    )


def _kept_tables(
    table: ContingencyTable, model: DecomposableModel, differing: Mapping[tuple[str, ...], int]
) -> tuple[KeptTable, ...]:
    kept = []
    for clique in model.graph.clique_masks:
        reduced = table.reduce(clique)
        names, counts = table.names_of(reduced), table.marginals.counts(reduced)
        kept.append(KeptTable(variables=names, cells=len(counts), smallest=int(counts.min()), differing=differing[names]))
    return tuple(kept)


def _notes(columns: Sequence[TwinColumn], least_count: int) -> tuple[str, ...]:
    notes = []
    rare = [column.name for column in columns if column.rarest < max(least_count, 3) and column.values != SMOOTHED]
    if rare:
        notes.append(
            f"{listed(rare)} {'has' if len(rare) == 1 else 'have'} values with fewer than {max(least_count, 3)} records. The table of a "
            "single column is always kept, so these values are in the twin: merge them first if their existence reveals somebody."
        )
    resampled = [column.name for column in columns if column.values == RESAMPLED]
    if resampled:
        notes.append(
            f"Every value of {listed(resampled)} in the twin is an amount of the original, in another record of the same band. "
            "A top amount that people know stays recognisable; smooth the amounts to avoid that."
        )
    return tuple(notes)


def _utility(twin: Twin) -> TwinUtility:
    distances = hellinger_distances(twin.both)
    ratio = propensity(twin.both).ratio
    return TwinUtility(
        hellinger={
            str(order): (float(np.mean([one.hellinger for one in of_order])), max(one.hellinger for one in of_order))
            for order, of_order in distances.items()
            if of_order
        },
        k_marginal=k_marginal_score(twin.both),
        propensity_ratio=ratio if math.isfinite(ratio) else 0.0,
    )


def _measured(
    table: ContingencyTable,
    keys: Sequence[str],
    epsilon: float | None,
    criterion: str | float,
    search: str,
    least_count: int,
    rng: np.random.Generator,
    progress: Progress,
) -> UnpairedMeasures:
    """Draw a twin of part of the records, with a model chosen on that part, and attack it."""
    codes = table.cells[table.cell_of_record]
    n_control = min(MOST_CONTROL, int(CONTROL * len(codes)))
    if n_control < 20:
        raise BadInput(
            f"{counted(len(codes), 'record')} are too few to leave out a control group, so it cannot be measured what a twin gives away. "
            "Ask for a twin without measuring it, and do not release it on its own word."
        )
    order = rng.permutation(len(codes))
    people, control = codes[order[n_control:]], codes[order[:n_control]]
    part = ContingencyTable.from_codes(people, table.categories)
    part = part.with_coarsenings(automatic_coarsenings(part))
    model = _searched(part, criterion, search, least_count, progress).best
    drawn = synthetic_twin(part, model, epsilon=epsilon, seed=int(rng.integers(2**31)), progress=progress).codes
    return measured(UnpairedFiles(table.categories, people, drawn, control), keys, rng)
