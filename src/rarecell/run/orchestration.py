"""The two orchestrations: assess a file, and protect it.

Everything here is order and bookkeeping; the mathematics is in the modules below. A run reads the data once, collapses
them to counts, chooses the models, computes the risk, and writes its results whole or not at all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rarecell import datasets
from rarecell.data.microdata import Microdata
from rarecell.engine.addresses import named_places
from rarecell.engine.duck import EngineSettings
from rarecell.engine.output import write_parquet
from rarecell.errors import BadInput
from rarecell.machine.memory import MemoryLimit, gigabytes
from rarecell.model.decomposable import DecomposableModel
from rarecell.progress import SILENT, Progress
from rarecell.risk.diagnostics import fit_diagnostics
from rarecell.risk.explain import KeyCost, costs_by_key, explain_records, key_costs
from rarecell.risk.interval import risk_interval
from rarecell.risk.population_uniques import population_uniques
from rarecell.risk.records import RecordRisk, household_risk
from rarecell.risk.unsafe import UnsafeCombinations, k_anonymity, unsafe_combinations
from rarecell.run import files as results
from rarecell.run import folder as audit
from rarecell.run import model_choice as choice
from rarecell.run import summary
from rarecell.run import swaps as protection
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.stages import Stages
from rarecell.swap.plan import SwapPlan
from rarecell.swap.swappable import Swappability, swappability
from rarecell.table.contingency import ContingencyTable
from rarecell.table.structural_zeros import StructuralZeros

N_LISTED = 50
"""Riskiest records that the internal report explains one by one."""


@dataclass(frozen=True, eq=False)
class Assessment:
    """What is known about a file after it was assessed.

    ``riskiest`` explains single records and is for internal use; ``summary`` holds no record.
    """

    config: RunConfig
    data: Microdata
    table: ContingencyTable
    zeros: StructuralZeros
    choice: choice.ModelChoice
    risk: RecordRisk
    swappability: Swappability
    unsafe: UnsafeCombinations
    riskiest: list[dict[str, Any]] = field(repr=False)
    summary: dict[str, Any] = field(repr=False)
    seconds: dict[str, float] = field(repr=False)

    @property
    def model(self) -> DecomposableModel:
        """The best single model; swaps keep its marginals."""
        return self.choice.best

    def __str__(self) -> str:
        return str(self.summary["risk"]["verdict"])


@dataclass(frozen=True, eq=False)
class Protection:
    """A file that was assessed and protected; ``summary`` has the risk before and after."""

    assessment: Assessment
    plan: SwapPlan
    summary: dict[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return str(self.summary["swap"]["verdict"])


# ---------------------------------------------------------------------- assess


def assess(
    config: RunConfig,
    *,
    frame: Any = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Assessment:
    """Estimate the identification risk of every record.

    Parameters
    ----------
    config : every choice of the run
    frame : the data as a frame of pandas, polars, pyarrow, DuckDB or Spark; ``config.input`` is then only a name for it
    out : folder for the results; nothing is written without it
    overwrite : allow existing results to be replaced
    progress : who is told of the stages, and can stop them

    Returns
    -------
    Assessment
    """
    stages = Stages(progress)
    with results.run_folder(out, overwrite, _places(config, frame)) as folder:
        found = _assessed(config, stages, frame=frame)
        if folder is not None:
            results.write_assessment(folder, found, found.summary, stages)
            results.publish(folder, "assess", config, found, stages)
    return found


def _places(config: RunConfig, frame: Any) -> list[Path]:
    """Files and folders that the data of a run are read from."""
    return [] if frame is not None or config.spark_table is not None else named_places(config.input, config.sql)


def read(config: RunConfig, frame: Any = None) -> Microdata:
    """The data of a run, with every name checked."""
    given = frame if frame is not None else config.input or None
    if frame is None and config.spark_table is not None:
        from rarecell.engine.spark import open_spark_table

        given = open_spark_table(config.spark_table)
    return Microdata(
        given,
        keys=config.keys,
        weight=config.weight,
        household=config.household,
        geography=config.geography,
        strata=config.strata,
        sensitive=config.sensitive,
        id=config.id,
        missing=config.missing,
        coding=config.coding,
        hierarchies=config.hierarchies,
        sql=None if frame is not None else config.sql,
        settings=EngineSettings(memory=MemoryLimit.of(config.memory)),
    )


def _assessed(config: RunConfig, stages: Stages, *, frame: Any = None, wanted: ProtectConfig | None = None) -> Assessment:
    with stages.stage("reading and counting"):
        data = read(config, frame)
        data.source.watch()
        table = data.table(records=True if protection.needs_records(config, wanted, data) else None)
        limit = MemoryLimit.of(config.memory)
        limit.check(n_cells=table.n_cells, n_keys=table.n_keys, n_records=_n_held(table))
    with stages.stage("choosing resolutions"):
        table = choice.with_resolutions(table, config.resolution)
        zeros = choice.structural_zeros(table, config)
        if config.zeros != "swaps":
            table = table.with_structural_zeros(zeros)
    chosen, unsafe = stages.together(
        "searching for the model",
        {
            "searching for the model": lambda progress: choice.choose_models(table, config, progress=progress),
            "unsafe combinations": lambda _: unsafe_combinations(table),
        },
        shown="searching for the model",
    )
    with stages.stage("risk of every record"):
        stratum = _stratum_of_records(data, table, config)
        risk = choice.risk_of(table, chosen.risk_model, config, stratum=stratum)
        can_swap = swappability(table, chosen.best)

    def checks(_: Progress) -> tuple[Any, ...]:
        fit = fit_diagnostics(
            table,
            chosen.risk_model,
            population=risk.population,
            refit=lambda part: choice.quick_model(part, config),
            seed=config.seed,
        )
        estimates = population_uniques(table.size_indices, population=risk.population)
        return fit, estimates, choice.model_estimates(table, chosen, risk, config, stratum=stratum)

    def costs_of_keys(progress: Progress) -> tuple[KeyCost, ...]:
        return key_costs(
            table,
            lambda changed: choice.quick_uniques(changed, config),
            baseline=risk.expected_population_uniques,
            part=choice.part_for_comparisons(table, config),
            progress=progress,
        )

    (fit, estimates, of_models), costs, interval = stages.together(
        "interval, checks and comparisons",
        {
            "checks of fit": checks,
            "what each key costs": costs_of_keys,
            "interval": lambda _: risk_interval(risk, chosen.risk_model, seed=config.seed),
        },
    )
    riskiest = _explained(chosen.best, risk, unsafe)
    whole: dict[str, Any] = {
        "rarecell": audit.versions()["rarecell"],
        "records": table.n_records,
        "population": summary.whole(risk.population),
        "sampling_fraction": table.n_records / risk.population,
        "records_dropped": data.n_dropped,
        "missing": {"policy": config.missing, "records": {key: n for key, n in data.n_missing.items() if n}},
        "notes": [*data.summary_lines()[:1], *data.summary_lines()[2:], *risk.notes],
        "keys": summary.of_keys(table),
        "cells": summary.of_cells(table),
        "structure": summary.of_structure(zeros),
        "model": summary.of_model(chosen.best, criterion=config.criterion, search=chosen.search_summary()),
        "risk": summary.of_risk(risk, threshold=config.threshold, interval=interval.population_uniques),
    }
    whole["risk"].update(
        {
            "interval_correct_matches": list(interval.correct_matches),
            "interval_basis": interval.basis,
            "model": config.model,
            "model_describe": chosen.risk_model.describe(),
            "swappable_uniques": can_swap.n_swappable_uniques,
            "estimators": {
                **{d["name"]: d["expected_population_uniques"] for d in of_models},
                **{e.name: e.expected_population_uniques for e in estimates},
            },
            "estimator_details": [*of_models, *summary.of_estimates(estimates)],
            "diagnostics": summary.of_fit(fit),
            "k_anonymity": {str(k): n for k, n in k_anonymity(table).items()},
            "key_costs": costs_by_key(costs),
            "unsafe_combinations": summary.commonest_unsafe(unsafe),
            "key_contributions": {key: float(share) for key, share in unsafe.key_contributions.items()},
            "fixed_records": int(table.counts[can_swap.fixed_cells].sum()),
        }
    )
    if config.household is not None:
        whole["risk"]["household"] = _of_households(data, risk, config)
    whole["risk"]["verdict"] = summary.verdict(whole)
    return Assessment(config, data, table, zeros, chosen, risk, can_swap, unsafe, riskiest, whole, stages.seconds)


def _stratum_of_records(data: Microdata, table: ContingencyTable, config: RunConfig) -> NDArray[Any] | None:
    """The stratum of each record as text, when strata are given by a column that is not a key."""
    if config.strata is None or config.strata in table.keys:
        return None
    codes, (categories,) = data.column_codes([config.strata])
    return np.asarray(np.array(categories.labels)[codes[:, 0]])


def _explained(model: DecomposableModel, risk: RecordRisk, unsafe: UnsafeCombinations) -> list[dict[str, Any]]:
    """The riskiest records with their values and why they are rare: for internal use only."""
    table = risk.table
    listed = []
    for one in explain_records(risk, model, risk.riskiest(N_LISTED)):
        codes = table.cells[one.cell]
        listed.append(
            {
                # A table of counts only numbers its records; where they are is found when the risk file is written.
                "record": None if table.record_cell is None else int(one.record),
                "values": {c.key: c.labels[code] for c, code in zip(table.categories, codes, strict=True)},
                "cell_probability": one.cell_probability,
                "unique_probability": one.unique_probability,
                "match_probability": one.match_probability,
                "why": [reason.sentence for reason in one.reasons],
                "unsafe_combinations": [list(names) for names in unsafe.of_cell(one.cell)],
            }
        )
    return listed


def _of_households(data: Microdata, risk: RecordRisk, config: RunConfig) -> dict[str, Any]:
    assert config.household is not None
    codes = data.column_codes([config.household])[0][:, 0]
    probability = household_risk(risk.per_record()["unique_probability"], codes)
    first = np.unique(codes, return_index=True)[1]
    return {
        "households": len(first),
        "expected_with_an_identified_member": float(probability[first].sum()),
        "above_threshold": int((probability[first] >= config.threshold).sum()),
    }


# ---------------------------------------------------------------------- protect


def protect(
    config: RunConfig,
    *,
    frame: Any = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Protection:
    """Assess a file, swap values of its risky records, and check that every kept margin stayed as it was.

    Parameters and results are as for :func:`assess`; the protected file is written to ``out`` in the format of the input.
    """
    if config.protect is None or not config.protect.chooses_records:
        raise BadInput(
            "It is not said which records to protect. Give --risk-above, --top, --cell-probability-below, --records, "
            "--max-population-uniques or --max-record-risk."
        )
    stages = Stages(progress)
    with results.run_folder(out, overwrite, _places(config, frame)) as folder:
        found = _assessed(config, stages, frame=frame, wanted=config.protect)
        return _protected(config, config.protect, found, stages, folder)


def _protected(
    config: RunConfig, wanted: ProtectConfig, found: Assessment, stages: Stages, folder: audit.RunFolder | None
) -> Protection:
    from rarecell.swap.apply import checked_margins, write_plan
    from rarecell.swap.target import frontier
    from rarecell.swap.utility import first_found_distance, swap_summary

    with stages.stage("planning the swaps"):
        plan, target = protection.planned_swaps(config, wanted, found, stages.progress)
    with stages.stage("comparing margins"):
        margins = checked_margins(plan)
    with stages.stage("what it cost"):
        columns = protection.other_columns(found.data, plan)
        swap = swap_summary(
            plan,
            found.risk,
            columns=columns,
            margins_identical=all(check.is_identical for check in margins),
            first_found_distance=first_found_distance(plan),
            frontier=target["frontier"] if target else frontier(found.risk, plan),
        )
        swap["margins"] = [{"variables": list(check.variables), "cells": check.n_cells} for check in margins]
        if target:
            swap["target"] = {"met": target["met"], "sentence": target["sentence"]}
            swap["verdict"] = f"{target['sentence']} {swap['verdict']}"
        if wanted.keep:
            swap["keep"] = protection.costs_of_keeping(found, wanted)
    result = Protection(found, plan, {**found.summary, "swap": swap})
    if folder is not None:
        with stages.stage("writing the protected file"):
            written = write_plan(plan, found.data, folder.path(f"protected{found.data.source.suffix}"))
            write_parquet(folder.path("swaps.parquet"), plan.audit(written.places))
        results.write_assessment(folder, found, result.summary, stages)
        results.publish(folder, "protect", config, found, stages)
    return result


# ---------------------------------------------------------------------- demo, forecast, pairs


def demo(*, out: str | Path | None = None, overwrite: bool = False, progress: Progress = SILENT) -> Protection:
    """Assess and protect the shipped census sample, and hold the estimate against its population."""
    config = RunConfig(
        input=str(datasets.census_sample_path()),
        keys=datasets.CENSUS_KEYS,
        population=datasets.CENSUS_POPULATION,
        household="household",
        protect=ProtectConfig(risk_above=0.2),
    )
    stages = Stages(progress)
    with results.run_folder(out, overwrite) as folder:
        found = _assessed(config, stages, wanted=config.protect)
        with stages.stage("counting the population"):
            found.summary["truth"] = summary.against_truth(found.summary, _population_counts(found.table))
        assert config.protect is not None
        return _protected(config, config.protect, found, stages, folder)


def _population_counts(table: ContingencyTable) -> NDArray[np.int64]:
    """F of every sample unique in the shipped population."""
    population = datasets.census_population()
    codes = np.empty((population.num_rows, table.n_keys), dtype=np.int32)
    for k, categories in enumerate(table.categories):
        code_of = {level: code for code, level in enumerate(categories.levels)}
        levels = np.arange(-1, max(code_of) + 1)
        lookup = np.array([code_of.get(int(level), -1) for level in levels], dtype=np.int32)
        values = population[categories.key].to_numpy()
        codes[:, k] = lookup[np.minimum(values, len(levels) - 2) + 1]
    everybody = ContingencyTable.from_codes(codes, table.categories)
    everything = table.all_keys
    return np.asarray(everybody.marginals.lookup(everything, table.cells[table.unique_cells]))


def forecast(config: RunConfig) -> str:
    """Cells, memory and time of a run, said before it starts."""
    from rarecell.search import estimate_exact

    data = read(config)
    table = choice.with_resolutions(data.table(), config.resolution)
    cost = estimate_exact(table, max_clique=config.max_clique)
    limit = MemoryLimit.of(config.memory)
    needed = limit.needed(n_cells=table.n_cells, n_keys=table.n_keys, n_records=_n_held(table))
    return "\n".join(
        [
            *data.summary_lines(),
            str(table),
            f"Vertices of the model: {', '.join(table.vertex_names)}.",
            f"Exact search: {cost}.",
            f"Memory: about {gigabytes(needed)} at the peak; {gigabytes(limit.total)} may be used.",
        ]
    )


def _n_held(table: ContingencyTable) -> int:
    """Records whose cells are held in memory."""
    return 0 if table.record_cell is None else len(table.record_cell)


def explain_pair(folder: str | Path, record: int, partner: int) -> str:
    """Why two records of a finished run can or cannot be swapped."""
    from rarecell.swap.swappable import explain_pair as explain

    config = RunConfig.read(Path(folder) / "run.toml")
    table = choice.with_resolutions(read(config).table(records=True), config.resolution)
    try:
        stored = json.loads((Path(folder) / "model.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise BadInput(f"{folder} is not the folder of a finished run: {problem}.") from None
    return str(explain(table, DecomposableModel.from_dict(table, stored["best"]), record, partner))
