"""Which files does a run write, and what is in them?

Files are written one by one into the hidden folder of the run (:mod:`rarecell.run.folder`) and moved into place together.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import numpy as np

from rarecell.data.written import recode_csv
from rarecell.engine.output import write_parquet
from rarecell.engine.places import files_below, files_hash, without_password
from rarecell.machine.memory import peak_memory
from rarecell.outcome.records import RemainingRecord, RiskyRecord
from rarecell.outcome.roles import Provenance
from rarecell.outcome.summary import RunSummary
from rarecell.progress import Stage, Stages
from rarecell.report import write_report
from rarecell.run import folder as folders
from rarecell.run.inputs import inputs_of
from rarecell.run.publishing import RECORD
from rarecell.run.results import Assessment, Protection, risk_of_cells, risk_pieces
from rarecell.swap.apply import write_plan

if TYPE_CHECKING:
    from rarecell.edges import Json


@contextlib.contextmanager
def run_folder(out: str | Path | None, overwrite: bool, inputs: Iterable[Path] = ()) -> Iterator[folders.RunFolder | None]:
    if out is None:
        yield None
        return
    with folders.open_run_folder(out, overwrite=overwrite, inputs=inputs) as folder:
        yield folder


def save_assessment(assessment: Assessment, out: str | Path, stages: Stages, *, overwrite: bool) -> Path:
    """Write the files of an assessment made earlier."""
    inputs = (*assessment.data.source.paths, *inputs_of(assessment.config))
    with folders.open_run_folder(out, overwrite=overwrite, inputs=inputs) as folder:
        write_assessment(folder, assessment, assessment.summary, stages)
        publish(folder, "assess", assessment, stages)
    return Path(out)


def save_protection(result: Protection, out: str | Path, stages: Stages, *, overwrite: bool) -> Path:
    """Write the files of a protection made earlier."""
    inputs = (*result.assessment.data.source.paths, *inputs_of(result.assessment.config))
    with folders.open_run_folder(out, overwrite=overwrite, inputs=inputs) as folder:
        write_protection(folder, result, stages)
        publish(folder, "protect", result.assessment, stages)
    return Path(out)


def write_protection(folder: folders.RunFolder, result: Protection, stages: Stages) -> None:
    """Write the protected file, who was swapped with whom, and the files of the assessment."""
    assessment, plan = result.assessment, result.plan
    with stages.stage(Stage.PROTECTED_FILE):
        written = write_plan(
            plan,
            assessment.data,
            folder.path(f"protected{assessment.data.source.suffix}"),
            release=result.release,
            others=result.treated.changes,
        )
        write_parquet(folder.path("swaps.parquet"), plan.audit(written.places))
        if result.release.exchanged:
            write_parquet(folder.path("exchanged.parquet"), exchanged_values(result))
        if result.suppression is not None:
            write_parquet(folder.path("suppressed.parquet"), result.suppression.audit())
        recodes = {**assessment.data.recodes, **result.treated.recodes}
        if recodes:
            folder.write_text("recoding.csv", recode_csv(recodes))
    write_assessment(folder, assessment, result.summary, stages, released=written.path, riskiest_released=result.riskiest)


def exchanged_values(protection: Protection) -> dict[str, list[object]]:
    """One row for each value of a sensitive column that a record got from another: the column, and both records."""
    rows: dict[str, list[object]] = {"column": [], "record": [], "partner": []}
    source = protection.assessment.data.source
    for name, (receivers, sources) in protection.release.exchanged.items():
        rows["column"] += [name] * len(receivers)
        rows["record"] += source.places(receivers).tolist()
        rows["partner"] += source.places(sources).tolist()
    return rows


def provenance_of(assessment: Assessment, released: Path | None) -> Provenance:
    """Where the numbers of a run come from."""
    config = assessment.config
    released_hash = None if released is None else files_hash(files_below(released))
    return Provenance(
        # The date without the time, so that repeating a run on the same day gives the same files.
        date=datetime.date.today().isoformat(),
        input=PurePath(config.spark_table or without_password(config.input)).name,
        input_sha256=assessment.data.source.unchanged_hash(),
        released=None if released is None else released.name,
        released_sha256=released_hash,
        version=folders.versions()["rarecell"],
        seed=config.seed,
        by=config.by,
        run=run_name(assessment, released_hash),
    )


def run_name(assessment: Assessment, released: str | None) -> str:
    """The name of a run: equal for the same choices and the same release, different for anything else.

    The name of a release travels with it, so it is derived from nothing that is secret: with a function of the original file, or
    of the swap seed, guesses could be confirmed by trial. A run that releases nothing is named by its input instead of a release.
    """
    config = replace(assessment.config, input=PurePath(assessment.config.input).name, protect=None, seed=0)
    parts = (config.to_toml(), released or str(assessment.data.source.unchanged_hash()))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def write_assessment(
    folder: folders.RunFolder,
    assessment: Assessment,
    summary: RunSummary,
    stages: Stages,
    *,
    released: Path | None = None,
    riskiest_released: Sequence[RemainingRecord] = (),
) -> None:
    """Write the summary, the model, the risk file and both editions of the report."""
    summary = replace(summary, provenance=provenance_of(assessment, released))
    with stages.stage(Stage.RISK_FILE):
        riskiest = _write_risk(folder.path("risk.parquet"), assessment)
    with stages.stage(Stage.REPORT):
        folder.write_text("summary.json", json.dumps(summary.to_dict(), indent=2) + "\n")
        stored = {"best": assessment.model.to_dict(), "risk_model": assessment.choice.risk_model.describe()}
        folder.write_text("model.json", json.dumps(stored, indent=2) + "\n")
        folder.write_text("zeros.json", json.dumps(assessment.zeros.to_dict(), indent=2) + "\n")
        folder.write_text("run.toml", assessment.config.to_toml())
        groups = assessment.roles.homogeneous_groups()
        for edition in ("internal", "external"):
            place = _seen_from_here(folder.target)
            write_report(
                folder.stage,
                summary,
                riskiest,
                edition=edition,
                groups=groups,
                riskiest_released=riskiest_released,
                place=place,
            )


def _seen_from_here(folder: Path) -> str:
    """A folder relative to where the program was started, if it lies below."""
    try:
        return folder.resolve().relative_to(Path.cwd()).as_posix()
    except (OSError, ValueError):
        return folder.resolve().as_posix()


def _write_risk(path: Path, assessment: Assessment) -> tuple[RiskyRecord, ...]:
    """Write the risk file: a row for each record, in the order of the input; on Spark a folder of files, with ids.

    Returns the riskiest records with their positions, which are known only once every record has been seen.
    """
    data, table = assessment.data, assessment.table
    listed = assessment.risk.riskiest(len(assessment.riskiest))
    if data.source.keeps_rows:
        # The extra last element is for dropped records, whose cell is −1.
        rows_of_listed = np.full(table.n_cells + 1, -1, dtype=np.int64)
        write_parquet(path, risk_pieces(assessment, rows_of_listed))
        places = data.source.places(rows_of_listed[table.cell_of(listed)]).tolist()
    else:
        data.write_cell_values(path, table, risk_of_cells(assessment))
        places = data.drawn_records(table, listed, seed=0)[0].to_pylist() if data.id_column is not None else [None] * len(listed)
    return tuple(replace(risky, record=place) for risky, place in zip(assessment.riskiest, places, strict=True))


def publish(folder: folders.RunFolder, command: str, assessment: Assessment, stages: Stages) -> None:
    """Write the run record and move the finished files into place."""
    config = assessment.config
    input_record: Json = {"path": config.spark_table or without_password(config.input), "records": assessment.data.n_records}
    source = assessment.data.source
    if (sha256 := source.unchanged_hash()) is not None:
        input_record["sha256"] = sha256
    if len(source.paths) > 1:
        input_record["parts"] = len(source.paths)
    seconds = {str(stage): round(spent, 4) for stage, spent in {**assessment.seconds, **stages.seconds}.items()}
    run = json.loads((folder.stage / "summary.json").read_text(encoding="utf-8"))["provenance"]["run"]
    record = folders.RunRecord(
        command,
        folders.versions(),
        input_record,
        config.seed,
        seconds,
        {str(stage): round(spent, 4) for stage, spent in stages.processor_seconds.items()},
        peak_memory(),
        (*folder.names, RECORD),
        run,
    )
    folder.write_text(RECORD, record.to_json())
    folder.publish()
