"""Which folder may leave the office, and what is in it?

``protected.*`` is aligned with the input, row by row, and stays inside with everything else of a run. A handover is a deliberate act
after the decision: it makes the folder ``handover/`` with the file, whose identifiers are dropped or renumbered at random and whose
rows are shuffled by a secret seed, with a codebook, the recodings, one page for users and the external report. The key that says
which row is which record stays in the run folder.

A handover stops where the profile of the run says *do not release*, unless a reason is given, and where a column looks as if it named
persons.
"""

from __future__ import annotations

import datetime
import json
import secrets
import shlex
import shutil
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rarecell.data.describe import proposed_missing_codes
from rarecell.data.identifiers import direct_identifier
from rarecell.data.levels import settle
from rarecell.data.microdata import Microdata
from rarecell.data.missing_codes import EVERY_COLUMN, parse_missing_codes, shown_codes, with_missing_codes
from rarecell.data.names import columns_together, joined_names
from rarecell.engine import open_source
from rarecell.engine.changes import Changes
from rarecell.engine.duck import EngineSettings
from rarecell.engine.output import write_parquet
from rarecell.engine.places import TEXT_SUFFIXES, files_below, files_hash
from rarecell.engine.source import Column, Source
from rarecell.errors import BadInput, OutputExists, UnknownColumns
from rarecell.machine.memory import MemoryLimit
from rarecell.outcome.profile import DO_NOT_RELEASE
from rarecell.outcome.release import HandedColumn, Handover
from rarecell.outcome.summary import RunSummary
from rarecell.outcome.words import is_formula, listed
from rarecell.progress import SILENT, Progress
from rarecell.report.edition import external
from rarecell.report.handover import codebook_csv, codebook_xml, formula_warning, users_page
from rarecell.run.config import RunConfig
from rarecell.run.folder import open_finished_run, versions
from rarecell.run.saved import SavedRun

FOLDER, KEY, HANDOVER_RECORD = "handover", "release-key.parquet", "handover.json"

MOST_RECORDS_READ = 100_000
"""Columns are judged by the values of this many records."""

MOST_LEVELS_LISTED = 60
"""Levels of a column with at most this many are listed in the codebook."""


class NotHandedOver(BadInput):
    """The file may not leave as it is."""


@dataclass(frozen=True)
class HandoverRequest:
    """What a handover should be like.

    Attributes
    ----------
    signed_by : str
        Who is responsible.
    reason : str
        Why the file may go although the profile says otherwise.
    keep_order, keep_ids : bool
        Keep the order of the records, and the names and numbers of records and households.
    unlink_households : bool
        Leave the household number out, so that nobody sees who lives with whom.
    drop : tuple of str
        Further columns to leave out.
    accept : tuple of str
        Columns that may go although they look as if they named persons.
    overwrite : bool
        Replace an earlier handover.
    """

    signed_by: str = ""
    reason: str = ""
    keep_order: bool = False
    keep_ids: bool = False
    unlink_households: bool = False
    drop: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()
    overwrite: bool = False


