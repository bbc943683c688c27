"""The public names, each written once: type checkers read this list, and so does the package when it is imported.

Everything else is imported from its module: ``from rarecell.model.average import AverageModel``.
"""

from rarecell.data.coding import Coding as Coding
from rarecell.data.microdata import Microdata as Microdata
from rarecell.engine.duck import EngineSettings as EngineSettings
from rarecell.errors import BadInput as BadInput
from rarecell.errors import Cancelled as Cancelled
from rarecell.errors import OutputExists as OutputExists
from rarecell.errors import RarecellError as RarecellError
from rarecell.intruder.register import Register as Register
from rarecell.model.backoff import BackoffModel as BackoffModel
from rarecell.model.backoff import fit_backoff as fit_backoff
from rarecell.model.decomposable import DecomposableModel as DecomposableModel
from rarecell.model.hierarchical import HierarchicalModel as HierarchicalModel
from rarecell.model.protocol import CellModel as CellModel
from rarecell.outcome.check import Check as Check
from rarecell.outcome.profile import Profile as Profile
from rarecell.outcome.summary import RunSummary as RunSummary
from rarecell.outcome.verdict import Verdict as Verdict
from rarecell.planning.planner import ReleaseFrontier as ReleaseFrontier
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
from rarecell.search.result import SearchLimits as SearchLimits
from rarecell.search.result import SearchResult as SearchResult
from rarecell.search.select import select_model as select_model
from rarecell.swap.formal.release import FormalRelease as FormalRelease
from rarecell.swap.formal.release import formal_swaps as formal_swaps
from rarecell.swap.plan import SwapPlan as SwapPlan
from rarecell.swap.plan import plan_swaps as plan_swaps
from rarecell.swap.rules import SwapConstraints as SwapConstraints
from rarecell.swap.swappable import Swappability as Swappability
from rarecell.swap.swappable import swappability as swappability
from rarecell.table.coarsening import automatic_coarsenings as automatic_coarsenings
from rarecell.table.contingency import Categories as Categories
from rarecell.table.contingency import Coarsening as Coarsening
from rarecell.table.contingency import ContingencyTable as ContingencyTable
from rarecell.table.distance import Distances as Distances

__version__: str
__all__: list[str]
_HOME: dict[str, str]
