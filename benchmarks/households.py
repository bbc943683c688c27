"""Who is recognised by the family: how close is the number of unique households to the truth?

    python benchmarks/households.py [--fractions 0.01 0.035] [--seeds 2] [--json FILE]

Samples of whole households of the census file, whose population is known. A household is unique if no other household of the
population has the same members by their keys (relationship, sex, age, marital status, citizenship), in whatever order. For each sample the
unique households among those drawn, and the sum of 1 / F over the households that are alone in the sample, stand beside the estimates of
``rarecell assess --household``, with the persons who live in unique households.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

import rarecell as rc
from rarecell import datasets

GROUP_QUARTERS = (12, 13)
KEYS = ["relationship", "sex", "age", "marital", "citizenship"]


def households_of(population: pa.Table) -> np.ndarray:
    """The household of each person: each begins with its reference person, and residents of group quarters live by themselves."""
    relationship = population["relationship"].to_numpy()
    return np.cumsum((relationship == 0) | np.isin(relationship, GROUP_QUARTERS))


def compositions(codes: np.ndarray, household: np.ndarray) -> dict[int, tuple[tuple[int, ...], ...]]:
    """The members of each household by their keys, in an order of their own."""
    members: dict[int, list[tuple[int, ...]]] = {}
    for home, row in zip(household.tolist(), map(tuple, codes.tolist()), strict=True):
        members.setdefault(home, []).append(row)
    return {home: tuple(sorted(rows)) for home, rows in members.items()}


def one_sample(fraction: float, seed: int) -> dict[str, float]:
    population = datasets.census_population()
    household = households_of(population)
    codes = np.stack([population[key].to_numpy() for key in KEYS], axis=1)
    everybody = compositions(codes, household)
    n_alike = Counter(everybody.values())
    homes = np.array(sorted(everybody))
    drawn = np.random.default_rng(seed).choice(homes, round(len(homes) * fraction), replace=False)
    rows = np.flatnonzero(np.isin(household, drawn))
    in_sample = Counter(everybody[home] for home in drawn.tolist())
    alone = [home for home in drawn.tolist() if in_sample[everybody[home]] == 1]
    unique = [home for home in alone if n_alike[everybody[home]] == 1]
    frame = population.select(KEYS).take(rows).append_column("household", pa.array(household[rows]))
    started = time.perf_counter()
    families = rc.assess(frame, keys=KEYS, population=population.num_rows, household="household", seed=0).summary.risk.families
    seconds = time.perf_counter() - started
    assert families is not None
    return {
        "fraction": fraction,
        "seed": seed,
        "households": len(drawn),
        "persons": len(rows),
        "true": len(unique),
        "estimated": families.expected_population_uniques,
        "low": families.interval[0],
        "high": families.interval[1],
        "true_matches": sum(1 / n_alike[everybody[home]] for home in alone),
        "estimated_matches": families.expected_correct_matches,
        "true_persons": sum(len(everybody[home]) for home in unique),
        "estimated_persons": families.expected_persons,
        "seconds": seconds,
    }


def report(rows: list[dict[str, float]]) -> None:
    print(
        "| sample of households | unique households: true, estimated, interval | Σ 1/F: true, estimated | persons in them: true, estimated |"
    )
    print("|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['fraction']:.1%}, {row['households']:,.0f} households | {row['true']:,.0f}, {row['estimated']:,.0f}, "
            f"{row['low']:,.0f} to {row['high']:,.0f} | {row['true_matches']:,.0f}, {row['estimated_matches']:,.0f} | "
            f"{row['true_persons']:,.0f}, {row['estimated_persons']:,.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fractions", type=float, nargs="+", default=[0.01, 0.035])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write every sample's numbers, too")
    options = parser.parse_args()
    rows = [one_sample(fraction, seed) for fraction in options.fractions for seed in range(options.seeds)]
    report(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
