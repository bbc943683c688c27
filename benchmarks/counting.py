"""Counting 5 million records of 8 keys: how far from polars, DuckDB and a numpy sort?

Each rival counts the same records, coded as int32 columns in memory. The kernel does more than they do, because it
also says which cell each record is in. ``numpy sort`` gives cells and counts, as polars and DuckDB do, ``numpy
inverse`` the cell of each record as well; ``numpy values`` gives folded integers and counts only.

    python benchmarks/counting.py [--records 5000000]
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import timing

from rarecell._kernels.counting import collapse_records

seconds = partial(timing.seconds, repeats=5)

SHAPES = {
    "census dimensions, dependent keys": (14, 2, 91, 5, 14, 7, 2, 5),
    "large keys, mostly unique records": (100, 100, 50, 40, 30, 20, 20, 10),
    "small keys, few cells": (5, 4, 6, 3, 2, 4, 5, 3),
}


def dependent_records(levels: tuple[int, ...], n_records: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Columns that lean on one hidden group, so that cells are skewed as in real microdata."""
    group = generator.integers(0, 50, n_records)
    columns = []
    for count in levels:
        own = generator.choice(count, n_records, p=generator.dirichlet(np.full(count, 0.5)))
        columns.append(np.where(generator.random(n_records) < 0.5, group % count, own).astype(np.int32))
    return columns


def fold(columns: list[np.ndarray], levels: tuple[int, ...]) -> np.ndarray:
    key = np.zeros(columns[0].size, dtype=np.int64)
    for column, count in zip(columns, levels, strict=True):
        key *= count
        key += column
    return key


def compare(title: str, levels: tuple[int, ...], n_records: int) -> None:
    columns = dependent_records(levels, n_records, np.random.default_rng(0))
    names = [f"key{number}" for number in range(len(levels))]
    frame = pl.DataFrame(dict(zip(names, columns, strict=True)))
    connection = duckdb.connect()
    connection.register("records", frame.to_arrow())
    connection.execute("CREATE TABLE coded AS FROM records")
    query = f"SELECT {', '.join(names)}, count(*) FROM coded GROUP BY ALL"
    collapse_records([column[:10] for column in columns], levels)  # compile outside the clock

    times = {
        "polars": seconds(lambda: frame.group_by(names).len()),
        "duckdb": seconds(lambda: connection.sql(query).to_arrow_table()),
        "numpy values": seconds(lambda: np.unique(fold(columns, levels), return_counts=True)),
        "numpy sort": seconds(lambda: np.unravel_index(np.unique(fold(columns, levels), return_counts=True)[0], levels)),
        "numpy inverse": seconds(lambda: np.unique(fold(columns, levels), return_counts=True, return_inverse=True), repeats=2),
        "rarecell": seconds(lambda: collapse_records(columns, levels)),
    }
    fastest = min(times["polars"], times["duckdb"], times["numpy sort"])
    n_cells = collapse_records(columns, levels)[1].size
    print(f"\n{title}: {n_records:,} records, {n_cells:,} cells")
    for name, elapsed in times.items():
        print(f"  {name:14s} {elapsed:7.3f} s   rarecell takes {times['rarecell'] / elapsed:5.2f} times as long")
    print(f"  ratio to the fastest rival: {times['rarecell'] / fastest:.2f} (at most 1.5 is asked for)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    for shape_title, shape in SHAPES.items():
        compare(shape_title, shape, parser.parse_args().records)
