"""What do intruders find in a protected file, in truth and by the estimate, and what did the protection cost?

Samples of two known populations: persons of Massachusetts (shipped with the package, eight keys, many people alike) and
adult (shipped with the tests, eight keys, nearly every record unique). Records with a risk above 0.2 are swapped, once with the
nearest partner, as swapping is usually done, and once with partners chosen against an intruder who looks nearby. For each
plan the links that each intruder makes are counted in the whole population, and stand beside the estimate that is made without
it.

    python benchmarks/attack.py                    both populations, the fractions below, one seed each
    python benchmarks/attack.py census 0.035 1 2   one population, one fraction, these seeds
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import rarecell as rc
from rarecell import datasets
from rarecell.intruder.register import Register
from rarecell.intruder.release import Release
from rarecell.intruder.trial import Found, try_intruders
from rarecell.run.model_choice import with_resolutions
from rarecell.swap.plan import SwapPlan, plan_task
from rarecell.swap.task import LINK_WEIGHT, SwapTask
from rarecell.swap.utility import BothFiles, hellinger_distances

ADULT = Path(__file__).parent.parent / "tests" / "data" / "adult.parquet"
ADULT_KEYS = ("age", "workclass", "education", "marital_status", "occupation", "relationship", "race", "sex")
FRACTIONS = {"census": (0.01, 0.035, 0.1), "adult": (0.05, 0.1, 0.2)}
THRESHOLD = 0.2


def population(name: str) -> rc.ContingencyTable:
    if name == "census":
        return rc.Microdata(datasets.census_population(), keys=datasets.CENSUS_KEYS).table(records=True)
    people = pq.read_table(ADULT)
    people = people.rename_columns([column.replace("-", "_") for column in people.column_names])
    return rc.Microdata(people, keys=ADULT_KEYS).table(records=True)


def numbers(found: tuple[Found, ...]) -> dict[str, tuple[float, float, float]]:
    """Links before, after, and to swapped records, of each intruder."""
    return {one.name: (one.before.total, one.after.total, one.after.of_moved) for one in found}


def show(label: str, plan: SwapPlan, seconds: float, true: tuple[Found, ...], expected: tuple[Found, ...]) -> None:
    distances = hellinger_distances(BothFiles.of(plan.table, plan.table_after))
    two, three = (float(np.mean([d.hellinger for d in distances[order]])) for order in (2, 3))
    truth, estimate = numbers(true), numbers(expected)
    nearest = next(one.after for one in true if one.name == "nearest")
    n_exposed = int((nearest.link[nearest.moved] > THRESHOLD).sum())
    print(
        f"  {label:<8} {len(plan):>5} swaps {plan.n_values_changed:>6,} values  Hellinger {two:.4f} {three:.4f}  planned in {seconds:.1f} s; "
        f"{n_exposed:,} swapped records above {THRESHOLD}"
    )
    for name in truth:
        print(
            f"    {name:<12} before {truth[name][0]:>8,.1f} (estimate {estimate[name][0]:>8,.1f})  after {truth[name][1]:>8,.1f} "
            f"({estimate[name][1]:>8,.1f})  of these swapped {truth[name][2]:>8,.1f} ({estimate[name][2]:>8,.1f})",
            flush=True,
        )


def tried(name: str, everybody: rc.ContingencyTable, fraction: float, seed: int) -> None:
    assert everybody.record_cell is not None
    codes = everybody.cells[everybody.record_cell]
    rows = np.sort(np.random.default_rng(seed).choice(len(codes), round(fraction * len(codes)), replace=False))
    table = with_resolutions(rc.ContingencyTable.from_codes(codes[rows], everybody.categories), "multi")
    model, risk_model = rc.select_model(table, seed=0).best, rc.fit_backoff(table)
    risk = rc.record_risk(table, risk_model, population=len(codes))
    records = risk.above(THRESHOLD)
    print(
        f"{name}, {fraction:.1%}, seed {seed}: {table.n_records:,} records, {len(table.unique_cells):,} alone, {len(records):,} to swap"
    )
    real, modelled = Register.counted(everybody), Register.modelled(risk, risk_model, seed=99)
    for label, weight in (("nearest", 0.0), ("ours", LINK_WEIGHT)):
        begun = time.perf_counter()
        plan = plan_task(
            SwapTask(table, model, risk=risk, register=Register.modelled(risk, risk_model), link_weight=weight, seed=seed),
            records,
        )
        seconds = time.perf_counter() - begun
        release = Release.of_plan(plan)
        show(label, plan, seconds, try_intruders(release, real), try_intruders(release, modelled))


def main() -> None:
    if len(sys.argv) > 2:
        cases = [(sys.argv[1], float(sys.argv[2]), int(seed)) for seed in sys.argv[3:] or ["1"]]
    else:
        cases = [(name, fraction, 1) for name in ("census", "adult") for fraction in FRACTIONS[name]]
    populations = {name: population(name) for name in dict.fromkeys(name for name, _, _ in cases)}
    for name, fraction, seed in cases:
        tried(name, populations[name], fraction, seed)


if __name__ == "__main__":
    main()
