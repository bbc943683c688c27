"""Which records of a file could be recognised, and how likely is that?

An assessment reads the data once, collapses them to counts, chooses the models, computes the risk and judges it. The
mathematics is in other packages; :mod:`rarecell.run.files` writes what was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import rarecell
from rarecell.choices import MATCHES_ANYTHING, REGISTER_COMPLETE
from rarecell.data.microdata import Microdata
from rarecell.data.recoding_text import boundaries, coding_for, words_for, words_for_bands
from rarecell.intruder.key_errors import KeyErrors, links_with_errors, shares_of_keys
from rarecell.intruder.register import Register
from rarecell.machine.memory import MemoryLimit, gigabytes
from rarecell.model.decomposable import DecomposableModel
from rarecell.model.protocol import CellModel
from rarecell.outcome.records import RiskyRecord
from rarecell.outcome.summary import (
    CellCounts,
    CoarsenedKey,
    Coarser,
    DesignSummary,
    EstimatorDetail,
    FamilyCount,
    FamilySummary,
    FitStatistic,
    FitSummary,
    Histogram,
    HouseholdRisk,
    KeyCostSummary,
    KeyErrorSummary,
    KeySummary,
    MissingSummary,
    ModelSummary,
    OtherPopulation,
    RiskByMissing,
    RiskSummary,
    RunSummary,
    SearchSummary,
    Separator,
    SizeIndex,
    Structure,
    Truth,
    UnsafeCombination,
    Vertex,
)
from rarecell.outcome.swap import RiskNumbers
from rarecell.outcome.verdict import early_verdict, family_sentence, first_number, judged
from rarecell.outcome.words import about_times, listed, number
from rarecell.progress import SILENT, OnlyCancelled, Progress, Stage, Stages
from rarecell.release.release import Release
from rarecell.risk.design_effect import DesignEffect, design_effect
from rarecell.risk.diagnostics import FitDiagnostics, fit_diagnostics
from rarecell.risk.doubles import Doubles
from rarecell.risk.explain import LEFT_OUT, KeyCost, explain_records, key_costs
from rarecell.risk.families import FamilyRisk
from rarecell.risk.interval import RiskInterval, model_error, risk_interval
from rarecell.risk.missing_values import has_missing_value, matching_anything, register_complete
from rarecell.risk.population_uniques import UniquesEstimate, population_uniques
from rarecell.risk.records import RecordRisk, household_risk
from rarecell.risk.reliability import CountedUniques, reliability
from rarecell.risk.unsafe import UnsafeCombinations, k_anonymity, unsafe_combinations
from rarecell.run import files, models, swaps
from rarecell.run.after import concentration_of, groups_of, n_above_threshold, role_columns, together_before
from rarecell.run.beside_keys import LeakSearch, refuse_leaks, treated_columns
from rarecell.run.config import NO_FRAMES, Frames, ProtectConfig, RunConfig, as_config, takes_options
from rarecell.run.households import find_families, household_question, undeclared_household
from rarecell.run.inputs import inputs_of, read, refuse_continuous_keys, refuse_crowds, refuse_what_is_missing
from rarecell.run.models import ModelChoice, paper_table, with_design_weights
from rarecell.run.results import Assessment, Findings
from rarecell.run.roles import HouseholdFile, find_doubles, find_roles, side_risk, with_roles
from rarecell.search import estimate_exact
from rarecell.swap.swappable import swappability
from rarecell.table.contingency import Coarsening, ContingencyTable
from rarecell.table.structural_zeros import StructuralZeros
from rarecell.table.uniqueness import refuse_identifying_keys

if TYPE_CHECKING:
    from rarecell.edges import Frame

N_LISTED = 50
"""Number of riskiest records that the internal report explains one by one."""


@takes_options("assess")
def assess(
    data: Frame,
    *,
    frame: Frame = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress = SILENT,
    **options: Any,
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
    >>> assessment = rc.assess(datasets.census_sample(), keys=["age", "sex", "marital"], population=277_677)
    >>> assessment.summary.risk.sample_uniques
    60
    """
    config, frames = as_config(data, frame, options)
    stages = Stages(progress)
    with files.run_folder(out, overwrite, inputs_of(config, frames.data)) as folder:
        assessment = assessed(config, stages, frames)
        if folder is not None:
            files.write_assessment(folder, assessment, assessment.summary, stages)
            files.publish(folder, "assess", assessment, stages)
    return assessment


# ---------------------------------------------------------------------- the steps


