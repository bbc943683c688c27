"""Does the app stay responsive with a wide and long file?

    python benchmarks/app.py [--records 100000] [--columns 100]

Makes a file, runs it, and asks for each page twice, the first and the next time, as a browser would. Seconds of the clock stand
beside the time that DuckDB takes to count the records of the same file, in the same run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
from starlette.testclient import TestClient

import rarecell as rc
from rarecell.app import create_app
from rarecell.app.security import Gate

KEYS = ("age", "sex", "region", "job")


def made_file(path: Path, n_records: int, n_columns: int) -> None:
    draw = np.random.default_rng(0)
    people: dict[str, Any] = {
        "age": draw.integers(18, 90, n_records),
        "sex": draw.choice(["f", "m"], n_records),
        "region": draw.integers(1, 30, n_records),
        "job": draw.integers(1, 40, n_records),
    }
    people |= {f"answer_{k}": draw.integers(0, 9, n_records) for k in range(n_columns - len(people))}
    pa.csv.write_csv(pa.table(people), path)


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made_file(folder / "wide.csv", asked.records, asked.columns)
        size = (folder / "wide.csv").stat().st_size / 1e6
        base = seconds(lambda: duckdb.sql(f"SELECT count(*), sum(age) FROM '{folder / 'wide.csv'}'").fetchall())
        print(f"{asked.records:,} records, {asked.columns} columns, {size:.0f} MB; DuckDB counts them in {base:.2f} s")
        options: dict[str, Any] = {"keys": list(KEYS), "population": 10 * asked.records}
        running = seconds(lambda: rc.protect(folder / "wide.csv", top=50, out=folder / "run", **options))
        print(f"{'protecting it':28} {running:6.2f} s")
        gate = Gate(port=50123)
        application, pages = create_app(folder, gate)
        browser = TestClient(application, base_url=gate.origin, follow_redirects=False)
        browser.get(gate.address)
        for path in (
            "/data",
            "/keys?file=wide.csv",
            "/runs",
            "/run?name=run",
            "/records?name=run",
            "/records?name=run&column=region&value=7",
            "/recode?name=run&step=age%3D5-year+bands",
            "/recode?name=run&step=age%3D10-year+bands",
            "/protect?name=run",
        ):
            first, again = (seconds(lambda path=path: browser.get(gate.base + path)) for _ in range(2))
            print(f"{path:44} {first:6.2f} s, again {again:6.2f} s, {again / base:5.1f} times the count")
        pages.close()


if __name__ == "__main__":
    main()
