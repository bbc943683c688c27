"""How many records must be swapped to reach a target, and what does each step cost?

The swaps of a plan are independent of each other, so any part of a plan is a plan. The pairs are sorted by the risk they remove
per value changed, and the plan grows in that order until the target is met.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput
from rarecell.intruder.links import Links
from rarecell.intruder.nearest import MovedLinks
from rarecell.intruder.participant import tried_participants
from rarecell.intruder.register import Register
from rarecell.intruder.residual_risk import RiskAfter, risk_after
from rarecell.outcome.swap import FrontierSummary
from rarecell.outcome.words import counted, expected, listed, verb
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.risk.records import RecordRisk
from rarecell.swap.plan import SwapPlan, plan_task
from rarecell.swap.task import SwapTask

MOST_ATTEMPTS = 12
QUICK_ATTEMPTS = 3
STAGE = "growing the plan"

DECOY_ORDER_STREAM = 23
"""Random stream from which the order of decoys is drawn."""


NEAREST, PARTICIPANT = "nearest", "participant"
"""Whom a target is set against."""

ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Participants:
    """What somebody finds who knows that persons are in the file, and each person's probability by the distance that finds most."""

    links: Links
    of_persons: NDArray[np.float64]

    @classmethod
    def of(cls, plan: SwapPlan) -> Participants:
        return cls(*tried_participants(plan.release, distances=plan.task.distances))

    @property
    def highest(self) -> float:
        return float(self.of_persons.max(initial=0.0))


@dataclass(frozen=True)
class SwapTarget:
    """The risk to be reached, against an intruder who links each record to the nearest person.

    Attributes
    ----------
    max_population_uniques : float or None
        Largest expected number of records linked to their person with nobody else as near.
    max_record_risk : float or None
        Largest risk of any record.
    max_correct_links : float or None
        Largest expected number of correct links.
    against : str
        ``"nearest"``, or ``"participant"`` for somebody who knows that a person is in the file and takes the record nearest to the
        true values. Against the latter, ``max_record_risk`` is the highest probability that a person is found, and
        ``max_correct_links`` the largest number of persons; the other limit is that of the nearest person all the same.
    """

    max_population_uniques: float | None = None
    max_record_risk: float | None = None
    max_correct_links: float | None = None
    against: str = NEAREST

    def __post_init__(self) -> None:
        given = [wish for wish in (self.max_population_uniques, self.max_record_risk, self.max_correct_links) if wish is not None]
        if not given:
            raise BadInput(
                "No target was given: name a number of population uniques, a number of correct links or a highest risk that is to "
                "be reached."
            )
        if min(given) < 0.0:
            raise BadInput("A target is a number of 0 or more.")

    def is_met(self, after: RiskAfter) -> bool:
        """Return whether the remaining risk is low enough."""
        return self.is_met_by(after.expected_population_uniques, after.expected_correct_matches, after.highest)

    def is_met_by(self, population_uniques: float, correct_links: float, highest: float) -> bool:
        """Return whether these three numbers are low enough."""
        return (
            (self.max_population_uniques is None or population_uniques <= self.max_population_uniques)
            and (self.max_correct_links is None or correct_links <= self.max_correct_links)
            and (self.max_record_risk is None or highest <= self.max_record_risk)
        )

    def in_words(self, population_uniques: float, correct_links: float, highest: float) -> str:
        """Those of three numbers that the target limits, in words."""
        limited = []
        if self.max_population_uniques is not None:
            limited.append(f"{expected(population_uniques)} expected population uniques")
        if self.max_correct_links is not None:
            limited.append(f"{expected(correct_links)} expected correct links")
        if self.max_record_risk is not None:
            limited.append(f"a highest risk of {highest:.3f}")
        return listed(limited)

    @property
    def is_against_participants(self) -> bool:
        return self.against == PARTICIPANT

    def holds_for(self, participants: Participants) -> bool:
        """Return whether few enough persons are found by somebody who knows that they are in the file."""
        return (self.max_correct_links is None or participants.links.total <= self.max_correct_links) and (
            self.max_record_risk is None or participants.highest <= self.max_record_risk + ROUNDING
        )

    def __str__(self) -> str:
        wishes = []
        if self.max_population_uniques is not None:
            wishes.append(f"at most {self.max_population_uniques:g} expected population uniques")
        if self.max_correct_links is not None:
            of = "persons found who are known to be in the file" if self.is_against_participants else "expected correct links"
            wishes.append(f"at most {self.max_correct_links:g} {of}")
        if self.max_record_risk is not None:
            who = "no person found with a probability" if self.is_against_participants else "no record"
            wishes.append(f"{who} above {self.max_record_risk:g}")
        return " and ".join(wishes)


