"""The two populations with known truth, and the samples that reference numbers were computed on by an independent program."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rarecell as rc
from rarecell import datasets

ADULT_KEYS = ("age", "workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country")
ADULT = Path(__file__).parent / "data" / "adult.parquet"


def table_of(frame: pa.Table, keys: tuple[str, ...]) -> rc.ContingencyTable:
    """Levels as observed; numbers are ordered."""
    categories, columns = [], []
    for key in keys:
        values = frame[key].to_numpy()
        levels, codes = np.unique(values.astype(str) if values.dtype == object else values, return_inverse=True)
        categories.append(rc.Categories(key, tuple(levels.tolist()), values.dtype != object))
        columns.append(codes)
    return rc.ContingencyTable.from_codes(np.stack(columns, axis=1).astype(np.int32), categories)


def sampled(population: pa.Table, n_records: int, seed: int) -> pa.Table:
    rows = np.sort(np.random.default_rng(seed).choice(population.num_rows, n_records, replace=False))
    return population.take(rows)


@cache
def census_table() -> rc.ContingencyTable:
    """The demo's sample: 9,809 of 277,677."""
    return table_of(datasets.census_sample(), datasets.CENSUS_KEYS)


@cache
def adult_population() -> pa.Table:
    return pq.read_table(ADULT)


@cache
def adult_table() -> rc.ContingencyTable:
    """4,884 of 48,842, nine keys."""
    return table_of(sampled(adult_population(), 4884, 1), ADULT_KEYS)


def cliques_by_number(table: rc.ContingencyTable, text: str) -> list[list[str]]:
    """ "15 16" names the cliques of the first and fifth and of the first and sixth key."""
    return [[table.keys[int(digit) - 1] for digit in part] for part in text.split()]