def assessed(
    config: RunConfig, stages: Stages, frames: Frames = NO_FRAMES, *, request: ProtectConfig | None = None
) -> Assessment:
    """Assess a file, step by step; ``request`` says what a protection will need to know about the records."""
    data, table, zeros = _counted(config, stages, frames.data, request)
    model, choice = _modelled(data, table, config, stages)
    with stages.stage(Stage.RISK):
        own = models.own_level_risk(table, model, config)
        anything = matching_anything(own, model)
        complete = register_complete(own, model) if config.missing == REGISTER_COMPLETE else None
        risk = anything if config.missing == MATCHES_ANYTHING else own if complete is None else complete
    of_households = _of_households(data, risk)
    stages.progress.answer(
        first_number(
            risk.expected_population_uniques, risk.n_sample_uniques, table.n_records, has_families=of_households is not None
        )
    )
    households = None
    if of_households is not None:
        with stages.stage(Stage.FAMILIES):
            households = find_families(data, risk, config, register=frames.register)
    with stages.stage(Stage.ROLES):
        known_families = None if households is None else households.known
        roles = find_roles(data, risk, config, register=frames.register, families=known_families)
    choice, judgement = _judged(
        data, risk, model, choice, config, stages, of_households=of_households, by_missing=(own, anything, complete)
    )
    undeclared = undeclared_household(data, config)
    can_swap = swappability(table, choice.best)
    findings = Findings(config, data, table, zeros, choice, risk, can_swap, roles, households, undeclared)
    summary = judged(of_findings(findings, judgement), config.profile)
    if request is None:
        # What a protection finds is another verdict, and it goes on.
        stages.progress.answer(early_verdict(summary), is_verdict=True)
    advice = _advised(findings, stages)
    summary = judged(with_advice(summary, findings, advice), config.profile)
    riskiest = _explained(choice.best, risk, advice.unsafe)
    return Assessment(**vars(findings), unsafe=advice.unsafe, riskiest=riskiest, summary=summary, seconds=stages.seconds)


def keys_left_out(config: RunConfig) -> tuple[str, ...]:
    """Keys that the released file lacks."""
    return () if config.protect is None else tuple(key for key in config.protect.leave_out if key not in config.keys)


def _as_it_came(findings: Findings) -> RiskNumbers | None:
    """The risk of the file before keys were recoded or left out and households unlinked, under a model of the run's kind.

    None if nothing of this was done.
    """
    data, config = findings.data, findings.config
    is_unlinked = config.protect is not None and config.protect.unlink
    has_families = findings.families is not None and (is_unlinked or findings.known_families is not None)
    as_read = {key: coding.as_read for key, coding in data.coding.items()}
    left_out = keys_left_out(config)
    if as_read == data.coding and not left_out:
        return _with_families(findings.risk, findings.families) if is_unlinked and has_families else None
    unchanged = replace(config, recode={}, coding={}, keys=(*data.keys, *left_out))
    came = Microdata(
        data.source,
        keys=unchanged.keys,
        weight=data.weight,
        household=data.household,
        geography=data.geography,
        strata=data.strata,
        missing=data.missing,
        coding=as_read,
        hierarchies=config.hierarchies,
    )
    if not has_families:
        return _with_families(side_risk(came.table(), came, unchanged), None)
    risk = side_risk(came.table(records=True), came, unchanged)
    file = HouseholdFile(came, risk, unchanged)
    return _with_families(risk, file.risk(file.rows(came.keys)))


def _with_families(risk: RecordRisk, families: FamilyRisk | None) -> RiskNumbers:
    """The risk of a file as it came; ``families`` are its households, if intruders know them."""
    alone = risk.unique_probability[risk.sample_count == 1]
    highest, recognised = float(alone.max(initial=0.0)), None
    if families is not None:
        together = families.larger(risk.per_record()["unique_probability"])
        highest, recognised = float(together.max(initial=0.0)), float(together.sum())
    return RiskNumbers(
        expected_population_uniques=risk.expected_population_uniques,
        expected_correct_matches=risk.expected_correct_matches,
        sample_uniques=risk.n_sample_uniques,
        highest=highest,
        family_records=recognised,
        household_links=None if families is None else families.risk.expected_correct_matches,
    )


