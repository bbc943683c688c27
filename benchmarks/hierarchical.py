"""Hierarchical and regularised models of the census sample: time, memory, fit, and the truth beside the estimate.

Run ``python benchmarks/hierarchical.py``. The dense cycle is what proportional fitting costs on all 4.5 million formal cells
with plain arrays; the ratio is the time that the same number of rounds would take over the time of the fit.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

import rarecell as rc
from rarecell.datasets import CENSUS_KEYS, CENSUS_POPULATION, census_population, census_sample
from rarecell.model.regularised import RegularisedModel
from rarecell.search.hierarchical import improve_model
from rarecell.table.coarsening import automatic_coarsenings
from rarecell.table.structural_zeros import find_structural_zeros


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def true_population_uniques(table: rc.ContingencyTable) -> int:
    """Sample uniques whose combination of values occurs once in the population."""
    population = census_population()
    sizes: dict[tuple[Any, ...], int] = {}
    for record in zip(*(population[key].to_pylist() for key in CENSUS_KEYS), strict=True):
        sizes[record] = sizes.get(record, 0) + 1
    found = 0
    for cell in table.cells[table.unique_cells].tolist():
        values = tuple(categories.levels[code] for categories, code in zip(table.categories, cell, strict=True))
        found += sizes[values] == 1
    return found


def dense_cycle(table: rc.ContingencyTable) -> float:
    """Seconds of one cycle of proportional fitting of all pairs over all formal cells, with numpy."""
    shape = [categories.n_levels for categories in table.categories]
    counts = np.zeros(shape)
    counts[tuple(table.cells.T)] = table.counts
    fitted = np.ones(shape)
    began = time.perf_counter()
    for pair in combinations(range(len(shape)), 2):
        others = tuple(k for k in range(len(shape)) if k not in pair)
        now = fitted.sum(axis=others, keepdims=True)
        target = counts.sum(axis=others, keepdims=True)
        fitted *= np.divide(target, now, out=np.zeros_like(now), where=now > 0)
    return time.perf_counter() - began


def report(name: str, seconds: float, model: Any, table: rc.ContingencyTable, truth: int) -> None:
    risk = rc.record_risk(table, model, population=CENSUS_POPULATION)
    estimate = risk.expected_population_uniques
    aic = f"AIC {model.aic:,.1f}, {model.degrees_of_freedom:,} df" if hasattr(model, "aic") else ""
    print(f"{name:34s} {seconds:7.2f} s   uniques {estimate:6.1f} / {truth} = {estimate / truth:.3f}   {aic}")


def main() -> None:
    table = rc.Microdata(census_sample(), keys=list(CENSUS_KEYS)).table()
    truth = true_population_uniques(table)
    print(table)
    rc.HierarchicalModel(table.project(["sex", "marital", "citizenship"]), "all two-way")  # compiles the kernels
    seconds, all_pairs = timed(lambda: rc.HierarchicalModel(table, "all two-way"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(all_pairs.convergence)
    one = dense_cycle(table)
    rounds = all_pairs.convergence.cycles
    print(
        f"peak memory after the fit {peak:.0f} MB; dense cycle {one:.2f} s, {rounds} of them are {rounds * one / seconds:.0f} times the fit"
    )
    report("all two-way, maximum likelihood", seconds, all_pairs, table, truth)

    several = table.with_coarsenings(automatic_coarsenings(table))
    for name, chosen in (("full resolution", table), ("several resolutions", several)):
        seconds, found = timed(lambda chosen=chosen: rc.select_model(chosen))
        report(f"decomposable, {name}", seconds, found.best, chosen, truth)
        seconds, better = timed(lambda chosen=chosen, found=found: improve_model(chosen, [found.best]))
        report(f"hierarchical, {name}", seconds, better.best, chosen, truth)
        seconds, regularised = timed(lambda chosen=chosen: RegularisedModel(chosen))
        report(f"regularised, {name}", seconds, regularised, chosen, truth)

    seconds, zeros = timed(lambda: find_structural_zeros(table))
    compatible = table.with_structural_zeros(zeros)
    everything = (1 << table.n_keys) - 1
    print(f"structural zeros in {seconds:.2f} s: {zeros}")
    print(f"cells without them: {compatible.n_possible_cells(everything):,} of {table.n_formal_cells:,}")
    for name, chosen in (("full", compatible), ("several", several.with_structural_zeros(zeros))):
        seconds, found = timed(lambda chosen=chosen: rc.select_model(chosen))
        report(f"decomposable, {name}, zeros", seconds, found.best, chosen, truth)
        seconds, better = timed(lambda chosen=chosen, found=found: improve_model(chosen, [found.best]))
        report(f"hierarchical, {name}, zeros", seconds, better.best, chosen, truth)


if __name__ == "__main__":
    main()
