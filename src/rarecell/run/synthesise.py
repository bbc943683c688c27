"""What does a synthetic twin of a file look like, and what does it give away?

A twin is drawn from all files that have the clique tables of this one (:mod:`rarecell.swap.twin`). It is not private by being
synthetic: what it says about the people it was made from is measured, on a twin of four fifths of the records, with the rest as
people who were left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.data.coding import Coding
from rarecell.data.microdata import Microdata
from rarecell.data.written import with_types
from rarecell.engine.changes import Changes
from rarecell.engine.source import numbers_of
from rarecell.errors import BadInput, UnknownChoice, UnknownColumns
from rarecell.intruder.unpaired import UnpairedFiles
from rarecell.model.decomposable import DecomposableModel
from rarecell.outcome.plain import in_library_of
from rarecell.outcome.swap import AnalysisSummary
from rarecell.outcome.synthesis import (
    LEVELS,
    RESAMPLED,
    SMOOTHED,
    KeptTable,
    SynthesisSummary,
    TwinColumn,
    TwinExchanges,
    TwinHouseholds,
    TwinUtility,
    UnpairedMeasures,
)
from rarecell.outcome.words import counted, listed, percent, verb
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.release.analyses import MOST_RECORDS, Analysis
from rarecell.release.utility import hellinger_distances, propensity
from rarecell.report.synthesis import synthesis_page
from rarecell.run.attack import BANDS, MANY_VALUES, measured
from rarecell.run.folder import RunRecord, open_run_folder, versions
from rarecell.run.publishing import RECORD
from rarecell.run.utility import analysis_of_both
from rarecell.search import SearchResult, select_model
from rarecell.swap.household_twin import FamilyBlocks, FamilyTwin, family_twin
from rarecell.swap.plan import plan_swaps
from rarecell.swap.twin import Twin, exchanged_twin, k_marginal_score, smoothed_amounts, synthetic_twin
from rarecell.table.coarsening import automatic_coarsenings
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    import pyarrow as pa

    from rarecell.edges import Frame, Json, ReadJson

Codes = NDArray[np.int32]
Numbers = NDArray[np.int64]

AMOUNTS = (RESAMPLED, SMOOTHED)
CONTROL = 0.2
"""Share of the records that are left out of the twin on which attacks are tried."""
MOST_CONTROL = 5_000
MOST_PEOPLE = 200_000
"""The twin on which attacks are tried has at most this many records, or households; a twin of fewer people gives more away."""
MOST_SWAPPED = 20_000
"""A swap is made for comparison where there are at most this many records."""
_SEARCH_SECONDS = 45.0

_UNIFORM = (
    "Drawn uniformly from all files with the same tables, values of single columns included. Nothing more is guaranteed: what these "
    "tables reveal, the twin reveals."
)
_HOUSEHOLDS_MENDED = (
    "Households were drawn from all files with the same tables; those that broke a rule of the original then exchanged values until "
    "they did not, which changed no table. Nothing more is guaranteed: what these tables and rules reveal, the twin reveals."
)
_EXCHANGED = (
    "Drawn from all files with the same tables, values of single columns included; then records exchanged values within these tables, "
    "so that {}. The exchanges look at the original, so more than its kept tables shows through: compare how many unique people stand in the "
    "twin with how many people who were left out do."
)
_PROVED = "The tables are those of the best of all decomposable models of these columns; that is proved."
_NOT_PROVED = (
    "The tables are those of the best decomposable model that the search came upon; it is not proved that none is better."
)
_WITH_EPSILON = (
    "Drawn with ε = {:g} for each {}, subject to the tables above, the values of single columns{} and the model itself, which are the "
    "same for every file that the guarantee compares. ε says nothing about what these reveal, and is not comparable with ordinary "
    "differential privacy."
)


@dataclass(frozen=True)
class TwinRequest:
    """How twins are drawn: the choice of the model, the ε, the smallest cell of a kept table, and exchanges afterwards."""

    epsilon: float | None
    least_count: int
    max_copies: float | None
    near_pairs: bool
    criterion: str | float
    search: str
    progress: Progress

    def searched(self, table: ContingencyTable) -> SearchResult:
        """The best model of a table."""
        return select_model(
            table,
            self.criterion,
            self.search,
            least_count=self.least_count,
            max_seconds=_SEARCH_SECONDS,
            progress=self.progress,
        )

    def twins_of(self, table: ContingencyTable, household: Numbers | None, seeds: Sequence[int | None]) -> Draws:
        """Twins of persons, or of households where records have one, each with a seed of its own."""
        if household is None:
            result = self.searched(table)
            persons = tuple(
                synthetic_twin(table, result.best, epsilon=self.epsilon, seed=seed, progress=self.progress) for seed in seeds
            )
            if not self.exchanges:
                return Draws(persons, result.certified_optimal)
            exchanged = tuple(self._exchanged(twin, seed) for twin, seed in zip(persons, seeds, strict=True))
            return Draws(exchanged, result.certified_optimal, as_drawn=persons)
        blocks = FamilyBlocks.of(table, household)
        results = []

        def best(of_rows: ContingencyTable) -> DecomposableModel:
            checkpoint(self.progress, "looking for the model of households of each size")
            results.append(self.searched(of_rows))
            return results[-1].best

        models = [block.model(best) for block in blocks.blocks]
        families = tuple(family_twin(blocks, models, epsilon=self.epsilon, seed=seed, progress=self.progress) for seed in seeds)
        return Draws(families, all(result.certified_optimal for result in results), blocks)

    @property
    def exchanges(self) -> bool:
        """Whether records exchange values after they were drawn."""
        return self.max_copies is not None or self.near_pairs

    def _exchanged(self, twin: Twin, seed: int | None) -> Twin:
        return exchanged_twin(
            twin, max_copies=self.max_copies, near_pairs=self.near_pairs, seed=seed, progress=self.progress
        ).twin

    def guarantee(self, of_households: bool) -> str:
        """What is guaranteed, in a sentence, with what is not."""
        if self.exchanges:
            aims = [] if self.max_copies is None else ["fewer people stand in the twin as they are"]
            aims += ["all tables of two columns come nearer to the original's"] if self.near_pairs else []
            return _EXCHANGED.format(listed(aims))
        if self.epsilon is None:
            return _HOUSEHOLDS_MENDED if of_households else _UNIFORM
        unit, rules = ("household", ", the rules of households") if of_households else ("person", "")
        return _WITH_EPSILON.format(self.epsilon, unit, rules)


@dataclass(frozen=True, eq=False)
class Draws:
    """Twins of one file, whether their models are proved to be the best, and the households that they were drawn from.

    ``as_drawn`` are the twins before records exchanged values, if they did.
    """

    twins: tuple[Twin, ...] | tuple[FamilyTwin, ...]
    certified_optimal: bool
    blocks: FamilyBlocks | None = None
    as_drawn: tuple[Twin, ...] = ()


@dataclass(frozen=True, eq=False)
class Synthesis:
    """Synthetic twins of a file, with their summary.

    Attributes
    ----------
    data : Microdata
        The original.
    twins : tuple of Twin or FamilyTwin
        The draws, each with its own random numbers.
    summary : SynthesisSummary
        What they keep and give away.
    """

    data: Microdata
    twins: tuple[Twin, ...] | tuple[FamilyTwin, ...]
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
        if isinstance(twin, FamilyTwin):
            values = {self.data.household_columns[0]: self._household_numbers(twin), **values}
        return values

    def _household_numbers(self, twin: FamilyTwin) -> pa.Array:
        """The new numbers of the households, as text where the original's are."""
        import pyarrow as pa

        name = self.data.household_columns[0]
        kind = self.data.values_at(np.zeros(1, dtype=np.int64), [name])[name].type
        numbers = pa.array(twin.household)
        return numbers.cast(kind) if pa.types.is_integer(kind) or pa.types.is_floating(kind) else numbers.cast(pa.string())

    def _smoothed(self, twin: Twin | FamilyTwin, k: int, rng: np.random.Generator, kind: pa.DataType) -> pa.Array:
        import pyarrow as pa

        amounts = numbers_of(self.data.source, twin.table.keys[k])
        bands = twin.table.cells[twin.table.cell_of_record, k]
        drawn = smoothed_amounts(amounts, bands, twin.codes[:, k], rng)
        if isinstance(twin, FamilyTwin) and k in twin.shared:
            # What all members share is drawn once for all of them.
            first = np.unique(twin.household, return_index=True)[1]
            drawn = drawn[first][twin.household - 1]
        if np.array_equal(amounts[~np.isnan(amounts)], np.round(amounts[~np.isnan(amounts)])):
            drawn = np.round(drawn)
        array = pa.array(drawn, mask=np.isnan(drawn))
        return array.cast(kind) if not pa.types.is_string(kind) and not pa.types.is_large_string(kind) else array

    def frame(self, number: int = 0) -> Frame:
        """A twin as a frame of the library that the data came in; a pyarrow table for a file."""
        import pyarrow as pa

        columns = self.columns(number)
        if self.data.native_frame is None:
            typed = with_types(pa.table(columns), self.data.source, self.data.recodes)
            columns = {name: typed.column(name).combine_chunks() for name in columns}
        return in_library_of(self.data.native_frame, columns)

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
        left_out = frozenset(self.data.columns) - set(self.columns())
        with open_run_folder(out, overwrite=overwrite, inputs=source.paths) as folder:
            for number in range(len(self.twins)):
                name = f"twin{suffix}" if len(self.twins) == 1 else f"twin-{number + 1}{suffix}"
                source.write(folder.path(name), Changes(treated=self.columns(number), dropped=left_out))
            folder.write_text("summary.json", json.dumps(self.summary.to_dict(), indent=2) + "\n")
            folder.write_text("report.html", synthesis_page(self.summary, versions()["rarecell"]))
            input_record: Json = {"path": source.name, "records": self.data.n_records, "sha256": source.unchanged_hash()}
            record = RunRecord("synthesise", versions(), input_record, 0, files=(*folder.names, RECORD))
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
    household: str | None = None,
    epsilon: float | None = None,
    files: int = 1,
    least_count: int = 0,
    max_copies: float | None = None,
    near_pairs: bool = False,
    amounts: str = RESAMPLED,
    criterion: str | float = "aic",
    search: str = "auto",
    coding: Mapping[str, Coding | str] | None = None,
    analysis: Mapping[str, ReadJson] | None = None,
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
    household : str, optional
        The column that numbers the households, or several, separated by commas. Whole households are drawn then, size by size, and
        numbered anew.
    epsilon : float, optional
        Draw with this ε, as the formal mode does. By default the draw is uniform.
    files : int, optional
        How many twins to draw.
    least_count : int, optional
        Keep only tables of several columns without an occupied cell of fewer records. What that costs is computed, too.
    max_copies : float, optional
        Let records exchange values, within the tables that are kept, until at most this share of the people who are unique on all
        columns stand in the twin as they are.
    near_pairs : bool, optional
        Let records exchange values, within the tables that are kept, so that all tables of two columns come nearer to the original's.
    amounts : str, optional
        Values of columns in bands: ``"resampled"`` from the band, each used once, or ``"smoothed"`` between neighbours.
    criterion, search : str, optional
        How the model is chosen, as for :func:`select_model`.
    coding : mapping of str to Coding or str, optional
        How values become levels, for columns that need it.
    analysis : mapping of str to mapping, optional
        What users want to learn from the file, as for :func:`rarecell.protect`; run on the first twin as well.
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
    request = TwinRequest(epsilon, least_count, max_copies, near_pairs, criterion, search, progress)
    _check_exchanges(request, household)
    asked = [Analysis.of(name, given) for name, given in (analysis or {}).items()]
    for each in asked:
        each.columns(names)
    source = Microdata(data, keys=names, coding=coding, household=household)
    source.source.watch()
    homes = source.household_codes()
    bands = _banded(source, names, coding or {})
    banded = Microdata(source.source, keys=names, coding={**(coding or {}), **{name: Coding(quantiles=BANDS) for name in bands}})
    table = banded.table(records=True)
    table = table.with_coarsenings((*table.coarsenings, *automatic_coarsenings(table)))
    draws = request.twins_of(table, homes, [None if seed is None else seed + number for number in range(files)])
    attacks = _Attacks() if not measure else _attacked(table, homes, key_names, request, np.random.default_rng(seed))
    summary = _summary(draws, request, key_names, bands, amounts, attacks)
    if least_count > 1:
        free = replace(request, least_count=0).twins_of(table, homes, [seed])
        summary = replace(summary, utility_without_limit=_utility(free.twins[0]))
    done = Synthesis(source, draws.twins, summary, seed)
    if asked:
        done = replace(done, summary=replace(summary, analyses=_analysed(done, asked)))
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