def _counted(
    config: RunConfig, stages: Stages, frame: Frame, request: ProtectConfig | None
) -> tuple[Microdata, ContingencyTable, StructuralZeros]:
    """The table of the keys at the resolutions that models may use, and the combinations in it that look impossible."""
    with stages.stage(Stage.READING):
        needs_records = swaps.needs_records(config, request)
        data = read(config, frame, numbered=needs_records or (request is not None and bool(config.analysis)))
        data.source.watch()
        limit = MemoryLimit.of(config.memory)
        if needs_records or request is not None:
            swaps.refuse_without_positions(data, request, limit if needs_records else None)
        if request is not None:
            refuse_what_is_missing(data, config, request)
        table = data.table(records=True if needs_records else None)
        refuse_identifying_keys(table)
        refuse_continuous_keys(data, table)
        refuse_crowds(data, config)
        limit.check(models.size_of(table, has_swaps=request is not None))
        if request is not None and data.recodes:
            # Before anything that takes long: what a recoding conceals may stand in another column.
            treated = treated_columns(data, request.treat, seed=swaps.seed_of(config, request))
            searched = LeakSearch.of(data, table, treated)
            refuse_leaks(searched.of_recodings, request.accept_leak, searched)
    with stages.stage(Stage.RESOLUTIONS):
        table = with_design_weights(data, table, config)
        table = models.with_resolutions(table, config.resolution)
        zeros = models.structural_zeros(table, config)
        if config.zeros != "swaps":
            table = table.with_structural_zeros(zeros)
    return data, table, zeros


def _modelled(
    data: Microdata, table: ContingencyTable, config: RunConfig, stages: Stages
) -> tuple[CellModel, ModelChoice | None]:
    """The model that the risk comes from, and the best single one if the risk is built on that."""
    with stages.stage(Stage.MODELS):
        if config.model in models.FROM_BEST:
            choice = models.choose_models(table, config, progress=stages.progress)
            return choice.risk_model, choice
        household = data.household_codes() if table.record_cell is not None else None
        return models.risk_model(table, config, household=household, progress=stages.progress), None


def _judged(
    data: Microdata,
    risk: RecordRisk,
    model: CellModel,
    choice: ModelChoice | None,
    config: RunConfig,
    stages: Stages,
    *,
    of_households: NDArray[np.float64] | None,
    by_missing: tuple[RecordRisk, RecordRisk, RecordRisk | None],
) -> tuple[ModelChoice, Judgement]:
    """Search for the best single model, unless there is a ``choice``, and compute the interval and the checks of fit, side by side."""
    table = risk.table
    household = data.household_codes() if table.record_cell is not None else None
    choice, fit, interval = stages.together(
        Stage.JUDGEMENT,
        {
            Stage.SEARCH: lambda progress: choice or models.with_best(model, config, progress=progress),
            Stage.CHECKS: lambda _: fit_diagnostics(
                table,
                model,
                population=risk.population,
                refit=partial(models.refitted, config=config),
                household=household,
                seed=config.seed,
            ),
            Stage.INTERVAL: lambda _: risk_interval(risk, model, seed=config.seed),
        },
        shown=Stage.SEARCH,
    )
    estimate = risk.expected_population_uniques, risk.expected_correct_matches
    interval = interval.widened(model_error(risk, fit), estimate)
    doubles = find_doubles(data, risk, seed=config.seed)
    effect = design_effect(risk, data.record_weights() if table.record_cell is not None else None)
    with_errors = _with_key_errors(risk, model, config)
    return choice, Judgement(fit, interval, effect, doubles, of_households, by_missing, with_errors)


def _advised(findings: Findings, stages: Stages) -> Advice:
    """Compute what each key costs and what other estimators say, side by side, and the combinations that single records out."""
    table, risk, config = findings.table, findings.risk, findings.config

    def costs_of_keys(progress: Progress) -> KeyCosts:
        compared = models.Comparison(table, config, progress=OnlyCancelled(progress))
        costs = key_costs(
            table,
            compared.uniques,
            evaluate_changed=compared.uniques_of_changed,
            coarsenings=_coarser_releases(findings.data, table),
            baseline=risk.expected_population_uniques,
            part=compared.part,
            progress=progress,
        )
        return KeyCosts(costs, n_compared=compared.part.n_records)

    def estimates(progress: Progress) -> tuple[EstimatorDetail, ...]:
        of_sizes = of_estimates(population_uniques(table.size_indices, population=risk.population))
        return (*models.model_estimates(table, findings.choice, risk, config, progress=progress), *of_sizes)

    return Advice(
        *stages.advice(
            Stage.ADVICE,
            {
                Stage.KEY_COSTS: costs_of_keys,
                # The risk file has a column of these, so they are computed whoever waits for them.
                Stage.UNSAFE: lambda _: unsafe_combinations(table),
                Stage.ESTIMATORS: estimates,
            },
        )
    )


def _with_key_errors(risk: RecordRisk, model: CellModel, config: RunConfig) -> KeyErrorSummary | None:
    """What is linked correctly in the file as it is, if some values differ between file and register."""
    shares = shares_of_keys(config.key_error, risk.table.keys)
    if shares is None:
        return None
    errors = KeyErrors(risk.table, shares)
    register = Register.modelled(risk, model, seed=config.seed + 1)
    exact, nearest = links_with_errors(Release.unchanged(risk.table), register, errors, seed=config.seed)
    return KeyErrorSummary(
        shares=dict(zip(risk.table.keys, shares.tolist(), strict=True)),
        exact=exact.total,
        interval_exact=exact.interval,
        nearest=nearest.total,
        interval_nearest=nearest.interval,
        sentence=(
            f"With a register {errors.words}, somebody who links every unique record to a person with the same values would be right "
            f"{about_times(exact.total)}, to the nearest person {about_times(nearest.total)}; without such errors "
            f"{about_times(risk.expected_correct_matches)}."
        ),
    )


