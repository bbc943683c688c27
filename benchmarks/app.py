"""Does the app stay responsive with a wide and long file, and does it stay small over many runs?

    python benchmarks/app.py [--records 100000] [--columns 100]
    python benchmarks/app.py --runs 200

Makes a file, runs it, and asks for each page twice, the first and the next time, as a browser would. Seconds of the clock stand
beside the time that DuckDB takes to count the records of the same file, in the same run.

With ``--runs``, an app of its own makes that many runs on a small file, asked by two tabs, and prints its resident memory, open files,
threads, children and the files in the temporary folder after every ten. Most are assessments; of ten runs one is a protection, one a
protection that fails, one a plan, one a twin and one is cancelled. Of twenty, one loses its worker: a killed run is a failed run, and the
next one is made. Between them recodings are tried and forms are sent that cannot be run. At the end nothing may be left in the temporary
folder or hidden in the app's.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
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
            _watched_runs(psutil.Process(server.pid), server.stdout.readline().strip(), n_runs, temporary)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)
        left = [path.name for path in (*temporary.iterdir(), *folder.rglob(".*"))]
        print(
            f"left behind: {left or 'nothing'}; tracebacks in the terminal: {(Path(name) / 'said').read_text().count('Traceback')}"
        )


def _watched_runs(process: psutil.Process, address: str, n_runs: int, temporary: Path) -> None:
    origin = "/".join(address.split("/")[:3])
    tabs = [httpx.Client(base_url=origin, follow_redirects=False, timeout=300.0) for _ in range(2)]
    tabs[0].get(address)
    base = "/" + address.split("/")[3]
    tabs[1].cookies = tabs[0].cookies
    ended: Counter[str] = Counter()
    print("runs  resident MB  of children  open files  threads  children  temporary files   ended so far")
    for number in range(1, n_runs + 1):
        page, form, expected = _request(number)
        started = tabs[0].post(base + page, data={**form, "run_name": f"run{number}"}, headers={"origin": origin})
        assert started.status_code == 303, started.text[-2000:]
        place = started.headers["location"]
        if expected == "failed" and page.startswith("/assess"):
            time.sleep(0.3)
            for child in process.children():
                child.kill()
        if expected == "cancelled":
            tabs[1].post(f"{place}/cancel", headers={"origin": origin, "content-type": FORM})
        state = "running"
        while state == "running":
            state = tabs[1].get(f"{place}/state").json()["state"]
            time.sleep(0.05)
        ended[state] += 1
        # A run may be done before it is killed or cancelled.
        assert state == expected or (state == "done" and page.startswith("/assess")), (number, state, expected)
        _look_around(tabs[number % 2], base, origin, number, place)
        if number == 1 or number % 10 == 0 or number == n_runs:
            children = process.children(recursive=True)
            held = process.memory_info().rss / 1e6
            theirs = sum(child.memory_info().rss for child in children) / 1e6
            n_temporary = sum(1 for _ in temporary.rglob("*"))
            states = ", ".join(f"{count} {name}" for name, count in sorted(ended.items()))
            print(
                f"{number:4}  {held:11.1f}  {theirs:11.1f}  {process.num_fds():10}  {process.num_threads():7}  {len(children):8}"
                f"  {n_temporary:15}   {states}",
                flush=True,
            )


FORM = "application/x-www-form-urlencoded"
ASSESSMENT = {"file": "small.csv", "population": "30000", **{f"role:{key}": "key" for key in KEYS}}


def _request(number: int) -> tuple[str, dict[str, Any], str]:
    """The page that the run with this number is asked from, its form, and the state it ends in."""
    kinds: dict[int, tuple[str, dict[str, Any], str]] = {
        5: ("/protect?name=run1", {"way": "top", "top": "3"}, "done"),
        7: ("/protect?name=run1", {"way": "top", "top": "3", "carry": "age"}, "failed"),
        3: ("/plan?name=run1", {"max_correct_links": "5"}, "done"),
        8: ("/twin?file=small.csv", {"columns": list(KEYS), "least_count": "3"}, "done"),
        6: ("/assess", ASSESSMENT, "cancelled"),
    }
    return kinds.get(number % 10, ("/assess", ASSESSMENT, "failed" if number % 20 == 0 else "done"))


def _look_around(tab: httpx.Client, base: str, origin: str, number: int, place: str) -> None:
    """Open pages, try a recoding, and send forms that cannot be run."""
    for address in (place, base + "/runs", base + "/run?name=run1", base + "/records?name=run1", base + "/data"):
        assert tab.get(address).status_code < 400, address
    if number % 10 == 9:
        step = f"age={2 + number % 3}-year bands"
        tried = tab.get(base + "/recode", params={"name": "run1", "step": step})
        assert tried.status_code == 200, tried.text[-2000:]
    if number % 10 == 4:
        for page, form in (
            ("/assess", {**ASSESSMENT, "population": "10"}),
            ("/assess", {**ASSESSMENT, "file": "../small.csv"}),
            ("/assess", {"file": "small.csv", "population": "30000"}),
            ("/protect?name=run1", {"way": "top", "top": "many"}),
            ("/protect?name=no-such-run", {"way": "top", "top": "3"}),
        ):
            refused = tab.post(base + page, data=form, headers={"origin": origin})
            assert refused.status_code == 400, (page, form, refused.status_code)


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