def _check_exchanges(request: TwinRequest, household: str | None) -> None:
    if request.max_copies is not None and not 0 <= request.max_copies <= 1:
        raise BadInput(f"The largest share of copies was given as {request.max_copies:g}; it must be from 0 to 1.")
    if request.exchanges and request.epsilon is not None:
        raise BadInput(
            "Exchanges after the draw look at the original, so no ε could be stated. Leave out ε, or the limit on copies and the nearer pairs."
        )
    if request.exchanges and household is not None:
        raise BadInput(
            "Exchanges after the draw are made between persons, and would take families apart. Leave out the household, or the limit on "
            "copies and the nearer pairs."
        )


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


def _summary(
    draws: Draws,
    request: TwinRequest,
    keys: tuple[str, ...],
    bands: tuple[str, ...],
    amounts: str,
    attacks: _Attacks,
) -> SynthesisSummary:
    twin, table = draws.twins[0], draws.twins[0].table
    differing = {names: max(each.n_changed_cells[names] for each in draws.twins) for names in twin.n_changed_cells}
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
    parts = zip(twin.names, twin.parts, strict=True) if isinstance(twin, FamilyTwin) else [("", twin)]
    tables = tuple(kept for name, part in parts for kept in _kept_tables(name, part))
    exchanges = _exchanges(draws)
    notes = (_PROVED if draws.certified_optimal else _NOT_PROVED, *_notes(columns, tables, request.least_count))
    if exchanges is not None and request.max_copies is not None and exchanges.copies > request.max_copies:
        notes += (
            f"{percent(exchanges.copies)} of the unique people stand in the twin, not {percent(request.max_copies)} as asked for: no exchange was "
            "left within the kept tables that would remove more.",
        )
    return SynthesisSummary(
        records=len(twin),
        files=len(draws.twins),
        keys=keys,
        columns=columns,
        epsilon=request.epsilon,
        guarantee=request.guarantee(draws.blocks is not None),
        certified_optimal=draws.certified_optimal,
        least_count=request.least_count,
        tables=tables,
        utility=_utility(twin),
        exchanges=exchanges,
        households=None if draws.blocks is None else _households(draws.blocks, draws.twins),
        measures=attacks.persons,
        family_measures=attacks.families,
        swap_measures=attacks.swap,
        notes=notes,
    )