def _explained(model: DecomposableModel, risk: RecordRisk, unsafe: UnsafeCombinations) -> tuple[RiskyRecord, ...]:
    """The riskiest records with their values and why they are rare; for internal use only."""
    table = risk.table
    return tuple(
        RiskyRecord(
            # A table of counts only numbers its records; their positions are found when the risk file is written.
            record=None if table.record_cell is None else int(explained.record),
            values={c.key: c.shown[code] for c, code in zip(table.categories, table.cells[explained.cell], strict=True)},
            cell_probability=explained.cell_probability,
            unique_probability=explained.unique_probability,
            match_probability=explained.match_probability,
            why=tuple(reason.sentence for reason in explained.reasons),
            unsafe_combinations=tuple(tuple(names) for names in unsafe.of_cell(explained.cell)),
        )
        for explained in explain_records(risk, model, risk.riskiest(N_LISTED))
    )


def _of_households(data: Microdata, risk: RecordRisk) -> NDArray[np.float64] | None:
    """For each household, the probabilities that a member is alone in the population and that a match of a member is correct."""
    codes = data.household_codes()
    if codes is None:
        return None
    of_record = risk.per_record()
    probability = [household_risk(of_record[name], codes) for name in ("unique_probability", "match_probability")]
    return np.stack(probability, axis=1)[np.unique(codes, return_index=True)[1]]


# What do the steps of an assessment find, before it is put into words?


@dataclass(frozen=True, eq=False)
class Judgement:
    """How far the risk can be trusted, and what missing values and households add.

    ``of_households`` has the risk that a member of each household is recognised. ``by_missing`` has the risk with missing values as
    levels of their own, with missing values matching every level, and, where the run asks for it, for an intruder with a complete
    register.
    """

    fit: FitDiagnostics
    interval: RiskInterval
    design: DesignEffect | None
    doubles: tuple[Doubles, ...]
    of_households: NDArray[np.float64] | None
    by_missing: tuple[RecordRisk, RecordRisk, RecordRisk | None]
    key_errors: KeyErrorSummary | None = None


@dataclass(frozen=True)
class KeyCosts:
    """What each key costs, compared on this many of the records."""

    of_keys: tuple[KeyCost, ...] = ()
    n_compared: int = 0

    def note(self, n_records: int) -> tuple[str, ...]:
        """That only a part of the file was compared, if so."""
        if not self.of_keys or self.n_compared >= n_records:
            return ()
        return (
            f"What each key costs was compared on {number(self.n_compared)} records drawn at random; the expected population uniques of the "
            f"{number(n_records)} records are taken to change in the same proportion.",
        )


@dataclass(frozen=True)
class Advice:
    """What a verdict does not need: what each key costs and what other estimators say, unless nobody waited for it.

    ``unsafe`` are the smallest combinations that single records out.
    """

    costs: KeyCosts | None
    unsafe: UnsafeCombinations
    estimators: tuple[EstimatorDetail, ...] | None

    @property
    def notes(self) -> tuple[str, ...]:
        """What is missing because the run was ended after its verdict."""
        missing = [
            *(["what each key costs"] if self.costs is None else []),
            *(["what other estimators say"] if self.estimators is None else []),
        ]
        return (f"The run was ended after its verdict, so it does not say {' or '.join(missing)}.",) if missing else ()


# How do the findings of a run become its summary?


def of_findings(findings: Findings, judgement: Judgement) -> RunSummary:
    """Build the summary of an assessment; :func:`rarecell.outcome.verdict.judged` puts its verdict into words."""
    table, risk, data = findings.table, findings.risk, findings.data
    lines = [_of_missing_values(findings), *data.summary_lines()[1:]]
    together = together_before(findings.known_families, _known_risk(findings))
    return RunSummary(
        rarecell=rarecell.__version__,
        records=table.n_records,
        population=round(risk.population),
        sampling_fraction=table.n_records / risk.population,
        records_dropped=data.n_dropped,
        missing=of_missing(findings, judgement),
        notes=(
            *lines[:1],
            *lines[2:],
            *risk.notes,
            *ignored_options(findings),
            *_of_family_notes(findings),
            *_question(findings),
        ),
        labels={name: column.label for name, column in data.columns.items() if column.label},
        keys=of_keys(table, data),
        cells=CellCounts(
            formal=table.n_formal_cells,
            occupied=table.n_cells,
            size_indices={str(size): n for size, n in table.size_indices.items()},
        ),
        structure=of_structure(findings.zeros),
        model=of_model(findings.choice.best, criterion=findings.config.criterion, search=findings.choice.search_summary()),
        risk=with_roles(of_risk(findings, judgement), findings.roles, risk),
        paper=paper_table(findings.choice, findings.risk, findings.config),
        as_it_came=_as_it_came(findings),
        left_out=keys_left_out(findings.config),
        groups=groups_of(risk, columns=role_columns(data, findings.config, risk), together=(together, None)),
        concentration=concentration_of(risk.unique_probability[risk.sample_count == 1] if together is None else together),
    )


