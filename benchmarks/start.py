"""How long does a person wait for a small file, from the first second on?

Whole commands on the shipped census sample, each as a process of its own, against the import of numpy, pyarrow and DuckDB
timed in the same run; the best of several times. Seconds of the processor stand beside those of the clock, because other
work on the machine lengthens the latter. For each stage of a run the processor time is divided by that of the clock: 2 means
that two cores were busy.

    python benchmarks/start.py [--times 5] [--first-use]
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import rarecell as rc
from rarecell import datasets

COMMAND = [sys.executable, "-m", "rarecell"]
BASE = [sys.executable, "-c", "import numpy, pyarrow, duckdb"]


def timed(command: list[str], times: int, **environment: str) -> tuple[float, float]:
    """Least seconds of the clock and of the processor."""
    clock, processor = [], []
    for _ in range(times):
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        clock.append(time.perf_counter() - started)
        processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(clock), min(processor)


def stages_of(command: str, folder: Path) -> list[str]:
    """What each stage of a run takes, by a process of its own; stages that run side by side are one line."""
    code = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).resolve().parent.parent)!r})
from benchmarks.timing import Watching
from rarecell import datasets
from rarecell.run.{command} import {command}
from rarecell.run.config import ProtectConfig, RunConfig
loaded = time.process_time()
watching = Watching()
config = RunConfig(input=sys.argv[1], keys=datasets.CENSUS_KEYS, population=datasets.CENSUS_POPULATION,
                   protect=ProtectConfig(risk_above=0.2) if {command == "protect"} else None)
{command}(config, out=sys.argv[2], progress=watching)
heading, *lines = watching.lines()
print(heading, "%-24s%9s%11.2f" % ("python and imports", "", loaded), *lines, sep="\\n")
"""
    arguments = [str(datasets.census_sample_path()), str(folder / f"stages-{command}")]
    found = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    return found.stdout.splitlines()


def in_the_app(folder: Path, times: int) -> tuple[float, float]:
    """A run inside the app, by a process that waits for it."""
    from rarecell.app.jobs import Jobs
    from rarecell.run.config import RunConfig

    jobs = Jobs(datasets.census_sample_path().parent)
    jobs.keep_ready()
    config = RunConfig(input=str(datasets.census_sample_path()), keys=datasets.CENSUS_KEYS, population=datasets.CENSUS_POPULATION)
    seconds = []
    for place in range(times):
        time.sleep(15)
        started = time.perf_counter()
        job = jobs.start("assess", config.to_toml(), folder / f"app-{place}", title="", back="")
        while job.state == "running":
            time.sleep(0.01)
        seconds.append(time.perf_counter() - started)
        assert job.state == "done", job.message
    jobs.close()
    return min(seconds), float("nan")


def first_numbers_in_the_app(folder: Path, n_records: int) -> dict[str, tuple[float, float]]:
    """When the first number of a large file stands in the app; processor time is that of the process of the run up to then."""
    from benchmarks.features import KEYS, POPULATION, people
    from benchmarks.scale import MODELS, write_records

    from rarecell.app.jobs import Jobs
    from rarecell.run.config import RunConfig

    pq.write_table(people(n_records), folder / "people.parquet")
    files = {"people.parquet": (KEYS, POPULATION)}
    for name, tree in MODELS.items():
        write_records(tree, n_records, folder / f"{name}.parquet", "numbers")
        files[f"{name}.parquet"] = tree.keys, 20 * n_records
    jobs = Jobs(folder)
    measured = {}
    for name, (keys, population) in files.items():
        jobs.keep_ready()
        time.sleep(20)
        config = RunConfig(input=str(folder / name), keys=tuple(keys), population=population)
        before, started = _processor_time(jobs), time.perf_counter()
        job = jobs.start("assess", config.to_toml(), folder / f"first-{name}", title="", back="")
        while not job.answers and job.state == "running":
            time.sleep(0.01)
        worker = psutil.Process(job.process.pid).cpu_times()
        words = f"first number in the app, {len(keys)} keys"
        measured[words] = time.perf_counter() - started, worker.user + worker.system - before
        jobs.cancel(job)
    jobs.close()
    return measured


