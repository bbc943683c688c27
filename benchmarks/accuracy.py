"""How close are the estimates to the truth, on samples from populations that are known?

    python benchmarks/accuracy.py [--seeds 10] [--fractions 0.005 0.01 0.035 0.1] [--sets census-8 adult-9 …]
                                  [--designs srs key column noise] [--models default|usual|all] [--csv FILE]

Draws samples from the census of Massachusetts and from Adult, with several sets of keys: simple random ones, or with unequal
weights. Designs: inclusion by the root of the sizes of groups of a key, or of a column that is no key; log-normal noise (σ = 0.6)
in the inclusion. Prints for every estimator: the mean estimate over the mean truth of the population
uniques (τ1) and correct matches (τ2) among the sample uniques, log-loss, Brier score and AUC of the per-record probability, and
in how many of the samples the interval of 95 % held the true number of population uniques, and how wide it was. Then errors
over combinations and over single samples, a calibration table of the default, and the error allowance of its interval measured
with one population left out.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.latent_classes import latent_class_risk

import rarecell as rc
from rarecell import datasets
from rarecell.risk.interval import RiskInterval, risk_interval
from rarecell.risk.population_uniques import ewens, pitman
from rarecell.run import model_choice as choice
from rarecell.run.config import RunConfig
from rarecell.table.level_order import with_meant_orders
from tests.reference import ADULT_KEYS, adult_population, table_of

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
DESIGNS = ("srs", "key", "column", "noise")
DESIGN_COLUMNS = {
    "census-5": ("education", "relationship"),
    "census-6": ("education", "race"),
    "census-8": ("age", "education"),
    "census-10": ("education", "employed"),
    "adult-5": ("occupation", "education"),
    "adult-6": ("age", "native_country"),
    "adult-7": ("education", "hours_per_week"),
    "adult-9": ("occupation", "hours_per_week"),
    "adult-10": ("occupation", "capital_gain"),
}
"""For each set of keys the key and the other column whose groups are sampled unequally."""
LEAST_TRUTH = 50
DEFAULT = "default"


def population_of(name: str) -> pa.Table:
    return datasets.census_population() if name == "census" else adult_population()


def estimators(which: str) -> dict[str, dict[str, str]]:
    """Options of a run, by the name of the estimator: the default alone, the usual comparison, or every model of the package."""
    if which == "default":
        return {DEFAULT: {}}
    more = {
        "Bayesian average, full resolution": {"model": "bayes", "resolution": "full"},
        "hierarchical": {"model": "hierarchical"},
        "regularised, all pairs": {"model": "regularised"},
        "stacked": {"model": "stacked"},
        "Skinner and Shlomo's criterion": {"model": "single", "resolution": "full", "criterion": "skinner-shlomo"},
        "independence": {"model": "independence"},
    }
    return {
        DEFAULT: {},
        "average, full resolution": {"resolution": "full"},
        "single AIC, several resolutions": {"model": "single"},
        "single AIC, full resolution": {"model": "single", "resolution": "full"},
        **(more if which == "all" else {}),
    }


def drawn(population: pa.Table, name: str, design: str, n_records: int, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows of a sample, and their weights unless it is simple random."""
    rng = np.random.default_rng(1000 + seed)
    n = population.num_rows
    if design == "srs":
        return np.sort(rng.choice(n, n_records, replace=False)), None
    if design == "noise":
        relative = np.exp(0.6 * rng.standard_normal(n))
    else:
        column = DESIGN_COLUMNS[name][design == "column"]
        _, group = np.unique(population[column].to_numpy(zero_copy_only=False), return_inverse=True)
        relative = (1.0 / np.sqrt(np.bincount(group)))[group]
    inclusion = np.minimum(relative * n_records / relative.sum(), 1.0)
    for _ in range(20):
        inclusion = np.minimum(inclusion * n_records / inclusion.sum(), 1.0)
    rows = np.flatnonzero(rng.random(n) < inclusion)
    return rows, 1.0 / inclusion[rows]


