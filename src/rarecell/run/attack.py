"""What would an intruder find in a file that is to be released?

Works for any released file and its original, whichever tool made it: swapped, recoded, perturbed or suppressed. Links are
either counted in a register or expected under a model of the original.

The records of a synthetic or resampled file belong to nobody, so no record can be followed. Such a file is compared with the people
it was made from and with a control group of people who were left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.choices import EVERY_KEY
from rarecell.data.coding import Coding
from rarecell.data.microdata import Microdata
from rarecell.engine.duck import EngineSettings
from rarecell.errors import BadInput, RarecellError, UnknownColumns
from rarecell.intruder.consistency import consistency
from rarecell.intruder.household import household_release
from rarecell.intruder.key_errors import KeyErrors, links_with_errors, shares_of_keys
from rarecell.intruder.nearest import exact_links
from rarecell.intruder.participant import participant_links
from rarecell.intruder.register import CELLS_TO_PLAN, Register
from rarecell.intruder.shadow import Learned, learned
from rarecell.intruder.trial import IntruderTrial, try_intruders
from rarecell.intruder.unpaired import UnpairedFiles
from rarecell.model.backoff import fit_backoff
from rarecell.outcome.plain import Shown
from rarecell.outcome.swap import AttackSummary, ConsistencySummary, IntruderSummary, KnownBeyond
from rarecell.outcome.synthesis import ColumnGivenAway, UnpairedAttack, UnpairedMeasures
from rarecell.outcome.words import about_times, counted, listed, number
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.release.release import Release
from rarecell.risk.families import why_incomplete
from rarecell.risk.records import record_risk
from rarecell.run import models
from rarecell.run.also_known import MOST_LEVELS_TRIED, claim_by_columns, trial_of_columns, worst_columns
from rarecell.run.beside_keys import leak_summaries, leaks_between
from rarecell.run.config import ERRORS_OF_A_REGISTER, FRAME, RunConfig
from rarecell.run.households import HouseholdTrials, guessed_members, household_intruders, put_together
from rarecell.run.inputs import refuse_not_beside
from rarecell.run.protect import protect
from rarecell.table.alignment import Aligned, align, meaning, places
from rarecell.table.contingency import Categories, ContingencyTable
from rarecell.table.household_rows import Members, find_layout

if TYPE_CHECKING:
    import pyarrow as pa

    from rarecell.edges import Frame, Level


@dataclass(frozen=True, eq=False)
class Attack(Shown):
    """What each intruder finds in a released file.

    Attributes
    ----------
    summary : AttackSummary
        The numbers, without any record.
    trials : tuple of IntruderTrial
        The links of each intruder before and after.
    """

    summary: AttackSummary
    trials: tuple[IntruderTrial, ...] = field(repr=False)

    def likeliest(self, n: int = 20) -> list[tuple[int, float]]:
        """The records that the nearest intruder links with the highest probability, by row number; for internal use."""
        links = next(trial.after for trial in self.trials if trial.name == "nearest")
        order = np.argsort(-links.link, kind="stable")[:n]
        return [(int(links.row[place]), float(links.link[place])) for place in order if links.link[place] > 0.0]

    def per_record(self, intruder: str = "nearest") -> NDArray[np.float64]:
        """The probability that this intruder links each record to the right person; 0 where it makes no claim."""
        links = next(trial.after for trial in self.trials if trial.name == intruder)
        probability = np.zeros(self.summary.records)
        is_known = links.row >= 0
        probability[links.row[is_known]] = links.link[is_known]
        return probability

    def __str__(self) -> str:
        return self.summary.sentence

    def __repr__(self) -> str:
        nearest = next(intruder for intruder in self.summary.intruders if intruder.name == "nearest")
        return f"Attack({self.summary.records:,} records, nearest intruder right {nearest.after:,.1f} times, {nearest.before:,.1f} before)"


def attack(
    released: Frame,
    *,
    original: Frame,
    keys: Sequence[str],
    register: Frame = None,
    population: float | None = None,
    weight: str | None = None,
    household: str | None = None,
    also_known: Sequence[str] = (),
    id: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    decimal: str | None = None,
    key_error: float | Mapping[str, float] | None = None,
    made_by: str | Path | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Attack:
    """Try several intruders on a released file.

    Parameters
    ----------
    released, original : path or frame
        The two files, with the same records in the same order unless ``id`` is given.
    keys : sequence of str
        Columns that an intruder could know.
    register : path or frame, optional
        The keys of the whole population; links are then counted.
    population : float, optional
        Without a register, the number of people that the original was drawn from; links are then expected under a model.
    weight : str, optional
        Column of the original with survey weights. Without a register they say how many people each record stands for, and
        ``population`` may be omitted.
    household : str, optional
        Column of the original, and of the register, that says who lives with whom; intruders who know families are then
        tried as well. Several columns that identify a household together are separated by commas.
    also_known : sequence of str, optional
        Columns beside the keys that an intruder may hold as well. Columns that both files have are tried one by one in any case.
    id : str, optional
        Column that identifies a record in both files. Records may then be in any order, and some may not have been released.
    encoding, sheet, decimal : str, optional
        How the two files are read, if they are text or workbooks: the encoding, the sheet, and the decimal mark.
    key_error : float or mapping of str to float, optional
        Share of the values that differ between the original and an intruder's register, of every key or by key. Only without
        ``register``, which has its errors already; links by equal values and to the nearest person then allow for them.
    made_by : path, optional
        Folder of the run that protected the file; by default the folder that holds ``released``, if it is one. With a register, samples of it
        are protected with the options of that run, and an intruder is tried who has learned from these.
    seed : int, optional
        Seed of the model's draws, and of the samples.
    progress : Progress, optional
        Receives progress reports.

    Returns
    -------
    Attack
        What each intruder finds.

    Examples
    --------
    >>> import rarecell as rc
    >>> from rarecell import datasets
    >>> sample, keys = datasets.census_sample(), ["age", "sex", "marital", "relationship"]
    >>> done = rc.attack(sample, original=sample, keys=keys, register=datasets.census_population())
    >>> nearest = done.summary.intruders[1]
    >>> nearest.before == nearest.after
    True
    """
    if (register is None) == (population is None and weight is None):
        raise BadInput(
            "Give a register of the population, in which links are counted, or the number of its people (a population or a column of "
            "survey weights), by which they are estimated, and not both."
        )
    if key_error and register is not None:
        raise BadInput(ERRORS_OF_A_REGISTER)
    if made_by is not None and register is None:
        raise BadInput("Trial runs take samples of a register of the population; give one, or leave out the folder of the run.")
    shares = key_error if isinstance(key_error, Mapping) else {EVERY_KEY: key_error or 0.0}
    shares_of_keys(shares, list(keys))
    progress.start("reading", 3)
    settings = EngineSettings(encoding=encoding, sheet=sheet, decimal=decimal)
    data = Microdata(original, keys, weight=weight, population=population, household=household, id=id, settings=settings)
    published = Microdata(released, keys, id=id, settings=settings)
    shows_households = household is not None and set(data.household_columns) <= set(published.columns)
    if shows_households:
        # Whoever holds the file sees who lives with whom, too.
        published = Microdata(published.source, keys, id=id, household=household, settings=settings)
    files = _PairedFiles(data, published, register, population, seed, progress)
    paired, release = files.paired, files.release
    given_away = leak_summaries(leaks_between(data, published, files.rows), None)
    progress.done()
    everybody = files.known(paired, release, population, progress=progress)
    taught, why_untaught = _taught(files, _folder_of_run(released, made_by), is_asked_for=made_by is not None)
    trials = try_intruders(release, everybody, key_error=shares, taught=taught, seed=seed)
    if paired.recoded:
        # The original has the finer levels, and an intruder who holds it looks at these.
        trials = _with_original_as_it_is(trials, files, shares)
    size = float(everybody.known.table.n_records if everybody.risk is None else everybody.risk.population)
    summary = replace(_attack_summary(paired, release, trials, size), leaks=given_away)
    if why_untaught:
        summary = replace(summary, sentence=f"{summary.sentence} {why_untaught}")
    summary = _with_beyond(summary, files, also_known)
    if household is not None and not shows_households:
        # Without the number nobody knows the households of the released file; what can be put together of them is said instead.
        summary = replace(summary, sentence=f"{summary.sentence} {_unlinked(files)}")
    of_families = _families(files, size) if shows_households else None
    if of_families is None:
        return Attack(summary, trials)
    families = tuple(
        IntruderTrial(links.after.name, links.before, links.after) for links in (of_families.nearest, of_families.shadow)
    )
    intruders = (*summary.intruders, *household_intruders(of_families))
    return Attack(replace(summary, intruders=intruders), (*trials, *families))


@dataclass(frozen=True, eq=False)
class _PairedFiles:
    """An original and a released file, record by record, and what is held about the people.

    Attributes
    ----------
    original, released : Microdata
        The two files.
    register : frame or path, optional
        The keys of the whole population.
    population : float or None
        Its size, if it was named.
    seed : int
        Seed of the model's draws, and of samples.
    progress : Progress
        Receives progress reports.
    """

    original: Microdata
    released: Microdata
    register: Frame
    population: float | None
    seed: int
    progress: Progress

    @cached_property
    def tables(self) -> tuple[ContingencyTable, ContingencyTable]:
        """The tables of the two files, with the records in the order of the original."""
        return paired_tables(self.original, self.released, self.original.id)

    @cached_property
    def rows(self) -> NDArray[np.int64] | None:
        """For each record of the released file, that of the original; None if the two have the same order."""
        return None if self.original.id is None else rows_of_released(self.original, self.released, self.original.id)

    @cached_property
    def people(self) -> ContingencyTable | None:
        """The table of the register, if there is one."""
        return None if self.register is None else Microdata(self.register, self.original.keys).table()

    @cached_property
    def paired(self) -> Aligned:
        """The keys of both files, and of the register, in the same levels."""
        return align(*self.tables, self.people)

    @cached_property
    def release(self) -> Release:
        """What was done to the keys."""
        return self.release_of(self.paired)

    def release_of(self, paired: Aligned) -> Release:
        """What was done to these columns."""
        return Release.of_codes(paired.original, paired.released, paired.categories, weights=self.original.record_weights())

    def known(
        self,
        paired: Aligned,
        release: Release,
        population: float | None,
        *,
        n_orders: int | None = None,
        progress: Progress = SILENT,
    ) -> Register:
        """What the intruder holds: the register, or what a model says of a population; ``n_orders`` members make a quick one."""
        if paired.register is not None:
            return Register.counted(paired.register)
        table = models.with_resolutions(release.before, "multi")
        model = fit_backoff(table, n_orders=n_orders, seed=self.seed, progress=progress)
        sampling = "srs" if table.weights is None else "weights"
        return Register.modelled(record_risk(table, model, population=population, sampling=sampling), model, seed=self.seed)


N_TRIALS = 2
"""Number of samples of the register that are protected for an intruder to learn from."""


def _folder_of_run(released: Frame, made_by: str | Path | None) -> Path | None:
    """The folder of the run that made a file, as it was named or as the file lies in it."""
    folder = Path(made_by) if made_by is not None else Path(released).parent if isinstance(released, str | Path) else None
    if folder is not None and (folder / "run.toml").is_file():
        return folder
    if made_by is not None:
        raise BadInput(f"{made_by} has no run.toml, so it is not the folder of a run.")
    return None


def _taught(files: _PairedFiles, folder: Path | None, *, is_asked_for: bool) -> tuple[Learned | None, str]:
    """What trial runs with the options of the run that made a file teach; or None, and why there are none if they were asked for.

    The samples are as large as the file, and drawn from the register with equal chances.
    """
    if files.register is None or folder is None:
        return None, ""
    try:
        config = RunConfig.read(folder / "run.toml")
    except RarecellError as error:
        if is_asked_for:
            raise
        # Nobody asked for this file, which merely lies beside the released one.
        return None, f"There were no trial runs with the options of {folder}: {error}"
    data, why = files.original, ""
    if config.protect is None:
        why = "it protected nothing"
    elif config.household is not None and config.households_known != "no":
        why = "it protected whole households"
    elif not set(config.keys) <= set(data.keys):
        why = f"it has keys that this attack has not: {listed([key for key in config.keys if key not in data.keys])}"
    people = Microdata(files.register, data.keys)
    if not why and people.n_records <= data.n_records:
        why = "the register is no larger than the file"
    if why:
        return None, f"There were no trial runs with the options of {folder}, because {why}."
    names = [name for name in people.columns if name in data.columns]
    everybody, runs = _read(people, names), list[tuple[Release, ContingencyTable]]()
    try:
        for trial in range(N_TRIALS):
            rng = np.random.default_rng([files.seed, trial, 41])
            sample = everybody.take(np.sort(rng.choice(everybody.num_rows, data.n_records, replace=False)))
            done = protect(_on_trial(config, trial), frame=sample, progress=files.progress)
            before, after = (Microdata(frame, data.keys).table(records=True) for frame in (sample, done.frame))
            trial_files = align(before, after, people.table())
            assert trial_files.register is not None
            release = Release.of_codes(trial_files.original, trial_files.released, trial_files.categories)
            runs.append((release, trial_files.register))
    except RarecellError as error:
        return None, f"There were no trial runs with the options of {folder}: {error}"
    return learned(runs), ""


def _on_trial(config: RunConfig, trial: int) -> RunConfig:
    """The options of a run on a sample of somebody else, with another seed."""
    assert config.protect is not None
    seeded = replace(config.protect, swap_seed=None, released=None)
    return replace(config, input=FRAME, sql=None, spark_table=None, id=None, seed=config.seed + 1 + trial, protect=seeded)


def _with_beyond(summary: AttackSummary, files: _PairedFiles, also_known: Sequence[str]) -> AttackSummary:
    """Add what an intruder finds who knows more than the keys, and how well changed rows are told by how strange they look."""
    data, published = files.original, files.released
    refuse_not_beside(also_known, data)
    absent = [name for name in also_known if name not in published.columns]
    if absent:
        raise BadInput(f"The released file has no column '{absent[0]}', so nobody can compare it with a register.")
    # A weight that few values name the post-stratum by is a column like others.
    left_out = {*data.keys, data.id, *data.household_columns}
    names = [
        name
        for name, column in data.columns.items()
        if name not in left_out and name in published.columns and column.kind != "other"
    ]
    if not names:
        return summary
    beside = _Beside.of(files, names)
    there = () if files.register is None else Microdata(files.register, data.keys).columns
    is_size_known = files.population is not None or data.record_weights() is not None
    size = files.population if is_size_known else summary.population
    nearest = next(each for each in summary.intruders if each.name == "nearest")

    def people(columns: Sequence[str], n_orders: int | None) -> tuple[Release, Register, frozenset[str]]:
        of_people = None
        if files.register is not None and all(name in there for name in columns):
            of_people = Microdata(files.register, [*data.keys, *columns]).table()
        paired = align(beside.table(0, columns), beside.table(1, columns), of_people)
        release = files.release_of(paired)
        everybody = files.known(paired, release, size, n_orders=n_orders)
        return release, everybody, frozenset(name for name in columns if release.moves(name).any())

    def tried(columns: tuple[str, ...], _: ContingencyTable) -> KnownBeyond:
        release, everybody, changed = people(columns, 1)
        return trial_of_columns(release, everybody, columns, nearest, changed=changed, seed=files.seed)

    claims: tuple[KnownBeyond, ...] = ()
    if also_known:
        release, everybody, changed = people(also_known, None)
        claim, intruder = claim_by_columns(release, everybody, also_known, nearest, changed=changed)
        claims, summary = (claim,), replace(summary, intruders=(*summary.intruders, intruder))
    few = [name for name in names if name not in also_known and 1 < beside.n_levels(name) <= MOST_LEVELS_TRIED]
    trials = worst_columns(few, lambda columns: beside.table(0, columns), tried)
    return replace(summary, beyond=(*claims, *trials), consistency=beside.consistency(files.seed))


@dataclass(frozen=True, eq=False)
class _Beside:
    """The columns beside the keys of an original and a released file, in a row for each record of the original."""

    tables: tuple[ContingencyTable, ContingencyTable]
    codes: Mapping[str, tuple[NDArray[np.int32], NDArray[np.int32]]]
    categories: Mapping[str, tuple[Categories, Categories]]

    @classmethod
    def of(cls, files: _PairedFiles, names: Sequence[str]) -> _Beside:
        before, levels_before = files.original.column_codes(list(names))
        shown, levels_after = files.released.column_codes(list(names))
        after = shown
        if files.rows is not None:
            after = np.full((files.original.n_records, len(names)), -1, dtype=np.int32)
            after[files.rows] = shown
        codes = {name: (np.ascontiguousarray(before[:, k]), np.ascontiguousarray(after[:, k])) for k, name in enumerate(names)}
        unordered = {
            name: (replace(levels_before[k], is_ordered=False), replace(levels_after[k], is_ordered=False))
            for k, name in enumerate(names)
        }
        return cls(files.tables, codes, unordered)

    def n_levels(self, name: str) -> int:
        return max(of_file.n_levels for of_file in self.categories[name])

    def table(self, place: int, columns: Sequence[str]) -> ContingencyTable:
        """The original (0) or the released file (1) in the keys and some columns."""
        table = self.tables[place]
        cell = table.cell_of_record
        keys = np.where(cell[:, None] >= 0, table.cells[cell], -1)
        codes = np.concatenate([keys, *(self.codes[name][place][:, None] for name in columns)], axis=1).astype(np.int32)
        return ContingencyTable.from_codes(codes, [*table.categories, *(self.categories[name][place] for name in columns)])

    def consistency(self, seed: int) -> ConsistencySummary | None:
        """How well rows whose keys were changed are told from others by how strange they look; None if none was changed."""
        few = [name for name in self.codes if 1 < self.n_levels(name) <= MOST_LEVELS_TRIED]
        files = align(self.table(0, few), self.table(1, few))
        n_keys = len(self.tables[0].keys)
        here = (files.original >= 0).all(axis=1) & (files.released >= 0).all(axis=1)
        is_changed = (files.original != files.released)[here, :n_keys].any(axis=1)
        if not few or not is_changed.any():
            return None
        levels = [of_column.n_levels for of_column in files.categories]
        after, before = (
            consistency(list(codes[here].T), levels, n_keys, is_changed, seed=seed) for codes in (files.released, files.original)
        )
        return ConsistencySummary(
            area=after.area, area_before=before.area, strangest=after.strangest, right=after.right, right_before=before.right
        )


def _unlinked(files: _PairedFiles) -> str:
    """How many households of a released file without household number can be put together: by shared values, order, plausibility."""
    paired, published, household = files.paired, files.released, files.original.household_codes()
    assert household is not None
    order = np.arange(len(household))
    if files.rows is not None:
        # Where each record of the original stands in the released file; −1 if it is not there.
        order = np.full(len(household), -1)
        order[files.rows] = np.arange(len(files.rows))
    released = (paired.released >= 0).all(axis=1) & (order >= 0)
    names = [c.name for c in published.source.columns() if c.name not in published.id_columns and c.kind != "other"]
    codes, categories = published.column_codes(names)
    columns = {c.key: codes[order[released], k] for k, c in enumerate(categories)}
    home, keys = household[released], paired.released[released]
    by_values = put_together(columns, frozenset(files.original.keys), home).sentence
    beside, n_several = stand_together(home[np.argsort(order[released], kind="stable")])
    by_order = (
        f"The rows of {number(beside)} of {number(n_several)} households of two or more stand together in the released file."
    )
    guessed = guessed_members(columns, home, keys, paired.categories)
    return " ".join(filter(None, [by_values, by_order, guessed.sentence]))


def stand_together(home: NDArray[np.integer]) -> tuple[int, int]:
    """Households of two or more whose rows stand together in a file, and how many there are; ``home`` is in the order of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> stand_together(np.array([1, 1, 2, 3, 2]))
    (1, 2)
    """
    numbers, size = np.unique(home, return_counts=True)
    starts = np.flatnonzero(np.append(True, home[1:] != home[:-1]))
    runs = np.bincount(np.searchsorted(numbers, home[starts]), minlength=len(numbers))
    return int(((runs == 1) & (size > 1)).sum()), int((size > 1).sum())


def _families(files: _PairedFiles, population: float) -> HouseholdTrials | None:
    """What intruders who know families find; None where the files do not hold whole households in comparable keys.

    Households with a member who was not released, or whose keys are missing, are left out.
    """
    data, paired = files.original, files.paired
    household = data.household_codes()
    assert household is not None
    lacks = np.unique(household[(paired.original < 0).any(axis=1) | (paired.released < 0).any(axis=1)])
    is_whole = ~np.isin(household, lacks)
    codes, released, household = paired.original[is_whole], paired.released[is_whole], household[is_whole]
    plain = Members.of(codes, household)
    incomplete = why_incomplete(codes, paired.categories, plain, fraction=len(codes) / max(population, 1.0))
    if not (plain.size > 1).any() or incomplete is not None:
        return None
    layout = find_layout(codes, paired.categories, household)
    rows = layout.rows(codes, household)
    homes_of_register = None
    if files.register is not None:
        people = Microdata(files.register, data.keys, household=data.household)
        of_people, categories = people.column_codes(data.keys)
        homes = people.household_codes()
        assert homes is not None
        place = [places(c.levels, of_key.levels) for c, of_key in zip(categories, paired.categories, strict=True)]
        of_people = np.stack([of_key[of_people[:, k]] for k, of_key in enumerate(place)], axis=1)
        if (of_people < 0).any():
            # A recoded key has other levels than the register, and nobody says which belong together.
            return None
        homes_of_register = Register.counted(layout.rows(of_people.astype(np.int32), homes).table)
    else:
        table = models.with_resolutions(rows.table, "multi")
        model = fit_backoff(table, seed=files.seed, progress=files.progress)
        n_households = max(population * rows.members.n_households / len(codes), float(rows.members.n_households))
        of_homes = record_risk(table, model, population=n_households)
        homes_of_register = Register.modelled(of_homes, model, most_cells=CELLS_TO_PLAN, seed=files.seed)
    return HouseholdTrials.of(rows, household_release(rows, released), homes_of_register)


def _with_original_as_it_is(
    trials: tuple[IntruderTrial, ...], files: _PairedFiles, key_error: Mapping[str, float]
) -> tuple[IntruderTrial, ...]:
    """The same, with what is found before taken from the original in its own levels."""
    before = files.tables[0]
    paired = align(before, before, files.people)
    original = files.release_of(paired)
    register = files.known(paired, original, files.population, progress=files.progress)
    exact, join = exact_links(original, register), participant_links(original)
    links_of = {"participant": join}
    shares = shares_of_keys(key_error, original.before.keys)
    if shares is not None:
        with_errors = links_with_errors(original, register, KeyErrors(original.before, shares), seed=files.seed)
        links_of |= {links.name: links for links in with_errors}
    return tuple(replace(trial, before=links_of.get(trial.name, exact)) for trial in trials)


def _attack_summary(files: Aligned, release: Release, trials: tuple[IntruderTrial, ...], population: float) -> AttackSummary:
    unique = int((release.after.counts == 1).sum())
    intruders = tuple(trial.summary() for trial in trials)
    return AttackSummary(
        records=len(files.original),
        changed=len(release.rows),
        unique=unique,
        population=population,
        is_counted=files.register is not None,
        recoded=files.recoded,
        not_released=len(release.gone),
        not_in_register=_not_in_register(files, release),
        at_random=unique / population,
        intruders=intruders,
        sentence=_sentence(files, release, intruders, unique / population),
    )


def _not_in_register(files: Aligned, release: Release) -> int:
    """Number of records of the original with values that nobody in the register has."""
    if files.register is None:
        return 0
    return int(release.before.counts[files.register.counts_of(release.before.cells) == 0].sum())


def _sentence(files: Aligned, release: Release, intruders: Sequence[IntruderSummary], at_random: float) -> str:
    nearest = next(intruder for intruder in intruders if intruder.name == "nearest")
    basis = "is" if files.register is not None else "is expected to be"
    apart = "Apart from recoded keys, " if files.recoded else ""
    return (
        f"{apart}{counted(len(release.rows), 'record')} of {number(len(files.original))} {'has' if len(release.rows) == 1 else 'have'} other key "
        f"values than in the original. An intruder who links every record that is unique in the released file to the nearest person "
        f"{basis} right {about_times(nearest.after)}, {about_times(nearest.before)} in the original; linking at random would be right "
        f"{number(at_random, 2)} times."
    )


# Which record of a released file belongs to which record of its original?
#
# An attack is judged by the record's own person, so the two files must be paired. A column that identifies a record in both
# does it, and then records may be in any order, and some may not have been released. Without such a column records are paired by
# their order. A file in another order would look perfectly safe, so the columns that both files have are compared first: if rows agree
# no better than they would by chance, the files are refused.

MOST_COMPARED = 20_000
"""Number of rows on which the order of two files is compared."""

FEWEST_COMPARED = 20
"""In files with fewer records than this, rows may agree or differ by chance; their order is taken as given."""

N_SHUFFLES = 10

SURE = 5.0
"""Number of standard deviations above chance at which rows are taken to belong together."""


@dataclass(frozen=True, eq=False)
class _Shared:
    """A column of both files: its categories and the codes of the compared rows in each."""

    categories: tuple[Categories, Categories]
    codes: tuple[NDArray[np.int32], NDArray[np.int32]]

    @property
    def agreement(self) -> float:
        """Share of rows with the same value in both files."""
        to_other = np.append(places(self.categories[0].levels, self.categories[1].levels), np.int32(-1))
        return float((to_other[self.codes[0]] == self.codes[1]).mean())

    @property
    def identifies(self) -> bool:
        """Whether each row has a value of its own, no measurement, and most of these values are in both files."""
        levels = self.categories[0].levels
        is_name = len(levels) == len(self.codes[0]) and all(isinstance(level, str | int | np.integer) for level in levels)
        return is_name and float((places(levels, self.categories[1].levels) >= 0).mean()) > 0.5

    def belongs_together(self) -> bool:
        """Whether values in the same row have more to do with each other than values in rows taken at random."""
        if self._rank_correlation() > SURE:
            return True
        rng = np.random.default_rng(0)
        own = self._repeats(self.codes[1])
        by_chance = [self._repeats(rng.permutation(self.codes[1])) for _ in range(N_SHUFFLES)]
        spread = max(float(np.std(by_chance)), float(np.sqrt(np.mean(by_chance))) / 10.0)
        return bool(own > np.mean(by_chance) + SURE * spread)

    def _rank_correlation(self) -> float:
        """Rank correlation of a column of numbers, in standard deviations under chance; 0 for any other column."""
        values = []
        for of_file, codes in zip(self.categories, self.codes, strict=True):
            numbers = [meaning(level) for level in of_file.levels]
            if not all(number is None or isinstance(number, float) for number in numbers):
                return 0.0
            values.append(np.array(numbers, dtype=np.float64)[codes])
        has_both = ~np.isnan(values).any(axis=0)
        before, after = (_ranks(of_file[has_both]) for of_file in values)
        if has_both.sum() <= FEWEST_COMPARED or min(np.ptp(before), np.ptp(after)) == 0.0:
            return 0.0
        correlation = np.mean((before - before.mean()) * (after - after.mean())) / (np.std(before) * np.std(after))
        return float(abs(correlation) * np.sqrt(has_both.sum() - 1))

    def _repeats(self, released: NDArray[np.int32]) -> float:
        """Sum of squares of the numbers of rows with each pair of values."""
        pair = self.codes[0].astype(np.int64) * (self.categories[1].n_levels + 1) + released
        return float((np.unique(pair, return_counts=True)[1].astype(np.float64) ** 2).sum())


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks, with the mean rank for equal values."""
    _, place, number = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(number) - (number - 1) / 2.0)[place])


