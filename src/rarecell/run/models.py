"""Which models does the risk of a file come from?

One decomposable model is the best by the user's criterion: it is shown, and swaps keep its marginals. The risk comes from
that model alone (``single``) or from an average (the default): over back-off networks when keys may be used at several
resolutions, otherwise over the best decomposable models at several penalties.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.choices import MATCHES_ANYTHING, REGISTER_COMPLETE, SKINNER_SHLOMO
from rarecell.data.crossing import wider_table
from rarecell.data.microdata import Microdata
from rarecell.data.names import SamplingStages
from rarecell.engine.places import reachable, read_small_text
from rarecell.errors import BadInput
from rarecell.machine.memory import MemoryLimit, Size
from rarecell.machine.threads import on_all_cores
from rarecell.model.additive import AdditiveModel
from rarecell.model.average import AverageModel, stack
from rarecell.model.backoff import MANY_CELLS, fit_backoff
from rarecell.model.backoff_coarser import CoarserNetworks
from rarecell.model.decomposable import DecomposableModel
from rarecell.model.protocol import CellModel
from rarecell.model.regularised import RegularisedModel
from rarecell.outcome.summary import EstimatorDetail, PaperModel, PaperTable, SearchSummary
from rarecell.outcome.words import counted, number, verb
from rarecell.progress import SILENT, OnlyCancelled, Progress
from rarecell.risk.design import with_smoothed_weights, with_stratum_weights
from rarecell.risk.diagnostics import fit_diagnostics
from rarecell.risk.missing_values import matching_anything, register_complete
from rarecell.risk.records import RecordRisk, record_risk
from rarecell.run.config import RunConfig, follows_the_paper
from rarecell.search import SearchLimits, SearchResult, penalty_path, select_model
from rarecell.search.hierarchical import improve_model
from rarecell.search.sampling import sample_models
from rarecell.table.coarsening import automatic_coarsenings
from rarecell.table.contingency import Coarsening, ContingencyTable
from rarecell.table.marginals import Marginals
from rarecell.table.structural_zeros import StructuralZeros, find_structural_zeros
from rarecell.table.subsample import random_part

if TYPE_CHECKING:
    from rarecell.edges import Level


TRIED_PENALTIES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
"""Penalties that the criterion of Skinner and Shlomo chooses from."""

MOST_KEYS_OF_PAPER = 12
"""With more keys than this, the paper's estimate beside the default would take longer than the default."""

_FEW_KEYS = 16
"""With more keys than this, comparisons that need many fits use proportionally fewer records."""

FROM_BEST = ("single", "hierarchical")
"""Models of the risk that are built on the best single one."""

N_DRAWN_MODELS = 200
"""Number of models drawn from the posterior and averaged."""


@dataclass(frozen=True)
class ModelChoice:
    """The models of a run.

    ``best`` is the best single model, ``search`` says how it was found (None if the user named it), and ``risk_model`` is where
    the risk comes from.
    """

    best: DecomposableModel
    search: SearchResult | None
    risk_model: CellModel

    def search_summary(self) -> SearchSummary:
        """How the best model was found, and what the search proves."""
        if self.search is None:
            named = "The model was named by the user."
            return SearchSummary(method="given", certified_optimal=False, starts=0, times_met=0, sentence=named, conclusion=named)
        return SearchSummary(
            method=self.search.method,
            certified_optimal=self.search.certified_optimal,
            starts=self.search.starts,
            times_met=self.search.times_met,
            sentence=f"{self.search.proof}.",
            conclusion=self.search.conclusion and f"{self.search.conclusion}.",
        )


def with_resolutions(table: ContingencyTable, resolution: str) -> ContingencyTable:
    """Add the coarsenings that models may use: the user's where the table has any, automatic ones for the other keys."""
    if resolution == "full":
        return table.with_coarsenings(())
    named = {c.key for c in table.coarsenings}
    return table.with_coarsenings([*table.coarsenings, *(c for c in automatic_coarsenings(table) if c.key not in named)])


