"""How close are the estimates to the truth, on samples from populations that are known?

    python benchmarks/accuracy.py [--seeds 10] [--fractions 0.005 0.01 0.035 0.1] [--sets census-8 adult-9 …] [--csv FILE]

Draws simple random samples from the census of Massachusetts and from Adult, with several sets of keys, and prints for
every estimator: the mean estimate over the mean truth of the population uniques (τ1) and correct matches (τ2) among the
sample uniques, log-loss, Brier score and AUC of the per-record probability, and in how many of the samples the interval of
95 % held the true number of population uniques. Then medians and worst cases over the combinations with at least 50 true
population uniques on average, and a calibration table of the default.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import rarecell as rc
from rarecell import datasets
from rarecell.risk.interval import RiskInterval, risk_interval
from rarecell.risk.population_uniques import ewens, pitman
from rarecell.run import model_choice as choice
from rarecell.run.config import RunConfig
from tests.reference import ADULT_KEYS, adult_population, sampled, table_of

KEY_SETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "census-5": ("census", ("age", "sex", "race", "education", "marital")),
    "census-6": ("census", ("relationship", "age", "sex", "citizenship", "education", "employed")),
    "census-8": ("census", datasets.CENSUS_KEYS),
    "census-10": ("census", (*datasets.CENSUS_KEYS, "education", "race")),
    "adult-5": ("adult", ("age", "occupation", "native_country", "race", "sex")),
    "adult-6": ("adult", ("age", "education", "occupation", "race", "sex", "hours_per_week")),
    "adult-7": ("adult", ("age", "workclass", "education", "marital_status", "occupation", "race", "sex")),
    "adult-9": ("adult", ADULT_KEYS),
    "adult-10": ("adult", (*ADULT_KEYS, "hours_per_week")),
}
FRACTIONS = (0.005, 0.01, 0.035, 0.1)
LEAST_TRUTH = 50
DEFAULT = "default"


def population_of(name: str) -> pa.Table:
    return datasets.census_population() if name == "census" else adult_population()


def estimators() -> dict[str, dict[str, str]]:
    """Options of a run, by the name of the estimator."""
    return {
        DEFAULT: {},
        "average, full resolution": {"resolution": "full"},
        "single AIC, several resolutions": {"model": "single"},
        "single AIC, full resolution": {"model": "single", "resolution": "full"},
    }


def one_sample(task: tuple[str, float, int]) -> list[dict[str, object]]:
    """Every estimator on one sample."""
    name, fraction, seed = task
    source, keys = KEY_SETS[name]
    population = population_of(source).select(list(keys))
    n_population = population.num_rows
    everybody = table_of(population, keys)
    sample = sampled(population, round(n_population * fraction), 1000 + seed)
    plain = table_of(sample, keys)
    unique = plain.unique_cells
    rows = np.stack(
        [
            np.searchsorted(np.array(e.levels), np.array(c.levels))[plain.cells[unique, k]]
            for k, (e, c) in enumerate(zip(everybody.categories, plain.categories, strict=True))
        ],
        axis=1,
    ).astype(np.int32)
    population_count = everybody.marginals.lookup((1 << len(keys)) - 1, rows)
    truth = population_count == 1
    results = []

    def record(
        label: str,
        probability: np.ndarray,
        matches: float | None = None,
        seconds: float = 0.0,
        interval: RiskInterval | None = None,
    ) -> None:
        p = np.clip(probability, 1e-6, 1 - 1e-6)
        order = np.argsort(np.argsort(p, kind="stable"))
        n_true, n_false = int(truth.sum()), int((~truth).sum())
        auc = (order[truth].sum() - n_true * (n_true - 1) / 2) / (n_true * n_false) if n_true and n_false else np.nan
        results.append(
            {
                "set": name,
                "fraction": fraction,
                "seed": seed,
                "estimator": label,
                "truth": n_true,
                "estimate": float(probability.sum()),
                "true_matches": float((1 / population_count).sum()),
                "matches": matches,
                "covered": None if interval is None else covers(interval.population_uniques, truth.sum()),
                "covered_matches": None if interval is None else covers(interval.correct_matches, (1 / population_count).sum()),
                "log_loss": float(-np.mean(np.where(truth, np.log(p), np.log1p(-p)))),
                "brier": float(np.mean((p - truth) ** 2)),
                "auc": auc,
                "seconds": seconds,
                "calibration": [
                    (int(inside.sum()), float(p[inside].sum()), int(truth[inside].sum()))
                    for low in np.arange(0, 1, 0.1)
                    for inside in [(p >= low) & (p < low + 0.1 + 1e-9 * (low > 0.85))]
                ],
            }
        )

    for label, options in estimators().items():
        started = time.perf_counter()
        config = RunConfig(input="", keys=keys, population=n_population, **options)
        table = choice.with_resolutions(plain, config.resolution)
        model = choice.choose_models(table, config).risk_model
        risk = choice.risk_of(table, model, config)
        matches, seconds = risk.expected_correct_matches, time.perf_counter() - started
        record(label, risk.unique_probability[unique], matches, seconds, risk_interval(risk, model, seed=seed))
    for label, estimate in (("Ewens, maximum likelihood", ewens), ("Pitman, maximum likelihood", pitman)):
        found = estimate(plain.size_indices, population=n_population)
        if found.unique_probability is not None:
            record(label, np.full(len(unique), found.unique_probability))
    return results


def covers(interval: tuple[float, float], truth: float) -> bool:
    return bool(interval[0] <= truth <= interval[1])


def share(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.0%}"


def report(rows: list[dict[str, object]]) -> None:
    by_combination: dict[tuple[str, float], dict[str, list[dict[str, object]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_combination[row["set"], row["fraction"]][row["estimator"]].append(row)

    def mean(found: list[dict[str, object]], name: str) -> float:
        values = [row[name] for row in found if row[name] is not None]
        return float(np.mean(values)) if values else float("nan")

    errors: dict[str, list[float]] = defaultdict(list)
    losses: dict[str, list[float]] = defaultdict(list)
    held: dict[str, list[list[float]]] = defaultdict(list)
    print(
        f"{'keys':<10} {'fraction':>8} {'true τ1':>8}  {'estimator':<34} {'τ1/true':>8} {'τ2/true':>8} {'log-loss':>8} {'Brier':>7} {'AUC':>6} {'held':>5} {'s':>6}"
    )
    for (name, fraction), of_estimator in sorted(by_combination.items()):
        for label, found in of_estimator.items():
            truth = mean(found, "truth")
            ratio = mean(found, "estimate") / truth if truth else float("nan")
            matched = mean(found, "matches") / mean(found, "true_matches")
            print(
                f"{name:<10} {fraction:>8.3f} {truth:>8.1f}  {label:<34} {ratio:>8.3f} {matched:>8.3f} "
                f"{mean(found, 'log_loss'):>8.4f} {mean(found, 'brier'):>7.4f} {mean(found, 'auc'):>6.3f} "
                f"{share(mean(found, 'covered')):>5} {mean(found, 'seconds'):>6.2f}"
            )
            if truth >= LEAST_TRUTH:
                errors[label].append(abs(ratio - 1))
                losses[label].append(mean(found, "log_loss"))
                held[label].append([mean(found, "covered"), mean(found, "covered_matches")])
    single = "single AIC, full resolution"
    print(f"\nCombinations with at least {LEAST_TRUTH} true population uniques:")
    print(
        f"{'estimator':<34} {'number':>6} {'median error':>12} {'worst error':>11} {'mean log-loss':>13} {'log-loss below single AIC':>25} "
        f"{'τ1 held':>8} {'τ2 held':>8}"
    )
    for label, found in errors.items():
        better = (
            sum(a < b for a, b in zip(losses[label], losses[single], strict=False))
            if len(losses[label]) == len(losses[single])
            else 0
        )
        uniques_held, matches_held = np.mean(held[label], axis=0)
        print(
            f"{label:<34} {len(found):>6} {np.median(found):>12.1%} {max(found):>11.1%} {np.mean(losses[label]):>13.4f} "
            f"{better:>19} of {len(losses[single])} {share(uniques_held):>8} {share(matches_held):>8}"
        )
    print("\nCalibration of the default: records with an estimated risk in each band")
    print(f"{'risk':<10} {'records':>9} {'expected uniques':>17} {'true uniques':>13}")
    bands = np.sum([row["calibration"] for row in rows if row["estimator"] == DEFAULT], axis=0)
    for k, (n, expected, true) in enumerate(bands):
        print(f"{k / 10:.1f}–{(k + 1) / 10:.1f}    {n:>9,.0f} {expected:>17,.1f} {true:>13,.0f}")


def main(argv: list[str] | None = None, *, show: Callable[[list[dict[str, object]]], None] = report) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--fractions", type=float, nargs="+", default=list(FRACTIONS))
    parser.add_argument("--sets", nargs="+", default=list(KEY_SETS), choices=list(KEY_SETS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--csv", type=Path, help="write one line per sample and estimator")
    options = parser.parse_args(argv)
    tasks = [(name, fraction, seed) for name in options.sets for fraction in options.fractions for seed in range(options.seeds)]
    rows: list[dict[str, object]] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for done, found in enumerate(pool.map(one_sample, tasks), 1):
            rows.extend(found)
            print(f"\r{done} of {len(tasks)} samples", end="", file=sys.stderr)
    print(file=sys.stderr)
    print(f"rarecell {rc.__version__}, {options.seeds} seeds per combination\n")
    show(rows)
    if options.csv:
        with options.csv.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, [name for name in rows[0] if name != "calibration"], extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