def _exchanges(draws: Draws) -> TwinExchanges | None:
    """Copies and score of the tables before and after the exchanges, of the twin with the most copies."""
    if not draws.as_drawn:
        return None
    pairs = [(before, after) for before, after in zip(draws.as_drawn, draws.twins, strict=True) if isinstance(after, Twin)]
    before, after = max(pairs, key=lambda pair: pair[1].copies)
    return TwinExchanges(
        copies_drawn=before.copies,
        copies=after.copies,
        k_marginal_drawn=k_marginal_score(before.both),
        k_marginal=k_marginal_score(after.both),
    )


def _kept_tables(name: str, twin: Twin) -> list[KeptTable]:
    table, kept = twin.table, []
    for clique in twin.model.graph.clique_masks:
        reduced = table.reduce(clique)
        names, counts = table.names_of(reduced), table.marginals.counts(reduced)
        kept.append(
            KeptTable(
                variables=names, cells=len(counts), smallest=int(counts.min()), differing=twin.n_changed_cells[names], rows=name
            )
        )
    return kept


def _households(blocks: FamilyBlocks, twins: Sequence[Twin | FamilyTwin]) -> TwinHouseholds:
    families = [twin for twin in twins if isinstance(twin, FamilyTwin)]
    return TwinHouseholds(
        households=int(families[0].household.max()),
        drawn_apart=tuple(block.name for block in blocks.families),
        one_by_one=blocks.n_one_by_one,
        rules=tuple(blocks.rules.sentences()),
        breaking=max(int(twin.breaks_rule.sum()) for twin in families),
    )


