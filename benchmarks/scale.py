"""How do time and memory of a whole ``assess`` grow with the number of records?

Records are drawn from a decomposable model with the paper's dimensions, 14×2×91×5×14×7×2×5 and the cliques of its best model,
and from a sparser one with two more keys, in which most cells hold a single record; they are streamed to a file: Parquet with
small whole numbers, which is what an engine reads fastest, Parquet with labels in words, or CSV. The assessment runs in a
process of its own and writes all its results. Beside it, another process counts the same file by one ``GROUP BY`` of the keys
in DuckDB and nothing else: the ratio of the two is the price of the answer over that of the counts. Both are timed from the
first import on. For each stage the processor time is divided by that of the clock: 2 means that two cores were busy. The
memory that ``--dry-run`` states stands beside the memory that was used. A size that does not fit into the memory is skipped.

    python benchmarks/scale.py                       # 1e4 to 1e7 records
    python benchmarks/scale.py --model census --least 1e7 --layout csv
    python benchmarks/scale.py --most 1e8 --model census --memory 4 --protect 500
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import Watching, apart

CHUNK = 1_000_000
TARGET_RATIO = 20


@dataclass(frozen=True)
class Tree:
    """A decomposable model whose cliques are pairs: every key but the first depends on one earlier key.

    ``evenness`` is the concentration of the conditional distributions: small values put the records into few cells.
    """

    keys: tuple[str, ...]
    levels: tuple[int, ...]
    parent: tuple[int, ...]
    evenness: float

    def chunks(self, n_records: int, seed: int = 0) -> Iterator[pa.RecordBatch]:
        rng = np.random.default_rng(seed)
        tables = []
        for key, parent in enumerate(self.parent):
            n_given = 1 if parent < 0 else self.levels[parent]
            rows = rng.gamma(self.evenness, size=(n_given, self.levels[key])) + 1e-4
            tables.append(np.cumsum(rows, axis=1) / rows.sum(axis=1, keepdims=True))
        for first in range(0, n_records, CHUNK):
            n_rows = min(CHUNK, n_records - first)
            codes: list[np.ndarray] = []
            for key, parent in enumerate(self.parent):
                given = np.zeros(n_rows, dtype=np.int64) if parent < 0 else codes[parent].astype(np.int64)
                # Cumulative probabilities of row r lie between r and r + 1, so that one search serves all rows.
                flat = (tables[key] + np.arange(len(tables[key]))[:, None]).ravel()
                found = np.searchsorted(flat, rng.random(n_rows) + given) - given * self.levels[key]
                codes.append(np.clip(found, 0, self.levels[key] - 1).astype(np.int16))
            yield pa.record_batch(codes, names=list(self.keys))


# Age is first: the paper's cliques are 15, 16, 36, 46, 37, 28, 38 with its keys counted from 1.
CENSUS = Tree(
    ("age", "spouse", "employment", "relationship", "marital", "education", "child", "sex"),
    (91, 7, 2, 14, 5, 14, 5, 2),
    (-1, 0, 0, 1, 1, 3, 0, 6),
    evenness=0.5,
)
SPARSE = Tree((*CENSUS.keys, "region", "occupation"), (*CENSUS.levels, 60, 25), (*CENSUS.parent, -1, 5), evenness=1.0)
MODELS = {"census": CENSUS, "sparse": SPARSE}


LAYOUTS = ("numbers", "labels", "csv")


def write_records(tree: Tree, n_records: int, path: Path, layout: str) -> None:
    writer: pq.ParquetWriter | pa_csv.CSVWriter | None = None
    for batch in tree.chunks(n_records):
        if layout == "labels":
            batch = pa.record_batch(
                [_labels(key, batch.column(key), n) for key, n in zip(tree.keys, tree.levels, strict=True)], tree.keys
            )
        if writer is None:
            writer = pa_csv.CSVWriter(path, batch.schema) if layout == "csv" else pq.ParquetWriter(path, batch.schema)
        writer.write_batch(batch)
    assert writer is not None
    writer.close()


def _labels(key: str, codes: pa.Array, n_levels: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(codes, [f"{key}, category {code}" for code in range(n_levels)]).dictionary_decode()


# ---------------------------------------------------------------------- measured in a process of its own


def _count(path: str, keys: list[str], memory: float) -> dict[str, Any]:
    started = time.perf_counter()
    import duckdb

    connection = duckdb.connect(config={"memory_limit": f"{memory}GB"})
    names = ", ".join(f'"{key}"' for key in keys)
    found = connection.sql(f"SELECT {names}, count(*) AS n FROM '{path}' GROUP BY ALL").to_arrow_table()
    return {"seconds": time.perf_counter() - started, "processor": time.process_time(), "cells": found.num_rows}


def _assess(path: str, keys: list[str], n_records: int, out: str, memory: float, n_protected: int) -> dict[str, Any]:
    started = time.perf_counter()
    import rarecell as rc
    from rarecell.errors import TooLarge
    from rarecell.machine.memory import MemoryLimit
    from rarecell.run.config import ProtectConfig, RunConfig
    from rarecell.run.models import size_of

    protect = ProtectConfig(top=n_protected) if n_protected else None
    config = RunConfig(input=path, keys=tuple(keys), population=20 * n_records, memory=f"{memory}GB", protect=protect)
    watching = Watching()
    act = rc.protect if n_protected else rc.assess
    try:
        result = act(config, out=out, progress=watching)
    except TooLarge as problem:
        return {"refused": str(problem)}
    seconds = time.perf_counter() - started
    found = result.assessment if n_protected else result
    table = found.table
    stated = MemoryLimit.of(config.memory).needed(size_of(table, has_swaps=bool(n_protected)))
    return {
        "seconds": seconds,
        "processor": time.process_time(),
        "stages": watching.stages,
        "stated": stated / 1e9,
        "uniques": found.summary.risk.sample_uniques,
    }


def growth(sizes: list[int], seconds: list[float]) -> list[float]:
    """Exponent of growth from each size to the next."""
    return [math.log(seconds[k + 1] / seconds[k]) / math.log(sizes[k + 1] / sizes[k]) for k in range(len(sizes) - 1)]


def compare(name: str, sizes: list[int], layout: str, memory: float, n_protected: int) -> list[dict[str, Any]]:
    tree = MODELS[name]
    rows = []
    for n_records in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / ("records.csv" if layout == "csv" else "records.parquet")
            write_records(tree, n_records, path, layout)
            counted = apart(_count, str(path), list(tree.keys), memory)
            about = (str(path), list(tree.keys), n_records)
            assessed = apart(_assess, *about, str(Path(folder) / "out"), memory, 0)
            is_protected = n_protected and "refused" not in assessed
            protected = apart(_assess, *about, str(Path(folder) / "protected"), memory, n_protected) if is_protected else None
        refused = assessed.get("refused") or (protected or {}).get("refused")
        if refused:
            print(f"{name:8} {n_records:>12,} records skipped, because the run was refused: {refused}", flush=True)
            continue
        # Other work on the machine lengthens what the clock shows more than what the processor did.
        ratio, by_processor = (assessed[what] / counted[what] for what in ("seconds", "processor"))
        rows.append(
            {"model": name, "records": n_records, "group_by": counted, "assess": assessed, "ratio": ratio, "protect": protected}
        )
        print(
            f"{name:8} {n_records:>12,} records {counted['cells']:>11,} cells {assessed['uniques']:>10,} uniques | "
            f"GROUP BY {counted['seconds']:7.2f} s ({counted['processor']:.2f} of the processor) {counted['gigabytes']:5.2f} GB | "
            f"assess {assessed['seconds']:7.2f} s ({assessed['processor']:.2f} of the processor) {assessed['gigabytes']:5.2f} GB "
            f"({assessed['stated']:.2f} stated) | ratio {ratio:6.1f}, of processor time {by_processor:.1f}",
            flush=True,
        )
        if protected:
            print(f"{'':10}protect {n_protected:,} records: {protected['seconds']:.2f} s, {protected['gigabytes']:.2f} GB")
        slow = protected or assessed
        for stage, (seconds, processor) in slow["stages"].items():
            if seconds > 0.02 * slow["seconds"]:
                print(f"{'':10}{stage:32} {seconds:8.2f} s, {processor / seconds:.1f} cores")
    for what, label in (("group_by", "GROUP BY"), ("assess", "assess")) if len(rows) > 1 else ():
        powers = growth([row["records"] for row in rows], [row[what]["processor"] for row in rows])
        shown = ", ".join(f"{power:.2f}" for power in powers)
        print(f"{name}: processor time of the {label} grows with these powers of the records, from size to size: {shown}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--least", type=float, default=1e4)
    parser.add_argument("--most", type=float, default=1e7)
    parser.add_argument("--model", choices=[*MODELS, "both"], default="both")
    parser.add_argument("--layout", choices=LAYOUTS, default="numbers", help="what the file is like")
    parser.add_argument("--memory", type=float, default=4.0, help="what the GROUP BY and the runs may use, in GB")
    parser.add_argument("--protect", type=int, default=0, metavar="K", help="also protect the K riskiest records")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    options = parser.parse_args()
    steps = round(math.log10(options.most / options.least))
    sizes = [int(options.least * 10**step) for step in range(steps + 1)]
    rows = []
    for name in MODELS if options.model == "both" else [options.model]:
        rows += compare(name, sizes, options.layout, options.memory, options.protect)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    last = [row for row in rows if row["records"] == sizes[-1]]
    for row in last:
        verdict = "within" if row["ratio"] <= TARGET_RATIO else "above"
        print(f"{row['model']}: ratio {row['ratio']:.1f} at {row['records']:,} records, {verdict} the target of {TARGET_RATIO:g}")


if __name__ == "__main__":
    main()
