"""Is the risk right for files with missing answers, in each of the three readings of a missing value?

    python benchmarks/missing.py [--sets adult-6 adult-5 census-6 census-8] [--fraction 0.1] [--blanked 0.05] [--seeds 1]

A share of the values of every key is blanked in the whole population (:mod:`benchmarks.populations`), a sample is drawn, and the number of
population uniques is estimated and counted by each definition: a missing value is a level of its own; it is compatible with every
value, in the sample and in the population; or the register is complete and knows what was blanked. Printed with the estimates: for
compatible values also the number of other people who match a record, expected and counted.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.populations import KEY_SETS, available_sets, population_of

import rarecell as rc
from rarecell.risk.missing_values import matching_anything, register_complete
from rarecell.risk.records import RecordRisk, record_risk
from rarecell.run import models as choice
from rarecell.run.config import RunConfig

MISSING = -1


def n_matching(rows: np.ndarray, people: np.ndarray, *, lacking_match: bool) -> np.ndarray:
    """For each row, how many people have its known values; with ``lacking_match`` those who lack a value have it, too."""
    number = np.zeros(len(rows), dtype=np.int64)
    for place, row in enumerate(rows):
        matches = np.ones(len(people), dtype=bool)
        for k in np.flatnonzero(row != MISSING):
            column = people[:, k]
            matches &= (column == row[k]) | (column == MISSING) if lacking_match else column == row[k]
        number[place] = matches.sum()
    return number


def one_sample(name: str, fraction: float, blanked: float, seed: int) -> None:
    source, keys = KEY_SETS[name]
    population = population_of(source).select(list(keys))
    rng = np.random.default_rng(seed)
    n = population.num_rows
    complete = np.stack([population[key].dictionary_encode().combine_chunks().indices.to_numpy() for key in keys], axis=1)
    released = complete.copy()
    released[rng.random(complete.shape) < blanked] = MISSING
    rows = np.sort(rng.choice(n, round(n * fraction), replace=False))
    sample = {
        key: pa.array(population[key].take(rows).to_pylist(), mask=released[rows, k] == MISSING) for k, key in enumerate(keys)
    }
    config = RunConfig(input="", keys=keys, population=n)
    table = choice.with_resolutions(rc.Microdata(pa.table(sample), keys=list(keys)).table(), config.resolution)
    model = choice.risk_model(table, config)
    own_level = record_risk(table, model, population=n)
    _, group, size = np.unique(released, axis=0, return_inverse=True, return_counts=True)

    def tell(label: str, risk: RecordRisk, n_people: np.ndarray, alone: np.ndarray, *, tell_people: bool = False) -> None:
        cells = table.record_cell[alone]
        expected, true = risk.unique_probability[cells].sum(), int((n_people == 1).sum())
        people = ""
        if tell_people:
            people = (
                f"{np.exp(risk.log_cell_probability[cells]).mean() * (n - table.n_records):>9.2f} {(n_people - 1).mean():>8.2f}"
            )
        print(
            f"{name:<11} {fraction:>8.3f} {seed:>4} {label:<18} {len(alone):>8,} {expected:>9.1f} {true:>6} {expected / max(true, 1):>6.2f} {people}"
        )

    def alone_by(risk: RecordRisk) -> np.ndarray:
        return np.flatnonzero(risk.sample_count[table.record_cell] == 1)

    alone = alone_by(own_level)
    tell("own level", own_level, size[group.ravel()[rows[alone]]], alone)
    compatible = matching_anything(own_level, model)
    alone = alone_by(compatible)
    n_people = n_matching(released[rows[alone]], released, lacking_match=True)
    tell("matches anything", compatible, n_people, alone, tell_people=True)
    registered = register_complete(own_level, model)
    alone = alone_by(registered)
    tell("register complete", registered, n_matching(released[rows[alone]], complete, lacking_match=False), alone)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["adult-6", "adult-5", "census-6", "census-8"], choices=available_sets())
    parser.add_argument("--fraction", type=float, default=0.1)
    parser.add_argument("--blanked", type=float, default=0.05)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args(argv)
    print(
        f"{'keys':<11} {'fraction':>8} {'seed':>4} {'missing':<18} {'uniques':>8} {'estimate':>9} {'true':>6} {'ratio':>6} {'expected':>9} {'people':>8}"
    )
    for name in options.sets:
        for seed in range(options.seeds):
            one_sample(name, options.fraction, options.blanked, seed)


if __name__ == "__main__":
    main()