def with_advice(summary: RunSummary, findings: Findings, advice: Advice) -> RunSummary:
    """The same summary with what each key costs, other estimators, and the combinations that single records out."""
    estimators, costs = advice.estimators or (), advice.costs or KeyCosts()
    risk = replace(
        summary.risk,
        estimators={estimator.name: estimator.expected_population_uniques for estimator in estimators},
        estimator_details=estimators,
        key_costs=of_costs(costs.of_keys, findings.table, recoded=tuple(findings.data.recodes)),
        unsafe_combinations=commonest_unsafe(advice.unsafe),
        key_contributions={key: float(share) for key, share in advice.unsafe.key_contributions.items()},
    )
    return replace(summary, risk=risk, notes=(*summary.notes, *costs.note(findings.table.n_records), *advice.notes))


def _of_missing_values(findings: Findings) -> str:
    """The treatment of missing values, which a reader must know first."""
    first = findings.data.summary_lines()[0]
    lacking = listed([f"{number(n)} in {key}" for key, n in findings.data.n_missing.items() if n])
    if findings.config.missing not in (MATCHES_ANYTHING, REGISTER_COMPLETE) or not lacking:
        return first
    if findings.config.missing == REGISTER_COMPLETE:
        return f"Missing key values are taken as known to an intruder with a complete register: {lacking}."
    return f"Missing key values are taken as compatible with every value: {lacking}."


def of_missing(findings: Findings, judgement: Judgement) -> MissingSummary:
    """What missing values mean for the risk, under both readings."""
    records = {key: n for key, n in findings.data.n_missing.items() if n}
    policy, threshold = findings.config.missing, findings.config.threshold
    own, anything, complete = judgement.by_missing
    if own is anything:
        return MissingSummary(policy=policy, records=records)
    is_only_so = (own.unique_probability >= threshold) & (anything.unique_probability < threshold)
    n_less, only = int(is_only_so.sum()), int((is_only_so & has_missing_value(own.table)).sum())

    def numbers_of(risk: RecordRisk) -> RiskByMissing:
        return RiskByMissing(
            sample_uniques=risk.n_sample_uniques,
            expected_population_uniques=risk.expected_population_uniques,
            expected_correct_matches=risk.expected_correct_matches,
            records_above_threshold=int((risk.unique_probability[risk.sample_count == 1] >= threshold).sum()),
        )

    by_reading = [numbers_of(own), numbers_of(anything)]
    return MissingSummary(
        policy=policy,
        records=records,
        own_level=by_reading[0],
        matches_anything=by_reading[1],
        register_complete=None if complete is None else numbers_of(complete),
        risky_only_by_missing=only,
        sentence=(
            f"For an intruder who does not know who failed to answer, {number(by_reading[1].expected_population_uniques, 1)} records instead of "
            f"{number(by_reading[0].expected_population_uniques, 1)} are expected to be unique in the population, and {number(n_less)} fewer reach "
            f"the threshold: {number(only)} that lack an answer themselves, and {number(n_less - only)} that others who lack one could be."
        ),
    )


def ignored_options(findings: Findings) -> list[str]:
    """Options that the chosen model does not use, in sentences."""
    config, search = findings.config, findings.choice.search
    sentences = []
    if findings.risk.posterior is not None and config.form != "multinomial":
        sentences.append(
            f"The form '{config.form}' has no effect: the model '{config.model}' knows how sure it is of each probability, and "
            "the law of the unseen units follows from that."
        )
    if search is not None and search.method != "local" and config.restarts != RunConfig.restarts:
        sentences.append(
            f"The {number(config.restarts)} restarts have no effect: the search was {search.method}, which starts once."
        )
    if config.cliques and config.model not in ("single", "hierarchical"):
        sentences.append(
            f"The model that was named has no effect on the risk, which comes from the model '{config.model}'; swaps keep its tables. "
            "Give --model single for its risk."
        )
    return sentences


