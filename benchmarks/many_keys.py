"""How long does a run take with thirty, forty or sixty keys?

Records are drawn from a decomposable model: every key has 2 to 30 levels and depends on one or two earlier keys, so that
the best model has cliques of two and three keys. The assessment runs by the command line in a process of its own and writes all its
results; a scan then asks which five keys an intruder would need. Beside them, DuckDB counts all pairs of keys of the same file,
one ``GROUP BY`` each, which is the least that a search for a model has to know.

    python benchmarks/many_keys.py                          # 30, 40 and 60 keys by a million records
    python benchmarks/many_keys.py --keys 30 --records 1e5 --scan-only
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def write_records(path: Path, *, n_keys: int, n_records: int, seed: int = 0) -> list[str]:
    """A file of ``n_keys`` keys, each of which depends on one or two of the four keys before it."""
    rng = np.random.default_rng(seed)
    levels = np.clip(np.round(2 ** rng.uniform(1, 5, n_keys)), 2, 30).astype(int)
    codes: list[np.ndarray] = []
    for key, n_levels in enumerate(levels):
        n_parents = min(key, int(rng.integers(1, 3)))
        parents = rng.choice(np.arange(max(0, key - 4), key), n_parents, replace=False) if n_parents else []
        given = np.zeros(n_records, dtype=np.int64)
        n_given = 1
        for parent in parents:
            given = given * levels[parent] + codes[parent]
            n_given *= levels[parent]
        rows = rng.gamma(0.7, size=(n_given, n_levels)) + 1e-3
        cumulative = np.cumsum(rows, axis=1) / rows.sum(axis=1, keepdims=True)
        # Cumulative probabilities of row r lie between r and r + 1, so that one search serves all rows.
        flat = (cumulative + np.arange(n_given)[:, None]).ravel()
        drawn = np.searchsorted(flat, rng.random(n_records) + given) - given * n_levels
        codes.append(np.clip(drawn, 0, n_levels - 1).astype(np.int16))
    names = [f"k{key:02d}" for key in range(n_keys)]
    pq.write_table(pa.table(dict(zip(names, codes, strict=True))), path)
    return names


def count_pairs(path: Path, keys: list[str]) -> float:
    """Seconds that DuckDB takes to count every pair of keys."""
    import duckdb

    started = time.perf_counter()
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TEMP TABLE records AS SELECT * FROM read_parquet('{path}')")
        for one, other in combinations(keys, 2):
            connection.execute(f"SELECT {one}, {other}, count(*) FROM records GROUP BY ALL").fetchall()
    return time.perf_counter() - started


def command(*arguments: str) -> tuple[float, float, float, str]:
    """Seconds, seconds of processor time, peak gigabytes and output of a command."""
    started = time.perf_counter()
    with subprocess.Popen([sys.executable, "-m", "rarecell", *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"rarecell {arguments[0]} ended with {process.returncode}")
    return time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e9, told


def measure(n_keys: int, n_records: int, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "records.parquet", Path(folder) / "out"
        keys = write_records(path, n_keys=n_keys, n_records=n_records)
        common = [str(path), "--keys", ",".join(keys), "--population", str(20 * n_records), "--quiet"]
        pairs = count_pairs(path, keys)
        row: dict[str, Any] = {"keys": n_keys, "records": n_records, "pairs": pairs}
        print(f"{n_keys} keys by {n_records:,} records; DuckDB counts all pairs in {pairs:.1f} s", flush=True)
        if not options.scan_only:
            seconds, busy, gigabytes, _ = command("assess", *common, "--out", str(out))
            stages = json.loads((out / "run.json").read_text())["seconds"]
            search = json.loads((out / "summary.json").read_text())["model"]["search"]["sentence"]
            row["assess"] = {"seconds": seconds, "processor_seconds": busy, "gigabytes": gigabytes, "stages": stages}
            print(
                f"  assess {seconds:7.1f} s ({busy:.1f} s of processors)  {gigabytes:5.2f} GB  ratio {seconds / pairs:5.1f}  {search}"
            )
            for stage, took in stages.items():
                if took > 0.02 * seconds:
                    print(f"    {stage:32} {took:8.1f} s")
        if not options.assess_only:
            seconds, busy, gigabytes, told = command("scan", *common, "--size", str(options.size), "--json")
            found = json.loads(told)
            row["scan"] = {
                "seconds": seconds,
                "gigabytes": gigabytes,
                "counted": found["sets_counted"],
                "complete": found["complete"],
            }
            print(
                f"  scan   {seconds:7.1f} s ({busy:.1f} s of processors)  {gigabytes:5.2f} GB  ratio {seconds / pairs:5.1f}  {found['sets_counted']:,} of "
                f"{found['sets_possible']:,} sets of {options.size}{', proved' if found['complete'] else ''}",
                flush=True,
            )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="*", default=[30, 40, 60])
    parser.add_argument("--records", type=float, default=1e6)
    parser.add_argument("--size", type=int, default=5, help="keys of a set of the scan")
    parser.add_argument("--assess-only", action="store_true")
    parser.add_argument("--scan-only", action="store_true")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    options = parser.parse_args()
    rows = [measure(n_keys, int(options.records), options) for n_keys in options.keys]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