def handover(
    run: str | Path,
    *,
    signed_by: str = "",
    reason: str = "",
    keep_order: bool = False,
    keep_ids: bool = False,
    unlink_households: bool = False,
    drop: Sequence[str] = (),
    accept: Sequence[str] = (),
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Make the folder of a run that may leave the office, and return it.

    Parameters
    ----------
    run : str or Path
        The folder of a finished protection.
    signed_by : str, optional
        Who is responsible; the page for users says so.
    reason : str, optional
        Why the file may go although the profile of the run says *do not release*; it is recorded.
    keep_order, keep_ids : bool
        Keep the order of the records, and the names and numbers of records and households as the office uses them.
    unlink_households : bool
        Leave the household number out.
    drop : sequence of str
        Further columns to leave out.
    accept : sequence of str
        Columns that may go although they look as if they named persons.
    overwrite : bool
        Replace an earlier handover of the run.
    progress : Progress
        Receives the steps.

    Returns
    -------
    Path
        The folder.
    """
    try:
        f"{signed_by}{reason}".encode()
    except UnicodeEncodeError:
        raise BadInput("The name or the reason holds bytes that are no text; it is recorded, so write it in letters.") from None
    request = HandoverRequest(signed_by, reason, keep_order, keep_ids, unlink_households, tuple(drop), tuple(accept), overwrite)
    saved = SavedRun.read(run)
    summary, config = saved.summary, saved.config
    _refuse_by_profile(summary, request)
    target = saved.place
    if (target / FOLDER).exists() and not overwrite:
        raise OutputExists(f"{target / FOLDER} was made before. Replace it with --overwrite, if it has not left the office.")
    released = _protected_file(target)
    with open_finished_run(target) as folder:
        progress.start("reading the protected file")
        settings = EngineSettings(
            memory=MemoryLimit.of(config.memory), encoding=config.encoding, sheet=config.sheet, decimal=config.decimal
        )
        source = open_source(released, settings=settings)
        plan = _plan(source, config, request)
        _refuse_identifiers(source, config, plan, request)
        progress.start("writing the file")
        stage = folder.path(FOLDER)
        stage.mkdir(mode=0o700)
        file = source.write(stage / f"data{source.suffix}", plan.changes)
        record = _described(source, file, saved, plan, request)
        write_parquet(folder.path(KEY), plan.key)
        title = PurePath(config.input or config.spark_table or "data").stem
        (stage / "codebook.csv").write_text(codebook_csv(record.columns), encoding="utf-8")
        (stage / "codebook.xml").write_text(codebook_xml(record, title), encoding="utf-8")
        (stage / "about.html").write_text(users_page(record, external(summary), title), encoding="utf-8")
        for name, as_name in (("recoding.csv", "recoding.csv"), ("report-external.html", "report.html")):
            if (target / name).is_file():
                shutil.copyfile(target / name, stage / as_name)
        folder.write_text(HANDOVER_RECORD, json.dumps(record.to_dict(), indent=2, ensure_ascii=False) + "\n")
        folder.add()
        progress.done()
    return target / FOLDER


def warnings_of(run: str | Path) -> tuple[str, ...]:
    """What somebody should know who gives a handed-over file away."""
    record = Handover.from_dict(json.loads((Path(run) / HANDOVER_RECORD).read_text(encoding="utf-8")), where=HANDOVER_RECORD)
    return (formula_warning(record),) if record.formulas else ()


def _refuse_by_profile(summary: RunSummary, request: HandoverRequest) -> None:
    if summary.swap is None:
        raise NotHandedOver("This run assessed a file and protected nothing. Protect it first: rarecell protect … --out DIR.")
    judgement = None if summary.release is None else summary.release.profile
    if judgement is not None and judgement.verdict == DO_NOT_RELEASE and not request.reason.strip():
        reasons = " ".join(reason.sentence for reason in judgement.reasons if reason.is_refusal)
        raise NotHandedOver(
            f"The profile '{judgement.name}' says: do not release. {reasons} To hand the file over all the same, give the reason with "
            "--reason; it is recorded."
        )


def _protected_file(target: Path) -> Path:
    written = sorted(target.glob("protected*"))
    if not written:
        raise NotHandedOver(f"{target} holds no protected file; protect the data first.")
    return written[0]


# ---------------------------------------------------------------------- what is written differently


@dataclass(frozen=True, eq=False)
class _Plan:
    """What the file differs in from the protected one, and which row of it is which record."""

    changes: Changes
    key: Mapping[str, object]
    identifiers: str
    renumbered: tuple[str, ...]


def _plan(source: Source, config: RunConfig, request: HandoverRequest) -> _Plan:
    names = [column.name for column in source.columns()]
    unknown = [name for name in (*request.drop, *request.accept) if name not in names]
    if unknown:
        raise UnknownColumns.among(unknown, names)
    n = source.n_rows
    # Secret: whoever could draw the same order would know which record is which.
    rng = np.random.default_rng(secrets.randbits(128))
    order = None if request.keep_order else rng.permutation(n)
    row_of = np.arange(n) if order is None else np.argsort(order)
    key: dict[str, object] = {"record": np.arange(n), "released_row": row_of}
    of_household = [name for name in columns_together(config.household, names, "household") if name in names]
    # An area may be a key and a part of what numbers households or persons: it stays, as it was protected.
    numbers = [name for name in of_household if name not in config.keys]
    of_record = [name for name in columns_together(config.id, names, "id") if name in names]
    dropped, treated, renumbered = set(request.drop), dict[str, pa.Array](), tuple[str, ...]()
    for name in of_record:
        part = pa.chunked_array([batch.column(0) for batch in source.batches([name])])
        key["id" if len(of_record) == 1 else f"id:{name}"] = part.combine_chunks()
    if not request.keep_ids:
        dropped |= set(of_record) - {*of_household, *config.keys}
    if request.unlink_households:
        dropped |= set(numbers)
    elif numbers and not request.keep_ids and not set(numbers) <= dropped:
        treated[numbers[-1]] = _new_numbers(source, of_household, rng)
        dropped |= set(numbers[:-1])
        renumbered = (numbers[-1],)
        key["household"] = treated[numbers[-1]]
    identifiers = "kept" if request.keep_ids else "renumbered" if renumbered else "dropped"
    return _Plan(Changes(treated=treated, dropped=frozenset(dropped), order=order), key, identifiers, renumbered)


def _new_numbers(source: Source, columns: Sequence[str], rng: np.random.Generator) -> pa.Array:
    """Numbers from 1 for households, in random order; records without a household get one of their own."""
    other = next(
        (column.name for column in source.columns() if column.name not in columns and column.kind != "other"), columns[0]
    )
    codes = Microdata(source, keys=[other], household=joined_names(columns)).household_codes()
    assert codes is not None
    number: NDArray[np.int64] = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return pa.array(rng.permutation(int(number.max(initial=-1)) + 1)[number] + 1)


def _refuse_identifiers(source: Source, config: RunConfig, plan: _Plan, request: HandoverRequest) -> None:
    """Stop where a column looks as if it named persons, unless it is left out, or accepted by name."""
    passed: set[str | None] = {*plan.changes.dropped, *plan.renumbered, *request.accept, *config.keys, config.weight}
    if request.keep_ids:
        passed |= {*columns_together(config.id, [], "id"), *columns_together(config.household, [], "household")}
    suspects = naming_columns(source, passed)
    if suspects:
        names = shlex.quote(joined_names(list(suspects)[:8]))
        raise NotHandedOver(
            f"These {suspicion(suspects)}. Leave them out (--drop {names}), treat them when the "
            f"file is protected (--treat), or accept them by name (--accept {names})."
        )


def naming_columns(source: Source, passed: Container[str | None]) -> dict[str, str]:
    """Columns that look as if they named persons or singled them out, and why; those that are ``passed`` are not looked at."""
    columns = [column for column in source.columns() if column.name not in passed]
    suspects = {}
    for column in columns:
        if column.kind == "other":
            suspects[column.name] = "lists or binary data, which nobody looked into"
            continue
        values, n = _distinct(source, column)
        if column.stored_date is not None:
            values = [date for date in settle(pa.array(values), column).values if date is not None]
        what = direct_identifier(column.name, values, n, is_date=column.kind == "date" or column.stored_date is not None)
        if what is not None:
            suspects[column.name] = what
    return suspects


def suspicion(suspects: Mapping[str, str]) -> str:
    """What :func:`naming_columns` found, in words."""
    columns = listed([f"'{name}' ({what})" for name, what in list(suspects.items())[:8]])
    return f"columns look as if they named persons or singled them out: {columns}"


def _distinct(source: Source, column: Column) -> tuple[list[object], int]:
    """The distinct values of a column in the first records, without missing ones, and how many records have one."""
    distinct: set[object] = set()
    n_left, n = MOST_RECORDS_READ, 0
    for batch in source.batches([column.name]):
        array = batch.column(0).slice(0, n_left)
        encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        values = [value for value in encoded.dictionary.to_pylist() if value not in (None, "") and value == value]
        distinct.update(value for value in values if not column.is_user_missing(value))
        n += len(array) - array.null_count
        n_left -= len(array)
        if n_left <= 0:
            break
    return list(distinct), n


# ---------------------------------------------------------------------- what is told


def _described(source: Source, file: Path, saved: SavedRun, plan: _Plan, request: HandoverRequest) -> Handover:
    judgement = None if saved.summary.release is None else saved.summary.release.profile
    return Handover(
        date=datetime.date.today().isoformat(),
        signed_by=request.signed_by.strip(),
        reason=request.reason.strip(),
        verdict="" if judgement is None else judgement.verdict,
        file=file.name,
        sha256=files_hash(files_below(file)),
        records=source.n_rows,
        identifiers=plan.identifiers,
        order="kept" if request.keep_order else "shuffled",
        dropped=tuple(sorted(plan.changes.dropped)),
        accepted=request.accept,
        formulas=_formulas(source, file, plan),
        columns=_columns(source, saved, plan),
        run="" if saved.summary.provenance is None else saved.summary.provenance.run or "",
        version=versions()["rarecell"],
    )


def _formulas(source: Source, file: Path, plan: _Plan) -> tuple[str, ...]:
    """Columns of a text file with values that a spreadsheet would run; other formats say what is text."""
    if not set(file.suffixes) & set(TEXT_SUFFIXES):
        return ()
    released_columns = [column for column in source.columns() if column.name not in {*plan.changes.dropped, *plan.renumbered}]
    return tuple(
        column.name
        for column in released_columns
        if column.kind != "other" and any(isinstance(value, str) and is_formula(value) for value in _distinct(source, column)[0])
    )


def _columns(source: Source, saved: SavedRun, plan: _Plan) -> tuple[HandedColumn, ...]:
    done = _what_was_done(saved.summary, plan)
    labels = _original_labels(saved.config)
    columns = []
    codes = _missing_codes(source, saved.config)
    for column in with_missing_codes({column.name: column for column in source.columns()}, codes).values():
        if column.name in plan.changes.dropped:
            continue
        kind = {"integer": "number", "untyped": "text"}.get(column.kind, column.kind)
        levels: tuple[tuple[str, str], ...] = ()
        if column.name not in plan.renumbered and column.kind != "other":
            values, _ = _distinct(source, column)
            if column.kind == "untyped" and values and all(_is_number(value) for value in values):
                kind = "number"
            if len(values) <= MOST_LEVELS_LISTED:
                of_values = column.value_labels or labels.get(column.name, Column(column.name, "text")).value_labels
                levels = tuple((str(value), str(of_values.get(value, ""))) for value in sorted(values, key=_by_number))
        columns.append(
            HandedColumn(
                name=column.name,
                label=column.label or labels.get(column.name, column).label,
                kind=kind,
                levels=levels,
                missing=tuple(dict.fromkeys(shown_codes(code) for code in column.user_missing if not str(code).startswith("."))),
                done=done.get(column.name, HandedColumn.done),
            )
        )
    return tuple(columns)


def _missing_codes(source: Source, config: RunConfig) -> Mapping[str, Sequence[str]]:
    """Codes of columns of the file that mean "missing" according to the run."""
    if config.missing_codes is None:
        return {}
    codes = parse_missing_codes(config.missing_codes)
    names = {EVERY_COLUMN, *(column.name for column in source.columns())}
    listed_codes = proposed_missing_codes(source) if codes is None else codes
    return {name: of_column for name, of_column in listed_codes.items() if name in names}


def _is_number(value: object) -> bool:
    try:
        float(str(value).replace(",", "."))
    except ValueError:
        return False
    return True


def _by_number(value: object) -> tuple[bool, float, str]:
    return (not _is_number(value), float(str(value).replace(",", ".")) if _is_number(value) else 0.0, str(value))


def _original_labels(config: RunConfig) -> dict[str, Column]:
    """Columns of the input with their labels, if it is still there: a recoded column of the protected file has none."""
    if not config.input or config.sql is not None or not Path(config.input).exists():
        return {}
    settings = EngineSettings(encoding=config.encoding, sheet=config.sheet, decimal=config.decimal)
    source = open_source(config.input, settings=settings)
    return {column.name: replace(column, value_labels={}) for column in source.columns()}


def _what_was_done(summary: RunSummary, plan: _Plan) -> dict[str, str]:
    """What was done to each column, in words that tell nothing about single records."""
    done: dict[str, list[str]] = {}
    for key in summary.keys:
        if key.recode:
            done.setdefault(key.name, []).append(f"recoded: {key.recode}")
    swap = summary.swap
    if swap is not None:
        for key in summary.keys:
            done.setdefault(key.name, []).append("values of some records may have been exchanged")
        for name in swap.carried:
            done.setdefault(name, []).append("exchanged together with a key that it depends on")
        for name, n in (swap.suppression.by_key if swap.suppression is not None else {}).items():
            if n:
                done.setdefault(name, []).append("some values were made missing")
        for target in swap.attribute_targets:
            if target.exchanged:
                done.setdefault(target.column, []).append("values of some records may have been exchanged")
            if target.blanked:
                done.setdefault(target.column, []).append("some values were made missing")
    for treatment in () if summary.release is None else summary.release.treatments:
        done.setdefault(treatment.column, []).append(f"treated: {treatment.words}")
    for name in plan.renumbered:
        done[name] = ["numbered anew at random"]
    return {name: "; ".join(words) for name, words in done.items()}