def _notes(columns: Sequence[TwinColumn], tables: Sequence[KeptTable], least_count: int) -> tuple[str, ...]:
    notes = []
    rare = [column.name for column in columns if column.rarest < max(least_count, 3) and column.values != SMOOTHED]
    if rare:
        notes.append(
            f"{listed(rare)} {'has' if len(rare) == 1 else 'have'} values with fewer than {max(least_count, 3)} records. The table of a "
            "single column is always kept, so these values are in the twin: merge them first if their existence reveals somebody."
        )
    small = [table for table in tables if len(table.variables) > 1 and table.smallest < least_count]
    if small:
        notes.append(
            f"{counted(len(small), 'table')} of what a household shares and how large it is "
            f"{verb(len(small), 'has', 'have')} cells of fewer than {least_count} records, because members who are drawn one by one stay "
            "with their household."
        )
    resampled = [column.name for column in columns if column.values == RESAMPLED]
    if resampled:
        notes.append(
            f"Every value of {listed(resampled)} in the twin is an amount of the original, in another record of the same band. "
            "A top amount that people know stays recognisable; smooth the amounts to avoid that."
        )
    return tuple(notes)


def _utility(twin: Twin | FamilyTwin) -> TwinUtility:
    distances = hellinger_distances(twin.both)
    ratio = propensity(twin.both).ratio
    return TwinUtility(
        hellinger={
            str(order): (float(np.mean([each.hellinger for each in of_order])), max(each.hellinger for each in of_order))
            for order, of_order in distances.items()
            if of_order
        },
        k_marginal=k_marginal_score(twin.both),
        propensity_ratio=ratio if math.isfinite(ratio) else 0.0,
    )