@dataclass(frozen=True, eq=False)
class TargetPlan:
    """A plan that was extended until it met a target.

    Attributes
    ----------
    plan : SwapPlan
        The swaps that are enough; if the target is out of reach, all that are possible.
    after : RiskAfter
        Risk after these swaps.
    is_met : bool
        Whether the target is reached.
    frontier : tuple of FrontierSummary
        Risk against changed values, from no swap to all that were considered.
    sentence : str
        What was reached, and what stands in the way.
    against : str or None
        ``"participant"`` if the target was set against somebody who knows that a person is in the file.
    links : MovedLinks or None
        What the intruder finds about the moved records of this very plan, if that was tried.
    """

    plan: SwapPlan
    after: RiskAfter
    is_met: bool
    frontier: tuple[FrontierSummary, ...]
    sentence: str
    against: str | None = None
    links: MovedLinks | None = None

    def __str__(self) -> str:
        return self.sentence


def plan_to_target(
    task: SwapTask,
    risk: RecordRisk,
    target: SwapTarget,
    *,
    register: Register | None = None,
    is_quick: bool = False,
    progress: Progress = SILENT,
) -> TargetPlan:
    """Swap as much as is needed, and no more, to bring the risk down to a target.

    Parameters
    ----------
    task : SwapTask
        The file, the model and all settings.
    risk : RecordRisk
        Risk before the swaps.
    target : SwapTarget
        The risk to be reached.
    register : Register, optional
        What the intruder knows; by default the register of the task.
    is_quick : bool, optional
        Whether the plan is only to be compared with others: fewer attempts, and the part that is enough is not tried for itself.
    progress : Progress, optional
        Receiver of progress reports.

    Returns
    -------
    TargetPlan
        The plan, and whether it meets the target.
    """
    intruder = register or task.register_of(risk)
    records = first_choice(risk, target)
    for _ in range(QUICK_ATTEMPTS if is_quick else MOST_ATTEMPTS):
        plan = plan_task(task, records, progress=progress)
        links = plan.links(intruder)
        after = risk_after(risk, plan.release, links)
        more = _further_records(plan, after, records, target)
        if target.is_met(after) or not len(more):
            break
        records = np.union1d(records, more)
        checkpoint(progress, STAGE)
    order = _by_benefit(risk, plan, links)
    points = frontier(risk, plan, links, order=order)
    tried: MovedLinks | None = links
    if target.is_met(after):
        n_enough = _smallest(len(plan), lambda n: target.is_met(risk_after_pairs(risk, plan, links, order[:n])))
        if is_quick:
            after = risk_after_pairs(risk, plan, links, order[:n_enough])
            plan, tried = plan.subset(np.sort(order[:n_enough])), None
        else:
            plan, after, tried = _part_that_holds(risk, plan, intruder, target, order, n_enough)
    return TargetPlan(plan, after, target.is_met(after), points, _sentence(plan, after, target), links=tried)


def plan_to_k(task: SwapTask, k: int, *, progress: Progress = SILENT) -> SwapPlan:
    """Swap records that share their values with fewer than ``k`` − 1 others into larger groups, as far as that helps.

    Swaps that keep the tables of a model seldom cure many such records; those that cure none are left out.
    """
    table = task.table
    small = np.flatnonzero(np.append(table.counts < k, False)[table.cell_of_record])
    plan = plan_task(replace(task, least_k=k, link_weight=STRICTER * task.link_weight, rings=False), small, progress=progress)
    release = plan.release
    was_small = table.counts[table.cell_of(release.rows)] < k
    is_small = release.n_released_alike < k
    gain = (was_small.astype(np.int64) - is_small).reshape(2, -1).sum(axis=0)
    # Which pairs help depends on who else moves, so the parts are counted as they would be released.
    parts = [plan.subset(np.flatnonzero(gain >= least)) for least in (1, 2)]
    return min([*parts, plan.subset(np.zeros(0, dtype=np.int64))], key=lambda part: (_n_small(part, k), part.n_values_changed))


def _n_small(plan: SwapPlan, k: int) -> int:
    counts = plan.release.after.counts
    return int(counts[counts < k].sum())


STRICTER = 3.0
"""Factor by which a link costs more in the next plan against participants, where one plan does not reach the target."""

MOST_PLANS = 5
"""Number of plans that are tried against participants."""


