"""How are swaps planned so that somebody who has this program is sure of few links?

A plan is made first. If the intruder who knows how swaps are made (:mod:`rarecell.intruder.shadow`) would be sure of too many links,
it is made again at a higher price, one step after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from rarecell.intruder.nearest import exact_links
from rarecell.intruder.register import Register
from rarecell.intruder.shadow import shadow_links
from rarecell.release.release import Release
from rarecell.swap.plan import SwapPlan
from rarecell.swap.task import SwapTask
from rarecell.table.contingency import ContingencyTable


@dataclass(frozen=True)
class Hardness:
    """What is done against somebody who has this program: price of cells without people, whether vacated cells are open, and decoys."""

    empty_weight: float = 0.0
    enters_vacated: bool = False
    decoys: float = 0.0

    def priced(self, task: SwapTask) -> SwapTask:
        """The task at this price."""
        return replace(
            task,
            empty_weight=self.empty_weight,
            enters_vacated=self.enters_vacated,
            decoys=max(task.decoys, self.decoys),
        )


SURE_LINK_STEPS = (
    Hardness(),
    Hardness(0.1),
    Hardness(0.1, enters_vacated=True),
    Hardness(0.3, enters_vacated=True),
    Hardness(1.0, enters_vacated=True),
    Hardness(1.0, enters_vacated=True, decoys=0.5),
)
"""What is tried, one after the other, until few links are sure.

Nearly all sure links are of records that end where nobody lives (``benchmarks/attack.py --frontier``)."""

CHEAP = 3
"""Number of these that are tried unasked."""

SURE_ABOVE = 0.8
"""Certainty above which a link counts as sure."""

SURE_SHARE, FEWEST_SURE = 0.01, 1.0
"""Sure links that are accepted unasked: this share of the links in the original, and at least so many."""


def sure_links(release: Release, register: Register) -> float:
    """Number of links that somebody who has the program is sure of."""
    sure = shadow_links(register.seen(release), register).sure
    return next(links.claimed for links in sure if links.above == SURE_ABOVE)


def accepted_unasked(table: ContingencyTable, register: Register) -> float:
    """Number of sure links that is accepted when nobody set a limit."""
    before = exact_links(register.seen(Release.unchanged(table)), register).total
    return max(FEWEST_SURE, SURE_SHARE * before)


class HasPlan(Protocol):
    """Whatever holds a plan of swaps."""

    @property
    def plan(self) -> SwapPlan: ...


Planned = TypeVar("Planned", bound=HasPlan)


@dataclass(frozen=True, eq=False)
class Replanned(Generic[Planned]):
    """The plan with the fewest sure links, beside the one made first."""

    first: Planned
    best: Planned
    sure_at_first: float
    fewest_sure: float


def with_few_sure_links(
    task: SwapTask, planned: Callable[[SwapTask], Planned], register: Register, limit: float | None
) -> Replanned[Planned]:
    """Plan, and plan again at a higher price while more links are sure than the limit allows.

    Without a limit, few prices are tried, up to what is accepted unasked.
    """
    first = best = planned(task)
    at_first = fewest = sure_links(first.plan.release, register)
    allowed = accepted_unasked(task.table, register) if limit is None else limit
    for hardness in SURE_LINK_STEPS[1 : CHEAP if limit is None else None]:
        if fewest <= allowed:
            break
        harder = planned(hardness.priced(task))
        n_sure = sure_links(harder.plan.release, register)
        if n_sure < fewest:
            best, fewest = harder, n_sure
    return Replanned(first, best, at_first, fewest)