def _processor_time(jobs: object) -> float:
    """What the process that waits for a run has spent on loading the program; it must have come to rest."""
    ready = psutil.Process(jobs._ready.pid)  # type: ignore[attr-defined]
    spent = -1.0
    while spent < (spent := sum(ready.cpu_times()[:2])):
        time.sleep(5)
    return spent


def changes_in_the_app(folder: Path) -> dict[str, tuple[float, float]]:
    """Another recoding and another threshold of a run that is shown in the app: no run is started for them."""
    from starlette.testclient import TestClient

    from rarecell.app import create_app
    from rarecell.app.security import Gate

    shown = folder / "shown"
    shown.mkdir()
    shutil.copy(datasets.census_sample_path(), shown)
    sample = shown / datasets.census_sample_path().name
    rc.assess(sample, keys=list(datasets.CENSUS_KEYS), population=datasets.CENSUS_POPULATION, out=shown / "run")
    gate = Gate(port=50123)
    application, pages = create_app(shown, gate)
    browser = TestClient(application, base_url=gate.origin, follow_redirects=False)
    browser.get(gate.address)

    def seconds(words: str) -> tuple[float, float]:
        started = time.perf_counter()
        assert browser.get(f"{gate.base}/recode?name=run&{words}").status_code == 200
        return time.perf_counter() - started, float("nan")

    seconds("step=age%3D5-year+bands")  # counts the file
    found = {
        "another recoding in the app": min(seconds(f"step=age%3D{width}-year+bands") for width in (10, 15, 20)),
        "another threshold in the app": min(seconds(f"step=age%3D10-year+bands&threshold={value}") for value in (0.1, 0.3)),
    }
    pages.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--records", type=int, default=100_000, help="of the files whose first number is waited for in the app")
    parser.add_argument("--first-use", action="store_true", help="also time the first use, with nothing compiled yet")
    options = parser.parse_args()
    # Installed modules are kept as bytecode; a machine that writes none would translate all sources at every start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    data = ["--keys", ",".join(datasets.CENSUS_KEYS), "--population", str(datasets.CENSUS_POPULATION), "--quiet", "--overwrite"]
    base = timed(BASE, max(options.times, 3))
    print(f"{'':34}{'seconds':>9}{'ratio':>8}{'processor':>12}{'ratio':>8}{'wanted':>9}")
    print(f"{'import numpy, pyarrow, duckdb':34}{base[0]:9.2f}{1.0:8.1f}{base[1]:12.2f}{1.0:8.1f}")

    def row(name: str, measured: tuple[float, float], wanted: float) -> None:
        print(
            f"{name:34}{measured[0]:9.2f}{measured[0] / base[0]:8.1f}{measured[1]:12.2f}{measured[1] / base[1]:8.1f}{wanted:9.3g}",
            flush=True,
        )

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sample, out = str(datasets.census_sample_path()), str(folder / "out")
        row("rarecell --help", timed([*COMMAND, "--help"], options.times), 0.5)
        assess = [*COMMAND, "assess", sample, *data, "--out", out]
        timed(assess, 1)
        row("assess, warm", timed(assess, options.times), 10)
        protect = [*COMMAND, "protect", sample, *data, "--risk-above", "0.2", "--out", out]
        timed(protect, 1)
        row("protect, warm", timed(protect, options.times), 12)
        row("assess inside the app, warm", in_the_app(folder, min(options.times, 3)), 5)
        for name, measured in changes_in_the_app(folder).items():
            row(name, measured, 1)
        for name, measured in first_numbers_in_the_app(folder, options.records).items():
            row(name, measured, 2 / base[0])
        if options.first_use:
            row("assess, first use", timed(assess, 1, NUMBA_CACHE_DIR=str(folder / "cache")), 40)
        for command in ("assess", "protect"):
            print(f"\nStages of {command}, warm:")
            print("\n".join(stages_of(command, folder)), flush=True)


if __name__ == "__main__":
    main()
