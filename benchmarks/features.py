"""What does each thing that files of offices have cost, against the same run without it?

One file of 20,000 records and 12 keys, made from the shipped census population, in which every feature can be switched on:
survey weights, missing answers, scenarios, areas, a register, households and so on. Each run is a process of its own, and each
ratio is to the plain ``assess`` or ``protect`` of the same file. Seconds of the processor stand beside those of the clock, because
other work on the machine lengthens the latter; the ratio is that of the processor. Rows that protect or plan take a smaller file of the
same kind (``--few``), because nearly all of its records are to be swapped; a plan is held against an assessment of that file.

    python benchmarks/features.py [--records 20000] [--few 4000] [--only weight missing …] [--stages] [--profile FEATURE]
    python benchmarks/features.py --again 32        resident memory after 1, 16 and 32 protects in one process
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.timing import Watching, apart

import rarecell as rc
from rarecell import datasets
from rarecell.table import distance

KEYS = (
    "age",
    "sex",
    "marital",
    "citizenship",
    "relationship",
    "education",
    "race",
    "employed",
    "region",
    "job",
    "tenure",
    "rooms",
)
POPULATION = datasets.CENSUS_POPULATION
INTRUDERS = {"neighbour": ["age", "sex", "region", "tenure", "rooms"], "colleague": ["age", "sex", "education", "job"]}


def people(n_records: int, *, lacking: float = 0.0, seed: int = 5) -> pa.Table:
    """A sample of whole households with twelve keys, weights, areas and a sensitive column; a share of answers may be lacking."""
    draw = np.random.default_rng(seed)
    everybody = datasets.census_population()
    rows = np.sort(draw.choice(everybody.num_rows, min(n_records, everybody.num_rows), replace=False))
    columns: dict[str, Any] = {name: everybody[name].to_numpy()[rows].astype(np.int64) for name in KEYS[:8]}
    home = np.cumsum(columns["relationship"] == 0)
    region = draw.choice(14, home.max() + 1, p=np.arange(1, 15) / np.arange(1, 15).sum())[home]
    columns["region"] = region
    columns["district"] = region * 10 + home % 5
    # Jobs follow education, tenure and rooms the household, as they do in surveys.
    columns["job"] = np.minimum(columns["education"] * 3 + draw.geometric(0.25, len(rows)), 45)
    columns["tenure"] = draw.choice(4, home.max() + 1, p=[0.5, 0.3, 0.15, 0.05])[home]
    columns["rooms"] = np.minimum(1 + draw.poisson(3.0, home.max() + 1)[home] + (columns["tenure"] == 0), 12)
    columns["home"] = home
    columns["income"] = np.exp(draw.normal(10.0, 1.0, len(rows))).round(-2)
    spread = np.exp(draw.normal(0.0, 0.3, len(rows))) * (1.0 + 0.15 * (region % 4)) * np.where(columns["age"] < 30, 1.4, 1.0)
    columns["weight"] = (spread / spread.sum() * POPULATION).round(3)
    table = pa.table(columns)
    if lacking:
        for name in KEYS[:7]:
            mask = draw.random(len(rows)) < lacking
            table = table.set_column(table.column_names.index(name), name, pa.array(columns[name], mask=mask))
    return table


FEATURES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("assess", {}),
    "weight": ("assess", {"weight": "weight", "population": None}),
    "strata": ("assess", {"strata": "region"}),
    "missing": ("assess", {}),
    "missing matches": ("assess", {"missing": "matches-anything"}),
    "scenarios": ("assess", {"scenario": INTRUDERS}),
    "areas": ("assess", {"geography": "region>district"}),
    "household": ("assess", {"household": "home"}),
    "register": ("assess", {}),
    "sensitive": ("assess", {"sensitive": ["job"]}),
    "protect": ("protect", {"risk_above": 0.2}),
    "protect weight": ("protect", {"risk_above": 0.2, "weight": "weight", "population": None}),
    "protect missing": ("protect", {"risk_above": 0.2}),
    "protect scenarios": ("protect", {"risk_above": 0.2, "scenario": INTRUDERS}),
    "protect household": ("protect", {"risk_above": 0.2, "household": "home"}),
    "protect, one distance": ("protect", {"risk_above": 0.2}),
    "plain, few": ("assess", {}),
    "plan": ("plan", {"max_correct_links": 50.0}),
    "scan": ("scan", {"size": 5}),
}
"""The command and the options that a feature adds."""

WANTED = {
    "weight": 1.5,
    "missing": 2.0,
    "scenarios": 1.0 + 0.3 * len(INTRUDERS),
    "protect weight": 1.5,
    "protect missing": 2.0,
    "plan": 10.0,
}
"""The largest ratios that are aimed for; swaps that are planned against every distance: twice those against one."""


def is_of_few(feature: str) -> bool:
    """Whether a feature is timed on the smaller file."""
    return FEATURES[feature][0] in ("protect", "plan") or feature.endswith(", few")


def base_of(feature: str) -> str:
    """The feature that another is held against."""
    if FEATURES[feature][0] == "protect":
        return "protect"
    return "plain, few" if is_of_few(feature) else "plain"


def run(feature: str, n_records: int, folder: str) -> dict[str, Any]:
    """One run: seconds of the clock and of the processor, and those of each stage."""
    command, further = FEATURES[feature]
    table = people(n_records, lacking=0.05 if "missing" in feature else 0.0)
    if "household" not in further and command != "assess":
        # A number of the household and a district give away a region that was swapped: such a file is not released.
        table = table.drop_columns(["home", "district"])
    path = Path(folder) / f"{feature.replace(' ', '-')}.parquet"
    pq.write_table(table, path)
    options: dict[str, Any] = {"keys": list(KEYS), "population": POPULATION, **further}
    if feature == "strata":
        shares = np.bincount(table["region"].to_numpy())
        options |= {
            "populations": {str(k): int(n * POPULATION / len(table)) + 1 for k, n in enumerate(shares)},
            "population": None,
        }
    if feature == "register":
        options["keys"] = list(KEYS[:8])
        options["register"] = str(Path(folder) / "everybody.parquet")
        pq.write_table(datasets.census_population(), options["register"])
    watching = Watching()
    works: dict[str, Callable[[], object]] = {
        "assess": lambda: rc.assess(path, progress=watching, **options),
        "protect": lambda: rc.protect(path, progress=watching, **options),
        "plan": lambda: rc.plan(path, progress=watching, **options),
        "scan": lambda: _scanned(path, options, watching),
    }
    if feature.endswith("one distance"):
        _plan_against_one_distance()
    clock, processor = time.perf_counter(), time.process_time()
    first: list[float] = []
    watching.answer = lambda *_, **__: first.append(time.perf_counter() - clock)  # type: ignore[method-assign]
    works[command]()
    return {
        "clock": time.perf_counter() - clock,
        "processor": time.process_time() - processor,
        "answers": first,
        "stages": watching.lines(),
    }


def _scanned(path: Path, options: dict[str, Any], watching: Watching) -> object:
    table = rc.Microdata(path, keys=options["keys"]).table()
    return rc.scan_subsets(
        table, size=options["size"], population=options["population"], on_first=watching.answer, progress=watching
    )


def _plan_against_one_distance() -> None:
    """Let intruders measure distances in one way only, as if there were no others."""
    import_module("rarecell.run.protect")
    whole = distance.yardsticks
    for module in [module for name, module in sys.modules.items() if name.startswith("rarecell.")]:
        if getattr(module, "yardsticks", None) is whole:
            module.yardsticks = lambda *arguments, **options: whole(*arguments, **options)[:1]  # type: ignore[attr-defined]


def memory_after(n_runs: int, folder: str) -> None:
    """Resident memory after 1, 16, 32 … protects of a small file in one process."""
    path = Path(folder) / "small.parquet"
    pq.write_table(people(2_000), path)
    print("protects  resident MB  peak MB")
    for turn in range(1, n_runs + 1):
        rc.protect(path, keys=list(KEYS[:6]), population=POPULATION, risk_above=0.2, out=Path(folder) / "run", overwrite=True)
        if turn == 1 or turn % 16 == 0:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{turn:8}{pages * resource.getpagesize() / 2**20:13.0f}{peak:9.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--few", type=int, default=4_000, help="records of the file that is protected or planned")
    parser.add_argument("--only", nargs="*", choices=list(FEATURES), default=list(FEATURES))
    parser.add_argument("--stages", action="store_true", help="also print the stages of each run")
    parser.add_argument("--again", type=int, metavar="N", help="protect a small file N times in one process")
    parser.add_argument("--profile", choices=list(FEATURES), help="where the time of one feature goes, by function")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.again:
            memory_after(given.again, folder)
            return
        if given.profile:
            import cProfile
            import pstats

            with cProfile.Profile() as profile:
                run(given.profile, given.records, folder)
            pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
            return
        print(f"{given.records:,} records ({given.few:,} to protect or plan), {len(KEYS)} keys")
        print(
            f"{'feature':22}{'clock':>8}{'processor':>11}{'GB':>6}{'ratio':>8}{'wanted':>8}  seconds to the first number, to the verdict"
        )
        base: dict[str, float] = {}
        for feature in dict.fromkeys(name for asked in given.only for name in (base_of(asked), asked)):
            measured = apart(run, feature, given.few if is_of_few(feature) else given.records, folder)
            base.setdefault(feature, measured["processor"])
            print(
                f"{feature:22}{measured['clock']:8.1f}{measured['processor']:11.1f}{measured['gigabytes']:6.2f}"
                f"{measured['processor'] / base[base_of(feature)]:8.2f}{WANTED.get(feature, ''):>8}  "
                + ", ".join(f"{seconds:.1f}" for seconds in measured["answers"]),
                flush=True,
            )
            if given.stages:
                print(*(f"    {line}" for line in measured["stages"]), sep="\n")


if __name__ == "__main__":
    main()
