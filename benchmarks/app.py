"""Does the app stay responsive with a wide and long file, and does it stay small over many runs?

    python benchmarks/app.py [--records 100000] [--columns 100]
    python benchmarks/app.py --runs 200

Makes a file, runs it, and asks for each page twice, the first and the next time, as a browser would. Seconds of the clock stand
beside the time that DuckDB takes to count the records of the same file, in the same run.

With ``--runs``, an app of its own makes that many runs on a small file, asked by two tabs, and prints its resident memory, open files
and children on the way. Most are assessments, some protections and twins. Some workers are killed: a killed run is a failed run, and the
next one is made. At the end nothing may be left in the temporary folder or hidden in the app's.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import httpx
import numpy as np
import psutil
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


def many_runs(n_runs: int) -> None:
    """Start an app as a user does, make runs one after the other, and print what it holds on the way."""
    with tempfile.TemporaryDirectory() as name:
        folder, temporary = Path(name) / "files", Path(name) / "temporary"
        folder.mkdir()
        temporary.mkdir()
        draw = np.random.default_rng(0)
        people = {"age": draw.integers(1, 9, 150), "sex": draw.choice(["f", "m"], 150), "region": draw.integers(1, 5, 150)}
        pa.csv.write_csv(pa.table({**people, "job": draw.integers(1, 4, 150)}), folder / "small.csv")
        command = [sys.executable, "-m", "rarecell", "app", "--no-browser", "--folder", str(folder)]
        environment = {**os.environ, "TMPDIR": str(temporary)}
        with (Path(name) / "said").open("w") as said:
            server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, env=environment)
        try:
            assert server.stdout is not None
            _watched_runs(psutil.Process(server.pid), server.stdout.readline().strip(), n_runs)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)
        left = [path.name for path in (*temporary.iterdir(), *folder.rglob(".*"))]
        print(
            f"left behind: {left or 'nothing'}; tracebacks in the terminal: {(Path(name) / 'said').read_text().count('Traceback')}"
        )


def _watched_runs(process: psutil.Process, address: str, n_runs: int) -> None:
    origin = "/".join(address.split("/")[:3])
    tabs = [httpx.Client(base_url=origin, follow_redirects=False, timeout=300.0) for _ in range(2)]
    tabs[0].get(address)
    base = "/" + address.split("/")[3]
    tabs[1].cookies = tabs[0].cookies
    roles = {f"role:{key}": "key" for key in KEYS}
    n_killed = 0
    print("runs  resident MB  open files  children  killed")
    for number in range(1, n_runs + 1):
        page, form = "/assess", {"file": "small.csv", "population": "30000", **roles}
        if number % 10 == 5:
            page, form = "/protect?name=run1", {"way": "top", "top": "3"}
        elif number % 10 == 8:
            page, form = "/twin?file=small.csv", {"columns": list(KEYS), "least_count": "3"}
        started = tabs[0].post(base + page, data={**form, "run_name": f"run{number}"}, headers={"origin": origin})
        assert started.status_code == 303, started.text[-2000:]
        place = started.headers["location"]
        is_killed = number % 20 == 0
        if is_killed:
            time.sleep(0.3)
            for child in process.children():
                child.kill()
        state = "running"
        while state == "running":
            state = tabs[1].get(f"{place}/state").json()["state"]
            time.sleep(0.05)
        n_killed += state == "failed"
        assert state == "done" or is_killed, (number, state)
        shown = "twin-run" if page.startswith("/twin") else "run"
        for place in ("/runs", f"/{shown}?name=run{number}", "/data"):
            assert tabs[number % 2].get(base + place).status_code < 400 or is_killed, place
        if number in (1, 10, 20, 50, 100, 150, n_runs):
            held = process.memory_info().rss / 1e6
            print(f"{number:4}  {held:11.1f}  {process.num_fds():10}  {len(process.children()):8}  {n_killed:6}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--runs", type=int, default=0, help="make that many runs instead, and watch the app's size")
    asked = parser.parse_args()
    if asked.runs:
        many_runs(asked.runs)
        return
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