def _analysed(done: Synthesis, asked: Sequence[Analysis]) -> tuple[AnalysisSummary, ...]:
    """Every analysis on the original and on the first twin, side by side."""
    import pyarrow as pa

    names = [column.name for column in done.summary.columns]
    used = [name for name in names if any(name in each.columns(names) for each in asked)]
    n_records = min(done.data.n_records, MOST_RECORDS)
    drawn = done.columns()
    # The rows of a twin are in a random order, so its first ones are a random sample; the original's need to be drawn.
    sample = np.sort(np.random.default_rng(0).choice(done.data.n_records, n_records, replace=False))
    original = done.data.values_at(sample, used)
    # A delimited file holds text; analyses need the numbers that it stands for.
    files = [
        {name: typed.column(name).to_pylist() for name in used}
        for typed in (
            with_types(pa.table({name: of_file[name][:n_records] for name in used}), done.data.source, done.data.recodes)
            for of_file in (original, drawn)
        )
    ]
    return tuple(analysis_of_both(each, names, files[0], files[1], None) for each in asked)


# ---------------------------------------------------------------------- what twins give away


@dataclass(frozen=True)
class _Attacks:
    """What a twin gives away about persons and families, and what a swap of the same people would."""

    persons: UnpairedMeasures | None = None
    families: UnpairedMeasures | None = None
    swap: UnpairedMeasures | None = None


def _attacked(
    table: ContingencyTable, household: Numbers | None, keys: Sequence[str], request: TwinRequest, rng: np.random.Generator
) -> _Attacks:
    """Draw a twin of part of the records, or households, with a model chosen on that part, and attack it."""
    codes = table.cells[table.cell_of_record]
    home = np.arange(len(codes)) if household is None else np.unique(household, return_inverse=True)[1].ravel()
    n_control = min(MOST_CONTROL, int(CONTROL * (home.max() + 1)))
    if n_control < 20:
        raise BadInput(
            f"{counted(int(home.max()) + 1, 'record' if household is None else 'household')} are too few to leave out a control group, so "
            "it cannot be measured what a twin gives away. Ask for a twin without measuring it, and do not release it on its own word."
        )
    place = rng.permutation(int(home.max()) + 1)[home]
    is_control, is_person = place < n_control, (place >= n_control) & (place < n_control + MOST_PEOPLE)
    people, control = codes[is_person], codes[is_control]
    part = ContingencyTable.from_codes(people, table.categories)
    part = part.with_coarsenings(automatic_coarsenings(part))
    of_people = None if household is None else home[is_person]
    draws = request.twins_of(part, of_people, [int(rng.integers(2**31))])
    drawn = draws.twins[0]
    files = UnpairedFiles(table.categories, people, drawn.codes, control)
    persons, families = measured(files, keys, rng), None
    if isinstance(drawn, FamilyTwin) and draws.blocks is not None:
        layout = draws.blocks.layout
        numbers = (home[is_person], drawn.household, home[is_control])
        rows = [
            layout.rows(of_file, number).codes for of_file, number in zip((people, drawn.codes, control), numbers, strict=True)
        ]
        of_rows = UnpairedFiles(layout.categories(), *rows)
        families = measured(of_rows, of_rows.names, rng, inferred=())
    swap = _swapped(part, keys, request) if len(people) <= MOST_SWAPPED else None
    if swap is not None:
        swap_files = UnpairedFiles(table.categories, people, swap, control)
        return _Attacks(persons, families, measured(swap_files, keys, rng))
    return _Attacks(persons, families)


def _swapped(part: ContingencyTable, keys: Sequence[str], request: TwinRequest) -> Codes | None:
    """The same people after a swap of everybody who is alone on the keys; None if nobody is, or nobody can be swapped."""
    codes = part.cells[part.cell_of_record]
    columns = [part.keys.index(key) for key in keys]
    of_keys = ContingencyTable.from_codes(np.asfortranarray(codes[:, columns]), [part.categories[k] for k in columns])
    of_keys = of_keys.with_coarsenings(automatic_coarsenings(of_keys))
    alone = np.flatnonzero(of_keys.counts[of_keys.cell_of_record] == 1)
    if not len(alone) or of_keys.n_keys < 2:
        return None
    model = select_model(of_keys, request.criterion, max_seconds=_SEARCH_SECONDS, progress=request.progress).best
    plan = plan_swaps(of_keys, model, records=alone, progress=request.progress)
    after = codes.copy()
    after[:, columns] = plan.release.codes()
    return after