def structural_zeros(table: ContingencyTable, config: RunConfig) -> StructuralZeros:
    """Combinations of levels that cannot occur: found in the data or listed by the user; none when switched off."""
    if config.zeros == "off":
        return StructuralZeros()
    if config.zeros in ("swaps", "detect"):
        return find_structural_zeros(table)
    try:
        return StructuralZeros.from_dict(json.loads(read_small_text(reachable(config.zeros))))
    except (OSError, ValueError, RecursionError, BadInput) as problem:
        raise BadInput(
            f"The list of structural zeros '{config.zeros}' could not be read: {str(problem).removesuffix('.')}. Give 'swaps', 'detect', 'off', or a JSON "
            "file such as the zeros.json of an earlier run."
        ) from None


def size_of(table: ContingencyTable, *, has_swaps: bool = False) -> Size:
    """What the memory of a run depends on."""
    return Size(
        n_cells=table.n_cells,
        n_uniques=len(table.unique_cells),
        n_keys=table.n_keys,
        n_records=0 if table.record_cell is None else len(table.record_cell),
        has_swaps=has_swaps,
    )


def _spare_memory(table: ContingencyTable, config: RunConfig) -> int:
    """Memory that the run's searches may use for their tables."""
    return MemoryLimit.of(config.memory).spare(size_of(table))


def best_model(
    table: ContingencyTable, config: RunConfig, *, memory: int | None = None, progress: Progress = SILENT
) -> tuple[DecomposableModel, SearchResult | None]:
    """The model that the user names, or the best one and the search that found it."""
    if config.cliques:
        return DecomposableModel(table, cliques=config.cliques, marginals=table.marginals), None
    memory = _spare_memory(table, config) if memory is None else memory
    search = _searched(table, config, table.marginals, memory, progress)
    return search.best, search


def choose_models(table: ContingencyTable, config: RunConfig, *, progress: Progress = SILENT) -> ModelChoice:
    """Find the best model and fit those that the risk comes from, both at once if neither needs the other."""
    marginals = table.marginals
    is_alone = config.model in FROM_BEST
    memory = _spare_memory(table, config) // (1 if is_alone else 2)

    def find_best() -> tuple[DecomposableModel, SearchResult | None]:
        return best_model(table, config, memory=memory, progress=progress)

    if is_alone:
        best, search = find_best()
        if config.model == "single":
            return ModelChoice(best, search, best)
        improved = improve_model(
            table, [best], criterion=penalty_of(config), memory_limit=memory, marginals=marginals, progress=progress
        )
        return ModelChoice(best, search, improved.best)
    (best, search), risk_model = on_all_cores(
        lambda task: task(), [[find_best], [lambda: _risk_model(table, config, marginals, memory, OnlyCancelled(progress))]]
    )
    return ModelChoice(best, search, risk_model)


MANY_HOUSEHOLDS = 50_000
"""With more distinct rows of households than this, their model is an average of :data:`FEWER_ORDERS` networks.

A row has several times the columns of a record. At 30 and 50 % of the households of the census, four networks whose contexts were chosen on
10,000 rows gave estimates 0.2 to 0.4 % above those of six and 20,000, at half the processor time; the truth lay 0.5 % below those.
"""

FEWER_ORDERS, FEWER_ROWS = 4, 10_000
"""Number of networks for many households, and of rows on which their contexts are chosen."""