def plan_against_participants(
    task: SwapTask, risk: RecordRisk, target: SwapTarget, *, register: Register | None = None, progress: Progress = SILENT
) -> TargetPlan:
    """Swap until somebody who knows that a person is in the file finds at most so many, or nobody surely enough.

    Everybody who is alone in the file is found before anything is done, so these records are swapped, the riskiest first; then records
    that a swap left alone. Where moved persons are still found, the next plan counts links for more. Of the plans tried, the one is
    taken that meets the target with the fewest changed values, or else the one by which fewest are found.
    """
    intruder, strict = register or task.register_of(risk), replace(task, participants=True)
    alone = risk.riskiest(risk.n_sample_uniques)
    n_needed = len(alone)
    if target.max_record_risk is None and target.max_correct_links is not None:
        n_needed = min(len(alone), max(0, len(alone) - int(target.max_correct_links)))
    records = np.sort(alone[:n_needed])
    best: tuple[bool, float, SwapPlan, Participants] | None = None
    for _ in range(MOST_PLANS):
        plan = plan_task(strict, records, progress=progress)
        participants = Participants.of(plan)
        is_met = target.holds_for(participants)
        order = float(plan.n_values_changed) if is_met else participants.links.total
        if best is None or (is_met, -order) > (best[0], -best[1]):
            best = is_met, order, plan, participants
        if is_met:
            break
        limit = 0.0 if target.max_record_risk is None else target.max_record_risk
        still = participants.links.row[participants.of_persons > limit]
        more = np.setdiff1d(still[still >= 0], np.concatenate([records, plan.rows]))
        if target.max_record_risk is None:
            more = np.union1d(more, np.setdiff1d(alone, records)[: max(1, len(alone) // 20)])
        records = np.union1d(records, more)
        strict = replace(strict, link_weight=STRICTER * strict.link_weight)
        checkpoint(progress, STAGE)
    assert best is not None
    is_met, _, plan, participants = best
    links = plan.links(intruder)
    after, points = risk_after(risk, plan.release, links), frontier(risk, plan, links)
    return TargetPlan(
        plan, after, is_met, points, _sentence_on_participants(plan, participants, target, is_met), PARTICIPANT, links
    )


def _sentence_on_participants(plan: SwapPlan, participants: Participants, target: SwapTarget, is_met: bool) -> str:
    reached = (
        f"somebody who knows that a person is in the file finds {participants.links.total:,.1f} of those who are alone, with a highest "
        f"probability of {participants.highest:.2f}"
    )
    if is_met:
        return f"{counted(len(plan), 'swap')} {verb(len(plan), 'is', 'are')} enough for {target}. Then {reached}."
    certain = int((participants.of_persons >= 1.0).sum())
    held = "; ".join(f"{n:,} records because {reason}" for reason, n in plan.reasons.items())
    blocked = f" Not swapped: {held}." if held else ""
    return (
        f"The target of {target} is out of reach for swaps. With all of them, {reached}, and {certain:,} of them with certainty.{blocked} Recode a key, or ask for --k 2, "
        "which blanks the rest."
    )


def _part_that_holds(
    risk: RecordRisk, plan: SwapPlan, intruder: Register, target: SwapTarget, order: NDArray[np.int64], n_enough: int
) -> tuple[SwapPlan, RiskAfter, MovedLinks]:
    """The first ``n_enough`` pairs, or a few more if these, tried for themselves as they will be reported, miss the target."""
    while True:
        part = plan.subset(np.sort(order[:n_enough]))
        links = part.links(intruder)
        after = risk_after(risk, part.release, links)
        if target.is_met(after) or n_enough == len(plan):
            return part, after, links
        n_enough = min(len(plan), n_enough + max(1, n_enough // 50))


def frontier(
    risk: RecordRisk, plan: SwapPlan, links: MovedLinks, *, n_points: int = 20, order: NDArray[np.int64] | None = None
) -> tuple[FrontierSummary, ...]:
    """Compute the remaining risk against values changed, as the swaps of a plan are made in the order of their benefit."""
    in_order = _by_benefit(risk, plan, links) if order is None else order
    n_values = _n_moved(plan)
    steps = np.unique(np.linspace(0, len(plan), min(n_points, len(plan) + 1)).round().astype(np.int64))
    points = []
    for n in steps.tolist():
        after = risk_after_pairs(risk, plan, links, in_order[:n])
        points.append(
            FrontierSummary(
                values_changed=int(n_values[plan.whole(in_order[:n])].sum()),
                expected_population_uniques=after.expected_population_uniques,
                expected_correct_matches=after.expected_correct_matches,
                highest=after.highest,
            )
        )
    return tuple(points)


def _by_benefit(risk: RecordRisk, plan: SwapPlan, links: MovedLinks) -> NDArray[np.int64]:
    """Pairs sorted by the risk they remove per value changed, ties in the order of the plan; decoys are spread among them."""
    before = risk.unique_probability[plan.table.cell_of(plan.rows)]
    removed = (before - links.certain).reshape(2, -1).sum(axis=0)
    order = np.argsort(-removed / np.maximum(_n_moved(plan), 1), kind="stable")
    return spread_evenly(order, plan.is_decoy, plan.seed)


def _n_moved(plan: SwapPlan) -> NDArray[np.int64]:
    """Number of values that the two rows of each pair receive."""
    release = plan.release
    return np.asarray((release.true != release.released).sum(axis=1).reshape(2, -1).sum(axis=0))


def risk_after_pairs(risk: RecordRisk, plan: SwapPlan, links: MovedLinks, pairs: NDArray[np.int64]) -> RiskAfter:
    """The risk after some pairs of a plan only; ``links`` are those of the whole plan."""
    of_rows = plan.rows_of(pairs)
    return risk_after(risk, plan.release.part(of_rows), links.part(of_rows))


def spread_evenly(order: NDArray[np.int64], is_decoy: NDArray[np.bool_], seed: int) -> NDArray[np.int64]:
    """The same order with the decoys, in random order, spread evenly among the others, so that any part has its share."""
    others, decoys = order[~is_decoy[order]], order[is_decoy[order]]
    decoys = np.random.default_rng([seed, DECOY_ORDER_STREAM]).permutation(np.sort(decoys))
    turn = np.concatenate([(np.arange(len(group)) + 1.0) / max(len(group), 1) for group in (others, decoys)])
    return np.concatenate([others, decoys])[np.argsort(turn, kind="stable")]


def first_choice(risk: RecordRisk, target: SwapTarget) -> NDArray[np.int64]:
    """The riskiest records, as many as would be enough if every swap removed only its own risk."""
    chosen = np.zeros(0, dtype=np.int64) if target.max_record_risk is None else risk.above(target.max_record_risk)
    ranked = risk.riskiest(risk.n_sample_uniques)
    of_ranked = risk.table.cell_of(ranked)
    for most, total, each in (
        (target.max_population_uniques, risk.expected_population_uniques, risk.unique_probability),
        (target.max_correct_links, risk.expected_correct_matches, risk.match_probability),
    ):
        if most is not None:
            left = total - np.cumsum(each[of_ranked])
            chosen = np.union1d(chosen, ranked[: int(np.searchsorted(-left, -most)) + 1])
    return chosen


def _further_records(plan: SwapPlan, after: RiskAfter, records: NDArray[np.int64], target: SwapTarget) -> NDArray[np.int64]:
    """Records not yet requested whose swap would bring the target nearer: the unswapped ones in cells at risk."""
    units = np.flatnonzero((after.match_probability > 0.0)[plan.units.cell])
    rows = plan.units.rows_in(units, plan.units.counts[units])
    rows = rows[~np.isin(rows, np.concatenate([plan.rows, records]))]
    cell = plan.table.cell_of(rows)
    order = np.lexsort((cell, -after.match_probability[cell], -after.unique_probability[cell]))
    rows, cell = rows[order], cell[order]
    highest = target.max_record_risk
    further = np.zeros(0, dtype=np.int64) if highest is None else rows[after.unique_probability[cell] > highest]
    for most, total, each in (
        (target.max_population_uniques, after.expected_population_uniques, after.unique_probability),
        (target.max_correct_links, after.expected_correct_matches, after.match_probability),
    ):
        if most is not None and total > most:
            helps = rows[each[cell] > 0.0]
            n_needed = int(np.searchsorted(np.cumsum(each[cell]), total - most)) + 1
            further = np.union1d(further, helps[: max(n_needed, len(records) // 10)])
    return further


def _smallest(n: int, is_enough: Callable[[int], bool]) -> int:
    """The smallest number of pairs that is enough, given that n pairs are; risk falls as pairs are added."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _sentence(plan: SwapPlan, after: RiskAfter, target: SwapTarget) -> str:
    if target.is_met(after) and not len(plan):
        return f"No swap is needed for {target}."
    if target.is_met(after):
        return f"{counted(len(plan), 'swap')} {verb(len(plan), 'is', 'are')} enough for {target}."
    left = target.in_words(after.expected_population_uniques, after.expected_correct_matches, after.highest)
    blocked = [f"{counted(n, 'record')} could not be swapped because {reason}." for reason, n in plan.reasons.items()]
    return " ".join((f"The target of {target} is out of reach. All swaps together leave {left}.", *blocked))
