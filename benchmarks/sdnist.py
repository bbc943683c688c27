"""What does the evaluator of NIST's Collaborative Research Cycle say of our releases?

    python -m venv sdnist-env && sdnist-env/bin/pip install sdnist
    python benchmarks/sdnist.py --python sdnist-env/bin/python [--file national2019.csv --keys AGEP,SEX,… --population N] [--only twin] [--json FILE]

The package ``sdnist`` pins old releases of numpy and pandas, so it runs in an environment of its own. Three of its numbers are printed for
the file itself and for several releases of it:

- *unique exact matches*: records that are unique in the original on all columns and stand in the release unchanged, in per cent of the
  unique ones;
- the *k-marginal score*: how far two-way tables moved, 1,000 for not at all;
- the *propensity score*: how well a tree tells released records from original ones, 0 for not at all.

Without ``--file``, the census sample of the package is written in that format: a comma-separated file of whole numbers, a row for each
person, every column evaluated. NIST's own excerpts have to be downloaded by the user; with ``--file`` they are read from where they lie.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

import rarecell as rc
from rarecell import datasets

EVALUATE = """
import json, sys
import sdnist.report  # before its metrics, which import it in a circle
from pathlib import Path
import pandas as pd
from sdnist.metrics.kmarginal import KMarginal
from sdnist.metrics.propensity import PropensityMSE
from sdnist.metrics.unique_exact_matches import unique_exact_matches
folder, names = Path(sys.argv[1]), sys.argv[2:]
original = pd.read_csv(folder / "original.csv")
found = {}
for name in names:
    released = pd.read_csv(folder / f"{name}.csv")
    matched, share, uniques, _ = unique_exact_matches(original, released)
    found[name] = {
        "matched": int(matched), "share": float(share), "uniques": int(uniques),
        "k_marginal": float(KMarginal(original, released).compute_score()),
        "propensity": float(PropensityMSE(original, released, folder).compute_score()),
    }
print("FOUND " + json.dumps(found))
"""

PUBLISHED = (
    ("sdcMicro, k = 6", 47.4, 907),
    ("AIM, ε = 1", 14.1, 976),
    ("MST, ε = 1", 12.5, 958),
)
"""Unique exact matches and k-marginal scores from the archive of the Collaborative Research Cycle, on its national excerpts of 2019."""


def releases(frame: pa.Table, keys: list[str], population: int) -> dict[str, Callable[[], pa.Table]]:
    """The file itself, ways of protecting it, and two that set the scale."""

    def protected(**wishes: object) -> pa.Table:
        return rc.protect(frame, keys=keys, population=population, seed=1, **wishes).frame

    def twin(**wishes: object) -> pa.Table:
        done = rc.synthesise(frame, columns=frame.column_names, keys=keys, measure=False, seed=1, **wishes)
        assert not any(table.differing for table in done.summary.tables)
        return done.frame()

    def shuffled() -> pa.Table:
        rng = np.random.default_rng(1)
        return pa.table({name: frame[name].take(rng.permutation(frame.num_rows)) for name in frame.column_names})

    def part() -> pa.Table:
        chosen = np.random.default_rng(1).choice(frame.num_rows, frame.num_rows * 2 // 5, replace=False)
        return frame.take(np.sort(chosen))

    return {
        "original": lambda: frame,
        "targeted swaps, risk above 0.2": lambda: protected(risk_above=0.2),
        "targeted swaps, risk above 0.05": lambda: protected(risk_above=0.05),
        "formal, epsilon 12": lambda: protected(formal={"epsilon": 12}),
        "formal, epsilon 2": lambda: protected(formal={"epsilon": 2}),
        "synthetic twin": twin,
        "synthetic twin, near pairs": lambda: twin(near_pairs=True),
        "synthetic twin, at most 12 % copies": lambda: twin(max_copies=0.12),
        "synthetic twin, near pairs, at most 15 % copies": lambda: twin(near_pairs=True, max_copies=0.15),
        "synthetic twin, near pairs, at most 12 % copies": lambda: twin(near_pairs=True, max_copies=0.12),
        "synthetic twin, near pairs, no copies": lambda: twin(near_pairs=True, max_copies=0.0),
        "every column shuffled": shuffled,
        "four records of ten": part,
    }


def scores(python: str, tables: dict[str, pa.Table]) -> dict[str, dict[str, float]]:
    """What ``sdnist`` says of each table, in its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        files = {name: "original" if name == "original" else f"release{number}" for number, name in enumerate(tables)}
        for name, table in tables.items():
            pacsv.write_csv(table, Path(folder) / f"{files[name]}.csv")
        done = subprocess.run(
            [python, "-c", EVALUATE, folder, *files.values()], check=True, capture_output=True, text=True, cwd=folder
        )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    found = json.loads(line.removeprefix("FOUND "))
    return {name: found[file] for name, file in files.items()}


def changed(original: pa.Table, released: pa.Table) -> str:
    """Share of records with a changed value, for releases that keep the rows."""
    if original.num_rows != released.num_rows or original.column_names != released.column_names:
        return "–"
    columns = [np.asarray(original[name]) != np.asarray(released[name]) for name in original.column_names]
    return f"{np.any(columns, axis=0).mean():.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="Python of an environment with sdnist")
    parser.add_argument("--file", help="a file of whole numbers, such as NIST's excerpts")
    parser.add_argument("--keys", help="columns to protect, separated by commas (default: all)")
    parser.add_argument("--population", type=int, help="people in the population (needed with --file)")
    parser.add_argument("--only", default="", help="only releases with this in their name, beside the original")
    parser.add_argument("--json", type=Path, help="write the scores, too")
    options = parser.parse_args()
    if options.file and not options.population:
        parser.error("--file needs --population")
    if options.file:
        frame, population = pacsv.read_csv(options.file), options.population
    else:
        # The number of the household stays in the office.
        frame, population = datasets.census_sample().drop_columns(["household"]), datasets.CENSUS_POPULATION
    keys = options.keys.split(",") if options.keys else list(frame.column_names)
    tables = {
        name: make() for name, make in releases(frame, keys, population).items() if name == "original" or options.only in name
    }
    found = scores(options.python, tables)
    uniques = found["original"]["uniques"]
    print(
        f"rarecell {rc.__version__}; {frame.num_rows:,} records, {len(frame.column_names)} columns, {uniques:,} unique on all of them\n"
    )
    print("| release | records changed | unique exact matches | k-marginal | propensity |")
    print("|---|---|---|---|---|")
    for name, score in found.items():
        print(
            f"| {name} | {changed(frame, tables[name])} | {score['share']:.1f} % | {score['k_marginal']:.0f} | "
            f"{score['propensity']:.4f} |"
        )
    for name, share, marginal in PUBLISHED:
        print(f"| published for another file: {name} | | {share:.1f} % | {marginal} | |")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