def paired_tables(original: Microdata, released: Microdata, id_column: str | None) -> tuple[ContingencyTable, ContingencyTable]:
    """Tables of the two files with a row for each record of the original; −1 as the cell of one that was not released."""
    before, after = (data.table(records=True) for data in (original, released))
    if id_column is None:
        if before.n_rows == after.n_rows:
            _refuse_other_order(original, released)
        return before, after
    assert after.record_cell is not None
    rows = rows_of_released(original, released, id_column)
    record_cell = np.full(original.n_records, -1, dtype=np.int64)
    record_cell[rows] = after.record_cell
    return before, replace(after, record_cell=record_cell)


def rows_of_released(original: Microdata, released: Microdata, id_column: str) -> NDArray[np.int64]:
    """The row of the original that each record of the released file belongs to."""
    codes, levels = [], []
    for data in (original, released):
        of_file, categories = data.column_codes(data.id_columns)
        names, of_record, number = np.unique(of_file, axis=0, return_inverse=True, return_counts=True)
        values = [tuple(c.levels[code] for c, code in zip(categories, name, strict=True)) for name in names.tolist()]
        repeated = np.flatnonzero(number > 1)
        has_missing = any(c.has_missing for c in categories)
        if has_missing or len(repeated):
            what = "has missing values" if has_missing else f"has the value {_shown_id(values[repeated[0]])} more than once"
            raise BadInput(f"The column '{id_column}' of {data.source.name} {what}, so it does not identify a record.")
        codes.append(of_record.ravel())
        levels.append(values)
    code_of = {tuple(map(meaning, name)): code for code, name in enumerate(levels[0])}
    place = np.array([code_of.get(tuple(map(meaning, name)), -1) for name in levels[1]], dtype=np.int64)
    unknown = np.flatnonzero(place < 0)
    if len(unknown):
        raise BadInput(
            f"{len(unknown):,} of the {len(place):,} records of {released.source.name} have a value of '{id_column}' that no record of "
            f"{original.source.name} has, such as {_shown_id(levels[1][unknown[0]])}; every released record must belong to one of the original."
        )
    row_of_code = np.empty(len(levels[0]), dtype=np.int64)
    row_of_code[codes[0]] = np.arange(len(codes[0]))
    return row_of_code[place[codes[1]]]


