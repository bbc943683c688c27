"""Which records of a file could be recognised, and how likely is that?

An assessment reads the data once, collapses them to counts, chooses the models, computes the risk and judges it. The
mathematics is in other packages; :mod:`rarecell.run.files` writes what was found.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np
from numpy.typing import NDArray

from rarecell.choices import MATCHES_ANYTHING
from rarecell.data.coding import joined_codings
from rarecell.data.microdata import Microdata
from rarecell.engine import open_source, open_table
from rarecell.engine.duck import EngineSettings
from rarecell.machine.memory import MemoryLimit
from rarecell.model.decomposable import DecomposableModel
from rarecell.outcome.records import RiskyRecord
from rarecell.outcome.summary import EstimatorDetail
from rarecell.outcome.verdict import judged
from rarecell.progress import SILENT, Progress
from rarecell.risk.design_effect import design_effect
from rarecell.risk.diagnostics import FitDiagnostics, fit_diagnostics
from rarecell.risk.explain import KeyCost, explain_records, key_costs
from rarecell.risk.interval import risk_interval
from rarecell.risk.missing_values import matching_anything
from rarecell.risk.population_uniques import UniquesEstimate, population_uniques
from rarecell.risk.records import RecordRisk, household_risk
from rarecell.risk.unsafe import UnsafeCombinations, unsafe_combinations
from rarecell.run import files, model_choice, summary, swaps
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.copies import find_doubles
from rarecell.run.early_checks import inputs_of, refuse_unknown_names
from rarecell.run.findings import Findings, Judgement
from rarecell.run.groups import concentration_of, groups_of, role_columns
from rarecell.run.keywords import NO_FRAMES, Frames, RunOptions, as_config
from rarecell.run.model_choice import ModelChoice
from rarecell.run.results import Assessment
from rarecell.run.roles import find_roles
from rarecell.run.stages import Stage, Stages
from rarecell.run.strata import with_design_weights
from rarecell.swap.swappable import swappability
from rarecell.table.contingency import ContingencyTable
from rarecell.table.identifying import refuse_identifying_keys
from rarecell.table.structural_zeros import StructuralZeros

if TYPE_CHECKING:
    from rarecell.edges import Frame

N_LISTED = 50
"""Number of riskiest records that the internal report explains one by one."""


def assess(
    data: Frame,
    *,
    frame: Frame = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress = SILENT,
    **options: Unpack[RunOptions],
) -> Assessment:
    """Estimate the identification risk of every record.

    Parameters
    ----------
    data : frame, path or RunConfig
        The records: a frame of pandas, polars, pyarrow, DuckDB or Spark, or the path of a file; or a configuration that
        holds every choice of the run.
    frame : frame, optional
        With a configuration, the data as a frame; ``config.input`` is then only a name for it.
    out : str or Path, optional
        Folder for the results; nothing is written without it.
    overwrite : bool
        Allow existing results to be replaced.
    progress : Progress
        Receives the stages as they begin and end, and can stop them.
    **options
        Every option of the command, under the names of :class:`RunConfig`: ``keys``, ``population``, ``weight``,
        ``household``, ``threshold``, ``seed``, …; ``register`` is the population, as a path or a frame, and ``paper=True``
        stands for the procedure of Takemura and Endo.

    Returns
    -------
    Assessment
        The risk of every record, the models behind it, and a summary.

    Examples
    --------
    >>> import rarecell as rc
    >>> from rarecell import datasets
    >>> found = rc.assess(datasets.census_sample(), keys=["age", "sex", "marital"], population=277_677)
    >>> found.summary.risk.sample_uniques
    60
    """
    config, given = as_config(data, frame, options)
    stages = Stages(progress)
    with files.run_folder(out, overwrite, inputs_of(config, given.data)) as folder:
        found = assessed(config, stages, given)
        if folder is not None:
            files.write_assessment(folder, found, found.summary, stages)
            files.publish(folder, "assess", found, stages)
    return found


def read(config: RunConfig, frame: Frame = None, *, numbered: bool = False) -> Microdata:
    """Read the data of a run and check every name; when ``numbered``, each record has a position, perhaps given by its id."""
    given = frame if frame is not None else config.input or None
    if frame is None and config.spark_table is not None:
        given = open_table(config.spark_table)
    settings = EngineSettings(
        memory=MemoryLimit.of(config.memory), encoding=config.encoding, sheet=config.sheet, decimal=config.decimal
    )
    source = open_source(given, sql=None if frame is not None else config.sql, settings=settings)
    return Microdata(
        source.numbered(config.id) if numbered else source,
        keys=config.keys,
        weight=config.weight,
        household=config.household,
        geography=config.geography,
        strata=config.strata,
        sensitive=config.sensitive,
        id=config.id,
        missing="level" if config.missing == MATCHES_ANYTHING else config.missing,
        coding=joined_codings(config.coding, config.recode),
        hierarchies=config.hierarchies,
        settings=settings,
    )


# ---------------------------------------------------------------------- the steps


def assessed(config: RunConfig, stages: Stages, frames: Frames = NO_FRAMES, *, wanted: ProtectConfig | None = None) -> Assessment:
    """Assess a file, step by step; ``wanted`` says what a protection will need to know about the records."""
    data, table, zeros = _counted(config, stages, frames.data, wanted)
    chosen, unsafe = _modelled(table, config, stages)
    with stages.stage(Stage.RISK):
        own = model_choice.own_level_risk(table, chosen.risk_model, config)
        anything = matching_anything(own, chosen.risk_model)
        risk = anything if config.missing == MATCHES_ANYTHING else own
        can_swap = swappability(table, chosen.best)
    with stages.stage(Stage.ROLES):
        roles = find_roles(data, risk, config, register=frames.register)
    judgement = _judged(data, risk, chosen, config, stages)
    of_households = _of_households(data, risk)
    found = Findings(config, data, zeros, chosen, risk, can_swap, unsafe, judgement, of_households, roles, (own, anything))
    whole = judged(summary.of_findings(found))
    alone = risk.unique_probability[risk.sample_count == 1]
    whole = replace(
        whole, groups=groups_of(risk, columns=role_columns(data, config, risk)), concentration=concentration_of(alone)
    )
    riskiest = _explained(chosen.best, risk, unsafe)
    return Assessment(config, data, table, zeros, chosen, risk, can_swap, unsafe, roles, riskiest, whole, stages.seconds)


def _counted(
    config: RunConfig, stages: Stages, frame: Frame, wanted: ProtectConfig | None
) -> tuple[Microdata, ContingencyTable, StructuralZeros]:
    """The table of the keys at the resolutions that models may use, and the combinations in it that look impossible."""
    with stages.stage(Stage.READING):
        needs_records = swaps.needs_records(config, wanted)
        data = read(config, frame, numbered=needs_records or (wanted is not None and bool(config.analysis)))
        data.source.watch()
        limit = MemoryLimit.of(config.memory)
        if needs_records or wanted is not None:
            swaps.refuse_without_positions(data, wanted, limit if needs_records else None)
        if wanted is not None:
            refuse_unknown_names(data, config, wanted)
        table = data.table(records=True if needs_records else None)
        refuse_identifying_keys(table)
        limit.check(model_choice.size_of(table, has_swaps=wanted is not None))
    with stages.stage(Stage.RESOLUTIONS):
        table = with_design_weights(data, table, config)
        table = model_choice.with_resolutions(table, config.resolution)
        zeros = model_choice.structural_zeros(table, config)
        if config.zeros != "swaps":
            table = table.with_structural_zeros(zeros)
    return data, table, zeros


def _modelled(table: ContingencyTable, config: RunConfig, stages: Stages) -> tuple[ModelChoice, UnsafeCombinations]:
    chosen, unsafe = stages.together(
        Stage.MODELS,
        {
            Stage.SEARCH: lambda progress: model_choice.choose_models(table, config, progress=progress),
            Stage.UNSAFE: lambda _: unsafe_combinations(table),
        },
        shown=Stage.SEARCH,
    )
    return chosen, unsafe


def _judged(data: Microdata, risk: RecordRisk, chosen: ModelChoice, config: RunConfig, stages: Stages) -> Judgement:
    """Compute the interval, checks of fit, other estimators and the cost of each key, side by side."""
    table = risk.table

    def checks(_: Progress) -> tuple[FitDiagnostics, tuple[UniquesEstimate, ...], tuple[EstimatorDetail, ...]]:
        fit = fit_diagnostics(
            table,
            chosen.risk_model,
            population=risk.population,
            refit=lambda part: model_choice.refitted(part, config),
            seed=config.seed,
        )
        estimates = population_uniques(table.size_indices, population=risk.population)
        return fit, tuple(estimates), model_choice.model_estimates(table, chosen, risk, config)

    def costs_of_keys(progress: Progress) -> tuple[KeyCost, ...]:
        return key_costs(
            table,
            lambda changed: model_choice.quick_uniques(changed, config),
            baseline=risk.expected_population_uniques,
            part=model_choice.part_for_comparisons(table, config),
            progress=progress,
        )

    (fit, estimates, of_models), costs, interval = stages.together(
        Stage.JUDGEMENT,
        {
            Stage.CHECKS: checks,
            Stage.KEY_COSTS: costs_of_keys,
            Stage.INTERVAL: lambda _: risk_interval(risk, chosen.risk_model, seed=config.seed),
        },
    )
    doubles = find_doubles(data, risk, seed=config.seed)
    effect = design_effect(risk, data.record_weights() if table.record_cell is not None else None)
    return Judgement(fit, estimates, of_models, costs, interval, effect, doubles)


def _explained(model: DecomposableModel, risk: RecordRisk, unsafe: UnsafeCombinations) -> tuple[RiskyRecord, ...]:
    """The riskiest records with their values and why they are rare; for internal use only."""
    table = risk.table
    return tuple(
        RiskyRecord(
            # A table of counts only numbers its records; their positions are found when the risk file is written.
            record=None if table.record_cell is None else int(one.record),
            values={c.key: c.labels[code] for c, code in zip(table.categories, table.cells[one.cell], strict=True)},
            cell_probability=one.cell_probability,
            unique_probability=one.unique_probability,
            match_probability=one.match_probability,
            why=tuple(reason.sentence for reason in one.reasons),
            unsafe_combinations=tuple(tuple(names) for names in unsafe.of_cell(one.cell)),
        )
        for one in explain_records(risk, model, risk.riskiest(N_LISTED))
    )


def _of_households(data: Microdata, risk: RecordRisk) -> NDArray[np.float64] | None:
    """For each household, the probabilities that a member is alone in the population and that a match of a member is correct."""
    codes = data.household_codes()
    if codes is None:
        return None
    of_record = risk.per_record()
    probability = [household_risk(of_record[name], codes) for name in ("unique_probability", "match_probability")]
    return np.stack(probability, axis=1)[np.unique(codes, return_index=True)[1]]
