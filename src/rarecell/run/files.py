"""Which files does a run leave, and what is in them?

Files are written one by one into the hidden folder of the run (:mod:`rarecell.run.folder`) and moved into place together.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rarecell.engine.addresses import without_password
from rarecell.engine.output import write_parquet
from rarecell.machine.threads import on_all_cores
from rarecell.risk.records import household_risk
from rarecell.risk.unsafe import individual_risk
from rarecell.run import folder as audit
from rarecell.run.config import RunConfig
from rarecell.run.publishing import RECORD

if TYPE_CHECKING:
    from rarecell.run.orchestration import Assessment
    from rarecell.run.stages import Stages

_PIECE = 1_000_000


@contextlib.contextmanager
def run_folder(out: str | Path | None, overwrite: bool, inputs: Iterable[Path] = ()) -> Iterator[audit.RunFolder | None]:
    if out is None:
        yield None
        return
    with audit.open_run_folder(out, overwrite=overwrite, inputs=inputs) as folder:
        yield folder


def write_assessment(folder: audit.RunFolder, found: Assessment, whole: Mapping[str, Any], stages: Stages) -> None:
    from rarecell.report import write_report
    from rarecell.report.pictures import all_pictures

    with ThreadPoolExecutor(1) as pool:
        # Charts are drawn by a program of their own, which leaves this one free to write.
        drawing = pool.submit(all_pictures, whole)
        with stages.stage("writing the risk file"):
            _write_risk(folder.path("risk.parquet"), found)
        drawing.result()
    with stages.stage("writing the report"):
        folder.write_text("summary.json", json.dumps(whole, indent=2) + "\n")
        stored = {"best": found.model.to_dict(), "risk_model": found.choice.risk_model.describe()}
        folder.write_text("model.json", json.dumps(stored, indent=2) + "\n")
        folder.write_text("zeros.json", json.dumps(found.zeros.to_dict(), indent=2) + "\n")
        folder.write_text("run.toml", found.config.to_toml())
        for edition in ("internal", "external"):
            write_report(folder.stage, whole, found.riskiest, edition=edition)


def _write_risk(path: Path, found: Assessment) -> None:
    """The risk file: a row for each record, in the order of the input; on Spark a folder of files, with ids."""
    data, table = found.data, found.table
    listed = found.risk.riskiest(len(found.riskiest))
    if data.source.keeps_rows:
        # The last place is for dropped records, whose cell is −1.
        rows_of_listed = np.full(table.n_cells + 1, -1, dtype=np.int64)
        write_parquet(path, _risk_pieces(found, rows_of_listed))
        places = rows_of_listed[table.cell_of(listed)].tolist()
    else:
        data.write_cell_values(path, table, _risk_of_cells(found))
        places = data.drawn_records(table, listed, seed=0)[0].to_pylist() if data.id is not None else [None] * len(listed)
    for one, place in zip(found.riskiest, places, strict=True):
        one["record"] = place


def _risk_of_cells(found: Assessment) -> dict[str, NDArray[Any]]:
    table, risk = found.table, found.risk
    return {
        "cell_count": risk.sample_count,
        "cell_probability": np.exp(risk.log_cell_probability),
        "unique_probability": risk.unique_probability,
        "match_probability": risk.match_probability,
        "swappable": found.swappability.is_swappable,
        "suda_score": found.unsafe.suda_score,
        "dis_suda_score": found.unsafe.dis_suda_score(sampling_fraction=min(1.0, table.n_records / risk.population)),
        "individual_risk": individual_risk(table, population=risk.population),
    }


def _risk_pieces(found: Assessment, last_row: NDArray[np.int64]) -> Iterator[dict[str, Any]]:
    """The risk file, some records at a time, in the order of the input; ``last_row`` becomes the last record of each cell."""
    of_cell = _risk_of_cells(found)
    household = None
    if found.config.household is not None:
        codes = found.data.column_codes([found.config.household])[0][:, 0]
        household = household_risk(found.risk.per_record()["unique_probability"], codes)
    first = 0
    for cells in _record_cells(found):
        dropped = np.flatnonzero(cells < 0)
        piece: dict[str, Any] = {"record": np.arange(first, first + len(cells))}
        last_row[cells] = piece["record"]
        piece.update(zip(of_cell, on_all_cores(np.take, [(values, cells) for values in of_cell.values()]), strict=True))
        for name, values in of_cell.items():
            piece[name][dropped] = 0 if values.dtype.kind in "ib" else np.nan
        if household is not None:
            piece["household_probability"] = household[first : first + len(cells)]
        first += len(cells)
        yield piece


def _record_cells(found: Assessment) -> Iterator[NDArray[np.int64]]:
    if found.table.record_cell is None:
        yield from found.data.record_cells(found.table)
        return
    for start in range(0, len(found.table.record_cell), _PIECE):
        yield found.table.record_cell[start : start + _PIECE]


def publish(folder: audit.RunFolder, command: str, config: RunConfig, found: Assessment, stages: Stages) -> None:
    given: dict[str, Any] = {"path": config.spark_table or without_password(config.input), "records": found.data.n_records}
    source = found.data.source
    if (sha256 := source.unchanged_hash()) is not None:
        given["sha256"] = sha256
    if len(source.paths) > 1:
        given["parts"] = len(source.paths)
    seconds = {k: round(v, 4) for k, v in stages.seconds.items()}
    record = audit.RunRecord(command, audit.versions(), given, config.seed, seconds, (*folder.names, RECORD))
    folder.write_text(RECORD, record.to_json())
    folder.publish()