def _shown_id(values: tuple[Level, ...]) -> str:
    return repr(values[0]) if len(values) == 1 else " / ".join(map(repr, values))


def _refuse_other_order(original: Microdata, released: Microdata) -> None:
    n = original.n_records
    if n < FEWEST_COMPARED:
        return
    names = [name for name, column in original.columns.items() if name in released.columns and column.kind != "other"]
    rows = np.unique(np.linspace(0, n - 1, min(n, MOST_COMPARED)).round().astype(np.int64))
    shared = dict(zip(names, _columns_of(original, released, names, rows), strict=True))
    names_of_records = {name: column for name, column in shared.items() if name not in original.keys and column.identifies}
    if names_of_records:
        name, column = max(names_of_records.items(), key=lambda named: named[1].agreement)
        if column.agreement < 0.5:
            raise _other_order(original, released, f"'{name}' has the same values in both files, but in other rows")
        return
    compared = [column for column in shared.values() if min(c.n_levels for c in column.categories) > 1]
    if compared and not any(column.belongs_together() for column in compared):
        raise _other_order(original, released, "their rows agree no better than rows taken at random")


def _other_order(original: Microdata, released: Microdata, why: str) -> BadInput:
    return BadInput(
        f"The records of {released.source.name} do not seem to be in the order of {original.source.name}: {why}. Paired like this, "
        "nobody would seem to be found. Put them in the same order, or name a column that identifies a record in both files with --id."
    )


