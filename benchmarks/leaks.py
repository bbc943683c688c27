"""How long does it take to hold every column of a file against what was done to its keys?

    python benchmarks/leaks.py --records 100000 --columns 200

Prints the seconds for reading every column as codes and for the search, and the time relative to counting the values of every column
once with NumPy.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa

from rarecell.data.microdata import Microdata
from rarecell.run.beside_keys import LeakSearch


def survey(n: int, n_columns: int) -> pa.Table:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 90, n)
    columns = {
        "age": age,
        "region": rng.integers(0, 14, n),
        "sex": rng.integers(0, 2, n),
        "birth_year": 2_024 - age - (rng.random(n) < 0.3),
    }
    for k in range(n_columns - len(columns)):
        columns[f"v{k}"] = rng.integers(0, k + 2, n) if k % 4 else np.round(rng.lognormal(8, 1, n), 2)
    return pa.table(columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=200)
    asked = parser.parse_args()
    table = survey(asked.records, asked.columns)
    started = time.perf_counter()
    for column in table.columns:
        np.unique(column.to_numpy(), return_counts=True)
    counting = time.perf_counter() - started
    data = Microdata(table, keys=["age", "region", "sex"], coding={"age": "5-year bands"})
    counted = data.table(records=True)
    started = time.perf_counter()
    search = LeakSearch.of(data, counted)
    reading = time.perf_counter() - started
    started = time.perf_counter()
    found = [*search.of_recodings, *search.of_moved({"region": 50, "sex": 50}, {}, {})]
    looking = time.perf_counter() - started
    told = sorted({column for leak in found if leak.restores for column in leak.columns})
    print(f"{asked.records:,} records, {asked.columns} columns, 3 treated keys: reading {reading:.1f} s, search {looking:.1f} s")
    print(f"{(reading + looking) / counting:.1f} times counting every column once; found {', '.join(told)}")


if __name__ == "__main__":
    main()
