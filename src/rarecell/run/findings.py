"""What do the steps of an assessment find, before it is put into words?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell.data.microdata import Microdata
from rarecell.outcome.summary import EstimatorDetail
from rarecell.risk.design_effect import DesignEffect
from rarecell.risk.diagnostics import FitDiagnostics
from rarecell.risk.doubles import Doubles
from rarecell.risk.explain import KeyCost
from rarecell.risk.interval import RiskInterval
from rarecell.risk.population_uniques import UniquesEstimate
from rarecell.risk.records import RecordRisk
from rarecell.risk.unsafe import UnsafeCombinations
from rarecell.run.config import RunConfig
from rarecell.run.model_choice import ModelChoice
from rarecell.run.roles import Roles
from rarecell.swap.swappable import Swappability
from rarecell.table.contingency import ContingencyTable
from rarecell.table.structural_zeros import StructuralZeros


@dataclass(frozen=True, eq=False)
class Judgement:
    """How far the risk can be trusted, and how much each key contributes to it."""

    fit: FitDiagnostics
    estimates: tuple[UniquesEstimate, ...]
    of_models: tuple[EstimatorDetail, ...]
    costs: tuple[KeyCost, ...]
    interval: RiskInterval
    design: DesignEffect | None
    doubles: tuple[Doubles, ...] = ()


@dataclass(frozen=True, eq=False)
class Findings:
    """The data, the models and the risk of a run; ``households`` has the risk of each household, if there are any.

    ``by_missing`` has the risk with missing values as levels of their own, and with missing values matching every level.
    """

    config: RunConfig
    data: Microdata
    zeros: StructuralZeros
    choice: ModelChoice
    risk: RecordRisk
    swappability: Swappability
    unsafe: UnsafeCombinations
    judgement: Judgement
    households: NDArray[np.float64] | None
    roles: Roles
    by_missing: tuple[RecordRisk, RecordRisk]

    @property
    def table(self) -> ContingencyTable:
        return self.risk.table