def of_keys(table: ContingencyTable, data: Microdata) -> tuple[KeySummary, ...]:
    """Each key with its levels, its missing values and the resolutions at which it was offered."""
    keys = []
    read = {key: sum(len(members) for members in written.members) for key, written in data.recodes.items()}
    for k, categories in enumerate(table.categories):
        n_missing = int(table.counts[table.cells[:, k] == categories.n_levels - 1].sum()) if categories.has_missing else 0
        coarser = tuple(
            Coarser(name=table.vertex_names[v], levels=int(table.vertex_levels[v])) for v in reversed(table.chains[k][:-1])
        )
        keys.append(
            KeySummary(
                name=categories.key,
                levels=categories.n_levels,
                recode=data.coding[categories.key].in_words() if categories.key in read else "",
                values_read=read.get(categories.key),
                ordered=categories.is_ordered,
                missing_records=n_missing,
                coarsenings=coarser,
            )
        )
    return tuple(keys)


def of_structure(zeros: StructuralZeros, n_listed: int = 40) -> Structure:
    """Combinations that look impossible and keys that determine others, with evidence for a person to judge."""
    strongest = sorted(zeros.combinations, key=lambda combination: -(combination.expected or 0.0))
    return Structure(
        combinations=len(zeros.combinations),
        dependencies=tuple(rule.evidence for rule in zeros.dependencies),
        strongest=tuple(combination.evidence for combination in strongest[:n_listed]),
        sets_not_searched=len(zeros.not_searched),
    )


def of_model(model: DecomposableModel, *, criterion: str, search: SearchSummary) -> ModelSummary:
    """Structure and fit of the best model, and what its search proves."""
    table = model.table
    return ModelSummary(
        vertices=tuple(
            Vertex(name=table.vertex_names[v], key=table.keys[table.vertex_key[v]], levels=int(table.vertex_levels[v]))
            for v in range(table.n_vertices)
        ),
        cliques=tuple(tuple(clique) for clique in model.cliques),
        separators=tuple(Separator(variables=tuple(s), multiplicity=times) for s, times in model.separators),
        degrees_of_freedom=model.degrees_of_freedom,
        log_likelihood=model.log_likelihood,
        log_likelihood_kernel=model.log_likelihood_kernel,
        aic=model.aic,
        bic=model.bic,
        deviance=model.deviance,
        criterion=criterion,
        describe=model.describe(),
        search=search,
    )


def of_risk(findings: Findings, judgement: Judgement) -> RiskSummary:
    """The file-level numbers, the distribution of record risk, and how far both can be trusted."""
    risk, table = findings.risk, findings.table
    probability = risk.unique_probability[risk.sample_count == 1]
    threshold = findings.config.threshold
    return RiskSummary(
        sample_uniques=risk.n_sample_uniques,
        expected_population_uniques=risk.expected_population_uniques,
        expected_correct_matches=risk.expected_correct_matches,
        interval=judgement.interval.population_uniques,
        interval_correct_matches=judgement.interval.correct_matches,
        interval_basis=judgement.interval.basis,
        model_error=judgement.interval.model_error,
        highest=float(probability.max(initial=0.0)),
        highest_match=_highest_match(findings),
        threshold=threshold,
        records_above_threshold=int((probability >= threshold).sum()),
        records_near_threshold=None if risk.standard_error is None else int(risk.is_uncertain(threshold).sum()),
        histogram=of_histogram(probability),
        cell_probability_decades={str(decade): n for decade, n in risk.decades().items()},
        model=findings.config.model,
        model_describe=findings.choice.risk_model.describe(),
        swappable_uniques=int(findings.swappability.is_swappable[risk.sample_count == 1].sum()),
        diagnostics=of_fit(judgement.fit),
        k_anonymity={str(k): n for k, n in k_anonymity(table).items()},
        other_populations=of_other_populations(risk),
        key_errors=judgement.key_errors,
        fixed_records=int(table.counts[findings.swappability.fixed_cells].sum()),
        household=None if judgement.of_households is None else of_households(judgement.of_households, threshold),
        families=of_families(findings),
        design=of_design(judgement.design),
        reliability=reliability(
            risk,
            judgement.fit,
            judgement.design,
            judgement.doubles,
            _register_counts(findings, judgement.interval),
            judgement.interval,
        ),
    )


def of_other_populations(risk: RecordRisk) -> tuple[OtherPopulation, ...]:
    """The risk if the population were half or twice as large: its size is often known less well than the file."""
    if risk.population <= risk.table.n_records:
        return ()
    risks = [risk.if_population_were(factor) for factor in (0.5, 2.0)]
    return tuple(
        OtherPopulation(
            population=other.population,
            expected_population_uniques=other.expected_population_uniques,
            expected_correct_matches=other.expected_correct_matches,
        )
        for other in risks
    )


