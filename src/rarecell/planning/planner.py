"""Which recodings, with swaps for what remains, reach a target, and which of them cost least?

Every key has a ladder of coarser levels. A candidate takes one step of each ladder; its table is the original one with
levels merged, so the file is not read again. Models are fitted to that table, records are swapped until the target is met,
and the costs are counted. The frontier holds the candidates that no other beats in both information and changed records.

If there are few candidates, all are evaluated. If there are many, the sample uniques of the most promising ones are counted,
step by step, and those that leave the fewest uniques for the information they lose are evaluated, up to a given number.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rarecell.engine.streaming import NamesOfRecords
from rarecell.errors import BadInput
from rarecell.intruder.register import MOST_CELLS, N_DRAWS, Register
from rarecell.model.protocol import CellModel
from rarecell.outcome.planned import WAYS, ReleasePoint
from rarecell.outcome.showing import Shown
from rarecell.planning.recodings import (
    OtherColumn,
    Step,
    association_kept,
    bits_lost,
    entropy,
    key_counts,
    ladders,
    recoded,
    relation_moved,
    settled,
)
from rarecell.progress import SILENT, OnlyCancelled, Progress, checkpoint
from rarecell.release.means import KeyInBothFiles, mean_changes
from rarecell.release.utility import BothFiles, hellinger_distances
from rarecell.risk.records import RecordRisk
from rarecell.swap.plan import SwapPlan
from rarecell.swap.rules import SwapConstraints
from rarecell.swap.target import SwapTarget, TargetPlan, plan_to_target
from rarecell.swap.task import SwapTask
from rarecell.table.columns import ColumnValues
from rarecell.table.contingency import ContingencyTable

# How many swaps are needed after a recoding, and what risk is left then?
#
# The only place where planning a release calls on swaps and intruders.


FEW_CELLS = 512
"""Cells around a released record that are asked to compare candidates; fewer overstate what an intruder finds."""

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
    most_cells = MOST_CELLS if fitted.rules is not None else FEW_CELLS
    planned, reported = (
        Register.modelled(fitted.risk, fitted.risk_model, n_draws=n_draws, most_cells=most_cells, seed=seed + more)
        for more in (0, 1)
    )
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
    is_quick = fitted.rules is None
    return plan_to_target(task, fitted.risk, wish, register=reported, is_quick=is_quick, progress=OnlyCancelled(progress))


MOST_CANDIDATES = 40
"""Number of candidates that are fitted and swapped by default."""

MOST_CONFIRMED = 8
"""Number of points of the frontier that are fitted again with care and shown; of more, a spread from least to most recoded."""

MOST_LOOKED_AT = 400
"""Number of candidates whose sample uniques are counted."""

STAGE = "planning the release"


Fit = Callable[[ContingencyTable], Fitted]
"""Fits the models of a recoded table."""


@dataclass(frozen=True)
class ReleaseFrontier(Shown):
    """The ways to release a file that no other way beats.

    Attributes
    ----------
    target : ReleaseTarget
        The target to be reached.
    points : tuple of ReleasePoint
        The frontier, least recoded first.
    looked_at : tuple of ReleasePoint
        Every candidate that was fitted.
    n_candidates : int
        Number of possible combinations of recodings.
    """

    target: ReleaseTarget
    points: tuple[ReleasePoint, ...]
    looked_at: tuple[ReleasePoint, ...] = field(repr=False)
    n_candidates: int

    @property
    def cheapest(self) -> dict[str, ReleasePoint]:
        """A few points, named by what they are best at: least recoding, fewest swaps, and a compromise; and other ways, if there are any."""
        met = [point for point in self.points if point.is_met and not WAYS[point.way].best_at]
        others = {
            way.best_at: min(points, key=lambda point: (point.information_lost, point.records_changed))
            for name, way in WAYS.items()
            if way.best_at and (points := [point for point in self.points if point.is_met and point.way == name])
        }
        if not met:
            return others
        most_lost = max(point.information_lost for point in met) or 1.0
        most_changed = max(point.records_changed for point in met) or 1
        chosen = {
            "least recoding": min(met, key=lambda p: (p.information_lost, p.records_changed)),
            "a compromise": min(met, key=lambda p: p.information_lost / most_lost + p.records_changed / most_changed),
            "fewest swaps": min(met, key=lambda p: (p.records_changed, p.information_lost)),
        }
        chosen = {name: point for number, (name, point) in enumerate(chosen.items()) if point not in [*chosen.values()][:number]}
        return {**chosen, **others}

    def __str__(self) -> str:
        if not self.cheapest:
            best = min(self.looked_at, key=lambda p: (p.highest, p.correct_links))
            return f"None of {len(self.looked_at):,} recodings reaches {self.target}, swaps included. The nearest is: {best}"
        named = " ".join(f"{name[:1].upper()}{name[1:]}: {point}" for name, point in self.cheapest.items())
        return f"{len(self.points):,} of {len(self.looked_at):,} recodings are worth considering for {self.target}. {named}"


def plan_release(
    table: ContingencyTable,
    fit: Fit,
    *,
    target: ReleaseTarget,
    keys: Sequence[str] | None = None,
    columns: Sequence[OtherColumn] = (),
    amounts: Amounts | None = None,
    confirm: Fit | None = None,
    most: int = MOST_CANDIDATES,
    seed: int = 0,
    progress: Progress = SILENT,
) -> ReleaseFrontier:
    """Search over recodings of keys, with swaps for what remains.

    Parameters
    ----------
    table : ContingencyTable
        The file as it is; its coarsenings are the user's hierarchies.
    fit : Fit
        Fits the models of a recoded table; called for every candidate, so it should be quick.
    target : ReleaseTarget
        The target to be reached.
    keys : sequence of str, optional
        Keys that may be recoded; by default, all.
    columns : sequence of OtherColumn, optional
        Columns outside the keys whose association with the keys is to be reported.
    amounts : Amounts, optional
        Columns of amounts whose means by level of a key are to be reported.
    confirm : Fit, optional
        Fits the models of the frontier's points again, with more care; the points then report these results.
    most : int, optional
        Largest number of candidates that are fitted.
    seed : int, optional
        Seed of all random choices.
    progress : Progress, optional
        Receives each candidate, and can ask to stop.

    Returns
    -------
    ReleaseFrontier
        The ways to release the file that no other way beats.
    """
    if most < 1:
        raise BadInput(f"The number of candidates was given as {most}; it must be at least 1.")
    steps = ladders(table, keys)
    n_candidates, chosen = candidates_of(table, steps, most)
    progress.start(STAGE, len(chosen))
    asked = _Question(table, target, tuple(columns), amounts, seed, progress)
    found: dict[tuple[int, ...], ReleasePoint] = {}
    for candidate in chosen:
        found[candidate] = asked.answer(fit, steps_of(steps, candidate))
        checkpoint(progress, STAGE, 1)
    progress.done()
    on_frontier = nondominated(found)
    if confirm is not None:
        on_frontier = _spread(on_frontier, MOST_CONFIRMED)
        progress.start("checking the frontier", len(on_frontier))
        for candidate in on_frontier:
            found[candidate] = asked.answer(confirm, steps_of(steps, candidate))
            checkpoint(progress, "checking the frontier", 1)
        progress.done()
        on_frontier = nondominated({candidate: found[candidate] for candidate in on_frontier})
    points = tuple(found[candidate] for candidate in on_frontier)
    return ReleaseFrontier(target, points, tuple(found.values()), n_candidates)


@dataclass(frozen=True, eq=False)
class _Question:
    """What every candidate is judged by."""

    table: ContingencyTable
    target: ReleaseTarget
    columns: tuple[OtherColumn, ...]
    amounts: Amounts | None
    seed: int
    progress: Progress

    def answer(self, fit: Fit, candidate: Sequence[Step]) -> ReleasePoint:
        steps = settled(self.table, candidate)
        changed = recoded(self.table, steps)
        fitted = fit(changed)
        swapped = swap_remainder(fitted, self.target, seed=self.seed, progress=self.progress)
        counts = key_counts(self.table)
        lost = bits_lost(counts, steps)
        total = sum(entropy(of_key) for of_key in counts.values())
        apart = _two_way(swapped.plan)
        means = _means_moved(swapped.plan, self.amounts)
        relation = relation_moved(self.columns, steps, swapped.plan)
        return ReleasePoint(
            recoding={step.key: step.words for step in steps if step.coarsening is not None},
            groups={step.key: step.groups for step in steps if step.coarsening is not None},
            levels={step.key: (len(counts[step.key]), step.n_levels) for step in steps},
            bits_lost=lost,
            information_lost=sum(lost.values()) / total if total > 0.0 else 0.0,
            sample_uniques=fitted.risk.n_sample_uniques,
            correct_links_recoded=fitted.risk.expected_correct_matches,
            population_uniques_recoded=fitted.risk.expected_population_uniques,
            swaps=len(swapped.plan),
            records_changed=2 * len(swapped.plan),
            values_changed=swapped.plan.n_values_changed,
            hellinger_mean=float(np.mean(apart)),
            hellinger_max=float(np.max(apart)),
            association_kept=association_kept(self.columns, steps, swapped.plan),
            correct_links=swapped.after.expected_correct_matches,
            population_uniques=swapped.after.expected_population_uniques,
            highest=swapped.after.highest,
            is_met=swapped.is_met,
            means_moved=means and means[0],
            means_moved_of="" if means is None else means[1],
            relation_moved=relation and relation[0],
            relation_moved_of="" if relation is None else relation[1],
        )


@dataclass(frozen=True, eq=False)
class Amounts:
    """Columns of amounts beside the keys, by record, and the survey weights of the records, if any."""

    columns: Mapping[str, NDArray[np.float64]]
    weights: NDArray[np.float64] | None = None


def _means_moved(plan: SwapPlan, amounts: Amounts | None) -> tuple[float, str] | None:
    """The largest change of a mean by level of a key through the swaps, and of which column by which key."""
    table = plan.table
    if amounts is None or not amounts.columns or table.record_cell is None:
        return None
    if not len(plan):
        return 0.0, ""
    release, keys = plan.release, []
    for k, categories in enumerate(table.categories):
        before = np.where(table.record_cell >= 0, table.cells[table.record_cell, k], -1).astype(np.int32)
        after = before.copy()
        after[release.rows] = release.released[:, k]
        keys.append(KeyInBothFiles(categories.key, before, after, categories.n_levels))
    both = {name: (values, values) for name, values in amounts.columns.items()}
    changes = mean_changes(keys, both, amounts.weights, most=1)
    return (changes[0].size, f"{changes[0].column} by {changes[0].key}") if changes else (0.0, "")


def _two_way(plan: SwapPlan) -> list[float]:
    if not len(plan):
        return [0.0]
    orders = hellinger_distances(BothFiles.of(plan.table, plan.table_after), orders=(2,))
    return [each.hellinger for each in orders.get(2, ())] or [0.0]


# ---------------------------------------------------------------------- candidates


def candidates_of(
    table: ContingencyTable, ladder_of_key: Sequence[Sequence[Step]], most: int
) -> tuple[int, list[tuple[int, ...]]]:
    """How many combinations of steps there are, and those to look at: all, or as many promising ones as are allowed."""
    n = math.prod(len(of_key) for of_key in ladder_of_key)
    return n, _all(ladder_of_key) if n <= most else _promising(table, ladder_of_key, most)


def _all(ladder_of_key: Sequence[Sequence[Step]]) -> list[tuple[int, ...]]:
    return [tuple(index) for index in np.ndindex(*(len(steps) for steps in ladder_of_key))]


def steps_of(ladder_of_key: Sequence[Sequence[Step]], candidate: Sequence[int]) -> list[Step]:
    return [steps[number] for steps, number in zip(ladder_of_key, candidate, strict=True)]


def _promising(table: ContingencyTable, ladder_of_key: Sequence[Sequence[Step]], most: int) -> list[tuple[int, ...]]:
    """Candidates with few sample uniques for the information they lose, spread from no recoding to the coarsest.

    From each candidate, one more step is taken on each key in turn; candidates that lose least per unique removed are
    followed first. Candidates that recode a single key are always included, as far as there is room.
    """
    counts = key_counts(table)

    def measured(candidate: tuple[int, ...]) -> tuple[float, int]:
        steps = settled(table, steps_of(ladder_of_key, candidate))
        return sum(bits_lost(counts, steps).values()), recoded(table, steps).size_indices.get(1, 0)

    start = tuple(0 for _ in ladder_of_key)
    looked_at = {start: measured(start)}
    n_before = looked_at[start][1]
    waiting = [(0.0, start)]
    while waiting and len(looked_at) < MOST_LOOKED_AT:
        _, candidate = heapq.heappop(waiting)
        for key, steps in enumerate(ladder_of_key):
            if candidate[key] + 1 < len(steps):
                coarser = (*candidate[:key], candidate[key] + 1, *candidate[key + 1 :])
                if coarser not in looked_at:
                    bits, uniques = looked_at[coarser] = measured(coarser)
                    heapq.heappush(waiting, (bits / max(n_before - uniques, 1), coarser))
    single = [candidate for candidate in looked_at if sum(step > 0 for step in candidate) == 1]
    best = _lower_hull(looked_at)
    chosen = dict.fromkeys([start, *best])
    spread = sorted(chosen, key=lambda candidate: looked_at[candidate][0])
    spread = _spread(spread, most)
    room = [candidate for candidate in single if candidate not in spread][: most - len(spread)]
    others = sorted(set(looked_at) - set(spread) - set(room), key=lambda c: looked_at[c][0] * (1 + looked_at[c][1]))
    return [*spread, *room, *others[: most - len(spread) - len(room)]]


def _spread(candidates: list[tuple[int, ...]], most: int) -> list[tuple[int, ...]]:
    """At most so many of the candidates, the first and the last among them, evenly chosen in their order."""
    if len(candidates) <= most:
        return candidates
    return [candidates[number] for number in np.unique(np.linspace(0, len(candidates) - 1, most).round().astype(int)).tolist()]


def _lower_hull(measured: Mapping[tuple[int, ...], tuple[float, int]]) -> list[tuple[int, ...]]:
    """Candidates that no other beats in both numbers."""
    found, fewest = [], math.inf
    for candidate, (_, uniques) in sorted(measured.items(), key=lambda item: (item[1], item[0])):
        if uniques < fewest:
            found.append(candidate)
            fewest = uniques
    return found


def nondominated(points: Mapping[tuple[int, ...], ReleasePoint]) -> list[tuple[int, ...]]:
    """Points that meet the target and that no other beats in information and changed records.

    When no point meets the target, those that no other beats in information and risk.
    """
    met = {candidate: point for candidate, point in points.items() if point.is_met}

    def cost(point: ReleasePoint) -> tuple[float, float, float]:
        if met:
            return (round(point.information_lost, 12), float(point.records_changed), point.correct_links)
        return (round(point.information_lost, 12), point.correct_links, point.highest)

    in_order = sorted((met or dict(points)).items(), key=lambda item: (cost(item[1]), item[0]))
    found: list[tuple[int, ...]] = []
    fewest = math.inf
    for candidate, point in in_order:
        if cost(point)[1] < fewest:
            found.append(candidate)
            fewest = cost(point)[1]
    return found
