"""How many swaps are needed after a recoding, and what risk is left then?

The only place where planning a release calls on swaps and intruders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rarecell.engine.drawing import NamesOfRecords
from rarecell.errors import BadInput
from rarecell.intruder.register import N_DRAWS, Register
from rarecell.model.protocol import CellModel
from rarecell.progress import OnlyCancelled, Progress
from rarecell.risk.records import RecordRisk
from rarecell.swap.rules import SwapConstraints
from rarecell.swap.target import SwapTarget, TargetPlan, plan_to_target
from rarecell.swap.task import SwapTask
from rarecell.swap.units import ColumnValues
from rarecell.table.contingency import ContingencyTable

FEW_DRAWS = 24
"""Draws of what an intruder knows, over all members of a model: enough to compare candidates; a release draws more."""


@dataclass(frozen=True)
class ReleaseTarget:
    """What a release must achieve: at most this many expected correct links, no record above a given risk, or both."""

    max_correct_links: float | None = None
    max_record_risk: float | None = None

    def __post_init__(self) -> None:
        given = [number for number in (self.max_correct_links, self.max_record_risk) if number is not None]
        if not given:
            raise BadInput("No target was given: name the largest number of correct links, or the highest risk of a record.")
        if min(given) < 0.0 or (self.max_record_risk or 0.0) > 1.0:
            raise BadInput("A target is a number of correct links of 0 or more, or a risk between 0 and 1.")

    @property
    def options(self) -> str:
        """The target as command-line options."""
        found = [] if self.max_correct_links is None else [f"--max-correct-links {self.max_correct_links:g}"]
        found += [] if self.max_record_risk is None else [f"--max-record-risk {self.max_record_risk:g}"]
        return " ".join(found)

    def __str__(self) -> str:
        found = [] if self.max_correct_links is None else [f"at most {self.max_correct_links:g} correct links"]
        found += [] if self.max_record_risk is None else [f"no record above a risk of {self.max_record_risk:g}"]
        return " and ".join(found)


@dataclass(frozen=True, eq=False)
class SwapRules:
    """What swaps must obey: constraints, further margins to keep, the columns these name, and names for equal records."""

    constraints: SwapConstraints = field(default_factory=SwapConstraints)
    keep: tuple[tuple[str, ...], ...] = ()
    columns: Mapping[str, ColumnValues] = field(default_factory=dict)
    record_ids: NamesOfRecords | None = None


@dataclass(frozen=True, eq=False)
class Fitted:
    """A recoded table with its models.

    Attributes
    ----------
    table : ContingencyTable
        The table, with the coarsenings that its models use.
    model : CellModel
        The model whose margins the swaps preserve.
    risk_model : CellModel
        The model that the risk is computed from, and that an intruder may know.
    risk : RecordRisk
        The risk of every record.
    rules : SwapRules or None
        What swaps must obey in a release; None for a quick comparison without rules, and with fewer draws.
    """

    table: ContingencyTable
    model: CellModel
    risk_model: CellModel
    risk: RecordRisk
    rules: SwapRules | None = None


def swap_remainder(fitted: Fitted, target: ReleaseTarget, *, seed: int, progress: Progress) -> TargetPlan:
    """Swap the riskiest records until the target is met, or no further swap helps.

    The intruder against whom the target must hold knows other draws from the model than those used to make the plan.
    """
    rules = fitted.rules or SwapRules()
    n_draws = N_DRAWS if fitted.rules is not None else max(1, FEW_DRAWS // max(1, len(fitted.risk_model.members)))
    planned, reported = (Register.modelled(fitted.risk, fitted.risk_model, n_draws=n_draws, seed=seed + more) for more in (0, 1))
    task = SwapTask(
        fitted.table,
        fitted.model,
        risk=fitted.risk,
        register=planned,
        keep=rules.keep,
        columns=rules.columns,
        constraints=rules.constraints,
        record_ids=rules.record_ids,
        seed=seed,
    )
    wish = SwapTarget(max_record_risk=target.max_record_risk, max_correct_links=target.max_correct_links)
    return plan_to_target(task, fitted.risk, wish, register=reported, progress=OnlyCancelled(progress))