def risk_model(
    table: ContingencyTable,
    config: RunConfig,
    *,
    household: NDArray[np.int64] | None = None,
    of_households: bool = False,
    progress: Progress = SILENT,
) -> CellModel:
    """The model that the risk comes from, without searching for the best single one unless it is needed.

    ``household`` is that of each record, where the file says it; ``of_households`` says that each record is a household.
    """
    if config.model in FROM_BEST:
        return choose_models(table, config, progress=progress).risk_model
    if of_households and table.n_cells > MANY_HOUSEHOLDS and config.model == "average" and config.resolution == "multi":
        return fit_backoff(table, n_orders=FEWER_ORDERS, many_cells=FEWER_ROWS, seed=config.seed, progress=progress)
    return _risk_model(table, config, table.marginals, _spare_memory(table, config) // 2, progress, household)


def with_best(model: CellModel, config: RunConfig, *, progress: Progress = SILENT) -> ModelChoice:
    """A model that the risk comes from, beside the best single one."""
    table = model.table
    return ModelChoice(*best_model(table, config, memory=_spare_memory(table, config) // 2, progress=progress), model)


def penalty_of(config: RunConfig) -> str | float:
    """The criterion as a penalty, for searches that accept nothing else; AIC if the criterion is not a penalty."""
    if config.criterion in ("bayes", SKINNER_SHLOMO):
        return "aic"
    return config.criterion if config.criterion in ("aic", "bic") else float(config.criterion)


def population_of(table: ContingencyTable, config: RunConfig) -> float:
    """Number of units in the population: as given, summed over the strata, or by the weights."""
    weighed = 0.0 if table.weights is None else float(table.weights.sum())
    return float(config.population or sum(config.populations.values()) or weighed)


def _searched(table: ContingencyTable, config: RunConfig, marginals: Marginals, memory: int, progress: Progress) -> SearchResult:
    def search(criterion: str | float) -> SearchResult:
        return select_model(
            table,
            criterion=criterion,
            search=config.search,
            restarts=config.restarts,
            seed=config.seed,
            max_clique=config.max_clique,
            max_seconds=config.time_limit,
            limits=SearchLimits(memory=memory),
            marginals=marginals,
            progress=progress,
        )

    if config.criterion != SKINNER_SHLOMO:
        return search(config.criterion)
    population = population_of(table, config)
    results = [search(penalty) for penalty in TRIED_PENALTIES]
    tests = [fit_diagnostics(table, result.best, population=population, seed=config.seed).unique_test for result in results]
    return results[int(np.argmin([abs(test.z) for test in tests if test is not None]))]


def _risk_model(
    table: ContingencyTable,
    config: RunConfig,
    marginals: Marginals,
    memory: int,
    progress: Progress,
    household: NDArray[np.int64] | None = None,
) -> CellModel:
    """The model that the risk comes from, unless it is built on the best one."""
    if config.model == "independence":
        return DecomposableModel(table, cliques=[(key,) for key in table.keys], marginals=marginals)
    if config.model == "saturated":
        return DecomposableModel(table, cliques=[table.keys], marginals=marginals)
    if config.model == "bayes":
        drawn = sample_models(
            table, N_DRAWN_MODELS, seed=config.seed, max_clique=config.max_clique, memory_limit=memory, progress=progress
        )
        return AverageModel(drawn.models, drawn.weights)
    if config.model == "regularised":
        return RegularisedModel(table, marginals=marginals, progress=progress)
    limits = SearchLimits(memory=memory)
    if config.model == "stacked":
        fits: list[Callable[[ContingencyTable], CellModel]] = [
            lambda part: select_model(part, criterion=penalty_of(config), seed=config.seed, limits=limits).best,
            RegularisedModel,
            lambda part: fit_backoff(part, n_orders=2, seed=config.seed),
        ]
        return stack(table, fits, seed=config.seed, progress=progress)
    if config.resolution == "full":
        path = penalty_path(
            table, search=config.search, seed=config.seed, max_clique=config.max_clique, limits=limits, marginals=marginals
        )
        return AverageModel([step.best for step in path])
    return fit_backoff(table, household=household, seed=config.seed, progress=progress)


def risk_of(table: ContingencyTable, model: CellModel, config: RunConfig) -> RecordRisk:
    """The risk of every record under the run's sampling design and its meaning of missing values."""
    risk = own_level_risk(table, model, config)
    if config.missing == REGISTER_COMPLETE:
        return register_complete(risk, model)
    return matching_anything(risk, model) if config.missing == MATCHES_ANYTHING else risk


def own_level_risk(
    table: ContingencyTable, model: CellModel, config: RunConfig, *, has_smooth_weights: bool = False
) -> RecordRisk:
    """The same risk with missing values as levels of their own."""
    sizes = stratum_levels(table, config)
    if sizes is not None:
        return record_risk(table, model, population=sizes, strata=config.strata, form=config.form)
    sampling = "srs" if table.weights is None else "smoothed" if has_smooth_weights else "weights"
    population = config.population or sum(config.populations.values()) or None
    risk = record_risk(table, model, population=population, sampling=sampling, form=config.form)
    return risk if config.stages is None else _in_drawn_areas(risk, SamplingStages.of(config.stages), config)


def _in_drawn_areas(risk: RecordRisk, stages: SamplingStages, config: RunConfig) -> RecordRisk:
    """The risk of a sample in two stages: among the people of the drawn areas, if an intruder knows the area of a record."""
    if stages.column not in risk.table.keys or stages.column in config.recode:
        note = f"The areas of '{stages.column}' that were drawn first are not told apart by the keys, so the risk is that in the whole population."
        return replace(risk, design=replace(risk.design, notes=(*risk.design.notes, note)))
    categories = risk.table.categories[risk.table.keys.index(stages.column)]
    n_there = categories.n_levels - categories.has_missing
    if n_there > stages.n_drawn:
        raise BadInput(
            f"{counted(stages.n_drawn, 'area')} {verb(stages.n_drawn, 'was', 'were')} said to be drawn, but the file has {number(n_there)} values "
            f"of '{stages.column}'. Correct --stages."
        )
    among_drawn = risk.if_population_were(stages.share)
    note = (
        f"{number(stages.n_drawn)} of {number(stages.n_areas)} areas were drawn, and '{stages.column}' is a key: people of other areas cannot be "
        f"meant, so the risk is that among the {number(round(among_drawn.population))} people of the drawn areas."
    )
    return replace(among_drawn, design=replace(among_drawn.design, notes=(*risk.design.notes, note), area=stages.column))


def model_estimates(
    table: ContingencyTable, chosen: ModelChoice, risk: RecordRisk, config: RunConfig, *, progress: Progress = SILENT
) -> tuple[EstimatorDetail, ...]:
    """Expected population uniques under the models of the run, and under Lancaster's additive model."""

    def detail(name: str, model: CellModel | None, assumes: str, message: str = "") -> EstimatorDetail:
        estimate = risk if model is None else risk_of(table, model, config)
        return EstimatorDetail(
            name=name, expected_population_uniques=estimate.expected_population_uniques, assumes=assumes, message=message
        )

    details = []
    if config.model == "average":
        details.append(detail("average", None, f"The risk of this run: {chosen.risk_model.describe()}."))
    single = f"The best single decomposable model by {config.criterion}: interactions outside its cliques are absent."
    details.append(detail("decomposable", chosen.best, single))
    if config.resolution == "multi" and table.n_keys <= MOST_KEYS_OF_PAPER:
        full = table.with_coarsenings(())
        full.marginals.take_terms_from(table.marginals)
        best = select_model(full, criterion="aic", seed=config.seed, progress=progress).best
        assumes = "The method of Takemura and Endo: the single best decomposable model by AIC, every key at full detail."
        estimate = risk_of(full, best, config).expected_population_uniques
        details.append(EstimatorDetail(name="paper", expected_population_uniques=estimate, assumes=assumes))
    additive = AdditiveModel(table)
    added = "Lancaster's additive model of second order: departures from independence add up over pairs of keys."
    n_negative = additive.n_negative_uniques
    message = f"{counted(n_negative, 'sample unique')} {verb(n_negative, 'has', 'have')} a negative estimate: taken as probability 0, {verb(n_negative, 'it counts', 'they count')} with risk 1."
    details.append(detail("additive", additive, added, message if n_negative else ""))
    return tuple(details)


# ---------------------------------------------------------------------- comparisons that need many fits


def refitted(part: ContingencyTable, config: RunConfig, *, household: NDArray[np.int64] | None = None) -> CellModel:
    """Fit the run's own kind of model to a part of the file, as a check of its fit requires.

    ``household`` is that of each record of the part, where whole households were drawn.
    """
    if config.model == "average" and config.resolution == "multi":
        return quick_model(part, config, household=household)
    return choose_models(part, replace(config, time_limit=config.time_limit / 4)).risk_model


def quick_model(
    table: ContingencyTable, config: RunConfig, *, n_orders: int = 2, household: NDArray[np.int64] | None = None
) -> CellModel:
    """Fit the run's kind of model to a changed table, with fewer members, for comparisons that need many fits."""
    if config.model == "average" and config.resolution == "multi":
        n_orders = n_orders if table.n_cells < MANY_CELLS // 2 else 1
        return fit_backoff(table, n_orders=n_orders, household=household, seed=config.seed)
    model = config.model if config.model in ("independence", "saturated") else "single"
    limit = config.time_limit if table.n_keys <= _FEW_KEYS else config.time_limit / table.n_keys
    return choose_models(table, replace(config, model=model, cliques=(), time_limit=limit)).risk_model


class Comparison:
    """τ1 of a file and of coarser releases of it, under the quickest model of the run's kind, for comparison with each other.

    Attributes
    ----------
    part : ContingencyTable
        The file, or a random part of it: see :func:`part_for_comparisons`. Its weights are smooth, and coarser tables inherit them.
    """

    def __init__(self, table: ContingencyTable, config: RunConfig, *, progress: Progress = SILENT) -> None:
        self.config = config
        self.part = part_for_comparisons(table, config)
        self._networks: CoarserNetworks | None = None
        if config.model == "average" and config.resolution == "multi" and CoarserNetworks.applies_to(self.part):
            self._networks = CoarserNetworks(self.part, seed=config.seed, progress=progress)

    def uniques(self, table: ContingencyTable) -> float:
        """τ1 of a table; the part's own if it is that."""
        if self._networks is not None and table is self.part:
            return self._uniques(table, self._networks.model)
        return self._uniques(table, quick_model(table, self.config, n_orders=1))

    def uniques_of_changed(self, table: ContingencyTable, key: str, coarsening: Coarsening | None) -> float:
        """τ1 of the part without a key, or, given its coarsening, with that in its place."""
        if self._networks is None:
            return self.uniques(table)
        return self._uniques(table, self._networks.of(table, key, coarsening))

    def _uniques(self, table: ContingencyTable, model: CellModel) -> float:
        risk = own_level_risk(table, model, self.config, has_smooth_weights=True)
        if self.config.missing == MATCHES_ANYTHING:
            risk = matching_anything(risk, model, n_fits=0)
        if self.config.missing == REGISTER_COMPLETE:
            risk = register_complete(risk, model, n_fits=0)
        return risk.expected_population_uniques


def part_for_comparisons(table: ContingencyTable, config: RunConfig) -> ContingencyTable:
    """The table itself, or a random part of it if many fits would take long; survey weights are smoothed once, for all of them.

    More keys mean more fits, each with more to compare; the part shrinks in the same proportion.
    """
    n_records = MANY_CELLS * _FEW_KEYS // max(table.n_keys, _FEW_KEYS)
    part = table if table.n_cells <= n_records else random_part(table, n_records, np.random.default_rng(config.seed))
    return with_smoothed_weights(part)


# How many people does each record of a stratified sample stand for?
#
# N_h/n_h, the size of its stratum over the number of its records. The stratum of a record is a level of a key, or the value of a
# column that is not a key. A key that is released in a recoded form no longer tells the strata apart, so the values in the file do.


def with_design_weights(data: Microdata, table: ContingencyTable, config: RunConfig) -> ContingencyTable:
    """The table of these data, with the weights of a stratified sample if the run names strata.

    1. Where the levels of a key are the strata, the weight of a cell follows from its level.
    2. Where records are held in memory, the stratum of each is the value in the file.
    3. Otherwise the engine counts keys and strata together; adding up over the strata gives the weights of the cells.
    """
    if config.strata is None:
        return table
    if stratum_levels(table, config) is not None:
        return replace(table, weights=_weights_by_level(table, config))
    if table.record_cell is not None:
        codes, categories = data.value_codes(config.strata)
        labels = categories.labels
        populations = {labels[code]: _size_of(config, labels[code]) for code in np.unique(codes).tolist()}
        return with_stratum_weights(table, np.array(labels, dtype=object)[codes], populations)
    if config.strata in table.keys:
        raise BadInput(
            f"The strata '{config.strata}' are a key that is recoded, and the records are too many to be held in memory. Copy the "
            "strata to a column of their own and name that column."
        )
    further = [key for key in table.keys if key not in data.keys]
    wide = wider_table(data, [*further, config.strata], records=False)
    weighed = replace(wide, weights=_weights_by_level(wide, config)).project(table.keys)
    return replace(table, weights=weighed.weights)


def stratum_levels(table: ContingencyTable, config: RunConfig) -> dict[Level, int] | None:
    """The size of each level of the key that is the stratum; None if no key is, or if it was made coarser."""
    if config.strata is None or config.strata not in table.keys:
        return None
    categories = table.categories[table.keys.index(config.strata)]
    if not all(label in config.populations for label in categories.labels):
        return None
    return {level: config.populations[label] for level, label in zip(categories.levels, categories.labels, strict=True)}


def _weights_by_level(table: ContingencyTable, config: RunConfig) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    assert config.strata is not None
    key = table.keys.index(config.strata)
    sizes = np.array([_size_of(config, label) for label in table.categories[key].labels], dtype=np.float64)
    codes = table.cells[:, key]
    n_sampled = np.bincount(codes, weights=table.counts, minlength=len(sizes))
    return np.asarray(table.counts * sizes[codes] / n_sampled[codes], dtype=np.float64)


def _size_of(config: RunConfig, label: str) -> int:
    if label not in config.populations:
        raise BadInput(
            f"The population of stratum '{label}' of '{config.strata}' was not given; give the number of units of every stratum."
        )
    return config.populations[label]


# What would Takemura and Endo have printed for this file?
#
# Their procedure uses single decomposable models at full resolution by AIC, local search from many starts (their Algorithm 1),
# and the multinomial risk. Their table lists the best models that the search found, how often it found each, and the cell
# probabilities of the sample uniques by decade. The riskiest records that two models share show whether the models agree.


N_MODELS = 5
"""Number of models listed."""

N_RISKIEST = 50
"""Number of riskiest records of each model that are compared."""


def paper_table(chosen: ModelChoice, risk: RecordRisk, config: RunConfig) -> PaperTable | None:
    """The paper's table, for a run that follows its procedure."""
    if chosen.search is None or not follows_the_paper(config):
        return None
    table = risk.table
    models, riskiest = [], []
    for optimum in chosen.search.optima[:N_MODELS]:
        model = DecomposableModel(table, graph=optimum.graph)
        model_risk = replace(risk, log_cell_probability=model.log_cell_probability())
        riskiest.append(set(model_risk.riskiest(N_RISKIEST).tolist()))
        models.append(
            PaperModel(
                cliques=model.cliques,
                log_likelihood=model.log_likelihood,
                aic=model.aic,
                degrees_of_freedom=model.degrees_of_freedom,
                times_met=optimum.times_met,
                expected_population_uniques=model_risk.expected_population_uniques,
                decades={str(decade): n for decade, n in model_risk.decades().items()},
                riskiest_shared_with_best=len(riskiest[0] & riskiest[-1]),
            )
        )
    return PaperTable(models=tuple(models), starts=chosen.search.starts, riskiest=len(riskiest[0]))
