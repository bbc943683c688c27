"""How are swaps planned so that somebody who has this program is sure of few links?

A plan is made first. If the intruder who knows how swaps are made (:mod:`rarecell.intruder.shadow`) would be sure of too many links,
it is made again at a higher price, one step after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from rarecell.intruder.links import Links
from rarecell.intruder.register import Register
from rarecell.intruder.shadow import registers_held, shadow_links
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

CHEAP = 2
"""Number of these that are tried unasked: a plan that avoids empty cells takes several times as long as one that does not."""

SURE_ABOVE = 0.8
"""Certainty above which a link counts as sure."""

SURE_SHARE, FEWEST_SURE = 0.01, 1.0
"""Sure links that are accepted unasked: this share of the links in the original, and at least so many."""


def n_sure(shadow: Links) -> float:
    """Number of links that somebody who has the program is sure of."""
    return next(links.claimed for links in shadow.sure if links.above == SURE_ABOVE)


def accepted_unasked(table: ContingencyTable, register: Register) -> float:
    """Number of sure links that is accepted when nobody set a limit."""
    original = register.seen(Release.unchanged(table))
    before = float(register.own_cell(original.before.cells[original.unmoved_cells])[0].sum())
    return max(FEWEST_SURE, SURE_SHARE * before)


class HasPlan(Protocol):
    """Whatever holds a plan of swaps."""

    @property
    def plan(self) -> SwapPlan: ...


Planned = TypeVar("Planned", bound=HasPlan)


@dataclass(frozen=True, eq=False)
class Replanned(Generic[Planned]):
    """The plan with the fewest sure links, beside the one made first.

    Attributes
    ----------
    first, best : Planned
        Both plans.
    sure_at_first : float
        Number of sure links in the plan made first, by the registers that the plans were compared with.
    register : Register
        What is known of the people.
    """

    first: Planned
    best: Planned
    sure_at_first: float
    register: Register

    @cached_property
    def shadow(self) -> Links:
        """What somebody who has the program finds in the best plan.

        A plan is chosen because few links are sure with the registers that were drawn. With those, fewer seem sure than are, so others
        are drawn.
        """
        return shadow_links(self.register.seen(self.best.plan.release), self.register)

    @property
    def fewest_sure(self) -> float:
        """Number of sure links in the plan with the fewest."""
        return n_sure(self.shadow)


def with_few_sure_links(
    task: SwapTask, planned: Callable[[SwapTask], Planned], register: Register, limit: float | None
) -> Replanned[Planned]:
    """Plan, and plan again at a higher price while more links are sure than the limit allows.

    Without a limit, few prices are tried, up to what is accepted unasked.
    """
    first = planned(task)
    compared_with = register.drawn_otherwise()
    held = registers_held(compared_with) if len(first.plan) else ()

    def sure_in(plan: SwapPlan) -> float:
        return n_sure(shadow_links(compared_with.seen(plan.release), compared_with, held=held or None))

    at_first = sure_in(first.plan)
    best, fewest = first, at_first
    allowed = accepted_unasked(task.table, register) if limit is None else limit
    for hardness in SURE_LINK_STEPS[1 : CHEAP if limit is None else None]:
        if fewest <= allowed:
            break
        harder = planned(hardness.priced(task))
        of_harder = sure_in(harder.plan)
        if of_harder < fewest:
            best, fewest = harder, of_harder
    return Replanned(first, best, at_first, register)
