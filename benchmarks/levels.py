"""How does the cost of a run grow with the levels of one key?

200,000 records with four keys, one of which has more and more levels, as numbers and as names. Each ``assess`` runs in a
process of its own and writes all its results; its processor time stands beside that of one ``GROUP BY`` of the keys in DuckDB,
and the exponent says how time grows from one line to the next: 1 is in proportion to the levels, 2 would be their square.

    python benchmarks/levels.py [--records 200000] [--protect 500]
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

LEVELS = (3_000, 12_000, 60_000)
KEYS = "place,sex,age,education"
GROUP_BY = "import sys, duckdb; duckdb.sql(f\"select {sys.argv[2]}, count(*) from '{sys.argv[1]}' group by all\").fetchall()"


def people(path: Path, n_records: int, n_levels: int, *, as_names: bool) -> None:
    draw = np.random.default_rng(0)
    place = draw.integers(0, n_levels, n_records)
    columns = {
        "place": np.array([f"p{number:06d}" for number in draw.permutation(n_levels)])[place] if as_names else place,
        "sex": draw.integers(0, 2, n_records),
        "age": draw.integers(0, 90, n_records),
        "education": draw.integers(0, 6, n_records),
    }
    pa_csv.write_csv(pa.table(columns), path)


def processor_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--protect", type=int, help="also swap so many of the riskiest records")
    options = parser.parse_args()
    print(f"{'levels':>8}{'as':>9}{'GROUP BY':>10}{'processor':>11}{'ratio':>8}{'exponent':>10}")
    with tempfile.TemporaryDirectory() as name:
        file, out = Path(name) / "people.csv", str(Path(name) / "run")
        data = [str(file), "--keys", KEYS, "--population", str(20 * options.records), "--quiet", "--overwrite", "--out", out]
        chosen = ["protect", *data, "--top", str(options.protect)] if options.protect else ["assess", *data]
        run = [sys.executable, "-m", "rarecell", *chosen]
        people(file, options.records, LEVELS[0], as_names=True)
        processor_seconds(run)
        for as_names in (False, True):
            earlier: tuple[int, float] | None = None
            for n_levels in LEVELS:
                people(file, options.records, n_levels, as_names=as_names)
                base = processor_seconds([sys.executable, "-c", GROUP_BY, str(file), KEYS])
                spent = processor_seconds(run)
                grows = "" if earlier is None else f"{math.log(spent / earlier[1]) / math.log(n_levels / earlier[0]):10.2f}"
                kind = "names" if as_names else "numbers"
                print(f"{n_levels:>8,}{kind:>9}{base:>10.2f}{spent:>11.2f}{spent / base:>8.1f}{grows}", flush=True)
                earlier = n_levels, spent


if __name__ == "__main__":
    main()