def one_sample(task: tuple[str, float, int, str, str]) -> list[dict[str, object]]:
    """Every estimator on one sample."""
    name, fraction, seed, design, which = task
    source, keys = KEY_SETS[name]
    population = population_of(source)
    rows, weights = drawn(population, name, design, round(population.num_rows * fraction), seed)
    population = population.select(list(keys))
    n_population = population.num_rows
    everybody = table_of(population, keys)
    plain, _ = with_meant_orders(table_of(population.take(rows), keys))
    if weights is not None:
        plain = replace(plain, weights=np.bincount(plain.record_cell, weights=weights, minlength=plain.n_cells))
    counts_of_cells = np.zeros(plain.n_cells, dtype=np.int64)
    counts_of_cells[plain.record_cell] = everybody.counts[everybody.record_cell[rows]]
    unique = plain.unique_cells
    population_count = counts_of_cells[unique]
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
                "design": design,
                "population": source,
                "seed": seed,
                "estimator": label,
                "truth": n_true,
                "estimate": float(probability.sum()),
                "true_matches": float((1 / population_count).sum()),
                "matches": matches,
                "width": None
                if interval is None
                else (interval.population_uniques[1] - interval.population_uniques[0]) / max(n_true, 1),
                "covered": None if interval is None else covers(interval.population_uniques, truth.sum()),
                "covered_matches": None if interval is None else covers(interval.correct_matches, (1 / population_count).sum()),
                "log_loss": float(-np.mean(np.where(truth, np.log(p), np.log1p(-p)))),
                "brier": float(np.mean((p - truth) ** 2)),
                "auc": auc,
                "chance": float(np.sqrt(np.sum(p * (1 - p)))),
                "seconds": seconds,
                "calibration": [
                    (int(inside.sum()), float(p[inside].sum()), int(truth[inside].sum()))
                    for low in np.arange(0, 1, 0.1)
                    for inside in [(p >= low) & (p < low + 0.1 + 1e-9 * (low > 0.85))]
                ],
            }
        )

    for label, options in estimators(which).items():
        started = time.perf_counter()
        config = RunConfig(input="", keys=keys, population=n_population, **options)
        table = choice.with_resolutions(plain, config.resolution)
        model = choice.choose_models(table, config).risk_model
        risk = choice.risk_of(table, model, config)
        matches, seconds = risk.expected_correct_matches, time.perf_counter() - started
        record(label, risk.unique_probability[unique], matches, seconds, risk_interval(risk, model, seed=seed))
    if which == "all":
        started = time.perf_counter()
        probability = latent_class_risk(plain, n_population, seed=seed)
        record("latent classes (Dirichlet process)", probability, None, time.perf_counter() - started)
    sizes = {"Ewens, maximum likelihood": ewens, "Pitman, maximum likelihood": pitman} if which != "default" else {}
    for label, estimate in sizes.items():
        found = estimate(plain.size_indices, population=n_population)
        if found.unique_probability is not None:
            record(label, np.full(len(unique), found.unique_probability))
    return results


def covers(interval: tuple[float, float], truth: float) -> bool:
    return bool(interval[0] <= truth <= interval[1])


def share(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.0%}"


def mean(found: list[dict[str, object]], name: str) -> float:
    values = [row[name] for row in found if row[name] is not None]
    return float(np.mean(values)) if values else float("nan")


