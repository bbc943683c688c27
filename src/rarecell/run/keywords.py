"""How does a call with keywords become a configuration?

The options of the command are the fields of :class:`~rarecell.run.config.RunConfig` and
:class:`~rarecell.run.config.ProtectConfig`; a Python call takes them as keywords of the same names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from rarecell.errors import BadInput
from rarecell.model.decomposable import DecomposableModel
from rarecell.outcome.summary import PaperModel, PaperTable
from rarecell.risk.records import RecordRisk
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.models import ModelChoice

if TYPE_CHECKING:
    from rarecell.edges import Frame, ReadJson


FRAME = "(a data frame)"
"""Stands for the input of a run whose data are a frame."""


class RunOptions(TypedDict, total=False):
    """The fields of :class:`~rarecell.run.config.RunConfig` and ``paper``, as keywords of :func:`rarecell.assess`."""

    keys: Sequence[str]
    population: int | None
    weight: str | None
    household: str | None
    household_order: Sequence[str]
    households_known: str
    geography: str | None
    strata: str | None
    populations: Mapping[str, int]
    sensitive: Sequence[str]
    id: str | None
    register: Frame
    scenario: Mapping[str, Sequence[str] | ReadJson]
    analysis: Mapping[str, ReadJson]
    missing: str
    coding: Mapping[str, ReadJson]
    recode: Mapping[str, str]
    hierarchies: Mapping[str, str]
    sql: str | None
    encoding: str | None
    sheet: str | None
    decimal: str | None
    spark_table: str | None
    criterion: str
    search: str
    max_clique: int | None
    restarts: int
    time_limit: float
    model: str
    cliques: Sequence[Sequence[str]]
    resolution: str
    zeros: str
    form: str
    threshold: float
    memory: str | None
    seed: int
    by: str | None
    paper: bool


class ProtectOptions(RunOptions, total=False):
    """Those of :class:`RunOptions` and fields of :class:`~rarecell.run.config.ProtectConfig`, for :func:`rarecell.protect`."""

    records: Sequence[int] | None
    risk_above: float | None
    top: int | None
    cell_probability_below: float | None
    max_population_uniques: float | None
    max_correct_links: float | None
    max_record_risk: float | None
    suppress_rest: bool
    keep: Sequence[Sequence[str]]
    never_swap: Sequence[str]
    within: Sequence[str]
    rules: Sequence[ReadJson]
    untouched: Sequence[ReadJson]
    distances: Mapping[str, str]
    weights: Mapping[str, float]
    households: bool
    decoys: float
    swap_seed: int | None
    swap_rate: float | None
    similar: Sequence[Sequence[str]]
    carry: Sequence[str]
    weight_classes: int
    released: str | Path | None
    formal: ReadJson


@dataclass(frozen=True, eq=False)
class Frames:
    """Data frames passed with a configuration: the data and the register; None where they come from files."""

    data: Frame = None
    register: Frame = None


NO_FRAMES = Frames()


def as_config(data: Frame, frame: Frame, options: ReadJson) -> tuple[RunConfig, Frames]:
    """Turn the arguments of a call into a configuration and its data frames, if any.

    Parameters
    ----------
    data : RunConfig, path or frame
        The first argument of the call.
    frame : frame or None
        The frame that goes with a configuration.
    options : mapping
        The keywords of the call.
    """
    register = options.get("register")
    if register is not None and not isinstance(register, str | Path):
        config, frames = as_config(data, frame, {name: value for name, value in options.items() if name != "register"})
        return replace(config, register=FRAME), replace(frames, register=register)
    if isinstance(data, RunConfig):
        if options:
            raise BadInput(
                f"The call has a configuration and the options {', '.join(options)} as well. Put them into the configuration: "
                "dataclasses.replace(config, …)."
            )
        return data, Frames(frame)
    if frame is not None:
        raise BadInput("The data were given twice. Give the frame as the first argument, or a configuration with frame=.")
    if "paper" in options:
        others = {name: value for name, value in options.items() if name != "paper"}
        return as_config(data, frame, {**others, **paper_options(others)} if options["paper"] else others)
    of_protection = {part.name for part in fields(ProtectConfig)}
    given = {name: _listed(value) for name, value in options.items() if name not in of_protection}
    protect = {name: _listed(value) for name, value in options.items() if name in of_protection and value is not None}
    if isinstance(given.get("scenario"), Mapping):
        # Keys alone describe an intruder; a table may say more.
        given["scenario"] = {
            name: known if isinstance(known, Mapping) else {"keys": _listed(known)} for name, known in given["scenario"].items()
        }
    is_path = data is None or isinstance(data, str | Path)
    given["input"] = str(data or "") if is_path else FRAME
    if protect:
        given["protect"] = protect
    return RunConfig.from_mapping(given, source="the call"), Frames(None if is_path else data)


def _listed(value: object) -> Any:
    """Turn arrays and sets into lists, and paths into text."""
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, set | frozenset | tuple) else value


# What would Takemura and Endo have printed for this file?
#
# Their procedure uses single decomposable models at full resolution by AIC, local search from many starts (their Algorithm 1),
# and the multinomial risk. Their table lists the best models that the search found, how often it found each, and the cell
# probabilities of the sample uniques by decade. The riskiest records that two models share show whether the models agree.


N_MODELS = 5
"""Number of models listed."""

N_RISKIEST = 50
"""Number of riskiest records of each model that are compared."""

PAPER = {"model": "single", "resolution": "full", "search": "local", "criterion": "aic", "form": "multinomial"}
"""Options that make a run follow the paper's procedure."""


def paper_options(given: ReadJson) -> dict[str, str]:
    """The options that ``paper`` stands for; an option that was given another value is an error."""
    other = [name for name, value in PAPER.items() if given.get(name, value) != value]
    if other:
        raise BadInput(f"--paper already says how the model is chosen: leave out --{other[0]}, or --paper.")
    return dict(PAPER)


def follows_the_paper(config: RunConfig) -> bool:
    """Whether a run follows the paper's procedure."""
    return not config.cliques and all(getattr(config, name) == value for name, value in PAPER.items())


def paper_table(chosen: ModelChoice, risk: RecordRisk, config: RunConfig) -> PaperTable | None:
    """The paper's table, for a run that follows its procedure."""
    if chosen.found is None or not follows_the_paper(config):
        return None
    table = risk.table
    models, riskiest = [], []
    for optimum in chosen.found.optima[:N_MODELS]:
        model = DecomposableModel(table, graph=optimum.graph)
        found = replace(risk, log_cell_probability=model.log_cell_probability())
        riskiest.append(set(found.riskiest(N_RISKIEST).tolist()))
        models.append(
            PaperModel(
                cliques=model.cliques,
                log_likelihood=model.log_likelihood,
                aic=model.aic,
                degrees_of_freedom=model.degrees_of_freedom,
                times_met=optimum.times_met,
                expected_population_uniques=found.expected_population_uniques,
                decades={str(decade): n for decade, n in found.decades().items()},
                riskiest_shared_with_best=len(riskiest[0] & riskiest[-1]),
            )
        )
    return PaperTable(models=tuple(models), starts=chosen.found.starts, riskiest=len(riskiest[0]))