def _columns_of(original: Microdata, released: Microdata, names: Sequence[str], rows: NDArray[np.int64]) -> list[_Shared]:
    if not names:
        return []
    (before, levels_before), (after, levels_after) = (data.column_codes(list(names), rows) for data in (original, released))
    return [
        _Shared((levels_before[k], levels_after[k]), (np.ascontiguousarray(before[:, k]), np.ascontiguousarray(after[:, k])))
        for k in range(len(names))
    ]


# ---------------------------------------------------------------------- a release whose records belong to nobody

MANY_VALUES = 120
"""A column of numbers with more distinct values than this takes part in bands."""

BANDS = 20
"""Number of bands of such a column, with about equally many records each."""


def attack_unpaired(
    released: Frame,
    *,
    original: Frame,
    keys: Sequence[str],
    columns: Sequence[str] = (),
    control: Frame | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    decimal: str | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> UnpairedMeasures:
    """Try the attacks that need no link between records of two files.

    Parameters
    ----------
    released : frame or path
        The synthetic or resampled file.
    original : frame or path
        The records it was made from.
    keys : sequence of str
        Columns that an intruder could know.
    columns : sequence of str, optional
        Columns to compare; by default all that the files share.
    control : frame or path, optional
        Records of people like those of the original who were left out of it. Without them only copies are counted.
    encoding, sheet, decimal : str, optional
        How files are read that are text or workbooks.
    seed : int
        Seed of the random choice of people and conditions.
    progress : Progress
        Receives progress reports, and can ask to stop.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> people = pa.table({"town": np.arange(200) % 4, "job": np.arange(200) % 7})
    >>> attack_unpaired(people, original=people, keys=["town", "job"]).unique_exact_matches
    0.0
    """
    frames = {"released": released, "original": original, **({} if control is None else {"control": control})}
    settings = EngineSettings(encoding=encoding, sheet=sheet, decimal=decimal)
    parts = {name: Microdata(frame, keys=list(keys), settings=settings) for name, frame in frames.items()}
    shared = [name for name in parts["original"].columns if all(name in part.columns for part in parts.values())]
    names = list(columns) or shared
    unknown = [name for name in (*names, *keys) if name not in shared]
    if unknown:
        raise UnknownColumns.among(unknown, shared, role="column of all files")
    tables = {name: _read(part, names) for name, part in parts.items()}
    checkpoint(progress, "reading the files")
    files = _coded_alike(tables, names)
    return measured(files, list(keys), np.random.default_rng(seed))


def _read(part: Microdata, names: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    if not part.source.keeps_rows:
        raise BadInput(f"The records of {part.source.name} stay on its machines; write them to Parquet files first.")
    return pa.Table.from_batches(list(part.source.batches(list(names)))).select(list(names))


def _coded_alike(tables: dict[str, pa.Table], names: Sequence[str]) -> UnpairedFiles:
    """The files as codes of the same levels; amounts in bands of all the records."""
    import pyarrow as pa

    joined = {}
    for name in names:
        columns = [table[name] for table in tables.values()]
        if len({column.type for column in columns}) > 1:
            columns = [column.cast(pa.string()) for column in columns]
        joined[name] = pa.chunked_array([chunk for column in columns for chunk in column.chunks], type=columns[0].type)
    together = pa.table(joined)
    data = Microdata(together, keys=list(names))
    bands = {
        category.key: Coding(quantiles=BANDS)
        for category in data.table(records=True).categories
        if category.n_levels > MANY_VALUES and category.is_ordered
    }
    codes, categories = Microdata(together, keys=list(names), coding=bands).column_codes(list(names))
    stops = np.cumsum([table.num_rows for table in tables.values()])[:-1]
    of_part = dict(zip(tables, np.split(np.ascontiguousarray(codes), stops), strict=True))
    return UnpairedFiles(categories, of_part["original"], of_part["released"], of_part.get("control", codes[:0]))


def measured(
    files: UnpairedFiles, keys: Sequence[str], rng: np.random.Generator, *, inferred: Sequence[str] | None = None
) -> UnpairedMeasures:
    """Try every attack on a file, and on the original as if it were released; ``inferred`` columns, or all, are guessed."""
    copies = files.copies(rng, keys)
    return UnpairedMeasures(
        people=len(files.original),
        control=len(files.control),
        unique_exact_matches=copies.unique_exact_matches,
        left_out_matches=None if math.isnan(copies.left_out_matches) else copies.left_out_matches,
        replicated_uniques=copies.replicated_uniques,
        nearer_to_people=None if math.isnan(copies.nearer_to_people) else copies.nearer_to_people,
        attacks=tuple(_attacks(files, rng, files.names if inferred is None else inferred)) if len(files.control) else (),
        columns=tuple(_given_away(files, keys, name) for name in files.names if name not in keys),
    )


def _given_away(files: UnpairedFiles, keys: Sequence[str], name: str) -> ColumnGivenAway:
    attribution = files.attribution(keys, name)
    return ColumnGivenAway(column=name, disco=attribution.disco, tcap=None if math.isnan(attribution.tcap) else attribution.tcap)


def _attacks(released: UnpairedFiles, rng: np.random.Generator, inferred: Sequence[str]) -> list[UnpairedAttack]:
    original = UnpairedFiles(released.categories, released.original, released.original, released.control)
    tried = [
        (released.singling_out(rng), original.singling_out(rng)),
        (released.linkability(rng), original.linkability(rng)),
        *((released.inference(rng, name), original.inference(rng, name)) for name in inferred),
    ]
    return [
        UnpairedAttack(
            attack=on_released.attack,
            column=on_released.columns[0] if on_released.columns else None,
            people=on_released.people.value,
            control=on_released.control.value,
            risk=on_released.risk,
            interval=on_released.interval,
            original=on_original.risk,
        )
        for on_released, on_original in tried
        if on_released.people.attempts and on_original.people.attempts
    ]