def report(rows: list[dict[str, object]]) -> None:
    by_combination: dict[tuple[str, str, float], dict[str, list[dict[str, object]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_combination[row["design"], row["set"], row["fraction"]][row["estimator"]].append(row)
    print(
        f"{'design':<10} {'keys':<10} {'fraction':>8} {'true τ1':>8}  {'estimator':<34} {'τ1/true':>8} {'τ2/true':>8} {'log-loss':>8} "
        f"{'Brier':>7} {'AUC':>6} {'held':>5} {'width':>6} {'s':>6}"
    )
    for (design, name, fraction), of_estimator in sorted(by_combination.items()):
        for label, found in of_estimator.items():
            truth = mean(found, "truth")
            ratio = mean(found, "estimate") / truth if truth else float("nan")
            print(
                f"{design:<10} {name:<10} {fraction:>8.3f} {truth:>8.1f}  {label:<34} {ratio:>8.3f} "
                f"{mean(found, 'matches') / mean(found, 'true_matches'):>8.3f} "
                f"{mean(found, 'log_loss'):>8.4f} {mean(found, 'brier'):>7.4f} {mean(found, 'auc'):>6.3f} "
                f"{share(mean(found, 'covered')):>5} {share(mean(found, 'width')):>6} {mean(found, 'seconds'):>6.2f}"
            )
    for design in dict.fromkeys(design for design, _, _ in sorted(by_combination)):
        report_errors(design, {key[1:]: found for key, found in by_combination.items() if key[0] == design})
    of_default = [row for row in rows if row["estimator"] == DEFAULT]
    report_calibration(of_default)
    report_allowance(of_default)


def report_errors(design: str, combinations: dict[tuple[str, float], dict[str, list[dict[str, object]]]]) -> None:
    """Errors of means over the samples of a combination, and of single samples."""
    labels = list(dict.fromkeys(label for found in combinations.values() for label in found))
    print(f"\nDesign {design}; combinations with at least {LEAST_TRUTH} true population uniques, then all single samples:")
    print(
        f"{'estimator':<34} {'number':>6} {'median':>7} {'worst':>7} {'log-loss':>9} {'τ1 held':>8} {'τ2 held':>8} {'width':>6}   "
        f"{'samples':>7} {'median':>7} {'90 %':>7} {'worst':>7} {'slope':>6}"
    )
    for label in labels:
        every = [found[label] for found in combinations.values() if label in found]
        large = [found for found in every if mean(found, "truth") >= LEAST_TRUTH]
        errors = [abs(mean(found, "estimate") / mean(found, "truth") - 1) for found in large] or [float("nan")]
        singles = [row for found in every for row in found if row["truth"]]
        single = [abs(row["estimate"] / row["truth"] - 1) for row in singles]
        slope = np.polyfit(*np.log([[row["estimate"], row["truth"]] for row in singles]).T, 1)[0] if len(singles) > 2 else np.nan
        print(
            f"{label:<34} {len(large):>6} {np.median(errors):>7.1%} {max(errors):>7.1%} "
            f"{np.mean([mean(found, 'log_loss') for found in large]) if large else np.nan:>9.4f} "
            f"{share(np.mean([mean(found, 'covered') for found in large]) if large else np.nan):>8} "
            f"{share(np.mean([mean(found, 'covered_matches') for found in large]) if large else np.nan):>8} "
            f"{share(np.mean([mean(found, 'width') for found in large]) if large else np.nan):>6}   "
            f"{len(single):>7} {np.median(single):>7.1%} {np.quantile(single, 0.9):>7.1%} {max(single):>7.1%} {slope:>6.3f}"
        )


def report_calibration(rows: list[dict[str, object]]) -> None:
    print("\nCalibration of the default: records with an estimated risk in each band")
    print(f"{'risk':<10} {'records':>9} {'expected uniques':>17} {'true uniques':>13} {'expected/true':>14}")
    bands = np.sum([row["calibration"] for row in rows], axis=0)
    for k, (n, expected, true) in enumerate(bands):
        print(f"{k / 10:.1f}–{(k + 1) / 10:.1f}    {n:>9,.0f} {expected:>17,.1f} {true:>13,.0f} {expected / max(true, 1):>14.3f}")


def report_allowance(rows: list[dict[str, object]]) -> None:
    """How far the default is off beyond chance, relative to the truth, measured without each population in turn."""
    print("\nError of the default beyond chance (standard deviation relative to the estimate), with one population left out:")
    for left_out in sorted({row["population"] for row in rows}):
        others = [row for row in rows if row["population"] != left_out and row["truth"] >= LEAST_TRUTH]
        if others:
            squares = [(row["estimate"] / row["truth"] - 1) ** 2 - (row["chance"] / row["estimate"]) ** 2 for row in others]
            print(f"without {left_out:<10} {np.sqrt(max(np.mean(squares), 0.0)):.3f} over {len(others)} samples")


def main(argv: list[str] | None = None, *, show: Callable[[list[dict[str, object]]], None] = report) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--fractions", type=float, nargs="+", default=list(FRACTIONS))
    parser.add_argument("--sets", nargs="+", default=list(KEY_SETS), choices=list(KEY_SETS))
    parser.add_argument("--designs", nargs="+", default=["srs"], choices=DESIGNS)
    parser.add_argument("--models", choices=["default", "usual", "all"], default="usual", help="which estimators to compare")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--csv", type=Path, help="write one line per sample and estimator")
    options = parser.parse_args(argv)
    tasks = [
        (name, fraction, seed, design, options.models)
        for name in options.sets
        for fraction in options.fractions
        for design in options.designs
        for seed in range(options.seeds)
    ]
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
