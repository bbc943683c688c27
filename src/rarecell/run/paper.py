"""What would Takemura and Endo have printed for this file?

Their procedure uses single decomposable models at full resolution by AIC, local search from many starts (their Algorithm 1),
and the multinomial risk. Their table lists the best models that the search found, how often it found each, and the cell
probabilities of the sample uniques by decade. The riskiest records that two models share show whether the models agree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rarecell.errors import BadInput
from rarecell.model.decomposable import DecomposableModel
from rarecell.outcome.summary import PaperModel, PaperTable
from rarecell.risk.records import RecordRisk
from rarecell.run.config import RunConfig
from rarecell.run.model_choice import ModelChoice

if TYPE_CHECKING:
    from rarecell.edges import ReadJson

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
