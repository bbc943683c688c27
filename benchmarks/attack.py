"""What do intruders find in a protected file, in truth and by the estimate, and what did the protection cost?

Samples of two known populations: persons of Massachusetts (shipped with the package, eight keys, many people alike) and
adult (shipped with the tests, eight keys, nearly every record unique). Records with a risk above 0.2 are swapped, once with the
nearest partner, as swapping is usually done, and once with partners chosen against an intruder who looks nearby. For each
plan the links that each intruder makes are counted in the whole population, and stand beside the estimate that is made without
it. What it cost is told by Hellinger distances of all tables of two and three keys, and by the largest change of Cramér's V
between a key and a column outside the keys. At the end the means over seeds are printed as a table, and how often the truth after
protection lay in the interval of the estimate.

    python benchmarks/attack.py                        both populations, all fractions, two seeds each
    python benchmarks/attack.py census 0.035           one population and one fraction, two seeds
    python benchmarks/attack.py census 0.035 1 2 3     these seeds
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rarecell as rc
from rarecell import datasets
from rarecell.intruder.register import Register
from rarecell.intruder.trial import Found, try_intruders
from rarecell.outcome.swap import AssociationChange
from rarecell.release.utility import BothFiles, association_changes, hellinger_distances
from rarecell.run.models import with_resolutions
from rarecell.swap.plan import SwapPlan, plan_task
from rarecell.swap.task import LINK_WEIGHT, SwapTask

ADULT = Path(__file__).parent.parent / "tests" / "data" / "adult.parquet"
ADULT_KEYS = ("age", "workclass", "education", "marital_status", "occupation", "relationship", "race", "sex")
FRACTIONS = {"census": (0.01, 0.035, 0.1), "adult": (0.05, 0.1, 0.2)}
SEEDS = (1, 2)
THRESHOLD = 0.2
LEFT_OUT = ("household", "part", "fnlwgt", "education_num")
INTRUDERS = ("exact", "nearest", "informed", "participant")


@dataclass(frozen=True)
class Everybody:
    """A population: its table, and the columns outside the keys."""

    table: rc.ContingencyTable
    columns: dict[str, np.ndarray]


@dataclass(frozen=True)
class Outcome:
    """What a plan did: its cost, and for each intruder the links before, after and to swapped records, true and estimated.

    ``too_low`` and ``too_high`` are the intruders whose interval after protection ends below the truth, or begins above it.
    """

    values: int
    hellinger: tuple[float, float]
    association: AssociationChange | None
    true: dict[str, tuple[float, float, float]]
    estimated: dict[str, tuple[float, float, float]]
    exposed: int
    too_low: tuple[str, ...]
    too_high: tuple[str, ...]


def population(name: str) -> Everybody:
    if name == "census":
        people, keys = datasets.census_population(), datasets.CENSUS_KEYS
    else:
        people, keys = pq.read_table(ADULT), ADULT_KEYS
        people = people.rename_columns([column.replace("-", "_") for column in people.column_names])
    others = [column for column in people.column_names if column not in {*keys, *LEFT_OUT}]
    return Everybody(rc.Microdata(people, keys=keys).table(records=True), {name: _values(people[name]) for name in others})


def _values(column: pa.ChunkedArray) -> np.ndarray:
    return np.array(column.to_pylist(), dtype=object)


def numbers(found: tuple[Found, ...]) -> dict[str, tuple[float, float, float]]:
    """Links before, after, and to swapped records, of each intruder."""
    return {one.name: (one.before.total, one.after.total, one.after.of_moved) for one in found}


def outcome(plan: SwapPlan, columns: dict[str, np.ndarray], real: Register, modelled: Register) -> Outcome:
    distances = hellinger_distances(BothFiles.of(plan.table, plan.table_after))
    two, three = (float(np.mean([d.hellinger for d in distances[order]])) for order in (2, 3))
    changes = association_changes(plan.release, columns)
    release = plan.release
    counted, expected = (try_intruders(release, register) for register in (real, modelled))
    nearest = next(one.after for one in counted if one.name == "nearest")
    return Outcome(
        plan.n_values_changed,
        (two, three),
        max(changes, key=lambda one: abs(one.change), default=None),
        numbers(counted),
        numbers(expected),
        int((nearest.link[nearest.moved] > THRESHOLD).sum()),
        tuple(one.name for one, model in zip(counted, expected, strict=True) if one.after.total > model.after.interval[1] + 1e-6),
        tuple(one.name for one, model in zip(counted, expected, strict=True) if one.after.total < model.after.interval[0] - 1e-6),
    )


def show(label: str, plan: SwapPlan, seconds: float, found: Outcome) -> None:
    relation = found.association
    told = "" if relation is None else f"; V of {relation.key} and {relation.column} {relation.before:.4f} → {relation.after:.4f}"
    print(
        f"  {label:<8} {len(plan):>5} swaps {found.values:>6,} values  Hellinger {found.hellinger[0]:.4f} {found.hellinger[1]:.4f}{told}; "
        f"planned in {seconds:.1f} s of processor time; {found.exposed:,} swapped records above {THRESHOLD}"
    )
    for name in INTRUDERS:
        true, estimate = found.true[name], found.estimated[name]
        print(
            f"    {name:<12} before {true[0]:>8,.1f} (estimate {estimate[0]:>8,.1f})  after {true[1]:>8,.1f} ({estimate[1]:>8,.1f})  "
            f"of these swapped {true[2]:>8,.1f} ({estimate[2]:>8,.1f})",
            flush=True,
        )


def tried(name: str, everybody: Everybody, fraction: float, seed: int) -> dict[str, Outcome]:
    assert everybody.table.record_cell is not None
    codes = everybody.table.cells[everybody.table.record_cell]
    rows = np.sort(np.random.default_rng(seed).choice(len(codes), round(fraction * len(codes)), replace=False))
    table = with_resolutions(rc.ContingencyTable.from_codes(codes[rows], everybody.table.categories), "multi")
    model, risk_model = rc.select_model(table, seed=0).best, rc.fit_backoff(table)
    risk = rc.record_risk(table, risk_model, population=len(codes))
    records = risk.above(THRESHOLD)
    columns = {column: values[rows] for column, values in everybody.columns.items()}
    print(
        f"{name}, {fraction:.1%}, seed {seed}: {table.n_records:,} records, {len(table.unique_cells):,} alone, {len(records):,} to swap"
    )
    real, modelled = Register.counted(everybody.table), Register.modelled(risk, risk_model, seed=99)
    found = {}
    for label, weight in (("nearest", 0.0), ("ours", LINK_WEIGHT)):
        begun = time.process_time()
        plan = plan_task(
            SwapTask(table, model, risk=risk, register=Register.modelled(risk, risk_model), link_weight=weight, seed=seed),
            records,
        )
        seconds = time.process_time() - begun
        found[label] = outcome(plan, columns, real, modelled)
        show(label, plan, seconds, found[label])
    return found


def table_of(outcomes: dict[tuple[str, float], list[dict[str, Outcome]]]) -> None:
    """Means over the seeds, as a table."""
    print(
        "\n| file | partners | values changed | Hellinger, two- and three-way | largest change of V | links before | nearest, after | of these "
        "swapped | informed, swapped | participant, swapped |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for (name, fraction), seeds in outcomes.items():
        for label in seeds[0]:
            each = [one[label] for one in seeds]

            def pair(intruder: str, place: int, each: list[Outcome] = each) -> str:
                true, estimate = (
                    np.mean([one[intruder][place] for one in listed])
                    for listed in ([one.true for one in each], [one.estimated for one in each])
                )
                digits = 1 if max(true, estimate) < 20 else 0
                return f"{true:,.{digits}f} ({estimate:,.{digits}f})"

            change = np.mean([abs(one.association.change) if one.association else 0.0 for one in each])
            two, three = np.mean([one.hellinger for one in each], axis=0)
            participant = np.mean([one.true["participant"][2] for one in each])
            print(
                f"| {f'{name}, {100 * fraction:g} %' if label == 'nearest' else ''} | {label} | {np.mean([one.values for one in each]):,.0f} | "
                f"{two:.4f}, {three:.4f} | {change:.4f} | {pair('nearest', 0) if label == 'nearest' else ''} | {pair('nearest', 1)} | "
                f"{pair('nearest', 2)} | {pair('informed', 2)} | {participant:,.0f} |",
                flush=True,
            )


def show_coverage(outcomes: dict[tuple[str, float], list[dict[str, Outcome]]]) -> None:
    """How many intervals of each intruder held the truth."""
    for label in ("nearest", "ours"):
        each = [one[label] for seeds in outcomes.values() for one in seeds]
        for name in INTRUDERS[:3]:
            low, high = (
                sum(name in misses for misses in side) for side in ([one.too_low for one in each], [one.too_high for one in each])
            )
            print(
                f"partners {label}, intruder {name}: {len(each) - low - high} of {len(each)} intervals after protection hold the truth, {low} end "
                f"below it, {high} begin above it"
            )


def main() -> None:
    if len(sys.argv) > 2:
        cases = [(sys.argv[1], float(sys.argv[2]), int(seed)) for seed in sys.argv[3:] or SEEDS]
    else:
        cases = [(name, fraction, seed) for name in FRACTIONS for fraction in FRACTIONS[name] for seed in SEEDS]
    populations = {name: population(name) for name in dict.fromkeys(name for name, _, _ in cases)}
    outcomes = defaultdict(list)
    for name, fraction, seed in cases:
        outcomes[name, fraction].append(tried(name, populations[name], fraction, seed))
    table_of(outcomes)
    show_coverage(outcomes)


if __name__ == "__main__":
    main()
