"""How long does targeted record swapping take, with nested areas, profiles and kept tables?

A million records in households of 1 to 6 live in 1,000 municipalities of 100 districts of 10 regions. One household in ten changes
places, risky ones first; partners agree on size and age groups, or on size alone, and the table of municipality by age and sex
stays as it was. Prints processor time beside that of three counts of the file's cells, as a measure of the machine, and beside the
15.7 s that 50,000 swaps with R's recordSwap took in a file of a million records on a machine like the one of docs/speed.md.

    python benchmarks/areas.py           a million records
    python benchmarks/areas.py 100000    so many records
"""

from __future__ import annotations

import sys
from time import process_time

import numpy as np

from rarecell._kernels.counting import collapse_records
from rarecell.swap.areas import AreaSwapTask, plan_area_swaps, risk_levels
from rarecell.table.columns import CodedColumn, ColumnValues

RATE = 0.1
RECORDSWAP = 15.7
"""Seconds that recordSwap took for 50,000 swaps in a million records."""


def file_of(n_records: int) -> tuple[dict[str, ColumnValues], np.ndarray]:
    rng = np.random.default_rng(1)
    size = rng.choice(np.arange(1, 7), n_records, p=[0.38, 0.32, 0.13, 0.11, 0.04, 0.02])
    household = np.repeat(np.arange(n_records), size)[:n_records]
    town_of_household = np.minimum(rng.geometric(0.004, n_records) - 1, 999)
    town = town_of_household[household]
    levels = {"region": (town // 100, 10), "district": (town // 10, 100), "municipality": (town, 1000)}
    levels |= {"age_group": (rng.integers(0, 6, n_records), 6), "sex": (rng.integers(0, 2, n_records), 2)}
    levels |= {"job": (np.minimum(rng.geometric(0.2, n_records) - 1, 29), 30), "hhsize": (size[household] - 1, 6)}
    columns: dict[str, ColumnValues] = {
        name: CodedColumn(codes.astype(np.int32), tuple(range(n))) for name, (codes, n) in levels.items()
    }
    return columns, household


def alone_at(columns: dict[str, ColumnValues], area: str) -> np.ndarray:
    """Records that are alone in their area with their values."""
    coded = [columns[name] for name in (area, "age_group", "sex", "job", "hhsize")]
    codes = [one.codes for one in coded if isinstance(one, CodedColumn)]
    _, counts, cell = collapse_records(codes, [len(one.levels) for one in coded if isinstance(one, CodedColumn)])
    return np.asarray(counts[cell] == 1)


def main() -> None:
    n_records = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    areas = ("region", "district", "municipality")
    warm, of_warm = file_of(2_000)
    plan_area_swaps(AreaSwapTask(warm, areas, households=of_warm), np.zeros(2_000, dtype=int), rate=RATE)
    columns, household = file_of(n_records)
    begun = process_time()
    at_risk = [alone_at(columns, area) for area in areas]
    counted = process_time() - begun
    # As many risky records as make half of the swaps; the rest is left to chance.
    rng = np.random.default_rng(2)
    level = risk_levels(at_risk)
    level[rng.random(n_records) > 0.02] = 3
    for title, households, rate in (("households", household, RATE), ("single records", None, RATE)):
        task = AreaSwapTask(
            columns,
            areas,
            similar=(("hhsize", "age_group"), ("hhsize",)),
            keep=(("municipality", "age_group", "sex"),),
            households=households,
        )
        begun = process_time()
        swaps = plan_area_swaps(task, level, rate=rate)
        took = process_time() - begun
        print(
            f"{title}: {len(swaps):,} pairs of records, {swaps} {took:.1f} s of processor time, {took / counted:.1f} times the three counts "
            f"of cells ({counted:.2f} s), {took / RECORDSWAP:.2f} times recordSwap."
        )


if __name__ == "__main__":
    main()
