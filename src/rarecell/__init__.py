"""rarecell: find the records of a microdata file that could be recognised, and protect them.

The public names are below; each is loaded from its module on first use, so that importing the package is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "AdditiveModel": "model.additive",
    "Assessment": "run.orchestration",
    "AverageModel": "model.average",
    "BackoffModel": "model.backoff",
    "Categories": "table.contingency",
    "ChordalGraph": "graph.chordal",
    "Coarsening": "table.contingency",
    "Coding": "data.coding",
    "ContingencyTable": "table.contingency",
    "DecomposableModel": "model.decomposable",
    "HierarchicalModel": "model.hierarchical",
    "RegularisedModel": "model.regularised",
    "StructuralZeros": "table.structural_zeros",
    "find_structural_zeros": "table.structural_zeros",
    "Microdata": "data.microdata",
    "ProtectConfig": "run.config",
    "Protection": "run.orchestration",
    "RarecellError": "errors",
    "RecordRisk": "risk.records",
    "RunConfig": "run.config",
    "SwapConstraints": "swap.rules",
    "assess": "run.orchestration",
    "automatic_coarsenings": "table.coarsening",
    "clique_risk": "risk.cliques",
    "fit_backoff": "model.backoff",
    "fit_diagnostics": "risk.diagnostics",
    "penalty_path": "search",
    "plan_swaps": "swap.plan",
    "population_uniques": "risk.population_uniques",
    "protect": "run.orchestration",
    "record_risk": "risk.records",
    "risk_interval": "risk.interval",
    "select_model": "search",
    "improve_model": "search.hierarchical",
    "held_out_log_likelihood": "model.stacking",
    "stack": "model.stacking",
    "swappability": "swap.swappable",
    "unsafe_combinations": "risk.unsafe",
}
__all__ = ["__version__", *_HOME]

if TYPE_CHECKING:
    from rarecell.data.coding import Coding as Coding
    from rarecell.data.microdata import Microdata as Microdata
    from rarecell.errors import RarecellError as RarecellError
    from rarecell.graph.chordal import ChordalGraph as ChordalGraph
    from rarecell.model.additive import AdditiveModel as AdditiveModel
    from rarecell.model.average import AverageModel as AverageModel
    from rarecell.model.backoff import BackoffModel as BackoffModel
    from rarecell.model.backoff import fit_backoff as fit_backoff
    from rarecell.model.decomposable import DecomposableModel as DecomposableModel
    from rarecell.model.hierarchical import HierarchicalModel as HierarchicalModel
    from rarecell.model.regularised import RegularisedModel as RegularisedModel
    from rarecell.model.stacking import held_out_log_likelihood as held_out_log_likelihood
    from rarecell.model.stacking import stack as stack
    from rarecell.risk.cliques import clique_risk as clique_risk
    from rarecell.risk.diagnostics import fit_diagnostics as fit_diagnostics
    from rarecell.risk.interval import risk_interval as risk_interval
    from rarecell.risk.population_uniques import population_uniques as population_uniques
    from rarecell.risk.records import RecordRisk as RecordRisk
    from rarecell.risk.records import record_risk as record_risk
    from rarecell.risk.unsafe import unsafe_combinations as unsafe_combinations
    from rarecell.run.config import ProtectConfig as ProtectConfig
    from rarecell.run.config import RunConfig as RunConfig
    from rarecell.run.orchestration import Assessment as Assessment
    from rarecell.run.orchestration import Protection as Protection
    from rarecell.run.orchestration import assess as assess
    from rarecell.run.orchestration import protect as protect
    from rarecell.search import penalty_path as penalty_path
    from rarecell.search import select_model as select_model
    from rarecell.search.hierarchical import improve_model as improve_model
    from rarecell.swap.plan import plan_swaps as plan_swaps
    from rarecell.swap.rules import SwapConstraints as SwapConstraints
    from rarecell.swap.swappable import swappability as swappability
    from rarecell.table.coarsening import automatic_coarsenings as automatic_coarsenings
    from rarecell.table.contingency import Categories as Categories
    from rarecell.table.contingency import Coarsening as Coarsening
    from rarecell.table.contingency import ContingencyTable as ContingencyTable
    from rarecell.table.structural_zeros import StructuralZeros as StructuralZeros
    from rarecell.table.structural_zeros import find_structural_zeros as find_structural_zeros


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"rarecell.{_HOME[name]}"), name)
    raise AttributeError(f"module 'rarecell' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
