"""rarecell: find the records of a microdata file that could be recognised, and protect them.

The public names are listed below; each is loaded from its module on first use, so that importing the package is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "AdditiveModel": "model.additive",
    "assess": "run.assess",
    "Assessment": "run.results",
    "Attack": "run.attack",
    "attack": "run.attack",
    "AttackSummary": "outcome.swap",
    "automatic_coarsenings": "table.coarsening",
    "AverageModel": "model.average",
    "BackoffModel": "model.backoff",
    "BadInput": "errors",
    "Cancelled": "errors",
    "Card": "report.notebook",
    "card": "report.notebook",
    "Categories": "table.contingency",
    "CellModel": "model.protocol",
    "check": "run.check",
    "Check": "outcome.check",
    "ChordalGraph": "graph.chordal",
    "clique_risk": "risk.cliques",
    "CliqueRisk": "risk.cliques",
    "Coarsening": "table.contingency",
    "Coding": "data.coding",
    "ContingencyTable": "table.contingency",
    "DecomposableModel": "model.decomposable",
    "demo": "run.demo",
    "Distances": "table.distance",
    "EngineFailed": "errors",
    "EngineSettings": "engine.duck",
    "explain": "report.notebook",
    "explain_pair": "swap.pairs",
    "Explanation": "report.notebook",
    "find_structural_zeros": "table.structural_zeros",
    "fit_backoff": "model.backoff",
    "fit_diagnostics": "risk.diagnostics",
    "FitDiagnostics": "risk.diagnostics",
    "formal_swaps": "swap.formal.release",
    "FormalRelease": "swap.formal.release",
    "handover": "run.handover",
    "held_out_log_likelihood": "model.average",
    "HeldOutLikelihood": "model.average",
    "HierarchicalModel": "model.hierarchical",
    "HierarchicalSearchResult": "search.hierarchical",
    "household_risk": "risk.records",
    "improve_model": "search.hierarchical",
    "KeyMismatch": "errors",
    "KeySet": "risk.key_sets",
    "load": "run.saved",
    "MemoryLimit": "machine.memory",
    "Microdata": "data.microdata",
    "MissingExtra": "errors",
    "NotChordal": "errors",
    "NotConverged": "errors",
    "NotWritten": "errors",
    "OtherColumn": "planning.recodings",
    "OutputExists": "errors",
    "PairExplanation": "swap.pairs",
    "penalty_path": "search.select",
    "plan": "run.plan",
    "plan_release": "planning.planner",
    "plan_swaps": "swap.plan",
    "plan_to_target": "swap.target",
    "population_uniques": "risk.population_uniques",
    "PopulationTooSmall": "errors",
    "Profile": "outcome.profile",
    "Progress": "progress",
    "protect": "run.protect",
    "ProtectConfig": "run.config",
    "Protection": "run.results",
    "RarecellError": "errors",
    "record_risk": "risk.records",
    "RecordRisk": "risk.records",
    "Register": "intruder.register",
    "register_counts": "risk.register",
    "RegisterCounts": "risk.register",
    "RegularisedModel": "model.regularised",
    "ReleaseFrontier": "planning.planner",
    "ReleasePoint": "planning.planner",
    "ReleaseTarget": "planning.planner",
    "risk_interval": "risk.interval",
    "RiskInterval": "risk.interval",
    "RuleOutcome": "outcome.check",
    "RunConfig": "run.config",
    "RunSummary": "outcome.summary",
    "SavedRun": "run.saved",
    "Scan": "risk.key_sets",
    "scan_subsets": "risk.key_sets",
    "SearchLimits": "search.result",
    "SearchResult": "search.result",
    "select_model": "search.select",
    "SizeIndices": "risk.population_uniques",
    "stack": "model.average",
    "StructuralZeros": "table.structural_zeros",
    "SwapConstraints": "swap.rules",
    "Swappability": "swap.swappable",
    "swappability": "swap.swappable",
    "synthesise": "run.synthesise",
    "Synthesis": "run.synthesise",
    "SwapPlan": "swap.plan",
    "SwapResult": "swap.apply",
    "SwapTarget": "swap.target",
    "SwapTask": "swap.task",
    "TargetPlan": "swap.target",
    "TooLarge": "errors",
    "UniquesEstimate": "risk.population_uniques",
    "UnknownChoice": "errors",
    "UnknownColumns": "errors",
    "unsafe_combinations": "risk.unsafe",
    "UnsafeCombinations": "risk.unsafe",
    "Verdict": "outcome.verdict",
}
__all__ = ["__version__", *_HOME]

if TYPE_CHECKING:
    from rarecell.data.coding import Coding as Coding
    from rarecell.data.microdata import Microdata as Microdata
    from rarecell.engine.duck import EngineSettings as EngineSettings
    from rarecell.errors import BadInput as BadInput
    from rarecell.errors import Cancelled as Cancelled
    from rarecell.errors import EngineFailed as EngineFailed
    from rarecell.errors import KeyMismatch as KeyMismatch
    from rarecell.errors import MissingExtra as MissingExtra
    from rarecell.errors import NotChordal as NotChordal
    from rarecell.errors import NotConverged as NotConverged
    from rarecell.errors import NotWritten as NotWritten
    from rarecell.errors import OutputExists as OutputExists
    from rarecell.errors import PopulationTooSmall as PopulationTooSmall
    from rarecell.errors import RarecellError as RarecellError
    from rarecell.errors import TooLarge as TooLarge
    from rarecell.errors import UnknownChoice as UnknownChoice
    from rarecell.errors import UnknownColumns as UnknownColumns
    from rarecell.graph.chordal import ChordalGraph as ChordalGraph
    from rarecell.intruder.register import Register as Register
    from rarecell.machine.memory import MemoryLimit as MemoryLimit
    from rarecell.model.additive import AdditiveModel as AdditiveModel
    from rarecell.model.average import AverageModel as AverageModel
    from rarecell.model.average import HeldOutLikelihood as HeldOutLikelihood
    from rarecell.model.average import held_out_log_likelihood as held_out_log_likelihood
    from rarecell.model.average import stack as stack
    from rarecell.model.backoff import BackoffModel as BackoffModel
    from rarecell.model.backoff import fit_backoff as fit_backoff
    from rarecell.model.decomposable import DecomposableModel as DecomposableModel
    from rarecell.model.hierarchical import HierarchicalModel as HierarchicalModel
    from rarecell.model.protocol import CellModel as CellModel
    from rarecell.model.regularised import RegularisedModel as RegularisedModel
    from rarecell.outcome.check import Check as Check
    from rarecell.outcome.check import RuleOutcome as RuleOutcome
    from rarecell.outcome.profile import Profile as Profile
    from rarecell.outcome.summary import RunSummary as RunSummary
    from rarecell.outcome.swap import AttackSummary as AttackSummary
    from rarecell.outcome.verdict import Verdict as Verdict
    from rarecell.planning.planner import ReleaseFrontier as ReleaseFrontier
    from rarecell.planning.planner import ReleasePoint as ReleasePoint
    from rarecell.planning.planner import ReleaseTarget as ReleaseTarget
    from rarecell.planning.planner import plan_release as plan_release
    from rarecell.planning.recodings import OtherColumn as OtherColumn
    from rarecell.progress import Progress as Progress
    from rarecell.report.notebook import Card as Card
    from rarecell.report.notebook import Explanation as Explanation
    from rarecell.report.notebook import card as card
    from rarecell.report.notebook import explain as explain
    from rarecell.risk.cliques import CliqueRisk as CliqueRisk
    from rarecell.risk.cliques import clique_risk as clique_risk
    from rarecell.risk.diagnostics import FitDiagnostics as FitDiagnostics
    from rarecell.risk.diagnostics import fit_diagnostics as fit_diagnostics
    from rarecell.risk.interval import RiskInterval as RiskInterval
    from rarecell.risk.interval import risk_interval as risk_interval
    from rarecell.risk.key_sets import KeySet as KeySet
    from rarecell.risk.key_sets import Scan as Scan
    from rarecell.risk.key_sets import scan_subsets as scan_subsets
    from rarecell.risk.population_uniques import SizeIndices as SizeIndices
    from rarecell.risk.population_uniques import UniquesEstimate as UniquesEstimate
    from rarecell.risk.population_uniques import population_uniques as population_uniques
    from rarecell.risk.records import RecordRisk as RecordRisk
    from rarecell.risk.records import household_risk as household_risk
    from rarecell.risk.records import record_risk as record_risk
    from rarecell.risk.register import RegisterCounts as RegisterCounts
    from rarecell.risk.register import register_counts as register_counts
    from rarecell.risk.unsafe import UnsafeCombinations as UnsafeCombinations
    from rarecell.risk.unsafe import unsafe_combinations as unsafe_combinations
    from rarecell.run.assess import assess as assess
    from rarecell.run.attack import Attack as Attack
    from rarecell.run.attack import attack as attack
    from rarecell.run.check import check as check
    from rarecell.run.config import ProtectConfig as ProtectConfig
    from rarecell.run.config import RunConfig as RunConfig
    from rarecell.run.demo import demo as demo
    from rarecell.run.handover import handover as handover
    from rarecell.run.plan import plan as plan
    from rarecell.run.protect import protect as protect
    from rarecell.run.results import Assessment as Assessment
    from rarecell.run.results import Protection as Protection
    from rarecell.run.saved import SavedRun as SavedRun
    from rarecell.run.saved import load as load
    from rarecell.run.synthesise import Synthesis as Synthesis
    from rarecell.run.synthesise import synthesise as synthesise
    from rarecell.search.hierarchical import HierarchicalSearchResult as HierarchicalSearchResult
    from rarecell.search.hierarchical import improve_model as improve_model
    from rarecell.search.result import SearchLimits as SearchLimits
    from rarecell.search.result import SearchResult as SearchResult
    from rarecell.search.select import penalty_path as penalty_path
    from rarecell.search.select import select_model as select_model
    from rarecell.swap.apply import SwapResult as SwapResult
    from rarecell.swap.formal.release import FormalRelease as FormalRelease
    from rarecell.swap.formal.release import formal_swaps as formal_swaps
    from rarecell.swap.pairs import PairExplanation as PairExplanation
    from rarecell.swap.pairs import explain_pair as explain_pair
    from rarecell.swap.plan import SwapPlan as SwapPlan
    from rarecell.swap.plan import plan_swaps as plan_swaps
    from rarecell.swap.rules import SwapConstraints as SwapConstraints
    from rarecell.swap.swappable import Swappability as Swappability
    from rarecell.swap.swappable import swappability as swappability
    from rarecell.swap.target import SwapTarget as SwapTarget
    from rarecell.swap.target import TargetPlan as TargetPlan
    from rarecell.swap.target import plan_to_target as plan_to_target
    from rarecell.swap.task import SwapTask as SwapTask
    from rarecell.table.coarsening import automatic_coarsenings as automatic_coarsenings
    from rarecell.table.contingency import Categories as Categories
    from rarecell.table.contingency import Coarsening as Coarsening
    from rarecell.table.contingency import ContingencyTable as ContingencyTable
    from rarecell.table.distance import Distances as Distances
    from rarecell.table.structural_zeros import StructuralZeros as StructuralZeros
    from rarecell.table.structural_zeros import find_structural_zeros as find_structural_zeros


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"rarecell.{_HOME[name]}"), name)
    raise AttributeError(f"module 'rarecell' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