def of_design(effect: DesignEffect | None) -> DesignSummary | None:
    if effect is None:
        return None
    return DesignSummary(
        with_equal_weights=effect.with_equal_weights, ratio=effect.ratio, spread=effect.spread, sentence=str(effect)
    )


def _highest_match(findings: Findings) -> float:
    """The highest chance that a match with a record is right: counted, where there is a register."""
    if findings.roles.register is not None:
        return float((1.0 / findings.roles.register.population_count).max(initial=0.0))
    return float(findings.risk.match_probability.max(initial=0.0))


def _register_counts(findings: Findings, interval: RiskInterval) -> CountedUniques | None:
    register = findings.roles.register
    return None if register is None else CountedUniques(register.population_uniques, interval.population_uniques)


def of_histogram(probability: NDArray[np.float64]) -> Histogram:
    edges = np.linspace(0.0, 1.0, 11)
    return Histogram(edges=tuple(edges.round(1).tolist()), counts=tuple(np.histogram(probability, edges)[0].tolist()))


def of_households(probability: NDArray[np.float64], threshold: float) -> HouseholdRisk:
    alone, matched = probability.T
    return HouseholdRisk(
        households=len(probability),
        expected_with_an_identified_member=float(alone.sum()),
        expected_with_a_correct_match=float(matched.sum()),
        above_threshold=int((alone >= threshold).sum()),
    )


def _question(findings: Findings) -> tuple[str, ...]:
    return () if findings.undeclared is None else (household_question(findings.undeclared),)


def _of_family_notes(findings: Findings) -> tuple[str, ...]:
    """How households became rows, or why they did not; and what it means that nobody is taken to know them."""
    if findings.households is None:
        return ()
    unknown = (
        "Nobody is assumed to know who lives with whom (--households-known no), so only persons are judged. That assumes that the "
        "released file has neither a household number nor rows or values that put a household together again.",
    )
    said_no = findings.config.households_known == "no"
    return (*findings.households.notes, *(unknown if said_no and findings.families is not None else ()))


def of_families(findings: Findings) -> FamilySummary | None:
    """The risk of households as records."""
    families = findings.families
    if families is None:
        return None
    risk, threshold, size = families.risk, findings.config.threshold, families.size
    together = families.larger(_known_risk(findings).per_record()["unique_probability"])
    at_risk = (families.unique_probability >= threshold) & families.is_alone
    low, high = families.interval.population_uniques
    register = None
    if families.register is not None:
        counted_uniques = families.register.population_uniques
        register = FamilyCount(
            households=families.register.n_register,
            population_uniques=counted_uniques,
            correct_matches=families.register.correct_matches,
            persons=int(size[families.unique_probability == 1.0].sum()),
            is_inside_interval=low <= counted_uniques <= high,
        )
    summary = FamilySummary(
        households=len(size),
        sample_uniques=int(families.is_alone.sum()),
        expected_population_uniques=risk.expected_population_uniques,
        expected_correct_matches=risk.expected_correct_matches,
        expected_persons=families.expected_persons,
        interval=families.interval.population_uniques,
        highest=float(families.unique_probability.max(initial=0.0)),
        highest_match=float(families.match_probability.max(initial=0.0)),
        above_threshold=int(at_risk.sum()),
        records_above_threshold=n_above_threshold(together, threshold),
        expected_records=float(together.sum()),
        known=findings.config.households_known == "yes",
        places=families.rows.layout.n_places,
        ordered_by=families.rows.layout.placed_by,
        reliability=families.reliability,
        register=register,
    )
    return replace(summary, sentence=family_sentence(summary))


def _known_risk(findings: Findings) -> RecordRisk:
    register = findings.roles.register
    return findings.risk if register is None else register.risk(findings.risk)


def of_estimates(estimates: Sequence[UniquesEstimate]) -> tuple[EstimatorDetail, ...]:
    return tuple(
        EstimatorDetail(
            name=e.name,
            expected_population_uniques=e.expected_population_uniques,
            parameters=dict(e.parameters),
            converged=e.converged,
            assumes=e.assumption,
            message=e.message,
        )
        for e in estimates
    )


def _coarser_releases(data: Microdata, table: ContingencyTable) -> tuple[Coarsening, ...]:
    """How each key could be released: in the bands and the user's groups of the model, and in groups of levels that are alike.

    A model groups levels by what it has to predict. People who read a released file need groups that are alike in every column.
    """
    categories = {c.key: c for c in table.categories}
    offered = [c for c in table.coarsenings if not c.is_learned or coding_for(categories[c.key], c).groups is None]
    grouped = [c for c in table.coarsenings if c not in offered]
    if not grouped:
        return tuple(offered)
    likeness = data.likeness(table)
    offered += [alike for c in grouped if (alike := likeness[c.key].like(c)) is not None]
    return tuple(offered)


def of_costs(costs: Sequence[KeyCost], table: ContingencyTable, *, recoded: Sequence[str] = ()) -> tuple[KeyCostSummary, ...]:
    """The cost of each key: τ1 without it and at each coarser resolution, with the option that releases it that way.

    The option replaces the recoding of a key that is already ``recoded``. It can do so for bands of numbers; others get none.
    """
    summaries = []
    for key, of_key in groupby(costs, key=lambda cost: cost.key):
        steps = list(of_key)
        summaries.append(
            KeyCostSummary(
                key=key,
                without=next((step.expected_population_uniques for step in steps if step.resolution == LEFT_OUT), None),
                coarsened=tuple(
                    CoarsenedKey(
                        name=step.resolution,
                        levels=step.n_levels,
                        recode=_recode_option(table, step.coarsening, is_recoded=key in recoded),
                        groups=_groups(table, step.coarsening),
                        sample_uniques=step.n_sample_uniques,
                        expected_population_uniques=step.expected_population_uniques,
                    )
                    for step in steps
                    if step.resolution != LEFT_OUT
                ),
            )
        )
    return tuple(summaries)


def _recode_option(table: ContingencyTable, coarsening: Coarsening | None, *, is_recoded: bool) -> str:
    if coarsening is None:
        return ""
    categories = table.categories[table.keys.index(coarsening.key)]
    words = words_for_bands(categories, coarsening) if is_recoded else words_for(categories, coarsening)
    return f"{coarsening.key}={words}" if words else ""


def _groups(table: ContingencyTable, coarsening: Coarsening | None) -> tuple[str, ...]:
    return () if coarsening is None else boundaries(table.categories[table.keys.index(coarsening.key)], coarsening)


def of_fit(fit: FitDiagnostics) -> FitSummary:
    """Whether the risk is likely over- or understated, and the numbers behind it."""
    # These tests concern the risk that plugs in p̂, and say nothing about one integrated over a posterior.
    named = (("B1, population uniques", fit.unique_test), ("B2, correct matches", fit.match_test)) if fit.is_plugged_in else ()
    return FitSummary(
        sentence=fit.verdict,
        conclusion=fit.conclusion,
        statistics=tuple(
            FitStatistic(name=name, value=test.statistic, standard_error=float(np.sqrt(test.variance)), z=test.z)
            for name, test in named
            if test is not None
        ),
        size_indices=tuple(
            SizeIndex(size=size, observed=fit.observed_sizes[size], expected=n) for size, n in fit.expected_sizes.items()
        ),
    )


def commonest_unsafe(unsafe: UnsafeCombinations, n_listed: int = 20) -> tuple[UnsafeCombination, ...]:
    """The combinations of keys that make the most records unique."""
    masks, numbers = np.unique(unsafe.mask, return_counts=True)
    order = np.lexsort((masks, -numbers))[:n_listed]
    return tuple(UnsafeCombination(variables=tuple(unsafe.table.names_of(int(masks[i]))), records=int(numbers[i])) for i in order)


def against_truth(summary: RunSummary, population_counts: NDArray[np.int64]) -> Truth:
    """Estimate and truth side by side, for a sample whose population is known.

    ``population_counts`` is F of each sample unique's cell.
    """
    true_uniques = int((population_counts == 1).sum())
    estimate = summary.risk.expected_population_uniques
    low, high = summary.risk.interval
    inside = "inside" if low <= true_uniques <= high else "outside"
    ratio = f", {estimate / true_uniques:.2f} times the truth" if true_uniques else ""
    return Truth(
        population_uniques=true_uniques,
        correct_matches=float((1.0 / population_counts).sum()),
        sentence=(
            f"The population is known here: {number(true_uniques)} of the {number(len(population_counts))} sample uniques are population "
            f"uniques. The estimate was {number(estimate, 1)}{ratio}, which lies {inside} the interval."
        ),
    )


# What will a run cost? An estimate before it starts.


def forecast(config: RunConfig) -> str:
    """Cells, memory and time that a run will need."""
    data = read(config)
    table = models.with_resolutions(data.table(), config.resolution)
    cost = estimate_exact(table, max_clique=config.max_clique)
    limit = MemoryLimit.of(config.memory)
    needed = limit.needed(models.size_of(table, has_swaps=config.protect is not None))
    return "\n".join(
        [
            *data.summary_lines(),
            str(table),
            f"Vertices of the model: {', '.join(table.vertex_names)}.",
            f"Exact search: {cost}.",
            f"Memory: about {gigabytes(needed)} at the peak; {gigabytes(limit.total)} may be used.",
        ]
    )
